// Solves the graphs of tests/schedule from scratch, one after the other, on one core, and prints
// what was proven and how long it took, beside the times that the Twill paper reports for its
// solver on one core of a large server (arXiv 2512.18134).
//
//   schedule_bench [NAME…]
//   schedule_bench --ablations         what taking freedoms and resources away does
//   schedule_bench --growth [FILE]     times against the number of ops, and a picture of them
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <sys/resource.h>

#include <cstdio>
#include <ctime>
#include <map>
#include <string>
#include <vector>

#include "bench/schedule_tables.h"
#include "scheduler/scheduler.h"
#include "scheduler/solution_store.h"
#include "support/file.h"

namespace tilec::scheduler {
namespace {

struct Row {
  const char* graph;
  const char* paper;  // seconds
};
constexpr Row kRows[] = {
    {"gemm_hopper", ""},
    {"gemm_blackwell", ""},
    {"attention_forward_hopper", "28"},
    {"attention_backward_hopper", "88"},
    {"attention_forward_blackwell", "19"},
    {"attention_backward_blackwell", "269"},
    {"attention_forward_h200", ""},
};

// Seconds of processor time: there is one thread, and others may share the core.
double Now() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

struct MapStore : SolutionStore {
  std::map<std::string, std::string> texts;
  std::optional<std::string> Get(const std::string& key) override {
    const auto it = texts.find(key);
    return it == texts.end() ? std::nullopt : std::optional(it->second);
  }
  void Put(const std::string& key, const std::string&, const std::string& solution) override {
    texts[key] = solution;
  }
};

// Milliseconds to get a solution that is kept: its key, its text parsed, and judged again.
double Cached(const Graph& graph, const Solution& solution) {
  constexpr int kTimes = 50;
  MapStore store;
  store.Put(SolutionKey(graph, {}), "", ToText(solution));
  const double start = Now();
  for (int i = 0; i < kTimes; ++i) {
    DiagSink diags;
    const Result<Solution> again = SolveStored(graph, {}, &store, diags);
    if (!again.ok() || ToText(*again) != ToText(solution)) return -1;
  }
  return (Now() - start) * 1000 / kTimes;
}

bool Load(const std::string& name, Graph* graph) {
  DiagSink diags;
  const std::string path = std::string(TILEC_SOURCE_DIR) + "/tests/schedule/" + name + ".graph";
  std::string text, why;
  if (!ReadFile(path, &text, &why)) return false;
  Result<Graph> parsed = ParseGraph(text, -1, diags);
  if (!parsed.ok() || !CheckGraph(*parsed, diags).ok()) return false;
  *graph = *std::move(parsed);
  return true;
}

const char* ProofText(Proof proof) {
  switch (proof) {
    case Proof::kNone: return "open";
    case Proof::kBound: return "bound";
    case Proof::kRefuted: return "refuted";
  }
  return "";
}

int Main(const std::vector<std::string>& only) {
  fmt::print("{:<30} {:>4} {:>6} {:>6} {:>8} {:>6} {:>8} {:>8} {:>9} {:>10} {:>7}\n", "graph",
             "ops", "bound", "II*", "proof", "II", "optimum", "II* in s", "all in s", "cached ms",
             "paper s");
  int failures = 0;
  for (const Row& row : kRows) {
    bool wanted = only.empty();
    for (const std::string& name : only) wanted = wanted || name == row.graph;
    if (!wanted) continue;
    Graph graph;
    if (!Load(row.graph, &graph)) {
      fmt::print("{:<30} cannot be read\n", row.graph);
      ++failures;
      continue;
    }
    DiagSink diags;
    SolveOptions first;
    first.optimize_secondary = false;
    const double start = Now();
    const Result<Solution> period = Solve(graph, first, diags);
    const double middle = Now();
    const Result<Solution> all = Solve(graph, {}, diags);
    const double end = Now();
    if (!period.ok() || !all.ok()) {
      fmt::print("{:<30} {}\n", row.graph, diags.all().empty() ? "" : diags.all()[0].message);
      ++failures;
      continue;
    }
    const Certificate& c = all->certificate;
    fmt::print("{:<30} {:>4} {:>6} {:>6} {:>8} {:>6} {:>8} {:>8.2f} {:>9.2f} {:>10.2f} {:>7}\n",
               row.graph, graph.ops.size(), c.bound.ii, c.ii, ProofText(c.proof), c.schedule_ii,
               c.objective_proved ? "proven" : "open", middle - start, end - middle,
               Cached(graph, *all), row.paper);
    std::fflush(stdout);
  }
  struct rusage usage {};
  getrusage(RUSAGE_SELF, &usage);
  fmt::print("epsilon {} %; most memory {} MB\n", SolveOptions().epsilon * 100,
             usage.ru_maxrss / 1024);
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tilec::scheduler

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (!words.empty() && words[0] == "--ablations") return tilec::scheduler::PrintAblations();
  if (!words.empty() && words[0] == "--growth")
    return tilec::scheduler::PrintGrowth(words.size() > 1 ? words[1] : "");
  return tilec::scheduler::Main(words);
}
