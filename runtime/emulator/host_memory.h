// Host memory whose size a program chose: an allocation that may fail instead of ending the
// process.
//
// Fresh bytes are zero and, where the system gives pages on demand, take no memory before they are
// touched: a tensor of gigabytes of which a kernel reads a corner costs that corner.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>

#include "runtime/emulator/fences.h"

namespace tilec::runtime::emulator {

class HostMemory {
 public:
  HostMemory() = default;
  // `bytes` zero bytes at a multiple of `align`, with fences before and behind. Check ok().
  explicit HostMemory(uint64_t bytes, uint64_t align = 256) {
    if (bytes > ~0ull - align) return;
    memory_.reset(static_cast<uint8_t*>(std::calloc(bytes + align, 1)));
    if (memory_ == nullptr) return;
    const uint64_t at = reinterpret_cast<uint64_t>(memory_.get());
    const uint64_t away = (at + align - 1) / align * align - at;
    data_ = memory_.get() + away;
    FenceOff(memory_.get(), away);
    FenceOff(data_ + bytes, align - away);
  }
  bool ok() const { return data_ != nullptr; }
  uint8_t* data() const { return data_; }

 private:
  struct Free {
    void operator()(uint8_t* p) const { std::free(p); }
  };
  std::unique_ptr<uint8_t, Free> memory_;
  uint8_t* data_ = nullptr;
};

}  // namespace tilec::runtime::emulator
