// Global memory as threads access it, and what they put into buffers of shared memory. Copies by
// the engine stand in emit_copies.cc.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "ir/lower/bring.h"
#include "ir/lower/emit_rules.h"
#include "ir/lower/emitter.h"
#include "ir/lower/operands.h"
#include "ir/lower/row_runs.h"
#include "ir/lower/scalars.h"
#include "ir/queries.h"
#include "ir/row_run.h"

namespace tilec::ir {

// Does each element that a store writes have one thread, whichever turn and store writes it? It has
// if all of them store tiles that lie alike and begin at the same place, but for positions along
// dims that tiles do not have.
bool Emitter::OwnElements(ValueId tensor) const {
  std::optional<OpId> first;
  for (OpId id : OpsInOrder(in_)) {
    const Op& op = in_.ops[id];
    if (op.kind != OpKind::kStore || op.operands[0] != tensor) continue;
    const auto layout = plan_.layouts.find(op.operands[1]);
    if (layout == plan_.layouts.end() || plan_.stores.at(id).tma || p_.epilogues.at(id).by_slices)
      return false;
    const Type& type = in_.type(op.operands[1]);
    const int64_t vector = VectorFor(op, layout->second, Squeezed(type.shape), type.dtype);
    if (MayRun(in_, id, runs_) && RunPays(in_, op, layout->second, vector)) return false;
    if (ShiftedVector(op, layout->second, type) > 0) return false;
    if (!first) first = id;
    const Op& one = in_.ops[*first];
    const std::string& modes = op.s("modes");
    if (modes != one.s("modes") || op.ints("sizes") != one.ints("sizes") ||
        layout->second != plan_.layouts.at(one.operands[1]))
      return false;
    size_t operand = 2;
    for (char mode : modes) {
      const ValueId start = op.operands[operand];
      if (IsGathered(mode) ||
          (IsRange(mode) && (start != one.operands[operand] || ChangesInTile(start))))
        return false;
      operand += OperandsOf(mode, true);
    }
  }
  return true;
}

// Does the value change within a tile?
bool Emitter::ChangesInTile(ValueId v) const {
  OpId at = in_.blocks[BlockOf(in_, v)].parent;
  while (at.valid() && (!IsLoop(in_.ops[at].kind) || in_.ops[at].i("narrow", 0) != 0))
    at = ParentOf(in_, at);
  return at.valid();
}

// Must threads meet before this access? Others may have accessed what it does, or will. Where a
// tensor is only stored to, that is known element by element: what no other store of the CTA and no
// other iteration writes, nobody waits for. (Beside products, whose loops were timed with these
// barriers, they stay; and outside of loops, where without them the assembler made two stores
// together and spilled.)
bool Emitter::MeetsBefore(OpId access) const {
  const ValueId tensor = in_.ops[access].operands[0];
  const Param* p = in_.param(tensor);
  if (!p || p->direction == Direction::kIn) return false;
  int accesses = 0;
  bool repeated = false, stores = true;
  for (OpId id : OpsInOrder(in_)) {
    const Op& op = in_.ops[id];
    const bool memory =
        op.kind == OpKind::kLoad || op.kind == OpKind::kStore || op.kind == OpKind::kAtomic;
    if (!memory || op.operands[0] != tensor) continue;
    ++accesses;
    repeated = repeated || ir::InLoop(in_, id);
    stores = stores && op.kind == OpKind::kStore;
  }
  if (accesses <= 1 && !repeated) return false;
  if (!stores || !plan_.dots.empty() || !ir::InLoop(in_, access)) return true;
  return over_.count(access) > 0 && !OwnElements(tensor);
}

// Index operands for the warp level. squeeze: ranges and gathers of length 1 become scalars.
Emitter::Access Emitter::WarpAccess(const Op& op, ValueId tile, const Layout* layout,
                                    bool squeeze) {
  const bool store = op.kind != OpKind::kLoad;
  const std::vector<int64_t>& shape = in_.type(tile).shape;
  Access access;
  size_t operand = store ? 2 : 1;
  size_t dim = 0;
  int64_t gathered = 0;  // dim of the last g
  const std::string& modes = op.s("modes");
  const std::vector<int64_t>& sizes = op.ints("sizes");
  for (size_t d = 0; d < modes.size(); ++d) {
    const ValueId first = op.operands[operand];
    if (modes[d] == 'p') {  // as the dim it is paired with
      const int s = squeeze ? SqueezedDim(shape, gathered) : static_cast<int>(gathered);
      const bool one = shape[static_cast<size_t>(gathered)] == 1;
      access.modes += one ? 's' : 'p';
      access.operands.push_back(one ? b_.Cast(Tile(first), DType::kI64)
                                    : InLayout(Tile(first), KeepDims(*layout, {s})));
      access.sizes.push_back(one ? 1 : sizes[d]);
      ++operand;
      continue;
    }
    if (modes[d] == 'g') gathered = static_cast<int64_t>(dim);
    const bool unit = squeeze && modes[d] != 's' && shape[dim] == 1;
    if (modes[d] == 'g' && !squeeze && shape[dim] == 1) {  // one position is a scalar: a start
      access.modes += 'r';
      access.operands.push_back(b_.Cast(Tile(first), DType::kI64));
    } else if (modes[d] == 'g' && !unit) {
      access.modes += 'g';
      const int s = squeeze ? SqueezedDim(shape, static_cast<int64_t>(dim)) : static_cast<int>(dim);
      access.operands.push_back(InLayout(Tile(first), KeepDims(*layout, {s})));
    } else if (modes[d] == 'f' || (modes[d] == 'r' && !unit)) {
      access.modes += modes[d];
      access.operands.push_back(Scalar(first));
      if (store) access.operands.push_back(Scalar(op.operands[operand + 1]));
    } else {
      access.modes += 's';
      access.operands.push_back(
          b_.Cast(modes[d] == 'g' ? Tile(first) : Scalar(first), DType::kI64));
    }
    access.sizes.push_back(access.modes.back() == 's' ? 1 : sizes[d]);
    operand += OperandsOf(modes[d], store);
    if (TakesDim(modes[d])) ++dim;
  }
  if (op.kind == OpKind::kLoad && op.i("has_fill"))
    access.operands.push_back(Scalar(op.operands.back()));
  return access;
}

namespace {
// Elements of the last dim that a thread has in a row, 16 bytes at most.
int64_t VectorOf(const Layout& layout, int64_t columns, DType dtype) {
  if (layout.reg.empty() || columns == 1) return 1;
  const int last = layout.rank - 1;
  const RegisterRun run = RunAlong(layout, last);
  if (run.digit < 0) return 1;
  const LayoutDigit& fast = layout.reg[static_cast<size_t>(run.digit)];
  auto power = [](int64_t v) { return v & -v; };
  int64_t vector = std::min<int64_t>(16 / ByteSize(dtype), power(run.extent));
  for (const auto* digits : {&layout.thread, &layout.reg})
    for (const LayoutDigit& d : *digits)
      if (d.dim == last && &d != &fast) vector = std::min(vector, power(d.stride));
  return std::max<int64_t>(1, power(std::min(vector, power(columns))));
}
}  // namespace

// How many elements of the last dim may be accessed together: contiguous registers, aligned
// addresses, and bounds that never cut a vector.
int64_t Emitter::VectorFor(const Op& op, const Layout& layout, const std::vector<int64_t>& shape,
                           DType dtype) const {
  return std::min(VectorOf(layout, shape.back(), dtype), AccessLimit(in_, op));
}

// The same of vectors that are made of aligned ones; 0 where they are not.
int64_t Emitter::ShiftedVector(const Op& op, const Layout& layout, const Type& type) const {
  constexpr int64_t kWord = 4;  // bytes
  if (!MayShift(in_, op, runs_)) return 0;
  const std::vector<int64_t> shape = Squeezed(type.shape);
  const int64_t vector = VectorOf(layout, shape.back(), type.dtype);
  const bool wider = vector > VectorFor(op, layout, shape, type.dtype);
  return wider && vector * ByteSize(type.dtype) >= kWord ? vector : 0;
}

Result<> Emitter::Load_(OpId id) {
  const Op& op = in_.ops[id];
  const ValueId result = op.results[0];
  const LoadPlan& load = plan_.loads.at(id);
  if (MeetsBefore(id)) {
    FlushLoads();
    Sync();
  }
  if (load.shares.valid()) {
    FlushLoads();
    IntoRegisters(id);
    return Done();
  }
  if (load.buffer && load.kept && !load.tma) {
    PutByThreads(id);
    return Done();
  }
  if (load.buffer) {
    if (load.tma) {
      if (!p_.site_of.count(id)) QueueTmaLoad(id);
      return Done();
    }
    FillByThreads(id);
    if (!load.registers) return Done();
  }
  if (!load.registers) return Done();
  auto it = Layouts().find(result);
  if (it == Layouts().end()) {
    Access access = WarpAccess(op, result, nullptr, true);
    access.operands.insert(access.operands.begin(), Scalar(op.operands[0]));
    Bind(result, b_.Value(OpKind::kGLoadScalar, std::move(access.operands), WarpType(result),
                          {{"has_fill", op.i("has_fill")}}));
    return Done();
  }
  Bind(result, LoadByThreads(id, it->second));
  return Done();
}

ValueId Emitter::LoadByThreads(OpId id, const Layout& layout) {
  const Op& op = in_.ops[id];
  const ValueId result = op.results[0];
  Access access = WarpAccess(op, result, &layout, true);
  access.operands.insert(access.operands.begin(), Scalar(op.operands[0]));
  const Type type = WarpType(result);
  const ValueId tile = b_.Value(OpKind::kGLoad, std::move(access.operands), type,
                                {{"modes", access.modes},
                                 {"sizes", access.sizes},
                                 {"has_fill", op.i("has_fill")},
                                 {"vector", VectorFor(op, layout, type.shape, type.dtype)}});
  AsRun(id, out_.values[tile].def, layout);
  return tile;
}

// A tile that several loops read, as it lies in a buffer.
Layout Emitter::LaidOut(OpId load) const {
  const ValueId tile = in_.ops[load].results[0];
  const std::vector<int64_t>& shape = in_.type(tile).shape;
  const auto it = plan_.layouts.find(tile);
  return it != plan_.layouts.end() ? Unsqueeze(it->second, shape)
                                   : ReplicatedLayout(shape, plan_.threads());
}

// A piece of a row that no engine brings: threads load it as they hold it, and put it into its
// buffer. So it takes no registers until it is read; in front of that they meet, once for all
// pieces.
void Emitter::PutByThreads(OpId id) {
  if (!pending_.empty()) {  // copies of other pieces are issued first
    puts_.push_back(id);
    return;
  }
  const ValueId result = in_.ops[id].results[0];
  const Type& full = in_.type(result);
  const Layout to = LaidOut(id);
  const ValueId tile = LoadByThreads(id, Layouts().at(result));
  const ValueId whole = Reshape_(tile, full.shape, to);
  b_.Add(OpKind::kSmemStore, {whole, LoadBuffer(id)}, {});
  put_ = true;
}

// Rows at odd places: vectors made of aligned ones, or whole rows through shared memory, where that
// pays. What is stored passes through there in either case.
void Emitter::AsRun(OpId id, OpId access, const Layout& layout) {
  const Op& op = in_.ops[id];
  Op& out = out_.ops[access];
  const bool store = op.kind == OpKind::kStore;
  const Type& type = in_.type(store ? op.operands[1] : op.results[0]);
  if (const int64_t shifted = ShiftedVector(op, layout, type)) {
    out.set("vector", shifted);
    out.set("shifted", int64_t{1});
    if (!store) return;
  } else if (!MayRun(in_, id, runs_) || !RunPays(in_, op, layout, out.i("vector"))) {
    return;
  }
  const std::optional<RowRun> run = RowRunOf(out_, out);
  if (!run) return;
  out.set("scratch", int64_t{-1});
  WantScratch(access, RowRunBytes(*run, out_.type(out_.ops[access].operands[0]).dtype));
}

// What threads wrote before, copies and products of the asynchronous proxy read after.
void Emitter::FenceAsync() {
  if (plan_.async_proxy) b_.Add(OpKind::kFenceAsync, {}, {});
}

// A tile as it lies in a buffer, in registers.
ValueId Emitter::LoadForBuffer(OpId id, const Layout& layout) {
  const Op& op = in_.ops[id];
  const Type& type = in_.type(op.results[0]);
  Access access = WarpAccess(op, op.results[0], &layout, false);
  access.operands.insert(access.operands.begin(), Scalar(op.operands[0]));
  return b_.Value(OpKind::kGLoad, std::move(access.operands),
                  Type::Tile(type.dtype, type.shape, out_.Intern(layout)),
                  {{"modes", access.modes},
                   {"sizes", access.sizes},
                   {"has_fill", op.i("has_fill")},
                   {"vector", VectorFor(op, layout, type.shape, type.dtype)}});
}

// What `reader` reads of positions, as they lie for some of the loads.
void Emitter::TakeInHand(size_t positions, const Op& reader) {
  at_hand_ = positions;
  for (ValueId v : reader.operands)
    if (const auto it = positions_[positions].find(v); it != positions_[positions].end())
      Bind(v, it->second);
}

// Load role: one step of the positions of gathered rows, for each way in which they lie.
Result<> Emitter::Positions_(OpId id) {
  const Op& op = in_.ops[id];
  for (size_t i = 0; i < brought_.size(); ++i) {
    if (!brought_[i].layouts.count(op.results[0])) continue;
    TakeInHand(i, op);
    TRY_VOID(Op_(id));
    positions_[i][op.results[0]] = map_.at(op.results[0]);
  }
  return Done();
}

// By the threads of the load role, into registers…
ValueId Emitter::Fetch(OpId id) {
  b_.SetSpan(in_.ops[id].at);
  for (size_t i = 0; i < brought_.size(); ++i)
    if (brought_[i].loads.count(id)) TakeInHand(i, in_.ops[id]);
  return LoadForBuffer(id, BroughtLayout(in_, in_.ops[id]));
}
// … and into a slot of a ring.
void Emitter::Bring(OpId id, ValueId held, ValueId slot) {
  b_.SetSpan(in_.ops[id].at);
  std::vector<ValueId> operands = {held, LoadBuffer(id)};
  if (slot.valid()) operands.push_back(slot);
  b_.Add(OpKind::kSmemStore, std::move(operands), {});
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
  const ValueId value = LoadForBuffer(id, BlockedLayout(type.shape, vector, plan_.threads()));
  FlushLoads();
  SettleAll();
  Sync();
  b_.Add(OpKind::kSmemStore, {value, LoadBuffer(id)}, {});
  FenceAsync();
  Sync();
}

}  // namespace tilec::ir
