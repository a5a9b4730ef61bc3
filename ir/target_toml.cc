// SPDX-License-Identifier: Apache-2.0
#include "ir/target_toml.h"

#include <algorithm>

#include "ir/diagnostics.h"
#include "support/nearest.h"

namespace tilec::ir {

namespace {
constexpr double kMostTomlCost = 1e9;
}

DiagBuilder TomlReader::At(const toml::node& node, const std::string& message,
                           const DiagDef* def) const {
  return AtPlace(node.source().begin.line, node.source().begin.column, message, def);
}

DiagBuilder TomlReader::AtPlace(uint32_t line, uint32_t column, const std::string& message,
                                const DiagDef* def) const {
  if (def == nullptr) def = &kMachineFile;
  if (file_ < 0)
    return diags_.Report(*def, Span{}, message).Place(fmt::format("machine file, line {}", line));
  size_t offset = 0;
  for (uint32_t i = 1; i < line && offset < text_.size(); ++i)
    offset = std::min(text_.find('\n', offset), text_.size() - 1) + 1;
  offset = std::min(text_.size(), offset + (column > 0 ? column - 1 : 0));
  const auto begin = static_cast<uint32_t>(offset);
  return diags_.Report(*def, Span{file_, begin, begin}, message);
}

Result<> TomlReader::Known(const toml::table& table, const std::vector<std::string>& keys) const {
  for (const auto& [key, node] : table) {
    const std::string_view name = key.str();
    if (std::find(keys.begin(), keys.end(), name) != keys.end()) continue;
    DiagBuilder builder = AtPlace(key.source().begin.line, key.source().begin.column,
                                  fmt::format("there is no key `{}` here", name));
    const std::string near = NearestName(name, keys);
    builder.Help(near.empty() ? fmt::format("the keys are {}", fmt::join(keys, ", "))
                              : fmt::format("did you mean `{}`?", near));
    return builder;
  }
  return Done();
}

Result<const toml::node*> TomlReader::Needed(const toml::table& table, const char* key,
                                             const char* example) const {
  const toml::node* node = table.get(key);
  if (node != nullptr) return node;
  return At(table, fmt::format("there is no `{}` here", key))
      .Help(fmt::format("write {} = {}", key, example));
}

Result<std::string> TomlReader::String(const toml::table& table, const char* key) const {
  TRY(const toml::node* node, Needed(table, key, "\"…\""));
  const auto value = node->value<std::string>();
  if (node->is_string() && !value->empty()) return *value;
  return At(*node, fmt::format("`{}` is not a text", key));
}

Result<std::vector<std::string>> TomlReader::Strings(const toml::table& table,
                                                     const char* key) const {
  std::vector<std::string> strings;
  TRY(const toml::node* given, Needed(table, key, "[\"…\", \"…\"]"));
  const toml::array* array = given->as_array();
  if (array == nullptr) return At(*given, fmt::format("`{}` is not a list of texts", key));
  for (const toml::node& node : *array) {
    if (!node.is_string()) return At(node, fmt::format("`{}` is not a list of texts", key));
    strings.push_back(*node.value<std::string>());
  }
  return strings;
}

Result<int64_t> TomlReader::Integer(const toml::table& table, const char* key, int64_t low,
                                    int64_t high) const {
  TRY(const toml::node* node, Needed(table, key, "a whole number"));
  if (!node->is_integer()) return At(*node, fmt::format("`{}` is not a whole number", key));
  const int64_t value = *node->value<int64_t>();
  if (value >= low && value <= high) return value;
  return At(*node, fmt::format("`{}` is {}, not in {}…{}", key, value, low, high));
}

Result<double> TomlReader::Number(const toml::table& table, const char* key, double low,
                                  double high) const {
  TRY(const toml::node* node, Needed(table, key, "a number"));
  const auto value = node->value<double>();
  if (!node->is_number() || !value) return At(*node, fmt::format("`{}` is not a number", key));
  if (*value >= low && *value <= high) return *value;
  return At(*node, fmt::format("`{}` is {}, not in {}…{}", key, *value, low, high));
}

Result<bool> TomlReader::Flag(const toml::table& table, const char* key) const {
  const toml::node* node = table.get(key);
  if (node == nullptr) return false;
  if (!node->is_boolean()) return At(*node, fmt::format("`{}` is not true or false", key));
  return *node->value<bool>();
}

Result<> TomlReader::OneOf(const toml::node& node, const std::string& text, const char* what,
                           const std::vector<std::string>& words) const {
  if (std::find(words.begin(), words.end(), text) != words.end()) return Done();
  DiagBuilder builder = At(node, fmt::format("there is no {} `{}`", what, text));
  const std::string near = NearestName(text, words);
  builder.Help(near.empty() ? fmt::format("there are {}", fmt::join(words, ", "))
                            : fmt::format("did you mean `{}`?", near));
  return builder;
}

Result<Origin> TomlReader::ReadOrigin(const toml::table& table) const {
  Origin origin;
  TRY(const std::string tag, String(table, "tag"));
  TRY(origin.source, String(table, "source"));
  for (Evidence e : {Evidence::kMeasured, Evidence::kDocumented, Evidence::kAssumed})
    if (tag == Spelling(e)) {
      origin.evidence = e;
      return origin;
    }
  return At(*table.get("tag"), fmt::format("`{}` is no tag", tag))
      .Help("an entry is `measured`, `documented` or `assumed`");
}

Result<Linear> TomlReader::ReadLinear(const toml::node& node, const std::string& key) const {
  Linear linear;
  auto number = [&](const toml::node& n, double* to) {
    const auto value = n.value<double>();
    if (!n.is_number() || !value || !(*value >= 0) || *value > kMostTomlCost) return false;
    *to = *value;
    return true;
  };
  if (number(node, &linear.base)) return linear;
  const toml::table* table = node.as_table();
  if (table == nullptr)
    return At(node, fmt::format("`{}` is neither a cost >= 0 nor a table of them", key));
  std::vector<std::string> keys = {"base"};
  for (const auto& [quantity, member] : kQuantities) keys.push_back(quantity);
  TRY_VOID(Known(*table, keys));
  for (const auto& [name, part] : *table) {
    double* field = &linear.base;
    for (const auto& [quantity, member] : kQuantities)
      if (name.str() == quantity) field = &(linear.per.*member);
    if (!number(part, field))
      return At(part, fmt::format("`{}` is not a cost >= 0", std::string_view(name.str())));
  }
  return linear;
}

Result<Linear> TomlReader::LinearOf(const toml::table& table, const char* key) const {
  TRY(const toml::node* node, Needed(table, key, "a number, or { base = …, elements = … }"));
  return ReadLinear(*node, key);
}

}  // namespace tilec::ir
