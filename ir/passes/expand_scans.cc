// Scans, which no hardware has, become loops of ops that every lowering knows:
//
//     y = scan x along axis  →  carry, y = for i in 0..n (carry, y) {
//                                 here = position == i            // along the axis, repeated
//                                 v = reduce sum (select here, x, 0)
//                                 carry = i == 0 ? v : combine(carry, v)
//                                 y = select here, carry, y
//                               }
//
// v is one element of each line and zeros, so that its sum is exact; the combination goes from the
// first position to the last, as the interpreter's does. Any layout, any extent; a line of n takes
// n reductions, one behind the other. A scan by halves would take log n, but needs positions to
// meet across threads and warps, for which tile IR has no op.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/passes/passes.h"
#include "ir/passes/rewrite.h"

namespace tilec::ir {
namespace {

class Expander {
 public:
  Expander(Function& fn, PassContext& cx) : fn_(fn), cx_(cx) {}

  void Run(BlockId block) {
    RebuildBlock(fn_, block, [&](OpId id, std::vector<OpId>& out) {
      forward_.ResolveOperands(fn_.ops[id]);
      const std::vector<BlockId> regions = fn_.ops[id].regions;
      for (BlockId region : regions) Run(region);
      if (fn_.ops[id].kind != OpKind::kScan) {
        out.push_back(id);
        return;
      }
      // Built at the end of the block, whose old ops are in RebuildBlock's hands.
      Builder b(fn_, block);
      b.SetSpan(fn_.ops[id].at);
      forward_.Replace(fn_.ops[id].results[0], Expand(b, fn_.ops[id]));
      for (OpId made : fn_.blocks[block].ops) out.push_back(made);
      fn_.blocks[block].ops.clear();
      ++cx_.changes;
    });
  }

 private:
  // The op is copied: adding ops moves it.
  ValueId Expand(Builder& b, const Op op) {
    const ValueId x = op.operands[0];
    const Type type = fn_.type(x);
    const int64_t axis = op.i("axis"), length = type.shape[static_cast<size_t>(axis)];
    std::vector<int64_t> shape = type.shape;
    shape.erase(shape.begin() + axis);
    const Type line = Type::Tile(type.dtype, shape);
    std::vector<int64_t> others;
    for (int64_t d = 0; d < type.rank(); ++d)
      if (d != axis) others.push_back(d);
    const Type positions = Type::Tile(DType::kI32, type.shape);

    const ValueId first = b.Int(0);
    const ValueId iota = b.Value(OpKind::kIota, {first}, Type::Tile(DType::kI32, {length}));
    const ValueId position =
        b.Value(OpKind::kBroadcast, {iota}, positions, {{"axes", std::vector<int64_t>{axis}}});
    const ValueId zero = b.Constant(type, 0), carry = b.Constant(line, 0);
    const OpId loop = b.Add(OpKind::kFor, {b.Int(0), b.Int(length), carry, zero}, {line, type},
                            {{"step", int64_t{1}}});
    const BlockId body = fn_.AddBlock(loop);
    fn_.ops[loop].regions.push_back(body);
    const ValueId i = fn_.AddArg(body, Type::Scalar(DType::kI64));
    const ValueId before = fn_.AddArg(body, line), done = fn_.AddArg(body, type);

    Builder in(fn_, body);
    in.SetSpan(b.span());
    const ValueId at = in.Value(OpKind::kBroadcast, {in.Cast(i, DType::kI32)}, positions,
                                {{"axes", std::vector<int64_t>{}}});
    const ValueId here = in.Cmp("eq", position, at);
    const ValueId picked = in.Value(OpKind::kSelect, {here, x, zero}, type);
    const ValueId v =
        in.Value(OpKind::kReduce, {picked}, line, {{"kind", std::string("sum")}, {"axis", axis}});
    ValueId start = in.Cmp("eq", i, in.Int(0));
    if (!shape.empty())
      start = in.Value(OpKind::kBroadcast, {start}, Type::Tile(DType::kBool, shape),
                       {{"axes", std::vector<int64_t>{}}});
    const ValueId next =
        in.Value(OpKind::kSelect, {start, v, in.Binary(Combine(op.s("kind")), before, v)}, line);
    const ValueId repeated = in.Value(OpKind::kBroadcast, {next}, type, {{"axes", others}});
    in.Yield({next, in.Value(OpKind::kSelect, {here, repeated, done}, type)});
    return fn_.ops[loop].results[1];
  }

  static OpKind Combine(const std::string& kind) {
    if (kind == "sum") return OpKind::kAdd;
    if (kind == "prod") return OpKind::kMul;
    return kind == "max" ? OpKind::kMax : OpKind::kMin;
  }

  Function& fn_;
  PassContext& cx_;
  Forwarding forward_{fn_};
};

}  // namespace

Result<> ExpandScans(Function& fn, PassContext& cx) {
  Expander(fn, cx).Run(fn.body);
  return Done();
}

}  // namespace tilec::ir
