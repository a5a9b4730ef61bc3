// Barriers that another one serves for. Threads meet before they store an operand, because the
// product that read its bytes last has to be done in all warps, and before they stage a tile,
// because its bytes have to be read. Where the tile is what that product makes, every iteration has
// a meeting behind the product (that the tile is written), and one in front of it (that the operand
// is): so the first is not needed, and the copies of the iteration before are awaited in front of
// the second.
//
//     meet, store ds, meet, dq = ds · k, await copies, meet, stage dq, meet, copy out
//   → store ds, await copies, meet, dq = ds · k, stage dq, meet, copy out
//
// Both have bytes of their own then.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ir/lower/program_planner.h"
#include "ir/lower/stored_over.h"
#include "ir/queries.h"

namespace tilec::ir {

// The product in the store's block that the stored tile is made of, alone or with others.
OpId ProgramPlanner::ProductOf(OpId store) const {
  std::vector<ValueId> look = {in_.ops[store].operands[1]};
  for (size_t i = 0; i < look.size(); ++i) {
    const OpId id = in_.values[look[i]].def;
    if (!id.valid() || in_.ops[id].block != in_.ops[store].block) continue;
    const Op& op = in_.ops[id];
    if (op.kind == OpKind::kDot) return id;
    if (op.regions.empty() && op.kind != OpKind::kLoad)
      look.insert(look.end(), op.operands.begin(), op.operands.end());
  }
  return {};
}

// Is the store made between two meetings, and are its bytes free at the first of them?
bool ProgramPlanner::StagedAtOnce(OpId store) const {
  const PlannedEpilogue& epilogue = p_.epilogues.at(store);
  if (epilogue.drains) return true;
  const int64_t columns = tiles_.stores.at(store).smem.panel_cols;
  return epilogue.panels > 0 && !epilogue.by_slices && epilogue.rows_of_part == 0 &&
         epilogue.panels * columns == in_.type(in_.ops[store].operands[1]).shape[1] &&
         InTurns(in_, store) && StoredOver(in_).count(store) == 0;
}

void ProgramPlanner::PlanMeetings() {
  using Staging = SequentialOptions::Staging;
  const bool apart = options_.staging == Staging::kDrains || options_.staging == Staging::kTurns;
  if (!specialized() || !apart) return;
  for (auto& [store, epilogue] : p_.epilogues) {
    if (!tiles_.stores.count(store) || !tiles_.stores.at(store).tma || !StagedAtOnce(store))
      continue;
    const OpId dot = ProductOf(store);
    if (!dot.valid() || !tiles_.dots.at(dot).grouped() || OwnerOf(dot) < 0 ||
        OwnerOf(dot) != OwnerOf(store))
      continue;
    const std::vector<size_t> rings = p_.OperandRingsOf(dot);
    const bool alone = std::all_of(rings.begin(), rings.end(), [&](size_t ring) {
      return p_.operand_rings[ring].slots == 1 && p_.operand_rings[ring].operands.size() == 1;
    });
    if (rings.empty() || !alone) continue;
    for (size_t ring : rings) p_.operand_rings[ring].met = true;
    epilogue.freed_at = dot;
  }
}

}  // namespace tilec::ir
