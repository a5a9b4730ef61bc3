// Builds warp functions, compiles them, assembles them where ptxas is found, runs the PTX on a
// device and hands back what it stored.
//
// Values of every dtype travel as doubles; Encode rounds them, Decode reads them back.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/ptxas.h"
#include "ir/layout_scratch.h"
#include "runtime/launch.h"

namespace tilec::backend {

using ir::DType;
using ir::OpKind;
using ir::Type;
using ir::ValueId;

// Nearest value of a dtype (ties to even; fp8 saturates; integers wrap like a cast of in-range
// values).
double RoundTo(DType d, double v);
std::vector<uint8_t> Encode(DType d, const std::vector<double>& values);
std::vector<double> Decode(DType d, const std::vector<uint8_t>& bytes);

// Deterministic values in [lo, hi], rounded to the dtype.
std::vector<double> Random(DType d, int64_t count, uint64_t seed, double lo = -2, double hi = 2);

struct HostTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::vector<double> values;
  std::vector<int64_t> strides;  // elements; empty: dense
  int64_t begin = 0;             // elements in front of it in its memory
};

class Kernel {
 public:
  explicit Kernel(std::string name, int warps = 4);
  ir::Function fn;
  ir::Builder b;
  const ir::Target* machine = nullptr;  // null: an H200

  // Static extents unless `dims` names them.
  ValueId Tensor(const HostTensor& t, ir::Direction direction,
                 const std::vector<std::string>& dims = {});
  ValueId In(const HostTensor& t, const std::vector<std::string>& dims = {}) {
    return Tensor(t, ir::Direction::kIn, dims);
  }
  ValueId Out(const HostTensor& t, const std::vector<std::string>& dims = {}) {
    return Tensor(t, ir::Direction::kInOut, dims);
  }
  Type Tile(DType d, std::vector<int64_t> shape, const ir::Layout& layout) {
    return Type::Tile(d, std::move(shape), fn.Intern(layout));
  }
  // The whole tensor as one tile, from position 0.
  ValueId Load(ValueId tensor, std::vector<int64_t> shape, const ir::Layout& layout,
               int64_t vector = 1);
  void Store(ValueId tensor, ValueId tile, int64_t vector = 1);
  ValueId Smem(DType d, std::vector<int64_t> shape, ir::SmemLayout s, int64_t offset,
               int64_t depth = 1);
  void Sync(int64_t id = 0) { b.Add(OpKind::kCtaSync, {}, {}, {{"id", id}}); }

  // Compiles, and assembles if ptxas is there: no spills, no C75xx except C7519.
  bool Build();
  // Builds, launches, and replaces the values of every tensor that is not read-only.
  bool Run(const Bindings& scalars = {});

  std::vector<double>& values(const std::string& name);
  const KernelImage& image() const { return image_; }
  PtxasReport report;
  bool assembled = false;
  bool allow_spills = false;
  std::map<std::string, double> float_scalars;
  std::vector<HostTensor> tensors;

 private:
  KernelImage image_;
  bool built_ = false;
};

// The device tests run on, or null if none can be opened (the reason is printed once).
runtime::Device* TestDevice();
std::string TestPtxas();

// Every element within `tolerance`·(1 + |want|); NaN equals NaN.
void ExpectNear(const std::vector<double>& got, const std::vector<double>& want, double tolerance,
                const std::string& what);

// Layouts to mix: blocked, accumulator-like, replicated, odd.
std::vector<ir::Layout> SomeLayouts(const std::vector<int64_t>& shape, int64_t threads);

}  // namespace tilec::backend

#define SKIP_WITHOUT_DEVICE() \
  if (!tilec::backend::TestDevice()) GTEST_SKIP() << "no device to run PTX on"
