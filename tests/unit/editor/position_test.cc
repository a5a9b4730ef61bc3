// SPDX-License-Identifier: Apache-2.0
#include "editor/position.h"

#include <gtest/gtest.h>

#include <string>

namespace tilec::editor {
namespace {

// One, two, three and four bytes of UTF-8: 1, 1, 1 and 2 code units of UTF-16.
constexpr std::string_view kText = "a\u00e9\u20ac\U0001f600b\r\nsecond\n\nlast";

TEST(Position, CountsUtf16CodeUnits) {
  const LineIndex lines(kText);
  EXPECT_EQ(lines.PositionOf(0), (Position{0, 0}));
  EXPECT_EQ(lines.PositionOf(1), (Position{0, 1}));
  EXPECT_EQ(lines.PositionOf(3), (Position{0, 2}));
  EXPECT_EQ(lines.PositionOf(6), (Position{0, 3}));
  EXPECT_EQ(lines.PositionOf(10), (Position{0, 5}));
  EXPECT_EQ(lines.OffsetOf({0, 5}), 10u);
  EXPECT_EQ(lines.OffsetOf({0, 4}), 6u) << "inside of a surrogate pair: its beginning";
}

TEST(Position, EveryCharacterAndBack) {
  const LineIndex lines(kText);
  for (uint32_t i = 0; i <= kText.size(); ++i) {
    if (i < kText.size() && (static_cast<unsigned char>(kText[i]) & 0xc0) == 0x80) continue;
    if (i > 0 && kText[i - 1] == '\r') continue;  // the line ends before it
    EXPECT_EQ(lines.OffsetOf(lines.PositionOf(i)), i);
  }
}

TEST(Position, WhatAClientGetsWrongIsClamped) {
  const LineIndex lines(kText);
  EXPECT_EQ(lines.OffsetOf({-1, 5}), 0u);
  EXPECT_EQ(lines.OffsetOf({0, -7}), 0u);
  EXPECT_EQ(lines.OffsetOf({0, 1000}), 11u) << "in front of the line's end";
  EXPECT_EQ(lines.OffsetOf({1000, 0}), kText.size());
  EXPECT_EQ(lines.PositionOf(1000000), (Position{3, 4}));
}

TEST(Position, StrayBytesAreCharacters) {
  const std::string text = "\xff\x80\xe2\x82";
  const LineIndex lines(text);
  for (uint32_t i = 0; i <= text.size(); ++i) EXPECT_LE(lines.OffsetOf({0, i}), text.size());
}

}  // namespace
}  // namespace tilec::editor
