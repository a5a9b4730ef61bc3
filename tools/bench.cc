// SPDX-License-Identifier: Apache-2.0
#include "tools/bench.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>

#include "support/check.h"

namespace tilec::tools {

namespace {

constexpr int kMostLaunches = 200000;  // of one measurement
constexpr int kRestedLaunches = 8;
constexpr double kRestedMs = 2;

void Sleep(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

class Measurement {
 public:
  Measurement(runtime::Device& device, const BenchOptions& options, DiagSink& diags)
      : device_(device), options_(options), diags_(diags), watch_(device.NewStopwatch()) {
    CHECK(watch_ != nullptr);
  }

  // Milliseconds per launch of `count` launches back to back.
  Result<double> Time(const Contestant& c, int count) {
    if (c.time) return c.time(count, diags_);
    TRY_VOID(watch_->Start(0, diags_));
    for (int i = 0; i < count; ++i)
      TRY_VOID(c.launch(static_cast<size_t>(i) % options_.sets, diags_));
    TRY(const double ms, watch_->Stop(0, diags_));
    return ms / count;
  }

  // The first launches load and plan; then the time is known well enough to size the rounds.
  Result<> WarmUp(const Contestant& c, double& estimate) {
    TRY_VOID(Drop(Time(c, static_cast<int>(options_.sets))));
    TRY(estimate, Time(c, 3));
    TRY(estimate, Time(c, Launches(estimate, options_.seconds)));
    return Done();
  }

  Result<double> Sustained(const Contestant& c, double estimate, Timing& out) {
    TRY_VOID(Drop(Time(c, Launches(estimate, std::min(0.1, options_.seconds)))));
    std::vector<double> clocks, power;
    std::atomic<bool> stop{false};
    std::thread sampler([&] {
      while (!stop) {
        if (const auto mhz = nvml_.sm_mhz()) clocks.push_back(*mhz);
        if (const auto watts = nvml_.watts()) power.push_back(*watts);
        Sleep(0.01);
      }
    });
    const Result<double> ms = Time(c, Launches(estimate, options_.seconds));
    stop = true;
    sampler.join();
    if (!clocks.empty()) clocks_.push_back(Median(std::move(clocks)));
    if (!power.empty()) power_.push_back(Median(std::move(power)));
    if (!clocks_.empty()) out.sm_mhz = clocks_.back();
    if (!power_.empty()) out.watts = power_.back();
    return ms;
  }

  Result<double> Rested(const Contestant& c, double estimate) {
    TRY_VOID(device_.Synchronize(0, diags_));
    Sleep(options_.rest);
    return Time(c, std::max(kRestedLaunches, Launches(estimate, kRestedMs / 1000)));
  }

 private:
  static Result<> Drop(const Result<double>& r) {
    if (r.ok()) return Done();
    return DiagSink::Propagate();
  }
  static int Launches(double ms, double seconds) {
    const double n = seconds * 1000 / std::max(ms, 1e-4);
    return static_cast<int>(std::clamp(std::round(n), 1.0, double{kMostLaunches}));
  }

  runtime::Device& device_;
  const BenchOptions& options_;
  DiagSink& diags_;
  std::unique_ptr<runtime::Stopwatch> watch_;
  Nvml nvml_;
  std::vector<double> clocks_, power_;
};

}  // namespace

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

Result<std::vector<Timing>> MeasureInTurns(runtime::Device& device,
                                           const std::vector<Contestant>& contestants,
                                           const BenchOptions& options, DiagSink& diags) {
  Measurement m(device, options, diags);
  std::vector<Timing> out(contestants.size());
  std::vector<double> estimates(contestants.size());
  for (size_t i = 0; i < contestants.size(); ++i) {
    out[i].name = contestants[i].name;
    TRY_VOID(m.WarmUp(contestants[i], estimates[i]));
  }
  const auto turn = [&](int round, size_t i) {
    return round % 2 == 0 ? i : contestants.size() - 1 - i;
  };
  for (int round = 0; round < options.rounds; ++round)
    for (size_t i = 0; i < contestants.size(); ++i) {
      const size_t who = turn(round, i);
      TRY(const double ms, m.Sustained(contestants[who], estimates[who], out[who]));
      out[who].sustained.push_back(ms);
    }
  for (int round = 0; round < std::max(3, options.rounds / 2); ++round)
    for (size_t i = 0; i < contestants.size(); ++i) {
      const size_t who = turn(round, i);
      TRY(const double ms, m.Rested(contestants[who], estimates[who]));
      out[who].rested.push_back(ms);
    }
  return out;
}

}  // namespace tilec::tools
