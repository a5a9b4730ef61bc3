// tcgen05: products of tensor memory by kind and shape, alone and by pairs of CTAs, loads, stores
// and copies of tensor memory. Operands are K-major under the 128-byte swizzle. Contents do not
// matter to the cycle count. Layouts and descriptors: PTX ISA 9.1, section 9.7.16.
//
// Nobody of this project has run these on the hardware. The tests run them on the emulator, so
// what they do is right; what they take is for whoever has the card.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "calibrate/probes_internal.h"

namespace tilec::calibrate {

namespace {

// Shared memory of a probe: three mbarriers and the address of tensor memory, then the operands.
constexpr int kHead = 1024, kBytesA = 128 * 128, kBytesB = 256 * 128;
constexpr int kBytes = kHead + kBytesA + kBytesB;
constexpr int kSlot = 24;
// Columns: the sum from 0, then A (bf16, K = 16: 8 columns), then the scales of A and of B.
constexpr int kColumns = 512, kColumnsOfA = 256, kScalesOfA = 320, kScalesOfB = 352;
constexpr int kProductsATurn = 4;

struct TensorKind {
  ir::DType dtype;
  const char* name;
  const char* kind;
  uint32_t task;     // the instruction descriptor without M and N
  uint32_t rows_at;  // of M / 128 = 1 in it
  bool scaled;
};
constexpr TensorKind kKinds[] = {
    {ir::DType::kBF16, "bf16", "f16", 0x490, 0x08000000, false},
    {ir::DType::kTF32, "tf32", "tf32", 0x910, 0x08000000, false},
    {ir::DType::kE4M3, "e4m3", "f8f6f4", 0x010, 0x08000000, false},
    {ir::DType::kI8, "i8", "i8", 0x4A0, 0x08000000, false},
    {ir::DType::kE4M3, "mxf8", "mxf8f6f4.block_scale.scale_vec::1X", 0x00800000, 0x08000000, true},
    {ir::DType::kE4M3, "nvf4", "mxf4nvf4.block_scale.scale_vec::4X", 0x00000480, 0x08000000, true},
};
const TensorKind& kBf16 = kKinds[0];

uint32_t Task(const TensorKind& kind, int n, bool pair = false) {
  return kind.task + (pair ? 2 : 1) * kind.rows_at + (static_cast<uint32_t>(n / 8) << 17);
}

std::string TensorDescriptor(const std::string& to, int offset) {
  return fmt::format(
      "add.u32 %taddress, %tsmem, {1};\nshr.u32 %taddress, %taddress, 4;\n"
      "and.b32 %taddress, %taddress, 0x3FFF;\ncvt.u64.u32 {0}, %taddress;\n"
      "or.b64 {0}, {0}, 0x4000404000010000;\n",
      to, offset);
}

// One thread issues it. `a`: "%ta", or in brackets where A lies in tensor memory.
std::string TensorProduct(const TensorKind& kind, const std::string& a, bool pair = false) {
  return fmt::format(
      "@%tlead tcgen05.mma.cta_group::{}.kind::{} [%tmem], {}, %tb, %task, {}%tyes;\n",
      pair ? 2 : 1, kind.kind, a, kind.scaled ? "[%tsa], [%tsb], " : "");
}
std::string Commit(bool pair = false) {
  return fmt::format(
      "@%tlead tcgen05.commit.cta_group::{}.mbarrier::arrive::one.shared::cluster.b64 [%tbar];\n",
      pair ? 2 : 1);
}
std::string TensorWait(const std::string& label) {
  return fmt::format(
      "{0}:\nmbarrier.try_wait.parity.shared::cta.b64 %tdone, [%tbar], %tphase;\n@!%tdone bra "
      "{0};\n",
      label);
}
// Barrier and phase of the turn that `turn` counts: two barriers in turn.
std::string TurnOf(const std::string& turn) {
  return fmt::format(
      "and.b32 %tbar, {0}, 1;\nmad.lo.u32 %tbar, %tbar, 8, %tsmem;\nshr.u32 %tphase, {0}, 1;\n"
      "and.b32 %tphase, %tphase, 1;\n",
      turn);
}

// Tensor memory is got by warp 0 and given back by it when all threads are done; barriers are set
// up, and %tlead is one thread of each warp.
Parts TensorFrame(int threads, int offset = 0, bool pair = false) {
  const int group = pair ? 2 : 1;
  Parts p;
  p.threads = threads;
  p.cluster = group;
  p.declare =
      ".reg .b32 %tmem, %tsmem, %taddress, %tbar, %tphase, %task, %tturn, %tsa, %tsb;\n"
      ".reg .b64 %ta, %tb;\n.reg .pred %tlead, %tdone, %tyes, %tother, %tearly;\n";
  p.setup = fmt::format(
      "add.u32 %tsmem, %smem, {};\nelect.sync _|%tlead, 0xffffffff;\nsetp.eq.u32 %tyes, 0, 0;\n"
      "setp.ne.u32 %tother, %warp, 0;\n@%tother bra GOT;\n",
      offset);
  for (int i = 0; i < 3; ++i)
    p.setup += fmt::format("@%tlead mbarrier.init.shared::cta.b64 [%tsmem+{}], 1;\n", 8 * i);
  p.setup += fmt::format(
      "fence.mbarrier_init.release.cluster;\nadd.u32 %taddress, %tsmem, {1};\n"
      "tcgen05.alloc.cta_group::{0}.sync.aligned.shared::cta.b32 [%taddress], {2};\n"
      "tcgen05.relinquish_alloc_permit.cta_group::{0}.sync.aligned;\n"
      "GOT:\ntcgen05.fence::before_thread_sync;\nbar.sync 0;\n{3}"
      "tcgen05.fence::after_thread_sync;\nld.shared.u32 %tmem, [%tsmem+{1}];\n"
      "add.u32 %tsa, %tmem, {4};\nadd.u32 %tsb, %tmem, {5};\n",
      group, kSlot, kColumns,
      pair ? "barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n"
           : "",
      kScalesOfA, kScalesOfB);
  p.setup += TensorDescriptor("%ta", kHead) + TensorDescriptor("%tb", kHead + kBytesA) +
             fmt::format("mov.u32 %task, {};\n", Task(kBf16, 256));
  p.last = fmt::format(
      "tcgen05.fence::before_thread_sync;\nbar.sync 0;\n{}tcgen05.fence::after_thread_sync;\n"
      "setp.ne.u32 %tother, %warp, 0;\n@%tother bra GIVEN;\n"
      "tcgen05.dealloc.cta_group::{}.sync.aligned.b32 %tmem, {};\nGIVEN:\n",
      pair ? "barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n"
           : "",
      group, kColumns);
  return p;
}

// What `issue` issues, committed to two barriers in turn and awaited when two turns old: `turn`
// counts.
std::string InTurns(const std::string& issue, const std::string& turn, const std::string& label,
                    bool pair = false) {
  return fmt::format(
             "setp.lt.u32 %tearly, {0}, 2;\n@%tearly bra {1}FREE;\nsub.u32 %tturn, {0}, 2;\n", turn,
             label) +
         TurnOf("%tturn") + TensorWait(label + "WAIT") + label + "FREE:\n" + TurnOf(turn) + issue +
         Commit(pair);
}
// The last two are waited for: no commit may arrive when the CTA is gone.
std::string Drained(const std::string& turns, const std::string& label) {
  std::string s;
  for (int back : {2, 1})
    s += fmt::format("sub.u32 %tturn, {}, {};\n", turns, back) + TurnOf("%tturn") +
         TensorWait(fmt::format("{}LAST{}", label, back));
  return s;
}

std::string Repeated(const std::string& text, int times) {
  std::string s;
  for (int i = 0; i < times; ++i) s += text;
  return s;
}

// One at a time, from before its issue to behind the wait. `waited` is behind the second clock
// where only the issue counts.
Parts Shot(Parts p, const std::string& issue, bool issue_alone) {
  p.shot = true;
  p.setup += "mov.u32 %tbar, %tsmem;\n";
  const std::string wait = "and.b32 %tphase, %trip, 1;\n" + TensorWait("WAIT");
  p.body = kBegin + issue + Commit() + (issue_alone ? kEnd + wait : wait + kEnd);
  return p;
}

void AddProducts(const TensorKind& kind, std::vector<Probe>& to) {
  for (int n : {64, 128, 256}) {
    const auto framed = [&](bool pair = false) {
      Parts p = TensorFrame(32, 0, pair);
      p.setup += fmt::format("mov.u32 %task, {};\n", Task(kind, n, pair));
      return p;
    };
    const auto name = [&](const char* operands) {
      return fmt::format("tcgen05.{}.{}.n{}", kind.name, operands, n);
    };
    const auto slope = [&](Parts p, const std::string& a, const char* operands, const char* what) {
      p.body = InTurns(Repeated(TensorProduct(kind, a), kProductsATurn), "%trip", "");
      p.finish = Drained("%trips", "");
      to.push_back(Make(name(operands),
                        fmt::format("occupancy of tcgen05.mma {} 128 x {}, {}", kind.name, n, what),
                        p, kProductsATurn, kBytes));
    };
    slope(framed(), "%ta", "ss", "operands in shared memory");
    if (&kind != &kBf16) continue;
    const std::string in_tensor = "[%taddress]";
    Parts left = framed();
    left.setup += fmt::format("add.u32 %taddress, %tmem, {};\n", kColumnsOfA);
    slope(left, in_tensor, "ts", "A in tensor memory");
    if (n == 64) continue;
    for (int chain : {1, 4})
      to.push_back(
          Make(name("ss") + fmt::format(".chain{}", chain),
               fmt::format("latency of {} tcgen05.mma 128 x {}, to the end of the wait", chain, n),
               Shot(framed(), Repeated(TensorProduct(kind, "%ta"), chain), false), 1, kBytes));
    for (int count : {1, 5})
      to.push_back(Make(name("ss") + fmt::format(".issue{}", count),
                        fmt::format("issue of {} tcgen05.mma 128 x {} and a commit", count, n),
                        Shot(framed(), Repeated(TensorProduct(kind, "%ta"), count), true), 1,
                        kBytes));
    // The even CTA issues for both; the other one is there for its memory.
    Parts pair = framed(true);
    pair.setup += "mov.u32 %taddress, %cluster_ctarank;\nsetp.ne.u32 %tother, %taddress, 0;\n";
    pair.body =
        "@%tother bra PEER;\n" +
        InTurns(Repeated(TensorProduct(kind, "%ta", true), kProductsATurn), "%trip", "", true) +
        "PEER:\n";
    pair.finish = "@%tother bra DRAINED;\n" + Drained("%trips", "") + "DRAINED:\n";
    to.push_back(Make(name("pair"), fmt::format("occupancy of tcgen05.mma 256 x {} of a pair", n),
                      pair, kProductsATurn, kBytes));
  }
}

// 32 lanes of each of four warps, `columns` of 32 bits.
std::string Access(bool store, int columns) {
  const std::string registers = "{" + Registers("tr", columns) + "}";
  return store ? fmt::format("tcgen05.st.sync.aligned.32x32b.x{}.b32 [%tat], {};\n", columns,
                             registers)
               : fmt::format(
                     "tcgen05.ld.sync.aligned.32x32b.x{}.b32 {}, [%tat];\n"
                     "xor.b32 %tsum, %tsum, %tr0;\nxor.b32 %tsum, %tsum, %tr{};\n",
                     columns, registers, columns - 1);
}

void AddAccesses(bool store, std::vector<Probe>& to) {
  const char* name = store ? "tmem.st" : "tmem.ld";
  const char* text = store ? "tcgen05.st" : "tcgen05.ld";
  const std::string wait = fmt::format("tcgen05.wait::{}.sync.aligned;\n", store ? "st" : "ld");
  for (int columns : {32, 128}) {
    Parts p = TensorFrame(128);
    p.declare += fmt::format(".reg .b32 %tr<{}>, %tsum;\n.reg .u32 %tat;\n", columns);
    p.setup += "mov.b32 %tsum, 0;\nshl.b32 %tat, %warp, 21;\nadd.u32 %tat, %tat, %tmem;\n";
    for (int i = 0; i < columns; ++i) p.setup += fmt::format("add.u32 %tr{}, %me, {};\n", i, i);
    p.finish = "st.global.u32 [%out_data], %tsum;\n";
    Parts shot = p;
    shot.shot = true;
    shot.body = kBegin + Access(store, columns) + wait + kEnd;
    to.push_back(
        Make(fmt::format("{}.x{}.latency", name, columns),
             fmt::format("{} of 128 lanes and {} columns, to the end of the wait", text, columns),
             shot, 1, kBytes));
    if (columns > 32) continue;
    p.body = Repeated(Access(store, columns), kProductsATurn) + wait;
    to.push_back(
        Make(fmt::format("{}.x{}", name, columns),
             fmt::format("{} of 128 lanes and {} columns, four before a wait", text, columns), p,
             kProductsATurn, kBytes));
  }
}

}  // namespace

Stream Tcgen05Stream(int offset) {
  const Parts frame = TensorFrame(128, offset);
  Stream s;
  s.what = "tcgen05.mma 128 x 256";
  s.bytes = kBytes;
  s.declare = frame.declare + ".reg .u32 %tcount;\n";
  s.setup = frame.setup + "mov.u32 %tcount, 0;\n";
  // The first warp of the second warpgroup issues, the others have left.
  s.beside = "setp.ne.u32 %tother, %warp, 4;\n@%tother bra DONE;\n" +
             InTurns(Repeated(TensorProduct(kBf16, "%ta"), kProductsATurn), "%tcount", "T") +
             "add.u32 %tcount, %tcount, 1;\n";
  s.finish = Drained("%tcount", "T");
  s.last = frame.last;
  return s;
}

void AddTcgen05Probes(const ir::Target& machine, std::vector<Probe>& to) {
  for (const TensorKind& kind : kKinds)
    if (machine.matrix_unit.dtypes.count(kind.dtype) > 0) AddProducts(kind, to);
  AddAccesses(false, to);
  AddAccesses(true, to);
  Parts copies = TensorFrame(32);
  // 512 bytes without a swizzle, groups of 8 rows of 16 bytes one behind the other.
  copies.setup += "and.b64 %ta, %ta, 0x3FFF;\nor.b64 %ta, %ta, 0x0000400800010000;\n";
  const std::string copy = "@%tlead tcgen05.cp.cta_group::1.32x128b.warpx4 [%tsa], %ta;\n";
  to.push_back(Make("tcgen05.cp.latency",
                    "tcgen05.cp of 512 bytes of scales, to the end of the wait",
                    Shot(copies, copy, false), 1, kBytes));
  copies.body = InTurns(Repeated(copy, kProductsATurn), "%trip", "");
  copies.finish = Drained("%trips", "");
  to.push_back(Make("tcgen05.cp", "tcgen05.cp of 512 bytes of scales, four before a commit", copies,
                    kProductsATurn, kBytes));
}

}  // namespace tilec::calibrate
