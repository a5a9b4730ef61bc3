// The ways in which a kernel may be compiled: an ordered, finite list, best first, made from what
// --schedule asks for before anything is solved or emitted. compile/search.h walks it.
//
// Invariants:
//   1. The list of a request without a schedule file ends in program order, which refuses nothing
//      but programs that cannot be compiled at all.
//   2. Of strategies that differ in their shape alone, one tile per CTA comes last.
//   3. The same request gives the same list.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compile/refusal.h"
#include "ir/target.h"

namespace tilec::compile {

// What becomes of the grid.
enum class Shape : uint8_t {
  kSplit,          // CTAs of a cluster share the iterations of a tile's loop
  kClustered,      // neighbours copy what they share once, and walk over tiles where they can
  kClusteredOnce,  // the same, one tile for each CTA
  kPersistent,     // one CTA for each SM, which walks over tiles
  kOnce,           // one tile per CTA
};

// Where the order of the loops' ops comes from.
enum class Order : uint8_t {
  kSolved,       // the solver; roles may divide a row slice
  kSolvedWhole,  // the solver; row slices stay whole
  kSolvedOne,    // the solver; one compute role works on all row slices
  kSolvedTwo,    // the solver; one compute role, whose two warpgroups have half of each tile
  kSolvedClose,  // the solver; one compute role, which uses what it makes as soon as its order
                 // allows
  kRule,         // products are moved one stage later
  kProgram,      // as written, by one role
};

struct Strategy {
  Shape shape = Shape::kOnce;
  int64_t ctas = 1;  // kSplit: for each tile; clusters: those that share copies, 1: the target's
  Order order = Order::kSolved;
  bool guard_masks = false;        // versions of iterations without masks
  int64_t withheld_registers = 0;  // of a thread, from the solver
  bool scheduled() const { return order != Order::kRule && order != Order::kProgram; }
  bool roles() const { return order != Order::kProgram; }
  bool operator==(const Strategy&) const = default;
};

// What --schedule and the sizes of the call ask for.
struct Wish {
  bool solve = true;              // false: program order
  int slices = 0;                 // of rows, a compute role each; 0: chosen
  bool from_file = false;         // the schedule is given, and never replaced by another
  bool persistent = true;         // may CTAs walk over tiles?
  bool clusters = false;          // they are to share copies, where that can be
  int64_t neighbours = 0;         // CTAs of a cluster that share copies; 0: as the target says
  bool share_copies = false;      // sharing copies comes before walking over tiles
  int64_t split = 1;              // CTAs for each tile, where that can be
  int64_t pack = 1;               // instances whose rows are one tile, where that can be
  int64_t along = 0;              // the range of the grid along which neighbours share copies
  bool stays = false;             // they are worth a long proof
  bool wants_persistent = false;  // it is said where they do not
  int64_t lacking = 0;            // registers to withhold from a program that lacks no more
};

std::vector<Strategy> Candidates(const Wish& wish);

const char* NameOf(Shape shape);
const char* NameOf(Order order);
// "persistent, solved, masks guarded, 16 registers withheld"
std::string ToText(const Strategy& strategy);

// What became of a strategy.
struct Decision {
  enum class Outcome : uint8_t { kTaken, kRefused, kPruned, kNotNeeded };
  Strategy strategy;
  Outcome outcome = Outcome::kNotNeeded;
  std::optional<Refusal> refusal;      // kRefused; kPruned: of the strategy that shares its cause
  int emissions = 0;                   // warp programs that were emitted for it
  double milliseconds = 0;             // that it took
  std::optional<double> predicted_us;  // a launch, by the model of whole kernels; a lower bound
};

// Must a strategy fail because another one was refused, for the same cause? Judged from the typed
// refusal, before anything is emitted.
bool SharesCause(const Strategy& refused, const Refusal& refusal, const Strategy& other,
                 const ir::Target& target);

}  // namespace tilec::compile
