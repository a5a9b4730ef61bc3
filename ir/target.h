// A machine, read from a file of ir/machines or of the user's: units, limits, features, what each
// kind of tile op costs on it, and the thresholds that were measured on it. A new machine is a new
// file and no code; passes, scheduler and lowering ask for features, limits and costs, never for
// the machine's name. Every entry says whether it was measured, is documented or is assumed, and
// where it is from. What the PTX ISA fixes for all machines stands in ir/isa.h instead.
// docs/adding_a_machine.md describes the format.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ir/matrix_unit.h"
#include "support/diag.h"
#include "support/result.h"
#include "support/source.h"

namespace tilec::ir {

enum class Evidence { kMeasured, kDocumented, kAssumed };
const char* Spelling(Evidence evidence);

struct Origin {
  Evidence evidence = Evidence::kAssumed;
  std::string source;
};

// How much one op instance does.
struct Work {
  double flops = 0;     // of a product: 2·M·N·K
  double elements = 0;  // of the op's largest tile
  double bytes = 0;     // moved
  double steps = 0;     // instructions of the tensor core
  double rows = 0;      // results of a reduction
};

// The same by name, as machine files have them.
inline constexpr std::pair<const char*, double Work::*> kQuantities[] = {
    {"flops", &Work::flops},
    {"elements", &Work::elements},
    {"bytes", &Work::bytes},
    {"steps", &Work::steps},
    {"rows", &Work::rows}};

// base + Σ coefficient · quantity, in cycles, rounded up.
struct Linear {
  double base = 0;
  Work per;
  int64_t At(const Work& work) const;
  Linear Times(double factor) const;
};

struct TargetUnit {
  std::string name;
  int64_t capacity = 1;
  bool fluid = false;           // shared by interleaving: only the sum over a period is bounded
  int64_t alone_percent = 100;  // of the cycles of its uses when hardly any other SM uses it
  int64_t full_clock_percent = 100;  // how busy it may be on all SMs without the clock falling
  Origin origin;
};

struct TargetUse {
  int unit = 0;
  Linear cycles;
};

struct OpCost {
  std::string kind;              // "dot", "fma", "mufu", "tma_load", …
  std::vector<std::string> ops;  // tile ops by mnemonic, see CostOf; "*": all others
  int warps = 4;
  bool async = false;     // completes behind its role's back
  bool variable = false;  // latency too uncertain for a static slot
  Linear issue, latency;
  std::vector<TargetUse> uses;
  Origin origin;
};

// The sections of a machine file, row by row (target_facts.def); all are given by every machine.
struct TargetLimits {
#define LIMIT(name, ...) int64_t name = 0;
#include "ir/target_facts.def"
};
struct TargetModel {
#define MODEL(type, name, ...) type name = 0;
#include "ir/target_facts.def"
};
struct TargetLowering {
#define LOWERING(type, name, ...) type name = 0;
#include "ir/target_facts.def"
};
struct TargetRegisters {
#define REGISTERS(type, name, ...) type name = 0;
#include "ir/target_facts.def"
};

// [matrix_unit]: what multiplies tiles, and which types it multiplies on this machine. A machine
// without the section has none: products are multiply-adds.
struct TargetMatrixUnit {
  MatrixUnit kind = MatrixUnit::kNone;
  std::set<DType> dtypes;
  Origin origin;
};

struct TargetTransfer {
  std::string medium;  // "register", "smem", "tmem"
  Linear cycles;
  Origin origin;
};

struct Target {
  std::string name, title, arch;
  bool stands_for_arch = false;  // it is meant where only its architecture is named
  std::set<std::string> features;
  TargetLimits limits;
  TargetModel model;
  TargetLowering lowering;
  TargetRegisters registers;
  TargetMatrixUnit matrix_unit;
  std::map<std::string, Origin> origins;  // of the numbers above, by "section.name"
  std::vector<TargetUnit> units;
  std::vector<OpCost> ops;
  std::vector<TargetTransfer> transfers;

  // Does the matrix unit multiply such operands and add them up as `sum`?
  bool Multiplies(DType a, DType b, DType sum) const;
  const MatrixUnitInfo& unit() const { return Info(matrix_unit.kind); }
  bool Has(std::string_view feature) const { return features.count(std::string(feature)) > 0; }
  // The row of a tile op: of "dot.8" (products by bits of their operands, reductions by kind,
  // load.gather), else of "dot", else of "*", which every machine has.
  const OpCost* CostOf(std::string_view op) const;
  // The row of a kind; nullptr if there is none.
  const OpCost* CostOfKind(std::string_view kind) const;
  int64_t Transfer(std::string_view medium, double bytes) const;

  // 32-bit registers of a thread of a launch of that many warps, in whole quota steps: what the
  // launch gives each, before roles trade them (setmaxnreg).
  int64_t RegistersAtLaunch(int64_t warps) const;
  // The quota of each of `groups` compute warpgroups beside one of loads that keeps the least.
  int64_t ComputeQuota(int64_t groups) const;
  // CTAs of that many threads, registers of a thread and bytes of shared memory side by side on an
  // SM; at least 1.
  int64_t CtasPerSm(int64_t threads, int64_t registers, int64_t smem_bytes) const;
  // Shared memory that a row kernel has for rows, where `ctas` share an SM.
  int64_t RowBytes(int64_t ctas) const;
};

// `file`: the id of `text` in the caller's SourceMap, or −1.
Result<Target> ParseTarget(std::string_view text, int32_t file, DiagSink& diags);
// The file that ParseTarget reads back as `target`.
std::string ToToml(const Target& target);

// The machines that come with the compiler.
std::vector<std::string> BuiltinMachines();
// The text of one, empty if there is none of this name.
std::string_view BuiltinMachineText(std::string_view name);
Result<Target> LoadBuiltinTarget(std::string_view name, DiagSink& diags);

// Does a --target name a file rather than a machine? A name has neither a dot nor a folder.
bool NamesMachineFile(std::string_view said);
// What --target says: a machine's name, an architecture (the machine that stands for it), or a
// file, which becomes a source of `sources`.
Result<Target> ReadTarget(const std::string& said, SourceMap& sources, DiagSink& diags);

}  // namespace tilec::ir
