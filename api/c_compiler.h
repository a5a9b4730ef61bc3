// The compiler's handle of the C interface, which the runtime libraries have not. Private to api/.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "api/c_handles.h"

struct tilec_compiler {
  tilec::Compiler compiler;
};
