// The store of resolved launches: finds what it has, tells apart what differs, forgets the oldest.
//
// SPDX-License-Identifier: Apache-2.0
#include "api/resolved.h"

#include <gtest/gtest.h>

namespace tilec {
namespace {

Args At(uint64_t address) {
  Args args;
  args.Set("X", Tensor{DType::kF32, address, {8, 8}, {}}).Set("a", 0.5);
  return args;
}

bool Keep(ResolvedStore& store, const std::string& kernel, const DeviceState* device, Args args) {
  auto made = std::make_shared<Resolved>();
  made->kernel = kernel;
  made->device = device;
  return store.KeepIfAgain(ResolvedStore::Hash(kernel, device, args), made, args);
}

bool Has(const ResolvedStore& store, const std::string& kernel, const DeviceState* device,
         const Args& args) {
  const auto found = store.Find(ResolvedStore::Hash(kernel, device, args), kernel, device, args);
  return found && found->args == args;
}

void KeepKind(ResolvedStore& store, const DeviceState* device, Args args) {
  auto made = std::make_shared<Resolved>();
  made->device = device;
  made->args = std::move(args);
  store.KeepKind(ResolvedStore::Hash("", device, made->args), made);
}

bool HasAlike(const ResolvedStore& store, const DeviceState* device, const Args& args) {
  return store.FindAlike(ResolvedStore::Hash("", device, args), "", device, args) != nullptr;
}

Args Shaped(int64_t m) {
  return Args().Set("X", Tensor{DType::kF32, 0x100, {m, 8}, {}}).Set("a", 0.5);
}

TEST(ResolvedStore, TellsLaunchesApart) {
  ResolvedStore store;
  const DeviceState one, two;
  EXPECT_FALSE(Keep(store, "f", &one, At(0x100))) << "seen once";
  EXPECT_FALSE(Has(store, "f", &one, At(0x100)));
  EXPECT_TRUE(Keep(store, "f", &one, At(0x100)));
  EXPECT_TRUE(Has(store, "f", &one, At(0x100)));
  EXPECT_FALSE(Has(store, "g", &one, At(0x100)));
  EXPECT_FALSE(Has(store, "f", &two, At(0x100)));
  EXPECT_FALSE(Has(store, "f", &one, At(0x200)));
  EXPECT_FALSE(Has(store, "f", &one, At(0x100).Set("a", 1)));
  EXPECT_FALSE(Has(store, "f", &one, At(0x100).Set("b", 1)));
  EXPECT_FALSE(
      Has(store, "f", &one, At(0x100).Set("X", Tensor{DType::kF32, 0x100, {8, 8}, {9, 1}})));
  EXPECT_FALSE(Has(store, "f", &one, At(0x100).Set("X", Tensor{DType::kI32, 0x100, {8, 8}, {}})));
}

TEST(ResolvedStore, AlikeIsAllButTheAddressesOfEqualAlignment) {
  ResolvedStore store;
  const DeviceState one, two;
  KeepKind(store, &one, At(0x100));
  EXPECT_TRUE(HasAlike(store, &one, At(0x100)));
  EXPECT_TRUE(HasAlike(store, &one, At(0x123450)));
  EXPECT_TRUE(HasAlike(store, &one, At(0x10))) << "more than 16 bytes tell nothing apart";
  for (const uint64_t other : {0x108, 0x104, 0x102, 0x101, 0x0})
    EXPECT_FALSE(HasAlike(store, &one, At(other))) << other;
  EXPECT_FALSE(HasAlike(store, &two, At(0x100)));
  EXPECT_FALSE(HasAlike(store, &one, At(0x100).Set("a", 0.25)));
  EXPECT_FALSE(HasAlike(store, &one, At(0x100).Set("b", 1)));
  EXPECT_FALSE(HasAlike(store, &one, Shaped(9)));
  EXPECT_FALSE(
      HasAlike(store, &one, At(0x100).Set("X", Tensor{DType::kF32, 0x100, {8, 8}, {8, 1}})));
  EXPECT_FALSE(HasAlike(store, &one, At(0x100).Set("X", Tensor{DType::kI32, 0x100, {8, 8}, {}})));
}

TEST(ResolvedStore, WhatDiffersHashesApart) {
  const Args strided = At(0x100).Set("X", Tensor{DType::kF32, 0x100, {8, 8}, {9, 1}});
  const Args other = At(0x100).Set("X", Tensor{DType::kI32, 0x100, {8, 8}, {}});
  const auto hash = ResolvedStore::Hash("f", nullptr, At(0x100));
  const auto alike = [](const char* kernel, const Args& args) {
    return ResolvedStore::Hash(kernel, nullptr, args).alike;
  };
  EXPECT_NE(hash.alike, alike("f", strided));
  EXPECT_NE(hash.alike, alike("f", other));
  EXPECT_NE(hash.alike, alike("g", At(0x100)));
  EXPECT_NE(hash.alike, alike("f", At(0x104)));
  EXPECT_EQ(hash.alike, alike("f", At(0x200)));
  EXPECT_NE(hash.same, ResolvedStore::Hash("f", nullptr, At(0x200)).same);
  EXPECT_NE(hash.same, ResolvedStore::Hash("f", nullptr, strided).same);
  EXPECT_EQ(hash.same, ResolvedStore::Hash("f", nullptr, At(0x100)).same);
}

TEST(ResolvedStore, TheOldestMakesRoom) {
  ResolvedStore store;
  const DeviceState device;
  const uint64_t n = ResolvedStore::kKept + 10;
  for (uint64_t i = 0; i < n; ++i) {
    Keep(store, "f", &device, At(i));
    EXPECT_TRUE(Keep(store, "f", &device, At(i)));
  }
  EXPECT_EQ(store.size(), ResolvedStore::kKept);
  for (uint64_t i = 0; i < n; ++i) EXPECT_EQ(Has(store, "f", &device, At(i)), i >= 10) << i;
}

TEST(ResolvedStore, AHundredThousandKindsHaveRoom) {
  ResolvedStore store;
  const DeviceState device;
  const auto most = static_cast<int64_t>(ResolvedStore::kKindsKept);
  EXPECT_GE(most, 100000);
  for (int64_t m = 0; m < most + 10; ++m) KeepKind(store, &device, Shaped(m));
  EXPECT_EQ(store.kinds(), ResolvedStore::kKindsKept);
  for (int64_t m = 0; m < most + 10; m += m < 20 ? 1 : 997)
    EXPECT_EQ(HasAlike(store, &device, Shaped(m)), m >= 10) << m;
}

// More launches in turn than are kept: none of them pushes another out.
TEST(ResolvedStore, ManyAddressesInTurnAreNotKept) {
  ResolvedStore store;
  const DeviceState device;
  for (int turn = 0; turn < 3; ++turn)
    for (uint64_t i = 1; i <= 100000; ++i) Keep(store, "f", &device, At(i << 8));
  EXPECT_LT(store.size(), ResolvedStore::kKept);
}

}  // namespace
}  // namespace tilec
