// One statement of PTX as the makers of mutants read it: guard, opcode, operands. One statement a
// line is what both compilers write; lines that are otherwise are left alone.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace tilec::mutation {

struct Statement {
  std::string guard;  // "@%p1 " or ""
  std::string opcode;
  std::vector<std::string> operands;
  bool Is(std::string_view prefix) const { return opcode.substr(0, prefix.size()) == prefix; }
  bool Has(std::string_view part) const { return opcode.find(part) != std::string::npos; }
};

inline std::string Strip(std::string_view s) {
  const size_t a = s.find_first_not_of(" \t");
  if (a == std::string_view::npos) return "";
  return std::string(s.substr(a, s.find_last_not_of(" \t") - a + 1));
}

inline bool Parse(std::string_view line, Statement* out) {
  std::string s = Strip(line);
  if (s.empty() || s.back() != ';' || std::count(s.begin(), s.end(), ';') != 1) return false;
  s.pop_back();
  if (s[0] == '@') {
    const size_t blank = s.find_first_of(" \t");
    if (blank == std::string::npos) return false;
    out->guard = s.substr(0, blank) + " ";
    s = Strip(s.substr(blank));
  }
  const size_t end = std::min(s.find_first_of(" \t"), s.size());
  out->opcode = s.substr(0, end);
  int depth = 0;
  std::string operand;
  for (char c : s.substr(end)) {
    depth += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
    if (c == ',' && depth == 0) {
      out->operands.push_back(Strip(operand));
      operand.clear();
    } else {
      operand += c;
    }
  }
  if (!Strip(operand).empty()) out->operands.push_back(Strip(operand));
  return true;
}

inline std::string Join(const Statement& s) {
  return fmt::format("{}{} {};", s.guard, s.opcode, fmt::join(s.operands, ", "));
}

inline std::string RegisterIn(const std::string& operand) {
  const size_t a = operand.find('%');
  if (a == std::string::npos) return "";
  size_t b = a + 1;
  while (b < operand.size() &&
         (std::isalnum(static_cast<unsigned char>(operand[b])) || operand[b] == '_'))
    ++b;
  return operand.substr(a, b - a);
}

// `s` with its operand `k` replaced by `op` of it and `value`.
inline std::string Changed(Statement s, size_t k, const char* op, const char* type,
                           const std::string& value) {
  const std::string was = s.operands[k];
  s.operands[k] = "%mut";
  return fmt::format("{{ .reg .{} %mut; {}.{} %mut, {}, {}; {} }}", type, op, type, was, value,
                     Join(s));
}

}  // namespace tilec::mutation
