// A small function around the lines that a test of passes is about, and what stands in it
// afterwards.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "ir/interpret.h"
#include "ir/pass.h"
#include "ir/passes/passes.h"
#include "tests/unit/h200.h"
#include "tests/unit/ir/test_util.h"

namespace tilec::ir {

// A function over %A: f32[8, 8] in, %R: f32[8, 8] out, with the given body lines; %z = 0, %n = 8.
inline std::string Kernel(const std::string& body) {
  return fmt::format(R"(func @f tile {{
  param tensor %A: tensor<f32, 2> in [8, 8] align=1 stride_align=1 contiguous=1
  param tensor %R: tensor<f32, 2> out [8, 8] align=1 stride_align=1 contiguous=1
  param scalar %s: i64
  body {{
    %z = constant {{value = 0}} : i64
    %n = constant {{value = 8}} : i64
    %a = load %A, %z, %z {{modes = "rr", sizes = [8, 8]}} : f32[8, 8]
{}    store %R, %r, %z, %n, %z, %n {{modes = "rr", sizes = [8, 8]}}
  }}
}}
)",
                     body);
}

inline Function After(const std::string& text, std::vector<std::string> passes) {
  Function fn = Parsed(text);
  DiagSink diags;
  Result<std::vector<PassId>> pipeline = PipelineFromNames(passes, kTileLevel, diags);
  if (!pipeline.ok() || !RunPasses(fn, *pipeline, H200(), {}, diags).ok())
    ADD_FAILURE() << Messages(diags);
  return fn;
}

inline int Count(const Function& fn, OpKind kind) {
  int n = 0;
  std::vector<BlockId> work = {fn.body};
  while (!work.empty()) {
    const BlockId b = work.back();
    work.pop_back();
    for (OpId id : fn.blocks[b].ops) {
      n += fn.ops[id].kind == kind;
      work.insert(work.end(), fn.ops[id].regions.begin(), fn.ops[id].regions.end());
    }
  }
  return n;
}

}  // namespace tilec::ir
