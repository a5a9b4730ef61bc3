// Accesses of asynchronous operations to shared and global memory: copies, products that read
// shared memory, reductions. Each is an agent of its own, ordered by what it was started behind and
// by whoever waited for it.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "runtime/emulator/judge/judge.h"

namespace tilec::runtime::judge {

const Epoch* Judge::AsyncClock(const AsyncOp& op, bool global) {
  auto of = [&](LaneGroup& g) -> Clock& {
    return op.generic ? g.view.generic : global ? g.view.async_global : g.view.async;
  };
  if (op.group != nullptr) return of(*op.group).Dense(components_.size());
  bool first = true;
  for (uint32_t w = op.warp; w < op.warp + op.warps; ++w)
    for (LaneGroup& g : warps_[w].agent.groups()) {
      if (first)
        meet_ = of(g);
      else
        meet_.Meet(of(g));
      first = false;
    }
  return meet_.Dense(components_.size());
}

void Judge::AsyncBlock(const AsyncTouch& by, size_t block, const Mark& m, uint8_t layout) {
  const AsyncOp& op = by.op;
  const uint32_t rank = by.rank;
  SharedShadow& shadow = shared_[rank];
  Block& b = shadow.at(block);
  if (b.barrier != 0 && ((b.barrier & 1 && m.bytes & 0xff) || (b.barrier & 2 && m.bytes & 0xff00)))
    OpaqueTouched(rank, block, m, by.write, by.side);
  auto clash = [&](const Mark& old, bool old_writes) {
    Clash(rank, block, {old, shape_.number, old_writes}, {m, shape_.number, by.write}, by.side);
  };
  if (by.write) {
    b.layout = layout;
    shadow.Write(block, m, by.clock, clash);
    return;
  }
  if (layout != 0 && b.layout != 0 && b.layout != layout && launch_->First(Rule::kW3, op.pc, 1)) {
    Finding f = Begin(Rule::kW3, op.pc);
    f.severity = Severity::kHint;
    f.accesses[0] = Describe(m, shape_.number, false, SharedName(rank, block, m.bytes, scoped_));
    f.message = fmt::format(
        "the operand is read with a swizzle of {} bytes and was written by a "
        "tensor copy with {}",
        layout <= 1 ? 0 : 8u << layout, b.layout <= 1 ? 0 : 8u << b.layout);
    f.fix = "give the descriptor the swizzle of the tensor map";
    launch_->Say(std::move(f), op.pc, 1);
  }
  shadow.Read(block, m, by.clock, clash);
}

void Judge::AsyncShared(const AsyncOp& op, uint32_t rank, uint32_t begin, uint32_t bytes,
                        bool write, uint8_t layout) {
  const AsyncTouch by{
      op, rank, write, AsyncClock(op, false), {op.warp, op.warps, op.group, !op.generic}};
  Mark m;
  m.epoch = op.epoch;
  m.component = op.component;
  m.lanes = op.lanes;
  m.site = (op.pc & Mark::kPcMask) | (op.generic ? 0 : Mark::kAsync);
  if (op.strong) m.site |= Mark::kStrong | Mark::kWide | Mark::kGpu;
  if ((op.lanes & (op.lanes - 1)) != 0) m.site |= Mark::kIrregular << Mark::kShapeShift;
  uint32_t end = begin + bytes;
  for (uint32_t block = begin / 16; block * 16 < end; ++block) {
    uint32_t lo = std::max(begin, block * 16) - block * 16;
    uint32_t hi = std::min(end, block * 16 + 16) - block * 16;
    m.bytes = static_cast<uint16_t>(((1u << hi) - 1) & ~((1u << lo) - 1));
    uint16_t fresh = static_cast<uint16_t>(m.bytes & ~shared_[rank].at(block).init);
    if (!write && fresh != 0) Fresh(SharedName(rank, block, fresh, scoped_), m, by.side);
    AsyncBlock(by, block, m, layout);
  }
}

// Operands lie where others lay before: what is left of those in padding is told from a row that
// was filled in part by who wrote it.
void Judge::AsyncChunks(const AsyncOp& op, uint32_t rank, const Chunks& chunks) {
  const uint32_t* offsets = chunks.offsets;
  const size_t n = chunks.count, per_row = chunks.per_row;
  const bool columns = chunks.columns;
  const AsyncTouch by{op,
                      rank,
                      /*write=*/false,
                      AsyncClock(op, false),
                      {op.warp, op.warps, op.group, !op.generic}};
  Mark m;
  m.epoch = op.epoch;
  m.component = op.component;
  m.lanes = op.lanes;
  m.site = (op.pc & Mark::kPcMask) | Mark::kAsync;
  m.bytes = 0xffff;
  SharedShadow& shadow = shared_[rank];
  const size_t blocks = shadow.size();
  size_t lacking = ~size_t{0};
  bool whole = false, partly = false;
  // Bytes that all chunks of a row have, that some have.
  auto written = [&](size_t row) {
    uint16_t all = 0xffff, any = 0;
    for (size_t k = row; k < row + per_row; ++k) {
      const size_t block = offsets[k] / 16;
      if (block >= blocks) continue;
      const uint16_t init = shadow.at(block).init;
      all &= init, any |= init;
      if (init != 0xffff) lacking = block;
    }
    if (!columns && all != 0xffff) all = 0;
    return std::pair(all, any);
  };
  for (size_t row = 0; row < n; row += per_row) {
    for (size_t k = row; k < row + per_row; ++k)
      if (offsets[k] / 16 < blocks) AsyncBlock(by, offsets[k] / 16, m, k == 0 ? chunks.layout : 0);
    const auto [all, any] = written(row);
    whole = whole || all != 0;
    partly = partly || (any & ~all) != 0;
  }
  if (whole && !partly) return;
  if (whole) {
    // The first row and the first column are no padding: who filled them?
    std::set<std::pair<Component, Epoch>> fillers;
    std::set<uint32_t> sites;
    bool filled = false;
    size_t suspect = ~size_t{0};
    for (size_t row = 0; row < n && !filled; row += per_row) {
      lacking = ~size_t{0};
      const auto [all, any] = written(row);
      const uint16_t part = any & ~all;
      for (size_t k = row; k < row + per_row && (row == 0 || part != 0); ++k) {
        if (offsets[k] / 16 >= blocks) continue;
        shadow.Each(offsets[k] / 16, [&](const Mark& old, bool writes) {
          const std::pair who(old.component, old.epoch);
          if (writes && row == 0 && (old.bytes & (columns ? 1 : 0xffff)))
            fillers.insert(who), sites.insert(old.site);
          if (writes && (old.bytes & part))
            filled = filled || fillers.count(who) != 0 || sites.count(old.site) != 0;
        });
      }
      if (part != 0) suspect = lacking;
    }
    lacking = suspect;
    if (!filled) return;
  }
  if (lacking != ~size_t{0}) Fresh(SharedName(rank, lacking, 0xffff, scoped_), m, by.side);
}

void Judge::AsyncGlobal(const AsyncOp& op, uint64_t address, uint64_t bytes, bool write) {
  if (bytes == 0) return;
  if (write) ++launch_->global_writes;
  const Epoch* clock = AsyncClock(op, true);
  Side side{op.warp, op.warps, op.group, !op.generic, op.twins};
  GlobalMark m;
  m.cluster = shape_.number;
  m.mark.epoch = op.epoch;
  m.mark.component = op.component;
  m.mark.lanes = op.lanes;
  m.mark.site = (op.pc & Mark::kPcMask) | (op.generic ? 0 : Mark::kAsync);
  if (op.strong) m.mark.site |= Mark::kStrong | Mark::kWide | Mark::kGpu;
  auto ordered = [&](const GlobalMark& old) {
    return old.cluster == shape_.number && old.mark.epoch <= clock[old.mark.component];
  };
  auto clash = [&](const GlobalMark& old, bool old_writes, uint64_t at) {
    GlobalClash(at, old, old_writes, m.mark, write, side);
  };
  if (write)
    launch_->global.Write(address, bytes, m, ordered, clash);
  else
    launch_->global.Read(address, bytes, m, ordered, clash,
                         [&](uint64_t at) { Fresh(launch_->place(at), m.mark, side); });
}

}  // namespace tilec::runtime::judge
