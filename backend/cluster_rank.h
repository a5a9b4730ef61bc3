// Which CTA of its cluster a number names. A mask does where clusters are powers of two; others
// take a comparison.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <bit>
#include <cstdint>

namespace tilec::backend {

inline bool IsMask(int64_t ctas) { return std::has_single_bit(static_cast<uint64_t>(ctas)); }

// `n` modulo `ctas`, where it is less than twice as many.
inline llvm::Value* RankOf(llvm::IRBuilderBase& b, llvm::Value* n, int64_t ctas) {
  const auto i32 = [&](int64_t v) { return b.getInt32(static_cast<uint32_t>(v)); };
  if (IsMask(ctas)) return b.CreateAnd(n, i32(ctas - 1));
  llvm::Value* const again = b.CreateSub(n, i32(ctas));
  return b.CreateSelect(b.CreateICmpULT(n, i32(ctas)), n, again);
}

// A lane's CTA, of the lanes that are `inside` a cluster; of the others any that there is.
inline llvm::Value* RankOfLane(llvm::IRBuilderBase& b, llvm::Value* lane, llvm::Value* inside,
                               int64_t ctas) {
  if (IsMask(ctas)) return b.CreateAnd(lane, b.getInt32(static_cast<uint32_t>(ctas - 1)));
  return b.CreateSelect(inside, lane, b.getInt32(0));
}

}  // namespace tilec::backend
