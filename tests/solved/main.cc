// The answers of the solver that tests begin with: tests/solved/kept.txt and those of the replay,
// in one folder as the compiler keeps them, so that a change that solves nothing anew is tested
// without solving everything anew. The key of an answer holds the graph, the options, the solver's
// version and Z3's; what is read is judged again. A test that solves something else puts it beside
// them.
//
//   solved unpack FOLDER FILE…         the answers of the files, as old as can be
//   solved keep [--whole] FILE FOLDER OTHER…
//     adds to FILE what the folder has and the OTHERs have not; --whole: after a run of all tests,
//     drops what none of them looked at
//   solved new FOLDER                  how many loops were solved there beside those that were kept
//   solved compare FOLDER FILE…        after a run that solved all anew: are these its answers?
//
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "runtime/kernel_cache.h"
#include "support/diag.h"
#include "support/file.h"
#include "tests/replay/kept_solutions.h"

namespace tilec {
namespace {

using Answers = replay::KeptSolutions::Answers;

bool Fail(const std::string& why) {
  fmt::print(stderr, "solved: {}\n", why);
  return false;
}

bool Read(const std::string& path, bool absent, Answers* out) {
  std::string text, why;
  if (ReadFile(path, &text, &why)) {
    replay::KeptSolutions::Read(text, out);
    return true;
  }
  return absent || Fail(why);
}

std::string PathOf(const std::string& folder, const std::string& key) {
  return folder + "/" + key + ".tilec";
}

// What stands under the key, as long unused as it was: who looks here asks nothing of the compiler.
std::optional<std::string> Peek(const runtime::KernelCache& cache, const std::string& folder,
                                const std::string& key, DiagSink& diags) {
  struct stat before = {};
  const std::string path = PathOf(folder, key);
  if (stat(path.c_str(), &before) != 0) return std::nullopt;
  std::optional<std::string> answer = cache.Get(key, diags);
  const struct timespec times[2] = {before.st_atim, before.st_mtim};
  if (utimensat(AT_FDCWD, path.c_str(), times, 0) != 0) Fail(path + " lost its time");
  return answer;
}

bool Unpack(const std::string& folder, const std::vector<std::string>& files) {
  Answers answers;
  for (const std::string& file : files)
    if (!Read(file, false, &answers)) return false;
  DiagSink diags;
  const runtime::KernelCache cache(folder);
  constexpr struct timespec kOld[2] = {};  // nobody has looked at it yet
  for (const auto& [key, answer] : answers) {
    cache.Put(key, "kept", answer, diags);
    if (!diags.all().empty()) return Fail(diags.all().front().message);
    if (utimensat(AT_FDCWD, PathOf(folder, key).c_str(), kOld, 0) != 0)
      return Fail(PathOf(folder, key) + " has no time");
  }
  fmt::print("{} answers of the solver\n", answers.size());
  return true;
}

bool Keep(bool whole, const std::string& file, const std::string& folder,
          const std::vector<std::string>& others) {
  Answers kept, elsewhere, found;
  if (!Read(file, true, &kept)) return false;
  for (const std::string& other : others)
    if (!Read(other, false, &elsewhere)) return false;
  DiagSink diags;
  const runtime::KernelCache cache(folder);
  Result<std::vector<runtime::CacheEntry>> entries = cache.List(diags);
  if (!entries.ok()) return Fail(folder + " cannot be read");
  for (const runtime::CacheEntry& entry : *entries) {
    const bool schedule = entry.label == "kept" || entry.label.starts_with("schedule ");
    if (!schedule || elsewhere.count(entry.key) || (whole && entry.used_seconds == 0)) continue;
    if (std::optional<std::string> answer = Peek(cache, folder, entry.key, diags))
      found[entry.key] = *std::move(answer);
  }
  const size_t before = kept.size();
  if (whole) kept.clear();
  kept.merge(found);
  std::string why;
  if (!WriteFileAtomically(file, replay::KeptSolutions::Text(kept), &why)) return Fail(why);
  fmt::print("{} answers were kept in {}, {} are\n", before, file, kept.size());
  return true;
}

bool CountNew(const std::string& folder) {
  DiagSink diags;
  Result<std::vector<runtime::CacheEntry>> entries = runtime::KernelCache(folder).List(diags);
  if (!entries.ok()) return Fail(folder + " cannot be read");
  const auto fresh = std::count_if(entries->begin(), entries->end(), [](const auto& entry) {
    return entry.label.starts_with("schedule ");
  });
  fmt::print("{} loops were solved whose answers are not kept (scripts/keep_solved)\n", fresh);
  return true;
}

bool Compare(const std::string& folder, const std::vector<std::string>& files) {
  Answers kept;
  for (const std::string& file : files)
    if (!Read(file, false, &kept)) return false;
  DiagSink diags;
  const runtime::KernelCache cache(folder);
  Result<std::vector<runtime::CacheEntry>> entries = cache.List(diags);
  if (!entries.ok()) return Fail(folder + " cannot be read");
  int same = 0, moved = 0;
  for (const runtime::CacheEntry& entry : *entries) {
    const auto known = kept.find(entry.key);
    const auto answer = known == kept.end() ? std::nullopt : Peek(cache, folder, entry.key, diags);
    if (!answer) continue;
    const bool alike = *answer == known->second || *answer + "\n" == known->second;
    ++(alike ? same : moved);
    if (!alike)
      fmt::print("{} {} was\n{}and is\n{}", entry.key, entry.label, known->second, *answer);
  }
  fmt::print("{} answers of the solver are those that were kept, {} moved\n", same, moved);
  return moved == 0;
}

int Main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  const bool whole = words.size() > 1 && words[1] == "--whole";
  if (whole) words.erase(words.begin() + 1);
  const auto from = [&](size_t n) {
    return std::vector<std::string>(words.begin() + static_cast<std::ptrdiff_t>(n), words.end());
  };
  if (words.size() >= 2 && words[0] == "unpack") return Unpack(words[1], from(2)) ? 0 : 1;
  if (words.size() >= 3 && words[0] == "keep")
    return Keep(whole, words[1], words[2], from(3)) ? 0 : 1;
  if (words.size() == 2 && words[0] == "new") return CountNew(words[1]) ? 0 : 1;
  if (words.size() >= 2 && words[0] == "compare") return Compare(words[1], from(2)) ? 0 : 1;
  fmt::print(stderr,
             "solved unpack FOLDER FILE… | keep [--whole] FILE FOLDER OTHER… | new FOLDER | "
             "compare FOLDER FILE…\n");
  return 2;
}

}  // namespace
}  // namespace tilec

int main(int argc, char** argv) { return tilec::Main(argc, argv); }
