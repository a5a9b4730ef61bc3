// The walk over strategies, seen from outside: what was considered and emitted, that nothing is
// made twice, and that every attempt is accounted for.
//
// SPDX-License-Identifier: Apache-2.0
#include "compile/search.h"

#include "tests/unit/api/loaded.h"

namespace tilec {
namespace {

using compile::Decision;
using Outcome = compile::Decision::Outcome;

class SearchTest : public LibraryTest {
 protected:
  void Lower(const api::Given& given, const std::string& schedule) {
    DiagSink diags;
    api::Call call = Of(given);
    auto tile = api::MakeTileIr(loaded_, signature_.kernel, call, nullptr, diags);
    ASSERT_TRUE(tile.ok()) << RenderAll(diags, loaded_.sources);
    api::PipelineOptions options;
    options.schedule = schedule;
    options = options.For(call);
    look_ = {};
    look_.decisions = &decisions_;
    auto warps = api::LowerToWarps(loaded_, std::move(*tile), options, &look_, diags);
    ASSERT_TRUE(warps.ok()) << RenderAll(diags, loaded_.sources);
  }
  // Tiles so large that rings have two slots: too little runs ahead of persistent CTAs.
  void LowerTwoSlots() {
    Load("std/matmul.tile", "gemm");
    const int64_t n = 4096;
    Lower({{"M", n},
           {"N", n},
           {"K", n},
           {"BM", int64_t{64}},
           {"BN", int64_t{256}},
           {"BK", int64_t{128}}},
          "solve");
  }
  int Emissions() const {
    int n = 0;
    for (const Decision& d : decisions_) n += d.emissions;
    return n;
  }
  int Times(const std::string& stage) const {
    return static_cast<int>(std::count_if(look_.times.begin(), look_.times.end(),
                                          [&](const auto& t) { return t.stage == stage; }));
  }
  const Decision& Taken() const {
    return *std::find_if(decisions_.begin(), decisions_.end(),
                         [](const Decision& d) { return d.outcome == Outcome::kTaken; });
  }

  std::vector<Decision> decisions_;
  api::Observation look_;
};

TEST_F(SearchTest, AProductIsEmittedOnce) {
  Load("std/matmul.tile", "gemm");
  Lower({{"M", int64_t{8192}}, {"N", int64_t{8192}}, {"K", int64_t{8192}}}, "solve");
  EXPECT_EQ(Emissions(), 1) << compile::ToText(decisions_);
  EXPECT_EQ(Taken().strategy.shape, compile::Shape::kPersistent);
  EXPECT_EQ(&Taken(), &decisions_.front());
  ASSERT_TRUE(Taken().predicted_us) << "sizes are known";
  // 2 · 8192³ operations on 132 multiprocessors take longer than one microsecond and less than ten
  // milliseconds, whatever the model's costs.
  EXPECT_GT(*Taken().predicted_us, 1);
  EXPECT_LT(*Taken().predicted_us, 10'000);
}

// What an atomic finds steers a loop: two roles would have to hand it on.
TEST_F(SearchTest, AtomicsThatGiveBackRunInProgramOrder) {
  Load(TILEC_SOURCE_DIR "/tests/exec/fetches.tile", "shared_out");
  Lower({{"M", int64_t{23}}, {"N", int64_t{100}}}, "solve");
  ASSERT_EQ(decisions_.size(), 1u) << compile::ToText(decisions_);
  EXPECT_EQ(Taken().strategy.order, compile::Order::kProgram);
  EXPECT_EQ(Taken().strategy.shape, compile::Shape::kOnce);
}

TEST_F(SearchTest, ARefusalSaysHowMuchWasMissingAndNothingIsMadeTwice) {
  LowerTwoSlots();
  const Decision& first = decisions_.front();
  ASSERT_EQ(first.outcome, Outcome::kRefused) << compile::ToText(decisions_);
  EXPECT_EQ(first.refusal->resource, compile::Resource::kSlots);
  EXPECT_GT(first.refusal->needed, first.refusal->available);
  EXPECT_EQ(Taken().strategy.shape, compile::Shape::kOnce);
  EXPECT_EQ(Emissions(), 2) << compile::ToText(decisions_);
  int in_clean_up = 0;
  for (const ir::PassId id : ir::kCleanUp) in_clean_up += id == ir::PassId::kCanonicalize;
  EXPECT_EQ(Times("canonicalize"), in_clean_up);
  EXPECT_EQ(Times("lower-roles"), 2);  // the attempt that was refused counts
}

TEST_F(SearchTest, AGridThatCannotTakeAShapeIsSeenBeforeAnythingIsEmitted) {
  Load("std/elementwise.tile", "add");  // no loop whose loads would run ahead
  Lower({{"N", int64_t{1 << 20}}}, "solve");
  const Decision& first = decisions_.front();
  ASSERT_EQ(first.outcome, Outcome::kRefused) << compile::ToText(decisions_);
  EXPECT_EQ(first.refusal->stage, compile::Stage::kShape);
  EXPECT_EQ(first.emissions, 0);
  EXPECT_EQ(Emissions(), 1);
}

TEST_F(SearchTest, ProgramOrderIsOneCandidate) {
  Load("std/matmul.tile", "gemm");
  Lower({}, "sequential");
  EXPECT_EQ(decisions_.size(), 1u);
  EXPECT_EQ(Emissions(), 1);
}

TEST_F(SearchTest, TheTableNamesEveryCandidate) {
  LowerTwoSlots();
  const std::string text = compile::ToText(decisions_);
  for (const Decision& d : decisions_)
    EXPECT_NE(text.find(compile::ToText(d.strategy)), std::string::npos) << text;
  EXPECT_NE(text.find("slots that run ahead: 3 needed, 2 available"), std::string::npos) << text;
}

TEST(TimesTable, AddsUpToTheWall) {
  const std::string text = api::TimesTable({{"front end", 1.5}, {"back end", 4.25}}, 7.0);
  EXPECT_NE(text.find("1.25 ms  other"), std::string::npos) << text;
  EXPECT_NE(text.find("7.00 ms  total"), std::string::npos) << text;
}

}  // namespace
}  // namespace tilec
