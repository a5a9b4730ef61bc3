// Shared memory and barriers.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "calibrate/probes_internal.h"

namespace tilec::calibrate {

namespace {

constexpr int kDataBytes = 8 * 2048;  // 8 accesses of 512 bytes by each of 4 warps
constexpr const char* kAddress =
    "mul.lo.u32 %at, %warp, 512;\nadd.u32 %at, %at, %smem;\nmul.lo.u32 %row, %lane, 16;\n"
    "add.u32 %at, %at, %row;\n";

// 8 accesses a trip, 512 bytes each, without bank conflicts.
Parts Accesses(bool store) {
  Parts p;
  p.declare = ".reg .u32 %at, %row;\n.reg .b32 %v<4>, %sum;\n";
  p.setup = kAddress + std::string("mov.u32 %sum, 0;\n");
  for (int i = 0; i < 4; ++i) p.setup += fmt::format("add.u32 %v{}, %me, {};\n", i, i);
  // An address that moves with the loop, so that a load is not hoisted out of it.
  p.body = "and.b32 %row, %trip, %zero;\nadd.u32 %at, %at, %row;\n";
  for (int i = 0; i < 8; ++i) {
    if (store) {
      p.body += fmt::format(
          "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%at+{}], {{%v0, %v1, %v2, %v3}};\n", 2048 * i);
    } else {
      p.body += fmt::format(
          "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%v0, %v1, %v2, %v3}}, [%at+{}];\n"
          "xor.b32 %sum, %sum, %v0;\nxor.b32 %sum, %sum, %v3;\n",
          2048 * i);
    }
  }
  if (store) p.body += "add.u32 %v0, %v0, 1;\n";
  p.finish =
      "ld.shared.u32 %v1, [%at];\nadd.u32 %sum, %sum, %v1;\nst.global.u32 [%out_data], %sum;\n";
  return p;
}

// Two warps hand a turn to and fro over two mbarriers. A trip is two hops.
Parts PingPong() {
  Parts p;
  p.threads = 64;
  p.declare =
      ".reg .u32 %mine, %theirs, %phase;\n.reg .pred %done, %lead, %second;\n"
      ".reg .b64 %token;\n";
  p.setup =
      "mul.lo.u32 %mine, %warp, 8;\nadd.u32 %mine, %mine, %smem;\n"
      "xor.b32 %theirs, %mine, 8;\nsetp.eq.u32 %lead, %lane, 0;\n"
      "@%lead mbarrier.init.shared::cta.b64 [%mine], 1;\n"
      "setp.eq.u32 %second, %warp, 1;\n"
      "fence.mbarrier_init.release.cluster;\n";
  const auto wait = [](const char* label) {
    return fmt::format(
        "{0}:\nmbarrier.try_wait.parity.shared::cta.b64 %done, [%mine], %phase;\n"
        "@!%done bra {0};\n",
        label);
  };
  const std::string arrive = "@%lead mbarrier.arrive.shared::cta.b64 %token, [%theirs];\n";
  p.body = "and.b32 %phase, %trip, 1;\n@%second bra SECOND;\n" + arrive + wait("WAIT0") +
           "bra NEXT;\nSECOND:\n" + wait("WAIT1") + arrive + "NEXT:\n";
  return p;
}

}  // namespace

void AddSharedProbes(const ir::Target& machine, std::vector<Probe>& to) {
  constexpr int kCycles = 2048;  // longer than a trip
  const std::optional<Stream> stream = StreamOf(machine, kDataBytes);
  const auto both = [&](const char* name, const char* what, bool store) {
    to.push_back(Make(fmt::format("{}.alone", name), what, Accesses(store), 4 * 8, kDataBytes));
    if (stream)
      to.push_back(Make(fmt::format("{}.beside", name), "the same beside " + stream->what,
                        Beside(Accesses(store), *stream, kCycles), 4 * 8,
                        kDataBytes + stream->bytes));
  };
  both("ldmatrix", "ldmatrix.x4 of four warps: bytes per cycle from cycles each", false);
  if (machine.Has("stmatrix")) both("stmatrix", "stmatrix.x4 of four warps", true);

  // Read back through an address that only the launch knows to be the same: the assembler forwards
  // what was stored where it sees it.
  Parts round = Accesses(false);
  round.declare += ".reg .u32 %back;\n";
  round.setup += "and.b32 %row, %lane, %zero;\nadd.u32 %back, %at, %row;\n";
  round.body.clear();
  for (int i = 0; i < 8; ++i)
    round.body +=
        "st.shared.v4.u32 [%at], {%v0, %v1, %v2, %v3};\n"
        "ld.shared.v4.u32 {%v0, %v1, %v2, %v3}, [%back];\n"
        "and.b32 %row, %v0, %zero;\nadd.u32 %at, %at, %row;\nadd.u32 %back, %back, %row;\n";
  to.push_back(Make("shared.round", "st.shared.v4, ld.shared.v4 of it, then the next", round, 8,
                    kDataBytes));

  Parts load = Accesses(false);
  load.body.clear();
  for (int i = 0; i < 8; ++i)
    load.body +=
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%v0, %v1, %v2, %v3}, [%at];\n"
        "and.b32 %row, %v0, %zero;\nadd.u32 %at, %at, %row;\n";
  load.setup += "st.shared.u32 [%at], %me;\n";
  to.push_back(Make("ldmatrix.latency", "one ldmatrix.x4 after another that gives its address",
                    load, 8, kDataBytes));

  Parts named;
  named.body = "bar.sync 1, 128;\n";
  to.push_back(Make("bar.sync.128", "bar.sync of 128 threads, back to back", named, 1));
  if (!machine.Has("mbarrier_waits")) return;

  to.push_back(Make("mbarrier.hop", "mbarrier arrive to the try_wait of another warp, one way",
                    PingPong(), 2, 64));

  Parts passed;
  passed.threads = 32;
  passed.declare = ".reg .pred %done;\n.reg .b64 %token;\n";
  passed.setup =
      "setp.eq.u32 %first, %me, 0;\n"
      "@%first mbarrier.init.shared::cta.b64 [%smem], 1;\n"
      "fence.mbarrier_init.release.cluster;\nbar.sync 0;\n"
      "@%first mbarrier.arrive.shared::cta.b64 %token, [%smem];\nbar.sync 0;\n";
  passed.body =
      "WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 %done, [%smem], 0;\n"
      "@!%done bra WAIT;\n";
  to.push_back(
      Make("mbarrier.passed", "try_wait of a phase that is over, with its branch", passed, 1, 64));
}

}  // namespace tilec::calibrate
