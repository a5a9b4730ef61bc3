// SPDX-License-Identifier: Apache-2.0
#include "ir/lower/bring.h"

#include <algorithm>

#include "ir/isa.h"
#include "ir/lower/operands.h"
#include "ir/lower/scalars.h"
#include "ir/queries.h"

namespace tilec::ir {
namespace {

constexpr int64_t kThreads = isa::kWarpThreads * isa::kWarpgroupWarps;
constexpr int64_t kWord = 4;  // bytes

class ThreadPositions {
 public:
  ThreadPositions(const Function& fn, const LayoutPlan& plan, std::map<ValueId, Layout> layouts)
      : fn_(fn), plan_(plan), layouts_(std::move(layouts)) {}

  bool Of(const Op& load) {
    const std::string& modes = load.s("modes");
    const Layout layout = BroughtLayout(fn_, load);
    size_t operand = 1;
    int dim = 0, gathered = 0;
    for (char mode : modes) {
      if (mode == 'g') gathered = dim;
      if (IsGathered(mode) && !Need(load.operands[operand], KeepDims(layout, {gathered})))
        return false;
      operand += OperandsOf(mode, false);
      if (TakesDim(mode)) ++dim;
    }
    return true;
  }
  std::map<ValueId, Layout> Take() { return std::move(layouts_); }

 private:
  bool Need(ValueId v, const Layout& layout) {
    const std::vector<int64_t> shape = Squeezed(fn_.type(v).shape);
    if (shape.empty()) return true;  // a scalar: as all that the load role steers by
    const auto [it, fresh] = layouts_.try_emplace(v, layout);
    if (!fresh) return it->second == layout;
    const Op* op = fn_.def(v);
    if (shape.size() != 1 || !op || !op->regions.empty()) return false;
    if (op->kind == OpKind::kConstant || op->kind == OpKind::kIota) return true;
    if (op->kind == OpKind::kLoad && !Loads(*op)) return false;
    const bool follows = op->kind == OpKind::kLoad || op->kind == OpKind::kBroadcast ||
                         op->kind == OpKind::kReshape || Info(op->kind).elementwise();
    return follows && std::all_of(op->operands.begin(), op->operands.end(), [&](ValueId operand) {
             return !fn_.type(operand).is_tile() || Need(operand, layout);
           });
  }
  // Where threads read it, and as it is for the whole of the kernel.
  bool Loads(const Op& op) const {
    const Param* p = fn_.param(op.operands[0]);
    const auto at = plan_.loads.find(fn_.values[op.results[0]].def);
    return p && p->direction == Direction::kIn && at != plan_.loads.end() && !at->second.buffer &&
           !at->second.shares.valid();
  }

  const Function& fn_;
  const LayoutPlan& plan_;
  std::map<ValueId, Layout> layouts_;
};

}  // namespace

int64_t HeldToBring(const Function& fn, const Op& load) {
  const Type& tile = fn.type(load.results[0]);
  const int64_t size = ByteSize(tile.dtype);
  const int64_t together = std::min(AccessLimit(fn, load) * size, kWord);  // bytes of a register
  return CeilDiv(tile.elements() * size, kThreads * std::max(together, std::min(size, kWord)));
}

HeldTogether HeldWhileAwaited(const Function& fn, const std::vector<OpId>& brought) {
  HeldTogether held;
  for (OpId load : brought) {
    const int64_t one = HeldToBring(fn, fn.ops[load]);
    if (held.loads > 0 && held.registers + one > kMostHeld) break;
    held.registers += one;
    ++held.loads;
  }
  return held;
}

// The load role is a warpgroup where registers are dealt out again. Where products are issued by
// one thread, that has one of its warps.
bool MayBeBrought(const Function& fn, const Op& load, const Target& target) {
  if (!target.Has("setmaxnreg") || InTensorMemory(target.matrix_unit.kind)) return false;
  const Param* p = fn.param(load.operands[0]);
  if (!p || p->kind != ParamKind::kTensor || p->direction != Direction::kIn) return false;
  // As many at once as leave the compute roles what their tiles want.
  const Type& tile = fn.type(load.results[0]);
  return tile.rank() == 2 && HeldToBring(fn, load) <= kMostHeld;
}

Layout BroughtLayout(const Function& fn, const Op& load) {
  const Type& tile = fn.type(load.results[0]);
  int64_t vector = std::max(AccessLimit(fn, load), kWord / ByteSize(tile.dtype));
  while (vector > 1 && (tile.shape.back() % vector != 0 || tile.elements() < vector * kThreads))
    vector /= 2;
  return BlockedLayout(tile.shape, std::max<int64_t>(1, vector), kThreads);
}

std::optional<std::vector<BroughtPositions>> PositionsToBring(const Function& fn,
                                                              const LayoutPlan& plan) {
  std::vector<BroughtPositions> all;
  for (OpId id : OpsInOrder(fn)) {
    const auto load = plan.loads.find(id);
    if (load == plan.loads.end() || !load->second.threads) continue;
    all.push_back({});  // if it lies like none before it
    for (BroughtPositions& like : all) {
      ThreadPositions positions(fn, plan, like.layouts);
      if (!positions.Of(fn.ops[id])) continue;
      like.layouts = positions.Take();
      like.loads.insert(id);
      break;
    }
    if (std::none_of(all.begin(), all.end(), [&](const auto& p) { return p.loads.count(id) > 0; }))
      return std::nullopt;
    if (all.back().loads.empty()) all.pop_back();
  }
  return all;
}

namespace {

// Leaves those gathers where they are read whose positions the load role cannot know.
void LeaveUnknown(const Function& fn, LayoutPlan* plan) {
  std::vector<OpId> gathers;
  for (OpId id : OpsInOrder(fn))
    if (const auto load = plan->loads.find(id); load != plan->loads.end() && load->second.threads)
      if (const std::string& modes = fn.ops[id].s("modes");
          std::any_of(modes.begin(), modes.end(), IsGathered))
        gathers.push_back(id);
  const auto bring = [&](OpId id, bool yes) {
    plan->loads.at(id).threads = plan->loads.at(id).tma = yes;
  };
  for (OpId id : gathers) bring(id, false);
  for (OpId id : gathers) {
    bring(id, true);
    if (!PositionsToBring(fn, *plan)) bring(id, false);
  }
}

// Does a CTA walk over tiles, and so over whole runs of the loop that loads? Then the engine is a
// tile ahead, and threads, which await memory in each turn, are not.
bool OfManyTiles(const Function& fn, const Op& load) {
  const OpId loop = fn.blocks[load.block].parent;
  if (!loop.valid() || fn.ops[loop].kind != OpKind::kFor) return true;
  const OpId around = fn.blocks[fn.ops[loop].block].parent;
  return around.valid() && fn.ops[around].kind != OpKind::kParallel;
}

// Narrow rows are brought beside wide ones that hide the threads' latency. Where all are narrow (a
// product of thin K), only for a CTA's single tile: there the engine's latency is as plain to see.
void BringNarrow(const Function& fn, const Target& target, LayoutPlan* plan) {
  std::vector<OpId> narrow;
  std::map<BlockId, int64_t> beside;  // bytes that engines copy in an iteration
  for (OpId id : OpsInOrder(fn)) {
    const auto load = plan->loads.find(id);
    if (load == plan->loads.end() || !load->second.buffer || !load->second.tma ||
        load->second.threads || load->second.chunk > 0 || load->second.every > 1 ||
        load->second.shares.valid())
      continue;
    const Op& op = fn.ops[id];
    const Type& tile = fn.type(op.results[0]);
    const int64_t size = ByteSize(tile.dtype);
    if (tile.rank() == 2 && tile.shape[1] * size <= target.lowering.narrow_row_bytes &&
        tile.shape[0] * size > target.lowering.narrow_row_bytes && MayBeBrought(fn, op, target))
      narrow.push_back(id);
    else
      beside[fn.ops[id].block] += tile.elements() * size;
  }
  for (OpId id : narrow) {
    const int64_t others = beside[fn.ops[id].block];
    if (others >= target.lowering.beside_narrow_bytes ||
        (others == 0 && !OfManyTiles(fn, fn.ops[id])))
      plan->loads.at(id).threads = true;
  }
}

}  // namespace

void DecideBrought(const Function& fn, const Target& target, bool runs_ahead, LayoutPlan* plan) {
  LeaveUnknown(fn, plan);
  if (runs_ahead) BringNarrow(fn, target, plan);
}

bool BringsAny(const LayoutPlan& plan) {
  return std::any_of(plan.loads.begin(), plan.loads.end(),
                     [](const auto& load) { return load.second.threads; });
}

void LeaveAll(LayoutPlan* plan) {
  for (auto& [id, load] : plan->loads)
    if (load.threads) {
      load.threads = false;
      load.tma = load.row_dim >= 0;
    }
}

}  // namespace tilec::ir
