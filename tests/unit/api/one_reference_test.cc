// Attention with one reference a row beside a running maximum: what the model says of forms that
// were timed, and which it takes by itself.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "api/tune.h"
#include "ir/passes/defer_unlikely.h"
#include "tests/unit/api/loaded.h"

namespace tilec::api {
namespace {

struct Form {
  int64_t once, queries, keys;
  double measured;  // TF/s
};

class OneReferenceTest : public LibraryTest {
 protected:
  void SetUp() override { Load("std/attention.tile", "attention"); }
  // 64 query heads of 8 key heads.
  static Given Size(int64_t d, int64_t s, bool causal) {
    return {{"B", int64_t{1}}, {"H", int64_t{64}}, {"G", int64_t{8}},  {"S", s},
            {"L", s},          {"D", d},           {"scale", 0.08838}, {"causal", causal}};
  }
  std::map<std::string, int64_t> Taken(const Given& given) {
    std::map<std::string, int64_t> taken;
    const TuneChoice choice = ChooseTunes(loaded_, signature_, Of(given), {}, {});
    EXPECT_EQ(choice.why_not, "");
    for (const auto& [name, value] : choice.values) taken[name] = std::get<int64_t>(value);
    return taken;
  }
  bool TakesTurns(int64_t d, int64_t once, int64_t queries, int64_t keys) {
    Given all = Size(d, 8192, true);
    all["ONCE"] = once, all["BQ"] = queries, all["BKV"] = keys;
    DiagSink diags;
    std::string plan;
    Observation look;
    look.plan = &plan;
    auto fn = MakeTileIr(loaded_, "attention", Of(all), nullptr, diags);
    EXPECT_TRUE(fn.ok());
    EXPECT_TRUE(LowerToWarps(loaded_, ir::Likely(*std::move(fn)), {}, &look, diags).ok());
    return plan.find("turns=yes") != std::string::npos;
  }
  // Where one form was faster than another by more than the margin, so it is by the model.
  void Ranked(const Given& given, const std::vector<Form>& forms, double margin) {
    std::vector<double> ms;
    for (const Form& form : forms) {
      Given all = given;
      all["ONCE"] = form.once, all["BQ"] = form.queries, all["BKV"] = form.keys;
      const TuneChoice choice = ChooseTunes(loaded_, signature_, Of(all), {}, {});
      ASSERT_FALSE(choice.lowered.empty());
      ms.push_back(choice.lowered[0].time.ms);
      std::printf("ONCE=%d %dx%d: %.1f us predicted, %.0f TF/s measured\n", int(form.once),
                  int(form.queries), int(form.keys), 1e3 * ms.back(), form.measured);
    }
    for (size_t i = 0; i < forms.size(); ++i)
      for (size_t k = 0; k < forms.size(); ++k)
        if (forms[i].measured > (1 + margin) * forms[k].measured) {
          EXPECT_LT(ms[i], ms[k]) << i << " and " << k;
        }
  }
};

// H200 at load, commit fa793d89.
TEST_F(OneReferenceTest, FormsAreRankedAsTheyWereMeasured) {
  Ranked(Size(128, 8192, false),
         {{1, 192, 80, 698}, {1, 128, 128, 666}, {0, 128, 128, 636}, {0, 192, 80, 614}}, 0.05);
  Ranked(Size(128, 8192, true), {{1, 192, 80, 653}, {1, 128, 128, 631}, {0, 128, 128, 606}},
         0.05);
}

// Above, and of 2048 keys 227 us with the default, 229 in 192 x 80; causal 133 and 134.
TEST_F(OneReferenceTest, ItIsTakenForManyKeys) {
  const std::map<std::string, int64_t> once = {{"BKV", 80}, {"BQ", 192}, {"ONCE", 1}}, kept;
  for (const bool causal : {false, true}) {
    EXPECT_EQ(Taken(Size(128, 16384, causal)), once) << causal;
    EXPECT_EQ(Taken(Size(128, 8192, causal)), once) << causal;
    EXPECT_EQ(Taken(Size(128, 2048, causal)), kept) << causal;
  }
}

// Three warpgroups of 64 x 128, TF/s with a running maximum and with one reference in turns (commit
// 7b0dfe45): S 8192 500 and 517, causal 435 and 464; 16384 causal 467 and 532.
TEST_F(OneReferenceTest, ThreeWarpgroupsOfShortProductsTakeTurns) {
  const std::map<std::string, int64_t> once = {{"BKV", 128}, {"BQ", 192}, {"ONCE", 1}};
  EXPECT_EQ(Taken(Size(64, 8192, true)), once);
  EXPECT_TRUE(TakesTurns(64, 1, 192, 128));
  EXPECT_FALSE(TakesTurns(64, 0, 192, 128));  // kept apart by what they wait for
  EXPECT_FALSE(TakesTurns(128, 1, 192, 80));  // products take longer: causal 662 and 623
}

}  // namespace
}  // namespace tilec::api
