// Shared memory: what must come before what.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ir/row_run.h"
#include "ir/warp_check/machine.h"

namespace tilec::ir::warp_check {

bool Machine::Known(const Record& r, const Clock& clock) const {
  const auto component = static_cast<size_t>(ClockOf(r));
  switch (r.proxy) {
    case Proxy::kGeneric: return clock[component] >= r.n;
    case Proxy::kProduct:
    case Proxy::kCopyOut: return r.end >= 0 && clock[component] >= r.end;
    case Proxy::kThreadCopy:
    case Proxy::kCopyIn:
      return r.slot >= 0 && clock[static_cast<size_t>(SlotComponent(r.slot))] > r.phase;
    case Proxy::kTensorProduct:
      return clock[static_cast<size_t>(ProductsOf(r.component / 2))] >= r.n;
    case Proxy::kTensorAccess:
      return clock[static_cast<size_t>(AccessesOf(r.component / 2))] >= r.n;
  }
  return false;
}

// How late an access of this role to a region may have been that every part has met since.
int32_t Machine::MetInParts(const Record& r, int region) {
  const bool dealt = region < p_.smem_regions() && p_.dealt[static_cast<size_t>(region)];
  return dealt && r.component / 2 == role_ ? me().parts_met : -1;
}

std::string Machine::Whose(const Record& r) const {
  return fmt::format("`{}` of role `{}`", OpName(r.op), RoleOf(r.component));
}

bool Machine::SlotNumber(const Op& op, ValueId slot, int64_t depth, int64_t* number) {
  *number = 0;
  if (slot.valid()) {
    const Scalar s = Get(slot);
    if (!s.constant()) {
      Fail(kWarpForm, op, "its slot does not follow from counters");
      return false;
    }
    *number = s.add;
  }
  if (*number >= 0 && *number < depth) return true;
  Fail(kWarpForm, op, fmt::format("it uses slot {} of a ring of {}", *number, depth));
  return false;
}

bool Machine::AccessBuffer(OpId id, ValueId buffer, ValueId slot, Proxy proxy, bool write,
                           const Record& how) {
  const Op& op = fn_.ops[id];
  const auto it = p_.buffers.find(buffer);
  if (it == p_.buffers.end()) {
    Fail(kWarpForm, op, "its buffer is not an allocation");
    return false;
  }
  int64_t number = 0;
  if (!SlotNumber(op, slot, it->second.depth, &number)) return false;
  const int64_t begin = it->second.offset + number * it->second.slot_bytes;
  return Access(id, buffer, {begin, it->second.slot_bytes}, proxy, write, how);
}

// One access by the executing threads: everything it conflicts with must be known to be done, and
// ordinary accesses before asynchronous ones fenced. Then it is remembered in place of what it
// follows: whoever knows this one is done knows the same of those.
bool Machine::Access(OpId id, ValueId buffer, const Extent& bytes, Proxy proxy, bool write,
                     const Record& how) {
  const Op& op = fn_.ops[id];
  const auto [first, last] = p_.RegionsOf(bytes.first, bytes.first + bytes.count);
  for (int i = first; i < last; ++i) {
    if (!write && !s_->regions[static_cast<size_t>(i)].written &&
        (!buffer.valid() || p_.FilledThrough(buffer, i))) {
      Fail(kWarpUnfilled, op,
           fmt::format("it reads {} before anything fills it", p_.RegionName(i)));
      return false;
    }
    Record own = how;
    own.apart = ApartOfRegion(i);
    if (!AccessRegion(op, id, i, proxy, write, own)) return false;
  }
  return !buffer.valid() || AccessUnder(op, id, buffer, proxy, write, how);
}

// Of a buffer that was set aside: every slot of what it lies over. What that held is gone.
bool Machine::AccessUnder(const Op& op, OpId id, ValueId buffer, Proxy proxy, bool write,
                          const Record& how) {
  for (ValueId under : p_.buffers.at(buffer).over) {
    const Buffer& b = p_.buffers.at(under);
    const auto [first, last] = p_.RegionsOf(b.offset, b.end());
    for (int i = first; i < last; ++i) {
      if (!AccessRegion(op, id, i, proxy, write, how)) return false;
      if (write) s_->regions[static_cast<size_t>(i)].written = false;
    }
  }
  return true;
}

// Of a scalar that is handed over: each one that is put is taken once, before the next is put. So
// the n-th take reads what the n-th put wrote, and neither an older one nor a later.
bool Machine::TakesTurns(OpId id) {
  const auto it = p_.hand_of.find(id);
  if (it == p_.hand_of.end()) return true;
  char& handed = s_->handed[static_cast<size_t>(it->second)];
  const bool puts = p_.hands[static_cast<size_t>(it->second)].put == id;
  if (puts == (handed != 0)) {
    Fail(puts ? kWarpOverwrite : kWarpUnfilled, fn_.ops[id],
         puts ? "it hands a scalar over before the one before it was taken"
              : "it takes a scalar before it is handed over");
    return false;
  }
  handed = puts;
  return true;
}

// Tensors that are read and written: a read and a write are ordered like those of shared memory.
// Writes among themselves are not followed: they are of other elements.
bool Machine::AccessTensor(OpId id) {
  bool write = false;
  const ValueId tensor = p_.SharedTensor(fn_.ops[id], &write);
  return !tensor.valid() ||
         AccessRegion(fn_.ops[id], id, p_.shared_tensors.at(tensor), Proxy::kGeneric, write, {});
}

bool Machine::AccessRegion(const Op& op, OpId id, int number, Proxy proxy, bool write,
                           const Record& how) {
  const Clock& knows = Knows();
  const bool tensor = number >= p_.smem_regions();
  Region& region = s_->regions[static_cast<size_t>(number)];
  for (const Record& r : region.records) {
    if ((!write && !r.write) || (tensor && write && r.write)) continue;
    const int32_t met = MetInParts(r, number);
    const int32_t over = r.proxy == Proxy::kGeneric ? r.n : r.end;
    const bool ends_elsewhere = IsCopyIn(r.proxy) || r.proxy == Proxy::kTensorProduct;
    if (!Known(r, knows) && (ends_elsewhere || over < 0 || over > met)) {
      Fail(write ? kWarpOverwrite : kWarpUnfilled, op,
           fmt::format("it {} {}, but nothing orders it after {}", write ? "writes" : "reads",
                       p_.RegionName(number), Whose(r)));
      return false;
    }
    const bool crosses = IsGeneric(r.proxy) && !IsGeneric(proxy);
    const int32_t known = std::max(knows[static_cast<size_t>(ClockOf(r))], met);
    const Role& other = s_->roles[static_cast<size_t>(r.component / 2)];
    if (r.component / 2 == role_ && !ends_elsewhere)
      OnlyOne(other.syncs, r.proxy == Proxy::kGeneric ? r.n : r.end - 1, me().now);
    if (crosses) OnlyOne(other.fences, r.n, known);
    // No fence of those who copied covers copies that had not landed.
    if (crosses && (r.fence < 0 || known < r.fence || r.proxy == Proxy::kThreadCopy)) {
      Fail(kWarpFence, op,
           fmt::format("no fence_async stands between {} and this access to {}", Whose(r),
                       p_.RegionName(number)));
      return false;
    }
  }
  Record r = how;
  r.proxy = proxy;
  r.write = write;
  r.component = Mine();
  r.n = proxy == Proxy::kTensorProduct ? me().products : me().now;
  r.op = id;
  if (write && !tensor) {
    region.records.clear();
    region.written = true;
  } else {
    std::erase_if(region.records, [&](const Record& o) {
      return o.write == write && ClockOf(o) == ClockOf(r) && o.proxy == proxy;
    });
  }
  region.records.push_back(r);
  return true;
}

void Machine::Fence() {
  if (who_ == Who::kWarps) return;  // one thread of each warp: it covers nobody's accesses
  for (Region& region : s_->regions)
    for (Record& r : region.records)
      if (r.proxy == Proxy::kGeneric && r.fence < 0 && r.component / 2 == role_ &&
          (who_ == Who::kAll || r.component % 2 == 1))
        r.fence = me().now;
}

// A barrier of all threads of the role: what one knows, all know.
void Machine::SyncRole() {
  Role& r = me();
  for (const int c : {2 * role_, 2 * role_ + 1}) {
    r.all.Set(static_cast<size_t>(c), r.now);
    for (int a = 0; a < apart(); ++a)
      if (MeetsFor(role_, a)) r.all.Set(static_cast<size_t>(ClockOf(c, a)), r.now);
  }
  if (r.fenced > 0) r.elected.Raise(static_cast<size_t>(AccessesOf(role_)), r.fenced);
  Join(r.all, r.elected);
  r.elected = r.all;
}

namespace {
// With the next op's, which stands right behind it.
bool SharesBarrier(const Op& op) { return op.i("alone", 0) == 2; }
}  // namespace

int64_t Machine::ScratchBytes(OpId id) {
  scratch_bytes_.resize(static_cast<size_t>(fn_.ops.size()), -1);
  int64_t& bytes = scratch_bytes_[static_cast<size_t>(id.index)];
  if (bytes < 0) bytes = ScratchBytesOf(fn_, fn_.ops[id]);
  return bytes;
}

// Ops that pass through scratch synchronise between writing and reading, and before if other ops
// use the same bytes or it is done again.
bool Machine::Scratch(OpId id) {
  const Op& op = fn_.ops[id];
  if (who_ != Who::kAll) {
    Fail(kWarpForm, op, "it synchronises the role inside an elect");
    return false;
  }
  const int64_t bytes = ScratchBytes(id);
  const int64_t begin = op.i("scratch");
  if (!op.i("alone", 0)) {
    SyncRole();
    Remember(me().syncs, id);
    Tick();
  }
  if (!Access(id, {}, {begin, bytes}, Proxy::kGeneric, true, {})) return false;
  if (SharesBarrier(op)) return true;
  SyncRole();
  Remember(me().syncs, id);
  Tick();
  // Those that share the barrier read behind it, too.
  const std::vector<OpId>& ops = fn_.blocks[op.block].ops;
  auto first = std::find(ops.begin(), ops.end(), id);
  const auto end = first + 1;
  while (first != ops.begin() && SharesBarrier(fn_.ops[*(first - 1)])) --first;
  return std::all_of(first, end, [&](OpId one) {
    const Op& reads = fn_.ops[one];
    const int64_t at = reads.i("scratch");
    return Access(one, {}, {at, ScratchBytes(one)}, Proxy::kGeneric, false, {});
  });
}

Step Machine::CopyIn(OpId id) {
  const Op& op = fn_.ops[id];
  if (who_ != Who::kElected)
    return Fail(kWarpForm, op, "more than one thread would start this copy");
  const ValueId slot = SlotOperand(op, fn_);
  const ValueId mbar_slot = fn_.type(op.operands[1]).depth > 1 ? slot : ValueId();
  const int barrier = BarrierOf(op, op.operands[1], mbar_slot);
  if (barrier < 0) return Step::kFailed;
  Barrier& b = s_->barriers[static_cast<size_t>(barrier)];
  if (me().elected[static_cast<size_t>(SlotComponent(barrier))] != b.phase)
    return Fail(kWarpPhase, op,
                fmt::format("its bytes may reach {} in another phase than the one "
                            "that expects them",
                            p_.BarrierName(barrier)));
  const auto it = p_.buffers.find(op.operands[0]);
  if (it == p_.buffers.end()) return Fail(kWarpForm, op, "its buffer is not an allocation");
  int64_t number = 0;
  if (!SlotNumber(op, slot, it->second.depth, &number)) return Step::kFailed;
  const int64_t begin = it->second.offset + number * it->second.slot_bytes + op.i("offset");
  Record how;
  how.slot = barrier;
  how.phase = b.phase;
  if (!Access(id, op.operands[0], {begin, p_.BoxBytes(op)}, Proxy::kCopyIn, true, how))
    return Step::kFailed;
  b.delivered += p_.BoxBytes(op);
  if (trace) b.filling.push_back(static_cast<int>(trace->size()) - 1);
  Clock told = Told();
  TellOfOneSlot(told, barrier);
  Join(b.pending, told);
  return TryComplete(op, barrier) ? Step::kDone : Step::kFailed;
}

// cp.async: writes of all threads of the role, which nobody knows of, these threads included, until
// the phase completes in which a cp_arrive behind them counts.
Step Machine::CopyByThreads(OpId id) {
  const Op& op = fn_.ops[id];
  if (who_ != Who::kAll)
    return Fail(kWarpForm, op, "all threads of the role copy, not those of an elect");
  bool write = false;
  if (p_.SharedTensor(op, &write).valid())
    return Fail(kWarpForm, op, "a tensor that the kernel writes is not copied behind its back");
  return AccessBuffer(id, op.operands[1], SlotOperand(op, fn_), Proxy::kThreadCopy, true)
             ? Step::kDone
             : Step::kFailed;
}

// The copies so far are those of the phase that is being filled.
Step Machine::ArriveByCopies(OpId id) {
  const Op& op = fn_.ops[id];
  if (who_ != Who::kAll)
    return Fail(kWarpForm, op, "all threads of the role arrive, not those of an elect");
  const int barrier = BarrierOf(op, op.operands[0], SlotOperand(op, fn_));
  if (barrier < 0) return Step::kFailed;
  const int32_t phase = s_->barriers[static_cast<size_t>(barrier)].phase;
  for (Region& region : s_->regions)
    for (Record& r : region.records)
      if (r.proxy == Proxy::kThreadCopy && r.slot < 0 && r.component == Mine())
        r.slot = barrier, r.phase = phase;
  return Arrive(id, -1);
}

Step Machine::CopyOut(OpId id) {
  const Op& op = fn_.ops[id];
  if (who_ != Who::kElected)
    return Fail(kWarpForm, op, "more than one thread would start this copy");
  const auto it = p_.buffers.find(op.operands[0]);
  if (it == p_.buffers.end()) return Fail(kWarpForm, op, "its buffer is not an allocation");
  int64_t number = 0;
  if (!SlotNumber(op, SlotOperand(op, fn_), it->second.depth, &number)) return Step::kFailed;
  const int64_t begin = it->second.offset + number * it->second.slot_bytes + op.i("offset");
  Record how;
  how.flight = me().ids++;
  me().bulk.push_back({how.flight, -1});
  return Access(id, op.operands[0], {begin, p_.CopiedBytes(op)}, Proxy::kCopyOut, false, how)
             ? Step::kDone
             : Step::kFailed;
}

void Machine::WaitCopies(int64_t pending) {
  Role& r = me();
  const auto done = [&](const std::pair<int32_t, int32_t>& copy) {
    return copy.second >= 0 && copy.second < r.bulk_commits - pending;
  };
  for (const auto& copy : r.bulk) {
    if (!done(copy)) continue;
    for (Region& region : s_->regions)
      for (Record& record : region.records)
        if (record.proxy == Proxy::kCopyOut && record.component == Mine() &&
            record.flight == copy.first)
          record.end = r.now;
  }
  std::erase_if(r.bulk, done);
}

}  // namespace tilec::ir::warp_check
