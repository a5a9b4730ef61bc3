// Can jobs that are never at work at the same time be done in time? Each may begin at its release
// and has to end by its deadline. Asked by the searches that refute a period or a number of stages
// (settled.cc, least_stages.cc).
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace tilec::scheduler {

struct Job {
  int64_t release, deadline, left;
};

// Whoever must end soonest goes first, interrupted by whoever must sooner: what that order does not
// do in time, none does (Jackson). `jobs` are sorted, and worked off where the answer is yes;
// `ready` is room that is used again.
inline bool InTime(std::vector<Job>& jobs, std::vector<std::pair<int64_t, size_t>>& ready) {
  std::sort(jobs.begin(), jobs.end(),
            [](const Job& a, const Job& b) { return a.release < b.release; });
  ready.clear();  // a heap, soonest deadline first
  int64_t now = 0;
  for (size_t next = 0; next < jobs.size() || !ready.empty();) {
    if (ready.empty()) now = std::max(now, jobs[next].release);
    for (; next < jobs.size() && jobs[next].release <= now; ++next) {
      ready.emplace_back(-jobs[next].deadline, next);
      std::push_heap(ready.begin(), ready.end());
    }
    Job& job = jobs[ready.front().second];
    const int64_t until = next < jobs.size() ? jobs[next].release : INT64_MAX;
    const int64_t worked = std::min(job.left, until - now);
    job.left -= worked;
    now += worked;
    if (job.left > 0) continue;
    if (now > job.deadline) return false;
    std::pop_heap(ready.begin(), ready.end());
    ready.pop_back();
  }
  return true;
}

}  // namespace tilec::scheduler
