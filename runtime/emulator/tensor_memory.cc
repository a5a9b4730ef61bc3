// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/tensor_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace tilec::runtime::emulator {
namespace {

// Bits of lanes [lane, lane + lanes) in word `half` of a column's 128.
uint64_t LaneBits(uint32_t half, uint32_t lane, uint32_t lanes) {
  const uint32_t lo = std::max(lane, half * 64), hi = std::min(lane + lanes, half * 64 + 64);
  if (lo >= hi) return 0;
  const uint64_t ones = hi - lo == 64 ? ~0ull : (1ull << (hi - lo)) - 1;
  return ones << (lo - half * 64);
}

}  // namespace

void TensorMemory::SetWritten(uint32_t column, uint32_t lane, uint32_t lanes) {
  for (uint32_t h = 0; h < 2; ++h) written_[column][h] |= LaneBits(h, lane, lanes);
}

bool TensorMemory::Written(uint32_t column, uint32_t lane, uint32_t lanes) const {
  for (uint32_t h = 0; h < 2; ++h)
    if (LaneBits(h, lane, lanes) & ~written_[column][h]) return false;
  return true;
}

std::optional<uint32_t> TensorMemory::Allocate(uint32_t columns) {
  for (uint32_t at = 0; at + columns <= kTensorColumns; at += columns) {
    const bool taken = std::any_of(live_.begin(), live_.end(), [&](const Range& r) {
      return r.column < at + columns && at < r.column + r.columns;
    });
    if (taken) continue;
    live_.push_back({at, columns});
    std::sort(live_.begin(), live_.end(),
              [](const Range& a, const Range& b) { return a.column < b.column; });
    used_ += columns;
    for (uint32_t c = at; c < at + columns; ++c) {
      written_[c] = {};
      std::fill(Column(c), Column(c) + kTensorLanes, kFresh);
    }
    return at;
  }
  return std::nullopt;
}

bool TensorMemory::Free(uint32_t column, uint32_t columns) {
  auto it = std::find_if(live_.begin(), live_.end(), [&](const Range& r) {
    return r.column == column && r.columns == columns;
  });
  if (it == live_.end()) return false;
  live_.erase(it);
  used_ -= columns;
  return true;
}

bool TensorMemory::Live(uint32_t column, uint32_t columns) const {
  uint32_t at = column;
  for (const Range& r : live_)
    if (r.column <= at && at < r.column + r.columns) at = r.column + r.columns;
  return at >= column + columns;
}

std::string TensorMemory::Allocations() const {
  std::string s;
  for (const Range& r : live_)
    s +=
        fmt::format("{}[{}, {})", s.empty() ? "columns " : " and ", r.column, r.column + r.columns);
  return s.empty() ? "nothing" : s;
}

std::optional<TensorShape> TensorShapeFromName(std::string_view name) {
  static constexpr std::pair<std::string_view, TensorShape> kNames[] = {
      {"32x32b", TensorShape::k32x32b},
      {"16x64b", TensorShape::k16x64b},
      {"16x128b", TensorShape::k16x128b},
      {"16x256b", TensorShape::k16x256b},
      {"16x32bx2", TensorShape::k16x32bx2}};
  for (auto [text, shape] : kNames)
    if (text == name) return shape;
  return std::nullopt;
}

namespace {

// Registers of .x1, which are also the factor by which .num multiplies.
uint32_t RegistersOfOne(TensorShape shape) {
  switch (shape) {
    case TensorShape::k32x32b:
    case TensorShape::k16x64b:
    case TensorShape::k16x32bx2: return 1;
    case TensorShape::k16x128b: return 2;
    case TensorShape::k16x256b: return 4;
  }
  return 1;
}

}  // namespace

uint32_t TensorTransfer::registers() const { return num * RegistersOfOne(shape); }

bool TensorTransfer::Valid() const {
  const bool power = num != 0 && (num & (num - 1)) == 0;
  return power && registers() <= 128;
}

uint32_t TensorTransfer::columns() const {
  const uint32_t one = [&] {
    switch (shape) {
      case TensorShape::k32x32b:
      case TensorShape::k16x32bx2: return 1u;
      case TensorShape::k16x64b: return 2u;
      case TensorShape::k16x128b: return 4u;
      case TensorShape::k16x256b: return 8u;
    }
    return 1u;
  }();
  return one * num * (packed ? 2 : 1);
}

// Figures 183 to 187 of the ISA.
TensorAddress TensorTransfer::Word(uint32_t r, uint32_t t) const {
  TensorAddress w;
  switch (shape) {
    case TensorShape::k32x32b: w = {t, r}; break;
    case TensorShape::k16x64b: w = {t / 4 + 8 * (t % 2), t / 2 % 2 + 2 * r}; break;
    case TensorShape::k16x128b: w = {t / 4 + 8 * (r % 2), t % 4 + 4 * (r / 2)}; break;
    case TensorShape::k16x256b:
      w = {t / 4 + 8 * (r / 2 % 2), 2 * (t % 4) + r % 2 + 8 * (r / 4)};
      break;
    case TensorShape::k16x32bx2: w = {t % 16, r}; break;
  }
  if (packed) w.column *= 2;
  if (shape == TensorShape::k16x32bx2) w.column += t / 16 * half_split;
  return w;
}

void TensorTransfer::Load(const TensorMemory& memory, TensorAddress at,
                          uint32_t* const* registers_of_warp) const {
  const uint32_t n = registers();
  for (uint32_t r = 0; r < n; ++r) {
    uint32_t* row = registers_of_warp[r];
    if (shape == TensorShape::k32x32b && !packed) {
      std::memcpy(row, memory.Column(at.column + r) + at.lane, 32 * sizeof(uint32_t));
      continue;
    }
    for (uint32_t t = 0; t < 32; ++t) {
      const TensorAddress w = Word(r, t);
      const uint32_t low = memory.Column(at.column + w.column)[at.lane + w.lane];
      row[t] = !packed ? low
                       : (low & 0xffff) | memory.Column(at.column + w.column + 1)[at.lane + w.lane]
                                              << 16;
    }
  }
}

void TensorTransfer::Store(TensorMemory* memory, TensorAddress at,
                           const uint32_t* const* registers_of_warp) const {
  const uint32_t n = registers();
  for (uint32_t r = 0; r < n; ++r) {
    const uint32_t* row = registers_of_warp[r];
    if (shape == TensorShape::k32x32b && !packed) {
      std::memcpy(memory->Column(at.column + r) + at.lane, row, 32 * sizeof(uint32_t));
      continue;
    }
    for (uint32_t t = 0; t < 32; ++t) {
      const TensorAddress w = Word(r, t);
      uint32_t* low = memory->Column(at.column + w.column) + at.lane + w.lane;
      *low = packed ? row[t] & 0xffff : row[t];
      if (packed) low[kTensorLanes] = row[t] >> 16;
    }
  }
  for (uint32_t k = 0; k < accesses(); ++k)
    for (uint32_t c = 0; c < columns(); ++c)
      memory->SetWritten(at.column + k * half_split + c, at.lane, lanes());
}

}  // namespace tilec::runtime::emulator
