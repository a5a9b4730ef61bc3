// Questions about a place in a document: what stands here, where is it defined, who else names it.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "editor/analysis.h"

namespace tilec::editor {

struct Location {
  std::string path;
  Range range;
};
struct TextEdit {
  Range range;
  std::string text;
};
struct InlayHint {
  Position at;
  std::string text;  // ": f32[128, 256]"
};
struct Outline {
  std::string name, detail;
  SymbolKind kind{};
  Range whole, name_range;
};

// Text for a person, the range it is about. Empty: nothing to say here.
struct Hover {
  std::string code;                // "let acc: f32[128, 256]"
  std::vector<std::string> notes;  // plain sentences
  Range range;
};
std::optional<Hover> HoverAt(const Analysis& a, Position at);

// The kernel in whose item the symbol stands, if its values are known; else null.
const TypedKernel* KernelAround(const Analysis& a, const Symbol& symbol);

// Of a name of this file, or of an imported module; of a path behind `import`, the module.
std::optional<Location> DefinitionAt(const Analysis& a, Position at);
std::vector<Range> ReferencesAt(const Analysis& a, Position at);

// The range of the name that a rename would change, or why there is none.
struct Renaming {
  std::optional<Range> range;
  std::string why_not;
};
Renaming CanRename(const Analysis& a, Position at);
// Edits of this document; empty, with `why_not`: refused.
std::vector<TextEdit> Rename(const Analysis& a, Position at, const std::string& name,
                             std::string* why_not);

// Shapes of `let`s and `var`s that do not say their type.
std::vector<InlayHint> InlayHints(const Analysis& a, Range range);
std::vector<Outline> OutlineOf(const Analysis& a);

}  // namespace tilec::editor
