// --report of commands that say something of this machine: one file, to which each adds its lines
// of JSON, for somebody else to read (docs/your_card.md). It names no folder of whoever made it.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tools/json_output.h"

namespace tilec::tools {

// "2026-11-28"
std::string Today();

// Adds `{"report": WHAT, …}` to the file of --report; nothing where there is none.
Result<> AddToReport(Session& session, const std::string& what,
                     const nlohmann::ordered_json& object);

}  // namespace tilec::tools
