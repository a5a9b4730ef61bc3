// Diagnostics to the public Status. Private to api/.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "include/tilec/tilec.h"
#include "support/diag.h"

namespace tilec::api {

Status MakeStatus(const DiagSink& diags, const SourceMap& sources = {});

}  // namespace tilec::api
