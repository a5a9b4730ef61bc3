// Conversions, broadcasts and reductions over many layouts, run and compared with the host.
//
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "tests/unit/backend/harness.h"

namespace tilec::backend {
namespace {

const std::vector<std::vector<int64_t>> kShapes = {{64, 64}, {48, 40}, {7, 24}, {96, 16}};

TEST(Layout, ConvertBetweenAll) {
  SKIP_WITHOUT_DEVICE();
  int n = 0;
  for (const auto& shape : kShapes)
    for (int warps : {4, 8}) {
      const auto layouts = SomeLayouts(shape, 32 * warps);
      for (DType d : {DType::kF32, DType::kBF16, DType::kI8, DType::kBool, DType::kF64}) {
        Kernel k("convert" + std::to_string(n++), warps);
        k.allow_spills = true;
        const HostTensor in{"A", d, shape, Random(d, shape[0] * shape[1], 5, -50, 50), {}};
        const ValueId a = k.In(in);
        std::vector<std::string> outs;
        // A chain through all layouts, stored after each step.
        ValueId v = k.Load(a, shape, layouts[0]);
        for (size_t i = 1; i <= layouts.size(); ++i) {
          const ir::Layout& to = layouts[(i * 3 + static_cast<size_t>(warps)) % layouts.size()];
          const Type type = k.Tile(d, shape, to);
          const int64_t bytes = ir::ConvertScratchBytes(type, k.fn.layout(v), to);
          k.fn.launch.smem_bytes = std::max(k.fn.launch.smem_bytes, bytes);
          v = k.b.Value(OpKind::kConvert, {v}, type, {{"scratch", int64_t{bytes ? 0 : -1}}});
          outs.push_back("C" + std::to_string(i));
          const ValueId c = k.Out({outs.back(), d, shape, {}, {}});
          k.Store(c, v);
        }
        ASSERT_TRUE(k.Run());
        for (const std::string& o : outs)
          ExpectNear(k.values(o), k.values("A"), 0, k.fn.name + o + ir::Spelling(d));
      }
    }
}

// Quads hand bytes around where pairs of columns become fours: one row of two that a thread has,
// one of several blocks of 64 rows, columns divided between warpgroups. No scratch, so no barrier.
TEST(Layout, QuadsExchangeBytes) {
  SKIP_WITHOUT_DEVICE();
  int n = 0;
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{64, 32}, {128, 48}, {256, 64}})
    for (ir::WgSplit split : {ir::WgSplit::kM, ir::WgSplit::kNone})
      for (DType d : {DType::kE4M3, DType::kI8, DType::kU8}) {
        Kernel k("quads" + std::to_string(n++), 8);
        k.allow_spills = true;
        const HostTensor in{"A", d, shape, Random(d, shape[0] * shape[1], 5, -50, 50), {}};
        const ir::Layout pairs = ir::AccumulatorLayout(shape[0], shape[1], 2, split);
        const std::optional<ir::Layout> fours = ir::FoursOf(pairs);
        ASSERT_TRUE(fours);
        const ValueId v = k.Load(k.In(in), shape, pairs);
        const Type type = k.Tile(d, shape, *fours);
        EXPECT_FALSE(ir::RegisterMap(pairs, *fours, shape));
        const std::optional<ir::Layout> apart = ir::InterleavedColumns(pairs);
        ASSERT_TRUE(apart);
        EXPECT_EQ(ir::ConvertScratchBytes(k.Tile(d, shape, *fours), *apart, *fours), 0);
        EXPECT_EQ(ir::ConvertScratchBytes(type, pairs, *fours), 0);
        EXPECT_GT(ir::ConvertScratchBytes(k.Tile(DType::kBF16, shape, *fours), pairs, *fours), 0);
        const ValueId c = k.Out({"C", d, shape, {}, {}});
        k.Store(c, k.b.Value(OpKind::kConvert, {v}, type, {{"scratch", int64_t{-1}}}));
        ASSERT_TRUE(k.Run());
        ExpectNear(k.values("C"), k.values("A"), 0, k.fn.name + ir::Spelling(d));
      }
  EXPECT_FALSE(ir::FoursOf(ir::AccumulatorLayout(64, 40, 1, ir::WgSplit::kM)));  // not sixteens
  EXPECT_FALSE(ir::FoursOf(ir::BlockedLayout({64, 32}, 4, 128)));
}

double Identity(const std::string& kind) {
  if (kind == "sum" || kind == "any") return 0;
  if (kind == "prod" || kind == "all") return 1;
  return kind == "max" ? -std::numeric_limits<double>::infinity()
                       : std::numeric_limits<double>::infinity();
}
double Step(const std::string& kind, double a, double b) {
  if (kind == "sum") return a + b;
  if (kind == "prod") return a * b;
  if (kind == "max") return std::fmax(a, b);
  if (kind == "min") return std::fmin(a, b);
  if (kind == "any") return a || b;
  return a && b;
}

TEST(Layout, ReduceAndBroadcastBack) {
  SKIP_WITHOUT_DEVICE();
  int n = 0;
  for (const auto& shape : kShapes)
    for (int warps : {4, 8})
      for (const ir::Layout& layout : SomeLayouts(shape, 32 * warps))
        for (int axis : {0, 1}) {
          struct Row {
            DType d;
            const char* kind;
          };
          const Row all[] = {{DType::kF32, "sum"},  {DType::kF32, "max"},  {DType::kBF16, "sum"},
                             {DType::kI32, "min"},  {DType::kBool, "any"}, {DType::kBool, "all"},
                             {DType::kF64, "prod"}, {DType::kI64, "sum"},  {DType::kU8, "max"},
                             {DType::kE4M3, "min"}};
          Kernel k("reduce" + std::to_string(n), warps);
          k.allow_spills = true;
          std::vector<Row> rows;
          for (int i = 0; i < 3; ++i) rows.push_back(all[static_cast<size_t>(n * 3 + i) % 10]);
          ++n;
          for (size_t i = 0; i < rows.size(); ++i) {
            const DType d = rows[i].d;
            const std::string suffix = std::to_string(i);
            std::vector<double> x = Random(d, shape[0] * shape[1], 7 + i, -1.5, 1.5);
            if (d == DType::kBool && std::string(rows[i].kind) == "all")
              for (size_t j = 0; j < x.size(); ++j) x[j] = j % 53 != 0;
            const ValueId a = k.In({"A" + suffix, d, shape, x, {}});
            const ValueId v = k.Load(a, shape, layout);
            const ir::Layout slice = ir::SliceLayout(layout, axis);
            const std::vector<int64_t> rest = {shape[static_cast<size_t>(1 - axis)]};
            const int64_t bytes = ir::ReduceScratchBytes(k.fn.type(v), layout, axis);
            k.fn.launch.smem_bytes = std::max(k.fn.launch.smem_bytes, bytes);
            const ValueId r = k.b.Value(OpKind::kWarpReduce, {v}, k.Tile(d, rest, slice),
                                        {{"kind", std::string(rows[i].kind)},
                                         {"axis", int64_t{axis}},
                                         {"scratch", int64_t{bytes ? 0 : -1}}});
            const ValueId c = k.Out({"C" + suffix, d, rest, {}, {}});
            k.Store(c, r);
            // Every replica holds the same value: broadcast back and store everything.
            const ValueId wide = k.b.Value(OpKind::kWarpBroadcast, {r}, k.Tile(d, shape, layout),
                                           {{"axes", std::vector<int64_t>{1 - axis}}});
            const ValueId full = k.Out({"W" + suffix, d, shape, {}, {}});
            k.Store(full, wide);
          }
          ASSERT_TRUE(k.Run());
          for (size_t i = 0; i < rows.size(); ++i) {
            const std::string suffix = std::to_string(i), kind = rows[i].kind;
            const std::vector<double>& x = k.values("A" + suffix);
            const int64_t rest = shape[static_cast<size_t>(1 - axis)];
            std::vector<double> want(static_cast<size_t>(rest), Identity(kind)), wide;
            for (int64_t r = 0; r < shape[0]; ++r)
              for (int64_t c = 0; c < shape[1]; ++c) {
                double& w = want[static_cast<size_t>(axis ? r : c)];
                w = Step(kind, w, x[static_cast<size_t>(r * shape[1] + c)]);
              }
            for (double& w : want)
              if (rows[i].d != DType::kF64 || kind != "prod") w = RoundTo(rows[i].d, w);
            for (int64_t r = 0; r < shape[0]; ++r)
              for (int64_t c = 0; c < shape[1]; ++c)
                wide.push_back(k.values("C" + suffix)[static_cast<size_t>(axis ? r : c)]);
            const std::string what =
                k.fn.name + " " + kind + " " + ir::Spelling(rows[i].d) + " " + ir::ToText(layout);
            const double tolerance = rows[i].d == DType::kBF16                 ? 0x1p-7
                                     : rows[i].d == DType::kF64                ? 1e-12
                                     : kind == "sum" && ir::IsFloat(rows[i].d) ? 1e-5
                                                                               : 0;
            ExpectNear(k.values("C" + suffix), want, tolerance, what);
            ExpectNear(k.values("W" + suffix), wide, 0, what + " replicas");
          }
        }
}

// Half of the products of a sum are made by the fma that adds them.
TEST(Layout, SumsOfProductsAreFused) {
  SKIP_WITHOUT_DEVICE();
  const int64_t size = 2048;
  Kernel k("norm");
  const ir::Layout layout = ir::BlockedLayout({size}, 1, 128);
  const ValueId a = k.In({"A", DType::kF32, {size}, Random(DType::kF32, size, 5, -3, 3), {}});
  const ValueId v = k.Load(a, {size}, layout);
  const ValueId square = k.b.Binary(OpKind::kMul, v, v);
  k.fn.launch.smem_bytes = ir::ReduceScratchBytes(k.fn.type(v), layout, 0);
  const ValueId sum =
      k.b.Value(OpKind::kWarpReduce, {square}, Type::Scalar(DType::kF32),
                {{"kind", std::string("sum")}, {"axis", int64_t{0}}, {"scratch", int64_t{0}}});
  const ValueId wide =
      k.b.Value(OpKind::kWarpBroadcast, {sum}, k.fn.type(v), {{"axes", std::vector<int64_t>{}}});
  k.Store(k.Out({"C", DType::kF32, {size}, {}, {}}), wide);
  ASSERT_TRUE(k.Run());
  int fused = 0;
  for (size_t at = k.image().ptx.find("fma.rn.f32"); at != std::string::npos;
       at = k.image().ptx.find("fma.rn.f32", at + 1))
    ++fused;
  EXPECT_EQ(fused, size / 128 / 2);
  double want = 0;
  for (double x : k.values("A")) want += x * x;
  ExpectNear(k.values("C"), std::vector<double>(static_cast<size_t>(size), want), 1e-5, "norm");
}

TEST(Layout, ArgReduce) {
  SKIP_WITHOUT_DEVICE();
  int n = 0;
  for (const auto& shape : kShapes)
    for (const ir::Layout& layout : SomeLayouts(shape, 128))
      for (int axis : {0, 1})
        for (bool max : {true, false}) {
          const DType d = n % 3 == 0 ? DType::kF32 : n % 3 == 1 ? DType::kI32 : DType::kBF16;
          Kernel k("arg" + std::to_string(n++));
          k.allow_spills = true;
          // Few distinct values: many ties.
          const ValueId a =
              k.In({"A", d, shape, Random(DType::kI32, shape[0] * shape[1], 11, -4, 4), {}});
          const ValueId v = k.Load(a, shape, layout);
          const std::vector<int64_t> rest = {shape[static_cast<size_t>(1 - axis)]};
          const int64_t bytes = ir::ReduceScratchBytes(k.fn.type(v), layout, axis, true);
          k.fn.launch.smem_bytes = bytes;
          const ValueId r = k.b.Value(OpKind::kWarpArgReduce, {v},
                                      k.Tile(DType::kI32, rest, ir::SliceLayout(layout, axis)),
                                      {{"kind", std::string(max ? "argmax" : "argmin")},
                                       {"axis", int64_t{axis}},
                                       {"scratch", int64_t{bytes ? 0 : -1}}});
          k.Store(k.Out({"C", DType::kI32, rest, {}, {}}), r);
          ASSERT_TRUE(k.Run());
          const std::vector<double>& x = k.values("A");
          std::vector<double> want;
          for (int64_t o = 0; o < rest[0]; ++o) {
            double best = 0;
            int64_t at = -1;
            for (int64_t i = 0; i < shape[static_cast<size_t>(axis)]; ++i) {
              const double e = x[static_cast<size_t>(axis ? o * shape[1] + i : i * shape[1] + o)];
              if (at < 0 || (max ? e > best : e < best)) best = e, at = i;
            }
            want.push_back(static_cast<double>(at));
          }
          ExpectNear(k.values("C"), want, 0, k.fn.name + " " + ir::ToText(layout));
        }
}

TEST(Layout, IotaTransposeReshape) {
  SKIP_WITHOUT_DEVICE();
  const std::vector<int64_t> shape = {32, 48};
  Kernel k("rename");
  for (const ir::Layout& layout : SomeLayouts(shape, 128)) {
    const std::string s = std::to_string(k.tensors.size());
    const ValueId row = k.b.Value(OpKind::kWarpIota, {k.b.Int(100)},
                                  k.Tile(DType::kI32, {48}, ir::SliceLayout(layout, 0)));
    const ValueId wide =
        k.b.Value(OpKind::kWarpBroadcast, {row}, k.Tile(DType::kI32, shape, layout),
                  {{"axes", std::vector<int64_t>{1}}});
    k.Store(k.Out({"C" + s, DType::kI32, shape, {}, {}}), wide);
    const ValueId turned =
        k.b.Value(OpKind::kWarpTranspose, {wide},
                  k.Tile(DType::kI32, {48, 32}, ir::PermuteLayout(layout, {1, 0})),
                  {{"perm", std::vector<int64_t>{1, 0}}});
    k.Store(k.Out({"T" + s, DType::kI32, {48, 32}, {}, {}}), turned);
  }
  ASSERT_TRUE(k.Run());
  for (const HostTensor& t : k.tensors)
    for (size_t i = 0; i < t.values.size(); ++i) {
      const size_t j = t.name[0] == 'C' ? i % 48 : i / 32;
      ASSERT_EQ(t.values[i], 100 + static_cast<double>(j)) << t.name << " " << i;
    }
}

}  // namespace
}  // namespace tilec::backend
