// SPDX-License-Identifier: Apache-2.0
#include "ir/interpret_parts.h"

#include <algorithm>
#include <cmath>

#include "ir/passes/loop_parts.h"
#include "ir/queries.h"
#include "ir/uses.h"

namespace tilec::ir::interpret_internal {
namespace {

constexpr double kUnit = 0x1p-24;
constexpr double kExact = 0x1p24;

bool Whole(double v) { return v == std::floor(v); }

// The element may lie that much farther off; in a perturbed run it does, somewhere.
void Stray(Tile& t, size_t i, double by, Dice* dice) {
  if (!(by > 0) || !std::isfinite(by) || !std::isfinite(t.v[i])) return;
  if (dice) {
    t.v[i] = Round(t.dtype, t.v[i] + by * dice->Next());
    return;
  }
  if (t.e.empty()) t.e.assign(t.v.size(), 0.0F);
  t.e[i] = Up(static_cast<double>(t.e[i]) + by);
}

// Ops of the loop's body between a carried sum and what is yielded for it.
bool Additions(const Function& fn, BlockId body, ValueId v, ValueId carried,
               std::map<ValueId, ValueId>* found) {
  if (v == carried) return true;
  const Op* def = fn.def(v);
  if (!def || def->block != body) return false;
  if (def->kind != OpKind::kAdd && def->kind != OpKind::kSub && def->kind != OpKind::kFma &&
      def->kind != OpKind::kMul && def->kind != OpKind::kDot)
    return false;
  const bool leads = std::any_of(def->operands.begin(), def->operands.end(), [&](ValueId operand) {
    return Additions(fn, body, operand, carried, found);
  });
  if (leads) (*found)[v] = carried;
  return leads;
}

int64_t ReducedLater(const Function& fn, const Uses& uses, const Op& loop, ValueId result) {
  const OpId id = ReducedBehind(fn, uses, result, "add", fn.blocks[loop.block].ops);
  if (!id.valid()) return 1;
  return fn.type(result).shape[static_cast<size_t>(fn.ops[id].i("axis"))];
}

}  // namespace

LoopsInParts FindLoopsInParts(const Function& fn, int64_t parts) {
  LoopsInParts found{parts, {}, {}};
  if (parts <= 1) return found;
  const Uses uses(fn);
  for (OpId id : OpsInOrder(fn)) {
    const Op& loop = fn.ops[id];
    const OpId parent = fn.blocks[loop.block].parent;
    if (loop.kind != OpKind::kFor || loop.results.empty() || !parent.valid() ||
        fn.ops[parent].kind != OpKind::kParallel)
      continue;
    LoopParts of;
    if (FindLoopParts(fn, uses, id, &of)) continue;
    const BlockId body = loop.regions[0];
    const Op& yield = fn.ops[fn.blocks[body].ops.back()];
    for (size_t i = 0; i < loop.results.size(); ++i) {
      if (of.kinds[i] != "add" || fn.type(loop.results[i]).dtype != DType::kF32) continue;
      SumInParts sum{i, {}, 1};
      if (of.rescaled && of.rescaled->Has(i))
        sum.factor = of.rescaled->sums.at(i);
      else
        sum.reduced = ReducedLater(fn, uses, loop, loop.results[i]);
      found.loops[loop.results[0]].push_back(sum);
      Additions(fn, body, yield.operands[i], fn.blocks[body].args[1 + i], &found.additions);
    }
  }
  return found;
}

PartsOfSum::PartsOfSum(const Tile& start) : of_(start.v.size()) {
  for (size_t i = 0; i < of_.size(); ++i)
    of_[i] = {start.v[i], std::fabs(start.v[i]) + start.error(i),  std::fabs(start.v[i]), 0,
              0,          Whole(start.v[i]) && start.error(i) == 0};
}

void PartsOfSum::Addition(Tile& sum, double roundings, Dice* dice) const {
  for (size_t i = 0; i < of_.size(); ++i) {
    const double size = std::fabs(sum.v[i]) + sum.error(i), high = of_[i].high;
    if (of_[i].integral && Whole(sum.v[i]) && sum.error(i) == 0 && size + high <= kExact) continue;
    Stray(sum, i, kUnit * (roundings > 0 ? roundings * high : 2 * size + high), dice);
  }
}

void PartsOfSum::Turn(const Tile& sum, const Tile* factor) {
  for (size_t i = 0; i < of_.size(); ++i) {
    Element& x = of_[i];
    x.moved += std::fabs(sum.v[i] - x.last) + sum.error(i);
    x.last = sum.v[i];
    x.farthest = std::max(x.farthest, std::fabs(x.last));
    x.high = std::max(x.high, std::fabs(sum.v[i]) + sum.error(i));
    if (factor && factor->v[i] > 0) x.factor = std::max(x.factor, factor->error(i) / factor->v[i]);
    x.integral = x.integral && Whole(sum.v[i]) && sum.error(i) == 0;
  }
}

void PartsOfSum::End(Tile& sum, const SumInParts& of, int64_t parts, Dice* dice) const {
  const auto p = static_cast<double>(parts);
  for (size_t i = 0; i < of_.size(); ++i) {
    const Element& x = of_[i];
    const bool rescaled = of.factor.valid();
    if (!rescaled && x.integral && 2 * p * x.high * static_cast<double>(of.reduced) <= kExact)
      continue;
    const auto at_most = [&](double high) { return rescaled ? high : std::min(high, x.moved); };
    const double all = at_most(2 * p * x.high), later = std::max(0.0, all - std::fabs(x.last));
    const double combined = kUnit * p * at_most(p * x.high);
    const double reduced = kUnit * static_cast<double>(of.reduced - 1) * later;
    const double brought = rescaled ? (x.factor + kUnit) * all : 0;
    Stray(sum, i, combined + reduced + brought, dice);
    // Parts may be as far off as all turns together, before they are combined.
    if (2 * p * x.farthest > FormatOf(sum.dtype).max_finite && std::isfinite(sum.v[i]))
      MarkJump(sum, i, dice);
  }
}

}  // namespace tilec::ir::interpret_internal
