// Element types of the units that move or multiply tiles (TMA, wgmma, mma.sync).
//
// One enum for all of them, because a tile keeps its type from the tensor map to the tensor core;
// each unit refuses the members it does not know.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "runtime/device.h"

namespace tilec::runtime::emulator {

using Arithmetic = EmulatorOptions::Arithmetic;

enum class Element : uint8_t {
  kU8,
  kS8,
  kU16,
  kS16,
  kU32,
  kS32,
  kU64,
  kS64,
  kF16,
  kBf16,
  kF32,
  kF64,
  kTf32,
  kE4m3,
  kE5m2,
};

constexpr uint32_t ElementBytes(Element e) {
  switch (e) {
    case Element::kU8:
    case Element::kS8:
    case Element::kE4m3:
    case Element::kE5m2: return 1;
    case Element::kU16:
    case Element::kS16:
    case Element::kF16:
    case Element::kBf16: return 2;
    case Element::kU32:
    case Element::kS32:
    case Element::kF32:
    case Element::kTf32: return 4;
    case Element::kU64:
    case Element::kS64:
    case Element::kF64: return 8;
  }
  return 0;
}

constexpr bool IsFloat(Element e) {
  switch (e) {
    case Element::kF16:
    case Element::kBf16:
    case Element::kF32:
    case Element::kF64:
    case Element::kTf32:
    case Element::kE4m3:
    case Element::kE5m2: return true;
    case Element::kU8:
    case Element::kS8:
    case Element::kU16:
    case Element::kS16:
    case Element::kU32:
    case Element::kS32:
    case Element::kU64:
    case Element::kS64: return false;
  }
  return false;
}

// PTX and tile-language spellings ("bf16", "s8", "i8", …); nullopt for anything else.
std::optional<Element> ElementFromName(std::string_view name);
std::string_view ElementName(Element e);

}  // namespace tilec::runtime::emulator
