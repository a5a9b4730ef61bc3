// own-parts: each thread keeps what it has of a piece of a row, until behind the loop; whatever
// would not be the same, or is nobody's own, stays as it is.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ir/lower/sequential.h"
#include "ir/lower/slides.h"
#include "ir/passes/passes.h"
#include "tests/unit/lower/row_nest.h"

namespace tilec::ir {
namespace {

// Softmax of rows of 5001: in pieces of 2048, 8 elements of 128 threads twice.
std::string SoftmaxOfPieces() {
  const std::string loops = R"(      %low = constant {value = -inf} : f32[1]
      %none = constant {value = 0.0} : f32[1]
      %inf = constant {value = -inf} : bf16
      %l, %m = for %0, %C, %none, %low {step = 2048} : f32[1], f32[1]
          do (%c: i64, %lc: f32[1], %mc: f32[1]) {
        %xb = load %X, %r, %c, %inf {modes = "rr", sizes = [1, 2048], has_fill = 1} : bf16[1, 2048]
        %x = cast %xb : f32[1, 2048]
        %q = reduce %x {kind = "max", axis = 1} : f32[1]
        %mn = max %mc, %q : f32[1]
        %d = sub %mc, %mn : f32[1]
        %f = exp %d : f32[1]
        %ls = mul %lc, %f : f32[1]
        %mm = reshape %mn : f32[1, 1]
        %ma = broadcast %mm {axes = [0, 1]} : f32[1, 2048]
        %xd = sub %x, %ma : f32[1, 2048]
        %e = exp %xd : f32[1, 2048]
        %s = reduce %e {kind = "sum", axis = 1} : f32[1]
        %ln = add %ls, %s : f32[1]
        yield %ln, %mn
      }
      for %0, %C {step = 2048} do (%at: i64) {
        %x0 = load %X, %r, %at, %inf {modes = "rr", sizes = [1, 2048], has_fill = 1} : bf16[1, 2048]
        %xbb = cast %x0 : f32[1, 2048]
        %mmb = reshape %m : f32[1, 1]
        %mab = broadcast %mmb {axes = [0, 1]} : f32[1, 2048]
        %xdb = sub %xbb, %mab : f32[1, 2048]
        %eb = exp %xdb : f32[1, 2048]
        %ll = reshape %l : f32[1, 1]
        %la = broadcast %ll {axes = [0, 1]} : f32[1, 2048]
        %y = div %eb, %la : f32[1, 2048]
        %yb = cast %y : bf16[1, 2048]
)";
  return RowNest({"bf16", "5001", 2, 1}, loops + StoredPiece("%yb", "2048"));
}

// The sum of a row from 3 on, its largest and its smallest; and each element less its sum.
std::string SumsOfRows() {
  const std::string loops = R"(      %three = constant {value = 3} : i32[1]
      %s, %h, %l = for %0, %C, %three, %three, %three {step = 1024} : i32[1], i32[1], i32[1]
          do (%c: i64, %a: i32[1], %g: i32[1], %k: i32[1]) {
        %x = load %X, %r, %c {modes = "rr", sizes = [1, 1024]} : i32[1, 1024]
        %q = reduce %x {kind = "sum", axis = 1} : i32[1]
        %an = add %q, %a : i32[1]
        %xx = mul %x, %x : i32[1, 1024]
        %p = reduce %xx {kind = "max", axis = 1} : i32[1]
        %gn = max %g, %p : i32[1]
        %n = reduce %x {kind = "min", axis = 1} : i32[1]
        %kn = min %k, %n : i32[1]
        yield %an, %gn, %kn
      }
      %sh = add %s, %h : i32[1]
      %shl = sub %sh, %l : i32[1]
      for %0, %C {step = 1024} do (%at: i64) {
        %xb = load %X, %r, %at {modes = "rr", sizes = [1, 1024]} : i32[1, 1024]
        %ss = reshape %shl : i32[1, 1]
        %sa = broadcast %ss {axes = [0, 1]} : i32[1, 1024]
        %y = sub %xb, %sa : i32[1, 1024]
)";
  return RowNest({"i32", "2500", 16, 4}, loops + StoredPiece("%y", "1024"));
}

constexpr int64_t kRowsOfAll = 6, kColumnsOfAll = 5001;

// Rows of all kinds: the second half −∞, all of it, one far above all others late, one NaN.
TensorValue RowsOfAllKinds() {
  TensorValue x = TensorValue::Random(DType::kBF16, {kRowsOfAll, kColumnsOfAll}, 5);
  const auto row = [&](int64_t r) { return x.v.begin() + r * kColumnsOfAll; };
  const double inf = std::numeric_limits<double>::infinity();
  std::fill(row(1) + kColumnsOfAll / 2, row(2), -inf);
  std::fill(row(2), row(2) + kColumnsOfAll - 3, -inf);
  std::fill(row(3), row(4), -inf);
  row(4)[4999] = 512;
  row(5)[77] = std::numeric_limits<double>::quiet_NaN();
  return x;
}

std::vector<double> SoftmaxOf(const Function& fn) {
  InterpretInputs in;
  in.tensors["X"] = RowsOfAllKinds();
  in.tensors["Y"] = TensorValue::Zeros(DType::kBF16, {kRowsOfAll, kColumnsOfAll});
  in.dims = {{"R", kRowsOfAll}};
  return Interpreted(fn, std::move(in), "Y");
}

Function OwnKept(const std::string& before, int changes) {
  return Changed(OwnParts, Parsed(before), changes);
}

int MeetingsInLoops(const Function& warps) {
  int n = 0;
  for (OpId id : OpsInOrder(warps)) {
    const OpId parent = warps.blocks[warps.ops[id].block].parent;
    n += warps.ops[id].kind == OpKind::kWarpReduce && warps.ops[id].i("scratch", -1) >= 0 &&
         parent.valid() && warps.ops[parent].kind == OpKind::kFor;
  }
  return n;
}

TEST(OwnParts, SumsRelativeToALargestValueOfEachThread) {
  const std::vector<double> before = SoftmaxOf(Parsed(SoftmaxOfPieces())),
                            after = SoftmaxOf(OwnKept(SoftmaxOfPieces(), 1));
  const TensorValue x = RowsOfAllKinds();
  for (size_t i = 0; i < before.size(); ++i) {
    // As it is written a row is lost whose first piece is −∞; no thread loses its part.
    const bool late = i / kColumnsOfAll == 2;
    double want = before[i];
    if (late) {
      double sum = 0;
      for (size_t k = 3 * kColumnsOfAll - 3; k < 3 * kColumnsOfAll; ++k) sum += std::exp(x.v[k]);
      want = std::exp(x.v[i]) / sum;
    }
    EXPECT_EQ(std::isnan(want), std::isnan(after[i])) << i;
    if (!std::isnan(want)) {
      EXPECT_NEAR(want, after[i], 1e-30 + 0.008 * want) << i;
    }
  }
}

TEST(OwnParts, SumsLargestAndSmallestStartOnce) {
  const auto results = [](const Function& fn) {
    InterpretInputs in;
    in.tensors["X"] = Numbers(DType::kI32, {5, 2500}, 4);
    in.tensors["Y"] = TensorValue::Zeros(DType::kI32, {5, 2500});
    in.dims = {{"R", 5}};
    return Interpreted(fn, std::move(in), "Y");
  };
  EXPECT_EQ(results(Parsed(SumsOfRows())), results(OwnKept(SumsOfRows(), 1)));
}

// Where they start is a number that the caller gives, and what they come to are scalars: a row is
// an instance's own.
TEST(OwnParts, ScalarsStartFromWhatIsGiven) {
  std::string text = SumsOfRows();
  const auto put = [&](const std::string& from, const std::string& to) {
    ASSERT_NE(text.find(from), std::string::npos) << from;
    for (size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size()))
      text.replace(at, from.size(), to);
  };
  put("i32[1, 1024]", "i32[1024]");
  put("i32[1, 1]", "i32");
  put("i32[1]", "i32");
  put("modes = \"rr\", sizes = [1, 1024]} : i32[1024]",
      "modes = \"sr\", sizes = [1, 1024]} : i32[1024]");
  put("%y, %r, %re, %at, %ce {modes = \"rr\"", "%y, %r, %at, %ce {modes = \"sr\"");
  put("axis = 1} : i32", "axis = 0} : i32");
  put("      %three = constant {value = 3} : i32\n", "");
  put("  param dim %R: i64\n", "  param dim %R: i64\n  param scalar %three: i32\n");
  put("%ss = reshape %shl : i32", "%ss = neg %shl : i32");
  put("broadcast %ss {axes = [0, 1]}", "broadcast %ss {axes = []}");
  const auto results = [](const Function& fn) {
    InterpretInputs in;
    in.tensors["X"] = Numbers(DType::kI32, {5, 2500}, 4);
    in.tensors["Y"] = TensorValue::Zeros(DType::kI32, {5, 2500});
    in.dims = {{"R", 5}, {"three", 3}};
    return Interpreted(fn, std::move(in), "Y");
  };
  EXPECT_EQ(results(Parsed(text)), results(OwnKept(text, 1)));
}

TEST(OwnParts, NoWarpWaitsForAnotherInTheLoop) {
  for (const auto& [text, meetings] : {std::pair(SoftmaxOfPieces(), 2), {SumsOfRows(), 3}})
    for (bool own : {false, true}) {
      DiagSink diags;
      const Result<Function> warps =
          Sequentialize(own ? OwnKept(text, 1) : Parsed(text), H200(), {}, diags);
      ASSERT_TRUE(warps.ok());
      EXPECT_EQ(MeetingsInLoops(*warps), own ? 0 : meetings);
      for (const Op& op : warps->ops) EXPECT_NE(op.kind, OpKind::kWarpRearrange);
    }
}

TEST(OwnParts, RowsSlideAsBefore) {
  EXPECT_TRUE(SlideOf(Parsed(SoftmaxOfPieces())).has_value());
  EXPECT_TRUE(SlideOf(OwnKept(SoftmaxOfPieces(), 1)).has_value());
  // A program's own view of a piece says which elements a thread has: it does not slide.
  Function other = OwnKept(SoftmaxOfPieces(), 1);
  for (OpId id : OpsInOrder(other))
    if (IsInAnyOrder(other.ops[id])) {
      std::vector<int64_t> strides = other.ops[id].ints("strides");
      strides[0] = 1;
      other.ops[id].set("strides", strides);
    }
  EXPECT_FALSE(SlideOf(other).has_value());
}

TEST(OwnParts, WhatEverybodyNeedsStays) {
  // A sum of each piece's largest value.
  OwnKept(With(SumsOfRows(), "%q = reduce %x {kind = \"sum\"", "%q = reduce %x {kind = \"max\""),
          0);
  // The largest of each piece's sum.
  OwnKept(With(SumsOfRows(), "%p = reduce %xx {kind = \"max\"", "%p = reduce %xx {kind = \"sum\""),
          0);
  // What a piece comes to, beside what is carried.
  OwnKept(With(SumsOfRows(), "%gn = max %g, %p : i32[1]",
               "%pq = add %p, %q : i32[1]\n"
               "        %gn = max %g, %pq : i32[1]"),
          0);
  // A term that is no part of a piece would be added by every thread.
  OwnKept(With(SumsOfRows(), "%an = add %q, %a : i32[1]",
               "%aq = add %q, %three : i32[1]\n"
               "        %an = add %aq, %a : i32[1]"),
          0);
  OwnKept(With(SoftmaxOfPieces(), "%ln = add %ls, %s : f32[1]",
               "%f1 = mul %s, %f : f32[1]\n"
               "        %ln = add %ls, %f1 : f32[1]"),
          0);
  // The first of two loops alone: its turns are CTAs' to share.
  std::string one = SumsOfRows();
  const size_t second = one.find("      for %0, %C {step = 1024} do");
  one.erase(second, one.find("      }\n", second) + 8 - second);
  OwnKept(one, 0);
}

}  // namespace
}  // namespace tilec::ir
