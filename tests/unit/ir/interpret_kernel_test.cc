// Kernels as wholes: memory accesses, control flow, instances, arguments, and that error bounds are
// sound: another order of f32 operations stays within them.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "ir/interpret.h"
#include "ir/numerics.h"
#include "tests/unit/ir/test_util.h"

namespace tilec::ir {
namespace {

struct Ran {
  bool ok = false;
  InterpretInputs inputs;
  InterpretReport report;
  DiagSink diags;
  const TensorValue& operator[](const std::string& name) { return inputs.tensors[name]; }
  const Diagnostic& first() const { return diags.all().at(0); }
};

Ran Execute(const std::string& text, std::map<std::string, TensorValue> tensors,
            std::map<std::string, double> scalars = {}, Bindings dims = {}, int threads = 0) {
  Ran run;
  run.inputs = {std::move(tensors), std::move(scalars), std::move(dims)};
  InterpretOptions options;
  options.threads = threads;
  options.max_trips = 1000;
  const Function fn = Parsed(text);
  Result<InterpretReport> report = Interpret(fn, run.inputs, options, run.diags);
  run.ok = report.ok();
  if (report.ok()) run.report = *report;
  EXPECT_EQ(run.ok, !run.diags.has_errors());
  return run;
}

TensorValue Counting(DType d, std::vector<int64_t> dims) {
  TensorValue t = TensorValue::Zeros(d, std::move(dims));
  for (size_t i = 0; i < t.v.size(); ++i) t.v[i] = static_cast<double>(i);
  return t;
}

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

TEST(Control, WhileForIf) {
  // Collatz steps of A's elements, by scalar control.
  Ran run = Execute(R"(func @f tile {
  param tensor %A: tensor<i64, 1> in [N] align=1 stride_align=1 contiguous=1
  param tensor %R: tensor<i64, 1> out [N] align=1 stride_align=1 contiguous=1
  param dim %N: i64
  body {
    %z = constant {value = 0} : i64
    %one = constant {value = 1} : i64
    %two = constant {value = 2} : i64
    %three = constant {value = 3} : i64
    parallel %z, %N {steps = [1]} do (%i: i64) {
      %a = load %A, %i {modes = "s", sizes = [1]} : i64
      %last, %steps = while %a, %z : i64, i64 do (%x: i64, %n: i64) {
        %more = cmp %x, %one {pred = "gt"} : bool
        yield %more, %x, %n
      } do (%y: i64, %m: i64) {
        %odd = mod %y, %two : i64
        %p = cmp %odd, %z {pred = "ne"} : bool
        %next = if %p : i64 do {
          %t = mul %y, %three : i64
          %u = add %t, %one : i64
          yield %u
        } do {
          %h = div %y, %two : i64
          yield %h
        }
        %m2 = add %m, %one : i64
        yield %next, %m2
      }
      store %R, %steps, %i {modes = "s", sizes = [1]}
    }
  }
}
)",
                    {{"A", [] {
                        TensorValue t = TensorValue::Zeros(DType::kI64, {4});
                        t.words = {1, 6, 7, 27};
                        return t;
                      }()}});
  ASSERT_TRUE(run.ok) << Messages(run.diags);
  EXPECT_EQ(run["R"].words, (std::vector<int64_t>{0, 8, 16, 111}));
}

TEST(Control, CarriedValuesSwap) {
  // Fibonacci by (a, b) <- (b, a + b): yields are taken all at once.
  Ran run = Execute(R"(func @f tile {
  param tensor %R: tensor<i32, 1> out [2] align=1 stride_align=1 contiguous=1
  param scalar %n: i64
  body {
    %z = constant {value = 0} : i64
    %two = constant {value = 2} : i64
    %a0 = constant {value = 0} : i32
    %b0 = constant {value = 1} : i32
    %a, %b = for %z, %n, %a0, %b0 {step = 1} : i32, i32 do (%i: i64, %x: i32, %y: i32) {
      %s = add %x, %y : i32
      yield %y, %s
    }
    %ab = broadcast %a {axes = []} : i32[1]
    store %R, %a, %z {modes = "s", sizes = [1]}
    %one = constant {value = 1} : i64
    store %R, %b, %one {modes = "s", sizes = [1]}
  }
}
)",
                    {}, {{"n", 30}});
  ASSERT_TRUE(run.ok) << Messages(run.diags);
  EXPECT_EQ(run["R"].v, (std::vector<double>{832040, 1346269}));
}

const std::string kGrid = R"(func @f tile {
  param tensor %A: tensor<f32, 1> in [N] align=1 stride_align=1 contiguous=1
  param dim %N: i64
  fact "N % 2 == 0" = ((N % 2) == 0)
  body {
    %z = constant {value = 0} : i64
    %five = constant {value = 5.0} : f32
    parallel %z, %N {steps = [1]} do (%i: i64) {
      %a = load %A, %i {modes = "s", sizes = [1]} : f32
)";

TEST(Control, PrintsAndAssertsInInstanceOrder) {
  for (int threads : {1, 4}) {
    Ran run = Execute(kGrid + R"(
      print %i, %a {text = "element"}
    }
  }
}
)",
                      {{"A", Counting(DType::kF32, {40})}}, {}, {}, threads);
    ASSERT_TRUE(run.ok);
    ASSERT_EQ(run.report.prints.size(), 40u);
    for (int i = 0; i < 40; ++i)
      EXPECT_EQ(run.report.prints[static_cast<size_t>(i)], fmt::format("element {} {}", i, i));
    Ran fails = Execute(kGrid + R"(
      %p = cmp %a, %five {pred = "lt"} : bool
      assert %p {message = "below five"}
    }
  }
}
)",
                        {{"A", Counting(DType::kF32, {40})}}, {}, {}, threads);
    ASSERT_FALSE(fails.ok);
    ASSERT_EQ(fails.diags.all().size(), 1u);
    EXPECT_STREQ(fails.first().def->code, "I225");
    EXPECT_EQ(fails.first().notes[0], "in instance 5 of the grid") << "the first to fail";
  }
}

TEST(Control, EndlessLoopsStop) {
  Ran run = Execute(R"(func @f tile {
  body {
    %p = constant {value = 1} : bool
    while do {
      yield %p
    } do {
      yield
    }
  }
}
)",
                    {});
  ASSERT_FALSE(run.ok);
  EXPECT_STREQ(run.first().def->code, "I227");
}

TEST(Control, UndecidedControlTaintsWhatFollows) {
  Ran run = Execute(R"(func @f tile {
  param tensor %A: tensor<f32, 1> in [1] align=1 stride_align=1 contiguous=1
  param tensor %R: tensor<f32, 1> out [2] align=1 stride_align=1 contiguous=1
  body {
    %z = constant {value = 0} : i64
    %one = constant {value = 1} : i64
    %a = load %A, %z {modes = "s", sizes = [1]} : f32
    store %R, %a, %z {modes = "s", sizes = [1]}
    %two = constant {value = 2.0} : f32
    %q = sqrt %a : f32
    %s = mul %q, %q : f32
    %p = cmp %s, %two {pred = "gt"} : bool
    %r = if %p : f32 do {
      yield %q
    } do {
      yield %a
    }
    store %R, %r, %one {modes = "s", sizes = [1]}
  }
}
)",
                    {{"A", [] {
                        TensorValue t = TensorValue::Zeros(DType::kF32, {1});
                        t.v = {2};
                        return t;
                      }()}});
  ASSERT_TRUE(run.ok) << Messages(run.diags);
  EXPECT_EQ(run["R"].undecided, (std::vector<uint8_t>{0, 1}));
}

TEST(Arguments, AreChecked) {
  const std::string text = kGrid + "    }\n  }\n}\n";
  EXPECT_STREQ(Execute(text, {}).first().def->code, "I220");
  EXPECT_STREQ(Execute(text, {{"A", Counting(DType::kF16, {2})}}).first().def->code, "I221");
  EXPECT_STREQ(Execute(text, {{"A", Counting(DType::kF32, {2, 2})}}).first().def->code, "I221");
  Ran odd = Execute(text, {{"A", Counting(DType::kF32, {3})}});
  EXPECT_STREQ(odd.first().def->code, "I222");
  EXPECT_NE(odd.first().message.find("N = 3"), std::string::npos) << odd.first().message;
  EXPECT_STREQ(Execute(text, {{"A", Counting(DType::kF32, {2})}}, {}, {{"N", 4}}).first().def->code,
               "I221");
  TensorValue broken = Counting(DType::kF32, {2});
  broken.v.pop_back();
  EXPECT_STREQ(Execute(text, {{"A", broken}}).first().def->code, "I221");
  EXPECT_TRUE(Execute(text, {{"A", Counting(DType::kF32, {0})}}).ok) << "an empty grid";

  const std::string expr = R"(func @f tile {
  param tensor %A: tensor<f32, 1> in [(2 * N)] align=1 stride_align=1 contiguous=1
  param tensor %B: tensor<f32, 1> in [N] align=1 stride_align=1 contiguous=1
  param scalar %s: i8
  param dim %N: i64
  body {
  }
}
)";
  EXPECT_TRUE(Execute(expr, {{"A", Counting(DType::kF32, {6})}, {"B", Counting(DType::kF32, {3})}},
                      {{"s", 1}})
                  .ok);
  EXPECT_STREQ(Execute(expr, {{"A", Counting(DType::kF32, {7})}, {"B", Counting(DType::kF32, {3})}},
                       {{"s", 1}})
                   .first()
                   .def->code,
               "I221");
  EXPECT_STREQ(Execute(expr, {{"A", Counting(DType::kF32, {6})}, {"B", Counting(DType::kF32, {3})}})
                   .first()
                   .def->code,
               "I220");
  EXPECT_STREQ(Execute(expr, {{"A", Counting(DType::kF32, {6})}, {"B", Counting(DType::kF32, {3})}},
                       {{"s", 300}})
                   .first()
                   .def->code,
               "I230");
}

TEST(Arguments, SizesAreBounded) {
  Ran large = Execute(
      "func @f tile {\n  body {\n    %c = constant {value = 0.0} : f32[65536, 65536]\n  }\n}\n",
      {});
  EXPECT_STREQ(large.first().def->code, "I228");
  std::string text = "func @f tile {\n  body {\n";
  for (int i = 0; i < 8; ++i)
    text += "    %" + std::to_string(i) + " = constant {value = 0.0} : f32[4096, 4096]\n";
  Ran many = Execute(text + "  }\n}\n", {});
  EXPECT_STREQ(many.first().def->code, "I228");
  Ran grid = Execute(R"(func @f tile {
  body {
    %z = constant {value = 0} : i64
    %n = constant {value = 4611686018427387904} : i64
    parallel %z, %n {steps = [1]} do (%i: i64) {
    }
  }
}
)",
                     {});
  EXPECT_STREQ(grid.first().def->code, "I228");
}

// ---- soundness of e: the same mathematics in f32, in other orders, stays within the bounds

// softmax of rows of A, then a product with B: exp2, reductions, division, cast and dot in one.
const char* kSoftmax = R"(func @f tile {
  param tensor %A: tensor<f32, 2> in [16, 64] align=1 stride_align=1 contiguous=1
  param tensor %B: tensor<f32, 2> in [64, 8] align=1 stride_align=1 contiguous=1
  param tensor %R: tensor<f32, 2> out [16, 8] align=1 stride_align=1 contiguous=1
  body {
    %z = constant {value = 0} : i64
    %m = constant {value = 16} : i64
    %n = constant {value = 8} : i64
    %a = load %A, %z, %z {modes = "rr", sizes = [16, 64]} : f32[16, 64]
    %b = load %B, %z, %z {modes = "rr", sizes = [64, 8]} : f32[64, 8]
    %mx = reduce %a {kind = "max", axis = 1} : f32[16]
    %mb = broadcast %mx {axes = [0]} : f32[16, 64]
    %d = sub %a, %mb : f32[16, 64]
    %c = constant {value = 1.4426950408889634} : f32[16, 64]
    %s = mul %d, %c : f32[16, 64]
    %p = exp2 %s : f32[16, 64]
    %l = reduce %p {kind = "sum", axis = 1} : f32[16]
    %acc = constant {value = 0.0} : f32[16, 8]
    %o = dot %p, %b, %acc : f32[16, 8]
    %lb = broadcast %l {axes = [0]} : f32[16, 8]
    %r = div %o, %lb : f32[16, 8]
    store %R, %r, %z, %m, %z, %n {modes = "rr", sizes = [16, 8]}
  }
}
)";

TEST(Soundness, SoftmaxInF32AnyOrder) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    TensorValue a = TensorValue::Random(DType::kF32, {16, 64}, seed);
    for (double& x : a.v) x = Round(DType::kF32, x * 10);
    const TensorValue b = TensorValue::Random(DType::kF32, {64, 8}, seed + 100);
    Ran run = Execute(kSoftmax, {{"A", a}, {"B", b}});
    ASSERT_TRUE(run.ok) << Messages(run.diags);
    std::mt19937 random(static_cast<uint32_t>(seed));
    std::vector<size_t> order(64);
    std::iota(order.begin(), order.end(), size_t{0});
    TensorValue actual = TensorValue::Zeros(DType::kF32, {16, 8});
    for (size_t i = 0; i < 16; ++i) {
      std::shuffle(order.begin(), order.end(), random);
      float mx = -INFINITY;
      for (size_t k = 0; k < 64; ++k) mx = std::max(mx, static_cast<float>(a.v[i * 64 + k]));
      float p[64], l = 0;
      for (size_t k : order) {
        // Contracted or not, and exp2 off by up to 2 ulp.
        const auto x = static_cast<float>(a.v[i * 64 + k]);
        const float s = random() % 2 ? std::fmaf(x - mx, 1.442695f, 0.0f) : (x - mx) * 1.442695f;
        p[k] = std::exp2(s) * (1 + (static_cast<float>(random() % 5) - 2) * 0x1p-24f);
        l += p[k];
      }
      for (size_t j = 0; j < 8; ++j) {
        float sum = 0;
        for (size_t k : order) {
          const auto y = static_cast<float>(b.v[k * 8 + j]);
          sum = random() % 2 ? std::fmaf(p[k], y, sum) : sum + p[k] * y;
        }
        actual.v[i * 8 + j] = sum * (1.0f / l);
      }
    }
    const CompareResult r = Compare(run["R"], actual);
    EXPECT_TRUE(r.ok()) << "seed " << seed << ": " << r.actual << " for " << r.expected << " ± "
                        << r.bound;
    EXPECT_EQ(r.checked, 128);
    EXPECT_LT(*std::max_element(run["R"].e.begin(), run["R"].e.end()), 1e-3)
        << "a bound worth having";
  }
}

// Hopper's accumulation as published: 16 products and the accumulator, aligned to the largest
// exponent, each cut at 25 fractional bits; the f32 result cut as well.
float TensorCoreStep(const std::vector<double>& products, float acc) {
  int top = -1000;
  for (double p : products)
    if (p != 0) top = std::max(top, std::ilogb(p));
  if (acc != 0) top = std::max(top, std::ilogb(static_cast<double>(acc)));
  if (top == -1000) return 0;
  const double unit = std::ldexp(1.0, top - 25);
  double sum = std::trunc(static_cast<double>(acc) / unit);
  for (double p : products) sum += std::trunc(p / unit);
  sum *= unit;
  auto cut = static_cast<float>(sum);
  if (std::fabs(static_cast<double>(cut)) > std::fabs(sum)) cut = std::nextafter(cut, 0.0f);
  return cut;
}

TEST(Soundness, TruncatingAccumulation) {
  const std::string text = R"(func @f tile {
  param tensor %A: tensor<bf16, 2> in [16, 256] align=1 stride_align=1 contiguous=1
  param tensor %B: tensor<bf16, 2> in [256, 8] align=1 stride_align=1 contiguous=1
  param tensor %R: tensor<f32, 2> out [16, 8] align=1 stride_align=1 contiguous=1
  body {
    %z = constant {value = 0} : i64
    %m = constant {value = 16} : i64
    %n = constant {value = 8} : i64
    %a = load %A, %z, %z {modes = "rr", sizes = [16, 256]} : bf16[16, 256]
    %b = load %B, %z, %z {modes = "rr", sizes = [256, 8]} : bf16[256, 8]
    %acc = constant {value = 0.0} : f32[16, 8]
    %r = dot %a, %b, %acc : f32[16, 8]
    store %R, %r, %z, %m, %z, %n {modes = "rr", sizes = [16, 8]}
  }
}
)";
  double worst = 0;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    TensorValue a = TensorValue::Random(DType::kBF16, {16, 256}, seed);
    TensorValue b = TensorValue::Random(DType::kBF16, {256, 8}, seed + 50);
    if (seed % 2)  // all of one sign: truncation pulls one way
      for (TensorValue* t : {&a, &b})
        for (double& x : t->v) x = std::fabs(x);
    Ran run = Execute(text, {{"A", a}, {"B", b}});
    ASSERT_TRUE(run.ok);
    TensorValue actual = TensorValue::Zeros(DType::kF32, {16, 8});
    for (size_t i = 0; i < 16; ++i)
      for (size_t j = 0; j < 8; ++j) {
        float acc = 0;
        for (size_t k = 0; k < 256; k += 16) {
          std::vector<double> products;
          for (size_t q = k; q < k + 16; ++q) products.push_back(a.v[i * 256 + q] * b.v[q * 8 + j]);
          acc = TensorCoreStep(products, acc);
        }
        actual.v[i * 8 + j] = acc;
      }
    const CompareResult r = Compare(run["R"], actual);
    EXPECT_TRUE(r.ok()) << "seed " << seed << ": " << r.actual << " for " << r.expected << " ± "
                        << r.bound;
    worst = std::max(worst, r.max_ratio);
  }
  EXPECT_GT(worst, 0.02) << "a bound this loose would hide mistakes";
}

// Each approximate function, off by what its bound allows of an operand that is itself off.
TEST(Soundness, FunctionsCarryOperandErrors) {
  struct Fn {
    const char* name;
    double (*f)(double);
    double lo, hi;
  };
  const Fn fns[] = {{"exp2", [](double x) { return std::exp2(x); }, -20, 20},
                    {"exp", [](double x) { return std::exp(x); }, -20, 20},
                    {"log2", [](double x) { return std::log2(x); }, 0.01, 50},
                    {"log", [](double x) { return std::log(x); }, 0.01, 50},
                    {"sqrt", [](double x) { return std::sqrt(x); }, 0.01, 50},
                    {"rsqrt", [](double x) { return 1 / std::sqrt(x); }, 0.01, 50},
                    {"tanh", [](double x) { return std::tanh(x); }, -5, 5},
                    {"sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }, -20, 20},
                    {"erf", [](double x) { return std::erf(x); }, -4, 4},
                    {"sin", [](double x) { return std::sin(x); }, -10, 10},
                    {"cos", [](double x) { return std::cos(x); }, -10, 10}};
  for (const Fn& fn : fns) {
    const std::string text = fmt::format(R"(func @f tile {{
  param tensor %A: tensor<f32, 1> in [256] align=1 stride_align=1 contiguous=1
  param tensor %R: tensor<f32, 1> out [256] align=1 stride_align=1 contiguous=1
  body {{
    %z = constant {{value = 0}} : i64
    %n = constant {{value = 256}} : i64
    %a = load %A, %z {{modes = "r", sizes = [256]}} : f32[256]
    %r = {} %a : f32[256]
    store %R, %r, %z, %n {{modes = "r", sizes = [256]}}
  }}
}}
)",
                                         fn.name);
    TensorValue a = TensorValue::Random(DType::kF32, {256}, 9);
    std::mt19937 random(4);
    a.e.resize(256);
    for (size_t i = 0; i < 256; ++i) {
      a.v[i] = Round(DType::kF32, fn.lo + (fn.hi - fn.lo) * (a.v[i] + 1) / 2);
      a.e[i] = static_cast<float>(std::ldexp(0.005, -static_cast<int>(random() % 12)));
    }
    Ran run = Execute(text, {{"A", a}});
    ASSERT_TRUE(run.ok);
    for (int round = 0; round < 10; ++round) {
      TensorValue actual = TensorValue::Zeros(DType::kF32, {256});
      for (size_t i = 0; i < 256; ++i) {
        const double t = round < 2 ? 2.0 * round - 1 : static_cast<double>(random()) * 0x1p-31 - 1;
        const double exact = fn.f(a.v[i] + t * a.e[i] * 0.9999);
        actual.v[i] = Round(DType::kF32, exact * (1 + t * 0x1p-23));
      }
      const CompareResult r = Compare(run["R"], actual);
      EXPECT_TRUE(r.ok()) << fn.name << ": " << r.actual << " for " << r.expected << " ± "
                          << r.bound << " at "
                          << a.v[static_cast<size_t>(std::max<int64_t>(r.first_failed, 0))];
      EXPECT_GT(r.checked, 200) << fn.name;
    }
  }
}

TEST(Comparison, ToleranceOnlyTightens) {
  TensorValue v = TensorValue::Zeros(DType::kF32, {4});
  v.v = {1, 1, -1, 1};
  v.e = {0.1f, 0.1f, 0.1f, 0.1f};
  TensorValue x = v;
  x.v = {1.05, 1, -1, 1};
  EXPECT_TRUE(Compare(v, x).ok());
  CompareOptions tight;
  tight.tolerance = 0.01;
  EXPECT_EQ(Compare(v, x, tight).failed, 1);
  tight.tolerance = 100;
  x.v[0] = 1.2;
  EXPECT_EQ(Compare(v, x, tight).failed, 1) << "a large tolerance loosens nothing";
  v.undecided = {1, 0, 0, 0};
  const CompareResult r = Compare(v, x, tight);
  EXPECT_TRUE(r.ok());
  EXPECT_EQ(r.undecided, 1);
  EXPECT_EQ(r.checked, 3);
  x.v[1] = std::nan("");
  EXPECT_EQ(Compare(v, x).failed, 1);
}

}  // namespace
}  // namespace tilec::ir
