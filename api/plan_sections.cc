// SPDX-License-Identifier: Apache-2.0
#include "api/plan_sections.h"

#include <vector>

#include "ir/diagnostics.h"
#include "support/lines.h"

namespace tilec::api {

namespace {

// The lines with which a section begins. What stands in front of the first is of the first.
std::vector<TextLine> Beginnings(const Loaded& loaded) {
  std::vector<TextLine> all;
  for (TextLine& line : SplitLines(loaded.sources.text(loaded.plan_file), loaded.plan_file))
    if (line.words[0].text == "plan") all.push_back(std::move(line));
  return all;
}

}  // namespace

size_t PlannedLaunches(const Loaded& loaded) {
  if (loaded.plan_file < 0) return 0;
  const size_t sections = Beginnings(loaded).size();
  return sections == 0 ? 1 : sections;
}

Result<std::string> PlanSection(const Loaded& loaded, const std::string& kernel,
                                const LaunchNumber& launch, DiagSink& diags) {
  const std::vector<TextLine> sections = Beginnings(loaded);
  std::string text(loaded.sources.text(loaded.plan_file));
  if (launch.of == 1 && sections.size() <= 1) return text;
  if (sections.size() != launch.of) {
    const Span at = sections.empty() ? Span{loaded.plan_file, 0, 0} : sections.back().span;
    return diags.Report(ir::kPlanOfLaunches, at, kernel, launch.of, PlannedLaunches(loaded));
  }
  const size_t begin = launch.number == 0 ? 0 : sections[launch.number].span.begin;
  const size_t end =
      launch.number + 1 < sections.size() ? sections[launch.number + 1].span.begin : text.size();
  for (size_t i = 0; i < text.size(); ++i)
    if ((i < begin || i >= end) && text[i] != '\n') text[i] = ' ';
  return text;
}

}  // namespace tilec::api
