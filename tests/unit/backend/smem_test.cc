// Tiles in shared memory: every swizzle, transposed and not, against the layout's own address map.
//
// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/backend/harness.h"

namespace tilec::backend {
namespace {

ir::SmemLayout PanelsOf(int64_t rows, int64_t cols, int swizzle, DType d) {
  ir::SmemLayout s;
  s.rows = rows;
  s.swizzle_bytes = swizzle;
  s.panel_cols = swizzle ? swizzle / ir::ByteSize(d) : 16 / ir::ByteSize(d);
  s.cols = RoundUp(cols, s.panel_cols);
  return s;
}

// tile -> shared -> tile in another layout.
TEST(Smem, RoundTrips) {
  SKIP_WITHOUT_DEVICE();
  int n = 0, round = 0;
  for (DType d : {DType::kF32, DType::kBF16, DType::kE4M3, DType::kF64, DType::kBool})
    for (int swizzle : {0, 32, 64, 128})
      for (const std::vector<int64_t>& shape :
           {std::vector<int64_t>{64, 64}, {40, 48}, {128, 32}}) {
        if (d == DType::kF64 && shape[1] == 48) continue;
        for (bool transposed : {false, true}) {
          if (++round % 2 && shape[0] != 40) continue;  // the odd shape always
          const std::vector<int64_t> stored =
              transposed ? std::vector<int64_t>{shape[1], shape[0]} : shape;
          const auto layouts = SomeLayouts(shape, 128);
          Kernel k("smem" + std::to_string(n++));
          k.allow_spills = true;
          const ir::SmemLayout s = PanelsOf(RoundUp(stored[0], 8), stored[1], swizzle, d);
          const ValueId smem = k.Smem(d, stored, s, 0);
          const ValueId a = k.In({"A", d, shape, Random(d, shape[0] * shape[1], 3, -60, 60), {}});
          for (size_t i = 0; i < layouts.size(); ++i) {
            const ValueId v = k.Load(a, shape, layouts[i]);
            k.Sync();
            k.b.Add(OpKind::kSmemStore, {v, smem}, {}, {{"transposed", int64_t{transposed}}});
            k.Sync();
            const ir::Layout& to = layouts[(i + 1) % layouts.size()];
            const ValueId back = k.b.Value(OpKind::kSmemLoad, {smem}, k.Tile(d, shape, to),
                                           {{"transposed", int64_t{transposed}}});
            k.Store(k.Out({"C" + std::to_string(i), d, shape, {}, {}}), back);
            // What lies in memory, seen through the other orientation.
            const ir::Layout plain = ir::BlockedLayout(stored, 1, 128);
            const ValueId other = k.b.Value(OpKind::kSmemLoad, {smem}, k.Tile(d, stored, plain),
                                            {{"transposed", int64_t{0}}});
            k.Store(k.Out({"T" + std::to_string(i), d, stored, {}, {}}), other);
          }
          ASSERT_TRUE(k.Run());
          std::vector<double> turned;
          for (int64_t r = 0; r < stored[0]; ++r)
            for (int64_t c = 0; c < stored[1]; ++c)
              turned.push_back(k.values(
                  "A")[static_cast<size_t>(transposed ? c * shape[1] + r : r * shape[1] + c)]);
          for (size_t i = 0; i < layouts.size(); ++i) {
            const std::string what = k.fn.name + " " + ir::Spelling(d) + " swizzle " +
                                     std::to_string(swizzle) + ir::ToText(layouts[i]);
            ExpectNear(k.values("C" + std::to_string(i)), k.values("A"), 0, what);
            ExpectNear(k.values("T" + std::to_string(i)), turned, 0, what + " raw");
          }
        }
      }
}

// The bytes are where ir::SmemOffset says: read them back as a plain row of bytes.
TEST(Smem, BytesAreWhereTheLayoutSays) {
  SKIP_WITHOUT_DEVICE();
  for (DType d : {DType::kBF16, DType::kF32, DType::kI8})
    for (int swizzle : {32, 64, 128}) {
      const std::vector<int64_t> shape = {64, 128};
      for (const ir::Layout& layout : SomeLayouts(shape, 128)) {
        Kernel k("bytes" + std::to_string(swizzle));
        k.allow_spills = true;
        const ir::SmemLayout s = PanelsOf(64, 128, swizzle, d);
        const int64_t bytes = ir::SmemBytes(s, d);
        const ValueId smem = k.Smem(d, shape, s, 1024);
        const ValueId raw = k.Smem(DType::kU8, {bytes}, {1, bytes, bytes, 0}, 1024);
        const ValueId a = k.In({"A", d, shape, Random(d, 64 * 128, 3, -60, 60), {}});
        k.b.Add(OpKind::kSmemZero, {smem}, {});
        k.Sync();
        k.b.Add(OpKind::kSmemStore, {k.Load(a, shape, layout), smem}, {});
        k.Sync();
        const ir::Layout flat = ir::BlockedLayout({bytes}, 16, 128);
        const ValueId v = k.b.Value(OpKind::kSmemLoad, {raw}, k.Tile(DType::kU8, {bytes}, flat));
        k.Store(k.Out({"R", DType::kU8, {bytes}, {}, {}}), v, 16);
        ASSERT_TRUE(k.Run());
        std::vector<uint8_t> want(static_cast<size_t>(bytes));
        const std::vector<uint8_t> elements = Encode(d, k.values("A"));
        const size_t size = static_cast<size_t>(ir::ByteSize(d));
        for (int64_t r = 0; r < 64; ++r)
          for (int64_t c = 0; c < 128; ++c)
            std::copy_n(elements.begin() + (r * 128 + c) * static_cast<int64_t>(size), size,
                        want.begin() + ir::SmemOffset(s, d, r, c));
        ExpectNear(k.values("R"), Decode(DType::kU8, want), 0, k.fn.name + ir::ToText(layout));
      }
    }
}

TEST(Smem, SlotsAndZero) {
  SKIP_WITHOUT_DEVICE();
  Kernel k("slots");
  const std::vector<int64_t> shape = {16, 64};
  const ir::SmemLayout s = PanelsOf(16, 64, 128, DType::kBF16);
  const ValueId smem = k.Smem(DType::kBF16, shape, s, 0, 3);
  const ir::Layout layout = ir::BlockedLayout(shape, 2, 128);
  const ValueId a = k.In({"A", DType::kBF16, shape, Random(DType::kBF16, 1024, 3), {}});
  const ValueId v = k.Load(a, shape, layout);
  for (int i = 0; i < 3; ++i) k.b.Add(OpKind::kSmemZero, {smem, k.b.Int(i, DType::kI32)}, {});
  k.Sync();
  k.b.Add(OpKind::kSmemStore, {v, smem, k.b.Int(1, DType::kI32)}, {});
  k.Sync();
  for (int i = 0; i < 3; ++i)
    k.Store(k.Out({"C" + std::to_string(i), DType::kBF16, shape, {}, {}}),
            k.b.Value(OpKind::kSmemLoad, {smem, k.b.Int(i, DType::kI32)},
                      k.Tile(DType::kBF16, shape, layout)));
  ASSERT_TRUE(k.Run());
  const std::vector<double> zero(1024, 0);
  ExpectNear(k.values("C0"), zero, 0, "slot 0");
  ExpectNear(k.values("C1"), k.values("A"), 0, "slot 1");
  ExpectNear(k.values("C2"), zero, 0, "slot 2");
}

TEST(Smem, AccumulatorTilesUseMatrixStores) {
  Kernel k("stmatrix");
  const std::vector<int64_t> shape = {64, 64};
  const ir::SmemLayout s = PanelsOf(64, 64, 128, DType::kBF16);
  const ValueId smem = k.Smem(DType::kBF16, shape, s, 0);
  const ValueId a = k.In({"A", DType::kBF16, shape, {}, {}});
  k.b.Add(OpKind::kSmemStore,
          {k.Load(a, shape, ir::AccumulatorLayout(64, 64, 1, ir::WgSplit::kM)), smem}, {});
  ASSERT_TRUE(k.Build());
  EXPECT_NE(k.image().ptx.find("stmatrix"), std::string::npos) << k.image().ptx;
}

}  // namespace
}  // namespace tilec::backend
