// Source files of the compiler with the faults of faults.def woven in, each behind a switch.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace tilec::faults {

struct Fault {
  std::string name, stage, samples, file, text, with, what;
};
const std::vector<Fault>& Table();

// `source` is what stands in `file`. Names of rows of this file whose text it has not go to `lost`.
std::string Weave(const std::string& file, std::string source, std::vector<std::string>* lost);

}  // namespace tilec::faults
