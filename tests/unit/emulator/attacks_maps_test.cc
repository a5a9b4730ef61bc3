// Programs that try to get out by tensor maps: forged ones, lawful ones of foreign memory, boxes
// larger than any memory, maps that are none. How an attack is run, and what it must not do, is in
// attacks.h.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "runtime/emulator/judge/finding.h"
#include "tests/unit/emulator/attacks.h"
#include "tests/unit/emulator/harness.h"

namespace tilec::runtime {

namespace {

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

}  // namespace

}  // namespace tilec::runtime
