// Every loop of the standard library and of tests/exec as a scheduling problem, for every call of
// their `test` blocks: what the scheduler must be able to answer whatever else it can do.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "scheduler/extract.h"

namespace tilec::scheduler {

struct CorpusLoop {
  std::string name;  // "attention/attention D=128, 2 slices, h200"
  Extraction extraction;
};

// Distinct graphs only. Loops that extraction declines with a diagnostic are left out.
std::vector<CorpusLoop> Corpus(const std::vector<std::string>& machines);

}  // namespace tilec::scheduler
