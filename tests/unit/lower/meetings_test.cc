// Reductions across warps meet together where nothing of one depends on the other, and pass through
// bytes of their own where that spares a barrier.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/lower/meetings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "ir/lower/sequential.h"
#include "ir/plan_text.h"
#include "tests/unit/lower/helper.h"

namespace tilec::ir {
namespace {

// Rows of 4096 in tiles, one of them at a time: the body of the loop over chunks is given. It
// carries %a, %b and %d and yields three values.
Function Rows(const std::string& body) {
  return Parsed(R"(func @rows tile {
  param tensor %X: tensor<f32, 2> in [R, C] align=16 stride_align=16 contiguous=1 last_align=4
  param tensor %Y: tensor<f32, 1> out [R] align=16 stride_align=16 contiguous=1 last_align=4
  param tensor %Z: tensor<f32, 2> inout [R, C] align=16 stride_align=16 contiguous=1 last_align=4
  param dim %R: i64
  param dim %C: i64
  body {
    %0 = constant {value = 0} : i64
    parallel %0, %R {steps = [1]} do (%r: i64) {
      %start = constant {value = 0} : f32[1]
      %s, %t, %u = for %0, %C, %start, %start, %start {step = 4096} : f32[1], f32[1], f32[1]
          do (%c: i64, %a: f32[1], %b: f32[1], %d: f32[1]) {
        %x = load %X, %r, %c {modes = "rr", sizes = [1, 4096]} : f32[1, 4096]
        %largest = reduce %x {kind = "max", axis = 1} : f32[1]
)" + body + R"(
      }
      %st = add %s, %t : f32[1]
      %stu = add %st, %u : f32[1]
      %row = constant {value = 1} : i64
      %e = add %r, %row : i64
      store %Y, %stu, %r, %e {modes = "r", sizes = [1]}
      yield
    }
  }
}
)");
}

// `alone` of the reductions, in program order.
std::vector<int64_t> AloneIn(const Function& tile) {
  DiagSink diags;
  const Result<Function> warps = Sequentialize(tile, H200(), {}, diags);
  EXPECT_TRUE(warps.ok());
  if (!warps.ok()) return {};
  ExpectVerified(*warps);
  EXPECT_EQ(Said(*warps), "");
  std::vector<int64_t> alone;
  for (OpId id : OpsInOrder(*warps))
    if (warps->ops[id].kind == OpKind::kWarpReduce) alone.push_back(warps->ops[id].i("alone", 0));
  return alone;
}

// The lines of the plan that say where the program departs from its order.
std::string ChangesIn(const ProgramPlan& plan, const Function& tile) {
  std::string lines;
  const std::string text = ToText(plan, tile);
  for (size_t at = 0; at < text.size(); at = text.find('\n', at) + 1)
    if (text.compare(at, 8, "changed ") == 0)
      lines += text.substr(at, text.find('\n', at) + 1 - at);
  return lines;
}

const char* const kThree = R"(
        %an = max %a, %largest : f32[1]
        %m = broadcast %an {axes = [0, 1]} : f32[1, 4096]
        %below = sub %x, %m : f32[1, 4096]
        %q = reduce %below {kind = "sum", axis = 1} : f32[1]
        %bn = mul %b, %q : f32[1]
        %xx = mul %x, %x : f32[1, 4096]
        %squares = reduce %xx {kind = "sum", axis = 1} : f32[1]
        %dn = mul %d, %squares : f32[1]
        yield %an, %bn, %dn)";

TEST(Meetings, ReductionsThatDependOnNothingShareABarrier) {
  // The largest and the squares meet together; the sum below waits for the largest.
  std::string body = kThree;
  body = With(body, "%m = broadcast %an {axes = [0, 1]} : f32[1, 4096]",
              "%column = reshape %an : f32[1, 1]\n"
              "        %m = broadcast %column {axes = [0, 1]} : f32[1, 4096]");
  EXPECT_EQ(AloneIn(Rows(body)), (std::vector<int64_t>{2, 1, 1}));
}

TEST(Meetings, ThePlanSaysWhichReductionLeftItsPlace) {
  std::string body = kThree;
  body = With(body, "%m = broadcast %an {axes = [0, 1]} : f32[1, 4096]",
              "%column = reshape %an : f32[1, 1]\n"
              "        %m = broadcast %column {axes = [0, 1]} : f32[1, 4096]");
  const Function tile = Rows(body);
  DiagSink diags;
  ProgramPlan plan;
  ASSERT_TRUE(Sequentialize(tile, H200(), {}, diags, &plan).ok());
  EXPECT_EQ(ChangesIn(plan, tile),
            "changed what=mul1.place from=8 to=1 why=with_reduce2\n"
            "changed what=reduce0.place from=1 to=2 why=in_front_of_reduce2_for_one_barrier\n"
            "changed what=reduce2.place from=9 to=3 why=behind_reduce0_for_one_barrier\n");
  // Where nothing moves, nothing is said.
  ProgramPlan unmoved;
  const Function one = Rows(R"(
        %an = mul %a, %largest : f32[1]
        yield %an, %b, %d)");
  ASSERT_TRUE(Sequentialize(one, H200(), {}, diags, &unmoved).ok());
  EXPECT_EQ(ChangesIn(unmoved, one), "");
}

TEST(Meetings, OneMeetingInATurnKeepsItsBarriers) {
  // Whoever writes its part again must know that all have read it.
  EXPECT_EQ(AloneIn(Rows(R"(
        %an = mul %a, %largest : f32[1]
        yield %an, %b, %d)")),
            std::vector<int64_t>{0});
  // Two that could share their only barrier have one each: each is what the other one waits for.
  EXPECT_EQ(AloneIn(Rows(R"(
        %an = mul %a, %largest : f32[1]
        %xx = mul %x, %x : f32[1, 4096]
        %squares = reduce %xx {kind = "sum", axis = 1} : f32[1]
        %dn = mul %d, %squares : f32[1]
        yield %an, %b, %dn)")),
            (std::vector<int64_t>{1, 1}));
}

TEST(Meetings, WhatIsReadBehindAStoreStaysBehindIt) {
  const Function fn = Rows(R"(
        %an = mul %a, %largest : f32[1]
        %columns = add %c, %C : i64
        %rows = add %r, %C : i64
        store %Z, %x, %r, %rows, %c, %columns {modes = "rr", sizes = [1, 4096]}
        %z = load %Z, %r, %c {modes = "rr", sizes = [1, 4096]} : f32[1, 4096]
        %q = reduce %z {kind = "sum", axis = 1} : f32[1]
        %dn = mul %d, %q : f32[1]
        yield %an, %b, %dn)");
  for (OpId id : OpsInOrder(fn)) {
    if (fn.ops[id].kind != OpKind::kFor) continue;
    const BlockId body = fn.ops[id].regions[0];
    const auto meets = [&](OpId op) { return fn.ops[op].kind == OpKind::kReduce; };
    const auto none = [](OpId) { return int64_t{0}; };
    EXPECT_EQ(MeetTogether(fn, body, meets, none), fn.blocks[body].ops);
  }
}

// Three largest values of three tiles of one row: together, or, where a thread holds 16 elements of
// each, two and one.
TEST(Meetings, NoMoreThanThreadsHold) {
  const Function fn = Rows(R"(
        %an = mul %a, %largest : f32[1]
        %c1 = add %c, %C : i64
        %x1 = load %X, %r, %c1 {modes = "rr", sizes = [1, 4096]} : f32[1, 4096]
        %l1 = reduce %x1 {kind = "max", axis = 1} : f32[1]
        %bn = mul %b, %l1 : f32[1]
        %c2 = add %c1, %C : i64
        %x2 = load %X, %r, %c2 {modes = "rr", sizes = [1, 4096]} : f32[1, 4096]
        %l2 = reduce %x2 {kind = "max", axis = 1} : f32[1]
        %dn = mul %d, %l2 : f32[1]
        yield %an, %bn, %dn)");
  for (OpId id : OpsInOrder(fn)) {
    if (fn.ops[id].kind != OpKind::kFor) continue;
    const BlockId body = fn.ops[id].regions[0];
    const auto meets = [&](OpId op) { return fn.ops[op].kind == OpKind::kReduce; };
    for (const auto& [holds, first_run] : {std::pair{0, 3}, {16, 2}, {17, 1}}) {
      const std::vector<OpId> order =
          MeetTogether(fn, body, meets, [&, n = holds](OpId) { return int64_t{n}; });
      EXPECT_EQ(order.size(), fn.blocks[body].ops.size());
      const auto begin = std::find_if(order.begin(), order.end(), meets);
      const auto end = std::find_if(begin, order.end(), [&](OpId op) { return !meets(op); });
      EXPECT_EQ(end - begin, first_run) << holds;
    }
  }
}

}  // namespace
}  // namespace tilec::ir
