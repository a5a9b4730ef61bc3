// SPDX-License-Identifier: Apache-2.0
#include "api/measure.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "api/diagnostics.h"
#include "api/halving.h"
#include "api/measure_launches.h"
#include "api/split.h"
#include "api/tune_memory.h"
#include "api/tune_word.h"

namespace tilec::api {

namespace {

// Of which point, in the order of the model.
constexpr std::pair<size_t, const char*> kForms[] = {
    {0, "solve:once"},    {0, "solve:clusters"}, {0, "solve:split=2"},  {0, "solve:split=4"},
    {0, "solve:split=8"}, {1, "solve:once"},     {1, "solve:clusters"}, {1, "solve:split=2"}};

bool HasOpenTunes(const frontend::Signature& signature, const Call& call) {
  return std::any_of(signature.tunes.begin(), signature.tunes.end(), [&](const auto& tune) {
    return call.statics.count(tune.name) == 0 && !tune.candidates.empty();
  });
}

Call CallOf(const Loaded& loaded, const frontend::Signature& signature, const Call& call,
            const PipelineOptions& options, const TuneCandidate& candidate) {
  Call with = call;
  for (const auto& [name, value] : candidate.values) with.statics[name] = with.all[name] = value;
  with.schedule = candidate.schedule;
  (void)ChooseForm(loaded, signature, options, &with);
  return with;
}

std::string WithTime(const TuneCandidate& c) {
  return c.predicted_ms > 0
             ? fmt::format("{} ({:.1f} us by the machine model)", TextOf(c), 1e3 * c.predicted_ms)
             : TextOf(c);
}

std::string KeyOf(const Loaded& loaded, const frontend::Signature& signature, const Call& call,
                  const PipelineOptions& options, const MeasureBy& by) {
  PipelineOptions plain = options;
  plain.ptxas.clear();
  return runtime::CacheKey()
      .Add(by.beside ? "measured beside" : "measured", TuneKey(loaded, signature, call, plain))
      .Add("device", by.device->description())
      .Hex();
}

std::string FirstError(const DiagSink& diags, const char* otherwise) {
  for (const Diagnostic& d : diags.all())
    if (d.def->severity == Severity::kError) return d.message;
  return otherwise;
}

std::optional<TunesRow> KeptRow(const std::string& text) {
  SourceMap sources;
  DiagSink quiet;
  const int32_t file = sources.Add("cache", text);
  const auto read = ReadTunes(sources, file, quiet);
  if (!read.ok() || read->rows.size() != 1) return std::nullopt;
  return read->rows.front();
}

// Compiles all of them, side by side. Null: it has no program.
std::vector<std::optional<backend::KernelImage>> CompileAll(const Loaded& loaded,
                                                            const frontend::Signature& signature,
                                                            const std::vector<Call>& calls,
                                                            const PipelineOptions& options,
                                                            const MeasureBy& by) {
  std::vector<std::optional<backend::KernelImage>> images(calls.size());
  PipelineOptions quiet_options = options;
  quiet_options.crash_dir.clear();
  quiet_options.solutions = nullptr;  // a store is for one thread
  SideBySide(calls.size(), by.threads, [&](size_t i) {
    if (by.stop != nullptr && *by.stop) return;
    DiagSink quiet;
    auto image =
        CompileCall(loaded, signature.kernel, calls[i], quiet_options, {.cache = by.cache}, quiet);
    if (image.ok()) images[i] = *std::move(image);
  });
  return images;
}

// Loads those of the programs that none before equals; gives the numbers of the candidates whose
// programs the device takes.
std::vector<size_t> LoadDifferent(std::vector<std::optional<backend::KernelImage>> images,
                                  MeasureLaunches& launches, Measured* out, DiagSink& quiet) {
  std::vector<size_t> different, timed;
  std::vector<backend::KernelImage> programs;
  std::set<std::string> seen;
  for (size_t i = 0; i < images.size(); ++i) {
    if (!images[i]) {
      ++out->failed;
    } else if (!seen.insert(backend::ToJson(*images[i])).second) {
      ++out->same;
    } else {
      different.push_back(i);
      programs.push_back(*std::move(images[i]));
    }
  }
  const std::vector<bool> taken = launches.Load(std::move(programs), quiet);
  for (size_t i = 0; i < different.size(); ++i)
    if (taken[i]) timed.push_back(different[i]);
  out->failed += different.size() - timed.size();
  return timed;
}

// The row of the fastest, or of the model's choice, which is candidate 0, where that is as fast;
// false: the latter has no time.
bool TakeFastest(const Halved& halved, const MeasureBy& by, Measured* out) {
  const MeasuredCandidate* model = nullptr;
  for (size_t i = 0; i < halved.order.size(); ++i)
    if (halved.order[i].candidate == 0) model = &out->candidates[i];
  if (model == nullptr || model->ms <= 0) return false;
  const MeasuredCandidate* best = &out->candidates.front();
  if (best->ms <= 0 || best->ms > (1 - by.faster) * model->ms) best = model;
  const auto rounded = [](double ms) { return std::round(1e6 * ms) / 1e3; };
  out->row.values = best->candidate.values;
  out->row.schedule = best->candidate.schedule;
  out->row.us = rounded(best->ms);
  out->row.model_us = rounded(model->ms);
  out->row.device = by.device->description();
  return true;
}

}  // namespace

std::string TextOf(const TuneCandidate& candidate) {
  std::string text;
  for (const auto& [name, value] : candidate.values)
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, frontend::ToText(value));
  if (text.empty()) text = "the defaults";
  return candidate.schedule.empty() ? text : text + ", " + candidate.schedule;
}

std::vector<TuneCandidate> CandidatesFor(const Loaded& loaded, const frontend::Signature& signature,
                                         const Call& call, const PipelineOptions& options) {
  std::vector<TuneCandidate> points;
  if (HasOpenTunes(signature, call)) {
    const TuneChoice choice = ChooseTunes(loaded, signature, call, options, nullptr);
    points.push_back({choice.values});
    const auto add = [&](const TunePoint& point) {
      for (TuneCandidate& c : points)
        if (c.values == point.values || (c.values.empty() && point.is_default)) {
          if (c.predicted_ms == 0) c.predicted_ms = point.time.ms;
          return;
        }
      points.push_back({point.is_default ? frontend::Values() : point.values, "", point.time.ms});
    };
    for (const TunePoint& point : choice.lowered) add(point);
    for (const TunePoint& point : choice.rest) add(point);
  } else {
    points.push_back({});
  }
  std::vector<TuneCandidate> forms;
  if (options.For(call).schedule == "solve" && loaded.schedule_file < 0)
    for (const auto& [point, form] : kForms)
      if (point < points.size()) forms.push_back({points[point].values, form});
  const size_t most = kMostCandidates - forms.size();
  if (points.size() > most) points.resize(most);
  points.insert(points.end(), forms.begin(), forms.end());
  return points;
}

Measured MeasureTunes(const Loaded& loaded, const frontend::Signature& signature, const Call& call,
                      const PipelineOptions& options, const MeasureBy& by, DiagSink& diags) {
  Measured out;
  DiagSink quiet;
  const Result<Machine> machine = MachineOf(options, quiet);
  if (!machine.ok()) {
    out.why_not = FirstError(quiet, "its machine is not known");
    return out;
  }
  out.row = RowFor(loaded, signature.kernel, call, **machine,
                   by.compiler.empty() ? CompilerVersion() : by.compiler);
  std::string key;
  if (by.device != nullptr && by.cache != nullptr) {
    key = KeyOf(loaded, signature, call, options, by);
    if (const auto text = by.anew ? std::nullopt : by.cache->Get(key, diags))
      if (auto row = KeptRow(*text)) {
        out.kept = true;
        out.row = *std::move(row);
        return out;
      }
  }
  const std::vector<TuneCandidate> candidates = CandidatesFor(loaded, signature, call, options);
  out.model = candidates.front();
  out.offered = candidates.size();
  const auto not_measured = [&](std::string why) {
    out.why_not = std::move(why);
    out.row.values = out.model.values;
    out.row.model_us = 1e3 * out.model.predicted_ms;
    return std::move(out);
  };
  if (by.device == nullptr) return not_measured(by.why_none);
  if (by.device->NewStopwatch() == nullptr)
    return not_measured(fmt::format("{} has no clock of its own", by.device->kind() == "emulator"
                                                                      ? "the emulator"
                                                                      : by.device->description()));
  std::vector<Call> calls;
  for (const TuneCandidate& c : candidates)
    calls.push_back(CallOf(loaded, signature, call, options, c));
  auto images = CompileAll(loaded, signature, calls, options, by);

  const auto stopped = [&] { return by.stop != nullptr && *by.stop; };
  if (stopped()) return not_measured("it was stopped");

  MeasureLaunches launches(*by.device, signature, call, (**machine).limits.l2_bytes, by);
  const std::vector<size_t> timed = LoadDifferent(std::move(images), launches, &out, quiet);
  if (timed.empty() || timed.front() != 0)
    return not_measured(FirstError(quiet, "its program could not be made"));
  DiagSink room;
  if (!launches.MakeTensors(room))
    return not_measured(FirstError(room, "its tensors could not be made"));
  const Halved halved = Halve(
      timed.size(), 0, {by.seconds}, [&](size_t i, double ms) { return launches.Time(i, ms); },
      [&](int round) { launches.BeginRound(round); });
  if (stopped()) return not_measured("it was stopped");
  for (const Standing& s : halved.order)
    out.candidates.push_back({candidates[timed[s.candidate]], s.ms, s.rounds});
  out.spent_ms = halved.spent_ms;
  out.complete = halved.complete;
  if (timed.size() == 1) {  // nothing to compare it with
    const Timed alone = launches.Time(0, 1e3 * by.seconds / 10);
    out.candidates.front().ms = alone.ms;
    out.spent_ms = alone.spent;
  }
  if (!TakeFastest(halved, by, &out)) {
    const std::string why = launches.why();
    return not_measured(why.empty() ? "its launch could not be timed" : why);
  }
  if (!key.empty())
    by.cache->Put(key, fmt::format("{} measured", signature.kernel), ToText({out.row}), diags);
  return out;
}

std::optional<Call> WithTensors(const Loaded& loaded, const frontend::Signature& signature,
                                const Call& call, std::string* why) {
  DiagSink quiet;
  const auto missing = [&] {
    *why = quiet.all().empty() ? "a value is missing" : quiet.all().front().message;
    return std::nullopt;
  };
  frontend::Values values = call.all;
  const auto shapes = InferShapes(signature, values, {}, quiet);
  if (!shapes.ok()) return missing();
  Tensors views;
  for (const frontend::ParamInfo& p : signature.params)
    if (p.role == frontend::ParamRole::kTensor)
      views[p.name] = {ir::Spelling(p.dtype), 4096, shapes->at(p.name), {}};
  auto bound = BindCall(*loaded.program, signature, ForRuntime(signature), values, views, quiet);
  if (!bound.ok()) return missing();
  Call out = call;
  out.launch = std::move(bound->launch);
  return out;
}

Result<Tuning> TuningFor(const Loaded& loaded, const frontend::Signature& signature,
                         const Call& call, const PipelineOptions& options, const MeasureBy& by,
                         DiagSink& diags) {
  const TuneWord word = TuneWordOf(options.tune).value_or(TuneWord());
  const auto by_model = [&] {
    return Tuning{TunesFor(loaded, signature, call, options, by.remembered, diags), ""};
  };
  if (loaded.schedule_file >= 0) return Tuning();  // a schedule is for one choice of tiles
  if (word.kind == TuneWord::Kind::kFile && loaded.tunes) {
    DiagSink quiet;
    const Result<Machine> machine = MachineOf(options, quiet);
    if (!machine.ok()) return by_model();
    const TunesRow like = RowFor(loaded, signature.kernel, call, **machine,
                                 by.compiler.empty() ? CompilerVersion() : by.compiler);
    TRY(const auto row, FindRow(loaded, signature, call, like, diags));
    if (!row) return by_model();
    return Tuning{row->values, options.schedule == "solve" ? row->schedule : ""};
  }
  if (word.kind != TuneWord::Kind::kMeasure) return by_model();
  if (!HasOpenTunes(signature, call) && options.For(call).schedule != "solve")
    return Tuning();  // there is nothing to choose
  std::string why;
  std::optional<Call> full = call;
  if (call.launch.tensors.empty()) full = WithTensors(loaded, signature, call, &why);
  if (!full) {
    diags.Report(kTuneFallsBack, Span{}, why);
    return Tuning();
  }
  MeasureBy with = by;
  with.seconds = word.seconds;
  const Measured m = MeasureTunes(loaded, signature, *full, options, with, diags);
  if (!m.why_not.empty()) {
    diags.Report(kTuneNotMeasured, Span{}, signature.kernel, m.why_not, WithTime(m.model));
  } else if (by.say) {
    const std::string how =
        m.kept ? "kept from before"
               : fmt::format("{} programs in {:.2f} s of launches{}", m.candidates.size(),
                             1e-3 * m.spent_ms, m.complete ? "" : ", which were not enough");
    diags.Report(kTuneMeasured, Span{}, signature.kernel,
                 TextOf(TuneCandidate{m.row.values, m.row.schedule}), m.row.us, m.row.model_us,
                 how);
  }
  return Tuning{m.row.values, m.row.schedule};
}

}  // namespace tilec::api
