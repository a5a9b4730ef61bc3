// Where a tile of a tensor lies, as the threads that access it see it.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "backend/emitter.h"

namespace tilec::backend {

// One access of a tile: uniform and thread parts of the address, made once; register parts and
// predicates on demand, shared between registers with equal coordinates.
struct Emitter::Access {
  struct Box {
    llvm::Value *start = nullptr, *end = nullptr, *stride = nullptr;  // i64; the stride in bytes
    int64_t size = 1;
  };
  struct Dim {
    int tile_dim = 0;
    llvm::Value* coord = nullptr;  // thread part, i32 (ranges)
    int64_t coord_max = 0;
    llvm::Value* stride = nullptr;  // i64, bytes
    llvm::Value* lo = nullptr;      // i32: coordinates below are outside; null: none are
    llvm::Value* hi = nullptr;      // i32: coordinates from here on are outside
    int64_t most = 0;               // hi where all of the tile is inside
    llvm::Value *above = nullptr, *below = nullptr;  // i32: hi, lo less coord: few registers
    llvm::Value* extent = nullptr;                   // i64 (gathered dims)
    const Regs* index = nullptr;                     // gathered: positions
    std::vector<int> index_of;  // register of the tile -> register of the index
    std::vector<Box> box;       // rows that are a box: its dims, the slowest first
  };
  std::vector<Dim> dims;
  llvm::Value* address = nullptr;  // i64: base, uniform and thread parts
  llvm::Value* always = nullptr;   // predicate common to all registers, or null
  std::map<std::pair<size_t, int64_t>, llvm::Value*> offsets;  // (dim, register coordinate)
  std::map<std::pair<size_t, int64_t>, llvm::Value*> predicates;
};

// The registers of each access: vectors of a run along the last dim, `asked` elements of so many
// bytes or as many as the layout and the tile's columns allow.
std::vector<std::vector<int>> VectorsOf(const ir::Layout& layout, const std::vector<int64_t>& shape,
                                        int64_t asked, int64_t bytes);

}  // namespace tilec::backend
