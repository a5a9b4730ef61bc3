// SPDX-License-Identifier: Apache-2.0
#include "scheduler/modulo_line.h"

#include <cstddef>

namespace tilec::scheduler {

int64_t Line::Step(int64_t at, int64_t cycles, bool forward, int64_t ii) const {
  if (spots_.empty()) return 0;
  const size_t n = spots_.size();
  const auto behind = static_cast<size_t>(Behind(at) - spots_.begin());
  const size_t next = behind == n ? 0 : behind, last = behind == 0 ? n - 1 : behind - 1;
  const int64_t until = spots_[next].begin - at + (behind == n ? ii : 0);  // 1 … ii
  const int64_t since = at - spots_[last].begin + (behind == 0 ? ii : 0);  // 0 … ii − 1
  const int64_t busy = spots_[last].cycles - since;
  if (busy <= 0 && until >= cycles) return 0;
  if (forward) {
    if (busy > 0 && until - busy >= cycles) return busy;
    int64_t begins = until;  // of the spot i, from `at` on
    for (size_t k = 0, i = next; k < n; ++k) {
      const int64_t ends = begins + spots_[i].cycles, room = After(i, ii);
      if (room >= cycles) return ends;
      begins = ends + room;
      i = i + 1 == n ? 0 : i + 1;
    }
    return ii;
  }
  if (busy <= 0 && until < cycles && since - (cycles - until) >= spots_[last].cycles)
    return cycles - until;
  int64_t back = since;  // to where the spot i begins
  for (size_t k = 0, i = last; k < n; ++k) {
    const int64_t room = Before(i, ii);
    if (room >= cycles) return back + cycles;
    i = i == 0 ? n - 1 : i - 1;
    back += room + spots_[i].cycles;
  }
  return ii;
}

}  // namespace tilec::scheduler
