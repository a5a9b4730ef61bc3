// SPDX-License-Identifier: Apache-2.0
#include "tests/obeyed/ptx_code.h"

#include <algorithm>
#include <cstdio>
#include <functional>

namespace tilec::obeyed {
namespace {

using Kind = emu::Operand::Kind;

constexpr size_t kMostTurns = 512;

bool Starts(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

// Registers of an operand, through vectors and addresses.
void Collect(const emu::Operand& o, std::vector<emu::RegId>* out) {
  if (o.kind == Kind::kRegister) out->push_back(o.reg);
  if (o.kind == Kind::kAddress && o.reg >= 0) out->push_back(o.reg);
  for (const emu::Operand& part : o.parts) Collect(part, out);
  for (const emu::Operand& part : o.second) Collect(part, out);
}

// Ops whose first operand is no result.
bool ReadsAll(std::string_view text) {
  for (const char* prefix :
       {"st.",          "red.",       "bar",    "mbarrier.init",  "mbarrier.inval", "cp.",
        "prefetch",     "fence",      "membar", "stmatrix",       "setmaxnreg",     "bra",
        "ret",          "exit",       "trap",   "griddepcontrol", "nanosleep",      "wgmma.wait",
        "wgmma.commit", "wgmma.fence"})
    if (Starts(text, prefix)) return true;
  return false;
}

}  // namespace

std::string Show(Loc at) { return std::to_string(at.line) + ":" + std::to_string(at.column); }

std::unique_ptr<Code> Code::Read(const std::string& ptx, std::string* why) {
  auto code = std::make_unique<Code>();
  DiagSink diags;
  emu::PtxPlaces places;
  places.name = "emitted.ptx";
  auto module = emu::ParsePtx(ptx, places, diags);
  if (!module.ok()) {
    *why = diags.all().empty() ? "no PTX" : diags.all().front().message;
    return nullptr;
  }
  code->module_ = std::move(*module);
  if (code->module_->entries.size() != 1) {
    *why = "not one entry";
    return nullptr;
  }
  code->entry_ = &code->module_->entries[0];
  code->Locate(ptx);
  code->Cut();
  code->FindLoops();
  return code;
}

int Code::warps() const { return static_cast<int>(entry_->reqntid[0] / 32); }

void Code::Locate(const std::string& text) {
  std::map<int, Loc> by_line;
  int line = 1;
  for (size_t at = 0; at < text.size(); ++line) {
    const size_t end = std::min(text.find('\n', at), text.size());
    int file = 0;
    Loc loc;
    const std::string row = text.substr(at, end - at);
    if (std::sscanf(row.c_str(), " .loc %d %d %d", &file, &loc.line, &loc.column) == 3)
      by_line[line] = loc;
    at = end + 1;
  }
  for (const emu::Statement& s : entry_->body) {
    Instr in;
    in.s = &s;
    if (auto it = by_line.upper_bound(s.line); it != by_line.begin()) in.at = std::prev(it)->second;
    for (size_t i = 0; i < s.operands.size(); ++i) {
      const bool result = i == 0 && !ReadsAll(s.text);
      Collect(s.operands[i], result ? &in.writes : &in.reads);
      if (result && Starts(s.text, "wgmma.mma")) Collect(s.operands[i], &in.reads);
    }
    if (s.guard >= 0) in.reads.push_back(s.guard);
    for (emu::RegId r : in.writes) writers_[r].push_back(static_cast<int>(instrs_.size()));
    instrs_.push_back(std::move(in));
  }
}

void Code::Cut() {
  const int n = static_cast<int>(instrs_.size());
  std::set<int> starts = {0};
  for (const emu::Label& label : entry_->labels) starts.insert(label.statement);
  for (int i = 0; i < n; ++i)
    for (const char* end : {"bra", "ret", "exit", "trap"})
      if (instrs_[static_cast<size_t>(i)].s->opcode == end) starts.insert(i + 1);
  std::map<int, int> block_at;
  for (int s : starts)
    if (s >= 0 && s < n) {
      block_at[s] = static_cast<int>(blocks_.size());
      blocks_.emplace_back();
    }
  int block = -1;
  for (int i = 0; i < n; ++i) {
    if (block_at.count(i)) block = block_at[i];
    blocks_[static_cast<size_t>(block)].instrs.push_back(i);
  }
  for (size_t b = 0; b < blocks_.size(); ++b) {
    const Instr& last = instrs_[static_cast<size_t>(blocks_[b].instrs.back())];
    const bool jumps = last.s->opcode == "bra";
    if (jumps) {
      const auto label = static_cast<size_t>(last.s->operands[0].index);
      const int target = entry_->labels[label].statement;
      if (block_at.count(target)) blocks_[b].next.push_back(block_at[target]);
    }
    const bool ends =
        last.s->opcode == "ret" || last.s->opcode == "exit" || last.s->opcode == "trap" || jumps;
    if ((!ends || last.s->guard >= 0) && b + 1 < blocks_.size())
      blocks_[b].next.push_back(static_cast<int>(b) + 1);
  }
}

bool Code::Dominates(int a, int b) const {
  return dominators_[static_cast<size_t>(b)].count(a) > 0;
}

void Code::FindLoops() {
  const size_t n = blocks_.size();
  std::vector<std::vector<int>> before(n);
  for (size_t b = 0; b < n; ++b)
    for (int next : blocks_[b].next)
      before[static_cast<size_t>(next)].push_back(static_cast<int>(b));
  std::set<int> all;
  for (size_t b = 0; b < n; ++b) all.insert(static_cast<int>(b));
  dominators_.assign(n, all);
  dominators_[0] = {0};
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t b = 1; b < n; ++b) {
      std::set<int> now = all;
      if (before[b].empty()) now.clear();
      for (int p : before[b]) {
        std::set<int> both;
        std::set_intersection(now.begin(), now.end(), dominators_[static_cast<size_t>(p)].begin(),
                              dominators_[static_cast<size_t>(p)].end(),
                              std::inserter(both, both.end()));
        now = std::move(both);
      }
      now.insert(static_cast<int>(b));
      if (now != dominators_[b]) {
        dominators_[b] = std::move(now);
        changed = true;
      }
    }
  }
  std::map<int, Loop> loops;
  for (size_t b = 0; b < n; ++b)
    for (int header : blocks_[b].next) {
      if (!Dominates(header, static_cast<int>(b))) continue;
      Loop& loop = loops[header];
      loop.header = header;
      loop.blocks.insert(header);
      std::vector<int> work = {static_cast<int>(b)};
      while (!work.empty()) {
        const int x = work.back();
        work.pop_back();
        if (!loop.blocks.insert(x).second) continue;
        for (int p : before[static_cast<size_t>(x)]) work.push_back(p);
      }
    }
  for (auto& [header, loop] : loops) {
    bool tries = false, other = false;
    for (int b : loop.blocks)
      for (int i : blocks_[static_cast<size_t>(b)].instrs) {
        const Event e = EventOf(i);
        tries = tries || e.kind == Event::Kind::kFull;
        other = other || (e.kind != Event::Kind::kFull && e.kind != Event::Kind::kCode);
      }
    loop.spin = tries && !other && loop.blocks.size() <= 2;
    loops_.push_back(loop);
  }
  std::sort(loops_.begin(), loops_.end(),
            [](const Loop& a, const Loop& b) { return a.blocks.size() < b.blocks.size(); });
}

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

// ---- who goes where -------------------------------------------------------------------------

std::optional<int64_t> Code::Known(const emu::Operand& o, int warp, int depth) const {
  if (o.kind == Kind::kInt) return static_cast<int64_t>(o.bits);
  if (o.kind == Kind::kRegister) {
    const auto v = Known(o.reg, warp, depth);
    if (!v) return v;
    return o.negated ? std::optional<int64_t>(!*v) : v;
  }
  if (o.kind == Kind::kSpecial && o.index == emu::SpecialFromName("%tid.x")) return 32 * warp;
  return std::nullopt;
}

// Values that the elected thread of a warp knows before the kernel starts.
std::optional<int64_t> Code::Known(emu::RegId reg, int warp, int depth) const {
  const auto it = writers_.find(reg);
  if (depth > 40 || it == writers_.end() || it->second.size() != 1) return std::nullopt;
  const emu::Statement& s = *instrs_[static_cast<size_t>(it->second[0])].s;
  const auto arg = [&](size_t i) { return Known(s.operands[i], warp, depth + 1); };
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
    if (const auto known = Known(last.guard, warp, 0))
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
  if (too_many) turns.clear();
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
