// A proof by what relates the iterations of roles: walked with most of it forgotten first, for that
// makes fewest states, and with more of it where that is no proof.
//
// SPDX-License-Identifier: Apache-2.0
#include <optional>

#include "ir/warp_check/machine.h"
#include "ir/warp_check/walk.h"

namespace tilec::ir::warp_check {

namespace {

// What was proved with iterations unrelated took less than a tenth of all ops that a proof may.
constexpr int64_t kUnrelatedShare = 8;

Walked WalkAll(Machine& machine, const WarpCheckOptions& options, WarpCheckStats* stats) {
  WalkProgress progress;
  return WalkOn(machine, options, stats, &progress);
}

}  // namespace

// One program, with what is forgotten of lonely branches first, then without; if that is no proof,
// with what is forgotten of how iterations are related; if that has no end, of carried scalars.
Walked WalkRelated(const Program& program, const WarpCheckOptions& options, WarpCheckStats* stats,
                   std::optional<Finding>* finding) {
  Terms terms;
  Machine machine(program, terms);
  machine.ops_limit = options.max_ops;
  const bool forgets = program.nests && !program.lonely.empty();
  std::optional<Finding> first;  // before iterations were taken to be unrelated
  std::optional<Finding> early;  // before more iterations were told apart
  machine.forget = forgets;
  // What is forgotten or told apart is another, and so many ops more may be walked.
  const auto begin_again = [&](int64_t ops) {
    machine.forget = forgets;
    machine.ForgetUses();
    machine.ForgetFinding();
    machine.ops_limit = machine.ops() + ops;
    Restart(stats);
  };
  const auto found = [&](const std::optional<Finding>& what) {
    stats->uses = machine.uses();
    *finding = what;
    return Walked::kFound;
  };
  while (true) {
    machine.learned = false;
    Walked walked = WalkAll(machine, options, stats);
    if (machine.learned && walked != Walked::kTooLarge) {
      machine.ForgetFinding();
      continue;
    }
    // More states are told apart without it. (None of fifteen programs was proved then.)
    if (machine.forget && walked == Walked::kTooLarge && !options.widen) return walked;
    if (machine.forget && walked != Walked::kProved) {
      machine.forget = machine.none_fits = false;
      machine.ForgetUses();  // some were of branches that exclude each other
      machine.ForgetFinding();
      Restart(stats);
      continue;
    }
    const bool related = !machine.widen && !machine.unrelated;  // nothing of it is forgotten yet
    if (walked == Walked::kFound && !machine.late && related && machine.MetLate()) {
      early = machine.finding();
      machine.late = true;
      begin_again(options.max_ops);
      continue;
    }
    if (walked == Walked::kTooLarge && early && related) return found(early);
    if (walked != Walked::kProved && related && options.widen && machine.MetRelated()) {
      first = machine.finding();
      machine.unrelated = true;
      machine.none_fits = false;
      begin_again(options.max_ops / kUnrelatedShare);
      continue;
    }
    if (machine.unrelated && walked != Walked::kProved) {
      machine.unrelated = false;
      machine.ForgetFinding();
      // What relates iterations was not needed to go wrong.
      if (first) return found(first);
      walked = Walked::kTooLarge;
    }
    if (walked == Walked::kTooLarge && !machine.widen && options.widen) {
      machine.widen = true;
      machine.none_fits = false;
      begin_again(options.max_ops);
      continue;
    }
    if (walked == Walked::kProved && !machine.none_fits && machine.AskedFarOff()) {
      machine.none_fits = true;
      machine.ops_limit = machine.ops() + options.max_ops;
      continue;
    }
    stats->uses = machine.uses();
    // Roles that forget what they agreed on may seem to hang: that is no finding.
    if (machine.widen && walked == Walked::kFound) return Walked::kTooLarge;
    *finding = machine.finding();
    return walked;
  }
}

}  // namespace tilec::ir::warp_check
