// Classes of sizes: which sizes share one, that a choice depends on the class and on nothing that
// ran before, and that what ranges prepare is what launches of such sizes ask for.
//
// SPDX-License-Identifier: Apache-2.0
#include "api/size_classes.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <set>
#include <string>

#include "api/diagnostics.h"
#include "api/known_classes.h"
#include "api/prepare_ranges.h"
#include "api/size_ranges.h"
#include "include/tilec/tilec.h"
#include "include/tilec/tilec_c.h"

namespace tilec {
namespace {

TEST(SizeClasses, ThreeDigitsCount) {
  for (int64_t size = 0; size <= 8; ++size) EXPECT_EQ(api::ClassOf(size), size);
  const std::map<int64_t, int64_t> classes = {{9, 10},    {10, 10},     {13, 14},     {15, 16},
                                              {16, 16},   {17, 20},     {100, 112},   {112, 112},
                                              {113, 128}, {4096, 4096}, {4097, 5120}, {-3, -3}};
  for (const auto& [size, of] : classes) EXPECT_EQ(api::ClassOf(size), of) << size;
  EXPECT_EQ(api::ClassOf(12345, 1), 16384);
  EXPECT_EQ(api::ClassOf(INT64_MAX), INT64_MAX) << "no larger one is a number";
  for (int64_t size = 1; size < 3000; ++size) {
    EXPECT_GE(api::ClassOf(size), size);
    EXPECT_LE(4 * api::ClassOf(size), 5 * size + 4) << size;
    EXPECT_LE(api::ClassOf(size), api::ClassOf(size + 1));
    EXPECT_EQ(api::ClassOf(api::ClassOf(size)), api::ClassOf(size));
  }
}

TEST(SizeClasses, AMemberOfEachClassAndAlignment) {
  EXPECT_EQ(api::MembersOf(1, 12), (std::vector<int64_t>{1, 2, 3, 4, 5, 6, 7, 8, 10, 12}));
  EXPECT_EQ(api::MembersOf(9, 9), (std::vector<int64_t>{9}));
  EXPECT_EQ(api::MembersOf(5, 4), (std::vector<int64_t>{}));
  const std::vector<int64_t> members = api::MembersOf(1, 3000, 16);
  std::set<std::pair<int64_t, int64_t>> seen;  // class, power of two
  const auto power = [](int64_t size) { return std::min<int64_t>(16, size & -size); };
  for (const int64_t size : members) seen.emplace(api::ClassOf(size), power(size));
  EXPECT_EQ(seen.size(), members.size());
  for (int64_t size = 1; size <= 3000; ++size)
    EXPECT_EQ(seen.count({api::ClassOf(size), power(size)}), 1u) << size;
}

class Classes : public ::testing::Test {
 protected:
  static Kernel Load(const std::string& tune, const std::string& file, const std::string& name) {
    CompilerOptions options;
    options.disk_cache = false;
    options.tune = tune;
    return *Compiler::Create(options)->Compile(file, name);
  }
  static Args Product(int64_t m, int64_t n = 512, int64_t k = 256) {
    return Args()
        .Set("A", Tensor{DType::kBF16, 0x1000, {m, k}, {}})
        .Set("B", Tensor{DType::kBF16, 0x1000, {n, k}, {}})
        .Set("C", Tensor{DType::kBF16, 0x1000, {m, n}, {}});
  }
  static std::string Ptx(Kernel& kernel, const Args& args) {
    const auto ptx = kernel.Emit("ptx", args);
    EXPECT_TRUE(ptx.ok()) << ptx.status().text();
    return ptx.ok() ? *ptx : "";
  }
};

TEST_F(Classes, AreWhatTheModelChoosesForTheirLargestMember) {
  Kernel model = Load("model", "std/matmul.tile", "gemm");
  Kernel classes = Load("classes", "std/matmul.tile", "gemm");
  // The largest ones first: what they leave behind must not count.
  for (const int64_t m : {7000, 900, 300, 60, 1})
    EXPECT_EQ(Ptx(classes, Product(m)), Ptx(model, Product(api::ClassOf(m)))) << m;
  Kernel again = Load("classes", "std/matmul.tile", "gemm");
  for (const int64_t m : {1, 60, 300, 900, 7000})
    EXPECT_EQ(Ptx(again, Product(m)), Ptx(classes, Product(m))) << m;
}

TEST_F(Classes, OneMoreHeadThanFactsAllow) {
  // H % G == 0 holds of 9 and 3, not of 10 and 3.
  Kernel kernel = Load("classes", "std/attention.tile", "attention");
  const auto tensor = [](std::vector<int64_t> dims) {
    return Tensor{DType::kBF16, 0x1000, std::move(dims), {}};
  };
  const auto args = [&](int64_t l) {
    return Args()
        .Set("Q", tensor({1, 9, 64, 64}))
        .Set("K", tensor({1, 3, l, 64}))
        .Set("V", tensor({1, 3, l, 64}))
        .Set("O", tensor({1, 9, 64, 64}))
        .Set("scale", 0.125);
  };
  EXPECT_EQ(Ptx(kernel, args(700)), Ptx(kernel, args(763)));
}

TEST_F(Classes, RangesPrepareEveryClass) {
  const std::string text =
      "kernel scale(X: f32[M, N], Y: out f32[M, N]) {\n"
      "  tune BM = 16 in 16..64 step 16\n"
      "  parallel m in tiles(M, BM), n in tiles(N, 64) { Y[m, n] = X[m, n] * 2.0 }\n}\n";
  auto device = Device::Open("emulator");
  ASSERT_TRUE(device.ok());
  const auto prepare = [&](const std::string& tune, std::vector<SizeRange> ranges) {
    CompilerOptions options;
    options.disk_cache = false;
    options.tune = tune;
    Kernel kernel = *Compiler::Create(options)->CompileText(text, "t.tile");
    const auto memory = device->Alloc(1 << 16);
    const Args args = Args()
                          .Set("X", Tensor{DType::kF32, *memory, {1, 1}, {}})
                          .Set("Y", Tensor{DType::kF32, *memory, {1, 1}, {}});
    const Status s = kernel.Prepare(*device, args, ranges);
    return s.ok() ? std::string("prepared") : s.problems()[0].code + " " + s.problems()[0].message;
  };
  EXPECT_EQ(prepare("classes", {{{"M"}, 1, 40}, {{"N"}, 60, 70}}), "prepared");
  EXPECT_EQ(prepare("default", {{{"M", "N"}, 1, 9}}), "prepared");
  EXPECT_EQ(prepare("model", {{{"M"}, 1, 9}}).substr(0, 4), "R613");
  EXPECT_EQ(prepare("classes", {{{"Q"}, 1, 9}}),
            "R612 `scale` cannot be prepared for this range: `Q` is none of its dims");
  EXPECT_EQ(prepare("classes", {{{"M"}, 9, 1}}).substr(0, 4), "R612");
  EXPECT_EQ(prepare("classes", {{{}, 1, 9}}).substr(0, 4), "R612");
  EXPECT_EQ(prepare("classes", {{{"M"}, 1, 9}, {{"N", "M"}, 1, 9}}),
            "R612 `scale` cannot be prepared for this range: `M` has two ranges");
}

TEST_F(Classes, ThreadsPrepareWhatOneWould) {
  auto device = Device::Open("emulator");
  ASSERT_TRUE(device.ok());
  const auto prepared = [&](int threads, std::vector<Preparing>* said) {
    Kernel kernel = Load("classes", "std/matmul.tile", "gemm");
    PrepareOptions how;
    how.threads = threads;
    how.progress = [&](const Preparing& now) { said->push_back(now); };
    const Status s = kernel.Prepare(*device, Product(1), {{{"M"}, 1, 300}}, how);
    EXPECT_TRUE(s.ok()) << s.text();
    std::vector<std::string> texts;
    for (const int64_t m : {1, 30, 60, 130, 300}) texts.push_back(Ptx(kernel, Product(m)));
    return texts;
  };
  std::vector<Preparing> one, four;
  EXPECT_EQ(prepared(1, &one), prepared(4, &four));
  ASSERT_EQ(one.size(), four.size());
  const size_t classes = four.size() / 2;  // each is chosen, then made
  for (size_t i = 0; i < four.size(); ++i) {
    EXPECT_EQ(four[i].done, i < classes ? 0 : i + 1 - classes);
    EXPECT_EQ(four[i].of, classes);
    EXPECT_EQ(four[i].programs > 0, i >= classes) << "a program before all classes were chosen";
  }
  EXPECT_EQ(one.back().programs, four.back().programs);
  EXPECT_GT(one.back().choosing, 0);
  EXPECT_GT(one.back().compiling, 0);
}

TEST_F(Classes, EachProgramIsMadeBeforeTheyAreShared) {
  const auto program = [](uintptr_t at) { return reinterpret_cast<const Specialisation*>(at); };
  const Specialisation *a = program(64), *b = program(128), *c = program(192);
  EXPECT_EQ(api::FirstOfEach({a, a, b, a, c, b}), (std::vector<size_t>{0, 2, 4, 1, 3, 5}));
  EXPECT_EQ(api::FirstOfEach({}), (std::vector<size_t>{}));
}

TEST_F(Classes, ThreadsEndAtTheFirstClassThatFails) {
  std::atomic<int> made{0};
  api::Spent spent;
  DiagSink diags;
  PrepareOptions how;
  how.threads = 4;
  const auto one = [&](size_t i, DiagSink& sink) -> Result<> {
    ++made;
    if (i == 5 || i == 7) return sink.Report(api::kRangeUnusable, Span{}, "f", std::to_string(i));
    return Done();
  };
  EXPECT_FALSE(api::PrepareEach(1000, how, spent, one, diags).ok());
  ASSERT_EQ(diags.all().size(), 1u);
  EXPECT_NE(diags.all()[0].message.find('5'), std::string::npos) << diags.all()[0].message;
  EXPECT_LT(made, 1000);
}

// A launch of a class that is known is not bound; what is wrong with it is said in the same words.
TEST_F(Classes, LaunchesOfKnownClassesAreCheckedAsOthersAre) {
  const std::string body =
      "{\n  tune BM = 16 in {16, 32}\n"
      "  parallel m in tiles(M, BM) { Y[m, :] = X[m, :] * a + (at as f32) }\n}\n";
  const std::string head = "kernel scale(X: f32[M, N], Y: out f32[M, N], a: f32, at: i32)\n";
  auto device = Device::Open("emulator");
  ASSERT_TRUE(device.ok());
  const auto memory = device->Alloc(1 << 20);
  ASSERT_TRUE(memory.ok());
  const auto load = [&](const std::string& facts) {
    CompilerOptions options;
    options.disk_cache = false;
    options.tune = "classes";
    auto kernel = Compiler::Create(options)->CompileText(head + facts + body, "t.tile");
    EXPECT_TRUE(kernel.ok()) << kernel.status().text();
    return *kernel;
  };
  const auto args = [&](int64_t m, int64_t n = 24, int64_t rows = 0) {
    return Args()
        .Set("X", Tensor{DType::kF32, *memory, {m, n}, {}})
        .Set("Y", Tensor{DType::kF32, *memory + (1 << 19), {rows ? rows : m, n}, {}})
        .Set("a", 2.0)
        .Set("at", 5);
  };
  const Args none = Args(args(36)).Set("X", Tensor{DType::kF32, 0, {36, 24}, {}});
  const Args stray = Args(args(37)).Set("b", 1);
  const Args strange = Args(args(38)).Set("Y", Tensor{DType::kF64, *memory, {38, 24}, {}});
  const Args flat = Args(args(38)).Set("Y", Tensor{DType::kF32, *memory, {38 * 24}, {}});
  const Args strided = Args(args(38)).Set("X", Tensor{DType::kF32, *memory, {38, 24}, {24}});
  const Args told = Args(args(39)).Set("M", 38);
  const Args negative = Args(args(39)).Set("a", -1.0);
  for (const char* facts : {"  where M != 35, a > 0.0\n", "  where M != 35\n"}) {
    Kernel known = load(facts);
    ASSERT_TRUE(known.Launch(*device, args(40)).ok());
    ASSERT_TRUE(known.Launch(*device, args(39)).ok()) << "of the same class";
    for (const Args& wrong :
         {args(35), args(34, 24, 33), none, stray, strange, flat, strided, told, negative}) {
      Kernel fresh = load(facts);
      const Status here = known.Launch(*device, wrong), there = fresh.Launch(*device, wrong);
      EXPECT_EQ(here.ok(), there.ok());
      EXPECT_EQ(here.text(), there.text());
    }
    EXPECT_FALSE(known.Launch(*device, args(35)).ok());
  }
  // What runs is what another would run, at sizes and values of its own.
  Kernel known = load("");
  std::vector<float> x(40 * 24, 3), y(40 * 24);
  ASSERT_TRUE(device->CopyIn(*memory, x.data(), 4 * x.size()).ok());
  for (const int64_t m : {40, 33, 39}) {
    ASSERT_TRUE(device->Fill(*memory + (1 << 19), 0, 4 * y.size()).ok());
    const Status s = known.Launch(*device, args(m).Set("a", static_cast<double>(m)).Set("at", m));
    ASSERT_TRUE(s.ok()) << s.text();
    ASSERT_TRUE(device->CopyOut(y.data(), *memory + (1 << 19), 4 * y.size()).ok());
    for (int64_t i = 0; i < 40 * 24; ++i)
      ASSERT_EQ(y[static_cast<size_t>(i)], i < m * 24 ? static_cast<float>(4 * m) : 0)
          << m << " " << i;
  }
}

TEST_F(Classes, AreKnownByAllThatAChoiceLooksAt) {
  DiagSink diags;
  SourceMap sources;
  auto program = frontend::Program::LoadText(
      sources, "t.tile",
      "kernel f(X: f32[M, N], Y: out f32[M, N], a: f32, at: i32, W: const i32 = 1)\n"
      "  where a > 0.0, N >= 1\n"
      "{\n  parallel m in tiles(M, 16), n in tiles(N, 16) { Y[m, n] = X[m, n] }\n}\n",
      nullptr, diags);
  ASSERT_TRUE(program.ok()) << RenderAll(diags, sources);
  auto signature = frontend::SignatureOf(*program, "f", diags);
  ASSERT_TRUE(signature.ok()) << RenderAll(diags, sources);
  const auto tells = [&] { return api::ClassReader(*signature).tells(); };
  EXPECT_TRUE(tells());
  const int one = 1, two = 2;
  using Key = std::optional<std::vector<int64_t>>;
  const auto key_of = [&](const Args& args, const int* device) -> Key {
    api::ReadLaunch read;
    if (!api::ClassReader(*signature).Read(args, device ? device : &one, &read)) return {};
    return std::vector<int64_t>(read.key().begin(), read.key().end());
  };
  const auto with = [&](int64_t m, int64_t n, uint64_t data) {
    return Args()
        .Set("X", Tensor{DType::kF32, data, {m, n}, {}})
        .Set("Y", Tensor{DType::kF32, 0x100, {m, n}, {}})
        .Set("a", 1.5)
        .Set("at", 5);
  };
  const auto key = [&](int64_t m, int64_t n, uint64_t data = 0x100, frontend::Values more = {},
                       const int* device = nullptr) {
    Args args = with(m, n, data);
    for (const auto& [name, value] : more)
      std::visit([&, &n = name](auto v) { args.Set(n, v); }, value);
    return key_of(args, device);
  };
  const auto known = key(36, 40);
  ASSERT_TRUE(known.has_value());
  EXPECT_EQ(key(36, 40, 0x100, {{"at", 5.0}}), known) << "a value is converted before";
  EXPECT_EQ(key(36, 40, 0x100, {{"M", int64_t{36}}}), known) << "a dim is told beside";
  EXPECT_EQ(key(36, 40, 0x100, {{"at", 5.5}}), std::nullopt) << "no integer";
  EXPECT_EQ(key(36, 40, 0x100, {{"b", int64_t{1}}}), std::nullopt) << "nobody's name";
  EXPECT_EQ(key(33, 40), known);
  EXPECT_EQ(key(36, 40, 0x100, {{"at", int64_t{8}}}), known);
  EXPECT_NE(key(36, 40, 0x100, {{"a", 2.5}}), known) << "no program carries `a > 0.0`";
  EXPECT_NE(key(41, 40), known) << "another class of rows";
  EXPECT_NE(key(36, 48), known) << "another class of columns";
  EXPECT_NE(key(36, 39), known) << "rows that begin elsewhere";
  EXPECT_NE(key(36, 40, 0x104), known) << "a tensor that is aligned less";
  EXPECT_NE(key(36, 40, 0x100, {{"at", int64_t{9}}}), known) << "another class of a scalar";
  EXPECT_NE(key(36, 40, 0x100, {{"W", int64_t{2}}}), known) << "another constant";
  EXPECT_NE(key(36, 40, 0x100, {}, &two), known) << "another device";
  EXPECT_EQ(key_of(Args().Set("X", Tensor{DType::kF32, 0, {4, 4}, {}}).Set("a", 1.0), nullptr),
            std::nullopt)
      << "a tensor is missing";
  const auto facts = signature->facts;
  signature->facts.clear();
  EXPECT_EQ(key(36, 40, 0x100, {{"a", 2.5}}), key(36, 40)) << "no fact is about `a`";
  signature->facts = facts;
  signature->facts[0].text = "a * M_2 > 0.0";
  EXPECT_TRUE(tells());
  signature->facts[0].text = "a * M > 0.0";
  EXPECT_FALSE(tells()) << "nor is it asked once for a class";
}

TEST_F(Classes, RangesInC) {
  const char *names[] = {"cache", "tune"}, *values[] = {"off", "classes"};
  tilec_compiler* compiler = nullptr;
  ASSERT_EQ(tilec_compiler_create(names, values, 2, &compiler), nullptr);
  tilec_kernel* kernel = nullptr;
  ASSERT_EQ(tilec_compile_text(compiler,
                               "kernel f(X: f32[M, 16], Y: out f32[M, 16]) {\n"
                               "  parallel m in tiles(M, 16) { Y[m, :] = X[m, :] }\n}\n",
                               "t.tile", nullptr, &kernel),
            nullptr);
  tilec_device* device = nullptr;
  ASSERT_EQ(tilec_device_open("emulator", &device), nullptr);
  uint64_t memory = 0;
  ASSERT_EQ(tilec_device_alloc(device, 1 << 12, &memory), nullptr);
  tilec_args* args = tilec_args_create();
  const int64_t dims[] = {1, 16};
  for (const char* tensor : {"X", "Y"})
    tilec_args_tensor(args, tensor, TILEC_F32, memory, 2, dims, nullptr);
  const char *m = "M", *nobody = "Q";
  tilec_size_range range = {&m, 1, 1, 40};
  EXPECT_EQ(tilec_prepare_ranges(kernel, device, args, &range, 1), nullptr);
  range.dims = &nobody;
  tilec_status* refused = tilec_prepare_ranges(kernel, device, args, &range, 1);
  ASSERT_NE(refused, nullptr);
  EXPECT_STREQ(tilec_status_code(refused, 0), "R612");
  tilec_status_free(refused);
  refused = tilec_prepare_ranges(kernel, device, args, nullptr, 1);
  ASSERT_NE(refused, nullptr);
  tilec_status_free(refused);
  tilec_args_free(args);
  tilec_device_free(device);
  tilec_kernel_free(kernel);
  tilec_compiler_free(compiler);
}

TEST_F(Classes, ARangeHasALaunchForEachAlignment) {
  DiagSink diags;
  SourceMap sources;
  auto program = frontend::Program::LoadText(
      sources, "t.tile",
      "kernel f(X: f32[M, N], Y: out f32[M, N]) {\n"
      "  parallel m in tiles(M, 16), n in tiles(N, 16) { Y[m, n] = X[m, n] }\n}\n",
      nullptr, diags);
  ASSERT_TRUE(program.ok()) << RenderAll(diags, sources);
  const auto signature = frontend::SignatureOf(*program, "f", diags);
  ASSERT_TRUE(signature.ok());
  const Args args = Args()
                        .Set("X", Tensor{DType::kF32, 0x100, {2, 2}, {}})
                        .Set("Y", Tensor{DType::kF32, 0x100, {2, 2}, {}});
  const auto count = [&](std::vector<SizeRange> ranges) {
    const auto each = api::ArgsOfRanges(*signature, args, ranges, diags);
    return each.ok() ? each->size() : 0;
  };
  EXPECT_EQ(count({{{"M"}, 33, 40}}), 1u) << "rows lie where they lay";
  EXPECT_EQ(count({{{"N"}, 33, 40}}), 4u) << "40, 39, 38, 36";
  EXPECT_EQ(count({{{"M"}, 33, 48}, {{"N"}, 33, 40}}), 8u);
  EXPECT_EQ(count({}), 1u);
}

}  // namespace
}  // namespace tilec
