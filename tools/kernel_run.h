// One run of a kernel: tensors from files or made, the program compiled, executed on a device and
// compared with the interpreter.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "api/schedule_names.h"
#include "ir/diagnostics.h"
#include "ir/interpret.h"
#include "tools/diagnostics.h"
#include "tools/random_inputs.h"
#include "tools/runner.h"

namespace tilec::tools {

using Clock = std::chrono::steady_clock;

inline double Since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

class KernelRun {
 public:
  KernelRun(Session& session, const RunRequest& request) : session_(session), request_(request) {}
  Result<RunResult> Do();

 private:
  Result<> ReadFiles();

  template <typename T>
  static Result<> Discard(Result<T> r) {
    if (r.ok()) return Done();
    return DiagSink::Propagate();
  }
  Result<> MakeViews();
  Result<> FillTensors();
  Shapes AllShapes() const;
  Result<std::map<std::string, IntegerUse>> Uses();
  Result<> CheckSizes();
  Result<double> CheckSize(const frontend::ParamInfo& p, const std::vector<int64_t>& shape,
                           bool interpreted);
  Result<ir::Function*> TileIr();
  Result<backend::KernelImage> Compile();
  Result<> OnDevice();
  Result<> Refill(runtime::Device& device);

  // May CTAs share what a tile adds up?
  int64_t Parts() const {
    return api::SplitOf(session_.pipeline().For(call_).schedule).value_or(call_.split);
  }
  Result<> Interpreted();
  Result<> Expected(std::map<std::string, ir::TensorValue> start,
                    const std::map<std::string, ir::TensorValue>& ours);
  static ir::TensorValue Allowed(ir::TensorValue want, const ir::TensorValue& mine,
                                 double tolerance);

  Session& session_;
  const RunRequest& request_;
  frontend::Signature signature_;
  frontend::Values values_;
  api::Tensors views_;
  std::map<std::string, ir::TensorValue> tensors_;
  api::Call call_;
  std::optional<ir::Function> tile_ir_;
  RunResult result_;
};

}  // namespace tilec::tools
