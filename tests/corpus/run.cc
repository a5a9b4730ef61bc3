// SPDX-License-Identifier: Apache-2.0
#include "tests/corpus/run.h"

#include "support/source.h"

namespace tilec::corpus {
namespace {

using namespace tilec::runtime;  // NOLINT: a test program

constexpr uint32_t kN = 512;

std::string Text(const DiagSink& diags) {
  SourceMap sources;
  return RenderAll(diags, sources);
}

std::vector<float> Input(uint32_t seed) {
  std::vector<float> v(kN);
  for (uint32_t k = 0; k < kN; ++k) {
    seed = seed * 1664525u + 1013904223u;
    v[k] = static_cast<float>(seed >> 8) * 0x1p-23f - 1;
  }
  return v;
}

// One launch, of pairs of CTAs if the entry asks for that (the diagnostic says so).
void Launch(Device& device, const Module& module, const std::string& entry, bool pair,
            Outcome* out) {
  DiagSink diags;
  std::vector<DeviceAddress> memory;
  for (uint32_t k = 0; k < 3; ++k) {
    const std::vector<float> v = k < 2 ? Input(k + 1) : std::vector<float>(kN);
    const auto at = device.Alloc(kN * sizeof(float), diags);
    if (!at.ok() || !device.CopyIn(*at, v.data(), kN * sizeof(float), diags).ok()) return;
    memory.push_back(*at);
  }
  LaunchConfig config;
  config.grid[0] = 4, config.block[0] = 128, config.cluster[0] = pair ? 2 : 1;
  std::vector<KernelArg> args;
  for (DeviceAddress a : memory) args.push_back(KernelArg::Of(a));
  args.push_back(KernelArg::Of(kN));
  LaunchStats stats;
  const bool ok = device.Launch(module, entry, config, args, 0, &stats, diags).ok();
  out->order_sensitive = stats.order_sensitive;
  for (DeviceAddress a : memory) {
    std::vector<float> v(kN);
    if (ok && device.CopyOut(v.data(), a, kN * sizeof(float), diags).ok())
      out->outputs.insert(out->outputs.end(), v.begin(), v.end());
    device.Free(a);
  }
  if (ok) return;
  const std::string text = Text(diags);
  const bool lacks =
      text.find("E603") != std::string::npos || text.find("E607") != std::string::npos;
  (lacks ? out->refused : out->fault) = text;
}

}  // namespace

Outcome Run(const std::string& text, const std::string& name, const std::string& entry,
            const Plan& plan, uint64_t instruction_limit) {
  Outcome out;
  EmulatorOptions o;
  o.policy = plan.policy, o.landing = plan.landing, o.seed = plan.seed;
  o.spurious_try_wait = plan.spurious;
  o.instruction_limit = instruction_limit;
  o.check = EmulatorOptions::Check::kOn;
  o.report = std::make_shared<judge::Report>();
  const auto device = OpenEmulator(o);
  DiagSink diags;
  LoadOptions options;
  options.name = name;
  const auto module = device->Load(text, options, diags);
  if (!module.ok()) {
    out.refused = Text(diags);
    return out;
  }
  Launch(*device, **module, entry, false, &out);
  if (out.fault.find("the entry requires 2") != std::string::npos) {
    out = {};
    o.report->Clear();
    Launch(*device, **module, entry, true, &out);
  }
  out.findings = o.report->findings();
  return out;
}

std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace tilec::corpus
