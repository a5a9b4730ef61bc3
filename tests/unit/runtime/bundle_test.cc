// Bundles: what is written is read, what is damaged or hostile is refused, the build that fits is
// taken.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/bundle.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <limits>
#include <memory>

#include "runtime/bundle_file.h"
#include "support/diag.h"
#include "tests/unit/temp_folder.h"

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

uint64_t Number(const std::string& bytes, size_t at) {
  uint64_t value = 0;
  for (size_t i = 0; i < 8; ++i)
    value |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[at + i])) << (8 * i);
  return value;
}

void Put(std::string* bytes, size_t at, uint64_t value) {
  for (size_t i = 0; i < 8; ++i) (*bytes)[at + i] = static_cast<char>(value >> (8 * i));
}

// Length of the file, and the hash of its index as long as the index still fits.
void Rehash(std::string* bytes) {
  if (bytes->size() < 40) return;
  Put(bytes, 16, bytes->size());
  const uint64_t index = Number(*bytes, 24);
  if (index <= bytes->size() - 40) Put(bytes, 32, XXH3_64bits(bytes->data() + 40, index));
}

// The text behind build `i`'s hash in the index, damaged and with hashes that fit.
std::string WithBuild(const Bundle& bundle, size_t i, const std::string& from,
                      const std::string& to) {
  std::string bytes = WriteBundle(bundle);
  size_t begin = 40 + Number(bytes, 24), at = 48 + Number(bytes, 40);
  for (size_t k = 0;; ++k) {
    for (int text : {0, 1}) (void)text, at += 8 + Number(bytes, at);
    const size_t size = Number(bytes, at);
    if (k == i) {
      std::string build = bytes.substr(begin, size);
      const size_t found = build.find(from);
      EXPECT_NE(found, std::string::npos);
      build.replace(found, from.size(), to);
      bytes.replace(begin, size, build);
      Put(&bytes, at, build.size());
      Put(&bytes, at + 8, XXH3_64bits(build.data(), build.size()));
      Rehash(&bytes);
      return bytes;
    }
    begin += size;
    uint64_t lists = Number(bytes, at + 16) & 0xffffffff;
    for (at += 20; lists > 0; --lists) {
      uint64_t names = Number(bytes, at) & 0xffffffff;
      for (at += 4; names > 0; --names) at += 16 + Number(bytes, at);
    }
  }
}

std::unique_ptr<BundleFile> Opened(const std::string& bytes) {
  DiagSink diags;
  auto file = BundleFile::Open(ByteSource::Owned(bytes), "k.tilec", diags);
  EXPECT_TRUE(file.ok()) << RenderAll(diags, SourceMap());
  return file.ok() ? *std::move(file) : nullptr;
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
  EXPECT_EQ(Opened(bytes)->kernels(), std::vector<std::string>{"copy"});
}

TEST(Bundle, TheFirstBuildThatFitsIsTaken) {
  const auto b = Opened(WriteBundle(Sample()));
  const auto choose = [&](const std::string& target, const LaunchArgs& args) {
    DiagSink diags;
    const auto i = ChooseBuild(*b, "copy", target, args, diags);
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
  EXPECT_FALSE(ChooseBuild(*b, "coppy", "sm_90a", Call(1, 64, 0x1000), diags).ok());
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
  auto file = Opened(WriteBundle(b));
  const auto choose = [&](int64_t m, uint64_t address) {
    DiagSink diags;
    return static_cast<int>(*ChooseBuild(*file, "copy", "sm_90a", Call(m, 64, address), diags));
  };
  EXPECT_EQ(choose(20, 0x1000), 2);
  EXPECT_EQ(choose(3, 0x1000), 3);
  EXPECT_EQ(choose(3, 0x1004), 2) << "the nearest does not fit";
  EXPECT_EQ(choose(1023, 0x1000), 2) << "as far as log2 goes";
  EXPECT_EQ(choose(1024, 0x1000), 1) << "equally near: the first";
  EXPECT_EQ(choose(1 << 20, 0x1000), 1);
  b.builds.resize(1);
  file = Opened(WriteBundle(b));
  EXPECT_EQ(choose(20, 0x1000), 0);
}

TEST(Bundle, DistanceIsInPowersOfTwo) {
  const auto file = Opened(WriteBundle({"",
                                        {{Image("sm_90a", 64, 4), "", {{{"M", 64}, {"N", 1024}}}},
                                         {Image("sm_90a", 64, 4), "", {}}}}));
  EXPECT_DOUBLE_EQ(file->Distance(0, {{"M", 128}, {"N", 256}}), 3);
  EXPECT_DOUBLE_EQ(file->Distance(0, {{"M", 64}}), 64) << "a name that the call has not";
  EXPECT_DOUBLE_EQ(file->Distance(0, {{"M", 0}, {"N", 1024}}), 6) << "0 counts as 1";
  EXPECT_EQ(file->Distance(1, {}), std::numeric_limits<double>::infinity());
  EXPECT_TRUE(file->Contradicts(0, {{"D", 65}}));
  EXPECT_FALSE(file->Contradicts(0, {{"D", 64}, {"M", 1}}));
}

TEST(Bundle, WhatABuildSaysOfItselfMustFit) {
  const auto said = [](const std::string& bytes) {
    DiagSink diags;
    if (ReadBundle(bytes, "k.tilec", diags).ok()) return std::string("it was read");
    EXPECT_EQ(diags.errors(), 1);
    const std::string message = diags.all().front().message;
    const std::string begin = "`k.tilec` is no bundle that can be read: ";
    EXPECT_EQ(message.substr(0, begin.size()), begin);
    return message.substr(begin.size());
  };
  Bundle b = Sample();
  EXPECT_EQ(said(WithBuild(b, 1, "\"ptx\": \"\"", "\"ptx\":\"X\"")),
            "build 2: its image has PTX or a source map of its own");
  EXPECT_EQ(said(WithBuild(b, 2, "\"target\": \"sm_90a\"", "\"target\": \"sm_90b\"")),
            "build 3: it is copy for sm_90b, and copy for sm_90a in the index");
  EXPECT_EQ(said(WithBuild(b, 2, "\"D\": 128", "\"D\": 256")),
            "build 3: it was built for D = 256, and for D = 128 in the index");
  const std::string length("\x09\0\0\0\0\0\0\0copy.tile", 17);
  std::string shorter = length;
  shorter[0] = 8;
  EXPECT_EQ(said(WithBuild(b, 0, length, shorter)),
            "build 1: its source map ends in the middle of a line");
  b.builds[1].cubin = ".version 8.0 // text where machine code belongs";
  EXPECT_EQ(said(WriteBundle(b)), "build 2: its machine code is no cubin");
}

// A build of two launches has machine code of both.
TEST(Bundle, LaunchesBeforeHaveTheirMachineCode) {
  const std::string first =
                        "\x7f"
                        "ELF of the first",
                    second =
                        "\x7f"
                        "ELF of the second";
  Bundle b = Sample();
  b.builds[1].image.before = {Image("sm_90a", 64, 4)};
  b.builds[1].cubin = second;
  b.builds[1].cubins_before = {first};
  b.builds[3].image.before = {Image("sm_100a", 64, 4)};  // without
  DiagSink diags;
  const auto read = ReadBundle(WriteBundle(b), "k.tilec", diags);
  ASSERT_TRUE(read.ok()) << RenderAll(diags, SourceMap());
  EXPECT_EQ(read->builds[1].cubin, second);
  EXPECT_EQ(read->builds[1].cubins_before, std::vector<std::string>{first});
  EXPECT_EQ(read->builds[1].image.before.size(), 1U);
  EXPECT_EQ(read->builds[3].cubins_before, std::vector<std::string>{""});
  EXPECT_TRUE(read->builds[0].cubins_before.empty());
  const auto said = [&](const std::string& bytes) {
    DiagSink of;
    EXPECT_FALSE(ReadBundle(bytes, "k.tilec", of).ok());
    return of.all().front().message;
  };
  b.builds[1].cubins_before = {".version 8.0"};
  EXPECT_NE(said(WriteBundle(b)).find("the machine code of its first launch is no cubin"),
            std::string::npos);
  b.builds[1].cubins_before = {first};
  EXPECT_NE(said(WithBuild(b, 1, first, "")).find("does not fit"), std::string::npos);
}

TEST(Bundle, WhatTheIndexSaysMustFit) {
  const std::string good = WriteBundle(Sample());
  const auto said = [&](const std::string& from, const std::string& to) {
    std::string bytes = good;
    const size_t at = bytes.find(from);
    EXPECT_NE(at, std::string::npos);
    bytes.replace(at, to.size(), to);
    Rehash(&bytes);
    DiagSink diags;
    if (BundleFile::Open(ByteSource::In(bytes), "k.tilec", diags).ok())
      return std::string("opened");
    EXPECT_EQ(diags.errors(), 1);
    return diags.all().front().message.substr(41);
  };
  const std::string one("\1\0\0\0\0\0\0\0", 8), many(8, '\xff');
  EXPECT_EQ(said(one + "D", many), "build 1: its values in the index are no list of names");
  EXPECT_EQ(said(one + "M" + std::string("\0\x10", 2), one + "C"),
            "build 3: its values in the index are no list of names")
      << "names that do not ascend";
  EXPECT_EQ(said(std::string("\x0c\0\0\0\0\0\0\0", 8) + "0.1.0", many),
            "the compiler's version does not fit");
  EXPECT_EQ(said("sm_100a", "sm_100b"), "opened") << "no hash, no JSON is looked at";
}

// Opening sees damage of head and index, using sees damage of a build, and only that build is lost.
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
    EXPECT_EQ(cut.errors(), 1);
  }
  std::string last = bytes;
  last.back() = static_cast<char>(last.back() ^ 1);
  const auto file = Opened(last);
  for (size_t i = 0; i < 4; ++i) {
    DiagSink diags;
    EXPECT_EQ(file->Get(i, diags).ok(), i < 3);
  }
  DiagSink diags;
  EXPECT_TRUE(ChooseBuild(*file, "copy", "sm_90a", Call(10, 64, 0x1000), diags).ok());
  EXPECT_FALSE(ChooseBuild(*file, "copy", "sm_100a", Call(10, 64, 0x1000), diags).ok());
  EXPECT_EQ(diags.all().front().message,
            "`k.tilec` is no bundle that can be read: build 4: its bytes are not those that were "
            "written");
}

// A file stays open; who cuts or overwrites it meanwhile gets an error, not a signal.
TEST(Bundle, FilesThatChangeWhileTheyAreOpen) {
  const TempFolder folder;
  const std::string path = folder.path() + "k.tilec", bytes = WriteBundle(Sample());
  const auto write = [&](const std::string& text) { std::ofstream(path) << text; };
  const auto open = [&] {
    std::string why;
    DiagSink diags;
    auto file = BundleFile::Open(*ByteSource::OfFile(path, &why), path, diags);
    EXPECT_TRUE(file.ok());
    return *std::move(file);
  };
  write(bytes);
  auto file = open();
  DiagSink diags;
  ASSERT_TRUE(file->Get(0, diags).ok());
  ASSERT_EQ(::truncate(path.c_str(), static_cast<off_t>(bytes.size() - 1)), 0);
  EXPECT_TRUE(file->Get(0, diags).ok()) << "it was read";
  EXPECT_FALSE(file->Get(3, diags).ok());
  EXPECT_NE(diags.all().front().message.find("it was cut while it was used"), std::string::npos);
  EXPECT_TRUE(file->Get(1, diags).ok());
  write(bytes);
  file = open();
  std::string other = bytes;
  other.back() = static_cast<char>(other.back() ^ 1);
  write(other);
  EXPECT_FALSE(file->Get(3, diags).ok());
  std::string why;
  EXPECT_FALSE(ByteSource::OfFile(folder.path(), &why).has_value());
  EXPECT_EQ(why, "it is a directory");
  EXPECT_FALSE(ByteSource::OfFile(path + "x", &why).has_value());
}

TEST(Bundle, OtherFormatsSayWhich) {
  std::string bytes = WriteBundle(Sample());
  bytes[8] = 3;
  DiagSink diags;
  EXPECT_FALSE(ReadBundle(bytes, "k.tilec", diags).ok());
  EXPECT_EQ(diags.all().front().message,
            "`k.tilec` is a bundle of format 3; this runtime reads format 5");
}

}  // namespace
}  // namespace tilec::runtime
