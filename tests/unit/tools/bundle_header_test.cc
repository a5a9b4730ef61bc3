// The C header and source of a bundle: what is a parameter, how extents are spelt, which names are
// left to C.
//
// SPDX-License-Identifier: Apache-2.0
#include "tools/bundle_header.h"

#include <gtest/gtest.h>

namespace tilec::tools {
namespace {

// kernel pad(X: bf16[B, N], on: const bool, eps: const f32, int: i32, Y: out f32[ceildiv(N, 2), D])
frontend::Signature Signature() {
  frontend::Signature s;
  s.kernel = "pad";
  const auto tensor = [&](const char* name, ir::DType dtype, ir::Direction direction,
                          std::vector<Expr> dims) {
    frontend::ParamInfo p;
    p.name = name;
    p.dtype = dtype;
    p.direction = direction;
    p.dims = std::move(dims);
    s.params.push_back(p);
  };
  const auto value = [&](const char* name, frontend::ParamRole role, ir::DType dtype) {
    frontend::ParamInfo p;
    p.role = role;
    p.name = name;
    p.dtype = dtype;
    s.params.push_back(p);
  };
  const Expr n = Expr::Name("N");
  tensor("X", ir::DType::kBF16, ir::Direction::kIn, {Expr::Name("B"), n});
  value("on", frontend::ParamRole::kConst, ir::DType::kBool);
  value("eps", frontend::ParamRole::kConst, ir::DType::kF32);
  value("int", frontend::ParamRole::kScalar, ir::DType::kI32);
  tensor("Y", ir::DType::kF32, ir::Direction::kOut,
         {Expr::Make(Expr::Op::kCeilDiv, n, Expr::Const(2)), Expr::Name("D")});
  s.dims = {{.name = "B"}, {.name = "N"}, {.name = "D"}};
  s.tunes = {{.name = "BN"}};
  return s;
}

runtime::Bundle Builds(std::vector<Bindings> statics) {
  runtime::Bundle bundle;
  for (Bindings& values : statics) {
    runtime::Build build;
    build.image.name = "pad";
    build.image.statics = std::move(values);
    bundle.builds.push_back(std::move(build));
  }
  return bundle;
}

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(BundleHeader, WhatHasOneValueIsNoParameter) {
  const std::string one =
      BundleHeader("k", false, {Signature()}, Builds({{{"D", 64}, {"on", 1}, {"BN", 32}}}));
  EXPECT_TRUE(Has(one, "int64_t B, int64_t N, uint64_t X, int64_t int_, uint64_t Y) {")) << one;
  EXPECT_TRUE(Has(one, "const int64_t dims[] = {((N + 2 - 1) / 2), 64};")) << one;
  EXPECT_TRUE(Has(one, "tilec_args_int(args, \"int\", int_);"));
  EXPECT_TRUE(Has(one, " * built for D = 64, on = 1 */")) << one;
  EXPECT_FALSE(Has(one, "k_open"));
  const std::string two = BundleHeader("k", true, {Signature()},
                                       Builds({{{"D", 64}, {"on", 1}}, {{"D", 128}, {"on", 0}}}));
  EXPECT_TRUE(
      Has(two, "int64_t B, int64_t N, int64_t D, uint64_t X, int on, int64_t int_, uint64_t Y) {"))
      << two;
  EXPECT_TRUE(Has(two, "tilec_args_bool(args, \"on\", on);"));
  EXPECT_TRUE(Has(two, "tilec_status* k_open(tilec_bundle** bundle);"));
}

TEST(BundleHeader, IdentifiersAreThoseOfC) {
  EXPECT_EQ(IdentifierOf("my-kernels.v2"), "my_kernels_v2");
  EXPECT_EQ(IdentifierOf("2d"), "_2d");
  EXPECT_EQ(IdentifierOf(""), "_");
}

TEST(BundleHeader, ThePathOfTheBytesIsQuotedTwice) {  // for the assembler, in a string of C
  const std::string source = EmbeddedSource("k", "/a \"b\"\\c");
  EXPECT_TRUE(Has(source, "\".incbin \\\"/a \\\\\\\"b\\\\\\\"\\\\\\\\c\\\"\\n\"")) << source;
}

}  // namespace
}  // namespace tilec::tools
