// Scans along every axis of many layouts, and elements at other places, compared with the host.
//
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "tests/unit/backend/harness.h"

namespace tilec::backend {
namespace {

const std::vector<std::vector<int64_t>> kScanShapes = {{64, 64}, {48, 40}, {7, 24}, {96, 16}};

double ScanStep(const std::string& kind, double a, double b) {
  if (kind == "sum") return a + b;
  if (kind == "prod") return a * b;
  return kind == "max" ? std::fmax(a, b) : std::fmin(a, b);
}

TEST(Places, ScansOfManyLayouts) {
  SKIP_WITHOUT_DEVICE();
  struct Row {
    DType d;
    const char* kind;
    double lo, hi, tolerance;
  };
  const Row all[] = {{DType::kF32, "sum", -2, 2, 1e-5},      {DType::kI32, "sum", -90, 90, 0},
                     {DType::kF32, "max", -2, 2, 0},         {DType::kBF16, "sum", 0, 1, 1e-2},
                     {DType::kF64, "prod", 0.9, 1.1, 1e-12}, {DType::kI64, "sum", -90, 90, 0},
                     {DType::kU8, "max", 0, 200, 0},         {DType::kI16, "min", -90, 90, 0}};
  int n = 0, scanned = 0;
  for (const auto& shape : kScanShapes)
    for (int warps : {4, 8})
      for (const ir::Layout& layout : SomeLayouts(shape, 32 * warps))
        for (int axis : {0, 1}) {
          const auto plan = ir::PlanScan(layout, axis);
          if (!plan) continue;  // the lowering converts first
          const Row& row = all[n % 8];
          Kernel k("scan" + std::to_string(n++), warps);
          k.allow_spills = true;
          const int64_t rows = shape[0], cols = shape[1];
          const std::vector<double> x =
              Random(row.d, rows * cols, static_cast<uint64_t>(3 + n), row.lo, row.hi);
          const ValueId v = k.Load(k.In({"A", row.d, shape, x, {}}), shape, layout);
          const int64_t bytes = ir::ScanScratchBytes(k.fn.type(v), *plan);
          k.fn.launch.smem_bytes = std::max(k.fn.launch.smem_bytes, bytes);
          const ValueId r = k.b.Value(OpKind::kWarpScan, {v}, k.fn.type(v),
                                      {{"kind", std::string(row.kind)},
                                       {"axis", int64_t{axis}},
                                       {"scratch", int64_t{bytes ? 0 : -1}}});
          k.Store(k.Out({"C", row.d, shape, {}, {}}), r);
          ASSERT_TRUE(k.Run());
          std::vector<double> want = x;
          for (int64_t i = 0; i < rows; ++i)
            for (int64_t j = 0; j < cols; ++j) {
              const int64_t before = axis == 0 ? (i - 1) * cols + j : i * cols + j - 1;
              if ((axis == 0 ? i : j) == 0) continue;
              double& w = want[static_cast<size_t>(i * cols + j)];
              w = ScanStep(row.kind, want[static_cast<size_t>(before)], w);
            }
          ExpectNear(k.values("C"), want, row.tolerance,
                     k.fn.name + " " + row.kind + " " + ir::ToText(layout));
          ++scanned;
        }
  EXPECT_GT(scanned, 40);
}

struct Move {
  const char* name;
  std::vector<int64_t> shape;
  int64_t first;
  std::vector<int64_t> strides;
};

TEST(Places, RearrangesBetweenLayouts) {
  SKIP_WITHOUT_DEVICE();
  int n = 0;
  for (const auto& shape : kScanShapes) {
    const int64_t rows = shape[0], cols = shape[1];
    const Move moves[] = {
        {"columns", {rows, cols / 2}, cols / 2, {cols, 1}},
        {"every second", {rows, cols / 2}, 1, {cols, 2}},
        {"reversed", {rows, cols}, cols - 1, {cols, -1}},
        {"rows before", {rows, cols}, -2 * cols, {cols, 1}},  // the first two rows read as 0
        {"other shape", {rows / 1, cols / 8, 8}, 0, {cols, 8, 1}},
        {"flat", {rows * cols}, 0, {1}},
        {"one element", {}, cols + 3, {}},
        {"behind the end", {rows, cols}, rows * cols - cols, {cols, 1}},
    };
    for (const Move& move : moves)
      for (DType d : {DType::kF32, DType::kBF16, DType::kI8, DType::kBool, DType::kF64}) {
        const int warps = n % 2 ? 4 : 8;
        const auto from = SomeLayouts(shape, 32 * warps);
        Kernel k("move" + std::to_string(n), warps);
        k.allow_spills = true;
        const std::vector<double> x =
            Random(d, rows * cols, static_cast<uint64_t>(11 + n), -50, 50);
        const ValueId v =
            k.Load(k.In({"A", d, shape, x, {}}), shape, from[static_cast<size_t>(n) % from.size()]);
        ++n;
        const int64_t bytes = ir::RearrangeScratchBytes(k.fn.type(v));
        k.fn.launch.smem_bytes = std::max(k.fn.launch.smem_bytes, bytes);
        const bool scalar = move.shape.empty();
        const Type to = scalar
                            ? Type::Scalar(d)
                            : k.Tile(d, move.shape, ir::BlockedLayout(move.shape, 1, 32 * warps));
        ValueId r =
            k.b.Value(OpKind::kWarpRearrange, {v}, to,
                      {{"first", move.first}, {"strides", move.strides}, {"scratch", int64_t{0}}});
        std::vector<int64_t> out = move.shape;
        if (scalar) {  // every thread has it
          out = shape;
          r = k.b.Value(OpKind::kWarpBroadcast, {r}, k.fn.type(v),
                        {{"axes", std::vector<int64_t>{}}});
        }
        k.Store(k.Out({"C", d, out, {}, {}}), r);
        ASSERT_TRUE(k.Run());
        std::vector<double> want;
        std::vector<int64_t> at(out.size(), 0);
        int64_t elements = 1;
        for (int64_t s : out) elements *= s;
        for (int64_t i = 0; i < elements; ++i) {
          int64_t number = move.first;
          for (size_t dim = 0; dim < move.strides.size(); ++dim)
            number += at[dim] * move.strides[dim];
          want.push_back(number < 0 || number >= rows * cols ? 0 : x[static_cast<size_t>(number)]);
          for (size_t dim = at.size(); dim-- > 0;) {
            if (++at[dim] < out[dim]) break;
            at[dim] = 0;
          }
        }
        ExpectNear(k.values("C"), want, 0, std::string(move.name) + " " + ir::Spelling(d));
      }
  }
}

}  // namespace
}  // namespace tilec::backend
