// The page of `tilec explain` in a real Chromium: its scripts run without a complaint and ask the
// network for nothing, and pointing, picking, typing and zooming do what docs/explain.md says.
// Skipped, and said so, where no Chromium is installed.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>

#include "explain/explain.h"
#include "support/file.h"
#include "tests/browser/browser.h"
#include "tests/unit/scheduler/test_graphs.h"

namespace tilec::explain {
namespace {

namespace fs = std::filesystem;
using browser::Browser;
using browser::Json;

// One browser for all tests: starting it takes most of the time.
class Page : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const std::string program = browser::Find();
    if (program.empty()) return;
    folder_ = fs::path(::testing::TempDir()) / fmt::format("tilec_page_{}", ::getpid());
    fs::create_directories(folder_);
    browser_ = std::make_unique<Browser>(program, (folder_ / "profile").string(), 1440, 1000);
    const scheduler::Graph graph = scheduler::LoadGraph("attention_forward_hopper");
    DiagSink diags;
    const auto solution = scheduler::Solve(graph, {}, diags);
    ASSERT_TRUE(solution.ok());
    const auto e = Explain(graph, solution->schedule,
                           {solution->certificate, solution->lower_bound}, SourceMap(), diags);
    ASSERT_TRUE(e.ok());
    json_ = Json::parse(ToJson(*e));
    Write("page.html", ToHtml(*e));
    Write("picture.svg", ToSvg(*e));
  }
  static void TearDownTestSuite() {
    browser_.reset();
    if (!folder_.empty()) fs::remove_all(folder_);
  }

  void SetUp() override {
    if (!browser_)
      GTEST_SKIP() << "no Chromium is installed (Debian: apt-get install chromium): the page of "
                      "`tilec explain` is not tested";
    ASSERT_EQ(browser_->problem(), "");
    browser_->PreferDark(false);
    browser_->Open((folder_ / "page.html").string());
  }
  void TearDown() override {
    if (!browser_) return;
    EXPECT_EQ(browser_->problem(), "");
    for (const std::string& complaint : browser_->complaints()) ADD_FAILURE() << complaint;
  }

  static void Write(const std::string& name, const std::string& bytes) {
    std::string why;
    ASSERT_TRUE(WriteFileAtomically((folder_ / name).string(), bytes, &why)) << why;
  }
  Json Eval(const std::string& expression) { return browser_->Eval(expression); }
  int Count(const std::string& selector) {
    const Json n = Eval(fmt::format("document.querySelectorAll({}).length", Json(selector).dump()));
    return n.is_number() ? n.get<int>() : -1;
  }
  std::string Text(const std::string& selector) {
    const Json text =
        Eval(fmt::format("document.querySelector({}).textContent", Json(selector).dump()));
    return text.is_string() ? text.get<std::string>() : "";
  }
  int IndexOf(const std::string& op) const {
    for (size_t i = 0; i < json_["ops"].size(); ++i)
      if (json_["ops"][i]["name"] == op) return static_cast<int>(i);
    return -1;
  }

  static std::unique_ptr<Browser> browser_;
  static fs::path folder_;
  static Json json_;
};

std::unique_ptr<Browser> Page::browser_;
fs::path Page::folder_;
Json Page::json_;

TEST_F(Page, ShowsEveryOp) {
  const int ops = static_cast<int>(json_["ops"].size());
  EXPECT_EQ(Count(".node"), ops);
  EXPECT_EQ(Count(".arrow"), static_cast<int>(json_["edges"].size()));
  EXPECT_EQ(Count("#cycles tbody tr"), ops);
  // Each op once in its role per iteration shown.
  const int iterations = json_["stages"].get<int>() + 1;
  for (const char* op : {"K", "QK0", "EXP1"})
    EXPECT_GE(Count(fmt::format(".bar[data-op='{}']", IndexOf(op))), iterations) << op;
  EXPECT_EQ(Text("h1").substr(0, 24), "attention_forward_hopper");
  EXPECT_NE(Text("#binds").find("unit tensor has 2048 cycles"), std::string::npos);
  // Two periods fill the window and it starts at them.
  EXPECT_EQ(Eval("Math.abs(document.getElementById('scroll').scrollLeft + 4 - "
                 "document.querySelector('#scroll svg').dataset.steadyBegin * "
                 "(document.querySelector('.steady').getAttribute('x') / "
                 "document.querySelector('.steady').dataset.b)) < 2"),
            true);
}

// Names inside bars and boxes stay inside, and names of lanes do not touch each other.
TEST_F(Page, LabelsFit) {
  const Json out = Eval(R"((() => {
    const out = [];
    for (const text of document.querySelectorAll('.bar text:not(.hide), .node text')) {
      const t = text.getBoundingClientRect(), r = text.parentNode.querySelector('rect').
          getBoundingClientRect();
      if (t.left < r.left - 1 || t.right > r.right + 1 || t.top < r.top - 2 ||
          t.bottom > r.bottom + 2) out.push(text.textContent);
    }
    const names = Array.from(document.querySelectorAll('.gantt > svg text')).
        map(el => [el.textContent, el.getBoundingClientRect()]);
    for (const [a, r] of names) for (const [b, s] of names)
      if (a !== b && r.left < s.right - 1 && s.left < r.right - 1 && r.top < s.bottom - 4 &&
          s.top < r.bottom - 4) out.push(a + ' on ' + b);
    return out;
  })())");
  EXPECT_EQ(out, Json::array());
}

TEST_F(Page, PointingShowsSourceAndNumbers) {
  const int op = IndexOf("EXP0");
  browser_->Point(fmt::format("#graph .node[data-op='{}']", op), false);
  const std::string panel = Text("#detail");
  for (const char* text : {"EXP0", "exp2 in compute", "latency530", "unit mufu512", "SCL0", "CVT0"})
    EXPECT_NE(panel.find(text), std::string::npos) << text << " in " << panel;
  EXPECT_GT(Count(fmt::format(".bar.near[data-op='{}']", op)), 0);
}

TEST_F(Page, PickingHighlightsDependences) {
  const int op = IndexOf("EXP0");
  browser_->Point(fmt::format("#cycles button.op[data-op='{}']", op), true);
  EXPECT_EQ(Count("body.picked"), 1);
  for (const Json& o : json_["ops"]) {
    const std::string name = o["name"];
    bool expected = name == "EXP0";
    for (const Json& edge : json_["edges"])
      expected = expected || (edge["from"] == "EXP0" && edge["to"] == name) ||
                 (edge["to"] == "EXP0" && edge["from"] == name);
    EXPECT_EQ(Count(fmt::format(".node.on[data-op='{}']", IndexOf(name))), expected ? 1 : 0)
        << name;
  }
  int arrows = 0;
  for (const Json& edge : json_["edges"])
    arrows += edge["from"] == "EXP0" || edge["to"] == "EXP0" ? 1 : 0;
  EXPECT_EQ(Count(".arrow.on"), arrows);
  EXPECT_EQ(Count("#cycles tr.on"), 1);
  browser_->Key("Escape");
  EXPECT_EQ(Count("body.picked"), 0);
  EXPECT_EQ(Count(".on"), 0);
}

TEST_F(Page, KeysReachEveryLane) {
  Eval("document.querySelector('.bar[tabindex=\"0\"]').focus()");
  const auto focused = [&](const char* what) {
    return Eval(fmt::format("document.activeElement.{}", what));
  };
  const Json first = focused("dataset.b");
  browser_->Key("ArrowRight");
  EXPECT_GE(std::stoll(focused("dataset.b").get<std::string>()),
            std::stoll(first.get<std::string>()));
  EXPECT_EQ(Count(".bar[tabindex='0']"), 1);
  browser_->Key("ArrowLeft");
  EXPECT_EQ(focused("dataset.b"), first);
  std::string lanes;
  for (int i = 0; i < 20; ++i) {
    lanes += Eval("document.activeElement.closest('.lanebars').dataset.lane").get<std::string>();
    browser_->Key("ArrowDown");
  }
  EXPECT_EQ(Eval("document.activeElement.closest('.lanebars').dataset.lane"),
            Eval("Array.from(document.querySelectorAll('.lanebars')).filter(g => "
                 "g.querySelector('.bar')).pop().dataset.lane"))
      << lanes;
  browser_->Key("Enter");
  EXPECT_EQ(Count("body.picked"), 1);
  EXPECT_NE(Eval("document.activeElement.getAttribute('aria-label')")
                .get<std::string>()
                .find("iteration"),
            std::string::npos);
  // The graph: QK0 is right of K.
  Eval(fmt::format("document.querySelector(\".node[data-op='{}']\").focus()", IndexOf("K")));
  browser_->Key("ArrowRight");
  const std::string next =
      json_["ops"][std::stoi(focused("dataset.op").get<std::string>())]["name"];
  EXPECT_EQ(next.substr(0, 2), "QK");
}

TEST_F(Page, ZoomKeepsTheMiddleAndShowsMoreNames) {
  const auto width = [&] {
    return Eval("document.querySelector('#scroll svg').getBoundingClientRect().width")
        .get<double>();
  };
  const int names = Count("#scroll .bar text:not(.hide)");
  const double before = width();
  browser_->Point("#closer", true);
  browser_->Point("#closer", true);
  EXPECT_NEAR(width() / before, 2.25, .1);
  EXPECT_GT(Count("#scroll .bar text:not(.hide)"), names);
  browser_->Point("#whole", true);
  EXPECT_EQ(Eval("document.getElementById('scroll').scrollLeft"), 0);
  EXPECT_LE(width(), Eval("document.getElementById('scroll').clientWidth").get<double>() + 16);
}

TEST_F(Page, FollowsLightAndDark) {
  const char* const paper = "getComputedStyle(document.body).backgroundColor";
  const char* const bar = "getComputedStyle(document.querySelector('.bar.r1 rect')).fill";
  const Json light = Eval(paper), light_bar = Eval(bar);
  browser_->PreferDark(true);
  const Json dark = Eval(paper), dark_bar = Eval(bar);
  EXPECT_NE(light, dark);
  EXPECT_NE(light_bar, dark_bar);
  browser_->Point("#theme", true);  // against the system
  EXPECT_EQ(Eval(paper), light);
  EXPECT_EQ(Eval(bar), light_bar);
  browser_->PreferDark(false);
  browser_->Point("#theme", true);
  EXPECT_EQ(Eval(paper), dark);
}

// Without a script everything can be read: the picture alone is drawn by the browser too.
TEST_F(Page, PictureStandsAlone) {
  browser_->Open((folder_ / "picture.svg").string());
  EXPECT_EQ(Eval("document.documentElement.tagName"), "svg");
  EXPECT_EQ(Count(".node"), static_cast<int>(json_["ops"].size()));
  EXPECT_EQ(Eval("getComputedStyle(document.querySelector('.bar.r1 rect')).fill"),
            "rgb(247, 196, 139)");
}

}  // namespace
}  // namespace tilec::explain
