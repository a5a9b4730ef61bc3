// SPDX-License-Identifier: Apache-2.0
#include "scheduler/last_turn.h"

#include <algorithm>
#include <set>
#include <utility>

#include "ir/queries.h"
#include "ir/uses.h"

namespace tilec::scheduler {
namespace {

using ir::OpId;
using ir::ValueId;

class LastTurnFinder {
 public:
  LastTurnFinder(const ir::Function& fn, OpId loop, const Extraction& extraction)
      : fn_(fn), loop_(fn.ops[loop]), body_(fn.blocks[loop_.regions[0]]) {
    for (size_t g = 0; g < extraction.origins.size(); ++g)
      for (OpId member : extraction.origins[g].members())
        names_[member].insert(extraction.graph.ops[g].name);
  }

  std::map<std::string, int> Run() {
    for (const auto& [id, names] : names_)
      if (fn_.ops[id].results.empty() || !fn_.ops[id].regions.empty()) Found(id, 0);
    const ir::Uses uses(fn_);
    const ir::Op& yield = fn_.ops[body_.ops.back()];
    for (size_t r = 0; r < loop_.results.size(); ++r)
      if (uses.count(loop_.results[r]) > 0) Follow(yield.operands[r], 0);
    for (OpId id : body_.ops) {  // what is printed or asserted
      const ir::Op& op = fn_.ops[id];
      if (names_.count(id) > 0 || !op.results.empty() || id == body_.ops.back()) continue;
      for (ValueId v : op.operands) Follow(v, 0);
    }
    return std::move(found_);
  }

 private:
  void Found(OpId id, int before) {
    for (const std::string& name : names_[id]) {
      const auto [it, fresh] = found_.try_emplace(name, before);
      it->second = std::min(it->second, before);
    }
  }
  // What v was made of, `before` iterations before the last one.
  void Follow(ValueId v, int before) {
    const auto [met, fresh] = seen_.try_emplace(v, before);
    if (!fresh && met->second <= before) return;
    met->second = before;
    for (size_t i = 1; i < body_.args.size(); ++i)
      if (body_.args[i] == v) {
        Follow(fn_.ops[body_.ops.back()].operands[i - 1], before + 1);
        return;
      }
    const OpId id = fn_.values[v].def;
    if (!id.valid() || !ir::AncestorIn(fn_, loop_.regions[0], id).valid()) return;
    if (names_.count(id) > 0) {
      Found(id, before);
      return;
    }
    for (ValueId operand : fn_.ops[id].operands) Follow(operand, before);
  }

  const ir::Function& fn_;
  const ir::Op& loop_;
  const ir::Block& body_;
  std::map<OpId, std::set<std::string>> names_;  // one for each slice
  std::map<ValueId, int> seen_;                  // where, at the latest
  std::map<std::string, int> found_;
};

}  // namespace

std::map<std::string, int> Outliving(const ir::Function& fn, OpId loop,
                                     const Extraction& extraction) {
  return LastTurnFinder(fn, loop, extraction).Run();
}

}  // namespace tilec::scheduler
