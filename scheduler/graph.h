// The problem a scheduler solves: the ops of one loop body, what each costs, what depends on what,
// and the machine they share. Made from tile IR (scheduler/extract.h) or read from a text file, so
// that the scheduler serves people without a .tile program.
//
// Units are cycles of one SM, bytes, 32-bit registers per thread, warps.
//
// Meaning (docs/scheduler.md has the full formulation):
//   * Op v issues at t(v) + i·II in iteration i. Its role's instruction stream is busy for
//     [t, t + issue); each unit f it uses is reserved for [t, t + occupancy(f)); its result exists
//     from t + latency.
//   * Edge u → v (distance δ): t(v) + δ·II >= t(u) + delay, plus `transfer` if the roles of u and v
//     differ. A register edge with δ >= 1 ties its ends into one role.
//   * The value of u lives from t(u) to the last t(y) + δ·II + hold over its value edges u → y
//     (half open). While it lives it takes u.smem_bytes / u.tmem_columns of the SM, and u.regs
//     registers per thread of u's role.
//   * A ring of depth D for a value in shared memory: II·D >= life length; D slots are paid for.
//   * Parts of one unit run at the same time: no two of them share a role.
//   * A register edge may have a route: a store and a load that exist where its ends are in two
//     roles, and only there. The value then goes u → store → ring in shared memory → load → v, the
//     store in u's role, the load in v's, and everything they cost is paid. Edges from one u may
//     share its store; a load belongs to one edge.
//   * Variable-latency ops sit in the load role and nothing else does. A streaming op has no
//     incoming edge from this iteration: it may run ahead, its cycle is free, its ring depth is
//     decided.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "support/diag.h"
#include "support/result.h"
#include "support/source.h"

namespace tilec::scheduler {

struct Unit {
  std::string name;  // "tensor", "mufu", "alu", "tma", "issue", …
  int64_t capacity = 1;
  // A law on average only: Σ cycles <= capacity·II, no reservation in any one cycle. For resources
  // that hardware shares out finely, such as issue slots beside a running tensor core.
  bool fluid = false;
};

struct UnitUse {
  int unit = 0;        // index into Graph::units
  int64_t cycles = 0;  // contiguous, from issue
};

struct GraphOp {
  std::string name;
  std::string kind;  // for people: "dot", "exp2", "tma_load"
  int64_t issue = 0;
  int64_t latency = 0;
  std::vector<UnitUse> uses;
  int warps = 4;           // width: all warps of its role execute it
  int64_t regs = 0;        // of its value, per thread of its role
  int64_t smem_bytes = 0;  // of its value, per ring slot
  int64_t tmem_columns = 0;
  bool variable_latency = false;
  bool streaming = false;
  bool async = false;   // completes behind its role's back (tensor core, TMA)
  bool routed = false;  // store or load of a route: exists where an edge through it crosses
  int slice = -1;       // row slice, −1: shared; slices may be interchangeable
  std::string part;     // of the unit with this name (scheduler/nest.h); "": of none
  Span at;              // line of the .tile or .graph file
};

enum class EdgeKind { kRegister, kSmem, kTmem, kOrder };

struct GraphEdge {
  int from = 0, to = 0;  // indices into ops
  EdgeKind kind = EdgeKind::kRegister;
  int64_t delay = 0;          // usually latency of `from`
  int64_t distance = 0;       // iterations
  int64_t transfer = 0;       // extra delay when the roles differ
  int64_t hold = 0;           // cycles after the reader's issue during which it still reads
  bool crossable = true;      // false: both ends must share a role
  int store = -1, load = -1;  // indices into ops: the route between roles; −1: none
  bool HasRoute() const { return store >= 0; }
};

struct MachineLimits {
  std::string name;
  int64_t smem_bytes = 232448;
  int64_t tmem_columns = 0;
  int64_t max_regs_per_thread = 240;  // of a compute role, what the model may fill
  int64_t registers = 65536;          // 32-bit registers of the SM
  int64_t max_warps = 16;
  int64_t barrier_bytes = 16;  // full + empty mbarrier of a ring slot
};

struct Graph {
  std::string name;
  MachineLimits machine;
  std::vector<Unit> units;
  std::vector<GraphOp> ops;
  std::vector<GraphEdge> edges;
  // Pins: decisions taken by the author. −1 / 0: free. What the lowering adds (one role for each
  // slice, scheduler/program.h) ties roles and has no place.
  struct Pin {
    std::string op;
    int64_t cycle = -1;
    int stage = -1;
    std::string same_role_as;
    int depth = 0;
    Span at;
    bool OfAuthor() const { return at.known() || cycle >= 0 || stage >= 0 || depth > 0; }
  };
  std::vector<Pin> pins;

  int FindOp(std::string_view op_name) const;  // −1: none
  int FindUnit(std::string_view unit_name) const;
};

// The op works that much longer on the unit: an op that used one twice would have no place at all.
void AddUse(GraphOp* op, const UnitUse& use);

// Text form, documented in docs/scheduler.md; printing then parsing is the identity.
std::string ToText(const Graph& graph);
Result<Graph> ParseGraph(std::string_view text, int32_t file, DiagSink& diags);
// Names resolve, no negative cost, no zero-distance cycle, uses fit units, …: diagnostics with the
// place. Everything downstream assumes a sound graph.
Result<> CheckGraph(const Graph& graph, DiagSink& diags);
// Content hash of the text form (places not included).
uint64_t Hash(const Graph& graph);

}  // namespace tilec::scheduler
