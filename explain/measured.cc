// SPDX-License-Identifier: Apache-2.0
#include "explain/measured.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "explain/diagnostics.h"

namespace tilec::explain {

namespace {

using Json = nlohmann::json;

constexpr int64_t kMostCycles = int64_t{1} << 40;

std::optional<int64_t> Number(const Json& j, int64_t low, int64_t high) {
  if (!j.is_number_integer()) return std::nullopt;
  const int64_t value = j.get<int64_t>();
  return value < low || value > high ? std::nullopt : std::optional<int64_t>(value);
}

std::string Text(const Json& j, const char* key) {
  const auto at = j.find(key);
  return at != j.end() && at->is_string() ? at->get<std::string>() : "";
}

// "" or what is wrong.
std::string Read(const Json& j, Measured* out) {
  if (!j.is_object() || Number(j.value("format", Json()), 1, 1) != 1)
    return "it is no timeline of format 1";
  out->kernel = Text(j, "kernel");
  out->device = Text(j, "device");
  const Json roles = j.value("roles", Json()), sites = j.value("sites", Json()),
             spans = j.value("spans", Json());
  if (!roles.is_array() || !sites.is_array() || !spans.is_array())
    return "roles, sites and spans must be lists";
  for (const Json& role : roles) {
    if (!role.is_string()) return "a role is no name";
    out->roles.push_back(role.get<std::string>());
  }
  const int64_t last_role = static_cast<int64_t>(out->roles.size()) - 1;
  std::vector<MeasuredSpan> places;
  for (const Json& site : sites) {
    const auto role =
        site.is_object() ? Number(site.value("role", Json()), 0, last_role) : std::nullopt;
    if (!role) return fmt::format("site {} has no role", places.size());
    MeasuredSpan place;
    place.role = static_cast<int>(*role);
    place.what = Text(site, "what");
    place.in_loop = site.contains("loop");
    if (const auto line = Number(site.value("line", Json()), 1, kMostCycles))
      place.source = fmt::format("{}:{}", Text(site, "file"), *line);
    places.push_back(std::move(place));
  }
  const int64_t last_site = static_cast<int64_t>(places.size()) - 1;
  for (const Json& span : spans) {
    std::optional<int64_t> numbers[4];
    if (span.is_array() && span.size() == 4) {
      numbers[0] = Number(span[0], 0, last_site);
      for (size_t i = 1; i < 4; ++i) numbers[i] = Number(span[i], 0, kMostCycles);
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
  const Json j = Json::parse(text, nullptr, false);
  Measured out;
  const std::string wrong = j.is_discarded() ? "it is no JSON" : Read(j, &out);
  if (wrong.empty()) return out;
  return diags.Report(kMeasuredFile, Span{}, path, wrong)
      .Help("`tilec run FILE:KERNEL NAME=VALUE… --timeline=FILE` writes one");
}

}  // namespace tilec::explain
