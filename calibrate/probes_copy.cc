// TMA by size: latency of one copy, and bytes per cycle with several in flight.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "calibrate/probes_internal.h"

namespace tilec::calibrate {

namespace {

constexpr int kRowBytes = 128;               // 64 bf16
constexpr int kDepth = 4;                    // copies in flight
constexpr uint64_t kSmallRows = 16 << 10;    // 2 MB
constexpr uint64_t kMediumRows = 128 << 10;  // 16 MB stay in L2

// Thread 0 drives; row coordinates count boxes so that neither CTAs nor trips meet.
Parts CopyFrame() {
  Parts p;
  p.map = true;
  p.threads = 32;
  p.declare =
      ".reg .u32 %bar, %to, %row, %step, %slot, %phase, %grid, %seed;\n"
      ".reg .pred %done, %lead, %old;\n.reg .b64 %token;\n";
  // One elected lane issues, the whole warp waits: a lone lane in a branch would pay for the
  // branch.
  p.setup = "elect.sync _|%lead, 0xffffffff;\nmov.u32 %grid, %nctaid.x;\nmov.u32 %seed, 0;\n";
  for (int i = 0; i < kDepth; ++i)
    p.setup += fmt::format("@%lead mbarrier.init.shared::cta.b64 [%smem+{}], 1;\n", 8 * i);
  p.setup += "fence.mbarrier_init.release.cluster;\nfence.proxy.async;\n";
  return p;
}

std::string Load(int bytes) {
  return fmt::format(
      "@%lead mbarrier.arrive.expect_tx.shared::cta.b64 %token, [%bar], {};\n"
      "@%lead cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%to], "
      "[%map, {{0, %row}}], [%bar];\n",
      bytes);
}

std::string Wait(const char* label) {
  return fmt::format(
      "{0}:\nmbarrier.try_wait.parity.shared::cta.b64 %done, [%bar], %phase;\n"
      "@!%done bra {0};\n",
      label);
}

// Which boxes the CTAs read: each its own, or 12 at a time, each by 11 of 132 SMs, as the tiles of
// a product are shared.
enum class Sharing { kOwn, kTwelve };

std::string CopyRows(int rows, uint64_t tensor_rows, Sharing sharing, int stride = 1) {
  std::string box;
  switch (sharing) {
    case Sharing::kOwn: box = "mad.lo.u32 %row, %trip, %grid, %cta;\n"; break;
    case Sharing::kTwelve:
      box = "rem.u32 %row, %cta, 12;\nmad.lo.u32 %row, %trip, 12, %row;\n";
      break;
  }
  return box + fmt::format(
                   "mad.lo.u32 %row, %row, {}, %seed;\nand.b32 %row, %row, {};\n"
                   "mul.lo.u32 %row, %row, {};\n",
                   stride, tensor_rows / static_cast<uint64_t>(rows) - 1, rows);
}

// One copy at a time. From L2 the same box again; from HBM always another.
Probe Latency(int rows, bool hbm, Where where, uint64_t large_rows) {
  const int bytes = rows * kRowBytes;
  Parts p = CopyFrame();
  p.shot = !hbm;
  p.setup += "mov.u32 %bar, %smem;\nadd.u32 %to, %smem, 1024;\n";
  // Another start each launch and boxes far apart: nothing that an earlier launch left in L2.
  if (hbm)
    p.setup +=
        "mov.u32 %seed, %globaltimer_lo;\nmul.lo.u32 %seed, %seed, 0x9E3779B1;\n"
        "shr.u32 %seed, %seed, 8;\n";
  const std::string row = hbm ? CopyRows(rows, large_rows, Sharing::kOwn, 97)
                              : fmt::format("mul.lo.u32 %row, %cta, {};\n", rows);
  p.body = row + "and.b32 %phase, %trip, 1;\n" + (hbm ? "" : kBegin) + Load(bytes) + Wait("WAIT") +
           (hbm ? "" : kEnd);
  Probe out = Make(
      fmt::format("tma.load.{}.{}{}", hbm ? "hbm" : "l2", bytes,
                  where == Where::kAllSms ? ".all" : ""),
      fmt::format("TMA load of {} bytes from {}: issue to try_wait", bytes, hbm ? "HBM" : "L2"), p,
      1, 1024 + bytes);
  out.where = where;
  out.box = {rows, hbm ? large_rows : kSmallRows};
  return out;
}

// kDepth copies in flight on every SM.
enum class From { kSharedL2, kOwnL2, kHbm };

Probe Bandwidth(int rows, From from, uint64_t large_rows) {
  const int bytes = rows * kRowBytes;
  Parts p = CopyFrame();
  const uint64_t tensor_rows = from == From::kHbm ? large_rows : std::min(kMediumRows, large_rows);
  const auto slot = [&] {
    return fmt::format(
        "and.b32 %slot, %trip, {};\nmad.lo.u32 %bar, %slot, 8, %smem;\n"
        "mad.lo.u32 %to, %slot, {}, %smem;\nadd.u32 %to, %to, 1024;\n",
        kDepth - 1, bytes);
  };
  p.body = slot() +
           CopyRows(rows, tensor_rows, from == From::kSharedL2 ? Sharing::kTwelve : Sharing::kOwn) +
           fmt::format(
               "setp.lt.u32 %old, %trip, {0};\n@%old bra FREE;\n"
               "sub.u32 %phase, %trip, {0};\nshr.u32 %phase, %phase, {1};\n"
               "and.b32 %phase, %phase, 1;\n",
               kDepth, 2) +
           Wait("WAIT") + "FREE:\n" + Load(bytes);
  // The last ones are waited for after the clock: the same number in both of a slope's runs.
  p.finish =
      "mov.u32 %step, 0;\nDRAIN:\n"
      "sub.u32 %trip, %trips, " +
      fmt::format("{}", kDepth) + ";\nadd.u32 %trip, %trip, %step;\n" + slot() +
      "shr.u32 %phase, %trip, 2;\nand.b32 %phase, %phase, 1;\n" + Wait("LAST") +
      fmt::format(
          "add.u32 %step, %step, 1;\nsetp.lt.u32 %more, %step, {};\n"
          "@%more bra DRAIN;\n",
          kDepth);
  const char* const names[] = {"l2.shared", "l2.own", "hbm"};
  const char* const texts[] = {"boxes of L2 that 11 SMs share", "boxes of L2 of its own", "HBM"};
  const auto which = static_cast<size_t>(from);
  Probe out = Make(fmt::format("tma.load.{}.{}.bytes", names[which], bytes),
                   fmt::format("cycles per TMA load of {} bytes, {} in flight on every SM: {}",
                               bytes, kDepth, texts[which]),
                   p, 1, 1024 + kDepth * bytes);
  out.where = Where::kAllSms;
  out.box = {rows, tensor_rows};
  return out;
}

// Stores of one tile, the next when the last has left shared memory.
Probe Store(int rows, Where where, uint64_t large_rows) {
  const int bytes = rows * kRowBytes;
  Parts p = CopyFrame();
  p.setup += "add.u32 %to, %smem, 1024;\n";
  p.body = CopyRows(rows, large_rows, Sharing::kOwn) +
           "@%lead cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%map, {0, %row}], "
           "[%to];\n"
           "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 1;\n";
  p.finish = "cp.async.bulk.wait_group 0;\n";
  Probe out = Make(fmt::format("tma.store.{}{}", bytes, where == Where::kAllSms ? ".all" : ""),
                   fmt::format("cycles per TMA store of {} bytes", bytes), p, 1, 1024 + bytes);
  out.where = where;
  out.box = {rows, large_rows};
  return out;
}

}  // namespace

void AddCopyProbes(const ir::Target& machine, std::vector<Probe>& to, uint64_t large_rows) {
  std::vector<Probe> copies;
  for (int rows : {8, 64, 128, 256})
    copies.push_back(Latency(rows, false, Where::kOneSm, large_rows));
  for (int rows : {128, 256}) copies.push_back(Latency(rows, false, Where::kAllSms, large_rows));
  for (int rows : {64, 256}) copies.push_back(Latency(rows, true, Where::kOneSm, large_rows));
  for (From from : {From::kSharedL2, From::kOwnL2, From::kHbm})
    copies.push_back(Bandwidth(256, from, large_rows));
  copies.push_back(Store(128, Where::kOneSm, large_rows));
  copies.push_back(Store(128, Where::kAllSms, large_rows));
  // As compiled programs have it: a card without clusters makes a detour for the cluster's space.
  const std::string to_cluster = ".shared::cluster.global.", to_cta = ".shared::cta.global.";
  for (Probe& p : copies) {
    const size_t at = machine.Has("copies_to_cta") ? p.ptx.find(to_cluster) : std::string::npos;
    if (at != std::string::npos) p.ptx.replace(at, to_cluster.size(), to_cta);
    to.push_back(std::move(p));
  }
}

}  // namespace tilec::calibrate
