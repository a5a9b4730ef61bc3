// Products that complete at an mbarrier, and tensor memory: who may touch which columns when.
//
// Two components of knowledge for each role count what no thread's own steps tell: products of the
// role that are complete (a commit tells how many were issued before it), and accesses of tensor
// memory by its threads (told by what stands behind a fence before). Knowledge counts for tensor
// memory as it was at the last fence after: `seen` of a role. A product of the same thread comes
// behind those before it.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ir/matrix_unit.h"
#include "ir/warp_check/machine.h"
#include "support/check.h"

namespace tilec::ir::warp_check {

bool Machine::KnownInTensorMemory(const Record& r, OpId id, int64_t column) const {
  const int owner = r.component / 2;
  const Role& role = s_->roles[static_cast<size_t>(role_)];
  const Clock& seen = who_ == Who::kElected ? role.tensor_elected : role.tensor_all;
  const bool product = r.proxy == Proxy::kTensorProduct;
  if (owner == role_ && product == (who_ == Who::kElected)) {
    if (product) return true;  // of the one thread, in order
    // Threads know their own, and other warpgroups none of them.
    const int warps = p_.roles[static_cast<size_t>(role_)].warps;
    const int group = WarpgroupAt(fn_, fn_.ops[id], warps, column);
    if (group >= 0 && group == WarpgroupAt(fn_, fn_.ops[r.op], warps, column)) return true;
  }
  const int component = product ? ProductsOf(owner) : AccessesOf(owner);
  return !seen.empty() && seen[static_cast<size_t>(component)] >= r.n;
}

// Columns between the allocation and where an access begins: those of the slots before its own.
bool Machine::TensorOffset(OpId id, int64_t* columns) {
  const Op& op = fn_.ops[id];
  const TensorBase base = TensorBaseOf(fn_, op);
  int64_t number = 0;
  if (!base.allocation.valid()) {
    Fail(kWarpForm, op, "its address does not follow from the allocation of tensor memory");
    return false;
  }
  if (!SlotNumber(op, base.slot, base.slots, &number)) return false;
  *columns = number * base.pitch;
  return true;
}

// Columns are told apart by where they are: slots of an accumulator are tiles of their own.
int32_t Machine::NumberOf(ColumnTile tile, int64_t offset) {
  tile.column += offset;
  return column_tiles_.try_emplace(tile, static_cast<int32_t>(column_tiles_.size())).first->second;
}

// Columns, by the executing threads. Columns are read as they were written:
// the same tile, and so the same place in it. A product that adds reads, too.
bool Machine::AccessColumns(OpId id, const Extent& columns, Proxy proxy, bool write, int32_t tile,
                            Reads before) {
  const auto& [first, count] = columns;
  const Op& op = fn_.ops[id];
  const TensorBase base = TensorBaseOf(fn_, op);
  const int64_t allocated = fn_.ops[base.allocation].i("columns");
  const int64_t cta = FirstColumnOf(fn_, base);
  if (first < 0 || first + count > allocated) {
    Fail(kWarpForm, op,
         fmt::format("it touches columns {} to {} of {} that are allocated", first,
                     first + count - 1, allocated));
    return false;
  }
  const auto [begin, end] = p_.TensorRegionsOf(cta + first, cta + first + count);
  const int warps = p_.roles[static_cast<size_t>(role_)].warps;
  const bool reads = !write || before == Reads::kYes;
  for (int i = begin; i < end; ++i) {
    Region& region = s_->regions[static_cast<size_t>(i)];
    const int64_t column =
        p_.tensor_columns[static_cast<size_t>(i - p_.first_tensor_region())] - cta;
    if (reads && !region.written) {
      Fail(kWarpUnfilled, op,
           fmt::format("it reads {} before anything fills it", p_.RegionName(i)));
      return false;
    }
    if (reads && region.tile != tile) {
      Fail(kWarpUnfilled, op,
           fmt::format("it reads {} as columns of another tile than was written there",
                       p_.RegionName(i)));
      return false;
    }
    for (const Record& r : region.records) {
      if ((!write && !r.write) || KnownInTensorMemory(r, id, column)) continue;
      Fail(write ? kWarpOverwrite : kWarpUnfilled, op,
           fmt::format("it {} {}, but nothing orders it after {}", write ? "writes" : "reads",
                       p_.RegionName(i), Whose(r)));
      return false;
    }
    Record r;
    r.proxy = proxy;
    r.write = write;
    r.component = Mine();
    r.n = proxy == Proxy::kTensorProduct ? me().products : me().accesses;
    r.op = id;
    if (write) {
      region.records.clear();
      region.written = true;
      region.tile = tile;
    } else {
      std::erase_if(region.records, [&](const Record& o) {
        return !o.write && o.component == r.component && o.proxy == proxy &&
               (proxy == Proxy::kTensorProduct || WarpgroupAt(fn_, fn_.ops[o.op], warps, column) ==
                                                      WarpgroupAt(fn_, op, warps, column));
      });
    }
    region.records.push_back(r);
  }
  return true;
}

Step Machine::IssueByBarrier(OpId id) {
  const Op& op = fn_.ops[id];
  if (who_ != Who::kElected)
    return Fail(kWarpForm, op, "more than one thread would issue this product");
  ++me().products;
  me().uncommitted = true;
  const int64_t m = op.i("m"), column = op.i("column"), left = op.i("a_column");
  int64_t offset = 0;
  if (!TensorOffset(id, &offset)) return Step::kFailed;
  if (TensorBaseOf(fn_, op).slot.valid() && (left >= 0 || op.i("block") != 0))
    return Fail(kWarpForm, op, "its operands lie beside a slot of an accumulator");
  const Scalar adding = Get(op.operands[5]);  // not known: it may begin a sum
  const Reads adds = adding.constant() && adding.add != 0 ? Reads::kYes : Reads::kNo;
  const int64_t cta = FirstColumnOf(fn_, TensorBaseOf(fn_, op));
  for (const auto& [first, end] : ScaleColumnsOf(fn_, op))
    if (!AccessColumns(id, {first, end - first}, Proxy::kTensorProduct, false,
                       NumberOf(ScalesFrom(first), cta)))
      return Step::kFailed;
  const bool ok =
      (left >= 0
           ? AccessColumns(id, {left, TensorOperandColumns(m, op.i("k_begin") + op.i("k"))},
                           Proxy::kTensorProduct, false, NumberOf(LeftOfProduct(op), cta))
           : AccessBuffer(id, op.operands[1], op.operands[3], Proxy::kTensorProduct, false)) &&
      AccessBuffer(id, op.operands[2], op.operands[4], Proxy::kTensorProduct, false) &&
      AccessColumns(id, {column + offset, TensorColumns(m, op.i("n"))}, Proxy::kTensorProduct, true,
                    NumberOf(SumOfProduct(op), cta + offset), adds);
  return ok ? Step::kDone : Step::kFailed;
}

// An arrival that comes when all products of the thread are done. It tells that, and what the
// thread had seen: the products ran behind it. It also tells that the thread has come here, past
// its waits; of its own ordinary accesses it says nothing, and the one thread that issues products
// makes none.
Step Machine::CommitProducts(OpId id) {
  const Op& op = fn_.ops[id];
  if (who_ != Who::kElected) return Fail(kWarpForm, op, "more than one thread would commit");
  const int slot = BarrierOf(op, op.operands[0], SlotOperand(op, fn_));
  if (slot < 0) return Step::kFailed;
  me().uncommitted = false;
  Clock told = me().elected;
  told.Set(static_cast<size_t>(2 * role_ + 1), me().now);
  told.Set(static_cast<size_t>(ProductsOf(role_)), me().products);
  s_->barriers[static_cast<size_t>(slot)].by_commit = true;
  return ArriveTelling(id, slot, 1, -1, told);
}

void Machine::FenceTensorMemory(bool after) {
  Role& r = me();
  if (!after) {
    if (who_ == Who::kAll) r.fenced = r.accesses;
    return;
  }
  r.tensor_elected = r.elected;
  if (who_ == Who::kElected) return;
  r.tensor_all = r.all;
  Join(r.tensor_elected, r.all);
}

Step Machine::AccessByThreads(OpId id) {
  const Op& op = fn_.ops[id];
  if (who_ != Who::kAll) return Fail(kWarpForm, op, "only some threads would make this access");
  const bool write = op.kind != OpKind::kTmemLoad;
  int64_t offset = 0;
  if (!TensorOffset(id, &offset)) return Step::kFailed;
  ++me().accesses;
  const int32_t tile =
      NumberOf(TileByThreads(fn_, op), FirstColumnOf(fn_, TensorBaseOf(fn_, op)) + offset);
  for (const auto& [first, end] :
       TensorColumnsOf(fn_, op, p_.roles[static_cast<size_t>(role_)].warps))
    if (!AccessColumns(id, {first + offset, end - first}, Proxy::kTensorAccess, write, tile))
      return Step::kFailed;
  return Step::kDone;
}

Step Machine::TensorMemory(OpId id) {
  switch (fn_.ops[id].kind) {
    case OpKind::kTmemAlloc: SyncRole(); return Step::kDone;
    case OpKind::kTcMma: return IssueByBarrier(id);
    case OpKind::kTcCommit: return CommitProducts(id);
    case OpKind::kTcFence: FenceTensorMemory(fn_.ops[id].i("after") != 0); return Step::kDone;
    case OpKind::kTmemLoad:
    case OpKind::kTmemStore:
    case OpKind::kTmemScales: return AccessByThreads(id);
    default: UNREACHABLE("no op of tensor memory");
  }
}

}  // namespace tilec::ir::warp_check
