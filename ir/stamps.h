// An in-kernel timeline: a pass over a finished warp program that puts a `stamp` where a role turns
// from one kind of work to another (waiting, issuing products, copying, computing). Each stamp
// appends (site, SM clock) to the role's part of a buffer, by one thread of one CTA, until the part
// is full. Nothing else of the program changes, and without the pass nothing of it is there.
//
// The buffer is an extra tensor of the kernel, u32[2 · records · roles], named kStampTensor.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/function.h"

namespace tilec::ir {

inline constexpr const char* kStampTensor = "timeline.stamps";  // no name of the language
inline constexpr uint32_t kNoStamp = 0xffffffff;  // what the host fills the buffer with

// What begins at a stamp.
struct StampSite {
  int role = 0;      // index into StampTable::roles
  std::string what;  // "wait", "product", "copy", "compute", "store", "end"
  Span at;           // of the first op behind it
  Span loop;         // of the loop around it; unknown: in none
};

struct StampTable {
  std::vector<std::string> roles;
  std::vector<StampSite> sites;  // by number
  int64_t records = 0;           // room of each role
  int64_t Words() const { return 2 * records * static_cast<int64_t>(roles.size()); }
};

// `fn`: a program CheckWarps has accepted.
StampTable InsertStamps(Function& fn, int64_t records);

}  // namespace tilec::ir
