// The emitting half of the sequential lowering: walks the tile function once, in program order, and
// appends warp ops. Internal to ir/lower; its parts are emit_control.cc (structure, scalars),
// emit_tiles.cc (elementwise, shapes, reductions, layout changes), emit_memory.cc (global memory,
// TMA, staging), emit_slices.cc (what leads to a store, by slices), emit_passes.cc (tiles from role
// to role), emit_exchange.cc (tiles that CTAs combine) and emit_dot.cc (products).
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/isa.h"
#include "ir/lower/buffers.h"
#include "ir/lower/channels.h"
#include "ir/lower/plan.h"
#include "ir/lower/sequential.h"
#include "ir/uses.h"

namespace tilec::ir {

class Emitter {
 public:
  // depth: slots of each ring in a loop when a producer role is wanted; 0: one role.
  Emitter(const Function& in, const Target& target, const SequentialOptions& options, int depth,
          DiagSink& diags);
  // A producer was wanted and is possible.
  bool specialized() const { return channels_.has_value(); }
  // The marks of the program make sense: no role needs what another one computes.
  bool sound() const { return sound_; }
  int64_t smem_bytes() const { return out_.launch.smem_bytes; }
  // Why it failed: too many tiles alive at once.
  bool registers_full() const { return registers_full_; }
  Result<Function> Run();

 private:
  // A buffer of shared memory: its alloc op and the bytes it wants.
  struct Buffer {
    OpId alloc;
    ValueId value;
    BufferLife life;
  };
  // One channel at work: its barriers, and in the role being emitted its transfer counter and the
  // slot of the transfer under way.
  struct Ring {
    int64_t depth = 1;
    ValueId full, empty;
    ValueId counter, slot;
    int consumers = 1;     // compute roles
    bool cluster = false;  // filled by all CTAs of the cluster: given back to all of them
  };
  // An order token between two compute roles: transfer c is one phase of barrier c mod kTokenDepth.
  // One barrier would not do: in a prologue the signalling role may be a turn ahead, and its warps
  // do not wait for each other.
  static constexpr int64_t kTokenDepth = 4;
  struct Token {
    int from = 0, to = 0;
    ValueId mbar;
    ValueId counter;  // of the role being emitted
  };
  ValueId TokenSlot(const Token& token);
  // Tiles that pass from one compute role to another: a ring that the threads of both fill and
  // empty.
  struct Pass {
    int from = 0, to = 0;
    OpId put;  // one of its ops
    Ring ring;
    ValueId buffer;
  };

  // Where CTAs of a cluster combine a tile.
  struct Exchange {
    ValueId buffer, mbar;
  };

  static constexpr int64_t kBoxRows = isa::kMostBoxExtent;
  static constexpr size_t kMostDims = isa::kMostTensorRank;

  // A slot to be given back; `when` it holds, or always.
  struct Due {
    size_t channel;
    ValueId slot, when;
  };
  // A product under way: issued and committed, not yet awaited.
  struct Flight {
    OpId dot;
    ValueId lands;  // the tile value it makes; invalid: nobody's, a later product goes on with it
    ValueId acc;    // of the instruction, in its layout; invalid likewise
    ValueId a;      // register operand it still reads, if any
    std::vector<size_t> channels;  // it reads
    std::vector<Due> releases;     // when it is done
    ValueId adds;                  // of a turn before: whether there was one; none: there was
  };
  // A product of a loop that adds to what it made a turn earlier, which nobody else looks at: it
  // need not be awaited before the next turn's is issued.
  struct Chain {
    size_t carried;                // which of the loop's values
    OpId dot;                      // of several that add to one accumulator in a turn, the last
    bool from_zero;                // it begins with zeros
    std::vector<size_t> channels;  // whose slots it gives back
  };
  // What is done in front of the wait for a loop's last products.
  struct Again {
    std::vector<ValueId> read;  // scalars, made again, that are read behind the loop
    std::vector<OpId> ops;      // that make them, in order
    ValueId position;           // of the turn of the loop around, from which they follow
    std::vector<OpId> loads;    // that stand behind the loop
  };
  // The ops of a block on both sides of one of them, which begins the second.
  struct Halves {
    std::vector<OpId> front, back;
  };
  // Where threads put what they computed for products. Of several slots each product takes the
  // next, so that those before may still read theirs.
  struct OperandRing {
    std::vector<std::pair<OpId, bool>> operands;  // product; is it the left one?
    int64_t depth = 1;
    std::optional<size_t> buffer;  // of buffers_
    ValueId counter;               // of the role being emitted
    ValueId slot;                  // of the product being emitted
  };
  enum class Part { kEverything, kProducer, kCompute };
  // The ops of one role that pass through scratch, and the bytes they want.
  struct Scratch {
    std::vector<std::pair<OpId, int64_t>> ops;
  };
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

  // emit_channels.cc
  void PlanRings();
  void PlanRelease(size_t channel, int role, OpId last, const std::set<OpId>* reads);
  bool Contains(OpId outer, OpId inner) const;
  void PlanTokens();
  ValueId NextSlot(const Ring& ring, bool producer);

  // emit_passes.cc
  void FindPasses();
  void PlanPasses();
  void CountPasses(BlockId block, std::map<int64_t, int64_t>& waiting);
  void Put(const Op& op);
  void Take(const Op& op);

  // emit_channels.cc
  void Signal(const Op& op);
  void Await(const Op& op);
  int WarpsPerRole() const { return 4 * plan_.warpgroups; }
  bool Mine(OpId id) const { return needs_[static_cast<size_t>(role_)].ops.count(id) > 0; }
  bool Mine(ValueId v) const { return needs_[static_cast<size_t>(role_)].values.count(v) > 0; }
  int OwnerOf(OpId id) const;  // the one compute role that executes it, −1: several
  void BeginRole();
  ValueId NextSlot(size_t channel, bool producer);
  void Produce(size_t channel, size_t site);
  void AwaitFull(size_t channel, OpId reader);
  void Release(size_t channel);
  void Arrive(ValueId mbar, ValueId slot, Attrs attrs = {}, ValueId when = {});
  void EmitRelease(const Due& due);
  Result<> ProducerOp(OpId id);
  void DropEqualArms(OpId branch, const std::vector<ValueId>& results);
  bool ProducerWants(ValueId v) const { return channels_->control.count(v) > 0; }
  ValueId SlotOf(OpId load) const;

  // emit_control.cc
  Result<> Role_(const std::string& name, Part part, int role, int first_warp, int warps,
                 int64_t regs);
  Result<> CheckTiles();
  Result<> CheckRegisters();
  bool Alone(OpId op, int64_t scratch_bytes) const;
  Result<> Block_(BlockId from);
  Result<> Op_(OpId id);
  Result<> Parallel_(const Op& op);
  bool Keeps(ValueId result) const;
  Result<> For_(OpId id);
  Result<OpId> Turns(const Op& op, const std::vector<size_t>& kept, std::vector<ValueId> operands,
                     std::vector<Type> types, const std::vector<Chain>& chains);
  Result<> While_(const Op& op);
  Result<> If_(const Op& op);
  bool IsPlainBranch(const Op& op) const;
  Result<> PlainBranch(const Op& op);
  Result<> Region(BlockId from, BlockId to);
  ValueId Scalar(ValueId v);
  void Bind(ValueId from, ValueId to) { map_[from] = to; }
  Type WarpType(ValueId v);  // of a tile value, squeezed, in its class layout

  // emit_tiles.cc
  ValueId Tile(ValueId v);  // in its class layout
  ValueId InLayout(ValueId warp, const Layout& layout);
  void Elementwise(const Op& op);
  void Broadcast_(const Op& op);
  void Transpose_(const Op& op);
  Result<> Reduce_(const Op& op);
  ValueId Reshape_(ValueId warp, const std::vector<int64_t>& shape, const Layout& layout);
  void WantScratch(OpId op, int64_t bytes);

  // emit_exchange.cc
  void PlanExchanges();
  void InitExchanges(Builder& b);
  void ClusterReduce_(OpId id);

  // emit_memory.cc
  void PlanBuffers();
  void InitBarriers();
  ValueId AddBuffer(const Type& type, bool exclusive, int owner, int64_t begin, int64_t end);
  Result<> Load_(OpId id);
  Result<> Store_(OpId id);
  void Atomic_(OpId id);
  void FillByThreads(OpId id);
  void QueueTmaLoad(OpId id);
  void FlushLoads();
  void IntoRegisters(OpId load);
  // Of a row that is kept in shared memory: it comes into registers where it is read.
  bool KeepsUntilRead(OpId load) const;
  bool CanShare(OpId load) const;
  // Boxes of one load into its buffer, appended inside an elect.
  void Boxes(OpId load, ValueId mbar, ValueId slot, Builder& inner,
             const std::vector<std::vector<ValueId>>& coords);
  int64_t ColumnsOfACopy(OpId load) const;
  std::vector<std::vector<ValueId>> CoordsOf(OpId load);
  void StoreByTma(OpId id);
  void SetKind(OpId copy, const Op& op);
  bool CopiesOneTensor() const;
  int64_t PanelsInFlight(OpId id);
  ValueId PanelBuffer(OpId id, int64_t number) const;
  bool StoredAsMade(ValueId v) const;
  int64_t RowsOfWarpgroups(OpId id) const;
  OpId ElectStorer();
  void StoreByPanels(OpId id);
  void AwaitStores();

  // emit_slices.cc
  void FindSlices();
  int64_t SliceWidth(OpId store) const;
  std::vector<int> KeptDims(const Op& broadcast) const;
  bool ByColumns(const Op& op, size_t operand) const;
  bool LoadsBySlices(OpId load) const;
  ValueId LoadSlice(const Op& op, const Type& type, const Layout& layout, int64_t first);
  ValueId Slice(OpId store, ValueId v, const Layout& layout, int64_t first, int64_t width);
  void StoreBySlices(OpId id);
  Access WarpAccess(const Op& op, ValueId tile, const Layout* layout, bool squeeze);
  int64_t VectorFor(const Op& op, const Layout& layout, const std::vector<int64_t>& shape,
                    DType dtype);
  std::vector<ValueId> BoxCoords(const Op& op, int row_dim, int col_dim, int64_t row, int64_t col,
                                 ValueId below = {});
  int MapFor(ValueId tensor, int rank, int row_dim, int col_dim, int64_t rows, int64_t cols,
             int swizzle, int64_t panels = 1);
  // The threads of the compute role; barrier 0 is the whole CTA's.
  void Sync() {
    b_.Add(OpKind::kCtaSync, {}, {}, {{"id", int64_t{specialized() ? 1 + role_ : 0}}});
  }
  // Accesses of different threads may meet: the kernel reads what it writes, or writes it again.
  bool SharedTensor(ValueId tensor) const;

  // emit_chain.cc
  bool FillsByThreads(OpId load) const;
  std::vector<Chain> ChainsOf(const Op& loop) const;
  std::optional<Chain> ChainAt(const Op& loop, size_t carried) const;
  std::vector<OpId> ChainedProducts(const Op& loop, size_t carried) const;
  bool GoesOn(OpId dot) const;
  void PlanOperandRings();
  bool TakesLast(OpId dot, size_t channel) const;
  std::vector<size_t> GivenBackBy(OpId dot) const;
  std::vector<size_t> ReadBy(OpId dot) const;
  const Flight* Flying(ValueId v) const;
  void FlyOn(const std::vector<Chain>& chains, const std::vector<ValueId>& lands, ValueId when);
  Result<> ChainedTurns(const Op& op, const std::vector<size_t>& kept,
                        std::vector<ValueId> operands, std::vector<Type> types,
                        const std::vector<Chain>& chains);
  Again InFrontOfWait(const Op& loop) const;
  Halves Cut(const Op& at) const;
  void FindScalarsBehind(const Op& loop, Again& again) const;
  std::vector<OpId> LoadsBehind(const Op& loop) const;
  bool ComesEarly(OpId load) const;
  Result<std::vector<ValueId>> MadeAgain(const Again& again);
  Result<std::vector<ValueId>> LoadedEarly(const Again& again);
  size_t FlyingPast(OpId loop) const;
  ValueId GoOn(OpId dot, ValueId acc, ValueId* adds);
  void YieldChains(OpId loop, std::vector<ValueId>& values);

  // emit_dot.cc
  Result<> Dot_(OpId id);
  // Binds a finished product's result, from the instruction's layout to its class's.
  void Land(ValueId result, ValueId acc);
  // Awaits the oldest `count` products under way, once `made` are there.
  void Settle(size_t count, const std::vector<ValueId>& made = {});
  void FindFeeders();
  void FindFeeders(OpId dot, ValueId operand);
  void BeforeFeeder(OpId id);
  bool ConvertsFewBits(const Op& op) const;
  void SettleAll() { Settle(flights_.size()); }
  ValueId OperandBuffer(OpId dot, bool is_a);
  void StoreOperands(OpId dot);
  void StoreOperand(OpId dot, bool is_a);
  std::vector<ValueId> OperandSlots(OpId dot);
  std::vector<size_t> OperandRingsOf(OpId dot) const;
  bool OneSlot(OpId dot) const;
  void NextOperandSlots(OpId dot);

  const Function& in_;
  const Target& target_;
  const Uses uses_;  // of its values
  const SequentialOptions& options_;
  DiagSink& diags_;
  Plan plan_;
  Positions positions_;
  Function out_;
  Builder b_;
  std::map<ValueId, ValueId> map_;
  std::map<OpId, size_t> load_buffers_, store_buffers_;
  std::vector<OperandRing> operand_rings_;
  std::map<std::pair<OpId, bool>, size_t> operand_ring_of_;
  std::vector<Buffer> buffers_;
  std::vector<OpId> pending_;       // TMA loads queued for the next flush
  std::map<int, Scratch> scratch_;  // by role
  ValueId mbar_, phase_;
  int64_t cluster_ = 1;    // CTAs that the grid is made for
  ValueId cluster_rank_;   // of the role being emitted, i64
  std::set<OpId> shared_;  // loads of whose boxes each CTA of the cluster copies a part to all
  std::vector<Flight> flights_;  // oldest first
  // Elementwise ops that run slice by slice where their tile is stored, by store.
  std::map<OpId, std::set<OpId>> sliced_;
  std::set<OpId> deferred_;                                // all of them
  std::map<std::pair<ValueId, int64_t>, ValueId> slices_;  // made so far, of one store
  std::map<OpId, std::vector<Chain>> chains_;              // of the loops being emitted
  std::set<OpId> early_;       // loads that were made in front of their place
  bool plain_branch_ = false;  // inside arms of register arithmetic only
  int depth_ = 0;
  std::map<OpId, ValueId> halfway_;         // conversions that have come as far as f32
  std::map<OpId, std::set<OpId>> feeders_;  // ops that make register operands: of which products
  bool drains_ = false;  // the role being emitted has stores that nobody has awaited
  int parts_ = 1;        // of the role that copies them out, each for itself
  Part part_ = Part::kEverything;
  int roles_ = 1;  // compute roles
  int role_ = 0;   // the one being emitted
  bool sound_ = true;
  bool registers_full_ = false;
  std::vector<RoleNeeds> needs_;  // by compute role
  std::map<int64_t, Token> tokens_;
  std::map<int64_t, Pass> passes_;  // by token
  std::map<OpId, Exchange> exchanges_;
  std::optional<ChannelSet> channels_;
  std::vector<Ring> rings_;
  std::map<OpId, std::pair<size_t, size_t>> site_of_;  // (channel, site) by load
  std::map<OpId, size_t> channel_of_;                  // by load
  std::map<std::pair<int, OpId>, std::vector<size_t>> awaits_, releases_;  // by role and reader
  std::map<std::pair<int, BlockId>, std::vector<size_t>> arm_releases_;    // at the arm's beginning
};

}  // namespace tilec::ir
