// Functions: parameters, recursion, addresses, frames; and what the device runtime offers kernels.
//
// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/emulator/harness.h"

namespace tilec::runtime {
namespace {

std::string Module(const std::string& functions, const std::string& body) {
  return ".version 8.3\n.target sm_90a\n.address_size 64\n"
         ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n"
         ".extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d,\n"
         "  .param .b64 e) .noreturn;\n"
         ".extern .func (.param .b64 r) malloc(.param .b64 n);\n"
         ".extern .func free(.param .b64 p);\n" +
         functions +
         ".visible .entry k(.param .u64 out)\n{\n.reg .b64 %out, %tt, %d<9>;\n.reg .b32 %t, "
         "%r<9>;\n"
         ".reg .pred %p;\n.local .align 8 .b8 depot[16];\n"
         "ld.param.u64 %out, [out];\nmov.u32 %t, %tid.x;\n"
         "mul.wide.u32 %tt, %t, 8;\nadd.u64 %out, %out, %tt;\n" +
         body + "\nret;\n}\n";
}

// What each of 32 lanes stored at its place; empty, with `error`, if the launch failed.
std::vector<uint64_t> RunCalls(const std::string& functions, const std::string& body,
                               std::string* error = nullptr, EmulatorOptions options = {}) {
  Emu emu(options);
  const bool loaded = emu.Load(Module(functions, body));
  const uint64_t out = emu.Upload(std::vector<uint64_t>(32));
  LaunchConfig config;
  config.block[0] = 32;
  if (loaded && emu.Launch("k", config, {KernelArg::Of(out)}))
    return emu.Download<uint64_t>(out, 32);
  if (error == nullptr)
    ADD_FAILURE() << emu.Text();
  else
    *error = emu.Text();
  return {};
}

template <typename Expected>
void ExpectLanes(const std::vector<uint64_t>& out, Expected expected) {
  ASSERT_EQ(out.size(), 32u);
  for (uint64_t l = 0; l < 32; ++l) EXPECT_EQ(out[l], uint64_t{expected(l)}) << l;
}

const char* const kTwice =
    ".func (.param .b32 r) twice(.param .b32 x)\n{\n.reg .b32 %r<3>;\nld.param.u32 %r1, [x];\n"
    "add.u32 %r1, %r1, %r1;\nst.param.b32 [r], %r1;\nret;\n}\n";
std::string Call(const std::string& target, const std::string& in, const std::string& out,
                 const std::string& prototype = "") {
  return "{\n.param .b32 a;\n.param .b32 b;\nst.param.b32 [a], " + in + ";\ncall (b), " + target +
         ", (a)" + prototype + ";\nld.param.b32 " + out + ", [b];\n}\n";
}

TEST(Calls, EachLaneHasItsOwn) {
  const auto out = RunCalls(kTwice, "setp.lt.u32 %p, %t, 9;\nmov.u32 %r2, 7;\n@!%p bra OVER;\n" +
                                        Call("twice", "%t", "%r2") +
                                        "OVER:\ncvt.u64.u32 %d1, %r2;\nst.global.u64 [%out], %d1;");
  ExpectLanes(out, [](uint64_t l) { return l < 9 ? 2 * l : 7; });
}

TEST(Calls, CallersKeepTheirValues) {
  const auto out = RunCalls(kTwice, "mov.u32 %r1, 100;\nadd.u32 %r1, %r1, %t;\n" +
                                        Call("twice", "%t", "%r2") + Call("twice", "%r2", "%r3") +
                                        "add.u32 %r3, %r3, %r1;\ncvt.u64.u32 %d1, %r3;\n"
                                        "st.global.u64 [%out], %d1;");
  ExpectLanes(out, [](uint64_t l) { return 100 + 5 * l; });
}

// Lanes recurse to different depths, and come back to different places.
TEST(Calls, Recursion) {
  const std::string fib =
      ".func (.param .b32 r) fib(.param .b32 x)\n{\n.reg .b32 %r<9>;\n.reg .pred %p;\n"
      "ld.param.u32 %r1, [x];\nmov.u32 %r5, %r1;\nsetp.lt.u32 %p, %r1, 2;\n@%p bra END;\n"
      "sub.u32 %r2, %r1, 1;\n" +
      Call("fib", "%r2", "%r3") + "sub.u32 %r2, %r1, 2;\n" + Call("fib", "%r2", "%r4") +
      "add.u32 %r5, %r3, %r4;\nEND:\nst.param.b32 [r], %r5;\nret;\n}\n";
  const auto out = RunCalls(fib, "and.b32 %r1, %t, 15;\n" + Call("fib", "%r1", "%r2") +
                                     "cvt.u64.u32 %d1, %r2;\nst.global.u64 [%out], %d1;");
  uint64_t expected[16] = {0, 1};
  for (int k = 2; k < 16; ++k) expected[k] = expected[k - 1] + expected[k - 2];
  ExpectLanes(out, [&](uint64_t l) { return expected[l % 16]; });
}

TEST(Calls, RecursionWithoutEndHasAnEnd) {
  EMULATOR_ONLY();
  std::string error;
  RunCalls(".func (.param .b32 r) down(.param .b32 x)\n{\n.reg .b32 %r<3>;\n" +
               Call("down", "3", "%r1") + "ret;\n}\n",
           Call("down", "1", "%r1"), &error);
  EXPECT_NE(error.find("E652"), std::string::npos) << error;
}

TEST(Calls, Addresses) {
  const std::string functions = std::string(kTwice) +
                                ".func (.param .b32 r) ten(.param .b32 x)\n{\n.reg .b32 "
                                "%r<3>;\nst.param.b32 [r], 10;\nret;\n}\n"
                                ".global .align 8 .u64 table[2] = {twice, ten};\n";
  const std::string indirect =
      "and.b32 %r1, %t, 1;\nmul.wide.u32 %d1, %r1, 8;\nmov.u64 %d2, table;\nadd.u64 %d2, %d2, "
      "%d1;\n"
      "ld.global.u64 %d3, [%d2];\n" +
      Call("%d3", "%t", "%r2", ", proto") +
      "proto: .callprototype (.param .b32 _) _ (.param .b32 _);\n"
      "cvt.u64.u32 %d1, %r2;\nst.global.u64 [%out], %d1;";
  const auto out = RunCalls(functions, indirect);
  ExpectLanes(out, [](uint64_t l) { return l % 2 == 0 ? 2 * l : 10; });
}

TEST(Calls, FramesAreApart) {
  const std::string fill =
      ".func fill(.param .b64 to, .param .b32 v)\n{\n.reg .b64 %d<3>;\n.reg .b32 %r<3>;\n"
      ".local .align 8 .b8 own[64];\n"
      "ld.param.u64 %d1, [to];\nld.param.u32 %r1, [v];\nst.local.u32 [own+60], 99;\n"
      "st.u32 [%d1], %r1;\nst.u32 [%d1+4], %r1;\nret;\n}\n";
  const auto out =
      RunCalls(fill,
               "mov.u64 %d1, depot;\ncvta.local.u64 %d1, %d1;\n{\n.param .b64 a;\n.param .b32 b;\n"
               "st.param.b64 [a], %d1;\nst.param.b32 [b], %t;\ncall fill, (a, b);\n}\n"
               "ld.local.u64 %d2, [depot];\nst.global.u64 [%out], %d2;");
  ExpectLanes(out, [](uint64_t l) { return l << 32 | l; });
}

TEST(Calls, BranchesThroughATable) {
  const auto out =
      RunCalls("",
               "and.b32 %r1, %t, 3;\nmov.u64 %d1, 0;\nLIST: .branchtargets A, B, C, A;\n"
               "brx.idx %r1, LIST;\nA:\nmov.u64 %d1, 1;\nbra E;\nB:\nmov.u64 %d1, 2;\n"
               "bra E;\nC:\nmov.u64 %d1, 3;\nE:\nst.global.u64 [%out], %d1;");
  ExpectLanes(out, [](uint64_t l) { return l % 4 == 3 ? 1 : l % 4 + 1; });
}

// ---- the device runtime ----

TEST(Services, Printf) {
  EMULATOR_ONLY();
  std::string printed;
  EmulatorOptions o;
  o.print = [&](std::string_view text) { printed += text; };
  const std::string format =
      ".global .align 1 .b8 f[20] = {37,100,32,37,53,46,50,102,37,37,10,0};\n";
  RunCalls(format,
           "setp.ne.u32 %p, %t, 5;\n@%p bra OVER;\nst.local.u32 [depot], -7;\n"
           "mov.u64 %d1, 0x3ff8000000000000;\nst.local.u64 [depot+8], %d1;\n"
           "mov.u64 %d2, f;\nmov.u64 %d3, depot;\ncvta.local.u64 %d3, %d3;\n"
           "{\n.param .b64 a;\n.param .b64 b;\n.param .b32 r;\nst.param.b64 [a], %d2;\n"
           "st.param.b64 [b], %d3;\ncall (r), vprintf, (a, b);\n}\nOVER:",
           nullptr, o);
  EXPECT_EQ(printed, "-7  1.50%\n");
}

const char* const kMalloc =
    "{\n.param .b64 n;\n.param .b64 r;\nst.param.b64 [n], 64;\ncall (r), malloc, (n);\n"
    "ld.param.b64 %d1, [r];\n}\n";
const char* const kFree = "{\n.param .b64 p;\nst.param.b64 [p], %d1;\ncall free, (p);\n}\n";

TEST(Services, Heap) {
  EMULATOR_ONLY();
  const std::string use =
      "cvt.u64.u32 %d2, %t;\nst.u64 [%d1+56], %d2;\nld.u64 %d3, [%d1+56];\n"
      "st.global.u64 [%out], %d3;\n";
  const auto out = RunCalls("", kMalloc + use + kFree);
  ExpectLanes(out, [](uint64_t l) { return l; });
  std::string error;
  RunCalls("", std::string(kMalloc) + kFree + kFree, &error);
  EXPECT_NE(error.find("E653"), std::string::npos) << error;
  RunCalls("", std::string("add.u64 %d1, %out, 0;\n") + kFree, &error);
  EXPECT_NE(error.find("E653"), std::string::npos) << error;
}

TEST(Services, HeapIsBounded) {
  EMULATOR_ONLY();
  // Null when nothing is left, as CUDA has it: the loop ends.
  const auto out = RunCalls("", std::string("mov.u64 %d4, 0;\nL:\n") + kMalloc +
                                    "add.u64 %d4, %d4, 1;\nsetp.ne.u64 %p, %d1, 0;\n@%p bra L;\n"
                                    "st.global.u64 [%out], %d4;\n");
  ASSERT_EQ(out.size(), 32u);
  EXPECT_GT(out[0], 1000u);
  EXPECT_LT(out[0], 8u << 20);
}

TEST(Services, Assert) {
  EMULATOR_ONLY();
  std::string error;
  RunCalls(".global .align 1 .b8 x[8] = {110,32,62,32,48,0};\n",
           "mov.u64 %d2, x;\n{\n.param .b64 a;\n.param .b64 b;\n.param .b32 c;\n.param .b64 d;\n"
           ".param .b64 e;\nst.param.b64 [a], %d2;\nst.param.b64 [b], %d2;\nst.param.b32 [c], 12;\n"
           "st.param.b64 [d], %d2;\nst.param.b64 [e], 1;\ncall __assertfail, (a, b, c, d, e);\n}\n",
           &error);
  EXPECT_NE(error.find("assertion `n > 0` failed at n > 0:12"), std::string::npos) << error;
}

TEST(Services, AttacksThroughThem) {
  EMULATOR_ONLY();
  const std::string host(64, 'x');
  const auto address = std::to_string(reinterpret_cast<uint64_t>(host.data()));
  const std::string print =
      "{\n.param .b64 a;\n.param .b64 b;\n.param .b32 r;\nst.param.b64 [a], %d2;\n"
      "st.param.b64 [b], %d3;\ncall (r), vprintf, (a, b);\n}\n";
  const std::string formats =
      ".global .align 1 .b8 s[4] = {37,115,0};\n.global .align 1 .b8 n[4] = {37,110,0};\n"
      ".global .align 1 .b8 w[16] = {37,57,57,57,57,57,57,57,57,57,100,0};\n"
      ".global .align 1 .b8 star[8] = {37,42,46,42,102,0};\n"
      ".global .align 1 .b8 open[4] = {37,100,37,100};\n";
  struct Attack {
    const char* name;
    std::string body;
    const char* says;  // "": it may run
  };
  const Attack attacks[] = {
      {"a format of the host", "mov.u64 %d2, " + address + ";\nmov.u64 %d3, 0;\n" + print, "E640"},
      {"a text of the host",
       "mov.u64 %d2, s;\nmov.u64 %d1, " + address +
           ";\nst.local.u64 [depot], %d1;\nmov.u64 %d3, depot;\ncvta.local.u64 %d3, %d3;\n" + print,
       "E640"},
      {"arguments of the host", "mov.u64 %d2, s;\nmov.u64 %d3, " + address + ";\n" + print, "E640"},
      {"%n", "mov.u64 %d2, n;\nmov.u64 %d3, %out;\n" + print, ""},
      {"a width of 999999999", "mov.u64 %d2, w;\nmov.u64 %d3, %out;\n" + print, ""},
      {"a width of 2^31 - 1",
       "mov.u64 %d2, star;\nmov.u64 %d1, 0x7fffffff7fffffff;\nst.local.u64 [depot], %d1;\n"
       "st.local.u64 [depot+8], %d1;\nmov.u64 %d3, depot;\ncvta.local.u64 %d3, %d3;\n" +
           print,
       ""},
      {"a format without an end", "mov.u64 %d2, open;\nmov.u64 %d3, %out;\n" + print, "E640"},
      {"a format in shared memory of nobody",
       "mov.u64 %d2, 0xffff000000ffffff;\nmov.u64 %d3, 0;\n" + print, "E640"},
      {"the end of the address space", "mov.u64 %d2, -1;\nmov.u64 %d3, -8;\n" + print, "E640"},
      {"free of the host's memory", "mov.u64 %d1, " + address + ";\n" + kFree, "E653"},
      {"malloc of everything",
       "{\n.param .b64 n;\n.param .b64 r;\nst.param.b64 [n], -1;\ncall (r), malloc, (n);\n"
       "ld.param.b64 %d1, [r];\n}\nst.u64 [%d1], %d1;\n",
       "E640"},
      {"a call of the host's memory",
       "mov.u64 %d3, " + address + ";\n" + Call("%d3", "%t", "%r2", ", proto") +
           "proto: .callprototype (.param .b32 _) _ (.param .b32 _);\n",
       "E646"},
      {"a call of null",
       "mov.u64 %d3, 0;\n" + Call("%d3", "%t", "%r2", ", proto") +
           "proto: .callprototype (.param .b32 _) _ (.param .b32 _);\n",
       "E646"},
      {"a call of no function",
       "mov.u64 %d3, 0xfffd7ffffffffff0;\n" + Call("%d3", "%t", "%r2", ", proto") +
           "proto: .callprototype (.param .b32 _) _ (.param .b32 _);\n",
       "E646"},
      {"a call with another prototype",
       "mov.u64 %d3, twice;\n{\n.param .b64 a[100];\ncall %d3, (a), proto;\n}\n"
       "proto: .callprototype _ (.param .b64 _[100]);\n",
       "E646"},
      {"code as data", "mov.u64 %d3, twice;\nld.u64 %d4, [%d3];\n", "E640"},
      {"printf without end", "mov.u64 %d2, w;\nmov.u64 %d3, %out;\nL:\n" + print + "bra L;\n",
       "E645"},
  };
  for (const Attack& a : attacks) {
    SCOPED_TRACE(a.name);
    size_t printed = 0;
    EmulatorOptions o;
    o.instruction_limit = 300'000;
    o.print = [&](std::string_view text) { printed += text.size(); };
    std::string error;
    RunCalls(formats + kTwice, a.body, &error, o);
    EXPECT_NE(error.find(a.says), std::string::npos) << error;
    EXPECT_EQ(error.empty(), *a.says == 0) << error;
    EXPECT_LT(printed, (1u << 20) + 70000);
    EXPECT_EQ(host, std::string(64, 'x'));
  }
}

// ---- what goes with them at the door ----

TEST(Door, OneLackingEntryLeavesTheOthers) {
  EMULATOR_ONLY();
  Emu emu;
  ASSERT_TRUE(emu.Load(Module("", "tex.2d.v4.f32.f32 {%r1, %r2, %r3, %r4}, [t, {%r1, %r2}];\n")))
      << emu.Text();
}

TEST(Door, ModifiersInAnyOrder) {
  const auto out = RunCalls("",
                            "mov.u32 %r1, 5;\nst.global.release.gpu.b32 [%out], %r1;\n"
                            "ld.global.acquire.gpu.b32 { %r2 }, [%out];\n"
                            "atom.add.relaxed.gpu.global.u32 %r3, [%out+4], %r2;\n");
  ASSERT_EQ(out.size(), 32u);
  EXPECT_EQ(out[3], 5ull << 32 | 5);
}

TEST(Door, Carries) {
  const auto out = RunCalls("",
                            "mov.u32 %r1, -1;\nadd.cc.u32 %r2, %r1, %t;\naddc.u32 %r3, 0, 0;\n"
                            "mov.b64 %d1, {%r2, %r3};\nst.global.u64 [%out], %d1;\n");
  ExpectLanes(out, [](uint64_t l) { return 0xffffffffull + l; });
  const auto less = RunCalls("",
                             "mov.u32 %r1, 3;\nsub.cc.u32 %r2, %t, %r1;\nsubc.u32 %r3, 9, 0;\n"
                             "mov.b64 %d1, {%r2, %r3};\nst.global.u64 [%out], %d1;\n");
  ExpectLanes(less, [](uint64_t l) { return (9ull << 32) + l - 3; });
}

// Halves of a warp that are in different sets meet in one instruction.
TEST(Door, SetsOfLanes) {
  const auto out =
      RunCalls("",
               "setp.lt.u32 %p, %t, 16;\nselp.b32 %r1, 0xffff, 0xffff0000, %p;\n"
               "shfl.sync.bfly.b32 %r2, %t, 1, 31, %r1;\nvote.sync.any.pred %p, %p, %r1;\n"
               "selp.b32 %r3, 1, 0, %p;\nmov.b64 %d1, {%r2, %r3};\nst.global.u64 [%out], %d1;\n");
  ExpectLanes(out, [](uint64_t l) { return (l ^ 1) | (l < 16 ? 1ull << 32 : 0); });
}

TEST(Door, OneAccessToSeveralSpaces) {
  const auto out =
      RunCalls("",
               "cvt.u64.u32 %d1, %t;\nst.local.u64 [depot], %d1;\nmov.u64 %d2, depot;\n"
               "cvta.local.u64 %d2, %d2;\nmov.u64 %d3, 1000;\nst.global.u64 [%out], %d3;\n"
               "setp.lt.u32 %p, %t, 7;\nselp.b64 %d2, %d2, %out, %p;\nld.u64 %d4, [%d2];\n"
               "st.global.u64 [%out], %d4;\n");
  ExpectLanes(out, [](uint64_t l) { return l < 7 ? l : 1000; });
}

}  // namespace
}  // namespace tilec::runtime
