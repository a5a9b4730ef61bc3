// Warp collectives, control, barriers and mbarriers. What can be waited for is waited for a limited
// number of times, so that a wrong belief cannot hang the machine.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "tests/conformance/case.h"

namespace tilec::conformance {
namespace {

Case Start(const Variant& v, const std::string& suffix = "") {
  Case c;
  c.name = v.Text() + suffix;
  return c;
}

void Warps(const Variant& v, std::vector<Case>* out) {
  const std::string type = v.types.empty() ? "b32" : v.types[0];
  const int bits = TypeBits(type);
  // All lanes; then two halves that have parted.
  for (bool halves : {false, true}) {
    Case c = Start(v, halves ? " halves" : "");
    c.inputs = {type, "b32", "b32"};
    c.declarations =
        fmt::format(".reg .b{} %a, %d;\n.reg .b32 %b, %k, %m, %r;\n.reg .pred %p, %q, %h;\n", bits);
    c.body = fmt::format(
        "ld.global.b{} %a, [%in];\nld.global.b32 %b, [%in+8];\nld.global.b32 %k, [%in+16];\n"
        "mov.u32 %r, 7;\nmov.b{} %d, 0;\nsetp.ne.u32 %q, %t, %t;\nmov.b32 %m, -1;\n",
        bits, bits);
    std::string text = v.Text();
    std::string store = fmt::format("st.global.b{} [%out], %d;\n", bits);
    if (v.opcode == "shfl") {
      // Same b and c for the whole warp are not required; every lane has its own.
      c.body += "and.b32 %b, %b, 31;\nand.b32 %k, %k, 0x1f1f;\n";
      text += " %d|%q, %a, %b, %k, %m";
    } else if (v.opcode == "vote") {
      c.body += fmt::format("and.b32 %b, %b, 3;\nsetp.ne.u32 %p, %b, 0;\n");
      text += v.Has("ballot") ? " %r, %p, %m" : " %q, %p, %m";
    } else if (v.opcode == "match") {
      c.body += fmt::format(
          "and.b{0} %a, %a, 5;\nshr.u32 %zn, %t, 5;\nsetp.lt.u32 %p, %zn, 4;\n"
          "@%p mov.b{0} %a, 3;\n",
          bits);
      text += v.Has("all") ? " %r|%q, %a, %m" : " %r, %a, %m";
    } else if (v.opcode == "redux") {
      text += " %d, %a, %m";
    } else if (v.opcode == "elect") {
      text += " %r|%q, %m";
    } else {
      text += " %r";
    }
    if (halves && v.opcode == "shfl") {
      // A lane may only read one of its half: even distances, and numbers of its own parity.
      c.body += "and.b32 %b, %b, 30;\nand.b32 %k, %k, 0x1e1f;\n";
      if (v.Has("idx")) c.body += "and.b32 %zn, %t, 1;\nor.b32 %b, %b, %zn;\n";
    }
    if (halves) {
      c.body +=
          "and.b32 %zn, %t, 1;\nsetp.ne.u32 %h, %zn, 0;\nmov.b32 %m, 0x55555555;\n@%h bra O;\n" +
          text + ";\nbra J;\nO:\nmov.b32 %m, 0xaaaaaaaa;\n" + text + ";\nJ:\n";
    } else {
      c.body += text + ";\n";
    }
    c.body += store +
              "st.global.b32 [%out+8], %r;\nselp.b32 %r, 1, 0, %q;\n"
              "st.global.b32 [%out+12], %r;\n";
    out->push_back(std::move(c));
  }
}

void Control(const Variant& v, std::vector<Case>* out) {
  Case c = Start(v);
  c.declarations = ".reg .b32 %x, %y;\n.reg .pred %p;\n";
  if (v.opcode == "bra") {
    c.body = "mov.u32 %x, 0;\nand.b32 %y, %t, " + std::string(v.Has("uni") ? "0" : "31") +
             ";\nL:\nmad.lo.u32 %x, %x, 3, %y;\nadd.u32 %x, %x, 1;\nsub.u32 %y, %y, 1;\n"
             "setp.ge.s32 %p, %y, 0;\n@%p " +
             v.Text() + " L;\nst.global.b32 [%out], %x;\n";
  } else if (v.opcode == "ret" || v.opcode == "exit") {
    c.body = "st.global.b32 [%out], 1;\nsetp.gt.u32 %p, %t, 77;\n" +
             std::string(v.Has("uni") ? "" : "@%p ") + v.Text() + ";\nst.global.b32 [%out+8], 2;\n";
  } else if (v.opcode == "nanosleep") {
    c.body = v.Text() + " 20;\nst.global.b32 [%out], 1;\n";
  } else if (v.opcode == "pmevent") {
    c.body = v.Text() + " 1;\nst.global.b32 [%out], 1;\n";
  } else if (v.opcode == "griddepcontrol") {
    c.body = v.Text() + ";\nst.global.b32 [%out], 1;\n";
  } else if (v.opcode == "setmaxnreg") {
    c.directives = ".maxntid 256, 1, 1\n.minnctapersm 1";
    const bool more = v.Has("inc");
    c.body = fmt::format("setmaxnreg.{}.sync.aligned.u32 {};\nst.global.b32 [%out], 1;\n",
                         more ? "inc" : "dec", more ? 256 : 24);
    if (more) c.body = "setmaxnreg.dec.sync.aligned.u32 24;\n" + c.body;
  } else {
    return;  // trap and brkpt end the launch
  }
  out->push_back(std::move(c));
}

void Barriers(const Variant& v, std::vector<Case>* out) {
  Case c = Start(v);
  c.declarations = ".shared .align 16 .b32 cell[256];\n.reg .b32 %a, %x, %y;\n.reg .pred %p, %q;\n";
  if (v.Has("cluster")) {
    c.cluster = 2;
    const bool arrive = v.Has("arrive");
    c.body = "mov.u32 %a, cell;\nmad.lo.u32 %a, %t, 4, %a;\nst.shared.b32 [%a], %g;\n";
    // A relaxed arrival orders nothing: the fence does.
    if (v.Has("relaxed")) c.body += "fence.acq_rel.cluster;\n";
    c.body += (arrive ? v.Text() : "barrier.cluster.arrive") + ";\n" +
              (arrive ? "barrier.cluster.wait" : v.Text()) + ";\n" +
              "mov.u32 %y, %cluster_ctarank;\nxor.b32 %y, %y, 1;\n"
              "mapa.shared::cluster.u32 %a, %a, %y;\nld.shared::cluster.b32 %x, [%a];\n"
              "st.global.b32 [%out], %x;\nbarrier.cluster.arrive;\nbarrier.cluster.wait;\n";
  } else if (v.Has("warp")) {
    c.body = "mov.u32 %a, cell;\nmad.lo.u32 %a, %t, 4, %a;\nst.shared.b32 [%a], %g;\n" + v.Text() +
             " -1;\nmov.u32 %a, cell;\nxor.b32 %y, %t, 5;\nmad.lo.u32 %a, %y, 4, %a;\n"
             "ld.shared.b32 %x, [%a];\nst.global.b32 [%out], %x;\n";
  } else if (v.Has("red")) {
    c.inputs = {"b32"};
    const bool count = v.Has("popc");
    if (count != v.Has("u32")) return;
    c.body =
        "ld.global.b32 %x, [%in];\nand.b32 %x, %x, 64;\nmov.u32 %y, %ctaid.x;\n"
        "setp.ne.u32 %p, %x, 0;\nand.b32 %y, %y, 1;\nsetp.ne.or.u32 %p, %y, 0, %p;\n" +
        v.Text() + (count ? " %y, 1, %p;\n" : " %q, 1, %p;\nselp.b32 %y, 1, 0, %q;\n") +
        "st.global.b32 [%out], %y;\n";
  } else {
    // 128 threads write, 128 read behind the barrier.
    c.body =
        "mov.u32 %a, cell;\nxor.b32 %y, %t, 128;\nsetp.ge.u32 %p, %t, 128;\n@%p bra R;\n"
        "mad.lo.u32 %a, %t, 4, %a;\nst.shared.b32 [%a], %g;\n" +
        v.Text() + " 3, 256;\nbra D;\nR:\n" +
        (v.Has("arrive") ? std::string("bar.sync") : v.Text()) +
        " 3, 256;\nmad.lo.u32 %a, %y, 4, %a;\nld.shared.b32 %x, [%a];\n"
        "st.global.b32 [%out], %x;\nD:\n";
  }
  out->push_back(std::move(c));
}

// Thread 0 runs a script on a barrier; every step stores what it saw.
void MBarriers(const Variant& v, std::vector<Case>* out) {
  Case c = Start(v);
  c.out_bytes = 64;
  c.ctas = 2;
  c.threads = 128;
  c.declarations =
      ".shared .align 8 .b64 bar;\n.reg .b64 %s, %wb;\n.reg .b32 %b, %x, %r, %i;\n.reg .pred %p, "
      "%first;\n";
  std::string text = v.Text();
  // Without a state space the address is a generic one.
  const char* address =
      v.Has("shared") || v.Has("shared::cta") || v.Has("pending_count") ? "[%b]" : "[%wb]";
  int at = 0;
  auto keep = [&](const char* reg) {
    const std::string s = fmt::format("st.global.b32 [%out+{}], {};\n", at, reg);
    at += 4;
    return s;
  };
  auto parity = [&](int p) {
    return fmt::format(
               "mbarrier.test_wait.parity.shared::cta.b64 %p, [%b], {};\n"
               "selp.b32 %x, 1, 0, %p;\n",
               p) +
           keep("%x");
  };
  const bool remote = v.Has("shared::cluster");
  if (remote || v.Has("inval")) {
    if (!v.Has("inval")) return;
  }
  std::string body =
      "setp.ne.u32 %first, %t, 0;\n@%first bra J;\nmov.u32 %b, bar;\n"
      "cvt.u64.u32 %wb, %b;\ncvta.shared.u64 %wb, %wb;\n";
  const bool tx = v.Has("expect_tx"), drop = v.Has("arrive_drop"), partial = v.Has("noComplete");
  body +=
      v.Has("init") ? text + " " + address + ", 3;\n" : "mbarrier.init.shared::cta.b64 [%b], 3;\n";
  body += parity(0) + parity(1);
  if (v.Has("init") || v.Has("inval")) {
    for (int k = 0; k < 3; ++k) body += "mbarrier.arrive.shared::cta.b64 _, [%b];\n" + parity(0);
    if (v.Has("inval"))
      body += text + " " + address + ";\nmbarrier.init.shared::cta.b64 [%b], 1;\n" + parity(0) +
              parity(1);
  } else if (v.Has("pending_count")) {
    body += "mbarrier.arrive.shared::cta.b64 %s, [%b];\n" + text + " %x, %s;\n" + keep("%x") +
            "mbarrier.arrive.shared::cta.b64 %s, [%b];\n" + text + " %x, %s;\n" + keep("%x");
  } else if (v.Has("test_wait") || v.Has("try_wait")) {
    body += "mbarrier.arrive.shared::cta.b64 %s, [%b];\n";
    const std::string operand = v.Has("parity") ? "0" : "%s";
    auto ask = [&] {  // try_wait may fail when it need not: a few times are asked
      return fmt::format(
                 "mov.u32 %i, 0;\nagain{0}:\n{1} %p, {3}, {2};\n@%p bra over{0};\n"
                 "add.u32 %i, %i, 1;\n.reg .pred %more{0};\nsetp.lt.u32 %more{0}, %i, 20;\n"
                 "@%more{0} bra again{0};\nover{0}:\nselp.b32 %x, 1, 0, %p;\n",
                 at, text, operand, address) +
             keep("%x");
    };
    body += ask() + "mbarrier.arrive.shared::cta.b64 _, [%b], 2;\n" + ask() + ask();
    body += "mbarrier.arrive.shared::cta.b64 _, [%b];\n" + ask();
  } else if (v.mods[0] == "expect_tx" || v.mods[0] == "complete_tx") {
    const bool complete = v.mods[0] == "complete_tx";
    body += complete ? "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%b], 48;\n" + parity(0)
                     : std::string();
    body +=
        text + " " + address + ", 48;\nmbarrier.arrive.shared::cta.b64 _, [%b], 3;\n" + parity(0);
    if (!complete)
      body += "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%b], 32;\n" + parity(0) +
              "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%b], 16;\n" + parity(0);
  } else {
    const std::string operand = tx ? ", 16" : partial ? ", 1" : "";
    for (int k = 0; k < 2; ++k)
      body += text + " %s, " + address + operand + ";\nmbarrier.pending_count.b64 %x, %s;\n" +
              keep("%x") + parity(0);
    body += "mbarrier.arrive.shared::cta.b64 _, [%b];\n" + parity(0);
    if (tx) body += "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%b], 32;\n" + parity(0);
    // After two that left, one arrival makes a phase.
    if (drop) body += "mbarrier.arrive.shared::cta.b64 _, [%b];\n" + parity(0) + parity(1);
  }
  c.body = body + "J:\n";
  if (at > 64) return;
  out->push_back(std::move(c));
}

}  // namespace

void SyncCases(const Variant& v, std::vector<Case>* out) {
  for (const char* w : {"shfl", "vote", "match", "activemask", "redux", "elect"})
    if (v.opcode == w) return Warps(v, out);
  for (const char* w :
       {"bra", "ret", "exit", "nanosleep", "setmaxnreg", "griddepcontrol", "pmevent"})
    if (v.opcode == w) return Control(v, out);
  if (v.opcode == "bar" || v.opcode == "barrier") return Barriers(v, out);
  if (v.opcode == "mbarrier") return MBarriers(v, out);
}

}  // namespace tilec::conformance
