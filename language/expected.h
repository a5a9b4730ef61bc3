// The set of tokens that would have fitted, and what of it tells where we are: at the start of a
// statement, inside an expression.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <vector>

#include "language/diagnostics.h"
#include "language/tokens.h"

namespace tilec::language::internal {

using K = TokenKind;

class Expected {
 public:
  explicit Expected(const std::vector<K>& kinds) {
    for (K k : kinds) has_[static_cast<int>(k)] = true;
  }
  bool Has(K k) const { return has_[static_cast<int>(k)]; }
  bool Only(std::initializer_list<K> kinds) const {
    Expected copy = *this;
    copy.Drop(kinds);
    return !std::ranges::any_of(copy.has_, [](bool b) { return b; });
  }
  void Drop(std::initializer_list<K> kinds) {
    for (K k : kinds) has_[static_cast<int>(k)] = false;
  }
  bool Statement() const { return Has(K::kLet) && Has(K::kFor); }
  bool Items() const { return Has(K::kKernel) && Has(K::kImport); }
  bool Operand() const { return Has(K::kInt); }
  bool Operator() const { return Has(K::kPlus) && Has(K::kAt); }

 private:
  bool has_[std::size(kTokens)] = {};
};

constexpr std::initializer_list<K> kSoftWords = {K::kName,    K::kOut,  K::kInOut,   K::kStep,
                                                 K::kStrided, K::kTest, K::kOptional};
constexpr std::initializer_list<K> kOperandStarts = {
    K::kInt, K::kFloat, K::kString, K::kTrue, K::kFalse, K::kMinus, K::kNot, K::kIf, K::kLParen};
constexpr std::initializer_list<K> kStatementStarts = {
    K::kTune, K::kLet,   K::kVar, K::kReturn, K::kBreak,       K::kParallel,
    K::kFor,  K::kWhile, K::kIf,  K::kEnd,    K::kHashBracket, K::kWhere};
constexpr std::initializer_list<K> kItemStarts = {K::kImport, K::kKernel,      K::kFn,  K::kConst,
                                                  K::kTest,   K::kHashBracket, K::kEnd, K::kEof};
constexpr std::initializer_list<K> kOperators = {
    K::kOr,        K::kAnd, K::kEqEq,   K::kNotEq,    K::kLess,  K::kLessEq, K::kGreater,
    K::kGreaterEq, K::kIn,  K::kDotDot, K::kPlus,     K::kMinus, K::kStar,   K::kSlash,
    K::kPercent,   K::kAt,  K::kAs,     K::kLBracket, K::kDot,   K::kLParen};
constexpr std::initializer_list<K> kAssigns = {K::kAssign, K::kAddAssign, K::kSubAssign,
                                               K::kMulAssign, K::kDivAssign};

inline bool ClosesBracket(K k) { return k == K::kRParen || k == K::kRBracket || k == K::kRBrace; }
inline bool OpensBracket(K k) {
  return k == K::kLParen || k == K::kLBracket || k == K::kLBrace || k == K::kHashBracket;
}
// The table has a description, not a spelling.
inline bool IsDescribed(K k) {
  const TokenClass c = InfoOf(k).token_class;
  return c == TokenClass::kLayout || c == TokenClass::kValue;
}
inline bool IsKeyword(K k) { return InfoOf(k).token_class == TokenClass::kKeyword; }
inline bool IsBinary(K k) {
  return std::ranges::find(kOperators, k) != kOperators.end() && k != K::kLParen &&
         k != K::kLBracket;
}
inline bool EndsStatement(K k) { return k == K::kEnd || k == K::kEof || k == K::kRBrace; }

inline std::string JoinWords(const std::vector<std::string>& words) {
  std::string out;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i > 0) out += i + 1 == words.size() ? " or " : ", ";
    out += words[i];
  }
  return out;
}

}  // namespace tilec::language::internal
