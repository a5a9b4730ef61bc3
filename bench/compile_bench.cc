// How long a cold compilation takes: the calls of the `test` blocks of .tile files, from a checked
// program to PTX, with solving and proof, and nothing kept from one to the next. Times are of the
// processor, so that others on the machine change little. A line for each, slowest first; then
// median and worst, and what the stages take in sum.
//
//   compile_bench [--target=NAME] [--stages] FILE…
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <map>
#include <string>
#include <vector>

#include "api/pipeline.h"
#include "api/split.h"
#include "tests/test_calls.h"

namespace tilec {
namespace {

double ProcessorMs() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

struct Row {
  double ms = 0;
  int emissions = 0;
  std::string call;
  std::vector<api::StageTime> stages;
};

Result<Row> Compile(const api::Loaded& loaded, const frontend::TestCallInfo& call,
                    const std::string& target, const std::string& schedule, DiagSink& diags) {
  Row row;
  row.call = CallText(call);
  TRY(api::Call bound, BindDense(*loaded.program, call, diags));
  api::PipelineOptions options;
  options.target = target;
  options.schedule = schedule;
  TRY(options.machine, api::MachineOf(options, diags));
  TRY(const frontend::Signature signature,
      frontend::SignatureOf(*loaded.program, call.kernel, diags));
  api::ChooseForm(loaded, signature, options, &bound);
  options = options.For(bound);
  options.sizes.clear();  // predicted times are for people
  std::vector<compile::Decision> decisions;
  api::Observation look;
  look.decisions = &decisions;
  const double start = ProcessorMs();
  TRY(ir::Function fn, api::MakeTileIr(loaded, call.kernel, bound, &look, diags));
  TRY(fn, api::LowerToWarps(loaded, std::move(fn), options, &look, diags));
  TRY_VOID(api::MakeImage(loaded, fn, options, &look, diags));
  row.ms = ProcessorMs() - start;
  for (const compile::Decision& d : decisions) row.emissions += d.emissions;
  row.stages = std::move(look.times);
  return row;
}

int Main(int argc, char** argv) {
  std::string target = "h200";
  bool stages = false;
  std::vector<Row> rows;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.rfind("--target=", 0) == 0) {
      target = argument.substr(9);
    } else if (argument == "--stages") {
      stages = true;
    } else {
      VisitCalls(argument, {"solve"},
                 [&](const api::Loaded& loaded, const frontend::TestCallInfo& call,
                     const std::string& schedule, DiagSink& diags) -> Result<bool> {
                   TRY(Row row, Compile(loaded, call, target, schedule, diags));
                   rows.push_back(std::move(row));
                   return true;
                 });
    }
  }
  if (rows.empty()) {
    fmt::print("compile_bench [--target=NAME] [--stages] FILE…\n");
    return 2;
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.ms > b.ms; });
  std::map<std::string, double> sums;
  for (const Row& row : rows) {
    fmt::print("{:8.1f} ms {:2} emitted  {}\n", row.ms, row.emissions, row.call);
    for (const api::StageTime& t : row.stages) {
      sums[t.stage] += t.milliseconds;
      if (stages && t.milliseconds >= 5)
        fmt::print("         {:8.1f} ms  {}\n", t.milliseconds, t.stage);
    }
  }
  std::vector<std::pair<double, std::string>> order;
  for (const auto& [stage, ms] : sums) order.push_back({ms, stage});
  std::sort(order.rbegin(), order.rend());
  for (size_t i = 0; i < order.size() && i < 12; ++i)
    fmt::print("{:10.1f} ms in all  {}\n", order[i].first, order[i].second);
  std::vector<int> emissions;
  for (const Row& row : rows) emissions.push_back(row.emissions);
  std::sort(emissions.begin(), emissions.end());
  fmt::print("{} compilations: median {:.1f} ms, worst {:.1f} ms; emissions median {}, worst {}\n",
             rows.size(), rows[rows.size() / 2].ms, rows[0].ms, emissions[rows.size() / 2],
             emissions.back());
  return 0;
}

}  // namespace
}  // namespace tilec

int main(int argc, char** argv) { return tilec::Main(argc, argv); }
