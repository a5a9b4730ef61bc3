// SPDX-License-Identifier: Apache-2.0
#include "tools/report.h"

#include <fmt/format.h>

#include <cstdio>
#include <ctime>

#include "tools/diagnostics.h"

namespace tilec::tools {

std::string Today() {
  const std::time_t now = std::time(nullptr);
  std::tm utc = {};
  gmtime_r(&now, &utc);
  return fmt::format("{:04}-{:02}-{:02}", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday);
}

Result<> AddToReport(Session& session, const std::string& what,
                     const nlohmann::ordered_json& object) {
  const std::string& path = session.options().report;
  if (path.empty()) return Done();
  nlohmann::ordered_json line = {{"report", what}, {"date", Today()}};
  line.update(object);
  const std::string text = JsonLine(line) + "\n";
  std::FILE* file = std::fopen(path.c_str(), "a");
  const bool written =
      file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const bool closed = file != nullptr && std::fclose(file) == 0;
  if (written && closed) return Done();
  return session.diags()
      .Report(kFileUnwritable, Span{}, path, file == nullptr ? "it cannot be opened" : "it is full")
      .Place("command line");
}

}  // namespace tilec::tools
