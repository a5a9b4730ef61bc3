// SPDX-License-Identifier: Apache-2.0
#include "tools/coverage.h"

#include <iterator>

namespace tilec::tools {

Coverage SiliconCoverage() {
  static constexpr std::pair<int, int> kCounts[] = {
#define DEVICE(name, date)
#define FORM(agree, differ) {agree, differ},
#include "runtime/emulator/verified.def"
#undef FORM
#undef DEVICE
  };
  Coverage c;
#define DEVICE(name, when) c.device = name, c.date = when;
#define FORM(agree, differ)
#include "runtime/emulator/verified.def"
#undef FORM
#undef DEVICE
  size_t k = 0;
#define PTX(opcode, mods, operands, builder, argument, collective)        \
  c.forms.push_back({opcode, mods, kCounts[k].first, kCounts[k].second}); \
  ++k;
#include "runtime/emulator/ptx_isa.def"
#undef PTX
  static_assert(std::size(kCounts) == 0
#define PTX(opcode, mods, operands, builder, argument, collective) +1
#include "runtime/emulator/ptx_isa.def"
#undef PTX
                ,
                "run `conformance coverage`: the table has other rows");
  return c;
}

}  // namespace tilec::tools
