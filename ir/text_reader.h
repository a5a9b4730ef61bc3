// The words of textual IR: tokens, types, attributes, and where reading stopped. For the parser of
// functions (parse.cc), which knows what follows what.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>
#include <vector>

#include "ir/diagnostics.h"
#include "ir/function.h"

namespace tilec::ir {

inline bool IsWordOfText(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.';
}

inline constexpr int64_t kMaxRank = 16;
inline constexpr size_t kMaxExprText = 4096;

struct TextReader {
  std::string_view text;
  DiagSink& diags;
  int32_t file;
  size_t pos = 0;
  int64_t layouts = 0;  // in the table at the top, which types name by number

  // ---- places and errors
  Span At(size_t begin, size_t end) const;
  template <typename... Args>
  DiagBuilder Error(const DiagDef& def, size_t begin, size_t end, const Args&... args) {
    DiagBuilder report = diags.Report(def, At(begin, end), args...);
    if (file < 0) {
      const std::string_view before = text.substr(0, std::min(begin, text.size()));
      const size_t line_start = before.rfind('\n') + 1;  // npos + 1 == 0
      const auto line = std::count(before.begin(), before.end(), '\n') + 1;
      const size_t stop = std::min(text.find('\n', line_start), text.size());
      report.Place(fmt::format("IR text, line {}, column {}", line, begin - line_start + 1));
      report.Note(std::string(text.substr(line_start, std::min<size_t>(stop - line_start, 160))));
    }
    return report;
  }
  DiagBuilder Syntax(std::string_view message) { return Error(kIrSyntax, pos, pos + 1, message); }
  DiagBuilder Expected(std::string_view what);

  // ---- tokens
  void Skip();
  bool Eat(std::string_view token);
  Result<> Expect(std::string_view token);
  Result<std::string> Word(std::string_view what);
  Result<int64_t> Int(std::string_view what);
  Result<int64_t> IntIn(std::string_view what, int64_t lo, int64_t hi);
  Result<std::vector<int64_t>> Ints(std::string_view what);
  Result<std::string> String();
  // Raw text up to one of `stops` outside parentheses, or the end of the line.
  Result<Expr> ExprUntil(std::string_view stops);

  // ---- types and attributes
  Result<DType> ParseDType();
  Result<std::vector<int64_t>> Shape();
  Result<Type> ParseSmem();
  Result<Type> ParseType();
  Result<AttrValue> ParseAttr();
};

}  // namespace tilec::ir
