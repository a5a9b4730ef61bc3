// SPDX-License-Identifier: Apache-2.0
#include "ir/lower/channels.h"

#include <algorithm>

#include "ir/arms.h"
#include "ir/lower/waits.h"
#include "ir/queries.h"

namespace tilec::ir {
namespace {

constexpr int64_t kMostBarrierBytes = 1 << 20;  // that a full barrier counts
constexpr int64_t kEnoughSlots = 3;

// Do the two load tiles that lie alike, of one tensor?
bool SameTile(const Function& fn, const LayoutPlan& plan, OpId a, OpId b) {
  const Op &x = fn.ops[a], &y = fn.ops[b];
  const LoadPlan &px = plan.loads.at(a), &py = plan.loads.at(b);
  return x.operands[0] == y.operands[0] && x.s("modes") == y.s("modes") &&
         fn.type(x.results[0]) == fn.type(y.results[0]) && px.smem == py.smem &&
         px.zero_padding == py.zero_padding && px.threads == py.threads && px.chunk == py.chunk;
}

class ChannelPlanner {
 public:
  ChannelPlanner(const Function& fn, const LayoutPlan& plan, const std::vector<RoleNeeds>& needs,
                 int64_t room, bool joined)
      : fn_(fn), plan_(plan), needs_(needs), room_(room), joined_(joined) {}

  std::optional<ChannelSet> Run(NoProducer* why) {
    Walk(fn_.body);
    bool any_in_loop = false;
    std::vector<OpId> loads;
    for (OpId id : order_) NoteReads(id);
    for (OpId id : order_) {
      auto it = plan_.loads.find(id);
      if (it == plan_.loads.end() || !it->second.tma) continue;
      if (readers_[id].empty()) continue;
      Place(id);
    }
    if (joined_) Join();
    const std::vector<PlannedRing> placed = set_.rings;
    MergeSites();
    if (BytesOfSlots() * kEnoughSlots > room_) {
      set_.rings = placed;
      Part();
      MergeSites();
    }
    NoteNests();
    for (PlannedRing& c : set_.rings) {
      any_in_loop = any_in_loop || c.in_loop;
      for (const RingSite& site : c.sites)
        loads.insert(loads.end(), site.loads.begin(), site.loads.end());
    }
    if (!any_in_loop) {
      if (why) *why = {"threads alone read what its loops load, and load it where they read", {}};
      return std::nullopt;
    }
    std::optional<ProducerShare> share = ShareOfProducer(fn_, loads, why);
    if (!share) return std::nullopt;
    set_.share = *std::move(share);
    set_.joined = !joint_.empty();
    return std::move(set_);
  }

 private:
  void Walk(BlockId block) {
    for (OpId id : fn_.blocks[block].ops) {
      rank_[id] = static_cast<int64_t>(order_.size());
      order_.push_back(id);
      for (BlockId region : fn_.ops[id].regions) Walk(region);
    }
  }

  // Every op that reads the buffer of a TMA load: products through their operand plans, anything
  // that wants the tile in registers where it first uses it.
  void NoteReads(OpId id) {
    const Op& op = fn_.ops[id];
    if (auto it = plan_.dots.find(id); it != plan_.dots.end())
      for (const OperandPlan* o : {&it->second.a, &it->second.b})
        if (o->how == OperandPlan::How::kBuffer)
          AddReader(o->source, id, !it->second.flies(), it->second.unit != MatrixUnit::kNone);
    for (size_t i = 0; i < op.operands.size(); ++i) {
      if (op.kind == OpKind::kDot && i < 2) {
        const OperandPlan& o = i == 0 ? plan_.dots.at(id).a : plan_.dots.at(id).b;
        if (o.how != OperandPlan::How::kBuffer) AddReader(o.source, id, true);
        continue;
      }
      AddReader(op.operands[i], id, true);
    }
  }
  // `in_place`: a matrix unit reads it where the load has put it, not in registers.
  void AddReader(ValueId v, OpId reader, bool generic, bool in_place = false) {
    const Op* def = fn_.def(v);
    if (!def || def->kind != OpKind::kLoad) return;
    const OpId load = fn_.values[v].def;
    auto it = plan_.loads.find(load);
    if (it == plan_.loads.end() || !it->second.tma) return;
    if (!in_place && !it->second.registers) return;  // a transpose that only renames
    readers_[load].push_back({reader, generic});
  }

  void Place(OpId load) {
    const BlockId block = fn_.ops[load].block;
    PlannedRing c;
    RingSite site;
    site.loads = {load};
    for (const auto& [reader, generic] : readers_[load]) {
      const OpId at = AncestorIn(fn_, block, reader);
      CHECK(at.valid(), "a reader outside its load's block");
      for (size_t role = 0; role < needs_.size(); ++role) {
        if (needs_[role].ops.count(reader) == 0) continue;
        site.reads.insert(reader);
        const auto [it, fresh] = site.readers.try_emplace(static_cast<int>(role));
        RingSite::Readers& r = it->second;
        if (fresh || rank_[at] < rank_[r.first]) r.first = at;
        if (fresh || rank_[at] > rank_[r.last]) r.last = at;
      }
      c.generic_reads = c.generic_reads || generic;
    }
    if (site.readers.empty()) return;
    c.in_loop = c.in_loop || InLoop(fn_, load);
    c.bytes = ToldBytes(plan_.loads.at(load), fn_.type(fn_.ops[load].results[0]));
    if (!set_.rings.empty()) {
      PlannedRing& last = set_.rings.back();
      RingSite& before = last.sites.back();
      const bool alike =  // threads of the load role copy all that a slot holds, or nothing of it
          (plan_.loads.at(before.loads.back()).chunk > 0) == (plan_.loads.at(load).chunk > 0);
      if (alike && fn_.ops[before.loads.back()].block == block && before.readers == site.readers &&
          last.bytes + c.bytes < kMostBarrierBytes) {
        before.loads.push_back(load);
        before.reads.insert(site.reads.begin(), site.reads.end());
        last.generic_reads = last.generic_reads || c.generic_reads;
        last.bytes += c.bytes;
        return;
      }
    }
    c.sites.push_back(std::move(site));
    set_.rings.push_back(std::move(c));
  }

  // The same roles read both.
  static bool SameRoles(const RingSite& a, const RingSite& b) {
    return std::equal(a.readers.begin(), a.readers.end(), b.readers.begin(), b.readers.end(),
                      [](const auto& x, const auto& y) { return x.first == y.first; });
  }
  // Does the second move tiles of the same kind, so that the ring of the first can serve both? All
  // of them, or a part of those that are joined.
  bool SameTiles(const RingSite& a, const RingSite& b) const {
    if (!SameRoles(a, b)) return false;
    if (a.loads.size() == b.loads.size()) {
      for (size_t i = 0; i < a.loads.size(); ++i)
        if (!SameTile(fn_, plan_, a.loads[i], b.loads[i])) return false;
      return true;
    }
    return joint_.count(a.loads[0]) > 0 &&
           std::all_of(b.loads.begin(), b.loads.end(), [&](OpId load) { return Has(a, load); });
  }
  bool Has(const RingSite& site, OpId like) const {
    return std::any_of(site.loads.begin(), site.loads.end(),
                       [&](OpId load) { return SameTile(fn_, plan_, load, like); });
  }
  // The innermost loop around a site; invalid: its loop has others inside, or there is none.
  OpId OwnLoop(const RingSite& site) const {
    const OpId loop = LoopAround(fn_, site.loads[0]);
    if (!loop.valid() || fn_.ops[loop].kind != OpKind::kFor) return {};
    const std::vector<OpId> inside = OpsInside(fn_, loop);
    const bool others = std::any_of(inside.begin(), inside.end(),
                                    [&](OpId id) { return IsLoop(fn_.ops[id].kind); });
    return others ? OpId() : loop;
  }
  bool ReadByProducts(const PlannedRing& ring) const {
    const RingSite& site = ring.sites[0];
    return !ring.generic_reads && std::all_of(site.loads.begin(), site.loads.end(), [&](OpId id) {
      return plan_.loads.at(id).chunk == 0 && !plan_.loads.at(id).registers;
    });
  }
  // Are threads the readers that an operand of a product in the loop is made by?
  bool Decodes(OpId loop) const {
    const std::vector<OpId> inside = OpsInside(fn_, loop);
    return std::any_of(inside.begin(), inside.end(), [&](OpId id) {
      return fn_.ops[id].kind == OpKind::kDot && DecodedByThreads(fn_, fn_.ops[id].operands[0]);
    });
  }
  bool Joinable(const PlannedRing& ring) const {
    const OpId loop = OwnLoop(ring.sites[0]);
    return loop.valid() && (ReadByProducts(ring) || Decodes(loop));
  }
  // Loads of one block of a loop, of different tiles, whose readers are products, or which threads
  // make an operand of.
  void Join() {
    std::vector<PlannedRing> rings;
    for (PlannedRing& c : set_.rings) {
      RingSite& site = c.sites[0];
      PlannedRing* home = nullptr;
      for (PlannedRing& m : rings) {
        const RingSite& other = m.sites[0];
        if (Joinable(m) && Joinable(c) &&
            fn_.ops[other.loads[0]].block == fn_.ops[site.loads[0]].block &&
            SameRoles(other, site) && m.bytes + c.bytes < kMostBarrierBytes &&
            std::none_of(site.loads.begin(), site.loads.end(),
                         [&](OpId load) { return Has(other, load); }))
          home = &m;
      }
      if (!home) {
        rings.push_back(std::move(c));
        continue;
      }
      RingSite& to = home->sites[0];
      to.loads.insert(to.loads.end(), site.loads.begin(), site.loads.end());
      to.reads.insert(site.reads.begin(), site.reads.end());
      for (auto& [role, readers] : to.readers) {
        const RingSite::Readers& more = site.readers.at(role);
        if (rank_[more.first] < rank_[readers.first]) readers.first = more.first;
        if (rank_[more.last] > rank_[readers.last]) readers.last = more.last;
      }
      home->bytes += c.bytes;
      home->generic_reads = home->generic_reads || c.generic_reads;
      joint_.insert(to.loads[0]);
    }
    // The whole slots come first: the others fill parts of them.
    std::stable_partition(rings.begin(), rings.end(), [&](const PlannedRing& c) {
      return joint_.count(c.sites[0].loads[0]) > 0;
    });
    set_.rings = std::move(rings);
  }
  int64_t BytesOfSlots() const {
    int64_t bytes = 0;
    for (const PlannedRing& c : set_.rings) bytes += c.bytes;
    return bytes;
  }
  // Loads that came together in one place of the program and one by one in another (a masked
  // version, whose threads read one of them first) have a ring each, which then serves both places:
  // a wait more in each iteration, but half of the shared memory. (H200, dW of 64 experts: in
  // 128x256x64 1181 us with two slots, 1092 with four by this; in 128x256x32, which has four
  // anyway, 1030 and 1211.)
  void Part() {
    std::vector<PlannedRing> rings;
    for (const PlannedRing& c : set_.rings) {
      const RingSite& site = c.sites[0];
      const bool part = site.loads.size() > 1 && joint_.count(site.loads[0]) == 0 &&
                        std::any_of(set_.rings.begin(), set_.rings.end(), [&](const auto& other) {
                          return IsPartOf(other.sites[0], site);
                        });
      if (!part) {
        rings.push_back(c);
        continue;
      }
      for (OpId load : site.loads) {
        PlannedRing own = c;
        own.sites[0].loads = {load};
        own.sites[0].reads.clear();
        own.generic_reads = false;
        own.bytes = ToldBytes(plan_.loads.at(load), fn_.type(fn_.ops[load].results[0]));
        for (const auto& [reader, generic] : readers_.at(load)) {
          if (site.reads.count(reader)) own.sites[0].reads.insert(reader);
          own.generic_reads = own.generic_reads || generic;
        }
        rings.push_back(std::move(own));
      }
    }
    set_.rings = std::move(rings);
  }
  // Has every load of `a` its like among those of `b`, which has others beside?
  bool IsPartOf(const RingSite& a, const RingSite& b) const {
    return a.loads.size() < b.loads.size() && SameRoles(a, b) && Apart(a, b) &&
           std::all_of(a.loads.begin(), a.loads.end(), [&](OpId load) { return Has(b, load); });
  }
  // The last position inside `id`.
  int64_t EndOf(OpId id) const {
    int64_t last = rank_.at(id);
    for (BlockId region : fn_.ops[id].regions)
      for (OpId inner : fn_.blocks[region].ops) last = std::max(last, EndOf(inner));
    return last;
  }
  // Does every role take the two one after the other, in the order in which they are loaded?
  bool Apart(const RingSite& a, const RingSite& b) const {
    if (rank_.at(a.loads.front()) > rank_.at(b.loads.front())) return Apart(b, a);
    for (const auto& [role, x] : a.readers)
      if (EndOf(x.last) >= rank_.at(b.readers.at(role).first)) return false;
    return true;
  }
  void MergeSites() {
    std::vector<PlannedRing> merged;
    for (PlannedRing& c : set_.rings) {
      PlannedRing* home = nullptr;
      for (PlannedRing& m : merged) {
        bool fits = SameTiles(m.sites[0], c.sites[0]);
        for (const RingSite& site : m.sites) fits = fits && Apart(site, c.sites[0]);
        if (fits) home = &m;
      }
      if (!home) {
        merged.push_back(std::move(c));
        continue;
      }
      if (c.bytes != home->bytes) c.sites[0].bytes = c.bytes;
      home->sites.push_back(std::move(c.sites[0]));
      home->generic_reads = home->generic_reads || c.generic_reads;
      home->in_loop = home->in_loop || c.in_loop;
    }
    set_.rings = std::move(merged);
    if (!joint_.empty()) InProgramOrder();
  }
  void InProgramOrder() {
    const auto place = [&](const RingSite& site) { return rank_.at(site.loads[0]); };
    for (PlannedRing& c : set_.rings)
      std::stable_sort(c.sites.begin(), c.sites.end(),
                       [&](const RingSite& a, const RingSite& b) { return place(a) < place(b); });
    std::stable_sort(set_.rings.begin(), set_.rings.end(),
                     [&](const PlannedRing& a, const PlannedRing& b) {
                       return place(a.sites[0]) < place(b.sites[0]);
                     });
  }

  // The loops around an op, innermost first.
  std::vector<OpId> LoopsAround(OpId id) const {
    std::vector<OpId> loops;
    for (OpId loop = LoopAround(fn_, id); loop.valid(); loop = LoopAround(fn_, loop))
      loops.push_back(loop);
    return loops;
  }
  void NoteNests() {
    std::set<OpId> outer;
    for (const PlannedRing& c : set_.rings)
      for (const RingSite& site : c.sites) {
        const std::vector<OpId> loops = LoopsAround(site.loads[0]);
        for (size_t i = 1; i < loops.size(); ++i) outer.insert(loops[i]);
      }
    for (PlannedRing& c : set_.rings) {
      c.around = true;
      for (const RingSite& site : c.sites) {
        const std::vector<OpId> loops = LoopsAround(site.loads[0]);
        c.around = c.around && !loops.empty() && outer.count(loops[0]) > 0;
      }
    }
  }

  const Function& fn_;
  const LayoutPlan& plan_;
  const std::vector<RoleNeeds>& needs_;
  ChannelSet set_;
  std::vector<OpId> order_;
  std::map<OpId, int64_t> rank_;
  std::map<OpId, std::vector<std::pair<OpId, bool>>> readers_;
  const int64_t room_;
  const bool joined_;
  std::set<OpId> joint_;  // the first load of each site that is joined
};

}  // namespace

std::optional<ChannelSet> PlanChannels(const Function& fn, const LayoutPlan& plan,
                                       const std::vector<RoleNeeds>& needs, int64_t room,
                                       bool joined, NoProducer* why) {
  return ChannelPlanner(fn, plan, needs, room, joined).Run(why);
}

OpId FirstOfPlace(const Function& fn, const LayoutPlan& plan, const PlannedRing& ring, size_t site,
                  OpId load) {
  const std::vector<OpId>& own = ring.sites[site].loads;
  const bool whole = std::all_of(ring.sites.begin(), ring.sites.end(), [&](const RingSite& other) {
    return other.loads.size() == own.size();
  });
  if (whole) {
    const auto place = std::find(own.begin(), own.end(), load) - own.begin();
    return ring.sites[0].loads[static_cast<size_t>(place)];
  }
  for (const RingSite& other : ring.sites)
    for (OpId first : other.loads)
      if (SameTile(fn, plan, first, load)) return first;
  return load;
}

int64_t BoxBytes(const Type& tile, const SmemLayout& smem) {
  return tile.shape[0] * CeilDiv(tile.shape[1], smem.panel_cols) * smem.panel_cols *
         ByteSize(tile.dtype);
}

int64_t ToldBytes(const LoadPlan& load, const Type& tile) {
  return load.threads ? 0 : BoxBytes(load.Own(tile), load.smem);
}

}  // namespace tilec::ir
