// tilec opt: passes on IR text, for tests, bug reports and the curious.
//
// SPDX-License-Identifier: Apache-2.0
#include "api/diagnostics.h"
#include "ir/lower/sequential.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "support/file.h"
#include "support/nearest.h"
#include "tools/commands.h"
#include "tools/diagnostics.h"
#include "tools/session.h"

namespace tilec::tools {

int CmdOpt(const Options& options) {
  Session session(options);
  (void)options;
  return session.Finish();
}

}  // namespace tilec::tools
