// Products of scaled blocks, on machines whose matrix unit has none of them: each factor is
// multiplied by its scale, which a bf16 holds exactly (four bits of e4m3, or two of e2m1 times four
// of ue4m3), and the product is one of bf16.
//
//     dot(a, b, acc, sa, sb)  →  dot(bf16(f32(a) · f32(sa repeated)), …, acc)
//
// Where a tile has one scale along K, it is broadcast. Else a scale stands for n of K, and no tile
// op repeats elements in a row: what the scales are made of is made again, each element n times, a
// load of positions p … becomes a gather of positions p + i / n. Slow, and right everywhere; the
// same kernel runs on every GPU. Two operands of e2m1x2 make two products, of even and odd numbers;
// one of them beside bytes of one number is made again likewise, each byte twice.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <bit>
#include <optional>
#include <utility>

#include "ir/diagnostics.h"
#include "ir/e2m1.h"
#include "ir/lower/operands.h"
#include "ir/passes/passes.h"
#include "ir/passes/rewrite.h"

namespace tilec::ir {
namespace {

// Of a byte with two numbers those that are multiplied. The order along K is free as long as both
// operands have it, so the even numbers of both make a product, and the odd ones another: nothing
// is moved to where it lies between its neighbours.
enum class Numbers { kAll, kEven, kOdd };

class Decoder {
 public:
  Decoder(Function& fn, PassContext& cx) : fn_(fn), cx_(cx) {}

  Result<> Run(BlockId block) {
    Result<> result = Done();
    RebuildBlock(fn_, block, [&](OpId id, std::vector<OpId>& out) {
      forward_.ResolveOperands(fn_.ops[id]);
      const std::vector<BlockId> regions = fn_.ops[id].regions;
      for (BlockId region : regions)
        if (Result<> inner = Run(region); !inner.ok()) result = inner;
      const Op op = fn_.ops[id];  // a copy: adding ops moves it
      if (op.kind != OpKind::kDot || op.operands.size() <= 3 || IsOnUnit(fn_, op, cx_.target)) {
        out.push_back(id);
        return;
      }
      // Built at the end of the block, whose old ops are in RebuildBlock's hands.
      Builder b(fn_, block);
      b.SetSpan(op.at);
      const auto packed = [&](size_t operand) {
        return fn_.type(op.operands[operand]).dtype == DType::kE2M1X2;
      };
      const std::vector<Numbers> parts = packed(0) && packed(1)
                                             ? std::vector<Numbers>{Numbers::kEven, Numbers::kOdd}
                                             : std::vector<Numbers>{Numbers::kAll};
      ValueId sum = op.operands[2];
      for (const Numbers part : parts) {
        const std::optional<ValueId> left = Side(b, op.operands[0], op.operands[3], 1, part),
                                     right = Side(b, op.operands[1], op.operands[4], 0, part);
        if (!left || !right) {
          result = cx_.diags.Report(kScalesNotDecoded, op.at, cx_.target.name, why_);
          fn_.blocks[block].ops.clear();
          out.push_back(id);
          return;
        }
        sum = b.Value(OpKind::kDot, {*left, *right, sum}, fn_.type(op.results[0]));
      }
      forward_.Replace(op.results[0], sum);
      for (OpId made : fn_.blocks[block].ops) out.push_back(made);
      fn_.blocks[block].ops.clear();
      if (cx_.changes++ == 0) cx_.diags.Report(kScalesDecoded, op.at, cx_.target.name);
    });
    return result;
  }

 private:
  static Type Longer(Type type, size_t axis, int64_t times) {
    type.shape[axis] *= times;
    return type;
  }
  static Type Of(Type type, DType d) {
    type.dtype = d;
    return type;
  }
  ValueId Turned(Builder& b, ValueId v) {
    Type type = fn_.type(v);
    std::swap(type.shape[0], type.shape[1]);
    return b.Value(OpKind::kTranspose, {v}, type, {{"perm", std::vector<int64_t>{1, 0}}});
  }
  ValueId Along(Builder& b, ValueId line, const Type& type, size_t axis) {
    return b.Value(OpKind::kBroadcast, {line}, Of(type, DType::kI32),
                   {{"axes", std::vector<int64_t>{static_cast<int64_t>(axis)}}});
  }
  // first / 2^shift …: `n` numbers from `first` on, each 2^shift times.
  ValueId Steps(Builder& b, ValueId first, int64_t n, int shift) {
    const Type type = Type::Tile(DType::kI32, {n});
    const ValueId steps =
        b.Binary(OpKind::kShr, b.Value(OpKind::kIota, {b.Int(0)}, type), b.Constant(type, shift));
    const ValueId start = b.Value(OpKind::kBroadcast, {b.Cast(first, DType::kI32)}, type,
                                  {{"axes", std::vector<int64_t>{}}});
    return b.Binary(OpKind::kAdd, start, steps);
  }

  // An operand, K along `axis`, times its scales.
  std::optional<ValueId> Side(Builder& b, ValueId v, ValueId scales, size_t axis, Numbers part) {
    if (const Op* turn = fn_.def(v); turn && turn->kind == OpKind::kTranspose) {
      const ValueId inner = turn->operands[0];  // as it lies in memory
      const Op* other = fn_.def(scales);
      const ValueId lying =
          other && other->kind == OpKind::kTranspose ? other->operands[0] : Turned(b, scales);
      const std::optional<ValueId> made = Side(b, inner, lying, 1 - axis, part);
      if (!made) return {};
      return Turned(b, *made);
    }
    ValueId numbers = v;
    if (part != Numbers::kAll) {
      const Type words = Of(fn_.type(v), DType::kI32);
      ValueId codes = b.Cast(b.Value(OpKind::kBitcast, {v}, Of(words, DType::kU8)), DType::kI32);
      if (part == Numbers::kOdd) codes = b.Binary(OpKind::kShr, codes, b.Constant(words, 4));
      numbers = DecodeE2M1(b, codes);
    } else if (fn_.type(v).dtype == DType::kE2M1X2) {
      const std::optional<ValueId> pairs = Repeat(b, v, axis, 2);
      if (!pairs) return {};
      const Type words = Of(fn_.type(*pairs), DType::kI32);
      const ValueId bytes =
          b.Cast(b.Value(OpKind::kBitcast, {*pairs}, Of(words, DType::kU8)), DType::kI32);
      const Type line = Type::Tile(DType::kI32, {words.shape[axis]});
      const ValueId odd =
          b.Binary(OpKind::kAnd, b.Value(OpKind::kIota, {b.Int(0)}, line), b.Constant(line, 1));
      const ValueId half = Along(b, b.Binary(OpKind::kShl, odd, b.Constant(line, 2)), words, axis);
      numbers = DecodeE2M1(b, b.Binary(OpKind::kShr, bytes, half));
    } else {
      numbers = b.Cast(v, DType::kF32);
    }
    const int64_t times = fn_.type(numbers).shape[axis] / fn_.type(scales).shape[axis];
    if (fn_.type(scales).shape[axis] == 1) {
      const ValueId one = b.Value(OpKind::kBroadcast, {b.Cast(scales, DType::kF32)},
                                  fn_.type(numbers), {{"axes", std::vector<int64_t>{0, 1}}});
      return b.Cast(b.Binary(OpKind::kMul, numbers, one), DType::kBF16);
    }
    const std::optional<ValueId> repeated = Repeat(b, scales, axis, times);
    if (!repeated) return {};
    return b.Cast(b.Binary(OpKind::kMul, numbers, b.Cast(*repeated, DType::kF32)), DType::kBF16);
  }

  // The tile with each element along `axis` `times` times in a row; a power of two.
  std::optional<ValueId> Repeat(Builder& b, ValueId v, size_t axis, int64_t times) {
    const Op* def = fn_.def(v);
    const Type type = Longer(fn_.type(v), axis, times);
    if (!def) return Cannot("a value that a loop carries");
    const Op op = *def;  // a copy: adding ops moves it
    if (Info(op.kind).elementwise()) {
      std::vector<ValueId> operands;
      for (ValueId o : op.operands) {
        const std::optional<ValueId> longer = Repeat(b, o, axis, times);
        if (!longer) return {};
        operands.push_back(*longer);
      }
      return b.Value(op.kind, std::move(operands), type, op.attrs);
    }
    const int shift = std::countr_zero(static_cast<uint64_t>(times));
    switch (op.kind) {
      case OpKind::kConstant: return b.Value(op.kind, {}, type, op.attrs);
      case OpKind::kIota: return Steps(b, op.operands[0], type.shape[0], shift);
      case OpKind::kTranspose: {
        const auto from = static_cast<size_t>(op.ints("perm")[axis]);
        const std::optional<ValueId> longer = Repeat(b, op.operands[0], from, times);
        if (!longer) return {};
        return b.Value(op.kind, {*longer}, type, op.attrs);
      }
      case OpKind::kBroadcast: return RepeatBroadcast(b, op, type, axis, times);
      case OpKind::kLoad: return RepeatLoad(b, op, type, axis, times, shift);
      default: return Cannot(fmt::format("the result of `{}`", Info(op.kind).mnemonic));
    }
  }

  std::optional<ValueId> RepeatBroadcast(Builder& b, const Op& op, const Type& type, size_t axis,
                                         int64_t times) {
    const std::vector<int64_t>& axes = op.ints("axes");
    ValueId from = op.operands[0];
    for (size_t i = 0; i < axes.size(); ++i)
      if (static_cast<size_t>(axes[i]) == axis && fn_.type(from).shape[i] != 1) {
        const std::optional<ValueId> longer = Repeat(b, from, i, times);
        if (!longer) return {};
        from = *longer;
      }
    return b.Value(op.kind, {from}, type, op.attrs);
  }

  std::optional<ValueId> RepeatLoad(Builder& b, const Op& op, const Type& type, size_t axis,
                                    int64_t times, int shift) {
    const Param* p = fn_.param(op.operands[0]);
    if (!p || p->direction != Direction::kIn)
      return Cannot("a load of a tensor that the kernel writes, too");
    std::string modes = op.s("modes");
    std::vector<int64_t> sizes = op.ints("sizes");
    std::vector<ValueId> operands = op.operands;
    size_t dim = 0, kept = 0;
    for (; dim < modes.size(); ++dim)
      if (modes[dim] != 's' && kept++ == axis) break;
    ValueId& index = operands[1 + dim];  // a load has one operand for each dim
    if (modes[dim] == 'r') {
      index = Steps(b, index, type.shape[axis], shift);
      modes[dim] = 'g';
    } else {
      const std::optional<ValueId> longer = Repeat(b, index, 0, times);
      if (!longer) return {};
      index = *longer;
    }
    sizes[dim] *= times;
    Attrs attrs = op.attrs;
    for (auto& [name, value] : attrs) {
      if (name == "modes") value = modes;
      if (name == "sizes") value = sizes;
    }
    return b.Value(op.kind, std::move(operands), type, std::move(attrs));
  }

  std::nullopt_t Cannot(std::string what) {
    if (why_.empty()) why_ = std::move(what);
    return std::nullopt;
  }

  Function& fn_;
  PassContext& cx_;
  Forwarding forward_{fn_};
  std::string why_;
};

}  // namespace

Result<> DecodeScales(Function& fn, PassContext& cx) { return Decoder(fn, cx).Run(fn.body); }

}  // namespace tilec::ir
