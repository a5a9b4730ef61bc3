// What an editor asks of a document: meaning under the cursor, definitions, names, completions,
// edits, lenses. One request, one function; server.cc knows which is which.
//
// SPDX-License-Identifier: Apache-2.0
#include "editor/server.h"

#include "editor/actions.h"
#include "editor/complete.h"
#include "editor/errors.h"
#include "editor/lookup.h"
#include "language/format.h"

namespace tilec::editor {

namespace {

// SymbolKind and CompletionItemKind of the protocol.
int SymbolNumber(SymbolKind kind) {
  constexpr int kFunction = 12, kVariable = 13, kConstant = 14;
  switch (kind) {
    case SymbolKind::kKernel:
    case SymbolKind::kFunction: return kFunction;
    case SymbolKind::kConst:
    case SymbolKind::kTune:
    case SymbolKind::kDim: return kConstant;
    case SymbolKind::kTensor:
    case SymbolKind::kScalar:
    case SymbolKind::kLet:
    case SymbolKind::kVar:
    case SymbolKind::kLoop: return kVariable;
  }
  return kVariable;
}

int CompletionNumber(CompletionKind kind) {
  switch (kind) {
    case CompletionKind::kName: return 6;
    case CompletionKind::kFunction: return 3;
    case CompletionKind::kKeyword: return 14;
    case CompletionKind::kType: return 25;
    case CompletionKind::kMember: return 5;
    case CompletionKind::kModule: return 9;
  }
  return 1;
}

int SeverityNumber(Severity severity) {
  switch (severity) {
    case Severity::kError: return 1;
    case Severity::kWarning: return 2;
    case Severity::kNote: return 3;
  }
  return 1;
}

std::string MessageOf(const Diagnostic& d) {
  std::string out = d.message;
  for (const std::string& note : d.notes) out += "\nnote: " + note;
  for (const std::string& help : d.helps) out += "\nhelp: " + help;
  return out;
}

Json EditsOf(const std::vector<TextEdit>& edits) {
  Json out = Json::array();
  for (const TextEdit& edit : edits)
    out.push_back({{"range", ToJson(edit.range)}, {"newText", edit.text}});
  return out;
}

Json WorkspaceEdit(const std::string& uri, const std::vector<TextEdit>& edits) {
  Json changes = Json::object();
  changes[uri] = EditsOf(edits);
  return {{"changes", changes}};
}

}  // namespace

Json Server::DiagnosticsOf(const Analysis& a) const {
  Json out = Json::array();
  const LineIndex lines = a.lines();
  for (const Diagnostic& d : a.diags.all()) {
    Json one = {{"severity", SeverityNumber(d.def->severity)},
                {"code", d.def->code},
                {"source", "tilec"},
                {"message", MessageOf(d)}};
    if (d.span.file == a.file) {
      one["range"] = ToJson(lines.RangeOf(d.span.begin, d.span.end));
    } else {  // in an imported file, or nowhere: at the top of this one, with the place in words
      one["range"] = ToJson(Range{});
      if (d.span.known()) {
        const LineCol at = a.sources.Locate(d.span.file, d.span.begin);
        one["message"] =
            fmt::format("{}:{}: {}", a.sources.path(d.span.file), at.line, MessageOf(d));
      }
    }
    Json related = Json::array();
    for (const DiagLabel& label : d.labels) {
      if (!label.span.known()) continue;
      const LineIndex there(a.sources.text(label.span.file));
      related.push_back({{"location",
                          {{"uri", UriOf(a.sources.path(label.span.file))},
                           {"range", ToJson(there.RangeOf(label.span.begin, label.span.end))}}},
                         {"message", label.text}});
    }
    if (!related.empty()) one["relatedInformation"] = related;
    out.push_back(one);
  }
  return out;
}

// What became of a loop on the target. Silence would read as "nothing to say" where a branch that
// the values rule out, or one that is made in a launch of its own, has no schedule to show.
std::vector<std::string> Server::NotesOfLoop(Document& document, const Symbol& loop) {
  std::vector<std::string> out;
  const std::string on = "on " + options_.target + ": ";
  for (const TypedKernel& kernel : document.current->kernels)
    for (const LoopSummary& made : Schedules(document, kernel))
      if (made.begin <= loop.whole.begin && loop.whole.end <= made.end)
        out.push_back(on + Describe(made));
  const TypedKernel* around = KernelAround(*document.current, loop);
  if (out.empty() && around && !Schedules(document, *around).empty())
    out.push_back(on +
                  "not in the program of these values: they rule it out, or it stands in a "
                  "branch that hardly ever runs");
  return out;
}

Json Server::OnHover(const Json& params, Failure* failure) {
  Document* document = Find(params, failure);
  if (!document) return nullptr;
  const Analysis& a = document->tree();
  const Position at = ReadPosition(At(params, "position"));
  std::optional<Hover> hover = HoverAt(a, at);
  if (!hover) return nullptr;
  const Symbol* symbol = a.symbols.At(a.lines().OffsetOf(at));
  if (symbol && symbol->kind == SymbolKind::kLoop && &a == document->current.get())
    for (std::string& note : NotesOfLoop(*document, *symbol)) hover->notes.push_back(note);
  std::string text = "```tile\n" + hover->code + "\n```";
  for (const std::string& note : hover->notes) text += "\n\n" + note;
  return {{"contents", {{"kind", "markdown"}, {"value", text}}}, {"range", ToJson(hover->range)}};
}

Json Server::OnDefinition(const Json& params, Failure* failure) {
  Document* document = Find(params, failure);
  if (!document) return nullptr;
  const auto location = DefinitionAt(document->tree(), ReadPosition(At(params, "position")));
  // A module that is built into the compiler is no file that an editor could open.
  const bool own = location && location->path == document->path;
  if (!location || (!own && location->path.substr(0, 1) != "/")) return nullptr;
  return {{"uri", own ? UriIn(params) : UriOf(location->path)}, {"range", ToJson(location->range)}};
}

Json Server::OnReferences(const Json& params, Failure* failure) {
  Document* document = Find(params, failure);
  if (!document) return nullptr;
  Json out = Json::array();
  for (const Range& range : ReferencesAt(document->tree(), ReadPosition(At(params, "position"))))
    out.push_back({{"uri", UriIn(params)}, {"range", ToJson(range)}});
  return out;
}

Json Server::OnHighlight(const Json& params, Failure* failure) {
  Json out = OnReferences(params, failure);
  if (!out.is_array()) return nullptr;
  for (Json& one : out) one.erase("uri");
  return out;
}

Json Server::OnPrepareRename(const Json& params, Failure* failure) {
  Document* document = Find(params, failure);
  if (!document) return nullptr;
  const Renaming renaming = CanRename(document->tree(), ReadPosition(At(params, "position")));
  if (renaming.range) return ToJson(*renaming.range);
  *failure = {kRequestFailed, renaming.why_not};
  return nullptr;
}

Json Server::OnRename(const Json& params, Failure* failure) {
  Document* document = Find(params, failure);
  if (!document) return nullptr;
  std::string why_not;
  if (!document->current->ast) {
    *failure = {kRequestFailed, "mend the syntax errors first: not every use can be seen"};
    return nullptr;
  }
  const std::vector<TextEdit> edits = Rename(
      *document->current, ReadPosition(At(params, "position")), Text(params, "newName"), &why_not);
  if (!edits.empty()) return WorkspaceEdit(UriIn(params), edits);
  *failure = {kRequestFailed, why_not};
  return nullptr;
}

Json Server::OnCompletion(const Json& params, Failure* failure) {
  Document* document = Find(params, failure);
  if (!document) return nullptr;
  Json out = Json::array();
  for (const Completion& c :
       CompletionsAt(document->tree(), document->text, ReadPosition(At(params, "position")),
                     library_.modules()))
    out.push_back({{"label", c.label}, {"detail", c.detail}, {"kind", CompletionNumber(c.kind)}});
  return out;
}

Json Server::OnFormatting(const Json& params, Failure* failure) {
  Document* document = Find(params, failure);
  if (!document) return nullptr;
  const Analysis& a = *document->current;
  if (!a.ast) {
    *failure = {kRequestFailed, "a file with syntax errors has no layout"};
    return nullptr;
  }
  const std::string formatted = language::Format(*a.ast, a.sources, a.file);
  if (formatted == document->text) return Json::array();
  const Range all{{0, 0}, a.lines().PositionOf(static_cast<uint32_t>(document->text.size()))};
  return EditsOf({{all, formatted}});
}

Json Server::OnCodeAction(const Json& params, Failure* failure) {
  Document* document = Find(params, failure);
  if (!document) return nullptr;
  const Analysis& a = *document->current;
  const Json diagnostics = DiagnosticsOf(a);
  Json out = Json::array();
  for (const CodeAction& action : ActionsFor(a, ReadRange(At(params, "range")), library_))
    out.push_back({{"title", action.title},
                   {"kind", "quickfix"},
                   {"diagnostics", {diagnostics[action.diagnostic]}},
                   {"edit", WorkspaceEdit(UriIn(params), {action.edit})}});
  return out;
}

Json Server::OnInlayHint(const Json& params, Failure* failure) {
  Document* document = Find(params, failure);
  if (!document) return nullptr;
  Json out = Json::array();
  if (!document->current->ast) return out;  // places of an older text would be wrong here
  constexpr int kTypeHint = 1;
  for (const InlayHint& hint : InlayHints(*document->current, ReadRange(At(params, "range"))))
    out.push_back({{"position", ToJson(hint.at)}, {"label", hint.text}, {"kind", kTypeHint}});
  return out;
}

Json Server::OnCodeLens(const Json& params, Failure* failure) {
  Document* document = Find(params, failure);
  if (!document) return nullptr;
  Json out = Json::array();
  const Analysis& a = *document->current;
  for (const Outline& item : OutlineOf(a))
    for (const TypedKernel& kernel : a.kernels)
      if (item.kind == SymbolKind::kKernel && item.name == kernel.name)
        out.push_back({{"range", ToJson(item.name_range)},
                       {"data", {{"uri", UriIn(params)}, {"kernel", kernel.name}}}});
  return out;
}

Json Server::OnResolveLens(const Json& params, Failure* failure) {
  const Json& data = At(params, "data");
  const auto it = documents_.find(Text(data, "uri"));
  if (!params.is_object() || it == documents_.end()) {
    *failure = {kInvalidParams, "this lens is of no open document"};
    return nullptr;
  }
  std::string title = "no schedule";
  for (const TypedKernel& kernel : it->second.current->kernels) {
    if (kernel.name != Text(data, "kernel")) continue;
    std::string loops;
    for (const LoopSummary& loop : Schedules(it->second, kernel))
      loops += (loops.empty() ? "" : " | ") + Describe(loop);
    if (!loops.empty()) title = options_.target + ": " + loops;
  }
  Json lens = params;
  lens["command"] = {{"title", title}, {"command", ""}};
  return lens;
}

Json Server::OnSymbols(const Json& params, Failure* failure) {
  Document* document = Find(params, failure);
  if (!document) return nullptr;
  Json out = Json::array();
  for (const Outline& item : OutlineOf(document->tree()))
    out.push_back({{"name", item.name},
                   {"detail", item.detail},
                   {"kind", SymbolNumber(item.kind)},
                   {"range", ToJson(item.whole)},
                   {"selectionRange", ToJson(item.name_range)}});
  return out;
}

}  // namespace tilec::editor
