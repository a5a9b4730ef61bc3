// Does the judge see what is wrong? mutation all | sample N: makes every mutant of the corpus (or
// every N-th; `file`: of a PTX file of anybody), runs each under a few schedules of execution, and
// prints what was caught, by what.
//
// The corpus: the kernels of tests/ptx as nvcc emits them, and kernels of the standard library. A
// mutant is caught if a check of severity error or portability speaks; it is caught rightly if that
// check is one of its kind's. Its place is right if what that check prints names, as an access, a
// waiter or a note, the changed line or one at most kNear lines from it; for our own kernels a
// place of the same line of the .tile source; or the mbarrier that the changed line is about (a
// deleted initialisation can be seen at a use of it only). Mutants that are the same program in
// other words are listed with the reason, by kind in kinds.def or one by one in equivalent.txt, and
// must not be called wrong. A mutant that nothing was seen of is run once more with a trap in front
// of the changed statement: where no execution comes to it, it is counted as unreached, not as
// missed. Launches that judged instructions of the changed line are never executed by are left out
// from the start.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "api/machine.h"
#include "runtime/emulator/judge/trace.h"
#include "support/file.h"
#include "tests/mutation/mutate.h"
#include "tools/subject.h"

namespace {

using namespace tilec;            // NOLINT: a test program
using namespace tilec::tools;     // NOLINT
using namespace tilec::mutation;  // NOLINT
namespace judge = runtime::judge;

struct Source {
  const char* name;
  const char* file;         // FILE:KERNEL, or PTX
  const char* words;        // NAME=VALUE …, or the launch file; several launches: between bars
  const char* schedule;     // of the compiler
  bool on_demand = false;   // with `of` alone: its equivalent mutants are not listed yet
  const char* target = "";  // of the compiler; "": its own default
  bool errors_only = false;
};
constexpr char kTwoSms[] = "tests/mutation/b200_two_sms.toml";
constexpr Source kSources[] = {
    {"nvcc gemm", "tests/ptx/gemm.ptx", "tests/ptx/gemm.toml", ""},
    {"nvcc attention", "tests/ptx/attention.ptx", "tests/ptx/attention.toml", ""},
    {"gemm", "std/matmul.tile:gemm", "M=128 N=128 K=1088 BM=128 BN=128 BK=64", "solve:once"},
    {"gemm, in order", "std/matmul.tile:gemm", "M=128 N=128 K=320 BM=128 BN=128 BK=64",
     "sequential"},
    {"attention", "std/attention.tile:attention",
     "B=1 H=1 G=1 S=128 L=1085 D=64 scale=0.125 BQ=128 BKV=64", "solve:once"},
    {"causal attention", "std/attention.tile:attention",
     "B=1 H=1 G=1 S=768 L=768 D=128 scale=0.088 BQ=128 BKV=64 causal=true", "solve"},
    {"gemm, 8 bits", "std/matmul_types.tile:gemm_e4m3", "M=128 N=128 K=2176", "solve:once"},
    {"blackwell gemm", "tests/ptx/blackwell_gemm.ptx",
     "tests/ptx/blackwell_gemm.toml | tests/mutation/blackwell_gemm_long.toml", "", true},
    {"blackwell pair", "tests/ptx/blackwell_pair.ptx", "tests/ptx/blackwell_pair.toml", "", true},
    {"blackwell attention", "tests/ptx/blackwell_attention.ptx",
     "tests/ptx/blackwell_attention.toml | tests/mutation/blackwell_attention_long.toml", "", true},
    {"blackwell mxfp8", "tests/ptx/blackwell_mxfp8.ptx",
     "tests/ptx/blackwell_mxfp8.toml | tests/mutation/blackwell_mxfp8_long.toml", "", true},
    {"blackwell nvfp4", "tests/ptx/blackwell_nvfp4.ptx",
     "tests/ptx/blackwell_nvfp4.toml | tests/mutation/blackwell_nvfp4_long.toml | "
     "tests/mutation/blackwell_nvfp4_more.toml",
     "", true},
    {"b200 gemm", "std/matmul.tile:gemm",
     "M=128 N=128 K=1088 BM=128 BN=128 BK=64 | M=128 N=128 K=704 BM=128 BN=128 BK=64", "solve:once",
     false, "b200"},
    {"b200 attention, one role", "std/attention.tile:attention",
     "B=1 H=2 G=1 S=200 L=381 D=128 scale=0.088 | B=1 H=1 G=1 S=128 L=669 D=128 scale=0.088 | "
     "B=1 H=2 G=1 S=200 L=200 D=128 scale=0.088",
     "solve", true, kTwoSms},
    {"b200 attention, two roles", "std/attention.tile:attention",
     "B=1 H=1 G=1 S=256 L=669 D=128 scale=0.088 BQ=256 BKV=64 | "
     "B=1 H=2 G=1 S=500 L=100 D=128 scale=0.088 BQ=256 BKV=64 | "
     "B=1 H=1 G=1 S=256 L=364 D=128 scale=0.088 BQ=256 BKV=64 | "
     "B=1 H=1 G=1 S=256 L=428 D=128 scale=0.088 BQ=256 BKV=64 | "
     "B=1 H=1 G=1 S=256 L=192 D=128 scale=0.088 BQ=256 BKV=64 | "
     "B=1 H=1 G=1 S=256 L=64 D=128 scale=0.088 BQ=256 BKV=64 | "
     "B=1 H=1 G=1 S=256 L=60 D=128 scale=0.088 BQ=256 BKV=64",
     "solve", true, kTwoSms},
    {"b200 causal attention", "std/attention.tile:attention",
     "B=1 H=2 G=1 S=512 L=512 D=128 scale=0.088 BQ=256 BKV=64 causal=true | "
     "B=1 H=1 G=1 S=300 L=200 D=128 scale=0.088 BQ=256 BKV=64 causal=true",
     "solve", true, kTwoSms},
    // Rows of scales at multiples of 16 bytes, which TMA copies, and at others, which threads load.
    {"b200 mxfp8", "std/models/block_scaled.tile:gemm_mxfp8",
     "M=128 N=384 K=1024 KB=32 | M=200 N=136 K=496 KB=16", "solve", true, kTwoSms},
    {"b200 odd mxfp8", "std/models/block_scaled.tile:gemm_mxfp8",
     "M=128 N=384 K=944 KB=30 | M=200 N=136 K=304 KB=10", "solve", true, kTwoSms},
    {"b200 nvfp4", "std/models/block_scaled.tile:gemm_nvfp4",
     "M=128 N=384 P=1024 KB=128 scale=0.5 | M=200 N=136 P=384 KB=48 scale=2.0", "solve", true,
     kTwoSms},
    {"b200 odd nvfp4", "std/models/block_scaled.tile:gemm_nvfp4",
     "M=128 N=384 P=1008 KB=126 scale=0.5 | M=200 N=136 P=304 KB=38 scale=2.0", "solve", true,
     kTwoSms},
    {"b200 gemm that stays", "std/matmul.tile:gemm",
     "M=256 N=512 K=640 BM=128 BN=128 BK=64 | M=200 N=200 K=200 BM=128 BN=128 BK=64",
     "solve:persistent", true, kTwoSms},
    {"b200 pair gemm", "tests/blackwell/pairs.tile:gemm",
     "M=512 N=256 K=264 BM=128 BN=128 BK=64 | M=200 N=136 K=72 BM=128 BN=128 BK=64",
     "solve:clusters", true, kTwoSms},
    {"pair ring", "tests/ptx/pair_ring.ptx", "tests/ptx/pair_ring.toml", "", true},
    {"pair multicast", "tests/ptx/pair_multicast.ptx", "tests/ptx/pair_multicast.toml", "", true},
    {"pair scaled", "tests/ptx/pair_scaled.ptx", "tests/ptx/pair_scaled.toml", "", true},
    {"threads only", "tests/ptx/threads_only.ptx", "tests/ptx/threads_only.toml", "", true},
    {"cluster copies", "tests/ptx/cluster_copies.ptx", "tests/ptx/cluster_copies.toml", "", true},
    // More tiles than CTAs: they stay.
    {"gemm that stays", "std/matmul.tile:gemm", "M=704 N=216 K=520 BM=64 BN=16 BK=64",
     "solve:persistent"},
};

struct Result1 {
  bool caught = false, rightly = false, by_value = false, identical = false, refused = false;
  bool reached = true;     // the launch executes the changed statement, if nothing was seen
  bool placed = false;     // at the right place
  bool has_place = false;  // a check spoke, not only the comparison of outputs
  std::string by;          // checks
};

constexpr int kNear = 25;

// The numbers behind every occurrence of `before` in a text.
std::vector<int> NumbersBehind(const std::string& text, const std::string& before) {
  std::vector<int> out;
  for (size_t at = text.find(before); at != std::string::npos; at = text.find(before, at + 1))
    out.push_back(std::atoi(text.c_str() + at + before.size()));
  return out;
}

// The .tile line of a line of PTX: the `.loc` before it. 0: none.
int TileLine(const std::string& ptx, int line) {
  size_t end = 0;
  for (int k = 1; k < line && end != std::string::npos; ++k) end = ptx.find('\n', end) + 1;
  const size_t loc = ptx.rfind("\t.loc\t", end);
  if (loc == std::string::npos) return 0;
  const size_t blank = ptx.find(' ', loc);
  return blank == std::string::npos ? 0 : std::atoi(ptx.c_str() + blank);
}

// Does the report lead to the changed line? `barrier`: the mbarrier it is about; negative: none.
bool RightPlace(const judge::Finding& f, const std::string& ptx, int line, int barrier) {
  const std::string text = judge::ToText(f);
  for (int named : NumbersBehind(text, ".ptx:"))
    if (std::abs(named - line) <= kNear) return true;
  for (int named : NumbersBehind(text, "mbarrier at shared offset "))
    if (named == barrier) return true;
  for (int named : NumbersBehind(text, "initialised at shared offset "))
    if (named == barrier) return true;
  for (const judge::Access& a : f.accesses)  // of a setmaxnreg the pair is another one
    if (f.rule == judge::Rule::kR1 && a.site.text.find("setmaxnreg") == 0) return true;
  const int tile = TileLine(ptx, line);
  for (int named : NumbersBehind(text, ".tile:"))
    if (tile != 0 && named == tile) return true;
  return false;
}

std::vector<std::string> Words(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string w; in >> w;) words.push_back(w);
  return words;
}

struct Plan {
  runtime::Policy policy;
  runtime::Landing landing;
  uint64_t seed;
  bool spurious = false;  // try_wait fails now and then, and lanes are left behind there
};
constexpr Plan kPlans[] = {{runtime::Policy::kRunToBlock, runtime::Landing::kEarly, 0},
                           {runtime::Policy::kConsumerFirst, runtime::Landing::kPoison, 0},
                           {runtime::Policy::kProducerFirst, runtime::Landing::kLate, 0},
                           {runtime::Policy::kRandom, runtime::Landing::kRandom, 1},
                           {runtime::Policy::kConsumerFirst, runtime::Landing::kEarly, 2, true},
                           {runtime::Policy::kProducerFirst, runtime::Landing::kLate, 9, true},
                           {runtime::Policy::kPct, runtime::Landing::kEarly, 13, true}};

class Corpus {
 public:
  Corpus(const Source& source, const std::string& root, const std::string& cache)
      : source_(source) {
    options_.schedule = *source.schedule != 0 ? source.schedule : "sequential";
    options_.cache_dir = cache;
    const std::string target = source.target;  // a file is one of the checkout
    if (!target.empty())
      options_.target = target.find('/') == target.npos ? target : root + "/" + target;
    session_ = std::make_unique<Session>(options_);
    root_ = root;
  }

  bool Open() {
    std::istringstream words(source_.words);
    for (std::string one; std::getline(words, one, '|');)
      if (!Add(one)) return false;
    return true;
  }

  const std::string& ptx() const { return ptx_; }

  Result1 Try(const Mutant& mutant) {
    const std::string text = Apply(ptx_, mutant);
    Result1 r;
    if (KnownUnreached(mutant, seen_)) {
      r.reached = false;
      return r;
    }
    r.identical = true;
    barrier_ = kNotAsked;
    for (const Plan& plan : kPlans)
      for (Launched& launch : launches_) {
        if (r.rightly || r.refused || KnownUnreached(mutant, launch.lines)) continue;
        launch.subject->Rewrite([&](const std::string&) { return text; });
        TryOnce(mutant, plan, launch, &r);
      }
    // A wait that is not tried again is seen where it fails, and a warp that does not meet where a
    // lane is left behind: both are chance.
    const std::string_view kind = Kinds()[mutant.kind].name;
    const bool chance = kind == "BranchDeleted" || kind == "WarpBarrier";
    for (uint64_t seed = kOften; chance && seed < 2 * kOften; ++seed)
      for (Launched& launch : launches_) {
        if (r.caught || r.by_value || r.refused || KnownUnreached(mutant, launch.lines)) continue;
        launch.subject->Rewrite([&](const std::string&) { return text; });
        TryOnce(mutant, {runtime::Policy::kProducerFirst, runtime::Landing::kLate, seed, true},
                launch, &r);
      }
    if (!r.caught && !r.by_value && !r.refused) r.reached = Reached(mutant);
    return r;
  }

 private:
  static constexpr int kNotAsked = -2;
  static constexpr uint64_t kOften = 24;  // more orders
  struct Launched {
    std::unique_ptr<Subject> subject;
    Subject::Outcome reference;
    std::set<int> lines;  // of the text: judged instructions that some order comes to
  };

  // Judged instructions are seen to be executed; of others a trap tells.
  bool KnownUnreached(const Mutant& mutant, const std::set<int>& lines) const {
    const auto away = [&](int line) { return lines.count(line) == 0; };
    const std::string& was = mutant.before;
    const size_t blank = was[0] == '@' ? was.find(' ') + 1 : 0;
    const std::string opcode = was.substr(blank, was.find_first_of(" \t", blank) - blank);
    return judged_.count(opcode) != 0 && away(mutant.line);
  }

  // One launch of the program: its right outputs, and nothing found.
  bool Add(const std::string& words) {
    DiagSink& diags = session_->diags();
    const std::string file = source_.file;
    const std::string folder = root_.empty() ? "" : root_ + "/";
    Launched launch;
    if (file.substr(file.size() - 4) == ".ptx") {
      std::string text, why;
      if (!ReadFile(folder + file, &text, &why)) return false;
      auto read = ReadLaunchFile(folder + Words(words)[0], diags);
      if (!read.ok()) return false;
      auto subject = PtxSubject(*session_, file, text, *read);
      if (!subject.ok()) return false;
      launch.subject = std::move(*subject);
    } else {
      auto given = ParseAssignments(Words(words), diags);
      auto kernel = session_->LoadKernel(file.rfind("tests/", 0) == 0 ? folder + file : file);
      if (!given.ok() || !kernel.ok()) return false;
      auto subject = KernelSubject(*session_, *kernel, *given);
      if (!subject.ok()) return false;
      launch.subject = std::move(*subject);
    }
    std::string ptx;
    launch.subject->Rewrite([&](const std::string& text) { return ptx = text; });
    auto report = std::make_shared<judge::Report>();
    const auto trace = std::make_shared<judge::Trace>();
    report->SetTrace(trace);
    for (const Plan& plan : kPlans) {
      auto outcome = Run(*launch.subject, plan, report);
      if (!outcome || report->Count(judge::Severity::kError) != 0)
        return fmt::print("{}: the original is not silent\n{}", source_.name,
                          judge::ToText(report->findings())),
               false;
      if (launch.reference.outputs.empty()) launch.reference = std::move(*outcome);
      if (!Same(*outcome, launch.reference))
        return fmt::print("{}: orders of execution give different outputs\n", source_.name), false;
    }
    if (!ptx_.empty() && ptx != ptx_)
      return fmt::print("{}: another program is launched with {}\n", source_.name, words), false;
    ptx_ = std::move(ptx);
    for (const auto& [pc, site] : trace->sites) {
      launch.lines.insert(site.line);
      seen_.insert(site.line);
      judged_.insert(site.text.substr(0, site.text.find_first_of(" \t")));
    }
    launches_.push_back(std::move(launch));
    return true;
  }

  void TryOnce(const Mutant& mutant, const Plan& plan, const Launched& launch, Result1* result) {
    Result1& r = *result;
    const Kind& kind = Kinds()[mutant.kind];
    auto report = std::make_shared<judge::Report>();
    auto outcome = Run(*launch.subject, plan, report);
    if (outcome) {
      const bool same = Same(*outcome, launch.reference);
      r.identical = r.identical && same;
      r.by_value = r.by_value || !same;
      // `tilec check` compares with the reference too; for some mistakes that is the check.
      if (!same && Accepts(kind, "output")) r.caught = r.rightly = true;
    } else if (report->findings().empty()) {
      r.refused = true;  // does not load
      return;
    } else {
      r.identical = false;
    }
    for (const judge::Finding& f : report->findings()) {
      if (f.severity == judge::Severity::kHint) continue;
      // Of a kernel whose right form may be told that it is not portable.
      if (source_.errors_only && f.severity != judge::Severity::kError) continue;
      const std::string id = judge::Def(f.rule).id;
      r.caught = true;
      if (r.by.find(id) == std::string::npos) r.by += (r.by.empty() ? "" : " ") + id;
      if (!Accepts(kind, id)) continue;
      r.rightly = r.has_place = true;
      if (!r.placed && barrier_ == kNotAsked) barrier_ = BarrierOf(mutant);
      r.placed = r.placed || RightPlace(f, ptx_, mutant.line, barrier_);
    }
  }

  // Does any of the executions come to the statement? A trap in front of it tells.
  bool Reached(const Mutant& mutant) {
    const std::string text = Apply(ptx_, TrapBefore(mutant));
    for (Launched& launch : launches_) {
      launch.subject->Rewrite([&](const std::string&) { return text; });
      for (const Plan& plan : kPlans)
        if (!Run(*launch.subject, plan, std::make_shared<judge::Report>())) return true;
    }
    return false;
  }

  // The mbarrier that a statement is about: initialised once more in front of it, the emulator says
  // where it is. -1: it is about none.
  int BarrierOf(const Mutant& mutant) {
    const std::optional<Mutant> twice = InitialisedTwice(mutant);
    if (!twice) return -1;
    const std::string text = Apply(ptx_, *twice);
    Subject& subject = *launches_[0].subject;
    const auto outer = subject.rewrite();
    subject.Rewrite([&](const std::string&) { return text; });
    auto report = std::make_shared<judge::Report>();
    Run(subject, kPlans[0], report);
    subject.Rewrite(outer);
    for (const judge::Finding& f : report->findings())
      if (f.rule == judge::Rule::kS9)
        for (int offset : NumbersBehind(f.message, "mbarrier at shared offset ")) return offset;
    return -1;
  }

  std::optional<Subject::Outcome> Run(Subject& subject, const Plan& plan,
                                      std::shared_ptr<judge::Report> report) {
    runtime::EmulatorOptions o;
    o.policy = plan.policy;
    o.landing = plan.landing;
    o.seed = plan.seed;
    o.spurious_try_wait = plan.spurious;
    o.check = runtime::EmulatorOptions::Check::kOn;
    o.report = std::move(report);
    o.instruction_limit = 3'000'000;
    if (*source_.target != 0)
      if (const auto machine = session_->Machine(); machine.ok())
        o.machine = api::LimitsOf(**machine);
    const auto device = runtime::OpenEmulator(o);
    auto outcome = subject.Run(*device);
    session_->diags().Clear();
    if (!outcome.ok()) return std::nullopt;
    return std::move(*outcome);
  }
  static bool Same(const Subject::Outcome& outcome, const Subject::Outcome& reference) {
    for (const auto& [name, value] : outcome.outputs)
      if (value.ToBytes() != reference.outputs.at(name).ToBytes()) return false;
    return true;
  }

  const Source source_;
  tools::Options options_;
  std::string root_, ptx_;
  std::unique_ptr<Session> session_;
  std::vector<Launched> launches_;
  int barrier_ = kNotAsked;       // that the mutant is about
  std::set<int> seen_;            // lines of all launches
  std::set<std::string> judged_;  // opcodes
};

struct Tally {
  int mutants = 0, equivalent = 0, unreached = 0, refused = 0, caught = 0, rightly = 0,
      by_value = 0, missed = 0, identical = 0, placed = 0, has_place = 0;
};

// Lines "SOURCE<tab>KIND#N<tab>reason": the N-th mutant of a kind in a source, from 1.
std::map<std::string, std::string> ReadEquivalent(const std::string& path) {
  std::map<std::string, std::string> all;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    const size_t tab = line.rfind('\t');
    if (tab != std::string::npos) all[line.substr(0, tab)] = line.substr(tab + 1);
  }
  return all;
}

// `only`: sources whose name begins so; "": all.
// `file`: this source in place of the table's, with equivalent mutants of its own.
// `strict`: a mutant that is reached and neither caught nor listed is a failure.
// `some`: of these alone, KIND#N each. `from`: the first of those that are every `step`-th.
int Main(size_t step, const std::string& root, const std::string& cache, std::string_view only,
         const Source* file = nullptr, const std::string& list = "", bool strict = false,
         const std::set<std::string>& some = {}, size_t from = 0) {
  const auto start = std::chrono::steady_clock::now();
  const auto equivalent =
      ReadEquivalent(file != nullptr ? list : root + "/tests/mutation/equivalent.txt");
  std::set<std::string> met, asked;  // of the table; sources
  std::map<std::string, Tally> by_kind;
  Tally sum;
  int wrong = 0, unexplained = 0;
  size_t number = 0;
  const std::vector<Source> sources =
      file != nullptr ? std::vector<Source>{*file}
                      : std::vector<Source>(std::begin(kSources), std::end(kSources));
  for (const Source& source : sources) {
    if (std::string_view(source.name).substr(0, only.size()) != only) continue;
    if (only.empty() && source.on_demand) continue;
    asked.insert(source.name);
    Corpus corpus(source, root, cache);
    if (!corpus.Open()) return fmt::print("{}: cannot be run\n", source.name), 1;
    std::map<size_t, int> of_kind;
    for (const Mutant& m : Mutants(corpus.ptx())) {
      const int nth = ++of_kind[m.kind];
      const Kind& kind = Kinds()[m.kind];
      const std::string key = fmt::format("{}\t{}#{}", source.name, kind.name, nth);
      const bool listed = equivalent.count(key) != 0;
      if (listed) met.insert(key);
      if (!some.empty() && some.count(key.substr(key.find('\t') + 1)) == 0) continue;
      if (number++ % step != from) continue;
      Tally& t = by_kind[kind.name];
      for (Tally* x : {&t, &sum}) ++x->mutants;
      const Result1 r = corpus.Try(m);
      const bool same =
          *kind.equivalent != 0 || listed || ShownEquivalent(corpus.ptx(), m) != nullptr;
      const std::string what = fmt::format("{}:{} {}#{} `{}`", source.name, m.line, kind.name, nth,
                                           m.before.substr(0, 90));
      for (Tally* x : {&t, &sum}) {
        if (same)
          ++x->equivalent;
        else if (r.refused)  // by the reader, with its line
          ++x->refused, ++x->caught, ++x->rightly;
        else if (r.caught)
          ++x->caught, x->rightly += r.rightly, x->identical += r.identical, x->placed += r.placed,
              x->has_place += r.has_place;
        else if (r.by_value)
          ++x->by_value;
        else if (!r.reached)
          ++x->unreached;
        else
          ++x->missed;
      }
      if (same && (r.caught || r.by_value)) {
        ++wrong;
        fmt::print("NOT EQUIVALENT {}: {}\n", what, r.by);
      } else if (!same && r.caught && !r.rightly) {
        fmt::print("by another check {}: {}\n", what, r.by);
      } else if (!same && r.has_place && !r.placed) {
        fmt::print("another place {}: {}\n", what, r.by);
      } else if (!same && !r.caught && !r.refused) {
        unexplained += r.reached || r.by_value;
        fmt::print("{} {}\n",
                   r.by_value  ? "only by value"
                   : r.reached ? "MISSED"
                               : "not reached",
                   what);
      }
    }
  }
  for (const auto& [key, reason] : equivalent) {
    if (met.count(key) != 0 || asked.count(key.substr(0, key.find('\t'))) == 0) continue;
    ++wrong;
    fmt::print("equivalent.txt names what there is not: {}\n", key);
  }
  fmt::print("\n{:<20} {:>8} {:>6} {:>8} {:>7} {:>8} {:>11} {:>9} {:>7} {:>10}\n", "kind",
             "mutants", "equal", "unreached", "caught", "rightly", "right place", "by value",
             "missed", "identical");
  by_kind["(all)"] = sum;
  for (const auto& [name, t] : by_kind)
    fmt::print("{:<20} {:>8} {:>6} {:>8} {:>7} {:>8} {:>11} {:>9} {:>7} {:>10}\n", name, t.mutants,
               t.equivalent, t.unreached, t.caught, t.rightly,
               fmt::format("{}/{}", t.placed, t.has_place), t.by_value, t.missed, t.identical);
  const int counted = sum.mutants - sum.equivalent - sum.unreached;
  const double rate = counted > 0 ? 100.0 * sum.caught / counted : 0;
  const double rightly = counted > 0 ? 100.0 * sum.rightly / counted : 0;
  const double placed = sum.has_place > 0 ? 100.0 * sum.placed / sum.has_place : 0;
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  fmt::print(
      "{} mutants that are other programs and run: {:.1f} % caught, {:.1f} % by the right check, "
      "{:.1f} % "
      "of "
      "those that a check names at the right place; {} of the caught had the right output bit for "
      "bit; {:.0f} s\n",
      counted, rate, rightly, placed, sum.identical, spent.count());
  if (strict && unexplained != 0) {
    ++wrong;
    fmt::print("{} were not caught and are not said to be equivalent\n", unexplained);
  }
  // Fewer name the place where only errors count, or where what an allocation lacks is seen at its
  // uses.
  return wrong == 0 && rightly >= 95 && placed >= (file != nullptr || strict ? 90 : 95) ? 0 : 1;
}

// The text that the mutants of a source are made of.
int Print(std::string_view name, const std::string& root, const std::string& cache) {
  for (const Source& source : kSources) {
    if (name != source.name) continue;
    Corpus corpus(source, root, cache);
    if (!corpus.Open()) return 1;
    fmt::print("{}", corpus.ptx());
    return 0;
  }
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string word = argc > 1 ? argv[1] : "";
  if (word == "all" && argc == 4) return Main(1, argv[2], argv[3], "");
  if (word == "of" && argc == 6)
    return Main(std::strtoul(argv[3], nullptr, 10), argv[4], argv[5], argv[2]);
  if (word == "strict" && argc == 6) {  // every N-th, or N+K: from another one on
    char* end = nullptr;
    const size_t step = std::strtoul(argv[3], &end, 10);
    const size_t from = *end == '+' ? std::strtoul(end + 1, nullptr, 10) % step : 0;
    return Main(step, argv[4], argv[5], argv[2], nullptr, "", true, {}, from);
  }
  if (word == "print" && argc == 5) return Print(argv[2], argv[3], argv[4]);
  if (word == "some" && argc == 6) {  // of a file, a mutant a line
    std::set<std::string> some;
    std::ifstream in(argv[3]);
    for (std::string one; in >> one;) some.insert(one);
    return Main(1, argv[4], argv[5], argv[2], nullptr, "", true, some);
  }
  if (word == "sample" && argc == 5)
    return Main(std::strtoul(argv[2], nullptr, 10), argv[3], argv[4], "");
  if (word == "file" && argc == 8) {
    const bool errors = std::string_view(argv[6]) == "errors";
    const Source file = {argv[2], argv[3], argv[4], "", true, "", errors};
    return Main(1, "", argv[7], argv[2], &file, argv[5]);
  }
  fmt::print(stderr,
             "mutation all ROOT CACHE | mutation sample N ROOT CACHE | "
             "mutation of|strict SOURCE N ROOT CACHE | mutation print SOURCE ROOT CACHE | "
             "mutation some SOURCE LIST ROOT CACHE | "
             "mutation file NAME FILE.ptx LAUNCH.toml LIST all|errors CACHE\n");
  return 2;
}
