// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/reduce.h"

#include <fmt/format.h>

#include <cctype>
#include <vector>

namespace tilec::fuzz {

namespace {

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

std::string Join(const std::vector<std::string>& lines) {
  return fmt::format("{}\n", fmt::join(lines, "\n"));
}

size_t Closing(const std::string& text, size_t open) {
  int depth = 0;
  for (size_t i = open; i < text.size(); ++i) {
    if (text[i] == '(' || text[i] == '[') ++depth;
    if ((text[i] == ')' || text[i] == ']') && --depth == 0) return i;
  }
  return std::string::npos;
}

// What stands between commas and binary operators directly inside the brackets.
std::vector<std::string> Parts(const std::string& inner) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (size_t i = 0; i < inner.size(); ++i) {
    const char c = inner[i];
    if (c == '(' || c == '[') ++depth;
    if (c == ')' || c == ']') --depth;
    const bool comma = c == ',';
    const bool op = c == ' ' && i + 2 < inner.size() && inner[i + 2] == ' ' &&
                    std::string("+-*/%@<>").find(inner[i + 1]) != std::string::npos;
    if (depth != 0 || (!comma && !op)) {
      parts.back() += c;
      continue;
    }
    i += op ? 2 : 1;
    parts.emplace_back();
  }
  return parts;
}

class Reducer {
 public:
  Reducer(std::string text, const std::function<bool(const std::string&)>& fails, int tries)
      : text_(std::move(text)), fails_(fails), left_(tries) {}

  std::string Do() {
    for (size_t before = 0; before != text_.size() && left_ > 0;) {
      before = text_.size();
      DropLines();
      SimplifyGroups();
    }
    return std::move(text_);
  }

 private:
  bool Try(const std::string& candidate) {
    if (candidate == text_ || left_-- <= 0 || !fails_(candidate)) return false;
    text_ = candidate;
    return true;
  }

  void DropLines() {
    for (size_t length : {8, 4, 3, 2, 1}) {
      for (size_t at = 0; at < Lines(text_).size();) {
        std::vector<std::string> lines = Lines(text_);
        const auto first = lines.begin() + static_cast<ptrdiff_t>(at);
        lines.erase(first, first + static_cast<ptrdiff_t>(std::min(length, lines.size() - at)));
        if (!Try(Join(lines))) ++at;
      }
    }
    // The brackets of a block without its content.
    for (size_t at = 0; at < Lines(text_).size(); ++at) {
      std::vector<std::string> lines = Lines(text_);
      if (lines[at].empty() || lines[at].back() != '{') continue;
      const size_t indent = lines[at].find_first_not_of(' ');
      for (size_t end = at + 1; end < lines.size(); ++end) {
        if (lines[end].find_first_not_of(' ') != indent) continue;
        lines.erase(lines.begin() + static_cast<ptrdiff_t>(end));
        lines.erase(lines.begin() + static_cast<ptrdiff_t>(at));
        Try(Join(lines));
        break;
      }
    }
  }

  void SimplifyGroups() {
    for (size_t open = 0; open < text_.size() && left_ > 0; ++open) {
      if (text_[open] != '(') continue;
      const size_t close = Closing(text_, open);
      if (close == std::string::npos) continue;
      size_t begin = open;
      while (begin > 0 && (std::isalnum(static_cast<unsigned char>(text_[begin - 1])) ||
                           text_[begin - 1] == '_'))
        --begin;
      const std::string inner = text_.substr(open + 1, close - open - 1);
      for (const std::string& part : Parts(inner)) {
        if (part.size() == inner.size() && begin == open) continue;
        if (Try(text_.substr(0, begin) + part + text_.substr(close + 1))) {
          open = begin == 0 ? 0 : begin - 1;
          break;
        }
      }
    }
  }

  std::string text_;
  const std::function<bool(const std::string&)>& fails_;
  int left_;
};

}  // namespace

std::string Reduce(const std::string& text, const std::function<bool(const std::string&)>& fails,
                   int tries) {
  return Reducer(text, fails, tries).Do();
}

}  // namespace tilec::fuzz
