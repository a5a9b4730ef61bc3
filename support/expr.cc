// SPDX-License-Identifier: Apache-2.0
#include "support/expr.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "support/apply_op.h"

namespace tilec {

int64_t FloorDiv(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return (a % b != 0 && ((a < 0) != (b < 0))) ? q - 1 : q;
}
int64_t FloorMod(int64_t a, int64_t b) { return a - FloorDiv(a, b) * b; }

Expr Expr::Const(int64_t v) {
  Expr e;
  e.value = v;
  return e;
}
Expr Expr::Name(std::string n) {
  Expr e;
  e.op = Op::kName;
  e.name = std::move(n);
  return e;
}
Expr Expr::Make(Op op, Expr a, Expr b) {
  Expr e;
  e.op = op;
  e.args.push_back(std::move(a));
  e.args.push_back(std::move(b));
  return e;
}
Expr Expr::Not(Expr a) {
  Expr e;
  e.op = Op::kNot;
  e.args.push_back(std::move(a));
  return e;
}

std::optional<int64_t> ApplyOp(Expr::Op op, int64_t a, int64_t b) {
  int64_t r = 0;
  switch (op) {
    case Expr::Op::kAdd: return __builtin_add_overflow(a, b, &r) ? std::nullopt : std::optional(r);
    case Expr::Op::kSub: return __builtin_sub_overflow(a, b, &r) ? std::nullopt : std::optional(r);
    case Expr::Op::kMul: return __builtin_mul_overflow(a, b, &r) ? std::nullopt : std::optional(r);
    case Expr::Op::kDiv:
    case Expr::Op::kMod:
    case Expr::Op::kCeilDiv:
      if (b == 0 || (a == INT64_MIN && b == -1)) return std::nullopt;
      if (op == Expr::Op::kDiv) return FloorDiv(a, b);
      if (op == Expr::Op::kMod) return FloorMod(a, b);
      return FloorDiv(a, b) + (FloorMod(a, b) != 0);
    case Expr::Op::kMin: return std::min(a, b);
    case Expr::Op::kMax: return std::max(a, b);
    case Expr::Op::kEq: return a == b;
    case Expr::Op::kNe: return a != b;
    case Expr::Op::kLt: return a < b;
    case Expr::Op::kLe: return a <= b;
    case Expr::Op::kGt: return a > b;
    case Expr::Op::kGe: return a >= b;
    case Expr::Op::kAnd: return a != 0 && b != 0;
    case Expr::Op::kOr: return a != 0 || b != 0;
    case Expr::Op::kConst:
    case Expr::Op::kName:
    case Expr::Op::kNot: break;
  }
  return std::nullopt;
}

namespace {

struct Spelling {
  Expr::Op op;
  const char* text;
  int precedence;  // 0: written as a call
};
constexpr Spelling kSpellings[] = {
    {Expr::Op::kOr, "or", 1},   {Expr::Op::kAnd, "and", 2},
    {Expr::Op::kEq, "==", 4},   {Expr::Op::kNe, "!=", 4},
    {Expr::Op::kLe, "<=", 4},   {Expr::Op::kGe, ">=", 4},
    {Expr::Op::kLt, "<", 4},    {Expr::Op::kGt, ">", 4},
    {Expr::Op::kAdd, "+", 5},   {Expr::Op::kSub, "-", 5},
    {Expr::Op::kMul, "*", 6},   {Expr::Op::kDiv, "/", 6},
    {Expr::Op::kMod, "%", 6},   {Expr::Op::kMin, "min", 0},
    {Expr::Op::kMax, "max", 0}, {Expr::Op::kCeilDiv, "ceildiv", 0},
};

const Spelling* SpellingOf(Expr::Op op) {
  for (const Spelling& s : kSpellings)
    if (s.op == op) return &s;
  return nullptr;
}

// Recursive descent; depth bounded so hostile text cannot exhaust the stack.
struct Parser {
  std::string_view text;
  size_t pos = 0;
  int depth = 0;

  void Skip() {
    while (pos < text.size() && std::isspace(static_cast<unsigned char>(text[pos]))) ++pos;
  }
  bool Eat(std::string_view s) {
    Skip();
    if (text.substr(pos, s.size()) != s) return false;
    if (std::isalpha(static_cast<unsigned char>(s[0])) && pos + s.size() < text.size() &&
        (std::isalnum(static_cast<unsigned char>(text[pos + s.size()])) ||
         text[pos + s.size()] == '_'))
      return false;
    pos += s.size();
    return true;
  }
  std::optional<Expr> Binary(int min_precedence) {
    if (++depth > 200) return std::nullopt;
    std::optional<Expr> left = Unary();
    while (left) {
      const Spelling* found = nullptr;
      for (const Spelling& s : kSpellings)
        if (s.precedence >= min_precedence && s.precedence > 0 && Eat(s.text)) {
          found = &s;
          break;
        }
      if (!found) break;
      std::optional<Expr> right = Binary(found->precedence + 1);
      if (!right) return std::nullopt;
      left = Expr::Make(found->op, std::move(*left), std::move(*right));
    }
    --depth;
    return left;
  }
  std::optional<Expr> Unary() {
    if (Eat("not")) {
      std::optional<Expr> e = Binary(3);
      return e ? std::optional(Expr::Not(std::move(*e))) : std::nullopt;
    }
    if (Eat("(")) {
      std::optional<Expr> e = Binary(1);
      return e && Eat(")") ? e : std::nullopt;
    }
    Skip();
    if (pos >= text.size()) return std::nullopt;
    const char c = text[pos];
    if (std::isdigit(static_cast<unsigned char>(c)) || c == '-') {
      int64_t v = 0;
      auto [end, err] = std::from_chars(text.data() + pos, text.data() + text.size(), v);
      if (err != std::errc()) return std::nullopt;
      pos = static_cast<size_t>(end - text.data());
      return Expr::Const(v);
    }
    size_t stop = pos;
    while (stop < text.size() && (std::isalnum(static_cast<unsigned char>(text[stop])) ||
                                  text[stop] == '_' || text[stop] == '.'))
      ++stop;
    if (stop == pos) return std::nullopt;
    std::string name(text.substr(pos, stop - pos));
    pos = stop;
    if (!Eat("(")) return Expr::Name(std::move(name));
    std::optional<Expr> a = Binary(1);
    if (!a || !Eat(",")) return std::nullopt;
    std::optional<Expr> b = Binary(1);
    if (!b || !Eat(")")) return std::nullopt;
    for (const Spelling& s : kSpellings)
      if (s.precedence == 0 && name == s.text)
        return Expr::Make(s.op, std::move(*a), std::move(*b));
    return std::nullopt;
  }
};

void CollectNames(const Expr& e, std::vector<std::string>& out) {
  if (e.op == Expr::Op::kName && std::find(out.begin(), out.end(), e.name) == out.end())
    out.push_back(e.name);
  for (const Expr& a : e.args) CollectNames(a, out);
}

}  // namespace

std::optional<int64_t> Eval(const Expr& e, const Bindings& names, std::string* missing) {
  if (e.op == Expr::Op::kConst) return e.value;
  if (e.op == Expr::Op::kName) {
    auto it = names.find(e.name);
    if (it != names.end()) return it->second;
    if (missing && missing->empty()) *missing = e.name;
    return std::nullopt;
  }
  std::optional<int64_t> a = Eval(e.args[0], names, missing);
  if (!a) return std::nullopt;
  if (e.op == Expr::Op::kNot) return *a == 0;
  std::optional<int64_t> b = Eval(e.args[1], names, missing);
  return b ? ApplyOp(e.op, *a, *b) : std::nullopt;
}

Expr Simplify(const Expr& e, const Bindings& names) {
  if (e.op == Expr::Op::kConst) return e;
  if (e.op == Expr::Op::kName) {
    const auto bound = names.find(e.name);
    return bound != names.end() ? Expr::Const(bound->second) : e;
  }
  Expr out;
  out.op = e.op;
  out.args.reserve(e.args.size());
  for (const Expr& a : e.args) out.args.push_back(Simplify(a, names));
  if (std::any_of(out.args.begin(), out.args.end(), [](const Expr& a) { return !a.is_const(); }))
    return out;
  const int64_t a = out.args[0].value;
  const std::optional<int64_t> v =
      e.op == Expr::Op::kNot ? std::optional<int64_t>(a == 0) : ApplyOp(e.op, a, out.args[1].value);
  return v ? Expr::Const(*v) : out;
}

std::vector<std::string> NamesIn(const Expr& e) {
  std::vector<std::string> out;
  CollectNames(e, out);
  return out;
}

std::string ToText(const Expr& e) {
  switch (e.op) {
    case Expr::Op::kConst: return std::to_string(e.value);
    case Expr::Op::kName: return e.name;
    case Expr::Op::kNot: return "(not " + ToText(e.args[0]) + ")";
    default: break;
  }
  const Spelling* s = SpellingOf(e.op);
  if (s->precedence == 0)
    return std::string(s->text) + "(" + ToText(e.args[0]) + ", " + ToText(e.args[1]) + ")";
  return "(" + ToText(e.args[0]) + " " + s->text + " " + ToText(e.args[1]) + ")";
}

std::optional<Expr> ParseExpr(std::string_view text) {
  Parser p{text};
  std::optional<Expr> e = p.Binary(1);
  p.Skip();
  if (!e || p.pos != text.size()) return std::nullopt;
  return e;
}

}  // namespace tilec
