// Roles, mbarriers and copies by TMA, run on the emulator.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "tests/unit/backend/harness.h"

namespace tilec::backend {

namespace {

ir::SmemLayout Swizzled(int64_t rows, int64_t cols) { return {rows, cols, 64, 128}; }

// One tensor map of two dims over the whole tensor.
int64_t AddMap(Kernel& k, ValueId tensor, std::vector<int64_t> box, int swizzle) {
  k.fn.launch.maps.push_back({tensor, {1, 0}, std::move(box), swizzle});
  return static_cast<int64_t>(k.fn.launch.maps.size()) - 1;
}

TEST(Tma, LoadAndStoreWithEdges) {
  SKIP_WITHOUT_DEVICE();
  Kernel k("tma");
  const int64_t rows = 50, cols = 72;
  const ValueId a =
      k.In({"A", DType::kBF16, {rows, cols}, Random(DType::kBF16, rows * cols, 1), {}}, {"M", "N"});
  const ValueId c = k.Out({"C", DType::kBF16, {rows, cols}, {}, {}}, {"M", "N"});
  const ValueId seen = k.Out({"S", DType::kBF16, {64, 128}, {}, {}});
  const int64_t in = AddMap(k, a, {64, 64}, 128), out = AddMap(k, c, {64, 64}, 128);
  const ValueId smem = k.Smem(DType::kBF16, {64, 128}, Swizzled(64, 128), 0);
  const ValueId bar =
      k.b.Value(OpKind::kMbarAlloc, {}, Type::Mbar(1), {{"offset", int64_t{16384}}});
  k.fn.launch.smem_bytes = 16384 + 8;
  auto elect = [&](auto f) {
    const ir::OpId op = k.b.Add(OpKind::kElect, {}, {});
    const ir::BlockId region = k.fn.AddBlock(op);
    k.fn.ops[op].regions.push_back(region);
    ir::Builder inner(k.fn, region);
    f(inner);
    inner.Yield({});
  };
  elect([&](ir::Builder& i) { i.Add(OpKind::kMbarInit, {bar}, {}, {{"count", int64_t{1}}}); });
  k.b.Add(OpKind::kFenceMbarInit, {}, {});
  k.Sync();
  elect([&](ir::Builder& i) {
    i.Add(OpKind::kMbarExpect, {bar}, {}, {{"bytes", int64_t{16384}}});
    for (int64_t panel : {0, 1})
      i.Add(OpKind::kTmaLoad, {smem, bar, i.Int(64 * panel), i.Int(0)}, {},
            {{"map", in}, {"offset", panel * 8192}});
  });
  k.b.Add(OpKind::kMbarWait, {bar, k.b.Int(0, DType::kI32)}, {});
  const ir::Layout layout = ir::BlockedLayout({64, 128}, 8, 128);
  const ValueId v = k.b.Value(OpKind::kSmemLoad, {smem}, k.Tile(DType::kBF16, {64, 128}, layout));
  k.Store(seen, v, 8);
  k.Sync();
  k.b.Add(OpKind::kSmemStore, {k.b.Unary(OpKind::kNeg, v), smem}, {});
  k.b.Add(OpKind::kFenceAsync, {}, {});
  k.Sync();
  elect([&](ir::Builder& i) {
    for (int64_t panel : {0, 1})
      i.Add(OpKind::kTmaStore, {smem, i.Int(64 * panel), i.Int(0)}, {},
            {{"map", out}, {"offset", panel * 8192}});
    i.Add(OpKind::kTmaCommit, {}, {});
    i.Add(OpKind::kTmaWait, {}, {}, {{"pending", int64_t{0}}, {"read", int64_t{0}}});
  });
  ASSERT_TRUE(k.Run());
  std::vector<double> want, negated;
  for (int64_t r = 0; r < 64; ++r)
    for (int64_t j = 0; j < 128; ++j)
      want.push_back(r < rows && j < cols ? k.values("A")[static_cast<size_t>(r * cols + j)] : 0);
  for (double x : k.values("A")) negated.push_back(-x);
  ExpectNear(k.values("S"), want, 0, "tma load");
  ExpectNear(k.values("C"), negated, 0, "tma store");
}

// Tiles are combined with a tensor, box by box, and clipped to it.
TEST(Tma, CombinesWithATensor) {
  SKIP_WITHOUT_DEVICE();
  struct Row {
    DType d;
    const char* kind;
    double (*want)(double there, double tile);
  };
  const Row rows_of[] = {
      {DType::kF32, "add", [](double a, double b) { return a + b; }},
      {DType::kF16, "add", [](double a, double b) { return a + b; }},
      {DType::kBF16, "add", [](double a, double b) { return a + b; }},
      {DType::kI32, "add", [](double a, double b) { return a + b; }},
      {DType::kI32, "min", [](double a, double b) { return std::min(a, b); }},
      {DType::kI32, "max", [](double a, double b) { return std::max(a, b); }},
      {DType::kU32, "max", [](double a, double b) { return std::max(a, b); }},
      {DType::kU32, "and",
       [](double a, double b) {
         return double(static_cast<int64_t>(a) & static_cast<int64_t>(b));
       }},
      {DType::kI32, "or",
       [](double a, double b) {
         return double(static_cast<int64_t>(a) | static_cast<int64_t>(b));
       }},
      {DType::kI32, "xor",
       [](double a, double b) {
         return double(static_cast<int64_t>(a) ^ static_cast<int64_t>(b));
       }},
  };
  for (const Row& row : rows_of) {
    const int64_t rows = 50, cols = 56, size = ir::ByteSize(row.d), panel = 128 / size;
    const double low = row.d == DType::kU32 ? 0 : -40;
    Kernel k(std::string("combine_") + row.kind + "_" + ir::Spelling(row.d));
    HostTensor there{"C", row.d, {rows, cols}, Random(row.d, rows * cols, 1, low, 40), {}};
    for (double& v : there.values) v = std::round(v);  // sums of 16 bits are exact
    const std::vector<double> before = there.values;
    std::vector<double> tile = Random(row.d, 64 * 64, 2, low, 40);
    for (double& v : tile) v = std::round(v);
    const ValueId a = k.In({"A", row.d, {64, 64}, tile, {}});
    const ValueId c = k.Out(there, {"M", "N"});
    const int64_t map = AddMap(k, c, {panel, 64}, 128);
    const ValueId smem = k.Smem(row.d, {64, 64}, {64, 64, panel, 128}, 0);
    k.fn.launch.smem_bytes = 64 * 64 * size;
    const ir::Layout layout = ir::BlockedLayout({64, 64}, 4, 128);
    k.b.Add(OpKind::kSmemStore, {k.Load(a, {64, 64}, layout), smem}, {});
    k.b.Add(OpKind::kFenceAsync, {}, {});
    k.Sync();
    const ir::OpId elect = k.b.Add(OpKind::kElect, {}, {});
    const ir::BlockId region = k.fn.AddBlock(elect);
    k.fn.ops[elect].regions.push_back(region);
    ir::Builder i(k.fn, region);
    for (int64_t col = 0; col < 64; col += panel)
      i.Add(OpKind::kTmaStore, {smem, i.Int(col), i.Int(0)}, {},
            {{"map", map}, {"offset", col * 64 * size}, {"kind", std::string(row.kind)}});
    i.Add(OpKind::kTmaCommit, {}, {});
    i.Add(OpKind::kTmaWait, {}, {}, {{"pending", int64_t{0}}, {"read", int64_t{0}}});
    i.Yield({});
    ASSERT_TRUE(k.Run());
    EXPECT_NE(k.image().ptx.find(std::string("cp.reduce.async.bulk.tensor.2d.global.shared::cta.") +
                                 row.kind + ".tile.bulk_group"),
              std::string::npos);
    std::vector<double> want;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t j = 0; j < cols; ++j)
        want.push_back(row.want(before[static_cast<size_t>(r * cols + j)],
                                tile[static_cast<size_t>(r * 64 + j)]));
    ExpectNear(k.values("C"), want, 0, k.fn.name);
  }
}

// A producer warp with a ring of three stages feeds two warpgroups that multiply: the whole
// machinery of a warp-specialised kernel, with register quotas.
TEST(Roles, ProducerAndConsumers) {
  SKIP_WITHOUT_DEVICE();
  const int64_t m = 128, n = 128, kk = 320, bk = 64, depth = 3;
  Kernel k("specialised", 12);
  const ValueId a =
      k.In({"A", DType::kBF16, {m, kk}, Random(DType::kBF16, m * kk, 1, -1, 1), {}}, {"M", "K"});
  const ValueId b =
      k.In({"B", DType::kBF16, {n, kk}, Random(DType::kBF16, n * kk, 2, -1, 1), {}}, {"N", "K"});
  const ValueId c = k.Out({"C", DType::kBF16, {m, n}, {}, {}}, {"M", "N"});
  const ValueId dim_k = [&] {
    ir::Param p;
    p.kind = ir::ParamKind::kDim;
    p.name = "K";
    return k.fn.AddParam(std::move(p), Type::Scalar(DType::kI64));
  }();
  const int64_t map_a = AddMap(k, a, {bk, m}, 128), map_b = AddMap(k, b, {bk, n}, 128);
  const int64_t stage = m * bk * 2;
  const ValueId sa = k.Smem(DType::kBF16, {m, bk}, Swizzled(m, bk), 0, depth);
  const ValueId sb = k.Smem(DType::kBF16, {n, bk}, Swizzled(n, bk), stage * depth, depth);
  const int64_t bars = stage * depth * 2;
  k.fn.launch.smem_bytes = bars + 16 * depth;
  const ValueId full = k.b.Value(OpKind::kMbarAlloc, {}, Type::Mbar(depth), {{"offset", bars}});
  const ValueId empty =
      k.b.Value(OpKind::kMbarAlloc, {}, Type::Mbar(depth), {{"offset", bars + 8 * depth}});
  auto region = [&](ir::Builder& at, ir::OpId op, auto f) {
    (void)at;
    const ir::BlockId block = k.fn.AddBlock(op);
    k.fn.ops[op].regions.push_back(block);
    ir::Builder inner(k.fn, block);
    f(inner);
  };
  auto elect = [&](ir::Builder& at, auto f) {
    region(at, at.Add(OpKind::kElect, {}, {}), [&](ir::Builder& i) {
      f(i);
      i.Yield({});
    });
  };
  elect(k.b, [&](ir::Builder& i) {
    i.Add(OpKind::kMbarInit, {full}, {}, {{"count", int64_t{1}}});
    i.Add(OpKind::kMbarInit, {empty}, {}, {{"count", int64_t{2}}});
  });
  k.b.Add(OpKind::kFenceMbarInit, {}, {});
  k.Sync();
  // Slot and parity of a transfer counter.
  auto ring = [&](ir::Builder& i, ValueId counter, bool producer, ValueId* slot, ValueId* parity) {
    const ValueId t = i.Value(OpKind::kCounterRead, {counter}, Type::Scalar(DType::kI32));
    const ValueId d = i.Int(depth, DType::kI32);
    *slot = i.Binary(OpKind::kMod, t, d);
    *parity = i.Binary(OpKind::kMod, i.Binary(OpKind::kDiv, t, d), i.Int(2, DType::kI32));
    if (producer) *parity = i.Binary(OpKind::kXor, *parity, i.Int(1, DType::kI32));
  };
  auto role = [&](const char* name, int64_t first, int64_t warps, int64_t regs, auto f) {
    const ir::OpId op = k.b.Add(
        OpKind::kRole, {}, {},
        {{"name", std::string(name)}, {"first_warp", first}, {"warps", warps}, {"regs", regs}});
    region(k.b, op, [&](ir::Builder& i) {
      f(i);
      i.Yield({});
    });
  };
  role("load", 0, 1, 40, [&](ir::Builder& i) {
    const ValueId count = i.Value(OpKind::kCounter, {}, Type::Counter(), {{"init", int64_t{0}}});
    const ir::OpId loop = i.Add(OpKind::kFor, {i.Int(0), dim_k}, {}, {{"step", bk}});
    region(i, loop, [&](ir::Builder& t) {
      const ValueId at = k.fn.AddArg(t.block(), Type::Scalar(DType::kI64));
      elect(t, [&](ir::Builder& e) {
        ValueId slot, parity;
        ring(e, count, true, &slot, &parity);
        e.Add(OpKind::kMbarWait, {empty, parity, slot}, {});
        e.Add(OpKind::kMbarExpect, {full, slot}, {}, {{"bytes", 2 * stage}});
        e.Add(OpKind::kTmaLoad, {sa, full, at, e.Int(0), slot}, {},
              {{"map", map_a}, {"offset", int64_t{0}}, {"slotted", int64_t{1}}});
        e.Add(OpKind::kTmaLoad, {sb, full, at, e.Int(0), slot}, {},
              {{"map", map_b}, {"offset", int64_t{0}}, {"slotted", int64_t{1}}});
      });
      t.Add(OpKind::kCounterAdd, {count}, {}, {{"by", int64_t{1}}});
      t.Yield({});
    });
  });
  for (int64_t half : {0, 1})
    role("compute", 4 + 4 * half, 4, 232, [&](ir::Builder& i) {
      // Each consumer owns 64 columns: its part of B starts 64 rows down.
      const ValueId count = i.Value(OpKind::kCounter, {}, Type::Counter(), {{"init", int64_t{0}}});
      const ir::Layout layout = ir::AccumulatorLayout(m, n / 2, 1, ir::WgSplit::kM);
      const Type type = k.Tile(DType::kF32, {m, n / 2}, layout);
      const ValueId part =
          i.Value(OpKind::kSmemAlloc, {}, Type::Smem(DType::kBF16, {n, bk}, Swizzled(n, bk), depth),
                  {{"offset", stage * depth + half * 64 * 128}});
      const ir::OpId loop =
          i.Add(OpKind::kFor, {i.Int(0), dim_k, i.Constant(type, 0)}, {type}, {{"step", bk}});
      region(i, loop, [&](ir::Builder& t) {
        k.fn.AddArg(t.block(), Type::Scalar(DType::kI64));
        ValueId acc = k.fn.AddArg(t.block(), type);
        ValueId slot, parity;
        ring(t, count, false, &slot, &parity);
        t.Add(OpKind::kMbarWait, {full, parity, slot}, {});
        acc = t.Value(OpKind::kMmaFence, {acc}, type);
        acc = t.Value(OpKind::kMma, {acc, sa, part, slot, slot}, type,
                      {{"k", bk},
                       {"split", std::string("m")},
                       {"trans_a", int64_t{0}},
                       {"trans_b", int64_t{0}},
                       {"zero", int64_t{0}}});
        t.Add(OpKind::kMmaCommit, {}, {});
        acc = t.Value(OpKind::kMmaWait, {acc}, type, {{"pending", int64_t{0}}});
        elect(t, [&](ir::Builder& e) { e.Add(OpKind::kMbarArrive, {empty, slot}, {}); });
        t.Add(OpKind::kCounterAdd, {count}, {}, {{"by", int64_t{1}}});
        t.Yield({acc});
      });
      const ValueId out = i.Cast(k.fn.ops[loop].results[0], DType::kBF16);
      i.Add(OpKind::kGStore, {c, out, i.Int(0), i.Int(m), i.Int(64 * half), i.Int(64 * half + 64)},
            {},
            {{"modes", std::string("rr")},
             {"sizes", std::vector<int64_t>{m, 64}},
             {"vector", int64_t{2}}});
    });
  ASSERT_TRUE(k.Run());
  if (k.assembled) {
    EXPECT_EQ(k.report.registers, 168) << k.report.log;
  }
  std::vector<double> want;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t q = 0; q < kk; ++q)
        sum += k.values("A")[static_cast<size_t>(i * kk + q)] *
               k.values("B")[static_cast<size_t>(j * kk + q)];
      want.push_back(sum);
    }
  ExpectNear(k.values("C"), want, 0x1p-7, "product");
}

}  // namespace

}  // namespace tilec::backend
