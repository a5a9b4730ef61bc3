// A kernel as the machine executes it: decoded instructions, the bank of constants that all warps
// share, functions and what calls need, and what of the text could not be decoded.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/emulator/diagnostics.h"
#include "runtime/emulator/judge/registers.h"
#include "runtime/emulator/ptx_ast.h"
#include "runtime/emulator/tcgen05_inst.h"
#include "runtime/emulator/wgmma.h"

namespace tilec::runtime::emulator {

struct Warp;
struct Cta;
struct Cluster;
struct Inst;

// kNext: go to pc + 1. kJump: the handler set pc. kBlock: the handler set w.wait. kYield: like
// kNext, but let others run. kRetry: run again later. kDone: no lane of this path is left.
enum class Step : uint8_t { kNext, kJump, kBlock, kYield, kRetry, kDone, kError };
using Handler = Step (*)(Warp& w, const Inst& i, uint32_t mask);

inline constexpr uint32_t kNoGuard = 0xffffffffu;
inline constexpr uint32_t kConstBit = 0x80000000u;
inline constexpr uint64_t kQuantum = 50000;     // instructions of an undisturbed turn
inline constexpr uint64_t kPollLimit = 100000;  // fruitless polls without any change in the CTA
// Lanes that are left behind: how often in a warp, for how many instructions of the cluster.
inline constexpr uint32_t kMostPartings = 8;
inline constexpr uint64_t kLongestParting = 1 << 18;

struct alignas(64) Inst {
  Handler run = nullptr;
  uint32_t o[7] = {};  // row offsets, in the order of the operands; lists: index
  int32_t line = 0;
  uint64_t imm = 0;
  uint32_t guard = kNoGuard;  // offset of a predicate
  uint32_t text = 0;          // index into Program::texts
  uint8_t guard_negated = 0;
  uint8_t u[7] = {};  // meaning depends on the handler
};
static_assert(sizeof(Inst) == 64);

// A special register a kernel reads, and where its row is.
struct SpecialUse {
  Special special;
  uint32_t row;
};

// A lane-wise instruction with a floating-point result in o[0] and operands in o[1 …].
struct FloatResult {
  uint32_t pc, sources;
  bool wide;
};

struct Program {
  std::string name;
  std::vector<Inst> code;          // ends with a `ret`
  std::vector<uint32_t> lists;     // count, then row offsets
  std::vector<uint8_t> constants;  // rows; copied into an aligned bank
  // Rows that are addresses of shared memory: each CTA of a cluster has its rank in them.
  std::vector<std::pair<uint32_t, bool>> shared_addresses;  // offset, 64 bits wide
  std::vector<std::string> texts;                           // opcodes, for messages
  std::vector<WgmmaShape> wgmma;
  std::vector<TensorInst> tensor;
  std::vector<SpecialUse> specials;
  std::vector<std::pair<uint32_t, uint32_t>> params;  // offset, bytes
  struct Named {
    std::string name;                          // demangled
    uint64_t begin = 0, end = 0, element = 1;  // bytes of shared memory
  };
  std::vector<Named> shared;  // variables, for reports
  struct Refusal {
    const DiagDef* def;
    std::string message;
    std::vector<std::string> notes;
  };
  std::vector<Refusal> refusals;  // of instructions that the emulator lacks
  // Functions that the entry may call. Parameters and results: offset in the frame, bytes.
  using Places = std::vector<std::pair<uint64_t, uint64_t>>;
  struct Function {
    std::string name;
    uint32_t start = 0;
    uint32_t frame_row = 0;  // where the frame begins in local memory, 64 bits
    uint64_t frame_bytes = 0;
    bool recursive = false;                               // a call may come back to it
    std::vector<std::pair<uint32_t, uint8_t>> registers;  // of a recursive one: row, bits
    Places params, results;
  };
  struct Call {
    int32_t function = -1;   // −1: of an address
    int32_t service = -1;    // of the runtime: a Service
    int32_t caller = -1;     // −1: the entry
    Places params, results;  // in the caller's frame
  };
  std::vector<Function> functions;
  std::vector<int32_t> function_of;  // by the module's numbers; −1: not reachable
  std::vector<Call> calls;
  std::vector<uint32_t> bodies;             // where functions and the entry begin
  uint32_t start = 0;                       // of the entry
  uint32_t register_bytes = 0;              // per warp
  judge::RegisterMap watched;               // registers that wgmma works on
  judge::RegisterMap loaded;                // … that tcgen05.ld writes
  std::vector<uint32_t> unfenced_controls;  // pcs of relaxed loads, ascending
  std::vector<FloatResult> floats;          // by pc, ascending
  uint64_t param_bytes = 0;
  uint64_t local_bytes = 0;  // per thread, with the stack of its calls
  uint64_t stack_bytes = 0;  // of those, what the calls may take
  uint64_t shared_static = 0;
  uint64_t dynamic_offset = 0;   // where dynamic shared memory begins
  bool order_sensitive = false;  // global atomics whose result depends on the order of CTAs
  bool tells_time = false;       // reads a clock: what it writes may depend on the order
  bool cancels = false;          // takes over clusters that have not begun
  bool tensor_sums = false;      // tensor reductions; the map says whether of floats
  uint32_t reqntid[3] = {}, maxntid[3] = {}, reqcluster[3] = {};
  uint32_t maxnreg = 0;
};

}  // namespace tilec::runtime::emulator
