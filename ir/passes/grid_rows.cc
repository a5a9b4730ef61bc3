// SPDX-License-Identifier: Apache-2.0
#include "ir/passes/grid_rows.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "ir/lower/operands.h"
#include "ir/passes/rewrite.h"
#include "ir/queries.h"

namespace tilec::ir {
namespace {

using Rows = GridRows;
using GridUses = std::set<std::pair<OpId, size_t>>;

// min(position + step, bound)
bool Ends(const Function& fn, ValueId v, ValueId position, ValueId bound, Rows& rows,
          GridUses& fine) {
  const Op* least = fn.def(v);
  if (!least || least->kind != OpKind::kMin || least->operands[1] != bound) return false;
  const Op* sum = fn.def(least->operands[0]);
  if (!sum || sum->kind != OpKind::kAdd || sum->operands[0] != position) return false;
  const int64_t* by = IntConstantOf(fn, sum->operands[1]);
  if (!by || *by != rows.extent) return false;
  rows.ends.insert(fn.values[v].def);
  rows.ends.insert(fn.values[least->operands[0]].def);
  fine.insert({fn.values[v].def, 0});
  fine.insert({fn.values[least->operands[0]].def, 0});
  return true;
}

bool Narrowable(const Function& fn, OpId grid, Rows& rows) {
  const ValueId position = fn.blocks[fn.ops[grid].regions[0]].args[rows.dim];
  const ValueId bound = fn.ops[grid].operands[2 * rows.dim + 1];
  const std::vector<OpId> ops = OpsInOrder(fn);
  GridUses fine;                      // uses of the position, and of where a tile ends
  std::map<ValueId, size_t> written;  // along which dim, by tensor
  for (OpId id : ops) {
    const Op& op = fn.ops[id];
    if (op.kind == OpKind::kPrint || op.kind == OpKind::kAssert) return false;
    if (op.kind == OpKind::kParallel && id != grid) return false;
    if (op.kind == OpKind::kIota && rows.classes->DimOf(op.results[0]) >= 0) return false;
    const bool store = op.kind == OpKind::kStore || op.kind == OpKind::kAtomic;
    if (op.kind != OpKind::kLoad && !store) continue;
    const ValueId tile = store ? op.operands[1] : op.results[0];
    const int own = rows.classes->DimOf(tile);
    if (store ? own < 0 : !IsReadOnlyLoad(fn, op)) return false;
    size_t operand = store ? 2 : 1;
    int dim = 0;
    const std::string& modes = op.s("modes");
    for (size_t d = 0; d < modes.size(); ++d) {
      const char mode = modes[d];
      if (dim == own && mode == 'r') {
        if (store && written.try_emplace(op.operands[0], d).first->second != d) return false;
        if (op.operands[operand] != position) return false;
        fine.insert({id, operand});
        if (store && !Ends(fn, op.operands[operand + 1], position, bound, rows, fine)) return false;
        if (store) fine.insert({id, operand + 1});
      } else if ((dim == own && mode == 'g' && store) || mode == 'p') {
        return false;  // rows may meet; pairs move together
      }
      operand += OperandsOf(mode, store);
      if (TakesDim(mode)) ++dim;
    }
  }
  for (OpId id : ops)
    for (size_t k = 0; k < fn.ops[id].operands.size(); ++k) {
      const ValueId v = fn.ops[id].operands[k];
      const bool counts = v == position || rows.ends.count(fn.values[v].def) > 0;
      if (counts && fine.count({id, k}) == 0) return false;
    }
  return true;
}

}  // namespace

GridRows RowsOfGrid(const Function& fn, OpId grid, const std::vector<ValueId>& tiles) {
  const std::vector<ValueId>& args = fn.blocks[fn.ops[grid].regions[0]].args;
  for (size_t d = 0; d < args.size(); ++d) {
    Rows rows;
    rows.dim = d;
    rows.classes.emplace(fn, args[d]);
    if (!rows.classes->found() || rows.classes->extent() != fn.ops[grid].ints("steps")[d]) continue;
    rows.extent = rows.classes->extent();
    const bool all = std::all_of(tiles.begin(), tiles.end(),
                                 [&](ValueId tile) { return rows.classes->DimOf(tile) >= 0; });
    if (all && Narrowable(fn, grid, rows)) return rows;
  }
  return {};
}

void NarrowRows(Function& fn, OpId grid, const GridRows& rows, int64_t to) {
  for (int32_t i = 0; i < fn.values.size(); ++i)
    if (const int dim = rows.classes->DimOf(ValueId(i)); dim >= 0)
      fn.values[ValueId(i)].type.shape[static_cast<size_t>(dim)] = to;
  for (OpId id : OpsInOrder(fn)) {
    Op& op = fn.ops[id];
    const bool store = op.kind == OpKind::kStore || op.kind == OpKind::kAtomic;
    if (op.kind != OpKind::kLoad && !store) continue;
    const int own = rows.classes->DimOf(store ? op.operands[1] : op.results[0]);
    std::vector<int64_t> sizes = op.ints("sizes");
    int dim = 0;
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (op.s("modes")[d] == 's') continue;
      if (dim++ == own) sizes[d] = to;
    }
    op.set("sizes", std::move(sizes));
  }
  for (OpId id : rows.ends) {  // tiles end earlier
    if (fn.ops[id].kind != OpKind::kAdd) continue;
    RebuildBlock(fn, fn.ops[id].block, [&](OpId at, std::vector<OpId>& out) {
      if (at == id) {
        Builder b(fn, fn.ops[id].block);
        b.SetSpan(fn.ops[id].at);
        const ValueId by = b.Int(to);
        out.push_back(fn.values[by].def);
        fn.ops[id].operands[1] = by;
      }
      out.push_back(at);
    });
  }
  std::vector<int64_t> steps = fn.ops[grid].ints("steps");
  steps[rows.dim] = to;
  fn.ops[grid].set("steps", std::move(steps));
}

}  // namespace tilec::ir
