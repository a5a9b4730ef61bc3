// Operands: registers, numbers, names, vectors, addresses.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unordered_map>

#include "runtime/emulator/ptx_debug.h"
#include "runtime/emulator/ptx_scope.h"

namespace tilec::runtime::emulator {

inline constexpr size_t kMaxFunctions = 1u << 16;
inline constexpr size_t kMaxTargets = 1u << 12;

class PtxOperandReader : protected PtxDebugReader {
 protected:
  PtxOperandReader(PtxModule* module, const PtxPlaces& places, DiagSink& diags)
      : PtxDebugReader(module->text, places, diags), m_(*module) {}

  // The number of a function that is named here, maybe for the first time.
  int32_t FunctionNumber(std::string_view name, int line) {
    auto [it, added] = functions_.emplace(name, m_.function_names.size());
    if (added) m_.function_names.push_back({name, -1, false, false, line});
    return static_cast<int32_t>(it->second);
  }
  int32_t FindFunction(std::string_view name) const {
    auto it = functions_.find(name);
    return it == functions_.end() ? -1 : static_cast<int32_t>(it->second);
  }

  bool Undefined(std::string_view name, int line) {
    if (diags_.has_errors()) return false;  // a limit was hit
    places_.At(diags_.Report(kPtxUndefined, {}, name), line);
    return false;
  }

  bool NamedOperand(Operand* o) {
    std::string_view name = token_.text;
    int line = token_.line;
    if (name[0] == '.') return Fail("expected an operand, found " + Found());
    Advance();
    if (name == "_") {
      o->kind = Operand::Kind::kSink;
      return true;
    }
    if (name == "WARP_SZ") {
      o->kind = Operand::Kind::kInt;
      o->bits = 32;
      return true;
    }
    if (scopes_.Find(name, &entry_->registers, o)) return true;
    if (const int32_t f = FindFunction(name); f >= 0) {
      o->kind = Operand::Kind::kFunction;
      o->index = f;
      return true;
    }
    if (entry_->registers.size() >= kMaxRegisters)
      return TooBig("the number of registers", entry_->registers.size() + 1, kMaxRegisters);
    return Undefined(name, line);
  }

  // Sums of signed integers after a base: +4, +-16, -8.
  bool Offset(uint64_t* sum) {
    while (token_.Is('+') || token_.Is('-')) {
      bool negative = token_.Is('-');
      Advance();
      if (Accept('-')) negative = !negative;
      if (token_.kind != Token::Kind::kInt) return Fail("expected a number, found " + Found());
      *sum += negative ? 0 - token_.bits : token_.bits;
      Advance();
    }
    return true;
  }

  bool Value(Operand* o) {
    if (Accept('!')) {
      o->negated = true;
      if (token_.kind != Token::Kind::kWord) return Fail("expected a predicate, found " + Found());
      return NamedOperand(o);
    }
    bool negative = false, invert = false;
    while (token_.Is('-') || token_.Is('+') || token_.Is('~')) {
      if (token_.Is('-')) negative = !negative;
      if (token_.Is('~')) invert = !invert;
      Advance();
    }
    switch (token_.kind) {
      case Token::Kind::kInt:
        o->kind = Operand::Kind::kInt;
        o->bits = negative ? 0 - token_.bits : token_.bits;
        if (invert) o->bits = ~o->bits;
        Advance();
        return Offset(&o->bits);
      case Token::Kind::kF32:
        o->kind = Operand::Kind::kF32;
        o->bits = negative ? token_.bits ^ 0x80000000u : token_.bits;
        Advance();
        return true;
      case Token::Kind::kF64:
        o->kind = Operand::Kind::kF64;
        o->bits = negative ? token_.bits ^ (1ull << 63) : token_.bits;
        Advance();
        return true;
      case Token::Kind::kWord: {
        if (negative || invert) return Fail("expected a number, found " + Found());
        if (!NamedOperand(o)) return false;
        if (o->kind == Operand::Kind::kSymbol) return Offset(&o->bits);
        return true;
      }
      case Token::Kind::kEnd:
      case Token::Kind::kPunct:
      case Token::Kind::kString:
      case Token::Kind::kBad: break;
    }
    return Fail("expected an operand, found " + Found());
  }

  bool Vector(Operand* o, char end = '}') {
    o->kind = Operand::Kind::kVector;
    do {
      if (o->parts.size() >= kMaxParts)
        return TooBig("a vector operand", o->parts.size(), kMaxParts);
      o->parts.emplace_back();
      if (!Value(&o->parts.back())) return false;
    } while (Accept(','));
    return Expect(end);
  }

  bool Address(Operand* o) {
    o->kind = Operand::Kind::kAddress;
    o->parts.emplace_back();
    if (!Value(&o->parts[0]) || !Offset(&o->bits)) return false;
    while (Accept(',')) {
      if (o->parts.size() > 4) return Fail("an address has too many parts");
      o->parts.emplace_back();
      if (Accept('{') ? !Vector(&o->parts.back()) : !Value(&o->parts.back())) return false;
    }
    return Expect(']');
  }

  bool AnyOperand(Operand* o) {
    if (Accept('{')) return Vector(o);
    if (Accept('[')) return Address(o);
    if (!Value(o)) return false;
    if (!Accept('|')) return true;
    o->second.emplace_back();
    return Value(&o->second[0]);
  }

  PtxModule& m_;
  ScopeStack scopes_;
  Entry* entry_ = nullptr;  // or function
  std::unordered_map<std::string_view, size_t> functions_;
};

}  // namespace tilec::runtime::emulator
