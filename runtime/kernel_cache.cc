// SPDX-License-Identifier: Apache-2.0
#include "runtime/kernel_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "runtime/diagnostics.h"
#include "support/file.h"

namespace tilec::runtime {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "tilec-cache 1";
constexpr std::string_view kSuffix = ".tilec";

std::string Hash(std::string_view text) {
  const XXH128_hash_t h = XXH3_128bits(text.data(), text.size());
  return fmt::format("{:016x}{:016x}", h.high64, h.low64);
}

// "tilec-cache 1 <hash of payload> <bytes> <label>\n"
std::string HeaderFor(std::string_view label, std::string_view payload) {
  return fmt::format("{} {} {} {}\n", kMagic, Hash(payload), payload.size(), label);
}

// "" or what is wrong with the entry.
std::string Check(std::string_view file, std::string_view* payload, std::string* label) {
  const size_t end = file.find('\n');
  if (end == std::string_view::npos || end > 4096) return "it has no header line";
  const std::string_view header = file.substr(0, end);
  *payload = file.substr(end + 1);
  if (header.size() <= kMagic.size() || header.substr(0, kMagic.size()) != kMagic ||
      header[kMagic.size()] != ' ')
    return "its header is not a cache entry's";
  const size_t hash = kMagic.size() + 1, size = hash + 33;
  if (header.size() < size || header[size - 1] != ' ') return "its header is cut off";
  const size_t words = header.find(' ', size);
  *label = words == std::string_view::npos ? "" : header.substr(words + 1);
  if (header.substr(size, words == std::string_view::npos ? words : words - size) !=
      std::to_string(payload->size()))
    return "its length is wrong";
  if (header.substr(hash, 32) != Hash(*payload)) return "its checksum is wrong";
  return "";
}

struct FileInfo {
  fs::path path;
  uint64_t bytes = 0;
  int64_t used = 0;
};

// Entries and leftovers of interrupted writes. Files that vanish meanwhile are skipped.
std::vector<FileInfo> Files(const std::string& directory, std::error_code& error) {
  std::vector<FileInfo> out;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.find(kSuffix) == std::string::npos) continue;  // not ours
    struct stat s = {};
    if (::lstat(it->path().c_str(), &s) != 0 || !S_ISREG(s.st_mode)) continue;
    out.push_back({it->path(), static_cast<uint64_t>(s.st_size),
                   static_cast<int64_t>(s.st_mtim.tv_sec) * 1000000000 + s.st_mtim.tv_nsec});
  }
  std::sort(out.begin(), out.end(), [](const FileInfo& a, const FileInfo& b) {
    return a.used != b.used ? a.used > b.used : a.path < b.path;
  });
  return out;
}

// A directory that is not there yet is an empty cache.
bool Missing(const std::error_code& e) { return e == std::errc::no_such_file_or_directory; }

}  // namespace

CacheKey& CacheKey::Add(std::string_view name, std::string_view value) {
  text_ += fmt::format("{}:{}={}:", name.size(), name, value.size());
  text_ += value;
  return *this;
}
CacheKey& CacheKey::Add(std::string_view name, int64_t value) {
  return Add(name, std::to_string(value));
}
std::string CacheKey::Hex() const { return Hash(text_); }

KernelCache::KernelCache(std::string directory, uint64_t limit_bytes)
    : directory_(std::move(directory)), limit_bytes_(limit_bytes), unpruned_(limit_bytes) {}

std::string KernelCache::PathOf(const std::string& key) const {
  return directory_ + "/" + key + std::string(kSuffix);
}

std::optional<std::string> KernelCache::Get(const std::string& key, DiagSink& diags) const {
  const std::string path = PathOf(key);
  std::string file, why, label;
  if (!ReadFile(path, &file, &why)) return std::nullopt;
  std::string_view payload;
  why = Check(file, &payload, &label);
  if (!why.empty()) {
    diags.Report(kCacheCorrupt, Span{}, path, why);
    ::unlink(path.c_str());
    return std::nullopt;
  }
  ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0);  // last use, for pruning
  return std::string(payload);
}

void KernelCache::Put(const std::string& key, std::string_view label, std::string_view payload,
                      DiagSink& diags) const {
  std::error_code error;
  fs::create_directories(directory_, error);
  std::string why;
  std::string entry = HeaderFor(label, payload);
  entry += payload;
  if (error)
    diags.Report(kCacheWrite, Span{}, std::string(label), directory_ + ": " + error.message());
  else if (!WriteFileAtomically(PathOf(key), entry, &why))
    diags.Report(kCacheWrite, Span{}, std::string(label), why);
  else if (unpruned_ += entry.size(); unpruned_ >= limit_bytes_ / 100)
    Prune();
}

void KernelCache::Prune() const {
  unpruned_ = 0;
  std::error_code error;
  uint64_t sum = 0;
  for (const FileInfo& f : Files(directory_, error)) {
    sum += f.bytes;
    if (sum > limit_bytes_) fs::remove(f.path, error);
  }
}

Result<std::vector<CacheEntry>> KernelCache::List(DiagSink& diags) const {
  std::error_code error;
  std::vector<CacheEntry> out;
  for (const FileInfo& f : Files(directory_, error)) {
    const std::string name = f.path.filename().string();
    if (name.size() < kSuffix.size() ||
        name.compare(name.size() - kSuffix.size(), kSuffix.size(), kSuffix) != 0)
      continue;
    std::string file, why;
    CacheEntry entry{name.substr(0, name.size() - kSuffix.size()), "", f.bytes,
                     f.used / 1000000000};
    std::string_view payload;
    if (!ReadFile(f.path.string(), &file, &why)) continue;
    if (const std::string damage = Check(file, &payload, &entry.label); !damage.empty())
      entry.label = "damaged: " + damage;
    out.push_back(std::move(entry));
  }
  if (error && !Missing(error)) return diags.Report(kCacheDir, Span{}, directory_, error.message());
  return out;
}

Result<CacheStat> KernelCache::Stat(DiagSink& diags) const {
  std::error_code error;
  CacheStat stat;
  stat.limit_bytes = limit_bytes_;
  for (const FileInfo& f : Files(directory_, error)) ++stat.entries, stat.bytes += f.bytes;
  if (error && !Missing(error)) return diags.Report(kCacheDir, Span{}, directory_, error.message());
  return stat;
}

Result<CacheStat> KernelCache::Clear(DiagSink& diags) const {
  std::error_code error, removal;
  CacheStat stat;
  stat.limit_bytes = limit_bytes_;
  for (const FileInfo& f : Files(directory_, error))
    if (fs::remove(f.path, removal)) ++stat.entries, stat.bytes += f.bytes;
  if (removal) error = removal;
  if (error && !Missing(error)) return diags.Report(kCacheDir, Span{}, directory_, error.message());
  return stat;
}

std::string DefaultCacheDirectory(const char* xdg_cache_home, const char* home) {
  // The XDG rule: relative paths are ignored.
  if (xdg_cache_home && xdg_cache_home[0] == '/') return std::string(xdg_cache_home) + "/tilec";
  if (home && home[0] == '/') return std::string(home) + "/.cache/tilec";
  return "";
}

}  // namespace tilec::runtime
