// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/tile_expr.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tests/fuzz/storage_only.h"

namespace tilec::fuzz {

namespace {

constexpr size_t kMaxElements = 2304;

}  // namespace

// ---- choices -----------------------------------------------------------------------------------

DType Exprs::AnyNumber() {
  static constexpr DType kCommon[] = {DType::kF32,  DType::kF32, DType::kF32, DType::kF32,
                                      DType::kBF16, DType::kF16, DType::kI32, DType::kI32};
  static constexpr DType kRare[] = {DType::kI8,  DType::kI16, DType::kU8,  DType::kU16,
                                    DType::kU32, DType::kI64, DType::kU64, DType::kF64};
  if (Chance(70)) return kCommon[Below(std::size(kCommon))];
  return kRare[Below(o_.wide ? 8 : 5)];
}

DType Exprs::AnyDType() { return Chance(8) ? DType::kBool : AnyNumber(); }

DType Exprs::StoredDType() {
  if (Chance(10)) return Chance(50) ? DType::kE4M3 : DType::kE5M2;
  return AnyDType();
}

DType Exprs::DotDType() {
  static constexpr DType kTypes[] = {DType::kBF16, DType::kBF16, DType::kF16,  DType::kF16,
                                     DType::kF32,  DType::kI8,   DType::kE4M3, DType::kE5M2,
                                     DType::kU8,   DType::kTF32, DType::kF64,  DType::kI32};
  return kTypes[Below(o_.wide ? 12 : 10)];
}

Shape Exprs::AnyShape() {
  const int n = static_cast<int>(pool_.axes.size());
  const int rank = n >= 2 && Chance(55) ? 2 : Chance(85) ? 1 : 0;
  Shape shape;
  size_t elements = 1;
  while (static_cast<int>(shape.size()) < rank) {
    const auto axis = static_cast<size_t>(Below(n));
    if (std::find(shape.begin(), shape.end(), axis) != shape.end()) continue;
    elements *= static_cast<size_t>(pool_.axes[axis].size);
    if (elements > kMaxElements) break;
    shape.push_back(axis);
  }
  return shape;
}

Shape Exprs::DotShape() {
  const int n = static_cast<int>(pool_.axes.size());
  return {static_cast<size_t>(Below(n)), static_cast<size_t>(Below(n))};
}

std::string Exprs::TypeText(DType d, const Shape& shape) const {
  std::string out = ir::Spelling(d);
  for (size_t i = 0; i < shape.size(); ++i)
    out += (i ? ", " : "[") + pool_.axes[shape[i]].tune + (i + 1 == shape.size() ? "]" : "");
  return out;
}

// ---- magnitudes --------------------------------------------------------------------------------

std::string Exprs::Clamped(const Text& e, DType d, double cap) {
  if (!ir::IsFloat(d) || e.magnitude <= cap) return e.text;
  return fmt::format("max(min({}, {:.1f}), -{:.1f})", e.text, cap, cap);
}

Text Exprs::Limit(Text e, DType d) {
  if (!ir::IsFloat(d) || e.magnitude <= Cap(d)) return e;
  return {Clamped(e, d, 8), 8};
}

Text Exprs::Literal(DType d, double cap) {
  if (d == DType::kBool) return {Chance(50) ? "true" : "false", 0};
  if (!ir::IsFloat(d)) return {std::to_string(Below(ir::IsSigned(d) ? 8 : 15)), 0};
  const double v = (Below(17) - 8) * cap / 8;
  return {fmt::format("({:.3f})", v), std::fabs(v)};
}

// ---- loads and names ---------------------------------------------------------------------------

// ---- expressions -------------------------------------------------------------------------------

Text Exprs::Make(DType d, const Shape& shape, int depth) {
  if (d == DType::kBool) return Bool(shape, depth);
  if (StorageOnly(d)) {
    if (Chance(30) && !shape.empty()) return Load(d, shape);
    const Text e = Make(DType::kF32, shape, depth - 1);
    return {fmt::format("({} as {})", Clamped(e, DType::kF32, 100), ir::Spelling(d)), 100};
  }
  if (depth <= 0 || Chance(10)) return Leaf(d, shape);
  if (shape.size() < 2 && Chance(15)) return Reduced(d, shape, depth);
  if (Chance(12)) return Cast(d, shape, depth);
  if (shape.size() == 2 && Chance(8)) {
    Text e = Make(d, {shape[1], shape[0]}, depth - 1);
    e.text = fmt::format("({}).T", e.text);
    return e;
  }
  if (Chance(12)) {
    const Text c = Part(DType::kBool, shape, depth - 1);
    const Text a = Make(d, shape, depth - 1), b = Part(d, shape, depth - 1);
    return {fmt::format("select({}, {}, {})", c.text, a.text, b.text),
            std::max(a.magnitude, b.magnitude)};
  }
  return Limit(ir::IsFloat(d) ? Float(d, shape, depth) : Integer(d, shape, depth), d);
}

Text Exprs::Cast(DType d, const Shape& shape, int depth) {
  DType from = Chance(10)                    ? (Chance(50) ? DType::kE4M3 : DType::kE5M2)
               : Chance(8) && !shape.empty() ? DType::kTF32
                                             : AnyDType();
  if (from == DType::kTF32 && d != DType::kF32) from = DType::kF32;
  Text e = from == DType::kTF32 ? Load(from, shape) : Make(from, shape, depth - 1);
  if (ir::IsFloat(from)) {
    if (ir::IsFloat(d)) e = {Clamped(e, from, std::min(Cap(d), 1e3)), std::min(e.magnitude, 1e3)};
  } else {
    e.magnitude = from == DType::kBool ? 1 : std::ldexp(1, ir::Info(from).bits);
  }
  e.text = fmt::format("({} as {})", e.text, ir::Spelling(d));
  return Limit(e, d);
}

// A tile with one more dim, reduced along it.
Text Exprs::Reduced(DType d, const Shape& shape, int depth) {
  std::vector<size_t> more;
  for (size_t a = 0; a < pool_.axes.size(); ++a) {
    size_t elements = static_cast<size_t>(pool_.axes[a].size);
    for (size_t s : shape) elements *= static_cast<size_t>(pool_.axes[s].size);
    if (std::find(shape.begin(), shape.end(), a) == shape.end() && elements <= kMaxElements)
      more.push_back(a);
  }
  if (more.empty()) return Leaf(d, shape);
  const size_t axis = more[static_cast<size_t>(Below(static_cast<int>(more.size())))];
  Shape whole = shape;
  const int at = shape.empty() ? 0 : Below(2);
  whole.insert(whole.begin() + at, axis);
  if (d == DType::kBool) {
    const Text e = Make(d, whole, depth - 1);
    return {fmt::format("{}({}, axis = {})", Chance(50) ? "any" : "all", e.text, at), 0};
  }
  if (d == DType::kI32 && Chance(30)) {
    const Text e = Make(AnyNumber(), whole, depth - 1);
    return {fmt::format("{}({}, axis = {})", Chance(50) ? "argmax" : "argmin", e.text, at), 0};
  }
  Text e = Make(d, whole, depth - 1);
  static const char* kKinds[] = {"sum", "sum", "max", "min", "prod"};
  const int kind = Below(ir::IsFloat(d) ? 4 : 5);
  if (kind < 2) {
    e = {Clamped(e, d, d == DType::kF16 ? 10 : 1e3), std::min(e.magnitude, 1e3)};
    if (d == DType::kF16) e.magnitude = std::min(e.magnitude, 10.0);
    e.magnitude *= pool_.axes[axis].size;
  }
  e.text = fmt::format("{}({}, axis = {})", kKinds[kind], e.text, at);
  return Limit(e, d);
}

Text Exprs::Bool(const Shape& shape, int depth) {
  if (depth <= 0 || Chance(10)) return Leaf(DType::kBool, shape);
  switch (Below(8)) {
    case 0:
    case 1: {
      const Text a = Make(DType::kBool, shape, depth - 1);
      const Text b = Part(DType::kBool, shape, depth - 1);
      return {fmt::format("({} {} {})", a.text, Chance(50) ? "and" : "or", b.text), 0};
    }
    case 2: return {fmt::format("(not {})", Make(DType::kBool, shape, depth - 1).text), 0};
    case 3:
      if (shape.size() < 2) return Reduced(DType::kBool, shape, depth);
      [[fallthrough]];
    default: {
      static const char* kOps[] = {"<", "<=", ">", ">=", "==", "!="};
      const DType d = AnyNumber();
      const Text a = Make(d, shape, depth - 1), b = Part(d, shape, depth - 1);
      return {fmt::format("({} {} {})", a.text, kOps[Below(6)], b.text), 0};
    }
  }
}

Text Exprs::Integer(DType d, const Shape& shape, int depth) {
  const Text a = Make(d, shape, depth - 1);
  const int bits = ir::Info(d).bits;
  switch (Below(14)) {
    case 0: return {fmt::format("shl({}, {})", a.text, Below(bits)), 0};
    case 1: return {fmt::format("shr({}, {})", a.text, Below(bits)), 0};
    case 2: return {fmt::format("bit_not({})", a.text), 0};
    case 3: return {ir::IsSigned(d) ? fmt::format("abs({})", a.text) : a.text, 0};
    case 4: return {ir::IsSigned(d) ? fmt::format("(-{})", a.text) : a.text, 0};
    default: break;
  }
  const Text b = Part(d, shape, depth - 1);
  switch (Below(11)) {
    case 0: return {fmt::format("({} / bit_or({}, 1))", a.text, Make(d, shape, 0).text), 0};
    case 1: return {fmt::format("({} % bit_or({}, 1))", a.text, Make(d, shape, 0).text), 0};
    case 2: return {fmt::format("max({}, {})", a.text, b.text), 0};
    case 3: return {fmt::format("min({}, {})", a.text, b.text), 0};
    case 4: {
      static const char* kBits[] = {"bit_and", "bit_or", "bit_xor"};
      return {fmt::format("{}({}, {})", kBits[Below(3)], a.text, b.text), 0};
    }
    case 5:
    case 6: return {fmt::format("({} * {})", a.text, b.text), 0};
    case 7:
    case 8: return {fmt::format("({} - {})", a.text, b.text), 0};
    default: return {fmt::format("({} + {})", a.text, b.text), 0};
  }
}

Text Exprs::Unary(DType d, const Text& x) {
  struct Row {
    const char* format;
    double magnitude;  // of the result; negative: the operand's
    double limit;      // of the operand
    bool approx;       // not of f64
  };
  static constexpr Row kRows[] = {{"(-{})", -1, 1e9, false},
                                  {"abs({})", -1, 1e9, false},
                                  {"floor({})", -1, 1e9, false},
                                  {"ceil({})", -1, 1e9, false},
                                  {"round({})", -1, 1e9, false},
                                  {"sqrt(abs({}))", -1, 1e9, false},
                                  {"sqrt_rn(abs({}) + 1.0)", -1, 1e9, false},
                                  {"exp2({})", 16, 4, true},
                                  {"exp({})", 60, 4, true},
                                  {"log2(abs({}) + 0.5)", 24, 1e9, true},
                                  {"log(abs({}) + 0.5)", 16, 1e9, true},
                                  {"rsqrt(abs({}) + 0.5)", 2, 1e9, true},
                                  {"tanh({})", 1, 1e9, true},
                                  {"sigmoid({})", 1, 1e9, true},
                                  {"erf({})", 1, 1e9, true},
                                  {"sin({})", 1, 100, true},
                                  {"cos({})", 1, 100, true}};
  const Row& row = kRows[Below(d == DType::kF64 || !o_.approx ? 7 : std::size(kRows))];
  const std::string operand = Clamped(x, d, row.limit);
  return {fmt::format(fmt::runtime(row.format), operand),
          row.magnitude < 0 ? x.magnitude + 1 : row.magnitude};
}

// `fn`s of one dtype, shared by all shapes of two dims.
std::string Exprs::Function(DType d) {
  const std::string name = fmt::format("f_{}", ir::Spelling(d));
  if (signature_.functions.find("fn " + name + "(") == std::string::npos)
    signature_.functions += fmt::format(
        "fn {0}(x: {1}[P, Q], y: {1}[P, Q]) -> {1}[P, Q] {{\n"
        "  let low = min(x, y)\n  return max(x, y) * 0.5 + low * 0.25\n}}\n\n",
        name, ir::Spelling(d));
  return name;
}

Text Exprs::Float(DType d, const Shape& shape, int depth) {
  const Text a = Make(d, shape, depth - 1);
  const int roll = Below(20);
  if (roll < 5) return Unary(d, a);
  if (roll == 5 && shape.size() == 2) {
    const Text b = Make(d, shape, depth - 1);
    return {fmt::format("{}({}, {})", Function(d), a.text, b.text),
            std::max(a.magnitude, b.magnitude)};
  }
  if (roll == 6) {
    const Text b = Make(d, shape, depth - 1), c = Make(d, shape, depth - 1);
    return {
        fmt::format("fma({}, {}, {})", Clamped(a, d, 30), Clamped(b, d, 30), Clamped(c, d, 100)),
        std::min(a.magnitude, 30.0) * std::min(b.magnitude, 30.0) + std::min(c.magnitude, 100.0)};
  }
  const Text b = Part(d, shape, depth - 1);
  const std::string x = Clamped(a, d, Cap(d) / 2), y = Clamped(b, d, Cap(d) / 2);
  const double larger = std::max(a.magnitude, b.magnitude);
  switch (roll) {
    case 7: return {fmt::format("({} / (abs({}) + 0.5))", x, y), 2 * a.magnitude};
    case 8:
      return {fmt::format("div_rn({}, abs({}) + 0.5)", x, Make(d, shape, 0).text), 2 * a.magnitude};
    case 9:
    case 10: return {fmt::format("max({}, {})", x, y), larger};
    case 11: return {fmt::format("min({}, {})", x, y), larger};
    case 12:
    case 13:
    case 14:
    case 15:
      return {fmt::format("({} * {})", Clamped(a, d, 30), Clamped(b, d, 30)),
              std::min(a.magnitude, 30.0) * std::min(b.magnitude, 30.0)};
    case 16: return {fmt::format("({} - {})", x, y), a.magnitude + b.magnitude};
    default: return {fmt::format("({} + {})", x, y), a.magnitude + b.magnitude};
  }
}

std::string Exprs::Product(DType in, const Shape& shape, size_t inner) {
  auto operand = [&](size_t row, size_t column) {
    const bool turned = Chance(40);
    const Shape s = turned ? Shape{column, row} : Shape{row, column};
    Text e;
    if (Chance(60) || in == DType::kTF32) {
      e = Load(in, s);
    } else if (StorageOnly(in) || !ir::IsFloat(in)) {
      e = Make(in, s, 1);
    } else {
      const Text x = Make(in, s, 1);
      e = {Clamped(x, in, 2), 2};
    }
    return turned ? fmt::format("({}).T", e.text) : e.text;
  };
  const std::string a = operand(shape[0], inner), b = operand(inner, shape[1]);
  if ((in == DType::kE4M3 || in == DType::kE5M2) && Chance(30))
    return fmt::format("dot({}, {}, promote = 128)", a, b);
  return fmt::format("{} @ {}", a, b);
}

}  // namespace tilec::fuzz
