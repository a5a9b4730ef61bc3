// SPDX-License-Identifier: Apache-2.0
#include "editor/protocol.h"

#include <fmt/format.h>

#include <cctype>

#include "support/lines.h"

namespace tilec::editor {

namespace {

std::string_view Trim(std::string_view text) {
  const auto blank = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

bool SameWord(std::string_view a, std::string_view lower) {
  if (a.size() != lower.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (std::tolower(static_cast<unsigned char>(a[i])) != lower[i]) return false;
  return true;
}

// The value of Content-Length; −1 if no line has it or it is no length.
int64_t LengthIn(std::string_view header) {
  while (!header.empty()) {
    const size_t end = std::min(header.find('\n'), header.size());
    const std::string_view line = header.substr(0, end);
    header.remove_prefix(std::min(end + 1, header.size()));
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || !SameWord(Trim(line.substr(0, colon)), "content-length"))
      continue;
    return ParseInteger(Trim(line.substr(colon + 1))).value_or(-1);
  }
  return -1;
}

}  // namespace

std::optional<std::string> FrameReader::Next() {
  if (!broken_.empty()) return std::nullopt;
  size_t end = buffer_.find("\r\n\r\n"), blank = 4;
  if (const size_t bare = buffer_.find("\n\n"); bare < end) end = bare, blank = 2;
  if (end == std::string::npos) {
    if (buffer_.size() > kMostHeaderBytes) broken_ = "a header of more than 4096 bytes";
    return std::nullopt;
  }
  const int64_t length = LengthIn(std::string_view(buffer_).substr(0, end));
  if (length < 0) broken_ = "a header without a Content-Length";
  if (length > static_cast<int64_t>(kMostMessageBytes))
    broken_ = fmt::format("a message of {} bytes; {} are taken", length, kMostMessageBytes);
  if (!broken_.empty()) return std::nullopt;
  const size_t begin = end + blank;
  if (buffer_.size() - begin < static_cast<size_t>(length)) return std::nullopt;
  std::string message = buffer_.substr(begin, static_cast<size_t>(length));
  buffer_.erase(0, begin + static_cast<size_t>(length));
  return message;
}

std::string Frame(const std::string& message) {
  return fmt::format("Content-Length: {}\r\n\r\n{}", message.size(), message);
}

}  // namespace tilec::editor
