// Kernels as wholes: control flow, instances, what is printed and asserted, arguments. Memory is in
// interpret_kernel_test.cc.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "ir/interpret.h"
#include "tests/unit/ir/execute.h"

namespace tilec::ir {

namespace {

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

}  // namespace

}  // namespace tilec::ir
