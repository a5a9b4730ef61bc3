// SPDX-License-Identifier: Apache-2.0
#include "backend/ptx_asm.h"

#include <llvm/IR/InlineAsm.h>

#include "support/check.h"

namespace tilec::backend {
namespace {

constexpr PtxInstInfo kInsts[] = {
#define PTX(Name, text, constraints, kind) {#Name, text, constraints, PtxKind::kind},
#include "backend/ptx_insts.def"
#undef PTX
};

llvm::Type* TypeOf(llvm::LLVMContext& ctx, char constraint) {
  switch (constraint) {
    case 'b': return llvm::Type::getInt1Ty(ctx);
    case 'h': return llvm::Type::getInt16Ty(ctx);
    case 'r': return llvm::Type::getInt32Ty(ctx);
    case 'l': return llvm::Type::getInt64Ty(ctx);
    case 'f': return llvm::Type::getFloatTy(ctx);
    case 'd': return llvm::Type::getDoubleTy(ctx);
    default: UNREACHABLE(std::string("constraint ") + constraint);
  }
}

llvm::CallInst* Call(llvm::IRBuilder<>& b, PtxKind kind, const std::string& text,
                     std::string constraints, llvm::Type* result,
                     llvm::ArrayRef<llvm::Value*> args) {
  llvm::LLVMContext& ctx = b.getContext();
  const bool effect = kind == PtxKind::kEffect || kind == PtxKind::kSync;
  // (LLVM's passes on machine code know of no memory that is read but by this: a load of a place
  // that a loop writes, too, was moved in front of the loop.)
  if (effect || kind == PtxKind::kOwnRead)
    constraints += constraints.empty() ? "~{memory}" : ",~{memory}";
  std::vector<llvm::Type*> types;
  for (llvm::Value* a : args) types.push_back(a->getType());
  llvm::InlineAsm* code = llvm::InlineAsm::get(llvm::FunctionType::get(result, types, false), text,
                                               constraints, effect);
  llvm::CallInst* call = b.CreateCall(code, args);
  llvm::AttrBuilder attrs(ctx);
  attrs.addAttribute(llvm::Attribute::NoUnwind);
  switch (kind) {
    case PtxKind::kPure:
      attrs.addAttribute(llvm::Attribute::WillReturn);
      attrs.addMemoryAttr(llvm::MemoryEffects::none());
      break;
    case PtxKind::kRead:
    case PtxKind::kOwnRead:
      attrs.addAttribute(llvm::Attribute::WillReturn);
      attrs.addMemoryAttr(llvm::MemoryEffects::readOnly());
      break;
    case PtxKind::kEffect: break;
    case PtxKind::kSync: attrs.addAttribute(llvm::Attribute::Convergent); break;
  }
  call->setAttributes(llvm::AttributeList::get(ctx, llvm::AttributeList::FunctionIndex, attrs));
  return call;
}

// Types of the outputs named by a constraint string.
std::vector<llvm::Type*> Outputs(llvm::LLVMContext& ctx, std::string_view constraints) {
  std::vector<llvm::Type*> out;
  for (size_t i = 0; i + 1 < constraints.size(); ++i)
    if (constraints[i] == '=') out.push_back(TypeOf(ctx, constraints[i + 1]));
  return out;
}

}  // namespace

const PtxInstInfo& Info(PtxInst inst) { return kInsts[static_cast<size_t>(inst)]; }

std::string PtxText(PtxInst inst, const Substitutions& with) {
  std::string out;
  std::string_view text = Info(inst).text;
  while (!text.empty()) {
    const size_t open = text.find('<');
    out += text.substr(0, open);
    if (open == std::string_view::npos) break;
    const size_t close = text.find('>', open);
    const std::string_view key = text.substr(open + 1, close - open - 1);
    bool found = false;
    for (const auto& [name, value] : with)
      if (name == key) out += value, found = true;
    CHECK(found, std::string(Info(inst).name) + ": no value for <" + std::string(key) + ">");
    text.remove_prefix(close + 1);
  }
  return out;
}

llvm::Value* CallPtx(llvm::IRBuilder<>& b, PtxInst inst, llvm::ArrayRef<llvm::Value*> args) {
  const PtxInstInfo& info = Info(inst);
  const std::vector<llvm::Type*> outs = Outputs(b.getContext(), info.constraints);
  CHECK(outs.size() <= 1, "one output expected");
  llvm::CallInst* call = Call(b, info.kind, std::string(info.text), std::string(info.constraints),
                              outs.empty() ? b.getVoidTy() : outs[0], args);
  return outs.empty() ? nullptr : call;
}

std::vector<llvm::Value*> CallPtx(llvm::IRBuilder<>& b, PtxInst inst, const Substitutions& with,
                                  const std::string& constraints,
                                  llvm::ArrayRef<llvm::Value*> args) {
  const std::vector<llvm::Type*> outs = Outputs(b.getContext(), constraints);
  llvm::Type* result = b.getVoidTy();
  if (outs.size() == 1) result = outs[0];
  if (outs.size() > 1) result = llvm::StructType::get(b.getContext(), outs);
  llvm::CallInst* call = Call(b, Info(inst).kind, PtxText(inst, with), constraints, result, args);
  std::vector<llvm::Value*> values;
  if (outs.size() == 1) values.push_back(call);
  for (unsigned i = 0; outs.size() > 1 && i < outs.size(); ++i)
    values.push_back(b.CreateExtractValue(call, i));
  return values;
}

std::vector<llvm::Value*> CallTied(llvm::IRBuilder<>& b, PtxInst inst, const Substitutions& with,
                                   const std::vector<llvm::Value*>& tied,
                                   const std::string& extra_constraints,
                                   llvm::ArrayRef<llvm::Value*> extra) {
  std::string constraints;
  for (llvm::Value* v : tied)
    constraints +=
        std::string(constraints.empty() ? "" : ",") + (v->getType()->isFloatTy() ? "=f" : "=r");
  for (size_t i = 0; i < tied.size(); ++i) constraints += "," + std::to_string(i);
  if (!extra_constraints.empty())
    constraints += (constraints.empty() ? "" : ",") + extra_constraints;
  std::vector<llvm::Value*> args = tied;
  args.insert(args.end(), extra.begin(), extra.end());
  return CallPtx(b, inst, with, constraints, args);
}

}  // namespace tilec::backend
