// Values and tensors given by name, sorted and checked against a signature.
//
// SPDX-License-Identifier: Apache-2.0
#include "api/call.h"

#include <gtest/gtest.h>
#include <algorithm>

#include "api/pipeline.h"
#include "api/stdlib.h"

namespace tilec::api {
namespace {

constexpr const char* kSource = R"(
kernel k(X: f32[M, D], Y: out f32[M, 2 * D], s: f32, n: i32 = 3, flip: const bool = false)
  where M >= 2
{
  tune B = 16
  parallel m in tiles(M, B) {
    let x = X[m, :]
    Y[m, 0..D] = x * s
  }
}
)";

class CallTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto program = frontend::Program::LoadText(loaded_.sources, "k.tile", kSource,
                                               StandardLibrary().Resolver(), diags_);
    ASSERT_TRUE(program.ok()) << Text();
    loaded_.program.emplace(std::move(*program));
    auto signature = frontend::SignatureOf(*loaded_.program, "k", diags_);
    ASSERT_TRUE(signature.ok()) << Text();
    signature_ = *signature;
    runtime_ = ForRuntime(signature_);
  }
  std::string Text() const { return RenderAll(diags_, loaded_.sources); }
  Tensors Views(int64_t m, int64_t d) {
    return {{"X", {"f32", 0x1000, {m, d}, {}}}, {"Y", {"f32", 0x2000, {m, 2 * d}, {}}}};
  }
  Result<Call> Bind(const Given& given, const Tensors& tensors) {
    TRY(const frontend::Values values, CheckValues(signature_, given, diags_));
    return BindCall(*loaded_.program, signature_, runtime_, values, tensors, diags_);
  }

  Loaded loaded_;
  DiagSink diags_;
  frontend::Signature signature_;
  RuntimeSignature runtime_;
};

TEST_F(CallTest, SortsStaticsScalarsAndDims) {
  const auto call =
      Bind({{"s", int64_t{2}}, {"flip", int64_t{1}}, {"B", int64_t{32}}}, Views(8, 64));
  ASSERT_TRUE(call.ok()) << Text();
  EXPECT_EQ(std::get<double>(call->launch.scalars.at("s")), 2.0);  // an integer for an f32
  EXPECT_EQ(std::get<int64_t>(call->launch.scalars.at("n")), 3);   // the default
  EXPECT_EQ(std::get<bool>(call->statics.at("flip")), true);
  EXPECT_EQ(std::get<int64_t>(call->statics.at("B")), 32);
  EXPECT_EQ(std::get<int64_t>(call->statics.at("D")), 64);  // `:` makes D static
  EXPECT_EQ(call->statics.count("M"), 0u);
  EXPECT_EQ(std::get<int64_t>(call->all.at("M")), 8);
  EXPECT_EQ(call->facts.at("X").base_align_bytes, 16);
}
// Rows of 64 numbers are 256 bytes; of 60, 240: every other one begins inside a sector of 32.
TEST_F(CallTest, RowsMayCutSectors) {
  const auto cut = [&](Tensors views) {
    const auto call = Bind({{"s", 1.0}}, views);
    EXPECT_TRUE(call.ok()) << Text();
    if (!call.ok()) return false;
    const auto& starts = call->row_starts;
    return std::any_of(starts.begin(), starts.end(),
                       [](const auto& entry) { return entry.second < scheduler::kSectorBytes; });
  };
  EXPECT_FALSE(cut(Views(8, 64)));
  EXPECT_FALSE(cut(Views(8, 8)));
  EXPECT_TRUE(cut(Views(8, 60)));
  EXPECT_FALSE(cut(Views(8, 4)));  // two rows a sector
  EXPECT_TRUE(cut(Views(8, 12)));
  Tensors padded = Views(8, 60);
  padded["X"].strides = {64, 1};
  EXPECT_FALSE(cut(padded));  // rows of Y are 480 bytes, whole sectors
  // Whether copies are shared for that is the model's choice, and another program.
  Result<Call> call = Bind({{"s", 1.0}}, Views(8, 60));
  ASSERT_TRUE(call.ok());
  const std::string alone = ImageKey(loaded_, "k", *call, {});
  EXPECT_EQ(alone, ImageKey(loaded_, "k", *Bind({{"s", 1.0}}, padded), {}));
  call->share_copies = true;
  EXPECT_NE(alone, ImageKey(loaded_, "k", *call, {}));
}

TEST_F(CallTest, KeysDifferByStaticsAndFactsOnly) {
  const auto key = [&](const Given& given, const Tensors& views) {
    const auto call = Bind(given, views);
    EXPECT_TRUE(call.ok()) << Text();
    return ImageKey(loaded_, "k", *call, {});
  };
  const Given s = {{"s", 1.0}};
  const std::string base = key(s, Views(8, 64));
  EXPECT_EQ(key({{"s", 5.0}}, Views(9, 64)), base);
  EXPECT_NE(key(s, Views(8, 32)), base);
  EXPECT_NE(key({{"s", 1.0}, {"B", int64_t{64}}}, Views(8, 64)), base);
  Tensors shifted = Views(8, 64);
  shifted["X"].data += 4;
  EXPECT_NE(key(s, shifted), base);
  PipelineOptions other;
  other.schedule = "sequential";
  EXPECT_NE(ImageKey(loaded_, "k", *Bind(s, Views(8, 64)), other), base);
}
TEST_F(CallTest, MistakesAreDiagnostics) {
  EXPECT_FALSE(Bind({{"s", 1.0}, {"flop", true}}, Views(8, 64)).ok());
  EXPECT_NE(Text().find("error[R577]: `k` has no parameter `flop`"), std::string::npos) << Text();
  EXPECT_NE(Text().find("did you mean `flip`?"), std::string::npos) << Text();
  diags_.Clear();
  EXPECT_FALSE(Bind({{"s", 1.0}, {"n", 0.5}}, Views(8, 64)).ok());
  EXPECT_NE(Text().find("error[R576]"), std::string::npos) << Text();
  diags_.Clear();
  EXPECT_FALSE(Bind({{"s", 1.0}, {"M", int64_t{9}}}, Views(8, 64)).ok());
  EXPECT_NE(Text().find("error[R514]"), std::string::npos) << Text();
  diags_.Clear();
  EXPECT_FALSE(Bind({{"s", 1.0}}, Views(1, 64)).ok());  // where M >= 2
  EXPECT_NE(Text().find("M >= 2"), std::string::npos) << Text();
}
TEST_F(CallTest, ShapesFollowFromDimsAndTensors) {
  const auto shapes =
      InferShapes(signature_, {{"M", int64_t{4}}}, {{"X", {"f32", 0, {4, 6}, {}}}}, diags_);
  ASSERT_TRUE(shapes.ok()) << Text();
  EXPECT_EQ(shapes->at("Y"), (std::vector<int64_t>{4, 12}));
  EXPECT_FALSE(InferShapes(signature_, {{"M", int64_t{4}}}, {}, diags_).ok());
  EXPECT_NE(Text().find("error[R575]: `k` needs a value for dim `D`"), std::string::npos) << Text();
}
TEST(StandardLibraryTest, FindsBuiltInFiles) {
  const StandardLibrary library;
  EXPECT_TRUE(library.Find("std/matmul").has_value());
  EXPECT_TRUE(library.Find("std/matmul.tile").has_value());
  EXPECT_FALSE(library.Find("matmul").has_value());
  EXPECT_FALSE(library.Find("std/../matmul").has_value());
  EXPECT_GE(library.modules().size(), 8u);
}

}  // namespace
}  // namespace tilec::api
