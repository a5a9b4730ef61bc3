// Measured on an H100 (docs/perf_log.md): attention forward at head dim 128 gains 3 to 20 % by
// turns where its rows have one reference, nothing (-1 to 1 %) with a running maximum; with three
// warpgroups, at head dim 64, -4 to 3 %, with one reference 8 to 20 % (H200); backward, whose
// iterations have four and five products that are not all issued back to back, loses 4 to 10 %.
//
// Of products that are complete at once (H200, TF/s without turns and with them, S 8192,
// causal, S 2048, causal): head dim 64, 256 x 96 308 and 346, 327 and 321, 286 and 320, 250 and
// 248; 256 x 64 324 and 315, 311 and 304, 296 and 301, 248 and 243; 128 x 128 285 and 267; head dim
// 128, 256 x 64 373 and 351, 364 and 330, 355 and 339, 298 and 265: there products take most of the
// time, and one warpgroup alone waits for what it reads. With iterations that begin with the
// product of the one before, so that both are one turn: 338, 319, 314, 244 and, at 128, 281, 256,
// 274, 218.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/lower/turns.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "ir/arms.h"
#include "ir/isa.h"
#include "ir/operand_reads.h"
#include "ir/queries.h"
#include "ir/row_run.h"

namespace tilec::ir {
namespace {

// Is an operand of the product made, inside the loop, of another product's result, or of a
// reduction between the two? Carried values count: pipelining moves a product into the iteration
// before.
class MadeOf {
 public:
  MadeOf(const Function& fn, OpId loop, OpKind kind) : fn_(fn), loop_(loop), kind_(kind) {}
  bool operator()(ValueId v) {
    if (!fn_.type(v).is_tile() || !seen_.insert(v).second) return false;
    const Value& value = fn_.values[v];
    if (value.def.valid()) {
      if (!IsWithin(fn_, value.def, loop_)) return false;
      const Op& op = fn_.ops[value.def];
      if (op.kind == kind_ || op.kind == OpKind::kDot) return op.kind == kind_;
      if (std::any_of(op.operands.begin(), op.operands.end(),
                      [&](ValueId operand) { return op.regions.empty() && (*this)(operand); }))
        return true;
      // Of a loop or a branch: what this one of its results is made of.
      const auto at = static_cast<size_t>(std::find(op.results.begin(), op.results.end(), v) -
                                          op.results.begin());
      if (op.kind == OpKind::kFor && (*this)(op.operands[2 + at])) return true;
      for (BlockId region : op.regions) {
        const std::vector<ValueId>& yields = fn_.ops[fn_.blocks[region].ops.back()].operands;
        if (at < yields.size() && (*this)(yields[at])) return true;
      }
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
  const OpKind kind_;
  std::set<ValueId> seen_;
};
bool IsMadeOf(const Function& fn, OpId loop, const Op& product, OpKind kind) {
  return MadeOf(fn, loop, kind)(product.operands[0]) || MadeOf(fn, loop, kind)(product.operands[1]);
}

// What the ops of a block take: products of all warpgroups, and the threads of one.
struct Takes {
  double products = 0, threads = 0;
  bool brief = false;  // a product so short that the barriers of its turn cost more than it gains
};
Takes TakesOf(const Function& fn, const LayoutPlan& tiles, const Target& target, BlockId block) {
  const double groups = tiles.warpgroups;
  Takes takes;
  for (OpId id : fn.blocks[block].ops) {
    const Op& op = fn.ops[id];
    if (op.results.empty() || IsFree(op.kind) || !op.regions.empty() || op.kind == OpKind::kLoad)
      continue;
    const Type& made = fn.type(op.results[0]);
    std::string name = Info(op.kind).mnemonic;
    Work work;
    if (op.kind == OpKind::kDot) {
      const Type& a = fn.type(op.operands[0]);
      const DotPlan& plan = tiles.dots.at(id);
      const OpCost* cost = target.CostOf(fmt::format("{}.{}", name, Info(a.dtype).bits));
      work.flops = 2.0 * static_cast<double>(made.elements() * plan.k_padded);
      work.bytes = static_cast<double>(OperandReads(fn, op, plan, tiles.warpgroups));
      int64_t longest = 0;
      for (const TargetUse& use : cost->uses)
        if (!target.units[static_cast<size_t>(use.unit)].fluid)
          longest = std::max(longest, use.cycles.At(work));
      takes.brief = takes.brief || static_cast<double>(longest) / groups <
                                       static_cast<double>(target.lowering.turn_least_cycles);
      takes.products += static_cast<double>(longest);
      continue;
    }
    if (made.shape.empty()) continue;
    if (op.kind == OpKind::kReduce) name += "." + op.s("kind");
    for (ValueId v : op.operands)
      work.elements = std::max(work.elements, static_cast<double>(fn.type(v).elements()) / groups);
    for (ValueId v : op.results) {
      const double own = static_cast<double>(fn.type(v).elements()) / groups;
      work.elements = std::max(work.elements, own);
      work.rows += own;
    }
    takes.threads += static_cast<double>(target.CostOf(name)->issue.At(work));
  }
  return takes;
}

// Do threads compute longer for an iteration than its products take? Then warpgroups that are in
// step leave the matrix unit idle for most of the time.
bool ComputeLonger(const Function& fn, const LayoutPlan& tiles, const Target& target,
                   BlockId block) {
  const Takes takes = TakesOf(fn, tiles, target, block);
  return !takes.brief && takes.threads > takes.products;
}

// Puts `begin` and `end` around products of one block that are committed back to back, and around
// each that is complete at once.
class TurnPlanner {
 public:
  TurnPlanner(Function* fn, int64_t first) : fn_(*fn), first_(first) {}

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
      if (!regions.empty() || kind == OpKind::kMmaWait || kind == OpKind::kCtaSync ||
          MeetsInScratch(fn_.ops[id])) {
        close();
        open = false;
      }
      if (in_loop && kind == OpKind::kMma && !FliesFrom(fn_.ops[id])) {
        out.push_back(Make("begin", fn_.ops[id], block));
        out.push_back(id);
        out.push_back(Make("end", fn_.ops[id], block));
        any = true;
        continue;
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

namespace {

// Those whose operand is made, in a loop of two products, of the other's result.
std::vector<OpId> FedProducts(const Function& in, const LayoutPlan& tiles) {
  std::vector<OpId> fed;
  for (OpId id : OpsInOrder(in)) {
    const Op& op = in.ops[id];
    if (op.kind != OpKind::kDot) continue;
    const auto dot = tiles.dots.find(id);
    const OpId loop = LoopAround(in, id);
    if (!loop.valid() || dot == tiles.dots.end() || dot->second.unit == MatrixUnit::kNone) continue;
    if (!dot->second.grouped() && dot->second.flies()) continue;
    const std::vector<OpId>& beside = in.blocks[op.block].ops;
    if (std::count_if(beside.begin(), beside.end(),
                      [&](OpId other) { return in.ops[other].kind == OpKind::kDot; }) != 2)
      continue;
    if (IsMadeOf(in, loop, op, OpKind::kDot)) fed.push_back(id);
  }
  return fed;
}

}  // namespace

bool FeedsProducts(const Function& in, const LayoutPlan& tiles) {
  const std::vector<OpId> fed = FedProducts(in, tiles);
  return std::any_of(fed.begin(), fed.end(), [&](OpId id) { return tiles.dots.at(id).grouped(); });
}

bool TurnsPay(const Function& in, const LayoutPlan& tiles, const Target& target,
              int64_t warpgroups) {
  constexpr int64_t kMost = 3;
  if (warpgroups < 2 || warpgroups > kMost) return false;
  const std::vector<OpId> fed = FedProducts(in, tiles);
  // What each waits for across lanes in its turn keeps three of them apart. Without that they fall
  // in step, which costs where their threads compute for longer than the others' products take.
  const auto apart = [&](OpId id) {
    const OpId loop = LoopAround(in, id);
    const std::vector<OpId> inside = OpsInside(in, loop);
    if (std::any_of(inside.begin(), inside.end(),
                    [&](OpId other) { return IsLoop(in.ops[other].kind); }))
      return false;
    const Takes takes = TakesOf(in, tiles, target, in.ops[id].block);
    return IsMadeOf(in, loop, in.ops[id], OpKind::kReduce) ||
           takes.threads * kMost < takes.products * (kMost - 1);
  };
  if (warpgroups == kMost && std::any_of(fed.begin(), fed.end(), apart)) return false;
  // Of several versions of an iteration the one without masks is the one that is executed.
  return !fed.empty() && std::all_of(fed.begin(), fed.end(), [&](OpId id) {
    return tiles.dots.at(id).flies() || ComputeLonger(in, tiles, target, in.ops[id].block);
  });
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
      TurnPlanner turns(warps, free);
      if (!turns.Block(body, false)) continue;
      std::vector<OpId>& ops = warps->blocks[body].ops;
      const OpId start = turns.Make("start", warps->ops[id], body);
      warps->blocks[body].ops.insert(ops.begin(), start);
    }
  }
}

}  // namespace tilec::ir
