// The tree as tests read it that look at sources as text (tests/tidy_*.cc): everything a person
// wrote, line by line, and what of a line is code.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace tilec::source_tree {

struct SourceFile {
  std::string path;  // from the root, with '/'
  std::vector<std::string> lines;
};

inline std::vector<std::string> Lines(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// Everything a person wrote: no build folders, no hidden folders (but .ci).
inline std::vector<std::filesystem::path> Tree() {
  std::vector<std::filesystem::path> out;
  const std::filesystem::path root = TILEC_SOURCE_DIR;
  for (auto it = std::filesystem::recursive_directory_iterator(root);
       it != std::filesystem::recursive_directory_iterator(); ++it) {
    const std::string name = it->path().filename().string();
    if (it->is_directory()) {
      const bool top = it.depth() == 0;
      if ((name[0] == '.' && name != ".ci") || (top && (name == "build" || name == "crash")))
        it.disable_recursion_pending();
      continue;
    }
    if (name[0] == '.' && name != ".clang-format") continue;
    out.push_back(it->path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

inline std::string Relative(const std::filesystem::path& path) {
  return std::filesystem::relative(path, TILEC_SOURCE_DIR).generic_string();
}

inline bool HasExtension(const std::filesystem::path& path,
                         std::initializer_list<std::string_view> extensions) {
  const std::string e = path.extension().string();
  return std::any_of(extensions.begin(), extensions.end(),
                     [&](std::string_view x) { return x == e; });
}

inline std::vector<SourceFile> Sources(std::initializer_list<std::string_view> extensions) {
  std::vector<SourceFile> out;
  for (const std::filesystem::path& path : Tree())
    if (HasExtension(path, extensions)) out.push_back({Relative(path), Lines(path)});
  return out;
}

inline bool StartsWithAny(const std::string& path, const std::vector<std::string_view>& prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(), [&](std::string_view prefix) {
    return path.compare(0, prefix.size(), prefix) == 0;
  });
}

inline std::string Place(const std::string& path, size_t line_index) {
  return path + ":" + std::to_string(line_index + 1);
}

inline bool IsWordByte(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

inline bool ContainsWord(const std::string& line, std::string_view word) {
  for (size_t at = line.find(word); at != std::string::npos; at = line.find(word, at + 1)) {
    const size_t end = at + word.size();
    const bool starts = at == 0 || !IsWordByte(word.front()) || !IsWordByte(line[at - 1]);
    const bool ends = end == line.size() || !IsWordByte(word.back()) || !IsWordByte(line[end]);
    if (starts && ends) return true;
  }
  return false;
}

// A line without what stands in quotes and behind //.
inline std::string CodeOf(const std::string& line) {
  std::string code;
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    if (!quoted && line.compare(i, 2, "//") == 0) break;
    if (line[i] == '"' && (i == 0 || line[i - 1] != '\\')) quoted = !quoted;
    if (!quoted) code += line[i] == '\'' ? ' ' : line[i];
  }
  return code;
}

}  // namespace tilec::source_tree
