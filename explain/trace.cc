// The predicted timeline as Chrome trace events, which Perfetto opens: one process for roles, one
// for units. A cycle is shown as a microsecond.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "explain/internal.h"
#include "explain/timeline.h"

namespace tilec::explain {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kRoles = 1, kUnits = 2, kMeasured = 3;

class TraceWriter {
 public:
  TraceWriter(const Explanation& e, const Timeline& t, const Measured* measured)
      : e_(e), t_(t), measured_(measured) {}

  Json Run() {
    Meta(kRoles, 0, "process_name", fmt::format("{}: roles", e_.graph.name));
    Meta(kUnits, 0, "process_name", "units");
    int thread = 0;
    for (const Lane& lane : t_.lanes) {
      const int process =
          lane.kind == Lane::Kind::kRole || lane.kind == Lane::Kind::kFlight ? kRoles : kUnits;
      if (lane.kind == Lane::Kind::kShared) {
        for (const auto& [cycle, level] : lane.level)
          events_.push_back({{"name", lane.name},
                             {"ph", "C"},
                             {"ts", cycle},
                             {"pid", process},
                             {"args", {{"percent", std::llround(100 * level)}}}});
        continue;
      }
      for (int row = 0; row < lane.rows; ++row) {
        ++thread;
        std::string name = lane.name;
        if (lane.kind == Lane::Kind::kFlight) name += ": in flight";
        if (lane.rows > 1) name += fmt::format(" {}", row + 1);
        Meta(process, thread, "thread_name", name);
        Meta(process, thread, "thread_sort_index", thread);
        for (const Bar& bar : lane.bars)
          if (bar.row == row) Event(process, thread, bar);
      }
    }
    if (measured_) Lay(*measured_);
    Json j;
    j["displayTimeUnit"] = "ns";
    j["otherData"] = {{"graph", e_.graph.name},
                      {"machine", e_.graph.machine.name},
                      {"ii", t_.ii},
                      {"unit", "1 us is 1 cycle"}};
    j["traceEvents"] = std::move(events_);
    return j;
  }

 private:
  // What was measured, moved so that the first iteration of its loop stands under the predicted
  // one.
  void Lay(const Measured& measured) {
    int64_t predicted = INT64_MAX, seen = INT64_MAX;
    for (const Lane& lane : t_.lanes)
      if (lane.kind == Lane::Kind::kRole)
        for (const Bar& bar : lane.bars)
          if (!e_.graph.ops[bar.op].variable_latency) predicted = std::min(predicted, bar.begin);
    for (const MeasuredSpan& span : measured.spans)
      if (span.in_loop && (span.what == "product" || span.what == "compute"))
        seen = std::min(seen, span.begin);
    const int64_t shift = predicted == INT64_MAX || seen == INT64_MAX ? 0 : predicted - seen;
    Meta(kMeasured, 0, "process_name",
         fmt::format("{}: measured on {}", measured.kernel, measured.device));
    for (size_t role = 0; role < measured.roles.size(); ++role) {
      const int thread = 1000 + static_cast<int>(role);
      Meta(kMeasured, thread, "thread_name", measured.roles[role]);
      Meta(kMeasured, thread, "thread_sort_index", thread);
      for (const MeasuredSpan& span : measured.spans) {
        if (span.role != static_cast<int>(role) || span.end == span.begin) continue;
        Json args = {{"turn", span.occurrence}};
        if (!span.source.empty()) args["source"] = span.source;
        events_.push_back({{"name", span.what},
                           {"cat", "measured"},
                           {"ph", "X"},
                           {"ts", span.begin + shift},
                           {"dur", span.end - span.begin},
                           {"pid", kMeasured},
                           {"tid", thread},
                           {"args", std::move(args)}});
      }
    }
  }

  template <typename T>
  void Meta(int process, int thread, const char* what, const T& value) {
    const char* key = std::string_view(what) == "thread_sort_index" ? "sort_index" : "name";
    events_.push_back(
        {{"name", what}, {"ph", "M"}, {"pid", process}, {"tid", thread}, {"args", {{key, value}}}});
  }

  void Event(int process, int thread, const Bar& bar) {
    const OpFacts& facts = e_.ops[bar.op];
    Json args = {{"iteration", bar.iteration},
                 {"stage", facts.stage},
                 {"slot", facts.slot},
                 {"kind", e_.graph.ops[bar.op].kind},
                 {"role", e_.schedule.roles[facts.role].name}};
    if (facts.at.line > 0)
      args["source"] = fmt::format("{}:{} {}", facts.at.file, facts.at.line, facts.at.text);
    events_.push_back({{"name", e_.graph.ops[bar.op].name},
                       {"cat", e_.graph.ops[bar.op].kind},
                       {"ph", "X"},
                       {"ts", bar.begin},
                       {"dur", bar.end - bar.begin},
                       {"pid", process},
                       {"tid", thread},
                       {"args", std::move(args)}});
  }

  const Explanation& e_;
  const Timeline& t_;
  const Measured* const measured_;
  Json events_ = Json::array();
};

}  // namespace

std::string ToTrace(const Explanation& e, int iterations, const Measured* measured) {
  const Timeline timeline = MakeTimeline(e, std::max(1, iterations));
  return TraceWriter(e, timeline, measured)
             .Run()
             .dump(1, ' ', false, Json::error_handler_t::replace) +
         "\n";
}

}  // namespace tilec::explain
