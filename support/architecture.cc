// SPDX-License-Identifier: Apache-2.0
#include "support/architecture.h"

#include <charconv>

namespace tilec {

int CapabilityOf(std::string_view arch, bool* specific) {
  if (arch.substr(0, 3) != "sm_") return 0;
  std::string_view digits = arch.substr(3);
  *specific = !digits.empty() && (digits.back() == 'a' || digits.back() == 'f');
  if (*specific) digits.remove_suffix(1);
  int capability = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), capability);
  const bool whole = parsed.ec == std::errc() && parsed.ptr == digits.data() + digits.size();
  return whole && capability >= 10 && capability <= 999 ? capability : 0;
}

bool RunsOn(std::string_view arch, std::string_view device) {
  bool specific = false, ignored = false;
  const int code = CapabilityOf(arch, &specific), has = CapabilityOf(device, &ignored);
  return code > 0 && (specific ? arch == device : code <= has);
}

}  // namespace tilec
