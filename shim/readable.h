// Does this address lie in memory that can be read? An image has no length but the one that it
// claims, and nothing of a program's word is taken for it.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace tilec::shim {

// All `bytes` from there. Where the system does not say, true.
bool Readable(const void* at, uint64_t bytes);
// Up to the first zero byte, or `most`: how long the text is; false: it cannot be read so far.
bool TextLength(const char* text, uint64_t most, uint64_t* length);

}  // namespace tilec::shim
