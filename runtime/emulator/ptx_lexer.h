// PTX tokens. Hand-written because PTX is irregular: opcodes carry dots and double colons,
// registers carry `%` and component suffixes, numbers may be raw float bits.
//
// The lexer never fails: bytes it does not know become kBad tokens and the parser reports them.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace tilec::runtime::emulator {

struct Token {
  // kWord: identifier, register, opcode or directive, with its dots ("ld.param.u64", "%tid.x",
  // ".visible"). kPunct: one character. kInt, kF32, kF64: a literal.
  enum class Kind : uint8_t { kEnd, kWord, kPunct, kInt, kF32, kF64, kString, kBad };
  Kind kind = Kind::kEnd;
  char punct = 0;
  int line = 0;
  uint64_t bits = 0;
  std::string_view text;
  bool Is(char c) const { return kind == Kind::kPunct && punct == c; }
  bool IsWord(std::string_view w) const { return kind == Kind::kWord && text == w; }
};

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}
  Token Next();

 private:
  void SkipBlank();
  Token Number(Token t);
  std::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
};

}  // namespace tilec::runtime::emulator
