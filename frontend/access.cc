// The rules that make unordered instances safe: a plain store separates the instances of the grid,
// and what an instance reads of a written tensor is its own.
//
// A store is a tuple of index functions of the parallel variables. It separates the instances if
// every variable can be computed back from the tuple: from an index `v`, `c·v + d`, a mixed radix
// `v·S + w` with w < S, a pair `v / E`, `v % E`, or `v / E` alone if v takes steps of E. An index
// of several positions, `i..i + 2`, does so if its values lie that far apart. What depends on
// loaded data cannot be judged here and is left to the interpreter, which sees overlaps when they
// happen. Where an `if` says what an index function is (`n.start == 0`), that is known as well.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "frontend/lower.h"
#include "frontend/poly.h"

namespace tilec::frontend {

namespace {

// A quantity that the place of an access gives, and how many positions from there on it takes.
struct Place {
  Poly start;
  int64_t width = 1;
};

struct Separation {
  const std::vector<ParallelVar>& parallel;
  std::vector<Place> known;           // recoverable quantities
  std::map<std::string, Expr> atoms;  // of all of them
  std::set<std::string> solved;       // parallel variables, "%p0"

  static bool IsVar(const std::string& name) { return name.starts_with("%p"); }
  static size_t VarOf(const std::string& name) { return std::stoul(name.substr(2)); }

  // p without the variables that are known already; factors of what remains by variable.
  // nullopt: not linear in the unknown ones.
  std::optional<std::map<std::string, Poly>> Unknowns(const Poly& p) const {
    std::map<std::string, Poly> out;
    for (const auto& [names, factor] : p.terms) {
      std::vector<std::string> rest;
      std::string var;
      for (const std::string& n : names) {
        const auto atom = atoms.find(n);
        if (atom != atoms.end() && HasUnknown(atom->second)) return std::nullopt;
        if (!IsVar(n) || solved.count(n)) {
          rest.push_back(n);
        } else if (var.empty()) {
          var = n;
        } else {
          return std::nullopt;
        }
      }
      if (!var.empty()) out[var].terms[rest] += factor;
    }
    return out;
  }
  bool HasUnknown(const Expr& e) const {
    for (const std::string& n : NamesIn(e))
      if (IsVar(n) && !solved.count(n)) return true;
    return false;
  }

  // Two values of the variable, times the factor, lie `width` apart. A factor that is no number is
  // taken to be large enough: the interpreter sees where it is not.
  bool FarApart(const std::string& var, const Poly& factor, int64_t width) const {
    if (!factor.is_const()) return true;
    int64_t apart = 0;
    if (__builtin_mul_overflow(factor.constant(), parallel[VarOf(var)].step, &apart)) return true;
    return apart >= width || apart <= -width;
  }

  bool Step() {
    for (const auto& [p, width] : known) {
      const auto unknowns = Unknowns(p);
      if (!unknowns || unknowns->empty()) continue;
      if (unknowns->size() == 1) {
        const auto& [var, factor] = *unknowns->begin();
        if (!FarApart(var, factor, width)) continue;
        return solved.insert(var).second;
      }
      // Mixed radix: strides 1, E0, E0·E1, …
      Poly stride;
      stride.terms[{}] = 1;
      std::set<std::string> left;
      for (const auto& [name, factor] : *unknowns) left.insert(name);
      while (!left.empty()) {
        const auto digit = std::find_if(left.begin(), left.end(), [&](const std::string& n) {
          return unknowns->at(n) == stride && FarApart(n, stride, width);
        });
        if (digit == left.end()) break;
        const std::optional<Poly> extent = ToPoly(parallel[VarOf(*digit)].extent);
        if (!extent) break;
        left.erase(digit);
        const std::optional<Poly> next = Multiply(stride, *extent);
        if (!next) break;
        stride = *next;
      }
      if (left.empty()) {
        for (const auto& [name, factor] : *unknowns) solved.insert(name);
        return true;
      }
    }
    return Quotients() || Pairs();
  }

  // (c·v + d) / E gives v if it is divided by no more than lies between two of its values.
  bool Quotients() {
    for (const auto& [p, width] : known) {
      const Expr* quotient = nullptr;
      bool other = false;
      for (const auto& [names, factor] : p.terms)
        for (const std::string& n : names) {
          const auto atom = atoms.find(n);
          if (atom == atoms.end() ? !IsVar(n) || solved.count(n) : !HasUnknown(atom->second))
            continue;
          other = other || quotient != nullptr || atom == atoms.end();
          quotient = atom == atoms.end() ? nullptr : &atom->second;
        }
      if (other || !quotient || quotient->op != Expr::Op::kDiv || !quotient->args[1].is_const())
        continue;
      const std::optional<Poly> whole = ToPoly(quotient->args[0], &atoms);
      const auto unknowns = whole ? Unknowns(*whole) : std::nullopt;
      if (!unknowns || unknowns->size() != 1 || !unknowns->begin()->second.is_const()) continue;
      const auto& [var, times] = *unknowns->begin();
      int64_t apart = 0;
      if (__builtin_mul_overflow(times.constant(), parallel[VarOf(var)].step, &apart)) continue;
      int64_t by = 0;
      if (__builtin_mul_overflow(quotient->args[1].value, width, &by)) continue;
      if (by > 0 && (apart >= by || apart <= -by)) return solved.insert(var).second;
    }
    return false;
  }

  // x / E and x % E together give x.
  bool Pairs() {
    auto single = [&](const Poly& p) -> const Expr* {
      if (p.terms.size() != 1 || p.terms.begin()->second != 1 || p.terms.begin()->first.size() != 1)
        return nullptr;
      const auto it = atoms.find(p.terms.begin()->first[0]);
      return it == atoms.end() ? nullptr : &it->second;
    };
    for (size_t i = 0; i < known.size(); ++i)
      for (size_t j = 0; j < known.size(); ++j) {
        const Expr* a = single(known[i].start);
        const Expr* b = single(known[j].start);
        if (!a || !b || a->op != Expr::Op::kDiv || b->op != Expr::Op::kMod || a->args != b->args)
          continue;
        if (!HasUnknown(a->args[0])) continue;
        const std::optional<Poly> whole = ToPoly(a->args[0], &atoms);
        if (!whole || std::any_of(known.begin(), known.end(),
                                  [&](const Place& k) { return k.start == *whole; }))
          continue;
        known.push_back({*whole, std::max(known[i].width, known[j].width)});
        return true;
      }
    return false;
  }
};

bool HasData(const Expr& e) {
  for (const std::string& n : NamesIn(e))
    if (n.starts_with("%") && !n.starts_with("%p")) return true;
  return false;
}

}  // namespace

void Lowerer::Note(Access access) {
  access.zeros = zeros_;
  accesses_.push_back(std::move(access));
}

void Lowerer::CheckStore(const Access& a) {
  Separation s{parallel_, {}, {}, {}};
  for (const Expr& zero : a.zeros)
    if (std::optional<Poly> p = ToPoly(zero, &s.atoms)) s.known.push_back({std::move(*p), 1});
  uint64_t deps = 0;
  uint64_t data = 0;  // variables that reach an index through loaded data
  for (const AccessDim& d : a.dims) {
    deps |= d.deps;
    if (d.deps == 0) continue;
    if (d.kind == AccessDim::Kind::kGather || HasData(d.symbol)) data |= d.deps;
    if (std::optional<Poly> p = ToPoly(d.symbol, &s.atoms))
      s.known.push_back({std::move(*p), d.size});
  }
  while (s.Step()) {
  }
  for (size_t i = 0; i < parallel_.size(); ++i) {
    const ParallelVar& var = parallel_[i];
    const uint64_t bit = uint64_t{1} << std::min<size_t>(i, 63);
    if (var.single || s.solved.count(fmt::format("%p{}", i)) || (data & bit)) continue;
    const std::string& tensor = fn_.params[a.tensor].name;
    if (!(deps & bit)) {
      Report(kStoreOverlap, a.at, tensor,
             fmt::format("no index depends on the parallel variable `{}`", var.name))
          .Label(var.at, fmt::format("`{}` is declared here", var.name))
          .Help(fmt::format("index with `{}`, loop over it with `for` inside, or use `atomic_add`",
                            var.name));
      return;
    }
    const auto wide = std::find_if(a.dims.begin(), a.dims.end(), [&](const AccessDim& d) {
      return (d.deps & bit) && d.kind == AccessDim::Kind::kRange && d.size > var.step;
    });
    if (wide != a.dims.end()) {
      Report(kStoreOverlap, a.at, tensor,
             fmt::format("`{}` takes steps of {}, and its ranges of {} positions overlap", var.name,
                         var.step, wide->size))
          .Label(wide->at, fmt::format("`{}` reaches the index here", var.name))
          .Help(fmt::format("let `{0}` take steps of {1}: `parallel {0} in tiles(…, {1})`",
                            var.name, wide->size));
      return;
    }
    DiagBuilder report =
        Report(kStoreOverlap, a.at, tensor,
               fmt::format("two values of `{}` may give the same index", var.name));
    for (const AccessDim& d : a.dims)
      if (d.deps & bit) report.Label(d.at, fmt::format("`{}` reaches the index here", var.name));
    report.Help(fmt::format("use `{}` itself as an index, or `atomic_add`", var.name));
    return;
  }
}

// Do the places at which both stand tell the instances apart, whatever the others are?
bool Lowerer::StandApart(const Access& load, const Access& store) const {
  Separation s{parallel_, {}, {}, {}};
  for (size_t d = 0; d < store.dims.size(); ++d) {
    const AccessDim& at = store.dims[d];
    if (at.deps == 0 || at.key != load.dims[d].key || at.kind == AccessDim::Kind::kGather ||
        HasData(at.symbol))
      continue;
    if (std::optional<Poly> p = ToPoly(at.symbol, &s.atoms))
      s.known.push_back({std::move(*p), at.size});
  }
  while (s.Step()) {
  }
  for (size_t i = 0; i < parallel_.size(); ++i)
    if (!parallel_[i].single && s.solved.count(fmt::format("%p{}", i)) == 0) return false;
  return true;
}

void Lowerer::CheckLoad(const Access& load, const Access& store) {
  if (StandApart(load, store)) return;
  const std::string& tensor = fn_.params[load.tensor].name;
  for (size_t d = 0; d < store.dims.size(); ++d) {
    // Where the store is told apart from other instances, the load has to stand at the same place.
    if (store.dims[d].deps == 0 || store.dims[d].key == load.dims[d].key) continue;
    Report(kReadOfOthers, load.at, tensor)
        .Label(store.at, "it is written here")
        .Label(load.dims[d].at, fmt::format("this index differs from the one written (dim {})", d))
        .Help(fmt::format("read with the indices of the store, or read another tensor"));
    return;
  }
  if (store.kind != AccessKind::kAtomic) return;
  for (size_t i = 0; i < parallel_.size(); ++i) {
    uint64_t deps = 0;
    for (const AccessDim& d : store.dims) deps |= d.deps;
    if (parallel_[i].single || (deps & (uint64_t{1} << std::min<size_t>(i, 63)))) continue;
    Report(kReadOfOthers, load.at, tensor)
        .Label(store.at, "every instance adds to it here")
        .Help("read the result in a second kernel");
    return;
  }
}

void Lowerer::CheckAccesses() {
  if (diags_.errors() > errors_before_) return;
  std::map<int, std::vector<const Access*>> writes;
  for (const Access& a : accesses_) {
    if (a.kind == AccessKind::kLoad) continue;
    writes[a.tensor].push_back(&a);
    const int before = diags_.errors();
    if (a.kind == AccessKind::kStore) CheckStore(a);
    if (diags_.errors() > before) return;  // one explanation of the rule is enough
  }
  for (const Access& a : accesses_) {
    if (a.kind != AccessKind::kLoad) continue;
    const int before = diags_.errors();
    for (const Access* w : writes[a.tensor]) {
      CheckLoad(a, *w);
      if (diags_.errors() > before) return;
    }
  }
  if (!options_.warn) return;
  for (size_t i = 0; i < fn_.params.size(); ++i) {
    const ir::Param& p = fn_.params[i];
    if (p.kind != ir::ParamKind::kTensor || p.direction == ir::Direction::kIn) continue;
    if (!stored_.count(static_cast<int>(i)))
      Report(kOutNeverWritten, p.at, p.name, p.direction == ir::Direction::kOut ? "out" : "inout");
  }
}

}  // namespace tilec::frontend
