// Changes of layout: conversions through shared memory, broadcasts, renamings.
//
// SPDX-License-Identifier: Apache-2.0
#include <llvm/IR/Constants.h>

#include <algorithm>

#include "backend/emitter.h"
#include "support/check.h"

namespace tilec::backend {

using ir::OpKind;

Result<void> Emitter::EmitConvert(const ir::Op& op) {
  const ir::ValueId from = op.operands[0], to = op.results[0];
  const ir::Type& type = fn_.type(to);
  const int64_t scratch = op.i("scratch", -1);
  if (scratch < 0) {
    const auto map = ir::RegisterMap(fn_.layout(from), fn_.layout(to), type.shape);
    CHECK(map.has_value(), "convert without scratch from " + ir::ToText(fn_.layout(from)) + " to " +
                               ir::ToText(fn_.layout(to)));
    const Regs& regs = Get(from);
    Regs out;
    for (int r : *map) out.push_back(r < 0 ? Zero(type.dtype) : regs[static_cast<size_t>(r)]);
    Set(to, std::move(out));
    return Done();
  }
  const ir::ScratchTile tile = ir::ConvertScratchTile(type);
  PanelView view;
  view.base = SmemAddress(scratch);
  view.element_bytes = ir::ByteSize(type.dtype);
  view.panel_cols = int64_t{1} << 30;  // one panel
  view.pitch = tile.pitch;
  RoleBarrier();
  StoreTile(from, view, false);
  RoleBarrier();
  Regs out = LoadTile(type, type.layout, view, false);
  Set(to, std::move(out));
  return Done();
}

Result<void> Emitter::EmitBroadcast(const ir::Op& op) {
  const ir::ValueId from = op.operands[0], to = op.results[0];
  const ir::Type& type = fn_.type(to);
  const int64_t count = type.shape.empty() ? 1 : fn_.layout(to).regs();
  if (fn_.type(from).shape.empty()) {
    Set(to, Regs(static_cast<size_t>(count), Scalar(from)));
    return Done();
  }
  std::vector<int> axes;
  for (int64_t a : op.ints("axes")) axes.push_back(static_cast<int>(a));
  const std::vector<int> map =
      Follow(fn_.layout(from), fn_.type(from).shape, fn_.layout(to), type.shape, axes);
  const Regs& regs = Get(from);
  Regs out;
  for (int r : map) out.push_back(r < 0 ? Zero(type.dtype) : regs[static_cast<size_t>(r)]);
  Set(to, std::move(out));
  return Done();
}

Result<void> Emitter::EmitColumns(const ir::Op& op) {
  const ir::ValueId from = op.operands[0], to = op.results[0];
  const auto map = ir::ColumnsMap(fn_.layout(from), fn_.layout(to), op.i("first"));
  CHECK(map, "verified: the columns are registers");
  const Regs& in = Get(from);
  Regs out;
  for (int r : *map) out.push_back(in[static_cast<size_t>(r)]);
  Set(to, std::move(out));
  return Done();
}

Result<void> Emitter::EmitRename(const ir::Op& op) {
  const ir::ValueId from = op.operands[0], to = op.results[0];
  const ir::Type &in = fn_.type(from), &out_type = fn_.type(to);
  if (in.shape.empty()) {  // a scalar as a tile of one element
    const int64_t count = out_type.shape.empty() ? 1 : fn_.layout(to).regs();
    Set(to, Regs(static_cast<size_t>(count), Scalar(from)));
    return Done();
  }
  if (out_type.shape.empty()) {
    // The one element is in register 0 of every thread only if the layout replicates it.
    const ThreadPart& part = Part(in.layout);
    for (int64_t m : part.max) CHECK(m == 0, "reshape to a scalar of a distributed tile");
    Set(to, {Get(from)[0]});
    return Done();
  }
  std::vector<int> dims(in.shape.size(), -1);
  if (op.kind == OpKind::kTranspose || op.kind == OpKind::kWarpTranspose) {
    const std::vector<int64_t>& perm = op.ints("perm");
    for (size_t j = 0; j < perm.size(); ++j)
      dims[static_cast<size_t>(perm[j])] = static_cast<int>(j);
  } else {
    size_t j = 0;
    for (size_t i = 0; i < in.shape.size(); ++i) {
      if (in.shape[i] == 1) continue;
      while (j < out_type.shape.size() && out_type.shape[j] == 1) ++j;
      CHECK(j < out_type.shape.size() && out_type.shape[j] == in.shape[i], "reshape");
      dims[i] = static_cast<int>(j++);
    }
  }
  const std::vector<int> map =
      Follow(fn_.layout(from), in.shape, fn_.layout(to), out_type.shape, dims);
  const Regs& regs = Get(from);
  Regs out;
  for (int r : map) out.push_back(r < 0 ? Zero(in.dtype) : regs[static_cast<size_t>(r)]);
  Set(to, std::move(out));
  return Done();
}

Result<void> Emitter::EmitIota(const ir::Op& op) {
  const ir::ValueId to = op.results[0];
  const ThreadPart& part = Part(fn_.type(to).layout);
  const ir::Layout& layout = fn_.layout(to);
  llvm::Value* first =
      b_.CreateAdd(b_.CreateSExtOrTrunc(Scalar(op.operands[0]), b_.getInt32Ty()), part.coord[0]);
  Regs out;
  for (int64_t r = 0; r < layout.regs(); ++r)
    out.push_back(b_.CreateAdd(first, I32(layout.RegCoord(r)[0])));
  Set(to, std::move(out));
  return Done();
}

}  // namespace tilec::backend
