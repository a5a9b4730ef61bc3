// Compiled kernels on disk, found by a hash of everything they were made from.
//
// One file per entry: a line with a checksum and a few words for `tilec cache ls`, then the
// payload. Entries are written beside and renamed, so readers and writers of many processes never
// see a part of one; a damaged entry is dropped and made again. When the directory outgrows its
// limit, entries not used for longest go first. It is looked through by the first Put of a process,
// then by those after a hundredth of the limit: each time it takes as long as there are entries.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "support/diag.h"
#include "support/result.h"

namespace tilec::runtime {

// Collects named facts into a 128-bit hash. Order matters, and names keep values apart.
class CacheKey {
 public:
  CacheKey& Add(std::string_view name, std::string_view value);
  CacheKey& Add(std::string_view name, int64_t value);
  std::string Hex() const;  // 32 digits

 private:
  std::string text_;
};

struct CacheEntry {
  std::string key;
  std::string label;         // "gemm sm_90a"
  uint64_t bytes = 0;        // of the file
  int64_t used_seconds = 0;  // last use, since the epoch
};

struct CacheStat {
  uint64_t entries = 0;
  uint64_t bytes = 0;
  uint64_t limit_bytes = 0;
};

// Thread-safe, and safe against other processes on the same directory.
class KernelCache {
 public:
  static constexpr uint64_t kDefaultLimitBytes = uint64_t{1} << 30;

  // Nothing is created before the first Put.
  explicit KernelCache(std::string directory, uint64_t limit_bytes = kDefaultLimitBytes);
  const std::string& directory() const { return directory_; }

  // The payload stored under `key`; marks it used. A damaged entry is a warning and a miss.
  std::optional<std::string> Get(const std::string& key, DiagSink& diags) const;
  // Failure to store is a warning: the caller has the payload anyway.
  void Put(const std::string& key, std::string_view label, std::string_view payload,
           DiagSink& diags) const;

  Result<std::vector<CacheEntry>> List(DiagSink& diags) const;  // newest use first
  Result<CacheStat> Stat(DiagSink& diags) const;
  Result<CacheStat> Clear(DiagSink& diags) const;  // what was removed

 private:
  std::string PathOf(const std::string& key) const;
  void Prune() const;

  std::string directory_;
  uint64_t limit_bytes_;
  mutable std::atomic<uint64_t> unpruned_;  // bytes that this process put there since it pruned
};

// xdg_cache_home/tilec, else home/.cache/tilec, else "" (no cache). The caller reads the
// environment.
std::string DefaultCacheDirectory(const char* xdg_cache_home, const char* home);

}  // namespace tilec::runtime
