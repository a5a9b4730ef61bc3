// The rows of plan_laws.def as diagnostics.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/diag.h"

namespace tilec::ir::law {

#define LAW(Code, Name, Law, Format, Explain) \
  inline constexpr DiagDef k##Name{#Code, #Name, Severity::kError, Format, Explain};
#include "ir/plan_laws.def"
#undef LAW

inline constexpr const DiagDef* kDiags[] = {
#define LAW(Code, Name, Law, Format, Explain) &k##Name,
#include "ir/plan_laws.def"
#undef LAW
};

}  // namespace tilec::ir::law
