// SPDX-License-Identifier: Apache-2.0
#include "tools/suppressions.h"

#include <algorithm>
#include <sstream>

#include "support/nearest.h"
#include "tools/diagnostics.h"

namespace tilec::tools {

namespace judge = runtime::judge;

Result<std::vector<Suppression>> ParseSuppressions(const std::string& path, const std::string& text,
                                                   DiagSink& diags) {
  std::vector<Suppression> rows;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::istringstream words(line.substr(0, line.find('#')));
    Suppression row;
    std::string id, more;
    if (!(words >> id)) continue;
    row.line = number;
    words >> row.place >> row.entry;
    const auto bad = [&](const std::string& what) {
      return diags.Report(kSuppressions, Span{}, what).Place(fmt::format("{}:{}", path, number));
    };
    if (words >> more) return bad(fmt::format("`{}` is one word too many", more));
    const auto rule = judge::RuleFromId(id);
    if (!rule) {
      std::vector<std::string> ids;
      for (judge::Rule r : judge::AllRules()) ids.emplace_back(judge::Def(r).id);
      return bad(fmt::format("there is no check `{}`", id))
          .Help(fmt::format("a row is CHECK [FILE:LINE [ENTRY]]; checks are {}",
                            fmt::join(ids, " ")));
    }
    if (!row.place.empty() && row.place.find(':') == std::string::npos)
      return bad(fmt::format("`{}` is no FILE:LINE", row.place));
    row.rule = *rule;
    rows.push_back(std::move(row));
  }
  return rows;
}

namespace {

// "dir/gemm.cu:33:5 (note)" is at "gemm.cu:33".
bool IsAt(const std::string& where, const std::string& place) {
  const size_t at = where.rfind(place);
  if (at == std::string::npos || (at > 0 && where[at - 1] != '/')) return false;
  const size_t end = at + place.size();
  return end == where.size() || where[end] == ':' || where[end] == ' ';
}

bool Matches(const Suppression& row, const judge::Finding& f) {
  if (row.rule != f.rule || (!row.entry.empty() && row.entry != f.entry)) return false;
  if (row.place.empty()) return true;
  return std::any_of(f.accesses.begin(), f.accesses.end(), [&](const judge::Access& a) {
    return IsAt(fmt::format("{}:{}", a.site.file, a.site.line), row.place) ||
           IsAt(a.site.source, row.place);
  });
}

}  // namespace

size_t Suppress(std::vector<Suppression>& rows, std::vector<judge::Finding>* findings) {
  return std::erase_if(*findings, [&](const judge::Finding& f) {
    const auto row =
        std::find_if(rows.begin(), rows.end(), [&](const Suppression& s) { return Matches(s, f); });
    if (row == rows.end()) return false;
    ++row->matched;
    return true;
  });
}

}  // namespace tilec::tools
