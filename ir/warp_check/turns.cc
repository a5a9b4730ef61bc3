// Turns of a role's warpgroups (ir/lower/turns.h). The walk takes a role for one that executes its
// program; with turns its warpgroups stand at different places of it. That changes nothing of what
// the walk has proved if
//
//   * begin and end stand in pairs, in one block, outside of elections, and begin follows a start:
//     all warpgroups, two or more, execute the same ones, since all take the same branches;
//   * between them no product is awaited, the role does not meet, at a barrier or for what passes
//     through scratch, nothing branches, and no lane waits alone;
//   * no barrier arrives between begin and a wait for a barrier in the same turn.
//
// Then somebody can always go on. Take the warpgroup that is least far. Stands it at a wait for a
// ring, the others have done all in front of that wait, and what the producer needs is what the
// walk gave it. Stands it at a begin, the one before it is at least as far: it has ended its turn,
// or stands inside, where it waits for rings only, with all arrivals made that a role in front of
// that wait has made (those inside of the turn come behind it); or at the same begin, and so on
// down to the first, whose turn follows the last one's turn before, which that one has passed.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/isa.h"
#include "ir/row_run.h"
#include "ir/warp_check/diagnostics.h"
#include "ir/warp_check/machine.h"
#include "ir/warp_check/resources.h"

namespace tilec::ir::warp_check {
namespace {

class TurnLaw {
 public:
  TurnLaw(const Program& p, const RoleInfo& role)
      : p_(p),
        body_(role.body),
        warps_(role.op.valid() ? p.fn.ops[role.op].i("warps") : p.fn.launch.warps) {}

  std::optional<Finding> Run() {
    Block(body_, false);
    return std::move(found_);
  }

 private:
  void Say(OpId id, const char* what) {
    if (found_) return;
    found_.emplace();
    found_->def = &kWarpDeadlock;
    found_->at = p_.fn.ops[id].at;
    found_->message = what;
  }

  // What one lane does inside a turn: it may arrive, and waits for nothing.
  void Elected(BlockId block, bool* arrived) {
    for (OpId id : p_.fn.blocks[block].ops) {
      const Op& op = p_.fn.ops[id];
      *arrived = *arrived || Arrives(op.kind);
      if (op.kind == OpKind::kTurn) Say(id, "a turn stands inside an elect");
      if (op.kind == OpKind::kMbarWait || op.kind == OpKind::kTmaWait)
        Say(id, "it waits inside a turn, for one lane alone");
      for (BlockId region : op.regions) Elected(region, arrived);
    }
  }
  static bool Arrives(OpKind kind) {
    return kind == OpKind::kMbarArrive || kind == OpKind::kMbarExpect ||
           kind == OpKind::kCpArrive || kind == OpKind::kTmaLoad;
  }

  void Block(BlockId block, bool elected) {
    bool inside = false, arrived = false;
    for (OpId id : p_.fn.blocks[block].ops) {
      const Op& op = p_.fn.ops[id];
      if (op.kind == OpKind::kTurn) {
        const std::string& at = op.s("at");
        if (elected) return Say(id, "a turn stands inside an elect");
        if (warps_ < 2 * isa::kWarpgroupWarps || warps_ % isa::kWarpgroupWarps != 0)
          return Say(id, "turns are of whole warpgroups, of two or more");
        if (at == "start") {
          if (started_ || inside || block != body_) return Say(id, "turns are started once");
          started_ = true;
        } else if (inside == (at == "begin") || !started_) {
          return Say(id, "turns begin and end in pairs, behind their start");
        } else {
          inside = !inside;
          arrived = false;
        }
        continue;
      }
      if (op.kind == OpKind::kRole) continue;  // of its own
      if (!inside) {
        for (BlockId region : op.regions) Block(region, elected || op.kind == OpKind::kElect);
        continue;
      }
      if (op.kind == OpKind::kMmaWait || op.kind == OpKind::kCtaSync || MeetsInScratch(op))
        return Say(id, "it waits inside a turn, for what only its own warpgroup or all can end");
      if (op.kind == OpKind::kMbarWait && arrived)
        return Say(id,
                   "it waits inside a turn behind an arrival: a warpgroup in front of its turn "
                   "has not arrived");
      if (!op.regions.empty() && op.kind != OpKind::kElect)
        return Say(id, "it branches inside a turn");
      arrived = arrived || Arrives(op.kind);
      for (BlockId region : op.regions) Elected(region, &arrived);
    }
    if (inside) Say(p_.fn.blocks[block].ops.back(), "a turn does not end in its block");
  }

  const Program& p_;
  const BlockId body_;
  const int64_t warps_;
  std::optional<Finding> found_;
  bool started_ = false;
};

}  // namespace

std::optional<Finding> CheckTurns(const Program& program) {
  for (const RoleInfo& role : program.roles)
    if (auto found = TurnLaw(program, role).Run()) return found;
  return std::nullopt;
}

}  // namespace tilec::ir::warp_check
