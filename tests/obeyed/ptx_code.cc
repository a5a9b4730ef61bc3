// SPDX-License-Identifier: Apache-2.0
#include "tests/obeyed/ptx_code.h"

#include <algorithm>

#include "tests/obeyed/ptx_words.h"

namespace tilec::obeyed {

namespace {

using Kind = emu::Operand::Kind;

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

// ---- who goes where -------------------------------------------------------------------------

}  // namespace tilec::obeyed
