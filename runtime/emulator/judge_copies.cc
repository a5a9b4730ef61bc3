// What the judge is told of operations that outlive their instruction: copies through tensor maps
// and in bulk, copies by threads, products. Each names the bytes that it reads and writes, and the
// barrier or group that says when.
//
// SPDX-License-Identifier: Apache-2.0
#include <utility>

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
  if (needed > 0) w.judge->Spend(judge::Rule::kB3, ActOf({w, i, 1u << lane}), sectors, needed);
}

// A copy of so many bytes, of which a barrier is told.
judge::AsyncOp CopyTo(const Issuer& by, const SharedPlace& barrier, uint32_t bytes) {
  judge::Judge& j = *by.w.judge;
  j.Executes(by.w.judge_id, PcOf(by.w, by.i), by.lane);
  return j.CopyTo(by.w.judge_id, by.lane, PcOf(by.w, by.i), barrier.cta.rank, barrier.offset,
                  bytes);
}

// What a copy to global memory reads and what it writes, which are awaited apart.
std::pair<judge::AsyncOp, judge::AsyncOp> BulkOps(const Issuer& by, bool reduces, uint32_t twins) {
  judge::Judge& j = *by.w.judge;
  j.Executes(by.w.judge_id, PcOf(by.w, by.i), by.lane);
  judge::AsyncOp reads = j.BulkRead(by.w.judge_id, by.lane, PcOf(by.w, by.i));
  judge::AsyncOp writes = j.BulkWrite(by.w.judge_id, by.lane, PcOf(by.w, by.i), reduces);
  writes.twins = twins;
  return {std::move(reads), std::move(writes)};
}

}  // namespace

judge::AsyncOp JudgeTensorLoad(const Issuer& by, const MappedBox& from, const SharedPlace& to,
                               const SharedPlace& barrier) {
  judge::Judge& j = *by.w.judge;
  // TmaCheck: less than shared memory has
  judge::AsyncOp op = CopyTo(by, barrier, static_cast<uint32_t>(from.map.box_bytes()));
  j.TensorMapUse(op, from.map_address);
  SpendBox(by.w, by.i, by.lane, from.map, from.coords);
  uint8_t layout = LayoutOf(from.map.swizzle_bytes);
  ForEachBoxRun(from.map, to.offset, [&](uint32_t at, uint32_t bytes) {
    j.AsyncShared(op, to.cta.rank, at, bytes, true, layout);
  });
  ForEachGlobalRow(from.map, from.coords, [&](uint64_t address, uint64_t bytes) {
    j.AsyncGlobal(op, address, bytes, false);
  });
  return op;
}

void JudgeTensorStore(const Issuer& by, const SharedPlace& from, const MappedBox& to, bool reduces,
                      uint32_t twins) {
  judge::Judge& j = *by.w.judge;
  const auto [reads, writes] = BulkOps(by, reduces, twins);
  j.TensorMapUse(reads, to.map_address);
  SpendBox(by.w, by.i, by.lane, to.map, to.coords);
  ForEachBoxRun(to.map, from.offset, [&, reads = reads](uint32_t at, uint32_t bytes) {
    j.AsyncShared(reads, from.cta.rank, at, bytes, false, LayoutOf(to.map.swizzle_bytes));
  });
  ForEachGlobalRow(to.map, to.coords, [&, writes = writes](uint64_t address, uint64_t bytes) {
    j.AsyncGlobal(writes, address, bytes, true);
  });
}

judge::AsyncOp JudgeBulkLoad(const Issuer& by, uint64_t from, const SharedPlace& to, uint32_t bytes,
                             const SharedPlace& barrier) {
  judge::AsyncOp op = CopyTo(by, barrier, bytes);
  by.w.judge->AsyncShared(op, to.cta.rank, to.offset, bytes, true, 0);
  by.w.judge->AsyncGlobal(op, from, bytes, false);
  return op;
}

judge::AsyncOp JudgeBulkShared(const Issuer& by, const SharedPlace& from, const SharedPlace& to,
                               uint32_t bytes, const SharedPlace& barrier) {
  judge::AsyncOp op = CopyTo(by, barrier, bytes);
  by.w.judge->AsyncShared(op, from.cta.rank, from.offset, bytes, false, 0);
  by.w.judge->AsyncShared(op, to.cta.rank, to.offset, bytes, true, 0);
  return op;
}

judge::AsyncOp JudgeAnswer(const Issuer& by, const SharedPlace& to, uint32_t bytes,
                           uint32_t barrier) {
  judge::AsyncOp op = CopyTo(by, {to.cta, barrier}, bytes);
  by.w.judge->AsyncShared(op, to.cta.rank, to.offset, bytes, true, 0);
  return op;
}

// Asynchronous, but the ISA does not name it among the operations of the async proxy.
judge::AsyncOp JudgeStoreAsync(const Issuer& by, const SharedPlace& to, uint32_t bytes,
                               const SharedPlace& barrier, bool reduces) {
  judge::AsyncOp op = CopyTo(by, barrier, bytes);
  op.generic = true;
  op.strong = reduces;
  by.w.judge->AsyncShared(op, to.cta.rank, to.offset, bytes, true, 0);
  return op;
}

void JudgeBulkStore(const Issuer& by, const SharedPlace& from, uint64_t to, uint32_t bytes,
                    const BulkWriting& how) {
  const auto [reduces, bytes_of, twins] = how;
  judge::Judge& j = *by.w.judge;
  const auto [reads, writes] = BulkOps(by, reduces, twins);
  // The bytes of each 16 that are copied, by runs.
  constexpr uint32_t kChunk = 16;
  for (uint32_t first = 0; first < kChunk && bytes_of != 0xffff; ++first) {
    if ((bytes_of >> first & 1) == 0 || (first > 0 && (bytes_of >> (first - 1) & 1) != 0)) continue;
    uint32_t run = 1;
    while (first + run < kChunk && (bytes_of >> (first + run) & 1) != 0) ++run;
    for (uint32_t at = first; at < bytes; at += kChunk) {
      j.AsyncShared(reads, from.cta.rank, from.offset + at, run, false, 0);
      j.AsyncGlobal(writes, to + at, run, true);
    }
  }
  if (bytes_of != 0xffff) return;
  j.AsyncShared(reads, from.cta.rank, from.offset, bytes, false, 0);
  j.AsyncGlobal(writes, to, bytes, true);
}

void JudgeCpAsync(const Issuers& by, const uint32_t* to, const uint64_t* from,
                  const uint32_t* sizes, uint32_t bytes) {
  Warp& w = by.w;
  w.judge->Executes(w.judge_id, PcOf(w, by.i));
  judge::AsyncOp op = w.judge->CpAsync(w.judge_id, by.mask, PcOf(w, by.i));
  ForLanes(by.mask, [&](int l) {
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
    j.AsyncChunks(op, cta.rank, {offsets, n, per_row, transposed, LayoutOf(desc.swizzle_bytes)});
  };
  if (!shape.a_in_registers) operand(false, desc_a);
  operand(true, desc_b);
}

}  // namespace tilec::runtime::emulator
