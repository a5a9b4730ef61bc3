// SPDX-License-Identifier: Apache-2.0
#include "tests/obeyed/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "tests/obeyed/comparer.h"
#include "tests/obeyed/counted.h"
#include "tests/obeyed/order.h"
#include "tests/obeyed/passes.h"
#include "tests/obeyed/waits.h"

namespace tilec::obeyed {

namespace {

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

}  // namespace

Comparer::Comparer(const Code& code, const WantedLoop& wanted) : code_(code), wanted_(wanted) {
  // Products of types that the tensor core does not take are ordinary arithmetic.
  for (Wanted& op : wanted_.ops)
    op.product =
        op.product && std::any_of(code.instrs().begin(), code.instrs().end(), [&](const Instr& in) {
          return in.at == op.at && in.s->opcode == "wgmma" && in.s->Has("mma_async");
        });
  for (size_t o = 0; o < wanted_.ops.size(); ++o) TellApart(static_cast<int>(o));
}

Verdict Comparer::Run() {
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
    Fault(fmt::format("{} compute roles turn the loop, the schedule has {}", compute.size(), want));
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

// Arithmetic is looked for at a place that it shares with no other op of its role, if it has one.
void Comparer::TellApart(int o) {
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

void Comparer::Take(Awaited seen) {
  for (std::string& fault : seen.faults) Fault(std::move(fault));
  verdict_.waits += seen.waits;
  verdict_.chained += seen.chained;
  verdict_.needed.insert(seen.needed.begin(), seen.needed.end());
}

bool Comparer::Anywhere(const Wanted& op) const {
  for (size_t b = 0; b < code_.blocks().size(); ++b)
    if (!Instructions({static_cast<int>(b)}, op).empty()) return true;
  return false;
}

// An event by which a tile is put, or taken.
bool Comparer::Passes(const Wanted& op, const Event& e) const {
  const Bytes full = barriers_[static_cast<size_t>(std::max(op.put, op.take))];
  const Event::Kind kind = op.put >= 0 ? Event::Kind::kArrive : Event::Kind::kFull;
  return e.kind == kind && full.begin <= e.number && e.number < full.end;
}

// ---- finding the loop ---------------------------------------------------------------------
// Instructions in these blocks that belong to an op.
std::vector<int> Comparer::Instructions(const std::set<int>& blocks, const Wanted& op) const {
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

bool Comparer::Moves(const std::set<int>& blocks, const Wanted& op) const {
  for (int b : blocks)
    for (int i : code_.blocks()[static_cast<size_t>(b)].instrs) {
      const Instr& in = code_.instrs()[static_cast<size_t>(i)];
      if (in.at == op.at && MovesTiles(*in.s)) return true;
    }
  return false;
}

// Loops of a role that execute ops of the schedule.
std::vector<const Loop*> Comparer::LoopsOf(const Role& role, bool loads) const {
  std::vector<const Loop*> found;
  const int slice = wanted_.apart ? NumberOf(role) : -1;
  const bool products = std::any_of(wanted_.ops.begin(), wanted_.ops.end(), [&](const Wanted& op) {
    return op.product && Mine(op, slice);
  });
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

bool Comparer::Multiplies(const Role& role) const {
  for (const Loop* loop : LoopsOf(role, false))
    for (int b : loop->blocks)
      for (int i : code_.blocks()[static_cast<size_t>(b)].instrs)
        if (code_.EventOf(i).kind == Event::Kind::kProduct) return true;
  return false;
}

// Blocks that no loop repeats more often than this one as a whole.
std::set<int> Comparer::Straight(const Loop& loop) const {
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

Comparer::Copies Comparer::CopiesOf(const Loop& loop, const Wanted& op,
                                    const std::vector<int>& turn) const {
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

// ---- rings --------------------------------------------------------------------------------
// Ring (its full barrier's byte) to the loads that fill it; depths against the schedule's.
void Comparer::Rings(const Role* load) {
  std::set<int64_t> inits;
  for (const Instr& in : code_.instrs())
    if (in.s->text.substr(0, 13) == "mbarrier.init") inits.insert(code_.ByteOf(in.s->operands[0]));
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
        Fault(
            fmt::format("the ring of {} has {} slots, the schedule {}", op.name, depth, op.depth));
    }
    ++verdict_.rings;
  }
}

Verdict Compare(const Code& code, const WantedLoop& wanted) { return Comparer(code, wanted).Run(); }

}  // namespace tilec::obeyed
