// Elementwise operations, of floats above all (integers: emit_integers.cc). Floats narrower than 32
// bits compute in f32 and round after every op, or two at a time where that is the same.
//
// SPDX-License-Identifier: Apache-2.0
#include <llvm/ADT/APFloat.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/Intrinsics.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "backend/diagnostics.h"
#include "backend/emitter.h"
#include "backend/small_ints.h"
#include "ir/numerics.h"
#include "support/check.h"

namespace tilec::backend {

using ir::DType;
using ir::OpKind;

namespace {

constexpr size_t kFewestQuotients = 4;  // by one number, so that its reciprocal pays

const llvm::fltSemantics* Semantics(DType d) {
  switch (d) {
    case DType::kF16: return &llvm::APFloat::IEEEhalf();
    case DType::kBF16: return &llvm::APFloat::BFloat();
    case DType::kE4M3: return &llvm::APFloat::Float8E4M3FN();
    case DType::kE5M2: return &llvm::APFloat::Float8E5M2();
    default: return nullptr;
  }
}

// Registers of neighbouring columns in pairs, where they do not follow each other, of a tile that
// becomes floats of a byte: two are converted together, and stand side by side in the words that
// products read (ir/lower/interleave_columns.cc). Empty: as they come.
std::vector<std::vector<int>> ColumnsApart(const ir::Function& fn, const ir::Op& op) {
  const ir::Type& type = fn.type(op.results[0]);
  if (type.shape.empty() || !ir::IsFloat(type.dtype) || ir::ByteSize(type.dtype) != 1) return {};
  const ir::Layout& layout = fn.layout(op.results[0]);
  const ir::RegisterRun run = ir::RunAlong(layout, layout.rank - 1);
  if (run.digit < 1 || run.extent % 2 != 0) return {};
  return ir::RunGroups(layout, run, 2);
}

}  // namespace

llvm::Value* Emitter::ConstantOf(DType d, const ir::AttrValue& value) {
  const double x = std::holds_alternative<double>(value)
                       ? std::get<double>(value)
                       : static_cast<double>(std::get<int64_t>(value));
  llvm::Type* type = ElementType(d);
  if (type->isFloatTy()) {
    llvm::APFloat f(x);
    bool lost = false;
    f.convert(llvm::APFloat::IEEEsingle(), llvm::APFloat::rmNearestTiesToEven, &lost);
    return llvm::ConstantFP::get(type, f);
  }
  if (type->isDoubleTy()) return llvm::ConstantFP::get(type, x);
  if (ir::IsScale(d)) {
    std::byte byte{};
    ir::StoreFloat(d, x, &byte);
    return b_.getInt8(std::to_integer<uint8_t>(byte));
  }
  if (const llvm::fltSemantics* semantics = Semantics(d)) {
    double in = x;
    if (ir::ByteSize(d) == 1 && !std::isnan(x)) {  // fp8 saturates
      const double most = d == DType::kE4M3 ? 448 : 57344;
      in = std::fmin(std::fmax(x, -most), most);
    }
    llvm::APFloat f(in);
    bool lost = false;
    f.convert(*semantics, llvm::APFloat::rmNearestTiesToEven, &lost);
    return llvm::ConstantInt::get(context_, f.bitcastToAPInt());
  }
  if (d == DType::kBool) return b_.getInt1(x != 0);
  const int64_t n =
      std::holds_alternative<int64_t>(value) ? std::get<int64_t>(value) : static_cast<int64_t>(x);
  const unsigned bits = static_cast<unsigned>(ir::Info(d).bits);
  return llvm::ConstantInt::get(context_,
                                llvm::APInt(64, static_cast<uint64_t>(n)).zextOrTrunc(bits));
}

Result<void> Emitter::EmitConstant(const ir::Op& op) {
  const ir::Type& type = fn_.type(op.results[0]);
  const ir::AttrValue* value = op.attr("value");
  CHECK(value, "constant without a value");
  const int64_t count = type.shape.empty() ? 1 : fn_.layout(op.results[0]).regs();
  Set(op.results[0], Regs(static_cast<size_t>(count), ConstantOf(type.dtype, *value)));
  return Done();
}

llvm::Value* Emitter::Compare(const std::string& pred, llvm::Value* x, llvm::Value* y, DType d) {
  using P = llvm::CmpInst::Predicate;
  struct Row {
    const char* name;
    P f, s, u;
  };
  static constexpr Row kRows[] = {
      {"eq", P::FCMP_OEQ, P::ICMP_EQ, P::ICMP_EQ},   {"ne", P::FCMP_UNE, P::ICMP_NE, P::ICMP_NE},
      {"lt", P::FCMP_OLT, P::ICMP_SLT, P::ICMP_ULT}, {"le", P::FCMP_OLE, P::ICMP_SLE, P::ICMP_ULE},
      {"gt", P::FCMP_OGT, P::ICMP_SGT, P::ICMP_UGT}, {"ge", P::FCMP_OGE, P::ICMP_SGE, P::ICMP_UGE}};
  for (const Row& row : kRows)
    if (pred == row.name) {
      if (x->getType()->isFloatingPointTy()) return b_.CreateFCmp(row.f, x, y);
      return b_.CreateICmp(ir::IsSigned(d) ? row.s : row.u, x, y);
    }
  UNREACHABLE("predicate " + pred);
}

llvm::Value* Emitter::FloatBinary(OpKind kind, llvm::Value* x, llvm::Value* y) {
  // The language allows a·b ± c to round once.
  llvm::IRBuilderBase::FastMathFlagGuard guard(b_);
  llvm::FastMathFlags flags;
  flags.setAllowContract(true);
  b_.setFastMathFlags(flags);
  switch (kind) {
    case OpKind::kAdd: return b_.CreateFAdd(x, y);
    case OpKind::kSub: return b_.CreateFSub(x, y);
    case OpKind::kMul: return b_.CreateFMul(x, y);
    case OpKind::kDiv:  // of f64
    case OpKind::kDivRn: return b_.CreateFDiv(x, y);
    case OpKind::kMin: return b_.CreateBinaryIntrinsic(llvm::Intrinsic::minnum, x, y);
    case OpKind::kMax: return b_.CreateBinaryIntrinsic(llvm::Intrinsic::maxnum, x, y);
    case OpKind::kMod: {  // a - floor(a/b)*b
      llvm::Value* q = b_.CreateUnaryIntrinsic(llvm::Intrinsic::floor, b_.CreateFDiv(x, y));
      return Fma(b_.CreateFNeg(q), y, x);
    }
    default: UNREACHABLE(std::string("no binary float op ") + ir::Info(kind).mnemonic);
  }
}

// x[i] / y[i] in f32. Elements of one row divide by the same number: its reciprocal is taken once,
// and each quotient costs two multiplications in place of div.full's reciprocal and scaling. s, a
// power of two, brings y into [1/2, 1) (or near it where y is subnormal or the largest), so that
// x·s neither overflows before the quotient does nor is flushed long before it; inf, NaN and 0 come
// out as in a division. 1.5 ulp, the reciprocal correctly rounded beside products; 2 ulp elsewhere.
//
// Without products few quotients of a thread cost one multiplication each (OrdinaryQuotients).
// What many are made of would be held, all of it, in front of the branch.
Regs Emitter::Quotients(const Regs& x, const Regs& y) {
  constexpr size_t kMostAtOnce = 32;
  struct Divisor {
    size_t uses = 0;
    llvm::Value *scale = nullptr, *reciprocal = nullptr;
  };
  std::map<llvm::Value*, Divisor> divisors;
  for (llvm::Value* v : y) ++divisors[v].uses;
  const bool shared = std::all_of(divisors.begin(), divisors.end(), [](const auto& of) {
    return of.second.uses >= kFewestQuotients && !llvm::isa<llvm::Constant>(of.first);
  });
  const bool products = HasProducts();
  if (!products && shared && x.size() <= kMostAtOnce) return OrdinaryQuotients(x, y);
  Regs out;
  for (size_t i = 0; i < x.size(); ++i) {
    Divisor& by = divisors[y[i]];
    if (by.uses < kFewestQuotients) {
      out.push_back(CallPtx(b_, PtxInst::kDivFull, {x[i], y[i]}));
      continue;
    }
    if (!by.scale) {
      llvm::Value* bits = b_.CreateBitCast(y[i], b_.getInt32Ty());
      llvm::Value* exponent = b_.CreateAnd(b_.CreateLShr(bits, 23), 0xff);
      llvm::Value* turned = b_.CreateBinaryIntrinsic(
          llvm::Intrinsic::smax, b_.CreateSub(b_.getInt32(253), exponent), b_.getInt32(1));
      by.scale = b_.CreateBitCast(b_.CreateShl(turned, 23), b_.getFloatTy());
      llvm::Value* scaled = b_.CreateFMul(y[i], by.scale);
      by.reciprocal = products ? b_.CreateFDiv(llvm::ConstantFP::get(b_.getFloatTy(), 1.0), scaled)
                               : CallPtx(b_, PtxInst::kRcp, {scaled});
    }
    out.push_back(b_.CreateFMul(b_.CreateFMul(x[i], by.scale), by.reciprocal));
  }
  return out;
}

// Threads of short rows wait for issue slots, not for memory: div.full of 17 elements of a row of
// 263 was 51 of some 400 instructions. With |y| in [2^-125, 2^125] the reciprocal is a normal
// number within an ulp, and x·(1/y) over- and underflows where x/y does: 1.5 ulp and no scaling.
Regs Emitter::OrdinaryQuotients(const Regs& x, const Regs& y) {
  std::vector<llvm::Value*> divisors;  // in the order of registers
  for (llvm::Value* v : y)
    if (std::find(divisors.begin(), divisors.end(), v) == divisors.end()) divisors.push_back(v);
  llvm::Value* ordinary = nullptr;
  for (llvm::Value* v : divisors) {
    llvm::Value* size = b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, v);
    ordinary = And(ordinary, b_.CreateAnd(b_.CreateFCmpOGE(size, F32(0x1p-125)),
                                          b_.CreateFCmpOLE(size, F32(0x1p125))));
  }
  llvm::BasicBlock *fast = NewBlock("quotients"), *any = NewBlock("quotients.any"),
                   *end = NewBlock("quotients.end");
  b_.CreateCondBr(ordinary, fast, any);
  b_.SetInsertPoint(any);
  Regs divided, out;
  for (size_t i = 0; i < x.size(); ++i)
    divided.push_back(CallPtx(b_, PtxInst::kDivFull, {x[i], y[i]}));
  b_.CreateBr(end);
  b_.SetInsertPoint(fast);
  std::map<llvm::Value*, llvm::Value*> reciprocals;
  for (llvm::Value* v : divisors) reciprocals[v] = CallPtx(b_, PtxInst::kRcp, {v});
  Regs multiplied;
  for (size_t i = 0; i < x.size(); ++i)
    multiplied.push_back(b_.CreateFMul(x[i], reciprocals.at(y[i])));
  b_.CreateBr(end);
  b_.SetInsertPoint(end);
  for (size_t i = 0; i < x.size(); ++i) {
    llvm::PHINode* phi = b_.CreatePHI(b_.getFloatTy(), 2);
    phi->addIncoming(multiplied[i], fast);
    phi->addIncoming(divided[i], any);
    out.push_back(phi);
  }
  return out;
}

// (x · c) · (t + k), c a power of two, as x · fma(t, c, c · k): one instruction less (gelu is x / 2
// · (1 + tanh)). Scaling by c is exact, so t·c + c·k is the rounded sum times c; the result is the
// same unless x · c is subnormal, where it is rounded once less. Nullptr: they are not of that
// form.
llvm::Value* Emitter::ScaledSum(llvm::Value* scaled, llvm::Value* sum) {
  const auto constant = [](llvm::Value* v, unsigned opcode) -> const llvm::ConstantFP* {
    const auto* inst = llvm::dyn_cast<llvm::BinaryOperator>(v);
    if (!inst || inst->getOpcode() != opcode || !inst->getType()->isFloatTy()) return nullptr;
    return llvm::dyn_cast<llvm::ConstantFP>(inst->getOperand(1));
  };
  const llvm::ConstantFP* scale = constant(scaled, llvm::Instruction::FMul);
  const llvm::ConstantFP* offset = constant(sum, llvm::Instruction::FAdd);
  if (!scale || !offset) return nullptr;
  const float c = scale->getValueAPF().convertToFloat(), k = offset->getValueAPF().convertToFloat();
  // Nothing overflows, and the sum, a multiple of its terms' last bits, is 0 or far from subnormal.
  int exponent = 0;
  if (std::frexp(c, &exponent) != 0.5f || exponent > 1 || exponent < -20) return nullptr;
  if (!(std::fabs(k) >= 0x1p-60f && std::fabs(k) <= 0x1p60f)) return nullptr;
  llvm::Value* x = llvm::cast<llvm::BinaryOperator>(scaled)->getOperand(0);
  llvm::Value* t = llvm::cast<llvm::BinaryOperator>(sum)->getOperand(0);
  return b_.CreateFMul(x, Fma(t, F32(c), F32(double{c} * k)));
}

// Sums and products of 16 bits two at a time, where the GPU has them; empty: it does not, or they
// are an odd number. An f32 has more than twice their bits, so it would round to the same.
Regs Emitter::InPairs(OpKind kind, const Regs& x, const Regs& y, DType d) {
  if ((d != DType::kF16 && d != DType::kBF16) || x.size() % 2) return {};
  const bool half = d == DType::kF16;
  if (!half && !options_.machine->Has("bf16_arithmetic")) return {};
  PtxInst inst;
  if (kind == OpKind::kAdd)
    inst = half ? PtxInst::kAddF16x2 : PtxInst::kAddBf16x2;
  else if (kind == OpKind::kSub)
    inst = half ? PtxInst::kSubF16x2 : PtxInst::kSubBf16x2;
  else if (kind == OpKind::kMul)
    inst = half ? PtxInst::kMulF16x2 : PtxInst::kMulBf16x2;
  else
    return {};
  Regs from = x, less = y;
  if (kind == OpKind::kSub) {
    if (const Regs pairs = FieldsLess(b_, x, y, half); !pairs.empty())
      return Unpack(pairs, d, x.size());
    WithoutMagic(b_, &from, &less);
  }
  const Regs left = Pack(from, d), right = Pack(less, d);
  Regs out;
  for (size_t i = 0; i < left.size(); ++i) out.push_back(CallPtx(b_, inst, {left[i], right[i]}));
  return Unpack(out, d, x.size());
}

Result<void> Emitter::EmitElementwise(const ir::Op& op) {
  const DType d = fn_.type(op.operands[0]).dtype;
  const DType to = fn_.type(op.results[0]).dtype;
  const Regs& a = Get(op.operands[0]);
  Regs out;
  // Operations on bits and choices need no conversion.
  switch (op.kind) {
    case OpKind::kCast:
      if (const auto pairs = ColumnsApart(fn_, op); !pairs.empty()) {
        Regs beside, out(a.size());
        for (const std::vector<int>& pair : pairs)
          for (int r : pair) beside.push_back(a[static_cast<size_t>(r)]);
        beside = Cast(beside, d, to, LosesNothing(op.operands[0], to));
        auto made = beside.begin();
        for (const std::vector<int>& pair : pairs)
          for (int r : pair) out[static_cast<size_t>(r)] = *made++;
        Set(op.results[0], std::move(out));
        return Done();
      }
      Set(op.results[0], Cast(a, d, to, LosesNothing(op.operands[0], to)));
      return Done();
    case OpKind::kBitcast:
      for (llvm::Value* v : a) out.push_back(b_.CreateBitCast(v, ElementType(to)));
      Set(op.results[0], std::move(out));
      return Done();
    case OpKind::kSelect: {
      const Regs &x = Get(op.operands[1]), &y = Get(op.operands[2]);
      for (size_t i = 0; i < a.size(); ++i) out.push_back(b_.CreateSelect(a[i], x[i], y[i]));
      Set(op.results[0], std::move(out));
      return Done();
    }
    default: break;
  }
  if (ir::IsFloat(d)) return EmitFloats(op);
  EmitIntegers(op);
  return Done();
}

// Is this difference what a factor is made of that is one for most (mul, `seldom`)? Of x·c - y·c
// rounded once some 1e-7 are left where x is y, and an exponential of them is no one: every turn of
// attention multiplied all its sums by it.
bool Emitter::RoundedTwice(ir::ValueId difference) {
  if (!seldom_known_) {
    seldom_known_ = true;
    constexpr int kSteps = 8;  // as ir/passes/guard_reductions.cc looks
    const std::function<void(ir::ValueId, int)> mark = [&](ir::ValueId v, int steps) {
      const ir::Op* def = fn_.def(v);
      if (!def || steps == 0) return;
      if (def->kind == OpKind::kSub) rounded_twice_.insert(v.index);
      if (ir::Info(def->kind).elementwise() || def->kind == OpKind::kWarpBroadcast)
        for (ir::ValueId operand : def->operands) mark(operand, steps - 1);
    };
    for (const ir::Op& op : fn_.ops)
      if (op.kind == OpKind::kMul && op.i("seldom", 0) != 0) mark(op.operands[1], kSteps);
  }
  return rounded_twice_.count(difference.index) > 0;
}

// x · y where a warp has a y that is not one; x · 1 is x, whatever x is.
Regs Emitter::SeldomScaled(const Regs& x, const Regs& y) {
  std::vector<llvm::Value*> factors;  // each once, in the order of registers
  for (llvm::Value* v : y)
    if (std::find(factors.begin(), factors.end(), v) == factors.end()) factors.push_back(v);
  const auto factor = [&](size_t i) { return "$" + std::to_string(2 * x.size() + i); };
  std::string tests, scaled, constraints;
  for (size_t i = 0; i < factors.size(); ++i) {
    tests += i == 0 ? "setp.neu.f32 a, " + factor(i) + ", 0f3F800000; "
                    : "setp.neu.or.f32 a, " + factor(i) + ", 0f3F800000, a; ";
    constraints += i == 0 ? "f" : ",f";
  }
  for (size_t i = 0; i < x.size(); ++i) {
    const std::string of = "$" + std::to_string(i);
    const auto by = std::find(factors.begin(), factors.end(), y[i]) - factors.begin();
    scaled += "mul.f32 " + of + ", " + of + ", " + factor(static_cast<size_t>(by)) + "; ";
  }
  return CallTied(b_, PtxInst::kIfAnyLane, {{"tests", tests}, {"then", scaled}}, x, constraints,
                  factors);
}

Result<void> Emitter::EmitFloats(const ir::Op& op) {
  const DType d = fn_.type(op.operands[0]).dtype;
  const bool f64 = d == DType::kF64;
  const Regs& a = Get(op.operands[0]);
  Regs out;
  if (op.kind == OpKind::kFma && (d == DType::kF16 || d == DType::kBF16)) {
    const PtxInst inst = d == DType::kF16 ? PtxInst::kFmaF16 : PtxInst::kFmaBf16;
    for (size_t i = 0; i < a.size(); ++i)
      out.push_back(CallPtx(b_, inst, {a[i], Get(op.operands[1])[i], Get(op.operands[2])[i]}));
    Set(op.results[0], std::move(out));
    return Done();
  }
  if ((op.kind == OpKind::kNeg || op.kind == OpKind::kAbs) && ir::ByteSize(d) < 4) {
    const uint64_t sign = uint64_t{1} << (ir::Info(d).bits - 1);
    for (llvm::Value* v : a)
      out.push_back(op.kind == OpKind::kNeg ? b_.CreateXor(v, sign) : b_.CreateAnd(v, sign - 1));
    Set(op.results[0], std::move(out));
    return Done();
  }
  if (op.operands.size() == 2)
    if (Regs pairs = InPairs(op.kind, a, Get(op.operands[1]), d); !pairs.empty()) {
      Set(op.results[0], std::move(pairs));
      return Done();
    }
  auto wide = [&](size_t i) {
    const Regs& r = Get(op.operands[i]);
    return f64 ? r : ToF32(r, d);
  };
  const Regs x = wide(0);
  Regs y, z;
  if (op.operands.size() > 1) y = wide(1);
  if (op.operands.size() > 2) z = wide(2);
  if (op.kind == OpKind::kDiv && !f64) {
    Set(op.results[0], FromF32(Quotients(x, y), d));
    return Done();
  }
  if (op.kind == OpKind::kMul && d == DType::kF32 && op.i("seldom", 0) != 0) {
    Set(op.results[0], SeldomScaled(x, y));
    return Done();
  }
  const bool fast = op.kind == OpKind::kTanh && !f64 && RoundedAway(op.results[0]);
  for (size_t i = 0; i < x.size(); ++i) {
    switch (op.operands.size()) {
      case 1: {
        if (fast) {
          out.push_back(CallPtx(b_, PtxInst::kTanhFast, {x[i]}));
          break;
        }
        llvm::Value* v = FloatUnary(op.kind, x[i], f64);
        if (!v) return diags_.Report(kUnsupportedFunction, op.at, ir::Info(op.kind).mnemonic);
        out.push_back(v);
        break;
      }
      case 2:
        if (llvm::Value* v = nullptr;
            op.kind == OpKind::kMul && d == DType::kF32 &&
            ((v = ScaledSum(x[i], y[i])) || (v = ScaledSum(y[i], x[i])))) {
          out.push_back(v);
          break;
        }
        if (op.kind == OpKind::kSub && RoundedTwice(op.results[0])) {
          out.push_back(b_.CreateFSub(x[i], y[i]));
          break;
        }
        out.push_back(op.kind == OpKind::kCmp ? Compare(op.s("pred"), x[i], y[i], d)
                                              : FloatBinary(op.kind, x[i], y[i]));
        break;
      default: out.push_back(Fma(x[i], y[i], z[i]));
    }
  }
  if (op.kind != OpKind::kCmp && !f64) out = FromF32(out, d);
  Set(op.results[0], std::move(out));
  return Done();
}

}  // namespace tilec::backend
