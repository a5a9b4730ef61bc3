// SPDX-License-Identifier: Apache-2.0
#include "api/prepare_ranges.h"

#include <algorithm>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace tilec::api {

namespace {

double Seconds(const std::atomic<int64_t>& ns) { return 1e-9 * static_cast<double>(ns); }

}  // namespace

Result<> PrepareEach(size_t count, const PrepareOptions& options, Spent& spent,
                     const EachClass& one, DiagSink& diags) {
  std::vector<DiagSink> sinks(count);
  std::atomic<size_t> next{0};
  std::mutex mutex;  // of what follows
  size_t done = 0, failed = count;
  // Taken in order: whatever stands before the first that fails is made, too.
  const auto work = [&] {
    for (size_t i = next++; i < count; i = next++) {
      const bool made = one(i, sinks[i]).ok();
      const std::lock_guard<std::mutex> lock(mutex);
      ++done;
      if (!made) failed = std::min(failed, i), next = count;
      if (options.progress)
        options.progress({done, count, spent.programs, Seconds(spent.choosing),
                          Seconds(spent.compiling), Seconds(spent.loading)});
    }
  };
  const size_t cores = std::max(1u, std::thread::hardware_concurrency());
  const size_t asked = options.threads > 0 ? static_cast<size_t>(options.threads) : cores;
  std::vector<std::thread> others;
  for (size_t t = 1; t < std::min(asked, count); ++t) others.emplace_back(work);
  work();
  for (std::thread& t : others) t.join();
  for (size_t i = 0; i < std::min(count, failed + 1); ++i) sinks[i].MoveTo(diags);
  return failed < count ? Result<>(DiagSink::Propagate()) : Done();
}

std::vector<size_t> FirstOfEach(const std::vector<const Specialisation*>& programs) {
  std::vector<size_t> first, others;
  std::set<const Specialisation*> seen;
  for (size_t i = 0; i < programs.size(); ++i)
    (seen.insert(programs[i]).second ? first : others).push_back(i);
  first.insert(first.end(), others.begin(), others.end());
  return first;
}

Result<> PrepareInTwo(size_t count, const PrepareOptions& options, Spent& spent, const InTwo& steps,
                      DiagSink& diags) {
  PrepareOptions choosing = options;
  if (options.progress)
    choosing.progress = [&](Preparing now) {
      now.done = 0;
      options.progress(now);
    };
  TRY_VOID(PrepareEach(count, choosing, spent, steps.choose, diags));
  const std::vector<size_t> order = FirstOfEach(steps.programs);
  return PrepareEach(
      count, options, spent, [&](size_t i, DiagSink& sink) { return steps.one(order[i], sink); },
      diags);
}

}  // namespace tilec::api
