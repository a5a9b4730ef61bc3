// Random expressions that read: tensors in all ways in which tiles, positions and bounds may be
// written, and the leaves of expressions.
//
// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/tile_expr.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tests/fuzz/storage_only.h"

namespace tilec::fuzz {

// An input of that type; often one that is there already.
std::string Exprs::Tensor(DType d, const std::string& dims) {
  const std::string type =
      fmt::format("{}[{}]{}", ir::Spelling(d), dims, Chance(6) ? " strided(any)" : "");
  const auto known = signature_.inputs.find(type);
  if (known != signature_.inputs.end() && Chance(70)) return known->second;
  const std::string name = fmt::format("X{}", signature_.tensors.size());
  signature_.tensors.push_back(name + ": " + type);
  signature_.inputs[type] = name;
  return name;
}

// Positions of a range, moved by sizes, counters and constants, also to where nothing is.
std::string Exprs::Moved(const Axis& a) {
  std::string index = a.var + ".index";
  for (int terms = 1 + Below(3); terms > 0; --terms) {
    std::string by = std::to_string(Below(Chance(80) ? 9 : 300));
    if (Chance(25)) by = fmt::format("{}{}", a.dim, Chance(50) ? " / 2" : "");
    for (const Named& v : pool_.values)
      if (v.name[0] == 'i' && Chance(40)) by = v.name;
    index += fmt::format(" {} {}", Chance(50) ? "+" : "-", by);
  }
  return index;
}

Text Exprs::Load(DType d, const Shape& shape) {
  const bool turn = shape.size() == 2 && Chance(20);
  std::vector<std::string> dims, index;
  if (pool_.batch && Chance(60)) dims.push_back("B"), index.push_back("b");
  for (const Named& v : pool_.values) {  // a loop's counter
    if (v.name[0] != 'i' || !Chance(40)) continue;
    const std::string dim = fmt::format("E{}", signature_.dims.size());
    signature_.dims.emplace_back(dim, 1 + Below(5));
    dims.push_back(dim), index.push_back(v.name);
    break;
  }
  for (size_t i = 0; i < shape.size(); ++i) {
    const Axis& a = pool_.axes[shape[turn ? 1 - i : i]];
    dims.push_back(a.dim);
    if (a.var != ":" && o_.gathers && Chance(10)) {
      switch (Below(5)) {
        case 0: index.push_back(fmt::format("{}.index - {}", a.var, Below(3))); break;
        case 1: index.push_back(fmt::format("{}[{}]", Tensor(DType::kI32, a.dim), a.var)); break;
        case 2: index.push_back(Moved(a)); break;
        case 3:  // not all of them consecutive
          index.push_back(
              fmt::format("{}.index {} {}", a.var, Chance(50) ? "*" : "/", 1 + Below(3)));
          break;
        default:
          index.push_back(fmt::format("{}.start + 1..{}.start + 1 + {}", a.var, a.var, a.tune));
      }
    } else {
      index.push_back(a.var);
    }
  }
  if (dims.empty()) return Leaf(d, shape);
  std::string out = fmt::format("{}[{}", Tensor(d, fmt::format("{}", fmt::join(dims, ", "))),
                                fmt::join(index, ", "));
  if (d != DType::kBool && !StorageOnly(d) && Chance(10)) out += "; fill = " + Literal(d, 1).text;
  out += turn ? "].T" : "]";
  return {out, 1};
}

Text Exprs::Leaf(DType d, const Shape& shape) {
  std::vector<const Named*> same, other;
  for (const Named& v : pool_.values) {
    if (v.shape != shape || (v.dtype == DType::kBool) != (d == DType::kBool)) continue;
    (v.dtype == d ? same : other).push_back(&v);
  }
  if (!same.empty() && Chance(65)) {
    const Named& v = *same[static_cast<size_t>(Below(static_cast<int>(same.size())))];
    return {v.name, v.magnitude};
  }
  if (d != DType::kBool && !other.empty() && Chance(30)) {
    const Named& v = *other[static_cast<size_t>(Below(static_cast<int>(other.size())))];
    double most = ir::IsFloat(v.dtype) ? v.magnitude : std::ldexp(1, ir::Info(v.dtype).bits);
    if (v.name[0] == 'i') most = 16;
    return Limit({fmt::format("({} as {})", v.name, ir::Spelling(d)), most}, d);
  }
  if (shape.empty()) {
    if (d == DType::kBool) return {Chance(50) ? "(m.start % 3 == 0)" : "(m.end < M)", 0};
    if (Chance(30)) return {fmt::format("(m.len as {})", ir::Spelling(d)), 100};
    // Constants alone would be computed by the front end, which refuses what does not fit.
    const Text x = Literal(d, 1);
    return {fmt::format("{}(m.len as {}{} {})", ir::IsFloat(d) ? "min" : "", ir::Spelling(d),
                        ir::IsFloat(d) ? "," : " +", x.text),
            100};
  }
  const Axis& first = pool_.axes[shape[0]];
  if (shape.size() == 1 && first.var != ":" && Chance(25)) {
    if (d == DType::kBool)
      return {fmt::format("({}.index {} {})", first.var, Chance(50) ? "<" : ">=",
                          Chance(50) ? first.dim : std::to_string(Below(40))),
              0};
    if (d == DType::kI32) return {first.var + ".index", 0};
    return {fmt::format("({}.index as {})", first.var, ir::Spelling(d)), 256};
  }
  return Load(d, shape);
}

// An operand that broadcasts to the shape: a column, a row, a scalar, a literal, or the whole.
Text Exprs::Part(DType d, const Shape& shape, int depth) {
  if (shape.empty() || Chance(50)) return Make(d, shape, depth);
  if (Chance(30) && d != DType::kBool) return Literal(d, 2);
  if (shape.size() == 1 || Chance(15)) return Make(d, {}, std::min(depth, 1));
  const bool column = Chance(50);
  Text e = Make(d, {shape[column ? 0 : 1]}, depth);
  e.text = fmt::format("({})[{}]", e.text, column ? ":, None" : "None, :");
  return e;
}

}  // namespace tilec::fuzz
