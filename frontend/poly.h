// Integer expressions as polynomials over names: enough algebra to tell whether two extents are
// equal, how long `lo..hi` is, and whether a store index separates the instances of the grid.
// What is not a polynomial (division, min, …) becomes an atom named by its text.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "support/expr.h"

namespace tilec::frontend {

struct Poly {
  std::map<std::vector<std::string>, int64_t> terms;  // sorted names → factor, never 0
  bool is_const() const { return terms.empty() || (terms.size() == 1 && terms.count({})); }
  int64_t constant() const {
    const auto it = terms.find({});
    return it == terms.end() ? 0 : it->second;
  }
  bool operator==(const Poly&) const = default;
};

// nullopt: too large, or it overflows. Atoms that are not names go to `atoms` if given.
std::optional<Poly> ToPoly(const Expr& e, std::map<std::string, Expr>* atoms = nullptr);
std::optional<Poly> Subtract(const Poly& a, const Poly& b);
std::optional<Poly> Multiply(const Poly& a, const Poly& b);
int NodeCount(const Expr& e, int limit);

}  // namespace tilec::frontend
