// Images that programs hand to the driver: fat binaries, PTX text, machine code. No byte is
// trusted.
//
// A fatbin is a header (magic 0xBA55ED50, sizes) and entries one behind the other; an entry is a
// header, then its payload: PTX text or an ELF file of machine code, as it is or compressed by LZ4
// or zstd. What is known of the layout is what public readers of it agree on; fields that nobody
// needs are not looked at. An image comes as an address without a length, so the length is the one
// that the image claims; everything inside must lie inside of that.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tilec::shim {

struct FatbinEntry {
  enum class Kind : uint8_t { kPtx, kMachineCode, kOther };
  Kind kind = Kind::kOther;
  uint32_t arch = 0;  // 90
  std::string ptx;    // unpacked; of kPtx
};

struct Fatbin {
  std::vector<FatbinEntry> entries;
  std::string wrong;  // why the rest of it was not read; "": all was
};

inline constexpr uint32_t kFatbinMagic = 0xBA55ED50;
// What an image may unpack to.
inline constexpr uint64_t kMostPtxBytes = 256u << 20;

// `bytes`: all that may be read. The claimed length may be less.
Fatbin ReadFatbin(std::string_view bytes);

// The length that the fatbin, PTX text or ELF file at `image` claims for itself; 0: it is neither.
// Reads as little as it must.
enum class ImageKind : uint8_t { kUnknown, kFatbin, kPtx, kElf };
ImageKind KindOfImage(const void* image);
uint64_t BytesOfFatbin(const void* image);

// LZ4's block format and zstd's frames. nullopt: damaged, or not `bytes` long.
std::optional<std::string> UnpackLz4(std::string_view packed, uint64_t bytes);
std::optional<std::string> UnpackZstd(std::string_view packed, uint64_t bytes);

// Does `.target` of a PTX text run on the machine? One that ends in a runs on itself alone, in f on
// its family, others on everything from there on.
bool Runs(std::string_view target, std::string_view machine);
// The text that suits best: the newest target that runs. −1: none does.
int Choose(const std::vector<std::string>& targets, std::string_view machine);

}  // namespace tilec::shim
