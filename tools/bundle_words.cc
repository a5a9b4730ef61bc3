// SPDX-License-Identifier: Apache-2.0
#include "tools/bundle_words.h"

#include <algorithm>

#include "tools/diagnostics.h"

namespace tilec::tools {

namespace {

constexpr const char* kForm = "tilec bundle FILE[:KERNEL] NAME=VALUE,… [FILE[:KERNEL] …] -o FILE";

DiagBuilder Wrong(const std::string& what, DiagSink& diags) {
  DiagBuilder d = diags.Report(kUsage, Span{}, what);
  d.Place("command line").Help(kForm);
  return d;
}

// "D=64,128" → {D=64, D=128}
Result<std::vector<std::string>> ReadChoice(const std::string& word, DiagSink& diags) {
  const size_t equals = word.find('=');
  const std::string name = word.substr(0, equals + 1);
  if (equals == 0) return Wrong(fmt::format("`{}` has no name in front of `=`", word), diags);
  std::vector<std::string> out;
  for (const std::string& value : SplitAt(word.substr(equals + 1), ',')) {
    if (value.empty()) return Wrong(fmt::format("`{}` has an empty value", word), diags);
    if (std::find(out.begin(), out.end(), name + value) != out.end())
      return Wrong(fmt::format("`{}` has {} twice", word, value), diags);
    out.push_back(name + value);
  }
  return out;
}

}  // namespace

std::vector<std::string> SplitAt(const std::string& text, char at) {
  std::vector<std::string> out(1);
  for (const char c : text) {
    if (c == at)
      out.emplace_back();
    else
      out.back() += c;
  }
  return out;
}

Result<std::vector<Wanted>> ReadBundleWords(const std::vector<std::string>& words,
                                            DiagSink& diags) {
  std::vector<Wanted> out;
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos) {
      out.push_back({word, {}});
      continue;
    }
    if (out.empty()) return Wrong(fmt::format("`{}` stands in front of its kernel", word), diags);
    const std::string name = word.substr(0, equals + 1);
    for (const std::vector<std::string>& before : out.back().choices)
      if (before.front().substr(0, name.size()) == name)
        return Wrong(fmt::format("`{}` is given twice for `{}`", name.substr(0, equals),
                                 out.back().file),
                     diags)
            .Help(fmt::format("write {}VALUE,VALUE", name));
    TRY(std::vector<std::string> choice, ReadChoice(word, diags));
    out.back().choices.push_back(std::move(choice));
  }
  if (out.empty()) return Wrong("a bundle needs a kernel", diags);
  return out;
}

size_t CountCombinations(const Wanted& wanted, size_t most) {
  size_t count = 1;
  for (const std::vector<std::string>& choice : wanted.choices)
    if ((count *= choice.size()) > most) return most + 1;
  return count;
}

std::vector<std::vector<std::string>> Combinations(const Wanted& wanted) {
  std::vector<std::vector<std::string>> out(1);
  for (const std::vector<std::string>& choice : wanted.choices) {
    std::vector<std::vector<std::string>> next;
    for (const std::vector<std::string>& before : out)
      for (const std::string& word : choice) {
        next.push_back(before);
        next.back().push_back(word);
      }
    out = std::move(next);
  }
  return out;
}

}  // namespace tilec::tools
