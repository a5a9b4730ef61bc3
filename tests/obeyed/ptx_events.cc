// What a statement of PTX does that a schedule speaks of, with how many bytes, and what of it is
// known before the program runs: how often a loop turns, which way a branch goes.
//
// SPDX-License-Identifier: Apache-2.0
#include "tests/obeyed/ptx_code.h"

#include <algorithm>
#include <functional>
#include <map>

#include "tests/obeyed/ptx_words.h"

namespace tilec::obeyed {

namespace {

using Kind = emu::Operand::Kind;

}  // namespace

// The constant part of an address: bytes into shared memory.
int64_t Code::BytesInto(const emu::Operand& o, int depth) const {
  if (depth > 12) return 0;
  if (o.kind == Kind::kInt) return static_cast<int64_t>(o.bits);
  if (o.kind == Kind::kAddress) {
    if (!o.parts.empty() && o.reg < 0)
      return BytesInto(o.parts[0], depth + 1) + static_cast<int64_t>(o.bits);
    emu::Operand base;
    base.kind = Kind::kRegister;
    base.reg = o.reg;
    return (o.reg >= 0 ? BytesInto(base, depth + 1) : 0) + static_cast<int64_t>(o.bits);
  }
  if (o.kind == Kind::kSymbol) return static_cast<int64_t>(o.bits);
  if (o.kind != Kind::kRegister) return 0;
  const auto it = writers_.find(o.reg);
  if (it == writers_.end() || it->second.size() != 1) return 0;
  const emu::Statement& s = *instrs_[static_cast<size_t>(it->second[0])].s;
  if (s.opcode == "add")
    return BytesInto(s.operands[1], depth + 1) + BytesInto(s.operands[2], depth + 1);
  if (s.opcode == "mad") return BytesInto(s.operands[3], depth + 1);
  if (s.opcode == "mov" || s.opcode == "cvt" || s.opcode == "cvta")
    return BytesInto(s.operands[1], depth + 1);
  return 0;
}

std::optional<int64_t> Code::Reach(const emu::Operand& o, int depth) const {
  if (o.kind == Kind::kInt || o.kind == Kind::kSymbol) return 0;
  if (depth > 12 || (o.kind != Kind::kRegister && o.kind != Kind::kAddress)) return std::nullopt;
  if (o.kind == Kind::kAddress && !o.parts.empty()) return Reach(o.parts[0], depth + 1);
  const auto it = writers_.find(o.reg);
  if (it == writers_.end() || it->second.size() != 1) return std::nullopt;
  const emu::Statement& s = *instrs_[static_cast<size_t>(it->second[0])].s;
  const auto arg = [&](size_t i) { return Reach(s.operands[i], depth + 1); };
  const auto constant = [&](size_t i) -> std::optional<int64_t> {
    if (i >= s.operands.size() || s.operands[i].kind != Kind::kInt) return std::nullopt;
    return static_cast<int64_t>(s.operands[i].bits);
  };
  if (s.opcode == "mov" || s.opcode == "cvt" || s.opcode == "cvta") return arg(1);
  if (s.opcode == "and") return constant(2) ? constant(2) : constant(1);
  if (s.opcode == "bfe" && constant(3) && *constant(3) < 32)
    return (int64_t{1} << *constant(3)) - 1;
  if (s.opcode == "add") {
    const auto a = arg(1), b = arg(2);
    if (!a || !b) return std::nullopt;
    return *a + *b;
  }
  if (s.opcode == "shl" && constant(2) && *constant(2) < 32) {
    const auto a = arg(1);
    if (!a) return std::nullopt;
    return *a << *constant(2);
  }
  return std::nullopt;
}

Event Code::EventOf(int instr) const {
  const Instr& in = instrs_[static_cast<size_t>(instr)];
  const emu::Statement& s = *in.s;
  Event e;
  e.instr = instr;
  e.at = in.at;
  if (Starts(s.text, "wgmma.mma_async")) {
    e.kind = Event::Kind::kProduct;
  } else if (Starts(s.text, "wgmma.commit_group")) {
    e.kind = Event::Kind::kCommit;
  } else if (Starts(s.text, "wgmma.wait_group")) {
    e.kind = Event::Kind::kWait;
    e.number = static_cast<int64_t>(s.operands[0].bits);
  } else if (Starts(s.text, "mbarrier.try_wait")) {
    e.kind = Event::Kind::kFull;
    e.number = BytesInto(s.operands[1], 0);
  } else if (Starts(s.text, "mbarrier.arrive.expect_tx")) {
    e.kind = Event::Kind::kExpect;
    e.number = BytesInto(s.operands[1], 0);
  } else if (Starts(s.text, "mbarrier.arrive")) {
    e.kind = Event::Kind::kArrive;
    e.number = BytesInto(s.operands[1], 0);
  } else if (Starts(s.text, "cp.async.bulk.tensor") &&
             (s.text.find("shared::cluster.global") != std::string_view::npos ||
              s.text.find("shared::cta.global") != std::string_view::npos)) {
    e.kind = Event::Kind::kCopy;
    e.number = BytesInto(s.operands[2], 0);
  } else if (Starts(s.text, "bar.") || Starts(s.text, "barrier.")) {
    e.kind = Event::Kind::kSync;
  }
  return e;
}

std::optional<int64_t> Code::Known(const emu::Operand& o, int at, int warp, int depth) const {
  if (o.kind == Kind::kInt) return static_cast<int64_t>(o.bits);
  if (o.kind == Kind::kRegister) {
    const auto v = Known(o.reg, at, warp, depth);
    if (!v) return v;
    return o.negated ? std::optional<int64_t>(!*v) : v;
  }
  if (o.kind == Kind::kSpecial && o.index == emu::SpecialFromName("%tid.x")) return 32 * warp;
  return std::nullopt;
}

int Code::WriterOf(emu::RegId reg, int at) const {
  const auto it = writers_.find(reg);
  if (it == writers_.end()) return -1;
  if (it->second.size() == 1) return it->second[0];
  const auto block = std::find_if(blocks_.begin(), blocks_.end(), [&](const Block& b) {
    return !b.instrs.empty() && b.instrs.front() <= at && at <= b.instrs.back();
  });
  if (block == blocks_.end()) return -1;
  int last = -1;
  for (int writer : it->second)
    if (writer >= block->instrs.front() && writer < at) last = std::max(last, writer);
  return last;
}

// Values that the elected thread of a warp knows before the kernel starts.
std::optional<int64_t> Code::Known(emu::RegId reg, int at, int warp, int depth) const {
  const int writer = WriterOf(reg, at);
  if (depth > 40 || writer < 0) return std::nullopt;
  const emu::Statement& s = *instrs_[static_cast<size_t>(writer)].s;
  const auto arg = [&](size_t i) { return Known(s.operands[i], writer, warp, depth + 1); };
  if (s.opcode == "elect") return 1;
  if (s.guard >= 0) return std::nullopt;
  if (s.opcode == "mov" || s.opcode == "cvt") return arg(1);
  if (s.opcode == "shfl") return s.Has("idx") ? arg(1) : std::nullopt;
  if (s.opcode == "not") {
    const auto a = arg(1);
    if (!a || !s.Has("pred")) return std::nullopt;
    return !*a;
  }
  if (s.opcode == "and" || s.opcode == "or") {
    const auto a = arg(1), b = arg(2);
    const bool conj = s.opcode == "and";
    if (s.Has("pred")) {
      if (a && (*a == 0) == conj) return !conj;
      if (b && (*b == 0) == conj) return !conj;
    }
    if (!a || !b) return std::nullopt;
    return conj ? *a & *b : *a | *b;
  }
  if (s.operands.size() < 3) return std::nullopt;
  const auto a = arg(1), b = arg(2);
  if (!a || !b) return std::nullopt;
  if (s.opcode == "shr") return static_cast<int64_t>(static_cast<uint32_t>(*a) >> (*b & 31));
  if (s.opcode == "add") return static_cast<int32_t>(*a + *b);
  if (s.opcode == "sub") return static_cast<int32_t>(*a - *b);
  if (s.opcode == "setp") {
    const bool is_signed = s.Has("s32") || s.Has("s64");
    const auto compare = [&](auto x, auto y) -> std::optional<int64_t> {
      if (s.Has("eq")) return x == y;
      if (s.Has("ne")) return x != y;
      if (s.Has("lt") || s.Has("lo")) return x < y;
      if (s.Has("le") || s.Has("ls")) return x <= y;
      if (s.Has("gt") || s.Has("hi")) return x > y;
      if (s.Has("ge") || s.Has("hs")) return x >= y;
      return std::nullopt;
    };
    if (is_signed) return compare(static_cast<int32_t>(*a), static_cast<int32_t>(*b));
    return compare(static_cast<uint32_t>(*a), static_cast<uint32_t>(*b));
  }
  return std::nullopt;
}

std::vector<int> Code::Next(int block, int warp) const {
  const Block& b = blocks_[static_cast<size_t>(block)];
  const emu::Statement& last = *instrs_[static_cast<size_t>(b.instrs.back())].s;
  if (last.opcode == "bra" && last.guard >= 0 && b.next.size() == 2)
    if (const auto known = Known(last.guard, b.instrs.back(), warp, 0))
      return {(*known != 0) != last.guard_negated ? b.next[0] : b.next[1]};
  return b.next;
}

std::set<int> Code::ReachedBy(int warp) const {
  std::set<int> reached;
  std::vector<int> work = {0};
  while (!work.empty()) {
    const int b = work.back();
    work.pop_back();
    if (!reached.insert(b).second) continue;
    for (int next : Next(b, warp)) work.push_back(next);
  }
  return reached;
}

std::set<int> Code::Following(const Loop& loop) const {
  std::set<int> reached;
  std::vector<int> work;
  for (int b : loop.blocks)
    for (int next : blocks_[static_cast<size_t>(b)].next)
      if (!loop.blocks.count(next)) work.push_back(next);
  while (!work.empty()) {
    const int b = work.back();
    work.pop_back();
    if (!reached.insert(b).second) continue;
    for (int next : blocks_[static_cast<size_t>(b)].next) work.push_back(next);
  }
  return reached;
}

std::vector<std::vector<Event>> Code::Turns(const Loop& loop, int warp) const {
  std::vector<std::vector<Event>> turns;
  std::vector<int> path;
  bool too_many = false;
  const std::function<void(int)> go = [&](int block) {
    if (too_many) return;
    path.push_back(block);
    for (int next : Next(block, warp)) {
      if (next == loop.header) {
        if (turns.size() == kMostTurns) {
          too_many = true;
          break;
        }
        std::vector<Event> events;
        for (int b : path)
          for (int i : blocks_[static_cast<size_t>(b)].instrs) events.push_back(EventOf(i));
        turns.push_back(std::move(events));
      } else if (loop.blocks.count(next) &&
                 std::find(path.begin(), path.end(), next) == path.end()) {
        go(next);
      }
    }
    path.pop_back();
  };
  go(loop.header);
  return too_many ? TurnsByBlock(loop, warp) : turns;
}

// The shortest way through a turn by each of its blocks.
std::vector<std::vector<Event>> Code::TurnsByBlock(const Loop& loop, int warp) const {
  const auto way = [&](int from, int to) {  // the blocks behind `from` up to `to`; empty: none
    std::map<int, int> before;
    std::vector<int> work = {from};
    for (size_t i = 0; i < work.size(); ++i)
      for (int next : Next(work[i], warp)) {
        if (!loop.blocks.count(next) || !before.emplace(next, work[i]).second) continue;
        if (next != to) {
          if (next != loop.header) work.push_back(next);
          continue;
        }
        std::vector<int> blocks = {to};
        for (int b = before[to]; b != from; b = before[b]) blocks.insert(blocks.begin(), b);
        return blocks;
      }
    return std::vector<int>();
  };
  std::vector<std::vector<Event>> turns;
  for (int by : loop.blocks) {
    std::vector<int> path = {loop.header};
    const std::vector<int> there = by == loop.header ? path : way(loop.header, by);
    const std::vector<int> back = way(by, loop.header);
    if (there.empty() || back.empty()) continue;
    if (by != loop.header) path.insert(path.end(), there.begin(), there.end());
    path.insert(path.end(), back.begin(), back.end() - 1);
    std::vector<Event> events;
    for (int b : path)
      for (int i : blocks_[static_cast<size_t>(b)].instrs) events.push_back(EventOf(i));
    turns.push_back(std::move(events));
  }
  return turns;
}

bool OnTiles(const emu::Statement& s) {
  if (s.opcode == "mov" || s.opcode == "ld" || s.opcode == "st") return false;
  for (std::string_view m : s.mods)
    if (m == "f32" || m == "f16" || m == "f16x2" || m == "bf16" || m == "bf16x2" || m == "f64")
      return true;
  return s.opcode == "shfl";
}

bool MovesTiles(const emu::Statement& s) {
  return (s.opcode == "ld" || s.opcode == "st") &&
         (s.Has("global") || s.Has("shared") || s.Has("shared::cta"));
}

}  // namespace tilec::obeyed
