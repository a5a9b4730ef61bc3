// Quick fixes from what the compiler's helps say. A fix is offered only if it was tried: applied to
// the text, the compiler finds fewer errors (or, for a warning, fewer diagnostics) than before.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "editor/analysis.h"
#include "editor/lookup.h"

namespace tilec::editor {

struct CodeAction {
  std::string title;  // "write `acc`"
  TextEdit edit;
  size_t diagnostic = 0;  // of Analysis::diags
};

// Of diagnostics whose place meets `range`.
std::vector<CodeAction> ActionsFor(const Analysis& a, Range range,
                                   const api::StandardLibrary& library);

}  // namespace tilec::editor
