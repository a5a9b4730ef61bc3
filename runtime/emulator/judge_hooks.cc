// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/judge_hooks.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/emulator/handlers.h"
#include "runtime/emulator/limits.h"

namespace tilec::runtime::emulator {
namespace {

struct Wavefronts {
  uint32_t took = 0, needed = 0;
};

// Wavefronts of a shared access, and how many its bytes need: 32 banks of 4 bytes.
Wavefronts CountWavefronts(uint32_t lanes, const uint32_t* offsets, uint32_t bytes) {
  uint32_t per_wave = std::min(32u, 128 / std::max(bytes, 4u));  // lanes served together
  Wavefronts sum;
  uint32_t group[32], n = 0;
  auto flush = [&] {
    if (n == 0) return;
    uint32_t words[32][32], used[32] = {}, most = 1;
    for (uint32_t k = 0; k < n; ++k)
      for (uint32_t b = 0; b < std::max(bytes, 4u); b += 4) {
        uint32_t word = (offsets[group[k]] + b) / 4, bank = word % 32;
        bool same = false;
        for (uint32_t j = 0; j < used[bank]; ++j) same = same || words[bank][j] == word;
        if (!same && used[bank] < 32) words[bank][used[bank]++] = word;
        most = std::max(most, used[bank]);
      }
    sum.took += most;
    ++sum.needed;
    n = 0;
  };
  ForLanes(lanes, [&](int l) {
    group[n++] = static_cast<uint32_t>(l);
    if (n == per_wave) flush();
  });
  flush();
  return sum;
}

// Sectors of global memory that the lanes touch together, and what their bytes fill.
void SpendSectors(Warp& w, const judge::Touch& t, const uint64_t* addresses, uint32_t bytes) {
  uint64_t starts[32];
  size_t n = 0;
  ForLanes(t.lanes, [&](int l) { starts[n++] = addresses[l]; });
  std::sort(starts, starts + n);
  const size_t different = static_cast<size_t>(std::unique(starts, starts + n) - starts);
  uint64_t sectors = 0, last = ~0ull, end = 0, filled = 0;
  for (size_t k = 0; k < different; ++k) {
    const uint64_t from = std::max(starts[k], end);
    end = std::max(end, starts[k] + bytes);
    filled += end > from ? end - from : 0;
    for (uint64_t s = starts[k] / judge::kSector; s <= (starts[k] + bytes - 1) / judge::kSector;
         ++s)
      if (last == ~0ull || s > last) ++sectors, last = s;
  }
  const uint64_t needed = (filled + judge::kSector - 1) / judge::kSector;
  w.judge->Spend(judge::Rule::kB2, t.warp, t.lanes, t.pc, sectors, needed);
}

void Shared(Warp& w, const judge::Touch& t, uint32_t rank, const uint32_t* offsets,
            uint32_t bytes) {
  w.judge->SharedAccess(t, rank, offsets, bytes);
  if (t.order != judge::Order::kWeak || t.atomic) w.judge->SharedSync(t, rank, offsets);
  if (!w.cta->cluster->launch->judge->banks || t.atomic) return;
  const Wavefronts n = CountWavefronts(t.lanes, offsets, bytes);
  w.judge->Spend(judge::Rule::kB1, t.warp, t.lanes, t.pc, n.took, n.needed);
}

}  // namespace

void JudgeAccess(Warp& w, const Inst& i, uint32_t mask, const Access& at, uint32_t bytes,
                 bool write, bool atomic) {
  judge::Touch t;
  t.warp = w.judge_id;
  t.lanes = mask;
  t.pc = PcOf(w, i);
  w.judge->Executes(t.warp, t.pc);
  t.write = write;
  t.atomic = atomic;
  t.order = OrderOf(i);
  t.scope = ScopeOf(i);
  t.is_volatile = (i.u[6] & kVolatileOrder) != 0;
  ++w.accesses;
  if (t.order == judge::Order::kRelaxed && !write) {
    const auto& unfenced = w.cta->cluster->launch->program->unfenced_controls;
    if (std::binary_search(unfenced.begin(), unfenced.end(), t.pc))
      w.judge->Hint(judge::Rule::kM9, t.warp, mask, t.pc,
                    "a branch depends on this relaxed load, and the accesses behind it are not "
                    "ordered after it",
                    "load with `.acquire`, or put `fence.acq_rel` behind the branch");
  }
  if (at.space == Space::kGlobal) {
    uint64_t addresses[32];
    ForLanes(mask, [&](int l) { addresses[l] = reinterpret_cast<uint64_t>(at.p[l]); });
    w.judge->GlobalAccess(t, addresses, bytes);
    if (w.judge->lint() && !t.atomic) SpendSectors(w, t, addresses, bytes);
    if (t.order != judge::Order::kWeak || t.atomic) w.judge->GlobalSync(t, addresses);
    return;
  }
  if (at.space != Space::kShared) return;
  uint32_t offsets[32];
  for (const Cta& cta : w.cta->cluster->ctas) {
    uint32_t lanes = 0;
    ForLanes(mask, [&](int l) {
      if (at.p[l] < cta.smem || at.p[l] >= cta.smem + cta.smem_bytes) return;
      offsets[l] = static_cast<uint32_t>(at.p[l] - cta.smem);
      lanes |= 1u << l;
    });
    if (lanes == 0) continue;
    t.lanes = lanes;
    Shared(w, t, cta.rank, offsets, bytes);
    mask &= ~lanes;
    if (mask == 0) return;
  }
}

namespace {

template <typename T>
uint32_t FiniteLanes(Warp& w, uint32_t row, uint32_t mask) {
  const T* v = Row<T>(w, row);
  uint32_t finite = 0;
  ForLanes(mask, [&](int l) { finite |= std::isfinite(v[l]) ? 1u << l : 0; });
  return finite;
}

}  // namespace

Step RunWatchingNumbers(Warp& w, const Inst& i, uint32_t mask) {
  const auto& floats = w.cta->cluster->launch->program->floats;
  uint32_t pc = PcOf(w, i);
  auto it = std::lower_bound(floats.begin(), floats.end(), pc,
                             [](const FloatResult& f, uint32_t at) { return f.pc < at; });
  if (it == floats.end() || it->pc != pc) return i.run(w, i, mask);
  auto finite = [&](uint32_t row, uint32_t lanes) {
    return it->wide ? FiniteLanes<double>(w, row, lanes) : FiniteLanes<float>(w, row, lanes);
  };
  uint32_t before = mask;
  for (uint32_t k = 1; k <= it->sources; ++k) before = finite(i.o[k], before);
  Step step = i.run(w, i, mask);
  uint32_t born = before & ~finite(i.o[0], before);
  if (step == Step::kNext && born != 0)
    w.judge->Hint(judge::Rule::kN1, w.judge_id, born, pc,
                  fmt::format("lanes {:#x} get a NaN or infinity from finite operands", born),
                  "look at the operands here; later ones only pass it on");
  return step;
}

void JudgeMatrix(Warp& w, const Inst& i, const uint32_t* addresses, uint32_t count, bool write) {
  judge::Touch t;
  t.warp = w.judge_id;
  t.lanes = count >= 4 ? ~0u : (1u << 8 * count) - 1;
  t.pc = PcOf(w, i);
  w.judge->Executes(t.warp, t.pc);
  t.write = write;
  uint32_t offsets[32];
  for (int l = 0; l < 32; ++l) offsets[l] = addresses[l] & ((1u << kRankShift) - 1);
  Shared(w, t, w.cta->rank, offsets, 16);
}

void JudgeArrive(Warp& w, const Inst& i, uint32_t lanes, const Cta& cta, uint32_t offset,
                 bool arrives, bool expects) {
  w.judge->Executes(w.judge_id, PcOf(w, i), __builtin_ctz(lanes));
  w.judge->Arrive(w.judge_id, lanes, PcOf(w, i), cta.rank, offset, OrderOf(i), ScopeOf(i), arrives,
                  expects);
}

void JudgeWait(Warp& w, const Inst& i, uint32_t done, const uint32_t* address, bool parity,
               const uint32_t* parities) {
  if (done != 0) w.judge->Executes(w.judge_id, PcOf(w, i));
  while (done != 0) {
    int first = __builtin_ctz(done);
    uint32_t same = 0, p = parity ? parities[first] : 0;
    ForLanes(done, [&](int l) {
      if (address[l] == address[first] && (!parity || parities[l] == p)) same |= 1u << l;
    });
    done &= ~same;
    uint32_t offset = address[first] & ((1u << kRankShift) - 1);
    auto it = w.cta->mbarriers.find(offset);
    if (it == w.cta->mbarriers.end()) continue;
    w.judge->Waited(w.judge_id, same, PcOf(w, i), w.cta->rank, offset, it->second.phase(), parity,
                    p, OrderOf(i), ScopeOf(i));
  }
}

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

void JudgeBar(Warp& w, const Inst& i, uint32_t mask, uint32_t id, uint64_t generation, bool waits,
              bool reduces) {
  w.judge->NamedArrive(w.judge_id, mask, PcOf(w, i), id, generation, waits, reduces);
}

void JudgeEnd(Cluster& cluster, bool stuck) {
  if (cluster.judge == nullptr) return;
  cluster.judge->AtEnd(
      [&](uint32_t rank, uint32_t offset) -> int64_t {
        const auto& barriers = cluster.ctas[rank].mbarriers;
        auto it = barriers.find(offset);
        return it == barriers.end() ? 0 : it->second.tx();
      },
      stuck);
  cluster.judge = nullptr;
}

bool WaitsForOthers(Cluster& c) {
  constexpr uint64_t kPolls = 100;  // strong loads in one slice
  if (c.judge == nullptr) return false;
  uint64_t loads = c.judge->strong_loads(), writes = c.launch->judge->global_writes;
  bool waits = loads - c.judged_loads > kPolls && writes == c.judged_writes;
  c.judged_loads = loads;
  c.judged_writes = writes;
  return waits;
}

void ReportWaiting(Cluster& c, uint64_t resident, uint64_t unstarted) {
  c.failed = true;
  c.fault = {};
  c.fault.def = &kDeadlock;
  c.fault.rule = unstarted > 0 ? judge::Rule::kS8 : judge::Rule::kS1;
  c.fault.line = c.launch->program->code[c.judge->strong_load_pc()].line;
  if (unstarted > 0) {
    c.fault.message = fmt::format(
        "{} clusters poll global memory, and the {} others cannot start before one of them ends",
        resident, unstarted);
    c.fault.helps.push_back(
        "launch no more CTAs than the machine holds, or let CTAs wait for "
        "CTAs of smaller numbers only");
  } else {
    c.fault.message =
        fmt::format("all {} clusters left poll global memory, and nobody writes", resident);
  }
}

uint64_t ResidentClusters(const Launch& launch) {
  return ResidentClusters(launch.options->machine, launch.config, launch.smem_total,
                          launch.program->maxnreg);
}

void StartJudge(Cluster& c) {
  if (c.launch->judge == nullptr) return;
  judge::ClusterShape shape;
  shape.number = c.number;
  shape.warps_per_cta = static_cast<uint32_t>(c.ctas[0].warps.size());
  for (const Cta& cta : c.ctas)
    shape.ctas.push_back({{cta.id[0], cta.id[1], cta.id[2]}, cta.smem_bytes});
  for (const Warp& w : c.ctas[0].warps) shape.lanes.push_back(w.launched);
  c.judge = std::make_unique<judge::Judge>(c.launch->judge, shape);
  for (Cta& cta : c.ctas)
    for (Warp& w : cta.warps) {
      w.judge = c.judge.get();
      w.judge_id = cta.rank * shape.warps_per_cta + w.index;
    }
}

void SetUpJudge(Launch& launch, judge::LaunchJudge* judge) {
  judge->entry = launch.program->name;
  judge->seed = launch.options->seed;
  judge->numbers = launch.options->check_numbers;
  judge->lint = launch.options->report->lint();
  judge->banks = launch.options->check_banks || judge->lint;
  judge->trace = launch.options->report->trace();
  if (judge->trace != nullptr) judge->trace_launch = judge->trace->launches++;
  judge->registers = &launch.program->watched;
  judge->loaded = &launch.program->loaded;
  judge->site = [&launch](uint32_t pc) {
    const Program& program = *launch.program;
    judge::Site site;
    if (pc >= program.code.size()) return site;
    const Inst& i = program.code[pc];
    site.file = launch.places->name;
    site.line = i.line;
    site.text = program.texts[i.text];
    site.source = launch.places->Source(i.line);
    return site;
  };
  judge->role = [&launch](uint32_t warp) { return launch.places->Role(warp); };
  judge->object = [&launch](uint64_t begin, uint64_t end) {
    return SharedName(launch, begin, end);
  };
  judge->place = [&launch](uint64_t address) -> std::string {
    const auto& table = launch.allocations;
    auto it = std::upper_bound(table.begin(), table.end(), address,
                               [](uint64_t a, const Allocation& x) { return a < x.begin; });
    if (it == table.begin() || address >= (it - 1)->end) return "global memory";
    --it;
    uint64_t offset = address - it->begin;
    const Program& program = *launch.program;
    for (size_t k = 0; k < program.params.size(); ++k) {
      uint64_t value = 0;
      if (program.params[k].second != 8) continue;
      memcpy(&value, launch.params + program.params[k].first, 8);
      if (value == it->begin) return fmt::format("byte {} of argument {}", offset, k);
    }
    return fmt::format("byte {} of an allocation of {}", offset, it->end - it->begin);
  };
  launch.judge = judge;
}

judge::Finding FindingOf(const Fault& fault, const Launch& launch) {
  judge::Finding f;
  f.rule = fault.rule.value_or(RuleOf(*fault.def));
  f.severity = judge::Def(f.rule).severity;
  f.entry = launch.program->name;
  f.message = fault.message;
  judge::Access at;
  at.site.file = launch.places->name;
  at.site.line = fault.line;
  at.site.source = launch.places->Source(fault.line);
  for (const Inst& i : launch.program->code)
    if (i.line == fault.line && at.site.text.empty()) at.site.text = launch.program->texts[i.text];
  f.accesses.push_back(std::move(at));
  f.notes = fault.notes;
  if (!fault.helps.empty()) f.fix = fault.helps[0];
  f.seed = launch.options->seed;
  return f;
}

namespace {

// Commits number the groups of copies, waits let them land.
bool LandForSync(Warp& w, const Inst& i, SyncKind kind, uint32_t mask) {
  const auto pending = static_cast<uint32_t>(i.imm);
  switch (kind) {
    case SyncKind::kBulkCommit:
    case SyncKind::kCpCommit:
      ForLanes(mask, [&](int l) { ++w.groups[kind == SyncKind::kBulkCommit][l]; });
      return true;
    case SyncKind::kBulkWait: return LandGroups(w, true, mask, pending);
    case SyncKind::kCpWait: return LandGroups(w, false, mask, pending);
    case SyncKind::kCpWaitAll: return LandAllOf(w, false, mask);
    case SyncKind::kNothing:
    case SyncKind::kProxyAsync:
    case SyncKind::kInitFence:
    case SyncKind::kThreadFence:
    case SyncKind::kScFence:
    case SyncKind::kTensorMapAcquire:
    case SyncKind::kTensorMapRelease:
    case SyncKind::kWgmmaFence:
    case SyncKind::kWgmmaCommit:
    case SyncKind::kWgmmaWait: return true;
  }
  return true;
}

}  // namespace

// Fences, commits and waits of groups: to the executor, which does everything when it is issued
// unless copies are to land late, they are nothing.
Step RunSync(Warp& w, const Inst& i, uint32_t mask) {
  SyncKind kind = static_cast<SyncKind>(i.u[0]);
  bool collective = kind == SyncKind::kWgmmaFence || kind == SyncKind::kWgmmaCommit ||
                    kind == SyncKind::kWgmmaWait;
  if (collective)
    if (Step s = Converge(w, i, mask, w.launched); s != Step::kNext) return s;
  if (!LandForSync(w, i, kind, mask)) return Step::kError;
  if (w.judge == nullptr) return Step::kNext;
  judge::Judge& j = *w.judge;
  uint32_t id = w.judge_id, n = static_cast<uint32_t>(i.imm);
  j.Happens(id, mask, PcOf(w, i));
  switch (kind) {
    case SyncKind::kNothing: break;
    case SyncKind::kProxyAsync: j.ProxyFence(id, mask, i.u[1] & 1, i.u[1] & 2); break;
    case SyncKind::kInitFence: j.InitFence(id, mask); break;
    case SyncKind::kThreadFence: j.ThreadFence(id, mask, i.u[1] & 1, i.u[1] & 2); break;
    case SyncKind::kScFence: j.ScFence(id, mask, static_cast<judge::Scope>(i.u[2])); break;
    case SyncKind::kTensorMapAcquire:
      for (uint32_t m = mask; m != 0; m &= m - 1) {
        const int l = __builtin_ctz(m);
        const uint64_t map = Row<uint64_t>(w, i.o[0])[l];
        if (!CheckGlobal(w, map, sizeof(TensorMap), false))
          return FailLane(w, i, l, kGlobalOutOfBounds, "a fence of a tensor map", sizeof(TensorMap),
                          map);
        j.TensorMapFence(id, 1u << l, map);
      }
      break;
    case SyncKind::kTensorMapRelease: j.TensorMapRelease(id, mask); break;
    case SyncKind::kWgmmaFence: j.WgmmaFence(id); break;
    case SyncKind::kWgmmaCommit: j.WgmmaCommit(id); break;
    case SyncKind::kWgmmaWait: j.WgmmaWait(id, PcOf(w, i), n); break;
    case SyncKind::kBulkCommit: j.BulkCommit(id, mask); break;
    case SyncKind::kBulkWait: j.BulkWait(id, mask, PcOf(w, i), n, i.u[1]); break;
    case SyncKind::kCpCommit: j.CpCommit(id, mask); break;
    case SyncKind::kCpWait: j.CpWait(id, mask, PcOf(w, i), n, false); break;
    case SyncKind::kCpWaitAll: j.CpWait(id, mask, PcOf(w, i), 0, true); break;
  }
  return Step::kNext;
}

}  // namespace tilec::runtime::emulator
