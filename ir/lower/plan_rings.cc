// What passes between roles: rings that the producer fills, order tokens, tiles from one compute
// role to another, tiles that CTAs of a cluster combine. How many slots, who fills and who empties
// them, how many arrivals end a phase.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ir/layout.h"
#include "ir/lower/emit_rules.h"
#include "ir/lower/program_planner.h"
#include "ir/lower/role_needs.h"
#include "ir/lower/scalars.h"
#include "ir/pushed_tile.h"
#include "ir/queries.h"

namespace tilec::ir {

namespace {

// How many tiles the making role may be ahead, beyond what the program's own order needs.
constexpr int64_t kAhead = 1;
bool SameSpan(Span a, Span b) { return a.file == b.file && a.begin == b.begin && a.end == b.end; }

// Of an exchange between CTAs: columns of the buffer as the type has it (128 bytes a row), and
// barriers: written, added up, no consumer left. Of slices nobody collects what was added up, and
// where only one tile is exchanged, its buffer stays as it is until the CTAs meet at their ends.
constexpr int64_t kColumns = 32, kExchangeBarriers = 3, kSliceBarriers = 2, kLastBarriers = 1;

// Registers of a thread in each part: accesses of 16 bytes, though the last parts have less then.
int64_t RegistersOfPart(int64_t regs, int64_t parts) {
  constexpr int64_t kWidest = 4, kFew = 2;
  const int64_t count = CeilDiv(regs, parts);
  return parts == 1 || count <= kFew ? count : CeilDiv(count, kWidest) * kWidest;
}

}  // namespace

bool SlicesFit(const LayoutPlan& plan, const Op& reduce, const Type& slice) {
  const auto from = plan.layouts.find(reduce.operands[0]);
  const auto to = plan.layouts.find(reduce.results[0]);
  if (from == plan.layouts.end() || to == plan.layouts.end()) return false;
  const int64_t width = slice.shape.back(), columns = from->second.Extent().back();
  for (int64_t p = 0; p < reduce.i("slices"); ++p)
    if (!ColumnsMap(from->second, to->second, p * width, columns)) return false;
  return true;
}

// As deep as the schedule says, if somebody wrote it; else as deep as is tried. Rings outside of
// loops need one slot; those around the loops of others as many as the solved nest says, where
// there is room beside what the loops inside need.
int64_t ProgramPlanner::SlotsOf(size_t index) {
  const PlannedRing& ring = p_.rings[index];
  const ScheduledResources* scheduled = options_.scheduled;
  int64_t wanted = 0;  // its loads may have rings of their own in the schedule: the deepest counts
  int64_t nest = 0;    // likewise of the nest
  bool parts = false;  // of its slots are filled
  for (const RingSite& site : ring.sites) {
    parts = parts || site.bytes > 0;
    for (OpId load : site.loads)
      for (size_t i = 0; scheduled && i < scheduled->rings.size(); ++i)
        if (const auto& of = scheduled->rings[i]; SameSpan(of.load, in_.ops[load].at))
          (of.around ? nest : wanted) = std::max(of.around ? nest : wanted, of.slots);
  }
  const int64_t deep = p_.pair ? std::min<int64_t>(depth_, kDeepestOfIssuer)
                       : parts ? std::min<int64_t>(depth_, std::max(wanted, kDeepestOfParts))
                               : depth_;
  const int64_t slots = ring.in_loop && !ring.around ? deep : 1;
  if (!scheduled) return slots;
  // Read in the loops inside, that is: what is read behind them is loaded behind them, too. Not
  // beside tiles that are combined with memory: their places fill the registers that a second
  // slot's take (attention_dqkv at D = 64 spilled 40 + 56 bytes).
  const std::vector<OpId> all = OpsInOrder(in_);
  const bool combines = std::any_of(all.begin(), all.end(), [&](OpId id) {
    return in_.ops[id].kind == OpKind::kAtomic && ir::InLoop(in_, id);
  });
  bool inside = false;
  for (const RingSite& site : ring.sites)
    for (const auto& [role, readers] : site.readers)
      inside = inside || !in_.ops[readers.last].regions.empty();
  if (ring.in_loop && ring.around && nest == 1 && inside && !combines && options_.next_tile &&
      !scheduled->binding) {
    constexpr int64_t kNextTile = 2;
    p_.changed.push_back({"ring" + std::to_string(index) + ".slots", nest, kNextTile,
                          "as_deep_as_shared_memory_allows"});
    return kNextTile;
  }
  if (ring.in_loop && ring.around && nest > 1) {
    if (options_.outer_slots || scheduled->binding) return nest;
    p_.changed.push_back({"ring" + std::to_string(index) + ".slots", nest, 1,
                          "rings_of_the_loops_inside_take_the_shared_memory"});
    return 1;
  }
  if (wanted == 0 || wanted == slots) return slots;
  const std::string what = "ring" + std::to_string(index) + ".slots";
  if (!ring.in_loop) return slots;  // a prologue's: it is filled once
  if (ring.around) {
    p_.changed.push_back({what, wanted, slots, "its_loop_contains_another_one_with_rings"});
    return slots;
  }
  if (scheduled->binding) return wanted;
  p_.changed.push_back(
      {what, wanted, slots,
       slots > wanted ? "as_deep_as_shared_memory_allows" : "the_deepest_that_fits_and_is_proved"});
  return slots;
}

void ProgramPlanner::PlanRings() {
  for (size_t i = 0; i < p_.rings.size(); ++i) {
    PlannedRing& ring = p_.rings[i];
    ring.slots = SlotsOf(i);
    ring.arrivals = int64_t{p_.ReleasedByCommit(ring) ? 1 : p_.warps_per_role()} *
                    static_cast<int64_t>(ring.sites[0].readers.size());
    for (const RingSite& site : ring.sites)
      for (OpId load : site.loads)
        if (CanShare(load)) p_.multicast.insert(load), ring.multicast = true;
    if (ring.multicast) p_.cluster = cluster_;
    // What is filled once need not be released early.
    const bool early = ring.in_loop && !ring.generic_reads;
    for (size_t k = 0; k < ring.sites.size(); ++k) {
      const RingSite& site = ring.sites[k];
      for (const auto& [role, readers] : site.readers) {
        p_.awaits[{role, readers.first}].push_back(i);
        PlanRelease(i, role, readers.last, early ? &site.reads : nullptr);
      }
      for (OpId load : site.loads) {
        p_.site_of[load] = {i, k};
        // Every slot starts a swizzle pattern: spare rows bring it to a multiple of 1024 bytes.
        SmemLayout& smem = tiles_.loads.at(load).smem;
        const DType dtype = in_.type(in_.ops[load].results[0]).dtype;
        while (ring.slots > 1 && smem.swizzle_bytes && SmemBytes(smem, dtype) % 1024 != 0)
          smem.rows += 8;
        // A copy lands at a multiple of 128 bytes.
        while (ring.slots > 1 && !smem.swizzle_bytes && SmemBytes(smem, dtype) % 128 != 0)
          ++smem.rows;
      }
    }
  }
}

// Loops around others as the scheduler solved them; the first loop of the program at such a place.
void ProgramPlanner::PlanNests() {
  if (!options_.scheduled) return;
  std::set<OpId> outer;
  for (const PlannedRing& ring : p_.rings)
    for (const RingSite& site : ring.sites) {
      const OpId own = LoopAround(in_, site.loads[0]);
      for (OpId at = own.valid() ? LoopAround(in_, own) : own; at.valid(); at = LoopAround(in_, at))
        outer.insert(at);
    }
  for (const ScheduledResources::Nest& of : options_.scheduled->nests)
    for (OpId id : OpsInOrder(in_))
      if (outer.count(id) > 0 && in_.ops[id].kind == OpKind::kFor &&
          SameSpan(in_.ops[id].at, of.loop)) {
        PlannedNest nest{id, of.period, of.alone, of.trips, {}};
        for (size_t i = 0; i < p_.rings.size(); ++i)
          if (p_.rings[i].around && LoopAround(in_, p_.rings[i].sites[0].loads[0]) == id)
            nest.rings.push_back(i);
        p_.nests.push_back(std::move(nest));
        break;
      }
}

// Behind the last reader; where that is a branch, in each of its arms as early as that one can.
void ProgramPlanner::PlanRelease(size_t ring, int role, OpId last, const std::set<OpId>* reads) {
  const Op& op = in_.ops[last];
  if (!reads || op.kind != OpKind::kIf || reads->count(last) || IsPlainBranch(in_, op)) {
    p_.releases[{role, last}].push_back(ring);
    return;
  }
  for (BlockId arm : op.regions) {
    OpId reader;
    for (OpId id : in_.blocks[arm].ops)
      if (std::any_of(reads->begin(), reads->end(), [&](OpId r) { return Contains(id, r); }))
        reader = id;
    if (reader.valid())
      PlanRelease(ring, role, reader, reads);
    else
      p_.arm_releases[{role, arm}].push_back(ring);
  }
}

// Parts of a box are whole patterns of the swizzle.
bool ProgramPlanner::CanShare(OpId id) const {
  if (cluster_ <= 1 || !in_.ops[id].i("shared", 0)) return false;
  if (in_.ops[id].s("modes").find('f') != std::string::npos) return false;  // rows are a box
  // A slot that all CTAs fill is released to all of them; commits are told to one.
  if (InTensorMemory(target_.matrix_unit.kind)) return false;
  const LoadPlan& load = tiles_.loads.at(id);
  if (load.threads || load.every > 1) return false;
  const Type& type = in_.type(in_.ops[id].results[0]);
  const int64_t pitch = load.smem.panel_cols * ByteSize(type.dtype);
  for (int64_t row = 0; row < type.shape[0]; row += kBoxRows) {
    const int64_t rows = std::min(kBoxRows, type.shape[0] - row);
    if (rows % (8 * cluster_) || rows / cluster_ * pitch % 128) return false;
  }
  return true;
}

// One barrier per order token; its ends are the roles of the ops that carry the marks. It has
// several slots: in a prologue the signalling role may be an iteration ahead, and its warps do not
// wait for each other.
void ProgramPlanner::PlanTokens() {
  for (OpId id : OpsInOrder(in_)) {
    const Op& op = in_.ops[id];
    if (op.kind == OpKind::kFor || PutsTile(op) || TakesTile(op)) continue;
    const int role = static_cast<int>(op.i("role"));
    if (op.attr("signal"))
      for (int64_t token : op.ints("signal")) p_.tokens[token].from = role;
    if (op.attr("await"))
      for (int64_t token : op.ints("await")) p_.tokens[token].to = role;
  }
  for (auto& [id, token] : p_.tokens) {
    token.id = id;
    token.slots = kTokenDepth;
    token.arrivals = p_.warps_per_role();
  }
}

void ProgramPlanner::FindPasses() {
  for (OpId id : OpsInOrder(in_)) {
    const Op& op = in_.ops[id];
    if (PutsTile(op)) {
      PlannedPass& pass = p_.passes[op.ints("signal")[0]];
      pass.from = static_cast<int>(op.i("role"));
      pass.put = id;
    } else if (TakesTile(op)) {
      p_.passes[op.ints("await")[0]].to = static_cast<int>(op.i("role"));
    }
  }
}

// Tiles put and not yet taken, in the order of the program: so many slots at least. An iteration of
// a loop takes as many as it puts.
void ProgramPlanner::CountPasses(BlockId block, std::map<int64_t, int64_t>& waiting) {
  for (OpId id : in_.blocks[block].ops) {
    const Op& op = in_.ops[id];
    if (PutsTile(op)) {
      const int64_t token = op.ints("signal")[0];
      int64_t& slots = p_.passes.at(token).slots;
      slots = std::max(slots, ++waiting[token]);
    }
    if (TakesTile(op)) --waiting[op.ints("await")[0]];
    const std::map<int64_t, int64_t> before = waiting;
    for (BlockId region : op.regions) {
      waiting = before;
      CountPasses(region, waiting);
    }
  }
}

void ProgramPlanner::PlanPasses() {
  FindPasses();
  std::map<int64_t, int64_t> waiting;
  CountPasses(in_.body, waiting);
  for (auto& [id, pass] : p_.passes) {
    pass.token = id;
    pass.slots += kAhead;
    pass.arrivals = p_.warps_per_role();
    const Type& tile = in_.type(in_.ops[pass.put].results[0]);
    const std::vector<int64_t> shape = ShapeInMemory(tile);
    const Type type = Type::Smem(tile.dtype, shape, PassLayout(tile.dtype, shape), pass.slots);
    pass.buffer = AddBuffer(type, "passed", false, p_.compute_roles, 0, INT64_MAX);
  }
}

// Scalars that the producer steers by and only the compute role knows. One slot: the producer takes
// each as soon as it is there, or is not waiting for it.
void ProgramPlanner::PlanHanded() {
  int64_t token = p_.passes.empty() ? 0 : p_.passes.rbegin()->first + 1;
  if (!p_.tokens.empty()) token = std::max(token, p_.tokens.rbegin()->first + 1);
  for (ValueId v : handed_) {
    PlannedPass pass;
    pass.token = token++;
    pass.to = kLoadRole;
    pass.put = in_.values[v].def;
    pass.slots = 1;
    pass.arrivals = p_.warps_per_role();
    const DType dtype = HandedAs(in_.type(v).dtype);
    const Type type = Type::Smem(dtype, {1}, PassLayout(dtype, {1}), pass.slots);
    pass.buffer = AddBuffer(type, "handed", false, p_.compute_roles, 0, INT64_MAX);
    p_.passes[pass.token] = pass;
  }
}

// What each CTA of a cluster sends to all, if it does.
std::optional<PushedTile> ProgramPlanner::SentToAll(const Op& op) const {
  if (op.i("all", 0) == 0) return std::nullopt;
  const auto layout = tiles_.layouts.find(op.operands[0]);
  if (layout == tiles_.layouts.end()) return PushedTile();
  return PushedTileOf(layout->second, Squeezed(in_.type(op.operands[0]).shape));
}

void ProgramPlanner::PlanExchanges() {
  // What is sent has bytes of its own, so others may write to what is read last until CTAs meet.
  const auto exchanges = std::count_if(in_.ops.begin(), in_.ops.end(), [&](const Op& op) {
    return op.kind == OpKind::kClusterReduce && !SentToAll(op);
  });
  for (OpId id : OpsInOrder(in_)) {
    const Op& op = in_.ops[id];
    if (op.kind != OpKind::kClusterReduce) continue;
    p_.cluster = cluster_;
    const auto layout = tiles_.layouts.find(op.operands[0]);
    if (OwnerOf(id) < 0) sound_ = false;
    const Type& tile = in_.type(op.results[0]);
    if (const std::optional<PushedTile> sent = SentToAll(op)) {
      // Others write to it as early as they like, and nobody says when: its bytes are nobody
      // else's.
      const int64_t rows = CeilDiv(sent->elements(), kColumns);
      const Type type =
          Type::Smem(tile.dtype, {rows, kColumns}, {rows, kColumns, kColumns, 0}, cluster_);
      p_.exchanges[id] = {id, AddBuffer(type, "exchanged", false, OwnerOf(id), 0, INT64_MAX),
                          cluster_, 1, 1};
      continue;
    }
    const int64_t regs = layout == tiles_.layouts.end() ? 1 : layout->second.regs();
    const int64_t slices = op.i("slices", 0);
    const int64_t parts = slices > 0                                ? slices
                          : regs >= cluster_ && op.i("all", 0) == 0 ? cluster_
                                                                    : 1;
    int64_t each = RegistersOfPart(regs, parts);
    if (slices > 0) {
      sound_ = sound_ && SlicesFit(tiles_, op, in_.type(op.results[0]));
      if (sound_) each = tiles_.layouts.at(op.results[0]).regs();
    }
    const int64_t rows = each * tiles_.threads() / kColumns;
    const Type type = Type::Smem(in_.type(op.results[0]).dtype, {rows, kColumns},
                                 {rows, kColumns, kColumns, 0}, parts);
    const bool last = slices > 0 && exchanges == 1;
    const int64_t at = positions_.at(id), end = last ? INT64_MAX : at;
    const int64_t barriers = last ? kLastBarriers : slices > 0 ? kSliceBarriers : kExchangeBarriers;
    p_.exchanges[id] = {id, AddBuffer(type, "exchanged", false, OwnerOf(id), at, end), parts,
                        barriers, p_.warps_per_role()};
  }
}

}  // namespace tilec::ir
