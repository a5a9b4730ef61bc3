// SPDX-License-Identifier: Apache-2.0
#include "tests/obeyed/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "tests/obeyed/counted.h"
#include "tests/obeyed/order.h"
#include "tests/obeyed/passes.h"
#include "tests/obeyed/waits.h"

namespace tilec::obeyed {
namespace {

// A role of the emitted program: warps that go the same ways.
struct Role {
  int first_warp = 0, warps = 0;
  std::set<int> reached;
};

std::vector<Role> RolesOf(const Code& code) {
  std::vector<Role> roles;
  for (int w = 0; w < code.warps(); ++w) {
    const std::set<int> reached = code.ReachedBy(w);
    const auto turning = [&](const Role& r) {
      for (const Loop& loop : code.loops())
        if (!loop.spin && r.reached.count(loop.header) != reached.count(loop.header)) return false;
      return true;
    };
    if (!roles.empty() && turning(roles.back())) {
      ++roles.back().warps;
      roles.back().reached.insert(reached.begin(), reached.end());
    } else {
      roles.push_back({w, 1, reached});
    }
  }
  return roles;
}

class Comparer {
 public:
  Comparer(const Code& code, const WantedLoop& wanted) : code_(code), wanted_(wanted) {
    // Products of types that the tensor core does not take are ordinary arithmetic.
    for (Wanted& op : wanted_.ops)
      op.product = op.product &&
                   std::any_of(code.instrs().begin(), code.instrs().end(), [&](const Instr& in) {
                     return in.at == op.at && in.s->opcode == "wgmma" && in.s->Has("mma_async");
                   });
    for (size_t o = 0; o < wanted_.ops.size(); ++o) TellApart(static_cast<int>(o));
  }

  Verdict Run() {
    const std::vector<Role> roles = RolesOf(code_);
    if (wanted_.apart) {
      std::map<int, std::set<int>> reached;
      for (const Role& role : roles) reached[NumberOf(role)] = role.reached;
      barriers_ = RingsOfPasses(code_, reached, wanted_.passes, &verdict_.faults);
    }
    std::vector<const Role*> compute;
    const Role* load = nullptr;
    for (const Role& role : roles)
      if (HasLoop(role, false))
        compute.push_back(&role);
      else if (HasLoop(role, true))
        load = &role;
    const size_t want = static_cast<size_t>(wanted_.slices);
    // Integers alone look like addresses: a loop of nothing else cannot be told from its control.
    const bool told = std::any_of(wanted_.ops.begin(), wanted_.ops.end(), [](const Wanted& op) {
      return op.slice != kNobody && (op.product || op.load || IsPass(op));
    });
    if (compute.empty() && !told) {
      verdict_.unseen += static_cast<int>(wanted_.ops.size());
      return std::move(verdict_);
    }
    // One turn needs no loop.
    if ((compute.empty() || wanted_.no_loop) && wanted_.too_few_turns) {
      ++verdict_.unpipelined;
      for (const Wanted& op : wanted_.ops)
        if (op.product && op.slice != kNobody && !Anywhere(op))
          Fault(fmt::format("{} at {} is nowhere", op.name, Show(op.at)));
      return std::move(verdict_);
    }
    // What decides a branch is at its place in the role that loads, too: where some multiply, those
    // compute.
    std::vector<const Role*> multiply;
    for (const Role* role : compute)
      if (Multiplies(*role)) multiply.push_back(role);
    if (compute.size() > want && multiply.size() == want) compute = std::move(multiply);
    if (compute.size() != want)
      Fault(
          fmt::format("{} compute roles turn the loop, the schedule has {}", compute.size(), want));
    Rings(load);
    for (size_t i = 0; i < compute.size() && i < want; ++i) {
      if (compute[i]->warps != wanted_.warps)
        Fault(fmt::format("compute role {} has {} warps, the schedule {}", i, compute[i]->warps,
                          wanted_.warps));
      Compute(*compute[i], wanted_.apart ? NumberOf(*compute[i])
                           : want == 1   ? -1
                                         : static_cast<int>(i));
    }
    return std::move(verdict_);
  }

 private:
  // Arithmetic is looked for at a place that it shares with no other op of its role, if it has one.
  void TellApart(int o) {
    Wanted& op = wanted_.ops[static_cast<size_t>(o)];
    if (op.product || op.load || IsPass(op) || Alone(o, op.slice)) return;
    const Loc at = op.at;
    for (Loc part : op.parts) {
      op.at = part;
      if (Alone(o, op.slice) &&
          std::any_of(code_.instrs().begin(), code_.instrs().end(),
                      [&](const Instr& in) { return in.at == part && OnTiles(*in.s); }))
        return;
    }
    op.at = at;
  }

  void Fault(std::string text) { verdict_.faults.push_back(std::move(text)); }
  void Take(Awaited seen) {
    for (std::string& fault : seen.faults) Fault(std::move(fault));
    verdict_.waits += seen.waits;
    verdict_.chained += seen.chained;
    verdict_.needed.insert(seen.needed.begin(), seen.needed.end());
  }

  bool Anywhere(const Wanted& op) const {
    for (size_t b = 0; b < code_.blocks().size(); ++b)
      if (!Instructions({static_cast<int>(b)}, op).empty()) return true;
    return false;
  }

  // Of a compute role that is as the schedule has it.
  int NumberOf(const Role& role) const { return role.first_warp / wanted_.warps; }

  // ---- tiles between roles --------------------------------------------------------------------

  // An event by which a tile is put, or taken.
  bool Passes(const Wanted& op, const Event& e) const {
    const Bytes full = barriers_[static_cast<size_t>(std::max(op.put, op.take))];
    const Event::Kind kind = op.put >= 0 ? Event::Kind::kArrive : Event::Kind::kFull;
    return e.kind == kind && full.begin <= e.number && e.number < full.end;
  }

  // ---- finding the loop ---------------------------------------------------------------------
  // Instructions in these blocks that belong to an op.
  std::vector<int> Instructions(const std::set<int>& blocks, const Wanted& op) const {
    std::vector<int> tiles, others;
    for (int b : blocks)
      for (int i : code_.blocks()[static_cast<size_t>(b)].instrs) {
        const Instr& in = code_.instrs()[static_cast<size_t>(i)];
        if (IsPass(op)) {
          if (Passes(op, code_.EventOf(i))) tiles.push_back(i);
          continue;
        }
        if (in.at != op.at) continue;
        const bool product = in.s->opcode == "wgmma" && in.s->Has("mma_async");
        const bool copy = in.s->opcode == "cp" && in.s->Has("tensor");
        if (op.product || op.load) {
          if (op.product ? product : copy) tiles.push_back(i);
        } else if (OnTiles(*in.s)) {
          tiles.push_back(i);
        }
      }
    return tiles;
  }
  bool Moves(const std::set<int>& blocks, const Wanted& op) const {
    for (int b : blocks)
      for (int i : code_.blocks()[static_cast<size_t>(b)].instrs) {
        const Instr& in = code_.instrs()[static_cast<size_t>(i)];
        if (in.at == op.at && MovesTiles(*in.s)) return true;
      }
    return false;
  }
  // Loops of a role that execute ops of the schedule.
  std::vector<const Loop*> LoopsOf(const Role& role, bool loads) const {
    std::vector<const Loop*> found;
    const int slice = wanted_.apart ? NumberOf(role) : -1;
    const bool products =
        std::any_of(wanted_.ops.begin(), wanted_.ops.end(),
                    [&](const Wanted& op) { return op.product && Mine(op, slice); });
    for (const Loop& loop : code_.loops()) {
      if (loop.spin || !role.reached.count(loop.header)) continue;
      bool any = false;
      for (const Wanted& op : wanted_.ops)
        if (loads ? op.load : Mine(op, slice) && (!products || op.product))
          any = any || !Instructions(loop.blocks, op).empty() ||
                (!loads && !products && Moves(loop.blocks, op));
      const bool outer = std::any_of(found.begin(), found.end(), [&](const Loop* inner) {
        return loop.blocks.count(inner->header) > 0;
      });
      if (any && !outer) found.push_back(&loop);
    }
    return found;
  }
  bool Multiplies(const Role& role) const {
    for (const Loop* loop : LoopsOf(role, false))
      for (int b : loop->blocks)
        for (int i : code_.blocks()[static_cast<size_t>(b)].instrs)
          if (code_.EventOf(i).kind == Event::Kind::kProduct) return true;
    return false;
  }
  bool HasLoop(const Role& role, bool loads) const { return !LoopsOf(role, loads).empty(); }

  // Blocks that no loop repeats more often than this one as a whole.
  std::set<int> Straight(const Loop& loop) const {
    std::set<int> blocks;
    for (size_t b = 0; b < code_.blocks().size(); ++b) {
      const int block = static_cast<int>(b);
      if (std::none_of(code_.loops().begin(), code_.loops().end(), [&](const Loop& l) {
            return !l.spin && l.blocks.count(block) &&
                   (l.header == loop.header || !l.blocks.count(loop.header));
          }))
        blocks.insert(block);
    }
    return blocks;
  }
  // Turns of an op before and behind a loop, in whole copies of what the loop holds.
  struct Copies {
    double before = 0, behind = 0;
  };
  Copies CopiesOf(const Loop& loop, const Wanted& op, const std::vector<int>& turn) const {
    // The blocks in front dominate the loop. Those behind follow from it; the loop itself may be
    // jumped over, but not the first turns, so what is behind is dominated by the last of those.
    std::set<int> before, behind;
    int anchor = loop.header;
    size_t last = 0;
    // Arithmetic there may also be what does not change in the loop, in front of which one can
    // turn off: products, if there are any, are the first turns'.
    bool products = false;
    for (int b : Straight(loop)) {
      if (!code_.Dominates(b, loop.header)) continue;
      before.insert(b);
      bool works = false, product = false;
      for (const Wanted& w : wanted_.ops) {
        const bool here = !Instructions({b}, w).empty();
        works = works || here;
        product = product || (here && w.product);
      }
      const size_t depth = code_.DominatorsOf(b);
      if ((product && !products) || (works && product == products && depth > last)) {
        last = depth;
        anchor = b;
      }
      products = products || product;
    }
    const std::set<int> after = code_.Following(loop);
    for (int b : Straight(loop))
      if (after.count(b) && code_.Dominates(anchor, b) && !before.count(b)) behind.insert(b);
    return {CopiesAmong(code_, Instructions(before, op), turn),
            CopiesAmong(code_, Instructions(behind, op), turn)};
  }

  // The lowering gives no ring more, whatever a schedule asks for (docs/lowering.md).
  static constexpr int kMostSlots = 8;

  // ---- rings --------------------------------------------------------------------------------
  // Ring (its full barrier's byte) to the loads that fill it; depths against the schedule's.
  void Rings(const Role* load) {
    std::set<int64_t> inits;
    for (const Instr& in : code_.instrs())
      if (in.s->text.substr(0, 13) == "mbarrier.init")
        inits.insert(code_.ByteOf(in.s->operands[0]));
    if (load == nullptr) return;
    std::map<int64_t, std::set<int>> rings;
    // Slots that copies go to, where all of them tell: of turns taken by twos each has every other.
    std::map<int64_t, std::optional<int64_t>> used;
    std::set<int64_t> bases;
    // In the loop slots are numbered at run time: what is constant is the ring.
    std::set<int> turning;
    for (const Loop* loop : LoopsOf(*load, true))
      turning.insert(loop->blocks.begin(), loop->blocks.end());
    for (int b : turning)
      for (int i : code_.blocks()[static_cast<size_t>(b)].instrs) {
        const Event e = code_.EventOf(i);
        if (e.kind == Event::Kind::kFull || e.kind == Event::Kind::kExpect) bases.insert(e.number);
        if (e.kind != Event::Kind::kCopy) continue;
        const auto reach = code_.ReachOf(code_.instrs()[static_cast<size_t>(i)].s->operands[2]);
        std::optional<int64_t>& slots = used.try_emplace(e.number, 0).first->second;
        if (!reach || !slots)
          slots.reset();
        else
          slots = std::max(*slots, *reach / 8 + 1);
        for (size_t o = 0; o < wanted_.ops.size(); ++o)
          if (wanted_.ops[o].load && wanted_.ops[o].at == e.at)
            rings[e.number].insert(static_cast<int>(o));
      }
    for (const auto& [ring, ops] : rings) {
      const auto next = bases.upper_bound(ring);
      int depth = 0;
      for (auto it = inits.lower_bound(ring);
           it != inits.end() && (next == bases.end() || *it < *next); ++it)
        ++depth;
      rings_[ring] = {next == bases.end() ? ring + 8 * depth : *next, ops};
      const auto told = used.find(ring);
      for (int o : ops) {
        const Wanted& op = wanted_.ops[static_cast<size_t>(o)];
        if (told != used.end() && told->second && *told->second < std::min(op.depth, kMostSlots) &&
            *told->second < depth)
          Fault(fmt::format("copies of {} go to {} of {} slots, the schedule has {}", op.name,
                            *told->second, depth, op.depth));
        if (depth < std::min(op.depth, kMostSlots))
          Fault(fmt::format("the ring of {} has {} slots, the schedule {}", op.name, depth,
                            op.depth));
      }
      ++verdict_.rings;
    }
  }

  // ---- order and stages -----------------------------------------------------------------------
  // Products of the role that share their place in the source, by their place in the turn.
  std::vector<int> Alike(const Wanted& op, int slice) const {
    std::vector<int> same;
    for (size_t o = 0; o < wanted_.ops.size(); ++o) {
      const Wanted& other = wanted_.ops[o];
      if (Mine(other, slice) && !IsPass(other) && other.product && other.at == op.at)
        same.push_back(static_cast<int>(o));
    }
    return same;
  }
  // Arithmetic that shares its place in the source with a part of another op of the role cannot be
  // told from that.
  bool Alone(int o, int slice) const {
    const Wanted& op = wanted_.ops[static_cast<size_t>(o)];
    if (IsPass(op)) return true;  // it has a ring of its own
    for (size_t i = 0; i < wanted_.ops.size(); ++i) {
      const Wanted& other = wanted_.ops[i];
      if (static_cast<int>(i) != o && Mine(other, slice) && !IsPass(other) &&
          other.parts.count(op.at))
        return false;
    }
    return true;
  }

  // Other warps or engines see it.
  static bool Outside(const Event& e) {
    return e.kind != Event::Kind::kCode && e.kind != Event::Kind::kProduct;
  }

  // Where in the turn an op's instructions stand.
  std::vector<size_t> PlacesOf(const Wanted& op, const std::vector<Event>& turn) const {
    std::vector<size_t> at;
    for (size_t i = 0; i < turn.size(); ++i) {
      if (turn[i].at != op.at && !IsPass(op)) continue;
      const bool mine = IsPass(op) ? Passes(op, turn[i])
                        : op.product
                            ? turn[i].kind == Event::Kind::kProduct
                            : turn[i].kind == Event::Kind::kCode &&
                                  OnTiles(*code_.instrs()[static_cast<size_t>(turn[i].instr)].s);
      if (mine) at.push_back(i);
    }
    return at;
  }

  std::vector<Seen> Look(const std::vector<Event>& turn, int slice) {
    std::vector<std::vector<size_t>> places(wanted_.ops.size()), alone;
    bool products = false;
    for (size_t o = 0; o < wanted_.ops.size(); ++o) {
      if (!Mine(wanted_.ops[o], slice)) continue;
      places[o] = PlacesOf(wanted_.ops[o], turn);
      products = products || wanted_.ops[o].product;
      if (Alone(static_cast<int>(o), slice)) alone.push_back(places[o]);
    }
    const size_t together = products ? 1 : TurnsTogether(alone);
    std::vector<Seen> seen;
    for (size_t o = 0; o < wanted_.ops.size(); ++o) {
      const Wanted& op = wanted_.ops[o];
      if (!Mine(op, slice)) continue;
      const std::vector<size_t>& at = places[o];
      if (at.empty() || (!op.product && !Alone(static_cast<int>(o), slice))) {
        if (op.product ||
            (IsPass(op) && barriers_[static_cast<size_t>(std::max(op.put, op.take))].end > 0))
          Fault(fmt::format("{} at {} is not in the turn", op.name, Show(op.at)));
        ++verdict_.unseen;
        continue;
      }
      size_t middle = MiddleOf(at, together);
      std::vector<int> alike;
      if (op.product) alike = Alike(op, slice);
      if (alike.size() > 1) {
        const size_t each = at.size() / alike.size();
        if (each * alike.size() != at.size())
          Fault(fmt::format("{} ops at {} make {} products", alike.size(), Show(op.at), at.size()));
        const auto which = std::find(alike.begin(), alike.end(), static_cast<int>(o));
        middle = at[static_cast<size_t>(which - alike.begin()) * each + each / 2];
      } else {
        alike.clear();
      }
      int stretch = 0;
      for (size_t i = 0; i < middle; ++i) stretch += Outside(turn[i]);
      std::vector<int> instrs;
      for (size_t i : at) instrs.push_back(turn[i].instr);
      seen.push_back({static_cast<int>(o), static_cast<double>(middle), std::move(instrs), -1, -1,
                      stretch, together > 1 && op.for_meeting, std::move(alike)});
    }
    std::sort(seen.begin(), seen.end(), [](const Seen& a, const Seen& b) { return a.at < b.at; });
    return seen;
  }

  // How many turns the loop is pipelined over: the same for all of its ops.
  int Span(const Loop& loop, const std::vector<Seen>& seen) const {
    std::map<double, int> votes;
    for (const Seen& s : seen) {
      const Copies c = CopiesOf(loop, wanted_.ops[static_cast<size_t>(s.op)], s.instrs);
      if (wanted_.ops[static_cast<size_t>(s.op)].unread > 0) continue;
      votes[c.before + c.behind] += wanted_.ops[static_cast<size_t>(s.op)].product ? 100 : 1;
    }
    int span = 0, most = 0;
    for (const auto& [copies, n] : votes)
      if (copies == static_cast<int>(copies) && n > most) {
        most = n;
        span = static_cast<int>(copies);
      }
    return span;
  }

  void Compute(const Role& role, int slice) {
    std::vector<const Loop*> loops = LoopsOf(role, false);
    // The copy of the loop for fewer turns than stages has nothing of it in front.
    const auto pipelined = [&](const Loop* loop) {
      for (const Wanted& op : wanted_.ops)
        if (Mine(op, slice) && CopiesOf(*loop, op, {0}).before > 0) return true;
      return false;
    };
    const bool steady = std::any_of(loops.begin(), loops.end(), pipelined);
    if (steady)
      loops.erase(
          std::remove_if(loops.begin(), loops.end(), [&](const Loop* l) { return !pipelined(l); }),
          loops.end());
    // Nothing of the schedule is in its order, but nothing of a turn may be in another.
    const bool in_program_order = wanted_.too_few_turns && !steady;
    verdict_.unpipelined += in_program_order;
    for (const Loop* loop : loops) {
      const std::vector<std::vector<Event>> turns = code_.Turns(*loop, role.first_warp);
      if (turns.empty()) Fault("a loop with too many ways through a turn");
      std::set<std::vector<Loc>> alike;
      for (const std::vector<Event>& turn : turns) {
        std::vector<Loc> places;
        for (const Event& e : turn)
          if (e.kind != Event::Kind::kCode || (!places.empty() && places.back() != e.at))
            places.push_back(e.at);
        if (!alike.insert(places).second) continue;
        ++verdict_.turns;
        std::vector<Seen> seen = Look(turn, slice);
        int span = Span(*loop, seen);
        for (Seen& s : seen) {
          const Wanted& op = wanted_.ops[static_cast<size_t>(s.op)];
          verdict_.products += op.product;
          verdict_.passes += IsPass(op);
          verdict_.masses += !op.product && !IsPass(op);
          Copies copies = CopiesOf(*loop, op, s.instrs);
          // Of turns whose results nobody reads there may be no copy.
          if (op.product && op.unread > 0 && copies.before + copies.behind < span)
            copies.behind = std::min(span - copies.before, copies.behind + op.unread);
          const auto whole = [](double x) { return x == static_cast<int>(x); };
          if (!op.product) {  // the first turns may be folded: not told then
            if (whole(copies.before) && whole(copies.behind) &&
                copies.before + copies.behind == span)
              s.stage = static_cast<int>(copies.behind);
            continue;
          }
          if (!s.alike.empty()) {
            s.mean = copies.behind;
            if (std::abs(copies.before + copies.behind - span) > 1e-6)
              Fault(
                  fmt::format("the products at {} stand {} times before and behind the loop, "
                              "others {} times",
                              Show(op.at), copies.before + copies.behind, span));
            continue;
          }
          s.before = static_cast<int>(copies.before + 0.5);
          s.stage = static_cast<int>(copies.behind + 0.5);
          if (s.before + s.stage != span || s.before != copies.before || s.stage != copies.behind)
            Fault(
                fmt::format("{} stands {} times before the loop and {} times behind it, others {} "
                            "times together",
                            op.name, copies.before, copies.behind, span));
        }
        if (in_program_order) {
          if (span > 0)
            Fault(fmt::format("ops of a loop in program order stand {} times behind it", span));
          continue;
        }
        int events = 0;
        for (const Event& e : turn) events += Outside(e);
        InOrder order = CheckOrder(wanted_, seen, events);
        for (std::string& fault : order.faults) Fault(std::move(fault));
        verdict_.moved += order.moved;
        // Two ops in a circle have one order only: then it is the stages that tell.
        for (size_t i = 0; i + 1 < seen.size(); ++i)
          if (!MayMove(wanted_, seen[i].op) && !MayMove(wanted_, seen[i + 1].op) &&
              wanted_.ops[static_cast<size_t>(seen[i].op)].along < 0 &&
              wanted_.ops[static_cast<size_t>(seen[i + 1].op)].along < 0 && seen[i].alike.empty() &&
              seen[i + 1].alike.empty() &&
              (seen.size() > 2 || (seen[i].stage >= 0 && seen[i + 1].stage >= 0)))
            verdict_.neighbours.push_back({seen[i].op, seen[i + 1].op});
        Take(CheckWaits(code_, wanted_, turn));
        Take(CheckFullBarriers(code_, wanted_, rings_, turn, slice));
      }
    }
  }

  const Code& code_;
  WantedLoop wanted_;
  Verdict verdict_;
  FilledRings rings_;
  std::vector<Bytes> barriers_;  // full, of the rings of passes
};

}  // namespace

Verdict Compare(const Code& code, const WantedLoop& wanted) { return Comparer(code, wanted).Run(); }

}  // namespace tilec::obeyed
