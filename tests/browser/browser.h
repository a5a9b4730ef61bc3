// A real browser without a window, driven over a pipe by its debugging protocol: what tests of
// pages need and no more. No network port is opened and none is needed.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tilec::browser {

using Json = nlohmann::json;

// The path of an installed Chromium, or "".
std::string Find();

class Browser {
 public:
  // Starts it with a window of this size. `profile` is a folder that is created and filled.
  Browser(const std::string& program, const std::string& profile, int width, int height);
  ~Browser();
  Browser(const Browser&) = delete;
  Browser& operator=(const Browser&) = delete;

  // Empty while all is well; else what went wrong. Every call after that does nothing.
  const std::string& problem() const { return problem_; }

  // Loads file:// + path and waits until its scripts have run.
  void Open(const std::string& path);
  // The value of a JavaScript expression; an exception becomes the problem.
  Json Eval(const std::string& expression);
  // A key as a keyboard sends it: "ArrowRight", "Enter", "Escape", "+".
  void Key(const std::string& key);
  // Moves the mouse to the middle of the first element that matches, and clicks if asked.
  void Point(const std::string& selector, bool click);
  void PreferDark(bool dark);
  // A PNG of what the window shows.
  std::string Screenshot();

  // Messages of the console and failures of scripts since Open; requests to anywhere but the file.
  const std::vector<std::string>& complaints() const { return complaints_; }

 private:
  Json Call(const std::string& method, const Json& params, bool to_page = true);
  bool Receive(Json* message);
  void Notice(const Json& message);

  pid_t pid_ = -1;
  int to_ = -1, from_ = -1;
  int next_ = 1;
  std::string buffer_, session_, problem_, opened_;
  bool loaded_ = false;
  std::vector<std::string> complaints_;
};

}  // namespace tilec::browser
