// Shared by the interpreter's files; included by ir/interpret*.cc only.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "ir/function.h"
#include "ir/numerics.h"

namespace tilec::ir::interpret_internal {

// What is known of an element beside its value; flags of Tile::und, joined by every op.
inline constexpr uint8_t kJump = 1;       // undecided: a comparison or position may go either way
inline constexpr uint8_t kUnbounded = 2;  // undecided: no finite bound
inline constexpr uint8_t kCovers = 4;     // decided, but e covers both sides of a jump
inline constexpr uint8_t kUndecided = kJump | kUnbounded;

// Where a perturbed run takes its roundings from (interpret_sample.h); one per thread of control.
struct Dice {
  uint64_t state = 0;
  double Next() {                                 // in [-1, 1)
    uint64_t z = (state += 0x9E3779B97F4A7C15u);  // splitmix64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-52 - 1.0;
  }
};

// A tile in flight. Floats live in v (with e), bool and integers in n. Empty e, und: all 0.
struct Tile {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::vector<double> v;
  std::vector<int64_t> n;
  std::vector<float> e;
  std::vector<uint8_t> und;
  Dice* dice = nullptr;  // of a perturbed run, while an op fills the tile

  bool is_float() const { return IsFloat(dtype); }
  size_t size() const { return is_float() ? v.size() : n.size(); }
  float error(size_t i) const { return e.empty() ? 0.0f : e[i]; }
  uint8_t flags(size_t i) const { return und.empty() ? uint8_t{0} : und[i]; }
  bool undecided(size_t i) const { return (flags(i) & kUndecided) != 0; }
  // Becomes a tile of the type with unspecified elements, e and und empty; keeps its memory.
  void Reset(const Type& type);
  void Mark(size_t i, uint8_t flags) {
    if (flags == 0) return;
    if (und.empty()) und.assign(size(), 0);
    und[i] |= flags;
  }
  void MarkUndecided(size_t i) { Mark(i, kJump); }
  void DropZeroErrors();
};

// Numbers beside a tile while an op runs. Those of scalars, of which plain references make
// millions, need no memory of their own.
class Numbers {
 public:
  explicit Numbers(size_t n, double value = 0) : size_(n) {
    if (n > kFew)
      many_.assign(n, value);
    else
      std::fill_n(few_, n, value);
  }
  explicit Numbers(std::span<const double> from) : Numbers(from.size()) {
    std::copy(from.begin(), from.end(), data());
  }
  size_t size() const { return size_; }
  double* data() { return size_ > kFew ? many_.data() : few_; }
  const double* data() const { return size_ > kFew ? many_.data() : few_; }
  double& operator[](size_t i) { return data()[i]; }
  double operator[](size_t i) const { return data()[i]; }
  operator std::span<double>() { return {data(), size_}; }
  operator std::span<const double>() const { return {data(), size_}; }

 private:
  static constexpr size_t kFew = 4;
  size_t size_;
  double few_[kFew];
  std::vector<double> many_;
};

// An error bound as a float, rounded up.
inline float Up(double e) {
  const auto f = static_cast<float>(e * (1.0 + 0x1p-22));
  return f == 0.0f && e > 0 ? std::numeric_limits<float>::denorm_min() : f;
}

// Terms are added up in any order, in f32. If one order passes the largest finite number and
// another does not, it is infinite or no number there, and nothing is known. `up` and `down`: the
// sums of positive and of negative terms, r: all of them, up to `spread` (of bounds that say
// nothing no more than an eighth of that number is taken: perturbed runs see what there is to see).
inline bool OrdersDiffer(DType d, double up, double down, double r, double spread) {
  if (d == DType::kF64) return false;
  const double most = FormatOf(DType::kF32).max_finite, off = std::min(spread, most / 8);
  const bool high = up + off > most, low = down + off > most;
  return (high || low) && ((high && low) || !(std::fabs(r) - spread > most));
}

// An element that executors may come to in ways that have nothing to do with each other; of a
// perturbed run, what says so.
inline void MarkJump(Tile& t, size_t i, const Dice* dice) {
  if (dice)
    t.v[i] = std::numeric_limits<double>::quiet_NaN();
  else
    t.MarkUndecided(i);
}

// Turns exact results r in out.v into values of out's type. p[i]: how far an executor's exact
// result may lie from r[i] (empty: nowhere). `contracts`: the rounding of r itself is optional for
// executors (products). Sets e, flags elements whose error is infinite or straddles overflow.
// With dice: r moves by a random part of p instead, and e stays 0.
void Finish(Tile& out, std::span<const double> p, bool contracts = false);

// und of out becomes the or of the operands'; what has no bound jumps on its way to an integer.
void JoinUndecided(Tile& out, std::span<const Tile* const> operands);

// Elementwise rows, constants excepted; `op` for its attributes.
inline bool IsWide(DType d) { return d == DType::kF64; }
// Unsigned values of 64 bits are kept as the signed ones of the same bits.
inline double IntAsDouble(DType d, int64_t n) {
  return d == DType::kU64 ? static_cast<double>(static_cast<uint64_t>(n)) : static_cast<double>(n);
}
void Cast(const Tile& a, Tile& out);     // interpret_cast.cc
void Bitcast(const Tile& a, Tile& out);  // likewise
void EvalElementwise(const Op& op, std::span<const Tile* const> operands, Tile& out);
// interpret_shape.cc
void EvalConstant(const Op& op, Tile& out);
void EvalIota(const Tile& start, Tile& out);
void EvalBroadcast(const Tile& in, const std::vector<int64_t>& axes, Tile& out);
void EvalTranspose(const Tile& in, const std::vector<int64_t>& perm, Tile& out);
void EvalReshape(const Tile& in, Tile& out);
void EvalRearrange(const Tile& in, int64_t first, const std::vector<int64_t>& strides, Tile& out);
// interpret_reduce.cc
void EvalReduce(std::string_view kind, int64_t axis, const Tile& in, Tile& out);
void EvalArgReduce(std::string_view kind, int64_t axis, const Tile& in, Tile& out);
void EvalScan(std::string_view kind, int64_t axis, const Tile& in, Tile& out);
// interpret_dot.cc
// `named`: at least how large bounds take each element of a and b to be; empty: as it is.
struct Magnitudes {
  std::vector<float> a, b;
};
// How often a product over k terms rounds what it adds to, in 2^-24 of that.
double AccumulatorRoundings(DType d, int64_t k, int64_t promote);
void EvalDot(const Tile& a, const Tile& b, const Tile& acc, int64_t promote, Tile& out,
             const Magnitudes& named = {});
// interpret_scaled.cc
void EvalScaledDot(const Tile& a, const Tile& b, const Tile& acc, const Tile& sa, const Tile& sb,
                   Tile& out);

// dst[i…] = src at Σ i_d·stride_d, for every array of the tile.
void GatherStrided(const Tile& src, const std::vector<int64_t>& strides, Tile& dst);

std::vector<int64_t> RowMajorStrides(const std::vector<int64_t>& shape);

}  // namespace tilec::ir::interpret_internal
