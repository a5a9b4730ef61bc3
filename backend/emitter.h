// Warp IR to LLVM IR. One Emitter per function; its methods are spread over emit_*.cc by subject.
//
// A tile is a vector of LLVM values, one per register of its layout (a scalar: one value). Elements
// are i1 (bool), integers, float (f32, tf32), double, and bits for narrow floats: i16 for f16 and
// bf16, i8 for fp8. Narrow elements travel packed in 32-bit words wherever they cross a loop,
// memory or a tensor-core instruction (Pack / Unpack); LLVM folds the rest of the packing away.
// Shared-memory buffers and mbarriers are i32 shared addresses, counters are allocas of i32.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/ptx_asm.h"
#include "ir/layout_scratch.h"

namespace tilec::backend {

using Regs = std::vector<llvm::Value*>;

// What a thread knows of a layout: the thread part of each coordinate (i32) and whether it is the
// first of its replicas (null: always).
struct ThreadPart {
  std::vector<llvm::Value*> coord;
  std::vector<int64_t> max;  // largest value of coord[d]
  llvm::Value* first_replica = nullptr;
};

// The role being emitted. Values of `anchor`'s block dominate everything in the role.
struct RoleState {
  int first_warp = 0;
  int warps = 0;
  int barrier = 0;  // named barrier of the role's own synchronisation
  llvm::Instruction* anchor = nullptr;
  llvm::Value* thread = nullptr;  // i32, from the role's first thread
  llvm::Value* warp = nullptr;    // i32, uniform, from the role's first warp; made on demand
  llvm::Value* elected = nullptr;
  llvm::Value* elected_in_warp = nullptr;          // i1, made on demand
  llvm::Value* lane_in_cluster = nullptr;          // i1: lanes that stand for a CTA of the cluster
  std::map<int32_t, llvm::Value*> barriers_there;  // by mbar: its address in the CTA of the lane
  std::map<int32_t, ThreadPart> parts;             // by LayoutId
  // By number of parts: which one this warp is in, and whether this thread is elected there.
  std::map<int, llvm::Value*> part_of, elected_in_part;
};

// A tensor as threads address it.
struct TensorView {
  llvm::Value* base = nullptr;       // i64
  std::vector<llvm::Value*> extent;  // i64
  std::vector<llvm::Value*> stride;  // i64, elements
};

// Row-major panels in shared memory (ir::SmemLayout, or scratch with a pitch of its own).
struct PanelView {
  llvm::Value* base = nullptr;  // i32
  int64_t element_bytes = 1;
  int64_t panel_cols = 1;
  int64_t panel_bytes = 0;
  int64_t pitch = 0;  // bytes from row to row
  int swizzle = 0;
  int64_t align = 16;  // of base, bytes, as far as that is known
};

// Registers of a tile that are neighbours in memory: one access.
struct MemGroup {
  std::vector<int> regs;
  int64_t row = 0, col = 0;  // register part of the 2-D coordinate
};

// How a tile's registers lie in a 2-D buffer.
struct MemPlan {
  std::vector<MemGroup> groups;
  int vector = 1;              // elements per access
  llvm::Value* row = nullptr;  // thread parts, i32
  llvm::Value* col = nullptr;
  llvm::Value* col_panel = nullptr;  // part of col made of whole panels (in panels), or null
  llvm::Value* col_inner = nullptr;  // the rest
  int64_t col_inner_max = 0;
  bool carries = false;  // col_inner + register part may cross a panel
};

struct SharedOperand;  // shared_operand.h

// What a reduction or a scan of such elements sums up in.
ir::DType AccumulatorOf(ir::DType d);

class Emitter {
 public:
  Emitter(const ir::Function& fn, const SourceMap& sources, const BackendOptions& options,
          DiagSink& diags, llvm::LLVMContext& context);

  Result<void> Run();  // fills module() and image()
  llvm::Module& module() { return *module_; }
  KernelImage& image() { return image_; }

 private:
  // emit_signature.cc, emit_function.cc: entry, how a grid begins, dispatch
  void CollectUses();
  void AddTensorArg(const ir::Param& p);
  TensorMapRecipe RecipeOf(const ir::TensorMapInfo& info) const;
  void BuildSignature();
  void Declare();
  void DeclareLines();
  llvm::Value* EntryInt(const Expr& e);  // i64: constant or entry parameter
  Result<void> EmitBody();
  Result<void> EmitBlock(ir::BlockId block);  // up to its yield
  Result<void> EmitOp(ir::OpId id);
  Result<void> EmitAssert(const ir::Op& op);
  void BeginBesideOthers();
  void AwaitGridBefore();
  llvm::BasicBlock* NewBlock(const char* name);
  // emit_roles.cc
  Result<void> EmitRoles(const std::vector<ir::OpId>& roles);
  Result<void> EmitRole(const ir::Op& op, const RoleState& outer, std::vector<int>* taken);
  Result<void> EmitElect(const ir::Op& op);
  RoleState NewRole(int first_warp, int warps, int barrier);
  // emit_control.cc, emit_carried.cc, emit_uniform.cc, emit_counters.cc
  std::vector<ir::ValueId> Yields(ir::BlockId block) const;
  Result<void> EmitFor(const ir::Op& op);
  Result<void> EmitForLoop(const ir::Op& op);
  bool InitialUnread(const ir::Op& loop, size_t carried) const;
  bool Outlived(const ir::Op& loop, size_t carried) const;
  Regs AtEnd(const ir::Op& loop, size_t carried, Regs words);
  bool HasLoop(ir::BlockId block) const;
  void KeepInvariants(llvm::BranchInst* latch);
  bool ManyDescriptors(ir::BlockId turn) const;
  Result<void> EmitWhile(const ir::Op& op);
  void KeepInArm(ir::BlockId arm);
  Result<void> EmitIf(const ir::Op& op);

  // emit_values.cc: types, packing, layouts
  llvm::Type* ElementType(ir::DType d);
  const Regs& Get(ir::ValueId v);
  llvm::Value* Scalar(ir::ValueId v) { return Get(v)[0]; }
  void Set(ir::ValueId v, Regs regs);
  // Values as they cross control flow or asm: narrow elements in i32 words.
  // On a matrix unit.
  bool HasProducts() const;
  Regs Pack(const Regs& elements, ir::DType d);
  Regs Unpack(const Regs& words, ir::DType d, size_t count);
  // Neighbouring elements as the fewest memory words (i32 …, or one i16 or i8); bools as bytes.
  Regs ToMemory(const Regs& elements, ir::DType d);
  Regs FromMemory(const Regs& words, ir::DType d, size_t count);
  llvm::Value* Zero(ir::DType d);
  llvm::Value* I32(int64_t v) { return b_.getInt32(static_cast<uint32_t>(v)); }
  llvm::Value* I64(int64_t v) { return b_.getInt64(static_cast<uint64_t>(v)); }
  const ThreadPart& Part(ir::LayoutId id);
  ThreadPart MakePart(const ir::Layout& layout);
  llvm::Value* Digit(llvm::Value* thread, int64_t place, int64_t extent, int64_t threads);
  // i1 (null: always): the element of register `reg` lies inside the shape.
  llvm::Value* Inside(ir::ValueId tile, int64_t reg);
  llvm::Value* And(llvm::Value* a, llvm::Value* b);  // null: true
  // from_dim[i]: dim of `to` that dim i of `from` follows, −1: coordinate 0.
  std::vector<int> Follow(const ir::Layout& from, const std::vector<int64_t>& from_shape,
                          const ir::Layout& to, const std::vector<int64_t>& to_shape,
                          const std::vector<int>& from_dim);
  bool NonNegative(ir::ValueId v, int depth = 0) const;
  // emit_uniform.cc: what steers a loop or branch, said to be one number where it comes from data.
  llvm::Value* SameInAllLanes(const ir::Op& steered, ir::ValueId scalar);
  std::optional<int64_t> AtMost(ir::ValueId v, int depth = 0) const;
  bool IsNarrow(const ir::Op& loop) const;

  // emit_integers.cc
  void EmitIntegers(const ir::Op& op);
  bool IsCount(ir::ValueId v) const;
  bool ShiftsWithin(const ir::Op& op) const;
  llvm::Value* IntBinary(ir::OpKind kind, llvm::Value* x, llvm::Value* y, ir::DType d);
  llvm::Value* IntUnary(ir::OpKind kind, llvm::Value* x, ir::DType d);
  // emit_elementwise.cc, emit_cast.cc, emit_math.cc
  Result<void> EmitConstant(const ir::Op& op);
  llvm::Value* ScaledSum(llvm::Value* scaled, llvm::Value* sum);
  Result<void> EmitElementwise(const ir::Op& op);
  Result<void> EmitFloats(const ir::Op& op);
  llvm::Value* ConstantOf(ir::DType d, const ir::AttrValue& value);
  Regs ToF32(const Regs& a, ir::DType d);
  Regs FromF32(const Regs& a, ir::DType d);
  bool LosesNothing(ir::ValueId v, ir::DType to) const;
  Regs FewBits(const Regs& a, ir::DType from, ir::DType to);
  // `exact`: integers that f32 holds (LosesNothing).
  Regs Cast(const Regs& a, ir::DType from, ir::DType to, bool exact = false);
  llvm::Value* CastOne(llvm::Value* a, ir::DType from, ir::DType to);
  llvm::Value* FloatToInt(llvm::Value* a, ir::DType from, ir::DType to);
  llvm::Value* OddRounded(llvm::Value* a, ir::DType from);
  llvm::Value* FloatBinary(ir::OpKind kind, llvm::Value* x, llvm::Value* y);
  Regs InPairs(ir::OpKind kind, const Regs& x, const Regs& y, ir::DType d);
  Regs Quotients(const Regs& x, const Regs& y);
  Regs OrdinaryQuotients(const Regs& x, const Regs& y);
  Regs SeldomScaled(const Regs& x, const Regs& y);
  bool RoundedTwice(ir::ValueId difference);
  // nullptr: no such function for f64.
  bool RoundedAway(ir::ValueId v) const;
  llvm::Value* FloatUnary(ir::OpKind kind, llvm::Value* x, bool f64);
  llvm::Value* Compare(const std::string& pred, llvm::Value* x, llvm::Value* y, ir::DType d);
  llvm::Value* F32(double v);
  llvm::Value* Fma(llvm::Value* x, llvm::Value* y, llvm::Value* z);
  llvm::Value* Poly(llvm::Value* x, const double* coefficients, int count);  // highest first
  llvm::Value* MathExp(llvm::Value* x);
  llvm::Value* MathTanh(llvm::Value* x);
  llvm::Value* MathErf(llvm::Value* x);
  llvm::Value* MathSinCos(llvm::Value* x, bool cosine);

  // emit_access.cc, emit_global.cc
  struct Access;
  struct MemPlace {
    llvm::Value* address;
    int64_t offset;
    llvm::Value* predicate;  // null: always
  };
  MemPlace PlaceOf(Access& access, ir::ValueId tile, int64_t reg);
  std::pair<llvm::Value*, llvm::Value*> PlaceInBox(const Access& access, size_t d, int64_t at);
  void EmitPairs(const ir::Op& even, const ir::Op& odd);
  bool GoesInPairs(const ir::Op& op);
  llvm::Value* WholeInside(const Access& access, ir::ValueId tile,
                           const std::vector<std::vector<int>>& groups);
  Result<void> EmitGLoad(const ir::Op& op);
  Result<void> EmitGStore(const ir::Op& op);
  Result<void> EmitStore(const ir::Op& op);
  // emit_atomic.cc, emit_exchange.cc
  Result<void> EmitGAtomic(const ir::Op& op);
  struct AtomicForm {
    std::string what, type;
    char letter;  // of its operand's registers
  };
  void AtomicAs(const AtomicForm& form, llvm::Value* value, const MemPlace& place,
                llvm::Value** found);
  void AtomicFloatBound(bool max, llvm::Value* value, MemPlace place);
  Result<void> AtomicOne(const ir::Op& op, ir::DType d, llvm::Value* value, const MemPlace& place,
                         llvm::Value** found = nullptr);
  llvm::Value* Exchange16(const std::string& kind, ir::DType d, llvm::Value* value,
                          const MemPlace& place);
  void ShareReplicas(ir::ValueId tile, int64_t scratch);
  // emit_counters.cc
  std::vector<ir::OpId> CountersAround(const ir::Op& loop);
  void ZeroCounters(const ir::Op& loop);
  Result<void> AddCounters(const ir::Op& loop);
  void EmitCounted(const ir::Op& op);
  // emit_rows.cc
  struct RowPlace;
  struct RowAccess;
  RowPlace PlaceOfRows(const ir::Op& op);
  std::vector<RowAccess> RowAccesses(const RowPlace& place, ir::ValueId tile);
  void CopyRows(const RowPlace& place, bool out);
  void FillRows(const RowPlace& place, llvm::Value* fill);
  Result<void> EmitLoadRows(const ir::Op& op);
  Result<void> EmitStoreRows(const ir::Op& op);
  Regs InsideOrEdge(llvm::Value* inside, const ir::Type& type, const std::function<Regs()>& whole,
                    const std::function<Regs()>& edge);
  // emit_shifted.cc
  struct ShiftedPlace;
  Regs ShiftWords(Regs words, llvm::Value* skew, int64_t element_bytes);
  llvm::Value* EndOf(const TensorView& view, int64_t element_bytes);
  Regs LoadShiftedGroups(const ir::Op& op, Access access,
                         const std::vector<std::vector<int>>& groups, llvm::Value* fill,
                         bool goes_on);
  Result<void> EmitShiftedLoad(const ir::Op& op);
  // emit_slid.cc
  struct SlidPlace;
  SlidPlace PlaceOfSlid(const ir::Op& op, ir::ValueId tile);
  llvm::Value* SlidWhole(const SlidPlace& place, int64_t reg, int64_t elements, int64_t least);
  std::pair<llvm::Value*, llvm::Value*> SlidElement(const SlidPlace& place, int64_t at);
  Regs LoadSlidGroups(const SlidPlace& place, const std::vector<std::vector<int>>& groups,
                      llvm::Value* fill, int64_t least, llvm::Value* aligned);
  void StoreSlidGroups(const SlidPlace& place, const std::vector<std::vector<int>>& groups,
                       int64_t least, llvm::Value* aligned);
  Result<void> EmitSlidLoad(const ir::Op& op);
  Result<void> EmitSlidStore(const ir::Op& op);
  Result<void> EmitScalarAccess(const ir::Op& op);
  Access MakeAccess(const ir::Op& op, ir::ValueId tile, size_t first_index, bool has_end);
  PtxInst LoadInst(const ir::Op& op) const;
  Regs LoadGlobal(llvm::Value* address, int64_t offset, llvm::Value* predicate, const Regs& fill,
                  ir::DType d, PtxInst inst = PtxInst::kLdGlobal);
  void StoreGlobal(llvm::Value* address, int64_t offset, llvm::Value* predicate,
                   const Regs& elements, ir::DType d, PtxInst inst = PtxInst::kStGlobal);

  // emit_smem.cc
  llvm::Value* SmemAddress(int64_t offset);
  llvm::Value* SlotAddress(const ir::Op& op, size_t smem, size_t slot);
  llvm::Value* SharedPointer(llvm::Value* address, int64_t offset);
  PanelView View(ir::ValueId smem, llvm::Value* base);
  MemPlan PlanAccess(const ir::Layout& layout, const ThreadPart& part,
                     const std::vector<int64_t>& shape, const PanelView& view, bool transposed);
  // Address (i32) and constant offset of each group.
  std::vector<std::pair<llvm::Value*, int64_t>> Addresses(const MemPlan& plan,
                                                          const PanelView& view);
  llvm::Value* ElementAddress(const PanelView& view, llvm::Value* row, llvm::Value* col);
  // What the swizzle adds by XOR to a byte of this row.
  llvm::Value* SwizzleBits(const PanelView& view, llvm::Value* row);
  void StoreTile(ir::ValueId tile, const PanelView& view, bool transposed);
  bool StoreMatrix(ir::ValueId tile, const PanelView& view, bool transposed);
  Regs LoadTile(const ir::Type& type, ir::LayoutId layout, const PanelView& view, bool transposed);
  Result<void> EmitSmemStore(const ir::Op& op);
  Result<void> EmitSmemLoad(const ir::Op& op);
  Result<void> EmitSmemZero(const ir::Op& op);

  // emit_layout.cc, emit_reduce.cc
  Result<void> EmitQuadExchange(const ir::Op& op);
  Result<void> EmitConvert(const ir::Op& op);
  Result<void> EmitBroadcast(const ir::Op& op);
  Result<void> EmitRename(const ir::Op& op);
  Result<void> EmitColumns(const ir::Op& op);  // transpose, reshape
  Result<void> EmitIota(const ir::Op& op);
  struct Item;
  struct Reduction;
  Item Better(const Reduction& of, Item x, Item y);
  std::vector<Item> ReduceInThread(const Reduction& of, const ir::ReducePlan& plan);
  void ReduceInWarp(const Reduction& of, const ir::ReducePlan& plan, std::vector<Item>* items);
  void ReduceIfAbove(const ir::ReducePlan& plan, const Regs& guard, std::vector<Item>* items);
  void SetReduced(const Reduction& of, const std::vector<Item>& all);
  Result<void> EmitReduce(const ir::Op& op);
  llvm::Value* Combine(const std::string& kind, ir::DType acc, llvm::Value* u, llvm::Value* v);
  llvm::Value* Identity(const std::string& kind, ir::DType acc);
  // emit_scan.cc, emit_rearrange.cc
  struct Scan;
  Result<void> EmitScan(const ir::Op& op);
  Result<void> EmitRearrange(const ir::Op& op);
  // emit_meeting.cc
  bool MeetsLate();
  void EmitClusterSync();
  void AwaitCluster();
  // emit_cluster.cc
  struct ClusterSum;
  Result<void> EmitClusterReduce(const ir::Op& op);
  void EmitPushed(const ir::Op& op);
  std::pair<llvm::Value*, llvm::Value*> ReplicaAndHolder(const ir::Layout& layout);
  llvm::Value* Combined(const std::string& kind, ir::DType d, llvm::Value* x, llvm::Value* y);
  void ReleaseToCluster(llvm::Value* barriers, int64_t number);
  void AcquireOfCluster(llvm::Value* barriers, int64_t number);
  llvm::Value* Shuffle(llvm::Value* v, int64_t lane_xor);

  // emit_cp_async.cc
  struct CopyPlace;
  CopyPlace PlaceOfCopy(const ir::Op& op);
  Result<void> EmitCpLoad(const ir::Op& op);

  // emit_async.cc
  void RoleBarrier(int id = -1);
  llvm::Value* PartOfRole(int parts);
  void PartBarrier(int first_id, int parts);
  llvm::Value* ElectedInPart(int parts);
  void EmitTurn(const ir::Op& op);
  llvm::Value* MbarAddress(const ir::Op& op, size_t mbar, size_t slot);
  llvm::Value* IsLeader();
  llvm::Value* AtLeader(llvm::Value* address);
  void ArriveIf(const ir::Op& op, llvm::Value* when);
  llvm::Value* Elected();
  llvm::Value* ElectedInWarp();
  llvm::Value* OneLane();
  void ArriveInCluster(const ir::Op& op, llvm::Value* when);
  llvm::Value* Warp();
  void EmitStamp(const ir::Op& op);
  void EmitMbarWait(const ir::Op& op);
  void EmitPin(const ir::Op& op);
  void EmitCodeFence();
  void EmitTma(const ir::Op& op);
  Result<void> EmitAsync(const ir::Op& op);

  // emit_mma.cc, emit_wgmma.cc, emit_mma_sync.cc
  Result<void> EmitMma(const ir::Op& op);
  struct WgmmaPlan;
  Result<WgmmaPlan> PlanWgmma(const ir::Op& op);
  llvm::Value* LowWord(const SharedOperand& o, llvm::Value* address, llvm::Value* wg,
                       int64_t per_warpgroup, int64_t depth);
  Result<void> EmitWgmma(const ir::Op& op);
  // tensor memory
  Result<void> EmitTensorMemory(const ir::Op& op);
  Result<void> EmitTmemAlloc(const ir::Op& op);
  Result<void> EmitTmemFree(const ir::Op& op);
  Result<void> EmitTcMma(const ir::Op& op);
  Result<void> EmitTmemLoad(const ir::Op& op);
  Result<void> EmitTmemStore(const ir::Op& op);
  Result<void> EmitScaledMma(const ir::Op& op);
  Result<void> EmitTmemScales(const ir::Op& op);
  template <typename F>
  void FirstWarp(F&& body);
  template <typename F>
  void TensorPieces(const ir::Op& op, llvm::Value* base, const ir::Type& tile, int64_t most,
                    F&& body);
  Result<void> EmitMmaTied(const ir::Op& op);  // fence, wait
  Result<void> EmitMmaCommit();
  struct Fragments;
  Fragments FragmentsOf(const ir::Op& op, size_t operand, size_t slot, bool mn_major,
                        llvm::Value* outer, int64_t reach);
  llvm::Value* FragmentPlace(const Fragments& of, int64_t mn, int64_t k);
  Regs LoadFragments(Fragments& of, int64_t mn, int64_t k, int count);
  int64_t WarpsSideBySide(const ir::Op& op);
  Result<void> EmitMmaSync(const ir::Op& op);
  std::vector<Regs> ScaleWords(const ir::Op& op, size_t operand, int dim);
  struct SimtOperand;
  std::map<int64_t, Regs> LoadAlongK(const SimtOperand& of, llvm::Value* at, int64_t unroll,
                                     ir::DType d);
  Result<void> EmitSimtDot(const ir::Op& op);

  Reported Unsupported(const ir::Op& op, const std::string& what);

  const ir::Function& fn_;
  const SourceMap& sources_;
  const BackendOptions& options_;
  DiagSink& diags_;
  llvm::LLVMContext& context_;
  std::unique_ptr<llvm::Module> module_;
  llvm::IRBuilder<> b_;
  KernelImage image_;
  llvm::Function* function_ = nullptr;
  llvm::GlobalVariable* smem_ = nullptr;
  llvm::Instruction* allocas_ = nullptr;  // allocas go before this
  std::vector<Regs> values_;              // by ValueId
  bool seldom_known_ = false;
  std::set<int32_t> rounded_twice_;                 // by ValueId
  std::map<int32_t, TensorView> tensors_;           // by ValueId of the parameter
  std::map<std::string, llvm::Value*> entry_ints_;  // by expression text
  std::vector<Expr> entry_exprs_;
  std::set<int32_t> thread_tensors_;           // tensors that threads address
  std::set<int32_t> used_;                     // values some op reads
  int64_t code_fences_ = 0;                    // so far
  std::vector<std::function<void()>> unread_;  // parts of reductions that share a barrier
  std::vector<llvm::Value*> maps_;             // i64 generic address of each tensor map
  RoleState role_;
  PtxInst loads_ = PtxInst::kLdGlobal;   // how the last op that loads reads its tensor
  PtxInst stores_ = PtxInst::kStGlobal;  // how the op at hand writes its own
  bool describe_anew_ = false;           // operands of products, in every iteration
  bool awaited_grid_ = false;            // the grid before this one in its stream
  std::optional<bool> meets_late_;
  bool arrived_ = false;                     // at the first meeting of a cluster, not waited yet
  std::vector<std::pair<int, int>> waited_;  // by roles that wait: first warp, warps
  llvm::Value* part_ = nullptr;              // of the role, whose elected thread is being emitted
  llvm::DIScope* scope_ = nullptr;
};

}  // namespace tilec::backend
