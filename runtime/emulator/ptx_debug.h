// The line tables of a PTX text: `.file` and `.loc` as nvcc -lineinfo and LLVM write them. What is
// wrong with them is nobody's concern: a place that is not known is not told.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "runtime/emulator/ptx_reader.h"

namespace tilec::runtime::emulator {

class PtxDebugReader : protected PtxReader {
 protected:
  using PtxReader::PtxReader;

  // Reads a `.file` or `.loc`; false: the token is another.
  bool LineTable() {
    if (token_.IsWord(".file")) return File(), true;
    if (token_.IsWord(".loc")) return Location(), true;
    return false;
  }

  // .file NUMBER "NAME" …
  void File() {
    const int line = token_.line;
    Advance();
    const Token number = token_;
    if (number.kind == Token::Kind::kInt && next_.kind == Token::Kind::kString &&
        next_.line == line && files_.size() < kMaxFiles) {
      std::string_view name = next_.text;
      if (name.size() >= 2 && name.front() == '"') name = name.substr(1, name.size() - 2);
      files_.emplace(number.bits, std::string(name));
    }
    while (token_.kind != Token::Kind::kEnd && token_.line == line) Advance();
  }

  // .loc FILE LINE COLUMN …
  void Location() {
    const int line = token_.line;
    uint64_t n[3] = {};
    size_t k = 0;
    for (Advance(); token_.kind == Token::Kind::kInt && token_.line == line && k < 3; Advance())
      n[k++] = token_.bits;
    while (token_.kind != Token::Kind::kEnd && token_.line == line) Advance();
    if (k < 2 || n[1] == 0 || n[1] > kMaxText || locs_.size() >= kMaxStatements) return;
    locs_.push_back({line, n[0], static_cast<uint32_t>(n[1]),
                     static_cast<uint32_t>(std::min<uint64_t>(n[2], kMaxText))});
  }

  // "gemm.cu:33:5" for the lines of the text, ascending. Files may be named behind their use.
  std::vector<LineNote> Notes() const {
    std::vector<LineNote> notes;
    for (const Loc& loc : locs_)
      if (auto file = files_.find(loc.file); file != files_.end())
        notes.push_back(
            {loc.at, fmt::format("{}:{}:{}", file->second, loc.line, std::max(loc.column, 1u))});
    return notes;
  }

 private:
  struct Loc {
    int at;  // line of the PTX text
    uint64_t file;
    uint32_t line, column;
  };
  static constexpr size_t kMaxFiles = 1 << 16;

  std::vector<Loc> locs_;
  std::map<uint64_t, std::string> files_;
};

}  // namespace tilec::runtime::emulator
