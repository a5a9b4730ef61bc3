// SPDX-License-Identifier: Apache-2.0
#include "ir/lower/pressure.h"
#include "ir/isa.h"
#include "ir/layout_scratch.h"
#include "ir/lower/held.h"
#include "ir/queries.h"
#include "support/check.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

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

// What a loop carries has the same registers in every iteration: a tile that is computed from
// another carried one is written to where its own last one was, not in the other's place. A product
// under way has a third place if the one is read and the other written meanwhile, although not more
// than two of them are alive at any moment. (A score tile carried to its exponentials, those
// carried to the next product, and scores in flight: 200 registers alive, 266 needed, 616 bytes
// spilled.)
class Places {
 public:
  explicit Places(const Function& fn) : fn_(fn) {}
  int64_t most() const { return most_; }

  void Walk(BlockId block) {
    for (OpId id : fn_.blocks[block].ops) {
      const Op& op = fn_.ops[id];
      if (op.kind == OpKind::kFor) Turn(op.regions[0], Carried(op));
      for (BlockId region : op.regions) Walk(region);
    }
  }

 private:
  struct Place {
    ValueId begins, ends;  // a carried tile in front of an iteration, and behind it
  };
  struct Flight {
    size_t from = 0, to = 0;  // in its block: the product, the wait
    ValueId result, adds_to, operand;
  };

  std::vector<Place> Carried(const Op& loop) const {
    const Block& body = fn_.blocks[loop.regions[0]];
    const std::vector<ValueId>& yields = fn_.ops[body.ops.back()].operands;
    std::vector<Place> places;
    for (size_t i = 1; i < body.args.size(); ++i)
      if (fn_.type(body.args[i]).is_tile()) places.push_back({body.args[i], yields[i - 1]});
    return places;
  }
  // The block of an iteration, and the versions that a branch in it chooses from.
  void Turn(BlockId block, const std::vector<Place>& places) {
    Look(block, places);
    for (OpId id : fn_.blocks[block].ops) {
      const Op& op = fn_.ops[id];
      if (op.kind != OpKind::kIf) continue;
      for (BlockId arm : op.regions) {
        const std::vector<ValueId>& yields = fn_.ops[fn_.blocks[arm].ops.back()].operands;
        std::vector<Place> inside = places;
        for (Place& place : inside)
          for (size_t i = 0; i < op.results.size(); ++i)
            if (op.results[i] == place.ends) place.ends = yields[i];
        Turn(arm, inside);
      }
    }
  }
  ValueId BehindFence(ValueId v) const {
    const Op* def = fn_.def(v);
    for (size_t i = 0; def && def->kind == OpKind::kMmaFence && i < def->results.size(); ++i)
      if (def->results[i] == v) return def->operands[i];
    return v;
  }
  int64_t Registers(ValueId v) const {
    const Type& type = fn_.type(v);
    if (!type.layout.valid() || type.dtype == DType::kBool) return 0;
    return (fn_.layouts[type.layout].regs() * ByteSize(type.dtype) + 3) / 4;
  }
  void Look(BlockId block, const std::vector<Place>& places) {
    const std::vector<OpId>& ops = fn_.blocks[block].ops;
    std::map<ValueId, size_t> made, last;  // by place in the block
    std::vector<Flight> flights;
    for (size_t i = 0; i < ops.size(); ++i) {
      const Op& op = fn_.ops[ops[i]];
      for (ValueId v : op.results) made[v] = i;
      if (op.kind != OpKind::kYield)
        for (ValueId v : op.operands) last[v] = i;
      if (op.kind == OpKind::kMma) {
        const bool fresh = op.i("zero") != 0;
        const bool registers = fn_.type(op.operands[1]).is_tile();
        flights.push_back({i, ops.size(), op.results[0],
                           fresh ? ValueId() : BehindFence(op.operands[0]),
                           registers ? BehindFence(op.operands[1]) : ValueId()});
      }
      if (op.kind == OpKind::kMmaWait)
        for (Flight& flight : flights)
          if (std::find(op.operands.begin(), op.operands.end(), flight.result) != op.operands.end())
            flight.to = i;
    }
    for (const Flight& flight : flights) {
      if (flight.adds_to.valid() || flight.to == ops.size()) continue;
      std::set<ValueId> beside = {flight.result}, carried;
      for (const Flight& other : flights) {
        if (other.to < flight.from || other.from > flight.to) continue;
        if (other.operand.valid()) beside.insert(other.operand);
        (other.adds_to.valid() ? carried : beside)
            .insert(other.adds_to.valid() ? other.adds_to : other.result);
      }
      int64_t needed = 0;
      for (ValueId v : beside) needed += Registers(v);
      for (const Place& place : places) {
        const auto read = last.find(place.begins);
        const auto written = made.find(place.ends);
        const bool kept = place.begins == place.ends;
        if (kept || carried.count(place.begins) ||
            (read != last.end() && read->second > flight.from) ||
            (written != made.end() && written->second < flight.to))
          needed += Registers(place.begins);
      }
      most_ = std::max(most_, needed);
    }
  }

  const Function& fn_;
  int64_t most_ = 0;
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

RolePressure FullestRole(const Function& warps, const Target& target) {
  RolePressure fullest;
  fullest.kept = -1;
  for (OpId id : warps.blocks[warps.body].ops) {
    const Op& op = warps.ops[id];
    if (op.kind != OpKind::kRole) continue;
    const int64_t peak = PeakRegisters(warps, id);
    if (peak <= fullest.kept) continue;
    fullest = {op.s("name"), peak, op.i("regs"), 0, op.i("regs")};
    fullest.held = HeldRegisters(warps, id);
  }
  if (fullest.most == 0) {
    // Every fourth warp has its registers of the same quarter (Target::RegistersAtLaunch).
    const int64_t threads = isa::kWarpThreads * RoundUp(warps.launch.warps, isa::kWarpgroupWarps);
    fullest.most = std::min(
        target.limits.regs_per_thread,
        target.limits.registers / (threads * std::max<int64_t>(1, warps.launch.ctas_per_sm)));
  }
  return fullest;
}

int64_t PlacedRegisters(const Function& fn, OpId role) {
  // ptxas moves some of them after all: 164 fitted in 160.
  constexpr int64_t kMoved = 16;
  Places places(fn);
  places.Walk(fn.ops[role].regions[0]);
  return std::max<int64_t>(0, places.most() - kMoved);
}

namespace {
// Does it stand beside products in the iterations of a loop? (persistent CTAs loop around all of
// it.)
bool BesideProducts(const Function& fn, BlockId block) {
  for (BlockId b = block; b.valid() && fn.blocks[b].parent.valid();
       b = fn.ops[fn.blocks[b].parent].block) {
    const OpKind around = fn.ops[fn.blocks[b].parent].kind;
    if (around != OpKind::kFor && around != OpKind::kWhile) continue;
    std::vector<BlockId> blocks = {b};
    bool product = false;
    for (size_t i = 0; i < blocks.size(); ++i)
      for (OpId id : fn.blocks[blocks[i]].ops) {
        const Op& op = fn.ops[id];
        if (op.kind == OpKind::kFor || op.kind == OpKind::kWhile) return false;
        product = product || op.kind == OpKind::kMma;
        blocks.insert(blocks.end(), op.regions.begin(), op.regions.end());
      }
    return product;
  }
  return false;
}
}  // namespace

int64_t SpareRegisters(const Function& fn, const Target& target, OpId role) {
  // Fitted to random programs, not derived; of others it found half of those that spill
  // (perf_log.md).
  const TargetRegisters& beside = target.registers;
  int64_t products = 0;
  std::map<ValueId, int64_t> accessed;
  for (OpId id : OpsInOrder(fn)) {
    const Op& op = fn.ops[id];
    products += op.kind == OpKind::kMma && (!role.valid() || IsWithin(fn, id, role));
    const bool atomic = op.kind == OpKind::kGAtomic;
    if (!atomic && op.kind != OpKind::kGLoad && op.kind != OpKind::kGStore) continue;
    int64_t& most = accessed[op.operands[0]];
    if (BesideProducts(fn, op.block))
      most = std::max(most, atomic ? beside.beside_atomic : beside.beside_access);
  }
  int64_t spare = beside.least_beside +
                  beside.beside_product * std::max<int64_t>(0, products - beside.products_for_free);
  for (const auto& [tensor, registers] : accessed) spare += registers;
  return spare;
}

namespace {
int64_t Accessed(const Function& fn, OpId role, bool all) {
  std::set<ValueId> accessed;
  for (OpId id : OpsInOrder(fn)) {
    const Op& op = fn.ops[id];
    const bool access =
        op.kind == OpKind::kGLoad || op.kind == OpKind::kGStore || op.kind == OpKind::kGAtomic;
    if (access && IsWithin(fn, id, role) && (all || BesideProducts(fn, op.block)))
      accessed.insert(op.operands[0]);
  }
  return static_cast<int64_t>(accessed.size());
}
}  // namespace

int64_t TensorsBesideProducts(const Function& fn, OpId role) { return Accessed(fn, role, false); }
int64_t TensorsOfThreads(const Function& fn, OpId role) { return Accessed(fn, role, true); }

namespace {
// Warpgroups that compute.
int64_t Computing(const Function& warps) {
  int64_t computing = 0;
  for (OpId id : warps.blocks[warps.body].ops) {
    const Op& op = warps.ops[id];
    if (op.kind == OpKind::kRole && op.i("warps") >= isa::kWarpgroupWarps)
      computing += op.i("warps") / isa::kWarpgroupWarps;
  }
  return computing;
}
}  // namespace

int64_t BesideScheduled(const Function& warps, const Target& target) {
  const TargetRegisters& registers = target.registers;
  return Computing(warps) == 1 ? std::max(registers.beside_scheduled, registers.beside_alone)
                               : registers.beside_scheduled;
}

int64_t BesideHeld(const Function& warps, const Target& target) {
  const TargetRegisters& registers = target.registers;
  if (registers.beside_held == 0 || Computing(warps) != 1) return registers.beside_held;
  return std::max(registers.beside_held, registers.beside_alone);
}

bool LeavesRegisters(const Function& warps, const Target& target) {
  for (OpId id : warps.blocks[warps.body].ops) {
    const Op& op = warps.ops[id];
    if (op.kind != OpKind::kRole || op.i("regs") == 0) continue;
    const int64_t peak = PeakRegisters(warps, id);
    const int64_t spare =
        SpareRegisters(warps, target, id) + target.registers.left_when_solved_again;
    if (peak > 0 && peak + spare > op.i("regs")) return false;
  }
  return true;
}

}  // namespace tilec::ir
