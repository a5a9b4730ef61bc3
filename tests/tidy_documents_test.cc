// Links in the documents lead to files that are there and to headings that those files have, as
// GitHub makes anchors of headings.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/source_tree.h"

namespace {

namespace fs = std::filesystem;
using namespace tilec::source_tree;

// ---- Documents ---------------------------------------------------------------------------------

// GitHub's anchor of a heading: lower case, spaces to dashes, punctuation dropped.
std::string Anchor(std::string_view heading) {
  std::string out;
  for (const char c : heading) {
    if (c == ' ') {
      out += '-';
    } else if (IsWordByte(c) || c == '-' || (c & 0x80)) {
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return out;
}

std::set<std::string> Anchors(const std::vector<std::string>& lines) {
  std::set<std::string> out;
  bool code = false;
  for (const std::string& line : lines) {
    if (line.compare(0, 3, "```") == 0) code = !code;
    if (code || line.empty() || line[0] != '#') continue;
    const size_t at = line.find_first_not_of("# ");
    if (at != std::string::npos) out.insert(Anchor(std::string_view(line).substr(at)));
  }
  return out;
}

// The targets of `[text](target)` outside code.
std::vector<std::string> LinkTargets(const std::string& line) {
  std::vector<std::string> out;
  bool code = false;
  for (size_t i = 0; i + 1 < line.size(); ++i) {
    if (line[i] == '`') code = !code;
    if (code || line[i] != ']' || line[i + 1] != '(') continue;
    const size_t end = line.find(')', i);
    if (end != std::string::npos) out.push_back(line.substr(i + 2, end - i - 2));
  }
  return out;
}

TEST(Tidy, LinksLeadSomewhere) {
  int links = 0;
  for (const SourceFile& file : Sources({".md"})) {
    bool code = false;
    for (size_t i = 0; i < file.lines.size(); ++i) {
      if (file.lines[i].compare(0, 3, "```") == 0) code = !code;
      if (code) continue;
      for (const std::string& target : LinkTargets(file.lines[i])) {
        if (target.find("://") != std::string::npos) continue;
        ++links;
        const size_t hash = target.find('#');
        const fs::path here = fs::path(TILEC_SOURCE_DIR) / file.path;
        const std::string name = target.substr(0, hash);
        const fs::path to = name.empty() ? here : here.parent_path() / name;
        EXPECT_TRUE(fs::exists(to)) << Place(file.path, i) << ": no file " << target;
        if (hash == std::string::npos || !fs::exists(to)) continue;
        EXPECT_TRUE(Anchors(Lines(to)).count(target.substr(hash + 1)))
            << Place(file.path, i) << ": no heading " << target;
      }
    }
  }
  EXPECT_GT(links, 5);
}

}  // namespace
