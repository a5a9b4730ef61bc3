// The one translation unit with LLVM's pass manager and target machine: their headers are slow to
// compile, and what differs between LLVM 19 and 22 stays here.
//
// SPDX-License-Identifier: Apache-2.0
#include "backend/nvptx.h"

#include <llvm/Config/llvm-config.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Target/TargetOptions.h>
#include <llvm/TargetParser/Triple.h>

#include <memory>
#include <mutex>
#include <optional>

extern "C" {
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

namespace tilec::backend {
namespace {

constexpr char kTriple[] = "nvptx64-nvidia-cuda";
// The lowest .version with wgmma: the oldest drivers that know the target can load the text.
constexpr char kFeatures[] = "+ptx80";
// LLVM neither unrolls nor duplicates: convergent calls forbid it and the generator has unrolled.
constexpr char kPipeline[] =
    "function(sroa,early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg,loop-mssa(licm),"
    "gvn,instcombine<no-verify-fixpoint>,simplifycfg,dce)";

std::unique_ptr<llvm::TargetMachine> MakeMachine(const std::string& target, NvptxError* error) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
  const llvm::Triple triple(kTriple);
  std::string why;
#if LLVM_VERSION_MAJOR >= 22
  const llvm::Target* found = llvm::TargetRegistry::lookupTarget(triple, why);
#else
  const llvm::Target* found = llvm::TargetRegistry::lookupTarget(triple.str(), why);
#endif
  if (!found) {
    *error = {true, why};
    return nullptr;
  }
  llvm::TargetOptions options;
#if LLVM_VERSION_MAJOR >= 21
  llvm::TargetMachine* machine =
      found->createTargetMachine(triple, target, kFeatures, options, std::nullopt, std::nullopt,
                                 llvm::CodeGenOptLevel::Default);
#else
  llvm::TargetMachine* machine =
      found->createTargetMachine(triple.str(), target, kFeatures, options, std::nullopt,
                                 std::nullopt, llvm::CodeGenOptLevel::Default);
#endif
  if (!machine) *error = {true, "no machine for this processor"};
  return std::unique_ptr<llvm::TargetMachine>(machine);
}

}  // namespace

bool PrepareModule(llvm::Module& module, const std::string& target, NvptxError* error) {
  std::unique_ptr<llvm::TargetMachine> machine = MakeMachine(target, error);
  if (!machine) return false;
#if LLVM_VERSION_MAJOR >= 21
  module.setTargetTriple(llvm::Triple(kTriple));
#else
  module.setTargetTriple(kTriple);
#endif
  module.setDataLayout(machine->createDataLayout());
  return true;
}

namespace {

// The optimiser makes signed conversions of a bit, whose 1 is -1; the target's pattern gives +1
// (LLVM 19).
void SelectForSignedBits(llvm::Module& module) {
  for (llvm::Function& function : module)
    for (llvm::BasicBlock& block : function)
      for (llvm::Instruction& inst : llvm::make_early_inc_range(block)) {
        auto* convert = llvm::dyn_cast<llvm::SIToFPInst>(&inst);
        if (convert == nullptr || !convert->getSrcTy()->isIntOrIntVectorTy(1)) continue;
        llvm::Type* type = convert->getType();
        convert->replaceAllUsesWith(
            llvm::SelectInst::Create(convert->getOperand(0), llvm::ConstantFP::get(type, -1),
                                     llvm::ConstantFP::get(type, 0), "", convert->getIterator()));
        convert->eraseFromParent();
      }
}

}  // namespace

bool EmitPtx(llvm::Module& module, const std::string& target, std::string* optimized,
             std::string* ptx, NvptxError* error) {
  std::string why;
  llvm::raw_string_ostream verdict(why);
  if (llvm::verifyModule(module, &verdict)) {
    *error = {false, why};
    return false;
  }
  std::unique_ptr<llvm::TargetMachine> machine = MakeMachine(target, error);
  if (!machine) return false;

  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager graph;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(machine.get());
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(graph);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, graph, modules);
  llvm::ModulePassManager passes;
  if (llvm::Error e = builder.parsePassPipeline(passes, kPipeline)) {
    *error = {false, llvm::toString(std::move(e))};
    return false;
  }
  passes.run(module, modules);
  SelectForSignedBits(module);
  if (llvm::verifyModule(module, &verdict)) {
    *error = {false, "after optimisation: " + why};
    return false;
  }
  if (optimized) {
    llvm::raw_string_ostream out(*optimized);
    module.print(out, nullptr);
  }
  llvm::SmallString<0> text;
  llvm::raw_svector_ostream out(text);
  llvm::legacy::PassManager emit;
  if (machine->addPassesToEmitFile(emit, out, nullptr, llvm::CodeGenFileType::AssemblyFile)) {
    *error = {false, "the target cannot print assembly"};
    return false;
  }
  emit.run(module);
  *ptx = text.str().str();
  return true;
}

std::string LlvmVersion() { return "LLVM " LLVM_VERSION_STRING; }

}  // namespace tilec::backend
