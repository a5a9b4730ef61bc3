// Lanes of roles and units over time.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "explain/draw.h"
#include "explain/internal.h"

namespace tilec::explain {

namespace {

constexpr int kAxis = 46;  // height of the bands and cycle numbers
constexpr int kLanesWidth = 196;
constexpr int kGap = 8;          // between lanes
constexpr int kHead = 24;        // above a group of lanes
constexpr double kLetter = 7.3;  // of a bar's name
constexpr double kSmallLetter = 6.6;
constexpr double kNarrowest = 11;  // bar with its name across, as in page.js
constexpr size_t kFewestLetters = 4;
constexpr int kMargin = 12;

int RowHeight(Lane::Kind kind) {
  switch (kind) {
    case Lane::Kind::kRole: return 38;
    case Lane::Kind::kFlight: return 9;
    case Lane::Kind::kUnit: return 22;
    case Lane::Kind::kShared: return 44;
  }
  return 0;
}

bool OfRole(const Lane& lane) {
  return lane.kind == Lane::Kind::kRole || lane.kind == Lane::Kind::kFlight;
}

// Where each lane stands; the last entry is the height of all.
std::vector<int> Tops(const Timeline& t) {
  std::vector<int> tops;
  int y = kAxis;
  for (size_t i = 0; i < t.lanes.size(); ++i) {
    const Lane& lane = t.lanes[i];
    if (i == 0 || OfRole(lane) != OfRole(t.lanes[i - 1]))
      y += kHead;
    else if (lane.kind == Lane::Kind::kFlight)
      y -= kGap - 3;  // hangs below its role
    tops.push_back(y);
    y += lane.rows * RowHeight(lane.kind) + kGap;
  }
  tops.push_back(y + 4);
  return tops;
}

std::string Percent(int64_t part, int64_t whole) {
  return fmt::format("{:.0f} %", 100.0 * static_cast<double>(part) /
                                     static_cast<double>(std::max<int64_t>(1, whole)));
}

std::string Text(const char* classes, double x, double y, const std::string& text,
                 const char* anchor = "start") {
  return fmt::format("<text class=\"{}\" x=\"{}\" y=\"{}\" text-anchor=\"{}\">{}</text>\n", classes,
                     Px(x), Px(y), anchor, Xml(text));
}

// 1, 2, 5, 10 … so that a period has about eight.
int64_t TickStep(int64_t ii) {
  const double wish = static_cast<double>(ii) / 8;
  int64_t step = 1;
  for (int i = 0; static_cast<double>(step) < wish; ++i)
    step = i % 3 == 1 ? step / 2 * 5 : step * 2;
  return step;
}

class Bars {
 public:
  Bars(const Explanation& e, const Timeline& t, double scale)
      : e_(e), t_(t), scale_(scale), tops_(Tops(t)), height_(tops_.back()) {}

  Drawing Run() {
    width_ = static_cast<int>(std::ceil(X(t_.end))) + kMargin;
    Background();
    Axis();
    for (size_t i = 0; i < t_.lanes.size(); ++i) {
      const Lane& lane = t_.lanes[i];
      out_ += fmt::format("<g class=\"lanebars\" data-lane=\"{}\">\n", i);
      if (lane.kind == Lane::Kind::kShared) Demand(lane, tops_[i]);
      for (const Bar& bar : lane.bars) DrawBar(lane, bar, tops_[i]);
      out_ += "</g>\n";
    }
    return {std::move(out_), width_, height_};
  }

 private:
  double X(int64_t cycle) const { return static_cast<double>(cycle) * scale_; }

  void Rect(const std::string& classes, int64_t begin, int64_t end, double y, double h) {
    out_ += fmt::format(
        "<rect class=\"{} span\" data-b=\"{}\" data-e=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" "
        "height=\"{}\"/>\n",
        classes, begin, end, Px(X(begin)), Px(y), Px(X(end) - X(begin)), Px(h));
  }

  void Line(const char* classes, int64_t cycle, double y1, double y2) {
    out_ += fmt::format(
        "<line class=\"{0} at\" data-b=\"{1}\" x1=\"{2}\" x2=\"{2}\" y1=\"{3}\" y2=\"{4}\"/>\n",
        classes, cycle, Px(X(cycle)), Px(y1), Px(y2));
  }

  void At(const char* classes, int64_t cycle, double dx, double y, const std::string& text) {
    out_ += fmt::format(
        "<text class=\"{} at\" data-b=\"{}\" data-dx=\"{}\" x=\"{}\" y=\"{}\">{}</text>\n", classes,
        cycle, Px(dx), Px(X(cycle) + dx), Px(y), Xml(text));
  }

  void Background() {
    const int64_t periods = CeilPeriods();
    for (int64_t p = 0; p < periods; ++p)
      Rect(p % 2 == 0 ? "band0" : "band1", p * t_.ii, std::min(t_.end, (p + 1) * t_.ii), kAxis,
           height_ - kAxis);
    const int64_t step = TickStep(t_.ii);
    for (int64_t p = 0; p < periods; ++p)
      for (int64_t slot = step; slot < t_.ii && p * t_.ii + slot < t_.end; slot += step)
        Line("tick", p * t_.ii + slot, kAxis, height_);
    for (size_t i = 0; i + 1 < tops_.size(); ++i) {
      if (t_.lanes[i].kind == Lane::Kind::kFlight) continue;
      out_ += fmt::format(
          "<rect class=\"lane span\" fill=\"none\" data-b=\"0\" data-e=\"{}\" x=\"0\" y=\"{}\" "
          "width=\"{}\" height=\"{}\"/>\n",
          t_.end, tops_[i], Px(X(t_.end)), t_.lanes[i].rows * RowHeight(t_.lanes[i].kind));
    }
  }

  int64_t CeilPeriods() const { return (t_.end + t_.ii - 1) / t_.ii; }

  void Axis() {
    struct Part {
      int64_t begin, end;
      const char *name, *classes;
    };
    const Part parts[] = {{0, t_.steady_begin, "prologue", "band1"},
                          {t_.steady_begin, t_.steady_end, "steady state: two periods", "steady"},
                          {t_.steady_end, t_.end, "epilogue", "band1"}};
    for (const Part& part : parts) {
      if (part.begin >= part.end) continue;
      Rect(part.classes, part.begin, part.end, 2, 20);
      At("ink", part.begin, 8, 16, part.name);
    }
    for (int64_t p = 0; p <= t_.end / t_.ii; ++p) {
      Line("period", p * t_.ii, 24, height_);
      At("faint small", p * t_.ii, 4, 38, fmt::format("{}", p * t_.ii));
    }
    const int64_t step = TickStep(t_.ii);
    for (int64_t p = 0; p < CeilPeriods(); ++p)
      for (int64_t slot = step; slot + t_.ii / 9 < t_.ii && p * t_.ii + slot < t_.end; slot += step)
        if (slot >= t_.ii / 8)
          At("faint small slot", p * t_.ii + slot, 0, 38, fmt::format("+{}", slot));
  }

  std::string Describe(const Lane& lane, const Bar& bar) const {
    const OpFacts& op = e_.ops[bar.op];
    std::string text = fmt::format("{}, iteration {}, ", e_.graph.ops[bar.op].name, bar.iteration);
    switch (lane.kind) {
      case Lane::Kind::kRole: text += "issues in " + lane.name; break;
      case Lane::Kind::kFlight: text += "in flight for " + lane.name; break;
      case Lane::Kind::kUnit:
      case Lane::Kind::kShared: text += "on unit " + lane.name; break;
    }
    text +=
        fmt::format(", cycles {} to {}, stage {}, slot {}", bar.begin, bar.end, op.stage, op.slot);
    if (op.at.line > 0) text += fmt::format(", {}:{}: {}", op.at.file, op.at.line, op.at.text);
    return text;
  }

  void DrawBar(const Lane& lane, const Bar& bar, int top) {
    const int row = RowHeight(lane.kind);
    const bool thin = lane.kind == Lane::Kind::kFlight;
    const double y = top + bar.row * row + (thin ? 1.5 : 2);
    const double h = row - (thin ? 3 : 4);
    const double width = std::max(1.0, X(bar.end) - X(bar.begin));
    const std::string& name = e_.graph.ops[bar.op].name;
    out_ += fmt::format(
        "<g class=\"bar r{}{}\" data-op=\"{}\" data-i=\"{}\" data-b=\"{}\" data-e=\"{}\">"
        "<title>{}</title>"
        "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"{}\"/>",
        e_.ops[bar.op].role % kRoleColours, bar.iteration % 2 == 1 ? " odd" : "", bar.op,
        bar.iteration, bar.begin, bar.end, Xml(Describe(lane, bar)), Px(X(bar.begin)), Px(y),
        Px(width), Px(h), thin ? 2 : 3);
    if (!thin) Name(bar, name, y, h, width);
    out_ += "</g>\n";
  }

  // Along the bar; across it where that is too narrow; its beginning; or nothing. page.js does the
  // same at other scales, from the data.
  void Name(const Bar& bar, const std::string& name, double y, double h, double width) {
    const double need = kLetter * static_cast<double>(name.size()) + 6;
    const bool low = kSmallLetter * static_cast<double>(name.size()) + 4 > h;
    const bool plain =
        std::all_of(name.begin(), name.end(), [](char c) { return (c & 0x80) == 0; });
    const auto letters = static_cast<size_t>(std::max(0.0, (width - 6) / kLetter));
    const bool across = width < need && !low && width >= kNarrowest;
    const bool cut = width < need && !across && plain && letters >= kFewestLetters;
    const double base = y + h - 4, line = y + h / 2 + 4;
    out_ += fmt::format(
        "<text class=\"{}\" data-need=\"{}\" data-tall=\"{}\" data-y=\"{}\" data-base=\"{}\" "
        "transform=\"translate({},{}){}\">{}</text>",
        across                 ? "small"
        : width >= need || cut ? ""
                               : "hide",
        Px(need), low ? 0 : 1, Px(line), Px(base),
        Px(across ? X(bar.begin) + width / 2 + 3 : X(bar.begin) + 4), Px(across ? base : line),
        across ? "rotate(-90)" : "", Xml(cut ? name.substr(0, letters - 1) + "…" : name));
  }

  // Coordinates of the path are cycles, so that a page can stretch it.
  void Demand(const Lane& lane, int top) {
    double most = 1.25;
    for (const auto& [cycle, level] : lane.level) most = std::max(most, level);
    const double h = RowHeight(lane.kind) - 2, bottom = top + h + 1;
    const auto y = [&](double level) { return bottom - h * level / most; };
    std::string path = fmt::format("M0 {}", Px(bottom));
    for (const auto& [cycle, level] : lane.level)
      path += fmt::format("H{}V{}", cycle, Px(y(level)));
    out_ += fmt::format(
        "<g class=\"stretch\" transform=\"scale({:.6f},1)\"><path class=\"demand\" "
        "d=\"{}V{}Z\"/></g>\n",
        scale_, path, Px(bottom));
    out_ += fmt::format(
        "<line class=\"full wide\" x1=\"0\" x2=\"{}\" data-e=\"{}\" y1=\"{}\" y2=\"{}\"/>\n",
        Px(X(t_.end)), t_.end, Px(y(1)), Px(y(1)));
  }

  const Explanation& e_;
  const Timeline& t_;
  const double scale_;
  const std::vector<int> tops_;
  const int height_;
  int width_ = 0;
  std::string out_;
};

}  // namespace

Drawing DrawBars(const Explanation& e, const Timeline& t, double pixels_per_cycle) {
  return Bars(e, t, pixels_per_cycle).Run();
}

Drawing DrawLanes(const Explanation& e, const Timeline& t) {
  const std::vector<int> tops = Tops(t);
  std::string out = Text("faint small", kLanesWidth - 10, 38, "cycle", "end");
  for (size_t i = 0; i < t.lanes.size(); ++i) {
    const Lane& lane = t.lanes[i];
    const int height = lane.rows * RowHeight(lane.kind);
    if (i == 0 || OfRole(lane) != OfRole(t.lanes[i - 1]))
      out += Text("faint small", 10, tops[i] - 7, OfRole(lane) ? "ROLES" : "UNITS");
    const double middle = tops[i] + height / 2.0 + 4;
    if (lane.kind == Lane::Kind::kRole) {
      const ir::ScheduledRole& role = e.schedule.roles[lane.index];
      out += fmt::format(
          "<g class=\"r{}\"><rect x=\"10\" y=\"{}\" width=\"6\" height=\"{}\" rx=\"2\"/></g>\n",
          lane.index % kRoleColours, tops[i] + 2, height - 4);
      out += Text("ink name", 23, middle - 7, lane.name);
      out += Text(
          "faint small", 23, middle + 8,
          fmt::format("{}, {} regs, issues {}", Count(role.warps, "warp"),
                      e.roles[lane.index].registers, Percent(e.roles[lane.index].issue, t.ii)));
    } else if (lane.kind != Lane::Kind::kFlight) {
      const scheduler::Unit& unit = e.graph.units[lane.index];
      out += Text("ink name", 23, middle, lane.name);
      out += Text("faint small", kLanesWidth - 10, middle,
                  Percent(e.units[lane.index].busy, unit.capacity * t.ii), "end");
    } else {
      out += Text("faint small", kLanesWidth - 10, middle - 1, "in flight", "end");
    }
  }
  return {std::move(out), kLanesWidth, tops.back()};
}

}  // namespace tilec::explain
