// What every command needs: a sink, the sources it points into, and one place where diagnostics are
// printed and turned into an exit code.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "api/open_device.h"
#include "api/pipeline.h"
#include "api/solution_cache.h"
#include "api/stdlib.h"
#include "runtime/kernel_cache.h"
#include "support/diag.h"
#include "tools/options.h"

namespace tilec::tools {

// The assembler found through the environment; "" if there is none.
std::string Ptxas();

class Session {
 public:
  explicit Session(const Options& options);
  ~Session();  // prints what has not been printed

  const Options& options() const { return options_; }
  // What the command line says of dims, constants and tunes from here on.
  void Assign(std::vector<std::string> words) { options_.assignments = std::move(words); }
  DiagSink& diags() { return diags_; }
  api::Loaded& loaded() { return loaded_; }
  const api::StandardLibrary& library() const { return library_; }
  // Null if there is none, or if looking inside must not meet it.
  const runtime::KernelCache* cache() const { return cache_ ? &*cache_ : nullptr; }
  api::PipelineOptions pipeline() {
    api::PipelineOptions options = {options_.target, options_.schedule, "crash", options_.tune,
                                    false,           &*solutions_};
    if (const Result<api::Machine> machine = Machine(); machine.ok()) options.machine = *machine;
    if (options_.ptxas != "off") options.ptxas = Ptxas();
    return options;
  }
  // --tune: sets the tunes that the call leaves open. `device`: where it will run; null: what
  // --device names is opened, if something is to be measured.
  Result<> Tune(const frontend::Signature& signature, api::Call* call,
                runtime::Device* device = nullptr);
  // What a file of tunes says of this program: its version and commit.
  std::string Compiler() const;
  // How CTAs go about the tiles of this call, for tunes as they are (api/split.h).
  void ChooseForm(const frontend::Signature& signature, api::Call* call);
  api::Observation& look() { return look_; }
  const runtime::Execution& recorded() const { return *recorded_; }

  // What --target (or --machine) means; a file is read once.
  Result<api::Machine> Machine();
  // Checks the words of --target, --schedule, --tune and the like.
  Result<> CheckOptions();
  Result<> CheckTuneWord();  // … of --tune alone
  // "FILE[:KERNEL]": loads the file, returns the kernel's name (the only one if none is named).
  Result<std::string> LoadKernel(const std::string& file_and_kernel);
  Result<> LoadFile(const std::string& path);
  Result<std::unique_ptr<runtime::Device>> Open(std::string* why) {
    return OpenNamed(options_.device, why);
  }
  // Without --target what is compiled from here on is for the GPU that was opened.
  Result<std::unique_ptr<runtime::Device>> OpenNamed(const std::string& device, std::string* why);
  // What --arith, --policy and the like ask of the emulator.
  Result<runtime::EmulatorOptions> Emulator();

  // What every diagnostic from now on is about: "in gemm(M = 8)"; "" ends it.
  void SetContext(std::string context) { context_ = std::move(context); }
  // Prints the diagnostics so far to standard error. The exit code they amount to: kOk if none is
  // an error.
  int Finish();

 private:
  void PrintDiagnostics();
  void Warn();

  std::string context_;
  std::set<std::string> said_;  // warnings about tunes and notes about forms, each once

  Options options_;
  DiagSink diags_;
  api::Loaded loaded_;
  api::StandardLibrary library_;
  std::optional<runtime::KernelCache> cache_;
  // Schedules alone, where nothing is to be had from a cache: tests compile anew what the solver
  // solved once in their run (--solutions, docs/testing.md).
  std::optional<runtime::KernelCache> solved_;
  std::optional<api::SolutionCache> solutions_;  // in one of them, or for this session alone
  api::Observation look_;
  api::Machine machine_;  // once it is read
  std::shared_ptr<runtime::Execution> recorded_ = std::make_shared<runtime::Execution>();
};

// Where the cache is: --cache-dir, else from the environment; "" if nowhere.
std::string CacheDirectory(const Options& options);

// Standard output, or the file. False with the reason.
bool WriteOutput(const std::string& path, const std::string& text, std::string* why);

// "file.tile:kernel" → {file.tile, kernel}.
std::pair<std::string, std::string> SplitKernel(const std::string& file_and_kernel);

// "12.3 ms", "850 us", "1.20 s"
std::string Duration(double milliseconds);

}  // namespace tilec::tools
