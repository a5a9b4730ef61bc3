// The verifier's rules for the rows of ops.def: what types and attributes each op admits.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "ir/queries.h"
#include "ir/verify_internal.h"

namespace tilec::ir::verify_internal {
namespace {

bool OneOf(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}
bool IsBool(DType d) { return d == DType::kBool; }
bool IsNumeric(DType d) { return !IsBool(d); }
bool IsFp8(DType d) { return d == DType::kE4M3 || d == DType::kE5M2; }

std::vector<int64_t> WithoutOnes(const std::vector<int64_t>& shape) {
  std::vector<int64_t> out;
  for (int64_t d : shape)
    if (d != 1) out.push_back(d);
  return out;
}

}  // namespace

bool Verifier::CheckElementwise(const Op& op) {
  const Type& out = Out(op);
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const Type& t = Operand(op, i);
    if (!t.is_tile())
      return Fail(kVerifyType, op, fmt::format("operand {} is {}, not a tile", i, Show(t)));
    if (t.shape != out.shape)
      return Fail(kVerifyType, op,
                  fmt::format("operand {} is {}, the result {}; shapes must be equal", i, Show(t),
                              Show(out)));
    if (t.layout != out.layout)
      return Fail(kVerifyLayout, op,
                  fmt::format("operand {} is {}, the result {}; layouts must be equal", i, Show(t),
                              Show(out)));
  }
  const DType a = Operand(op, 0).dtype;
  auto need = [&](bool ok, const char* what) {
    return ok || Fail(kVerifyType, op, fmt::format("{}; its type is {}", what, Spelling(a)));
  };
  auto same = [&] {
    for (size_t i = 1; i < op.operands.size(); ++i)
      if (Operand(op, i).dtype != a)
        return Fail(kVerifyType, op,
                    fmt::format("operands are {} and {}; they must be equal", Spelling(a),
                                Spelling(Operand(op, i).dtype)));
    return true;
  };
  auto result_is = [&](DType d) {
    return out.dtype == d ||
           Fail(kVerifyType, op,
                fmt::format("the result is {}, not {}", Spelling(out.dtype), Spelling(d)));
  };
  switch (op.kind) {
    case OpKind::kNeg:
    case OpKind::kAbs: return need(IsNumeric(a), "it takes numbers") && result_is(a);
    case OpKind::kNot: return need(!IsFloat(a), "it takes bool or integers") && result_is(a);
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
    case OpKind::kCos: return need(IsFloat(a), "it takes floats") && result_is(a);
    case OpKind::kCast: return true;
    case OpKind::kBitcast:
      return (Info(a).bits == Info(out.dtype).bits && IsNumeric(a) && IsNumeric(out.dtype)) ||
             Fail(kVerifyType, op,
                  fmt::format("{} and {} differ in size, or are bool", Spelling(a),
                              Spelling(out.dtype)));
    case OpKind::kAdd:
    case OpKind::kSub:
    case OpKind::kMul:
    case OpKind::kDiv:
    case OpKind::kMin:
    case OpKind::kMax: return need(IsNumeric(a), "it takes numbers") && same() && result_is(a);
    case OpKind::kDivRn: return need(IsFloat(a), "it takes floats") && same() && result_is(a);
    case OpKind::kMod: return need(IsInteger(a), "it takes integers") && same() && result_is(a);
    case OpKind::kAnd:
    case OpKind::kOr:
    case OpKind::kXor:
      return need(!IsFloat(a), "it takes bool or integers") && same() && result_is(a);
    case OpKind::kShl:
    case OpKind::kShr: return need(IsInteger(a), "it takes integers") && same() && result_is(a);
    case OpKind::kCmp: {
      const std::string& pred = op.s("pred");
      if (!OneOf(pred, {"eq", "ne", "lt", "le", "gt", "ge"}))
        return Fail(kVerifyForm, op,
                    fmt::format("pred is \"{}\"; it is eq ne lt le gt or ge", pred));
      if (IsBool(a) && !OneOf(pred, {"eq", "ne"}))
        return Fail(kVerifyType, op, fmt::format("bool has no order for \"{}\"", pred));
      return same() && result_is(DType::kBool);
    }
    case OpKind::kSelect:
      if (!IsBool(a)) return need(false, "the condition is a bool tile");
      if (Operand(op, 1).dtype != Operand(op, 2).dtype)
        return Fail(kVerifyType, op,
                    fmt::format("it chooses between {} and {}", Show(Operand(op, 1)),
                                Show(Operand(op, 2))));
      return result_is(Operand(op, 1).dtype);
    case OpKind::kFma: return need(IsFloat(a), "it takes floats") && same() && result_is(a);
    case OpKind::kConstant:  // not elementwise: CheckTypes sends them elsewhere
    case OpKind::kIota:
    case OpKind::kBroadcast:
    case OpKind::kReshape:
    case OpKind::kTranspose:
    case OpKind::kRearrange:
    case OpKind::kReduce:
    case OpKind::kArgReduce:
    case OpKind::kScan:
    case OpKind::kDot:
    case OpKind::kLoad:
    case OpKind::kStore:
    case OpKind::kAtomic:
    case OpKind::kParallel:
    case OpKind::kFor:
    case OpKind::kWhile:
    case OpKind::kIf:
    case OpKind::kYield:
    case OpKind::kClusterReduce:
    case OpKind::kAssert:
    case OpKind::kPrint:
#define OP(Name, ...) case OpKind::k##Name:
#include "ir/warp_ops.def"
#undef OP
      break;
  }
  UNREACHABLE("CheckElementwise: no rule for an elementwise row");
}

bool Verifier::CheckConstant(const Op& op) {
  const Type& out = Out(op);
  if (!out.is_tile()) return Fail(kVerifyType, op, "the result is not a tile");
  const AttrValue& value = *op.attr("value");
  if (!IsFloat(out.dtype)) {
    const int64_t* n = std::get_if<int64_t>(&value);
    if (!n)
      return Fail(kVerifyForm, op, fmt::format("the value of {} is not an integer", Show(out)));
    const int bits = Info(out.dtype).bits;
    const int64_t low = IsSigned(out.dtype) && bits < 64 ? -(int64_t{1} << (bits - 1)) : 0;
    const int64_t high = IsBool(out.dtype) ? 1
                         : IsSigned(out.dtype)
                             ? (int64_t{1} << (bits - 2)) - 1 + (int64_t{1} << (bits - 2))
                             : (bits < 64 ? (int64_t{1} << bits) - 1 : 0);
    if (bits < 64 && (*n < low || *n > high))
      return Fail(kVerifyForm, op, fmt::format("{} does not fit {}", *n, Spelling(out.dtype)));
  }
  return true;
}

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

bool Verifier::CheckTensorOperand(const Op& op, bool writes) {
  const Type& t = Operand(op, 0);
  if (!t.is_tensor())
    return Fail(kVerifyType, op, fmt::format("operand 0 is {}, not a tensor", Show(t)));
  const Param* p = fn_.param(op.operands[0]);
  if (!p || p->kind != ParamKind::kTensor)
    return Fail(kVerifyType, op, "operand 0 is no tensor parameter");
  if (writes && p->direction == Direction::kIn)
    return Fail(kVerifyType, op, fmt::format("`{}` is read-only", p->name));
  return true;
}

bool Verifier::CheckAtomicKind(const Op& op, DType d) {
  const std::string& kind = op.s("kind");
  if (!OneOf(kind, {"add", "min", "max", "and", "or", "xor"}))
    return Fail(kVerifyForm, op,
                fmt::format("kind is \"{}\"; it is add min max and or or xor", kind));
  const bool bitwise = OneOf(kind, {"and", "or", "xor"});
  if (bitwise ? !IsInteger(d) : !IsNumeric(d))
    return Fail(kVerifyType, op, fmt::format("\"{}\" on {}", kind, Spelling(d)));
  return true;
}

// What cp.reduce.async.bulk.tensor defines for the elements of a map.
bool Verifier::CheckCombines(const Op& op, DType d) {
  const bool half = d == DType::kF16 || d == DType::kBF16;
  const bool word = d == DType::kI32 || d == DType::kU32;
  const bool wide = d == DType::kI64 || d == DType::kU64;
  const std::string& kind = op.s("kind");
  bool defined = word || (wide && !(kind == "add" && d == DType::kI64));
  if (kind == "add") defined = defined || half || d == DType::kF32;
  if (kind == "min" || kind == "max") defined = defined || half;
  return defined || Fail(kVerifyType, op,
                         fmt::format("the copy engine has no \"{}\" of {}", kind, Spelling(d)));
}

bool Verifier::CheckAccess(const Op& op, bool stores, bool atomic) {
  if (!CheckTensorOperand(op, stores)) return false;
  const Type& tensor = Operand(op, 0);
  const std::string& modes = op.s("modes");
  const std::vector<int64_t>& sizes = op.ints("sizes");
  if (static_cast<int64_t>(modes.size()) != tensor.rank() || sizes.size() != modes.size())
    return Fail(kVerifyForm, op,
                fmt::format("modes \"{}\" and {} sizes for a tensor of rank {}", modes,
                            sizes.size(), tensor.rank()));
  const int64_t has_fill = op.i("has_fill");
  if (has_fill != 0 && has_fill != 1)
    return Fail(kVerifyForm, op, fmt::format("has_fill = {}", has_fill));
  size_t next = stores ? 2 : 1;
  auto take = [&](const char* what, DType d) {
    if (next >= op.operands.size())
      return Fail(kVerifyForm, op, fmt::format("the {} is missing", what));
    if (!IsScalar(op, next, d))
      return Fail(kVerifyType, op,
                  fmt::format("operand {} ({}) is {}, not {}", next, what, Show(Operand(op, next)),
                              Spelling(d)));
    ++next;
    return true;
  };
  std::vector<int64_t> shape;
  int64_t gathered = 0;  // positions of the last g
  int64_t folded = 1;    // positions of what is folded into the next range
  for (size_t d = 0; d < modes.size(); ++d) {
    if (modes[d] == 's') {
      if (!take("position", DType::kI64)) return false;
      continue;
    }
    if (!IsRange(modes[d]) && !IsGathered(modes[d]))
      return Fail(kVerifyForm, op, fmt::format("mode `{}`; it is r, f, s, g or p", modes[d]));
    if (sizes[d] < 1) return Fail(kVerifyForm, op, fmt::format("size {} of dim {}", sizes[d], d));
    if (modes[d] == 'g') gathered = sizes[d];
    if (modes[d] == 'p' && sizes[d] != gathered)
      return Fail(kVerifyForm, op,
                  fmt::format("{} positions of dim {}, paired with {}", sizes[d], d, gathered));
    if (TakesDim(modes[d])) shape.push_back(sizes[d] * folded);
    if (IsRange(modes[d])) {
      folded = modes[d] == 'f' ? folded * sizes[d] : 1;
      if (!take("start of a range", DType::kI64)) return false;
      if (stores && !take("end of a range", DType::kI64)) return false;
      continue;
    }
    if (next >= op.operands.size())
      return Fail(kVerifyForm, op, "the gather positions are missing");
    const Type& t = Operand(op, next);
    if (!t.is_tile() || t.dtype != DType::kI32 || t.shape != std::vector<int64_t>{sizes[d]})
      return Fail(kVerifyType, op, fmt::format("positions are {}, not i32[{}]", Show(t), sizes[d]));
    ++next;
  }
  if (modes.find('f') != std::string::npos && !FoldsIntoRows(modes))
    return Fail(kVerifyForm, op, fmt::format("`{}` folds into no range of rows", modes));
  if (has_fill && !take("fill", tensor.dtype)) return false;
  if (next != op.operands.size())
    return Fail(kVerifyForm, op,
                fmt::format("{} operands, of which {} have a meaning", op.operands.size(), next));
  const Type& tile = stores ? Operand(op, 1) : Out(op);
  if (!tile.is_tile() || tile.dtype != tensor.dtype || tile.shape != shape)
    return Fail(kVerifyType, op,
                fmt::format("the tile is {}, the access {}", Show(tile),
                            Show(Type::Tile(tensor.dtype, shape))));
  return !atomic || (CheckAtomicKind(op, tensor.dtype) && CheckFetched(op));
}

bool Verifier::CheckFetched(const Op& op) {
  if (op.results.empty()) return true;
  if (op.results.size() > 1) return Fail(kVerifyForm, op, "it has one result at most");
  if (Out(op) != Operand(op, 1))
    return Fail(kVerifyType, op,
                fmt::format("it finds {}, and combines {}", Show(Out(op)), Show(Operand(op, 1))));
  const bool order = OneOf(op.s("kind"), {"min", "max"});
  return !(order && IsFloat(Out(op).dtype)) ||
         Fail(kVerifyType, op, "what min and max of floats find is not defined");
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
      return CheckReduceShape(op) && CheckReduceKind(op, Operand(op, 0).dtype) &&
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
