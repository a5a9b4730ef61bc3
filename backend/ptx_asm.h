// Inline PTX: the rows of ptx_insts.def and the calls made from them.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tilec::backend {

enum class PtxInst {
#define PTX(Name, text, constraints, kind) k##Name,
#include "backend/ptx_insts.def"
#undef PTX
};

enum class PtxKind { kPure, kRead, kOwnRead, kEffect, kSync };

struct PtxInstInfo {
  const char* name;
  std::string_view text;
  std::string_view constraints;
  PtxKind kind;
};
const PtxInstInfo& Info(PtxInst inst);

using Substitutions = std::vector<std::pair<std::string_view, std::string>>;
// The row's text with every <key> replaced.
std::string PtxText(PtxInst inst, const Substitutions& with);

// The row as it stands; returns its one output or nullptr.
llvm::Value* CallPtx(llvm::IRBuilder<>& b, PtxInst inst, llvm::ArrayRef<llvm::Value*> args);
// The row with its text and constraints completed by the caller. Returns the outputs.
std::vector<llvm::Value*> CallPtx(llvm::IRBuilder<>& b, PtxInst inst, const Substitutions& with,
                                  const std::string& constraints,
                                  llvm::ArrayRef<llvm::Value*> args);
// The row with `tied` values as inputs and outputs $0 …; `extra` operands follow at
// $2n … with `extra_constraints` ("l,r"). Values are i32 or float.
std::vector<llvm::Value*> CallTied(llvm::IRBuilder<>& b, PtxInst inst, const Substitutions& with,
                                   const std::vector<llvm::Value*>& tied,
                                   const std::string& extra_constraints = "",
                                   llvm::ArrayRef<llvm::Value*> extra = {});

}  // namespace tilec::backend
