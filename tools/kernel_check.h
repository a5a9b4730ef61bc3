// What `tilec check` does with one kernel: many schedules of execution, all checks of the judge;
// one verdict. Every execution must end, must give the same bytes as the first one (unless the
// kernel's atomics make the order count) and must agree with the interpreter or the expected
// arrays. What the judge finds in any of them is folded into one list.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "shim/settings.h"
#include "tools/diagnostics.h"
#include "tools/runner.h"
#include "tools/subject.h"
#include "tools/suppressions.h"

namespace tilec::tools {

using Json = nlohmann::ordered_json;
namespace judge = runtime::judge;
using runtime::Landing;
using runtime::Policy;
using shim::Plan;

class KernelCheck {
 public:
  explicit KernelCheck(Session& session)
      : session_(session), o_(session.options()), report_(std::make_shared<judge::Report>()) {}

  // `-- ./app arguments`: the exit code.
  Result<int> Program();
  Result<bool> Do();

 private:
  Result<> CheckFormat() const;
  Result<bool> Tests();
  Result<> Test(const frontend::TestInfo& test, const frontend::TestCallInfo& call,
                runtime::Device& device, Images* images);
  Result<bool> Judge();
  Result<> WritePage();
  static std::string LineOf(const std::string& file, int line);
  void Print(bool good) const;
  size_t Count(judge::Severity severity) const;
  Result<> ReadSuppressions();
  Result<> MakeSubject();
  runtime::EmulatorOptions Options(const Plan& plan) const;
  std::string Replay(const Plan& plan) const;
  Result<> Execute(const Plan& plan);
  size_t Faults() const;
  void Compare(const Plan& plan, Subject::Outcome outcome);
  Result<> Shorten();
  std::optional<Subject::Outcome> Rerun(const runtime::EmulatorOptions& options);

  static std::string Key(const judge::Finding& f) {
    return fmt::format("{}:{}", judge::Def(f.rule).id, f.line());
  }
  bool StillFails(runtime::EmulatorOptions options, const runtime::Execution& candidate,
                  const std::map<std::string, int>& wanted);
  void PrintText(bool good) const;
  static bool IsCost(const judge::Finding& f);
  std::vector<judge::Finding> Judgements() const;
  void PrintCosts() const;
  std::string Agreement() const;
  void PrintJson(bool good) const;
  Json Causes() const;

  struct Wrong {
    Plan plan;
    std::string what;
  };

  Session& session_;
  const tools::Options& o_;
  std::shared_ptr<judge::Report> report_;
  runtime::EmulatorOptions base_;
  std::unique_ptr<Subject> subject_;
  std::string words_;  // of the `test` block
  std::vector<std::string> test_says_;
  std::vector<std::string> given_;  // NAME=VALUE
  bool single_ = false;
  bool printed_ = false;
  size_t plans_ = 0, faulted_ = 0;
  uint64_t instructions_ = 0;
  Subject::Outcome first_;
  std::map<std::string, TensorRun> worst_;
  std::vector<Wrong> wrong_;
  std::optional<Plan> failed_;
  std::map<std::string, Plan> first_seen_;  // by Key() of a finding
  Plan usual_ = {Policy::kRunToBlock, Landing::kEarly, 0, false};
  std::string page_;
  std::string shortened_;
  std::vector<Suppression> suppressions_;
  std::vector<judge::Finding> findings_;  // what is not suppressed
  size_t suppressed_ = 0;
};

}  // namespace tilec::tools
