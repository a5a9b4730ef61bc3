// From a tile function and its ProgramPlan to warp ops: walks the function once for each role, in
// program order, and does what the plan says. Internal to ir/lower; its parts are emit_setup.cc
// (buffers and barriers, before the roles part), emit_control.cc (roles, op by op),
// emit_loops.cc (loops, branches), emit_tiles.cc (elementwise, shapes, reductions, layout changes),
// emit_memory.cc (accesses by threads), emit_copies.cc (copies into shared memory), emit_store.cc
// (stores, staging), emit_issuer.cc (products of other roles), emit_slices.cc (what leads to a
// store, by slices), emit_passes.cc (tiles from role to role), emit_exchange.cc (tiles that CTAs
// combine) and emit_dot.cc (products).
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/lower/bring.h"
#include "ir/lower/row_runs.h"
#include "ir/lower/slides.h"
#include "ir/lower/stored_over.h"
#include "ir/program_plan.h"
#include "ir/uses.h"
#include "support/diag.h"
#include "support/result.h"

namespace tilec::ir {

// The ops of one role that pass through scratch, and the bytes they want.
struct Scratch {
  std::vector<std::pair<OpId, int64_t>> ops;
};

// A program whose buffers have addresses and whose scratch and barriers have none yet.
struct Emitted {
  Function fn;
  std::map<int, Scratch> scratch;  // by role
  std::vector<ValueId> barriers;   // in the order in which they are to lie
  ValueId tensor_memory;           // its address passes through bytes behind them
};

class Emitter {
 public:
  Emitter(const Function& in, const ProgramPlan& plan, RunLimits runs, DiagSink& diags);
  Result<Emitted> Run();

 private:
  // A ring at work: its barriers, and in the role being emitted its transfer counter and the slot
  // of the transfer in flight.
  struct Ring {
    int64_t depth = 1;
    ValueId full, empty;
    ValueId counter, slot;
  };
  struct Token {
    ValueId mbar;
    ValueId counter;  // of the role being emitted
  };
  ValueId TokenSlot(const OrderToken& planned, const Token& token);

  // A slot to be released; `when` it holds, or always.
  struct Due {
    size_t channel;
    ValueId slot, when;
  };
  // A product in flight: issued and committed, not yet awaited.
  struct Flight {
    OpId dot;
    ValueId lands;  // the tile value it makes; invalid: nobody's, a later product goes on with it
    ValueId acc;    // of the instruction, in its layout; invalid likewise
    ValueId a;      // register operand it still reads, if any
    std::vector<size_t> channels;  // it reads
    std::vector<Due> releases;     // when it is done
    ValueId adds;                  // of an iteration before: whether there was one; none: there was
  };
  // A product with what its instructions read; of several parts it has one (fp8 with promotion).
  struct Product {
    OpId dot;
    ValueId a, b;                 // buffers; a: or a tile in registers
    std::vector<ValueId> slots;   // of a and b; none: both have one
    std::vector<ValueId> scales;  // of a scaled product: tiles as it wants them
    ValueId adds;                 // whether to add to what the accumulator holds; none: it does
    Type inner;                   // of the accumulator, in the instruction's layout
  };
  struct Columns {       // of the contracted dim
    bool first = false;  // what the accumulator holds is ignored
    int64_t begin = 0, k = 0;
  };
  // Of an operand ring, in the role being emitted.
  struct OperandCursor {
    ValueId counter;
    ValueId slot;  // of the product being emitted
  };
  // A sum in tensor memory, in the role being emitted.
  struct SumState {
    ValueId mbar;            // that says that its products are complete
    ValueId counter;         // of waits for it
    ValueId adds;            // is there anything in its columns to add to?
    bool committed = false;  // its last product, not yet awaited
    bool quiet = false;      // of a resident one: awaited, and nothing issued since in this block
    ValueId address;         // of the slot of an accumulator at hand; none: of all of the memory
    int64_t loaded = 0;      // columns of it that threads have
    int64_t awaited = -1;    // behind how many meetings, and where
    BlockId awaited_in;
  };
  // Products of sums that read slots of rings and were not awaited since.
  struct Issued {
    size_t sum;
    std::vector<size_t> channels;
  };
  enum class Part { kEverything, kProducer, kCompute, kIssuer };
  // Index operands of an access, rewritten for the warp level.
  struct Access {
    std::string modes;
    std::vector<int64_t> sizes;
    std::vector<ValueId> operands;
    int64_t vector = 1;
  };

  // body(inner) emits what one elected thread does. `when`: only where that holds.
  template <typename F>
  OpId Elect(F&& body, Attrs attrs = {}, ValueId when = {}) {
    std::vector<ValueId> operands;
    if (when.valid()) operands.push_back(when);
    const OpId elect = b_.Add(OpKind::kElect, std::move(operands), {}, std::move(attrs));
    const BlockId block = out_.AddBlock(elect);
    out_.ops[elect].regions.push_back(block);
    Builder inner(out_, block);
    inner.SetSpan(b_.span());
    body(inner);
    inner.Yield({});
    return elect;
  }

  // emit_setup.cc
  void SetUp();
  Ring NewRing(int64_t slots);
  ValueId NewBarrier(int64_t slots);
  void Allocate(size_t buffer);
  void AllocateColumns();
  void InitBarriers();

  // emit_passes.cc
  void Put(const Op& op);
  void Take(const Op& op);
  void Hand(const Op& op, int64_t pass);
  void TakeHanded(const Op& op, int64_t pass);

  // emit_channels.cc
  void Signal(const Op& op);
  void Await(const Op& op);
  bool specialized() const { return p_.specialized; }
  bool Mine(OpId id) const { return p_.Executes(role_, id); }
  void BeginRole();
  ValueId NextSlot(const Ring& ring, bool producer, bool alone = false, bool pair = false);
  ValueId NextSlot(size_t channel, bool producer);
  void Produce(size_t channel, size_t site);
  void Copy(size_t channel, size_t site, const std::vector<OpId>& loads,
            const std::vector<std::vector<std::vector<ValueId>>>& coords, ValueId slot);
  void AwaitCommits();
  void AwaitFull(size_t channel, OpId reader);
  void Release(size_t channel);
  void Arrive(ValueId mbar, ValueId slot, Attrs attrs = {}, ValueId when = {});
  void EmitRelease(const Due& due);
  Result<> ProducerOp(OpId id);
  Result<> ProducerWhile(const Op& op);
  void DropEqualArms(OpId branch, const std::vector<ValueId>& results);
  // Of the roles that serve others: what they walk, and which scalars they know.
  bool Walks(OpId structure) const {
    return (part_ == Part::kIssuer ? p_.issue_structure : p_.structure).count(structure) > 0;
  }
  bool ProducerWants(ValueId v) const {
    return (part_ == Part::kIssuer ? p_.issue_control : p_.control).count(v) > 0;
  }
  ValueId SlotOf(OpId load) const;

  // emit_control.cc
  Result<> Role_(const PlannedRole& role);
  Result<> Block_(BlockId from);
  Result<> Op_(OpId id);
  Result<> Parallel_(const Op& op);
  std::pair<ValueId, ValueId> OfCluster(ValueId number, ValueId n, int64_t ctas);
  ValueId Scalar(ValueId v);
  void Bind(ValueId from, ValueId to) { map_[from] = to; }
  // Of the role being emitted: where the load role holds tiles, they are positions of rows.
  const std::map<ValueId, Layout>& Layouts() const {
    return part_ == Part::kProducer ? brought_[at_hand_].layouts : plan_.layouts;
  }
  Type WarpType(ValueId v);  // of a tile value, squeezed, in its class layout

  // emit_loops.cc
  bool Keeps(ValueId result) const;
  Result<> For_(OpId id);
  Result<OpId> Turns(const Op& op, const std::vector<size_t>& kept, std::vector<ValueId> operands,
                     std::vector<Type> types, const std::vector<PlannedChain>& chains);
  Result<> While_(const Op& op);
  void Yield_(const Op& op);
  Result<> If_(const Op& op);
  Result<> PlainBranch(const Op& op);
  Result<> Region(BlockId from, BlockId to);

  // emit_tiles.cc
  ValueId Tile(ValueId v);  // in its class layout
  ValueId InLayout(ValueId warp, const Layout& layout);
  void Elementwise(const Op& op);
  void Broadcast_(const Op& op);
  void Transpose_(const Op& op);
  Result<> Reduce_(const Op& op);
  void Scan_(const Op& op);
  void Rearrange_(const Op& op);
  ValueId Reshape_(ValueId warp, const std::vector<int64_t>& shape, const Layout& layout);
  void WantScratch(OpId op, int64_t bytes);

  // emit_exchange.cc
  void ClusterReduce_(OpId id);

  // emit_memory.cc; emit_store.cc
  ValueId LoadBuffer(OpId load) const { return buffers_[p_.load_buffers.at(load)]; }
  Result<> Load_(OpId id);
  Result<> Store_(OpId id);
  void Atomic_(OpId id);
  void FenceAsync();
  void FillByThreads(OpId id);
  ValueId LoadForBuffer(OpId id, const Layout& layout);
  ValueId LoadByThreads(OpId id, const Layout& layout);
  Layout LaidOut(OpId load) const;
  void PutByThreads(OpId id);
  ValueId Fetch(OpId id);
  void Bring(OpId id, ValueId held, ValueId slot);
  Result<> Positions_(OpId id);
  void TakeInHand(size_t positions, const Op& reader);
  void StoreByTma(OpId id);
  void SetKind(OpId copy, const Op& op);
  ValueId PanelBuffer(OpId id, int64_t number) const;
  Attrs OfStorer() const;
  void AwaitFreed(OpId dot);
  struct Panels {
    int64_t width = 0;                         // columns of one
    int64_t count = 0, buffers = 0;            // of panels, and what they pass through
    int64_t together = 0, steps = 0;           // panels between two meetings; how often
    int64_t rows = 0;                          // of one thread's copies
    std::vector<std::vector<ValueId>> coords;  // of boxes, panel by panel
  };
  Panels PanelsOf(OpId id);
  void CopyPanels(OpId id, const Panels& all, int64_t step);
  void StoreByPanels(OpId id);
  void AwaitStores();
  bool PassesOnStaging(OpId loop) const;

  // emit_copies.cc
  void QueueTmaLoad(OpId id);
  void FlushLoads();
  void IntoRegisters(OpId load);
  // Copies by threads (cp.async): a tile into its buffer, and the bytes of a copy; 0: by TMA.
  void CopyByThreads(OpId load, ValueId slot);
  void CopyNow(const std::vector<OpId>& loads);
  int64_t ChunkOf(OpId load) const { return plan_.loads.at(load).chunk; }
  int64_t FullArrivals(const PlannedRing& ring) const;
  bool FilledByOne(const PlannedRing& ring) const;
  // Boxes of one load into its buffer, appended inside an elect.
  void Boxes(OpId load, ValueId mbar, ValueId slot, Builder& inner,
             const std::vector<std::vector<ValueId>>& coords);
  int64_t ColumnsOfACopy(OpId load, int64_t col) const;
  std::vector<std::vector<ValueId>> CoordsOf(OpId load);
  std::vector<ValueId> BoxCoords(const Op& op, int row_dim, int col_dim, int64_t row, int64_t col,
                                 ValueId below = {});
  // What one copy brings: rows and columns of the tile along dims of its tensor.
  struct Box {
    int row_dim, col_dim;
    int64_t rows, cols;
    int swizzle;
    int64_t panels = 1;
    int64_t every = 1;  // so many of the tensor's rows
  };
  int MapFor(const Op& op, const Box& box);

  // emit_slices.cc
  ValueId LoadSlice(const Op& op, const Type& type, const Layout& layout, int64_t first);
  ValueId Slice(const std::set<OpId>& sliced, ValueId v, const Layout& layout, int64_t first,
                int64_t width);
  void EndSlices(OpId store);
  void StoreBySlices(OpId id);
  Access WarpAccess(const Op& op, ValueId tile, const Layout* layout, bool squeeze);
  void AsRun(OpId id, OpId access, const Layout& layout);
  int64_t ShiftedVector(const Op& op, const Layout& layout, const Type& type) const;
  ValueId Slid(ValueId start);
  bool Slides(const Type& tile) const;
  void Iota_(const Op& op);
  int64_t VectorFor(const Op& op, const Layout& layout, const std::vector<int64_t>& shape,
                    DType dtype) const;
  // The threads of the compute role; barrier 0 is the whole CTA's.
  void Sync() {
    ++meetings_;
    b_.Add(OpKind::kCtaSync, {}, {}, {{"id", int64_t{specialized() ? 1 + role_ : 0}}});
  }
  // Accesses of different threads may meet: the kernel reads what it writes, or writes it again.
  bool OwnElements(ValueId tensor) const;
  bool ChangesInTile(ValueId v) const;
  bool MeetsBefore(OpId access) const;

  // emit_chain.cc
  const PlannedLoop& LoopPlanOf(OpId loop) const;
  const Flight* Flying(ValueId v) const;
  void FlyOn(const std::vector<PlannedChain>& chains, const std::vector<ValueId>& lands,
             ValueId when);
  Result<> ChainedTurns(OpId id, const std::vector<size_t>& kept, std::vector<ValueId> operands,
                        std::vector<Type> types);
  Result<std::vector<ValueId>> MadeAgain(const BeforeLastWait& again);
  Result<std::vector<ValueId>> LoadedEarly(const BeforeLastWait& again);
  size_t FlyingPast(OpId loop) const;
  ValueId GoOn(OpId dot, ValueId acc, ValueId* adds);
  void YieldChains(OpId loop, std::vector<ValueId>& values);

  // emit_dot.cc
  Result<> Dot_(OpId id);
  ValueId Multiply(const Product& product, ValueId into, ValueId a, const Columns& of);
  // The result; invalid: it is in flight.
  ValueId Issue(const Product& product, ValueId into, const Columns& of);
  ValueId IssueAtOnce(const Product& product, ValueId into, const Columns& of);
  ValueId IssueInGroup(const Product& product, ValueId into, const Columns& of);
  // Binds a finished product's result, from the instruction's layout to its class's.
  void Land(ValueId result, ValueId acc);
  // issue_by_barrier.cc
  bool InTensorMemoryAlone(ValueId v) const;
  std::vector<size_t> SumsCarriedBy(OpId loop) const;
  Attrs TensorPlace(size_t sum) const;
  Type SumType(size_t sum);
  void BeginSum(size_t sum, bool from_zero);
  bool BeginSums(OpId first);
  void MeetBeforeProducts();
  void EndSums(OpId last);
  Attrs PairAttr() const { return p_.pair ? Attrs{{"pair", int64_t{1}}} : Attrs{}; }
  void CommitTo(ValueId mbar, ValueId slot);
  bool InFlight(size_t sum) const;
  void CommitSum(size_t sum);
  void AwaitSum(size_t sum);
  ValueId AnyProduct(size_t sum);
  ValueId LoadSum(size_t sum, const Type& type, int64_t first);
  void TakeSum(size_t sum);
  void TakeSums();
  bool AwaitedLater(OpId dot, size_t sum) const;
  void IssueByBarrier(OpId dot, size_t sum, const Columns& of);
  void AwaitReadersOf(size_t channel);
  Result<> Accumulate(OpId dot);
  // emit_issuer.cc
  bool LeftToIssuer(size_t sum) const { return p_.accumulator_of.count(sum) > 0; }
  const PlannedAccumulator& Accumulator(size_t sum) const {
    return p_.accumulators[p_.accumulator_of.at(sum)];
  }
  bool ServedByIssuer(size_t channel) const {
    return p_.HasIssuer() && p_.ReleasedByCommit(p_.rings[channel]);
  }
  // Is the ring filled for products that the CTAs of a pair make together?
  bool OfPair(size_t channel) const { return p_.pair && ServedByIssuer(channel); }
  void SetUpAccumulators();
  void BeginIssuer();
  void Serve(int role);
  void FenceAfterAlone();
  void NextAccumulator(size_t sum, bool producer);
  void BeginAccumulators(OpId first);
  void EndAccumulators(OpId last);
  void TakeAccumulator(size_t sum);
  void ReleaseAccumulator(size_t sum);
  ValueId TensorAddress(size_t sum) const {
    return sums_[sum].address.valid() ? sums_[sum].address : tensor_memory_;
  }
  Result<> IssuerOp(OpId id);
  // sums_in_place.cc
  std::optional<size_t> SumBySlices(const std::set<OpId>& sliced, ValueId v) const;
  void StoreColumns(size_t sum, ValueId tile, int64_t first);
  void EnterHomes(OpId loop);
  void LeaveHomes(const Op& op);
  void ChangeSum(size_t sum, OpId head);
  void AwaitQuiet(size_t sum);
  void SettleForStore(OpId store);
  // Warpgroups that have other parts of what lay in these columns are done with it.
  void MeetBeforeStores() {
    if (p_.tensor_meets) MeetBeforeProducts();
  }
  void StoreScales(OpId id);
  ValueId ScaleTile(OpId id, int rows_dim, const Layout& wanted);
  std::vector<ValueId> ScaleTiles(OpId id);
  void StoreLeft(OpId dot);
  void StoreLefts(const std::vector<OpId>& ops, size_t behind);
  std::vector<OpId> LeftsBehindReaders(std::vector<OpId> ops) const;
  Result<> AccumulateParts(OpId dot, size_t sum);
  // issue_groups.cc
  // Awaits the oldest `count` products in flight, once `made` are there.
  void Settle(size_t count, const std::vector<ValueId>& made = {});
  void BeforeFeeder(OpId id);
  bool ConvertsFewBits(const Op& op) const;
  void SettleAll() {
    TakeSums();
    Settle(flights_.size());
  }
  // Awaits the products that read what threads computed for them.
  void SettleReaders(OpId dot);
  bool TakesBytesOf(OpId dot, OpId load) const;
  // emit_dot.cc
  ValueId OperandBuffer(OpId dot, bool is_a);
  void StoreOperands(OpId dot);
  void StoreOperand(OpId dot, bool is_a);
  ValueId RegisterOperand(OpId dot);
  std::vector<ValueId> OperandSlots(OpId dot);
  void NextOperandSlots(OpId dot);

  const Function& in_;
  const ProgramPlan& p_;
  const LayoutPlan& plan_;  // of p_
  const RunLimits runs_;
  const std::optional<Slide> slide_;
  const Uses uses_;        // of values of in_
  const StoresOver over_;  // of in_
  DiagSink& diags_;
  Emitted emitted_;
  Function& out_;  // of emitted_
  Builder b_;
  // Positions of gathered rows in the load role; those at hand, and what they were emitted as.
  std::vector<BroughtPositions> brought_;
  size_t at_hand_ = 0;
  std::vector<std::map<ValueId, ValueId>> positions_;
  std::map<ValueId, ValueId> map_;
  std::vector<ValueId> buffers_;                         // as the plan numbers them
  ValueId tensor_memory_;                                // its address
  std::vector<SumState> sums_;                           // as the plan numbers them
  std::map<std::pair<int, size_t>, ValueId> sum_mbars_;  // by role and sum
  std::map<size_t, Ring> accumulators_;                  // by sum, of an issuer
  std::map<int, std::vector<Ring>> served_;              // rings_ as the issuer has them, by role
  std::vector<size_t> due_;                              // sums to be loaded
  std::set<OpId> left_stored_;      // products whose left operands lie in their columns already
  std::optional<size_t> changing_;  // the sum whose slices are made,
  ValueId changed_;                 // … of this value
  std::vector<Issued> issued_;
  std::vector<OpId> pending_;  // TMA loads queued for the next flush
  std::vector<OpId> puts_;     // pieces that threads bring meanwhile
  bool put_ = false;           // … and these have brought some, and have not met since
  ValueId mbar_, phase_;
  ValueId cluster_rank_;                                   // of the role being emitted, i64
  std::vector<Flight> flights_;                            // oldest first
  std::map<std::pair<ValueId, int64_t>, ValueId> slices_;  // made so far, of one store
  std::set<OpId> early_;             // loads that were made in front of their place
  bool plain_branch_ = false;        // inside arms of register arithmetic only
  std::map<OpId, ValueId> halfway_;  // conversions that have come as far as f32
  bool drains_ = false;              // the role being emitted has stores that nobody has awaited
  int parts_ = 1;                    // of the role that copies them out, each for itself
  Part part_ = Part::kEverything;
  int64_t meetings_ = 0;  // of the role, so far
  int role_ = 0;          // the compute role being emitted
  std::vector<Ring> rings_;
  std::vector<OperandCursor> operand_cursors_;
  std::map<int64_t, Token> tokens_;
  std::map<int64_t, Ring> passes_;     // by token
  std::map<OpId, int64_t> handed_;     // scalars to the producer: the token, by what makes them
  std::map<OpId, ValueId> exchanges_;  // barriers
};

}  // namespace tilec::ir
