// What the judge is told of each instruction when it is issued: accesses, fences, barriers, and
// values that are no numbers. Copies and products, which take effect later, are in judge_copies.cc.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/judge_hooks.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/emulator/handlers.h"

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
  w.judge->Spend(judge::Rule::kB2, {t.warp, t.lanes, t.pc}, sectors, needed);
}

void Shared(Warp& w, const judge::Touch& t, uint32_t rank, const uint32_t* offsets,
            uint32_t bytes) {
  w.judge->SharedAccess(t, rank, offsets, bytes);
  if (t.order != judge::Order::kWeak || t.atomic) w.judge->SharedSync(t, rank, offsets);
  if (!w.cta->cluster->launch->judge->banks || t.atomic) return;
  const Wavefronts n = CountWavefronts(t.lanes, offsets, bytes);
  w.judge->Spend(judge::Rule::kB1, {t.warp, t.lanes, t.pc}, n.took, n.needed);
}

}  // namespace

void JudgeAccess(const Issuers& by, const Access& at, uint32_t bytes, bool write, bool atomic) {
  Warp& w = by.w;
  const Inst& i = by.i;
  uint32_t mask = by.mask;
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
      w.judge->Hint(judge::Rule::kM9, {t.warp, mask, t.pc},
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
    w.judge->Hint(judge::Rule::kN1, {w.judge_id, born, pc},
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

void JudgeArrive(const Issuers& by, const SharedPlace& barrier, bool arrives, bool expects) {
  judge::Judge& j = *by.w.judge;
  j.Executes(by.w.judge_id, PcOf(by.w, by.i), __builtin_ctz(by.mask));
  j.Arrive(ActOf(by), {barrier.cta.rank, barrier.offset}, OrderingOf(by.i), arrives, expects);
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
    w.judge->Waited(ActOf({w, i, same}), {w.cta->rank, offset}, it->second.phase(),
                    parity ? std::optional(p) : std::nullopt, OrderingOf(i));
  }
}

void JudgeBar(const Issuers& by, uint32_t id, uint64_t generation, bool waits, bool reduces) {
  by.w.judge->NamedArrive(ActOf(by), id, generation, waits, reduces);
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
