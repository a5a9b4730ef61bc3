// Kernels as wholes: memory accesses, control flow, instances, arguments.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "ir/interpret.h"
#include "tests/unit/ir/execute.h"

namespace tilec::ir {

namespace {

const std::string kHead = R"(func @f tile {
  param tensor %A: tensor<f32, 2> in [M, N] align=1 stride_align=1 contiguous=1
  param tensor %R: tensor<f32, 2> out [M, N] align=1 stride_align=1 contiguous=1
  param dim %M: i64
  param dim %N: i64
  body {
    %z = constant {value = 0} : i64
)";

TEST(Memory, LoadsAreClippedAndFilled) {
  Ran run = Execute(
      kHead + R"(
    %one = constant {value = 1} : i64
    %minus = constant {value = -1} : i64
    %four = constant {value = 4} : i64
    %fill = constant {value = 9.0} : f32
    %a = load %A, %one, %minus, %fill {modes = "rr", sizes = [4, 4], has_fill = 1} : f32[4, 4]
    store %R, %a, %z, %four, %z, %four {modes = "rr", sizes = [4, 4]}
  }
}
)",
      {{"A", Counting(DType::kF32, {3, 2})}, {"R", TensorValue::Zeros(DType::kF32, {3, 2})}});
  ASSERT_TRUE(run.ok) << Messages(run.diags);
  EXPECT_EQ(run["R"].v, (std::vector<double>{9, 2, 9, 4, 9, 9}));
}

TEST(Memory, StoresAreClippedToRangeAndTensor) {
  Ran run = Execute(kHead + R"(
    %one = constant {value = 1} : i64
    %two = constant {value = 2} : i64
    %c = constant {value = 5.0} : f32[8, 8]
    store %R, %c, %one, %two, %one, %N {modes = "rr", sizes = [8, 8]}
  }
}
)",
                    {{"A", Counting(DType::kF32, {3, 3})}});
  ASSERT_TRUE(run.ok) << Messages(run.diags);
  EXPECT_EQ(run["R"].v, (std::vector<double>{0, 0, 0, 0, 5, 5, 0, 0, 0}))
      << "R is made when absent";
}

TEST(Memory, ScalarsAndGather) {
  Ran run = Execute(R"(func @f tile {
  param tensor %A: tensor<f32, 2> in [M, N] align=1 stride_align=1 contiguous=1
  param tensor %I: tensor<i32, 1> in [K] align=1 stride_align=1 contiguous=1
  param tensor %R: tensor<f32, 2> out [K, N] align=1 stride_align=1 contiguous=1
  param tensor %S: tensor<f32, 2> out [M, N] align=1 stride_align=1 contiguous=1
  param dim %M: i64
  param dim %N: i64
  param dim %K: i64
  body {
    %z = constant {value = 0} : i64
    %one = constant {value = 1} : i64
    %i = load %I, %z {modes = "r", sizes = [4]} : i32[4]
    %g = load %A, %i, %z {modes = "gr", sizes = [4, 2]} : f32[4, 2]
    store %R, %g, %z, %K, %z, %N {modes = "rr", sizes = [4, 2]}
    %col = load %A, %z, %one {modes = "rs", sizes = [3, 1]} : f32[3]
    %e = load %A, %one, %one {modes = "ss", sizes = [1, 1]} : f32
    %eb = broadcast %e {axes = []} : f32[3]
    %sum = add %col, %eb : f32[3]
    store %S, %sum, %z, %M, %one {modes = "rs", sizes = [3, 1]}
    store %S, %e, %z, %z {modes = "ss", sizes = [1, 1]}
    %row = constant {value = 7.0} : f32[4, 1]
    store %S, %row, %i, %z, %one {modes = "gr", sizes = [4, 1]}
  }
}
)",
                    {{"A", Counting(DType::kF32, {3, 2})}, {"I", [] {
                                                              TensorValue t = TensorValue::Zeros(
                                                                  DType::kI32, {4});
                                                              t.v = {2, -1, 1, 5};
                                                              return t;
                                                            }()}});
  ASSERT_TRUE(run.ok) << Messages(run.diags);
  EXPECT_EQ(run["R"].v, (std::vector<double>{4, 5, 0, 0, 2, 3, 0, 0})) << "outside: 0";
  EXPECT_EQ(run["S"].v, (std::vector<double>{3, 4, 7, 6, 7, 8})) << "outside: not stored";
}

const std::string kReduceRows = R"(func @f tile {
  param tensor %A: tensor<f32, 1> in [N] align=1 stride_align=1 contiguous=1
  param tensor %R: tensor<f32, 1> inout [1] align=1 stride_align=1 contiguous=1
  param dim %N: i64
  body {
    %z = constant {value = 0} : i64
    %one = constant {value = 1} : i64
    parallel %z, %N {steps = [1]} do (%i: i64) {
      %a = load %A, %i {modes = "r", sizes = [1]} : f32[1]
)";

TEST(Memory, AtomicsAddUp) {
  const std::string text = kReduceRows + R"(
      atomic %R, %a, %z, %one {kind = "add", modes = "r", sizes = [1]}
    }
  }
}
)";
  TensorValue start = TensorValue::Zeros(DType::kF32, {1});
  start.v[0] = 10;
  Ran run = Execute(text, {{"A", Counting(DType::kF32, {100})}, {"R", start}});
  ASSERT_TRUE(run.ok) << Messages(run.diags);
  EXPECT_EQ(run.report.instances, 100);
  EXPECT_EQ(run["R"].v[0], 10 + 99 * 50);
  EXPECT_TRUE(run["R"].e.empty()) << "small integers are exact in any order";

  // Fractions: any order of f32 adds lies within the bound.
  const TensorValue a = TensorValue::Random(DType::kF32, {1000}, 5);
  Ran fractions = Execute(text, {{"A", a}, {"R", start}});
  ASSERT_TRUE(fractions.ok);
  std::vector<double> order = a.v;
  std::mt19937 random(1);
  for (int round = 0; round < 50; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    float sum = 10;
    for (double x : order) sum += static_cast<float>(x);
    TensorValue actual = TensorValue::Zeros(DType::kF32, {1});
    actual.v[0] = sum;
    EXPECT_TRUE(Compare(fractions["R"], actual).ok()) << sum;
  }
  EXPECT_LT(fractions["R"].e[0], 0.1);
}

// What one instance alone comes to has an order, what several meet at has none.
TEST(Memory, AtomicsFindWhatWasThere) {
  Ran run = Execute(R"(func @f tile {
  param tensor %A: tensor<i32, 1> in [N] align=1 stride_align=1 contiguous=1
  param tensor %own: tensor<i32, 1> inout [N] align=1 stride_align=1 contiguous=1
  param tensor %one: tensor<i32, 1> inout [1] align=1 stride_align=1 contiguous=1
  param tensor %F: tensor<i32, 2> out [3, N] align=1 stride_align=1 contiguous=1
  param dim %N: i64
  body {
    %z = constant {value = 0} : i64
    %y = constant {value = 1} : i64
    %x = constant {value = 2} : i64
    parallel %z, %N {steps = [1]} do (%i: i64) {
      %a = load %A, %i {modes = "s", sizes = [1]} : i32
      %f = atomic %own, %a, %i {kind = "add", modes = "s", sizes = [1]} : i32
      %g = atomic %own, %a, %i {kind = "add", modes = "s", sizes = [1]} : i32
      %h = atomic %one, %a, %z {kind = "add", modes = "s", sizes = [1]} : i32
      store %F, %f, %z, %i {modes = "ss", sizes = [1, 1]}
      store %F, %g, %y, %i {modes = "ss", sizes = [1, 1]}
      store %F, %h, %x, %i {modes = "ss", sizes = [1, 1]}
    }
  }
}
)",
                    {{"A", Counting(DType::kI32, {4})},
                     {"own", Counting(DType::kI32, {4})},
                     {"one", TensorValue::Zeros(DType::kI32, {1})}});
  ASSERT_TRUE(run.ok) << Messages(run.diags);
  const TensorValue& found = run["F"];
  for (size_t i = 0; i < 4; ++i) {
    const auto n = static_cast<double>(i);
    EXPECT_EQ(found.v[i], n);
    EXPECT_EQ(found.v[4 + i], 2 * n);
    EXPECT_EQ(run["own"].v[i], 3 * n);
    EXPECT_FALSE(found.undecided[i] || found.undecided[4 + i]) << i;
    EXPECT_TRUE(found.undecided[8 + i]) << i;
  }
  EXPECT_EQ(run["one"].v[0], 6);
  EXPECT_TRUE(run["one"].undecided.empty());
}

// Two positions that move together: elements (0, 2), (1, 1), and one outside.
TEST(Memory, PairsMoveTogether) {
  TensorValue i = TensorValue::Zeros(DType::kI32, {3}), j = i;
  i.v = {0, 1, 1};
  j.v = {2, 1, 3};
  Ran run = Execute(R"(func @f tile {
  param tensor %A: tensor<f32, 2> in [2, 3] align=1 stride_align=1 contiguous=1
  param tensor %I: tensor<i32, 1> in [3] align=1 stride_align=1 contiguous=1
  param tensor %J: tensor<i32, 1> in [3] align=1 stride_align=1 contiguous=1
  param tensor %R: tensor<f32, 1> out [3] align=1 stride_align=1 contiguous=1
  body {
    %z = constant {value = 0} : i64
    %one = constant {value = 1} : i64
    %n = constant {value = 3} : i64
    parallel %z, %one {steps = [1]} do (%k: i64) {
      %i = load %I, %z {modes = "r", sizes = [3]} : i32[3]
      %j = load %J, %z {modes = "r", sizes = [3]} : i32[3]
      %a = load %A, %i, %j {modes = "gp", sizes = [3, 3]} : f32[3]
      store %R, %a, %z, %n {modes = "r", sizes = [3]}
    }
  }
}
)",
                    {{"A", Counting(DType::kF32, {2, 3})}, {"I", i}, {"J", j}});
  ASSERT_TRUE(run.ok) << Messages(run.diags);
  EXPECT_EQ(run["R"].v, (std::vector<double>{2, 4, 0}));
}

TEST(Memory, OverlappingStoresAreFound) {
  const std::string text = kReduceRows + R"(
      store %R, %a, %z, %one {modes = "r", sizes = [1]}
    }
  }
}
)";
  for (int threads : {1, 4}) {
    Ran run = Execute(
        text, {{"A", Counting(DType::kF32, {50})}, {"R", TensorValue::Zeros(DType::kF32, {1})}}, {},
        {}, threads);
    ASSERT_FALSE(run.ok);
    EXPECT_STREQ(run.first().def->code, "I223");
    EXPECT_NE(run.first().message.find("element [0] of `R`"), std::string::npos)
        << run.first().message;
    EXPECT_EQ(run.first().notes[0], "instances 0 and 1 of the grid");
  }
  Ran one = Execute(
      text, {{"A", Counting(DType::kF32, {1})}, {"R", TensorValue::Zeros(DType::kF32, {1})}});
  EXPECT_TRUE(one.ok) << "one instance alone may";
}

TEST(Memory, ReadingAnotherInstancesWriteIsFound) {
  for (const char* shift : {"-1", "1"}) {  // read what an earlier or a later instance writes
    Ran run = Execute(fmt::format(R"(func @f tile {{
  param tensor %R: tensor<f32, 1> inout [N] align=1 stride_align=1 contiguous=1
  param dim %N: i64
  body {{
    %z = constant {{value = 0}} : i64
    parallel %z, %N {{steps = [4]}} do (%i: i64) {{
      %d = constant {{value = {}}} : i64
      %j = add %i, %d : i64
      %a = load %R, %j {{modes = "r", sizes = [4]}} : f32[4]
      store %R, %a, %i, %N {{modes = "r", sizes = [4]}}
    }}
  }}
}}
)",
                                  shift),
                      {{"R", Counting(DType::kF32, {16})}});
    ASSERT_FALSE(run.ok) << shift;
    EXPECT_STREQ(run.first().def->code, "I224") << shift;
  }
}

TEST(Memory, OwnWritesAreRead) {
  Ran run = Execute(R"(func @f tile {
  param tensor %R: tensor<i32, 1> inout [N] align=1 stride_align=1 contiguous=1
  param dim %N: i64
  body {
    %z = constant {value = 0} : i64
    parallel %z, %N {steps = [4]} do (%i: i64) {
      %a = load %R, %i {modes = "r", sizes = [4]} : i32[4]
      %b = add %a, %a : i32[4]
      store %R, %b, %i, %N {modes = "r", sizes = [4]}
      %c = load %R, %i {modes = "r", sizes = [4]} : i32[4]
      %d = add %c, %a : i32[4]
      store %R, %d, %i, %N {modes = "r", sizes = [4]}
    }
  }
}
)",
                    {{"R", Counting(DType::kI32, {6})}});
  ASSERT_TRUE(run.ok) << Messages(run.diags);
  EXPECT_EQ(run["R"].v, (std::vector<double>{0, 3, 6, 9, 12, 15}));
}

}  // namespace

}  // namespace tilec::ir
