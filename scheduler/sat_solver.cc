// The only file that knows the SAT solver.
//
// SPDX-License-Identifier: Apache-2.0
#include <cadical.hpp>

#include <algorithm>
#include <cstdio>

#include "scheduler/drat.h"

namespace tilec::scheduler {

SatAnswer SolveWithProof(const Cnf& cnf, int64_t conflict_limit, std::string* proof) {
  std::FILE* file = std::tmpfile();
  if (file == nullptr) return SatAnswer::kUnknown;
  int answer = 0;
  {
    CaDiCaL::Solver solver;
    solver.set("quiet", 1);
    solver.set("binary", 0);
    solver.trace_proof(file, "proof");
    for (const std::vector<int>& clause : cnf.clauses) {
      for (int lit : clause) solver.add(lit);
      solver.add(0);
    }
    solver.limit("conflicts", static_cast<int>(std::min<int64_t>(conflict_limit, INT32_MAX)));
    answer = solver.solve();
    solver.close_proof_trace();
  }
  if (answer == 20) {
    std::fflush(file);
    std::rewind(file);
    proof->clear();
    char buffer[1 << 16];
    for (size_t got = 0; (got = std::fread(buffer, 1, sizeof buffer, file)) > 0;)
      proof->append(buffer, got);
  }
  std::fclose(file);
  if (answer == 20) return SatAnswer::kUnsat;
  return answer == 10 ? SatAnswer::kSat : SatAnswer::kUnknown;
}

}  // namespace tilec::scheduler
