// Names of GPU architectures, as `.target` of PTX and drivers write them: "sm_" with a number, and
// perhaps a letter that ties code to it. Every layer that reads one reads it here, the runtime
// without a compiler too (but for the emulator, which judges what the compiler wrote).
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace tilec {

// The number (ten times the compute capability), 0: it is no name of one. `specific`: it has a
// letter `a` or `f`.
int CapabilityOf(std::string_view arch, bool* specific);

// Does code for an architecture run on a device of another? A letter ties it to one.
bool RunsOn(std::string_view arch, std::string_view device);

}  // namespace tilec
