// Emitted PTX as a reader of schedules wants it: who executes which block, which loops there are,
// what each turn of a loop does in order. It knows nothing of the compiler: text in, facts out. Of
// the project it uses the emulator's PTX parser, which shares nothing with the backend either.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/emulator/ptx_ast.h"

namespace tilec::obeyed {

namespace emu = runtime::emulator;

struct Loc {
  int line = 0, column = 0;
  auto operator<=>(const Loc&) const = default;
};

std::string Show(Loc at);

struct Instr {
  const emu::Statement* s = nullptr;
  Loc at;  // the `.loc` above it
  std::vector<emu::RegId> writes, reads;
};

struct Block {
  std::vector<int> instrs;  // indices, in order
  std::vector<int> next;    // fall-through last
};

// A natural loop.
struct Loop {
  int header = 0;
  std::set<int> blocks;
  bool spin = false;  // nothing but a wait that tries again
};

// What one turn does, in order.
struct Event {
  enum class Kind { kProduct, kCommit, kWait, kFull, kArrive, kExpect, kCopy, kSync, kCode };
  Kind kind = Kind::kCode;
  int instr = 0;
  Loc at;
  int64_t number =
      0;  // kWait: groups that may be pending; barriers: shared-memory byte of the ring
};

class Code {
 public:
  // Null, with `why`, if the text is no PTX.
  static std::unique_ptr<Code> Read(const std::string& ptx, std::string* why);

  const std::vector<Instr>& instrs() const { return instrs_; }
  const std::vector<Block>& blocks() const { return blocks_; }
  const std::vector<Loop>& loops() const { return loops_; }  // inner ones before outer ones
  int warps() const;

  // Blocks that the elected thread of a warp can reach.
  std::set<int> ReachedBy(int warp) const;
  // All ways through one turn of a loop for that thread; spins are passed once. Where they are more
  // than kMostTurns (stores of single elements, each behind a branch), one by each block.
  std::vector<std::vector<Event>> Turns(const Loop& loop, int warp) const;
  std::vector<std::vector<Event>> TurnsByBlock(const Loop& loop, int warp) const;
  bool Dominates(int a, int b) const;
  size_t DominatorsOf(int block) const { return dominators_[static_cast<size_t>(block)].size(); }
  std::set<int> Following(const Loop& loop) const;  // blocks that can run after the loop
  Event EventOf(int instr) const;
  int64_t ByteOf(const emu::Operand& address) const { return BytesInto(address, 0); }
  // How far the address goes beyond that at most; nothing where its arithmetic does not say.
  std::optional<int64_t> ReachOf(const emu::Operand& address) const { return Reach(address, 0); }

 private:
  void Locate(const std::string& text);
  void Cut();
  void FindLoops();
  // Where instruction `at` has what it reads of a register from: its only writer, or the last one
  // before it in its block. Negative: neither.
  int WriterOf(emu::RegId reg, int at) const;
  std::optional<int64_t> Known(emu::RegId reg, int at, int warp, int depth) const;
  std::optional<int64_t> Known(const emu::Operand& o, int at, int warp, int depth) const;
  std::vector<int> Next(int block, int warp) const;
  int64_t BytesInto(const emu::Operand& o, int depth) const;
  std::optional<int64_t> Reach(const emu::Operand& o, int depth) const;

  std::unique_ptr<emu::PtxModule> module_;
  const emu::Entry* entry_ = nullptr;
  std::vector<Instr> instrs_;
  std::map<emu::RegId, std::vector<int>> writers_;
  std::vector<Block> blocks_;
  std::vector<std::set<int>> dominators_;
  std::vector<Loop> loops_;
};

// Does the instruction compute with elements of tiles, rather than with addresses?
bool OnTiles(const emu::Statement& s);
// … or does it move them?
bool MovesTiles(const emu::Statement& s);

}  // namespace tilec::obeyed
