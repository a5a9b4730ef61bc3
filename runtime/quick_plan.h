// Plans launches of one image by places in place of names. When an image is loaded, its names,
// expressions and checks are numbered once, so that a launch of sizes that nobody saw before is
// planned without a look-up by text and without memory but the plan's own.
//
//   1. What it plans is what PlanLaunch (launch.h), which does the same by names, plans: the same
//      bytes (tests/unit/api/quick_plan_test.cc).
//   2. It has no words. Where anything is not as it must be it plans nothing, and PlanLaunch says
//      what is wrong.
//   3. It plans in two steps, since memory between an image's launches has an address only once its
//      size is known.
//
// Private to runtime/. Not thread-safe: its owner locks.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "backend/kernel_image.h"
#include "runtime/launch.h"

namespace tilec::runtime {

class QuickPlanner {
 public:
  // The image outlives it.
  explicit QuickPlanner(const backend::KernelImage& image);

  // Binds and checks all that has no address; false: nothing is planned. `given` has the tensors
  // and the scalars of the image in their order, and is needed until Finish returns.
  bool Begin(const GivenLaunch& given);
  // After a Begin that was true.
  uint64_t work_bytes() const { return plan_.work_bytes; }
  bool nothing_to_do() const { return plan_.nothing_to_do; }
  // The rest, with the image's work at `work`; false: nothing is planned.
  bool Finish(DeviceAddress work, LaunchPlan* plan);

 private:
  // An expression in postfix: steps_[first … first + count).
  struct Code {
    uint32_t first = 0, count = 0;
  };
  struct Step {
    Expr::Op op;
    int32_t slot;
    int64_t value;
  };
  struct Tensor {
    int bytes = 1;               // of an element
    std::vector<int32_t> names;  // slot of each dim that is a bare name, or -1
    std::vector<int32_t> steps;  // slot of each stride
    std::vector<Code> dims;      // of the others
    std::vector<bool> wide;      // may the dim be 2^31 or more?
  };
  struct Map {
    int place = -1;  // of its tensor: among the image's tensors, then among its work
    int bytes = 1;
    int scratch = 0;
    std::vector<Code> dims, strides;
  };

  int SlotOf(const std::string& name);
  Code Compile(const Expr& e);
  void Append(const Expr& e, size_t depth);
  int PlaceOf(const std::string& tensor) const;
  Tensor Number(const backend::TensorArg& arg);

  void Set(int32_t slot, int64_t value) { slots_[static_cast<size_t>(slot)] = {value, true}; }
  bool Bind(int32_t slot, int64_t value);
  bool Value(Code code, bool exact, int64_t* value) const;
  bool BindTensor(size_t i, const GivenTensor& given);
  bool CheckDims(size_t i, const GivenTensor& given) const;
  bool PlanWork();
  bool PlanGrid();
  bool PlanMap(const Map& map, const backend::TensorMapRecipe& recipe, TensorMapDesc* desc) const;
  bool Pack(const backend::EntryParam& param, size_t i, KernelArg* arg) const;

  const backend::KernelImage& image_;
  bool usable_ = true;
  std::map<std::string, int, std::less<>> numbers_;
  std::vector<Step> steps_;
  std::vector<Tensor> tensors_, work_;
  std::vector<int32_t> scalars_;  // slots
  std::vector<Code> facts_;
  Code grid_[3];
  std::vector<int> alignment_;  // places
  std::vector<Map> maps_;
  struct Param {
    int place = -1;  // of a tensor, or of a scalar
    Code value;
  };
  std::vector<Param> params_;

  // Of the launch that is being planned.
  struct Slot {
    int64_t value = 0;
    bool bound = false;
  };
  std::vector<Slot> at_first_, slots_;  // at first: what the image is compiled for
  const GivenLaunch* given_ = nullptr;
  std::vector<DeviceAddress> data_;  // by place
  std::vector<int64_t> elements_;    // by place
  LaunchPlan plan_;
};

}  // namespace tilec::runtime
