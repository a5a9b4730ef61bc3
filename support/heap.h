// A compilation takes the same megabytes again and again: states of proofs, formulas of the solver,
// modules of the back end. Given back to the system each time they cost page faults, a sixth of the
// time of a compilation that is mostly proof.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tilec {

// From now on the allocator keeps what is freed. For programs that compile and end, not for hosts
// that compile now and then.
void KeepFreedMemory();

}  // namespace tilec
