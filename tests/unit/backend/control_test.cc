// Loops, branches, counters, roles, mbarriers and TMA.
//
// SPDX-License-Identifier: Apache-2.0
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

}  // namespace

}  // namespace tilec::backend
