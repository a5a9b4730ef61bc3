// SPDX-License-Identifier: Apache-2.0
#include "ir/split_values.h"

#include <algorithm>
#include <utility>

namespace tilec::ir {

ValueId ValueSplitter::Part(ValueId v, int64_t n) const {
  const auto it = parts_.find(v);
  return it == parts_.end() ? v : it->second[static_cast<size_t>(n)];
}

// A list of values with every cut one replaced by its parts.
std::vector<ValueId> ValueSplitter::Spread(const std::vector<ValueId>& values) const {
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

void ValueSplitter::Split(ValueId v, OpId def, BlockId block) {
  if (!Cut(v)) return;
  std::vector<ValueId> parts;
  for (int64_t n = 0; n < count_; ++n) {
    ir::Value part;
    part.type = PartType(v);
    part.def = def;
    part.block = block;
    part.name = fn_.values[v].name;
    parts.push_back(fn_.values.Add(std::move(part)));
  }
  parts_[v] = std::move(parts);
}

void ValueSplitter::SplitBlock(BlockId block) {
  for (ValueId arg : fn_.blocks[block].args) Split(arg, {}, block);
  fn_.blocks[block].args = Spread(fn_.blocks[block].args);
  const std::vector<OpId> old = std::move(fn_.blocks[block].ops);
  fn_.blocks[block].ops.clear();
  const auto touched = [&](const std::vector<ValueId>& values) {
    return std::any_of(values.begin(), values.end(), [&](ValueId v) { return Touched(v); });
  };
  for (OpId id : old) {
    const Op& op = fn_.ops[id];
    if (!op.regions.empty() || op.kind == OpKind::kYield)
      SplitStructure(id, block);
    else if (touched(op.results) || touched(op.operands))
      SplitOp(id, block);
    else
      fn_.blocks[block].ops.push_back(id);
  }
}

void ValueSplitter::SplitStructure(OpId id, BlockId block) {
  fn_.blocks[block].ops.push_back(id);
  const std::vector<BlockId> regions = fn_.ops[id].regions;
  const std::vector<ValueId> results = fn_.ops[id].results;
  fn_.ops[id].operands = Spread(fn_.ops[id].operands);
  for (BlockId region : regions) SplitBlock(region);
  for (ValueId r : results) Split(r, id, {});
  fn_.ops[id].results = Spread(results);
}

void ValueSplitter::SplitOp(OpId id, BlockId block) {
  const Op op = fn_.ops[id];  // a copy: adding moves the ops
  Builder b(fn_, block);
  b.SetSpan(op.at);
  std::vector<std::vector<ValueId>> parts(op.results.size());
  for (int64_t n = 0; n < count_; ++n) {
    std::vector<ValueId> operands;
    for (ValueId v : op.operands) operands.push_back(Part(v, n));
    std::vector<Type> types;
    for (ValueId r : op.results) types.push_back(Cut(r) ? PartType(r) : fn_.type(r));
    const std::vector<ValueId> made = MakePart(b, op, n, std::move(operands), std::move(types));
    for (size_t i = 0; i < parts.size(); ++i) parts[i].push_back(made[i]);
  }
  for (size_t i = 0; i < parts.size(); ++i) parts_[op.results[i]] = std::move(parts[i]);
}

std::vector<ValueId> ValueSplitter::AddPart(Builder& b, const Op& op, std::vector<ValueId> operands,
                                            std::vector<Type> types, Attrs attrs) {
  const OpId part = b.Add(op.kind, std::move(operands), std::move(types), std::move(attrs));
  for (size_t i = 0; i < op.results.size(); ++i)
    fn_.values[fn_.ops[part].results[i]].name = fn_.values[op.results[i]].name;
  return fn_.ops[part].results;
}

}  // namespace tilec::ir
