// SPDX-License-Identifier: Apache-2.0
#include "tests/test_calls.h"

#include <fmt/format.h>

#include <set>

#include "api/stdlib.h"
#include "support/heap.h"
#include "tests/solved/folder.h"

namespace tilec {

Solved::Solved() {
  if (const std::string folder = SolvedFolder(); !folder.empty()) folder_.emplace(folder);
  store_.emplace(folder_ ? &*folder_ : nullptr, diags_);
}

std::string CallText(const frontend::TestCallInfo& call) {
  std::string out;
  for (const auto& [name, value] : call.args)
    out += fmt::format("{}{}={}", out.empty() ? "" : " ", name, frontend::ToText(value));
  return fmt::format("{}({})", call.kernel, out);
}

Result<api::Call> BindDense(const frontend::Program& program, const frontend::TestCallInfo& call,
                            DiagSink& diags) {
  TRY(const frontend::Signature signature, frontend::SignatureOf(program, call.kernel, diags));
  TRY(const frontend::Values values, api::CheckValues(signature, call.args, diags));
  TRY(const auto shapes, api::InferShapes(signature, values, {}, diags));
  api::Tensors tensors;
  for (const frontend::ParamInfo& p : signature.params) {
    if (p.role != frontend::ParamRole::kTensor) continue;
    runtime::TensorView view;
    view.dtype = ir::Spelling(p.dtype);
    view.data = 1 << 20;
    view.dims = shapes.at(p.name);
    tensors[p.name] = view;
  }
  return api::BindCall(program, signature, api::ForRuntime(signature), values, tensors, diags);
}

namespace {

// Of all that the program of a call depends on; a call that cannot be bound has one of its own.
std::string KeyOf(const api::Loaded& loaded, const frontend::TestCallInfo& call,
                  const std::string& schedule) {
  DiagSink quiet;
  const auto bound = BindDense(*loaded.program, call, quiet);
  if (!bound.ok()) return CallText(call) + " " + schedule;
  api::PipelineOptions options;
  options.schedule = schedule;
  return api::ImageKey(loaded, call.kernel, *bound, options);
}

}  // namespace

int VisitCalls(const std::string& path, const std::vector<std::string>& schedules,
               const CallVisitor& visit) {
  KeepFreedMemory();  // as `tilec` does
  api::Loaded loaded;
  DiagSink diags;
  auto program = api::LoadProgram(loaded.sources, path, api::StandardLibrary(), diags);
  if (!program.ok()) {
    fmt::print("{}", RenderAll(diags, loaded.sources));
    return 1;
  }
  loaded.program = std::move(*program);
  int failed = 0;
  std::set<std::string> seen;  // what was compiled: many calls are one program at other sizes
  for (const frontend::TestInfo& test : loaded.program->tests())
    for (const frontend::TestCallInfo& call : test.calls)
      for (const std::string& schedule : schedules) {
        DiagSink said;
        loaded.schedule_file = -1;
        if (!api::LoadScheduleFile(loaded, schedule, said).ok()) {
          fmt::print("{}", RenderAll(said, loaded.sources));
          return failed + 1;
        }
        if (!seen.insert(KeyOf(loaded, call, schedule)).second) continue;
        const Result<bool> good = visit(loaded, call, schedule, said);
        if (!good.ok())
          fmt::print("{} {}\n{}", CallText(call), schedule, RenderAll(said, loaded.sources));
        failed += !good.ok() || !*good;
      }
  return failed;
}

}  // namespace tilec
