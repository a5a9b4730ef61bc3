// Names of nested scopes: registers (also ranges, `%r<10>`), variables and labels.
//
// A register of a range gets its id when it is first named, so a range costs nothing.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/emulator/ptx_ast.h"
#include "runtime/emulator/ptx_reader.h"

namespace tilec::runtime::emulator {

struct RegisterRange {
  uint64_t count;
  Type type;
};

struct Scope {
  std::unordered_map<std::string_view, RegId> registers;
  std::unordered_map<std::string_view, RegisterRange> ranges;
  std::unordered_map<std::string_view, int32_t> variables;
  std::unordered_map<std::string_view, int32_t> labels;
  std::vector<std::pair<int32_t, std::string_view>> pending;  // branch statement, its label
  // Lists of branch targets by name, and their labels that are not known yet.
  std::unordered_map<std::string_view, size_t> tables;
  struct TableEntry {
    size_t table, slot;
    std::string_view label;
  };
  std::vector<TableEntry> table_entries;
};

class ScopeStack {
 public:
  void Open() { scopes_.emplace_back(); }
  void Close() { scopes_.pop_back(); }
  size_t size() const { return scopes_.size(); }
  Scope& back() { return scopes_.back(); }
  Scope& at(size_t k) { return scopes_[k]; }

  // False: too many registers, or the scope has one of this name.
  bool Declare(Scope& scope, std::vector<Register>* all, std::string_view name, Register r);
  // Looks a name up, innermost scope first; fills `o` if it is known.
  bool Find(std::string_view name, std::vector<Register>* all, Operand* o);
  bool FindVariable(std::string_view name, Operand* o) const;

 private:
  std::vector<Scope> scopes_;
};

}  // namespace tilec::runtime::emulator
