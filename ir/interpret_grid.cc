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

Result<> Driver::RunGrid(const Op& parallel, Worker& top) {
  const std::vector<int64_t>& steps = parallel.ints("steps");
  std::vector<int64_t> lo, count;
  int64_t total = 1;
  for (size_t d = 0; d < steps.size(); ++d) {
    lo.push_back(top.env()[static_cast<size_t>(parallel.operands[2 * d].index)].n[0]);
    const int64_t hi = top.env()[static_cast<size_t>(parallel.operands[2 * d + 1].index)].n[0];
    int64_t extent = 0;
    if (hi > lo[d] && __builtin_sub_overflow(hi, lo[d], &extent)) extent = INT64_MAX / 2;
    count.push_back(extent / steps[d] + (extent % steps[d] != 0));
    if (__builtin_mul_overflow(total, count[d], &total) || total > kMaxInstances)
      return diags_.Report(kInterpretLimit, parallel.at, "instances of the grid", ShapeText(count),
                           kMaxInstances);
  }
  report_.instances = total;
  // What is run at a time: an instance, or those of a cluster that combine what they have.
  const std::vector<OpId>& body = fn_.blocks[parallel.regions[0]].ops;
  const bool together = std::any_of(body.begin(), body.end(), [&](OpId id) {
    return fn_.ops[id].kind == OpKind::kClusterReduce;
  });
  const int64_t group = together ? parallel.i("cluster", 1) : 1;
  const int64_t groups = CeilDiv(total, group);
  const int64_t most = kernel_.options.max_instances;
  const bool sampled = most > 0 && total > most && groups > 1 && may_sample_;
  const int64_t runs = sampled ? std::max<int64_t>(1, most / group) : groups;
  report_.interpreted = std::min(total, runs * group);
  sampled_ |= sampled;
  kernel_.progress.Expect(report_.interpreted);

  const auto cores = static_cast<int64_t>(std::max(1u, std::thread::hardware_concurrency()));
  int64_t threads = kernel_.options.threads > 0 ? kernel_.options.threads : cores;
  threads = one_thread_ ? 1 : std::clamp<int64_t>(threads, 1, std::max<int64_t>(runs, 1));
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
      if (run >= runs) return;
      const int64_t instance =
          group * (!sampled    ? run
                   : runs == 1 ? 0
                               : static_cast<int64_t>(static_cast<__int128>(run) * (groups - 1) /
                                                      (runs - 1)));
      starts.assign(static_cast<size_t>(std::min(group, total - instance)), {});
      for (size_t i = 0; i < starts.size(); ++i) {
        int64_t rest = instance + static_cast<int64_t>(i);
        for (size_t d = 0; d < steps.size(); ++d) {
          starts[i].push_back(lo[d] + rest % count[d] * steps[d]);
          rest /= count[d];
        }
      }
      kernel_.progress.Instance();
      if (together ? w.RunCluster(parallel, instance, starts)
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
