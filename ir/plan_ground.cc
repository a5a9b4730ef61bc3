// SPDX-License-Identifier: Apache-2.0
#include "ir/plan_ground.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ir/plan_laws.h"
#include "ir/plan_text.h"
#include "support/lines.h"

namespace tilec::ir {
namespace {

// Fields that may be edited, by record; "*": all of it.
struct Free {
  const char* record;
  const char* field;
};
constexpr Free kFree[] = {{"role", "first-warp"},
                          {"role", "warps"},
                          {"role", "registers"},
                          {"role", "turns"},
                          {"ring", "slots"},
                          {"ring", "bytes"},
                          {"ring", "arrivals"},
                          {"token", "slots"},
                          {"token", "arrivals"},
                          {"pass", "slots"},
                          {"pass", "arrivals"},
                          {"exchange", "arrivals"},
                          {"operands", "slots"},
                          {"accumulator", "slots"},
                          {"accumulator", "arrivals"},
                          {"buffer", "at"},
                          {"await", "*"},
                          {"release", "*"},
                          {"changed", "*"},
                          {"nest", "*"}};
// Records of which a plan may have fewer: products that are awaited in their own iteration instead.
constexpr const char* kFewer[] = {"loop", "chain", "goes-on"};

bool IsFree(std::string_view record, std::string_view field) {
  return std::any_of(std::begin(kFree), std::end(kFree), [&](const Free& f) {
    return f.record == record && (std::string_view("*") == f.field || f.field == field);
  });
}

struct Ground {
  std::vector<std::string> fixed, fewer;
};

Ground Of(const ProgramPlan& plan, const Function& fn) {
  Ground ground;
  const std::string text = ToText(plan, fn);
  for (const TextLine& line : SplitLines(text, -1)) {
    const std::string_view record = line.words[0].text;
    if (IsFree(record, "*")) continue;
    std::string kept(record);
    for (size_t i = 1; i < line.words.size(); ++i) {
      const std::optional<KeyValue> pair = SplitKeyValue(line.words[i]);
      if (!pair || !IsFree(record, pair->key)) kept += " " + std::string(line.words[i].text);
    }
    const bool fewer = std::find(std::begin(kFewer), std::end(kFewer), record) != std::end(kFewer);
    (fewer ? ground.fewer : ground.fixed).push_back(std::move(kept));
  }
  return ground;
}

}  // namespace

Result<> CheckGround(const ProgramPlan& given, const ProgramPlan& own, const Function& fn,
                     DiagSink& diags) {
  const Ground a = Of(given, fn), b = Of(own, fn);
  const auto refuse = [&](const std::string& is, const std::string& must) {
    return diags.Report(law::kPlanGround, Span{}, fn.name, is.empty() ? "nothing" : is,
                        must.empty() ? "nothing" : must);
  };
  for (size_t i = 0; i < std::max(a.fixed.size(), b.fixed.size()); ++i) {
    const std::string is = i < a.fixed.size() ? a.fixed[i] : "";
    const std::string must = i < b.fixed.size() ? b.fixed[i] : "";
    if (is != must) return refuse(is, must);
  }
  for (const std::string& line : a.fewer)
    if (!std::count(b.fewer.begin(), b.fewer.end(), line)) return refuse(line, "");
  return Done();
}

}  // namespace tilec::ir
