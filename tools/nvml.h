// SM clock and power of a GPU through NVML, found at run time; reads only, never sets.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

namespace tilec::tools {

class Nvml {
 public:
  Nvml();  // the first GPU; without the library everything below is empty
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  std::optional<double> sm_mhz() const;
  std::optional<double> watts() const;

 private:
  void* library_ = nullptr;
  void* device_ = nullptr;
  int (*clock_)(void*, unsigned, unsigned*) = nullptr;
  int (*power_)(void*, unsigned*) = nullptr;
  int (*shutdown_)() = nullptr;
};

}  // namespace tilec::tools
