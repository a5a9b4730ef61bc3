// The public interface as a host program uses it, on the emulator.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <thread>

#include "include/tilec/tilec.h"
#include "include/tilec/tilec_c.h"
#include "tests/unit/temp_folder.h"

namespace tilec {
namespace {

constexpr const char* kSource = R"(
kernel axpy(X: f32[M, N], Y: inout f32[M, N], a: f32, B: const i32 = 16) {
  parallel m in tiles(M, 8), n in tiles(N, B) {
    Y[m, n] = a * X[m, n] + Y[m, n]
  }
}
)";

constexpr const char* kTwice = R"(
kernel twice(X: f32[N], Y: out f32[N]) {
  parallel n in tiles(N, 64) { Y[n] = 2.0 * X[n] }
}
)";

class ApiTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto device = Device::Open("emulator");
    ASSERT_TRUE(device.ok()) << device.status().text();
    device_.emplace(*device);
    CompilerOptions options;
    options.cache_dir = cache_;
    auto compiler = Compiler::Create(options);
    ASSERT_TRUE(compiler.ok()) << compiler.status().text();
    compiler_.emplace(*compiler);
  }

  // axpy on an m x n problem; the values of Y, or what went wrong.
  std::string Run(Kernel kernel, int64_t m, int64_t n, Args args = Args().Set("a", 0.5)) {
    std::vector<float> x(static_cast<size_t>(m * n)), y(x.size());
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i), y[i] = 1;
    const auto xd = device_->Alloc(x.size() * 4), yd = device_->Alloc(x.size() * 4);
    if (!device_->CopyIn(*xd, x.data(), x.size() * 4).ok()) return "copy";
    if (!device_->CopyIn(*yd, y.data(), x.size() * 4).ok()) return "copy";
    args.Set("X", Tensor{DType::kF32, *xd, {m, n}, {}});
    args.Set("Y", Tensor{DType::kF32, *yd, {m, n}, {}});
    const Status status = kernel.Launch(*device_, args);
    if (!status.ok()) return status.text();
    if (!device_->CopyOut(y.data(), *yd, x.size() * 4).ok()) return "copy";
    device_->Free(*xd);
    device_->Free(*yd);
    for (size_t i = 0; i < x.size(); ++i)
      if (y[i] != 0.5f * x[i] + 1) return "element " + std::to_string(i);
    return "";
  }

  const TempFolder folder_;
  const std::string cache_ = folder_.path() + "cache";
  std::optional<Device> device_;
  std::optional<Compiler> compiler_;
};

TEST_F(ApiTest, LaunchesAndCachesOnDisk) {
  auto kernel = compiler_->CompileText(kSource, "axpy.tile");
  ASSERT_TRUE(kernel.ok()) << kernel.status().text();
  EXPECT_EQ(Run(*kernel, 20, 40), "");
  EXPECT_EQ(Run(*kernel, 21, 40), "");  // the same specialisation
  const auto files = [&] { return std::distance(std::filesystem::directory_iterator(cache_), {}); };
  EXPECT_EQ(files(), 1);
  EXPECT_EQ(Run(*kernel, 21, 40, Args().Set("a", 0.5f).Set("B", 32)), "");
  EXPECT_EQ(files(), 2);
  auto again = compiler_->CompileText(kSource, "axpy.tile");
  EXPECT_EQ(Run(*again, 20, 40), "");
  EXPECT_EQ(files(), 2);
}
// More argument sets than a kernel keeps resolved: each launch must still see its own.
TEST_F(ApiTest, ManyArgumentSetsInTurn) {
  auto kernel = compiler_->CompileText(kSource, "axpy.tile");
  ASSERT_TRUE(kernel.ok());
  constexpr int kSets = 100;
  const auto x = device_->Alloc(64 * 4), y = device_->Alloc(kSets * 64 * 4);
  std::vector<float> ones(64, 1), out(kSets * 64, 0);
  ASSERT_TRUE(device_->CopyIn(*x, ones.data(), 64 * 4).ok());
  ASSERT_TRUE(device_->CopyIn(*y, out.data(), out.size() * 4).ok());
  for (int round = 0; round < 2; ++round)
    for (int i = 0; i < kSets; ++i) {
      Args args;
      args.Set("X", Tensor{DType::kF32, *x, {8, 8}, {}}).Set("a", static_cast<float>(i % 7));
      args.Set("Y", Tensor{DType::kF32, *y + static_cast<uint64_t>(i) * 64 * 4, {8, 8}, {}});
      const Status status = kernel->Launch(*device_, args);
      ASSERT_TRUE(status.ok()) << status.text();
    }
  ASSERT_TRUE(device_->CopyOut(out.data(), *y, out.size() * 4).ok());
  for (int i = 0; i < kSets; ++i)
    for (int e = 0; e < 64; ++e)
      ASSERT_EQ(out[static_cast<size_t>(64 * i + e)], 2.0f * static_cast<float>(i % 7)) << i;
}

TEST_F(ApiTest, ThreadsShareAKernel) {
  auto kernel = compiler_->CompileText(kSource, "axpy.tile");
  ASSERT_TRUE(kernel.ok());
  std::vector<std::string> results(4);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < results.size(); ++t)
    threads.emplace_back([&, t] { results[t] = Run(*kernel, 8 + static_cast<int64_t>(t), 16); });
  for (std::thread& t : threads) t.join();
  for (const std::string& r : results) EXPECT_EQ(r, "");
}
TEST_F(ApiTest, ErrorsAreValues) {
  const auto missing = compiler_->Compile("/no/such/file.tile");
  ASSERT_FALSE(missing.ok());
  EXPECT_FALSE(missing.status().text().empty());
  const auto syntax = compiler_->CompileText("kernel k(X: f32[N]) {\n  let = 3\n}\n", "bad.tile");
  ASSERT_FALSE(syntax.ok());
  ASSERT_FALSE(syntax.status().problems().empty());
  EXPECT_EQ(syntax.status().problems()[0].file, "bad.tile");
  EXPECT_EQ(syntax.status().problems()[0].line, 2);
  CompilerOptions options;
  options.target = "h2000";
  EXPECT_EQ(Compiler::Create(options).status().problems().at(0).code, "I261");
  EXPECT_EQ(Device::Open("abacus").status().problems().at(0).code, "R574");

  auto kernel = compiler_->CompileText(kSource, "axpy.tile");
  ASSERT_TRUE(kernel.ok());
  const Status none = kernel->Launch(*device_, Args());
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.problems().size(), 3u);  // X, Y and a
  const Tensor x{DType::kF32, 4096, {4, 4}, {}};
  const Status conflict = kernel->Launch(
      *device_, Args().Set("a", 1).Set("X", x).Set("Y", Tensor{DType::kF32, 8192, {4, 5}, {}}));
  EXPECT_EQ(conflict.problems().at(0).code, "R514");
  EXPECT_FALSE(device_->AdoptStream(nullptr).ok());
  EXPECT_EQ(kernel->Emit("sass", Args()).status().problems().at(0).code, "R579");
}
TEST_F(ApiTest, ParametersAreListed) {
  auto kernel = compiler_->CompileText(kSource, "axpy.tile");
  ASSERT_TRUE(kernel.ok());
  EXPECT_EQ(kernel->name(), "axpy");
  const std::vector<Parameter> p = kernel->parameters();
  ASSERT_GE(p.size(), 6u);
  EXPECT_EQ(p[0].name, "X");
  EXPECT_EQ(p[0].direction, "in");
  EXPECT_EQ(p[0].dims, (std::vector<std::string>{"M", "N"}));
  EXPECT_EQ(p[1].direction, "inout");
  EXPECT_EQ(p[2].kind, Parameter::Kind::kScalar);
  EXPECT_EQ(p[3].default_value, "16");
}
TEST_F(ApiTest, EmitsEveryForm) {
  auto kernel = compiler_->CompileText(kSource, "axpy.tile");
  const Tensor t{DType::kF32, 4096, {4, 4}, {}};
  const Args args = Args().Set("a", 1).Set("X", t).Set("Y", t);
  const std::pair<const char*, const char*> forms[] = {{"tile-ir", "func @axpy tile"},
                                                       {"warp-ir", "func @axpy warp"},
                                                       {"llvm", "define"},
                                                       {"ptx", ".visible .entry"},
                                                       {"json", "\"ptx\""}};
  for (const auto& [form, part] : forms) {
    const auto text = kernel->Emit(form, args);
    ASSERT_TRUE(text.ok()) << form << text.status().text();
    EXPECT_NE(text->find(part), std::string::npos) << form << ": " << text->substr(0, 300);
  }
}
TEST_F(ApiTest, StandardLibraryByPath) {
  const auto kernel = compiler_->Compile("std/matmul.tile", "gemm");
  EXPECT_TRUE(kernel.ok()) << kernel.status().text();
}

TEST_F(ApiTest, BoundLaunchesMoveAndGraphsRunThemInARow) {
  auto kernel = compiler_->CompileText(kTwice, "twice.tile");
  ASSERT_TRUE(kernel.ok()) << kernel.status().text();
  const std::vector<float> values(100, 3);
  std::vector<uint64_t> at;
  for (int i = 0; i < 4; ++i) at.push_back(*device_->Alloc(400));
  ASSERT_TRUE(device_->CopyIn(at[0], values.data(), 400).ok());
  const auto tensor = [&](size_t i) { return Tensor{DType::kF32, at[i], {100}, {}}; };
  const auto value = [&](size_t i) {
    float v = 0;
    EXPECT_TRUE(device_->CopyOut(&v, at[i] + 396, 4).ok());
    return v;
  };
  const auto bound = kernel->Bind(*device_, Args().Set("X", tensor(0)).Set("Y", tensor(1)));
  ASSERT_TRUE(bound.ok()) << bound.status().text();
  EXPECT_EQ(bound->tensors(), (std::vector<std::string>{"X", "Y"}));

  // 3 → 6 → 12 → 24
  Graph graph = Graph::On(*device_);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(*graph.Add(*bound), i);
    EXPECT_TRUE(graph.MoveTo(i, &at[i], 2).ok());
  }
  ASSERT_TRUE(graph.Launch().ok());
  EXPECT_EQ(value(3), 24);
  const uint64_t elsewhere[] = {at[0], at[3]};
  EXPECT_TRUE(graph.MoveTo(2, elsewhere, 2).ok());
  ASSERT_TRUE(graph.Launch().ok());
  EXPECT_EQ(value(3), 6);

  const uint64_t again[] = {at[2], at[3]};
  EXPECT_TRUE(bound->LaunchAt(again, 2).ok());
  EXPECT_EQ(value(3), 24);
  const auto says = [](const Status& s, const char* code) {
    ASSERT_FALSE(s.ok());
    EXPECT_EQ(s.problems().at(0).code, code) << s.text();
  };
  const uint64_t wrong[] = {0, at[3] + 1};
  says(bound->LaunchAt(wrong, 2), "R530");
  says(bound->LaunchAt(again, 1), "R533");
  says(bound->LaunchAt(nullptr, 0), "R533");
  says(graph.MoveTo(3, again, 2), "R534");
  says(graph.MoveTo(0, again, 1), "R533");
  const auto other = Device::Open("emulator");
  says(Graph::On(*other).Add(*bound).status(), "R535");
  for (const uint64_t p : at) device_->Free(p);
}

TEST(CApi, NullsAndOptionsAreErrors) {
  tilec_compiler* compiler = nullptr;
  const auto code = [](tilec_status* s) {
    const std::string c = s ? tilec_status_code(s, 0) : "";
    tilec_status_free(s);
    return c;
  };
  const char* names[] = {"targt"};
  const char* values[] = {"h200"};
  EXPECT_EQ(code(tilec_compiler_create(names, values, 1, &compiler)), "R580");
  EXPECT_EQ(code(tilec_compiler_create(nullptr, nullptr, 0, nullptr)), "R582");
  EXPECT_EQ(code(tilec_device_open("abacus", nullptr)), "R582");
  EXPECT_EQ(code(tilec_compiler_create(nullptr, nullptr, 0, &compiler)), "");
  tilec_kernel* kernel = nullptr;
  EXPECT_EQ(code(tilec_compile(compiler, nullptr, nullptr, &kernel)), "R582");
  EXPECT_NE(code(tilec_compile_text(compiler, "kernel", "x.tile", nullptr, &kernel)), "");
  EXPECT_EQ(kernel, nullptr);
  tilec_compiler_free(compiler);
  tilec_compiler_free(nullptr);
  EXPECT_STREQ(tilec_version(), Version());
}
TEST(DTypes, NamesAndSizes) {
  EXPECT_STREQ(Name(DType::kBF16), "bf16");
  EXPECT_EQ(Bytes(DType::kF64), 8);
  EXPECT_STREQ(Name(static_cast<DType>(TILEC_E4M3)), "e4m3");
}

}  // namespace
}  // namespace tilec
