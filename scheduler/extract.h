// From tile IR to a scheduling problem: one loop body as ops with costs of a machine, after cutting
// its rows into slices.
//
//   * Every tile op of the body becomes an op, or one per slice; scalars, constants and ops that
//     only rename elements (broadcast, reshape, transpose, iota) cost nothing and vanish.
//   * Loads are filled by TMA into shared memory, one ring each; products read them
//     there, other ops through an inserted smem_load. Register tiles that a product reads as its
//     second operand go through an inserted smem_store.
//   * On machines with tensor memory products leave their results there: inserted tmem_load and
//     tmem_store ops carry values to and from registers.
//   * Beside the graph it says of each op which ops of the body it stands for; free ops and scalars
//     belong to whoever uses them and appear nowhere.
//   * Tiles that live around the loop take shared memory and registers away from it.
//   * Carried values become edges of distance 1 and more; accesses of one tensor that may touch the
//     same elements become order edges.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "ir/function.h"
#include "ir/target.h"
#include "scheduler/graph.h"

namespace tilec::scheduler {

// What a machine has for a loop that it runs alone.
MachineLimits LimitsOf(const ir::Target& target);

// Loops with no loop inside, in program order.
std::vector<ir::OpId> InnermostLoops(const ir::Function& fn);

// What one op of the graph executes.
enum class StepKind { kOp, kSmemLoad, kSmemStore, kTmemLoad, kTmemStore };
const char* Spelling(StepKind kind);  // of an inserted one, as its cost row is called

struct OriginStep {
  StepKind kind = StepKind::kOp;
  ir::OpId op;        // kOp: of the loop's body
  ir::ValueId value;  // its result (invalid if it has none); of inserted steps: the value moved
  Span at = {};       // kOp: in the source
  bool operator==(const OriginStep& o) const {
    return kind == o.kind && op == o.op && value == o.value;
  }
};

struct OpOrigin {
  // In an order in which they can run: ops contracted into the main one stand before it.
  std::vector<OriginStep> steps;
  int main = 0;    // index into steps: the op that the graph's op is named after
  int slice = -1;  // as GraphOp::slice

  std::vector<ir::OpId> members() const;  // the steps of kind kOp
};

struct Extraction {
  Graph graph;
  std::vector<OpOrigin> origins;  // by op of the graph
};

struct ExtractOptions {
  int slices = 1;  // one of the choices of ir::RowClasses(fn, loop)
  // False: values in registers stay in the role that makes them, so that each role computes one or
  // more whole slices. True: they may go to another by a store and a load (scheduler/crossing.h).
  bool role_crossing = false;
  // False: masks cost nothing (scheduler/body_facts.h), as where iterations that need them run code
  // of their own.
  bool masks_every_turn = false;
};

// `loop` is a `for` of a tile-level function. A body whose rows are cut already says so by the
// attribute `slice` of its ops; it is taken as it is (slices = 1). Cheap ops without a slice that
// only slices read are done by each slice: one op of the body, several of the graph.
Result<Extraction> ExtractLoop(const ir::Function& fn, ir::OpId loop, const ir::Target& target,
                               const ExtractOptions& options, DiagSink& diags);
inline Result<Extraction> ExtractLoop(const ir::Function& fn, ir::OpId loop,
                                      const ir::Target& target, int slices, DiagSink& diags) {
  return ExtractLoop(fn, loop, target, ExtractOptions{slices}, diags);
}

}  // namespace tilec::scheduler
