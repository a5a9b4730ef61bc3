// Products of few rows whose operands are results of others (decoding attention) are turned round:
//
//     s = q · Kᵀ;  p = f(s);  acc = acc · α + p · V    of 16 rows
//  →  sᵀ = K · qᵀ;  pᵀ = f(sᵀ);  accᵀ = accᵀ · α + Vᵀ · pᵀ
//
// An instruction multiplies 64 rows. Of 16, three of four warps work in vain, on scores,
// exponentials and sums alike, and each instruction is as wide as there are keys. Turned round,
// keys and the head's columns are its rows, queries its columns: a quarter of the work each, in all
// threads. What it costs is that pᵀ goes through shared memory, and reductions over keys from warp
// to warp.
//
// All tiles that are computed change their shape, and with them what reads them: axes of reductions
// and broadcasts, vectors that became columns. Tiles that are loaded stay, since products read them
// either way; stores transpose on their way through shared memory. So a grid is turned as a whole
// or not at all: only if it has nothing but these, and all its products have few rows.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/passes/turn_loops.h"

#include <algorithm>
#include <initializer_list>
#include <utility>
#include <vector>

#include "ir/lower/operands.h"
#include "ir/matrix_unit.h"
#include "ir/queries.h"

namespace tilec::ir {
namespace {

class Turn {
 public:
  Turn(Function& fn, const Target& target) : fn_(fn), target_(target) {}

  bool Run() {
    bool chained = false;
    const std::vector<OpId> all = OpsInOrder(fn_);
    for (OpId id : all) {
      const Op& op = fn_.ops[id];
      if (op.kind == OpKind::kDot) {
        if (!HasFewRows(op)) return false;
        chained = chained || (InLoop(fn_, id) && IsComputed(op.operands[0]));
      } else if (!CanTurn(op)) {
        return false;
      }
    }
    if (!chained) return false;
    for (OpId id : all) TurnOp(id);
    // Types last: what stands above decides by them.
    for (ValueId v : turned_) fn_.values[v].type = Flipped(fn_.type(v));
    return true;
  }

 private:
  bool IsTile(ValueId v) const { return fn_.type(v).is_tile() && fn_.type(v).rank() == 2; }
  // Is it a tile that changes its shape?
  bool IsComputed(ValueId v) const {
    if (!IsTile(v)) return false;
    const Op* def = fn_.def(v);
    while (def && def->kind == OpKind::kTranspose) def = fn_.def(def->operands[0]);
    return !def || def->kind != OpKind::kLoad;
  }

  bool HasFewRows(const Op& dot) const {
    if (!IsOnUnit(fn_, dot, target_) || dot.i("promote") != 0) return false;
    const MatrixUnitInfo& unit = target_.unit();
    const Type &a = fn_.type(dot.operands[0]), &b = fn_.type(dot.operands[1]);
    return unit.completion == Completion::kGroups && 2 * a.shape[0] <= unit.rows &&
           a.shape[0] % 8 == 0 && b.shape[1] % unit.rows == 0 && ByteSize(a.dtype) == 2 &&
           ByteSize(b.dtype) == 2;
  }

  bool CanTurn(const Op& op) const {
    const auto small = [&](ValueId v) { return !fn_.type(v).is_tile() || fn_.type(v).rank() <= 2; };
    if (!std::all_of(op.operands.begin(), op.operands.end(),
                     [&](ValueId v) { return fn_.type(v).is_tensor() || small(v); }) ||
        !std::all_of(op.results.begin(), op.results.end(), small))
      return false;
    const auto tiles = [&](auto&& is) {
      return std::all_of(op.operands.begin(), op.operands.end(),
                         [&](ValueId v) { return !IsTile(v) || is(v); });
    };
    const auto is = [&](std::initializer_list<OpKind> kinds) {
      return std::count(kinds.begin(), kinds.end(), op.kind) > 0;
    };
    const auto computed = [&](ValueId v) { return IsComputed(v); };
    if (is({OpKind::kParallel, OpKind::kConstant, OpKind::kIota, OpKind::kLoad})) return true;
    if (op.kind == OpKind::kStore)
      return tiles([&](ValueId v) { return v == op.operands[1] && IsComputed(v); });
    // Of what is loaded: read by products.
    if (op.kind == OpKind::kTranspose) return tiles([&](ValueId v) { return !IsComputed(v); });
    if (op.kind == OpKind::kReshape) return IsVector(op.operands[0]) && IsVector(op.results[0]);
    if (op.kind == OpKind::kBroadcast)
      return !IsTile(op.results[0]) || fn_.type(op.operands[0]).rank() <= 1 ||
             (IsComputed(op.operands[0]) && op.ints("axes") == std::vector<int64_t>{0, 1});
    const bool plain = is({OpKind::kFor, OpKind::kYield, OpKind::kReduce});
    return (plain || Info(op.kind).elementwise()) && tiles(computed);
  }
  // Elements in a row, whatever the shape says.
  bool IsVector(ValueId v) const {
    const std::vector<int64_t>& shape = fn_.type(v).shape;
    return std::count_if(shape.begin(), shape.end(), [](int64_t n) { return n > 1; }) <= 1;
  }

  static Type Flipped(Type type) {
    std::swap(type.shape[0], type.shape[1]);
    return type;
  }
  // Turned round if it is computed, else behind a transpose in front of `of`.
  ValueId Operand(OpId of, ValueId v, bool computed) {
    if (IsComputed(v) == computed) return v;
    const BlockId block = fn_.ops[of].block;
    std::vector<OpId>& before = fn_.blocks[block].ops;
    const std::ptrdiff_t place = std::find(before.begin(), before.end(), of) - before.begin();
    const auto end = static_cast<std::ptrdiff_t>(before.size());
    Builder b(fn_, block);
    b.SetSpan(fn_.ops[of].at);
    const ValueId made = b.Value(OpKind::kTranspose, {v}, Flipped(fn_.type(v)),
                                 {{"perm", std::vector<int64_t>{1, 0}}});
    std::vector<OpId>& ops = fn_.blocks[block].ops;
    std::rotate(ops.begin() + place, ops.begin() + end, ops.end());
    return made;
  }

  void TurnOp(OpId id) {
    const OpKind kind = fn_.ops[id].kind;
    if (kind == OpKind::kDot) {
      const ValueId a = fn_.ops[id].operands[0], b = fn_.ops[id].operands[1];
      const ValueId left = Operand(id, b, true), right = Operand(id, a, true);
      fn_.ops[id].operands[0] = left;
      fn_.ops[id].operands[1] = right;
    } else if (kind == OpKind::kStore) {
      // The type of what is stored changes below, that of its transpose is right by then.
      const ValueId v = fn_.ops[id].operands[1];
      if (IsTile(v)) fn_.ops[id].operands[1] = Back(id, v);
    } else if (kind == OpKind::kReduce && IsTile(fn_.ops[id].operands[0])) {
      fn_.ops[id].set("axis", 1 - fn_.ops[id].i("axis"));
    } else if (kind == OpKind::kBroadcast && IsTile(fn_.ops[id].results[0]) &&
               fn_.ops[id].ints("axes").size() == 1) {
      fn_.ops[id].set("axes", std::vector<int64_t>{1 - fn_.ops[id].ints("axes")[0]});
    }
    const Op& op = fn_.ops[id];
    for (ValueId v : op.results)
      if (IsComputed(v)) turned_.push_back(v);
    if (kind == OpKind::kFor)
      for (ValueId v : fn_.blocks[op.regions[0]].args)
        if (IsTile(v)) turned_.push_back(v);
  }
  ValueId Back(OpId store, ValueId v) {
    const Type as_before = fn_.type(v);
    const ValueId back = Operand(store, v, false);
    fn_.values[back].type = as_before;
    return back;
  }

  Function& fn_;
  const Target& target_;
  std::vector<ValueId> turned_;
};

}  // namespace

bool TurnLoops(Function& fn, const Target& target) { return Turn(fn, target).Run(); }

}  // namespace tilec::ir
