// What a Device handle stands for. Apart from the compiler's states, so that libtilec_rt knows no
// compiler. Private to api/.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include "runtime/device.h"

namespace tilec {

struct DeviceState {
  std::unique_ptr<runtime::Device> device;
  std::mutex mutex;                         // of what follows
  std::optional<runtime::StreamId> beside;  // of measurements that nobody waits for
};

}  // namespace tilec
