// SPDX-License-Identifier: Apache-2.0
#include "tests/warp_check/executions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "tests/warp_check/play.h"
#include "tests/warp_check/unrolled.h"

namespace tilec::ir {

namespace {

constexpr int64_t kEnoughEvents = 200'000;
constexpr int kWanted = 32;
constexpr size_t kMostTries = 400;
constexpr size_t kMostTriesForOne = 10 * kMostTries;  // where no execution has come to the block
constexpr int64_t kLargestLimit = 1 << 16;            // that an execution may be as long as

// ---- the execution ---------------------------------------------------------------------------

// ---- which executions ------------------------------------------------------------------------

// Sizes by what a turn of some loop takes of them: a few turns, or as many as fill rings twice, or
// as many as a branch asks for, be it of a pipeline deeper than its rings; and a little less.
class Sizes {
 public:
  explicit Sizes(const Function& fn) {
    for (const Param& p : fn.params)
      if (p.kind != ParamKind::kTensor) params_.push_back({p.value, p.kind == ParamKind::kScalar});
    for (const Op& op : fn.ops) {
      if (op.kind == OpKind::kMbarAlloc)
        deepest_ = std::max(deepest_, fn.type(op.results[0]).depth);
      if (op.kind == OpKind::kFor)
        for (ValueId bound : {op.operands[0], op.operands[1]})
          Trace(fn, bound, {op.i("step"), 1}, 0, units_);
      if (op.kind != OpKind::kCmp || !IsInteger(fn.type(op.operands[0]).dtype)) continue;
      const int64_t limit = std::abs(Fixed(fn, op.operands[0], 0) - Fixed(fn, op.operands[1], 0));
      if (limit > 0 && limit < kLargestLimit)
        for (ValueId v : op.operands) Trace(fn, v, {limit, limit}, 0, limits_);
    }
  }

  std::map<ValueId, int64_t> Next(std::mt19937_64& random) const {
    auto below = [&](size_t n) { return random() % n; };
    std::map<ValueId, int64_t> out;
    for (const auto& [value, scalar] : params_) {
      auto one_of = [&, of = value](const Numbers& numbers, int64_t otherwise) {
        const auto it = numbers.find(of);
        return it == numbers.end() ? otherwise
                                   : *std::next(it->second.begin(), below(it->second.size()));
      };
      const int64_t unit = one_of(units_, 1);
      const int64_t from = below(3) ? 0 : one_of(limits_, 0);
      const auto times = static_cast<int64_t>(
          from || below(2) ? below(4) : below(static_cast<size_t>(2 * deepest_ + 4)));
      const int64_t less = below(3) ? 0 : 8;
      // A scalar that no loop is as long as may be more than all sizes: a window that all is in.
      if (scalar && units_.count(value) == 0 && below(4) == 0) {
        out[value] = kLargestLimit;
        continue;
      }
      out[value] = std::max<int64_t>(0, from + unit * times - (unit > less ? less : 0));
    }
    return out;
  }

  std::string Text() const {
    std::string out = fmt::format("{}", deepest_);
    for (const auto& [v, scalar] : params_) out += fmt::format(";{}{}", v.index, scalar ? "s" : "");
    for (const Numbers* numbers : {&units_, &limits_})
      for (const auto& [v, of] : *numbers)
        out += fmt::format(";{} {}", v.index, fmt::join(of, " "));
    return out;
  }

 private:
  using Numbers = std::map<ValueId, std::set<int64_t>>;  // of parameters

  // The part of a sum that no parameter changes.
  static int64_t Fixed(const Function& fn, ValueId v, int depth) {
    const Op* def = fn.def(v);
    if (!def || depth > 16) return 0;
    const auto part = [&](size_t i) { return Fixed(fn, def->operands[i], depth + 1); };
    switch (def->kind) {
      case OpKind::kConstant: return static_cast<int64_t>(def->number("value"));
      case OpKind::kCast: return part(0);
      case OpKind::kAdd: return part(0) + part(1);
      case OpKind::kSub: return part(0) - part(1);
      default: return 0;
    }
  }
  // How much of a value makes one turn of a loop; and what makes one of what CTAs that stay share,
  // where several sizes multiply: not all of them are large then.
  struct Unit {
    int64_t turn = 1, share = 1;
    bool product = false;
  };
  // One turn is `unit` of v: so it is more of what v is a part of.
  static void Trace(const Function& fn, ValueId v, Unit unit, int depth, Numbers& out) {
    if (fn.param(v)) {
      out[v].insert(unit.turn);
      if (unit.product) out[v].insert(unit.share);
      return;
    }
    const Op* def = fn.def(v);
    if (!def || !def->regions.empty() || depth > 16) return;
    const auto constant = [&](ValueId o) {
      const Op* by = fn.def(o);
      return by && by->kind == OpKind::kConstant;
    };
    if (def->kind == OpKind::kDiv && constant(def->operands[1])) {
      const auto by = static_cast<int64_t>(fn.def(def->operands[1])->number("value"));
      unit.turn *= std::max<int64_t>(1, by), unit.share *= std::max<int64_t>(1, by);
    }
    unit.product |=
        def->kind == OpKind::kMul && !constant(def->operands[0]) && !constant(def->operands[1]);
    for (ValueId o : def->operands) Trace(fn, o, unit, depth + 1, out);
  }

  std::vector<std::pair<ValueId, bool>> params_;  // that are numbers; is it a scalar?
  int64_t deepest_ = 1;
  Numbers units_, limits_;
};

// Sizes that are tried in turn, and where they lead: of all mutants that steer as one program does.
class Tries {
 public:
  struct Try {
    std::map<ValueId, int64_t> params;
    uint64_t seed = 0;
    Way way;
  };
  explicit Tries(const Function& fn) : sizes_(fn) {}

  const Try& Get(size_t i, const Function& fn, const Steering& steering) {
    while (tries_.size() <= i) {
      Try next;
      next.params = sizes_.Next(random_);
      next.seed = random_();
      next.way = Follow(fn, steering, next.params, next.seed);
      tries_.push_back(std::move(next));
    }
    return tries_[i];
  }

 private:
  Sizes sizes_;
  std::mt19937_64 random_{1};
  std::vector<Try> tries_;
};

// Those of one program are asked for mutant by mutant; few of its mutants steer otherwise.
Tries& TriesOf(const Function& fn, const Steering& steering) {
  constexpr size_t kPrograms = 4;
  thread_local std::map<std::string, Tries> known;
  const std::string key = steering.key + Sizes(fn).Text();
  if (known.size() >= kPrograms && known.count(key) == 0) known.clear();
  return known.try_emplace(key, fn).first->second;
}

}  // namespace

Executions Execute(const Function& fn, BlockId block) {
  Executions out;
  const Steering steering = SteeringOf(fn);
  Tries& tries = TriesOf(fn, steering);
  std::set<std::vector<int64_t>> seen;
  int64_t events = 0;
  for (size_t i = 0; i < (out.runs > 0 ? kMostTries : kMostTriesForOne) && out.runs < kWanted;
       ++i) {
    const Tries::Try& one = tries.Get(i, fn, steering);
    const Way& way = one.way;
    if (way.too_long) continue;
    if (way.ok &&
        (way.executed[static_cast<size_t>(block.index)] == 0 || !seen.insert(way.path).second))
      continue;
    const Unrolled code = Unroll(fn, one.params, one.seed, block);
    if ((!code.ok && code.fault.empty()) || code.executed == 0) continue;
    if (!way.ok && !seen.insert(code.path).second) continue;
    for (const Unrolled::Role& role : code.roles)
      events += static_cast<int64_t>(role.events.size());
    if (out.runs >= 3 && events > kEnoughEvents) break;
    ++out.runs;
    out.most = std::max(out.most, code.executed);
    out.fault = code.fault.empty() ? Play(fn, code).Run() : code.fault;
    if (!out.fault.empty()) return out;
  }
  return out;
}

}  // namespace tilec::ir
