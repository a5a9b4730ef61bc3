// Buffers of one slot that share bytes with a ring, set aside: a tile that goes out where the ring
// was, once its loop is over.
//
// Slots of a ring are alike only if nothing else tells them apart, and such a buffer lies over some
// of them. So it gets bytes of its own, and every access to it counts as one to every slot of each
// ring it lies over. That orders more than has to be, and makes slots alike again (rings.h).
// Buffers that are set aside keep their places to each other; those that share bytes with a buffer
// that is not are accesses to it as well.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ir/warp_check/program.h"

namespace tilec::ir::warp_check {
namespace {

bool Overlap(const Buffer& a, const Buffer& b) { return a.offset < b.end() && b.offset < a.end(); }

// Where ops that pass through scratch begin to use memory.
int64_t FirstScratch(const Function& fn) {
  int64_t first = INT64_MAX;
  WalkOps(fn, fn.body, [&](OpId id) {
    const Op& op = fn.ops[id];
    if (op.attr("scratch") && op.i("scratch") >= 0) first = std::min(first, op.i("scratch"));
  });
  return first;
}

bool LiesOver(const std::map<ValueId, Buffer>& buffers, const Buffer& b) {
  return b.depth == 1 && std::any_of(buffers.begin(), buffers.end(), [&](const auto& other) {
           return other.second.depth > 1 && Overlap(b, other.second);
         });
}

}  // namespace

bool Program::LiesOverRings() const {
  return std::any_of(buffers.begin(), buffers.end(),
                     [&](const auto& b) { return LiesOver(buffers, b.second); });
}

void Program::SetAside() {
  const int64_t scratch = FirstScratch(fn);
  int64_t beyond = fn.launch.smem_bytes;
  for (const auto& [v, b] : buffers) beyond = std::max(beyond, b.end());
  std::vector<ValueId> moved;
  for (const auto& [v, b] : buffers)
    if (b.end() <= scratch && LiesOver(buffers, b)) moved.push_back(v);
  for (ValueId v : moved)
    for (const auto& [other, b] : buffers)
      if (!std::count(moved.begin(), moved.end(), other) && Overlap(buffers.at(v), b))
        buffers.at(v).over.push_back(other);
  for (ValueId v : moved) buffers.at(v).offset += beyond;
}

}  // namespace tilec::ir::warp_check
