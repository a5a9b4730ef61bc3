// What the files of this folder share.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "explain/explain.h"
#include "ir/event_graph.h"

namespace tilec::explain {

// Cycle tables and lives from their definitions (facts.cc).
void ReadFacts(Explanation* e, const Proof& proof, const SourceMap& sources);

// The place a span begins, with its line.
Place PlaceOf(Span span, const SourceMap& sources);

// Order of each role's program, and what the program itself takes (events.cc).
void ReadEvents(Explanation* e);

// Bounds, verdict and its reasons (reasons.cc).
void ReadReasons(Explanation* e, const Proof& proof);

// "QK0 + PV0 + 4 more"; all of them up to `most`.
std::string Names(const scheduler::Graph& graph, const std::vector<int>& ops,
                  const std::string& between, size_t most = 12);

// Reasons about ops of the problem, as reasons about those of the graph.
std::vector<Reason> Shown(const Explanation& e, std::vector<Reason> reasons);

// A bound with the numbers that add up to it.
std::string BoundText(const scheduler::Graph& graph, const scheduler::Bound& bound);

// With how often it stands there in a row.
std::string TextOf(const ProgramLine& line);

// 1 "cycle", 2 "cycles".
std::string Count(int64_t n, const std::string& word);

// What a value takes: "64 registers", "32768 bytes", "128 columns".
std::string SizeText(const LifeFacts& life);

}  // namespace tilec::explain
