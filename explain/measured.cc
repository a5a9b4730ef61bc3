// SPDX-License-Identifier: Apache-2.0
#include "explain/measured.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "explain/diagnostics.h"

namespace tilec::explain {

namespace {

using JsonIn = nlohmann::json;

constexpr int64_t kMostCycles = int64_t{1} << 40;

std::optional<int64_t> NumberIn(const JsonIn& j, int64_t low, int64_t high) {
  if (!j.is_number_integer()) return std::nullopt;
  const int64_t value = j.get<int64_t>();
  return value < low || value > high ? std::nullopt : std::optional<int64_t>(value);
}

std::string TextAt(const JsonIn& j, const char* key) {
  const auto at = j.find(key);
  return at != j.end() && at->is_string() ? at->get<std::string>() : "";
}

// "" or what is wrong.
std::string Read(const JsonIn& j, Measured* out) {
  if (!j.is_object() || NumberIn(j.value("format", JsonIn()), 1, 1) != 1)
    return "it is no timeline of format 1";
  out->kernel = TextAt(j, "kernel");
  out->device = TextAt(j, "device");
  const JsonIn roles = j.value("roles", JsonIn()), sites = j.value("sites", JsonIn()),
               spans = j.value("spans", JsonIn());
  if (!roles.is_array() || !sites.is_array() || !spans.is_array())
    return "roles, sites and spans must be lists";
  for (const JsonIn& role : roles) {
    if (!role.is_string()) return "a role is no name";
    out->roles.push_back(role.get<std::string>());
  }
  const int64_t last_role = static_cast<int64_t>(out->roles.size()) - 1;
  std::vector<MeasuredSpan> places;
  for (const JsonIn& site : sites) {
    const auto role =
        site.is_object() ? NumberIn(site.value("role", JsonIn()), 0, last_role) : std::nullopt;
    if (!role) return fmt::format("site {} has no role", places.size());
    MeasuredSpan place;
    place.role = static_cast<int>(*role);
    place.what = TextAt(site, "what");
    place.in_loop = site.contains("loop");
    if (const auto line = NumberIn(site.value("line", JsonIn()), 1, kMostCycles))
      place.source = fmt::format("{}:{}", TextAt(site, "file"), *line);
    places.push_back(std::move(place));
  }
  const int64_t last_site = static_cast<int64_t>(places.size()) - 1;
  for (const JsonIn& span : spans) {
    std::optional<int64_t> numbers[4];
    if (span.is_array() && span.size() == 4) {
      numbers[0] = NumberIn(span[0], 0, last_site);
      for (size_t i = 1; i < 4; ++i) numbers[i] = NumberIn(span[i], 0, kMostCycles);
    }
    for (const auto& n : numbers)
      if (!n)
        return fmt::format("span {} is not [site, occurrence, begin, end]", out->spans.size());
    if (*numbers[3] < *numbers[2]) return fmt::format("span {} ends first", out->spans.size());
    MeasuredSpan made = places[static_cast<size_t>(*numbers[0])];
    made.occurrence = *numbers[1];
    made.begin = *numbers[2];
    made.end = *numbers[3];
    out->spans.push_back(std::move(made));
  }
  return "";
}

}  // namespace

Result<Measured> ParseMeasured(std::string_view text, const std::string& path, DiagSink& diags) {
  const JsonIn j = JsonIn::parse(text, nullptr, false);
  Measured out;
  const std::string wrong = j.is_discarded() ? "it is no JSON" : Read(j, &out);
  if (wrong.empty()) return out;
  return diags.Report(kMeasuredFile, Span{}, path, wrong)
      .Help("`tilec run FILE:KERNEL NAME=VALUE… --timeline=FILE` writes one");
}

}  // namespace tilec::explain
