// SPDX-License-Identifier: Apache-2.0
#include "api/tune_word.h"

#include <charconv>

#include "api/diagnostics.h"
#include "support/nearest.h"

namespace tilec::api {

std::optional<TuneWord> TuneWordOf(const std::string& tune) {
  using Kind = TuneWord::Kind;
  constexpr std::string_view kSeconds = "measure=";
  if (tune == "default") return TuneWord{Kind::kDefault};
  if (tune == "model") return TuneWord{Kind::kModel};
  if (tune == "classes") return TuneWord{Kind::kClasses};
  if (tune == "measure") return TuneWord{Kind::kMeasure};
  if (tune.rfind(kSeconds, 0) == 0) {
    double seconds = 0;
    const char* end = tune.data() + tune.size();
    const auto read = std::from_chars(tune.data() + kSeconds.size(), end, seconds);
    if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
    if (!(seconds > 0 && seconds <= kMostTuneSeconds)) return std::nullopt;
    return TuneWord{Kind::kMeasure, seconds};
  }
  if (tune.find_first_of("./") != std::string::npos) return TuneWord{Kind::kFile};
  return std::nullopt;
}

bool Measures(const std::string& tune) {
  const auto word = TuneWordOf(tune);
  return word && word->kind == TuneWord::Kind::kMeasure;
}

Result<> CheckTune(const std::string& tune, DiagSink& diags) {
  if (TuneWordOf(tune)) return Done();
  DiagBuilder d = diags.Report(kUnknownTune, Span{}, tune);
  if (tune.rfind("measure=", 0) == 0)
    return d.Help(
        fmt::format("the seconds of `measure=SECONDS` are above 0 and up to {:.0f}: "
                    "measure=2.5",
                    kMostTuneSeconds));
  const std::string near = NearestName(
      tune, {"default", "model", "classes", "measure", "model:improve", "classes:improve"});
  if (!near.empty()) return d.Help(fmt::format("did you mean `{}`?", near));
  return d.Help("use default, model, classes, measure, measure=SECONDS or a file like tunes.toml");
}

}  // namespace tilec::api
