// SPDX-License-Identifier: Apache-2.0
#include "ir/warp_check/terms.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <optional>

#include "support/expr.h"

namespace tilec::ir::warp_check {
namespace {

// What of an op's attributes is part of its meaning.
int64_t AttrTag(const Op& op) {
  if (op.kind == OpKind::kCmp)
    return op.s("pred").size() < 2 ? 0 : op.s("pred")[0] * 256 + op.s("pred")[1];
  if (op.kind == OpKind::kConstant) return std::bit_cast<int64_t>(op.number("value"));
  return 0;
}

std::optional<int64_t> Fold(const Op& op, const std::vector<Scalar>& v) {
  auto x = [&](size_t i) { return v[i].add; };
  switch (op.kind) {
    case OpKind::kMul: return x(0) * x(1);
    case OpKind::kDiv: return x(1) ? std::optional(FloorDiv(x(0), x(1))) : std::nullopt;
    case OpKind::kMod:
      return x(1) ? std::optional(x(0) - FloorDiv(x(0), x(1)) * x(1)) : std::nullopt;
    case OpKind::kMin: return std::min(x(0), x(1));
    case OpKind::kMax: return std::max(x(0), x(1));
    case OpKind::kAbs: return std::abs(x(0));
    case OpKind::kAnd: return x(0) & x(1);
    case OpKind::kOr: return x(0) | x(1);
    case OpKind::kXor: return x(0) ^ x(1);
    case OpKind::kShl: return x(1) >= 0 && x(1) < 63 ? std::optional(x(0) << x(1)) : std::nullopt;
    case OpKind::kShr: return x(1) >= 0 && x(1) < 63 ? std::optional(x(0) >> x(1)) : std::nullopt;
    case OpKind::kCmp: {
      const std::string& p = op.s("pred");
      const int64_t a = x(0), b = x(1);
      return p == "eq"   ? a == b
             : p == "ne" ? a != b
             : p == "lt" ? a < b
             : p == "le" ? a <= b
             : p == "gt" ? a > b
                         : a >= b;
    }
    default: return std::nullopt;
  }
}

}  // namespace

size_t TermHash::operator()(const Atom& atom) const {
  uint64_t h = Mix(Mix(static_cast<uint64_t>(atom.kind), static_cast<uint64_t>(atom.tag)),
                   static_cast<uint64_t>(atom.extra));
  for (const Scalar& arg : atom.args)
    h = Mix(Mix(h, static_cast<uint64_t>(arg.form)), static_cast<uint64_t>(arg.add));
  return h;
}

size_t TermHash::operator()(const Form& form) const {
  uint64_t h = form.size();
  for (const auto& [atom, times] : form)
    h = Mix(Mix(h, static_cast<uint64_t>(atom)), static_cast<uint64_t>(times));
  return h;
}

Terms::Terms() { Intern({}); }

int32_t Terms::Intern(Form form) {
  const auto [it, fresh] =
      form_ids_.try_emplace(std::move(form), static_cast<int32_t>(forms_.size()));
  if (!fresh) return it->second;
  forms_.push_back(&it->first);
  framed_.push_back(std::any_of(it->first.begin(), it->first.end(), [&](const auto& term) {
    const Atom& a = atom(term.first);
    return a.kind == Atom::Kind::kFrame ||
           std::any_of(a.args.begin(), a.args.end(),
                       [&](const Scalar& arg) { return Framed(arg.form); });
  }));
  const auto has_frame = [&](const Scalar& arg) {
    const Form& parts = this->form(arg.form);
    return std::any_of(parts.begin(), parts.end(), [&](const auto& part) {
      return atom(part.first).kind == Atom::Kind::kFrame;
    });
  };
  of_frames_.push_back(std::any_of(it->first.begin(), it->first.end(), [&](const auto& term) {
    const std::vector<Scalar>& args = atom(term.first).args;
    return std::any_of(args.begin(), args.end(), has_frame);
  }));
  return it->second;
}

Scalar Terms::Of(Atom atom) {
  const auto [it, fresh] =
      atom_ids_.try_emplace(std::move(atom), static_cast<int32_t>(atoms_.size()));
  if (fresh) {
    atoms_.push_back(&it->first);
    int depth = 0;
    for (const Scalar& arg : it->first.args)
      for (const auto& [inner, c] : form(arg.form))
        depth = std::max(depth, depth_[static_cast<size_t>(inner)] + 1);
    depth_.push_back(depth);
  }
  if (fresh) form_of_.push_back(Intern({{it->second, 1}}));
  return OfAtom(it->second);
}

Scalar Terms::Add(const Scalar& a, const Scalar& b, int64_t times) {
  if (b.form == 0) return {a.form, a.add + times * b.add};
  const uint64_t hash = Mix(Mix(static_cast<uint64_t>(a.form), static_cast<uint64_t>(b.form)),
                            static_cast<uint64_t>(times));
  Sum& lately = sums_[hash % sums_.size()];
  if (lately.a == a.form && lately.b == b.form && lately.times == times)
    return {lately.form, a.add + times * b.add};
  Form sum;
  const Form &x = form(a.form), &y = form(b.form);
  size_t i = 0, j = 0;
  while (i < x.size() || j < y.size()) {
    if (j == y.size() || (i < x.size() && x[i].first < y[j].first)) {
      sum.push_back(x[i++]);
    } else if (i == x.size() || y[j].first < x[i].first) {
      sum.push_back({y[j].first, times * y[j].second});
      ++j;
    } else {
      const int64_t c = x[i].second + times * y[j].second;
      if (c) sum.push_back({x[i].first, c});
      ++i, ++j;
    }
  }
  lately = {a.form, b.form, Intern(std::move(sum)), times};
  return {lately.form, a.add + times * b.add};
}

bool Terms::Overgrown(int32_t id) const {
  constexpr size_t kMostAtoms = 16;
  constexpr int kDeepest = 10;
  constexpr int64_t kLargestCoefficient = 1024;
  const Form& all = form(id);
  return all.size() > kMostAtoms || std::any_of(all.begin(), all.end(), [&](const auto& part) {
           return std::abs(part.second) > kLargestCoefficient ||
                  depth_[static_cast<size_t>(part.first)] > kDeepest;
         });
}

Scalar Terms::Scale(const Scalar& a, int64_t by) {
  if (by == 0) return {};
  return Add({0, 0}, a, by);
}

// (k·x + a) by k, which is how CTAs of a cluster find its number, and theirs in it.
std::optional<Scalar> Terms::DivideWhole(OpKind kind, const std::vector<Scalar>& args) {
  const int64_t by = args[1].add;
  if (args[0].constant() || !args[1].constant() || by < 1) return std::nullopt;
  Form quotient = form(args[0].form);
  for (auto& [atom, times] : quotient) {
    if (times % by != 0) return std::nullopt;
    times /= by;
  }
  const int64_t whole = FloorDiv(args[0].add, by);
  if (kind == OpKind::kMod) return Scalar{0, args[0].add - whole * by};
  return Scalar{Intern(std::move(quotient)), whole};
}

Scalar Terms::Apply(const Op& op, DType dtype, const std::vector<Scalar>& args) {
  const bool whole = dtype == DType::kBool || IsInteger(dtype);
  if (op.kind == OpKind::kConstant && whole) return {0, static_cast<int64_t>(op.number("value"))};
  const bool constant =
      std::all_of(args.begin(), args.end(), [](const Scalar& s) { return s.constant(); });
  if (whole) {
    switch (op.kind) {
      case OpKind::kAdd: return Add(args[0], args[1]);
      case OpKind::kSub: return Add(args[0], args[1], -1);
      case OpKind::kNeg: return Scale(args[0], -1);
      case OpKind::kMul:
        if (args[1].constant()) return Scale(args[0], args[1].add);
        if (args[0].constant()) return Scale(args[1], args[0].add);
        break;
      case OpKind::kDiv:
      case OpKind::kMod:
        if (const auto part = DivideWhole(op.kind, args)) return *part;
        break;
      case OpKind::kNot:
        if (constant) return {0, dtype == DType::kBool ? !args[0].add : ~args[0].add};
        break;
      case OpKind::kSelect:
        if (args[0].constant()) return args[0].add ? args[1] : args[2];
        if (args[1] == args[2]) return args[1];
        break;
      default: break;
    }
    if (constant && !args.empty())
      if (const auto v = Fold(op, args)) return {0, *v};
  }
  return Of({Atom::Kind::kOp, static_cast<int64_t>(op.kind) * 64 + static_cast<int64_t>(dtype),
             AttrTag(op), args});
}

}  // namespace tilec::ir::warp_check
