// SPDX-License-Identifier: Apache-2.0
#include "frontend/poly.h"

#include <algorithm>

namespace tilec::frontend {

namespace {

constexpr size_t kMaxTerms = 64;
constexpr size_t kMaxDegree = 8;

bool AddTerm(Poly& p, const std::vector<std::string>& names, int64_t factor) {
  int64_t& slot = p.terms[names];
  if (__builtin_add_overflow(slot, factor, &slot)) return false;
  if (slot == 0) p.terms.erase(names);
  return p.terms.size() <= kMaxTerms;
}

}  // namespace

std::optional<Poly> Subtract(const Poly& a, const Poly& b) {
  Poly out = a;
  for (const auto& [names, factor] : b.terms)
    if (factor == INT64_MIN || !AddTerm(out, names, -factor)) return std::nullopt;
  return out;
}

std::optional<Poly> Multiply(const Poly& a, const Poly& b) {
  Poly out;
  for (const auto& [x, fx] : a.terms)
    for (const auto& [y, fy] : b.terms) {
      std::vector<std::string> names = x;
      names.insert(names.end(), y.begin(), y.end());
      std::sort(names.begin(), names.end());
      int64_t f = 0;
      if (names.size() > kMaxDegree || __builtin_mul_overflow(fx, fy, &f) ||
          !AddTerm(out, names, f))
        return std::nullopt;
    }
  return out;
}

std::optional<Poly> ToPoly(const Expr& e, std::map<std::string, Expr>* atoms) {
  Poly out;
  if (e.op == Expr::Op::kConst) {
    if (e.value != 0) out.terms[{}] = e.value;
    return out;
  }
  if (e.op == Expr::Op::kName) {
    out.terms[{e.name}] = 1;
    return out;
  }
  if (e.op == Expr::Op::kAdd || e.op == Expr::Op::kSub || e.op == Expr::Op::kMul) {
    const std::optional<Poly> a = ToPoly(e.args[0], atoms), b = ToPoly(e.args[1], atoms);
    if (!a || !b) return std::nullopt;
    if (e.op == Expr::Op::kMul) return Multiply(*a, *b);
    if (e.op == Expr::Op::kSub) return Subtract(*a, *b);
    out = *a;
    for (const auto& [names, factor] : b->terms)
      if (!AddTerm(out, names, factor)) return std::nullopt;
    return out;
  }
  const std::string text = ToText(e);
  if (atoms) atoms->emplace(text, e);
  out.terms[{text}] = 1;
  return out;
}

int NodeCount(const Expr& e, int limit) {
  int n = 1;
  for (const Expr& a : e.args) {
    if (n > limit) return n;
    n += NodeCount(a, limit - n);
  }
  return n;
}

}  // namespace tilec::frontend
