// tcgen05 instructions, one at a time, against a second model.
//
// Random instructions against the model of tcgen05_model.h; a failure names the seed.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <random>
#include <vector>

#include "runtime/emulator/tcgen05_mma.h"
#include "tests/unit/emulator_units/tcgen05_model.h"

namespace tilec::runtime::emulator {
namespace {

using namespace model;  // NOLINT: a test program

// ---- random instructions ----

class Maker {
 public:
  explicit Maker(uint64_t seed) : rnd_(seed) {}
  uint32_t Pick(uint32_t n) { return static_cast<uint32_t>(rnd_() % n); }
  bool Coin() { return rnd_() & 1; }

  void FillBytes(Machine* m) {
    for (auto& shared : m->shared) {
      // Anything; or numbers of like size, as programs have; or few bits.
      const uint32_t how = Pick(8) == 0 ? 0 : 1 + Pick(3);
      for (size_t k = 0; k < shared.size(); ++k) {
        uint8_t v = static_cast<uint8_t>(rnd_());
        if (how == 1) v = k % 2 ? static_cast<uint8_t>(0x3a + (v & 0x87)) : v;
        if (how == 2) v &= 0xbb;
        if (how == 3 && k % 4 == 3) v = static_cast<uint8_t>(0x3e + (v & 0x83));
        shared[k] = v;
      }
    }
    for (TensorMemory& t : m->tensor)
      for (uint32_t c = 0; c < kTensorColumns; ++c)
        for (uint32_t l = 0; l < kTensorLanes; ++l) {
          uint32_t v = static_cast<uint32_t>(rnd_());
          // Scale factors: the same in all quarters, of any size or about 1.
          if (c >= 480)
            v = l < 32 ? (Coin() ? v & 0x7f7f7f7f : 0x7b7b7b7b + (v & 0x07070707))
                       : t.Column(c)[l % 32];
          if (c < 256 && c % 2) v = (v & 0x83ffffff) | 0x3c000000;
          t.Column(c)[l] = v;
        }
  }

  Instruction Next() {
    Instruction i;
    i.form.kind = static_cast<MmaKind>(Pick(7));
    const bool scaled = IsScaled(i.form.kind), i8 = i.form.kind == MmaKind::kI8;
    const bool four = i.form.kind == MmaKind::kMxf4 || i.form.kind == MmaKind::kMxf4nvf4;
    i.form.group = Pick(3) == 0 ? 2 : 1;
    i.form.ws = !scaled && i.form.group == 1 && Pick(4) == 0;
    uint32_t m = 128;
    if (i.form.group == 2)
      m = scaled || Coin() ? 256 : 128;
    else if (i.form.ws)
      m = 32u << Pick(3);
    else if (!scaled && Coin())
      m = 64;
    const uint32_t step = i.form.group == 2 ? 32 : 16;
    uint32_t n = i.form.ws ? 64 : step * (1 + Pick(Pick(16) == 0 ? 256 / step : 2));
    i.form.a_in_tensor = !i.form.ws && Pick(4) == 0;
    i.idesc = (n / 8) << 17 | (scaled ? (m / 128) << 27 : (m / 16) << 24);
    const bool f8 = i.form.kind == MmaKind::kF8f6f4 || i.form.kind == MmaKind::kMxf8f6f4;
    uint32_t ca = 0, cb = 0;
    constexpr uint32_t kCodes[] = {0, 1, 3, 4, 5};
    if (i.form.kind == MmaKind::kF16) ca = cb = Pick(2);
    if (i.form.kind == MmaKind::kTf32) ca = cb = 2;
    if (i8) ca = Pick(2), cb = Pick(2);
    if (f8) ca = kCodes[Pick(i.form.a_in_tensor ? 2 : 5)], cb = kCodes[Pick(5)];
    if (four) ca = cb = 1;
    i.idesc |= ca << 7 | cb << 10;
    const bool half =
        (i.form.kind == MmaKind::kF8f6f4 || (i.form.kind == MmaKind::kF16 && ca == 0)) && Coin();
    if (!scaled) i.idesc |= (i8 ? 2u : half ? 0u : 1u) << 4;
    if (i8 && Coin()) i.idesc |= 8;
    if (!i8 && Coin()) i.idesc |= Pick(4) << 13;
    if (!four && !i.form.a_in_tensor && Coin()) i.idesc |= 1u << 15;
    if (!four && Coin()) i.idesc |= 1u << 16;
    if (scaled) {
      i.form.scales = i.form.kind == MmaKind::kMxf8f6f4         ? 1
                      : i.form.kind == MmaKind::kMxf4 || Coin() ? 2
                                                                : 4;
      const bool ue4m3 = i.form.scales == 4 && Coin();
      if (!ue4m3) i.idesc |= 1u << 23;
      const uint32_t id = i.form.scales == 1 ? Pick(4) : i.form.scales == 2 ? Pick(2) * 2 : 0;
      i.idesc |= id << 29 | (i.form.scales == 1 ? Pick(4) : id) << 4;
    }
    const bool tf32 = i.form.kind == MmaKind::kTf32;
    i.a_desc = Descriptor(i.idesc >> 15 & 1, tf32);
    i.b_desc = Descriptor(i.idesc >> 16 & 1, tf32);
    const bool lane16 = m == 64 && !i.form.ws && i.form.group == 1 && Coin();
    i.d = (lane16 ? 16u << 16 : 0) | Pick(256 - n + 1);
    i.a = (lane16 ? 16u << 16 : 0) | (300 + Pick(100));
    i.sfa = 480 + Pick(8), i.sfb = 492 + Pick(8);
    i.add = Coin();
    i.c_scale = i.form.kind == MmaKind::kF16 || tf32 ? Pick(2) * Pick(16) : 0;
    return i;
  }

 private:
  uint64_t Descriptor(bool mn_major, bool tf32) {
    constexpr uint64_t kModes[] = {0, 2, 4, 6};
    const uint64_t mode = mn_major && tf32 ? 1 : kModes[Pick(4)];
    const uint64_t base = mode == 0 || Pick(4) != 0 ? 0 : Pick(8);
    return Pick(1024) | uint64_t{1 + Pick(160)} << 16 | uint64_t{1 + Pick(100)} << 32 | 1ull << 46 |
           base << 49 | mode << 61;
  }
  std::mt19937_64 rnd_;
};

// Runs it on the unit. False: it reaches outside of shared memory.
bool Run(const Instruction& i, Machine* m) {
  MmaTask task;
  MmaOperands o;
  std::string error;
  EXPECT_TRUE(DecodeMmaTask(i.form, i.idesc, &task, &error)) << error << std::hex << i.idesc;
  EXPECT_TRUE(DecodeTensorDescriptor(i.a_desc, &o.a_desc, &error)) << error;
  EXPECT_TRUE(DecodeTensorDescriptor(i.b_desc, &o.b_desc, &error)) << error;
  EXPECT_TRUE(SwizzleFits(task, task.transpose_b, o.b_desc, &error)) << error;
  o.d = TensorAddress::Of(i.d), o.a = TensorAddress::Of(i.a);
  o.scale_a = TensorAddress::Of(i.sfa), o.scale_b = TensorAddress::Of(i.sfb);
  o.accumulate = i.add, o.scale_c = i.c_scale;
  EXPECT_TRUE(CheckMmaAddresses(task, o, &error)) << error;
  TensorPart parts[2];
  for (int c = 0; c < 2; ++c) parts[c] = {&m->tensor[c], m->shared[c].data(), kSharedBytes};
  bool differ = false;
  const bool ok = RunMma(task, o, parts, Arithmetic::kExact, &error, &differ);
  EXPECT_FALSE(differ);
  return ok;
}

void RunMany(uint64_t seed, int instructions) {
  Maker maker(seed);
  Machine m;
  int ran = 0, outputs = 0, finite = 0;
  for (int k = 0; k < instructions; ++k) {
    if (k % 200 == 0) maker.FillBytes(&m);
    const Instruction i = maker.Next();
    struct Sample {
      uint32_t r, n;
      std::optional<uint32_t> want;
    };
    std::vector<Sample> samples;
    for (int s = 0; s < 6; ++s) {
      const uint32_t r = maker.Pick(i.M()), n = maker.Pick(i.N());
      samples.push_back({r, n, Expected(i, m, r, n)});
    }
    if (!Run(i, &m)) continue;
    ++ran;
    for (const Sample& s : samples) {
      const Place p = PlaceOf(i, s.r, s.n);
      const uint32_t got = m.tensor[p.cta].Column((i.d & 0xffff) + p.column)[p.lane];
      ASSERT_TRUE(s.want.has_value()) << "seed " << seed << ", instruction " << k;
      ASSERT_EQ(got, *s.want) << "seed " << seed << ", instruction " << k
                              << ": kind::" << MmaKindName(i.form.kind) << " idesc " << std::hex
                              << i.idesc << " row " << std::dec << s.r << " column " << s.n;
      ++outputs;
      finite += (got & 0x7f800000u) != 0x7f800000u;
    }
  }
  EXPECT_GT(ran, instructions / 2);
  EXPECT_GT(finite, outputs / 3);
}

TEST(Tcgen05, RandomInstructionsAgreeWithASecondModel) {
  // A longer run: TCGEN05_SEEDS=400, from TCGEN05_FIRST=1 on.
  const auto number = [](const char* name, uint64_t otherwise) {
    const char* given = std::getenv(name);
    return given != nullptr ? std::strtoull(given, nullptr, 10) : otherwise;
  };
  const uint64_t first = number("TCGEN05_FIRST", 1), count = number("TCGEN05_SEEDS", 5);
  for (uint64_t seed = first; seed < first + count; ++seed) {
    RunMany(seed, 300);
    if (HasFatalFailure()) return;
  }
}

// Registers of loads and stores, as CUTLASS' copy traits have them: (thread, register) → (lane,
// column).
TEST(Tcgen05, LoadsAndStoresMoveTheirWords) {
  for (TensorShape shape : {TensorShape::k32x32b, TensorShape::k16x64b, TensorShape::k16x128b,
                            TensorShape::k16x256b, TensorShape::k16x32bx2})
    for (uint32_t num : {1u, 2u, 4u, 8u, 16u, 32u, 64u, 128u})
      for (bool packed : {false, true}) {
        TensorTransfer t;
        t.shape = shape, t.num = num, t.packed = packed, t.half_split = 0;
        if (!t.Valid()) continue;
        const uint32_t factor = packed ? 2 : 1;
        if (shape == TensorShape::k16x32bx2) t.half_split = num * factor;
        if (t.columns() * t.accesses() > kTensorColumns) continue;
        TensorMemory memory;
        for (uint32_t c = 0; c < kTensorColumns; ++c)
          for (uint32_t l = 0; l < kTensorLanes; ++l) memory.Column(c)[l] = l << 16 | c;
        std::vector<uint32_t> values(size_t{t.registers()} * 32);
        std::vector<uint32_t*> rows;
        for (uint32_t r = 0; r < t.registers(); ++r) rows.push_back(&values[size_t{r} * 32]);
        t.Load(memory, {32, 0}, rows.data());
        std::vector<uint8_t> seen(size_t{kTensorLanes} * kTensorColumns);
        for (uint32_t r = 0; r < t.registers(); ++r)
          for (uint32_t l = 0; l < 32; ++l) {
            uint32_t lane = 0, column = 0;
            if (shape == TensorShape::k32x32b) lane = l, column = r;
            if (shape == TensorShape::k16x64b) lane = l / 4 + l % 2 * 8, column = l / 2 % 2 + 2 * r;
            if (shape == TensorShape::k16x128b)
              lane = l / 4 + r % 2 * 8, column = l % 4 + r / 2 * 4;
            if (shape == TensorShape::k16x256b)
              lane = l / 4 + r / 2 % 2 * 8, column = l % 4 * 2 + r % 2 + r / 4 * 8;
            if (shape == TensorShape::k16x32bx2) lane = l % 16, column = r + l / 16 * num;
            const uint32_t at = column * factor;
            const uint32_t want = packed ? (at & 0xffff) | (at + 1) << 16 : (lane + 32) << 16 | at;
            ASSERT_EQ(rows[r][l], want) << num << " " << r << " " << l;
            ++seen[size_t{lane} * kTensorColumns + at];
          }
        for (uint8_t n : seen) ASSERT_LE(n, 1);
        // And back.
        TensorMemory copy;
        t.Store(&copy, {32, 0}, rows.data());
        for (uint32_t c = 0; c < t.columns() * t.accesses(); ++c)
          for (uint32_t l = 32; l < 32 + t.lanes(); ++l)
            ASSERT_EQ(copy.Column(c)[l], packed ? c : memory.Column(c)[l]);
        ASSERT_TRUE(copy.Written(0, 32, t.lanes()));
        ASSERT_FALSE(copy.Written(0, 0, 128));
      }
}

TEST(Tcgen05, CopiesGoToTheirLanes) {
  std::vector<uint8_t> shared(8192);
  for (size_t k = 0; k < shared.size(); k += 4) std::memcpy(&shared[k], &k, 4);
  TensorMemory memory;
  const TensorPart part = {&memory, shared.data(), 8192};
  TensorDescriptor d;
  d.lbo = 2048, d.sbo = 128;
  std::string error;
  for (CopyShape shape : {CopyShape::k128x256b, CopyShape::k128x128b, CopyShape::k64x128b02,
                          CopyShape::k64x128b01, CopyShape::k32x128b}) {
    TensorCopy copy{shape};
    ASSERT_TRUE(RunCopy(copy, {0, 8}, d, part, &error)) << error;
    for (uint32_t lane = 0; lane < 128; ++lane) {
      uint32_t row = lane;
      if (shape == CopyShape::k32x128b) row = lane % 32;
      if (shape == CopyShape::k64x128b02) row = lane % 64;
      if (shape == CopyShape::k64x128b01) row = lane / 64 * 32 + lane % 32;
      for (uint32_t c = 0; c < copy.columns(); ++c)
        ASSERT_EQ(memory.Column(8 + c)[lane], row * 16 + c % 4 * 4 + c / 4 * 2048);
    }
  }
  d.start = 8192 - 16;
  EXPECT_FALSE(RunCopy({CopyShape::k32x128b}, {0, 0}, d, part, &error));
}

TEST(Tcgen05, AllocationsAreExact) {
  TensorMemory m;
  EXPECT_EQ(m.Allocate(256), 0u);
  EXPECT_EQ(m.Allocate(128), 256u);
  EXPECT_EQ(m.Allocate(256), std::nullopt);
  EXPECT_TRUE(m.Live(200, 100));
  EXPECT_FALSE(m.Live(380, 8));
  EXPECT_FALSE(m.Free(0, 128));
  EXPECT_TRUE(m.Free(0, 256));
  EXPECT_EQ(m.Allocate(128), 0u);
  EXPECT_EQ(m.used(), 256u);
}

// What CUTLASS' InstrDescriptor has for usual products.
TEST(Tcgen05, InstructionDescriptorsOfUsualProducts) {
  MmaTask t;
  std::string error;
  MmaForm f;
  ASSERT_TRUE(DecodeMmaTask(f, 0x08400490, &t, &error)) << error;
  EXPECT_EQ(t.m, 128u);
  EXPECT_EQ(t.n, 256u);
  EXPECT_EQ(t.a, MmaFormat::kBf16);
  f.group = 2;
  ASSERT_TRUE(DecodeMmaTask(f, 0x10400490, &t, &error)) << error;
  EXPECT_EQ(t.m, 256u);
  f.group = 1, f.kind = MmaKind::kMxf4nvf4, f.scales = 4;
  ASSERT_TRUE(DecodeMmaTask(f, 0x08200480, &t, &error)) << error;
  EXPECT_TRUE(t.scale_ue4m3);
  EXPECT_EQ(t.n, 128u);
  f.kind = MmaKind::kMxf8f6f4, f.scales = 1;
  ASSERT_TRUE(DecodeMmaTask(f, 0x08A00000 | 3 << 4 | 3 << 29, &t, &error)) << error;
  EXPECT_EQ(t.scale_id_a, 3);
  // Every single bit more than a right one is refused or means something.
  for (int bit : {2, 3, 6, 24, 25, 26, 31}) {
    EXPECT_FALSE(DecodeMmaTask(f, 0x08A00000 ^ 1u << bit, &t, &error)) << bit;
  }
}

}  // namespace
}  // namespace tilec::runtime::emulator
