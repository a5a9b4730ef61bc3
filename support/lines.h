// Line-oriented text: what the small file formats (.graph, .sched) are made of. A line is words
// between blanks; `#` starts a comment; empty lines vanish.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "support/source.h"

namespace tilec {

struct TextWord {
  std::string_view text;
  Span span;  // of file −1 where the text belongs to no file
};

struct TextLine {
  std::vector<TextWord> words;  // at least one
  std::string_view text;        // comment and outer blanks removed
  Span span;
  int number = 0;  // from 1
};

// `file`: id of `text` in the caller's SourceMap, or −1.
std::vector<TextLine> SplitLines(std::string_view text, int32_t file);

// The whole word, or nothing; no sign but '-', no blanks, no overflow.
std::optional<int64_t> ParseInteger(std::string_view text);

// "key=value" at its first '='; the value's span. Nothing if there is no '='.
struct KeyValue {
  std::string_view key;
  TextWord value;
};
std::optional<KeyValue> SplitKeyValue(const TextWord& word);

}  // namespace tilec
