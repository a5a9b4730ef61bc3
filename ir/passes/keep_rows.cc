// Rows that several loops read in chunks, one loop behind the other, are read from memory once.
//
//     for c in tiles(C, BC) { … X[r, c] … }        (the statistics of a row)
//     for c in tiles(C, BC) { … X[r, c] … }        (what is made of them)
//
// Where C is known, so is the number n of chunks. If n chunks of all tensors that are read again
// find room on the chip, the loops are unrolled and all chunks are loaded in front of the first:
//   * into registers, if a thread holds few of them: later loops read what the first one had;
//   * else into shared memory: later loops load "again" (mark `kept`: which time), and the lowering
//     lets equal loads of a block share the buffer that the first of them fills: by TMA, or, of one
//     row that it cannot bring (of odd length, filled with −∞), by the threads that read it again.
// Else the loops stay as they are, and what they read again comes from memory again.
//
// How many rows a tile has is the author's choice, and often too many for a row to be kept. Rows
// that have nothing to do with each other may be divided among more CTAs: the grid's step along
// them becomes smaller (Narrowable says when that changes nothing). That several CTAs find room on
// an SM matters more than many rows in each: while one waits for memory, others compute.
//
// Only tensors that the kernel does not write: the same load then gives the same bits whenever it
// is made. Only programs without products, whose CTAs come and go.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>

#include "ir/lower/diagnostics.h"
#include "ir/lower/operands.h"
#include "ir/lower/slides.h"
#include "ir/passes/copies_first.h"
#include "ir/passes/grid_rows.h"
#include "ir/passes/loops_of_rows.h"
#include "ir/passes/passes.h"
#include "ir/passes/row_threads.h"
#include "ir/passes/unroll_rows.h"
#include "ir/queries.h"

namespace tilec::ir {
namespace {

constexpr int64_t kMostUnrolledOps = 1200;  // of all that are unrolled
constexpr int64_t kBufferAlign = 1024;
// Tiles of a row that threads put into shared memory, where no CTAs share it. In more and smaller
// ones, each reduced by itself, and in parts of a cluster rows are faster read again
// (docs/perf_log.md, 2026-11-29, rows).
constexpr int64_t kMostPut = 6;

using Kept = KeptLoad;
using Loops = RowLoops;

// How a row is kept.
struct Choice {
  int64_t rows = 0;  // of a tile
  bool registers = false;
  int64_t bytes = 0;  // of all kept tiles
};

class RowKeeper {
 public:
  RowKeeper(Function& fn, PassContext& cx) : fn_(fn), cx_(cx) {}

  void Grid(OpId grid) {
    for (Loops& loops : FindLoopsOfRows(fn_, fn_.ops[grid].regions[0])) {
      std::vector<ValueId> tiles;
      for (const Kept& k : loops.kept) tiles.push_back(fn_.ops[k.in.begin()->second].results[0]);
      const GridRows rows = RowsOfGrid(fn_, grid, tiles);
      const std::optional<Choice> choice = Choose(loops, rows);
      if (!choice) continue;
      if (fn_.ops[grid].i("cluster", 1) > 1) ReadEarly(loops, *choice);
      Say(loops, rows, *choice);
      if (choice->rows < rows.extent) NarrowRows(fn_, grid, rows, choice->rows);
      UnrollRows(fn_, fn_.ops[grid].regions[0], loops, choice->registers);
      ++cx_.changes;
    }
  }

 private:
  std::optional<Choice> Choose(const Loops& loops, const GridRows& rows) const {
    int64_t ops = 0, largest = 0;
    for (size_t i = 0; i < loops.ids.size(); ++i)
      for (OpId id : fn_.blocks[loops.body(fn_, i)].ops) {
        ++ops;
        for (ValueId r : fn_.ops[id].results)
          if (fn_.type(r).is_tile()) largest = std::max(largest, fn_.type(r).elements());
      }
    if (ops * loops.turns > kMostUnrolledOps) return std::nullopt;
    const TargetLowering& lowering = cx_.target.lowering;
    const int64_t threads_hold = lowering.row_registers;
    const int64_t wanted = cx_.target.RowBytes(lowering.row_ctas_wanted);
    const int64_t most = cx_.target.RowBytes(lowering.row_ctas_least);
    std::optional<Choice> last;
    for (int64_t to = rows.extent; to >= 1; --to) {
      if (rows.extent % to != 0) continue;
      const auto share = [&](int64_t n) { return n / rows.extent * to; };
      int64_t elements = 0, bytes = 0, placed = 0;
      bool fits = true, whole = true;
      for (const Kept& k : loops.kept) {
        const Op& load = fn_.ops[k.in.begin()->second];
        const Type& tile = fn_.type(load.results[0]);
        const int64_t size = share(tile.elements()) * ByteSize(tile.dtype);
        elements += loops.turns * share(tile.elements());
        bytes += loops.turns * size;
        placed += loops.turns * RoundUp(size, kBufferAlign);
        fits = fits && Stageable(load, rows, to);
        whole = whole && !BeginsAnywhere(fn_, load);
      }
      const int64_t threads = ThreadsFor(share(largest), lowering);
      if (elements <= threads_hold * threads) return Choice{to, true, bytes};
      // What the copy engine cannot bring would come from memory again: of a row that a CTA has
      // alone threads hold half as much more.
      if (!fits && !(slides_ && !loops.base.valid()) && to == 1 &&
          elements <= (threads_hold + threads_hold / 2) * threads)
        return Choice{to, true, bytes};
      // Long tiles of whole vectors of a row that a CTA has alone are faster read again than put
      // into shared memory (H200, layernorm of 1000 x 49152 bf16 in tiles of 16384 90.8 us, of
      // 8192 81.2, read again by 16384 65.7; softmax of 1000 x 49032 87.9, 58.7 and 56.0).
      if (whole && to == 1 && !loops.base.valid() && share(largest) >= lowering.reread_elements)
        continue;
      fits = fits || (!slides_ && to == 1 && loops.turns <= kMostPut && !loops.base.valid() &&
                      ByThreads(loops));
      if (fits && placed <= wanted) return Choice{to, false, placed};
      if (fits && placed <= most) last = Choice{to, false, placed};
    }
    return last;
  }

  // Can TMA bring the tile, if it has so many rows? One gathered row is a range.
  bool Stageable(Op load, const GridRows& rows, int64_t to) const {
    Type tile = fn_.type(load.results[0]);
    if (rows.classes)
      if (const int dim = rows.classes->DimOf(load.results[0]); dim >= 0)
        tile.shape[static_cast<size_t>(dim)] = to;
    std::string modes = load.s("modes");
    if (to == 1 && rows.classes) std::replace(modes.begin(), modes.end() - 1, 'g', 'r');
    load.set("modes", modes);
    return TmaAccess(fn_, load, cx_.target) && RereadLayout(tile);
  }

  // Can threads put pieces of one row into buffers, as they lie there? Elsewhere than in products'
  // programs threads alone write them, and each reads what it wrote.
  bool ByThreads(const Loops& loops) const {
    return std::all_of(loops.kept.begin(), loops.kept.end(), [&](const Kept& k) {
      const Op& load = fn_.ops[k.in.begin()->second];
      Type tile = fn_.type(load.results[0]);
      if (tile.rank() != 2 || load.s("modes").find('g') != std::string::npos) return false;
      tile.shape[0] = 1;
      return RereadLayout(tile).has_value();
    });
  }

  // CTAs that share a row wait for each other between its loops. What a loop behind that reads of
  // vectors is on its way meanwhile, where registers hold it beside the row.
  void ReadEarly(Loops& loops, const Choice& choice) const {
    int64_t held = 0, largest = 0;
    for (const std::vector<Kept>* some : {&loops.kept, &loops.vectors})
      for (const Kept& k : *some) {
        const int64_t elements = fn_.type(fn_.ops[k.in.begin()->second].results[0]).elements();
        held += loops.turns * elements;
        largest = std::max(largest, elements);
      }
    const TargetLowering& lowering = cx_.target.lowering;
    const int64_t most = lowering.row_registers + lowering.row_registers / 8;
    if (!choice.registers || held > most * ThreadsFor(largest, lowering)) return;
    loops.kept.insert(loops.kept.end(), loops.vectors.begin(), loops.vectors.end());
  }

  // Vectors that all rows share.
  bool ReadsVectors() const {
    return std::any_of(fn_.ops.begin(), fn_.ops.end(), [&](const Op& op) {
      return op.kind == OpKind::kLoad && fn_.type(op.operands[0]).rank() == 1;
    });
  }

  void Say(const Loops& loops, const GridRows& rows, const Choice& choice) const {
    std::string tensors;
    for (const Kept& k : loops.kept) {
      if (k.early) continue;
      const Param* p = fn_.param(fn_.ops[k.in.begin()->second].operands[0]);
      tensors += (tensors.empty() ? "`" : ", `") + p->name + "`";
    }
    cx_.diags.Report(lower_diag::kRowsKept, fn_.ops[loops.ids.back()].at, tensors, loops.turns,
                     choice.registers ? "registers" : "shared memory", choice.bytes,
                     choice.rows < rows.extent ? fmt::format(", tiles of {} rows in place of {}",
                                                             choice.rows, rows.extent)
                                               : "");
  }

  Function& fn_;
  PassContext& cx_;
  // Rows at odd places that are read without any shift, as vectors of weights are not, are read
  // again where a CTA that has one alone would hold many elements a thread: held or put into shared
  // memory they leave room for fewer CTAs (H200, softmax of 7634 x 33033 bf16 422 us, now 367).
  const bool slides_ = SlideOf(fn_) && !ReadsVectors();
};

}  // namespace

Result<> KeepRows(Function& fn, PassContext& cx) {
  std::vector<OpId> grids;
  for (OpId id : OpsInOrder(fn)) {
    const OpKind kind = fn.ops[id].kind;
    if (kind == OpKind::kDot || kind == OpKind::kWhile) return Done();
    if (kind == OpKind::kParallel) grids.push_back(id);
  }
  for (OpId grid : grids) {
    RowKeeper(fn, cx).Grid(grid);
    CopiesFirst(fn, grid);
  }
  return Done();
}

}  // namespace tilec::ir
