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

#include "tests/mutation/corpus.h"
#include "tests/mutation/mutate.h"
#include "tools/subject.h"

namespace {

constexpr char kTwoSms[] = "tests/mutation/b200_two_sms.toml";
constexpr char kTwoSmsOfH200[] = "tests/mutation/h200_two_sms.toml";
constexpr Source kSources[] = {
    {"nvcc gemm", "tests/ptx/gemm.ptx", "tests/ptx/gemm.toml", ""},
    {"nvcc attention", "tests/ptx/attention.ptx", "tests/ptx/attention.toml", ""},
    {"gemm", "std/matmul.tile:gemm", "M=128 N=128 K=1088 BM=128 BN=128 BK=64", "solve:once"},
    {"gemm, in order", "std/matmul.tile:gemm", "M=128 N=128 K=320 BM=128 BN=128 BK=64",
     "sequential"},
    {"attention", "std/attention.tile:attention",
     "B=1 H=1 G=1 S=128 L=1085 D=64 scale=0.125 BQ=128 BKV=64", "solve:once"},
    {"causal attention", "std/attention.tile:attention",
     "B=1 H=1 G=1 S=768 L=768 D=128 scale=0.088 BQ=128 BKV=64 causal=true", "solve:once"},
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
    // Two launches: marks are written by the first and read by the second, with tiles that have
    // them and without; products of one reference a row, and those that are made again.
    {"one reference", "std/attention.tile:attention",
     "B=1 H=3 G=1 S=500 L=604 D=128 scale=0.088 ONCE=1 | "
     "B=1 H=2 G=1 S=500 L=330 D=128 scale=9.0 ONCE=1",
     "solve", true, kTwoSmsOfH200, false, 1},
    {"made again", "std/attention.tile:attention",
     "B=1 H=3 G=1 S=500 L=600 D=128 scale=0.088 ONCE=1 | "
     "B=1 H=2 G=1 S=500 L=600 D=128 scale=9.0 ONCE=1",
     "solve", true, kTwoSmsOfH200, false, 2},
    {"unlikely rows", "tests/exec/unlikely.tile:small_softmax", "B=2 M=19 N=100", "solve", true, "",
     false, 1},
    {"unlikely rows again", "tests/exec/unlikely.tile:small_softmax", "B=2 M=19 N=100", "solve",
     true, "", false, 2},
    {"unlikely product", "tests/exec/unlikely.tile:halved", "M=700 N=50 K=1400", "solve", true,
     kTwoSmsOfH200, false, 1},
    // Parts of a tile by CTAs that are no cluster, and their sum.
    {"parts", "std/matmul.tile:gemm", "M=130 N=72 K=4300 BM=64 BN=64 BK=64", "solve:split=4:apart",
     true, "", false, 1},
    {"parts together", "std/matmul.tile:gemm", "M=130 N=72 K=4300 BM=64 BN=64 BK=64",
     "solve:split=4:apart", true, "", false, 2},
    {"parts that share copies", "std/matmul.tile:gemm", "M=130 N=72 K=4304 BM=64 BN=64 BK=64",
     "solve:clusters:split=4:apart", true, "", false, 1},
    // Parts of attention, which CTAs send to one another: largest values and sums, then columns.
    {"attention in parts", "std/attention.tile:attention",
     "B=1 H=1 G=1 S=1 L=2301 D=64 scale=0.125 BQ=16 BKV=64 | "
     "B=1 H=1 G=1 S=1 L=130 D=64 scale=0.125 BQ=16 BKV=64",
     "solve:split=2", true},
    {"row in pieces", "std/softmax.tile:softmax_bf16", "R=2 C=10007 SHARES=8", "solve", true},
    {"block sparse", "std/models/sparse.tile:block_sparse", "M=40 K=256 J=5 E=4 N=192 BM=64",
     "solve", true},
    // More tiles than CTAs: they stay.
    {"gemm that stays", "std/matmul.tile:gemm", "M=704 N=216 K=520 BM=64 BN=16 BK=64",
     "solve:persistent"},
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

// What is asked of the mutants.
struct Wanted {
  std::string root, cache;
  std::string_view only = "";       // sources whose name begins so; "": all
  size_t step = 1, from = 0;        // of those that are every `step`-th, from this one on
  bool strict = false;              // one that is reached, not caught and not listed is a failure
  std::set<std::string> some = {};  // of these alone, KIND#N each
  const Source* file = nullptr;     // this source in place of the table's …
  std::string list = "";            // … with equivalent mutants of its own
};

// Counts what became of a mutant; `same`: it is another text of the same program.
void Count(const Result1& r, bool same, Tally* x) {
  ++x->mutants;
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

// Prints the table, and gives what share of the mutants was caught by the right check, and at the
// right place, in percent.
struct Shares {
  double rightly = 0, placed = 0;
};
Shares PrintTallies(const std::map<std::string, Tally>& by_kind, double seconds) {
  const Tally& sum = by_kind.at("(all)");
  fmt::print("\n{:<20} {:>8} {:>6} {:>8} {:>7} {:>8} {:>11} {:>9} {:>7} {:>10}\n", "kind",
             "mutants", "equal", "unreached", "caught", "rightly", "right place", "by value",
             "missed", "identical");
  for (const auto& [name, t] : by_kind)
    fmt::print("{:<20} {:>8} {:>6} {:>8} {:>7} {:>8} {:>11} {:>9} {:>7} {:>10}\n", name, t.mutants,
               t.equivalent, t.unreached, t.caught, t.rightly,
               fmt::format("{}/{}", t.placed, t.has_place), t.by_value, t.missed, t.identical);
  const int counted = sum.mutants - sum.equivalent - sum.unreached;
  const double rate = counted > 0 ? 100.0 * sum.caught / counted : 0;
  const double rightly = counted > 0 ? 100.0 * sum.rightly / counted : 0;
  const double placed = sum.has_place > 0 ? 100.0 * sum.placed / sum.has_place : 0;
  fmt::print(
      "{} mutants that are other programs and run: {:.1f} % caught, {:.1f} % by the right check, "
      "{:.1f} % of those that a check names at the right place; {} of the caught had the right "
      "output bit for bit; {:.0f} s\n",
      counted, rate, rightly, placed, sum.identical, seconds);
  return {rightly, placed};
}

int Main(const Wanted& w) {
  const auto start = std::chrono::steady_clock::now();
  const auto equivalent =
      ReadEquivalent(w.file != nullptr ? w.list : w.root + "/tests/mutation/equivalent.txt");
  std::set<std::string> met, asked;  // of the table; sources
  std::map<std::string, Tally> by_kind;
  int wrong = 0, unexplained = 0;
  size_t number = 0;
  const std::vector<Source> sources =
      w.file != nullptr ? std::vector<Source>{*w.file}
                        : std::vector<Source>(std::begin(kSources), std::end(kSources));
  for (const Source& source : sources) {
    if (std::string_view(source.name).substr(0, w.only.size()) != w.only) continue;
    if (w.only.empty() && source.on_demand) continue;
    asked.insert(source.name);
    Corpus corpus(source, w.root, w.cache);
    if (!corpus.Open()) return fmt::print("{}: cannot be run\n", source.name), 1;
    std::map<size_t, int> of_kind;
    for (const Mutant& m : Mutants(corpus.ptx())) {
      const int nth = ++of_kind[m.kind];
      const Kind& kind = Kinds()[m.kind];
      const std::string key = fmt::format("{}\t{}#{}", source.name, kind.name, nth);
      const bool listed = equivalent.count(key) != 0;
      if (listed) met.insert(key);
      if (!w.some.empty() && w.some.count(key.substr(key.find('\t') + 1)) == 0) continue;
      if (number++ % w.step != w.from) continue;
      const Result1 r = corpus.Try(m);
      const bool same =
          *kind.equivalent != 0 || listed || ShownEquivalent(corpus.ptx(), m) != nullptr;
      const std::string what = fmt::format("{}:{} {}#{} `{}`", source.name, m.line, kind.name, nth,
                                           m.before.substr(0, 90));
      for (const char* of : {kind.name, "(all)"}) Count(r, same, &by_kind[of]);
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
  by_kind["(all)"];
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  const Shares shares = PrintTallies(by_kind, spent.count());
  if (w.strict && unexplained != 0) {
    ++wrong;
    fmt::print("{} were not caught and are not said to be equivalent\n", unexplained);
  }
  // Fewer name the place where only errors count, or where what an allocation lacks is seen at its
  // uses.
  const double least_placed = w.file != nullptr || w.strict ? 90 : 95;
  return wrong == 0 && shares.rightly >= 95 && shares.placed >= least_placed ? 0 : 1;
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
  if (word == "all" && argc == 4) return Main({.root = argv[2], .cache = argv[3]});
  if (word == "of" && argc == 6)
    return Main({.root = argv[4],
                 .cache = argv[5],
                 .only = argv[2],
                 .step = std::strtoul(argv[3], nullptr, 10)});
  if (word == "strict" && argc == 6) {  // every N-th, or N+K: from another one on
    char* end = nullptr;
    const size_t step = std::strtoul(argv[3], &end, 10);
    const size_t from = *end == '+' ? std::strtoul(end + 1, nullptr, 10) % step : 0;
    return Main({.root = argv[4],
                 .cache = argv[5],
                 .only = argv[2],
                 .step = step,
                 .from = from,
                 .strict = true});
  }
  if (word == "print" && argc == 5) return Print(argv[2], argv[3], argv[4]);
  if (word == "some" && argc == 6) {  // of a file, a mutant a line
    std::set<std::string> some;
    std::ifstream in(argv[3]);
    for (std::string one; in >> one;) some.insert(one);
    return Main({.root = argv[4], .cache = argv[5], .only = argv[2], .strict = true, .some = some});
  }
  if (word == "sample" && argc == 5)
    return Main({.root = argv[3], .cache = argv[4], .step = std::strtoul(argv[2], nullptr, 10)});
  if (word == "file" && argc == 8) {
    const bool errors = std::string_view(argv[6]) == "errors";
    const Source file = {argv[2], argv[3], argv[4], "", true, "", errors};
    return Main({.cache = argv[7], .only = argv[2], .file = &file, .list = argv[5]});
  }
  fmt::print(stderr,
             "mutation all ROOT CACHE | mutation sample N ROOT CACHE | "
             "mutation of|strict SOURCE N ROOT CACHE | mutation print SOURCE ROOT CACHE | "
             "mutation some SOURCE LIST ROOT CACHE | "
             "mutation file NAME FILE.ptx LAUNCH.toml LIST all|errors CACHE\n");
  return 2;
}
