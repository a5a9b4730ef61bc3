// What was decided of scalars, in the key of a state, as far as somebody can still ask: of the rest
// less is remembered than was answered.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/warp_check/key.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <vector>

namespace tilec::ir::warp_check {

// Atoms of a form, and of what they are made of, that only one role can compute.
const std::vector<int32_t>& Machine::PrivatesOf(int32_t form) {
  const auto at = static_cast<size_t>(form);
  if (at >= privates_of_.size()) privates_of_.resize(at + 1);
  if (privates_of_[at]) return *privates_of_[at];
  std::set<int32_t> found;
  for (const auto& [atom, c] : terms_.form(form)) {
    if (terms_.atom(atom).kind == Atom::Kind::kPrivate) found.insert(atom);
    for (const Scalar& arg : terms_.atom(atom).args)
      for (int32_t inner : PrivatesOf(arg.form)) found.insert(inner);
  }
  return privates_of_[at].emplace(found.begin(), found.end());
}

// What was decided, as far as it can still be asked.
void Machine::Writer::WriteKnown() {
  for (const Role& r : s.roles) {
    if (r.ended) continue;
    m.Stand(r);
    for (const auto& [v, scalar] : r.env)
      if (!m.Dead(v)) Lives(scalar);
  }
  std::vector<std::tuple<uint64_t, int64_t, int64_t>> known;
  for (auto it = s.known.begin(); it != s.known.end();) {
    if (name.Stale(it->first) || name.Done(it->first, m.terms_) || Gone(it->first)) {
      it = s.known.erase(it);
      continue;
    }
    int64_t step = 0;  // of the loops it speaks of
    for (const auto& [atom, c] : m.terms_.form(it->first))
      if (m.terms_.atom(atom).kind == Atom::Kind::kFrame)
        step = std::max(step, name.StepOf(m.terms_.atom(atom)) * std::abs(c));
    const bool framed = step > 0;
    const int64_t shift = name.Shift(it->first), old = -4 * step - shift - m.LagOf(it->first);
    Bounds& b = it->second;
    // Of long past questions less is remembered than was answered: whoever still asks may hear
    // either. (A bound that counts as another one in the key alone would hide what differs.)
    if (framed && b.lo < old) b.lo = INT64_MIN;
    if (framed && b.hi < old) b.hi = old;
    // Far off, a late iteration hears its own answers (Machine::none_fits is for sizes alone).
    const auto far = [](int64_t bound) { return bound >= kFarOff || bound <= -kFarOff; };
    if (!framed && far(b.lo)) b.lo = INT64_MIN;
    if (!framed && far(b.hi)) b.hi = INT64_MAX;
    if (b.lo == INT64_MIN && b.hi == INT64_MAX) {
      it = s.known.erase(it);
      continue;
    }
    known.emplace_back(name.OfForm(it->first), b.lo == INT64_MIN ? b.lo : b.lo + shift,
                       b.hi == INT64_MAX ? b.hi : b.hi + shift);
    ++it;
  }
  std::sort(known.begin(), known.end());
  out(known.size());
  for (const auto& [form, lo, hi] : known) out(form), out(lo), out(hi);
  for (const Role& r : s.roles)
    for (const Frame& f : r.frames) {
      for (const Scalar& scalar : f.init) Lives(scalar);
      Lives(f.position), Lives(f.end), Lives(f.length);
    }
}

void Machine::Writer::Lives(const Scalar& scalar) {
  if (scalar.constant()) return;
  const uint32_t now = kept.names.now;
  uint32_t& marked = NameMemory::At(lives, scalar.form);
  if (marked == now) return;
  marked = now;
  for (const int32_t atom : m.PrivatesOf(scalar.form)) NameMemory::At(live, atom) = now;
}

// Nothing that is left is made of what it is made of, so nothing like it will be made again.
bool Machine::Writer::Gone(int32_t form) {
  const std::vector<int32_t>& used = m.PrivatesOf(form);
  return std::any_of(used.begin(), used.end(),
                     [&](int32_t atom) { return NameMemory::At(live, atom) != kept.names.now; });
}

}  // namespace tilec::ir::warp_check
