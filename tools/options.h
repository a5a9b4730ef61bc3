// What the command line says, as plain data: main.cc fills it, the commands read it.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tilec::tools {

// Exit codes.
inline constexpr int kOk = 0;
inline constexpr int kMismatch = 1;      // a check, a test or a format check failed
inline constexpr int kBadInput = 2;      // usage, or a diagnostic about the input
inline constexpr int kDeviceFailed = 3;  // no such device, or it failed while running

struct Options {
  // Everywhere.
  std::string diagnostics = "text";  // text, json
  bool color = false;

  // Compiling commands.
  std::string target = "h200";  // a name, an architecture or a file
  bool target_said = false;     // else it is the default
  std::string schedule = "solve";
  std::string plan;  // file of a program plan to obey; "": none
  std::string tune = "default";
  std::string stdlib_dir;
  std::string cache_dir;
  bool no_cache = false;
  std::string solutions;  // where solved loops are kept though nothing else is
  std::vector<std::string> print_after;
  std::string stop_after;
  bool time_passes = false;

  // run, build, test
  std::string file;                      // FILE[:KERNEL]
  std::vector<std::string> assignments;  // NAME=VALUE
  std::vector<std::string> files;
  std::string device = "auto";
  std::string arith = "fast";           // fast, exact
  std::string policy = "run-to-block";  // of the emulator, as the next four
  std::string async = "early";
  uint64_t policy_seed = 0;
  bool spurious = false;
  uint64_t max_instructions = 20'000'000'000;  // of a launch, some minutes; 0: no limit
  uint64_t max_memory = 8192;                  // MiB
  std::string record, replay;                  // files of decisions
  int seeds = 4;                               // check
  std::string launch;                          // check: how to launch PTX text
  std::string minimise;       // check: file for the decisions that show the first error
  bool tests = false;         // check: the calls of the `test` blocks
  bool strict = false;        // check: portability counts as error
  bool all_findings = false;  // check: those too that follow from others
  bool numbers = false;       // check: N1
  bool banks = false;         // check: B1
  bool lint = false;          // check: B1 to B4
  std::string suppress;       // check: file of findings to leave out
  std::vector<std::string> program_words;  // check: behind `--`, a program and its arguments
  bool check = false;
  uint64_t seed = 0;
  int repeat = 1;
  std::string timeline;           // run, bench: file
  std::vector<std::string> save;  // NAME=file.npy
  std::string filter;             // test: only tests whose name has it

  // bench, tune
  bool search = false;
  double tune_seconds = 1;  // of launches, for one set of sizes
  std::string commit;   // of this program, "" if it is not known
  std::string compare;  // "", cublas
  int rounds = 5;
  double seconds = 0.3;

  // build, opt, fmt
  std::string emit = "ptx";
  std::string output;          // "" or "-": standard output
  std::string report;          // doctor, calibrate, bench: file that a line is added to
  std::string ptxas = "auto";  // auto, report, refine, off
  std::string nvdisasm;        // build, explain: file; "": where $NVDISASM and others say
  std::string pin;             // refine: file for the schedule; "": KERNEL.sched
  std::vector<std::string> passes;
  bool list = false;
  bool fmt_check = false;

  // bundle
  std::string header, c_source;  // files for C programs

  // schedule, verify
  std::string graph;
  std::string export_cnf, export_proof;
  std::string certificate;
  std::string evidence;
  std::string proof;
  std::string schedule_file;
  double epsilon = 0.01;
  int64_t ii = 0;
  int top = 1;  // answers
  bool role_crossing = false;
  std::string machine;  // the same as `target`; of a graph: whose limits hold
  int64_t nest = 0;     // iterations of the inner loops; 0: no nest

  // explain
  std::string format = "text";  // text, json
  std::string svg, html, trace, measured;
  std::vector<std::string> why_not;
  bool program = false;
  bool decisions = false;  // explain: the table of strategies
  bool sass = false;       // explain: overlaps of the plan beside the machine code
  int loop = 0;            // from 1; 0: the one with most to do

  std::string word;  // help CODE, completion SHELL, cache ACTION, bundle --name, new NAME
};

}  // namespace tilec::tools
