// Machine code by a ptxas beside the compiler: made once for a program and kept on disk, loaded in
// place of the text, given up where the assembler or the driver refuses, and no part of any choice.
// Scripts stand for ptxas and write down each time they are asked; a stand-in for the driver counts
// (tests/unit/runtime/fake_driver.cc). Runs with LD_LIBRARY_PATH at that one.
//
// SPDX-License-Identifier: Apache-2.0
#include "api/assembler.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "support/file.h"
#include "tests/unit/api/stand_in.h"
#include "tests/unit/temp_folder.h"

namespace tilec {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSource = R"(
kernel twice(X: f32[N], Y: out f32[N]) {
  tune B = 64 in {64, 128}
  parallel n in tiles(N, B) { Y[n] = X[n] * 2.0 }
}
)";

class AssemblerTest : public OnStandIn {
 protected:
  // As ptxas is called: -arch=… -v SOURCE -o CUBIN.
  std::string Script(const std::string& does) const {
    const std::string file = folder_.path() + "/ptxas";
    std::ofstream(file) << "#!/bin/sh\necho $1 >> '" << folder_.path() << "/asked'\n"
                        << does << "\n";
    fs::permissions(file, fs::perms::owner_all);
    return file;
  }
  std::string Making(const std::string& code) const {
    return Script("printf '\\177ELF " + code + "' > \"$5\"");
  }
  std::vector<std::string> Asked() const {
    std::ifstream in(folder_.path() + "/asked");
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
  }
  uint64_t Modules() const { return counts_->modules; }
  uint64_t OfMachineCode() const { return counts_->of_machine_code; }

  // As a process of its own would have it.
  Kernel Make(const std::string& ptxas, bool cache = false) {
    CompilerOptions options;
    options.disk_cache = cache;
    options.cache_dir = folder_.path() + "/cache";
    options.tune = "default";
    options.ptxas = ptxas;
    return Compiled(options, kSource);
  }
  static Args Of(int64_t n, int64_t b = 64) {
    return Args()
        .Set("X", Tensor{DType::kF32, 0x10000, {n}, {}})
        .Set("Y", Tensor{DType::kF32, 0x20000, {n}, {}})
        .Set("B", b);
  }
  static std::vector<std::string> Codes(const Status& s) {
    std::vector<std::string> codes;
    for (const Problem& p : s.problems()) codes.push_back(p.code);
    return codes;
  }
  using Texts = std::vector<std::string>;

  TempFolder folder_;
};

TEST_F(AssemblerTest, CodeIsMadeOnceAndKept) {
  const std::string ptxas = Making("good");
  const uint64_t modules = Modules(), before = OfMachineCode();
  Kernel kernel = Make(ptxas, true);
  for (const int64_t n : {112, 208, 112})  // one program
    EXPECT_TRUE(kernel.Launch(*device_, Of(n)).ok());
  EXPECT_EQ(Asked(), Texts{"-arch=sm_90a"});
  EXPECT_EQ(OfMachineCode() - before, 1u);
  Kernel next = Make(ptxas, true);
  EXPECT_TRUE(next.Launch(*device_, Of(112)).ok());
  EXPECT_EQ(Asked().size(), 1u) << "the next process has it from the cache";
  EXPECT_EQ(OfMachineCode() - before, 2u);
  EXPECT_EQ(Modules() - modules, 2u);
  // Another ptxas makes its own.
  Kernel other = Make(Making("of another length"), true);
  EXPECT_TRUE(other.Launch(*device_, Of(112)).ok());
  EXPECT_EQ(Asked().size(), 2u);
}

// Two handles of a kernel, or two classes of sizes, may have one program.
TEST_F(AssemblerTest, ATextIsAssembledOnce) {
  CompilerOptions options;
  options.disk_cache = false;
  options.tune = "default";
  options.ptxas = Making("good");
  auto compiler = Compiler::Create(options);
  ASSERT_TRUE(compiler.ok()) << compiler.status().text();
  const uint64_t before = OfMachineCode();
  for (int handle = 0; handle < 2; ++handle) {
    auto kernel = compiler->CompileText(kSource, "twice.tile", "twice");
    ASSERT_TRUE(kernel.ok()) << kernel.status().text();
    EXPECT_TRUE(kernel->Launch(*device_, Of(112)).ok());
  }
  EXPECT_EQ(Asked().size(), 1u);
  EXPECT_EQ(OfMachineCode() - before, 2u);
}

// Its pages are large ones, unless the host has said how allocators go about them.
TEST_F(AssemblerTest, ItTakesLargePages) {
  const auto heard = [&](const char* said) {
    if (said != nullptr) setenv("GLIBC_TUNABLES", said, 1);
    Kernel kernel = Make(Script("echo \"$GLIBC_TUNABLES\" >> '" + folder_.path() +
                                "/heard'\nprintf '\\177ELF good' > \"$5\""));
    EXPECT_TRUE(kernel.Launch(*device_, Of(100)).ok());
    unsetenv("GLIBC_TUNABLES");
    std::ifstream in(folder_.path() + "/heard");
    std::string last;
    for (std::string line; std::getline(in, line);) last = line;
    return last;
  };
  ASSERT_EQ(std::getenv("GLIBC_TUNABLES"), nullptr) << "this test says it itself";
  EXPECT_NE(heard(nullptr).find("glibc.malloc.hugetlb=1"), std::string::npos);
  EXPECT_EQ(heard("glibc.malloc.check=0"), "glibc.malloc.check=0");
}

// A tile's iterations dealt out to two clusters: two launches, one of which puts together.
TEST_F(AssemblerTest, LaunchesOfOneCallAreAssembledBesideEachOther) {
  const auto launch = [&](const std::string& does) {
    CompilerOptions options;
    options.disk_cache = false;
    options.tune = "default";
    options.schedule = "solve:split=16";
    options.ptxas = Script(does);
    auto kernel = Compiler::Create(options)->Compile("std/matmul.tile", "gemm");
    EXPECT_TRUE(kernel.ok()) << kernel.status().text();
    const auto at = [](uint64_t address, std::vector<int64_t> dims) {
      return Tensor{DType::kBF16, address, std::move(dims), {}};
    };
    return kernel->Launch(*device_, Args()
                                        .Set("A", at(0x10000, {32, 4096}))
                                        .Set("B", at(0x20000, {64, 4096}))
                                        .Set("C", at(0x30000, {32, 64}))
                                        .Set("BM", 32)
                                        .Set("BN", 32)
                                        .Set("BK", 32));
  };
  const auto says = [](const Status& s) {  // beside what the compiler notes
    const Texts codes = Codes(s);
    return std::count(codes.begin(), codes.end(), "R638");
  };
  const Counts before = *counts_;
  // Each waits until the other was asked, too.
  const Status both =
      launch("n=0; until [ $(wc -l < '" + folder_.path() +
             "/asked') -ge 2 ] || [ $n -ge 100 ]; do sleep 0.1; n=$((n + 1)); done\n"
             "[ $n -lt 100 ] || exit 1\nprintf '\\177ELF good' > \"$5\"");
  EXPECT_TRUE(both.ok()) << both.text();
  EXPECT_EQ(says(both), 0) << both.text();
  EXPECT_EQ(Since(before).of_machine_code, 2u);
  const Status none = launch("exit 1");
  EXPECT_EQ(says(none), 1) << none.text();
  EXPECT_EQ(Since(before).of_machine_code, 2u);
  EXPECT_EQ(Since(before).modules, 4u) << "the driver assembles both";
}

TEST_F(AssemblerTest, FunctionsAreOnTheDeviceBeforeTheirFirstLaunch) {
  const uint64_t before = counts_->functions;
  Kernel kernel = Make("off");
  EXPECT_TRUE(kernel.Prepare(*device_, Of(100)).ok());
  EXPECT_EQ(counts_->functions - before, 1u);
}

TEST_F(AssemblerTest, WhereItFailsTheDriverAssembles) {
  const uint64_t modules = Modules(), before = OfMachineCode();
  Kernel kernel = Make(Script("echo 'ptxas fatal   : Unsupported .version'; exit 255"));
  const Status first = kernel.Launch(*device_, Of(100));
  EXPECT_TRUE(first.ok()) << first.text();
  EXPECT_EQ(Codes(first), Texts{"R638"});
  EXPECT_NE(first.text().find("Unsupported .version"), std::string::npos) << first.text();
  const Status second = kernel.Launch(*device_, Of(100, 128));
  EXPECT_EQ(Codes(second), Texts{}) << second.text();
  EXPECT_EQ(Asked().size(), 1u) << "it is not asked again";
  EXPECT_EQ(Modules() - modules, 2u);
  EXPECT_EQ(OfMachineCode() - before, 0u);
}

TEST_F(AssemblerTest, WhatTheDriverRefusesIsNotMadeAgain) {
  Kernel kernel = Make(Making("SYNTAX_ERROR"));
  const Status first = kernel.Launch(*device_, Of(100));
  EXPECT_TRUE(first.ok()) << first.text();
  EXPECT_EQ(Codes(first), Texts{"R558"});
  EXPECT_EQ(Codes(kernel.Launch(*device_, Of(100, 128))), Texts{});
  EXPECT_EQ(Asked().size(), 1u);
}

TEST_F(AssemblerTest, OffIsTheDriver) {
  const uint64_t before = OfMachineCode();
  Making("good");
  Kernel kernel = Make("off");
  EXPECT_TRUE(kernel.Launch(*device_, Of(100)).ok());
  EXPECT_EQ(Asked().size(), 0u);
  EXPECT_EQ(OfMachineCode(), before);
}

TEST_F(AssemblerTest, NobodyAssemblesForTheEmulator) {
  const std::string ptxas = Making("good");
  auto emulator = Device::Open("emulator");
  ASSERT_TRUE(emulator.ok());
  const auto memory = emulator->Alloc(1 << 12);
  Args args = Of(100);
  for (const char* name : {"X", "Y"}) args.Set(name, Tensor{DType::kF32, *memory, {100}, {}});
  Kernel kernel = Make(ptxas);
  const Status s = kernel.Launch(*emulator, args);
  EXPECT_TRUE(s.ok()) << s.text();
  EXPECT_EQ(Asked().size(), 0u);
}

TEST_F(AssemblerTest, AFileMustBeThere) {
  CompilerOptions options;
  options.ptxas = folder_.path() + "/nothing";
  const auto compiler = Compiler::Create(options);
  ASSERT_FALSE(compiler.ok());
  EXPECT_EQ(compiler.status().problems()[0].code, "E420");
  EXPECT_NE(compiler.status().text().find("\"off\""), std::string::npos);
}

TEST_F(AssemblerTest, ProgramsDoNotDependOnIt) {
  const auto ptx = [&](const std::string& ptxas) {
    CompilerOptions options;
    options.disk_cache = false;
    options.ptxas = ptxas;  // tiles by the model, which the command asks ptxas about
    auto kernel = Compiler::Create(options)->Compile("std/softmax.tile", "softmax");
    EXPECT_TRUE(kernel.ok()) << kernel.status().text();
    const auto tensor = [](uint64_t at) { return Tensor{DType::kF32, at, {300, 500}, {}}; };
    const auto text =
        kernel->Emit("ptx", Args().Set("X", tensor(0x10000)).Set("Y", tensor(0x20000)));
    EXPECT_TRUE(text.ok()) << text.status().text();
    return text.ok() ? *text : "";
  };
  EXPECT_EQ(ptx("off"), ptx(Script("exit 1")));
  EXPECT_EQ(Asked().size(), 0u);
}

}  // namespace
}  // namespace tilec
