// `tilec check -- ./app arguments`: a program that was built for CUDA, on the emulator with the
// judge on. The program gets our library in place of NVIDIA's driver and runtime (shim/); what was
// found in all of its launches becomes one report.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/session.h"

namespace tilec::tools {

// The exit code: 1 if something is wrong, else the program's own; 128 and its signal if it died.
Result<int> CheckProgram(Session& session);

}  // namespace tilec::tools
