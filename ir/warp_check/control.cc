// Control: blocks, loops and branches of one role, and the scalars they are made of.
//
// Decisions are about scalars, not about places: when two roles ask the same of the same scalar
// they get the same answer, however each has arranged its loops. The first iterations of a symbolic
// loop speak of the scalar itself; later ones count from a zero of their own (a frame), so that the
// walk can recognise a state it has seen, some iterations later. Forgetting what frames have to do
// with each other only adds behaviours, never hides one.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "ir/warp_check/machine.h"

namespace tilec::ir::warp_check {

namespace {
constexpr int64_t kFloatCompare = int64_t{1} << 32;
}

Scalar Machine::Get(ValueId v) {
  const auto it = me().env.find(v.index);  // parameters are never there
  if (it != me().env.end()) return it->second;
  if (fn_.param(v)) return terms_.Of({Atom::Kind::kParam, v.index, 0, {}});
  return terms_.Of({Atom::Kind::kPrivate, -1 - v.index, 0, {}});
}

// The scalar an op gives, for scalars that steer.
void Machine::Evaluate(OpId id) {
  const Op& op = fn_.ops[id];
  const ValueId result = op.results[0];
  const DType dtype = fn_.type(result).dtype;
  if (agreed && op.kind != OpKind::kCounterRead) {
    const auto known = [&](ValueId v) { return me().env.count(v.index) != 0; };
    const bool computed = (Info(op.kind).elementwise() || op.kind == OpKind::kConstant) &&
                          (dtype == DType::kBool || IsInteger(dtype)) &&
                          std::all_of(op.operands.begin(), op.operands.end(), known);
    if (!computed) {
      me().env.erase(result.index);
      return;
    }
  }
  const bool scalars = std::all_of(op.operands.begin(), op.operands.end(),
                                   [&](ValueId v) { return fn_.type(v).is_scalar(); });
  std::vector<Scalar>& args = args_;
  args.clear();
  if (op.kind == OpKind::kCounterRead) {
    const auto it = me().counters.find(op.operands[0].index);
    const Op* counter = fn_.def(op.operands[0]);
    if (const auto c = me().counted.find(op.operands[0].index); c != me().counted.end()) {
      Use(c->second).needed = true;
      me().counted.erase(c);
    }
    me().env[result.index] = {0, it != me().counters.end() ? it->second
                                 : counter                 ? counter->i("init")
                                                           : 0};
    const int64_t now = me().env[result.index].add;
    Use(id).divides = std::gcd(Use(id).divides, now);
    Use(id).largest = std::max(Use(id).largest, now);
    return;
  }
  if (op.kind == OpKind::kPin) {
    Know(result.index, Get(op.operands[0]));
    return;
  }
  if (op.kind == OpKind::kGLoadScalar) {
    const Param* tensor = fn_.param(op.operands[0]);
    if (tensor && tensor->direction == Direction::kIn) {
      for (ValueId v : op.operands) args.push_back(Get(v));
      me().env[result.index] = terms_.Of(
          {Atom::Kind::kOp, static_cast<int64_t>(op.kind) * 64, op.i("has_fill"), args});
      return;
    }
  } else if (op.kind == OpKind::kProgramId) {
    me().env[result.index] =
        terms_.Of({Atom::Kind::kOp, static_cast<int64_t>(op.kind) * 64, 0, {}});
    return;
  } else if (scalars && (Info(op.kind).elementwise() || op.kind == OpKind::kConstant)) {
    for (ValueId v : op.operands) args.push_back(Get(v));
    auto whole = [](DType d) { return d == DType::kBool || IsInteger(d); };
    const bool from_whole = op.operands.empty() || whole(fn_.type(op.operands.back()).dtype);
    if (op.kind == OpKind::kCast && whole(dtype) && dtype != DType::kBool && from_whole)
      Know(result.index, args[0]);
    else if (op.kind == OpKind::kCmp && !from_whole)
      me().env[result.index] =
          terms_.Of({Atom::Kind::kOp, static_cast<int64_t>(op.kind) * 64,
                     kFloatCompare + op.s("pred")[0] * 256 + op.s("pred")[1], args});
    else
      Know(result.index, terms_.Apply(op, dtype, args));
    return;
  }
  const int64_t tag = static_cast<int64_t>(role_) << 32 | id.index;
  me().env[result.index] = terms_.Of({Atom::Kind::kPrivate, tag, s_->privates[tag]++, {}});
}

// What a form is made of, without the numbers that tell one iteration from another.
const std::vector<int64_t>& Machine::Shape(int32_t form) const {
  if (const auto it = shapes_.find(form); it != shapes_.end()) return it->second;
  std::vector<int64_t> shape;
  for (const auto& [atom, c] : terms_.form(form)) {
    const Atom& a = terms_.atom(atom);
    if (a.kind == Atom::Kind::kFrame) continue;
    shape.insert(shape.end(), {c, static_cast<int64_t>(a.kind), a.tag});
    for (const Scalar& arg : a.args) {
      const std::vector<int64_t>& inner = Shape(arg.form);
      shape.push_back(-1);
      shape.insert(shape.end(), inner.begin(), inner.end());
    }
  }
  return shapes_[form] = std::move(shape);
}

bool Machine::Inner(int32_t form) const {
  if (const auto it = inner_.find(form); it != inner_.end()) return it->second;
  bool inner = false;
  for (const auto& [atom, c] : terms_.form(form)) {
    inner = inner || terms_.atom(atom).kind == Atom::Kind::kFrame;
    for (const Scalar& arg : terms_.atom(atom).args) inner = inner || Inner(arg.form);
  }
  return inner_[form] = inner;
}

bool Machine::IsSize(int32_t form) const {
  const Form& parts = terms_.form(form);
  return std::all_of(parts.begin(), parts.end(), [&](const auto& part) {
    const Atom& a = terms_.atom(part.first);
    switch (a.kind) {
      case Atom::Kind::kParam: {
        const Param* p = fn_.param(ValueId(static_cast<int32_t>(a.tag)));
        return p != nullptr && p->kind == ParamKind::kDim;
      }
      case Atom::Kind::kOp: {
        const auto kind = static_cast<OpKind>(a.tag / 64);
        const bool small = kind == OpKind::kProgramId || kind == OpKind::kDiv ||
                           kind == OpKind::kMod || kind == OpKind::kMin || kind == OpKind::kMax;
        return small && std::all_of(a.args.begin(), a.args.end(),
                                    [&](const Scalar& s) { return IsSize(s.form); });
      }
      case Atom::Kind::kTrips:
      case Atom::Kind::kFrame: return IsSize(a.args[0].form);
      case Atom::Kind::kCarried:
      case Atom::Kind::kPrivate: return false;
    }
    return false;
  });
}

bool Machine::Unrelated(int32_t form) {
  if (!Inner(form)) return false;
  met_related_ = true;
  return unrelated;
}

Scalar Machine::LengthOf(const Scalar& difference) {
  if (!Unrelated(difference.form)) return difference;
  return terms_.Of({Atom::Kind::kTrips, 0, 0, {difference}});
}

int64_t Machine::LowEnd(int32_t form) const {
  const auto it = low_of_.find(ShapeNumber(form));
  if (it == low_of_.end()) return 0;
  const auto [step, begin] = it->second;
  const int64_t low = step * (Inner(form) ? kLowInnerTurns : kLowTurns);
  return late ? std::max(low, begin) : low;
}

// ---- decisions -------------------------------------------------------------------------------

// `key > threshold`, divided by what all coefficients have in common: `64·a > 0` is `a > 0` to
// whoever asks.
void Machine::Reduce(Scalar* key, int64_t* threshold) {
  int64_t divisor = 0;
  for (const auto& [atom, c] : terms_.form(key->form)) divisor = std::gcd(divisor, c);
  if (divisor <= 1) return;
  Scalar smaller;
  smaller.add = key->add;
  for (const auto& [atom, c] : Form(terms_.form(key->form)))
    smaller = terms_.Add(smaller, terms_.OfAtom(atom), c / divisor);
  *key = smaller;
  *threshold = *threshold >= 0 ? *threshold / divisor : -((-*threshold + divisor - 1) / divisor);
}

int Machine::Positive(const Scalar& v) {
  if (v.constant()) return v.add > 0;
  if (std::abs(v.add) >= kFarOff && IsSize(v.form)) {
    asked_far_off_ = true;
    return (v.add > 0) != none_fits;
  }
  Form form = terms_.form(v.form);
  int64_t frames = 0, frame = -1;
  for (const auto& [atom, c] : form)
    if (terms_.atom(atom).kind == Atom::Kind::kFrame) frames += c, frame = atom;
  // form > threshold, in the direction and scale in which all roles ask.
  bool flip = frames ? frames > 0 : form[0].second < 0;
  Scalar key = terms_.Scale({v.form, 0}, flip ? -1 : 1);
  int64_t threshold = flip ? v.add - 1 : -v.add;  // -f < add  <=>  !(f > -add) with f flipped
  Reduce(&key, &threshold);
  if (frame >= 0) {
    const Form oriented = terms_.form(key.form);
    const auto at = std::find_if(oriented.begin(), oriented.end(),
                                 [&](const auto& part) { return part.first == frame; });
    const int64_t low_end = LowEnd(terms_.atom(static_cast<int32_t>(frame)).args[0].form);
    for (auto f = me().frames.rbegin(); f != me().frames.rend(); ++f) {
      if (f->frame_atom != frame || at == oriented.end() || at->second != -1) continue;
      if (f->low && threshold <= low_end) {  // its zero is 0
        key = terms_.Add(key, terms_.OfAtom(static_cast<int32_t>(frame)));
        if (key.constant()) return (0 > threshold) != flip;
        if (terms_.form(key.form)[0].second < 0) {  // asked as whoever has no loop does
          key = terms_.Scale(key, -1);
          threshold = -threshold - 1;
          flip = !flip;
        }
        Reduce(&key, &threshold);
      } else if (oriented.size() == 1 && threshold >= 0 && f->position.add - threshold <= low_end) {
        return flip ? 1 : 0;  // a late position compared with an early one
      } else {
        // What was decided of the number itself holds of late positions too.
        Scalar plain = terms_.Add(key, terms_.OfAtom(static_cast<int32_t>(frame)));
        int64_t most = std::min(threshold, low_end);
        if (!plain.constant() && terms_.form(plain.form)[0].second < 0) {
          plain = terms_.Scale(plain, -1);
          most = -most - 1;
          Reduce(&plain, &most);
          const auto it = s_->known.find(plain.form);
          if (it != s_->known.end() && it->second.lo > most) return flip ? 1 : 0;
        } else {
          Reduce(&plain, &most);
          const auto it = s_->known.find(plain.form);
          if (it != s_->known.end() && it->second.hi <= most) return flip ? 1 : 0;
        }
      }
      break;
    }
  }
  for (const Answered& a : me().answered) {
    if (a.form != key.form) continue;
    if (a.yes && a.threshold >= threshold) return flip ? 0 : 1;
    if (!a.yes && a.threshold <= threshold) return flip ? 1 : 0;
  }
  const auto it = s_->known.find(key.form);
  if (it != s_->known.end()) {
    if (it->second.lo > threshold) return flip ? 0 : 1;
    if (it->second.hi <= threshold) return flip ? 1 : 0;
  }
  NoteLag(key.form, threshold);
  me().undecided = true;
  me().question_form = key.form;
  me().question_threshold = threshold;
  me().question_negated = flip;
  return -1;
}

// How far behind its own position a role asks of this: `e != skip + 7` asks of seven iterations
// ago, and whoever comes there later must still hear the same.
void Machine::NoteLag(int32_t form, int64_t threshold) {
  bool framed = false;
  for (const auto& [atom, c] : terms_.form(form))
    for (const Frame& f : me().frames)
      if (f.frame_atom == atom) threshold += c * f.position.add, framed = true;
  if (framed && threshold < 0) {
    int64_t& lag = lag_of_[ShapeNumber(form)];
    lag = std::max(lag, std::min(-threshold, kMostLag));
  }
}

int64_t Machine::LagOf(int32_t form) const {
  const auto it = lag_of_.find(ShapeNumber(form));
  return it == lag_of_.end() ? 0 : it->second;
}

void Machine::Answer(State& state, int role, bool yes) const {
  Role& r = state.roles[static_cast<size_t>(role)];
  r.undecided = false;
  if (agreed) {
    const AgreedQuestion& q = r.agreed_question;
    Trips& trips = state.agreed[{q.question, q.n}];
    if (yes)
      trips.lo = q.j + 1;
    else
      trips.hi = q.j;
    return;
  }
  r.answered.push_back({r.question_form, r.question_threshold, yes});
  Bounds& b = state.known[r.question_form];
  if (yes)
    b.lo = std::max(b.lo, r.question_threshold + 1);
  else
    b.hi = std::min(b.hi, r.question_threshold);
}

int Machine::Decide(const Scalar& condition) {
  if (condition.constant()) return condition.add != 0;
  const Form& form = terms_.form(condition.form);
  if (form.size() != 1 || form[0].second != 1 || condition.add != 0) return Positive(condition);
  const Atom atom = terms_.atom(form[0].first);
  if (atom.kind != Atom::Kind::kOp) return Positive(condition);
  const auto& a = atom.args;
  switch (static_cast<OpKind>(atom.tag / 64)) {
    case OpKind::kCmp: {
      if (atom.extra >= kFloatCompare) break;
      const Scalar d = terms_.Add(a[1], a[0], -1);  // b - a
      if (Unrelated(d.form))                        // `lo < end` is what the loop's head asks
        return Positive(atom.extra == 'l' * 256 + 't' ? LengthOf(d) : condition);
      const Scalar e = terms_.Add(a[0], a[1], -1);
      auto plus = [](Scalar s) { return ++s.add, s; };
      switch (atom.extra) {
        case 'l' * 256 + 't': return Positive(d);
        case 'l' * 256 + 'e': return Positive(plus(d));
        case 'g' * 256 + 't': return Positive(e);
        case 'g' * 256 + 'e': return Positive(plus(e));
        default: {
          const int le = Positive(plus(d));
          if (le < 0) return -1;
          const int ge = le ? Positive(plus(e)) : 0;
          if (ge < 0) return -1;
          const bool equal = le && ge;
          return atom.extra == 'e' * 256 + 'q' ? equal : !equal;
        }
      }
    }
    case OpKind::kAnd:
    case OpKind::kOr: {
      const bool stops = static_cast<OpKind>(atom.tag / 64) == OpKind::kOr;
      const int x = Decide(a[0]);
      if (x < 0 || (x != 0) == stops) return x;
      return Decide(a[1]);
    }
    case OpKind::kXor: {
      const int x = Decide(a[0]);
      const int y = x < 0 ? -1 : Decide(a[1]);
      return y < 0 ? -1 : x ^ y;
    }
    case OpKind::kNot: {
      const int x = Decide(a[0]);
      return x < 0 ? -1 : !x;
    }
    case OpKind::kSelect: {
      const int x = Decide(a[0]);
      return x < 0 ? -1 : Decide(a[x ? 1 : 2]);
    }
    default: break;
  }
  return Positive(condition);
}

// A question of its own, asked anew every time.
int Machine::Either(OpId id) {
  const int64_t tag = static_cast<int64_t>(role_) << 32 | id.index;
  const Scalar coin = terms_.Of({Atom::Kind::kPrivate, tag, s_->privates[tag], {}});
  const int yes = Positive(coin);
  if (yes >= 0) {
    s_->known.erase(coin.form);
    ++s_->privates[tag];
  }
  return yes;
}

// ---- blocks ----------------------------------------------------------------------------------

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
