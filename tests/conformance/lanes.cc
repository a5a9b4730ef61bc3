// Forms whose operands the table describes: registers in, registers out, lane by lane. Conversions
// and moves, whose operands it does not describe, are done here too.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "tests/conformance/case.h"

namespace tilec::conformance {
namespace {

// Registers have 16, 32 or 64 bits, or are predicates.
std::string Register(int bits) {
  return bits == 1 ? ".pred" : fmt::format(".b{}", std::max(bits, 16));
}

struct Builder {
  Case c;
  std::string before, operands, after;
  int out_at = 0;

  void Source(std::string_view type) {
    const size_t k = c.inputs.size();
    const int bits = TypeBits(type);
    c.inputs.emplace_back(type);
    c.declarations += fmt::format(".reg {} %s{};\n", Register(bits), k);
    if (bits == 1) {
      before += fmt::format("ld.global.b32 %zn, [%in+{}];\nsetp.ne.u32 %s{}, %zn, 0;\n", k * 8, k);
    } else {
      before += fmt::format("ld.global.b{} %s{}, [%in+{}];\n", bits, k, k * 8);
    }
    Operand(fmt::format("%s{}", k));
  }
  std::string Destination(int bits) {
    const std::string name = fmt::format("%d{}", out_at / 8);
    c.declarations += fmt::format(".reg {} {};\n", Register(bits), name);
    if (bits == 1) {
      before += fmt::format("setp.ne.u32 {}, %t, %t;\n", name);
      after +=
          fmt::format("selp.b32 %zn, 1, 0, {};\nst.global.b32 [%out+{}], %zn;\n", name, out_at);
    } else {
      before += fmt::format("mov.b{} {}, 0;\n", std::max(bits, 16), name);
      after += fmt::format("st.global.b{} [%out+{}], {};\n", std::max(bits, 16), out_at, name);
    }
    out_at += 8;
    return name;
  }
  void Operand(const std::string& text) { operands += (operands.empty() ? "" : ", ") + text; }
  void Finish(const Variant& v, std::vector<Case>* out) {
    c.name = v.Text();
    c.body = before + v.Text() + " " + operands + ";\n" + after;
    out->push_back(std::move(c));
  }
};

bool Approximate(const Variant& v) { return v.Has("approx") || v.Has("full"); }

// The width a token of the pattern means; 0: not a register.
int Bits(const Variant& v, std::string_view type, std::string* name) {
  const std::string t = v.types.empty() ? "" : v.types[0];
  const std::string u = v.types.size() > 1 ? v.types[1] : t;
  *name = type == "T" ? t : type == "U" ? u : type == "p" ? "pred" : "";
  if (type == "W") {
    const int bits = 2 * TypeBits(t);
    *name = fmt::format("{}{}", t[0], bits);
    return bits;
  }
  if (!name->empty()) return TypeBits(*name);
  *name = fmt::format("b{}", type);
  return TypeBits(*name);
}

void Pattern(const Variant& v, std::vector<Case>* out) {
  Builder b;
  const std::string_view pattern = Rows()[v.row].operands;
  const bool combines = v.opcode == "setp" && (v.Has("and") || v.Has("or") || v.Has("xor"));
  for (size_t at = 0; at < pattern.size();) {
    size_t end = std::min(pattern.find(' ', at), pattern.size());
    std::string_view word = pattern.substr(at, end - at);
    at = end + 1;
    std::string name;
    if (word.back() == '?') {
      if (!combines) continue;
      word.remove_suffix(1);
    }
    if (word == "i") {
      b.Operand("0xca");
    } else if (word[0] == 's') {
      Bits(v, word.substr(1), &name);
      b.Source(name);
    } else if (word[0] == 'd') {
      const size_t bar = word.find('|');
      std::string text = b.Destination(Bits(v, word.substr(1, bar - 1), &name));
      if (bar != std::string_view::npos)
        text += "|" + b.Destination(Bits(v, word.substr(bar + 2), &name));
      b.Operand(text);
    } else {
      return;
    }
  }
  b.c.approximate = Approximate(v) && !v.types.empty() && v.types[0] == "f32";
  b.Finish(v, out);
}

void Moves(const Variant& v, std::vector<Case>* out) {
  Builder b;
  const std::string& t = v.types[0];
  b.Operand(b.Destination(TypeBits(t)));
  b.Source(t);
  b.Finish(v, out);
  const int bits = TypeBits(t);
  if (t[0] != 'b' || t == "bf16" || t == "bf16x2" || bits < 32) return;
  Builder pack;  // from two halves, and back in the other order
  const std::string half = fmt::format("b{}", bits / 2);
  const std::string d = pack.Destination(bits);
  pack.Source(half);
  pack.Source(half);
  pack.c.name = v.Text() + " pack";
  pack.c.declarations += fmt::format(".reg .{} %x<2>;\n", half);
  const std::string e = pack.Destination(bits);
  pack.c.body = pack.before +
                fmt::format(
                    "mov.{0} {1}, {{%s0, %s1}};\nmov.{0} {{%x0, %x1}}, {1};\n"
                    "mov.{0} {2}, {{%x1, %x0}};\n",
                    t, d, e) +
                pack.after;
  out->push_back(std::move(pack.c));
}

void Conversions(const Variant& v, std::vector<Case>* out) {
  if (v.types.size() < 2) return;
  Builder b;
  b.Operand(b.Destination(TypeBits(v.types[0])));
  b.Source(v.types[1]);
  b.Finish(v, out);
}

}  // namespace

void LaneCases(const Variant& v, std::vector<Case>* out) {
  static constexpr std::string_view kOthers[] = {"cvta",
                                                 "isspacep",
                                                 "mapa",
                                                 "getctarank",
                                                 "ld",
                                                 "ldu",
                                                 "st",
                                                 "atom",
                                                 "red",
                                                 "bar",
                                                 "barrier",
                                                 "shfl",
                                                 "vote",
                                                 "match",
                                                 "activemask",
                                                 "redux",
                                                 "elect",
                                                 "mbarrier",
                                                 "cp",
                                                 "ldmatrix",
                                                 "stmatrix",
                                                 "mma",
                                                 "wgmma",
                                                 "nanosleep",
                                                 "setmaxnreg",
                                                 "pmevent",
                                                 "bra",
                                                 "ret",
                                                 "exit",
                                                 "trap",
                                                 "brkpt",
                                                 "griddepcontrol",
                                                 "fence",
                                                 "membar",
                                                 "prefetch",
                                                 "prefetchu",
                                                 "applypriority",
                                                 "discard",
                                                 "createpolicy"};
  for (std::string_view other : kOthers)
    if (v.opcode == other) return;
  const bool custom = Rows()[v.row].operands == "custom";
  if (v.opcode == "mov" && custom) return Moves(v, out);
  if (v.opcode == "cvt" && custom) return Conversions(v, out);
  if (!custom) Pattern(v, out);
}

}  // namespace tilec::conformance
