// What of the instruction table was compared with silicon.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tilec::tools {

struct FormCoverage {
  std::string_view opcode, mods;
  int agree = 0;   // recorded cases that the emulator repeats
  int differ = 0;  // … that it is known not to
  bool verified() const { return agree > 0 && differ == 0; }
};

struct Coverage {
  std::string device, date;
  std::vector<FormCoverage> forms;  // in the order of the table
};
Coverage SiliconCoverage();

}  // namespace tilec::tools
