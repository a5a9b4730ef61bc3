// What the judge is told of operations that outlive their instruction: copies through tensor maps
// and in bulk, copies by threads, products. Each names the bytes that it reads and writes, and the
// barrier or group that says when.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/handlers.h"
#include "runtime/emulator/judge_hooks.h"

namespace tilec::runtime::emulator {
namespace {

// Sectors that the rows of a box touch, rows that follow each other taken together.
void SpendBox(Warp& w, const Inst& i, int lane, const TensorMapInfo& map, const int32_t* coords) {
  if (!w.judge->lint()) return;
  uint64_t begin = 0, end = 0, sectors = 0, needed = 0;
  const auto flush = [&] {
    if (end == begin) return;
    sectors += (end - 1) / judge::kSector - begin / judge::kSector + 1;
    needed += (end - begin + judge::kSector - 1) / judge::kSector;
  };
  ForEachGlobalRow(map, coords, [&](uint64_t address, uint64_t bytes) {
    if (address != end) flush(), begin = address;
    end = address + bytes;
  });
  flush();
  if (needed > 0)
    w.judge->Spend(judge::Rule::kB3, w.judge_id, 1u << lane, PcOf(w, i), sectors, needed);
}

}  // namespace

judge::AsyncOp JudgeTensorLoad(Warp& w, const Inst& i, int lane, const TensorMapInfo& map,
                               uint64_t map_address, const int32_t* coords, const Cta& target,
                               uint32_t offset, const Cta& signalled, uint32_t bar_offset) {
  judge::Judge& j = *w.judge;
  j.Executes(w.judge_id, PcOf(w, i), lane);
  judge::AsyncOp op =
      j.CopyTo(w.judge_id, lane, PcOf(w, i), signalled.rank, bar_offset,
               static_cast<uint32_t>(map.box_bytes()));  // TmaCheck: less than shared memory has
  j.TensorMapUse(op, map_address);
  SpendBox(w, i, lane, map, coords);
  uint8_t layout = LayoutOf(map.swizzle_bytes);
  ForEachBoxRun(map, offset, [&](uint32_t at, uint32_t bytes) {
    j.AsyncShared(op, target.rank, at, bytes, true, layout);
  });
  ForEachGlobalRow(map, coords, [&](uint64_t address, uint64_t bytes) {
    j.AsyncGlobal(op, address, bytes, false);
  });
  return op;
}

void JudgeTensorStore(Warp& w, const Inst& i, int lane, const TensorMapInfo& map,
                      uint64_t map_address, const int32_t* coords, const Cta& cta, uint32_t offset,
                      bool reduces, uint32_t twins) {
  judge::Judge& j = *w.judge;
  j.Executes(w.judge_id, PcOf(w, i), lane);
  judge::AsyncOp reads = j.BulkRead(w.judge_id, lane, PcOf(w, i));
  judge::AsyncOp writes = j.BulkWrite(w.judge_id, lane, PcOf(w, i), reduces);
  writes.twins = twins;
  j.TensorMapUse(reads, map_address);
  SpendBox(w, i, lane, map, coords);
  ForEachBoxRun(map, offset, [&](uint32_t at, uint32_t bytes) {
    j.AsyncShared(reads, cta.rank, at, bytes, false, LayoutOf(map.swizzle_bytes));
  });
  ForEachGlobalRow(map, coords, [&](uint64_t address, uint64_t bytes) {
    j.AsyncGlobal(writes, address, bytes, true);
  });
}

judge::AsyncOp JudgeBulkLoad(Warp& w, const Inst& i, int lane, uint64_t from, const Cta& target,
                             uint32_t offset, uint32_t bytes, const Cta& signalled,
                             uint32_t bar_offset) {
  w.judge->Executes(w.judge_id, PcOf(w, i), lane);
  judge::AsyncOp op =
      w.judge->CopyTo(w.judge_id, lane, PcOf(w, i), signalled.rank, bar_offset, bytes);
  w.judge->AsyncShared(op, target.rank, offset, bytes, true, 0);
  w.judge->AsyncGlobal(op, from, bytes, false);
  return op;
}

judge::AsyncOp JudgeBulkShared(Warp& w, const Inst& i, int lane, const Cta& source, uint32_t from,
                               const Cta& target, uint32_t to, uint32_t bytes, const Cta& signalled,
                               uint32_t bar_offset) {
  w.judge->Executes(w.judge_id, PcOf(w, i), lane);
  judge::AsyncOp op =
      w.judge->CopyTo(w.judge_id, lane, PcOf(w, i), signalled.rank, bar_offset, bytes);
  w.judge->AsyncShared(op, source.rank, from, bytes, false, 0);
  w.judge->AsyncShared(op, target.rank, to, bytes, true, 0);
  return op;
}

judge::AsyncOp JudgeAnswer(Warp& w, const Inst& i, int lane, const Cta& target, uint32_t offset,
                           uint32_t bytes, uint32_t bar_offset) {
  w.judge->Executes(w.judge_id, PcOf(w, i), lane);
  judge::AsyncOp op = w.judge->CopyTo(w.judge_id, lane, PcOf(w, i), target.rank, bar_offset, bytes);
  w.judge->AsyncShared(op, target.rank, offset, bytes, true, 0);
  return op;
}

// Asynchronous, but the ISA does not name it among the operations of the async proxy.
judge::AsyncOp JudgeStoreAsync(Warp& w, const Inst& i, int lane, const Cta& target, uint32_t offset,
                               uint32_t bytes, const Cta& signalled, uint32_t bar_offset,
                               bool reduces) {
  w.judge->Executes(w.judge_id, PcOf(w, i), lane);
  judge::AsyncOp op =
      w.judge->CopyTo(w.judge_id, lane, PcOf(w, i), signalled.rank, bar_offset, bytes);
  op.generic = true;
  op.strong = reduces;
  w.judge->AsyncShared(op, target.rank, offset, bytes, true, 0);
  return op;
}

void JudgeBulkStore(Warp& w, const Inst& i, int lane, const Cta& cta, uint32_t offset, uint64_t to,
                    uint32_t bytes, bool reduces, uint16_t bytes_of, uint32_t twins) {
  w.judge->Executes(w.judge_id, PcOf(w, i), lane);
  judge::AsyncOp reads = w.judge->BulkRead(w.judge_id, lane, PcOf(w, i));
  judge::AsyncOp writes = w.judge->BulkWrite(w.judge_id, lane, PcOf(w, i), reduces);
  writes.twins = twins;
  // The bytes of each 16 that are copied, by runs.
  constexpr uint32_t kChunk = 16;
  for (uint32_t first = 0; first < kChunk && bytes_of != 0xffff; ++first) {
    if ((bytes_of >> first & 1) == 0 || (first > 0 && (bytes_of >> (first - 1) & 1) != 0)) continue;
    uint32_t run = 1;
    while (first + run < kChunk && (bytes_of >> (first + run) & 1) != 0) ++run;
    for (uint32_t at = first; at < bytes; at += kChunk) {
      w.judge->AsyncShared(reads, cta.rank, offset + at, run, false, 0);
      w.judge->AsyncGlobal(writes, to + at, run, true);
    }
  }
  if (bytes_of != 0xffff) return;
  w.judge->AsyncShared(reads, cta.rank, offset, bytes, false, 0);
  w.judge->AsyncGlobal(writes, to, bytes, true);
}

void JudgeCpAsync(Warp& w, const Inst& i, uint32_t mask, const uint32_t* to, const uint64_t* from,
                  const uint32_t* sizes, uint32_t bytes) {
  w.judge->Executes(w.judge_id, PcOf(w, i));
  judge::AsyncOp op = w.judge->CpAsync(w.judge_id, mask, PcOf(w, i));
  ForLanes(mask, [&](int l) {
    uint32_t offset = 0;
    const Cta* cta = ResolveShared(w, to[l], &offset);
    w.judge->AsyncShared(op, cta->rank, offset, bytes, true, 0);
    w.judge->AsyncGlobal(op, from[l], sizes != nullptr ? sizes[l] : bytes, false);
  });
}

void JudgeWgmma(Cta& cta, const Inst& i, uint32_t first_warp, uint32_t group, uint64_t desc_a,
                uint64_t desc_b) {
  judge::Judge& j = *cta.cluster->judge;
  Warp& first = cta.warps[first_warp];
  const Program& program = *cta.cluster->launch->program;
  const WgmmaShape& shape = program.wgmma[i.imm];
  for (uint32_t k = 0; k < 4; ++k) j.Executes(cta.warps[first_warp + k].judge_id, PcOf(first, i));
  judge::AsyncOp op = j.Wgmma(first.judge_id, PcOf(first, i), group);
  uint32_t kind = static_cast<uint32_t>(shape.n) | static_cast<uint32_t>(shape.d) << 16 |
                  static_cast<uint32_t>(shape.a) << 24;
  j.WgmmaRegisters(op, kind);
  uint32_t offsets[512];
  auto operand = [&](bool b, uint64_t bits) {
    MatrixDescriptor desc;
    std::string error;
    if (!DecodeDescriptor(bits, &desc, &error)) return;
    size_t n = 0;
    ForEachOperandChunk(shape, b, desc, [&](uint32_t offset) {
      if (n < std::size(offsets)) offsets[n++] = offset;
    });
    bool transposed = b ? shape.transpose_b : shape.transpose_a;
    size_t per_row = transposed ? static_cast<size_t>(shape.k()) : 2;
    j.AsyncChunks(op, cta.rank, offsets, n, per_row, transposed, LayoutOf(desc.swizzle_bytes));
  };
  if (!shape.a_in_registers) operand(false, desc_a);
  operand(true, desc_b);
}

}  // namespace tilec::runtime::emulator
