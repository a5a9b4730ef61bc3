// Control as questions of the agreement (agreement.h): the first role that comes to one is answered
// either way, and all others that ask the same in the same iteration hear the same.
//
// Iterations are counted, over the whole walk, by loop; the iteration of the loop around names the
// answers given in it. Keys count from the slowest role, so that neither grows. An answer is
// forgotten when every role that asks has gone past the place where it does.
//
// Scalars are known only where they are constant: a flag of the first iteration, a slot, a number
// of a loop of few iterations. What changes from one iteration to the next is not known.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ir/warp_check/machine.h"

namespace tilec::ir::warp_check {
namespace {
constexpr int64_t kNowhere = INT64_MAX;
}

void Machine::Know(int32_t value, const Scalar& scalar) {
  if (!agreed || scalar.constant())
    me().env[value] = scalar;
  else
    me().env.erase(value);
}

// Is there an iteration of this number; does the condition hold? 1, 0, or -1 and a question.
int Machine::Agree(OpId id, const Scalar& condition, int64_t iteration) {
  if (condition.constant()) return condition.add != 0;
  const Agreement::Control& control = agreed->of[static_cast<size_t>(id.index)];
  const int64_t n = control.context < 0 ? 0 : me().iterations[static_cast<size_t>(control.context)];
  const auto it = s_->agreed.find({control.question, n});
  if (it != s_->agreed.end()) {
    if (it->second.lo > iteration) return 1;
    if (it->second.hi <= iteration) return 0;
  }
  me().undecided = true;
  me().agreed_question = {control.question, n, iteration};
  return -1;
}

void Machine::BeginIteration(OpId loop) {
  ++me().iterations[static_cast<size_t>(agreed->of[static_cast<size_t>(loop.index)].loop)];
}

// At the beginning of a for.
Step Machine::EnterAgreed(OpId loop) {
  const Op& op = fn_.ops[loop];
  Frame& f = me().frames.back();
  f.next = -1;
  f.position = Get(op.operands[0]);
  f.end = Get(op.operands[1]);
  const Scalar length = terms_.Add(f.end, f.position, -1);
  if (!length.constant() || !f.end.constant() || length.add > kShortLoop * op.i("step")) {
    f.position = {};
    f.end = Unknown();
  }
  const std::vector<ValueId>& args = fn_.blocks[f.block].args;
  for (size_t i = 1; i < args.size(); ++i) Pass(op.operands[i + 1], args[i]);
  return Step::kDone;
}

Scalar Machine::Unknown() { return terms_.Of({Atom::Kind::kPrivate, INT64_MIN, 0, {}}); }

// The first iteration that a role may still ask about at a place, if it is in this iteration of the
// loop around; kNowhere: it is past it.
int64_t Machine::NeededAt(const Role& role, const Agreement::Site& site) const {
  size_t at = 0;
  if (site.around.valid()) {
    while (at < role.frames.size() && role.frames[at].op != site.around) ++at;
    if (at == role.frames.size()) return kNowhere;  // it has left the loop
    const Frame& f = role.frames[at];
    const Op& op = fn_.ops[site.around];
    if (op.kind == OpKind::kWhile && f.block != site.way[0].first)
      return f.region == 0 ? 0 : kNowhere;
  }
  for (size_t k = 0; k < site.way.size(); ++k, ++at) {
    const auto& [block, place] = site.way[k];
    const Frame& f = role.frames[at];
    if (f.block != block || f.next < 0) return kNowhere;  // another branch; the iteration is over
    const bool deeper = at + 1 < role.frames.size();
    const int now = deeper ? f.next - 1 : f.next;
    if (now != place || !deeper) return now <= place ? 0 : kNowhere;
  }
  return IsLoop(fn_.ops[site.op].kind) ? role.frames[at].turns : kNowhere;
}

int64_t Machine::NeededAt(const State& state, size_t role, int32_t question, int64_t n,
                          AskedBy by) const {
  const Role& r = state.roles[role];
  const auto& sites = agreed->sites[role][static_cast<size_t>(question)];
  const auto asks = [&](const Agreement::Site& site) {
    return IsLoop(fn_.ops[site.op].kind) == (by == AskedBy::kLoops);
  };
  if (r.ended || std::none_of(sites.begin(), sites.end(), asks)) return kNowhere;
  const int32_t context = agreed->context_of[static_cast<size_t>(question)];
  const int64_t now = context < 0 ? 0 : r.iterations[static_cast<size_t>(context)];
  if (now != n || !r.started) return now > n ? kNowhere : 0;
  int64_t least = kNowhere;
  for (const Agreement::Site& site : sites)
    if (asks(site)) least = std::min(least, NeededAt(r, site));
  return least;
}

// The first iteration of a run that some role may still ask about; kNowhere: none does.
int64_t Machine::AgreedBase(int32_t question, int64_t n, AskedBy by) const {
  int64_t base = kNowhere;
  for (size_t role = 0; role < s_->roles.size(); ++role)
    base = std::min(base, NeededAt(*s_, role, question, n, by));
  return base;
}

int64_t Machine::SlowestIn(int32_t loop) const {
  int64_t least = kNowhere;
  for (size_t role = 0; role < s_->roles.size(); ++role)
    if (!s_->roles[role].ended && agreed->has_loop[role][static_cast<size_t>(loop)])
      least = std::min(least, s_->roles[role].iterations[static_cast<size_t>(loop)]);
  return least == kNowhere ? 0 : least;
}

// What decides about control to come: answers that somebody may still ask for, and where each role
// is in its loops.
std::vector<int64_t> Machine::AgreedKey() {
  std::vector<int64_t> key;
  for (auto it = s_->agreed.begin(); it != s_->agreed.end();) {
    const auto& [question, n] = it->first;
    // Branches ask of the first iteration alone, so numbers of later ones do not matter to them.
    const int64_t loops = AgreedBase(question, n, AskedBy::kLoops);
    const bool branches = AgreedBase(question, n, AskedBy::kBranches) != kNowhere;
    Trips trips = it->second;
    if (loops == kNowhere && trips.lo > 0) trips = {1, INT64_MAX};
    const int64_t base = loops == kNowhere ? 0 : loops;
    const bool first = branches && trips.lo > 0;
    if ((loops == kNowhere && !branches) || (trips.lo <= base && trips.hi == INT64_MAX && !first)) {
      it = s_->agreed.erase(it);
      continue;
    }
    const int32_t context = agreed->context_of[static_cast<size_t>(question)];
    key.insert(key.end(), {question, context < 0 ? 0 : n - SlowestIn(context),
                           std::max<int64_t>(trips.lo - base, 0),
                           trips.hi == INT64_MAX ? -1 : trips.hi - base});
    ++it;
  }
  key.push_back(-1);
  for (size_t role = 0; role < s_->roles.size(); ++role) {
    const Role& r = s_->roles[role];
    if (!r.started || r.ended) continue;
    for (int32_t loop = 0; loop < agreed->loops; ++loop)
      if (agreed->has_loop[role][static_cast<size_t>(loop)])
        key.push_back(r.iterations[static_cast<size_t>(loop)] - SlowestIn(loop));
    for (const Frame& f : r.frames) {
      if (!f.op.valid() || !IsLoop(fn_.ops[f.op].kind)) continue;
      const Agreement::Control& control = agreed->of[static_cast<size_t>(f.op.index)];
      const int64_t n =
          control.context < 0 ? 0 : r.iterations[static_cast<size_t>(control.context)];
      key.push_back(f.turns > 0);
      key.push_back(f.turns - AgreedBase(control.question, n, AskedBy::kLoops));
      if (f.end.constant()) key.insert(key.end(), {f.position.add, f.end.add});
    }
    key.push_back(-2);
  }
  return key;
}

bool Machine::AheadAgreed(const State& state, int role, int other) const {
  const Role &mine = state.roles[static_cast<size_t>(role)],
             &theirs = state.roles[static_cast<size_t>(other)];
  for (size_t loop = 0; loop < static_cast<size_t>(agreed->loops); ++loop)
    if (agreed->has_loop[static_cast<size_t>(role)][loop] &&
        agreed->has_loop[static_cast<size_t>(other)][loop] &&
        mine.iterations[loop] > theirs.iterations[loop])
      return true;
  return false;
}

}  // namespace tilec::ir::warp_check
