// What --tune and CompilerOptions::tune may say: `default`, `model`, `classes`, `measure`,
// `measure=SECONDS`, or the name of a file of tunes that were measured (it has an extension or a
// folder).
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "support/diag.h"
#include "support/result.h"

namespace tilec::api {

constexpr double kTuneSeconds = 1, kMostTuneSeconds = 3600;  // of launches, for one set of sizes

struct TuneWord {
  enum class Kind { kDefault, kModel, kClasses, kMeasure, kFile };
  Kind kind = Kind::kDefault;
  double seconds = kTuneSeconds;  // kMeasure
};

std::optional<TuneWord> TuneWordOf(const std::string& tune);
bool Measures(const std::string& tune);  // does it ask for kMeasure?
Result<> CheckTune(const std::string& tune, DiagSink& diags);

}  // namespace tilec::api
