// The function as a whole: entry parameters, roles, structured control flow, dispatch.
//
// SPDX-License-Identifier: Apache-2.0
#include <llvm/BinaryFormat/Dwarf.h>
#include <llvm/IR/DIBuilder.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsNVPTX.h>

#include <algorithm>

#include "backend/diagnostics.h"
#include "backend/emitter.h"
#include "support/check.h"

namespace tilec::backend {

using ir::OpKind;

Emitter::Emitter(const ir::Function& fn, const SourceMap& sources, const BackendOptions& options,
                 DiagSink& diags, llvm::LLVMContext& context)
    : fn_(fn),
      sources_(sources),
      options_(options),
      diags_(diags),
      context_(context),
      module_(std::make_unique<llvm::Module>("tilec", context)),
      b_(context),
      values_(static_cast<size_t>(fn.values.size())) {}

Reported Emitter::Unsupported(const ir::Op& op, const std::string& what) {
  return diags_.Report(kUnsupported, op.at, what, options_.target);
}

llvm::BasicBlock* Emitter::NewBlock(const char* name) {
  return llvm::BasicBlock::Create(context_, name, function_);
}

Result<void> Emitter::Run() {
  CollectUses();
  BuildSignature();
  Declare();
  TRY_VOID(EmitBody());
  return Done();
}

RoleState Emitter::NewRole(int first_warp, int warps, int barrier) {
  RoleState role;
  role.first_warp = first_warp;
  role.warps = warps;
  role.barrier = barrier;
  return role;
}

Result<void> Emitter::EmitBody() {
  llvm::BasicBlock* entry = NewBlock("entry");
  llvm::BasicBlock* body = NewBlock("body");
  b_.SetInsertPoint(entry);
  llvm::Instruction* end = b_.CreateBr(body);
  b_.SetInsertPoint(end);
  allocas_ = end;
  for (size_t i = 0; i < image_.params.size(); ++i) {
    llvm::Value* arg = function_->getArg(static_cast<unsigned>(i));
    const EntryParam& p = image_.params[i];
    switch (p.kind) {
      case EntryParam::Kind::kTensorMap:
        maps_.push_back(b_.CreatePtrToInt(arg, b_.getInt64Ty()));
        break;
      case EntryParam::Kind::kTensorPointer: {
        TensorView& view = tensors_[fn_.param(p.name)->value.index];
        view.base = arg;
        break;
      }
      case EntryParam::Kind::kInt: entry_ints_[ToText(p.value)] = arg; break;
      case EntryParam::Kind::kScalar: {
        const ir::Param* param = fn_.param(p.name);
        llvm::Value* v = arg;
        if (fn_.type(param->value).dtype == ir::DType::kBool)
          v = b_.CreateICmpNE(arg, llvm::ConstantInt::get(arg->getType(), 0));
        Set(param->value, {v});
        break;
      }
    }
  }
  for (const ir::Param& p : fn_.params) {
    if (p.kind == ir::ParamKind::kDim && used_.count(p.value.index))
      Set(p.value, {EntryInt(Expr::Name(p.name))});
    if (p.kind == ir::ParamKind::kScalar && fn_.statics.count(p.name)) {
      const ir::DType d = fn_.type(p.value).dtype;
      Set(p.value, {ConstantOf(d, ir::AttrValue(fn_.statics.at(p.name)))});
    }
    if (p.kind != ir::ParamKind::kTensor || !thread_tensors_.count(p.value.index)) continue;
    TensorView& view = tensors_[p.value.index];
    const int64_t rank = static_cast<int64_t>(p.dims.size());
    for (int64_t d = 0; d < rank; ++d) {
      view.extent.push_back(EntryInt(p.dims[static_cast<size_t>(d)]));
      if (d == rank - 1 && p.facts.last_contiguous)
        view.stride.push_back(I64(1));
      else
        view.stride.push_back(EntryInt(Expr::Name(p.name + ".stride" + std::to_string(d))));
    }
  }

  role_ = NewRole(0, fn_.launch.warps, 0);
  role_.anchor = end;
  const int64_t threads = int64_t{32} * fn_.launch.warps;
  llvm::CallInst* tid =
      b_.CreateIntrinsic(b_.getInt32Ty(), llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x, {});
  tid->addRangeRetAttr(
      llvm::ConstantRange(llvm::APInt(32, 0), llvm::APInt(32, static_cast<uint64_t>(threads))));
  role_.thread = tid;
  b_.SetInsertPoint(body);
  BeginBesideOthers();
  TRY_VOID(EmitBlock(fn_.body));
  b_.CreateRetVoid();
  return Done();
}

std::vector<ir::ValueId> Emitter::Yields(ir::BlockId block) const {
  const std::vector<ir::OpId>& ops = fn_.blocks[block].ops;
  if (ops.empty() || fn_.ops[ops.back()].kind != OpKind::kYield) return {};
  return fn_.ops[ops.back()].operands;
}

Result<void> Emitter::EmitBlock(ir::BlockId block) {
  const std::vector<ir::OpId>& ops = fn_.blocks[block].ops;
  for (size_t i = 0; i < ops.size(); ++i) {
    const ir::Op& op = fn_.ops[ops[i]];
    if (op.kind == OpKind::kYield) break;
    if (scope_)
      b_.SetCurrentDebugLocation(
          llvm::DILocation::get(context_, static_cast<unsigned>(ops[i].index + 1), 0, scope_));
    if (op.kind == OpKind::kRole) {
      std::vector<ir::OpId> roles;
      for (; i < ops.size() && fn_.ops[ops[i]].kind == OpKind::kRole; ++i) roles.push_back(ops[i]);
      --i;
      AwaitGridBefore();
      TRY_VOID(EmitRoles(roles));
      continue;
    }
    TRY_VOID(EmitOp(ops[i]));
  }
  return Done();
}

namespace {

// Does the op set up shared memory, or compute scalars of parameters? Nothing that another grid
// writes is read, nor anything written that it may read.
bool IsSetUp(const ir::Function& fn, ir::OpId id) {
  const ir::Op& op = fn.ops[id];
  switch (op.kind) {
    case OpKind::kSmemAlloc:
    case OpKind::kSmemZero:
    case OpKind::kMbarAlloc:
    case OpKind::kMbarInit:
    case OpKind::kFenceMbarInit:
    case OpKind::kFenceAsync:
    case OpKind::kCtaSync:
    case OpKind::kClusterSync:
    case OpKind::kClusterRank:
    case OpKind::kConstant:
    case OpKind::kProgramId:
    case OpKind::kYield: return true;
    case OpKind::kElect: break;
    default: return ir::Info(op.kind).elementwise();
  }
  const std::vector<ir::OpId>& inner = fn.blocks[op.regions[0]].ops;
  return std::all_of(inner.begin(), inner.end(), [&](ir::OpId i) { return IsSetUp(fn, i); });
}

}  // namespace

// A grid may begin while the one before it in its stream ends (programmatic dependent launch): CTAs
// start, fetch tensor maps and set up barriers where SMs have become free. What is in
// memory they touch only once that grid is over and its writes are seen. And the next grid may
// begin likewise, as soon as all CTAs of this one have.
void Emitter::BeginBesideOthers() {
  const bool pdl = options_.machine->Has("pdl");
  if (pdl) CallPtx(b_, PtxInst::kGridLaunch, {});
  image_.dependent_launch = pdl;
  image_.dependent_if_full =
      pdl && std::none_of(fn_.ops.begin(), fn_.ops.end(), [](const ir::Op& op) {
        return op.kind == OpKind::kMma || op.kind == OpKind::kTcMma || op.kind == OpKind::kSimtDot;
      });
  if (!maps_.empty()) {
    llvm::BasicBlock* fetch = NewBlock("maps");
    llvm::BasicBlock* begin = NewBlock("begin");
    b_.CreateCondBr(b_.CreateICmpEQ(role_.thread, I32(0)), fetch, begin);
    b_.SetInsertPoint(fetch);
    // By name: an address would stay in registers until the map is used.
    for (size_t i = 0; i < image_.params.size(); ++i)
      if (image_.params[i].kind == EntryParam::Kind::kTensorMap)
        CallPtx(b_, PtxInst::kPrefetchMap,
                {{"param", image_.entry + "_param_" + std::to_string(i)}}, "", {});
    b_.CreateBr(begin);
    b_.SetInsertPoint(begin);
  }
  bool set_up = false;  // are there roles, and nothing but preparations before them?
  for (ir::OpId id : fn_.blocks[fn_.body].ops) {
    set_up = fn_.ops[id].kind == OpKind::kRole;
    if (set_up || !IsSetUp(fn_, id)) break;
  }
  if (!set_up) AwaitGridBefore();
}

void Emitter::AwaitGridBefore() {
  if (!awaited_grid_ && options_.machine->Has("pdl")) CallPtx(b_, PtxInst::kGridWait, {});
  awaited_grid_ = true;
}

namespace {

// Ids of the named barriers in a block and everything under it: all of them, or those at which
// whole roles meet.
void BarrierIds(const ir::Function& fn, ir::BlockId block, bool whole, std::vector<int>* ids) {
  for (ir::OpId id : fn.blocks[block].ops) {
    const ir::Op& op = fn.ops[id];
    const int64_t parts = op.i("parts", 1);
    if (op.kind == OpKind::kCtaSync && (parts == 1 || !whole))
      for (int64_t part = 0; part < parts; ++part)
        ids->push_back(static_cast<int>(op.i("id") + part));
    for (ir::BlockId region : op.regions) BarrierIds(fn, region, whole, ids);
  }
}

}  // namespace

// Roles that share a warpgroup share its register quota and the one setmaxnreg that sets it.
Result<void> Emitter::EmitRoles(const std::vector<ir::OpId>& roles) {
  const int all = fn_.launch.warps;
  if (roles.size() == 1 && fn_.ops[roles[0]].i("first_warp") == 0 &&
      fn_.ops[roles[0]].i("warps") == all)
    return EmitBlock(fn_.ops[roles[0]].regions[0]);

  std::vector<int> taken;
  BarrierIds(fn_, fn_.body, false, &taken);
  std::vector<ir::OpId> order = roles;
  std::sort(order.begin(), order.end(), [&](ir::OpId a, ir::OpId b) {
    return fn_.ops[a].i("first_warp") < fn_.ops[b].i("first_warp");
  });
  const int64_t cap =
      options_.machine->RegistersAtLaunch(all * std::max<int64_t>(1, fn_.launch.ctas_per_sm));
  (void)Warp();
  const RoleState outer = role_;
  llvm::BasicBlock* done = NewBlock("roles.done");
  for (size_t i = 0; i < order.size();) {
    size_t j = i;
    int64_t first_group = fn_.ops[order[i]].i("first_warp") / 4, end_group = first_group;
    int64_t regs = 0;
    for (; j < order.size(); ++j) {
      const ir::Op& op = fn_.ops[order[j]];
      if (j > i && op.i("first_warp") / 4 >= end_group) break;
      end_group = CeilDiv(op.i("first_warp") + op.i("warps"), 4);
      regs = std::max(regs, op.i("regs"));
    }
    llvm::BasicBlock *group = NewBlock("group"), *next = NewBlock("next");
    b_.CreateCondBr(b_.CreateICmpULT(b_.CreateSub(outer.warp, I32(first_group * 4)),
                                     I32((end_group - first_group) * 4)),
                    group, next);
    b_.SetInsertPoint(group);
    if (regs > 0 && regs != cap && options_.machine->Has("setmaxnreg"))
      CallPtx(b_, regs > cap ? PtxInst::kSetMaxNregInc : PtxInst::kSetMaxNregDec, {I32(regs)});
    for (size_t k = i; k < j; ++k) {
      const ir::Op& op = fn_.ops[order[k]];
      const int first = static_cast<int>(op.i("first_warp")),
                warps = static_cast<int>(op.i("warps"));
      std::vector<int> own;
      BarrierIds(fn_, op.regions[0], true, &own);
      int barrier = own.empty() ? 1 : own[0];
      if (own.empty() && warps > 1) {
        while (std::count(taken.begin(), taken.end(), barrier)) ++barrier;
        CHECK(barrier < 16, "no named barrier left for a role");
        taken.push_back(barrier);
      }
      llvm::BasicBlock* entry = NewBlock("role");
      llvm::BasicBlock* body = NewBlock("role.body");
      llvm::BasicBlock* after = NewBlock("role.after");
      b_.CreateCondBr(b_.CreateICmpULT(b_.CreateSub(outer.warp, I32(first)), I32(warps)), entry,
                      after);
      b_.SetInsertPoint(entry);
      llvm::Instruction* end = b_.CreateBr(body);
      b_.SetInsertPoint(end);
      role_ = NewRole(first, warps, barrier);
      role_.anchor = end;
      role_.thread = b_.CreateSub(outer.thread, I32(int64_t{32} * first));
      role_.warp = b_.CreateSub(outer.warp, I32(first));
      b_.SetInsertPoint(body);
      if (op.i("leader")) {
        llvm::BasicBlock* leads = NewBlock("role.leads");
        b_.CreateCondBr(IsLeader(), leads, after);
        b_.SetInsertPoint(leads);
      }
      TRY_VOID(EmitBlock(op.regions[0]));
      b_.CreateBr(after);
      b_.SetInsertPoint(after);
    }
    b_.CreateBr(done);
    b_.SetInsertPoint(next);
    i = j;
  }
  b_.CreateBr(done);
  b_.SetInsertPoint(done);
  role_ = outer;
  return Done();
}

bool Emitter::HasLoop(ir::BlockId block) const {
  const std::vector<ir::OpId>& ops = fn_.blocks[block].ops;
  return std::any_of(ops.begin(), ops.end(), [&](ir::OpId id) {
    const ir::Op& op = fn_.ops[id];
    return op.kind == OpKind::kFor || op.kind == OpKind::kWhile ||
           std::any_of(op.regions.begin(), op.regions.end(),
                       [&](ir::BlockId region) { return HasLoop(region); });
  });
}

// What does not change from iteration to iteration of an outer loop is made anew in each: it costs
// little beside the inner loop's iterations, and would hold registers through all of them.
void Emitter::KeepInvariants(llvm::BranchInst* latch) {
  llvm::MDNode* const disable =
      llvm::MDNode::get(context_, llvm::MDString::get(context_, "llvm.licm.disable"));
  llvm::MDNode* const loop = llvm::MDNode::getDistinct(context_, {nullptr, disable});
  loop->replaceOperandWith(0, loop);
  latch->setMetadata(llvm::LLVMContext::MD_loop, loop);
}

Result<void> Emitter::EmitForLoop(const ir::Op& op) {
  const ir::BlockId region = op.regions[0];
  const std::vector<ir::ValueId>& args = fn_.blocks[region].args;
  llvm::Value* lo = SameInAllLanes(op, op.operands[0]);
  llvm::Value* hi = SameInAllLanes(op, op.operands[1]);
  llvm::Type* wide = lo->getType();
  const bool narrow = IsNarrow(op);  // half the registers, one instruction to compare
  if (narrow) {
    lo = b_.CreateTrunc(lo, b_.getInt32Ty());
    hi = b_.CreateTrunc(hi, b_.getInt32Ty());
  }
  auto less = [&](llvm::Value* a, llvm::Value* b) {
    return narrow ? b_.CreateICmpULT(a, b) : b_.CreateICmpSLT(a, b);
  };
  llvm::BasicBlock* before = b_.GetInsertBlock();
  std::vector<Regs> init;
  for (size_t i = 1; i < args.size(); ++i)
    init.push_back(Pack(Get(op.operands[i + 1]), fn_.type(args[i]).dtype));
  before = b_.GetInsertBlock();
  llvm::BasicBlock* body = NewBlock("for");
  llvm::BasicBlock* exit = NewBlock("for.end");
  const bool some = op.i("some", 0) != 0;
  if (some)
    b_.CreateBr(body);
  else
    b_.CreateCondBr(less(lo, hi), body, exit);

  b_.SetInsertPoint(body);
  llvm::PHINode* position = b_.CreatePHI(lo->getType(), 2);
  position->addIncoming(lo, before);
  std::vector<std::vector<llvm::PHINode*>> phis(init.size());
  for (size_t i = 0; i < init.size(); ++i) {
    const bool unread = InitialUnread(op, i);
    for (llvm::Value* v : init[i]) {
      phis[i].push_back(b_.CreatePHI(v->getType(), 2));
      phis[i].back()->addIncoming(unread ? llvm::PoisonValue::get(v->getType()) : v, before);
    }
  }
  Set(args[0], {narrow ? b_.CreateZExt(position, wide) : position});
  for (size_t i = 0; i < init.size(); ++i) {
    const ir::ValueId arg = args[i + 1];
    Set(arg, Unpack(Regs(phis[i].begin(), phis[i].end()), fn_.type(arg).dtype,
                    Get(op.operands[i + 2]).size()));
  }
  const bool outside = describe_anew_;
  describe_anew_ = !HasLoop(region) && ManyDescriptors(region);
  TRY_VOID(EmitBlock(region));
  describe_anew_ = outside;
  const std::vector<ir::ValueId> yields = Yields(region);
  std::vector<Regs> next;
  for (size_t i = 0; i < init.size(); ++i)
    next.push_back(AtEnd(op, i, Pack(Get(yields[i]), fn_.type(yields[i]).dtype)));
  llvm::Value* step = llvm::ConstantInt::getSigned(lo->getType(), op.i("step"));
  llvm::Value* following =
      narrow ? b_.CreateNUWAdd(position, step) : b_.CreateNSWAdd(position, step);
  llvm::BasicBlock* latch = b_.GetInsertBlock();
  position->addIncoming(following, latch);
  for (size_t i = 0; i < init.size(); ++i)
    for (size_t r = 0; r < phis[i].size(); ++r) phis[i][r]->addIncoming(next[i][r], latch);
  llvm::BranchInst* again = b_.CreateCondBr(less(following, hi), body, exit);
  if (HasLoop(region)) KeepInvariants(again);

  b_.SetInsertPoint(exit);
  std::vector<Regs> last(init.size());
  for (size_t i = 0; i < init.size(); ++i)
    for (size_t r = 0; r < init[i].size(); ++r) {
      llvm::PHINode* phi = b_.CreatePHI(init[i][r]->getType(), 2);
      if (!some) phi->addIncoming(init[i][r], before);
      phi->addIncoming(next[i][r], latch);
      last[i].push_back(phi);
    }
  for (size_t i = 0; i < init.size(); ++i)
    Set(op.results[i],
        Unpack(last[i], fn_.type(op.results[i]).dtype, Get(op.operands[i + 2]).size()));
  return Done();
}

Result<void> Emitter::EmitWhile(const ir::Op& op) {
  const std::vector<ir::ValueId>& args = fn_.blocks[op.regions[0]].args;
  const std::vector<ir::ValueId>& body_args = fn_.blocks[op.regions[1]].args;
  std::vector<Regs> init;
  for (size_t i = 0; i < args.size(); ++i)
    init.push_back(Pack(Get(op.operands[i]), fn_.type(args[i]).dtype));
  llvm::BasicBlock* before = b_.GetInsertBlock();
  llvm::BasicBlock* head = NewBlock("while");
  llvm::BasicBlock* body = NewBlock("while.body");
  llvm::BasicBlock* exit = NewBlock("while.end");
  b_.CreateBr(head);
  b_.SetInsertPoint(head);
  std::vector<std::vector<llvm::PHINode*>> phis(init.size());
  for (size_t i = 0; i < init.size(); ++i)
    for (llvm::Value* v : init[i]) {
      phis[i].push_back(b_.CreatePHI(v->getType(), 2));
      phis[i].back()->addIncoming(v, before);
    }
  for (size_t i = 0; i < init.size(); ++i)
    Set(args[i], Unpack(Regs(phis[i].begin(), phis[i].end()), fn_.type(args[i]).dtype,
                        Get(op.operands[i]).size()));
  TRY_VOID(EmitBlock(op.regions[0]));
  const std::vector<ir::ValueId> tested = Yields(op.regions[0]);
  b_.CreateCondBr(SameInAllLanes(op, tested[0]), body, exit);
  for (size_t i = 0; i < body_args.size(); ++i) {
    Set(body_args[i], Get(tested[i + 1]));
    Set(op.results[i], Get(tested[i + 1]));
  }
  b_.SetInsertPoint(body);
  TRY_VOID(EmitBlock(op.regions[1]));
  const std::vector<ir::ValueId> next = Yields(op.regions[1]);
  for (size_t i = 0; i < init.size(); ++i) {
    const Regs packed = Pack(Get(next[i]), fn_.type(next[i]).dtype);
    for (size_t r = 0; r < packed.size(); ++r)
      phis[i][r]->addIncoming(packed[r], b_.GetInsertBlock());
  }
  b_.CreateBr(head);
  b_.SetInsertPoint(exit);
  return Done();
}

Result<void> Emitter::EmitIf(const ir::Op& op) {
  llvm::BasicBlock* arms[2] = {NewBlock("then"), NewBlock("else")};
  llvm::BasicBlock* ends[2] = {nullptr, nullptr};
  llvm::BasicBlock* join = NewBlock("endif");
  std::vector<Regs> results[2];
  b_.CreateCondBr(SameInAllLanes(op, op.operands[0]), arms[0], arms[1]);
  for (size_t arm = 0; arm < 2; ++arm) {
    b_.SetInsertPoint(arms[arm]);
    if (arm < op.regions.size()) {
      TRY_VOID(EmitBlock(op.regions[arm]));
      KeepInArm(op.regions[arm]);
      for (ir::ValueId v : Yields(op.regions[arm]))
        results[arm].push_back(Pack(Get(v), fn_.type(v).dtype));
    }
    // What an arm that does nothing yields would be set in front of the branch, whichever way that
    // goes (the zeros of a product without iterations, for every tile).
    if (op.i("apart", 0) != 0 && b_.GetInsertBlock()->empty()) CallPtx(b_, PtxInst::kHere, {});
    ends[arm] = b_.GetInsertBlock();
    b_.CreateBr(join);
  }
  b_.SetInsertPoint(join);
  std::vector<Regs> merged(op.results.size());
  for (size_t i = 0; i < op.results.size(); ++i)
    for (size_t r = 0; r < results[0][i].size(); ++r) {
      llvm::PHINode* phi = b_.CreatePHI(results[0][i][r]->getType(), 2);
      for (size_t arm = 0; arm < 2; ++arm) phi->addIncoming(results[arm][i][r], ends[arm]);
      merged[i].push_back(phi);
    }
  for (size_t i = 0; i < op.results.size(); ++i) {
    const ir::ValueId v = Yields(op.regions[0])[i];
    Set(op.results[i], Unpack(merged[i], fn_.type(v).dtype, Get(v).size()));
  }
  return Done();
}

Result<void> Emitter::EmitElect(const ir::Op& op) {
  const bool each_warp = op.s("scope") == "warp";
  if (each_warp) CallPtx(b_, PtxInst::kWarpSync, {});
  const std::vector<ir::OpId>& body = fn_.blocks[op.regions[0]].ops;
  const auto arrives = [&](bool all) {
    return std::all_of(body.begin(), body.end(), [&](ir::OpId id) {
      const ir::Op& inner = fn_.ops[id];
      return inner.kind == OpKind::kYield ||
             (inner.kind == OpKind::kMbarArrive && (inner.i("cluster", 0) != 0) == all);
    });
  };
  if (each_warp && fn_.launch.cluster > 1 && arrives(true)) {
    llvm::Value* when = op.operands.empty() ? nullptr : Scalar(op.operands[0]);
    for (ir::OpId id : body)
      if (fn_.ops[id].kind == OpKind::kMbarArrive) ArriveInCluster(fn_.ops[id], when);
    return Done();
  }
  const int parts = static_cast<int>(op.i("parts", 1));
  llvm::Value* elected = each_warp ? ElectedInWarp() : parts > 1 ? ElectedInPart(parts) : Elected();
  if (!op.operands.empty()) elected = b_.CreateAnd(elected, Scalar(op.operands[0]));
  // Arrivals are predicated, not branched around: at the end of a block LLVM moves computations of
  // the next one down, out of the time that the schedule gave them.
  if (arrives(false)) {
    for (ir::OpId id : body)
      if (fn_.ops[id].kind == OpKind::kMbarArrive) ArriveIf(fn_.ops[id], elected);
    return Done();
  }
  // The verifier takes the lanes of a warp to be together. What the elected lane issues ends the
  // phase that the others may still wait for: left behind, they would wait for the next but one.
  if (role_.warps == 1) CallPtx(b_, PtxInst::kWarpSync, {});
  llvm::BasicBlock* one = NewBlock("elected");
  llvm::BasicBlock* join = NewBlock("elect.end");
  b_.CreateCondBr(elected, one, join);
  b_.SetInsertPoint(one);
  part_ = parts > 1 ? PartOfRole(parts) : nullptr;
  TRY_VOID(EmitBlock(op.regions[0]));
  b_.CreateBr(join);
  b_.SetInsertPoint(join);
  return Done();
}

Result<void> Emitter::EmitAssert(const ir::Op& op) {
  const Regs& holds = Get(op.operands[0]);
  llvm::Value* all = b_.getTrue();
  for (size_t r = 0; r < holds.size(); ++r) {
    llvm::Value* ok = holds[r];
    if (llvm::Value* inside = Inside(op.operands[0], static_cast<int64_t>(r)))
      ok = b_.CreateOr(ok, b_.CreateNot(inside));
    all = b_.CreateAnd(all, ok);
  }
  llvm::BasicBlock* fail = NewBlock("assert.fail");
  llvm::BasicBlock* go = NewBlock("assert.ok");
  b_.CreateCondBr(all, go, fail);
  b_.SetInsertPoint(fail);
  CallPtx(b_, PtxInst::kTrap, {});
  b_.CreateBr(go);
  b_.SetInsertPoint(go);
  return Done();
}

Result<void> Emitter::EmitOp(ir::OpId id) {
  const ir::Op& op = fn_.ops[id];
  if (ir::Info(op.kind).elementwise()) return EmitElementwise(op);
  switch (op.kind) {
    case OpKind::kConstant: return EmitConstant(op);
    case OpKind::kFor: return EmitFor(op);
    case OpKind::kWhile: return EmitWhile(op);
    case OpKind::kIf: return EmitIf(op);
    case OpKind::kElect: return EmitElect(op);
    case OpKind::kAssert: return EmitAssert(op);
    case OpKind::kPrint: diags_.Report(kPrintIgnored, op.at); return Done();
    case OpKind::kProgramId: {
      llvm::Value* id32 =
          b_.CreateIntrinsic(b_.getInt32Ty(), llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x, {});
      Set(op.results[0], {b_.CreateZExt(id32, b_.getInt64Ty())});
      return Done();
    }
    case OpKind::kGLoad: return op.attr("scratch") ? EmitLoadRows(op) : EmitGLoad(op);
    case OpKind::kCpLoad: return EmitCpLoad(op);
    case OpKind::kGStore: return op.attr("scratch") ? EmitStoreRows(op) : EmitGStore(op);
    case OpKind::kGAtomic: return EmitGAtomic(op);
    case OpKind::kGLoadScalar:
    case OpKind::kGStoreScalar:
    case OpKind::kGAtomicScalar: return EmitScalarAccess(op);
    case OpKind::kSmemAlloc:
    case OpKind::kMbarAlloc: Set(op.results[0], {SmemAddress(op.i("offset"))}); return Done();
    case OpKind::kSmemStore: return EmitSmemStore(op);
    case OpKind::kSmemLoad: return EmitSmemLoad(op);
    case OpKind::kSmemZero: return EmitSmemZero(op);
    case OpKind::kConvert: return EmitConvert(op);
    case OpKind::kBroadcast:
    case OpKind::kWarpBroadcast: return EmitBroadcast(op);
    case OpKind::kReshape:
    case OpKind::kTranspose:
    case OpKind::kWarpTranspose:
    case OpKind::kWarpReshape: return EmitRename(op);
    case OpKind::kWarpColumns: return EmitColumns(op);
    case OpKind::kIota:
    case OpKind::kWarpIota: return EmitIota(op);
    case OpKind::kWarpScan: return EmitScan(op);
    case OpKind::kWarpRearrange: return EmitRearrange(op);
    case OpKind::kWarpReduce:
    case OpKind::kWarpArgReduce: return EmitReduce(op);
    case OpKind::kWarpClusterReduce: return EmitClusterReduce(op);
    case OpKind::kMma: return EmitMma(op);
    case OpKind::kTmemAlloc:
    case OpKind::kTmemFree:
    case OpKind::kTcMma:
    case OpKind::kTcCommit:
    case OpKind::kTcFence:
    case OpKind::kTmemLoad:
    case OpKind::kTmemStore:
    case OpKind::kTmemScales: return EmitTensorMemory(op);
    case OpKind::kMmaFence:
    case OpKind::kMmaWait: return EmitMmaTied(op);
    case OpKind::kSimtDot: return EmitSimtDot(op);
    default: return EmitAsync(op);
  }
}

}  // namespace tilec::backend
