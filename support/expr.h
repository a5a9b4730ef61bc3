// Launch-time integer expressions as data: tensor extents (`2*N`, `K/G`), grid sizes, trip counts,
// `where` facts. They cross every layer (IR → KernelImage → launcher), are evaluated with the
// launch's NAME=VALUE table, and print and parse as text. Integers are i64; `/` and `%` floor
// (towards minus infinity); comparisons and logic yield 0 or 1.
//
// Text form: fully parenthesised infix, e.g. "(M + 127) / 128" prints as "((M + 127) / 128)".
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tilec {

struct Expr {
  enum class Op {
    kConst,
    kName,
    kAdd,
    kSub,
    kMul,
    kDiv,
    kMod,
    kMin,
    kMax,
    kCeilDiv,
    kEq,
    kNe,
    kLt,
    kLe,
    kGt,
    kGe,
    kAnd,
    kOr,
    kNot
  };
  Op op = Op::kConst;
  int64_t value = 0;       // kConst
  std::string name;        // kName
  std::vector<Expr> args;  // the rest: two, kNot one

  static Expr Const(int64_t v);
  static Expr Name(std::string n);
  static Expr Make(Op op, Expr a, Expr b);
  static Expr Not(Expr a);

  bool is_const() const { return op == Op::kConst; }
  bool operator==(const Expr&) const = default;
};

using Bindings = std::map<std::string, int64_t>;

// Value under `names`; nullopt if a name is missing, a division is by zero, or i64 overflows.
// If `missing` is given, the first unbound name is stored there.
std::optional<int64_t> Eval(const Expr& e, const Bindings& names, std::string* missing = nullptr);
// Replaces bound names by constants and folds.
Expr Simplify(const Expr& e, const Bindings& names = {});
// Names in order of first occurrence.
std::vector<std::string> NamesIn(const Expr& e);
std::string ToText(const Expr& e);
// Inverse of ToText; also accepts ordinary precedence. nullopt on damaged text.
std::optional<Expr> ParseExpr(std::string_view text);

// Floor division and modulus (b != 0).
int64_t FloorDiv(int64_t a, int64_t b);
int64_t FloorMod(int64_t a, int64_t b);
inline int64_t CeilDiv(int64_t a, int64_t b) { return -FloorDiv(-a, b); }
inline int64_t RoundUp(int64_t a, int64_t b) { return CeilDiv(a, b) * b; }

}  // namespace tilec
