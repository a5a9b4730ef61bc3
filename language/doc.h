// Laying out text in at most kLineWidth columns: a document says where lines *may* break, and
// breaks only those groups that do not fit. Internal to the formatter.
//
//   Group(Concat(Text("f("), Align(Concat(a, Text(","), Line(), b)), Text(")")))
//
// prints as `f(a, b)` if that fits, else with a newline for each Line directly in the group.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/ids.h"

namespace tilec::language::internal {

inline constexpr int kLineWidth = 100;

using DocId = Id<struct DocTag>;

class DocStore {
 public:
  DocId Text(std::string text) { return Add({.kind = Kind::kText, .text = std::move(text)}); }
  // Text that does not count for fitting; a Hard() must follow.
  DocId Comment(std::string text) { return Add({.kind = Kind::kComment, .text = std::move(text)}); }
  DocId Line() { return Add({.kind = Kind::kLine}); }  // a space or a newline
  DocId Soft() { return Add({.kind = Kind::kSoft}); }  // nothing or a newline
  DocId Hard() { return Add({.kind = Kind::kHard}); }  // a newline; breaks all groups around it
  DocId Concat(std::vector<DocId> kids) {
    return Add({.kind = Kind::kConcat, .kids = std::move(kids)});
  }
  DocId Group(std::vector<DocId> kids) {
    return Add({.kind = Kind::kGroup, .kids = std::move(kids)});
  }
  // Newlines inside go to the column at which this begins.
  DocId Align(std::vector<DocId> kids) {
    return Add({.kind = Kind::kAlign, .kids = std::move(kids)});
  }
  // Newlines inside are indented by `columns` more.
  DocId Nest(int columns, std::vector<DocId> kids) {
    return Add({.kind = Kind::kNest, .columns = columns, .kids = std::move(kids)});
  }

  // The text of `root` begun at column `indent` (which is not written).
  std::string Render(DocId root, int indent) const;

 private:
  enum class Kind { kText, kComment, kLine, kSoft, kHard, kConcat, kGroup, kAlign, kNest };
  struct Doc {
    Kind kind;
    int columns = 0;
    bool has_hard = false;
    std::string text = {};
    std::vector<DocId> kids = {};
  };
  struct Item {
    DocId doc;
    int indent;
    bool flat;
  };
  DocId Add(Doc doc);
  bool Fits(Item first, const std::vector<Item>& rest, int room) const;

  IdVector<DocId, Doc> docs_;
};

// Columns of UTF-8 text: one per code point.
int Columns(std::string_view text);

}  // namespace tilec::language::internal
