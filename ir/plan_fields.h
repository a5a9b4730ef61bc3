// The records of a plan's text, one row a field: the writer and the reader of ir/plan_text.cc both
// walk these rows, so that what is printed is what is read. Fields that are derived have no row.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/program_plan.h"

namespace tilec::ir {

// Cycles and iterations, which nothing multiplies: a tile of long loops takes millions.
struct PlanCount {
  int64_t& value;
};

// Records that hang on an op or a role carry it as a field; in the plan it is the key of a map.
struct PlanHeader {
  int warps = 4, compute_roles = 1, warpgroups = 1;
  int64_t cluster = 1;
  bool specialized = false, early_loads = false, slice_epilogues = false, copy_barrier = false;
  bool pair = false, joined_rings = false;
};
struct SiteRecord {
  size_t ring = 0;
  RingSite site;
};
struct LayoutRecord {
  Layout layout;
  std::vector<ValueId> of;
};
struct DotRecord {
  OpId op;
  DotPlan dot;
};
struct OperandRecord {
  OpId op;
  bool left = false;
  OperandPlan operand;
};
struct LoadRecord {
  OpId op;
  LoadPlan load;
  std::optional<size_t> buffer;
  bool multicast = false;
};
struct StoreRecord {
  OpId op;
  StorePlan store;
  std::optional<size_t> buffer;
  PlannedEpilogue epilogue;
};
struct LoopRecord {
  int role = 0;
  OpId loop;
  BeforeLastWait before_wait;
};
struct ChainRecord {
  int role = 0;
  OpId loop;
  PlannedChain chain;
};
struct SlotRecord {
  int role = 0;
  OpId op;
  BlockId arm;
  std::vector<size_t> rings;
};
struct GoesOnRecord {
  int role = 0;
  OpId op;
};

template <class IO>
void Fields(IO& io, PlanHeader& r) {
  io("warps", r.warps);
  io("cluster", r.cluster);
  io("pair", r.pair);
  io("specialized", r.specialized);
  io("compute-roles", r.compute_roles);
  io("warpgroups", r.warpgroups);
  io("copy-barrier", r.copy_barrier);
  io("early-loads", r.early_loads);
  io("slice-epilogues", r.slice_epilogues);
  io("joined-rings", r.joined_rings);
}
template <class IO>
void Fields(IO& io, PlannedRole& r) {
  io("name", r.name);
  io("kind", r.kind);
  io("index", r.index);
  io("first-warp", r.first_warp);
  io("warps", r.warps);
  io("registers", r.registers);
  io("turns", r.turns);
}
template <class IO>
void Fields(IO& io, PlannedChange& r) {
  io("what", r.what);
  io("from", r.from);
  io("to", r.to);
  io("why", r.why);
}
template <class IO>
void Fields(IO& io, PlannedRing& r) {
  io("slots", r.slots);
  io("bytes", r.bytes);
  io("arrivals", r.arrivals);
  io("multicast", r.multicast);
  io("in-loop", r.in_loop);
  io("around", r.around);
  io("read-by-threads", r.generic_reads);
}
template <class IO>
void Fields(IO& io, SiteRecord& r) {
  io("ring", r.ring);
  io("loads", r.site.loads);
  io("consumers", r.site.readers);
  io("reads", r.site.reads);
  io("bytes", r.site.bytes);
}
template <class IO>
void Fields(IO& io, OrderToken& r) {
  io("id", r.id);
  io("from", r.from);
  io("to", r.to);
  io("slots", r.slots);
  io("arrivals", r.arrivals);
}
template <class IO>
void Fields(IO& io, PlannedPass& r) {
  io("token", r.token);
  io("from", r.from);
  io("to", r.to);
  io("put", r.put);
  io("slots", r.slots);
  io("arrivals", r.arrivals);
  io("buffer", r.buffer);
}
template <class IO>
void Fields(IO& io, PlannedExchange& r) {
  io("op", r.op);
  io("buffer", r.buffer);
  io("parts", r.parts);
  io("barriers", r.barriers);
  io("arrivals", r.arrivals);
}
template <class IO>
void Fields(IO& io, OperandRing& r) {
  io("of", r.operands);
  io("slots", r.slots);
  io("met", r.met);
  io("buffer", r.buffer);
}
template <class IO>
void Fields(IO& io, PlannedAccumulator& r) {
  io("product", r.product);
  io("slots", r.slots);
  io("arrivals", r.arrivals);
}
template <class IO>
void Fields(IO& io, PlannedBuffer& r) {
  io("holds", r.holds);
  io("dtype", r.type.dtype);
  io("shape", r.type.shape);
  io("smem", r.type.smem);
  io("at", r.offset);
  io("begin", r.begin);
  io("end", r.end);
  io("owner", r.owner);
  io("cleared", r.cleared);
}
template <class IO>
void Fields(IO& io, LayoutRecord& r) {
  io("is", r.layout);
  io("of", r.of);
}
template <class IO>
void Fields(IO& io, DotRecord& r) {
  io("op", r.op);
  io("unit", r.dot.unit);
  io("split", r.dot.split);
  io("across", r.dot.across);
  io("k", r.dot.k_padded);
  io("promote", r.dot.promote);
  io("acc", r.dot.acc);
}
template <class IO>
void Fields(IO& io, OperandRecord& r) {
  io("op", r.op);
  io("left", r.left);
  io("from", r.operand.how);
  io("source", r.operand.source);
  io("mn-major", r.operand.trans);
  io("store-transposed", r.operand.store_transposed);
  io("zero-padding", r.operand.zero_padding);
  io("smem", r.operand.smem);
}
template <class IO>
void Fields(IO& io, LoadRecord& r) {
  io("op", r.op);
  io("buffer", r.buffer);
  io("in-buffer", r.load.buffer);
  io("tma", r.load.tma);
  io("chunk", r.load.chunk);
  io("threads", r.load.threads);
  io("registers", r.load.registers);
  io("zero-padding", r.load.zero_padding);
  io("kept", r.load.kept);
  io("shares", r.load.shares);
  io("smem", r.load.smem);
  io("rows", r.load.row_dim);
  io("columns", r.load.col_dim);
  io("half", r.load.half);
  io("every", r.load.every);
  io("multicast", r.multicast);
}
template <class IO>
void Fields(IO& io, StoreRecord& r) {
  io("op", r.op);
  io("buffer", r.buffer);
  io("tma", r.store.tma);
  io("transposed", r.store.transposed);
  io("smem", r.store.smem);
  io("rows", r.store.row_dim);
  io("columns", r.store.col_dim);
  io("panels", r.epilogue.panels);
  io("drains", r.epilogue.drains);
  io("freed-at", r.epilogue.freed_at);
  io("rows-of-part", r.epilogue.rows_of_part);
  io("by-slices", r.epilogue.by_slices);
  io("slice-width", r.epilogue.slice_width);
  io("sliced", r.epilogue.sliced);
}
template <class IO>
void Fields(IO& io, LoopRecord& r) {
  io("role", r.role);
  io("op", r.loop);
  io("made-again", r.before_wait.ops);
  io("read", r.before_wait.read);
  io("position", r.before_wait.position);
  io("loaded-early", r.before_wait.loads);
}
template <class IO>
void Fields(IO& io, PlannedNest& r) {
  PlanCount period{r.period}, alone{r.alone}, iterations{r.iterations};
  io("loop", r.loop);
  io("period", period);
  io("alone", alone);
  io("iterations", iterations);
  io("rings", r.rings);
}
template <class IO>
void Fields(IO& io, ChainRecord& r) {
  io("role", r.role);
  io("loop", r.loop);
  io("carried", r.chain.carried);
  io("product", r.chain.dot);
  io("from-zero", r.chain.from_zero);
  io("rings", r.chain.rings);
}
template <class IO>
void Fields(IO& io, SlotRecord& r) {
  io("role", r.role);
  io("op", r.op);
  io("arm", r.arm);
  io("rings", r.rings);
}
template <class IO>
void Fields(IO& io, GoesOnRecord& r) {
  io("role", r.role);
  io("op", r.op);
}

}  // namespace tilec::ir
