// keep-rows: rows that loops read again are loaded once, whatever is not known to be safe stays as
// it is, and every program keeps every bit.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ir/count_work.h"
#include "ir/lower/sequential.h"
#include "ir/passes/passes.h"
#include "ir/text.h"
#include "tests/unit/lower/helper.h"

namespace tilec::ir {
namespace {

// Rows less their means: 12 chunks of 256, 3000 columns, tiles of 8 rows; %S stores row sums.
constexpr const char* kRows = R"(func @rows tile {
  param tensor %X: tensor<f32, 2> in [R, 3000] align=16 stride_align=16 contiguous=1 last_align=4
  param tensor %I: tensor<i32, 1> in [R] align=16 stride_align=16 contiguous=1 last_align=4
  param tensor %Y: tensor<f32, 2> out [R, 3000] align=16 stride_align=16 contiguous=1 last_align=4
  param tensor %S: tensor<f32, 1> out [R] align=16 stride_align=16 contiguous=1 last_align=4
  param tensor %W: tensor<f32, 2> inout [R, R] align=16 stride_align=16 contiguous=1 last_align=4
  param dim %R: i64
  body {
    %0 = constant {value = 0} : i64
    %c8 = constant {value = 8} : i64
    %c256 = constant {value = 256} : i64
    %end = constant {value = 3000} : i64
    parallel %0, %R {steps = [8]} do (%r: i64) {
      %zero = constant {value = 0.0} : f32[8]
      %next = add %r, %c8 : i64
      %stop = min %next, %R : i64
      %at = load %I, %r {modes = "r", sizes = [8]} : i32[8]
      %sum = for %0, %end, %zero {step = 256} : f32[8] do (%c: i64, %s: f32[8]) {
        %x = load %X, %r, %c {modes = "rr", sizes = [8, 256]} : f32[8, 256]
        %part = reduce %x {kind = "sum", axis = 1} : f32[8]
        %both = add %s, %part : f32[8]
        yield %both
      }
      store %S, %sum, %r, %stop {modes = "r", sizes = [8]}
      %n = constant {value = 3000.0} : f32[8]
      %mean = div %sum, %n : f32[8]
      for %0, %end {step = 256} do (%d: i64) {
        %z = load %X, %r, %d {modes = "rr", sizes = [8, 256]} : f32[8, 256]
        %mb = broadcast %mean {axes = [0]} : f32[8, 256]
        %y = sub %z, %mb : f32[8, 256]
        %e = add %d, %c256 : i64
        %f = min %e, %end : i64
        store %Y, %y, %r, %stop, %d, %f {modes = "rr", sizes = [8, 256]}
        yield
      }
      yield
    }
  }
}
)";

// The same rows, gathered.
std::string Gathered(std::string text) {
  for (const char* column : {"%c", "%d"})
    text = With(text, std::string("load %X, %r, ") + column + " {modes = \"rr\"",
                std::string("load %X, %at, ") + column + " {modes = \"gr\"");
  return text;
}

Function Keep(const Function& before, int changes) {
  Function after = before;
  DiagSink diags;
  PassContext cx{diags, H200(), 0};
  EXPECT_TRUE(KeepRows(after, cx).ok());
  EXPECT_EQ(cx.changes, changes);
  EXPECT_EQ(diags.all().size(), static_cast<size_t>(changes));  // and says so
  ExpectVerified(after);
  return after;
}

// How many loads of X have the mark `kept` (at least `from`); without it: −1 counts all.
int64_t Marked(const Function& fn, int64_t from) {
  int64_t n = 0;
  for (OpId id : OpsInOrder(fn)) {
    const Op& op = fn.ops[id];
    n += op.kind == OpKind::kLoad && op.attr("kept") && op.i("kept") >= from;
  }
  return n;
}
int64_t LoadsOfX(const Function& fn) {
  int64_t n = 0;
  for (OpId id : OpsInOrder(fn))
    n += fn.ops[id].kind == OpKind::kLoad && fn.param(fn.ops[id].operands[0])->name == "X";
  return n;
}
int64_t Step(const Function& fn) {
  for (OpId id : OpsInOrder(fn))
    if (fn.ops[id].kind == OpKind::kParallel) return fn.ops[id].ints("steps")[0];
  return 0;
}

void ExpectSame(const Function& before, const Function& after, int64_t rows, int64_t columns) {
  std::vector<std::vector<double>> outputs;
  for (const Function* fn : {&before, &after}) {
    InterpretInputs in;
    in.tensors["X"] = TensorValue::Random(DType::kF32, {rows, columns}, 7);
    in.tensors["I"] = TensorValue::Zeros(DType::kI32, {rows});
    for (size_t i = 0; i < static_cast<size_t>(rows); ++i)  // also where no row is
      in.tensors["I"].v[i] = static_cast<double>(static_cast<int64_t>((7 * i + 5) % 23) - 2);
    in.tensors["Y"] = TensorValue::Zeros(DType::kF32, {rows, columns});
    in.tensors["S"] = TensorValue::Zeros(DType::kF32, {rows});
    in.tensors["W"] = TensorValue::Zeros(DType::kF32, {rows, rows});
    in.dims = {{"R", rows}};
    DiagSink diags;
    EXPECT_TRUE(Interpret(*fn, in, {}, diags).ok());
    outputs.push_back(in.tensors["Y"].v);
    outputs.push_back(in.tensors["S"].v);
  }
  EXPECT_NE(outputs[0][0], 0);
  EXPECT_EQ(outputs[0], outputs[2]);
  EXPECT_EQ(outputs[1], outputs[3]);
}

// 12 KB a row: four of eight rows are within 54 KB. 12 chunks, loaded twice, the second time
// "again".
TEST(KeepRows, RowsStayInSharedMemoryAndEveryBitIsKept) {
  const Function before = Parsed(kRows);
  const Function after = Keep(before, 1);
  EXPECT_EQ(Step(after), 4);
  EXPECT_EQ(Count(after, OpKind::kFor), 0);
  EXPECT_EQ(LoadsOfX(after), 24);
  EXPECT_EQ(Marked(after, 0), 24);
  EXPECT_EQ(Marked(after, 1), 12);
  ExpectSame(before, after, 21, 3000);
}

// 256 columns a row in chunks of 128 are 2048 elements of eight rows, 16 a thread.
TEST(KeepRows, SmallRowsStayInRegisters) {
  std::string text = With(kRows, "3000", "252");
  text = With(text, "constant {value = 256}", "constant {value = 128}");
  text = With(text, "{step = 256}", "{step = 128}");
  const Function before = Parsed(With(text, "8, 256]", "8, 128]"));
  const Function after = Keep(before, 1);
  EXPECT_EQ(Step(after), 8);
  EXPECT_EQ(Count(after, OpKind::kFor), 0);
  EXPECT_EQ(LoadsOfX(after), 2);
  EXPECT_EQ(Marked(after, 0), 0);
  ExpectSame(before, after, 21, 252);
}

// The copy engine cannot gather; a single row it can bring from wherever it is.
// Columns that two loops walk down: the turn's range is not the last one.
TEST(KeepRows, ColumnsAreKeptToo) {
  std::string text = With(kRows, "[R, 3000] align", "[3000, R] align");
  for (const char* column : {"%c", "%d"})
    text = With(
        text,
        std::string("load %X, %r, ") + column + " {modes = \"rr\", sizes = [8, 256]} : f32[8, 256]",
        std::string("load %X, ") + column +
            ", %r {modes = \"rr\", sizes = [256, 8]} : f32[256, 8]");
  text = With(text, "axis = 1", "axis = 0");
  text = With(text, "broadcast %mean {axes = [0]} : f32[8, 256]",
              "broadcast %mean {axes = [1]} : f32[256, 8]");
  text = With(text, "sub %z, %mb : f32[8, 256]", "sub %z, %mb : f32[256, 8]");
  text = With(text, "store %Y, %y, %r, %stop, %d, %f {modes = \"rr\", sizes = [8, 256]}",
              "store %Y, %y, %d, %f, %r, %stop {modes = \"rr\", sizes = [256, 8]}");
  const Function before = Parsed(With(text, "3000", "1000"));
  const Function after = Keep(before, 1);
  EXPECT_EQ(Count(after, OpKind::kFor), 0);
  EXPECT_EQ(LoadsOfX(after), Marked(after, 0) == 0 ? 4 : 8);
  InterpretInputs in;
  in.tensors["X"] = Numbers(DType::kF32, {1000, 21}, 3);
  in.tensors["I"] = TensorValue::Zeros(DType::kI32, {21});
  in.tensors["Y"] = TensorValue::Zeros(DType::kF32, {1000, 21});
  in.tensors["S"] = TensorValue::Zeros(DType::kF32, {21});
  in.tensors["W"] = TensorValue::Zeros(DType::kF32, {21, 21});
  in.dims = {{"R", 21}};
  InterpretInputs again = in;
  EXPECT_EQ(Interpreted(before, std::move(in), "Y"), Interpreted(after, std::move(again), "Y"));
}

TEST(KeepRows, OneGatheredRowIsARange) {
  const Function before = Parsed(Gathered(With(kRows, "3000", "6000")));
  const Function after = Keep(before, 1);
  EXPECT_EQ(Step(after), 1);
  EXPECT_EQ(Marked(after, 0), 48);
  for (OpId id : OpsInOrder(after))
    if (after.ops[id].attr("kept")) {
      EXPECT_EQ(after.ops[id].s("modes"), "rr");
    }
  ExpectSame(before, after, 21, 6000);
}

// A row that no engine brings (pitches of 4 bytes) is put there by the threads that read it again:
// six chunks of one row. Gathered rows of such a tensor come from memory again, and so does a row in
// more chunks.
TEST(KeepRows, RowsAtOddPlacesAreKeptByThreads) {
  std::string odd = With(With(kRows, "3000", "12200"), "stride_align=16", "stride_align=4");
  const Function many = Parsed(odd);
  Keep(many, 0);
  odd = With(With(odd, "constant {value = 256}", "constant {value = 2048}"), "8, 256]", "8, 2048]");
  odd = With(odd, "step = 256", "step = 2048");
  const Function before = Parsed(odd);
  const Function after = Keep(before, 1);
  EXPECT_EQ(Step(after), 1);
  EXPECT_EQ(Marked(after, 0), 12);
  EXPECT_EQ(Marked(after, 1), 6);
  ExpectSame(before, after, 21, 12200);
  Keep(Parsed(Gathered(odd)), 0);
}

// Shorter ones are held: 3072 elements by 128 threads.
TEST(KeepRows, GatheredRowsMayBeHeld) {
  const Function before = Parsed(Gathered(kRows));
  const Function after = Keep(before, 1);
  EXPECT_EQ(Step(after), 1);
  EXPECT_EQ(LoadsOfX(after), 12);
  EXPECT_EQ(Marked(after, 0), 0);
  ExpectSame(before, after, 21, 3000);
}

// Kept tiles are counted as read once, and share the buffers that TMA fills together.
TEST(KeepRows, WhatIsKeptIsReadOnce) {
  const Function before = Parsed(kRows), after = Keep(before, 1);
  const Bindings names = {{"R", 32}};
  const double rows = 32.0 * 3000 * 4;
  EXPECT_EQ(
      CountWork(before, names, H200()).loaded_bytes - CountWork(after, names, H200()).loaded_bytes,
      rows);
  DiagSink diags;
  SourceMap sources;
  Result<Function> warps = Sequentialize(after, H200(), {}, diags);
  ASSERT_TRUE(warps.ok()) << RenderAll(diags, sources);
  ASSERT_TRUE(Verify(*warps, diags).ok()) << RenderAll(diags, sources);
  EXPECT_EQ(Count(*warps, OpKind::kSmemAlloc), 12);
  EXPECT_EQ(Count(*warps, OpKind::kSmemLoad), 24);
  EXPECT_EQ(Count(*warps, OpKind::kMbarExpect), 1);
  EXPECT_EQ(Count(*warps, OpKind::kMbarWait), 1);
  EXPECT_GE(warps->launch.ctas_per_sm, 2);
  // A chunk comes into registers where it is read: in front of each reduction there is one more.
  int64_t loads = 0, reductions = 0;
  for (OpId id : OpsInOrder(*warps)) {
    loads += warps->ops[id].kind == OpKind::kSmemLoad;
    if (warps->ops[id].kind != OpKind::kWarpReduce) continue;
    EXPECT_EQ(loads, ++reductions);
  }
  EXPECT_EQ(reductions, 12);
}

// ---- what must stay as it is -----------------------------------------------------------------

TEST(KeepRows, RowsThatAreTooLongStay) {
  Keep(Parsed(With(kRows, "3000", "10000")), 0);    // 40 chunks
  std::string text = With(kRows, "3000", "30000");  // 30 chunks, 120 KB
  text = With(text, "constant {value = 256}", "constant {value = 1024}");
  text = With(text, "{step = 256}", "{step = 1024}");
  Keep(Parsed(With(text, "8, 256]", "8, 1024]")), 0);
}

// Buffers begin at multiples of 1024: 32 chunks of four rows of 96 columns would take 64 KB.
TEST(KeepRows, BuffersAreCountedAsTheyArePlaced) {
  std::string text = With(kRows, "constant {value = 256}", "constant {value = 96}");
  text = With(text, "{step = 256}", "{step = 96}");
  const Function before = Parsed(With(text, "8, 256]", "8, 96]"));
  const Function after = Keep(before, 1);
  EXPECT_EQ(Step(after), 2);
  EXPECT_EQ(Marked(after, 0), 64);
  ExpectSame(before, after, 21, 3000);
}

// The second and the third time are two: what is read again is not held from one to the other.
TEST(KeepRows, EveryLoopReadsForItself) {
  const char* third =
      R"(      %last = for %0, %end, %zero {step = 256} : f32[8] do (%k: i64, %t: f32[8]) {
        %v = load %X, %r, %k {modes = "rr", sizes = [8, 256]} : f32[8, 256]
        %most = reduce %v {kind = "max", axis = 1} : f32[8]
        %u = max %t, %most : f32[8]
        yield %u
      }
      store %S, %last, %r, %stop {modes = "r", sizes = [8]}
      %n = constant)";
  const Function before = Parsed(With(kRows, "      %n = constant", third));
  Function after = Keep(before, 1);
  DiagSink diags;
  PassContext cx{diags, H200(), 0};
  EXPECT_TRUE(Canonicalize(after, cx).ok());
  EXPECT_TRUE(Cse(after, cx).ok());
  EXPECT_EQ(Marked(after, 0), 36);
  EXPECT_EQ(Marked(after, 2), 12);
  ExpectSame(before, after, 21, 3000);
}

TEST(KeepRows, RowsOfUnknownLengthStay) {
  std::string text = With(kRows, "[R, 3000]", "[R, C]");
  text = With(text, "  param dim %R: i64", "  param dim %R: i64\n  param dim %C: i64");
  text = With(text, "for %0, %end", "for %0, %C");
  Keep(Parsed(text), 0);
}

TEST(KeepRows, WhatTheKernelWritesIsReadAgain) {
  Keep(Parsed(With(kRows, "%X: tensor<f32, 2> in", "%X: tensor<f32, 2> inout")), 0);
}

TEST(KeepRows, LoopsThatReadOtherRowsStay) {
  Keep(Parsed(With(kRows, "load %X, %r, %d", "load %X, %stop, %d")), 0);
}

// Beyond the last column 0 is not −0.
TEST(KeepRows, LoopsWithOtherFillsStay) {
  const auto filled = [](const char* first, const char* second) {
    std::string text =
        With(kRows, "      %zero = ",
             std::string("      %fill = constant {value = ") + first +
                 "} : f32\n      %other = constant {value = " + second + "} : f32\n      %zero = ");
    text = With(text, "load %X, %r, %c {modes = \"rr\", sizes = [8, 256]}",
                "load %X, %r, %c, %fill {modes = \"rr\", sizes = [8, 256], has_fill = 1}");
    return With(text, "load %X, %r, %d {modes = \"rr\", sizes = [8, 256]}",
                "load %X, %r, %d, %other {modes = \"rr\", sizes = [8, 256], has_fill = 1}");
  };
  Keep(Parsed(filled("0.0", "0.0")), 1);
  Keep(Parsed(filled("0.0", "-0.0")), 0);
}

TEST(KeepRows, RowsThatChangeFromTurnToTurnStay) {
  std::string text = Gathered(With(kRows, "3000", "6000"));
  for (const char* column : {"%c", "%d"}) {
    const std::string at = std::string(column) + "at", wide = std::string(column) + "wide";
    text = With(text, std::string("load %X, %at, ") + column, "load %X, " + at + ", " + column);
    const std::string name = column == std::string("%c") ? "        %x = " : "        %z = ";
    text = With(text, name,
                "        " + std::string(column) + "low = cast " + column + " : i32\n        " +
                    wide + " = broadcast " + column + "low {axes = []} : i32[8]\n        " + at +
                    " = add %at, " + wide + " : i32[8]\n" + name);
  }
  Keep(Parsed(text), 0);
}

TEST(KeepRows, LoopsOfOtherLengthsStay) {
  Keep(Parsed(With(kRows, "for %0, %end {", "for %c256, %end {")), 0);
}

TEST(KeepRows, PinnedLoopsStay) {
  Keep(Parsed(With(kRows, "sizes = [8, 256]} : f32[8, 256]\n        %part",
                   "sizes = [8, 256], pin_depth = 3} : f32[8, 256]\n        %part")),
       0);
}

// Where rows are not independent, the grid's step is the author's: 96 KB, two CTAs.
TEST(KeepRows, DependentRowsAreNotDivided) {
  // Row numbers, sums of all rows, positions for other purposes, other ends of a tile.
  const std::pair<const char*, const char*> changes[] = {
      {"      %mean = div %sum, %n : f32[8]\n",
       "      %numbers = iota %r : i32[8]\n      %floats = cast %numbers : f32[8]\n"
       "      %mean = div %sum, %floats : f32[8]\n"},
      {"      %mean = div %sum, %n : f32[8]\n",
       "      %all = reduce %sum {kind = \"sum\", axis = 0} : f32\n"
       "      %alls = broadcast %all {axes = []} : f32[8]\n      %mean = div %alls, %n : f32[8]\n"},
      {"      %mean = div %sum, %n : f32[8]\n",
       "      %number = cast %r : f32\n      %numbers = broadcast %number {axes = []} : f32[8]\n"
       "      %mean = div %sum, %numbers : f32[8]\n"},
      {"      %next = add %r, %c8 : i64\n",
       "      %c3 = constant {value = 3} : i64\n      %next = add %r, %c3 : i64\n"},
      {"store %S, %sum, %r, %stop {modes = \"r\"", "store %S, %sum, %at {modes = \"g\""},
      // Numbers in the tile, rows that start elsewhere, a tensor that is read and written.
      {"      %mean = div %sum, %n : f32[8]\n",
       "      %numbers = iota %0 : i32[8]\n      %floats = cast %numbers : f32[8]\n"
       "      %mean = div %sum, %floats : f32[8]\n"},
      {"      %mean = div %sum, %n : f32[8]\n",
       "      %first = load %I, %0 {modes = \"r\", sizes = [8]} : i32[8]\n"
       "      %floats = cast %first : f32[8]\n      %mean = div %sum, %floats : f32[8]\n"},
      {"      %mean = div %sum, %n : f32[8]\n",
       "      %old = load %W, %r, %0 {modes = \"rr\", sizes = [8, 1]} : f32[8, 1]\n"
       "      store %W, %old, %r, %stop, %0, %c8 {modes = \"rr\", sizes = [8, 1]}\n"
       "      %mean = div %sum, %n : f32[8]\n"},
      // Rows of one tensor, then columns of it.
      {"      %mean = div %sum, %n : f32[8]\n",
       "      %down = reshape %sum : f32[8, 1]\n      %across = reshape %sum : f32[1, 8]\n"
       "      store %W, %down, %r, %stop, %0, %c8 {modes = \"rr\", sizes = [8, 1]}\n"
       "      store %W, %across, %0, %c8, %r, %stop {modes = \"rr\", sizes = [1, 8]}\n"
       "      %mean = div %sum, %n : f32[8]\n"},
  };
  for (const auto& [from, to] : changes) {
    const Function after = Keep(Parsed(With(kRows, from, to)), 1);
    EXPECT_EQ(Step(after), 8) << to;
    EXPECT_EQ(Marked(after, 1), 12) << to;
  }
}

// Rows that all CTAs read are not divided with those that are written: 96 KB, two CTAs.
TEST(KeepRows, RowsOfAllCtasAreNotDivided) {
  std::string text = With(kRows, "load %X, %r, %c", "load %X, %0, %c");
  text = With(text, "load %X, %r, %d", "load %X, %0, %d");
  for (const char* what : {"part", "z"})  // so that nothing ties them to the rows of the grid
    text = With(text, std::string("%") + what + " = ", std::string("%") + what + "0 = ");
  text = With(text, "      %both = add %s, %part : f32[8]",
              "      %all = reduce %part0 {kind = \"sum\", axis = 0} : f32\n"
              "        %part = broadcast %all {axes = []} : f32[8]\n"
              "        %both = add %s, %part : f32[8]");
  text = With(text, "        %y = sub %z, %mb : f32[8, 256]",
              "        %most = reduce %z0 {kind = \"max\", axis = 0} : f32[256]\n"
              "        %z = broadcast %most {axes = [1]} : f32[8, 256]\n"
              "        %y = sub %z, %mb : f32[8, 256]");
  const Function after = Keep(Parsed(text), 1);
  EXPECT_EQ(Step(after), 8);
  EXPECT_EQ(Marked(after, 1), 12);
}

// 12 turns of 120 ops would be 1440.
TEST(KeepRows, LongLoopsStay) {
  std::string sums = "        %part = reduce %x {kind = \"sum\", axis = 1} : f32[8]\n",
              last = "part";
  for (int i = 0; i < 110; ++i) {
    const std::string next = "more" + std::to_string(i);
    sums += "        %" + next + " = add %" + last + ", %part : f32[8]\n";
    last = next;
  }
  std::string text =
      With(kRows, "        %part = reduce %x {kind = \"sum\", axis = 1} : f32[8]\n", sums);
  text = With(text, "add %s, %part", "add %s, %" + last);
  Keep(Parsed(text), 0);
}

// Two loops of three read X: the other one stays where it is.
TEST(KeepRows, LoopsInBetweenStay) {
  const char* between = R"(      %mean = div %sum, %n : f32[8]
      %more = for %0, %end, %zero {step = 256} : f32[8] do (%k: i64, %t: f32[8]) {
        %more2 = add %t, %mean : f32[8]
        yield %more2
      }
      store %S, %more, %r, %stop {modes = "r", sizes = [8]}
)";
  const Function before = Parsed(With(kRows, "      %mean = div %sum, %n : f32[8]\n", between));
  const Function after = Keep(before, 1);
  EXPECT_EQ(Count(after, OpKind::kFor), 1);
  EXPECT_EQ(Marked(after, 1), 12);
  ExpectSame(before, after, 21, 3000);
}

}  // namespace
}  // namespace tilec::ir
