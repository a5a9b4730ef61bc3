// SPDX-License-Identifier: Apache-2.0
#include "editor/actions.h"

namespace tilec::editor {

namespace {

// The texts between backticks, in order.
std::vector<std::string> Quoted(const std::string& text) {
  std::vector<std::string> out;
  for (size_t at = text.find('`'); at != std::string::npos;) {
    const size_t end = text.find('`', at + 1);
    if (end == std::string::npos) break;
    out.push_back(text.substr(at + 1, end - at - 1));
    at = text.find('`', end + 1);
  }
  return out;
}

// An import that brings `module` in, above everything else.
struct Candidate {
  Span at;
  std::string text, title;
};

std::vector<Candidate> CandidatesOf(const Analysis& a, const Diagnostic& d) {
  std::vector<Candidate> out;
  const std::string there(a.sources.TextOf(d.span));
  for (const std::string& help : d.helps) {
    if (help.find("begin its name with `_`") != std::string::npos) {
      out.push_back({d.span, "_" + there, fmt::format("write `_{}`", there)});
      continue;
    }
    for (const std::string& text : Quoted(help)) {
      if (text.empty() || text.find("…") != std::string::npos) continue;  // an example, not a fix
      if (text.substr(0, 7) == "import ")
        out.push_back({{a.file, 0, 0}, text + "\n", fmt::format("add `{}`", text)});
      else
        out.push_back({d.span, text, fmt::format("write `{}`", text)});
    }
  }
  return out;
}

struct Count {
  int errors = 0;
  size_t all = 0;
  bool operator<(const Count& other) const {
    return errors != other.errors ? errors < other.errors : all < other.all;
  }
};

Count CountOf(const DiagSink& diags) { return {diags.errors(), diags.all().size()}; }

}  // namespace

std::vector<CodeAction> ActionsFor(const Analysis& a, Range range,
                                   const api::StandardLibrary& library) {
  std::vector<CodeAction> out;
  const LineIndex lines = a.lines();
  const uint32_t begin = lines.OffsetOf(range.start), end = lines.OffsetOf(range.end);
  for (size_t i = 0; i < a.diags.all().size(); ++i) {
    const Diagnostic& d = a.diags.all()[i];
    if (d.span.file != a.file || d.span.end < begin || d.span.begin > end) continue;
    for (const Candidate& c : CandidatesOf(a, d)) {
      std::string text(a.text());
      text.replace(c.at.begin, c.at.end - c.at.begin, c.text);
      const auto then = Analyse(a.path, text, library);
      if (!(CountOf(then->diags) < CountOf(a.diags))) continue;
      out.push_back({c.title, {lines.RangeOf(c.at.begin, c.at.end), c.text}, i});
    }
  }
  return out;
}

}  // namespace tilec::editor
