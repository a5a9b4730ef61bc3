// Rows at odd places whose tiles slide: a thread has the elements of a vector that is aligned in
// memory, so that nothing is shifted on the way in or out.
//
// A row of C elements, C no multiple of a vector, begins `off` elements behind an aligned vector:
// off = row · C mod 8 where rows stand side by side. The lowering gives the N elements of each tile
// of the row the order
//
//     start + N − off, …, start + N − 1,   start, start + 1, …, start + N − off − 1
//
// (turned by `off`; a place p ≥ off holds column start − off + p). What computes element by element
// or takes all elements of a row does not see it: only loads, stores and numbers of positions do
// (`shifted` = 2 of gload and gstore, whose start is then start − off). The program computes what
// it computed, whatever `off` is: where a row does not begin where it was reckoned, because rows
// stand further apart, its elements are accessed one by one (backend/emit_slid.cc).
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "ir/function.h"

namespace tilec::ir {

constexpr int64_t kSlide = 8;  // off is less: elements of two bytes in a vector of 16

struct Slide {
  ValueId row;          // of all tensors of rows: which of them the program is at
  int64_t columns = 0;  // of a row
  int64_t tile = 0;     // of a tile
};

// A row that is one tile does not: it is held beside all that is loaded for it, and branches for
// its edges and for rows that lie otherwise cost registers (layernorm of 5613 bf16: 208 bytes
// spilled).
//
// A `rearrange` that sees a piece of a row as what each thread has of it, [1, groups, threads,
// vector], and of which only what all threads have together counts, whichever thread has what: its
// first dim, of one element, has this stride, which no program's text gives it.
constexpr int64_t kAnyOrder = -1;
bool IsInAnyOrder(const Op& op);

// If the tiles of a program (tile level) may slide, and its rows are at odd places: one row at a
// time in turns of loops, in tiles of one length, of tensors of rows of one length that begin at
// multiples of 16 bytes and of vectors that all rows share; loads of what is only read; and no op
// that asks for the order of a row's elements.
std::optional<Slide> SlideOf(const Function& fn);

// Do rows of what `access` loads or stores begin amid a vector? Where they do not slide, each of a
// thread's vectors is put together of two, and taken apart again.
bool BeginsAnywhere(const Function& fn, const Op& access);

}  // namespace tilec::ir
