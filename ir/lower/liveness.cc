// Which registers of a role's tiles are alive at once: liveness over its structured program,
// register by register.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/lower/pressure.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "ir/isa.h"
#include "ir/layout_scratch.h"
#include "ir/lower/held.h"
#include "ir/queries.h"
#include "support/check.h"

namespace tilec::ir {

namespace {

// Values with those of their registers that are alive.
using Live = std::map<ValueId, std::vector<bool>>;

void JoinLive(const Live& from, Live& into) {
  for (const auto& [v, registers] : from) {
    const auto [it, fresh] = into.try_emplace(v, registers);
    for (size_t r = 0; !fresh && r < registers.size(); ++r)
      it->second[r] = it->second[r] || registers[r];
  }
}

class Liveness {
 public:
  Liveness(const Function& fn, bool only_waits, bool whole = false)
      : fn_(fn), only_waits_(only_waits), whole_(whole) {}
  int64_t peak() const { return peak_; }

  // ptxas takes a tile that is read from shared memory again, with nothing in between that may
  // change it, for the one read before: it stays in registers.
  void MergeReads() {
    for (const Block& block : fn_.blocks) {
      std::map<std::vector<ValueId>, ValueId> read;
      for (OpId id : block.ops) {
        const Op& op = fn_.ops[id];
        if (Separates(op)) read.clear();
        if (op.kind != OpKind::kSmemLoad) continue;
        const auto [it, fresh] = read.try_emplace(op.operands, op.results[0]);
        if (!fresh && fn_.type(it->second) == fn_.type(op.results[0]))
          same_[op.results[0]] = it->second;
      }
    }
  }

  // Values alive in front of the block, given those alive behind it.
  Live Walk(BlockId block, Live live) {
    const std::vector<OpId>& ops = fn_.blocks[block].ops;
    for (auto it = ops.rbegin(); it != ops.rend(); ++it) {
      const Op& op = fn_.ops[*it];
      if (!only_waits_ || Waits(op)) Note(live, ScanRegisters(op, live));
      if (only_waits_ && whole_)
        for (ValueId r : op.results)
          if (fn_.type(r).is_tile() && !Free(r)) {
            Live held = op.kind == OpKind::kGLoad ? Carried(live) : Live();
            held[r] = All(r);
            Note(held);
          }
      for (ValueId r : op.results) live.erase(r);
      if (!op.regions.empty()) Enter(op, live);
      if (!Renames(op.kind))
        for (ValueId v : op.operands) Use(v, live);
      if (!only_waits_) Note(live);  // who waits uses its operands up piece by piece
    }
    for (ValueId arg : fn_.blocks[block].args) live.erase(arg);
    return live;
  }

 private:
  // May it change shared memory, or let others?
  static bool Separates(const Op& op) {
    const bool in_registers = op.attr("scratch") && op.i("scratch") < 0;
    return !op.regions.empty() || (Info(op.kind).effect == OpEffect::kWrite && !in_registers);
  }
  static bool Waits(const Op& op) {
    switch (op.kind) {
      case OpKind::kGLoad:
      case OpKind::kGStore:
      case OpKind::kGAtomic:
      case OpKind::kGAtomicScalar: return op.attr("scratch") != nullptr;
      case OpKind::kWarpReduce:
      case OpKind::kWarpArgReduce:
      case OpKind::kWarpClusterReduce:
      case OpKind::kConvert:
      case OpKind::kWarpRearrange:
      case OpKind::kWarpScan:
      case OpKind::kMbarWait:
      case OpKind::kCtaSync:
      case OpKind::kFor:
      case OpKind::kWhile: return true;
      default: return false;
    }
  }
  // What the iterations of loops hand on, which waits for loads as long as they take.
  Live Carried(const Live& live) const {
    Live carried;
    for (const auto& [v, registers] : live)
      if (fn_.values[v].block.valid()) carried.emplace(v, registers);
    return carried;
  }
  bool Free(ValueId v) const {
    const Op* def = fn_.def(v);
    return def && (def->kind == OpKind::kConstant || def->kind == OpKind::kWarpIota);
  }
  std::vector<bool> All(ValueId v) const {
    const Type& type = fn_.type(v);
    return std::vector<bool>(
        static_cast<size_t>(type.layout.valid() ? fn_.layouts[type.layout].regs() : 1), true);
  }
  // What a value is made of, behind ops that move no data.
  ValueId Origin(ValueId v) const {
    for (const Op* def = fn_.def(v); def && Renames(def->kind); def = fn_.def(v))
      v = def->operands[0];
    return v;
  }
  static bool Renames(OpKind kind) {
    return kind == OpKind::kWarpBroadcast || kind == OpKind::kWarpReshape ||
           kind == OpKind::kWarpTranspose || kind == OpKind::kWarpColumns;
  }
  void Use(ValueId v, Live& live) const {
    std::vector<bool> used = All(v);
    for (const Op* def = fn_.def(v); def && Renames(def->kind); def = fn_.def(v)) {
      const ValueId from = def->operands[0];
      std::vector<bool> source = All(from);
      if (def->kind == OpKind::kWarpColumns) {
        const auto map = ColumnsMap(fn_.layout(from), fn_.layout(v), def->i("first"));
        CHECK(map, "columns that are not registers");
        source.assign(source.size(), false);
        for (size_t r = 0; r < used.size(); ++r)
          if (used[r] && (*map)[r] >= 0) source[static_cast<size_t>((*map)[r])] = true;
      }
      v = from;
      used = std::move(source);
    }
    if (const auto it = same_.find(v); it != same_.end()) v = it->second;
    if (fn_.type(v).is_tile() && !fn_.type(v).shape.empty() && !Free(v))
      JoinLive({{v, used}}, live);
  }

  void Enter(const Op& op, Live& live) {
    Live before = live;
    for (BlockId region : op.regions) {
      Live behind = live;
      // What a loop reads from outside stays alive through every turn.
      if (IsLoop(op.kind)) Outside(region, region, behind);
      const Live front = Walk(region, std::move(behind));
      JoinLive(front, before);
    }
    live = std::move(before);
  }
  void Outside(BlockId block, BlockId loop, Live& live) const {
    for (OpId id : fn_.blocks[block].ops) {
      for (ValueId v : fn_.ops[id].operands)
        if (!Inside(Origin(v), loop)) Use(v, live);
      for (BlockId region : fn_.ops[id].regions) Outside(region, loop, live);
    }
  }
  bool Inside(ValueId v, BlockId loop) const {
    const Value& value = fn_.values[v];
    BlockId block = value.block.valid() ? value.block
                    : value.def.valid() ? fn_.ops[value.def].block
                                        : BlockId();
    while (block.valid() && block != loop) {
      const OpId parent = fn_.blocks[block].parent;
      block = parent.valid() ? fn_.ops[parent].block : BlockId();
    }
    return block.valid();
  }

  // What a scan holds beside its result (backend/emit_scan.cc): it adds up narrow elements in
  // wider ones, its operand too if that is read again; and behind a step between threads every
  // block of registers has a total, unless nothing follows but the exchange between warps, which
  // takes totals from shared memory.
  int64_t ScanRegisters(const Op& op, const Live& live) const {
    if (op.kind != OpKind::kWarpScan) return 0;
    const ValueId from = op.operands[0];
    const Type& type = fn_.type(from);
    const Layout& layout = fn_.layout(from);
    const auto plan = PlanScan(layout, static_cast<int>(op.i("axis")));
    CHECK(plan, "verified: digits along the axis nest");
    const int64_t words = ReduceSlotBytes(type.dtype) / 4;
    // Blocks go their way between threads by twos: each has its sum, what came, what is ahead of
    // it, and where that lies.
    constexpr int64_t kOnTheWay = 8;
    int64_t totals = 0, on_the_way = 0;
    for (size_t i = 0; i < plan->levels.size(); ++i) {
      const ScanLevel& level = plan->levels[i];
      if (level.kind == ScanLevel::Kind::kRegisters) continue;
      on_the_way = kOnTheWay;
      const bool stored =
          i + 1 < plan->levels.size() && plan->levels[i + 1].kind == ScanLevel::Kind::kWarps;
      if (i + 1 < plan->levels.size() && !stored) totals = std::max(totals, level.reps);
    }
    const int64_t elements = layout.regs();
    const int64_t wider = elements * words - CeilDiv(elements * ByteSize(type.dtype), 4);
    return (live.count(Origin(from)) ? 2 : 1) * wider + (totals + on_the_way) * words;
  }

  void Note(const Live& live, int64_t beside = 0) {
    int64_t registers = beside, predicates = 0;
    for (const auto& [v, alive] : live) {
      const Type& type = fn_.type(v);
      if (!type.layout.valid()) continue;
      const int64_t count = std::count(alive.begin(), alive.end(), true);
      if (type.dtype == DType::kBool)
        predicates += count;
      else
        registers += (count * ByteSize(type.dtype) + 3) / 4;
    }
    if (only_waits_) registers += std::max<int64_t>(0, predicates - kPredicates);
    peak_ = std::max(peak_, registers);
  }

  // Of the seven that a thread has; two are wanted for bounds and loops. What they do not hold is
  // in registers.
  static constexpr int64_t kPredicates = 5;

  const Function& fn_;
  const bool only_waits_, whole_;
  int64_t peak_ = 0;
  std::map<ValueId, ValueId> same_;  // what is read again → what was read first
};

}  // namespace

int64_t PeakRegisters(const Function& fn, BlockId block) {
  Liveness liveness(fn, false);
  liveness.Walk(block, {});
  return liveness.peak();
}
int64_t PeakRegisters(const Function& fn, OpId role) {
  return PeakRegisters(fn, fn.ops[role].regions[0]);
}

int64_t HeldRegisters(const Function& fn, OpId role, bool whole, bool merged) {
  Liveness waits(fn, true, whole);
  if (merged) waits.MergeReads();
  waits.Walk(fn.ops[role].regions[0], {});
  return waits.peak();
}

int64_t HeldRegisters(const Function& fn, OpId role) {
  return HeldRegisters(fn, role, true, false);
}

}  // namespace tilec::ir
