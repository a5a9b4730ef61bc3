// Values of control, kept symbolic: what a loop bound, a condition or a slot is made of.
//
// A scalar is a sum of atoms with integer coefficients plus a constant. Atoms are parameters, ops
// of atoms, and positions of loops, hash-consed, so that two roles which recompute the same control
// get the same scalar. Arithmetic is exact on integers: kernels are assumed not to overflow.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/function.h"

namespace tilec::ir::warp_check {

inline uint64_t Mix(uint64_t a, uint64_t b) {
  uint64_t x = a * 0x9E3779B97F4A7C15u ^ (b + 0xD1B54A32D192ED03u + (a << 6) + (a >> 3));
  x ^= x >> 29;
  x *= 0xBF58476D1CE4E5B9u;
  return x ^ (x >> 32);
}

struct Scalar {
  int32_t form = 0;  // of Terms; 0: nothing but the constant
  int64_t add = 0;
  bool constant() const { return form == 0; }
  auto operator<=>(const Scalar&) const = default;
};

struct Atom {
  enum class Kind : uint8_t {
    kParam,    // tag: value
    kOp,       // tag: op kind, extra: what its attributes say, args
    kTrips,    // a loop whose trip count is known but long: args[0] its length, tag: its step.
               // Tag 0: a length of which only its name is known (Machine::unrelated)
    kFrame,    // zero of the positions of one run of a loop: args[0] its length, tag: site, extra:
               // nth
    kCarried,  // what a loop carries, of a recurrence (tag, machine.h) at a position: args[0]
    kPrivate,  // a value nobody else can recompute; tag: role and op, extra: nth
  };
  Kind kind = Kind::kParam;
  int64_t tag = 0;
  int64_t extra = 0;
  std::vector<Scalar> args;
  auto operator<=>(const Atom&) const = default;
};

using Form = std::vector<std::pair<int32_t, int64_t>>;  // (atom, coefficient), by atom

struct TermHash {
  size_t operator()(const Atom& atom) const;
  size_t operator()(const Form& form) const;
};

class Terms {
 public:
  Terms();
  Scalar Of(Atom atom);
  Scalar OfAtom(int32_t id) const { return {form_of_[static_cast<size_t>(id)], 0}; }
  const Atom& atom(int32_t id) const { return *atoms_[static_cast<size_t>(id)]; }
  const Form& form(int32_t id) const { return *forms_[static_cast<size_t>(id)]; }
  // Does it speak of an iteration of a loop, however deep inside?
  bool Framed(int32_t form) const { return framed_[static_cast<size_t>(form)] != 0; }
  // Is some part of it made of positions of loops?
  bool OfFrames(int32_t form) const { return of_frames_[static_cast<size_t>(form)] != 0; }
  Scalar Add(const Scalar& a, const Scalar& b, int64_t times = 1);  // a + times·b
  Scalar Scale(const Scalar& a, int64_t by);
  // An elementwise op on scalars.
  Scalar Apply(const Op& op, DType dtype, const std::vector<Scalar>& args);
  int32_t atoms() const { return static_cast<int32_t>(atoms_.size()); }
  // More than anybody writes down: what a loop makes that multiplies or adds to it every turn.
  bool Overgrown(int32_t form) const;

 private:
  int32_t Intern(Form form);
  std::optional<Scalar> DivideWhole(OpKind kind, const std::vector<Scalar>& args);
  std::unordered_map<Atom, int32_t, TermHash> atom_ids_;
  std::vector<const Atom*> atoms_;
  std::vector<int> depth_;        // of atoms: ops inside ops
  std::vector<int32_t> form_of_;  // of atoms: that one alone
  std::unordered_map<Form, int32_t, TermHash> form_ids_;
  std::vector<const Form*> forms_;
  std::vector<char> framed_, of_frames_;  // by form
  // Sums that were made lately, by a hash of what they are of: the same are made in every turn.
  struct Sum {
    int32_t a = -1, b = 0, form = 0;
    int64_t times = 0;
  };
  std::array<Sum, 1024> sums_;
};

}  // namespace tilec::ir::warp_check
