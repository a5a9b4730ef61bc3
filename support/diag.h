// Diagnostics: what a user sees when something is wrong with *their* input or machine.
//
// Each folder declares its diagnostics as rows of its diagnostics.def; a row becomes a constexpr
// DiagDef. Reporting one yields a Reported, the only thing a failing Result can be made from:
//
//   return diags.Report(kDotInnerMismatch, span, a.cols, b.rows)
//       .Label(a_span, "this has 64 columns").Help("write `B[n, k].T`");
//
// Wording: lower case, no full stop, code in backticks; say what was seen with its numbers.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/result.h"
#include "support/source.h"

namespace tilec {

enum class Severity { kError, kWarning, kNote };

// One row of a diagnostics.def. `format` uses fmt placeholders {0} {1} …; `explain` is the long
// text of `tilec help CODE`.
struct DiagDef {
  const char* code;
  const char* name;
  Severity severity;
  const char* format;
  const char* explain;
};

struct DiagLabel {
  Span span;
  std::string text;
};

struct Diagnostic {
  const DiagDef* def = nullptr;
  Span span;          // primary place; may be unknown (then `place` may say it in words)
  std::string place;  // e.g. "command line", "kernel.ptx:12"; used when span is unknown
  std::string message;
  std::vector<DiagLabel> labels;  // further places, each with its own words
  std::vector<std::string> notes;
  std::vector<std::string> helps;
};

class DiagSink;

// Fluent additions to the diagnostic just reported; converts to a failing Result<T>.
class DiagBuilder {
 public:
  DiagBuilder& Label(Span span, std::string text);
  DiagBuilder& Note(std::string text);
  DiagBuilder& Help(std::string text);
  DiagBuilder& Place(std::string place);
  operator Reported() const { return Reported(); }  // NOLINT: implicit by design
  template <typename T>
  operator Result<T>() const {  // NOLINT: implicit by design
    return Result<T>(Reported());
  }

 private:
  friend class DiagSink;
  DiagBuilder(DiagSink* sink, size_t index) : sink_(sink), index_(index) {}
  DiagSink* sink_;
  size_t index_;
};

// Collects diagnostics in order. Not thread-safe: one sink per compilation.
class DiagSink {
 public:
  template <typename... Args>
  DiagBuilder Report(const DiagDef& def, Span span, const Args&... args) {
    return ReportText(def, span, fmt::format(fmt::runtime(def.format), args...));
  }
  DiagBuilder ReportText(const DiagDef& def, Span span, std::string message);

  // For TRY: the callee has reported already.
  static result_internal::Failure Propagate() { return {Reported()}; }

  bool has_errors() const { return errors_ > 0; }
  int errors() const { return errors_; }
  const std::vector<Diagnostic>& all() const { return all_; }
  void Clear() { all_.clear(), errors_ = 0; }
  // Moves everything reported into `other` (speculative work that turned out to matter).
  void MoveTo(DiagSink& other);

 private:
  friend class DiagBuilder;
  std::vector<Diagnostic> all_;
  int errors_ = 0;
};

// Text for people: code, place, the source line with a caret, labels, notes, helps.
std::string Render(const Diagnostic& d, const SourceMap& sources, bool color = false);
std::string RenderAll(const DiagSink& diags, const SourceMap& sources, bool color = false);
// One JSON object per line for tools: code, severity, message, file, line, column, labels, …
std::string RenderJson(const Diagnostic& d, const SourceMap& sources);

}  // namespace tilec
