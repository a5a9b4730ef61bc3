// SPDX-License-Identifier: Apache-2.0
#include "api/schedule_names.h"

#include <algorithm>

#include "api/diagnostics.h"
#include "api/pipeline.h"
#include "ir/isa.h"
#include "ir/passes/divide_reductions.h"
#include "ir/passes/pack_rows.h"
#include "support/file.h"
#include "support/nearest.h"

namespace tilec::api {

namespace {
constexpr std::string_view kSlices = "solve:slices=";
constexpr std::string_view kSplit = ":split=", kPack = ":pack=", kApart = ":apart";
constexpr std::string_view kAlong = ":along=";
constexpr std::string_view kFours = "solve:clusters=4";
constexpr int64_t kMostRanges = 3;
constexpr uint64_t kMostScheduleBytes = 4 << 20;

// The same without copies for neighbours.
std::string ApartOf(const std::string& name) {
  return fmt::format("{}{}", kSolve, name.substr(name.find(kSplit)));
}

// What stands behind `solve` or `sequential`, `:apart` left out; empty: it is neither.
std::string FormIn(const std::string& name) {
  const size_t end = name.size() - (IsApart(name) ? kApart.size() : 0);
  for (const std::string_view order : {kSolve, kSequential})
    if (name.rfind(order, 0) == 0) return name.substr(order.size(), end - order.size());
  return "";
}
// `solve:clusters=4…` as `solve:clusters…`.
std::string WithoutCount(const std::string& name) {
  return name.rfind(kFours, 0) == 0 ? std::string(kClusters) + name.substr(kFours.size()) : name;
}
}  // namespace

int64_t NeighboursOf(const std::string& name) { return name.rfind(kFours, 0) == 0 ? 4 : 0; }
std::string ClustersName(int64_t ctas, int64_t along) {
  return WithAlong(std::string(ctas == 4 ? kFours : kClusters), along + 1);
}

int64_t AlongOf(const std::string& full) {
  const std::string name = WithoutCount(full);
  for (int64_t along = 2; along <= kMostRanges; ++along)
    if (name == WithAlong(std::string(kSolve), along) ||
        name == WithAlong(std::string(kClusters), along))
      return along;
  return 1;
}
std::string WithAlong(const std::string& name, int64_t along) {
  if (along == 1) return name;
  return fmt::format("{}{}{}", name.empty() ? kSolve : name, kAlong, along);
}
std::string WithoutAlong(const std::string& full) {
  const std::string name = WithoutCount(full);
  return AlongOf(name) > 1 ? name.substr(0, name.find(kAlong)) : name;
}

bool ChoosesForm(const std::string& name) {
  const std::string base = WithoutAlong(name);
  return base == kSolve || base == kSequential;
}

std::optional<int64_t> PackOf(const std::string& name) {
  const std::string form = FormIn(name);
  if (form.rfind(kPack, 0) != 0) return std::nullopt;
  const std::string rest = form.substr(kPack.size());
  const std::string count = rest.substr(0, rest.find(kSplit));
  for (int64_t heads = 1; heads <= ir::kMostPacked; heads *= 2)
    if (count == fmt::format("{}", heads)) return heads;
  return std::nullopt;
}

std::optional<int64_t> SplitOf(const std::string& name) {
  if (SharesApart(name)) return SplitOf(ApartOf(name));
  const std::string form = FormIn(name);
  const size_t at = PackOf(name) ? form.find(kSplit) : form.rfind(kSplit, 0);
  if (at == std::string::npos) return std::nullopt;
  const std::string count = form.substr(at + kSplit.size());
  if (IsApart(name)) {
    for (int64_t ctas = 2; ctas <= ir::kMostGroups; ++ctas)
      if (count == fmt::format("{}", ctas)) return ctas;
    return std::nullopt;
  }
  for (int64_t ctas = 1; ctas < ir::isa::kPortableClusterCtas; ++ctas)
    if (count == fmt::format("{}", ctas)) return ctas;
  for (int64_t clusters = 1; clusters <= ir::kMostGroups; ++clusters)
    if (count == fmt::format("{}", 8 * clusters)) return 8 * clusters;
  return std::nullopt;
}

bool IsApart(const std::string& name) {
  return name.rfind(kSolve, 0) == 0 && name.ends_with(kApart);
}

bool SharesApart(const std::string& full) {
  const std::string name = WithoutCount(full);
  if (!IsApart(name) || name.rfind(kClusters, 0) != 0) return false;
  const size_t split = name.find(kSplit);
  if (split == std::string::npos || !SplitOf(ApartOf(name))) return false;
  const std::string form = name.substr(0, split);
  return form == kClusters || form == WithAlong(std::string(kClusters), 2);
}

// Parts have a range of their own, the first.
std::string SharedPartsOf(const std::string& name) {
  const int64_t along = AlongOf(name.substr(0, name.find(kSplit)));
  return ClustersName(std::max<int64_t>(2, NeighboursOf(name)), along);
}

std::string SharedApartName(int64_t neighbours, int64_t along, int64_t ctas) {
  return fmt::format("{}{}{}{}", ClustersName(neighbours, along), kSplit, ctas, kApart);
}
std::string ApartName(int64_t pack, int64_t ctas) {
  const std::string packed = pack > 1 ? fmt::format("{}{}", kPack, pack) : "";
  return fmt::format("{}{}{}{}{}", kSolve, packed, kSplit, ctas, kApart);
}

std::optional<int> SlicesOf(const std::string& full) {
  const std::string name = WithoutCount(full);
  if (name == kSolve || name == kPersistent || name == kClusters || name == kOnce) return 0;
  if (AlongOf(name) > 1) return 0;
  if (name == kSequential || SplitOf(name)) return 0;
  if (PackOf(name) && name.find(kSplit) == std::string::npos && !IsApart(name)) return 0;
  if (name.rfind(kSlices, 0) != 0) return std::nullopt;
  const std::string count = name.substr(kSlices.size());
  return count == "1" || count == "2" || count == "3" ? std::optional<int>(count[0] - '0')
                                                      : std::nullopt;
}

bool NamesScheduleFile(const std::string& schedule) {
  return schedule.find_first_of("./") != std::string::npos;
}

Result<> LoadScheduleFile(Loaded& loaded, const std::string& schedule, DiagSink& diags) {
  if (!NamesScheduleFile(schedule)) return Done();
  std::string text, why;
  if (!ReadFile(schedule, &text, &why, kMostScheduleBytes))
    return diags.Report(kScheduleUnreadable, Span{}, schedule, why);
  loaded.schedule_file = loaded.sources.Add(schedule, std::move(text));
  return Done();
}

Result<> LoadPlanFile(Loaded& loaded, const std::string& path, DiagSink& diags) {
  std::string text, why;
  if (!ReadFile(path, &text, &why, kMostScheduleBytes))
    return diags.Report(kPlanUnreadable, Span{}, path, why);
  loaded.plan_file = loaded.sources.Add(path, std::move(text));
  return Done();
}

Result<> CheckSchedule(const std::string& name, DiagSink& diags) {
  if (SlicesOf(name) || NamesScheduleFile(name)) return Done();
  DiagBuilder d = diags.Report(kUnknownSchedule, Span{}, name);
  const std::string near =
      NearestName(name, {"sequential", "solve", "solve:persistent", "solve:once", "solve:clusters",
                         "solve:split=2", "solve:split=4", "solve:split=8", "solve:pack=2",
                         "solve:pack=4", "solve:pack=8", "solve:pack=16"});
  d.Help(near.empty() ? "use sequential, solve, solve:slices=1…3, solve:persistent, solve:once, "
                        "solve:clusters, solve:split=1 … 8, 16, 24 … 128, solve:pack=2, 4, 8 "
                        "or 16 (sequential:split and :pack, too), solve:split=2:apart … 16:apart, "
                        "solve:clusters=4, :along=2 behind either, "
                        "or a file like gemm.sched"
                      : fmt::format("did you mean `{}`?", near));
  return d;
}

}  // namespace tilec::api
