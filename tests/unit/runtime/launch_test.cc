// Binding, checking and packing of launch arguments: what goes right, and every way it goes wrong.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "runtime/launch.h"
#include "tests/unit/runtime/launch_gemm.h"

namespace tilec::runtime {

namespace {

TEST(PlanLaunch, EvaluatesGridMapsAndArguments) {
  DiagSink diags;
  const auto plan = Plan(Gemm(), GemmArgs(300, 520, 64), diags);
  ASSERT_TRUE(plan.ok()) << RenderAll(diags, SourceMap());
  EXPECT_EQ(plan->config.grid[0], 3u);
  EXPECT_EQ(plan->config.grid[1], 3u);
  EXPECT_EQ(plan->config.grid[2], 1u);
  EXPECT_EQ(plan->config.block[0], 128u);
  EXPECT_EQ(plan->config.smem_bytes, 1000u);
  ASSERT_EQ(plan->maps.size(), 1u);
  EXPECT_EQ(plan->maps[0].base, 0x1000u);
  EXPECT_EQ(plan->maps[0].dims, (std::vector<uint64_t>{64, 300}));
  EXPECT_EQ(plan->maps[0].strides_bytes, std::vector<uint64_t>{128});
  EXPECT_EQ(plan->maps[0].box, (std::vector<uint32_t>{64, 128}));
  ASSERT_EQ(plan->args.size(), 4u);
  EXPECT_EQ(plan->args[0].bytes.size(), 128u);
  EXPECT_EQ(plan->args[1].bytes, KernelArg::Of<uint64_t>(0x3000).bytes);
  EXPECT_EQ(plan->args[2].bytes, KernelArg::Of<int64_t>(520).bytes);
  EXPECT_EQ(plan->args[3].bytes, KernelArg::Of(0.5f).bytes);
}

TEST(PlanLaunch, StridesOfTheViewAreUsed) {
  LaunchArgs a = GemmArgs(128, 256, 64);
  a.tensors["A"].strides = {80, 1};
  DiagSink diags;
  const auto plan = Plan(Gemm(), a, diags);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->maps[0].strides_bytes, std::vector<uint64_t>{160});
}

TEST(PlanLaunch, EmptyGridIsNothingToDo) {
  DiagSink diags;
  const auto plan = Plan(Gemm(), GemmArgs(0, 256, 64), diags);
  ASSERT_TRUE(plan.ok()) << RenderAll(diags, SourceMap());
  EXPECT_TRUE(plan->nothing_to_do);
}

TEST(PlanLaunch, EmptyTensorGetsScratchMap) {
  LaunchArgs a = GemmArgs(128, 256, 0);
  a.tensors["A"].data = 0;  // no storage needed for no elements
  DiagSink diags;
  const auto plan = Plan(Gemm(), a, diags);
  ASSERT_TRUE(plan.ok()) << RenderAll(diags, SourceMap());
  EXPECT_FALSE(plan->nothing_to_do);
  EXPECT_EQ(plan->scratch_offset, std::vector<int>{0});
  EXPECT_EQ(plan->maps[0].dims, (std::vector<uint64_t>{1, 1}));
}

TEST(PlanLaunch, ScalarsOfEveryType) {
  struct Case {
    const char* dtype;
    ScalarValue value;
    std::vector<uint8_t> bytes;
  };
  const Case cases[] = {{"i32", int64_t{-2}, {0xfe, 0xff, 0xff, 0xff}},
                        {"u8", int64_t{255}, {0xff}},
                        {"i64", 3.0, {3, 0, 0, 0, 0, 0, 0, 0}},
                        {"bool", int64_t{1}, {1}},
                        {"f16", 1.0, {0x00, 0x3c}},
                        {"f16", 65536.0, {0x00, 0x7c}},
                        {"f16", 6e-8, {0x01, 0x00}},
                        {"f16", 65519.0, {0xff, 0x7b}},
                        {"f16", 2047.5, {0x00, 0x68}},
                        {"bf16", -1.0, {0x80, 0xbf}},
                        {"bf16", 1.00390625, {0x80, 0x3f}},
                        {"f16", -6.103515625e-05, {0x00, 0x84}}};
  for (const Case& c : cases) {
    KernelImage k = Gemm();
    k.scalars[0].dtype = k.params[3].dtype = c.dtype;
    LaunchArgs a = GemmArgs(1, 8, 8);
    a.scalars["scale"] = c.value;
    DiagSink diags;
    const auto plan = Plan(k, a, diags);
    ASSERT_TRUE(plan.ok()) << c.dtype << RenderAll(diags, SourceMap());
    EXPECT_EQ(plan->args[3].bytes, c.bytes) << c.dtype;
  }
}

TEST(PlanLaunch, ScalarsThatDoNotFit) {
  const std::pair<const char*, ScalarValue> cases[] = {
      {"i32", int64_t{1} << 31}, {"u8", int64_t{-1}},  {"i8", int64_t{128}}, {"i32", 0.5},
      {"bool", int64_t{2}},      {"u64", int64_t{-1}}, {"i64", 1e30}};
  for (const auto& [dtype, value] : cases) {
    KernelImage k = Gemm();
    k.scalars[0].dtype = k.params[3].dtype = dtype;
    LaunchArgs a = GemmArgs(1, 8, 8);
    a.scalars["scale"] = value;
    EXPECT_SAYS(Error(k, a), "error[R528]: scalar `scale`");
  }
}

TEST(PlanLaunch, MissingTensorAndScalar) {
  LaunchArgs a = GemmArgs(8, 8, 8);
  a.tensors.erase("B");
  EXPECT_SAYS(Error(Gemm(), a),
              "error[R510]: `gemm` needs tensor `B`, which was not given\n"
              "  --> launch of `gemm`\n  = B: bf16[N, K]");
  a = GemmArgs(8, 8, 8);
  a.scalars.clear();
  EXPECT_SAYS(Error(Gemm(), a), "error[R510]: `gemm` needs scalar `scale`");
}

TEST(PlanLaunch, UnknownNamesGetSuggestions) {
  LaunchArgs a = GemmArgs(8, 8, 8);
  a.scalars["scal"] = 1.0;
  EXPECT_SAYS(Error(Gemm(), a), "error[R511]: `gemm` has no parameter `scal`");
  EXPECT_SAYS(Error(Gemm(), a), "help: did you mean `scale`?");
  a = GemmArgs(8, 8, 8);
  a.dims["BMM"] = 3;
  EXPECT_SAYS(Error(Gemm(), a), "did you mean `BM`?");
  a = GemmArgs(8, 8, 8);
  a.tensors["zebra"] = a.tensors["A"];
  EXPECT_EQ(Error(Gemm(), a).find("did you mean"), std::string::npos);
}

TEST(PlanLaunch, KindMixUps) {
  LaunchArgs a = GemmArgs(8, 8, 8);
  a.scalars["A"] = 1.0;
  EXPECT_SAYS(Error(Gemm(), a), "error[R532]: `A` is a tensor of `gemm`, but a number was given");
  a = GemmArgs(8, 8, 8);
  a.tensors["scale"] = a.tensors["A"];
  EXPECT_SAYS(Error(Gemm(), a), "`scale` is a scalar of `gemm`, but a tensor was given");
}

TEST(PlanLaunch, RankDtypeStrides) {
  LaunchArgs a = GemmArgs(8, 8, 8);
  a.tensors["A"].dims = {8, 8, 1};
  EXPECT_SAYS(Error(Gemm(), a),
              "error[R512]: tensor `A` has rank 3, the kernel wants rank 2: "
              "A: bf16[M, K]");
  a = GemmArgs(8, 8, 8);
  a.tensors["A"].dtype = "f16";
  EXPECT_SAYS(Error(Gemm(), a), "error[R513]: tensor `A` holds f16, the kernel wants bf16");
  a = GemmArgs(8, 8, 8);
  a.tensors["A"].strides = {1};
  EXPECT_SAYS(Error(Gemm(), a), "error[R519]");
  a.tensors["A"].strides = {16, 2};
  EXPECT_SAYS(Error(Gemm(), a), "error[R520]: the last dim of tensor `A` has stride 2");
  a.tensors["A"].strides = {-8, 1};
  EXPECT_SAYS(Error(Gemm(), a), "error[R518]: stride of dim 0 of tensor `A` is -8");
  a = GemmArgs(8, 8, 8);
  a.tensors["C"].strides = {0, 1};
  EXPECT_SAYS(Error(Gemm(), a), "error[R531]");
  KernelImage any = Gemm();
  any.tensors[2].strided_any = true;
  a.tensors["C"].strides = {1, 8};
  EXPECT_EQ(Error(any, a), "");
}

TEST(PlanLaunch, DimConflictNamesBothTensors) {
  LaunchArgs a = GemmArgs(8, 8, 64);
  a.tensors["B"].dims = {8, 32};
  EXPECT_SAYS(Error(Gemm(), a),
              "error[R514]: dim `K` is 64 by dim 1 of tensor `A` but 32 by dim 1 "
              "of tensor `B`");
  a = GemmArgs(8, 8, 64);
  a.dims["M"] = 9;
  EXPECT_SAYS(Error(Gemm(), a), "dim `M` is 9 by the argument of that name but 8 by dim 0");
}

TEST(PlanLaunch, StaticDims) {
  KernelImage k = Gemm();
  k.statics["K"] = 128;
  EXPECT_SAYS(Error(k, GemmArgs(8, 8, 64)),
              "error[R529]: this specialisation of `gemm` is for K = 128, not 64");
}

TEST(PlanLaunch, ExpressionsAreCheckedAndExact) {
  KernelImage k = Gemm();
  k.tensors[1].dims[1] = E("K / 4");
  LaunchArgs a = GemmArgs(8, 8, 64);
  EXPECT_SAYS(Error(k, a), "error[R515]: dim 1 of tensor `B` is 64, but `(K / 4)` is 16");
  a.tensors["B"].dims[1] = 16;
  EXPECT_EQ(Error(k, a), "");
  a = GemmArgs(8, 8, 66);
  a.tensors["B"].dims[1] = 16;
  a.tensors["A"].strides = {72, 1};
  EXPECT_SAYS(Error(k, a), "not a whole number");
  k.tensors[1].dims[1] = E("K / (M - 8)");
  EXPECT_SAYS(Error(k, a), "error[R527]");
  k.tensors[1].dims[1] = E("2 * Q");
  EXPECT_SAYS(Error(k, a), "error[R516]: dim `Q` of `gemm` is bound by no tensor");
}

TEST(PlanLaunch, SizesBeyond32Bits) {
  LaunchArgs a = GemmArgs(int64_t{1} << 31, 8, 8);
  EXPECT_SAYS(Error(Gemm(), a),
              "error[R517]: dim 0 of tensor `A` is 2147483648: `gemm` counts along it in 32 bits");
  KernelImage wide = Gemm();
  wide.wide = {"M"};
  EXPECT_EQ(Error(wide, a).find("R517"), std::string::npos);
  a = GemmArgs(8, 8, 8);
  a.tensors["A"].dims[0] = -1;
  EXPECT_SAYS(Error(Gemm(), a), "error[R518]: extent of dim 0 of tensor `A` is -1");
}

TEST(PlanLaunch, FactsAreCheckedWithTheirValues) {
  KernelImage k = Gemm();
  k.facts = {{E("K % 64 == 0"), "K % 64 == 0"}};
  EXPECT_SAYS(Error(k, GemmArgs(8, 8, 72)),
              "error[R521]: `gemm` requires `K % 64 == 0`, which does not hold here\n"
              "  --> launch of `gemm`\n  = K = 72\n");
  EXPECT_EQ(Error(k, GemmArgs(8, 8, 128)), "");
}

TEST(PlanLaunch, AlignmentAndStorage) {
  KernelImage k = Gemm();
  k.alignment = {{"C", 16}};
  LaunchArgs a = GemmArgs(8, 8, 8);
  a.tensors["C"].data = 0x3008;
  EXPECT_SAYS(Error(k, a),
              "error[R522]: tensor `C` starts at 0x3008, which is not a multiple of 16");
  a.tensors["C"].data = 0;
  EXPECT_SAYS(Error(k, a), "error[R530]: tensor `C` has 64 elements but no storage");
}

TEST(PlanLaunch, TmaLimits) {
  LaunchArgs a = GemmArgs(8, 8, 20);  // 40-byte rows
  EXPECT_SAYS(Error(Gemm(), a),
              "error[R523]: tensor `A` cannot be described to the TMA unit: stride 0 is 40 bytes, "
              "not a positive multiple of 16");
  a = GemmArgs(8, 8, 64);
  a.tensors["A"].strides = {int64_t{1} << 39, 1};
  EXPECT_SAYS(Error(Gemm(), a), "stride 0 is 1099511627776 bytes, at most 1099511627760 fit");
  a = GemmArgs(8, 8, 64);
  a.tensors["A"].data = 0x1002;
  EXPECT_SAYS(Error(Gemm(), a), "it starts at 0x1002, not at a multiple of 16");
  KernelImage k = Gemm();
  k.tensor_maps[0].box = {64, 512};
  EXPECT_SAYS(Error(k, GemmArgs(8, 8, 64)), "box extent 1 is 512, 1 to 256 fit");
}

TEST(PlanLaunch, GridAndBlockLimits) {
  KernelImage k = Gemm();
  k.grid[1] = E("N");
  EXPECT_SAYS(Error(k, GemmArgs(8, 65536, 8)),
              "error[R524]: the grid of `gemm` is 65536 CTAs along y, at most 65535");
  k = Gemm();
  k.block = 2048;
  EXPECT_SAYS(Error(k, GemmArgs(8, 8, 8)), "error[R526]");
  k = Gemm();
  k.grid[0] = E("M / (N - N)");
  EXPECT_SAYS(Error(k, GemmArgs(8, 8, 8)), "error[R527]");
}

TEST(PlanLaunch, AllMismatchesAreReported) {
  LaunchArgs a = GemmArgs(8, 8, 8);
  a.tensors["A"].dtype = "f32";
  a.tensors["B"].dims = {8};
  a.scalars.clear();
  DiagSink diags;
  EXPECT_FALSE(Plan(Gemm(), a, diags).ok());
  EXPECT_EQ(diags.errors(), 3);
}

TEST(Facts, OfViews) {
  const auto facts = [](std::string dtype, DeviceAddress p, std::vector<int64_t> dims,
                        std::vector<int64_t> strides = {}) {
    return FactsOf({std::move(dtype), p, std::move(dims), std::move(strides)});
  };
  EXPECT_EQ(facts("bf16", 0x100, {8, 64}), (TensorFacts{16, 16, 16, true}));
  EXPECT_EQ(facts("bf16", 0x104, {8, 20}), (TensorFacts{4, 8, 4, true}));
  EXPECT_EQ(facts("f32", 0x100, {8, 3}), (TensorFacts{16, 4, 1, true}));
  EXPECT_EQ(facts("f32", 0x100, {8, 8}, {1, 8}), (TensorFacts{16, 4, 8, false}));
  EXPECT_EQ(facts("f32", 0x100, {8, 8}, {0, 1}), (TensorFacts{16, 1, 8, true}));
  EXPECT_EQ(facts("u8", 0x100, {2, 8}, {int64_t{1} << 40, 1}), (TensorFacts{16, 1, 8, true}));
  // Strides of dims that are never stepped along do not matter.
  EXPECT_EQ(facts("f32", 0x100, {1, 8}, {3, 1}), (TensorFacts{16, 16, 8, true}));
  EXPECT_EQ(facts("f32", 0x100, {8, 1}, {8, 5}), (TensorFacts{16, 16, 1, true}));
  // … nor do those of empty tensors.
  EXPECT_EQ(facts("bf16", 0x100, {8, 0}), (TensorFacts{16, 16, 16, true}));
  EXPECT_EQ(facts("bf16", 0x100, {0, 20}, {7, 3}), (TensorFacts{16, 16, 4, true}));
}

TEST(Facts, EffectiveStrides) {
  EXPECT_EQ(EffectiveStrides({"f32", 0, {2, 3, 5}, {}}), (std::vector<int64_t>{15, 5, 1}));
  EXPECT_EQ(EffectiveStrides({"f32", 0, {1, 5}, {}}), (std::vector<int64_t>{8, 1}));
  EXPECT_EQ(EffectiveStrides({"f32", 0, {4, 1, 5}, {16, 99, 1}}), (std::vector<int64_t>{16, 8, 1}));
  EXPECT_EQ(EffectiveStrides({"f32", 0, {2, 3, 0}, {7, 7, 7}}), (std::vector<int64_t>{12, 4, 1}));
}

}  // namespace

}  // namespace tilec::runtime
