// Changes of layout: conversions through shared memory, broadcasts, renamings.
//
// SPDX-License-Identifier: Apache-2.0
#include <llvm/IR/Constants.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsNVPTX.h>

#include <algorithm>
#include <map>

#include "backend/emitter.h"
#include "ir/reshaped_layout.h"
#include "support/check.h"

namespace tilec::backend {

using ir::OpKind;

// Lane t of a quad has columns 2t, 2t+1 (u) and 8+2t, 9+2t (v) of sixteen, for two rows, and wants
// 4t … 4t+3. Words of u and v go through two shuffles, one of each per lane: lanes 0 and 3 give v
// first, lanes 1 and 2 u. So lane 0 gets u1, u0; lane 1 u2, u3; lane 2 v0, v1; lane 3 v3, v2.
Result<void> Emitter::EmitQuadExchange(const ir::Op& op) {
  const ir::ValueId from = op.operands[0], to = op.results[0];
  const ir::DType dtype = fn_.type(to).dtype;
  const ir::Layout &pairs = fn_.layout(from), &fours = fn_.layout(to);
  std::map<std::vector<int64_t>, int64_t> at;
  for (int64_t r = 0; r < pairs.regs(); ++r) at[pairs.RegCoord(r)] = r;
  const Regs& in = Get(from);
  llvm::Value* lane = b_.CreateAnd(role_.thread, I32(31));
  llvm::Value* t = b_.CreateAnd(lane, I32(3));
  llvm::Value* outer = b_.CreateICmpEQ(b_.CreateAnd(b_.CreateAdd(t, I32(1)), I32(2)), I32(0));
  const auto lane_of = [&](uint32_t nibbles) {  // the source lane of each of the four
    llvm::Value* of = b_.CreateAnd(b_.CreateLShr(I32(nibbles), b_.CreateShl(t, I32(2))), I32(3));
    return b_.CreateOr(b_.CreateAnd(lane, I32(28)), of);
  };
  llvm::Value *first = lane_of(0x3021), *second = lane_of(0x2130);
  llvm::Value* low = b_.CreateSelect(outer, I32(0x1054), I32(0x5410));
  llvm::Value* high = b_.CreateSelect(outer, I32(0x3276), I32(0x7632));
  Regs words(static_cast<size_t>(fours.regs() / 4));
  for (int64_t r = 0; r < fours.regs(); r += 8) {  // fours of a row and of the row 8 below
    const std::vector<int64_t> top = fours.RegCoord(r);
    const auto word = [&](int64_t column) {
      Regs bytes;
      for (int64_t row : {0, 8})
        for (int64_t i : {0, 1})
          bytes.push_back(in[static_cast<size_t>(at.at({top[0] + row, top[1] + column + i}))]);
      return Pack(bytes, dtype)[0];
    };
    llvm::Value *u = word(0), *v = word(8);
    llvm::Value* a = CallPtx(b_, PtxInst::kShflIdx, {b_.CreateSelect(outer, v, u), first});
    llvm::Value* b = CallPtx(b_, PtxInst::kShflIdx, {b_.CreateSelect(outer, u, v), second});
    const auto pick = [&](llvm::Value* which) {
      return b_.CreateIntrinsic(llvm::Intrinsic::nvvm_prmt, {}, {a, b, which});
    };
    words[static_cast<size_t>(r / 4)] = pick(low);
    words[static_cast<size_t>(r / 4 + 1)] = pick(high);
  }
  Set(to, Unpack(words, dtype, static_cast<size_t>(fours.regs())));
  return Done();
}

Result<void> Emitter::EmitConvert(const ir::Op& op) {
  const ir::ValueId from = op.operands[0], to = op.results[0];
  const ir::Type& type = fn_.type(to);
  const int64_t scratch = op.i("scratch", -1);
  if (scratch < 0) {
    if (ir::ExchangedInQuads(type, fn_.layout(from), fn_.layout(to))) return EmitQuadExchange(op);
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
  if (op.kind == OpKind::kWarpReshape) {
    if (const auto map =
            ir::ReshapedRegisters(fn_.layout(from), in.shape, fn_.layout(to), out_type.shape)) {
      Regs out;
      for (int r : *map) out.push_back(Get(from)[static_cast<size_t>(r)]);
      Set(to, std::move(out));
      return Done();
    }
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
