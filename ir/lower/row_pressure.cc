// What row kernels want, which no product forces an order on: told too little the assembler spills,
// told too much it leaves no room for other CTAs, which hide the waits.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "ir/isa.h"
#include "ir/lower/held.h"
#include "ir/lower/pressure.h"
#include "ir/queries.h"

namespace tilec::ir {

namespace {
// A few elements, stored once the loops of the role are done, whose registers are free then.
bool RareStore(const Function& fn, const Op& store) {
  constexpr int64_t kFew = 4;
  if (store.kind != OpKind::kGStore || fn.layout(store.operands[1]).regs() > kFew) return false;
  bool loops = false;
  for (OpId id : fn.blocks[store.block].ops) {
    const Op& op = fn.ops[id];
    if (op.kind == OpKind::kGStore && op.operands == store.operands) return loops;
    loops = loops || IsLoop(op.kind);
  }
  return false;
}
bool InLoop(const Function& fn, const Op& op) {
  for (BlockId b = op.block; b.valid() && fn.blocks[b].parent.valid();
       b = fn.ops[fn.blocks[b].parent].block)
    if (IsLoop(fn.ops[fn.blocks[b].parent].kind)) return true;
  return false;
}
// Rows of a turned tile, in a loop: where each begins is computed in front of the loop and kept.
int64_t RowsKept(const Function& fn, const Op& op, ValueId tile) {
  const Layout& layout = fn.layout(tile);
  const RegisterRun run = RunAlong(layout, layout.rank - 1);
  if (run.step == 1 || !InLoop(fn, op)) return 0;  // not turned, or not kept
  std::set<std::vector<int64_t>> rows;
  for (int64_t r = 0; r < layout.regs(); ++r) {
    std::vector<int64_t> at = layout.RegCoord(r);
    at.pop_back();
    rows.insert(std::move(at));
  }
  return static_cast<int64_t>(rows.size());
}
// Elements at other places, in a loop: where a thread's lies, and whether that is inside the tile,
// is the same in every iteration, computed in front of the loop and kept. A tile that nothing is
// read outside of has one address for all of its elements.
int64_t PlacesKept(const Function& fn) {
  std::map<std::vector<int64_t>, int64_t> kept;  // by what the places depend on
  for (const Op& op : fn.ops) {
    if (op.kind != OpKind::kWarpRearrange || !InLoop(fn, op) || !fn.type(op.results[0]).is_tile() ||
        fn.type(op.results[0]).shape.empty())
      continue;
    const Type &in = fn.type(op.operands[0]), &out = fn.type(op.results[0]);
    const std::vector<int64_t>& strides = op.ints("strides");
    int64_t least = op.i("first"), most = least;
    for (size_t d = 0; d < strides.size(); ++d)
      (strides[d] < 0 ? least : most) += (out.shape[d] - 1) * strides[d];
    const bool inside = least >= 0 && most < in.elements();
    std::vector<int64_t> key = {op.i("first"), op.i("scratch", -1), ByteSize(in.dtype),
                                static_cast<int64_t>(out.layout.index)};
    key.insert(key.end(), strides.begin(), strides.end());
    kept[key] = inside ? 1 : fn.layout(op.results[0]).regs();
  }
  int64_t registers = 0;
  for (const auto& [key, addresses] : kept) registers += addresses;
  return registers;
}
// A load that a loop makes for a turn to come (ir/passes/read_ahead.cc).
bool ForAnotherTurn(const Function& fn, const Op& load) {
  if (!load.block.valid()) return false;
  const Block& body = fn.blocks[load.block];
  if (!body.parent.valid() || !IsLoop(fn.ops[body.parent].kind) || body.ops.empty()) return false;
  const std::vector<ValueId>& next = fn.ops[body.ops.back()].operands;
  return std::find(next.begin(), next.end(), load.results[0]) != next.end();
}
int64_t LoadsAhead(const Function& fn) {
  return std::count_if(fn.ops.begin(), fn.ops.end(), [&](const Op& op) {
    return op.kind == OpKind::kGLoad && ForAnotherTurn(fn, op);
  });
}
// Iterations that load, store, and hand sums or states on: where each of several tensors lies, and
// whether that is inside. (Gradients of activations, three tensors: 12 to 124 bytes with 48 to 80
// registers, none with 64 to 96; the backward pass of a decaying scan, five: 40 to 164 with 48 to
// 64, none with 72.)
int64_t PlacesOfTurns(const Function& fn) {
  constexpr size_t kFew = 2, kMost = 4;
  constexpr int64_t kEach = 6;
  int64_t kept = 0;
  for (const Op& loop : fn.ops) {
    if (!IsLoop(loop.kind)) continue;
    const Block& body = fn.blocks[loop.regions.back()];
    // Made from what the turn before made: what is loaded for a turn to come is handed on, too.
    const auto handed = [&](int64_t rank) {
      const std::vector<ValueId>& next = fn.ops[body.ops.back()].operands;
      return std::any_of(next.begin(), next.end(), [&](ValueId v) {
        const Op* def = fn.def(v);
        return fn.type(v).is_tile() && fn.type(v).rank() == rank && def &&
               std::any_of(def->operands.begin(), def->operands.end(), [&](ValueId from) {
                 return std::find(body.args.begin(), body.args.end(), from) != body.args.end();
               });
      });
    };
    if (!handed(1) && !handed(2)) continue;
    std::set<ValueId> tensors;
    bool stores = false;
    for (OpId id : body.ops) {
      const Op& op = fn.ops[id];
      stores = stores || op.kind == OpKind::kGStore;
      if (op.kind == OpKind::kGLoad || op.kind == OpKind::kGStore) tensors.insert(op.operands[0]);
    }
    // (Recurrences whose state is a matrix take what they take: none of them spilled.)
    if (stores && tensors.size() > kFew && (tensors.size() <= kMost || !handed(2)))
      kept = std::max(kept, kEach * static_cast<int64_t>(tensors.size()));
  }
  return kept;
}
// Loads of a window that stand together (ir/passes/few_turns.cc): the assembler puts as many in
// flight as it has registers for, and needs some to spare. (A causal convolution of four taps: 104
// bytes spilled with 40 registers.) What is held anyway is counted as such. In programs without
// loops.
int64_t LoadsTogether(const Function& fn, int64_t held) {
  constexpr int64_t kWindow = 3, kMost = 32;
  std::map<std::pair<uint32_t, uint32_t>, std::pair<int64_t, int64_t>>
      of;  // by place in the source
  for (const Op& op : fn.ops) {
    if (IsLoop(op.kind)) return 0;
    if (op.kind != OpKind::kGLoad) continue;
    const Type& type = fn.type(op.results[0]);
    if (!type.layout.valid()) continue;
    auto& [loads, registers] = of[{op.at.begin, op.at.end}];
    ++loads;
    registers += CeilDiv(fn.layout(op.results[0]).regs() * ByteSize(type.dtype), 4);
  }
  int64_t together = 0;
  for (const auto& [at, loads] : of)
    if (loads.first >= kWindow) together += loads.second;
  return std::clamp<int64_t>(together - held, 0, kMost);
}
// Such a window of rows in turns of a loop that store: the assembler has the loads of a turn in
// flight under the end of the one before. (A causal convolution of two or three taps, tile after
// tile: 24 to 192 bytes spilled with 40 to 64 registers.)
bool WindowsInTurns(const Function& fn) {
  constexpr int64_t kWindow = 2;
  std::map<std::tuple<BlockId, uint32_t, uint32_t>, int64_t> of;  // by turn and place in the source
  for (const Op& op : fn.ops) {
    if (op.kind != OpKind::kGLoad || fn.type(op.results[0]).rank() < 2) continue;
    const OpId turn = fn.blocks[op.block].parent;
    const std::vector<OpId>& ops = fn.blocks[op.block].ops;
    const bool stores = std::any_of(ops.begin(), ops.end(),
                                    [&](OpId id) { return fn.ops[id].kind == OpKind::kGStore; });
    if (turn.valid() && IsLoop(fn.ops[turn].kind) && stores &&
        ++of[{op.block, op.at.begin, op.at.end}] >= kWindow)
      return true;
  }
  return false;
}
// Of vectors that are made of aligned ones: how far and by which bytes, and twice the words until
// they are one. (Layernorm of 5613 and 6001 bf16: 4 to 16 bytes spilled with 48 registers, none
// with 56.) In turns of a loop that store each further vector of a thread has two places of its
// own and their bounds where it is half of one. (Four vectors of 4 bf16: 40 bytes with 48
// registers, 8 with 56, none with 64.)
int64_t ShiftedLoads(const Function& fn) {
  constexpr int64_t kShifted = 4, kFurther = 5, kFew = 2, kHalf = 8;
  int64_t most = 0;
  for (const Op& op : fn.ops) {
    if (op.kind != OpKind::kGLoad || op.i("shifted", 0) == 0) continue;
    most = std::max(most, kShifted);
    const Type& type = fn.type(op.results[0]);
    const Block& block = fn.blocks[op.block];
    if (!type.layout.valid() || !block.parent.valid() || !IsLoop(fn.ops[block.parent].kind))
      continue;
    const bool stores = std::any_of(block.ops.begin(), block.ops.end(),
                                    [&](OpId id) { return fn.ops[id].kind == OpKind::kGStore; });
    const int64_t vectors = fn.layout(op.results[0]).regs() / op.i("vector", 1);
    const bool half = op.i("vector", 1) * ByteSize(type.dtype) <= kHalf;
    if (stores && half && vectors > kFew)
      most = std::max(most, kShifted + kFurther * (vectors - 1));
  }
  return most;
}
// Loads that go straight to shared memory, where a row is kept: nothing is computed of them
// meanwhile, and as many are on their way as there are registers for.
std::set<const Op*> PutAway(const Function& fn) {
  std::set<const Op*> out;
  for (const Op& op : fn.ops) {
    if (op.kind != OpKind::kSmemStore) continue;
    const Op* def = fn.def(op.operands[0]);
    while (def && def->kind != OpKind::kGLoad && def->operands.size() == 1)
      def = fn.def(def->operands[0]);
    if (def && def->kind == OpKind::kGLoad) out.insert(def);
  }
  return out;
}
// Of many elements that are compared for their place each has one. (Greedy choice of a token, 16
// elements a thread: 76 bytes with 64 registers, none with 80.)
int64_t PlacesCompared(const Function& fn) {
  constexpr int64_t kMany = 16;
  int64_t most = 0;
  for (const Op& op : fn.ops)
    if (op.kind == OpKind::kWarpArgReduce) most = std::max(most, fn.layout(op.operands[0]).regs());
  return most >= kMany ? most : 0;
}
// Atomics that go several elements at a time (backend/emit_global.cc).
bool AddsVectors(const Function& fn, const Op& atomic, const Target& target) {
  return target.Has("vector_atomics") && atomic.i("vector", 1) > 1 && atomic.s("kind") == "add" &&
         fn.type(atomic.operands[1]).dtype == DType::kF32;
}
}  // namespace

int64_t RowRegisters(const Function& fn, const Target& target, OpId role, bool chunks) {
  const TargetRegisters& beside = target.registers;
  // Of a row in chunks one is computed on while the next is on its way from shared memory: four
  // chunks of 16 elements a thread spilled with 80 registers.
  constexpr int64_t kChunks = 2;
  // What threads of a scan do for themselves has no order, and told how many registers it may take
  // the assembler does so much of it at once that it spills: 16 bytes with 80 registers, none with
  // the 61 that it takes if it is told nothing. Tiles of few registers leave room for that.
  constexpr int64_t kFew = 32;
  int64_t streams = 0, elements = 1, rows = 0, combined = 0;
  std::map<BlockId, int64_t> in_a_row;  // of each block
  const std::set<const Op*> put_away = PutAway(fn);
  bool reread = false, scattered = false, exchanges = false, simt = false;
  for (const Op& op : fn.ops) {
    if (op.kind == OpKind::kSmemLoad) {
      reread = true;
      elements = std::max(elements, fn.layout(op.results[0]).regs());
    }
    if (put_away.count(&op) > 0) continue;
    streams += op.kind == OpKind::kGLoad;
    if (op.kind == OpKind::kGLoad && op.s("modes").rfind("ss", 0) == 0 && !ForAnotherTurn(fn, op))
      ++in_a_row[op.block];
    if (op.kind == OpKind::kWarpClusterReduce && fn.type(op.results[0]).layout.valid())
      combined = std::max(combined, fn.layout(op.results[0]).regs());
    simt = simt || op.kind == OpKind::kSimtDot;
    exchanges = exchanges || op.kind == OpKind::kWarpScan || op.kind == OpKind::kWarpRearrange;
    scattered = scattered || (op.kind == OpKind::kGAtomic && !AddsVectors(fn, op, target));
    if (op.kind == OpKind::kGLoad || op.kind == OpKind::kGStore) {
      const Type& type = fn.type(op.kind == OpKind::kGLoad ? op.results[0] : op.operands[1]);
      if (type.layout.valid())
        rows += RowsKept(fn, op, op.kind == OpKind::kGLoad ? op.results[0] : op.operands[1]);
      scattered = scattered || (op.i("vector", 1) * ByteSize(type.dtype) < 8 &&
                                !op.attr("scratch") && !RareStore(fn, op));
    }
  }
  int64_t held =
      HeldRegisters(fn, role, !reread, false) + 2 * rows + PlacesKept(fn) +
      (chunks ? kChunks * elements : 0) +
      (reread ? beside.streamed * (streams + 1) * CeilDiv(elements, beside.streamed_elements) : 0);
  if (chunks) held = std::max(held, HeldRegisters(fn, role, false, true));
  if (exchanges && held > kFew) return 0;
  // Of products by multiply-adds the assembler reads operands far ahead: one of 64 x 32 spilled 28
  // bytes with 40 registers, two of them 72 with 56, and told nothing neither.
  if (simt) return 0;
  if (WindowsInTurns(fn)) return 0;
  // Tiles of one tensor that are loaded in a row (parts that are added up, divide_reductions.cc):
  // the assembler has as many on their way as it has registers, which is what they are for; told
  // how many it spilled 4 to 12 bytes of eight. Windows that a turn of a loop loads likewise
  // (twelve loads of a depthwise convolution by four rows: 880 bytes with 64 registers).
  constexpr int64_t kInARow = 6;
  const bool loops =
      std::any_of(fn.ops.begin(), fn.ops.end(), [](const Op& op) { return IsLoop(op.kind); });
  if (std::any_of(in_a_row.begin(), in_a_row.end(), [&](const auto& loads) {
        const OpId parent = fn.blocks[loads.first].parent;
        const bool turn = parent.valid() && IsLoop(fn.ops[parent].kind);
        return loads.second > kInARow && (turn || !loops);
      }))
    return 0;
  // The same of tiles that a cluster combines, which are read from all of its CTAs at once (16
  // registers of eight CTAs: 64 bytes spilled with 80 registers).
  constexpr int64_t kOfOneCta = 4;
  if (combined > kOfOneCta) return 0;
  // An address and a predicate for every element that is accessed alone. Of what is loaded for
  // another turn the place is held beside that of this turn's store: 12 to 44 bytes were spilled.
  const int64_t needed = scattered
                             ? 2 * (held + beside.row_kernel) + LoadsAhead(fn)
                             : held + beside.row_kernel + 2 * LoadsAhead(fn) + ShiftedLoads(fn);
  const int64_t together = reread || chunks ? 0 : LoadsTogether(fn, held);
  const int64_t registers = std::max<int64_t>(
      32, RoundUp(needed + together + PlacesCompared(fn) + (reread ? 0 : PlacesOfTurns(fn)), 8));
  // What is reached in other CTAs, and where each loop's part begins: 4 to 36 bytes were spilled.
  // There are few such CTAs, so no more than two have to find room on an SM.
  constexpr int64_t kApart = 16;
  const auto ctas = [&](int64_t each) {
    return target.CtasPerSm(isa::kWarpThreads * fn.launch.warps, each, fn.launch.smem_bytes);
  };
  if (combined == 0 || ctas(registers + kApart) < std::min<int64_t>(2, ctas(registers)))
    return registers;
  return registers + kApart;
}

int64_t CtasPerSm(const Function& fn, const Target& target, OpId role, bool chunks) {
  // Accumulators, and the tensor core is one.
  for (const Op& op : fn.ops)
    if (op.kind == OpKind::kMma || op.kind == OpKind::kTcMma) return 1;
  const int64_t registers = RowRegisters(fn, target, role, chunks);
  if (registers == 0) return 0;
  // A large CTA that is alone is told nothing (kLargeCta). Where two have nearly
  // what is estimated, they are told: the assembler takes it for loads.
  const int64_t threads = isa::kWarpThreads * fn.launch.warps;
  const int64_t ctas = target.CtasPerSm(threads, registers, fn.launch.smem_bytes);
  if (ctas > 1 || threads < kLargeCta) return ctas;
  return target.CtasPerSm(threads, registers - target.registers.row_nearly, fn.launch.smem_bytes);
}

}  // namespace tilec::ir
