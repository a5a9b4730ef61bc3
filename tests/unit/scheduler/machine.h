// A machine file that is built in, read for a test.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "ir/pass.h"

namespace tilec::scheduler {

inline ir::Target Machine(const std::string& name) {
  DiagSink diags;
  SourceMap sources;
  const std::string_view text = ir::BuiltinMachineText(name);
  Result<ir::Target> target =
      ir::ParseTarget(text, sources.Add(name + ".toml", std::string(text)), diags);
  EXPECT_TRUE(target.ok()) << RenderAll(diags, sources);
  return target.ok() ? *target : ir::Target();
}

}  // namespace tilec::scheduler
