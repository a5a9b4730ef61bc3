// The gallery of classic mistakes (docs/gallery): each program is wrong in the way it says, its
// report is the one in docs/gallery.md, and with the lines behind `// FIX` it is silent.
//
// UPDATE_GOLDEN=1 writes docs/gallery.md.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "runtime/emulator/judge/finding.h"
#include "tools/subject.h"

namespace tilec::tools {
namespace {

namespace judge = runtime::judge;
namespace fs = std::filesystem;

struct Program {
  std::string name, title, wrong, fixed;
  std::vector<std::string> expect;
  std::string grid = "1", block = "32", cluster = "1";
  std::vector<std::pair<std::string, std::string>> changes;  // wrong, right
};

Program Read(const fs::path& path) {
  Program p;
  p.name = path.filename().string();
  std::ifstream in(path);
  std::string last;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string slashes, word;
    words >> slashes >> word;
    if (slashes == "//" && p.title.empty()) p.title = line.substr(3);
    if (slashes == "//" && word == "expect")
      while (words >> word) p.expect.push_back(word);
    if (slashes == "//" && word == "launch")
      while (words >> word) {
        const std::string key = word.substr(0, word.find('='));
        (key == "grid"    ? p.grid
         : key == "block" ? p.block
                          : p.cluster) = word.substr(word.find('=') + 1);
      }
    p.wrong += line + "\n";
    const size_t mark = line.find(" // WRONG");
    if (mark != std::string::npos) {
      last = line.substr(0, mark);
      continue;
    }
    if (slashes == "//" && word == "FIX") {
      p.changes.emplace_back(last, line.substr(7));
      p.fixed += line.substr(7) + "\n";
      continue;
    }
    p.fixed += line + "\n";
  }
  return p;
}

std::vector<Program> All() {
  std::vector<fs::path> paths;
  for (const auto& e : fs::directory_iterator(fs::path(TILEC_SOURCE_DIR) / "docs/gallery"))
    if (e.path().extension() == ".ptx") paths.push_back(e.path());
  std::sort(paths.begin(), paths.end());
  std::vector<Program> all;
  for (const fs::path& path : paths) all.push_back(Read(path));
  return all;
}

std::string Launch(const Program& p) {
  return "entry = \"kernel\"\ngrid = " + p.grid + "\nblock = " + p.block +
         "\ncluster = " + p.cluster + R"(
[[buffer]]
name = "in"
type = "bf16"
dims = [128, 64]
[[buffer]]
name = "out"
type = "bf16"
dims = [128, 64]
fill = "zero"
[[map]]
name = "from"
buffer = "in"
box = [32, 64]
swizzle = 128
[[map]]
name = "to"
buffer = "out"
box = [16, 64]
swizzle = 128
[[arg]]
map = "from"
[[arg]]
map = "to"
[[arg]]
buffer = "in"
[[arg]]
buffer = "out"
)";
}

// Under every policy; the report is that of the first execution in which something is found.
std::vector<judge::Finding> Judged(const Program& p, const std::string& ptx) {
  Options options;
  Session session(options);
  DiagSink& diags = session.diags();
  auto launch = ParseLaunchFile("launch.toml", Launch(p), diags);
  EXPECT_TRUE(launch.ok());
  if (!launch.ok()) return {};
  auto subject = PtxSubject(session, p.name, ptx, *launch);
  EXPECT_TRUE(subject.ok());
  if (!subject.ok()) return {};
  for (const auto& [policy, landing] :
       {std::pair{runtime::Policy::kRunToBlock, runtime::Landing::kEarly},
        std::pair{runtime::Policy::kConsumerFirst, runtime::Landing::kLate},
        std::pair{runtime::Policy::kPct, runtime::Landing::kPoison},
        std::pair{runtime::Policy::kRandom, runtime::Landing::kRandom}}) {
    runtime::EmulatorOptions o;
    o.policy = policy;
    o.landing = landing;
    o.check = runtime::EmulatorOptions::Check::kOn;
    o.report = std::make_shared<judge::Report>();
    o.instruction_limit = 100000;
    const auto device = runtime::OpenEmulator(o);
    const bool ok = (*subject)->Run(*device).ok();
    const auto findings = o.report->findings();
    SourceMap sources;
    if (!ok && findings.empty()) ADD_FAILURE() << p.name << RenderAll(diags, sources);
    diags.Clear();
    for (const judge::Finding& f : findings)
      if (f.severity != judge::Severity::kHint) return findings;
  }
  return {};
}

// The finding that the program is about, or the first.
const judge::Finding& Main(const Program& p, const std::vector<judge::Finding>& findings) {
  for (const judge::Finding& f : findings)
    for (const std::string& rule : p.expect)
      if (judge::Def(f.rule).id == rule) return f;
  return findings.front();
}

std::string Doc(const std::vector<Program>& all) {
  std::string text =
      "# Twelve classic mistakes\n\nSmall programs that are wrong, what `tilec check` says about "
      "each, and what to write instead.\nEach is a test "
      "([gallery_test.cc](../tests/gallery/gallery_test.cc), which also writes this page):\nwrong "
      "it must be reported, right it must be silent.\n";
  for (const Program& p : all) {
    text += "\n## " + p.title + "\n\n[" + p.name + "](gallery/" + p.name + ")\n\n```diff\n";
    for (const auto& [wrong, right] : p.changes) text += "-" + wrong + "\n+" + right + "\n";
    text += "```\n\n```\n" + judge::ToText(Main(p, Judged(p, p.wrong))) + "```\n";
  }
  return text;
}

TEST(Gallery, EachIsWrongAsItSays) {
  const std::vector<Program> all = All();
  ASSERT_EQ(all.size(), 12u);
  for (const Program& p : all) {
    SCOPED_TRACE(p.name);
    ASSERT_FALSE(p.expect.empty());
    ASSERT_FALSE(p.changes.empty());
    const std::vector<judge::Finding> findings = Judged(p, p.wrong);
    ASSERT_FALSE(findings.empty()) << "nothing was found";
    const std::string id = judge::Def(Main(p, findings).rule).id;
    EXPECT_NE(std::find(p.expect.begin(), p.expect.end(), id), p.expect.end())
        << judge::ToText(findings);
  }
}

TEST(Gallery, EachIsSilentWhenFixed) {
  for (const Program& p : All()) {
    SCOPED_TRACE(p.name);
    EXPECT_EQ(judge::ToText(Judged(p, p.fixed)), "");
  }
}

TEST(Gallery, ThePageIsWhatTheJudgeSays) {
  const fs::path path = fs::path(TILEC_SOURCE_DIR) / "docs/gallery.md";
  const std::string text = Doc(All());
  if (std::getenv("UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path) << text;
    return;
  }
  std::ifstream in(path);
  std::stringstream have;
  have << in.rdbuf();
  EXPECT_EQ(have.str(), text) << "UPDATE_GOLDEN=1 writes it";
}

}  // namespace
}  // namespace tilec::tools
