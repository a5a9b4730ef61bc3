// Compiles, chooses and runs for one machine.
//
// SPDX-License-Identifier: Apache-2.0
#include "tests/targets/on_machine.h"

#include <fmt/format.h>

#include <memory>
#include <string>

#include "api/machine.h"
#include "api/pipeline.h"
#include "api/split.h"
#include "api/tune.h"
#include "ir/lower/operands.h"
#include "runtime/emulator/judge/cause.h"
#include "runtime/emulator/judge/finding.h"
#include "tests/test_calls.h"
#include "tools/runner.h"
#include "tools/session.h"

namespace tilec {

OnMachine::OnMachine(const std::string& machine, const std::string& file)
    : session_(OptionsFor(machine)) {
  good_ = session_.CheckOptions().ok() && session_.LoadFile(file).ok();
  if (!good_) return;
  auto read = session_.Machine();
  machine_ = read.ok() ? *read : nullptr;
  good_ = machine_ != nullptr;
}

Result<OnMachine::Products> OnMachine::ProductsOf(const frontend::TestCallInfo& call) {
  DiagSink& diags = session_.diags();
  TRY(const api::Call bound, BindDense(*session_.loaded().program, call, diags));
  TRY(const ir::Function fn,
      api::MakeTileIr(session_.loaded(), call.kernel, bound, nullptr, diags));
  Products products = Products::kNone;
  for (ir::OpId id : ir::OpsInOrder(fn)) {
    const ir::Op& op = fn.ops[id];
    if (op.kind != ir::OpKind::kDot) continue;
    if (ir::IsOnUnit(fn, op, *machine_)) return Products::kOnUnit;
    products = Products::kByArithmetic;
  }
  return products;
}

Result<backend::KernelImage> OnMachine::Compile(const frontend::TestCallInfo& call,
                                                DiagSink& diags) {
  TRY(const api::Call bound, BindDense(*session_.loaded().program, call, diags));
  const api::PipelineOptions options = session_.pipeline();
  const std::string key = api::ImageKey(session_.loaded(), call.kernel, bound, options);
  if (const auto at = images_.find(key); at != images_.end()) return at->second;
  TRY(backend::KernelImage image,
      api::CompileCall(session_.loaded(), call.kernel, bound, options, {}, diags));
  images_.emplace(key, image);
  return image;
}

Result<frontend::TestCallInfo> OnMachine::Chosen(frontend::TestCallInfo call, DiagSink& diags) {
  const frontend::Program& program = *session_.loaded().program;
  TRY(const frontend::Signature signature, frontend::SignatureOf(program, call.kernel, diags));
  for (const auto& tune : signature.tunes) call.args.erase(tune.name);
  TRY(const api::Call bound, BindDense(program, call, diags));
  for (const auto& [name, value] :
       api::TunesFor(session_.loaded(), signature, bound, ByModel(), {}, diags))
    call.args[name] = value;
  return call;
}

bool OnMachine::LeavesNothingOpen(const frontend::TestCallInfo& call) {
  DiagSink quiet;
  const auto signature = frontend::SignatureOf(*session_.loaded().program, call.kernel, quiet);
  return signature.ok() && signature->tunes.empty();
}

Result<backend::KernelImage> OnMachine::Choose(const frontend::TestCallInfo& call,
                                               DiagSink& diags) {
  const frontend::Program& program = *session_.loaded().program;
  TRY(const frontend::Signature signature, frontend::SignatureOf(program, call.kernel, diags));
  TRY(const frontend::TestCallInfo chosen, Chosen(call, diags));
  TRY(api::Call bound, BindDense(program, chosen, diags));
  const api::PipelineOptions options = ByModel();
  api::ChooseForm(session_.loaded(), signature, options, &bound);
  return api::CompileCall(session_.loaded(), call.kernel, bound, options, {}, diags);
}

api::PipelineOptions OnMachine::ByModel() {
  api::PipelineOptions options = session_.pipeline();
  options.tune = "model";
  options.ptxas.clear();
  return options;
}

void OnMachine::Take(const frontend::TestCallInfo& call, tools::RunRequest* request) {
  for (const auto& [name, input] : call.inputs)
    if (input.kind == frontend::TestInput::Kind::kFile)
      request->files[name] = input.file;
    else
      request->inputs[name] = input;
}

Result<Outputs> OnMachine::Interpret(const frontend::TestCallInfo& call) {
  tools::RunRequest request;
  request.kernel = call.kernel;
  request.values = call.args;
  Take(call, &request);
  TRY(tools::RunResult result, tools::RunKernel(session_, request));
  return std::move(result.outputs);
}

std::string OnMachine::Run(const frontend::TestCallInfo& call, const Execution& how,
                           const Outputs& expected) {
  runtime::EmulatorOptions options;
  options.machine = api::LimitsOf(*machine_);
  options.policy = how.policy;
  options.landing = how.landing;
  options.seed = how.seed;
  options.check = runtime::EmulatorOptions::Check::kOn;
  options.report = std::make_shared<runtime::judge::Report>();
  const auto device = runtime::OpenEmulator(options);
  tools::RunRequest request;
  request.kernel = call.kernel;
  request.values = call.args;
  Take(call, &request);
  request.device = device.get();
  request.images = &images_;
  const auto outcome = tools::RunKernel(session_, request);
  for (const runtime::judge::Finding& finding : options.report->findings())
    if (finding.severity != runtime::judge::Severity::kHint)
      return fmt::format("the judge: {}", runtime::judge::Summarise({finding}, true));
  if (!outcome.ok()) return "the run stopped";
  for (const auto& [name, want] : expected) {
    const auto at = outcome->outputs.find(name);
    if (at == outcome->outputs.end()) return fmt::format("no {} came out", name);
    tools::TensorRun run;
    run.name = name;
    run.dims = want.dims;
    run.result = ir::Compare(want, at->second, {});
    if (!run.result.ok()) return fmt::format("{}: {}", name, tools::DescribeCheck(run));
  }
  return "";
}

}  // namespace tilec
