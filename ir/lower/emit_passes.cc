// Tiles that pass from one compute role to another (role_needs.h says how the program marks them).
//
// Each has a ring in shared memory. The threads of the role that makes it write their fragments
// into a slot and arrive at its full barrier, a warp at a time; those of the reading role read
// theirs and arrive at the empty barrier. All sides are ordinary accesses: no proxy fence is
// needed. Transfers are counted as those of loads are, and both roles walk the same loops and
// branches.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ir/lower/emitter.h"
#include "ir/lower/operands.h"
#include "ir/lower/scalars.h"

namespace tilec::ir {

namespace {

// How many tiles the making role may be ahead, beyond what the program's own order needs.
constexpr int64_t kAhead = 1;

std::vector<int64_t> ShapeInMemory(const Type& tile) {
  return tile.shape.empty() ? std::vector<int64_t>{1} : tile.shape;
}

// Slots start swizzle patterns, as those of loads do.
SmemLayout PassLayout(DType dtype, const std::vector<int64_t>& shape) {
  int64_t rows = 1;
  for (size_t d = 0; d + 1 < shape.size(); ++d) rows *= shape[d];
  SmemLayout smem{rows, shape.back(), shape.back(), 0};
  if (rows > 1)
    if (const auto staged = StagingLayout(Type::Tile(dtype, {rows, shape.back()}))) smem = *staged;
  while (smem.swizzle_bytes && SmemBytes(smem, dtype) % 1024 != 0) smem.rows += 8;
  return smem;
}

}  // namespace

void Emitter::FindPasses() {
  for (OpId id : OpsInOrder(in_)) {
    const Op& op = in_.ops[id];
    if (PutsTile(op)) {
      Pass& pass = passes_[op.ints("signal")[0]];
      pass.from = static_cast<int>(op.i("role"));
      pass.put = id;
    } else if (TakesTile(op)) {
      passes_[op.ints("await")[0]].to = static_cast<int>(op.i("role"));
    }
  }
}

// Tiles put and not yet taken, in the order of the program: so many slots at least. A turn of a
// loop takes as many as it puts.
void Emitter::CountPasses(BlockId block, std::map<int64_t, int64_t>& waiting) {
  for (OpId id : in_.blocks[block].ops) {
    const Op& op = in_.ops[id];
    if (PutsTile(op)) {
      const int64_t token = op.ints("signal")[0];
      int64_t& depth = passes_.at(token).ring.depth;
      depth = std::max(depth, ++waiting[token]);
    }
    if (TakesTile(op)) --waiting[op.ints("await")[0]];
    const std::map<int64_t, int64_t> before = waiting;
    for (BlockId region : op.regions) {
      waiting = before;
      CountPasses(region, waiting);
    }
  }
}

void Emitter::PlanPasses() {
  FindPasses();
  std::map<int64_t, int64_t> waiting;
  CountPasses(in_.body, waiting);
  for (auto& [id, pass] : passes_) {
    Ring& ring = pass.ring;
    ring.depth += kAhead;
    ring.full = b_.Value(OpKind::kMbarAlloc, {}, Type::Mbar(ring.depth), {{"offset", int64_t{0}}});
    ring.empty = b_.Value(OpKind::kMbarAlloc, {}, Type::Mbar(ring.depth), {{"offset", int64_t{0}}});
    const Type& tile = in_.type(in_.ops[pass.put].results[0]);
    const std::vector<int64_t> shape = ShapeInMemory(tile);
    const Type type = Type::Smem(tile.dtype, shape, PassLayout(tile.dtype, shape), ring.depth);
    pass.buffer = AddBuffer(type, false, roles_, 0, INT64_MAX);  // of two roles, at any time
  }
}

void Emitter::Put(const Op& op) {
  const Pass& pass = passes_.at(op.ints("signal")[0]);
  const std::vector<int64_t> shape = ShapeInMemory(in_.type(op.operands[0]));
  ValueId tile = Tile(op.operands[0]);
  const Layout layout = out_.type(tile).shape.empty() ? ReplicatedLayout(shape, plan_.threads())
                                                      : Unsqueeze(out_.layout(tile), shape);
  tile = Reshape_(tile, shape, layout);
  const ValueId slot = NextSlot(pass.ring, true);
  std::vector<ValueId> operands = {tile, pass.buffer};
  if (slot.valid()) operands.push_back(slot);
  b_.Add(OpKind::kSmemStore, std::move(operands), {});
  Arrive(pass.ring.full, slot);
}

void Emitter::Take(const Op& op) {
  const Pass& pass = passes_.at(op.ints("await")[0]);
  const ValueId result = op.results[0];
  const Type& type = in_.type(result);
  const std::vector<int64_t> shape = ShapeInMemory(type);
  const auto it = plan_.layouts.find(result);
  const bool single = it == plan_.layouts.end();
  const Layout layout =
      single ? ReplicatedLayout(shape, plan_.threads()) : Unsqueeze(it->second, shape);
  const ValueId slot = NextSlot(pass.ring, false);
  std::vector<ValueId> operands = {pass.buffer};
  if (slot.valid()) operands.push_back(slot);
  const ValueId tile = b_.Value(OpKind::kSmemLoad, std::move(operands),
                                Type::Tile(type.dtype, shape, out_.Intern(layout)));
  Arrive(pass.ring.empty, slot);
  Bind(result, Reshape_(tile, Squeezed(type.shape), single ? Layout{} : it->second));
}

}  // namespace tilec::ir
