// The kernel is asked, by reading a byte of every page through it: a page that is not there is an
// error of that call and no signal.
//
// SPDX-License-Identifier: Apache-2.0
#include "shim/readable.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace tilec::shim {
namespace {

constexpr uint64_t kPage = 4096, kAtOnce = 256;

}  // namespace

bool Readable(const void* at, uint64_t bytes) {
  const auto begin = reinterpret_cast<uint64_t>(at);
  if (bytes == 0) return true;
  if (begin + bytes < begin) return false;
  const uint64_t end = begin + bytes;
  uint8_t got[kAtOnce];
  iovec there[kAtOnce];
  for (uint64_t page = begin / kPage * kPage; page < end;) {
    uint64_t n = 0;
    for (; n < kAtOnce && page < end; ++n, page += kPage)
      there[n] = {reinterpret_cast<void*>(std::max(page, begin)), 1};
    const iovec here = {got, n};
    const ssize_t read = process_vm_readv(getpid(), &here, 1, there, n, 0);
    if (read == static_cast<ssize_t>(n)) continue;
    return read < 0 && errno != EFAULT;  // forbidden here, or not there at all
  }
  return true;
}

bool TextLength(const char* text, uint64_t most, uint64_t* length) {
  for (uint64_t at = 0; at < most;) {
    const uint64_t left = kPage - reinterpret_cast<uint64_t>(text + at) % kPage;
    const uint64_t n = std::min(left, most - at);
    if (!Readable(text + at, n)) return false;
    if (const void* end = memchr(text + at, 0, n)) {
      *length = static_cast<uint64_t>(static_cast<const char*>(end) - text);
      return true;
    }
    at += n;
  }
  *length = most;
  return true;
}

}  // namespace tilec::shim
