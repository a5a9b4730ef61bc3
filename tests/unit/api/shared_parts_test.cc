// Parts of a tile's loop whose neighbours copy for each other, and pairs along the columns: which
// loops may be so divided, and which sizes the model takes them for.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "api/schedule_names.h"
#include "api/split.h"
#include "ir/passes/divide_reductions.h"
#include "ir/passes/even_parts.h"
#include "ir/passes/split_reductions.h"
#include "tests/unit/api/loaded.h"

namespace tilec::api {
namespace {

// Sums of the first `Z` columns of operands of K, or of all of them where the loop says K.
std::string SumsUpTo(const std::string& end) {
  return "kernel gemm(A: bf16[M, K], B: bf16[N, K], Z: i32, C: out f32[M, N]) {\n"
         "  parallel m in tiles(M, 64), n in tiles(N, 64) {\n"
         "    var acc: f32[64, 64] = 0\n"
         "    for k in tiles(" +
         end +
         ", 64) { acc += A[m, k] @ B[n, k].T }\n"
         "    C[m, n] = acc\n"
         "  }\n"
         "}\n";
}

class EvenPartsTest : public LoweringTest {
 protected:
  EvenPartsTest() : LoweringTest("gemm") {}
  bool Even(const std::string& end) {
    LoadText(loaded_, SumsUpTo(end));
    call_ = AlignedCall();
    auto fn = api::MakeTileIr(loaded_, kernel_, call_, nullptr, diags_);
    EXPECT_TRUE(fn.ok()) << RenderAll(diags_, loaded_.sources);
    auto clean = Clean(std::move(*fn), PipelineOptions(), diags_);
    EXPECT_TRUE(clean.ok());
    ir::Function parts;
    EXPECT_FALSE(ir::PartsOfReductions(clean->fn, 3, &parts));
    EXPECT_FALSE(ir::GuardParts(parts));
    return ir::EvenParts(parts);
  }
};

TEST_F(EvenPartsTest, WhatEndsWithItsTensorsHasNothingBehind) { EXPECT_TRUE(Even("K")); }

// Behind a loop's end there may be numbers.
TEST_F(EvenPartsTest, WhatEndsBeforeHas) { EXPECT_FALSE(Even("Z as i64")); }

}  // namespace
}  // namespace tilec::api
