// Products of blocks with scales, and the pairs of four-bit numbers that go with them.
//
//     dot_scaled(a[M, K], sa[M, K / n], b[K, N], sb[K / n, N])
//
// SPDX-License-Identifier: Apache-2.0
#include "frontend/lower.h"
#include "ir/e2m1.h"

namespace tilec::frontend {

using lang::ExprId;

Result<Val> Lowerer::ScaledDot(const lang::Expr& e, const lang::CallExpr& x, const Val* acc) {
  TRY(const std::vector<ExprId> args,
      Positional(x, 4, 4, "two tiles, each with its scales: `dot_scaled(a, sa, b, sb)`"));
  std::vector<Val> v;
  static constexpr const char* kWords[] = {"the left operand", "the left operand's scales",
                                           "the right operand", "the right operand's scales"};
  for (size_t i = 0; i < args.size(); ++i) {
    TRY(const Val tile, TileOrScalar(args[i]));
    if (!tile.is_value() || type(tile.v).rank() != 2) {
      DiagBuilder report = Report(kDotRank, e.span, kWords[i], DescribeVal(tile));
      LabelOrigin(report, args[i], tile);
      return report;
    }
    v.push_back(tile);
  }
  const Type a = type(v[0].v), sa = type(v[1].v), b = type(v[2].v), sb = type(v[3].v);
  const auto all = [&](DiagBuilder report) {
    for (size_t i = 0; i < args.size(); ++i) LabelOrigin(report, args[i], v[i]);
    return report;
  };
  const auto fp8 = [](DType d) { return d == DType::kE4M3 || d == DType::kE5M2; };
  const bool pairs = a.dtype == DType::kE2M1X2;
  if (pairs ? b.dtype != DType::kE2M1X2 : !fp8(a.dtype) || !fp8(b.dtype))
    return all(Report(kScaledTypes, e.span,
                      fmt::format("{} and {}", Spelling(a.dtype), Spelling(b.dtype)),
                      fmt::format("{} and {}", Spelling(sa.dtype), Spelling(sb.dtype))));
  if (!ir::IsScale(sa.dtype) || sa.dtype != sb.dtype || (!pairs && sa.dtype != DType::kUE8M0)) {
    DiagBuilder report = all(
        Report(kScaledTypes, e.span, fmt::format("{} and {}", Spelling(a.dtype), Spelling(b.dtype)),
               fmt::format("{} and {}", Spelling(sa.dtype), Spelling(sb.dtype))));
    if (sa.dtype == DType::kU8 || sb.dtype == DType::kU8)
      report.Help("declare the scales as ue8m0 (or ue4m3): u8 buffers may be passed for them");
    return report;
  }
  if (a.shape[1] != b.shape[0]) {
    DiagBuilder report = all(Report(kDotInner, e.span, a.shape[1], b.shape[0]));
    if (a.shape[1] == b.shape[1])
      report.Help(fmt::format("write `{}.T`", program_.TextOf(v[2].at)));
    return report;
  }
  const int64_t block = sa.dtype == DType::kUE8M0 ? 32 : 16;
  const int64_t k = a.shape[1] * (pairs ? 2 : 1);
  if (k % block != 0) return all(Report(kScaledDepth, e.span, k, block));
  const std::vector<int64_t> left = {a.shape[0], k / block}, right = {k / block, b.shape[1]};
  for (const auto& [words, have, want] :
       {std::tuple(kWords[0], sa, left), std::tuple(kWords[2], sb, right)}) {
    if (have.shape == want) continue;
    DiagBuilder report = all(
        Report(kScaledShape, e.span, words, ToText(have), ToText(Type::Tile(have.dtype, want))));
    if (have.shape == std::vector<int64_t>{want[1], want[0]}) report.Help("turn them by `.T`");
    return report;
  }
  return AddProduct({v[0].v, v[2].v}, {v[1].v, v[3].v}, acc, {}, e.span);
}

// pack_e2m1(low, high): what two tiles of numbers are nearest to.
Result<Val> Lowerer::PackPair(const lang::Expr& e, const lang::CallExpr& x) {
  TRY(const std::vector<ExprId> args, Positional(x, 2, 2, "the even numbers and the odd ones"));
  TRY(const Val low, TileOrScalar(args[0]));
  TRY(const Val high, TileOrScalar(args[1]));
  if (low.is_const() && high.is_const())
    return Report(kArgKind, e.span, "`pack_e2m1` needs a tile");
  TRY(const std::vector<ValueId> ops, Unify({low, high}, "pack_e2m1", e.span, false));
  const Type t = type(ops[0]);
  const Val& shown = low.is_value() ? low : high;
  TRY_VOID(WantArithmetic(t.dtype, "pack_e2m1", shown, e.span));
  if (!ir::IsFloat(t.dtype))
    return Report(kOperandDType, e.span, "pack_e2m1", DescribeVal(shown)).Help("write `as f32`");
  b_.SetSpan(e.span);
  std::vector<ValueId> codes;
  for (ValueId v : ops)
    codes.push_back(ir::EncodeE2M1(b_, t.dtype == DType::kF32 ? v : b_.Cast(v, DType::kF32)));
  const Type words = Type::Tile(DType::kI32, t.shape);
  const ValueId upper = b_.Binary(OpKind::kShl, codes[1], b_.Constant(words, 4));
  const ValueId bytes = b_.Cast(b_.Binary(OpKind::kOr, codes[0], upper), DType::kU8);
  const ValueId r = Emit(e.span, OpKind::kBitcast, {bytes}, Type::Tile(DType::kE2M1X2, t.shape));
  facts(r).dims = facts(ops[0]).dims;
  return Value(r, e.span);
}

// low_e2m1(x), high_e2m1(x): one number of each pair, as f32.
Result<Val> Lowerer::HalfOfPair(const lang::Expr& e, const lang::CallExpr& x, bool high) {
  TRY(const std::vector<ExprId> args, Positional(x, 1, 1, "a tile of e2m1x2"));
  TRY(const Val pair, TileOrScalar(args[0]));
  if (!pair.is_value() || type(pair.v).dtype != DType::kE2M1X2)
    return Report(kOperandDType, e.span, x.callee.text, DescribeVal(pair))
        .Help("it takes pairs: e2m1x2");
  const std::vector<int64_t> shape = type(pair.v).shape;
  b_.SetSpan(e.span);
  const ValueId bytes = b_.Value(OpKind::kBitcast, {pair.v}, Type::Tile(DType::kU8, shape));
  ValueId codes = b_.Cast(bytes, DType::kI32);
  if (high) codes = b_.Binary(OpKind::kShr, codes, b_.Constant(Type::Tile(DType::kI32, shape), 4));
  const ValueId r = ir::DecodeE2M1(b_, codes);
  facts(r).dims = facts(pair.v).dims;
  return Value(r, e.span);
}

}  // namespace tilec::frontend
