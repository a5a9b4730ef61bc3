// Sequential lowering: tile IR → warp IR with one role that runs the program in its own order.
//
// Correct for every program of the language whose ops have a lowering, and what any program falls
// back to. TMA loads are issued by one elected thread, awaited at once by everybody; products are
// committed and awaited at once; every reuse of shared memory is separated by a CTA barrier and a
// proxy fence. No overlap is attempted: that is the scheduler's business.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "ir/lower/producer_share.h"
#include "ir/program_plan.h"
#include "ir/target.h"
#include "support/diag.h"

namespace tilec::ir {

// What a refusal asked for and did not find, in registers of a thread or bytes of a CTA.
struct LowerNeed {
  enum class What : uint8_t { kOther, kSharedMemory, kRegisters, kRegistersOfProducts };
  What what = What::kOther;
  int64_t needed = 0, available = 0;
};

// A plan as text, to be obeyed or refused in place of the planners' (ir/plan_text.h).
struct GivenPlan {
  std::string_view text;
  int32_t file = -1;  // id of `text` in the caller's SourceMap
};

// What a schedule says of the resources of its program: how deep rings are and what quotas the
// roles have. Also what a program has in the end, so that both can be compared.
struct ScheduledResources {
  struct Ring {
    Span load;  // one of the loads that fill it, by its place in the source
    int64_t slots = 1;
    bool around = false;  // of a loop around scheduled ones: a solved nest says how deep it is
  };
  std::vector<Ring> rings;
  // A loop around scheduled ones: cycles of an iteration, where iterations follow each other and
  // where the next begins when one is done.
  struct Nest {
    Span loop;
    int64_t period = 0, alone = 0;
    int64_t trips = 0;  // that were assumed of loops inside whose bounds do not say
  };
  std::vector<Nest> nests;
  std::vector<int64_t> registers;  // by compute role; 0: not decided
  int64_t load_registers = 0;      // of the producer
  // Obeyed or refused (somebody wrote them), or else a wish: rings are as deep as shared memory
  // allows, quotas as large as the register file, and the plan says what changed.
  bool binding = false;
};
// What the plan of `fn` has.
ScheduledResources ResourcesOf(const ProgramPlan& plan, const Function& fn);

struct SequentialOptions {
  // Roles: registers of a compute thread that tiles may not take (addresses, descriptors, counters,
  // and what ptxas needs to order them); a program that takes more is refused. −1: never refused.
  int64_t spare_registers = -1;
  // Then more where there are many products (pressure.h). Who brings a schedule has seen to that.
  bool spare_for_products = true;
  int warpgroups = 1;  // of each compute role, where there are several
  int share = 0;       // of the only one; 0: as many as its tiles ask for
  // The lowering itself changes these two where registers do not suffice. Elementwise work that
  // only a store reads is done by slices of columns where it stores.
  bool slice_epilogues = false;
  // Roles: what stands behind a loop of products and loads a few registers does so while the last
  // products are in flight.
  bool early_loads = true;
  // Roles: what stores do in loops that leave as a whole through shared memory.
  enum class Staging : uint8_t {
    kDrains,  // they have bytes of their own, and their copies are awaited where they store again
    kTurns,   // likewise, but those of the loop over tiles are awaited at once
    kShares,  // likewise, and stores that leave by panels one after another have the same bytes
    kAwaits,  // they are awaited at once, and others use their bytes meanwhile
  };
  Staging staging = Staging::kDrains;
  // Roles: loads of an iteration whose readers are products share slots (channels.h).
  bool joined_rings = false;
  // Roles: threads of the load role bring what no engine copies (bring.h). Where that leaves the
  // others too few registers the lowering does without.
  bool bring = true;
  // Roles: rings around other loops are as deep as the nest says; else they have one slot.
  bool outer_slots = false;
  bool next_tile = false;     // they have two at least: the load role runs on to the next tile
  LowerNeed* need = nullptr;  // receives why the lowering refuses
  NoProducer* no_producer = nullptr;  // Specialize: receives why there is one role in the end
  const ScheduledResources* scheduled = nullptr;
  const GivenPlan* plan = nullptr;  // fails with I27x or I28x where it cannot be obeyed
};

// `fn` is a verified tile function; the result is a warp function of the same signature.
// `made`, if given, receives the plan of the program.
Result<Function> Sequentialize(const Function& fn, const Target& target,
                               const SequentialOptions& options, DiagSink& diags,
                               ProgramPlan* made = nullptr);

// The same program by two kinds of roles: one elected thread of a load warp runs ahead and fills
// rings of shared memory by TMA, the compute warpgroups read them; full and empty mbarriers
// between. What the compute role does stays in program order. `specialized` tells whether the
// kernel took that form (it needs TMA loads inside a loop whose control the load role can
// recompute); otherwise the result is Sequentialize's.
Result<Function> Specialize(const Function& fn, const Target& target,
                            const SequentialOptions& options, bool* specialized, DiagSink& diags,
                            ProgramPlan* made = nullptr);

}  // namespace tilec::ir
