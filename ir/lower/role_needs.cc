// SPDX-License-Identifier: Apache-2.0
#include "ir/lower/role_needs.h"

#include <algorithm>

namespace tilec::ir {
namespace {

class Needed {
 public:
  Needed(const Function& fn, int role) : fn_(fn), role_(role) {}

  bool Run() {
    Walk(fn_.body);
    return sound_;
  }
  RoleNeeds Take() { return std::move(needs_); }

 private:
  bool Root(const Op& op) const {
    if (op.kind == OpKind::kFor) return false;  // its marks are those of tokens
    if (op.attr("role") != nullptr) return op.i("role") == role_;
    return role_ == 0 && Info(op.kind).effect == OpEffect::kWrite;
  }
  void Walk(BlockId block) {
    for (OpId id : fn_.blocks[block].ops) {
      if (Root(fn_.ops[id])) NeedOp(id);
      for (BlockId region : fn_.ops[id].regions) Walk(region);
    }
  }

  void NeedOp(OpId id) {
    if (!needs_.ops.insert(id).second) return;
    const Op& op = fn_.ops[id];
    if (op.attr("role") != nullptr && op.i("role") != role_) sound_ = false;
    if (op.block.valid() && fn_.blocks[op.block].parent.valid())
      NeedStructure(fn_.blocks[op.block].parent);
    if (TakesTile(op)) return;  // it comes through shared memory
    for (ValueId v : op.operands) Need(v);
  }

  void NeedStructure(OpId id) {
    if (!needs_.ops.insert(id).second) return;
    const Op& op = fn_.ops[id];
    if (op.block.valid() && fn_.blocks[op.block].parent.valid())
      NeedStructure(fn_.blocks[op.block].parent);
    switch (op.kind) {
      case OpKind::kFor:
        Need(op.operands[0]);
        Need(op.operands[1]);
        break;
      case OpKind::kIf: Need(op.operands[0]); break;
      case OpKind::kParallel:
        for (ValueId v : op.operands) Need(v);
        break;
      case OpKind::kWhile:  // steers itself: all of it
        for (ValueId v : op.results) Need(v);
        Need(Yield(op, 0).operands[0]);
        break;
      default: break;
    }
  }

  const Op& Yield(const Op& op, size_t region) const {
    return fn_.ops[fn_.blocks[op.regions[region]].ops.back()];
  }

  void Need(ValueId v) {
    if (!needs_.values.insert(v).second) return;
    const Value& value = fn_.values[v];
    if (value.block.valid()) {
      const OpId parent = fn_.blocks[value.block].parent;
      NeedStructure(parent);
      const std::vector<ValueId>& args = fn_.blocks[value.block].args;
      const size_t i = static_cast<size_t>(std::find(args.begin(), args.end(), v) - args.begin());
      const Op& op = fn_.ops[parent];
      if (op.kind == OpKind::kFor && i > 0) Carried(op, i - 1);
      if (op.kind == OpKind::kWhile) Carried(op, i);
      return;
    }
    if (!value.def.valid()) return;  // a parameter
    const Op& op = fn_.ops[value.def];
    if (op.regions.empty()) return NeedOp(value.def);
    NeedStructure(value.def);
    const size_t i = static_cast<size_t>(std::find(op.results.begin(), op.results.end(), v) -
                                         op.results.begin());
    if (IsLoop(op.kind)) return Carried(op, i);
    for (size_t region = 0; region < op.regions.size(); ++region)
      Need(Yield(op, region).operands[i]);
  }

  void Carried(const Op& op, size_t i) {
    Need(op.results[i]);
    if (op.kind == OpKind::kFor) {
      Need(op.operands[2 + i]);
      Need(fn_.blocks[op.regions[0]].args[1 + i]);
      Need(Yield(op, 0).operands[i]);
      return;
    }
    Need(op.operands[i]);
    Need(fn_.blocks[op.regions[0]].args[i]);
    Need(fn_.blocks[op.regions[1]].args[i]);
    Need(Yield(op, 0).operands[1 + i]);
    Need(Yield(op, 1).operands[i]);
  }

  const Function& fn_;
  int role_;
  bool sound_ = true;
  RoleNeeds needs_;
};

int LargestRole(const Function& fn, BlockId block) {
  int64_t most = 0;
  for (OpId id : fn.blocks[block].ops) {
    most = std::max(most, fn.ops[id].i("role"));
    for (BlockId region : fn.ops[id].regions)
      most = std::max<int64_t>(most, LargestRole(fn, region));
  }
  return static_cast<int>(most);
}

}  // namespace

int ComputeRolesOf(const Function& fn) { return 1 + LargestRole(fn, fn.body); }

std::optional<std::vector<RoleNeeds>> NeedsOfRoles(const Function& fn, int roles) {
  std::vector<RoleNeeds> needs;
  for (int r = 0; r < roles; ++r) {
    Needed closure(fn, r);
    if (!closure.Run()) return std::nullopt;
    needs.push_back(closure.Take());
  }
  return needs;
}

}  // namespace tilec::ir
