// Everything that is decided of a kernel before an instruction is emitted, as one value.
//
//   tile function ─ planners (ir/lower/plan_*.cc) ─▶ ProgramPlan ─ emitter (ir/lower/emit_*.cc) ─▶
//   warp function
//
// The planners decide; the checker (ir/check_plan.h) judges without asking who decided; the emitter
// obeys. The plan is data over the ids of one tile function: it means nothing without that
// function, and the same function and options give the same plan. Its text form (ir/plan_text.h) is
// what `tilec build --emit=plan` prints and `--plan=FILE` reads.
//
// Invariants (each is a law of ir/plan_laws.def, with its own diagnostic):
//   1. the roles' warps are those of the CTA, and their quotas fit the register file;
//   2. every ring has a filler and a consumer, and a slot is released by one arrival for each warp
//      that reads it;
//   3. buffers that share bytes are not alive at the same time, and all lie in shared memory;
//   4. a product's result is awaited before it is read.
//
// Units: bytes, 32-bit registers of a thread, warps. Positions are those of ir/lower/buffers.h.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ir/function.h"
#include "ir/matrix_unit.h"

namespace tilec::ir {

// ---- tiles: where they lie and how products read them

struct OperandPlan {
  enum class How {
    kBuffer,    // the product reads the buffer its load fills
    kRegister,  // a 16-bit A operand straight from the accumulator layout
    kTensor,    // a 16-bit A operand that threads store to tensor memory, rows as lanes
    kStore,     // computed (or re-laid) tile, written to an own buffer before the product
  };
  How how = How::kStore;
  ValueId source;                 // the tile after stripping transposes and reshapes
  bool trans = false;             // buffer holds [K, M] resp. [K, N]: MN-major
  bool store_transposed = false;  // kStore: element (i, j) of source goes to (j, i)
  bool zero_padding = false;      // kStore: as LoadPlan
  SmemLayout smem;                // kStore
};

struct DotPlan {
  MatrixUnit unit = MatrixUnit::kNone;  // none: multiply-adds
  WgSplit split = WgSplit::kNone;
  int64_t across = 1;  // warps of a warpgroup side by side along N
  Layout acc;          // layout of the [M, N] result
  int64_t k_padded = 0;
  int64_t promote = 0;
  OperandPlan a, b;
  // In flight from its issue to a wait, reading shared memory meanwhile.
  bool flies() const {
    return unit != MatrixUnit::kNone && Info(unit).completion != Completion::kAtOnce;
  }
  // … to a wait for groups, its accumulator in registers.
  bool grouped() const { return flies() && Info(unit).completion == Completion::kGroups; }
};

struct LoadPlan {
  bool buffer = false;        // filled into shared memory for a product or for a re-layout
  bool tma = false;           // … by copies in flight; else by vector loads and smem_store
  bool registers = false;     // also (or only) needed in registers
  bool zero_padding = false;  // buffer cells outside the tile are read by a product: zero them once
  bool kept = false;          // read where it stands, and again below
  OpId shares;                // an equal load above it, whose buffer this one reads again
  int64_t chunk = 0;          // bytes that a thread copies at once (cp.async); 0: TMA does
  SmemLayout smem;
  // Copies only: which tensor dims are the buffer's rows and columns (−1: none).
  int row_dim = -1;
  int col_dim = -1;
  // Each CTA of a pair has one half of the tile, along this dim (−1: all of it).
  int half = -1;
  // Rows come in so many parts, of which each has every so many of them: 0, 2, 4 … in front of 1,
  // 3, 5 …
  int64_t every = 1;
  // Threads of the load role bring it into a ring, by loads and stores: no engine copies such rows.
  bool threads = false;
  Type Own(Type tile) const {  // what one CTA has of it
    if (half >= 0) tile.shape[static_cast<size_t>(half)] /= 2;
    return tile;
  }
};

// Of a store, or of an atomic that TMA makes (others have none).
struct StorePlan {
  bool tma = false;         // staged through shared memory, stored by TMA
  bool transposed = false;  // threads write what the stored transpose is made of
  SmemLayout smem;
  int row_dim = -1;
  int col_dim = -1;
};

// Layouts of values, by class, and routes of operands.
struct LayoutPlan {
  int warpgroups = 1;
  bool async_proxy = true;  // of the target: copies or products that a fence orders after threads
  int64_t threads() const { return 128 * warpgroups; }
  std::map<ValueId, Layout> layouts;  // every register tile of squeezed rank > 0
  std::map<OpId, DotPlan> dots;
  std::map<OpId, LoadPlan> loads;
  std::map<OpId, StorePlan> stores;
};

// ---- roles
// What one role executes of the function: derived from the marks of the ops.
struct RoleNeeds {
  std::set<OpId> ops;  // structure included
  std::set<ValueId> values;
};

struct PlannedRole {
  enum class Kind {
    kMain,      // the only role: the program in its own order
    kProducer,  // fills the rings: by TMA one elected thread of it, what threads bring all of them
    kCompute,   // whole warpgroups
    kIssuer,    // one elected thread of a warp issues the products of the compute roles
  };
  Kind kind = Kind::kMain;
  std::string name;
  int index = 0;  // among the compute roles
  int first_warp = 0, warps = 4;
  int64_t registers = 0;  // of a thread: the quota, a multiple of 8 (0: what the launch gives)
  bool turns = false;     // its warpgroups issue the products of an iteration in turns (turns.h)
  // Does it compute tiles? Others serve those that do: one warp each, or a warpgroup that loads.
  bool computes() const { return kind == Kind::kMain || kind == Kind::kCompute; }
};

// ---- rings, tokens, passes
// One place in the program where a ring is filled.
struct RingSite {
  // Of one compute role, in the loads' block: the op that reads first (last), or contains it.
  struct Readers {
    OpId first, last;
    bool operator==(const Readers&) const = default;
  };
  std::vector<OpId> loads;  // program order, one block
  std::map<int, Readers> readers;
  std::set<OpId> reads;  // the readers themselves, in whatever block
  int64_t bytes = 0;     // of a filling that is a part of the slot; 0: it is the ring's
  bool operator==(const RingSite&) const = default;
};

// Slots of shared memory between the producer, which fills them by TMA, and compute roles. A slot
// holds the tiles of all loads of a site; a full and an empty mbarrier stand beside each. Where
// loads of one iteration share a slot, sites around the loop may fill a part of it.
struct PlannedRing {
  // Several sites share a ring if they move tiles of the same tensor, type and layout and hold
  // them one after another: both sides walk the sites in the same order, so slots stay in step.
  std::vector<RingSite> sites;
  bool generic_reads = false;  // read by ordinary loads, not only by the tensor core
  bool in_loop = false;
  bool around = false;  // its loop contains another one with rings: one filling is enough
  int64_t bytes = 0;    // full boxes of one filling of a slot: what the full barrier expects
  int64_t BytesOf(const RingSite& site) const { return site.bytes > 0 ? site.bytes : bytes; }
  int64_t slots = 1;
  int64_t arrivals = 0;    // at the empty barrier: one for each warp that reads
  bool multicast = false;  // filled by all CTAs of the cluster: released to all of them
};

// `to` may not pass its op before `from` has passed its own: transfer c is one phase of barrier
// c mod slots.
struct OrderToken {
  int64_t id = 0;
  int from = 0, to = 0;
  int64_t slots = 0;
  int64_t arrivals = 0;  // one for each warp of `from`
};

inline constexpr int kLoadRole = -1;  // where compute roles are numbered

// Tiles from one compute role to another, through a ring that the threads of both fill and empty.
// Or a scalar that the load role steers by and only a compute role can know (producer_share.h).
struct PlannedPass {
  int64_t token = 0;
  int from = 0, to = 0;
  OpId put;  // one of its ops; of a scalar the one that makes it
  int64_t slots = 1;
  int64_t arrivals = 0;  // at either barrier: one for each warp of the compute role
  size_t buffer = 0;     // of ProgramPlan::buffers
  bool scalar() const { return to == kLoadRole; }
};

// Where CTAs of a cluster combine a tile.
struct PlannedExchange {
  OpId op;
  size_t buffer = 0;
  int64_t parts = 1;  // of a thread's registers: each CTA adds up one of them for all
  int64_t barriers = 0;
  int64_t arrivals = 0;  // of one CTA

  // A number that every CTA sends to all: its own barrier counts the bytes, and one thread arrives.
  bool sent(const Function& fn) const { return barriers == 1 && !fn.ops[op].attr("slices"); }
};

// Where threads put what they computed for products. Of several slots each product takes the
// next, so that those before may still read theirs.
struct OperandRing {
  std::vector<std::pair<OpId, bool>> operands;  // product; is it the left one?
  int64_t slots = 1;
  bool met = false;              // threads have met behind the product that read them last
  std::optional<size_t> buffer;  // of ProgramPlan::buffers
};

// ---- shared memory
struct PlannedBuffer {
  Type type;                   // kSmem; its depth is the number of slots
  std::string holds;           // for people: "A and B", "operand", "staging"
  bool cleared = false;        // zeroed once, before the roles part
  int owner = 0;               // the compute role; as many as there are roles: several of them
  int64_t begin = 0, end = 0;  // positions between which it is alive
  int64_t bytes = 0;           // of all slots
  int64_t offset = -1;         // −1: not placed yet
};

// ---- sums in tensor memory
// Products that add to one another in the same columns, with nothing between them (tensor_sums.h).
struct TensorSum {
  std::vector<OpId> dots;                      // in program order
  std::vector<std::pair<OpId, size_t>> loops;  // that carry it, and as which value
  std::vector<OpId> segments;                  // of its block, in order: products and such loops
  OpId first, last;                            // of the segments
  ValueId init;                                // what it begins with …
  bool from_zero = false;                      // … if that is not zeros
  ValueId result;                              // the tile that threads load
  std::set<ValueId> inside;                    // tiles that exist in tensor memory alone
  bool always = false;   // a product is made in any case; else where a loop has an iteration
  bool at_once = false;  // threads load it behind its last product, whoever reads it later
  // A loop carries it and changes it between its products (resident_sums.h): it stays where it is.
  struct Change {
    ValueId from;        // the value of the sum that is changed
    std::set<OpId> ops;  // elementwise work that is made for it, slice by slice
  };
  OpId home;                            // that loop; invalid: nothing changes it
  size_t carried = 0;                   // which of its values
  std::map<OpId, Change> changes;       // by the op that makes the next value
  std::optional<std::set<OpId>> entry;  // in front of the loop: what leads to `init`, likewise
  bool resident() const { return home.valid(); }
};

// A sum whose products a role of their own issues (kIssuer): columns for so many tiles, that the
// products of the next tile may run while threads still read this one. A commit fills a slot, and
// the threads of the compute role that loads the tile release it.
struct PlannedAccumulator {
  OpId product;  // the sum's first
  int64_t slots = 1;
  int64_t arrivals = 0;  // that release a slot: one for each warp of the compute role
};

// ---- products in flight
// A product of a loop that adds to what it made an iteration earlier, which nothing else reads: it
// need not be awaited before the next iteration's is issued.
struct PlannedChain {
  size_t carried = 0;         // which of the loop's values
  OpId dot;                   // of several that add to one accumulator in an iteration, the last
  bool from_zero = false;     // it begins with zeros
  std::vector<size_t> rings;  // whose slots its wait releases
};

// What is done in front of the wait for a loop's last products.
struct BeforeLastWait {
  std::vector<ValueId> read;  // scalars, made again, that are read behind the loop
  std::vector<OpId> ops;      // that make them, in order
  ValueId position;           // of the iteration of the loop around, from which they follow
  std::vector<OpId> loads;    // that stand behind the loop
};

// A loop around loops with rings, as its nest was solved (scheduler/nest.h).
struct PlannedNest {
  OpId loop;
  // Cycles of an iteration where iterations follow each other, and where each is alone.
  int64_t period = 0, alone = 0;
  int64_t iterations = 0;     // assumed of loops inside whose bounds do not say
  std::vector<size_t> rings;  // whose slots it decided: of the loads in its own body
};

struct PlannedLoop {
  std::vector<PlannedChain> chains;  // in the order in which their products are issued
  BeforeLastWait before_wait;        // where there are chains
};

// ---- epilogues
struct PlannedEpilogue {
  int64_t panels = 0;        // staging buffers of a store by panels; 0: it leaves as a whole
  bool drains = false;       // … and is awaited where it is made again, not at once
  OpId freed_at;             // … or in front of the meeting for what this product reads
  int64_t rows_of_part = 0;  // rows that each warpgroup copies out for itself; 0: all together
  bool by_slices = false;    // what leads to the store runs slice by slice where it stores
  int64_t slice_width = 0;   // columns of a slice
  std::set<OpId> sliced;     // ops that do (possibly none)
};

// ---- what was decided otherwise

// Of what the schedule said, and why.
struct PlannedChange {
  std::string what;  // "ring0.slots", "compute.registers"
  int64_t from = 0, to = 0;
  std::string why;  // words joined by '_'
};

// ---- all of it
struct ProgramPlan {
  LayoutPlan tiles;
  bool specialized = false;  // has a producer role
  std::vector<PlannedRole> roles;
  int compute_roles = 1;
  int warps = 4;        // of the CTA
  int64_t cluster = 1;  // CTAs that the program needs to be launched together
  bool pair = false;    // they are two, and make products together: the first one's issuer for both

  std::vector<PlannedRing> rings;
  std::map<int64_t, OrderToken> tokens;
  std::map<int64_t, PlannedPass> passes;  // by token
  std::map<OpId, PlannedExchange> exchanges;
  std::vector<OperandRing> operand_rings;
  std::vector<PlannedAccumulator> accumulators;  // none: compute roles issue their own products
  std::vector<PlannedBuffer> buffers;            // in the order in which they are allocated
  std::map<OpId, size_t> load_buffers;           // of buffers
  std::map<OpId, size_t> store_buffers;          // the first of a store's
  std::set<OpId> multicast;   // loads of whose boxes each CTA of the cluster copies a part to all
  bool copy_barrier = false;  // TMA loads outside of rings, awaited where they are issued

  std::map<std::pair<int, OpId>, PlannedLoop> loops;  // by compute role
  std::vector<PlannedNest> nests;                     // inner ones first
  std::map<OpId, PlannedEpilogue> epilogues;          // by store
  bool early_loads = false, slice_epilogues = false;  // what was chosen, for the reader
  bool joined_rings = false;  // likewise: loads of an iteration share slots, whoever reads them
  std::set<std::pair<int, OpId>> goes_on;  // products that continue with the accumulator of the
                                           // product in front of them, still in flight

  // By compute role and reader: rings whose slot is awaited in front of it, released behind it.
  std::map<std::pair<int, OpId>, std::vector<size_t>> awaits, releases;
  std::map<std::pair<int, BlockId>, std::vector<size_t>> arm_releases;  // at the arm's beginning

  std::vector<PlannedChange> changed;

  // Known once the program is emitted: what lies behind the buffers.
  int64_t scratch_bytes = 0, barriers_at = 0, smem_bytes = 0;

  // Derived from the function and the above; not part of the text.
  std::vector<RoleNeeds> needs;            // by compute role
  std::set<ValueId> control;               // scalars that the producer recomputes
  std::set<OpId> structure;                // loops and branches that it walks
  std::map<OpId, std::set<OpId>> feeders;  // ops that make register operands: of which products
  std::set<OpId> deferred;                 // ops of all `sliced`
  std::map<OpId, std::pair<size_t, size_t>> site_of;        // (ring, site) by load
  std::map<std::pair<OpId, bool>, size_t> operand_ring_of;  // by product and side
  std::vector<TensorSum> sums;                              // in program order
  std::map<OpId, size_t> sum_of;                            // by product
  std::map<OpId, size_t> change_of;                         // by op: which sum it changes
  std::map<std::pair<int, size_t>, int64_t> sum_columns;    // by role and sum: its first column
  std::map<std::pair<int, OpId>, int64_t> operand_columns;  // by role and product: of kTensor
  // … and of scales, of the left operand and of the right one.
  std::map<std::pair<int, OpId>, std::pair<int64_t, int64_t>> scale_columns;
  int64_t tensor_columns = 0;  // that all of these take
  bool tensor_meets = false;   // warpgroups meet before they store there: others had the columns
  // Where a role of its own issues the products:
  std::map<size_t, size_t> accumulator_of;  // by sum, of `accumulators`
  std::map<size_t, int> sum_for;            // by such a sum: the compute role that loads it
  std::set<OpId> issued;            // its products and loops of nothing else: not of compute roles
  std::set<ValueId> issue_control;  // scalars that the issuer recomputes
  std::set<OpId> issue_structure;   // loops and branches that it walks

  int warps_per_role() const { return 4 * tiles.warpgroups; }
  int load_warps() const;  // of the load role; 0: there is none
  bool HasIssuer() const { return !accumulators.empty(); }
  // The compute role that executes the products of a sum; −1: none does, or several.
  int RoleOfSum(const TensorSum& sum) const;
  // Does the compute role execute the op?
  bool Executes(int role, OpId op) const {
    return needs[static_cast<size_t>(role)].ops.count(op) > 0;
  }
  // Are its slots released by commits of products alone?
  bool ReleasedByCommit(const PlannedRing& ring) const;
  // Is it staged until something reads it (a row kept in shared memory)?
  bool KeepsUntilRead(OpId load) const;
  // The rings whose slots the instructions of a product read.
  std::vector<size_t> RingsReadBy(const Function& fn, OpId dot) const;
  std::vector<size_t> OperandRingsOf(OpId dot) const;
  // Have threads met since a product read the bytes of its operands last?
  bool MetBefore(OpId dot) const;
  // Must all products be done before one of its operands is written?
  bool OneSlot(OpId dot) const;
};

}  // namespace tilec::ir
