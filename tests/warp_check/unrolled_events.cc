// What one op of a warp program does, as events: which bytes, columns and barriers it touches, and
// who takes part. One switch over the ops that do anything at all.
//
// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "ir/row_run.h"
#include "tests/warp_check/columns.h"
#include "tests/warp_check/unroller.h"

namespace tilec::ir {

ValueId TouchedTensor(const Op& op, bool* write) {
  switch (op.kind) {
    case OpKind::kGLoad:
    case OpKind::kGLoadScalar: *write = false; return op.operands[0];
    case OpKind::kGStore:
    case OpKind::kGStoreScalar:
    case OpKind::kGAtomic:
    case OpKind::kGAtomicScalar: *write = true; return op.operands[0];
    default: return {};
  }
}

Event& Unroller::Add(What what, Who who, OpId id) {
  out_->push_back({what, who, id});
  return out_->back();
}

bool Unroller::In(int64_t number, const Type& ring) {
  if (number >= 0 && number < ring.depth) return true;
  if (made_.ok) made_.fault = "a slot beyond its ring";
  return made_.ok = false;
}

int Unroller::Barrier(ValueId mbar, ValueId slot) {
  const auto it = first_.find(mbar);
  const int64_t number = slot.valid() ? Sure(slot) : 0;
  if (it == first_.end()) return made_.ok = false, 0;
  if (!In(number, fn_.type(mbar))) return 0;
  return it->second + static_cast<int>(number);
}

// Bytes of a slot of a buffer, or of a box in it.
void Unroller::Bytes(Event& e, ValueId buffer, ValueId slot, const Op* box) {
  const Op* alloc = fn_.def(buffer);
  if (!alloc || alloc->kind != OpKind::kSmemAlloc) {
    made_.ok = false;
    return;
  }
  const Type& type = fn_.type(buffer);
  const int64_t each = SmemBytes(type.smem, type.dtype);
  const int64_t number = slot.valid() ? Sure(slot) : 0;
  if (!In(number, type)) return;
  e.lo = alloc->i("offset") + number * each;
  e.hi = e.lo + each;
  if (!box) return;
  e.lo += box->i("offset");
  e.bytes = ByteSize(type.dtype);
  for (int64_t extent : fn_.launch.maps[static_cast<size_t>(box->i("map"))].box) e.bytes *= extent;
  e.hi = e.lo + e.bytes;
}

void Unroller::Touch(OpId id, Who who, ValueId buffer, ValueId slot, bool write) {
  Event& e = Add(What::kTouch, who, id);
  e.write = write;
  Bytes(e, buffer, slot);
}

// Columns of tensor memory, by a product or by threads.
void Unroller::Columns(OpId id, Who who, What what) {
  const Op& op = fn_.ops[id];
  for (const ColumnRun& run : ColumnsOf(fn_, op, warps_)) {
    Event& e = Add(what, who, id);
    const size_t address = what == What::kByProduct || op.kind == OpKind::kTmemLoad ? 0 : 1;
    const int64_t base = Sure(op.operands[address]);
    e.columns = true, e.write = run.write, e.group = run.group;
    e.lo = base + run.first, e.hi = base + run.end;
  }
}

void Unroller::Scratch(OpId id) {
  const int64_t alone = fn_.ops[id].i("alone");
  const auto touch = [&](OpId of, bool write) {
    const Op& op = fn_.ops[of];
    Event& e = Add(What::kTouch, Who::kAll, of);
    e.write = write;
    e.lo = op.i("scratch");
    e.hi = e.lo + ScratchBytesOf(fn_, op);
  };
  if (alone == 0) Add(What::kSync, Who::kAll, id);
  touch(id, true);
  unread_.push_back(id);
  if (alone == 2) return;  // at the barrier of the next
  Add(What::kSync, Who::kAll, id);
  for (OpId one : std::exchange(unread_, {})) touch(one, false);
}

// One CTA of a cluster is followed where it meets the others as a whole: not where their threads
// arrive at its barriers, or copy into its memory.
bool Unroller::ReachesOtherCtas(const Op& op) {
  if (op.kind == OpKind::kMbarInit) return false;
  return op.i("cluster") || op.i("leader") || op.i("share") || op.i("pair");
}

// Warps write their parts, meet those of all CTAs, and read; nobody goes on before all have read.
void Unroller::Exchange(OpId id) {
  const ValueId buffer = fn_.ops[id].operands[1];
  for (const bool write : {true, false}) {
    Event& e = Add(What::kTouch, Who::kAll, id);
    e.write = write;
    Bytes(e, buffer, {});
    const Type& type = fn_.type(buffer);
    e.hi = e.lo + type.depth * SmemBytes(type.smem, type.dtype);
    Add(What::kSync, Who::kAll, id);
  }
}

void Unroller::Do(OpId id, Who who) {
  const Op& op = fn_.ops[id];
  if (steering_ == nullptr && ReachesOtherCtas(op)) made_.ok = false;
  if (!op.regions.empty()) return Structure(op, who);
  if (steering_ != nullptr) return Steer(op);
  core_.Do(id);
  bool write = false;
  if (const auto tensor = tensors_.find(TouchedTensor(op, &write)); tensor != tensors_.end()) {
    Event& e = Add(What::kTouch, who, id);
    e.write = write, e.tensor = true;
    e.lo = tensor->second, e.hi = e.lo + 1;
  }
  auto at = [&](size_t i) { return i < op.operands.size() ? op.operands[i] : ValueId(); };
  switch (op.kind) {
    case OpKind::kMbarInit:
      for (int64_t i = 0; i < fn_.type(op.operands[0]).depth; ++i) {
        Event& e = Add(What::kInit, who, id);
        e.barrier = Barrier(op.operands[0], {}) + static_cast<int>(i);
        e.number = op.i("count");
      }
      return;
    case OpKind::kMbarExpect:
    case OpKind::kMbarArrive: {
      Event& e = Add(What::kArrive, who, id);
      e.barrier = Barrier(op.operands[0], at(1));
      e.bytes = op.kind == OpKind::kMbarExpect ? op.i("bytes") : 0;
      return;
    }
    case OpKind::kMbarWait: {
      Event& e = Add(What::kWait, who, id);
      e.barrier = Barrier(op.operands[0], at(2));
      e.number = Sure(op.operands[1]) & 1;
      return;
    }
    case OpKind::kCtaSync: Add(What::kSync, who, id); return;
    case OpKind::kTmaLoad: {
      const ValueId slot = op.i("slotted") ? op.operands.back() : ValueId();
      Event& e = Add(What::kCopyIn, who, id);
      Bytes(e, op.operands[0], slot, &op);
      e.barrier = Barrier(op.operands[1], fn_.type(op.operands[1]).depth > 1 ? slot : ValueId());
      e.write = true;
      return;
    }
    case OpKind::kCpLoad: {
      Event& e = Add(What::kCpAsync, who, id);
      Bytes(e, op.operands[1], op.i("slotted") ? op.operands.back() : ValueId());
      e.write = true;
      return;
    }
    case OpKind::kCpArrive: {
      Event& e = Add(What::kCpDone, who, id);
      e.barrier = Barrier(op.operands[0], at(1));
      return;
    }
    case OpKind::kTmaStore: {
      const size_t dims = fn_.launch.maps[static_cast<size_t>(op.i("map"))].dims.size();
      Bytes(Add(What::kCopyOut, who, id), op.operands[0], at(1 + dims), &op);
      return;
    }
    case OpKind::kMma:
      if (fn_.type(op.operands[1]).kind == TypeKind::kSmem)
        Bytes(Add(What::kProduct, who, id), op.operands[1], at(3));
      Bytes(Add(What::kProduct, who, id), op.operands[2], at(4));
      return;
    case OpKind::kTmaCommit:
    case OpKind::kMmaCommit:
      Add(What::kCommit, who, id).copies = op.kind == OpKind::kTmaCommit;
      return;
    case OpKind::kTmaWait:
    case OpKind::kMmaWait: {
      Event& e = Add(What::kAwait, who, id);
      e.copies = op.kind == OpKind::kTmaWait;
      e.number = op.i("pending");
      return;
    }
    case OpKind::kSmemStore: Touch(id, who, op.operands[1], at(2), true); return;
    case OpKind::kSmemZero: Touch(id, who, op.operands[0], at(1), true); return;
    case OpKind::kSmemLoad: Touch(id, who, op.operands[0], at(1), false); return;
    case OpKind::kSimtDot:
      Touch(id, who, op.operands[1], {}, false);
      Touch(id, who, op.operands[2], {}, false);
      return;
    case OpKind::kCounter:
    case OpKind::kCounterAdd:
    case OpKind::kCounterRead: return Steer(op);
    case OpKind::kTmemAlloc:
      Steer(op);
      Add(What::kSync, who, id);
      return;
    case OpKind::kTcMma:
      Add(What::kIssue, who, id);
      if (op.i("a_column") < 0)
        Bytes(Add(What::kByProduct, who, id), op.operands[1], op.operands[3]);
      Bytes(Add(What::kByProduct, who, id), op.operands[2], op.operands[4]);
      return Columns(id, who, What::kByProduct);
    case OpKind::kTmemLoad:
    case OpKind::kTmemStore:
    case OpKind::kTmemScales: return Columns(id, who, What::kByThreads);
    case OpKind::kTcCommit:
      Add(What::kTell, who, id).barrier = Barrier(op.operands[0], at(1));
      return;
    case OpKind::kTcFence: Add(What::kFence, who, id).number = op.i("after"); return;
    case OpKind::kClusterSync: Add(What::kSync, who, id); return;
    case OpKind::kWarpClusterReduce: Exchange(id); return;
    default: break;
  }
  if (op.attr("scratch") && op.i("scratch") >= 0) Scratch(id);
  if (op.results.size() != 1 || !fn_.type(op.results[0]).is_scalar()) return;
  Compute(op);
}

}  // namespace tilec::ir
