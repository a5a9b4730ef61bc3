// SPDX-License-Identifier: Apache-2.0
// The printer keeps a stack of documents still to be written, each with its indentation and whether
// it is inside a group printed flat. A group is printed flat if it and what follows it up to the
// next possible newline fit on the line.
#include "language/doc.h"

namespace tilec::language::internal {

int Columns(std::string_view text) {
  int columns = 0;
  for (char c : text) columns += (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  return columns;
}

DocId DocStore::Add(Doc doc) {
  doc.has_hard = doc.kind == Kind::kHard;
  for (DocId kid : doc.kids) doc.has_hard |= docs_[kid].has_hard;
  return docs_.Add(std::move(doc));
}

bool DocStore::Fits(Item first, const std::vector<Item>& rest, int room) const {
  std::vector<Item> stack = {first};
  size_t left = rest.size();
  while (room >= 0) {
    if (stack.empty()) {
      if (left == 0) return true;
      stack.push_back(rest[--left]);
    }
    const Item item = stack.back();
    stack.pop_back();
    const Doc& doc = docs_[item.doc];
    switch (doc.kind) {
      case Kind::kText: room -= Columns(doc.text); break;
      case Kind::kComment: break;
      case Kind::kLine:
        if (!item.flat) return true;
        room -= 1;
        break;
      case Kind::kSoft:
        if (!item.flat) return true;
        break;
      case Kind::kHard: return true;
      case Kind::kConcat:
      case Kind::kGroup:
      case Kind::kAlign:
      case Kind::kNest:  // what follows the group may still break: only the group is flat
        for (size_t i = doc.kids.size(); i-- > 0;) stack.push_back({doc.kids[i], 0, item.flat});
        break;
    }
  }
  return false;
}

std::string DocStore::Render(DocId root, int indent) const {
  std::string out;
  int column = indent;
  std::vector<Item> stack = {{root, indent, false}};
  while (!stack.empty()) {
    const Item item = stack.back();
    stack.pop_back();
    const Doc& doc = docs_[item.doc];
    Item kids = item;
    switch (doc.kind) {
      case Kind::kText:
      case Kind::kComment:
        out += doc.text;
        column += Columns(doc.text);
        continue;
      case Kind::kLine:
      case Kind::kSoft:
      case Kind::kHard:
        if (item.flat && doc.kind != Kind::kHard) {
          if (doc.kind == Kind::kLine) out += ' ', ++column;
          continue;
        }
        while (!out.empty() && out.back() == ' ') out.pop_back();
        out += '\n';
        out.append(static_cast<size_t>(item.indent), ' ');
        column = item.indent;
        continue;
      case Kind::kConcat: break;
      case Kind::kGroup:
        kids.flat =
            item.flat || (!doc.has_hard && Fits({item.doc, 0, true}, stack, kLineWidth - column));
        break;
      case Kind::kAlign: kids.indent = column; break;
      case Kind::kNest: kids.indent = item.indent + doc.columns; break;
    }
    for (size_t i = doc.kids.size(); i-- > 0;)
      stack.push_back({doc.kids[i], kids.indent, kids.flat});
  }
  return out;
}

}  // namespace tilec::language::internal
