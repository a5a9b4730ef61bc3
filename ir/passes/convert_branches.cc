// Branches of innermost loops that choose between scalars, or between little, become selects: both
// arms are computed, which costs less than what a branch takes from a schedule (an op in front of
// it cannot be moved behind it, and products are awaited at it). So `if` and `select` of a scalar
// are one program.
//
//   * Only arms without effects: arithmetic, and scalars from tensors that the kernel only reads
//     (positions outside of a tensor read 0, so a load that was guarded may be made).
//   * Only arms of few elements together with the tiles that are chosen: a branch over more stays
//     one, and the scheduler takes it as one op (scheduler/extract.h).
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/passes/convert_branches.h"

#include <algorithm>

#include "ir/passes/rewrite.h"

namespace tilec::ir {
namespace {

// Eight instructions of each thread of a role.
constexpr int64_t kFewElements = 1024;

class Converter {
 public:
  explicit Converter(Function& fn) : fn_(fn), forward_(fn) {}

  int Run() {
    Walk(fn_.body, false);
    if (changes_ > 0)
      for (OpId id : OpsInOrder(fn_)) forward_.ResolveOperands(fn_.ops[id]);
    return changes_;
  }

 private:
  bool HasLoop(BlockId block) const {
    return std::any_of(fn_.blocks[block].ops.begin(), fn_.blocks[block].ops.end(), [&](OpId id) {
      const Op& op = fn_.ops[id];
      return IsLoop(op.kind) || std::any_of(op.regions.begin(), op.regions.end(),
                                            [&](BlockId region) { return HasLoop(region); });
    });
  }

  void Walk(BlockId block, bool innermost) {
    RebuildBlock(fn_, block, [&](OpId id, std::vector<OpId>& out) {
      const std::vector<BlockId> regions = fn_.ops[id].regions;
      const bool loop = fn_.ops[id].kind == OpKind::kFor;
      for (BlockId region : regions)
        Walk(region, loop ? !HasLoop(region) : innermost && fn_.ops[id].kind == OpKind::kIf);
      if (innermost && IsCheap(fn_.ops[id]))
        Convert(id, out);
      else
        out.push_back(id);
    });
  }

  int64_t Elements(ValueId v) const {
    return fn_.type(v).is_tile() && fn_.type(v).rank() > 0 ? fn_.type(v).elements() : 0;
  }

  bool IsCheap(const Op& branch) const {
    if (branch.kind != OpKind::kIf || branch.i("apart") != 0) return false;
    int64_t elements = 0;
    for (ValueId r : branch.results) elements += Elements(r);
    for (BlockId arm : branch.regions)
      for (OpId id : fn_.blocks[arm].ops) {
        const Op& op = fn_.ops[id];
        if (op.kind == OpKind::kYield) continue;
        if (!op.regions.empty() || op.results.empty() || op.kind == OpKind::kDot) return false;
        const bool scalar = IsReadOnlyLoad(fn_, op) && Elements(op.results[0]) == 0;
        if (Info(op.kind).effect != OpEffect::kPure && !scalar) return false;
        if (IsFree(op.kind)) continue;
        int64_t most = Elements(op.results[0]);
        for (ValueId v : op.operands) most = std::max(most, Elements(v));
        elements += scalar ? 0 : most;
      }
    return elements <= kFewElements;
  }

  void Convert(OpId id, std::vector<OpId>& out) {
    const Op branch = fn_.ops[id];  // a copy: adding moves the ops
    std::vector<std::vector<ValueId>> yields;
    for (BlockId arm : branch.regions) {
      const std::vector<OpId> ops = fn_.blocks[arm].ops;
      for (OpId op : ops)
        if (fn_.ops[op].kind != OpKind::kYield) out.push_back(op);
      yields.push_back(fn_.ops[ops.back()].operands);
    }
    // Ops are made in a block of their own and moved to their place.
    const BlockId made = fn_.AddBlock({});
    Builder b(fn_, made);
    b.SetSpan(branch.at);
    for (size_t i = 0; i < branch.results.size(); ++i) {
      const ValueId old = branch.results[i];
      const ValueId yes = forward_.Resolve(yields[0][i]), no = forward_.Resolve(yields[1][i]);
      ValueId chosen = yes;
      if (yes != no) {
        ValueId condition = branch.operands[0];
        const Type& type = fn_.type(old);
        if (type.is_tile() && type.rank() > 0)
          condition = b.Value(OpKind::kBroadcast, {condition}, Type::Tile(DType::kBool, type.shape),
                              {{"axes", std::vector<int64_t>{}}});
        chosen = b.Value(OpKind::kSelect, {condition, yes, no}, fn_.type(old));
        fn_.values[chosen].name = fn_.values[old].name;
      }
      forward_.Replace(old, chosen);
    }
    for (OpId op : fn_.blocks[made].ops) out.push_back(op);
    fn_.blocks[made].ops.clear();
    ++changes_;
  }

  Function& fn_;
  Forwarding forward_;
  int changes_ = 0;
};

}  // namespace

int ConvertBranches(Function& fn) { return Converter(fn).Run(); }

}  // namespace tilec::ir
