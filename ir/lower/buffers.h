// Shared memory of one kernel: who lives where, and when.
//
// The sequential lowering separates every refill of a buffer from all earlier readers by a CTA
// barrier, so two buffers whose lives do not overlap in program order may share bytes. A life is an
// interval of program positions; a buffer filled outside a loop and read inside lives to the loop's
// end. Placement is first fit in order of birth: deterministic.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "ir/function.h"

namespace tilec::ir {

// Program positions of the ops of a tile function (pre-order), and the ends of their regions.
class Positions {
 public:
  explicit Positions(const Function& fn);
  int64_t at(OpId op) const { return start_.at(op); }
  // Position at which a use by `user` of something defined at `def` ends: the user's, or the end of
  // the outermost loop around the user that does not also contain the definition.
  int64_t LastUse(OpId def, OpId user) const;

 private:
  void Walk(BlockId block);
  const Function& fn_;
  int64_t next_ = 0;
  std::map<OpId, int64_t> start_, end_;
};

struct BufferLife {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t bytes = 0;
  int owner = 0;       // lives of different owners never share bytes: they run side by side
  int64_t offset = 0;  // the answer
};
// Fills in the offsets (multiples of 1024); returns the bytes used in all.
int64_t PlaceBuffers(std::vector<BufferLife>& buffers);

}  // namespace tilec::ir
