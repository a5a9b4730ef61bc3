// What `tilec check` runs again and again under different schedules of execution: a kernel of the
// language with seeded tensors, or PTX text with a launch file. Inputs and expected outputs are
// made once.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "ir/interpret.h"
#include "runtime/device.h"
#include "tools/assignments.h"
#include "tools/launch_file.h"
#include "tools/runner.h"
#include "tools/session.h"

namespace tilec::tools {

struct Expected {
  ir::TensorValue value;
  double tolerance = -1;
};

class Subject {
 public:
  virtual ~Subject() = default;
  const std::string& name() const { return name_; }
  // By tensor or buffer; may be empty.
  const std::map<std::string, Expected>& expected() const { return expected_; }
  // Where it says what must come out; "" if nowhere.
  const std::string& reference() const { return reference_; }

  struct Outcome {
    std::map<std::string, ir::TensorValue> outputs;
    runtime::LaunchStats stats;
  };
  virtual Result<Outcome> Run(runtime::Device& device) = 0;
  // From now on the PTX that is run is what this makes of it, of several launches the text of each
  // in their order; for tests of the checks.
  void Rewrite(std::function<std::string(const std::string&)> rewrite) {
    rewrite_ = std::move(rewrite);
  }
  const std::function<std::string(const std::string&)>& rewrite() const { return rewrite_; }

 protected:
  std::string name_, reference_;
  std::map<std::string, Expected> expected_;
  std::function<std::string(const std::string&)> rewrite_;
};

// A kernel of the program that the session has loaded. `images` (may be null) outlives it.
Result<std::unique_ptr<Subject>> KernelSubject(Session& session, const std::string& kernel,
                                               const Assignments& given, Images* images = nullptr);
// A call of a `test` block. It is run on `device`, as `tilec test` runs it, and compared with the
// interpreter, the call's tolerance and the kernel that it expects; `tested` says what came of
// that.
Result<std::unique_ptr<Subject>> TestSubject(Session& session, const frontend::TestCallInfo& call,
                                             runtime::Device& device, Images* images,
                                             RunResult* tested);
// PTX text; `name` is what reports call it.
Result<std::unique_ptr<Subject>> PtxSubject(Session& session, const std::string& name,
                                            const std::string& ptx, const LaunchFile& launch);

}  // namespace tilec::tools
