// SPDX-License-Identifier: Apache-2.0
#include "tools/timeline.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "runtime/launch.h"
#include "tools/diagnostics.h"

namespace tilec::tools {

namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kRecords = 4096;  // of each role
constexpr int kLaunches = 3;        // the last one counts: caches are warm

int64_t Median(std::vector<int64_t> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<int64_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

int LineOf(Span at, const SourceMap& sources) {
  return at.known() ? sources.Locate(at.file, at.begin).line : 0;
}

class Allocation {
 public:
  explicit Allocation(runtime::Device& device) : device_(device) {}
  ~Allocation() {
    if (at) device_.Free(at);
  }
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;
  runtime::DeviceAddress at = 0;

 private:
  runtime::Device& device_;
};

}  // namespace

Timeline ReadTimeline(const ir::StampTable& table, const std::vector<uint32_t>& words) {
  Timeline out;
  out.table = table;
  std::optional<uint32_t> origin;
  int64_t first = 0;
  for (size_t role = 0; role < table.roles.size(); ++role) {
    std::map<int, int64_t> seen;
    const size_t base = 2 * role * static_cast<size_t>(table.records);
    int64_t count = 0;
    for (; count < table.records; ++count) {
      const size_t at = base + 2 * static_cast<size_t>(count);
      if (at + 1 >= words.size() || words[at] >= table.sites.size()) break;
      if (!origin) origin = words[at + 1];
      // The clock has 32 bits and all stamps lie within half its range.
      const int64_t cycle = static_cast<int32_t>(words[at + 1] - *origin);
      first = std::min(first, cycle);
      const int site = static_cast<int>(words[at]);
      if (!out.spans.empty() && out.spans.back().role == static_cast<int>(role))
        out.spans.back().end = cycle;
      out.spans.push_back({static_cast<int>(role), site, cycle, cycle, seen[site]++});
    }
    out.full = out.full || count == table.records;
  }
  for (TimelineSpan& span : out.spans) span.begin -= first, span.end -= first;
  return out;
}

Result<Timeline> RecordTimeline(Session& session, runtime::Device& device,
                                const std::string& kernel, const api::Call& call) {
  DiagSink& diags = session.diags();
  ir::StampTable table;
  api::Observation look;
  look.stamps = &table;
  api::PipelineOptions options = session.pipeline();
  options.stamps = kRecords;
  TRY(backend::KernelImage image,
      api::CompileCall(session.loaded(), kernel, call, options, {.look = &look}, diags));
  api::ShowPaths(session.loaded(), &image);
  TRY(auto loaded, runtime::LoadedKernel::Load(device, std::move(image), diags));
  std::vector<uint32_t> words(static_cast<size_t>(table.Words()), ir::kNoStamp);
  const uint64_t bytes = 4 * words.size();
  Allocation buffer(device);
  TRY(buffer.at, device.Alloc(bytes, diags));
  TRY_VOID(device.CopyIn(buffer.at, words.data(), bytes, diags));
  runtime::LaunchArgs args = call.launch;
  args.tensors[ir::kStampTensor] = {"u32", buffer.at, {table.Words()}, {}};
  for (int i = 0; i < kLaunches; ++i) TRY_VOID(loaded->Launch(args, 0, nullptr, diags));
  TRY_VOID(device.Synchronize(0, diags));
  TRY_VOID(device.CopyOut(words.data(), buffer.at, bytes, diags));
  return ReadTimeline(table, words);
}

std::string Summary(const Timeline& t, const SourceMap& sources) {
  std::string out;
  for (size_t role = 0; role < t.table.roles.size(); ++role) {
    // Loops by the line they stand in: the iterations of the site seen most, and what all spans
    // took.
    struct Loop {
      std::map<int, std::vector<int64_t>> at;  // by site
      std::map<std::string, int64_t> took;
      int64_t all = 0;
    };
    std::map<int, Loop> loops;
    for (const TimelineSpan& span : t.spans) {
      const ir::StampSite& site = t.table.sites[static_cast<size_t>(span.site)];
      if (span.role != static_cast<int>(role) || !site.loop.known()) continue;
      Loop& loop = loops[LineOf(site.loop, sources)];
      loop.at[span.site].push_back(span.begin);
      loop.took[site.what == "end" ? "other" : site.what] += span.end - span.begin;
      loop.all += span.end - span.begin;
    }
    for (const auto& [line, loop] : loops) {
      const auto most = std::max_element(
          loop.at.begin(), loop.at.end(),
          [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
      std::vector<int64_t> turns;
      for (size_t i = 1; i < most->second.size(); ++i)
        turns.push_back(most->second[i] - most->second[i - 1]);
      if (turns.empty()) continue;
      out += fmt::format("  {} in the loop of line {}: {} cycles per turn (median of {})",
                         t.table.roles[role], line, Median(turns), turns.size());
      for (const auto& [what, cycles] : loop.took)
        if (loop.all > 0)
          out += fmt::format(", {} {:.0f} %", what,
                             100.0 * static_cast<double>(cycles) / static_cast<double>(loop.all));
      out += "\n";
    }
  }
  if (t.full) out += fmt::format("  only the first {} stamps of a role\n", t.table.records);
  return out;
}

std::string ToJson(const Timeline& t, const std::string& kernel, const std::string& device,
                   const SourceMap& sources) {
  Json j;
  j["format"] = 1;
  j["kernel"] = kernel;
  j["device"] = device;
  j["unit"] = "SM cycles of the grid's first CTA";
  j["roles"] = t.table.roles;
  j["sites"] = Json::array();
  for (const ir::StampSite& site : t.table.sites) {
    Json s = {{"role", site.role}, {"what", site.what}};
    if (site.at.known()) {
      s["file"] = sources.path(site.at.file);
      s["line"] = LineOf(site.at, sources);
    }
    if (site.loop.known()) s["loop"] = LineOf(site.loop, sources);
    j["sites"].push_back(std::move(s));
  }
  j["spans"] = Json::array();
  for (const TimelineSpan& span : t.spans)
    j["spans"].push_back({span.site, span.occurrence, span.begin, span.end});
  return j.dump() + "\n";
}

Result<> WriteTimeline(Session& session, const Timeline& timeline, const std::string& kernel,
                       const std::string& device) {
  const std::string& path = session.options().timeline;
  std::string why;
  if (!WriteOutput(path, ToJson(timeline, kernel, device, session.loaded().sources), &why))
    return session.diags().Report(kFileUnwritable, Span{}, path, why).Place("command line");
  fmt::print("  timeline of CTA 0: {} stamps saved to {}\n{}", timeline.spans.size(), path,
             Summary(timeline, session.loaded().sources));
  return Done();
}

}  // namespace tilec::tools
