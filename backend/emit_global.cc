// Tensors in global memory, loaded and stored by threads (atomics: emit_atomic.cc). Every access is
// predicated: elements outside the tensor (or, for stores, past the end of a range) are filled or
// skipped.
//
// SPDX-License-Identifier: Apache-2.0
#include <llvm/IR/Constants.h>
#include <llvm/IR/Intrinsics.h>

#include <algorithm>
#include <set>

#include "backend/access.h"
#include "backend/cache_hints.h"
#include "backend/diagnostics.h"
#include "backend/emitter.h"
#include "backend/pairs.h"
#include "support/check.h"

namespace tilec::backend {

using ir::DType;
using ir::OpKind;

namespace {

// Register names for a vector of n words starting at operand `first`.
std::string Operands(size_t first, size_t n) {
  std::string out = n > 1 ? "{" : "";
  for (size_t i = 0; i < n; ++i) out += (i ? ",$" : "$") + std::to_string(first + i);
  return out + (n > 1 ? "}" : "");
}

char Letter(llvm::Type* type) {
  switch (type->getIntegerBitWidth()) {
    case 64: return 'l';
    case 32: return 'r';
    default: return 'h';
  }
}

std::string TypeName(llvm::Type* type) { return "b" + std::to_string(type->getIntegerBitWidth()); }

}  // namespace

// How an op reads its tensor.
PtxInst Emitter::LoadInst(const ir::Op& op) const {
  const ir::Param* read = op.operands.empty() ? nullptr : fn_.param(op.operands[0]);
  const bool written = read && read->direction != ir::Direction::kIn;
  if (written) return PtxInst::kLdWritten;
  return PassesBy(fn_, op) ? PtxInst::kLdLast : PtxInst::kLdGlobal;
}

Regs Emitter::LoadGlobal(llvm::Value* address, int64_t offset, llvm::Value* predicate,
                         const Regs& fill, DType d, PtxInst inst) {
  if (inst == PtxInst::kLdGlobal) inst = loads_;
  Regs words = ToMemory(fill, d);
  const size_t n = words.size();
  llvm::Type* type = words[0]->getType();
  const bool byte = type->isIntegerTy(8);
  if (byte) words[0] = b_.CreateZExt(words[0], b_.getInt16Ty());
  std::string constraints;
  for (llvm::Value* w : words)
    constraints += std::string(constraints.empty() ? "=" : ",=") + Letter(w->getType());
  const bool always = !predicate || predicate == b_.getTrue();
  std::vector<llvm::Value*> args = {address, I64(offset)};
  constraints += address->getType()->isIntegerTy(64) ? ",l,n" : ",r,n";
  if (!always) {
    args.push_back(predicate);
    constraints += ",b";
    for (size_t i = 0; i < n; ++i) constraints += "," + std::to_string(i);
    args.insert(args.end(), words.begin(), words.end());
  }
  Regs loaded = CallPtx(b_, inst,
                        {{"p", always ? "" : "@$" + std::to_string(n + 2) + " "},
                         {"v", n > 1 ? ".v" + std::to_string(n) : ""},
                         {"t", TypeName(type)},
                         {"ops", Operands(0, n)},
                         {"a", "$" + std::to_string(n)},
                         {"o", "$" + std::to_string(n + 1)}},
                        constraints, args);
  if (byte) loaded[0] = b_.CreateTrunc(loaded[0], b_.getInt8Ty());
  return FromMemory(loaded, d, fill.size());
}

void Emitter::StoreGlobal(llvm::Value* address, int64_t offset, llvm::Value* predicate,
                          const Regs& elements, DType d, PtxInst inst) {
  if (predicate == b_.getFalse()) return;
  if (inst == PtxInst::kStGlobal) inst = stores_;
  Regs words = ToMemory(elements, d);
  const size_t n = words.size();
  llvm::Type* type = words[0]->getType();
  if (type->isIntegerTy(8)) words[0] = b_.CreateZExt(words[0], b_.getInt16Ty());
  const bool always = !predicate || predicate == b_.getTrue();
  std::vector<llvm::Value*> args = {address, I64(offset)};
  std::string constraints = address->getType()->isIntegerTy(64) ? "l,n" : "r,n";
  for (llvm::Value* w : words) {
    constraints += std::string(",") + Letter(w->getType());
    args.push_back(w);
  }
  if (!always) {
    constraints += ",b";
    args.push_back(predicate);
  }
  CallPtx(b_, inst,
          {{"p", always ? "" : "@$" + std::to_string(n + 2) + " "},
           {"v", n > 1 ? ".v" + std::to_string(n) : ""},
           {"t", TypeName(type)},
           {"ops", Operands(2, n)},
           {"a", "$0"},
           {"o", "$1"}},
          constraints, args);
}

std::vector<std::vector<int>> VectorsOf(const ir::Layout& layout, const std::vector<int64_t>& shape,
                                        int64_t asked, int64_t bytes) {
  const int last = layout.rank - 1;
  const ir::RegisterRun run = ir::RunAlong(layout, last);
  int64_t v = 1;
  auto fits = [&](int64_t n) {
    if (n > asked || n * bytes > 16 || run.extent % n) return false;
    if (shape[static_cast<size_t>(last)] % n) return false;
    for (const ir::LayoutDigit& d : layout.thread)
      if (d.dim == last && d.stride % n) return false;
    for (size_t i = 0; i < layout.reg.size(); ++i)
      if (static_cast<int>(i) != run.digit && layout.reg[i].dim == last && layout.reg[i].stride % n)
        return false;
    return true;
  };
  while (fits(v * 2)) v *= 2;
  return ir::RunGroups(layout, run, v);
}

// Is all of the tile inside the tensor? Null where that is known, where it would not spare many
// comparisons, and where registers beyond the tile are never inside. Null, too, beside products
// where no quota gives a role registers: behind a branch all parts are alive together (a bias of
// 256 columns: 255 registers and 8 bytes spilled in place of 199).
llvm::Value* Emitter::WholeInside(const Access& access, ir::ValueId tile,
                                  const std::vector<std::vector<int>>& groups) {
  constexpr size_t kMany = 16;
  const bool quotas = std::any_of(fn_.ops.begin(), fn_.ops.end(), [](const ir::Op& op) {
    return op.kind == OpKind::kRole && op.i("regs") > 0;
  });
  if (HasProducts() && !quotas) return nullptr;
  const ir::Type& type = fn_.type(tile);
  std::set<std::pair<size_t, int64_t>> compared;
  llvm::Value* whole = access.always;
  for (size_t i = 0; i < access.dims.size(); ++i) {
    const Access::Dim& dim = access.dims[i];
    if (dim.index || dim.above || !dim.box.empty()) return nullptr;
    for (const std::vector<int>& group : groups) {
      const int64_t at =
          fn_.layouts[type.layout].RegCoord(group[0])[static_cast<size_t>(dim.tile_dim)];
      if (at + dim.coord_max >= dim.most) return nullptr;
      if (dim.lo || !llvm::isa<llvm::ConstantInt>(dim.hi)) compared.insert({i, at});
    }
    whole = And(whole, b_.CreateICmpEQ(dim.hi, I32(dim.most)));
    if (dim.lo) whole = And(whole, b_.CreateICmpEQ(dim.lo, I32(0)));
  }
  return compared.size() >= kMany ? whole : nullptr;
}

// Words of pairs: the even tile's place, both tiles' elements.
void Emitter::EmitPairs(const ir::Op& even, const ir::Op& odd) {
  const bool loads = even.kind == OpKind::kGLoad;
  const auto tile_of = [&](const ir::Op& op) { return loads ? op.results[0] : op.operands[1]; };
  const ir::ValueId first = tile_of(even), second = tile_of(odd);
  const ir::Type& type = fn_.type(first);
  Access access = MakeAccess(even, first, loads ? 1 : 2, !loads);
  if (!loads) access.always = And(access.always, Part(type.layout).first_replica);
  llvm::Value* fill = loads && even.i("has_fill") ? Scalar(even.operands.back()) : Zero(type.dtype);
  const auto regs = static_cast<size_t>(fn_.layouts[type.layout].regs());
  Regs a(regs), b(regs);
  if (!loads) a = Get(first), b = Get(second);
  for (size_t r = 0; r < regs; ++r) {
    const auto [address, offset, predicate] = PlaceOf(access, first, static_cast<int64_t>(r));
    if (!loads) {
      StoreGlobal(address, offset, predicate, {a[r], b[r]}, type.dtype);
      continue;
    }
    Regs both(2, fill);
    if (predicate != b_.getFalse()) both = LoadGlobal(address, offset, predicate, both, type.dtype);
    a[r] = both[0];
    b[r] = both[1];
  }
  if (!loads) return;
  Set(first, a);
  Set(second, b);
}

// The pair goes as one, a load where its first half stands, a store where its second does.
bool Emitter::GoesInPairs(const ir::Op& op) {
  const ir::Op* other = PairOf(fn_, op);
  if (!other) return false;
  const bool load = op.kind == OpKind::kGLoad;
  if (StandsBehind(fn_, op, *other) == load) return true;
  const bool even = IsEven(fn_, op);
  EmitPairs(even ? op : *other, even ? *other : op);
  return true;
}

// A tile that is loaded as a whole where it lies inside of the tensor, and with care at its edge.
Regs Emitter::InsideOrEdge(llvm::Value* inside, const ir::Type& type,
                           const std::function<Regs()>& whole, const std::function<Regs()>& edge) {
  llvm::BasicBlock *here = NewBlock("inside"), *beside = NewBlock("edge"),
                   *end = NewBlock("loaded");
  b_.CreateCondBr(inside, here, beside);
  b_.SetInsertPoint(beside);
  const Regs some = Pack(edge(), type.dtype);
  llvm::BasicBlock* from_edge = b_.GetInsertBlock();
  b_.CreateBr(end);
  b_.SetInsertPoint(here);
  const Regs all = Pack(whole(), type.dtype);
  llvm::BasicBlock* from_inside = b_.GetInsertBlock();
  b_.CreateBr(end);
  b_.SetInsertPoint(end);
  Regs words;
  for (size_t i = 0; i < all.size(); ++i) {
    llvm::PHINode* phi = b_.CreatePHI(all[i]->getType(), 2);
    phi->addIncoming(all[i], from_inside);
    phi->addIncoming(some[i], from_edge);
    words.push_back(phi);
  }
  return Unpack(words, type.dtype, static_cast<size_t>(fn_.layouts[type.layout].regs()));
}

Result<void> Emitter::EmitGLoad(const ir::Op& op) {
  loads_ = LoadInst(op);
  if (op.i("shifted", 0) == 2) return EmitSlidLoad(op);
  if (op.i("shifted", 0)) return EmitShiftedLoad(op);
  if (GoesInPairs(op)) return Done();
  const ir::ValueId tile = op.results[0];
  const ir::Type& type = fn_.type(tile);
  const Access access = MakeAccess(op, tile, 1, false);
  llvm::Value* fill = op.i("has_fill") ? Scalar(op.operands.back()) : Zero(type.dtype);
  const ir::Layout& layout = fn_.layouts[type.layout];
  const std::vector<std::vector<int>> groups =
      VectorsOf(layout, type.shape, op.i("vector", 1), ir::ByteSize(type.dtype));
  auto load = [&](Access from) {  // addresses and predicates are made where they are used
    Regs out(static_cast<size_t>(layout.regs()));
    for (const std::vector<int>& group : groups) {
      const auto [address, offset, predicate] = PlaceOf(from, tile, group[0]);
      Regs loaded(group.size(), fill);
      if (predicate != b_.getFalse())
        loaded = LoadGlobal(address, offset, predicate, loaded, type.dtype);
      for (size_t i = 0; i < group.size(); ++i) out[static_cast<size_t>(group[i])] = loaded[i];
    }
    return out;
  };
  llvm::Value* whole = WholeInside(access, tile, groups);
  if (!whole) {
    Set(tile, load(access));
    return Done();
  }
  // One comparison for the whole tile in place of one for each access.
  const auto inside = [&] {
    Access from = access;
    from.always = nullptr;
    for (Access::Dim& dim : from.dims) {
      dim.hi = I32(dim.most);
      dim.lo = nullptr;
    }
    return load(std::move(from));
  };
  Set(tile, InsideOrEdge(whole, type, inside, [&] { return load(access); }));
  return Done();
}

Result<void> Emitter::EmitGStore(const ir::Op& op) {
  stores_ = PassesBy(fn_, op) ? PtxInst::kStLast : PtxInst::kStGlobal;
  const Result<void> done = EmitStore(op);
  stores_ = PtxInst::kStGlobal;
  return done;
}

Result<void> Emitter::EmitStore(const ir::Op& op) {
  if (op.i("shifted", 0) == 2) return EmitSlidStore(op);
  if (GoesInPairs(op)) return Done();
  const ir::ValueId tile = op.operands[1];
  const ir::Type& type = fn_.type(tile);
  Access access = MakeAccess(op, tile, 2, true);
  const Regs& regs = Get(tile);
  access.always = And(access.always, Part(type.layout).first_replica);
  const ir::Layout& layout = fn_.layouts[type.layout];
  const int64_t bytes = ir::ByteSize(type.dtype);
  for (const std::vector<int>& group : VectorsOf(layout, type.shape, op.i("vector", 1), bytes)) {
    const auto [address, offset, predicate] = PlaceOf(access, tile, group[0]);
    Regs elements;
    for (int r : group) elements.push_back(regs[static_cast<size_t>(r)]);
    StoreGlobal(address, offset, predicate, elements, type.dtype);
  }
  return Done();
}

Result<void> Emitter::EmitScalarAccess(const ir::Op& op) {
  loads_ = LoadInst(op);
  const bool load = op.kind == OpKind::kGLoadScalar;
  const TensorView& view = tensors_.at(op.operands[0].index);
  const DType d = fn_.type(op.operands[0]).dtype;
  llvm::Value* address = view.base;
  llvm::Value* inside = nullptr;
  const size_t first = load ? 1 : 2;
  for (size_t i = 0; i < view.extent.size(); ++i) {
    llvm::Value* at = b_.CreateSExtOrTrunc(Scalar(op.operands[first + i]), b_.getInt64Ty());
    llvm::Value* stride = b_.CreateMul(view.stride[i], I64(ir::ByteSize(d)));
    address = b_.CreateAdd(address, b_.CreateMul(at, stride));
    inside = And(inside, b_.CreateICmpULT(at, view.extent[i]));
  }
  if (load) {
    llvm::Value* fill = op.i("has_fill") ? Scalar(op.operands.back()) : Zero(d);
    Set(op.results[0], LoadGlobal(address, 0, inside, {fill}, d));
    return Done();
  }
  inside = And(inside, Elected());
  if (op.kind == OpKind::kGStoreScalar) {
    StoreGlobal(address, 0, inside, {Scalar(op.operands[1])}, d);
    return Done();
  }
  if (op.results.empty()) return AtomicOne(op, d, Scalar(op.operands[1]), {address, 0, inside});
  llvm::Value* found = nullptr;
  TRY_VOID(AtomicOne(op, d, Scalar(op.operands[1]), {address, 0, inside}, &found));
  llvm::Value* place = SmemAddress(op.i("scratch"));
  RoleBarrier();
  StoreGlobal(place, 0, Elected(), {found}, d, PtxInst::kStShared);
  RoleBarrier();
  Set(op.results[0], LoadGlobal(place, 0, nullptr, {Zero(d)}, d, PtxInst::kLdShared));
  return Done();
}

}  // namespace tilec::backend
