// PTX as parsed: a module of entries, each a flat list of statements with scopes resolved to
// register and label ids. Names are views into the module's text, which the Module owns.
//
// Nothing here knows what an opcode means; that is decode.cc with ptx_isa.def.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/device.h"
#include "support/diag.h"
#include "support/result.h"

namespace tilec::runtime::emulator {

#define TILEC_PTX_TYPES(X)                                                                     \
  X(U8, "u8", 8)                                                                               \
  X(S8, "s8", 8)                                                                               \
  X(B8, "b8", 8)                                                                               \
  X(U16, "u16", 16)                                                                            \
  X(S16, "s16", 16)                                                                            \
  X(B16, "b16", 16)                                                                            \
  X(U32, "u32", 32)                                                                            \
  X(S32, "s32", 32)                                                                            \
  X(B32, "b32", 32)                                                                            \
  X(U64, "u64", 64) X(S64, "s64", 64) X(B64, "b64", 64) X(B128, "b128", 128) X(F16, "f16", 16) \
      X(BF16, "bf16", 16) X(F16x2, "f16x2", 32) X(BF16x2, "bf16x2", 32) X(F32, "f32", 32)      \
          X(F64, "f64", 64) X(TF32, "tf32", 32) X(E4M3, "e4m3", 8) X(E5M2, "e5m2", 8)          \
              X(E4M3x2, "e4m3x2", 16) X(E5M2x2, "e5m2x2", 16) X(Pred, "pred", 1)

enum class Type : uint8_t {
#define X(name, text, bits) k##name,
  TILEC_PTX_TYPES(X)
#undef X
      kNone
};
int TypeBits(Type t);
const char* TypeName(Type t);
Type TypeFromName(std::string_view name);  // without the dot; kNone if unknown
bool IsSigned(Type t);
bool IsFloat(Type t);

using RegId = int32_t;

struct Register {
  std::string_view name;
  uint32_t number = 0;  // of a ranged register
  bool ranged = false;
  Type type = Type::kB32;
  std::string Name() const;
};

struct Operand {
  enum class Kind : uint8_t {
    kRegister,
    kSpecial,
    kSymbol,
    kFunction,
    kLabel,
    kInt,
    kF32,
    kF64,
    kVector,
    kAddress,
    kSink
  };
  Kind kind = Kind::kInt;
  bool negated = false;  // !p
  RegId reg = -1;        // kRegister
  // kSymbol: variable; kFunction: its number; kLabel: label; kSpecial: special register.
  int32_t index = -1;
  uint64_t bits = 0;            // kInt, kF32, kF64: value; kSymbol, kAddress: byte offset
  std::vector<Operand> parts;   // kVector: elements; kAddress: base, then coordinate vectors
  std::vector<Operand> second;  // p|q: at most one element
};

enum class Space : uint8_t { kParam, kShared, kGlobal, kConst, kLocal };

struct Variable {
  std::string_view name;
  Space space = Space::kGlobal;
  Type type = Type::kB8;
  uint64_t bytes = 0;  // 0: `extern .shared x[]`, the dynamic shared memory
  uint32_t align = 1;
  bool dynamic = false;
  std::vector<uint8_t> init;  // may be shorter than bytes: the rest is zero
  // Addresses among the initial values, of a function or a variable, written when they are known.
  struct Address {
    uint64_t at = 0, addend = 0;
    int32_t function = -1, variable = -1;
  };
  std::vector<Address> addresses;
  uint64_t offset = 0;  // in its space, set by layout
  int32_t entry = -1;   // of the module, that declares it; −1: the module itself
  int line = 0;
};

struct Statement {
  std::string_view opcode;             // "ld"
  std::vector<std::string_view> mods;  // "param", "u64"
  std::string_view text;               // "ld.param.u64"
  std::vector<Operand> operands;
  RegId guard = -1;
  bool guard_negated = false;
  int line = 0;
  // "cp.async.bulk" → opcode "cp", modifiers "async", "bulk"; "::" stays inside a modifier.
  void SplitText();
  bool Has(std::string_view mod) const {
    for (std::string_view m : mods)
      if (m == mod) return true;
    return false;
  }
};

struct Label {
  std::string_view name;
  int32_t statement = -1;  // index of the statement it stands before
  int line = 0;
};

// An entry or a function.
struct Entry {
  std::string_view name;
  int line = 0;
  bool function = false;
  std::vector<int32_t> params;   // variables, in order; of a function in its local memory
  std::vector<int32_t> results;  // of a function
  std::vector<std::vector<int32_t>> tables;  // labels that a `brx.idx` chooses from
  std::vector<Statement> body;
  std::vector<Register> registers;
  std::vector<Label> labels;
  uint32_t reqntid[3] = {0, 0, 0};
  uint32_t maxntid[3] = {0, 0, 0};
  uint32_t reqcluster[3] = {0, 0, 0};
  uint32_t maxnreg = 0;
  uint64_t param_bytes = 0;
  uint64_t local_bytes = 0;
  // Static shared memory: what the module declared before, then the function's own.
  uint64_t shared_bytes = 0;
  uint32_t shared_align = 16;  // alignment the dynamic part asks for
};

struct PtxModule {
  std::string text;
  std::string target;
  std::vector<Variable> variables;  // module scope and function scope
  std::vector<Entry> entries;
  // Every function that is named: `body` in `functions`, −1 if it is somebody else's.
  struct Function {
    std::string_view name;
    int32_t body = -1;
    bool declared = false;
    bool address = false;  // among initial values
    int line = 0;
  };
  std::vector<Function> function_names;
  std::vector<Entry> functions;
  // From `.loc`: the place in the source that a line of PTX comes from. Sorted by line.
  std::vector<LineNote> notes;
  uint64_t shared_bytes = 0;   // static shared memory outside of entries
  uint32_t shared_align = 16;  // alignment the dynamic part asks for
};

enum class Special : uint8_t {
#define SPECIAL(name, text, type) k##name,
#include "runtime/emulator/specials.def"
#undef SPECIAL
  kCount
};
// "%tid.x" → Special as a number, −1 if unknown.
int SpecialFromName(std::string_view name);
Type SpecialType(Special s);

// Where diagnostics about PTX lines point.
struct PtxPlaces {
  std::string name;
  std::vector<LineNote> notes;
  std::vector<LoadOptions::Role> roles;
  std::vector<LoadOptions::Shared> shared;
  DiagBuilder At(DiagBuilder builder, int line) const;
  std::string Describe(int line) const;   // "kernel.ptx:12 (gemm.tile:3:1)"
  std::string Source(int line) const;     // "gemm.tile:3:1"; empty: unknown
  std::string Role(uint32_t warp) const;  // of a CTA's warp; empty: unknown
  // "slot 2 of 7 of A"; empty: unknown.
  std::string Shared(uint64_t begin, uint64_t end) const;
};

Result<std::unique_ptr<PtxModule>> ParsePtx(const std::string& text, const PtxPlaces& places,
                                            DiagSink& diags);

}  // namespace tilec::runtime::emulator
