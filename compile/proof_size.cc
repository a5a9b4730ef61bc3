// SPDX-License-Identifier: Apache-2.0
#include "compile/proof_size.h"

#include <algorithm>
#include <map>

#include "ir/queries.h"

namespace tilec::compile {

namespace {

constexpr int64_t kNest = 3;  // loops: over tiles, around the products, and theirs

int64_t LoopsAround(const ir::Function& fn, ir::OpId id) {
  int64_t loops = 0;
  for (ir::OpId at = ir::LoopAround(fn, id); at.valid(); at = ir::LoopAround(fn, at)) ++loops;
  return loops;
}

bool Fills(ir::OpKind kind) {
  return kind == ir::OpKind::kTmaLoad || kind == ir::OpKind::kCpLoad ||
         kind == ir::OpKind::kSmemStore;
}

}  // namespace

int64_t FillingsOfNest(const ir::Function& warps) {
  std::map<ir::ValueId, int64_t> loops_of;  // of a ring: around what fills it, the most
  int64_t deepest = 0;
  for (const ir::OpId id : ir::OpsInOrder(warps)) {
    const ir::Op& op = warps.ops[id];
    if (op.kind == ir::OpKind::kMma) deepest = std::max(deepest, LoopsAround(warps, id));
    if (!Fills(op.kind)) continue;
    for (const ir::ValueId v : op.operands) {
      const ir::Op* const buffer = warps.def(v);
      if (buffer == nullptr || buffer->kind != ir::OpKind::kSmemAlloc) continue;
      int64_t& loops = loops_of[v];  // (what is read ahead is filled in front of its loop, too)
      loops = std::max(loops, LoopsAround(warps, id));
    }
  }
  if (deepest < kNest) return 0;
  std::map<int64_t, int64_t> slots;  // of the deepest ring, by loops
  for (const auto& [ring, loops] : loops_of)
    slots[loops] = std::max(slots[loops], warps.type(ring).depth);
  int64_t fillings = 1;
  for (const auto& [loops, most] : slots) fillings *= std::max<int64_t>(1, most);
  return fillings;
}

}  // namespace tilec::compile
