// The pieces that a bundle's bytes are made of, for its writer and its reader.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/bundle.h"

namespace tilec::runtime::bundle_bytes {

inline constexpr std::string_view kMagic = "tilecbdl";
inline constexpr uint32_t kVersion = 5;
inline constexpr size_t kHeaderBytes = 40;

template <typename T>
void Put(std::string& out, T value) {
  for (size_t i = 0; i < sizeof value; ++i)
    out += static_cast<char>(static_cast<uint64_t>(value) >> (8 * i) & 0xff);
}

inline void PutText(std::string& out, std::string_view text) {
  Put<uint64_t>(out, text.size());
  out += text;
}

// Takes numbers and texts from the front of what is left; false if they are not all there.
struct Cursor {
  std::string_view rest;

  bool Take(uint64_t* value, size_t bytes) {
    if (rest.size() < bytes) return false;
    *value = 0;
    for (size_t i = 0; i < bytes; ++i)
      *value |= static_cast<uint64_t>(static_cast<unsigned char>(rest[i])) << (8 * i);
    rest.remove_prefix(bytes);
    return true;
  }
  bool TakeText(std::string_view* text) {
    uint64_t length = 0;
    if (!Take(&length, sizeof length) || length > rest.size()) return false;
    *text = rest.substr(0, length);
    rest.remove_prefix(length);
    return true;
  }
};

uint64_t HashOf(std::string_view bytes);
// The bytes of a build; what the index says of it is not among them.
std::string BuildBytes(const Build& build);
// What is wrong with them; "" if nothing is.
std::string ReadBuild(std::string_view bytes, Build* build);

}  // namespace tilec::runtime::bundle_bytes
