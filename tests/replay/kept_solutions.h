// Schedules that were solved before, as text (tests/replay/solutions.txt), so that tests which
// compile the library need not solve it again.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/kernel_cache.h"
#include "scheduler/solution_store.h"

namespace tilec::replay {

// Solutions under the hash of their key. Text: `== HASH`, then the solution up to the next.
class KeptSolutions : public scheduler::SolutionStore {
 public:
  using Answers = std::map<std::string, std::string>;  // under the hash of their key

  explicit KeptSolutions(std::string_view text = "") { Read(text, &kept_); }
  void Keep(std::string_view text) { Read(text, &used_); }  // Text will have them
  std::optional<std::string> Get(const std::string& key) override {
    const std::string hash = Hash(key);
    const auto at = kept_.find(hash);
    if (cold || at == kept_.end()) return std::nullopt;
    used_[hash] = at->second;
    return at->second;
  }
  void Put(const std::string& key, const std::string&, const std::string& solution) override {
    used_[Hash(key)] = solution;
    if (!cold) ++solved_;
  }
  std::string Text() const { return Text(used_); }
  static std::string Text(const Answers& answers) {
    std::string out;
    for (const auto& [hash, solution] : answers)
      out += fmt::format("== {}\n{}{}", hash, solution, solution.ends_with('\n') ? "" : "\n");
    return out;
  }
  static void Read(std::string_view text, Answers* out) {
    constexpr std::string_view kHead = "== ";
    for (size_t at = text.find(kHead); at != text.npos;) {
      const size_t line = text.find('\n', at);
      if (line == text.npos) break;
      const size_t next = text.find("\n== ", line);
      const size_t end = next == text.npos ? text.size() : next + 1;
      (*out)[std::string(text.substr(at + kHead.size(), line - at - kHead.size()))] =
          text.substr(line + 1, end - line - 1);
      at = next == text.npos ? next : next + 1;
    }
  }
  int solved() const { return solved_; }
  bool cold = false;  // nothing is found

 private:
  static std::string Hash(const std::string& key) {
    return runtime::CacheKey().Add("solution", key).Hex();
  }
  Answers kept_, used_;
  int solved_ = 0;  // that should have been kept
};

}  // namespace tilec::replay
