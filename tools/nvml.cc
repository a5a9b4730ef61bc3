// SPDX-License-Identifier: Apache-2.0
#include "tools/nvml.h"

#include <dlfcn.h>

namespace tilec::tools {

namespace {

constexpr unsigned kSmClock = 1;

template <typename F>
void Bind(void* library, const char* symbol, F& to) {
  to = reinterpret_cast<F>(dlsym(library, symbol));
}

}  // namespace

Nvml::Nvml() {
  library_ = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library_) return;
  int (*init)() = nullptr;
  int (*by_index)(unsigned, void**) = nullptr;
  Bind(library_, "nvmlInit_v2", init);
  Bind(library_, "nvmlDeviceGetHandleByIndex_v2", by_index);
  Bind(library_, "nvmlDeviceGetClockInfo", clock_);
  Bind(library_, "nvmlDeviceGetPowerUsage", power_);
  Bind(library_, "nvmlShutdown", shutdown_);
  if (!init || !by_index || init() != 0 || by_index(0, &device_) != 0) device_ = nullptr;
}

Nvml::~Nvml() {
  if (device_ && shutdown_) shutdown_();
  if (library_) dlclose(library_);
}

std::optional<double> Nvml::sm_mhz() const {
  unsigned value = 0;
  if (!device_ || !clock_ || clock_(device_, kSmClock, &value) != 0) return std::nullopt;
  return value;
}

std::optional<double> Nvml::watts() const {
  unsigned milliwatts = 0;
  if (!device_ || !power_ || power_(device_, &milliwatts) != 0) return std::nullopt;
  return milliwatts / 1000.0;
}

}  // namespace tilec::tools
