// Whether a lowered program is worth its form: what CTAs that stay, clusters and orders of roles
// must gain, and what is done where tiles leave no room.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "compile/diagnostics.h"
#include "compile/line.h"
#include "ir/isa.h"
#include "ir/lower/filled.h"
#include "ir/lower/pressure.h"
#include "ir/queries.h"

namespace tilec::compile {

namespace {

int64_t Roles(const ir::Function& warps) {
  int64_t roles = 0;
  for (ir::OpId id : warps.blocks[warps.body].ops) roles += warps.ops[id].kind == ir::OpKind::kRole;
  return roles;
}

// Slots of the deepest ring.
int64_t DeepestRing(const ir::Function& warps) {
  int64_t slots = 0;
  for (const ir::Op& op : warps.ops)
    if (op.kind == ir::OpKind::kSmemAlloc) slots = std::max(slots, warps.type(op.results[0]).depth);
  return slots;
}

}  // namespace

// Without products nothing comes of stages but registers: one role loads where it reads, and what
// hides its waits are other CTAs. The program's own order is taken where it leaves more of them
// room. (KL divergence of rows of 32768: 96 registers and two CTAs, or 61 and four.) Or as many,
// where the solved one keeps more tiles than its threads are told of registers. (Group
// normalisation of 32 by 32 on a B200: 82 of 80, or 58.) And where nothing is told of a CTA that
// has an SM to itself: its threads have what its launch leaves them. (The gradient of the state
// space layer, 512 threads: 128 registers and 40 bytes spilled, or 127 and none.)
void Line::MakeRoom(const Strategy& strategy, Lowered* lowered, DiagSink& said) {
  const auto any = [](const ir::Function& fn, auto&& is) {
    return std::any_of(fn.ops.begin(), fn.ops.end(), is);
  };
  const auto shaped = shaped_.find(strategy.shape);
  if (shaped == shaped_.end() || !shaped->second.product) return;
  const ir::Function& from = *shaped->second.product;
  const ir::LaunchInfo& solved = lowered->fn.launch;
  const bool alone =
      solved.ctas_per_sm == 0 && ir::isa::kWarpThreads * solved.warps >= ir::kLargeCta;
  if (any(from, [](const ir::Op& op) { return op.kind == ir::OpKind::kDot; }) ||
      (solved.ctas_per_sm == 0 && !alone))
    return;
  Strategy own = strategy;
  own.order = Order::kRule;
  DiagSink unsaid;
  Step<Lowered> other = Lower(own, from, nullptr, unsaid);
  if (other.refusal || other.product->roles || stopped_) return;
  // How many there are is estimated. The assembler is told less than that: held to as many, three
  // programs of the tests spilled.
  int64_t& ctas = other.product->fn.launch.ctas_per_sm;
  const int64_t gained = ctas - solved.ctas_per_sm;
  const int64_t kept = ir::FullestRole(lowered->fn, *request_.target).kept;
  const int64_t given =
      request_.target->RegistersAtLaunch(solved.warps * std::max<int64_t>(1, solved.ctas_per_sm));
  std::string why;
  if (gained > 0 && !alone)
    why = fmt::format("{} more of its CTAs fit an SM than as solved", gained);
  else if (gained == 0 && alone)
    why = fmt::format("its {} threads have an SM to themselves, and nothing runs ahead",
                      ir::isa::kWarpThreads * solved.warps);
  else if (gained == 0 && kept > given &&
           ir::FullestRole(other.product->fn, *request_.target).kept < kept)
    why = fmt::format("as solved it keeps {} registers of tiles alive, its threads have {}", kept,
                      given);
  if (why.empty()) return;
  const int64_t found = ctas;
  ctas = (found + solved.ctas_per_sm) / 2;
  NoteCtasPerSm(found, ctas, &other.product->plan);
  unsaid.MoveTo(said);
  *lowered = *std::move(other.product);
  lowered->own_order = std::move(why);
}

// Tiles of several turns at a time, and no ring that would make something of them: where they fill
// the threads' registers, the order of the program keeps fewer. (The state space layer at N = P =
// 128: 208 of 255 kept and 336 bytes spilled, in its own order none.) And a CTA that stays keeps
// what it knows of its tiles, and where the tensors lie that threads access between its loops.
std::optional<Refusal> Line::Crowded(const Strategy& strategy, const Lowered& lowered) const {
  const bool alone = !lowered.roles && strategy.roles();
  const bool stays = strategy.shape == Shape::kPersistent;
  if (request_.file || request_.plan || (!stays && !alone && !strategy.scheduled()))
    return std::nullopt;
  const ir::Function& fn = lowered.fn;
  // Products that are complete at once and have places for all that is beside them: what the choice
  // of tiles takes to spill is left to the order of the program, too. (ptxas 13.0, rtx4090,
  // gradients of attention of D = 128 in BQ = 32: 168 kept, 36 bytes spilled as solved, in its own
  // order none.)
  if (const ir::Filling full = ir::FillingOf(fn, *request_.target, false);
      alone && full.lacks > 0 && full.at_once) {
    const ir::RolePressure fullest = ir::FullestRole(fn, *request_.target);
    Refusal refusal;
    refusal.stage = Stage::kWorth, refusal.resource = Resource::kRegisters;
    refusal.needed = fullest.most + full.lacks, refusal.available = fullest.most;
    refusal.why = fmt::format(
        "role `{}` keeps {} registers of tiles alive and wants about {}, its threads have {}",
        fullest.role, fullest.kept, refusal.needed, fullest.most);
    return refusal;
  }
  const auto turns = [&](const ir::Op& op) {  // what no loop repeats has one order
    if (!ir::FliesFrom(op)) return false;
    for (ir::BlockId b = op.block; b.valid() && fn.blocks[b].parent.valid();
         b = fn.ops[fn.blocks[b].parent].block)
      if (ir::IsLoop(fn.ops[fn.blocks[b].parent].kind)) return true;
    return false;
  };
  if (std::none_of(fn.ops.begin(), fn.ops.end(), turns)) return std::nullopt;
  const ir::TargetRegisters& beside = request_.target->registers;
  const ir::RolePressure fullest = ir::FullestRole(fn, *request_.target);
  int64_t tensors = 0;
  for (ir::OpId id : fn.blocks[fn.body].ops)
    if (fn.ops[id].kind == ir::OpKind::kRole)
      tensors = std::max(tensors, ir::TensorsOfThreads(fn, id));
  // One role that loads what it reads has guards and pitches beside. (ptxas 13.0, 208 of 255 kept:
  // three tensors spilled 336 bytes, the state space layer at N = P = 128; none spilled nothing,
  // parts of RWKV-7.)
  int64_t spare = beside.beside_by_rule + 2 * beside.beside_access * tensors;
  if (!alone)
    spare = tensors == 0 ? 0
                         : beside.least_beside + beside.beside_access * tensors +
                               (stays ? 0 : beside.beside_coming);
  if (fullest.kept + spare <= fullest.most) return std::nullopt;
  Refusal refusal;
  refusal.stage = Stage::kWorth, refusal.resource = Resource::kRegisters;
  refusal.needed = fullest.kept + spare, refusal.available = fullest.most;
  refusal.why = fmt::format(
      "role `{}` keeps {} registers of tiles alive and wants about {}, its threads have {}",
      fullest.role, fullest.kept, refusal.needed, fullest.most);
  return refusal;
}

std::optional<Refusal> Line::Worth(const Strategy& strategy, const Lowered& lowered,
                                   const Solved* solved, DiagSink& said) const {
  const auto refuse = [&](Resource resource, int64_t needed, int64_t available,
                          const char* why = "") {
    Refusal refusal = RefusalOf(Stage::kWorth, resource, said);
    refusal.needed = needed, refusal.available = available;
    if (refusal.why.empty()) refusal.why = why;
    return refusal;
  };
  const scheduler::ProgramSchedule* wanted = solved ? &solved->schedule : nullptr;
  // Copies are shared through rings alone; and a CTA of a cluster hands no scalars to its load
  // role, which one that comes alone may do.
  const bool clustered =
      strategy.shape == Shape::kClustered || strategy.shape == Shape::kClusteredOnce;
  if (clustered && !lowered.roles)
    return refuse(Resource::kRoles, 0, 0, "what they share does not go through rings");
  if (wanted && (request_.file || wanted->apart) && !lowered.roles && wanted->roles > 1) {
    said.Report(kRolesNotMade, Span{}, lowered.fn.name, wanted->roles);
    return refuse(Resource::kRoles, wanted->roles, 1);
  }
  // Rings of a file are as deep as it says.
  if (request_.file && !lowered.losses.empty() && lowered.losses.front().made == 0) {
    said.Report(kScheduleLost, lowered.losses.front().load, lowered.fn.name,
                Describe(lowered.losses));
    return refuse(Resource::kRoles, 0, 0);
  }
  // Where little runs ahead, CTAs of one tile each hide more than one that stays.
  int64_t cycles = 0;
  if (wanted)
    for (const scheduler::LoopReport& loop : wanted->loops)
      if (loop.applied) cycles = std::max(cycles, loop.solution.schedule.ii);
  // Rings must reach across the end of a tile, or what is in flight there cover a copy.
  const ir::TargetLowering& pays = request_.target->lowering;
  const int64_t slots = lowered.roles ? DeepestRing(lowered.fn) : 0;
  if (strategy.withheld_registers > 0) {
    const bool solved_all = std::all_of(wanted->loops.begin(), wanted->loops.end(),
                                        [](const auto& loop) { return loop.applied; });
    if (!solved_all)
      return refuse(Resource::kForm, 0, 0, "a loop has no schedule with so few registers");
    if (Roles(lowered.fn) == 1)
      return refuse(Resource::kRoles, 2, 1, "with so few registers one role runs it all");
    if (!ir::LeavesRegisters(lowered.fn, *request_.target))
      return refuse(Resource::kRegistersOfProducts, 0, 0,
                    "its tiles leave its many products too few registers");
  }
  if (std::optional<Refusal> full = Crowded(strategy, lowered)) return full;
  if (strategy.shape == Shape::kPersistent && slots < pays.persistent_slots &&
      (slots - 1) * cycles < pays.copy_cycles) {
    said.Report(kNothingRunsAhead, Span{}, lowered.fn.name, slots, pays.persistent_slots);
    return refuse(Resource::kSlots, pays.persistent_slots, slots);
  }
  return std::nullopt;
}

}  // namespace tilec::compile
