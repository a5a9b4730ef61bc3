// Text form and shortening of execution schedules.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/execution.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace tilec::runtime {
namespace {

constexpr std::array<std::string_view, 5> kPolicies = {"run-to-block", "random", "pct",
                                                       "producer-first", "consumer-first"};
constexpr std::array<std::string_view, 4> kLandings = {"early", "late", "random", "poison"};

template <typename E, size_t n>
std::optional<E> Find(const std::array<std::string_view, n>& names, std::string_view name) {
  for (size_t k = 0; k < n; ++k)
    if (names[k] == name) return static_cast<E>(k);
  return std::nullopt;
}

bool Number(std::string_view text, uint64_t* out) {
  const char* end = text.data() + text.size();
  auto r = std::from_chars(text.data(), end, *out);
  return r.ec == std::errc() && r.ptr == end;
}

std::vector<std::string_view> Words(std::string_view line) {
  std::vector<std::string_view> words;
  for (size_t at = 0; at < line.size();) {
    size_t end = std::min(line.find(' ', at), line.size());
    if (end > at) words.push_back(line.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

bool ParseDecision(std::string_view word, Decision* out) {
  size_t colon = word.find(':');
  if (colon == std::string_view::npos) return false;
  uint64_t warp = Decision::kLands, count = 0;
  if (word.substr(0, colon) != "land" &&
      (!Number(word.substr(0, colon), &warp) || warp >= Decision::kLands))
    return false;
  if (!Number(word.substr(colon + 1), &count) || count > UINT32_MAX) return false;
  *out = {static_cast<uint32_t>(warp), static_cast<uint32_t>(count)};
  return true;
}

}  // namespace

std::string_view Name(Policy policy) { return kPolicies[static_cast<size_t>(policy)]; }
std::string_view Name(Landing landing) { return kLandings[static_cast<size_t>(landing)]; }
std::optional<Policy> PolicyFromName(std::string_view name) {
  return Find<Policy>(kPolicies, name);
}
std::optional<Landing> LandingFromName(std::string_view name) {
  return Find<Landing>(kLandings, name);
}
const std::vector<std::string>& PolicyNames() {
  static const std::vector<std::string> names(kPolicies.begin(), kPolicies.end());
  return names;
}
const std::vector<std::string>& LandingNames() {
  static const std::vector<std::string> names(kLandings.begin(), kLandings.end());
  return names;
}

std::string Print(const Execution& e) {
  std::string out = fmt::format("execution policy={} async={} seed={} spurious={}\n",
                                Name(e.policy), Name(e.landing), e.seed, e.spurious ? 1 : 0);
  for (const auto& [number, decisions] : e.clusters) {
    out += fmt::format("cluster {}\n", number);
    for (size_t k = 0; k < decisions.size(); ++k) {
      const Decision& d = decisions[k];
      if (d.warp == Decision::kLands)
        out += fmt::format("land:{}", d.count);
      else
        out += fmt::format("{}:{}", d.warp, d.count);
      out += (k + 1) % 16 == 0 || k + 1 == decisions.size() ? '\n' : ' ';
    }
  }
  return out;
}

std::optional<Execution> ParseExecution(std::string_view text, std::string* why) {
  Execution e;
  std::vector<Decision>* current = nullptr;
  bool header = false;
  int number = 0;
  auto bad = [&](std::string_view what) {
    *why = fmt::format("line {}: {}", number, what);
    return std::nullopt;
  };
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find('\n', at), text.size());
    std::vector<std::string_view> words = Words(text.substr(at, end - at));
    at = end + 1;
    ++number;
    if (words.empty() || words[0][0] == '#') continue;
    if (words[0] == "execution") {
      header = true;
      for (size_t k = 1; k < words.size(); ++k) {
        size_t eq = std::min(words[k].find('='), words[k].size());
        std::string_view key = words[k].substr(0, eq);
        std::string_view value = words[k].substr(std::min(eq + 1, words[k].size()));
        uint64_t n = 0;
        if (key == "policy" && PolicyFromName(value)) {
          e.policy = *PolicyFromName(value);
        } else if (key == "async" && LandingFromName(value)) {
          e.landing = *LandingFromName(value);
        } else if (key == "seed" && Number(value, &n)) {
          e.seed = n;
        } else if (key == "spurious" && Number(value, &n) && n <= 1) {
          e.spurious = n == 1;
        } else {
          return bad(fmt::format("`{}` is no setting of an execution", words[k]));
        }
      }
      continue;
    }
    if (!header) return bad("the first word must be `execution`");
    if (words[0] == "cluster") {
      uint64_t n = 0;
      if (words.size() != 2 || !Number(words[1], &n)) return bad("`cluster` takes one number");
      current = &e.clusters[n];
      continue;
    }
    if (current == nullptr) return bad("decisions come behind a `cluster` line");
    for (std::string_view word : words) {
      Decision d;
      if (!ParseDecision(word, &d))
        return bad(fmt::format("`{}` is no decision; they are WARP:INSTRUCTIONS or land:N", word));
      current->push_back(d);
    }
  }
  if (!header) {
    number = std::max(number, 1);
    return bad("the first word must be `execution`");
  }
  return e;
}

std::vector<Decision> Minimise(std::vector<Decision> all,
                               const std::function<bool(const std::vector<Decision>&)>& fails,
                               int tests) {
  auto ask = [&](const std::vector<Decision>& candidate) {
    return tests-- > 0 && fails(candidate);
  };
  if (all.empty() || ask({})) return {};
  // What comes behind the failure is dropped first: the shortest failing prefix, by halving.
  size_t low = 0, high = all.size();
  while (low + 1 < high && tests > 0) {
    size_t middle = (low + high) / 2;
    if (ask({all.begin(), all.begin() + static_cast<ptrdiff_t>(middle)}))
      high = middle;
    else
      low = middle;
  }
  all.resize(high);
  for (size_t parts = 2; all.size() >= 2 && tests > 0;) {
    size_t size = (all.size() + parts - 1) / parts;
    bool shorter = false;
    for (size_t at = 0; at < all.size() && tests > 0; at += size) {
      std::vector<Decision> candidate(all.begin(), all.begin() + static_cast<ptrdiff_t>(at));
      size_t rest = std::min(at + size, all.size());
      candidate.insert(candidate.end(), all.begin() + static_cast<ptrdiff_t>(rest), all.end());
      if (!ask(candidate)) continue;
      all = std::move(candidate);
      parts = std::max<size_t>(parts - 1, 2);
      shorter = true;
      break;
    }
    if (shorter) continue;
    if (size == 1) break;
    parts = std::min(parts * 2, all.size());
  }
  return all;
}

}  // namespace tilec::runtime
