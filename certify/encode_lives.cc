// Values while they live: rings, registers, tensor memory. What is counted is not written out;
// covers forbid single overflows (certify/cover.h).
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "certify/encode.h"

namespace tilec::certify {

using scheduler::GraphOp;
using Kind = Law::Kind;

// II·d >= t(y) + δ·II + hold − t(v) for every reader y.
Lit Encoding::RingWithin(int v, int64_t d) {
  auto [it, fresh] = ring_.try_emplace({v, d}, 0);
  if (!fresh) return it->second;
  const Lit within = it->second = clauses_.NewBool();
  for (const Arc& arc : arcs_)
    if (arc.value && arc.from == v)
      Apart({-within, Off(arc)}, v, arc.to, arc.distance * ii_ + arc.hold - d * ii_);
  return within;
}

// The first slot of every ring is paid for; each further one where the ring is not within fewer.
void Encoding::AddSmem() {
  constexpr int64_t kMostLevels = 8;  // deeper rings are charged as these
  const int64_t room = g_.machine.smem_bytes;
  int64_t least = 0;
  std::vector<std::pair<Lit, int64_t>> terms;
  for (int v = 0; v < n_; ++v) {
    if (g_.ops[v].smem_bytes == 0) continue;
    const int64_t slot = g_.ops[v].smem_bytes + g_.machine.barrier_bytes;
    if (!g_.ops[v].routed) least += slot;
    terms.emplace_back(-absent_[v], slot);
  }
  for (int v = 0; v < n_; ++v) {
    const GraphOp& op = g_.ops[v];
    if (op.smem_bytes == 0) continue;
    const int64_t slot = op.smem_bytes + g_.machine.barrier_bytes;
    int64_t pinned = 0;
    for (const Law& law : laws_)
      if (law.kind == Kind::kPinDepth && law.ops[0] == v)
        pinned = std::max<int64_t>(pinned, g_.pins[law.index].depth);
    if (pinned > 0) {
      terms.emplace_back(kTrue, (pinned - 1) * slot);
      continue;
    }
    const int64_t most = 1 + std::max<int64_t>(0, room - least) / slot;
    const int64_t levels = std::min(most, kMostLevels);
    Lit before = kFalse;  // within d − 1
    for (int64_t d = 1; d <= levels; ++d) {
      const Lit within = RingWithin(v, d);
      if (before != kFalse) clauses_.Add({-before, within});
      before = within;
      // Beyond the last level that fits there is no room at all.
      if (d == most)
        clauses_.Add({within, absent_[v]});
      else
        terms.emplace_back(-within, slot);
    }
  }
  clauses_.AtMost(kFalse, terms, room);
}

// A value that its own op reads δ iterations later has at least δ live instances at any time.
void Encoding::AddAccumulators() {
  std::vector<int64_t> always(n_, 0);
  for (const Arc& arc : arcs_)
    if (arc.value && arc.from == arc.to && arc.when == When::kAlways)
      always[arc.from] = std::max(always[arc.from], arc.distance);
  for (int e = 0; e < n_; ++e) {
    if (always[e] == 0 || g_.ops[e].regs == 0) continue;
    std::vector<std::pair<Lit, int64_t>> terms;
    for (int v = 0; v < n_; ++v)
      if (always[v] > 0 && g_.ops[v].regs > 0)
        terms.emplace_back(Same(v, e), g_.ops[v].regs * always[v]);
    clauses_.AtMost(kFalse, terms, g_.machine.max_regs_per_thread);
  }
}

// Instances of v live at τ = t(e): ⌊(τ − t(v))/II⌋ − ⌊(τ − t(y) − δ·II − hold)/II⌋, y the last
// reader. In stages and slots, with hold = H·II + h, that is
//
//   stage(y) − stage(v) + δ + H − [slot(e) < slot(v)] + ends
//
// where ends is 0 if slot(e) − slot(y) >= h, 1 if it is >= h − II, else 2.
Lit Encoding::LiveAtMost(int v, int e, int64_t n) {
  auto [it, fresh] = live_.try_emplace({v, e, n}, 0);
  if (!fresh) return it->second;
  const Lit self = it->second = clauses_.NewBool();
  const Lit starts = clauses_.Difference(slot_[v], slot_[e], 1);
  for (const Arc& arc : arcs_) {
    if (!arc.value || arc.from != v) continue;
    const Lit off = Off(arc);
    const int y = arc.to;
    const int64_t h = arc.hold % ii_, m = n - arc.distance - arc.hold / ii_;
    const Lit none = clauses_.Difference(slot_[e], slot_[y], h),
              one = clauses_.Difference(slot_[e], slot_[y], h - ii_);
    auto stages = [&](int64_t most) { return clauses_.Difference(stage_[v], stage_[y], -most); };
    clauses_.Add({-self, off, stages(m + 1)});
    clauses_.Add({-self, off, starts, stages(m)});
    clauses_.Add({-self, off, none, stages(m)});
    clauses_.Add({-self, off, starts, none, stages(m - 1)});
    clauses_.Add({-self, off, one, stages(m - 1)});
    clauses_.Add({-self, off, starts, one, stages(m - 2)});
  }
  return self;
}

std::vector<Lit> Encoding::CoverClause(const Peak& peak, bool registers) {
  std::vector<Lit> clause;
  for (const LivePart& part : peak.parts) {
    if (registers) clause.push_back(-Same(part.op, peak.at));
    clause.push_back(absent_[part.op]);
    clause.push_back(LiveAtMost(part.op, peak.at, part.count - 1));
  }
  return clause;
}

std::string Encoding::Add(const Cover& cover) {
  const Kind law = cover.kind == Cover::Kind::kRegisters ? Kind::kRegisters
                   : cover.kind == Cover::Kind::kTmem    ? Kind::kTmem
                                                         : Kind::kRegisterPool;
  if (!Has(law)) return "a cover is of a law that the core does not name";
  if (std::string problem = Problem(g_, cover); !problem.empty())
    return "the cover `" + ToText(cover) + "` proves nothing: " + problem;
  std::vector<Lit> clause;
  for (const Peak& peak : cover.peaks) {
    const std::vector<Lit> part = CoverClause(peak, law != Kind::kTmem);
    clause.insert(clause.end(), part.begin(), part.end());
    for (const Peak& other : cover.peaks)
      if (&other < &peak) clause.push_back(Same(peak.at, other.at));
  }
  // Roles are numbered in order, so these many of a width are used if the last of them is and the
  // next is not.
  for (size_t w = 0; w < cover.roles.size(); ++w) {
    clause.push_back(-Used(w, cover.roles[w] - 1));
    if (!cover.or_more && cover.roles[w] < widths_[w].roles)
      clause.push_back(Used(w, cover.roles[w]));
  }
  clauses_.Add(clause);
  return "";
}

}  // namespace tilec::certify
