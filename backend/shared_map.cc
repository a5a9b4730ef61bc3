// What the roles and the places in shared memory of a warp program are called, for reports: the
// emulator says "slot 2 of 7 of A" instead of a number of bytes.
//
// SPDX-License-Identifier: Apache-2.0
#include "backend/shared_map.h"

#include <algorithm>
#include <map>
#include <set>

#include "support/check.h"

namespace tilec::backend {

namespace {

using ir::OpKind;
using Names = std::map<ir::ValueId, std::set<std::string>>;

std::string Joined(const std::set<std::string>& names) {
  std::string out;
  for (const std::string& n : names) out += (out.empty() ? "" : ", ") + n;
  return out;
}

// The tensors that are copied through each buffer and counted by each mbarrier; `freed` is for the
// mbarriers that a loading role waits for first.
struct Traffic {
  Names loaded, stored, freed;
};

// Copies by threads: counted by the barrier of the first cp_arrive behind them.
void CopiesOf(const ir::Function& fn, const std::vector<ir::OpId>& ops, Traffic* t) {
  std::set<std::string> copied;
  std::vector<ir::ValueId> awaited;
  for (ir::OpId id : ops) {
    const ir::Op& op = fn.ops[id];
    if (op.kind == OpKind::kMbarWait) awaited.push_back(op.operands[0]);
    if (op.kind == OpKind::kCpLoad) {
      for (const ir::Param& p : fn.params)
        if (p.value == op.operands[0]) copied.insert(p.name);
      t->loaded[op.operands[1]].insert(copied.begin(), copied.end());
    }
    if (op.kind != OpKind::kCpArrive) continue;
    t->loaded[op.operands[0]].insert(copied.begin(), copied.end());
    for (ir::ValueId mbar : awaited) t->freed[mbar].insert(copied.begin(), copied.end());
    copied.clear();
    awaited.clear();
  }
}

Traffic TrafficOf(const ir::Function& fn) {
  Traffic t;
  for (int32_t b = 0; b < fn.blocks.size(); ++b) CopiesOf(fn, fn.blocks[ir::BlockId(b)].ops, &t);
  for (const ir::Op& op : fn.ops) {
    const bool load = op.kind == OpKind::kTmaLoad;
    if (!load && op.kind != OpKind::kTmaStore) continue;
    const auto map = static_cast<size_t>(op.i("map"));
    if (map >= fn.launch.maps.size()) continue;
    const ir::ValueId tensor = fn.launch.maps[map].tensor;
    std::string name;
    for (const ir::Param& p : fn.params)
      if (p.value == tensor) name = p.name;
    (load ? t.loaded : t.stored)[op.operands[0]].insert(name);
    if (!load) continue;
    t.loaded[op.operands[1]].insert(name);
    const ir::OpId elect = fn.blocks[op.block].parent;
    if (!elect.valid()) continue;
    for (ir::OpId id : fn.blocks[fn.ops[elect].block].ops) {
      if (id == elect) break;
      if (fn.ops[id].kind == OpKind::kMbarWait) t.freed[fn.ops[id].operands[0]].insert(name);
    }
  }
  return t;
}

}  // namespace

void DescribeProgram(const ir::Function& fn, KernelImage* image) {
  const Traffic traffic = TrafficOf(fn);
  auto names = [](const Names& all, ir::ValueId v) {
    const auto at = all.find(v);
    return at == all.end() ? std::string() : Joined(at->second);
  };
  for (const ir::Op& op : fn.ops) {
    if (op.kind == OpKind::kRole) {
      image->roles.push_back(
          {op.s("name"), static_cast<int>(op.i("first_warp")), static_cast<int>(op.i("warps"))});
    } else if (op.kind == OpKind::kSmemAlloc) {
      const ir::Type& type = fn.type(op.results[0]);
      std::string name = names(traffic.loaded, op.results[0]);
      if (name.empty()) name = names(traffic.stored, op.results[0]);
      if (name.empty()) name = "a buffer of " + ir::ToText(ir::Type::Tile(type.dtype, type.shape));
      image->shared.push_back({std::move(name), op.i("offset"),
                               ir::SmemBytes(type.smem, type.dtype), static_cast<int>(type.depth)});
    } else if (op.kind == OpKind::kMbarAlloc) {
      const std::string filled = names(traffic.loaded, op.results[0]);
      const std::string freed = names(traffic.freed, op.results[0]);
      const std::string name = !filled.empty()  ? "the full barriers of " + filled
                               : !freed.empty() ? "the empty barriers of " + freed
                                                : "mbarriers";
      image->shared.push_back(
          {name, op.i("offset"), 8, static_cast<int>(fn.type(op.results[0]).depth)});
    }
  }
  std::stable_sort(
      image->shared.begin(), image->shared.end(),
      [](const SharedObject& a, const SharedObject& b) { return a.offset < b.offset; });
}

}  // namespace tilec::backend
