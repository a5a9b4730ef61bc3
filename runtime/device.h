// Device: where kernels run. Two implementations: `cuda` (driver API found at run time,
// runtime/cuda_device.cc) and `emulator` (in-process PTX executor, runtime/emulator/). Both take
// *any* PTX text, both build and validate tensor maps, so every test can run on either.
//
// All memory handles are 64-bit addresses in the device's own space (for the emulator they are
// host pointers into its allocations, still only to be touched through Copy*). Errors are
// diagnostics in the sink passed to the call (codes R5xx), never exceptions.
//
// A Device is thread-safe unless a method says otherwise.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/execution.h"
#include "runtime/machine_limits.h"
#include "support/diag.h"
#include "support/result.h"

namespace tilec::runtime {

namespace judge {
class Report;  // runtime/emulator/judge/finding.h
}

using DeviceAddress = uint64_t;

// What cuTensorMapEncodeTiled takes; dims, strides and box innermost first.
struct TensorMapDesc {
  std::string dtype;  // "bf16", "f16", "f32", "tf32", "e4m3", "s8", "i8", "u8", …; "u4": two a byte
  DeviceAddress base = 0;
  std::vector<uint64_t> dims;             // elements, 1…5 of them
  std::vector<uint64_t> strides_bytes;    // rank − 1
  std::vector<uint32_t> box;              // elements, 1…256 each
  std::vector<uint32_t> element_strides;  // empty: all 1
  int swizzle_bytes = 0;                  // 0, 32, 64, 128
  int swizzle_atom = 16;                  // bytes that stay together: 16; of 128: 32, too
  int l2_promotion_bytes = 0;             // 0, 64, 128, 256
  bool fill_nan = false;                  // out-of-bounds elements: false 0, true NaN
};

// Opaque to everyone but the device that encoded it.
struct alignas(128) TensorMap {
  uint8_t bytes[128] = {};
};

struct LaunchConfig {
  uint32_t grid[3] = {1, 1, 1};
  uint32_t block[3] = {1, 1, 1};
  uint32_t cluster[3] = {1, 1, 1};
  uint64_t smem_bytes = 0;
  // It may begin while the grid before it in its stream ends: it waits for that one itself. Also if
  // it has a CTA for every multiprocessor?
  bool dependent = false, dependent_if_full = false;
};

// One kernel argument: bytes in the layout of the PTX entry's parameter, in order.
struct KernelArg {
  std::vector<uint8_t> bytes;
  template <typename T>
  static KernelArg Of(const T& v) {
    KernelArg a;
    const auto* p = reinterpret_cast<const uint8_t*>(&v);
    a.bytes.assign(p, p + sizeof(T));
    return a;
  }
};

// PTX line → text naming the .tile place of it and the lines behind it up to the next note, for
// reports ("gemm.tile:12:5 (dot)"). No text: not known.
struct LineNote {
  int ptx_line = 0;
  std::string text;
};

struct LoadOptions {
  std::string name = "kernel.ptx";  // how diagnostics call the text
  std::vector<LineNote> lines;      // optional source map, sorted by ptx_line
  std::string_view cubin;           // optional machine code of the text, for devices that take it
  // Optional, for reports: what warps and places in shared memory are called.
  struct Role {
    std::string name;
    uint32_t first_warp = 0, warps = 0;
  };
  struct Shared {
    std::string name;
    uint64_t offset = 0, bytes = 1, slots = 1;  // bytes: of one slot
  };
  std::vector<Role> roles;
  std::vector<Shared> shared;
};

// A loaded module; unloaded when destroyed. Must not outlive its device.
class Module {
 public:
  virtual ~Module() = default;
  virtual std::vector<std::string> entries() const = 0;
};

// Work is ordered within a stream; stream 0 always exists.
using StreamId = int32_t;

struct LaunchStats {
  double milliseconds = 0;         // device time on cuda, host time of the run on the emulator
  uint64_t warp_instructions = 0;  // emulator only
  bool order_sensitive = false;    // emulator only: atomics make the order of CTAs count
  LaunchStats& operator+=(const LaunchStats& other) {
    milliseconds += other.milliseconds;
    warp_instructions += other.warp_instructions;
    order_sensitive = order_sensitive || other.order_sensitive;
    return *this;
  }
};

// Launches that run one after the other, handed to the device as one. Not to outlive the device
// or the modules.
class LaunchGraph {
 public:
  virtual ~LaunchGraph() = default;
  // Behind those that were added before; its number counts from 0.
  virtual Result<> Add(const Module& module, const std::string& entry, const LaunchConfig& config,
                       const std::vector<KernelArg>& args, DiagSink& diags) = 0;
  // Other arguments of the same sizes, from the next Run on.
  virtual Result<> Replace(size_t number, const std::vector<KernelArg>& args, DiagSink& diags) = 0;
  virtual Result<> Run(StreamId stream, DiagSink& diags) = 0;
};

// Time on a stream by the device's own clock.
class Stopwatch {
 public:
  virtual ~Stopwatch() = default;
  virtual Result<> Start(StreamId stream, DiagSink& diags) = 0;
  // Waits for the stream; milliseconds since the last Start.
  virtual Result<double> Stop(StreamId stream, DiagSink& diags) = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string kind() const = 0;         // "cuda" or "emulator"
  virtual std::string description() const = 0;  // one line for people
  virtual std::string isa() const = 0;          // newest PTX target it executes, "sm_90a"

  virtual Result<DeviceAddress> Alloc(uint64_t bytes, DiagSink& diags) = 0;  // 256-byte aligned
  virtual void Free(DeviceAddress address) = 0;
  virtual Result<> CopyIn(DeviceAddress to, const void* from, uint64_t bytes, DiagSink& diags) = 0;
  virtual Result<> CopyOut(void* to, DeviceAddress from, uint64_t bytes, DiagSink& diags) = 0;
  virtual Result<> Fill(DeviceAddress to, uint8_t byte, uint64_t bytes, DiagSink& diags) = 0;

  virtual Result<std::unique_ptr<Module>> Load(const std::string& ptx, const LoadOptions& options,
                                               DiagSink& diags) = 0;
  virtual Result<TensorMap> EncodeTensorMap(const TensorMapDesc& desc, DiagSink& diags) = 0;
  // `map` was encoded from `desc`, or from that at another base; it is to begin at `base`.
  virtual Result<> MoveTensorMap(TensorMap* map, const TensorMapDesc& desc, DeviceAddress base,
                                 DiagSink& diags) {
    TensorMapDesc moved = desc;
    moved.base = base;
    TRY(*map, EncodeTensorMap(moved, diags));
    return Done();
  }

  virtual Result<StreamId> NewStream(DiagSink& diags) = 0;
  // A stream the host program made (a CUstream); it stays the host's. nullopt: no such thing here.
  virtual std::optional<StreamId> AdoptStream(void* /*native*/) { return std::nullopt; }
  // Asynchronous on cuda; the emulator runs before it returns. `stats` (may be null) is filled by
  // a synchronous, timed launch.
  virtual Result<> Launch(const Module& module, const std::string& entry,
                          const LaunchConfig& config, const std::vector<KernelArg>& args,
                          StreamId stream, LaunchStats* stats, DiagSink& diags) = 0;
  virtual Result<> Synchronize(StreamId stream, DiagSink& diags) = 0;
  // Null where there is no such clock: an emulator's speed is its host's. Not to outlive the
  // device.
  virtual std::unique_ptr<Stopwatch> NewStopwatch() { return nullptr; }
  // Null where several launches are no less work than each alone.
  virtual std::unique_ptr<LaunchGraph> NewGraph() { return nullptr; }
};

struct EmulatorOptions {
  enum class Arithmetic { kFast, kExact };
  Arithmetic arithmetic = Arithmetic::kFast;
  MachineLimits machine;
  uint64_t seed = 0;  // elect.sync lane, spurious try_wait, policy, landing
  Policy policy = Policy::kRunToBlock;
  Landing landing = Landing::kEarly;
  int pct_depth = 3;  // Policy::kPct: its change points plus one
  bool spurious_try_wait = false;
  std::shared_ptr<Execution> record;        // gets the decisions of each launch
  std::shared_ptr<const Execution> replay;  // its decisions; the settings above stay as they are
  int threads = 0;                          // 0: hardware concurrency
  uint64_t memory_limit_bytes = 8ull << 30;
  uint64_t instruction_limit = 0;  // warp instructions per launch; 0: none
  // The judge (docs/emulator.md): every launch adds what it finds to `report`, which must be set.
  // A checked launch runs on one thread.
  enum class Check { kOff, kOn };
  Check check = Check::kOff;
  std::shared_ptr<judge::Report> report;
  bool check_numbers = false;  // N1: the first NaN or infinity
  bool check_banks = false;    // B1: bank conflicts
  // Gets what kernels print, whole calls of printf; from several threads. Unset: nobody does.
  std::function<void(std::string_view)> print;
};

// runtime/emulator/device.cc
std::unique_ptr<Device> OpenEmulator(const EmulatorOptions& options = {});
// runtime/cuda_device.cc: fails with R5xx and a clear message where there is no driver.
Result<std::unique_ptr<Device>> OpenCuda(int ordinal, DiagSink& diags);

}  // namespace tilec::runtime
