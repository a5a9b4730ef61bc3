// SPDX-License-Identifier: Apache-2.0
#include "ir/check_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "ir/isa.h"
#include "ir/lower/buffers.h"
#include "ir/lower/role_needs.h"
#include "ir/plan_checker.h"
#include "ir/plan_laws.h"

namespace tilec::ir {

namespace {

constexpr int64_t kAlign = 1024;    // swizzle patterns repeat
constexpr int64_t kChainSlots = 3;  // one in use, one for the next product, one being filled

}  // namespace

bool PlanChecker::Run() {
  if (!Slots()) return false;
  Warps();
  Quotas();
  NamedBarriers();
  for (size_t i = 0; i < p_.rings.size(); ++i) Ring(i);
  Arrivals();
  Tokens();
  Routes();
  Accumulators();
  Pair();
  Memory();
  Chains();
  return good_;
}

std::string PlanChecker::RoleName(int compute) const {
  for (const PlannedRole& role : p_.roles)
    if (role.computes() && role.index == compute) return role.name;
  return std::to_string(compute);
}

// ---- the CTA
void PlanChecker::Warps() {
  std::vector<const PlannedRole*> order;
  int compute = 0, issuers = 0;
  for (const PlannedRole& role : p_.roles) {
    order.push_back(&role);
    const bool serves = !role.computes();
    compute += !serves;
    issuers += role.kind == PlannedRole::Kind::kIssuer;
    if (role.kind == PlannedRole::Kind::kIssuer && role.warps != 1)
      Broken(law::kPlanWarps,
             fmt::format("`{}` has {} warps; one thread issues", role.name, role.warps));
    if (role.warps < 1 || role.first_warp < 0)
      Broken(law::kPlanWarps,
             fmt::format("`{}` has {} warps from {} on", role.name, role.warps, role.first_warp));
    else if (!serves && (role.warps != p_.warps_per_role() || role.first_warp % 4 != 0))
      if (p_.specialized)
        Broken(law::kPlanWarps,
               fmt::format("`{}` has warps {}…{}; its tiles take {} from a multiple of 4 on",
                           role.name, role.first_warp, role.first_warp + role.warps - 1,
                           p_.warps_per_role()));
  }
  if (issuers != int{p_.HasIssuer()})
    Broken(law::kPlanWarps, fmt::format("{} roles issue the products of {} accumulators", issuers,
                                        p_.accumulators.size()));
  if (compute != p_.compute_roles)
    Broken(law::kPlanWarps, fmt::format("there are {} compute roles, and the ops have {}", compute,
                                        p_.compute_roles));
  std::sort(order.begin(), order.end(), [](const PlannedRole* a, const PlannedRole* b) {
    return a->first_warp < b->first_warp;
  });
  int next = 0;
  for (const PlannedRole* role : order) {
    if (role->first_warp < next)
      Broken(law::kPlanWarps,
             fmt::format("`{}` shares warp {} with another role", role->name, role->first_warp));
    next = role->first_warp + role->warps;
  }
  if (next > p_.warps || p_.warps > limits_.warps)
    Broken(law::kPlanWarps, fmt::format("they need {} warps, the plan has {}, a CTA at most {}",
                                        next, p_.warps, limits_.warps));
}

// Registers are dealt out by warpgroups: roles of one warp share one.
void PlanChecker::Quotas() {
  std::map<int64_t, int64_t> of_group;
  bool any = false;
  for (const PlannedRole& role : p_.roles) {
    any = any || role.registers > 0;
    for (int64_t group = role.first_warp / 4; group * 4 < role.first_warp + role.warps; ++group)
      of_group[group] = std::max(of_group[group], role.registers);
    const bool form = role.registers % isa::kQuotaStep == 0 && role.registers >= isa::kLeastQuota &&
                      role.registers <= isa::kMostThreadRegisters;
    if (role.registers != 0 && !form)
      Broken(law::kPlanQuota, fmt::format("`{}` has {}", role.name, role.registers));
  }
  int64_t all = 0;
  for (const auto& [group, registers] : of_group) all += 128 * registers;
  for (const PlannedRole& role : p_.roles)
    if (any && role.registers == 0)
      Broken(law::kPlanQuota, fmt::format("others have one, and `{}` has none", role.name));
  if (all > limits_.registers)
    Broken(law::kPlanQuota,
           fmt::format("they are {} registers in all, of {}", all, limits_.registers));
}

void PlanChecker::NamedBarriers() {
  int64_t parts = 0;
  for (const auto& [store, epilogue] : p_.epilogues)
    if (epilogue.rows_of_part > 0) parts = p_.tiles.warpgroups;
  int64_t all = p_.specialized ? 1 + p_.compute_roles * (1 + parts) : 1;
  for (const PlannedRole& role : p_.roles) {
    if (!role.turns) continue;
    all += role.warps / isa::kWarpgroupWarps;
    if (!role.computes() || role.warps < 2 * isa::kWarpgroupWarps)
      Broken(law::kPlanWarps,
             fmt::format("`{}` takes turns, and is not two warpgroups that compute", role.name));
  }
  if (all > limits_.named_barriers) Broken(law::kPlanNamedBarriers, all, limits_.named_barriers);
}

// ---- tensor memory
// Every sum has one, if any has: then the compute roles issue no product.
void PlanChecker::Accumulators() {
  if (!p_.HasIssuer()) return;
  std::set<OpId> first;
  for (const PlannedAccumulator& a : p_.accumulators) {
    const std::string name = names_[a.product];
    if (!first.insert(a.product).second)
      Broken(law::kPlanAccumulators, fmt::format("{} has two", name));
    if (a.slots < 1)
      Broken(law::kPlanAccumulators, fmt::format("that of {} has {} slots", name, a.slots));
  }
  for (const TensorSum& sum : p_.sums)
    if (!first.count(sum.dots[0]))
      Broken(law::kPlanAccumulators, fmt::format("{} has none", names_[sum.dots[0]]));
  if (p_.accumulator_of.size() != p_.accumulators.size())
    Broken(law::kPlanAccumulators, fmt::format("{} products begin sums, and {} have one",
                                               p_.accumulator_of.size(), p_.accumulators.size()));
  if (p_.tensor_columns > kTensorColumns)
    Broken(law::kPlanAccumulators, fmt::format("their slots take {} columns; a CTA has {}",
                                               p_.tensor_columns, kTensorColumns));
}

// Halves of right operands, and of nothing else; whole blocks of rows, an issuer for both.
void PlanChecker::Pair() {
  std::map<OpId, int> halves;
  if (p_.pair)
    for (const auto& [id, dot] : p_.tiles.dots)
      halves[fn_.values[dot.b.source].def] = dot.b.trans ? 1 : 0;
  for (const auto& [id, load] : p_.tiles.loads)
    if (const auto it = halves.find(id); load.half != (it == halves.end() ? -1 : it->second))
      Broken(law::kPlanPair, fmt::format("{} has half={}, where {}", names_[id], load.half,
                                         it == halves.end() ? "no product has it on its right"
                                                            : fmt::format("{} is N", it->second)));
  if (!p_.pair) return;
  if (p_.cluster != 2) Broken(law::kPlanPair, fmt::format("clusters of {} CTAs", p_.cluster));
  if (!p_.HasIssuer()) Broken(law::kPlanPair, "no role of its own issues the products");
  for (const auto& [id, dot] : p_.tiles.dots) {
    const std::vector<int64_t>& shape = fn_.type(fn_.ops[id].results[0]).shape;
    if (shape[0] % kTensorLanes != 0 || shape[1] % (2 * kTensorColumnStep) != 0)
      Broken(law::kPlanPair, fmt::format("{} is {} x {} in a CTA", names_[id], shape[0], shape[1]));
  }
}

// The marks of the ops and the tokens of the plan agree.
void PlanChecker::Tokens() {
  std::map<int64_t, std::pair<int, int>> ends;  // by token: ops that signal, that await
  for (OpId id : OpsInOrder(fn_)) {
    const Op& op = fn_.ops[id];
    if (PutsTile(op) || TakesTile(op)) continue;
    if (op.attr("signal"))
      for (int64_t token : op.ints("signal")) ++ends[token].first;
    if (op.attr("await"))
      for (int64_t token : op.ints("await")) ++ends[token].second;
  }
  if (!p_.specialized) return;
  for (const auto& [id, count] : ends) {
    if (!p_.tokens.count(id))
      Broken(law::kPlanTokenEnds, id, "ops carry it, and the plan has none");
    if (!count.first) Broken(law::kPlanTokenEnds, id, "nothing signals it");
    if (!count.second) Broken(law::kPlanTokenEnds, id, "nothing awaits it");
  }
  for (const auto& [id, token] : p_.tokens) {
    if (!ends.count(id)) Broken(law::kPlanTokenEnds, id, "no op carries it");
    if (token.slots < 2) Broken(law::kPlanTokenEnds, id, "one slot does not hold a prologue's");
  }
}

// ---- shared memory
bool PlanChecker::HasBuffer(const std::string& what, size_t buffer, int64_t slots) {
  if (buffer >= p_.buffers.size())
    return Broken(law::kPlanRoute, what, fmt::format("there is no buffer {}", buffer)), false;
  if (p_.buffers[buffer].type.depth == slots) return true;
  Broken(law::kPlanRoute, what,
         fmt::format("buffer {} has {} slots instead of {}", buffer, p_.buffers[buffer].type.depth,
                     slots));
  return false;
}

void PlanChecker::Uses(OpId op, size_t buffer) {
  const PlannedBuffer& b = p_.buffers[buffer];
  const int64_t at = positions_.at(op);
  if (at < b.begin || at > b.end) Broken(law::kPlanLife, buffer, b.begin, b.end, names_[op], at);
}

bool PlanChecker::Drains(OpId store) const {
  const auto epilogue = p_.epilogues.find(store);
  return epilogue != p_.epilogues.end() &&
         (epilogue->second.drains || epilogue->second.freed_at.valid());
}

// … from the beginning of the loops around it to their end.
void PlanChecker::UsesAgain(OpId op, size_t buffer) {
  const PlannedBuffer& b = p_.buffers[buffer];
  const int64_t end = positions_.LastUse(fn_.blocks[fn_.body].ops[0], op);
  if (b.begin > 0 || b.end < end)
    Broken(law::kPlanLife, buffer, b.begin, b.end, names_[op], b.begin > 0 ? 0 : end);
}

void PlanChecker::Routes() {
  for (const auto& [op, load] : p_.tiles.loads) {
    if (!load.buffer && !load.shares.valid()) continue;
    const auto buffer = p_.load_buffers.find(op);
    const auto site = p_.site_of.find(op);
    if (buffer == p_.load_buffers.end()) {
      Broken(law::kPlanRoute, names_[op], "it passes through shared memory and has no buffer");
      continue;
    }
    const int64_t slots = site == p_.site_of.end() ? 1 : p_.rings[site->second.first].slots;
    if (HasBuffer(names_[op], buffer->second, slots)) Uses(op, buffer->second);
    if (load.tma && site == p_.site_of.end() && !p_.copy_barrier)
      Broken(law::kPlanCopyBarrier, names_[op]);
  }
  for (const OperandRing& ring : p_.operand_rings)
    for (const auto& [dot, left] : ring.operands) {
      const std::string what = names_[dot] + (left ? ", left operand" : ", right operand");
      if (!ring.buffer)
        Broken(law::kPlanRoute, what, "it is computed and has no buffer");
      else if (HasBuffer(what, *ring.buffer, ring.slots))
        ring.met ? UsesAgain(dot, *ring.buffer) : Uses(dot, *ring.buffer);
    }
  for (const auto& [op, store] : p_.tiles.stores) {
    if (!store.tma) continue;
    const auto buffer = p_.store_buffers.find(op);
    const int64_t panels = p_.epilogues.count(op) ? p_.epilogues.at(op).panels : 0;
    if (buffer == p_.store_buffers.end())
      Broken(law::kPlanRoute, names_[op], "it leaves by TMA and has no staging buffer");
    else if (HasBuffer(names_[op],
                       buffer->second + static_cast<size_t>(std::max<int64_t>(1, panels)) - 1, 1))
      Drains(op) ? UsesAgain(op, buffer->second) : Uses(op, buffer->second);
  }
  for (const auto& [id, pass] : p_.passes)
    HasBuffer(fmt::format("pass {}", id), pass.buffer, pass.slots);
  for (const auto& [op, exchange] : p_.exchanges)
    if (exchange.buffer >= p_.buffers.size())
      Broken(law::kPlanRoute, names_[op], fmt::format("there is no buffer {}", exchange.buffer));
}

void PlanChecker::Memory() {
  int64_t end = 0;
  for (size_t i = 0; i < p_.buffers.size(); ++i) {
    const PlannedBuffer& a = p_.buffers[i];
    const int64_t bytes = SmemBytes(a.type.smem, a.type.dtype) * a.type.depth;
    if (a.offset < 0 || a.offset % kAlign != 0)
      Broken(law::kPlanAddress, i, fmt::format("it lies at {}", a.offset));
    if (a.bytes != bytes)
      Broken(law::kPlanAddress, i,
             fmt::format("it has {} B, and its {} slots take {} B", a.bytes, a.type.depth, bytes));
    end = std::max(end, a.offset + bytes);
    for (size_t j = 0; j < i; ++j) {
      const PlannedBuffer& b = p_.buffers[j];
      const bool bytes_meet = a.offset < b.offset + b.bytes && b.offset < a.offset + bytes;
      const bool lives_meet = a.owner != b.owner || (a.begin <= b.end && b.begin <= a.end);
      if (bytes_meet && lives_meet) Broken(law::kPlanOverlap, j, i);
    }
  }
  const int64_t least = std::max(p_.smem_bytes, end);
  if (least > limits_.smem_bytes) Broken(law::kPlanSharedMemory, least, limits_.smem_bytes);
}

// ---- products in flight
void PlanChecker::Chains() {
  for (const auto& [key, loop] : p_.loops)
    for (const PlannedChain& chain : loop.chains) {
      for (size_t ring : chain.rings)
        if (ring >= p_.rings.size() || p_.rings[ring].slots < kChainSlots)
          Broken(law::kPlanChain, names_[chain.dot],
                 fmt::format("ring {} has fewer than {} slots", ring, kChainSlots));
      if (p_.OneSlot(chain.dot))
        Broken(law::kPlanChain, names_[chain.dot], "a computed operand of it has one slot");
    }
}

Result<> CheckPlan(const ProgramPlan& plan, const Function& fn, const PlanLimits& limits,
                   DiagSink& diags) {
  if (PlanChecker(plan, fn, limits, diags).Run()) return Done();
  return DiagSink::Propagate();
}

}  // namespace tilec::ir
