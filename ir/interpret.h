// The meaning of every tile-level op, and the oracle that executors are compared with.
//
// Every value v is computed in f64 and rounded where the program names a type, together with a
// bound e on how far a correct executor's value may lie from v:
//
//   - an op whose operands are exact and which an executor rounds correctly gives e = 0;
//   - otherwise the operands' errors carried through the op, plus the op's own bound (a row of
//     interpret_functions.h for approximate functions, interpret_dot.cc for products), say how
//     far an executor's exact result may lie from ours; e reaches to the roundings of both ends;
//   - a·b may be contracted with a following ± c, so a product's rounding counts as error;
//   - subnormals of the f32 range may flush to zero.
//
// Where e straddles a discontinuity (compare, integer conversion, argmax) the element is undecided.
// Undecided elements are flagged through everything computed from them and never compared; a
// select with an undecided condition stays decided with e covering both of its values.
// An undecided scalar that steers control makes all that its instance stores afterwards undecided.
//
// A worst-case bound through a chain of products or normalisations grows until it says nothing.
// Elements that have such a bound, or none, and depend on no jump are judged by sampling instead
// (ir/interpret_sample.cc): the kernel runs again with every rounding moved at random within its
// own bound, and what the results stray by says how far an executor's may. An element for which
// that is vague as well is undecided.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "ir/function.h"
#include "support/diag.h"

namespace tilec::ir {

// A dense row-major tensor with error bounds. `e`, `undecided` and `sampled` may be empty: all 0.
struct TensorValue {
  DType dtype = DType::kF32;
  std::vector<int64_t> dims;
  std::vector<double> v;       // every type but i64 and u64
  std::vector<int64_t> words;  // i64 and u64 (as bits)
  std::vector<float> e;
  std::vector<uint8_t> undecided;
  std::vector<uint8_t> sampled;  // e comes from perturbed runs, not from a worst case

  static TensorValue Zeros(DType dtype, std::vector<int64_t> dims);
  static TensorValue FromBytes(DType dtype, std::vector<int64_t> dims,
                               std::span<const std::byte> bytes);
  // Reproducible: floats roughly uniform in (−1, 1), rounded to the type; integers small
  // (0 … 1 for bool, −8 … 7, or 0 … 15).
  static TensorValue Random(DType dtype, std::vector<int64_t> dims, uint64_t seed);
  bool wide() const { return dtype == DType::kI64 || dtype == DType::kU64; }
  int64_t elements() const;
  std::vector<std::byte> ToBytes() const;
};

// Elements of one tensor that the interpreter takes.
inline constexpr int64_t kMaxTensorElements = int64_t{1} << 28;

// What a kernel is called with. `out` tensors that are absent are made, filled with 0.
struct InterpretInputs {
  std::map<std::string, TensorValue> tensors;
  std::map<std::string, double> scalars;  // runtime scalar parameters
  Bindings dims;  // dims not bound by a bare extent, integer scalars; others are taken from tensors
};

// How far a run is: `instances` of `of` have begun.
struct InterpretProgress {
  double seconds = 0;
  int64_t instances = 0, of = 0;
};

struct InterpretOptions {
  int threads = 0;                       // 0: as many as the machine has
  int64_t max_trips = int64_t{1} << 24;  // of one loop
  // > 0: a larger grid is sampled, first and last instance included; elements that no chosen
  // instance stored are undecided. Kernels that read what they write always run in full.
  int64_t max_instances = 0;
  // Perturbed runs for elements whose worst-case bound says nothing; 0: none, the bounds stay.
  int samples = 4;
  // How many CTAs take the turns of loops apart, where that may be: sums are then made in so many
  // parts (ir/interpret_parts.h), and those relative to a largest value (ir/passes/rescaled_sums.h)
  // round their terms relative to one of the part's own.
  int64_t parts = 1;
  // Called when a run has taken a second, then two, four, …; from any thread, one
  // at a time.
  std::function<void(const InterpretProgress&)> progress;
};

struct InterpretReport {
  int64_t instances = 0;            // of the grid
  int64_t interpreted = 0;          // of them
  int64_t undecided_stores = 0;     // elements stored undecided, before sampling
  int64_t sampled = 0;              // elements that are judged by sampling
  std::vector<std::string> prints;  // in instance order
};

// Updates out and inout tensors of `inputs` in place. Verifies `fn` first. The result, diagnostics
// included, does not depend on the number of threads.
Result<InterpretReport> Interpret(const Function& fn, InterpretInputs& inputs,
                                  const InterpretOptions& options, DiagSink& diags);

// What an executor made of one tensor against what the interpreter says.
struct CompareOptions {
  // `~ t`: |x − v| <= t·(|v| + rms v) is demanded as well; negative: no such demand.
  double tolerance = -1;
};
struct CompareResult {
  int64_t checked = 0;    // elements compared
  int64_t sampled = 0;    // of them, against a sampled bound
  int64_t undecided = 0;  // elements left out
  int64_t failed = 0;
  double max_error = 0;                        // largest |x − v| of finite elements
  double max_ratio = 0;                        // largest |x − v| / allowed
  int64_t first_failed = -1;                   // linear index
  double expected = 0, actual = 0, bound = 0;  // of the first failing element
  bool ok() const { return failed == 0; }
};
CompareResult Compare(const TensorValue& expected, const TensorValue& actual,
                      const CompareOptions& options = {});
CompareResult Compare(const TensorValue& expected, std::span<const std::byte> actual,
                      const CompareOptions& options = {});

}  // namespace tilec::ir
