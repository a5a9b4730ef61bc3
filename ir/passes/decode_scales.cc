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

#include <algorithm>
#include <bit>
#include <map>
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
enum class Lanes { kAll, kEven, kOdd };

// A part of an operand along K, as it lies in memory (bytes that hold one number or two): kPiece of
// them, or all.
struct Piece {
  ValueId first;  // invalid: all of it
  Lanes numbers = Lanes::kAll;
};
// What is decoded at once. Tiles of a whole iteration do not fit registers: of 128 x 128 numbers
// e4m3 spilled 768 bytes, and 128 x 256 of nvfp4 6464; pieces of 32 bytes spill nothing.
constexpr int64_t kPiece = 32;

class Decoder {
 public:
  Decoder(Function& fn, PassContext& cx) : fn_(fn), cx_(cx) {}

  Result<> Run() {
    CutLoops(fn_.body);
    return Run(fn_.body);
  }

 private:
  Result<> Run(BlockId block) {
    Result<> result = Done();
    RebuildBlock(fn_, block, [&](OpId id, std::vector<OpId>& out) {
      forward_.ResolveOperands(fn_.ops[id]);
      const std::vector<BlockId> regions = fn_.ops[id].regions;
      for (BlockId region : regions)
        if (Result<> inner = Run(region); !inner.ok()) result = inner;
      const Op op = fn_.ops[id];  // a copy: adding ops moves it
      if (op.kind != OpKind::kDot || !IsDecoded(op)) {
        out.push_back(id);
        return;
      }
      // Built at the end of the block, whose old ops are in RebuildBlock's hands.
      Builder b(fn_, block);
      b.SetSpan(op.at);
      const std::optional<ValueId> sum = Decoded(b, op, block);
      if (!sum) {
        result = cx_.diags.Report(kScalesNotDecoded, op.at, cx_.target.name, why_);
        fn_.blocks[block].ops.clear();
        out.push_back(id);
        return;
      }
      forward_.Replace(op.results[0], *sum);
      for (OpId made : fn_.blocks[block].ops) out.push_back(made);
      fn_.blocks[block].ops.clear();
      if (cx_.changes++ == 0) cx_.diags.Report(kScalesDecoded, op.at, cx_.target.name);
    });
    return result;
  }

  std::optional<ValueId> Decoded(Builder& b, const Op& op, BlockId block) {
    const Type left_type = fn_.type(op.operands[0]), right_type = fn_.type(op.operands[1]);
    const bool pairs = left_type.dtype == DType::kE2M1X2 && right_type.dtype == DType::kE2M1X2;
    const std::vector<Lanes> all =
        pairs ? std::vector<Lanes>{Lanes::kEven, Lanes::kOdd} : std::vector<Lanes>{Lanes::kAll};
    const auto piece = pieces_.find(block);
    ValueId sum = op.operands[2];
    for (const Lanes part : all) {
      const Piece of = {piece == pieces_.end() ? ValueId() : piece->second, part};
      const std::optional<ValueId> left = Side(b, op.operands[0], op.operands[3], 1, of),
                                   right = Side(b, op.operands[1], op.operands[4], 0, of);
      if (!left || !right) return {};
      sum = b.Value(OpKind::kDot, {*left, *right, sum}, fn_.type(op.results[0]));
    }
    return sum;
  }

  // A loop that adds up such products and does nothing else, a tile of K in each iteration.
  bool AddsUp(const Op& loop) const {
    if (loop.kind != OpKind::kFor || loop.results.size() != 1) return false;
    const Block& body = fn_.blocks[loop.regions[0]];
    const ValueId sum = body.args[1];
    OpId product;
    for (OpId id : body.ops) {
      const Op& op = fn_.ops[id];
      if (op.kind == OpKind::kYield || (op.kind == OpKind::kDot && IsDecoded(op))) {
        if (op.kind == OpKind::kDot && product.valid()) return false;
        if (op.kind == OpKind::kDot) product = id;
        continue;
      }
      const bool reads = std::count(op.operands.begin(), op.operands.end(), sum) > 0;
      if (reads || !op.regions.empty() ||
          (Info(op.kind).effect != OpEffect::kPure && !IsReadOnlyLoad(fn_, op)))
        return false;
    }
    if (!product.valid()) return false;
    const Op& dot = fn_.ops[product];
    const int64_t k = fn_.type(dot.operands[0]).shape[1];
    return dot.operands[2] == sum && fn_.ops[body.ops.back()].operands[0] == dot.results[0] &&
           k == fn_.type(dot.operands[1]).shape[0] && k == loop.i("step") && k > kPiece &&
           k % kPiece == 0 && k / fn_.type(dot.operands[3]).shape[1] <= kPiece &&
           k / fn_.type(dot.operands[4]).shape[0] <= kPiece;
  }
  bool IsDecoded(const Op& dot) const {
    return dot.operands.size() > 3 && !IsOnUnit(fn_, dot, cx_.target);
  }

  // Such loops get an iteration for each piece of a tile. The tile's place is what it was.
  void CutLoops(BlockId block) {
    RebuildBlock(fn_, block, [&](OpId id, std::vector<OpId>& out) {
      const std::vector<BlockId> regions = fn_.ops[id].regions;
      for (BlockId region : regions) CutLoops(region);
      if (AddsUp(fn_.ops[id])) {
        Builder b(fn_, block);
        b.SetSpan(fn_.ops[id].at);
        const ValueId begin = fn_.ops[id].operands[0], end = fn_.ops[id].operands[1];
        const ValueId tile = b.Int(fn_.ops[id].i("step")), last = b.Int(fn_.ops[id].i("step") - 1);
        const ValueId length = b.Binary(OpKind::kSub, end, begin);
        const ValueId tiles = b.Binary(OpKind::kDiv, b.Binary(OpKind::kAdd, length, last), tile);
        fn_.ops[id].operands[1] =
            b.Binary(OpKind::kAdd, begin, b.Binary(OpKind::kMul, tiles, tile));
        fn_.ops[id].set("step", kPiece);
        for (OpId made : fn_.blocks[block].ops) out.push_back(made);
        fn_.blocks[block].ops.clear();
        CutBody(regions[0], begin, tile);
      }
      out.push_back(id);
    });
  }
  void CutBody(BlockId body, ValueId begin, ValueId tile) {
    const ValueId position = fn_.blocks[body].args[0];
    ValueMap map;
    RebuildBlock(fn_, body, [&](OpId id, std::vector<OpId>& out) {
      if (map.empty()) {
        Builder b(fn_, body);
        b.SetSpan(fn_.ops[id].at);
        const ValueId inside =
            b.Binary(OpKind::kMod, b.Binary(OpKind::kSub, position, begin), tile);
        map[position] = b.Binary(OpKind::kSub, position, inside);
        pieces_[body] = inside;
        positions_[{map[position], inside}] = position;
        out = std::move(fn_.blocks[body].ops);
        fn_.blocks[body].ops.clear();
      }
      ReplaceOperands(fn_, id, map);
      out.push_back(id);
    });
  }

  static Type With(Type type, size_t axis, int64_t length) {
    type.shape[axis] = length;
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
  // `n` elements of a tile along an axis: element i is that of first + i / 2^shift.
  struct Line {
    ValueId first;  // invalid: 0
    int64_t n = 0;
    int shift = 0;
  };
  ValueId From(Builder& b, ValueId start, const Line& line) {
    const auto cut = positions_.find({start, line.first});
    if (cut != positions_.end()) return cut->second;
    return line.first.valid() ? b.Binary(OpKind::kAdd, start, line.first) : start;
  }
  // What stands at these places of a line that begins with `start`.
  ValueId Steps(Builder& b, ValueId start, const Line& line) {
    const Type type = Type::Tile(DType::kI32, {line.n});
    const ValueId steps = b.Binary(OpKind::kShr, b.Value(OpKind::kIota, {b.Int(0)}, type),
                                   b.Constant(type, line.shift));
    start = From(b, start, line);
    const ValueId from = b.Value(OpKind::kBroadcast, {b.Cast(start, DType::kI32)}, type,
                                 {{"axes", std::vector<int64_t>{}}});
    return b.Binary(OpKind::kAdd, from, steps);
  }

  // An operand, K along `axis`, times its scales.
  std::optional<ValueId> Side(Builder& b, ValueId v, ValueId scales, size_t axis,
                              const Piece& piece) {
    if (const Op* turn = fn_.def(v); turn && turn->kind == OpKind::kTranspose) {
      const ValueId inner = turn->operands[0];  // as it lies in memory
      const Op* other = fn_.def(scales);
      const ValueId lying =
          other && other->kind == OpKind::kTranspose ? other->operands[0] : Turned(b, scales);
      const std::optional<ValueId> made = Side(b, inner, lying, 1 - axis, piece);
      if (!made) return {};
      return Turned(b, *made);
    }
    const bool alone = piece.numbers == Lanes::kAll && fn_.type(v).dtype == DType::kE2M1X2;
    const int64_t all = fn_.type(v).shape[axis] * (alone ? 2 : 1);
    const int64_t n = piece.first.valid() ? kPiece : all;
    const std::optional<ValueId> own = Made(b, v, axis, {piece.first, n, alone ? 1 : 0});
    if (!own) return {};
    ValueId numbers = *own;
    if (fn_.type(v).dtype == DType::kE2M1X2) {
      const Type words = Of(fn_.type(*own), DType::kI32);
      ValueId codes = b.Cast(b.Value(OpKind::kBitcast, {*own}, Of(words, DType::kU8)), DType::kI32);
      if (alone) {
        const Type line = Type::Tile(DType::kI32, {n});
        const ValueId odd =
            b.Binary(OpKind::kAnd, b.Value(OpKind::kIota, {b.Int(0)}, line), b.Constant(line, 1));
        codes = b.Binary(OpKind::kShr, codes,
                         Along(b, b.Binary(OpKind::kShl, odd, b.Constant(line, 2)), words, axis));
      } else if (piece.numbers == Lanes::kOdd) {
        codes = b.Binary(OpKind::kShr, codes, b.Constant(words, 4));
      }
      numbers = DecodeE2M1(b, codes);
    } else {
      numbers = b.Cast(numbers, DType::kF32);
    }
    const int64_t times = all / fn_.type(scales).shape[axis];
    const int shift = std::countr_zero(static_cast<uint64_t>(times));
    const bool one = n == times;
    ValueId first = piece.first;
    if (first.valid()) first = b.Binary(OpKind::kShr, first, b.Int(shift));
    const std::optional<ValueId> by =
        Made(b, scales, axis, one ? Line{first, 1, 0} : Line{first, n, shift});
    if (!by) return {};
    ValueId factor = b.Cast(*by, DType::kF32);
    if (one && n > 1)
      factor = b.Value(OpKind::kBroadcast, {factor}, fn_.type(numbers),
                       {{"axes", std::vector<int64_t>{0, 1}}});
    return b.Cast(b.Binary(OpKind::kMul, numbers, factor), DType::kBF16);
  }

  // The tile with these elements along `axis`: what it is made of, made again.
  std::optional<ValueId> Made(Builder& b, ValueId v, size_t axis, const Line& line) {
    if (!line.first.valid() && line.shift == 0 && line.n == fn_.type(v).shape[axis]) return v;
    const Op* def = fn_.def(v);
    const Type type = With(fn_.type(v), axis, line.n);
    if (!def) return Cannot("a value that a loop carries");
    const Op op = *def;  // a copy: adding ops moves it
    if (Info(op.kind).elementwise()) {
      std::vector<ValueId> operands;
      for (ValueId o : op.operands) {
        const std::optional<ValueId> made = Made(b, o, axis, line);
        if (!made) return {};
        operands.push_back(*made);
      }
      return b.Value(op.kind, std::move(operands), type, op.attrs);
    }
    switch (op.kind) {
      case OpKind::kConstant: return b.Value(op.kind, {}, type, op.attrs);
      case OpKind::kIota: return Steps(b, op.operands[0], line);
      case OpKind::kTranspose: {
        const auto from = static_cast<size_t>(op.ints("perm")[axis]);
        const std::optional<ValueId> made = Made(b, op.operands[0], from, line);
        if (!made) return {};
        return b.Value(op.kind, {*made}, type, op.attrs);
      }
      case OpKind::kBroadcast: return MadeBroadcast(b, op, type, axis, line);
      case OpKind::kLoad: return MadeLoad(b, op, type, axis, line);
      default: return Cannot(fmt::format("the result of `{}`", Info(op.kind).mnemonic));
    }
  }

  std::optional<ValueId> MadeBroadcast(Builder& b, const Op& op, const Type& type, size_t axis,
                                       const Line& line) {
    const std::vector<int64_t>& axes = op.ints("axes");
    ValueId from = op.operands[0];
    for (size_t i = 0; i < axes.size(); ++i)
      if (static_cast<size_t>(axes[i]) == axis && fn_.type(from).shape[i] != 1) {
        const std::optional<ValueId> made = Made(b, from, i, line);
        if (!made) return {};
        from = *made;
      }
    return b.Value(op.kind, {from}, type, op.attrs);
  }

  std::optional<ValueId> MadeLoad(Builder& b, const Op& op, const Type& type, size_t axis,
                                  const Line& line) {
    const Param* p = fn_.param(op.operands[0]);
    if (!p || p->direction != Direction::kIn)
      return Cannot("a load of a tensor that the kernel writes, too");
    std::string modes = op.s("modes");
    if (modes.find('p') != std::string::npos) return Cannot("a load of pairs of positions");
    std::vector<int64_t> sizes = op.ints("sizes");
    std::vector<ValueId> operands = op.operands;
    size_t dim = 0, kept = 0;
    for (; dim < modes.size(); ++dim)
      if (modes[dim] != 's' && kept++ == axis) break;
    ValueId& index = operands[1 + dim];  // a load has one operand for each dim
    if (modes[dim] == 'r' && line.shift == 0) {
      index = From(b, index, line);
    } else if (modes[dim] == 'r') {
      index = Steps(b, index, line);
      modes[dim] = 'g';
    } else {
      const std::optional<ValueId> made = Made(b, index, 0, line);
      if (!made) return {};
      index = *made;
    }
    sizes[dim] = line.n;
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
  std::map<BlockId, ValueId> pieces_;  // of loops that were cut: where in its tile an iteration is
  std::map<std::pair<ValueId, ValueId>, ValueId> positions_;  // the sum of both
  std::string why_;
};

}  // namespace

Result<> DecodeScales(Function& fn, PassContext& cx) { return Decoder(fn, cx).Run(); }

}  // namespace tilec::ir
