// What no case compares, asked of silicon alone: how far 2^x is from the true value for every
// input, and whether a fence between the proxies that is left out ever shows. `conformance ask`
// keeps all that comes out.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstring>

#include "tests/conformance/case.h"

namespace tilec::conformance {
namespace {

uint64_t DoubleBits(double x) {
  uint64_t bits = 0;
  std::memcpy(&bits, &x, 8);
  return bits;
}

// %y: what silicon says of %x; %ref: the true value, rounded once. A series in f64 over |f| <= 1/2.
std::string Exp2(bool ftz) {
  std::string body = fmt::format("ex2.approx{}.f32 %y, %x;\n", ftz ? ".ftz" : "") +
                     "max.f32 %c, %x, 0fC3480000;\nmin.f32 %c, %c, 0f43480000;\n"  // ±200
                     "cvt.rni.f32.f32 %n, %c;\nsub.f32 %c, %c, %n;\ncvt.f64.f32 %f, %c;\n";
  double term = 1;
  std::string coefficients[14];
  for (int k = 0; k < 14; ++k) {
    coefficients[k] = fmt::format("0d{:016X}", DoubleBits(term));
    term *= 0.693147180559945309417 / (k + 1);
  }
  body += fmt::format("mov.f64 %r, {};\n", coefficients[13]);
  for (int k = 12; k >= 0; --k)
    body += fmt::format("fma.rn.f64 %r, %r, %f, {};\n", coefficients[k]);
  body +=
      "cvt.rni.s32.f32 %e, %n;\nadd.s32 %e, %e, 1023;\ncvt.u64.u32 %w, %e;\n"
      "shl.b64 %w, %w, 52;\nmov.b64 %f, %w;\nmul.f64 %r, %r, %f;\n"
      "cvt.rn.f32.f64 %ref, %r;\n";
  if (ftz) body += "setp.lt.f32 %p, %ref, 0f00800000;\nselp.f32 %ref, 0f00000000, %ref, %p;\n";
  return body;
}

constexpr const char* kExp2Registers =
    ".reg .f32 %x, %y, %c, %n, %ref, %y1;\n.reg .f64 %f, %r;\n.reg .b64 %w, %gm, %hash, %ga;\n"
    ".reg .b32 %e, %a, %b, %i, %s, %d;\n.reg .pred %p, %q;\n";

// All 2^32 inputs: how many are how far away (u64 [32], from −16 to 15), a sum over all results and
// inputs, and for inputs whose fraction is exact in [1, 2): how many, and how many have another
// mantissa than that of 1 plus the fraction.
Case Sweep(bool ftz) {
  Case c;
  c.name = fmt::format("ask ex2.approx{}.f32 of all inputs", ftz ? ".ftz" : "");
  c.ctas = 256;
  c.out_bytes = 8;
  c.declarations = std::string(".shared .align 8 .b32 count[40];\n") + kExp2Registers;
  c.body =
      "ld.param.u64 %gm, [out];\nmov.u64 %hash, 0;\nmov.u32 %s, count;\nmov.u32 %i, 0;\n"
      "mad.lo.u32 %a, %t, 4, %s;\nsetp.lt.u32 %p, %t, 40;\n@%p st.shared.b32 [%a], 0;\nbar.sync "
      "0;\n"
      "L:\nshl.b32 %a, %i, 16;\nor.b32 %a, %a, %g;\nmov.b32 %x, %a;\n" +
      Exp2(ftz) +
      "mov.b32 %a, %x;\nmov.b32 %b, %y;\nmul.lo.u32 %a, %a, 2654435761;\nor.b32 %a, %a, 1;\n"
      "mul.wide.u32 %w, %a, %b;\nadd.u64 %hash, %hash, %w;\n"
      "mov.b32 %a, %ref;\nsub.s32 %a, %b, %a;\nadd.s32 %a, %a, 16;\nmax.s32 %a, %a, 0;\n"
      "min.s32 %a, %a, 31;\nmad.lo.u32 %a, %a, 4, %s;\nred.shared.add.u32 [%a], 1;\n"
      // fraction
      "abs.f32 %c, %x;\nsetp.lt.f32 %p, %c, 0f42F80000;\n@!%p bra N;\n"  // 124
      "cvt.rmi.f32.f32 %n, %x;\nsub.f32 %c, %x, %n;\nadd.f32 %n, %c, 0f3F800000;\n"
      "sub.f32 %ref, %n, 0f3F800000;\nsetp.eq.f32 %p, %ref, %c;\nsetp.lt.f32 %q, %c, 0f3F800000;\n"
      "and.pred %p, %p, %q;\n@!%p bra N;\n" +
      fmt::format("ex2.approx{}.f32 %y1, %n;\n", ftz ? ".ftz" : "") +
      "mov.b32 %d, %y1;\nxor.b32 %d, %d, %b;\nand.b32 %d, %d, 0x7fffff;\nsetp.ne.u32 %p, %d, 0;\n"
      "red.shared.add.u32 [%s+128], 1;\n@%p red.shared.add.u32 [%s+132], 1;\n"
      "N:\nadd.u32 %i, %i, 1;\nsetp.lt.u32 %p, %i, 65536;\n@%p bra L;\nbar.sync 0;\n"
      "red.global.add.u64 [%gm+512], %hash;\n"
      "setp.lt.u32 %p, %t, 34;\n@!%p bra Z;\nmad.lo.u32 %a, %t, 4, %s;\nld.shared.u32 %b, [%a];\n"
      "cvt.u64.u32 %w, %b;\nmul.wide.u32 %ga, %t, 8;\nadd.u64 %ga, %ga, %gm;\n"
      "red.global.add.u64 [%ga], %w;\nZ:\n";
  return c;
}

// The distance for each of the 2^23 inputs in [1, 2), a byte each.
Case Binade() {
  Case c;
  c.name = "ask ex2.approx.ftz.f32 from 1 to 2";
  c.ctas = 1024;
  c.out_bytes = 32;
  c.declarations = kExp2Registers;
  c.body =
      "mov.u32 %i, 0;\n"
      "L:\nmad.lo.u32 %a, %g, 32, %i;\nor.b32 %a, %a, 0x3f800000;\nmov.b32 %x, %a;\n" +
      Exp2(true) +
      "mov.b32 %a, %ref;\nmov.b32 %b, %y;\nsub.s32 %a, %b, %a;\ncvt.u64.u32 %w, %i;\n"
      "add.u64 %w, %w, %out;\nst.global.u8 [%w], %a;\n"
      "add.u32 %i, %i, 1;\nsetp.lt.u32 %p, %i, 32;\n@%p bra L;\n";
  return c;
}

constexpr int kTurns = 4000;

// Written by stores, read by a bulk copy: does the copy see what was there before?
Case Stored(bool fenced) {
  Case c;
  c.name = fmt::format("ask {} generic write and bulk copy",
                       fenced ? "fence between" : "no fence between");
  c.ctas = 32;
  c.threads = 128;
  c.out_bytes = 4;
  c.declarations =
      ".shared .align 1024 .b8 tile[2048];\n.reg .b32 %s, %a, %i, %n, %x, %y<4>;\n.reg .b64 %gm, "
      "%ga;\n"
      ".reg .pred %p, %q;\n";
  c.body =
      "mov.u32 %s, tile;\nmov.u32 %i, 0;\nmov.u32 %n, 0;\nmad.lo.u32 %a, %t, 16, %s;\n"
      "mov.u32 %x, %ctaid.x;\nmul.wide.u32 %gm, %x, 2048;\nadd.u64 %gm, %gm, %mem;\n"
      "mul.wide.u32 %ga, %t, 16;\nadd.u64 %ga, %ga, %gm;\n"
      "L:\nmad.lo.u32 %x, %i, 128, %t;\nst.shared.v4.b32 [%a], {%x, %x, %x, %x};\n" +
      std::string(fenced ? "fence.proxy.async.shared::cta;\n" : "") +
      "bar.sync 0;\nsetp.ne.u32 %q, %t, 0;\n@%q bra J;\n"
      "cp.async.bulk.global.shared::cta.bulk_group [%gm], [%s], 2048;\n"
      "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\nfence.proxy.async;\nJ:\nbar.sync "
      "0;\n"
      "fence.proxy.async;\nld.relaxed.gpu.global.v4.b32 {%y0, %y1, %y2, %y3}, [%ga];\n";
  for (int k = 0; k < 4; ++k)
    c.body += fmt::format("setp.ne.u32 %p, %y{}, %x;\n@%p add.u32 %n, %n, 1;\n", k);
  c.body += fmt::format(
      "bar.sync 0;\nadd.u32 %i, %i, 1;\nsetp.lt.u32 %p, %i, {};\n@%p bra L;\n"
      "st.global.b32 [%out], %n;\n",
      kTurns);
  return c;
}

// Read by loads, overwritten by a bulk copy: does a load see what comes after?
Case Refilled(bool fenced) {
  Case c;
  c.name = fmt::format("ask {} generic read and bulk copy",
                       fenced ? "fence between" : "no fence between");
  c.ctas = 16;
  c.threads = 128;
  c.out_bytes = 4;
  c.declarations =
      ".shared .align 1024 .b8 tile[2048];\n.shared .align 8 .b64 bar;\n"
      ".reg .b32 %s, %b, %a, %i, %n, %x, %y<4>, %v<4>, %tries;\n.reg .b64 %gm, %ga, %gl;\n"
      ".reg .pred %p, %q;\n";
  c.body =
      "mov.u32 %s, tile;\nmov.u32 %b, bar;\nmov.u32 %i, 0;\nmov.u32 %n, 0;\nmov.u32 %tries, 0;\n"
      "mad.lo.u32 %a, %t, 16, %s;\nmov.u32 %x, %ctaid.x;\nmul.wide.u32 %gm, %x, 4096;\n"
      "add.u64 %gm, %gm, %mem;\nmul.wide.u32 %ga, %t, 16;\nadd.u64 %ga, %ga, %gm;\n"
      "setp.ne.u32 %q, %t, 0;\n@%q bra I;\nmbarrier.init.shared::cta.b64 [%b], 1;\n"
      "fence.mbarrier_init.release.cluster;\nI:\nbar.sync 0;\n"
      // Turn i brings half i % 2 of the CTA's memory.
      "L:\nand.b32 %x, %i, 1;\nmul.wide.u32 %gl, %x, 2048;\nsetp.ne.u32 %q, %t, 0;\n@%q bra J;\n" +
      std::string(fenced ? "fence.proxy.async.shared::cta;\n" : "") +
      "add.u64 %gm, %gm, %gl;\nmbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], 2048;\n"
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%s], [%gm], 2048, [%b];\n"
      "sub.u64 %gm, %gm, %gl;\nJ:\n"
      "W:\nmbarrier.try_wait.parity.shared::cta.b64 %p, [%b], %x;\n@%p bra X;\n"
      "add.u32 %tries, %tries, 1;\nsetp.lt.u32 %p, %tries, 1000000;\n@%p bra W;\nX:\n"
      "add.u64 %gl, %gl, %ga;\nld.global.v4.b32 {%v0, %v1, %v2, %v3}, [%gl];\n"
      "ld.shared.v4.b32 {%y0, %y1, %y2, %y3}, [%a];\n" +
      std::string(fenced ? "fence.proxy.async.shared::cta;\n" : "") + "bar.sync 0;\n";
  for (int k = 0; k < 4; ++k)
    c.body += fmt::format("setp.ne.u32 %p, %y{0}, %v{0};\n@%p add.u32 %n, %n, 1;\n", k);
  c.body += fmt::format(
      "add.u32 %i, %i, 1;\nsetp.lt.u32 %p, %i, {};\n@%p bra L;\nst.global.b32 [%out], %n;\n",
      kTurns);
  return c;
}

// Written by stores, read by a product: B holds in chunk k the number k plus the turn, row m of A
// picks element m % 16 along K.
Case Multiplied(bool fenced) {
  Case c;
  c.name =
      fmt::format("ask {} generic write and wgmma", fenced ? "fence between" : "no fence between");
  c.ctas = 132;
  c.threads = 128;
  c.out_bytes = 4;
  c.declarations =
      ".shared .align 1024 .b8 tile[2048];\n.reg .b32 %s, %a, %i, %n, %x, %y, %lane, %row, %at, "
      "%f<4>, "
      "%d<32>;\n.reg .b64 %db;\n.reg .b16 %h;\n.reg .pred %p, %never;\n";
  c.body =
      "mov.u32 %s, tile;\nmov.u32 %i, 0;\nmov.u32 %n, 0;\nand.b32 %lane, %t, 31;\n"
      "setp.ne.u32 %never, %t, %t;\nmad.lo.u32 %at, %t, 16, %s;\nshr.u32 %a, %s, 4;\n"
      "cvt.u64.u32 %db, %a;\nor.b64 %db, %db, " +
      fmt::format("{};\n", uint64_t{128 >> 4} << 16 | uint64_t{256 >> 4} << 32);
  std::string regs = "{";
  for (int r = 0; r < 32; ++r) {
    regs += fmt::format("{}%d{}", r > 0 ? ", " : "", r);
    c.body += fmt::format("mov.b32 %d{}, 0;\n", r);
  }
  regs += "}";
  for (int q = 0; q < 4; ++q)
    c.body += fmt::format(
        "shr.u32 %row, %lane, 2;\nadd.u32 %row, %row, {};\nand.b32 %a, %lane, 3;\n"
        "mad.lo.u32 %a, %a, 2, {};\nsetp.eq.u32 %p, %a, %row;\nselp.b32 %f{}, 0x3c00, 0, %p;\n"
        "add.u32 %a, %a, 1;\nsetp.eq.u32 %p, %a, %row;\n@%p mov.b32 %f{}, 0x3c000000;\n",
        8 * (q % 2), 8 * (q / 2), q, q);
  c.body +=
      "L:\nadd.u32 %x, %i, %t;\nand.b32 %x, %x, 2047;\ncvt.rn.f16.u32 %h, %x;\nmov.b32 %x, {%h, "
      "%h};\n"
      "st.shared.v4.b32 [%at], {%x, %x, %x, %x};\n" +
      std::string(fenced ? "fence.proxy.async.shared::cta;\n" : "") + "bar.sync 0;\n" +
      "wgmma.fence.sync.aligned;\nwgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 " + regs +
      ", {%f0, %f1, %f2, %f3}, %db, %never, 1, 1, 0;\nwgmma.commit_group.sync.aligned;\n"
      "wgmma.wait_group.sync.aligned 0;\nand.b32 %x, %lane, 3;\nmad.lo.u32 %x, %x, 2, %i;\n";
  for (int r = 0; r < 32; ++r)
    c.body += fmt::format(
        "cvt.rni.u32.f32 %y, %d{};\nadd.u32 %a, %x, {};\nand.b32 %a, %a, 2047;\n"
        "setp.ne.u32 %p, %a, %y;\n@%p add.u32 %n, %n, 1;\n",
        r, r % 2 + r / 4 * 16 + 8 * (r / 2 % 2));
  c.body += fmt::format(
      "bar.sync 0;\nadd.u32 %i, %i, 1;\nsetp.lt.u32 %p, %i, {};\n@%p bra L;\n"
      "st.global.b32 [%out], %n;\n",
      kTurns);
  return c;
}

}  // namespace

std::vector<Case> Questions() {
  std::vector<Case> out = {Sweep(true), Sweep(false), Binade()};
  for (bool fenced : {true, false}) {
    out.push_back(Stored(fenced));
    out.push_back(Refilled(fenced));
    out.push_back(Multiplied(fenced));
  }
  return out;
}

}  // namespace tilec::conformance
