// Expressions of random tile programs: text of a wanted dtype and shape, built from the values in
// scope, loads of tensors that are declared as they are needed, and literals. See tile_program.h.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ir/type.h"
#include "tests/fuzz/tile_program.h"

namespace tilec::fuzz {

class Rng {
 public:
  explicit Rng(uint64_t seed) : engine_(seed) {}
  int Below(int n) { return static_cast<int>(engine_() % static_cast<uint64_t>(n)); }
  bool Chance(int percent) { return Below(100) < percent; }

 private:
  std::mt19937_64 engine_;
};

// A dim that tiles can have: a range variable, or `:` for a dim that is taken whole.
struct Axis {
  std::string var;   // "m" or ":"
  std::string dim;   // of the tensors: "M"
  std::string tune;  // its length in a type: "BM"
  int size = 0;
};
using Shape = std::vector<size_t>;  // positions in Pool::axes

struct Named {
  std::string name;
  ir::DType dtype = ir::DType::kF32;
  Shape shape;
  double magnitude = 1;  // bound of a floating-point value
  bool variable = false;
};

// What can be named at the current place.
struct Pool {
  std::vector<Axis> axes;
  std::vector<Named> values;
  bool batch = false;  // the grid has `b in 0..B`
  size_t Add(Named v) {
    values.push_back(std::move(v));
    return values.size() - 1;
  }
};

// Parameters, as they come to be needed.
struct Signature {
  std::vector<std::string> tensors;  // "X0: f32[M, N]"
  std::vector<std::string> scalars;
  std::vector<std::pair<std::string, int64_t>> dims;  // beyond those of the axes
  std::string functions;                              // `fn` items
  std::map<std::string, std::string> inputs;          // declaration → name
  int outputs = 0;
};

struct Text {
  std::string text;
  double magnitude = 1;
};

class Exprs {
 public:
  Exprs(const GenOptions& options, Rng& rng, Pool& pool, Signature& signature)
      : o_(options), rng_(rng), pool_(pool), signature_(signature) {}

  Text Make(ir::DType d, const Shape& shape, int depth);
  Text Literal(ir::DType d, double cap);
  // a[M, K] @ b[K, N] for operands of dtype `in`, contracted over one axis.
  std::string Product(ir::DType in, const Shape& shape, size_t inner);
  std::string Clamped(const Text& e, ir::DType d, double cap);
  std::string TypeText(ir::DType d, const Shape& shape) const;

  Shape AnyShape();
  Shape DotShape();
  ir::DType AnyNumber();  // with arithmetic
  ir::DType AnyDType();   // or bool
  ir::DType StoredDType();
  ir::DType DotDType();
  double Cap(ir::DType d) const { return d == ir::DType::kF16 ? 1e3 : 1e6; }

 private:
  bool Chance(int percent) { return rng_.Chance(percent); }
  int Below(int n) { return rng_.Below(n); }
  Text Leaf(ir::DType d, const Shape& shape);
  std::string Moved(const Axis& a);
  Text Load(ir::DType d, const Shape& shape);
  Text Part(ir::DType d, const Shape& shape, int depth);
  Text Bool(const Shape& shape, int depth);
  Text Integer(ir::DType d, const Shape& shape, int depth);
  Text Float(ir::DType d, const Shape& shape, int depth);
  Text Unary(ir::DType d, const Text& x);
  Text Reduced(ir::DType d, const Shape& shape, int depth);
  Text Cast(ir::DType d, const Shape& shape, int depth);
  Text Limit(Text e, ir::DType d);
  std::string Tensor(ir::DType d, const std::string& dims);
  std::string Function(ir::DType d);

  const GenOptions& o_;
  Rng& rng_;
  Pool& pool_;
  Signature& signature_;
};

}  // namespace tilec::fuzz
