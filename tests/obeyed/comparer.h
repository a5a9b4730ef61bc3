// Compares a schedule with the PTX that should obey it, role by role and loop by loop.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>
#include <vector>

#include "tests/obeyed/compare.h"
#include "tests/obeyed/order.h"
#include "tests/obeyed/passes.h"
#include "tests/obeyed/waits.h"

namespace tilec::obeyed {

// A role of the emitted program: warps that go the same ways.
struct Role {
  int first_warp = 0, warps = 0;
  std::set<int> reached;
};

class Comparer {
 public:
  Comparer(const Code& code, const WantedLoop& wanted);
  Verdict Run();

 private:
  void TellApart(int o);

  void Fault(std::string text) { verdict_.faults.push_back(std::move(text)); }
  void Take(Awaited seen);
  bool Anywhere(const Wanted& op) const;

  // Of a compute role that is as the schedule has it.
  int NumberOf(const Role& role) const { return role.first_warp / wanted_.warps; }

  // ---- tiles between roles --------------------------------------------------------------------
  bool Passes(const Wanted& op, const Event& e) const;
  std::vector<int> Instructions(const std::set<int>& blocks, const Wanted& op) const;
  bool Moves(const std::set<int>& blocks, const Wanted& op) const;
  std::vector<const Loop*> LoopsOf(const Role& role, bool loads) const;
  bool Multiplies(const Role& role) const;
  bool HasLoop(const Role& role, bool loads) const { return !LoopsOf(role, loads).empty(); }
  std::set<int> Straight(const Loop& loop) const;
  // Turns of an op before and behind a loop, in whole copies of what the loop holds.
  struct Copies {
    double before = 0, behind = 0;
  };
  Copies CopiesOf(const Loop& loop, const Wanted& op, const std::vector<int>& turn) const;

  // The lowering gives no ring more, whatever a schedule asks for (docs/lowering.md).
  static constexpr int kMostSlots = 8;
  void Rings(const Role* load);
  std::vector<int> Alike(const Wanted& op, int slice) const;
  bool Alone(int o, int slice) const;

  // Other warps or engines see it.
  static bool Outside(const Event& e) {
    return e.kind != Event::Kind::kCode && e.kind != Event::Kind::kProduct;
  }
  std::vector<size_t> PlacesOf(const Wanted& op, const std::vector<Event>& turn) const;
  std::vector<Seen> Look(const std::vector<Event>& turn, int slice);
  int Span(const Loop& loop, const std::vector<Seen>& seen) const;
  void TakeStage(const Loop& loop, int span, Seen* s);
  void Compute(const Role& role, int slice);

  const Code& code_;
  WantedLoop wanted_;
  Verdict verdict_;
  FilledRings rings_;
  std::vector<Bytes> barriers_;  // full, of the rings of passes
};

}  // namespace tilec::obeyed
