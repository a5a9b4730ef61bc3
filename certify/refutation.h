// A refutation as text, and its check: which laws contradict each other, which overflows were
// looked at, and a propositional proof of the contradiction. Nothing in it is believed. The laws
// are written down again from the graph (certify/encode.h), the covers added up, every lemma
// checked (certify/drat.h); there is no solver here.
//
//   proof GRAPH
//   hash 0123456789abcdef
//   ii CYCLES
//   core LAW OPS TEXT          # as in a certificate
//   cover …                    # certify/cover.h
//   drat
//   …
//   end
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "certify/cover.h"
#include "certify/encode.h"
#include "certify/laws.h"

namespace tilec::certify {

struct Refutation {
  std::string graph;
  uint64_t hash = 0;
  int64_t ii = 0;
  std::vector<std::string> core;  // `LAW OPS TEXT`
  std::vector<Cover> covers;
  std::string drat;
};

std::string ToText(const Refutation& refutation);
struct ParsedRefutation {
  Refutation refutation;
  int line = 0;         // of the problem, from 1; 0: of the whole
  std::string problem;  // empty where it can be read
};
ParsedRefutation ParseRefutation(std::string_view text);

// The clauses that its proof refutes; empty clauses where `problem` says why there are none.
struct Claim {
  Cnf cnf;
  std::string problem;
};
Claim ClausesOf(const scheduler::Graph& graph, const Refutation& refutation);

// Empty: the graph has no schedule with this initiation interval. Else why that is not shown.
std::string CheckRefutation(const scheduler::Graph& graph, const Refutation& refutation);

}  // namespace tilec::certify
