// Products that stay in flight from one iteration of a loop to the next, where their computed
// operands lie meanwhile, and what is done in front of the wait for the last of them.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>

#include "ir/lower/operands.h"
#include "ir/lower/program_planner.h"
#include "ir/queries.h"

namespace tilec::ir {

namespace {

// A slot for the product that works, one for the next, one that is being filled.
constexpr int64_t kChainDepth = 3;

}  // namespace

// Does the product add to what the one in front of it makes, which nobody else looks at, with
// nothing between their accumulators?
bool ProgramPlanner::GoesOn(OpId dot, int role) const {
  const Op& op = in_.ops[dot];
  const Op* first = in_.def(op.operands[2]);
  if (!first || first->kind != OpKind::kDot || first->block != op.block) return false;
  const OpId before = in_.values[op.operands[2]].def;
  if (uses_.count(op.operands[2]) != 1 ||
      (specialized() && p_.Executes(role, dot) != p_.Executes(role, before)))
    return false;
  const DotPlan &a = tiles_.dots.at(before), &b = tiles_.dots.at(dot);
  const auto layout = tiles_.layouts.find(op.operands[2]);
  return a.grouped() && b.grouped() && a.promote == 0 && b.promote == 0 && a.acc == b.acc &&
         layout != tiles_.layouts.end() && layout->second == a.acc;
}

// The products that add up what the loop carries, if they may all be in flight at once.
std::vector<OpId> ProgramPlanner::ChainedProducts(const Op& loop, size_t carried, int role) const {
  const std::vector<OpId> dots = AddedUp(in_, uses_, loop, carried);
  if (dots.empty() ||
      !std::all_of(dots.begin() + 1, dots.end(), [&](OpId d) { return GoesOn(d, role); }))
    return {};
  const DotPlan& plan = tiles_.dots.at(dots[0]);
  if (!plan.grouped() || plan.promote != 0) return {};
  // Nothing may lie between the instruction's accumulator and the carried value.
  const ValueId arg = in_.ops[dots[0]].operands[2], next = in_.ops[dots.back()].results[0];
  for (ValueId v : {arg, next, loop.results[carried]}) {
    const auto layout = tiles_.layouts.find(v);
    if (layout == tiles_.layouts.end() || layout->second != plan.acc) return {};
  }
  for (OpId id : dots)
    for (const OperandPlan* o : {&tiles_.dots.at(id).a, &tiles_.dots.at(id).b})
      if (o->how == OperandPlan::How::kRegister) return {};
  return dots;
}

// An operand that threads compute and store, if it is one.
OperandPlan* ProgramPlanner::Stored(OpId dot, bool is_a) {
  DotPlan& plan = tiles_.dots.at(dot);
  OperandPlan& operand = is_a ? plan.a : plan.b;
  return operand.how == OperandPlan::How::kStore ? &operand : nullptr;
}

// The ring from `first` on that has places for this operand: of another product of the iteration.
size_t ProgramPlanner::OperandRingFor(OpId dot, bool is_a, size_t first) {
  const OperandPlan& operand = *Stored(dot, is_a);
  const Type& type = in_.type(operand.source);
  size_t ring = first;
  for (; ring < p_.operand_rings.size(); ++ring) {
    const auto [other, left] = p_.operand_rings[ring].operands[0];
    const OperandPlan& like = *Stored(other, left);
    const bool same = in_.type(like.source) == type && like.smem == operand.smem &&
                      like.store_transposed == operand.store_transposed &&
                      like.zero_padding == operand.zero_padding;
    if (same && p_.operand_rings[ring].operands.back().first != dot) return ring;
  }
  p_.operand_rings.emplace_back();
  return ring;
}

// Where operands that threads compute are put. Where the products of a loop may stay in flight,
// they have several places: the next iteration's are written while the tensor core reads this
// one's.
//
// With n products an iteration, n + 2 places need no barrier but the one between what is written
// and its product. Each thread awaits, at the end of an iteration, all products but its last. So at
// the barrier of the product before this one (the only one in an iteration of the iteration before)
// all threads have awaited all products up to n + 2 back.
void ProgramPlanner::PlanOperandRings() {
  const auto add = [&](OpId dot, bool is_a, size_t ring) {
    p_.operand_rings[ring].operands.push_back({dot, is_a});
    p_.operand_ring_of[{dot, is_a}] = ring;
  };
  for (OpId id : OpsInOrder(in_)) {
    const Op& loop = in_.ops[id];
    if (loop.kind != OpKind::kFor || !specialized() || depth_ < kChainDepth) continue;
    for (size_t i = 0; i < loop.results.size(); ++i) {
      const size_t first = p_.operand_rings.size();
      for (OpId dot : ChainedProducts(loop, i, 0))
        for (bool is_a : {true, false}) {
          OperandPlan* operand = Stored(dot, is_a);
          if (!operand) continue;
          // Every slot starts a swizzle pattern: spare rows bring it to a multiple of 1024 bytes.
          const DType dtype = in_.type(operand->source).dtype;
          while (operand->smem.swizzle_bytes && SmemBytes(operand->smem, dtype) % 1024 != 0)
            operand->smem.rows += 8;
          add(dot, is_a, OperandRingFor(dot, is_a, first));
        }
      for (size_t ring = first; ring < p_.operand_rings.size(); ++ring)
        p_.operand_rings[ring].slots =
            static_cast<int64_t>(p_.operand_rings[ring].operands.size()) + 2;
    }
  }
  for (const auto& [dot, plan] : tiles_.dots)
    for (bool is_a : {true, false})
      if (Stored(dot, is_a) && !p_.operand_ring_of.count({dot, is_a})) {
        p_.operand_rings.emplace_back();
        add(dot, is_a, p_.operand_rings.size() - 1);
      }
}

std::optional<PlannedChain> ProgramPlanner::ChainAt(const Op& loop, size_t carried,
                                                    int role) const {
  const std::vector<OpId> dots = ChainedProducts(loop, carried, role);
  if (dots.empty()) return {};
  const Op* initial = in_.def(loop.operands[2 + carried]);
  const bool zero = initial && initial->kind == OpKind::kConstant && initial->number("value") == 0;
  PlannedChain chain{carried, dots.back(), zero, {}};
  for (OpId dot : dots)
    if (!p_.Executes(role, dot) || p_.OneSlot(dot)) return {};
  chain.rings = ReleasedBy(chain.dot, role);
  for (size_t ring : chain.rings)
    if (p_.rings[ring].slots < kChainDepth || !TakesLast(chain.dot, ring, role)) return {};
  return chain;
}

// Is what the product reads the last that the role takes from the ring in an iteration? The slot
// that is released an iteration late is that of the last transfer before it.
bool ProgramPlanner::TakesLast(OpId dot, size_t ring, int role) const {
  const BlockId body = in_.ops[dot].block;
  const std::vector<OpId>& ops = in_.blocks[body].ops;
  const auto place = [&](OpId id) { return std::find(ops.begin(), ops.end(), id) - ops.begin(); };
  std::ptrdiff_t last = -1;
  bool mine = false;
  for (const RingSite& site : p_.rings[ring].sites) {
    int inside = 0;  // blocks from the load's outwards to the body, 0: it is not inside
    int depth = 0;
    for (BlockId at = in_.ops[site.loads[0]].block; at.valid();) {
      ++depth;
      if (at == body) inside = depth;
      const OpId parent = in_.blocks[at].parent;
      if (!parent.valid()) break;
      at = in_.ops[parent].block;
    }
    if (inside == 0) continue;
    if (inside > 1) return false;  // taken in one branch, or many times
    const auto taken = site.readers.find(role);
    if (taken == site.readers.end()) return false;
    if (place(taken->second.first) < last) continue;
    last = place(taken->second.first);
    mine = site.reads.count(dot) > 0;
  }
  return mine;
}

// What Release leaves to the wait for this product: what it reads last, or reads while a later op
// of the iteration that is no product reads it last.
std::vector<size_t> ProgramPlanner::ReleasedBy(OpId dot, int role) const {
  std::vector<size_t> reads = p_.RingsReadBy(in_, dot), out;
  const std::vector<OpId>& ops = in_.blocks[in_.ops[dot].block].ops;
  for (auto op = std::find(ops.begin(), ops.end(), dot); op != ops.end(); ++op) {
    if (*op != dot && in_.ops[*op].kind == OpKind::kDot && p_.Executes(role, *op))
      for (size_t ring : p_.RingsReadBy(in_, *op)) std::erase(reads, ring);
    const auto due = p_.releases.find({role, *op});
    if (due == p_.releases.end()) continue;
    for (size_t ring : due->second)
      if (std::count(reads.begin(), reads.end(), ring)) out.push_back(ring);
  }
  return out;
}

// Threads fill the buffer of a load, which products may still read: those before it are awaited.
bool ProgramPlanner::FillsByThreads(OpId load) const {
  const auto plan = tiles_.loads.find(load);
  return plan != tiles_.loads.end() && plan->second.buffer && !plan->second.tma;
}

// Groups end in order: a product that is awaited in its iteration ends those before it.
std::vector<PlannedChain> ProgramPlanner::ChainsOf(const Op& loop, int role) const {
  std::vector<PlannedChain> chains;
  std::vector<PlannedChain> found;
  for (size_t i = 0; i < loop.results.size(); ++i)
    if (std::optional<PlannedChain> chain = ChainAt(loop, i, role))
      found.push_back(std::move(*chain));
  const std::vector<OpId>& ops = in_.blocks[loop.regions[0]].ops;
  for (auto op = ops.rbegin(); op != ops.rend(); ++op) {
    if (!p_.Executes(role, *op)) continue;
    const auto chain = std::find_if(found.begin(), found.end(),
                                    [&](const PlannedChain& c) { return c.dot == *op; });
    if (chain != found.end())
      chains.insert(chains.begin(), *chain);
    else if (in_.ops[*op].kind == OpKind::kDot || !in_.ops[*op].regions.empty() ||
             Info(in_.ops[*op].kind).effect == OpEffect::kWrite || FillsByThreads(*op))
      break;
  }
  return chains;
}

// What is not left to its place behind the loop, but done in front of the wait for the last
// products.
BeforeLastWait ProgramPlanner::InFrontOfWait(const Op& loop, int role) const {
  BeforeLastWait before;
  const OpId around = in_.blocks[loop.block].parent;
  if (!around.valid() || in_.ops[around].kind != OpKind::kFor) return before;
  before.position = in_.blocks[loop.block].args[0];
  FindScalarsBehind(loop, role, before);
  before.loads = LoadsBehind(loop, role);
  return before;
}

// What stands in a block in front of this op of it, and what from it on.
ProgramPlanner::Halves ProgramPlanner::Cut(const Op& at) const {
  const std::vector<OpId>& ops = in_.blocks[at.block].ops;
  const auto middle =
      std::find_if(ops.begin(), ops.end(), [&](OpId id) { return &in_.ops[id] == &at; });
  return {{ops.begin(), middle}, {middle, ops.end()}};
}

// Scalars of an iteration of the loop around this one that are read behind it only, and that take a
// division to make: the place of a tile in its tensor. LLVM makes them where they are read, while
// the tensor core has nothing to do; made before in front of the wait for the last products they
// cost nothing.
void ProgramPlanner::FindScalarsBehind(const Op& loop, int role, BeforeLastWait& before) const {
  const Halves halves = Cut(loop);
  std::set<OpId> wanted;
  for (auto op = halves.front.rbegin(); op != halves.front.rend(); ++op) {
    const Op& maker = in_.ops[*op];
    if (maker.results.size() != 1 || !Info(maker.kind).elementwise()) continue;
    const ValueId v = maker.results[0];
    const DType dtype = in_.type(v).dtype;
    if (!in_.type(v).is_scalar() || !IsInteger(dtype) || ByteSize(dtype) < 4) continue;
    bool behind = false, inside = false, leads = false;
    for (const auto& [reader, operand] : uses_.of(v)) {
      if (!p_.Executes(role, reader) || p_.site_of.count(reader)) continue;  // the other role's
      const OpId where = AncestorIn(in_, loop.block, reader);
      const auto found = std::find(halves.back.begin(), halves.back.end(), where);
      inside = inside || found == halves.back.begin();
      behind = behind || (found != halves.back.begin() && found != halves.back.end());
      leads = leads || wanted.count(reader) > 0;
    }
    if (behind && !inside) before.read.push_back(v);
    if ((behind && !inside) || leads) wanted.insert(*op);
  }
  const auto divides = [&](OpId id) {
    const OpKind kind = in_.ops[id].kind;
    return kind == OpKind::kDiv || kind == OpKind::kMod;
  };
  if (std::none_of(wanted.begin(), wanted.end(), divides)) {
    before.read.clear();
    return;
  }
  std::copy_if(halves.front.begin(), halves.front.end(), std::back_inserter(before.ops),
               [&](OpId id) { return wanted.count(id) > 0; });
}

// Loads behind the loop that need nothing of what is made there.
std::vector<OpId> ProgramPlanner::LoadsBehind(const Op& loop, int role) const {
  const Halves halves = Cut(loop);
  const auto known = [&](ValueId v) {
    return !std::count(halves.back.begin(), halves.back.end(), in_.values[v].def);
  };
  std::vector<OpId> loads;
  std::copy_if(halves.back.begin(), halves.back.end(), std::back_inserter(loads), [&](OpId id) {
    const std::vector<ValueId>& operands = in_.ops[id].operands;
    return ComesEarly(id, role) && std::all_of(operands.begin(), operands.end(), known);
  });
  return loads;
}

// A load behind a loop, by threads, of what nobody writes: its few registers may be on their way
// while the last products are.
bool ProgramPlanner::ComesEarly(OpId id, int role) const {
  constexpr int64_t kMostRegisters = 32;
  const Op& op = in_.ops[id];
  const auto plan = tiles_.loads.find(id);
  if (!options_.early_loads || plan == tiles_.loads.end() || !p_.Executes(role, id) ||
      p_.deferred.count(id))
    return false;
  const LoadPlan& load = plan->second;
  const auto layout = tiles_.layouts.find(op.results[0]);
  return load.registers && !load.buffer && !load.shares.valid() && IsReadOnlyLoad(in_, op) &&
         layout != tiles_.layouts.end() &&
         layout->second.regs() * ByteSize(in_.type(op.results[0]).dtype) <= 4 * kMostRegisters;
}

// For each compute role: its chains, loop by loop, and the products that go on with another's
// accumulator.
void ProgramPlanner::PlanLoops() {
  if (!specialized()) return;
  for (OpId id : OpsInOrder(in_)) {
    const Op& op = in_.ops[id];
    for (int role = 0; role < p_.compute_roles; ++role) {
      if (!p_.Executes(role, id)) continue;
      if (op.kind == OpKind::kDot && GoesOn(id, role)) p_.goes_on.insert({role, id});
      if (op.kind != OpKind::kFor) continue;
      PlannedLoop& loop = p_.loops[{role, id}];
      loop.chains = ChainsOf(op, role);
      if (!loop.chains.empty()) loop.before_wait = InFrontOfWait(op, role);
    }
  }
}

}  // namespace tilec::ir
