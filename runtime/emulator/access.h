// An access of memory: who makes it (a warp at an instruction, for a lane or several), what it
// reaches for, and where that lies once it has been checked. Handlers ask for pointers here,
// so that nothing touches the host's memory that the program does not own.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "runtime/emulator/internal.h"

namespace tilec::runtime::emulator {

// Who does something: a warp at one of its instructions, for a lane …
struct Issuer {
  Warp& w;
  const Inst& i;
  int lane;
};
// … or for several at once.
struct Issuers {
  Warp& w;
  const Inst& i;
  uint32_t mask;
};

// Pointers of the active lanes of one access, checked for bounds and alignment.
struct Access {
  uint8_t* p[32];
  Space space = Space::kGlobal;
  bool contiguous = false;  // p[l] == p[0] + l·bytes, all lanes
};
// What each lane of an access reaches for; `generic`: its address says in which space.
struct Reach {
  Space space;
  bool generic;
  uint32_t bytes;
  bool write;
};
// Where the lanes' addresses are: a row of registers, of 64 bits if `wide`, and what is added.
struct AddressRow {
  uint32_t row;
  bool wide;
  uint64_t offset;
};
// False: a fault was recorded.
bool Locate(const Issuers& by, const AddressRow& at, const Reach& reach, Access* out);
// The same for addresses that are known already.
bool LocateAt(const Issuers& by, uint64_t* a, Reach reach, Access* out);
// Of a generic access by 64-bit addresses in `row`: the lanes in the state space of the first one.
uint32_t OneSpace(Warp& w, const Inst& i, uint32_t mask, uint32_t row);
// One global range for bulk copies.
bool CheckGlobal(Warp& w, uint64_t address, uint64_t bytes, bool write);
// A shared::cluster address → CTA and offset (null: no such CTA).
Cta* ResolveShared(Warp& w, uint64_t address, uint32_t* offset);

// A stretch of memory that an operation needs, and what the operation is called: "a bulk copy".
struct Stretch {
  uint64_t bytes;
  uint32_t align;
  const char* what;
};
// The same of a stretch from an address on. False: a fault was recorded.
bool SharedRange(const Issuer& by, uint32_t address, const Stretch& needs, Cta** cta,
                 uint32_t* offset);
// Bytes have arrived for the mbarrier at `offset`. False: a fault was recorded.
bool CompleteTx(Warp& w, const Inst& i, int lane, Cta& cta, uint32_t offset, uint32_t bytes);

}  // namespace tilec::runtime::emulator
