// Bundles: what is written is read, what is damaged or hostile is refused, the build that fits is
// taken.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/bundle.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "support/diag.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace tilec::runtime {
namespace {

// C[M, N] = A[M, K], for tiles of D rows; A at a multiple of `align` bytes.
backend::KernelImage Image(const std::string& target, int64_t d, int align) {
  backend::KernelImage k;
  k.name = "copy";
  k.entry = "copy";
  k.target = target;
  k.ptx = ".version 8.0\n.target sm_90a\n.visible .entry copy() { ret; }\n";
  k.tensors = {{"A", "f32", backend::Direction::kIn, {Expr::Name("M"), Expr::Name("D")}, false}};
  k.statics = {{"D", d}};
  k.params = {{backend::EntryParam::Kind::kTensorPointer, "A", -1, {}, ""}};
  k.alignment = {{"A", align}};
  k.grid[0] = Expr::Name("M");
  k.lines = {{2, "copy.tile", 3, 5, "load"}, {4, "", 0, 0, ""}};
  return k;
}

LaunchArgs Call(int64_t m, int64_t d, uint64_t address) {
  LaunchArgs args;
  args.tensors["A"] = {"f32", address, {m, d}, {}};
  return args;
}

Bundle Sample() {
  return {"0.1.0 (test)",
          {{Image("sm_90a", 64, 16),
            "\x7f"
            "ELF machine code",
            {}},
           {Image("sm_90a", 64, 4), "", {}},
           {Image("sm_90a", 128, 16), "", {{{"M", 64}}, {{"D", 128}, {"M", 4096}}}},
           {Image("sm_100a", 64, 4), "", {}}}};
}

void Rehash(std::string* bytes) {
  if (bytes->size() < 32) return;
  const uint64_t hash = XXH3_64bits(bytes->data() + 32, bytes->size() - 32);
  const uint64_t size = bytes->size();
  for (size_t i = 0; i < 8; ++i) {
    (*bytes)[16 + i] = static_cast<char>(size >> (8 * i));
    (*bytes)[24 + i] = static_cast<char>(hash >> (8 * i));
  }
}

TEST(Bundle, WhatIsWrittenIsRead) {
  const std::string bytes = WriteBundle(Sample());
  DiagSink diags;
  const auto read = ReadBundle(bytes, "k.tilec", diags);
  ASSERT_TRUE(read.ok()) << RenderAll(diags, SourceMap());
  EXPECT_EQ(read->compiler, "0.1.0 (test)");
  ASSERT_EQ(read->builds.size(), 4u);
  EXPECT_EQ(read->builds[0].cubin, Sample().builds[0].cubin);
  EXPECT_EQ(read->builds[2].sizes, Sample().builds[2].sizes);
  EXPECT_EQ(read->builds[1].image.ptx, Sample().builds[1].image.ptx);
  const auto& lines = read->builds[1].image.lines;
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(fmt::format("{} {} {} {} {}", lines[0].ptx_line, lines[0].file, lines[0].line,
                        lines[0].column, lines[0].op),
            "2 copy.tile 3 5 load");
  EXPECT_EQ(WriteBundle(*read), bytes);
  EXPECT_EQ(KernelsOf(*read), std::vector<std::string>{"copy"});
}

TEST(Bundle, TheFirstBuildThatFitsIsTaken) {
  const Bundle b = Sample();
  const auto choose = [&](const std::string& target, const LaunchArgs& args) {
    DiagSink diags;
    const auto i = ChooseBuild(b, "copy", target, args, diags);
    return i.ok() ? std::to_string(*i) : std::string(diags.all().front().def->code);
  };
  EXPECT_EQ(choose("sm_90a", Call(10, 64, 0x1000)), "0");
  EXPECT_EQ(choose("sm_90a", Call(10, 64, 0x1004)), "1") << "not aligned to 16";
  EXPECT_EQ(choose("sm_90a", Call(10, 128, 0x1000)), "2");
  EXPECT_EQ(choose("sm_90a", Call(10, 128, 0x1004)), "R557");
  EXPECT_EQ(choose("sm_90a", Call(10, 32, 0x1000)), "R557");
  EXPECT_EQ(choose("sm_100a", Call(10, 64, 0x1000)), "3");
  EXPECT_EQ(choose("sm_80", Call(10, 64, 0x1000)), "R556");
  DiagSink diags;
  EXPECT_FALSE(ChooseBuild(b, "coppy", "sm_90a", Call(1, 64, 0x1000), diags).ok());
  EXPECT_EQ(diags.all().front().def->code, std::string("R555"));
  EXPECT_EQ(diags.all().front().helps.front(), "did you mean `copy`?");
}

// Tiles chosen by sizes: the nearest wins, whatever the order; one that was chosen for none, last.
TEST(Bundle, OfBuildsThatFitTheNearestIsTaken) {
  Bundle b = {"",
              {{Image("sm_90a", 64, 4), "", {}},
               {Image("sm_90a", 64, 4), "", {{{"M", 4096}}}},
               {Image("sm_90a", 64, 4), "", {{{"M", 16}}, {{"M", 256}}}},
               {Image("sm_90a", 64, 16), "", {{{"M", 1}}}}}};
  const auto choose = [&](int64_t m, uint64_t address) {
    DiagSink diags;
    return static_cast<int>(*ChooseBuild(b, "copy", "sm_90a", Call(m, 64, address), diags));
  };
  EXPECT_EQ(choose(20, 0x1000), 2);
  EXPECT_EQ(choose(3, 0x1000), 3);
  EXPECT_EQ(choose(3, 0x1004), 2) << "the nearest does not fit";
  EXPECT_EQ(choose(1023, 0x1000), 2) << "as far as log2 goes";
  EXPECT_EQ(choose(1024, 0x1000), 1) << "equally near: the first";
  EXPECT_EQ(choose(1 << 20, 0x1000), 1);
  b.builds.resize(1);
  EXPECT_EQ(choose(20, 0x1000), 0);
}

TEST(Bundle, DistanceIsInPowersOfTwo) {
  const Build build = {{}, "", {{{"M", 64}, {"N", 1024}}}};
  EXPECT_DOUBLE_EQ(Distance(build, {{"M", 128}, {"N", 256}}), 3);
  EXPECT_DOUBLE_EQ(Distance(build, {{"M", 64}}), 64) << "a name that the call has not";
  EXPECT_DOUBLE_EQ(Distance(build, {{"M", 0}, {"N", 1024}}), 6) << "0 counts as 1";
  EXPECT_EQ(Distance(Build(), {}), std::numeric_limits<double>::infinity());
}

TEST(Bundle, WhatIsNoCubinNoSizesOrNoSourceMapIsRefused) {
  const char* const said[] = {"build 2: its machine code is no cubin",
                              "build 3: its sizes are no list of NAME=VALUE",
                              "build 1: its source map ends in the middle of a line",
                              "build 1: its image has PTX or a source map of its own"};
  for (const int part : {0, 1, 2, 3}) {
    Bundle b = Sample();
    if (part == 0) b.builds[1].cubin = ".version 8.0 // text where machine code belongs";
    std::string bytes = WriteBundle(b);
    if (part == 1) {
      const size_t at = bytes.find("M=64\n");
      ASSERT_NE(at, std::string::npos);
      bytes[at] = '=';
      Rehash(&bytes);
    }
    if (part == 2) {  // the length of the file's name
      const size_t at = bytes.find("copy.tile");
      ASSERT_NE(at, std::string::npos);
      --bytes[at - 8];
      Rehash(&bytes);
    }
    if (part == 3) {
      const std::string none = "\"ptx\": \"\"", one = "\"ptx\":\"X\"";
      const size_t at = bytes.find(none);
      ASSERT_NE(at, std::string::npos);
      bytes.replace(at, none.size(), one);
      Rehash(&bytes);
    }
    DiagSink diags;
    EXPECT_FALSE(ReadBundle(bytes, "k.tilec", diags).ok());
    EXPECT_EQ(diags.all().front().message,
              std::string("`k.tilec` is no bundle that can be read: ") + said[part]);
  }
}

TEST(Bundle, EveryChangedByteAndEveryCutIsRefused) {
  const std::string bytes = WriteBundle(Sample());
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string other = bytes;
    other[i] = static_cast<char>(other[i] ^ 0x20);
    DiagSink diags;
    EXPECT_FALSE(ReadBundle(other, "k.tilec", diags).ok()) << "byte " << i;
    EXPECT_EQ(diags.errors(), 1);
    DiagSink cut;
    EXPECT_FALSE(ReadBundle(std::string_view(bytes).substr(0, i), "k.tilec", cut).ok());
  }
}

TEST(Bundle, OtherFormatsSayWhich) {
  std::string bytes = WriteBundle(Sample());
  bytes[8] = 2;
  DiagSink diags;
  EXPECT_FALSE(ReadBundle(bytes, "k.tilec", diags).ok());
  EXPECT_EQ(diags.all().front().message,
            "`k.tilec` is a bundle of format 2; this runtime reads format 3");
}

// Damage under a hash that fits: what an attacker writes. Whatever is read can be asked for
// launches.
TEST(Bundle, HostileBytesWithAGoodHash) {
  const std::string good = WriteBundle(Sample());
  // --gtest_shuffle --gtest_repeat=N takes another seed each time.
  const unsigned kSeed =
      20261123 + static_cast<unsigned>(testing::UnitTest::GetInstance()->random_seed());
  std::mt19937 random(kSeed);
  const char* words[] = {"-1",
                         "9223372036854775807",
                         "99999999999999999999",
                         "null",
                         "[",
                         "{",
                         "\"",
                         "1e308",
                         "\"M\"",
                         "\"1/0\"",
                         "\"M*M*M*M*M*M\"",
                         "true",
                         "0"};
  int read = 0;
  constexpr int kTries = 20000;
  for (int i = 0; i < kTries; ++i) {
    std::string bytes = good;
    for (unsigned edits = 1 + random() % 3; edits > 0; --edits) {
      const size_t at = 32 + random() % (bytes.size() - 32);
      switch (random() % 4) {
        case 0: bytes[at] = static_cast<char>(random()); break;
        case 1: bytes.erase(at, random() % 40); break;
        case 2: bytes.insert(at, words[random() % std::size(words)]); break;
        case 3: {
          // A number in the text becomes another one; lengths stay.
          const size_t digit = bytes.find_first_of("0123456789", at);
          if (digit != std::string::npos) bytes[digit] = static_cast<char>('0' + random() % 10);
        }
      }
    }
    Rehash(&bytes);
    DiagSink diags;
    const auto bundle = ReadBundle(bytes, "k.tilec", diags);
    EXPECT_EQ(bundle.ok(), !diags.has_errors()) << "seed " << kSeed << ", try " << i;
    if (!bundle.ok()) continue;
    ++read;
    for (const uint64_t address : {0x1000, 0x1004, 0})
      (void)ChooseBuild(*bundle, "copy", "sm_90a", Call(10, 64, address), diags).ok();
  }
  EXPECT_GT(read, kTries / 100) << "too few get past the reader to say anything";
}

}  // namespace
}  // namespace tilec::runtime
