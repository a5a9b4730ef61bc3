// Tiles of rows that slide (`shifted` = 2 of gload and gstore, ir/lower/slides.h): every place
// holds the column that it stands for, wherever the row begins and ends and however far rows are
// apart; what is stored is where it belongs and nothing else is written; and, as the emulator says,
// nothing is read outside of the tensor, whose memory ends with its last element.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/lower/slides.h"
#include "tests/unit/backend/harness.h"

namespace tilec::backend {
namespace {

ValueId SlidPosition(Kernel& k, const std::string& name) {
  ir::Param p;
  p.kind = ir::ParamKind::kScalar;
  p.name = name;
  return k.fn.AddParam(std::move(p), Type::Scalar(DType::kI64));
}

struct SlidCase {
  DType dtype;
  int64_t rows, columns;
  int64_t row, start;    // the tile's
  int64_t tile, vector;  // elements
  bool known = true;     // is the start a number that the compiler knows?
  int64_t pitch = 0;     // 0: dense
  int64_t end = 0;       // of what is stored; 0: the row's
};

// A piece of a row is loaded, whatever is outside is 3, and stored to the same place of another
// tensor; a piece of a vector of as many elements is loaded beside it.
void SlidThereAndBack(const SlidCase& c) {
  SCOPED_TRACE(std::string(ir::Spelling(c.dtype)) + " " + std::to_string(c.rows) + "x" +
               std::to_string(c.columns) + " row " + std::to_string(c.row) + " from " +
               std::to_string(c.start) + (c.known ? "" : "?") + " pitch " +
               std::to_string(c.pitch) + " end " + std::to_string(c.end));
  Kernel k("slid");
  const int64_t pitch = c.pitch ? c.pitch : c.columns;
  const int64_t count = (c.rows - 1) * pitch + c.columns;
  const std::vector<int64_t> strides =
      c.pitch ? std::vector<int64_t>{pitch, 1} : std::vector<int64_t>{};
  const ValueId a =
      k.In({"A", c.dtype, {c.rows, c.columns}, Random(c.dtype, count, 5), strides}, {"M", ""});
  const ValueId v = k.In({"V", DType::kF32, {c.columns}, Random(DType::kF32, c.columns, 7), {}});
  const std::vector<double> before = Random(c.dtype, count, 6);
  const ValueId out = k.Out({"C", c.dtype, {c.rows, c.columns}, before, strides}, {"M", ""});
  const ValueId seen = k.Out({"T", c.dtype, {c.tile}, {}, {}});
  const ValueId beside = k.Out({"U", DType::kF32, {c.tile}, {}, {}});
  const ValueId row = SlidPosition(k, "row");
  const ValueId begin = c.known ? k.b.Int(c.start) : SlidPosition(k, "start");
  const ValueId off =
      k.b.Binary(ir::OpKind::kAnd, k.b.Binary(ir::OpKind::kMul, row, k.b.Int(c.columns)),
                 k.b.Int(ir::kSlide - 1));
  const ValueId start = k.b.Binary(ir::OpKind::kSub, begin, off);
  const std::vector<int64_t> sizes = {1, c.tile};
  const int64_t end = c.end ? c.end : c.columns;
  const ir::Layout layout = ir::BlockedLayout({c.tile}, c.vector, 128);
  const ValueId tile =
      k.b.Value(ir::OpKind::kGLoad, {a, row, start, k.b.Constant(Type::Scalar(c.dtype), 3)},
                k.Tile(c.dtype, {c.tile}, layout),
                {{"modes", std::string("sr")},
                 {"sizes", sizes},
                 {"has_fill", int64_t{1}},
                 {"vector", c.vector},
                 {"shifted", int64_t{2}}});
  const ValueId shared =
      k.b.Value(ir::OpKind::kGLoad, {v, start}, k.Tile(DType::kF32, {c.tile}, layout),
                {{"modes", std::string("r")},
                 {"sizes", std::vector<int64_t>{c.tile}},
                 {"has_fill", int64_t{0}},
                 {"vector", std::min<int64_t>(c.vector, 4)},
                 {"shifted", int64_t{2}}});
  k.Store(seen, tile);
  k.Store(beside, shared);
  k.b.Add(ir::OpKind::kGStore, {out, tile, row, start, k.b.Int(end)}, {},
          {{"modes", std::string("sr")},
           {"sizes", sizes},
           {"vector", c.vector},
           {"shifted", int64_t{2}}});
  Bindings scalars = {{"row", c.row}};
  if (!c.known) scalars["start"] = c.start;
  ASSERT_TRUE(k.Run(scalars));
  const std::vector<double> from = k.values("A"), vector = k.values("V");
  std::vector<double> want_seen, want_beside, want = before;
  const int64_t slides = c.row * c.columns % ir::kSlide;
  for (int64_t p = 0; p < c.tile; ++p) {
    const int64_t j = c.start - slides + p + (p < slides ? c.tile : 0);
    const bool inside = c.row < c.rows && j < c.columns;
    const size_t at = static_cast<size_t>(c.row * pitch + j);
    want_seen.push_back(inside ? from[at] : 3);
    want_beside.push_back(j < c.columns ? vector[static_cast<size_t>(j)] : 0);
    if (inside && j < end) want[at] = from[at];
  }
  ExpectNear(k.values("T"), want_seen, 0, "loaded");
  ExpectNear(k.values("U"), want_beside, 0, "loaded beside it");
  ExpectNear(k.values("C"), want, 0, "stored");
}

TEST(Slid, EveryPlaceOfARow) {
  SKIP_WITHOUT_DEVICE();
  for (int64_t row : {0, 1, 2, 3, 4, 5, 6, 7, 8}) {  // the last one is no row
    for (int64_t columns : {1009, 1021, 1022})
      SlidThereAndBack({DType::kBF16, 8, columns, row, 0, 1024, row % 2 ? 8 : 4});
    SlidThereAndBack({DType::kF32, 8, 1021, row, 0, 1024, 4});
    SlidThereAndBack({DType::kF16, 8, 1001, row, 0, 1024, 8, false});
  }
}

TEST(Slid, PiecesOfRows) {
  SKIP_WITHOUT_DEVICE();
  for (bool known : {true, false})
    for (int64_t start : {0, 1024, 2048})
      for (int64_t columns : {3079, 2049, 2055, 2057})
        for (int64_t row : {0, 1, 6})
          SlidThereAndBack({DType::kBF16, 7, columns, row, start, 1024, 8, known});
}

TEST(Slid, RowsApartShortAndCut) {
  SKIP_WITHOUT_DEVICE();
  for (int64_t row : {0, 1, 2, 5}) {
    SlidThereAndBack({DType::kBF16, 6, 1001, row, 0, 1024, 8, true, 1003});
    SlidThereAndBack({DType::kBF16, 6, 3001, row, 1024, 1024, 8, false, 3008});
    SlidThereAndBack({DType::kF32, 6, 1001, row, 0, 1024, 4, true, 1004});
    SlidThereAndBack({DType::kBF16, 6, 3001, row, 1024, 1024, 8, false, 0, 2048});
    SlidThereAndBack({DType::kBF16, 6, 3001, row, 1024, 1024, 8, true, 0, 2043});
    for (int64_t columns : {1, 2, 3, 7, 9, 17})  // no whole vector, or one, or two
      for (bool known : {true, false})
        SlidThereAndBack({DType::kBF16, 6, columns, row, 0, 1024, 8, known});
  }
}

}  // namespace
}  // namespace tilec::backend
