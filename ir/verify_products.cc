// The verifier's rules for tensor memory: columns, layouts of what threads load and store, operands
// of products that accumulate there.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "ir/matrix_unit.h"
#include "ir/verify_internal.h"

namespace tilec::ir::verify_internal {

bool Verifier::CheckMma(const Op& op, const Scope& scope) {
  const Type& acc = Operand(op, 0);
  const Type& a = Operand(op, 1);
  const Type& b = Operand(op, 2);
  if (!acc.is_tile() || acc.rank() != 2 || Out(op) != acc)
    return Fail(kVerifyType, op,
                fmt::format("the accumulator is {}, the result {}", Show(acc), Show(Out(op))));
  if (b.kind != TypeKind::kSmem || b.rank() != 2 || a.rank() != 2 ||
      (a.kind != TypeKind::kSmem && !a.is_tile()))
    return Fail(kVerifyType, op, fmt::format("operands are {} and {}", Show(a), Show(b)));
  const size_t plain = PlainOperands(op);
  if (op.i("block") != 0 && plain < 5)
    return Fail(kVerifyType, op, "a scaled product has both slots, and the scales behind them");
  if (plain > 6) return Fail(kVerifyType, op, fmt::format("{} operands", plain));
  if ((plain > 3 && !CheckSlot(op, 3)) || (plain > 4 && !CheckSlot(op, 4))) return false;
  if (plain == 6 && (!IsScalar(op, 5, DType::kBool) || op.i("zero")))
    return Fail(kVerifyType, op,
                fmt::format("what adds to the accumulator is {}, zero = {}; a bool, zero = 0",
                            Show(Operand(op, 5)), op.i("zero")));
  const MatrixUnit unit = UnitOf(op);
  if (!Info(unit).lowered)
    return Fail(kVerifyForm, op, fmt::format("no products of unit \"{}\"", op.s("unit")));
  const bool fp8 = (a.dtype == DType::kE4M3 || a.dtype == DType::kE5M2) &&
                   (b.dtype == DType::kE4M3 || b.dtype == DType::kE5M2);
  if ((a.dtype != b.dtype && !fp8) || acc.dtype != Info(a.dtype).accumulator)
    return Fail(
        kVerifyType, op,
        fmt::format("{} · {} into {}", Spelling(a.dtype), Spelling(b.dtype), Spelling(acc.dtype)));
  const std::string& split = op.s("split");
  if (split != "m" && split != "n" && split != "none")
    return Fail(kVerifyForm, op, fmt::format("split is \"{}\"; it is m, n or none", split));
  const int64_t k = op.i("k");
  const int64_t k_begin = op.i("k_begin");
  const int64_t size = ByteSize(a.dtype);
  const int64_t step = Info(unit).depth_bytes;
  if (k < 1 || (k * size) % step != 0 || k_begin < 0 || (k_begin * size) % step != 0)
    return Fail(kVerifyForm, op,
                fmt::format("k = {}, k_begin = {} of {}; multiples of {} bytes", k, k_begin,
                            Spelling(a.dtype), step));
  for (const char* name : {"trans_a", "trans_b", "zero"})
    if (op.i(name) != 0 && op.i(name) != 1)
      return Fail(kVerifyForm, op, fmt::format("{} = {}", name, op.i(name)));
  if ((op.i("trans_a") || op.i("trans_b")) && !MayBeMnMajor(unit, a.dtype))
    return Fail(kVerifyForm, op,
                fmt::format("a transposed operand of {}; {}-bit types only", Spelling(a.dtype),
                            Info(unit).mn_major_bits));
  const int64_t m = acc.shape[0];
  const int64_t n = acc.shape[1];
  const int warpgroups = static_cast<int>(scope.threads / 128);
  if (scope.threads % 128 != 0 || warpgroups < 1)
    return Fail(kVerifyLayout, op, fmt::format("{} threads are no warpgroups", scope.threads));
  const WgSplit how = split == "m" ? WgSplit::kM : split == "n" ? WgSplit::kN : WgSplit::kNone;
  const int64_t beside = WarpsBeside(op, warpgroups, how);
  if (beside == 0)
    return Fail(kVerifyLayout, op,
                fmt::format("{} is not in the accumulator's layout over {} warpgroups", Show(acc),
                            warpgroups));
  if (!CheckMmaScales(op, warpgroups, how, beside)) return false;
  auto fits = [&](const Type& t, bool trans, int64_t outer, const char* which) {
    const int64_t along_k = trans ? t.smem.rows : t.smem.cols;
    const int64_t across = trans ? t.smem.cols : t.smem.rows;
    return (along_k >= k_begin + k && across >= outer) ||
           Fail(kVerifyMemory, op,
                fmt::format("{} is {}: too small for {} x {}", which, Show(t), outer, k_begin + k));
  };
  if (!fits(b, op.i("trans_b") != 0, RoundUp(n, 8), "b")) return false;
  if (a.kind == TypeKind::kSmem) return fits(a, op.i("trans_a") != 0, m, "a");
  const std::optional<Layout> want = LeftInRegisters(unit, a, warpgroups, how);
  if (!want || op.i("trans_a"))
    return Fail(kVerifyType, op, fmt::format("a register operand of {}", Show(a)));
  if (a.shape[0] != m || a.shape[1] < k_begin + k)
    return Fail(kVerifyType, op,
                fmt::format("a is {}: too small for {} x {}", Show(a), m, k_begin + k));
  return SameMapping(fn_.layouts[a.layout], *want) ||
         Fail(kVerifyLayout, op,
              fmt::format("{} is not in the layout of a register operand", Show(a)));
}

// How many warps share the rows of the accumulator side by side; 0: it is in no layout of theirs.
int64_t Verifier::WarpsBeside(const Op& op, int warpgroups, WgSplit split) {
  const Type &acc = Operand(op, 0), &a = Operand(op, 1);
  const int64_t m = acc.shape[0], n = acc.shape[1];
  const MatrixUnit unit = UnitOf(op);
  for (int64_t across : {1, 2, 4}) {
    const bool shares = across > 1;  // rows, among warps side by side
    if (shares && (Info(unit).async_reads || a.kind != TypeKind::kSmem)) return 0;
    const int64_t own = split == WgSplit::kN ? n / warpgroups : n;
    if (shares && (own % (8 * across) != 0 || (split == WgSplit::kN && n % warpgroups != 0)))
      return 0;
    const Layout sums = AccumulatorOf(unit, a.dtype, m, n, warpgroups, split, across);
    if (SameMapping(fn_.layouts[acc.layout], sums)) return across;
    // Of rows of b that come every second one.
    const std::optional<Layout> other = InterleavedColumns(sums);
    if (across == 1 && split != WgSplit::kN && other &&
        SameMapping(fn_.layouts[acc.layout], *other))
      return across;
  }
  return 0;
}

// Scales of a product whose unit has them in registers.
bool Verifier::CheckMmaScales(const Op& op, int warpgroups, WgSplit split, int64_t across) {
  const Type &b = Operand(op, 2), &acc = Operand(op, 0);
  const int64_t block = op.i("block");
  const bool pairs = b.dtype == DType::kE2M1X2;
  if (block == 0)
    return !pairs || Fail(kVerifyType, op, "pairs of numbers are multiplied with scales only");
  const bool floats = IsFloat(b.dtype) && ByteSize(b.dtype) == 1;
  if (!Info(UnitOf(op)).scales || (!floats && !pairs) || op.i("trans_a") || op.i("trans_b"))
    return Fail(kVerifyForm, op,
                fmt::format("scales of {} by unit \"{}\"", Spelling(b.dtype), op.s("unit")));
  const size_t first = PlainOperands(op);
  const int64_t most = CeilDiv((op.i("k_begin") + op.i("k")) * (pairs ? 2 : 1), block);
  for (size_t side : {size_t{0}, size_t{1}}) {
    const Type& tile = Operand(op, first + side);
    const bool known = (block == 32 && tile.dtype == DType::kUE8M0) ||
                       (block == 16 && tile.dtype == DType::kUE4M3 && pairs);
    if (!tile.is_tile() || tile.rank() != 2 || !known)
      return Fail(kVerifyType, op,
                  fmt::format("scales are {}, one for {} of K of {}", Show(tile), block,
                              Spelling(b.dtype)));
    const int64_t rows = tile.shape[side], scales = tile.shape[1 - side];
    if (rows != acc.shape[side] || scales < 1 || scales > most)
      return Fail(kVerifyType, op,
                  fmt::format("scales are {} of an accumulator {}", Show(tile), Show(acc)));
    if (!SameMapping(fn_.layouts[tile.layout],
                     ScalesLayout({side == 0, rows, scales, static_cast<int>(side)}, warpgroups,
                                  split, across)))
      return Fail(kVerifyLayout, op, fmt::format("{} is not in the layout of scales", Show(tile)));
  }
  return true;
}

// Columns [column, column + as many as m × n takes) of tensor memory.
bool Verifier::CheckTensorPlace(const Op& op, int64_t m, int64_t n) {
  const std::optional<MatrixUnit> unit = MatrixUnitNamed(op.s("unit"));
  if (!unit || !InTensorMemory(*unit))
    return Fail(
        kVerifyForm, op,
        fmt::format("no unit \"{}\" that keeps accumulators in tensor memory", op.s("unit")));
  const int64_t column = op.i("column"), end = column + TensorColumns(m, n);
  return (column >= 0 && column % kTensorColumnStep == 0 && end <= kTensorColumns && m > 0 &&
          n > 0 && RoundUp(n, kTensorColumnStep) <= Info(*unit).most_columns) ||
         Fail(kVerifyMemory, op,
              fmt::format("{} x {} in columns {} to {}; multiples of {}, {} in all", m, n, column,
                          end, kTensorColumnStep, kTensorColumns));
}

bool Verifier::CheckTcMma(const Op& op) {
  const Type& a = Operand(op, 1);
  const Type& b = Operand(op, 2);
  if (!IsScalar(op, 0, DType::kI32) || !IsScalar(op, 5, DType::kBool))
    return Fail(kVerifyType, op,
                fmt::format("tensor memory is {}, what adds {}; i32 and bool", Show(Operand(op, 0)),
                            Show(Operand(op, 5))));
  const bool in_tensor = op.i("a_column") >= 0;
  const bool left =
      in_tensor ? IsScalar(op, 1, DType::kI32) : a.kind == TypeKind::kSmem && a.rank() == 2;
  if (!left || b.kind != TypeKind::kSmem || b.rank() != 2)
    return Fail(kVerifyType, op, fmt::format("operands are {} and {}", Show(a), Show(b)));
  if (!CheckSlot(op, 3) || !CheckSlot(op, 4) || !CheckPair(op)) return false;
  const int64_t m = op.i("m"), n = op.i("n"), k = op.i("k"), k_begin = op.i("k_begin");
  const int64_t halves = op.i("pair", 0) ? 2 : 1;  // of the right operand, one in each CTA
  if (halves > 1 && (m % kTensorLanes != 0 || n % (2 * kTensorColumnStep) != 0 || in_tensor ||
                     op.i("block") != 0))
    return Fail(kVerifyForm, op,
                fmt::format("a pair's product of {} x {} a CTA; whole blocks of {} rows, multiples "
                            "of {} columns, both operands in shared memory, no scales",
                            m, n, kTensorLanes, 2 * kTensorColumnStep));
  if (!CheckTensorPlace(op, m, n)) return false;
  const MatrixUnit unit = *MatrixUnitNamed(op.s("unit"));
  if (op.i("block") != 0 || b.dtype == DType::kE2M1X2) {
    const std::string& scale = op.s("scale");
    const bool pairs = b.dtype == DType::kE2M1X2;
    const bool known = (op.i("block") == 32 && scale == "ue8m0") ||
                       (op.i("block") == 16 && scale == "ue4m3" && pairs);
    if (!known || in_tensor || op.i("a_scales") % 4 != 0 || op.i("b_scales") % 4 != 0 ||
        k_begin != 0)
      return Fail(
          kVerifyForm, op,
          fmt::format("{} with a scale \"{}\" for {} of K, in columns {} and {}", Spelling(b.dtype),
                      scale, op.i("block"), op.i("a_scales"), op.i("b_scales")));
  }
  const bool fp8 =
      IsFloat(a.dtype) && ByteSize(a.dtype) == 1 && IsFloat(b.dtype) && ByteSize(b.dtype) == 1;
  if (!in_tensor && a.dtype != b.dtype && !fp8)
    return Fail(kVerifyType, op, fmt::format("{} · {}", Spelling(a.dtype), Spelling(b.dtype)));
  const int64_t size = ByteSize(b.dtype), step = Info(unit).depth_bytes;
  if (k < 1 || k * size % step != 0 || k_begin < 0 || k_begin * size % step != 0)
    return Fail(kVerifyForm, op,
                fmt::format("k = {}, k_begin = {} of {}; multiples of {} bytes", k, k_begin,
                            Spelling(a.dtype), step));
  for (const char* name : {"trans_a", "trans_b"})
    if (op.i(name) != 0 && (op.i(name) != 1 || !MayBeMnMajor(unit, b.dtype)))
      return Fail(kVerifyForm, op,
                  fmt::format("{} = {} of {}", name, op.i(name), Spelling(b.dtype)));
  const auto fits = [&](const Type& t, bool trans, int64_t outer) {
    const int64_t along_k = trans ? t.smem.rows : t.smem.cols;
    const int64_t across = trans ? t.smem.cols : t.smem.rows;
    return (along_k >= k_begin + k && across >= outer) ||
           Fail(kVerifyMemory, op,
                fmt::format("{} is too small for {} x {}", Show(t), outer, k_begin + k));
  };
  if (in_tensor) {
    const int64_t from = op.i("a_column"), end = from + TensorOperandColumns(m, k_begin + k);
    if (8 * size != Info(unit).left_tensor_bits || op.i("trans_a") != 0 || end > kTensorColumns)
      return Fail(kVerifyMemory, op,
                  fmt::format("a left operand {} x {} of {} in columns {} to {} of {}", m, k,
                              Spelling(b.dtype), from, end, kTensorColumns));
    return fits(b, op.i("trans_b") != 0, StagedColumns(unit, b.dtype, n));
  }
  const int64_t rows = op.i("block") != 0 ? std::max(m, kTensorLanes) : m;  // scales: all lanes
  return fits(a, op.i("trans_a") != 0, StagedRows(unit, a.dtype, rows)) &&
         fits(b, op.i("trans_b") != 0, StagedColumns(unit, b.dtype, n / halves));
}

bool Verifier::CheckTmemScales(const Op& op, const Scope& scope) {
  const Type& tile = Operand(op, 0);
  const int64_t rows_dim = op.i("rows");
  if (!tile.is_tile() || tile.rank() != 2 || !IsScale(tile.dtype) ||
      !IsScalar(op, 1, DType::kI32) || (rows_dim != 0 && rows_dim != 1))
    return Fail(kVerifyType, op, fmt::format("scales are {}, rows = {}", Show(tile), rows_dim));
  const int64_t rows = tile.shape[static_cast<size_t>(rows_dim)],
                scales = tile.shape[static_cast<size_t>(1 - rows_dim)];
  const int64_t column = op.i("column"), end = column + TensorScaleColumns(rows, scales);
  if (column < 0 || column % 4 != 0 || end > kTensorColumns)
    return Fail(kVerifyMemory, op,
                fmt::format("scales in columns {} to {} of {}", column, end, kTensorColumns));
  const int warpgroups = static_cast<int>(scope.threads / 128);
  if (scope.threads % 128 != 0 || warpgroups < 1)
    return Fail(kVerifyLayout, op, fmt::format("{} threads are no warpgroups", scope.threads));
  return SameMapping(fn_.layouts[tile.layout],
                     ScalesLayout(rows, scales, static_cast<int>(rows_dim), warpgroups)) ||
         Fail(kVerifyLayout, op, fmt::format("{} is not in the layout of scales", Show(tile)));
}

// A load or a store of an accumulator by threads.
bool Verifier::CheckTensorAccess(const Op& op, const Scope& scope) {
  const bool load = op.kind == OpKind::kTmemLoad;
  const Type& tile = load ? Out(op) : Operand(op, 0);
  const bool half = !load && tile.is_tile() && ByteSize(tile.dtype) == 2;  // a left operand
  if (!tile.is_tile() || tile.rank() != 2 || (!half && ByteSize(tile.dtype) != 4) ||
      !IsScalar(op, load ? 0 : 1, DType::kI32))
    return Fail(kVerifyType, op, fmt::format("the tile is {}", Show(tile)));
  const int64_t n = op.i("n"), first = op.i("first"), width = tile.shape[1];
  if (!CheckTensorPlace(op, tile.shape[0], half ? CeilDiv(n, 2) : n)) return false;
  const std::string& split = op.s("split");
  if (split != "m" && split != "n" && split != "none")
    return Fail(kVerifyForm, op, fmt::format("split is \"{}\"; it is m, n or none", split));
  const int warpgroups = static_cast<int>(scope.threads / 128);
  if (scope.threads % 128 != 0 || warpgroups < 1)
    return Fail(kVerifyLayout, op, fmt::format("{} threads are no warpgroups", scope.threads));
  const WgSplit how = split == "m" ? WgSplit::kM : split == "n" ? WgSplit::kN : WgSplit::kNone;
  const bool slice = first != 0 || width != n;
  if (slice &&
      (half || width < 1 || width % kTensorColumnStep != 0 || first < 0 ||
       first % kTensorColumnStep != 0 || first + width > n / (how == WgSplit::kN ? warpgroups : 1)))
    return Fail(kVerifyForm, op, fmt::format("columns {} to {} of {}", first, first + width, n));
  // Of few rows: in half of the lanes, or, of a product with scales, in all of them.
  bool placed = false;
  for (int64_t rows : {tile.shape[0], std::max(tile.shape[0], kTensorLanes)}) {
    Layout lanes =
        AccumulatorOf(*MatrixUnitNamed(op.s("unit")), tile.dtype, rows, n, warpgroups, how);
    if (slice) lanes = ColumnsLayout(lanes, width);
    placed = placed || SameMapping(fn_.layouts[tile.layout], lanes);
  }
  return placed || Fail(kVerifyLayout, op,
                        fmt::format("{} is not in the layout of lanes as rows over {} warpgroups",
                                    Show(tile), warpgroups));
}

bool Verifier::CheckTmemAlloc(const Op& op) {
  if (!CheckPair(op)) return false;
  const int64_t columns = op.i("columns");
  const bool alloc = op.kind == OpKind::kTmemAlloc;
  const bool typed = alloc ? Out(op) == Type::Scalar(DType::kI32) : IsScalar(op, 0, DType::kI32);
  if (!typed) return Fail(kVerifyType, op, "an address of tensor memory is an i32");
  if (alloc &&
      (op.i("offset") < 0 || op.i("offset") % 4 != 0 || op.i("offset") + 4 > fn_.launch.smem_bytes))
    return Fail(kVerifyMemory, op,
                fmt::format("its address passes through byte {} of {}", op.i("offset"),
                            fn_.launch.smem_bytes));
  return (columns >= kLeastTensorColumns && columns <= kTensorColumns &&
          (columns & (columns - 1)) == 0) ||
         Fail(kVerifyForm, op,
              fmt::format("{} columns; a power of two, {} to {}", columns, kLeastTensorColumns,
                          kTensorColumns));
}

}  // namespace tilec::ir::verify_internal
