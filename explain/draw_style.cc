// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>

#include "explain/draw.h"

namespace tilec::explain {

namespace {

// One property with its two values.
struct Row {
  const char *selector, *property, *light, *dark;
};
constexpr Row kRows[] = {
    {".paper", "fill", "#ffffff", "#15191f"},       {".ink", "fill", "#1b2430", "#e4e9f0"},
    {".faint", "fill", "#5d6978", "#9aa7b8"},       {".band0", "fill", "#ffffff", "#15191f"},
    {".band1", "fill", "#f5f7fa", "#1a1f27"},       {".steady", "fill", "#e4edfb", "#1f2c42"},
    {".lane", "stroke", "#e3e8ef", "#2a323d"},      {".tick", "stroke", "#eef1f5", "#222932"},
    {".period", "stroke", "#b9c4d2", "#465364"},    {".demand", "fill", "#c4d4ea", "#35506f"},
    {".demand", "stroke", "#6d8db8", "#6f97c6"},    {".full", "stroke", "#c2410c", "#fb923c"},
    {".edge", "stroke", "#8592a3", "#75839a"},      {".head", "fill", "#8592a3", "#75839a"},
    {".edge.smem", "stroke", "#2a76b8", "#62aee8"}, {".head.smem", "fill", "#2a76b8", "#62aee8"},
    {".edge.tmem", "stroke", "#8a4fb5", "#bd8ae0"}, {".head.tmem", "fill", "#8a4fb5", "#bd8ae0"},
};

// A role's colour: fill of an even and of an odd iteration, outline, ink on the fill.
struct Hue {
  const char *light[4], *dark[4];
};
constexpr Hue kHues[kRoleColours] = {
    {{"#a9cdf5", "#cbe1fa", "#3f7fc4", "#0d2743"}, {"#2c5c92", "#234870", "#6ea8e6", "#eaf3fd"}},
    {{"#f7c48b", "#fbdcb8", "#bf7420", "#402306"}, {"#8a5418", "#6b4317", "#e5a658", "#fdf1e2"}},
    {{"#a6dcb1", "#c9ebd0", "#3d8f51", "#0c3216"}, {"#2b6b3b", "#235331", "#6cc382", "#e8f8ec"}},
    {{"#d3bdf0", "#e5d8f7", "#7d55b8", "#2a1150"}, {"#5d3f8e", "#4a346f", "#b08fe0", "#f4edfd"}},
    {{"#f5b3c6", "#fad2de", "#bf4a70", "#460c20"}, {"#8c3350", "#6c2b40", "#e6809f", "#fdebf1"}},
    {{"#e6d884", "#f1e8b4", "#938114", "#332c02"}, {"#69600f", "#524b12", "#cdbd46", "#faf7de"}},
    {{"#9edbdb", "#c4ebeb", "#2f8a8a", "#073131"}, {"#216565", "#1d5050", "#5ebebe", "#e5f8f8"}},
    {{"#cfd4db", "#e1e5ea", "#6e7a88", "#1d242d"}, {"#4c5662", "#3d4550", "#9aa7b6", "#eef1f5"}},
};

std::string Rules(const std::string& root, bool dark) {
  std::string text;
  for (const Row& row : kRows)
    text += fmt::format("{}{}{{{}:{}}}\n", root, row.selector, row.property,
                        dark ? row.dark : row.light);
  for (int r = 0; r < kRoleColours; ++r) {
    const char* const* c = dark ? kHues[r].dark : kHues[r].light;
    text += fmt::format("{0}.r{1} rect{{fill:{2};stroke:{3}}}\n", root, r, c[0], c[2]);
    text += fmt::format("{0}.r{1}.odd rect{{fill:{2}}}\n", root, r, c[1]);
    text += fmt::format("{0}.r{1} text{{fill:{2}}}\n", root, r, c[3]);
  }
  return text;
}

}  // namespace

std::string DrawingStyle() {
  std::string text =
      "text{font-family:system-ui,-apple-system,'Segoe UI','DejaVu "
      "Sans',sans-serif;font-size:11px}\n"
      "text.name{font-weight:600;font-size:12px}\n"
      "text.small{font-size:10px}\n"
      ".lane,.tick,.period{stroke-width:1;shape-rendering:crispEdges}\n"
      ".bar rect,.node rect{stroke-width:1}\n"
      ".bar text,.node text{pointer-events:none}\n"
      ".demand{stroke-width:1;vector-effect:non-scaling-stroke}\n"
      ".full{stroke-width:1;stroke-dasharray:4 3}\n"
      ".edge{fill:none;stroke-width:1.3}\n"
      ".edge.cross{stroke-width:2.4}\n"
      ".edge.order{stroke-dasharray:1 4}\n"
      ".edge.carried{stroke-dasharray:6 4}\n"
      ".hide{display:none}\n";
  text += Rules("", false);
  text += "@media (prefers-color-scheme:dark){\n" + Rules(":root:not([data-theme=light]) ", true) +
          "}\n";
  return text + Rules(":root[data-theme=dark] ", true);
}

std::string Xml(std::string_view text) {
  std::string out;
  for (char c : text) switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += static_cast<unsigned char>(c) < 0x20 && c != '\n' ? ' ' : c;
    }
  return out;
}

std::string Px(double v) {
  const long long tenths = std::llround(v * 10);
  const long long whole = tenths / 10, part = std::llabs(tenths % 10);
  const char* sign = tenths < 0 && whole == 0 ? "-" : "";
  return part == 0 ? fmt::format("{}{}", sign, whole) : fmt::format("{}{}.{}", sign, whole, part);
}

}  // namespace tilec::explain
