// walk-back: a loop that reads again what the one in front of it read begins at the end, where no
// order of its turns can be told from another; all others stay.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "ir/lower/sequential.h"
#include "ir/lower/slides.h"
#include "ir/lower/stored_over.h"
#include "ir/passes/passes.h"
#include "tests/unit/lower/row_nest.h"

namespace tilec::ir {
namespace {

// Each row of 2504 less its sum, and the sum of the squares of that.
const char* const kLoopsOfSums = R"(      %none = constant {value = 0.0} : f32[1]
      %s = for %0, %C, %none {step = 1024} : f32[1] do (%c: i64, %a: f32[1]) {
        %xb = load %X, %r, %c {modes = "rr", sizes = [1, 1024]} : bf16[1, 1024]
        %x = cast %xb : f32[1, 1024]
        %q = reduce %x {kind = "sum", axis = 1} : f32[1]
        %an = add %a, %q : f32[1]
        yield %an
      }
      %t = for %0, %C, %none {step = 1024} : f32[1] do (%c2: i64, %a2: f32[1]) {
        %xb2 = load %X, %r, %c2 {modes = "rr", sizes = [1, 1024]} : bf16[1, 1024]
        %x2 = cast %xb2 : f32[1, 1024]
        %xx = mul %x2, %x2 : f32[1, 1024]
        %q2 = reduce %xx {kind = "sum", axis = 1} : f32[1]
        %an2 = add %a2, %q2 : f32[1]
        yield %an2
      }
      %st = sub %s, %t : f32[1]
      for %0, %C {step = 1024} do (%at: i64) {
        %xb3 = load %X, %r, %at {modes = "rr", sizes = [1, 1024]} : bf16[1, 1024]
        %x3 = cast %xb3 : f32[1, 1024]
        %ss = reshape %st : f32[1, 1]
        %sa = broadcast %ss {axes = [0, 1]} : f32[1, 1024]
        %y = sub %x3, %sa : f32[1, 1024]
        %yb = cast %y : bf16[1, 1024]
)";

std::string ThreeWalks() {
  return RowNest({"bf16", "2504", 16, 8}, kLoopsOfSums + StoredPiece("%yb", "1024"));
}

std::vector<double> WalkResults(const Function& fn) {
  InterpretInputs in;
  in.tensors["X"] = Numbers(DType::kBF16, {5, 2504}, 4);
  in.tensors["Y"] = TensorValue::Zeros(DType::kBF16, {5, 2504});
  in.dims = {{"R", 5}};
  return Interpreted(fn, std::move(in), "Y");
}

Function WalkedBack(const std::string& text, int changes) {
  return Changed(WalkBack, Parsed(text), changes);
}

// Which of the loops, in their order, walk back.
std::string Directions(const Function& fn) {
  std::string out;
  for (OpId id : OpsInOrder(fn)) {
    if (fn.ops[id].kind != OpKind::kFor) continue;
    bool back = false;
    const BlockId body = fn.ops[id].regions[0];
    for (OpId inner : fn.blocks[body].ops)
      back = back || (fn.ops[inner].kind == OpKind::kSub &&
                      fn.ops[inner].operands[1] == fn.blocks[body].args[0]);
    out += back ? '<' : '>';
  }
  return out;
}

TEST(WalkBack, TheSecondLoopOfThree) {
  const Function before = Parsed(ThreeWalks()), after = WalkedBack(ThreeWalks(), 1);
  EXPECT_EQ(Directions(after), "><>");  // the third begins where the second ended
  EXPECT_EQ(WalkResults(before), WalkResults(after));
}

// A program of the first and the last loop.
std::string TwoWalks() {
  std::string text = ThreeWalks();
  const size_t from = text.find("      %t = for"), to = text.find("      %st = sub");
  text.erase(from, to - from);
  return With(text, "sub %s, %t", "sub %s, %none");
}

TEST(WalkBack, NoMoreMeetingsThanBefore) {
  const Function after = WalkedBack(TwoWalks(), 1);
  EXPECT_EQ(Directions(after), "><");
  EXPECT_EQ(WalkResults(Parsed(TwoWalks())), WalkResults(after));
  EXPECT_TRUE(StoredOver(after).empty());  // and goes on by what is stored
  DiagSink diags;
  const Result<Function> warps = Sequentialize(after, H200(), {}, diags);
  ASSERT_TRUE(warps.ok());
  EXPECT_EQ(Count(*warps, OpKind::kCtaSync), 0);
}

// Rows at odd places, and what a loop loads beside the row: as many vectors that all rows share.
std::string Sliding(int64_t vectors) {
  std::string text = TwoWalks();
  for (const auto& [from, to] : {std::pair("2504", "2501"),
                                 {"stride_align=16", "stride_align=2"},
                                 {"last_align=8", "last_align=1"}})
    text = With(text, from, to);
  for (int64_t v = 0; v < vectors; ++v) {
    const std::string n = std::to_string(v);
    text = With(text, "  param dim %R: i64",
                "  param tensor %G" + n +
                    ": tensor<f32, 1> in [2501] align=16 stride_align=16 contiguous=1 "
                    "last_align=1\n  param dim %R: i64");
    text = With(text, "        %y = sub %x3,",
                "        %g" + n + " = load %G" + n +
                    ", %at {modes = \"r\", sizes = [1024]} : f32[1024]\n        %y = sub %x3,");
  }
  return text;
}

TEST(WalkBack, RowsThatSlideOnlyWithTwoVectors) {
  for (const int64_t vectors : {0, 1, 2}) {
    ASSERT_TRUE(SlideOf(Parsed(Sliding(vectors))).has_value());
    EXPECT_EQ(Directions(WalkedBack(Sliding(vectors), vectors == 2)), vectors == 2 ? "><" : ">>");
  }
}

TEST(WalkBack, WhoseOrderCouldBeToldStays) {
  // Shorter turns than the store is long: the last one counts.
  WalkedBack(With(With(TwoWalks(), "for %0, %C {step = 1024}", "for %0, %C {step = 512}"),
                  "for %0, %C, %none {step = 1024}", "for %0, %C, %none {step = 512}"),
             0);
  // Turns that are not known; other turns; another tensor.
  WalkedBack(With(TwoWalks(), "for %0, %C {step", "for %0, %R {step"), 0);
  WalkedBack(With(TwoWalks(), "for %0, %C {step = 1024}", "for %0, %C {step = 2048}"), 0);
  WalkedBack(With(With(TwoWalks(), "%xb3 = load %X", "%xb3 = load %Z"), "  param dim %R: i64",
                  "  param tensor %Z: tensor<bf16, 2> in [R, 2504] align=16 stride_align=2 "
                  "contiguous=1 last_align=1\n  param dim %R: i64"),
             0);
  // What a turn carries is neither added nor compared.
  const std::string recurrence = With(ThreeWalks(), "%an2 = add %a2, %q2",
                                      "%h = mul %a2, %q2 : f32[1]\n"
                                      "        %an2 = add %h, %q2");
  EXPECT_EQ(Directions(WalkedBack(recurrence, 1)), ">><");
}

}  // namespace
}  // namespace tilec::ir
