// The machine of tests that are about programs and not about machines.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/target.h"
#include "support/check.h"

namespace tilec::ir {

inline const Target& H200() {
  static const Target target = [] {
    DiagSink diags;
    Result<Target> read = LoadBuiltinTarget("h200", diags);
    CHECK(read.ok(), "ir/machines/h200.toml cannot be read");
    return std::move(*read);
  }();
  return target;
}

}  // namespace tilec::ir
