// Loops, branches, counters, roles, mbarriers and TMA.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "tests/unit/backend/harness.h"

namespace tilec::backend {
namespace {

const ir::Layout kLine = ir::BlockedLayout({128}, 1, 128);

TEST(Control, ForCarriesTiles) {
  SKIP_WITHOUT_DEVICE();
  for (DType d : {DType::kF32, DType::kBF16, DType::kI8, DType::kBool, DType::kF64}) {
    Kernel k(std::string("for_") + ir::Spelling(d));
    const ir::Layout layout = ir::BlockedLayout({384}, 1, 128);
    const ValueId a = k.In({"A", d, {384}, Random(d, 384, 1, -3, 3), {}});
    const ValueId c = k.Out({"C", d, {384}, {}, {}});
    const ValueId start = k.Load(a, {384}, layout);
    const Type type = k.fn.type(start);
    const ir::OpId loop = k.b.Add(OpKind::kFor, {k.b.Int(2), k.b.Int(9), start, start},
                                  {type, type}, {{"step", int64_t{3}}});
    const ir::BlockId body = k.fn.AddBlock(loop);
    k.fn.ops[loop].regions.push_back(body);
    k.fn.AddArg(body, Type::Scalar(DType::kI64));
    const ValueId x = k.fn.AddArg(body, type), y = k.fn.AddArg(body, type);
    ir::Builder inner(k.fn, body);
    const OpKind op = d == DType::kBool ? OpKind::kXor : OpKind::kAdd;
    inner.Yield({inner.Binary(op, x, y), x});  // Fibonacci
    k.Store(c, k.fn.ops[loop].results[0]);
    ASSERT_TRUE(k.Run());
    std::vector<double> want;
    for (double v : k.values("A")) {
      double p = v, q = v;
      for (int i = 2; i < 9; i += 3) {
        const double next = d == DType::kBool ? (p != q) : RoundTo(d, p + q);
        q = p;
        p = next;
      }
      want.push_back(p);
    }
    ExpectNear(k.values("C"), want, 0, k.fn.name);
  }
}

TEST(Control, WhileIfCounterScalars) {
  SKIP_WITHOUT_DEVICE();
  // Collatz steps of a runtime scalar, odd steps counted apart.
  Kernel k("collatz");
  ir::Param p;
  p.kind = ir::ParamKind::kScalar;
  p.name = "start";
  const Type i64 = Type::Scalar(DType::kI64);
  const ValueId start = k.fn.AddParam(std::move(p), i64);
  const ValueId out = k.Out({"C", DType::kI64, {4}, {}, {}});
  const ValueId counter = k.b.Value(OpKind::kCounter, {}, Type::Counter(), {{"init", int64_t{5}}});
  const ir::OpId loop = k.b.Add(OpKind::kWhile, {start, k.b.Int(0)}, {i64, i64});
  const ir::BlockId test = k.fn.AddBlock(loop), body = k.fn.AddBlock(loop);
  k.fn.ops[loop].regions = {test, body};
  {
    const ValueId n = k.fn.AddArg(test, i64), steps = k.fn.AddArg(test, i64);
    ir::Builder t(k.fn, test);
    t.Yield({t.Cmp("ne", n, t.Int(1)), n, steps});
  }
  {
    const ValueId n = k.fn.AddArg(body, i64), steps = k.fn.AddArg(body, i64);
    ir::Builder t(k.fn, body);
    const ValueId odd = t.Cmp("eq", t.Binary(OpKind::kMod, n, t.Int(2)), t.Int(1));
    const ir::OpId branch = t.Add(OpKind::kIf, {odd}, {i64});
    const ir::BlockId yes = k.fn.AddBlock(branch), no = k.fn.AddBlock(branch);
    k.fn.ops[branch].regions = {yes, no};
    ir::Builder y(k.fn, yes), z(k.fn, no);
    y.Add(OpKind::kCounterAdd, {counter}, {}, {{"by", int64_t{1}}});
    y.Yield({y.Binary(OpKind::kAdd, y.Binary(OpKind::kMul, n, y.Int(3)), y.Int(1))});
    z.Yield({z.Binary(OpKind::kDiv, n, z.Int(2))});
    t.Yield({k.fn.ops[branch].results[0], t.Binary(OpKind::kAdd, steps, t.Int(1))});
  }
  auto put = [&](ValueId v, int64_t at) {
    k.b.Add(OpKind::kGStoreScalar, {out, v, k.b.Int(at)}, {});
  };
  put(k.fn.ops[loop].results[1], 0);
  put(k.b.Cast(k.b.Value(OpKind::kCounterRead, {counter}, Type::Scalar(DType::kI32)), DType::kI64),
      1);
  put(k.b.Value(OpKind::kProgramId, {}, i64), 2);
  put(start, 7);  // outside: nothing
  ASSERT_TRUE(k.Run({{"start", 27}}));
  ExpectNear(k.values("C"), {111, 5 + 41, 0, 0}, 0, "collatz");
}

// ptxas takes what comes from memory for different in every lane, unless a shuffle says otherwise
// (emit_uniform.cc). What parameters alone make needs none.
TEST(Control, BranchesThatDataSteerAreOneForAllLanes) {
  SKIP_WITHOUT_DEVICE();
  const auto shuffles = [](const std::string& ptx) {
    int n = 0;
    for (size_t at = ptx.find("shfl.sync.idx"); at != std::string::npos;
         at = ptx.find("shfl.sync.idx", at + 1))
      ++n;
    return n;
  };
  int without = 0;
  for (const bool data : {false, true}) {
    Kernel k(data ? "by_data" : "by_parameter");
    const Type i64 = Type::Scalar(DType::kI64);
    ir::Param p;
    p.kind = ir::ParamKind::kScalar;
    p.name = "n";
    const ValueId n = k.fn.AddParam(std::move(p), i64);
    const ValueId a = k.In({"A", DType::kI64, {4}, {3, 1, 4, 1}, {}});
    const ValueId out = k.Out({"C", DType::kI64, {1}, {}, {}});
    const ValueId read = k.b.Value(OpKind::kGLoadScalar, {a, k.b.Int(2)}, i64);
    const ir::OpId branch =
        k.b.Add(OpKind::kIf, {k.b.Cmp("lt", data ? read : n, k.b.Int(5))}, {i64});
    const ir::BlockId yes = k.fn.AddBlock(branch), no = k.fn.AddBlock(branch);
    k.fn.ops[branch].regions = {yes, no};
    ir::Builder y(k.fn, yes), z(k.fn, no);
    y.Yield({y.Binary(OpKind::kAdd, read, y.Int(10))});
    z.Yield({z.Binary(OpKind::kMul, read, z.Int(100))});
    k.b.Add(OpKind::kGStoreScalar, {out, k.fn.ops[branch].results[0], k.b.Int(0)}, {});
    ASSERT_TRUE(k.Run({{"n", 7}}));
    ExpectNear(k.values("C"), {data ? 14.0 : 400.0}, 0, k.fn.name);
    if (!data) without = shuffles(k.image().ptx);
    EXPECT_EQ(shuffles(k.image().ptx), without + (data ? 1 : 0)) << k.image().ptx;
  }
}

// Each branch asks for another CTA: ptxas would know the answer to a question asked before, and
// move arithmetic over the branch.
TEST(Control, CodeFencesAskDifferentThings) {
  SKIP_WITHOUT_DEVICE();
  Kernel k("fences");
  const ValueId a = k.In({"A", DType::kF32, {128}, Random(DType::kF32, 128, 1), {}});
  const ValueId v = k.Load(a, {128}, kLine);
  k.b.Add(OpKind::kCodeFence, {}, {});
  const ValueId twice = k.b.Binary(OpKind::kAdd, v, v);
  k.b.Add(OpKind::kCodeFence, {}, {});
  k.Store(k.Out({"C", DType::kF32, {128}, {}, {}}), k.b.Binary(OpKind::kMul, twice, v));
  ASSERT_TRUE(k.Run());
  const std::string& ptx = k.image().ptx;
  EXPECT_NE(ptx.find("x, -1;"), std::string::npos);
  EXPECT_NE(ptx.find("x, -2;"), std::string::npos);
  std::vector<double> want;
  for (double x : k.values("A")) want.push_back(RoundTo(DType::kF32, 2 * x * x));
  ExpectNear(k.values("C"), want, 0, "fences");
}

TEST(Control, AssertTraps) {
  SKIP_WITHOUT_DEVICE();
  const char* wanted = std::getenv("TILEC_TEST_DEVICE");
  if (wanted && std::string(wanted) == "cuda") GTEST_SKIP() << "a trap ends the CUDA context";
  Kernel k("asserts");
  const ValueId a = k.In({"A", DType::kF32, {128}, Random(DType::kF32, 128, 1, 0, 1), {}});
  const ValueId v = k.Load(a, {128}, kLine);
  k.b.Add(OpKind::kAssert, {k.b.Cmp("lt", v, k.b.Constant(k.fn.type(v), 2))}, {},
          {{"message", std::string("small")}});
  ASSERT_TRUE(k.Run());
  Kernel l("asserts_too_much");
  const ValueId b = l.In({"A", DType::kF32, {128}, Random(DType::kF32, 128, 1, 0, 1), {}});
  const ValueId w = l.Load(b, {128}, kLine);
  l.b.Add(OpKind::kAssert, {l.b.Cmp("lt", w, l.b.Constant(l.fn.type(w), 0.5))}, {},
          {{"message", std::string("smaller")}});
  ASSERT_TRUE(l.Build());
  DiagSink diags;
  auto loaded = runtime::LoadedKernel::Load(*TestDevice(), l.image(), diags);
  ASSERT_TRUE(loaded.ok());
  auto memory = TestDevice()->Alloc(512, diags);
  const std::vector<uint8_t> bytes = Encode(DType::kF32, l.values("A"));
  ASSERT_TRUE(TestDevice()->CopyIn(*memory, bytes.data(), 512, diags).ok());
  runtime::LaunchArgs args;
  args.tensors["A"] = {"f32", *memory, {128}, {}};
  EXPECT_FALSE((*loaded)->Launch(args, 0, nullptr, diags).ok());
  TestDevice()->Free(*memory);
}

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
