// What may be typed at a place: names in scope, built-in functions, keywords and dtypes; behind `.`
// the members of ranges and tiles; inside the quotes of an import the modules there are.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "editor/analysis.h"

namespace tilec::editor {

enum class CompletionKind { kName, kFunction, kKeyword, kType, kMember, kModule };

struct Completion {
  std::string label, detail;
  CompletionKind kind{};
};

// `text` is the document as it is now; `a` the newest version of it that had a syntax tree. The
// client filters by what was typed.
std::vector<Completion> CompletionsAt(const Analysis& a, std::string_view text, Position at,
                                      const std::vector<std::string>& modules);

}  // namespace tilec::editor
