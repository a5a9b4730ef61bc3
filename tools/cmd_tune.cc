// tilec tune: measures what is fastest for given sizes and writes it to a file that --tune=FILE
// takes. tilec bench --search: the same, shown: what the model's choice loses against the best that
// was found, for each set of sizes and on the average.
//
//   tilec tune gemm.tile:gemm M=1,16,128 N=4096 K=4096 -o tunes.toml
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "api/diagnostics.h"
#include "api/measure.h"
#include "support/file.h"
#include "tools/assignments.h"
#include "tools/bundle_words.h"
#include "tools/commands.h"
#include "tools/diagnostics.h"
#include "tools/random_contents.h"
#include "tools/session.h"

namespace tilec::tools {

namespace {

constexpr size_t kMostSizes = 4096;

struct Found {
  std::vector<api::TunesRow> rows;
  std::string lines;  // JSON, one for each set of sizes
  std::vector<double> losses;
};

double Loss(const api::TunesRow& row) {
  return row.model_us > 0 ? std::max(0.0, 1 - row.us / row.model_us) : 0;
}

std::string Line(const char* who, const std::string& what, double us) {
  return fmt::format("  {:<6} {:<44} {:>10.2f} us\n", who, what, us);
}

void Print(const api::Measured& m, const frontend::Signature& signature,
           const std::vector<std::string>& words, const std::string& device, bool all) {
  std::FILE* const to = all ? stdout : stderr;  // rows may go to standard output
  fmt::print(to, "{} {} on {}\n", signature.kernel, fmt::join(words, " "), device);
  const api::TuneCandidate best{m.row.values, m.row.schedule};
  for (const api::MeasuredCandidate& c : m.candidates)
    if (all)
      fmt::print(to, "  {:>2} {} {:<43} {:>9.2f} us\n", c.rounds,
                 c.rounds == 1 ? "round " : "rounds", TextOf(c.candidate), 1e3 * c.ms);
  if (!m.kept) fmt::print(to, "{}", Line("model", TextOf(m.model), m.row.model_us));
  fmt::print(to, "{}", Line("best", TextOf(best), m.row.us));
  fmt::print(to, "  the model loses {:.1f} %; {}\n", 100 * Loss(m.row),
             m.kept ? "kept from before"
                    : fmt::format("{} candidates, {} programs timed, {:.2f} s of launches{}",
                                  m.offered, m.candidates.size(), 1e-3 * m.spent_ms,
                                  m.complete ? "" : ", which were not enough for all rounds"));
}

// One kernel with one set of sizes.
Result<> TuneOne(Session& session, const std::vector<std::string>& words, Found* found) {
  const Options& o = session.options();
  DiagSink& diags = session.diags();
  TRY_VOID(session.CheckOptions());
  TRY(const std::string kernel, session.LoadKernel(o.file));
  TRY(const Assignments given, ParseAssignments(words, diags));
  if (!given.files.empty())
    return diags.Report(kUsage, Span{}, "tensors are filled for what is measured")
        .Place("command line")
        .Help("give dims, scalars, constants and tunes");
  const frontend::Program& program = *session.loaded().program;
  TRY(const frontend::Signature signature, frontend::SignatureOf(program, kernel, diags));
  const std::string name = o.device == "auto" ? "cuda" : o.device;
  if (name == "interpreter" || name == "emulator")
    return diags.Report(kNoClock, Span{}, name)
        .Place("command line")
        .Help("measure where there is a GPU; --tune=model needs none");
  std::string why;
  TRY(const auto device, session.OpenNamed(name, &why));
  TRY(const frontend::Values values, api::CheckValues(signature, given.values, diags));
  TRY(const auto shapes, api::InferShapes(signature, values, {}, diags));
  api::Tensors views;
  for (const frontend::ParamInfo& p : signature.params)
    if (p.role == frontend::ParamRole::kTensor)
      views[p.name] = {ir::Spelling(p.dtype), 4096, shapes.at(p.name), {}};
  TRY(const api::Call call,
      api::BindCall(program, signature, api::ForRuntime(signature), values, views, diags));
  api::MeasureBy by;
  by.device = device.get();
  by.seconds = o.tune_seconds;
  by.cache = session.cache();
  by.anew = o.search;
  by.contents = RandomContents(session, signature, call);
  by.compiler = session.Compiler();
  const api::Measured m =
      api::MeasureTunes(session.loaded(), signature, call, session.pipeline(), by, diags);
  if (!m.why_not.empty())
    return diags.Report(kNotMeasured, Span{}, signature.kernel, m.why_not)
        .Place("command line")
        .Help("`tilec run` with these values says what is wrong with the launch");
  Print(m, signature, words, device->description(), o.search);
  nlohmann::ordered_json line = {{"kernel", m.row.kernel}};
  for (const auto& [name, value] : m.row.sizes) line["sizes"][name] = frontend::ToText(value);
  line["model_us"] = m.row.model_us, line["best_us"] = m.row.us, line["loss"] = Loss(m.row);
  line["best"] = TextOf(api::TuneCandidate{m.row.values, m.row.schedule});
  line["machine"] = m.row.machine, line["device"] = m.row.device;
  line["compiler"] = m.row.compiler;
  found->lines += line.dump() + "\n";
  found->losses.push_back(Loss(m.row));
  found->rows.push_back(m.row);
  return Done();
}

// Rows that the file has already stay, but for those that were measured again.
Result<> WriteRows(Session& session, const Found& found) {
  const std::string& path = session.options().output;
  DiagSink& diags = session.diags();
  std::vector<api::TunesRow> rows;
  std::string text, why;
  if (path != "-" && !path.empty() && std::filesystem::exists(path)) {
    if (!ReadFile(path, &text, &why))
      return diags.Report(api::kTunesUnreadable, Span{}, path, why).Place("command line");
    SourceMap& sources = session.loaded().sources;
    TRY(api::TunesFile old, api::ReadTunes(sources, sources.Add(path, std::move(text)), diags));
    rows = std::move(old.rows);
  }
  for (const api::TunesRow& row : found.rows) api::Merge(row, &rows);
  if (WriteOutput(path, api::ToText(rows), &why)) return Done();
  return diags.Report(kFileUnwritable, Span{}, path, why).Place("command line");
}

Result<> WriteLines(Session& session, const Found& found) {
  const std::string& path = session.options().output;
  std::string why;
  if (path.empty() || WriteOutput(path, found.lines, &why)) return Done();
  return session.diags().Report(kFileUnwritable, Span{}, path, why).Place("command line");
}

}  // namespace

int CmdTune(const Options& options) {
  Session session(options);
  std::vector<std::string> words = options.assignments;
  if (!options.file.empty()) words.insert(words.begin(), options.file);
  const auto wanted = ReadBundleWords(words, session.diags());
  if (!wanted.ok()) return session.Finish();
  size_t count = 0;
  for (const Wanted& w : *wanted) count += CountCombinations(w, kMostSizes);
  if (count > kMostSizes) {
    session.diags()
        .Report(kUsage, Span{}, fmt::format("more than {} combinations of values", kMostSizes))
        .Place("command line")
        .Help("measure them in several runs, with the same -o");
    return session.Finish();
  }
  Found found;
  for (const Wanted& w : *wanted)
    for (const std::vector<std::string>& each : Combinations(w)) {
      Options one = options;
      one.file = w.file;
      one.tune = "model";
      Session of(one);
      (void)TuneOne(of, each, &found).ok();
      if (const int code = of.Finish(); code != kOk) return code;
    }
  if (options.search && found.losses.size() > 1) {
    double sum = 0;
    for (const double loss : found.losses) sum += loss;
    fmt::print("{} sets of sizes: the model loses {:.1f} % in the mean, {:.1f} % at worst\n",
               found.losses.size(), 100 * sum / static_cast<double>(found.losses.size()),
               100 * *std::max_element(found.losses.begin(), found.losses.end()));
  }
  (void)(options.search ? WriteLines(session, found) : WriteRows(session, found)).ok();
  return session.Finish();
}

}  // namespace tilec::tools
