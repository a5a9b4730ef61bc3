// SPDX-License-Identifier: Apache-2.0
#include "ir/lower/states.h"

#include <algorithm>
#include <bit>

#include "ir/isa.h"
#include "ir/queries.h"

namespace tilec::ir {

namespace {

// Of a row in one thread. In longer rows too many threads would compute what depends on the column
// alone (RWKV-7: two exponentials for each).
constexpr int64_t kMostStateColumns = 32;

bool IsPowerOf2(int64_t n) { return std::has_single_bit(static_cast<uint64_t>(n)); }

// Is the tile carried by a loop, and reduced along its rows there?
bool IsState(const Function& fn, const Uses& uses, const std::vector<ValueId>& members) {
  bool carried = false, reduced = false;
  for (const Op& op : fn.ops)
    if (op.kind == OpKind::kDot) return false;
  for (ValueId v : members) {
    const BlockId block = fn.values[v].block;
    carried = carried || (block.valid() && fn.blocks[block].parent.valid() &&
                          fn.ops[fn.blocks[block].parent].kind == OpKind::kFor);
    const Op* def = fn.def(v);
    if (def && def->kind == OpKind::kLoad && LoopAround(fn, fn.values[v].def).valid()) return false;
    for (const auto& [id, index] : uses.of(v)) {
      const Op& op = fn.ops[id];
      const bool memory = op.kind == OpKind::kStore || op.kind == OpKind::kAtomic;
      const bool moved = op.kind == OpKind::kScan || op.kind == OpKind::kTranspose ||
                         op.kind == OpKind::kRearrange || op.kind == OpKind::kReshape;
      if (moved || (memory && LoopAround(fn, id).valid())) return false;
      if (op.kind != OpKind::kReduce && op.kind != OpKind::kArgReduce) continue;
      if (op.i("axis") != 1) return false;
      reduced = reduced || LoopAround(fn, id).valid();
    }
  }
  return carried && reduced;
}

}  // namespace

std::optional<Layout> StatesLayout(const Function& fn, const Uses& uses,
                                   const std::vector<ValueId>& members, int64_t threads) {
  const std::vector<int64_t>& shape = fn.type(members.front()).shape;
  if (shape.size() != 2 || !IsPowerOf2(shape[0]) || !IsPowerOf2(shape[1])) return std::nullopt;
  const int64_t rows = shape[0], columns = shape[1];
  const int64_t lanes = std::max<int64_t>(1, threads / rows);
  if (!IsPowerOf2(threads) || columns > kMostStateColumns ||
      lanes > std::min<int64_t>(columns, isa::kWarpThreads) || !IsState(fn, uses, members))
    return std::nullopt;
  Layout out;
  out.rank = 2;
  const auto add = [](std::vector<LayoutDigit>& digits, int64_t extent, int dim, int64_t stride) {
    if (extent > 1) digits.push_back({extent, dim, stride});
  };
  add(out.thread, lanes, 1, columns / lanes);
  add(out.thread, threads / lanes, 0, 1);
  add(out.reg, columns / lanes, 1, 1);  // side by side: vectors that meet all rows are read so
  add(out.reg, rows * lanes / threads, 0, threads / lanes);
  return out;
}

}  // namespace tilec::ir
