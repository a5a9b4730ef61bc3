// Fatbins: read as public readers of them agree, and refused with a reason where a length is a lie.
//
// SPDX-License-Identifier: Apache-2.0
#include "shim/fatbin.h"

#include <gtest/gtest.h>
#include <lz4.h>
#include <zstd.h>

#include <cstring>
#include <memory>

#include "tests/unit/shim/make_fatbin.h"

namespace tilec::shim {
namespace {

using test::Container;
using test::Entry;

const std::string kText = ".version 9.0\n.target sm_90a\n.address_size 64\n" +
                          std::string(500, ' ') + ".visible .entry k() { ret; }\n";

TEST(Fatbin, PlainAndCompressed) {
  for (const auto packing : {test::Packing::kNone, test::Packing::kLz4, test::Packing::kZstd}) {
    const std::string bytes = Container(Entry(2, 90,
                                              "\x7f"
                                              "ELF",
                                              test::Packing::kNone) +
                                        Entry(1, 90, kText, packing));
    const Fatbin read = ReadFatbin(bytes);
    EXPECT_EQ(read.wrong, "");
    ASSERT_EQ(read.entries.size(), 2u);
    EXPECT_EQ(read.entries[0].kind, FatbinEntry::Kind::kMachineCode);
    EXPECT_EQ(read.entries[0].arch, 90u);
    EXPECT_EQ(read.entries[1].kind, FatbinEntry::Kind::kPtx);
    EXPECT_EQ(read.entries[1].ptx, kText);
  }
}

// Every prefix, in memory of its own, so that a sanitizer sees a read behind it.
TEST(Fatbin, TruncatedAnywhere) {
  const std::string bytes = Container(Entry(1, 90, kText, test::Packing::kZstd) +
                                      Entry(1, 80, kText, test::Packing::kLz4));
  for (size_t n = 0; n < bytes.size(); ++n) {
    const std::unique_ptr<char[]> copy(new char[n]);
    memcpy(copy.get(), bytes.data(), n);
    EXPECT_NE(ReadFatbin({copy.get(), n}).wrong, "") << n;
  }
}

TEST(Fatbin, LengthsThatLie) {
  const std::string good = Container(Entry(1, 90, kText, test::Packing::kLz4));
  // The header's, the entry's, the packed and the unpacked length.
  for (const size_t at : {8u, 16u + 8u, 16u + 56u})
    for (const uint64_t value : {~0ull, 1ull << 63, 1ull << 40, 1ull << 32}) {
      std::string bytes = good;
      memcpy(&bytes[at], &value, sizeof value);
      EXPECT_NE(ReadFatbin(bytes).wrong, "") << at << " " << value;
    }
  std::string bytes = good;
  const uint64_t more = kText.size() + 1;
  memcpy(&bytes[16 + 56], &more, sizeof more);
  EXPECT_NE(ReadFatbin(bytes).wrong, "");
}

// Little that unpacks to much: what unpacking costs is bounded for the image as a whole, whatever
// text comes out.
TEST(Fatbin, ZerosWithoutEnd) {
  const std::string entry = Entry(1, 90, std::string(60 << 20, '\0'), test::Packing::kZstd);
  EXPECT_LT(entry.size(), 1u << 20);
  std::string entries;
  for (int k = 0; k < 4; ++k) entries += entry;
  EXPECT_EQ(ReadFatbin(Container(entries)).wrong, "");
  for (int k = 0; k < 200; ++k) entries += entry;
  const Fatbin read = ReadFatbin(Container(entries));
  EXPECT_NE(read.wrong, "");
  EXPECT_EQ(read.entries.size(), 4u);
  // No memory for what cannot come out of so little.
  EXPECT_FALSE(UnpackLz4("\x10z", 200 << 20).has_value());
}

TEST(Fatbin, KindsOfImages) {
  const std::string fatbin = Container("");
  EXPECT_EQ(KindOfImage(fatbin.data()), ImageKind::kFatbin);
  EXPECT_EQ(BytesOfFatbin(fatbin.data()), 16u);
  EXPECT_EQ(KindOfImage("\x7f"
                        "ELF\2"),
            ImageKind::kElf);
  EXPECT_EQ(KindOfImage("  // a comment\n/* and\n one */\n.version 9.0\n"), ImageKind::kPtx);
  EXPECT_EQ(KindOfImage("version 9.0"), ImageKind::kUnknown);
  EXPECT_EQ(KindOfImage(""), ImageKind::kUnknown);
  EXPECT_EQ(KindOfImage("/* without an end"), ImageKind::kUnknown);
}

TEST(Fatbin, WhatRunsWhere) {
  EXPECT_TRUE(Runs("sm_80", "sm_90a"));
  EXPECT_TRUE(Runs("sm_90a", "sm_90a"));
  EXPECT_FALSE(Runs("sm_90a", "sm_100a"));
  EXPECT_TRUE(Runs("sm_100f", "sm_103a"));
  EXPECT_FALSE(Runs("sm_100f", "sm_120a"));
  EXPECT_FALSE(Runs("sm_100", "sm_90a"));
  EXPECT_FALSE(Runs("", "sm_90a"));
  EXPECT_EQ(Choose({"sm_80", "sm_90", "sm_90a", "sm_100a"}, "sm_90a"), 2);
  EXPECT_EQ(Choose({"sm_100a"}, "sm_90a"), -1);
}

}  // namespace
}  // namespace tilec::shim
