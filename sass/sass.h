// Does the machine code run what the program orders? A plan puts work between the issue of an
// asynchronous product and its wait, and the PTX has it there. Products, copies and accesses of
// shared memory are held there: that they run under the product is a claim. Arithmetic is not: the
// wait has no register inputs in SASS, so ptxas may move it past, and where it ends up is counted
// and not claimed. Nor are accesses of global memory, which have passed waits.
//
// Here both texts are read, what stands under every product of every loop is counted by
// kind, and the counts are compared. No kernel and no order is known by name.
//
//   ReadPtx(ptx), ReadSass(nvdisasm's text) → Listing → Compare → Report → ToText, ToJson
//
// Second, the same walk over the SASS finds registers of a product in flight that are written.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "support/diag.h"
#include "support/result.h"

namespace tilec::sass {

// ---- what is counted (kinds.def) --------------------------------------------------------------

enum class Kind : int {
#define KIND(Name, ...) k##Name,
#include "sass/kinds.def"
#undef KIND
  kCount
};
inline constexpr int kKinds = static_cast<int>(Kind::kCount);
const char* NameOf(Kind kind);
bool KeepsItsSide(Kind kind);  // of a wait: what is under a product in the PTX is claimed

// ---- texts -------------------------------------------------------------------------------------

// Registers of a thread, of the SASS: `count` from `first` on.
struct Registers {
  int first = -1, count = 0;
  bool Meets(const Registers& other) const {
    return count > 0 && other.count > 0 && first < other.first + other.count &&
           other.first < first + count;
  }
};

struct Instr {
  std::string text;     // blanks made one; without `;`
  int line = 0;         // of the listing, from 1
  int64_t address = 0;  // SASS
  int source = 0;       // PTX: the `.loc` above it
  int kind = -1;        // a Kind; −1: counted nowhere
  // Asynchronous products, and what ends them.
  bool product = false, commit = false;
  int wait = -1;       // groups that may stay in flight
  std::string shape;   // of a product: "64x128x16", and "RS" where A comes from registers
  std::string turned;  // which of its operands lie transposed in shared memory: "", "A", "B", "AB"
  // Where it goes next.
  std::string target;         // of a branch
  bool falls_through = true;  // the next instruction may follow
  // SASS: what it writes and reads; of a product its operands.
  Registers writes, a, d;
  std::vector<Registers> reads;
  bool spill = false;
  bool select = false;  // between two numbers: tells a version with masks from one without
};

struct Block {
  int begin = 0, end = 0;  // of instructions, half open
  std::vector<int> next;
};

struct Loop {
  int header = 0;  // a block
  // In an order in which an iteration can run them: of two ways, all of the one whose first block
  // stands first in the text, then the other.
  std::vector<int> blocks;
};

// The code of one kernel.
struct Listing {
  std::string name;
  std::vector<Instr> code;
  std::vector<Block> blocks;
  std::vector<Loop> loops;  // innermost loops that contain products, in the order of the text
  int unknown = 0;          // SASS instructions that nvdisasm left out and nothing is known of
};

// The first entry of a PTX text. Functions beside it are read along.
Result<Listing> ReadPtx(const std::string& text, DiagSink& diags);
// What nvdisasm prints of a kernel, with labels or with addresses, and its code: nvdisasm leaves
// out instructions that it does not know, 11.8 all products of 8-bit floats; they are read from
// `code`, as far as it takes. Without it they are unknown.
Result<Listing> ReadSass(const std::string& text, const std::string& code, DiagSink& diags);

// ---- overlaps ----------------------------------------------------------------------------------

// Reads that are issued in front of the products instead of under them have more time, not less.
// What may pass a wait and is not all under them has moved; a claim that is not is lost, or a part
// of it.
enum class Verdict { kStands, kEarlier, kPartly, kLost, kMoved };

// Instructions of one kind under one group of products.
struct Overlap {
  Kind kind{};
  int claimed = 0;   // of them under the group in the PTX
  int in_ptx = 0;    // that an iteration has in the PTX
  int expected = 0;  // of those that the SASS has: claimed, or all where it has fewer
  int found = 0;     // under the group in the SASS
  int in_sass = 0;   // that an iteration has in the SASS
  Verdict verdict{};
};

// Products that are committed together.
struct Group {
  int products = 0;
  std::string shape;
  int source = 0;  // line of the .tile file; 0: unknown
  // A loop may have a version with masks and one without: which of those with such products.
  int version = 1, versions = 1;
  std::vector<Overlap> overlaps;
};

// One version of a loop with products.
struct LoopReport {
  int source = 0;      // line of the first thing that it does; 0: unknown
  bool found = false;  // the SASS has a loop with these products
  std::vector<Group> groups;
  int ptx_instructions = 0, sass_instructions = 0;
  int idle = 0;  // SASS instructions with no product in flight
  int waits = 0, sass_waits = 0;
  int spills = 0;  // SASS stores to and loads from local memory
};

// A register of a product in flight is written, or its result is used.
struct Hazard {
  enum class What { kOverwritesA, kOverwritesD, kReadsD };
  What what{};
  int line = 0, product_line = 0;  // of the SASS
  std::string text, product;
};

struct Report {
  std::string kernel;
  bool from_registers = false;  // some products read A from there
  std::vector<LoopReport> loops;
  int loops_besides = 0;  // loops of the SASS with products that stand for none of the PTX
  std::vector<Hazard> hazards;
  int unknown = 0;  // instructions of the SASS that could not be read
  int claims = 0, standing = 0, earlier = 0, partly = 0, lost = 0;
  int free = 0, moved = 0;  // rows of what may pass a wait; of them those that moved
};

// Has it products with A in registers?
bool ReadsFromRegisters(const Listing& ptx);
Report Compare(const Listing& ptx, const Listing& sass);
std::vector<Hazard> FindHazards(const Listing& sass);

// ---- the report in words -----------------------------------------------------------------------

// What ptxas said of the kernel.
struct Assembly {
  std::string ptxas;                 // version
  int registers = 0, spilled = 0;    // bytes of stores and loads
  std::vector<std::string> remarks;  // C75xx
};

// ptxas before this version is reported to let registers of A be reused too early.
inline constexpr const char* kMendedPtxas = "13.1.80";
// Of versions as "13.0.88"; an empty one is older than all.
bool OlderThan(const std::string& version, const std::string& other);

std::string ToText(const Report& report, const Assembly& assembly);
std::string ToJson(const Report& report, const Assembly& assembly);
// One line for each overlap, that a file of expectations can hold.
std::string ToLines(const Report& report);

// ---- nvdisasm ----------------------------------------------------------------------------------

// Where to look, in this order; nothing here reads the environment.
struct NvdisasmSearch {
  std::string path;       // an explicit file; if set, nothing else is tried
  std::string cuda_home;  // <cuda_home>/bin/nvdisasm
  std::string ptxas;      // beside it
  std::string path_list;  // $PATH
};
// The file, or "" if there is none.
std::string FindNvdisasm(const NvdisasmSearch& search);

// The code of the first kernel of a cubin. Read here and not by nvdisasm: that of CUDA 12 takes no
// cubin of CUDA 13, whose code it reads.
Result<std::string> CodeOf(const std::string& cubin, DiagSink& diags);
// As text. `target` is that of the kernel, "sm_90a".
Result<std::string> Disassemble(const std::string& code, const std::string& target,
                                const std::string& nvdisasm, DiagSink& diags);

}  // namespace tilec::sass
