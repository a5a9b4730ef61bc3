// SPDX-License-Identifier: Apache-2.0
#include "editor/analysis.h"

#include "language/parse.h"

namespace tilec::editor {

namespace {

// The file of a path in a source map that a program was just loaded into.
int32_t FileOf(const SourceMap& sources, const std::string& path) {
  for (int32_t i = 0; i < sources.size(); ++i)
    if (sources.path(i) == path) return i;
  return -1;
}

// Ops carry the place of the expression that they came from. One expression may become several ops;
// the last one makes its value.
void AddTypes(const ir::Function& fn, int32_t file, Analysis* out) {
  for (const ir::Op& op : fn.ops) {
    if (op.at.file != file || op.results.size() != 1 || !fn.type(op.results[0]).is_tile()) continue;
    out->types[{op.at.begin, op.at.end}] = ir::ToText(fn.type(op.results[0]));
  }
}

}  // namespace

const std::string& Analysis::TypeAt(Span span) const {
  static const std::string kNone;
  const auto it = types.find({span.begin, span.end});
  return it == types.end() ? kNone : it->second;
}

std::unique_ptr<Analysis> Analyse(const std::string& path, std::string text,
                                  const api::StandardLibrary& library) {
  auto analysis = std::make_unique<Analysis>();
  Analysis& out = *analysis;
  out.path = path;
  {
    Result<frontend::Program> program =
        frontend::Program::LoadText(out.sources, path, text, library.Resolver(), out.diags);
    if (program.ok()) out.program.emplace(std::move(*program));
  }
  out.file = FileOf(out.sources, path);
  if (out.file < 0) out.file = out.sources.Add(path, std::move(text));
  {
    DiagSink said;  // by LoadText already
    Result<language::Ast> ast = language::Parse(out.sources, out.file, said);
    if (ast.ok()) out.ast.emplace(std::move(*ast));
  }
  if (out.ast) out.symbols = BuildSymbols(*out.ast, out.text());
  if (!out.program) return analysis;
  (void)frontend::Check(*out.program, out.diags);
  for (const std::string& kernel : out.program->own_kernels()) {
    const auto values = frontend::PlausibleValues(*out.program, kernel);
    if (!values) continue;
    DiagSink said;  // by Check
    Result<ir::Function> fn =
        frontend::Specialize(*out.program, {.kernel = kernel, .values = *values}, said);
    if (!fn.ok()) continue;
    AddTypes(*fn, out.file, &out);
    out.kernels.push_back({kernel, *values, std::move(*fn)});
  }
  return analysis;
}

}  // namespace tilec::editor
