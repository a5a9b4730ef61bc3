// Matrix products: wgmma for every dtype, orientation, split and operand place; simt_dot.
//
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "tests/unit/backend/harness.h"
#include "tests/unit/h200.h"

namespace tilec::backend {
namespace {

struct MmaCase {
  DType a, b;
  int64_t m, n, k;
  int warps = 4;
  const char* split = "m";
  bool trans_a = false, trans_b = false;
  int swizzle = 128;
  bool a_in_registers = false;
  int64_t k_begin = 0;
  bool zero = true;
  // In a loop of two turns that carries the accumulator; a flag says that the first one ignores it.
  bool told = false;
};

ir::SmemLayout Panels(int64_t rows, int64_t cols, int swizzle, DType d) {
  ir::SmemLayout s;
  s.rows = rows;
  s.swizzle_bytes = swizzle;
  s.panel_cols = (swizzle ? swizzle : 16) / ir::ByteSize(d);
  s.cols = RoundUp(cols, s.panel_cols);
  return s;
}

ir::WgSplit SplitOf(const std::string& s) {
  return s == "m" ? ir::WgSplit::kM : s == "n" ? ir::WgSplit::kN : ir::WgSplit::kNone;
}

// tf32 products ignore the low 13 bits.
double Seen(DType d, double v) {
  if (d != DType::kTF32) return v;
  const std::vector<uint8_t> bytes = Encode(DType::kF32, {v});
  std::vector<uint8_t> cut = bytes;
  cut[0] = 0;
  cut[1] &= 0xe0;
  return Decode(DType::kF32, cut)[0];
}

// `acc` and A · B by instructions of wgmma: once, or in each of two turns whose first is told not
// to read what `acc` holds.
ValueId Multiply(Kernel& k, const MmaCase& c, ValueId acc, ValueId a, ValueId b) {
  const Type type = k.fn.type(acc);
  const ir::BlockId home = k.b.block();
  const ValueId slot = k.b.Int(0, DType::kI32);
  ir::OpId loop;
  ValueId adds;
  if (c.told) {
    const Type flag = Type::Scalar(DType::kBool);
    loop = k.b.Add(OpKind::kFor, {k.b.Int(0), k.b.Int(2), acc, k.b.Constant(flag, 0)}, {type, flag},
                   {{"step", int64_t{1}}, {"some", int64_t{1}}});
    const ir::BlockId body = k.fn.AddBlock(loop);
    k.fn.ops[loop].regions.push_back(body);
    k.fn.AddArg(body, Type::Scalar(DType::kI64));
    acc = k.fn.AddArg(body, type);
    adds = k.fn.AddArg(body, flag);
    k.b.SetBlock(body);
  }
  std::vector<ValueId> in = {acc};
  if (c.a_in_registers) in.push_back(a);
  std::vector<Type> types;
  for (ValueId v : in) types.push_back(k.fn.type(v));
  const ir::OpId fence = k.b.Add(OpKind::kMmaFence, in, types);
  acc = k.fn.ops[fence].results[0];
  if (c.a_in_registers) a = k.fn.ops[fence].results[1];
  std::vector<ValueId> operands = {acc, a, b};
  if (c.told) operands.insert(operands.end(), {slot, slot, adds});
  acc = k.b.Value(OpKind::kMma, operands, type,
                  {{"k", c.k},
                   {"split", std::string(c.split)},
                   {"trans_a", int64_t{c.trans_a}},
                   {"trans_b", int64_t{c.trans_b}},
                   {"zero", int64_t{c.zero}},
                   {"k_begin", c.k_begin}});
  k.b.Add(OpKind::kMmaCommit, {}, {});
  std::vector<ValueId> waited = {acc};
  if (c.a_in_registers) waited.push_back(a);
  const ir::OpId wait = k.b.Add(OpKind::kMmaWait, waited, {type}, {{"pending", int64_t{0}}});
  acc = k.fn.ops[wait].results[0];
  if (c.told) {
    k.b.Yield({acc, k.b.Constant(Type::Scalar(DType::kBool), 1)});
    k.b.SetBlock(home);
    acc = k.fn.ops[loop].results[0];
  }
  return acc;
}

// What C holds afterwards, of what it held `before`.
std::vector<double> Product(Kernel& k, const MmaCase& c, const std::vector<double>& before,
                            bool simt) {
  std::vector<double> want;
  for (int64_t i = 0; i < c.m; ++i)
    for (int64_t j = 0; j < c.n; ++j) {
      double sum = (c.zero || c.told) && !simt ? 0 : before[static_cast<size_t>(i * c.n + j)];
      for (int64_t q = simt ? 0 : c.k_begin; q < c.k + c.k_begin; ++q) {
        const double x =
            k.values("A")[static_cast<size_t>(c.trans_a ? q * c.m + i : i * (c.k + c.k_begin) + q)];
        const double y =
            k.values("B")[static_cast<size_t>(c.trans_b ? q * c.n + j : j * (c.k + c.k_begin) + q)];
        sum += (simt ? x * y : Seen(c.a, x) * Seen(c.b, y)) * (c.told ? 2 : 1);
      }
      want.push_back(sum);
    }
  return want;
}

void Check(const MmaCase& c, int number, bool simt = false) {
  Kernel k("mma" + std::to_string(number), c.warps);
  const bool integer = ir::IsInteger(c.a);
  const DType d = integer ? DType::kI32 : DType::kF32;
  const int wgs = c.warps / 4;
  const ir::WgSplit split = SplitOf(c.split);
  const int64_t all_k = c.k + c.k_begin;
  const std::vector<int64_t> a_shape =
      c.trans_a ? std::vector<int64_t>{all_k, c.m} : std::vector<int64_t>{c.m, all_k};
  const std::vector<int64_t> b_shape =
      c.trans_b ? std::vector<int64_t>{all_k, c.n} : std::vector<int64_t>{c.n, all_k};
  const double range = integer ? 20 : 2;
  const ValueId ta = k.In({"A", c.a, a_shape, Random(c.a, c.m * all_k, 1, -range, range), {}});
  const ValueId tb = k.In({"B", c.b, b_shape, Random(c.b, c.n * all_k, 2, -range, range), {}});
  const ValueId tc = k.Out({"C", d, {c.m, c.n}, Random(d, c.m * c.n, 3, -9, 9), {}});
  // Buffers cover whole blocks of 64 rows per warpgroup, and whole groups of eight columns.
  const int64_t m_pad = RoundUp(c.m, 64 * (split == ir::WgSplit::kM ? wgs : 1));
  const int64_t n_pad = RoundUp(CeilDiv(c.n, split == ir::WgSplit::kN ? wgs : 1), 8) *
                        (split == ir::WgSplit::kN ? wgs : 1);
  const int64_t threads = 32 * c.warps;
  auto place = [&](ValueId tensor, const std::vector<int64_t>& shape, DType t, int64_t rows,
                   int64_t cols, int64_t offset) {
    const ir::SmemLayout s = Panels(RoundUp(rows, 8), cols, c.swizzle, t);
    const ValueId smem = k.Smem(t, shape, s, offset);
    k.b.Add(OpKind::kSmemZero, {smem}, {});
    k.Sync();
    k.b.Add(OpKind::kSmemStore, {k.Load(tensor, shape, ir::BlockedLayout(shape, 1, threads)), smem},
            {});
    return smem;
  };
  ValueId a;
  if (c.a_in_registers)
    a = k.Load(
        ta, a_shape,
        ir::LeftInRegisters(ir::MatrixUnit::kWgmma, Type::Tile(c.a, a_shape), wgs, split).value());
  else
    a = place(ta, a_shape, c.a, c.trans_a ? all_k : m_pad, c.trans_a ? m_pad : all_k, 0);
  const int64_t b_at = RoundUp(k.fn.launch.smem_bytes, 1024);
  const ValueId b =
      place(tb, b_shape, c.b, c.trans_b ? all_k : n_pad, c.trans_b ? n_pad : all_k, b_at);
  k.b.Add(OpKind::kFenceAsync, {}, {});
  k.Sync();
  const ir::Layout layout = simt ? ir::BlockedLayout({c.m, c.n}, 2, threads)
                                 : ir::AccumulatorLayout(c.m, c.n, wgs, split);
  ValueId acc = k.Load(tc, {c.m, c.n}, layout);
  const Type acc_type = k.fn.type(acc);
  if (simt) {
    acc =
        k.b.Value(OpKind::kSimtDot, {acc, a, b}, acc_type,
                  {{"k", all_k}, {"trans_a", int64_t{c.trans_a}}, {"trans_b", int64_t{c.trans_b}}});
  } else {
    acc = Multiply(k, c, acc, a, b);
  }
  k.Store(tc, acc);
  const std::vector<double> before = k.values("C");
  ASSERT_TRUE(k.Run());
  const std::vector<double> want = Product(k, c, before, simt);
  const bool fp8 = ir::ByteSize(c.a) == 1 && !integer;
  ExpectNear(k.values("C"), want,
             integer ? 0
             : fp8   ? 4e-3
                     : 1e-4,
             k.fn.name + " " + ir::Spelling(c.a) + " " + ir::Spelling(c.b) + " " +
                 std::to_string(c.m) + "x" + std::to_string(c.n) + "x" + std::to_string(c.k) +
                 " split " + c.split + (c.trans_a ? " tA" : "") + (c.trans_b ? " tB" : "") +
                 " swizzle " + std::to_string(c.swizzle) + (c.a_in_registers ? " regs" : ""));
}

TEST(Mma, TypesAndSwizzles) {
  SKIP_WITHOUT_DEVICE();
  int n = 0;
  for (int swizzle : {0, 32, 64, 128}) {
    Check({DType::kBF16, DType::kBF16, 64, 64, 64, 4, "m", false, false, swizzle}, n++);
    Check({DType::kF16, DType::kF16, 64, 40, 32, 4, "m", false, false, swizzle}, n++);
    Check({DType::kTF32, DType::kTF32, 64, 32, 32, 4, "m", false, false, swizzle}, n++);
    Check({DType::kE4M3, DType::kE4M3, 64, 48, 128, 4, "m", false, false, swizzle}, n++);
    Check({DType::kE5M2, DType::kE4M3, 64, 24, 64, 4, "m", false, false, swizzle}, n++);
    Check({DType::kI8, DType::kI8, 64, 96, 64, 4, "m", false, false, swizzle}, n++);
    Check({DType::kU8, DType::kU8, 64, 8, 64, 4, "m", false, false, swizzle}, n++);
  }
}

// What the accumulator holds is ignored in the first turn, and added to in the second.
TEST(Mma, AddsWhereItIsToldTo) {
  SKIP_WITHOUT_DEVICE();
  MmaCase c{DType::kBF16, DType::kBF16, 64, 64, 64};
  c.zero = false, c.told = true;
  Check(c, 90);
  c.b = c.a = DType::kI8;
  Check(c, 91);
}

TEST(Mma, Orientations) {
  SKIP_WITHOUT_DEVICE();
  int n = 100;
  for (int swizzle : {0, 32, 64, 128})
    for (bool ta : {false, true})
      for (bool tb : {false, true}) {
        Check({DType::kBF16, DType::kBF16, 64, 64, 48, 4, "m", ta, tb, swizzle}, n++);
        Check({DType::kF16, DType::kF16, 128, 96, 32, 4, "m", ta, tb, swizzle}, n++);
      }
}

TEST(Mma, SplitsAndBlocks) {
  SKIP_WITHOUT_DEVICE();
  int n = 200;
  for (const char* split : {"m", "n", "none"})
    for (bool tb : {false, true}) {
      Check({DType::kBF16, DType::kBF16, 128, 128, 64, 8, split, false, tb}, n++);
      Check({DType::kBF16, DType::kBF16, 100, 128, 32, 8, split, false, tb}, n++);
      Check({DType::kBF16, DType::kBF16, 64, 256, 32, 8, split, true, tb}, n++);
    }
  Check({DType::kBF16, DType::kBF16, 64, 264, 32, 4, "m"}, n++);  // two pieces
  Check({DType::kI8, DType::kI8, 64, 40, 32, 4, "m"}, n++);       // 32 + 8
  Check({DType::kBF16, DType::kBF16, 192, 64, 64, 12, "m"}, n++);
  Check({DType::kTF32, DType::kTF32, 128, 64, 64, 8, "n"}, n++);
}

TEST(Mma, RegisterOperandAndAccumulation) {
  SKIP_WITHOUT_DEVICE();
  int n = 300;
  for (bool tb : {false, true})
    for (const char* split : {"m", "n"}) {
      MmaCase c{DType::kBF16, DType::kBF16, 128, 64, 64, 8, split, false, tb, 128, true};
      Check(c, n++);
      c.zero = false;
      Check(c, n++);
      c.k_begin = 32;
      Check(c, n++);
    }
  // Of 8 bits: fours of each sixteen columns.
  for (DType d : {DType::kE4M3, DType::kE5M2, DType::kI8})
    for (const char* split : {"m", "n"}) {
      MmaCase c{d, d, 128, 64, 96, 8, split, false, false, 32, true};
      c.zero = false;
      c.k_begin = 32;
      Check(c, n++);
    }
  MmaCase c{DType::kF16, DType::kF16, 64, 64, 64, 4, "m", false, false, 128};
  c.zero = false;
  c.k_begin = 96;
  Check(c, n++);
  c.trans_a = c.trans_b = true;
  Check(c, n++);
  MmaCase e{DType::kE4M3, DType::kE4M3, 64, 64, 64};
  e.zero = false;
  e.k_begin = 96;
  Check(e, n++);
}

TEST(Mma, RefusesWhatDescriptorsCannotSay) {
  Kernel k("refused");
  const ir::SmemLayout s = Panels(64, 64, 128, DType::kI8);
  const ValueId a = k.Smem(DType::kI8, {64, 64}, s, 0), b = k.Smem(DType::kI8, {64, 64}, s, 8192);
  const ValueId acc = k.b.Constant(
      k.Tile(DType::kI32, {64, 64}, ir::AccumulatorLayout(64, 64, 1, ir::WgSplit::kM)), 0);
  k.b.Value(OpKind::kMma, {acc, a, b}, k.fn.type(acc),
            {{"k", int64_t{64}},
             {"split", std::string("m")},
             {"trans_a", int64_t{0}},
             {"trans_b", int64_t{1}},
             {"zero", int64_t{1}}});
  DiagSink diags;
  ASSERT_FALSE(Compile(k.fn, SourceMap(), BackendOptions(ir::H200()), diags).ok());
  EXPECT_STREQ(diags.all()[0].def->code, "E403");
}

TEST(SimtDot, TypesAndOrientations) {
  SKIP_WITHOUT_DEVICE();
  int n = 400;
  for (bool ta : {false, true})
    for (bool tb : {false, true}) {
      Check({DType::kF32, DType::kF32, 20, 24, 12, 4, "m", ta, tb, 0}, n++, true);
      Check({DType::kBF16, DType::kBF16, 33, 16, 10, 4, "m", ta, tb, 128}, n++, true);
      Check({DType::kI8, DType::kI8, 16, 16, 7, 4, "m", ta, tb, 32}, n++, true);
    }
}

}  // namespace
}  // namespace tilec::backend
