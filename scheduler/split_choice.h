// Whether several CTAs should share the iterations of a tile's loop (ir/passes/split_reductions.h),
// and how many: what the model of whole kernels says of each number, where less than half of the
// SMs have a tile, where a third of two rounds is empty, or one tile takes longer than its SM's
// share of all. Whether instances that read
// the same become rows of one tile (ir/passes/pack_rows.h): where fewer tiles come of it. And
// whether neighbours should copy for each other what they have in common
// (ir/passes/cluster_tiles.h) or each for itself: the first asks the L2 for less, the second needs
// nobody. Either stays and walks over tiles. And whether one role does all in program order, and
// several CTAs of it find room on an SM (scheduler/one_role.h).
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "ir/count_work.h"
#include "ir/function.h"
#include "ir/target.h"
#include "scheduler/copy_lines.h"
#include "scheduler/kernel_time.h"

namespace tilec::scheduler {

struct SplitChoice {
  int64_t ctas = 1;           // for each tile
  int64_t pack = 1;           // instances whose rows are one tile
  bool share_copies = false;  // in clusters, in place of walking over tiles; or parts (`apart`) do
  int64_t neighbours = 2;     // … so many CTAs of a cluster
  int64_t along = 0;          // … of neighbours along this range of the grid
  bool stays = false;         // tiles take unequally long, and CTAs that walk over them gain
  bool once = false;  // a CTA for each tile (also in clusters): every tile has an SM, or walking
                      // over tiles brings too much again
  bool in_order = false;  // one role in program order, several CTAs on an SM (one_role.h)
  double doubt = 1;       // so many times the model's time is taken for the form's
  bool apart = false;     // `ctas` are no cluster: a second launch puts together what they have
  double ms = 0, alone_ms = 0;  // of that many, of one; 0: not known
  double busy = 1;              // of KernelTime, of that many
  double whole_flops = 0;       // of products, with edges as whole tiles
};

class KeptForms;  // split_forms.h

// What can become of a function and what of that does not depend on sizes, kept: another size asks
// for a small part of the time. Thread-safe.
class Forms {
 public:
  // `fn`: cleaned up, at the tile level. `target` outlives it.
  // `loops`: what it was before its rows were unrolled (ir/clean_up.h).
  Forms(ir::Function fn, const ir::Target& target, std::optional<ir::Function> loops = {});
  Forms(Forms&&) noexcept;
  ~Forms();
  const ir::Function& fn() const;
  // With a tile's turns dealt out to so many CTAs; null: they cannot be.
  const ir::Function* InParts(int64_t ctas);
  // `names`: values of its dims and integer scalars. `row_starts`: of scheduler/copy_lines.h;
  // clusters are weighed only where rows begin amid lines. `most`: CTAs for each tile. `one_role`:
  // may one role do all?
  SplitChoice Choose(const Bindings& names, const RowStarts& row_starts, int64_t most,
                     const ShapeOf& shape_of, bool one_role = false);

 private:
  std::unique_ptr<KeptForms> kept_;
};

}  // namespace tilec::scheduler
