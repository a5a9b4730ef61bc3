// SPDX-License-Identifier: Apache-2.0
#include "runtime/ptx_text.h"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace tilec::runtime {

namespace {

bool IsSpace(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }
bool IsName(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%';
}

// Comments become blanks, so that no directive is seen inside one.
std::string WithoutComments(std::string_view ptx) {
  std::string out(ptx);
  for (size_t i = 0; i + 1 < out.size();) {
    if (out[i] != '/' || (out[i + 1] != '/' && out[i + 1] != '*')) {
      ++i;
      continue;
    }
    const bool line = out[i + 1] == '/';
    const size_t end = line ? out.find('\n', i) : out.find("*/", i + 2);
    const size_t stop = end == std::string::npos ? out.size() : line ? end : end + 2;
    for (size_t k = i; k < stop; ++k)
      if (out[k] != '\n') out[k] = ' ';
    i = stop;
  }
  return out;
}

// The word after each `directive`, up to blanks or punctuation other than '.'.
std::vector<std::string> WordsAfter(std::string_view ptx, std::string_view directive, bool dots) {
  const std::string text = WithoutComments(ptx);
  std::vector<std::string> words;
  for (size_t at = text.find(directive); at != std::string::npos;
       at = text.find(directive, at + 1)) {
    size_t i = at + directive.size();
    if (i >= text.size() || !IsSpace(text[i])) continue;
    while (i < text.size() && IsSpace(text[i])) ++i;
    const size_t begin = i;
    while (i < text.size() && (IsName(text[i]) || (dots && text[i] == '.'))) ++i;
    if (i > begin) words.push_back(text.substr(begin, i - begin));
  }
  return words;
}

std::string First(std::vector<std::string> words) { return words.empty() ? "" : words.front(); }

}  // namespace

std::vector<std::string> PtxEntries(std::string_view ptx) {
  return WordsAfter(ptx, ".entry", false);
}
std::string PtxVersion(std::string_view ptx) { return First(WordsAfter(ptx, ".version", true)); }
std::string PtxTarget(std::string_view ptx) { return First(WordsAfter(ptx, ".target", false)); }

std::vector<std::string> NotedLogLines(const std::string& log, const LoadOptions& options) {
  constexpr size_t kMaxLines = 20;
  std::vector<std::string> out;
  for (size_t begin = 0; begin < log.size() && out.size() < kMaxLines;) {
    size_t end = log.find('\n', begin);
    if (end == std::string::npos) end = log.size();
    std::string line = log.substr(begin, end - begin);
    begin = end + 1;
    while (!line.empty() && IsSpace(line.back())) line.pop_back();
    if (line.empty()) continue;
    if (const size_t at = line.find("line "); at != std::string::npos) {
      int number = 0;
      std::from_chars(line.data() + at + 5, line.data() + line.size(), number);
      // The last note at or before the line.
      const auto after =
          std::upper_bound(options.lines.begin(), options.lines.end(), number,
                           [](int n, const LineNote& note) { return n < note.ptx_line; });
      if (number > 0 && after != options.lines.begin() && !(after - 1)->text.empty())
        line += fmt::format("  [from {}]", (after - 1)->text);
    }
    out.push_back(std::move(line));
  }
  return out;
}

}  // namespace tilec::runtime
