// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ir/isa.h"
#include "ir/lower/bring.h"
#include "ir/lower/channels.h"
#include "ir/lower/derive_plan.h"
#include "ir/lower/diagnostics.h"
#include "ir/lower/meetings.h"
#include "ir/lower/plan.h"
#include "ir/lower/program_planner.h"
#include "ir/lower/role_needs.h"
#include "ir/lower/turns.h"
#include "ir/queries.h"

namespace tilec::ir {

namespace {
constexpr int64_t kHopeless =
    4;  // times the registers of a thread: LLVM would take minutes to say so

// Does a number hang on what is loaded?
bool IsLoaded(const Function& fn, ValueId v) {
  const Op* def = fn.def(v);
  if (!def || !def->regions.empty() || !fn.type(v).is_scalar()) return false;
  return def->kind == OpKind::kLoad ||
         std::any_of(def->operands.begin(), def->operands.end(),
                     [&](ValueId operand) { return IsLoaded(fn, operand); });
}

// Are positions found by dividing by what is known at launch only, in a turn of a loop or of what
// is loaded? (Where the CTA's own position is divided, nothing is held yet.)
bool Divides(const Function& fn) {
  for (OpId id : OpsInOrder(fn)) {
    const Op& op = fn.ops[id];
    if ((op.kind != OpKind::kDiv && op.kind != OpKind::kMod) ||
        !fn.type(op.results[0]).is_scalar() || IntConstantOf(fn, op.operands[1]))
      continue;
    const OpId loop = LoopAround(fn, id);
    if (loop.valid() && fn.ops[loop].i("narrow", 0) == 0) return true;
    if (IsLoaded(fn, op.operands[0])) return true;
  }
  return false;
}
}  // namespace

Groundwork GroundworkOf(const Function& in, const Target& target,
                        const SequentialOptions& options) {
  const int roles = ComputeRolesOf(in);
  return {MakePlan(in, target, roles > 1 ? options.warpgroups : options.share, true),
          NeedsOfRoles(in, roles)};
}

ProgramPlanner::ProgramPlanner(const Function& in, const Target& target,
                               const SequentialOptions& options, int depth)
    : in_(in), target_(target), uses_(in), options_(options), depth_(depth), positions_(in) {
  if (depth > 0) {
    Groundwork ground = GroundworkOf(in, target, options);
    tiles_ = std::move(ground.tiles);
    Begin(ground.needs);
  } else {
    tiles_ = MakePlan(in, target, options.share, false);
    Begin({});
  }
}

ProgramPlanner::ProgramPlanner(const Function& in, const Target& target,
                               const SequentialOptions& options, int depth,
                               const Groundwork& ground)
    : in_(in), target_(target), uses_(in), options_(options), depth_(depth), positions_(in) {
  tiles_ = ground.tiles;
  Begin(ground.needs);
}

void ProgramPlanner::Begin(const std::optional<std::vector<RoleNeeds>>& needs) {
  if (!options_.bring) LeaveAll(&tiles_);
  p_.early_loads = options_.early_loads;
  p_.slice_epilogues = options_.slice_epilogues;
  for (OpId id : in_.blocks[in_.body].ops)
    if (in_.ops[id].kind == OpKind::kParallel) cluster_ = in_.ops[id].i("cluster", 1);
  if (depth_ == 0) {
    PlanEpilogues();
    return;
  }
  p_.compute_roles = ComputeRolesOf(in_);
  sound_ = needs.has_value();
  if (!sound_) return;
  p_.needs = *needs;
  const auto plan_rings = [&] {
    std::optional<ChannelSet> set =
        PlanChannels(in_, tiles_, p_.needs, target_.limits.smem_bytes, options_.joined_rings,
                     &no_producer_);
    p_.specialized = set.has_value();
    if (!set) set.emplace();
    p_.rings = std::move(set->rings);
    p_.joined_rings = set->joined;
    p_.control = std::move(set->share.control);
    p_.structure = std::move(set->share.structure);
    handed_ = std::move(set->share.handed);
  };
  plan_rings();
  if (!p_.specialized && BringsAny(tiles_)) {
    LeaveAll(&tiles_);
    plan_rings();
  }
  // What is loaded by slices needs no ring any more.
  if (PlanEpilogues() && p_.specialized) plan_rings();
}

Result<ProgramPlan> ProgramPlanner::Run(DiagSink& diags) {
  PlanIssuer();
  PlanRoles();
  TakeQuotas();
  if (p_.warps > isa::kMostCtaWarps)
    return diags.Report(lower_diag::kTooManyWarps, Span{}, in_.name, p_.warps, isa::kMostCtaWarps)
        .Help("give the ops fewer roles");
  TRY_VOID(CheckTiles(diags));
  if (specialized()) {
    PlanRings();
    PlanNests();
    PlanTokens();
    PlanPasses();
    PlanHanded();
  }
  PlanOperandRings();
  PlanMeetings();
  PlanBuffers();
  PlanExchanges();
  if (specialized() && !sound_)
    return diags.Report(lower_diag::kRolesNotApart, Span{}, in_.name)
        .Help("use --schedule=sequential");
  PlanLoops();
  if (!specialized() && tiles_.dots.empty())
    for (PlannedChange& place : PlacesLeft(in_, tiles_)) p_.changed.push_back(std::move(place));
  DerivePlan(in_, &p_);
  if (p_.tensor_columns > kTensorColumns)
    return diags
        .Report(lower_diag::kTensorMemoryFull, in_.ops[p_.sums.back().dots[0]].at, in_.name,
                p_.tensor_columns, kTensorColumns)
        .Help("choose smaller tiles with NAME=VALUE for the kernel's tune constants");
  return std::move(p_);
}

void ProgramPlanner::AddRole(PlannedRole::Kind kind, const std::string& name, int index,
                             int first_warp, int warps, int64_t registers) {
  p_.roles.push_back({kind, name, index, first_warp, warps, registers});
}

// Roles that load and that issue are one warp each; a warpgroup loads where threads bring tiles.
// Where registers are dealt out again they go by warpgroups: they get a whole one, so that the
// compute roles can take what it leaves (24 + 2·240 of 3·168, 32 + 3·160 of 4·128). Where every
// warp keeps what the launch gives, one warp costs the others least.
void ProgramPlanner::PlanRoles() {
  const int per_role = p_.warps_per_role(), compute = per_role * p_.compute_roles;
  const bool quotas = target_.Has("setmaxnreg");
  const int serving = !specialized() ? 0 : p_.HasIssuer() ? 2 : 1;
  p_.warps = compute + (specialized() && quotas ? isa::kWarpgroupWarps : serving);
  if (!specialized()) return AddRole(PlannedRole::Kind::kMain, "main", 0, 0, compute, 0);
  const int64_t groups = compute / 4;
  int64_t producer_regs = 0, compute_regs = 0;
  int64_t held = 0;  // by a thread of the load role
  for (const PlannedRing& ring : p_.rings)
    for (const RingSite& site : ring.sites) {
      std::vector<OpId> brought;
      for (OpId load : site.loads)
        if (tiles_.loads.at(load).threads) brought.push_back(load);
      held = std::max(held, HeldWhileAwaited(in_, brought).registers);
      for (OpId load : brought) held = std::max(held, HeldToBring(in_, in_.ops[load]));
    }
  if (groups > 1 && quotas) {
    const int64_t warps = isa::kWarpgroupWarps * (groups + 1);
    compute_regs = target_.ComputeQuota(groups);
    const int64_t all = target_.RegistersAtLaunch(warps) * (groups + 1);
    // 24 registers hold no division (kernels spilled 8 to 172 bytes).
    if (all - compute_regs * groups < target_.registers.load_role_dividing && Divides(in_))
      compute_regs -= isa::kQuotaStep;
    while (held > 0 && all - compute_regs * groups < target_.registers.load_role_bringing + held)
      compute_regs -= isa::kQuotaStep;
    const int64_t left = all - compute_regs * groups;
    producer_regs = held > 0 ? left : std::min(target_.registers.load_role, left);
  }
  AddRole(PlannedRole::Kind::kProducer, "load", 0, compute, held > 0 ? isa::kWarpgroupWarps : 1,
          producer_regs);
  if (p_.HasIssuer())
    AddRole(PlannedRole::Kind::kIssuer, "products", 0, compute + 1, 1, producer_regs);
  for (int role = 0; role < p_.compute_roles; ++role)
    AddRole(PlannedRole::Kind::kCompute,
            p_.compute_roles == 1 ? "compute" : "compute" + std::to_string(role), role,
            role * per_role, per_role, compute_regs);
  const int64_t barriers = 1 + p_.compute_roles * (1 + tiles_.warpgroups) + compute / 4;
  for (PlannedRole& role : p_.roles)
    role.turns = role.computes() && quotas && barriers <= target_.limits.named_barriers &&
                 TurnsPay(in_, tiles_, target_, role.warps / isa::kWarpgroupWarps);
}

// The quotas that the schedule says: obeyed if somebody wrote them, else noted where they differ.
void ProgramPlanner::TakeQuotas() {
  const ScheduledResources* scheduled = options_.scheduled;
  if (!scheduled || !specialized()) return;
  for (PlannedRole& role : p_.roles) {
    const bool producer = !role.computes();
    const auto index = static_cast<size_t>(role.index);
    const int64_t wanted = producer                              ? scheduled->load_registers
                           : index < scheduled->registers.size() ? scheduled->registers[index]
                                                                 : 0;
    if (wanted == 0 || wanted == role.registers) continue;
    if (scheduled->binding && role.registers > 0)
      role.registers = wanted;
    else
      p_.changed.push_back({role.name + ".registers", wanted, role.registers,
                            role.registers == 0 ? "one_warpgroup_has_what_the_launch_gives"
                                                : "as_many_as_the_register_file_has"});
  }
}

// Hopeless tiles are refused here: LLVM would take minutes to say so.
Result<> ProgramPlanner::CheckTiles(DiagSink& diags) const {
  for (const auto& [value, layout] : tiles_.layouts) {
    if (layout.regs() <= kHopeless * target_.limits.regs_per_thread) continue;
    const Op* def = in_.def(value);
    return diags
        .Report(lower_diag::kTileTooLarge, def ? def->at : Span{}, in_.type(value).elements(),
                layout.regs(), tiles_.threads(), target_.limits.regs_per_thread)
        .Help("choose smaller tiles");
  }
  return Done();
}

int ProgramPlanner::OwnerOf(OpId id) const {
  if (!specialized()) return 0;
  int owner = -1;
  for (int role = 0; role < p_.compute_roles; ++role) {
    if (!p_.Executes(role, id)) continue;
    if (owner >= 0) return -1;
    owner = role;
  }
  return owner;
}

bool ProgramPlanner::Contains(OpId outer, OpId inner) const { return IsWithin(in_, inner, outer); }

}  // namespace tilec::ir
