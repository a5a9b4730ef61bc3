// Settings and findings survive the way between the two processes, and nothing else is taken.
//
// SPDX-License-Identifier: Apache-2.0
#include "shim/settings.h"

#include <gtest/gtest.h>

namespace tilec::shim {
namespace {

TEST(Settings, ThereAndBack) {
  Settings s;
  s.emulator.policy = runtime::Policy::kPct;
  s.emulator.landing = runtime::Landing::kPoison;
  s.emulator.seed = 77;
  s.emulator.spurious_try_wait = true;
  s.emulator.instruction_limit = 12345;
  s.emulator.memory_limit_bytes = 1 << 20;
  s.emulator.machine.arch = "sm_80";
  s.emulator.machine.sms = 108;
  s.emulator.machine.clusters = false;
  s.single = true;
  s.seeds = 3;
  s.words = "-- ./a 'b c'";
  const auto back = ParseSettings(Print(s));
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(Print(*back), Print(s));
  EXPECT_EQ(back->emulator.machine.sms, 108u);
  EXPECT_EQ(back->emulator.policy, runtime::Policy::kPct);
}

TEST(Settings, NothingElse) {
  for (const char* text : {"", "{}", "[1]", "{\"settings\": 2}", "{\"settings\": 1}",
                           "{\"settings\": 1, \"policy\": 4, \"landing\": \"early\"}"})
    EXPECT_FALSE(ParseSettings(text).has_value()) << text;
}

TEST(Findings, ThereAndBack) {
  runtime::judge::Finding f;
  f.rule = runtime::judge::Rule::kM2;
  f.severity = runtime::judge::Severity::kPortability;
  f.entry = "k";
  f.message = "a race";
  f.accesses.push_back({"warp 1",
                        "writes",
                        "global [0, 4)",
                        {"k.ptx", 7, "st.global", "k.cu:3:1"},
                        "load",
                        "tile",
                        2});
  f.notes = {"one", "two"};
  f.count = 9;
  const std::string text = runtime::judge::ToJson(std::vector{f});
  const auto back = ParseFindings(text);
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(runtime::judge::ToJson(*back), text);
  for (const char* wrong : {"", "{}", "[1]", "[{\"check\": \"ZZ\"}]",
                            "[{\"check\": \"M2\", "
                            "\"accesses\": [3]}]"})
    EXPECT_FALSE(ParseFindings(wrong).has_value()) << wrong;
}

}  // namespace
}  // namespace tilec::shim
