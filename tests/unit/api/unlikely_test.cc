// `if unlikely(…)` as a launch of its own (ir/passes/defer_unlikely.h): which branches become
// one, why others stay where they are, and that tiles without a mark are left alone.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "api/divided.h"
#include "include/tilec/tilec.h"
#include "ir/passes/defer_unlikely.h"
#include "runtime/launch.h"
#include "tests/unit/api/loaded.h"

namespace tilec {
namespace {

class UnlikelyTest : public LibraryTest {
 protected:
  // A kernel k(X: f32[M, 64], Y: out f32[M, 64]) with this in its grid.
  ir::Function Of(const std::string& body, const std::string& more = "") {
    LoadText(loaded_, "kernel k(X: f32[M, N], Y: out f32[M, N]" + more +
                          ") where N <= 64 {\n  parallel m in tiles(M, 8) {\n" +
                          "    let x = X[m, 0..64]\n    let large = sum(x, axis = 1) > 100.0\n" +
                          body + "\n  }\n}\n");
    auto fn = api::MakeTileIr(loaded_, "k", {}, nullptr, diags_);
    EXPECT_TRUE(fn.ok()) << RenderAll(diags_, loaded_.sources);
    return fn.ok() ? *std::move(fn) : ir::Function();
  }
  // "" or why it stays.
  std::string Obstacle(const std::string& body, const std::string& more = "") {
    const ir::Function fn = Of(body, more);
    ir::Deferral deferral;
    const std::optional<ir::Obstacle> why = ir::DeferUnlikely(fn, &deferral);
    return why ? why->why : "";
  }
  DiagSink diags_;
};

TEST_F(UnlikelyTest, LastBranchesOfATileCanWait) {
  EXPECT_EQ(Obstacle(R"(if unlikely(any(large)) { Y[m, 0..64] = x * 0.5 }
                        else { Y[m, 0..64] = x })"),
            "");
  // What it assigns nobody reads behind it.
  EXPECT_EQ(Obstacle(R"(var n = 3
                        if unlikely(any(large)) {
                          n += 1
                          Y[m, 0..64] = x * (n as f32)
                        } else {
                          Y[m, 0..64] = x * (n as f32)
                          n = 0
                        })"),
            "");
  EXPECT_EQ(Obstacle(R"(Y[m, 0..64] = x
                        if unlikely(any(large)) { Y[m, 0..64] = x * 0.5 })"),
            "");
}

TEST_F(UnlikelyTest, OthersStayAndSayWhy) {
  EXPECT_EQ(Obstacle(R"(if x[0, 0] > 0.0 {
                          if unlikely(any(large)) { Y[m, 0..64] = x * 0.5 }
                        })"),
            "it stands in a loop or in another branch");
  EXPECT_EQ(Obstacle(R"(var y = x
                        if unlikely(any(large)) { y = x * 0.5 }
                        Y[m, 0..64] = y)"),
            "what it assigns is used behind it");
  EXPECT_EQ(Obstacle(R"(if unlikely(any(large)) { Y[m, 0..64] = x * 0.5 }
                        Y[m, 0..64] = x)"),
            "something stands behind it");
  EXPECT_EQ(Obstacle(R"(if unlikely(any(large)) { Y[m, 0..32] = x[:, 0..32] }
                        else { Y[m, 0..64] = x })"),
            "it stores something else than `else` does, or elsewhere");
  EXPECT_EQ(Obstacle(R"(let z = Z[m]
                        if unlikely(any(large)) { Y[m, 0..64] = x * z[:, None] }
                        else { Z[m] = z + 1.0 })",
                     ", Z: inout f32[M]"),
            "what is read here the kernel writes as well");
  EXPECT_EQ(Obstacle(R"(if unlikely(any(large)) { Y[m, 0..64] = x }
                        else { atomic_add(C[0], 1) })",
                     ", C: inout i32[1]"),
            "`else` writes in a loop, in a branch or atomically");
}

TEST_F(UnlikelyTest, TheWordStandsAroundAConditionOnly) {
  LoadText(loaded_, R"(kernel k(X: f32[N], Y: out f32[N]) {
  parallel n in 0..N {
    let large = unlikely(X[n] > 1.0)
    Y[n] = select(large, 1.0, X[n])
  }
}
)");
  EXPECT_FALSE(api::MakeTileIr(loaded_, "k", {}, nullptr, diags_).ok());
  ASSERT_FALSE(diags_.all().empty());
  EXPECT_NE(RenderAll(diags_, loaded_.sources).find("if unlikely(c) { … }"), std::string::npos);
}

// Of two the last is made behind all tiles; with a schedule or a plan that is given neither is.
TEST_F(UnlikelyTest, WhatStaysInFrontOfAnotherIsSaid) {
  const ir::Function fn = Of(R"(if unlikely(any(large)) { Y[m, 0..64] = x * 0.5 }
                                if unlikely(any(large)) { Y[m, 0..64] = x }
                                else { Y[m, 0..64] = x + 1.0 })");
  auto launches = api::LaunchesOf(loaded_, fn, {}, diags_);
  ASSERT_TRUE(launches.ok());
  EXPECT_EQ(launches->programs.size(), 2u);
  EXPECT_NE(RenderAll(diags_, loaded_.sources).find("R617"), std::string::npos);
  EXPECT_NE(RenderAll(diags_, loaded_.sources).find("another one stands behind it"),
            std::string::npos);
  loaded_.plan_file = 0;
  launches = api::LaunchesOf(loaded_, fn, {}, diags_);
  ASSERT_TRUE(launches.ok());
  EXPECT_EQ(launches->programs.size(), 1u);
  EXPECT_NE(RenderAll(diags_, loaded_.sources).find("is of one program"), std::string::npos);
  diags_.Clear();
}

// A tensor of marks without rows has the strides of one with rows, by both planners.
TEST_F(UnlikelyTest, NoTilesAreNoFault) {
  LoadText(loaded_, R"(
kernel k(X: f32[M, 64], Y: out f32[M, 64]) {
  parallel m in tiles(M, 8) {
    let x = X[m, :]
    if unlikely(any(sum(x, axis = 1) > 100.0)) { Y[m, :] = x * 0.5 } else { Y[m, :] = x }
  }
})");
  auto image = api::CompileCall(loaded_, "k", {}, {}, {}, diags_);
  ASSERT_TRUE(image.ok()) << RenderAll(diags_, loaded_.sources);
  runtime::LaunchArgs args;
  for (const char* name : {"X", "Y"}) args.tensors[name] = {"f32", 4096, {0, 64}, {}};
  EXPECT_TRUE(runtime::PlanLaunch(*image, args, diags_).ok()) << RenderAll(diags_, loaded_.sources);
  diags_.Clear();
}

TEST_F(UnlikelyTest, ACallHasTwoLaunchesWithMarksBetweenThem) {
  Load("std/attention.tile", "attention");
  const api::Call call = LibraryTest::Of({{"D", int64_t{128}},
                                          {"ONCE", int64_t{1}},
                                          {"BQ", int64_t{192}},
                                          {"BKV", int64_t{80}},
                                          {"scale", 0.088},
                                          {"causal", false}});
  auto image = api::CompileCall(loaded_, "attention", call, {}, {}, diags_);
  ASSERT_TRUE(image.ok()) << RenderAll(diags_, loaded_.sources);
  ASSERT_EQ(image->before.size(), 1u);
  ASSERT_EQ(image->work.size(), 1u);
  EXPECT_EQ(image->work[0].dims[1], Expr::Const(192));  // a mark for each row
  EXPECT_EQ(image->tensors.size(), 4u);
  // What runs for each tile meets nowhere to decide, and the load role is told nothing.
  EXPECT_EQ(image->before[0].ptx.find("vote"), std::string::npos);
}

// Rows of the second launch's tile come from it, all others from the first: a kernel whose branch
// does another thing than its `else` shows which.
TEST(Unlikely, OnlyMarkedTilesAreMadeAgain) {
  constexpr int64_t kRows = 150, kTile = 8;
  CompilerOptions options;
  options.disk_cache = false;
  Compiler compiler = *Compiler::Create(options);
  auto kernel = compiler.CompileText(R"(kernel k(X: f32[M], Y: out f32[M]) {
  parallel m in tiles(M, 8) {
    let x = X[m]
    if unlikely(any(x > 100.0)) { Y[m] = -x } else { Y[m] = x }
  }
}
)",
                                     "t.tile");
  ASSERT_TRUE(kernel.ok());
  Device device = *Device::Open("emulator");
  std::vector<float> x, y(kRows);
  for (int64_t i = 0; i < kRows; ++i) x.push_back(i == 5 || i == 70 || i == 149 ? 200.0f : 1.0f);
  const uint64_t in = *device.Alloc(kRows * 4), out = *device.Alloc(kRows * 4);
  ASSERT_TRUE(device.CopyIn(in, x.data(), kRows * 4).ok());
  Args args;
  args.Set("X", Tensor{DType::kF32, in, {kRows}}).Set("Y", Tensor{DType::kF32, out, {kRows}});
  const Status status = kernel->Launch(device, args);
  ASSERT_TRUE(status.ok()) << status.text();
  ASSERT_TRUE(device.CopyOut(y.data(), out, kRows * 4).ok());
  for (int64_t i = 0; i < kRows; ++i) {
    const int64_t tile = i / kTile;
    const bool marked = tile == 0 || tile == 70 / kTile || tile == 149 / kTile;
    const float was = x[static_cast<size_t>(i)];
    EXPECT_EQ(y[static_cast<size_t>(i)], marked ? -was : was) << i;
  }
}

}  // namespace
}  // namespace tilec
