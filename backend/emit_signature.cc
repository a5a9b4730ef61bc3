// Entry parameters and the launch data: what the kernel needs from its launcher.
//
// SPDX-License-Identifier: Apache-2.0
#include <llvm/BinaryFormat/Dwarf.h>
#include <llvm/Config/llvm-config.h>
#include <llvm/IR/DIBuilder.h>

#include <algorithm>
#include <cctype>

#include "backend/emitter.h"
#include "backend/kept_constant.h"
#include "ir/isa.h"
#include "ir/lower/pressure.h"
#include "support/check.h"

namespace tilec::backend {

using ir::OpKind;

namespace {

Direction DirectionOf(ir::Direction d) {
  switch (d) {
    case ir::Direction::kIn: return Direction::kIn;
    case ir::Direction::kOut: return Direction::kOut;
    case ir::Direction::kInOut: return Direction::kInOut;
  }
  UNREACHABLE("direction");
}

Expr StrideBytes(const ir::Param& p, int dim, ir::DType d) {
  return Expr::Make(Expr::Op::kMul, Expr::Name(p.name + ".stride" + std::to_string(dim)),
                    Expr::Const(ir::ByteSize(d)));
}

}  // namespace

void Emitter::CollectUses() {
  for (const ir::Op& op : fn_.ops) {
    for (ir::ValueId v : op.operands) used_.insert(v.index);
    switch (op.kind) {
      case OpKind::kCpLoad:
      case OpKind::kGLoad:
      case OpKind::kGStore:
      case OpKind::kGAtomic:
      case OpKind::kGLoadScalar:
      case OpKind::kGStoreScalar:
      case OpKind::kStamp:
      case OpKind::kGAtomicScalar: thread_tensors_.insert(op.operands[0].index); break;
      default: break;
    }
  }
}

llvm::Value* Emitter::EntryInt(const Expr& e) {
  const Expr simple = Simplify(e, fn_.statics);
  if (simple.is_const()) return I64(simple.value);
  auto it = entry_ints_.find(ToText(simple));
  CHECK(it != entry_ints_.end(), "no entry parameter for " + ToText(simple));
  return it->second;
}

// A tensor of the signature, and what must hold of it for this image.
void Emitter::AddTensorArg(const ir::Param& p) {
  const auto fold = [&](const Expr& e) { return Simplify(e, fn_.statics); };
  const ir::Type& type = fn_.type(p.value);
  const int rank = static_cast<int>(p.dims.size());
  TensorArg arg;
  arg.name = p.name;
  arg.dtype = ir::Spelling(type.dtype);
  arg.direction = DirectionOf(p.direction);
  arg.dims = p.dims;
  arg.strided_any = p.strided_any;
  image_.tensors.push_back(arg);
  if (p.facts.base_align_bytes > ir::ByteSize(type.dtype))
    image_.alignment.push_back({p.name, static_cast<int>(p.facts.base_align_bytes)});
  for (int d = 0; d < rank; ++d) {
    const Expr bytes = fold(StrideBytes(p, d, type.dtype));
    if (d < rank - 1 && p.facts.stride_align_bytes > ir::ByteSize(type.dtype)) {
      const Expr ok = fold(Expr::Make(
          Expr::Op::kEq, Expr::Make(Expr::Op::kMod, bytes, Expr::Const(p.facts.stride_align_bytes)),
          Expr::Const(0)));
      if (!ok.is_const() || !ok.value)
        image_.facts.push_back({ok, "stride " + std::to_string(d) + " of " + p.name +
                                        " is a multiple of " +
                                        std::to_string(p.facts.stride_align_bytes) + " bytes"});
    }
    if (d == rank - 1 && p.strided_any && p.facts.last_contiguous)
      image_.facts.push_back(
          {Expr::Make(Expr::Op::kEq, Expr::Name(p.name + ".stride" + std::to_string(d)),
                      Expr::Const(1)),
           "the last dim of " + p.name + " is contiguous"});
  }
  if (rank > 0 && p.facts.last_dim_align > 1) {
    const Expr ok = fold(
        Expr::Make(Expr::Op::kEq,
                   Expr::Make(Expr::Op::kMod, p.dims.back(), Expr::Const(p.facts.last_dim_align)),
                   Expr::Const(0)));
    if (!ok.is_const() || !ok.value)
      image_.facts.push_back({ok, "the last dim of " + p.name + " is a multiple of " +
                                      std::to_string(p.facts.last_dim_align)});
  }
}

TensorMapRecipe Emitter::RecipeOf(const ir::TensorMapInfo& info) const {
  const auto fold = [&](const Expr& e) { return Simplify(e, fn_.statics); };
  const ir::Param* p = fn_.param(info.tensor);
  CHECK(p, "tensor map of no parameter");
  const ir::DType d = fn_.type(info.tensor).dtype;
  TensorMapRecipe recipe;
  recipe.tensor = p->name;
  // tf32 travels as f32: the map type of that name rounds on the way, `@` drops bits instead.
  recipe.dtype = d == ir::DType::kBool ? "u8" : d == ir::DType::kTF32 ? "f32" : ir::Spelling(d);
  for (size_t i = 0; i < info.dims.size(); ++i) {
    recipe.dims.push_back(fold(p->dims[static_cast<size_t>(info.dims[i])]));
    if (i > 0) recipe.strides_bytes.push_back(fold(StrideBytes(*p, info.dims[i], d)));
  }
  if (info.panel) {  // outermost: whole panels
    const Expr panel = Expr::Const(info.panel);
    recipe.dims.push_back(fold(Expr::Make(Expr::Op::kDiv, recipe.dims[0], panel)));
    recipe.dims[0] = panel;
    recipe.strides_bytes.push_back(Expr::Const(info.panel * ir::ByteSize(d)));
  }
  recipe.box = info.box;
  recipe.steps = info.steps;
  recipe.swizzle_bytes = info.swizzle_bytes;
  return recipe;
}

// Everything of the image but its text.
void Emitter::BuildSignature() {
  image_.name = fn_.name;
  image_.entry = "tile_";
  for (char c : fn_.name) image_.entry += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  image_.target = options_.target;
  image_.statics = fn_.statics;
  image_.grid[0] = Simplify(fn_.launch.grid, fn_.statics);
  image_.block = 32 * fn_.launch.warps;
  image_.cluster[0] = fn_.launch.cluster;
  image_.smem_bytes = fn_.launch.smem_bytes;
  for (const ir::WhereFact& f : fn_.facts) image_.facts.push_back({f.condition, f.text});

  auto fold = [&](const Expr& e) { return Simplify(e, fn_.statics); };
  std::vector<Expr> ints;
  auto need = [&](const Expr& e) {
    const Expr simple = fold(e);
    if (simple.is_const()) return;
    for (const Expr& old : ints)
      if (old == simple) return;
    ints.push_back(simple);
  };
  std::vector<EntryParam> pointers, scalars;
  for (const ir::Param& p : fn_.params) {
    const ir::Type& type = fn_.type(p.value);
    const int rank = static_cast<int>(p.dims.size());
    switch (p.kind) {
      case ir::ParamKind::kDim:
        if (used_.count(p.value.index)) need(Expr::Name(p.name));
        break;
      case ir::ParamKind::kScalar:
        image_.scalars.push_back({p.name, ir::Spelling(type.dtype)});
        if (!fn_.statics.count(p.name)) {
          EntryParam e;
          e.kind = EntryParam::Kind::kScalar;
          e.name = p.name;
          e.dtype = ir::Spelling(type.dtype);
          scalars.push_back(e);
        }
        break;
      case ir::ParamKind::kTensor: {
        AddTensorArg(p);
        if (!thread_tensors_.count(p.value.index)) break;
        EntryParam e;
        e.kind = EntryParam::Kind::kTensorPointer;
        e.name = p.name;
        pointers.push_back(e);
        for (const Expr& d : p.dims) need(d);
        for (int d = 0; d < rank; ++d)
          if (d < rank - 1 || !p.facts.last_contiguous)
            need(Expr::Name(p.name + ".stride" + std::to_string(d)));
        break;
      }
    }
  }
  for (const ir::TensorMapInfo& info : fn_.launch.maps) {
    EntryParam e;
    e.kind = EntryParam::Kind::kTensorMap;
    e.map = static_cast<int>(image_.tensor_maps.size());
    image_.tensor_maps.push_back(RecipeOf(info));
    image_.params.push_back(e);
  }
  for (EntryParam& e : pointers) image_.params.push_back(std::move(e));
  for (const Expr& value : ints) {
    EntryParam e;
    e.kind = EntryParam::Kind::kInt;
    e.value = value;
    image_.params.push_back(e);
  }
  for (EntryParam& e : scalars) image_.params.push_back(std::move(e));
}

namespace {
// Does one CTA have the SM, and has a thread few sums of products?
bool HasRegistersToSpare(const ir::Function& fn) {
  constexpr int64_t kFewSums = 64;  // of a product, in a thread
  int64_t most = 0;
  for (const ir::Op& op : fn.ops)
    if (op.kind == ir::OpKind::kMma && fn.type(op.results[0]).layout.valid())
      most = std::max(most, fn.layout(op.results[0]).regs());
  return fn.launch.ctas_per_sm == 1 && most > 0 && most < kFewSums;
}
}  // namespace

// The LLVM function, its launch bounds, shared memory and the scope of line numbers.
void Emitter::Declare() {
  std::vector<llvm::Type*> types;
  for (const EntryParam& p : image_.params) switch (p.kind) {
      case EntryParam::Kind::kTensorMap:
        types.push_back(llvm::PointerType::get(context_, 0));
        break;
      case EntryParam::Kind::kTensorPointer:
      case EntryParam::Kind::kInt: types.push_back(b_.getInt64Ty()); break;
      case EntryParam::Kind::kScalar: {
        const ir::DType d = *ir::DTypeFromSpelling(p.dtype);
        types.push_back(d == ir::DType::kBool ? b_.getInt8Ty() : ElementType(d));
        break;
      }
    }
  function_ = llvm::Function::Create(llvm::FunctionType::get(b_.getVoidTy(), types, false),
                                     llvm::GlobalValue::ExternalLinkage, image_.entry, *module_);
  function_->setCallingConv(llvm::CallingConv::PTX_Kernel);
  const std::string threads = std::to_string(image_.block);
  function_->addFnAttr("nvvm.reqntid", threads);
  // Told that one large CTA is enough the assembler takes all that it may have for it: 86 registers
  // of 512 threads where it takes 52 told nothing, and two fit (rmsnorm of 16384 columns, 2925 or
  // 3994 GB/s). Small ones gain by what they then have in flight (residual_rmsnorm, 128 threads:
  // 4015 or 3406), and where products are, their accumulators are what they take. Of clusters more
  // find room, who share the rows that there are (layernorm of 81 x 33441: 16.7 us or 9.3).
  const int64_t wanted = fn_.launch.ctas_per_sm;
  const bool large = image_.block >= ir::kLargeCta || fn_.launch.cluster > 1;
  const int64_t ctas = wanted == 1 && !HasProducts() && large ? 0 : wanted;
  if (ctas > 0) function_->addFnAttr("nvvm.minctasm", std::to_string(ctas));
  // Fewer than the ISA allows: the assembler cannot know. CTAs side by side have a share each.
  const bool few = options_.machine->limits.regs_per_thread < ir::isa::kMostThreadRegisters;
  const int64_t most = ctas > 1 ? options_.machine->RegistersAtLaunch(fn_.launch.warps * ctas)
                                : options_.machine->limits.regs_per_thread;
  if (few) function_->addFnAttr("nvvm.maxnreg", std::to_string(most));
  const int64_t cluster = fn_.launch.cluster;
  if (cluster > 1) function_->addFnAttr("nvvm.cluster_dim", fmt::format("{},1,1", cluster));
  function_->addFnAttr(llvm::Attribute::NoUnwind);
  if (HasRegistersToSpare(fn_)) function_->addFnAttr(kShowsConstants);

  auto md = [&](const char* text) { return llvm::MDString::get(context_, text); };
  auto number = [&](int64_t v) {
    return llvm::ConstantAsMetadata::get(b_.getInt32(static_cast<uint32_t>(v)));
  };
  std::vector<llvm::Metadata*> bounds = {llvm::ConstantAsMetadata::get(function_)};
  bounds.insert(bounds.end(), {md("kernel"), number(1)});
#if LLVM_VERSION_MAJOR < 21
  bounds.insert(bounds.end(), {md("reqntidx"), number(image_.block), md("reqntidy"), number(1),
                               md("reqntidz"), number(1)});
  if (ctas > 0) bounds.insert(bounds.end(), {md("minctasm"), number(ctas)});
  if (few) bounds.insert(bounds.end(), {md("maxnreg"), number(most)});
  if (cluster > 1)
    bounds.insert(bounds.end(), {md("cluster_dim_x"), number(cluster), md("cluster_dim_y"),
                                 number(1), md("cluster_dim_z"), number(1)});
#endif
  llvm::NamedMDNode* annotations = module_->getOrInsertNamedMetadata("nvvm.annotations");
  annotations->addOperand(llvm::MDNode::get(context_, bounds));
  std::vector<llvm::Metadata*> constants;
  for (unsigned i = 0; i < image_.params.size(); ++i) {
    if (image_.params[i].kind != EntryParam::Kind::kTensorMap) continue;
    // Without grid_constant LLVM would copy the map to local memory, where TMA cannot read it.
    llvm::Type* bytes = llvm::ArrayType::get(b_.getInt8Ty(), 128);
    function_->addParamAttr(i, llvm::Attribute::getWithByValType(context_, bytes));
    function_->addParamAttr(i, llvm::Attribute::getWithAlignment(context_, llvm::Align(64)));
    function_->addParamAttr(i, llvm::Attribute::ReadOnly);
#if LLVM_VERSION_MAJOR >= 22
    function_->addParamAttr(i, llvm::Attribute::get(context_, "nvvm.grid_constant"));
#endif
    constants.push_back(number(i + 1));
  }
  if (!constants.empty())
    annotations->addOperand(
        llvm::MDNode::get(context_, {llvm::ConstantAsMetadata::get(function_), md("grid_constant"),
                                     llvm::MDNode::get(context_, constants)}));

  smem_ = new llvm::GlobalVariable(*module_, llvm::ArrayType::get(b_.getInt8Ty(), 0), false,
                                   llvm::GlobalValue::ExternalLinkage, nullptr, "smem", nullptr,
                                   llvm::GlobalValue::NotThreadLocal, /*address space*/ 3);
  smem_->setAlignment(llvm::Align(1024));

  if (options_.line_info) DeclareLines();
}

// Line n + 1 of a file that does not exist stands for op n; Compile replaces it by the op's place
// in the source.
void Emitter::DeclareLines() {
  module_->addModuleFlag(llvm::Module::Warning, "Debug Info Version", llvm::DEBUG_METADATA_VERSION);
  llvm::DIBuilder di(*module_);
  llvm::DIFile* file = di.createFile("ops", "");
  di.createCompileUnit(llvm::dwarf::DW_LANG_C, file, "tilec", true, "", 0, "",
                       llvm::DICompileUnit::DebugDirectivesOnly);
  llvm::DISubprogram* sub = di.createFunction(
      file, image_.entry, image_.entry, file, 1,
      di.createSubroutineType(di.getOrCreateTypeArray({})), 1, llvm::DINode::FlagZero,
      llvm::DISubprogram::SPFlagDefinition | llvm::DISubprogram::SPFlagOptimized);
  function_->setSubprogram(sub);
  di.finalize();
  scope_ = sub;
}

}  // namespace tilec::backend
