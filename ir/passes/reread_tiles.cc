// Large tiles that would be held across a reduction of whole rows are computed again behind it,
// from loads made again: the lowering keeps what is loaded more than once in shared memory, where
// copies in flight take no registers, so that more CTAs fit an SM and memory is kept busy while
// some of them reduce.
//
// Only in programs without loops or products, whose tiles would live in registers all along; only
// what TMA can load, or one row that threads put there (mark `kept`); only cheap arithmetic. The
// same loads of a read-only tensor give the same bits, so the meaning is kept bit for bit.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <optional>

#include "ir/lower/operands.h"
#include "ir/lower/scalars.h"
#include "ir/passes/passes.h"
#include "ir/passes/rewrite.h"
#include "ir/passes/row_threads.h"

namespace tilec::ir {
namespace {

// Instructions per element that may be spent twice; special functions count for more.
constexpr int kMostCost = 8, kSpecial = 4, kTooMuch = 1000;

struct Rereader {
  Function& fn;
  PassContext& cx;
  std::map<OpId, int> phase;  // reductions of large tiles above it, in this block
  BlockId here;

  bool Large(ValueId v) const {
    return fn.type(v).is_tile() && fn.type(v).elements() >= cx.target.lowering.reread_elements;
  }
  const Op* DefHere(ValueId v) const {
    const Op* def = fn.def(v);
    return def && def->block == here ? def : nullptr;
  }
  bool Renames(const Op& op) const {
    return op.kind == OpKind::kBroadcast || op.kind == OpKind::kReshape ||
           op.kind == OpKind::kConstant || op.kind == OpKind::kIota;
  }

  // Elements beyond the tensor cannot be asked for.
  bool Inside(const Op& load) const {
    const Param* p = fn.param(load.operands[0]);
    const std::string& modes = load.s("modes");
    for (size_t d = 0; d < modes.size(); ++d) {
      if (modes[d] == 'g') return false;
      const ValueId start = load.operands[1 + d];
      const int64_t size = IsRange(modes[d]) ? load.ints("sizes")[d] : 1;
      const int64_t* at = IntConstantOf(fn, start);
      if (at && p->dims[d].is_const() && *at >= 0 && *at + size <= p->dims[d].value) continue;
      if (size != 1 || !PositionIn(start, p->dims[d])) return false;
    }
    return true;
  }
  // A position of the grid that runs from 0 to the extent.
  bool PositionIn(ValueId v, const Expr& extent) const {
    const Value& value = fn.values[v];
    if (!value.block.valid() || !fn.blocks[value.block].parent.valid()) return false;
    const Op& grid = fn.ops[fn.blocks[value.block].parent];
    if (grid.kind != OpKind::kParallel) return false;
    const std::vector<ValueId>& args = fn.blocks[value.block].args;
    const size_t d = static_cast<size_t>(std::find(args.begin(), args.end(), v) - args.begin());
    const int64_t* lo = IntConstantOf(fn, grid.operands[2 * d]);
    const std::optional<Expr> hi = ToExpr(fn, grid.operands[2 * d + 1]);
    return lo && *lo >= 0 && hi && Simplify(*hi) == Simplify(extent);
  }

  bool Stageable(const Op& op) const {
    if (op.kind != OpKind::kLoad || !IsReadOnlyLoad(fn, op)) return false;
    const Type& type = fn.type(op.results[0]);
    return type.elements() * ByteSize(type.dtype) <=
               cx.target.RowBytes(cx.target.lowering.row_ctas_least) &&
           RereadLayout(type) && (TmaAccess(fn, op, cx.target) || PutByThreads(op));
  }
  // No copy engine brings a row of odd length, or one filled with −∞. Held by 512 threads, 49 to
  // 64 elements each, it took 77 to 128 registers: one CTA of an SM, and nothing overlapped. (H200,
  // softmax: shorter ones are faster held, 427x20613 16.1 us and 18.0, f32 2079x18177 80.9, 83.6.)
  bool PutByThreads(const Op& load) const {
    const TargetLowering& lowering = cx.target.lowering;
    const int64_t elements = fn.type(load.results[0]).elements();
    const int64_t held = lowering.row_registers + lowering.row_registers / 2;
    return fn.type(load.results[0]).shape[0] == 1 &&
           elements > held * ThreadsFor(elements, lowering) && load.s("modes").back() == 'r' &&
           load.s("modes").find_first_not_of("rs") == std::string::npos;
  }

  // Of computing v again.
  int Cost(ValueId v) const {
    if (!Large(v)) return 0;
    const Op* op = DefHere(v);
    if (!op) return kTooMuch;
    if (Stageable(*op)) return 1;
    if (Renames(*op)) return op->operands.empty() ? 0 : Cost(op->operands[0]);
    if (!Info(op->kind).elementwise()) return kTooMuch;
    int cost = 1;
    switch (op->kind) {
      case OpKind::kExp:
      case OpKind::kExp2:
      case OpKind::kLog:
      case OpKind::kLog2:
      case OpKind::kRsqrt:
      case OpKind::kTanh: cost = kSpecial; break;
      case OpKind::kDiv:
      case OpKind::kDivRn:
      case OpKind::kMod:
      case OpKind::kSqrt:
      case OpKind::kSqrtRn:
      case OpKind::kErf:
      case OpKind::kSin:
      case OpKind::kCos:
      case OpKind::kSigmoid: return kTooMuch;
      default: break;
    }
    for (ValueId o : op->operands) cost = std::min(kTooMuch, cost + Cost(o));
    return cost;
  }

  std::map<std::pair<ValueId, int>, ValueId> made;

  ValueId Again(ValueId v, int p, std::vector<OpId>& out) {
    const Op* def = DefHere(v);
    if (!Large(v) || !def || phase.at(fn.values[v].def) == p) return v;
    if (Renames(*def) && (def->operands.empty() || !Large(def->operands[0]))) return v;
    if (Cost(v) > kMostCost) return v;
    const auto [it, fresh] = made.try_emplace({v, p}, v);
    if (!fresh) return it->second;
    Op copy = *def;
    for (ValueId& o : copy.operands) o = Again(o, p, out);
    Builder b(fn, here);
    b.SetSpan(copy.at);
    if (copy.kind == OpKind::kLoad && !TmaAccess(fn, copy, cx.target)) {
      Op& first = fn.ops[fn.values[v].def];
      if (!first.attr("kept")) first.set("kept", int64_t{0});
      copy.set("kept", int64_t{p});
    }
    const OpId id = b.Add(copy.kind, copy.operands, {fn.type(v)}, copy.attrs);
    fn.blocks[here].ops.pop_back();  // its place is here
    out.push_back(id);
    phase[id] = p;
    ++cx.changes;
    return made[{v, p}] = fn.ops[id].results[0];
  }

  void Block(BlockId block) {
    here = block;
    int p = 0;
    for (OpId id : fn.blocks[block].ops) {
      phase[id] = p;
      Op& op = fn.ops[id];
      if ((op.kind == OpKind::kReduce || op.kind == OpKind::kArgReduce) && Large(op.operands[0]))
        ++p;
      if (op.kind == OpKind::kLoad && op.i("has_fill") && Inside(op)) {
        op.operands.pop_back();
        op.set("has_fill", int64_t{0});
      }
    }
    if (p == 0) return;
    RebuildBlock(fn, block, [&](OpId id, std::vector<OpId>& out) {
      const int at = phase.at(id);
      for (size_t i = 0; i < fn.ops[id].operands.size(); ++i) {
        const ValueId v = Again(fn.ops[id].operands[i], at, out);
        fn.ops[id].operands[i] = v;
      }
      out.push_back(id);
    });
  }
};

}  // namespace

Result<> RereadTiles(Function& fn, PassContext& cx) {
  Rereader rereader{fn, cx, {}, {}, {}};
  std::vector<BlockId> blocks;
  for (OpId id : OpsInOrder(fn)) {
    const OpKind kind = fn.ops[id].kind;
    if (IsLoop(kind) || kind == OpKind::kDot) return Done();
    if (kind == OpKind::kParallel) blocks.push_back(fn.ops[id].regions[0]);
  }
  for (BlockId block : blocks) rereader.Block(block);
  return Done();
}

}  // namespace tilec::ir
