// Reductions: registers, then lanes by butterfly shuffles (every lane gets the same bits), then
// warps through scratch (ir::PlanReduce).
//
// SPDX-License-Identifier: Apache-2.0
#include <llvm/IR/Constants.h>
#include <llvm/IR/Intrinsics.h>

#include <functional>
#include <limits>
#include <utility>

#include "backend/diagnostics.h"
#include "backend/emitter.h"
#include "ir/queries.h"
#include "support/check.h"

namespace tilec::backend {

using ir::DType;
using ir::OpKind;

namespace {

constexpr size_t kLongRow = 32, kChains = 4;

}  // namespace

DType AccumulatorOf(DType d) {
  if (d == DType::kF64) return d;
  if (ir::IsFloat(d)) return DType::kF32;
  if (ir::ByteSize(d) == 8) return d;
  return ir::IsSigned(d) ? DType::kI32 : DType::kU32;
}

llvm::Value* Emitter::Combine(const std::string& kind, DType acc, llvm::Value* u, llvm::Value* v) {
  if (kind == "any") return b_.CreateOr(u, v);
  if (kind == "all") return b_.CreateAnd(u, v);
  const bool max = kind == "max";
  if (ir::IsFloat(acc)) {
    if (kind == "sum") return FloatBinary(OpKind::kAdd, u, v);  // of products: by fma
    if (kind == "prod") return b_.CreateFMul(u, v);
    return b_.CreateBinaryIntrinsic(max ? llvm::Intrinsic::maxnum : llvm::Intrinsic::minnum, u, v);
  }
  if (kind == "sum") return b_.CreateAdd(u, v);
  if (kind == "prod") return b_.CreateMul(u, v);
  CHECK(max || kind == "min", "reduction " + kind);
  return IntBinary(max ? OpKind::kMax : OpKind::kMin, u, v, acc);
}

llvm::Value* Emitter::Identity(const std::string& kind, DType acc) {
  const bool arg = kind == "argmax" || kind == "argmin", sign = ir::IsSigned(acc);
  const bool max = kind == "max" || kind == "argmax", min = kind == "min" || kind == "argmin";
  const double inf = std::numeric_limits<double>::infinity();
  if (ir::IsFloat(acc)) {
    // Extremes drop NaN, so NaN is neutral: a line of NaN stays one. Positions need an order.
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const double v = kind == "prod" ? 1.0 : !max && !min ? 0.0 : !arg ? nan : max ? -inf : inf;
    return ConstantOf(acc, ir::AttrValue(v));
  }
  const unsigned bits = static_cast<unsigned>(ir::Info(acc).bits);
  if (kind == "prod" || kind == "all") return llvm::ConstantInt::get(ElementType(acc), 1);
  if (max)
    return llvm::ConstantInt::get(
        context_, sign ? llvm::APInt::getSignedMinValue(bits) : llvm::APInt(bits, 0));
  if (min)
    return llvm::ConstantInt::get(
        context_, sign ? llvm::APInt::getSignedMaxValue(bits) : llvm::APInt::getMaxValue(bits));
  return llvm::ConstantInt::get(ElementType(acc), 0);
}

llvm::Value* Emitter::Shuffle(llvm::Value* v, int64_t lane_xor) {
  llvm::Type* type = v->getType();
  if (type->getPrimitiveSizeInBits() == 32) {
    llvm::Value* bits = b_.CreateBitCast(v, b_.getInt32Ty());
    return b_.CreateBitCast(CallPtx(b_, PtxInst::kShflBfly, {bits, I32(lane_xor)}), type);
  }
  llvm::Value* bits = b_.CreateBitCast(v, b_.getInt64Ty());
  llvm::Value* lo =
      CallPtx(b_, PtxInst::kShflBfly, {b_.CreateTrunc(bits, b_.getInt32Ty()), I32(lane_xor)});
  llvm::Value* hi =
      CallPtx(b_, PtxInst::kShflBfly,
              {b_.CreateTrunc(b_.CreateLShr(bits, 32), b_.getInt32Ty()), I32(lane_xor)});
  llvm::Value* both = b_.CreateOr(b_.CreateZExt(lo, b_.getInt64Ty()),
                                  b_.CreateShl(b_.CreateZExt(hi, b_.getInt64Ty()), 32));
  return b_.CreateBitCast(both, type);
}

// A running value, and for argreduce its position.
struct Emitter::Item {
  llvm::Value* value = nullptr;
  llvm::Value* index = nullptr;
};

struct Emitter::Reduction {
  ir::ValueId from, to;
  std::string kind;
  int axis;
  bool arg, is_float;
  DType acc;  // what is summed up in
};

// Of two items what the reduction has of both; y's elements stand behind x's or beside them.
Emitter::Item Emitter::Better(const Reduction& of, Item x, Item y) {
  const bool max = of.kind == "argmax";
  llvm::Value *u = x.value, *v = y.value;
  if (of.arg) {
    // y wins if it is better, or equal and earlier.
    llvm::Value* better = of.is_float ? (max ? b_.CreateFCmpOGT(v, u) : b_.CreateFCmpOLT(v, u))
                          : ir::IsSigned(of.acc)
                              ? (max ? b_.CreateICmpSGT(v, u) : b_.CreateICmpSLT(v, u))
                              : (max ? b_.CreateICmpUGT(v, u) : b_.CreateICmpULT(v, u));
    llvm::Value* equal = of.is_float ? b_.CreateFCmpOEQ(v, u) : b_.CreateICmpEQ(v, u);
    llvm::Value* earlier = b_.CreateICmpSLT(y.index, x.index);
    llvm::Value* take = b_.CreateOr(better, b_.CreateAnd(equal, earlier));
    return {b_.CreateSelect(take, v, u), b_.CreateSelect(take, y.index, x.index)};
  }
  return {Combine(of.kind, of.acc, u, v)};
}

// What each result register of a thread has of the thread's own elements.
std::vector<Emitter::Item> Emitter::ReduceInThread(const Reduction& of,
                                                   const ir::ReducePlan& plan) {
  const ir::Type& type = fn_.type(of.from);
  const ir::Layout& layout = fn_.layout(of.from);
  const ThreadPart& part = Part(type.layout);
  const size_t a = static_cast<size_t>(of.axis);
  Regs wide = of.is_float ? (of.acc == DType::kF64 ? Get(of.from) : ToF32(Get(of.from), type.dtype))
                          : Regs();
  if (!of.is_float)
    for (llvm::Value* v : Get(of.from)) wide.push_back(CastOne(v, type.dtype, of.acc));

  // Registers by result register; elements beyond the axis do not count.
  std::vector<std::vector<Item>> groups(static_cast<size_t>(plan.regs));
  const int64_t size = type.shape[a];
  llvm::Value* neutral = Identity(of.kind, of.acc);
  for (int64_t r = 0; r < layout.regs(); ++r) {
    int64_t rest = r, result = 0, place = 1;
    for (const ir::LayoutDigit& d : layout.reg) {
      const int64_t digit = rest % d.extent;
      rest /= d.extent;
      if (d.dim == of.axis) continue;
      result += digit * place;
      place *= d.extent;
    }
    const int64_t at = layout.RegCoord(r)[a];
    if (at >= size) continue;
    Item item{wide[static_cast<size_t>(r)]};
    llvm::Value* position = of.arg ? b_.CreateAdd(part.coord[a], I32(at)) : nullptr;
    item.index = position;
    if (of.arg && of.is_float)  // NaN never wins
      item.value = b_.CreateSelect(b_.CreateFCmpUNO(item.value, item.value), neutral, item.value);
    if (at + part.max[a] >= size) {
      llvm::Value* inside = b_.CreateICmpSLT(part.coord[a], I32(size - at));
      item.value = b_.CreateSelect(inside, item.value, neutral);
      if (of.arg) item.index = b_.CreateSelect(inside, position, I32(0x7fffffff));
    }
    groups[static_cast<size_t>(result)].push_back(item);
  }
  std::vector<Item> items;
  for (std::vector<Item>& g : groups) {
    if (g.empty()) g.push_back({neutral, I32(0x7fffffff)});
    // Where a thread has whole rows, a tree's first level would be half a row more in registers.
    if (options_.machine->Has("tmem") && g.size() >= kLongRow) {
      for (size_t i = kChains; i < g.size(); ++i) g[i % kChains] = Better(of, g[i % kChains], g[i]);
      g.resize(kChains);
    }
    while (g.size() > 1) {  // pairwise: short chains, and small rounding errors in sums
      std::vector<Item> half;
      for (size_t i = 0; i + 1 < g.size(); i += 2) half.push_back(Better(of, g[i], g[i + 1]));
      if (g.size() % 2) half.push_back(g.back());
      g = std::move(half);
    }
    items.push_back(g[0]);
  }
  return items;
}

void Emitter::SetReduced(const Reduction& of, const std::vector<Item>& all) {
  const DType dtype = fn_.type(of.from).dtype;
  Regs out;
  for (const Item& item : all) out.push_back(of.arg ? item.index : item.value);
  if (!of.arg) {
    if (of.is_float && of.acc != DType::kF64) {
      out = FromF32(out, dtype);
    } else if (!of.is_float) {
      for (llvm::Value*& v : out) v = CastOne(v, of.acc, dtype);
    }
  }
  Set(of.to, std::move(out));
}

void Emitter::ReduceInWarp(const Reduction& of, const ir::ReducePlan& plan,
                           std::vector<Item>* items) {
  for (int64_t x : plan.lane_xors)
    for (Item& item : *items) {
      Item other{Shuffle(item.value, x), of.arg ? Shuffle(item.index, x) : nullptr};
      item = Better(of, item, other);
    }
}

// Whoever reads the result asks first whether it is above the guard. Where no lane has anything
// above, that is answered alike by each lane's own part. (One instruction for LLVM, which would
// move what stands in front of a branch behind it.)
void Emitter::ReduceIfAbove(const ir::ReducePlan& plan, const Regs& guard,
                            std::vector<Item>* items) {
  Regs own;
  for (const Item& item : *items) own.push_back(item.value);
  std::string tests, agreed, constraints;
  for (size_t i = 0; i < own.size(); ++i) {
    const std::string mine = "$" + std::to_string(i),
                      bar = "$" + std::to_string(2 * own.size() + i);
    tests += i == 0 ? "setp.gt.f32 a, " + mine + ", " + bar + "; "
                    : "setp.gt.or.f32 a, " + mine + ", " + bar + ", a; ";
    constraints += i == 0 ? "f" : ",f";
  }
  for (int64_t x : plan.lane_xors)
    for (size_t i = 0; i < own.size(); ++i) {
      const std::string mine = "$" + std::to_string(i);
      agreed += "mov.b32 w, " + mine + "; shfl.sync.bfly.b32 w, w, " + std::to_string(x) +
                ", 31, 0xffffffff; mov.b32 v, w; max.f32 " + mine + ", " + mine + ", v; ";
    }
  const Regs values = CallTied(b_, PtxInst::kIfAnyLane, {{"tests", tests}, {"then", agreed}}, own,
                               constraints, guard);
  for (size_t i = 0; i < items->size(); ++i) (*items)[i].value = values[i];
}

Result<void> Emitter::EmitReduce(const ir::Op& op) {
  const ir::Type& type = fn_.type(op.operands[0]);
  const DType acc = AccumulatorOf(type.dtype);
  const Reduction of = {op.operands[0],
                        op.results[0],
                        op.s("kind"),
                        static_cast<int>(op.i("axis")),
                        op.kind == OpKind::kWarpArgReduce,
                        ir::IsFloat(acc),
                        acc};
  const ir::Layout& layout = fn_.layout(of.from);
  const ir::ReducePlan plan = ir::PlanReduce(layout, of.axis);
  std::vector<Item> items = ReduceInThread(of, plan);
  if (ir::GuardOf(op).valid() && plan.cross.empty() && !plan.lane_xors.empty() &&
      of.acc == DType::kF32)
    ReduceIfAbove(plan, ToF32(Get(ir::GuardOf(op)), type.dtype), &items);
  else
    ReduceInWarp(of, plan, &items);
  if (plan.cross.empty()) {
    SetReduced(of, items);
    return Done();
  }
  CHECK(op.i("scratch", -1) >= 0, "reduction across warps without scratch");
  const int64_t slot = ir::ReduceSlotBytes(type.dtype), threads = layout.threads();
  const int64_t index_base = plan.cross_count * plan.regs * plan.groups * slot;
  llvm::Value* base = SmemAddress(op.i("scratch"));
  llvm::Value* group = I32(0);
  llvm::Value* cross = I32(0);
  int64_t place = 1;
  for (const ir::ThreadDigit& d : plan.group) {
    group = b_.CreateAdd(group,
                         b_.CreateMul(Digit(role_.thread, d.place, d.extent, threads), I32(place)));
    place *= d.extent;
  }
  place = 1;
  for (const ir::ThreadDigit& d : plan.cross) {
    cross = b_.CreateAdd(cross,
                         b_.CreateMul(Digit(role_.thread, d.place, d.extent, threads), I32(place)));
    place *= d.extent;
  }
  llvm::Value* writes = nullptr;
  for (const ir::ThreadDigit& d : plan.lane_parts)
    writes = And(writes, b_.CreateICmpEQ(Digit(role_.thread, d.place, d.extent, threads), I32(0)));
  // Neighbouring groups lie in neighbouring banks.
  llvm::Value* entry = b_.CreateAdd(group, b_.CreateMul(cross, I32(plan.regs * plan.groups)));
  llvm::Value* mine = b_.CreateAdd(base, b_.CreateMul(entry, I32(slot)));
  llvm::Value* mine_index =
      b_.CreateAdd(b_.CreateAdd(base, I32(index_base)), b_.CreateShl(entry, 2));
  llvm::Value* theirs = b_.CreateAdd(base, b_.CreateMul(group, I32(slot)));
  llvm::Value* theirs_index =
      b_.CreateAdd(b_.CreateAdd(base, I32(index_base)), b_.CreateShl(group, 2));
  if (!op.i("alone", 0)) RoleBarrier();  // others have read what they passed through these bytes
  for (size_t r = 0; r < items.size(); ++r) {
    const int64_t at = static_cast<int64_t>(r) * plan.groups;
    StoreGlobal(mine, at * slot, writes, {items[r].value}, of.acc, PtxInst::kStShared);
    if (of.arg)
      StoreGlobal(mine_index, at * 4, writes, {items[r].index}, DType::kI32, PtxInst::kStShared);
  }
  unread_.push_back([=, this, all = items]() mutable {
    for (size_t r = 0; r < all.size(); ++r) {
      Item sum;
      for (int64_t w = 0; w < plan.cross_count; ++w) {
        const int64_t at = (w * plan.regs + static_cast<int64_t>(r)) * plan.groups;
        Item item{b_.CreateAlignedLoad(ElementType(of.acc), SharedPointer(theirs, at * slot),
                                       llvm::Align(static_cast<uint64_t>(slot)))};
        if (of.arg)
          item.index = b_.CreateAlignedLoad(b_.getInt32Ty(), SharedPointer(theirs_index, at * 4),
                                            llvm::Align(4));
        sum = w ? Better(of, sum, item) : item;
      }
      all[r] = sum;
    }
    SetReduced(of, all);
  });
  if (op.i("alone", 0) == 2) return Done();  // at the next one's barrier
  RoleBarrier();
  for (const std::function<void()>& read : std::exchange(unread_, {})) read();
  return Done();
}

}  // namespace tilec::backend
