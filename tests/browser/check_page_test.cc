// The page of `tilec check --html` in a real Chromium: a row for each warp, the two accesses
// marked, the missing edge from one to the other, keys and clicks, nothing asked of a network.
// Skipped, and said so, where no Chromium is installed; what is in the text of the page is tested
// everywhere.
//
// SPDX-License-Identifier: Apache-2.0
#include "tools/check_page.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>

#include "support/file.h"
#include "tests/browser/browser.h"
#include "tests/unit/judge/cases.h"

namespace tilec::tools {
namespace {

namespace fs = std::filesystem;
namespace judge = runtime::judge;
using browser::Browser;
using browser::Json;

// A write by one warp and a read by another without a barrier, run and written down.
struct Race {
  judge::Trace trace;
  judge::Finding finding;
  Race() {
    runtime::EmulatorOptions options;
    options.check = runtime::EmulatorOptions::Check::kOn;
    options.report = std::make_shared<judge::Report>();
    const auto written = std::make_shared<judge::Trace>();
    options.report->SetTrace(written);
    runtime::Emu emu(options);
    const std::string text = std::string(judge::kPreamble) +
                             "@%w0 st.shared.b32 [%r1], %t;\n"
                             "xor.b32 %r3, %r1, 128;\n"
                             "@%w1 ld.shared.b32 %r2, [%r3];\nret;\n}\n";
    EXPECT_TRUE(emu.Load(text)) << emu.Text();
    const uint64_t at = emu.Upload(std::vector<uint32_t>(4096));
    runtime::LaunchConfig config;
    config.block[0] = 64;
    EXPECT_TRUE(
        emu.Launch("k", config,
                   {runtime::KernelArg::Of(at), runtime::KernelArg::Of(at),
                    runtime::KernelArg::Of(at), runtime::KernelArg::Of(runtime::TensorMap())}))
        << emu.Text();
    const auto findings = options.report->findings();
    EXPECT_EQ(findings.size(), 1u);
    if (!findings.empty()) finding = findings[0];
    trace = *written;
  }
  std::string Page() const {
    CheckPageWords words;
    words.subject = "race.ptx";
    words.command = "tilec check race.ptx --launch=<race.toml>";
    words.source = [](const std::string&, int line) { return fmt::format("line {} & more", line); };
    return CheckPage(finding, trace, words);
  }
};

TEST(CheckPage, HasWhatTheFindingSays) {
  const Race race;
  EXPECT_EQ(race.finding.rule, judge::Rule::kM1);
  ASSERT_EQ(race.finding.accesses.size(), 2u);
  EXPECT_GE(race.finding.accesses[0].warp, 0);
  EXPECT_NE(race.finding.accesses[0].warp, race.finding.accesses[1].warp);
  EXPECT_GT(race.finding.at, 0u);
  const std::string page = race.Page();
  for (const char* part : {"M1", "st.shared.b32", "ld.shared.b32", "id=\"missing-edge\"",
                           "--launch=&lt;race.toml&gt;", "&amp; more"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
  for (const char* part : {"http:", "https:", "<race.toml>", "src="})
    EXPECT_EQ(page.find(part), std::string::npos) << part;
  EXPECT_EQ(page, race.Page());
}

TEST(CheckPage, IsMadeOfAFindingWithoutATrace) {
  judge::Finding hang;
  hang.rule = judge::Rule::kS1;
  hang.message = "nobody gets on";
  const std::string page = CheckPage(hang, judge::Trace(), {});
  EXPECT_NE(page.find("nobody gets on"), std::string::npos);
  EXPECT_EQ(page.find("id=\"missing-edge\""), std::string::npos);
}

TEST(CheckPage, InABrowser) {
  const std::string program = browser::Find();
  if (program.empty())
    GTEST_SKIP() << "no Chromium is installed (Debian: apt-get install chromium): the page of "
                    "`tilec check --html` is not tested";
  const fs::path folder =
      fs::path(::testing::TempDir()) / fmt::format("tilec_check_page_{}", ::getpid());
  fs::create_directories(folder);
  std::string why;
  const Race race;
  ASSERT_TRUE(WriteFileAtomically((folder / "page.html").string(), race.Page(), &why)) << why;
  {
    Browser b(program, (folder / "profile").string(), 1200, 900);
    b.Open((folder / "page.html").string());
    const auto count = [&](const std::string& selector) {
      return b.Eval(fmt::format("document.querySelectorAll({}).length", Json(selector).dump()));
    };
    EXPECT_EQ(count("svg .row"), 2);
    EXPECT_EQ(count("svg .event.first"), 1);
    EXPECT_EQ(count("svg .event.second"), 1);
    EXPECT_EQ(count("#missing-edge"), 1);
    EXPECT_EQ(count("#accesses .card"), 2);
    // The edge is drawn: it has a length, and leads to the right.
    EXPECT_GT(b.Eval("document.getElementById('missing-edge').getTotalLength()").get<double>(), 50);
    EXPECT_EQ(b.Eval("document.querySelector('.event.on').classList.contains('second')"), true);
    b.Key("ArrowLeft");
    EXPECT_EQ(b.Eval("document.querySelector('.event.on').classList.contains('first')"), true);
    EXPECT_NE(b.Eval("document.getElementById('detail').textContent")
                  .get<std::string>()
                  .find("st.shared.b32"),
              std::string::npos);
    b.Point("svg .event.second rect", true);
    EXPECT_EQ(b.Eval("document.querySelectorAll('tr.on').length"), 1);
    b.PreferDark(true);
    EXPECT_EQ(b.problem(), "");
    for (const std::string& complaint : b.complaints()) ADD_FAILURE() << complaint;
  }
  fs::remove_all(folder);
}

}  // namespace
}  // namespace tilec::tools
