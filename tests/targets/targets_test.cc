// The calls of the `test` blocks of a .tile file on every machine that is named: a row kernel
// compiles for each, its PTX is labelled for the machine's architecture and holds nothing that the
// architecture lacks, ptxas (where there is one) assembles it without spills, and the emulator,
// held to the machine's limits, agrees with the interpreter under three schedules of execution, the
// judge silent. The same holds of kernels that multiply tiles; one whose tensor cores there is no
// code for is refused, by one diagnostic, and nothing else is.
//
// Tiles that an author wrote down may spill; what the machine model chooses in their place, without
// being told by ptxas, may not. Where they want more shared memory than the machine has, that is an
// exception, which is printed, and the model's choice runs in their place. So is a product of a
// dtype that the machine's unit lacks: its registers may not fit.
//
//   targets_test [--products=MACHINE,…] [--choice] FILE.tile MACHINE…
//
// --products: kernels with products on these of the machines only; they take longest. --choice:
// nothing runs; the model's own choice is compiled for every call and spills nothing.
//
// Machines whose programs differ in the label alone share one judged run; the others load the text
// and run it once, for `.target` and limits.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "backend/ptxas.h"
#include "runtime/emulator/judge/finding.h"
#include "runtime/ptx_text.h"
#include "tests/targets/on_machine.h"
#include "tests/test_calls.h"
#include "tools/runner.h"
#include "tools/session.h"

namespace tilec {

namespace {

constexpr std::string_view kNoRoom = "I302";  // in shared memory

// The text without the lines that name the architecture.
std::string Body(const std::string& ptx) {
  const size_t at = ptx.find(".address_size");
  return at == std::string::npos ? ptx : ptx.substr(at);
}

class Test {
 public:
  // `multiplying`: the machines that kernels with products are compiled for; none said: all.
  // `choice`: only what the model takes is looked at.
  Test(std::string ptxas, std::set<std::string> multiplying, bool choice)
      : ptxas_(std::move(ptxas)), multiplying_(std::move(multiplying)), choice_(choice) {}

  int Run(const std::string& file, const std::vector<std::string>& machines) {
    std::vector<std::unique_ptr<OnMachine>> all;
    for (const std::string& machine : machines) {
      all.push_back(std::make_unique<OnMachine>(machine, file));
      if (!all.back()->good()) return 2;
    }
    for (const frontend::TestInfo& test : all[0]->session().loaded().program->tests())
      for (const frontend::TestCallInfo& call : test.calls) {
        judged_.clear();
        expected_.reset();
        for (const auto& on : all) {
          One(*on, call);
          on->session().diags().Clear();  // notes of what was made
        }
      }
    fmt::print(
        "{} runs, {} loads, {} assembled{}, {} refused for products, {} left, {} chosen, {} "
        "exceptions, {} wrong\n",
        runs_, shared_, assembled_.size(), ptxas_.empty() ? " (no ptxas here)" : "", refused_,
        left_, chosen_, exceptions_, wrong_);
    return wrong_ == 0 ? 0 : 1;
  }

 private:
  void Wrong(OnMachine& on, const frontend::TestCallInfo& call, const std::string& what) {
    ++wrong_;
    fmt::print("WRONG {} for {}: {}\n", CallText(call), on.machine().name, what);
    on.session().Finish();
  }

  // The hardware lacks what a call wants.
  void Exception(OnMachine& on, const frontend::TestCallInfo& call, const std::string& lacks) {
    ++exceptions_;
    fmt::print("EXCEPTION {} for {}: {}\n", CallText(call), on.machine().name, lacks);
  }
  // A call whose tiles the machine has no room for, with those that the model takes.
  void InTheirPlace(OnMachine& on, const frontend::TestCallInfo& call, const std::string& lacks) {
    DiagSink diags;
    const Result<frontend::TestCallInfo> chosen = on.Chosen(call, diags);
    if (!chosen.ok() || chosen->args == call.args) return Wrong(on, call, lacks);
    Exception(on, call, lacks);
    expected_.reset();
    One(on, *chosen);
    expected_.reset();
  }

  void One(OnMachine& on, const frontend::TestCallInfo& call) {
    const auto products = on.ProductsOf(call);
    if (!products.ok()) return Wrong(on, call, "no tile IR");
    const bool on_unit = *products == OnMachine::Products::kOnUnit;
    const bool lowered = on.machine().unit().lowered;
    if (on_unit && lowered && !multiplying_.empty() && !multiplying_.count(on.machine().name))
      return void(++left_);
    DiagSink diags;
    const bool fits = *products != OnMachine::Products::kByArithmetic;
    if (choice_) return void(fits && Chosen(on, call));
    const Result<backend::KernelImage> image = on.Compile(call, diags);
    if (on_unit && !lowered) {
      const bool named = diags.all().size() == 1 &&
                         std::string_view(diags.all()[0].def->code) == "R592" &&
                         diags.all()[0].message.find(on.machine().name) != std::string::npos;
      ++refused_;
      return image.ok() || !named ? Wrong(on, call, "products are not refused by R592") : void();
    }
    if (!image.ok() && diags.all().size() == 1 && diags.all()[0].def->code == kNoRoom)
      return InTheirPlace(on, call, diags.all()[0].message);
    if (!image.ok()) return Wrong(on, call, RenderAll(diags, on.session().loaded().sources));
    const std::string& ptx = image->ptx;
    if (runtime::PtxTarget(ptx) != on.machine().arch || image->target != on.machine().arch)
      return Wrong(on, call, "`.target` is " + runtime::PtxTarget(ptx));
    const int64_t spills = ptxas_.empty() ? 0 : Spilled(*image);
    if (spills < 0) return Wrong(on, call, "ptxas");
    if (spills > 0 && fits && !Chosen(on, call)) return;
    if (spills > 0 && !fits)
      Exception(on, call,
                fmt::format("multiplied by arithmetic, the unit has no such product: {} "
                            "bytes spilled",
                            spills));
    if (!expected_) {
      Result<Outputs> outputs = on.Interpret(call);
      if (!outputs.ok()) return Wrong(on, call, "the interpreter");
      expected_ = *std::move(outputs);
    }
    const bool first = judged_.insert(Body(ptx)).second;
    ++(first ? runs_ : shared_);
    for (const Execution& how : kExecutions) {
      if (const std::string what = on.Run(call, how, *expected_); !what.empty())
        return Wrong(on, call, what);
      if (!first) break;
    }
  }

  // (attention_dqkv of D = 128 keeps sums of 128 keys and takes 32 queries or more by its `where`.
  // ptxas 13.0 spills 12 + 16 bytes of the causal one for sm_86 and sm_89.)
  static int64_t LeastSpills(const frontend::TestCallInfo& call) {
    const bool wide = CallText(call).find("D=128") != std::string::npos;
    return call.kernel == "attention_dqkv" && wide ? 16 : 0;
  }
  // Does what the model takes spill nothing?
  bool Chosen(OnMachine& on, const frontend::TestCallInfo& call) {
    DiagSink diags;
    const Result<backend::KernelImage> image = on.Choose(call, diags);
    ++chosen_;
    const int64_t spilled = image.ok() ? Spilled(*image) : -1;
    if (spilled == 0) return true;
    // The least that the author's tunes allow of such sizes, seen to spill so many bytes.
    if (spilled > 0 && spilled <= LeastSpills(call)) {
      Exception(on, call, fmt::format("{} bytes spilled by the least tiles it allows", spilled));
      return true;
    }
    // Where the author leaves nothing open it is no choice; C734 tells who builds it.
    if (spilled > 0 && on.LeavesNothingOpen(call)) {
      Exception(on, call, fmt::format("{} bytes spilled, and no tune to choose", spilled));
      return true;
    }
    Wrong(on, call,
          image.ok()
              ? fmt::format("the model's choice, {}, spills", CallText(*on.Chosen(call, diags)))
              : RenderAll(diags, on.session().loaded().sources));
    return false;
  }

  // Bytes; negative: it does not assemble, or not as it was meant. Products that the unit has no
  // dtype for are converted and added up element by element: that their registers fit is not
  // promised, so what they spill is only printed.
  int64_t Spilled(const backend::KernelImage& image) {
    if (const auto at = assembled_.find(image.ptx); at != assembled_.end()) return at->second;
    DiagSink diags;
    const auto report = backend::Assemble(image.ptx, image.target, ptxas_, diags);
    if (!report.ok()) fmt::print("{}", RenderAll(diags, SourceMap()));
    int64_t spilled = -1;
    if (report.ok() && report->pipeline.empty())
      spilled = std::max(report->spill_store_bytes, report->spill_load_bytes);
    if (spilled > 0)
      fmt::print("{} + {} bytes spilled\n", report->spill_store_bytes, report->spill_load_bytes);
    assembled_.emplace(image.ptx, spilled);
    return spilled;
  }

  const std::string ptxas_;
  const std::set<std::string> multiplying_;
  const bool choice_;
  std::map<std::string, int64_t> assembled_;  // what they spill
  std::set<std::string> judged_;              // bodies, of this call
  std::optional<Outputs> expected_;           // of this call
  int runs_ = 0, shared_ = 0, refused_ = 0, left_ = 0, chosen_ = 0, exceptions_ = 0, wrong_ = 0;
};

std::string FromEnvironment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

int Main(int argc, char** argv) {
  constexpr std::string_view kProducts = "--products=";
  std::set<std::string> multiplying;
  bool choice = false;
  for (; argc > 1 && argv[1][0] == '-'; --argc, ++argv) {
    const std::string_view word = argv[1];
    if (word.rfind(kProducts, 0) == 0) {
      std::stringstream names{argv[1] + kProducts.size()};
      for (std::string name; std::getline(names, name, ',');) multiplying.insert(name);
    } else if (word == "--choice") {
      choice = true;
    } else {
      return 2;
    }
  }
  if (argc < 3) return 2;
  const std::string ptxas =
      backend::FindPtxas({"", FromEnvironment("CUDA_HOME"), FromEnvironment("PATH")});
  return Test(ptxas, std::move(multiplying), choice)
      .Run(argv[1], std::vector<std::string>(argv + 2, argv + argc));
}

}  // namespace

}  // namespace tilec

int main(int argc, char** argv) { return tilec::Main(argc, argv); }
