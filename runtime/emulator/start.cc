// A cluster before its first instruction: memory, registers, special registers.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "runtime/emulator/fences.h"
#include "runtime/emulator/handlers.h"
#include "runtime/emulator/judge_hooks.h"
#include "runtime/emulator/limits.h"

namespace tilec::runtime::emulator {
namespace {

uint64_t Aligned(uint64_t v, uint64_t to) { return (v + to - 1) / to * to; }

// The value of a special register for lane l of warp w.
uint64_t SpecialValue(const Launch& launch, const Cta& cta, const Warp& w, Special s, uint32_t l) {
  const LaunchConfig& c = launch.config;
  uint64_t t = uint64_t{w.index} * 32 + l;
  uint32_t cluster_size = c.cluster[0] * c.cluster[1] * c.cluster[2];
  switch (s) {
    case Special::kTidX: return t < c.block[0] ? t : t % c.block[0];
    case Special::kTidY: return t / c.block[0] % c.block[1];
    case Special::kTidZ: return t / c.block[0] / c.block[1];
    case Special::kNtidX: return c.block[0];
    case Special::kNtidY: return c.block[1];
    case Special::kNtidZ: return c.block[2];
    case Special::kCtaidX: return cta.id[0];
    case Special::kCtaidY: return cta.id[1];
    case Special::kCtaidZ: return cta.id[2];
    case Special::kNctaidX: return c.grid[0];
    case Special::kNctaidY: return c.grid[1];
    case Special::kNctaidZ: return c.grid[2];
    case Special::kLaneId: return l;
    case Special::kWarpId: return w.index;
    case Special::kNwarpId: return cta.warps.size();
    case Special::kSmId: return cta.cluster->number % launch.options->machine.sms;
    case Special::kNsmId: return launch.options->machine.sms;
    case Special::kGridId: return 1;
    case Special::kLanemaskEq: return 1u << l;
    case Special::kLanemaskLe: return (2ull << l) - 1;
    case Special::kLanemaskLt: return (1u << l) - 1;
    case Special::kLanemaskGe: return 0xffffffffu & ~((1u << l) - 1);
    case Special::kLanemaskGt: return 0xffffffffu & ~((2ull << l) - 1);
    case Special::kClusteridX: return cta.id[0] / c.cluster[0];
    case Special::kClusteridY: return cta.id[1] / c.cluster[1];
    case Special::kClusteridZ: return cta.id[2] / c.cluster[2];
    case Special::kNclusteridX: return c.grid[0] / c.cluster[0];
    case Special::kNclusteridY: return c.grid[1] / c.cluster[1];
    case Special::kNclusteridZ: return c.grid[2] / c.cluster[2];
    case Special::kClusterCtaidX: return cta.id[0] % c.cluster[0];
    case Special::kClusterCtaidY: return cta.id[1] % c.cluster[1];
    case Special::kClusterCtaidZ: return cta.id[2] % c.cluster[2];
    case Special::kClusterNctaidX: return c.cluster[0];
    case Special::kClusterNctaidY: return c.cluster[1];
    case Special::kClusterNctaidZ: return c.cluster[2];
    case Special::kClusterCtarank: return cta.rank;
    case Special::kClusterNctarank: return cluster_size;
    case Special::kIsExplicitCluster: return cluster_size > 1;
    case Special::kDynamicSmemSize: return c.smem_bytes;
    case Special::kTotalSmemSize: return launch.smem_total;
    case Special::kAggrSmemSize: return launch.smem_total;
    // Where CTAs of a cooperative launch meet; what else the driver puts there nobody says.
    case Special::kEnvreg1: return launch.workspace >> 32;
    case Special::kEnvreg2: return launch.workspace & 0xffffffffu;
    case Special::kEnvreg0:
    case Special::kEnvreg3:
    case Special::kEnvreg4:
    case Special::kEnvreg5:
    case Special::kEnvreg6:
    case Special::kEnvreg7:
    case Special::kEnvreg8:
    case Special::kEnvreg9:
    case Special::kEnvreg10:
    case Special::kEnvreg11:
    case Special::kEnvreg12:
    case Special::kEnvreg13:
    case Special::kEnvreg14:
    case Special::kEnvreg15:
    case Special::kEnvreg16:
    case Special::kEnvreg17:
    case Special::kEnvreg18:
    case Special::kEnvreg19:
    case Special::kEnvreg20:
    case Special::kEnvreg21:
    case Special::kEnvreg22:
    case Special::kEnvreg23:
    case Special::kEnvreg24:
    case Special::kEnvreg25:
    case Special::kEnvreg26:
    case Special::kEnvreg27:
    case Special::kEnvreg28:
    case Special::kEnvreg29:
    case Special::kEnvreg30:
    case Special::kEnvreg31:
    case Special::kClock:
    case Special::kClockHi:
    case Special::kClock64:
    case Special::kGlobaltimer:
    case Special::kGlobaltimerLo:
    case Special::kGlobaltimerHi:
    case Special::kCount: break;
  }
  return 0;
}

bool VariesByLane(Special s) {
  bool thread = s >= Special::kTidX && s <= Special::kTidZ;
  bool mask = s >= Special::kLanemaskEq && s <= Special::kLanemaskGt;
  return thread || mask || s == Special::kLaneId;
}

void SetSpecials(const Launch& launch, const Cta& cta, Warp& w) {
  for (const SpecialUse& use : launch.program->specials) {
    Type t = SpecialType(use.special);
    uint64_t values[32];
    values[0] = SpecialValue(launch, cta, w, use.special, 0);
    bool varies = VariesByLane(use.special);
    for (uint32_t l = 1; l < 32; ++l)
      values[l] = varies ? SpecialValue(launch, cta, w, use.special, l) : values[0];
    if (t == Type::kPred) {
      Predicate(w, use.row) = values[0] != 0 ? ~0u : 0u;
    } else if (t == Type::kU64) {
      memcpy(Row<uint64_t>(w, use.row), values, sizeof values);
    } else {
      uint32_t* row = Row<uint32_t>(w, use.row);
      for (uint32_t l = 0; l < 32; ++l) row[l] = static_cast<uint32_t>(values[l]);
    }
  }
}

}  // namespace

namespace {

// Host memory of one CTA: shared memory, registers, local memory.
struct Sizes {
  uint64_t registers, local, shared, cta;  // of a warp, of a warp, of the CTA, of all
};
Sizes SizesOf(const Launch& l) {
  const uint32_t* b = l.config.block;
  const uint64_t warps = (uint64_t{b[0]} * b[1] * b[2] + 31) / 32;
  Sizes s;
  s.registers = Aligned(std::max<uint64_t>(l.program->register_bytes, 64), 64) + kFence;
  s.local = Aligned(l.program->local_bytes * 32, 64) + kFence;
  s.shared = Aligned(l.smem_total, 1024) + kFence;
  s.cta = s.shared + 1024 + warps * (s.registers + s.local);
  return s;
}

// The warps of a CTA at the program's first instruction, their registers and local memory from `at`
// on; where that ends.
uint8_t* StartWarps(const Launch& l, Cta& cta, uint32_t threads, uint32_t per_thread, uint8_t* at) {
  const Sizes sizes = SizesOf(l);
  for (uint32_t k = 0; k < cta.warps.size(); ++k) {
    Warp& w = cta.warps[k];
    w.cta = &cta;
    w.index = k;
    w.pc = l.program->start;
    w.base[0] = at;
    w.base[1] = const_cast<uint8_t*>(l.constants) + cta.rank * l.constants_stride;
    memset(at, 0, sizes.registers);
    at += sizes.registers;
    FenceOff(at - kFence, kFence);
    w.local = at;
    memset(at, 0xff, sizes.local);
    at += sizes.local;
    FenceOff(at - kFence, kFence);
    uint32_t lanes = std::min(32u, threads - k * 32);
    w.launched = w.live = w.active = lanes == 32 ? ~0u : (1u << lanes) - 1;
    w.registers = per_thread;
    SetSpecials(l, cta, w);
  }
  return at;
}

}  // namespace

uint64_t ClusterBytes(const Launch& l) {
  const uint32_t* c = l.config.cluster;
  return SizesOf(l).cta * c[0] * c[1] * c[2] + 1024;
}

bool Cluster::Start(Launch* l, uint64_t cluster_number) {
  launch = l;
  number = cluster_number;
  barrier = {};
  fault = {};
  failed = false;
  cursor_ = 0;
  const LaunchConfig& c = l->config;
  const Program& program = *l->program;
  in_flight.clear();
  decisions.clear();
  const std::vector<Decision>* replay = nullptr;
  if (l->options->replay != nullptr) {
    auto it = l->options->replay->clusters.find(cluster_number);
    replay = it == l->options->replay->clusters.end() ? &l->no_decisions : &it->second;
  }
  uint32_t size = c.cluster[0] * c.cluster[1] * c.cluster[2];
  uint32_t threads = c.block[0] * c.block[1] * c.block[2];
  uint32_t warps = (threads + 31) / 32;
  policy.Start(
      l->options->policy, l->options->pct_depth,
      (l->options->seed + 1) * 0x9e3779b97f4a7c15ull ^ (cluster_number + 1) * 0xbf58476d1ce4e5b9ull,
      warps * size, replay);
  const uint64_t smem_bytes = SizesOf(*l).shared;
  if (!storage.ok()) storage = HostMemory(ClusterBytes(*l), 1024);
  if (!storage.ok()) {
    failed = true;
    fault.def = &kNoHostMemory;
    fault.message = fmt::format(fmt::runtime(kNoHostMemory.format), ClusterBytes(*l));
    fault.notes.push_back("for the registers, shared and local memory of a cluster");
    return false;
  }
  OpenUp(storage.data(), ClusterBytes(*l));
  uint8_t* at = storage.data();

  uint64_t cx = cluster_number % l->clusters[0],
           cy = cluster_number / l->clusters[0] % l->clusters[1];
  uint64_t cz = cluster_number / l->clusters[0] / l->clusters[1];
  const MachineLimits& machine = l->options->machine;
  const uint32_t per_thread = RegistersAtLaunch(machine, program.maxnreg, uint64_t{warps} * 32);
  ctas.clear();
  ctas.resize(size);
  for (uint32_t rank = 0; rank < size; ++rank) {
    Cta& cta = ctas[rank];
    cta.cluster = this;
    cta.rank = rank;
    cta.id[0] = static_cast<uint32_t>(cx * c.cluster[0]) + rank % c.cluster[0];
    cta.id[1] = static_cast<uint32_t>(cy * c.cluster[1]) + rank / c.cluster[0] % c.cluster[1];
    cta.id[2] = static_cast<uint32_t>(cz * c.cluster[2]) + rank / c.cluster[0] / c.cluster[1];
    cta.smem = at;
    cta.smem_bytes = static_cast<uint32_t>(l->smem_total);
    memset(at, 0xff, smem_bytes);  // NaN in every float format: shows reads of fresh memory
    FenceOff(at + l->smem_total, smem_bytes - l->smem_total);
    at += smem_bytes;
    cta.groups.resize(threads % 128 == 0 ? threads / 128 : warps / 4);
    cta.register_pool = static_cast<int64_t>(machine.registers) - int64_t{per_thread} * warps * 32;
    cta.live_warps = warps;
    cta.warps.resize(warps);
    at = StartWarps(*l, cta, threads, per_thread, at);
    at += Aligned(reinterpret_cast<uint64_t>(at), 1024) - reinterpret_cast<uint64_t>(at);
  }
  judge = nullptr;
  judged_loads = judged_writes = 0;
  StartJudge(*this);
  return true;
}

}  // namespace tilec::runtime::emulator
