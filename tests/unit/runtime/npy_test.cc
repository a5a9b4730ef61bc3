// .npy files: what is read, and every kind of damage.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/npy.h"

#include <gtest/gtest.h>

#include <cstdio>

namespace tilec::runtime {
namespace {

std::string File(const std::string& header, const std::string& data, char major = 1) {
  std::string out = "\x93NUMPY";
  out += major;
  out += '\0';
  out += static_cast<char>(header.size() & 0xff);
  out += static_cast<char>(header.size() >> 8);
  if (major > 1) out += std::string(2, '\0');
  return out + header + data;
}
std::string Dict(const std::string& descr, const std::string& shape, const char* order = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }";
}

std::string Error(const std::string& file, const std::string& wanted = "") {
  DiagSink diags;
  const auto array = ParseNpy("x.npy", file, wanted, diags);
  EXPECT_EQ(array.ok(), diags.all().empty());
  return diags.all().empty() ? ""
                             : std::string(diags.all()[0].def->code) + " " + diags.all()[0].message;
}

TEST(Npy, ReadsAllVersions) {
  for (char major : {1, 2, 3}) {
    DiagSink diags;
    const auto a =
        ParseNpy("x", File(Dict("<i2", "(3,)"), std::string("\1\0\2\0\3\0", 6), major), "", diags);
    ASSERT_TRUE(a.ok());
    EXPECT_EQ(a->dtype, "i16");
    EXPECT_EQ(a->dims, std::vector<int64_t>{3});
    EXPECT_EQ(a->bytes, (std::vector<uint8_t>{1, 0, 2, 0, 3, 0}));
  }
}
TEST(Npy, KernelDecidesWhatWordsAre) {
  DiagSink diags;
  const auto dtype = [&](const char* descr, const char* wanted, size_t bytes) {
    const auto a = ParseNpy("x", File(Dict(descr, "()"), std::string(bytes, 0)), wanted, diags);
    return a.ok() ? a->dtype : "error";
  };
  EXPECT_EQ(dtype("<u2", "bf16", 2), "bf16");
  EXPECT_EQ(dtype("|V2", "bf16", 2), "bf16");
  EXPECT_EQ(dtype("<u2", "", 2), "u16");
  EXPECT_EQ(dtype("|u1", "e4m3", 1), "e4m3");
  EXPECT_EQ(dtype("|V1", "e5m2", 1), "e5m2");
  EXPECT_EQ(dtype("<f4", "tf32", 4), "tf32");
  EXPECT_EQ(dtype("<f4", "bf16", 4), "f32");
  EXPECT_EQ(dtype("|b1", "bool", 1), "bool");
  EXPECT_EQ(dtype(">i1", "", 1), "i8");
  EXPECT_EQ(dtype("|V2", "f32", 2), "error");
}
TEST(Npy, FortranOrderIsTransposed) {
  DiagSink diags;
  const auto a =
      ParseNpy("x", File(Dict("|u1", "(2, 3)", "True"), std::string("\1\4\2\5\3\6", 6)), "", diags);
  ASSERT_TRUE(a.ok());
  EXPECT_EQ(a->bytes, (std::vector<uint8_t>{1, 2, 3, 4, 5, 6}));
}
TEST(Npy, RoundTrip) {
  const std::string path = ::testing::TempDir() + "/tilec_npy_test.npy";
  for (const char* dtype : {"f32", "bf16", "e4m3", "i64", "bool", "tf32"}) {
    NpyArray a;
    a.dtype = dtype;
    a.dims = {2, 1};
    const std::string d(dtype);
    a.bytes.assign(d == "i64" ? 16 : d == "bf16" ? 4 : d[0] == 'e' || d == "bool" ? 2 : 8, 1);
    DiagSink diags;
    ASSERT_TRUE(WriteNpy(path, a, diags).ok());
    const auto b = ReadNpy(path, dtype, diags);
    ASSERT_TRUE(b.ok()) << RenderAll(diags, SourceMap());
    EXPECT_EQ(b->dtype, a.dtype);
    EXPECT_EQ(b->dims, a.dims);
    EXPECT_EQ(b->bytes, a.bytes);
  }
  std::remove(path.c_str());
}
TEST(Npy, HeaderIsPaddedTo64) {
  NpyArray a{"f32", {1}, {0, 0, 0, 0}};
  const std::string bytes = NpyBytes(a);
  EXPECT_EQ((bytes.size() - 4) % 64, 0u);
  EXPECT_NE(bytes.find("'shape': (1,)"), std::string::npos);
}

TEST(Npy, Damage) {
  const std::string good = File(Dict("<f4", "(2, 2)"), std::string(16, 0));
  EXPECT_EQ(Error(good), "");
  EXPECT_EQ(Error(""), "R541 `x.npy` is not a .npy file: it has 0 bytes, the smallest has 10");
  EXPECT_EQ(Error("PK\3\4 a zip file").substr(0, 5), "R541 ");
  EXPECT_EQ(Error(File(Dict("<f4", "()"), "abcd", 9)),
            "R542 `x.npy` is .npy format version 9.0; 1.0, 2.0 and 3.0 are known");
  for (size_t n = 10; n < good.size(); ++n)  // cut anywhere: never accepted, never a crash
    EXPECT_NE(Error(good.substr(0, n)), "") << n;
  EXPECT_EQ(Error(good.substr(0, good.size() - 1)),
            "R545 `x.npy` is truncated: 15 bytes of data, its shape (2, 2) needs 16");
  EXPECT_EQ(Error(good + "xyz"), "R546 `x.npy` has 3 bytes after its data");
  EXPECT_EQ(Error(File("[]", "")),
            "R543 the header of `x.npy` is damaged: it does not start with `{`");
  EXPECT_EQ(Error(File("{'descr': '<f4', 'shape': (), }", "abcd")),
            "R543 the header of `x.npy` is damaged: fortran_order is missing");
  EXPECT_EQ(Error(File(Dict("<f4", "(-1,)"), "")),
            "R543 the header of `x.npy` is damaged: an extent is negative");
  EXPECT_EQ(Error(File(Dict("<f4", "(99999999999999999999,)"), "")),
            "R543 the header of `x.npy` is damaged: an extent does not fit 63 bits");
  EXPECT_EQ(Error(File(Dict("<f4", "(4000000000, 4000000000)"), "")).substr(0, 4), "R547");
  EXPECT_EQ(Error(File(Dict("<f4", "(2"), "")).substr(0, 4), "R543");
  EXPECT_EQ(Error(File(Dict("<f4", "(2) x"), "")).substr(0, 4), "R543");
  EXPECT_EQ(Error(File(Dict(">f4", "()"), "abcd")),
            "R544 `x.npy` holds `>f4`: big-endian words are not read");
  EXPECT_EQ(Error(File(Dict("<c8", "()"), "abcdefgh")).substr(0, 4), "R544");
  EXPECT_EQ(Error(File(Dict("O", "()"), "")).substr(0, 4), "R544");
  EXPECT_EQ(Error(File("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}", "")),
            "R543 the header of `x.npy` is damaged: structured element types are not tensors");
}
TEST(Npy, FilesThatAreNoFiles) {
  DiagSink diags;
  EXPECT_FALSE(ReadNpy("/no/such/file.npy", "", diags).ok());
  EXPECT_FALSE(ReadNpy(::testing::TempDir(), "", diags).ok());
  EXPECT_FALSE(ReadNpy("/dev/null", "", diags).ok());
  ASSERT_EQ(diags.all().size(), 3u);
  for (const Diagnostic& d : diags.all()) EXPECT_STREQ(d.def->code, "R540");
  EXPECT_NE(diags.all()[1].message.find("it is a directory"), std::string::npos);
  DiagSink write;
  EXPECT_FALSE(WriteNpy("/no/such/dir/x.npy", NpyArray{"u8", {}, {1}}, write).ok());
  EXPECT_STREQ(write.all().at(0).def->code, "R548");
}

}  // namespace
}  // namespace tilec::runtime
