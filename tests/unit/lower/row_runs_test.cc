// Rows at odd places go as runs, and are laid out for their reductions; others stay as they are.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/lower/row_runs.h"

#include <gtest/gtest.h>

#include "ir/lower/sequential.h"
#include "tests/unit/lower/helper.h"

namespace tilec::ir {
namespace {

// Each row less its largest element; ROWS rows of COLUMNS columns a CTA.
constexpr const char* kReadRows = R"(func @rows tile {
  param tensor %X: tensor<bf16, 2> in [R, COLUMNS] align=16 stride_align=2 contiguous=1
  param tensor %Y: tensor<bf16, 2> out [R, COLUMNS] align=16 stride_align=2 contiguous=1
  param dim %R: i64
  body {
    %0 = constant {value = 0} : i64
    parallel %0, %R {steps = [ROWS]} do (%r: i64) {
      %x = load %X, %r, %0 {modes = "rr", sizes = [ROWS, COLUMNS]} : bf16[ROWS, COLUMNS]
      %m = reduce %x {kind = "max", axis = 1} : bf16[ROWS]
      %mb = broadcast %m {axes = [0]} : bf16[ROWS, COLUMNS]
      %y = sub %x, %mb : bf16[ROWS, COLUMNS]
      %step = constant {value = ROWS} : i64
      %next = add %r, %step : i64
      %end = constant {value = COLUMNS} : i64
      store %Y, %y, %r, %next, %0, %end {modes = "rr", sizes = [ROWS, COLUMNS]}
      yield
    }
  }
}
)";

std::string Rows(int64_t rows, int64_t columns) {
  return With(With(kReadRows, "ROWS", std::to_string(rows)), "COLUMNS", std::to_string(columns));
}

Function RunsLowered(const std::string& text) {
  DiagSink diags;
  SourceMap sources;
  Result<Function> warps = Sequentialize(Parsed(text), H200(), {}, diags);
  EXPECT_TRUE(warps.ok()) << RenderAll(diags, sources);
  if (!warps.ok()) return {};
  ExpectVerified(*warps);
  EXPECT_EQ(Said(*warps), "");
  return std::move(*warps);
}

// Accesses that go as runs.
int Runs(const Function& fn) {
  int runs = 0;
  for (const Op& op : fn.ops)
    runs += (op.kind == OpKind::kGLoad || op.kind == OpKind::kGStore) && op.attr("scratch");
  return runs;
}

// Lanes that share a row.
int64_t Lanes(const Function& fn) {
  int64_t lanes = 1;
  for (const Op& op : fn.ops)
    if (op.kind == OpKind::kGLoad)
      for (const LayoutDigit& d : fn.layout(op.results[0]).thread)
        if (d.dim == 1) lanes *= d.extent;
  return lanes;
}

TEST(RowRuns, ShortRowsAreAThreads) {
  for (const auto& [rows, columns] : {std::pair{512, 5}, {128, 15}, {384, 9}}) {
    const Function fn = RunsLowered(Rows(rows, columns));
    EXPECT_EQ(Runs(fn), 2) << columns;
    EXPECT_EQ(Lanes(fn), 1) << columns;
    for (const Op& op : fn.ops)  // no thread waits for another to reduce
      if (op.kind == OpKind::kWarpReduce) {
        EXPECT_LT(op.i("scratch"), 0);
      }
  }
}

TEST(RowRuns, LongerOnesAreAFewLanes) {
  const Function fn = RunsLowered(Rows(8, 245));
  EXPECT_EQ(Runs(fn), 2);
  EXPECT_EQ(Lanes(fn), 16);
  for (const Op& op : fn.ops)
    if (op.kind == OpKind::kWarpReduce) {
      EXPECT_LT(op.i("scratch"), 0);
    }
}

// Where a row would be several warps', it is laid out for memory, and goes as a run nevertheless.
TEST(RowRuns, LongRows) {
  const Function fn = RunsLowered(Rows(1, 5001));
  EXPECT_EQ(Runs(fn), 2);
}

// A tile of 5120 columns for rows of 5001.
std::string LongRow() {
  return With(With(Rows(1, 5120), "[R, 5120]", "[R, 5001]"), "{value = 5120}", "{value = 5001}");
}

// The only load or store, and elements of it that are accessed together.
const Op& AccessOf(const Function& fn, OpKind kind) {
  const auto op =
      std::find_if(fn.ops.begin(), fn.ops.end(), [&](const Op& one) { return one.kind == kind; });
  EXPECT_NE(op, fn.ops.end());
  return *op;
}

// A row that tiles have room for is laid out as if it began at a multiple of 16 bytes: its vectors
// are made of aligned ones, and it passes through shared memory only where it is stored.
TEST(RowRuns, LongRowsAreShifted) {
  for (const char* align : {"align=16 ", "align=2 "}) {  // of the tensors
    const Function fn = RunsLowered(With(LongRow(), "align=16 ", align));
    const Op &load = AccessOf(fn, OpKind::kGLoad), &store = AccessOf(fn, OpKind::kGStore);
    EXPECT_EQ(load.i("shifted", 0), 1) << align;
    EXPECT_EQ(load.i("vector"), 8) << align;
    EXPECT_EQ(load.attr("scratch"), nullptr) << align;
    EXPECT_EQ(store.i("shifted", 0), 1) << align;
    EXPECT_EQ(store.i("vector"), 8) << align;
    EXPECT_GE(store.i("scratch", -1), 0) << align;
    EXPECT_EQ(store.i("alone", 0), 1) << align;  // nobody else uses those bytes
  }
}

// A row in turns of 2048, twice: its sum, then each element by it and by a weight of its column.
constexpr const char* kTurns = R"(func @turns tile {
  param tensor %X: tensor<bf16, 2> in [R, 50001] align=16 stride_align=2 contiguous=1
  param tensor %V: tensor<f32, 1> in [50001] align=16 stride_align=16 contiguous=1
  param tensor %Y: tensor<bf16, 2> out [R, 50001] align=16 stride_align=2 contiguous=1
  param dim %R: i64
  body {
    %0 = constant {value = 0} : i64
    %1 = constant {value = 1} : i64
    %n = constant {value = 50001} : i64
    %step = constant {value = 2048} : i64
    %none = constant {value = 0} : f32[1]
    parallel %0, %R {steps = [1]} do (%r: i64) {
      %sum = for %0, %n, %none {step = 2048} : f32[1] do (%c: i64, %so: f32[1]) {
        %x = load %X, %r, %c {modes = "rr", sizes = [1, 2048]} : bf16[1, 2048]
        %f = cast %x : f32[1, 2048]
        %s = reduce %f {kind = "sum", axis = 1} : f32[1]
        %more = add %so, %s : f32[1]
        yield %more
      }
      %next = add %r, %1 : i64
      %wide = reshape %sum : f32[1, 1]
      for %0, %n {step = 2048} do (%c2: i64) {
        %x2 = load %X, %r, %c2 {modes = "rr", sizes = [1, 2048]} : bf16[1, 2048]
        %f2 = cast %x2 : f32[1, 2048]
        %all = broadcast %wide {axes = [0, 1]} : f32[1, 2048]
        %m = mul %f2, %all : f32[1, 2048]
        %v = load %V, %c2 {modes = "r", sizes = [2048]} : f32[2048]
        %w = reshape %v : f32[1, 2048]
        %y = mul %m, %w : f32[1, 2048]
        %b = cast %y : bf16[1, 2048]
        %e = add %c2, %step : i64
        %end = min %e, %n : i64
        store %Y, %b, %r, %next, %c2, %end {modes = "rr", sizes = [1, 2048]}
        yield
      }
      yield
    }
  }
}
)";

// Loads and stores that slide, which begin where the row's aligned vectors do.
int Sliding(const std::string& text) {
  const Function fn = RunsLowered(text);
  int slid = 0;
  for (const Op& op : fn.ops) {
    if (op.i("shifted", 0) != 2) continue;
    const size_t behind = op.kind == OpKind::kGStore ? 2 : 1;
    const Op* start = fn.def(op.operands[op.operands.size() - behind]);
    EXPECT_TRUE(start && start->kind == OpKind::kSub);
    EXPECT_EQ(op.attr("scratch"), nullptr);
    ++slid;
  }
  return slid;
}

TEST(RowRuns, RowsInTurnsSlide) {
  EXPECT_EQ(Sliding(kTurns), 4);
  EXPECT_EQ(Sliding(With(kTurns, "50001", "50002")), 4);
  EXPECT_EQ(Sliding(With(kTurns, "50001", "50008")), 0) << "rows are whole vectors";
  EXPECT_EQ(Sliding(With(kTurns, "stride_align=2", "stride_align=16")), 0) << "rows are apart";
  EXPECT_EQ(Sliding(With(kTurns, "align=16 stride_align=2", "align=2 stride_align=2")), 0)
      << "tensors begin anywhere";
  EXPECT_EQ(Sliding(With(kTurns, "%X: tensor<bf16, 2> in ", "%X: tensor<bf16, 2> inout ")), 0);
  EXPECT_EQ(Sliding(With(kTurns, "      %next = add",
                         R"(      %p = load %V, %0 {modes = "r", sizes = [2048]} : f32[2048]
      %q = scan %p {kind = "sum", axis = 0} : f32[2048]
      %next = add)")),
            0)
      << "the order of a row's elements matters";
}

TEST(RowRuns, OthersAreNotShifted) {
  const auto shifted = [](const std::string& text) {
    const Function fn = RunsLowered(text);
    return AccessOf(fn, OpKind::kGLoad).i("shifted", 0) +
           AccessOf(fn, OpKind::kGStore).i("shifted", 0);
  };
  EXPECT_EQ(shifted(With(With(LongRow(), "5001", "5008"), "stride_align=2 contiguous=1",
                         "stride_align=16 contiguous=1 last_align=8")),
            0)
      << "rows are whole vectors";
  EXPECT_EQ(shifted(Rows(1, 5001)), 0) << "tiles are no whole vectors";
  EXPECT_EQ(AccessOf(RunsLowered(Rows(1, 5001)), OpKind::kGStore).i("alone", 0), 0)
      << "load and store pass through the same bytes";
  const std::string words =
      With(With(LongRow(), "bf16", "f32"), "stride_align=2", "stride_align=4");
  EXPECT_EQ(shifted(words), 0) << "rows of 32 bits";
  EXPECT_EQ(shifted(With(words, "stride_align=4", "stride_align=16")), 2) << "that need no shift";
  EXPECT_EQ(shifted(Rows(8, 245)), 0) << "several rows";
  EXPECT_EQ(shifted(With(LongRow(), "contiguous=1", "contiguous=0 strided_any")), 0)
      << "elements of a row are apart";
  EXPECT_EQ(shifted(With(LongRow(), "%X: tensor<bf16, 2> in ", "%X: tensor<bf16, 2> inout ")), 0)
      << "others write what is beside the row, and one side is as the other";
}

TEST(RowRuns, OthersStay) {
  const auto aligned = [](int64_t rows, int64_t columns) {
    return With(Rows(rows, columns), "stride_align=2 contiguous=1",
                "stride_align=16 contiguous=1 last_align=8");
  };
  EXPECT_EQ(Runs(RunsLowered(aligned(64, 64))), 0) << "rows begin at multiples of 16 bytes";
  EXPECT_EQ(Runs(RunsLowered(Rows(1, 101))), 0) << "a request or two";
  EXPECT_EQ(Runs(RunsLowered(Rows(1, 15001))), 0) << "a long row";
  EXPECT_EQ(Runs(RunsLowered(With(Rows(128, 5), "align=16 stride", "align=2 stride"))), 0)
      << "the tensor itself begins anywhere";
  EXPECT_EQ(Runs(RunsLowered(With(Rows(128, 5), "contiguous=1", "contiguous=0 strided_any"))), 0)
      << "elements of a row are apart";
}

TEST(RowsLayout, LeavesNoThreadWithoutARow) {
  const auto lanes = [](int64_t rows, int64_t columns) {
    const auto layout = RowsLayout({rows, columns}, 128);
    if (!layout) return int64_t{0};
    int64_t n = 1;
    for (const LayoutDigit& d : layout->thread) n *= d.dim == 1 ? d.extent : 1;
    EXPECT_EQ(layout->threads(), 128);
    EXPECT_GE(layout->Extent()[0], rows);
    EXPECT_GE(layout->Extent()[1], columns);
    return n;
  };
  EXPECT_EQ(lanes(128, 32), 1);
  EXPECT_EQ(lanes(128, 33), 2);
  EXPECT_EQ(lanes(64, 5), 2);
  EXPECT_EQ(lanes(4, 300), 32);
  EXPECT_EQ(lanes(2, 300), 0);  // two warps a row
}

}  // namespace
}  // namespace tilec::ir
