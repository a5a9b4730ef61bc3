// SPDX-License-Identifier: Apache-2.0
#include "tools/annotate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "api/pipeline.h"
#include "runtime/emulator/judge/cause.h"

namespace tilec::tools {

namespace {

using Json = nlohmann::ordered_json;
namespace judge = runtime::judge;

struct Place {
  std::string file;
  int line = 0, column = 0;
};

// "dir/gemm.cu:33:5 (note)", else the line of the PTX.
Place PlaceOf(const judge::Site& site) {
  const std::string s = site.source.substr(0, site.source.find(" ("));
  const size_t last = s.rfind(':');
  const size_t before = last == std::string::npos || last == 0 ? last : s.rfind(':', last - 1);
  if (before == std::string::npos) return {site.file, site.line, 0};
  const int line = std::atoi(s.c_str() + before + 1), column = std::atoi(s.c_str() + last + 1);
  if (line <= 0) return {site.file, site.line, 0};
  return {s.substr(0, before), line, column};
}

std::string Message(const judge::Finding& f, size_t follows) {
  std::string s = f.message;
  if (!f.missing.empty()) s += "; missing: " + f.missing;
  if (!f.fix.empty()) s += "; help: " + f.fix;
  if (follows > 0) s += fmt::format("; {} more findings follow from it", follows);
  return s;
}

Json Location(const judge::Access& a) {
  const Place p = PlaceOf(a.site);
  Json region = {{"startLine", std::max(p.line, 1)}};
  if (p.column > 0) region["startColumn"] = p.column;
  Json location = {
      {"physicalLocation", {{"artifactLocation", {{"uri", p.file}}}, {"region", region}}}};
  const std::string words =
      a.who + (a.what.empty() ? "" : " " + a.what) + (a.memory.empty() ? "" : " " + a.memory);
  if (!words.empty()) location["message"] = {{"text", words}};
  return location;
}

const char* Level(judge::Severity severity) {
  switch (severity) {
    case judge::Severity::kError: return "error";
    case judge::Severity::kPortability: return "warning";
    case judge::Severity::kHint: return "note";
  }
  return "none";
}

const char* CommandOf(judge::Severity severity) {
  switch (severity) {
    case judge::Severity::kError: return "error";
    case judge::Severity::kPortability: return "warning";
    case judge::Severity::kHint: return "notice";
  }
  return "notice";
}

// What the annotation commands need escaped: in values, and also in properties.
std::string Escaped(const std::string& s, bool property) {
  std::string out;
  for (char c : s) {
    if (c == '%' || c == '\r' || c == '\n' || (property && (c == ':' || c == ',')))
      out += fmt::format("%{:02X}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    else
      out += c;
  }
  return out;
}

}  // namespace

std::string ToSarif(const std::vector<judge::Finding>& findings) {
  Json rules = Json::array(), results = Json::array();
  for (judge::Rule r : judge::AllRules()) {
    const judge::RuleDef& def = judge::Def(r);
    rules.push_back({{"id", def.id},
                     {"name", def.title},
                     {"shortDescription", {{"text", def.title}}},
                     {"fullDescription", {{"text", def.condition}}},
                     {"help", {{"text", def.source}}},
                     {"defaultConfiguration", {{"level", Level(def.severity)}}}});
  }
  for (const judge::Cause& cause : judge::FindCauses(findings)) {
    const judge::Finding& f = findings[cause.root];
    Json locations = Json::array(), related = Json::array();
    for (size_t k = 0; k < f.accesses.size(); ++k)
      (k == 0 ? locations : related).push_back(Location(f.accesses[k]));
    results.push_back({{"ruleId", judge::Def(f.rule).id},
                       {"level", Level(f.severity)},
                       {"message", {{"text", Message(f, cause.consequences.size())}}},
                       {"locations", locations},
                       {"relatedLocations", related},
                       {"properties", {{"entry", f.entry}, {"replay", f.replay}}}});
  }
  const Json run = {
      {"tool",
       {{"driver",
         {{"name", "tilec check"}, {"version", api::CompilerVersion()}, {"rules", rules}}}}},
      {"results", results}};
  const Json all = {{"$schema", "https://json.schemastore.org/sarif-2.1.0.json"},
                    {"version", "2.1.0"},
                    {"runs", Json::array({run})}};
  return all.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string ToGithub(const std::vector<judge::Finding>& findings) {
  std::string s;
  for (const judge::Cause& cause : judge::FindCauses(findings)) {
    const judge::Finding& f = findings[cause.root];
    const Place p = f.accesses.empty() ? Place{} : PlaceOf(f.accesses[0].site);
    std::string where;
    if (!p.file.empty()) where += "file=" + Escaped(p.file, true) + ",";
    if (p.line > 0) where += fmt::format("line={},", p.line);
    if (p.column > 0) where += fmt::format("col={},", p.column);
    s += fmt::format(
        "::{} {}title={}::{}\n", CommandOf(f.severity), where,
        Escaped(fmt::format("{} {}", judge::Def(f.rule).id, judge::Def(f.rule).title), true),
        Escaped(Message(f, cause.consequences.size()), false));
  }
  return s;
}

}  // namespace tilec::tools
