// Measured on an H100 (docs/perf_log.md): attention forward at head dim 128 gains 3 to 20 % by
// turns where its rows have one reference, nothing (-1 to 1 %) with a running maximum; with three
// warpgroups, at head dim 64, -4 to 3 %; backward, whose iterations have four and five
// products that are not all issued back to back, loses 4 to 10 %.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/lower/turns.h"

#include <algorithm>
#include <set>
#include <vector>

#include "ir/isa.h"
#include "ir/queries.h"

namespace tilec::ir {
namespace {

// Is an operand of the product made, inside the loop, of another product's result? Carried values
// count: pipelining moves a product into the iteration before.
class MadeOfProduct {
 public:
  MadeOfProduct(const Function& fn, OpId loop) : fn_(fn), loop_(loop) {}
  bool operator()(ValueId v) {
    if (!fn_.type(v).is_tile() || !seen_.insert(v).second) return false;
    const Value& value = fn_.values[v];
    if (value.def.valid()) {
      if (!IsWithin(fn_, value.def, loop_)) return false;
      const Op& op = fn_.ops[value.def];
      if (op.kind == OpKind::kDot) return true;
      for (ValueId operand : op.operands)
        if ((*this)(operand)) return true;
      for (BlockId region : op.regions)
        for (ValueId yielded : fn_.ops[fn_.blocks[region].ops.back()].operands)
          if ((*this)(yielded)) return true;
      return false;
    }
    if (!value.block.valid() || fn_.blocks[value.block].parent != loop_) return false;
    const std::vector<ValueId>& args = fn_.blocks[value.block].args;
    const size_t at = static_cast<size_t>(std::find(args.begin(), args.end(), v) - args.begin());
    const std::vector<ValueId>& next = fn_.ops[fn_.blocks[value.block].ops.back()].operands;
    return at >= 1 && at <= next.size() && (*this)(next[at - 1]);  // argument 0 is the position
  }

 private:
  const Function& fn_;
  const OpId loop_;
  std::set<ValueId> seen_;
};

// Puts `begin` and `end` around products of one block that are committed back to back.
class Turns {
 public:
  Turns(Function* fn, int64_t first) : fn_(*fn), first_(first) {}

  bool Block(BlockId block, bool in_loop) {
    bool any = false;
    std::vector<OpId> out;
    size_t begin = 0;
    OpId end;
    int products = 0;
    const auto close = [&] {
      if (in_loop && products >= 2) {
        const auto after = std::find(out.begin(), out.end(), end) + 1;
        out.insert(after, Make("end", fn_.ops[end], block));
        out.insert(out.begin() + static_cast<ptrdiff_t>(begin), Make("begin", fn_.ops[end], block));
        any = true;
      }
      products = 0;
    };
    bool open = false;  // a fence has begun a product
    for (OpId id : std::vector<OpId>(fn_.blocks[block].ops)) {
      const OpKind kind = fn_.ops[id].kind;
      const std::vector<BlockId> regions = fn_.ops[id].regions;
      for (BlockId region : regions) any = Block(region, in_loop || IsLoop(kind)) || any;
      if (!regions.empty() || kind == OpKind::kMmaWait || kind == OpKind::kCtaSync) {
        close();
        open = false;
      }
      if (kind == OpKind::kMmaFence && products == 0 && !open) begin = out.size(), open = true;
      out.push_back(id);
      if (kind == OpKind::kMmaCommit && open) ++products, end = id;
    }
    close();
    fn_.blocks[block].ops = std::move(out);
    return any;
  }

  OpId Make(const char* at, const Op& like, BlockId block) {
    Op op;
    op.kind = OpKind::kTurn;
    op.at = like.at;
    op.block = block;
    op.set("id", first_);
    op.set("at", at);
    return fn_.ops.Add(std::move(op));
  }

 private:
  Function& fn_;
  const int64_t first_;
};

}  // namespace

bool TurnsPay(const Function& in, const LayoutPlan& tiles, int64_t warpgroups) {
  if (warpgroups != 2) return false;
  for (OpId id : OpsInOrder(in)) {
    const Op& op = in.ops[id];
    if (op.kind != OpKind::kDot) continue;
    const auto dot = tiles.dots.find(id);
    const OpId loop = LoopAround(in, id);
    if (!loop.valid() || dot == tiles.dots.end() || !dot->second.grouped()) continue;
    const std::vector<OpId>& beside = in.blocks[op.block].ops;
    if (std::count_if(beside.begin(), beside.end(),
                      [&](OpId other) { return in.ops[other].kind == OpKind::kDot; }) != 2)
      continue;
    if (MadeOfProduct(in, loop)(op.operands[0]) || MadeOfProduct(in, loop)(op.operands[1]))
      return true;
  }
  return false;
}

void TakeTurns(const ProgramPlan& plan, const Target& target, Function* warps) {
  int64_t free = target.limits.named_barriers;
  for (const PlannedRole& planned : plan.roles) {
    if (!planned.turns) continue;
    free -= planned.warps / isa::kWarpgroupWarps;
    for (OpId id : std::vector<OpId>(warps->blocks[warps->body].ops)) {
      if (warps->ops[id].kind != OpKind::kRole || warps->ops[id].s("name") != planned.name)
        continue;
      const BlockId body = warps->ops[id].regions[0];
      Turns turns(warps, free);
      if (!turns.Block(body, false)) continue;
      std::vector<OpId>& ops = warps->blocks[body].ops;
      const OpId start = turns.Make("start", warps->ops[id], body);
      warps->blocks[body].ops.insert(ops.begin(), start);
    }
  }
}

}  // namespace tilec::ir
