// Parses PTX text into a PtxModule. Declarations and scopes are resolved here, so later phases see
// register, variable and label ids only.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/emulator/ptx_ast.h"
#include "runtime/emulator/ptx_declarations.h"

namespace tilec::runtime::emulator {

class PtxParser : private PtxDeclarationReader {
 public:
  PtxParser(PtxModule* module, const PtxPlaces& places, DiagSink& diags);
  bool Run();

 private:
  bool ModuleItem();
  bool ParseVariable();
  bool AddVariable(Variable v);
  bool Triple(uint32_t* out);
  bool Parameters(std::vector<int32_t>* list);
  bool ParseFunction();
  bool EveryFunctionKnown();
  bool ParseEntry();
  bool Body();
  bool CloseScope();
  bool BodyItem();
  bool BranchTargets();
  bool Call(Statement* s);
  bool Branch(Statement* s);
  bool Registers();
  static bool IsTexture(std::string_view opcode);
  bool Instruction();

  bool extern_ = false;
  bool in_body_ = false;
  std::string_view last_label_;
};

}  // namespace tilec::runtime::emulator
