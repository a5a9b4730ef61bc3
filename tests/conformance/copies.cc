// Asynchronous copies. A copy brings seeded memory into a tile and every thread dumps its part of
// it, or the other way round. Waits ask a limited number of times.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "tests/conformance/case.h"

namespace tilec::conformance {
namespace {

constexpr uint32_t kTile = 16384;

Case StartCopy(const Variant& v, const std::string& suffix = "") {
  Case c;
  c.name = v.Text() + suffix;
  c.ctas = 1;
  c.threads = 128;
  c.out_bytes = kTile / 128;
  c.declarations = fmt::format(
      ".shared .align 1024 .b8 tile[{}];\n.shared .align 8 .b64 bar;\n"
      ".reg .b32 %s, %a, %b, %i, %x<4>;\n.reg .b64 %gm, %m0, %ga;\n.reg .pred %p, %q;\n",
      kTile);
  // The tile starts out as 0x11 everywhere.
  c.body =
      "mov.u32 %s, tile;\nmov.u32 %b, bar;\nmov.u64 %gm, %mem;\nmov.u32 %i, 0;\n"
      "mad.lo.u32 %a, %t, 128, %s;\nmov.b32 %x0, 0x11111111;\n"
      "F:\nst.shared.v4.b32 [%a], {%x0, %x0, %x0, %x0};\nadd.u32 %a, %a, 16;\n"
      "add.u32 %i, %i, 1;\nsetp.lt.u32 %p, %i, 8;\n@%p bra F;\n"
      "fence.proxy.async.shared::cta;\nbar.sync 0;\n";
  return c;
}

constexpr const char* kDump =
    "bar.sync 0;\nmov.u32 %i, 0;\nmad.lo.u32 %a, %t, 128, %s;\n"
    "E:\nld.shared.v4.b32 {%x0, %x1, %x2, %x3}, [%a];\n"
    "st.global.v4.b32 [%out], {%x0, %x1, %x2, %x3};\nadd.u32 %a, %a, 16;\nadd.u64 %out, %out, 16;\n"
    "add.u32 %i, %i, 1;\nsetp.lt.u32 %p, %i, 8;\n@%p bra E;\n";
// Everybody waits for phase 0; who gives up leaves a mark in the tile.
constexpr const char* kWait =
    "mov.u32 %i, 0;\nW:\nmbarrier.try_wait.parity.shared::cta.b64 %p, [%b], 0;\n@%p bra X;\n"
    "add.u32 %i, %i, 1;\nsetp.lt.u32 %q, %i, 2000;\n@%q bra W;\n"
    "mov.b32 %x0, 0xdeaddead;\nst.shared.b32 [%s], %x0;\nX:\n";
// The tile filled from memory by ordinary stores.
constexpr const char* kFill =
    "mov.u32 %i, 0;\nmad.lo.u32 %a, %t, 128, %s;\nmul.wide.u32 %zw, %t, 128;\n"
    "add.u64 %zw, %zw, %mem;\nadd.u64 %zw, %zw, 32768;\n"
    "G:\nld.global.v4.b32 {%x0, %x1, %x2, %x3}, [%zw];\n"
    "st.shared.v4.b32 [%a], {%x0, %x1, %x2, %x3};\nadd.u32 %a, %a, 16;\nadd.u64 %zw, %zw, 16;\n"
    "add.u32 %i, %i, 1;\nsetp.lt.u32 %p, %i, 8;\n@%p bra G;\n"
    "fence.proxy.async.shared::cta;\nbar.sync 0;\n";
constexpr const char* kFinishStore =
    "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\nJ:\nbar.sync 0;\n";

std::string Init(uint32_t bytes, bool cluster) {
  std::string out = fmt::format(
      "setp.ne.u32 %q, %t, 0;\n@%q bra I;\nmbarrier.init.shared::cta.b64 [%b], 1;\n"
      "fence.mbarrier_init.release.cluster;\nmbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], "
      "{};\n"
      "I:\n",
      bytes);
  return out + (cluster ? "barrier.cluster.arrive;\nbarrier.cluster.wait;\n" : "bar.sync 0;\n");
}

void OldCopies(const Variant& v, std::vector<Case>* out) {
  if (v.Has("mbarrier")) {
    if (v.Has("shared::cta")) return;
    Case c = StartCopy(v);
    c.body += fmt::format(
        "setp.ne.u32 %q, %t, 0;\n@%q bra I;\nmbarrier.init.shared::cta.b64 [%b], {};\n"
        "I:\nbar.sync 0;\n",
        v.Has("noinc") ? 128 : 1);
    c.body +=
        "mad.lo.u32 %a, %t, 16, %s;\nmul.wide.u32 %zw, %t, 16;\nadd.u64 %zw, %zw, %mem;\n"
        "cp.async.ca.shared.global [%a], [%zw], 16;\n" +
        v.Text() + " [%b];\n";
    if (!v.Has("noinc"))
      c.body +=
          "bar.sync 0;\nsetp.ne.u32 %q, %t, 0;\n@!%q mbarrier.arrive.shared::cta.b64 _, [%b];\n";
    c.body += std::string(kWait) + kDump;
    out->push_back(std::move(c));
    return;
  }
  const bool group = v.Has("commit_group") || v.Has("wait_group") || v.Has("wait_all");
  for (int size : {4, 8, 16}) {
    if (v.Has("cg") && size != 16) continue;
    if (group && size != 16) continue;
    for (int source : {-1, 0, size / 2}) {
      if (group && source >= 0) continue;
      Case c =
          StartCopy(v, group ? "" : fmt::format(" {} of {}", source < 0 ? size : source, size));
      c.body += fmt::format(
          "mad.lo.u32 %a, %t, 16, %s;\nmul.wide.u32 %zw, %t, 16;\n"
          "add.u64 %zw, %zw, %mem;\n{} [%a], [%zw], {}{};\n",
          group ? "cp.async.ca.shared.global" : v.Text(), size,
          source < 0 ? "" : fmt::format(", {}", source));
      c.body += "cp.async.commit_group;\n";
      c.body += v.Has("wait_all") ? "cp.async.wait_all;\n" : "cp.async.wait_group 0;\n";
      c.body += kDump;
      out->push_back(std::move(c));
    }
  }
}

void Bulk(const Variant& v, std::vector<Case>* out) {
  if (v.Has("prefetch")) {
    Case c = StartCopy(v);
    c.body += v.Text() + " [%gm], 1024;\n" + kDump;
    if (!v.Has("tensor")) out->push_back(std::move(c));
    return;
  }
  const std::string text = v.Text();
  if (v.opcode == "cp" && v.mods[1] == "bulk" && v.mods[2] == "shared::cluster" &&
      v.Has("shared::cta")) {
    Case c = StartCopy(v);  // to the other CTA of the cluster
    c.ctas = c.cluster = 2;
    c.body += kFill + Init(4096, true) +
              "mov.u32 %x0, %cluster_ctarank;\nxor.b32 %x0, %x0, 1;\n"
              "setp.ne.u32 %q, %t, 0;\n@%q bra J;\nadd.u32 %a, %s, 8192;\n"
              "mapa.shared::cluster.u32 %a, %a, %x0;\nmapa.shared::cluster.u32 %x1, %b, %x0;\n" +
              text + " [%a], [%s], 4096, [%x1];\nJ:\n" + kWait + kDump +
              "barrier.cluster.arrive;\nbarrier.cluster.wait;\n";
    out->push_back(std::move(c));
    return;
  }
  if (v.Has("mbarrier::complete_tx::bytes")) {
    Case c = StartCopy(v);
    const bool multi = v.Has("multicast::cluster");
    if (multi) c.ctas = c.cluster = 2;
    c.body += Init(2064, multi);
    c.body += "mov.u32 %x0, %cluster_ctarank;\nor.b32 %x0, %x0, %t;\n";
    c.body += std::string("setp.ne.u32 %q, ") + (multi ? "%x0" : "%t") + ", 0;\n@%q bra J;\n";
    c.body += "add.u32 %a, %s, 32;\nadd.u64 %gm, %gm, 48;\n";
    if (multi) c.declarations += ".reg .b16 %mask;\n", c.body += "mov.b16 %mask, 3;\n";
    c.body +=
        text + " [%a], [%gm], 2064, [%b]" + (multi ? ", %mask" : "") + ";\nJ:\n" + kWait + kDump;
    if (multi) c.body += "barrier.cluster.arrive;\nbarrier.cluster.wait;\n";
    out->push_back(std::move(c));
    return;
  }
  Case c = StartCopy(v);
  c.uses_memory = true;
  c.body += kFill;
  c.body += "setp.ne.u32 %q, %t, 0;\n@%q bra J;\nadd.u64 %gm, %gm, 64;\n" + text +
            " [%gm], [%s], 4096;\n" + kFinishStore;
  out->push_back(std::move(c));
}

void Groups(const Variant& v, std::vector<Case>* out) {
  Case c = StartCopy(v);
  c.uses_memory = true;
  c.body += kFill;
  c.body +=
      "setp.ne.u32 %q, %t, 0;\n@%q bra J;\n"
      "cp.async.bulk.global.shared::cta.bulk_group [%gm], [%s], 4096;\n"
      "cp.async.bulk.commit_group;\n";
  c.body += v.Has("wait_group") ? v.Text() + " 0;\n" : "";
  c.body += "cp.async.bulk.wait_group 0;\nJ:\nbar.sync 0;\n";
  out->push_back(std::move(c));
}

struct TensorTest {
  std::string dtype = "bf16";
  int swizzle = 0;
  std::string where = "inside";
  bool nan = false;
  int offset = 0;  // of the tile, bytes
  int narrow = 0;  // bytes of a row of the box, if less than the swizzle spans
  int rows = 4;    // of the box
};

int Bytes(const std::string& dtype) {
  const int bits = TypeBits(dtype);
  return bits / 8;
}

void TensorCase(const Variant& v, int rank, const TensorTest& test, std::vector<Case>* out) {
  const int size = Bytes(test.dtype), full = test.swizzle == 0 ? 64 : test.swizzle,
            row = test.narrow != 0 ? test.narrow : full;
  const uint64_t dims[5] = {static_cast<uint64_t>(128 / size), 10, 5, 3, 2};
  const uint32_t box[5] = {static_cast<uint32_t>(row / size), static_cast<uint32_t>(test.rows), 3,
                           2, 2};
  runtime::TensorMapDesc map;
  map.dtype = test.dtype;
  map.swizzle_bytes = test.swizzle;
  map.fill_nan = test.nan;
  uint64_t stride = 128;
  uint32_t bytes = static_cast<uint32_t>(size);
  std::string coords;
  for (int k = 0; k < rank; ++k) {
    map.dims.push_back(dims[k]);
    map.box.push_back(box[k]);
    if (k > 0) map.strides_bytes.push_back(stride);
    if (k > 0) stride *= dims[k];
    bytes *= box[k];
    int at = k == 0 ? 0 : 1;
    if (test.where == "low") at = k == 0 ? -static_cast<int>(box[0]) / 2 : -1;
    if (test.where == "high")
      at = static_cast<int>(dims[k]) - (k == 0 ? static_cast<int>(box[0]) / 4 : 1);
    if (test.where == "far") at = k == 0 ? -100000 : 0;
    coords += fmt::format("{}{}", k > 0 ? ", " : "", at);
  }
  std::string suffix = fmt::format(" {} swizzle {} {}", test.dtype, test.swizzle, test.where);
  if (test.narrow != 0) suffix += fmt::format(" narrow {}", test.narrow);
  if (test.rows != 4) suffix += fmt::format(" rows {}", test.rows);
  if (test.nan) suffix += " nan";
  if (test.offset != 0) suffix += fmt::format(" at {}", test.offset);
  Case c = StartCopy(v, suffix);
  c.maps.push_back(map);
  c.body += "mov.b64 %m0, map0;\ncvta.param.u64 %m0, %m0;\n";
  c.body += fmt::format("add.u32 %a, %s, {};\n", test.offset);
  const std::string text = v.Text();
  if (v.Has("prefetch")) {
    c.body += fmt::format("{} [%m0, {{{}}}];\n", text, coords) + kDump;
    out->push_back(std::move(c));
    return;
  }
  if (v.Has("mbarrier::complete_tx::bytes")) {
    const bool multi = v.Has("multicast::cluster");
    if (multi) c.ctas = c.cluster = 2;
    c.body += Init(bytes, multi) + "mov.u32 %x0, %cluster_ctarank;\nor.b32 %x0, %x0, %t;\n";
    c.body += std::string("setp.ne.u32 %q, ") + (multi ? "%x0" : "%t") + ", 0;\n@%q bra J;\n";
    if (multi) c.declarations += ".reg .b16 %mask;\n", c.body += "mov.b16 %mask, 3;\n";
    c.body += fmt::format("add.u32 %a, %s, {};\n", test.offset);
    c.body +=
        fmt::format("{} [%a], [%m0, {{{}}}], [%b]{};\nJ:\n", text, coords, multi ? ", %mask" : "") +
        kWait + kDump;
    if (multi) c.body += "barrier.cluster.arrive;\nbarrier.cluster.wait;\n";
  } else {
    c.uses_memory = true;
    c.body += kFill;
    c.body += fmt::format("add.u32 %a, %s, {};\n", test.offset);
    c.body +=
        fmt::format("setp.ne.u32 %q, %t, 0;\n@%q bra J;\n{} [%m0, {{{}}}], [%a];\n", text, coords) +
        kFinishStore;
  }
  out->push_back(std::move(c));
}

void Tensor(const Variant& v, std::vector<Case>* out) {
  int rank = 0;
  for (int k = 1; k <= 5; ++k)
    if (v.Has(fmt::format("{}d", k))) rank = k;
  const bool reduce = v.opcode == "cp" && v.mods[0] == "reduce";
  if (v.Has("L2::128B") || v.Has("L2::evict_last")) return;  // needs a cache policy operand
  if (reduce) {
    if (rank > 2) return;
    const bool bits = v.Has("and") || v.Has("or") || v.Has("xor");
    const bool counts = v.Has("inc") || v.Has("dec");
    std::vector<std::string> types = {"u32"};
    if (!bits && !counts) types = {"u32", "s32", "f16", "bf16"};
    if (bits || v.Has("add") || v.Has("min") || v.Has("max")) types.emplace_back("u64");
    if (v.Has("min") || v.Has("max")) types.emplace_back("s64");
    if (v.Has("add")) types.emplace_back("f32");
    // Not from below: there a copy out of shared memory faults.
    for (const std::string& type : types)
      TensorCase(v, rank, {.dtype = type, .where = "high"}, out);
    return;
  }
  for (const char* where : {"inside", "low", "high", "far"})
    for (int swizzle : {0, 32, 64, 128})
      TensorCase(v, rank, {.swizzle = swizzle, .where = where}, out);
  if (rank != 2 || v.Has("prefetch")) return;
  for (const char* type : {"u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f64", "tf32"})
    TensorCase(v, rank, {.dtype = type, .swizzle = 64, .where = "low"}, out);
  for (const char* type : {"f16", "bf16", "f32", "f64", "tf32"})
    TensorCase(v, rank, {.dtype = type, .where = "low", .nan = true}, out);
  for (int swizzle : {32, 64, 128}) {
    TensorCase(v, rank, {.swizzle = swizzle, .where = "inside", .offset = 384}, out);
    TensorCase(v, rank, {.swizzle = swizzle, .where = "inside", .narrow = swizzle / 2}, out);
    for (int narrow : {16, 32, 48, 64, 112})
      for (int offset : {0, 384})
        if (narrow < swizzle)
          TensorCase(v, rank,
                     {.swizzle = swizzle,
                      .where = "inside",
                      .offset = offset,
                      .narrow = narrow,
                      .rows = 8},
                     out);
  }
}

}  // namespace

void CopyCases(const Variant& v, std::vector<Case>* out) {
  if (v.opcode != "cp") return;
  const bool bulk = v.Has("bulk");
  if (!bulk) return OldCopies(v, out);
  if (v.Has("tensor")) return Tensor(v, out);
  if (v.Has("commit_group") || v.Has("wait_group")) return Groups(v, out);
  if (v.Has("L2::128B") || v.Has("L2::evict_last")) return;
  Bulk(v, out);
}

}  // namespace tilec::conformance
