// tilec test: the `test` blocks of files, each call on a device against the interpreter.
//
// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdio>

#include "tools/commands.h"
#include "tools/diagnostics.h"
#include "tools/json_output.h"
#include "tools/runner.h"

namespace tilec::tools {

namespace {

struct Tally {
  int calls = 0, failed = 0, broken = 0;
  Decided decided;
  int good() const { return calls - failed - broken; }
};

std::string CallText(const frontend::TestCallInfo& call) {
  std::string out;
  for (const auto& [name, value] : call.args)
    out += fmt::format("{}{} = {}", out.empty() ? "" : ", ", name, frontend::ToText(value));
  return fmt::format("{}({})", call.kernel, out);
}

// `--format=json`: an object per call, on a line of its own.
void PrintTestJson(const std::string& file, const frontend::TestInfo& test,
                   const frontend::TestCallInfo& call, const char* status,
                   const RunResult* result) {
  nlohmann::ordered_json out = {
      {"file", file}, {"test", test.name}, {"call", CallText(call)}, {"status", status}};
  if (result) {
    const Decided decided = result->decided();
    out["milliseconds"] = result->stats.milliseconds;
    out["decided"] = decided.decided;
    out["sampled"] = decided.sampled;
    out["undecided"] = decided.undecided;
  }
  fmt::print("{}\n", JsonLine(out));
}

// What came of a call, as text.
void PrintTestText(const std::string& what, const frontend::TestInfo& test,
                   const frontend::TestCallInfo& call, const RunResult& result, bool enough) {
  fmt::print("{}  {}  {}\n",
             !result.ok() ? "WRONG"
             : enough     ? "ok   "
                          : "VAGUE",
             what, Duration(result.stats.milliseconds));
  if (!enough)
    fmt::print(
        "         {}: of every tensor half must be decided; `test \"{}\" undecided allowed` "
        "does without\n",
        result.decided().Text(), test.name);
  for (const TensorRun& t : result.tensors)
    if (t.compared && (!t.result.ok() || t.result.checked == 0))
      fmt::print("         {}: {}\n", t.name, DescribeCheck(t));
  for (const TensorRun& t : result.tensors) {
    if (!t.expected || t.expected->ok()) continue;
    fmt::print("         {} beside `{}`: {}\n", t.name, call.expect, DescribeCheck(t, *t.expected));
    if (t.passes_within > 0)
      fmt::print(
          "         within `~ {:g}` it agrees: if the two only round in different places (`as "
          "bf16`, the order of a sum), write that in front of `expect`\n",
          t.passes_within);
  }
}

// What the tests of a file run with.
struct TestRun {
  Session& session;
  const std::string& file;
  runtime::Device* device;  // null: the interpreter alone runs
  Tally& tally;
  Images images = {};
};

// One call; prints its line.
void RunCall(TestRun& run, const frontend::TestInfo& test, const frontend::TestCallInfo& call) {
  Session& session = run.session;
  Tally& tally = run.tally;
  ++tally.calls;
  RunRequest request;
  request.images = &run.images;
  request.kernel = call.kernel;
  request.values = call.args;
  for (const auto& [name, input] : call.inputs) {
    if (input.kind == frontend::TestInput::Kind::kFile)
      request.files[name] = input.file;
    else
      request.inputs[name] = input;
  }
  request.seed = call.seed ? static_cast<uint64_t>(*call.seed) : session.options().seed;
  request.device = run.device;
  request.check = run.device != nullptr;
  request.tolerance = call.tolerance.value_or(-1);
  request.expect = call.expect;
  session.SetContext(fmt::format("in {}", CallText(call)));
  const auto result = RunKernel(session, request);
  const bool json = session.options().format == "json";
  const std::string what = fmt::format("{}: \"{}\" {}", run.file, test.name, CallText(call));
  if (!result.ok()) {
    ++tally.broken;
    if (json) return PrintTestJson(run.file, test, call, "error", nullptr);
    fmt::print("ERROR  {}\n", what);
    return;
  }
  const Decided decided = result->decided();
  const bool enough = decided.enough || test.undecided_allowed;
  tally.decided.Add(decided);
  if (!result->ok() || !enough) ++tally.failed;
  if (!json) return PrintTestText(what, test, call, *result, enough);
  PrintTestJson(run.file, test, call, !result->ok() ? "wrong" : enough ? "ok" : "vague", &*result);
}

// The exit code of one file.
int TestFile(const Options& options, const std::string& file, runtime::Device* device,
             Tally& tally) {
  Session session(options);
  if (!session.LoadFile(file).ok()) return session.Finish();
  int code = kOk;
  TestRun run{session, file, device, tally};
  const int before = tally.calls;
  for (const frontend::TestInfo& test : session.loaded().program->tests()) {
    if (!options.filter.empty() && test.name.find(options.filter) == std::string::npos) continue;
    for (const frontend::TestCallInfo& call : test.calls) {
      RunCall(run, test, call);
      code = std::max(code, session.Finish());
    }
  }
  if (tally.calls > before) return code;
  session.diags()
      .Report(kNothingTested, Span{}, file,
              options.filter.empty() ? "" : fmt::format(" with `{}` in its name", options.filter))
      .Place("command line");
  return std::max(code, session.Finish());
}

}  // namespace

int CmdTest(const Options& given) {
  Options options = given;
  Session session(options);
  if (!session.CheckOptions().ok() || !CheckFormat(session).ok()) return session.Finish();
  std::unique_ptr<runtime::Device> device;
  if (options.device != "interpreter") {
    // Without --device the emulator runs: tests are to say the same on every machine.
    if (options.device == "auto") options.device = "emulator";
    Session opener(options);
    auto opened = opener.Open(nullptr);
    if (!opened.ok()) return opener.Finish();
    device = std::move(*opened);
  }
  const auto start = std::chrono::steady_clock::now();
  Tally tally;
  int code = kOk;
  for (const std::string& file : options.files)
    code = std::max(code, TestFile(options, file, device.get(), tally));
  const double ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  if (options.format == "json") {
    fmt::print("{}\n", JsonLine({{"calls", tally.calls},
                                 {"agree", tally.good()},
                                 {"device", device ? device->kind() : "interpreter"},
                                 {"decided", tally.decided.decided},
                                 {"undecided", tally.decided.undecided},
                                 {"milliseconds", ms}}));
    return code != kOk ? code : tally.good() < tally.calls ? kMismatch : kOk;
  }
  if (device)
    fmt::print("{} of {} calls agree on {}", tally.good(), tally.calls, device->kind());
  else
    fmt::print("{} of {} calls run on the interpreter", tally.good(), tally.calls);
  fmt::print(", {}, {}\n", tally.decided.Text(), Duration(ms));
  if (code != kOk) return code;
  return tally.good() < tally.calls ? kMismatch : kOk;
}

}  // namespace tilec::tools
