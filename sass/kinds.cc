// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "sass/internal.h"

namespace tilec::sass {

namespace {

struct Row {
  const char* name;
  bool held;
  std::string_view ptx, sass;
};
constexpr std::array<Row, kKinds> kRows = {{
#define KIND(Name, held, name, ptx, sass) {name, held, ptx, sass},
#include "sass/kinds.def"
#undef KIND
}};

template <typename Hit>
int FirstRow(std::string_view Row::*list, const Hit& hit) {
  for (size_t row = 0; row < kRows.size(); ++row)
    for (std::string_view rest = kRows[row].*list; !rest.empty();) {
      const size_t blank = rest.find(' ');
      if (hit(rest.substr(0, blank))) return static_cast<int>(row);
      rest.remove_prefix(blank == std::string_view::npos ? rest.size() : blank + 1);
    }
  return -1;
}

}  // namespace

const char* NameOf(Kind kind) { return kRows[static_cast<size_t>(kind)].name; }
bool KeepsItsSide(Kind kind) { return kRows[static_cast<size_t>(kind)].held; }

bool Matches(std::string_view text, std::string_view pattern) {
  size_t t = 0, p = 0, star = std::string_view::npos, from = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      from = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++from;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

int KindOfPtx(std::string_view opcode) {
  return FirstRow(&Row::ptx, [&](std::string_view pattern) { return Matches(opcode, pattern); });
}

int KindOfSass(std::string_view opcode) {
  return FirstRow(&Row::sass,
                  [&](std::string_view begin) { return opcode.substr(0, begin.size()) == begin; });
}

}  // namespace tilec::sass
