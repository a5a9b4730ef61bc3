// What a schedule does and why it cannot be faster, as plain data and in forms for people and
// programs. Takes any graph and any schedule: solved, edited by hand, or wrong; says so where a law
// is broken. Decides nothing and contains no solver; whynot.h asks the scheduler.
//
//   Explain(graph, schedule, proof, sources) → Explanation → ToText, ToJson, ToSvg, ToHtml, ToTrace
//
// Every form is made from the Explanation alone, and its bytes depend on nothing else.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "explain/measured.h"
#include "ir/schedule.h"
#include "scheduler/scheduler.h"
#include "support/source.h"

namespace tilec::explain {

// A line of a source; line 0: unknown.
struct Place {
  std::string file;
  int line = 0, column = 0;
  std::string text;
};

// One op of iteration 0, beside what its GraphOp says.
struct OpFacts {
  int64_t cycle = 0, stage = 0, slot = 0;
  int role = 0;
  Place at;
  std::vector<Place> also;  // lines of ops that became part of it, without `at`'s
};

struct EdgeFacts {
  bool crosses = false;  // its ends are in different roles
  int64_t transfer = 0;  // charged: 0 inside a role
  int64_t slack = 0;     // cycles by which the reader could be earlier; negative: broken
};

// The life of one value, in cycles of iteration 0.
struct LifeFacts {
  int op = 0;
  std::string medium;                  // "registers", "smem", "tmem"
  int64_t begin = 0, end = 0;          // half open
  int last_reader = -1;                // op; −1: nobody reads it
  int64_t last_distance = 0;           // iterations from the value to that reader
  int64_t live = 0;                    // instances at the same time, at most
  int depth = 0;                       // of its ring; 0: no channel
  int64_t size = 0;                    // of one instance: registers per thread, bytes, columns
  std::vector<int> readers_elsewhere;  // roles
};

struct RoleFacts {
  std::vector<int> ops;                              // in the order of the program
  int64_t issue = 0;                                 // cycles of a period
  int64_t registers = 0;                             // peak, per thread
  int peak_at = -1;                                  // op at whose issue the peak is
  std::vector<std::pair<int, int64_t>> peak_values;  // op, instances; largest share first
  std::vector<int> waits;                            // edges from other roles into this one
};

struct UnitFacts {
  std::vector<int> ops;  // users by slot
  int64_t busy = 0;      // cycles of a period
};

// One reason, as a sentence.
struct Reason {
  std::string text;
  std::vector<int> ops;
};

// A circle of ops that takes the whole period.
struct Step {
  int op = 0;
  std::string why;  // how it holds up the next one
  int64_t cycles = 0;
};

// How sure it is that no schedule is faster.
struct Verdict {
  enum class Kind { kSmallest, kGap, kUnproved };
  Kind kind = Kind::kUnproved;
  int64_t lower_bound = 0;  // proved
  std::string text;
  std::vector<Reason> reasons;  // what binds
};

struct Answer {  // to one --why-not
  enum class Kind { kPossible, kImpossible, kUnknown };
  Kind kind = Kind::kUnknown;
  std::string question;  // "II=2047"
  std::string text;      // one sentence
  std::vector<Reason> reasons;
};

// A line of a role's program as it was lowered (program.h).
struct ProgramLine {
  int depth = 0;  // of loops and branches around it
  int times = 1;  // in a row
  std::string text;
  std::string reason;  // of a wait, signal or fence: why it is there
  Place at;
};

struct RoleProgram {
  std::string name;
  int warps = 0;
  int64_t registers = 0;       // quota; 0: none
  int waits = 0, signals = 0;  // in the text of the program
  std::vector<ProgramLine> lines;
};

struct Explanation {
  scheduler::Graph problem;  // what was solved
  scheduler::Graph graph;    // without the routes that this schedule does not take
  std::vector<int> shown;    // by op of the problem: its index in `graph`, −1: not there
  ir::Schedule schedule;
  scheduler::CheckReport report;
  std::optional<scheduler::Certificate> certificate;  // none: the schedule came from a file
  std::string unlike;  // why `schedule` is not the certificate's; "": it is
  bool certified() const { return certificate && unlike.empty(); }
  std::vector<scheduler::Bound> bounds;
  Verdict verdict;
  int64_t first_stage = 0;
  std::vector<OpFacts> ops;      // as graph.ops
  std::vector<EdgeFacts> edges;  // as graph.edges
  std::vector<LifeFacts> lives;  // of values that take room, in order of definition
  std::vector<RoleFacts> roles;  // as schedule.roles
  std::vector<UnitFacts> units;  // as graph.units
  std::vector<Step> circle;      // what the program itself takes, in order; empty: nothing recurs
  int64_t period = 0;            // of that circle; <= II
  std::vector<Answer> answers;
  std::vector<RoleProgram> program;  // empty: not asked for
  std::string program_note;          // how it relates to the schedule
  std::string plan;  // of the compiled program, as text (ir/plan_text.h); empty: none is compiled
  std::vector<Reason> notes;  // what else a reader should know: what was tried, what was left out
};

// What is known beside a graph and its schedule.
struct Proof {
  std::optional<scheduler::Certificate> certificate;
  int64_t lower_bound = 0;                      // 0: only the elementary bounds
  std::vector<std::vector<Span>> members = {};  // by op: places of everything it stands for
  // Why the schedule is not the one that was solved, as words behind "…% longer, ". "": it is.
  std::string unlike = "";
};

// The schedule must place every op of the graph (else a diagnostic); it may break any other law.
Result<Explanation> Explain(const scheduler::Graph& graph, const ir::Schedule& schedule,
                            const Proof& proof, const SourceMap& sources, DiagSink& diags);

// A minimised core as sentences with the graph's numbers; dependences that follow each other
// become one chain.
std::vector<Reason> Sentences(const scheduler::Graph& graph,
                              const std::vector<scheduler::CoreItem>& core, int64_t ii);

std::string ToText(const Explanation& e);
std::string ToJson(const Explanation& e);
// The timeline of a prologue, two steady periods and an epilogue, over the dependence graph.
std::string ToSvg(const Explanation& e);
// The same, with everything ToText says, as one page that needs no network.
std::string ToHtml(const Explanation& e);
// Chrome trace events of `iterations` iterations (one cycle is one microsecond), for Perfetto.
std::string ToTrace(const Explanation& e, int iterations, const Measured* measured = nullptr);

}  // namespace tilec::explain
