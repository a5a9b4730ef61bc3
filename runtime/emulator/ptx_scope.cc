// See ptx_scope.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/ptx_scope.h"

namespace tilec::runtime::emulator {

bool ScopeStack::Declare(Scope& scope, std::vector<Register>* all, std::string_view name,
                         Register r) {
  if (all->size() >= kMaxRegisters) return false;
  if (!scope.registers.emplace(name, static_cast<RegId>(all->size())).second) return false;
  all->push_back(r);
  return true;
}

bool ScopeStack::FindVariable(std::string_view name, Operand* o) const {
  for (size_t i = scopes_.size(); i-- > 0;) {
    auto it = scopes_[i].variables.find(name);
    if (it == scopes_[i].variables.end()) continue;
    o->kind = Operand::Kind::kSymbol;
    o->index = it->second;
    return true;
  }
  return false;
}

bool ScopeStack::Find(std::string_view name, std::vector<Register>* all, Operand* o) {
  size_t digits = name.size();
  while (digits > 1 && name[digits - 1] >= '0' && name[digits - 1] <= '9') --digits;
  std::string_view prefix = name.substr(0, digits), number = name.substr(digits);
  bool indexed = !number.empty() && number.size() <= 9 && (number.size() == 1 || number[0] != '0');
  for (size_t i = scopes_.size(); i-- > 0;) {
    Scope& scope = scopes_[i];
    if (auto it = scope.registers.find(name); it != scope.registers.end()) {
      o->kind = Operand::Kind::kRegister;
      o->reg = it->second;
      return true;
    }
    if (auto it = scope.variables.find(name); it != scope.variables.end()) {
      o->kind = Operand::Kind::kSymbol;
      o->index = it->second;
      return true;
    }
    if (!indexed) continue;
    auto it = scope.ranges.find(prefix);
    if (it == scope.ranges.end()) continue;
    uint64_t n = 0;
    for (char c : number) n = n * 10 + static_cast<uint64_t>(c - '0');
    if (n >= it->second.count) continue;
    if (!Declare(scope, all, name, {prefix, static_cast<uint32_t>(n), true, it->second.type}))
      return false;
    o->kind = Operand::Kind::kRegister;
    o->reg = static_cast<RegId>(all->size()) - 1;
    return true;
  }
  int special = SpecialFromName(name);
  if (special < 0) return false;
  o->kind = Operand::Kind::kSpecial;
  o->index = special;
  return true;
}

}  // namespace tilec::runtime::emulator
