// The site of scripts/site in a real browser: every page fits a narrow screen and follows dark
// mode, links lead to pages that open, the search finds and leads there, and nothing is asked of a
// network.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "tests/browser/browser.h"
#include "tests/unit/temp_folder.h"

namespace tilec::browser {
namespace {

namespace fs = std::filesystem;

class Site : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string program = Find();
    if (program.empty())
      GTEST_SKIP() << "no Chromium is installed: the site is not tested in a browser";
    const std::string build = "python3 -B " TILEC_SOURCE_DIR "/scripts/site " + site_ + " > " +
                              folder_.path() + "log 2>&1";
    if (std::system("python3 --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "no python3 here";
    ASSERT_EQ(std::system(build.c_str()), 0);
    browser_ = std::make_unique<Browser>(program, folder_.path() + "profile", 1100, 800);
    ASSERT_EQ(browser_->problem(), "");
  }
  void TearDown() override {
    if (!browser_) return;
    EXPECT_EQ(browser_->problem(), "");
    for (const std::string& complaint : complaints_) ADD_FAILURE() << complaint;
  }

  void Open(const std::string& page) {
    browser_->Open(site_ + "/" + page);
    // Files of the site may be asked for, and nothing else.
    for (const std::string& c : browser_->complaints())
      if (!c.starts_with("request: \"file://" + site_ + "/"))
        complaints_.push_back(page + ": " + c);
  }
  Json Eval(const std::string& expression) { return browser_->Eval(expression); }
  std::vector<std::string> Pages() const {
    std::vector<std::string> out;
    for (const auto& entry : fs::recursive_directory_iterator(site_)) {
      const std::string name = fs::relative(entry.path(), site_).string();
      if (name.ends_with(".html") && !name.starts_with("files")) out.push_back(name);
    }
    std::sort(out.begin(), out.end());
    return out;
  }

  const TempFolder folder_;
  const std::string site_ = folder_.path() + "site";
  std::unique_ptr<Browser> browser_;
  std::vector<std::string> complaints_;
};

// The luminance of a colour `rgb(r, g, b)` that the page says.
constexpr const char* kLight =
    "(() => { const c = getComputedStyle(document.body).backgroundColor.match(/[0-9.]+/g);"
    " return 0.3 * c[0] + 0.6 * c[1] + 0.1 * c[2]; })()";

TEST_F(Site, PagesFollowDarkMode) {
  for (const char* page : {"index.html", "docs/tutorial.html"}) {
    browser_->PreferDark(false);
    Open(page);
    EXPECT_GT(Eval(kLight).get<double>(), 200) << page;
    browser_->PreferDark(true);
    EXPECT_LT(Eval(kLight).get<double>(), 80) << page;
    const Json text = Eval("getComputedStyle(document.body).color.match(/[0-9.]+/g)[0] * 1");
    EXPECT_GT(text.get<double>(), 150) << page << ": dark on dark";
  }
}

TEST_F(Site, TheSearchFindsAndLeadsThere) {
  Open("index.html");
  ASSERT_TRUE(Eval("document.querySelector('input') !== null").get<bool>());
  const std::string type =
      "(() => { const i = document.querySelector('input'); i.value = '%'; "
      "i.dispatchEvent(new Event('input', {bubbles: true})); "
      "return [...document.querySelectorAll('#found a')].map(a => a.getAttribute('href')); })()";
  const auto find = [&](const std::string& words) {
    std::string script = type;
    return Eval(script.replace(script.find('%'), 1, words));
  };
  const Json bundles = find("bundle");
  ASSERT_TRUE(bundles.is_array());
  ASSERT_GT(bundles.size(), 0u);
  const Json nothing = find("qqqqzzzz");
  EXPECT_EQ(nothing.size(), 0u);
  std::string to = bundles[0].get<std::string>();
  to = to.substr(0, to.find('#'));
  Open(to);
  EXPECT_TRUE(Eval("document.body.textContent.toLowerCase().includes('bundle')").get<bool>()) << to;
}

TEST_F(Site, EveryPageOpensAndItsLinksAreThere) {
  size_t links = 0;
  const std::vector<std::string> pages = Pages();
  ASSERT_GE(pages.size(), 20u);
  for (const std::string& page : pages) {
    Open(page);
    const Json targets = Eval(
        "[...document.querySelectorAll('a')].map(a => a.href).filter(h => h.startsWith('file:'))"
        ".map(h => decodeURI(new URL(h).pathname))");
    ASSERT_TRUE(targets.is_array()) << page;
    for (const Json& target : targets) {
      ++links;
      EXPECT_TRUE(fs::exists(target.get<std::string>())) << page << ": " << target;
    }
    EXPECT_TRUE(Eval("document.querySelector('h1') !== null").get<bool>()) << page;
  }
  EXPECT_GT(links, 200u);
}

class NarrowSite : public Site {};

TEST_F(NarrowSite, NoPageIsWiderThanAPhone) {
  browser_ = std::make_unique<Browser>(Find(), folder_.path() + "narrow", 500, 800);
  ASSERT_EQ(browser_->problem(), "");
  for (const std::string& page : Pages()) {
    Open(page);
    const Json over = Eval(
        "(() => { const f = document.createElement('style'); f.textContent = 'html { width: 360px "
        "}';"
        " document.head.append(f); return document.body.scrollWidth; })()");
    EXPECT_LE(over.get<int>(), 362) << page;
  }
}

}  // namespace
}  // namespace tilec::browser
