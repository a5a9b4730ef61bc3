// A store of answers of which one in so many is not believed: it is solved anew and compared, text
// by text. So tests that take kept answers notice a solver that would answer something else.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/kernel_cache.h"
#include "scheduler/solution_store.h"

namespace tilec {

class Audit : public scheduler::SolutionStore {
 public:
  Audit(scheduler::SolutionStore* kept, uint64_t one_in) : kept_(*kept), one_in_(one_in) {}

  std::optional<std::string> Get(const std::string& key) override {
    std::optional<std::string> answer = kept_.Get(key);
    if (!answer || !Drawn(key)) return answer;
    const auto [it, fresh] = asked_.try_emplace(key, *answer);
    return fresh ? std::nullopt : answer;
  }
  void Put(const std::string& key, const std::string& label, const std::string& answer) override {
    const auto asked = asked_.find(key);
    if (asked == asked_.end()) return kept_.Put(key, label, answer);
    ++compared_;
    if (Text(asked->second) == Text(answer)) return;
    ++moved_;
    fmt::print("{}: the solver answers otherwise than tests/solved/kept.txt or "
               "tests/replay/solutions.txt have it\nkept:\n{}\nnow:\n{}\n",
               label, asked->second, answer);
  }
  int compared() const { return compared_; }
  int moved() const { return moved_; }

 private:
  bool Drawn(const std::string& key) const {
    const std::string hash = runtime::CacheKey().Add("audit", key).Hex();
    return std::strtoull(hash.substr(0, 8).c_str(), nullptr, 16) % one_in_ == 0;
  }
  static std::string_view Text(std::string_view answer) {  // files end their last line
    while (answer.ends_with('\n')) answer.remove_suffix(1);
    return answer;
  }

  scheduler::SolutionStore& kept_;
  const uint64_t one_in_;
  std::map<std::string, std::string> asked_;  // by key: what was kept
  int compared_ = 0, moved_ = 0;
};

}  // namespace tilec
