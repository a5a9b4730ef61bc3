// SPDX-License-Identifier: Apache-2.0
#include "ir/lower/waits.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

#include "ir/arms.h"
#include "ir/lower/operands.h"
#include "ir/queries.h"

namespace tilec::ir {
namespace {

constexpr int64_t kSideBySide = 2;
// Timed with products of 16 rows, an eighth to a fifth of such a load; of 64 rows they are three
// quarters.
constexpr int64_t kFar = 4;

// In the block itself or in branches of it.
void AddProducts(const Function& fn, BlockId block, std::vector<OpId>& found) {
  for (OpId id : fn.blocks[block].ops) {
    const Op& op = fn.ops[id];
    if (op.kind == OpKind::kDot) found.push_back(id);
    if (op.kind == OpKind::kFor) continue;
    for (BlockId region : op.regions) AddProducts(fn, region, found);
  }
}

int64_t AllProducts(const Function& fn, OpId loop) {
  const std::vector<OpId> inside = OpsInside(fn, loop);
  return std::count_if(inside.begin(), inside.end(),
                       [&](OpId id) { return fn.ops[id].kind == OpKind::kDot; });
}

// What a loop yields for its result, or for what it carries; invalid: `v` is neither.
ValueId Yielded(const Function& fn, ValueId v) {
  const Value& value = fn.values[v];
  const OpId loop = value.def.valid()     ? value.def
                    : value.block.valid() ? fn.blocks[value.block].parent
                                          : OpId();
  if (!loop.valid() || fn.ops[loop].kind != OpKind::kFor) return {};
  const std::vector<ValueId>& args = fn.blocks[fn.ops[loop].regions[0]].args;
  const std::vector<ValueId>& from = value.def.valid() ? fn.ops[loop].results : args;
  const auto at = std::find(from.begin(), from.end(), v) - from.begin();
  const auto result = at - (value.def.valid() ? 0 : 1);  // the first argument is the position
  const std::vector<ValueId>& next = fn.ops[fn.blocks[fn.ops[loop].regions[0]].ops.back()].operands;
  return result >= 0 && result < std::ssize(next) ? next[static_cast<size_t>(result)] : ValueId();
}

// The op that makes the value, in this iteration or in the one before.
const Op* MakerOf(const Function& fn, ValueId v) {
  constexpr int kMost = 16;
  for (int i = 0; i < kMost; ++i) {
    const Op* def = fn.def(v);
    if (def && (Renames(def->kind) || def->kind == OpKind::kRearrange)) {
      v = def->operands[0];
    } else if (const ValueId next = Yielded(fn, v); next.valid()) {
      v = next;
    } else {
      return def;
    }
  }
  return nullptr;
}

// Is the value computed, in whatever iteration, from a product's result? `decoded`: on the way
// whole numbers become floats.
bool OfProduct(const Function& fn, ValueId v, std::set<ValueId>& seen, bool* decoded) {
  if (!fn.type(v).is_tile() || !seen.insert(v).second) return false;
  if (const ValueId next = Yielded(fn, v); next.valid() && OfProduct(fn, next, seen, decoded))
    return true;
  const Op* def = fn.def(v);
  if (!def || def->kind == OpKind::kFor) return false;
  if (def->kind == OpKind::kCast && IsFloat(fn.type(v).dtype) &&
      IsInteger(fn.type(def->operands[0]).dtype))
    *decoded = true;
  return def->kind == OpKind::kDot ||
         std::any_of(def->operands.begin(), def->operands.end(),
                     [&](ValueId operand) { return OfProduct(fn, operand, seen, decoded); });
}

// Is the value made element by element of tiles that `body` loads, constants, scalars and whole
// numbers of positions?
bool OfTiles(const Function& fn, ValueId v, BlockId body) {
  if (!fn.type(v).is_tile()) return true;
  const Op* def = fn.def(v);
  if (!def || !def->regions.empty()) return false;
  if (def->kind == OpKind::kConstant || def->kind == OpKind::kIota) return true;
  if (def->block != body && !IsInteger(fn.type(v).dtype)) return false;
  if (def->kind == OpKind::kLoad) return def->block == body;
  const bool shape = Renames(def->kind) || def->kind == OpKind::kRearrange;
  return (shape || Info(def->kind).elementwise()) &&
         std::all_of(def->operands.begin(), def->operands.end(),
                     [&](ValueId o) { return OfTiles(fn, o, body); });
}

bool OfLoads(const Function& fn, ValueId v) {
  const Op* op = fn.def(v);
  if (!op) return false;
  return op->kind == OpKind::kLoad || std::any_of(op->operands.begin(), op->operands.end(),
                                                  [&](ValueId from) { return OfLoads(fn, from); });
}

bool LengthIsLoaded(const Function& fn, const Op& op) {
  return op.kind == OpKind::kFor && (OfLoads(fn, op.operands[0]) || OfLoads(fn, op.operands[1]));
}

// Do copies of what a loop's iteration loads take longer than its products?
bool CopiesTakeLonger(const Function& fn, BlockId body, const Target& target) {
  const OpCost* load = target.CostOf("load");
  std::vector<OpId> products;
  AddProducts(fn, body, products);
  if (products.empty() || !load) return false;
  int64_t cycles = 0, copies = 0;
  for (OpId id : products) cycles += ProductCycles(fn, fn.ops[id], target);
  Work work;
  for (OpId id : fn.blocks[body].ops)
    if (const Op& op = fn.ops[id]; op.kind == OpKind::kLoad && fn.type(op.results[0]).is_tile())
      work.bytes += static_cast<double>(fn.type(op.results[0]).elements() *
                                        ByteSize(fn.type(op.results[0]).dtype));
  for (const TargetUse& use : load->uses) copies = std::max(copies, use.cycles.At(work));
  return copies > cycles;
}

}  // namespace

bool LengthsAreLoaded(const Function& fn, BlockId block) {
  return std::any_of(fn.blocks[block].ops.begin(), fn.blocks[block].ops.end(), [&](OpId id) {
    const Op& op = fn.ops[id];
    return LengthIsLoaded(fn, op) ||
           std::any_of(op.regions.begin(), op.regions.end(),
                       [&](BlockId region) { return LengthsAreLoaded(fn, region); });
  });
}

bool DecodedByThreads(const Function& fn, ValueId operand) {
  const Op* made = MakerOf(fn, operand);
  std::set<ValueId> seen;
  bool decoded = false;
  return made && Info(made->kind).elementwise() && !OfProduct(fn, operand, seen, &decoded) &&
         decoded;
}

bool MadeOfTiles(const Function& fn, ValueId v, BlockId body) {
  return OfTiles(fn, v, body) && DecodedByThreads(fn, v);
}

int64_t ProductCycles(const Function& fn, const Op& dot, const Target& target) {
  const Type &a = fn.type(dot.operands[0]), &made = fn.type(dot.results[0]);
  const OpCost* cost =
      target.CostOf(fmt::format("{}.{}", Info(dot.kind).mnemonic, Info(a.dtype).bits));
  Work work;
  const int64_t rows = RoundUp(made.shape[0], std::max<int64_t>(1, target.unit().rows));
  work.flops = 2.0 * static_cast<double>(rows * made.shape[1] * a.shape[1]);
  int64_t longest = 0;
  if (cost)
    for (const TargetUse& use : cost->uses)
      if (!target.units[static_cast<size_t>(use.unit)].fluid)
        longest = std::max(longest, use.cycles.At(work));
  return longest;
}

bool WaitsForMemory(const Function& fn, BlockId body, const Target& target, int64_t times) {
  std::vector<OpId> products;
  AddProducts(fn, body, products);
  const OpCost* load = target.CostOf("load.gather");  // by threads, as it would be otherwise
  if (products.empty() || !load) return false;
  int64_t cycles = 0;
  for (OpId id : products) cycles += ProductCycles(fn, fn.ops[id], target);
  return times * cycles < load->latency.At(Work{});
}

int64_t CtasWanted(const Function& fn, const Target& target) {
  const bool groups = target.unit().completion == Completion::kGroups;
  if (!groups || !target.Has("setmaxnreg") || !target.Has("tma")) return 1;
  bool made = false, loops = false, listed = false;
  for (OpId id : OpsInOrder(fn)) {
    const Op& op = fn.ops[id];
    // CTAs that divide a tile do so because there are fewer tiles than SMs.
    if (op.kind == OpKind::kParallel && op.i("cluster", 1) > 1) return 1;
    if (op.kind == OpKind::kDot) {
      if (!IsOnUnit(fn, op, target)) return 1;
      made = made || DecodedByThreads(fn, op.operands[0]);
    }
    if (op.kind != OpKind::kFor) continue;
    std::vector<OpId> products;
    AddProducts(fn, op.regions[0], products);
    // Beside a loop inside they are the turns before and after it.
    if (AllProducts(fn, id) > std::ssize(products)) continue;
    if (products.empty()) continue;
    const bool here = LengthIsLoaded(fn, op) && CopiesTakeLonger(fn, op.regions[0], target);
    if (!here && !WaitsForMemory(fn, op.regions[0], target, kFar)) return 1;
    listed = listed || here;
    loops = true;
  }
  return listed || (made && loops) ? kSideBySide : 1;
}

Target ShareOf(const Target& target, int64_t ctas) {
  Target share = target;
  TargetLimits& limits = share.limits;
  ctas = std::clamp<int64_t>(ctas, 1, limits.max_ctas_per_sm);
  limits.registers /= ctas;
  limits.smem_bytes =
      std::min(limits.smem_bytes, limits.smem_bytes_per_sm / ctas - limits.smem_reserved_bytes);
  return share;
}

}  // namespace tilec::ir
