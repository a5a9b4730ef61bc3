// What `tilec bench` counts, whom it compares with, and how it checks large problems.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "ir/count_work.h"
#include "ir/interpret.h"
#include "tests/unit/h200.h"
#include "tools/bench.h"
#include "tools/prepare.h"
#include "tools/product.h"

namespace tilec::tools {
namespace {

// A kernel of the standard library as tile IR, with all its dims.
struct Made {
  explicit Made(const std::string& kernel, const std::vector<std::string>& words) {
    Options options;
    options.file = kernel;
    options.no_cache = true;
    Session session(options);
    auto prepared = Prepare(session, "bench", words);
    EXPECT_TRUE(prepared.ok());
    if (!prepared.ok()) return;
    auto made = api::MakeTileIr(session.loaded(), prepared->kernel, prepared->call, nullptr,
                                session.diags());
    EXPECT_TRUE(made.ok());
    if (made.ok()) fn.emplace(std::move(*made));
    for (const auto& [name, value] : prepared->call.all)
      if (const auto* i = std::get_if<int64_t>(&value)) names[name] = *i;
  }
  ir::WorkCount Count() const { return ir::CountWork(*fn, names, ir::H200()); }
  std::optional<ir::Function> fn;
  Bindings names;
};

TEST(CountWork, ProductsCountWhatIsInsideTheTensors) {
  const Made gemm("std/matmul.tile:gemm", {"M=300", "N=200", "K=136"});
  const ir::WorkCount w = gemm.Count();
  EXPECT_TRUE(w.exact);
  EXPECT_EQ(w.instances, 3);
  EXPECT_EQ(w.products.at("dot.16"), 2.0 * 300 * 200 * 136);
  EXPECT_EQ(w.least_bytes, 2.0 * (300 * 136 + 200 * 136 + 300 * 200));
  EXPECT_EQ(w.stored_bytes, 2.0 * 300 * 200);
  EXPECT_EQ(w.loaded_bytes, 2.0 * (300 * 136 + 3 * 200 * 136));  // B once per row of tiles
  ASSERT_EQ(w.trips.size(), 1u);
  EXPECT_EQ(w.trips.begin()->second, 3 * 3);
}

TEST(CountWork, CausalAttentionCountsTheTilesItVisits) {
  const std::vector<std::string> words = {"B=2",   "H=4",   "G=2",       "S=300",
                                          "L=300", "D=128", "scale=0.1", "causal=true"};
  const Made attention("std/attention.tile:attention", words);
  const ir::WorkCount w = attention.Count();
  double pairs = 0;
  for (int q = 0; q < 300; q += 128) {
    const int rows = std::min(128, 300 - q), last = std::min(300, q + 128);
    for (int k = 0; k < last; k += 128) pairs += rows * std::min(128, 300 - k);
  }
  EXPECT_TRUE(w.exact);
  EXPECT_EQ(w.instances, 2 * 4 * 3);
  EXPECT_EQ(w.products.at("dot.16"), 2 * 4 * pairs * 128 * 4);
  EXPECT_EQ(w.least_bytes, 2.0 * (2 * 2 * 4 * 300 * 128 + 2 * 2 * 2 * 300 * 128));
}

// What a plain reference sums up decides nothing: one element and one turn stand for 2^36.
TEST(CountWork, SumsThatNobodyAsksOfAreNotWalked) {
  const Made plain("std/models/block_scaled.tile:gemm_mxfp8_plainly",
                   {"M=4096", "N=4096", "K=4096", "KB=128"});
  const ir::WorkCount w = ir::CountWork(*plain.fn, plain.names, ir::H200(), {.edges = false});
  EXPECT_TRUE(w.exact);
  EXPECT_EQ(w.instances, int64_t{1} << 24);
  ASSERT_EQ(w.trips.size(), 1u);
  EXPECT_EQ(w.trips.begin()->second, int64_t{1} << 36);
}

TEST(CountWork, RowsAreReadTwiceAndMoveOnce) {
  const Made norm("std/norm.tile:rmsnorm", {"R=32", "C=500", "eps=0.001", "BR=16", "BC=256"});
  const ir::WorkCount w = norm.Count();
  EXPECT_EQ(w.flops(), 0);
  EXPECT_GT(w.arithmetic, 4.0 * 32 * 500);
  EXPECT_EQ(w.least_bytes, 2.0 * 2 * 32 * 500 + 4 * 500);
  EXPECT_EQ(w.loaded_bytes, 2.0 * 2 * 32 * 500 + 2 * 4 * 500);
  EXPECT_EQ(w.far_bytes, w.least_bytes);  // it all stays in L2
  const Made large("std/norm.tile:rmsnorm", {"R=65536", "C=512", "eps=0.001", "BR=16", "BC=256"});
  const ir::WorkCount l = large.Count();
  EXPECT_EQ(l.far_bytes, 3 * 2.0 * 65536 * 512 + 4 * 512);
}

TEST(FindProduct, KnowsTheFourLayoutsAndNothingElse) {
  const std::vector<std::string> words = {"M=256", "N=256", "K=128"};
  const auto find = [&](const std::string& kernel) { return FindProduct(*Made(kernel, words).fn); };
  const struct {
    const char* kernel;
    bool a, b;
  } rows[] = {{"std/matmul.tile:gemm", false, true},
              {"std/matmul.tile:gemm_nn", false, false},
              {"std/matmul.tile:gemm_tn", true, false},
              {"std/matmul.tile:gemm_tt", true, true}};
  for (const auto& row : rows) {
    const auto p = find(row.kernel);
    ASSERT_TRUE(p) << row.kernel;
    EXPECT_EQ(p->a_turned, row.a) << row.kernel;
    EXPECT_EQ(p->b_turned, row.b) << row.kernel;
    EXPECT_EQ(p->a + p->b + p->c, "ABC");
  }
  EXPECT_EQ(find("std/matmul_types.tile:gemm_e4m3")->in, ir::DType::kE4M3);
  EXPECT_FALSE(find("std/matmul_fused.tile:gemm_bias_gelu"));
  EXPECT_FALSE(find("std/matmul_fused.tile:gemm_bias_relu"));
}

// A sample of the grid gives the values of a full run where it stored, and says nothing elsewhere.
TEST(SampledInterpreter, AgreesWhereItRan) {
  const Made gemm("std/matmul.tile:gemm", {"M=300", "N=600", "K=64"});
  const auto run = [&](int64_t most, ir::InterpretReport* report) {
    ir::InterpretInputs inputs;
    inputs.tensors["A"] = ir::TensorValue::Random(ir::DType::kBF16, {300, 64}, 1);
    inputs.tensors["B"] = ir::TensorValue::Random(ir::DType::kBF16, {600, 64}, 2);
    DiagSink diags;
    auto result = ir::Interpret(*gemm.fn, inputs, {.max_instances = most}, diags);
    EXPECT_TRUE(result.ok());
    *report = *result;
    return inputs.tensors["C"];
  };
  ir::InterpretReport all, some;
  const ir::TensorValue full = run(0, &all), sample = run(2, &some);
  EXPECT_EQ(all.instances, 9);
  EXPECT_EQ(all.interpreted, 9);
  EXPECT_EQ(some.instances, 9);
  EXPECT_EQ(some.interpreted, 2);
  EXPECT_TRUE(full.undecided.empty());
  ASSERT_EQ(sample.undecided.size(), full.v.size());
  int64_t decided = 0;
  for (size_t i = 0; i < full.v.size(); ++i) {
    if (sample.undecided[i]) continue;
    ++decided;
    ASSERT_EQ(sample.v[i], full.v[i]) << i;
  }
  EXPECT_EQ(decided, 128 * 256 + (300 - 256) * (600 - 512));  // the first and the last tile
  EXPECT_FALSE(sample.undecided[0]);
  EXPECT_FALSE(sample.undecided.back());
}

TEST(Median, OfOddAndEven) {
  EXPECT_EQ(Median({3, 1, 2}), 2);
  EXPECT_EQ(Median({4, 1, 2, 3}), 2.5);
  EXPECT_EQ(Median({}), 0);
}

}  // namespace
}  // namespace tilec::tools
