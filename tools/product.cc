// SPDX-License-Identifier: Apache-2.0
#include "tools/product.h"

#include <algorithm>

namespace tilec::tools {

namespace {

using ir::Function;
using ir::Op;
using ir::OpKind;
using ir::ValueId;

struct Operand {
  const ir::Param* tensor = nullptr;
  ValueId rows, columns;  // positions
  bool turned = false;
};

// A whole 2-D load, transposed or not.
std::optional<Operand> OperandOf(const Function& fn, ValueId v) {
  Operand out;
  const Op* op = fn.def(v);
  if (op && op->kind == OpKind::kTranspose) {
    out.turned = true;
    op = fn.def(op->operands[0]);
  }
  if (!op || op->kind != OpKind::kLoad || op->s("modes") != "rr") return std::nullopt;
  out.tensor = fn.param(op->operands[0]);
  out.rows = op->operands[out.turned ? 2 : 1];
  out.columns = op->operands[out.turned ? 1 : 2];
  return out;
}

// Ops a product may have beside loads, dots and stores: they compute sizes or change the type.
bool Harmless(const Function& fn, const Op& op) {
  if (op.kind == OpKind::kConstant || op.kind == OpKind::kTranspose || op.kind == OpKind::kCast ||
      op.kind == OpKind::kYield)
    return true;
  return std::all_of(op.results.begin(), op.results.end(),
                     [&](ValueId v) { return fn.type(v).is_scalar(); }) &&
         !op.results.empty();
}

bool IsZero(const Function& fn, ValueId v) {
  const Op* op = fn.def(v);
  return op && op->kind == OpKind::kConstant && op->number("value") == 0;
}

}  // namespace

std::optional<Product> FindProduct(const Function& fn) {
  const Op *grid = nullptr, *loop = nullptr, *dot = nullptr, *store = nullptr;
  int others = 0;
  const auto only = [&](const Op*& slot, const Op& op) { others += slot != nullptr, slot = &op; };
  for (const Op& op : fn.ops) {
    if (!op.block.valid()) continue;
    if (op.kind == OpKind::kParallel)
      only(grid, op);
    else if (op.kind == OpKind::kFor)
      only(loop, op);
    else if (op.kind == OpKind::kDot)
      only(dot, op);
    else if (op.kind == OpKind::kStore)
      only(store, op);
    else if (op.kind != OpKind::kLoad && !Harmless(fn, op))
      ++others;
  }
  if (!grid || !loop || !dot || !store || others > 0 || fn.params.size() < 3) return std::nullopt;
  const auto a = OperandOf(fn, dot->operands[0]), b = OperandOf(fn, dot->operands[1]);
  if (!a || !b || !a->tensor || !b->tensor || loop->results.size() != 1) return std::nullopt;
  const ValueId k = fn.blocks[loop->regions[0]].args[0];
  const Op& yield = fn.ops[fn.blocks[loop->regions[0]].ops.back()];
  const ValueId carried = fn.blocks[loop->regions[0]].args[1];
  if (a->columns != k || b->rows != k || dot->operands[2] != carried ||
      yield.operands[0] != dot->results[0] || !IsZero(fn, loop->operands[2]))
    return std::nullopt;
  ValueId stored = store->operands[1];
  if (const Op* cast = fn.def(stored); cast && cast->kind == OpKind::kCast)
    stored = cast->operands[0];
  if (stored != loop->results[0] || store->s("modes") != "rr" || store->operands[2] != a->rows ||
      store->operands[4] != b->columns)
    return std::nullopt;
  Product out;
  out.a = a->tensor->name;
  out.b = b->tensor->name;
  out.c = fn.param(store->operands[0])->name;
  out.a_turned = a->turned;
  out.b_turned = b->turned;
  out.in = fn.type(dot->operands[0]).dtype;
  out.out = fn.type(store->operands[1]).dtype;
  if (fn.type(dot->operands[1]).dtype != out.in) return std::nullopt;
  return out;
}

}  // namespace tilec::tools
