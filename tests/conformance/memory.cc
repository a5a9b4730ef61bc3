// Loads, stores, atomics, addresses. Every thread has 32 bytes of global memory of its own, 32
// bytes of shared and local memory, and the whole CTA for what needs neighbours.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "tests/conformance/case.h"

namespace tilec::conformance {
namespace {

constexpr const char* kPlaces =
    ".reg .b64 %gm;\n.reg .b32 %sm, %lm;\n"
    ".shared .align 128 .b8 tile[8192];\n.local .align 32 .b8 depot[32];\n";
// %gm, %sm, %lm: this thread's 32 bytes; shared and local memory hold a copy of the global ones.
constexpr const char* kSetUp =
    "mul.wide.u32 %zw, %g, 32;\nadd.u64 %gm, %mem, %zw;\n"
    "mov.u32 %sm, tile;\nmad.lo.u32 %sm, %t, 32, %sm;\nmov.u32 %lm, depot;\n"
    ".reg .b64 %c<4>;\n"
    "ld.global.v2.b64 {%c0, %c1}, [%gm];\nld.global.v2.b64 {%c2, %c3}, [%gm+16];\n"
    "st.shared.v2.b64 [%sm], {%c0, %c1};\nst.shared.v2.b64 [%sm+16], {%c2, %c3};\n"
    "st.local.v2.b64 [%lm], {%c0, %c1};\nst.local.v2.b64 [%lm+16], {%c2, %c3};\n";

Case StartAccess(const Variant& v) {
  Case c;
  c.name = v.Text();
  c.declarations = kPlaces;
  c.body = kSetUp;
  return c;
}

std::string Space(const Variant& v) {
  for (const char* s :
       {"shared", "shared::cta", "shared::cluster", "local", "const", "param", "param::entry"})
    if (v.Has(s)) return std::string(s).substr(0, 5) == "param" ? "param" : s;
  return "global";
}

std::string Address(const std::string& space) {
  if (space == "local") return "%lm";
  if (space == "const") return "table";
  if (space == "param") return "mem";
  return space == "global" ? "%gm" : "%sm";
}

int Lanes(const Variant& v) { return v.Has("v8") ? 8 : v.Has("v4") ? 4 : v.Has("v2") ? 2 : 1; }

std::string List(const char* name, int n) {
  std::string out;
  for (int k = 0; k < n; ++k) out += fmt::format("{}%{}{}", k > 0 ? ", " : "", name, k);
  return n == 1 ? out : "{" + out + "}";
}

void Load(const Variant& v, std::vector<Case>* out) {
  const std::string& type = v.types.back();
  const int bits = TypeBits(type), lanes = Lanes(v);
  if (bits * lanes > 256 || (lanes == 8 && bits < 32)) return;
  const std::string space = Space(v);
  if (space == "param" && bits * lanes > 64) return;
  Case c = StartAccess(v);
  if (space == "const") {
    c.declarations +=
        ".const .align 32 .b32 table[8] = {1, 2, 0x80000000, 0xfedcba98, 5, 6, 7, 8};\n";
    return;  // .const is a module's: see docs/emulator.md, it is covered by unit tests
  }
  // Registers wider than the type show how it is extended.
  const int wide = std::max(bits, type[0] == 'f' || type[0] == 'b' ? std::max(bits, 16) : 32);
  c.declarations += fmt::format(".reg .b{} %v<{}>;\n", wide, lanes);
  c.out_bytes = 64;
  c.body += fmt::format("{} {}, [{}];\n", v.Text(), List("v", lanes), Address(space));
  for (int k = 0; k < lanes; ++k)
    c.body += fmt::format("st.global.b{} [%out+{}], %v{};\n", wide, k * 8, k);
  // A parameter is an address, which differs from device to device: only its arithmetic counts.
  if (space == "param") {
    c.body = kSetUp;
    c.body += fmt::format("{} {}, [mem];\nld.param.u64 %zw, [mem];\n", v.Text(), List("v", lanes));
    if (lanes > 1 || type[0] == 's') return;
    c.declarations += ".reg .pred %same;\n.reg .b64 %wide;\n";
    if (bits < 64)
      c.body += fmt::format("cvt.u64.u{} %wide, %v0;\nbfi.b64 %zw, %zw, 0, 0, {};\n", wide, bits) +
                fmt::format("xor.b64 %zw, %zw, %wide;\nshl.b64 %zw, %zw, {};\n", 64 - bits);
    else
      c.body += "xor.b64 %zw, %zw, %v0;\n";
    c.body += "st.global.b64 [%out], %zw;\n";
  }
  out->push_back(std::move(c));
}

void Store(const Variant& v, std::vector<Case>* out) {
  const std::string& type = v.types.back();
  const int bits = TypeBits(type), lanes = Lanes(v);
  if (bits * lanes > 256 || (lanes == 8 && bits < 32)) return;
  const std::string space = Space(v);
  Case c = StartAccess(v);
  c.out_bytes = 32;
  c.uses_memory = true;
  const int wide = std::max(bits, 16);
  c.inputs = {"b64", "b64", "b64", "b64"};
  c.declarations += fmt::format(".reg .b{} %v<{}>;\n", wide, lanes);
  for (int k = 0; k < lanes; ++k)
    c.body += fmt::format("ld.global.b{} %v{}, [%in+{}];\n", wide, k, k * 32 / lanes / 8 * 8);
  c.body += fmt::format("{} [{}], {};\n", v.Text(), Address(space), List("v", lanes));
  for (int k = 0; k < 4; ++k)
    c.body += fmt::format("ld.{0}.b64 %c0, [{1}+{2}];\nst.global.b64 [%out+{2}], %c0;\n",
                          space == "shared::cluster" ? "shared" : space, Address(space), k * 8);
  out->push_back(std::move(c));
}

void Atomic(const Variant& v, std::vector<Case>* out) {
  const std::string& type = v.types.back();
  const int bits = TypeBits(type);
  const std::string space = Space(v);
  const bool swap = v.Has("cas"), result = v.opcode == "atom";
  Case c = StartAccess(v);
  c.uses_memory = true;
  c.inputs = {type, type, type};
  const std::string scope_space = space == "shared::cluster" ? "shared" : space;
  c.declarations += fmt::format(".reg .b{} %v<4>;\n", bits);
  for (int k = 0; k < 3; ++k)
    c.body += fmt::format("ld.global.b{0} %v{1}, [%in+{2}];\n", bits, k, k * 8);
  // The old value: the first input, or for a swap in every other thread what is compared with.
  c.body += fmt::format("st.{}.b{} [{}], %v0;\n", scope_space, bits, Address(space));
  if (swap)
    c.body += fmt::format(
        ".reg .pred %odd;\nand.b32 %zn, %t, 1;\nsetp.ne.u32 %odd, %zn, 0;\n"
        "@%odd mov.b{} %v1, %v0;\n",
        bits);
  c.body += fmt::format("{} {}[{}], %v1{};\n", v.Text(), result ? "%v3, " : "", Address(space),
                        swap ? ", %v2" : "");
  if (result) c.body += fmt::format("st.global.b{} [%out], %v3;\n", bits);
  c.body += fmt::format("ld.{0}.b{1} %v2, [{2}];\nst.global.b{1} [%out+8], %v2;\n", scope_space,
                        bits, Address(space));
  out->push_back(std::move(c));
}

void Addresses(const Variant& v, std::vector<Case>* out) {
  Case c = StartAccess(v);
  if (v.opcode == "isspacep") {
    c.declarations += ".reg .pred %p;\n.reg .b64 %a;\n.reg .b32 %r, %one;\n";
    c.body += "mov.u32 %r, 0;\n";
    int bit = 0;
    for (const char* make :
         {"cvta.shared.u64 %a, %zw;", "cvta.local.u64 %a, %zw;", "mov.u64 %a, %gm;"}) {
      c.body += fmt::format("cvt.u64.u32 %zw, {};\n{}\n", bit == 1 ? "%lm" : "%sm", make);
      c.body += fmt::format("{} %p, %a;\nselp.b32 %one, {}, 0, %p;\nor.b32 %r, %r, %one;\n",
                            v.Text(), 1 << bit);
      ++bit;
    }
    c.body += "st.global.b32 [%out], %r;\n";
    out->push_back(std::move(c));
    return;
  }
  if (v.opcode == "cvta") {
    if (v.types[0] != "u64" || v.Has("const") || v.Has("param") || v.Has("param::entry")) return;
    const std::string space = Space(v);
    std::string text = v.Text();
    c.declarations += ".reg .b64 %a, %b;\n.reg .b32 %x;\n";
    c.body += space == "global" ? "mov.u64 %a, %gm;\n"
                                : fmt::format("cvt.u64.u32 %a, {};\n", Address(space));
    // There by this form and back by the other; and a generic load through it.
    const size_t to = text.find(".to.");
    const std::string there =
        to == std::string::npos ? text : std::string(text).replace(to, 4, ".");
    const std::string back =
        to != std::string::npos ? text : std::string(text).replace(4, 1, ".to.");
    c.body += fmt::format(
        "{} %b, %a;\nld.b32 %x, [%b];\nst.global.b32 [%out], %x;\n"
        "{} %b, %b;\nsub.u64 %b, %b, %a;\nst.global.b64 [%out+8], %b;\n",
        there, back);
    out->push_back(std::move(c));
    return;
  }
  // mapa and getctarank: two CTAs look at each other's tile.
  c.cluster = 2;
  const bool narrow = v.types[0] == "u32";
  c.declarations += ".reg .b64 %a, %b;\n.reg .b32 %x, %y, %peer;\n";
  c.body +=
      "mov.u32 %peer, %cluster_ctarank;\nxor.b32 %peer, %peer, 1;\n"
      "barrier.cluster.arrive;\nbarrier.cluster.wait;\n";
  const std::string map = narrow ? "mapa.shared::cluster.u32 %x, %sm, %peer;\n"
                                 : "cvt.u64.u32 %a, %sm;\ncvta.shared.u64 %a, %a;\n"
                                   "mapa.u64 %b, %a, %peer;\n";
  if (v.opcode == "mapa") {
    if (narrow && !v.Has("shared::cluster")) return;
    if (!narrow && v.Has("shared::cluster")) return;
    c.body += map + (narrow ? "ld.shared::cluster.b32 %y, [%x];\n" : "ld.b32 %y, [%b];\n");
  } else {
    if (narrow && !v.Has("shared::cluster")) return;
    if (!narrow && v.Has("shared::cluster")) return;
    c.body += map + fmt::format("{} %y, {};\n", v.Text(), narrow ? "%x" : "%b");
  }
  c.body += "st.global.b32 [%out], %y;\nbarrier.cluster.arrive;\nbarrier.cluster.wait;\n";
  out->push_back(std::move(c));
}

// Without effect on values: that they are accepted and harmless is all there is to see.
void Hints(const Variant& v, std::vector<Case>* out) {
  Case c = StartAccess(v);
  c.declarations += ".reg .b64 %policy;\n";
  std::string text = v.Text();
  if (v.opcode == "createpolicy") {
    text += " %policy, 0.5";
  } else if (v.opcode == "prefetch" && v.Has("tensormap")) {
    return;
  } else if (v.opcode == "discard" || v.opcode == "applypriority") {
    return;  // the first makes memory undefined, the second needs 128 bytes
  } else if (v.opcode == "prefetchu") {
    text += " [%gm]";
  } else if (v.opcode == "prefetch") {
    text += v.Has("local") ? " [%lm]" : " [%gm]";
  } else if (v.Has("acquire") && v.Has("proxy")) {
    text += " [%gm], 128";
    return;
  }
  c.body += text + ";\nst.global.b64 [%out], %c0;\n";
  out->push_back(std::move(c));
}

}  // namespace

void MemoryCases(const Variant& v, std::vector<Case>* out) {
  if (v.opcode == "ld" || v.opcode == "ldu") return Load(v, out);
  if (v.opcode == "st") return Store(v, out);
  if (v.opcode == "atom" || v.opcode == "red") return Atomic(v, out);
  if (v.opcode == "cvta" || v.opcode == "isspacep" || v.opcode == "mapa" ||
      v.opcode == "getctarank")
    return Addresses(v, out);
  for (const char* hint :
       {"prefetch", "prefetchu", "createpolicy", "fence", "membar", "applypriority", "discard"})
    if (v.opcode == hint) return Hints(v, out);
}

}  // namespace tilec::conformance
