// Programs in text, loaded for a compilation, and what a call with aligned tensors says of them.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "api/pipeline.h"
#include "support/diag.h"

namespace tilec {

inline void LoadText(api::Loaded& loaded, const std::string& text) {
  DiagSink diags;
  auto program = frontend::Program::LoadText(loaded.sources, "t.tile", text, nullptr, diags);
  ASSERT_TRUE(program.ok()) << RenderAll(diags, loaded.sources);
  loaded.program.emplace(std::move(*program));
}

// Tensors A, B and C, dense and aligned.
inline api::Call AlignedCall() {
  api::Call call;
  for (const char* name : {"A", "B", "C"})
    call.facts[name] = {.base_align_bytes = 256,
                        .stride_align_bytes = 512,
                        .last_dim_align = 128,
                        .last_contiguous = true};
  return call;
}

}  // namespace tilec
