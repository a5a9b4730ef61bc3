// SPDX-License-Identifier: Apache-2.0
#include "tools/assignments.h"

#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>

#include "tools/diagnostics.h"

namespace tilec::tools {

namespace {

bool IsName(const std::string& s) {
  if (s.empty() || (!std::isalpha(static_cast<unsigned char>(s[0])) && s[0] != '_')) return false;
  for (char c : s)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_') return false;
  return true;
}

std::optional<frontend::ConstValue> ParseValue(std::string text) {
  if (text == "true") return frontend::ConstValue(true);
  if (text == "false") return frontend::ConstValue(false);
  if (text == "inf") return frontend::ConstValue(std::numeric_limits<double>::infinity());
  if (text == "-inf") return frontend::ConstValue(-std::numeric_limits<double>::infinity());
  const char* begin = text.data();
  const char* end = begin + text.size();
  int64_t i = 0;
  const bool hex = text.size() > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
  const auto whole = hex ? std::from_chars(begin + 2, end, i, 16) : std::from_chars(begin, end, i);
  if (whole.ec == std::errc() && whole.ptr == end) return frontend::ConstValue(i);
  double d = 0;
  const auto real = std::from_chars(begin, end, d);
  if (real.ec == std::errc() && real.ptr == end && std::isfinite(d)) return frontend::ConstValue(d);
  return std::nullopt;
}

// Splits at the first '='; false if there is none or the name is no name.
bool Split(const std::string& word, std::string* name, std::string* value) {
  const size_t at = word.find('=');
  if (at == std::string::npos) return false;
  *name = word.substr(0, at);
  *value = word.substr(at + 1);
  return IsName(*name);
}

}  // namespace

Result<Assignments> ParseAssignments(const std::vector<std::string>& words, DiagSink& diags) {
  Assignments out;
  std::map<std::string, std::string> seen;
  const int before = diags.errors();
  for (const std::string& word : words) {
    std::string name, value;
    if (!Split(word, &name, &value)) {
      diags.Report(kNotAssignment, Span{}, word).Place("command line");
      continue;
    }
    if (const auto [at, fresh] = seen.emplace(name, value); !fresh) {
      diags.Report(kGivenTwice, Span{}, name, at->second, value).Place("command line");
      continue;
    }
    if (!value.empty() && value[0] == '@') {
      out.files[name] = value.substr(1);
    } else if (const auto parsed = ParseValue(value)) {
      out.values[name] = *parsed;
    } else {
      DiagBuilder d = diags.Report(kBadValue, Span{}, value, name).Place("command line");
      if (value.size() > 4 && value.substr(value.size() - 4) == ".npy")
        d.Help(fmt::format("write {}=@{}", name, value));
    }
  }
  if (diags.errors() > before) return DiagSink::Propagate();
  return out;
}

Result<std::map<std::string, std::string>> ParseSaves(const std::vector<std::string>& words,
                                                      DiagSink& diags) {
  std::map<std::string, std::string> out;
  for (const std::string& word : words) {
    std::string name, value;
    if (!Split(word, &name, &value) || value.empty())
      return diags.Report(kNotAssignment, Span{}, word)
          .Place("command line")
          .Help("write --save NAME=file.npy");
    out[name] = value;
  }
  return out;
}

}  // namespace tilec::tools
