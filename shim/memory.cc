// Memory of the device: addresses are addresses of the host, so one map says what a pointer is.
// Pinned and managed memory is written by the host behind our back, and counts as written from the
// start; a copy between allocations marks its destination as written, whatever its source was.
//
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "shim/process.h"

namespace tilec::shim {

uint64_t Process::free_bytes() const { return memory_bytes() - std::min(memory_bytes(), used_); }

Code Process::Alloc(uint64_t bytes, Place place, uint64_t* address) {
  if (bytes == 0) {
    *address = 0;
    return kOk;
  }
  DiagSink diags;
  const auto at = device_->Alloc(bytes, diags);
  if (!at.ok()) {
    Note(
        fmt::format("{} bytes of device memory do not fit: {} of {} bytes are in use "
                    "(`--max-memory=MiB`)",
                    bytes, used_, memory_bytes()));
    return kOutOfMemory;
  }
  if (place != Place::kDevice)
    if (!device_->Fill(*at, 0, bytes, diags).ok()) return kUnknown;
  blocks_[*at] = {bytes, place};
  used_ += bytes;
  *address = *at;
  return kOk;
}

Code Process::Free(uint64_t address) {
  if (address == 0) return kOk;
  const auto it = blocks_.find(address);
  if (it == blocks_.end() || it->second.place == Place::kVariable) {
    Note(fmt::format("{:#x} is freed and is not the begin of an allocation", address));
    return kInvalidValue;
  }
  device_->Free(address);
  used_ -= it->second.bytes;
  blocks_.erase(it);
  return kOk;
}

const Block* Process::FindBlock(uint64_t address, uint64_t* begin) const {
  auto it = blocks_.upper_bound(address);
  if (it == blocks_.begin()) return nullptr;
  --it;
  if (address - it->first >= it->second.bytes) return nullptr;
  if (begin != nullptr) *begin = it->first;
  return &it->second;
}

namespace {

// The last byte behind `height` rows and `depth` slices; nullopt if that is no number, or if rows
// or slices lie over one another: the driver refuses a pitch under the width, and a block of memory
// then bounds how many rows there are.
std::optional<uint64_t> SpanOf(uint64_t width, uint64_t height, uint64_t depth, uint64_t pitch,
                               uint64_t slice) {
  uint64_t rows = 0, slices = 0, total = 0;
  if (height > 1 && pitch < width) return std::nullopt;
  if (__builtin_mul_overflow(pitch, height - 1, &rows)) return std::nullopt;
  if (__builtin_add_overflow(rows, width, &total)) return std::nullopt;
  if (depth > 1 && slice < total) return std::nullopt;
  if (__builtin_mul_overflow(slice, depth - 1, &slices)) return std::nullopt;
  if (__builtin_add_overflow(total, slices, &total)) return std::nullopt;
  return total;
}

}  // namespace

Code Process::Copy(const CopyWork& c) {
  ++counts_->copies;
  if (c.width == 0 || c.height == 0 || c.depth == 0) return kOk;
  const auto to_span = SpanOf(c.width, c.height, c.depth, c.to_pitch, c.to_slice);
  const auto from_span = SpanOf(c.width, c.height, c.depth, c.from_pitch, c.from_slice);
  if (!to_span || !from_span) {
    Note(
        fmt::format("a copy of {} rows of {} bytes, {} slices: pitches of {} to {} bytes lay rows "
                    "or slices over one another",
                    c.height, c.width, c.depth, c.from_pitch, c.to_pitch));
    return kInvalidValue;
  }
  if (c.to == 0 || c.from == 0) return kInvalidValue;
  uint64_t to_begin = 0, from_begin = 0;
  const Block* to = FindBlock(c.to, &to_begin);
  const Block* from = FindBlock(c.from, &from_begin);
  for (const auto& [gone, at, what] :
       {std::tuple{c.to_device && to == nullptr, c.to, "to"},
        std::tuple{c.from_device && from == nullptr, c.from, "from"}}) {
    if (!gone) continue;
    Note(fmt::format("a copy {} {:#x}, which is no memory of the device (any more)", what, at));
    return kInvalidValue;
  }
  // A range that begins in an allocation ends there, too.
  for (const auto& [block, at, begin, span, what] :
       {std::tuple{to, c.to, to_begin, *to_span, "writes"},
        std::tuple{from, c.from, from_begin, *from_span, "reads"}}) {
    if (block == nullptr || span <= block->bytes - (at - begin)) continue;
    Note(fmt::format("a copy {} {} bytes at byte {} of an allocation of {} bytes", what, span,
                     at - begin, block->bytes));
    return kInvalidValue;
  }
  for (uint64_t z = 0; z < c.depth; ++z)
    for (uint64_t y = 0; y < c.height; ++y) {
      const uint64_t t = c.to + z * c.to_slice + y * c.to_pitch;
      const uint64_t f = c.from + z * c.from_slice + y * c.from_pitch;
      const void* source = reinterpret_cast<const void*>(f);
      if (to == nullptr) {
        memmove(reinterpret_cast<void*>(t), source, c.width);
        continue;
      }
      DiagSink diags;
      std::string overlap;
      if (from == to) {
        overlap.assign(static_cast<const char*>(source), c.width);
        source = overlap.data();
      }
      if (!device_->CopyIn(t, source, c.width, diags).ok()) return kInvalidValue;
    }
  return kOk;
}

void Process::Remember(Work* work) const {
  auto* copy = std::get_if<CopyWork>(work);
  if (copy == nullptr) return;
  copy->to_device = copy->to_device || FindBlock(copy->to) != nullptr;
  copy->from_device = copy->from_device || FindBlock(copy->from) != nullptr;
}

Code Process::Fill(const FillWork& f) {
  ++counts_->copies;
  if (f.width == 0 || f.height == 0) return kOk;
  if (f.element_bytes != 1 && f.element_bytes != 2 && f.element_bytes != 4) return kInvalidValue;
  uint64_t row = 0, begin = 0;
  if (__builtin_mul_overflow(f.width, uint64_t{f.element_bytes}, &row)) return kInvalidValue;
  const auto span = SpanOf(row, f.height, 1, f.height > 1 ? f.pitch : 0, 0);
  const Block* block = FindBlock(f.to, &begin);
  if (!span) {
    Note(
        fmt::format("a fill of {} rows of {} bytes: a pitch of {} bytes lays rows over one "
                    "another",
                    f.height, row, f.pitch));
    return kInvalidValue;
  }
  if (block == nullptr) return kInvalidValue;
  if (*span > block->bytes - (f.to - begin)) {
    Note(fmt::format("a fill writes {} bytes at byte {} of an allocation of {} bytes", *span,
                     f.to - begin, block->bytes));
    return kInvalidValue;
  }
  DiagSink diags;
  std::string pattern;
  if (f.element_bytes != 1) {
    pattern.resize(row);
    for (uint64_t k = 0; k < f.width; ++k)
      memcpy(&pattern[k * f.element_bytes], &f.value, f.element_bytes);
  }
  for (uint64_t y = 0; y < f.height; ++y) {
    const uint64_t at = f.to + y * f.pitch;
    const bool ok = f.element_bytes == 1
                        ? device_->Fill(at, static_cast<uint8_t>(f.value), row, diags).ok()
                        : device_->CopyIn(at, pattern.data(), row, diags).ok();
    if (!ok) return kInvalidValue;
  }
  return kOk;
}

}  // namespace tilec::shim
