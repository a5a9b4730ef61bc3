// Rows for virtual registers, by liveness: a kernel of thousands of PTX registers has a few dozen
// alive at once, and a warp's rows must stay in the host's L2 cache.
//
// Liveness is per thread, so divergence does not matter: rows are written lane by lane. A guarded
// write does not end the old value. Intervals are the hull of the positions where a register is
// live; rows of equal width are reused, never split, so two rows are equal or disjoint.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "runtime/emulator/decode.h"
#include "runtime/emulator/handlers.h"

namespace tilec::runtime::emulator {
namespace {

constexpr uint64_t kMaxBits = 1ull << 30;  // blocks × registers beyond which rows are not shared

struct Block {
  uint32_t begin = 0, end = 0;
  int32_t next[2] = {-1, -1};
};

std::vector<Block> FindBlocks(const Program& p, std::vector<int32_t>* block_of) {
  size_t n = p.code.size();
  std::vector<uint8_t> leader(n + 1, 0);
  leader[0] = 1;
  for (size_t k = 0; k < n; ++k) {
    const Inst& i = p.code[k];
    if (i.run == RunBra) leader[i.imm] = 1;
    if (i.run == RunBra || i.run == RunRet || i.run == RunReturn) leader[k + 1] = 1;
  }
  for (uint32_t begin : p.bodies) leader[begin] = 1;
  std::vector<Block> blocks;
  block_of->assign(n, 0);
  for (size_t k = 0; k < n; ++k) {
    if (leader[k]) {
      if (!blocks.empty()) blocks.back().end = static_cast<uint32_t>(k);
      blocks.push_back({static_cast<uint32_t>(k), static_cast<uint32_t>(n), {-1, -1}});
    }
    (*block_of)[k] = static_cast<int32_t>(blocks.size()) - 1;
  }
  for (size_t b = 0; b < blocks.size(); ++b) {
    const Inst& last = p.code[blocks[b].end - 1];
    bool jumps = last.run == RunBra, ends = last.run == RunRet || last.run == RunReturn;
    bool falls = !(jumps || ends) || last.guard != kNoGuard;
    if (jumps) blocks[b].next[0] = (*block_of)[last.imm];
    if (falls && b + 1 < blocks.size()) blocks[b].next[1] = static_cast<int32_t>(b) + 1;
  }
  return blocks;
}

struct Interval {
  uint32_t begin = ~0u, end = 0;
  void Add(uint32_t p) { begin = std::min(begin, p), end = std::max(end, p); }
};

// Where registers are live, by the flow between blocks. `uses` are in the order of instructions.
void FollowFlow(const std::vector<Block>& blocks, const std::vector<int32_t>& block_of,
                const std::vector<RegUse>& uses, std::vector<Interval>* intervals) {
  std::vector<Interval>& live = *intervals;
  const size_t regs = live.size();
  size_t words = (regs + 63) / 64;
  std::vector<uint64_t> in(blocks.size() * words), gen(in.size()), kill(in.size());
  auto bit = [&](std::vector<uint64_t>& v, size_t b, uint32_t r) -> uint64_t& {
    return v[b * words + r / 64];
  };
  for (size_t k = 0; k < uses.size();) {  // per instruction: uses before definitions
    size_t e = k;
    while (e < uses.size() && uses[e].inst == uses[k].inst) ++e;
    size_t b = static_cast<size_t>(block_of[uses[k].inst]);
    for (size_t j = k; j < e; ++j) {
      uint32_t r = uses[j].vreg;
      uint64_t m = 1ull << (r % 64);
      if (uses[j].use && !(bit(kill, b, r) & m)) bit(gen, b, r) |= m;
      uint32_t at = 2 * uses[j].inst;
      if (uses[j].use) live[r].Add(at);
      if (uses[j].def) live[r].Add(uses[j].late ? at + 1 : at), live[r].Add(at + 1);
    }
    for (size_t j = k; j < e; ++j)
      if (uses[j].def) bit(kill, b, uses[j].vreg) |= 1ull << (uses[j].vreg % 64);
    k = e;
  }
  in = gen;
  std::vector<uint64_t> out(words);
  auto flow = [&](size_t b) {  // out = union of in[next]
    std::fill(out.begin(), out.end(), 0);
    for (int32_t n : blocks[b].next)
      if (n >= 0)
        for (size_t x = 0; x < words; ++x) out[x] |= in[static_cast<size_t>(n) * words + x];
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t b = blocks.size(); b-- > 0;) {
      flow(b);
      for (size_t x = 0; x < words; ++x) {
        uint64_t v = gen[b * words + x] | (out[x] & ~kill[b * words + x]);
        if (v != in[b * words + x]) in[b * words + x] = v, changed = true;
      }
    }
  }
  for (size_t b = 0; b < blocks.size(); ++b) {
    flow(b);
    for (size_t x = 0; x < words; ++x) {
      for (uint64_t m = in [b * words + x]; m != 0; m &= m - 1)
        live[x * 64 + static_cast<size_t>(__builtin_ctzll(m))].Add(2 * blocks[b].begin);
      for (uint64_t m = out[x]; m != 0; m &= m - 1)
        live[x * 64 + static_cast<size_t>(__builtin_ctzll(m))].Add(2 * blocks[b].end - 1);
    }
  }
}

std::vector<Interval> LiveIntervals(const Program& p, size_t regs, const std::vector<RegUse>& uses,
                                    const std::vector<uint32_t>& special_vregs,
                                    const std::vector<Pinned>& pinned) {
  std::vector<int32_t> block_of;
  const std::vector<Block> blocks = FindBlocks(p, &block_of);
  std::vector<Interval> live(regs);
  const uint32_t last = static_cast<uint32_t>(2 * p.code.size() + 1);
  if (static_cast<uint64_t>(blocks.size()) * regs < kMaxBits)
    FollowFlow(blocks, block_of, uses, &live);
  else
    for (const RegUse& u : uses) live[u.vreg].Add(0), live[u.vreg].Add(last);
  // What is loaded from tensor memory may come as late as the next wait for loads, read or not.
  std::vector<uint32_t> lands(p.code.size(), last);
  for (size_t k = p.code.size(); k-- > 0;) {
    const bool waits = p.code[k].run == RunTensorWait && p.code[k].u[0] == 0;
    lands[k] = waits                  ? static_cast<uint32_t>(2 * k + 1)
               : k + 1 < lands.size() ? lands[k + 1]
                                      : last;
  }
  for (const RegUse& u : uses)
    if (u.def && u.field >= 8 && p.code[u.inst].run == RunTensorLd) live[u.vreg].Add(lands[u.inst]);
  for (uint32_t r : special_vregs) live[r].Add(0), live[r].Add(last);
  for (const Pinned& f : pinned) {  // from the first instruction of its body to the last
    const auto k = static_cast<size_t>(f.function);
    live[f.vreg].Add(2 * p.bodies[k]), live[f.vreg].Add(2 * p.bodies[k + 1] - 1);
  }
  return live;
}

int KindOf(const VReg& r) { return r.bits == 1 ? 0 : r.bits == 64 ? 2 : 1; }

// By register: its row, and the function whose body it is in; bytes of all rows.
struct RowPlaces {
  std::vector<uint32_t> row, body_of;
  uint32_t bytes = 0;
};

// `order`: registers by where they begin to live.
RowPlaces AssignRows(const Program& p, const std::vector<VReg>& vregs,
                     const std::vector<Interval>& live, const std::vector<uint32_t>& order) {
  const size_t regs = vregs.size();
  RowPlaces out;
  out.row.assign(regs, 0);
  out.body_of.assign(regs, 0);
  std::vector<uint32_t> free_rows[3];
  using Active = std::pair<uint32_t, uint32_t>;  // end, register
  std::vector<Active> heap;
  auto later = [](const Active& a, const Active& b) { return a > b; };
  constexpr uint32_t kRowBytes[3] = {64, 128, 256};
  // A function's rows are its own: its callers' values outlive the call.
  size_t body = 0;
  for (uint32_t r : order) {
    for (; body + 1 < p.bodies.size() && live[r].begin >= 2 * p.bodies[body + 1]; ++body) {
      heap.clear();
      for (auto& rows : free_rows) rows.clear();
    }
    out.body_of[r] = static_cast<uint32_t>(body);
    while (!heap.empty() && heap.front().first < live[r].begin) {
      uint32_t old = heap.front().second;
      std::pop_heap(heap.begin(), heap.end(), later);
      heap.pop_back();
      free_rows[KindOf(vregs[old])].push_back(out.row[old]);
    }
    auto& pool = free_rows[KindOf(vregs[r])];
    if (!pool.empty()) {
      out.row[r] = pool.back();
      pool.pop_back();
    } else {
      out.row[r] = out.bytes;
      out.bytes += kRowBytes[KindOf(vregs[r])];
    }
    heap.emplace_back(live[r].end, r);
    std::push_heap(heap.begin(), heap.end(), later);
  }
  return out;
}

}  // namespace

void PlaceRegisters(Program& p, std::vector<VReg>& vregs, std::vector<RegUse>& uses,
                    const std::vector<uint32_t>& special_vregs, const std::vector<Pinned>& pinned) {
  size_t regs = vregs.size();
  std::stable_sort(uses.begin(), uses.end(),
                   [](const RegUse& a, const RegUse& b) { return a.inst < b.inst; });
  const std::vector<Interval> live = LiveIntervals(p, regs, uses, special_vregs, pinned);
  std::vector<uint32_t> order;
  for (uint32_t r = 0; r < regs; ++r)
    if (live[r].begin != ~0u) order.push_back(r);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return live[a].begin < live[b].begin; });
  const RowPlaces rows = AssignRows(p, vregs, live, order);
  for (const RegUse& u : uses) *u.Field(p) = rows.row[u.vreg];
  for (SpecialUse& s : p.specials) s.row = rows.row[s.row];
  std::vector<uint8_t> special(regs, 0);
  for (uint32_t r : special_vregs) special[r] = 1;
  for (const Pinned& f : pinned)
    p.functions[static_cast<size_t>(f.function)].frame_row = rows.row[f.vreg];
  for (uint32_t r : order) {
    const uint32_t body = rows.body_of[r];
    if (body >= p.functions.size() || !p.functions[body].recursive || special[r]) continue;
    auto& list = p.functions[body].registers;
    const std::pair<uint32_t, uint8_t> place{rows.row[r],
                                             static_cast<uint8_t>(vregs[r].bits == 1    ? 1
                                                                  : vregs[r].bits == 64 ? 64
                                                                                        : 32)};
    list.push_back(place);
  }
  for (Program::Function& f : p.functions) {
    std::sort(f.registers.begin(), f.registers.end());
    f.registers.erase(std::unique(f.registers.begin(), f.registers.end()), f.registers.end());
  }
  p.register_bytes = (rows.bytes + 63) / 64 * 64;
}

}  // namespace tilec::runtime::emulator
