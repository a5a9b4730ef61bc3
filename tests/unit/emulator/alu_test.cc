// Lane-wise instructions against hand-computed edge values.
//
// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/emulator/harness.h"

namespace tilec::runtime {
namespace {

using V = std::vector<uint64_t>;

TEST(Integer, AddSubWrapAndSaturate) {
  EXPECT_EQ(Eval(32, "add.s32 %d, %a, %b;", {{0x7fffffff, 1}, {0xffffffff, 1}}),
            (V{0x80000000, 0}));
  EXPECT_EQ(Eval(32, "add.sat.s32 %d, %a, %b;", {{0x7fffffff, 1}, {0x80000000, 0xffffffff}}),
            (V{0x7fffffff, 0x80000000}));
  EXPECT_EQ(Eval(32, "sub.sat.s32 %d, %a, %b;", {{0x80000000, 1}}), (V{0x80000000}));
  EXPECT_EQ(Eval(16, "add.u16 %dh, %ah, %bh;", {{0xffff, 2}}), (V{1}));
  EXPECT_EQ(Eval(64, "sub.s64 %dl, %al, %bl;", {{0, 1}}), (V{~0ull}));
}

TEST(Integer, MultiplyHiLoWide) {
  EXPECT_EQ(Eval(32, "mul.hi.s32 %d, %a, %b;", {{0x80000000, 2}}), (V{0xffffffff}));
  EXPECT_EQ(Eval(32, "mul.hi.u32 %d, %a, %b;", {{0x80000000, 2}}), (V{1}));
  EXPECT_EQ(Eval(32, "mul.lo.s32 %d, %a, -3;", {{5}}), (V{0xfffffff1}));
  EXPECT_EQ(Eval(64, "mul.wide.s32 %dl, %a, %b;", {{0xffffffff, 7}}), (V{0xfffffffffffffff9}));
  EXPECT_EQ(Eval(64, "mul.wide.u32 %dl, %a, %b;", {{0xffffffff, 0xffffffff}}),
            (V{0xfffffffe00000001}));
  EXPECT_EQ(Eval(32, "mul.wide.u16 %d, %ah, %bh;", {{0xffff, 0xffff}}), (V{0xfffe0001}));
  EXPECT_EQ(Eval(64, "mul.hi.u64 %dl, %al, %bl;", {{1ull << 63, 4}}), (V{2}));
  EXPECT_EQ(Eval(64, "mad.wide.s32 %dl, %a, %b, %cl;", {{0xfffffffe, 3, 10}}), (V{4}));
  EXPECT_EQ(Eval(32, "mad.hi.u32 %d, %a, %b, %c;", {{0x80000000, 6, 5}}), (V{8}));
}

TEST(Integer, DivisionEdges) {
  EXPECT_EQ(Eval(32, "div.s32 %d, %a, %b;", {{7, 0xfffffffe}, {0x80000000, 0xffffffff}, {5, 0}}),
            (V{0xfffffffd, 0x80000000, 0xffffffff}));
  EXPECT_EQ(Eval(32, "rem.s32 %d, %a, %b;", {{0xfffffff9, 3}, {0x80000000, 0xffffffff}}),
            (V{0xffffffff, 0}));
  EXPECT_EQ(Eval(64, "div.u64 %dl, %al, %bl;", {{~0ull, 16}}), (V{~0ull >> 4}));
}

TEST(Integer, MinMaxAbsNeg) {
  EXPECT_EQ(Eval(32, "min.s32 %d, %a, %b;", {{0xffffffff, 1}}), (V{0xffffffff}));
  EXPECT_EQ(Eval(32, "min.u32 %d, %a, %b;", {{0xffffffff, 1}}), (V{1}));
  EXPECT_EQ(Eval(16, "max.s16 %dh, %ah, %bh;", {{0xffff, 1}}), (V{1}));
  EXPECT_EQ(Eval(32, "abs.s32 %d, %a;", {{0xffffffff}, {0x80000000}}), (V{1, 0x80000000}));
  EXPECT_EQ(Eval(16, "neg.s16 %dh, %ah;", {{1}}), (V{0xffff}));
  EXPECT_EQ(Eval(32, "max.relu.s32 %d, %a, %b;", {{0xfffffff0, 0xfffffff1}}), (V{0}));
  EXPECT_EQ(Eval(32, "sad.s32 %d, %a, %b, %c;", {{3, 0xffffffff, 10}}), (V{14}));
}

TEST(Bits, Shifts) {
  EXPECT_EQ(Eval(32, "shl.b32 %d, %a, %b;", {{1, 31}, {1, 32}, {1, 100}}), (V{0x80000000, 0, 0}));
  EXPECT_EQ(Eval(32, "shr.s32 %d, %a, %b;", {{0x80000000, 31}, {0x80000000, 64}}),
            (V{0xffffffff, 0xffffffff}));
  EXPECT_EQ(Eval(32, "shr.u32 %d, %a, %b;", {{0x80000000, 31}, {0x80000000, 32}}), (V{1, 0}));
  EXPECT_EQ(Eval(64, "shl.b64 %dl, %al, %b;", {{3, 63}, {3, 64}}), (V{1ull << 63, 0}));
  EXPECT_EQ(Eval(16, "shr.s16 %dh, %ah, %b;", {{0x8000, 4}}), (V{0xf800}));
  EXPECT_EQ(Eval(32, "shf.l.wrap.b32 %d, %a, %b, %c;", {{0x80000000, 1, 1}, {5, 9, 32}}),
            (V{3, 9}));
  EXPECT_EQ(Eval(32, "shf.r.clamp.b32 %d, %a, %b, %c;", {{2, 3, 1}, {2, 3, 40}}),
            (V{0x80000001, 3}));
  EXPECT_EQ(Eval(32, "shf.l.clamp.b32 %d, %a, %b, %c;", {{7, 3, 40}}), (V{7}));
}

TEST(Bits, LogicAndFields) {
  EXPECT_EQ(Eval(32, "lop3.b32 %d, %a, %b, %c, 0x96;", {{0xff00, 0x0ff0, 0x00ff}}),
            (V{0xff00 ^ 0x0ff0 ^ 0xff}));
  EXPECT_EQ(Eval(32, "lop3.b32 %d, %a, %b, %c, 0xCA;", {{0xff00, 0x1234, 0xabcd}}), (V{0x12cd}));
  EXPECT_EQ(Eval(32, "prmt.b32 %d, %a, %b, 0x7531;", {{0x33221100, 0x77665544}}), (V{0x77553311}));
  EXPECT_EQ(Eval(32, "prmt.b32 %d, %a, %b, 0x8;", {{0x80, 0}}), (V{0x808080ff}));
  EXPECT_EQ(Eval(32, "prmt.b32.f4e %d, %a, %b, %c;", {{0x33221100, 0x77665544, 1}}),
            (V{0x44332211}));
  EXPECT_EQ(Eval(32, "prmt.b32.rc16 %d, %a, %b, %c;", {{0x33221100, 0, 1}}), (V{0x33223322}));
  EXPECT_EQ(Eval(32, "bfe.u32 %d, %a, 4, 8;", {{0x12345678}}), (V{0x67}));
  EXPECT_EQ(Eval(32, "bfe.s32 %d, %a, %b, %c;", {{0xf0, 4, 4}, {0x80000000, 40, 3}, {5, 0, 0}}),
            (V{0xffffffff, 0xffffffff, 0}));
  EXPECT_EQ(Eval(32, "bfi.b32 %d, %a, %b, 8, 4;", {{0xf, 0}}), (V{0xf00}));
  EXPECT_EQ(Eval(32, "popc.b64 %d, %al;", {{~0ull}}), (V{64}));
  EXPECT_EQ(Eval(32, "clz.b32 %d, %a;", {{0}, {1}}), (V{32, 31}));
  EXPECT_EQ(Eval(32, "bfind.s32 %d, %a;", {{0xfffffffe}, {0xffffffff}, {8}}),
            (V{0, 0xffffffff, 3}));
  EXPECT_EQ(Eval(32, "bfind.shiftamt.u32 %d, %a;", {{8}}), (V{28}));
  EXPECT_EQ(Eval(32, "brev.b32 %d, %a;", {{1}}), (V{0x80000000}));
  EXPECT_EQ(Eval(16, "not.b16 %dh, %ah;", {{0xff}}), (V{0xff00}));
  EXPECT_EQ(Eval(32, "dp4a.s32.s32 %d, %a, %b, %c;", {{0xff02, 0x0305, 100}}), (V{100 + 10 - 3}));
}

TEST(Predicates, SetpSelpLogic) {
  EXPECT_EQ(Eval(1, "setp.lt.s32 %p, %a, %b;", {{0xffffffff, 0}, {0, 0}}), (V{1, 0}));
  EXPECT_EQ(Eval(1, "setp.lo.u32 %p, %a, %b;", {{0xffffffff, 0}}), (V{0}));
  EXPECT_EQ(Eval(1, "setp.hs.u64 %p, %al, %bl;", {{~0ull, 3}}), (V{1}));
  EXPECT_EQ(Eval(1, "setp.lt.s16 %p, %ah, %bh;", {{0x8000, 0}}), (V{1}));
  const uint64_t nan = 0x7fc00000, one = 0x3f800000;
  EXPECT_EQ(Eval(1, "setp.ne.f32 %p, %a, %b;", {{nan, one}, {one, one}}), (V{0, 0}));
  EXPECT_EQ(Eval(1, "setp.neu.f32 %p, %a, %b;", {{nan, one}, {one, one}}), (V{1, 0}));
  EXPECT_EQ(Eval(1, "setp.nan.f32 %p, %a, %b;", {{nan, one}, {one, one}}), (V{1, 0}));
  EXPECT_EQ(Eval(1, "setp.eq.f32 %p, %a, %b;", {{0x80000000, 0}}), (V{1}));
  EXPECT_EQ(Eval(1, "setp.gt.ftz.f32 %p, %a, %b;", {{1, 0}}), (V{0}));
  EXPECT_EQ(Eval(1, "setp.lt.and.u32 %q|%p, %a, 5, %pa;", {{7}, {3}, {4}}), (V{1, 0, 0}));
  EXPECT_EQ(Eval(1, "setp.eq.or.u32 %p, %a, 6, !%pa;", {{6}, {3}, {4}}), (V{1, 0, 1}));
  EXPECT_EQ(Eval(32, "selp.b32 %d, %b, %c, %pa;", {{1, 8, 9}, {2, 8, 9}}), (V{8, 9}));
  EXPECT_EQ(Eval(1, "not.pred %q, %pa;\nxor.pred %p, %q, %pa;", {{1}, {2}}), (V{1, 1}));
  EXPECT_EQ(Eval(1, "setp.gt.f16x2 %q|%p, %a, %b;", {{0x3c000000, 0x00003c00}}), (V{1}));
}

TEST(Predicates, GuardedWritesKeepTheOtherLanes) {
  EXPECT_EQ(Eval(32, "mov.b32 %d, %b;\n@%pa mov.b32 %d, %c;\n@!%pa add.u32 %d, %d, 1;",
                 {{1, 5, 6}, {0, 5, 6}}),
            (V{6, 6}));
}

TEST(Float, F32SpecialValues) {
  const uint64_t inf = 0x7f800000, one = 0x3f800000, tiny = 0x00000001, nan = 0x7fffffff;
  EXPECT_EQ(
      Eval(32, "add.f32 %d, %a, %b;", {{inf, 0xff800000}, {tiny, tiny}, {0x80000000, 0x80000000}}),
      (V{nan, 2, 0x80000000}));
  EXPECT_EQ(Eval(32, "add.ftz.f32 %d, %a, %b;", {{tiny, tiny}, {0x80000001, 0x80000001}}),
            (V{0, 0x80000000}));
  EXPECT_EQ(Eval(32, "add.sat.f32 %d, %a, %b;", {{one, one}, {0xbf800000, 0}, {0xffc00000, 0}}),
            (V{one, 0, 0}));
  EXPECT_EQ(Eval(32, "max.f32 %d, %a, %b;",
                 {{0x80000000, 0}, {0x7fc00000, one}, {0x7fc00000, 0xffc12345}}),
            (V{0, one, nan}));
  EXPECT_EQ(Eval(32, "min.f32 %d, %a, %b;", {{0x80000000, 0}}), (V{0x80000000}));
  EXPECT_EQ(Eval(32, "max.NaN.f32 %d, %a, %b;", {{0x7fc00000, one}}), (V{nan}));
  EXPECT_EQ(Eval(32, "fma.rn.f32 %d, %a, %b, %c;", {{0x3f800001, 0x3f800001, 0xbf800002}}),
            (V{0x28800000}));
  EXPECT_EQ(Eval(32, "add.rz.f32 %d, %a, %b;", {{one, 0x33ffffff}}), (V{one}));
  EXPECT_EQ(Eval(32, "add.rp.f32 %d, %a, %b;", {{one, tiny}}), (V{0x3f800001}));
  EXPECT_EQ(Eval(32, "div.rn.f32 %d, %a, %b;", {{one, 0x40400000}, {one, 0}, {0, 0}}),
            (V{0x3eaaaaab, inf, nan}));
  EXPECT_EQ(Eval(32, "neg.f32 %d, %a;", {{0}}), (V{0x80000000}));
  EXPECT_EQ(Eval(32, "copysign.f32 %d, %a, %b;", {{0x80000000, one}}), (V{0xbf800000}));
  EXPECT_EQ(Eval(32, "sqrt.rn.f32 %d, %a;", {{0x40000000}}), (V{0x3fb504f3}));
  EXPECT_EQ(Eval(32, "rcp.rn.f32 %d, %a;", {{0x40400000}}), (V{0x3eaaaaab}));
}

TEST(Float, SpecialFunctions) {
  EXPECT_EQ(Eval(32, "ex2.approx.f32 %d, %a;", {{0}, {0x40400000}, {0xff800000}}),
            (V{0x3f800000, 0x41000000, 0}));
  EXPECT_EQ(Eval(32, "ex2.approx.ftz.f32 %d, %a;", {{0xc3020000}}), (V{0}));  // 2^-130
  EXPECT_EQ(Eval(32, "lg2.approx.f32 %d, %a;", {{0x41000000}, {0}}), (V{0x40400000, 0xff800000}));
  EXPECT_EQ(Eval(32, "rcp.approx.ftz.f32 %d, %a;", {{0x40000000}, {1}}),
            (V{0x3f000000, 0x7f800000}));
  EXPECT_EQ(Eval(32, "rsqrt.approx.f32 %d, %a;", {{0x40800000}}), (V{0x3f000000}));
  EXPECT_EQ(Eval(32, "sqrt.approx.f32 %d, %a;", {{0x40800000}}), (V{0x40000000}));
  EXPECT_EQ(Eval(32, "tanh.approx.f32 %d, %a;", {{0}, {0x7f800000}}), (V{0, 0x3f800000}));
  EXPECT_EQ(Eval(32, "div.full.f32 %d, %a, %b;", {{0x40c00000, 0x40000000}}), (V{0x40400000}));
  EXPECT_EQ(Eval(32, "ex2.approx.ftz.bf16x2 %d, %a;", {{0x40003f80}}), (V{0x40804000}));
}

TEST(Float, Halves) {
  EXPECT_EQ(
      Eval(16, "add.f16 %dh, %ah, %bh;", {{0x3c00, 0x3c00}, {0x7bff, 0x7bff}, {0x0001, 0x0001}}),
      (V{0x4000, 0x7c00, 0x0002}));
  EXPECT_EQ(Eval(16, "mul.rn.bf16 %dh, %ah, %bh;", {{0x3f80, 0xc000}}), (V{0xc000}));
  EXPECT_EQ(Eval(32, "fma.rn.f16x2 %d, %a, %b, %c;", {{0x40003c00, 0x42003c00, 0x3c003c00}}),
            (V{0x47004000}));
  EXPECT_EQ(Eval(32, "fma.rn.bf16x2 %d, %a, %b, %c;", {{0x40003f80, 0x40403f80, 0x3f803f80}}),
            (V{0x40e04000}));
  EXPECT_EQ(Eval(32, "fma.rn.relu.bf16x2 %d, %a, %b, %c;", {{0xc0003f80, 0x40403f80, 0x3f803f80}}),
            (V{0x00004000}));
  // 1 + 2^-11 rounds to even; with a sticky bit below it rounds up, in one rounding.
  EXPECT_EQ(Eval(16, "fma.rn.f16 %dh, %ah, %bh, %ch;", {{0x0400, 0x1000, 0x3c00}}), (V{0x3c00}));
  EXPECT_EQ(Eval(32, "max.f16x2 %d, %a, %b;", {{0x7e003c00, 0x3c00bc00}}), (V{0x3c003c00}));
  EXPECT_EQ(Eval(32, "neg.bf16x2 %d, %a;", {{0x3f80bf80}}), (V{0xbf803f80}));
}

TEST(Float, F64) {
  const uint64_t one = 0x3ff0000000000000, two = 0x4000000000000000;
  EXPECT_EQ(Eval(64, "add.f64 %dl, %al, %bl;", {{one, one}}), (V{two}));
  EXPECT_EQ(Eval(64, "fma.rn.f64 %dl, %al, %bl, %cl;", {{two, two, 0xc010000000000000}}), (V{0}));
  EXPECT_EQ(Eval(64, "div.rn.f64 %dl, %al, %bl;", {{one, 0x4008000000000000}}),
            (V{0x3fd5555555555555}));
  EXPECT_EQ(Eval(64, "mov.f64 %dl, 0d3FF0000000000000;", {{}}), (V{one}));
  EXPECT_EQ(Eval(32, "mov.f32 %d, 1.5;", {{}}), (V{0x3fc00000}));
}

TEST(Moves, PackUnpackAndLiterals) {
  EXPECT_EQ(Eval(64, "mov.b64 %dl, {%a, %b};", {{1, 2}}), (V{0x200000001}));
  EXPECT_EQ(Eval(32, "mov.b64 {%x, %d}, %al;", {{0x500000007}}), (V{5}));
  EXPECT_EQ(Eval(32, "mov.b32 %d, {%ah, %bh};", {{0x1111, 0x2222}}), (V{0x22221111}));
  EXPECT_EQ(Eval(16, "mov.b32 {%dh, _}, %a;", {{0xabcd1234}}), (V{0x1234}));
  EXPECT_EQ(Eval(32, "mov.b32 %d, -1;", {{}}), (V{0xffffffff}));
  EXPECT_EQ(Eval(32, "mov.u32 %d, %laneid;", {{}, {}, {}}), (V{0, 1, 2}));
  EXPECT_EQ(Eval(32, "{\n.reg .b32 %x;\nadd.u32 %x, %a, 1;\nmov.b32 %d, %x;\n}", {{4}}), (V{5}));
}

}  // namespace
}  // namespace tilec::runtime
