// SPDX-License-Identifier: Apache-2.0
#include "tests/obeyed/waits.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tests/obeyed/order.h"

namespace tilec::obeyed {
namespace {

// Products that one commit ends.
struct Group {
  std::set<emu::RegId> results, operands;
  std::set<emu::RegId> rows;  // of the operands those that hold a tile
  Loc at;                     // of its last product
  bool Holds(emu::RegId r) const { return results.count(r) > 0; }
};

// `rows` of the product: its first operand, where that is a list.
std::vector<emu::RegId> RowsOf(const Instr& product) {
  std::vector<emu::RegId> rows;
  if (product.s->operands.size() > 1)
    for (const emu::Operand& part : product.s->operands[1].parts) rows.push_back(part.reg);
  return rows;
}

class Waiter {
 public:
  Waiter(const Code& code, const WantedLoop& wanted, const std::vector<Event>& turn)
      : code_(code), wanted_(wanted), turn_(turn) {
    for (int i = 0; i < 3; ++i) thrice_.insert(thrice_.end(), turn.begin(), turn.end());
  }

  Awaited Run() {
    size_t under_way = 0;  // after the second turn
    for (size_t i = 0; i < thrice_.size(); ++i) {
      if (i == 2 * turn_.size()) under_way = pending_.size();
      const Event& e = thrice_[i];
      const Instr& in = InstrOf(e);
      if (e.kind == Event::Kind::kProduct) {
        open_.results.insert(in.writes.begin(), in.writes.end());
        for (emu::RegId r : in.reads)
          if (!std::count(in.writes.begin(), in.writes.end(), r)) open_.operands.insert(r);
        for (emu::RegId r : RowsOf(in)) open_.rows.insert(r);
        open_.at = e.at;
      } else if (e.kind == Event::Kind::kCommit) {
        pending_.push_back(std::move(open_));
        open_ = Group();
      } else if (e.kind != Event::Kind::kWait && in.s->opcode == "mov") {
        // The register allocator's: the result has another name from here on.
        const auto rename = [&](std::set<emu::RegId>& results) {
          if (std::any_of(in.reads.begin(), in.reads.end(),
                          [&](emu::RegId r) { return results.count(r) != 0; }))
            results.insert(in.writes.begin(), in.writes.end());
        };
        rename(open_.results);
        for (Group& group : pending_) rename(group.results);
      } else if (e.kind == Event::Kind::kWait) {
        Ends(i);
      } else if (LookedAt(i)) {
        TooEarly(e, in);
      }
    }
    if (pending_.size() > under_way)
      Fault(fmt::format("products pile up, turn after turn: no wait ends that at {}",
                        Show(pending_.back().at)));
    if (waits_.size() == 1) out_.needed.insert(waits_.front());
    return std::move(out_);
  }

 private:
  const Instr& InstrOf(const Event& e) const {
    return code_.instrs()[static_cast<size_t>(e.instr)];
  }
  bool LookedAt(size_t i) const { return i >= turn_.size() && i < 2 * turn_.size(); }
  void Fault(std::string text) { out_.faults.push_back(std::move(text)); }

  // It reads what a product under way makes, or writes what that reads.
  void TooEarly(const Event& e, const Instr& in) {
    const auto touches = [&](const Group& group) {
      for (emu::RegId r : in.reads)
        if (group.Holds(r)) return true;
      for (emu::RegId r : in.writes)
        if (group.rows.count(r)) return true;
      return false;
    };
    const auto group = std::find_if(pending_.begin(), pending_.end(), touches);
    const bool uncommitted = touches(open_);
    if (group == pending_.end() && !uncommitted) return;
    const Loc product = uncommitted ? open_.at : group->at;
    if (said_.insert({e.at, product}).second)
      Fault(fmt::format("the product at {} is under way where its registers are used at {}",
                        Show(product), Show(e.at)));
  }

  // A wait for products ends one whose result is read, or whose register operand is written again,
  // before the next wait: otherwise a later or a weaker one would do. Only the end of a turn may
  // await more, where the compiler has said so.
  void Ends(size_t i) {
    const Event& e = thrice_[i];
    const size_t keep = std::min(pending_.size(), static_cast<size_t>(e.number));
    const bool looked_at = LookedAt(i);
    out_.waits += looked_at;
    if (looked_at) waits_.push_back(InstrOf(e).s->line);
    if (keep == pending_.size()) {
      if (looked_at) Fault(fmt::format("the wait at {} ends no product", Show(e.at)));
      return;
    }
    Group youngest = pending_[pending_.size() - keep - 1];
    pending_.erase(pending_.begin(), pending_.end() - static_cast<std::ptrdiff_t>(keep));
    if (!looked_at) return;
    bool demanded = false, more = false, chained = false;
    const bool remakes = Remakes(e.at, youngest.at);
    for (size_t j = i + 1; j < thrice_.size() && !demanded; ++j) {
      if (thrice_[j].kind == Event::Kind::kWait) {
        more = true;
        if (wanted_.strict && !remakes) break;
      }
      const Instr& next = InstrOf(thrice_[j]);
      const bool product = thrice_[j].kind == Event::Kind::kProduct;
      // A buffer that no ring has: it is filled again when the product has read it.
      const bool stores = next.s->opcode == "st" && next.s->Has("shared");
      demanded =
          demanded || ((stores || next.s->opcode == "stmatrix") && !(more && wanted_.strict));
      const bool copies = next.s->opcode == "mov";
      for (emu::RegId r : next.reads) {
        if (!youngest.results.count(r) || (more && wanted_.strict)) continue;
        if (copies) youngest.results.insert(next.writes.begin(), next.writes.end());
        chained = chained || product;
        demanded = demanded || (!copies && !product);
        if (!copies && !product && !more) out_.needed.insert(InstrOf(e).s->line);
      }
      for (emu::RegId r : next.writes)
        demanded = demanded || (youngest.operands.count(r) && !copies);
    }
    // Not obeyed yet: a result that only goes into the next product needs no wait between.
    if (!demanded && chained && more) {
      ++out_.chained;
      return;
    }
    // A load without a ring goes into one slot, and awaits whoever reads it.
    if (demanded || wanted_.loads_lost) return;
    if (wanted_.awaited_at_end == 0 || !AtEnd(i))
      Fault(
          fmt::format("the wait at {} (pending {}) is stronger than the order demands: nobody "
                      "reads the youngest product it ends",
                      Show(e.at), e.number));
  }

  // Does nothing of the turn follow? Arithmetic of which the turn has some in front of the wait, or
  // that has no op's place, is what LLVM moved down: what both arms of a branch have is made once,
  // behind them (`obeyed.both_arms`).
  bool AtEnd(size_t wait) const {
    std::set<Loc> begun;
    for (size_t j = turn_.size(); j < wait; ++j)
      if (OnTiles(*InstrOf(thrice_[j]).s)) begun.insert(InstrOf(thrice_[j]).at);
    for (size_t j = wait + 1; j < 2 * turn_.size(); ++j) {
      const Instr& next = InstrOf(thrice_[j]);
      if (thrice_[j].kind == Event::Kind::kProduct || thrice_[j].kind == Event::Kind::kWait)
        return false;
      if (OnTiles(*next.s) && IsOfOp(next.at) && begun.count(next.at) == 0) return false;
    }
    return true;
  }
  bool IsOfOp(Loc place) const {
    return std::any_of(wanted_.ops.begin(), wanted_.ops.end(), [&](const Wanted& op) {
      return op.at == place || op.parts.count(place) > 0;
    });
  }

  // Is it a place at which a register operand of the product is made? The wait in front of it is
  // for the product that reads the old one; LLVM may have moved the instructions that write it
  // down, behind another wait.
  bool Remakes(Loc place, Loc product) const {
    return std::any_of(wanted_.ops.begin(), wanted_.ops.end(), [&](const Wanted& op) {
      if (!op.product || op.at != product) return false;
      return std::any_of(op.reads.begin(), op.reads.end(), [&](int made) {
        const Wanted& source = wanted_.ops[static_cast<size_t>(made)];
        return !source.load && !source.product && source.at == place;
      });
    });
  }

  const Code& code_;
  const WantedLoop& wanted_;
  const std::vector<Event>& turn_;
  std::vector<Event> thrice_;
  std::vector<Group> pending_;
  Group open_;
  std::set<std::pair<Loc, Loc>> said_;
  std::vector<int> waits_;  // lines of the turn's
  Awaited out_;
};

}  // namespace

Awaited CheckWaits(const Code& code, const WantedLoop& wanted, const std::vector<Event>& turn) {
  return Waiter(code, wanted, turn).Run();
}

namespace {

class Filler {
 public:
  Filler(const Code& code, const WantedLoop& wanted, const FilledRings& rings,
         const std::vector<Event>& turn, int slice)
      : code_(code), wanted_(wanted), rings_(rings), turn_(turn), slice_(slice) {}

  Awaited Run() {
    std::set<int64_t> awaited;
    std::set<Loc> said;
    for (size_t i = 0; i < turn_.size(); ++i) {
      const Event& e = turn_[i];
      if (e.kind == Event::Kind::kProduct && !IsFilled(e, awaited) && said.insert(e.at).second)
        out_.faults.push_back(fmt::format("the product at {} does not await its ring", Show(e.at)));
      if (e.kind != Event::Kind::kFull) continue;
      const auto ring = RingOf(e);
      if (ring == rings_.end()) continue;
      awaited.insert(ring->first);
      for (int load : ring->second.loads)
        lines_[load].insert(code_.instrs()[static_cast<size_t>(e.instr)].s->line);
      InFront(i, ring->second);
    }
    for (const Wanted* op : Products())
      for (int load : op->reads)
        if (lines_.count(load) && lines_.at(load).size() == 1 && Alone(*op))
          out_.needed.insert(*lines_.at(load).begin());
    return std::move(out_);
  }

 private:
  std::vector<const Wanted*> Products() const {
    std::vector<const Wanted*> ops;
    for (const Wanted& op : wanted_.ops)
      if (Mine(op, slice_) && op.product) ops.push_back(&op);
    return ops;
  }
  bool Alone(const Wanted& product) const {
    const std::vector<const Wanted*> ops = Products();
    return std::count_if(ops.begin(), ops.end(),
                         [&](const Wanted* op) { return op->at == product.at; }) == 1;
  }
  FilledRings::const_iterator RingOf(const Event& e) const {
    auto it = rings_.upper_bound(e.number);
    if (it == rings_.begin()) return rings_.end();
    --it;
    return e.number < it->second.end ? it : rings_.end();
  }

  // Has some op at its place all the loads it reads? Slices have rings of their own of one load in
  // the source: which is whose is not told, one of them is awaited.
  bool IsFilled(const Event& product, const std::set<int64_t>& awaited) const {
    bool any = false, filled = false;
    for (const Wanted* op : Products()) {
      if (op->at != product.at) continue;
      any = true;
      filled = filled || std::all_of(op->reads.begin(), op->reads.end(), [&](int load) {
                 bool rings = false, waits = false;
                 for (const auto& [first, ring] : rings_)
                   if (ring.loads.count(load)) {
                     rings = true;
                     waits = waits || awaited.count(first) > 0;
                   }
                 return waits || !rings;
               });
    }
    return filled || !any;
  }

  // Right behind the wait stands a product that reads the ring, if only products do.
  void InFront(size_t i, const Filled& ring) {
    size_t next = i;
    while (next < turn_.size() && turn_[next].kind != Event::Kind::kProduct) ++next;
    if (next == turn_.size()) return;
    bool product_reads = false, this_one = false, threads_read = false;
    for (const Wanted& op : wanted_.ops)
      if (Mine(op, slice_))
        for (int load : ring.loads)
          if (Reads(op, load)) {
            threads_read = threads_read || !op.product;
            product_reads = true;
            this_one = this_one || op.at == turn_[next].at;
          }
    if (product_reads && !threads_read && !this_one)
      out_.faults.push_back(fmt::format(
          "a ring is awaited at {}, before a product that does not read it", Show(turn_[i].at)));
  }

  const Code& code_;
  const WantedLoop& wanted_;
  const FilledRings& rings_;
  const std::vector<Event>& turn_;
  const int slice_;
  std::map<int, std::set<int>> lines_;  // of waits for its rings, by load
  Awaited out_;
};

}  // namespace

Awaited CheckFullBarriers(const Code& code, const WantedLoop& wanted, const FilledRings& rings,
                          const std::vector<Event>& turn, int slice) {
  return Filler(code, wanted, rings, turn, slice).Run();
}

}  // namespace tilec::obeyed
