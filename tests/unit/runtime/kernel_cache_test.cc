// SPDX-License-Identifier: Apache-2.0
#include "runtime/kernel_cache.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "support/file.h"

namespace tilec::runtime {
namespace {

namespace fs = std::filesystem;

class KernelCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = ::testing::TempDir() + "/tilec_cache_" +
           ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(dir_);
  }
  void TearDown() override { fs::remove_all(dir_); }
  std::string dir_;
  DiagSink diags_;
};

TEST_F(KernelCacheTest, NothingIsCreatedBeforeTheFirstPut) {
  KernelCache cache(dir_);
  EXPECT_EQ(cache.Get("k", diags_), std::nullopt);
  EXPECT_TRUE(cache.List(diags_)->empty());
  EXPECT_EQ(cache.Stat(diags_)->entries, 0u);
  EXPECT_EQ(cache.Clear(diags_)->entries, 0u);
  EXPECT_FALSE(fs::exists(dir_));
  EXPECT_TRUE(diags_.all().empty());
}
// `-o /dev/null` as root once replaced the device by a file.
TEST_F(KernelCacheTest, WhatIsNoFileIsNotReplaced) {
  fs::create_directories(dir_);
  const std::string pipe = dir_ + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  std::string why;
  EXPECT_TRUE(WriteFileAtomically(pipe, "bytes", &why)) << why;
  char got[8] = {};
  EXPECT_EQ(::read(reader, got, sizeof got), 5);
  EXPECT_TRUE(fs::is_fifo(pipe));
  ::close(reader);
}
TEST_F(KernelCacheTest, PutGetListClear) {
  KernelCache cache(dir_ + "/deep/er");
  const std::string payload("line\n\0binary", 12);
  cache.Put("k1", "gemm sm_90a", payload, diags_);
  EXPECT_EQ(cache.Get("k1", diags_), payload);
  EXPECT_EQ(cache.Get("k2", diags_), std::nullopt);
  const auto list = cache.List(diags_);
  ASSERT_EQ(list->size(), 1u);
  EXPECT_EQ(list->at(0).key, "k1");
  EXPECT_EQ(list->at(0).label, "gemm sm_90a");
  EXPECT_EQ(cache.Clear(diags_)->entries, 1u);
  EXPECT_EQ(cache.Get("k1", diags_), std::nullopt);
}
TEST_F(KernelCacheTest, DamageIsAWarningAndAMiss) {
  KernelCache cache(dir_);
  const std::string path = dir_ + "/k.tilec";
  std::string why, file;
  cache.Put("k", "gemm", "payload", diags_);
  ASSERT_TRUE(ReadFile(path, &file, &why));
  std::vector<std::string> damaged = {"", "x", "tilec-cache 1 ", file.substr(0, file.size() - 1),
                                      file + "x"};
  for (size_t i = 0; i < file.size(); ++i) {  // any flipped byte outside the label
    if (file.compare(i, 4, "gemm") == 0) i += 4;
    std::string bad = file;
    bad[i] ^= 1;
    damaged.push_back(bad);
  }
  for (const std::string& bad : damaged) {
    ASSERT_TRUE(WriteFileAtomically(path, bad, &why));
    DiagSink diags;
    EXPECT_EQ(cache.Get("k", diags), std::nullopt);
    ASSERT_EQ(diags.all().size(), 1u) << bad;
    EXPECT_STREQ(diags.all()[0].def->code, "R552");
    EXPECT_FALSE(diags.has_errors());
    EXPECT_FALSE(fs::exists(path));
  }
  cache.Put("k", "gemm", "payload", diags_);
  EXPECT_EQ(cache.Get("k", diags_), "payload");
}
TEST_F(KernelCacheTest, LimitDropsTheLeastRecentlyUsed) {
  KernelCache cache(dir_, 3 * 1100);
  const std::string payload(1000, 'p');
  for (const char* key : {"a", "b", "c"}) {
    cache.Put(key, "k", payload, diags_);
    std::this_thread::sleep_for(std::chrono::milliseconds(15));
  }
  EXPECT_TRUE(cache.Get("a", diags_));  // now the most recently used
  std::this_thread::sleep_for(std::chrono::milliseconds(15));
  cache.Put("d", "k", payload, diags_);
  EXPECT_TRUE(cache.Get("a", diags_));
  EXPECT_FALSE(cache.Get("b", diags_));
  EXPECT_TRUE(cache.Get("d", diags_));
}
// A process that puts much looks through the folder once a hundredth of the limit.
TEST_F(KernelCacheTest, SmallEntriesAreNotWorthALook) {
  const std::string payload(1000, 'p');
  KernelCache(dir_).Put("old", "k", payload, diags_);
  const std::string file = dir_ + "/old.tilec";
  KernelCache cache(dir_, 500000);  // what lies there fits
  cache.Put("a", "k", payload, diags_);
  fs::resize_file(file, 600000);  // now it does not, and is the oldest
  fs::last_write_time(file, fs::file_time_type::clock::now() - std::chrono::hours(1));
  cache.Put("b", "k", payload, diags_);
  EXPECT_TRUE(fs::exists(file));
  for (const char* key : {"c", "d", "e", "f", "g"}) cache.Put(key, "k", payload, diags_);
  EXPECT_FALSE(fs::exists(file));
  EXPECT_TRUE(cache.Get("a", diags_));
}
TEST_F(KernelCacheTest, UnwritableDirectoryIsAWarning) {
  std::string why;
  fs::create_directories(dir_);
  ASSERT_TRUE(WriteFileAtomically(dir_ + "/file", "x", &why));
  KernelCache cache(dir_ + "/file/cache");
  cache.Put("k", "gemm", "payload", diags_);
  ASSERT_EQ(diags_.all().size(), 1u);
  EXPECT_STREQ(diags_.all()[0].def->code, "R551");
  EXPECT_FALSE(diags_.has_errors());
}
TEST_F(KernelCacheTest, ConcurrentWritersLeaveWholeEntries) {
  KernelCache cache(dir_);
  std::vector<std::thread> threads;
  std::vector<DiagSink> sinks(4);
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        cache.Put("k", "gemm", std::string(5000, static_cast<char>('a' + t)), sinks[t]);
        const auto got = cache.Get("k", sinks[t]);
        EXPECT_TRUE(!got || got->size() == 5000u);
      }
    });
  for (std::thread& t : threads) t.join();
  for (const DiagSink& s : sinks) EXPECT_TRUE(s.all().empty()) << RenderAll(s, SourceMap());
  EXPECT_EQ(cache.List(diags_)->size(), 1u);
}
TEST(CacheKey, NamesKeepValuesApart) {
  EXPECT_NE(CacheKey().Add("a", "b").Add("c", "d").Hex(),
            CacheKey().Add("a", "bc").Add("", "d").Hex());
  EXPECT_NE(CacheKey().Add("a", "1").Hex(), CacheKey().Add("b", "1").Hex());
  EXPECT_EQ(CacheKey().Add("a", int64_t{1}).Hex(), CacheKey().Add("a", "1").Hex());
  EXPECT_EQ(CacheKey().Hex().size(), 32u);
}
TEST(CacheDirectory, FollowsTheXdgRule) {
  EXPECT_EQ(DefaultCacheDirectory("/x", "/users/u"), "/x/tilec");
  EXPECT_EQ(DefaultCacheDirectory(nullptr, "/users/u"), "/users/u/.cache/tilec");
  EXPECT_EQ(DefaultCacheDirectory("relative", "/users/u"), "/users/u/.cache/tilec");
  EXPECT_EQ(DefaultCacheDirectory("", nullptr), "");
}

}  // namespace
}  // namespace tilec::runtime
