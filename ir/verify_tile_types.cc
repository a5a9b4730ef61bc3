// The verifier's rules for the rows of ops.def: what types and attributes each op admits.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "ir/queries.h"
#include "ir/verify_internal.h"

namespace tilec::ir::verify_internal {
namespace {

std::vector<int64_t> WithoutOnes(const std::vector<int64_t>& shape) {
  std::vector<int64_t> out;
  for (int64_t d : shape)
    if (d != 1) out.push_back(d);
  return out;
}

}  // namespace

bool Verifier::CheckIota(const Op& op) {
  const Type& out = Out(op);
  if (!IsScalar(op, 0, DType::kI64)) return Fail(kVerifyType, op, "start is not an i64");
  if (!out.is_tile() || out.dtype != DType::kI32 || out.rank() != 1)
    return Fail(kVerifyType, op, fmt::format("the result is {}, not i32[n]", Show(out)));
  return true;
}

bool Verifier::CheckBroadcastShape(const Op& op) {
  const Type& in = Operand(op, 0);
  const Type& out = Out(op);
  const std::vector<int64_t>& axes = op.ints("axes");
  if (!in.is_tile() || !out.is_tile() || in.dtype != out.dtype)
    return Fail(kVerifyType, op, fmt::format("{} becomes {}", Show(in), Show(out)));
  if (static_cast<int64_t>(axes.size()) != in.rank())
    return Fail(kVerifyForm, op, fmt::format("{} axes for {}", axes.size(), Show(in)));
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] < 0 || axes[i] >= out.rank() || (i > 0 && axes[i] <= axes[i - 1]))
      return Fail(
          kVerifyForm, op,
          fmt::format("axis {} of {}: axes ascend within the result's rank", axes[i], Show(out)));
    if (in.shape[i] != 1 && in.shape[i] != out.shape[axes[i]])
      return Fail(
          kVerifyType, op,
          fmt::format("dim {} of {} becomes dim {} of {}", i, Show(in), axes[i], Show(out)));
  }
  return true;
}

bool Verifier::CheckReshapeShape(const Op& op) {
  const Type& in = Operand(op, 0);
  const Type& out = Out(op);
  if (!in.is_tile() || !out.is_tile() || in.dtype != out.dtype ||
      WithoutOnes(in.shape) != WithoutOnes(out.shape))
    return Fail(
        kVerifyType, op,
        fmt::format("{} becomes {}: only dims of extent 1 come and go", Show(in), Show(out)));
  return true;
}

bool Verifier::CheckTransposeShape(const Op& op) {
  const Type& in = Operand(op, 0);
  const Type& out = Out(op);
  const std::vector<int64_t>& perm = op.ints("perm");
  if (!in.is_tile() || !out.is_tile() || in.dtype != out.dtype || in.rank() != out.rank())
    return Fail(kVerifyType, op, fmt::format("{} becomes {}", Show(in), Show(out)));
  std::vector<int64_t> sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size(); ++i)
    if (sorted[i] != static_cast<int64_t>(i))
      return Fail(kVerifyForm, op, "perm is no permutation");
  if (static_cast<int64_t>(perm.size()) != in.rank())
    return Fail(kVerifyForm, op, fmt::format("perm has {} entries for {}", perm.size(), Show(in)));
  for (size_t i = 0; i < perm.size(); ++i)
    if (out.shape[i] != in.shape[perm[i]])
      return Fail(kVerifyType, op,
                  fmt::format("dim {} of {} is dim {} of {}", i, Show(out), perm[i], Show(in)));
  return true;
}

bool Verifier::CheckRearrange(const Op& op) {
  const Type& in = Operand(op, 0);
  const Type& out = Out(op);
  if (!in.is_tile() || !out.is_tile() || in.dtype != out.dtype)
    return Fail(kVerifyType, op, fmt::format("{} becomes {}", Show(in), Show(out)));
  if (static_cast<int64_t>(op.ints("strides").size()) != out.rank())
    return Fail(kVerifyForm, op,
                fmt::format("{} strides for {}", op.ints("strides").size(), Show(out)));
  constexpr int64_t kMost = int64_t{1} << 28;  // numbers of elements are 32 bits wide
  double most = std::fabs(static_cast<double>(op.i("first")));
  for (size_t d = 0; d < out.shape.size(); ++d)
    most +=
        std::fabs(static_cast<double>(op.ints("strides")[d])) * static_cast<double>(out.shape[d]);
  return most < static_cast<double>(kMost) ||
         Fail(kVerifyForm, op, fmt::format("elements {} away; fewer than {}", most, kMost));
}

bool Verifier::CheckReduceKind(const Op& op, DType d) {
  const std::string& kind = op.s("kind");
  if (OneOf(kind, {"any", "all"}))
    return IsBool(d) ||
           Fail(kVerifyType, op, fmt::format("\"{}\" of {}; it takes bool", kind, Spelling(d)));
  if (!OneOf(kind, {"sum", "prod", "max", "min"}))
    return Fail(kVerifyForm, op,
                fmt::format("kind is \"{}\"; it is sum prod max min any or all", kind));
  return IsNumeric(d) ||
         Fail(kVerifyType, op, fmt::format("\"{}\" of bool; it takes numbers", kind));
}

bool Verifier::CheckGuard(const Op& op) {
  const ValueId guard = GuardOf(op);
  if (!guard.valid()) return true;
  if (op.s("kind") != "max") return Fail(kVerifyForm, op, "only a max has a guard");
  return fn_.type(guard) == Out(op) ||
         Fail(kVerifyType, op,
              fmt::format("the guard is {}, the result {}", Show(fn_.type(guard)), Show(Out(op))));
}

bool Verifier::CheckReduceShape(const Op& op) {
  const Type& in = Operand(op, 0);
  const Type& out = Out(op);
  const int64_t axis = op.i("axis");
  if (!in.is_tile() || axis < 0 || axis >= in.rank())
    return Fail(kVerifyForm, op, fmt::format("axis {} of {}", axis, Show(in)));
  std::vector<int64_t> shape = in.shape;
  shape.erase(shape.begin() + axis);
  if (!out.is_tile() || out.shape != shape)
    return Fail(kVerifyType, op,
                fmt::format("{} without dim {} is not {}", Show(in), axis, Show(out)));
  return true;
}

bool Verifier::CheckArgReduceShape(const Op& op) {
  const std::string& kind = op.s("kind");
  if (!OneOf(kind, {"argmax", "argmin"}))
    return Fail(kVerifyForm, op, fmt::format("kind is \"{}\"; it is argmax or argmin", kind));
  if (!CheckReduceShape(op)) return false;
  if (!IsNumeric(Operand(op, 0).dtype)) return Fail(kVerifyType, op, "it takes numbers");
  return Out(op).dtype == DType::kI32 ||
         Fail(kVerifyType, op, fmt::format("the result is {}, not i32", Show(Out(op))));
}

bool Verifier::CheckScan(const Op& op) {
  const Type& in = Operand(op, 0);
  const int64_t axis = op.i("axis");
  if (!OneOf(op.s("kind"), {"sum", "prod", "max", "min"}))
    return Fail(kVerifyForm, op,
                fmt::format("kind is \"{}\"; it is sum prod max or min", op.s("kind")));
  if (!in.is_tile() || axis < 0 || axis >= in.rank())
    return Fail(kVerifyForm, op, fmt::format("axis {} of {}", axis, Show(in)));
  if (!IsNumeric(in.dtype)) return Fail(kVerifyType, op, "it takes numbers");
  return Out(op) == in ||
         Fail(kVerifyType, op, fmt::format("{} becomes {}", Show(in), Show(Out(op))));
}

// mxfp8, mxfp4: a ue8m0 for 32 of K; nvfp4: a ue4m3 for 16.
bool Verifier::CheckScales(const Op& op) {
  const Type &a = Operand(op, 0), &b = Operand(op, 1), &sa = Operand(op, 3), &sb = Operand(op, 4);
  const bool pairs = a.dtype == DType::kE2M1X2;
  const int64_t block = sa.dtype == DType::kUE4M3 ? 16 : 32;
  const int64_t k = a.shape[1] * (pairs ? 2 : 1);
  if ((!pairs && !IsFp8(a.dtype)) || pairs != (b.dtype == DType::kE2M1X2) || !IsScale(sa.dtype) ||
      sa.dtype != sb.dtype || (!pairs && block == 16) || op.i("promote") != 0)
    return Fail(
        kVerifyType, op,
        fmt::format("a scaled product of {} and {} with scales of {} and {}", Spelling(a.dtype),
                    Spelling(b.dtype), Spelling(sa.dtype), Spelling(sb.dtype)));
  const std::vector<int64_t> left = {a.shape[0], k / block}, right = {k / block, b.shape[1]};
  return (k % block == 0 && sa.is_tile() && sb.is_tile() && sa.shape == left &&
          sb.shape == right) ||
         Fail(kVerifyType, op,
              fmt::format("scales {} and {} of {} of K, {} each", Show(sa), Show(sb), k, block));
}

bool Verifier::CheckDot(const Op& op) {
  const Type& a = Operand(op, 0);
  const Type& b = Operand(op, 1);
  const Type& acc = Operand(op, 2);
  if (!a.is_tile() || !b.is_tile() || a.rank() != 2 || b.rank() != 2 || acc.rank() != 2)
    return Fail(kVerifyType, op,
                fmt::format("{} · {} + {}: all have rank 2", Show(a), Show(b), Show(acc)));
  if (a.shape[1] != b.shape[0] || a.shape[0] != acc.shape[0] || b.shape[1] != acc.shape[1])
    return Fail(kVerifyType, op,
                fmt::format("{} · {} + {}: shapes do not chain", Show(a), Show(b), Show(acc)));
  if (op.operands.size() == 4)
    return Fail(kVerifyForm, op, "scales of one operand; of both or of none");
  if (op.operands.size() == 5 && !CheckScales(op)) return false;
  if (op.operands.size() == 3 && (a.dtype == DType::kE2M1X2 || IsScale(a.dtype)))
    return Fail(kVerifyType, op, fmt::format("a product of {} without scales", Spelling(a.dtype)));
  if (a.dtype != b.dtype && !(IsFp8(a.dtype) && IsFp8(b.dtype)))
    return Fail(kVerifyType, op,
                fmt::format("a product of {} and {}", Spelling(a.dtype), Spelling(b.dtype)));
  if (IsBool(a.dtype)) return Fail(kVerifyType, op, "a product of bools");
  if (acc.dtype != Info(a.dtype).accumulator)
    return Fail(kVerifyType, op,
                fmt::format("{} accumulates in {}, not {}", Spelling(a.dtype),
                            Spelling(Info(a.dtype).accumulator), Spelling(acc.dtype)));
  if (Out(op) != acc)
    return Fail(kVerifyType, op,
                fmt::format("the result is {}, the accumulator {}", Show(Out(op)), Show(acc)));
  const int64_t promote = op.i("promote");
  if (promote < 0 || (promote > 0 && !IsFp8(a.dtype)))
    return Fail(kVerifyForm, op,
                fmt::format("promote = {} on {}; it is for fp8", promote, Spelling(a.dtype)));
  return true;
}

bool Verifier::CheckParallel(const Op& op) {
  if (op.block != fn_.body) return Fail(kVerifyStructure, op, "it stands inside another op");
  if (++parallels_ > 1) return Fail(kVerifyStructure, op, "a kernel has one");
  for (int64_t step : op.ints("steps"))
    if (step < 1) return Fail(kVerifyForm, op, fmt::format("a step of {}", step));
  for (size_t i = 0; i < op.operands.size(); ++i)
    if (!IsScalar(op, i, DType::kI64))
      return Fail(kVerifyType, op, fmt::format("bound {} is not an i64", i));
  if (const int64_t n = op.i("cluster", 1); n < 1 || n > 8)
    return Fail(kVerifyForm, op, fmt::format("clusters of {} CTAs; 1 … 8", n));
  return true;
}

// A load that all CTAs of a cluster have in common: there must be one.
bool Verifier::CheckShared(const Op& op) {
  const int64_t shared = op.i("shared", 0);
  if (shared < 0 || shared > 1) return Fail(kVerifyForm, op, fmt::format("shared = {}", shared));
  if (shared == 0) return true;
  for (OpId at = fn_.blocks[op.block].parent; at.valid(); at = fn_.blocks[fn_.ops[at].block].parent)
    if (fn_.ops[at].kind == OpKind::kParallel && fn_.ops[at].i("cluster", 1) > 1) return true;
  return Fail(kVerifyForm, op, "shared = 1, but CTAs come alone: clusters of 1");
}

bool Verifier::CheckFor(const Op& op) {
  if (op.i("step") < 1) return Fail(kVerifyForm, op, fmt::format("a step of {}", op.i("step")));
  if (const int64_t n = op.i("narrow"); n != 0 && n != 1)
    return Fail(kVerifyForm, op, fmt::format("narrow = {}; 0 or 1", n));
  return (IsScalar(op, 0, DType::kI64) && IsScalar(op, 1, DType::kI64)) ||
         Fail(kVerifyType, op, "a bound is not an i64");
}

bool Verifier::CheckPrint(const Op& op) {
  for (size_t i = 0; i < op.operands.size(); ++i)
    if (!Operand(op, i).is_tile())
      return Fail(kVerifyType, op, fmt::format("operand {} is {}", i, Show(Operand(op, i))));
  return true;
}

bool Verifier::CheckTypes(const Op& op, const Scope& scope) {
  switch (op.kind) {
    case OpKind::kConstant: return CheckConstant(op);
    case OpKind::kIota: return CheckIota(op);
    case OpKind::kBroadcast: return CheckBroadcastShape(op);
    case OpKind::kReshape: return CheckReshapeShape(op);
    case OpKind::kTranspose: return CheckTransposeShape(op);
    case OpKind::kRearrange: return CheckRearrange(op);
    case OpKind::kReduce:
      return CheckReduceShape(op) && CheckReduceKind(op, Operand(op, 0).dtype) && CheckGuard(op) &&
             (Out(op).dtype == Operand(op, 0).dtype ||
              Fail(kVerifyType, op,
                   fmt::format("{} becomes {}", Show(Operand(op, 0)), Show(Out(op)))));
    case OpKind::kArgReduce: return CheckArgReduceShape(op);
    case OpKind::kScan: return CheckScan(op);
    case OpKind::kDot: return CheckDot(op);
    case OpKind::kLoad: return CheckAccess(op, false, false) && CheckShared(op);
    case OpKind::kStore: return CheckAccess(op, true, false);
    case OpKind::kAtomic: return CheckAccess(op, true, true);
    case OpKind::kParallel: return CheckParallel(op);
    case OpKind::kFor: return CheckFor(op);
    case OpKind::kWhile:
    case OpKind::kYield: return true;  // all is in their regions
    case OpKind::kIf:
      return IsScalar(op, 0, DType::kBool) ||
             Fail(kVerifyType, op,
                  fmt::format("the condition is {}, not bool", Show(Operand(op, 0))));
    case OpKind::kAssert:
      return (Operand(op, 0).is_tile() && IsBool(Operand(op, 0).dtype)) ||
             Fail(kVerifyType, op,
                  fmt::format("the condition is {}, not bool", Show(Operand(op, 0))));
    case OpKind::kPrint: return CheckPrint(op);
    case OpKind::kClusterReduce: return CheckClusterReduce(op);
    case OpKind::kNeg:
    case OpKind::kNot:
    case OpKind::kAbs:
    case OpKind::kFloor:
    case OpKind::kCeil:
    case OpKind::kRound:
    case OpKind::kExp2:
    case OpKind::kExp:
    case OpKind::kLog2:
    case OpKind::kLog:
    case OpKind::kSqrt:
    case OpKind::kSqrtRn:
    case OpKind::kRsqrt:
    case OpKind::kTanh:
    case OpKind::kSigmoid:
    case OpKind::kErf:
    case OpKind::kSin:
    case OpKind::kCos:
    case OpKind::kCast:
    case OpKind::kBitcast:
    case OpKind::kAdd:
    case OpKind::kSub:
    case OpKind::kMul:
    case OpKind::kDiv:
    case OpKind::kDivRn:
    case OpKind::kMod:
    case OpKind::kMin:
    case OpKind::kMax:
    case OpKind::kAnd:
    case OpKind::kOr:
    case OpKind::kXor:
    case OpKind::kShl:
    case OpKind::kShr:
    case OpKind::kCmp:
    case OpKind::kSelect:
    case OpKind::kFma: return CheckElementwise(op);
#define OP(Name, ...) case OpKind::k##Name:
#include "ir/warp_ops.def"
#undef OP
      return CheckWarpTypes(op, scope);
  }
  UNREACHABLE("CheckTypes");
}

}  // namespace tilec::ir::verify_internal
