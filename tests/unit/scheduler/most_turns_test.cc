// How many turns a loop can have is known where its bounds say it, whatever its position is, and
// not known otherwise: a schedule is given up on for nothing but certainty.
//
// SPDX-License-Identifier: Apache-2.0
#include "scheduler/most_turns.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ir/queries.h"
#include "ir/text.h"

namespace tilec::scheduler {
namespace {

// The loop goes from %lo to %hi, of which `bounds` makes something.
struct Read {
  explicit Read(const std::string& bounds) {
    const std::string text = fmt::format(
        "func @f tile {{\n  param dim %R: i64\n  param dim %P: i64\n  body {{\n"
        "    %zero = constant {{value = 0}} : i64\n    %c80 = constant {{value = 80}} : i64\n"
        "    %c130 = constant {{value = 130}} : i64\n    %c200 = constant {{value = 200}} : i64\n"
        "    %part = mul %P, %c80 : i64\n{}"
        "    for %lo, %hi {{step = 80}} do (%c: i64) {{\n      yield\n    }}\n  }}\n}}\n",
        bounds);
    DiagSink diags;
    Result<ir::Function> parsed = ir::ParseFunction(text, diags);
    EXPECT_TRUE(parsed.ok()) << text << (diags.all().empty() ? "" : diags.all()[0].message);
    if (!parsed.ok()) return;
    for (const ir::OpId id : ir::OpsInOrder(*parsed))
      if (parsed->ops[id].kind == ir::OpKind::kFor) {
        most = MostTurns(*parsed, id);
        for (int stages = 0; stages < 4; ++stages)
          said.push_back(!TooFewTurns(*parsed, id, stages).empty());
      }
    diags.Clear();
  }
  std::optional<int64_t> most;
  std::vector<bool> said;
};

TEST(MostTurns, OfConstantsAreCounted) {
  EXPECT_EQ(Read("%lo = add %c80, %zero : i64\n%hi = add %c200, %c80 : i64\n").most, 3);
  EXPECT_EQ(Read("%lo = add %c200, %zero : i64\n%hi = add %c80, %zero : i64\n").most, 0);
}

TEST(MostTurns, OfAPartAreThoseOfTheLongestPart) {
  const Read one(
      "%lo = add %part, %zero : i64\n%end = add %part, %c80 : i64\n"
      "%hi = min %end, %c130 : i64\n");
  EXPECT_EQ(one.most, 1);
  EXPECT_EQ(one.said, (std::vector<bool>{false, true, true, true}));
  const Read three(
      "%lo = add %part, %zero : i64\n%end = add %part, %c200 : i64\n"
      "%hi = min %c130, %end : i64\n");
  EXPECT_EQ(three.most, 3);
  EXPECT_EQ(three.said, (std::vector<bool>{false, false, true, true}));  // in the loop: one, none
}

TEST(MostTurns, AreNotKnownOfWhatTheBoundsDoNotSay) {
  const std::string part = "%lo = add %part, %zero : i64\n%end = add %part, %c80 : i64\n";
  EXPECT_EQ(Read("%lo = add %zero, %zero : i64\n%hi = add %R, %zero : i64\n").most, std::nullopt);
  EXPECT_EQ(Read(part + "%hi = max %end, %R : i64\n").most, std::nullopt);
  EXPECT_EQ(Read(part + "%hi = min %R, %c130 : i64\n").most, std::nullopt);
  EXPECT_EQ(Read(part + "%hi = mul %end, %c80 : i64\n").most, std::nullopt);
  EXPECT_EQ(Read(part + "%hi = max %end, %lo : i64\n").most, 1);
}

}  // namespace
}  // namespace tilec::scheduler
