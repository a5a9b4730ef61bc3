// The diagnostics of this folder as constants, from diagnostics.def.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/diag.h"

namespace tilec::language {

#define DIAG(Code, Name, Sev, Format, Explain) \
  inline constexpr DiagDef k##Name{#Code, #Name, Severity::Sev, Format, Explain};
#include "language/diagnostics.def"
#undef DIAG

inline constexpr const DiagDef* kDiags[] = {
#define DIAG(Code, Name, Sev, Format, Explain) &k##Name,
#include "language/diagnostics.def"
#undef DIAG
};

}  // namespace tilec::language
