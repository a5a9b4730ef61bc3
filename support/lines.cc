// SPDX-License-Identifier: Apache-2.0
#include "support/lines.h"

#include <algorithm>
#include <charconv>

namespace tilec {

namespace {

bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

}  // namespace

std::vector<TextLine> SplitLines(std::string_view text, int32_t file) {
  std::vector<TextLine> lines;
  int number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t newline = std::min(text.find('\n', begin), text.size());
    ++number;
    const size_t end = std::min(text.substr(0, newline).find('#', begin), newline);
    TextLine line;
    line.number = number;
    for (size_t i = begin; i < end;) {
      if (IsBlank(text[i])) {
        ++i;
        continue;
      }
      size_t stop = i;
      while (stop < end && !IsBlank(text[stop])) ++stop;
      line.words.push_back({text.substr(i, stop - i),
                            {file, static_cast<uint32_t>(i), static_cast<uint32_t>(stop)}});
      i = stop;
    }
    if (!line.words.empty()) {
      line.span = Join(line.words.front().span, line.words.back().span);
      const char* first = line.words.front().text.data();
      const std::string_view last = line.words.back().text;
      line.text = {first, static_cast<size_t>(last.data() + last.size() - first)};
      lines.push_back(std::move(line));
    }
    begin = newline + 1;
  }
  return lines;
}

std::optional<int64_t> ParseInteger(std::string_view text) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

std::optional<KeyValue> SplitKeyValue(const TextWord& word) {
  const size_t equals = word.text.find('=');
  if (equals == std::string_view::npos) return std::nullopt;
  KeyValue pair;
  pair.key = word.text.substr(0, equals);
  pair.value.text = word.text.substr(equals + 1);
  pair.value.span = word.span;
  pair.value.span.begin += static_cast<uint32_t>(equals + 1);
  return pair;
}

}  // namespace tilec
