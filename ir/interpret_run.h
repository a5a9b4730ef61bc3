// One thread of control of the interpreter: ops, loops and branches over an environment of tiles.
// Included by ir/interpret*.cc only.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "ir/interpret.h"
#include "ir/interpret_internal.h"
#include "ir/interpret_memory.h"
#include "ir/interpret_parts.h"

namespace tilec::ir::interpret_internal {

// Says how far a run is, once a second has gone by.
class Progress {
 public:
  explicit Progress(const InterpretOptions& options) : report_(options.progress) {}
  // Once per iteration of a loop and per instance; looks at the clock now and then.
  void Tick() {
    if (report_ && (ticks_.fetch_add(1, std::memory_order_relaxed) & 0xff) == 0) Look();
  }
  void Instance() {
    instances_.fetch_add(1, std::memory_order_relaxed);
    Tick();
  }
  void Expect(int64_t instances) { of_ = instances; }

 private:
  using Clock = std::chrono::steady_clock;
  void Look();

  const std::function<void(const InterpretProgress&)>& report_;
  std::atomic<uint64_t> ticks_{0};
  std::atomic<int64_t> instances_{0};
  int64_t of_ = 0;
  std::mutex mutex_;
  Clock::time_point start_ = Clock::now();
  double next_ = 1;  // seconds
};

// What all threads share.
struct Kernel {
  const Function& fn;
  const InterpretOptions& options;
  std::map<int32_t, Tensor> tensors;  // by value; not changed while threads run
  Progress progress{options};
  uint64_t perturb = 0;                  // seed of a perturbed run; 0: the run with bounds
  uint64_t turn = 0;                     // of atomics, where they are numbered
  std::set<ValueId> rounded_apart = {};  // terms that parts of a sum round for themselves
  LoopsInParts in_parts = {};            // whose sums parts round for themselves
};

struct PrintLine {
  int64_t instance = 0;
  std::string text;
};

// One thread of control with its values.
class Worker {
 public:
  Worker(Kernel& kernel, std::vector<Tile> env) : k_(kernel), env_(std::move(env)) {}

  // False: a diagnostic is in `diags`.
  void StartTop() { Enter(kNobody, -1); }
  bool RunTopOp(const Op& op) { return RunOp(op); }
  bool RunInstance(const Op& parallel, int64_t instance, const std::vector<int64_t>& starts);
  // The instances of one cluster, from `first` on, where ops combine what they have.
  bool RunCluster(const Op& parallel, int64_t first,
                  const std::vector<std::vector<int64_t>>& starts);

  std::vector<Tile>& env() { return env_; }
  DiagSink diags;
  Conflicts conflicts;
  int64_t undecided_stores = 0;
  std::vector<PrintLine> prints;

 private:
  void Enter(uint32_t claim, int64_t instance);
  void Begin(const Op& parallel, int64_t instance, const std::vector<int64_t>& starts);
  void Combine(const Op& op);
  bool RunBlock(BlockId block);
  bool RunOp(const Op& op);
  void RunApart(const Op& op, std::span<const Tile*> in);
  void AddedApart(const Op& op);
  bool RunFor(const Op& op);
  bool RunWhile(const Op& op);
  bool RunIf(const Op& op);
  bool RunAssert(const Op& op);
  void RunPrint(const Op& op);
  // The region's yielded values become `targets`, all at once.
  void TakeYield(BlockId region, size_t leading, const std::vector<ValueId>& targets);
  void Copy(const std::vector<ValueId>& from, size_t leading, const std::vector<ValueId>& to);
  // A scalar that steers control.
  int64_t Control(ValueId v) {
    if (env_[v.index].undecided(0)) context_.tainted = true;
    return env_[v.index].n[0];
  }
  std::vector<const Tile*> Tiles(const Op& op, size_t from) const {
    std::vector<const Tile*> tiles;
    for (size_t i = from; i < op.operands.size(); ++i) tiles.push_back(&env_[op.operands[i].index]);
    return tiles;
  }
  Tile& Result(const Op& op) {
    Tile& out = env_[op.results[0].index];
    out.Reset(k_.fn.type(op.results[0]));
    out.dice = context_.dice;
    return out;
  }
  // Zeros, for an atomic to put there what it finds.
  Tile& Found(const Op& op) {
    Tile& out = Result(op);
    std::fill(out.v.begin(), out.v.end(), 0.0);
    std::fill(out.n.begin(), out.n.end(), 0);
    return out;
  }
  Tensor& TensorOf(ValueId v) { return k_.tensors.at(v.index); }

  Kernel& k_;
  std::vector<Tile> env_;
  AccessContext context_;
  Dice dice_;
  int64_t instance_ = -1;
  struct Instance {
    std::vector<Tile> env;
    AccessContext context;
  };
  std::map<ValueId, PartsOfSum> sums_;  // of the loop that runs, by carried value
  std::vector<Instance> together_;      // by rank; while one runs, its values are env_
};

}  // namespace tilec::ir::interpret_internal
