// The emulator's device as a class: device.cc has its memory and modules, device_launch.cc what a
// launch is checked for, set up with and told of. Internal to the folder; runtime/device.h is what
// others open.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/device.h"
#include "runtime/emulator/device_memory.h"
#include "runtime/emulator/handlers.h"
#include "runtime/emulator/tensor_map.h"

namespace tilec::runtime::emulator {

class EmuDevice : public Device {
 public:
  explicit EmuDevice(const EmulatorOptions& options)
      : options_(options), state_(std::make_shared<State>()) {}

  std::string kind() const override { return "emulator"; }
  std::string description() const override {
    return fmt::format(
        "PTX emulator, {} tensor-core arithmetic, {} thread(s)",
        options_.arithmetic == EmulatorOptions::Arithmetic::kExact ? "exact" : "fast", Threads());
  }
  std::string isa() const override {
    return options_.machine.arch.empty() ? "sm_90a" : options_.machine.arch;
  }

  Result<DeviceAddress> Alloc(uint64_t bytes, DiagSink& diags) override;
  void Free(DeviceAddress address) override;
  Result<> CopyIn(DeviceAddress to, const void* from, uint64_t bytes, DiagSink& diags) override;
  Result<> CopyOut(void* to, DeviceAddress from, uint64_t bytes, DiagSink& diags) override;
  Result<> Fill(DeviceAddress to, uint8_t byte, uint64_t bytes, DiagSink& diags) override;

  Result<std::unique_ptr<Module>> Load(const std::string& ptx, const LoadOptions& options,
                                       DiagSink& diags) override;

  Result<TensorMap> EncodeTensorMap(const TensorMapDesc& desc, DiagSink& diags) override {
    return emulator::EncodeTensorMap(desc, diags);
  }

  Result<StreamId> NewStream(DiagSink&) override;
  Result<> Synchronize(StreamId, DiagSink&) override { return Done(); }

  Result<> Launch(const Module& module, const std::string& entry, const LaunchConfig& config,
                  const std::vector<KernelArg>& args, StreamId, LaunchStats* stats,
                  DiagSink& diags) override;
  void Change(const EmulatorOptions& options) { options_ = options; }

 private:
  int Threads() const {
    int n = options_.threads > 0 ? options_.threads
                                 : static_cast<int>(std::thread::hardware_concurrency());
    return std::clamp(n, 1, 64);
  }
  Result<> CheckLaunch(const Program& p, const LaunchConfig& c, DiagSink& diags) const;
  bool Checks() const {
    return options_.check == EmulatorOptions::Check::kOn && options_.report != nullptr;
  }
  void Written(uint64_t address, uint64_t bytes);
  void Forget(uint64_t address);

  EmulatorOptions options_;
  std::shared_ptr<State> state_;
  StreamId streams_ = 0;
};

}  // namespace tilec::runtime::emulator
