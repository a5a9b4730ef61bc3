// What the front end can say about a program: one constant per row of diagnostics.def.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/diag.h"

namespace tilec::frontend {

#define DIAG(Code, Name, Sev, Format, Explain) \
  inline constexpr DiagDef k##Name{#Code, #Name, Severity::Sev, Format, Explain};
#include "frontend/diagnostics.def"
#undef DIAG

inline constexpr const DiagDef* kDiags[] = {
#define DIAG(Code, Name, Sev, Format, Explain) &k##Name,
#include "frontend/diagnostics.def"
#undef DIAG
};

}  // namespace tilec::frontend
