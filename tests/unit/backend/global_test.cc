// Global memory by threads: ranges, scalars, gathers, clipping, fills, strides, atomics.
//
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "tests/unit/backend/harness.h"
#include "tests/unit/h200.h"

namespace tilec::backend {
namespace {

// A launch scalar, so that nothing folds.
ValueId Scalar(Kernel& k, const std::string& name, DType d = DType::kI64) {
  ir::Param p;
  p.kind = ir::ParamKind::kScalar;
  p.name = name;
  return k.fn.AddParam(std::move(p), Type::Scalar(d));
}

TEST(GLoad, RangesClipAndFill) {
  SKIP_WITHOUT_DEVICE();
  const int64_t rows = 37, cols = 53;
  for (DType d : {DType::kF32, DType::kBF16, DType::kI8, DType::kI64, DType::kBool, DType::kE5M2})
    for (int64_t start : {-5, 0, 20})
      for (bool fill : {false, true}) {
        Kernel k(std::string("clip_") + ir::Spelling(d));
        const std::vector<int64_t> shape = {24, 40};
        const ValueId a =
            k.In({"A", d, {rows, cols}, Random(d, rows * cols, 4, -9, 9), {}}, {"M", "N"});
        const ValueId x = Scalar(k, "x"), y = Scalar(k, "y");
        std::vector<ValueId> operands = {a, x, y};
        if (fill) operands.push_back(k.b.Constant(Type::Scalar(d), 1));
        for (size_t i = 0; const ir::Layout& layout : SomeLayouts(shape, 128)) {
          const ValueId v = k.b.Value(OpKind::kGLoad, operands, k.Tile(d, shape, layout),
                                      {{"modes", std::string("rr")},
                                       {"sizes", shape},
                                       {"has_fill", int64_t{fill}},
                                       {"vector", int64_t{1}}});
          k.Store(k.Out({"C" + std::to_string(i++), d, shape, {}, {}}), v);
        }
        ASSERT_TRUE(k.Run({{"x", start}, {"y", start + 3}}));
        std::vector<double> want;
        for (int64_t r = start; r < start + 24; ++r)
          for (int64_t c = start + 3; c < start + 43; ++c)
            want.push_back(r >= 0 && r < rows && c >= 0 && c < cols
                               ? k.values("A")[static_cast<size_t>(r * cols + c)]
                               : fill);
        for (const HostTensor& t : k.tensors)
          if (t.name != "A") ExpectNear(t.values, want, 0, k.fn.name + t.name);
      }
}

// A tile that may reach over an edge, by many accesses: one comparison where all of it is inside,
// one for each access where it is not, at either end.
TEST(GLoad, WholeTilesAreComparedOnce) {
  SKIP_WITHOUT_DEVICE();
  const int64_t size = 5000, width = 2048;
  Kernel k("whole");
  const ir::Layout layout = ir::BlockedLayout({width}, 1, 128);
  const ValueId a =
      k.In({"A", DType::kF32, {size}, Random(DType::kF32, size, 3, -9, 9), {}}, {"N"});
  const ValueId x = Scalar(k, "x");
  const ValueId v = k.b.Value(OpKind::kGLoad, {a, x}, k.Tile(DType::kF32, {width}, layout),
                              {{"modes", std::string("r")},
                               {"sizes", std::vector<int64_t>{width}},
                               {"has_fill", int64_t{0}},
                               {"vector", int64_t{1}}});
  k.Store(k.Out({"C", DType::kF32, {width}, {}, {}}), v);
  ASSERT_TRUE(k.Build());
  const std::string& ptx = k.image().ptx;
  int plain = 0, compared = 0;
  for (size_t at = ptx.find("ld.global"); at != std::string::npos;
       at = ptx.find("ld.global", at + 1))
    ++(ptx[ptx.find_last_not_of(" \t", at - 1)] == '\n' ? plain : compared);
  EXPECT_EQ(plain, 16);
  EXPECT_EQ(compared, 16);
  for (int64_t start : {int64_t{0}, int64_t{7}, size - width, size - width + 1, size - 1, size + 9,
                        int64_t{-1}, -width + 1, -width}) {
    ASSERT_TRUE(k.Run({{"x", start}}));
    std::vector<double> want;
    for (int64_t i = start; i < start + width; ++i)
      want.push_back(i >= 0 && i < size ? k.values("A")[static_cast<size_t>(i)] : 0);
    ExpectNear(k.values("C"), want, 0, std::to_string(start));
  }
}

TEST(GLoad, VectorsScalarsAndStrides) {
  SKIP_WITHOUT_DEVICE();
  for (DType d : {DType::kF32, DType::kBF16, DType::kU8, DType::kF64}) {
    const int64_t v = 16 / ir::ByteSize(d);
    const int64_t depth = 3, rows = 20, cols = 8 * v, pitch = 12 * v;
    Kernel k(std::string("strided_") + ir::Spelling(d));
    const int64_t count = (depth - 1) * rows * pitch + (rows - 1) * pitch + cols;
    const HostTensor in{
        "A", d, {depth, rows, cols}, Random(d, count, 1, 0, 9), {rows * pitch, pitch, 1}};
    const ValueId a = k.In(in, {"D", "M", "N"});
    const ValueId z = Scalar(k, "z"), x = Scalar(k, "x");
    const std::vector<int64_t> shape = {16, 4 * v};
    const ir::Layout layout = ir::BlockedLayout(shape, v, 128);
    const ValueId tile = k.b.Value(OpKind::kGLoad, {a, z, x, k.b.Int(v)}, k.Tile(d, shape, layout),
                                   {{"modes", std::string("srr")},
                                    {"sizes", std::vector<int64_t>{0, 16, 4 * v}},
                                    {"vector", v}});
    k.Store(k.Out({"C", d, shape, {}, {}}), tile, v);
    ASSERT_TRUE(k.Build());
    EXPECT_NE(k.image().ptx.find(ir::ByteSize(d) == 8 ? "ld.global.v2.b64" : "ld.global.v4.b32"),
              std::string::npos);
    for (int64_t zz : {1, 2, 3}) {
      ASSERT_TRUE(k.Run({{"z", zz}, {"x", 7}}));
      std::vector<double> want;
      for (int64_t r = 7; r < 23; ++r)
        for (int64_t c = v; c < 5 * v; ++c)
          want.push_back(r < rows && zz < depth
                             ? k.values("A")[static_cast<size_t>((zz * rows + r) * pitch + c)]
                             : 0);
      ExpectNear(k.values("C"), want, 0, k.fn.name + std::to_string(zz));
    }
  }
}

TEST(GLoad, GatherAndScatter) {
  SKIP_WITHOUT_DEVICE();
  const int64_t rows = 30, cols = 48, picked = 20;
  Kernel k("gather");
  const ValueId a =
      k.In({"A", DType::kBF16, {rows, cols}, Random(DType::kBF16, rows * cols, 1), {}}, {"M", "N"});
  std::vector<double> index = Random(DType::kI32, picked, 2, -4, 34);
  const ValueId where = k.In({"I", DType::kI32, {picked}, index, {}});
  std::vector<double> places;
  for (int64_t i = 0; i < picked; ++i) places.push_back(static_cast<double>((i * 7) % 29 - 2));
  const ValueId places_in = k.In({"P", DType::kI32, {picked}, places, {}});
  const std::vector<int64_t> shape = {picked, cols};
  size_t i = 0;
  for (const ir::Layout& layout : SomeLayouts(shape, 128)) {
    const ValueId at = k.Load(where, {picked}, ir::SliceLayout(layout, 1));
    const ValueId tile =
        k.b.Value(OpKind::kGLoad, {a, at, k.b.Int(0)}, k.Tile(DType::kBF16, shape, layout),
                  {{"modes", std::string("gr")}, {"sizes", shape}, {"vector", int64_t{1}}});
    k.Store(k.Out({"C" + std::to_string(i), DType::kBF16, shape, {}, {}}), tile);
    const ValueId to = k.Load(places_in, {picked}, ir::SliceLayout(layout, 1));
    const ValueId out = k.Out({"S" + std::to_string(i), DType::kBF16, {rows, cols}, {}, {}});
    k.b.Add(OpKind::kGStore, {out, tile, to, k.b.Int(0), k.b.Int(40)}, {},
            {{"modes", std::string("gr")}, {"sizes", shape}, {"vector", int64_t{1}}});
    ++i;
  }
  ASSERT_TRUE(k.Run());
  std::vector<double> want, scattered(static_cast<size_t>(rows * cols), 0);
  for (int64_t r = 0; r < picked; ++r)
    for (int64_t c = 0; c < cols; ++c) {
      const int64_t from = static_cast<int64_t>(index[static_cast<size_t>(r)]);
      want.push_back(from >= 0 && from < rows ? k.values("A")[static_cast<size_t>(from * cols + c)]
                                              : 0);
      const int64_t to = static_cast<int64_t>(places[static_cast<size_t>(r)]);
      if (to >= 0 && to < rows && c < 40)
        scattered[static_cast<size_t>(to * cols + c)] = want.back();
    }
  for (size_t j = 0; j < i; ++j) {
    ExpectNear(k.values("C" + std::to_string(j)), want, 0, "gather");
    ExpectNear(k.values("S" + std::to_string(j)), scattered, 0, "scatter");
  }
}

TEST(GStore, ClipsToRangeAndTensor) {
  SKIP_WITHOUT_DEVICE();
  const std::vector<int64_t> shape = {32, 32};
  for (const ir::Layout& layout : SomeLayouts(shape, 128)) {
    Kernel k("store_clip");
    const ValueId c =
        k.Out({"C", DType::kI32, {40, 36}, std::vector<double>(40 * 36, -1), {}}, {"M", "N"});
    const ValueId x = Scalar(k, "x"), end = Scalar(k, "end");
    const ValueId row = k.b.Value(OpKind::kWarpIota, {k.b.Int(0)},
                                  k.Tile(DType::kI32, {32}, ir::SliceLayout(layout, 1)));
    const ValueId v = k.b.Value(OpKind::kWarpBroadcast, {row}, k.Tile(DType::kI32, shape, layout),
                                {{"axes", std::vector<int64_t>{0}}});
    k.b.Add(OpKind::kGStore, {c, v, x, end, k.b.Int(10), k.b.Int(100)}, {},
            {{"modes", std::string("rr")}, {"sizes", shape}, {"vector", int64_t{1}}});
    ASSERT_TRUE(k.Run({{"x", 12}, {"end", 33}}));
    std::vector<double> want;
    for (int64_t r = 0; r < 40; ++r)
      for (int64_t j = 0; j < 36; ++j)
        want.push_back(r >= 12 && r < 33 && j >= 10 ? static_cast<double>(r - 12) : -1);
    ExpectNear(k.values("C"), want, 0, ir::ToText(layout));
  }
}

TEST(GAtomic, Kinds) {
  SKIP_WITHOUT_DEVICE();
  struct Row {
    DType d;
    const char* kind;
  };
  const Row rows[] = {{DType::kF32, "add"}, {DType::kBF16, "add"}, {DType::kF16, "add"},
                      {DType::kF64, "add"}, {DType::kI32, "add"},  {DType::kU64, "add"},
                      {DType::kI32, "min"}, {DType::kU32, "max"},  {DType::kI64, "max"},
                      {DType::kF32, "max"}, {DType::kF32, "min"},  {DType::kI32, "and"},
                      {DType::kU32, "or"},  {DType::kI64, "xor"}};
  for (const Row& row : rows)
    for (const ir::Layout& layout :
         {ir::BlockedLayout({48}, 1, 128), ir::ReplicatedLayout({48}, 128)}) {
      Kernel k(std::string("atomic_") + row.kind + "_" + ir::Spelling(row.d));
      const ValueId a = k.In({"A", row.d, {48}, Random(row.d, 48, 5, -20, 20), {}});
      const std::vector<double> before = Random(row.d, 40, 6, -20, 20);
      const ValueId c = k.Out({"C", row.d, {40}, before, {}});
      const ValueId v = k.Load(a, {48}, layout);
      k.b.Add(OpKind::kGAtomic, {c, v, k.b.Int(0), k.b.Int(100)}, {},
              {{"kind", std::string(row.kind)},
               {"modes", std::string("r")},
               {"sizes", std::vector<int64_t>{48}}});
      ASSERT_TRUE(k.Run());
      std::vector<double> want;
      for (size_t i = 0; i < 40; ++i) {
        const double x = before[i], y = k.values("A")[i];
        const int64_t p = static_cast<int64_t>(x), q = static_cast<int64_t>(y);
        const std::string kind = row.kind;
        double w = kind == "add"   ? x + y
                   : kind == "min" ? std::fmin(x, y)
                   : kind == "max" ? std::fmax(x, y)
                   : kind == "and" ? static_cast<double>(p & q)
                   : kind == "or"  ? static_cast<double>(p | q)
                                   : static_cast<double>(p ^ q);
        want.push_back(RoundTo(row.d, w));
      }
      ExpectNear(k.values("C"), want, 0, k.fn.name);
    }
  Kernel k("refused");
  const ValueId c = k.Out({"C", DType::kI8, {128}, {}, {}});
  const ValueId v = k.b.Constant(k.Tile(DType::kI8, {128}, ir::BlockedLayout({128}, 1, 128)), 1);
  k.b.Add(OpKind::kGAtomic, {c, v, k.b.Int(0), k.b.Int(128)}, {},
          {{"kind", std::string("add")},
           {"modes", std::string("r")},
           {"sizes", std::vector<int64_t>{128}}});
  DiagSink diags;
  EXPECT_FALSE(Compile(k.fn, SourceMap(), BackendOptions(ir::H200()), diags).ok());
  EXPECT_STREQ(diags.all()[0].def->code, "E402");
}

TEST(GScalar, LoadStoreAtomic) {
  SKIP_WITHOUT_DEVICE();
  Kernel k("scalars");
  const ValueId a = k.In({"A", DType::kF32, {4, 6}, Random(DType::kF32, 24, 1), {}}, {"M", "N"});
  const ValueId c = k.Out({"C", DType::kF32, {8}, std::vector<double>(8, 0.5), {}});
  const ValueId i = Scalar(k, "i");
  auto load = [&](ValueId r, ValueId col, bool fill) {
    std::vector<ValueId> operands = {a, r, col};
    if (fill) operands.push_back(k.b.Constant(Type::Scalar(DType::kF32), 7));
    return k.b.Value(OpKind::kGLoadScalar, operands, Type::Scalar(DType::kF32),
                     {{"has_fill", int64_t{fill}}});
  };
  auto put = [&](ValueId v, int64_t at) {
    k.b.Add(OpKind::kGStoreScalar, {c, v, k.b.Int(at)}, {});
  };
  put(load(i, k.b.Int(3), false), 0);
  put(load(i, k.b.Int(6), false), 1);
  put(load(k.b.Int(-1), k.b.Int(0), true), 2);
  put(load(i, k.b.Int(0), false), 8);
  k.b.Add(OpKind::kGAtomicScalar, {c, load(i, k.b.Int(1), false), k.b.Int(4)}, {},
          {{"kind", std::string("add")}});
  ASSERT_TRUE(k.Run({{"i", 2}}));
  const std::vector<double>& x = k.values("A");
  ExpectNear(k.values("C"), {x[15], 0, 7, 0.5, RoundTo(DType::kF32, 0.5 + x[13]), 0.5, 0.5, 0.5}, 0,
             "scalars");
}

}  // namespace
}  // namespace tilec::backend
