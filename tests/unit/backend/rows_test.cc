// Whole rows as one run through shared memory (ir/row_run.h): every element where the layout wants
// it and nothing else written, wherever rows begin, side by side or apart, up to the tensor's end.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/lower/row_runs.h"
#include "ir/row_run.h"
#include "tests/unit/backend/harness.h"
#include "tests/unit/h200.h"

namespace tilec::backend {
namespace {

ValueId Scalar(Kernel& k, const std::string& name) {
  ir::Param p;
  p.kind = ir::ParamKind::kScalar;
  p.name = name;
  return k.fn.AddParam(std::move(p), Type::Scalar(DType::kI64));
}

// The last op becomes a run at byte 0.
void MakeRun(Kernel& k, ir::OpId op) {
  const auto run = ir::RowRunOf(k.fn, k.fn.ops[op]);
  ASSERT_TRUE(run.has_value());
  k.fn.ops[op].set("scratch", int64_t{0});
  const int64_t bytes = ir::RowRunBytes(*run, k.fn.type(k.fn.ops[op].operands[0]).dtype);
  k.fn.launch.smem_bytes = std::max<int32_t>(k.fn.launch.smem_bytes, static_cast<int32_t>(bytes));
}

struct RowsCase {
  DType dtype;
  int64_t rows, columns, tile_rows, tile_columns, first;
  int64_t pitch;  // 0: dense
};

// Rows [first, first + tile_rows) are loaded, whatever is outside is 3, and stored to the same
// place of another tensor, whose other elements stay.
void RoundTrip(const RowsCase& c, const ir::Layout& layout) {
  SCOPED_TRACE(std::string(ir::Spelling(c.dtype)) + " " + std::to_string(c.rows) + "x" +
               std::to_string(c.columns) + " from " + std::to_string(c.first) + " pitch " +
               std::to_string(c.pitch) + " " + ir::ToText(layout));
  Kernel k("rows", static_cast<int>(layout.threads() / 32));
  const int64_t pitch = c.pitch ? c.pitch : c.columns;
  const int64_t count = (c.rows - 1) * pitch + c.columns;
  const std::vector<int64_t> strides =
      c.pitch ? std::vector<int64_t>{pitch, 1} : std::vector<int64_t>{};
  const ValueId a =
      k.In({"A", c.dtype, {c.rows, c.columns}, Random(c.dtype, count, 5), strides}, {"M", ""});
  const ValueId out =
      k.Out({"C", c.dtype, {c.rows, c.columns}, Random(c.dtype, count, 6), strides}, {"M", ""});
  const std::vector<int64_t> shape = {c.tile_rows, c.tile_columns};
  const ValueId seen = k.Out({"T", c.dtype, shape, {}, {}});
  // A multiple of the tile's rows, as positions of a grid are.
  const ValueId x = k.b.Binary(OpKind::kMul, Scalar(k, "x"), k.b.Int(c.tile_rows));
  const ValueId zero = k.b.Int(0), end = k.b.Int(c.columns);
  const ValueId last = k.b.Binary(OpKind::kAdd, x, k.b.Int(c.tile_rows));
  const ValueId tile =
      k.b.Value(OpKind::kGLoad, {a, x, zero, k.b.Constant(Type::Scalar(c.dtype), 3)},
                k.Tile(c.dtype, shape, layout),
                {{"modes", std::string("rr")},
                 {"sizes", shape},
                 {"has_fill", int64_t{1}},
                 {"vector", int64_t{1}}});
  MakeRun(k, k.fn.values[tile].def);
  k.Store(seen, tile);
  MakeRun(k, k.b.Add(OpKind::kGStore, {out, tile, x, last, zero, end}, {},
                     {{"modes", std::string("rr")}, {"sizes", shape}, {"vector", int64_t{1}}}));
  ASSERT_TRUE(k.Run({{"x", c.first / c.tile_rows}}));
  const std::vector<double> from = k.values("A"), before = Random(c.dtype, count, 6);
  std::vector<double> want_seen, want = before;
  for (int64_t r = c.first; r < c.first + c.tile_rows; ++r)
    for (int64_t j = 0; j < c.tile_columns; ++j) {
      const bool inside = r < c.rows && j < c.columns;
      const size_t at = static_cast<size_t>(r * pitch + j);
      want_seen.push_back(inside ? from[at] : 3);
      if (inside) want[at] = from[at];
    }
  ExpectNear(k.values("T"), want_seen, 0, "loaded");
  ExpectNear(k.values("C"), want, 0, "stored");
}

TEST(RowRuns, EveryLayoutAndPlace) {
  SKIP_WITHOUT_DEVICE();
  const RowsCase cases[] = {
      {DType::kBF16, 300, 5, 128, 5, 128, 0},   // in the middle
      {DType::kBF16, 300, 5, 128, 5, 256, 0},   // over the end
      {DType::kF32, 300, 9, 128, 9, 256, 0},    //
      {DType::kI8, 300, 7, 128, 7, 256, 0},     //
      {DType::kBF16, 41, 245, 8, 256, 32, 0},   // columns beyond the rows
      {DType::kF32, 41, 59, 8, 64, 40, 0},      //
      {DType::kBF16, 41, 77, 3, 77, 39, 0},     // begins at no multiple of 16 bytes, one row left
      {DType::kF16, 41, 77, 3, 77, 0, 0},       //
      {DType::kF32, 90, 6, 64, 6, 64, 0},       // vectors of 8 bytes
      {DType::kF32, 90, 12, 64, 12, 64, 0},     // and of 16
      {DType::kBF16, 300, 5, 128, 5, 128, 11},  // apart
      {DType::kF32, 41, 59, 8, 64, 40, 60},     //
      {DType::kBF16, 41, 77, 3, 77, 39, 80},    //
  };
  for (const RowsCase& c : cases) {
    const std::vector<int64_t> shape = {c.tile_rows, c.tile_columns};
    RoundTrip(c, ir::BlockedLayout(shape, 1, 128));
    if (const auto rows = ir::RowsLayout(shape, 128)) RoundTrip(c, *rows);
  }
}

// One row, at a position that may lie outside.
TEST(RowRuns, OneRow) {
  SKIP_WITHOUT_DEVICE();
  const int64_t rows = 5, columns = 1001;
  for (DType d : {DType::kBF16, DType::kF32})
    for (int64_t at : {0, 3, 4, 5}) {
      SCOPED_TRACE(at);
      Kernel k("row");
      const ValueId a =
          k.In({"A", d, {rows, columns}, Random(d, rows * columns, 7), {}}, {"M", ""});
      const ValueId out =
          k.Out({"C", d, {rows, columns}, Random(d, rows * columns, 8), {}}, {"M", ""});
      const ValueId x = Scalar(k, "x"), zero = k.b.Int(0), end = k.b.Int(columns);
      const std::vector<int64_t> sizes = {1, 1024};
      const ValueId tile = k.b.Value(
          OpKind::kGLoad, {a, x, zero}, k.Tile(d, {1024}, ir::BlockedLayout({1024}, 1, 128)),
          {{"modes", std::string("sr")}, {"sizes", sizes}, {"vector", int64_t{1}}});
      MakeRun(k, k.fn.values[tile].def);
      MakeRun(k, k.b.Add(OpKind::kGStore, {out, tile, x, zero, end}, {},
                         {{"modes", std::string("sr")}, {"sizes", sizes}, {"vector", int64_t{1}}}));
      ASSERT_TRUE(k.Run({{"x", at}}));
      std::vector<double> want = Random(d, rows * columns, 8);
      for (int64_t j = 0; at < rows && j < columns; ++j)
        want[static_cast<size_t>(at * columns + j)] =
            k.values("A")[static_cast<size_t>(at * columns + j)];
      ExpectNear(k.values("C"), want, 0, "stored");
    }
}

}  // namespace
}  // namespace tilec::backend
