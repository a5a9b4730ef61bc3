// SPDX-License-Identifier: Apache-2.0
#include "ir/warp_check/agreed_walk.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "ir/warp_check/agreement.h"
#include "ir/warp_check/machine.h"

namespace tilec::ir::warp_check {

struct AgreedWalk {
  AgreedWalk(const Program& program, bool tell_apart, bool by_place)
      : aside(tell_apart && program.LiesOverRings() ? std::make_unique<Program>(program.fn, true)
                                                    : nullptr),
        agreement(aside ? *aside : program, by_place),
        machine(aside ? *aside : program, constants) {
    machine.agreed = &agreement;
    apart = (tell_apart && machine.TellApart()) || aside;
  }
  // With these limits, from where it stands.
  Walked On(const WarpCheckOptions& options, WarpCheckStats* stats) {
    if (ended && !Cut()) return *ended;
    machine.ops_limit = std::min(options.max_ops, kMostNestOps);
    WarpCheckOptions limits = options;
    limits.max_states = std::min(options.max_states, kMostAgreedStates);
    ended = WalkOn(machine, limits, stats, &progress);
    return *ended;
  }
  // It came to its limit of ops, so with more of them it may end otherwise.
  bool Cut() const { return ended == Walked::kTooLarge && machine.ops() > machine.ops_limit; }

  const std::unique_ptr<const Program> aside;
  const Agreement agreement;
  Terms constants;
  Machine machine;
  WalkProgress progress;
  bool apart = false;
  std::optional<Walked> ended;  // of the last limits
};

AgreedWalks::AgreedWalks(const Program& program) : program_(program) {}
AgreedWalks::~AgreedWalks() = default;

// Slots are taken to be apart first (apart.cc); if that is no proof, they are not.
Walked AgreedWalks::Walk(const WarpCheckOptions& options, WarpCheckStats* stats) {
  // (Which persistent CTAs stay was chosen by measuring what was proved without.)
  return WalkAs({options.apart && options.agree_depth <= kNestDepth, false}, options, stats);
}

// What two loops one after the other have in common is forgotten where the walk has no end with it.
Walked AgreedWalks::WalkAs(How how, const WarpCheckOptions& options, WarpCheckStats* stats) {
  const auto [tell_apart, by_place] = how;
  std::unique_ptr<AgreedWalk>& walk = walks_[how];
  if (!walk) walk = std::make_unique<AgreedWalk>(program_, tell_apart, by_place);
  const Walked walked = walk->On(options, stats);
  if (walked == Walked::kProved) {
    stats->uses = walk->machine.uses();
    return walked;
  }
  Restart(stats);
  cut_ = cut_ || walk->Cut();
  if (walk->apart && walked == Walked::kFound) return WalkAs({false, by_place}, options, stats);
  const bool again = walked == Walked::kTooLarge && walk->agreement.in_sequence && !by_place;
  if (!again) return walked;
  return WalkAs({options.apart && options.agree_depth <= kNestDepth, true}, options, stats);
}

}  // namespace tilec::ir::warp_check
