// What a loop over pieces of a row reduces in every turn, each thread keeps for itself:
//
//     m, l = for c (m = m0, l = 0) { m' = max(m, max(x));  m', l · f(m, m') + sum(t(x, m')) }   →
//     M, L = for c (M = m0, L = 0) { the same, of the elements that a thread has of x }
//     m = max(M);  l = sum(L · f(M, m))
//
// Why. A row that a CTA walks over is reduced by all of its warps. In each turn they wait for one
// another, and none loads its next elements while it waits. What parts of a sum are, and of a
// largest value, and of sums that are kept relative to one (ir/passes/rescaled_sums.h), is the same
// whether CTAs have them (ir/passes/split_reductions.h) or threads: they become one by the loop's
// own f, once behind the loop. A thread rescales once a turn, whatever it has of it.
//
// In the IR a piece [N] is seen as [groups, threads, vector], as the threads will have it (the plan
// of layouts says how): reduced along its first and last dim it is one number for each thread. That
// is a rearrangement in which no element moves. Were it laid out otherwise, it would still be
// right.
//
// Where it must not act:
//   - a turn's sums and largest values may be used for nothing but what is carried: everybody needs
//     all of them, else. So a sum of largest values stays, too;
//   - one row at a time: of several a thread would carry several numbers, and lanes of one warp
//     have most of such a row anyway;
//   - programs with products; and such with one loop, whose turns CTAs may want to share first.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ir/lower/operands.h"
#include "ir/lower/plan.h"
#include "ir/lower/scalars.h"
#include "ir/lower/slides.h"
#include "ir/passes/loop_parts.h"
#include "ir/passes/passes.h"
#include "ir/passes/rewrite.h"
#include "ir/passes/split_loops.h"
#include "ir/reshaped_layout.h"
#include "ir/uses.h"

namespace tilec::ir {
namespace {

// How threads have a piece of a row: element (g, t, v) is thread t's.
struct PieceView {
  int64_t groups = 0, threads = 0, vector = 0;
  int64_t elements() const { return groups * threads * vector; }
  std::vector<int64_t> shape() const { return {1, groups, threads, vector}; }
};

// May each thread have a part of what the loop carries?
class PartFinder {
 public:
  PartFinder(const Function& fn, const Uses& uses, OpId loop)
      : fn_(fn), uses_(uses), loop_(fn.ops[loop]), body_(loop_.regions[0]) {}

  // Reduces of the body, all of one piece's length; nothing: it may not.
  std::vector<OpId> Reduces(const LoopParts& parts) {
    if (!parts.places.empty()) return {};
    for (ValueId result : loop_.results)
      if (fn_.type(result).elements() != 1) return {};
    for (size_t i = 0; i < loop_.results.size(); ++i)
      if (!IsChain(parts, i)) return {};
    for (OpId id : fn_.blocks[body_].ops)
      if (!MayBeOwn(id)) return {};
    return reduces_;
  }

 private:
  const Op* Def(ValueId v) const {
    const Op* def = fn_.def(v);
    return def && def->block == body_ ? def : nullptr;
  }
  // What the turn's piece comes to: of it each thread may take its own elements' part.
  bool IsPart(ValueId v, const std::string& kind) {
    const Op* def = Def(v);
    if (!def || def->kind != OpKind::kReduce || uses_.count(v) != 1 || GuardOf(*def).valid() ||
        def->s("kind") != (kind == "add" ? "sum" : kind) || def->attr("pin_depth") ||
        def->attr("pin_stage") || def->attr("pin_role") || def->attr("pin_cycle"))
      return false;
    const Type& from = fn_.type(def->operands[0]);
    if (fn_.type(v).elements() != 1 || from.elements() == 1 ||
        from.shape[static_cast<size_t>(def->i("axis"))] != from.elements() ||
        (length_ != 0 && length_ != from.elements()))
      return false;
    length_ = from.elements();
    reduces_.push_back(fn_.values[v].def);
    return true;
  }
  // Carried value i and parts, by ops of its kind.
  bool IsChain(const LoopParts& parts, size_t i) {
    const ValueId carried = fn_.blocks[body_].args[1 + i];
    ValueId v = fn_.ops[fn_.blocks[body_].ops.back()].operands[i];
    const std::string& kind = parts.kinds[i];
    const bool scaled = parts.rescaled && parts.rescaled->sums.count(i) > 0;
    const OpKind by = kind == "add" ? OpKind::kAdd : kind == "max" ? OpKind::kMax : OpKind::kMin;
    for (bool top = true; v != carried; top = false) {
      const Op* def = Def(v);
      if (!def || (!top && uses_.count(v) != 1)) return false;
      if (scaled && def->kind == OpKind::kMul)  // by f, as FindRescaledSums has seen
        return def->operands[0] == carried || def->operands[1] == carried;
      if (scaled && def->kind == OpKind::kFma)
        return (def->operands[0] == carried || def->operands[1] == carried) &&
               IsPart(def->operands[2], kind);
      if (def->kind != by) return false;
      const bool second = IsPart(def->operands[1], kind);
      if (!second && !IsPart(def->operands[0], kind)) return false;
      v = def->operands[second ? 0 : 1];
    }
    return !scaled;
  }
  // Is it none of what threads would have parts of, or an op that keeps each thread's apart?
  bool MayBeOwn(OpId id) {
    const Op& op = fn_.ops[id];
    const std::vector<ValueId>& args = fn_.blocks[body_].args;
    const auto hangs = [&](ValueId v) {
      return own_.count(v) > 0 || std::find(args.begin() + 1, args.end(), v) != args.end();
    };
    const bool reduces = op.kind == OpKind::kReduce || op.kind == OpKind::kArgReduce ||
                         op.kind == OpKind::kScan || op.kind == OpKind::kRearrange ||
                         op.kind == OpKind::kClusterReduce;
    if (reduces && std::find(reduces_.begin(), reduces_.end(), id) == reduces_.end()) return false;
    if (!op.regions.empty()) return false;
    if (op.kind == OpKind::kYield)
      return std::all_of(op.operands.begin(), op.operands.end(), hangs);
    if (!reduces && std::none_of(op.operands.begin(), op.operands.end(), hangs)) return true;
    own_.insert(op.results.begin(), op.results.end());
    const auto fits = [&](ValueId v) {
      const int64_t elements = fn_.type(v).elements();
      return elements == 1 || elements == length_;
    };
    return (reduces || Info(op.kind).elementwise() || op.kind == OpKind::kReshape ||
            op.kind == OpKind::kBroadcast) &&
           std::all_of(op.operands.begin(), op.operands.end(), fits) && fits(op.results[0]);
  }

  const Function& fn_;
  const Uses& uses_;
  const Op& loop_;
  const BlockId body_;
  std::vector<OpId> reduces_;
  std::set<ValueId> own_;
  int64_t length_ = 0;
};

class PartKeeper {
 public:
  PartKeeper(Function& fn, PassContext& cx, const Uses& uses, OpId loop, PieceView view)
      : fn_(fn), cx_(cx), uses_(uses), loop_(loop), body_(fn.ops[loop].regions[0]), view_(view) {}

  void Rewrite(const LoopParts& parts) {
    GuardReference(fn_, parts);
    const std::vector<ValueId> results = fn_.ops[loop_].results;
    const BlockId outer = fn_.ops[loop_].block;
    std::vector<ValueId> starts, neutral;
    std::vector<Type> rows;
    const std::vector<OpId> before = Made(outer, [&](Builder& b) {
      for (size_t i = 0; i < results.size(); ++i) {
        starts.push_back(fn_.ops[loop_].operands[2 + i]);
        rows.push_back(fn_.type(results[i]));
        neutral.push_back(parts.kinds[i] == "add" ? b.Constant(Own(rows[i]), 0)
                                                  : Spread(b, starts[i]));
      }
    });
    for (size_t i = 0; i < results.size(); ++i) {
      fn_.ops[loop_].operands[2 + i] = neutral[i];
      for (ValueId v : {results[i], fn_.blocks[body_].args[1 + i]}) {
        fn_.values[v].type = Own(rows[i]);
        own_[v] = v;
      }
    }
    Body();
    std::vector<ValueId> all;
    const std::vector<OpId> behind =
        Made(outer, [&](Builder& b) { all = Combined(b, parts, rows, starts); });
    for (size_t i = 0; i < results.size(); ++i) {
      fn_.values[all[i]].name = fn_.values[results[i]].name;
      for (const Uses::Use& use : uses_.of(results[i]))
        fn_.ops[use.reader].operands[use.operand] = all[i];
    }
    RebuildBlock(fn_, outer, [&](OpId op, std::vector<OpId>& out) {
      if (op == loop_) out.insert(out.end(), before.begin(), before.end());
      out.push_back(op);
      if (op == loop_) out.insert(out.end(), behind.begin(), behind.end());
    });
    ++cx_.changes;
  }

 private:
  Type Own(const Type& row) const { return Type::Tile(row.dtype, {1, view_.threads}); }
  Type Piece(const Type& piece) const { return Type::Tile(piece.dtype, view_.shape()); }
  bool IsPiece(const Type& type) const {
    return type.is_tile() && type.elements() == view_.elements();
  }
  // Ops that `make` appends to the block, taken off again.
  template <typename F>
  std::vector<OpId> Made(BlockId block, F&& make) {
    const auto before = static_cast<std::ptrdiff_t>(fn_.blocks[block].ops.size());
    Builder b(fn_, block);
    b.SetSpan(fn_.ops[loop_].at);
    make(b);
    std::vector<OpId>& ops = fn_.blocks[block].ops;
    const std::vector<OpId> made(ops.begin() + before, ops.end());
    ops.resize(static_cast<size_t>(before));
    return made;
  }

  // One number of the row, for each thread.
  ValueId Spread(Builder& b, ValueId v) {
    const Type type = fn_.type(v);
    if (const AttrValue* value = ConstantOf(fn_, Without(fn_, OpKind::kBroadcast, v).value))
      if (const double* d = std::get_if<double>(value)) return b.Constant(Own(type), *d);
    if (type.rank() > 1) v = b.Value(OpKind::kReshape, {v}, Type::Tile(type.dtype, {1}));
    Attrs attrs = {{"axes", std::vector<int64_t>{}}};
    if (!type.is_scalar()) attrs = {{"axes", std::vector<int64_t>{0}}};
    return b.Value(OpKind::kBroadcast, {v}, Own(type), std::move(attrs));
  }
  // An operand of what threads have parts of.
  ValueId Operand(Builder& b, ValueId v) {
    if (const auto known = own_.find(v); known != own_.end()) return known->second;
    const Type type = fn_.type(v);
    if (!IsPiece(type)) return own_[v] = Spread(b, v);
    const std::vector<int64_t> strides = {kAnyOrder, view_.threads * view_.vector, view_.vector, 1};
    return own_[v] = b.Value(OpKind::kRearrange, {v}, Piece(type),
                             {{"first", int64_t{0}}, {"strides", strides}});
  }

  void Body() {
    const std::vector<OpId> old = std::move(fn_.blocks[body_].ops);
    fn_.blocks[body_].ops.clear();
    Builder b(fn_, body_);
    for (OpId id : old) {
      const Op op = fn_.ops[id];  // a copy: adding moves the ops
      const bool own = std::any_of(op.operands.begin(), op.operands.end(),
                                   [&](ValueId v) { return hangs_.count(v) > 0 || IsArg(v); });
      if (op.kind != OpKind::kYield && op.kind != OpKind::kReduce && !own) {
        fn_.blocks[body_].ops.push_back(id);
        continue;
      }
      hangs_.insert(op.results.begin(), op.results.end());
      b.SetSpan(op.at);
      if (op.kind == OpKind::kYield) {
        ReplaceOperands(fn_, id, own_);
        fn_.blocks[body_].ops.push_back(id);
      } else {
        const ValueId made = OwnResult(b, op);
        own_[op.results[0]] = made;
        fn_.values[made].name = fn_.values[op.results[0]].name;
      }
    }
  }
  bool IsArg(ValueId v) const {
    const std::vector<ValueId>& args = fn_.blocks[body_].args;
    return std::find(args.begin() + 1, args.end(), v) != args.end();
  }

  ValueId OwnResult(Builder& b, const Op& op) {
    const Type to = fn_.type(op.results[0]), from = fn_.type(op.operands[0]);
    if (op.kind == OpKind::kReduce) {
      const ValueId piece = Operand(b, op.operands[0]);
      const auto along = [&](ValueId v, int64_t axis, Type type) {
        return b.Value(OpKind::kReduce, {v}, std::move(type),
                       {{"kind", op.s("kind")}, {"axis", axis}});
      };
      const ValueId groups =
          along(piece, 3, Type::Tile(to.dtype, {1, view_.groups, view_.threads}));
      return along(groups, 1, Own(to));
    }
    if (op.kind == OpKind::kReshape || op.kind == OpKind::kBroadcast) {
      const ValueId v = Operand(b, op.operands[0]);
      if (IsPiece(from) || !IsPiece(to)) return v;
      return b.Value(OpKind::kBroadcast, {v}, Piece(to), {{"axes", std::vector<int64_t>{0, 2}}});
    }
    std::vector<ValueId> operands;
    for (ValueId v : op.operands) operands.push_back(Operand(b, v));
    return b.Value(op.kind, std::move(operands), IsPiece(to) ? Piece(to) : Own(to), op.attrs);
  }

  // What the parts of all threads come to.
  ValueId All(Builder& b, ValueId own, const std::string& kind, const Type& row) {
    const std::string by = kind == "add" ? "sum" : kind;
    const ValueId one = b.Value(OpKind::kReduce, {own}, Type::Tile(row.dtype, {1}),
                                {{"kind", by}, {"axis", int64_t{1}}});
    return row.rank() == 1 ? one : b.Value(OpKind::kReshape, {one}, row);
  }
  std::vector<ValueId> Combined(Builder& b, const LoopParts& parts, const std::vector<Type>& rows,
                                const std::vector<ValueId>& starts) {
    const std::vector<ValueId> results = fn_.ops[loop_].results;
    std::vector<ValueId> all(results.size());
    ValueMap map;
    if (parts.rescaled) {
      const size_t m = parts.rescaled->reference;
      all[m] = All(b, results[m], "max", rows[m]);
      map = {{At(own_, parts.rescaled->old), results[m]},
             {At(own_, parts.rescaled->next), Spread(b, all[m])}};
    }
    for (size_t i = 0; i < results.size(); ++i) {
      if (all[i].valid()) continue;
      ValueId part = results[i];
      if (parts.rescaled && parts.rescaled->Has(i)) {
        const ValueId factor = At(own_, parts.rescaled->sums.at(i));
        part = b.Binary(OpKind::kMul, part, ClonedFrom(b, fn_, body_, factor, map));
      }
      all[i] = All(b, part, parts.kinds[i], rows[i]);
      if (parts.kinds[i] == "add" && !IsZero(fn_, starts[i]))
        all[i] = b.Binary(OpKind::kAdd, starts[i], all[i]);
    }
    return all;
  }

  Function& fn_;
  PassContext& cx_;
  const Uses& uses_;
  const OpId loop_;
  const BlockId body_;
  const PieceView view_;
  ValueMap own_;             // by value: what threads have of it, or how they see it
  std::set<ValueId> hangs_;  // on what is carried, or reduced
};

class OwnPartsPass {
 public:
  OwnPartsPass(Function& fn, PassContext& cx) : fn_(fn), cx_(cx) {}

  void Run() {
    std::vector<OpId> loops;
    for (OpId id : OpsInOrder(fn_)) {
      if (fn_.ops[id].kind == OpKind::kDot) return;
      if (fn_.ops[id].kind == OpKind::kFor && !fn_.ops[id].results.empty()) loops.push_back(id);
    }
    if (loops.empty() || !HasSeveralLoops(fn_)) return;
    for (OpId id : loops) Loop(id);
  }

 private:
  void Loop(OpId id) {
    const Uses uses(fn_);
    LoopParts parts;
    if (FindLoopParts(fn_, uses, id, &parts)) return;
    const std::vector<OpId> reduces = PartFinder(fn_, uses, id).Reduces(parts);
    if (reduces.empty()) return;
    if (const auto view = ViewOf(fn_.ops[reduces.front()].operands[0]))
      PartKeeper(fn_, cx_, uses, id, *view).Rewrite(parts);
  }

  std::optional<PieceView> ViewOf(ValueId piece) {
    if (!plan_) plan_ = MakePlan(fn_, cx_.target);
    const auto at = plan_->layouts.find(piece);
    if (at == plan_->layouts.end() || at->second.rank != 1 || at->second.thread.size() != 1)
      return std::nullopt;
    const LayoutDigit& lanes = at->second.thread.front();
    if (lanes.dim != 0 || lanes.stride < 2) return std::nullopt;
    const int64_t elements = fn_.type(piece).elements(), turn = lanes.extent * lanes.stride;
    PieceView view{elements / turn, lanes.extent, lanes.stride};
    if (view.groups < 1 || !CutLayout(at->second, {elements}, Squeezed(view.shape())))
      return std::nullopt;
    return view;
  }

  Function& fn_;
  PassContext& cx_;
  std::optional<LayoutPlan> plan_;
};

}  // namespace

Result<> OwnParts(Function& fn, PassContext& cx) {
  OwnPartsPass(fn, cx).Run();
  return Done();
}

}  // namespace tilec::ir
