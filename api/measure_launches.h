// Launches that are timed: programs of one call, on tensors of their own. Short ones go to the
// device as graphs, so that the host is not what is measured. Frees all at its end.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "api/halving.h"
#include "api/measure.h"
#include "runtime/launch.h"

namespace tilec::api {

// `work` for 0 … count − 1, on as many threads as the host has cores, and no more than `most`.
void SideBySide(size_t count, size_t most, const std::function<void(size_t)>& work);

// Where the elements of a view lie around its first one, in bytes.
struct Storage {
  uint64_t before = 0, bytes = 0;
};
Storage StorageOf(const runtime::TensorView& view);

class MeasureLaunches {
 public:
  MeasureLaunches(runtime::Device& device, const frontend::Signature& signature, const Call& call,
                  int64_t l2_bytes, const MeasureBy& by);
  ~MeasureLaunches();
  MeasureLaunches(const MeasureLaunches&) = delete;
  MeasureLaunches& operator=(const MeasureLaunches&) = delete;

  // Loads them side by side: who assembles takes longest. For each, was it taken? Programs have the
  // numbers of those that were, in order.
  std::vector<bool> Load(std::vector<backend::KernelImage> images, DiagSink& diags);
  // After that. False: there is no room for one set.
  bool MakeTensors(DiagSink& diags);
  Timed Time(size_t program, double ms);
  // What kernels write in place begins each round as the first.
  void BeginRound(int round);
  // Of the first launch that failed.
  const std::string& why() const { return why_; }
  size_t sets() const { return sets_.size(); }

 private:
  struct Program {
    std::unique_ptr<runtime::LoadedKernel> kernel;
    std::vector<std::shared_ptr<const runtime::LoadedKernel::Ready>> ready;  // by set
    std::unique_ptr<runtime::LaunchGraph> graph;
    bool warm = false, failed = false;
    double estimate_ms = 0;
  };
  bool Fill(const frontend::ParamInfo& param, const Storage& storage, runtime::DeviceAddress at,
            DiagSink& diags);
  bool MakeSet(DiagSink& diags);
  bool Ready(Program& program, DiagSink& diags);
  void MakeGraph(Program& program);
  // Milliseconds of `launches` back to back; 0: it failed.
  double Run(Program& program, int launches);
  Timed Fail(Program& program, const DiagSink& diags);

  runtime::Device& device_;
  const frontend::Signature& signature_;
  const Call& call_;
  const int64_t l2_bytes_;
  const MeasureBy& by_;
  std::unique_ptr<runtime::Stopwatch> watch_;
  std::vector<Program> programs_;
  std::vector<runtime::LaunchArgs> sets_;
  std::vector<runtime::DeviceAddress> allocated_;
  std::string why_;
};

}  // namespace tilec::api
