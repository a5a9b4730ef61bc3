// One program of the corpus that mutants are made of: its launches and what they gave when the
// program was right; a mutant of it, tried under some orders of warps and copies, and whether the
// judge saw it, by which check and at which place.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/emulator/judge/trace.h"
#include "tests/mutation/mutate.h"
#include "tools/subject.h"

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
  size_t launch = 0;  // of a kernel of two launches: 0 the last, else that one from the first, 1
};

struct Result1 {
  bool caught = false, rightly = false, by_value = false, identical = false, refused = false;
  bool reached = true;     // the launch executes the changed statement, if nothing was seen
  bool placed = false;     // at the right place
  bool has_place = false;  // a check spoke, not only the comparison of outputs
  std::string by;          // checks
};

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
  Corpus(const Source& source, const std::string& root, const std::string& cache);
  bool Open();

  const std::string& ptx() const { return ptx_; }
  Result1 Try(const Mutant& mutant);

 private:
  void RunAs(Subject& subject, const std::string& text) const;
  static constexpr int kNotAsked = -2;
  static constexpr uint64_t kOften = 24;  // more orders
  struct Launched {
    std::unique_ptr<Subject> subject;
    Subject::Outcome reference;
    std::set<int> lines;  // of the text: judged instructions that some order comes to
  };
  bool KnownUnreached(const Mutant& mutant, const std::set<int>& lines) const;
  bool Add(const std::string& words);
  void TryOnce(const Mutant& mutant, const Plan& plan, const Launched& launch, Result1* result);
  bool Reached(const Mutant& mutant);
  int BarrierOf(const Mutant& mutant);
  std::optional<Subject::Outcome> Run(Subject& subject, const Plan& plan,
                                      std::shared_ptr<judge::Report> report);
  static bool Same(const Subject::Outcome& outcome, const Subject::Outcome& reference);

  const Source source_;
  tools::Options options_;
  std::string root_, ptx_;
  std::unique_ptr<Session> session_;
  std::vector<Launched> launches_;
  int barrier_ = kNotAsked;       // that the mutant is about
  std::set<int> seen_;            // lines of all launches
  std::set<std::string> judged_;  // opcodes
};
