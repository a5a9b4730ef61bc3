// keep-rows: rows that loops read again are loaded once, whatever is not known to be safe stays as
// it is, and every program keeps every bit.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/count_work.h"

#include "ir/lower/sequential.h"
#include "ir/passes/passes.h"
#include "tests/unit/lower/helper.h"
#include "tests/unit/lower/keep_rows_kernels.h"

namespace tilec::ir {

namespace {

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

// Their copies stand in front of what threads load, here the numbers of rows: what is made of that
// is waited for, and copies need not wait with it. Gathered rows need the numbers first.
TEST(KeepRows, CopiesStandFirst) {
  const auto first = [](const Function& fn) {
    for (OpId id : OpsInOrder(fn))
      if (fn.ops[id].kind == OpKind::kLoad) return fn.ops[id].attr("kept") != nullptr;
    return false;
  };
  EXPECT_TRUE(first(Keep(Parsed(kRows), 1)));
  EXPECT_FALSE(first(Keep(Parsed(Gathered(With(kRows, "3000", "6000"))), 1)));
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
// six chunks of one row. Gathered rows of such a tensor come from memory again, and so does a row
// in more chunks.
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

// A sum in front of the loops of which threads load the tile: copies are under way before threads
// meet for it.
TEST(KeepRows, CopiesAreIssuedInFrontOfASum) {
  std::string text = With(kRows, "%sum = for %0, %end, %zero",
                          R"(%w = load %X, %r, %0 {modes = "rr", sizes = [8, 64]} : f32[8, 64]
      %near = reduce %w {kind = "sum", axis = 1} : f32[8]
      %sum = for %0, %end, %near)");
  const Function before = Parsed(text), after = Keep(before, 1);
  ExpectSame(before, after, 21, 3000);
  DiagSink diags;
  SourceMap sources;
  Result<Function> warps = Sequentialize(after, H200(), {}, diags);
  ASSERT_TRUE(warps.ok()) << RenderAll(diags, sources);
  std::vector<OpKind> order;
  for (OpId id : OpsInOrder(*warps))
    if (const OpKind kind = warps->ops[id].kind;
        kind == OpKind::kGLoad || kind == OpKind::kMbarExpect || kind == OpKind::kWarpReduce)
      order.push_back(kind);
  ASSERT_GE(order.size(), 3u);
  EXPECT_EQ(order[0], OpKind::kGLoad);
  EXPECT_EQ(order[1], OpKind::kMbarExpect);
  EXPECT_EQ(order[2], OpKind::kWarpReduce);
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

}  // namespace

}  // namespace tilec::ir
