// The instances of `parallel` on threads.
//
// Instances are handed out in order. The outcome does not depend on threads: instances are
// independent (interpret_memory.h watches), a failing instance lets all earlier ones finish, and
// the earliest failure and the first conflicting element are what is reported.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "ir/diagnostics.h"
#include "ir/interpret_driver.h"
#include "ir/queries.h"

namespace tilec::ir::interpret_internal {

namespace {

constexpr int64_t kMaxInstances = int64_t{1} << 30;

}  // namespace

Result<> Driver::ReportConflicts(const std::vector<const Conflicts*>& found) {
  auto report = [&](const DiagDef& def,
                    std::map<int32_t, Conflicts::Meeting> Conflicts::*which) -> Result<> {
    std::map<int32_t, Conflicts::Meeting> all;
    for (const Conflicts* c : found)
      for (const auto& [id, meeting] : c->*which)
        for (uint32_t who : meeting.instances) all[id].Add(meeting.element, who, who);
    if (all.empty()) return Done();
    const auto& [id, meeting] = *all.begin();
    const Tensor& t = kernel_.tensors.at(id);
    std::vector<int64_t> at;
    int64_t rest = meeting.element;
    for (int64_t stride : t.strides) {
      at.push_back(rest / stride);
      rest %= stride;
    }
    Span place = t.param->at;
    for (const Op& op : fn_.ops)
      if ((op.kind == OpKind::kStore || op.kind == OpKind::kAtomic) && op.operands[0].index == id &&
          op.at.known()) {
        place = op.at;
        break;
      }
    DiagBuilder built = diags_.Report(def, place, t.param->name, ShapeText(at));
    std::vector<std::string> who;
    for (uint32_t instance : meeting.instances)
      if (instance != kSeveral && who.size() < 2) who.push_back(std::to_string(instance - 1));
    if (!who.empty()) built.Note(fmt::format("instances {} of the grid", fmt::join(who, " and ")));
    return built;
  };
  TRY_VOID(report(kOverlappingStores, &Conflicts::stores));
  return report(kReadsOtherInstance, &Conflicts::reads);
}

// The instances of a grid, and those of them that are run: one at a time, or those of a cluster
// that combine what they have.
struct Driver::Grid {
  std::vector<int64_t> lo, count, steps;
  int64_t total = 1;
  bool together = false;
  int64_t group = 1;  // instances that are run at a time
  bool sampled = false;
  int64_t runs = 0;

  int64_t groups() const { return CeilDiv(total, group); }
  // The first instance of a run.
  int64_t First(int64_t run) const {
    if (!sampled) return group * run;
    if (runs == 1) return 0;
    return group * static_cast<int64_t>(static_cast<__int128>(run) * (groups() - 1) / (runs - 1));
  }
  std::vector<int64_t> StartsOf(int64_t instance) const {
    std::vector<int64_t> starts;
    for (size_t d = 0; d < steps.size(); ++d) {
      starts.push_back(lo[d] + instance % count[d] * steps[d]);
      instance /= count[d];
    }
    return starts;
  }
};

Result<Driver::Grid> Driver::GridOf(const Op& parallel, Worker& top) {
  Grid grid;
  grid.steps = parallel.ints("steps");
  for (size_t d = 0; d < grid.steps.size(); ++d) {
    grid.lo.push_back(top.env()[static_cast<size_t>(parallel.operands[2 * d].index)].n[0]);
    const int64_t hi = top.env()[static_cast<size_t>(parallel.operands[2 * d + 1].index)].n[0];
    int64_t extent = 0;
    if (hi > grid.lo[d] && __builtin_sub_overflow(hi, grid.lo[d], &extent)) extent = INT64_MAX / 2;
    grid.count.push_back(extent / grid.steps[d] + (extent % grid.steps[d] != 0));
    if (__builtin_mul_overflow(grid.total, grid.count[d], &grid.total) ||
        grid.total > kMaxInstances)
      return diags_.Report(kInterpretLimit, parallel.at, "instances of the grid",
                           ShapeText(grid.count), kMaxInstances);
  }
  const std::vector<OpId>& body = fn_.blocks[parallel.regions[0]].ops;
  grid.together = std::any_of(body.begin(), body.end(),
                              [&](OpId id) { return fn_.ops[id].kind == OpKind::kClusterReduce; });
  if (grid.together) grid.group = parallel.i("cluster", 1);
  const int64_t most = kernel_.options.max_instances;
  grid.sampled = most > 0 && grid.total > most && grid.groups() > 1 && may_sample_;
  grid.runs = grid.sampled ? std::max<int64_t>(1, most / grid.group) : grid.groups();
  return grid;
}

Result<> Driver::RunGrid(const Op& parallel, Worker& top) {
  TRY(const Grid grid, GridOf(parallel, top));
  report_.instances = grid.total;
  report_.interpreted = std::min(grid.total, grid.runs * grid.group);
  sampled_ |= grid.sampled;
  kernel_.progress.Expect(report_.interpreted);

  const auto cores = static_cast<int64_t>(std::max(1u, std::thread::hardware_concurrency()));
  int64_t threads = kernel_.options.threads > 0 ? kernel_.options.threads : cores;
  threads = one_thread_ ? 1 : std::clamp<int64_t>(threads, 1, std::max<int64_t>(grid.runs, 1));
  std::vector<std::unique_ptr<Worker>> workers;
  for (int64_t i = 0; i < threads; ++i)
    workers.push_back(std::make_unique<Worker>(kernel_, top.env()));
  std::atomic<int64_t> next{0};
  std::mutex failure_mutex;
  int64_t failed_instance = -1;
  Worker* failed = nullptr;
  std::atomic<bool> stop{false};
  auto work = [&](Worker& w) {
    std::vector<std::vector<int64_t>> starts;
    while (!stop) {
      const int64_t run = next.fetch_add(1);
      if (run >= grid.runs) return;
      const int64_t instance = grid.First(run);
      starts.clear();
      for (int64_t i = instance; i < std::min(grid.total, instance + grid.group); ++i)
        starts.push_back(grid.StartsOf(i));
      kernel_.progress.Instance();
      if (grid.together ? w.RunCluster(parallel, instance, starts)
                        : w.RunInstance(parallel, instance, starts[0]))
        continue;
      stop = true;
      const std::lock_guard lock(failure_mutex);
      if (failed_instance < 0 || instance < failed_instance) {
        failed_instance = instance;
        failed = &w;
      }
      return;
    }
  };
  std::vector<std::thread> pool;
  for (size_t i = 1; i < workers.size(); ++i) pool.emplace_back([&, i] { work(*workers[i]); });
  work(*workers[0]);
  for (std::thread& t : pool) t.join();

  std::vector<const Conflicts*> conflicts;
  std::vector<PrintLine> prints;
  for (const auto& w : workers) {
    conflicts.push_back(&w->conflicts);
    report_.undecided_stores += w->undecided_stores;
    prints.insert(prints.end(), w->prints.begin(), w->prints.end());
  }
  std::stable_sort(prints.begin(), prints.end(),
                   [](const PrintLine& a, const PrintLine& b) { return a.instance < b.instance; });
  for (PrintLine& p : prints) report_.prints.push_back(std::move(p.text));
  if (failed) {
    failed->diags.MoveTo(diags_);
    return DiagSink::Propagate();
  }
  return ReportConflicts(conflicts);
}

}  // namespace tilec::ir::interpret_internal
