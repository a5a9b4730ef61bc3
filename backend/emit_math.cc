// Approximate functions of f32. Largest errors: backend/README.md (keep it true).
//
// SPDX-License-Identifier: Apache-2.0
#include <llvm/IR/Constants.h>
#include <llvm/IR/Intrinsics.h>

#include <algorithm>
#include <set>
#include <vector>

#include "backend/emitter.h"
#include "support/check.h"

namespace tilec::backend {

using ir::OpKind;

namespace {

constexpr double kLog2E = 1.4426950408889634;
constexpr double kLn2 = 0.6931471805599453;

// Polynomials are Chebyshev fits, highest power first.
// (erf(x) - x) / x in x², |x| <= 1; error 3.4e-11.
constexpr double kErfSmall[] = {-9.667044571e-6, 1.126595903e-4, -8.484080406e-4, 5.221031808e-3,
                                -2.686543073e-2, 1.12837825e-1,  -3.761263847e-1, 1.283791671e-1};
// log2(1 - erf(x)), 0.95 <= x <= 4; error 2.6e-8.
constexpr double kErfLarge[] = {2.369884802e-6,  -6.660170662e-5, 8.622660406e-4,
                                -6.872291768e-3, 3.813280069e-2,  -1.588367458e-1,
                                -9.115085048e-1, -1.630594352,    4.643548536e-4};
// (tanh(x) - x) / x³ in x², |x| <= 0.6; error 3e-8.
constexpr double kTanhSmall[] = {-6.26911972e-3, 2.111095905e-2, -5.387394885e-2, 1.333291537e-1,
                                 -3.333333033e-1};
// (sin(x) - x) / x³ and (cos(x) - 1 + x²/2) / x⁴ in x², |x| <= 0.79.
constexpr double kSin[] = {2.724381198e-6, -1.984003911e-4, 8.333331786e-3, -1.666666666e-1};
constexpr double kCos[] = {2.454289634e-5, -1.388827945e-3, 4.166666454e-2};
// π/2 in three parts; products of the first two with integers below 2¹² are exact.
constexpr double kHalfPi[] = {1.5703125, 0.0004837512969970703, 7.549790126404332e-08};

}  // namespace

llvm::Value* Emitter::F32(double v) {
  return llvm::ConstantFP::get(b_.getFloatTy(), llvm::APFloat(static_cast<float>(v)));
}

llvm::Value* Emitter::Fma(llvm::Value* x, llvm::Value* y, llvm::Value* z) {
  return b_.CreateIntrinsic(llvm::Intrinsic::fma, {x->getType()}, {x, y, z});
}

llvm::Value* Emitter::Poly(llvm::Value* x, const double* coefficients, int count) {
  llvm::Value* y = F32(coefficients[0]);
  for (int i = 1; i < count; ++i) y = Fma(y, x, F32(coefficients[i]));
  return y;
}

llvm::Value* Emitter::MathExp(llvm::Value* x) {
  return CallPtx(b_, PtxInst::kEx2, {b_.CreateFMul(x, F32(kLog2E))});
}

// Near 0 a polynomial; elsewhere 1 - 2 / (e^2|x| + 1), which tends to 1 as the power overflows.
llvm::Value* Emitter::MathTanh(llvm::Value* x) {
  llvm::Value* a = b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x);
  llvm::Value* e = CallPtx(b_, PtxInst::kEx2, {b_.CreateFMul(a, F32(2 * kLog2E))});
  llvm::Value* r = CallPtx(b_, PtxInst::kRcp, {b_.CreateFAdd(e, F32(1))});
  llvm::Value* large = Fma(r, F32(-2), F32(1));
  large = b_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, large, x);
  llvm::Value* s = b_.CreateFMul(x, x);
  llvm::Value* small = Fma(b_.CreateFMul(s, Poly(s, kTanhSmall, 5)), x, x);
  return b_.CreateSelect(b_.CreateFCmpOLT(a, F32(0.6)), small, large);
}

// Does whatever becomes of the value end in a type of at most 8 significant bits? Then the unit's
// tanh (one instruction, error 2^-11 of its value, which the language allows) serves in place of
// ours (some twenty, 2^-20): rounding alone makes 2^-9. Where differences cancel on the way, as in
// 1 + tanh x far below 0, its error shows, small beside the other operand. What sums, compares or
// keeps the value in f32 wants it exact. Only where roles share an SM: their threads
// have no others to hide behind.
bool Emitter::RoundedAway(ir::ValueId v) const {
  const auto is_role = [](const ir::Op& op) { return op.kind == OpKind::kRole; };
  if (std::count_if(fn_.ops.begin(), fn_.ops.end(), is_role) < 2) return false;
  std::vector<std::vector<ir::OpId>> users(static_cast<size_t>(fn_.values.size()));
  for (int32_t i = 0; i < fn_.ops.size(); ++i)
    for (ir::ValueId o : fn_.ops[ir::OpId(i)].operands)
      users[static_cast<size_t>(o.index)].push_back(ir::OpId(i));
  std::vector<ir::ValueId> open = {v};
  std::set<ir::ValueId> seen = {v};
  while (!open.empty()) {
    const ir::ValueId at = open.back();
    open.pop_back();
    const ir::DType d = fn_.type(at).dtype;
    if (d == ir::DType::kBF16 || d == ir::DType::kE4M3 || d == ir::DType::kE5M2) continue;
    if (d != ir::DType::kF32) return false;
    for (ir::OpId id : users[static_cast<size_t>(at.index)]) {
      const ir::Op& op = fn_.ops[id];
      const bool keeps = op.kind == OpKind::kWarpColumns ||
                         (ir::Info(op.kind).elementwise() && op.kind != OpKind::kCmp &&
                          (op.kind != OpKind::kSelect || op.operands[0] != at));
      if (!keeps || op.results.size() != 1) return false;
      if (seen.insert(op.results[0]).second) open.push_back(op.results[0]);
    }
  }
  return true;
}

llvm::Value* Emitter::MathErf(llvm::Value* x) {
  llvm::Value* a = b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x);
  llvm::Value* s = b_.CreateFMul(x, x);
  llvm::Value* small = Fma(Poly(s, kErfSmall, 8), x, x);
  // min drops NaN; the other branch keeps it.
  llvm::Value* t = b_.CreateBinaryIntrinsic(llvm::Intrinsic::minnum, a, F32(4));
  llvm::Value* large = b_.CreateFSub(F32(1), CallPtx(b_, PtxInst::kEx2, {Poly(t, kErfLarge, 9)}));
  large = b_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, large, x);
  return b_.CreateSelect(b_.CreateFCmpOGT(a, F32(1)), large, small);
}

llvm::Value* Emitter::MathSinCos(llvm::Value* x, bool cosine) {
  // Quadrant: x·2/π to the nearest integer by adding 1.5·2²³; its low bits are the integer's.
  llvm::Value* magic = F32(12582912.0);
  llvm::Value* shifted = Fma(x, F32(0.6366197723675814), magic);
  llvm::Value* k = b_.CreateFSub(shifted, magic);
  llvm::Value* q = b_.CreateBitCast(shifted, b_.getInt32Ty());
  if (cosine) q = b_.CreateAdd(q, I32(1));
  llvm::Value* r = x;
  for (double part : kHalfPi) r = Fma(k, F32(-part), r);
  llvm::Value* s = b_.CreateFMul(r, r);
  llvm::Value* sine = Fma(b_.CreateFMul(s, Poly(s, kSin, 4)), r, r);
  llvm::Value* cos = Fma(b_.CreateFMul(s, s), Poly(s, kCos, 3), Fma(s, F32(-0.5), F32(1)));
  llvm::Value* odd = b_.CreateICmpNE(b_.CreateAnd(q, I32(1)), I32(0));
  llvm::Value* v = b_.CreateSelect(odd, cos, sine);
  llvm::Value* minus = b_.CreateICmpNE(b_.CreateAnd(q, I32(2)), I32(0));
  return b_.CreateSelect(minus, b_.CreateFNeg(v), v);
}

llvm::Value* Emitter::FloatUnary(OpKind kind, llvm::Value* x, bool f64) {
  auto intrinsic = [&](llvm::Intrinsic::ID id) { return b_.CreateUnaryIntrinsic(id, x); };
  switch (kind) {
    case OpKind::kNeg: return b_.CreateFNeg(x);
    case OpKind::kAbs: return intrinsic(llvm::Intrinsic::fabs);
    case OpKind::kFloor: return intrinsic(llvm::Intrinsic::floor);
    case OpKind::kCeil: return intrinsic(llvm::Intrinsic::ceil);
    case OpKind::kRound: return intrinsic(llvm::Intrinsic::rint);
    case OpKind::kSqrt: return CallPtx(b_, f64 ? PtxInst::kSqrtRnF64 : PtxInst::kSqrt, {x});
    case OpKind::kSqrtRn: return CallPtx(b_, f64 ? PtxInst::kSqrtRnF64 : PtxInst::kSqrtRn, {x});
    case OpKind::kRsqrt:
      if (f64)
        return b_.CreateFDiv(llvm::ConstantFP::get(b_.getDoubleTy(), 1.0),
                             CallPtx(b_, PtxInst::kSqrtRnF64, {x}));
      return CallPtx(b_, PtxInst::kRsqrt, {x});
    default: break;
  }
  if (f64) return nullptr;
  switch (kind) {
    case OpKind::kExp2: return CallPtx(b_, PtxInst::kEx2, {x});
    case OpKind::kExp: return MathExp(x);
    case OpKind::kLog2: return CallPtx(b_, PtxInst::kLg2, {x});
    case OpKind::kLog: return b_.CreateFMul(CallPtx(b_, PtxInst::kLg2, {x}), F32(kLn2));
    case OpKind::kTanh: return MathTanh(x);
    case OpKind::kSigmoid: {
      llvm::Value* e = CallPtx(b_, PtxInst::kEx2, {b_.CreateFMul(x, F32(-kLog2E))});
      return CallPtx(b_, PtxInst::kRcp, {b_.CreateFAdd(e, F32(1))});
    }
    case OpKind::kErf: return MathErf(x);
    case OpKind::kSin: return MathSinCos(x, false);
    case OpKind::kCos: return MathSinCos(x, true);
    default: UNREACHABLE(std::string("no unary float op ") + ir::Info(kind).mnemonic);
  }
}

}  // namespace tilec::backend
