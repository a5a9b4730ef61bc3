// Is something of a schedule missing in the program, and nobody says so?
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>

#include "api/pipeline.h"

namespace tilec::fuzz {

// What was lost without a word, or "". `plan`: text of the program's plan; `said`: codes of notes
// and warnings.
std::string LostInSilence(const api::Lowered& lowered, const std::string& plan,
                          const std::set<std::string>& said);

// Rings that a schedule has for what is loaded.
size_t RingsOf(const api::Lowered& lowered);

}  // namespace tilec::fuzz
