// Stores and atomics: by threads, or through staging buffers by TMA; as a whole, or
// panel by panel while earlier panels drain.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ir/layout_scratch.h"
#include "ir/lower/emit_rules.h"
#include "ir/lower/emitter.h"
#include "ir/lower/operands.h"
#include "ir/lower/scalars.h"
#include "ir/lower/stored_over.h"
#include "ir/queries.h"

namespace tilec::ir {
namespace {

// By the threads that issued the copies: all but the latest `pending` groups have been read, or are
// written.
void AwaitCopies(Builder& b, int64_t pending, bool read) {
  b.Add(OpKind::kTmaWait, {}, {}, {{"pending", pending}, {"read", int64_t{read}}});
}

}  // namespace

// What TMA does with the boxes of a store: an atomic combines them with the tensor.
void Emitter::SetKind(OpId copy, const Op& op) {
  if (op.kind == OpKind::kAtomic) out_.ops[copy].set("kind", op.s("kind"));
}

void Emitter::Atomic_(OpId id) {
  const Op& op = in_.ops[id];
  if (plan_.stores.count(id))
    return p_.epilogues.at(id).panels ? StoreByPanels(id) : StoreByTma(id);
  const ValueId value = op.operands[1];
  const ValueId tile = Tile(value);
  if (MeetsBefore(id)) Sync();
  auto it = plan_.layouts.find(value);
  Access access = WarpAccess(op, value, it == plan_.layouts.end() ? nullptr : &it->second, true);
  access.operands.insert(access.operands.begin(), {Scalar(op.operands[0]), tile});
  Attrs attrs = {{"kind", op.s("kind")}};
  if (it != plan_.layouts.end()) {
    attrs.emplace_back("modes", access.modes);
    attrs.emplace_back("sizes", access.sizes);
    attrs.emplace_back("vector", Fetches(op) ? int64_t{1}
                                             : VectorFor(op, it->second, out_.type(tile).shape,
                                                         out_.type(tile).dtype));
  }
  const OpKind kind = it == plan_.layouts.end() ? OpKind::kGAtomicScalar : OpKind::kGAtomic;
  if (!Fetches(op)) {
    b_.Add(kind, std::move(access.operands), {}, std::move(attrs));
    return;
  }
  attrs.emplace_back("scratch", int64_t{-1});
  const Type type = out_.type(tile);
  const ValueId result = op.results[0];
  const OpId fetch = b_.Add(kind, std::move(access.operands), {type}, std::move(attrs));
  WantScratch(fetch, FetchScratchBytes(type, type.layout.valid() ? &out_.layout(tile) : nullptr));
  const ValueId found = out_.ops[fetch].results[0];
  const auto wanted = plan_.layouts.find(result);
  Bind(result, wanted == plan_.layouts.end() ? found : InLayout(found, wanted->second));
}

Result<> Emitter::Store_(OpId id) {
  const Op& op = in_.ops[id];
  if (plan_.stores.at(id).tma) {
    p_.epilogues.at(id).panels ? StoreByPanels(id) : StoreByTma(id);
    return Done();
  }
  const ValueId value = op.operands[1];
  const bool sliced = p_.epilogues.at(id).by_slices;
  const ValueId tile = sliced ? ValueId() : Tile(value);
  if (MeetsBefore(id)) {
    FlushLoads();
    Sync();
  }
  if (sliced) {
    StoreBySlices(id);
    return Done();
  }
  auto it = plan_.layouts.find(value);
  Access access = WarpAccess(op, value, it == plan_.layouts.end() ? nullptr : &it->second, true);
  access.operands.insert(access.operands.begin(), {Scalar(op.operands[0]), tile});
  if (it == plan_.layouts.end()) {
    b_.Add(OpKind::kGStoreScalar, std::move(access.operands), {});
    return Done();
  }
  const Type& type = out_.type(tile);
  const OpId stored = b_.Add(OpKind::kGStore, std::move(access.operands), {},
                             {{"modes", access.modes},
                              {"sizes", access.sizes},
                              {"vector", VectorFor(op, it->second, type.shape, type.dtype)}});
  AsRun(id, stored, it->second);
  return Done();
}

// How the panels of a store leave.
Emitter::Panels Emitter::PanelsOf(OpId id) {
  const Op& op = in_.ops[id];
  const StorePlan& store = plan_.stores.at(id);
  const Type type = in_.type(op.operands[1]);
  Panels out;
  out.width = store.smem.panel_cols;
  out.count = type.shape[1] / out.width;
  out.buffers = p_.epilogues.at(id).panels;
  // Between two barriers all panels are written if each has a buffer, else half the buffers.
  out.together = out.count == out.buffers ? out.count : std::max<int64_t>(1, out.buffers / 2);
  out.steps = CeilDiv(out.count, out.together);
  out.rows = type.shape[0] / parts_;
  for (int64_t p = 0; p < out.count; ++p)
    for (int64_t row = 0; row < out.rows; row += kBoxRows)
      out.coords.push_back(BoxCoords(op, store.row_dim, store.col_dim, row, p * out.width));
  return out;
}

// The panels of a step, as they lie in their buffers.
void Emitter::CopyPanels(OpId id, const Panels& all, int64_t step) {
  const Op& op = in_.ops[id];
  const StorePlan& store = plan_.stores.at(id);
  const int64_t pitch = all.width * ByteSize(in_.type(op.operands[1]).dtype);
  const int64_t rank = static_cast<int64_t>(op.s("modes").size());
  const int64_t boxes = CeilDiv(all.rows, kBoxRows);  // of a panel
  const int64_t end = std::min(all.count, (step + 1) * all.together);
  const auto copy = [&](Builder& b) {
    for (int64_t p = step * all.together; p < end; ++p)
      for (int64_t row = 0; row < all.rows; row += kBoxRows) {
        const int64_t rows = std::min(kBoxRows, all.rows - row);
        const int map =
            MapFor(op, {store.row_dim, store.col_dim, rows, all.width, store.smem.swizzle_bytes});
        std::vector<ValueId> operands = {PanelBuffer(id, p % all.buffers)};
        const auto& at = all.coords[static_cast<size_t>(p * boxes + row / kBoxRows)];
        operands.insert(operands.end(), at.begin(), at.end());
        const OpId out = b.Add(OpKind::kTmaStore, std::move(operands), {},
                               {{"map", int64_t{map}}, {"offset", row * pitch}});
        SetKind(out, op);
        if (parts_ > 1)
          out_.ops[out].set(
              "each", std::vector<int64_t>{rank - 1 - store.row_dim, all.rows, all.rows * pitch});
      }
    b.Add(OpKind::kTmaCommit, {}, {});
  };
  Elect(copy, OfStorer());
}

// Panel by panel: while TMA reads one, the next is written. A panel's buffer is free
// again when all but the latest copies have been read; the last ones drain behind what follows.
void Emitter::StoreByPanels(OpId id) {
  const Op& op = in_.ops[id];
  const StorePlan& store = plan_.stores.at(id);
  const bool sliced = p_.epilogues.at(id).by_slices;
  const ValueId tile = sliced ? ValueId() : Tile(op.operands[1]);
  FlushLoads();
  SettleForStore(id);
  const Type type = in_.type(op.operands[1]);
  const Type panel = Type::Tile(
      type.dtype, {type.shape[0], store.smem.panel_cols},
      out_.Intern(ColumnsLayout(plan_.layouts.at(op.operands[1]), store.smem.panel_cols)));
  parts_ = p_.epilogues.at(id).rows_of_part > 0 ? plan_.warpgroups : 1;
  const Panels all = PanelsOf(id);
  const int64_t buffers = all.buffers, together = all.together, steps = all.steps;
  auto sync = [&] {
    if (parts_ == 1) return Sync();
    b_.Add(OpKind::kCtaSync, {}, {},
           {{"id", int64_t{1 + p_.compute_roles + role_ * parts_}}, {"parts", int64_t{parts_}}});
  };
  auto elect = [&](auto&& body) { Elect(body, OfStorer()); };
  auto await = [](Builder& b, int64_t pending) { AwaitCopies(b, pending, true); };
  const bool again = ir::InLoop(in_, id), halves = buffers > 1 && steps % 2 == 0;
  // Where panels are computed, one leaves under the arithmetic of the next: what says that it is
  // written says as well that the other half of the buffers is free. (With several stores more is
  // alive behind a panel: a kernel with two spilled 92 bytes so, and another one 28 of pinned
  // ones.)
  const bool alone = sliced && plan_.stores.size() == 1;
  const bool behind = alone && buffers > together && steps > 1;
  auto make = [&](int64_t p) {
    if (sliced)
      return Slice(p_.epilogues.at(id).sliced, op.operands[1], plan_.layouts.at(op.operands[1]),
                   p * all.width, all.width);
    return all.count == 1
               ? tile
               : b_.Value(OpKind::kWarpColumns, {tile}, panel, {{"first", p * all.width}});
  };
  // Before the meeting that says that they are written.
  auto meet = [&] {
    b_.Add(OpKind::kFenceAsync, {}, {});
    sync();
  };
  for (int64_t step = 0; step < steps; ++step) {
    const int64_t first = step * together, end = std::min(all.count, first + together);
    if (sliced && step > 0) b_.Add(OpKind::kCodeFence, {}, {});
    // Made before the meeting that says that the buffer is free, and before that is awaited: copies
    // read while threads compute.
    std::vector<ValueId> made;
    for (int64_t p = first; p < end; ++p) made.push_back(make(p));
    if (alone && (again || step > 0))
      for (ValueId& part : made) part = b_.Value(OpKind::kPin, {part}, out_.type(part));
    const bool freed = p_.epilogues.at(id).freed_at.valid();
    if (step == 0 && again && !freed)  // what is still on its way from the iteration before
      elect([&](Builder& b) { await(b, halves ? 1 : 0); });
    if (step > 0 && (step > 1 || buffers == 1 || (again && halves)))
      elect([&](Builder& b) { await(b, buffers > 1 && !behind ? 1 : 0); });
    if (!freed) behind&& step > 0 ? meet() : sync();
    if (behind && step > 0) CopyPanels(id, all, step - 1);
    for (int64_t p = first; p < end; ++p)
      b_.Add(OpKind::kSmemStore,
             {made[static_cast<size_t>(p - first)], PanelBuffer(id, p % buffers)}, {});
    if (behind && step + 1 < steps) continue;
    meet();
    CopyPanels(id, all, step);
  }
  EndSlices(id);
  drains_ = true;
  if (!over_.count(id)) return;
  // Not only read: written, before anything is stored there again.
  elect([&](Builder& b) { AwaitCopies(b, 0, false); });
  Sync();
}

ValueId Emitter::PanelBuffer(OpId id, int64_t number) const {
  return buffers_[p_.store_buffers.at(id) + static_cast<size_t>(number)];
}

// Which threads copy out and await their copies.
Attrs Emitter::OfStorer() const {
  if (parts_ == 1) return {};
  return {{"parts", int64_t{parts_}}};
}

// In front of the meeting for what the product reads: stores whose bytes are free behind it.
void Emitter::AwaitFreed(OpId dot) {
  const bool frees =
      std::any_of(p_.epilogues.begin(), p_.epilogues.end(),
                  [&](const auto& planned) { return planned.second.freed_at == dot; });
  if (!frees) return;
  Elect([](Builder& b) { AwaitCopies(b, 0, true); });
}

// Before the role ends, while its shared memory is still there.
void Emitter::AwaitStores() {
  if (!drains_) return;
  drains_ = false;
  Elect(
      [](Builder& b) {
        b.SetSpan({});  // of no line
        AwaitCopies(b, 0, true);
      },
      OfStorer());
}

// Copies of a loop may be on their way behind it, and read bytes that others have from there on.
bool Emitter::PassesOnStaging(OpId loop) const {
  const auto inside = [&](OpId id) {
    for (OpId around = LoopAround(in_, id); around.valid(); around = LoopAround(in_, around))
      if (around == loop) return true;
    return false;
  };
  const auto meets = [&](const PlannedBuffer& staged) {
    return std::any_of(p_.buffers.begin(), p_.buffers.end(), [&](const PlannedBuffer& other) {
      return other.begin > staged.end && other.offset < staged.offset + staged.bytes &&
             staged.offset < other.offset + other.bytes;
    });
  };
  for (const auto& [store, first] : p_.store_buffers) {
    const auto& epilogue = p_.epilogues.at(store);
    if (!inside(store) || (epilogue.panels == 0 && !epilogue.drains)) continue;
    for (int64_t k = 0; k < std::max<int64_t>(1, epilogue.panels); ++k)
      if (meets(p_.buffers[first + static_cast<size_t>(k)])) return true;
  }
  return false;
}

// Through a staging buffer: TMA writes whole lines, clipped to the tensor. A buffer that drains has
// been read when the next iteration stores; others are awaited at once.
void Emitter::StoreByTma(OpId id) {
  const Op& op = in_.ops[id];
  const StorePlan& store = plan_.stores.at(id);
  const ValueId value = op.operands[1];
  const ValueId tile = Tile(store.transposed ? in_.def(value)->operands[0] : value);
  FlushLoads();
  // The staging bytes may be a ring's that a product in flight still reads, if they do not drain.
  if (p_.epilogues.at(id).drains)
    TakeSums();
  else
    SettleAll();
  const Type& type = in_.type(value);
  const int64_t pitch = store.smem.panel_cols * ByteSize(type.dtype);
  const ValueId buffer = PanelBuffer(id, 0);
  const bool drains = p_.epilogues.at(id).drains;
  const bool freed = p_.epilogues.at(id).freed_at.valid();
  if (drains && !freed)  // what is still on its way from the iteration before
    Elect([](Builder& b) { AwaitCopies(b, 0, true); });
  if (!freed) Sync();
  b_.Add(OpKind::kSmemStore, {tile, buffer}, {}, {{"transposed", int64_t{store.transposed}}});
  b_.Add(OpKind::kFenceAsync, {}, {});
  Sync();
  struct Box {
    int map;
    int64_t offset;
    std::vector<ValueId> coords;
  };
  std::vector<Box> boxes;
  for (int64_t col = 0; col < type.shape[1]; col += store.smem.panel_cols)
    for (int64_t row = 0; row < type.shape[0]; row += kBoxRows) {
      const int64_t rows = std::min(kBoxRows, type.shape[0] - row);
      boxes.push_back({MapFor(op, {store.row_dim, store.col_dim, rows, store.smem.panel_cols,
                                   store.smem.swizzle_bytes}),
                       (col / store.smem.panel_cols) * store.smem.rows * pitch + row * pitch,
                       BoxCoords(op, store.row_dim, store.col_dim, row, col)});
    }
  Elect([&](Builder& b) {
    for (const Box& box : boxes) {
      std::vector<ValueId> operands = {buffer};
      operands.insert(operands.end(), box.coords.begin(), box.coords.end());
      SetKind(b.Add(OpKind::kTmaStore, std::move(operands), {},
                    {{"map", int64_t{box.map}}, {"offset", box.offset}}),
              op);
    }
    b.Add(OpKind::kTmaCommit, {}, {});
    if (!drains) AwaitCopies(b, 0, over_.count(id) == 0);
  });
  drains_ = drains_ || drains;
}

}  // namespace tilec::ir
