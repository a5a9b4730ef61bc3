// Is the order of a role's loop the schedule's? Copies, products and what threads compute stand in
// the turns that the schedule says.
//
// SPDX-License-Identifier: Apache-2.0
#include "tests/obeyed/comparer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tests/obeyed/compare.h"
#include "tests/obeyed/counted.h"
#include "tests/obeyed/order.h"
#include "tests/obeyed/waits.h"

namespace tilec::obeyed {

// ---- order and stages -----------------------------------------------------------------------
// Products of the role that share their place in the source, by their place in the turn.
std::vector<int> Comparer::Alike(const Wanted& op, int slice) const {
  std::vector<int> same;
  for (size_t o = 0; o < wanted_.ops.size(); ++o) {
    const Wanted& other = wanted_.ops[o];
    if (Mine(other, slice) && !IsPass(other) && other.product && other.at == op.at)
      same.push_back(static_cast<int>(o));
  }
  return same;
}

// Arithmetic that shares its place in the source with a part of another op of the role cannot be
// told from that.
bool Comparer::Alone(int o, int slice) const {
  const Wanted& op = wanted_.ops[static_cast<size_t>(o)];
  if (IsPass(op)) return true;  // it has a ring of its own
  for (size_t i = 0; i < wanted_.ops.size(); ++i) {
    const Wanted& other = wanted_.ops[i];
    if (static_cast<int>(i) != o && Mine(other, slice) && !IsPass(other) &&
        other.parts.count(op.at))
      return false;
  }
  return true;
}

// Where in the turn an op's instructions stand.
std::vector<size_t> Comparer::PlacesOf(const Wanted& op, const std::vector<Event>& turn) const {
  std::vector<size_t> at;
  for (size_t i = 0; i < turn.size(); ++i) {
    if (turn[i].at != op.at && !IsPass(op)) continue;
    const bool mine = IsPass(op) ? Passes(op, turn[i])
                      : op.product
                          ? turn[i].kind == Event::Kind::kProduct
                          : turn[i].kind == Event::Kind::kCode &&
                                OnTiles(*code_.instrs()[static_cast<size_t>(turn[i].instr)].s);
    if (mine) at.push_back(i);
  }
  return at;
}

std::vector<Seen> Comparer::Look(const std::vector<Event>& turn, int slice) {
  std::vector<std::vector<size_t>> places(wanted_.ops.size()), alone;
  bool products = false;
  for (size_t o = 0; o < wanted_.ops.size(); ++o) {
    if (!Mine(wanted_.ops[o], slice)) continue;
    places[o] = PlacesOf(wanted_.ops[o], turn);
    products = products || wanted_.ops[o].product;
    if (Alone(static_cast<int>(o), slice)) alone.push_back(places[o]);
  }
  const size_t together = products ? 1 : TurnsTogether(alone);
  std::vector<Seen> seen;
  for (size_t o = 0; o < wanted_.ops.size(); ++o) {
    const Wanted& op = wanted_.ops[o];
    if (!Mine(op, slice)) continue;
    const std::vector<size_t>& at = places[o];
    if (at.empty() || (!op.product && !Alone(static_cast<int>(o), slice))) {
      if (op.product ||
          (IsPass(op) && barriers_[static_cast<size_t>(std::max(op.put, op.take))].end > 0))
        Fault(fmt::format("{} at {} is not in the turn", op.name, Show(op.at)));
      ++verdict_.unseen;
      continue;
    }
    size_t middle = MiddleOf(at, together);
    std::vector<int> alike;
    if (op.product) alike = Alike(op, slice);
    if (alike.size() > 1) {
      const size_t each = at.size() / alike.size();
      if (each * alike.size() != at.size())
        Fault(fmt::format("{} ops at {} make {} products", alike.size(), Show(op.at), at.size()));
      const auto which = std::find(alike.begin(), alike.end(), static_cast<int>(o));
      middle = at[static_cast<size_t>(which - alike.begin()) * each + each / 2];
    } else {
      alike.clear();
    }
    int stretch = 0;
    for (size_t i = 0; i < middle; ++i) stretch += Outside(turn[i]);
    std::vector<int> instrs;
    for (size_t i : at) instrs.push_back(turn[i].instr);
    seen.push_back({static_cast<int>(o), static_cast<double>(middle), std::move(instrs), -1, -1,
                    stretch, together > 1 && op.for_meeting, std::move(alike)});
  }
  std::sort(seen.begin(), seen.end(), [](const Seen& a, const Seen& b) { return a.at < b.at; });
  return seen;
}

// How many turns the loop is pipelined over: the same for all of its ops.
int Comparer::Span(const Loop& loop, const std::vector<Seen>& seen) const {
  std::map<double, int> votes;
  for (const Seen& s : seen) {
    const Copies c = CopiesOf(loop, wanted_.ops[static_cast<size_t>(s.op)], s.instrs);
    if (wanted_.ops[static_cast<size_t>(s.op)].unread > 0) continue;
    votes[c.before + c.behind] += wanted_.ops[static_cast<size_t>(s.op)].product ? 100 : 1;
  }
  int span = 0, most = 0;
  for (const auto& [copies, n] : votes)
    if (copies == static_cast<int>(copies) && n > most) {
      most = n;
      span = static_cast<int>(copies);
    }
  return span;
}

// How many turns behind the loop's first an op is: what is not told by its copies before and behind
// the loop stays as it is.
void Comparer::TakeStage(const Loop& loop, int span, Seen* s) {
  const Wanted& op = wanted_.ops[static_cast<size_t>(s->op)];
  verdict_.products += op.product;
  verdict_.passes += IsPass(op);
  verdict_.masses += !op.product && !IsPass(op);
  Copies copies = CopiesOf(loop, op, s->instrs);
  // Of turns whose results nobody reads there may be no copy.
  if (op.product && op.unread > 0 && copies.before + copies.behind < span)
    copies.behind = std::min(span - copies.before, copies.behind + op.unread);
  const auto whole = [](double x) { return x == static_cast<int>(x); };
  if (!op.product) {  // the first turns may be folded: not told then
    if (whole(copies.before) && whole(copies.behind) && copies.before + copies.behind == span)
      s->stage = static_cast<int>(copies.behind);
    return;
  }
  if (!s->alike.empty()) {
    s->mean = copies.behind;
    if (std::abs(copies.before + copies.behind - span) > 1e-6)
      Fault(
          fmt::format("the products at {} stand {} times before and behind the loop, "
                      "others {} times",
                      Show(op.at), copies.before + copies.behind, span));
    return;
  }
  s->before = static_cast<int>(copies.before + 0.5);
  s->stage = static_cast<int>(copies.behind + 0.5);
  if (s->before + s->stage != span || s->before != copies.before || s->stage != copies.behind)
    Fault(
        fmt::format("{} stands {} times before the loop and {} times behind it, others {} "
                    "times together",
                    op.name, copies.before, copies.behind, span));
}

void Comparer::Compute(const Role& role, int slice) {
  std::vector<const Loop*> loops = LoopsOf(role, false);
  // The copy of the loop for fewer turns than stages has nothing of it in front.
  const auto pipelined = [&](const Loop* loop) {
    for (const Wanted& op : wanted_.ops)
      if (Mine(op, slice) && CopiesOf(*loop, op, {0}).before > 0) return true;
    return false;
  };
  const bool steady = std::any_of(loops.begin(), loops.end(), pipelined);
  if (steady)
    loops.erase(
        std::remove_if(loops.begin(), loops.end(), [&](const Loop* l) { return !pipelined(l); }),
        loops.end());
  // Nothing of the schedule is in its order, but nothing of a turn may be in another.
  const bool in_program_order = wanted_.too_few_turns && !steady;
  verdict_.unpipelined += in_program_order;
  for (const Loop* loop : loops) {
    const std::vector<std::vector<Event>> turns = code_.Turns(*loop, role.first_warp);
    if (turns.empty()) Fault("a loop with too many ways through a turn");
    std::set<std::vector<Loc>> alike;
    for (const std::vector<Event>& turn : turns) {
      std::vector<Loc> places;
      for (const Event& e : turn)
        if (e.kind != Event::Kind::kCode || (!places.empty() && places.back() != e.at))
          places.push_back(e.at);
      if (!alike.insert(places).second) continue;
      ++verdict_.turns;
      std::vector<Seen> seen = Look(turn, slice);
      int span = Span(*loop, seen);
      for (Seen& s : seen) TakeStage(*loop, span, &s);
      if (in_program_order) {
        if (span > 0)
          Fault(fmt::format("ops of a loop in program order stand {} times behind it", span));
        continue;
      }
      int events = 0;
      for (const Event& e : turn) events += Outside(e);
      InOrder order = CheckOrder(wanted_, seen, events);
      for (std::string& fault : order.faults) Fault(std::move(fault));
      verdict_.moved += order.moved;
      // Two ops in a circle have one order only: then it is the stages that tell.
      for (size_t i = 0; i + 1 < seen.size(); ++i)
        if (!MayMove(wanted_, seen[i].op) && !MayMove(wanted_, seen[i + 1].op) &&
            wanted_.ops[static_cast<size_t>(seen[i].op)].along < 0 &&
            wanted_.ops[static_cast<size_t>(seen[i + 1].op)].along < 0 && seen[i].alike.empty() &&
            seen[i + 1].alike.empty() &&
            (seen.size() > 2 || (seen[i].stage >= 0 && seen[i + 1].stage >= 0)))
          verdict_.neighbours.push_back({seen[i].op, seen[i + 1].op});
      Take(CheckWaits(code_, wanted_, turn));
      Take(CheckFullBarriers(code_, wanted_, rings_, turn, slice));
    }
  }
}

}  // namespace tilec::obeyed
