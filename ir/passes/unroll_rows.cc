// SPDX-License-Identifier: Apache-2.0
#include "ir/passes/unroll_rows.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ir/passes/rewrite.h"
#include "ir/queries.h"

namespace tilec::ir {
namespace {

class Unroller {
 public:
  Unroller(Function& fn, BlockId block, const RowLoops& loops, bool registers)
      : fn_(fn), block_(block), loops_(loops), registers_(registers) {}

  void Run() {
    Forwarding forward(fn_);
    Leaders leaders;
    RebuildBlock(fn_, block_, [&](OpId id, std::vector<OpId>& out) {
      ReplaceOperands(fn_, id, forward);
      const auto at = std::find(loops_.ids.begin(), loops_.ids.end(), id);
      if (at == loops_.ids.end()) {
        out.push_back(id);
        return;
      }
      const auto i = static_cast<size_t>(at - loops_.ids.begin());
      Builder b(fn_, block_);
      b.SetSpan(fn_.ops[id].at);
      for (int64_t turn = 0; turn < loops_.turns; ++turn)
        for (size_t k = 0; k < loops_.kept.size(); ++k)
          if (const auto [of, load] = *loops_.kept[k].in.begin();
              loops_.kept[k].early ? i == 0 : of == i)
            leaders[{k, turn}] = Lead(b, of, load, turn, out);
      Turns(b, i, leaders, forward, out);
    });
  }

 private:
  using Leaders = std::map<std::pair<size_t, int64_t>, ValueId>;  // by kept tile and iteration

  ValueId Added(ValueId v, std::vector<OpId>& out) {
    out.push_back(fn_.values[v].def);
    return v;
  }

  ValueId Position(Builder& b, int64_t turn, std::vector<OpId>& out) {
    const ValueId by = Added(b.Int(loops_.lo + turn * loops_.step), out);
    return loops_.base.valid() ? Added(b.Binary(OpKind::kAdd, loops_.base, by), out) : by;
  }

  // The first load of a kept tile.
  ValueId Lead(Builder& b, size_t i, OpId id, int64_t turn, std::vector<OpId>& out) {
    const Op load = fn_.ops[id];
    b.SetSpan(load.at);
    std::vector<ValueId> operands = load.operands;
    std::string modes = load.s("modes");
    const ValueId position = Position(b, turn, out);
    for (ValueId& v : operands)
      if (loops_.IsPosition(fn_, i, v)) v = position;
    if (load.i("has_fill"))
      if (const Op* fill = fn_.def(operands.back()); fill && fill->kind == OpKind::kConstant)
        operands.back() =
            Added(b.Value(OpKind::kConstant, {}, fn_.type(operands.back()), fill->attrs), out);
    for (size_t d = 0; !registers_ && d < modes.size(); ++d) {
      if (modes[d] != 'g') continue;
      const Type index = Type::Scalar(fn_.type(operands[1 + d]).dtype);
      const ValueId row = Added(b.Value(OpKind::kReshape, {operands[1 + d]}, index), out);
      operands[1 + d] = Added(b.Cast(row, DType::kI64), out);
      modes[d] = 'r';
    }
    Attrs attrs = load.attrs;
    const ValueId tile =
        Added(b.Value(OpKind::kLoad, std::move(operands), fn_.type(load.results[0]), attrs), out);
    Op& made = fn_.ops[fn_.values[tile].def];
    made.set("modes", modes);
    if (!registers_) made.set("kept", int64_t{0});
    return tile;
  }

  void Turns(Builder& b, size_t i, const Leaders& leaders, Forwarding& forward,
             std::vector<OpId>& out) {
    const BlockId body = loops_.body(fn_, i);
    const std::vector<ValueId> args = fn_.blocks[body].args,
                               results = fn_.ops[loops_.ids[i]].results;
    const std::vector<OpId> ops = fn_.blocks[body].ops;
    std::vector<ValueId> carried(fn_.ops[loops_.ids[i]].operands.begin() + 2,
                                 fn_.ops[loops_.ids[i]].operands.end());
    for (int64_t turn = 0; turn < loops_.turns; ++turn) {
      ValueMap map;
      b.SetSpan(fn_.ops[loops_.ids[i]].at);
      map[args[0]] = Position(b, turn, out);
      for (size_t c = 0; c < carried.size(); ++c) map[args[1 + c]] = carried[c];
      for (OpId id : ops) {
        if (fn_.ops[id].kind == OpKind::kYield) {
          for (size_t c = 0; c < carried.size(); ++c) carried[c] = At(map, fn_.ops[id].operands[c]);
          continue;
        }
        if (const ValueId leader = LeaderOf(i, id, turn, leaders); leader.valid()) {
          map[fn_.ops[id].results[0]] = Again(b, i, id, leader, out);
          continue;
        }
        out.push_back(CloneOp(b, fn_, id, map));
      }
    }
    for (size_t c = 0; c < results.size(); ++c) forward.Replace(results[c], carried[c]);
  }
  ValueId LeaderOf(size_t i, OpId load, int64_t turn, const Leaders& leaders) const {
    for (size_t k = 0; k < loops_.kept.size(); ++k)
      if (const auto in = loops_.kept[k].in.find(i); in != loops_.kept[k].in.end())
        if (in->second == load) return leaders.at({k, turn});
    return {};
  }
  // What a loop reads of a kept tile.
  ValueId Again(Builder& b, size_t i, OpId id, ValueId leader, std::vector<OpId>& out) {
    int64_t time = 0;
    for (const KeptLoad& k : loops_.kept)
      if (const auto in = k.in.find(i); in != k.in.end() && in->second == id)
        time = std::distance(k.in.begin(), in);
    if (registers_ || time == 0) return leader;
    const Op first = *fn_.def(leader);
    b.SetSpan(fn_.ops[id].at);
    const ValueId tile =
        Added(b.Value(OpKind::kLoad, first.operands, fn_.type(leader), first.attrs), out);
    fn_.ops[fn_.values[tile].def].set("kept", time);
    return tile;
  }

  Function& fn_;
  const BlockId block_;
  const RowLoops& loops_;
  const bool registers_;
};

}  // namespace

void UnrollRows(Function& fn, BlockId block, const RowLoops& loops, bool registers) {
  Unroller(fn, block, loops, registers).Run();
}

}  // namespace tilec::ir
