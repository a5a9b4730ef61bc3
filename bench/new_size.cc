// What a call costs whose size is new: products and attention with the sizes of a serving trace
// (bench/serving_trace.h), in two passes over it. After Kernel::Prepare for the ranges that the
// trace is drawn from: how long the host takes for a call, less the driver's own launch. Without:
// how long the worst call takes, which chooses, solves, proves, compiles and loads. Then some calls
// are made again in a fresh process each, in another order, and the results compared bit for bit.
//
//   new_size                     on a GPU, or a stand-in named libcuda.so.1 on the loader's path
//                                (bench/CMakeLists.txt), which leaves the host's part alone
//   new_size --emulate           results only, of small sizes on the emulator
//   new_size --layers=1          no size is called again for other layers of a model
//   new_size --small             the costs of small sizes: soon prepared
//   new_size --apart             of sizes not seen before, what is ours and what the first launch
//                                takes
//   new_size --cache=FOLDER      keeps programs there; what is not prepared comes from there again
//   new_size --no-prepare        that alone
//   new_size --known=N           N calls of new sizes of a few classes that were called before:
//                                soon there, and how long the host takes is all it tells
//   new_size --each              each cold call: clock, processor time of all threads, and that of
//                                processes they waited for (ptxas)
//   new_size --slack=N           fails where a number is above N times what was promised
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "bench/bare_launch.h"
#include "bench/serving_trace.h"
#include "include/tilec/tilec.h"
#include "support/diag.h"

namespace {

using namespace tilec;
using bench::ServedCall;

// Promised: microseconds after Prepare, milliseconds of the first call of a class without it.
constexpr double kMedianUs = 2, kMostOf99Us = 50, kWorstUs = 2000, kColdMs = 300;
constexpr double kNothing = 0;  // promised

struct Options {
  int calls = 10000, cold = 300, layers = 32, fresh = 4, threads = 0, known = 0;
  uint64_t seed = 1;
  double slack = 0;
  bool cpu = false, emulate = false, small = false, no_results = false;
  bool apart = false, no_prepare = false, each = false;
  std::string cache, ptxas = "auto";
  std::string tune = "classes", only;  // only: the place of a call in the trace of a fresh process
};

bool Say(const std::string& text) {
  std::fputs(text.c_str(), stderr);
  return false;
}

std::string Fnv1a(const std::vector<uint8_t>& bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const uint8_t b : bytes) hash = (hash ^ b) * 0x100000001b3;
  return fmt::format("{:016x}", hash);
}

std::string Text(const ServedCall& c) {
  return c.attention
             ? fmt::format("attention B {} S {} L {}{}", c.b, c.s, c.l, c.causal ? " causal" : "")
             : fmt::format("gemm M {} N {} K {}", c.m, c.n, c.k);
}

class Server {
 public:
  explicit Server(const Options& o) : options_(o) {
    if (o.small) limits_ = {64, 256, 64, 2, 512, 1};
    if (o.emulate) limits_ = {256, 300, 160, 4, 600, 64}, heads_ = 4, groups_ = 2;
    // A model's step calls the same sizes for each of its layers.
    const std::vector<ServedCall> drawn =
        ServingTrace((o.calls + o.layers - 1) / o.layers, o.seed, limits_);
    // Layers take turns with those of a few other steps, as streams of one server do.
    constexpr size_t kSteps = 8;
    for (size_t i = 0; i < drawn.size(); i += kSteps)
      for (int layer = 0; layer < o.layers; ++layer)
        for (size_t s = i; s < std::min(drawn.size(), i + kSteps); ++s) trace_.push_back(drawn[s]);
    trace_.resize(std::min(trace_.size(), static_cast<size_t>(o.calls)));
  }

  bool Open() {
    auto device = Device::Open(options_.emulate ? "emulator" : "cuda:0");
    if (!device.ok()) return Say(device.status().text());
    device_.emplace(*std::move(device));
    const auto memory = device_->Alloc(kPlaces * PlaceBytes());
    if (!memory.ok()) return Say(memory.status().text());
    memory_ = *memory;
    if (!options_.emulate) {
      auto bare = bench::BareDriver::Open(diags_);
      if (!bare.ok()) return Say("no driver\n");
      bare_ = *std::move(bare);
    }
    return Compilers();
  }

  const std::vector<ServedCall>& trace() const { return trace_; }

  bool Run() {
    std::set<ServedCall> sizes(trace_.begin(), trace_.end());
    fmt::print("{}; {} calls of {} sizes, {} layers, seed {}, {} clock\n", device_->description(),
               trace_.size(), sizes.size(), options_.layers, options_.seed,
               options_.cpu ? "the thread's" : "wall");
    if (options_.known > 0) return Known() && held_;
    return (options_.emulate || ((options_.no_prepare || Prepared()) && NotPrepared())) &&
           (options_.no_results || Fresh()) && held_;
  }

  // The result of the call at `place`, as a hash.
  std::string ResultOf(size_t place) {
    const ServedCall& c = trace_[place];
    uint64_t state = options_.seed * 977 + 13;
    std::vector<uint8_t> bytes(Bytes(c, kPlaces - 1));
    for (int at = 0; at + 1 < kPlaces; ++at) {
      std::vector<uint16_t> in(Bytes(c, at) / 2);  // bf16 in −2 … 2
      for (uint16_t& v : in) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        const float f = static_cast<float>(static_cast<int64_t>(state >> 33) % 256 - 128) / 64.0f;
        uint32_t u = 0;
        std::memcpy(&u, &f, 4);
        v = static_cast<uint16_t>(u >> 16);
      }
      if (!in.empty() && !device_->CopyIn(Place(at), in.data(), 2 * in.size()).ok()) return "";
    }
    const Status launched = Launch(c);
    if (!launched.ok()) return Say(launched.text()), "";
    if (!device_->Synchronize().ok() ||
        !device_->CopyOut(bytes.data(), Place(kPlaces - 1), bytes.size()).ok())
      return "";
    return Fnv1a(bytes);
  }

 private:
  static constexpr int kPlaces = 4;  // three inputs, then the output
  uint64_t PlaceBytes() const { return options_.emulate ? uint64_t{1} << 24 : uint64_t{5} << 27; }
  uint64_t Place(int i) const { return memory_ + static_cast<uint64_t>(i) * PlaceBytes(); }

  uint64_t Bytes(const ServedCall& c, int place) const {
    const int64_t product[] = {c.m * c.k, c.n * c.k, 0, c.m * c.n};
    const int64_t queries = c.b * heads_ * c.s * head_dim_, keys = c.b * groups_ * c.l * head_dim_;
    const int64_t attention[] = {queries, keys, keys, queries};
    return 2 * static_cast<uint64_t>((c.attention ? attention : product)[place]);
  }

  bool Compilers() {
    CompilerOptions options;
    options.disk_cache = !options_.cache.empty();
    options.cache_dir = options_.cache;
    options.ptxas = options_.ptxas;
    options.tune = options_.tune;
    auto compiler = Compiler::Create(options);
    if (!compiler.ok()) return Say(compiler.status().text());
    auto gemm = compiler->Compile("std/matmul.tile", "gemm");
    auto attention = compiler->Compile("std/attention.tile", "attention");
    if (!gemm.ok() || !attention.ok()) return Say(gemm.status().text() + attention.status().text());
    gemm_.emplace(*std::move(gemm));
    attention_.emplace(*std::move(attention));
    return true;
  }

  Args ArgsOf(const ServedCall& c) const {
    const auto at = [&](int place, std::vector<int64_t> dims) {
      return Tensor{DType::kBF16, Place(place), std::move(dims), {}};
    };
    if (!c.attention)
      return Args()
          .Set("A", at(0, {c.m, c.k}))
          .Set("B", at(1, {c.n, c.k}))
          .Set("C", at(3, {c.m, c.n}));
    return Args()
        .Set("Q", at(0, {c.b, heads_, c.s, head_dim_}))
        .Set("K", at(1, {c.b, groups_, c.l, head_dim_}))
        .Set("V", at(2, {c.b, groups_, c.l, head_dim_}))
        .Set("O", at(3, {c.b, heads_, c.s, head_dim_}))
        .Set("scale", 0.0883883)
        .Set("causal", c.causal);
  }
  Kernel& KernelOf(const ServedCall& c) { return c.attention ? *attention_ : *gemm_; }
  Status Launch(const ServedCall& c) { return KernelOf(c).Launch(*device_, ArgsOf(c), 0); }

  double Now() const {
    timespec t;
    clock_gettime(options_.cpu ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return 1e6 * static_cast<double>(t.tv_sec) + 1e-3 * static_cast<double>(t.tv_nsec);
  }

  static double Wall() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e6 * static_cast<double>(t.tv_sec) + 1e-3 * static_cast<double>(t.tv_nsec);
  }
  // Processor milliseconds of this process, or of those it waited for.
  static double Spent(int who) {
    rusage used{};
    getrusage(who, &used);
    const auto ms = [](const timeval& t) {
      return 1e3 * static_cast<double>(t.tv_sec) + 1e-3 * static_cast<double>(t.tv_usec);
    };
    return ms(used.ru_utime) + ms(used.ru_stime);
  }
  void SayPrepared(const ServedCall& c, const Preparing& p, double s) const {
    Say(fmt::format(
        "  {:6.1f} s  {}: {} of {} classes, {} programs; all threads {:.1f} s choosing, {:.1f} "
        "compiling, {:.1f} loading\n",
        s, Text(c), p.done, p.of, p.programs, p.choosing, p.compiling, p.loading));
  }

  // Everything that the trace may ask for.
  bool Prepare() {
    const auto prepare = [&](const ServedCall& c, const std::vector<SizeRange>& ranges) {
      const double start = Wall();
      double said = start;
      Preparing p;
      PrepareOptions how;
      how.threads = options_.threads;
      how.progress = [&](const Preparing& now) {
        p = now;
        if (Wall() - said < 5e6) return;
        said = Wall();
        SayPrepared(c, p, (said - start) / 1e6);
      };
      const Status s = KernelOf(c).Prepare(*device_, ArgsOf(c), ranges, how);
      SayPrepared(c, p, (Wall() - start) / 1e6);
      return s.ok() || Say(s.text());
    };
    ServedCall c;
    c.m = 1;
    for (const auto& [n, k] : bench::ServedLayers(limits_)) {
      c.n = n, c.k = k;
      if (!prepare(c, {{{"M"}, 1, limits_.rows}})) return false;
    }
    c.attention = true;
    c.b = c.s = c.l = 1;
    // Many long sequences do not fit the cache of keys.
    for (int64_t b = 1; b <= limits_.sequences; b *= 2)
      if (!prepare(c, {{{"B"}, b, std::min(2 * b - 1, limits_.sequences)},
                       {{"L"}, 1, std::min(limits_.keys, limits_.cached / b)}}))
        return false;
    c.causal = true;
    for (int64_t b = 1; b <= 8; b *= 2)
      if (!prepare(c, {{{"B"}, b, std::min<int64_t>(2 * b - 1, 8)},
                       {{"S", "L"}, 1, std::min(limits_.queries, limits_.cached / b)}}))
        return false;
    return true;
  }

  // What the clock itself takes, and the driver's launch.
  double Floor() {
    std::vector<double> each;
    for (int i = 0; i < 2000; ++i) {
      const double start = Now();
      if (bare_planned_ && !bare_->Launch()) return 0;
      each.push_back(Now() - start);
      if (bare_planned_ && i % 50 == 0) bare_->Wait();
    }
    return Quantile(each, 0.5);
  }
  bool PlanBare() {
    ServedCall c;
    c.m = 16, c.n = 4096, c.k = 4096;
    const auto json = gemm_->Emit("json", ArgsOf(c));
    backend::KernelImage image;
    std::string why;
    if (!json.ok() || !backend::FromJson(*json, &image, &why)) return Say("no image\n");
    bare_planned_ = bare_->Plan(image, ArgsOf(c), diags_).ok() && bare_->Load(image.ptx);
    return bare_planned_ || Say("the driver refused the kernel\n");
  }

  static double Quantile(std::vector<double> each, double q) {
    std::sort(each.begin(), each.end());
    return each[std::min(each.size() - 1,
                         static_cast<size_t>(q * static_cast<double>(each.size())))];
  }
  void Judge(const char* what, double value, double promised, const char* unit) {
    const bool over = promised > 0 && value > promised;
    fmt::print("    {:40} {:10.2f} {}{}{}\n", what, value, unit,
               promised > 0 ? fmt::format("   promised {:g}", promised) : "",
               over ? "  ABOVE" : "");
    held_ = held_ && !(over && options_.slack > 0 && value > options_.slack * promised);
  }

  bool Prepared() {
    const double start = Now();
    if (!Prepare()) return false;
    fmt::print("prepared in {:.1f} s\n", (Now() - start) / 1e6);
    if (!PlanBare()) return false;
    const double floor = Floor();
    fmt::print("after Prepare, less the driver's {:.2f} us:\n", floor);
    // The same number of draws, none of which is made again for another layer: nothing promised.
    return Pass(trace_, floor, true) &&
           Pass(ServingTrace(options_.calls, options_.seed + 2, limits_), floor, false);
  }

  bool Pass(const std::vector<ServedCall>& trace, double floor, bool promised) {
    std::vector<double> all, first, ours, launch;
    std::set<ServedCall> seen;
    double worst = 0;
    const ServedCall* worst_call = nullptr;
    for (const ServedCall& c : trace) {
      const Args args = ArgsOf(c);
      Kernel& kernel = KernelOf(c);
      const bool is_new = seen.insert(c).second;
      const double start = Now();
      if (is_new && options_.apart) {
        const Status s = kernel.Prepare(*device_, args);
        if (!s.ok()) return Say(s.text());
        ours.push_back(Now() - start);
      }
      const double between = Now();
      const Status s = kernel.Launch(*device_, args, 0);
      const double us = Now() - start - floor;
      if (!s.ok()) return Say(s.text());
      if (us > worst) worst = us, worst_call = &c;
      all.push_back(us);
      bare_->Wait();
      if (!is_new) continue;
      first.push_back(us);
      launch.push_back(us + floor - (between - start));
    }
    fmt::print("  {} calls of {} sizes; worst: {}\n", trace.size(), seen.size(),
               worst_call ? Text(*worst_call) : "none");
    Judge("median", Quantile(all, 0.5), promised ? kMedianUs : kNothing, "us");
    Judge("99 of 100", Quantile(all, 0.99), promised ? kMostOf99Us : kNothing, "us");
    Judge("worst", worst, promised ? kWorstUs : kNothing, "us");
    Judge("median of sizes not seen before", Quantile(first, 0.5), kNothing, "us");
    Judge("99 of 100 of sizes not seen before", Quantile(first, 0.99), kNothing, "us");
    Judge("worst of sizes not seen before", Quantile(first, 1), kNothing, "us");
    for (const auto& [what, each] : {std::pair("  choice, checks, packing", &ours),
                                     std::pair("  the first launch", &launch)}) {
      if (!options_.apart) break;
      for (const double q : {0.5, 0.99, 1.0})
        Judge(fmt::format("{}, {:g} of 100", what, 100 * q).c_str(), Quantile(*each, q), kNothing,
              "us");
    }
    return true;
  }

  // Two classes of each kind of call.
  bool Known() {
    std::vector<ServedCall> classes;
    int products = 0, decoding = 0, causal = 0;
    for (const ServedCall& c : trace_)
      if (int& kind = !c.attention ? products : c.causal ? causal : decoding; kind < 2) {
        if (!classes.empty() && classes.back() == c) continue;
        ++kind;
        classes.push_back(c);
        const double start = Wall();
        if (const Status s = Launch(c); !s.ok()) return Say(s.text());
        Say(fmt::format("  {:6.1f} s  {}\n", (Wall() - start) / 1e6, Text(c)));
      }
    if (!PlanBare()) return false;
    const double floor = Floor();
    uint64_t state = options_.seed;
    const auto within = [&](int64_t size) {  // of the class of three binary digits
      int64_t step = 1;
      while (8 * step < size) step *= 2;
      const int64_t high = (size + step - 1) / step * step;
      state = state * 6364136223846793005u + 1442695040888963407u;
      return high - static_cast<int64_t>((state >> 33) % static_cast<uint64_t>(step));
    };
    std::map<std::string, std::vector<double>> each;
    for (int i = 0; i < options_.known; ++i) {
      ServedCall c = classes[static_cast<size_t>(i) % classes.size()];
      if (c.attention) {
        c.b = within(c.b), c.l = within(c.l);
        if (c.s > 1) c.s = c.l;
      } else {
        c.m = within(c.m);
      }
      // No arguments come twice: rows, or batches of queries, are so many lines apart.
      Args args = ArgsOf(c);
      const char* first = c.attention ? "Q" : "A";
      Tensor apart = args.tensors().at(first);
      apart.strides = c.attention ? std::vector<int64_t>{heads_ * c.s * head_dim_ + 64 * i,
                                                         c.s * head_dim_, head_dim_, 1}
                                  : std::vector<int64_t>{c.k + 64 * i, 1};
      args.Set(first, apart);
      const double start = Now();
      const Status s = KernelOf(c).Launch(*device_, args, 0);
      const double us = Now() - start - floor;
      if (!s.ok()) return Say(s.text());
      each[!c.attention ? "products"
           : c.causal   ? "attention, causal"
                        : "attention, decoding"]
          .push_back(us);
      each["all"].push_back(us);
      bare_->Wait();
    }
    fmt::print("new sizes of known classes, less the driver's {:.2f} us:\n", floor);
    for (const auto& [what, of] : each)
      for (const double q : {0.0, 0.5, 0.99, 0.999, 1.0})
        Judge(fmt::format("{}, {:g} of 100", what, 100 * q).c_str(), Quantile(of, q), kNothing,
              "us");
    return true;
  }

  bool NotPrepared() {
    if (options_.cold == 0) return true;
    return Cold("nothing prepared") &&
           (options_.cache.empty() || Cold("again, from the cache on disk"));
  }

  bool Cold(const char* how) {
    if (!Compilers()) return false;
    std::set<ServedCall> seen;
    std::vector<std::pair<double, std::string>> each;
    for (const ServedCall& c : ServingTrace(options_.cold, options_.seed + 1, limits_)) {
      if (!seen.insert(c).second) continue;
      const double start = Now(), own = Spent(RUSAGE_SELF), others = Spent(RUSAGE_CHILDREN);
      const Status s = Launch(c);
      if (!s.ok()) return Say(s.text());
      each.emplace_back((Now() - start) / 1e3, Text(c));
      if (options_.each)
        fmt::print("{:8.1f} ms, {:8.1f} of processors, {:8.1f} of others  {}\n", each.back().first,
                   Spent(RUSAGE_SELF) - own, Spent(RUSAGE_CHILDREN) - others, Text(c));
      bare_->Wait();
    }
    std::sort(each.rbegin(), each.rend());
    double sum = 0;
    for (const auto& [ms, what] : each) sum += ms;
    const auto over =
        std::count_if(each.begin(), each.end(), [](const auto& e) { return e.first > kColdMs; });
    fmt::print("{}: {} sizes in {:.1f} s, {} above {:g} ms, median {:.1f} ms\n", how, each.size(),
               sum / 1e3, over, kColdMs, each[each.size() / 2].first);
    Judge("worst call", each.front().first, kColdMs, "ms");
    for (size_t i = 0; i < std::min<size_t>(5, each.size()); ++i)
      fmt::print("    {:8.1f} ms  {}\n", each[i].first, each[i].second);
    return true;
  }

  // Calls from all over the trace: this process has launched the others before.
  bool Fresh() {
    if (!Compilers()) return false;
    std::vector<size_t> places;
    for (int i = 0; i < options_.fresh; ++i)
      places.push_back(trace_.size() * static_cast<size_t>(i) /
                       static_cast<size_t>(options_.fresh));
    std::vector<std::string> here(places.size());
    for (size_t i = places.size(); i-- > 0;) here[i] = ResultOf(places[i]);
    int same = 0;
    for (size_t i = 0; i < places.size(); ++i) {
      char self[4096] = {};
      if (readlink("/proc/self/exe", self, sizeof self - 1) <= 0) return Say("who am I?\n");
      const std::string command =
          fmt::format("'{}' --calls={} --seed={} --layers={} --tune={}{} --only={}", self,
                      options_.calls, options_.seed, options_.layers, options_.tune,
                      options_.emulate ? " --emulate" : "", places[i]);
      std::FILE* child = popen(command.c_str(), "r");
      char line[64] = {};
      const bool read = child && std::fgets(line, sizeof line, child);
      if (!child || pclose(child) != 0 || !read) return Say(command + " failed\n");
      const std::string there = std::string(line).substr(0, 16);
      if (!here[i].empty() && there == here[i])
        ++same;
      else
        Say(fmt::format("{}: {} here, {} in a fresh process\n", Text(trace_[places[i]]), here[i],
                        there));
    }
    fmt::print("results equal those of fresh processes: {} of {}\n", same, places.size());
    return same == static_cast<int>(places.size());
  }

  const Options& options_;
  bench::TraceLimits limits_;
  int64_t heads_ = 32, groups_ = 8, head_dim_ = 128;
  std::vector<ServedCall> trace_;
  DiagSink diags_;
  std::optional<Device> device_;
  std::optional<Kernel> gemm_, attention_;
  std::unique_ptr<bench::BareDriver> bare_;
  bool bare_planned_ = false, held_ = true;
  uint64_t memory_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  Options o;
  CLI::App app("what a call costs whose size is new");
  app.add_option("--calls", o.calls, "of the trace")->check(CLI::Range(1, 1000000));
  app.add_option("--cold", o.cold, "calls of the pass without Prepare")
      ->check(CLI::Range(0, 1000000));
  app.add_option("--layers", o.layers, "that call each size")->check(CLI::Range(1, 1000));
  app.add_option("--fresh", o.fresh, "calls that are made in a process of their own");
  app.add_option("--seed", o.seed, "of the trace");
  app.add_option("--tune", o.tune, "classes, model or default");
  app.add_option("--only", o.only, "the place of one call, whose result is printed");
  app.add_option("--threads", o.threads, "that prepare; 0: one for each core");
  app.add_flag("--cpu", o.cpu, "the thread's own clock");
  app.add_flag("--apart", o.apart, "tell what is ours from what the first launch takes");
  app.add_option("--cache", o.cache, "a folder for programs");
  app.add_option("--ptxas", o.ptxas, "who assembles: auto, off or a file");
  app.add_option("--known", o.known, "calls of new sizes of a few known classes, nothing else");
  app.add_flag("--no-prepare", o.no_prepare, "only what is not prepared, and results");
  app.add_flag("--each", o.each, "what each cold call took");
  app.add_flag("--emulate", o.emulate, "results of small sizes on the emulator");
  app.add_flag("--no-results", o.no_results, "no fresh processes: on a stand-in");
  app.add_flag("--small", o.small, "small sizes");
  app.add_option("--slack", o.slack, "fail above so many times what was promised");
  CLI11_PARSE(app, argc, argv);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // what was said stands, should somebody end it
  Server server(o);
  if (!server.Open()) return 3;
  if (o.only.empty()) return server.Run() ? 0 : 1;
  const auto place = static_cast<size_t>(std::strtoull(o.only.c_str(), nullptr, 10));
  if (place >= server.trace().size()) return 2;
  const std::string result = server.ResultOf(place);
  fmt::print("{}\n", result);
  return result.empty() ? 1 : 0;
}
