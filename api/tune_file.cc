// SPDX-License-Identifier: Apache-2.0
#include "api/tune_file.h"

#include <algorithm>
#include <tuple>

#include "api/diagnostics.h"
#include "api/tune_word.h"
#include "runtime/kernel_cache.h"
#include "support/file.h"
#include "support/nearest.h"

#define TOML_HEADER_ONLY 0
#include <toml++/toml.h>

namespace tilec::api {

namespace {

constexpr uint64_t kMostBytes = 16 << 20;

std::string Quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) out += c;
  }
  return out + "\"";
}

std::string TextOf(const frontend::Values& values) {
  std::string out;
  for (const auto& [name, value] : values)
    out += fmt::format("{}{} = {}", out.empty() ? "" : ", ", name, frontend::ToText(value));
  return out;
}

std::string Table(const frontend::Values& values) {
  return values.empty() ? "{}" : "{ " + TextOf(values) + " }";
}

// From the texts of one file to rows; every place in it is one of a source.
class Reader {
 public:
  Reader(const SourceMap& sources, int32_t file, DiagSink& diags)
      : text_(sources.text(file)), file_(file), diags_(diags) {
    out_.path = sources.path(file);
  }

  Result<TunesFile> Read() {
    toml::table root;
    try {
      root = toml::parse(text_, out_.path);
    } catch (const toml::parse_error& e) {
      return diags_.Report(kTunesRow, At(e.source()), std::string(e.description()));
    }
    for (const auto& [key, node] : root)
      if (key.str() != "tune" || !node.is_array())
        return diags_
            .Report(kTunesRow, At(key.source()),
                    fmt::format("there is no `{}` in a file of tunes", key.str()))
            .Help("write one table `[[tune]]` for each kernel and its sizes");
    if (const toml::node* rows = root.get("tune"))
      for (const toml::node& node : *rows->as_array()) {
        if (!node.is_table())
          return diags_.Report(kTunesRow, At(node.source()), "this is no table")
              .Help("write one table `[[tune]]` for each kernel and its sizes");
        TRY_VOID(Row(*node.as_table()));
      }
    return std::move(out_);
  }

 private:
  Result<> Row(const toml::table& table) {
    const std::vector<std::string> keys = {"kernel",   "sizes",   "values", "schedule", "us",
                                           "model_us", "machine", "device", "compiler", "source"};
    TunesRow row;
    row.at = At(table.source());
    for (const auto& [key, node] : table) {
      const std::string name(key.str());
      if (name == "kernel") row.at = At(node.source());
      if (name == "values") row.values_at = At(node.source());
      if (std::find(keys.begin(), keys.end(), name) != keys.end()) continue;
      const std::string near = NearestName(name, keys);
      return diags_.Report(kTunesRow, At(key.source()), fmt::format("there is no key `{}`", name))
          .Help(near.empty() ? fmt::format("keys are {}", fmt::join(keys, ", "))
                             : fmt::format("did you mean `{}`?", near));
    }
    TRY_VOID(Text(table, "kernel", true, &row.kernel));
    TRY_VOID(Text(table, "machine", true, &row.machine));
    TRY_VOID(Text(table, "schedule", false, &row.schedule));
    TRY_VOID(Text(table, "device", false, &row.device));
    TRY_VOID(Text(table, "compiler", false, &row.compiler));
    TRY_VOID(Text(table, "source", false, &row.source));
    TRY_VOID(Values(table, "sizes", &row.sizes));
    TRY_VOID(Values(table, "values", &row.values));
    TRY_VOID(Number(table, "us", &row.us));
    TRY_VOID(Number(table, "model_us", &row.model_us));
    if (row.kernel.find(':') == std::string::npos)
      return diags_.Report(kTunesRow, row.at, fmt::format("`{}` is not FILE:KERNEL", row.kernel))
          .Help("write the file's name and the kernel: kernel = \"matmul.tile:gemm\"");
    if (!row.schedule.empty()) {
      DiagSink quiet;
      if (NamesScheduleFile(row.schedule) || !CheckSchedule(row.schedule, quiet).ok())
        return diags_
            .Report(kTunesRow, At(table.get("schedule")->source()),
                    fmt::format("`{}` is no word of --schedule", row.schedule))
            .Help("write solve, solve:once, solve:clusters, solve:split=2 or leave it out");
    }
    out_.rows.push_back(std::move(row));
    return Done();
  }

  Result<> Text(const toml::table& t, const char* key, bool needed, std::string* out) {
    const toml::node* node = t.get(key);
    if (node == nullptr && !needed) return Done();
    if (node == nullptr)
      return diags_.Report(kTunesRow, At(t.source()), fmt::format("`{}` is missing", key))
          .Help(fmt::format("write {} = \"{}\"", key,
                            std::string_view(key) == "kernel" ? "matmul.tile:gemm" : "h200"));
    if (!node->is_string())
      return diags_.Report(kTunesRow, At(node->source()), fmt::format("`{}` is not a text", key))
          .Help(fmt::format("write {} = \"…\"", key));
    *out = *node->value<std::string>();
    return Done();
  }
  Result<> Number(const toml::table& t, const char* key, double* out) {
    const toml::node* node = t.get(key);
    if (node == nullptr) return Done();
    if (!node->is_number())
      return diags_.Report(kTunesRow, At(node->source()), fmt::format("`{}` is not a number", key))
          .Help(fmt::format("write microseconds: {} = 24.1", key));
    *out = *node->value<double>();
    return Done();
  }
  Result<> Values(const toml::table& t, const char* key, frontend::Values* out) {
    const toml::node* node = t.get(key);
    const char* example = std::string_view(key) == "sizes" ? "M = 16, N = 4096" : "BM = 64";
    if (node == nullptr || !node->is_table())
      return diags_
          .Report(kTunesRow, At(node == nullptr ? t.source() : node->source()),
                  fmt::format("`{}` {}", key, node == nullptr ? "is missing" : "is no table"))
          .Help(fmt::format("write {} = {{ {} }}", key, example));
    for (const auto& [name, value] : *node->as_table()) {
      if (value.is_integer())
        (*out)[std::string(name.str())] = *value.value<int64_t>();
      else if (value.is_boolean())
        (*out)[std::string(name.str())] = *value.value<bool>();
      else
        return diags_
            .Report(kTunesRow, At(value.source()),
                    fmt::format("`{}` is neither a whole number nor true or false", name.str()))
            .Help(fmt::format("write {} = {{ {} }}", key, example));
    }
    return Done();
  }

  uint32_t Offset(const toml::source_position& at) const {
    size_t begin = 0;
    for (uint32_t line = 1; line < at.line; ++line) {
      const size_t end = text_.find('\n', begin);
      if (end == std::string_view::npos) break;
      begin = end + 1;
    }
    return static_cast<uint32_t>(
        std::min(text_.size(), begin + (at.column > 0 ? at.column - 1 : 0)));
  }
  Span At(const toml::source_region& region) const {
    Span span;
    span.file = file_;
    span.begin = Offset(region.begin);
    const size_t line_end = std::min(text_.size(), text_.find('\n', span.begin));
    const uint32_t end =
        region.end.line == region.begin.line ? Offset(region.end) : static_cast<uint32_t>(line_end);
    span.end = std::max(span.begin, std::min(end, static_cast<uint32_t>(line_end)));
    return span;
  }

  std::string_view text_;
  int32_t file_;
  DiagSink& diags_;
  TunesFile out_;
};

std::string MainFile(const Loaded& loaded) {
  const std::vector<int32_t> files = loaded.program->files();
  return files.empty() ? "" : loaded.program->FileNames().at(files.front());
}

bool IsOfFile(const TunesRow& row, const std::string& file) {
  return row.kernel.substr(0, row.kernel.rfind(':')) == file;
}

}  // namespace

std::string ToText(std::vector<TunesRow> rows) {
  std::stable_sort(rows.begin(), rows.end(), [](const TunesRow& a, const TunesRow& b) {
    return std::tie(a.kernel, a.machine, a.sizes) < std::tie(b.kernel, b.machine, b.sizes);
  });
  std::string out =
      "# Tunes that were measured: `tilec tune` wrote them, --tune=FILE takes them.\n";
  for (const TunesRow& row : rows) {
    out += fmt::format("\n[[tune]]\nkernel = {}\nsizes = {}\nvalues = {}\n", Quoted(row.kernel),
                       Table(row.sizes), Table(row.values));
    if (!row.schedule.empty()) out += fmt::format("schedule = {}\n", Quoted(row.schedule));
    out += fmt::format("us = {}\nmodel_us = {}\n", row.us, row.model_us);
    out +=
        fmt::format("machine = {}\ndevice = {}\ncompiler = {}\nsource = {}\n", Quoted(row.machine),
                    Quoted(row.device), Quoted(row.compiler), Quoted(row.source));
  }
  return out;
}

Result<TunesFile> ReadTunes(const SourceMap& sources, int32_t file, DiagSink& diags) {
  return Reader(sources, file, diags).Read();
}

void Merge(TunesRow row, std::vector<TunesRow>* rows) {
  for (TunesRow& old : *rows)
    if (old.SameCall(row)) {
      old = std::move(row);
      return;
    }
  rows->push_back(std::move(row));
}

Result<> LoadTunes(Loaded& loaded, const std::string& tune, DiagSink& diags) {
  const auto word = TuneWordOf(tune);
  if (!word || word->kind != TuneWord::Kind::kFile || loaded.tunes) return Done();
  std::string text, why;
  if (!ReadFile(tune, &text, &why, kMostBytes))
    return diags.Report(kTunesUnreadable, Span{}, tune, why)
        .Help("`tilec tune FILE:KERNEL NAME=VALUE… -o tunes.toml` writes one");
  TRY(TunesFile file, ReadTunes(loaded.sources, loaded.sources.Add(tune, std::move(text)), diags));
  const std::string own = MainFile(loaded);
  const std::vector<std::string> kernels = loaded.program->own_kernels();
  for (const TunesRow& row : file.rows) {
    if (!IsOfFile(row, own)) continue;
    const std::string kernel = row.kernel.substr(row.kernel.rfind(':') + 1);
    if (std::find(kernels.begin(), kernels.end(), kernel) == kernels.end()) {
      const std::string near = NearestName(kernel, kernels);
      return diags.Report(kTunesRow, row.at, fmt::format("`{}` has no kernel `{}`", own, kernel))
          .Help(near.empty() ? fmt::format("it has {}", fmt::join(kernels, ", "))
                             : fmt::format("did you mean `{}:{}`?", own, near));
    }
    TRY(const frontend::Signature signature, frontend::SignatureOf(*loaded.program, kernel, diags));
    std::vector<std::string> tunes;
    for (const frontend::TuneInfo& t : signature.tunes) tunes.push_back(t.name);
    for (const auto& [name, value] : row.values) {
      if (signature.tune(name) != nullptr) continue;
      const std::string near = NearestName(name, tunes);
      return diags
          .Report(kTunesRow, row.values_at, fmt::format("`{}` has no tune `{}`", kernel, name))
          .Help(!near.empty()   ? fmt::format("did you mean `{}`?", near)
                : tunes.empty() ? "it has none: write values = { }"
                                : fmt::format("it has {}", fmt::join(tunes, ", ")));
    }
  }
  loaded.tunes = std::make_shared<const TunesFile>(std::move(file));
  return Done();
}

TunesRow RowFor(const Loaded& loaded, const std::string& kernel, const Call& call,
                const ir::Target& machine, const std::string& compiler) {
  TunesRow row;
  row.kernel = MainFile(loaded) + ":" + kernel;
  for (const auto& [name, value] : call.all)
    if (!std::holds_alternative<double>(value)) row.sizes[name] = value;
  row.machine = machine.name;
  row.compiler = compiler;
  runtime::CacheKey texts;
  const std::map<int32_t, std::string> names = loaded.program->FileNames();
  for (int32_t file : loaded.program->files())
    texts.Add("file", names.at(file)).Add("text", loaded.sources.text(file));
  row.source = texts.Hex();
  return row;
}

Result<std::optional<TunesRow>> FindRow(const Loaded& loaded, const frontend::Signature& signature,
                                        const Call& call, const TunesRow& like, DiagSink& diags) {
  const TunesRow *found = nullptr, *elsewhere = nullptr;
  for (const TunesRow& row : loaded.tunes->rows) {
    if (row.SameCall(like)) found = &row;
    if (row.kernel == like.kernel && row.sizes == like.sizes) elsewhere = &row;
  }
  if (found == nullptr && elsewhere != nullptr) {
    diags.Report(kTunesElsewhere, elsewhere->at, signature.kernel, elsewhere->machine, like.machine)
        .Help(
            fmt::format("`tilec tune` there, with the same -o, adds a row; --target={} builds for "
                        "the machine of this one",
                        elsewhere->machine));
    return std::optional<TunesRow>();
  }
  if (found == nullptr) {
    diags.Report(kTunesMissing, Span{}, loaded.tunes->path, signature.kernel, TextOf(like.sizes))
        .Help("`tilec tune` with these sizes and the same -o adds a row");
    return std::optional<TunesRow>();
  }
  // A value that its set has not, or a combination that the kernel's facts exclude.
  Call with = call;
  for (const auto& [name, value] : found->values) with.statics[name] = with.all[name] = value;
  DiagSink quiet;
  const bool holds =
      frontend::CheckFacts(*loaded.program, signature.kernel, with.all, quiet).ok() &&
      MakeTileIr(loaded, signature.kernel, with, nullptr, quiet).ok();
  if (!holds) {
    DiagBuilder d = diags.Report(kTunesRow, found->values_at,
                                 quiet.all().empty() ? "the kernel does not take these values"
                                                     : quiet.all().front().message);
    for (const auto& [name, value] : found->values) {
      const frontend::TuneInfo* tune = signature.tune(name);
      if (tune == nullptr || tune->candidates.empty() ||
          std::find(tune->candidates.begin(), tune->candidates.end(), value) !=
              tune->candidates.end())
        continue;
      std::vector<std::string> allowed;
      for (const frontend::ConstValue& c : tune->candidates) allowed.push_back(frontend::ToText(c));
      d.Help(fmt::format("`{}` is one of {}", name, fmt::join(allowed, ", ")));
    }
    return d;
  }
  // The commit is not known everywhere.
  const auto version = [](const std::string& text) {
    return text.substr(0, text.find(", commit"));
  };
  const bool commits = found->compiler.size() > version(found->compiler).size() &&
                       like.compiler.size() > version(like.compiler).size();
  const bool older = commits ? found->compiler != like.compiler
                             : version(found->compiler) != version(like.compiler);
  if (!found->compiler.empty() && older)
    diags.Report(kTunesOlder, found->at, signature.kernel,
                 fmt::format("by compiler {}", found->compiler),
                 fmt::format("this is {}", like.compiler));
  else if (!found->source.empty() && found->source != like.source)
    diags.Report(kTunesOlder, found->at, signature.kernel, "of another text of the kernel",
                 "its files have changed");
  return std::optional<TunesRow>(*found);
}

}  // namespace tilec::api
