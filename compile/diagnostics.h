// The rows of diagnostics.def as constants.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/diag.h"

namespace tilec::compile {

#define DIAG(code, name, severity, format, explain) \
  inline constexpr DiagDef k##name{#code, #name, Severity::severity, format, explain};
#include "compile/diagnostics.def"
#undef DIAG

inline constexpr const DiagDef* kDiags[] = {
#define DIAG(code, name, severity, format, explain) &k##name,
#include "compile/diagnostics.def"
#undef DIAG
};

}  // namespace tilec::compile
