// The program as roles: what is tried, from the fastest program to the smallest, until registers
// and shared memory suffice; if nothing fits, one role does all.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "ir/isa.h"
#include "ir/lower/diagnostics.h"
#include "ir/lower/pressure.h"
#include "ir/lower/program_planner.h"
#include "ir/lower/realise.h"
#include "ir/lower/role_needs.h"
#include "ir/lower/sequential.h"
#include "ir/lower/waits.h"
#include "support/check.h"

namespace tilec::ir {

namespace {

// What is tried, in order: what costs registers, from the fastest program to the smallest.
struct Form {
  bool slice_epilogues, early_loads;
};
constexpr Form kForms[] = {{false, true}, {false, false}, {true, true}, {true, false}};

constexpr int kLeastSlots = 2;  // of a ring; below, nothing overlaps

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
  constexpr int kLeast = kLeastSlots;
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

// Does a store of the loop over tiles drain as a whole?
bool DrainsOverTiles(const ProgramPlan& plan, const Function& fn) {
  return std::any_of(plan.epilogues.begin(), plan.epilogues.end(), [&](const auto& planned) {
    return planned.second.drains && !InTurns(fn, planned.first);
  });
}

// Bytes that the rings of a plan take at least where they have at most so many slots: all of them
// are alive when the kernel begins. (Of rings around others, and of one slot only, rows are not
// padded: those are left out.)
int64_t LeastBytesOfRings(const ProgramPlan& plan, int64_t depth) {
  std::map<size_t, int64_t> bytes;  // by buffer
  for (const PlannedRing& ring : plan.rings) {
    if (!ring.in_loop || ring.around || ring.slots < 2) continue;
    for (const RingSite& site : ring.sites)
      for (OpId load : site.loads) {
        const auto at = plan.load_buffers.find(load);
        if (at == plan.load_buffers.end()) continue;
        const PlannedBuffer& buffer = plan.buffers[at->second];
        const int64_t slots = std::max<int64_t>(1, buffer.type.depth);
        bytes[at->second] = buffer.bytes / slots * std::min(slots, depth);
      }
  }
  int64_t all = 0;
  for (const auto& [buffer, of] : bytes) all += of;
  return all;
}

// What became of an attempt, beside the program.
struct AsRoles {
  bool specialized = false;
  bool brings = false;  // threads of the load role were to bring tiles
};

Result<Function> ObeyAs(const Function& fn, const Target& target, const SequentialOptions& options,
                        AsRoles* as, DiagSink& diags, ProgramPlan* made) {
  ProgramPlan plan;
  TRY(Function out, ObeyPlan(fn, target, options, &plan, diags));
  as->specialized = plan.specialized;
  if (made) *made = std::move(plan);
  return out;
}

Result<Function> SpecializeTo(const Function& fn, const Target& target,
                              const SequentialOptions& options, AsRoles* as, DiagSink& diags,
                              ProgramPlan* made) {
  *as = {};
  if (options.plan) return ObeyAs(fn, target, options, as, diags, made);
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
    RegistersFull registers_full;
    bool drains = true, over_tiles = true;
    std::map<Staging, int> hopeless;  // the fewest slots whose rings alone were seen not to fit
    for (const Room& room : RoomsOf(target, options.scheduled)) {
      if (registers_full.refused) break;
      if (const auto at = hopeless.find(room.staging);
          at != hopeless.end() && room.depth >= at->second)
        continue;
      with.staging = room.staging;
      with.outer_slots = with.next_tile = room.outer_slots;
      // Without stores that drain all rooms of a depth are one.
      if (!drains && room.staging != Staging::kDrains) continue;
      if (!over_tiles && room.staging == Staging::kTurns) continue;
      DiagSink attempt;
      if (options.need) *options.need = {};
      ProgramPlanner planner(fn, target, with, room.depth, ground);
      as->brings = planner.brings();
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
      if (plan.ok() && plan->smem_bytes > target.limits.smem_bytes && !binding) {
        // Buffers alone; fewer slots may be no help either.
        for (int depth = room.depth; depth >= kLeastSlots; --depth) {
          if (LeastBytesOfRings(*plan, depth) <= target.limits.smem_bytes) break;
          hopeless[room.staging] = depth;
        }
        continue;
      }
      if (plan.ok()) {
        Result<Function> out = Realise(fn, *plan, target, with, &registers_full, attempt);
        if (out.ok()) {
          as->specialized = true;
          if (made) *made = std::move(*plan);
          return out;
        }
        if (plan->smem_bytes > target.limits.smem_bytes && !binding) continue;
      }
      if (!registers_full.refused || registers_full.in_loop || last) {
        attempt.MoveTo(diags);
        return DiagSink::Propagate();
      }
    }
    if (!registers_full.refused) break;  // no rings fit
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
  AsRoles as;
  Result<Function> out = SpecializeTo(fn, target, options, &as, said, made);
  if (as.brings && !(out.ok() && as.specialized)) {
    SequentialOptions without = options;
    without.bring = false;
    out = SpecializeTo(fn, target, without, &as, diags, made);
  } else {
    said.MoveTo(diags);
  }
  *specialized = as.specialized;
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
