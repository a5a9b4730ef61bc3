// Tables behind ptx_ast.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/ptx_ast.h"

#include <algorithm>

namespace tilec::runtime::emulator {
namespace {

struct TypeRow {
  const char* name;
  int bits;
};
constexpr TypeRow kTypes[] = {
#define X(name, text, bits) {text, bits},
    TILEC_PTX_TYPES(X)
#undef X
        {"none", 0},
};

struct SpecialRow {
  std::string_view name;
  Type type;
};
constexpr SpecialRow kSpecials[] = {
#define SPECIAL(name, text, type) {text, Type::k##type},
#include "runtime/emulator/specials.def"
#undef SPECIAL
};

}  // namespace

int TypeBits(Type t) { return kTypes[static_cast<size_t>(t)].bits; }
const char* TypeName(Type t) { return kTypes[static_cast<size_t>(t)].name; }

Type TypeFromName(std::string_view name) {
  for (size_t i = 0; i < static_cast<size_t>(Type::kNone); ++i)
    if (name == kTypes[i].name) return static_cast<Type>(i);
  return Type::kNone;
}

bool IsSigned(Type t) {
  return t == Type::kS8 || t == Type::kS16 || t == Type::kS32 || t == Type::kS64;
}

bool IsFloat(Type t) {
  return t == Type::kF16 || t == Type::kBF16 || t == Type::kF16x2 || t == Type::kBF16x2 ||
         t == Type::kF32 || t == Type::kF64 || t == Type::kTF32 || t == Type::kE4M3 ||
         t == Type::kE5M2;
}

int SpecialFromName(std::string_view name) {
  for (size_t i = 0; i < std::size(kSpecials); ++i)
    if (name == kSpecials[i].name) return static_cast<int>(i);
  return -1;
}
Type SpecialType(Special s) { return kSpecials[static_cast<size_t>(s)].type; }

void Statement::SplitText() {
  size_t dot = text.find('.');
  opcode = text.substr(0, dot);
  while (dot != std::string_view::npos) {
    size_t next = text.find('.', dot + 1);
    mods.push_back(text.substr(dot + 1, next == std::string_view::npos ? next : next - dot - 1));
    dot = next;
  }
}

std::string Register::Name() const {
  std::string s(name);
  return ranged ? s + std::to_string(number) : s;
}

std::string PtxPlaces::Source(int line) const {
  auto after = std::upper_bound(notes.begin(), notes.end(), line,
                                [](int l, const LineNote& n) { return l < n.ptx_line; });
  return line > 0 && after != notes.begin() ? (after - 1)->text : "";
}

std::string PtxPlaces::Role(uint32_t warp) const {
  for (const LoadOptions::Role& r : roles)
    if (warp >= r.first_warp && warp - r.first_warp < r.warps) return r.name;
  return "";
}

std::string PtxPlaces::Shared(uint64_t begin, uint64_t end) const {
  std::string out;
  for (const LoadOptions::Shared& s : shared) {
    if (end <= s.offset || begin >= s.offset + s.bytes * s.slots) continue;
    const uint64_t slot = begin <= s.offset ? 0 : (begin - s.offset) / s.bytes;
    if (!out.empty()) out += ", or ";
    out += s.slots > 1 ? fmt::format("slot {} of {} of {}", slot, s.slots, s.name) : s.name;
  }
  return out;
}

std::string PtxPlaces::Describe(int line) const {
  std::string s = name + ":" + std::to_string(line), source = Source(line);
  return source.empty() ? s : s + " (" + source + ")";
}

DiagBuilder PtxPlaces::At(DiagBuilder builder, int line) const {
  builder.Place(name + ":" + std::to_string(line));
  if (std::string source = Source(line); !source.empty()) builder.Note("compiled from " + source);
  return builder;
}

}  // namespace tilec::runtime::emulator
