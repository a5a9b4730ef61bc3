// SPDX-License-Identifier: Apache-2.0
#include "ir/split_batches.h"

#include <algorithm>
#include <map>

#include "ir/queries.h"
#include "ir/row_classes.h"
#include "ir/split_values.h"
#include "support/check.h"

namespace tilec::ir {
namespace {

bool IsBatch(const Function& fn, const Op& op) {
  return op.kind == OpKind::kDot && fn.type(op.results[0]).rank() == 3;
}

std::vector<int64_t> Dropped(std::vector<int64_t> list, int at) {
  list.erase(list.begin() + at);
  return list;
}

// Every value that has the batch's dim becomes one value without it for each number of the batch.
class Splitter : public ValueSplitter {
 public:
  Splitter(Function& fn, const RowClasses& batch, int64_t parts) : ValueSplitter(fn, parts) {
    for (int32_t i = 0; i < fn.values.size(); ++i)
      if (const int dim = batch.DimOf(ValueId(i)); dim >= 0) dims_[ValueId(i)] = dim;
  }

 private:
  int DimOf(ValueId v) const {
    const auto it = dims_.find(v);
    return it == dims_.end() ? -1 : it->second;
  }
  bool Cut(ValueId v) const override { return DimOf(v) >= 0; }
  // Of a batch of one, a reshape knows no dim.
  bool Touched(ValueId v) const override { return Cut(v) || parts_.count(v) > 0; }
  Type PartType(ValueId v) const override {
    Type type = fn_.type(v);
    type.shape = Dropped(type.shape, DimOf(v));
    return type;
  }
  std::vector<ValueId> MakePart(Builder& b, const Op& op, int64_t n, std::vector<ValueId> operands,
                                std::vector<Type> types) override {
    for (ValueId r : op.results)
      CHECK(Cut(r) || count_ == 1, "what has the batch's dim hands it on");
    if (op.kind == OpKind::kIota) {  // a number
      const ValueId at = n == 0 ? operands[0] : b.Binary(OpKind::kAdd, operands[0], b.Int(n));
      return {b.Cast(at, DType::kI32)};
    }
    Attrs attrs = op.attrs;
    Adapt(b, op, n, operands, attrs);
    return AddPart(b, op, std::move(operands), std::move(types), std::move(attrs));
  }

  // Operands and attributes of an op of number n, which has a dim less.
  void Adapt(Builder& b, const Op& op, int64_t n, std::vector<ValueId>& operands, Attrs& attrs) {
    const auto set = [&](std::string_view name, AttrValue to) {
      for (auto& [key, value] : attrs)
        if (key == name) value = std::move(to);
    };
    const int from = op.operands.empty() ? -1 : DimOf(op.operands[0]);
    switch (op.kind) {
      case OpKind::kLoad:
      case OpKind::kStore:
      case OpKind::kAtomic: return Access(b, op, n, operands, attrs);
      case OpKind::kReduce:
      case OpKind::kArgReduce:
      case OpKind::kScan:
        if (from >= 0 && from < op.i("axis")) set("axis", op.i("axis") - 1);
        return;
      case OpKind::kTranspose: {
        std::vector<int64_t> perm;
        for (int64_t d : op.ints("perm"))
          if (d != from) perm.push_back(from >= 0 && d > from ? d - 1 : d);
        return set("perm", std::move(perm));
      }
      case OpKind::kBroadcast: {
        const int to = DimOf(op.results[0]);
        std::vector<int64_t> axes;
        for (size_t i = 0; i < op.ints("axes").size(); ++i) {
          const int64_t axis = op.ints("axes")[i];
          if (static_cast<int>(i) == from) continue;
          if (axis != to) {
            axes.push_back(to >= 0 && axis > to ? axis - 1 : axis);
            continue;
          }
          const Type& t = fn_.type(op.operands[0]);  // a dim of one is repeated over the batch
          operands[0] = b.Value(OpKind::kReshape, {operands[0]},
                                Type::Tile(t.dtype, Dropped(t.shape, static_cast<int>(i))));
        }
        return set("axes", std::move(axes));
      }
      default: return;
    }
  }

  // One position in place of the range or the gather along the batch.
  void Access(Builder& b, const Op& op, int64_t n, std::vector<ValueId>& operands, Attrs& attrs) {
    const bool store = op.kind != OpKind::kLoad;
    const ValueId tile = store ? op.operands[1] : op.results[0];
    std::string modes = op.s("modes");
    std::vector<int64_t> sizes = op.ints("sizes");
    int dim = 0;
    bool gathers = false;       // along the batch, as what is paired with it
    size_t at = store ? 2 : 1;  // operand of the dim
    for (size_t d = 0; d < modes.size(); ++d) {
      const char mode = modes[d];
      const bool batch = TakesDim(mode) ? dim++ == DimOf(tile) : mode == 'p' && gathers;
      if (TakesDim(mode)) gathers = mode == 'g' && batch;
      if (batch) {
        modes[d] = 's';
        sizes[d] = 1;
        if (mode != 'r') {
          operands[at] = b.Cast(operands[at], DType::kI64);
        } else {
          const ValueId start = operands[at];
          ValueId position = n == 0 ? start : b.Binary(OpKind::kAdd, start, b.Int(n));
          if (store) {  // not beyond the end of the range
            // Nor in front of the tensor: copies fault there, and are clipped behind it.
            if (n > 0)
              position = b.Value(OpKind::kSelect,
                                 {b.Cmp("lt", position, operands[at + 1]), position,
                                  b.FromExpr(fn_.param(op.operands[0])->dims[d])},
                                 Type::Scalar(DType::kI64));
            operands.erase(operands.begin() + static_cast<ptrdiff_t>(at) + 1);
          }
          operands[at] = position;
        }
        ++at;
        continue;
      }
      at += OperandsOf(mode, store);
    }
    for (auto& [name, value] : attrs) {
      if (name == "sizes") value = sizes;
      if (name == "modes") value = modes;
    }
  }

  std::map<ValueId, int> dims_;
};

// The operands cut out of whole tiles, the results put side by side.
void CutOut(Function& fn, OpId id) {
  const Op dot = fn.ops[id];
  const BlockId block = dot.block;
  const std::vector<OpId> old = fn.blocks[block].ops;
  fn.blocks[block].ops.clear();
  for (OpId one : old) {
    if (one != id) {
      fn.blocks[block].ops.push_back(one);
      continue;
    }
    Builder b(fn, block);
    b.SetSpan(dot.at);
    const Type out = fn.type(dot.results[0]);
    const int64_t count = out.shape[0], size = out.shape[1] * out.shape[2];
    const Type flat = Type::Tile(out.dtype, Dropped(out.shape, 0));
    const ValueId position = b.Value(
        OpKind::kBroadcast, {b.Value(OpKind::kIota, {b.Int(0)}, Type::Tile(DType::kI32, {count}))},
        Type::Tile(DType::kI32, out.shape), {{"axes", std::vector<int64_t>{0}}});
    ValueId all;
    for (int64_t n = 0; n < count; ++n) {
      std::vector<ValueId> operands;
      for (ValueId v : dot.operands) {
        const Type t = fn.type(v);
        operands.push_back(b.Value(OpKind::kRearrange, {v},
                                   Type::Tile(t.dtype, Dropped(t.shape, 0)),
                                   {{"first", n * t.shape[1] * t.shape[2]},
                                    {"strides", std::vector<int64_t>{t.shape[2], 1}}}));
      }
      const ValueId product = b.Value(OpKind::kDot, std::move(operands), flat, dot.attrs);
      const ValueId there =
          b.Value(OpKind::kRearrange, {product}, out,
                  {{"first", -n * size}, {"strides", std::vector<int64_t>{size, out.shape[2], 1}}});
      if (all.valid()) {
        const ValueId own = b.Cmp("ge", position, b.Constant(fn.type(position), double(n)));
        all = b.Value(OpKind::kSelect, {own, there, all}, out);
      } else {
        all = there;
      }
    }
    // The op that gives the result a value of its own again: nothing else has to know.
    const OpId whole = fn.values[all].def;
    fn.values[dot.results[0]].def = whole;
    fn.ops[whole].results[0] = dot.results[0];
  }
}

}  // namespace

void SplitBatches(Function& fn) {
  const auto next = [&] {
    const std::vector<OpId> ops = OpsInOrder(fn);
    const auto at =
        std::find_if(ops.begin(), ops.end(), [&](OpId id) { return IsBatch(fn, fn.ops[id]); });
    return at == ops.end() ? OpId() : *at;
  };
  for (OpId id = next(); id.valid(); id = next()) {
    const ValueId result = fn.ops[id].results[0];
    const RowClasses batch(fn, result, 0);
    if (batch.found())
      Splitter(fn, batch, fn.type(result).shape[0]).Run();
    else
      CutOut(fn, id);
  }
}

}  // namespace tilec::ir
