// One statement a line is what both compilers write; lines that are otherwise are left alone.
//
// SPDX-License-Identifier: Apache-2.0
#include "tests/mutation/mutate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "tests/mutation/statement.h"

namespace tilec::mutation {

namespace {

enum class Name {
#define KIND(name, rules, equivalent) k##name,
#include "tests/mutation/kinds.def"
#undef KIND
};

class Maker {
 public:
  std::vector<Mutant> all;
  Maker(bool all_kinds, bool tensor) : all_kinds_(all_kinds), tensor_(tensor) {}

  void Line(std::string_view text, int number) {
    if (all_kinds_) text = text.substr(0, text.find("//"));
    Statement s;
    if (!Parse(text, &s)) {
      if (text.find(':') != std::string_view::npos) held_.clear();  // a label
      return;
    }
    line_ = number;
    before_ = Strip(text);
    if (tensor_) Wider(s);
    if (all_kinds_ && More(s)) return;
    if (s.Is("mbarrier.try_wait") || s.Is("mbarrier.test_wait"))
      Wait(s);
    else if (s.Is("mbarrier.arrive.expect_tx"))
      Expect(s);
    else if (s.Is("mbarrier.arrive"))
      Arrive(s);
    else if (s.Is("mbarrier.init"))
      Init(s);
    else if (s.Is("fence.mbarrier_init"))
      Add(Name::kInitFence, "");
    else if (s.Is("fence.proxy"))
      Add(Name::kProxyFence, "");
    else if (s.Is("bar.warp.sync"))
      Add(together_ ? Name::kWarpBarrierBehindCollective : Name::kWarpBarrier, "");
    else if (s.Is("bar.sync") || s.Is("barrier.sync"))
      Barrier(s);
    else if (s.Is("wgmma.fence"))
      Add(Name::kWgmmaFence, "");
    else if (s.Is("wgmma.commit_group"))
      Add(Name::kWgmmaCommit, "");
    else if (s.Is("wgmma.wait_group"))
      WaitGroup(s, Name::kWgmmaWaitDeleted, Name::kWgmmaWaitMore);
    else if (s.Is("wgmma.mma_async"))
      Product(s);
    else if (s.Is("cp.async.bulk.commit_group"))
      Add(Name::kBulkCommit, "");
    else if (s.Is("cp.async.bulk.wait_group"))
      WaitGroup(s, Name::kBulkWait, Name::kBulkWaitMore);
    else if (s.Is("cp.async.bulk") && s.Has("mbarrier::complete_tx"))
      Copy(s);
    else if (s.Is("tcgen05."))
      Tensor(s);
    else if (s.Is("barrier.cluster"))
      Add(Name::kClusterBarrier, "");
    else if (s.Is("setmaxnreg"))
      Registers(s);
    else if (s.opcode == "and.b32" && s.operands.size() == 3 && s.operands[2] == "3")
      Ring(s);
    if (s.Has(".aligned"))
      together_ = true;
    else if (s.Has("_wait") || s.Is("ld.") || s.Is("st.") || s.Is("elect"))
      together_ = false;
  }

 private:
  void Add(Name kind, const std::string& text) {
    Mutant m;
    m.kind = static_cast<size_t>(kind);
    m.line = line_;
    m.text = text.empty() ? "// " + std::string(Kinds()[m.kind].name) : text;
    m.before = before_;
    all.push_back(std::move(m));
  }

  // Kinds of kernels that neither compiler of the first corpus writes. True: there are no others.
  bool More(const Statement& s) {
    if (s.Is("cp.async.commit_group"))
      Add(Name::kAsyncCommit, "");
    else if (s.Is("cp.async.wait_group"))
      WaitGroup(s, Name::kAsyncWait, Name::kAsyncWaitMore);
    else if (s.Is("cp.async.wait_all"))
      Add(Name::kAsyncWait, "");
    else if (s.Is("cp.async.mbarrier.arrive"))
      Add(Name::kAsyncArrive, "");
    else if (s.Is("and.b32"))  // no ring's index
      return true;
    else if (s.Is("membar") || s.Is("fence.sc") || s.Is("fence.acq_rel"))
      Add(Name::kFenceDeleted, "");
    else if (s.Is("bar.arrive") || s.Is("barrier.arrive"))
      Add(Name::kBarrierArrive, "");
    else if (s.Is("mbarrier.try_wait") || s.Is("mbarrier.test_wait"))
      return AnyWait(s);
    else if (s.Is("mbarrier.arrive") && !s.Has("expect_tx") && s.operands.size() > 1 &&
             s.operands[0].substr(0, 1) == "%")
      return TokenArrive(s);
    else if (s.Is("ld.") || s.Is("st.") || s.Is("atom.") || s.Is("red."))
      Orders(s);
    else
      return false;
    return true;
  }
  bool AnyWait(const Statement& s) {
    Add(Name::kWaitDeleted, fmt::format("setp.eq.u32 {}, 0, 0;", s.operands[0]));
    if (s.Has("parity")) Add(Name::kParityFlipped, Changed(s, 2, "xor", "b32", "1"));
    return true;
  }
  bool TokenArrive(const Statement& s) {
    Add(Name::kArriveDeleted, fmt::format("{}mov.b64 {}, 0;", s.guard, s.operands[0]));
    Add(Name::kArriveTwice, Join(s) + " " + Join(s));
    return true;
  }
  void Orders(const Statement& s) {
    const auto other = [&](Name kind, std::string_view was, std::string_view is) {
      const size_t at = s.opcode.find(was);
      if (at == std::string::npos) return;
      Statement weak = s;
      weak.opcode.replace(at, was.size(), is);
      Add(kind, Join(weak));
    };
    other(Name::kReleaseRelaxed, ".release", ".relaxed");
    other(Name::kAcquireRelaxed, ".acquire", ".relaxed");
    other(Name::kReleaseRelaxed, ".acq_rel", ".acquire");
    other(Name::kAcquireRelaxed, ".acq_rel", ".release");
    if (!s.Has(".relaxed")) other(Name::kScopeLess, ".gpu", ".cta");
  }

  void Wait(const Statement& s) {
    if (s.operands.size() < 3) return;
    std::string reg = RegisterIn(s.operands[2]);
    if (reg.empty()) reg = RegisterIn(s.operands[1]);
    if (!reg.empty())
      Add(Name::kWaitDeleted, fmt::format("setp.eq.u32 {}, {}, {};", s.operands[0], reg, reg));
    if (s.Has("parity")) Add(Name::kParityFlipped, Changed(s, 2, "xor", "b32", "1"));
  }
  void Expect(const Statement& s) {
    if (s.operands.size() < 3) return;
    Add(Name::kExpectDeleted, "");
    Add(Name::kExpectTooMuch, Changed(s, 2, "add", "u32", "16"));
    Add(Name::kExpectTooLittle, Changed(s, 2, "sub", "u32", "16"));
    Statement plain = s;
    plain.opcode = "mbarrier.arrive.shared::cta.b64";
    plain.operands.pop_back();
    Add(Name::kExpectNothing, Join(plain));
  }
  void Arrive(const Statement& s) {
    Add(Name::kArriveDeleted, "");
    Add(Name::kArriveTwice, Join(s) + " " + Join(s));
  }
  void Init(const Statement& s) {
    if (s.operands.size() < 2) return;
    Add(Name::kInitDeleted, "");
    Add(Name::kInitMore, Changed(s, 1, "add", "u32", "1"));
    Add(Name::kInitFewer, Changed(s, 1, "sub", "u32", "1"));
  }
  void Barrier(const Statement& s) {
    Add(Name::kBarrierDeleted, "");
    if (s.operands.empty()) return;
    if (s.operands.size() > 1) {
      Add(Name::kBarrierCountMore, Changed(s, 1, "add", "u32", "32"));
      Add(Name::kBarrierCountLess, Changed(s, 1, "sub", "u32", "32"));
    }
    // One warp of the program goes to another barrier.
    if (s.operands.size() > 1)
      Add(Name::kBarrierNumber,
          fmt::format(
              "{{ .reg .pred %mut; .reg .b32 %mua; mov.u32 %mua, %tid.x; and.b32 %mua, %mua, "
              "127; setp.lt.u32 %mut, %mua, 32; selp.b32 %mua, 9, {}, %mut; {} %mua, {}; }}",
              s.operands[0], s.opcode, s.operands[1]));
  }
  void WaitGroup(const Statement& s, Name deleted, Name more) {
    if (s.operands.size() != 1) return;
    Add(deleted, "");
    Statement other = s;
    other.operands[0] = std::to_string(std::atoi(s.operands[0].c_str()) + 1);
    Add(more, Join(other));
  }
  void Product(const Statement& s) {
    // Operands: accumulators, A (descriptor or registers), B descriptor, …
    for (size_t k : {size_t{1}, size_t{2}}) {
      if (k >= s.operands.size() || s.operands[k].substr(0, 1) != "%") continue;
      Add(Name::kDescriptorStart, Changed(s, k, "xor", "b64", "4"));
      Add(Name::kDescriptorStride, Changed(s, k, "xor", "b64", "274877906944"));  // bit 38
      Add(Name::kDescriptorLeading, Changed(s, k, "xor", "b64", "2097152"));      // bit 21
      Add(Name::kDescriptorSwizzle, Changed(s, k, "xor", "b64", "-9223372036854775808"));
      Add(Name::kDescriptorBase, Changed(s, k, "xor", "b64", "562949953421312"));  // bit 49
    }
  }
  void Copy(const Statement& s) {
    Add(Name::kCopyDeleted, "");
    const size_t at = s.opcode.find(".cta_group::2");
    if (at == std::string::npos) return;
    Statement own = s;
    own.opcode.replace(at, 13, ".cta_group::1");
    Add(Name::kPairBarrier, Join(own));
  }
  // `s` with an address operand moved by `op` of it and `value`.
  void Moved(Name kind, const Statement& s, size_t k, const char* op, const std::string& value) {
    if (k >= s.operands.size() || s.operands[k].substr(0, 2) != "[%") return;
    Statement inner = s;
    inner.operands[k] = "[%mut]";
    std::string was = s.operands[k].substr(1, s.operands[k].size() - 2), behind;
    if (const size_t plus = was.find('+'); plus != was.npos) {
      behind = fmt::format(" add.u32 %mut, {}, {};", was.substr(0, plus), was.substr(plus + 1));
      was = "%mut";
    }
    Add(kind, fmt::format("{{ .reg .b32 %mut;{} {}.b32 %mut, {}, {}; {} }}", behind, op, was, value,
                          Join(inner)));
  }
  void Tensor(const Statement& s) {
    if (s.Is("tcgen05.mma")) return TensorProduct(s);
    if (s.Is("tcgen05.commit")) {
      Add(Name::kTensorCommit, "");
      if (s.Has("multicast")) {
        Statement one = s;
        one.operands[1] = "1";
        Add(Name::kTensorMulticast, Join(one));
      }
    } else if (s.Is("tcgen05.wait::ld")) {
      Add(Name::kTensorWaitLd, "");
    } else if (s.Is("tcgen05.wait::st")) {
      Add(Name::kTensorWaitSt, "");
    } else if (s.Is("tcgen05.fence::before")) {
      Add(Name::kTensorBefore, "");
    } else if (s.Is("tcgen05.fence::after")) {
      Add(Name::kTensorAfter, "");
    } else if (s.Is("tcgen05.alloc") && s.operands.size() == 2) {
      Add(Name::kTensorAlloc, "");
      Add(Name::kTensorAllocLess, Changed(s, 1, "shr", "u32", "1"));
    } else if (s.Is("tcgen05.dealloc")) {
      Add(Name::kTensorFree, "");
    } else if (s.Is("tcgen05.relinquish")) {
      Add(Name::kTensorPermit, "");
    } else if (s.Is("tcgen05.cp")) {
      Add(Name::kTensorCopyOut, "");
      Moved(Name::kTensorScales, s, 0, "xor", "8");
    } else if (s.Is("tcgen05.ld") || s.Is("tcgen05.st")) {
      Moved(Name::kTensorLane, s, s.Is("tcgen05.ld") ? 1 : 0, "xor", "2097152");  // lane 32
      Moved(Name::kTensorColumn, s, s.Is("tcgen05.ld") ? 1 : 0, "xor", "32");
    }
  }

  // ---- programs with tensor memory ----
  struct Held {
    Statement statement;
    int line = 0;
  };
  void Wider(const Statement& s) {
    if (s.opcode.substr(0, 3) == "bra") {
      if (!s.guard.empty()) Add(Name::kBranchDeleted, "");
      held_.clear();
      return;
    }
    if (!s.guard.empty() && !s.Is("ld.")) {  // loads of what is not used are no matter
      Statement all = s;
      all.guard.clear();
      Add(Name::kGuardDropped, Join(all));
    }
    Barriers(s);
    Peers(s);
    Late(s);
    if (s.Is("tcgen05.mma")) Task(s);
    if (s.Is("tcgen05.dealloc")) Add(Name::kTensorFreeLess, Changed(s, 1, "shr", "u32", "1"));
    if (s.Is("tcgen05.") || s.Is("fence.proxy")) held_.push_back({s, line_});
  }
  // Waits for another phase; another mbarrier, the next one in memory.
  void Barriers(const Statement& s) {
    size_t at = 99;
    if (s.Is("mbarrier.try_wait") || s.Is("mbarrier.arrive")) at = 1;
    if (s.Is("tcgen05.commit")) at = 0;
    if (s.Is("cp.async.bulk") && s.Has("complete_tx")) at = s.Has(".tensor.") ? 2 : 3;
    if (at >= s.operands.size() || s.operands[at][0] != '[') return;
    Statement other = s;
    std::string& address = other.operands[at];
    address.insert(address.size() - 1, "+8");
    if (s.operands[at].find('+') == std::string::npos) Add(Name::kOtherBarrier, Join(other));
    if (!s.Is("mbarrier.try_wait.parity") || s.operands[2][0] != '%') return;
    other = s;
    other.operands[2] = "0";
    Add(Name::kPhaseKept, Join(other));
  }
  // Which CTAs are meant, and which element of a tensor.
  void Peers(const Statement& s) {
    if (s.Is("mapa.") && s.operands.size() == 3)
      Add(Name::kPeerIsSelf,
          fmt::format("{}mov.b32 {}, {};", s.guard, s.operands[0], s.operands[1]));
    if (s.opcode == "and.b32" && s.operands.size() == 3 &&
        (s.operands[2] == "0xfeffffff" || s.operands[2] == "-16777217"))
      Add(Name::kPeerIsSelf,
          fmt::format("{}mov.b32 {}, {};", s.guard, s.operands[0], s.operands[1]));
    Statement other = s;
    if (s.Has("multicast::cluster") && s.operands.size() > 1) {
      other.operands[s.Is("tcgen05.commit") ? 1 : s.operands.size() - 1] = "2";
      Add(Name::kOtherMask, Join(other));
    }
    if (!s.Is("cp.async.bulk.tensor") || s.operands.size() < 2) return;
    for (size_t k = 0; k < 2; ++k) {
      other = s;
      std::string& place = other.operands[k];
      const size_t a = place.find("{%"), b = place.find_first_of(",}", a);
      if (a == std::string::npos || b == std::string::npos) continue;
      const std::string was = place.substr(a + 1, b - a - 1);
      place.replace(a + 1, b - a - 1, "%mut");
      Add(Name::kOtherPlace,
          fmt::format("{{ .reg .b32 %mut; add.s32 %mut, {}, 16; {} }}", was, Join(other)));
    }
  }
  // A statement that is to stand in front of this one stands behind it.
  void Late(const Statement& s) {
    const auto behind = [&](Name kind, std::initializer_list<std::string_view> prefixes) {
      for (size_t k = held_.size(); k-- > 0;) {
        const Statement& p = held_[k].statement;
        if (std::none_of(prefixes.begin(), prefixes.end(),
                         [&](std::string_view prefix) { return p.Is(prefix); }))
          continue;
        Add(kind, Join(s) + " " + Join(p));
        all.back().left_line = held_[k].line;
        return;
      }
    };
    if (s.Is("tcgen05.commit")) behind(Name::kProductLate, {"tcgen05.mma", "tcgen05.cp"});
    if (s.Is("tcgen05.mma")) behind(Name::kCopyLate, {"tcgen05.cp"});
    if (s.Is("tcgen05.wait::ld")) behind(Name::kMoveLate, {"tcgen05.ld"});
    if (s.Is("tcgen05.wait::st")) behind(Name::kMoveLate, {"tcgen05.st"});
    if (!s.Is("mbarrier.arrive") && !s.Is("bar.sync") && !s.Is("barrier.sync") &&
        !s.Is("barrier.cluster.arrive"))
      return;
    behind(Name::kOrderLate, {"tcgen05.wait::ld"});
    behind(Name::kOrderLate, {"tcgen05.wait::st"});
    behind(Name::kOrderLate, {"tcgen05.fence::before"});
    behind(Name::kOrderLate, {"fence.proxy"});
  }
  void Task(const Statement& s) {
    if (s.operands.size() < 5) return;
    Add(Name::kTaskScaleA, Changed(s, 3, "xor", "b32", "536870912"));  // bit 29
    Add(Name::kTaskScaleB, Changed(s, 3, "xor", "b32", "16"));
    Add(Name::kTaskTransposed, Changed(s, 3, "xor", "b32", "65536"));  // B
    Add(Name::kTaskNegated, Changed(s, 3, "xor", "b32", "8192"));      // A
  }

  void TensorProduct(const Statement& s) {
    if (s.operands.size() < 5) return;
    Add(Name::kTensorProduct, "");
    for (size_t k : {size_t{1}, size_t{2}}) {
      if (s.operands[k].substr(0, 1) != "%") continue;
      Add(Name::kTensorStart, Changed(s, k, "xor", "b64", "8"));
      Add(Name::kTensorStride, Changed(s, k, "xor", "b64", "274877906944"));           // bit 38
      Add(Name::kTensorSwizzle, Changed(s, k, "xor", "b64", "-9223372036854775808"));  // bit 63
      Add(Name::kTensorVersion, Changed(s, k, "xor", "b64", "70368744177664"));        // bit 46
    }
    Add(Name::kTensorTaskN, Changed(s, 3, "xor", "b32", "524288"));     // 32 columns
    Add(Name::kTensorTaskM, Changed(s, 3, "xor", "b32", "117440512"));  // bits 26–24
    Add(Name::kTensorTaskType, Changed(s, 3, "xor", "b32", "128"));     // A
    Add(Name::kTensorTaskReserved, Changed(s, 3, "or", "b32", "64"));   // bit 6
    Moved(Name::kTensorColumn, s, 0, "xor", "32");
    if (s.operands.size() > 6) Moved(Name::kTensorScales, s, 4, "xor", "4");
    Statement other = s;
    std::string& p = other.operands.back();
    p = p[0] == '!' ? p.substr(1) : "!" + p;
    Add(Name::kTensorAdds, Join(other));
  }
  void Registers(const Statement& s) {
    Statement odd = s, many = s;
    odd.operands[0] = "42";
    Add(Name::kRegistersOdd, Join(odd));
    if (s.Has(".inc")) {
      many.operands[0] = "256";
      Add(Name::kRegistersNotTaken, "");
      Add(Name::kRegistersTooMany, Join(many));
    } else {
      Add(Name::kRegistersKept, "");
    }
  }
  void Ring(Statement s) {
    s.operands[2] = "1";
    Add(Name::kRingShallow, Join(s));
  }

  bool all_kinds_, tensor_;
  std::vector<Held> held_;  // of this basic block
  int line_ = 0;
  bool together_ = false;  // since the last collective above nothing parted the lanes
  std::string before_;
};

}  // namespace

const std::vector<Kind>& Kinds() {
  static const std::vector<Kind> kinds = {
#define KIND(name, rules, equivalent) {#name, rules, equivalent},
#include "tests/mutation/kinds.def"
#undef KIND
  };
  return kinds;
}

std::vector<Mutant> Mutants(const std::string& ptx, bool all_kinds) {
  Maker maker(all_kinds, ptx.find("tcgen05.") != std::string::npos);
  int number = 0;
  for (size_t at = 0; at < ptx.size();) {
    const size_t end = std::min(ptx.find('\n', at), ptx.size());
    maker.Line(std::string_view(ptx).substr(at, end - at), ++number);
    at = end + 1;
  }
  return std::move(maker.all);
}

bool Accepts(const Kind& kind, const std::string& id) {
  return kind.rules == std::string_view("*") ||
         (" " + std::string(kind.rules) + " ").find(" " + id + " ") != std::string::npos;
}

std::string Apply(const std::string& ptx, const Mutant& mutant) {
  std::string out = ptx;
  const auto put = [&out](int line, const std::string& text) {
    size_t at = 0;
    for (int k = 1; k < line; ++k) at = out.find('\n', at) + 1;
    out.replace(at, std::min(out.find('\n', at), out.size()) - at, text);
  };
  put(mutant.line, mutant.text);
  if (mutant.left_line != 0) put(mutant.left_line, "// moved");
  return out;
}

Mutant TrapBefore(const Mutant& mutant) {
  const std::string& was = mutant.before;
  const std::string guard = was[0] == '@' ? was.substr(0, was.find(' ') + 1) : std::string();
  Mutant trap = mutant;
  trap.text = guard + "trap; " + was;
  trap.left_line = 0;
  return trap;
}

std::optional<Mutant> InitialisedTwice(const Mutant& mutant) {
  const std::string& was = mutant.before;
  const size_t open = was.find('['), close = was.find(']');
  const bool commits = was.find("tcgen05.commit") != std::string::npos;
  if ((was.find("mbarrier.") == std::string::npos && !commits) ||
      was.find("cp.async.bulk") != std::string::npos || close == std::string::npos)
    return std::nullopt;
  const std::string guard = was[0] == '@' ? was.substr(0, was.find(' ') + 1) : std::string();
  const std::string again = fmt::format("{}mbarrier.init.shared::cta.b64 {}, 1;", guard,
                                        was.substr(open, close - open + 1));
  Mutant twice = mutant;
  const bool init = was.find("mbarrier.init") != std::string::npos;
  twice.text = init ? was + " " + again : again + " " + was;
  twice.left_line = 0;
  return twice;
}

}  // namespace tilec::mutation
