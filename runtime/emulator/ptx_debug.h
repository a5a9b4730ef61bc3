// The line tables of a PTX text: `.file` and `.loc` as nvcc -lineinfo and LLVM write them. What is
// wrong with them is nobody's concern: a place that is not known is not told.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <tuple>
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

  // .loc FILE LINE COLUMN [, function_name LABEL, inlined_at FILE LINE COLUMN]
  void Location() {
    const int line = token_.line;
    const auto place = [&](Place* p) {
      uint64_t n[3] = {};
      size_t k = 0;
      for (Advance(); token_.kind == Token::Kind::kInt && token_.line == line && k < 3; Advance())
        n[k++] = token_.bits;
      *p = {n[0], static_cast<uint32_t>(std::min<uint64_t>(n[1], kMaxText + 1)),
            static_cast<uint32_t>(std::min<uint64_t>(n[2], kMaxText))};
      return k >= 2 && n[1] != 0 && n[1] <= kMaxText;
    };
    Loc loc;
    loc.at = line;
    const bool known = place(&loc.place);
    while (token_.kind != Token::Kind::kEnd && token_.line == line)
      if (token_.IsWord("inlined_at"))
        loc.inlined = place(&loc.caller);
      else
        Advance();
    if (known && locs_.size() < kMaxStatements) locs_.push_back(loc);
  }

  // "gemm.cu:33:5" for the lines of the text, ascending. Files may be named behind their use. Code
  // of a header is shown where a file that is no header calls it: "gemm.cu:33:5 (in
  // barrier.h:71:3)". A .cuh may be either: it is a header to a file that is none. Of a kernel that
  // is all headers, each file on the way is named where it calls the next: "mma.hpp:451:14 (from
  // gemm.hpp:80:3, mainloop.hpp:520:7, kernel.hpp:640:9)".
  std::vector<LineNote> Notes() const {
    std::vector<LineNote> notes;
    // Where each place stood, ascending. Callers stand before what they call; a function that calls
    // itself (a template of another type, say) stands there more than once.
    std::map<std::tuple<uint64_t, uint32_t, uint32_t>, std::vector<size_t>> stood;
    for (size_t k = 0; k < locs_.size(); ++k) {
      const Loc& loc = locs_[k];
      stood[{loc.place.file, loc.place.line, loc.place.column}].push_back(k);
      const std::string inner = Text(loc.place);
      if (inner.empty()) continue;
      std::string outer, perhaps;
      std::vector<Place> way;
      const Loc* at = &loc;
      for (int depth = 0; depth < kMaxCallers && at->inlined && IsHeader(at->place); ++depth) {
        const Place& caller = at->caller;
        if (!IsHeader(caller)) {
          outer = Text(caller);
          break;
        }
        if (MayBeHeader(caller)) perhaps = Text(caller);
        std::erase_if(way, [&](const Place& p) { return p.file == caller.file; });
        if (caller.file != loc.place.file) way.push_back(caller);
        const auto found = stood.find({caller.file, caller.line, caller.column});
        if (found == stood.end()) break;
        const std::vector<size_t>& there = found->second;
        const auto behind =
            std::lower_bound(there.begin(), there.end(), static_cast<size_t>(at - locs_.data()));
        if (behind == there.begin()) break;
        at = &locs_[*(behind - 1)];
      }
      if (outer.empty() && !MayBeHeader(loc.place)) outer = perhaps;
      std::string text = inner;
      if (!outer.empty()) {
        text = fmt::format("{} (in {})", outer, inner);
      } else if (!way.empty()) {
        for (size_t n = 0; n < way.size() && n < kMaxShown; ++n)
          text += fmt::format("{}{}", n == 0 ? " (from " : ", ", Short(way[n]));
        text += ")";
      }
      notes.push_back({loc.at, std::move(text)});
    }
    return notes;
  }

 private:
  struct Place {
    uint64_t file = 0;
    uint32_t line = 0, column = 0;
  };
  static constexpr int kMaxCallers = 64;
  static constexpr size_t kMaxShown = 8;

  std::string Text(const Place& p) const {
    const auto file = files_.find(p.file);
    if (file == files_.end()) return "";
    return fmt::format("{}:{}:{}", file->second, p.line, std::max(p.column, 1u));
  }
  std::string Short(const Place& p) const {
    const std::string text = Text(p);
    return text.substr(text.rfind('/') + 1);  // all of it where there is none
  }
  // ".h"; nullopt: nobody said what the file is called.
  std::optional<std::string_view> EndOf(const Place& p) const {
    const auto file = files_.find(p.file);
    if (file == files_.end()) return std::nullopt;
    const std::string_view name = file->second;
    const size_t dot = name.rfind('.'), slash = name.rfind('/');
    if (dot == name.npos || (slash != name.npos && dot < slash)) return "";
    return name.substr(dot);
  }
  bool MayBeHeader(const Place& p) const { return EndOf(p) == ".cuh"; }
  bool IsHeader(const Place& p) const {
    const auto end = EndOf(p);
    return end && (end->empty() || *end == ".h" || *end == ".hpp" || *end == ".inl" ||
                   *end == ".hxx" || *end == ".cuh");
  }

  struct Loc {
    int at = 0;  // line of the PTX text
    Place place, caller;
    bool inlined = false;
  };
  static constexpr size_t kMaxFiles = 1 << 16;

  std::vector<Loc> locs_;
  std::map<uint64_t, std::string> files_;
};

}  // namespace tilec::runtime::emulator
