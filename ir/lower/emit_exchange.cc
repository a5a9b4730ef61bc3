// Tiles that the CTAs of a cluster combine (cluster_reduce).
//
// Every CTA lays out its threads and registers alike, so thread t of one has to do with thread t of
// the others only, and the order in shared memory is free: each thread has places of its own
// (warp_ops.def says which). Where the registers of a thread can be dealt out evenly, each CTA adds
// up a part of them for all; else the first reads everything. Everybody waits until all have read,
// so the buffer is one like any other to what comes before and behind in its CTA, and may lie where
// the rings of a loop have been.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/lower/emitter.h"

namespace tilec::ir {

namespace {
constexpr int64_t kColumns = 32;  // of the buffer as the type has it: 128 bytes a row
constexpr int64_t kBarriers = 3;  // written, added up, nobody reads any more
}  // namespace

void Emitter::PlanExchanges() {
  for (OpId id : OpsInOrder(in_)) {
    const Op& op = in_.ops[id];
    if (op.kind != OpKind::kClusterReduce) continue;
    out_.launch.cluster = cluster_;
    const auto layout = plan_.layouts.find(op.results[0]);
    const int64_t regs = layout == plan_.layouts.end() ? 1 : layout->second.regs();
    const int64_t parts = regs % cluster_ == 0 ? cluster_ : 1;
    const int64_t rows = regs / parts * plan_.threads() / kColumns;
    const Type type = Type::Smem(in_.type(op.results[0]).dtype, {rows, kColumns},
                                 {rows, kColumns, kColumns, 0}, parts);
    if (OwnerOf(id) < 0) sound_ = false;
    Exchange& exchange = exchanges_[id];
    exchange.buffer = AddBuffer(type, false, OwnerOf(id), positions_.at(id), positions_.at(id));
    exchange.mbar =
        b_.Value(OpKind::kMbarAlloc, {}, Type::Mbar(kBarriers), {{"offset", int64_t{0}}});
  }
}

// One arrival for each warp of the role in every CTA.
void Emitter::InitExchanges(Builder& b) {
  for (const auto& [id, exchange] : exchanges_)
    b.Add(OpKind::kMbarInit, {exchange.mbar}, {},
          {{"count", int64_t{WarpsPerRole()}}, {"cluster", int64_t{1}}});
}

void Emitter::ClusterReduce_(OpId id) {
  const Op& op = in_.ops[id];
  const Exchange& exchange = exchanges_.at(id);
  const ValueId result = op.results[0];
  ValueId tile = Tile(op.operands[0]);
  const Type type = WarpType(result);
  if (type.layout.valid()) tile = InLayout(tile, plan_.layouts.at(result));
  Sync();  // who used the buffer's bytes before is done with them
  Bind(result, b_.Value(OpKind::kWarpClusterReduce, {tile, exchange.buffer, exchange.mbar}, type,
                        {{"kind", op.s("kind")}}));
}

}  // namespace tilec::ir
