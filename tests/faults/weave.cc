// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/weave.h"

#include <cctype>

namespace tilec::faults {

namespace {

// `text` with the word ON as the switch of this row.
std::string Switched(const std::string& text, const std::string& name) {
  const auto of_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
  };
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool word = text.compare(i, 2, "ON") == 0 && (i == 0 || !of_word(text[i - 1])) &&
                      (i + 2 == text.size() || !of_word(text[i + 2]));
    if (!word) {
      out += text[i];
      continue;
    }
    out += "(::tilec::faults::IsOn(\"" + name + "\") ? 1 : 0)";
    ++i;
  }
  return out;
}

}  // namespace

const std::vector<Fault>& Table() {
  static const std::vector<Fault> kTable = {
#define FAULT(name, stage, samples, file, text, with, what) \
  {#name, stage, samples, file, text, with, what},
#include "tests/faults/faults.def"
#undef FAULT
  };
  return kTable;
}

std::string Weave(const std::string& file, std::string source, std::vector<std::string>* lost) {
  for (const Fault& fault : Table()) {
    if (fault.file != file) continue;
    const std::string with = Switched(fault.with, fault.name);
    size_t at = source.find(fault.text);
    if (at == std::string::npos) lost->push_back(fault.name);
    for (; at != std::string::npos; at = source.find(fault.text, at + with.size()))
      source.replace(at, fault.text.size(), with);
  }
  return "namespace tilec::faults { bool IsOn(const char* fault); }\n" + source;
}

}  // namespace tilec::faults
