// How stores leave: as a whole, panel by panel while earlier panels drain, or by slices of columns
// that are computed where they are stored.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ir/isa.h"
#include "ir/lower/emit_rules.h"
#include "ir/lower/operands.h"
#include "ir/lower/program_planner.h"
#include "ir/lower/scalars.h"
#include "ir/lower/stored_over.h"
#include "ir/lower/tensor_sums.h"
#include "ir/lower/turns.h"
#include "ir/queries.h"

namespace tilec::ir {

namespace {
constexpr int64_t kWidths[] = {64, 32};  // of a slice; narrower ones would store in short pieces
}

// Columns of a slice of the tile that a store takes; 0: it is stored as a whole.
int64_t ProgramPlanner::SliceWidth(OpId store) const {
  const ValueId value = in_.ops[store].operands[1];
  const auto layout = tiles_.layouts.find(value);
  const std::vector<int64_t>& shape = in_.type(value).shape;
  if (layout == tiles_.layouts.end() || shape.size() != 2 || Squeezed(shape).size() != 2) return 0;
  for (int64_t width : kWidths) {
    if (shape[1] % width != 0 || shape[1] <= width) continue;
    bool apart = true;
    for (int64_t first = 0; first < shape[1]; first += width)
      apart = apart &&
              ColumnsMap(layout->second, ColumnsLayout(layout->second, width), first).has_value();
    if (apart) return width;
  }
  return 0;
}

// A tile that is loaded for a store's sake alone, from where nobody writes: threads bring each
// slice when its turn comes, and the shared memory that the tile would take is left to the rings.
bool ProgramPlanner::LoadsBySlices(OpId id) const {
  const Op& op = in_.ops[id];
  if (op.kind != OpKind::kLoad || !IsReadOnlyLoad(in_, op)) return false;
  const LoadPlan& load = tiles_.loads.at(id);
  const bool shared = std::any_of(tiles_.loads.begin(), tiles_.loads.end(),
                                  [&](const auto& other) { return other.second.shares == id; });
  return (!load.buffer || load.tma) && load.registers && !load.shares.valid() && !shared &&
         op.s("modes").back() == 'r' && in_.type(op.results[0]).rank() == 2;
}

// Elementwise work whose tile only this store reads, back to where a tile is needed as a whole.
std::set<OpId> ProgramPlanner::SlicedOps(OpId store) const {
  std::set<OpId> slice;
  const Op& op = in_.ops[store];
  std::set<ValueId> whole;  // values whose columns are not those of the store, for some reader
  const std::vector<OpId>& block = in_.blocks[op.block].ops;
  for (auto at = std::find(block.rbegin(), block.rend(), store); at != block.rend(); ++at) {
    const Op& maker = in_.ops[*at];
    const bool kind = Info(maker.kind).elementwise() || maker.kind == OpKind::kBroadcast ||
                      maker.kind == OpKind::kReshape || LoadsBySlices(*at);
    if (!kind || !tiles_.layouts.count(maker.results[0]) || maker.attr("signal") ||
        maker.attr("await") || whole.count(maker.results[0]) || p_.deferred.count(*at))
      continue;
    const std::span<const Uses::Use> uses = uses_.of(maker.results[0]);
    const bool here = !uses.empty() && std::all_of(uses.begin(), uses.end(), [&](auto& use) {
      return use.reader == store || slice.count(use.reader) > 0;
    });
    if (!here) continue;
    slice.insert(*at);
    if (maker.kind == OpKind::kLoad) continue;
    for (size_t i = 0; i < maker.operands.size(); ++i)
      if (!MadeByColumns(in_, tiles_, maker, i)) whole.insert(maker.operands[i]);
  }
  return slice;
}

// How every store leaves. True: tiles that were loaded into shared memory come by slices now.
bool ProgramPlanner::PlanEpilogues() {
  for (const auto& [store, plan] : tiles_.stores) {
    PlannedEpilogue& epilogue = p_.epilogues[store];
    if (plan.tma) epilogue.panels = PanelsInFlight(store);
    if (epilogue.panels > 0) epilogue.rows_of_part = RowsOfWarpgroups(store);
    epilogue.drains = plan.tma && epilogue.panels == 0 && DrainsAsWhole(store);
    if (!options_.slice_epilogues) continue;
    const bool ends_in_range = in_.ops[store].s("modes").back() == 'r';
    const int64_t width = SliceWidth(store);
    if (!width || !(plan.tma ? epilogue.panels > 0 : ends_in_range)) continue;
    epilogue.by_slices = true;
    epilogue.slice_width = width;
    epilogue.sliced = SlicedOps(store);
    p_.deferred.insert(epilogue.sliced.begin(), epilogue.sliced.end());
  }
  bool fewer = false;
  for (OpId id : p_.deferred)
    if (auto load = tiles_.loads.find(id); load != tiles_.loads.end() && load->second.buffer) {
      load->second.buffer = load->second.tma = false;
      fewer = true;
    }
  return fewer;
}

// Does each role have one store by TMA?
bool ProgramPlanner::CopiesOneTensor() const {
  return std::count_if(tiles_.stores.begin(), tiles_.stores.end(),
                       [](const auto& planned) { return planned.second.tma; }) == p_.compute_roles;
}

// A store in a loop of a kernel with roles leaves by panels: so many staging buffers (0: as a
// whole, and awaited at once). The panels must be registers of their own.
int64_t ProgramPlanner::PanelsInFlight(OpId id) const {
  const Op& op = in_.ops[id];
  const StorePlan& store = tiles_.stores.at(id);
  const Type& type = in_.type(op.operands[1]);
  const auto layout = tiles_.layouts.find(op.operands[1]);
  // Outside of loops: slices leave as they are made, but the mutation tests cannot yet say which of
  // the waits for the copies of several stores are needed.
  const bool by_panels =
      ir::InLoop(in_, id) || (options_.slice_epilogues && CopiesOneTensor() && SliceWidth(id) > 0);
  if (!specialized() || !by_panels || layout == tiles_.layouts.end()) return 0;
  if (type.shape[1] % store.smem.panel_cols != 0) return 0;
  const int64_t panels = type.shape[1] / store.smem.panel_cols;
  for (int64_t p = 0; p < panels; ++p)
    if (!ColumnsMap(layout->second, ColumnsLayout(layout->second, store.smem.panel_cols),
                    p * store.smem.panel_cols))
      return 0;
  // Tiles whose width is no multiple of a line of 128 bytes have narrow panels (seven of 32 bytes
  // for 112 columns of bf16): those that make a line are written together. The rest is the rings'.
  const int64_t staging = target_.lowering.staging_bytes;
  const int64_t bytes = type.shape[0] * store.smem.panel_cols * ByteSize(type.dtype);
  int64_t buffers =
      2 * std::max<int64_t>(1, isa::kLineBytes / std::max(1, store.smem.swizzle_bytes));
  while (buffers > 2 && buffers * bytes > staging) buffers /= 2;
  if (buffers >= panels) return panels;
  return buffers * bytes <= staging || panels % 2 == 0 ? buffers : 1;
}

bool InTurns(const Function& fn, OpId id) {
  const OpId loop = LoopAround(fn, id);
  return loop.valid() && fn.ops[loop].i("narrow", 0) == 0;
}

// A store in a loop that leaves as a whole need not be awaited before the threads go on: its bytes
// are read while the rest of the iteration computes, or the next tile. (Where it writes over
// elements of its own, the one copy has to be behind the other.)
bool ProgramPlanner::DrainsAsWhole(OpId id) const {
  using Staging = SequentialOptions::Staging;
  return specialized() && InLoop(in_, id) && options_.staging != Staging::kAwaits &&
         (options_.staging == Staging::kDrains || InTurns(in_, id)) &&
         StoredOver(in_).count(id) == 0;
}

// Is the tile stored as the product left it, but for its type?
bool ProgramPlanner::StoredAsMade(ValueId v) const {
  const Op* def = in_.def(Without(in_, OpKind::kCast, v).value);
  return def && (def->kind == OpKind::kFor || def->kind == OpKind::kDot);
}

// Rows of a panel that each warpgroup of the role writes and copies out for itself; 0: it takes all
// of them together. Among themselves they need not wait then: one may be at the next tile while
// another still stores this one (65536×1024×1024 3 % faster on an H200, 8192³ the same). Where they
// compute before they store it loses (SwiGLU 2 %; probably warpgroups drift further apart than the
// rings are deep, and whoever is ahead waits for slots): those meet. Not where threads compute
// between the products of an iteration (attention: 3 to 4 % faster apart at D = 64 with three
// warpgroups; two that take turns are half an iteration apart, and a meeting would have the first
// wait for the second in every tile). (Other stores of the role would share the copy groups of its
// threads, and outside of loops the staging bytes may be a ring's, which all of them read.)
int64_t ProgramPlanner::RowsOfWarpgroups(OpId id) const {
  const int parts = tiles_.warpgroups;
  const auto layout = tiles_.layouts.find(in_.ops[id].operands[1]);
  if (in_.ops[id].s("modes").find('f') != std::string::npos) return 0;  // rows are a box
  if (parts < 2 || !ir::InLoop(in_, id) ||
      !(StoredAsMade(in_.ops[id].operands[1]) || FeedsProducts(in_, tiles_)) ||
      layout == tiles_.layouts.end() || !CopiesOneTensor() ||
      1 + p_.compute_roles * (1 + parts) > target_.limits.named_barriers)
    return 0;
  const int64_t rows = RowsOfParts(layout->second, parts);
  return rows * parts == in_.type(in_.ops[id].operands[1]).shape[0] ? rows : 0;
}

}  // namespace tilec::ir
