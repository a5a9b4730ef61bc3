// tilec cache ls | stat | clear
//
// SPDX-License-Identifier: Apache-2.0
#include <ctime>

#include "support/nearest.h"
#include "tools/commands.h"
#include "tools/diagnostics.h"
#include "tools/json_output.h"
#include "tools/session.h"

namespace tilec::tools {

namespace {

std::string Size(uint64_t bytes) {
  if (bytes < 10000) return fmt::format("{} B", bytes);
  if (bytes < 10000000) return fmt::format("{:.1f} kB", static_cast<double>(bytes) / 1e3);
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

std::string Age(int64_t seconds) {
  if (seconds < 120) return fmt::format("{} s ago", std::max<int64_t>(0, seconds));
  if (seconds < 7200) return fmt::format("{} min ago", seconds / 60);
  if (seconds < 172800) return fmt::format("{} h ago", seconds / 3600);
  return fmt::format("{} d ago", seconds / 86400);
}

// `--format=json`: an object per entry, or one.
Result<> Do(const runtime::KernelCache& cache, const std::string& action, bool json,
            DiagSink& diags) {
  if (action == "ls") {
    TRY(const std::vector<runtime::CacheEntry> entries, cache.List(diags));
    const int64_t now = std::time(nullptr);
    for (const runtime::CacheEntry& e : entries)
      if (json)
        fmt::print("{}\n", JsonLine({{"key", e.key},
                                     {"label", e.label},
                                     {"bytes", e.bytes},
                                     {"used_seconds", e.used_seconds}}));
      else
        fmt::print("{}  {:>9}  {:>10}  {}\n", e.key, Size(e.bytes), Age(now - e.used_seconds),
                   e.label);
    return Done();
  }
  if (action == "stat") {
    TRY(const runtime::CacheStat stat, cache.Stat(diags));
    if (json)
      fmt::print("{}\n", JsonLine({{"directory", cache.directory()},
                                   {"entries", stat.entries},
                                   {"bytes", stat.bytes},
                                   {"limit_bytes", stat.limit_bytes}}));
    else
      fmt::print("{}\n{} entries, {} of {}\n", cache.directory(), stat.entries, Size(stat.bytes),
                 Size(stat.limit_bytes));
    return Done();
  }
  if (action == "clear") {
    TRY(const runtime::CacheStat removed, cache.Clear(diags));
    if (json)
      fmt::print("{}\n", JsonLine({{"removed", removed.entries}, {"bytes", removed.bytes}}));
    else
      fmt::print("removed {} entries, {}\n", removed.entries, Size(removed.bytes));
    return Done();
  }
  DiagBuilder d = diags.Report(kBadChoice, Span{}, "tilec cache", action).Place("command line");
  const std::string near = NearestName(action, {"ls", "stat", "clear"});
  d.Help(near.empty() ? "use ls, stat or clear" : fmt::format("did you mean `{}`?", near));
  return d;
}

}  // namespace

int CmdCache(const Options& options) {
  Session session(options);
  if (!CheckFormat(session).ok()) return session.Finish();
  const std::string directory = CacheDirectory(options);
  if (directory.empty())
    session.diags().Report(kCacheOff, Span{});
  else
    (void)Do(runtime::KernelCache(directory), options.word, options.format == "json",
             session.diags())
        .ok();
  return session.Finish();
}

}  // namespace tilec::tools
