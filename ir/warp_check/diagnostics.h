// What the proof can say about a program of roles: one constant per row of diagnostics.def.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/diag.h"

namespace tilec::ir::warp_check {

#define DIAG(Code, Name, Sev, Format, Explain) \
  inline constexpr DiagDef k##Name{#Code, #Name, Severity::Sev, Format, Explain};
#include "ir/warp_check/diagnostics.def"
#undef DIAG

inline constexpr const DiagDef* kDiags[] = {
#define DIAG(Code, Name, Sev, Format, Explain) &k##Name,
#include "ir/warp_check/diagnostics.def"
#undef DIAG
};

}  // namespace tilec::ir::warp_check
