// Global memory, TMA and the buffers of shared memory.
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

#include "ir/lower/emitter.h"
#include "ir/lower/operands.h"
#include "ir/lower/scalars.h"
#include "ir/queries.h"

namespace tilec::ir {

// ---- buffers ---------------------------------------------------------------------------------

ValueId Emitter::AddBuffer(const Type& type, bool exclusive, int owner, int64_t begin,
                           int64_t end) {
  Buffer buffer;
  buffer.alloc = b_.Add(OpKind::kSmemAlloc, {}, {type}, {{"offset", int64_t{0}}});
  buffer.value = out_.ops[buffer.alloc].results[0];
  buffer.life.begin = exclusive ? -1 : begin;
  buffer.life.end = exclusive ? INT64_MAX : end;
  buffer.life.owner = owner;
  buffer.life.bytes = SmemBytes(type.smem, type.dtype) * type.depth;
  buffers_.push_back(buffer);
  for (int64_t slot = 0; exclusive && slot < type.depth; ++slot) {
    std::vector<ValueId> operands = {buffer.value};
    if (type.depth > 1) operands.push_back(b_.Int(slot, DType::kI32));
    b_.Add(OpKind::kSmemZero, std::move(operands), {});
  }
  return buffer.value;
}

// All buffers and barriers, in program order, before the roles part.
void Emitter::PlanBuffers() {
  if (specialized()) {
    PlanRings();
    PlanTokens();
    PlanPasses();
  }
  PlanOperandRings();
  bool any_tma = false, any_zero = false;
  auto tile_type = [&](ValueId v, const SmemLayout& smem, bool transposed = false) {
    std::vector<int64_t> shape = in_.type(v).shape;
    if (transposed) std::swap(shape[0], shape[1]);
    return Type::Smem(in_.type(v).dtype, shape, smem);
  };
  std::map<OpId, int64_t> load_ends;
  for (const auto& [id, dot] : plan_.dots)
    for (const OperandPlan* operand : {&dot.a, &dot.b})
      if (operand->how == OperandPlan::How::kBuffer) {
        const OpId load = in_.values[operand->source].def;
        int64_t& end = load_ends[load];
        end = std::max(end, positions_.LastUse(load, id));
      }
  for (OpId id : OpsInOrder(in_)) {  // the first site of a ring comes first
    if (auto it = plan_.loads.find(id); it != plan_.loads.end() && it->second.buffer) {
      const LoadPlan& load = it->second;
      // Read into registers at once after the wait, which may come as late as the end of the block.
      int64_t end = positions_.at(id);
      const Block& block = in_.blocks[in_.ops[id].block];
      if (load.registers && load.tma) end = positions_.at(block.ops.back());
      if (load_ends.count(id)) end = std::max(end, load_ends[id]);
      any_zero = any_zero || load.zero_padding;
      Type type = tile_type(in_.ops[id].results[0], load.smem);
      int64_t begin = positions_.at(id);
      int owner = OwnerOf(id);
      if (auto c = site_of_.find(id); c != site_of_.end()) {
        const auto [channel, number] = c->second;
        const ChannelSite& site = channels_->channels[channel].sites[number];
        // The producer may fill it as early as it likes, and again until the loops around end.
        type.depth = rings_[channel].depth;
        begin = 0;
        end = std::max(end, positions_.LastUse(in_.blocks[in_.body].ops[0], id));
        for (const auto& [role, readers] : site.readers)
          end = std::max(end, positions_.LastUse(id, readers.last));
        // Two roles may read it at any time.
        owner = site.readers.size() == 1 ? site.readers.begin()->first : roles_;
        // All sites of a channel fill the same ring.
        const auto place = std::find(site.loads.begin(), site.loads.end(), id);
        const OpId twin = channels_->channels[channel]
                              .sites[0]
                              .loads[static_cast<size_t>(place - site.loads.begin())];
        if (auto shared = load_buffers_.find(twin); shared != load_buffers_.end()) {
          BufferLife& life = buffers_[shared->second].life;
          life.end = std::max(life.end, end);
          load_buffers_[id] = shared->second;
          continue;
        }
      } else {
        any_tma = any_tma || load.tma;
      }
      load_buffers_[id] = buffers_.size();
      if (owner < 0) sound_ = false;
      AddBuffer(type, load.zero_padding, owner, begin, end);
    }
    if (auto it = plan_.dots.find(id); it != plan_.dots.end())
      for (bool is_a : {true, false}) {
        const OperandPlan& operand = is_a ? it->second.a : it->second.b;
        if (operand.how != OperandPlan::How::kStore) continue;
        if (OwnerOf(id) < 0) sound_ = false;
        OperandRing& ring = operand_rings_[operand_ring_of_.at({id, is_a})];
        if (ring.buffer) continue;
        ring.buffer = buffers_.size();
        Type type = tile_type(operand.source, operand.smem, operand.store_transposed);
        int64_t begin = positions_.at(id), end = begin;
        if (ring.depth > 1) {  // read across turns
          type.depth = ring.depth;
          begin = 0;
          end = positions_.LastUse(in_.blocks[in_.body].ops[0], id);
        }
        AddBuffer(type, operand.zero_padding, OwnerOf(id), begin, end);
        any_zero = any_zero || operand.zero_padding;
      }
    if (auto it = plan_.stores.find(id); it != plan_.stores.end() && it->second.tma) {
      store_buffers_[id] = buffers_.size();
      Type type = tile_type(in_.ops[id].operands[1], it->second.smem);
      int64_t begin = positions_.at(id), end = begin;
      if (const int64_t panels = PanelsInFlight(id)) {
        // They drain behind what comes next, in every turn of the loops around.
        type.shape[1] = type.smem.cols = it->second.smem.panel_cols;
        begin = 0;
        end = positions_.LastUse(in_.blocks[in_.body].ops[0], id);
        for (int64_t p = 1; p < panels; ++p) AddBuffer(type, false, OwnerOf(id), begin, end);
      }
      AddBuffer(type, false, OwnerOf(id), begin, end);
    }
  }
  PlanExchanges();
  if (any_tma) mbar_ = b_.Value(OpKind::kMbarAlloc, {}, Type::Mbar(), {{"offset", int64_t{0}}});
  if (any_tma || !rings_.empty() || !exchanges_.empty()) InitBarriers();
  if (any_zero) b_.Add(OpKind::kFenceAsync, {}, {});
  if (out_.launch.cluster > 1)  // nobody writes to a CTA that is not ready
    b_.Add(OpKind::kClusterSync, {}, {});
  else if (any_tma || any_zero || !rings_.empty())
    b_.Add(OpKind::kCtaSync, {}, {}, {{"id", int64_t{0}}});
}

// By one thread, before anybody looks at them.
void Emitter::InitBarriers() {
  Elect([&](Builder& inner) {
    if (mbar_.valid()) inner.Add(OpKind::kMbarInit, {mbar_}, {}, {{"count", int64_t{1}}});
    for (const Ring& ring : rings_) {
      inner.Add(OpKind::kMbarInit, {ring.full}, {}, {{"count", int64_t{1}}});
      // One arrival per warp that reads.
      const OpId init = inner.Add(OpKind::kMbarInit, {ring.empty}, {},
                                  {{"count", int64_t{WarpsPerRole() * ring.consumers}}});
      if (ring.cluster) out_.ops[init].set("cluster", int64_t{1});
    }
    for (const auto& [id, token] : tokens_)
      inner.Add(OpKind::kMbarInit, {token.mbar}, {}, {{"count", int64_t{WarpsPerRole()}}});
    for (const auto& [id, pass] : passes_)
      for (ValueId mbar : {pass.ring.full, pass.ring.empty})
        inner.Add(OpKind::kMbarInit, {mbar}, {}, {{"count", int64_t{WarpsPerRole()}}});
    InitExchanges(inner);
    inner.Add(OpKind::kFenceMbarInit, {}, {});
  });
}

// ---- accesses by threads ---------------------------------------------------------------------

bool Emitter::SharedTensor(ValueId tensor) const {
  const Param* p = in_.param(tensor);
  if (!p || p->direction == Direction::kIn) return false;
  int accesses = 0;
  bool repeated = false;
  for (OpId id : OpsInOrder(in_)) {
    const Op& op = in_.ops[id];
    const bool memory =
        op.kind == OpKind::kLoad || op.kind == OpKind::kStore || op.kind == OpKind::kAtomic;
    if (!memory || op.operands[0] != tensor) continue;
    ++accesses;
    repeated = repeated || ir::InLoop(in_, id);
  }
  return accesses > 1 || repeated;
}

// Index operands for the warp level. squeeze: ranges and gathers of length 1 become scalars.
Emitter::Access Emitter::WarpAccess(const Op& op, ValueId tile, const Layout* layout,
                                    bool squeeze) {
  const bool store = op.kind != OpKind::kLoad;
  const std::vector<int64_t>& shape = in_.type(tile).shape;
  Access access;
  size_t operand = store ? 2 : 1;
  size_t dim = 0;
  const std::string& modes = op.s("modes");
  const std::vector<int64_t>& sizes = op.ints("sizes");
  for (size_t d = 0; d < modes.size(); ++d) {
    const ValueId first = op.operands[operand];
    const bool unit = squeeze && modes[d] != 's' && shape[dim] == 1;
    if (modes[d] == 'g' && !squeeze && shape[dim] == 1) {  // one position is a scalar: a start
      access.modes += 'r';
      access.operands.push_back(b_.Cast(Tile(first), DType::kI64));
    } else if (modes[d] == 'g' && !unit) {
      access.modes += 'g';
      const int s = squeeze ? SqueezedDim(shape, static_cast<int64_t>(dim)) : static_cast<int>(dim);
      access.operands.push_back(InLayout(Tile(first), KeepDims(*layout, {s})));
    } else if (modes[d] == 'r' && !unit) {
      access.modes += 'r';
      access.operands.push_back(Scalar(first));
      if (store) access.operands.push_back(Scalar(op.operands[operand + 1]));
    } else {
      access.modes += 's';
      access.operands.push_back(
          b_.Cast(modes[d] == 'g' ? Tile(first) : Scalar(first), DType::kI64));
    }
    access.sizes.push_back(access.modes.back() == 's' ? 1 : sizes[d]);
    operand += modes[d] == 'r' && store ? 2 : 1;
    if (modes[d] != 's') ++dim;
  }
  if (op.kind == OpKind::kLoad && op.i("has_fill"))
    access.operands.push_back(Scalar(op.operands.back()));
  return access;
}

// How many elements of the last dim may be accessed together: contiguous registers, aligned
// addresses, and bounds that never cut a vector.
int64_t Emitter::VectorFor(const Op& op, const Layout& layout, const std::vector<int64_t>& shape,
                           DType dtype) {
  if (layout.reg.empty() || shape.back() == 1) return 1;
  const int last = layout.rank - 1;
  const RegisterRun run = RunAlong(layout, last);
  if (run.digit < 0) return 1;
  const LayoutDigit& fast = layout.reg[static_cast<size_t>(run.digit)];
  auto power = [](int64_t v) { return v & -v; };
  int64_t vector = std::min<int64_t>(16 / ByteSize(dtype), power(run.extent));
  for (const auto* digits : {&layout.thread, &layout.reg})
    for (const LayoutDigit& d : *digits)
      if (d.dim == last && &d != &fast) vector = std::min(vector, power(d.stride));
  vector = std::min({vector, power(shape.back()), AccessLimit(in_, op)});
  return std::max<int64_t>(1, power(vector));
}

Result<> Emitter::Load_(OpId id) {
  const Op& op = in_.ops[id];
  const ValueId result = op.results[0];
  const LoadPlan& load = plan_.loads[id];
  if (SharedTensor(op.operands[0])) {
    FlushLoads();
    Sync();
  }
  if (load.shares.valid()) {
    FlushLoads();
    load_buffers_[id] = load_buffers_[load.shares];
    IntoRegisters(id);
    return Done();
  }
  if (load.buffer) {
    if (load.tma) {
      if (!channel_of_.count(id)) QueueTmaLoad(id);
      return Done();
    }
    FillByThreads(id);
    if (!load.registers) return Done();
  }
  if (!load.registers) return Done();
  auto it = plan_.layouts.find(result);
  if (it == plan_.layouts.end()) {
    Access access = WarpAccess(op, result, nullptr, true);
    access.operands.insert(access.operands.begin(), Scalar(op.operands[0]));
    Bind(result, b_.Value(OpKind::kGLoadScalar, std::move(access.operands), WarpType(result),
                          {{"has_fill", op.i("has_fill")}}));
    return Done();
  }
  Access access = WarpAccess(op, result, &it->second, true);
  access.operands.insert(access.operands.begin(), Scalar(op.operands[0]));
  const Type type = WarpType(result);
  Bind(result, b_.Value(OpKind::kGLoad, std::move(access.operands), type,
                        {{"modes", access.modes},
                         {"sizes", access.sizes},
                         {"has_fill", op.i("has_fill")},
                         {"vector", VectorFor(op, it->second, type.shape, type.dtype)}}));
  return Done();
}

// What TMA cannot take: predicated vector loads, then stores into the buffer the product reads.
void Emitter::FillByThreads(OpId id) {
  const Op& op = in_.ops[id];
  const Type& type = in_.type(op.results[0]);
  const int64_t size = ByteSize(type.dtype);
  int64_t vector = 16 / size;
  while (vector > 1 &&
         (type.shape.back() % vector != 0 || type.elements() < vector * plan_.threads()))
    vector /= 2;
  const Layout layout = BlockedLayout(type.shape, vector, plan_.threads());
  const Type tile = Type::Tile(type.dtype, type.shape, out_.Intern(layout));
  Access access = WarpAccess(op, op.results[0], &layout, false);
  access.operands.insert(access.operands.begin(), Scalar(op.operands[0]));
  const ValueId value = b_.Value(OpKind::kGLoad, std::move(access.operands), tile,
                                 {{"modes", access.modes},
                                  {"sizes", access.sizes},
                                  {"has_fill", op.i("has_fill")},
                                  {"vector", VectorFor(op, layout, type.shape, type.dtype)}});
  FlushLoads();
  SettleAll();
  Sync();
  b_.Add(OpKind::kSmemStore, {value, buffers_[load_buffers_[id]].value}, {});
  b_.Add(OpKind::kFenceAsync, {}, {});
  Sync();
}

// ---- TMA -------------------------------------------------------------------------------------

int Emitter::MapFor(ValueId tensor, int rank, int row_dim, int col_dim, int64_t rows, int64_t cols,
                    int swizzle, int64_t panels) {
  TensorMapInfo map;
  map.tensor = map_[tensor];
  map.swizzle_bytes = swizzle;
  if (panels > 1) map.panel = cols;
  for (int d = rank - 1; d >= 0; --d) {
    map.dims.push_back(d);
    map.box.push_back(d == col_dim ? cols : d == row_dim ? rows : 1);
  }
  if (panels > 1) map.box.push_back(panels);
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
    operand += modes[d] == 'r' && store ? 2 : 1;
  }
  return coords;
}

void Emitter::QueueTmaLoad(OpId id) { pending_.push_back(id); }

// Columns of the tile that one copy brings: a panel, or many of them where they lie side by side in
// shared memory and the last does not go on in the tensor's next row.
int64_t Emitter::ColumnsOfACopy(OpId id) const {
  const Op& op = in_.ops[id];
  const LoadPlan& load = plan_.loads.at(id);
  const Type& type = in_.type(op.results[0]);
  const int64_t panel = load.smem.panel_cols, rows = type.shape[0];
  const size_t rank = op.s("modes").size(), col = static_cast<size_t>(load.col_dim);
  if (type.shape[1] % panel || load.smem.rows != rows || rows > kBoxRows || shared_.count(id) ||
      rank >= kMostDims || col + 1 != rank)
    return panel;
  const Expr& extent = in_.param(op.operands[0])->dims[col];
  if (!extent.is_const() || extent.value % panel || AlignOf(in_, op.operands[1 + col]) % panel)
    return panel;
  return std::min(type.shape[1], kBoxRows * panel);
}

// Corners of a load's boxes, column panels outside, rows inside.
std::vector<std::vector<ValueId>> Emitter::CoordsOf(OpId id) {
  const Op& op = in_.ops[id];
  b_.SetSpan(op.at);
  const LoadPlan& load = plan_.loads[id];
  const Type& type = in_.type(op.results[0]);
  std::vector<std::vector<ValueId>> out;
  const int64_t width = ColumnsOfACopy(id);
  for (int64_t col = 0; col < type.shape[1]; col += width)
    for (int64_t row = 0; row < type.shape[0]; row += kBoxRows) {
      ValueId below;  // the part of this CTA
      if (shared_.count(id))
        below = b_.Binary(OpKind::kMul, cluster_rank_,
                          b_.Int(std::min(kBoxRows, type.shape[0] - row) / cluster_));
      out.push_back(BoxCoords(op, load.row_dim, load.col_dim, row, col, below));
    }
  return out;
}

// Parts of a box are whole patterns of the swizzle.
bool Emitter::CanShare(OpId id) const {
  if (cluster_ <= 1 || !in_.ops[id].i("shared", 0)) return false;
  const LoadPlan& load = plan_.loads.at(id);
  const Type& type = in_.type(in_.ops[id].results[0]);
  const int64_t pitch = load.smem.panel_cols * ByteSize(type.dtype);
  for (int64_t row = 0; row < type.shape[0]; row += kBoxRows) {
    const int64_t rows = std::min(kBoxRows, type.shape[0] - row);
    if (rows % (8 * cluster_) || rows / cluster_ * pitch % 128) return false;
  }
  return true;
}

void Emitter::Boxes(OpId id, ValueId mbar, ValueId slot, Builder& inner,
                    const std::vector<std::vector<ValueId>>& coords) {
  const Op& op = in_.ops[id];
  inner.SetSpan(op.at);
  const LoadPlan& load = plan_.loads[id];
  const Type& type = in_.type(op.results[0]);
  const int64_t pitch = load.smem.panel_cols * ByteSize(type.dtype);
  const bool shared = shared_.count(id) > 0;
  size_t box = 0;
  const int64_t width = ColumnsOfACopy(id);
  for (int64_t col = 0; col < type.shape[1]; col += width)
    for (int64_t row = 0; row < type.shape[0]; row += kBoxRows, ++box) {
      const int64_t rows = std::min(kBoxRows, type.shape[0] - row) / (shared ? cluster_ : 1);
      const int map = MapFor(op.operands[0], static_cast<int>(op.s("modes").size()), load.row_dim,
                             load.col_dim, rows, load.smem.panel_cols, load.smem.swizzle_bytes,
                             std::min(width, type.shape[1] - col) / load.smem.panel_cols);
      std::vector<ValueId> operands = {buffers_[load_buffers_[id]].value, mbar};
      operands.insert(operands.end(), coords[box].begin(), coords[box].end());
      if (slot.valid()) operands.push_back(slot);
      const OpId copy = inner.Add(
          OpKind::kTmaLoad, std::move(operands), {},
          {{"map", int64_t{map}},
           {"offset", (col / load.smem.panel_cols) * load.smem.rows * pitch + row * pitch},
           {"slotted", int64_t{slot.valid()}}});
      if (shared) out_.ops[copy].set("share", rows * pitch);
    }
}

void Emitter::FlushLoads() {
  if (pending_.empty()) return;
  const std::vector<OpId> loads = std::move(pending_);
  pending_.clear();
  std::vector<std::vector<std::vector<ValueId>>> coords;
  int64_t bytes = 0;
  const Span here = b_.span();
  for (OpId id : loads) {
    coords.push_back(CoordsOf(id));
    bytes += BoxBytes(in_.type(in_.ops[id].results[0]), plan_.loads[id].smem);
  }
  b_.Add(OpKind::kFenceAsync, {}, {});
  Sync();
  Elect([&](Builder& inner) {
    inner.Add(OpKind::kMbarExpect, {mbar_}, {}, {{"bytes", bytes}});
    for (size_t i = 0; i < loads.size(); ++i) Boxes(loads[i], mbar_, {}, inner, coords[i]);
  });
  const ValueId count = b_.Value(OpKind::kCounterRead, {phase_}, Type::Scalar(DType::kI32));
  const ValueId parity = b_.Binary(OpKind::kAnd, count, b_.Int(1, DType::kI32));
  b_.Add(OpKind::kMbarWait, {mbar_, parity}, {});
  b_.Add(OpKind::kCounterAdd, {phase_}, {}, {{"by", int64_t{1}}});
  for (OpId id : loads)
    if (plan_.loads[id].registers && !KeepsUntilRead(id)) IntoRegisters(id);
  b_.SetSpan(here);
}

bool Emitter::KeepsUntilRead(OpId load) const {
  const auto it = plan_.loads.find(load);
  return it != plan_.loads.end() && it->second.tma && it->second.kept && !channel_of_.count(load);
}

// A tile that has arrived in shared memory, into its class layout.
void Emitter::IntoRegisters(OpId id) {
  const ValueId result = in_.ops[id].results[0];
  b_.SetSpan(in_.ops[id].at);
  const Type& full = in_.type(result);
  const auto it = plan_.layouts.find(result);
  const Layout layout = it != plan_.layouts.end() ? Unsqueeze(it->second, full.shape)
                                                  : ReplicatedLayout(full.shape, plan_.threads());
  std::vector<ValueId> operands = {buffers_[load_buffers_[id]].value};
  if (const ValueId slot = SlotOf(id); slot.valid()) operands.push_back(slot);
  const ValueId tile = b_.Value(OpKind::kSmemLoad, std::move(operands),
                                Type::Tile(full.dtype, full.shape, out_.Intern(layout)));
  Bind(result,
       Reshape_(tile, Squeezed(full.shape), it == plan_.layouts.end() ? Layout{} : it->second));
}

}  // namespace tilec::ir
