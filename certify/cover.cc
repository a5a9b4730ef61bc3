// SPDX-License-Identifier: Apache-2.0
#include "certify/cover.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "certify/arcs.h"
#include "support/expr.h"
#include "support/lines.h"

namespace tilec::certify {

using scheduler::Graph;
using scheduler::GraphOp;

namespace {

constexpr int64_t kLeastQuota = 24, kStep = 8;
constexpr int kWarpgroup = 4;

int64_t Up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

int64_t Quota(int64_t registers) { return std::max(kLeastQuota, Up(registers, kStep)); }

int64_t Sum(const Graph& graph, const Peak& peak, bool registers) {
  int64_t sum = 0;
  for (const LivePart& part : peak.parts)
    sum += part.count * (registers ? graph.ops[part.op].regs : graph.ops[part.op].tmem_columns);
  return sum;
}

// What the quotas of so many roles of each width come to at least, less what a launch of that size
// has. `peaks`: least quotas of the roles of a width, largest first; −1 the load role's.
int64_t PoolExcess(const Graph& graph, const std::vector<Width>& widths,
                   const std::vector<int>& roles, std::map<int, std::vector<int64_t>> peaks) {
  int64_t groups = 0, used = 0, narrow_warps = 0, narrow_quota = 0;
  auto add = [&](int warps, int64_t quota) {
    if (warps % kWarpgroup == 0) {
      groups += warps / kWarpgroup;
      used += quota * (warps / kWarpgroup);
    } else {
      narrow_warps += warps;
      narrow_quota = std::max(narrow_quota, quota);
    }
  };
  auto role = [&](int key, int warps, int number) {
    const std::vector<int64_t>& of = peaks[key];
    add(warps, number < std::ssize(of) ? of[number] : kLeastQuota);
  };
  if (const int load = LoadWarps(graph); load > 0) role(-1, load, 0);
  for (size_t w = 0; w < widths.size(); ++w)
    for (int i = 0; i < roles[w]; ++i) role(widths[w].warps, widths[w].warps, i);
  const int64_t packed = Up(narrow_warps, kWarpgroup) / kWarpgroup;
  return used + packed * narrow_quota - RegisterPool(graph, groups + packed);
}

std::string PoolProblem(const Graph& graph, const Cover& cover) {
  const std::vector<Width> widths = Widths(graph);
  const std::vector<int> owner = Owners(graph);
  if (cover.roles.size() != widths.size()) return "it does not say how many roles there are";
  for (size_t w = 0; w < widths.size(); ++w)
    if (cover.roles[w] < 1 || cover.roles[w] > widths[w].roles)
      return "it counts roles that cannot be";
  std::map<int, std::vector<int64_t>> peaks;
  for (const Peak& peak : cover.peaks) {
    const GraphOp& op = graph.ops[owner[peak.at]];
    peaks[op.variable_latency ? -1 : op.warps].push_back(Quota(Sum(graph, peak, true)));
  }
  for (auto& [key, quotas] : peaks) {
    std::sort(quotas.rbegin(), quotas.rend());
    const auto width =
        std::find_if(widths.begin(), widths.end(), [&](const Width& w) { return w.warps == key; });
    const int64_t most = key < 0 ? 1 : cover.roles[width - widths.begin()];
    if (std::ssize(quotas) > most) return "it has more peaks than roles";
  }
  // With these roles, and, where it says so, with every larger number of them.
  bool overflows = true;
  std::vector<int> roles = cover.roles;
  std::function<void(size_t)> each = [&](size_t w) {
    if (!overflows) return;
    if (w == widths.size()) {
      overflows = PoolExcess(graph, widths, roles, peaks) > 0;
      return;
    }
    const int last = cover.or_more ? widths[w].roles : cover.roles[w];
    for (roles[w] = cover.roles[w]; roles[w] <= last; ++roles[w]) each(w + 1);
    roles[w] = cover.roles[w];
  };
  each(0);
  return overflows ? "" : "the quotas fit";
}

std::optional<Peak> ParsePeak(std::string_view text) {
  Peak peak;
  const size_t equals = text.find('=');
  if (equals == text.npos) return std::nullopt;
  const std::optional<int64_t> at = ParseInteger(text.substr(0, equals));
  if (!at || *at < 0 || *at > 1'000'000) return std::nullopt;
  peak.at = static_cast<int>(*at);
  text.remove_prefix(equals + 1);
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view word = text.substr(0, comma);
    const size_t colon = word.find(':');
    if (colon == word.npos) return std::nullopt;
    const std::optional<int64_t> op = ParseInteger(word.substr(0, colon)),
                                 count = ParseInteger(word.substr(colon + 1));
    if (!op || !count || *op < 0 || *op > 1'000'000 || *count < 1 || *count > 1'000'000)
      return std::nullopt;
    peak.parts.push_back({static_cast<int>(*op), *count});
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  if (peak.parts.empty()) return std::nullopt;
  return peak;
}

std::string ToText(const Peak& peak) {
  std::string text = fmt::format("{}=", peak.at);
  for (size_t i = 0; i < peak.parts.size(); ++i)
    text += fmt::format("{}{}:{}", i == 0 ? "" : ",", peak.parts[i].op, peak.parts[i].count);
  return text;
}

}  // namespace

std::string ToText(const Cover& cover) {
  std::string text = cover.kind == Cover::Kind::kRegisters ? "registers"
                     : cover.kind == Cover::Kind::kTmem    ? "tmem"
                                                           : "pool";
  if (cover.kind == Cover::Kind::kPool)
    text += fmt::format(" {} {}", fmt::join(cover.roles, ","), cover.or_more ? "more" : "exactly");
  for (const Peak& peak : cover.peaks) text += " " + ToText(peak);
  return text;
}

std::optional<Cover> ParseCover(std::string_view text) {
  const std::vector<TextLine> lines = SplitLines(text, -1);
  if (lines.size() != 1) return std::nullopt;
  const std::vector<TextWord>& words = lines[0].words;
  Cover cover;
  size_t next = 1;
  if (words[0].text == "tmem") {
    cover.kind = Cover::Kind::kTmem;
  } else if (words[0].text == "pool") {
    cover.kind = Cover::Kind::kPool;
    if (words.size() < 3) return std::nullopt;
    for (std::string_view rest = words[1].text; !rest.empty();) {
      const size_t comma = std::min(rest.find(','), rest.size());
      const std::optional<int64_t> count = ParseInteger(rest.substr(0, comma));
      if (!count || *count < 0 || *count > 1000) return std::nullopt;
      cover.roles.push_back(static_cast<int>(*count));
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
    cover.or_more = words[2].text == "more";
    if (!cover.or_more && words[2].text != "exactly") return std::nullopt;
    next = 3;
  } else if (words[0].text != "registers") {
    return std::nullopt;
  }
  for (; next < words.size(); ++next) {
    std::optional<Peak> peak = ParsePeak(words[next].text);
    if (!peak) return std::nullopt;
    cover.peaks.push_back(*std::move(peak));
  }
  if (cover.kind != Cover::Kind::kPool && cover.peaks.size() != 1) return std::nullopt;
  return cover;
}

std::string Problem(const Graph& graph, const Cover& cover) {
  for (const Peak& peak : cover.peaks) {
    std::set<int> seen;
    if (peak.at >= std::ssize(graph.ops)) return "it names an op that is not there";
    for (const LivePart& part : peak.parts) {
      if (part.op >= std::ssize(graph.ops)) return "it names an op that is not there";
      if (!seen.insert(part.op).second) return "it counts a value twice";
    }
  }
  switch (cover.kind) {
    case Cover::Kind::kRegisters:
      return Sum(graph, cover.peaks[0], true) > graph.machine.max_regs_per_thread
                 ? ""
                 : "the registers suffice";
    case Cover::Kind::kTmem:
      return Sum(graph, cover.peaks[0], false) > graph.machine.tmem_columns ? ""
                                                                            : "the columns suffice";
    case Cover::Kind::kPool: return PoolProblem(graph, cover);
  }
  return "";
}

namespace {

class Finder {
 public:
  Finder(const Graph& graph, int64_t ii, const Placement& p) : g_(graph), ii_(ii), p_(p) {
    end_ = p.cycle;
    for (const Arc& arc : Arcs(graph)) {
      if (!arc.value) continue;
      const bool together = arc.first < 0 || SameRole(arc.first, arc.second);
      if (arc.when != When::kAlways && together != (arc.when == When::kTogether)) continue;
      end_[arc.from] = std::max(end_[arc.from], p.cycle[arc.to] + arc.distance * ii_ + arc.hold);
    }
  }

  std::optional<Cover> Run(Cover::Kind kind) const {
    if (kind == Cover::Kind::kPool) return Pool();
    const bool registers = kind == Cover::Kind::kRegisters;
    const int64_t limit = registers ? g_.machine.max_regs_per_thread : g_.machine.tmem_columns;
    for (int at = 0; at < std::ssize(g_.ops); ++at)
      if (p_.present[at] && Total(at, registers) > limit)
        return Cover{kind, {Fewest(at, registers, limit)}};
    return std::nullopt;
  }

 private:
  bool SameRole(int u, int v) const {
    return p_.role[u] == p_.role[v] && (p_.role[u] < 0 || g_.ops[u].warps == g_.ops[v].warps);
  }
  int64_t Weight(int v, bool registers) const {
    return registers ? g_.ops[v].regs : g_.ops[v].tmem_columns;
  }
  int64_t Live(int v, int at) const {
    if (!p_.present[v]) return 0;
    return FloorDiv(p_.cycle[at] - p_.cycle[v], ii_) - FloorDiv(p_.cycle[at] - end_[v], ii_);
  }
  int64_t Total(int at, bool registers) const {
    int64_t sum = 0;
    for (int v = 0; v < std::ssize(g_.ops); ++v)
      if (!registers || SameRole(v, at)) sum += Weight(v, registers) * Live(v, at);
    return sum;
  }

  // As few instances as overflow: what is left out restricts nothing.
  Peak Fewest(int at, bool registers, int64_t limit) const {
    Peak peak{at, {}};
    int64_t sum = 0;
    std::vector<LivePart> parts;
    for (int v = 0; v < std::ssize(g_.ops); ++v)
      if ((!registers || SameRole(v, at)) && Weight(v, registers) > 0 && Live(v, at) > 0) {
        parts.push_back({v, Live(v, at)});
        sum += Weight(v, registers) * parts.back().count;
      }
    // The lightest go first. Of what stays, instances that are live in any schedule are no loss.
    std::stable_sort(parts.begin(), parts.end(), [&](const LivePart& a, const LivePart& b) {
      return Weight(a.op, registers) * a.count < Weight(b.op, registers) * b.count;
    });
    for (LivePart& part : parts) {
      const int64_t weight = Weight(part.op, registers);
      const int64_t spare = std::min(part.count, (sum - limit - 1) / weight);
      part.count -= spare;
      sum -= spare * weight;
      if (part.count > 0) peak.parts.push_back(part);
    }
    return peak;
  }

  std::optional<Cover> Pool() const {
    const std::vector<Width> widths = Widths(g_);
    std::map<std::pair<int, int>, int> at;  // by role: where its registers peak
    std::map<std::pair<int, int>, int64_t> most;
    std::map<int, std::set<int>> roles;
    for (int v = 0; v < std::ssize(g_.ops); ++v) {
      if (!p_.present[v]) continue;
      const std::pair<int, int> role(p_.role[v] < 0 ? 0 : g_.ops[v].warps, p_.role[v]);
      if (p_.role[v] >= 0) roles[g_.ops[v].warps].insert(p_.role[v]);
      const int64_t live = g_.ops[v].regs > 0 ? Total(v, true) : 0;
      if (live > most[role]) most[role] = live, at[role] = v;
    }
    Cover cover{Cover::Kind::kPool, {}};
    for (const Width& width : widths)
      cover.roles.push_back(static_cast<int>(roles[width.warps].size()));
    std::vector<int64_t> quotas;
    for (const auto& [role, live] : most)
      if (Quota(live) > kLeastQuota) {
        cover.peaks.push_back(Fewest(at[role], true, Quota(live) - kStep));
        quotas.push_back(Quota(live));
      }
    if (!Problem(g_, cover).empty()) return std::nullopt;
    // As little of each peak as overflows: the less a cover claims, the more it forbids.
    for (size_t i = quotas.size(); i-- > 0;) {
      Cover without = cover;
      without.peaks.erase(without.peaks.begin() + static_cast<int64_t>(i));
      if (Problem(g_, without).empty()) {
        cover = std::move(without);
        continue;
      }
      while (quotas[i] - kStep > kLeastQuota) {
        quotas[i] -= kStep;
        Cover lower = cover;
        lower.peaks[i] = Fewest(cover.peaks[i].at, true, quotas[i] - kStep);
        if (!Problem(g_, lower).empty()) break;
        cover = std::move(lower);
      }
    }
    cover.or_more = true;
    if (!Problem(g_, cover).empty()) cover.or_more = false;
    return cover;
  }

  const Graph& g_;
  const int64_t ii_;
  const Placement& p_;
  std::vector<int64_t> end_;
};

}  // namespace

std::optional<Cover> FindCover(const Graph& graph, int64_t ii, const Placement& p,
                               Cover::Kind kind) {
  return Finder(graph, ii, p).Run(kind);
}

}  // namespace tilec::certify
