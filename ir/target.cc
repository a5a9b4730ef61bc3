// What passes, scheduler and lowering ask a machine, and how a machine is found.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/target.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <iterator>
#include <optional>

#include "ir/diagnostics.h"
#include "ir/isa.h"
#include "support/architecture.h"
#include "support/expr.h"
#include "support/file.h"
#include "support/nearest.h"

namespace tilec::ir {

namespace {

constexpr uint64_t kMostMachineBytes = 4 << 20;

std::string Only(std::string_view text, bool digits) {
  std::string out;
  for (char c : text)
    if (std::isdigit(static_cast<unsigned char>(c)) ? digits : !digits)
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

// Another letter or another digit makes another machine, a digit too few or too many a typo: who
// says b200 does not mean h200.
bool MayMean(std::string_view said, std::string_view machine) {
  constexpr size_t kWord = 3;  // letters from which on they are a word
  const std::string letters = Only(said, false), digits = Only(said, true);
  const std::string its_digits = Only(machine, true);
  return (letters.size() > kWord || letters == Only(machine, false)) &&
         (digits == its_digits || digits.size() != its_digits.size());
}
}  // namespace

const char* Spelling(Evidence evidence) {
  switch (evidence) {
    case Evidence::kMeasured: return "measured";
    case Evidence::kDocumented: return "documented";
    case Evidence::kAssumed: return "assumed";
  }
  return "";
}

Linear Linear::Times(double factor) const {
  return {factor * base,
          {factor * per.flops, factor * per.elements, factor * per.bytes, factor * per.steps,
           factor * per.rows}};
}

int64_t Linear::At(const Work& work) const {
  double sum = base;
  for (const auto& [name, member] : kQuantities) sum += per.*member * work.*member;
  // A hair below, so that 0.1 · 10 is 1.
  return static_cast<int64_t>(std::ceil(sum - 1e-6));
}

// Operands are of one type, but that 8-bit ones of one kind may be mixed; integers add up as i32,
// everything else as f32.
bool Target::Multiplies(DType a, DType b, DType sum) const {
  if (matrix_unit.dtypes.count(a) == 0 || matrix_unit.dtypes.count(b) == 0) return false;
  const bool mixed = ByteSize(a) == 1 && ByteSize(b) == 1 && IsInteger(a) == IsInteger(b);
  return (a == b || mixed) && sum == Info(a).accumulator;
}

// The most specific row: "dot.8", then "dot", then "*".
const OpCost* Target::CostOf(std::string_view op) const {
  auto named = [&](std::string_view name) -> const OpCost* {
    for (const OpCost& cost : ops)
      if (std::find(cost.ops.begin(), cost.ops.end(), name) != cost.ops.end()) return &cost;
    return nullptr;
  };
  if (const OpCost* cost = named(op)) return cost;
  for (size_t dot; (dot = op.rfind('.')) != op.npos;) {
    op = op.substr(0, dot);
    if (const OpCost* cost = named(op)) return cost;
  }
  return named("*");
}

const OpCost* Target::CostOfKind(std::string_view kind) const {
  for (const OpCost& cost : ops)
    if (cost.kind == kind) return &cost;
  return nullptr;
}

int64_t Target::Transfer(std::string_view medium, double bytes) const {
  Work work;
  work.bytes = bytes;
  for (const TargetTransfer& transfer : transfers)
    if (transfer.medium == medium) return transfer.cycles.At(work);
  return 0;
}

int64_t Target::RegistersAtLaunch(int64_t warps) const {
  // Each of the four sub-cores has a quarter of the registers, and every fourth warp: nine warps
  // leave one of twelve's to each (ptxas 13.0: 168).
  const int64_t each =
      limits.registers / (isa::kWarpThreads * RoundUp(warps, isa::kWarpgroupWarps));
  return std::min(limits.regs_per_thread, each) / isa::kQuotaStep * isa::kQuotaStep;
}

int64_t Target::ComputeQuota(int64_t groups) const {
  if (!Has("setmaxnreg")) return RegistersAtLaunch(isa::kWarpgroupWarps * groups + 1);
  const int64_t each = RegistersAtLaunch(isa::kWarpgroupWarps * (groups + 1));
  const int64_t quota = (each * (groups + 1) - isa::kLeastQuota) / groups;
  return std::min(limits.max_regs_per_thread, quota) / isa::kQuotaStep * isa::kQuotaStep;
}

int64_t Target::CtasPerSm(int64_t threads, int64_t register_count, int64_t smem_bytes) const {
  return std::max<int64_t>(
      1, std::min({limits.max_ctas_per_sm, limits.max_threads_per_sm / threads,
                   limits.registers / (register_count * threads),
                   limits.smem_bytes_per_sm / (smem_bytes + limits.smem_reserved_bytes)}));
}

int64_t Target::RowBytes(int64_t ctas) const {
  return std::min(limits.smem_bytes, limits.smem_bytes_per_sm / ctas - limits.smem_reserved_bytes) -
         lowering.beside_rows_bytes;
}

int CapabilityOf(std::string_view arch, bool* specific) {
  return tilec::CapabilityOf(arch, specific);
}

Result<Target> LoadBuiltinTarget(std::string_view name, DiagSink& diags) {
  const std::string_view text = BuiltinMachineText(name);
  if (!text.empty()) return ParseTarget(text, -1, diags);
  DiagBuilder builder =
      diags.Report(kUnknownMachine, Span{}, std::string(name)).Place("command line");
  const std::vector<std::string> all = BuiltinMachines();
  std::vector<std::string> alike;
  std::copy_if(all.begin(), all.end(), std::back_inserter(alike),
               [&](const std::string& machine) { return MayMean(name, machine); });
  const std::string near = NearestName(name, alike);
  builder.Help(near.empty()
                   ? fmt::format("use {}, or a file: --target=./mine.toml", fmt::join(all, ", "))
                   : fmt::format("did you mean `{}`?", near));
  return builder;
}

bool NamesMachineFile(std::string_view said) {
  return said.find_first_of("./") != std::string_view::npos;
}

Result<Target> ReadTarget(const std::string& said, SourceMap& sources, DiagSink& diags) {
  if (NamesMachineFile(said)) {
    std::string text, why;
    if (!ReadFile(said, &text, &why, kMostMachineBytes))
      return diags.Report(kMachineUnreadable, Span{}, said, why).Place("command line");
    const int32_t file = sources.Add(said, std::move(text));
    return ParseTarget(sources.text(file), file, diags);
  }
  if (said.compare(0, 3, "sm_") != 0) return LoadBuiltinTarget(said, diags);
  std::vector<std::string> archs;
  for (const std::string& name : BuiltinMachines()) {
    TRY(Target target, LoadBuiltinTarget(name, diags));
    if (target.arch == said && target.stands_for_arch) return target;
    if (target.stands_for_arch) archs.push_back(target.arch);
  }
  return diags.Report(kUnknownMachine, Span{}, said)
      .Place("command line")
      .Help(fmt::format("of architectures there are {}", fmt::join(archs, ", ")));
}

Result<Target> TargetOfDevice(const std::string& arch, std::string_view name, DiagSink& diags) {
  bool specific = false;
  const int capability = CapabilityOf(arch, &specific);
  std::optional<Target> called, stands, older;
  size_t letters = 0;
  for (const std::string& builtin : BuiltinMachines()) {
    TRY(Target target, LoadBuiltinTarget(builtin, diags));
    for (const std::string& device : target.devices)
      if (target.arch == arch && device.size() > letters &&
          name.find(device) != std::string_view::npos)
        called = target, letters = device.size();
    if (!target.stands_for_arch) continue;
    const int its = CapabilityOf(target.arch, &specific);
    // Code for an architecture with a suffix runs on no other.
    const bool runs = !specific && its <= capability;
    bool ignored = false;
    if (target.arch == arch)
      stands = target;
    else if (runs && (!older || CapabilityOf(older->arch, &ignored) < its))
      older = target;
  }
  if (called) return *std::move(called);
  if (stands) return *std::move(stands);
  if (!older)
    return diags.Report(kDeviceTooOld, Span{}, std::string(name), arch).Place("command line");
  diags.Report(kDeviceOfNoMachine, Span{}, std::string(name), arch, older->name, older->arch)
      .Place("command line");
  return *std::move(older);
}

}  // namespace tilec::ir
