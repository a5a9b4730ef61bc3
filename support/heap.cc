// SPDX-License-Identifier: Apache-2.0
#include "support/heap.h"

#if __has_include(<malloc.h>)
#include <malloc.h>
#endif
#if __has_include(<sys/mman.h>)
#include <sys/mman.h>
#endif

#include <cstdint>
#include <cstdlib>

namespace tilec {

#if defined(M_TRIM_THRESHOLD) && defined(MADV_HUGEPAGE)
namespace {

constexpr uintptr_t kPage = 4096;

// Of a block of the allocator, with what follows it: not yet written. `fill`: it is now.
void InLargePages(void* block, size_t bytes, bool fill) {
  const uintptr_t first = (reinterpret_cast<uintptr_t>(block) + kPage - 1) / kPage * kPage;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(block) + bytes) / kPage * kPage;
  if (end <= first) return;
  void* const at = reinterpret_cast<void*>(first);  // NOLINT: an address of pages
  if (madvise(at, end - first, MADV_HUGEPAGE) != 0) return;
#ifdef MADV_POPULATE_WRITE
  if (fill) (void)madvise(at, end - first, MADV_POPULATE_WRITE);
#else
  (void)fill;
#endif
}

}  // namespace

void MakeRoom(size_t bytes) {
  // The first block of that size is a mapping of its own; from then on the heap has them.
  void* volatile first = std::malloc(bytes);
  std::free(first);
  void* const block = std::malloc(bytes);
  if (block == nullptr) return;
  InLargePages(block, bytes, true);
  std::free(block);
}

void KeepFreedMemory() {
  constexpr int kKept = 256 << 20, kOwn = 32 << 20, kStep = 8 << 20;
  mallopt(M_TRIM_THRESHOLD, kKept);
  mallopt(M_MMAP_THRESHOLD, kOwn);  // the largest that is taken
  mallopt(M_TOP_PAD, kStep);
  constexpr size_t kFirst = 30 << 20;  // what most compilations take
  void* const block = std::malloc(kFirst);
  if (block == nullptr) return;
  InLargePages(block, kFirst, false);
  std::free(block);
}
#else
void MakeRoom(size_t /*bytes*/) {}

void KeepFreedMemory() {
#ifdef M_TRIM_THRESHOLD
  constexpr int kKept = 256 << 20, kOwn = 32 << 20, kStep = 8 << 20;
  mallopt(M_TRIM_THRESHOLD, kKept);
  mallopt(M_MMAP_THRESHOLD, kOwn);  // the largest that is taken
  mallopt(M_TOP_PAD, kStep);
#endif
}
#endif

}  // namespace tilec
