// Every kernel with a loop, compiled as by default, for the trip counts at which a pipeline can go
// wrong: none, one, two, around the depth of a ring, many; whole tiles and ragged ones. The PTX of
// the emulator's run must agree with the interpreter.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tools/runner.h"
#include "tools/session.h"

namespace tilec {
namespace {

struct Row {
  const char* file;
  const char* kernel;
  const char* dims;  // the loop's; set to the same extent
  int64_t step;      // of the loop with the default tunes
  int64_t least;     // extent that the kernel accepts
  std::vector<std::pair<const char*, std::variant<bool, int64_t, double>>> rest;
};

const Row kRows[] = {
    {"stdlib/matmul.tile", "gemm", "K", 64, 0, {{"M", 130}, {"N", 72}}},
    {"stdlib/matmul.tile", "gemm", "K", 64, 0, {{"M", 3}, {"N", 264}}},  // skinny
    {"stdlib/matmul.tile", "gemm_tn", "K", 64, 0, {{"M", 72}, {"N", 40}}},
    {"stdlib/matmul_fused.tile", "gemm_bias_gelu", "K", 64, 0, {{"M", 72}, {"N", 40}}},
    {"stdlib/matmul_fused.tile", "gemm_bias_relu", "K", 64, 0, {{"M", 72}, {"N", 40}}},
    {"stdlib/matmul_fused.tile", "gemm_bias_silu", "K", 64, 0, {{"M", 72}, {"N", 40}}},
    {"stdlib/matmul_fused.tile", "gemm_batched", "K", 64, 0, {{"Z", 2}, {"M", 72}, {"N", 40}}},
    {"stdlib/matmul_types.tile", "gemm_e4m3", "K", 128, 0, {{"M", 72}, {"N", 48}}},
#define ATTENTION(d, bkv, causal, l)                                                  \
  {                                                                                   \
    "stdlib/attention.tile", "attention", l, bkv, 1, {                                \
      {"B", 1}, {"H", 1}, {"G", 1}, {"D", d}, {"scale", 0.125}, {"causal", causal}, { \
        causal ? "B" : "S", causal ? 1 : 72                                           \
      }                                                                               \
    }                                                                                 \
  }
    ATTENTION(64, 128, false, "L"),
    ATTENTION(64, 128, true, "SL"),
    ATTENTION(128, 128, false, "L"),
    ATTENTION(128, 128, true, "SL"),
    ATTENTION(256, 80, false, "L"),
    ATTENTION(256, 80, true, "SL"),
#undef ATTENTION
    {"stdlib/softmax.tile", "softmax", "C", 256, 1, {{"R", 5}}},
    {"stdlib/softmax.tile", "softmax_bf16", "C", 256, 1, {{"R", 5}}},
    {"stdlib/norm.tile", "layernorm", "C", 256, 1, {{"R", 5}, {"eps", 1e-5}}},
    {"stdlib/norm.tile", "rmsnorm", "C", 256, 1, {{"R", 5}, {"eps", 1e-5}}},
    {"stdlib/reduce.tile", "row_sum", "C", 256, 0, {{"R", 5}}},
    {"tests/exec/glu.tile", "swiglu", "K", 64, 0, {{"M", 72}, {"N", 40}}},
    {"tests/exec/conv1d.tile", "conv1d", "I", 64, 0, {{"T", 72}, {"O", 40}, {"S", 3}}},
    {"tests/exec/cross_entropy.tile", "cross_entropy", "C", 128, 1, {{"R", 9}}},
    {"tests/exec/dequant.tile", "gemm_w8", "K", 64, 0, {{"M", 72}, {"N", 40}}},
    {"tests/exec/dequant.tile", "gemm_w4", "H", 64, 0, {{"M", 72}, {"N", 40}}},
    {"tests/exec/embedding.tile",
     "embed_rmsnorm",
     "C",
     128,
     1,
     {{"T", 9}, {"V", 17}, {"eps", 1e-5}}},
    {"tests/exec/gram.tile", "gram", "N", 64, 0, {{"D", 72}}},
    {"tests/exec/linear_attention.tile", "linear_attention", "T", 64, 0, {{"H", 1}, {"D", 64}}},
    {"tests/exec/logsumexp.tile", "logsumexp_argmax", "C", 128, 1, {{"R", 9}}},
    {"tests/exec/masked_softmax.tile", "masked_softmax", "C", 128, 1, {{"R", 9}}},
    {"tests/exec/pairwise.tile", "pairwise", "K", 64, 0, {{"M", 72}, {"N", 40}}},
    {"tests/exec/residual_norm.tile", "residual_rmsnorm", "C", 256, 1, {{"R", 9}, {"eps", 1e-5}}},
    {"tests/exec/split_k.tile", "split_k", "K", 64, 0, {{"M", 72}, {"N", 40}}},
    {"tests/exec/windows.tile", "bands", "K", 64, 0, {{"M", 72}, {"N", 40}, {"J", 3}}},
    {"tests/exec/windows.tile", "token_shift", "C", 64, 0, {{"T", 72}, {"O", 40}, {"shift", 5}}},
};

class Trips : public testing::TestWithParam<size_t> {};

TEST_P(Trips, AgreeForEveryCount) {
  const Row& row = kRows[GetParam()];
  tools::Options options;
  options.cache_dir = testing::TempDir() + "/tilec_trips";  // one compilation per set of facts
  tools::Session session(options);
  const auto device = runtime::OpenEmulator({});
  ASSERT_TRUE(session.LoadFile(std::string(TILEC_SOURCE_DIR) + "/" + row.file).ok());
  int runs = 0;
  // Rings are at most 8 deep; 8 rows of 16 bytes more or fewer keep TMA, 3 elements do not.
  for (int64_t trips : {0, 1, 2, 3, 4, 7, 8, 9, 14})
    for (int64_t ragged : {0, 8, 3}) {
      const int64_t extent = trips * row.step - ragged;
      if (extent < row.least || (ragged == 3 && trips > 3)) continue;
      tools::RunRequest request;
      request.kernel = row.kernel;
      for (const auto& [name, value] : row.rest) request.values[name] = value;
      for (const char* d = row.dims; *d != 0; ++d) request.values[std::string(1, *d)] = extent;
      request.device = device.get();
      request.check = true;
      const auto result = tools::RunKernel(session, request);
      ASSERT_TRUE(result.ok()) << row.kernel << ", extent " << extent << "\n"
                               << RenderAll(session.diags(), session.loaded().sources);
      ++runs;
      for (const tools::TensorRun& t : result->tensors)
        EXPECT_TRUE(!t.compared || t.result.ok()) << row.kernel << ", extent " << extent << ": "
                                                  << t.name << ": " << tools::DescribeCheck(t);
    }
  session.diags().Clear();
  EXPECT_GE(runs, 14);
}

INSTANTIATE_TEST_SUITE_P(Kernels, Trips, testing::Range<size_t>(0, std::size(kRows)),
                         [](const auto& info) {
                           return fmt::format("{}_{}_{}", info.index, kRows[info.index].kernel,
                                              kRows[info.index].dims);
                         });

}  // namespace
}  // namespace tilec
