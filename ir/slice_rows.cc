// SPDX-License-Identifier: Apache-2.0
#include "ir/slice_rows.h"

#include "ir/queries.h"
#include "ir/row_classes.h"
#include "ir/split_values.h"

namespace tilec::ir {
namespace {

class Slicer : public ValueSplitter {
 public:
  Slicer(Function& fn, int slices) : ValueSplitter(fn, slices), rows_(fn) {}

 private:
  bool Cut(ValueId v) const override { return rows_.DimOf(v) >= 0; }
  Type PartType(ValueId v) const override {
    Type type = fn_.type(v);
    type.shape[static_cast<size_t>(rows_.DimOf(v))] /= count_;
    return type;
  }
  std::vector<ValueId> MakePart(Builder& b, const Op& op, int64_t slice,
                                std::vector<ValueId> operands, std::vector<Type> types) override {
    Attrs attrs = op.attrs;
    if (op.kind == OpKind::kLoad || op.kind == OpKind::kStore || op.kind == OpKind::kAtomic)
      Access(b, op, slice, operands, attrs);
    if (op.kind == OpKind::kIota) operands[0] = Shift(b, operands[0], slice * types[0].shape[0]);
    std::vector<ValueId> made =
        AddPart(b, op, std::move(operands), std::move(types), std::move(attrs));
    fn_.ops[fn_.blocks[b.block()].ops.back()].set("slice", slice);
    return made;
  }

  ValueId Shift(Builder& b, ValueId v, int64_t by) {
    return by == 0 ? v : b.Binary(OpKind::kAdd, v, b.Int(by));
  }

  // The range of the access that runs along the rows starts later and is shorter.
  void Access(Builder& b, const Op& op, int64_t slice, std::vector<ValueId>& operands,
              Attrs& attrs) {
    const bool store = op.kind != OpKind::kLoad;
    const int cut = rows_.DimOf(store ? op.operands[1] : op.results[0]);
    size_t first = store ? 2 : 1;  // operand of the dim
    const std::string& modes = op.s("modes");
    std::vector<int64_t> sizes = op.ints("sizes");
    int dim = 0;
    bool gathers = false;  // along the rows, as what is paired with it
    for (size_t d = 0; d < modes.size(); ++d) {
      const bool rows = TakesDim(modes[d]) ? dim++ == cut : modes[d] == 'p' && gathers;
      if (TakesDim(modes[d])) gathers = modes[d] == 'g' ? rows : gathers;
      if (rows) {
        const size_t along = SlowestOf(op, d);
        size_t start = first;
        for (size_t i = along; i < d; ++i) start -= OperandsOf(modes[i], store);
        sizes[along] /= count_;
        if (IsRange(modes[along]))
          operands[start] = Shift(b, operands[start], slice * sizes[along]);
      }
      first += OperandsOf(modes[d], store);
    }
    for (auto& [name, value] : attrs)
      if (name == "sizes") value = sizes;
  }

  const RowClasses rows_;
};

}  // namespace

void SliceRows(Function& fn, int slices) {
  if (slices > 1) Slicer(fn, slices).Run();
}

}  // namespace tilec::ir
