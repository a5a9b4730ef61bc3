// Random programs of the tile language that are valid by construction, for tests that compare two
// ways of running one program. A program is text (with a `test` block that holds the call, so that
// a failure is a file) plus the values of the call; tensors are filled from the seed by whoever
// runs it. The same seed and options give the same program on every machine.
//
// What occurs: grids of one and two dims, ragged and whole; loads with ragged edges, fills,
// gathers, strided and transposed; elementwise chains over all dtypes, broadcasts, selects, casts,
// reductions, products of every operand dtype; `for` over ranges and tiles, `while`, `if`, nested,
// with carried tiles and scalars; inout tensors, atomics, fns, runtime scalars and consts.
// Floating-point values are kept small by clamps, so that NaN and infinity are rare.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace tilec::fuzz {

struct GenOptions {
  int max_tile = 48;       // longest side of a tile
  int max_instances = 6;   // of the grid
  int min_statements = 2;  // of the body; inner blocks have fewer
  int max_statements = 7;
  int max_trips = 4;      // of one loop
  int max_nesting = 2;    // of loops, whiles and ifs
  int expr_depth = 3;     // of one expression
  int loop_percent = 60;  // programs that have at least one `for` over tiles
  bool dots = true;
  bool atomics = true;
  bool control = true;  // while, if
  bool gathers = true;
  bool wide = true;    // 64-bit types
  bool approx = true;  // exp2 and the like
  bool stores_in_loops = true;
};

struct TileProgram {
  uint64_t seed = 0;
  std::string text;
  std::string kernel;  // its name
  // Dims, scalars, consts and tunes of the call.
  std::vector<std::pair<std::string, std::variant<bool, int64_t, double>>> values;
};

TileProgram Generate(uint64_t seed, const GenOptions& options = {});

}  // namespace tilec::fuzz
