// Judging by sampling (ir/interpret_sample.cc): what it decides, what it leaves alone, that a wrong
// result still fails, and that it depends on nothing but the program.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "ir/interpret.h"
#include "ir/numerics.h"
#include "tests/unit/frontend/helper.h"

namespace tilec::frontend {
namespace {

using ir::DType;
using ir::TensorValue;

// Gram-Schmidt on 16 columns; `first` is the position of the largest element of the result.
const char* kColumns = R"(
kernel f(A: f32[64, 16], Q: out f32[64, 16], first: out i32[16], picked: out f32[16, 64]) {
  parallel _p in 0..1 {
    for c in tiles(0..16, 16) {
      var q = A[:, :]
      for j in 0..16 {
        let here = (c.index == j)[None, :]
        let v = sum(select(here, q, 0.0), axis = 1)
        let unit = v / sqrt(sum(v * v, axis = 0) + 1e-12)
        let along = select(c.index > j, sum(q * unit[:, None], axis = 0), 0.0)
        q = select(here, unit[:, None], q - unit[:, None] * along[None, :])
      }
      Q[:, :] = q
      let at = argmax(q, axis = 0)
      first[:] = at
      picked[:, :] = select(at > 30, 1.0, -1.0)[:, None] + 0.0 * q.T
    }
  }
})";

struct Ran {
  ir::InterpretInputs inputs;
  ir::InterpretReport report;
};

Ran Interpreted(const std::string& text, int threads = 1, int samples = 4) {
  Loaded loaded(text);
  const std::optional<ir::Function> fn = loaded.Specialized("f");
  EXPECT_TRUE(fn) << loaded.errors();
  Ran run;
  if (!fn) return run;
  run.inputs.tensors["A"] = TensorValue::Random(DType::kF32, {64, 16}, 3);
  const auto report =
      ir::Interpret(*fn, run.inputs, {.threads = threads, .samples = samples}, loaded.diags);
  EXPECT_TRUE(report.ok()) << loaded.errors();
  if (report.ok()) run.report = *report;
  return run;
}

int64_t Ones(const std::vector<uint8_t>& flags) {
  return static_cast<int64_t>(flags.size()) - std::count(flags.begin(), flags.end(), 0);
}

TEST(Sampling, DecidesWhatWorstCasesCannot) {
  Ran bounds = Interpreted(kColumns, 1, 0);
  Ran run = Interpreted(kColumns);
  const TensorValue& q = run.inputs.tensors["Q"];
  EXPECT_GT(Ones(bounds.inputs.tensors["Q"].undecided), 0)
      << "the test needs a bound that overflows";
  EXPECT_EQ(Ones(q.undecided), 0);
  EXPECT_GT(Ones(q.sampled), 0);
  EXPECT_EQ(run.report.sampled, Ones(q.sampled));
  for (size_t i = 0; i < q.v.size(); ++i) {
    if (!q.sampled[i]) continue;
    EXPECT_LT(q.e[i], 1e-3) << "element " << i << ": the bound says nothing";
  }
}

TEST(Sampling, AWrongResultFails) {
  Ran run = Interpreted(kColumns);
  const TensorValue& q = run.inputs.tensors["Q"];
  TensorValue actual = q;
  EXPECT_TRUE(ir::Compare(q, actual).ok());
  EXPECT_GT(ir::Compare(q, actual).sampled, 0);
  for (double& x : actual.v) x *= 1.01;
  EXPECT_FALSE(ir::Compare(q, actual).ok());
}

// Samples that all round to one side of a tie do not say that an executor does.
TEST(Sampling, ABoundIsAnUlpAtLeast) {
  std::string text = kColumns;
  const auto replace = [&](const std::string& from, const std::string& to) {
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
  };
  replace("Q: out f32[64, 16]", "Q: out bf16[64, 16]");
  replace("Q[:, :] = q", "Q[:, :] = (q * 1e4) as bf16");
  Ran run = Interpreted(text);
  const TensorValue& q = run.inputs.tensors["Q"];
  EXPECT_GT(Ones(q.sampled), 100);
  for (size_t i = 0; i < q.v.size(); ++i) {
    if (!q.sampled[i]) continue;
    EXPECT_GE(q.e[i], 2 * ir::HalfUlp(DType::kBF16, q.v[i])) << "element " << i;
  }
}

// Nothing is said about a position that may be another one, nor about what was chosen by it.
TEST(Sampling, LeavesJumpsAlone) {
  Ran run = Interpreted(kColumns);
  EXPECT_GT(Ones(run.inputs.tensors["first"].undecided), 0);
  EXPECT_TRUE(run.inputs.tensors["first"].sampled.empty());
}

TEST(Sampling, DoesNotDependOnThreadsOrTime) {
  Ran one = Interpreted(kColumns, 1), two = Interpreted(kColumns, 2),
      again = Interpreted(kColumns, 1);
  for (Ran* other : {&two, &again}) {
    EXPECT_EQ(one.inputs.tensors["Q"].v, other->inputs.tensors["Q"].v);
    EXPECT_EQ(one.inputs.tensors["Q"].e, other->inputs.tensors["Q"].e);
    EXPECT_EQ(one.inputs.tensors["Q"].sampled, other->inputs.tensors["Q"].sampled);
  }
}

TEST(Sampling, SmallBoundsStay) {
  const char* text = R"(
kernel f(A: f32[64, 16], Q: out f32[64, 16]) {
  parallel _p in 0..1 {
    Q[:, :] = exp(A[:, :]) * 0.5
  }
})";
  Ran run = Interpreted(text);
  EXPECT_EQ(run.report.sampled, 0);
  EXPECT_TRUE(run.inputs.tensors["Q"].sampled.empty());
  EXPECT_EQ(run.inputs.tensors["Q"].e, Interpreted(text, 1, 0).inputs.tensors["Q"].e);
}

}  // namespace
}  // namespace tilec::frontend
