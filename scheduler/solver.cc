// SPDX-License-Identifier: Apache-2.0
#include "scheduler/solver.h"

#include <fmt/format.h>
#include <z3++.h>

#include <algorithm>
#include <map>
#include <optional>

#include "support/check.h"
#include "support/heap.h"

namespace tilec::scheduler {

namespace {

// Two tables of a new context, of which all is written at once (Z3 4.8: 512 K entries each). They
// were nine tenths of what a context takes in a process that has no such pages yet.
constexpr size_t kTables = 18 << 20;

// Contexts of this thread that were given back: the next one finds their tables in the heap.
thread_local int given_back = 0;

struct Room {
  Room() {
    if (given_back > 0)
      --given_back;
    else
      MakeRoom(kTables);
  }
  ~Room() { ++given_back; }
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;
};

}  // namespace

struct Solver::Impl {
  const Formulas& formulas;
  Room room;  // in front of the context
  z3::context context;
  z3::solver solver;
  std::vector<z3::expr> bools, ints;
  std::map<unsigned, int> bool_of_ast;  // ast id of a plain Boolean → its index
  size_t clauses_read = 0;
  unsigned seed;
  bool interrupted = false;  // the last question ended without an answer
  std::optional<z3::model> model;
  std::vector<Lit> core;
  int64_t spent = 0, counted = 0;

  Impl(const Formulas& f, unsigned random_seed)
      : formulas(f), solver(context, "QF_IDL"), seed(random_seed) {
    Seed();
  }

  void Seed() {
    z3::params params(context);
    params.set("random_seed", seed);
    solver.set(params);
  }

  // A solver that was interrupted while it read clauses has read some of them by half (Z3 4.8.12:
  // later answers were `sat` with models that break clauses). So it is not asked again.
  void Renew() {
    solver = z3::solver(context, "QF_IDL");
    Seed();
    clauses_read = 0;
    interrupted = false;
  }

  // Whether the model satisfies every clause: an answer is not taken on trust.
  bool ModelHolds() const {
    std::vector<int64_t> value(ints.size());
    for (size_t i = 0; i < ints.size(); ++i)
      value[i] = model->eval(ints[i], true).get_numeral_int64();
    std::vector<int> holds(bools.size(), -1);  // of plain Booleans: not asked yet
    auto satisfied = [&](Lit lit) {
      const Atom& atom = formulas.atoms()[lit.var()];
      if (atom.is_difference()) return (value[atom.x] - value[atom.y] >= atom.c) != lit.negated();
      int& known = holds[lit.var()];
      if (known < 0) known = model->eval(bools[lit.var()], true).is_true() ? 1 : 0;
      return (known == 1) != lit.negated();
    };
    const auto& clauses = formulas.clauses();
    return std::all_of(clauses.begin(), clauses.end(), [&](const Clause& clause) {
      return std::any_of(clause.begin(), clause.end(), satisfied);
    });
  }

  z3::expr Expr(Lit lit) { return lit.negated() ? !bools[lit.var()] : bools[lit.var()]; }

  void Sync() {
    for (int i = static_cast<int>(ints.size()); i < formulas.num_ints(); ++i)
      ints.push_back(context.int_const(fmt::format("i{}", i).c_str()));
    for (int i = static_cast<int>(bools.size()); i < formulas.num_bools(); ++i) {
      const Atom& atom = formulas.atoms()[i];
      if (atom.is_difference()) {
        bools.push_back(ints[atom.x] - ints[atom.y] >= context.int_val(atom.c));
      } else {
        bools.push_back(context.bool_const(fmt::format("b{}", i).c_str()));
        bool_of_ast[Z3_get_ast_id(context, bools.back())] = i;
      }
    }
    const auto& clauses = formulas.clauses();
    for (; clauses_read < clauses.size(); ++clauses_read) {
      z3::expr_vector parts(context);
      for (Lit lit : clauses[clauses_read]) parts.push_back(Expr(lit));
      if (parts.empty())
        solver.add(context.bool_val(false));
      else
        solver.add(parts.size() == 1 ? parts[0] : z3::mk_or(parts));
    }
  }

  int64_t CountedSoFar() {
    z3::stats stats = solver.statistics();
    for (unsigned i = 0; i < stats.size(); ++i)
      if (stats.key(i) == "rlimit count") return stats.uint_value(i);
    return 0;
  }

  // What a question cost, whether Z3 counts by solver or by context, and `at_least` that: questions
  // that end in an exception are not free, or a budget never ends.
  void Charge(int64_t at_least) {
    const int64_t now = CountedSoFar();
    spent += std::max(now >= counted ? now - counted : now, at_least);
    counted = now;
  }
};

Solver::Solver(const Formulas& formulas, unsigned seed)
    : impl_(std::make_unique<Impl>(formulas, seed)) {}
Solver::~Solver() = default;

Answer Solver::Check(const std::vector<Lit>& assumptions, int64_t resource_limit) {
  Impl& s = *impl_;
  s.model.reset();
  s.core.clear();
  try {
    if (s.interrupted) s.Renew();
    s.Sync();
    s.solver.set("rlimit", static_cast<unsigned>(
                               std::clamp<int64_t>(resource_limit, 1, int64_t{4000000000})));
    z3::expr_vector given(s.context);
    for (Lit lit : assumptions) {
      CHECK(!s.formulas.atoms()[lit.var()].is_difference(), "assumptions are plain Booleans");
      given.push_back(s.Expr(lit));
    }
    const z3::check_result result = s.solver.check(given);
    s.Charge(0);
    if (result == z3::sat) {
      s.model = s.solver.get_model();
      s.interrupted = !s.ModelHolds();
      return s.interrupted ? Answer::kUnknown : Answer::kSat;
    }
    s.interrupted = result == z3::unknown;
    if (s.interrupted) return Answer::kUnknown;
    std::vector<bool> used(s.formulas.num_bools() * 2, false);
    z3::expr_vector core = s.solver.unsat_core();
    for (unsigned i = 0; i < core.size(); ++i) {
      z3::expr e = core[i];
      const bool negated = e.is_not();
      if (negated) e = e.arg(0);
      used[2 * s.bool_of_ast.at(Z3_get_ast_id(s.context, e)) + (negated ? 1 : 0)] = true;
    }
    for (Lit lit : assumptions)
      if (used[lit.code]) s.core.push_back(lit);
    return Answer::kUnsat;
  } catch (const z3::exception&) {
    // A limit inside Z3 (memory, resources): no answer.
    s.Charge(resource_limit);
    s.interrupted = true;
    return Answer::kUnknown;
  }
}

bool Solver::Value(Lit lit) const {
  Impl& s = *impl_;
  CHECK(s.model.has_value(), "no model");
  const bool value = s.model->eval(s.bools[lit.var()], true).is_true();
  return value != lit.negated();
}

int64_t Solver::Value(IntVar var) const {
  Impl& s = *impl_;
  CHECK(s.model.has_value(), "no model");
  const z3::expr value = s.model->eval(s.ints[var.index] - s.ints[0], true);
  return value.get_numeral_int64();
}

const std::vector<Lit>& Solver::core() const { return impl_->core; }
int64_t Solver::resources() const { return impl_->spent; }

std::string SolverVersion() {
  unsigned major = 0, minor = 0, build = 0, revision = 0;
  Z3_get_version(&major, &minor, &build, &revision);
  return fmt::format("{}.{}.{}", major, minor, build);
}

}  // namespace tilec::scheduler
