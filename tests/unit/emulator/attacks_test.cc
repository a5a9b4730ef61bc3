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
#include "tests/unit/emulator/harness.h"

namespace tilec::runtime {
namespace {

constexpr uint64_t kBytes = 64 << 10;  // of each buffer

struct Attack {
  std::string name, body;
  std::string code;  // "": it may run to its end, as long as nothing is touched
  std::string says;
  uint32_t cluster = 1;
};

const char* const kDeclarations =
    ".reg .pred %p<8>;\n.reg .b16 %h<8>;\n.reg .b32 %r<40>;\n.reg .b64 %d<24>;\n"
    ".reg .f32 %f<140>;\n"
    ".shared .align 1024 .b8 tile[32768];\n.shared .align 8 .b64 bar[4];\n"
    ".local .align 16 .b8 depot[64];\n"
    // %d0 the buffer, %d1 memory of the host, %d2 a tensor map, %r0 tile, %r1 bar, %r2 the lane
    "ld.param.u64 %d0, [mem];\nld.param.u64 %d1, [host];\nld.param.u64 %d2, [map];\n"
    "mov.u32 %r0, tile;\nmov.u32 %r1, bar;\nmov.u32 %r2, %tid.x;\nmov.u32 %r3, 1;\n"
    "mov.u32 %r4, 0;\nsetp.eq.u32 %p0, %r2, 0;\n";

std::string Module(const std::string& body) {
  return std::string(".version 8.6\n.target sm_90a\n.address_size 64\n.const .b32 fixed[4];\n") +
         ".visible .entry k(.param .u64 mem, .param .u64 host, .param .u64 map)\n{\n" +
         kDeclarations + body + "ret;\n}\n";
}

// Runs it in one way; what the emulator said.
std::string Run(const Attack& a, const TensorMap& map, Landing landing, bool checked,
                const std::vector<uint8_t>& host) {
  EmulatorOptions o;
  o.memory_limit_bytes = 64 << 20;
  o.instruction_limit = 60'000;
  o.landing = landing;
  o.threads = 1;
  if (checked) {
    o.check = EmulatorOptions::Check::kOn;
    o.report = std::make_shared<judge::Report>();
  }
  Emu emu(o);
  if (!emu.Load(Module(a.body))) return emu.Text();
  const uint64_t mem = emu.Upload(std::vector<uint8_t>(kBytes, 1));
  const uint64_t at = emu.Upload(std::vector<uint8_t>(map.bytes, map.bytes + sizeof map.bytes));
  LaunchConfig config;
  config.block[0] = 128;
  config.cluster[0] = config.grid[0] = a.cluster;
  const bool ok =
      emu.Launch("k", config,
                 {KernelArg::Of(mem), KernelArg::Of(reinterpret_cast<uint64_t>(host.data())),
                  KernelArg::Of(at)});
  return ok ? "" : emu.Text();
}

void Try(const Attack& a, const TensorMap& map = {}) {
  SCOPED_TRACE(a.name);
  std::vector<uint8_t> host(kBytes, 0x5a);
  for (const auto& [landing, checked] :
       {std::pair{Landing::kEarly, false}, std::pair{Landing::kLate, false},
        std::pair{Landing::kEarly, true}, std::pair{Landing::kPoison, true}}) {
    const std::string text = Run(a, map, landing, checked, host);
    EXPECT_NE(text.find(a.code), std::string::npos) << text;
    EXPECT_NE(text.find(a.says), std::string::npos) << text;
    EXPECT_EQ(text.empty(), a.code.empty()) << text;
    ASSERT_EQ(std::count(host.begin(), host.end(), 0x5a), static_cast<int64_t>(kBytes));
  }
}

// ---- tensor maps that a program wrote itself ----

// The 128 bytes as runtime/emulator/tensor_map.cc lays them out: a forger can read.
struct Forged {
  uint64_t magic = 0x70616d6520656c69ull, checksum = 0, base = 0, strides[4] = {}, small = 0;
  uint32_t dims_less_one[5] = {};
  uint16_t box[5] = {1, 1, 1, 1, 1};
  uint8_t element_strides[5] = {1, 1, 1, 1, 1};
  uint8_t pad[17] = {};
  uint64_t tail = 0;

  TensorMap Map() const {
    Forged f = *this;
    f.checksum = 0;
    uint8_t bytes[128];
    memcpy(bytes, &f, sizeof bytes);
    uint64_t h = 0xcbf29ce484222325ull;
    for (size_t k = 0; k < 120; ++k) h = (h ^ bytes[k]) * 0x100000001b3ull;
    f.checksum = h & ~(1ull << 21);
    TensorMap map;
    memcpy(map.bytes, &f, sizeof map.bytes);
    return map;
  }
};
static_assert(sizeof(Forged) == 128);

uint64_t Small(uint64_t element, uint64_t rank, uint64_t swizzle = 0, uint64_t above = 0) {
  return element | rank << 8 | swizzle << 16 | above << 24;
}

// A lawful map of 64 × 64 bytes but for its base, which is memory of the host.
Forged Lawful(uint64_t rank = 2) {
  Forged f;
  static const std::vector<uint8_t> host(kBytes + 16, 0x5a);
  f.base = (reinterpret_cast<uint64_t>(host.data()) + 15) / 16 * 16;
  f.small = Small(0, rank);
  for (uint64_t k = 0; k < rank; ++k) f.dims_less_one[k] = 63, f.box[k] = k < 2 ? 64 : 1;
  for (uint64_t k = 1; k < rank; ++k) f.strides[k - 1] = 64;
  return f;
}

std::string Coordinates(uint64_t rank, const char* first = "%r4") {
  std::string list = first;
  for (uint64_t k = 1; k < rank; ++k) list += ", %r4";
  return list;
}
std::string Load(uint64_t rank, const char* first = "%r4") {
  return "@%p0 mbarrier.init.shared.b64 [%r1], 1;\nbar.sync 0;\n@%p0 bra GO;\nret;\nGO:\n" +
         fmt::format(
             "cp.async.bulk.tensor.{}d.shared::cluster.global.mbarrier::complete_tx::bytes [%r0], "
             "[%d2, {{{}}}], [%r1];\n",
             rank, Coordinates(rank, first));
}
std::string Store(uint64_t rank) {
  return fmt::format(
      "@!%p0 ret;\ncp.async.bulk.tensor.{}d.global.shared::cta.bulk_group [%d2, {{{}}}], [%r0];\n"
      "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n",
      rank, Coordinates(rank));
}
std::string Reduce(uint64_t rank, const char* op) {
  return fmt::format(
      "@!%p0 ret;\ncp.reduce.async.bulk.tensor.{}d.global.shared::cta.{}.bulk_group [%d2, {{{}}}], "
      "[%r0];\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n",
      rank, op, Coordinates(rank));
}

TEST(Attacks, ForgedTensorMaps) {
  EMULATOR_ONLY();
  struct Case {
    const char* name;
    const char* says;
    uint64_t rank;
    void (*change)(Forged&);
  };
  const Case cases[] = {
      {"rank 0", "rank 0", 1, [](Forged& f) { f.small = Small(0, 0); }},
      {"rank 6", "rank 6", 5, [](Forged& f) { f.small = Small(0, 6); }},
      {"rank 255", "rank 255", 5, [](Forged& f) { f.small = Small(0, 255); }},
      {"element 15", "element type 15", 2, [](Forged& f) { f.small = Small(15, 2); }},
      {"element 255", "element type 255", 2, [](Forged& f) { f.small = Small(255, 2); }},
      {"swizzle 16", "swizzle of 16", 2, [](Forged& f) { f.small = Small(0, 2, 16); }},
      {"swizzle 255", "swizzle of 255", 2, [](Forged& f) { f.small = Small(0, 2, 255); }},
      {"NaN for bytes", "NaN", 2, [](Forged& f) { f.small = Small(0, 2, 0, 1); }},
      {"reserved", "reserved bits", 2, [](Forged& f) { f.small = Small(0, 2, 0, 2); }},
      {"box 0", "box of 0 elements in dimension 1", 2, [](Forged& f) { f.box[1] = 0; }},
      {"box 0 inside", "box of 0 elements in dimension 0", 2, [](Forged& f) { f.box[0] = 0; }},
      {"box 4096 of bf16", "box of 4096", 2,
       [](Forged& f) { f.box[0] = 4096, f.small = Small(9, 2); }},
      {"box 257", "box of 257", 2, [](Forged& f) { f.box[1] = 257; }},
      {"box 65535", "box of 65535", 2, [](Forged& f) { f.box[1] = 65535; }},
      {"a box beyond the rank", "box of 2 elements in dimension 2", 2,
       [](Forged& f) { f.box[2] = 2; }},
      {"row of 17 bytes", "rows of 17", 2, [](Forged& f) { f.box[0] = 17; }},
      {"rows wider than the swizzle", "rows of 64", 2,
       [](Forged& f) { f.small = Small(0, 2, 32); }},
      {"element stride 0", "element stride 0", 2, [](Forged& f) { f.element_strides[1] = 0; }},
      {"element stride 9", "element stride 9", 2, [](Forged& f) { f.element_strides[1] = 9; }},
      {"element stride inside", "element stride 2 in dimension 0", 2,
       [](Forged& f) { f.element_strides[0] = 2; }},
      {"base off 16", "not on 16 bytes", 2, [](Forged& f) { f.base += 8; }},
      {"stride off 16", "stride of 65", 2, [](Forged& f) { f.strides[0] = 65; }},
      {"stride 2^40", "stride of 1099511627776", 2, [](Forged& f) { f.strides[0] = 1ull << 40; }},
      {"dims beyond the rank", "4294967296 elements in dimension 4", 2,
       [](Forged& f) { f.dims_less_one[4] = ~0u; }},
  };
  for (const Case& c : cases) {
    Forged f = Lawful(c.rank);
    c.change(f);
    for (const std::string& body : {Load(c.rank), Store(c.rank), Reduce(c.rank, "add")})
      Try({c.name, body, "E646", c.says}, f.Map());
  }
}

TEST(Attacks, LawfulMapsOfForeignMemory) {
  EMULATOR_ONLY();
  Try({"the host's memory read", Load(2), "E640", "outside"}, Lawful().Map());
  Try({"the host's memory written", Store(2), "E640", "outside"}, Lawful().Map());
  Forged words = Lawful();
  words.small = Small(4, 2);  // u32
  words.box[0] = 16;
  Try({"the host's memory reduced", Reduce(2, "add"), "E640", "outside"}, words.Map());
  Forged ends = Lawful();
  ends.base = ~0ull / 16 * 16;
  Try({"the end of the address space", Load(2), "E640", ""}, ends.Map());
  Forged far = Lawful();
  far.strides[0] = (1ull << 40) - 16;
  far.dims_less_one[1] = ~0u;
  Try({"strides that wrap around", Load(2), "E640", ""}, far.Map());
  Forged doubles = Lawful();
  doubles.small = Small(11, 2);
  doubles.box[0] = 8;
  Try({"a reduction of doubles", Reduce(2, "add"), "E646", "not defined"}, doubles.Map());
  Try({"a reduction of bytes", Reduce(2, "min"), "E646", "not defined"}, Lawful().Map());
}

// 256^5 elements of 8 bytes: the product is 0 in 32 bits. The encoder takes it, hardware has no
// rule against it either.
TEST(Attacks, BoxesLargerThanAnyMemory) {
  EMULATOR_ONLY();
  for (uint64_t rank : {uint64_t{4}, uint64_t{5}}) {
    Forged f = Lawful(rank);
    f.small = Small(6, rank);
    for (uint64_t k = 0; k < rank; ++k) f.box[k] = 256, f.dims_less_one[k] = 255;
    Try({"load", Load(rank), "E642", "outside"}, f.Map());
    Try({"store", Store(rank), "E642", "outside"}, f.Map());
    Try({"reduce", Reduce(rank, "or"), "E642", "outside"}, f.Map());
  }
}

TEST(Attacks, MapsThatAreNone) {
  EMULATOR_ONLY();
  Try({"zeros", Load(2), "E646", "not made by this device"});
  Forged f = Lawful();
  TensorMap damaged = f.Map();
  damaged.bytes[20] ^= 1;
  Try({"a bit flipped", Load(2), "E646", "not made by this device"}, damaged);
  Try({"another rank", Load(3), "E646", "of rank 2"}, f.Map());
  Try({"a coordinate off 16 bytes", Load(2, "%r3"), "E646", ""}, f.Map());
  const std::string use = Load(2);
  Try({"in the host's memory", "mov.u64 %d2, %d1;\n" + use, "E6", ""});
  Try({"in shared memory", "cvta.shared.u64 %d2, 0;\n" + use, "E6", ""});
  Try({"in local memory", "cvta.local.u64 %d2, 0;\n" + use, "E6", ""});
  Try({"off 64 bytes", "add.u64 %d2, %d2, 8;\n" + use, "E641", ""});
  Try({"behind its end", "add.u64 %d2, %d2, 64;\n" + use, "E640", ""});
  Try({"fenced in the host's memory",
       "fence.proxy.tensormap::generic.acquire.gpu [%d1], 128;\nmov.u64 %d2, %d1;\n" + use, "E6",
       ""});
  Try({"fetched from the host's memory", "prefetch.tensormap [%d1];\n", "E6", ""});
}

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
