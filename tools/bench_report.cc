// What the machine could do in a kernel's place, and what `tilec bench` prints beside the times:
// shares of the roof, the schedule's prediction, JSON.
//
// SPDX-License-Identifier: Apache-2.0
#include "tools/kernel_bench.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "explain/problem.h"
#include "ir/count_work.h"
#include "ir/interpret.h"
#include "ir/passes/passes.h"
#include "tools/bench.h"
#include "tools/diagnostics.h"
#include "tools/report.h"
#include "tools/runner.h"

namespace tilec::tools {

namespace {

using Json = nlohmann::ordered_json;

}  // namespace

// What binds, by the machine file: products on the tensor unit, or memory.
Roof KernelBench::RoofOf() const {
  const double hz = static_cast<double>(target_.limits.clock_mhz) * 1e6;
  const double sms = static_cast<double>(target_.limits.sms);
  double cycles = 0;
  for (const auto& [row, flops] : work_.products)
    if (const ir::OpCost* cost = target_.CostOf(row)) {
      double most = 0;
      for (const ir::TargetUse& use : cost->uses)
        if (!target_.units[static_cast<size_t>(use.unit)].fluid)
          most = std::max(most, use.cycles.per.flops);
      cycles += most * flops;
    }
  Roof roof;
  if (hz > 0 && sms > 0) roof = {1e3 * cycles / (hz * sms), "the tensor unit"};
  if (const double gbs = static_cast<double>(target_.limits.memory_gbs); gbs > 0)
    if (const double ms = work_.least_bytes / gbs * 1e-6; ms > roof.ms) roof = {ms, "memory"};
  return roof;
}

// The loop with most to do, as the scheduler sees it.
Result<> KernelBench::Predict() {
  int64_t most = 0;
  for (const auto& [loop, trips] : work_.trips)
    if (trips > most) most = trips, loop_ = clean_->ops[loop].at;
  trips_ = most;
  DiagSink quiet;  // a loop that cannot be scheduled has no prediction
  std::vector<explain::Reason> notes;
  const auto problems = explain::ProblemsOf(*clean_, target_, &notes, quiet);
  if (!problems.ok()) return Done();
  for (const explain::LoopProblem& problem : *problems) {
    if (problem.at.file != loop_.file || problem.at.begin != loop_.begin) continue;
    const auto solved = explain::SolveBest(problem, {}, nullptr, &notes, quiet);
    if (solved.ok()) predicted_ii_ = solved->solution.schedule.ii;
  }
  return Done();
}

double KernelBench::CyclesPerTrip(const Timing& t) const {
  const double mhz = t.sm_mhz.value_or(static_cast<double>(target_.limits.clock_mhz));
  return Median(t.sustained) * mhz * 1e3 * static_cast<double>(target_.limits.sms) /
         static_cast<double>(std::max<int64_t>(1, trips_));
}

void KernelBench::Print() {
  const Roof roof = RoofOf();
  fmt::print("{} on {}\n", kernel_, device_->description());
  for (const auto& [name, t] : call_.launch.tensors)
    fmt::print("  {}: {}[{}]\n", name, t.dtype, fmt::join(t.dims, ", "));
  fmt::print("  {} in {}, {} sets of buffers in turn\n", cached_ ? "cached" : "compiled",
             Duration(compile_ms_), sets_.size());
  fmt::print(
      "  {}{:.4g} GFLOP in products, {:.4g} G other operations, {:.4g} MB at least, "
      "{:.4g} MB through tiles\n",
      work_.exact ? "" : "at least ", work_.flops() * 1e-9, work_.arithmetic * 1e-9,
      work_.least_bytes * 1e-6, (work_.loaded_bytes + work_.stored_bytes) * 1e-6);
  fmt::print("  roofline {:.1f} us: {} ({})\n", 1e3 * roof.ms, roof.what, target_.title);
  if (checks_.empty()) fmt::print("  not checked: a tensor has more than 2^28 elements\n");
  for (const TensorRun& t : checks_)
    fmt::print("  {}: {} ({} of {} instances)\n", t.name, DescribeCheck(t), report_.interpreted,
               report_.instances);
  for (const Timing& t : timings_) PrintTiming(t, roof);
  for (size_t i = 1; i < timings_.size(); ++i)
    fmt::print("  {} / tilec: {:.3f} sustained, {:.3f} rested\n", timings_[i].name,
               Median(timings_[i].sustained) / Median(timings_[0].sustained),
               Median(timings_[i].rested) / Median(timings_[0].rested));
  if (trips_ > 0 && predicted_ii_ > 0)
    fmt::print(
        "  II {} predicted, {:.0f} cycles per iteration measured ({} iterations, prologue "
        "and epilogue included)\n",
        predicted_ii_, CyclesPerTrip(timings_[0]), trips_);
  if (wrong_) fmt::print("WRONG: differs from the interpreter\n");
}

void KernelBench::PrintTiming(const Timing& t, const Roof& roof) {
  const auto line = [&](const char* regime, const std::vector<double>& rounds) {
    const double ms = Median(rounds);
    const auto [low, high] = std::minmax_element(rounds.begin(), rounds.end());
    std::string clocks;
    if (std::string(regime) == "sustained" && t.sm_mhz)
      clocks = fmt::format(", {:.0f} MHz, {:.0f} W", *t.sm_mhz, t.watts.value_or(0));
    fmt::print(
        "  {:9} {:8} {:10.2f} us  {:7.1f} TF/s  {:7.0f} GB/s  {:.2f} of the roofline  "
        "±{:.1f} %{}\n",
        regime, t.name, 1e3 * ms, work_.flops() / ms * 1e-9, work_.least_bytes / ms * 1e-6,
        roof.ms / ms, 50 * (*high - *low) / ms, clocks);
  };
  line("sustained", t.sustained);
  line("rested", t.rested);
}

Result<> KernelBench::WriteJson() {
  const Roof roof = RoofOf();
  std::string lines;
  for (const Timing& t : timings_)
    for (const auto& [regime, rounds] :
         {std::pair{"sustained", &t.sustained}, std::pair{"rested", &t.rested}}) {
      const double ms = Median(*rounds);
      Json j = {{"kernel", kernel_}, {"who", t.name}, {"regime", regime}, {"ms", ms}};
      j["rounds_ms"] = *rounds;
      for (const auto& [name, value] : call_.all) j["values"][name] = frontend::ToText(value);
      j["flops"] = work_.flops();
      j["least_bytes"] = work_.least_bytes;
      j["tflops"] = work_.flops() / ms * 1e-9;
      j["gbs"] = work_.least_bytes / ms * 1e-6;
      j["roofline_ms"] = roof.ms;
      j["roofline_share"] = roof.ms / ms;
      j["bound"] = roof.what;
      if (t.sm_mhz) j["sm_mhz"] = *t.sm_mhz;
      if (t.watts) j["watts"] = *t.watts;
      if (t.name == "tilec") {
        j["compile_ms"] = compile_ms_;
        if (predicted_ii_ > 0) j["predicted_ii"] = predicted_ii_;
        if (trips_ > 0) j["cycles_per_iteration"] = CyclesPerTrip(t);
        if (!checks_.empty()) j["right"] = !wrong_;
      }
      j["machine"] = target_.name;
      j["device"] = device_->description();
      j["compiler"] = api::CompilerVersion();
      TRY_VOID(AddToReport(session_, "bench", j));
      lines += j.dump() + "\n";
    }
  std::string why;
  if (o_.output.empty() || WriteOutput(o_.output, lines, &why)) return Done();
  return session_.diags().Report(kFileUnwritable, Span{}, o_.output, why).Place("command line");
}

}  // namespace tilec::tools
