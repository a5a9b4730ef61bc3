// Fatbins for tests, as nvcc lays them out, and a text to put in.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <lz4.h>
#include <zstd.h>

#include <cstdint>
#include <cstring>
#include <string>

namespace tilec::shim::test {

// A module with a variable and a kernel that adds to a word.
inline constexpr char kBump[] = R"(.version 8.0
.target sm_80
.address_size 64
.visible .global .align 4 .u32 counter;
.visible .entry bump(.param .u64 p, .param .u32 by) {
  .reg .u64 %a; .reg .u32 %v, %w;
  ld.param.u64 %a, [p];
  ld.param.u32 %w, [by];
  cvta.to.global.u64 %a, %a;
  ld.global.u32 %v, [%a];
  add.u32 %v, %v, %w;
  st.global.u32 [%a], %v;
  ret;
}
)";

enum class Packing { kNone, kLz4, kZstd };

// kind: 1 PTX, 2 machine code.
inline std::string Entry(uint16_t kind, uint32_t arch, const std::string& text, Packing packing) {
  std::string payload = text;
  if (packing == Packing::kLz4) {
    payload.resize(static_cast<size_t>(LZ4_compressBound(static_cast<int>(text.size()))));
    payload.resize(static_cast<size_t>(LZ4_compress_default(text.data(), payload.data(),
                                                            static_cast<int>(text.size()),
                                                            static_cast<int>(payload.size()))));
  } else if (packing == Packing::kZstd) {
    payload.resize(ZSTD_compressBound(text.size()));
    payload.resize(ZSTD_compress(payload.data(), payload.size(), text.data(), text.size(), 3));
  }
  const auto packed = static_cast<uint32_t>(payload.size());
  payload.resize((payload.size() + 7) / 8 * 8);
  std::string header(64, '\0');
  auto put = [&](size_t at, auto value) { memcpy(&header[at], &value, sizeof value); };
  put(0, kind);
  put(2, uint16_t{0x101});
  put(4, uint32_t{64});
  put(8, uint64_t{payload.size()});
  put(28, arch);
  if (packing != Packing::kNone) {
    put(16, packed);
    put(56, uint64_t{text.size()});
  }
  return header + payload;
}

inline std::string Container(const std::string& entries) {
  std::string header(16, '\0');
  const uint32_t magic = 0xBA55ED50;
  const uint16_t version = 1, bytes = 16;
  const uint64_t size = entries.size();
  memcpy(&header[0], &magic, 4);
  memcpy(&header[4], &version, 2);
  memcpy(&header[6], &bytes, 2);
  memcpy(&header[8], &size, 8);
  return header + entries;
}

}  // namespace tilec::shim::test
