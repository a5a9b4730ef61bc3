// Does the compiler still make what it made? Every compilation of tests/replay/corpus.txt is made
// again and compared with its line of expected.txt (line.h). Solved schedules are kept in
// solutions.txt, judged when they are read and not trusted: where one is missing or does not hold
// the loop is solved. docs/testing.md says how to read a difference; scripts/replay shows and
// accepts all of them.
//
//   replay ROOT --shard=I/N                compares a share of the lines
//   replay ROOT --list                     compares the ids alone
//   replay ROOT --shard=I/N --write=FOLDER writes lines and solutions of a share there instead
//   replay ROOT --join=FOLDER              what was written there becomes what is expected
//     --ptxas=PATH                         asks it where the PTX is not the expected one
//     --only=TEXT                          ids that contain it
//     --times                              says what each took, and how many programs were emitted
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>

#include "api/pipeline.h"
#include "runtime/kernel_cache.h"
#include "support/file.h"
#include "support/lines.h"
#include "tests/replay/kept_solutions.h"
#include "tests/replay/line.h"

namespace tilec::replay {
namespace {

constexpr size_t kFewestCases = 400, kFewestCold = 20;
// Warp programs that are made before one is taken, of the library at the machine that its defaults
// are for: most compilations make one. (Defaults that do not fit another machine cost more.)
constexpr int kMostEmitted = 4;
constexpr std::string_view kOwnMachine = "h200", kOwnKernels = "stdlib/";

struct Options {
  std::string root, write, join, ptxas, only;
  int64_t shard = 0, shards = 1;
  bool list = false, times = false;
};

class Replay {
 public:
  explicit Replay(Options options) : o_(std::move(options)) {}

  int Run() {
    if (!o_.join.empty()) return Join();
    std::string why, text;
    const std::optional<std::vector<Case>> cases = ReadCorpus(o_.root, &why);
    if (!cases) return Fail(why);
    const std::string folder = o_.root + "/tests/replay/";
    if (ReadFile(folder + "expected.txt", &text, &why)) Expect(text);
    if (o_.list) return List(*cases);
    std::string solutions;
    if (ReadFile(folder + "solutions.txt", &text, &why)) solutions = std::move(text);
    KeptSolutions store(solutions);
    std::string lines;
    for (size_t i = 0; i < cases->size(); ++i) {
      const Case& c = (*cases)[i];
      if (static_cast<int64_t>(i) % o_.shards != o_.shard) continue;
      if (c.id.find(o_.only) == std::string::npos) continue;
      lines += ToText(One(c, store)) + "\n";
    }
    if (store.solved() > 0)
      fmt::print("{} loops were solved whose solutions should be kept\n", store.solved());
    if (!o_.write.empty()) {
      const std::string name = fmt::format("{}/{}.", o_.write, o_.shard);
      if (!WriteFileAtomically(name + "lines", lines, &why) ||
          !WriteFileAtomically(name + "solutions", store.Text(), &why))
        return Fail(why);
      return 0;
    }
    if (moved_ > 0)
      fmt::print(
          "{} lines moved: scripts/replay shows all of them, docs/testing.md says what to "
          "do\n",
          moved_);
    return moved_ > 0 ? 1 : 0;
  }

 private:
  static int Fail(const std::string& why) {
    fmt::print("{}\n", why);
    return 2;
  }

  int Join() {
    namespace fs = std::filesystem;
    std::set<std::string> lines;
    KeptSolutions solutions;
    std::string text, why;
    std::error_code failed;
    for (const fs::directory_entry& entry : fs::directory_iterator(o_.join, failed)) {
      const std::string extension = entry.path().extension().string();
      if (extension != ".lines" && extension != ".solutions") continue;
      if (!ReadFile(entry.path().string(), &text, &why)) return Fail(why);
      if (extension == ".solutions") solutions.Keep(text);
      for (size_t at = 0; extension == ".lines" && at < text.size();) {
        const size_t end = std::min(text.find('\n', at), text.size());
        lines.insert(text.substr(at, end - at));
        at = end + 1;
      }
    }
    text = fmt::format("{}\n", fmt::join(lines, "\n"));
    const std::string folder = o_.root + "/tests/replay/";
    if (failed) return Fail(o_.join + ": " + failed.message());
    if (!WriteFileAtomically(folder + "expected.txt", text, &why) ||
        !WriteFileAtomically(folder + "solutions.txt", solutions.Text(), &why))
      return Fail(why);
    return 0;
  }

  void Expect(const std::string& text) {
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      Line line = LineFromText(text.substr(at, end - at));
      const std::string *ptx = Find(line, "ptx"), *said = Find(line, "ptxas");
      if (ptx && said) ptxas_[*ptx] = *said;
      expected_[line.id] = std::move(line);
      at = end + 1;
    }
  }

  int List(const std::vector<Case>& cases) {
    std::set<std::string> ids;
    size_t cold = 0;
    int wrong = 0;
    for (const Case& c : cases) {
      ids.insert(c.id);
      cold += c.cold;
      if (!expected_.count(c.id)) fmt::print("no line: {}\n", c.id), ++wrong;
    }
    for (const auto& [id, line] : expected_)
      if (!ids.count(id)) fmt::print("no compilation for the line: {}\n", id), ++wrong;
    fmt::print("{} compilations, {} of them cold\n", cases.size(), cold);
    return wrong > 0 || cases.size() < kFewestCases || cold < kFewestCold ? 1 : 0;
  }

  Line One(const Case& c, KeptSolutions& store) {
    const auto start = std::chrono::steady_clock::now();
    store.cold = c.cold;
    Line line = Compile(c, &store);
    const std::chrono::duration<double, std::milli> ms = std::chrono::steady_clock::now() - start;
    if (o_.times)
      fmt::print(stderr, "{:8.1f} ms, {} emitted  {}\n", ms.count(), line.emissions, c.id);
    if (const std::string* ptx = Find(line, "ptx")) {
      const auto known = ptxas_.find(*ptx);
      if (known != ptxas_.end() && known->second != "?")
        Set(line, "ptxas", known->second);
      else if (!o_.ptxas.empty())
        Set(line, "ptxas", ptxas_[*ptx] = AskPtxas(line.ptx, line.isa, o_.ptxas));
      else
        Set(line, "ptxas", "?");
    }
    if (line.emissions > kMostEmitted && c.target == kOwnMachine && c.id.starts_with(kOwnKernels)) {
      ++moved_;
      fmt::print("MANY   {}: {} programs were made\n", c.id, line.emissions);
    }
    const Line now = LineFromText(ToText(line));
    const auto was = expected_.find(c.id);
    if (was == expected_.end()) {
      ++moved_;
      fmt::print("NEW    {}\n", c.id);
    } else if (const std::string what = Differences(was->second, now); !what.empty()) {
      ++moved_;
      fmt::print("MOVED  {}\n{}", c.id, what);
    }
    std::fflush(stdout);
    return line;
  }

  Options o_;
  std::map<std::string, Line> expected_;
  std::map<std::string, std::string> ptxas_;  // by hash of the PTX
  int moved_ = 0;
};

bool Read(int argc, char** argv, Options* o) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const auto value = [&](std::string_view name) {
      return argument.starts_with(name) ? std::optional(std::string(argument.substr(name.size())))
                                        : std::nullopt;
    };
    if (const auto v = value("--shard=")) {
      const size_t slash = v->find('/');
      if (slash == std::string::npos) return false;
      const auto shard = ParseInteger(v->substr(0, slash)), of = ParseInteger(v->substr(slash + 1));
      if (!shard || !of || *of < 1 || *shard < 0 || *shard >= *of) return false;
      o->shard = *shard, o->shards = *of;
    } else if (const auto w = value("--write=")) {
      o->write = *w;
    } else if (const auto j = value("--join=")) {
      o->join = *j;
    } else if (const auto p = value("--ptxas=")) {
      o->ptxas = *p;
    } else if (const auto t = value("--only=")) {
      o->only = *t;
    } else if (argument == "--list" || argument == "--times") {
      (argument == "--list" ? o->list : o->times) = true;
    } else if (o->root.empty() && !argument.starts_with("-")) {
      o->root = argument;
    } else {
      return false;
    }
  }
  return !o->root.empty();
}

int Main(int argc, char** argv) {
  Options options;
  if (!Read(argc, argv, &options)) {
    fmt::print(
        "replay ROOT [--shard=I/N] [--list] [--write=FOLDER] [--join=FOLDER] [--ptxas=PATH] "
        "[--only=TEXT] "
        "[--times]\n");
    return 2;
  }
  return Replay(std::move(options)).Run();
}

}  // namespace
}  // namespace tilec::replay

int main(int argc, char** argv) { return tilec::replay::Main(argc, argv); }
