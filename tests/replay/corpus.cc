// SPDX-License-Identifier: Apache-2.0
#include "tests/replay/corpus.h"

#include <fmt/format.h>

#include <charconv>
#include <map>
#include <set>
#include <string_view>

#include "api/stdlib.h"
#include "support/file.h"
#include "support/lines.h"
#include "tests/fuzz/loop_program.h"
#include "tests/fuzz/tile_program.h"
#include "tests/test_calls.h"

namespace tilec::replay {

namespace {

struct Row {
  bool cold = false;
  std::string what;  // FILE.tile, FILE.tile:KERNEL, tiles, loops
  std::vector<std::string> arguments, schedules, targets;
};

std::optional<Row> ReadRow(const TextLine& line) {
  Row row;
  bool behind = false;
  for (const TextWord& word : line.words) {
    const std::string text(word.text);
    if (text == "|") {
      behind = true;
    } else if (behind && text[0] == '@') {
      row.targets.push_back(text.substr(1));
    } else if (behind) {
      row.schedules.push_back(text);
    } else if (text == "cold" && row.what.empty()) {
      row.cold = true;
    } else if (row.what.empty()) {
      row.what = text;
    } else {
      row.arguments.push_back(text);
    }
  }
  if (row.what.empty() || row.schedules.empty()) return std::nullopt;
  if (row.targets.empty()) row.targets = {"h200"};
  return row;
}

std::optional<frontend::ConstValue> ReadValue(std::string_view text) {
  if (text == "true" || text == "false") return text == "true";
  if (const auto i = ParseInteger(text)) return *i;
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// "4-19"
bool ReadRange(const std::string& text, int64_t* first, int64_t* last) {
  const size_t dash = text.find('-');
  if (dash == std::string::npos) return false;
  const auto a = ParseInteger(std::string_view(text).substr(0, dash));
  const auto b = ParseInteger(std::string_view(text).substr(dash + 1));
  if (!a || !b) return false;
  *first = *a, *last = *b;
  return true;
}

class Reader {
 public:
  explicit Reader(std::string root) : root_(std::move(root)) {}

  bool Add(const Row& row) {
    if (row.what == "tiles" || row.what == "loops") return AddRandom(row);
    const size_t colon = row.what.find(':');
    const std::string path = row.what.substr(0, colon);
    const auto loaded = Load(path);
    if (!loaded) return false;
    if (colon == std::string::npos) return AddTests(row, path, loaded);
    frontend::TestCallInfo call;
    call.kernel = row.what.substr(colon + 1);
    for (const std::string& argument : row.arguments) {
      const size_t equals = argument.find('=');
      const auto value = ReadValue(std::string_view(argument).substr(equals + 1));
      if (equals == std::string::npos || !value) return Fail(argument + " is no NAME=VALUE");
      call.args[argument.substr(0, equals)] = *value;
    }
    return AddCall(row, path, loaded, call);
  }
  std::vector<Case> Take() { return std::move(cases_); }
  const std::string& why() const { return why_; }

 private:
  bool Fail(std::string why) {
    why_ = std::move(why);
    return false;
  }

  std::shared_ptr<api::Loaded> Load(const std::string& path) {
    std::shared_ptr<api::Loaded>& loaded = files_[path];
    if (loaded) return loaded;
    auto fresh = std::make_shared<api::Loaded>();
    DiagSink diags;
    auto program =
        api::LoadProgram(fresh->sources, root_ + "/" + path, api::StandardLibrary(), diags);
    if (!program.ok()) {
      why_ = RenderAll(diags, fresh->sources);
      return nullptr;
    }
    fresh->program = std::move(*program);
    return loaded = fresh;
  }

  bool AddRandom(const Row& row) {
    int64_t first = 0, last = -1;
    if (row.arguments.size() != 1 || !ReadRange(row.arguments[0], &first, &last))
      return Fail(row.what + " needs FIRST-LAST");
    for (int64_t seed = first; seed <= last; ++seed) {
      const auto number = static_cast<uint64_t>(seed);
      const std::string text =
          row.what == "tiles" ? fuzz::Generate(number).text : fuzz::GenerateLoop(number).text;
      const std::string name = fmt::format("{}/{:03}", row.what, seed);
      auto loaded = std::make_shared<api::Loaded>();
      DiagSink diags;
      auto program = frontend::Program::LoadText(loaded->sources, name, text,
                                                 api::StandardLibrary().Resolver(), diags);
      if (!program.ok()) return Fail(RenderAll(diags, loaded->sources));
      loaded->program = std::move(*program);
      if (!AddTests(row, name, loaded)) return false;
    }
    return true;
  }

  bool AddTests(const Row& row, const std::string& path,
                const std::shared_ptr<api::Loaded>& loaded) {
    for (const frontend::TestInfo& test : loaded->program->tests())
      for (const frontend::TestCallInfo& call : test.calls)
        if (!AddCall(row, path, loaded, call)) return false;
    return true;
  }

  bool AddCall(const Row& row, const std::string& path, const std::shared_ptr<api::Loaded>& loaded,
               const frontend::TestCallInfo& call) {
    DiagSink diags;
    const Result<api::Call> bound = BindDense(*loaded->program, call, diags);
    if (!bound.ok()) return Fail(RenderAll(diags, loaded->sources));
    std::string id = path + ":" + call.kernel;
    for (const auto& [name, value] : call.args)
      id += fmt::format(" {}={}", name, frontend::ToText(value));
    for (const std::string& target : row.targets)
      for (const std::string& schedule : row.schedules) {
        Case c{fmt::format("{} @{} {}", id, target, schedule),
               loaded,
               call.kernel,
               *bound,
               schedule,
               target,
               "",
               row.cold};
        if (api::NamesScheduleFile(schedule)) c.schedule_path = root_ + "/" + schedule;
        api::PipelineOptions options;
        options.schedule = schedule;
        options.target = target;
        const std::string image = api::ImageKey(*loaded, call.kernel, *bound, options);
        if (seen_.insert(image).second && seen_.insert(c.id).second) cases_.push_back(std::move(c));
      }
    return true;
  }

  std::string root_, why_;
  std::map<std::string, std::shared_ptr<api::Loaded>> files_;
  std::set<std::string> seen_;
  std::vector<Case> cases_;
};

}  // namespace

std::optional<std::vector<Case>> ReadCorpus(const std::string& root, std::string* why) {
  const std::string path = root + "/tests/replay/corpus.txt";
  std::string text;
  if (!ReadFile(path, &text, why)) return std::nullopt;
  Reader reader(root);
  for (const TextLine& line : SplitLines(text, -1)) {
    const std::optional<Row> row = ReadRow(line);
    if (!row || !reader.Add(*row)) {
      *why = fmt::format("{}:{}: {}", path, line.number,
                         row ? reader.why() : "a row is WHAT | SCHEDULE…");
      return std::nullopt;
    }
  }
  return reader.Take();
}

}  // namespace tilec::replay
