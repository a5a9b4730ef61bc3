// What an instruction mma.sync with block scaling is called, and where it finds its scales.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "backend/ptx_asm.h"
#include "ir/matrix_unit.h"

namespace tilec::backend {

class ScaledProduct {
 public:
  // nullopt: there is no such instruction.
  static std::optional<ScaledProduct> Of(ir::DType a, ir::DType b, ir::DType scale, int64_t block);
  const Substitutions& with() const { return with_; }

  // Of a warp's `blocks` blocks of 16 rows (or 8 columns): register `word` of `block`, and the
  // selectors, byte-id and thread-id, for the step that begins at `k` of the buffer's columns.
  struct Place {
    size_t block = 0, word = 0;
    std::pair<std::string, std::string> ids;
  };
  Place At(bool left, int64_t block, int64_t blocks, int64_t k) const;

 private:
  Substitutions with_;
  int64_t of_byte_ = 1;  // numbers in it
  int64_t each_ = 1;     // scales of an instruction's row
  int64_t block_ = 32;
};

}  // namespace tilec::backend
