// What a product contracts: positions of one range with those of another are most often a
// forgotten `.T`, which square tiles do not show.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontend/lower.h"

namespace tilec::frontend {

using ir::OpKind;
using ir::ValueId;

// Where the last two dims of a loaded tile begin, through casts and transposes; "" where that is
// fixed, gathered, or not known.
std::array<std::string, 2> Lowerer::PlacesOf(ValueId tile) {
  std::array<std::string, 2> places;
  bool turned = false;
  for (;;) {
    const ir::OpId def = fn_.values[tile].def;
    if (!def.valid()) return {};
    const ir::Op& op = fn_.ops[def];
    if (op.kind == OpKind::kTranspose) turned = !turned;
    if (op.kind == OpKind::kTranspose || op.kind == OpKind::kCast || op.kind == OpKind::kNeg) {
      tile = op.operands[0];
      continue;
    }
    if (op.kind != OpKind::kLoad) return {};
    const std::string& modes = op.s("modes");
    size_t dim = 2;
    for (size_t d = modes.size(); d-- > 0 && dim > 0;) {
      if (modes[d] == 's') continue;
      if (modes[d] != 'r') return {};
      const Expr start = SymbolOf(Value(op.operands[d + 1], op.at));
      places[--dim] = start.op == Expr::Op::kConst ? "" : ToText(start);
    }
    if (dim > 0) return {};
    if (turned) std::swap(places[0], places[1]);
    return places;
  }
}

void Lowerer::WarnOfContraction(const Val& a, const Val& b, Span at) {
  const auto [a_rows, a_columns] = PlacesOf(a.v);
  const auto [b_rows, b_columns] = PlacesOf(b.v);
  if (a_columns.empty() || b_rows.empty() || a_columns == b_rows) return;
  const bool right = a_columns == b_columns;
  if (!right && a_rows != b_rows) return;
  Report(kContracted, at, program_.TextOf(a.at), program_.TextOf(b.at))
      .Help(fmt::format("write `{}`", Transposed(program_.TextOf((right ? b : a).at))));
}

}  // namespace tilec::frontend
