// SPDX-License-Identifier: Apache-2.0
#include "editor/position.h"

#include <algorithm>

namespace tilec::editor {

namespace {

// Bytes of the UTF-8 sequence that begins with `lead`; a stray byte is a character of its own.
size_t SequenceBytes(unsigned char lead) {
  if (lead >= 0xf0 && lead <= 0xf4) return 4;
  if (lead >= 0xe0) return lead <= 0xef ? 3 : 1;
  if (lead >= 0xc2) return 2;
  return 1;
}

// UTF-16 code units of a sequence of so many bytes: what takes four bytes is a surrogate pair.
int64_t Units(size_t bytes) { return bytes == 4 ? 2 : 1; }

}  // namespace

LineIndex::LineIndex(std::string_view text) : text_(text), starts_{0} {
  for (size_t i = 0; i < text.size(); ++i)
    if (text[i] == '\n') starts_.push_back(static_cast<uint32_t>(i + 1));
}

std::string_view LineIndex::Line(size_t line) const {
  const size_t begin = starts_[line];
  size_t end = line + 1 < starts_.size() ? starts_[line + 1] - 1 : text_.size();
  if (end > begin && text_[end - 1] == '\r') --end;
  return text_.substr(begin, end - begin);
}

uint32_t LineIndex::OffsetOf(Position position) const {
  if (position.line < 0) return 0;
  if (position.line >= lines()) return static_cast<uint32_t>(text_.size());
  const auto number = static_cast<size_t>(position.line);
  const std::string_view line = Line(number);
  size_t at = 0;
  int64_t units = 0;
  while (at < line.size()) {
    const size_t bytes =
        std::min(SequenceBytes(static_cast<unsigned char>(line[at])), line.size() - at);
    if (units + Units(bytes) > position.character) break;
    units += Units(bytes);
    at += bytes;
  }
  return starts_[number] + static_cast<uint32_t>(at);
}

Position LineIndex::PositionOf(uint32_t offset) const {
  offset = std::min(offset, static_cast<uint32_t>(text_.size()));
  const auto next = std::upper_bound(starts_.begin(), starts_.end(), offset);
  const auto number = static_cast<size_t>(next - starts_.begin()) - 1;
  Position out{static_cast<int64_t>(number), 0};
  for (size_t at = starts_[number]; at < offset;) {
    const size_t bytes = SequenceBytes(static_cast<unsigned char>(text_[at]));
    if (at + bytes > offset) break;
    out.character += Units(bytes);
    at += bytes;
  }
  return out;
}

}  // namespace tilec::editor
