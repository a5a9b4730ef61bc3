// The words of a plan's text: how each kind of value is written in one word, and read back.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/plan_text.h"
#include "ir/text.h"
#include "support/lines.h"

namespace tilec::ir {

// Names of what a function has, both ways.
struct PlanNames {
  explicit PlanNames(const Function& fn);
  std::string Block(BlockId block) const;
  OpNames ops;
  ValueNames values;
  std::map<std::string, ValueId, std::less<>> by_name;
  std::map<std::string, BlockId, std::less<>> blocks;
};

inline constexpr std::pair<const char*, PlannedRole::Kind> kRoleKindWords[] = {
    {"main", PlannedRole::Kind::kMain},
    {"producer", PlannedRole::Kind::kProducer},
    {"compute", PlannedRole::Kind::kCompute},
    {"issuer", PlannedRole::Kind::kIssuer}};
inline constexpr std::pair<const char*, OperandPlan::How> kRouteWords[] = {
    {"buffer", OperandPlan::How::kBuffer},
    {"registers", OperandPlan::How::kRegister},
    {"tensor", OperandPlan::How::kTensor},
    {"stored", OperandPlan::How::kStore}};
inline constexpr std::pair<const char*, WgSplit> kSplitWords[] = {
    {"m", WgSplit::kM}, {"n", WgSplit::kN}, {"none", WgSplit::kNone}};

// No number of a plan is as large: products of a few of them fit 64 bits. Counts that nothing
// multiplies may be.
inline constexpr int64_t kMostNumber = int64_t{1} << 20;
inline constexpr int64_t kMostCount = int64_t{1} << 60;
inline constexpr int64_t kForeverWord = INT64_MAX;

inline std::vector<std::string_view> Cut(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = text.find(at);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

inline std::string Replaced(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

class PlanWords {
 public:
  explicit PlanWords(const PlanNames& names) : n_(names) {}

  std::string Of(int64_t v) const { return v == kForeverWord ? "forever" : std::to_string(v); }
  std::string Of(int v) const { return std::to_string(v); }
  std::string Of(const PlanCount& v) const { return std::to_string(v.value); }
  std::string Of(size_t v) const { return std::to_string(v); }
  std::string Of(bool v) const { return v ? "yes" : "no"; }
  std::string Of(const std::string& v) const { return v; }
  std::string Of(DType v) const { return Spelling(v); }
  std::string Of(OpId v) const { return v.valid() ? n_.ops[v] : "-"; }
  std::string Of(ValueId v) const { return v.valid() ? "%" + n_.values[v] : "-"; }
  std::string Of(BlockId v) const { return v.valid() ? n_.Block(v) : "-"; }
  std::string Of(PlannedRole::Kind v) const { return Spelled(kRoleKindWords, v); }
  std::string Of(OperandPlan::How v) const { return Spelled(kRouteWords, v); }
  std::string Of(WgSplit v) const { return Spelled(kSplitWords, v); }
  std::string Of(MatrixUnit v) const { return Info(v).name; }
  std::string Of(const SmemLayout& s) const {
    return fmt::format("{}x{}/{}@{}", s.rows, s.cols, s.panel_cols, s.swizzle_bytes);
  }
  std::string Of(const Layout& l) const {
    return fmt::format("{}:{}", l.rank, Replaced(Replaced(ToText(l), ") r(", ")r("), " ", ","));
  }
  std::string Of(const std::pair<OpId, bool>& v) const {
    return Of(v.first) + (v.second ? ".left" : ".right");
  }
  std::string Of(const std::pair<const int, RingSite::Readers>& v) const {
    return fmt::format("{}:{}:{}", v.first, Of(v.second.first), Of(v.second.last));
  }
  template <typename T>
  std::string Of(const std::optional<T>& v) const {
    return v ? Of(*v) : "-";
  }
  template <typename List>
  requires requires(List l) { l.begin(); }
  std::string Of(const List& list) const {
    std::string out;
    for (const auto& v : list) out += (out.empty() ? "" : ",") + Of(v);
    return out.empty() ? "-" : out;
  }

  // Back: false if the word is none of these.
  bool To(std::string_view w, int64_t& v) const {
    const auto number = w == "forever" ? std::optional<int64_t>(kForeverWord) : ParseInteger(w);
    if (!number || (*number != kForeverWord && (*number <= -kMostNumber || *number >= kMostNumber)))
      return false;
    v = *number;
    return true;
  }
  bool To(std::string_view w, PlanCount& v) const {
    const auto number = ParseInteger(w);
    if (!number || *number <= -kMostCount || *number >= kMostCount) return false;
    v.value = *number;
    return true;
  }
  bool To(std::string_view w, int& v) const {
    const auto number = ParseInteger(w);
    if (!number || (*number <= -kMostNumber || *number >= kMostNumber)) return false;
    v = static_cast<int>(*number);
    return true;
  }
  bool To(std::string_view w, size_t& v) const {
    const auto number = ParseInteger(w);
    if (!number || *number < 0 || *number >= kMostNumber) return false;
    v = static_cast<size_t>(*number);
    return true;
  }
  bool To(std::string_view w, bool& v) const { return v = w == "yes", v || w == "no"; }
  bool To(std::string_view w, std::string& v) const { return v = std::string(w), true; }
  bool To(std::string_view w, DType& v) const {
    const auto dtype = DTypeFromSpelling(w);
    if (dtype) v = *dtype;
    return dtype.has_value();
  }
  bool To(std::string_view w, OpId& v) const { return w == "-" || (v = n_.ops.Find(w)).valid(); }
  bool To(std::string_view w, ValueId& v) const { return w == "-" || Look(n_.by_name, w, v); }
  bool To(std::string_view w, BlockId& v) const { return w == "-" || Look(n_.blocks, w, v); }
  bool To(std::string_view w, PlannedRole::Kind& v) const { return Look(kRoleKindWords, w, v); }
  bool To(std::string_view w, OperandPlan::How& v) const { return Look(kRouteWords, w, v); }
  bool To(std::string_view w, WgSplit& v) const { return Look(kSplitWords, w, v); }
  bool To(std::string_view w, MatrixUnit& v) const {
    const std::optional<MatrixUnit> unit = MatrixUnitNamed(w);
    if (unit) v = *unit;
    return unit.has_value();
  }
  bool To(std::string_view w, SmemLayout& s) const {
    const std::vector<std::string_view> swizzle = Cut(w, '@');
    if (swizzle.size() != 2) return false;
    const std::vector<std::string_view> panel = Cut(swizzle[0], '/');
    if (panel.size() != 2) return false;
    const std::vector<std::string_view> shape = Cut(panel[0], 'x');
    return shape.size() == 2 && To(shape[0], s.rows) && To(shape[1], s.cols) &&
           To(panel[1], s.panel_cols) && To(swizzle[1], s.swizzle_bytes);
  }
  bool To(std::string_view w, Layout& l) const {
    const size_t colon = w.find(':');
    int rank = 0;
    if (colon == std::string_view::npos || !To(w.substr(0, colon), rank)) return false;
    const std::string text =
        Replaced(Replaced(std::string(w.substr(colon + 1)), ")r(", ") r("), ",", " ");
    const std::optional<Layout> layout = ParseLayout(text, rank);
    if (layout) l = *layout;
    return layout.has_value();
  }
  bool To(std::string_view w, std::pair<OpId, bool>& v) const {
    const size_t dot = w.rfind('.');
    if (dot == std::string_view::npos) return false;
    const std::string_view side = w.substr(dot + 1);
    v.second = side == "left";
    return To(w.substr(0, dot), v.first) && (v.second || side == "right");
  }
  bool To(std::string_view w, std::pair<int, RingSite::Readers>& v) const {
    const std::vector<std::string_view> parts = Cut(w, ':');
    return parts.size() == 3 && To(parts[0], v.first) && To(parts[1], v.second.first) &&
           To(parts[2], v.second.last);
  }
  template <typename T>
  bool To(std::string_view w, std::optional<T>& v) const {
    v.reset();
    return w == "-" || To(w, v.emplace());
  }
  template <typename T>
  bool To(std::string_view w, std::vector<T>& v) const {
    return List<T>(w, [&](T item) { v.push_back(std::move(item)); });
  }
  template <typename T>
  bool To(std::string_view w, std::set<T>& v) const {
    return List<T>(w, [&](T item) { v.insert(std::move(item)); });
  }
  bool To(std::string_view w, std::map<int, RingSite::Readers>& v) const {
    return List<std::pair<int, RingSite::Readers>>(w, [&](auto item) { v.insert(item); });
  }

 private:
  template <typename Rows, typename T>
  static std::string Spelled(const Rows& rows, T v) {
    for (const auto& [name, value] : rows)
      if (value == v) return name;
    return "-";
  }
  template <typename Rows, typename T>
  static bool Look(const Rows& rows, std::string_view w, T& v) {
    for (const auto& [name, value] : rows)
      if (w == name) return v = value, true;
    return false;
  }
  template <typename T, typename Add>
  bool List(std::string_view w, const Add& add) const {
    if (w == "-") return true;
    for (std::string_view part : Cut(w, ',')) {
      T item{};
      if (!To(part, item)) return false;
      add(std::move(item));
    }
    return true;
  }
  const PlanNames& n_;
};

}  // namespace tilec::ir
