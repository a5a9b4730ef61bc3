// Barriers and buffers of a warp program, and which bytes a transfer is of.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/warp_check/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "ir/matrix_unit.h"
#include "ir/text.h"

namespace tilec::ir::warp_check {

namespace {

bool IsCopy(const Op& op) {
  return op.kind == OpKind::kTmaLoad || op.kind == OpKind::kTmaStore || op.kind == OpKind::kCpLoad;
}
bool IsCopyIn(const Op& op) { return op.kind == OpKind::kTmaLoad || op.kind == OpKind::kCpLoad; }
ValueId BufferOf(const Op& op) { return op.operands[op.kind == OpKind::kCpLoad ? 1 : 0]; }

// The barrier that counts a copy: its operand, or that of the first cp_arrive behind it.
ValueId BarrierOf(const Function& fn, OpId id) {
  const Op& op = fn.ops[id];
  if (op.kind == OpKind::kTmaLoad) return op.operands[1];
  bool behind = false;
  for (OpId next : fn.blocks[op.block].ops) {
    behind = behind || next == id;
    if (behind && fn.ops[next].kind == OpKind::kCpArrive) return fn.ops[next].operands[0];
  }
  return {};
}

// "`A`, `B`": the tensors of the copies that `take` accepts.
template <typename F>
std::string TensorsOf(const Function& fn, const F& take) {
  std::vector<std::string> names;
  WalkOps(fn, fn.body, [&](OpId id) {
    const Op& op = fn.ops[id];
    if (!IsCopy(op) || !take(id)) return;
    const Param* p = fn.param(op.kind == OpKind::kCpLoad
                                  ? op.operands[0]
                                  : fn.launch.maps[static_cast<size_t>(op.i("map"))].tensor);
    const std::string name = fmt::format("`{}`", p ? p->name : "?");
    if (!std::count(names.begin(), names.end(), name)) names.push_back(name);
  });
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

void Program::FindBarriers() {
  ValueNames names(fn);
  std::map<ValueId, std::string> empty_of;  // awaited before that barrier is refilled
  for (const RoleInfo& role : roles) {
    if (!role.op.valid()) continue;
    std::vector<ValueId> awaited;
    WalkOps(fn, role.body, [&](OpId id) {
      const Op& op = fn.ops[id];
      if (op.kind == OpKind::kMbarWait) awaited.push_back(op.operands[0]);
      if (IsCopyIn(op)) {
        for (ValueId v : awaited)
          empty_of.try_emplace(v, TensorsOf(fn, [&](OpId o) {
                                 return IsCopyIn(fn.ops[o]) &&
                                        BarrierOf(fn, o) == BarrierOf(fn, id);
                               }));
        awaited.clear();
      }
    });
  }
  WalkOps(fn, fn.body, [&](OpId id) {
    const Op& op = fn.ops[id];
    if (op.kind == OpKind::kCpArrive) by_copies.insert(op.operands[0]);
    if (op.kind != OpKind::kMbarAlloc) return;
    const ValueId v = op.results[0];
    first_slot[v] = slots();
    for (int64_t i = 0; i < fn.type(v).depth; ++i) {
      slot_mbar.push_back(v);
      mbar_of_slot.push_back(static_cast<int>(waits_for.size()));
    }
    waits_for.emplace_back(roles.size(), 0);
    for (size_t role = 0; role < roles.size(); ++role)
      WalkOps(fn, roles[role].body, [&](OpId other) {
        const Op& o = fn.ops[other];
        if (o.kind == OpKind::kMbarWait && o.operands[0] == v) waits_for.back()[role] = 1;
      });
    const std::string full =
        TensorsOf(fn, [&](OpId o) { return IsCopyIn(fn.ops[o]) && BarrierOf(fn, o) == v; });
    if (!full.empty())
      mbar_name_[v] = "the full barrier of " + full;
    else if (empty_of.count(v))
      mbar_name_[v] = "the empty barrier of " + empty_of[v];
    else
      mbar_name_[v] = fmt::format("barrier %{}", names[v]);
  });
}

std::string Program::BarrierName(int slot) const {
  const ValueId v = slot_mbar[static_cast<size_t>(slot)];
  const int first = first_slot.at(v);
  return fn.type(v).depth == 1 ? mbar_name_.at(v)
                               : fmt::format("{}, slot {}", mbar_name_.at(v), slot - first);
}

int64_t Program::BoxBytes(const Op& op) const {
  const TensorMapInfo& map = fn.launch.maps[static_cast<size_t>(op.i("map"))];
  int64_t bytes = ByteSize(fn.type(op.operands[0]).dtype);
  for (int64_t b : map.box) bytes *= b;
  return bytes;
}

int64_t Program::CopiedBytes(const Op& op) const {
  const int64_t box = BoxBytes(op);
  if (!op.attr("each")) return box;
  const int64_t parts = fn.ops[fn.blocks[op.block].parent].i("parts", 1);
  return (parts - 1) * op.ints("each")[2] + box;
}

void Program::FindBuffers(bool aside) {
  std::set<int64_t> points;
  ValueNames names(fn);
  WalkOps(fn, fn.body, [&](OpId id) {
    const Op& op = fn.ops[id];
    if (op.kind == OpKind::kSmemAlloc) {
      const ValueId v = op.results[0];
      const Type& t = fn.type(v);
      const Buffer b{op.i("offset"), SmemBytes(t.smem, t.dtype), t.depth, "", {}};
      buffers[v] = b;
    }
  });
  if (aside) SetAside();
  for (const auto& [v, b] : buffers)
    for (int64_t s = 0; s <= b.depth; ++s) points.insert(b.offset + s * b.slot_bytes);
  WalkOps(fn, fn.body, [&](OpId id) {
    const Op& op = fn.ops[id];
    if ((op.kind == OpKind::kTmaLoad || op.kind == OpKind::kTmaStore) &&
        buffers.count(op.operands[0])) {
      const Buffer& b = buffers.at(op.operands[0]);
      for (int64_t s = 0; s < b.depth; ++s) {
        points.insert(b.offset + s * b.slot_bytes + op.i("offset"));
        points.insert(b.offset + s * b.slot_bytes + op.i("offset") + CopiedBytes(op));
      }
    }
    if (op.attr("scratch") && op.i("scratch") >= 0) {
      points.insert(op.i("scratch"));
      points.insert(fn.launch.smem_bytes);
    }
  });
  cuts.assign(points.begin(), points.end());
  dealt.assign(cuts.size(), 0);
  for (auto& [v, b] : buffers) {
    const ValueId buffer = v;
    b.name = TensorsOf(fn, [&](OpId o) { return BufferOf(fn.ops[o]) == buffer; });
    if (b.name.empty()) b.name = fmt::format("%{}", names[v]);
  }
  WalkOps(fn, fn.body, [&](OpId id) {
    const Op& op = fn.ops[id];
    if (op.kind == OpKind::kSmemStore || op.kind == OpKind::kSmemZero ||
        op.kind == OpKind::kCpLoad) {
      const ValueId v = op.operands[op.kind == OpKind::kSmemZero ? 0 : 1];
      if (!buffers.count(v)) return;
      const Buffer& b = buffers.at(v);
      filled_[v].push_back(RegionsOf(b.offset, b.offset + b.depth * b.slot_bytes));
    }
    if (op.kind == OpKind::kTmaStore && op.attr("each") && buffers.count(op.operands[0])) {
      const Buffer& b = buffers.at(op.operands[0]);
      const auto [first, last] = RegionsOf(b.offset, b.offset + b.slot_bytes);
      std::fill(dealt.begin() + first, dealt.begin() + last, 1);
    }
    if (op.kind == OpKind::kTmaLoad && buffers.count(op.operands[0])) {
      const Buffer& b = buffers.at(op.operands[0]);
      for (int64_t s = 0; s < b.depth; ++s) {
        const int64_t at = b.offset + s * b.slot_bytes + op.i("offset");
        filled_[op.operands[0]].push_back(RegionsOf(at, at + BoxBytes(op)));
      }
    }
  });
}

std::pair<int, int> Program::RegionsOf(int64_t begin, int64_t end) const {
  const auto first = std::lower_bound(cuts.begin(), cuts.end(), begin);
  const auto last = std::lower_bound(cuts.begin(), cuts.end(), end);
  return {static_cast<int>(first - cuts.begin()), static_cast<int>(last - cuts.begin())};
}

bool Program::FilledThrough(ValueId buffer, int region) const {
  const auto it = filled_.find(buffer);
  if (it == filled_.end()) return true;  // nobody fills it: then reading it is the mistake
  for (const auto& [first, last] : it->second)
    if (first <= region && region < last) return true;
  return false;
}

std::string Program::RegionName(int region) const {
  if (region >= first_tensor_region()) {
    const auto at = static_cast<size_t>(region - first_tensor_region());
    return fmt::format("columns {} to {} of tensor memory", tensor_columns[at],
                       tensor_columns[at + 1] - 1);
  }
  for (const auto& [tensor, i] : shared_tensors)
    if (i == region) return fmt::format("`{}`", fn.param(tensor) ? fn.param(tensor)->name : "?");
  const int64_t at = cuts[static_cast<size_t>(region)];
  for (const auto& [v, b] : buffers)
    if (b.offset <= at && at < b.offset + b.depth * b.slot_bytes)
      return b.depth == 1
                 ? fmt::format("the buffer of {}", b.name)
                 : fmt::format("slot {} of the ring of {}", (at - b.offset) / b.slot_bytes, b.name);
  return "scratch";
}

}  // namespace tilec::ir::warp_check
