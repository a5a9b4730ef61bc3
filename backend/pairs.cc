// SPDX-License-Identifier: Apache-2.0
#include "backend/pairs.h"

#include <algorithm>

#include "ir/queries.h"

namespace tilec::backend {

using ir::OpKind;

namespace {

constexpr int64_t kMostBytes = 4;  // of an element

// The operand that is the position in the last dim.
size_t LastPosition(const ir::Op& op) {
  return op.operands.size() - 1 - (op.kind == OpKind::kGLoad && op.i("has_fill") ? 1 : 0);
}

ir::ValueId TileOf(const ir::Op& op) {
  return op.kind == OpKind::kGLoad ? op.results[0] : op.operands[1];
}

// Its place in the last dim, if words of pairs are whole and aligned there; −1.
int64_t PlaceInPairs(const ir::Function& fn, const ir::Op& op) {
  if (op.kind != OpKind::kGLoad && op.kind != OpKind::kGStore) return -1;
  const std::string& modes = op.s("modes");
  if (modes.size() < 2 || modes.back() != 's' || op.i("vector", 1) != 1 || op.i("scratch", -1) >= 0)
    return -1;
  const ir::Param* p = fn.param(op.operands[0]);
  const ir::Type& tile = fn.type(TileOf(op));
  if (!p || !tile.is_tile() || !p->dims.back().is_const() || p->dims.back().value % 2 != 0)
    return -1;
  const int64_t bytes = ir::ByteSize(tile.dtype);
  if (tile.dtype == ir::DType::kBool || bytes > kMostBytes || !p->facts.last_contiguous ||
      p->facts.base_align_bytes % (2 * bytes) != 0 ||
      p->facts.stride_align_bytes % (2 * bytes) != 0)
    return -1;
  const int64_t* at = ir::IntConstantOf(fn, op.operands[LastPosition(op)]);
  return at && *at >= 0 && *at < p->dims.back().value ? *at : -1;
}

bool Alike(const ir::Function& fn, const ir::Op& a, const ir::Op& b) {
  if (a.kind != b.kind || a.s("modes") != b.s("modes") || a.ints("sizes") != b.ints("sizes") ||
      a.operands.size() != b.operands.size() || a.i("has_fill") != b.i("has_fill") ||
      fn.type(TileOf(a)).layout != fn.type(TileOf(b)).layout)
    return false;
  const size_t last = LastPosition(a);
  for (size_t i = 0; i < a.operands.size(); ++i) {
    const bool tile = a.kind == OpKind::kGStore && i == 1;
    if (!tile && i != last && a.operands[i] != b.operands[i]) return false;
  }
  return true;
}

// Accesses the tensor, or holds ops that may.
bool MayAccess(const ir::Op& op, ir::ValueId tensor) {
  return !op.regions.empty() ||
         std::find(op.operands.begin(), op.operands.end(), tensor) != op.operands.end();
}

}  // namespace

namespace {

// The one access that may pair with it; null also where one on either side might.
const ir::Op* Nearest(const ir::Function& fn, const ir::Op& op) {
  const int64_t at = PlaceInPairs(fn, op);
  if (at < 0) return nullptr;
  const std::vector<ir::OpId>& ops = fn.blocks[op.block].ops;
  const auto here =
      std::find_if(ops.begin(), ops.end(), [&](ir::OpId id) { return &fn.ops[id] == &op; });
  // The nearest access of the tensor on either side; a load passes other loads.
  const auto look = [&](auto from, auto to) -> const ir::Op* {
    for (auto id = from; id != to; ++id) {
      const ir::Op& other = fn.ops[*id];
      if (!MayAccess(other, op.operands[0])) continue;
      if (Alike(fn, op, other) && PlaceInPairs(fn, other) == (at ^ 1)) return &other;
      if (other.kind != OpKind::kGLoad || op.kind != OpKind::kGLoad) return nullptr;
    }
    return nullptr;
  };
  if (here == ops.end()) return nullptr;
  const ir::Op* after = look(here + 1, ops.end());
  const ir::Op* before = look(std::make_reverse_iterator(here), ops.rend());
  return after && before ? nullptr : after ? after : before;
}

}  // namespace

const ir::Op* PairOf(const ir::Function& fn, const ir::Op& op) {
  const ir::Op* other = Nearest(fn, op);
  return other && Nearest(fn, *other) == &op ? other : nullptr;
}

bool IsEven(const ir::Function& fn, const ir::Op& op) {
  return *ir::IntConstantOf(fn, op.operands[LastPosition(op)]) % 2 == 0;
}

bool StandsBehind(const ir::Function& fn, const ir::Op& op, const ir::Op& other) {
  for (ir::OpId id : fn.blocks[op.block].ops) {
    if (&fn.ops[id] == &op) return false;
    if (&fn.ops[id] == &other) return true;
  }
  return false;
}

}  // namespace tilec::backend
