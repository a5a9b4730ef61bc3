// SPDX-License-Identifier: Apache-2.0
#include "ir/lower/buffers.h"

#include <algorithm>

namespace tilec::ir {

Positions::Positions(const Function& fn) : fn_(fn) { Walk(fn.body); }

void Positions::Walk(BlockId block) {
  for (OpId id : fn_.blocks[block].ops) {
    start_[id] = next_++;
    for (BlockId region : fn_.ops[id].regions) Walk(region);
    end_[id] = next_++;
  }
}

int64_t Positions::LastUse(OpId def, OpId user) const {
  int64_t last = start_.at(user);
  for (BlockId b = fn_.ops[user].block; fn_.blocks[b].parent.valid();) {
    const OpId parent = fn_.blocks[b].parent;
    const bool holds_def = start_.at(parent) < start_.at(def) && start_.at(def) < end_.at(parent);
    if (!holds_def && IsLoop(fn_.ops[parent].kind)) last = end_.at(parent);
    b = fn_.ops[parent].block;
  }
  return last;
}

int64_t PlaceBuffers(std::vector<BufferLife>& buffers) {
  std::vector<size_t> order(buffers.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return buffers[a].begin < buffers[b].begin; });
  int64_t used = 0;
  std::vector<size_t> placed;
  for (size_t i : order) {
    BufferLife& buffer = buffers[i];
    int64_t at = 0;
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t j : placed) {
        const BufferLife& other = buffers[j];
        const bool alive =
            other.owner != buffer.owner || (other.begin <= buffer.end && buffer.begin <= other.end);
        if (alive && at < other.offset + other.bytes && other.offset < at + buffer.bytes) {
          at = RoundUp(other.offset + other.bytes, 1024);
          moved = true;
        }
      }
    }
    buffer.offset = at;
    used = std::max(used, at + buffer.bytes);
    placed.push_back(i);
  }
  return used;
}

}  // namespace tilec::ir
