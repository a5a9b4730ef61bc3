// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure.h"

#include <algorithm>

namespace tilec::calibrate {

namespace {

constexpr uint64_t kOutBytes = 4 << 20;  // results, and a place of each thread's own to throw away
constexpr uint64_t kWideRow = 128;

double MedianOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

class Runner {
 public:
  Runner(runtime::Device& device, const MeasureOptions& options, DiagSink& diags)
      : device_(device), options_(options), diags_(diags) {}
  ~Runner() {
    device_.Free(out_);
    device_.Free(rows_);
  }

  Result<> Allocate(const std::vector<Probe>& probes) {
    uint64_t most = 1;
    for (const Probe& p : probes) most = std::max(most, p.box.tensor_rows);
    TRY(out_, device_.Alloc(kOutBytes, diags_));
    TRY(rows_, device_.Alloc(most * kWideRow, diags_));
    return device_.Fill(rows_, 0x3C, most * kWideRow, diags_);
  }

  Result<double> Run(const Probe& p) {
    TRY(const auto module, device_.Load(p.ptx, {p.name + ".ptx", {}}, diags_));
    runtime::TensorMap map;
    if (p.box.rows > 0) {
      runtime::TensorMapDesc desc;
      desc.dtype = "bf16";
      desc.base = rows_;
      desc.dims = {kWideRow / 2, p.box.tensor_rows};
      desc.strides_bytes = {kWideRow};
      desc.box = {kWideRow / 2, static_cast<uint32_t>(p.box.rows)};
      desc.swizzle_bytes = 128;
      TRY(map, device_.EncodeTensorMap(desc, diags_));
    }
    const uint32_t trips =
        options_.most_trips > 0 ? std::min(p.trips, options_.most_trips) : p.trips;
    std::vector<double> results;
    for (int i = 0; i <= options_.repeats; ++i) {
      TRY(const double once, Launch(*module, p, map, trips));
      double cycles = once;
      if (p.kind == Kind::kSlope) {
        TRY(const double twice, Launch(*module, p, map, 2 * trips));
        cycles = (twice - once) / trips;
      }
      if (i > 0) results.push_back((cycles - p.overhead) / p.per_trip);  // the first warms up
    }
    return MedianOf(std::move(results));
  }

 private:
  // The median over CTAs of what they report.
  Result<double> Launch(const runtime::Module& module, const Probe& p,
                        const runtime::TensorMap& map, uint32_t trips) {
    const auto cluster = static_cast<uint32_t>(p.cluster);
    const uint32_t ctas = p.where == Where::kAllSms
                              ? static_cast<uint32_t>(options_.sms) / cluster * cluster
                              : cluster;
    std::vector<runtime::KernelArg> args = {runtime::KernelArg::Of(out_),
                                            runtime::KernelArg::Of(trips)};
    if (p.box.rows > 0) args.push_back(runtime::KernelArg::Of(map));
    runtime::LaunchConfig config;
    config.grid[0] = ctas;
    config.cluster[0] = cluster;
    config.block[0] = static_cast<uint32_t>(p.threads);
    // As much as keeps a second CTA off the SM.
    config.smem_bytes = static_cast<uint64_t>(std::max(p.smem_bytes, 120 << 10));
    TRY_VOID(device_.Launch(module, "probe", config, args, 0, nullptr, diags_));
    TRY_VOID(device_.Synchronize(0, diags_));
    std::vector<uint64_t> raw(2 * ctas);
    TRY_VOID(device_.CopyOut(raw.data(), out_, raw.size() * sizeof raw[0], diags_));
    std::vector<double> cycles;
    for (uint32_t i = 0; i < ctas; i += cluster) cycles.push_back(static_cast<double>(raw[2 * i]));
    return MedianOf(std::move(cycles));
  }

  runtime::Device& device_;
  const MeasureOptions& options_;
  DiagSink& diags_;
  runtime::DeviceAddress out_ = 0, rows_ = 0;
};

}  // namespace

Result<Numbers> Measure(runtime::Device& device, const std::vector<Probe>& probes,
                        const MeasureOptions& options, DiagSink& diags) {
  Runner runner(device, options, diags);
  TRY_VOID(runner.Allocate(probes));
  Numbers out;
  for (const Probe& p : probes) {
    TRY(out[p.name], runner.Run(p));
  }
  return out;
}

}  // namespace tilec::calibrate
