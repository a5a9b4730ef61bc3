// Kernels that stand for several: over dtypes (`kernel gemm<T in {bf16, f16}>`), with tensors that
// a call may leave out (`bias: optional f32[N]`), over functions (`kernel attention<score: fn>`, of
// which an instance is written down: `kernel capped = attention<score = softcap>`). Each becomes
// ordinary kernels of a syntax tree, one for every choice, so that nothing behind this step knows
// of them: gemm_bf16, gemm_f16, gemm_bf16_bias, capped.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "language/ast.h"
#include "support/diag.h"

namespace tilec::frontend {

struct ItemRef;
struct ProgramData;

// Replaces kernels over dtypes and optional tensors in `ast.items` by what they stand for.
// `optional` tensors that are not given are gone from the parameters; `given(name)` is `true` or
// `false`.
Result<> Instantiate(language::Ast& ast, DiagSink& diags);
// The same for one item: itself where it is one kernel, or a pattern.
Result<std::vector<language::ItemId>> InstancesOf(language::Ast& ast, language::ItemId id,
                                                  DiagSink& diags);

// A kernel with function parameters: no entry point, only what instances are made from.
bool IsPattern(const language::Item& item);
// The kernels that an InstanceItem of `module` stands for. They lie in the tree of their pattern.
Result<std::vector<ItemRef>> BindFns(ProgramData& program, int module, language::ItemId instance,
                                     DiagSink& diags);

}  // namespace tilec::frontend
