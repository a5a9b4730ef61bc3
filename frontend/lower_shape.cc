// Elements at other places: slices of tiles, reshape, flip, join, split; and what is built of them,
// reductions and scans by a function of the user's.
//
// A reduction by f pairs neighbours, so that f need not be commutative: n elements become ⌈n/2⌉,
// log n times. A scan combines each element with the one 1, 2, 4, … positions before it.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontend/lower.h"

namespace tilec::frontend {

using lang::ExprId;

namespace {

std::vector<int64_t> Strides(const Shape& shape) {
  std::vector<int64_t> out(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;) out[d - 1] = out[d] * shape[d];
  return out;
}

int64_t Elements(const Shape& shape) {
  int64_t n = 1;
  for (int64_t s : shape) n *= s;
  return n;
}

}  // namespace

ValueId Lowerer::Rearrange(Span at, ValueId v, const Shape& shape, int64_t first,
                           const std::vector<int64_t>& strides) {
  const Type t = type(v);
  const ValueId r = Emit(at, OpKind::kRearrange, {v}, Type::Tile(t.dtype, shape),
                         {{"first", first}, {"strides", strides}});
  facts(r).position = facts(v).position;
  return r;
}

ValueId Lowerer::Reshaped(Span at, ValueId v, const Shape& shape) {
  return type(v).shape == shape ? v : Rearrange(at, v, shape, 0, Strides(shape));
}

ValueId Lowerer::Positions(Span at, const Shape& shape, int64_t axis) {
  const ValueId iota = Emit(at, OpKind::kIota, {IntValue(at, 0)},
                            Type::Tile(DType::kI32, {shape[static_cast<size_t>(axis)]}));
  facts(iota).position = true;
  if (shape.size() == 1) return iota;
  const ValueId r = Emit(at, OpKind::kBroadcast, {iota}, Type::Tile(DType::kI32, shape),
                         {{"axes", std::vector<int64_t>{axis}}});
  facts(r).position = true;
  return r;
}

Result<Val> Lowerer::Iota(const lang::Expr& e, const lang::CallExpr& x) {
  TRY(const std::vector<ExprId> args, Positional(x, 1, 1, "a length"));
  TRY(const int64_t n, StaticInt(args[0], "the length of `iota`"));
  if (n < 1 || n > kMaxTileElements)
    return Report(kExtentRange, expr(args[0]).span, "the length of `iota`", n);
  const ValueId r = Positions(e.span, {n}, 0);
  facts(r).dims = {expr(args[0]).As<lang::IntExpr>() ? "" : program_.TextOf(expr(args[0]).span)};
  return Value(r, e.span);
}

Result<Val> Lowerer::Reshape(const lang::Expr& e, const lang::CallExpr& x) {
  TRY(const std::vector<ExprId> args, Positional(x, 2, 9, "a tile and its new extents"));
  TRY(const Val tile, TileOrScalar(args[0]));
  const Shape from = ShapeOf(tile);
  if (from.empty())
    return Report(kArgKind, tile.at, "`reshape` needs a tile")
        .Label(tile.at, fmt::format("this is {}", DescribeVal(tile)));
  Shape shape;
  std::vector<std::string> names;
  for (size_t i = 1; i < args.size(); ++i) {
    TRY(const int64_t n, StaticInt(args[i], "an extent of `reshape`"));
    if (n < 1 || n > kMaxTileElements)
      return Report(kExtentRange, expr(args[i]).span, "this extent", n);
    shape.push_back(n);
    names.push_back(expr(args[i]).As<lang::IntExpr>() ? "" : program_.TextOf(expr(args[i]).span));
  }
  int64_t count = 1;
  for (int64_t n : shape) count = count > kMaxTileElements ? count : count * n;
  if (count != Elements(from))
    return Report(kArgKind, e.span,
                  fmt::format("`reshape` keeps the number of elements: {} here, {} there",
                              Elements(from), count))
        .Label(tile.at, fmt::format("this is {}", DescribeVal(tile)));
  if (shape == from) return tile;
  const ValueId r = Reshaped(e.span, tile.v, shape);
  facts(r).dims = names;
  return Value(r, e.span);
}

Result<Val> Lowerer::Flip(const lang::Expr& e, const lang::CallExpr& x) {
  TRY(const std::vector<ExprId> args, Positional(x, 1, 1, "one tile and `axis = i`", {"axis"}));
  TRY(const Val tile, TileOrScalar(args[0]));
  const Shape shape = ShapeOf(tile);
  if (shape.empty()) return Report(kArgKind, tile.at, "`flip` needs a tile");
  TRY(const int64_t axis, Axis(x, tile, e.span));
  std::vector<int64_t> strides = Strides(shape);
  const auto a = static_cast<size_t>(axis);
  const int64_t first = (shape[a] - 1) * strides[a];
  strides[a] = -strides[a];
  const std::vector<std::string> dims = facts(tile.v).dims;
  const ValueId r = Rearrange(e.span, tile.v, shape, first, strides);
  facts(r).dims = dims;
  return Value(r, e.span);
}

// Each part lies at its place in a tile of the whole shape; there it is chosen by position.
Result<Val> Lowerer::JoinTiles(const lang::Expr& e, const lang::CallExpr& x) {
  TRY(const std::vector<ExprId> args, Positional(x, 2, 16, "two tiles and `axis = i`", {"axis"}));
  std::vector<Val> parts;
  for (ExprId id : args) {
    TRY(Val v, TileOrScalar(id));
    if (ShapeOf(v).empty())
      return Report(kArgKind, v.at, "`join` needs tiles")
          .Label(v.at, fmt::format("this is {}", DescribeVal(v)))
          .Help("a scalar has no dim along which it could be joined: `full_like(x, v)` repeats it");
    parts.push_back(std::move(v));
  }
  TRY(const int64_t axis, Axis(x, parts[0], e.span));
  const auto a = static_cast<size_t>(axis);
  const Type t = type(parts[0].v);
  Shape shape = t.shape;
  shape[a] = 0;
  for (const Val& part : parts) {
    Shape other = ShapeOf(part);
    if (other.size() == shape.size()) shape[a] += other[a];
    Shape here = shape;
    if (other.size() == shape.size()) other[a] = here[a];
    if (other != here || type(part.v).dtype != t.dtype)
      return Report(kArgKind, part.at,
                    fmt::format("`join` takes tiles that differ along axis {} only", axis))
          .Label(parts[0].at, fmt::format("this is {}", DescribeVal(parts[0])))
          .Label(part.at, fmt::format("this is {}", DescribeVal(part)));
  }
  if (Elements(shape) > kMaxTileElements) return Report(kTileTooLarge, e.span);
  const ValueId position = Positions(e.span, shape, axis);
  ValueId r;
  int64_t begin = 0;
  for (const Val& part : parts) {
    const Shape own = ShapeOf(part);
    const std::vector<int64_t> strides = Strides(own);
    const ValueId there = Rearrange(e.span, part.v, shape, -begin * strides[a], strides);
    if (r.valid()) {
      const ValueId edge =
          Broadcast(e.span, ConstantValue(e.span, Constant{begin}, DType::kI32), shape);
      const ValueId before = Emit(e.span, OpKind::kCmp, {position, edge},
                                  Type::Tile(DType::kBool, shape), {{"pred", std::string("lt")}});
      r = Emit(e.span, OpKind::kSelect, {before, r, there}, Type::Tile(t.dtype, shape));
    } else {
      r = there;
    }
    begin += own[a];
  }
  return Value(r, e.span);
}

Result<std::vector<Val>> Lowerer::Split(const lang::Expr& e, const lang::CallExpr& x,
                                        size_t parts) {
  TRY(const std::vector<ExprId> args, Positional(x, 1, 1, "one tile and `axis = i`", {"axis"}));
  TRY(const Val tile, TileOrScalar(args[0]));
  Shape shape = ShapeOf(tile);
  if (shape.empty()) return Report(kArgKind, tile.at, "`split` needs a tile");
  TRY(const int64_t axis, Axis(x, tile, e.span));
  const auto a = static_cast<size_t>(axis), n = parts;
  if (shape[a] % static_cast<int64_t>(n) != 0)
    return Report(
               kArgKind, e.span,
               fmt::format("`split` makes equal parts: {} along axis {} are not {} times as many",
                           shape[a], axis, n))
        .Label(tile.at, fmt::format("this is {}", DescribeVal(tile)))
        .Help("take unequal ones by slices: `x[:, 0..48]`");
  const std::vector<int64_t> strides = Strides(shape);
  shape[a] /= static_cast<int64_t>(n);
  std::vector<Val> out;
  for (size_t i = 0; i < n; ++i)
    out.push_back(Value(
        Rearrange(e.span, tile.v, shape, static_cast<int64_t>(i) * shape[a] * strides[a], strides),
        e.span));
  return out;
}

// One position of a dim by a number that is known when the kernel runs: all others become 0.
Result<Val> Lowerer::Pick(Span at, const Val& tile, size_t dim, const Val& index) {
  const Type t = type(tile.v);
  const auto axis = static_cast<int64_t>(dim);
  const ValueId position = Positions(at, t.shape, axis);
  const ValueId wanted = Emit(at, OpKind::kCast, {ToIndex(at, index)}, Type::Scalar(DType::kI32));
  const ValueId here = Emit(at, OpKind::kCmp, {position, Broadcast(at, wanted, t.shape)},
                            Type::Tile(DType::kBool, t.shape), {{"pred", std::string("eq")}});
  Shape shape = t.shape;
  shape.erase(shape.begin() + axis);
  const bool logic = t.dtype == DType::kBool;
  const ValueId only =
      logic
          ? Emit(at, OpKind::kAnd, {here, tile.v}, t)
          : Emit(at, OpKind::kSelect,
                 {here, tile.v, ConstantValue(at, Constant{int64_t{0}, t.dtype}, t.dtype, t.shape)},
                 t);
  const ValueId r = Emit(at, OpKind::kReduce, {only}, Type::Tile(t.dtype, shape),
                         {{"kind", std::string(logic ? "any" : "sum")}, {"axis", axis}});
  return Value(r, at);
}

// ---- By a function of the user's ---------------------------------------------------------------

Result<Lowerer::Combination> Lowerer::CombinationOf(const lang::Expr& e, const lang::CallExpr& x,
                                                    const char* name) {
  TRY(const std::vector<ExprId> args,
      Positional(x, 1, 8, "tiles, `axis = i` and `combine = f`", {"axis", "combine"}));
  const ExprId combine = NamedArg(x, "combine");
  const auto* f_name = combine.valid() ? expr(combine).As<lang::NameExpr>() : nullptr;
  const ItemRef* found = f_name ? program_.Find(frames_.back().module, f_name->name) : nullptr;
  const auto* f = found ? program_.item(*found).As<lang::FnItem>() : nullptr;
  if (!f) {
    const Span at = combine.valid() ? expr(combine).span : e.span;
    return Report(kCombineForm, at, fmt::format("`{}` needs `combine = f`, the name of a fn", name))
        .Help("write `fn f(a: f32, b: f32) -> f32 { return a + b }` and `combine = f`");
  }
  std::vector<Val> tiles;
  for (ExprId id : args) {
    TRY(Val v, TileOrScalar(id));
    if (ShapeOf(v).empty())
      return Report(kArgKind, v.at, fmt::format("`{}` needs tiles; this is a scalar", name));
    if (!tiles.empty() && ShapeOf(v) != ShapeOf(tiles[0]))
      return Report(kCombineForm, v.at, fmt::format("the tiles of `{}` have one shape", name))
          .Label(tiles[0].at, fmt::format("this is {}", DescribeVal(tiles[0])))
          .Label(v.at, fmt::format("this is {}", DescribeVal(v)));
    tiles.push_back(std::move(v));
  }
  const size_t k = tiles.size();
  bool scalars = f->params.size() == 2 * k && f->result && f->more_results.size() + 1 == k;
  for (const lang::Param& p : f->params) scalars &= !p.type.has_dims() && !p.is_const;
  if (!scalars)
    return Report(kCombineForm, expr(combine).span,
                  fmt::format("`{}` combines {} by a fn of {} scalars that returns {}", name,
                              k == 1 ? "one tile" : fmt::format("{} tiles", k), 2 * k,
                              k == 1 ? "one" : fmt::format("{} of them", k)))
        .Label(f->name.span, "declared here");
  return Combination{std::move(tiles), *found, f};
}

Result<std::vector<Val>> Lowerer::Combine(const lang::Expr& e, const lang::CallExpr& x, bool scan) {
  TRY(const Combination given, CombinationOf(e, x, scan ? "scan" : "reduce"));
  const std::vector<Val>& tiles = given.tiles;
  const size_t k = tiles.size();
  TRY(const int64_t axis, Axis(x, tiles[0], e.span));
  const auto a = static_cast<size_t>(axis);
  Shape shape = ShapeOf(tiles[0]);
  // f(a…, b…), element by element
  const auto both = [&](const std::vector<ValueId>& first,
                        const std::vector<ValueId>& second) -> Result<std::vector<ValueId>> {
    std::vector<Val> operands;
    for (size_t i = 0; i < k; ++i) operands.push_back(Value(first[i], tiles[i].at));
    for (size_t i = 0; i < k; ++i) operands.push_back(Value(second[i], tiles[i].at));
    lang::CallExpr call;
    call.callee = given.fn->name;
    const Shape here = type(first[0]).shape;
    TRY(const std::vector<Val> values,
        Inlined(e.span, call, given.item, std::move(operands), true));
    std::vector<ValueId> out;
    for (size_t i = 0; i < values.size(); ++i) {
      const Type want = Type::Tile(type(first[i]).dtype, here);
      TRY(const ValueId v,
          Convert(values[i], want, {}, fmt::format("result {} of `{}`", i + 1, given.fn->name.text),
                  given.fn->name.span, e.span));
      out.push_back(v);
    }
    return out;
  };
  const auto chosen = [&](ValueId condition, const std::vector<ValueId>& yes,
                          const std::vector<ValueId>& no) {
    std::vector<ValueId> out;
    for (size_t i = 0; i < yes.size(); ++i)
      out.push_back(Emit(e.span, OpKind::kSelect, {condition, yes[i], no[i]}, type(yes[i])));
    return out;
  };
  const auto at_least = [&](const Shape& of, int64_t n) {
    const ValueId edge = Broadcast(e.span, ConstantValue(e.span, Constant{n}, DType::kI32), of);
    return Emit(e.span, OpKind::kCmp, {Positions(e.span, of, axis), edge},
                Type::Tile(DType::kBool, of), {{"pred", std::string("ge")}});
  };
  const auto moved = [&](const std::vector<ValueId>& from, const Shape& to, int64_t first,
                         int64_t step) {
    std::vector<ValueId> out;
    std::vector<int64_t> strides = Strides(shape);
    const int64_t one = strides[a];
    strides[a] *= step;
    for (ValueId v : from) out.push_back(Rearrange(e.span, v, to, first * one, strides));
    return out;
  };
  std::vector<ValueId> now;
  for (const Val& tile : tiles) now.push_back(tile.v);
  std::vector<std::string> dims = facts(now[0]).dims;
  if (scan) {
    for (int64_t d = 1; d < shape[a]; d *= 2) {
      TRY(const std::vector<ValueId> next, both(moved(now, shape, -d, 1), now));
      now = chosen(at_least(shape, d), next, now);
    }
  } else {
    while (shape[a] > 1) {
      Shape half = shape;
      half[a] = (shape[a] + 1) / 2;
      const std::vector<ValueId> even = moved(now, half, 0, 2), odd = moved(now, half, 1, 2);
      TRY(now, both(even, odd));
      if (shape[a] % 2 != 0) now = chosen(at_least(half, half[a] - 1), even, now);
      shape = half;
    }
    shape.erase(shape.begin() + axis);
    if (axis < static_cast<int64_t>(dims.size())) dims.erase(dims.begin() + axis);
    for (ValueId& v : now)
      v = Emit(e.span, OpKind::kReshape, {v}, Type::Tile(type(v).dtype, shape));
  }
  std::vector<Val> out;
  for (ValueId v : now) {
    facts(v).dims = dims;
    out.push_back(Value(v, e.span));
  }
  return out;
}

Result<std::optional<std::vector<Val>>> Lowerer::SeveralOf(const lang::Expr& e,
                                                           const lang::CallExpr& x, size_t wanted) {
  const std::string& name = x.callee.text;
  std::optional<std::vector<Val>> out;
  if (name == "split") {
    TRY(out, Split(e, x, wanted));
  } else if (name == "reduce" || name == "scan") {
    TRY(out, Combine(e, x, name == "scan"));
  }
  return out;
}

}  // namespace tilec::frontend
