// Programs that try to get out. A kernel's addresses, sizes, descriptors, counts and tensor maps
// are its own data: whatever they say, the emulator touches nothing that the program does not own,
// and says what was wrong.
//
// Every attack runs four times: plainly, with copies that land late, and twice under the judge,
// whose shadow memory is as good a target as any. It must end with the code given, and a buffer of
// the host, whose address the program knows, must stay as it was. Under the address sanitizer (the
// presets `dev` and `fuzz`) this test is as strong as it looks; without, a hole may go unseen.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "runtime/emulator/judge/finding.h"
#include "tests/unit/emulator/attacks.h"
#include "tests/unit/emulator/harness.h"

namespace tilec::runtime {

namespace {

// ---- tensor maps that a program wrote itself ----
static_assert(sizeof(Forged) == 128);

// ---- loads, stores and atomics ----

TEST(Attacks, Addresses) {
  EMULATOR_ONLY();
  const Attack attacks[] = {
      {"host load", "ld.global.b32 %r5, [%d1];\n", "E640", ""},
      {"host store", "st.global.b32 [%d1], %r4;\n", "E640", ""},
      {"host store, generic", "st.b64 [%d1+8], %d1;\n", "E640", ""},
      {"host atomic", "atom.global.add.u32 %r5, [%d1], 1;\n", "E640", ""},
      {"host reduction", "red.global.add.u64 [%d1], %d1;\n", "E640", ""},
      {"one lane of 32",
       "setp.eq.u32 %p1, %r2, 31;\nselp.b64 %d3, %d1, %d0, %p1;\n"
       "st.global.b32 [%d3], %r4;\n",
       "E640", ""},
      {"null", "mov.u64 %d3, 0;\nld.global.b8 %h0, [%d3];\n", "E640", ""},
      {"last byte of the address space", "mov.u64 %d3, -1;\nst.global.b8 [%d3], %h0;\n", "E6", ""},
      {"wraps around", "mov.u64 %d3, -16;\nst.global.v4.b32 [%d3+16], {%r4, %r4, %r4, %r4};\n",
       "E640", ""},
      {"immediate that wraps", "ld.global.b32 %r5, [%d0+-4];\n", "E640", ""},
      {"behind the end", "ld.global.v4.b32 {%r5, %r6, %r7, %r8}, [%d0+65536];\n", "E640", ""},
      {"across the end", "st.global.b64 [%d0+65532], %d0;\n", "E641", ""},
      {"the redzone before", "st.global.b8 [%d0+-1], %h0;\n", "E640", ""},
      {"parameters", "mov.u64 %d3, mem;\ncvta.param.u64 %d3, %d3;\nst.b64 [%d3], %d0;\n", "E648",
       ""},
      {"an atomic on parameters",
       "mov.u64 %d3, mem;\ncvta.param.u64 %d3, %d3;\natom.add.u64 %d4, [%d3], 1;\n", "E648", ""},
      {"constants", "mov.u64 %d3, fixed;\nst.global.b32 [%d3], %r4;\n", "E648", ""},
      {"behind the constants", "mov.u64 %d3, fixed;\nld.const.b32 %r5, [%d3+16];\n", "E640", ""},
      {"shared, behind the end", "st.shared.b32 [%r0+262144], %r4;\n", "E642", ""},
      {"shared, negative", "st.shared.b32 [%r0+-1024], %r4;\n", "E64", ""},
      {"shared, all bits", "mov.u32 %r5, -4;\nst.shared.b32 [%r5], %r4;\n", "E642", ""},
      {"shared of no CTA", "mov.u32 %r5, 0x7f000000;\nld.shared::cluster.b32 %r6, [%r5];\n", "E642",
       ""},
      {"a peer's, behind its end",
       "mapa.shared::cluster.u32 %r5, %r0, 1;\nst.shared::cluster.b32 [%r5+0x3ffff0], %r4;\n",
       "E642", "", 2},
      {"a rank beyond the cluster", "mapa.shared::cluster.u32 %r5, %r0, 77;\n", "E646", ""},
      {"the shared window, generic",
       "cvta.shared.u64 %d3, 0;\nadd.u64 %d3, %d3, 0xfffff0;\nst.b32 [%d3], %r4;\n", "E642", ""},
      {"the top of the shared window", "mov.u64 %d3, -8;\nst.b64 [%d3], %d0;\n", "E642", ""},
      {"local, behind the end", "mov.u64 %d3, depot;\nst.local.b32 [%d3+64], %r4;\n", "E643", ""},
      {"local, another lane's", "mov.u64 %d3, 4096;\nld.local.b32 %r5, [%d3];\n", "E643", ""},
      {"local, negative", "mov.u64 %d3, depot;\nst.local.b32 [%d3+-4], %r4;\n", "E643", ""},
      {"the local window, generic",
       "cvta.local.u64 %d3, 0;\nadd.u64 %d3, %d3, 0x7fffffff0;\nst.b32 [%d3], %r4;\n", "E643", ""},
      {"parameters, behind the end", "mov.u64 %d3, 4096;\nld.param.b64 %d4, [%d3];\n", "E647", ""},
      {"parameters, negative", "mov.u64 %d3, -8;\nld.param.b64 %d4, [%d3];\n", "E647", ""},
  };
  for (const Attack& a : attacks) Try(a);
}

// ---- copies without a map ----

TEST(Attacks, Copies) {
  EMULATOR_ONLY();
  const std::string ready = "@%p0 mbarrier.init.shared.b64 [%r1], 1;\nbar.sync 0;\n@!%p0 ret;\n";
  const std::string load = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes ";
  const std::string across =
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes ";
  const Attack attacks[] = {
      {"from the host", ready + load + "[%r0], [%d1], 16, [%r1];\n", "E640", ""},
      {"4 GiB", ready + load + "[%r0], [%d0], 0xfffffff0, [%r1];\n", "E64", ""},
      {"17 bytes", ready + load + "[%r0], [%d0], 17, [%r1];\n", "E646", "17"},
      {"more than there is", ready + load + "[%r0], [%d0], 65552, [%r1];\n", "E64", ""},
      {"behind shared memory", ready + load + "[%r0+262144], [%d0], 16, [%r1];\n", "E642", ""},
      {"signals behind shared memory", ready + load + "[%r0], [%d0], 16, [%r0+262144];\n", "E642",
       ""},
      {"signals no mbarrier", ready + load + "[%r0], [%d0], 16, [%r1+8];\n", "E661", ""},
      {"to a CTA that is not",
       ready + "mov.u32 %r5, 0x70000000;\n" + load + "[%r5], [%d0], 16, [%r1];\n", "E642", ""},
      {"multicast to all",
       ready + "mov.u16 %h0, 0xffff;\ncp.async.bulk.shared::cluster.global.mbarrier::complete_tx::"
               "bytes.multicast::cluster [%r0], [%d0], 16, [%r1], %h0;\nret;\n",
       "", ""},
      {"between CTAs, too long", ready + across + "[%r0], [%r0], 0x7ffffff0, [%r1];\n", "E642", ""},
      {"between CTAs, no target",
       ready + "mov.u32 %r5, 0x05000000;\n" + across + "[%r5], [%r0], 16, [%r1];\n", "E642", ""},
      {"to the host", "cp.async.bulk.global.shared::cta.bulk_group [%d1], [%r0], 16;\n", "E640",
       ""},
      {"to constants",
       "mov.u64 %d3, fixed;\ncp.async.bulk.global.shared::cta.bulk_group [%d3], [%r0], 16;\n", "E6",
       ""},
      {"reduces into the host",
       "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%d1], [%r0], 16;\n", "E640",
       ""},
      {"reduces off 16 bytes",
       "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u64 [%d0+4], [%r0], 16;\n", "E641",
       ""},
      {"cp.async from the host", "cp.async.ca.shared.global [%r0], [%d1], 16;\n", "E640", ""},
      {"cp.async behind shared memory", "cp.async.ca.shared.global [%r0+262144], [%d0], 16;\n",
       "E642", ""},
      {"cp.async of a source of 4 GiB",
       "mov.u32 %r5, -1;\ncp.async.ca.shared.global [%r0], [%d0], 4, %r5;\n", "E646", ""},
      {"cp.async of nothing from the host",
       "cp.async.ca.shared.global [%r0], [%d1], 16, %r4;\ncp.async.wait_all;\n", "", ""},
      {"a prefetch of the host", "prefetch.global.L2 [%d1];\n", "", ""},
  };
  for (const Attack& a : attacks) Try(a);
}

// ---- barriers, matrices, lanes ----

std::string Registers(int n) {
  std::string list;
  for (int k = 0; k < n; ++k) list += fmt::format("{}%f{}", k ? ", " : "", k);
  return "{" + list + "}";
}
std::string Wgmma(const char* a, const char* b) {
  return fmt::format(
      "mov.u64 %d3, {};\nmov.u64 %d4, {};\nwgmma.fence.sync.aligned;\n"
      "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {}, %d3, %d4, 0, 1, 1, 0, 0;\n",
      a, b, Registers(128));
}

TEST(Attacks, Barriers) {
  EMULATOR_ONLY();
  const Attack attacks[] = {
      {"mbarrier behind the end", "mbarrier.init.shared.b64 [%r0+262144], 1;\n", "E642", ""},
      {"mbarrier off 8 bytes", "mbarrier.init.shared.b64 [%r1+4], 1;\n", "E641", ""},
      {"mbarrier of 0", "mbarrier.init.shared.b64 [%r1], 0;\n", "E661", ""},
      {"mbarrier of 2^20", "mbarrier.init.shared.b64 [%r1], 1048576;\n", "E661", ""},
      {"no mbarrier", "mbarrier.arrive.shared.b64 _, [%r1];\n", "E661", ""},
      {"a peer that is not",
       "mov.u32 %r5, 0x09000000;\nmbarrier.arrive.shared::cluster.b64 _, [%r5];\n", "E642", ""},
      {"2^32 bytes expected",
       "@%p0 mbarrier.init.shared.b64 [%r1], 1;\n@%p0 mbarrier.expect_tx.shared.b64 [%r1], -1;\n",
       "E6", ""},
      {"a token made up",
       "@%p0 mbarrier.init.shared.b64 [%r1], 1;\nbar.sync 0;\nmov.u64 %d3, -1;\n"
       "mbarrier.test_wait.shared.b64 %p1, [%r1], %d3;\n",
       "E661", ""},
      {"barrier 16", "mov.u32 %r5, 16;\nbarrier.sync %r5;\n", "E646", "barrier 16"},
      {"barrier 2^32-1", "mov.u32 %r5, -1;\nbarrier.sync %r5, 128;\n", "E646", ""},
      {"33 threads", "mov.u32 %r5, 33;\nbarrier.sync 1, %r5;\n", "E646", "33"},
      {"2^31 threads", "mov.u32 %r5, 0x80000000;\nbarrier.arrive 1, %r5;\n", "E646", ""},
      {"a vote of absent lanes", "vote.sync.ballot.b32 %r5, %p0, 0;\n", "E662", ""},
      {"registers without end",
       "L:\nsetmaxnreg.inc.sync.aligned.u32 256;\n"
       "setmaxnreg.inc.sync.aligned.u32 256;\nbra L;\n",
       "E6", ""},
  };
  for (const Attack& a : attacks) Try(a);
}

TEST(Attacks, Matrices) {
  EMULATOR_ONLY();
  const Attack attacks[] = {
      {"ldmatrix behind the end",
       "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r5, %r6, %r7, %r8}, [%r0+262144];\n", "E642",
       ""},
      {"ldmatrix of a huge address",
       "mov.u32 %r5, -16;\nldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r6}, [%r5];\n", "E642", ""},
      {"stmatrix behind the end", "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r0+262128], {%r4};\n",
       "E642", ""},
      {"stmatrix off 16 bytes", "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r0+8], {%r4};\n",
       "E641", ""},
      {"wgmma: A behind the end", Wgmma("0x3fff", "0"), "E646", "descriptor of A"},
      {"wgmma: B's strides", Wgmma("0", "0x3fff3fff0000"), "E646", "descriptor of B"},
      {"wgmma: B's leading offset", Wgmma("0", "0x3fff0000"), "E646", "descriptor of B"},
      {"wgmma: reserved bits", Wgmma("0x3ff0000000000000", "0"), "E646", "reserved"},
      {"wgmma: a base offset", Wgmma("0x000e000000000000", "0"), "E646", "base offset"},
      {"wgmma: all bits", Wgmma("-1", "-1"), "E646", "reserved"},
  };
  for (const Attack& a : attacks) Try(a);
}

// ---- what costs the host without touching it ----

TEST(Attacks, Floods) {
  EMULATOR_ONLY();
  Try({"copies that nobody waits for", "L:\ncp.async.ca.shared.global [%r0], [%d0], 16;\nbra L;\n",
       "E645", ""});
  Try({"bulk stores that nobody waits for",
       "L:\ncp.async.bulk.global.shared::cta.bulk_group [%d0], [%r0], 16;\nbra L;\n", "E645", ""});
  Try({"mbarriers made and unmade",
       "@!%p0 ret;\nL:\nmbarrier.init.shared.b64 [%r1], 1;\nmbarrier.inval.shared.b64 [%r1];\n"
       "bra L;\n",
       "E645", ""});
  Try({"tensor map fences everywhere",
       "@!%p0 ret;\nL:\nfence.proxy.tensormap::generic.acquire.gpu [%d1], 128;\n"
       "add.u64 %d1, %d1, 4096;\nbra L;\n",
       "E6", ""});
  Try({"releases everywhere",
       "L:\nred.release.gpu.global.add.u32 [%d0], 1;\nadd.u64 %d0, %d0, 4;\nbra L;\n", "E640", ""});
  Try({"fences without end", "L:\nfence.sc.gpu;\nbra L;\n", "E645", ""});
}

}  // namespace

}  // namespace tilec::runtime
