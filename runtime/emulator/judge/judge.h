// The judge of one cluster: told of every effect, in the order the emulator executes them, it keeps
// what everybody is ordered after and says what is not (docs/emulator.md). It knows nothing of
// instructions: the emulator's judge_hooks.cc translates.
//
// Warps are numbered through the cluster: rank · warps_per_cta + index. Sites are pcs.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>

#include "runtime/emulator/judge/finding.h"
#include "runtime/emulator/judge/global.h"
#include "runtime/emulator/judge/launch_judge.h"
#include "runtime/emulator/judge/registers.h"
#include "runtime/emulator/judge/shadow.h"
#include "runtime/emulator/judge/tensor.h"

namespace tilec::runtime::judge {

struct ClusterShape {
  uint64_t number = 0;
  uint32_t warps_per_cta = 0;
  struct Cta {
    uint32_t id[3];
    uint32_t smem_bytes;
  };
  std::vector<Cta> ctas;
  std::vector<uint32_t> lanes;  // per warp of a CTA
};

// Lanes of a warp at an instruction: who does something.
struct Act {
  uint32_t warp = 0, lanes = 0, pc = 0;
};
// What an access or arrival promises of those around it.
struct Ordering {
  Order order = Order::kWeak;
  Scope scope = Scope::kGpu;
};
// A place in the shared memory of a cluster.
struct SharedPlace {
  uint32_t rank = 0, offset = 0;
};
// 16-byte chunks of an operand, `per_row` to a row, or to eight columns of a transposed one.
struct Chunks {
  const uint32_t* offsets = nullptr;
  size_t count = 0, per_row = 0;
  bool columns = false;
  uint8_t layout = 0;  // as Block::layout
};

// A load, store or atomic.
struct Touch {
  uint32_t warp = 0, lanes = 0, pc = 0;
  bool write = false;
  bool atomic = false;
  bool is_volatile = false;
  Order order = Order::kWeak;
  Scope scope = Scope::kGpu;
};

// An asynchronous operation, as issued.
struct AsyncOp {
  uint32_t warp = 0, warps = 1;  // issued by these, together
  uint32_t lanes = 0, pc = 0;
  LaneGroup* group = nullptr;  // of the issuing lane; null: all groups of the warps
  Component component = 0;
  Epoch epoch = 0;
  bool strong = false;   // a reduction
  bool generic = false;  // cp.async: asynchronous, but in the generic proxy
  // Of a bulk store: lanes that make the same copy by the same instruction. Which of them is last
  // does not matter.
  uint32_t twins = 0;
};

class Judge {
 public:
  Judge(LaunchJudge* launch, const ClusterShape& shape);
  // Strong loads of global memory so far: what a loop that waits for another CTA does.
  uint64_t strong_loads() const { return strong_loads_; }
  uint32_t strong_load_pc() const { return strong_load_pc_; }

  // A warp executes a judged instruction, or `lane` of it does where lanes act one by one: findings
  // say the how many-th time it was.
  void Executes(uint32_t warp, uint32_t pc, int lane = 0);
  void Spend(Rule rule, const Act& by, uint64_t took, uint64_t needed) {
    launch_->Spend(rule, by.pc, {shape_.number, by.warp, by.lanes}, took, needed);
  }
  bool lint() const { return launch_->lint; }
  // For the trace alone: an instruction that touches no memory, a fence or a barrier.
  void Happens(uint32_t warp, uint32_t lanes, uint32_t pc) {
    if (launch_->trace == nullptr) return;
    const int lane = lanes == 0 ? 0 : __builtin_ctz(lanes);
    launch_->Happens({0, warp, shape_.number, pc, static_cast<uint8_t>(lane), false},
                     [&] { return WarpName(warp); });
  }

  // ---- memory (judge_memory.cc) ----
  void SharedAccess(const Touch& t, uint32_t rank, const uint32_t* offsets, uint32_t bytes);
  void GlobalAccess(const Touch& t, const uint64_t* addresses, uint32_t bytes);
  // After an atomic or strong access: its release or acquire on the address.
  void SharedSync(const Touch& t, uint32_t rank, const uint32_t* offsets);
  void GlobalSync(const Touch& t, const uint64_t* addresses);
  void AsyncShared(const AsyncOp& op, uint32_t rank, uint32_t begin, uint32_t bytes, bool write,
                   uint8_t layout);
  // Rows or columns that nobody wrote at all are padding, whose products nobody needs, unless all
  // are.
  void AsyncChunks(const AsyncOp& op, uint32_t rank, const Chunks& chunks);
  void AsyncGlobal(const AsyncOp& op, uint64_t address, uint64_t bytes, bool write);
  void TensorMapUse(const AsyncOp& op, uint64_t address);
  void TensorMapFence(uint32_t warp, uint32_t lanes, uint64_t address);
  // What the lanes did, or know of, may be used as tensor maps by whoever comes after this.
  void TensorMapRelease(uint32_t warp, uint32_t lanes);

  // ---- barriers (judge_barriers.cc) ----
  static constexpr size_t kMaxBarriers = 2048;  // mbarriers of a cluster that are followed
  bool MoreBarriers() const { return barriers_.size() < kMaxBarriers; }
  void BarrierInit(uint32_t warp, uint32_t lanes, uint32_t pc, uint32_t rank, uint32_t offset,
                   uint32_t count);
  void BarrierInval(uint32_t warp, uint32_t lanes, uint32_t pc, uint32_t rank, uint32_t offset);
  void Arrive(const Act& by, const SharedPlace& at, const Ordering& with, bool arrives,
              bool expects);
  void PhaseDone(uint32_t rank, uint32_t offset);
  // A wait on a phase returned true; `phases`: completed so far.
  void Waited(const Act& by, const SharedPlace& at, uint64_t phases, std::optional<uint32_t> parity,
              const Ordering& with);
  void NamedArrive(const Act& by, uint32_t id, uint64_t generation, bool waits, bool reduces);
  void NamedDone(uint32_t rank, uint32_t id);
  void NamedPass(uint32_t warp, uint32_t lanes, uint32_t id);
  void ClusterArrive(uint32_t warp, uint32_t lanes, uint32_t pc, bool relaxed);
  void ClusterDone();
  void ClusterPass(uint32_t warp, uint32_t lanes);
  void WarpSync(uint32_t warp, uint32_t lanes);
  void ProxyFence(uint32_t warp, uint32_t lanes, bool shared, bool global);
  void InitFence(uint32_t warp, uint32_t lanes);
  void ThreadFence(uint32_t warp, uint32_t lanes, bool acquire, bool release);
  // `fence.sc`: after every `fence.sc` that was executed before it, if the scopes include each
  // other's threads; besides what it does as a fence.acq_rel.
  void ScFence(uint32_t warp, uint32_t lanes, Scope scope);
  void Exit(uint32_t warp, uint32_t lanes, uint32_t pc);

  // ---- asynchronous operations (judge_async.cc) ----
  // A copy that completes on an mbarrier; checks the barrier itself.
  AsyncOp CopyTo(uint32_t warp, int lane, uint32_t pc, uint32_t rank, uint32_t offset,
                 uint32_t bytes);
  // Its bytes are signalled now: in the phase it was issued in?
  void Landed(const AsyncOp& op, uint32_t rank, uint32_t offset);
  // A copy that completes through the bulk groups of its thread: its reads and its writes.
  AsyncOp BulkRead(uint32_t warp, int lane, uint32_t pc);
  AsyncOp BulkWrite(uint32_t warp, int lane, uint32_t pc, bool reduces);
  void BulkCommit(uint32_t warp, uint32_t lanes);
  void BulkWait(uint32_t warp, uint32_t lanes, uint32_t pc, uint32_t pending, bool read_only);
  AsyncOp CpAsync(uint32_t warp, uint32_t lanes, uint32_t pc);
  void CpCommit(uint32_t warp, uint32_t lanes);
  void CpWait(uint32_t warp, uint32_t lanes, uint32_t pc, uint32_t pending, bool all);
  void CpArrive(uint32_t warp, uint32_t lanes, uint32_t pc, uint32_t rank, uint32_t offset);
  AsyncOp Wgmma(uint32_t first_warp, uint32_t pc, uint32_t group);
  void WgmmaFence(uint32_t warp);
  void WgmmaCommit(uint32_t warp);
  void WgmmaWait(uint32_t warp, uint32_t pc, uint32_t pending);

  // ---- tensor memory (judge_tensor.cc) ----
  // The next tcgen05.mma, cp or shift of a thread.
  AsyncOp TensorOp(uint32_t warp, int lane, uint32_t pc, TensorAct act, uint64_t key);
  void TensorTouch(const AsyncOp& op, TensorAct act, uint64_t key, const TensorArea& area);
  // A pair's operation reaches the other CTA.
  void TensorPeer(const AsyncOp& op, uint32_t rank);
  // tcgen05.ld or st by a warp.
  void TensorMove(uint32_t warp, uint32_t pc, bool store, const std::vector<TensorArea>& areas);
  void TensorWait(uint32_t warp, uint32_t pc, bool store);
  void TensorFence(uint32_t warp, uint32_t lanes, bool after);
  void LoadedRegisters(uint32_t warp, uint32_t pc);
  // A commit: what its arrivals will tell, and the arrival.
  struct TensorMessage {
    View view;
    Component issuer = 0;
    Epoch number = 0;
    uint32_t warp = 0, lane = 0, pc = 0;
  };
  TensorMessage TensorCommit(uint32_t warp, int lane, uint32_t pc);
  void TensorCommitTo(const TensorMessage& m, uint32_t rank, uint32_t offset);
  void TensorArrive(const TensorMessage& m, uint32_t rank, uint32_t offset);
  // Columns of a CTA are given back by a warp, with the pair's other CTA or alone.
  void TensorFree(uint32_t warp, uint32_t pc, uint32_t rank, uint32_t column, uint32_t columns);
  // A word is read that nobody wrote.
  void TensorFresh(uint32_t warp, uint32_t lanes, uint32_t pc, uint32_t rank,
                   const std::string& what);

  // ---- registers (registers.cc) ----
  void SetRegisters(uint32_t warp, uint32_t pc, uint32_t count);
  void Registers(uint32_t warp, uint32_t pc, uint32_t lanes);
  void WgmmaRegisters(const AsyncOp& op, uint32_t shape);

  // The run ended here, finished or not: bytes that do not match.
  void AtEnd(const std::function<int64_t(uint32_t rank, uint32_t offset)>& tx, bool stuck);
  // "CTA (0,0,0), warp 3"
  std::string Who(uint32_t warp, uint32_t lanes = 0) const;
  // Findings of rules that need no clock.
  void Hint(Rule rule, const Act& by, std::string message, std::string fix);
  void Say(Rule rule, Severity severity, const Act& by, std::string message, std::string fix);

 private:
  struct ComponentInfo {
    enum class Kind : uint8_t {
      kWarp,
      kLane,
      kBarrier,
      kBulkRead,
      kBulkWrite,
      kCpAsync,
      kWgmma,
      kNamed,
      kInit,
      kTensor,
      kTensorLoad,
      kTensorStore
    };
    Kind kind;
    uint32_t owner = 0;  // warp, or rank of the CTA
    uint32_t value = 0;  // lane, shared offset, warpgroup, barrier
  };
  struct Copy {
    uint32_t warp, lanes, pc, bytes;
    Epoch epoch;
  };
  struct Barrier {
    Component component = 0;
    Epoch base = 0;  // phases of earlier lives of these bytes
    uint64_t phases = 0;
    uint32_t count = 0;
    bool live = false;
    View done, pending;
    Clock far_done, far_pending;  // scoped clocks of arrivals from other CTAs
    Mark init;
    Epoch init_epoch = 0;
    uint64_t observed = 0;                        // phases that some wait saw complete
    std::unordered_map<uint32_t, uint64_t> seen;  // by warp
    std::map<uint32_t, std::vector<Mark>> uses;   // by warp: the last of its lanes
    Copy last_copy{};
    Component committer = 0;  // of the last tcgen05.commit, and its number
    Epoch commit = 0;
    uint32_t commit_pc = 0;
    uint64_t commit_phases = 0;  // complete ones when its arrival is over
    Epoch last_epoch() const { return base + static_cast<Epoch>(phases); }
  };
  struct Named {
    Component component = 0;
    bool known = false;
    View pending, done[2];
    uint64_t generation = 0;
    uint32_t arrived = 0;  // warps, in the generation under way
    bool reduces = false;
    uint32_t pc = 0;
  };
  struct TensorIssuer {
    Component component = 0;
    Epoch issued = 0;  // the last number, commits included
    Epoch work = 0;    // that of the last mma, cp or shift
    uint32_t pc = 0;
  };
  // Loads or stores of tensor memory by a warp.
  struct TensorStream {
    Component component = 0;
    Epoch issued = 0, waited = 0;
    uint32_t pc = 0;
  };
  struct Stream {
    Component read = 0, write = 0;
    Epoch committed = 0, last = 0, read_done = 0;
    uint32_t pc = 0;
    bool known = false;
  };
  // Times an instruction was executed by the end of an epoch of its warp.
  struct Turns {
    Epoch epoch;
    uint32_t count;
  };
  struct WarpState {
    Agent agent;
    std::vector<std::vector<Turns>> turns;  // by place
    // Judged instructions so far, and how many there were when the last asynchronous operation of
    // a kind was issued; to which mbarrier the last copy goes.
    uint64_t acts = 0, copied_at = 0, stored_at = 0, loaded_at = 0, multiplied_at = 0;
    const void* copied_to = nullptr;
    uint32_t turn_pc = ~0u;
    int turn_lane = 0;
    Component inits = 0;  // kInit: mbarriers this warp initialised
    Epoch init_epoch = 0, init_fenced = 0;
    std::map<int, Stream> bulk;  // by lane
    Stream cp;
    Epoch wgmma_committed = 0, wgmma_issued = 0, wgmma_retired = 0;
    uint32_t wgmma_pc = 0;
    RegisterTags tags;
    std::vector<std::pair<uint32_t, uint32_t>> set_registers;  // pc, count
    std::map<int, TensorIssuer> tensor;                        // by lane
    TensorStream loads, stores;
    std::vector<Epoch> loading;        // by register: the load that will write it
    std::map<Epoch, uint32_t> unread;  // by load: registers nobody has read
    uint32_t odd[16] = {};             // by named barrier: lanes that wait for an odd generation
    // (cluster, component) → epoch of the latest of its strong writes that was read.
    std::map<std::pair<uint64_t, Component>, Epoch> heard;
    // Tensor maps fenced: address → the write it was fenced after, and whether that was released.
    std::map<uint64_t, std::pair<Mark, bool>> maps;
  };
  // Of another CTA's shared memory, by lanes of a warp. It is over for whoever knows the warp's
  // epoch, or, of arrivals and operations of a pair, `number` of `by` (a phase of the barrier, an
  // operation).
  struct PeerUse {
    uint32_t lanes = 0, pc = 0;
    Epoch epoch = 0;
    Component by = 0;
    Epoch number = 0;
  };
  struct Side {  // who an access is judged for
    uint32_t warp = 0, warps = 1;
    LaneGroup* group = nullptr;
    bool async = false;
    uint32_t twins = 0;
  };
  // One half of a pair that is not ordered: an access, of which cluster, and whether it writes.
  struct Half {
    const Mark& mark;
    uint64_t cluster;
    bool writes;
  };

  // A wait of the warp for what it issued when it had `issued_at` acts behind it, with nothing else
  // in flight: is that all it did?
  void SpendWait(uint32_t warp, uint32_t lanes, uint32_t pc, uint64_t issued_at, bool alone);
  Component NewComponent(ComponentInfo::Kind kind, uint32_t owner, uint32_t value);
  Component LaneComponent(uint32_t warp, int lane);
  Barrier& BarrierAt(uint32_t rank, uint32_t offset);
  void UseBarrier(Barrier& b, uint32_t warp, uint32_t lanes, uint32_t pc);
  void UsesOver(const Barrier& b, uint32_t warp, uint32_t lane, uint32_t pc, uint32_t offset);
  void CheckInit(const Barrier& b, uint32_t warp, uint32_t lanes, uint32_t pc, uint32_t rank,
                 uint32_t offset);
  void CheckPeer(uint32_t warp, uint32_t lanes, uint32_t pc, uint32_t rank);
  void UsePeer(uint32_t warp, uint32_t rank, PeerUse use);
  bool PeerUseOver(uint32_t warp, const PeerUse& use, const Clock& known) const;
  void PeersAtExit(uint32_t rank);
  void CtaExit(uint32_t rank, uint32_t pc);
  void CompareRegisters(uint32_t rank);
  bool LanesOrderedForAll(const Mark& old, const Side& side) const;
  bool LanesOrdered(const Mark& m, const Clock& clock) const;
  // Ordered in the generic proxy, for everybody of the side?
  bool GenericOrdered(const Mark& old, const Mark& now, const Side& side, bool scoped) const;
  bool OrderedForeign(const GlobalMark& old, const Side& side) const;
  bool Before(const GlobalMark& old, const Mark& now, const Side& side) const;
  bool MapReleased(const GlobalMark& write, const Mark& now, const Side& side) const;
  // Volatile data found by way of a volatile flag, without fences.
  void Hearsay(const std::string& memory, const GlobalMark& old, const Mark& now, const Side& side,
               bool global);
  // Lanes of one warp that hand values over by volatile accesses alone.
  void Lockstep(const Mark& old, const Mark& now, const Side& side);
  void Clash(uint32_t rank, size_t block, const Half& before, const Half& after, const Side& side);
  void GlobalClash(uint64_t address, const GlobalMark& old, bool old_writes, const Mark& now,
                   bool now_writes, const Side& side);
  void Conflict(const std::string& memory, const Half& before, const Half& after, const Side& side,
                bool global);
  void Fresh(const std::string& memory, const Mark& now, const Side& side);
  void OpaqueTouched(uint32_t rank, size_t block, const Mark& now, bool writes, const Side& side);
  Access Describe(const Mark& m, uint64_t cluster, bool writes, const std::string& memory) const;
  std::string CompletionOf(const Mark& m) const;
  // A copy meets a read that came too early rather than one that was not waited for: the reader has
  // not even seen the fill before this one.
  bool ReadAhead(const Mark& copy, const Mark& read) const;
  std::string Actor(const Mark& m, uint64_t cluster) const;
  const Epoch* AsyncClock(const AsyncOp& op, bool global);
  // An asynchronous operation at work on the shared memory of one CTA.
  struct AsyncTouch {
    const AsyncOp& op;
    uint32_t rank;
    bool write;
    const Epoch* clock;
    Side side;
  };
  void AsyncBlock(const AsyncTouch& by, size_t block, const Mark& m, uint8_t layout);
  TensorStream& StreamOf(uint32_t warp, bool store);
  void TensorLearn(uint32_t warp, TensorStream& s, Epoch number);
  // What an operation does to an area of tensor memory.
  struct TensorDeed {
    const AsyncOp& op;
    TensorAct act;
    TensorMark mark;
    const TensorArea& area;
  };
  void TensorClash(const TensorDeed& by, uint32_t column, const TensorMark& old, bool old_writes);
  void TensorExit(uint32_t rank, uint32_t pc);
  Epoch TensorKnown(uint32_t rank, Component c) const;
  std::string TensorActor(const TensorMark& m) const;
  std::string TensorMissing(const TensorMark& m) const;
  uint32_t RankOf(uint32_t warp) const { return warp / shape_.warps_per_cta; }
  Finding Begin(Rule rule, uint32_t pc);
  Finding Begin(Rule rule, uint32_t pc, uint32_t warp, uint32_t lanes = 0);
  uint64_t TurnOf(uint32_t warp, uint32_t pc, Epoch epoch) const;
  std::string RoleOf(uint32_t warp) const;
  // Who(), with its role.
  std::string WarpName(uint32_t warp) const;
  std::string BarrierName(uint32_t offset) const;

  LaunchJudge* launch_;
  ClusterShape shape_;
  bool scoped_ = false;  // several CTAs
  uint64_t strong_loads_ = 0;
  uint32_t strong_load_pc_ = 0;
  std::vector<WarpState> warps_;
  std::vector<SharedShadow> shared_;                   // by rank
  std::vector<std::unique_ptr<TensorShadow>> tensor_;  // by rank; null: not used
  std::vector<ComponentInfo> components_;
  std::unordered_map<uint64_t, Barrier> barriers_;  // rank << 32 | offset
  std::map<std::pair<uint32_t, uint32_t>, Named> named_;
  std::map<std::pair<uint32_t, uint32_t>, Component> wgmma_;
  std::unordered_map<uint64_t, View> shared_sync_;
  View cluster_pending_, cluster_done_;
  std::vector<View> sc_cta_;                 // what the `fence.sc` of a CTA ordered, by rank
  View sc_cluster_;                          // … those of the cluster, of cluster scope or wider
  std::vector<uint32_t> live_warps_;         // by rank
  std::vector<std::vector<PeerUse>> peers_;  // rank · warps of the cluster + warp → its uses
  std::vector<Clock> left_;                  // by rank: what the threads that exited knew
  // What stands before cluster barriers, relaxed arrivals too; what each rank has passed of it.
  Clock met_pending_, met_done_;
  std::vector<Clock> met_;
  Clock meet_;
};

// Bytes of a block of 16 of a CTA's shared memory, in words; `named`: with whose it is.
std::string SharedName(uint32_t rank, size_t block, uint16_t bytes, bool named);

}  // namespace tilec::runtime::judge
