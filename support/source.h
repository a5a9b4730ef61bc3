// Source files and places in them. A Span is 12 bytes and owns nothing; the SourceMap owns texts.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace tilec {

// Half-open byte range [begin, end) in file `file`; file < 0 means "no place".
struct Span {
  int32_t file = -1;
  uint32_t begin = 0;
  uint32_t end = 0;
  bool known() const { return file >= 0; }
};

// From the first byte of `a` to the last of `b` (same file).
inline Span Join(Span a, Span b) {
  if (!a.known()) return b;
  if (!b.known()) return a;
  return {a.file, a.begin < b.begin ? a.begin : b.begin, a.end > b.end ? a.end : b.end};
}

// 1-based line; 1-based column counted in bytes; `text` is the line without its newline.
struct LineCol {
  int line = 0;
  int column = 0;
  std::string_view text;
};

class SourceMap {
 public:
  // Adds a file and returns its id. `path` is what diagnostics print.
  int32_t Add(std::string path, std::string text);
  std::string_view text(int32_t file) const { return files_[file].text; }
  const std::string& path(int32_t file) const { return files_[file].path; }
  int32_t size() const { return static_cast<int32_t>(files_.size()); }
  LineCol Locate(int32_t file, uint32_t offset) const;
  std::string_view TextOf(Span span) const;

 private:
  struct File {
    std::string path;
    std::string text;
    std::vector<uint32_t> line_starts;
  };
  std::deque<File> files_;  // deque: string_views into texts survive Add
};

}  // namespace tilec
