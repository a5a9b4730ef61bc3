// The walk over strategies, seen from outside: what was considered and emitted, that nothing is
// made twice, and that every attempt is accounted for.
//
// SPDX-License-Identifier: Apache-2.0
#include "compile/search.h"

#include <fmt/format.h>

#include "compile/proof_size.h"
#include "tests/unit/api/loaded.h"
#include "tests/unit/h200.h"
#include "tests/unit/temp_folder.h"

namespace tilec {
namespace {

using compile::Decision;
using compile::Order;
using Outcome = compile::Decision::Outcome;

class SearchTest : public LibraryTest {
 protected:
  // `target`: a machine or its file; "": the default.
  void Lower(const api::Given& given, const std::string& schedule, const std::string& target = "") {
    DiagSink diags;
    api::Call call = Of(given);
    auto tile = api::MakeTileIr(loaded_, signature_.kernel, call, nullptr, diags);
    ASSERT_TRUE(tile.ok()) << RenderAll(diags, loaded_.sources);
    api::PipelineOptions options;
    options.schedule = schedule;
    if (!target.empty()) options.target = target;
    options = options.For(call);
    decisions_.clear();
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

// Tiles of several turns that fill a role's registers leave room for what the assembler wants, for
// the tensors that threads access, and, of roles that come and go, for one more.
TEST_F(SearchTest, RolesThatComeAndGoKeepARegisterMore) {
  Load("std/models/ssd.tile", "ssd");
  const api::Given given = {{"B", int64_t{1}}, {"T", int64_t{512}}, {"H", int64_t{2}},
                            {"G", int64_t{1}}, {"P", int64_t{128}}, {"N", int64_t{128}}};
  const auto once = [&]() -> const Decision& {
    return *std::find_if(decisions_.begin(), decisions_.end(), [](const Decision& d) {
      return d.strategy.shape == compile::Shape::kOnce && d.strategy.order == Order::kSolved;
    });
  };
  TempFolder folder;
  constexpr int64_t kAccess = 3;
  const auto on = [&](int64_t least_beside) {
    folder.Write("less.toml", fmt::format(R"(name = "less"
title = "an H200 whose tiles want fewer registers beside them"
extends = "h200"
features = ["tma", "setmaxnreg", "clusters"]
[registers]
least_beside = {{ value = {}, tag = "assumed", source = "invented" }}
beside_access = {{ value = {}, tag = "assumed", source = "invented" }}
)",
                                          least_beside, kAccess));
    Lower(given, "solve", folder.path() + "less.toml");
  };
  // What is kept and what stands beside it fill the role, but for that register.
  constexpr int64_t kQuota = 240, kKept = 232, kTensors = 2;
  constexpr int64_t kFills = kQuota - kKept - kTensors * kAccess;
  on(kFills);
  ASSERT_TRUE(once().refusal) << compile::ToText(decisions_);
  EXPECT_EQ(once().outcome, Outcome::kRefused);
  EXPECT_EQ(once().refusal->stage, compile::Stage::kWorth);
  EXPECT_EQ(once().refusal->resource, compile::Resource::kRegisters);
  EXPECT_EQ(once().refusal->needed, kQuota + 1);
  EXPECT_EQ(once().refusal->available, kQuota);
  EXPECT_EQ(Taken().strategy.order, Order::kRule);
  // By that register the order is left: where the assembler wants one less, it is taken.
  on(kFills - 1);
  EXPECT_EQ(&Taken(), &once()) << compile::ToText(decisions_);
}

// CTAs that stay would walk over rings of two loops at once: what is known to have no end is not
// walked for a fifth of a second first. Where the rings are of one loop the proof is made.
TEST_F(SearchTest, AProofThatWouldHaveNoEndIsNotBegun) {
  const auto refused = [&] {
    const Decision& first = decisions_.front();
    return first.refusal && first.refusal->resource == compile::Resource::kProof;
  };
  Load("std/models/attention_with.tile", "softcap_dkdv");
  Lower({{"D", int64_t{64}}}, "solve");
  ASSERT_TRUE(refused()) << compile::ToText(decisions_);
  EXPECT_EQ(decisions_.front().strategy.shape, compile::Shape::kPersistent);
  EXPECT_GT(decisions_.front().refusal->needed, compile::kMostFillings);
  EXPECT_EQ(decisions_.front().refusal->available, compile::kMostFillings);
  EXPECT_EQ(Times("warp check, refused"), 0);
  EXPECT_EQ(Times("warp check"), 1);
  EXPECT_EQ(Taken().strategy.shape, compile::Shape::kOnce);
  Load("std/models/grouped.tile", "grouped");
  Lower({}, "solve");
  EXPECT_EQ(Taken().strategy.shape, compile::Shape::kPersistent) << compile::ToText(decisions_);
  EXPECT_EQ(&Taken(), &decisions_.front());
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
