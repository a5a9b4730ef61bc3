// A compilation takes the same megabytes again and again: states of proofs, formulas of the solver,
// modules of the back end. Given back to the system each time they cost page faults, a sixth of the
// time of a compilation that is mostly proof; and where the system is a guest, a fresh page of 4 KB
// costs as much as what is done in it.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace tilec {

// From now on the allocator keeps what is freed, and takes large pages first. For programs that
// compile and end, not for hosts that compile now and then.
void KeepFreedMemory();

// So many bytes that are about to be allocated and written, in large blocks: the allocator has them
// in large pages from now on. Where the system has none, nothing happens. For hosts, too.
void MakeRoom(size_t bytes);

}  // namespace tilec
