// Copies into the buffers of shared memory, and when threads may read them.
//
// Discipline of the sequential program (so that it is right without any analysis of races):
//   * a TMA refill is preceded by fence.proxy.async and a CTA barrier: every earlier reader and
//     writer of the bytes, generic or asynchronous, is done;
//   * it is awaited by everybody right after it is issued; loads that follow each other without a
//     reader in between are issued together and awaited together;
//   * a generic refill is preceded by a CTA barrier and followed by fence.proxy.async and another.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "ir/isa.h"
#include "ir/lower/channels.h"
#include "ir/lower/emit_rules.h"
#include "ir/lower/emitter.h"
#include "ir/lower/operands.h"
#include "ir/lower/scalars.h"
#include "ir/queries.h"

namespace tilec::ir {

int Emitter::MapFor(const Op& op, const Box& box) {
  const auto& [row_dim, col_dim, rows, cols, swizzle, panels, every] = box;
  const std::string& modes = op.s("modes");
  const bool folded = modes.find('f') != std::string::npos;
  const int rank = static_cast<int>(modes.size());
  TensorMapInfo map;
  map.tensor = map_.at(op.operands[0]);
  map.swizzle_bytes = swizzle;
  if (panels > 1) map.panel = cols;
  for (int d = rank - 1; d >= 0; --d) {
    map.dims.push_back(d);
    const auto at = static_cast<size_t>(d);
    map.box.push_back(d == col_dim                                   ? cols
                      : modes[at] == 'f' || (folded && d == row_dim) ? op.ints("sizes")[at]
                      : d == row_dim                                 ? rows
                                                                     : 1);
  }
  if (panels > 1) map.box.push_back(panels);
  if (every > 1) {
    map.steps.assign(map.box.size(), 1);
    map.steps[static_cast<size_t>(rank - 1 - row_dim)] = every;
  }
  auto& maps = out_.launch.maps;
  const auto it = std::find(maps.begin(), maps.end(), map);
  if (it != maps.end()) return static_cast<int>(it - maps.begin());
  maps.push_back(std::move(map));
  return static_cast<int>(maps.size()) - 1;
}

// Coordinates of the box whose corner is element (row, col) of the tile, innermost dim first.
std::vector<ValueId> Emitter::BoxCoords(const Op& op, int row_dim, int col_dim, int64_t row,
                                        int64_t col, ValueId below) {
  const bool store = op.kind != OpKind::kLoad;
  const std::string& modes = op.s("modes");
  std::vector<ValueId> coords(modes.size());
  size_t operand = store ? 2 : 1;
  for (size_t d = 0; d < modes.size(); ++d) {
    ValueId at = b_.Cast(Scalar(op.operands[operand]), DType::kI64);
    const int64_t shift = static_cast<int>(d) == row_dim   ? row
                          : static_cast<int>(d) == col_dim ? col
                                                           : 0;
    if (shift) at = b_.Binary(OpKind::kAdd, at, b_.Int(shift));
    if (below.valid() && static_cast<int>(d) == row_dim) at = b_.Binary(OpKind::kAdd, at, below);
    coords[modes.size() - 1 - d] = at;
    operand += OperandsOf(modes[d], store);
  }
  return coords;
}

void Emitter::QueueTmaLoad(OpId id) { pending_.push_back(id); }

// Columns of the tile from `col` on that one copy brings: a panel, or many of them where they lie
// side by side in shared memory and none goes on in the tensor's next row. (One of 49032 columns
// was 192 copies of 512 bytes, for its last panel is not whole; now it is one, and few behind it.)
int64_t Emitter::ColumnsOfACopy(OpId id, int64_t col) const {
  const Op& op = in_.ops[id];
  const LoadPlan& load = plan_.loads.at(id);
  const Type type = load.Own(in_.type(op.results[0]));
  const int64_t panel = load.smem.panel_cols, rows = type.shape[0];
  const size_t rank = op.s("modes").size(), dim = static_cast<size_t>(load.col_dim);
  if (type.shape[1] % panel || load.smem.rows != rows || rows > kBoxRows ||
      load.every > 1 || p_.multicast.count(id) || load.half == 1 || rank >= kMostDims ||
      dim + 1 != rank)
    return panel;
  const Expr& extent = in_.param(op.operands[0])->dims[dim];
  if (!extent.is_const() || AlignOf(in_, op.operands[1 + dim]) % panel) return panel;
  const int64_t most = std::min(type.shape[1] - col, kBoxRows * panel);
  if (extent.value % panel == 0) return most;
  const int64_t* start = IntConstantOf(in_, op.operands[1 + dim]);
  if (!start || *start < 0) return panel;
  return std::clamp(extent.value / panel * panel - *start - col, panel, most);
}

// Corners of a load's boxes, column panels outside, rows inside, in parts of every so many.
std::vector<std::vector<ValueId>> Emitter::CoordsOf(OpId id) {
  const Op& op = in_.ops[id];
  b_.SetSpan(op.at);
  const LoadPlan& load = plan_.loads.at(id);
  const Type type = load.Own(in_.type(op.results[0]));
  std::vector<std::vector<ValueId>> out;
  for (int64_t col = 0; col < type.shape[1]; col += ColumnsOfACopy(id, col))
    for (int64_t row = 0; row < type.shape[0]; row += kBoxRows) {
      ValueId below;  // the part of this CTA
      if (p_.multicast.count(id))
        below = b_.Binary(OpKind::kMul, cluster_rank_,
                          b_.Int(std::min(kBoxRows, type.shape[0] - row) / p_.cluster));
      for (int64_t part = 0; part < load.every; ++part)
        out.push_back(BoxCoords(op, load.row_dim, load.col_dim, row + part, col, below));
      if (load.half < 0) continue;
      const auto dim = static_cast<size_t>(load.half == 0 ? load.row_dim : load.col_dim);
      ValueId& at = out.back()[op.s("modes").size() - 1 - dim];
      at = b_.Binary(OpKind::kAdd, at,
                     b_.Binary(OpKind::kMul, cluster_rank_,
                               b_.Int(type.shape[static_cast<size_t>(load.half)])));
    }
  return out;
}

void Emitter::Boxes(OpId id, ValueId mbar, ValueId slot, Builder& inner,
                    const std::vector<std::vector<ValueId>>& coords) {
  const Op& op = in_.ops[id];
  inner.SetSpan(op.at);
  const LoadPlan& load = plan_.loads.at(id);
  const Type type = load.Own(in_.type(op.results[0]));
  const int64_t pitch = load.smem.panel_cols * ByteSize(type.dtype);
  const bool shared = p_.multicast.count(id) > 0;
  size_t box = 0;
  const int64_t step = load.every > 1 ? type.shape[0] / load.every : kBoxRows;
  for (int64_t col = 0; col < type.shape[1]; col += ColumnsOfACopy(id, col))
    for (int64_t row = 0; row < type.shape[0]; row += step, ++box) {
      const int64_t rows = std::min(step, type.shape[0] - row) / (shared ? p_.cluster : 1);
      const int map = MapFor(
          op, {load.row_dim, load.col_dim, rows, load.smem.panel_cols, load.smem.swizzle_bytes,
               ColumnsOfACopy(id, col) / load.smem.panel_cols, load.every});
      std::vector<ValueId> operands = {LoadBuffer(id), mbar};
      operands.insert(operands.end(), coords[box].begin(), coords[box].end());
      if (slot.valid()) operands.push_back(slot);
      const OpId copy = inner.Add(
          OpKind::kTmaLoad, std::move(operands), {},
          {{"map", int64_t{map}},
           {"offset", (col / load.smem.panel_cols) * load.smem.rows * pitch + row * pitch},
           {"slotted", int64_t{slot.valid()}}});
      if (shared) out_.ops[copy].set("share", rows * pitch);
      const auto site = p_.site_of.find(id);
      if (site != p_.site_of.end() && OfPair(site->second.first))
        out_.ops[copy].set("pair", int64_t{1});
    }
}

// The whole tile by the threads of the role, each its chunks.
void Emitter::CopyByThreads(OpId id, ValueId slot) {
  const Op& op = in_.ops[id];
  b_.SetSpan(op.at);
  Access access = WarpAccess(op, op.results[0], nullptr, false);
  if (op.i("has_fill")) access.operands.pop_back();  // zeros, as it is
  std::vector<ValueId> operands = {Scalar(op.operands[0]), LoadBuffer(id)};
  for (ValueId v : access.operands) operands.push_back(b_.Cast(v, DType::kI64));
  if (slot.valid()) operands.push_back(slot);
  b_.Add(OpKind::kCpLoad, std::move(operands), {},
         {{"modes", access.modes},
          {"sizes", access.sizes},
          {"bytes", ChunkOf(id)},
          {"slotted", int64_t{slot.valid()}}});
}

// Copies that everybody makes and awaits.
void Emitter::CopyNow(const std::vector<OpId>& loads) {
  Sync();
  for (OpId id : loads) CopyByThreads(id, {});
  b_.Add(OpKind::kCpArrive, {mbar_}, {});
}

// Do copies of one thread alone fill it, in a load role of several warps?
bool Emitter::FilledByOne(const PlannedRing& ring) const {
  const std::vector<OpId>& loads = ring.sites[0].loads;
  return p_.load_warps() > 1 && std::none_of(loads.begin(), loads.end(), [&](OpId load) {
           return plan_.loads.at(load).threads || ChunkOf(load) > 0;
         });
}

// What the phase of a full barrier waits for: the elected thread's arrival, which tells the bytes
// of its copies, that of every thread that copies, and one of each warp whose threads bring tiles.
int64_t Emitter::FullArrivals(const PlannedRing& ring) const {
  const std::vector<OpId>& loads = ring.sites[0].loads;
  if (ChunkOf(loads[0]) > 0) return isa::kWarpThreads * p_.load_warps();
  const auto brought = std::count_if(loads.begin(), loads.end(),
                                     [&](OpId load) { return plan_.loads.at(load).threads; });
  return (brought < std::ssize(loads) ? 1 : 0) + (brought > 0 ? p_.load_warps() : 0);
}

void Emitter::FlushLoads() {
  if (pending_.empty()) return;
  const std::vector<OpId> loads = std::move(pending_);
  pending_.clear();
  std::vector<std::vector<std::vector<ValueId>>> coords;
  int64_t bytes = 0;
  const Span here = b_.span();
  const bool by_threads = ChunkOf(loads[0]) > 0;
  for (OpId id : loads) {
    CHECK((ChunkOf(id) > 0) == by_threads, "a machine copies by threads or by its engine");
    if (by_threads) continue;
    coords.push_back(CoordsOf(id));
    bytes += BoxBytes(in_.type(in_.ops[id].results[0]), plan_.loads.at(id).smem);
  }
  if (by_threads) {
    CopyNow(loads);
  } else {
    b_.Add(OpKind::kFenceAsync, {}, {});
    Sync();
    Elect([&](Builder& inner) {
      inner.Add(OpKind::kMbarExpect, {mbar_}, {}, {{"bytes", bytes}});
      for (size_t i = 0; i < loads.size(); ++i) Boxes(loads[i], mbar_, {}, inner, coords[i]);
    });
  }
  for (OpId id : std::exchange(puts_, {})) PutByThreads(id);
  const ValueId count = b_.Value(OpKind::kCounterRead, {phase_}, Type::Scalar(DType::kI32));
  const ValueId parity = b_.Binary(OpKind::kAnd, count, b_.Int(1, DType::kI32));
  b_.Add(OpKind::kMbarWait, {mbar_, parity}, {});
  b_.Add(OpKind::kCounterAdd, {phase_}, {}, {{"by", int64_t{1}}});
  for (OpId id : loads)
    if (plan_.loads.at(id).registers && !p_.KeepsUntilRead(id)) IntoRegisters(id);
  b_.SetSpan(here);
}

// A tile that has arrived in shared memory, into its class layout.
void Emitter::IntoRegisters(OpId id) {
  const ValueId result = in_.ops[id].results[0];
  b_.SetSpan(in_.ops[id].at);
  const Type& full = in_.type(result);
  const auto it = plan_.layouts.find(result);
  const Layout layout = LaidOut(id);
  if (put_) Sync();
  put_ = false;
  std::vector<ValueId> operands = {LoadBuffer(id)};
  if (const ValueId slot = SlotOf(id); slot.valid()) operands.push_back(slot);
  const ValueId tile = b_.Value(OpKind::kSmemLoad, std::move(operands),
                                Type::Tile(full.dtype, full.shape, out_.Intern(layout)));
  Bind(result,
       Reshape_(tile, Squeezed(full.shape), it == plan_.layouts.end() ? Layout{} : it->second));
}

}  // namespace tilec::ir
