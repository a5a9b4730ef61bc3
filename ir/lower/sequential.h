// Sequential lowering: tile IR → warp IR with one role that runs the program in its own order.
//
// Correct for every program of the language whose ops have a lowering, and what any program falls
// back to. TMA loads are issued by one elected thread, awaited at once by everybody; products are
// committed and awaited at once; every reuse of shared memory is separated by a CTA barrier and a
// proxy fence. No overlap is attempted: that is the scheduler's business.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/function.h"
#include "ir/target.h"
#include "support/diag.h"

namespace tilec::ir {

// What a refusal asked for and did not find, in registers of a thread or bytes of a CTA.
struct LowerNeed {
  enum class What : uint8_t { kOther, kSharedMemory, kRegisters, kRegistersOfProducts };
  What what = What::kOther;
  int64_t needed = 0, available = 0;
};

struct SequentialOptions {
  // Roles: registers of a compute thread that tiles may not take (addresses, descriptors, counters,
  // and what ptxas needs to order them); a program that takes more is refused. −1: never refused.
  int64_t spare_registers = -1;
  // Then more where there are many products (pressure.h). Who brings a schedule has seen to that.
  bool spare_for_products = true;
  int warpgroups = 1;  // of each compute role, where there are several
  // The lowering itself changes these two where registers do not suffice. Elementwise work that
  // only a store reads is done by slices of columns where it stores.
  bool slice_epilogues = false;
  // Roles: what stands behind a loop of products and loads a few registers does so while the last
  // products are under way.
  bool early_loads = true;
  LowerNeed* need = nullptr;  // receives why the lowering refuses
};

// `fn` is a verified tile function; the result is a warp function of the same signature.
Result<Function> Sequentialize(const Function& fn, const Target& target,
                               const SequentialOptions& options, DiagSink& diags);

// The same program by two kinds of roles: one elected thread of a load warp runs ahead and fills
// rings of shared memory by TMA, the compute warpgroups read them; full and empty mbarriers
// between. What the compute role does stays in program order. `specialized` tells whether the
// kernel took that form (it needs TMA loads inside a loop whose control the load role can
// recompute); otherwise the result is Sequentialize's.
Result<Function> Specialize(const Function& fn, const Target& target,
                            const SequentialOptions& options, bool* specialized, DiagSink& diags);

}  // namespace tilec::ir
