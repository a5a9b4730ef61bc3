// In which order tiles go: in sections that share what they load, the longest first, dealt out back
// and forth.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/passes/persistent_grid.h"

#include <vector>

namespace tilec::ir {

// The index in every range of tile number t: the first range runs fastest, or the first two in
// sections.
std::vector<ValueId> PersistentGrid::Place(Builder& b, ValueId t,
                                           const std::vector<ValueId>& counts) {
  std::vector<ValueId> index(counts.size());
  if (uneven_) {
    LongestFirst(b, t, counts, &index);
    return index;
  }
  size_t d = 0;
  if (section_rows_) {
    t = Section(b, t, counts, &index);
    d = 2;
  }
  for (; d < counts.size(); ++d) {
    const bool last = d + 1 == counts.size();
    index[d] = last ? t : b.Binary(OpKind::kMod, t, counts[d]);
    if (!last) t = b.Binary(OpKind::kDiv, t, counts[d]);
  }
  return index;
}

// The range along which lengths change runs slowest, of each section of heads (of places along
// the other ranges) or of all, from its long end.
void PersistentGrid::LongestFirst(Builder& b, ValueId t, const std::vector<ValueId>& counts,
                                  std::vector<ValueId>* index) {
  const auto [slow, rises] = *uneven_;
  if (in_sections_) t = InSections(b, t, counts[slow]);
  for (size_t d = 0; d < counts.size(); ++d) {
    if (d == slow) continue;
    (*index)[d] = b.Binary(OpKind::kMod, t, counts[d]);
    t = b.Binary(OpKind::kDiv, t, counts[d]);
  }
  (*index)[slow] = t;
  if (rises)
    (*index)[slow] =
        b.Binary(OpKind::kSub, b.Binary(OpKind::kSub, counts[slow], b.Int(1, kNarrow)), t);
}

// How many heads there are, how many a section has, and how many sections are as large.
void PersistentGrid::Heads(Builder& b, const std::vector<ValueId>& counts) {
  auto number = [&](int64_t n) { return b.Int(n, kNarrow); };
  constexpr int64_t kLastSections = 4;  // that are one
  const ValueId one = number(1), last = number(kLastSections);
  heads_ = one;
  for (size_t d = 0; d < counts.size(); ++d)
    if (d != uneven_->dim) heads_ = b.Binary(OpKind::kMul, heads_, counts[d]);
  const ValueId tiles = b.Binary(OpKind::kMax, one, counts[uneven_->dim]);
  heads_of_section_ = b.Binary(OpKind::kMax, one, b.Binary(OpKind::kDiv, number(ctas_), tiles));
  const ValueId sections = b.Binary(OpKind::kDiv, heads_, heads_of_section_);
  equal_sections_ = b.Binary(OpKind::kSub, b.Binary(OpKind::kMax, sections, last), last);
}

// The tile's number where all heads are one section: t = (section · tiles + tile) · heads of the
// section + head becomes tile · heads + head.
ValueId PersistentGrid::InSections(Builder& b, ValueId t, ValueId tiles) {
  const ValueId one = b.Int(1, kNarrow);  // says that something is positive
  const ValueId size =
      b.Binary(OpKind::kMax, one, b.Binary(OpKind::kMul, heads_of_section_, tiles));
  const ValueId section = b.Binary(OpKind::kMin, b.Binary(OpKind::kDiv, t, size), equal_sections_);
  const ValueId first = b.Binary(OpKind::kMul, section, heads_of_section_);
  const ValueId heads = b.Binary(OpKind::kMax, one,
                                 b.Value(OpKind::kSelect,
                                         {b.Cmp("lt", section, equal_sections_), heads_of_section_,
                                          b.Binary(OpKind::kSub, heads_, first)},
                                         Type::Scalar(kNarrow)));
  const ValueId rest = b.Binary(OpKind::kSub, t, b.Binary(OpKind::kMul, first, tiles));
  const ValueId head = b.Binary(OpKind::kAdd, first, b.Binary(OpKind::kMod, rest, heads));
  return b.Binary(OpKind::kAdd, b.Binary(OpKind::kMul, b.Binary(OpKind::kDiv, rest, heads), heads_),
                  head);
}

// Back and forth: in every other round CTA p takes what CTA ctas − 1 − p would.
ValueId PersistentGrid::Dealt(Builder& b, ValueId cta, ValueId t) {
  auto number = [&](int64_t n) { return b.Int(n, fn_.type(t).dtype); };
  const ValueId round = b.Binary(OpKind::kDiv, t, number(ctas_));
  const ValueId odd = b.Binary(OpKind::kMod, round, number(2));
  const ValueId forth =
      b.Binary(OpKind::kSub, number(ctas_ - 1), b.Binary(OpKind::kMul, number(2), cta));
  return b.Binary(OpKind::kAdd, t, b.Binary(OpKind::kMul, odd, forth));
}

// Of the last round, if it is not full, a CTA may have a part or not.
ValueId PersistentGrid::EndOfTurns(Builder& b, ValueId cta, ValueId tiles) {
  const ValueId full =
      b.Binary(OpKind::kMul, b.Binary(OpKind::kDiv, tiles, b.Int(ctas_)), b.Int(ctas_));
  const ValueId last = Dealt(b, cta, b.Binary(OpKind::kAdd, full, cta));
  const ValueId left = b.Binary(OpKind::kSub, tiles, last);
  const ValueId rest = b.Binary(OpKind::kMax, b.Int(0), b.Binary(OpKind::kMin, b.Int(1), left));
  return b.Binary(OpKind::kAdd, full, b.Binary(OpKind::kMul, rest, b.Int(ctas_)));
}

// Rows of a section: as many sections as come nearest to the best, equally high. Of so few
// columns that a round of CTAs covers them anyway, lines are as good, and no round ends inside of
// one.
ValueId PersistentGrid::EqualSections(Builder& b, const std::vector<ValueId>& counts) {
  auto number = [&](int64_t n) { return b.Int(n, kNarrow); };
  const ValueId one = number(1), rows = counts[0];
  const ValueId sections =
      b.Binary(OpKind::kMax, one,
               b.Binary(OpKind::kDiv, b.Binary(OpKind::kAdd, rows, number(section_rows_ / 2)),
                        number(section_rows_)));
  const ValueId up = b.Binary(OpKind::kAdd, rows, b.Binary(OpKind::kSub, sections, one));
  const ValueId equal =
      b.Binary(OpKind::kMax, one, b.Binary(OpKind::kDiv, up, sections));  // says it is positive
  const ValueId few = b.Cmp("le", counts[1], number(ctas_ / section_rows_));
  return b.Value(OpKind::kSelect, {few, one, equal}, Type::Scalar(kNarrow));
}

// t = (section · columns + column) · rows of the section + row; what is left counts the planes
// of the other ranges.
ValueId PersistentGrid::Section(Builder& b, ValueId t, const std::vector<ValueId>& counts,
                                std::vector<ValueId>* index) {
  ValueId plane = t;
  if (counts.size() > 2) {
    const ValueId size = b.Binary(OpKind::kMul, counts[0], counts[1]);
    plane = b.Binary(OpKind::kMod, t, size);
    t = b.Binary(OpKind::kDiv, t, size);
  }
  const ValueId group = section_;
  const ValueId size = b.Binary(OpKind::kMul, group, counts[1]);
  const ValueId base = b.Binary(OpKind::kMul, b.Binary(OpKind::kDiv, plane, size), group);
  const ValueId rows =
      b.Binary(OpKind::kMax, b.Int(1, kNarrow),  // says that it is positive
               b.Binary(OpKind::kMin, group, b.Binary(OpKind::kSub, counts[0], base)));
  const ValueId rest = b.Binary(OpKind::kMod, plane, size);
  (*index)[0] = b.Binary(OpKind::kAdd, base, b.Binary(OpKind::kMod, rest, rows));
  (*index)[1] = b.Binary(OpKind::kDiv, rest, rows);
  return t;
}

}  // namespace tilec::ir
