// SPDX-License-Identifier: Apache-2.0
#include "ir/warp_check/cluster.h"

#include <algorithm>
#include <map>
#include <set>

#include "ir/matrix_unit.h"
#include "ir/warp_check/unfolder.h"

namespace tilec::ir::warp_check {

bool IsPushed(const Function& fn, const Op& op) {
  return op.kind == OpKind::kWarpClusterReduce && op.i("all", 0) != 0 &&
         fn.type(op.operands[2]).depth == 1;
}

OneCta AsOneCta(const Function& fn, Unfold how) { return Unfolder(fn, how).Run(); }

bool SharesCopies(const Function& fn) {
  return std::any_of(fn.ops.begin(), fn.ops.end(), [](const Op& op) {
    return (op.kind == OpKind::kTmaLoad && op.attr("share") != nullptr) || op.i("pair") ||
           op.i("leader");
  });
}

bool Exchanges(const Function& fn) {
  return std::any_of(fn.ops.begin(), fn.ops.end(),
                     [](const Op& op) { return op.kind == OpKind::kWarpClusterReduce; });
}

namespace {

// The role that an op stands in; none: an invalid id.
OpId RoleOf(const Function& fn, OpId id) {
  while (id.valid() && fn.ops[id].kind != OpKind::kRole) id = fn.blocks[fn.ops[id].block].parent;
  return id;
}

}  // namespace

std::optional<OpId> MeetsExchange(const Function& fn) {
  std::map<ValueId, OpId> barriers;
  for (OpId id : OpsInOrder(fn)) {
    const Op& op = fn.ops[id];
    if (op.kind != OpKind::kWarpClusterReduce) continue;
    if (!barriers.try_emplace(op.operands[2], id).second) return id;  // of one phase
  }
  for (OpId id : OpsInOrder(fn)) {
    const Op& op = fn.ops[id];
    if (op.kind == OpKind::kWarpClusterReduce || op.kind == OpKind::kMbarInit) continue;
    for (ValueId v : op.operands)
      if (barriers.count(v) > 0) return id;
  }
  return std::nullopt;
}

std::optional<OpId> WritesExchanged(const Function& fn) {
  const auto bytes = [&](ValueId smem) {
    const Type& type = fn.type(smem);
    const int64_t first = fn.def(smem)->i("offset");
    return std::pair(first, first + SmemBytes(type.smem, type.dtype) * type.depth);
  };
  std::map<OpId, std::pair<int64_t, int64_t>> kept;  // by role
  const std::vector<OpId> order = OpsInOrder(fn);
  for (OpId id : order) {
    const Op& op = fn.ops[id];
    const auto role = kept.find(RoleOf(fn, id));
    const auto meets = [&](int64_t first, int64_t end) {
      return role != kept.end() && first < role->second.second && role->second.first < end;
    };
    for (ValueId v : op.operands)
      if (fn.type(v).kind == TypeKind::kSmem && meets(bytes(v).first, bytes(v).second)) return id;
    if (op.i("scratch", -1) >= 0 && meets(op.i("scratch"), op.i("scratch") + 1)) return id;
    if (op.kind == OpKind::kWarpClusterReduce && op.i("slices", 0) > 0 &&
        fn.type(op.operands[2]).depth == 1)
      kept[RoleOf(fn, id)] = bytes(op.operands[1]);
  }
  return std::nullopt;
}

std::optional<OpId> MeetsPushed(const Function& fn) {
  struct Bytes {
    int64_t begin = 0, end = 0;
    OpId alloc, op;
  };
  std::vector<Bytes> pushed;
  for (OpId id : OpsInOrder(fn)) {
    const Op& op = fn.ops[id];
    if (!IsPushed(fn, op)) continue;
    const OpId alloc = fn.values[op.operands[1]].def;
    const Type& type = fn.type(op.operands[1]);
    const int64_t begin = fn.ops[alloc].i("offset");
    pushed.push_back({begin, begin + type.depth * SmemBytes(type.smem, type.dtype), alloc, id});
  }
  for (OpId id : pushed.empty() ? std::vector<OpId>() : OpsInOrder(fn)) {
    const Op& op = fn.ops[id];
    for (const Bytes& bytes : pushed) {
      if (id == bytes.op || id == bytes.alloc) continue;
      // What a scratch area takes lies behind it.
      if (op.attr("scratch") && op.i("scratch") >= 0 && op.i("scratch") < bytes.end) return id;
      if (op.kind == OpKind::kSmemAlloc || op.kind == OpKind::kMbarAlloc) {
        const Type& type = fn.type(op.results[0]);
        const int64_t size = op.kind == OpKind::kMbarAlloc
                                 ? 8 * type.depth
                                 : type.depth * SmemBytes(type.smem, type.dtype);
        if (op.i("offset") < bytes.end && op.i("offset") + size > bytes.begin) return id;
      }
      for (ValueId v : op.operands)
        if (v == fn.ops[bytes.alloc].results[0]) return id;
    }
  }
  return std::nullopt;
}

std::optional<OpId> MixesPairs(const Function& fn) {
  std::optional<OpId> first;
  for (OpId id : OpsInOrder(fn)) {
    const Op& op = fn.ops[id];
    const bool says = op.kind == OpKind::kTmemAlloc || op.kind == OpKind::kTmemFree ||
                      op.kind == OpKind::kTcMma || op.kind == OpKind::kTcCommit;
    if (!says) continue;
    if (!first) first = id;
    if (op.i("pair") != fn.ops[*first].i("pair")) return id;
  }
  return std::nullopt;
}

std::optional<OpId> LacksScope(const Function& fn) {
  std::set<ValueId> told;  // barriers at which other CTAs arrive
  for (OpId id : OpsInOrder(fn)) {
    const Op& op = fn.ops[id];
    if (op.kind == OpKind::kTcCommit && op.i("pair")) told.insert(op.operands[0]);
    if (op.kind == OpKind::kTmaLoad && op.i("pair")) told.insert(op.operands[1]);
    if (op.kind == OpKind::kMbarArrive && op.i("leader")) told.insert(op.operands[0]);
  }
  for (OpId id : OpsInOrder(fn)) {
    const Op& op = fn.ops[id];
    if (op.kind == OpKind::kMbarWait && !op.i("cluster") && told.count(op.operands[0]) > 0)
      return id;
  }
  return std::nullopt;
}

std::optional<OpId> LacksMeeting(const Function& fn) {
  bool meets = false;
  OpId role;
  for (OpId id : fn.blocks[fn.body].ops) {
    const OpKind kind = fn.ops[id].kind;
    if (kind == OpKind::kClusterSync) meets = true;
    // Products of a pair write columns of both, so both have them before, and keep them until both
    // have read what is theirs.
    if (kind == OpKind::kTmemAlloc && fn.ops[id].i("pair")) meets = false;
    if (kind == OpKind::kTmemFree && fn.ops[id].i("pair") && !meets) return id;
    if (kind != OpKind::kRole) continue;
    if (!role.valid() && !meets) return id;
    role = id;
    meets = false;
  }
  if (!meets) return OpId();
  return std::nullopt;
}

}  // namespace tilec::ir::warp_check
