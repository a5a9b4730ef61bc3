// SPDX-License-Identifier: Apache-2.0
#include "ir/passes/loop_parts.h"

#include <algorithm>
#include <limits>

#include "ir/passes/rewrite.h"

namespace tilec::ir {
namespace {

Obstacle No(std::string why, Span at) { return {std::move(why), at}; }

class Carried {
 public:
  Carried(const Function& fn, const Uses& uses) : fn_(fn), uses_(uses) {}

  // Is v the carried value and terms, by ops of one kind whose results nobody else uses?
  bool Accumulates(ValueId v, ValueId carried, BlockId block, std::string* kind) const {
    if (v == carried) return !kind->empty();
    const Op* def = fn_.def(v);
    if (!def || def->block != block || uses_.count(v) != 1) return false;
    const auto goes_on = [&](const char* by, size_t operand) {
      if (!kind->empty() && *kind != by) return false;
      std::string before = std::exchange(*kind, by);
      if (Accumulates(def->operands[operand], carried, block, kind)) return true;
      *kind = std::move(before);
      return false;
    };
    switch (def->kind) {
      case OpKind::kDot:
      case OpKind::kFma: return goes_on("add", 2);
      case OpKind::kSub: return goes_on("add", 0);
      case OpKind::kAdd: return goes_on("add", 0) || goes_on("add", 1);
      case OpKind::kMax: return goes_on("max", 0) || goes_on("max", 1);
      case OpKind::kMin: return goes_on("min", 0) || goes_on("min", 1);
      default: return false;
    }
  }

  // Is result `place` of the loop where the first of the largest (smallest) values was found that
  // result `most` is?
  bool IsPlace(const Op& loop, size_t place, size_t most) const {
    const BlockId body = loop.regions[0];
    const std::vector<ValueId>& args = fn_.blocks[body].args;
    const Op& yield = fn_.ops[fn_.blocks[body].ops.back()];
    const ValueId at = args[1 + place], best = args[1 + most];
    const Op *select = fn_.def(yield.operands[place]), *keeps = fn_.def(yield.operands[most]);
    if (!select || select->kind != OpKind::kSelect || select->block != body ||
        select->operands[2] != at || !keeps || keeps->block != body || uses_.count(at) != 1 ||
        uses_.count(best) != 2 || uses_.count(yield.operands[place]) != 1 ||
        uses_.count(yield.operands[most]) != 1)
      return false;
    const Op* cmp = fn_.def(select->operands[0]);
    const bool largest = keeps->kind == OpKind::kMax;
    if (!cmp || cmp->kind != OpKind::kCmp || (!largest && keeps->kind != OpKind::kMin))
      return false;
    const auto kept = [&](ValueId x) {
      return (keeps->operands[0] == best && keeps->operands[1] == x) ||
             (keeps->operands[1] == best && keeps->operands[0] == x);
    };
    const bool behind = cmp->operands[1] == best && kept(cmp->operands[0]);
    const bool before = cmp->operands[0] == best && kept(cmp->operands[1]);
    const std::string wanted = behind == largest ? "gt" : "lt";
    return (behind || before) && cmp->s("pred") == wanted &&
           fn_.type(at).shape == fn_.type(best).shape && !Carries(cmp->operands[behind ? 0 : 1]) &&
           !Carries(select->operands[1]);
  }

 private:
  // Does v hang on what a loop hands on?
  bool Carries(ValueId v) const {
    const BlockId of = fn_.values[v].block;
    if (of.valid()) {
      const OpId parent = fn_.blocks[of].parent;
      return parent.valid() && IsLoop(fn_.ops[parent].kind) && fn_.blocks[of].args[0] != v;
    }
    const Op* def = fn_.def(v);
    return def && std::any_of(def->operands.begin(), def->operands.end(),
                              [&](ValueId operand) { return Carries(operand); });
  }

  const Function& fn_;
  const Uses& uses_;
};

ValueId OrZero(Builder& b, const Function& fn, ValueId m) {
  const Type type = fn.type(m);
  const ValueId none = b.Cmp("eq", m, b.Constant(type, -std::numeric_limits<double>::infinity()));
  return b.Value(OpKind::kSelect, {none, b.Constant(type, 0), m}, type);
}

}  // namespace

ValueId ClonedFrom(Builder& b, Function& fn, BlockId body, ValueId v, ValueMap& map) {
  const OpId def = fn.values[v].def;
  if (map.count(v) > 0 || !def.valid() || fn.ops[def].block != body) return At(map, v);
  for (ValueId operand : std::vector<ValueId>(fn.ops[def].operands))
    ClonedFrom(b, fn, body, operand, map);
  CloneOp(b, fn, def, map);
  return At(map, v);
}

bool Writes(const Function& fn, OpId id) {
  const Op& op = fn.ops[id];
  if (Info(op.kind).effect == OpEffect::kWrite) return true;
  return std::any_of(op.regions.begin(), op.regions.end(), [&](BlockId region) {
    const std::vector<OpId>& ops = fn.blocks[region].ops;
    return std::any_of(ops.begin(), ops.end(), [&](OpId inner) { return Writes(fn, inner); });
  });
}

std::optional<Obstacle> MayGoAnywhere(const Function& fn, BlockId block) {
  for (OpId id : fn.blocks[block].ops) {
    const Op& op = fn.ops[id];
    if (Info(op.kind).effect == OpEffect::kWrite) return No("its loop writes", op.at);
    if (op.kind == OpKind::kLoad && !IsReadOnlyLoad(fn, op))
      return No("its loop reads a tensor that it writes elsewhere", op.at);
    for (BlockId region : op.regions)
      if (std::optional<Obstacle> obstacle = MayGoAnywhere(fn, region)) return obstacle;
  }
  return std::nullopt;
}

std::optional<Obstacle> FindLoopParts(const Function& fn, const Uses& uses, OpId id,
                                      LoopParts* found) {
  const Op& loop = fn.ops[id];
  *found = {id, {}, {}, {}};
  const std::vector<ValueId>& args = fn.blocks[loop.regions[0]].args;
  const Op& yield = fn.ops[fn.blocks[loop.regions[0]].ops.back()];
  for (size_t i = 0; i < loop.results.size(); ++i) {
    const Type& type = fn.type(loop.results[i]);
    if (ByteSize(type.dtype) != 4 || type.dtype == DType::kBool)
      return No("its loop carries something else than 32-bit numbers", loop.at);
    if (i == 0) found->rescaled = FindRescaledSums(fn, id);
    if (found->rescaled && found->rescaled->Has(i)) {
      if (i != found->rescaled->reference && !IsZero(fn, loop.operands[2 + i]))
        return No("what its loop rescales starts from something", loop.at);
      found->kinds.emplace_back(i == found->rescaled->reference ? "max" : "add");
      continue;
    }
    std::string kind;
    for (size_t k = 0; k < loop.results.size(); ++k) {
      if (k == i) continue;
      if (Carried(fn, uses).IsPlace(loop, i, k)) found->places[i] = k, kind = "place";
      if (Carried(fn, uses).IsPlace(loop, k, i))
        kind = fn.def(yield.operands[i])->kind == OpKind::kMax ? "max" : "min";
    }
    if (!kind.empty()) {
      found->kinds.push_back(kind);
      continue;
    }
    if (uses.count(args[1 + i]) != 1 || uses.count(yield.operands[i]) != 1 ||
        !Carried(fn, uses).Accumulates(yield.operands[i], args[1 + i], loop.regions[0], &kind))
      return No("its loop carries what it does not only add up, or keep the largest or smallest of",
                loop.at);
    found->kinds.push_back(kind);
  }
  return std::nullopt;
}

void GuardReference(Function& fn, const LoopParts& parts) {
  if (!parts.rescaled || parts.rescaled->guarded) return;
  const BlockId body = fn.ops[parts.loop].regions[0];
  const ValueId next = parts.rescaled->next;
  const std::vector<OpId> old = std::move(fn.blocks[body].ops);
  fn.blocks[body].ops.clear();
  Builder b(fn, body);
  ValueMap map;
  for (OpId id : old) {
    if (fn.ops[id].kind != OpKind::kYield) ReplaceOperands(fn, id, map);
    fn.blocks[body].ops.push_back(id);
    if (id != fn.values[next].def) continue;
    b.SetSpan(fn.ops[id].at);
    map[next] = OrZero(b, fn, next);
  }
}

std::map<size_t, ValueId> CombineRescaled(Builder& b, Function& fn, const LoopParts& parts,
                                          bool all, const Slices& slices,
                                          const std::set<size_t>& sliced) {
  std::map<size_t, ValueId> out;
  if (!parts.rescaled) return out;
  const BlockId body = fn.ops[parts.loop].regions[0];
  const std::vector<ValueId> results = fn.ops[parts.loop].results;
  const ValueId own = results[parts.rescaled->reference];
  const ValueId largest = b.Value(OpKind::kClusterReduce, {own}, fn.type(own),
                                  {{"kind", std::string("max")}, {"all", int64_t{1}}});
  out[parts.rescaled->reference] = largest;
  ValueMap map = {{parts.rescaled->old, own}, {parts.rescaled->next, largest}};
  for (const auto& [i, factor] : parts.rescaled->sums) {
    const ValueId by = ClonedFrom(b, fn, body, factor, map);
    const ValueId part = b.Binary(OpKind::kMul, results[i], by);
    Attrs attrs = {{"kind", std::string("add")}};
    Type type = fn.type(part);
    if (sliced.count(i) > 0)
      type.shape[1] = slices.width, attrs.emplace_back("slices", slices.count);
    else if (all || slices.count > 1)
      attrs.emplace_back("all", int64_t{1});
    out[i] = b.Value(OpKind::kClusterReduce, {part}, std::move(type), std::move(attrs));
  }
  return out;
}

std::map<size_t, ValueId> CombinePlaces(Builder& b, Function& fn, const LoopParts& parts, ValueId z,
                                        bool all) {
  std::map<size_t, ValueId> out;
  if (parts.places.empty()) return out;
  const std::vector<ValueId> results = fn.ops[parts.loop].results;
  const auto combined = [&](ValueId v, std::string kind, bool for_all) {
    Attrs attrs = {{"kind", std::move(kind)}};
    if (for_all) attrs.emplace_back("all", int64_t{1});
    return b.Value(OpKind::kClusterReduce, {v}, fn.type(v), std::move(attrs));
  };
  for (const auto& [place, most] : parts.places) {
    const ValueId own = results[most], at = results[place];
    if (out.count(most) == 0) out[most] = combined(own, parts.kinds[most], true);
    const Type ranks = Type::Tile(DType::kI32, fn.type(own).shape);
    const ValueId rank = b.Value(OpKind::kBroadcast, {b.Cast(z, DType::kI32)}, ranks,
                                 {{"axes", std::vector<int64_t>{}}});
    const ValueId none = b.Constant(ranks, std::numeric_limits<int32_t>::max());
    const ValueId has = b.Cmp("eq", own, out[most]);
    const ValueId first = combined(b.Value(OpKind::kSelect, {has, rank, none}, ranks), "min", true);
    const ValueId mine = b.Cmp("eq", first, rank), zero = b.Constant(fn.type(at), 0);
    out[place] = combined(b.Value(OpKind::kSelect, {mine, at, zero}, fn.type(at)), "add", all);
  }
  return out;
}

OpId ReducedBehind(const Function& fn, const Uses& uses, ValueId result, const std::string& kind,
                   const std::vector<OpId>& behind) {
  for (OpId id : behind) {
    const Op& op = fn.ops[id];
    if (op.kind == OpKind::kReduce && op.operands[0] == result && uses.count(result) == 1 &&
        op.s("kind") == (kind == "add" ? "sum" : kind))
      return id;
  }
  return {};
}

std::pair<ValueId, ValueId> TurnsOf(Builder& b, const Op& loop, ValueId z, int64_t ctas) {
  const int64_t step = loop.i("step");
  const ValueId low = loop.operands[0], high = loop.operands[1];
  const ValueId length = b.Binary(OpKind::kSub, high, low);
  const ValueId more = b.Binary(OpKind::kAdd, length, b.Int(step * ctas - 1));
  const ValueId chunk = b.Binary(OpKind::kDiv, more, b.Int(step * ctas));  // iterations of each
  const ValueId part = b.Binary(OpKind::kMul, chunk, b.Int(step));
  const ValueId begin = b.Binary(
      OpKind::kAdd, low, b.Binary(OpKind::kMul, b.Binary(OpKind::kMul, z, chunk), b.Int(step)));
  const ValueId end = b.Binary(OpKind::kMin, high, b.Binary(OpKind::kAdd, begin, part));
  return {begin, end};
}

ValueId AddClusterRange(Function& fn, OpId id, int64_t ctas) {
  Builder top(fn, fn.body);
  std::vector<OpId>& outer = fn.blocks[fn.body].ops;
  const auto at = std::find(outer.begin(), outer.end(), id);
  const std::vector<OpId> behind(at, outer.end());
  outer.erase(at, outer.end());
  top.SetSpan(fn.ops[id].at);
  const ValueId none = top.Int(0), all = top.Int(ctas);
  std::vector<OpId>& ops = fn.blocks[fn.body].ops;
  ops.insert(ops.end(), behind.begin(), behind.end());
  Op& grid = fn.ops[id];
  grid.operands.insert(grid.operands.begin(), {none, all});
  std::vector<int64_t> steps = grid.ints("steps");
  steps.insert(steps.begin(), 1);
  grid.set("steps", steps);
  grid.set("cluster", ctas);
  const BlockId body = grid.regions[0];
  const ValueId z = fn.AddArg(body, Type::Scalar(DType::kI64), "part");
  std::vector<ValueId>& args = fn.blocks[body].args;
  std::rotate(args.begin(), args.end() - 1, args.end());
  return z;
}

}  // namespace tilec::ir
