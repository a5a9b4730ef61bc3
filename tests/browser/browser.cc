// SPDX-License-Identifier: Apache-2.0
#include "tests/browser/browser.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>

namespace tilec::browser {

namespace {

constexpr int kAnswerMilliseconds = 60000;  // a first start from a cold disk took over 20 s

std::string FromBase64(const std::string& text) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  unsigned bits = 0, count = 0;
  for (char c : text) {
    const size_t digit = digits.find(c);
    if (digit == std::string::npos) continue;
    bits = bits << 6 | static_cast<unsigned>(digit);
    if ((count += 6) < 8) continue;
    count -= 8;
    out += static_cast<char>(bits >> count & 0xff);
  }
  return out;
}

}  // namespace

std::string Find() {
  for (const char* path : {"/usr/bin/chromium", "/usr/bin/chromium-browser",
                           "/usr/bin/google-chrome", "/usr/bin/google-chrome-stable"})
    if (::access(path, X_OK) == 0) return path;
  return "";
}

Browser::Browser(const std::string& program, const std::string& profile, int width, int height) {
  int in[2], out[2];  // read, write
  if (::pipe(in) != 0 || ::pipe(out) != 0) {
    problem_ = "no pipe";
    return;
  }
  // Written before the fork: a child of a program with threads may not allocate.
  const std::vector<std::string> words = {
      program,
      "--headless=new",
      "--no-sandbox",
      "--disable-gpu",
      "--hide-scrollbars",
      "--no-first-run",
      "--disable-extensions",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
      "--disable-dev-shm-usage",
      "--force-device-scale-factor=1",
      "--user-data-dir=" + profile,
      "--window-size=" + std::to_string(width) + "," + std::to_string(height),
      "--remote-debugging-pipe",
      "about:blank"};
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::setpgid(0, 0);
    // The protocol is spoken on 3 and 4; the pipes may sit there, so they move away first.
    const int read_end = ::fcntl(in[0], F_DUPFD, 10), write_end = ::fcntl(out[1], F_DUPFD, 10);
    ::dup2(read_end, 3);
    ::dup2(write_end, 4);
    for (int fd = 5; fd < 64; ++fd) ::close(fd);
    const int null = ::open("/dev/null", O_RDWR);
    ::dup2(null, 0);
    ::dup2(null, 1);
    ::dup2(null, 2);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  ::close(in[0]);
  ::close(out[1]);
  to_ = in[1];
  from_ = out[0];
  ::fcntl(to_, F_SETFD, FD_CLOEXEC);
  ::fcntl(from_, F_SETFD, FD_CLOEXEC);
  ::signal(SIGPIPE, SIG_IGN);
  const Json targets = Call("Target.getTargets", Json::object(), false);
  std::string id;
  for (const Json& target : targets.value("targetInfos", Json::array()))
    if (target["type"] == "page") id = target["targetId"];
  if (id.empty() && problem_.empty()) problem_ = "the browser has no page";
  session_ = Call("Target.attachToTarget", {{"targetId", id}, {"flatten", true}}, false)
                 .value("sessionId", "");
  for (const char* domain : {"Page.enable", "Runtime.enable", "Network.enable", "Log.enable"})
    Call(domain, Json::object());
}

Browser::~Browser() {
  if (pid_ <= 0) return;
  ::close(to_);
  ::close(from_);
  ::kill(-pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

bool Browser::Receive(Json* message) {
  while (problem_.empty()) {
    const size_t end = buffer_.find('\0');
    if (end != std::string::npos) {
      *message = Json::parse(buffer_.substr(0, end), nullptr, false);
      buffer_.erase(0, end + 1);
      if (message->is_object()) return true;
      problem_ = "the browser sent no JSON";
      return false;
    }
    pollfd wait = {from_, POLLIN, 0};
    if (::poll(&wait, 1, kAnswerMilliseconds) <= 0) {
      problem_ = "the browser does not answer";
      return false;
    }
    std::array<char, 65536> bytes;
    const ssize_t count = ::read(from_, bytes.data(), bytes.size());
    if (count <= 0) {
      problem_ = "the browser has ended";
      return false;
    }
    buffer_.append(bytes.data(), static_cast<size_t>(count));
  }
  return false;
}

void Browser::Notice(const Json& message) {
  const std::string method = message.value("method", "");
  const Json params = message.value("params", Json::object());
  if (method == "Page.loadEventFired") loaded_ = true;
  if (method == "Runtime.exceptionThrown")
    complaints_.push_back("exception: " + params["exceptionDetails"].dump());
  if (method == "Runtime.consoleAPICalled")
    complaints_.push_back("console: " + params["args"].dump());
  if (method == "Log.entryAdded") complaints_.push_back("log: " + params["entry"].dump());
  if (method == "Network.requestWillBeSent" && !opened_.empty() &&
      params["request"]["url"] != opened_)
    complaints_.push_back("request: " + params["request"]["url"].dump());
}

Json Browser::Call(const std::string& method, const Json& params, bool to_page) {
  if (!problem_.empty()) return Json::object();
  const int id = next_++;
  Json request = {{"id", id}, {"method", method}, {"params", params}};
  if (to_page) request["sessionId"] = session_;
  const std::string text = request.dump() + '\0';
  for (size_t at = 0; at < text.size();) {
    const ssize_t count = ::write(to_, text.data() + at, text.size() - at);
    if (count <= 0) {
      problem_ = "the browser does not listen";
      return Json::object();
    }
    at += static_cast<size_t>(count);
  }
  for (Json message; Receive(&message);) {
    if (message.value("id", 0) != id) {
      Notice(message);
      continue;
    }
    if (message.contains("error")) problem_ = method + ": " + message["error"].dump();
    return message.value("result", Json::object());
  }
  return Json::object();
}

void Browser::Open(const std::string& path) {
  loaded_ = false;
  complaints_.clear();
  opened_ = "file://" + path;
  Call("Page.navigate", {{"url", opened_}});
  for (Json message; problem_.empty() && !loaded_ && Receive(&message);) Notice(message);
}

Json Browser::Eval(const std::string& expression) {
  const Json result =
      Call("Runtime.evaluate",
           {{"expression", expression}, {"returnByValue", true}, {"awaitPromise", true}});
  if (result.contains("exceptionDetails")) problem_ = result["exceptionDetails"].dump();
  return result.value("result", Json::object()).value("value", Json());
}

void Browser::Key(const std::string& key) {
  const bool letter = key.size() == 1;
  Json down = {{"type", letter ? "keyDown" : "rawKeyDown"}, {"key", key}, {"code", key}};
  if (letter) down["text"] = key;
  Call("Input.dispatchKeyEvent", down);
  Call("Input.dispatchKeyEvent", {{"type", "keyUp"}, {"key", key}, {"code", key}});
}

void Browser::Point(const std::string& selector, bool click) {
  const Json at = Eval(
      "(() => { const el = document.querySelector(" + Json(selector).dump() +
      "); if (!el) throw 'nothing matches'; el.scrollIntoView({block: 'center', inline: 'center'});"
      " const r = el.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; "
      "})()");
  if (!problem_.empty()) return;
  const Json base = {{"x", at[0]}, {"y", at[1]}, {"button", click ? "left" : "none"}};
  const auto mouse = [&](const char* type, int clicks) {
    Json event = base;
    event["type"] = type;
    event["clickCount"] = clicks;
    Call("Input.dispatchMouseEvent", event);
  };
  mouse("mouseMoved", 0);
  if (!click) return;
  mouse("mousePressed", 1);
  mouse("mouseReleased", 1);
}

void Browser::PreferDark(bool dark) {
  Call("Emulation.setEmulatedMedia",
       {{"features", {{{"name", "prefers-color-scheme"}, {"value", dark ? "dark" : "light"}}}}});
}

std::string Browser::Screenshot() {
  return FromBase64(Call("Page.captureScreenshot", {{"format", "png"}}).value("data", ""));
}

}  // namespace tilec::browser
