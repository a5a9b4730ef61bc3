// See ptx_lexer.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/ptx_lexer.h"

#include <bit>
#include <charconv>

namespace tilec::runtime::emulator {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsWordStart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c == '%' ||
         c == '.';
}
bool IsWordChar(char c) { return IsWordStart(c) || IsDigit(c); }

int HexValue(char c) {
  if (IsDigit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 99;
}

// Digits of `base`; returns how many were read, −1 on overflow.
int ReadInt(std::string_view s, int base, uint64_t* out) {
  uint64_t v = 0;
  size_t i = 0;
  for (; i < s.size(); ++i) {
    int d = HexValue(s[i]);
    if (d >= base) break;
    uint64_t next = 0;
    if (__builtin_mul_overflow(v, static_cast<uint64_t>(base), &next) ||
        __builtin_add_overflow(next, static_cast<uint64_t>(d), &v))
      return -1;
  }
  *out = v;
  return static_cast<int>(i);
}

}  // namespace

void Lexer::SkipBlank() {
  while (at_ < text_.size()) {
    char c = text_[at_];
    if (c == '\n') {
      ++line_, ++at_;
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\0') {
      ++at_;
    } else if (c == '/' && at_ + 1 < text_.size() && text_[at_ + 1] == '/') {
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    } else if (c == '/' && at_ + 1 < text_.size() && text_[at_ + 1] == '*') {
      at_ += 2;
      while (at_ < text_.size() &&
             !(text_[at_] == '*' && at_ + 1 < text_.size() && text_[at_ + 1] == '/')) {
        if (text_[at_] == '\n') ++line_;
        ++at_;
      }
      at_ = at_ + 2 < text_.size() ? at_ + 2 : text_.size();
    } else {
      return;
    }
  }
}

Token Lexer::Number(Token t) {
  std::string_view rest = text_.substr(at_);
  t.kind = Token::Kind::kInt;
  int base = 10;
  size_t skip = 0;
  if (rest.size() > 1 && rest[0] == '0') {
    char k = rest[1];
    if (k == 'x' || k == 'X') base = 16, skip = 2;
    if (k == 'b' || k == 'B') base = 2, skip = 2;
    if (IsDigit(k)) base = 8, skip = 1;
    bool f32 = k == 'f' || k == 'F', f64 = k == 'd' || k == 'D';
    if (f32 || f64) {
      std::string_view digits = rest.substr(2, f32 ? 8 : 16);
      int n = ReadInt(digits, 16, &t.bits);
      at_ += 2 + static_cast<size_t>(n < 0 ? 0 : n);
      t.kind = n != (f32 ? 8 : 16) ? Token::Kind::kBad
               : f32               ? Token::Kind::kF32
                                   : Token::Kind::kF64;
      t.text = text_.substr(text_.size() - rest.size(), at_ - (text_.size() - rest.size()));
      return t;
    }
  }
  int n = ReadInt(rest.substr(skip), base, &t.bits);
  size_t end = skip + static_cast<size_t>(n < 0 ? 0 : n);
  bool bad = n < 0 || (n == 0 && skip == 2);
  // A decimal float: 1.5, 1e3.
  if (base != 16 && base != 2 && end < rest.size() &&
      ((rest[end] == '.' && end + 1 < rest.size() && IsDigit(rest[end + 1])) || rest[end] == 'e' ||
       rest[end] == 'E')) {
    double d = 0;
    auto r = std::from_chars(rest.data(), rest.data() + rest.size(), d);
    end = static_cast<size_t>(r.ptr - rest.data());
    bad = r.ec != std::errc() || end == 0;
    t.kind = Token::Kind::kF64;
    t.bits = std::bit_cast<uint64_t>(d);
  } else if (end < rest.size() && rest[end] == 'U') {
    ++end;
  }
  if (end == 0) end = 1;
  if (end < rest.size() && (IsDigit(rest[end]) || HexValue(rest[end]) < 16) && !bad) bad = true;
  if (bad) t.kind = Token::Kind::kBad;
  t.text = rest.substr(0, end);
  at_ += end;
  return t;
}

Token Lexer::Next() {
  SkipBlank();
  Token t;
  t.line = line_;
  if (at_ >= text_.size()) return t;
  char c = text_[at_];
  if (IsDigit(c)) return Number(t);
  if (IsWordStart(c)) {
    size_t end = at_ + 1;
    while (end < text_.size()) {
      if (c == '.' && text_[end] == '.') break;  // `.reg.b16`: two directives
      if (IsWordChar(text_[end])) {
        ++end;
      } else if (text_[end] == ':' && end + 2 < text_.size() && text_[end + 1] == ':' &&
                 IsWordChar(text_[end + 2])) {
        end += 2;
      } else {
        break;
      }
    }
    t.kind = Token::Kind::kWord;
    t.text = text_.substr(at_, end - at_);
    at_ = end;
    return t;
  }
  if (c == '"') {
    size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != '"' && text_[end] != '\n') ++end;
    t.kind = end < text_.size() && text_[end] == '"' ? Token::Kind::kString : Token::Kind::kBad;
    t.text = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end < text_.size() ? end + 1 : end;
    return t;
  }
  static constexpr std::string_view kPunctuation = "{}[]()<>,;:@!|+-=*&~?/";
  t.kind = kPunctuation.find(c) != std::string_view::npos ? Token::Kind::kPunct : Token::Kind::kBad;
  t.punct = c;
  t.text = text_.substr(at_, 1);
  ++at_;
  return t;
}

}  // namespace tilec::runtime::emulator
