// Which ops of a warp program move bytes, with which buffer and barrier, and which tensors threads
// touch.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ir/matrix_unit.h"
#include "ir/warp_check/program.h"

namespace tilec::ir::warp_check {

inline bool IsCopy(const Op& op) {
  return op.kind == OpKind::kTmaLoad || op.kind == OpKind::kTmaStore || op.kind == OpKind::kCpLoad;
}
inline bool IsCopyIn(const Op& op) {
  return op.kind == OpKind::kTmaLoad || op.kind == OpKind::kCpLoad;
}
inline ValueId BufferOf(const Op& op) { return op.operands[op.kind == OpKind::kCpLoad ? 1 : 0]; }

// The barrier that counts a copy: its operand, or that of the first cp_arrive behind it.
inline ValueId BarrierOf(const Function& fn, OpId id) {
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

}  // namespace tilec::ir::warp_check
