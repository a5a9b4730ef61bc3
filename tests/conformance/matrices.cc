// Matrix instructions: fragments by identity, products of seeded numbers. Each product is tried
// with numbers of ordinary size and with random bits.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>

#include "tests/conformance/case.h"

namespace tilec::conformance {
namespace {

// "and", "or" masks that turn random bits into numbers of ordinary size.
std::pair<uint32_t, uint32_t> Tame(std::string_view type) {
  if (type == "bf16") return {0xbfffbfff, 0x3c003c00};
  if (type == "f16") return {0xbfffbfff, 0x30003000};
  if (type == "f32" || type == "tf32") return {0xbfffffff, 0x3c000000};
  if (type == "e4m3" || type == "e5m2") return {0xbfbfbfbf, 0};
  return {0xffffffff, 0};
}

std::string Registers(const char* name, int n) {
  std::string out = "{";
  for (int k = 0; k < n; ++k) out += fmt::format("{}%{}{}", k > 0 ? ", " : "", name, k);
  return out + "}";
}

void Matrices(const Variant& v, std::vector<Case>* out) {
  const int n = v.Has("x4") ? 4 : v.Has("x2") ? 2 : 1;
  const bool store = v.opcode == "stmatrix";
  Case c;
  c.name = v.Text();
  c.ctas = 1;
  c.threads = 32;
  c.out_bytes = 32;
  c.declarations = ".shared .align 128 .b8 tile[1024];\n.reg .b32 %s, %a, %r<4>, %x<4>;\n";
  // Each thread's 32 bytes of the tile are its own memory; rows are taken in another order.
  c.body =
      "mov.u32 %s, tile;\nmad.lo.u32 %a, %t, 32, %s;\nmul.wide.u32 %zw, %t, 32;\n"
      "add.u64 %zw, %zw, %mem;\nld.global.v4.b32 {%x0, %x1, %x2, %x3}, [%zw];\n"
      "st.shared.v4.b32 [%a], {%x0, %x1, %x2, %x3};\n"
      "ld.global.v4.b32 {%r0, %r1, %r2, %r3}, [%zw+16];\n"
      "st.shared.v4.b32 [%a+16], {%r0, %r1, %r2, %r3};\nbar.sync 0;\n"
      "xor.b32 %zn, %t, 11;\nmad.lo.u32 %a, %zn, 16, %s;\n";
  if (store)
    c.body += v.Text() + " [%a], " + Registers("x", n) +
              ";\nbar.sync 0;\n"
              "mad.lo.u32 %a, %t, 16, %s;\nld.shared.v4.b32 {%r0, %r1, %r2, %r3}, [%a];\n";
  else
    c.body += v.Text() + " " + Registers("r", n) + ", [%a];\n";
  c.body += "st.global.v4.b32 [%out], {%r0, %r1, %r2, %r3};\n";
  out->push_back(std::move(c));
}

void Mma(const Variant& v, std::vector<Case>* out) {
  if (v.Has("block_scale")) return;  // eight operands: no silicon that has it was there
  std::string shape;
  std::vector<std::string> types;
  for (const std::string& m : v.mods) {
    if (m[0] == 'm' && m.size() > 1 && m[1] == '1') shape = m;
    if (TypeBits(m) != 0) types.push_back(m);
  }
  if (types.size() != 4) return;
  const int k = std::atoi(shape.c_str() + shape.find('k') + 1);
  const int bits = types[1] == "tf32" ? 32 : TypeBits(types[1]);
  const int a = 16 * k * bits / 1024, b = 8 * k * bits / 1024;
  const int d = types[0] == "f16" ? 2 : 4, c_regs = types[3] == "f16" ? 2 : 4;
  if (a == 0 || b == 0) return;
  for (bool wild : {false, true}) {
    if (wild && types[0] == "s32") continue;
    Case c;
    c.name = v.Text() + (wild ? " bits" : "");
    c.ctas = 8;
    c.threads = 32;
    c.out_bytes = 16;
    c.declarations = fmt::format(".reg .b32 %a<{}>, %b<{}>, %c<{}>, %d<{}>;\n", a, b, c_regs, d);
    c.body = "mul.wide.u32 %zw, %g, 64;\nadd.u64 %zw, %zw, %mem;\n";
    int at = 0;
    auto load = [&](const char* name, int n, std::string_view type) {
      const auto [mask, set] = Tame(type);
      for (int r = 0; r < n; ++r, at += 4) {
        c.body += fmt::format("ld.global.b32 %{}{}, [%zw+{}];\n", name, r, at);
        if (!wild)
          c.body += fmt::format("and.b32 %{0}{1}, %{0}{1}, {2};\nor.b32 %{0}{1}, %{0}{1}, {3};\n",
                                name, r, mask, set);
      }
    };
    load("a", a, types[1]);
    load("b", b, types[2]);
    load("c", c_regs, types[3]);
    c.body += fmt::format("{} {}, {}, {}, {};\n", v.Text(), Registers("d", d), Registers("a", a),
                          Registers("b", b), Registers("c", c_regs));
    for (int r = 0; r < d; ++r) c.body += fmt::format("st.global.b32 [%out+{}], %d{};\n", r * 4, r);
    out->push_back(std::move(c));
  }
}

struct WgmmaTest {
  int swizzle_a = 0, swizzle_b = 0;
  bool transpose_a = false, transpose_b = false, registers = false, wild = false;
  bool negate = false, fresh = false;
};

uint64_t Descriptor(int swizzle, bool transposed) {
  // K-major: chunks of a row LBO apart without swizzle; eight rows SBO apart.
  const uint64_t mode = swizzle == 128 ? 1 : swizzle == 64 ? 2 : swizzle == 32 ? 3 : 0;
  uint64_t lbo = 128, sbo = swizzle == 0 ? 256 : 8 * static_cast<uint64_t>(swizzle);
  if (transposed) {  // MN-major: 8 k of W chunks; further chunks, further k
    lbo = swizzle == 0 ? 128 : 16 * static_cast<uint64_t>(swizzle);
    sbo = swizzle == 0 ? 256 : 8 * static_cast<uint64_t>(swizzle);
  }
  return (lbo >> 4) << 16 | (sbo >> 4) << 32 | mode << 62;
}

void WgmmaCase(const Variant& v, const std::vector<std::string>& types, int n, const WgmmaTest& t,
               std::vector<Case>* out) {
  std::string name;
  for (const std::string& m : v.mods) name += "." + m;
  const int bits = TypeBits(types[1]) == 32 ? 32 : TypeBits(types[1]);
  const bool half = bits == 16;
  if ((t.transpose_a || t.transpose_b) && !half) return;
  const int k = 256 / bits, regs = types[0] == "f16" ? n / 4 : n / 2;
  std::string text = v.Text();
  text.replace(text.find(".m64n"), fmt::format(".m64n{}k", n).size(),
               fmt::format(".m64n{}k{}", n, k));
  Case c;
  c.name = text;
  if (t.registers) c.name += " A in registers";
  c.name += fmt::format(" {}{}/{}{}", t.transpose_a ? "mn" : "k", t.swizzle_a,
                        t.transpose_b ? "mn" : "k", t.swizzle_b);
  if (t.negate) c.name += " negated";
  if (t.fresh) c.name += " fresh";
  if (t.wild) c.name += " bits";
  c.ctas = 1;
  c.threads = 128;
  c.out_bytes = static_cast<uint32_t>(regs * 4);
  c.declarations = fmt::format(
      ".shared .align 1024 .b8 tile[45056];\n.reg .b32 %s, %a, %i, %x<4>, %f<4>, %d<{}>;\n"
      ".reg .b64 %da, %db, %w;\n.reg .pred %p, %scale;\n",
      regs);
  const auto [mask_a, set_a] = Tame(types[1]);
  const auto [mask_b, set_b] = Tame(types[2]);
  // A is in the first 8 KiB, B behind it; types of one product have one width.
  c.body =
      "mov.u32 %s, tile;\nmov.u32 %i, %t;\n"
      "F:\nmul.wide.u32 %zw, %i, 16;\nadd.u64 %zw, %zw, %mem;\nmad.lo.u32 %a, %i, 16, %s;\n"
      "ld.global.v4.b32 {%x0, %x1, %x2, %x3}, [%zw];\nsetp.lt.u32 %p, %i, 512;\n";
  if (!t.wild)
    for (int r = 0; r < 4; ++r)
      c.body += fmt::format(
          "@%p and.b32 %x{0}, %x{0}, {1};\n@%p or.b32 %x{0}, %x{0}, {2};\n"
          "@!%p and.b32 %x{0}, %x{0}, {3};\n@!%p or.b32 %x{0}, %x{0}, {4};\n",
          r, mask_a, set_a, mask_b, set_b);
  c.body +=
      "st.shared.v4.b32 [%a], {%x0, %x1, %x2, %x3};\nadd.u32 %i, %i, 128;\n"
      "setp.lt.u32 %p, %i, 2816;\n@%p bra F;\nfence.proxy.async.shared::cta;\nbar.sync 0;\n";
  c.body +=
      "mul.wide.u32 %zw, %t, 16;\nadd.u64 %zw, %zw, %mem;\n"
      "ld.global.v4.b32 {%f0, %f1, %f2, %f3}, [%zw];\n";
  if (!t.wild)
    for (int r = 0; r < 4; ++r)
      c.body +=
          fmt::format("and.b32 %f{0}, %f{0}, {1};\nor.b32 %f{0}, %f{0}, {2};\n", r, mask_a, set_a);
  const auto [mask_d, set_d] = Tame(types[0]);
  for (int r = 0; r < regs; ++r) {
    c.body += fmt::format("ld.global.b32 %d{0}, [%zw+{1}];\n", r, r * 4);
    if (!t.wild || types[0] != "s32")
      c.body +=
          fmt::format("and.b32 %d{0}, %d{0}, {1};\nor.b32 %d{0}, %d{0}, {2};\n", r, mask_d, set_d);
  }
  c.body += fmt::format(
      "shr.u32 %a, %s, 4;\ncvt.u64.u32 %w, %a;\nor.b64 %da, %w, {};\nadd.u32 %a, %s, 8192;\n"
      "shr.u32 %a, %a, 4;\ncvt.u64.u32 %w, %a;\nor.b64 %db, %w, {};\n",
      Descriptor(t.swizzle_a, t.transpose_a), Descriptor(t.swizzle_b, t.transpose_b));
  c.body += fmt::format("setp.{}.u32 %scale, %t, %t;\n", t.fresh ? "ne" : "eq");
  const bool integer = types[0] == "s32";
  std::string tail;
  if (!integer) tail = t.negate ? ", -1, 1" : ", 1, 1";
  if (half && !t.registers)
    tail += fmt::format(", {}, {}", t.transpose_a ? 1 : 0, t.transpose_b ? 1 : 0);
  if (half && t.registers) tail += fmt::format(", {}", t.transpose_b ? 1 : 0);
  c.body += fmt::format(
      "wgmma.fence.sync.aligned;\n{} {}, {}, %db, %scale{};\n"
      "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n",
      text, Registers("d", regs), t.registers ? "{%f0, %f1, %f2, %f3}" : std::string("%da"), tail);
  for (int r = 0; r < regs; ++r)
    c.body += fmt::format("st.global.b32 [%out+{}], %d{};\n", r * 4, r);
  out->push_back(std::move(c));
}

// Where the bytes of an operand are: chunk k of 16 bytes holds the number k in every element, and
// row m of A, in registers, picks element m % 16 along K. Each CTA has a descriptor of its own:
// "start" at a line of 128 bytes, that with every "base" offset, or with other "leading" offsets.
void MapCase(const Variant& v, int swizzle, bool transposed, const char* what,
             std::vector<Case>* out) {
  const bool leading = std::strcmp(what, "leading") == 0;
  std::string text = v.Text();
  text.replace(text.find(".m64n64k"), 8, ".m64n64k16");
  Case c;
  c.name = fmt::format("{} reads {}{} {}", text, transposed ? "mn" : "k", swizzle, what);
  c.ctas = leading ? 16 : std::strcmp(what, "base") == 0 ? 64 : 8;
  c.threads = 128;
  c.out_bytes = 64;
  c.declarations =
      ".shared .align 1024 .b8 tile[32768];\n.reg .b32 %s, %a, %i, %x, %lane, %row, %f<4>, "
      "%d<32>;\n"
      ".reg .b64 %db, %w;\n.reg .b16 %h;\n.reg .pred %p, %never;\n";
  c.body =
      "mov.u32 %s, tile;\nmov.u32 %i, %t;\n"
      "F:\ncvt.rn.f16.u32 %h, %i;\nmov.b32 %x, {%h, %h};\nmad.lo.u32 %a, %i, 16, %s;\n"
      "st.shared.v4.b32 [%a], {%x, %x, %x, %x};\nadd.u32 %i, %i, 128;\n"
      "setp.lt.u32 %p, %i, 2048;\n@%p bra F;\nfence.proxy.async.shared::cta;\nbar.sync 0;\n"
      "setp.ne.u32 %never, %t, %t;\nand.b32 %lane, %t, 31;\n";
  for (int r = 0; r < 32; ++r) c.body += fmt::format("mov.b32 %d{}, 0;\n", r);
  for (int q = 0; q < 4; ++q)  // elements 2·(lane % 4) + 8·(q / 2) and the next of its row
    c.body += fmt::format(
        "shr.u32 %row, %lane, 2;\nadd.u32 %row, %row, {};\nand.b32 %a, %lane, 3;\n"
        "mad.lo.u32 %a, %a, 2, {};\nsetp.eq.u32 %p, %a, %row;\nselp.b32 %f{}, 0x3c00, 0, %p;\n"
        "add.u32 %a, %a, 1;\nsetp.eq.u32 %p, %a, %row;\n@%p mov.b32 %f{}, 0x3c000000;\n",
        8 * (q % 2), 8 * (q / 2), q, q);
  uint64_t bits = Descriptor(swizzle, transposed);
  if (leading) bits &= ~(uint64_t{0x3fff} << 16);
  c.body += fmt::format(
      "mov.u32 %i, %ctaid.x;\nand.b32 %a, %i, 7;\nmad.lo.u32 %a, %a, {}, %s;\n"
      "add.u32 %a, %a, 8192;\nshr.u32 %a, %a, 4;\ncvt.u64.u32 %w, %a;\nor.b64 %db, %w, {};\n",
      leading ? 0 : 128, bits);
  c.body += leading ? "mov.b32 %a, 1;\nshl.b32 %a, %a, %i;\nand.b32 %a, %a, 16383;\n"
                      "cvt.u64.u32 %w, %a;\nshl.b64 %w, %w, 16;\nor.b64 %db, %db, %w;\n"
                    : "shr.u32 %a, %i, 3;\ncvt.u64.u32 %w, %a;\nshl.b64 %w, %w, 49;\n"
                      "or.b64 %db, %db, %w;\n";
  c.body += fmt::format(
      "wgmma.fence.sync.aligned;\n{} {}, {{%f0, %f1, %f2, %f3}}, %db, %never, 1, 1, {};\n"
      "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n",
      text, Registers("d", 32), transposed ? 1 : 0);
  for (int r = 0; r < 32; ++r)
    c.body += fmt::format("cvt.rni.u16.f32 %h, %d{0};\nst.global.b16 [%out+{1}], %h;\n", r, r * 2);
  out->push_back(std::move(c));
}

void Wgmma(const Variant& v, std::vector<Case>* out) {
  if (!v.Has("mma_async")) {
    Case c;  // the ordinary product around them shows that they are there
    c.name = v.Text();
    c.ctas = 1;
    c.threads = 128;
    c.body = v.Text() + (v.Has("wait_group") ? " 0" : "") + ";\nst.global.b32 [%out], 1;\n";
    out->push_back(std::move(c));
    return;
  }
  std::vector<std::string> types;
  int n = 0;
  for (const std::string& m : v.mods) {
    if (TypeBits(m) != 0) types.push_back(m);
    if (m.substr(0, 4) == "m64n") n = std::atoi(m.c_str() + 4);
  }
  if (types.size() != 3) return;
  WgmmaCase(v, types, n, {}, out);
  if (types[0] != "s32") WgmmaCase(v, types, n, {.wild = true}, out);
  if (n != 64) return;
  if (types[0] == "f32" && types[1] == "f16" && types[2] == "f16")
    for (int s : {32, 64, 128}) {
      for (const char* what : {"start", "base"})
        for (bool transposed : {false, true}) MapCase(v, s, transposed, what, out);
      MapCase(v, s, false, "leading", out);
    }
  WgmmaCase(v, types, n, {.registers = true}, out);
  WgmmaCase(v, types, n, {.fresh = true}, out);
  if (types[0] != "s32") WgmmaCase(v, types, n, {.negate = true}, out);
  for (int s : {32, 64, 128}) WgmmaCase(v, types, n, {.swizzle_a = s, .swizzle_b = s}, out);
  WgmmaCase(v, types, n, {.swizzle_a = 128, .swizzle_b = 32}, out);
  for (int s : {0, 32, 64, 128}) {
    WgmmaCase(v, types, n,
              {.swizzle_a = s, .swizzle_b = s, .transpose_a = true, .transpose_b = true}, out);
    WgmmaCase(v, types, n, {.swizzle_b = s, .transpose_b = true}, out);
  }
}

}  // namespace

void MatrixCases(const Variant& v, std::vector<Case>* out) {
  if (v.opcode == "ldmatrix" || v.opcode == "stmatrix") return Matrices(v, out);
  if (v.opcode == "mma") return Mma(v, out);
  if (v.opcode == "wgmma") return Wgmma(v, out);
}

}  // namespace tilec::conformance
