// Arithmetic on compile-time scalars. Integers are i64 with floor division as everywhere in the
// language; literals without a type take the type of what they meet.
//
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "frontend/internal.h"

namespace tilec::frontend {

using ir::DType;
using lang::BinaryOp;

std::string ToText(const ConstValue& value) {
  if (const bool* b = std::get_if<bool>(&value)) return *b ? "true" : "false";
  if (const int64_t* i = std::get_if<int64_t>(&value)) return std::to_string(*i);
  const double d = std::get<double>(value);
  if (std::isnan(d)) return "nan";
  if (std::isinf(d)) return d < 0 ? "-inf" : "inf";
  std::string s = fmt::format("{}", d);
  if (s.find_first_of(".e") == std::string::npos) s += ".0";
  return s;
}

std::string Describe(const Constant& c) {
  if (c.dtype) return Spelling(*c.dtype);
  if (c.is_bool()) return "bool";
  if (c.is_int()) return c.integer_only ? "an integer" : "the integer " + ToText(c.value);
  return "the number " + ToText(c.value);
}

std::string WriteCast(const std::string& text, DType to) {
  // `as` binds tighter than every binary operator: parentheses unless spaces stand in brackets
  // only.
  int depth = 0;
  bool simple = true;
  for (char c : text) {
    depth += c == '(' || c == '[' ? 1 : c == ')' || c == ']' ? -1 : 0;
    simple &= depth > 0 || c != ' ';
  }
  return simple ? fmt::format("write `{} as {}`", text, Spelling(to))
                : fmt::format("write `({}) as {}`", text, Spelling(to));
}

std::string CountArguments(size_t n) { return fmt::format("{} argument{}", n, n == 1 ? "" : "s"); }

Constant Loosened(Constant c) {
  if (c.is_int() && c.dtype && (*c.dtype == DType::kI32 || *c.dtype == DType::kI64)) {
    c.dtype.reset();
    c.integer_only = true;
  }
  return c;
}

std::optional<Constant> LeastLiteral(const lang::Ast& ast, const lang::UnaryExpr& x) {
  const auto* literal = ast.expr(x.operand).As<lang::IntExpr>();
  if (x.op != lang::UnaryOp::kNeg || !literal || literal->value != uint64_t{1} << 63)
    return std::nullopt;
  return Constant{INT64_MIN};
}

bool FitsInteger(int64_t v, DType d) {
  const ir::DTypeInfo& info = Info(d);
  if (info.cls == ir::DTypeClass::kSigned) {
    if (info.bits == 64) return true;
    const int64_t limit = int64_t{1} << (info.bits - 1);
    return v >= -limit && v < limit;
  }
  if (v < 0) return false;
  return info.bits == 64 || v < (int64_t{1} << info.bits);
}

double RoundTo(double v, DType d) {
  return d == DType::kF32 ? static_cast<double>(static_cast<float>(v)) : v;
}

namespace {

std::string TextOf(const Constant& c) {
  return c.is_large() ? std::to_string(static_cast<uint64_t>(c.as_int())) : ToText(c.value);
}

// Arithmetic of u64 constants: what leaves their range is refused, as elsewhere.
Result<Constant> FoldLarge(BinaryOp op, const Constant& a, const Constant& b, Span at,
                           DiagSink& diags) {
  const auto x = static_cast<uint64_t>(a.as_int()), y = static_cast<uint64_t>(b.as_int());
  uint64_t v = 0;
  bool overflow = false;
  if (op == BinaryOp::kAdd) overflow = __builtin_add_overflow(x, y, &v);
  if (op == BinaryOp::kSub) overflow = __builtin_sub_overflow(x, y, &v);
  if (op == BinaryOp::kMul) overflow = __builtin_mul_overflow(x, y, &v);
  if (op == BinaryOp::kDiv) v = x / y;
  if (op == BinaryOp::kMod) v = x % y;
  if (overflow) return diags.Report(kIntegerOverflow, at, x, Spelling(op), y);
  return Constant{static_cast<int64_t>(v), DType::kU64};
}

}  // namespace

Result<Constant> Adapt(const Constant& a, DType to, Span at, DiagSink& diags) {
  if (a.dtype) {
    if (*a.dtype == to) return a;
    if (a.is_large() && ir::IsInteger(to))
      return diags.Report(kLiteralRange, at, TextOf(a), Spelling(to));
    return diags.Report(kMixedDTypes, at, "=", Spelling(to), Spelling(*a.dtype))
        .Help(fmt::format("write `as {}`", Spelling(to)));
  }
  if (a.is_bool() != (to == DType::kBool))
    return diags.Report(kLiteralKind, at, ToText(a.value), Spelling(to));
  if (a.is_bool()) return Constant{a.value, to};
  if (ir::IsFloat(to)) {
    if (a.integer_only)
      return diags.Report(kMixedDTypes, at, "=", Spelling(to), "an integer")
          .Help(fmt::format("write `as {}`", Spelling(to)));
    return Constant{RoundTo(a.as_double(), to), to};
  }
  if (a.is_float())
    return diags.Report(kLiteralKind, at, ToText(a.value), Spelling(to)).Help("write an integer");
  if (!FitsInteger(a.as_int(), to))
    return diags.Report(kLiteralRange, at, ToText(a.value), Spelling(to));
  return Constant{a.value, to};
}

Result<Constant> FoldCast(const Constant& a, DType to, Span at, DiagSink& diags) {
  if (to == DType::kBool) {
    if (a.is_bool()) return Constant{a.value, to};
    return diags.Report(kCastKind, at, Describe(a), "bool").Help("compare with zero: `x != 0`");
  }
  if (ir::IsFloat(to)) return Constant{RoundTo(a.as_double(), to), to};
  int64_t v = 0;
  if (a.is_float()) {
    const double d = std::trunc(a.as_double());
    if (std::isnan(d) || d < -9.2e18 || d > 9.2e18)
      return diags.Report(kLiteralRange, at, ToText(a.value), Spelling(to));
    v = static_cast<int64_t>(d);
  } else {
    v = a.is_bool() ? (a.as_bool() ? 1 : 0) : a.as_int();
  }
  if (a.is_large() && to == DType::kU64) return a;
  if (a.is_large()) return diags.Report(kLiteralRange, at, TextOf(a), Spelling(to));
  if (!FitsInteger(v, to)) return diags.Report(kLiteralRange, at, v, Spelling(to));
  return Constant{v, to};
}

Result<Constant> FoldUnary(lang::UnaryOp op, const Constant& a, Span at, DiagSink& diags) {
  if (op == lang::UnaryOp::kNot) {
    if (!a.is_bool())
      return diags.Report(kOperandDType, at, "not", Describe(a)).Help("compare first: `x != 0`");
    return Constant{!a.as_bool(), a.dtype};
  }
  if (a.is_bool()) return diags.Report(kOperandDType, at, "-", "bool");
  Constant r = a;
  if (a.is_float()) {
    r.value = -a.as_double();
  } else {
    int64_t v = 0;
    if (a.is_large()) return diags.Report(kIntegerOverflow, at, 0, "-", TextOf(a));
    if (__builtin_sub_overflow(int64_t{0}, a.as_int(), &v))
      return diags.Report(kIntegerOverflow, at, 0, "-", a.as_int());
    r.value = v;
    if (a.dtype && !FitsInteger(v, *a.dtype))
      return diags.Report(kLiteralRange, at, v, Spelling(*a.dtype));
  }
  return r;
}

bool IsCompare(BinaryOp op) {
  return op == BinaryOp::kEq || op == BinaryOp::kNe || op == BinaryOp::kLt || op == BinaryOp::kLe ||
         op == BinaryOp::kGt || op == BinaryOp::kGe;
}

namespace {

template <typename T>
bool Compare(BinaryOp op, T a, T b) {
  switch (op) {
    case BinaryOp::kEq: return a == b;
    case BinaryOp::kNe: return a != b;
    case BinaryOp::kLt: return a < b;
    case BinaryOp::kLe: return a <= b;
    case BinaryOp::kGt: return a > b;
    case BinaryOp::kGe: return a >= b;
    case BinaryOp::kOr:
    case BinaryOp::kAnd:
    case BinaryOp::kIn:
    case BinaryOp::kAdd:
    case BinaryOp::kSub:
    case BinaryOp::kMul:
    case BinaryOp::kDiv:
    case BinaryOp::kMod:
    case BinaryOp::kMatMul: break;
  }
  return false;
}

}  // namespace

Result<Constant> FoldBinary(BinaryOp op, const Constant& a_in, const Constant& b_in, Span at,
                            Span b_at, DiagSink& diags) {
  const char* name = Spelling(op);
  Constant a = a_in, b = b_in;
  if (op == BinaryOp::kAnd || op == BinaryOp::kOr) {
    if (!a.is_bool() || !b.is_bool())
      return diags.Report(kOperandDType, at, name, Describe(a.is_bool() ? b : a))
          .Help("`and` and `or` join bools");
    return Constant{op == BinaryOp::kAnd ? a.as_bool() && b.as_bool() : a.as_bool() || b.as_bool(),
                    std::nullopt};
  }
  if (op == BinaryOp::kIn) return diags.Report(kFactForm, at, "`in` needs a set");
  if (op == BinaryOp::kMatMul)
    return diags.Report(kDotRank, at, "the left operand", "a number").Help("write `*`");
  if (a.dtype && !b.dtype) {
    TRY(b, Adapt(b, *a.dtype, b_at, diags));
  } else if (b.dtype && !a.dtype) {
    TRY(a, Adapt(a, *b.dtype, at, diags));
  }
  const bool mixed_kind = (a.integer_only && b.is_float()) || (b.integer_only && a.is_float());
  if ((a.dtype && b.dtype && *a.dtype != *b.dtype) || mixed_kind)
    return diags.Report(kMixedDTypes, at, name, Describe(a), Describe(b))
        .Help(fmt::format("convert one side: `as {}`", a.dtype   ? Spelling(*a.dtype)
                                                       : b.dtype ? Spelling(*b.dtype)
                                                                 : "f32"));
  if (a.is_bool() || b.is_bool()) {
    if (a.is_bool() && b.is_bool() && (op == BinaryOp::kEq || op == BinaryOp::kNe))
      return Constant{Compare(op, a.as_bool(), b.as_bool()), std::nullopt};
    return diags.Report(kOperandDType, at, name, "bool");
  }
  Constant r;
  r.dtype = a.dtype;
  r.integer_only = a.integer_only || b.integer_only;
  if (a.is_float() || b.is_float()) {
    const double x = a.as_double(), y = b.as_double();
    if (IsCompare(op)) return Constant{Compare(op, x, y), std::nullopt};
    double v = 0;
    if (op == BinaryOp::kAdd) v = x + y;
    if (op == BinaryOp::kSub) v = x - y;
    if (op == BinaryOp::kMul) v = x * y;
    if (op == BinaryOp::kDiv) v = x / y;
    if (op == BinaryOp::kMod)
      return diags.Report(kOperandDType, at, "%", "floating point")
          .Help("write `x - floor(x / y) * y`");
    r.value = r.dtype ? RoundTo(v, *r.dtype) : v;
    return r;
  }
  const int64_t x = a.as_int(), y = b.as_int();
  const bool large = r.dtype == DType::kU64;
  if (IsCompare(op))
    return Constant{
        large ? Compare(op, static_cast<uint64_t>(x), static_cast<uint64_t>(y)) : Compare(op, x, y),
        std::nullopt};
  if ((op == BinaryOp::kDiv || op == BinaryOp::kMod) && y == 0)
    return diags.Report(kDivisionByZero, at).Label(b_at, "this is 0");
  if (large) return FoldLarge(op, a, b, at, diags);
  int64_t v = 0;
  bool overflow = false;
  if (op == BinaryOp::kAdd) overflow = __builtin_add_overflow(x, y, &v);
  if (op == BinaryOp::kSub) overflow = __builtin_sub_overflow(x, y, &v);
  if (op == BinaryOp::kMul) overflow = __builtin_mul_overflow(x, y, &v);
  if (op == BinaryOp::kDiv || op == BinaryOp::kMod) {
    overflow = x == INT64_MIN && y == -1;
    if (!overflow) v = op == BinaryOp::kDiv ? FloorDiv(x, y) : FloorMod(x, y);
  }
  if (overflow) return diags.Report(kIntegerOverflow, at, x, name, y);
  if (r.dtype && !FitsInteger(v, *r.dtype))
    return diags.Report(kLiteralRange, at, v, Spelling(*r.dtype));
  r.value = v;
  return r;
}

std::optional<Constant> FoldCall(std::string_view name, const std::vector<Constant>& args) {
  if (args.empty()) return std::nullopt;
  for (const Constant& c : args)
    if (c.is_bool()) return std::nullopt;
  std::optional<DType> dtype;
  bool integer_only = false, all_int = true, any_float = false;
  for (const Constant& c : args) {
    if (c.is_large() || (c.dtype && dtype && *c.dtype != *dtype)) return std::nullopt;
    if (c.dtype) dtype = c.dtype;
    integer_only |= c.integer_only;
    all_int &= c.is_int();
    any_float |= c.is_float();
  }
  if (integer_only && any_float) return std::nullopt;
  if ((name == "min" || name == "max") && args.size() >= 2) {
    Constant best = args[0];
    for (const Constant& c : args)
      if (name == "min" ? c.as_double() < best.as_double() : c.as_double() > best.as_double())
        best = c;
    if (!all_int) best.value = best.as_double();
    best.dtype = dtype;
    best.integer_only = integer_only;
    return best;
  }
  if (name == "cdiv" && args.size() == 2 && all_int && args[1].as_int() > 0)
    return Constant{FloorDiv(args[0].as_int(), args[1].as_int()) +
                        (FloorMod(args[0].as_int(), args[1].as_int()) != 0),
                    dtype, integer_only};
  if (args.size() != 1) return std::nullopt;
  if (name == "abs" && all_int && args[0].as_int() != INT64_MIN)
    return Constant{std::abs(args[0].as_int()), dtype, integer_only};
  if (integer_only || (dtype && !ir::IsFloat(*dtype))) return std::nullopt;
  const double x = args[0].as_double();
  auto result = [&](double v) { return Constant{dtype ? RoundTo(v, *dtype) : v, dtype}; };
  if (name == "abs") return result(std::fabs(x));
  if (name == "exp2") return result(std::exp2(x));
  if (name == "exp") return result(std::exp(x));
  if (name == "log2") return result(std::log2(x));
  if (name == "log") return result(std::log(x));
  if (name == "sqrt" || name == "sqrt_rn") return result(std::sqrt(x));
  if (name == "rsqrt") return result(1 / std::sqrt(x));
  if (name == "tanh") return result(std::tanh(x));
  if (name == "sigmoid") return result(1 / (1 + std::exp(-x)));
  if (name == "erf") return result(std::erf(x));
  if (name == "sin") return result(std::sin(x));
  if (name == "cos") return result(std::cos(x));
  if (name == "floor") return result(std::floor(x));
  if (name == "ceil") return result(std::ceil(x));
  if (name == "round") return result(std::nearbyint(x));
  return std::nullopt;
}

}  // namespace tilec::frontend
