// cvt: widths, signs, rounding, saturation, packed forms.
//
// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/emulator/harness.h"

namespace tilec::runtime {
namespace {

using V = std::vector<uint64_t>;

TEST(Cvt, Integers) {
  EXPECT_EQ(Eval(64, "cvt.s64.s32 %dl, %a;", {{0xffffffff}}), (V{~0ull}));
  EXPECT_EQ(Eval(64, "cvt.u64.u32 %dl, %a;", {{0xffffffff}}), (V{0xffffffff}));
  EXPECT_EQ(Eval(32, "cvt.s32.s8 %d, %a;", {{0x80}, {0x17f}}), (V{0xffffff80, 0x7f}));
  EXPECT_EQ(Eval(32, "cvt.u32.u16 %d, %ah;", {{0xffff}}), (V{0xffff}));
  EXPECT_EQ(Eval(32, "cvt.s32.s16 %d, %ah;", {{0x8000}}), (V{0xffff8000}));
  EXPECT_EQ(Eval(16, "cvt.u16.u32 %dh, %a;", {{0x12345678}}), (V{0x5678}));
  EXPECT_EQ(Eval(16, "cvt.sat.s16.s32 %dh, %a;", {{100000}, {0xfffe0000}}), (V{0x7fff, 0x8000}));
  EXPECT_EQ(Eval(32, "cvt.sat.u32.s32 %d, %a;", {{0xffffffff}, {5}}), (V{0, 5}));
  EXPECT_EQ(Eval(32, "cvt.s8.s32 %d, %a;", {{0xff}}), (V{0xffffffff}));
}

TEST(Cvt, FloatToInteger) {
  EXPECT_EQ(Eval(32, "cvt.rzi.s32.f32 %d, %a;", {{0xbfc00000}, {0x4f800000}, {0x7fc00000}}),
            (V{0xffffffff, 0x7fffffff, 0}));
  EXPECT_EQ(Eval(32, "cvt.rni.s32.f32 %d, %a;", {{0x3f000000}, {0x3fc00000}, {0x40200000}}),
            (V{0, 2, 2}));
  EXPECT_EQ(Eval(32, "cvt.rmi.s32.f32 %d, %a;", {{0xbf000000}}), (V{0xffffffff}));
  EXPECT_EQ(Eval(32, "cvt.rpi.s32.f32 %d, %a;", {{0x3dcccccd}}), (V{1}));
  EXPECT_EQ(Eval(32, "cvt.rzi.u32.f32 %d, %a;", {{0xbf800000}, {0x7f800000}}), (V{0, 0xffffffff}));
  EXPECT_EQ(Eval(64, "cvt.rzi.s64.f64 %dl, %al;", {{0xc000000000000000}}), (V{0xfffffffffffffffe}));
  EXPECT_EQ(Eval(32, "cvt.rzi.u32.f64 %d, %al;", {{0x7ff8000000000000}}), (V{0x80000000}));
  EXPECT_EQ(Eval(64, "cvt.rzi.s64.f32 %dl, %a;", {{0x7fc00000}}), (V{1ull << 63}));
  EXPECT_EQ(Eval(16, "cvt.rzi.s16.f16 %dh, %ah;", {{0xc500}}), (V{0xfffb}));
}

TEST(Cvt, IntegerToFloat) {
  EXPECT_EQ(Eval(32, "cvt.rn.f32.s32 %d, %a;", {{0xffffffff}, {0x01000001}}),
            (V{0xbf800000, 0x4b800000}));
  EXPECT_EQ(Eval(32, "cvt.rp.f32.u32 %d, %a;", {{0x01000001}}), (V{0x4b800001}));
  EXPECT_EQ(Eval(64, "cvt.rn.f64.u64 %dl, %al;", {{~0ull}}), (V{0x43f0000000000000}));
  EXPECT_EQ(Eval(16, "cvt.rn.f16.s32 %dh, %a;", {{2049}, {70000}}), (V{0x6800, 0x7c00}));
  EXPECT_EQ(Eval(16, "cvt.rn.bf16.u32 %dh, %a;", {{257}, {259}}), (V{0x4380, 0x4382}));
}

TEST(Cvt, Floats) {
  EXPECT_EQ(Eval(16, "cvt.rn.bf16.f32 %dh, %a;", {{0x3f808000}, {0x3f818000}, {0x7f800001}}),
            (V{0x3f80, 0x3f82, 0x7fff}));
  EXPECT_EQ(Eval(16, "cvt.rz.bf16.f32 %dh, %a;", {{0x3f80ffff}}), (V{0x3f80}));
  EXPECT_EQ(Eval(16, "cvt.rn.relu.bf16.f32 %dh, %a;", {{0xbf800000}}), (V{0}));
  EXPECT_EQ(Eval(16, "cvt.rn.f16.f32 %dh, %a;", {{0x477fffff}, {0x33000001}}), (V{0x7c00, 1}));
  EXPECT_EQ(Eval(32, "cvt.f32.f16 %d, %ah;", {{0x0001}, {0xfc00}}), (V{0x33800000, 0xff800000}));
  EXPECT_EQ(Eval(32, "cvt.f32.bf16 %d, %ah;", {{0xbf80}}), (V{0xbf800000}));
  EXPECT_EQ(Eval(32, "cvt.rn.f32.f64 %d, %al;", {{0x3ff0000010000000}, {0x3ff0000010000001}}),
            (V{0x3f800000, 0x3f800001}));
  EXPECT_EQ(Eval(64, "cvt.f64.f32 %dl, %a;", {{0x3fc00000}}), (V{0x3ff8000000000000}));
  EXPECT_EQ(Eval(32, "cvt.rni.f32.f32 %d, %a;", {{0x40200000}, {0xbe99999a}}),
            (V{0x40000000, 0x80000000}));
  EXPECT_EQ(Eval(32, "cvt.sat.f32.f32 %d, %a;", {{0x40200000}}), (V{0x3f800000}));
  EXPECT_EQ(Eval(32, "cvt.rna.tf32.f32 %d, %a;", {{0x3f801000}}), (V{0x3f802000}));
}

TEST(Cvt, Packed) {
  EXPECT_EQ(Eval(32, "cvt.rn.bf16x2.f32 %d, %a, %b;", {{0x3f800000, 0x40000000}}), (V{0x3f804000}));
  EXPECT_EQ(Eval(32, "cvt.rn.f16x2.f32 %d, %a, %b;", {{0x3f800000, 0x40000000}}), (V{0x3c004000}));
  EXPECT_EQ(Eval(32, "cvt.rz.f16x2.f32 %d, %a, %b;", {{0x3f801fff, 0}}), (V{0x3c000000}));
  EXPECT_EQ(Eval(16, "cvt.rn.satfinite.e4m3x2.f32 %dh, %a, %b;", {{0x3f800000, 0x4b800000}}),
            (V{0x387e}));
  EXPECT_EQ(Eval(16, "cvt.rn.satfinite.e5m2x2.f32 %dh, %a, %b;", {{0x3f800000, 0xff800000}}),
            (V{0x3cfb}));
  EXPECT_EQ(Eval(32, "cvt.rn.f16x2.e4m3x2 %d, %ah;", {{0x3840}}), (V{0x3c004000}));
  // Guarded: the other lane keeps its value.
  EXPECT_EQ(Eval(32, "mov.b32 %d, 7;\n@%pa cvt.rn.bf16x2.f32 %d, %b, %c;",
                 {{1, 0x3f800000, 0}, {0, 1, 1}}),
            (V{0x3f800000, 7}));
}

}  // namespace
}  // namespace tilec::runtime
