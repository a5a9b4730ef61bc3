// Editors count lines from 0 and columns in UTF-16 code units (the protocol's default encoding);
// the compiler counts bytes. This is the one place that converts.
//
// Positions from a client are not trusted: a line past the end is the end of the text, a column
// past the end of a line is the end of that line, and a column inside a surrogate pair is its
// beginning.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace tilec::editor {

struct Position {
  int64_t line = 0;       // from 0
  int64_t character = 0;  // from 0, in UTF-16 code units
  bool operator==(const Position&) const = default;
};

struct Range {
  Position start, end;  // half open
  bool operator==(const Range&) const = default;
};

// The lines of one text, for conversions both ways. The text must outlive it.
class LineIndex {
 public:
  explicit LineIndex(std::string_view text);
  uint32_t OffsetOf(Position position) const;
  Position PositionOf(uint32_t offset) const;
  Range RangeOf(uint32_t begin, uint32_t end) const { return {PositionOf(begin), PositionOf(end)}; }
  int64_t lines() const { return static_cast<int64_t>(starts_.size()); }

 private:
  std::string_view Line(size_t line) const;  // without its newline
  std::string_view text_;
  std::vector<uint32_t> starts_;
};

}  // namespace tilec::editor
