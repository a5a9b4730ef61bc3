// Host time of loading and launching, ours less the driver's own for the same: what reading,
// checking, planning and looking up cost a host program. The GPU's own time is not in it: bursts
// are shorter than the driver's queue and each is waited for outside the clock; where a kernel is
// loaded and launched once, both sides wait for it.
//
//   launch_bench                a line for each row of launch_costs.def; needs a GPU, or a stand-in
//                               named libcuda.so.1 on the loader's path, which leaves our part
//                               alone
//   launch_bench --cpu          the clock is the thread's own, which stands while others run: on a
//                               stand-in, where nothing waits
//   launch_bench --slack=N      fails if a row is above N times its budget
//   launch_bench --kept=FILE    fails if the table of FILE lacks a row, tells another budget, or
//   has
//                               a number above it
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <vector>

#include "backend/ptxas.h"
#include "bench/bare_launch.h"
#include "runtime/bundle.h"
#include "support/file.h"

namespace {

using namespace tilec;
using tilec::bench::BareDriver;

enum class Cost {
#define COST(id, budget, what) k##id,
#include "bench/launch_costs.def"
#undef COST
};
struct CostRow {
  Cost id;
  double budget;  // microseconds; 0: none
  const char* what;
};
constexpr CostRow kCosts[] = {
#define COST(id, budget, what) {Cost::k##id, budget, what},
#include "bench/launch_costs.def"
#undef COST
};

constexpr int kBursts = 60, kBurst = 100, kLoads = 20, kBuilds = 1000;
constexpr int64_t kM = 128, kN = 256, kK = 128;  // of the product: a launch that the host limits

struct Options {
  bool cpu = false;
  int sets = 100000;
  double slack = 0;
  std::string kept;
};

bool Say(const std::string& text) {
  std::fputs(text.c_str(), stderr);
  return false;
}

double Median(std::vector<double> each) {
  std::sort(each.begin(), each.end());
  return each[each.size() / 2];
}

class Bench {
 public:
  explicit Bench(const Options& options) : options_(options) {}

  bool Open() {
    auto device = Device::Open("cuda:0");
    if (!device.ok()) return Say(device.status().text());
    device_.emplace(*std::move(device));
    CompilerOptions options;
    options.disk_cache = false;
    options.tune = "default";  // the model would choose tiles for each of many sizes
    auto compiler = Compiler::Create(options);
    if (!compiler.ok()) return Say(compiler.status().text());
    compiler_.emplace(*std::move(compiler));
    auto kernel = compiler_->Compile("std/matmul.tile", "gemm");
    if (!kernel.ok()) return Say(kernel.status().text());
    kernel_.emplace(*std::move(kernel));
    auto bare = BareDriver::Open(diags_);
    if (!bare.ok()) return Say("no driver\n");
    bare_ = *std::move(bare);
    memory_ = 0;
    const uint64_t bytes = static_cast<uint64_t>(options_.sets) * 1024 + (uint64_t{1} << 20);
    const auto memory = device_->Alloc(bytes);
    if (!memory.ok()) return Say(memory.status().text());
    memory_ = *memory;
    fmt::print("{}; {} argument sets; {} clock\n", device_->description(), options_.sets,
               options_.cpu ? "the thread's" : "wall");
    return true;
  }

  bool Run() { return Images() && FirstLaunches() && Repeated() && Bounds() && Graphs(); }

  // Prints a row for each cost; false if one is above its budget by more than the slack.
  bool Table() const {
    bool held = true;
    fmt::print("{:72} {:>10} {:>10}\n", "microseconds, less the driver's", "measured", "budget");
    for (const CostRow& row : kCosts) {
      const auto at = measured_.find(row.id);
      const std::string seen =
          at == measured_.end() ? "not here" : fmt::format("{:.2f}", at->second);
      const std::string budget = row.budget ? fmt::format("{:g}", row.budget) : "-";
      const bool over = row.budget && at != measured_.end() && at->second > row.budget;
      const bool fails = over && options_.slack && at->second > row.budget * options_.slack;
      fmt::print("{:72} {:>10} {:>10}{}\n", row.what, seen, budget, over ? "  ABOVE" : "");
      held = held && !fails;
    }
    return held;
  }

 private:
  double Now() const {
    timespec t;
    clock_gettime(options_.cpu ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return 1e6 * static_cast<double>(t.tv_sec) + 1e-3 * static_cast<double>(t.tv_nsec);
  }
  // Median over bursts of the microseconds of one call; below 0 if one failed.
  double Microseconds(const std::function<bool(int)>& call, int bursts = kBursts) const {
    std::vector<double> each;
    for (int b = 0; b < bursts; ++b) {
      const double start = Now();
      for (int i = 0; i < kBurst; ++i)
        if (!call(b * kBurst + i)) return -1;
      each.push_back((Now() - start) / kBurst);
      bare_->Wait();
    }
    return Median(std::move(each));
  }
  bool Note(Cost cost, double microseconds, double drivers) {
    measured_[cost] = microseconds - drivers;
    return microseconds >= 0;
  }
  // Against the driver's launch as it is now: a host's clock rises and falls within seconds.
  bool NoteLess(Cost cost, double microseconds) {
    return Note(cost, microseconds, Microseconds([&](int) { return bare_->Launch(); }));
  }

  uint64_t At(int i) const { return memory_ + static_cast<uint64_t>(i) * 256; }
  Args Product(uint64_t a, int64_t m, int64_t n) const {
    return Args()
        .Set("A", Tensor{DType::kBF16, a, {m, kK}, {}})
        .Set("B", Tensor{DType::kBF16, At(0), {n, kK}, {}})
        .Set("C", Tensor{DType::kBF16, At(2 * options_.sets), {m, n}, {}});
  }
  Args One() const { return Product(At(0), kM, kN); }

  // A bundle of eight tile sizes, and the same as machine code where there is ptxas.
  bool Images() {
    const auto variable = [](const char* name) {
      const char* value = std::getenv(name);
      return std::string(value ? value : "");
    };
    const std::string ptxas = backend::FindPtxas({"", variable("CUDA_HOME"), variable("PATH")});
    runtime::Bundle ptx, code;
    for (const int rows : {64, 128})
      for (const int columns : {64, 96, 128, 256}) {
        auto json = kernel_->Emit("json", One().Set("BM", rows).Set("BN", columns));
        if (!json.ok()) return Say(json.status().text());
        runtime::Build build;
        std::string why;
        if (!backend::FromJson(*json, &build.image, &why)) return Say(why + "\n");
        ptx.builds.push_back(build);
        if (ptxas.empty()) continue;
        auto assembled = backend::Assemble(build.image.ptx, build.image.target, ptxas, diags_);
        if (!assembled.ok()) return Say("ptxas refused the kernel\n");
        build.cubin = assembled->cubin;
        code.builds.push_back(build);
      }
    image_ = ptx.builds[0].image;
    ptx_ = WriteBundle(ptx);
    if (ptxas.empty()) return true;
    cubin_ = code.builds[0].cubin;
    code_ = WriteBundle(code);
    return true;
  }

  bool FirstLaunches() {
    // Of as many sizes, in a file that was just written.
    runtime::Bundle many;
    for (int i = 1; i <= kBuilds; ++i)
      many.builds.push_back({image_, "", {{{"M", i}, {"N", 128}}}});
    const std::string bytes = WriteBundle(many);
    const std::string path =
        (std::filesystem::temp_directory_path() / fmt::format("tilec_bench_{}", getpid())).string();
    std::string why;
    if (!WriteFileAtomically(path, bytes, &why)) return Say(path + ": " + why + "\n");
    std::vector<double> opened;
    for (int i = 0; i < kLoads; ++i) {
      const double start = Now();
      const auto bundle = Bundle::Open(path);
      opened.push_back(Now() - start);
      if (!bundle.ok()) return Say(bundle.status().text());
    }
    std::filesystem::remove(path);
    fmt::print("bundle of {} builds, {} bytes\n", kBuilds, bytes.size());
    Note(Cost::kBundleOpen, Median(std::move(opened)), 0);
    if (!bare_->Plan(image_, One(), diags_).ok()) return Say("no plan\n");
    return FirstLaunch(Cost::kFirstPtx, ptx_, image_.ptx) &&
           (code_.empty() || FirstLaunch(Cost::kFirstCode, code_, cubin_));
  }

  // From bytes that were read to a kernel that has run; ours and the driver's in turn.
  bool FirstLaunch(Cost cost, const std::string& bytes, const std::string& code) {
    std::vector<double> ours, drivers;
    for (int i = 0; i < kLoads + 1; ++i) {
      double start = Now();
      if (!bare_->Load(code) || !bare_->Launch()) return Say("the driver refused the kernel\n");
      bare_->Wait();
      const double bare = Now() - start;
      bare_->Unload();
      auto bundle = Bundle::FromBytes(bytes.data(), bytes.size(), "bench");
      if (!bundle.ok()) return Say(bundle.status().text());
      start = Now();
      const Status launched = bundle->Launch("gemm", *device_, One());
      if (!launched.ok()) return Say(launched.text());
      bare_->Wait();
      if (i == 0) continue;  // the driver's cache is cold
      ours.push_back(Now() - start);
      drivers.push_back(bare);
    }
    const double whole = Median(std::move(ours)), bare = Median(std::move(drivers));
    fmt::print("first launch: {:.0f} us, the driver's own {:.0f} us\n", whole, bare);
    return Note(cost, whole, bare);
  }

  // One set again and again; then as many places, and as many sizes, as there are sets.
  bool Repeated() {
    if (!bare_->Load(image_.ptx)) return Say("the driver refused the kernel\n");
    fmt::print("the driver's launch: {:.2f} us\n",
               Microseconds([&](int) { return bare_->Launch(); }));
    std::vector<Args> places, sizes;
    for (int i = 0; i < options_.sets; ++i) {
      places.push_back(Product(At(i), 128, 128));
      sizes.push_back(Product(At(0), 1 + i, 128));
    }
    const Args one = One();
    const auto launch = [&](const Args& args) {
      const Status s = kernel_->Launch(*device_, args, 0);
      return s.ok() || Say(s.text());
    };
    const auto in_turn = [&](const std::vector<Args>& sets) {
      return Microseconds([&](int i) { return launch(sets[static_cast<size_t>(i)]); },
                          options_.sets / kBurst);
    };
    return NoteLess(Cost::kAgain, Microseconds([&](int) { return launch(one); })) &&
           launch(places[0]) && NoteLess(Cost::kPlaces, in_turn(places)) &&
           NoteLess(Cost::kPlacesAgain, in_turn(places)) &&
           NoteLess(Cost::kSizes, in_turn(sizes)) && NoteLess(Cost::kSizesAgain, in_turn(sizes)) &&
           FromABundle(sizes);
  }

  bool FromABundle(const std::vector<Args>& sizes) {
    auto bundle = Bundle::FromBytes(ptx_.data(), ptx_.size(), "bench");
    if (!bundle.ok()) return Say(bundle.status().text());
    const auto call = [&](int i) {
      const Status s = bundle->Launch("gemm", *device_, sizes[static_cast<size_t>(i)]);
      return s.ok() || Say(s.text());
    };
    return call(0) && NoteLess(Cost::kBundleSizes, Microseconds(call, options_.sets / kBurst));
  }

  std::array<uint64_t, 3> Elsewhere(int i) const {  // of A, B, C
    return {At(i % options_.sets), At(0), At(2 * options_.sets)};
  }

  bool Bounds() {
    const auto bound = kernel_->Bind(*device_, Product(At(0), 128, 128));
    if (!bound.ok()) return Say(bound.status().text());
    const auto moved = [&](int i) { return bound->LaunchAt(Elsewhere(i).data(), 3).ok(); };
    return NoteLess(Cost::kBound, Microseconds([&](int) { return bound->Launch().ok(); })) &&
           NoteLess(Cost::kBoundPlaces, Microseconds(moved, options_.sets / kBurst));
  }

  bool Graphs() {
    const auto bound = kernel_->Bind(*device_, Product(At(0), 128, 128));
    if (!bound.ok()) return Say(bound.status().text());
    Graph graph = Graph::On(*device_);
    constexpr int kNodes = 8;
    for (int i = 0; i < kNodes; ++i)
      if (!graph.Add(*bound).ok()) return Say("no graph\n");
    const auto move = [&](int i) {
      return graph.MoveTo(static_cast<size_t>(i % kNodes), Elsewhere(i).data(), 3).ok() &&
             graph.Launch().ok();
    };
    return Note(Cost::kGraph, Microseconds([&](int) { return graph.Launch().ok(); }), 0) &&
           Note(Cost::kGraphMoved, Microseconds(move), 0);
  }

  const Options& options_;
  DiagSink diags_;
  std::optional<Device> device_;
  std::optional<Compiler> compiler_;
  std::optional<Kernel> kernel_;
  std::unique_ptr<BareDriver> bare_;
  uint64_t memory_ = 0;
  backend::KernelImage image_;
  std::string ptx_, code_,
      cubin_;  // bundles without and with machine code; code of the first build
  std::map<Cost, double> measured_;
};

// The cells of a line of a table, without the blanks around them.
std::vector<std::string> Cells(const std::string& line) {
  std::vector<std::string> out;
  for (size_t at = line.find('|'); at != std::string::npos;) {
    const size_t end = line.find('|', at + 1);
    if (end == std::string::npos) break;
    const std::string cell = line.substr(at + 1, end - at - 1);
    const size_t first = cell.find_first_not_of(' '), last = cell.find_last_not_of(' ');
    out.push_back(first == std::string::npos ? "" : cell.substr(first, last - first + 1));
    at = end;
  }
  return out;
}

// Lines `| what | budget | measured | … |`.
bool Kept(const std::string& path) {
  std::map<std::string, std::vector<std::string>> lines;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    std::vector<std::string> cells = Cells(line);
    if (cells.size() < 3) continue;
    const std::string what = cells[0];
    lines[what] = std::move(cells);
  }
  bool kept = true;
  for (const CostRow& row : kCosts) {
    const auto at = lines.find(row.what);
    if (at == lines.end()) {
      kept = Say(fmt::format("{}: no line for `{}`\n", path, row.what));
      continue;
    }
    const std::string budget = row.budget ? fmt::format("{:g}", row.budget) : "–";
    if (at->second[1] != budget)
      kept = Say(fmt::format("{}: `{}` has the budget {}\n", path, row.what, budget));
    for (size_t i = 2; row.budget && i < at->second.size(); ++i)
      if (std::strtod(at->second[i].c_str(), nullptr) > row.budget)
        kept = Say(fmt::format("{}: `{}` is above its budget\n", path, row.what));
  }
  return kept;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("host time of loading and launching");
  app.add_flag("--cpu", options.cpu, "the thread's own clock");
  app.add_option("--sets", options.sets, "argument sets in turn")->check(CLI::Range(1000, 1000000));
  app.add_option("--slack", options.slack, "fail above so many times a budget");
  app.add_option("--kept", options.kept, "a document with the table");
  CLI11_PARSE(app, argc, argv);
  Bench bench(options);
  if (!bench.Open()) return 3;
  if (!bench.Run()) return 1;
  const bool held = bench.Table();
  return (options.kept.empty() || Kept(options.kept)) && held ? 0 : 1;
}
