// Tests on a stand-in for the driver (tests/unit/runtime/fake_driver.cc), which counts what it is
// asked. They run with LD_LIBRARY_PATH at one of its variants (CMakeLists.txt says which); where a
// real driver is found first they fail.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>

#include "include/tilec/tilec.h"

namespace tilec {

class OnStandIn : public ::testing::Test {
 protected:
  // As fake_counts has them.
  struct Counts {
    uint64_t encoded = 0, moved = 0, launches = 0, instantiated = 0, replaced = 0, graphs = 0;
    uint64_t modules = 0, of_machine_code = 0, functions = 0;
    uint64_t launched() const { return launches + graphs; }
  };

  void SetUp() override {
    void* driver = dlopen("libcuda.so.1", RTLD_NOW);
    ASSERT_TRUE(driver) << dlerror();
    counts_ = static_cast<const Counts*>(dlsym(driver, "fake_counts"));
    ASSERT_TRUE(counts_) << "a real driver is found before the stand-in";
    auto device = Device::Open("cuda");
    ASSERT_TRUE(device.ok()) << device.status().text();
    device_.emplace(*device);
  }
  Counts Since(const Counts& before) const {
    return {counts_->encoded - before.encoded,    counts_->moved - before.moved,
            counts_->launches - before.launches,  counts_->instantiated - before.instantiated,
            counts_->replaced - before.replaced,  counts_->graphs - before.graphs,
            counts_->modules - before.modules,    counts_->of_machine_code - before.of_machine_code,
            counts_->functions - before.functions};
  }
  // A kernel of a text, as a process of its own would have it.
  static Kernel Compiled(const CompilerOptions& options, const std::string& source) {
    auto compiler = Compiler::Create(options);
    EXPECT_TRUE(compiler.ok()) << compiler.status().text();
    auto kernel = compiler->CompileText(source, "kernel.tile");
    EXPECT_TRUE(kernel.ok()) << kernel.status().text();
    return *kernel;
  }

  const Counts* counts_ = nullptr;
  std::optional<Device> device_;
};

}  // namespace tilec
