// Compile: Emitter, LLVM, and the text that LLVM prints made ours (places, no clutter).
//
// SPDX-License-Identifier: Apache-2.0
#include <llvm/IR/LLVMContext.h>
#include <llvm/Support/raw_ostream.h>

#include <charconv>
#include <map>
#include <set>

#include "backend/architecture.h"
#include "backend/backend.h"
#include "backend/diagnostics.h"
#include "backend/emitter.h"
#include "backend/nvptx.h"
#include "backend/shared_map.h"
#include "ir/narrow_dims.h"

namespace tilec::backend {
namespace {

// The op a `.loc` of the generated text stands for (line n + 1 = op n), or nullptr.
const ir::Op* OpOfLoc(const ir::Function& fn, std::string_view line, bool* is_loc) {
  const size_t start = line.find_first_not_of(" \t");
  *is_loc = start != std::string_view::npos && line.substr(start, 4) == ".loc";
  if (!*is_loc) return nullptr;
  line.remove_prefix(start + 4);
  int64_t numbers[2] = {0, 0};  // file, line
  for (int64_t& n : numbers) {
    const size_t digit = line.find_first_of("0123456789");
    if (digit == std::string_view::npos) return nullptr;
    line.remove_prefix(digit);
    auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), n);
    if (error != std::errc()) return nullptr;
    line.remove_prefix(static_cast<size_t>(end - line.data()));
  }
  const int64_t index = numbers[1] - 1;
  if (index < 0 || index >= fn.ops.size()) return nullptr;
  return &fn.ops[ir::OpId(static_cast<int32_t>(index))];
}

std::string Quoted(const std::string& path) {
  std::string out = "\"";
  for (char c : path) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

// Drops the comments around inline assembly, replaces the op numbers of .loc directives by places
// in the source, and records which line came from where.
void Finish(const std::string& raw, const ir::Function& fn, const SourceMap& sources,
            const BackendOptions& options, KernelImage* image) {
  const auto name_of = [&](int32_t file) {
    const auto name = options.file_names.find(file);
    return name == options.file_names.end() ? sources.path(file) : name->second;
  };
  std::map<int32_t, int> files;  // source file -> number in the text
  for (const ir::Op& op : fn.ops)
    if (op.at.known() && !files.count(op.at.file)) {
      const int next = static_cast<int>(files.size()) + 1;
      files[op.at.file] = next;
    }
  std::string out;
  int line_number = 1;
  auto put = [&](std::string_view line) {
    out += line;
    out += '\n';
    ++line_number;
  };
  size_t at = 0;
  while (at < raw.size()) {
    size_t end = raw.find('\n', at);
    if (end == std::string::npos) end = raw.size();
    const std::string_view line = std::string_view(raw).substr(at, end - at);
    at = end + 1;
    const size_t start = line.find_first_not_of(" \t");
    if (start == std::string_view::npos) continue;
    const std::string_view body = line.substr(start);
    if (body.substr(0, 2) == "//" || body.substr(0, 5) == ".file" ||
        body.substr(0, 8) == ".section") {
      if (body.substr(0, 8) == ".section") break;  // debug sections: nothing of ours follows
      continue;
    }
    bool is_loc = false;
    const ir::Op* op = OpOfLoc(fn, line, &is_loc);
    if (is_loc) {
      if (!op || !op->at.known()) {  // what follows is of no place of the source
        if (!image->lines.empty() && !image->lines.back().file.empty())
          image->lines.push_back({line_number, "", 0, 0, ""});
        continue;
      }
      const LineCol place = sources.Locate(op->at.file, op->at.begin);
      image->lines.push_back({line_number, name_of(op->at.file), place.line, place.column,
                              ir::Info(op->kind).mnemonic});
      put("\t.loc\t" + std::to_string(files[op->at.file]) + " " + std::to_string(place.line) + " " +
          std::to_string(place.column));
      continue;
    }
    // LLVM appends comments to some lines (labels, registers).
    std::string_view text = line;
    if (const size_t comment = text.find("//"); comment != std::string_view::npos)
      text = text.substr(0, text.find_last_not_of(" \t", comment - 1) + 1);
    put(text);
    if (body.substr(0, 13) == ".address_size")
      for (const auto& [file, number] : files)
        put(".file " + std::to_string(number) + " " + Quoted(name_of(file)));
  }
  image->ptx = std::move(out);
}

}  // namespace

Result<KernelImage> Compile(const ir::Function& fn, const SourceMap& sources,
                            const BackendOptions& options, DiagSink& diags) {
  const Architecture* architecture = ArchitectureOf(options.target);
  if (architecture == nullptr) return diags.Report(kUnknownTarget, Span(), options.target);
  const std::string cpu(architecture->cpu);
  llvm::LLVMContext context;
  NvptxError error;
  auto failed = [&]() -> Reported {
    if (error.no_target) return diags.Report(kNoTarget, Span(), options.target, error.text);
    return diags.Report(kLlvmRefused, Span(), error.text);
  };
  Emitter emitter(fn, sources, options, diags, context);
  if (!PrepareModule(emitter.module(), cpu, &error)) return failed();
  TRY_VOID(emitter.Run());
  if (options.llvm_ir) {
    llvm::raw_string_ostream out(*options.llvm_ir);
    emitter.module().print(out, nullptr);
  }
  std::string ptx;
  if (!EmitPtx(emitter.module(), cpu, options.llvm_ir_optimized, &ptx, &error)) return failed();
  Finish(Labelled(*architecture, std::move(ptx)), fn, sources, options, &emitter.image());
  DescribeProgram(fn, &emitter.image());
  const std::set<std::string> narrow = ir::NarrowDims(fn);
  for (const ir::Param& p : fn.params)
    if (p.kind == ir::ParamKind::kDim && !narrow.contains(p.name))
      emitter.image().wide.push_back(p.name);
  return std::move(emitter.image());
}

std::string WhyNotEmitted(const std::string& arch) {
  if (ArchitectureOf(arch) != nullptr) return "";
  return fmt::format("tilec generates no code for {} yet", arch);
}

std::string BackendVersion() { return LlvmVersion(); }

}  // namespace tilec::backend
