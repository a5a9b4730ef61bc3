// Kernels that stand for several: over dtypes (`kernel gemm<T in {bf16, f16}>`) and with tensors
// that a call may leave out (`bias: optional f32[N]`). Each becomes ordinary kernels of a syntax
// tree, one for every choice, so that nothing behind this step knows of them: gemm_bf16, gemm_f16,
// gemm_bf16_bias.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "language/ast.h"
#include "support/diag.h"

namespace tilec::frontend {

// Replaces such kernels in `ast.items` by what they stand for. `optional` tensors that are not
// given are gone from the parameters; `given(name)` is `true` or `false`.
Result<> Instantiate(language::Ast& ast, DiagSink& diags);

}  // namespace tilec::frontend
