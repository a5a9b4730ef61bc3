// The only file that knows the SAT solver.
//
// SPDX-License-Identifier: Apache-2.0
#include "scheduler/sat_solver.h"

#include <cadical.hpp>

#include <algorithm>
#include <cstdio>

namespace tilec::scheduler {

SatResult SolveClauses(const certify::Cnf& cnf, int64_t conflict_limit) {
  SatResult result;
  std::FILE* file = std::tmpfile();
  if (file == nullptr) return result;
  int answer = 0;
  {
    CaDiCaL::Solver solver;
    solver.set("quiet", 1);
    solver.set("binary", 0);
    solver.trace_proof(file, "proof");
    solver.reserve(cnf.variables);
    for (const std::vector<int>& clause : cnf.clauses) {
      for (int lit : clause) solver.add(lit);
      solver.add(0);
    }
    solver.limit("conflicts", static_cast<int>(std::min<int64_t>(conflict_limit, INT32_MAX)));
    answer = solver.solve();
    if (answer == 10) {
      result.assignment.assign(static_cast<size_t>(cnf.variables) + 1, false);
      for (int v = 1; v <= cnf.variables; ++v) result.assignment[v] = solver.val(v) > 0;
    }
    solver.close_proof_trace();
  }
  if (answer == 20) {
    std::fflush(file);
    std::rewind(file);
    char buffer[1 << 16];
    for (size_t got = 0; (got = std::fread(buffer, 1, sizeof buffer, file)) > 0;)
      result.drat.append(buffer, got);
  }
  std::fclose(file);
  result.answer = answer == 20   ? SatAnswer::kUnsat
                  : answer == 10 ? SatAnswer::kSat
                                 : SatAnswer::kUnknown;
  return result;
}

}  // namespace tilec::scheduler
