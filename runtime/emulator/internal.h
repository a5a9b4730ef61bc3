// The machine: the state of warps, CTAs and clusters. What they execute is in decoded.h.
//
// A warp's registers are rows of 32 lanes ("slots"): 128 bytes for anything up to 32 bits, 256 for
// 64 bits, one 32-bit mask for a predicate. Values of 16 and 8 bits live zero-extended in 32-bit
// lanes. Constants are rows too, in a bank all warps share, so a handler reads every operand the
// same way: `Row(w, i.o[k])`.
//
// A warp runs one *path* (pc + lanes); divergence leaves others behind. The path with the smaller
// pc runs first and paths meeting at one pc merge. A path that cannot go on gets a Wait; when its
// condition holds it is marked resumed and its instruction runs again with `w.resumed` set, so
// each blocking handler has the shape "if resumed: finish; else: register, maybe block".
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/device.h"
#include "runtime/emulator/arrivals.h"
#include "runtime/emulator/decoded.h"
#include "runtime/emulator/diagnostics.h"
#include "runtime/emulator/host_memory.h"
#include "runtime/emulator/judge/finding.h"
#include "runtime/emulator/judge/registers.h"
#include "runtime/emulator/mbarrier.h"
#include "runtime/emulator/policy.h"
#include "runtime/emulator/ptx_ast.h"
#include "runtime/emulator/tcgen05_inst.h"
#include "runtime/emulator/wgmma.h"

namespace tilec::runtime::judge {
class Judge;
struct LaunchJudge;
}  // namespace tilec::runtime::judge

namespace tilec::runtime::emulator {

struct Allocation {
  uint64_t begin = 0, end = 0;
  bool read_only = false;
};

// Generic addresses above the host's user space. Shared: window | rank << 24 | offset. The address
// of a shared variable has the rank of its CTA, as on silicon: programs clear bits of it to reach
// the even CTA of a pair.
inline constexpr uint64_t kSharedWindow = 0xffff000000000000ull;
inline constexpr uint64_t kLocalWindow = 0xfffe000000000000ull;
inline constexpr uint64_t kWindowMask = 0xffff000000000000ull;
// Addresses of functions: no memory, only to be called.
inline constexpr uint64_t kCodeWindow = 0xfffd000000000000ull;
inline uint64_t FunctionAddress(int32_t number) {
  return kCodeWindow + (static_cast<uint64_t>(number) + 1) * 16;
}
inline constexpr uint32_t kRankShift = 24;

struct Fault {
  const DiagDef* def = nullptr;
  std::string message;
  int line = 0;
  std::vector<std::string> notes;
  std::vector<std::string> helps;
  std::optional<judge::Rule> rule;  // where `def` alone does not tell (RuleOf)
};
// The check a fault of this kind belongs to.
judge::Rule RuleOf(const DiagDef& def);

// Why a path waits.
struct Wait {
  enum class Kind : uint8_t {
    kNone,
    kYielded,
    kMBarrier,
    kBehind,
    kNamedBarrier,
    kConverge,
    kWarpSync,
    kRegisters,
    kWgmma,
    kClusterBarrier,
    kTensorColumns,
    kTensorPair
  };
  Kind kind = Kind::kNone;
  uint32_t id = 0;     // barrier number, shared address, lane mask, register count
  uint64_t value = 0;  // parity or token, generation
  bool token = false;
};

struct Path {
  uint32_t pc = 0;
  uint32_t mask = 0;
  bool resumed = false;
  Wait wait;
};

// What a call leaves behind: where to go on, and the registers of a caller that may run again
// before.
struct CallFrame {
  uint32_t pc = 0;  // of the call
  std::vector<uint64_t> saved;
};
struct CallStacks {
  std::vector<CallFrame> lanes[32];
  uint64_t saved = 0;          // values, all lanes
  std::atomic<uint64_t>* all;  // … of the launch
  explicit CallStacks(std::atomic<uint64_t>* counter) : all(counter) {}
  CallStacks(const CallStacks&) = delete;
  CallStacks& operator=(const CallStacks&) = delete;
  ~CallStacks() { all->fetch_sub(saved); }
  void Count(int64_t values) {
    saved += static_cast<uint64_t>(values);
    all->fetch_add(static_cast<uint64_t>(values));
  }
};

struct Warp {
  uint8_t* base[2] = {};  // registers, constants
  uint32_t pc = 0;
  uint32_t active = 0;
  uint32_t merge_pc = ~0u;  // smallest pc of a runnable path in `others`
  uint32_t live = 0;        // lanes that have not exited
  uint32_t launched = 0;    // lanes that exist
  bool resumed = false;
  bool has_path = true;  // pc/active describe a path (else everything is in `others`)
  Wait wait;             // set by a handler that returns kBlock
  std::vector<Path> others;
  Cta* cta = nullptr;
  uint32_t index = 0;
  uint32_t registers = 0;  // setmaxnreg
  uint64_t executed = 0;
  uint64_t cache_lo = 1, cache_hi = 0;  // the allocation hit last
  bool cache_read_only = false;
  uint8_t* local = nullptr;
  std::unique_ptr<CallStacks> stacks;  // of a warp that calls
  uint64_t copies = 0;                 // asynchronous loads issued
  uint64_t accesses = 0;               // of memory, in a checked launch
  uint64_t polls = 0;                  // fruitless test_wait in a row
  uint64_t polls_at = 0;               // Cta::progress at the last of them
  uint32_t poll_id = 0;                // what it polls, for the report
  uint64_t poll_value = 0;
  uint32_t parted = 0;              // how often lanes were left behind at a wait
  std::vector<uint32_t> failed_at;  // waits that have failed where the phase was not over
  // The cluster barrier is a thread's, not a warp's: lanes of one warp may be a barrier apart.
  uint32_t cluster_arrived = 0;          // lanes that arrived and have not yet waited successfully
  uint32_t cluster_here = 0;             // … in the generation under way
  uint64_t cluster_generation[32] = {};  // each lane's last arrival
  judge::Judge* judge = nullptr;         // of the cluster, in a checked launch
  uint32_t judge_id = 0;
  uint32_t groups[2][32] = {};  // committed by each lane: of cp.async, of bulk copies
  uint32_t tensor_loads = 0;    // tcgen05.ld that have not read yet
  bool done() const { return live == 0; }
};

struct NamedBarrier {
  uint32_t arrived = 0;   // threads
  uint32_t expected = 0;  // 0: all of the CTA
  uint64_t generation = 0;
  uint32_t red_count = 0;  // bar.red: threads with a true predicate
  uint32_t red_total = 0;
  uint32_t last_count = 0, last_total = 0;
  int line = 0;
};

struct Warpgroup {
  uint32_t arrived = 0;
  uint32_t pc = 0;
  uint64_t generation = 0;
  int64_t committed = 0;
};

struct Cta {
  Cluster* cluster = nullptr;
  uint32_t rank = 0;
  uint32_t id[3] = {};
  uint8_t* smem = nullptr;
  uint32_t smem_bytes = 0;
  std::vector<Warp> warps;
  std::unordered_map<uint32_t, MBarrier> mbarriers;
  std::unordered_map<uint32_t, Arrivals> arrivals;  // at them, in a checked launch
  NamedBarrier barriers[16];
  std::vector<Warpgroup> groups;
  std::shared_ptr<TensorCta> tensor;  // null until the first tcgen05 instruction
  int64_t register_pool = 0;
  uint64_t progress = 0;  // bumped by every change a waiter could see
  uint32_t live_warps = 0;
};

struct DeviceHeap;

// What all clusters of a launch share.
struct Launch {
  const Program* program = nullptr;
  const PtxPlaces* places = nullptr;
  const EmulatorOptions* options = nullptr;
  LaunchConfig config;
  uint32_t clusters[3] = {1, 1, 1};
  uint8_t* params = nullptr;
  const uint8_t* constants = nullptr;  // one bank per rank, `constants_stride` apart
  uint64_t constants_stride = 0;
  std::vector<Allocation> allocations;  // sorted
  uint64_t smem_total = 0;
  std::vector<Decision> no_decisions;   // of a replay that does not name a cluster
  judge::LaunchJudge* judge = nullptr;  // null: nothing is checked
  DeviceHeap* heap = nullptr;           // of malloc in a kernel
  uint64_t workspace = 0;               // of a grid whose CTAs meet; 0: there is none
  std::atomic<uint64_t> printed{0};     // bytes
  std::atomic<uint64_t> saved{0};       // values that calls put aside
  std::atomic<bool> float_sums{false};  // tensor reductions added floats
  std::atomic<uint64_t> executed{0};
  std::atomic<uint64_t> next_cluster{0};     // that has not begun
  std::atomic<uint64_t> first_fault{~0ull};  // smallest cluster number that failed
};

struct ClusterBarrier {
  uint32_t arrived = 0;  // threads, in the generation under way; for reports
  uint64_t generation = 0;
};

// A copy that was issued and has not landed. Those that complete by groups know whose they are.
struct InFlight {
  std::function<bool()> land;
  const Warp* owner = nullptr;  // null: it signals an mbarrier
  bool bulk = false;            // of the lane's bulk groups, else of its cp.async groups
  uint8_t lane = 0;
  uint32_t group = 0;
};

struct Cluster {
  Launch* launch = nullptr;
  uint64_t number = 0;
  std::vector<Cta> ctas;
  ClusterBarrier barrier;
  Fault fault;
  bool failed = false;
  uint64_t limit = ~0ull;           // instructions until the budget is asked again
  HostMemory storage;               // registers, shared and local memory
  PolicyState policy;               // turns.cc
  std::vector<Decision> decisions;  // recorded
  std::deque<InFlight> in_flight;   // in order of issue

  uint64_t executed = 0;         // by its warps
  uint64_t catch_up_at = ~0ull;  // of `executed`: lanes left behind go on

  std::unique_ptr<judge::Judge> judge;           // null: nothing is checked
  uint64_t judged_loads = 0, judged_writes = 0;  // when it was last asked (WaitsForOthers)

  Cluster();
  ~Cluster();
  enum class Status : uint8_t { kDone, kFault, kBudget };
  // False: the host has no memory for it; a fault was recorded.
  bool Start(Launch* l, uint64_t cluster_number);
  Status Run(uint64_t budget);
  bool Land(size_t k);  // of in_flight

 private:
  bool Pick(Warp& w);
  void Rotate(Warp& w);
  bool CatchUp();
  void RunWarp(Warp& w, uint64_t quantum);
  template <bool kChecked>
  void RunInstructions(Warp& w, uint64_t quantum);
  Status RunTurns(uint64_t budget);
  bool LandAll();
  bool LimitReached(const Warp& w);
  void ReportDeadlock();
  uint32_t cursor_ = 0;
};

// ---- helpers for handlers ----

template <typename T>
__attribute__((always_inline)) inline T* Row(Warp& w, uint32_t offset) {
  return reinterpret_cast<T*>(w.base[offset >> 31] + (offset & ~kConstBit));
}
inline uint32_t& Predicate(Warp& w, uint32_t offset) { return *Row<uint32_t>(w, offset); }

template <typename F>
inline void ForLanes(uint32_t mask, F&& f) {
  for (uint32_t m = mask; m != 0; m &= m - 1) f(__builtin_ctz(m));
}

inline const std::string& TextOf(const Warp& w, const Inst& i) {
  return w.cta->cluster->launch->program->texts[i.text];
}

// "slot 2 of 7 of A", "full[2]": what the compiler, or the PTX text, calls a range of a CTA's
// shared memory; may be empty.
std::string SharedName(const Launch& launch, uint64_t begin, uint64_t end);
// "CTA (1,0,0), warp 3 (load), lane 5"; lane < 0: without.
std::string WhoIs(const Warp& w, int lane = -1);
Step FailText(Warp& w, const Inst& i, const DiagDef& def, std::string message, int lane = -1);
// The same where the check is not the usual one of `def`.
Step FailRule(Warp& w, const Inst& i, const DiagDef& def, judge::Rule rule, std::string message,
              int lane = -1);
template <typename... Args>
Step FailLane(Warp& w, const Inst& i, int lane, const DiagDef& def, const Args&... args) {
  return FailText(w, i, def, fmt::format(fmt::runtime(def.format), args...), lane);
}

// Copies of a cluster that may be in flight. One more lets the oldest land, as hardware's queues
// would: programs that never wait must not fill the host's memory.
inline constexpr size_t kMostInFlight = 1 << 12;

// Makes a copy to shared memory land: at once, or when the execution schedule says so.
template <typename F>
bool IssueCopy(Warp& w, F land) {
  Cluster& c = *w.cta->cluster;
  ++w.copies;
  if (c.launch->options->landing == Landing::kEarly) return land();
  if (c.in_flight.size() >= kMostInFlight && !c.Land(0)) return false;
  c.in_flight.push_back({std::move(land)});
  return true;
}
// The same for one that completes by the bulk or cp.async groups of a lane.
template <typename F>
bool IssueGrouped(Warp& w, bool bulk, int lane, F land) {
  Cluster& c = *w.cta->cluster;
  if (c.launch->options->landing == Landing::kEarly) return land();
  if (c.in_flight.size() >= kMostInFlight && !c.Land(0)) return false;
  c.in_flight.push_back(
      {std::move(land), &w, bulk, static_cast<uint8_t>(lane), w.groups[bulk][lane]});
  return true;
}
// Lands the lanes' copies but for the newest `pending` committed groups, and what is not committed.
// False: one of them failed.
bool LandGroups(Warp& w, bool bulk, uint32_t lanes, uint32_t pending);
// Those that are not committed too.
bool LandAllOf(Warp& w, bool bulk, uint32_t lanes);
// An operation on the mbarrier at a shared address that broke a rule of mbarriers.
Step BarrierFault(Warp& w, const Inst& i, int lane, uint32_t address, const MBarrier& b,
                  MBarrierError error);
void PoisonDestination(Cta& cta, const std::function<bool(uint8_t* smem)>& write);

// Host memory that one running cluster takes.
uint64_t ClusterBytes(const Launch& launch);

// The tensor memory of a CTA, of the even CTA of its pair, and of its partner; made when asked for.
TensorCta& TensorOf(Cta& cta);
// Loads of tensor memory by the warp read now.
void LandTensorLoads(Warp& w);
// The last warp of the CTA is gone: is any tensor memory left allocated?
void TensorExit(Warp& w);

void ExitLanes(Warp& w, uint32_t mask);
void CheckNamedBarriers(Cta& cta);
void CheckClusterBarrier(Cluster& cluster);
// Makes the sync collective `i` wait until every live lane of `members` stands at it.
// kNext: they do. Otherwise what the handler must return.
Step Converge(Warp& w, const Inst& i, uint32_t mask, uint32_t members);

}  // namespace tilec::runtime::emulator
