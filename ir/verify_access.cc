// The verifier's rules for tensors in memory: what loads, stores and atomics of tiles are given,
// and what they may do (ops.def).
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ir/queries.h"
#include "ir/verify_internal.h"

namespace tilec::ir::verify_internal {

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

}  // namespace tilec::ir::verify_internal
