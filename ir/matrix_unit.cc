// SPDX-License-Identifier: Apache-2.0
#include "ir/matrix_unit.h"

#include <algorithm>
#include <iterator>

#include "ir/function.h"
#include "support/expr.h"

namespace tilec::ir {

namespace {
constexpr MatrixUnitInfo kUnits[] = {
#define UNIT(id, ...) {__VA_ARGS__},
#include "ir/matrix_units.def"
#undef UNIT
};

constexpr int64_t kWarps = 4;         // that multiply 64 rows
constexpr int64_t kPanelBytes = 128;  // of a row, at most
constexpr int64_t kBlockColumns = 8;  // of an accumulator's block

int64_t ColumnStep(const MatrixUnitInfo& unit, DType dtype) {
  return IsInteger(dtype) ? unit.integer_columns : unit.columns;
}
}  // namespace

const MatrixUnitInfo& Info(MatrixUnit unit) { return kUnits[static_cast<size_t>(unit)]; }

std::vector<std::string> MatrixUnitNames() {
  std::vector<std::string> names;
  for (const MatrixUnitInfo& unit : kUnits) names.emplace_back(unit.name);
  return names;
}

std::optional<MatrixUnit> MatrixUnitNamed(std::string_view name) {
  for (size_t i = 0; i < std::size(kUnits); ++i)
    if (name == kUnits[i].name) return static_cast<MatrixUnit>(i);
  return {};
}

MatrixUnit UnitOf(const Op& mma) {
  if (!mma.attr("unit")) return kOfOld;
  return MatrixUnitNamed(mma.s("unit")).value_or(MatrixUnit::kNone);
}

size_t PlainOperands(const Op& mma) {
  constexpr size_t kTiles = 2;
  return mma.operands.size() - (mma.i("block") != 0 ? kTiles : 0);
}

bool FliesFrom(const Op& op) {
  return op.kind == OpKind::kMma && Info(UnitOf(op)).completion != Completion::kAtOnce;
}

Accumulator Place(MatrixUnit unit, const ProductShape& shape, int warpgroups) {
  const MatrixUnitInfo& info = Info(unit);
  const int64_t blocks = CeilDiv(shape.m, info.rows);
  // A warpgroup's columns are whole instructions, and whole panels where B is MN-major.
  const int64_t step = IsInteger(shape.dtype) || shape.mn_major_b || InTensorMemory(unit) ? 16 : 8;
  Accumulator out;
  out.split = blocks % warpgroups == 0             ? WgSplit::kM
              : shape.n % (step * warpgroups) == 0 ? WgSplit::kN
                                                   : WgSplit::kNone;
  out.layout = AccumulatorOf(unit, shape.dtype, shape.m, shape.n, warpgroups, out.split);
  return out;
}

namespace {

// Where a warpgroup reads its lanes as rows: thread t has row t of a block of 128, its registers
// are the columns.
Layout RowsOfLanes(int64_t m, int64_t columns, int warpgroups, WgSplit split) {
  const int64_t blocks = CeilDiv(m, kTensorLanes), parts = warpgroups;
  const int64_t rows = split == WgSplit::kM ? blocks / parts : blocks;
  const int64_t wide = split == WgSplit::kN ? columns / parts : columns;
  Layout out;
  out.rank = 2;
  out.thread.push_back({kTensorLanes, 0, 1});
  if (parts > 1) {
    switch (split) {
      case WgSplit::kM: out.thread.push_back({parts, 0, rows * kTensorLanes}); break;
      case WgSplit::kN: out.thread.push_back({parts, 1, wide}); break;
      case WgSplit::kNone: out.thread.push_back({parts, -1, 0}); break;
    }
  }
  out.reg.push_back({wide, 1, 1});
  if (rows > 1) out.reg.push_back({rows, 0, kTensorLanes});
  return ColumnsLayout(out, columns);  // all of them: in the form that slices have
}

}  // namespace

bool InTensorMemory(MatrixUnit unit) { return Info(unit).completion == Completion::kBarrier; }

int64_t TensorColumns(int64_t m, int64_t n) {
  return CeilDiv(m, kTensorLanes) * RoundUp(n, kTensorColumnStep);
}

int64_t TensorOperandColumns(int64_t m, int64_t k) { return TensorColumns(m, k) / 2; }

namespace {
constexpr int64_t kScalesOfWord = 4;  // a byte each
constexpr int64_t kLanes = 32;        // of a warp's quarter: so many rows lie in a column
}  // namespace

int64_t TensorScaleColumns(int64_t rows, int64_t scales) {
  return RoundUp(rows, kTensorLanes) / kLanes * CeilDiv(scales, kScalesOfWord);
}

Layout ScalesLayout(int64_t rows, int64_t scales, int rows_dim, int warpgroups) {
  Layout out;
  out.rank = 2;
  out.thread = {{kLanes, rows_dim, 1}, {kWarps * warpgroups, -1, 0}};
  out.reg = {{RoundUp(scales, kScalesOfWord), 1 - rows_dim, 1},
             {RoundUp(rows, kTensorLanes) / kLanes, rows_dim, kLanes}};
  return out;
}

int64_t BlocksOfQuad(bool left, int64_t blocks) {
  if (left) return blocks % 2 == 0 ? 2 : 1;
  return blocks % 4 == 0 ? 4 : blocks % 2 == 0 ? 2 : 1;
}

Layout ScalesLayout(const ScalesAtOnce& of, int warpgroups, WgSplit split, int64_t across) {
  constexpr int64_t kBlockRows = 16, kQuad = 4;
  const int dim = of.rows_dim;
  const bool shared = split == (of.left ? WgSplit::kM : WgSplit::kN);  // among warpgroups
  const int64_t parts = shared ? warpgroups : 1;
  Layout out;
  out.rank = 2;
  const auto thread = [&](int64_t size, int d, int64_t stride) {
    if (size > 1) out.thread.push_back({size, d, d < 0 ? 0 : stride});
  };
  out.reg.push_back({RoundUp(of.scales, kScalesOfWord), 1 - dim, 1});
  const auto reg = [&](int64_t size, int64_t stride) {
    if (size > 1) out.reg.push_back({size, dim, stride});
  };
  if (of.left) {
    const int64_t down = kWarps / across, rows = kWarps * kBlockRows;
    const int64_t groups = CeilDiv(of.rows, rows * parts);  // of 64 rows, a warpgroup's
    const bool pairs = BlocksOfQuad(true, groups * across) == 2;
    thread(2, dim, kBlockRows / 2);
    thread(2, pairs ? dim : -1, across > 1 ? kBlockRows : rows);
    thread(kLanes / kQuad, dim, 1);
    thread(down, dim, kBlockRows * across);
    thread(across, -1, 0);
    thread(warpgroups, shared ? dim : -1, rows * groups);
    if (across == 1) {
      reg(pairs ? groups / 2 : groups, pairs ? 2 * rows : rows);
    } else {
      reg(across / 2, 2 * kBlockRows);
      reg(groups, rows);
    }
    return out;
  }
  const int64_t own = RoundUp(of.rows, kBlockColumns) / (parts * across);
  const int64_t quad = BlocksOfQuad(false, own / kBlockColumns);
  thread(quad, dim, kBlockColumns);
  thread(kQuad / quad, -1, 0);
  thread(kLanes / kQuad, dim, 1);
  thread(kWarps / across, -1, 0);
  thread(across, dim, own);
  thread(warpgroups, shared ? dim : -1, own * across);
  reg(own / kBlockColumns / quad, kBlockColumns * quad);
  return out;
}

int64_t BlockOfScale(const Type& operand, const Type& scales) {
  return operand.shape[1] * (operand.dtype == DType::kE2M1X2 ? 2 : 1) / scales.shape[1];
}

const char* NameOf(WgSplit split) {
  switch (split) {
    case WgSplit::kM: return "m";
    case WgSplit::kN: return "n";
    case WgSplit::kNone: break;
  }
  return "none";
}

std::vector<std::pair<int64_t, int64_t>> TensorRuns(const Op& access, const Type& tile,
                                                    int warpgroups) {
  const int64_t bytes = ByteSize(tile.dtype), n = RoundUp(access.i("n"), kTensorColumnStep);
  const int64_t blocks = CeilDiv(tile.shape[0], kTensorLanes);
  const int64_t parts = access.s("split") == "n" ? warpgroups : 1, wide = n / parts;
  const int64_t width = std::min(wide, RoundUp(tile.shape[1], kTensorColumnStep));
  std::vector<std::pair<int64_t, int64_t>> runs;
  for (int64_t part = 0; part < blocks * parts; ++part) {
    const int64_t begin = access.i("column") + (part * wide + access.i("first")) * bytes / 4;
    const int64_t end = begin + width * bytes / 4;
    if (!runs.empty() && runs.back().second == begin)
      runs.back().second = end;
    else
      runs.emplace_back(begin, end);
  }
  return runs;
}

std::optional<WgSplit> SplitOfLanes(MatrixUnit unit, const Type& tile, const Layout& layout,
                                    int warpgroups) {
  if (!InTensorMemory(unit) || tile.rank() != 2) return {};
  const int64_t m = tile.shape[0], n = RoundUp(tile.shape[1], kTensorColumnStep);
  const auto fits = [&](WgSplit split) {
    if (split == WgSplit::kM && CeilDiv(m, kTensorLanes) % warpgroups != 0) return false;
    if (split == WgSplit::kN && n % (kTensorColumnStep * warpgroups) != 0) return false;
    return layout == AccumulatorOf(unit, tile.dtype, m, n, warpgroups, split);
  };
  for (WgSplit split : {WgSplit::kM, WgSplit::kN, WgSplit::kNone})
    if (fits(split)) return split;
  return {};
}

Layout AccumulatorOf(MatrixUnit unit, DType dtype, int64_t m, int64_t n, int warpgroups,
                     WgSplit split, int64_t across) {
  // Of 64 rows or fewer every warp has 16, which lie in half of its lanes: all its threads share
  // their columns (shape 16x256b), as on the units whose warpgroups multiply 64 rows.
  if (InTensorMemory(unit) && m > kTensorLanes / 2)
    return RowsOfLanes(m, RoundUp(n, kTensorColumnStep), warpgroups, split);
  if (InTensorMemory(unit))
    return AccumulatorLayout(m, RoundUp(n, kTensorColumnStep), warpgroups, split);
  return AccumulatorLayout(m, RoundUp(n, ColumnStep(Info(unit), dtype)), warpgroups, split, across);
}

int64_t WarpsAcross(MatrixUnit unit, const ProductShape& shape, int warpgroups, WgSplit split) {
  if (Info(unit).async_reads || Info(unit).completion != Completion::kAtOnce) return 1;
  const int64_t cols = RoundUp(shape.n, ColumnStep(Info(unit), shape.dtype));
  if (split == WgSplit::kN && cols % warpgroups != 0) return 1;
  const int64_t own = split == WgSplit::kN ? cols / warpgroups : cols;
  const int64_t blocks = CeilDiv(shape.m, Info(unit).rows);
  const int64_t rows =
      Info(unit).rows * (split == WgSplit::kM ? CeilDiv(blocks, warpgroups) : blocks);
  int64_t best = 1;
  // Rows and columns that a warp reads for a step of K; a pair of blocks of 8 columns is one load.
  const auto reads = [&](int64_t across) { return rows * across / kWarps + own / across; };
  // A part of B's columns is whole panels where B is MN-major.
  const int64_t step = shape.mn_major_b ? kPanelBytes / ByteSize(shape.dtype) : 2 * kBlockColumns;
  for (int64_t across : {2, 4})
    if (own % (step * across) == 0 && reads(across) < reads(best)) best = across;
  return best;
}

int64_t StagedRows(MatrixUnit unit, DType, int64_t m) {
  const bool half = InTensorMemory(unit) && m <= kTensorLanes / 2;
  return RoundUp(m, half ? kTensorLanes / 2 : Info(unit).rows);
}

int64_t StagedColumns(MatrixUnit unit, DType dtype, int64_t n) {
  return RoundUp(n, ColumnStep(Info(unit), dtype));
}

int64_t StagedDepth(MatrixUnit unit, DType dtype, int64_t k) {
  return RoundUp(k, Info(unit).depth_bytes / ByteSize(dtype));
}

bool MayBeMnMajor(MatrixUnit unit, DType dtype) {
  return 8 * ByteSize(dtype) == Info(unit).mn_major_bits;
}

std::optional<Layout> LeftInRegisters(MatrixUnit unit, const Type& tile, int warpgroups,
                                      WgSplit split) {
  const int64_t bytes = ByteSize(tile.dtype);
  if (8 * bytes > Info(unit).left_register_bits ||
      tile.shape[1] % (Info(unit).depth_bytes / bytes) != 0)
    return {};
  const Layout sums = AccumulatorLayout(tile.shape[0], tile.shape[1], warpgroups,
                                        split == WgSplit::kN ? WgSplit::kNone : split);
  return bytes == 1 ? FoursOf(sums) : sums;
}

}  // namespace tilec::ir
