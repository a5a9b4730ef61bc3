// SPDX-License-Identifier: Apache-2.0
#include "support/diag.h"

#include <algorithm>

namespace tilec {

DiagBuilder& DiagBuilder::Label(Span span, std::string text) {
  sink_->all_[index_].labels.push_back({span, std::move(text)});
  return *this;
}
DiagBuilder& DiagBuilder::Note(std::string text) {
  sink_->all_[index_].notes.push_back(std::move(text));
  return *this;
}
DiagBuilder& DiagBuilder::Help(std::string text) {
  sink_->all_[index_].helps.push_back(std::move(text));
  return *this;
}
DiagBuilder& DiagBuilder::Place(std::string place) {
  sink_->all_[index_].place = std::move(place);
  return *this;
}

DiagBuilder DiagSink::ReportText(const DiagDef& def, Span span, std::string message) {
  Diagnostic d;
  d.def = &def;
  d.span = span;
  d.message = std::move(message);
  all_.push_back(std::move(d));
  if (def.severity == Severity::kError) ++errors_;
  return DiagBuilder(this, all_.size() - 1);
}

void DiagSink::MoveTo(DiagSink& other) {
  for (Diagnostic& d : all_) other.all_.push_back(std::move(d));
  other.errors_ += errors_;
  Clear();
}

namespace {

const char* SeverityName(Severity s) {
  switch (s) {
    case Severity::kError: return "error";
    case Severity::kWarning: return "warning";
    case Severity::kNote: return "note";
  }
  return "error";
}

// Tabs become one space so that carets line up with what is printed.
std::string Untabbed(std::string_view text) {
  std::string out(text);
  std::replace(out.begin(), out.end(), '\t', ' ');
  return out;
}

// "  --> file:line:col" and the line with its caret; `words` stands behind the caret.
void AppendPlace(std::string& out, const SourceMap& sources, Span span, const std::string& words,
                 char mark) {
  const LineCol at = sources.Locate(span.file, span.begin);
  out += fmt::format("  --> {}:{}:{}\n", sources.path(span.file), at.line, at.column);
  const std::string number = std::to_string(at.line);
  const std::string line = Untabbed(at.text);
  const size_t from = std::min<size_t>(static_cast<size_t>(at.column - 1), line.size());
  size_t width = span.end > span.begin ? span.end - span.begin : 1;
  width = std::max<size_t>(1, std::min(width, line.size() > from ? line.size() - from : 1));
  // Very long lines are windowed around the caret: a diagnostic stays readable.
  constexpr size_t kMaxShown = 160;
  size_t shift = 0;
  std::string shown = line;
  if (line.size() > kMaxShown) {
    shift = from > 60 ? from - 60 : 0;
    shown = line.substr(shift, kMaxShown);
    width = std::min(width, shown.size() > from - shift ? shown.size() - (from - shift) : 1);
  }
  out += fmt::format(" {} | {}\n", number, shown);
  out += fmt::format(" {} | {}{}{}{}\n", std::string(number.size(), ' '),
                     std::string(from - shift, ' '), std::string(width, mark),
                     words.empty() ? "" : " ", words);
}

void AppendJsonString(std::string& out, std::string_view s) {
  out += '"';
  for (char c : s) {
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      default:
        if (static_cast<unsigned char>(c) < 0x20)
          out += fmt::format("\\u{:04x}", static_cast<int>(c));
        else
          out += c;
    }
  }
  out += '"';
}

void AppendJsonPlace(std::string& out, const SourceMap& sources, Span span) {
  if (!span.known()) {
    out += "\"file\":null";
    return;
  }
  const LineCol b = sources.Locate(span.file, span.begin);
  const LineCol e = sources.Locate(span.file, span.end);
  out += "\"file\":";
  AppendJsonString(out, sources.path(span.file));
  out += fmt::format(",\"line\":{},\"column\":{},\"end_line\":{},\"end_column\":{}", b.line,
                     b.column, e.line, e.column);
}

}  // namespace

std::string Render(const Diagnostic& d, const SourceMap& sources, bool color) {
  const char* name = SeverityName(d.def->severity);
  std::string out;
  if (color) {
    const char* paint = d.def->severity == Severity::kError ? "\x1b[1;31m" : "\x1b[1;33m";
    out += fmt::format("{}{}[{}]\x1b[0m\x1b[1m: {}\x1b[0m\n", paint, name, d.def->code, d.message);
  } else {
    out += fmt::format("{}[{}]: {}\n", name, d.def->code, d.message);
  }
  if (d.span.known())
    AppendPlace(out, sources, d.span, "", '^');
  else if (!d.place.empty())
    out += fmt::format("  --> {}\n", d.place);
  for (const DiagLabel& label : d.labels) {
    if (label.span.known())
      AppendPlace(out, sources, label.span, label.text, '-');
    else
      out += fmt::format("  = {}\n", label.text);
  }
  for (const std::string& note : d.notes) out += fmt::format("  = {}\n", note);
  for (const std::string& help : d.helps) out += fmt::format("  help: {}\n", help);
  return out;
}

std::string RenderAll(const DiagSink& diags, const SourceMap& sources, bool color) {
  std::string out;
  for (const Diagnostic& d : diags.all()) out += Render(d, sources, color);
  return out;
}

std::string RenderJson(const Diagnostic& d, const SourceMap& sources) {
  std::string out = "{\"code\":";
  AppendJsonString(out, d.def->code);
  out += fmt::format(",\"severity\":\"{}\",\"message\":", SeverityName(d.def->severity));
  AppendJsonString(out, d.message);
  out += ',';
  AppendJsonPlace(out, sources, d.span);
  if (!d.place.empty()) {
    out += ",\"place\":";
    AppendJsonString(out, d.place);
  }
  out += ",\"labels\":[";
  for (size_t i = 0; i < d.labels.size(); ++i) {
    out += i ? ",{" : "{";
    AppendJsonPlace(out, sources, d.labels[i].span);
    out += ",\"text\":";
    AppendJsonString(out, d.labels[i].text);
    out += '}';
  }
  out += "]";
  auto list = [&](const char* key, const std::vector<std::string>& items) {
    out += fmt::format(",\"{}\":[", key);
    for (size_t i = 0; i < items.size(); ++i) {
      if (i) out += ',';
      AppendJsonString(out, items[i]);
    }
    out += ']';
  };
  list("notes", d.notes);
  list("helps", d.helps);
  return out + "}";
}

}  // namespace tilec
