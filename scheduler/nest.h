// A nest: the loop over the tiles that a persistent kernel works on, with the inner loops already
// scheduled. An inner loop becomes a unit: one op per role of its schedule, which keeps that role's
// instruction stream busy from its first iteration to its last and takes what all its iterations
// take of every unit of the machine. What stands before and after the inner loops are ops like any
// other. The graph is solved like any other, and its initiation interval is what a tile costs when
// tiles follow each other without end.
//
// What the graph says of a unit:
//   * `part=NAME`: its ops run at the same time, so no two of them share a role.
//   * begin: the op of a role starts so many cycles after the first one's (an order edge).
//   * The rings of the inner loop stay where they are: they are taken off shared memory. The loads
//     of the next tile may run ahead into the slots that the last iterations of this one have
//     freed.
//   * Units of the machine are fluid: inside a unit the inner schedule has proved the interleaving,
//     outside it an op finds on average what the inner loops leave.
//
// A role executes what stands around its loops in the order of the program, and one iteration after
// the other: a tile held over an inner loop would take registers from it. Order edges say so, in
// the load role and among the ops of each slice. So what a solved nest decides is how many tiles of
// the loads around inner loops are in flight (the depth of their rings), and what a tile costs.
//
// A branch around inner loops counts as if both of its arms ran.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "scheduler/program_cut.h"

namespace tilec::scheduler {

// What one role of a scheduled inner loop does during `trips` turns.
struct UnitPart {
  std::string role;
  int warps = 0;
  bool load = false;
  int slice = -1;
  int64_t begin = 0;          // after the unit's first op
  int64_t busy = 0;           // of its instruction stream, first to last iteration
  int64_t latency = 0;        // until the results of its last iteration exist
  std::vector<UnitUse> uses;  // cycles of all iterations
};

struct UnitProfile {
  int64_t trips = 0, length = 0;
  int64_t ring_bytes = 0;  // of all its rings, with their barriers
  int64_t ahead = 0;       // cycles before its end at which the next loads find a free slot
  std::vector<UnitPart> parts;
};

UnitProfile ProfileOf(const Graph& graph, const ir::Schedule& schedule, int64_t trips);

struct Nest {
  Graph graph;
  std::vector<ir::OpId> ops;  // of the program, by op of the graph
  int64_t alone = 0;          // cycles of one tile, if the next only begins when it is done
  int64_t trips = 0;          // of loops inside whose bounds do not say
  int64_t inside = 0;         // bytes of the rings of those loops
};

// A loop inside of a nest, with its schedule: an innermost one, or a nest itself.
struct InnerLoop {
  const Graph* graph = nullptr;
  const ir::Schedule* schedule = nullptr;
  int64_t inside = 0;  // bytes of the rings of loops inside of it
};
using InnerLoops = std::map<ir::OpId, InnerLoop>;
// The innermost loops of `cut` that have a schedule.
InnerLoops InnerLoopsOf(const CutProgram& cut);

// The nest of one loop (`for`, or the `parallel` over tiles) whose body holds loops of `inner`,
// each of which runs as often as its bounds say, or `trips` times where they do not. Fails where it
// holds none, or something that has no schedule (S350).
Result<Nest> ExtractNest(const CutProgram& cut, ir::OpId loop, const InnerLoops& inner,
                         const ir::Target& target, int64_t trips, DiagSink& diags);

// The same of the loop around the first of `cut`'s loops, which all stand in it.
Result<Nest> ExtractNest(const CutProgram& cut, const ir::Target& target, int64_t trips,
                         DiagSink& diags);

// Solves the nests of `cut`, inner ones first, into cut.schedule.nests, and adds the rings that
// they decide to cut.schedule.resources. What has no form for it keeps one slot a ring, as its
// report says.
void SolveNests(CutProgram& cut, const ProgramOptions& options);

// "tiles overlap: 8704 cycles for each instead of 10240 (15.0 % saved)", or that nothing can be
// won.
std::string Gain(const Nest& nest, const Solution& solution);

}  // namespace tilec::scheduler
