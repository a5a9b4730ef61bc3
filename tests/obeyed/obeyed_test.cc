// Is the schedule obeyed? Every call of the `test` blocks of .tile files is compiled as by default
// and with two row slices; its PTX is read back (tests/obeyed/ptx_code.h) and compared with what
// the scheduler decided (compare.h). Then the schedule is changed, two neighbours swapped or one op
// moved by a turn, and the PTX with it must no longer pass; likewise PTX whose waits are stronger.
//
//   obeyed_test LOOPS [--schedule=FILE.sched] FILE.tile…
//
// LOOPS: at least so many different loops follow a schedule. With a file it is that schedule.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>
#include <set>

#include "api/pipeline.h"
#include "tests/obeyed/wanted.h"
#include "tests/solved/audit.h"
#include "tests/test_calls.h"

namespace tilec {
namespace {

using obeyed::Code;
using obeyed::Compare;
using obeyed::Verdict;
using obeyed::WantedLoop;
using obeyed::WantedOf;

// Faults that are known, each with its reason. One that is gone must leave the table.
struct Known {
  const char* file;
  const char* call;  // as it begins
  const char* schedule;
  const char* fault;  // as it begins
  const char* reason;
};
constexpr std::array<Known, 0> kKnown = {};

struct Counts {
  int programs = 0, fallen_back = 0, loops = 0, turns = 0, products = 0, masses = 0, unseen = 0;
  int moved = 0, waits = 0, chained = 0, rings = 0, passes = 0, mutants = 0, unnoticed = 0;
  int unpipelined = 0;
};

class Tester {
 public:
  const Counts& counts() const { return counts_; }
  const Audit& audit() const { return audit_; }

  Result<bool> One(const api::Loaded& loaded, const frontend::TestCallInfo& call,
                   const std::string& schedule, DiagSink& diags) {
    TRY(const api::Call bound, BindDense(*loaded.program, call, diags));
    api::PipelineOptions options;
    options.schedule = schedule;
    options.solutions = &audit_;
    api::Observation look;
    api::Lowered lowered;
    look.lowered = &lowered;
    TRY(const backend::KernelImage image,
        api::CompileCall(loaded, call.kernel, bound, options, {.look = &look}, diags));
    if (!seen_.insert(image.ptx).second) return true;
    ++counts_.programs;
    if (!lowered.by_schedule) {
      ++counts_.fallen_back;
      return true;
    }
    std::string why;
    const std::unique_ptr<Code> code = Code::Read(image.ptx, &why);
    if (!code) {
      fmt::print("{}: {}\n", CallText(call), why);
      return false;
    }
    bool good = true;
    for (const scheduler::LoopReport& loop : lowered.schedule.loops) {
      if (!loop.applied) continue;
      const WantedLoop wanted = WantedOf(lowered.schedule, loop, loaded.sources);
      Verdict verdict = Compare(*code, wanted);
      auto& faults = verdict.faults;
      faults.erase(std::remove_if(faults.begin(), faults.end(),
                                  [&](const std::string& fault) {
                                    return IsKnown(CallText(call), schedule, fault);
                                  }),
                   faults.end());
      ++counts_.loops;
      counts_.turns += verdict.turns;
      counts_.products += verdict.products;
      counts_.masses += verdict.masses;
      counts_.unseen += verdict.unseen;
      counts_.moved += verdict.moved;
      counts_.waits += verdict.waits;
      counts_.chained += verdict.chained;
      counts_.rings += verdict.rings;
      counts_.passes += verdict.passes;
      counts_.unpipelined += verdict.unpipelined;
      if (!faults.empty()) {
        good = false;
        fmt::print("{} {}, loop at line {}, II {}:\n", CallText(call), schedule,
                   loaded.sources.Locate(loop.at.file, loop.at.begin).line, wanted.ii);
        for (const std::string& fault : verdict.faults) fmt::print("  {}\n", fault);
        for (const std::string& note : loop.notes) fmt::print("  note: {}\n", note);
        continue;
      }
      if (Compare(*code, wanted).faults.empty()) {
        Mutate(*code, wanted, verdict, CallText(call));
        Strengthen(image.ptx, wanted);
        Weaken(image.ptx, wanted, verdict, CallText(call));
        if (verdict.unpipelined > 0) Unpipelined(*code, wanted, CallText(call));
      }
    }
    return good;
  }

 private:
  bool IsKnown(const std::string& call, const std::string& schedule, const std::string& fault) {
    for (size_t i = 0; i < std::size(kKnown); ++i) {
      const Known& k = kKnown[i];
      if (call.rfind(k.call, 0) != 0 || schedule != k.schedule || fault.rfind(k.fault, 0) != 0)
        continue;
      known_.insert(i);
      return true;
    }
    return false;
  }

  void Judge(const Code& code, const WantedLoop& mutant, const std::string& what) {
    ++counts_.mutants;
    if (!Compare(code, mutant).faults.empty()) return;
    ++counts_.unnoticed;
    fmt::print("UNNOTICED {}\n", what);
  }

  // Two ops that run one after the other change places; one op runs a turn later.
  void Mutate(const Code& code, const WantedLoop& wanted, const Verdict& verdict,
              const std::string& call) {
    for (const auto& [a, b] : verdict.neighbours) {
      WantedLoop mutant = wanted;
      auto &x = mutant.ops[static_cast<size_t>(a)].cycle,
           &y = mutant.ops[static_cast<size_t>(b)].cycle;
      const int64_t xs = x % wanted.ii, ys = y % wanted.ii;
      if (xs == ys) continue;
      x += ys - xs;
      y += xs - ys;
      Judge(code, mutant,
            fmt::format("{}: {} and {} swapped", call, wanted.ops[static_cast<size_t>(a)].name,
                        wanted.ops[static_cast<size_t>(b)].name));
    }
    if (wanted.keeps_order) return;  // of its schedule no turn is obeyed
    for (size_t i = 0; i < wanted.ops.size(); ++i) {
      const bool passes = wanted.ops[i].put >= 0 || wanted.ops[i].take >= 0;
      if (!passes && (!wanted.ops[i].product || verdict.products < 2)) continue;
      // Others that tell the turn: products of one place in the source tell it of all of them
      // together (compare.cc, Alike).
      int others = 0;
      for (const obeyed::Wanted& op : wanted.ops) {
        const bool passed = op.put >= 0 || op.take >= 0;
        others += (passed || (op.product && (passes || !(op.at == wanted.ops[i].at)))) &&
                  &op != &wanted.ops[i] && op.slice == wanted.ops[i].slice;
      }
      if (others < 1) continue;
      WantedLoop mutant = wanted;
      mutant.ops[i].cycle += wanted.ii;
      Judge(code, mutant, fmt::format("{}: {} a turn later", call, wanted.ops[i].name));
    }
  }

  // Waits that somebody needs are left out, one at a time, in the order of the text.
  void Weaken(const std::string& ptx, const WantedLoop& wanted, const Verdict& verdict,
              const std::string& call) {
    constexpr size_t kMost = 6;  // every one is read anew
    size_t left_out = 0;
    for (const int line : verdict.needed) {
      if (++left_out > kMost) return;
      size_t at = 0;
      for (int l = 1; l < line; ++l) at = ptx.find('\n', at) + 1;
      std::string weaker = ptx;
      weaker.insert(at, "//");
      std::string why;
      const std::unique_ptr<Code> code = Code::Read(weaker, &why);
      if (code) Judge(*code, wanted, fmt::format("{}: line {} left out", call, line));
    }
  }

  // Of a loop that may have more turns the pipelined one would be missed.
  void Unpipelined(const Code& code, WantedLoop wanted, const std::string& call) {
    if (wanted.no_loop) return;
    wanted.too_few_turns = false;
    Judge(code, wanted, fmt::format("{}: no loop is pipelined", call));
  }

  // Every wait that leaves products under way awaits one more of them.
  void Strengthen(const std::string& ptx, const WantedLoop& wanted) {
    const std::string what = "wgmma.wait_group.sync.aligned ";
    for (size_t at = ptx.find(what); at != std::string::npos; at = ptx.find(what, at + 1)) {
      const size_t digit = at + what.size();
      if (ptx[digit] == '0') continue;
      std::string stronger = ptx;
      --stronger[digit];
      std::string why;
      const std::unique_ptr<Code> code = Code::Read(stronger, &why);
      // Only waits of the loop's turns are looked at.
      const Verdict verdict = Compare(*code, wanted);
      strengthened_ += !verdict.faults.empty();
    }
  }

 public:
  int strengthened_ = 0;
  std::set<size_t> known_;  // that were seen

 private:
  std::set<std::string> seen_;
  Counts counts_;
  Solved solved_;
  Audit audit_{solved_.store(), 25};
};

int Main(int argc, char** argv) {
  if (argc < 3) return 2;
  Tester tester;
  int failed = 0;
  std::vector<std::string> schedules = {"solve", "solve:slices=2"};
  for (int i = 2; i < argc; ++i) {
    const std::string arg = argv[i], option = "--schedule=";
    if (arg.rfind(option, 0) == 0) {
      schedules = {arg.substr(option.size())};
      continue;
    }
    failed += VisitCalls(arg, schedules,
                         [&](const api::Loaded& loaded, const frontend::TestCallInfo& call,
                             const std::string& schedule, DiagSink& diags) {
                           return tester.One(loaded, call, schedule, diags);
                         });
  }
  const Counts& c = tester.counts();
  fmt::print(
      "{} programs, {} of them not by a schedule; {} loops, {} turns: {} products, {} masses in "
      "order, {} moved by rule, {} not to be told apart; {} waits ({} within one accumulator), "
      "{} rings, {} tiles put or taken; {} loops in program order for want of turns\n",
      c.programs, c.fallen_back, c.loops, c.turns, c.products, c.masses, c.moved, c.unseen, c.waits,
      c.chained, c.rings, c.passes, c.unpipelined);
  fmt::print("{} changed schedules, {} unnoticed; {} stronger waits noticed\n", c.mutants,
             c.unnoticed, tester.strengthened_);
  fmt::print("{} answers of the solver were asked for again, {} moved\n", tester.audit().compared(),
             tester.audit().moved());
  failed += tester.audit().moved();
  for (size_t i = 0; i < std::size(kKnown); ++i)
    for (int f = 2; f < argc; ++f)
      if (std::string(argv[f]).find(kKnown[i].file) != std::string::npos &&
          !tester.known_.count(i)) {
        fmt::print("no longer seen: {} {}, {}\n", kKnown[i].call, kKnown[i].schedule,
                   kKnown[i].fault);
        ++failed;
      }
  const bool enough = c.loops >= std::atoi(argv[1]);
  if (!enough) fmt::print("fewer loops follow a schedule than {}\n", argv[1]);
  return failed || c.unnoticed || !enough ? 1 : 0;
}

}  // namespace
}  // namespace tilec

int main(int argc, char** argv) { return tilec::Main(argc, argv); }
