// Reads a machine file: what each key means, and which machines contradict themselves.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ir/diagnostics.h"
#include "ir/target.h"
#include "ir/target_toml.h"

namespace tilec::ir {

class TargetReader {
 public:
  TargetReader(std::string_view text, int32_t file, DiagSink& diags, int depth)
      : toml_(text, file, diags), diags_(diags), depth_(depth) {}

  Result<Target> Read(std::string_view text);

 private:
  struct Row {
    const char* section;
    const char* name;
    double low, high;
    int64_t* whole;  // one of the two
    double* real;
  };
  std::vector<Row> Rows();

  Result<> ReadBase(const toml::table& root);
  Result<> ReadLimit(const toml::table& table);
  Result<> ReadSection(const toml::table& root, const char* section);
  Result<> ReadMatrixUnit(const toml::table& root);
  Result<> ReadUnit(const toml::table& table);
  Result<> ReadOp(const toml::table& table);
  Result<> ReadUses(const toml::table& use, OpCost* cost);
  Result<> ReadTransfer(const toml::table& table);
  Result<int64_t> Percent(const toml::table& table, const char* key);
  int UnitIndex(std::string_view name) const;

  Result<> CheckComplete(const toml::table& root);
  Result<> CheckArchitecture(const toml::table& root);
  Result<> CheckNumbers(const toml::table& root);
  DiagBuilder Contradicts(const toml::table& root, const char* key, const std::string& message);

  TomlReader toml_;
  DiagSink& diags_;
  const int depth_;
  bool extends_ = false, changes_ = false;
  Target target_;
  std::map<std::string, const toml::node*> given_;  // "section.name" of this file
};

}  // namespace tilec::ir
