// SPDX-License-Identifier: Apache-2.0
#include "ir/slice_rows.h"

#include <map>

#include "ir/queries.h"

namespace tilec::ir {
namespace {

class Slicer {
 public:
  Slicer(Function& fn, int slices) : fn_(fn), rows_(fn), slices_(slices) {}

  void Run() { Block_(fn_.body); }

 private:
  bool Cut(ValueId v) const { return rows_.DimOf(v) >= 0; }
  Type PartType(ValueId v) const {
    Type type = fn_.type(v);
    type.shape[static_cast<size_t>(rows_.DimOf(v))] /= slices_;
    return type;
  }
  ValueId Part(ValueId v, int slice) const {
    const auto it = parts_.find(v);
    return it == parts_.end() ? v : it->second[static_cast<size_t>(slice)];
  }
  // A list of values with every cut one replaced by its slices.
  std::vector<ValueId> Spread(const std::vector<ValueId>& values) const {
    std::vector<ValueId> out;
    for (ValueId v : values) {
      const auto it = parts_.find(v);
      if (it == parts_.end())
        out.push_back(v);
      else
        out.insert(out.end(), it->second.begin(), it->second.end());
    }
    return out;
  }
  ValueId NewPart(ValueId v, OpId def, BlockId block) {
    ir::Value part;
    part.type = PartType(v);
    part.def = def;
    part.block = block;
    part.name = fn_.values[v].name;
    return fn_.values.Add(std::move(part));
  }
  void Split(ValueId v, OpId def, BlockId block) {
    if (!Cut(v)) return;
    std::vector<ValueId> parts;
    for (int s = 0; s < slices_; ++s) parts.push_back(NewPart(v, def, block));
    parts_[v] = std::move(parts);
  }

  void Block_(BlockId block) {
    for (ValueId arg : fn_.blocks[block].args) Split(arg, {}, block);
    fn_.blocks[block].args = Spread(fn_.blocks[block].args);
    const std::vector<OpId> old = std::move(fn_.blocks[block].ops);
    fn_.blocks[block].ops.clear();
    for (OpId id : old) {
      const Op& op = fn_.ops[id];
      if (!op.regions.empty() || op.kind == OpKind::kYield)
        Structure(id, block);
      else if (Touched(op))
        Slices(id, block);
      else
        fn_.blocks[block].ops.push_back(id);
    }
  }

  bool Touched(const Op& op) const {
    for (ValueId v : op.results)
      if (Cut(v)) return true;
    for (ValueId v : op.operands)
      if (Cut(v)) return true;
    return false;
  }

  void Structure(OpId id, BlockId block) {
    fn_.blocks[block].ops.push_back(id);
    const std::vector<BlockId> regions = fn_.ops[id].regions;
    const std::vector<ValueId> results = fn_.ops[id].results;
    fn_.ops[id].operands = Spread(fn_.ops[id].operands);
    for (BlockId region : regions) Block_(region);
    for (ValueId r : results) Split(r, id, {});
    fn_.ops[id].results = Spread(results);
  }

  void Slices(OpId id, BlockId block) {
    const Op op = fn_.ops[id];  // a copy: adding moves the ops
    Builder b(fn_, block);
    b.SetSpan(op.at);
    std::vector<std::vector<ValueId>> parts(op.results.size());
    for (int s = 0; s < slices_; ++s) {
      std::vector<ValueId> operands;
      for (ValueId v : op.operands) operands.push_back(Part(v, s));
      std::vector<Type> types;
      for (ValueId r : op.results) types.push_back(Cut(r) ? PartType(r) : fn_.type(r));
      Attrs attrs = op.attrs;
      switch (op.kind) {
        case OpKind::kLoad: Access(b, op, op.results[0], 1, s, operands, attrs); break;
        case OpKind::kStore:
        case OpKind::kAtomic: Access(b, op, op.operands[1], 2, s, operands, attrs); break;
        case OpKind::kIota: operands[0] = Shift(b, operands[0], s * types[0].shape[0]); break;
        default: break;
      }
      const OpId part = b.Add(op.kind, std::move(operands), std::move(types), std::move(attrs));
      fn_.ops[part].set("slice", int64_t{s});
      for (size_t i = 0; i < op.results.size(); ++i) {
        const ValueId r = fn_.ops[part].results[i];
        fn_.values[r].name = fn_.values[op.results[i]].name;
        parts[i].push_back(r);
      }
    }
    for (size_t i = 0; i < op.results.size(); ++i) parts_[op.results[i]] = parts[i];
  }

  ValueId Shift(Builder& b, ValueId v, int64_t by) {
    return by == 0 ? v : b.Binary(OpKind::kAdd, v, b.Int(by));
  }

  // The range of the access that runs along the rows starts later and is shorter.
  void Access(Builder& b, const Op& op, ValueId tile, size_t first, int slice,
              std::vector<ValueId>& operands, Attrs& attrs) {
    const int cut = rows_.DimOf(tile);
    const bool store = op.kind != OpKind::kLoad;
    const std::string& modes = op.s("modes");
    std::vector<int64_t> sizes = op.ints("sizes");
    int dim = 0;
    bool gathers = false;  // along the rows, as what is paired with it
    for (size_t d = 0; d < modes.size(); ++d) {
      const bool rows = TakesDim(modes[d]) ? dim++ == cut : modes[d] == 'p' && gathers;
      if (TakesDim(modes[d])) gathers = modes[d] == 'g' ? rows : gathers;
      if (rows) {
        sizes[d] /= slices_;
        if (modes[d] == 'r') operands[first] = Shift(b, operands[first], slice * sizes[d]);
      }
      first += modes[d] == 'r' && store ? 2 : 1;
    }
    for (auto& [name, value] : attrs)
      if (name == "sizes") value = sizes;
  }

  Function& fn_;
  const RowClasses rows_;
  int slices_;
  std::map<ValueId, std::vector<ValueId>> parts_;
};

}  // namespace

void SliceRows(Function& fn, int slices) {
  if (slices > 1) Slicer(fn, slices).Run();
}

}  // namespace tilec::ir
