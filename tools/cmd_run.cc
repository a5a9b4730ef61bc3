// tilec run: one kernel, once, with what it ran on, how long it took and whether it was right.
//
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "runtime/npy.h"
#include "tools/assignments.h"
#include "tools/commands.h"
#include "tools/diagnostics.h"
#include "tools/json_output.h"
#include "tools/runner.h"

namespace tilec::tools {

namespace {

// Rows of "name: type  source", aligned.
void PrintTensors(const RunResult& result) {
  size_t width = 0;
  for (const TensorRun& t : result.tensors) width = std::max(width, t.name.size() + t.type.size());
  for (const TensorRun& t : result.tensors)
    fmt::print("  {}: {}{}  {}\n", t.name, t.type,
               std::string(width - t.name.size() - t.type.size(), ' '),
               t.written && t.source == "random" ? "written" : t.source);
}

void PrintValues(const RunResult& result) {
  std::string line;
  for (const auto& [name, value] : result.values)
    line += fmt::format("{}{} = {}", line.empty() ? "" : ", ", name, frontend::ToText(value));
  if (!line.empty()) fmt::print("  {}\n", line);
}

void PrintTimes(const api::Observation& look) {
  if (!look.time_passes) return;
  double sum = 0;
  for (const api::StageTime& t : look.times) sum += t.milliseconds;
  for (const api::StageTime& t : look.times)
    fmt::print("  {:>9.2f} ms  {}\n", t.milliseconds, t.stage);
  fmt::print("  {:>9.2f} ms  in all\n", sum);
}

// Without a check: enough of the outputs to see that something sensible happened.
void PrintOutputs(const RunResult& result) {
  for (const auto& [name, value] : result.outputs) {
    const int64_t n = value.elements();
    std::string first;
    for (int64_t i = 0; i < std::min<int64_t>(n, 4); ++i) {
      const size_t k = static_cast<size_t>(i);
      first += (first.empty() ? "" : ", ") + (value.wide() ? fmt::format("{}", value.words[k])
                                                           : fmt::format("{:.6g}", value.v[k]));
    }
    fmt::print("  {} = {{{}{}}}\n", name, first, n > 4 ? ", …" : "");
  }
}

// `--format=json`: one object, on one line.
void PrintJson(const std::string& kernel, const std::string& device, const RunResult& result,
               bool checked) {
  nlohmann::ordered_json out = {{"kernel", kernel},
                                {"device", device},
                                {"compile_milliseconds", result.compile_ms},
                                {"cached", result.cached},
                                {"milliseconds", result.stats.milliseconds},
                                {"warp_instructions", result.stats.warp_instructions}};
  for (const auto& [name, value] : result.values) out["values"][name] = frontend::ToText(value);
  for (const TensorRun& t : result.tensors) {
    nlohmann::ordered_json tensor = {
        {"name", t.name}, {"type", t.type}, {"source", t.source}, {"written", t.written}};
    if (t.compared) tensor["ok"] = t.ok(), tensor["check"] = DescribeCheck(t);
    out["tensors"].push_back(std::move(tensor));
  }
  if (checked) {
    const Decided decided = result.decided();
    out["status"] = !result.ok() ? "wrong" : decided.enough ? "ok" : "undecided";
    out["decided"] = decided.decided;
    out["undecided"] = decided.undecided;
  }
  fmt::print("{}\n", JsonLine(out));
}

// Before anything runs: only tensors that the kernel writes can be saved.
Result<> CheckSaves(Session& session, const std::string& kernel,
                    const std::map<std::string, std::string>& saves) {
  TRY(const frontend::Signature s,
      frontend::SignatureOf(*session.loaded().program, kernel, session.diags()));
  for (const auto& [name, path] : saves) {
    const frontend::ParamInfo* p = s.param(name);
    if (!p || p->role != frontend::ParamRole::kTensor || p->direction == ir::Direction::kIn)
      return session.diags()
          .Report(kSaveUnknown, Span{}, kernel, name)
          .Place("command line")
          .Help("tensors that the kernel writes can be saved");
  }
  return Done();
}

Result<> Save(const std::map<std::string, std::string>& saves, const RunResult& result, bool quiet,
              DiagSink& diags) {
  for (const auto& [name, path] : saves) {
    const auto at = result.outputs.find(name);
    if (at == result.outputs.end()) continue;
    const std::vector<std::byte> bytes = at->second.ToBytes();
    const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
    TRY_VOID(runtime::WriteNpy(
        path, {ir::Spelling(at->second.dtype), at->second.dims, {data, data + bytes.size()}},
        diags));
    if (!quiet) fmt::print("  {} saved to {}\n", name, path);
  }
  return Done();
}

void PrintText(Session& session, const std::string& kernel, const runtime::Device* device,
               const std::string& no_gpu, const RunResult& result) {
  fmt::print("{} on {}\n", kernel, device ? device->description() : "the interpreter");
  if (!no_gpu.empty()) fmt::print("  no GPU: {}\n", no_gpu);
  PrintTensors(result);
  PrintValues(result);
  if (result.compiled)
    fmt::print("  {} in {}\n", result.cached ? "loaded from the cache" : "compiled",
               Duration(result.compile_ms));
  PrintTimes(session.look());
  fmt::print("  ran in {}", Duration(result.stats.milliseconds));
  if (result.stats.warp_instructions > 0)
    fmt::print(", {} warp instructions", result.stats.warp_instructions);
  fmt::print("\n");
  if (!session.options().check || !device) PrintOutputs(result);
}

Result<RunResult> RunSession(Session& session) {
  const Options& o = session.options();
  DiagSink& diags = session.diags();
  TRY_VOID(session.CheckOptions());
  TRY_VOID(CheckFormat(session));
  if (o.file.size() > 4 && o.file.substr(o.file.size() - 4) == ".ptx")
    return diags.Report(kUsage, Span{}, "`run` takes a kernel of the language, this is PTX text")
        .Place("command line")
        .Help(fmt::format("write `tilec check {} --launch=FILE`; docs/checking.md says what is in "
                          "the file",
                          o.file));
  TRY(const Assignments given, ParseAssignments(o.assignments, diags));
  TRY(const auto saves, ParseSaves(o.save, diags));
  TRY(const std::string kernel, session.LoadKernel(o.file));
  TRY_VOID(CheckSaves(session, kernel, saves));
  std::unique_ptr<runtime::Device> device;
  std::string why;
  if (o.device != "interpreter") {
    TRY(device, session.Open(&why));
  }
  RunRequest request;
  request.kernel = kernel;
  request.values = given.values;
  request.files = given.files;
  request.seed = o.seed;
  request.device = device.get();
  request.check = o.check;
  request.repeat = o.repeat;
  auto ran = RunKernel(session, request);
  fmt::print("{}", session.look().printed);
  if (!ran.ok()) return DiagSink::Propagate();
  const RunResult& result = *ran;
  if (result.stopped) {
    PrintTimes(session.look());
    return std::move(*ran);
  }
  const bool json = o.format == "json";
  if (json)
    PrintJson(kernel, device ? device->description() : "interpreter", result, o.check && device);
  else
    PrintText(session, kernel, device.get(), why, result);
  TRY_VOID(Save(saves, result, json, diags));
  if (result.timeline)
    TRY_VOID(WriteTimeline(session, *result.timeline, kernel, device->description()));
  if (!o.record.empty() && device && device->kind() == "emulator") {
    if (!WriteOutput(o.record, runtime::Print(session.recorded()), &why))
      return diags.Report(kFileUnwritable, Span{}, o.record, why).Place("command line");
    if (!json) fmt::print("  decisions saved to {}\n", o.record);
  }
  if (o.check && device && !json) {
    for (const TensorRun& t : result.tensors)
      if (t.compared) fmt::print("  {}: {}\n", t.name, DescribeCheck(t));
    const Decided decided = result.decided();
    fmt::print("  interpreted in {}\n{}; {}\n", Duration(result.check_ms),
               !result.ok()      ? "WRONG: differs from the interpreter"
               : !decided.enough ? "UNDECIDED: too little could be compared with the interpreter"
                                 : "OK: agrees with the interpreter",
               decided.Text());
  }
  return std::move(*ran);
}

}  // namespace

int CmdRun(const Options& options) {
  Session session(options);
  const auto result = RunSession(session);
  const int code = session.Finish();
  if (code != kOk || !result.ok()) return code == kOk ? kBadInput : code;
  const bool compared = options.check && options.device != "interpreter" && !result->stopped;
  return result->ok() && (!compared || result->decided().enough) ? kOk : kMismatch;
}

}  // namespace tilec::tools
