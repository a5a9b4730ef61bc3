// How fast a kernel is on the GPU at hand, how that compares with what the machine could do and,
// for products, with cuBLASLt in the same process.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "ir/count_work.h"
#include "ir/interpret.h"
#include "ir/passes/passes.h"
#include "runtime/launch.h"
#include "tools/assignments.h"
#include "tools/bench.h"
#include "tools/cublaslt.h"
#include "tools/diagnostics.h"
#include "tools/runner.h"
#include "tools/torch_peer.h"

namespace tilec::tools {

struct Roof {
  double ms = 0;
  std::string what;  // "the tensor unit", "memory"
};

class KernelBench {
 public:
  explicit KernelBench(Session& session) : session_(session), o_(session.options()) {}
  ~KernelBench() {
    for (runtime::DeviceAddress a : allocated_) device_->Free(a);
  }
  Result<bool> Run();

 private:
  Result<> CheckWords();
  Result<> OpenGpu();
  Result<> Bind(const Assignments& given);
  Result<> Compile();

  static bool Written(const frontend::ParamInfo& p) { return p.direction != ir::Direction::kIn; }
  Result<> MakeBuffers();
  Result<> Check();
  Result<> LoadPeer();
  std::vector<Contestant> Contestants();
  Roof RoofOf() const;
  Result<> Predict();
  double CyclesPerTrip(const Timing& t) const;
  void Print();
  void PrintTiming(const Timing& t, const Roof& roof);
  Result<> WriteJson();

  Session& session_;
  const Options& o_;
  std::string kernel_;
  std::unique_ptr<runtime::Device> device_;
  frontend::Signature signature_;
  api::Call call_;
  std::optional<ir::Function> tile_, clean_;
  Bindings names_;
  ir::WorkCount work_;
  ir::Target target_;
  bool cached_ = false, may_check_ = true, wrong_ = false;
  double compile_ms_ = 0;
  std::unique_ptr<runtime::LoadedKernel> kernel_on_;
  std::vector<runtime::DeviceAddress> allocated_;
  std::vector<runtime::LaunchArgs> sets_;
  std::vector<std::shared_ptr<const runtime::LoadedKernel::Ready>> ready_;
  ir::InterpretInputs inputs_;
  ir::InterpretReport report_;
  std::vector<TensorRun> checks_;
  std::optional<Product> product_;
  std::unique_ptr<CublasLt> cublas_;
  std::unique_ptr<TorchPeer> torch_;
  Span loop_;
  int64_t trips_ = 0, predicted_ii_ = 0;
  std::vector<Timing> timings_;
};

}  // namespace tilec::tools
