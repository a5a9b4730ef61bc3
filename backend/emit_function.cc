// The function as a whole: entry parameters, how a grid begins, and who emits which op. Roles are
// in emit_roles.cc, loops and branches in emit_control.cc.
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

namespace {}  // namespace

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
