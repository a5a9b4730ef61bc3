// Pieces of drawings as SVG text, shared by the picture and the page. Scripts of the page find what
// they need in attributes: data-op and data-i (iteration) of a bar, data-b and data-e (its cycles),
// data-edge of an arrow.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "explain/explain.h"
#include "explain/timeline.h"

namespace tilec::explain {

struct Drawing {
  std::string svg;  // the inside of an <svg>
  int width = 0, height = 0;
};

// Colours of everything drawn, for light and dark surroundings. `[data-theme]` on the root wins
// over what the reader's system says.
std::string DrawingStyle();
constexpr int kRoleColours = 8;  // classes r0…r7

// Names of lanes; the same height as their bars.
Drawing DrawLanes(const Explanation& e, const Timeline& t);
Drawing DrawBars(const Explanation& e, const Timeline& t, double pixels_per_cycle);

// Ops as boxes in layers from left to right; values that an iteration hands to a later one run back
// below.
Drawing DrawGraph(const Explanation& e);

// Names of roles in their colours, and the kinds of arrows.
Drawing DrawLegend(const Explanation& e);

std::string Xml(std::string_view text);
// At most one digit behind the point, none if it is 0.
std::string Px(double v);

}  // namespace tilec::explain
