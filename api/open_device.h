// Devices by name: "auto", "emulator", "cuda", "cuda:1".
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "runtime/device.h"
#include "support/diag.h"

namespace tilec::api {

// "auto" is the first GPU if there is one that runs code for `arch` ("": for any architecture that
// code is made for), else the emulator; why no GPU is taken is written to `why` (may be null).
Result<std::unique_ptr<runtime::Device>> OpenDevice(const std::string& name,
                                                    const runtime::EmulatorOptions& emulator,
                                                    const std::string& arch, std::string* why,
                                                    DiagSink& diags);

}  // namespace tilec::api
