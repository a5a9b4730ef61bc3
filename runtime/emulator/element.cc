// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/element.h"

namespace tilec::runtime::emulator {
namespace {

struct Name {
  std::string_view name;
  Element element;
};

// The first name of an element is the one printed.
constexpr Name kNames[] = {
    {"u8", Element::kU8},     {"s8", Element::kS8},     {"i8", Element::kS8},
    {"u16", Element::kU16},   {"s16", Element::kS16},   {"i16", Element::kS16},
    {"u32", Element::kU32},   {"s32", Element::kS32},   {"i32", Element::kS32},
    {"u64", Element::kU64},   {"s64", Element::kS64},   {"i64", Element::kS64},
    {"f16", Element::kF16},   {"bf16", Element::kBf16}, {"f32", Element::kF32},
    {"f64", Element::kF64},   {"tf32", Element::kTf32}, {"e4m3", Element::kE4m3},
    {"e5m2", Element::kE5m2}, {"bool", Element::kU8},   {"e2m1x2", Element::kU8},
    {"ue8m0", Element::kU8},  {"ue4m3", Element::kU8},
};

}  // namespace

std::optional<Element> ElementFromName(std::string_view name) {
  for (const Name& n : kNames) {
    if (n.name == name) return n.element;
  }
  return std::nullopt;
}

std::string_view ElementName(Element e) {
  for (const Name& n : kNames) {
    if (n.element == e) return n.name;
  }
  return "?";
}

}  // namespace tilec::runtime::emulator
