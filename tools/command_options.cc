// Every command and every option, with the words that `--help`, the manual page and completion
// show.
//
// SPDX-License-Identifier: Apache-2.0
#include "tools/command_line.h"

#include <CLI/CLI.hpp>

#include "tools/commands.h"
#include "tools/diagnostics.h"
#include "tools/session.h"

namespace tilec::tools {

namespace {

// The options that several commands share. Commands that know all sizes of a call choose its tiles
// by them; the others keep what the author wrote.
void AddTarget(CLI::App* app, Options& o) {
  app->add_option("--target", o.target,
                  "machine: a name (`tilec targets`), an architecture or a file like ./mine.toml")
      ->each([&o](const std::string&) { o.target_said = true; });
}
// `tune`: if it is left out.
void AddTune(CLI::App* app, Options& o, const char* tune) {
  app->add_option("--tune", o.tune,
                  fmt::format("values of tunes that are not given: default, model: what the "
                              "machine model predicts to be fastest, measure or measure=SECONDS: "
                              "what is fastest of the model's best on the GPU at hand, or a file "
                              "of `tilec tune` (if left out: {})",
                              tune));
}
void AddCompiling(CLI::App* app, Options& o, const char* tune) {
  AddTarget(app, o);
  app->add_option(
      "--schedule", o.schedule,
      "sequential, solve, solve:slices=N: that many compute roles, solve:persistent: "
      "says why CTAs do not stay, solve:once: a CTA for each tile, solve:clusters: "
      "CTAs that share copies, solve:clusters=4: four of them, :along=2 behind either: along "
      "the grid's second range, "
      "solve:split=N: N CTAs for each tile, solve:pack=N: rows "
      "of N instances as one tile, solve:split=N:apart: N CTAs that are no cluster and "
      "a second launch (behind solve:clusters, too), sequential:split=N, sequential:pack=N, or a "
      ".sched file");
  AddTune(app, o, tune);
  app->parse_complete_callback([app, tune, &o] {
    // Calls of `test` blocks are of the program as written.
    if (app->count("--tune") == 0) o.tune = o.tests ? "default" : tune;
  });
  app->add_option("--stdlib", o.stdlib_dir, "folder in place of the built-in standard library");
  app->add_option("--print-after", o.print_after, "print the IR after this pass (or `all`)")
      ->delimiter(',')
      ->allow_extra_args(false);
  app->add_option("--stop-after", o.stop_after, "stop after this pass");
  app->add_flag("--time-passes", o.time_passes, "how long each stage took");
}
// Of commands that say something of this machine (docs/your_card.md).
void AddReport(CLI::App* app, Options& o) {
  app->add_option("--report", o.report, "file that a line of JSON is added to, for others to read");
}
void AddCache(CLI::App* app, Options& o) {
  app->add_option("--cache-dir", o.cache_dir, "folder of the cache on disk");
}
// Of commands that compile and run.
void AddNoCache(CLI::App* app, Options& o) {
  app->add_flag("--no-cache", o.no_cache, "compile anew and store nothing");
  app->add_option("--solutions", o.solutions, "folder of solved loops, for tests")->group("");
  AddCache(app, o);
}
// Of commands that solve.
void AddSolutions(CLI::App* app, Options& o) {
  app->add_flag("--no-cache", o.no_cache, "solve anew and store nothing");
  AddCache(app, o);
}
// How the emulator's warps take turns (docs/emulator.md).
void AddExecution(CLI::App* app, Options& o) {
  app->add_option("--policy", o.policy, "whose turn it is: run-to-block, random, pct, …-first");
  app->add_option("--async", o.async, "when copies arrive: early, late, random, poison");
  app->add_option("--policy-seed", o.policy_seed, "seed of policy, copies and elected lanes");
  app->add_flag("--spurious", o.spurious, "let mbarrier.try_wait fail now and then");
  app->add_option("--max-instructions", o.max_instructions,
                  "warp instructions of a launch (20e9), 0: any");
  app->add_option("--max-memory", o.max_memory, "MiB the emulator may take")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 30));
  app->add_option("--replay", o.replay, "file of decisions to follow");
}
void AddRunning(CLI::App* app, Options& o) {
  app->add_option("--device", o.device, "auto, emulator, cuda, cuda:N, interpreter");
  app->add_option("--arith", o.arith, "tensor cores of the emulator: fast, or exact to the bit");
  app->add_option("--seed", o.seed, "seed of the random tensors");
  AddExecution(app, o);
  AddNoCache(app, o);
}
void AddDiagnostics(CLI::App* app, Options& o) {
  app->add_option("--diagnostics", o.diagnostics, "text, or json: one object per line");
}

}  // namespace

CLI::App* CommandLine::Add(const char* name, const char* summary, int (*run)(const Options&),
                           bool takes_files) {
  CLI::App* app = app_.add_subcommand(name, summary);
  app->allow_extras();
  AddDiagnostics(app, o_);
  commands_.emplace_back(name, Command{app, [this, run] { return run(o_); }, takes_files});
  return app;
}

void CommandLine::AddRunAndBuild() {
  CLI::App* run = Add("run", "run a kernel once and say how it went", CmdRun, true);
  run->add_option("file", o_.file, "FILE[:KERNEL]; std/NAME.tile is the standard library's")
      ->required();
  run->add_option("assignments", o_.assignments,
                  "dims, scalars, constants, tunes as NAME=VALUE; tensors as NAME=@file.npy");
  AddRunning(run, o_);
  AddCompiling(run, o_, "model");
  run->add_flag("--check", o_.check, "compare with the interpreter");
  run->add_option("--repeat", o_.repeat, "launch this often, report the fastest")
      ->check(CLI::Range(1, 1000000));
  run->add_option("--timeline", o_.timeline, "file for what one CTA did when, in SM cycles");
  run->add_option("--record", o_.record, "file for the decisions of the emulator");
  run->add_option("--format", o_.format, "text or json");
  run->add_option("--save", o_.save, "NAME=file.npy: write a tensor after the run")
      ->allow_extra_args(false);

  CLI::App* build = Add("build", "compile a kernel and write one of its forms", CmdBuild, true);
  build->add_option("file", o_.file, "FILE[:KERNEL]")->required();
  build->add_option("assignments", o_.assignments, "static dims, constants, tunes as NAME=VALUE");
  AddCompiling(build, o_, "default");
  build->add_option("--emit", o_.emit, "tile-ir, plan, warp-ir, llvm, ptx, cubin or json");
  build->add_option("--plan", o_.plan,
                    "file of a program plan (--emit=plan writes one) that is obeyed or refused");
  build->add_option("-o,--output", o_.output, "file; standard output if left out");
  build->add_option("--nvdisasm", o_.nvdisasm, "which nvdisasm reads the machine code");
  build->add_option("--ptxas", o_.ptxas,
                    "auto, report (must be there), off, or refine: solve again until it neither "
                    "spills nor serializes products");
  build->add_option("--pin", o_.pin, "refine: file for the schedule that was found (KERNEL.sched)");

  CLI::App* bundle =
      Add("bundle", "build kernels ahead of time, for hosts without a compiler", CmdBundle, true);
  bundle->add_option("words", o_.assignments,
                     "FILE[:KERNEL], then its values as NAME=VALUE,…: every combination is built");
  bundle->add_option("-o,--output", o_.output, "file of the bundle");
  bundle->add_option("--header", o_.header, "file for a C header with a function for each kernel");
  bundle->add_option("--c-source", o_.c_source,
                     "file for a C source that links the bundle into a program");
  bundle->add_option("--name", o_.word,
                     "NAME_open of header and source (if left out: the file's name)");
  bundle->add_option("--ptxas", o_.ptxas,
                     "machine code beside the PTX: auto (where ptxas is), report (it must be "
                     "there), off");
  AddNoCache(bundle, o_);
  AddCompiling(bundle, o_, "default");
}

void CommandLine::AddCheck() {
  CLI::App* check = Add("check", "look for races, deadlocks and missing fences in many executions",
                        CmdCheck, true);
  check->add_option("file", o_.file,
                    "FILE[:KERNEL], PTX text with --launch, or a CUDA program: -- ./app arguments");
  check->add_option("assignments", o_.assignments, "as for run");
  check->add_option("--launch", o_.launch, "how to launch PTX text (docs/checking.md)");
  check->add_option("--seeds", o_.seeds, "random executions per policy")
      ->check(CLI::Range(0, 100000));
  check->add_option("--format", o_.format, "text, json, sarif, or github: annotations");
  check->add_flag("--all", o_.all_findings, "every finding, those that follow from others too");
  check->add_option("--suppress", o_.suppress, "file of findings to leave out");
  check->add_flag("--numbers", o_.numbers, "tell where the first NaN or infinity comes from");
  check->add_flag("--banks", o_.banks, "tell of bank conflicts in shared memory");
  check->add_flag("--lint", o_.lint,
                  "tell what could be cheaper: bank conflicts, sectors, boxes, waits");
  check->add_option("--html", o_.html, "file for a page of how the first finding came about");
  check->add_option("--minimise", o_.minimise, "file for the decisions that show the error");
  check->add_flag("--tests", o_.tests, "check every call of the file's `test` blocks");
  check->add_flag("--strict", o_.strict, "findings of portability are errors");
  check->add_option("--arith", o_.arith, "tensor cores: fast, or exact to the bit");
  check->add_option("--seed", o_.seed, "seed of the random tensors");
  AddNoCache(check, o_);
  check->add_option("-o,--output", o_.output, "file for the report about a program behind `--`");
  check
      ->add_option("--gpu", o_.target,
                   "the same as --target: the GPU that a program behind `--` "
                   "sees")
      ->each([this](const std::string&) { o_.target_said = true; });
  AddExecution(check, o_);
  AddCompiling(check, o_, "model");
}

void CommandLine::AddBench() {
  CLI::App* calibrate =
      Add("calibrate", "measure a GPU and write its machine file", CmdCalibrate, false);
  calibrate->add_option("--device", o_.device, "cuda or cuda:N");
  AddTarget(calibrate, o_);
  calibrate->add_option("-o,--output", o_.output, "file; standard output if left out");
  AddReport(calibrate, o_);

  CLI::App* bench = Add("bench", "time a kernel on a GPU", CmdBench, true);
  bench->add_option("file", o_.file, "FILE[:KERNEL]")->required();
  bench->add_option("assignments", o_.assignments, "dims, scalars, constants, tunes as NAME=VALUE");
  bench->add_option("--device", o_.device, "cuda or cuda:N");
  bench->add_option("--seed", o_.seed, "seed of the random tensors");
  AddNoCache(bench, o_);
  AddCompiling(bench, o_, "model");
  bench->add_option("--compare", o_.compare,
                    "cublas or torch: beside cuBLASLt or PyTorch, if it is a product");
  bench->add_option("--timeline", o_.timeline, "file for what one CTA did when, in SM cycles");
  bench->add_option("--rounds", o_.rounds, "turns of each contestant")->check(CLI::Range(1, 1000));
  bench->add_option("--seconds", o_.seconds, "of one turn; of --search: of all launches (1)")
      ->check(CLI::Range(0.001, 100.0))
      ->each([this](const std::string& text) { o_.tune_seconds = std::atof(text.c_str()); });
  bench->add_flag("--search", o_.search,
                  "the model's choice beside the best that was measured, for each combination of "
                  "NAME=VALUE,…");
  bench->add_option("-o,--output", o_.output, "file for the numbers, one JSON object per line");
  AddReport(bench, o_);

  CLI::App* tune =
      Add("tune", "measure which tiles are fastest on a GPU, for a file that --tune takes", CmdTune,
          true);
  tune->add_option("words", o_.assignments,
                   "FILE[:KERNEL], then its values as NAME=VALUE,…: every combination is measured")
      ->required();
  tune->add_option("-o,--output", o_.output,
                   "file of tunes, rows of others stay in it; standard output if left out");
  tune->add_option("--seconds", o_.tune_seconds, "of launches, for one combination (1)")
      ->check(CLI::Range(0.001, 3600.0));
  tune->add_option("--device", o_.device, "cuda or cuda:N");
  tune->add_option("--seed", o_.seed, "seed of tensors of integers");
  AddTarget(tune, o_);
  tune->add_option("--schedule", o_.schedule, "as for run; with `solve` it is measured, too");
  tune->add_option("--stdlib", o_.stdlib_dir, "folder in place of the built-in standard library");
  AddNoCache(tune, o_);
}

void CommandLine::AddTestAndFmt() {
  CLI::App* test = Add("test", "run the `test` blocks of files", CmdTest, true);
  test->add_option("--format", o_.format, "text, or json: an object per call");
  test->add_option("files", o_.files, "FILE…")->required();
  AddRunning(test, o_);
  AddCompiling(test, o_, "default");
  test->add_option("--filter", o_.filter, "only tests whose name contains this");

  CLI::App* fmt = Add("fmt", "rewrite files in the canonical layout", CmdFmt, true);
  fmt->add_option("files", o_.files, "FILE…")->required();
  fmt->add_flag("--check", o_.fmt_check, "only name the files that differ");

  CLI::App* opt = Add("opt", "run passes on a file of IR text", CmdOpt, true);
  AddTarget(opt, o_);
  opt->add_option("file", o_.file, "IR text");
  opt->add_option("--passes", o_.passes, "passes in order")
      ->delimiter(',')
      ->allow_extra_args(false);
  opt->add_option("--print-after", o_.print_after, "print the IR after this pass (or `all`)")
      ->delimiter(',')
      ->allow_extra_args(false);
  opt->add_flag("--list", o_.list, "name all passes");
  opt->add_option("-o,--output", o_.output, "file; standard output if left out");
}

void CommandLine::AddTheRest() {
  CLI::App* cache = Add("cache", "look at the cache on disk: ls, stat, clear", CmdCache, false);
  cache->add_option("action", o_.word, "ls, stat or clear")->required();
  cache->add_option("--format", o_.format, "text or json");
  AddCache(cache, o_);
  CLI::App* schedule =
      Add("schedule", "solve a kernel's loop or a graph for its best schedule", CmdSchedule, true);
  schedule->add_option("file", o_.file, "FILE[:KERNEL]");
  schedule->add_option("assignments", o_.assignments,
                       "static dims, constants, tunes as NAME=VALUE");
  schedule->add_option("--graph", o_.graph, "a graph's text in place of FILE");
  AddTarget(schedule, o_);
  schedule->add_option("--machine", o_.machine,
                       "the same; of a graph: the machine whose limits hold");
  schedule->add_option("--tune", o_.tune,
                       "default, or model: a table of all tile sizes and row slicings");
  schedule
      ->add_option("--nest", o_.nest,
                   "the loop over tiles of a persistent kernel; turns of its inner loops")
      ->check(CLI::Range(int64_t{1}, int64_t{100000}));
  schedule->add_option("--epsilon", o_.epsilon, "slack on II for the secondary objective")
      ->check(CLI::Range(0.0, 1.0));
  schedule->add_option("--ii", o_.ii, "only this initiation interval")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  schedule
      ->add_option("--top", o_.top,
                   "how many distinct answers, best first; with --tune=model for each row")
      ->check(CLI::Range(1, 100));
  schedule->add_option("--certificate", o_.certificate, "file for the certificate");
  schedule->add_option("--evidence", o_.evidence,
                       "folder for the graph, the schedule and the certificate of each loop, as "
                       "`tilec verify` takes them");
  AddSolutions(schedule, o_);
  schedule->add_option("--proof", o_.proof, "file for a proof that no smaller II exists");
  schedule->add_option("--schedule", o_.schedule_file,
                       "judge the schedule of this file, solve nothing");
  schedule->add_option("-o,--output", o_.output,
                       "file for the schedule; standard output if "
                       "left out");
  AddExplain();
  CLI::App* verify = Add("verify", "re-check a certificate", CmdVerify, true);
  verify->add_option("certificate", o_.file, "the certificate")->required();
  verify->add_option("--graph", o_.graph, "the graph it is about")->required();
  verify->add_option("--schedule", o_.schedule, "the schedule it came with")->required();
  verify->add_option("--proof", o_.proof, "its proof, checked without a solver");
  verify->add_option("--export-cnf", o_.export_cnf,
                     "file for the clauses that the proof refutes, in DIMACS");
  verify->add_option("--export-proof", o_.export_proof, "file for its lemmas, in DRAT");
  CLI::App* targets =
      Add("targets", "machines that --target may name; with --target, one as a file", CmdTargets,
          false);
  AddTarget(targets, o_);
  targets->add_option("--format", o_.format, "text, or json: an object per machine");
  CLI::App* lsp =
      Add("lsp", "language server for editors, on standard input and output", CmdLsp, false);
  AddTarget(lsp, o_);
  lsp->add_option("--stdlib", o_.stdlib_dir, "folder in place of the built-in standard library");
  CLI::App* doctor = Add("doctor", "what this program finds on this machine", CmdDoctor, false);
  doctor->add_option("--format", o_.format, "text or json");
  AddReport(doctor, o_);
  AddCache(doctor, o_);
  CLI::App* help = Add("help", "explain a diagnostic by its code", CmdHelp, false);
  help->add_option("code", o_.word, "R501; all codes if left out");
  Add("new", "write a kernel to start from", CmdNew, false)
      ->add_option("name", o_.word, "file to make: NAME.tile")
      ->required();
  CLI::App* man = app_.add_subcommand("man", "the manual page, or that of one command, for man(1)");
  man->allow_extras();
  commands_.emplace_back("man", Command{man, [this] { return Man(""); }, false});
  CLI::App* completion = app_.add_subcommand("completion", "completion script for a shell");
  completion->allow_extras();
  AddDiagnostics(completion, o_);
  completion->add_option("shell", o_.word, "bash, zsh or fish")->required();
  commands_.emplace_back("completion", Command{completion, [this] { return Complete(); }, false});
}

void CommandLine::AddExplain() {
  CLI::App* explain = Add("explain", "show a schedule and why it is not faster", CmdExplain, true);
  explain->add_option("file", o_.file, "FILE[:KERNEL]");
  explain->add_option("assignments", o_.assignments, "static dims, constants, tunes as NAME=VALUE");
  explain->add_option("--graph", o_.graph, "a graph's text in place of FILE");
  AddTarget(explain, o_);
  explain->add_option("--machine", o_.machine,
                      "the same; of a graph: the machine whose limits hold");
  AddSolutions(explain, o_);
  explain->add_option("--schedule", o_.schedule, "solve, or a .sched file to explain");
  AddTune(explain, o_, "default");
  explain->add_option("--stdlib", o_.stdlib_dir,
                      "folder in place of the built-in standard library");
  explain->add_option("--loop", o_.loop, "which loop of the kernel, from 1")
      ->check(CLI::Range(1, 1000));
  explain->add_option("--top", o_.top, "how many distinct answers to name, best first")
      ->check(CLI::Range(1, 100));
  explain->add_option("--why-not", o_.why_not, "II=2047, stages=1, roles=1, or a tune: BM=64")
      ->allow_extra_args(false);
  explain->add_flag("--decisions", o_.decisions,
                    "which strategies were considered, their predicted times, and why each was "
                    "refused");
  explain->add_flag("--sass", o_.sass,
                    "overlaps of the program beside ptxas' machine code: what stands, what is "
                    "lost");
  explain->add_option("--nvdisasm", o_.nvdisasm, "which nvdisasm reads it");
  explain->add_flag("--program", o_.program, "each role's program and the reasons of its waits");
  explain->add_option("--format", o_.format, "text or json");
  explain->add_option("--svg", o_.svg, "file for the timeline and the graph");
  explain->add_option("--html", o_.html, "file for a page with everything, to look at and to ask");
  explain->add_option("--trace", o_.trace, "file for Perfetto: several iterations");
  explain->add_flag("--role-crossing", o_.role_crossing,
                    "registers may go to another compute role, by a store and a load");
  explain
      ->add_option("--nest", o_.nest,
                   "the loop over tiles of a persistent kernel; turns of its inner loops")
      ->check(CLI::Range(int64_t{1}, int64_t{100000}));
  explain->add_option("--measured", o_.measured,
                      "timeline of `run --timeline` to lay over the trace");
  explain->add_option("--epsilon", o_.epsilon, "slack on II for the secondary objective")
      ->check(CLI::Range(0.0, 1.0));
  explain->add_option("-o,--output", o_.output, "file; standard output if left out");
}

}  // namespace tilec::tools
