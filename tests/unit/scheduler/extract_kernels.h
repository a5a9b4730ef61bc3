// Kernels of the standard library and what extraction makes of their loops.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "ir/pass.h"
#include "scheduler/extract.h"
#include "tests/unit/frontend/helper.h"
#include "tests/unit/scheduler/machine.h"

namespace tilec::scheduler {

inline ir::Function Kernel(const std::string& file, const std::string& kernel,
                           const frontend::Values& values) {
  frontend::Loaded loaded(
      *frontend::ReadWhole(std::string(TILEC_SOURCE_DIR) + "/stdlib/" + file + ".tile"), file);
  const std::optional<ir::Function> fn = loaded.Specialized(kernel, values);
  EXPECT_TRUE(fn.has_value()) << loaded.errors();
  return fn.value_or(ir::Function());
}

inline Extraction ExtractAll(const ir::Function& fn, const std::string& machine, int slices) {
  DiagSink diags;
  const std::vector<ir::OpId> loops = InnermostLoops(fn);
  EXPECT_EQ(loops.size(), 1u);
  Result<Extraction> loop = ExtractLoop(fn, loops[0], Machine(machine), slices, diags);
  EXPECT_TRUE(loop.ok()) << (diags.all().empty() ? "" : diags.all()[0].message);
  return loop.ok() ? *loop : Extraction();
}

inline Graph Extract(const ir::Function& fn, const std::string& machine, int slices) {
  return ExtractAll(fn, machine, slices).graph;
}

inline std::vector<int> OfKind(const Graph& g, const std::string& kind) {
  std::vector<int> ops;
  for (size_t v = 0; v < g.ops.size(); ++v)
    if (g.ops[v].kind == kind) ops.push_back(static_cast<int>(v));
  return ops;
}

}  // namespace tilec::scheduler
