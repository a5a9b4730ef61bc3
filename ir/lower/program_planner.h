// Decides a ProgramPlan: from a tile function whose ops carry the marks of a schedule (role, order,
// tokens) and options, to roles with quotas, rings, buffers with addresses, chains of products and
// epilogues. Emits nothing. Internal to ir/lower; its parts are plan_program.cc (roles, quotas),
// plan_issuer.cc (a role that issues products), plan_pair.cc (products of two CTAs),
// plan_rings.cc (rings, tokens, passes, exchanges), plan_buffers.cc (shared memory), plan_chains.cc
// (products in flight from iteration to iteration), plan_epilogues.cc (how stores leave) and
// plan_meetings.cc (barriers that another one serves for).
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "ir/lower/bring.h"
#include "ir/lower/buffers.h"
#include "ir/lower/sequential.h"
#include "ir/program_plan.h"
#include "ir/pushed_tile.h"
#include "ir/target.h"
#include "ir/uses.h"

namespace tilec::ir {

// Is it made in turns of a tile's own loop, not in the one over tiles?
bool InTurns(const Function& fn, OpId op);

// What all plans with a producer role begin with, however deep their rings and whatever way their
// stores leave: one who tries many of them finds it out once.
struct Groundwork {
  LayoutPlan tiles;
  std::optional<std::vector<RoleNeeds>> needs;  // nullopt: the marks make no sense
};
Groundwork GroundworkOf(const Function& in, const Target& target, const SequentialOptions& options);

class ProgramPlanner {
 public:
  // depth: slots of each ring in a loop when a producer role is wanted; 0: one role.
  ProgramPlanner(const Function& in, const Target& target, const SequentialOptions& options,
                 int depth);
  // With a producer role, on its groundwork.
  ProgramPlanner(const Function& in, const Target& target, const SequentialOptions& options,
                 int depth, const Groundwork& ground);
  // A producer was wanted and is possible.
  bool specialized() const { return p_.specialized; }
  // … whose rings some loads share that other products read.
  bool joined() const { return p_.specialized && p_.joined_rings; }
  // … and its threads bring tiles, too.
  bool brings() const { return p_.specialized && BringsAny(tiles_); }
  // … or why not.
  const NoProducer& no_producer() const { return no_producer_; }
  // The marks of the program make sense: no role needs what another one computes.
  bool sound() const { return sound_; }
  // Fails with I304, I305 or I307.
  Result<ProgramPlan> Run(DiagSink& diags);

 private:
  void Begin(const std::optional<std::vector<RoleNeeds>>& needs);

  static constexpr int64_t kTokenDepth = 4;
  // The proof tells the slots of accumulators apart by number, beside those of each ring: of deeper
  // rings it has too many states for persistent CTAs (8 slots: 3298, 3: 122).
  static constexpr int kDeepestOfIssuer = 6;
  // Likewise of slots some of which are filled in part: which ones differs from tile to tile.
  static constexpr int64_t kDeepestOfParts = 4;

  // plan_program.cc
  Result<> CheckTiles(DiagSink& diags) const;
  void PlanRoles();
  void AddRole(PlannedRole::Kind kind, const std::string& name, int index, int first_warp,
               int warps, int64_t registers);
  void TakeQuotas();
  int OwnerOf(OpId id) const;  // the one compute role that executes it, −1: several
  bool Contains(OpId outer, OpId inner) const;

  // plan_issuer.cc
  bool ReadsRings(OpId dot) const;
  bool LeftToIssuer(const TensorSum& sum) const;
  void PlanIssuer();

  // plan_pair.cc
  std::optional<std::map<OpId, int>> HalvesOfPair(const std::vector<OpId>& products) const;
  bool AlikeInPair(const std::vector<OpId>& products, const std::map<OpId, int>& halves) const;
  void PlanPair(const std::vector<OpId>& products);

  // plan_rings.cc
  int64_t SlotsOf(size_t ring);
  void PlanRings();
  void PlanNests();
  void PlanRelease(size_t ring, int role, OpId last, const std::set<OpId>* reads);
  bool CanShare(OpId load) const;
  void PlanTokens();
  void FindPasses();
  void CountPasses(BlockId block, std::map<int64_t, int64_t>& waiting);
  void PlanPasses();
  void PlanHanded();
  std::optional<PushedTile> SentToAll(const Op& op) const;
  void PlanExchanges();

  // plan_buffers.cc
  void PlanBuffers();
  void AddBuffers();
  size_t AddBuffer(const Type& type, const char* holds, bool cleared, int owner, int64_t begin,
                   int64_t end);
  Type BufferType(ValueId v, const SmemLayout& smem, bool transposed = false) const;
  void PlanLoadBuffer(OpId load, const std::map<OpId, int64_t>& load_ends);
  void PlanOperandBuffers(OpId dot);
  void PlanStagingBuffers(OpId store);
  std::optional<size_t> SharedStaging(OpId store, const Type& type, int64_t panels) const;
  int64_t KernelEnd(OpId id) const;

  // plan_chains.cc
  bool GoesOn(OpId dot, int role) const;
  std::vector<OpId> ChainedProducts(const Op& loop, size_t carried, int role) const;
  OperandPlan* Stored(OpId dot, bool is_a);
  size_t OperandRingFor(OpId dot, bool is_a, size_t first);
  void PlanOperandRings();
  std::optional<PlannedChain> ChainAt(const Op& loop, size_t carried, int role) const;
  bool TakesLast(OpId dot, size_t ring, int role) const;
  std::vector<size_t> ReleasedBy(OpId dot, int role) const;
  bool FillsByThreads(OpId load) const;
  std::vector<PlannedChain> ChainsOf(const Op& loop, int role) const;
  void PlanLoops();

  // plan_chains.cc: what is done in front of the wait for a loop's last products
  struct Halves {  // the ops of a block on both sides of one of them, which begins the second
    std::vector<OpId> front, back;
  };
  BeforeLastWait InFrontOfWait(const Op& loop, int role) const;
  Halves Cut(const Op& at) const;
  void FindScalarsBehind(const Op& loop, int role, BeforeLastWait& before) const;
  std::vector<OpId> LoadsBehind(const Op& loop, int role) const;
  bool ComesEarly(OpId load, int role) const;

  // plan_epilogues.cc
  bool CopiesOneTensor() const;
  int64_t PanelsInFlight(OpId store) const;
  bool DrainsAsWhole(OpId store) const;
  bool StoredAsMade(ValueId v) const;
  int64_t RowsOfWarpgroups(OpId store) const;
  int64_t SliceWidth(OpId store) const;
  bool LoadsBySlices(OpId load) const;
  bool PlanEpilogues();
  std::set<OpId> SlicedOps(OpId store) const;

  // plan_meetings.cc
  OpId ProductOf(OpId store) const;
  bool StagedAtOnce(OpId store) const;
  void PlanMeetings();

  const Function& in_;
  const Target& target_;
  const Uses uses_;  // of its values
  const SequentialOptions& options_;
  const int depth_;
  Positions positions_;
  ProgramPlan p_;
  LayoutPlan& tiles_ = p_.tiles;
  bool sound_ = true;
  bool share_cleared_ = false;                                    // plan_buffers.cc
  std::vector<std::vector<std::pair<int64_t, int64_t>>> filled_;  // of each buffer: lives of tiles
  NoProducer no_producer_;
  std::vector<ValueId> handed_;  // to the producer
  int64_t cluster_ = 1;          // CTAs that the grid is made for
};

}  // namespace tilec::ir
