// Tensors: indices, loads, stores, atomics; `[:, None]` of tiles.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "frontend/lower.h"
#include "frontend/poly.h"

namespace tilec::frontend {

using lang::ExprId;
using lang::IndexKind;

bool IsZip(const ProgramData& program, int module, const lang::Ast& ast,
           const lang::IndexItem& item) {
  const auto* call =
      item.kind == IndexKind::kExpr ? ast.expr(item.value).As<lang::CallExpr>() : nullptr;
  return call && call->callee.text == "zip" && !program.Find(module, "zip");
}

size_t DimsOf(const ProgramData& program, int module, const lang::Ast& ast,
              const lang::IndexItem& item) {
  if (!IsZip(program, module, ast, item)) return 1;
  return ast.expr(item.value).As<lang::CallExpr>()->args.size();
}

Result<Val> Lowerer::Index(const lang::Expr& e, const lang::IndexExpr& x) {
  TRY(const Val base, Eval(x.base));
  if (base.kind == Val::Kind::kTensor) return Load(e, x, base.index);
  if (base.kind == Val::Kind::kRange) {
    const std::string text = program_.TextOf(expr(x.base).span);
    return Report(kNotAValue, expr(x.base).span, text, "a range of positions")
        .Help(fmt::format("write `{}.index[…]`", text));
  }
  if (base.kind == Val::Kind::kString) return Report(kStringPlace, e.span);
  return TileIndex(e, x, base);
}

Result<Lowerer::TileView> Lowerer::ViewOf(const lang::IndexExpr& x, const Val& tile) {
  const Type t = type(tile.v);
  const std::vector<std::string> old = facts(tile.v).dims;
  TileView view;
  int64_t stride = 1;
  for (int64_t s : t.shape) stride *= s;
  size_t dim = 0;
  for (const lang::IndexItem& item : x.items) {
    if (item.kind == IndexKind::kNone) {
      view.shape.push_back(1);
      view.strides.push_back(0);
      view.names.emplace_back();
      continue;
    }
    const int64_t extent = t.shape[dim];
    stride /= extent;
    const std::string was = dim < old.size() ? old[dim] : "";
    ++dim;
    if (item.kind == IndexKind::kAll) {
      view.shape.push_back(extent);
      view.strides.push_back(stride);
      view.names.push_back(was);
      continue;
    }
    if (const auto* slice = expr(item.value).As<lang::RangeExpr>()) {
      TRY(const int64_t lo, StaticInt(slice->lo, "the begin of a slice of a tile"));
      TRY(const int64_t hi, StaticInt(slice->hi, "the end of a slice of a tile"));
      int64_t step = 1;
      if (slice->step.valid()) {
        TRY(step, StaticInt(slice->step, "the step of a slice"));
        if (step < 1) return Report(kLoopStep, expr(slice->step).span, step);
      }
      if (lo < 0 || hi > extent || lo >= hi)
        return Report(kTileSlice, item.span, lo, hi, extent)
            .Label(expr(x.base).span, fmt::format("this is {}", DescribeVal(tile)));
      view.whole &= lo == 0 && hi == extent && step == 1;
      view.first += lo * stride;
      view.shape.push_back((hi - lo + step - 1) / step);
      view.strides.push_back(stride * step);
      view.names.emplace_back();
      continue;
    }
    TRY(const Val at, Eval(item.value));
    const bool integer =
        at.is_const() ? at.c.is_int()
                      : at.is_value() && ir::IsInteger(type(at.v).dtype) && ShapeOf(at).empty();
    if (!integer) {
      DiagBuilder report = Report(kTileIndex, item.span);
      report.Label(expr(x.base).span, fmt::format("this is {}", DescribeVal(tile)));
      report.Label(item.span, fmt::format("this is {}", DescribeVal(at)));
      return report.Help("to gather by a tile of positions, index the tensor");
    }
    if (!at.is_const()) {
      view.picks.emplace_back(view.shape.size(), at);
      view.shape.push_back(extent);
      view.strides.push_back(stride);
      view.names.push_back(was);
      continue;
    }
    if (at.c.as_int() < 0 || at.c.as_int() >= extent)
      return Report(kTileSlice, item.span, at.c.as_int(), at.c.as_int() + 1, extent)
          .Label(expr(x.base).span, fmt::format("this is {}", DescribeVal(tile)));
    view.whole &= extent == 1;
    view.first += at.c.as_int() * stride;
  }
  return view;
}

Result<Val> Lowerer::TileIndex(const lang::Expr& e, const lang::IndexExpr& x, const Val& tile) {
  if (x.fill.valid())
    return Report(kFillPlace, expr(x.fill).span, "`fill` is for loads from tensors")
        .Label(expr(x.base).span, fmt::format("this is {}", DescribeVal(tile)));
  if (tile.is_const() || ShapeOf(tile).empty())
    return Report(kTileIndex, e.span).Label(expr(x.base).span, "this is a scalar");
  const Type t = type(tile.v);
  const std::string text = program_.TextOf(expr(x.base).span);
  size_t dims = 0;
  for (const lang::IndexItem& item : x.items) dims += item.kind != IndexKind::kNone;
  if (dims != t.shape.size())
    return Report(kIndexCount, e.span, text, t.shape.size(), dims)
        .Label(expr(x.base).span, fmt::format("this is {}", DescribeVal(tile)))
        .Help("write one index for each dim of the tile, `:` for all of it, `None` for a new dim");
  TRY(const TileView view, ViewOf(x, tile));
  if (view.shape.size() > 8)
    return Report(kExtentRange, e.span, "the number of dims", view.shape.size())
        .Help("tiles have at most 8 dims");
  Val out = tile;
  if (view.shape != t.shape || !view.whole) {
    const ValueId r =
        view.whole ? Emit(e.span, OpKind::kReshape, {tile.v}, Type::Tile(t.dtype, view.shape))
                   : Rearrange(e.span, tile.v, view.shape, view.first, view.strides);
    facts(r).position = facts(tile.v).position;
    facts(r).dims = view.names;
    out = Value(r, e.span);
  }
  for (size_t i = view.picks.size(); i-- > 0;) {
    TRY(out, Pick(e.span, out, view.picks[i].first, view.picks[i].second));
  }
  return out;
}

// ---- Tensor indices ----------------------------------------------------------------------------

Result<Val> Lowerer::Load(const lang::Expr& e, const lang::IndexExpr& x, int tensor) {
  const ir::Param param = fn_.params[tensor];
  TRY(ResolvedIndex index, Resolve(e, x, tensor, false));
  if (param.direction == ir::Direction::kOut && !stored_.count(tensor))
    return Report(kOutRead, e.span, param.name)
        .Label(param.at, "declared `out` here")
        .Help(fmt::format("declare it `{}: inout …` if its old contents are wanted", param.name));
  const DType dtype = type(param.value).dtype;
  std::vector<ValueId> operands = {param.value};
  operands.insert(operands.end(), index.load.begin(), index.load.end());
  ir::Attrs attrs = {{"modes", index.modes}, {"sizes", index.sizes}};
  if (x.fill.valid()) {
    TRY(const Val fill, Scalar(x.fill));
    TRY(const ValueId v, Convert(fill, Type::Scalar(dtype), {}, "`fill`", param.at, fill.at));
    operands.push_back(v);
    attrs.emplace_back("has_fill", int64_t{1});
  }
  const ValueId flat = Emit(e.span, OpKind::kLoad, operands, Type::Tile(dtype, index.flat), attrs);
  const ValueId r = Reshaped(e.span, flat, index.shape);
  facts(r).dims = index.names;
  index.access.kind = AccessKind::kLoad;
  Note(std::move(index.access));
  return Value(r, e.span);
}

Result<> Lowerer::CheckWritable(const lang::Expr& e, const lang::IndexExpr& x, int tensor) {
  const ir::Param& param = fn_.params[tensor];
  const auto* base = expr(x.base).As<lang::NameExpr>();
  const Local* local = base ? Lookup(base->name) : nullptr;
  if (local && local->read_only)
    return Report(kReadOnlyTensor, e.span, base->name)
        .Label(local->at, "declared without `out` or `inout`")
        .Help(fmt::format("declare it `{}: out …`", base->name));
  if (param.direction == ir::Direction::kIn)
    return Report(kReadOnlyTensor, e.span, param.name)
        .Label(param.at, "declared without `out` or `inout`")
        .Help(fmt::format("declare it `{}: out …`", param.name));
  if (x.fill.valid())
    return Report(kFillPlace, expr(x.fill).span, "`fill` is for loads, this is a store")
        .Help("stores outside the tensor are dropped by themselves");
  if (!in_parallel_)
    return Report(kStatementPlace, e.span, "a store").Help("move it into the body of `parallel`");
  return Done();
}

Result<> Lowerer::Store(const lang::Expr& target, const lang::IndexExpr& x, const Val& value) {
  const auto* base = expr(x.base).As<lang::NameExpr>();
  const int tensor = Lookup(base->name)->val.index;
  TRY(ResolvedIndex index, Resolve(target, x, tensor, true));
  const ir::Param param = fn_.params[tensor];
  const Type want = Type::Tile(type(param.value).dtype, index.shape);
  const std::string what = fmt::format("`{}`", program_.TextOf(target.span));
  TRY(const ValueId v, Convert(value, want, index.names, what, target.span, value.at));
  std::vector<ValueId> operands = {param.value, Reshaped(target.span, v, index.flat)};
  operands.insert(operands.end(), index.store.begin(), index.store.end());
  (void)EmitOp(target.span, OpKind::kStore, operands, {},
               {{"modes", index.modes}, {"sizes", index.sizes}});
  index.access.kind = AccessKind::kStore;
  Note(std::move(index.access));
  stored_.insert(tensor);
  return Done();
}

Result<Val> Lowerer::Atomic(const lang::Expr& e, const lang::CallExpr& call, bool fetch) {
  const std::string name = call.callee.text;
  const std::string kind = name.substr(name.find('_') + 1);
  const std::string form = fmt::format("write `{}{}(C[m, n], x)`", fetch ? "let old = " : "", name);
  if (call.args.size() != 2 || call.args[0].name || call.args[1].name)
    return Report(kArgCount, e.span, name, "an indexed tensor and a value",
                  CountArguments(call.args.size()))
        .Help(form);
  const lang::Expr& target = expr(call.args[0].value);
  const auto* index_expr = target.As<lang::IndexExpr>();
  const auto* base = index_expr ? expr(index_expr->base).As<lang::NameExpr>() : nullptr;
  const Local* local = base ? Lookup(base->name) : nullptr;
  if (base && !local)
    return Suggest(Report(kUnknownName, expr(index_expr->base).span, base->name), base->name,
                   NamesInScope());
  if (!local || local->val.kind != Val::Kind::kTensor)
    return Report(kAtomicForm, target.span,
                  fmt::format("the target of `{}` is not an indexed tensor", name))
        .Help(form);
  const int tensor = local->val.index;
  TRY_VOID(CheckWritable(target, *index_expr, tensor));
  const ir::Param param = fn_.params[tensor];
  TRY(ResolvedIndex index, Resolve(target, *index_expr, tensor, true));
  if (param.direction == ir::Direction::kOut && (fetch || stored_.count(tensor) == 0))
    return Report(kOutRead, target.span, param.name)
        .Label(param.at, "declared `out` here")
        .Help(fmt::format("declare it `{}: inout …`: `{}` {} what was there", param.name, name,
                          fetch ? "gives" : "changes"));
  const DType dtype = type(param.value).dtype;
  const bool bits = kind == "and" || kind == "or" || kind == "xor";
  const bool whole = bits || (fetch && kind != "add");  // of integers alone
  if (dtype == DType::kBool || (whole && ir::IsFloat(dtype)) || ir::Info(dtype).bits < 16)
    return Report(kAtomicForm, e.span, fmt::format("`{}` on {} elements", name, Spelling(dtype)))
        .Label(param.at, "declared here")
        .Help(whole ? "use an integer tensor of 32 or 64 bits" : "use an f32 or i32 tensor");
  TRY(const Val value, TileOrScalar(call.args[1].value));
  const std::string what = fmt::format("`{}`", program_.TextOf(target.span));
  TRY(const ValueId v,
      Convert(value, Type::Tile(dtype, index.shape), index.names, what, target.span, value.at));
  std::vector<ValueId> operands = {param.value, Reshaped(e.span, v, index.flat)};
  operands.insert(operands.end(), index.store.begin(), index.store.end());
  const Type old = Type::Tile(dtype, index.flat);
  const ir::OpId op = EmitOp(e.span, OpKind::kAtomic, operands,
                             fetch ? std::vector<Type>{old} : std::vector<Type>{},
                             {{"kind", kind}, {"modes", index.modes}, {"sizes", index.sizes}});
  index.access.kind = AccessKind::kAtomic;
  Note(std::move(index.access));
  stored_.insert(tensor);
  if (!fetch) return Val{};
  const ValueId found = fn_.ops[op].results[0];
  facts(found).deps = ~uint64_t{0};  // every instance finds something of its own
  const ValueId r = Reshaped(e.span, found, index.shape);
  facts(r).dims = index.names;
  return Value(r, e.span);
}

}  // namespace tilec::frontend
