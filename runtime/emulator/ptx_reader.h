// Tokens with one of look-ahead, the small steps every rule of the PTX parser is made of, and the
// limits that keep hostile texts from exhausting the machine.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include "runtime/emulator/diagnostics.h"
#include "runtime/emulator/ptx_ast.h"
#include "runtime/emulator/ptx_lexer.h"

namespace tilec::runtime::emulator {

inline constexpr size_t kMaxText = 64u << 20;
inline constexpr size_t kMaxStatements = 1u << 20;
inline constexpr size_t kMaxRegisters = 1u << 20;
inline constexpr size_t kMaxScopes = 200;
inline constexpr size_t kMaxParts = 512;
inline constexpr uint64_t kMaxVariableBytes = 1u << 30;
inline constexpr uint64_t kMaxSpaceBytes[] = {32764, 256u << 10, 4ull << 30, 64u << 10, 512u << 10};

class PtxReader {
 protected:
  PtxReader(std::string_view text, const PtxPlaces& places, DiagSink& diags)
      : places_(places), diags_(diags), lexer_(text) {
    Advance();
    Advance();
  }

  void Advance() {
    token_ = next_;
    next_ = lexer_.Next();
  }
  bool Fail(std::string what) { return FailAt(token_.line, std::move(what)); }
  bool FailAt(int line, std::string what) {
    places_.At(diags_.Report(kPtxSyntax, {}, what), line);
    return false;
  }
  bool TooBig(std::string_view what, uint64_t n, uint64_t limit) {
    places_.At(diags_.Report(kPtxTooBig, {}, what, n, limit), token_.line);
    return false;
  }
  std::string Found() const {
    switch (token_.kind) {
      case Token::Kind::kEnd: return "the end of the text";
      case Token::Kind::kBad: return "bytes that are no PTX token";
      case Token::Kind::kString: return "a string";
      case Token::Kind::kWord:
      case Token::Kind::kPunct:
      case Token::Kind::kInt:
      case Token::Kind::kF32:
      case Token::Kind::kF64: break;
    }
    return "`" + std::string(token_.text.substr(0, 60)) + "`";
  }
  bool Expect(char c) {
    if (!token_.Is(c)) return Fail(fmt::format("expected `{}`, found {}", c, Found()));
    Advance();
    return true;
  }
  bool Accept(char c) {
    if (!token_.Is(c)) return false;
    Advance();
    return true;
  }
  bool Int(uint64_t* out, uint64_t limit) {
    if (token_.kind != Token::Kind::kInt) return Fail("expected a number, found " + Found());
    if (token_.bits > limit) return TooBig("a number", token_.bits, limit);
    *out = token_.bits;
    Advance();
    return true;
  }
  bool Word(std::string_view* out) {
    if (token_.kind != Token::Kind::kWord || token_.text[0] == '.')
      return Fail("expected a name, found " + Found());
    *out = token_.text;
    Advance();
    return true;
  }
  void SkipLine() {
    int line = token_.line;
    while (token_.kind != Token::Kind::kEnd && token_.line == line) Advance();
  }
  bool SkipTo(char c) {
    while (token_.kind != Token::Kind::kEnd && !token_.Is(c)) Advance();
    return Expect(c);
  }
  bool SkipBraces() {
    int depth = 0;
    do {
      if (token_.kind == Token::Kind::kEnd) return Fail("a `{` is never closed");
      if (token_.Is('{')) ++depth;
      if (token_.Is('}')) --depth;
      Advance();
    } while (depth > 0);
    return true;
  }

  const PtxPlaces& places_;
  DiagSink& diags_;
  Lexer lexer_;
  Token token_, next_;
};

}  // namespace tilec::runtime::emulator
