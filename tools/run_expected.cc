// What a run must give: the interpreter's values or those of a file, and how far an element may be
// off.
//
// SPDX-License-Identifier: Apache-2.0
#include "tools/kernel_run.h"

#include <cmath>

#include "ir/diagnostics.h"
#include "ir/interpret.h"
#include "tools/diagnostics.h"
#include "tools/runner.h"

namespace tilec::tools {

// Tolerances that are said to be enough where two programs round in different places.
constexpr double kWider[] = {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 3e-2};

Result<> KernelRun::Interpreted() {
  const Clock::time_point start = Clock::now();
  TRY(ir::Function * fn, TileIr());
  ir::InterpretInputs inputs;
  std::map<std::string, ir::TensorValue> before;
  if (!request_.expect.empty()) before = tensors_;
  inputs.tensors = std::move(tensors_);
  for (const auto& [name, value] : call_.launch.scalars)
    std::visit([&, &name = name](auto v) { inputs.scalars[name] = static_cast<double>(v); }, value);
  for (const auto& [name, value] : call_.all)
    if (signature_.dim(name)) inputs.dims[name] = std::get<int64_t>(value);
  for (const auto& [name, value] : call_.launch.scalars)
    if (const auto* i = std::get_if<int64_t>(&value)) inputs.dims[name] = *i;
  ir::InterpretOptions options;
  if (session_.options().diagnostics == "text")
    options.progress = [this](const ir::InterpretProgress& p) {
      fmt::print(stderr, "  interpreting {}: instance {} of {}, {:.0f} s so far\n",
                 signature_.kernel, p.instances, p.of, p.seconds);
    };
  options.parts = Parts();
  TRY_VOID(ir::Interpret(*fn, inputs, options, session_.diags()));
  if (!request_.expect.empty()) TRY_VOID(Expected(std::move(before), inputs.tensors));
  for (TensorRun& t : result_.tensors) {
    if (!t.written) continue;
    if (!request_.device) {
      result_.outputs[t.name] = std::move(inputs.tensors[t.name]);
      continue;
    }
    t.result = ir::Compare(inputs.tensors[t.name], result_.outputs[t.name],
                           {.tolerance = request_.tolerance});
    t.compared = true;
    if (request_.keep_reference) result_.reference[t.name] = std::move(inputs.tensors[t.name]);
  }
  if (request_.device)
    result_.check_ms = Since(start);
  else
    result_.stats.milliseconds = Since(start);
  return Done();
}

// The kernel that was named, on what ours began with; `ours` is what the interpreter made of it.
Result<> KernelRun::Expected(std::map<std::string, ir::TensorValue> start,
                             const std::map<std::string, ir::TensorValue>& ours) {
  DiagSink& diags = session_.diags();
  TRY(const frontend::Signature reference,
      frontend::SignatureOf(*session_.loaded().program, request_.expect, diags));
  RunRequest request;
  request.kernel = request_.expect;
  for (const auto& [name, value] : request_.values)
    if (reference.Has(name)) request.values[name] = value;
  for (const frontend::ParamInfo& p : reference.params) {
    if (p.role != frontend::ParamRole::kTensor) continue;
    const auto at = start.find(p.name);
    if (at == start.end() || at->second.dtype != p.dtype)
      return diags.Report(kExpectTensor, p.at, request_.expect, p.name, ir::Spelling(p.dtype),
                          signature_.kernel);
    request.tensors[p.name] = std::move(at->second);
  }
  TRY(const RunResult wanted, RunKernel(session_, request));
  int compared = 0;
  for (TensorRun& t : result_.tensors) {
    const auto at = wanted.outputs.find(t.name);
    if (!t.written || at == wanted.outputs.end()) continue;
    const ir::TensorValue& mine = ours.at(t.name);
    const auto beside = [&](double tolerance) {
      const ir::TensorValue want = Allowed(at->second, mine, tolerance);
      return ir::Compare(want, request_.device ? result_.outputs[t.name] : mine);
    };
    t.expected = beside(request_.tolerance);
    ++compared;
    if (t.expected->ok() || !ir::IsFloat(mine.dtype) || request_.tolerance >= 0) continue;
    for (const double wider : kWider)
      if (t.passes_within == 0 && beside(wider).ok()) t.passes_within = wider;
  }
  if (compared == 0)
    return diags.Report(kExpectNothing, reference.at, request_.expect, signature_.kernel);
  return Done();
}

// `want` with the bound that another program's result has to keep.
ir::TensorValue KernelRun::Allowed(ir::TensorValue want, const ir::TensorValue& mine,
                                   double tolerance) {
  double sum = 0;
  for (double v : want.v) sum += std::isfinite(v) ? v * v : 0;
  const double rms = want.v.empty() ? 0 : std::sqrt(sum / static_cast<double>(want.v.size()));
  if (ir::IsFloat(want.dtype)) {
    want.e.resize(want.v.size());
    for (size_t i = 0; i < want.v.size(); ++i)
      want.e[i] = tolerance >= 0 ? static_cast<float>(tolerance * (std::fabs(want.v[i]) + rms))
                                 : want.e[i] + (mine.e.empty() ? 0.0f : mine.e[i]);
  }
  if (!mine.undecided.empty()) {
    want.undecided.resize(mine.undecided.size());
    for (size_t i = 0; i < mine.undecided.size(); ++i) want.undecided[i] |= mine.undecided[i];
  }
  return want;
}

}  // namespace tilec::tools
