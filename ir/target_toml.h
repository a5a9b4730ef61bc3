// Typed reading of one TOML file, with diagnostics at the place: what a key must be, what stands
// there, and what to write instead. Knows TOML and nothing of machines; ir/target_read.cc knows
// machines.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "ir/target.h"
#include "support/diag.h"
#include "support/result.h"

#define TOML_HEADER_ONLY 0
#include <toml++/toml.h>

namespace tilec::ir {

class TomlReader {
 public:
  // `file`: the id of `text` in the caller's SourceMap, or −1.
  TomlReader(std::string_view text, int32_t file, DiagSink& diags)
      : text_(text), file_(file), diags_(diags) {}

  // Reports `message` as `def` where the node begins.
  DiagBuilder At(const toml::node& node, const std::string& message,
                 const DiagDef* def = nullptr) const;
  DiagBuilder AtPlace(uint32_t line, uint32_t column, const std::string& message,
                      const DiagDef* def = nullptr) const;

  // `table` has no other keys.
  Result<> Known(const toml::table& table, const std::vector<std::string>& keys) const;
  Result<std::string> String(const toml::table& table, const char* key) const;
  Result<std::vector<std::string>> Strings(const toml::table& table, const char* key) const;
  Result<int64_t> Integer(const toml::table& table, const char* key, int64_t low,
                          int64_t high) const;
  Result<double> Number(const toml::table& table, const char* key, double low, double high) const;
  Result<bool> Flag(const toml::table& table, const char* key) const;  // absent: false
  // Is the text one of `words`? `what`: of which kind they are, "limit".
  Result<> OneOf(const toml::node& node, const std::string& text, const char* what,
                 const std::vector<std::string>& words) const;
  Result<Origin> ReadOrigin(const toml::table& table) const;
  // A number, or { base = 56, flops = 0.0002 }.
  Result<Linear> ReadLinear(const toml::node& node, const std::string& key) const;
  Result<Linear> LinearOf(const toml::table& table, const char* key) const;

  // Each table of [[key]]; none: nothing.
  template <typename F>
  Result<> Tables(const toml::table& root, const char* key, const F& read) const {
    const toml::node* node = root.get(key);
    if (node == nullptr) return Done();
    const toml::array* array = node->as_array();
    if (array == nullptr) return At(*node, fmt::format("`{}` is not [[{}]]", key, key));
    for (const toml::node& item : *array) {
      if (!item.is_table()) return At(item, fmt::format("`{}` is not [[{}]]", key, key));
      TRY_VOID(read(*item.as_table()));
    }
    return Done();
  }

 private:
  Result<const toml::node*> Needed(const toml::table& table, const char* key,
                                   const char* example) const;

  const std::string_view text_;
  const int32_t file_;
  DiagSink& diags_;
};

}  // namespace tilec::ir
