// The image of a product and arguments for it; a launch that is planned both ways, which must say
// the same.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "runtime/launch.h"
#include "tests/unit/same_plan.h"

namespace tilec::runtime {

using backend::Direction;
using backend::EntryParam;
using backend::KernelImage;

inline Expr E(const char* text) { return *ParseExpr(text); }

// gemm(A: bf16[M, K], B: bf16[N, K], C: out bf16[M, N], scale: f32), tiles of 128 x 256.
inline KernelImage Gemm() {
  KernelImage k;
  k.name = k.entry = "gemm";
  k.target = "sm_90a";
  k.tensors = {{"A", "bf16", Direction::kIn, {E("M"), E("K")}, false},
               {"B", "bf16", Direction::kIn, {E("N"), E("K")}, false},
               {"C", "bf16", Direction::kOut, {E("M"), E("N")}, false}};
  k.scalars = {{"scale", "f32"}};
  k.statics = {{"BM", 128}};
  k.tensor_maps = {{"A", "bf16", {E("K"), E("M")}, {E("A.stride0 * 2")}, {64, 128}, {}, 128}};
  k.params = {{EntryParam::Kind::kTensorMap, "", 0, {}, ""},
              {EntryParam::Kind::kTensorPointer, "C", -1, {}, ""},
              {EntryParam::Kind::kInt, "", -1, E("C.stride0"), ""},
              {EntryParam::Kind::kScalar, "scale", -1, {}, "f32"}};
  k.grid[0] = E("(M + 127) / 128");
  k.grid[1] = E("(N + 255) / 256");
  k.block = 128;
  k.smem_bytes = 1000;
  return k;
}

inline LaunchArgs GemmArgs(int64_t m, int64_t n, int64_t k) {
  LaunchArgs a;
  a.tensors["A"] = {"bf16", 0x1000, {m, k}, {}};
  a.tensors["B"] = {"bf16", 0x2000, {n, k}, {}};
  a.tensors["C"] = {"bf16", 0x3000, {m, n}, {}};
  a.scalars["scale"] = 0.5;
  return a;
}

// Both ways, which must say the same.
inline Result<LaunchPlan> Plan(const KernelImage& image, const LaunchArgs& args, DiagSink& diags) {
  ExpectSamePlans(image, args);
  return PlanLaunch(image, args, diags);
}

// The first diagnostic's text, "" if the launch can be planned.
inline std::string Error(const KernelImage& image, const LaunchArgs& args) {
  DiagSink diags;
  const auto plan = Plan(image, args, diags);
  EXPECT_EQ(plan.ok(), !diags.has_errors());
  return diags.all().empty() ? "" : Render(diags.all().front(), SourceMap());
}

#define EXPECT_SAYS(text, part) EXPECT_NE((text).find(part), std::string::npos) << "got: " << (text)

}  // namespace tilec::runtime
