// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/limits.h"

#include <algorithm>
#include <charconv>

#include "runtime/emulator/diagnostics.h"
#include "runtime/emulator/internal.h"

namespace tilec::runtime::emulator {
namespace {

struct Feature {
  std::string_view words, also;
  int least, most;
  bool specific;
};
constexpr Feature kFeatures[] = {
#define FEATURE(words, also, least, most, specific) {words, also, least, most, specific},
#include "runtime/emulator/features.def"
#undef FEATURE
};

const Feature* FeatureOf(const Statement& s) {
  for (const Feature& f : kFeatures) {
    if (s.text.compare(0, f.words.size(), f.words) != 0) continue;
    const bool whole = s.text.size() == f.words.size() || s.text[f.words.size()] == '.';
    if (whole && (f.also.empty() || s.Has(f.also))) return &f;
  }
  return nullptr;
}

}  // namespace

int CapabilityOf(std::string_view arch, bool* specific) {
  if (arch.substr(0, 3) != "sm_") return 0;
  std::string_view digits = arch.substr(3);
  *specific = !digits.empty() && (digits.back() == 'a' || digits.back() == 'f');
  if (*specific) digits.remove_suffix(1);
  int capability = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), capability);
  return parsed.ec == std::errc() && parsed.ptr == digits.data() + digits.size() ? capability : 0;
}

Result<> CheckFeatures(const PtxModule& module, const MachineLimits& machine,
                       const PtxPlaces& places, DiagSink& diags) {
  bool specific = false, machine_specific = false;
  const int target = CapabilityOf(module.target, &specific);
  if (target == 0) return Done();  // ".target sm_90, debug" is cut before; texts of tests have any
  const int has = CapabilityOf(machine.arch, &machine_specific);
  if (has > 0 && (specific ? target != has : target > has))
    return diags.Report(kWrongTarget, {}, module.target,
                        machine.name.empty() ? "the machine" : machine.name, machine.arch);
  std::vector<const Entry*> bodies;
  for (const Entry& entry : module.entries) bodies.push_back(&entry);
  for (const Entry& function : module.functions) bodies.push_back(&function);
  for (const Entry* body : bodies)
    for (const Statement& s : body->body) {
      const Feature* f = FeatureOf(s);
      if (f == nullptr) continue;
      if (target >= f->least && (f->most == 0 || target <= f->most) && (specific || !f->specific))
        continue;
      return places.At(diags.Report(kMissingFeature, {}, s.text, module.target,
                                    fmt::format("{}sm_{}{}", f->most == f->least ? "" : "from ",
                                                f->least, f->specific ? "a" : "")),
                       s.line);
    }
  return Done();
}

uint32_t RegistersAtLaunch(const MachineLimits& machine, uint32_t maxnreg, uint64_t threads) {
  if (maxnreg != 0) return maxnreg;
  const uint64_t each = machine.registers / std::max<uint64_t>(threads, 1) / 8 * 8;
  // 255 registers are addressed as 256.
  const uint64_t most = machine.regs_per_thread == 255 ? 256 : machine.regs_per_thread / 8 * 8;
  return static_cast<uint32_t>(std::min(each, most));
}

std::string Exceeds(const MachineLimits& machine, const Program& program,
                    const LaunchConfig& config) {
  const uint64_t threads = uint64_t{config.block[0]} * config.block[1] * config.block[2];
  const uint64_t cluster = uint64_t{config.cluster[0]} * config.cluster[1] * config.cluster[2];
  if (cluster > 1 && !machine.clusters)
    return fmt::format("{} CTAs per cluster, and the machine has no clusters", cluster);
  if (program.maxnreg > machine.regs_per_thread)
    return fmt::format("the entry wants {} registers per thread, the limit is {}", program.maxnreg,
                       machine.regs_per_thread);
  const uint64_t whole_warps = (threads + 31) / 32 * 32;
  if (program.maxnreg * whole_warps > machine.registers)
    return fmt::format("{} threads of {} registers, the limit is {} together", whole_warps,
                       program.maxnreg, machine.registers);
  const uint64_t smem = machine.smem_bytes;
  if (config.smem_bytes > smem || program.dynamic_offset + config.smem_bytes > smem ||
      program.shared_static > smem)
    return fmt::format("{} + {} bytes of shared memory, the limit is {}", program.dynamic_offset,
                       config.smem_bytes, smem);
  return "";
}

uint64_t ResidentClusters(const MachineLimits& machine, const LaunchConfig& config,
                          uint64_t smem_bytes, uint32_t maxnreg) {
  const uint64_t threads =
      (uint64_t{config.block[0]} * config.block[1] * config.block[2] + 31) / 32 * 32;
  uint64_t per_sm =
      std::min({uint64_t{machine.ctas_per_sm}, machine.threads_per_sm / threads,
                machine.smem_bytes_per_sm / (smem_bytes + machine.smem_reserved_bytes)});
  if (maxnreg != 0) per_sm = std::min(per_sm, machine.registers / (maxnreg * threads));
  const uint64_t cluster = uint64_t{config.cluster[0]} * config.cluster[1] * config.cluster[2];
  return std::max<uint64_t>(1, machine.sms * std::max<uint64_t>(per_sm, 1) / cluster);
}

}  // namespace tilec::runtime::emulator
