// Rows that begin at any element (`shifted` of gload and gstore): every element where it belongs,
// wherever the row begins and ends, nothing else written, and, as the emulator says, nothing read
// outside of the tensor, whose memory ends with its last element.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/row_run.h"
#include "tests/unit/backend/harness.h"

namespace tilec::backend {
namespace {

ValueId Position(Kernel& k, const std::string& name) {
  ir::Param p;
  p.kind = ir::ParamKind::kScalar;
  p.name = name;
  return k.fn.AddParam(std::move(p), Type::Scalar(DType::kI64));
}

struct ShiftedCase {
  DType dtype;
  int64_t rows, columns;
  int64_t row, start;    // the tile's
  int64_t tile, vector;  // elements
  int64_t begin = 0;     // of the tensor, elements behind a multiple of 16 bytes
  bool known = true;     // is the start a number that the compiler knows?
  int64_t pitch = 0;     // 0: dense
};

// A piece of a row is loaded, whatever is outside is 3, and stored to the same place of another
// tensor, whose other elements stay.
void ThereAndBack(const ShiftedCase& c) {
  SCOPED_TRACE(std::string(ir::Spelling(c.dtype)) + " " + std::to_string(c.rows) + "x" +
               std::to_string(c.columns) + " row " + std::to_string(c.row) + " from " +
               std::to_string(c.start) + (c.known ? "" : "?") + " begin " +
               std::to_string(c.begin) + " pitch " + std::to_string(c.pitch));
  Kernel k("shifted");
  const int64_t pitch = c.pitch ? c.pitch : c.columns, size = ir::ByteSize(c.dtype);
  const int64_t count = (c.rows - 1) * pitch + c.columns;
  const std::vector<int64_t> strides =
      c.pitch ? std::vector<int64_t>{pitch, 1} : std::vector<int64_t>{};
  const ValueId a = k.In(
      {"A", c.dtype, {c.rows, c.columns}, Random(c.dtype, count, 5), strides, c.begin}, {"M", ""});
  const std::vector<double> before = Random(c.dtype, count, 6);
  const ValueId out =
      k.Out({"C", c.dtype, {c.rows, c.columns}, before, strides, c.begin}, {"M", ""});
  if (c.begin)
    for (ir::Param& p : k.fn.params) p.facts.base_align_bytes = size;
  const ValueId seen = k.Out({"T", c.dtype, {c.tile}, {}, {}});
  const ValueId row = Position(k, "row"), start = c.known ? k.b.Int(c.start) : Position(k, "start");
  const std::vector<int64_t> sizes = {1, c.tile};
  const ir::Layout layout = ir::BlockedLayout({c.tile}, c.vector, 128);
  // What is stored begins at no less than 0; of a load that is asked.
  const ValueId x = c.known ? start : k.b.Binary(OpKind::kMax, start, k.b.Int(0));
  const ValueId tile =
      k.b.Value(OpKind::kGLoad, {a, row, start, k.b.Constant(Type::Scalar(c.dtype), 3)},
                k.Tile(c.dtype, {c.tile}, layout),
                {{"modes", std::string("sr")},
                 {"sizes", sizes},
                 {"has_fill", int64_t{1}},
                 {"vector", c.vector},
                 {"shifted", int64_t{1}}});
  k.Store(seen, tile);
  const ir::OpId store = k.b.Add(OpKind::kGStore, {out, tile, row, x, k.b.Int(c.columns)}, {},
                                 {{"modes", std::string("sr")},
                                  {"sizes", sizes},
                                  {"vector", c.vector},
                                  {"scratch", int64_t{0}},
                                  {"shifted", int64_t{1}}});
  k.fn.launch.smem_bytes = static_cast<int32_t>(ir::ScratchBytesOf(k.fn, k.fn.ops[store]));
  ASSERT_GT(k.fn.launch.smem_bytes, 0);
  Bindings scalars = {{"row", c.row}};
  if (!c.known) scalars["start"] = c.start;
  ASSERT_TRUE(k.Run(scalars));
  // Vectors, and elements only where a row ends or may be cut.
  EXPECT_NE(k.image().ptx.find(c.vector * size == 4   ? "ld.global.b32"
                               : c.vector * size == 8 ? "ld.global.v2.b32"
                                                      : "ld.global.v4.b32"),
            std::string::npos);
  const std::vector<double> from = k.values("A");
  std::vector<double> want_seen, want = before;
  for (int64_t j = c.start; j < c.start + c.tile; ++j) {
    const bool inside = c.row < c.rows && j < c.columns;
    const size_t at = static_cast<size_t>(c.row * pitch + j);
    want_seen.push_back(inside ? from[at] : 3);
    if (inside) want[at] = from[at];
  }
  ExpectNear(k.values("T"), want_seen, 0, "loaded");
  ExpectNear(k.values("C"), want, 0, "stored");
}

TEST(Shifted, EveryPlaceOfARow) {
  SKIP_WITHOUT_DEVICE();
  for (int64_t columns = 1017; columns <= 1024; ++columns)
    for (int64_t row : {0, 1, 2, 3, 4, 5, 6, 7}) {
      const int64_t odd = columns | 1;
      ThereAndBack({DType::kBF16, 8, odd, row, 0, 1024, row % 2 ? 8 : 4});
      if (row % 3 == 0) ThereAndBack({DType::kF16, 9, columns, row, 0, 1024, 8});
    }
}

TEST(Shifted, DTypes) {
  SKIP_WITHOUT_DEVICE();
  for (int64_t row : {0, 1, 2, 3, 4}) {
    ThereAndBack({DType::kF32, 5, 1021, row, 0, 1024, 4});
    ThereAndBack({DType::kI32, 5, 511, row, 0, 512, 2});
    ThereAndBack({DType::kE4M3, 5, 2047, row, 0, 2048, 16});
    ThereAndBack({DType::kU8, 5, 1023, row, 0, 1024, 8});
    ThereAndBack({DType::kI8, 5, 1023, row, 0, 1024, 4});
    ThereAndBack({DType::kBF16, 5, 509, row, 0, 512, 2});
  }
}

TEST(Shifted, PiecesOfRows) {
  SKIP_WITHOUT_DEVICE();
  for (bool known : {true, false})
    for (int64_t start : {0, 1024, 2048, 3072, 3073})
      for (int64_t row : {0, 1, 2, 3})
        ThereAndBack({DType::kBF16, 3, 3087, row, start, 1024, 8, 0, known});
  ThereAndBack({DType::kBF16, 3, 1033, 2, 0, 1024, 8, 0, false});  // a vector behind the tile
}

TEST(Shifted, TensorsThatBeginAnywhere) {
  SKIP_WITHOUT_DEVICE();
  for (int64_t begin = 1; begin < 8; ++begin)
    for (int64_t row : {0, 2}) {
      ThereAndBack({DType::kBF16, 3, 1021, row, 0, 1024, 8, begin});
      ThereAndBack({DType::kBF16, 3, 1024, row, 0, 1024, 4, begin});  // rows are whole vectors
      ThereAndBack({DType::kBF16, 3, 2999, row, 1024, 1024, 8, begin, false});
    }
  ThereAndBack({DType::kE4M3, 2, 1024, 0, 0, 1024, 8, 3});
}

TEST(Shifted, RowsApartAndShort) {
  SKIP_WITHOUT_DEVICE();
  for (int64_t row : {0, 1, 2}) {
    ThereAndBack({DType::kBF16, 3, 1001, row, 0, 1024, 8, 0, true, 1003});
    for (int64_t columns : {1, 2, 3, 7, 9, 17}) {  // no whole vector, or one, or two
      ThereAndBack({DType::kBF16, 3, columns, row, 0, 1024, 8});
      ThereAndBack({DType::kE4M3, 3, columns, row, 0, 1024, 8});
    }
  }
}

}  // namespace
}  // namespace tilec::backend
