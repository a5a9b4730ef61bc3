// SPDX-License-Identifier: Apache-2.0
#include "scheduler/copy_lines.h"

#include <algorithm>

#include "ir/passes/cluster_tiles.h"

namespace tilec::scheduler {

namespace {

constexpr double kLine = 128;       // bytes that the L2 answers with (docs/machine.md)
constexpr int64_t kRowsOfAtom = 8;  // a part of a swizzled tile begins at a whole atom

const ir::Type* CopiedTile(const ir::Function& fn, const ir::Op& op) {
  if (op.kind != ir::OpKind::kLoad) return nullptr;
  const ir::Type& tile = fn.type(op.results[0]);
  return tile.shape.size() > 1 ? &tile : nullptr;
}

}  // namespace

double LinesAsked(const ir::Function& fn, bool rows_cut_sectors) {
  if (!rows_cut_sectors) return 1;
  double all = 0, more = 0;
  for (const ir::Op& op : fn.ops)
    if (const ir::Type* tile = CopiedTile(fn, op)) {
      const auto bytes = static_cast<double>(tile->elements() * ir::ByteSize(tile->dtype));
      const auto row = static_cast<double>(tile->shape.back() * ir::ByteSize(tile->dtype));
      all += bytes;
      more += bytes * kLine / std::clamp(row, 1.0, kLine);
    }
  return all > 0 ? 1 + more / all : 2;
}

double ShareAsked(const ir::Function& fn, const ir::Target& target) {
  const int64_t ctas = target.lowering.cluster_ctas;
  ir::Function clustered = fn;
  if (!target.Has("clusters") || ir::ClusterTiles(clustered, ctas)) return 1;
  double all = 0, own = 0;
  for (const ir::Op& op : clustered.ops)
    if (const ir::Type* tile = CopiedTile(clustered, op)) {
      const auto bytes = static_cast<double>(tile->elements() * ir::ByteSize(tile->dtype));
      const bool parts = tile->shape[tile->shape.size() - 2] % (kRowsOfAtom * ctas) == 0;
      all += bytes;
      own += op.attr("shared") != nullptr && parts ? bytes / static_cast<double>(ctas) : bytes;
    }
  return all > 0 ? own / all : 1;
}

}  // namespace tilec::scheduler
