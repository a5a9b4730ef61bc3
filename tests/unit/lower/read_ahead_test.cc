// read-ahead: the same values, loaded turns before they are used; what would not be the same, or
// gain nothing, stays as it is. And what the turns that are written out ask of the lowering: no
// thread waits for another where each stores elements of its own.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "ir/lower/sequential.h"
#include "ir/passes/passes.h"
#include "tests/unit/lower/helper.h"

namespace tilec::ir {
namespace {

// h_t = a_t h_{t-1} + x_t of 128 channels.
const char* const kScan = R"(func @scan tile {
  param tensor %A: tensor<f32, 2> in [T, C] align=16 stride_align=16 contiguous=1 last_align=4
  param tensor %X: tensor<f32, 2> in [T, C] align=16 stride_align=16 contiguous=1 last_align=4
  param tensor %Y: tensor<f32, 2> out [T, C] align=16 stride_align=16 contiguous=1 last_align=4
  param dim %T: i64
  param dim %C: i64
  body {
    %0 = constant {value = 0} : i64
    parallel %0, %C {steps = [128]} do (%c: i64) {
      %start = constant {value = 0.5} : f32[128]
      %last = for %0, %T, %start {step = 1} : f32[128] do (%t: i64, %h: f32[128]) {
        %a = load %A, %t, %c {modes = "sr", sizes = [1, 128]} : f32[128]
        %x = load %X, %t, %c {modes = "sr", sizes = [1, 128]} : f32[128]
        %ah = mul %a, %h : f32[128]
        %next = add %ah, %x : f32[128]
        %columns = constant {value = 128} : i64
        %e0 = add %c, %columns : i64
        %e = min %e0, %C : i64
        store %Y, %next, %t, %c, %e {modes = "sr", sizes = [1, 128]}
        yield %next
      }
      yield
    }
  }
}
)";

std::vector<double> Results(const Function& fn, int64_t turns, int64_t channels) {
  InterpretInputs in;
  in.tensors["A"] = TensorValue::Random(DType::kF32, {turns, channels}, 3);
  in.tensors["X"] = TensorValue::Random(DType::kF32, {turns, channels}, 4);
  in.tensors["Y"] = TensorValue::Zeros(DType::kF32, {turns, channels});
  in.dims = {{"T", turns}, {"C", channels}};
  return Interpreted(fn, std::move(in), "Y");
}

std::vector<OpId> LoopsOf(const Function& fn) {
  std::vector<OpId> loops;
  for (OpId id : OpsInOrder(fn))
    if (fn.ops[id].kind == OpKind::kFor) loops.push_back(id);
  return loops;
}

int LoadsIn(const Function& fn, OpId loop) {
  int loads = 0;
  for (OpId id : fn.blocks[fn.ops[loop].regions[0]].ops) loads += fn.ops[id].kind == OpKind::kLoad;
  return loads;
}

TEST(ReadAhead, TurnsAreWrittenOutAndUseWhatWasLoadedBefore) {
  const Function before = Parsed(kScan);
  const Function after = Changed(ReadAhead, before, 2);
  const std::vector<OpId> loops = LoopsOf(after);
  ASSERT_EQ(loops.size(), 2u);  // eight turns at a time, and the rest
  EXPECT_EQ(after.ops[loops[0]].i("step"), 8);
  EXPECT_EQ(after.ops[loops[1]].i("step"), 1);
  EXPECT_EQ(LoadsIn(after, loops[0]), 16);
  EXPECT_EQ(LoadsIn(after, loops[1]), 2);
  // Each value that comes in was loaded in front of the loop or in the turns before.
  EXPECT_EQ(after.ops[loops[0]].operands.size(), 2u + 1 + 16);
  for (int64_t turns : {0, 1, 7, 8, 9, 16, 31})
    for (int64_t channels : {1, 128, 200})
      EXPECT_EQ(Results(before, turns, channels), Results(after, turns, channels))
          << turns << ' ' << channels;
}

// A vector that all threads read goes along, fewer turns ahead: 12 elements of f32 are 12 registers
// of the 48, so four turns, which divide eight. Of 40 there is room for one.
TEST(ReadAhead, ShortVectorsGoAlong) {
  for (const auto& [size, ahead] : {std::pair("12", 4), std::pair("40", 1), std::pair("60", 0)}) {
    std::string text =
        With(kScan, "  param dim %T",
             "  param tensor %B: tensor<f32, 2> in [T, " + std::string(size) +
                 "] align=16 stride_align=16 contiguous=1 last_align=4\n  param dim %T");
    text = With(text, "        %ah =",
                "        %b = load %B, %t, %0 {modes = \"sr\", sizes = [1, " + std::string(size) +
                    "]} : f32[" + size +
                    "]\n        %all = reduce %b {kind = \"sum\", axis = 0} : f32\n"
                    "        %many = broadcast %all {axes = []} : f32[128]\n        %ah =");
    text = With(text, "add %ah, %x :", "add %ah, %many :");
    text = With(text, "%a, %h :", "%a, %x :");
    const Function before = Parsed(text);
    const Function after = Changed(ReadAhead, before, ahead ? 3 : 2);
    const std::vector<OpId> loops = LoopsOf(after);
    ASSERT_EQ(loops.size(), 2u);
    EXPECT_EQ(after.ops[loops[0]].i("step"), 8);
    EXPECT_EQ(LoadsIn(after, loops[0]), 24);
    EXPECT_EQ(after.ops[loops[0]].operands.size(), 2u + 1 + 16 + static_cast<size_t>(ahead));
    const auto made = [&](const Function& fn, int64_t turns) {
      InterpretInputs in;
      in.tensors["A"] = TensorValue::Random(DType::kF32, {turns, 130}, 3);
      in.tensors["X"] = TensorValue::Random(DType::kF32, {turns, 130}, 4);
      in.tensors["B"] = TensorValue::Random(DType::kF32, {turns, std::stol(size)}, 5);
      in.tensors["Y"] = TensorValue::Zeros(DType::kF32, {turns, 130});
      in.dims = {{"T", turns}, {"C", 130}};
      return Interpreted(fn, std::move(in), "Y");
    };
    for (int64_t turns : {0, 1, 7, 8, 9, 16, 31})
      EXPECT_EQ(made(before, turns), made(after, turns)) << size << ' ' << turns;
  }
}

TEST(ReadAhead, LoopsThatBeginAnywhereAndGoBackwards) {
  // Positions T - 1 - t of turns 3, 5, …
  std::string text =
      With(kScan, "for %0, %T, %start {step = 1}", "for %three, %T, %start {step = 2}");
  text =
      With(text, "      %start = ", "      %three = constant {value = 3} : i64\n      %start = ");
  text = With(text, "        %a = load %A, %t,",
              "        %one = constant {value = 1} : i64\n        %u0 = sub %T, %one : i64\n"
              "        %u = sub %u0, %t : i64\n        %a = load %A, %u,");
  const Function before = Parsed(text);
  const Function after = Changed(ReadAhead, before, 2);
  for (int64_t turns : {0, 2, 3, 4, 18, 19, 20, 40})
    EXPECT_EQ(Results(before, turns, 130), Results(after, turns, 130)) << turns;
}

TEST(ReadAhead, WhatTheKernelWritesIsReadWhereItWas) {
  Changed(ReadAhead, Parsed(With(kScan, "%X: tensor<f32, 2> in", "%X: tensor<f32, 2> inout")), 1);
}

TEST(ReadAhead, PositionsThatAreLoadedOrCarriedStay) {
  Changed(ReadAhead, Parsed(With(kScan, "%x = load %X, %t, %c", "%x = load %X, %0, %c")), 1);
  std::string text =
      With(kScan, "%last = for %0, %T, %start {step = 1} : f32[128] do (%t: i64, %h: f32[128])",
           "%last, %p = for %0, %T, %start, %0 {step = 1} : f32[128], i64 do (%t: i64, %h: "
           "f32[128], %q: i64)");
  text = With(text, "yield %next",
              "%two = constant {value = 2} : i64\n        %q2 = add %q, %two : i64\n        yield "
              "%next, %q2");
  text = With(text, "%x = load %X, %t, %c", "%x = load %X, %q, %c");
  Changed(ReadAhead, Parsed(text), 1);
}

TEST(ReadAhead, TurnsThatReadEnoughStay) {
  // 64 bytes a thread in each turn: nothing is short of what an SM has in flight.
  Changed(ReadAhead, Parsed(With(kScan, "128", "1024")), 0);
}

TEST(ReadAhead, LoopsOfFewTurnsStay) {
  const std::string few =
      With(kScan, "      %start = ", "      %n = constant {value = 7} : i64\n      %start = ");
  Changed(ReadAhead, Parsed(With(few, "for %0, %T, %start", "for %0, %n, %start")), 0);
}

// Barriers of the program of one role.
int Meetings(const Function& tile) {
  DiagSink diags;
  const Result<Function> warps = Sequentialize(tile, H200(), {}, diags);
  EXPECT_TRUE(warps.ok());
  return warps.ok() ? Count(*warps, OpKind::kCtaSync) : -1;
}

TEST(ReadAhead, NobodyWaitsWhereThreadsStoreElementsOfTheirOwn) {
  const Function before = Parsed(kScan);
  EXPECT_EQ(Meetings(before), 0);                         // each turn stores another row
  EXPECT_EQ(Meetings(Changed(ReadAhead, before, 2)), 0);  // rows of two loops, columns of a thread
  // The same row again and again: still the thread's own columns.
  EXPECT_EQ(Meetings(Parsed(With(kScan, "store %Y, %next, %t, %c", "store %Y, %next, %0, %c"))), 0);
  // Columns that a turn moves on by half a tile are others' in the next.
  std::string moving = With(kScan, "store %Y, %next, %t, %c, %e", "store %Y, %next, %0, %m, %e");
  moving = With(moving, "        %e0 =",
                "        %half = constant {value = 64} : i64\n        %m = mul %t, %half : i64\n   "
                "     %e0 =");
  EXPECT_EQ(Meetings(Parsed(moving)), 1);
  // And so are those of a store that begins elsewhere.
  std::string two = With(kScan, "        yield %next",
                         "        %g = add %c, %columns : i64\n        store %Y, %next, %t, %g, %C "
                         "{modes = \"sr\", sizes = [1, 128]}\n        yield %next");
  EXPECT_EQ(Meetings(Parsed(
                With(two, "%columns = constant {value = 128}", "%columns = constant {value = 1}"))),
            2);
}

}  // namespace
}  // namespace tilec::ir
