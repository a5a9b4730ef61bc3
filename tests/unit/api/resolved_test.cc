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

void Keep(ResolvedStore& store, const std::string& kernel, const DeviceState* device, Args args) {
  auto made = std::make_shared<Resolved>();
  made->kernel = kernel;
  made->device = device;
  made->args = std::move(args);
  store.Keep(ResolvedStore::Hash(kernel, device, made->args), made);
}

bool Has(const ResolvedStore& store, const std::string& kernel, const DeviceState* device,
         const Args& args) {
  const auto found = store.Find(ResolvedStore::Hash(kernel, device, args), kernel, device, args);
  return found && found->args == args;
}

TEST(ResolvedStore, TellsLaunchesApart) {
  ResolvedStore store;
  const DeviceState one, two;
  Keep(store, "f", &one, At(0x100));
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

TEST(ResolvedStore, WhatDiffersHashesApart) {
  const Args strided = At(0x100).Set("X", Tensor{DType::kF32, 0x100, {8, 8}, {9, 1}});
  const Args other = At(0x100).Set("X", Tensor{DType::kI32, 0x100, {8, 8}, {}});
  const uint64_t hash = ResolvedStore::Hash("f", nullptr, At(0x100));
  EXPECT_NE(hash, ResolvedStore::Hash("f", nullptr, strided));
  EXPECT_NE(hash, ResolvedStore::Hash("f", nullptr, other));
  EXPECT_NE(hash, ResolvedStore::Hash("g", nullptr, At(0x100)));
  EXPECT_EQ(hash, ResolvedStore::Hash("f", nullptr, At(0x100)));
}

TEST(ResolvedStore, TheOldestMakesRoom) {
  ResolvedStore store;
  const DeviceState device;
  for (uint64_t i = 0; i < ResolvedStore::kKept + 10; ++i) Keep(store, "f", &device, At(i));
  EXPECT_EQ(store.size(), ResolvedStore::kKept);
  for (uint64_t i = 0; i < ResolvedStore::kKept + 10; ++i)
    EXPECT_EQ(Has(store, "f", &device, At(i)), i >= 10) << i;
}

}  // namespace
}  // namespace tilec
