// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/cluster_pool.h"

#include <algorithm>
#include <deque>
#include <thread>
#include <utility>

#include "runtime/emulator/handlers.h"
#include "runtime/emulator/judge_hooks.h"
#include "runtime/emulator/slices.h"

namespace tilec::runtime::emulator {
namespace {

constexpr uint64_t kBudget =
    4'000'000;                       // warp instructions before a worker starts one more cluster
constexpr size_t kMaxResident = 64;  // clusters a worker keeps at once
constexpr uint64_t kCheckedBudget = 20'000;  // the same in a checked launch

}  // namespace

bool Pool::Run(Fault* fault) {
  std::vector<std::thread> workers;
  for (int k = 1; k < threads_; ++k) workers.emplace_back([this] { Work(); });
  Work();
  for (std::thread& t : workers) t.join();
  if (!failed_) return true;
  *fault = std::move(fault_);
  return false;
}

void Pool::Work() {
  std::deque<std::unique_ptr<Cluster>> resident;
  std::vector<std::unique_ptr<Cluster>> spare;
  const EmulatorOptions& o = *launch_->options;
  bool checked = launch_->judge != nullptr;
  bool plain = o.policy == Policy::kRunToBlock && o.landing == Landing::kEarly;
  const uint64_t budget = checked && plain ? kCheckedBudget : kBudget;
  Slices slices(o, checked && clusters_ > 1);
  size_t most = checked ? std::min<size_t>(ResidentClusters(*launch_), 1024) : kMaxResident;
  most = static_cast<size_t>(std::clamp<uint64_t>(memory_ / ClusterBytes(*launch_), 1, most));
  size_t waiting = 0;  // clusters in a row that did nothing but poll
  while (true) {
    uint64_t n = clusters_;
    const size_t wanted = waiting == 0 ? slices.Wanted(most) : most;
    if (resident.size() < wanted) n = launch_->next_cluster.fetch_add(1);
    if (n < clusters_ && n < launch_->first_fault.load()) {
      std::unique_ptr<Cluster> c;
      if (!spare.empty())
        c = std::move(spare.back()), spare.pop_back();
      else
        c = std::make_unique<Cluster>();
      if (!c->Start(launch_, n)) {
        End(std::move(c), &spare, /*started=*/false);
        continue;
      }
      resident.push_front(std::move(c));
    }
    if (resident.empty()) return;
    std::swap(resident.front(), resident[slices.Next(resident.size())]);
    std::unique_ptr<Cluster> c = std::move(resident.front());
    resident.pop_front();
    const uint64_t slice = slices.Length(budget);
    Cluster::Status status = c->Run(slice);
    if (status == Cluster::Status::kBudget && slice < Slices::kLong) {
      resident.push_back(std::move(c));
      continue;
    }
    if (status == Cluster::Status::kBudget) {
      waiting = WaitsForOthers(*c) ? waiting + 1 : 0;
      bool full = resident.size() + 1 >= most || launch_->next_cluster.load() >= clusters_;
      if (!full || waiting <= 2 * (resident.size() + 1)) {
        resident.push_back(std::move(c));
        continue;
      }
      uint64_t started = std::min(launch_->next_cluster.load(), clusters_);
      ReportWaiting(*c, resident.size() + 1, clusters_ - started);
      status = Cluster::Status::kFault;
    }
    waiting = 0;
    End(std::move(c), &spare, /*started=*/true);
  }
}

void Pool::End(std::unique_ptr<Cluster> c, std::vector<std::unique_ptr<Cluster>>* spare,
               bool started) {
  if (started) JudgeEnd(*c, c->failed && c->fault.def == &kDeadlock);
  std::lock_guard lock(mutex_);
  if (c->failed && c->number < launch_->first_fault.load()) {
    launch_->first_fault.store(c->number);
    fault_ = std::move(c->fault);
    failed_ = true;
  }
  if (launch_->options->record != nullptr) execution_.clusters[c->number] = std::move(c->decisions);
  spare->push_back(std::move(c));
}

}  // namespace tilec::runtime::emulator
