// The shape of what Compile gives: PTX that ptxas takes, launch data, places, determinism.
//
// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "tests/unit/backend/harness.h"
#include "tests/unit/h200.h"

namespace tilec::backend {
namespace {

// C = A + B, one tile.
void AddKernel(Kernel& k, const std::vector<std::string>& dims = {}) {
  const std::vector<int64_t> shape = {64, 128};
  const ValueId a = k.In({"A", DType::kBF16, shape, Random(DType::kBF16, 64 * 128, 1), {}}, dims);
  const ValueId b = k.In({"B", DType::kBF16, shape, Random(DType::kBF16, 64 * 128, 2), {}}, dims);
  const ValueId c = k.Out({"C", DType::kBF16, shape, {}, {}}, dims);
  const ir::Layout layout = ir::BlockedLayout(shape, 8, 128);
  const ValueId sum =
      k.b.Binary(OpKind::kAdd, k.Load(a, shape, layout, 8), k.Load(b, shape, layout, 8));
  k.Store(c, sum, 8);
}

TEST(Compile, AddsTiles) {
  Kernel k("add");
  AddKernel(k);
  ASSERT_TRUE(k.Build());
  const std::string& ptx = k.image().ptx;
  EXPECT_NE(ptx.find(".version 8.0"), std::string::npos) << ptx;
  EXPECT_NE(ptx.find(".target sm_90a"), std::string::npos);
  EXPECT_NE(ptx.find(".entry tile_add"), std::string::npos);
  EXPECT_NE(ptx.find(".reqntid 128, 1, 1"), std::string::npos) << ptx;
  EXPECT_NE(ptx.find(".minnctapersm 1"), std::string::npos);
  EXPECT_NE(ptx.find("ld.global.v4.b32"), std::string::npos) << ptx;
  EXPECT_EQ(ptx.find("call"), std::string::npos);
  EXPECT_EQ(k.image().block, 128);
  EXPECT_EQ(k.image().tensors.size(), 3u);
  if (!k.assembled) GTEST_SKIP() << "ptxas not found: text checked, not assembled";
  EXPECT_TRUE(k.report.clean()) << k.report.log;
  EXPECT_GT(k.report.registers, 0);
}

// Told that one CTA of 512 threads is enough, ptxas takes the registers of two.
TEST(Compile, LargeCtasAreNotToldThatOneIsEnough) {
  const auto told = [](int warps, int64_t ctas, int64_t cluster = 1) {
    Kernel k("large", warps);
    const std::vector<int64_t> shape = {64, 128};
    const ir::Layout layout = ir::BlockedLayout(shape, 8, 32 * warps);
    const ValueId a = k.In({"A", DType::kBF16, shape, Random(DType::kBF16, 64 * 128, 1), {}});
    k.Store(k.Out({"C", DType::kBF16, shape, {}, {}}), k.Load(a, shape, layout, 8), 8);
    k.fn.launch.ctas_per_sm = ctas;
    k.fn.launch.cluster = cluster;
    EXPECT_TRUE(k.Build());
    const std::string& ptx = k.image().ptx;
    const std::string word = ".minnctapersm ";
    const size_t at = ptx.find(word);
    return at == std::string::npos ? 0 : std::stoi(ptx.substr(at + word.size()));
  };
  EXPECT_EQ(told(8, 1), 1);
  EXPECT_EQ(told(16, 1), 0);
  EXPECT_EQ(told(16, 2), 2);
  EXPECT_EQ(told(8, 1, 2), 0);  // nor CTAs that share what there is
}

TEST(Compile, RunsIt) {
  SKIP_WITHOUT_DEVICE();
  Kernel k("add");
  AddKernel(k, {"M", "N"});
  ASSERT_TRUE(k.Run());
  std::vector<double> want;
  for (size_t i = 0; i < k.values("A").size(); ++i)
    want.push_back(RoundTo(DType::kBF16, k.values("A")[i] + k.values("B")[i]));
  ExpectNear(k.values("C"), want, 0, "add");
}

TEST(Compile, IsDeterministic) {
  Kernel k("add"), l("add");
  AddKernel(k, {"M", "N"});
  AddKernel(l, {"M", "N"});
  ASSERT_TRUE(k.Build() && l.Build());
  EXPECT_EQ(k.image().ptx, l.image().ptx);
}

TEST(Compile, LlvmText) {
  Kernel k("add");
  AddKernel(k);
  std::string ir, optimized;
  BackendOptions options(ir::H200());
  options.llvm_ir = &ir;
  options.llvm_ir_optimized = &optimized;
  DiagSink diags;
  ASSERT_TRUE(Compile(k.fn, SourceMap(), options, diags).ok());
  EXPECT_NE(ir.find("define ptx_kernel void @tile_add"), std::string::npos) << ir;
  EXPECT_NE(optimized.find("define ptx_kernel void @tile_add"), std::string::npos);
}

TEST(Compile, UnknownTarget) {
  Kernel k("add");
  AddKernel(k);
  BackendOptions options(ir::H200());
  options.target = "sm_10";
  DiagSink diags;
  ASSERT_FALSE(Compile(k.fn, SourceMap(), options, diags).ok());
  EXPECT_STREQ(diags.all()[0].def->code, "E406");
}

TEST(Compile, LinesNameTheSource) {
  Kernel k("lines");
  SourceMap sources;
  const int32_t file = sources.Add("x.tile", "first\n  second\n");
  const std::vector<int64_t> shape = {128};
  const ValueId a = k.In({"A", DType::kF32, shape, {}, {}});
  const ValueId c = k.Out({"C", DType::kF32, shape, {}, {}});
  const ir::Layout layout = ir::BlockedLayout(shape, 1, 128);
  k.b.SetSpan({file, 0, 5});
  const ValueId v = k.Load(a, shape, layout);
  k.b.SetSpan({file, 8, 14});
  k.Store(c, k.b.Unary(OpKind::kNeg, v));
  DiagSink diags;
  Result<KernelImage> image = Compile(k.fn, sources, BackendOptions(ir::H200()), diags);
  ASSERT_TRUE(image.ok());
  bool load = false, store = false;
  int last = 0;
  for (const SourceLine& l : image->lines) {
    EXPECT_GT(l.ptx_line, last);
    last = l.ptx_line;
    load |= l.op == "gload" && l.line == 1 && l.column == 1;
    store |= l.op == "gstore" && l.line == 2 && l.column == 3;
    EXPECT_EQ(l.file, "x.tile");
  }
  EXPECT_TRUE(load && store) << image->ptx;
  // The line is that of the directive.
  std::string text = image->ptx;
  for (int i = 1; i < image->lines[0].ptx_line; ++i) text = text.substr(text.find('\n') + 1);
  EXPECT_EQ(text.substr(0, 5), "\t.loc") << text.substr(0, 40);
  EXPECT_NE(image->ptx.find(".file 1 \"x.tile\""), std::string::npos);
  if (TestPtxas().empty()) GTEST_SKIP() << "ptxas not found: text checked, not assembled";
  EXPECT_TRUE(Assemble(image->ptx, "sm_90a", TestPtxas(), diags).ok()) << RenderAll(diags, sources);
}

TEST(Image, JsonRoundTrip) {
  Kernel k("add");
  AddKernel(k, {"M", "N"});
  ASSERT_TRUE(k.Build());
  KernelImage image = k.image();
  image.tensor_maps.push_back({"A", "bf16", {Expr::Name("N")}, {}, {64}, {}, 128});
  image.facts.push_back({*ParseExpr("M % 8 == 0"), "M % 8 == 0"});
  image.statics["BM"] = -64;
  const std::string text = ToJson(image);
  KernelImage back;
  std::string why;
  ASSERT_TRUE(FromJson(text, &back, &why)) << why;
  EXPECT_EQ(ToJson(back), text);
  EXPECT_EQ(back.ptx, image.ptx);
  EXPECT_EQ(back.statics, image.statics);
}

// A reader that knows no steps must not take such an image for one without.
TEST(Image, MapsWithStepsAreOfTheirOwnVersion) {
  Kernel k("add");
  AddKernel(k, {"M", "N"});
  ASSERT_TRUE(k.Build());
  KernelImage image = k.image();
  const std::string plain = ToJson(image);
  EXPECT_NE(plain.find("\"version\": 3"), std::string::npos) << plain.substr(0, 40);
  image.tensor_maps.push_back({"A", "bf16", {Expr::Name("N")}, {}, {64}, {2}, 128});
  const std::string text = ToJson(image);
  EXPECT_NE(text.find("\"version\": 4"), std::string::npos) << text.substr(0, 40);
  KernelImage back;
  std::string why;
  ASSERT_TRUE(FromJson(text, &back, &why)) << why;
  EXPECT_EQ(back.tensor_maps[0].steps, image.tensor_maps[0].steps);
  image.tensor_maps[0].steps = {9};
  EXPECT_FALSE(FromJson(ToJson(image), &back, &why));
  EXPECT_NE(why.find("steps of 1 to 8"), std::string::npos) << why;
}

TEST(Image, DamagedJson) {
  Kernel k("add");
  AddKernel(k);
  ASSERT_TRUE(k.Build());
  const std::string text = ToJson(k.image());
  KernelImage back;
  std::string why;
  EXPECT_FALSE(FromJson("", &back, &why));
  EXPECT_FALSE(FromJson("[]", &back, &why));
  EXPECT_NE(why, "");
  EXPECT_FALSE(FromJson(text.substr(0, text.size() / 2), &back, &why));
  auto damaged = [&](const std::string& from, const std::string& to) {
    std::string t = text;
    const size_t at = t.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    t.replace(at, from.size(), to);
    const bool ok = FromJson(t, &back, &why);
    EXPECT_EQ(ok, why.empty());
    return ok ? "" : why;
  };
  EXPECT_EQ(damaged("\"block\": 128", "\"block\": \"x\""), "block is not an integer");
  EXPECT_EQ(damaged("\"block\": 128", "\"block\": 99999999999"), "block is out of range");
  EXPECT_EQ(damaged("\"entry\"", "\"entri\""), "entry is missing");
  EXPECT_EQ(damaged("\"direction\": \"in\"", "\"direction\": \"up\""),
            "tensors[0].direction is none of in, out, inout");
  EXPECT_EQ(damaged("\"64\"", "\"6 4\""), "tensors[0].dims[0] is not an expression");
  EXPECT_EQ(damaged("\"map\": -1", "\"map\": 1.5"), "params[0].map is not an integer");
}

TEST(Ptxas, ReadsItsLog) {
  PtxasReport r;
  ParsePtxasLog(
      "ptxas info    : (C7517) Potential Performance Loss: wait injected\n"
      "ptxas info    : Function properties for k\n"
      "    16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads\n"
      "ptxas info    : Used 168 registers, used 2 barriers, 1024 bytes smem\n",
      &r);
  EXPECT_EQ(r.registers, 168);
  EXPECT_EQ(r.barriers, 2);
  EXPECT_EQ(r.stack_bytes, 16);
  EXPECT_EQ(r.spill_store_bytes, 8);
  EXPECT_EQ(r.spill_load_bytes, 12);
  EXPECT_EQ(r.smem_bytes, 1024);
  EXPECT_EQ(r.pipeline.size(), 1u);
  EXPECT_TRUE(r.Serialized().empty());  // a wait more
  EXPECT_FALSE(r.clean());
  ParsePtxasLog(
      "ptxas info    : (C7512) Potential Performance Loss: wgmma.mma_async instructions are "
      "serialized due to insufficient register resources for the function 'k'\n",
      &r);
  EXPECT_EQ(r.Serialized().size(), 1u);
}

TEST(Ptxas, MissingAndBadInput) {
  DiagSink diags;
  EXPECT_FALSE(Assemble("", "sm_90a", "", diags).ok());
  EXPECT_STREQ(diags.all()[0].def->code, "E420");
  EXPECT_EQ(FindPtxas({"/nonexistent/ptxas", "", ""}), "");
  if (TestPtxas().empty()) GTEST_SKIP() << "ptxas not found";
  diags.Clear();
  EXPECT_FALSE(Assemble("nonsense", "sm_90a", TestPtxas(), diags).ok());
  EXPECT_STREQ(diags.all()[0].def->code, "E421");
}

// A grid may begin while the one before it ends, but touches no memory before that is over.
TEST(Compile, GridsWaitForTheOneBefore) {
  Kernel k("copy");
  const ir::Layout layout = ir::BlockedLayout({512}, 4, 128);
  const ValueId a = k.In({"A", DType::kF32, {512}, Random(DType::kF32, 512, 1), {}});
  const ValueId c = k.Out({"C", DType::kF32, {512}, {}, {}});
  k.Store(c, k.Load(a, {512}, layout));
  ASSERT_TRUE(k.Build());
  const std::string& ptx = k.image().ptx;
  const size_t launch = ptx.find("griddepcontrol.launch_dependents"),
               wait = ptx.find("griddepcontrol.wait"), access = ptx.find(".global.");
  ASSERT_NE(wait, std::string::npos) << ptx;
  EXPECT_LT(launch, wait);
  EXPECT_LT(wait, access) << ptx;
  EXPECT_TRUE(k.image().dependent_launch);
  EXPECT_TRUE(k.image().dependent_if_full);  // it has no products
}

}  // namespace
}  // namespace tilec::backend
