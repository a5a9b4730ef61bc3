// Every cast and constants of every type, run and compared with the host; floats too small for the
// machine's own conversions, made of integers.
//
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <functional>

#include "tests/unit/backend/harness.h"
#include "tests/unit/backend/host_arithmetic.h"

namespace tilec::backend {

namespace {

TEST(Cast, EveryPair) {
  SKIP_WITHOUT_DEVICE();
  for (DType from : kAll) {
    Kernel k(std::string("cast_") + ir::Spelling(from));
    std::vector<double> x = Random(from, 256, 3, -130, 130);
    const bool f = ir::IsFloat(from);
    if (f) {
      const double special[] = {kInf,   -kInf,   kNan,  0,      -0.0,   0.5,  -0.5,    1.5,  2.5,
                                3e9,    -3e9,    1e19,  -1e19,  70000,  449,  464,     1e-3, 1e-9,
                                57345,  61441,   65519, 65520,  255.5,  256,  -129,    3e-5, 447,
                                1.0625, 1.00391, 257,   1.0009, 2.0001, 33.5, 0.01953, 17,   19};
      for (size_t i = 0; i < std::size(special); ++i) x[i] = RoundTo(from, special[i]);
    } else if (from == DType::kI64) {
      x[0] = 0x1p53, x[1] = -0x1p62, x[2] = 16777217, x[3] = 0x1p24 + 3, x[4] = 2147483648.0;
    } else if (from == DType::kI32) {
      x[0] = -2147483648.0, x[1] = 2147483647, x[2] = 16777217, x[3] = 16777219, x[4] = 257,
      x[5] = 2049, x[6] = 2051, x[7] = 8388737;
    }
    const ir::Layout layout = ir::BlockedLayout({256}, 2, 128);
    const ValueId a = k.In({"A", from, {256}, x, {}});
    const ValueId v = k.Load(a, {256}, layout);
    for (DType to : kAll) {
      const ValueId out = k.Out({std::string("C_") + ir::Spelling(to), to, {256}, {}, {}});
      k.Store(out, k.b.Cast(v, to));
    }
    ASSERT_TRUE(k.Run());
    for (DType to : kAll) {
      std::vector<double> want;
      for (double v0 : x) {
        double w = v0;
        if (to == DType::kBool) {
          w = std::isnan(v0) || v0 != 0;
        } else if (ir::IsFloat(to)) {
          w = RoundTo(to, v0);
        } else if (f) {
          const int bits = ir::Info(to).bits;
          const double hi = ir::IsSigned(to) ? std::exp2(bits - 1) - 1 : std::exp2(bits) - 1;
          const double lo = ir::IsSigned(to) ? -std::exp2(bits - 1) : 0;
          w = std::isnan(v0) ? 0 : std::fmin(std::fmax(std::trunc(v0), lo), hi);
        } else {
          w = Wrap(to, v0);
        }
        want.push_back(w);
      }
      ExpectNear(k.values(std::string("C_") + ir::Spelling(to)), want, 0,
                 k.fn.name + " to " + ir::Spelling(to));
    }
  }
}

// All bytes, one by one and many together, and integers whose bits are seen to be few: as they are,
// masked, shifted, moved by constants, at both ends of what is small.
TEST(Cast, SmallIntegers) {
  SKIP_WITHOUT_DEVICE();
  for (DType from : {DType::kI8, DType::kU8})
    for (int64_t vector : {1, 2, 16}) {
      Kernel k(fmt::format("small_{}_{}", ir::Spelling(from), vector));
      std::vector<double> x;
      for (int i = 0; i < 2048; ++i) x.push_back(Wrap(from, i * 37));
      const ir::Layout layout = ir::BlockedLayout({2048}, vector, 128);
      const ValueId v = k.Load(k.In({"A", from, {2048}, x, {}}), {2048}, layout);
      const auto constant = [&](ValueId like, int64_t c) {
        return k.b.Constant(k.fn.type(like), static_cast<double>(c));
      };
      const ValueId word = k.b.Cast(v, DType::kI32);
      const ValueId low = k.b.Cast(k.b.Binary(OpKind::kAnd, v, constant(v, 15)), DType::kI32);
      const ValueId seven = k.b.Cast(k.b.Binary(OpKind::kAnd, v, constant(v, 127)), DType::kI32);
      struct Made {
        const char* name;
        ValueId value;
        std::function<double(double)> of;
      };
      const auto byte = [](double a) { return static_cast<int>(a) & 255; };
      const std::vector<Made> made = {
          {"as", v, [](double a) { return a; }},
          {"word", word, [](double a) { return a; }},
          {"high", k.b.Binary(OpKind::kShr, v, constant(v, 4)),
           [](double a) { return std::floor(a / 16); }},
          {"low", k.b.Binary(OpKind::kSub, low, constant(low, 8)),
           [&](double a) { return (byte(a) & 15) - 8.0; }},
          {"seven", seven, [&](double a) { return byte(a) & 127; }},
          {"seven_up", k.b.Binary(OpKind::kAdd, seven, constant(seven, 128)),
           [&](double a) { return (byte(a) & 127) + 128.0; }},
          {"seven_down", k.b.Binary(OpKind::kSub, seven, constant(seven, 128)),
           [&](double a) { return (byte(a) & 127) - 128.0; }},
          {"seven_far", k.b.Binary(OpKind::kAdd, seven, constant(seven, 1001)),
           [&](double a) { return (byte(a) & 127) + 1001.0; }},
          {"up", k.b.Binary(OpKind::kAdd, word, constant(word, 4194176)),
           [](double a) { return a + 4194176; }},
          {"down", k.b.Binary(OpKind::kSub, word, constant(word, 4194176)),
           [](double a) { return a - 4194176; }},
          {"negative", k.b.Binary(OpKind::kSub, constant(low, 0), low),
           [&](double a) { return -(byte(a) & 15) + 0.0; }},
          {"far", k.b.Binary(OpKind::kAdd, word, constant(word, 1 << 24)),
           [](double a) { return a + (1 << 24); }}};
      for (const Made& m : made)
        for (DType to : {DType::kF32, DType::kF16, DType::kBF16})
          k.Store(k.Out({fmt::format("{}_{}", m.name, ir::Spelling(to)), to, {2048}, {}, {}}),
                  k.b.Cast(m.value, to));
      ASSERT_TRUE(k.Run());
      for (const Made& m : made)
        for (DType to : {DType::kF32, DType::kF16, DType::kBF16}) {
          std::vector<double> want;
          for (double a : x) want.push_back(RoundTo(to, m.of(a)));
          const std::string name = fmt::format("{}_{}", m.name, ir::Spelling(to));
          ExpectNear(k.values(name), want, 0, k.fn.name + " " + name);
        }
    }
}

// How many conversions of the kernel look whether they lost anything.
int CarefulCasts(DType from, OpKind op, int64_t operand) {
  Kernel k(std::string("cast_bits_") + ir::Spelling(from));
  const ir::Layout layout = ir::BlockedLayout({256}, 2, 128);
  const ValueId x = k.Load(k.In({"A", from, {256}, Random(from, 256, 5), {}}), {256}, layout);
  const Type type = k.Tile(from, {256}, layout);
  const ValueId bits =
      k.b.Binary(op, x, k.b.Value(OpKind::kConstant, {}, type, {{"value", operand}}));
  k.Store(k.Out({"C", DType::kBF16, {256}, {}, {}}), k.b.Cast(bits, DType::kBF16));
  EXPECT_TRUE(k.Build());
  int found = 0;
  for (size_t at = 0; (at = k.image().ptx.find("cvt.rz.f32", at)) != std::string::npos; ++at)
    ++found;
  return found;
}

// Integers of 24 bits and a sign are f32 already: 2^24 + 1 is the first that is not.
TEST(Cast, WhatFitsAnF32IsConvertedAsItIs) {
  EXPECT_EQ(CarefulCasts(DType::kU32, OpKind::kShr, 8), 0);
  EXPECT_EQ(CarefulCasts(DType::kU32, OpKind::kShr, 7), 2);
  EXPECT_EQ(CarefulCasts(DType::kI32, OpKind::kShr, 7), 0);
  EXPECT_EQ(CarefulCasts(DType::kI32, OpKind::kShr, 6), 2);
  EXPECT_EQ(CarefulCasts(DType::kI32, OpKind::kAnd, 0xffffff), 0);
  EXPECT_EQ(CarefulCasts(DType::kI32, OpKind::kAnd, 0x1ffffff), 2);
}

TEST(Cast, ConstantsOfEveryType) {
  SKIP_WITHOUT_DEVICE();
  for (DType d : kAll) {
    Kernel k(std::string("constant_") + ir::Spelling(d));
    const ir::Layout layout = ir::BlockedLayout({128}, 1, 128);
    std::vector<double> want;
    for (double c : {3.0, 0.3, -2.0, 500.0}) {
      if (!ir::IsFloat(d) && c != 3.0) continue;
      const std::string name = "C" + std::to_string(want.size());
      const ValueId out = k.Out({name, d, {128}, {}, {}});
      k.Store(out, k.b.Constant(k.Tile(d, {128}, layout), c));
      want.push_back(RoundTo(d, c));
    }
    ASSERT_TRUE(k.Run());
    for (size_t i = 0; i < want.size(); ++i)
      ExpectNear(k.values("C" + std::to_string(i)), std::vector<double>(128, want[i]), 0,
                 k.fn.name);
  }
}

// Where the GPU converts no 8-bit floats, integer instructions do, to the same bits: all codes, and
// around every one of them the ties and their neighbours, what saturates, infinities and NaN.
TEST(SmallFloats, ByIntegers) {
  SKIP_WITHOUT_DEVICE();
  DiagSink diags;
  const Result<ir::Target> a100 = ir::LoadBuiltinTarget("a100", diags);
  ASSERT_TRUE(a100.ok());
  for (const DType d : {DType::kE4M3, DType::kE5M2}) {
    std::vector<uint8_t> codes(256);
    for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint8_t>(i);
    const std::vector<double> numbers = Decode(d, codes);
    std::vector<double> wide;
    for (size_t i = 0; i < codes.size(); ++i) {
      const double next = numbers[(i & 0x7f) == 0x7f ? i : i + 1];
      const double tie = (numbers[i] + next) / 2;
      for (const double v : {numbers[i], tie, tie * (1 + 0x1p-20), tie * (1 - 0x1p-20)})
        wide.push_back(static_cast<float>(v));
    }
    for (const double v : {kInf, -kInf, kNan, 1e30, -1e30, 1e-30, 0x1p-149, -0.0})
      wide.push_back(v);
    wide.resize(1152, 449.0);
    const auto count = static_cast<int64_t>(wide.size());
    const ir::Layout layout = ir::BlockedLayout({count}, 1, 128);
    const ir::Layout all = ir::BlockedLayout({256}, 1, 128);
    Kernel k(std::string("by_integers_") + ir::Spelling(d));
    k.machine = &*a100;
    const ValueId from = k.In({"W", DType::kF32, {count}, wide, {}});
    const ValueId narrow = k.Out({"N", d, {count}, {}, {}});
    const ValueId source = k.In({"C", d, {256}, numbers, {}});
    const ValueId to = k.Out({"F", DType::kF32, {256}, {}, {}});
    k.Store(narrow, k.b.Cast(k.Load(from, {count}, layout), d));
    k.Store(to, k.b.Cast(k.Load(source, {256}, all), DType::kF32));
    ASSERT_TRUE(k.Run()) << ir::Spelling(d);
    EXPECT_EQ(k.image().ptx.find("e4m3x2"), std::string::npos);
    EXPECT_EQ(k.image().ptx.find("e5m2x2"), std::string::npos);
    EXPECT_NE(k.image().ptx.find(".target sm_80"), std::string::npos);
    std::vector<double> want;
    for (const double v : wide) want.push_back(RoundTo(d, v));
    ExpectNear(k.values("N"), want, 0, k.fn.name + " to");
    std::vector<double> given;  // infinities saturate on their way into the tensor
    for (const double v : numbers) given.push_back(RoundTo(d, v));
    ExpectNear(k.values("F"), given, 0, k.fn.name + " from");
  }
}

}  // namespace

}  // namespace tilec::backend
