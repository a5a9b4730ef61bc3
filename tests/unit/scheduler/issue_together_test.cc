// Two products of an iteration in one turn (scheduler/issue_together.h).
//
// SPDX-License-Identifier: Apache-2.0
#include "scheduler/issue_together.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/unit/lower/helper.h"

namespace tilec::scheduler {
namespace {

using ir::Function;
using ir::OpId;
using ir::OpKind;

// c = c · 2 + e4m3(2^(q·kᵀ)) · v, and l, a sum of rows of the exponentials.
constexpr const char* kLoop = R"(func @turns tile {
  param tensor %Q: tensor<e4m3, 2> in [M, 64] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %K: tensor<e4m3, 2> in [L, 64] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %V: tensor<e4m3, 2> in [64, L] align=16 stride_align=16 contiguous=1 last_align=16
  param tensor %O: tensor<f32, 2> out [M, 64] align=16 stride_align=16 contiguous=1 last_align=16
  param dim %M: i64
  param dim %L: i64
  body {
    %0 = constant {value = 0} : i64
    %w = constant {value = 128} : i64
    parallel %0, %M {steps = [128]} do (%m: i64) {
      %z = constant {value = 0} : f32[128, 64]
      %two = constant {value = 2} : f32[128, 64]
      %me = add %m, %w : i64
      %end = min %me, %M : i64
      %to = constant {value = 64} : i64
      %q = load %Q, %m, %0 {modes = "rr", sizes = [128, 64]} : e4m3[128, 64]
      %acc = for %0, %L, %z {step = 64} : f32[128, 64] do (%k: i64, %c: f32[128, 64]) {
        %kt = load %K, %k, %0 {modes = "rr", sizes = [64, 64]} : e4m3[64, 64]
        %ktt = transpose %kt {perm = [1, 0]} : e4m3[64, 64]
        %s = dot %q, %ktt, %z : f32[128, 64]
        %p = exp2 %s : f32[128, 64]
        %b = cast %p : e4m3[128, 64]
        %d = mul %c, %two : f32[128, 64]
        %vt = load %V, %0, %k {modes = "rr", sizes = [64, 64]} : e4m3[64, 64]
        %vtt = transpose %vt {perm = [1, 0]} : e4m3[64, 64]
        %n = dot %b, %vtt, %d : f32[128, 64]
        yield %n
      }
      store %O, %acc, %m, %end, %0, %to {modes = "rr", sizes = [128, 64]}
      yield
    }
  }
}
)";

class IssueTogetherTest : public testing::Test {
 protected:
  void SetUp() override {
    fn_ = ir::Parsed(kLoop);
    loop_ = ir::Find(fn_, OpKind::kFor);
    int64_t cycle = 1000;
    // As solved: an iteration's ops one after the other, 100 cycles each, II 600.
    for (OpId id : fn_.blocks[fn_.ops[loop_].regions[0]].ops) {
      const OpKind kind = fn_.ops[id].kind;
      if (kind == OpKind::kLoad || kind == OpKind::kTranspose || kind == OpKind::kYield) continue;
      schedule_.ops[id] = {0, cycle};
      cycle += 100;
      if (kind == OpKind::kDot) schedule_.in_flight.insert(id);
      if (kind == OpKind::kExp2) longest_ = id;
    }
    schedule_.ii = 600;
    schedule_.warpgroups = 2;
  }
  // Names of ops by slot, with the stage of each.
  std::string Order() const {
    std::vector<std::pair<int64_t, std::string>> slots;
    for (const auto& [id, time] : schedule_.ops)
      slots.emplace_back(time.cycle % schedule_.ii, ir::Info(fn_.ops[id].kind).mnemonic +
                                                        std::to_string(time.cycle / schedule_.ii));
    std::sort(slots.begin(), slots.end());
    std::string out;
    for (const auto& [slot, name] : slots) out += (out.empty() ? "" : " ") + name;
    return out;
  }

  Function fn_;
  OpId loop_, longest_;
  ir::LoopSchedule schedule_;
};

TEST_F(IssueTogetherTest, WhatIsLeftStandsBetweenTheProductsOfATurn) {
  ASSERT_TRUE(IssueTogether(fn_, loop_, longest_, &schedule_));
  EXPECT_EQ(Order(), "mul2 dot1 cast2 dot2 exp21");
  // The program that it becomes has that order and one stage between them.
  std::string why;
  const std::optional<ir::LoopPlan> plan = PlanLoop(fn_, loop_, schedule_, &why);
  ASSERT_TRUE(plan) << why;
  EXPECT_EQ(plan->stages, 1);
}

TEST_F(IssueTogetherTest, OneWarpgroupKeepsItsOrder) {
  schedule_.warpgroups = 1;
  const std::string before = Order();
  EXPECT_FALSE(IssueTogether(fn_, loop_, longest_, &schedule_));
  EXPECT_EQ(Order(), before);
}

// From the first product to the second one of the iteration before: 400 of 600 cycles, twice.
TEST_F(IssueTogetherTest, TurnsThatOverlapAreSeen) {
  EXPECT_TRUE(TurnsOverlap(fn_, loop_, schedule_));
  schedule_.ii = 801;
  EXPECT_FALSE(TurnsOverlap(fn_, loop_, schedule_)) << "there is room for both";
  schedule_.ii = 390;  // the second one is 10 cycles behind the first of the next iteration
  EXPECT_FALSE(TurnsOverlap(fn_, loop_, schedule_));
  schedule_.ii = 600;
  schedule_.warpgroups = 1;
  EXPECT_FALSE(TurnsOverlap(fn_, loop_, schedule_)) << "nobody else takes turns";
}

TEST_F(IssueTogetherTest, ProductsAtOnceKeepTheirOrder) {
  schedule_.in_flight.clear();
  EXPECT_FALSE(IssueTogether(fn_, loop_, longest_, &schedule_));
}

TEST_F(IssueTogetherTest, TheLongestOpStandsBetweenTheProducts) {
  EXPECT_FALSE(IssueTogether(fn_, loop_, ir::Find(fn_, OpKind::kDot), &schedule_));
}

}  // namespace
}  // namespace tilec::scheduler
