// The same input gives the same bytes: solved again, by several threads at a time, and by another
// build of the program. A sample of the tree's loops here; all of them with
//   ctest -C nightly -R determinism
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

#include "scheduler/solution_store.h"
#include "support/file.h"
#include "tests/replay/kept_solutions.h"
#include "tests/unit/scheduler/corpus.h"
#include "tests/unit/scheduler/test_graphs.h"

namespace tilec::scheduler {
namespace {

// A solution, or why there is none.
std::string AnswerText(const Graph& graph, const SolveOptions& options) {
  DiagSink diags;
  const Result<Solution> solution = Solve(graph, options, diags);
  if (solution.ok()) return ToText(*solution);
  std::string text;
  for (const Diagnostic& d : diags.all()) {
    text += d.message + "\n";
    for (const std::string& note : d.notes) text += "  " + note + "\n";
  }
  return text;
}

// Once in order, then by threads that take the graphs from both ends at the same time.
void ExpectSame(const std::vector<const CorpusLoop*>& loops) {
  const SolveOptions options = SolveOptions::ForCompilation();
  std::vector<std::string> first(loops.size());
  for (size_t i = 0; i < loops.size(); ++i)
    first[i] = AnswerText(loops[i]->extraction.graph, options);
  constexpr int kThreads = 4;
  std::vector<std::vector<std::string>> again(kThreads, std::vector<std::string>(loops.size()));
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (size_t i = static_cast<size_t>(t / 2); i < loops.size(); i += kThreads / 2) {
        const size_t at = t % 2 == 0 ? i : loops.size() - 1 - i;
        again[t][at] = AnswerText(loops[at]->extraction.graph, options);
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (int t = 0; t < kThreads; ++t)
    for (size_t i = 0; i < loops.size(); ++i)
      if (!again[t][i].empty()) {
        EXPECT_EQ(again[t][i], first[i]) << loops[i]->name;
      }
}

std::vector<const CorpusLoop*> Every(const std::vector<CorpusLoop>& corpus, size_t step) {
  std::vector<const CorpusLoop*> loops;
  for (size_t i = 0; i < corpus.size(); i += step) loops.push_back(&corpus[i]);
  return loops;
}

// How many loops the replay keeps an answer of (tests/replay/solutions.txt), which the solver must
// find still: replays look there, so they do not see that it finds another one.
int ExpectKept(const std::vector<const CorpusLoop*>& loops) {
  const std::string path = std::string(TILEC_SOURCE_DIR) + "/tests/replay/solutions.txt";
  std::string text, why;
  EXPECT_TRUE(ReadFile(path, &text, &why)) << why;
  replay::KeptSolutions kept(text);
  const SolveOptions options = SolveOptions::ForCompilation();
  int found = 0;
  for (const CorpusLoop* loop : loops) {
    const Graph& graph = loop->extraction.graph;
    const std::optional<std::string> known = kept.Get(SolutionKey(graph, options));
    if (!known) continue;
    const std::optional<Solution> before = SolutionFromText(graph, options, *known);
    if (!before) continue;  // given up
    ++found;
    DiagSink diags;
    const Result<Solution> now = Solve(graph, options, diags);
    if (!now.ok()) {
      ADD_FAILURE() << loop->name << " has no answer";
      continue;
    }
    EXPECT_EQ(ir::ToText(now->schedule), ir::ToText(before->schedule)) << loop->name;
    EXPECT_GE(now->lower_bound, before->lower_bound) << loop->name;
    EXPECT_TRUE(now->certificate.objective_proved || !before->certificate.objective_proved)
        << loop->name;
  }
  return found;
}

TEST(Determinism, KeptAnswersAreFound) {
  const std::vector<CorpusLoop> corpus = Corpus({"h200"});
  EXPECT_GE(ExpectKept(Every(corpus, 5)), 5);
}

// Takes minutes, as below.
TEST(Determinism, DISABLED_AllKeptAnswersAreFound) {
  const std::vector<CorpusLoop> corpus = Corpus({"h200", "b200"});
  const int found = ExpectKept(Every(corpus, 1));
  RecordProperty("found", found);
  EXPECT_GE(found, 40);
}

TEST(Determinism, SampleOfTheTree) {
  const std::vector<CorpusLoop> corpus = Corpus({"h200", "b200"});
  const std::vector<const CorpusLoop*> loops = Every(corpus, 34);
  EXPECT_GE(loops.size(), 7u);
  ExpectSame(loops);
}

// Takes minutes: by hand after a change of the scheduler, --gtest_also_run_disabled_tests.
TEST(Determinism, DISABLED_AllOfTheTree) {
  const std::vector<CorpusLoop> corpus = Corpus({"h200", "b200"});
  EXPECT_GE(corpus.size(), 250u);
  ExpectSame(Every(corpus, 1));
}

// Bytes that another compiler, another optimisation or a sanitizer must not change. After a change
// of the scheduler: UPDATE_GOLDEN=1.
TEST(Determinism, AcrossBuilds) {
  std::string text;
  for (const char* name :
       {"gemm_hopper", "gemm_blackwell", "attention_forward_hopper", "attention_forward_h200"})
    text += "# " + std::string(name) + "\n" + AnswerText(LoadGraph(name), {}) + "\n";
  const std::string path = std::string(TILEC_SOURCE_DIR) + "/tests/schedule/solutions.golden";
  std::string expected, why;
  if (std::getenv("UPDATE_GOLDEN") != nullptr) {
    ASSERT_TRUE(WriteFileAtomically(path, text, &why)) << why;
  }
  ASSERT_TRUE(ReadFile(path, &expected, &why)) << why;
  EXPECT_EQ(text, expected);
}

}  // namespace
}  // namespace tilec::scheduler
