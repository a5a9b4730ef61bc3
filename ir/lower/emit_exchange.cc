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

void Emitter::ClusterReduce_(OpId id) {
  const Op& op = in_.ops[id];
  const ValueId buffer = buffers_[p_.exchanges.at(id).buffer];
  const ValueId result = op.results[0];
  ValueId tile = Tile(op.operands[0]);
  const Type type = WarpType(result);
  if (type.layout.valid()) tile = InLayout(tile, plan_.layouts.at(op.operands[0]));
  Sync();  // who used the buffer's bytes before is done with them
  Attrs attrs = {{"kind", op.s("kind")}};
  if (op.i("all", 0) != 0) attrs.push_back({"all", int64_t{1}});
  if (op.attr("slices")) attrs.push_back({"slices", op.i("slices")});
  Bind(result, b_.Value(OpKind::kWarpClusterReduce, {tile, buffer, exchanges_.at(id)}, type,
                        std::move(attrs)));
}

}  // namespace tilec::ir
