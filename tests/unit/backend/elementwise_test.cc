// Every elementwise op on every dtype, run and compared with the host; every cast.
//
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <functional>

#include "tests/unit/backend/harness.h"
#include "tests/unit/backend/host_arithmetic.h"

namespace tilec::backend {

namespace {

struct OpRow {
  OpKind kind;
  std::function<double(double, double)> f;
  bool floats = true, integers = true, boolean = false;
  double tolerance = 0;  // relative to 1 + |result|, for f32
  double lo = -8, hi = 8;
  bool f64 = true;
};

class Elementwise : public testing::Test {
 protected:
  void Check(const OpRow& row, DType d, int operands) {
    const double lo = ir::IsInteger(d) ? -100 : row.lo, hi = ir::IsInteger(d) ? 100 : row.hi;
    Kernel k(std::string(ir::Info(row.kind).mnemonic) + "_" + ir::Spelling(d));
    std::vector<double> x = Random(d, kCount, 1, lo, hi), y = Random(d, kCount, 2, lo, hi);
    if (ir::IsInteger(d) && operands == 2)
      for (size_t i = 0; i < 8; ++i) y[i * 3] = i % 2 ? 0 : ir::IsSigned(d) ? -1 : 1;
    const ir::Layout layout = ir::BlockedLayout({kCount}, 2, 128);
    const ValueId a = k.In({"A", d, {kCount}, x, {}}), b = k.In({"B", d, {kCount}, y, {}});
    const ValueId out = k.Out({"C", d, {kCount}, {}, {}});
    const ValueId u = k.Load(a, {kCount}, layout), v = k.Load(b, {kCount}, layout);
    k.Store(out, operands == 1 ? k.b.Unary(row.kind, u) : k.b.Binary(row.kind, u, v));
    ASSERT_TRUE(k.Run()) << ir::Info(row.kind).mnemonic << " " << ir::Spelling(d);
    std::vector<double> want;
    for (size_t i = 0; i < x.size(); ++i) {
      const double exact = row.f(x[i], y[i]);
      want.push_back(ir::IsFloat(d) ? RoundTo(d, exact) : Wrap(d, exact));
    }
    double tolerance = row.tolerance;
    if (tolerance > 0 && ir::IsFloat(d)) tolerance = std::max(tolerance, 1.01 * Ulp(d));
    if (!ir::IsFloat(d)) tolerance = 0;
    if (d == DType::kF64 && tolerance > 0) tolerance = 1e-14;
    ExpectNear(k.values("C"), want, tolerance, k.fn.name);
  }
};

TEST_F(Elementwise, Unary) {
  SKIP_WITHOUT_DEVICE();
  auto one = [](double (*f)(double)) { return [f](double a, double) { return f(a); }; };
  const OpRow rows[] = {
      {OpKind::kNeg, [](double a, double) { return -a; }},
      {OpKind::kAbs, one(std::fabs)},
      {OpKind::kFloor, one(std::floor)},
      {OpKind::kCeil, one(std::ceil)},
      {OpKind::kRound, one(std::nearbyint)},
      {OpKind::kNot, [](double a, double) { return -a - 1; }, false, true, false},
      {OpKind::kExp2, one(std::exp2), true, false, false, 0x1p-21, -20, 20, false},
      {OpKind::kExp, one(std::exp), true, false, false, 0x1p-19, -10, 10, false},
      {OpKind::kLog2, one(std::log2), true, false, false, 0x1p-21, 0.01, 100, false},
      {OpKind::kLog, one(std::log), true, false, false, 0x1p-20, 0.01, 100, false},
      {OpKind::kSqrt, one(std::sqrt), true, false, false, 0x1p-22, 0, 100, true},
      {OpKind::kSqrtRn, one(std::sqrt), true, false, false, 0, 0, 100, true},
      {OpKind::kRsqrt, [](double a, double) { return 1 / std::sqrt(a); }, true, false, false,
       0x1p-21, 0.01, 100, true},
      {OpKind::kTanh, one(std::tanh), true, false, false, 0x1p-20, -6, 6, false},
      {OpKind::kSigmoid, [](double a, double) { return 1 / (1 + std::exp(-a)); }, true, false,
       false, 0x1p-20, -20, 20, false},
      {OpKind::kErf, one(std::erf), true, false, false, 0x1p-20, -5, 5, false},
      {OpKind::kSin, one(std::sin), true, false, false, 0x1p-21, -400, 400, false},
      {OpKind::kCos, one(std::cos), true, false, false, 0x1p-21, -400, 400, false},
  };
  for (const OpRow& row : rows)
    for (DType d : kAll) {
      if (d == DType::kBool) continue;
      if (ir::IsFloat(d) ? !row.floats : !row.integers) continue;
      if (d == DType::kF64 && !row.f64) continue;
      if (!ir::IsFloat(d) && row.kind == OpKind::kAbs && !ir::IsSigned(d)) continue;
      Check(row, d, 1);
    }
}

// The unit's tanh serves where what it gives is rounded to fewer bits than it gets right, beside
// other roles.
TEST(Tanh, IsExactWhereItIsNotRounded) {
  enum class Also { kNothing, kStored, kCompared };
  const ir::Layout layout = ir::BlockedLayout({kCount}, 2, 128);
  const auto uses_the_unit = [&](Also also, bool roles) {
    Kernel k("tanh", roles ? 5 : 4);
    const ValueId a = k.In({"A", DType::kF32, {kCount}, Random(DType::kF32, kCount, 1), {}});
    const ValueId out = k.Out({"C", DType::kBF16, {kCount}, {}, {}});
    const ValueId other = k.Out({"D", DType::kF32, {kCount}, {}, {}});
    const auto role = [&](const char* name, int64_t first, int64_t warps) {
      const ir::OpId op = k.b.Add(
          OpKind::kRole, {}, {},
          {{"name", std::string(name)}, {"first_warp", first}, {"warps", warps}, {"regs", 0}});
      const ir::BlockId region = k.fn.AddBlock(op);
      k.fn.ops[op].regions.push_back(region);
      return region;
    };
    if (roles) {
      ir::Builder(k.fn, role("load", 4, 1)).Yield({});
      k.b.SetBlock(role("compute", 0, 4));
    }
    const ValueId x = k.Load(a, {kCount}, layout);
    const ValueId sum = k.b.Binary(OpKind::kAdd, k.b.Unary(OpKind::kTanh, x), x);
    if (also == Also::kCompared)
      k.Store(other, k.b.Value(OpKind::kSelect, {k.b.Cmp("lt", sum, x), x, x}, k.fn.type(x)));
    else
      k.Store(other, also == Also::kStored ? sum : x);
    k.Store(out, k.b.Cast(sum, DType::kBF16));
    if (roles) {
      k.b.Yield({});
      k.b.SetBlock(k.fn.body);
    }
    EXPECT_TRUE(k.Build());
    return k.image().ptx.find("tanh.approx") != std::string::npos;
  };
  EXPECT_TRUE(uses_the_unit(Also::kNothing, true));
  EXPECT_FALSE(uses_the_unit(Also::kNothing, false));
  EXPECT_FALSE(uses_the_unit(Also::kStored, true));
  EXPECT_FALSE(uses_the_unit(Also::kCompared, true));  // it decides something
}

TEST_F(Elementwise, Binary) {
  SKIP_WITHOUT_DEVICE();
  const OpRow rows[] = {
      {OpKind::kAdd, [](double a, double b) { return a + b; }},
      {OpKind::kSub, [](double a, double b) { return a - b; }},
      {OpKind::kMul, [](double a, double b) { return a * b; }},
      {OpKind::kMin, [](double a, double b) { return std::fmin(a, b); }},
      {OpKind::kMax, [](double a, double b) { return std::fmax(a, b); }},
      {OpKind::kDiv, [](double a, double b) { return a / b; }, true, false, false, 0x1p-21},
      {OpKind::kDivRn, [](double a, double b) { return a / b; }, true, false, false, 0},
      {OpKind::kDiv, [](double a, double b) { return b == 0 ? 0 : std::floor(a / b); }, false,
       true},
      {OpKind::kMod, FloorMod, false, true},
  };
  for (const OpRow& row : rows)
    for (DType d : kAll) {
      if (d == DType::kBool) continue;
      if (ir::IsFloat(d) ? !row.floats : !row.integers) continue;
      Check(row, d, 2);
    }
}

// Quotients by a number that a thread has several of (backend/README.md: 2 ulp), few of them and
// many, by numbers whose reciprocal is ordinary, subnormal, infinite or none.
TEST(Quotients, ByOneNumber) {
  SKIP_WITHOUT_DEVICE();
  const std::vector<double> x = {0,     1,      -3,         kInf,       kNan,      0x1.fffffep127,
                                 1e-30, -1e-30, 0x1.8p-120, 0x1.8p-130, 0x1.7p100, 0.7};
  const std::vector<double> y = {
      1,    3,     -0.3, 0x1.5p-124, 0x1.5p-126, 0x1.5p-128, 0x1p-149,       0,     -0.0,
      kInf, -kInf, kNan, 0x1.5p124,  0x1.5p125,  0x1.5p126,  0x1.fffffep127, 1e-30, 17};
  for (const int64_t columns : {8, 40}) {
    const std::vector<int64_t> shape = {128, columns};
    ir::Layout layout;  // a row is one thread's
    layout.rank = 2;
    layout.thread = {{128, 0, 1}};
    layout.reg = {{columns, 1, 1}};
    Kernel k("quotients");
    std::vector<double> numbers, by;
    for (int64_t r = 0; r < 128; ++r) {
      by.push_back(y[static_cast<size_t>(r) % y.size()]);
      for (int64_t c = 0; c < columns; ++c)
        numbers.push_back(x[static_cast<size_t>(r + c) % x.size()]);
    }
    const ValueId a = k.In({"A", DType::kF32, shape, numbers, {}});
    const ValueId b = k.In({"B", DType::kF32, {128}, by, {}});
    const ValueId out = k.Out({"C", DType::kF32, shape, {}, {}});
    const ValueId tile = k.Load(a, shape, layout);
    const ValueId row = k.Load(b, {128}, ir::SliceLayout(layout, 1));
    const ValueId wide =
        k.b.Value(OpKind::kWarpBroadcast, {row}, k.Tile(DType::kF32, shape, layout),
                  {{"axes", std::vector<int64_t>{0}}});
    k.Store(out, k.b.Binary(OpKind::kDiv, tile, wide));
    ASSERT_TRUE(k.Run());
    const bool few = columns == 8;
    EXPECT_EQ(k.image().ptx.find("div.full") != std::string::npos, few);
    const std::vector<double> got = k.values("C");
    for (size_t i = 0; i < got.size(); ++i) {
      const double want = numbers[i] / by[i / static_cast<size_t>(columns)];
      const double ulp = std::ldexp(1, std::max(std::ilogb(want), -126) - 23);
      if (std::isnan(want)) {
        EXPECT_TRUE(std::isnan(got[i])) << i;
      } else if (std::fabs(want) >= 0x1p128 || want == 0) {
        EXPECT_EQ(got[i], want == 0 ? 0 : std::copysign(kInf, want)) << i;
      } else if (std::fabs(want) >= 0x1p-126) {
        EXPECT_LE(std::fabs(got[i] - want), 2 * ulp) << i;
      } else {  // may be flushed
        EXPECT_LE(std::fabs(got[i]), 0x1p-126) << i;
      }
    }
  }
}

// (x / 2) · (1 + t) is one fma and one product, and the same number whatever x and t are.
// What a factor that is mostly one is made of is rounded as it is written: where x is y,
// exp2(x * c - y * c) is one. Rounded once it would be 1 + 1e-7 or so, and nobody would skip it.
TEST(Seldom, FactorsAreOneWhereNothingMoved) {
  SKIP_WITHOUT_DEVICE();
  for (int64_t seldom : {1, 0}) {
    Kernel k("seldom" + std::to_string(seldom));
    const ir::Layout layout = ir::BlockedLayout({256}, 1, 128);
    const std::vector<double> data = Random(DType::kF32, 256, 11, 1, 9);
    const ValueId x = k.Load(k.In({"X", DType::kF32, {256}, data, {}}), {256}, layout);
    const ValueId y = k.Load(k.In({"Y", DType::kF32, {256}, data, {}}), {256}, layout);
    const Type type = k.fn.type(x);
    const ValueId c = k.b.Value(OpKind::kConstant, {}, type, {{"value", 1.4426950408889634}});
    const ValueId apart =
        k.b.Binary(OpKind::kSub, k.b.Binary(OpKind::kMul, x, c), k.b.Binary(OpKind::kMul, y, c));
    const ValueId factor = k.b.Value(OpKind::kExp2, {apart}, type);
    const ValueId wide =
        k.b.Value(OpKind::kWarpBroadcast, {factor}, type, {{"axes", std::vector<int64_t>{0}}});
    const ValueId one = k.b.Value(OpKind::kConstant, {}, type, {{"value", 1.0}});
    k.Store(k.Out({"C", DType::kF32, {256}, {}, {}}),
            seldom ? k.b.Value(OpKind::kMul, {one, wide}, type, {{"seldom", int64_t{1}}})
                   : k.b.Binary(OpKind::kMul, one, wide));
    ASSERT_TRUE(k.Run());
    int64_t ones = 0;
    for (double v : k.values("C")) ones += v == 1;
    if (seldom)
      EXPECT_EQ(ones, 256);
    else
      EXPECT_LT(ones, 256) << "rounded once: the test says nothing";
  }
}

TEST_F(Elementwise, ScaledSums) {
  SKIP_WITHOUT_DEVICE();
  const std::vector<double> special = {0,     -0.0,  1,      kInf, -kInf,      kNan, 3e38,
                                       -3e38, 1e-30, -1e-30, -1,   -0.9999999, 5,    0.3};
  std::vector<double> x, t;
  for (double a : special)
    for (double b : special) x.push_back(a), t.push_back(b);
  const auto count = static_cast<int64_t>(RoundUp(static_cast<int64_t>(x.size()), 128));
  x.resize(static_cast<size_t>(count), 0.7), t.resize(static_cast<size_t>(count), -0.2);
  for (bool turned : {false, true}) {
    Kernel k(turned ? "sum_scaled" : "scaled_sum");
    const ir::Layout layout = ir::BlockedLayout({count}, 1, 128);
    const ValueId a = k.In({"A", DType::kF32, {count}, x, {}});
    const ValueId b = k.In({"B", DType::kF32, {count}, t, {}});
    const ValueId out = k.Out({"C", DType::kF32, {count}, {}, {}});
    const ValueId first = k.Load(a, {count}, layout), second = k.Load(b, {count}, layout);
    const Type type = k.fn.type(first);
    const ValueId half = k.b.Value(OpKind::kConstant, {}, type, {{"value", 0.5}});
    const ValueId one = k.b.Value(OpKind::kConstant, {}, type, {{"value", 1.0}});
    const ValueId scaled = k.b.Binary(OpKind::kMul, first, half);
    const ValueId sum = k.b.Binary(OpKind::kAdd, second, one);
    k.Store(out,
            turned ? k.b.Binary(OpKind::kMul, sum, scaled) : k.b.Binary(OpKind::kMul, scaled, sum));
    ASSERT_TRUE(k.Run());
    EXPECT_NE(k.image().ptx.find("fma.rn"), std::string::npos);
    EXPECT_EQ(k.image().ptx.find("add.rn.f32"), std::string::npos);
    std::vector<double> want;
    for (size_t i = 0; i < x.size(); ++i) {
      const float p = static_cast<float>(x[i]) * 0.5f, q = static_cast<float>(t[i]) + 1.0f;
      want.push_back(p * q);
    }
    ExpectNear(k.values("C"), want, 0, k.fn.name);
  }
}

TEST_F(Elementwise, BitsAndShifts) {
  SKIP_WITHOUT_DEVICE();
  auto bits = [](auto f) {
    return [f](double a, double b) {
      return static_cast<double>(f(static_cast<int64_t>(a), static_cast<int64_t>(b)));
    };
  };
  const OpRow rows[] = {
      {OpKind::kAnd, bits([](int64_t a, int64_t b) { return a & b; })},
      {OpKind::kOr, bits([](int64_t a, int64_t b) { return a | b; })},
      {OpKind::kXor, bits([](int64_t a, int64_t b) { return a ^ b; })},
  };
  for (const OpRow& row : rows)
    for (DType d : kAll)
      if (ir::IsInteger(d)) Check(row, d, 2);
  for (DType d : {DType::kI32, DType::kU32, DType::kI16, DType::kU8, DType::kI64})
    for (bool left : {true, false}) {
      Kernel k(std::string(left ? "shl_" : "shr_") + ir::Spelling(d));
      const std::vector<double> x = Random(d, 256, 1, -100, 100);
      std::vector<double> y;
      for (int i = 0; i < 256; ++i) y.push_back(i % 5);
      const ir::Layout layout = ir::BlockedLayout({256}, 2, 128);
      const ValueId a = k.In({"A", d, {256}, x, {}}), b = k.In({"B", d, {256}, y, {}});
      const ValueId out = k.Out({"C", d, {256}, {}, {}});
      k.Store(out, k.b.Binary(left ? OpKind::kShl : OpKind::kShr, k.Load(a, {256}, layout),
                              k.Load(b, {256}, layout)));
      ASSERT_TRUE(k.Run());
      std::vector<double> want;
      for (size_t i = 0; i < x.size(); ++i)
        want.push_back(Wrap(d, left ? x[i] * std::exp2(y[i]) : std::floor(x[i] / std::exp2(y[i]))));
      ExpectNear(k.values("C"), want, 0, k.fn.name);
    }
}

TEST_F(Elementwise, CompareSelectFma) {
  SKIP_WITHOUT_DEVICE();
  for (DType d : kAll) {
    if (d == DType::kBool) continue;
    Kernel k(std::string("choose_") + ir::Spelling(d));
    std::vector<double> x = Random(d, kCount, 1, -3, 3), y = Random(d, kCount, 2, -3, 3);
    for (size_t i = 0; i < 20; ++i) x[i] = y[i];
    if (ir::IsFloat(d)) x[3] = kNan, y[5] = kNan;
    const ir::Layout layout = ir::BlockedLayout({kCount}, 4, 128);
    const ValueId a = k.In({"A", d, {kCount}, x, {}}), b = k.In({"B", d, {kCount}, y, {}});
    const ValueId u = k.Load(a, {kCount}, layout), v = k.Load(b, {kCount}, layout);
    const char* preds[] = {"eq", "ne", "lt", "le", "gt", "ge"};
    for (const char* p : preds) {
      const ValueId out = k.Out({std::string("C_") + p, DType::kBool, {kCount}, {}, {}});
      k.Store(out, k.b.Cmp(p, u, v));
    }
    const ValueId chosen = k.Out({"S", d, {kCount}, {}, {}});
    k.Store(chosen, k.b.Value(OpKind::kSelect, {k.b.Cmp("lt", u, v), u, v}, k.fn.type(u)));
    const ValueId fused = k.Out({"F", d, {kCount}, {}, {}});
    k.Store(fused, k.b.Value(OpKind::kFma, {u, v, u}, k.fn.type(u)));
    ASSERT_TRUE(k.Run());
    auto want = [&](auto f) {
      std::vector<double> out;
      for (size_t i = 0; i < x.size(); ++i) out.push_back(f(x[i], y[i]));
      return out;
    };
    ExpectNear(k.values("C_eq"), want([](double p, double q) { return p == q; }), 0, k.fn.name);
    ExpectNear(k.values("C_ne"), want([](double p, double q) { return p != q; }), 0, k.fn.name);
    ExpectNear(k.values("C_lt"), want([](double p, double q) { return p < q; }), 0, k.fn.name);
    ExpectNear(k.values("C_le"), want([](double p, double q) { return p <= q; }), 0, k.fn.name);
    ExpectNear(k.values("C_gt"), want([](double p, double q) { return p > q; }), 0, k.fn.name);
    ExpectNear(k.values("C_ge"), want([](double p, double q) { return p >= q; }), 0, k.fn.name);
    ExpectNear(k.values("S"), want([](double p, double q) { return p < q ? p : q; }), 0, k.fn.name);
    ExpectNear(k.values("F"), want([&](double p, double q) {
                 const double exact = std::fma(p, q, p);
                 return ir::IsFloat(d) ? RoundTo(d, exact) : Wrap(d, exact);
               }),
               0, k.fn.name);
  }
}

TEST_F(Elementwise, SpecialValues) {
  SKIP_WITHOUT_DEVICE();
  const std::vector<double> x = {0, -0.0, 1, kInf, -kInf, kNan, 1e38, -1e38, 100, -100, 1e-30, 5};
  struct Row {
    OpKind kind;
    double (*f)(double);
  };
  const Row rows[] = {{OpKind::kExp, std::exp},
                      {OpKind::kExp2, std::exp2},
                      {OpKind::kTanh, std::tanh},
                      {OpKind::kErf, std::erf},
                      {OpKind::kSigmoid, [](double v) { return 1 / (1 + std::exp(-v)); }},
                      {OpKind::kLog, std::log},
                      {OpKind::kSqrt, std::sqrt}};
  std::vector<double> padded = x;
  padded.resize(128, 2);
  for (const Row& row : rows) {
    Kernel k(std::string("special_") + ir::Info(row.kind).mnemonic);
    const ir::Layout layout = ir::BlockedLayout({128}, 1, 128);
    const ValueId a = k.In({"A", DType::kF32, {128}, padded, {}});
    const ValueId out = k.Out({"C", DType::kF32, {128}, {}, {}});
    k.Store(out, k.b.Unary(row.kind, k.Load(a, {128}, layout)));
    ASSERT_TRUE(k.Run());
    std::vector<double> want;
    for (double v : padded) want.push_back(RoundTo(DType::kF32, row.f(RoundTo(DType::kF32, v))));
    ExpectNear(k.values("C"), want, 0x1p-20, k.fn.name);
  }
}

}  // namespace

}  // namespace tilec::backend
