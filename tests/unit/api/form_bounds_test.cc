// What a choice of tiles leaves out is what cannot change it: two launches that are known to take
// longer than what is at hand, and layouts where warpgroups alone are asked for.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "api/machine.h"
#include "api/split.h"
#include "ir/lower/plan.h"
#include "ir/passes/divide_reductions.h"
#include "ir/text.h"
#include "scheduler/copy_lines.h"
#include "scheduler/form_times.h"
#include "tests/unit/api/loaded.h"

namespace tilec::api {
namespace {

class FormBoundsTest : public LibraryTest {
 protected:
  void SetUp() override {
    DiagSink diags;
    auto machine = MachineOf(PipelineOptions(), diags);
    ASSERT_TRUE(machine.ok());
    machine_ = *machine;
  }
  ir::Function CleanOf(const Call& call) {
    DiagSink diags;
    auto fn = MakeTileIr(loaded_, signature_.kernel, call, nullptr, diags);
    if (!fn.ok()) return {};
    auto clean = Clean(*std::move(fn), {}, diags);
    return clean.ok() ? std::move(clean->fn) : ir::Function();
  }
  Call Decode() {
    Load("std/attention.tile", "attention");
    return Of({{"B", int64_t{1}},
               {"H", int64_t{32}},
               {"G", int64_t{8}},
               {"S", int64_t{1}},
               {"L", int64_t{11264}},
               {"D", int64_t{128}},
               {"BQ", int64_t{16}},
               {"BKV", int64_t{128}},
               {"scale", 0.1}});
  }
  Machine machine_;
};

// No bound says more than what it bounds, and what is not longer is given as it was.
TEST_F(FormBoundsTest, TwoLaunchesAreLeftOutWhereTheyTakeLonger) {
  const Call call = Decode();
  const Bindings names = NamesOf(call);
  const ir::Function fn = CleanOf(call);
  const ir::Target& target = *machine_;
  const scheduler::ShapeOf none;
  scheduler::FormTimes times(target, names,
                             scheduler::AskedByCopies(fn, target, call.row_starts, names), none);
  for (const int64_t groups : {2, 3, 5, 16}) {
    const scheduler::DividedPtr divided = scheduler::DivideForm(fn, groups, 1, target);
    ASSERT_NE(divided, nullptr);
    const auto time = times.TimeOf(*divided, 1, scheduler::kAnyTime);
    ASSERT_TRUE(time);
    EXPECT_LE(times.LeastDivided(1), time->ms);
    const auto again = times.TimeOf(*divided, 1, time->ms);
    ASSERT_TRUE(again);
    EXPECT_EQ(again->ms, time->ms);
    const auto parts = times.TimeOf(divided->parts, 1, 1);
    ASSERT_TRUE(parts);
    EXPECT_FALSE(times.TimeOf(*divided, 1, parts->ms));
    EXPECT_FALSE(times.TimeOf(*divided, 1, times.LeastDivided(1) / 2));
  }
}

TEST_F(FormBoundsTest, HalvesOfADivisionAreTheDivision) {
  const ir::Function fn = CleanOf(Decode());
  for (const int64_t groups : {2, 9}) {
    ir::Division both;
    ir::Function parts;
    ASSERT_FALSE(ir::DivideReductions(fn, groups, &both));
    ASSERT_FALSE(ir::PartsOfReductions(fn, groups, &parts));
    EXPECT_EQ(ir::Print(parts), ir::Print(both.parts));
    EXPECT_EQ(ir::Print(ir::WholeOfReductions(fn, groups)), ir::Print(both.whole));
  }
}

TEST_F(FormBoundsTest, WarpgroupsAreThoseOfThePlan) {
  const auto same = [&](const ir::Function& fn, const std::string& what) {
    ASSERT_GT(fn.ops.size(), 0) << what;
    EXPECT_EQ(ir::PlannedWarpgroups(fn, *machine_), ir::MakePlan(fn, *machine_).warpgroups) << what;
  };
  const ir::Function decode = CleanOf(Decode());
  same(decode, "attention");
  for (const int64_t groups : {2, 9}) same(ir::WholeOfReductions(decode, groups), "its sums");
  const int64_t rows = 512, columns = 4096;
  const std::vector<std::tuple<std::string, std::string, Given>> others = {
      {"std/matmul.tile", "gemm", {{"M", rows}, {"N", columns}, {"K", columns}}},
      {"std/softmax.tile", "softmax", {{"R", rows}, {"C", columns}}},
      {"std/norm.tile", "layernorm", {{"R", rows}, {"C", columns}, {"eps", 1e-5}}},
      {"std/transpose.tile", "transpose", {{"M", rows}, {"N", columns}}}};
  for (const auto& [file, kernel, given] : others) {
    Load(file, kernel);
    same(CleanOf(Of(given)), kernel);
  }
}

}  // namespace
}  // namespace tilec::api
