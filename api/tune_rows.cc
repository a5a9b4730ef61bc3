// SPDX-License-Identifier: Apache-2.0
#include "api/tune_rows.h"

#include <algorithm>

#include "ir/lower/slides.h"
#include "ir/queries.h"

namespace tilec::api {

namespace {

bool HasTurns(const ir::Function& fn) {
  const std::vector<ir::OpId> ops = ir::OpsInOrder(fn);
  return std::any_of(ops.begin(), ops.end(), [&](ir::OpId id) {
    return ir::IsLoop(fn.ops[id].kind) || fn.ops[id].kind == ir::OpKind::kDot;
  });
}

// Tiles of rows that are read once and kept in shared memory.
int64_t PiecesKept(const ir::Function& fn) {
  const std::vector<ir::OpId> ops = ir::OpsInOrder(fn);
  return std::count_if(ops.begin(), ops.end(), [&](ir::OpId id) {
    const ir::Op& op = fn.ops[id];
    return op.kind == ir::OpKind::kLoad && op.attr("kept") && op.i("kept") == 0;
  });
}
}  // namespace

// Of a row that is one tile no turns are faster. (Layernorm of 140 x 28733 in sixteen parts by four
// CTAs 29.3 us, as one tile 17.5; rmsnorm of 264 x 30001 26.6 and 15.7.) One that is read again has
// as many pieces as anybody likes.
RowTiles RowTilesOf(const ir::Function& clean) {
  RowTiles rows;
  const auto slide = ir::SlideOf(clean);
  rows.slide = slide ? slide->tile : std::numeric_limits<int64_t>::max();
  if (!HasTurns(clean)) rows.kept = PiecesKept(clean);
  return rows;
}

// Shorter turns of a row that slides are said to take less, and take more (H200: softmax of
// 7634 x 33033 bf16 in turns of a sixteenth 1582 us, of 12288 367; rmsnorm of 194 x 61067 in
// two CTAs that walk over eight sixteenths each 36.3, of 8192 28.5). So are more pieces of a row
// that one CTA keeps (rmsnorm of 719 x 11280 in eighths 14.6 us, in halves 11.2, of 25587 x 12511
// 516 and 457, softmax of 427 x 20613 bf16 30.0 and 21.6), and turns of one that is kept otherwise.
bool TakesLonger(const ir::Function& clean, int64_t split, const RowTiles& standard) {
  const auto slide = ir::SlideOf(clean);
  if (slide && slide->tile < standard.slide) return true;
  const bool turns = standard.kept < std::numeric_limits<int64_t>::max() && HasTurns(clean);
  return split == 1 && (turns || PiecesKept(clean) > standard.kept);
}

}  // namespace tilec::api
