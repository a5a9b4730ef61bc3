// A machine, read from a file of ir/machines or of the user's: units, limits, features and what
// each kind of tile op costs on it. A new machine is a new file and no code; passes and the
// scheduler ask for features, limits and costs, never for the machine's name. Every entry says
// whether it was measured, is documented or is assumed, and where it is from.
// docs/adding_a_machine.md describes the format.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "support/diag.h"
#include "support/result.h"

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

struct TargetLimit {
  std::string name;
  int64_t value = 0;
  Origin origin;
};

struct TargetTransfer {
  std::string medium;  // "register", "smem", "tmem"
  Linear cycles;
  Origin origin;
};

struct Target {
  std::string name, title, arch;
  std::set<std::string> features;
  std::vector<TargetLimit> limits;
  std::vector<TargetUnit> units;
  std::vector<OpCost> ops;
  std::vector<TargetTransfer> transfers;

  bool Has(std::string_view feature) const { return features.count(std::string(feature)) > 0; }
  int64_t Limit(std::string_view limit, int64_t absent = 0) const;
  // The row of a tile op: of "dot.8" (products by bits of their operands, reductions by kind,
  // load.gather), else of "dot", else of "*", which every machine has.
  const OpCost* CostOf(std::string_view op) const;
  // The row of a kind; nullptr if there is none.
  const OpCost* CostOfKind(std::string_view kind) const;
  int64_t Transfer(std::string_view medium, double bytes) const;
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

}  // namespace tilec::ir
