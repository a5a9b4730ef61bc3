// Solves the graphs of tests/schedule from scratch, one after the other, on one core, and prints
// what was proven and how long it took, beside the times that the Twill paper reports for its
// solver on one core of a large server (arXiv 2512.18134).
//
//   schedule_bench [NAME…]             fails where it misses what is asked of it
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
#include "scheduler/first_answer.h"
#include "scheduler/scheduler.h"
#include "scheduler/search.h"
#include "scheduler/solution_store.h"
#include "scheduler/to_schedule.h"
#include "support/file.h"

namespace tilec::scheduler {
namespace {

// What we hold ourselves to: II* and the objective proved in so many seconds; or, of the backward
// passes, a gap of II.
struct Row {
  const char* graph;
  const char* paper;  // seconds
  double seconds;     // 0: nothing is asked
  double gap;         // of II, in percent; 0: the objective must be proved too
};
constexpr Row kRows[] = {
    {"gemm_hopper", "", 0.3, 0},
    {"gemm_blackwell", "", 0.3, 0},
    {"attention_forward_hopper", "28", 4, 0},
    {"attention_backward_hopper", "88", 60, 1},
    {"attention_forward_blackwell", "19", 20, 0},
    {"attention_backward_blackwell", "269", 60, 1},
    {"attention_forward_h200", "", 0, 0},
};
constexpr double kFirstSeconds = 1, kCachedMs = 5;
constexpr long kMegabytes = 2048;

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

// Seconds of processor time to the first lawful schedule, and its II.
std::pair<double, int64_t> First(const Graph& graph) {
  const double start = Now();
  const std::optional<Search::Found> found = FirstAnswer(graph, {}, BestBound(graph).ii);
  const double end = Now();
  const bool lawful = found && Check(graph, ToSchedule(graph, {}, *found)).violations.empty();
  return {end - start, lawful ? found->ii : 0};
}

int Main(const std::vector<std::string>& only) {
  fmt::print(
      "{:<30} {:>3} {:>7} {:>5} {:>5} {:>8} {:>5} {:>5} {:>7} {:>8} {:>8} {:>6} {:>7} {:>7}\n",
      "graph", "ops", "first s", "II", "II*", "proof", "gap %", "II", "optimum", "II* in s",
      "all in s", "kept", "paper s", "asked s");
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
    const auto [first, first_ii] = First(graph);
    SolveOptions smallest;
    smallest.optimize_secondary = false;
    const double start = Now();
    const Result<Solution> period = Solve(graph, smallest, diags);
    const double middle = Now();
    const Result<Solution> all = Solve(graph, {}, diags);
    const double end = Now();
    if (!period.ok() || !all.ok()) {
      fmt::print("{:<30} {}\n", row.graph, diags.all().empty() ? "" : diags.all()[0].message);
      ++failures;
      continue;
    }
    const Certificate& c = all->certificate;
    const double cached = Cached(graph, *all);
    const bool gap = row.gap > 0;
    const bool proved = gap ? 100 * period->gap() <= row.gap
                            : all->gap() == 0 && c.proof != Proof::kNone && c.objective_proved;
    const bool met = row.seconds == 0 ||
                     (proved && (gap ? middle - start : end - middle) <= row.seconds &&
                      first_ii > 0 && first <= kFirstSeconds && cached >= 0 && cached <= kCachedMs);
    fmt::print(
        "{:<30} {:>3} {:>7.3f} {:>5} {:>5} {:>8} {:>5.2f} {:>5} {:>7} {:>8.2f} {:>8.2f} {:>6.2f} "
        "{:>7} {:>7}{}\n",
        row.graph, graph.ops.size(), first, first_ii, c.ii, ProofText(c.proof), 100 * all->gap(),
        c.schedule_ii, c.objective_proved ? "proven" : "open", middle - start, end - middle, cached,
        row.paper, row.seconds > 0 ? fmt::format("{}", row.seconds) : "", met ? "" : "  MISSED");
    failures += met ? 0 : 1;
    std::fflush(stdout);
  }
  struct rusage usage {};
  getrusage(RUSAGE_SELF, &usage);
  const long megabytes = usage.ru_maxrss / 1024;
  fmt::print(
      "processor seconds; epsilon {} %: the optimum is of all schedules with II <= II* plus that; "
      "kept: ms to get a solution back\nmost memory {} MB of {}\n",
      SolveOptions().epsilon * 100, megabytes, kMegabytes);
  if (megabytes > kMegabytes) ++failures;
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
