// Solutions from a store are the ones that went in, or solved again.
//
// SPDX-License-Identifier: Apache-2.0
#include "scheduler/solution_store.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>

#include "scheduler/diagnostics.h"
#include "tests/unit/scheduler/test_graphs.h"

namespace tilec::scheduler {
namespace {

struct MapStore : SolutionStore {
  std::map<std::string, std::string> texts;
  int hits = 0, puts = 0;
  std::optional<std::string> Get(const std::string& key) override {
    const auto it = texts.find(key);
    if (it == texts.end()) return std::nullopt;
    ++hits;
    return it->second;
  }
  void Put(const std::string& key, const std::string&, const std::string& solution) override {
    ++puts;
    texts[key] = solution;
  }
};

TEST(SolutionStore, GivesBackWhatWentIn) {
  const Graph graph = LoadGraph("attention_forward_hopper");
  MapStore store;
  DiagSink diags;
  const Result<Solution> first = SolveStored(graph, {}, &store, diags);
  ASSERT_TRUE(first.ok());
  const Result<Solution> second = SolveStored(graph, {}, &store, diags);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(store.hits, 1);
  EXPECT_EQ(store.puts, 1);
  EXPECT_EQ(ToText(*first), ToText(*second));
  EXPECT_EQ(first->gap(), second->gap());
}

// A search that ran out of its budget is not made again: the same is said of it.
TEST(SolutionStore, WhatWasGivenUpIsKept) {
  const Graph graph = LoadGraph("attention_forward_hopper");
  SolveOptions options;
  options.resource_limit = 10;
  options.modulo_scheduling = false;
  MapStore store;
  DiagSink first, second;
  EXPECT_FALSE(SolveStored(graph, options, &store, first).ok());
  EXPECT_EQ(store.puts, 1);
  EXPECT_FALSE(SolveStored(graph, options, &store, second).ok());
  EXPECT_EQ(store.hits, 1);
  EXPECT_EQ(store.puts, 1);
  ASSERT_EQ(second.all().size(), 1u);
  EXPECT_EQ(second.all()[0].def, &kOutOfBudget);
  EXPECT_EQ(second.all()[0].message, first.all()[0].message);
  EXPECT_EQ(second.all()[0].span.begin, first.all()[0].span.begin);
  // Damage is solved again, and so is a graph that nothing was said of.
  store.texts.begin()->second = "given";
  EXPECT_FALSE(SolveStored(graph, options, &store, second).ok());
  EXPECT_EQ(store.puts, 2);
  EXPECT_TRUE(SolveStored(graph, {}, &store, second).ok());
}

// What `schedule_bench` measures is 0.02 to 0.12 ms; the claim is 5. The best of many, so that a
// busy machine does not fail it.
TEST(SolutionStore, GivesBackWithinFiveMilliseconds) {
  for (const char* name :
       {"gemm_hopper", "attention_forward_hopper", "attention_forward_blackwell"}) {
    const Graph graph = LoadGraph(name);
    MapStore store;
    DiagSink diags;
    ASSERT_TRUE(SolveStored(graph, {}, &store, diags).ok());
    double best = 1e9;
    for (int i = 0; i < 20; ++i) {
      const auto start = std::chrono::steady_clock::now();
      ASSERT_TRUE(SolveStored(graph, {}, &store, diags).ok());
      const std::chrono::duration<double, std::milli> spent =
          std::chrono::steady_clock::now() - start;
      best = std::min(best, spent.count());
    }
    EXPECT_EQ(store.hits, 20);
    EXPECT_LT(best, 5) << name;
  }
}

TEST(SolutionStore, EveryInputCounts) {
  const Graph graph = LoadGraph("gemm_hopper");
  const std::string key = SolutionKey(graph, {});
  Graph other = graph;
  other.ops[2].latency += 1;
  EXPECT_NE(SolutionKey(other, {}), key);
  SolveOptions options;
  options.epsilon = 0.02;
  EXPECT_NE(SolutionKey(graph, options), key);
  options = {};
  options.fixed_ii = 1100;
  EXPECT_NE(SolutionKey(graph, options), key);
  EXPECT_NE(SolutionKey(graph, SolveOptions::ForCompilation()), key);
}

TEST(SolutionStore, DamageIsSolvedAgain) {
  const Graph graph = LoadGraph("gemm_hopper");
  MapStore store;
  DiagSink diags;
  const Result<Solution> first = SolveStored(graph, {}, &store, diags);
  ASSERT_TRUE(first.ok());
  const std::string good = store.texts.begin()->second;
  int rejected = 0;
  for (size_t at = 0; at < good.size(); at += 5) {
    std::string bad = good;
    bad[at] = bad[at] == '7' ? '8' : '7';
    const std::optional<Solution> solution = SolutionFromText(graph, {}, bad);
    if (solution)
      EXPECT_TRUE(Check(graph, solution->schedule).violations.empty());
    else
      ++rejected;
  }
  EXPECT_GT(rejected, 20);
  store.texts.begin()->second = good.substr(0, good.size() / 2);
  const Result<Solution> again = SolveStored(graph, {}, &store, diags);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(ToText(*again), good);
  EXPECT_EQ(store.puts, 2);
}

}  // namespace
}  // namespace tilec::scheduler
