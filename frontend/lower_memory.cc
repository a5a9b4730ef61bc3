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

ValueId Lowerer::ToIndex(Span at, const Val& v) {
  if (v.is_const()) return IntValue(at, v.c.as_int());
  if (type(v.v).dtype == DType::kI64) return v.v;
  const ValueId r = Cached(fmt::format("cast {} i64", v.v.index), [&] {
    return Emit(at, OpKind::kCast, {v.v}, Type::Scalar(DType::kI64));
  });
  SetSymbol(r, SymbolOf(v));
  facts(r).position = facts(v.v).position;
  return r;
}

ValueId Lowerer::RangeEnd(Span at, int range) {
  const RangeInfo info = ranges_[range];
  const ValueId start = ToIndex(at, info.start);
  const ValueId bound = ToIndex(at, info.bound);
  const ValueId end = Cached(fmt::format("end {}", range), [&] {
    const ValueId size = IntValue(at, info.size);
    const ValueId open = Emit(at, OpKind::kAdd, {start, size}, Type::Scalar(DType::kI64));
    return Emit(at, OpKind::kMin, {open, bound}, Type::Scalar(DType::kI64));
  });
  facts(end).position = true;
  return end;
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
  const std::vector<std::string> old = facts(tile.v).dims;
  Shape shape;
  std::vector<std::string> names;
  std::vector<int64_t> strides;
  std::vector<std::pair<size_t, Val>> picks;  // dims of `shape`, positions that the kernel computes
  int64_t first = 0, stride = 1;
  for (int64_t s : t.shape) stride *= s;
  size_t dim = 0;
  bool whole = true;
  for (const lang::IndexItem& item : x.items) {
    if (item.kind == IndexKind::kNone) {
      shape.push_back(1);
      strides.push_back(0);
      names.emplace_back();
      continue;
    }
    const int64_t extent = t.shape[dim];
    stride /= extent;
    const std::string was = dim < old.size() ? old[dim] : "";
    ++dim;
    if (item.kind == IndexKind::kAll) {
      shape.push_back(extent);
      strides.push_back(stride);
      names.push_back(was);
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
      whole &= lo == 0 && hi == extent && step == 1;
      first += lo * stride;
      shape.push_back((hi - lo + step - 1) / step);
      strides.push_back(stride * step);
      names.emplace_back();
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
      picks.emplace_back(shape.size(), at);
      shape.push_back(extent);
      strides.push_back(stride);
      names.push_back(was);
      continue;
    }
    if (at.c.as_int() < 0 || at.c.as_int() >= extent)
      return Report(kTileSlice, item.span, at.c.as_int(), at.c.as_int() + 1, extent)
          .Label(expr(x.base).span, fmt::format("this is {}", DescribeVal(tile)));
    whole &= extent == 1;
    first += at.c.as_int() * stride;
  }
  if (shape.size() > 8)
    return Report(kExtentRange, e.span, "the number of dims", shape.size())
        .Help("tiles have at most 8 dims");
  Val out = tile;
  if (shape != t.shape || !whole) {
    const ValueId r = whole ? Emit(e.span, OpKind::kReshape, {tile.v}, Type::Tile(t.dtype, shape))
                            : Rearrange(e.span, tile.v, shape, first, strides);
    facts(r).position = facts(tile.v).position;
    facts(r).dims = names;
    out = Value(r, e.span);
  }
  for (size_t i = picks.size(); i-- > 0;) {
    TRY(out, Pick(e.span, out, picks[i].first, picks[i].second));
  }
  return out;
}

// ---- Tensor indices ----------------------------------------------------------------------------

// A range over one dim at the place of another: legal, since loads are clipped, and seldom meant.
void Lowerer::WarnOtherDim(const lang::IndexItem& item, const RangeInfo& range,
                           const ir::Param& param, size_t d) {
  if (!options_.warn) return;
  const Expr bound = SymbolOf(range.bound);
  const Expr& extent = param.dims[d];
  if (bound.op != Expr::Op::kName || extent.op != Expr::Op::kName || bound.name == extent.name)
    return;
  const auto is_dim = [&](const std::string& name) {
    const ir::Param* p = fn_.param(name);
    return p && p->kind == ir::ParamKind::kDim;
  };
  if (!is_dim(bound.name) || !is_dim(extent.name)) return;
  for (const ir::WhereFact& fact : fn_.facts) {
    const auto names = NamesIn(fact.condition);
    if (std::count(names.begin(), names.end(), bound.name) +
            std::count(names.begin(), names.end(), extent.name) >=
        2)
      return;
  }
  Report(kOtherDim, item.span, program_.TextOf(item.span), bound.name, extent.name, param.name)
      .Label(param.at, "declared here")
      .Help(fmt::format("if it is meant, say how the two are related: `where {} <= {}`", bound.name,
                        extent.name));
}

Result<Val> Lowerer::Position(ExprId id, Indices* known) {
  if (!known) return Eval(id);
  if (const auto at = known->find(id.index); at != known->end()) return at->second;
  TRY(Val v, Eval(id));
  known->emplace(id.index, v);
  return v;
}

// All tiles and scalars of the `zip` in one shape, row by row: the first is a gather, the others
// are paired with it.
Result<> Lowerer::ZipIndex(const lang::CallExpr& x, Span at, Indices* known, ResolvedIndex* out) {
  std::vector<Val> positions;
  for (const lang::Arg& arg : x.args) {
    if (arg.name) return Report(kArgName, arg.name->span, "zip", arg.name->text);
    TRY(Val v, Position(arg.value, known));
    if (!v.is_const() && !v.is_value()) {
      TRY(v, TileOrScalar(arg.value));  // says what it is
    }
    const bool whole = v.is_const() ? v.c.is_int() : type(v.v).dtype == DType::kI32;
    if (!whole) {
      DiagBuilder report =
          Report(kArgKind, v.at, fmt::format("`zip` takes i32 tiles; this is {}", DescribeVal(v)));
      if (v.is_value()) report.Help(WriteCast(program_.TextOf(v.at), DType::kI32));
      return report;
    }
    positions.push_back(std::move(v));
  }
  TRY(const Shape shape, CommonShape(positions, "zip", at));
  if (shape.empty())
    return Report(kArgKind, at, "no argument of this `zip` is a tile")
        .Help("scalars need no `zip`: `X[i, j]`");
  int64_t elements = 1;
  for (int64_t s : shape)
    if ((elements *= s) > (int64_t{1} << 24)) return Report(kTileTooLarge, at);
  for (size_t k = 0; k < positions.size(); ++k) {
    const Val& v = positions[k];
    AccessDim access;
    access.at = v.at;
    access.kind = AccessDim::Kind::kGather;
    access.size = elements;
    access.deps = DepsOf(v);
    access.symbol = v.is_const() ? SymbolOf(v) : Expr::Name(fmt::format("%{}", v.v.index));
    access.key = fmt::format("z {} {}", k, ToText(access.symbol));
    const ValueId tile =
        v.is_const() ? ConstantValue(v.at, v.c, DType::kI32, shape) : Broadcast(v.at, v.v, shape);
    const ValueId row = Reshaped(v.at, tile, {elements});
    out->modes += k == 0 ? 'g' : 'p';
    out->sizes.push_back(elements);
    out->load.push_back(row);
    out->store.push_back(row);
    out->access.dims.push_back(std::move(access));
  }
  for (size_t i = 0; i < shape.size(); ++i) {
    out->shape.push_back(shape[i]);
    std::string name;
    for (const Val& v : positions)
      if (name.empty() && v.is_value() && i < facts(v.v).dims.size() &&
          type(v.v).shape[i] == shape[i])
        name = facts(v.v).dims[i];
    out->names.push_back(name);
  }
  out->flat.push_back(elements);
  return Done();
}

Result<ResolvedIndex> Lowerer::Resolve(const lang::Expr& e, const lang::IndexExpr& x, int tensor,
                                       bool writes) {
  const ir::Param param = fn_.params[tensor];
  Indices* const known = std::exchange(positions_, nullptr);  // not for what stands inside
  ResolvedIndex out;
  out.access.tensor = tensor;
  out.access.at = e.span;
  size_t covered = 0;
  for (const lang::IndexItem& item : x.items)
    covered += DimsOf(program_, frames_.back().module, ast(), item);
  if (covered != param.dims.size()) {
    std::string dims;
    for (const Expr& d : param.dims) dims += (dims.empty() ? "" : ", ") + ToText(d);
    return Report(kIndexCount, e.span, param.name, param.dims.size(), covered)
        .Label(param.at, fmt::format("declared as {}[{}]", Spelling(type(param.value).dtype), dims))
        .Help("write one index for each dim; `:` takes a whole dim");
  }
  size_t d = 0;       // the dim of the tensor
  bool wide = false;  // a tile of several dims has been met
  for (size_t i = 0; i < x.items.size();
       d += DimsOf(program_, frames_.back().module, ast(), x.items[i++])) {
    const lang::IndexItem& item = x.items[i];
    if (IsZip(program_, frames_.back().module, ast(), item)) {
      TRY_VOID(ZipIndex(*expr(item.value).As<lang::CallExpr>(), item.span, known, &out));
      continue;
    }
    AccessDim access;
    access.at = item.span;
    auto range = [&](const Val& start, int64_t size, const std::string& name, ValueId start_value,
                     ValueId end_value) {
      out.modes += 'r';
      out.sizes.push_back(size);
      out.load.push_back(start_value);
      out.store.push_back(start_value);
      out.store.push_back(end_value);
      out.shape.push_back(size);
      out.flat.push_back(size);
      out.names.push_back(name);
      access.kind = AccessDim::Kind::kRange;
      access.symbol = SymbolOf(start);
      access.size = size;
      access.deps = DepsOf(start);
      access.key = fmt::format("r {} {}", ToText(access.symbol), size);
    };
    if (item.kind == IndexKind::kNone)
      return Report(kIndexKindBad, item.span, "`None`", d, param.name)
          .Help(fmt::format("load first: `{}[…][:, None]`", param.name));
    if (item.kind == IndexKind::kAll) {
      const Expr& extent = param.dims[d];
      if (!extent.is_const())
        return Report(kNotStatic, item.span,
                      fmt::format("the extent `{}` behind `:`", ToText(extent)))
            .Label(param.at, "declared here");
      if (extent.value < 1 || extent.value > (int64_t{1} << 24))
        return Report(kExtentRange, item.span, fmt::format("the extent `{}`", ToText(extent)),
                      extent.value);
      range(ConstVal(IntConstant(0), item.span), extent.value, "", IntValue(e.span, 0),
            IntValue(e.span, extent.value));
      access.kind = AccessDim::Kind::kAll;
      out.access.dims.push_back(std::move(access));
      continue;
    }
    const lang::Expr& index = expr(item.value);
    if (const auto* slice = index.As<lang::RangeExpr>()) {
      if (slice->step.valid())
        return Report(kIndexKindBad, item.span, "a range with a step", d, param.name);
      TRY(const Val lo, Scalar(slice->lo));
      TRY(const Val hi, Scalar(slice->hi));
      for (const Val* side : {&lo, &hi})
        if (side->is_const() ? !side->c.is_int() : !ir::IsInteger(type(side->v).dtype))
          return Report(kIndexKindBad, side->at, DescribeVal(*side), d, param.name);
      const std::optional<Poly> size =
          ToPoly(Expr::Make(Expr::Op::kSub, SymbolOf(hi), SymbolOf(lo)));
      if (!size || !size->is_const())
        return Report(kRangeIndexSize, item.span)
            .Help("write `start..start + 64`, or loop over `tiles(lo..hi, B)`");
      if (size->constant() < 1)
        return Report(kExtentRange, item.span, "the length of this range", size->constant());
      range(lo, size->constant(), "", ToIndex(e.span, lo), ToIndex(e.span, hi));
      out.access.dims.push_back(std::move(access));
      continue;
    }
    TRY(const Val v, Position(item.value, known));
    if (v.kind == Val::Kind::kRange) {
      const RangeInfo info = ranges_[v.index];
      WarnOtherDim(item, info, param, d);
      range(info.start, info.size, info.name, ToIndex(e.span, info.start), ValueId());
      if (writes) out.store.back() = RangeEnd(e.span, v.index);
      out.access.dims.push_back(std::move(access));
      continue;
    }
    const bool integer =
        v.is_const() ? v.c.is_int() : v.is_value() && ir::IsInteger(type(v.v).dtype);
    if (!integer) {
      DiagBuilder report = Report(kIndexKindBad, item.span, DescribeVal(v), d, param.name);
      if (v.is_value() && ir::IsFloat(type(v.v).dtype)) report.Help("write `as i32`");
      return report;
    }
    if (v.is_const() || type(v.v).shape.empty()) {
      const ValueId position = ToIndex(e.span, v);
      out.modes += 's';
      out.sizes.push_back(1);
      out.load.push_back(position);
      out.store.push_back(position);
      access.kind = AccessDim::Kind::kScalar;
      access.symbol = SymbolOf(v);
      access.deps = DepsOf(v);
      access.key = "s " + ToText(access.symbol);
    } else {
      const Type t = type(v.v);
      // Of several dims a tile stands alone: what other languages let others meet is `zip`.
      const bool others = wide || (t.rank() > 1 && out.modes.find('g') != std::string::npos);
      const bool thin = t.rank() > 1 && std::count(t.shape.begin(), t.shape.end(), int64_t{1}) > 0;
      if (t.dtype != DType::kI32 || others || thin) {
        DiagBuilder report = Report(kGatherShape, item.span, DescribeVal(v));
        if (t.dtype != DType::kI32) report.Help(WriteCast(program_.TextOf(item.span), DType::kI32));
        if (t.rank() > 1 || others)
          report.Help("positions that move together stand in `zip`: `X[zip(i, j), :]`");
        return report;
      }
      wide = wide || t.rank() > 1;
      const ValueId row = Reshaped(item.span, v.v, {t.elements()});
      out.modes += 'g';
      out.sizes.push_back(t.elements());
      out.load.push_back(row);
      out.store.push_back(row);
      out.shape.insert(out.shape.end(), t.shape.begin(), t.shape.end());
      out.flat.push_back(t.elements());
      for (size_t k = 0; k < t.shape.size(); ++k)
        out.names.push_back(k < facts(v.v).dims.size() ? facts(v.v).dims[k] : "");
      access.kind = AccessDim::Kind::kGather;
      access.symbol = Expr::Name(fmt::format("%{}", v.v.index));
      access.size = t.elements();
      access.deps = facts(v.v).deps;
      access.key = fmt::format("g {}", v.v.index);
    }
    out.access.dims.push_back(std::move(access));
  }
  int64_t elements = 1;
  for (int64_t s : out.shape)
    if ((elements *= s) > (int64_t{1} << 24))
      return Report(kTileTooLarge, e.span).Help("load it in parts: `for … in tiles(…)`");
  return out;
}

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
  accesses_.push_back(std::move(index.access));
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
  accesses_.push_back(std::move(index.access));
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
  accesses_.push_back(std::move(index.access));
  stored_.insert(tensor);
  if (!fetch) return Val{};
  const ValueId found = fn_.ops[op].results[0];
  facts(found).deps = ~uint64_t{0};  // every instance finds something of its own
  const ValueId r = Reshaped(e.span, found, index.shape);
  facts(r).dims = index.names;
  return Value(r, e.span);
}

}  // namespace tilec::frontend
