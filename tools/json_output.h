// `--format=json` of commands that print what they did: the choice is checked, and an object is one
// line, whatever bytes its texts have.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tools/diagnostics.h"
#include "tools/session.h"

namespace tilec::tools {

inline Result<> CheckFormat(Session& session) {
  const std::string& format = session.options().format;
  if (format == "text" || format == "json") return Done();
  return session.diags()
      .Report(kBadChoice, Span{}, "--format", format)
      .Place("command line")
      .Help("use text, json");
}

inline std::string JsonLine(const nlohmann::ordered_json& object) {
  return object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace tilec::tools
