// SPDX-License-Identifier: Apache-2.0
#include "ir/passes/sink_loads.h"

#include <algorithm>
#include <set>
#include <vector>

#include "ir/passes/rewrite.h"
#include "ir/uses.h"

namespace tilec::ir {
namespace {

struct LoadSinker {
  Function& fn;
  std::set<ValueId> of_loads;  // tiles that loads of read-only tensors make, or ops of such tiles

  bool Goes(const Op& op) {
    if (op.results.size() != 1 || !op.regions.empty() || !fn.type(op.results[0]).is_tile())
      return false;
    const bool load = IsReadOnlyLoad(fn, op);
    const bool made = Info(op.kind).effect == OpEffect::kPure && op.kind != OpKind::kDot &&
                      std::any_of(op.operands.begin(), op.operands.end(),
                                  [&](ValueId v) { return of_loads.count(v) > 0; });
    if (load || made) of_loads.insert(op.results[0]);
    return load || made;
  }

  // The op of the block that the other one is, or stands in; invalid: neither.
  OpId In(BlockId block, OpId op) const {
    while (op.valid() && fn.ops[op].block != block) op = fn.blocks[fn.ops[op].block].parent;
    return op;
  }

  // The deepest block that all readers stand in, through loops alone.
  BlockId Place(OpId op, const std::vector<OpId>& readers) const {
    BlockId place = fn.ops[op].block;
    while (true) {
      const OpId around = In(place, readers[0]);
      const bool one = IsLoop(fn.ops[around].kind) && fn.ops[around].regions.size() == 1 &&
                       std::all_of(readers.begin(), readers.end(), [&](OpId reader) {
                         return reader != around && In(place, reader) == around;
                       });
      if (!one) return place;
      place = fn.ops[around].regions[0];
    }
  }

  // Last ops first, so that what reads a tile has gone before the tile does.
  int Run() {
    std::vector<OpId> going;
    for (OpId id : OpsInOrder(fn))
      if (Goes(fn.ops[id])) going.push_back(id);
    const Uses uses(fn);
    int changes = 0;
    for (auto id = going.rbegin(); id != going.rend(); ++id) {
      std::vector<OpId> readers;
      for (const Uses::Use& use : uses.of(fn.ops[*id].results[0])) readers.push_back(use.reader);
      if (readers.empty()) continue;
      const BlockId from = fn.ops[*id].block, to = Place(*id, readers);
      if (from == to) continue;
      std::vector<OpId>& left = fn.blocks[from].ops;
      left.erase(std::find(left.begin(), left.end(), *id));
      std::vector<OpId>& ops = fn.blocks[to].ops;
      const auto first = std::find_if(ops.begin(), ops.end(), [&](OpId op) {
        return std::any_of(readers.begin(), readers.end(),
                           [&](OpId reader) { return In(to, reader) == op; });
      });
      ops.insert(first, *id);
      fn.ops[*id].block = to;
      ++changes;
    }
    return changes;
  }
};

}  // namespace

int SinkLoads(Function& fn) { return LoadSinker{fn, {}}.Run(); }

}  // namespace tilec::ir
