// Which way control goes, by what is known of scalars and what was answered before.
//
// Decisions are about scalars, not about places: when two roles ask the same of the same scalar
// they get the same answer, however each has arranged its loops. The first iterations of a symbolic
// loop speak of the scalar itself; later ones count from a zero of their own (a frame), so that the
// walk can recognise a state it has seen, some iterations later. Forgetting what frames have to do
// with each other only adds behaviours, never hides one.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <utility>
#include <vector>

#include "ir/warp_check/machine.h"

namespace tilec::ir::warp_check {

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

// Shapes are asked for at every step: by numbers they are found at once.
int32_t Machine::ShapeNumber(int32_t form) const {
  const auto at = static_cast<size_t>(form);
  if (shape_of_.size() <= at) shape_of_.resize(at + 1, -1);
  if (shape_of_[at] < 0)
    shape_of_[at] =
        shape_numbers_.try_emplace(Shape(form), static_cast<int32_t>(shape_numbers_.size()))
            .first->second;
  return shape_of_[at];
}

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

}  // namespace tilec::ir::warp_check
