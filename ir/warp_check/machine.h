// The walk: executes one op of one role on a State, as far as order, barriers, memory and control
// go. Control that is not decided stops the role with a question; the explorer answers it both
// ways. Internal to ir/warp_check.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ir/warp_check/agreement.h"
#include "ir/warp_check/check.h"
#include "ir/warp_check/diagnostics.h"
#include "ir/warp_check/key_memory.h"
#include "ir/warp_check/program.h"
#include "ir/warp_check/rings.h"
#include "ir/warp_check/state.h"

namespace tilec::ir::warp_check {

// Iterations of a loop that are told apart by number; later ones by their place relative to the
// others. Fewer where the length depends on the iteration of a loop around.
inline constexpr int64_t kLowTurns = 3, kLowInnerTurns = 1;
// Iterations after those in which a role may still speak of them.
inline constexpr int64_t kLookBack = 2;
// Questions are remembered as long as somebody may ask them so many positions later.
inline constexpr int64_t kMostLag = 4096;
// Carried scalars beyond this are no slots or phases; their numbers are forgotten.
inline constexpr int64_t kLargestCarried = 256;
// Indices are of 32 bits, so code asks whether positions fit: comparisons of sizes and positions
// with a number as large as this hold all together, or none of them does.
inline constexpr int64_t kFarOff = int64_t{1} << 30;
// Trip counts up to this are walked as they are.
inline constexpr int64_t kShortLoop = 32;
// In the `extra` of a comparison: it is one of floating-point numbers, which nobody looks into.
inline constexpr int64_t kFloatCompare = int64_t{1} << 32;

enum class Step : uint8_t { kDone, kBlocked, kAsks, kEnded, kFailed };

// One executed op, for whoever wants to see the walk.
struct Event {
  int role = 0;
  OpId op;
  int32_t loop = -1;  // the innermost symbolic loop it stands in, as its frame
  OpId loop_op;
  int64_t turn = 0;
  std::vector<int> after;  // waits: the events whose completion ended it
};

using Finding = WarpFinding;

// What of a state decides about its future. Of two with one key, the one in which fewer regions are
// written fails wherever the other does.
struct Moment {
  std::string key;
  std::vector<bool> written;  // by region, in the order of the key
  // Of a slot that is told apart, what its barriers say and each access to it, by numbers of their
  // texts. A slot that was used stands for one that was not, and one with more to come after for
  // one with less (apart.cc).
  struct Slot {
    int32_t told = 0;              // 0: nothing was done to it yet
    std::vector<int32_t> records;  // sorted
  };
  std::vector<Slot> slots;

  // Whatever may fail from the other, which has the same key, fails from here.
  bool Covers(const Moment& other) const;
};

class Machine {
 public:
  Machine(const Program& program, Terms& terms);
  bool TellApart();  // apart.cc
  bool TellsApart() const { return apart() > 0; }
  State Begin() const;
  // Runs every role until it waits, asks or ends. False: a finding.
  bool Settle(State& state);
  bool AllEnded(const State& state) const;
  // The role that is to be answered first, or -1: none asks.
  int Asking(const State& state) const;
  void Answer(State& state, int role, bool yes) const;
  bool CheckEnd(State& state);
  void ReportDeadlock(State& state);
  Moment Key(State& state);  // key.cc
  const std::optional<Finding>& finding() const { return finding_; }
  void ForgetFinding() { finding_.reset(); }
  void ForgetUses() { uses_.assign(uses_.size(), {}); }
  int64_t ops() const { return ops_; }
  const std::vector<WarpOpUse>& uses() const { return uses_; }
  int64_t ops_limit = INT64_MAX;
  // Branches that one role alone takes may go either way each time: nothing is remembered of them.
  // That makes fewer states; a program that is right only if they agree is walked again without.
  bool forget = false;
  // Nothing is known of a carried scalar that an iteration has changed, so iterations need not be
  // told apart by what it was. Of two roles that steer by it, neither knows what the other's is.
  bool widen = false;
  // What depends on the iteration of a loop around is a number, or an answer, of that iteration
  // alone: what those of different iterations have to do with each other is forgotten. A triangle's
  // inner loop then is as long as any, and a branch taken in one iteration says nothing of others.
  bool unrelated = false;
  bool MetRelated() const { return met_related_; }  // something that this would forget
  // Iterations up to the beginning of the latest loop over a length are told apart by number:
  // whoever skips a loop that begins late asks of its beginning as of a number.
  bool late = false;
  bool MetLate() const { return met_late_; }  // a loop that begins later than is told apart without
  // Given: scalars are known only where they are constant, and all other control is a question of
  // the agreement (agreed.cc). What is made of sizes, positions and loads has no other meaning.
  const Agreement* agreed = nullptr;
  // No comparison with what is far off holds. Otherwise all do, and code for the opposite is walked
  // where something else leads there too, or not at all: so this is walked as well.
  bool none_fits = false;
  bool AskedFarOff() const { return asked_far_off_; }
  std::vector<Event>* trace = nullptr;  // given: every op is executed and remembered
  // Steps of loops over lengths of one shape turned out larger than assumed: walk again.
  bool learned = false;

 private:
  int components() const {
    const int roles = static_cast<int>(p_.roles.size());
    return 2 * roles + p_.slots() + (p_.tensor_columns.empty() ? 0 : 2 * roles) +
           2 * roles * apart();
  }
  // Of programs that use tensor memory: complete products of a role, accesses by its threads.
  int ProductsOf(int role) const {
    return 2 * static_cast<int>(p_.roles.size()) + p_.slots() + 2 * role;
  }
  int AccessesOf(int role) const { return ProductsOf(role) + 1; }
  int SlotComponent(int slot) const { return 2 * static_cast<int>(p_.roles.size()) + slot; }
  int apart() const { return static_cast<int>(ring_apart_.size()); }
  // Of a role's component the clock of what was done to one slot; -1: to all else.
  int ClockOf(int component, int apart_of) const {
    if (apart_of < 0) return component;
    return 2 * static_cast<int>(p_.roles.size()) + p_.slots() + component * apart() + apart_of;
  }
  int ClockOf(const Record& r) const { return ClockOf(r.component, r.apart); }
  int ComponentOf(int clock) const {  // whose clock it is
    const int first = ClockOf(0, 0);
    return apart() && clock >= first ? (clock - first) / apart() : clock;
  }
  int OwnerOf(int clock) const {  // which role's; 0: none's
    const int component = ComponentOf(clock);
    return component < 2 * static_cast<int>(p_.roles.size()) ? component / 2 : 0;
  }
  Role& me() { return s_->roles[static_cast<size_t>(role_)]; }
  Who who() { return me().frames.back().who; }
  int Mine() const { return 2 * role_ + (who_ == Who::kElected ? 1 : 0); }
  Clock& Knows() { return who_ == Who::kElected ? me().elected : me().all; }
  // What an arrival of the executing threads tells the one who waits for it.
  Clock Told();
  void Tick();
  void Trace(OpId id);

  // findings.cc
  Step Fail(const DiagDef& def, const Op& op, std::string message);
  std::string OpName(OpId id) const;
  std::string RoleOf(int component) const;

  WarpOpUse& Use(OpId id) { return uses_[static_cast<size_t>(id.index)]; }
  // Of `marks`, if exactly one lies after `from` and not after `to`: it alone orders them.
  void Remember(std::vector<std::pair<int32_t, OpId>>& marks, OpId id);
  void OnlyOne(const std::vector<std::pair<int32_t, OpId>>& marks, int32_t from, int32_t to);

  void FindLastUses();
  void FindNext();
  bool Ahead(const State& state, int role, int other) const;
  void StartRole(int role);
  bool RunRole(int role);
  Step StepRole();
  const Op& OpOf(OpId id) const { return fn_.ops.begin()[id.index]; }  // of a block: in range
  Step RunOp(OpId id);

  // control.cc
  Step Enter(OpId id);
  Step LoopHead();
  Step LeaveBlock();
  void Push(OpId op, int region, Who who);
  void Forget(BlockId block);
  void Pass(ValueId from, ValueId to);
  bool Increments(const Frame& f, int32_t value) const;  // it is `c + k` in every iteration
  std::optional<Scalar> Handed(const Frame& f, int32_t to, const Scalar& s, bool again, bool moved);
  Scalar CarriedAs(const Frame& f, int32_t value, const Scalar& now);  // carried.cc

  // evaluate.cc
  Scalar Get(ValueId v);
  void Evaluate(OpId id);
  Scalar Made(OpId id, const std::vector<Scalar>& args);

  // decisions.cc
  int Decide(const Scalar& condition);
  const std::vector<int64_t>& Shape(int32_t form) const;
  int32_t ShapeNumber(int32_t form) const;
  bool Inner(int32_t form) const;  // made of positions of loops around
  bool Unrelated(int32_t form);    // it depends on the iteration of a loop around, and that is all
  Scalar LengthOf(const Scalar& difference);  // of a loop: by a name of its own where `unrelated`
  bool IsSize(int32_t form) const;            // made of sizes and positions alone
  int64_t LowEnd(int32_t form) const;         // thresholds of a length up to this are told apart
  int Either(OpId id);
  void NoteLag(int32_t form, int64_t threshold);
  int64_t LagOf(int32_t form) const;
  void Reduce(Scalar* key, int64_t* threshold);
  int Positive(const Scalar& v);  // v > 0: 1, 0, or -1 and a question

  // agreed.cc
  int Agree(OpId id, const Scalar& condition, int64_t iteration);
  void Know(int32_t value, const Scalar& scalar);  // `value` holds `scalar`
  void BeginIteration(OpId loop);
  Step EnterAgreed(OpId loop);
  Scalar Unknown();
  enum class AskedBy : uint8_t { kLoops, kBranches };
  int64_t NeededAt(const State& state, size_t role, int32_t question, int64_t n, AskedBy by) const;
  int64_t NeededAt(const Role& role, const Agreement::Site& site) const;
  int64_t AgreedBase(int32_t question, int64_t n, AskedBy by) const;
  int64_t SlowestIn(int32_t loop) const;
  std::vector<int64_t> AgreedKey();
  bool AheadAgreed(const State& state, int role, int other) const;

  // memory.cc
  struct Extent {  // bytes of shared memory, or columns of tensor memory
    int64_t first, count;
  };
  bool Access(OpId id, ValueId buffer, const Extent& bytes, Proxy proxy, bool write,
              const Record& how);
  bool TakesTurns(OpId id);
  bool AccessUnder(const Op& op, OpId id, ValueId buffer, Proxy proxy, bool write,
                   const Record& how);
  bool AccessTensor(OpId id);
  bool AccessRegion(const Op& op, OpId id, int number, Proxy proxy, bool write, const Record& how);
  bool AccessBuffer(OpId id, ValueId buffer, ValueId slot, Proxy proxy, bool write,
                    const Record& how = {});
  bool Known(const Record& r, const Clock& clock) const;
  int32_t MetInParts(const Record& r, int region);
  std::string Whose(const Record& r) const;
  bool SlotNumber(const Op& op, ValueId slot, int64_t depth, int64_t* number);
  void Fence();
  void SyncRole();
  bool Scratch(OpId id);
  int64_t ScratchBytes(OpId id);
  Step CopyIn(OpId id);
  Step CopyByThreads(OpId id);
  Step ArriveByCopies(OpId id);
  Step CopyOut(OpId id);
  void WaitCopies(int64_t pending);

  // barriers.cc
  int BarrierOf(const Op& op, ValueId mbar, ValueId slot);  // -1: failed
  bool Ready(const Op& op, int slot);
  Step Init(OpId id);
  Step Arrive(OpId id, int64_t bytes);
  Step ArriveTelling(OpId id, int slot, int64_t arrivals, int64_t bytes, Clock told);
  Step Wait(OpId id);
  bool TryComplete(const Op& op, int slot);
  void ForgetThreads(Barrier& b) const;
  bool Seen(int slot) const;

  // apart.cc
  int ApartOfRegion(int region) const;  // -1: of no ring, or slots are not told apart
  int ApartOfSlot(int slot) const;
  bool OfRing(int apart_of) const;
  void FindMeetings();
  bool MeetsFor(int role, int apart) const;
  void Advance(Clock& clock, int component, int32_t now) const;
  void TellOfOneSlot(Clock& told, int slot) const;
  bool Fresh(const Barrier& b) const;
  void EmptyReleased();
  void SimplifyFilled();

  // products.cc, products_at_once.cc, products_in_groups.cc
  Step Products(OpId id);
  Step FencePass(OpId id);
  Step Issue(OpId id);
  Step IssueAtOnce(OpId id);
  Step IssueInGroup(OpId id);
  void Commit();
  Step WaitProducts(OpId id);
  bool NothingFlying(OpId id);
  CoreTile TileOf(ValueId v);

  // products_by_barrier.cc
  Step TensorMemory(OpId id);
  bool TensorOffset(OpId id, int64_t* columns);
  Step IssueByBarrier(OpId id);
  Step CommitProducts(OpId id);
  Step AccessByThreads(OpId id);
  void FenceTensorMemory(bool after);
  int32_t NumberOf(ColumnTile tile, int64_t offset);
  enum class Reads : uint8_t { kNo, kYes };  // a write, what is there
  bool AccessColumns(OpId id, const Extent& columns, Proxy proxy, bool write, int32_t tile,
                     Reads before = Reads::kNo);
  bool KnownInTensorMemory(const Record& r, OpId id, int64_t column) const;

  // key.h and the files that it names; naming.h
  struct Naming;
  struct Turning;
  class Writer;
  const std::vector<int32_t>& PrivatesOf(int32_t form);
  void Prune();
  void Stand(const Role& r);       // `Dead` is asked of this role's values
  bool Dead(int32_t value) const;  // nobody reads it before it is made anew

  const Program& p_;
  const Function& fn_;
  Terms& terms_;
  const Rings rings_;
  std::map<ValueId, int> ring_of_;  // what is told apart; of no ring: one more
  std::vector<int> ring_apart_;     // by slot of a ring that has a clock of its own: which ring
  std::vector<int> apart_of_slot_, apart_of_region_;
  std::vector<std::vector<char>> heeds_;      // by role, by component; empty: all
  std::vector<std::vector<char>> meets_for_;  // by role, by ring: threads that meet tell of it
  mutable std::map<int32_t, std::vector<int64_t>> shapes_;  // by form
  mutable std::map<std::vector<int64_t>, int32_t> shape_numbers_;
  mutable std::vector<int32_t> shape_of_;  // by form; -1: not asked yet
  mutable std::map<int32_t, bool> inner_;
  // By form, where it was asked for: atoms nobody can recompute.
  std::vector<std::optional<std::vector<int32_t>>> privates_of_;
  std::map<std::string, int64_t> recurrences_;  // by text: the tag of a kCarried
  std::map<ColumnTile, int32_t> column_tiles_;  // the number of each
  bool asked_far_off_ = false, met_related_ = false, met_late_ = false;
  bool completed_ = false;  // a phase, by the last steps of a role
  size_t stopped_ = 0;      // at a limit of ops: of Program::consumers_first, who was to go on
  // Few sets of roles wait for many mbarriers: the sets, and by mbarrier which it is.
  std::vector<std::vector<char>> waiting_;
  std::vector<size_t> waiting_of_;
  std::vector<Scalar> args_;  // of the op that is evaluated
  struct LastMade {
    std::vector<Scalar> args;
    Scalar made;
  };
  std::vector<std::optional<LastMade>> made_;  // by op
  State* s_ = nullptr;
  int role_ = 0;
  Who who_ = Who::kAll;
  std::optional<Finding> finding_;
  std::vector<int32_t> last_use_;              // by value: place in its block of the last use
  std::vector<int32_t> home_;                  // by value: the block it is made in; -1: none
  std::vector<std::vector<int32_t>> next_;     // by block and place: the next op that is executed
  std::vector<int32_t> count_of_;              // by value: as in rings_; -1: none
  std::vector<int32_t> standing_;              // by block: where `Dead` takes the role to stand
  std::vector<int32_t> stands_in_;             // blocks that are marked there
  std::vector<std::vector<int32_t>> held_by_;  // by block: values env and core hold, sorted
  // By shape of a length: the largest step seen, and where the latest of its loops begins.
  std::map<int32_t, std::pair<int64_t, int64_t>> low_of_;
  // By shape of a form: the most positions that lie between a threshold and whoever asks of it.
  std::map<int32_t, int64_t> lag_of_;
  std::vector<int64_t> scratch_bytes_;  // by op; -1: not asked for yet
  int64_t ops_ = 0;
  KeyMemory key_memory_;
  TextNumbers texts_;  // of slots
  OpLists op_lists_;   // of arrivals at barriers
  std::vector<WarpOpUse> uses_;
};

}  // namespace tilec::ir::warp_check
