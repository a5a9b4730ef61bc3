// SPDX-License-Identifier: Apache-2.0
#include "ir/layout_scratch.h"

#include "support/expr.h"

namespace tilec::ir {
namespace {
bool IsPow2(int64_t n) { return n > 0 && (n & (n - 1)) == 0; }
}  // namespace

ScratchTile ConvertScratchTile(const Type& type) {
  ScratchTile out;
  if (type.shape.empty()) return {1, 1, 16};
  out.cols = type.shape.back();
  for (size_t i = 0; i + 1 < type.shape.size(); ++i) out.rows *= type.shape[i];
  out.pitch = RoundUp(out.cols * ByteSize(type.dtype), 16);
  if (out.rows > 1) out.pitch += 16;
  return out;
}

int64_t ConvertScratchBytes(const Type& type, const Layout& from, const Layout& to) {
  if (from == to || RegisterMap(from, to, type.shape)) return 0;
  const ScratchTile t = ConvertScratchTile(type);
  return t.rows * t.pitch;
}

ReducePlan PlanReduce(const Layout& layout, int axis) {
  ReducePlan plan;
  int64_t place = 1;
  for (const LayoutDigit& d : layout.thread) {
    const int64_t p = place, e = d.extent;
    place *= e;
    if (e == 1) continue;
    if (d.dim != axis) {
      plan.group.push_back({p, e});
      plan.groups *= e;
      continue;
    }
    int64_t lanes = 1;  // the part of the digit that lives in lane bits
    if (IsPow2(p) && p < 32) {
      if (p * e <= 32) {
        if (IsPow2(e)) lanes = e;
      } else if (e % (32 / p) == 0) {
        lanes = 32 / p;
      }
    }
    if (lanes > 1) {
      for (int64_t x = 1; x < lanes; x *= 2) plan.lane_xors.push_back(p * x);
      plan.lane_parts.push_back({p, lanes});
    }
    if (e > lanes) {
      plan.cross.push_back({p * lanes, e / lanes});
      plan.cross_count *= e / lanes;
    }
  }
  for (const LayoutDigit& d : layout.reg)
    if (d.dim != axis) plan.regs *= d.extent;
  return plan;
}

int64_t ReduceSlotBytes(DType dtype) { return ByteSize(dtype) == 8 ? 8 : 4; }

int64_t ReduceScratchBytes(const Type& type, const Layout& layout, int axis, bool with_index) {
  const ReducePlan plan = PlanReduce(layout, axis);
  if (plan.cross.empty()) return 0;
  const int64_t slots = plan.cross_count * plan.groups * plan.regs;
  return slots * (ReduceSlotBytes(type.dtype) + (with_index ? 4 : 0));
}

}  // namespace tilec::ir
