// What holds in a block as linear inequalities over the scalars that conditions are made of, and
// their elimination one by one (Fourier and Motzkin). Where one of two conditions must hold, both
// ways are tried.
//
// SPDX-License-Identifier: Apache-2.0
#include "tests/warp_check/dead_code.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace tilec::ir {
namespace {

constexpr size_t kMostFacts = 300;
constexpr int kMostWays = 400;
constexpr int64_t kLargest = int64_t{1} << 40;

// Multiples of scalars, and a number.
struct Sum {
  std::map<ValueId, int64_t> parts;
  int64_t number = 0;
};

Sum Plus(Sum a, const Sum& b, int64_t times) {
  for (const auto& [v, c] : b.parts)
    if ((a.parts[v] += c * times) == 0) a.parts.erase(v);
  a.number += b.number * times;
  return a;
}

bool TooLarge(const Sum& s) {
  return std::abs(s.number) > kLargest ||
         std::any_of(s.parts.begin(), s.parts.end(),
                     [](const auto& part) { return std::abs(part.second) > kLargest; });
}

// s <= 0 for whole numbers.
Sum Tightened(Sum s) {
  int64_t divisor = 0;
  for (const auto& [v, c] : s.parts) divisor = std::gcd(divisor, c);
  if (divisor <= 1) return s;
  for (auto& [v, c] : s.parts) c /= divisor;
  s.number = s.number / divisor + (s.number % divisor > 0 ? 1 : 0);
  return s;
}

// No numbers satisfy all of `facts` <= 0. False: they may.
bool Exclude(std::vector<Sum> facts) {
  while (true) {
    std::map<ValueId, std::pair<size_t, size_t>> signs;
    for (Sum& fact : facts) {
      if (TooLarge(fact)) return false;
      fact = Tightened(std::move(fact));
      if (fact.parts.empty() && fact.number > 0) return true;
      for (const auto& [v, c] : fact.parts) ++(c > 0 ? signs[v].first : signs[v].second);
    }
    if (signs.empty()) return false;
    const ValueId gone =
        std::min_element(signs.begin(), signs.end(), [](const auto& a, const auto& b) {
          return a.second.first * a.second.second < b.second.first * b.second.second;
        })->first;
    std::vector<Sum> next;
    for (const Sum& upper : facts) {
      const auto up = upper.parts.find(gone);
      if (up == upper.parts.end()) {
        next.push_back(upper);
        continue;
      }
      if (up->second < 0) continue;
      for (const Sum& lower : facts)
        if (const auto low = lower.parts.find(gone); low != lower.parts.end() && low->second < 0)
          next.push_back(Plus(Plus({}, upper, -low->second), lower, up->second));
    }
    if (next.size() > kMostFacts) return false;
    facts = std::move(next);
  }
}

class Prover {
 public:
  explicit Prover(const Function& fn) : fn_(fn) {}

  bool Never(BlockId block) {
    Known known;
    for (; fn_.blocks[block].parent.valid(); block = fn_.ops[fn_.blocks[block].parent].block) {
      const Op& op = fn_.ops[fn_.blocks[block].parent];
      if (op.kind == OpKind::kIf) known.open.push_back({op.operands[0], block == op.regions[0]});
      if (op.kind == OpKind::kElect && !op.operands.empty())
        known.open.push_back({op.operands[0], true});
      if (op.kind == OpKind::kFor) {
        const Sum at = SumOf(fn_.blocks[block].args[0]);
        known.facts.push_back(Plus(SumOf(op.operands[0]), at, -1));
        known.facts.push_back(Plus(at, Less(SumOf(op.operands[1])), -1));
      }
    }
    return Excluded(std::move(known));
  }

 private:
  struct Answer {
    ValueId question;
    bool yes = false;
  };
  struct Known {
    std::vector<Sum> facts;                         // each <= 0
    std::map<ValueId, bool> answers;                // of what is no comparison
    std::vector<Answer> open;                       // hold, but are not taken apart yet
    std::vector<std::pair<Answer, Answer>> either;  // one of two holds
    std::vector<Answer> carried;                    // by loops around: the first iteration's differ
  };

  static Sum Less(Sum s) { return --s.number, s; }

  bool Whole(ValueId v) const {
    const DType t = fn_.type(v).dtype;
    return fn_.type(v).is_scalar() && (IsInteger(t) || t == DType::kBool);
  }

  Sum SumOf(ValueId v) {
    if (const auto it = sums_.find(v); it != sums_.end()) return it->second;
    return sums_[v] = Made(v);
  }
  // The loop whose position this is. Where it stands is a whole number of steps from its beginning,
  // and that number is what is reckoned with under the position's name.
  const Op* LoopAt(ValueId v) const {
    const BlockId block = fn_.values[v].block;
    if (!block.valid() || !fn_.blocks[block].parent.valid()) return nullptr;
    const Op& op = fn_.ops[fn_.blocks[block].parent];
    return op.kind == OpKind::kFor && fn_.blocks[block].args[0] == v ? &op : nullptr;
  }
  // The loop that hands this value from one iteration to the next, and what its first one gets.
  const Op* CarriedBy(ValueId v) const {
    const BlockId block = fn_.values[v].block;
    if (!block.valid() || !fn_.blocks[block].parent.valid()) return nullptr;
    const Op& op = fn_.ops[fn_.blocks[block].parent];
    return op.kind == OpKind::kFor && fn_.blocks[block].args[0] != v ? &op : nullptr;
  }
  ValueId BeforeLoop(const Op& loop, ValueId carried) const {
    const auto& args = fn_.blocks[loop.regions[0]].args;
    const auto at = std::find(args.begin(), args.end(), carried) - args.begin();
    return loop.operands[static_cast<size_t>(at) + 1];
  }
  Sum Made(ValueId v) {
    if (const Op* loop = LoopAt(v))
      return Plus(SumOf(loop->operands[0]), {{{v, 1}}, 0}, loop->i("step"));
    const Op* def = fn_.def(v);
    const auto sum = [&](size_t i) { return SumOf(def->operands[i]); };
    if (def && Whole(v)) {
      const bool whole = std::all_of(def->operands.begin(), def->operands.end(),
                                     [&](ValueId o) { return Whole(o); });
      switch (def->kind) {
        case OpKind::kConstant: return {{}, static_cast<int64_t>(def->number("value"))};
        case OpKind::kCast:
          if (whole) return sum(0);
          break;
        case OpKind::kNeg: return Plus({}, sum(0), -1);
        case OpKind::kAdd: return Plus(sum(0), sum(1), 1);
        case OpKind::kSub: return Plus(sum(0), sum(1), -1);
        case OpKind::kMul: {
          const Sum a = sum(0), b = sum(1);
          if (a.parts.empty()) return Plus({}, b, a.number);
          if (b.parts.empty()) return Plus({}, a, b.number);
          break;
        }
        default: break;
      }
    }
    return {{{v, 1}}, 0};
  }

  // What is true of a scalar that is taken as it is.
  void Bounds(ValueId v, std::vector<Sum>* facts) {
    const Sum self = {{{v, 1}}, 0};
    const auto below = [&](const Sum& s) { facts->push_back(Plus(self, s, -1)); };
    const auto above = [&](const Sum& s) { facts->push_back(Plus(s, self, -1)); };
    if (const Param* p = fn_.param(v); p && p->kind == ParamKind::kDim) above({});
    if (LoopAt(v)) above({});
    const Op* def = fn_.def(v);
    if (!def || !Whole(v)) return;
    if (def->kind == OpKind::kProgramId) above({});
    if (def->operands.size() != 2 || !Whole(def->operands[0])) return;
    const Sum a = SumOf(def->operands[0]), b = SumOf(def->operands[1]);
    if (def->kind == OpKind::kMin) below(a), below(b);
    if (def->kind == OpKind::kMax) above(a), above(b);
    if (!b.parts.empty() || b.number <= 0) return;
    if (def->kind == OpKind::kMod) above({}), below({{}, b.number - 1});
    if (def->kind == OpKind::kDiv) {  // b v <= a <= b v + b - 1
      facts->push_back(Plus(Plus({}, self, b.number), a, -1));
      facts->push_back(Plus(Plus(a, self, -b.number), {{}, b.number - 1}, -1));
    }
  }

  // False: the answers so far say otherwise.
  bool TakeApart(Known& known) {
    while (!known.open.empty()) {
      const auto [question, yes] = known.open.back();
      known.open.pop_back();
      const Op* def = fn_.def(question);
      const OpKind kind = def ? def->kind : OpKind::kYield;
      if (kind == OpKind::kConstant) {
        if ((def->number("value") != 0) != yes) return false;
      } else if (kind == OpKind::kNot) {
        known.open.push_back({def->operands[0], !yes});
      } else if (kind == OpKind::kAnd || kind == OpKind::kOr) {
        const Answer a{def->operands[0], yes}, b{def->operands[1], yes};
        if (yes == (kind == OpKind::kAnd))
          known.open.insert(known.open.end(), {a, b});
        else
          known.either.push_back({a, b});
      } else if (kind == OpKind::kCmp && Whole(def->operands[0])) {
        Compared(*def, yes, known);
      } else if (const auto [it, fresh] = known.answers.emplace(question, yes);
                 !fresh && it->second != yes) {
        return false;
      } else if (fresh && CarriedBy(question) != nullptr) {
        known.carried.push_back({question, yes});
      }
    }
    return true;
  }

  void Compared(const Op& op, bool yes, Known& known) {
    const std::string& p = op.s("pred");
    const Sum a = SumOf(op.operands[0]), b = SumOf(op.operands[1]);
    const auto at_most = [&](const Sum& x, const Sum& y) { known.facts.push_back(Plus(x, y, -1)); };
    if (p == "eq" || p == "ne") {
      if ((p == "eq") == yes) at_most(a, b), at_most(b, a);
      return;
    }
    const bool less = p[0] == 'l';  // else greater
    const Sum &x = less == yes ? a : b, &y = less == yes ? b : a;
    const bool strict = (p[1] == 't') == yes;
    at_most(x, strict ? Less(y) : y);
  }

  bool Excluded(Known known) {
    if (!TakeApart(known)) return true;
    std::vector<Sum> facts = known.facts;
    std::set<ValueId> bounded;
    for (size_t i = 0; i < facts.size(); ++i)
      for (const auto& [v, c] : std::map<ValueId, int64_t>(facts[i].parts))
        if (bounded.insert(v).second) Bounds(v, &facts);
    if (Exclude(std::move(facts))) return true;
    if (!known.carried.empty() && ++ways_ <= kMostWays) {
      const auto [question, yes] = known.carried.back();
      known.carried.pop_back();
      const Op& loop = *CarriedBy(question);
      const ValueId at = fn_.blocks[loop.regions[0]].args[0];
      Known later = known;
      known.facts.push_back({{{at, 1}}, 0});
      known.open.push_back({BeforeLoop(loop, question), yes});
      later.facts.push_back({{{at, -1}}, 1});
      return Excluded(std::move(known)) && Excluded(std::move(later));
    }
    if (known.either.empty() || ++ways_ > kMostWays) return false;
    const auto [a, b] = known.either.back();
    known.either.pop_back();
    Known other = known;
    known.open.push_back(a);
    other.open.push_back(b);
    return Excluded(std::move(known)) && Excluded(std::move(other));
  }

  const Function& fn_;
  std::map<ValueId, Sum> sums_;
  int ways_ = 0;
};

}  // namespace

bool NeverExecuted(const Function& fn, BlockId block) { return Prover(fn).Never(block); }

}  // namespace tilec::ir
