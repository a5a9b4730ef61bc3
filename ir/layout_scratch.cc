// SPDX-License-Identifier: Apache-2.0
#include "ir/layout_scratch.h"

#include <algorithm>

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

bool ExchangedInQuads(const Type& type, const Layout& from, const Layout& to) {
  const std::optional<Layout> fours = FoursOf(from);
  return ByteSize(type.dtype) == 1 && fours && *fours == to;
}

int64_t ConvertScratchBytes(const Type& type, const Layout& from, const Layout& to) {
  if (from == to || RegisterMap(from, to, type.shape) || ExchangedInQuads(type, from, to)) return 0;
  const ScratchTile t = ConvertScratchTile(type);
  return t.rows * t.pitch;
}

int64_t FetchScratchBytes(const Type& type, const Layout* layout) {
  constexpr int64_t kScalar = 16;
  if (!layout) return kScalar;
  const bool replicas = std::any_of(layout->thread.begin(), layout->thread.end(),
                                    [](const LayoutDigit& d) { return d.dim < 0 && d.extent > 1; });
  const ScratchTile t = ConvertScratchTile(type);
  return replicas ? t.rows * t.pitch : 0;
}

namespace {

// How many digits of a thread digit lie in lane bits, where shuffles by xor reach them.
int64_t LanesOf(int64_t place, int64_t extent) {
  if (!IsPow2(place) || place >= 32) return 1;
  if (place * extent <= 32) return IsPow2(extent) ? extent : 1;
  return extent % (32 / place) == 0 ? 32 / place : 1;
}
}  // namespace

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
    const int64_t lanes = LanesOf(p, e);
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

std::optional<ScanPlan> PlanScan(const Layout& layout, int axis) {
  ScanPlan plan;
  std::vector<ThreadDigit> others;  // of other dims
  for (size_t i = 0; i < layout.reg.size(); ++i) {
    const LayoutDigit& d = layout.reg[i];
    if (d.dim != axis || d.extent == 1) continue;
    ScanLevel level;
    level.reg_digit = static_cast<int>(i);
    level.stride = d.stride;
    level.extent = d.extent;
    plan.levels.push_back(level);
  }
  int64_t place = 1;
  for (const LayoutDigit& d : layout.thread) {
    const int64_t p = place;
    place *= d.extent;
    if (d.extent == 1 || d.dim < 0) continue;  // replicas have the same totals
    if (d.dim != axis) {
      others.push_back({p, d.extent});
      continue;
    }
    const int64_t lanes = LanesOf(p, d.extent);
    ScanLevel level;
    if (lanes > 1) {
      level.kind = ScanLevel::Kind::kLanes;
      level.digit = {p, lanes};
      level.stride = d.stride;
      level.extent = lanes;
      plan.levels.push_back(level);
    }
    if (d.extent == lanes) continue;
    level.kind = ScanLevel::Kind::kWarps;
    level.digit = {p * lanes, d.extent / lanes};
    level.stride = d.stride * lanes;
    level.extent = d.extent / lanes;
    plan.levels.push_back(level);
  }
  std::sort(plan.levels.begin(), plan.levels.end(),
            [](const ScanLevel& a, const ScanLevel& b) { return a.stride < b.stride; });
  int64_t regs = layout.regs();
  for (size_t i = 0; i < plan.levels.size(); ++i) {
    ScanLevel& level = plan.levels[i];
    if (i > 0 && level.stride < plan.levels[i - 1].stride * plan.levels[i - 1].extent)
      return std::nullopt;
    if (level.kind == ScanLevel::Kind::kRegisters) regs /= level.extent;
    level.reps = regs;
    if (level.kind != ScanLevel::Kind::kWarps) continue;
    level.group = others;
    for (size_t j = 0; j < plan.levels.size(); ++j) {
      if (j == i || plan.levels[j].kind == ScanLevel::Kind::kRegisters) continue;
      (j < i ? level.writers : level.group).push_back(plan.levels[j].digit);
    }
    for (const ThreadDigit& d : level.group) level.groups *= d.extent;
  }
  return plan;
}

int64_t ScanScratchBytes(const Type& type, const ScanPlan& plan) {
  int64_t bytes = 0;
  for (const ScanLevel& level : plan.levels)
    if (level.kind == ScanLevel::Kind::kWarps)
      bytes =
          std::max(bytes, level.extent * level.reps * level.groups * ReduceSlotBytes(type.dtype));
  return bytes;
}

int64_t RearrangeScratchBytes(const Type& operand) {
  return operand.shape.empty() ? 0 : RoundUp(operand.elements() * ByteSize(operand.dtype), 16);
}

int64_t ReduceSlotBytes(DType dtype) { return ByteSize(dtype) == 8 ? 8 : 4; }

int64_t ReduceScratchBytes(const Type& type, const Layout& layout, int axis, bool with_index) {
  const ReducePlan plan = PlanReduce(layout, axis);
  if (plan.cross.empty()) return 0;
  const int64_t slots = plan.cross_count * plan.groups * plan.regs;
  return slots * (ReduceSlotBytes(type.dtype) + (with_index ? 4 : 0));
}

}  // namespace tilec::ir
