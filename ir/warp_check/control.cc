// Control: blocks, loops and branches of one role.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "ir/warp_check/machine.h"

namespace tilec::ir::warp_check {

void Machine::Push(OpId op, int region, Who who) {
  Frame f;
  f.op = op;
  f.region = region;
  f.block = op.valid() ? fn_.ops[op].regions[static_cast<size_t>(region)]
                       : p_.roles[static_cast<size_t>(role_)].body;
  f.who = who;
  me().frames.push_back(f);
}

void Machine::Forget(BlockId block) {
  const std::vector<int32_t>& held = held_by_[static_cast<size_t>(block.index)];
  me().env.EraseAll(held);
  me().core.EraseAll(held);
}

// What `from` holds, under the name `to`.
void Machine::Pass(ValueId from, ValueId to) {
  if (p_.steers[static_cast<size_t>(to.index)]) Know(to.index, Get(from));
  if (p_.in_core[static_cast<size_t>(to.index)]) me().core[to.index] = TileOf(from);
}

Step Machine::Enter(OpId id) {
  const Op& op = fn_.ops[id];
  const Who who = me().frames.back().who;
  switch (op.kind) {
    case OpKind::kElect: {
      if (who != Who::kAll) return Fail(kWarpForm, op, "an elect stands inside another");
      const int yes = op.operands.empty() ? 1
                      : agreed            ? Agree(id, Get(op.operands[0]), 0)
                                          : Decide(Get(op.operands[0]));
      if (yes < 0) return Step::kAsks;
      ++me().frames.back().next;
      if (!yes) return Step::kDone;
      Push(id, 0, op.s("scope") == "warp" ? Who::kWarps : Who::kElected);
      return Step::kDone;
    }
    case OpKind::kIf: {
      const int yes = agreed                          ? Agree(id, Get(op.operands[0]), 0)
                      : forget && p_.lonely.count(id) ? Either(id)
                                                      : Decide(Get(op.operands[0]));
      if (yes < 0) return Step::kAsks;
      ++me().frames.back().next;
      Push(id, yes ? 0 : 1, who);
      return Step::kDone;
    }
    case OpKind::kFor: {
      ++me().frames.back().next;
      Push(id, 0, who);
      if (agreed) return EnterAgreed(id);
      Frame& f = me().frames.back();
      f.next = -1;
      f.position = Get(op.operands[0]);
      f.end = Get(op.operands[1]);
      Scalar length = terms_.Add(f.end, f.position, -1);
      const int64_t step = op.i("step");
      if (length.constant() && length.add > kShortLoop * step) {
        const Scalar trips = terms_.Of({Atom::Kind::kTrips, step, 0, {length}});
        f.end = terms_.Add(f.position, trips);
        length = trips;
      } else if (Unrelated(length.form)) {
        length = LengthOf(length);
        f.end = terms_.Add(f.position, length);
      }
      if (!length.constant()) {
        f.length = {length.form, 0};
        const auto it = p_.site.find(id);
        const int site = it == p_.site.end() ? 0 : it->second;
        const int64_t nth = me().runs[{length.form, site}]++;
        const Scalar frame = terms_.Of({Atom::Kind::kFrame, site, nth, {f.length}});
        auto& [most, latest] = low_of_[ShapeNumber(length.form)];
        if (step > most || (late && -length.add > latest)) learned = learned || most > 0;
        most = std::max(most, step);
        latest = std::max(latest, -length.add);
        met_late_ = met_late_ || -length.add > LowEnd(length.form);
        f.frame_atom = terms_.form(frame.form)[0].first;
      }
      const std::vector<ValueId>& args = fn_.blocks[f.block].args;
      for (size_t i = 1; i < args.size(); ++i) {
        Pass(op.operands[i + 1], args[i]);
        const bool steers = p_.steers[static_cast<size_t>(args[i].index)] != 0;
        if (!steers) continue;
        f.init.resize(args.size());
        f.init[i] = me().env[args[i].index];
      }
      return Step::kDone;
    }
    case OpKind::kWhile: {
      ++me().frames.back().next;
      Push(id, 0, who);
      const std::vector<ValueId>& args = fn_.blocks[op.regions[0]].args;
      for (size_t i = 0; i < args.size(); ++i) Pass(op.operands[i], args[i]);
      if (agreed) {
        me().frames.back().end = Unknown();
        BeginIteration(id);
      }
      return Step::kDone;
    }
    default: return Fail(kWarpForm, op, "it has regions nobody knows how to walk");
  }
}

// A for before its next turn.
Step Machine::LoopHead() {
  Frame& f = me().frames.back();
  const Op& op = fn_.ops[f.op];
  const std::vector<ValueId>& args = fn_.blocks[f.block].args;
  Scalar left = terms_.Add(f.end, f.position, -1);
  Scalar position = f.position;
  if (f.frame_atom >= 0) {
    f.low = -left.add <= LowEnd(f.length.form) + kLookBack * op.i("step");
    const Scalar frame = terms_.OfAtom(f.frame_atom);
    left = terms_.Add(left, frame, -1);
    position = terms_.Add(position, frame);
  }
  if (agreed && left.constant()) left.add = left.add > 0;
  const int more = agreed ? Agree(f.op, left, f.turns) : Positive(left);
  if (more < 0) return Step::kAsks;
  if (more) {
    if (p_.steers[static_cast<size_t>(args[0].index)])
      Know(args[0].index, agreed && !f.end.constant() ? f.end : position);
    if (agreed) BeginIteration(f.op);
    f.next = 0;
    ++f.turns;
    return Step::kDone;
  }
  if (f.turns == 0 && op.attr("some"))
    return Fail(kWarpForm, op, "it may have no turn, and is said to have some");
  for (size_t i = 0; i < op.results.size(); ++i) Pass(args[i + 1], op.results[i]);
  // A run without an iteration does not count: another role may have a branch in place of it.
  if (f.turns == 0 && f.frame_atom >= 0)
    --me().runs[{f.length.form, static_cast<int>(terms_.atom(f.frame_atom).tag)}];
  const BlockId block = f.block;
  me().frames.pop_back();
  Forget(block);
  return Step::kDone;
}

// What is known of a value that is handed on under another name; `again`: to the next iteration.
std::optional<Scalar> Machine::Handed(const Frame& f, int32_t to, const Scalar& s, bool again,
                                      bool moved) {
  if (agreed) {
    // What changes from one iteration to the next would change for ever.
    const bool settles =
        !again || f.end.constant() || !moved || fn_.type(ValueId(to)).dtype == DType::kBool;
    return settles && s.constant() ? std::optional(s) : std::nullopt;
  }
  const Form& form = terms_.form(s.form);
  const bool framed = std::any_of(form.begin(), form.end(), [&](const auto& part) {
    return terms_.atom(part.first).kind == Atom::Kind::kFrame;
  });
  const bool grown = (!framed && std::abs(s.add) > kLargestCarried) || terms_.Overgrown(s.form);
  const bool counts = unrelated && Increments(f, to);
  const bool unlike = !framed && (!s.constant() || counts) && moved;
  // Else no state would be met again.
  return IsLoop(fn_.ops[f.op].kind) && (grown || unlike) ? CarriedAs(f, to, s) : s;
}

// At the yield of the innermost block.
Step Machine::LeaveBlock() {
  Frame& f = me().frames.back();
  const BlockId block = f.block;
  const std::vector<OpId>& ops = fn_.blocks[block].ops;
  const std::vector<ValueId>* yields = nullptr;
  if (!ops.empty() && fn_.ops[ops.back()].kind == OpKind::kYield)
    yields = &fn_.ops[ops.back()].operands;
  if (!f.op.valid() || fn_.ops[f.op].kind == OpKind::kRole) {
    me().frames.pop_back();
    return Step::kEnded;
  }
  const Op& op = fn_.ops[f.op];
  auto hand_over = [&](const std::vector<ValueId>& to, size_t from_first, size_t to_first) {
    const bool again = op.kind == OpKind::kFor || (op.kind == OpKind::kWhile && f.region == 1);
    std::vector<std::pair<int32_t, Scalar>> scalars;
    std::vector<std::pair<int32_t, CoreTile>> tiles;
    std::set<int32_t> moved;
    for (size_t i = to_first; i < to.size(); ++i) {
      const ValueId from = (*yields)[i - to_first + from_first];
      if (p_.steers[static_cast<size_t>(to[i].index)]) {
        scalars.push_back({to[i].index, Get(from)});
        if ((widen || unrelated || agreed) && again && Get(to[i]) != Get(from))
          moved.insert(to[i].index);
      }
      if (p_.in_core[static_cast<size_t>(to[i].index)])
        tiles.push_back({to[i].index, TileOf(from)});
    }
    std::vector<std::pair<int32_t, Scalar>> named;
    for (const auto& [v, s] : scalars) {
      if (const auto name = Handed(f, v, s, again, moved.count(v) != 0))
        named.push_back({v, *name});
      else
        me().env.erase(v);
    }
    Forget(block);
    for (const auto& [v, s] : named) me().env[v] = s;
    for (const auto& [v, t] : tiles) me().core[v] = t;
  };
  switch (op.kind) {
    case OpKind::kFor:
      hand_over(fn_.blocks[block].args, 0, 1);
      f.position.add += op.i("step");
      f.next = -1;
      return Step::kDone;
    case OpKind::kWhile:
      if (f.region == 0) {
        const Scalar again = Get((*yields)[0]);
        const int more = agreed ? Agree(f.op, again, f.turns) : Decide(again);
        if (more < 0) return Step::kAsks;
        const std::vector<ValueId>& to = more ? fn_.blocks[op.regions[1]].args : op.results;
        hand_over(to, 1, 0);
        if (!more) {
          me().frames.pop_back();
          return Step::kDone;
        }
        f.region = 1;
        ++f.turns;
      } else {
        hand_over(fn_.blocks[op.regions[0]].args, 0, 0);
        f.region = 0;
        if (agreed) BeginIteration(f.op);
      }
      f.block = op.regions[static_cast<size_t>(f.region)];
      f.next = 0;
      return Step::kDone;
    default:
      if (yields && !op.results.empty()) hand_over(op.results, 0, 0);
      Forget(block);
      me().frames.pop_back();
      return Step::kDone;
  }
}

}  // namespace tilec::ir::warp_check
