// What a Device handle stands for. Apart from the compiler's states, so that libtilec_rt knows no
// compiler. Private to api/.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "runtime/device.h"

namespace tilec {

struct DeviceState {
  std::unique_ptr<runtime::Device> device;
};

}  // namespace tilec
