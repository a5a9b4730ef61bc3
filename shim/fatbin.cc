// SPDX-License-Identifier: Apache-2.0
#include "shim/fatbin.h"

#include <fmt/format.h>
#include <lz4.h>
#include <zstd.h>

#include <algorithm>
#include <climits>
#include <cstring>

namespace tilec::shim {
namespace {

constexpr uint32_t kElfMagic = 0x464c457f, kZstdMagic = 0xfd2fb528;
constexpr uint64_t kMostFatbinBytes = uint64_t{4} << 30;

struct Header {
  uint32_t magic;
  uint16_t version, header_bytes;
  uint64_t bytes;  // of the entries
};
static_assert(sizeof(Header) == 16);

struct EntryHeader {
  uint16_t kind, version;
  uint32_t header_bytes;
  uint64_t payload_bytes;  // with padding
  uint32_t packed_bytes;   // of a compressed payload, without
  uint32_t unknown1;
  uint32_t unknown2, arch;
  uint64_t unknown3, flags, unknown4;
  uint64_t unpacked_bytes;  // of a compressed payload; else 0
};
static_assert(sizeof(EntryHeader) == 64 && offsetof(EntryHeader, unpacked_bytes) == 56);

template <typename T>
T Read(const void* at) {
  T value;
  memcpy(&value, at, sizeof value);
  return value;
}

// PTX text ends at its zero byte; what is behind it is padding.
std::string Text(std::string_view bytes) {
  return std::string(bytes.substr(0, std::min(bytes.find('\0'), bytes.size())));
}

std::optional<std::string> Unpack(const EntryHeader& h, std::string_view payload) {
  if (h.unpacked_bytes == 0) return Text(payload);
  if (h.unpacked_bytes > kMostPtxBytes || h.packed_bytes > payload.size()) return std::nullopt;
  if (h.packed_bytes != 0) payload = payload.substr(0, h.packed_bytes);
  const bool zstd = payload.size() >= 4 && Read<uint32_t>(payload.data()) == kZstdMagic;
  auto out = zstd ? UnpackZstd(payload, h.unpacked_bytes) : UnpackLz4(payload, h.unpacked_bytes);
  if (!out) return std::nullopt;
  return Text(*out);
}

}  // namespace

std::optional<std::string> UnpackLz4(std::string_view packed, uint64_t bytes) {
  // A byte of a block makes 255 at most: what claims more gets no memory.
  if (packed.size() > LZ4_MAX_INPUT_SIZE || bytes > kMostPtxBytes || bytes / 255 > packed.size())
    return std::nullopt;
  std::string out(bytes, '\0');
  const int n = LZ4_decompress_safe(packed.data(), out.data(), static_cast<int>(packed.size()),
                                    static_cast<int>(bytes));
  if (n < 0 || static_cast<uint64_t>(n) != bytes) return std::nullopt;
  return out;
}

std::optional<std::string> UnpackZstd(std::string_view packed, uint64_t bytes) {
  if (bytes > kMostPtxBytes) return std::nullopt;
  // Padding may stand behind the frame.
  const size_t frame = ZSTD_findFrameCompressedSize(packed.data(), packed.size());
  if (ZSTD_isError(frame) || frame > packed.size()) return std::nullopt;
  const unsigned long long says = ZSTD_getFrameContentSize(packed.data(), frame);
  if (says != ZSTD_CONTENTSIZE_UNKNOWN && says != bytes) return std::nullopt;
  std::string out(bytes, '\0');
  const size_t n = ZSTD_decompress(out.data(), bytes, packed.data(), frame);
  if (ZSTD_isError(n) || n != bytes) return std::nullopt;
  return out;
}

Fatbin ReadFatbin(std::string_view bytes) {
  Fatbin out;
  if (bytes.size() < sizeof(Header)) {
    out.wrong = fmt::format("{} bytes are no fatbin", bytes.size());
    return out;
  }
  const auto header = Read<Header>(bytes.data());
  if (header.magic != kFatbinMagic) {
    out.wrong =
        fmt::format("it begins with {:#x}, a fatbin with {:#x}", header.magic, kFatbinMagic);
    return out;
  }
  if (header.header_bytes < sizeof(Header) || header.header_bytes > bytes.size() ||
      header.bytes > bytes.size() - header.header_bytes) {
    out.wrong = fmt::format("its header says {} + {} bytes, there are {}", header.header_bytes,
                            header.bytes, bytes.size());
    return out;
  }
  std::string_view rest = bytes.substr(header.header_bytes, header.bytes);
  uint64_t unpacked = 0;
  while (rest.size() >= sizeof(EntryHeader)) {
    const auto h = Read<EntryHeader>(rest.data());
    if (h.header_bytes < sizeof(EntryHeader) || h.header_bytes > rest.size() ||
        h.payload_bytes > rest.size() - h.header_bytes) {
      out.wrong = fmt::format("entry {} says {} + {} bytes, {} are left", out.entries.size(),
                              h.header_bytes, h.payload_bytes, rest.size());
      return out;
    }
    FatbinEntry entry;
    entry.arch = h.arch;
    entry.kind = h.kind == 1   ? FatbinEntry::Kind::kPtx
                 : h.kind == 2 ? FatbinEntry::Kind::kMachineCode
                               : FatbinEntry::Kind::kOther;
    if (entry.kind == FatbinEntry::Kind::kPtx) {
      // What unpacking costs is counted, not the text up to its first zero byte: an image of many
      // entries that all unpack to zeros would never end.
      unpacked +=
          std::min(h.unpacked_bytes == 0 ? h.payload_bytes : h.unpacked_bytes, kMostPtxBytes + 1);
      std::optional<std::string> text;
      if (unpacked <= kMostPtxBytes) text = Unpack(h, rest.substr(h.header_bytes, h.payload_bytes));
      if (!text) {
        out.wrong = fmt::format("entry {}: {} bytes of PTX that do not unpack to {}",
                                out.entries.size(), h.payload_bytes, h.unpacked_bytes);
        return out;
      }
      entry.ptx = std::move(*text);
    }
    out.entries.push_back(std::move(entry));
    rest = rest.substr(h.header_bytes + h.payload_bytes);
  }
  return out;
}

ImageKind KindOfImage(const void* image) {
  const auto* text = static_cast<const char*>(image);
  // The first bytes one by one: a short text may end at the end of a page.
  const std::string_view elf(
      "\x7f"
      "ELF",
      4),
      fatbin("\x50\xed\x55\xba", 4);
  size_t same_elf = 0, same_fatbin = 0;
  while (same_elf < 4 && text[same_elf] == elf[same_elf]) ++same_elf;
  if (same_elf == 4) return ImageKind::kElf;
  while (same_fatbin < 4 && text[same_fatbin] == fatbin[same_fatbin]) ++same_fatbin;
  if (same_fatbin == 4) return ImageKind::kFatbin;
  // PTX: blanks and comments, then a directive.
  for (size_t k = 0; k < 1 << 16; ++k) {
    if (text[k] == '\0') return ImageKind::kUnknown;
    if (text[k] == '/' && text[k + 1] == '/') {
      while (text[k] != '\0' && text[k] != '\n') ++k;
      if (text[k] == '\0') return ImageKind::kUnknown;
      continue;
    }
    if (text[k] == '/' && text[k + 1] == '*') {
      for (k += 2; text[k] != '\0' && !(text[k] == '*' && text[k + 1] == '/'); ++k) {
      }
      if (text[k] == '\0') return ImageKind::kUnknown;
      ++k;
      continue;
    }
    if (text[k] == ' ' || text[k] == '\t' || text[k] == '\r' || text[k] == '\n') continue;
    return text[k] == '.' ? ImageKind::kPtx : ImageKind::kUnknown;
  }
  return ImageKind::kUnknown;
}

uint64_t BytesOfFatbin(const void* image) {
  const auto header = Read<Header>(image);
  if (header.magic != kFatbinMagic || header.bytes > kMostFatbinBytes) return 0;
  return header.header_bytes + header.bytes;
}

namespace {

struct Arch {
  int number = 0;
  char kind = 0;  // 'a', 'f' or 0
};
Arch ArchOf(std::string_view name) {
  Arch arch;
  const size_t at = name.find('_');
  if (at == std::string_view::npos) return arch;
  size_t k = at + 1;
  for (; k < name.size() && name[k] >= '0' && name[k] <= '9' && arch.number < 10000; ++k)
    arch.number = arch.number * 10 + (name[k] - '0');
  if (k < name.size() && (name[k] == 'a' || name[k] == 'f')) arch.kind = name[k];
  return arch;
}

}  // namespace

bool Runs(std::string_view target, std::string_view machine) {
  const Arch t = ArchOf(target), m = ArchOf(machine);
  if (t.number == 0 || m.number == 0) return false;
  if (t.kind == 'a') return t.number == m.number;
  if (t.kind == 'f') return t.number / 10 == m.number / 10 && t.number <= m.number;
  return t.number <= m.number;
}

int Choose(const std::vector<std::string>& targets, std::string_view machine) {
  int best = -1;
  auto rank = [&](int k) {
    const Arch a = ArchOf(targets[static_cast<size_t>(k)]);
    return std::pair(a.number, a.kind == 'a' ? 2 : a.kind == 'f' ? 1 : 0);
  };
  for (int k = 0; k < static_cast<int>(targets.size()); ++k)
    if (Runs(targets[static_cast<size_t>(k)], machine) && (best < 0 || rank(best) < rank(k)))
      best = k;
  return best;
}

}  // namespace tilec::shim
