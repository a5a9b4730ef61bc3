// The executor's side of the judge: turns instructions into the events of judge/judge.h. Every
// handler with an effect on memory, order or watched registers calls one of these if the warp has
// a judge, which it has only in a checked launch.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/emulator/access.h"
#include "runtime/emulator/internal.h"
#include "runtime/emulator/judge/judge.h"
#include "runtime/emulator/tensor_map.h"

namespace tilec::runtime::emulator {

// What fences, commits and waits are, for RunSync (Inst::u[0]).
enum class SyncKind : uint8_t {
  kNothing,
  kProxyAsync,  // u[1]: 1 shared, 2 global
  kInitFence,
  kThreadFence,  // u[1]: 1 acquire, 2 release
  kScFence,      // u[2]: scope
  kTensorMapAcquire,
  kTensorMapRelease,
  kWgmmaFence,
  kWgmmaCommit,
  kWgmmaWait,
  kBulkCommit,
  kBulkWait,  // u[1]: .read
  kCpCommit,
  kCpWait,
  kCpWaitAll,
};

// The scope an instruction names, and its order and scope packed for Inst::u[6].
judge::Scope ScopeIn(const Statement& s, judge::Scope otherwise);
uint8_t OrderIn(const Statement& s, judge::Order otherwise, judge::Scope scope);

// Inst::u[6] of loads, stores, atomics, arrivals and waits.
inline uint8_t PackOrder(judge::Order order, judge::Scope scope) {
  return static_cast<uint8_t>(static_cast<unsigned>(order) | static_cast<unsigned>(scope) << 3);
}
inline constexpr uint8_t kVolatileOrder = 32;  // besides
inline judge::Order OrderOf(const Inst& i) { return static_cast<judge::Order>(i.u[6] & 7); }
inline judge::Scope ScopeOf(const Inst& i) { return static_cast<judge::Scope>(i.u[6] >> 3 & 3); }

inline uint32_t PcOf(const Warp& w, const Inst& i) {
  return static_cast<uint32_t>(&i - w.cta->cluster->launch->program->code.data());
}
inline judge::Act ActOf(const Issuers& by) { return {by.w.judge_id, by.mask, PcOf(by.w, by.i)}; }
inline judge::Ordering OrderingOf(const Inst& i) { return {OrderOf(i), ScopeOf(i)}; }
inline judge::Judge* JudgeOf(const Cta& cta) { return cta.cluster->judge.get(); }

// 1 + log2(swizzle / 16), as judge::Block::layout.
inline uint8_t LayoutOf(uint32_t swizzle_bytes) {
  return swizzle_bytes == 0 ? 1 : static_cast<uint8_t>(__builtin_ctz(swizzle_bytes) - 3);
}

// Where in a cluster's shared memory.
struct SharedPlace {
  const Cta& cta;
  uint32_t offset;
};
void JudgeAccess(const Issuers& by, const Access& at, uint32_t bytes, bool write, bool atomic);
// Rows of ldmatrix and stmatrix: one address per lane.
void JudgeMatrix(Warp& w, const Inst& i, const uint32_t* addresses, uint32_t count, bool write);
void JudgeArrive(const Issuers& by, const SharedPlace& barrier, bool arrives, bool expects);
void JudgeWait(Warp& w, const Inst& i, uint32_t done, const uint32_t* address, bool parity,
               const uint32_t* parities);
// Which box of a tensor.
struct MappedBox {
  const TensorMapInfo& map;
  uint64_t map_address;
  const int32_t* coords;
};
// `barrier`: that is told of the bytes.
judge::AsyncOp JudgeTensorLoad(const Issuer& by, const MappedBox& from, const SharedPlace& to,
                               const SharedPlace& barrier);
// The answer to `clusterlaunchcontrol.try_cancel` on its way to a CTA, whose barrier is told.
judge::AsyncOp JudgeAnswer(const Issuer& by, const SharedPlace& to, uint32_t bytes,
                           uint32_t barrier);
void JudgeTensorStore(const Issuer& by, const SharedPlace& from, const MappedBox& to, bool reduces,
                      uint32_t twins);
judge::AsyncOp JudgeBulkLoad(const Issuer& by, uint64_t from, const SharedPlace& to, uint32_t bytes,
                             const SharedPlace& barrier);
judge::AsyncOp JudgeBulkShared(const Issuer& by, const SharedPlace& from, const SharedPlace& to,
                               uint32_t bytes, const SharedPlace& barrier);
judge::AsyncOp JudgeStoreAsync(const Issuer& by, const SharedPlace& to, uint32_t bytes,
                               const SharedPlace& barrier, bool reduces);
// How a bulk store writes.
struct BulkWriting {
  bool reduces = false;
  uint16_t bytes_of = 0xffff;  // which of each 16 bytes are copied
  uint32_t twins = 0;          // as judge::AsyncOp::twins
};
void JudgeBulkStore(const Issuer& by, const SharedPlace& from, uint64_t to, uint32_t bytes,
                    const BulkWriting& how);
void JudgeCpAsync(const Issuers& by, const uint32_t* to, const uint64_t* from,
                  const uint32_t* sizes, uint32_t bytes);
void JudgeWgmma(Cta& cta, const Inst& i, uint32_t first_warp, uint32_t group, uint64_t desc_a,
                uint64_t desc_b);
void JudgeBar(const Issuers& by, uint32_t id, uint64_t generation, bool waits, bool reduces);
// Runs an instruction and says so if it is the first to make a NaN or infinity.
Step RunWatchingNumbers(Warp& w, const Inst& i, uint32_t mask);
// The cluster's run is over, or stuck.
void JudgeEnd(Cluster& cluster, bool stuck);

// Did the cluster only poll global memory since the last call, while nobody wrote to it?
bool WaitsForOthers(Cluster& cluster);
// The fault of clusters that wait for each other, or for `unstarted` ones, through global memory.
void ReportWaiting(Cluster& cluster, uint64_t resident, uint64_t unstarted);
// How many clusters of the launch an H200 runs at the same time.
uint64_t ResidentClusters(const Launch& launch);

void StartJudge(Cluster& cluster);
// Gives the launch its judge.
void SetUpJudge(Launch& launch, judge::LaunchJudge* judge);
// A fault as the judge says it.
judge::Finding FindingOf(const Fault& fault, const Launch& launch);

}  // namespace tilec::runtime::emulator
