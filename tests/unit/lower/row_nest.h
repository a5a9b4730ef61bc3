// A nest over rows of X and Y whose loops walk over pieces of them, as text: what stands around the
// loops, and how the last of them stores a piece.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "tests/unit/lower/helper.h"

namespace tilec::ir {

struct NestRows {
  std::string dtype, columns;
  int64_t stride_align = 16, last_align = 1;
};

// `loops` may use %r, a row, %C, its columns, and %0.
inline std::string RowNest(const NestRows& rows, const std::string& loops) {
  std::string tensors;
  for (const char* tensor : {"X: tensor<DTYPE, 2> in", "Y: tensor<DTYPE, 2> out"})
    tensors += "  param tensor %" + With(tensor, "DTYPE", rows.dtype) + " [R, " + rows.columns +
               "] align=16 stride_align=" + std::to_string(rows.stride_align) +
               " contiguous=1 last_align=" + std::to_string(rows.last_align) + "\n";
  return "func @rows tile {\n" + tensors + R"(  param dim %R: i64
  body {
    %0 = constant {value = 0} : i64
    parallel %0, %R {steps = [1]} do (%r: i64) {
      %C = constant {value = )" +
         rows.columns + "} : i64\n" + loops + R"(      yield
    }
  }
}
)";
}

// The end of a loop's turn at %at, of `step` columns: `value` is stored.
inline std::string StoredPiece(const std::string& value, const std::string& step) {
  const std::string text = R"(        %one = constant {value = 1} : i64
        %r1 = add %r, %one : i64
        %re = min %r1, %R : i64
        %step = constant {value = STEP} : i64
        %c1 = add %at, %step : i64
        %ce = min %c1, %C : i64
        store %Y, VALUE, %r, %re, %at, %ce {modes = "rr", sizes = [1, STEP]}
        yield
      }
)";
  return With(With(text, "STEP", step), "VALUE", value);
}

}  // namespace tilec::ir
