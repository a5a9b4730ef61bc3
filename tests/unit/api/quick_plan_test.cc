// Launches of sizes that nobody saw before, of classes that are known: what is planned by places
// (runtime/quick_plan.h) is what is planned by names, and arguments with the same key
// (api/known_classes.h) are alike in all that the choice of a program looks at. Sizes are drawn;
// with --gtest_shuffle --gtest_repeat=N others each time.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/quick_plan.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "api/known_classes.h"
#include "api/size_classes.h"
#include "api/stdlib.h"
#include "tests/unit/same_plan.h"

namespace tilec {
namespace {

constexpr int kSets = 2000;  // of each program

// Maps as a device would encode them, as far as comparing goes; memory that nobody touches.
class NoDevice final : public runtime::Device {
 public:
  struct Loaded final : runtime::Module {
    explicit Loaded(std::string e) : entry(std::move(e)) {}
    std::vector<std::string> entries() const override { return {entry}; }
    std::string entry;
  };
  explicit NoDevice(std::vector<std::string> entries) : entries_(std::move(entries)) {}
  std::string kind() const override { return "none"; }
  std::string description() const override { return "none"; }
  std::string isa() const override { return "sm_90a"; }
  Result<uint64_t> Alloc(uint64_t bytes, DiagSink&) override {
    ++allocations;
    const uint64_t at = next_;
    next_ += (bytes + 255) / 256 * 256;
    return at;
  }
  void Free(uint64_t) override {}
  Result<> CopyIn(uint64_t, const void*, uint64_t, DiagSink&) override { return Done(); }
  Result<> CopyOut(void*, uint64_t, uint64_t, DiagSink&) override { return Done(); }
  Result<> Fill(uint64_t, uint8_t, uint64_t, DiagSink&) override { return Done(); }
  Result<std::unique_ptr<runtime::Module>> Load(const std::string&, const runtime::LoadOptions&,
                                                DiagSink&) override {
    return std::unique_ptr<runtime::Module>(
        std::make_unique<Loaded>(entries_[loaded_++ % entries_.size()]));
  }
  Result<runtime::TensorMap> EncodeTensorMap(const runtime::TensorMapDesc& d, DiagSink&) override {
    ++encoded;
    uint64_t hash = d.base;
    const auto mix = [&](uint64_t v) { hash = (hash ^ v) * 0xff51afd7ed558ccd; };
    for (const uint64_t v : d.dims) mix(v);
    for (const uint64_t v : d.strides_bytes) mix(v);
    for (const uint32_t v : d.box) mix(v);
    runtime::TensorMap map;
    for (size_t i = 0; i < sizeof hash; ++i) map.bytes[i] = static_cast<uint8_t>(hash >> 8 * i);
    return map;
  }
  Result<int32_t> NewStream(DiagSink&) override { return 1; }
  Result<> Launch(const runtime::Module&, const std::string&, const runtime::LaunchConfig&,
                  const std::vector<runtime::KernelArg>&, int32_t, runtime::LaunchStats*,
                  DiagSink&) override {
    return Done();
  }
  Result<> Synchronize(int32_t, DiagSink&) override { return Done(); }

  int allocations = 0, encoded = 0;

 private:
  std::vector<std::string> entries_;
  size_t loaded_ = 0;
  uint64_t next_ = uint64_t{1} << 40;
};

class Draws {
 public:
  Draws() : random_(static_cast<uint32_t>(::testing::UnitTest::GetInstance()->random_seed())) {}
  int64_t UpTo(int64_t most) { return std::uniform_int_distribution<int64_t>(1, most)(random_); }
  bool Half() { return UpTo(2) == 1; }
  uint64_t Address() {
    return (uint64_t{1} << 32) + static_cast<uint64_t>(UpTo(1 << 20) * (UpTo(32) > 1 ? 16 : 2));
  }

 private:
  std::mt19937 random_;
};

Tensor DrawnTensor(Draws& draws, std::vector<int64_t> dims) {
  return {DType::kBF16, draws.Address(), std::move(dims), {}};
}

// `few`: of few classes.
Args DrawnProduct(Draws& draws, bool few = false) {
  const int64_t m = draws.UpTo(few            ? 40
                               : draws.Half() ? 300
                                              : 9000),
                n = few ? 64 * draws.UpTo(2) : 8 * draws.UpTo(600),
                k = few ? 64 : (draws.UpTo(16) > 1 ? 64 : 8) * draws.UpTo(64);
  Args args;
  args.Set("A", DrawnTensor(draws, {m, k}))
      .Set("B", DrawnTensor(draws, {n, k}))
      .Set("C", DrawnTensor(draws, {m, n}));
  if (draws.UpTo(4) == 1) {  // rows that are apart
    Tensor a = args.tensors().at("A");
    a.strides = {k + 8 * draws.UpTo(9), 1};
    args.Set("A", a);
  }
  return args;
}

Args DrawnAttention(Draws& draws, bool decodes, bool few = false) {
  const int64_t b = draws.UpTo(few ? 3 : 70), g = draws.UpTo(few ? 2 : 8),
                h = g * draws.UpTo(few ? 2 : 8),
                l = draws.UpTo(few            ? 40
                               : draws.Half() ? 600
                                              : 33000),
                s = decodes ? 1 : l;
  Args args;
  args.Set("Q", DrawnTensor(draws, {b, h, s, 128})).Set("K", DrawnTensor(draws, {b, g, l, 128}));
  args.Set("V", DrawnTensor(draws, {b, g, l, 128})).Set("O", DrawnTensor(draws, {b, h, s, 128}));
  args.Set("scale", 0.01 * static_cast<double>(draws.UpTo(few ? 2 : 100)));
  if (draws.Half()) args.Set("causal", !decodes);
  return args;
}

runtime::LaunchArgs ForLaunch(const Args& args, const backend::KernelImage& image) {
  runtime::LaunchArgs launch;
  for (const auto& [name, t] : args.tensors())
    launch.tensors[name] = {Name(t.dtype), t.data, t.dims, t.strides};
  for (const backend::ScalarArg& s : image.scalars)
    if (const auto at = args.values().find(s.name); at != args.values().end())
      launch.scalars[s.name] = std::get<double>(at->second);
  return launch;
}

struct Form {
  const char *file, *kernel, *schedule;
  std::map<std::string, int64_t> tunes;
  bool decodes;
  int launches;
};
const Form kForms[] = {
    {"std/matmul.tile", "gemm", "solve", {}, false, 1},
    {"std/matmul.tile", "gemm", "solve:split=16", {{"BM", 32}, {"BN", 32}, {"BK", 32}}, false, 2},
    {"std/attention.tile", "attention", "solve", {}, false, 1},
    {"std/attention.tile", "attention", "solve:split=16", {}, true, 2},
};

backend::KernelImage ImageOf(const Form& form, Draws& draws) {
  CompilerOptions options;
  options.disk_cache = false;
  options.tune = "default";
  options.schedule = form.schedule;
  auto kernel = Compiler::Create(options)->Compile(form.file, form.kernel);
  const bool product = form.kernel == std::string("gemm");
  Args args = product ? DrawnProduct(draws) : DrawnAttention(draws, form.decodes);
  const Args drawn = args;
  for (const auto& [name, t] : drawn.tensors()) {  // aligned, as nearly all are
    Tensor aligned{t.dtype, uint64_t{1} << 32, t.dims, {}};
    if (product) aligned.dims.back() = 64 * ((t.dims.back() + 63) / 64);
    args.Set(name, aligned);
  }
  if (product) {
    Tensor b = args.tensors().at("B");
    b.dims[0] = args.tensors().at("C").dims[1];
    args.Set("B", b);
  } else {
    args.Set("causal", !form.decodes);
  }
  for (const auto& [name, value] : form.tunes) args.Set(name, value);
  const auto json = kernel->Emit("json", args);
  EXPECT_TRUE(json.ok()) << json.status().text();
  backend::KernelImage image;
  std::string why;
  EXPECT_TRUE(json.ok() && backend::FromJson(*json, &image, &why)) << why;
  return image;
}

TEST(QuickPlan, PlansWhatIsPlannedByNames) {
  for (const Form& form : kForms) {
    SCOPED_TRACE(fmt::format("{} {}", form.kernel, form.schedule));
    Draws draws;
    const backend::KernelImage image = ImageOf(form, draws);
    ASSERT_EQ(1 + image.before.size(), static_cast<size_t>(form.launches));
    std::vector<std::string> entries;
    for (const backend::KernelImage& before : image.before) entries.push_back(before.entry);
    entries.push_back(image.entry);
    NoDevice device(entries);
    DiagSink diags;
    auto kernel = runtime::LoadedKernel::Load(device, image, diags);
    ASSERT_TRUE(kernel.ok()) << RenderAll(diags, SourceMap());
    int planned = 0;
    const bool failed = ::testing::Test::HasFailure();
    for (int i = 0; i < kSets && (failed || !::testing::Test::HasFailure()); ++i) {
      const Args args = form.kernel == std::string("gemm") ? DrawnProduct(draws)
                                                           : DrawnAttention(draws, form.decodes);
      const runtime::LaunchArgs launch = ForLaunch(args, image);
      ExpectSamePlans(image, launch, uint64_t{1} << 41);
      for (const backend::KernelImage& before : image.before)
        ExpectSamePlans(before, launch, uint64_t{1} << 41);
      // What is handed to the device, tensor maps and work included.
      DiagSink quiet;
      const auto by_names = (*kernel)->Prepare(launch, quiet);
      const ByPlaces places(image, launch);
      const auto by_places = (*kernel)->Prepare(places.given, diags);
      ASSERT_TRUE(by_places.ok()) << RenderAll(diags, SourceMap());
      ASSERT_EQ(by_names.ok(), *by_places != nullptr);
      if (!by_names.ok()) continue;
      ++planned;
      const runtime::LoadedKernel::Ready &a = **by_names, &b = **by_places;
      const auto same = [](const runtime::LoadedKernel::Ready& x,
                           const runtime::LoadedKernel::Ready& y) {
        EXPECT_EQ(x.work, y.work);
        ASSERT_EQ(x.args.size(), y.args.size());
        for (size_t k = 0; k < x.args.size(); ++k) EXPECT_EQ(x.args[k].bytes, y.args[k].bytes);
      };
      same(a, b);
      EXPECT_EQ(a.addresses, b.addresses);
      ASSERT_EQ(a.before.size(), b.before.size());
      for (size_t k = 0; k < a.before.size(); ++k) same(a.before[k], b.before[k]);
      EXPECT_EQ(a.launches(), static_cast<size_t>(form.launches));
    }
    EXPECT_GT(planned, kSets / 4) << "many sets fit the program";
    EXPECT_LT(planned, kSets) << "some do not";
    EXPECT_LT(device.allocations, 80) << "work has room for what is somewhat larger";
  }
}

// A map that was asked for lately is not encoded again.
TEST(QuickPlan, WeightsAreEncodedOnce) {
  Draws draws;
  const backend::KernelImage image = ImageOf(kForms[0], draws);
  NoDevice device({image.entry});
  DiagSink diags;
  auto kernel = runtime::LoadedKernel::Load(device, image, diags);
  ASSERT_TRUE(kernel.ok());
  const auto maps = static_cast<int>(image.tensor_maps.size());
  for (int64_t m = 1; m <= 100; ++m) {
    Args args;
    const uint64_t at = uint64_t{1} << 32;
    args.Set("A", Tensor{DType::kBF16, at, {m, 512}, {}});
    args.Set("B", Tensor{DType::kBF16, 2 * at, {1024, 512}, {}});
    args.Set("C", Tensor{DType::kBF16, 3 * at, {m, 1024}, {}});
    const runtime::LaunchArgs launch = ForLaunch(args, image);
    const ByPlaces places(image, launch);
    const auto ready = (*kernel)->Prepare(places.given, diags);
    ASSERT_TRUE(ready.ok() && *ready) << RenderAll(diags, SourceMap());
  }
  EXPECT_LT(device.encoded, 100 * (maps - 1) + 10) << "one of the maps is that of the weights";
}

TEST(QuickPlan, AKeyTellsAllThatAChoiceLooksAt) {
  for (const Form& form : {kForms[0], kForms[3]}) {
    SourceMap sources;
    DiagSink diags;
    const api::StandardLibrary library("");
    const auto program = api::LoadProgram(sources, form.file, library, diags);
    ASSERT_TRUE(program.ok()) << RenderAll(diags, sources);
    const auto signature = frontend::SignatureOf(*program, form.kernel, diags);
    ASSERT_TRUE(signature.ok());
    const api::RuntimeSignature of_runtime = api::ForRuntime(*signature);
    const api::ClassReader reader(*signature);
    ASSERT_TRUE(reader.tells());
    std::map<std::vector<int64_t>, std::string> seen;
    Draws draws;
    const int device = 0;
    for (int i = 0; i < kSets; ++i) {
      const Args args =
          form.decodes ? DrawnAttention(draws, draws.Half(), true) : DrawnProduct(draws, true);
      api::ReadLaunch read;
      ASSERT_TRUE(reader.Read(args, &device, &read));
      // As a launch of a class that nobody knows is chosen for (api/kernel.cc).
      api::Given given;
      for (const auto& [name, value] : args.values())
        std::visit([&, &n = name](auto v) { given[n] = v; }, value);
      const auto values = api::CheckValues(*signature, given, diags);
      ASSERT_TRUE(values.ok());
      api::Tensors tensors;
      for (const auto& [name, t] : args.tensors())
        tensors[name] = {Name(t.dtype), t.data, t.dims, t.strides};
      auto call = api::BindCall(*program, *signature, of_runtime, *values, tensors, diags);
      ASSERT_TRUE(call.ok()) << RenderAll(diags, sources);
      std::string chosen_by = api::TextOfClass(*signature, *call);
      for (const auto& [name, f] : call->facts)
        chosen_by += fmt::format("{} {} {} {} {} ", name, f.base_align_bytes, f.stride_align_bytes,
                                 f.last_contiguous, f.last_dim_align);
      for (const auto& [name, value] : call->statics)
        chosen_by += fmt::format("{} {}={} ", name, value.index(), frontend::ToText(value));
      for (const auto& [name, start] : call->row_starts) chosen_by += fmt::format("{} ", start);
      const auto key = read.key();
      const auto [at, fresh] =
          seen.emplace(std::vector<int64_t>(key.begin(), key.end()), chosen_by);
      EXPECT_EQ(at->second, chosen_by);
      // And the launch is as it was bound.
      const auto launch = read.given();
      for (size_t k = 0; k < of_runtime.tensors.size(); ++k) {
        const runtime::TensorView& view = tensors.at(of_runtime.tensors[k].name);
        EXPECT_EQ(launch.tensors[k].dtype, view.dtype);
        EXPECT_EQ(launch.tensors[k].data, view.data);
        const std::vector<int64_t> steps(launch.tensors[k].steps.begin(),
                                         launch.tensors[k].steps.end());
        EXPECT_EQ(steps, runtime::EffectiveStrides(view));
      }
      for (size_t k = 0; k < of_runtime.scalars.size(); ++k)
        EXPECT_EQ(launch.scalars[k], call->launch.scalars.at(of_runtime.scalars[k].name));
    }
    EXPECT_LT(seen.size(), static_cast<size_t>(kSets)) << "some share a class";
  }
}

}  // namespace
}  // namespace tilec
