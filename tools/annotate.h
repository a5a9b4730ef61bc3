// Findings for machines that show them beside the code: SARIF 2.1.0 (code review tools), and the
// lines that GitHub's workflows turn into annotations. The place is that of the source where it is
// known, else that of the PTX text. One result per cause; what follows from it is counted in it.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "runtime/emulator/judge/finding.h"

namespace tilec::tools {

std::string ToSarif(const std::vector<runtime::judge::Finding>& findings);
std::string ToGithub(const std::vector<runtime::judge::Finding>& findings);

}  // namespace tilec::tools
