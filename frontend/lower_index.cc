// What stands between the brackets of a tensor: positions, ranges, `zip`, and the shape of what is
// read or written there. From it lower_memory.cc makes loads, stores and atomics.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "frontend/lower.h"
#include "frontend/poly.h"

namespace tilec::frontend {

using lang::ExprId;
using lang::IndexKind;

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

// A run of `size` positions of a dim from `start` on; `begin`, `end`: the same as values.
void Lowerer::Along(AccessDim* access, ResolvedIndex* out, const Val& start, int64_t size,
                    ValueId begin, ValueId end) {
  out->modes += 'r';
  out->sizes.push_back(size);
  out->load.push_back(begin);
  out->store.push_back(begin);
  out->store.push_back(end);
  out->shape.push_back(size);
  out->flat.push_back(size);
  out->names.emplace_back();
  access->kind = AccessDim::Kind::kRange;
  access->symbol = SymbolOf(start);
  access->size = size;
  access->deps = DepsOf(start);
  access->key = fmt::format("r {} {}", ToText(access->symbol), size);
}

// One index: `:`, a range, or a position.
Result<AccessDim> Lowerer::ResolveItem(const lang::Expr& e, const lang::IndexItem& item,
                                       const IndexPlace& at, ResolvedIndex* out) {
  AccessDim access;
  access.at = item.span;
  if (item.kind == IndexKind::kNone)
    return Report(kIndexKindBad, item.span, "`None`", at.dim, at.param.name)
        .Help(fmt::format("load first: `{}[…][:, None]`", at.param.name));
  if (item.kind == IndexKind::kAll) {
    const Expr& extent = at.param.dims[at.dim];
    if (!extent.is_const())
      return Report(kNotStatic, item.span,
                    fmt::format("the extent `{}` behind `:`", ToText(extent)))
          .Label(at.param.at, "declared here");
    if (extent.value < 1 || extent.value > (int64_t{1} << 24))
      return Report(kExtentRange, item.span, fmt::format("the extent `{}`", ToText(extent)),
                    extent.value);
    Along(&access, out, ConstVal(IntConstant(0), item.span), extent.value, IntValue(e.span, 0),
          IntValue(e.span, extent.value));
    access.kind = AccessDim::Kind::kAll;
    return access;
  }
  const lang::Expr& index = expr(item.value);
  if (const auto* slice = index.As<lang::RangeExpr>()) {
    if (slice->step.valid())
      return Report(kIndexKindBad, item.span, "a range with a step", at.dim, at.param.name);
    TRY(const Val lo, Scalar(slice->lo));
    TRY(const Val hi, Scalar(slice->hi));
    for (const Val* side : {&lo, &hi})
      if (side->is_const() ? !side->c.is_int() : !ir::IsInteger(type(side->v).dtype))
        return Report(kIndexKindBad, side->at, DescribeVal(*side), at.dim, at.param.name);
    const std::optional<Poly> size = ToPoly(Expr::Make(Expr::Op::kSub, SymbolOf(hi), SymbolOf(lo)));
    if (!size || !size->is_const())
      return Report(kRangeIndexSize, item.span)
          .Help("write `start..start + 64`, or loop over `tiles(lo..hi, B)`");
    if (size->constant() < 1)
      return Report(kExtentRange, item.span, "the length of this range", size->constant());
    Along(&access, out, lo, size->constant(), ToIndex(e.span, lo), ToIndex(e.span, hi));
    return access;
  }
  TRY(const Val v, Position(item.value, at.known));
  if (v.kind == Val::Kind::kRange) {
    const RangeInfo info = ranges_[v.index];
    WarnOtherDim(item, info, at.param, at.dim);
    Along(&access, out, info.start, info.size, ToIndex(e.span, info.start), ValueId());
    out->names.back() = info.name;
    if (at.writes) out->store.back() = RangeEnd(e.span, v.index);
    return access;
  }
  const bool integer = v.is_const() ? v.c.is_int() : v.is_value() && ir::IsInteger(type(v.v).dtype);
  if (!integer) {
    DiagBuilder report = Report(kIndexKindBad, item.span, DescribeVal(v), at.dim, at.param.name);
    if (v.is_value() && ir::IsFloat(type(v.v).dtype)) report.Help("write `as i32`");
    return report;
  }
  return ResolvePosition(e, item, v, out);
}

// A scalar, or a tile of positions.
Result<AccessDim> Lowerer::ResolvePosition(const lang::Expr& e, const lang::IndexItem& item,
                                           const Val& v, ResolvedIndex* out) {
  AccessDim access;
  access.at = item.span;
  if (v.is_const() || type(v.v).shape.empty()) {
    const ValueId position = ToIndex(e.span, v);
    out->modes += 's';
    out->sizes.push_back(1);
    out->load.push_back(position);
    out->store.push_back(position);
    access.kind = AccessDim::Kind::kScalar;
    access.symbol = SymbolOf(v);
    access.deps = DepsOf(v);
    access.key = "s " + ToText(access.symbol);
    return access;
  }
  const Type t = type(v.v);
  // Of several dims a tile stands alone: what other languages let others meet is `zip`.
  const bool others = out->wide || (t.rank() > 1 && out->modes.find('g') != std::string::npos);
  const bool thin = t.rank() > 1 && std::count(t.shape.begin(), t.shape.end(), int64_t{1}) > 0;
  if (t.dtype != DType::kI32 || others || thin) {
    DiagBuilder report = Report(kGatherShape, item.span, DescribeVal(v));
    if (t.dtype != DType::kI32) report.Help(WriteCast(program_.TextOf(item.span), DType::kI32));
    if (t.rank() > 1 || others)
      report.Help("positions that move together stand in `zip`: `X[zip(i, j), :]`");
    return report;
  }
  out->wide = out->wide || t.rank() > 1;
  const ValueId row = Reshaped(item.span, v.v, {t.elements()});
  out->modes += 'g';
  out->sizes.push_back(t.elements());
  out->load.push_back(row);
  out->store.push_back(row);
  out->shape.insert(out->shape.end(), t.shape.begin(), t.shape.end());
  out->flat.push_back(t.elements());
  for (size_t k = 0; k < t.shape.size(); ++k)
    out->names.push_back(k < facts(v.v).dims.size() ? facts(v.v).dims[k] : "");
  access.kind = AccessDim::Kind::kGather;
  access.symbol = Expr::Name(fmt::format("%{}", v.v.index));
  access.size = t.elements();
  access.deps = facts(v.v).deps;
  access.key = fmt::format("g {}", v.v.index);
  return access;
}

Result<ResolvedIndex> Lowerer::Resolve(const lang::Expr& e, const lang::IndexExpr& x, int tensor,
                                       bool writes) {
  const ir::Param param = fn_.params[tensor];
  const int module = frames_.back().module;
  Indices* const known = std::exchange(positions_, nullptr);  // not for what stands inside
  ResolvedIndex out;
  out.access.tensor = tensor;
  out.access.at = e.span;
  size_t covered = 0;
  for (const lang::IndexItem& item : x.items) covered += DimsOf(program_, module, ast(), item);
  if (covered != param.dims.size()) {
    std::string dims;
    for (const Expr& d : param.dims) dims += (dims.empty() ? "" : ", ") + ToText(d);
    return Report(kIndexCount, e.span, param.name, param.dims.size(), covered)
        .Label(param.at, fmt::format("declared as {}[{}]", Spelling(type(param.value).dtype), dims))
        .Help("write one index for each dim; `:` takes a whole dim");
  }
  size_t d = 0;  // the dim of the tensor
  for (const lang::IndexItem& item : x.items) {
    if (IsZip(program_, module, ast(), item)) {
      TRY_VOID(ZipIndex(*expr(item.value).As<lang::CallExpr>(), item.span, known, &out));
    } else {
      TRY(AccessDim access, ResolveItem(e, item, {param, d, known, writes}, &out));
      out.access.dims.push_back(std::move(access));
    }
    d += DimsOf(program_, module, ast(), item);
  }
  int64_t elements = 1;
  for (int64_t s : out.shape)
    if ((elements *= s) > (int64_t{1} << 24))
      return Report(kTileTooLarge, e.span).Help("load it in parts: `for … in tiles(…)`");
  return out;
}

}  // namespace tilec::frontend
