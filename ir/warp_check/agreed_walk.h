// A proof by what the roles of a program agree on (agreement.h) and nothing else: a few hundred
// states for a right nest, whose iterations have more to do with each other than a walk can tell
// apart.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <utility>

#include "ir/warp_check/walk.h"

namespace tilec::ir::warp_check {

struct AgreedWalk;

// The walks of one program, each with less than the one before. What was walked is kept: with
// higher limits each goes on from where it stands.
class AgreedWalks {
 public:
  explicit AgreedWalks(const Program& program);
  ~AgreedWalks();
  Walked Walk(const WarpCheckOptions& options, WarpCheckStats* stats);
  // Some walk came to its limit of ops; asked again with more, it goes on.
  bool cut() const { return cut_; }

 private:
  // By whether slots are told apart, and lists by place.
  using How = std::pair<bool, bool>;
  Walked WalkAs(How how, const WarpCheckOptions& options, WarpCheckStats* stats);

  const Program& program_;
  std::map<How, std::unique_ptr<AgreedWalk>> walks_;
  bool cut_ = false;
};

}  // namespace tilec::ir::warp_check
