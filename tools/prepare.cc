// SPDX-License-Identifier: Apache-2.0
#include "tools/prepare.h"

#include "api/diagnostics.h"
#include "tools/assignments.h"
#include "tools/diagnostics.h"

namespace tilec::tools {

Result<Prepared> Prepare(Session& session, const char* command,
                         const std::vector<std::string>& words) {
  DiagSink& diags = session.diags();
  TRY(const Assignments given, ParseAssignments(words, diags));
  Prepared out;
  TRY(out.kernel, session.LoadKernel(session.options().file));
  const frontend::Program& program = *session.loaded().program;
  TRY(const frontend::Signature signature, frontend::SignatureOf(program, out.kernel, diags));
  if (!given.files.empty())
    return diags
        .Report(kUsage, Span{},
                fmt::format("`tilec {}` takes no tensors, only dims, constants and tunes", command))
        .Place("command line");
  TRY(out.call.all, api::CheckValues(signature, given.values, diags));
  for (const auto& [name, value] : out.call.all)
    if (signature.TakesValue(name, value)) out.call.statics[name] = value;
  for (const frontend::DimInfo& d : signature.dims)
    if (d.is_static && !out.call.statics.count(d.name))
      return diags.Report(api::kValueMissing, d.static_at, out.kernel, "static dim", d.name)
          .Help(fmt::format("give {}=NUMBER: it shapes local tiles", d.name));
  for (const frontend::ParamInfo& p : signature.params)
    if (p.role == frontend::ParamRole::kTensor)
      out.call.facts[p.name] = {.base_align_bytes = 16,
                                .stride_align_bytes = 16,
                                .last_dim_align = 16 / ir::ByteSize(p.dtype),
                                .last_contiguous = !p.strided_any};
  out.call.row_starts = api::RowStartsOf(signature, out.call.all);
  TRY_VOID(frontend::CheckFacts(program, out.kernel, out.call.all, diags));
  const std::string_view which = command;
  if (which == "build" || which == "explain")
    TRY_VOID(session.Tune(signature, &out.call));
  else
    session.ChooseForm(signature, &out.call);
  return out;
}

}  // namespace tilec::tools
