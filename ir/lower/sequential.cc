// SPDX-License-Identifier: Apache-2.0
#include "ir/lower/sequential.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>

#include "ir/check_plan.h"
#include "ir/isa.h"
#include "ir/lower/bring.h"
#include "ir/lower/diagnostics.h"
#include "ir/lower/emitter.h"
#include "ir/lower/finish.h"
#include "ir/lower/pressure.h"
#include "ir/lower/program_planner.h"
#include "ir/lower/role_needs.h"
#include "ir/lower/waits.h"
#include "ir/plan_ground.h"
#include "ir/plan_text.h"

namespace tilec::ir {

namespace {

// What is tried, in order: what costs registers, from the fastest program to the smallest.
struct Form {
  bool slice_epilogues, early_loads;
};
constexpr Form kForms[] = {{false, true}, {false, false}, {true, true}, {true, false}};

// Shared memory: rings of so many slots beside stores of this kind, from what overlaps most to what
// is smallest. Stores that drain are worth more than the deepest rings.
// Rings around others have two slots, or as many as their nest wants, where the others stay as deep
// as solved and keep three, or cannot have more without: what is loaded for a tile is released
// behind its last product, and behind it in the load role stands all that the next tile reads. With
// a slot free the role is at the next tile's loads while this one's last iterations run.
struct Room {
  int depth;
  SequentialOptions::Staging staging;
  bool outer_slots = false;
};
std::vector<Room> RoomsOf(const Target& target, const ScheduledResources* scheduled) {
  using Staging = SequentialOptions::Staging;
  constexpr int kLeast = 2;   // slots; below, nothing overlaps
  constexpr int kEnough = 3;  // deeper rings are worth less than loads of the next tile
  std::vector<Room> rooms;
  const int most = static_cast<int>(target.lowering.most_slots);
  int64_t solved = kLeast;
  bool outer = false, wants = false;
  if (scheduled)
    for (const ScheduledResources::Ring& ring : scheduled->rings) {
      outer = outer || ring.around;
      wants = wants || (ring.around && ring.slots > 1);
      if (!ring.around) solved = std::max(solved, ring.slots);
    }
  solved = std::min<int64_t>(most, solved);
  const auto add = [&](int64_t from, int64_t to, bool two) {
    for (int64_t depth = from; depth >= to; --depth)
      for (Staging staging : {Staging::kDrains, Staging::kTurns, Staging::kShares})
        rooms.push_back({static_cast<int>(depth), staging, two});
  };
  const int64_t enough =
      std::min<int64_t>(most, wants ? solved : std::max<int64_t>(solved, kEnough));
  if (outer) add(most, enough, true);
  add(most, enough, false);
  for (int64_t depth = enough - 1; depth >= kLeast; --depth) {
    if (outer && depth >= solved) add(depth, depth, true);
    add(depth, depth, false);
  }
  for (int depth = most; depth >= kLeast; --depth) rooms.push_back({depth, Staging::kAwaits});
  return rooms;
}

Result<Function> Realise(const Function& fn, ProgramPlan& plan, const Target& target,
                         const SequentialOptions& options, bool* registers_full, DiagSink& diags) {
  const bool own = !options.plan && !(options.scheduled && options.scheduled->binding);
  if (plan.smem_bytes > target.limits.smem_bytes && options.need)
    *options.need = {LowerNeed::What::kSharedMemory, plan.smem_bytes, target.limits.smem_bytes};
  if (own) TRY_VOID(CheckSharedMemory(fn, plan, target, diags));
  const TargetLimits& limits = target.limits;
  TRY_VOID(CheckPlan(
      plan, fn, {limits.smem_bytes, limits.registers, isa::kMostCtaWarps, limits.named_barriers},
      diags));
  TRY(Emitted emitted, Emitter(fn, plan, RunLimits(target), diags).Run());
  return Finish(std::move(emitted), plan, target, options, registers_full, diags);
}

// How deep the rings of a plan in loops are: what the planners are asked for, to compare. Products
// in flight from iteration to iteration exist from three slots on.
int DepthOf(const ProgramPlan& plan) {
  if (!plan.specialized) return 0;
  constexpr int64_t kLeast = 2, kOfChains = 3;
  int64_t depth = kLeast;
  for (const PlannedRing& ring : plan.rings)
    if (ring.in_loop && !ring.around) depth = std::max(depth, ring.slots);
  for (const auto& [key, loop] : plan.loops)
    if (!loop.chains.empty()) depth = std::max(depth, kOfChains);
  return static_cast<int>(depth);
}

SequentialOptions::Staging StagingOf(const ProgramPlan& plan) {
  using Staging = SequentialOptions::Staging;
  std::set<size_t> buffers;
  bool drains = false;
  for (const auto& [store, first] : plan.store_buffers)
    if (!buffers.insert(first).second) return Staging::kShares;
  for (const auto& [store, epilogue] : plan.epilogues)
    drains = drains || epilogue.drains || epilogue.freed_at.valid();
  return drains ? Staging::kDrains : Staging::kAwaits;
}

// Does a store of the loop over tiles drain as a whole?
bool DrainsOverTiles(const ProgramPlan& plan, const Function& fn) {
  return std::any_of(plan.epilogues.begin(), plan.epilogues.end(), [&](const auto& planned) {
    return planned.second.drains && !InTurns(fn, planned.first);
  });
}

// Rings around others, as deep as the plan has them.
ScheduledResources OuterRingsOf(const ProgramPlan& plan, const Function& fn) {
  ScheduledResources outer;
  for (const PlannedRing& ring : plan.rings)
    for (const RingSite& site : ring.sites)
      for (OpId load : site.loads)
        if (ring.around) outer.rings.push_back({fn.ops[load].at, ring.slots, true});
  return outer;
}

// CTAs that an SM has side by side: as many as are wanted, if the quotas of the plan's roles leave
// them room, else one. (It follows from the plan, so a plan does not say it.)
int64_t CtasSideBySide(const Function& fn, const ProgramPlan& plan, const Target& target) {
  const int64_t wanted = CtasWanted(fn, target);
  if (!plan.specialized || wanted < 2) return 1;
  const Target share = ShareOf(target, wanted);
  int64_t all = 0;
  for (const PlannedRole& role : plan.roles)
    all += role.registers * CeilDiv(role.warps, isa::kWarpgroupWarps);
  const int64_t groups = CeilDiv(plan.warps, isa::kWarpgroupWarps);
  const bool fits = all > 0 && all <= share.RegistersAtLaunch(plan.warps) * groups &&
                    plan.smem_bytes <= share.limits.smem_bytes;
  return fits ? wanted : 1;
}

// What somebody else planned, obeyed to the letter.
Result<Function> ObeyPlan(const Function& fn, const Target& machine,
                          const SequentialOptions& options, ProgramPlan* made, DiagSink& diags) {
  TRY(*made, ParsePlan(options.plan->text, options.plan->file, fn, diags));
  const int64_t beside = CtasSideBySide(fn, *made, machine);
  const Target target = ShareOf(machine, beside);
  made->tiles.async_proxy = target.Has("async_proxy");
  SequentialOptions form = options;
  form.early_loads = made->early_loads;
  form.slice_epilogues = made->slice_epilogues;
  form.joined_rings = made->joined_rings;
  form.bring = BringsAny(made->tiles);
  form.staging = StagingOf(*made);
  const ScheduledResources outer = OuterRingsOf(*made, fn);
  form.scheduled = &outer;
  form.outer_slots = true;
  if (InTensorMemory(target.matrix_unit.kind)) form.share = made->tiles.warpgroups;
  ProgramPlanner planner(fn, target, form, DepthOf(*made));
  if (!planner.sound())
    return diags.Report(lower_diag::kRolesNotApart, Span{}, fn.name)
        .Help("use --schedule=sequential");
  TRY(const ProgramPlan own, planner.Run(diags));
  TRY_VOID(CheckGround(*made, own, fn, diags));
  bool registers_full = false;
  TRY(Function out, Realise(fn, *made, target, options, &registers_full, diags));
  if (beside > 1) out.launch.ctas_per_sm = beside;
  return out;
}

Result<Function> OneRole(const Function& fn, const Target& target, const SequentialOptions& options,
                         ProgramPlan* made, DiagSink& diags) {
  TRY(*made, ProgramPlanner(fn, target, options, 0).Run(diags));
  bool registers_full = false;
  return Realise(fn, *made, target, options, &registers_full, diags);
}

// Tiles that pass through shared memory only because that is faster do not where it is full.
Result<Function> Unstaged(const Function& fn, const Target& target,
                          const SequentialOptions& options, ProgramPlan* made, DiagSink& diags) {
  Target never = target;
  never.lowering.staged_elements = std::numeric_limits<int64_t>::max();
  return OneRole(fn, never, options, made, diags);
}

}  // namespace

ScheduledResources ResourcesOf(const ProgramPlan& plan, const Function& fn) {
  ScheduledResources out;
  for (const PlannedRing& ring : plan.rings)
    for (const RingSite& site : ring.sites)
      for (OpId load : site.loads) out.rings.push_back({fn.ops[load].at, ring.slots});
  for (const PlannedRole& role : plan.roles) {
    if (role.kind == PlannedRole::Kind::kProducer)
      out.load_registers = role.registers;
    else if (role.computes())
      out.registers.push_back(role.registers);
  }
  return out;
}

Result<Function> Sequentialize(const Function& fn, const Target& target,
                               const SequentialOptions& options, DiagSink& diags,
                               ProgramPlan* made) {
  CHECK(fn.level == Level::kTile, "the sequential lowering takes a tile function");
  ProgramPlan plan;
  if (!made) made = &plan;
  if (options.plan) return ObeyPlan(fn, target, options, made, diags);
  DiagSink attempt;
  Result<Function> first = OneRole(fn, target, options, made, attempt);
  if (!first.ok() && made->smem_bytes > target.limits.smem_bytes)
    return Unstaged(fn, target, options, made, diags);
  attempt.MoveTo(diags);
  TRY(Function out, std::move(first));
  SequentialOptions with = options;
  with.slice_epilogues = true;
  const int64_t most = target.limits.regs_per_thread - target.registers.beside_sequential;
  for (OpId id : out.blocks[out.body].ops)
    if (out.ops[id].kind == OpKind::kRole && PeakRegisters(out, id) > most)
      return OneRole(fn, target, with, made, diags);
  return out;
}

namespace {

// `brings` receives whether threads of the load role were to bring tiles.
Result<Function> SpecializeTo(const Function& fn, const Target& target,
                              const SequentialOptions& options, bool* specialized, bool* brings,
                              DiagSink& diags, ProgramPlan* made) {
  *specialized = *brings = false;
  if (options.plan) {
    ProgramPlan plan;
    TRY(Function out, ObeyPlan(fn, target, options, &plan, diags));
    *specialized = plan.specialized;
    if (made) *made = std::move(plan);
    return out;
  }
  using Staging = SequentialOptions::Staging;
  SequentialOptions with = options;
  // Tensor memory is loaded a slice at a time: whole rows of a tile would only fill registers.
  const bool slices = options.slice_epilogues || InTensorMemory(target.matrix_unit.kind);
  const Groundwork ground = GroundworkOf(fn, target, options);
  for (const Form& form : kForms) {
    if ((slices && !form.slice_epilogues) || (!options.early_loads && form.early_loads))
      continue;  // what is asked for stays
    with.slice_epilogues = form.slice_epilogues;
    with.early_loads = form.early_loads;
    const bool last = &form == std::end(kForms) - 1;
    bool registers_full = false;
    bool drains = true, over_tiles = true;
    for (const Room& room : RoomsOf(target, options.scheduled)) {
      if (registers_full) break;
      with.staging = room.staging;
      with.outer_slots = with.next_tile = room.outer_slots;
      // Without stores that drain all rooms of a depth are one.
      if (!drains && room.staging != Staging::kDrains) continue;
      if (!over_tiles && room.staging == Staging::kTurns) continue;
      DiagSink attempt;
      if (options.need) *options.need = {};
      ProgramPlanner planner(fn, target, with, room.depth, ground);
      *brings = planner.brings();
      if (!planner.sound())
        return diags.Report(lower_diag::kRolesNotApart, Span{}, fn.name)
            .Help("use --schedule=sequential");
      if (!planner.specialized()) {
        if (options.no_producer) *options.no_producer = planner.no_producer();
        return Sequentialize(fn, target, options, diags, made);
      }
      Result<ProgramPlan> plan = planner.Run(attempt);
      if (room.staging == Staging::kDrains && plan.ok()) {
        drains = StagingOf(*plan) == Staging::kDrains;
        over_tiles = DrainsOverTiles(*plan, fn);
      }
      const bool binding = options.scheduled && options.scheduled->binding;
      if (plan.ok() && plan->smem_bytes > target.limits.smem_bytes && !binding)
        continue;  // buffers alone
      if (plan.ok()) {
        Result<Function> out = Realise(fn, *plan, target, with, &registers_full, attempt);
        if (out.ok()) {
          *specialized = true;
          if (made) *made = std::move(*plan);
          return out;
        }
        if (plan->smem_bytes > target.limits.smem_bytes && !binding) continue;
      }
      if (!registers_full || last) {
        attempt.MoveTo(diags);
        return DiagSink::Propagate();
      }
    }
    if (!registers_full) break;  // no rings fit
  }
  if (options.no_producer)
    *options.no_producer = {
        fmt::format("rings of two slots do not fit beside what else lies in the {} bytes of shared "
                    "memory",
                    target.limits.smem_bytes),
        {}};
  return Sequentialize(fn, target, options, diags, made);
}

Result<Function> SpecializeAs(const Function& fn, const Target& target,
                              const SequentialOptions& options, bool* specialized, DiagSink& diags,
                              ProgramPlan* made) {
  DiagSink said;
  bool brings = false;
  Result<Function> out = SpecializeTo(fn, target, options, specialized, &brings, said, made);
  if (brings && !(out.ok() && *specialized)) {
    SequentialOptions without = options;
    without.bring = false;
    return SpecializeTo(fn, target, without, specialized, &brings, diags, made);
  }
  said.MoveTo(diags);
  return out;
}

// As several CTAs of an SM, where they are worth it and find room.
std::optional<Function> SpecializeShares(const Function& fn, const Target& target,
                                         const SequentialOptions& options, DiagSink& diags,
                                         ProgramPlan* made) {
  if (options.plan || (options.scheduled && options.scheduled->binding)) return std::nullopt;
  const int64_t wanted = CtasWanted(fn, target);
  if (wanted < 2) return std::nullopt;
  SequentialOptions with = options;
  with.need = nullptr;
  with.no_producer = nullptr;
  with.joined_rings = true;
  DiagSink said;
  ProgramPlan plan;
  bool specialized = false;
  Result<Function> out = SpecializeAs(fn, ShareOf(target, wanted), with, &specialized, said, &plan);
  if (!out.ok() || !specialized || CtasSideBySide(fn, plan, target) != wanted) return std::nullopt;
  out->launch.ctas_per_sm = wanted;
  said.MoveTo(diags);
  if (made) *made = std::move(plan);
  return *std::move(out);
}

// Where products are issued by one thread and complete at barriers, each ring of their operands is
// a wait and a counter of every role: loads of an iteration that come together are awaited
// together. Slots are as many and as large.
Result<Function> SpecializeJoined(const Function& fn, const Target& target,
                                  const SequentialOptions& options, bool* specialized,
                                  DiagSink& diags, ProgramPlan* made) {
  constexpr int kAnyDepth = 2;
  SequentialOptions with = options;
  with.joined_rings = true;
  if (ProgramPlanner(fn, target, with, kAnyDepth).joined()) {
    DiagSink said;
    ProgramPlan plan;
    Result<Function> out = SpecializeAs(fn, target, with, specialized, said, &plan);
    if (out.ok() && *specialized) {
      said.MoveTo(diags);
      if (made) *made = std::move(plan);
      return out;
    }
  }
  return SpecializeAs(fn, target, options, specialized, diags, made);
}

// Registers that the fullest role lacks, of a program that is to leave the assembler some; 0 or
// less: it has them.
int64_t Lacking(const Function& out, const Target& target) {
  const RolePressure fullest = FullestRole(out, target);
  return fullest.kept + BesideScheduled(out, target) - fullest.most;
}

// Has it a sum that a loop keeps in its columns? Its slices are columns of all threads.
bool KeepsSums(const ProgramPlan& plan) {
  return std::any_of(plan.sums.begin(), plan.sums.end(),
                     [](const TensorSum& sum) { return sum.resident(); });
}

}  // namespace

// Where sums lie in tensor memory a product of 128 rows needs one warpgroup, whose threads have a
// whole row of all that is made of it. If that is more than their registers, two warpgroups have
// half of the columns each.
Result<Function> Specialize(const Function& fn, const Target& target,
                            const SequentialOptions& options, bool* specialized, DiagSink& diags,
                            ProgramPlan* made) {
  CHECK(fn.level == Level::kTile, "the lowering takes a tile function");
  if (std::optional<Function> shares = SpecializeShares(fn, target, options, diags, made)) {
    *specialized = true;
    return *std::move(shares);
  }
  if (options.plan || !InTensorMemory(target.matrix_unit.kind))
    return SpecializeAs(fn, target, options, specialized, diags, made);
  if (options.share > 0 || ComputeRolesOf(fn) > 1)
    return SpecializeJoined(fn, target, options, specialized, diags, made);
  LowerNeed need;
  SequentialOptions with = options;
  with.need = &need;
  DiagSink said, said_of_two;
  ProgramPlan one, two;
  Result<Function> alone = SpecializeJoined(fn, target, with, specialized, said, &one);
  const bool refused = need.what == LowerNeed::What::kRegisters ||
                       need.what == LowerNeed::What::kRegistersOfProducts;
  // (Sums that a loop keeps are one reason, unless the program fits by what it holds alone.)
  const auto fits = [&] {
    return Lacking(*alone, target) <= 0 || (KeepsSums(one) && !options.scheduled);
  };
  const bool enough =
      alone.ok() ? one.tiles.dots.empty() || one.tiles.warpgroups > 1 || fits() : !refused;
  if (!enough) {
    with.share = 2;
    bool roles = false;
    LowerNeed need_of_two;
    with.need = &need_of_two;
    Result<Function> shared = SpecializeJoined(fn, target, with, &roles, said_of_two, &two);
    if (shared.ok() && (!alone.ok() || (roles == *specialized &&
                                        Lacking(*shared, target) < Lacking(*alone, target)))) {
      *specialized = roles;
      said_of_two.MoveTo(diags);
      if (made) *made = std::move(two);
      return shared;
    }
  }
  if (options.need) *options.need = need;
  said.MoveTo(diags);
  if (alone.ok() && made) *made = std::move(one);
  return alone;
}

}  // namespace tilec::ir
