// Declarations of variables and parameters, with their initial values.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>

#include "runtime/emulator/ptx_operands.h"

namespace tilec::runtime::emulator {

class PtxDeclarationReader : protected PtxOperandReader {
 protected:
  using PtxOperandReader::PtxOperandReader;

  static int SpaceFromWord(std::string_view w) {
    if (w == ".param") return static_cast<int>(Space::kParam);
    if (w == ".shared") return static_cast<int>(Space::kShared);
    if (w == ".global") return static_cast<int>(Space::kGlobal);
    if (w == ".const") return static_cast<int>(Space::kConst);
    if (w == ".local") return static_cast<int>(Space::kLocal);
    return -1;
  }

  // [.align N] [.vK] .type name [n][m] — shared by parameters and variables.
  bool Declarator(Variable* v) {
    v->line = token_.line;
    uint64_t align = 0, lanes = 1;
    bool typed = false, pointer = false;
    while (token_.kind == Token::Kind::kWord && token_.text[0] == '.') {
      std::string_view w = token_.text;
      if (w == ".align") {
        Advance();
        uint64_t n = 0;
        if (!Int(&n, 1 << 20)) return false;
        if (n == 0 || (n & (n - 1)) != 0) return Fail(".align needs a power of two");
        if (!pointer) align = n;
        continue;
      }
      if (w == ".attribute") {
        Advance();
        if (!SkipTo(')')) return false;
        continue;
      }
      if (w == ".ptr") {
        pointer = true;
      } else if (pointer && SpaceFromWord(w) >= 0) {
      } else if (w == ".v2" || w == ".v4") {
        lanes = w == ".v2" ? 2 : 4;
      } else {
        Type t = TypeFromName(w.substr(1));
        if (t == Type::kNone || t == Type::kPred || typed)
          return Fail("expected a data type, found " + Found());
        v->type = t;
        typed = true;
      }
      Advance();
    }
    if (!typed) return Fail("expected a data type, found " + Found());
    if (!Word(&v->name)) return false;
    uint64_t element = static_cast<uint64_t>(TypeBits(v->type)) / 8 * lanes;
    v->align = static_cast<uint32_t>(align != 0 ? align : element);
    v->bytes = element;
    bool empty = false;
    for (int dims = 0; Accept('['); ++dims) {
      if (dims > 8) return Fail("more than 8 array dimensions");
      if (Accept(']')) {
        empty = true;
        continue;
      }
      uint64_t n = 0;
      if (!Int(&n, kMaxVariableBytes) || !Expect(']')) return false;
      if (__builtin_mul_overflow(v->bytes, n, &v->bytes) || v->bytes > kMaxVariableBytes)
        return TooBig("the size of a variable", n, kMaxVariableBytes);
    }
    if (empty) v->bytes = 0, v->dynamic = true;
    return true;
  }

  bool Initializer(Variable* v) {
    int depth = 0;
    uint64_t width = static_cast<uint64_t>(TypeBits(v->type)) / 8;
    do {
      if (token_.Is('{')) {
        if (++depth > 16) return Fail("initialiser nested too deeply");
        Advance();
        continue;
      }
      if (token_.Is('}')) {
        --depth;
        Advance();
      } else {
        if (token_.kind == Token::Kind::kWord) {
          if (!AddressValue(v)) return false;
          if (depth > 0 && !token_.Is('}') && !Expect(',')) return false;
          continue;
        }
        bool negative = Accept('-');
        uint64_t bits = token_.bits;
        if (token_.kind == Token::Kind::kF64 && v->type == Type::kF32)
          bits = std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(bits)));
        else if (token_.kind != Token::Kind::kInt && token_.kind != Token::Kind::kF32 &&
                 token_.kind != Token::Kind::kF64)
          return Fail("only numbers may initialise a variable here, found " + Found());
        if (negative) {
          const int sign = std::min(TypeBits(v->type), 64) - 1;
          bits = token_.kind == Token::Kind::kInt ? 0 - bits : bits ^ (1ull << sign);
        }
        Advance();
        for (uint64_t i = 0; i < width; ++i)
          v->init.push_back(static_cast<uint8_t>(i < 8 ? bits >> (8 * i) : 0));
        if (v->init.size() > v->bytes && !v->dynamic)
          return Fail("more initialisers than the variable has elements");
      }
      if (depth > 0 && !token_.Is('}') && !Expect(',')) return false;
    } while (depth > 0);
    return true;
  }

  // An initial value that is an address: `f`, `x+8`, `generic(x)`.
  bool AddressValue(Variable* v) {
    Variable::Address a;
    a.at = v->init.size();
    const bool generic = token_.IsWord("generic");
    if (generic) {
      Advance();
      if (!Expect('(')) return false;
    }
    Operand o;
    const int line = token_.line;
    std::string_view name;
    if (!Word(&name)) return false;
    if (scopes_.FindVariable(name, &o))
      a.variable = o.index;
    else
      a.function = FunctionNumber(name, line),
      m_.function_names[static_cast<size_t>(a.function)].address = true;
    if (!Offset(&a.addend) || (generic && !Expect(')')) || !Offset(&a.addend)) return false;
    const Space space =
        a.variable < 0 ? Space::kGlobal : m_.variables[static_cast<size_t>(a.variable)].space;
    if (TypeBits(v->type) != 64 || (space != Space::kGlobal && space != Space::kConst))
      return FailAt(
          line, "an address among initial values must have 64 bits and be one of global memory");
    v->init.resize(v->init.size() + 8);
    if (v->init.size() > v->bytes && !v->dynamic)
      return Fail("more initialisers than the variable has elements");
    v->addresses.push_back(a);
    return true;
  }
};

}  // namespace tilec::runtime::emulator
