// The picture: title, timeline, legend and graph, on its own.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "explain/draw.h"
#include "explain/internal.h"

namespace tilec::explain {

namespace {
constexpr double kSvgPeriodPixels = 520;
constexpr int kTitle = 56;
}  // namespace

std::string ToSvg(const Explanation& e) {
  const Timeline t = TwoPeriods(e);
  const Drawing lanes = DrawLanes(e, t);
  const Drawing bars = DrawBars(e, t, kSvgPeriodPixels / static_cast<double>(t.ii));
  const Drawing legend = DrawLegend(e);
  const Drawing graph = DrawGraph(e);
  const int width = std::max({lanes.width + bars.width, graph.width, legend.width}) + 16;
  const int below = kTitle + lanes.height + 24;
  const int height = below + legend.height + 8 + graph.height + 8;
  const auto put = [](int x, int y, const Drawing& d) {
    return fmt::format("<g transform=\"translate({},{})\">\n{}</g>\n", x, y, d.svg);
  };
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
             "viewBox=\"0 0 {0} {1}\" role=\"img\" aria-label=\"{2}\">\n<style>\n{3}</style>\n"
             "<rect class=\"paper\" width=\"{0}\" height=\"{1}\"/>\n"
             "<text class=\"ink name\" x=\"10\" y=\"24\" style=\"font-size:16px\">{2}</text>\n"
             "<text class=\"faint\" x=\"10\" y=\"43\">{4}</text>\n",
             width, height,
             Xml(fmt::format("{} on {}: II {}, {}", e.graph.name, e.graph.machine.name,
                             Count(e.schedule.ii, "cycle"), Count(e.report.stages, "stage"))),
             DrawingStyle(),
             Xml(e.verdict.text +
                 (e.verdict.reasons.empty() ? "" : ": " + e.verdict.reasons.front().text))) +
         put(0, kTitle, lanes) + put(lanes.width, kTitle, bars) + put(0, below, legend) +
         put(0, below + legend.height + 8, graph) + "</svg>\n";
}

}  // namespace tilec::explain
