// SPDX-License-Identifier: Apache-2.0
#include "tests/corpus/guess.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#include "runtime/emulator/ptx_ast.h"

namespace tilec::corpus {
namespace {

using namespace tilec::runtime;            // NOLINT: a test program
using namespace tilec::runtime::emulator;  // NOLINT

constexpr size_t kMostThings = 16;  // in one register

// What a register may hold: 64 bits loaded from a place in the parameters, or that place itself.
struct Thing {
  size_t param;
  uint64_t offset;
  bool place;
  bool operator<(const Thing& o) const {
    return std::tie(param, offset, place) < std::tie(o.param, o.offset, o.place);
  }
};
using Things = std::set<Thing>;

class Follower {
 public:
  Follower(const PtxModule& m, const Entry& e, Guess* g) : m_(m), e_(e), g_(*g) {
    for (size_t k = 0; k < e.params.size(); ++k) numbers_[e.params[k]] = k;
    held_.resize(e.registers.size());
  }

  void Run() {
    for (int turn = 0; turn < 8 && changed_; ++turn) {
      changed_ = false;
      for (const Statement& s : e_.body) One(s);
    }
  }

 private:
  // What an operand that is an address, or a value, may be.
  Things Of(const Operand& o) const {
    Things out;
    if (o.kind == Operand::Kind::kAddress && !o.parts.empty()) {
      for (Thing t : Of(o.parts[0])) {
        if (t.place) t.offset += o.bits;
        out.insert(t);
      }
    } else if (o.kind == Operand::Kind::kRegister) {
      out = held_[static_cast<size_t>(o.reg)];
    } else if (o.kind == Operand::Kind::kSymbol) {
      if (auto it = numbers_.find(o.index); it != numbers_.end())
        out.insert({it->second, o.bits, true});
    }
    return out;
  }
  void Hold(const Operand& o, const Things& things) {
    if (o.kind != Operand::Kind::kRegister) return;
    Things& mine = held_[static_cast<size_t>(o.reg)];
    for (const Thing& t : things)
      if (mine.size() < kMostThings && mine.insert(t).second) changed_ = true;
  }
  Guess::Param& Param(const Thing& t) { return g_.params[t.param]; }

  void Load(const Statement& s) {
    int bytes = 0, lanes = 1;
    bool real = false;
    for (std::string_view m : s.mods) {
      if (m[0] == 'v' && m.size() == 2) lanes = m[1] - '0';
      if (const Type t = TypeFromName(m); t != Type::kNone)
        bytes = TypeBits(t) / 8, real = IsFloat(t);
    }
    for (const Thing& t : Of(s.operands[1])) {
      if (!t.place) continue;
      for (int k = 0; k < lanes; ++k) {
        const uint64_t at = t.offset + static_cast<uint64_t>(k * bytes);
        Param(t).words.emplace(at, real ? -bytes : bytes);
        if (bytes != 8) continue;
        const Operand& to = s.operands[0];
        const Things held = {{t.param, at, false}};
        if (to.kind == Operand::Kind::kVector)
          Hold(to.parts[std::min<size_t>(static_cast<size_t>(k), to.parts.size() - 1)], held);
        else
          Hold(to, held);
      }
    }
  }

  void Address(const Operand& o, int rank) {
    for (const Thing& t : Of(o)) {
      if (t.place && rank > 0) Param(t).maps[t.offset] = rank;
      if (!t.place) Param(t).pointers[t.offset] = true;
    }
  }

  void One(const Statement& s) {
    const auto& o = s.operands;
    if (s.opcode == "ld" && o.size() >= 2) Load(s);
    if (s.opcode == "tex" || s.opcode == "tld4" || s.opcode == "suld" || s.opcode == "sust" ||
        s.opcode == "txq" || s.opcode == "suq")
      for (const Operand& x : o)
        for (const Operand& part : x.parts)
          for (const Thing& t : Of(part)) Param(t).image = true;
    for (const Operand& x : o) {
      if (x.kind != Operand::Kind::kAddress) continue;
      const bool tensor = s.Has("tensor") && x.parts.size() > 1;
      Address(x, tensor && x.parts[1].kind == Operand::Kind::kVector
                     ? static_cast<int>(x.parts[1].parts.size())
                     : 0);
    }
    if (s.opcode == "tensormap" && s.Has("global_address") && o.size() == 2)
      for (const Thing& t : Of(o[1]))
        if (!t.place) Param(t).pointers[t.offset] = true;
    const bool moves = s.opcode == "mov" || s.opcode == "cvta" || s.opcode == "add" ||
                       s.opcode == "sub" || s.opcode == "selp" || s.opcode == "mad" ||
                       s.opcode == "or" || s.opcode == "and" || s.opcode == "shfl";
    if (!moves || o.size() < 2) return;
    for (size_t k = 1; k < o.size(); ++k) {
      Things things = Of(o[k]);
      if (s.opcode == "add" && o.size() == 3) {
        const Operand& other = o[3 - k];
        if (other.kind == Operand::Kind::kInt) {
          Things moved;
          for (Thing t : things) {
            if (t.place) t.offset += other.bits;
            moved.insert(t);
          }
          things = moved;
        }
      }
      Hold(o[0], things);
    }
  }

  const PtxModule& m_;
  const Entry& e_;
  Guess& g_;
  std::map<int32_t, size_t> numbers_;
  std::vector<Things> held_;
  bool changed_ = true;
};

bool Names(const Entry& e, Special special) {
  for (const Statement& s : e.body)
    for (const Operand& o : s.operands)
      if (o.kind == Operand::Kind::kSpecial && o.index == static_cast<int32_t>(special))
        return true;
  return false;
}

void Shape(const Entry& e, uint32_t block, Guess* g) {
  const bool y = Names(e, Special::kTidY), z = Names(e, Special::kTidZ);
  uint32_t most = 1024;
  if (e.maxntid[0] != 0) most = e.maxntid[0] * e.maxntid[1] * e.maxntid[2];
  if (e.reqntid[0] != 0) {
    std::copy(e.reqntid, e.reqntid + 3, g->block);
  } else if (block != 0) {
    g->block[0] = block;
  } else if (e.maxntid[0] != 0) {
    std::copy(e.maxntid, e.maxntid + 3, g->block);
  } else if (z) {
    g->block[0] = 8, g->block[1] = 4, g->block[2] = 4;
  } else if (y) {
    g->block[0] = 16, g->block[1] = 16;
  }
  if (uint64_t{g->block[0]} * g->block[1] * g->block[2] > most)
    g->block[0] = most, g->block[1] = g->block[2] = 1;
  if (e.reqcluster[0] != 0) std::copy(e.reqcluster, e.reqcluster + 3, g->cluster);
  const Special ids[] = {Special::kCtaidX, Special::kCtaidY, Special::kCtaidZ};
  for (int k = 0; k < 3; ++k) g->grid[k] = g->cluster[k] * (Names(e, ids[k]) && block == 0 ? 2 : 1);
}

}  // namespace

std::vector<std::pair<std::string, Guess>> GuessLaunches(const std::string& text) {
  std::vector<std::pair<std::string, Guess>> out;
  DiagSink diags;
  PtxPlaces places;
  places.name = "kernel.ptx";
  const auto parsed = ParsePtx(text, places, diags);
  if (!parsed.ok()) return out;
  constexpr std::string_view kLaunch = "// launch: block=";
  uint32_t block = 0;
  if (text.compare(0, kLaunch.size(), kLaunch) == 0)
    block = static_cast<uint32_t>(std::atoi(text.c_str() + kLaunch.size()));
  const PtxModule& m = **parsed;
  for (const Entry& e : m.entries) {
    Guess g;
    for (int32_t p : e.params) {
      g.params.emplace_back();
      g.params.back().bytes = m.variables[static_cast<size_t>(p)].bytes;
    }
    Follower(m, e, &g).Run();
    Shape(e, block, &g);
    for (const Variable& v : m.variables)
      if (v.space == Space::kShared && v.dynamic) g.dynamic_shared = 96 << 10;
    out.emplace_back(std::string(e.name), std::move(g));
  }
  return out;
}

}  // namespace tilec::corpus
