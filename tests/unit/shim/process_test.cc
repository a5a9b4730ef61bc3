// A process of its own: memory, modules, launches, capture, as the entries use them.
//
// SPDX-License-Identifier: Apache-2.0
#include "shim/process.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "shim/nodes.h"
#include "tests/unit/shim/make_fatbin.h"
#include "tests/unit/temp_folder.h"

namespace tilec::shim {
namespace {

const std::string kAdd = std::string(test::kBump) + R"(
.visible .entry race(.param .u64 p) {
  .reg .u64 %a; .reg .u32 %v;
  ld.param.u64 %a, [p];
  cvta.to.global.u64 %a, %a;
  mov.u32 %v, %tid.x;
  st.global.u32 [%a], %v;
  ret;
}
.visible .entry time(.param .u64 p) {
  .reg .u64 %a, %t, %s; .reg .u32 %v, %k; .reg .pred %q, %f;
  .shared .align 8 .b64 told;
  ld.param.u64 %a, [p];
  cvta.to.global.u64 %a, %a;
  mov.u32 %v, %tid.x;
  setp.ne.u32 %q, %v, 0;
  @!%q mbarrier.init.shared.b64 [told], 1;
  bar.sync 0;
  setp.eq.u32 %f, %v, 32;
  mov.u32 %k, 200;
work:
  sub.u32 %k, %k, 1;
  setp.ne.and.u32 %f, %k, 0, %f;
  @%f bra work;
  setp.eq.u32 %f, %v, 32;
  @%f mbarrier.arrive.shared.b64 %s, [told];
  @%q bra done;
wait:
  mbarrier.test_wait.parity.shared.b64 %f, [told], 0;
  @!%f bra wait;
  mov.u64 %t, %clock64;
  st.global.u64 [%a], %t;
done:
  ret;
}
)";

struct Fixture : testing::Test {
  Process p{Settings(), ""};
  uint64_t New(uint64_t bytes) {
    uint64_t at = 0;
    EXPECT_EQ(p.Alloc(bytes, Place::kDevice, &at), kOk);
    return at;
  }
  Function* Kernel(const char* name) {
    Library* library = nullptr;
    Function* f = nullptr;
    EXPECT_EQ(p.NewLibrary(kAdd.c_str(), &library), kOk);
    EXPECT_EQ(p.FindFunction(library, name, &f), kOk);
    return f;
  }
  KernelWork Bump(Function* f, uint64_t at, uint32_t by) {
    KernelWork work;
    void* arguments[] = {&at, &by};
    EXPECT_EQ(p.Arguments(f, arguments, nullptr, &work), kOk);
    return work;
  }
  uint32_t Value(uint64_t at) {
    uint32_t value = 0;
    CopyWork copy;
    copy.to = reinterpret_cast<uint64_t>(&value);
    copy.from = at;
    copy.width = 4;
    EXPECT_EQ(p.Copy(copy), kOk);
    return value;
  }
};
using Shim = Fixture;

TEST_F(Shim, LaunchesWithArguments) {
  const uint64_t at = New(4);
  EXPECT_EQ(p.Fill({at, 0, 4, 1, 0, 1}), kOk);
  EXPECT_EQ(p.Launch(Bump(Kernel("bump"), at, 5)), kOk);
  EXPECT_EQ(Value(at), 5u);
  EXPECT_TRUE(p.findings().empty());
}

TEST_F(Shim, PackedArgumentsMustBeLongEnough) {
  Function* f = Kernel("bump");
  struct {
    uint64_t at;
    uint32_t by;
  } packed = {New(4), 3};
  size_t bytes = 12;
  void* extra[] = {reinterpret_cast<void*>(1), &packed, reinterpret_cast<void*>(2), &bytes,
                   nullptr};
  KernelWork work;
  EXPECT_EQ(p.Arguments(f, nullptr, extra, &work), kOk);
  bytes = 11;
  EXPECT_EQ(p.Arguments(f, nullptr, extra, &work), kInvalidValue);
  EXPECT_EQ(p.Arguments(f, nullptr, nullptr, &work), kInvalidValue);
}

TEST_F(Shim, RacesAreFoundAndFaultsStick) {
  Function* f = Kernel("race");
  uint64_t at = New(4);
  KernelWork work;
  void* arguments[] = {&at};
  ASSERT_EQ(p.Arguments(f, arguments, nullptr, &work), kOk);
  work.config.block[0] = 64;
  EXPECT_EQ(p.Launch(work), kOk);
  ASSERT_FALSE(p.findings().empty());
  EXPECT_EQ(p.findings()[0].rule, runtime::judge::Rule::kM2);
  at += 1 << 20;
  ASSERT_EQ(p.Arguments(f, arguments, nullptr, &work), kOk);
  EXPECT_EQ(p.Launch(work), kIllegalAddress);
  EXPECT_EQ(p.Launch(work), kIllegalAddress);
  EXPECT_EQ(p.sticky(), kIllegalAddress);
}

// What a process with a folder says after two launches of `race` by two warps.
std::string Explored(int threads) {
  TempFolder folder;
  Settings settings;
  settings.emulator.threads = threads;
  settings.seeds = 4;
  Process p(settings, folder.path());
  Library* library = nullptr;
  Function* f = nullptr;
  EXPECT_EQ(p.NewLibrary(kAdd.c_str(), &library), kOk);
  EXPECT_EQ(p.FindFunction(library, "race", &f), kOk);
  uint64_t at = 0;
  EXPECT_EQ(p.Alloc(4, Place::kDevice, &at), kOk);
  KernelWork work;
  void* arguments[] = {&at};
  EXPECT_EQ(p.Arguments(f, arguments, nullptr, &work), kOk);
  work.config.block[0] = 64;
  EXPECT_EQ(p.Launch(work), kOk);
  EXPECT_EQ(p.Launch(work), kOk);
  const Counts& c = p.counts();
  EXPECT_EQ(c.executions, 2u + 3u + 8u);  // corners and dice of one kind of launch
  EXPECT_EQ(c.different, 1u);             // of 64 threads that store their numbers, one is the last
  std::string all =
      fmt::format("{} {} {} {}\n", c.launches, c.executions, c.warp_instructions, c.different) +
      runtime::judge::ToJson(p.findings());
  for (const ProcessReport& r : ReadReports(folder.path()))
    for (const std::string& note : r.notes) all += note + "\n";
  return all;
}

TEST(ShimOrders, TellTheSameHoweverManyRunAtOnce) {
  const std::string one = Explored(1);
  EXPECT_NE(one.find("M2"), std::string::npos);
  EXPECT_NE(one.find("leaves other bytes"), std::string::npos);
  for (int threads : {2, 5, 64}) EXPECT_EQ(Explored(threads), one) << threads;
}

// Times are other ones in other orders: that is no mistake of the kernel.
TEST(ShimOrders, AreNotComparedWhereAClockIsRead) {
  TempFolder folder;
  Settings settings;
  settings.seeds = 4;
  Process p(settings, folder.path());
  Library* library = nullptr;
  Function* f = nullptr;
  ASSERT_EQ(p.NewLibrary(kAdd.c_str(), &library), kOk);
  ASSERT_EQ(p.FindFunction(library, "time", &f), kOk);
  uint64_t at = 0;
  ASSERT_EQ(p.Alloc(8, Place::kDevice, &at), kOk);
  KernelWork work;
  void* arguments[] = {&at};
  ASSERT_EQ(p.Arguments(f, arguments, nullptr, &work), kOk);
  work.config.block[0] = 256;
  ASSERT_EQ(p.Launch(work), kOk);
  EXPECT_EQ(p.counts().executions, 1u + 3u + 8u);
  EXPECT_EQ(p.counts().different, 0u);
  EXPECT_TRUE(p.findings().empty());
}

// Other orders are tried once, and nothing grows with the number of launches.
TEST(ShimOrders, TenThousandLaunchesAreTenThousandExecutions) {
  TempFolder folder;
  Process p(Settings(), folder.path());
  Library* library = nullptr;
  Function* f = nullptr;
  ASSERT_EQ(p.NewLibrary(kAdd.c_str(), &library), kOk);
  ASSERT_EQ(p.FindFunction(library, "bump", &f), kOk);
  uint64_t at = 0;
  ASSERT_EQ(p.Alloc(4, Place::kDevice, &at), kOk);
  ASSERT_EQ(p.Fill({at, 0, 4, 1, 0, 1}), kOk);
  uint32_t by = 1;
  void* arguments[] = {&at, &by};
  KernelWork work;
  uint64_t first = 0;
  for (int k = 0; k < 10000; ++k) {
    ASSERT_EQ(p.Arguments(f, arguments, nullptr, &work), kOk);
    ASSERT_EQ(p.Launch(work), kOk);
    if (k == 0) first = p.counts().warp_instructions;
  }
  const Counts& c = p.counts();
  EXPECT_EQ(c.launches, 10000u);
  EXPECT_EQ(c.kernels, 1u);
  EXPECT_EQ(c.executions, 10000u + 3u);
  EXPECT_EQ(c.warp_instructions, first + 9999 * (first / 4));
  EXPECT_TRUE(p.findings().empty());
  uint32_t value = 0;
  CopyWork copy;
  copy.to = reinterpret_cast<uint64_t>(&value);
  copy.from = at;
  copy.width = 4;
  ASSERT_EQ(p.Copy(copy), kOk);
  EXPECT_EQ(value, 10000u);
  const std::filesystem::directory_iterator files(folder.path());
  EXPECT_LE(std::distance(begin(files), end(files)), 1);  // counts
}

TEST_F(Shim, CopiesStayInside) {
  const uint64_t at = New(100);
  char host[200] = {};
  CopyWork copy;
  copy.to = at + 60;
  copy.from = reinterpret_cast<uint64_t>(host);
  copy.width = 40;
  EXPECT_EQ(p.Copy(copy), kOk);
  copy.width = 41;
  EXPECT_EQ(p.Copy(copy), kInvalidValue);
  copy = {at, reinterpret_cast<uint64_t>(host), 50, 10, 0, 0, 10, 3, 1};
  EXPECT_EQ(p.Copy(copy), kInvalidValue);  // 110 bytes
  copy.height = 2;
  EXPECT_EQ(p.Copy(copy), kOk);
  copy.to_pitch = ~0ull;
  EXPECT_EQ(p.Copy(copy), kInvalidValue);
  EXPECT_EQ(p.Fill({at, 0, 26, 1, 0, 4}), kInvalidValue);
  // rows over one another: as many as one likes would fit
  EXPECT_EQ(p.Fill({at, 0, 1, 1ull << 40, 0, 4}), kInvalidValue);
  EXPECT_EQ(p.Fill({at, 3, 1, 2, 0, 4}), kInvalidValue);
  EXPECT_EQ(p.Fill({at, 4, 1, 2, 0, 4}), kOk);
  EXPECT_EQ(p.Free(at + 1), kInvalidValue);
  EXPECT_EQ(p.Free(at), kOk);
  EXPECT_EQ(p.Free(at), kInvalidValue);
}

TEST_F(Shim, CaptureReplaysInOrder) {
  Function* f = Kernel("bump");
  const uint64_t at = New(4);
  Stream* first = p.streams.Add(std::make_shared<Stream>());
  Stream* second = p.streams.Add(std::make_shared<Stream>());
  Event* fork = p.events.Add(std::make_shared<Event>());
  Event* join = p.events.Add(std::make_shared<Event>());
  ASSERT_EQ(p.BeginCapture(first, nullptr, {}), kOk);
  EXPECT_EQ(p.Submit(first, FillWork{at, 0, 4, 1, 0, 1}), kOk);
  EXPECT_EQ(p.RecordEvent(fork, first), kOk);
  EXPECT_EQ(p.WaitEvent(second, fork), kOk);
  EXPECT_EQ(p.Submit(second, Bump(f, at, 2)), kOk);
  EXPECT_EQ(p.RecordEvent(join, second), kOk);
  EXPECT_EQ(p.WaitEvent(first, join), kOk);
  EXPECT_EQ(p.Submit(first, Bump(f, at, 3)), kOk);
  Graph* graph = nullptr;
  EXPECT_EQ(p.EndCapture(second, &graph), kCaptureUnmatched);
  ASSERT_EQ(p.EndCapture(first, &graph), kOk);
  ASSERT_EQ(graph->nodes.size(), 3u);
  GraphExec* exec = nullptr;
  ASSERT_EQ(p.Instantiate(graph, &exec), kOk);
  EXPECT_EQ(p.RunGraph(*exec), kOk);
  EXPECT_EQ(p.RunGraph(*exec), kOk);
  EXPECT_EQ(Value(at), 5u);
  // Nodes that wait for each other.
  graph->nodes[0]->after.push_back(graph->nodes[2].get());
  EXPECT_EQ(p.Instantiate(graph, &exec), kInvalidValue);
}

// The address of freed memory is one of the host: a graph that still copies there must not.
TEST_F(Shim, GraphsDoNotCopyToWhatWasFreed) {
  uint32_t here = 7;
  const uint64_t host = reinterpret_cast<uint64_t>(&here);
  for (const bool to : {true, false}) {
    const uint64_t at = New(4);
    CopyWork copy;
    copy.to = to ? at : host;
    copy.from = to ? host : at;
    copy.width = 4;
    Graph* graph = p.graphs.Add(std::make_shared<Graph>());
    Node* node = nullptr;
    GraphExec* exec = nullptr;
    ASSERT_EQ(p.AddNode(graph, copy, nullptr, 0, &node), kOk);
    ASSERT_EQ(p.Instantiate(graph, &exec), kOk);
    EXPECT_EQ(p.RunGraph(*exec), kOk);
    ASSERT_EQ(p.Free(at), kOk);
    EXPECT_EQ(p.RunGraph(*exec), kInvalidValue);
    // A node that is changed is looked at anew.
    copy.from = host;
    copy.to = host;
    EXPECT_EQ(SetStep(p, exec, node, copy), kOk);
    EXPECT_EQ(p.RunGraph(*exec), kOk);
  }
}

TEST_F(Shim, HandlesThatAreNone) {
  int nothing = 0;
  EXPECT_EQ(p.FindStream(&nothing), nullptr);
  EXPECT_EQ(p.FunctionOf(&nothing), nullptr);
  EXPECT_EQ(p.FindLibrary(&nothing), nullptr);
  EXPECT_EQ(p.FindNode(&nothing), nullptr);
  EXPECT_EQ(p.Submit(&nothing, FillWork{}), kInvalidHandle);
  KernelWork work;
  work.function = reinterpret_cast<Function*>(&nothing);
  EXPECT_EQ(p.Launch(work), kInvalidHandle);
}

TEST_F(Shim, TextsThatDoNotFit) {
  Library* library = nullptr;
  Function* f = nullptr;
  ASSERT_EQ(p.NewLibrary(".version 8.0\n.target sm_100a\n.visible .entry k() { ret; }\n", &library),
            kOk);
  EXPECT_EQ(p.FindFunction(library, "k", &f), kNoBinary);
  ASSERT_EQ(p.NewLibrary("\x7f"
                         "ELF",
                         &library),
            kOk);
  EXPECT_EQ(p.FindFunction(library, "k", &f), kNoBinary);
  ASSERT_EQ(p.NewLibrary(".version 8.0\n.target sm_80\nnonsense", &library), kOk);
  EXPECT_EQ(p.FindFunction(library, "k", &f), kInvalidPtx);
  EXPECT_EQ(p.NewLibrary("no image at all", &library), kInvalidImage);
}

TEST_F(Shim, Variables) {
  Library* library = nullptr;
  ASSERT_EQ(p.NewLibrary(kAdd.c_str(), &library), kOk);
  uint64_t at = 0, bytes = 0;
  EXPECT_EQ(p.FindVariable(library, "counter", &at, &bytes), kOk);
  EXPECT_EQ(bytes, 4u);
  EXPECT_EQ(Value(at), 0u);
  EXPECT_EQ(p.Free(at), kInvalidValue);
  EXPECT_EQ(p.FindVariable(library, "none", &at, &bytes), kNotFound);
}

}  // namespace
}  // namespace tilec::shim
