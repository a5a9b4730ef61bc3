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

#include "api/machine.h"
#include "api/pipeline.h"
#include "api/split.h"
#include "api/tune.h"
#include "backend/ptxas.h"
#include "ir/lower/operands.h"
#include "ir/queries.h"
#include "runtime/emulator/judge/cause.h"
#include "runtime/emulator/judge/finding.h"
#include "runtime/ptx_text.h"
#include "tests/solved/folder.h"
#include "tests/test_calls.h"
#include "tools/runner.h"
#include "tools/session.h"

namespace tilec {
namespace {

using runtime::Landing;
using runtime::Policy;

struct Execution {
  Policy policy;
  Landing landing;
  uint64_t seed;
};
constexpr Execution kExecutions[] = {{Policy::kRunToBlock, Landing::kEarly, 0},
                                     {Policy::kConsumerFirst, Landing::kPoison, 0},
                                     {Policy::kRandom, Landing::kLate, 1}};

constexpr std::string_view kNoRoom = "I302";  // in shared memory

// The text without the lines that name the architecture.
std::string Body(const std::string& ptx) {
  const size_t at = ptx.find(".address_size");
  return at == std::string::npos ? ptx : ptx.substr(at);
}

tools::Options OptionsFor(const std::string& machine) {
  tools::Options options;
  options.target = machine;
  options.target_said = true;
  options.no_cache = true;
  options.solutions = SolvedFolder();
  return options;
}

using Outputs = std::map<std::string, ir::TensorValue>;

class OnMachine {
 public:
  OnMachine(const std::string& machine, const std::string& file) : session_(OptionsFor(machine)) {
    good_ = session_.CheckOptions().ok() && session_.LoadFile(file).ok();
    if (!good_) return;
    auto read = session_.Machine();
    machine_ = read.ok() ? *read : nullptr;
    good_ = machine_ != nullptr;
  }
  bool good() const { return good_; }
  const ir::Target& machine() const { return *machine_; }
  tools::Session& session() { return session_; }

  // Does the call multiply tiles, and does the machine's unit take any of the products?
  enum class Products { kNone, kByArithmetic, kOnUnit };
  Result<Products> ProductsOf(const frontend::TestCallInfo& call) {
    DiagSink& diags = session_.diags();
    TRY(const api::Call bound, BindDense(*session_.loaded().program, call, diags));
    TRY(const ir::Function fn,
        api::MakeTileIr(session_.loaded(), call.kernel, bound, nullptr, diags));
    Products products = Products::kNone;
    for (ir::OpId id : ir::OpsInOrder(fn)) {
      const ir::Op& op = fn.ops[id];
      if (op.kind != ir::OpKind::kDot) continue;
      if (ir::IsOnUnit(fn, op, *machine_)) return Products::kOnUnit;
      products = Products::kByArithmetic;
    }
    return products;
  }

  Result<backend::KernelImage> Compile(const frontend::TestCallInfo& call, DiagSink& diags) {
    TRY(const api::Call bound, BindDense(*session_.loaded().program, call, diags));
    const api::PipelineOptions options = session_.pipeline();
    const std::string key = api::ImageKey(session_.loaded(), call.kernel, bound, options);
    if (const auto at = images_.find(key); at != images_.end()) return at->second;
    TRY(backend::KernelImage image, api::CompileCall(session_.loaded(), call.kernel, bound, options,
                                                     nullptr, nullptr, nullptr, diags));
    images_.emplace(key, image);
    return image;
  }

  // The same call with the tiles that the model takes, whatever the call says.
  Result<frontend::TestCallInfo> Chosen(frontend::TestCallInfo call, DiagSink& diags) {
    const frontend::Program& program = *session_.loaded().program;
    TRY(const frontend::Signature signature, frontend::SignatureOf(program, call.kernel, diags));
    for (const auto& tune : signature.tunes) call.args.erase(tune.name);
    TRY(const api::Call bound, BindDense(program, call, diags));
    for (const auto& [name, value] :
         api::TunesFor(session_.loaded(), signature, ByModel(), nullptr, bound, diags))
      call.args[name] = value;
    return call;
  }
  bool LeavesNothingOpen(const frontend::TestCallInfo& call) {
    DiagSink quiet;
    const auto signature = frontend::SignatureOf(*session_.loaded().program, call.kernel, quiet);
    return signature.ok() && signature->tunes.empty();
  }
  Result<backend::KernelImage> Choose(const frontend::TestCallInfo& call, DiagSink& diags) {
    const frontend::Program& program = *session_.loaded().program;
    TRY(const frontend::Signature signature, frontend::SignatureOf(program, call.kernel, diags));
    TRY(const frontend::TestCallInfo chosen, Chosen(call, diags));
    TRY(api::Call bound, BindDense(program, chosen, diags));
    const api::PipelineOptions options = ByModel();
    api::ChooseForm(session_.loaded(), signature, options, &bound);
    return api::CompileCall(session_.loaded(), call.kernel, bound, options, nullptr, nullptr,
                            nullptr, diags);
  }

  api::PipelineOptions ByModel() {
    api::PipelineOptions options = session_.pipeline();
    options.tune = "model";
    options.ptxas.clear();
    return options;
  }

  // What the call gives its tensors.
  static void Take(const frontend::TestCallInfo& call, tools::RunRequest* request) {
    for (const auto& [name, input] : call.inputs)
      if (input.kind == frontend::TestInput::Kind::kFile)
        request->files[name] = input.file;
      else
        request->inputs[name] = input;
  }
  Result<Outputs> Interpret(const frontend::TestCallInfo& call) {
    tools::RunRequest request;
    request.kernel = call.kernel;
    request.values = call.args;
    Take(call, &request);
    TRY(tools::RunResult result, tools::RunKernel(session_, request));
    return std::move(result.outputs);
  }

  // What is wrong with one execution; "": nothing.
  std::string Run(const frontend::TestCallInfo& call, const Execution& how,
                  const Outputs& expected) {
    runtime::EmulatorOptions options;
    options.machine = api::LimitsOf(*machine_);
    options.policy = how.policy;
    options.landing = how.landing;
    options.seed = how.seed;
    options.check = runtime::EmulatorOptions::Check::kOn;
    options.report = std::make_shared<runtime::judge::Report>();
    const auto device = runtime::OpenEmulator(options);
    tools::RunRequest request;
    request.kernel = call.kernel;
    request.values = call.args;
    Take(call, &request);
    request.device = device.get();
    request.images = &images_;
    const auto outcome = tools::RunKernel(session_, request);
    for (const runtime::judge::Finding& finding : options.report->findings())
      if (finding.severity != runtime::judge::Severity::kHint)
        return fmt::format("the judge: {}", runtime::judge::Summarise({finding}, true));
    if (!outcome.ok()) return "the run stopped";
    for (const auto& [name, want] : expected) {
      const auto at = outcome->outputs.find(name);
      if (at == outcome->outputs.end()) return fmt::format("no {} came out", name);
      tools::TensorRun run;
      run.name = name;
      run.dims = want.dims;
      run.result = ir::Compare(want, at->second, {});
      if (!run.result.ok()) return fmt::format("{}: {}", name, tools::DescribeCheck(run));
    }
    return "";
  }

 private:
  tools::Session session_;
  tools::Images images_;
  api::Machine machine_;
  bool good_ = false;
};

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
    Wrong(
        on, call,
        image.ok() ? fmt::format("the model's choice, {}, spills",
                                 CallText(*on.Chosen(call, diags)))
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
