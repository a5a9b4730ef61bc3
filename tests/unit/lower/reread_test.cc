// reread-tiles: the same program, bit for bit, that holds nothing large across a reduction.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "ir/lower/sequential.h"
#include "ir/passes/passes.h"
#include "tests/unit/lower/helper.h"

namespace tilec::ir {
namespace {

// A softmax of rows of 16384: the tile is used in front of, between and behind two reductions.
constexpr const char* kRows = R"(func @rows tile {
  param tensor %X: tensor<bf16, 2> in [R, 16384] align=16 stride_align=16 contiguous=1 last_align=8
  param tensor %Y: tensor<bf16, 2> out [R, 16384] align=16 stride_align=16 contiguous=1 last_align=8
  param dim %R: i64
  body {
    %0 = constant {value = 0} : i64
    parallel %0, %R {steps = [1]} do (%r: i64) {
      %minus = constant {value = -100.0} : bf16
      %t = load %X, %r, %0, %minus {modes = "rr", sizes = [1, 16384], has_fill = 1} : bf16[1, 16384]
      %x = cast %t : f32[1, 16384]
      %m = reduce %x {kind = "max", axis = 1} : f32[1]
      %mb = broadcast %m {axes = [0]} : f32[1, 16384]
      %d = sub %x, %mb : f32[1, 16384]
      %p = exp %d : f32[1, 16384]
      %l = reduce %p {kind = "sum", axis = 1} : f32[1]
      %lb = broadcast %l {axes = [0]} : f32[1, 16384]
      %q = div %p, %lb : f32[1, 16384]
      %y = cast %q : bf16[1, 16384]
      %one = constant {value = 1} : i64
      %next = add %r, %one : i64
      %end = constant {value = 16384} : i64
      store %Y, %y, %r, %next, %0, %end {modes = "rr", sizes = [1, 16384]}
      yield
    }
  }
}
)";

Function Reread(const Function& before, int changes) {
  return Changed(RereadTiles, before, changes);
}

// Elements of large tiles that are alive across a reduction of one.
int64_t Held(const Function& fn) {
  std::map<ValueId, int> made;
  int phase = 0;
  int64_t held = 0;
  std::set<std::pair<ValueId, int>> counted;
  for (OpId id : OpsInOrder(fn)) {
    const Op& op = fn.ops[id];
    for (ValueId v : op.operands)
      if (const auto at = made.find(v); at != made.end() && at->second < phase)
        if (counted.insert({v, phase}).second) held += fn.type(v).elements();
    if (op.kind == OpKind::kReduce) ++phase;
    for (ValueId v : op.results)
      if (fn.type(v).is_tile() && fn.type(v).elements() >= 16384 && op.kind != OpKind::kBroadcast)
        made[v] = phase;
  }
  return held;
}

TEST(RereadTiles, NothingLargeIsHeldAndEveryBitIsKept) {
  const Function before = Parsed(kRows);
  EXPECT_GT(Held(before), 0);
  // Again: load, cast behind the maximum; load, cast, sub, exp behind the sum.
  const Function after = Reread(before, 6);
  EXPECT_EQ(Count(after, OpKind::kLoad), 3);
  EXPECT_EQ(Count(after, OpKind::kExp), 2);
  EXPECT_EQ(Held(after), 0);
  const std::vector<int64_t> shape = {2, 16384};
  std::vector<std::vector<double>> outputs;
  for (const Function* fn : {&before, &after}) {
    InterpretInputs in;
    in.tensors["X"] = TensorValue::Random(DType::kBF16, shape, 7);
    in.tensors["Y"] = TensorValue::Zeros(DType::kBF16, shape);
    in.dims = {{"R", 2}};
    DiagSink diags;
    EXPECT_TRUE(Interpret(*fn, in, {}, diags).ok());
    outputs.push_back(in.tensors["Y"].v);
  }
  EXPECT_NE(outputs[0][0], 0);
  EXPECT_EQ(outputs[0], outputs[1]);
}

// What the copy engine cannot bring (a fill that is not zero and may be asked for, rows at odd
// places) threads put into the buffer: one load, one meeting, read three times.
TEST(RereadTiles, ThreadsBringWhatTmaCannot) {
  const std::string rows = With(kRows, "16384", "24832");
  for (const std::string& text : {With(rows, "24832] align", "24828] align"),
                                  With(rows, "stride_align=16", "stride_align=2")}) {
    const Function tile = Reread(Parsed(text), 6);
    EXPECT_EQ(Held(tile), 0);
    std::vector<int64_t> marks;
    for (OpId id : OpsInOrder(tile))
      if (tile.ops[id].kind == OpKind::kLoad) marks.push_back(tile.ops[id].i("kept", -1));
    EXPECT_EQ(marks, (std::vector<int64_t>{0, 1, 2}));
    DiagSink diags;
    SourceMap sources;
    Result<Function> warps = Sequentialize(tile, H200(), {}, diags);
    ASSERT_TRUE(warps.ok()) << RenderAll(diags, sources);
    ASSERT_TRUE(Verify(*warps, diags).ok()) << RenderAll(diags, sources);
    EXPECT_EQ(Count(*warps, OpKind::kGLoad), 1);
    EXPECT_EQ(Count(*warps, OpKind::kSmemStore), 1);
    EXPECT_EQ(Count(*warps, OpKind::kSmemLoad), 3);
    EXPECT_EQ(Count(*warps, OpKind::kTmaLoad), 0);
    EXPECT_GE(warps->launch.ctas_per_sm, 2);
    // Without the meeting nobody knows that a buffer is written.
    Function apart = *warps;
    for (Block& block : apart.blocks)
      std::erase_if(block.ops, [&](OpId id) { return apart.ops[id].kind == OpKind::kCtaSync; });
    EXPECT_TRUE(CheckWarps(*warps, WarpCheckOptions(H200()), diags).ok());
    EXPECT_FALSE(CheckWarps(apart, WarpCheckOptions(H200()), diags).ok());
  }
}

// Of several rows threads would read what others wrote, in other banks; they stay in registers.
TEST(RereadTiles, SeveralRowsAtOddPlacesStay) {
  std::string text = With(With(kRows, "16384", "24832"), "stride_align=16", "stride_align=2");
  text = With(With(text, "[1, 24832]", "[2, 24832]"), "f32[1]", "f32[2]");
  Reread(Parsed(With(text, "steps = [1]", "steps = [2]")), 0);
}

// 48 elements a thread are faster held than read again.
TEST(RereadTiles, ShorterRowsAtOddPlacesAreHeld) {
  const std::string rows = With(kRows, "16384", "24576");
  Reread(Parsed(With(rows, "stride_align=16", "stride_align=2")), 0);
  Reread(Parsed(With(rows, "24576] align", "24572] align")), 0);
}

TEST(RereadTiles, SmallTilesStayInRegisters) { Reread(Parsed(With(kRows, "16384", "8192")), 0); }

// Equal loads become one copy into shared memory that is read three times.
TEST(RereadTiles, EqualLoadsShareOneBuffer) {
  const Function tile = Reread(Parsed(kRows), 6);
  DiagSink diags;
  SourceMap sources;
  Result<Function> warps = Sequentialize(tile, H200(), {}, diags);
  ASSERT_TRUE(warps.ok()) << RenderAll(diags, sources);
  ASSERT_TRUE(Verify(*warps, diags).ok()) << RenderAll(diags, sources);
  EXPECT_EQ(Count(*warps, OpKind::kSmemAlloc), 1);
  EXPECT_EQ(Count(*warps, OpKind::kSmemLoad), 3);
  EXPECT_EQ(Count(*warps, OpKind::kGLoad), 0);
  EXPECT_EQ(Count(*warps, OpKind::kMbarExpect), 1);
  EXPECT_GE(warps->launch.ctas_per_sm, 2);
  // Whole rows are whole panels of 256 columns: one copy brings all of them.
  EXPECT_EQ(Count(*warps, OpKind::kTmaLoad), 1);
  ASSERT_EQ(warps->launch.maps.size(), 1u);
  EXPECT_EQ(warps->launch.maps[0].panel, 256);
  EXPECT_EQ(warps->launch.maps[0].box, (std::vector<int64_t>{256, 1, 64}));
}

// 385 panels of 64 columns: a box has at most 256.
TEST(RereadTiles, ManyPanelsTakeTwoCopies) {
  std::string text = kRows;
  for (size_t at; (at = text.find("16384")) != std::string::npos;) text.replace(at, 5, "24640");
  DiagSink diags;
  SourceMap sources;
  Result<Function> warps = Sequentialize(Reread(Parsed(text), 6), H200(), {}, diags);
  ASSERT_TRUE(warps.ok()) << RenderAll(diags, sources);
  ASSERT_TRUE(Verify(*warps, diags).ok()) << RenderAll(diags, sources);
  EXPECT_EQ(Count(*warps, OpKind::kTmaLoad), 2);
  ASSERT_EQ(warps->launch.maps.size(), 2u);
  EXPECT_EQ(warps->launch.maps[0].box, (std::vector<int64_t>{64, 1, 256}));
  EXPECT_EQ(warps->launch.maps[1].box, (std::vector<int64_t>{64, 1, 129}));
}

// The tensor's rows end within a panel, which would go on with the next row: those in front of it
// are one copy, it and what lies behind it one each.
TEST(RereadTiles, APanelThatARowDoesNotFillIsCopiedAlone) {
  const std::string zeros =
      With(kRows, ", %minus {modes = \"rr\", sizes = [1, 16384], has_fill = 1}",
           " {modes = \"rr\", sizes = [1, 16384]}");
  for (const auto& [extent, copies] :
       {std::pair{"16640", 1}, {"16512", 1}, {"16376", 2}, {"16000", 3}, {"200", 64}}) {
    DiagSink diags;
    SourceMap sources;
    Result<Function> warps = Sequentialize(
        Reread(Parsed(With(zeros, "16384] align", std::string(extent) + "] align")), 6), H200(), {},
        diags);
    ASSERT_TRUE(warps.ok()) << RenderAll(diags, sources);
    EXPECT_EQ(Count(*warps, OpKind::kTmaLoad), copies) << extent;
    ASSERT_TRUE(Verify(*warps, diags).ok()) << RenderAll(diags, sources);
    if (std::string(extent) != "16000") continue;
    for (TensorMapInfo& map : warps->launch.maps)  // 62 panels are whole
      if (map.panel) ++map.box.back();
    EXPECT_FALSE(Verify(*warps, diags).ok());
    EXPECT_NE(RenderAll(diags, sources).find("from 0 to 16128, in a dim of 16000"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace tilec::ir
