// SPDX-License-Identifier: Apache-2.0
#include "scheduler/copy_lines.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "ir/lower/plan.h"
#include "ir/passes/cluster_tiles.h"
#include "ir/queries.h"
#include "scheduler/body_facts.h"
#include "scheduler/op_work.h"

namespace tilec::scheduler {

namespace {

constexpr int64_t kRowsOfAtom = 8;  // a part of a swizzled tile begins at a whole atom

const ir::Type* CopiedTile(const ir::Function& fn, const ir::Op& op) {
  if (op.kind != ir::OpKind::kLoad) return nullptr;
  const ir::Type& tile = fn.type(op.results[0]);
  return tile.shape.size() > 1 ? &tile : nullptr;
}

// Of the unit that works longest at an op, by its bytes; of the one that copies for all SMs.
double UnitCycles(const ir::Function& fn, const ir::Op& op, const ir::Target& target,
                  bool for_all) {
  const ir::OpCost* cost = target.CostOf(CostName(fn, op));
  if (cost == nullptr) return 0;
  const ir::Work work = WorkOf(target, fn, op, [](ir::ValueId) { return 1; });
  double most = 0;
  for (const ir::TargetUse& use : cost->uses)
    if (!for_all || target.units[static_cast<size_t>(use.unit)].alone_percent < 100)
      most = std::max(most, static_cast<double>(use.cycles.At(work)));
  return most;
}

std::map<ir::ValueId, int64_t> StartsOf(const ir::Function& fn, const RowStarts& starts) {
  std::map<ir::ValueId, int64_t> start_of;
  for (const ir::Param& p : fn.params)
    if (const auto at = starts.find(p.name); at != starts.end()) start_of[p.value] = at->second;
  return start_of;
}

// Has the grid one tile alone along the range that `v` is the position of?
bool OneTile(const ir::Function& fn, const ir::Op& grid, ir::ValueId v, const Bindings& names) {
  const std::vector<ir::ValueId>& ranges = fn.blocks[grid.regions[0]].args;
  const auto at = std::find(ranges.begin(), ranges.end(), v);
  if (at == ranges.end()) return false;
  const auto i = static_cast<size_t>(at - ranges.begin());
  const ir::Param* end = fn.param(grid.operands[2 * i + 1]);
  const auto known = end == nullptr ? names.end() : names.find(end->name);
  return known != names.end() && known->second <= grid.ints("steps")[i];
}

// Does `v` follow from where in the grid a tile stands?
bool OfTheGrid(const ir::Function& fn, ir::ValueId v, const Bindings& names,
               std::set<ir::ValueId>* seen) {
  if (!seen->insert(v).second) return false;
  const ir::Value& value = fn.values[v];
  if (!value.def.valid()) {
    const ir::OpId parent = value.block.valid() ? fn.blocks[value.block].parent : ir::OpId();
    return parent.valid() && fn.ops[parent].kind == ir::OpKind::kParallel &&
           !OneTile(fn, fn.ops[parent], v, names);
  }
  const std::vector<ir::ValueId>& operands = fn.ops[value.def].operands;
  return std::any_of(operands.begin(), operands.end(),
                     [&](ir::ValueId operand) { return OfTheGrid(fn, operand, names, seen); });
}

// Does every CTA load the same rows? (H200, 90x44280x8 of [M, K] in 96x168, whose rows of 16 bytes
// lie in one tile: 9.3 us by CTAs that stay, 5.2 said before this was asked of sizes; 144x200 of
// 135x26104x8 7.2 and 4.7.)
bool RowsOfAll(const ir::Function& fn, const ir::Op& load, const Bindings& names) {
  const std::string& modes = load.s("modes");
  std::set<ir::ValueId> seen;
  size_t operand = 1;
  for (size_t d = 0; d + 1 < modes.size(); ++d) {
    if (OfTheGrid(fn, load.operands[operand], names, &seen)) return false;
    operand += ir::OperandsOf(modes[d], false);
  }
  return true;
}

// Of rows that begin at multiples of 16 bytes: as many lines as the pieces of a row touch in which
// a store leaves, of those that pieces of a line touch. (H200, stores of 24607x28920 of 16 bits
// take 1.04 times as long again as of whole lines in pieces of 128 bytes, 0.83 in 256, 0.69 in 512;
// the product of K = 112 in pairs along the columns 855 us in 256x192, 1013 in 256x160, which
// leaves in pieces of 64.)
double LinesOfPieces(const ir::StorePlan& store, int64_t size) {
  const double line = static_cast<double>(kLineBytes), begin = 16;
  const auto lines = [&](double piece) {
    return std::max(1.0, 1 + (piece - begin) / line) * line / piece;
  };
  const bool boxes = store.tma && store.smem.panel_cols > 0;
  return boxes ? lines(static_cast<double>(store.smem.panel_cols * size)) / lines(line) : 1;
}

// Elements of a row of the tensor that is loaded, if that is known.
std::optional<int64_t> RowOf(const ir::Function& fn, const ir::Op& load, const Bindings& names) {
  const ir::Param* p = fn.param(load.operands[0]);
  return p == nullptr || p->dims.empty() ? std::nullopt : Eval(p->dims.back(), names);
}

}  // namespace

bool CutsLines(const ir::Function& fn, const RowStarts& starts) {
  const std::map<ir::ValueId, int64_t> start_of = StartsOf(fn, starts);
  return std::any_of(fn.ops.begin(), fn.ops.end(), [&](const ir::Op& op) {
    if (CopiedTile(fn, op) == nullptr) return false;
    const auto at = start_of.find(op.operands[0]);
    return at != start_of.end() && at->second < kLineBytes;
  });
}

ir::LayoutPlan PlanOfCopies(const ir::Function& fn, const ir::Target& target) {
  ir::LayoutPlan plan = ir::MakePlan(fn, target, 0, /*runs_ahead=*/true);
  plan.layouts.clear();
  return plan;
}

Asked AskedByCopies(const ir::Function& fn, const ir::Target& target, const RowStarts& starts,
                    const Bindings& names) {
  return AskedByCopies(fn, PlanOfCopies(fn, target), target, starts, names);
}

Asked AskedByCopies(const ir::Function& fn, const ir::LayoutPlan& plan, const ir::Target& target,
                    const RowStarts& starts, const Bindings& names) {
  const ir::TargetModel& model = target.model;
  const std::map<ir::ValueId, int64_t> start_of = StartsOf(fn, starts);
  double all = 0, lines = 0, by_bytes = 0, cycles = 0, narrow = 0, boxes = 0;
  bool wide = false;
  for (ir::OpId id : ir::OpsInOrder(fn)) {
    const ir::Op& op = fn.ops[id];
    const ir::Type* tile = CopiedTile(fn, op);
    if (tile == nullptr) continue;
    const auto size = static_cast<int64_t>(ir::ByteSize(tile->dtype));
    const int64_t columns = tile->shape.back() * size;
    int64_t width = columns;
    const auto load = plan.loads.find(id);
    const bool brought = load != plan.loads.end() && load->second.threads;
    const bool copied =
        load != plan.loads.end() && load->second.tma && load->second.buffer && !brought;
    if (copied) width = load->second.smem.panel_cols * size;
    // A tile is copied in whole panels; what they have beyond the tensor is not asked for.
    const std::optional<int64_t> extent = RowOf(fn, op, names);
    const int64_t panels = copied ? load->second.smem.cols : tile->shape.back();
    const int64_t asked_for = std::min(panels, extent.value_or(panels));
    const double wider =
        std::max(1.0, static_cast<double>(asked_for) / static_cast<double>(tile->shape.back()));
    const auto row = static_cast<double>(std::clamp<int64_t>(width, 1, kLineBytes));
    const auto known = start_of.find(op.operands[0]);
    const int64_t start = known == start_of.end() ? kLineBytes : known->second;
    const double touched =
        std::max(1.0, 1 + (row - static_cast<double>(start)) / static_cast<double>(kLineBytes));
    const auto bytes = static_cast<double>(tile->elements() * size);
    const bool cut = start < kSectorBytes;
    all += bytes;
    boxes += bytes * static_cast<double>(panels) / static_cast<double>(tile->shape.back());
    const double rows = bytes / static_cast<double>(columns);
    const double lines_of = touched * rows * std::ceil(static_cast<double>(columns) / row);
    lines += cut ? lines_of * kLineBytes : bytes * (1 + model.whole_sector_share * (touched - 1));
    const double said = UnitCycles(fn, op, target, /*for_all=*/true);
    const double line = cut ? model.cut_line_cycles : model.line_cycles;
    // Rows in pieces ask for the same lines several times in a short while, whoever brings them.
    const bool pieces = cut && width < kLineBytes && extent && *extent * size > width;
    by_bytes += said;
    cycles += (copied || pieces ? std::max(said * wider, lines_of * line) : said) *
              (pieces ? std::max(1.0, model.cut_piece_times) : 1);
    if (copied && extent && *extent * size <= target.lowering.narrow_row_bytes &&
        RowsOfAll(fn, op, names))
      narrow += rows * model.narrow_row_cycles;
    else
      wide = wide || copied;
  }
  Asked asked{.times = by_bytes > 0 ? cycles / by_bytes : 1,
              .hot = wide && by_bytes > 0 ? narrow / by_bytes : 0,
              .boxes = all > 0 ? boxes / all : 1,
              .lines = all > 0 ? lines / all : 1};
  double stored = 0, cut = 0, lines_stored = 0;
  for (const auto& [id, store] : plan.stores) {
    const ir::Op& op = fn.ops[id];
    if (op.kind != ir::OpKind::kStore) continue;
    const ir::Type& tile = fn.type(op.operands[1]);
    const auto size = static_cast<int64_t>(ir::ByteSize(tile.dtype));
    const auto bytes = static_cast<double>(tile.elements() * size);
    const auto known = start_of.find(op.operands[0]);
    stored += bytes;
    // Tiles of 184 columns of 16 bits meet amid sectors. (H200, e4m3 23437x3312x32: 66 us in
    // 256x184, 48 in 128x256; 90x44280x8: 11.2 in 96x168, 5.6 said, 10.3 in 128x256.)
    const bool amid = !tile.shape.empty() && tile.shape.back() * size % kSectorBytes != 0;
    const int64_t start = known == start_of.end() ? kLineBytes : known->second;
    if (amid || start < kSectorBytes)
      cut += bytes * (start < kSectorBytes ? LinesOfPieces(store, size) : 1);
    else  // of rows amid lines each piece is of two lines
      lines_stored += bytes * static_cast<double>(kLineBytes - std::min(start, kLineBytes)) /
                      static_cast<double>(kLineBytes);
    if (!store.tma || store.smem.panel_cols == 0) continue;
    const double boxes = std::ceil(static_cast<double>(tile.shape.back()) /
                                   static_cast<double>(store.smem.panel_cols));
    asked.leaves += std::max(
        0.0, boxes * model.store_box_cycles - UnitCycles(fn, op, target, /*for_all=*/false));
  }
  // (H200, stores alone: 3.8 TB/s where rows begin at lines, 34519x736, which begin at half a line,
  // 3.1, 24607x28912 and 8009x41104, at a quarter, 3.6 and 3.5.)
  if (stored > 0)
    asked.written =
        1 +
        ((model.cut_store_times - 1) * cut + model.whole_sector_share / 2 * lines_stored) / stored;
  return asked;
}

double ShareAsked(const ir::Function& fn, const ir::Target& target, int64_t ctas) {
  ir::Function clustered = fn;
  if (!target.Has("clusters") || ir::ClusterTiles(clustered, ctas)) return 1;
  double all = 0, own = 0;
  for (const ir::Op& op : clustered.ops)
    if (const ir::Type* tile = CopiedTile(clustered, op)) {
      const auto bytes = static_cast<double>(tile->elements() * ir::ByteSize(tile->dtype));
      const bool parts = tile->shape[tile->shape.size() - 2] % (kRowsOfAtom * ctas) == 0;
      all += bytes;
      own += op.attr("shared") != nullptr && parts ? bytes / static_cast<double>(ctas) : bytes;
    }
  return all > 0 ? own / all : 1;
}

}  // namespace tilec::scheduler
