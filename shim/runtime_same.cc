// The entries of runtime_same.def.
//
// SPDX-License-Identifier: Apache-2.0
#include "shim/driver_entries.h"
#include "shim/runtime_state.h"

using namespace tilec::shim;  // NOLINT: entries have C names

#define SAME(name, driver, parameters, arguments) \
  SHIM_API int name parameters { return Last(driver arguments); }
#include "shim/runtime_same.def"
#undef SAME
