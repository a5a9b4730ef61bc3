// The ops that decide where an execution goes: control, and the scalars that its bounds and
// conditions are computed from. Most mutants touch none of them, so that what was followed for one
// holds for the next.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <variant>

#include "tests/warp_check/unrolled.h"

namespace tilec::ir {
namespace {

class Finder {
 public:
  explicit Finder(const Function& fn)
      : fn_(fn),
        wanted_(static_cast<size_t>(fn.values.size())),
        steers_(static_cast<size_t>(fn.ops.size())) {}

  Steering Run() {
    const std::vector<OpId> ops = OpsInOrder(fn_);
    for (OpId id : ops) {
      const Op& op = fn_.ops[id];
      if (op.regions.empty() && op.kind != OpKind::kYield) continue;
      steers_[At(id)] = true;
      for (ValueId v : op.operands) Want(v);
    }
    while (!open_.empty()) {
      const OpId id = open_.back();
      open_.pop_back();
      for (ValueId v : fn_.ops[id].operands) Want(v);
      if (fn_.ops[id].kind == OpKind::kCounterRead) WantCounts(fn_.ops[id].operands[0], ops);
    }
    Steering out;
    out.ops.resize(static_cast<size_t>(fn_.blocks.size()));
    Add(&out.key, fn_.launch.cluster);
    for (const auto& [read, root] : HandedOf(fn_))
      Add(&out.key, read.index), Add(&out.key, root.index);
    for (OpId id : ops) {
      if (!steers_[At(id)]) continue;
      const Op& op = fn_.ops[id];
      if (op.kind != OpKind::kYield) out.ops[static_cast<size_t>(op.block.index)].push_back(id);
      Describe(op, &out.key);
    }
    return out;
  }

 private:
  static size_t At(OpId id) { return static_cast<size_t>(id.index); }

  void Want(ValueId v) {
    if (!v.valid() || !fn_.type(v).is_scalar() || wanted_[static_cast<size_t>(v.index)]) return;
    wanted_[static_cast<size_t>(v.index)] = true;
    const OpId def = fn_.values[v].def;
    if (!def.valid() || !fn_.ops[def].regions.empty() || fn_.ops[def].results.size() != 1) return;
    steers_[At(def)] = true;
    open_.push_back(def);
  }
  void WantCounts(ValueId counter, const std::vector<OpId>& ops) {
    for (OpId id : ops) {
      const Op& op = fn_.ops[id];
      if ((op.kind == OpKind::kCounter && op.results[0] == counter) ||
          (op.kind == OpKind::kCounterAdd && op.operands[0] == counter))
        steers_[At(id)] = true;
    }
  }

  // All that an execution of the op depends on, as bytes: numbers behind their count.
  static void Add(std::string* key, int64_t number) {
    char bytes[sizeof number];
    std::memcpy(bytes, &number, sizeof number);
    key->append(bytes, sizeof number);
  }
  template <typename Ids>
  static void AddIds(std::string* key, const Ids& ids) {
    Add(key, static_cast<int64_t>(ids.size()));
    for (const auto id : ids) Add(key, id.index);
  }
  void Describe(const Op& op, std::string* key) const {
    Add(key, static_cast<int64_t>(op.kind));
    Add(key, op.block.index);
    AddIds(key, op.operands);
    AddIds(key, op.results);
    AddIds(key, op.regions);
    for (ValueId v : op.results) Add(key, static_cast<int64_t>(fn_.type(v).dtype));
    if (const Param* of = op.operands.empty() ? nullptr : fn_.param(op.operands[0]))
      Add(key, static_cast<int64_t>(of->direction));
    for (BlockId region : op.regions) AddIds(key, fn_.blocks[region].args);
    for (const auto& [name, value] : op.attrs) {
      *key += name;
      if (const auto* text = std::get_if<std::string>(&value)) *key += *text + '\n';
      if (const auto* whole = std::get_if<int64_t>(&value)) Add(key, *whole);
      if (const auto* real = std::get_if<double>(&value)) {
        int64_t bits = 0;
        std::memcpy(&bits, real, sizeof bits);
        Add(key, bits);
      }
      if (const auto* list = std::get_if<std::vector<int64_t>>(&value))
        for (int64_t one : *list) Add(key, one);
    }
  }

  const Function& fn_;
  std::vector<bool> wanted_, steers_;  // values; ops
  std::vector<OpId> open_;
};

}  // namespace

Steering SteeringOf(const Function& fn) { return Finder(fn).Run(); }

std::map<ValueId, ValueId> HandedOf(const Function& fn) {
  const auto defined = [&](ValueId v, OpKind kind) {
    const Op* def = fn.def(v);
    return def && def->kind == kind ? def : nullptr;
  };
  std::map<ValueId, ValueId> out;
  std::map<ValueId, ValueId> written;  // by buffer
  for (const Op& op : fn.ops) {
    if (op.kind != OpKind::kSmemStore) continue;
    const Op* one = defined(op.operands[0], OpKind::kWarpReshape);
    if (!one || !fn.type(one->operands[0]).is_scalar()) continue;
    ValueId root = one->operands[0];
    for (const Op* cast = defined(root, OpKind::kCast); cast; cast = defined(root, OpKind::kCast))
      root = cast->operands[0];
    written[op.operands[1]] = root;
  }
  for (const Op& op : fn.ops) {
    if (op.kind != OpKind::kWarpReshape || !fn.type(op.results[0]).is_scalar()) continue;
    const Op* read = defined(op.operands[0], OpKind::kSmemLoad);
    const auto from = read ? written.find(read->operands[0]) : written.end();
    if (from == written.end()) continue;
    out[op.results[0]] = out[from->second] = from->second;
  }
  const auto roles = std::count_if(fn.ops.begin(), fn.ops.end(),
                                   [](const Op& op) { return op.kind == OpKind::kRole; });
  if (roles > 1) return out;
  for (const Op& op : fn.ops) {  // nobody has to agree with the only role there is
    const bool tiles = std::any_of(op.operands.begin(), op.operands.end(), [&](ValueId v) {
      return fn.type(v).is_tile() && !fn.type(v).is_scalar();
    });
    if (tiles && op.results.size() == 1 && fn.type(op.results[0]).is_scalar())
      out.try_emplace(op.results[0], op.results[0]);
  }
  return out;
}

}  // namespace tilec::ir
