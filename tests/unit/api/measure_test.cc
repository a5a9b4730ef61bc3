// --tune=measure on an emulator that is given a clock: a launch takes 10 ms and one for each CTA,
// so that the winner is known, and kernels really run, so that what they leave in memory is seen.
//
// SPDX-License-Identifier: Apache-2.0
#include "api/measure.h"

#include <gtest/gtest.h>

#include "tests/unit/api/loaded.h"
#include "tests/unit/temp_folder.h"

namespace tilec::api {
namespace {

class Clocked final : public runtime::Device {
 public:
  Clocked() : emulator_(runtime::OpenEmulator()) {}
  std::string kind() const override { return "cuda"; }
  std::string description() const override { return name; }
  std::string isa() const override { return emulator_->isa(); }
  Result<runtime::DeviceAddress> Alloc(uint64_t bytes, DiagSink& d) override {
    ++alive;
    return emulator_->Alloc(bytes, d);
  }
  void Free(runtime::DeviceAddress a) override { --alive, emulator_->Free(a); }
  Result<> CopyIn(runtime::DeviceAddress to, const void* from, uint64_t n, DiagSink& d) override {
    return emulator_->CopyIn(to, from, n, d);
  }
  Result<> CopyOut(void* to, runtime::DeviceAddress from, uint64_t n, DiagSink& d) override {
    return emulator_->CopyOut(to, from, n, d);
  }
  Result<> Fill(runtime::DeviceAddress to, uint8_t byte, uint64_t n, DiagSink& d) override {
    return emulator_->Fill(to, byte, n, d);
  }
  Result<std::unique_ptr<runtime::Module>> Load(const std::string& ptx,
                                                const runtime::LoadOptions& o,
                                                DiagSink& d) override {
    return emulator_->Load(ptx, o, d);
  }
  Result<runtime::TensorMap> EncodeTensorMap(const runtime::TensorMapDesc& m,
                                             DiagSink& d) override {
    return emulator_->EncodeTensorMap(m, d);
  }
  Result<runtime::StreamId> NewStream(DiagSink& d) override { return emulator_->NewStream(d); }
  Result<> Launch(const runtime::Module& m, const std::string& entry,
                  const runtime::LaunchConfig& c, const std::vector<runtime::KernelArg>& args,
                  runtime::StreamId s, runtime::LaunchStats* stats, DiagSink& d) override {
    ++launches;
    clock += 10 + static_cast<double>(c.grid[0]) * c.grid[1] * c.grid[2];
    return emulator_->Launch(m, entry, c, args, s, stats, d);
  }
  Result<> Synchronize(runtime::StreamId s, DiagSink& d) override {
    return emulator_->Synchronize(s, d);
  }
  std::unique_ptr<runtime::Stopwatch> NewStopwatch() override {
    struct Watch final : runtime::Stopwatch {
      explicit Watch(const double& c) : clock(c) {}
      Result<> Start(runtime::StreamId, DiagSink&) override { return from = clock, Done(); }
      Result<double> Stop(runtime::StreamId, DiagSink&) override { return clock - from; }
      const double& clock;
      double from = 0;
    };
    return std::make_unique<Watch>(clock);
  }
  std::string name = "Clocked";
  double clock = 0;  // ms
  int launches = 0, alive = 0;

 private:
  std::unique_ptr<runtime::Device> emulator_;
};

constexpr const char* kTwice = R"(
kernel twice(X: inout f32[N], Seen: inout i32[N]) {
  tune BN = 128 in {128, 256, 512}
  parallel n in tiles(N, BN) {
    X[n] = X[n] * 2.0
    Seen[n] = Seen[n] + 1
  }
}
)";

class MeasureTest : public ::testing::Test {
 protected:
  void SetUp() override {
    LoadText(loaded_, kTwice);
    DiagSink diags;
    auto signature = frontend::SignatureOf(*loaded_.program, "twice", diags);
    ASSERT_TRUE(signature.ok());
    signature_ = *signature;
    x_ = Room(4 * 1024, 1);
    seen_ = Room(4 * 1024, 7);
    auto call =
        BindCall(*loaded_.program, signature_, ForRuntime(signature_), {},
                 {{"X", {"f32", x_, {1024}, {}}}, {"Seen", {"i32", seen_, {1024}, {}}}}, diags);
    ASSERT_TRUE(call.ok()) << RenderAll(diags, loaded_.sources);
    call_ = *call;
  }
  runtime::DeviceAddress Room(uint64_t bytes, uint8_t value) {
    DiagSink diags;
    const auto at = device_.Alloc(bytes, diags);
    EXPECT_TRUE(device_.Fill(*at, value, bytes, diags).ok());
    return *at;
  }
  std::vector<uint8_t> Holds(runtime::DeviceAddress at) {
    std::vector<uint8_t> bytes(4 * 1024);
    DiagSink diags;
    EXPECT_TRUE(device_.CopyOut(bytes.data(), at, bytes.size(), diags).ok());
    return bytes;
  }
  Measured Measure(const runtime::KernelCache* cache = nullptr,
                   const ContentsOf& contents = nullptr, bool anew = false) {
    DiagSink diags;
    MeasureBy by;
    by.device = &device_;
    by.seconds = 60;
    by.cache = cache;
    by.contents = contents;
    by.anew = anew;
    Measured m = MeasureTunes(loaded_, signature_, call_, {}, by, diags);
    EXPECT_TRUE(diags.all().empty()) << RenderAll(diags, loaded_.sources);
    return m;
  }

  Clocked device_;
  Loaded loaded_;
  frontend::Signature signature_;
  runtime::DeviceAddress x_ = 0, seen_ = 0;
  Call call_;
};

TEST_F(MeasureTest, TheFastestIsTaken) {
  const Measured m = Measure();
  ASSERT_EQ(m.why_not, "");
  EXPECT_EQ(std::get<int64_t>(m.row.values.at("BN")), 512);  // two CTAs
  EXPECT_EQ(m.row.us, 12000);
  EXPECT_GE(m.row.model_us, m.row.us);
  EXPECT_EQ(m.row.device, "Clocked");
  EXPECT_EQ(m.row.kernel, "t.tile:twice");
  EXPECT_EQ(std::get<int64_t>(m.row.sizes.at("N")), 1024);
  EXPECT_GE(m.candidates.size(), 3u);
  EXPECT_LE(m.offered, kMostCandidates);
  EXPECT_EQ(m.offered, m.candidates.size() + m.same + m.failed);
  // In the order of their times, and all of those that run.
  for (const MeasuredCandidate& c : m.candidates) EXPECT_GT(c.ms, 0) << TextOf(c.candidate);
}

TEST_F(MeasureTest, WhatTheCallerHasIsLeftAlone) {
  const int before = device_.alive;
  (void)Measure();
  EXPECT_GT(device_.launches, 20);
  EXPECT_EQ(Holds(x_), std::vector<uint8_t>(4 * 1024, 1));
  EXPECT_EQ(Holds(seen_), std::vector<uint8_t>(4 * 1024, 7));
  EXPECT_EQ(device_.alive, before) << "what was allocated is freed";
}

TEST_F(MeasureTest, WhatIntegersHoldIsAskedFor) {
  int asked = 0;
  (void)Measure(nullptr, [&](const frontend::ParamInfo& p, const runtime::TensorView& view) {
    ++asked;
    EXPECT_EQ(p.name, "Seen");
    EXPECT_EQ(view.dims, std::vector<int64_t>{1024});
    return std::vector<std::byte>(4 * 1024);
  });
  EXPECT_GT(asked, 0);
}

TEST_F(MeasureTest, TheCacheHasItForTheNextProcess) {
  TempFolder folder;
  const runtime::KernelCache cache(folder.path());
  const Measured first = Measure(&cache);
  const int launches = device_.launches;
  const Measured second = Measure(&cache);
  EXPECT_EQ(device_.launches, launches) << "measured again";
  EXPECT_TRUE(second.kept);
  EXPECT_EQ(ToText({second.row}), ToText({first.row}));
  (void)Measure(&cache, nullptr, true);
  EXPECT_GT(device_.launches, launches);
  const int again = device_.launches;
  device_.name = "Clocked, another driver";
  EXPECT_FALSE(Measure(&cache).kept);
  EXPECT_GT(device_.launches, again);
}

TEST_F(MeasureTest, WithoutAClockTheModelsChoiceIsTakenAndSaid) {
  const auto emulator = runtime::OpenEmulator();
  MeasureBy by;
  by.device = emulator.get();
  PipelineOptions options;
  options.tune = "measure";
  DiagSink diags;
  by.say = true;
  const auto tuning = TuningFor(loaded_, signature_, call_, options, by, diags);
  ASSERT_TRUE(tuning.ok());
  ASSERT_EQ(diags.all().size(), 1u);
  EXPECT_EQ(std::string(diags.all()[0].def->code), "R630");
  EXPECT_NE(diags.all()[0].message.find("the emulator has no clock of its own"), std::string::npos);
  EXPECT_NE(diags.all()[0].message.find("us by the machine model"), std::string::npos)
      << diags.all()[0].message;
  options.tune = "model";
  DiagSink quiet;
  EXPECT_EQ(tuning->values, TunesFor(loaded_, signature_, call_, options, {}, quiet));
}

TEST_F(MeasureTest, AFileThatWasWrittenIsTaken) {
  const Measured m = Measure();
  TempFolder folder;
  folder.Write("tunes.toml", ToText({m.row}));
  PipelineOptions options;
  options.tune = folder.path() + "tunes.toml";
  DiagSink diags;
  ASSERT_TRUE(LoadTunes(loaded_, options.tune, diags).ok()) << RenderAll(diags, loaded_.sources);
  MeasureBy by;
  by.say = true;
  const auto tuning = TuningFor(loaded_, signature_, call_, options, by, diags);
  ASSERT_TRUE(tuning.ok());
  EXPECT_EQ(tuning->values, m.row.values);
  EXPECT_TRUE(diags.all().empty()) << RenderAll(diags, loaded_.sources);
}

}  // namespace
}  // namespace tilec::api
