// Which loads and stores go as runs of whole rows (ir/row_run.h), and how threads then hold rows.
//
// Where rows begin at odd places an access of a thread has one or two elements, and lanes must have
// neighbouring elements, so that a request asks for a whole line: a short row is then spread over
// many lanes, and every reduction of rows passes through all of them. As runs rows need not be laid
// out for memory: a row of up to 32 elements is one thread's, longer ones few lanes', and
// reductions take no shuffles or few.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/function.h"
#include "ir/layout.h"
#include "ir/lower/operands.h"
#include "ir/target.h"

namespace tilec::ir {

// How many bytes one may have, on a machine: of any, and of one row that a CTA has as a whole. And
// from how many on an element is accessed by itself where vectors would have to be shifted.
struct RunLimits {
  explicit RunLimits(const Target& target)
      : any(target.lowering.run_bytes),
        whole_row(target.lowering.row_run_bytes),
        side_by_side(target.lowering.side_by_side_bytes) {}
  int64_t any, whole_row, side_by_side;
};

// May the load or store (of the tile level) go as a run? Not beside products; in loops one row at a
// time; no more than leaves several CTAs of an SM room, and of one row outside of loops
// no more than pays; loads of what is only read.
bool MayRun(const Function& fn, OpId id, RunLimits limits);
// Does it pay, if the tile is laid out so and `vector` elements can be accessed together?
bool RunPays(const Function& fn, const Op& op, const Layout& layout, int64_t vector);
// May vectors of it be made of aligned ones, wherever its row begins (`shifted` of gload, gstore)?
// One row or a piece of one, of whatever alignment (large elements: from a multiple of 16 on),
// where plain accesses would have less than 8 bytes; loads of what is only read; stores of 1 KB
// and no more than a run may have; not beside products.
bool MayShift(const Function& fn, const Op& op, RunLimits limits);
// What AccessVector asks of loads, stores and atomics. Where all that have less than 8 bytes by
// their alignment may be shifted, or the program's rows slide (ir/lower/slides.h: `slides`), they
// have 16.
std::vector<RowAccess> RowAccesses(const Function& fn, const std::vector<const Op*>& ops,
                                   RunLimits limits, bool slides);
// A tile of [rows, columns] for reductions of rows: a row is the fewest lanes' that leave a thread
// no more than 32 elements of it and no thread without a row. None: a row would be several warps'.
std::optional<Layout> RowsLayout(const std::vector<int64_t>& shape, int64_t threads);

}  // namespace tilec::ir
