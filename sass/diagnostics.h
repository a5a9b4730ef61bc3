// The rows of diagnostics.def as constants.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/diag.h"

namespace tilec::sass {

#define DIAG(Code, Name, severity, format, explain) \
  inline constexpr DiagDef k##Name{#Code, #Name, Severity::severity, format, explain};
#include "sass/diagnostics.def"
#undef DIAG

inline constexpr const DiagDef* kDiags[] = {
#define DIAG(Code, Name, severity, format, explain) &k##Name,
#include "sass/diagnostics.def"
#undef DIAG
};

}  // namespace tilec::sass
