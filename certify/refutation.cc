// SPDX-License-Identifier: Apache-2.0
#include "certify/refutation.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "certify/drat.h"
#include "support/lines.h"

namespace tilec::certify {

using scheduler::Graph;

std::string ToText(const Refutation& r) {
  std::string out = fmt::format("proof {}\nhash {:016x}\nii {}\n", r.graph, r.hash, r.ii);
  for (const std::string& line : r.core) out += "core " + line + "\n";
  for (const Cover& cover : r.covers) out += "cover " + ToText(cover) + "\n";
  out += "drat\n" + r.drat;
  if (!r.drat.empty() && r.drat.back() != '\n') out += '\n';
  return out + "end\n";
}

namespace {

// Cuts the first line off.
std::string_view NextLine(std::string_view* text) {
  const size_t end = text->find('\n');
  const std::string_view line = text->substr(0, end);
  text->remove_prefix(end == text->npos ? text->size() : end + 1);
  return line;
}

bool Hex(std::string_view text, uint64_t* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value, 16);
  return text.size() == 16 && error == std::errc() && end == text.data() + text.size();
}

bool ParseHead(std::string_view key, std::string_view rest, Refutation* r) {
  if (key == "proof") {
    r->graph = rest;
    return !rest.empty();
  }
  if (key == "hash") return Hex(rest, &r->hash);
  if (key == "ii") {
    constexpr int64_t kMost = int64_t{1} << 40;
    const std::optional<int64_t> ii = ParseInteger(rest);
    r->ii = ii.value_or(0);
    return r->ii >= 1 && r->ii <= kMost;
  }
  if (key == "core") {
    r->core.emplace_back(rest);
    return !rest.empty();
  }
  if (key != "cover") return false;
  std::optional<Cover> cover = ParseCover(rest);
  if (!cover || ToText(*cover) != rest) return false;
  r->covers.push_back(*std::move(cover));
  return true;
}

}  // namespace

ParsedRefutation ParseRefutation(std::string_view text) {
  ParsedRefutation parsed;
  // The first three lines in their order, then core, then covers.
  constexpr std::string_view kOrder[] = {"proof", "hash", "ii", "core", "cover"};
  size_t at = 0;
  auto fail = [&](std::string_view line) {
    parsed.problem = fmt::format("this line of a proof cannot be read: `{}`", line.substr(0, 60));
    return parsed;
  };
  while (true) {
    if (text.empty()) {
      parsed.line = 0;
      parsed.problem =
          "a proof has lines `proof`, `hash`, `ii`, `core`, and ends its `drat` by `end`";
      return parsed;
    }
    ++parsed.line;
    const std::string_view line = NextLine(&text);
    if (line == "drat" && at >= 3) break;
    const size_t blank = std::min(line.find(' '), line.size());
    const std::string_view key = line.substr(0, blank);
    if (at < 3 ? key != kOrder[at] : (key != "core" && key != "cover") || key < kOrder[at])
      if (!(at >= 3 && key == kOrder[at])) return fail(line);
    if (!ParseHead(key, line.substr(std::min(blank + 1, line.size())), &parsed.refutation))
      return fail(line);
    if (at < 3) ++at;
    if (key == "cover") at = 4;
  }
  const size_t end =
      text.size() >= 4 && text.substr(text.size() - 4) == "end\n" ? text.size() - 4 : text.npos;
  if (end == text.npos || (end > 0 && text[end - 1] != '\n')) {
    parsed.line = 0;
    parsed.problem = "a proof ends by a line `end`";
    return parsed;
  }
  parsed.refutation.drat = text.substr(0, end);
  parsed.line = 0;
  return parsed;
}

Claim ClausesOf(const Graph& graph, const Refutation& r) {
  Claim claim;
  if (r.graph != graph.name) {
    claim.problem = fmt::format("it is for graph `{}`", r.graph);
    return claim;
  }
  const Selection selection = Select(Laws(graph, r.ii), r.core);
  claim.problem = selection.problem;
  if (!claim.problem.empty()) return claim;
  Encoding encoding(graph, r.ii, selection.laws);
  for (const Cover& cover : r.covers) {
    claim.problem = encoding.Add(cover);
    if (!claim.problem.empty()) return claim;
  }
  claim.problem = encoding.TooLarge();
  if (claim.problem.empty()) claim.cnf = encoding.cnf();
  return claim;
}

std::string CheckRefutation(const Graph& graph, const Refutation& r) {
  if (r.hash != scheduler::Hash(graph)) return "it is for another graph";
  const Claim claim = ClausesOf(graph, r);
  if (!claim.problem.empty()) return claim.problem;
  return CheckDrat(claim.cnf, r.drat).problem;
}

}  // namespace tilec::certify
