// SPDX-License-Identifier: Apache-2.0
#include "support/heap.h"

#if __has_include(<malloc.h>)
#include <malloc.h>
#endif

namespace tilec {

void KeepFreedMemory() {
#ifdef M_TRIM_THRESHOLD
  constexpr int kKept = 256 << 20, kOwn = 32 << 20, kStep = 8 << 20;
  mallopt(M_TRIM_THRESHOLD, kKept);
  mallopt(M_MMAP_THRESHOLD, kOwn);  // the largest that is taken
  mallopt(M_TOP_PAD, kStep);
#endif
}

}  // namespace tilec
