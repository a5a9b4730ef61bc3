// Who fills a ring, who reads it and who gives its slots back: each once, as often as the barriers
// count.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/plan_checker.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/lower/buffers.h"
#include "ir/lower/channels.h"
#include "ir/plan_laws.h"
#include "ir/plan_text.h"
#include "ir/queries.h"

namespace tilec::ir {

// Waits and releases are of roles, ops and rings that there are.
bool PlanChecker::Slots() {
  const auto known = [&](int role, bool executed, const std::vector<size_t>& rings,
                         const std::string& at) {
    for (size_t ring : rings)
      if (ring >= p_.rings.size()) Broken(law::kPlanRingEnds, ring, "there is no such ring");
    if (role < 0 || role >= p_.compute_roles || !executed)
      Broken(law::kPlanWarps,
             fmt::format("there is no compute role {} that executes {}", role, at));
  };
  const auto executes = [&](int role, OpId op) {
    return role >= 0 && static_cast<size_t>(role) < p_.needs.size() && op.valid() &&
           p_.Executes(role, op);
  };
  for (const auto* map : {&p_.awaits, &p_.releases})
    for (const auto& [key, rings] : *map)
      known(key.first, executes(key.first, key.second), rings,
            key.second.valid() ? names_[key.second] : "nothing");
  for (const auto& [key, rings] : p_.arm_releases)
    known(key.first, executes(key.first, fn_.blocks[key.second].parent), rings, "a branch");
  return good_;
}

// ---- rings
void PlanChecker::Ring(size_t i) {
  const PlannedRing& ring = p_.rings[i];
  if (ring.slots < 1) Broken(law::kPlanRingEnds, i, fmt::format("it has {} slots", ring.slots));
  if (ring.sites.empty()) return Broken(law::kPlanRingEnds, i, "nothing fills it");
  for (const RingSite& site : ring.sites) {
    if (site.loads.empty()) Broken(law::kPlanRingEnds, i, "a site has no load");
    if (site.readers.empty()) Broken(law::kPlanRingEnds, i, "a site has no consumer");
    int64_t bytes = 0;
    for (OpId load : site.loads)
      if (p_.tiles.loads.count(load))
        bytes += ToldBytes(p_.tiles.loads.at(load), fn_.type(fn_.ops[load].results[0]));
    if (bytes != ring.BytesOf(site)) Broken(law::kPlanRingBytes, i, ring.BytesOf(site), bytes);
    for (const auto& [role, readers] : site.readers) Consumer(i, site, role, readers);
  }
}

void PlanChecker::Consumer(size_t i, const RingSite& site, int role,
                           const RingSite::Readers& readers) {
  const BlockId block = fn_.ops[site.loads.front()].block;
  // The wait: an op of the loads' block, in front of every reader.
  OpId await;
  for (OpId id : fn_.blocks[block].ops)
    if (Among(Find(p_.awaits, role, id), i) && !(positions_.at(id) > positions_.at(readers.first)))
      await = id;
  for (OpId reader : site.reads) {
    if (!p_.Executes(role, reader)) continue;
    const OpId at = AncestorIn(fn_, block, reader);
    if (!await.valid() || !at.valid() || positions_.at(at) < positions_.at(await))
      Broken(law::kPlanUnawaited, names_[reader], i, RoleName(role));
  }
  const int releases = Releases(block, await, i, role);
  if (releases == 0)
    Broken(law::kPlanReleased, i, RoleName(role),
           fmt::format("does not release it behind {}", names_[readers.last]));
  if (releases > 1) Broken(law::kPlanReleased, i, RoleName(role), "releases it more than once");
  for (OpId reader : site.reads)
    if (p_.Executes(role, reader) && ReleasedBefore(block, await, reader, i, role))
      Broken(law::kPlanReleased, i, RoleName(role),
             fmt::format("releases it in front of {}, which reads it", names_[reader]));
}

// How often the slot awaited at `await` is released between there and the next wait of the ring
// in the block: along the way with fewest, or 2 if some way has more than one.
int PlanChecker::Releases(BlockId block, OpId await, size_t ring, int role) const {
  int count = 0;
  bool on = !await.valid();
  for (OpId id : fn_.blocks[block].ops) {
    if (on && id != await && Among(Find(p_.awaits, role, id), ring)) break;
    on = on || id == await;
    if (on) count += ReleasesOf(id, ring, role);
  }
  return count;
}

int PlanChecker::ReleasesOf(OpId id, size_t ring, int role) const {
  int count = Among(Find(p_.releases, role, id), ring);
  int least = INT32_MAX, most = 0;
  for (BlockId arm : fn_.ops[id].regions) {
    int inside = Among(Find(p_.arm_releases, role, arm), ring);
    for (OpId inner : fn_.blocks[arm].ops) inside += ReleasesOf(inner, ring, role);
    least = std::min(least, inside), most = std::max(most, inside);
  }
  if (fn_.ops[id].regions.empty()) return count;
  // Sites inside a loop or an arm have waits of their own there.
  if (HasAwait(id, ring, role)) return count;
  return least == most ? count + least : 2;
}

bool PlanChecker::HasAwait(OpId id, size_t ring, int role) const {
  for (BlockId arm : fn_.ops[id].regions)
    for (OpId inner : fn_.blocks[arm].ops)
      if (Among(Find(p_.awaits, role, inner), ring) || HasAwait(inner, ring, role)) return true;
  return false;
}

// Is there a release behind the wait and in front of the reader?
bool PlanChecker::ReleasedBefore(BlockId block, OpId await, OpId reader, size_t ring,
                                 int role) const {
  if (!await.valid()) return false;
  bool before = false;
  const int64_t from = positions_.at(await), to = positions_.at(reader);
  for (const auto& [key, rings] : p_.releases) {
    if (key.first != role || !Among(&rings, ring)) continue;
    const OpId at = AncestorIn(fn_, block, key.second);
    if (!at.valid()) continue;
    const bool contains = AncestorIn(fn_, fn_.ops[key.second].block, reader) == key.second;
    before = before || (positions_.at(key.second) >= from && positions_.at(key.second) < to &&
                        !contains && SameWay(key.second, reader));
  }
  return before;
}

// Can both ops be executed in one pass: do they not stand in different arms of a branch?
bool PlanChecker::SameWay(OpId a, OpId b) const {
  for (OpId up = ParentOf(fn_, a); up.valid(); up = ParentOf(fn_, up)) {
    if (fn_.ops[up].kind != OpKind::kIf) continue;
    for (BlockId arm : fn_.ops[up].regions)
      for (BlockId other : fn_.ops[up].regions)
        if (arm != other && AncestorIn(fn_, arm, a).valid() && AncestorIn(fn_, other, b).valid())
          return false;
  }
  return true;
}

void PlanChecker::Arrivals() {
  const int64_t role = p_.warps_per_role();
  for (size_t i = 0; i < p_.rings.size(); ++i)
    if (!p_.rings[i].sites.empty())
      Counts(fmt::format("ring {}", i), p_.rings[i].arrivals,
             (p_.ReleasedByCommit(p_.rings[i]) ? 1 : role) *
                 static_cast<int64_t>(p_.rings[i].sites[0].readers.size()));
  for (const auto& [id, token] : p_.tokens)
    Counts(fmt::format("token {}", id), token.arrivals, role);
  for (const auto& [id, pass] : p_.passes) Counts(fmt::format("pass {}", id), pass.arrivals, role);
  for (const auto& [op, exchange] : p_.exchanges)
    Counts(names_[op], exchange.arrivals, exchange.sent(fn_) ? 1 : role);
  for (const PlannedAccumulator& a : p_.accumulators)
    Counts(fmt::format("the accumulator of {}", names_[a.product]), a.arrivals, role);
}

}  // namespace tilec::ir
