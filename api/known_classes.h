// Launches of sizes that nobody saw before, of classes that somebody did (api/size_classes.h):
// their program is found by a key that is read off the arguments. Binding them, asking the kernel's
// facts and naming the class in words is what takes the time of such a launch otherwise, and says
// no more: whoever packs the arguments checks them against the program, which carries the facts.
//
// What of a signature says how arguments are read is found out once, when the kernel is loaded
// (ClassReader). Reading them is a walk over names that are sorted on both sides, into places of a
// fixed size: no memory, no text. Launches with more than there are places for go the long way.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "api/call.h"
#include "frontend/frontend.h"
#include "include/tilec/tilec.h"
#include "runtime/launch.h"

namespace tilec::api {

// A launch as it was read; refers to its arguments.
struct ReadLaunch {
  static constexpr size_t kTensors = 16, kDims = 6, kScalars = 16, kWords = 160;
  runtime::GivenLaunch given() const {
    return {
        {tensors.data(), tensor_count}, {scalars.data(), scalar_count}, {dims.data(), dim_count}};
  }
  std::span<const int64_t> key() const { return {words.data(), word_count}; }

  std::array<runtime::GivenTensor, kTensors> tensors;
  std::array<std::array<int64_t, kDims>, kTensors> steps;
  std::array<runtime::ScalarValue, kScalars> scalars;
  std::array<runtime::GivenDim, kScalars> dims;
  std::array<int64_t, kWords> words;
  size_t tensor_count = 0, scalar_count = 0, dim_count = 0, word_count = 0;
};

class ClassReader {
 public:
  // The signature outlives it.
  explicit ClassReader(const frontend::Signature& signature);
  // Are launches of such a kernel told by their class? Facts over floating-point scalars are in no
  // program: only binding asks them. Of those that speak of such scalars alone it is enough to have
  // asked once for each value.
  bool tells() const { return tells_; }
  // The key is the same for arguments that are alike in all that a choice for classes looks at:
  // facts and row starts of the tensors, classes of dims and integer scalars, what is compiled in,
  // the device, and in floating-point scalars that facts speak of. False where arguments are
  // missing or do not fit: binding says which.
  bool Read(const Args& args, const void* device, ReadLaunch* launch) const;
  // Has a program the tensors and scalars of the signature, in its order?
  bool Fits(const backend::KernelImage& image) const;

 private:
  struct TensorPlace {  // in the order of their names
    const frontend::ParamInfo* param = nullptr;
    size_t index = 0;  // among the signature's tensors
  };
  struct DimPlace {
    const frontend::DimInfo* dim = nullptr;
    bool is_static = false;
    int tensor = -1, at = 0;  // who has it; -1: only a value says it
  };
  enum class Kind { kDim, kScalar, kCompiledIn };
  struct ValuePlace {  // in the order of their names
    const std::string* name = nullptr;
    Kind kind = Kind::kCompiledIn;
    ir::DType dtype = ir::DType::kI64;
    size_t scalar = 0;  // among the signature's
    const frontend::ConstValue* standard = nullptr;
    bool needed = false;  // or it is left out
    bool asked = false;   // by facts
  };
  bool ReadTensor(const TensorPlace& place, const Tensor& tensor, ReadLaunch* launch) const;
  bool ReadValues(const std::map<std::string, Value>& values, ReadLaunch* launch) const;
  bool ReadDims(ReadLaunch* launch) const;

  bool tells_ = true;
  std::vector<TensorPlace> tensors_;
  std::vector<ValuePlace> values_;
  std::vector<DimPlace> dims_;
  std::vector<const frontend::ParamInfo*> in_order_, scalars_;  // as in the signature
};

// Not thread-safe: its owner locks.
class KnownClasses {
 public:
  runtime::LoadedKernel* Find(std::span<const int64_t> key) const {
    const auto at = programs_.find(key);
    return at == programs_.end() ? nullptr : at->second;
  }
  void Keep(std::span<const int64_t> key, runtime::LoadedKernel* program);

 private:
  static constexpr size_t kMost = 1 << 16;
  using Words = std::span<const int64_t>;
  struct Hash {
    using is_transparent = void;
    size_t operator()(Words words) const;
  };
  struct Equal {
    using is_transparent = void;
    bool operator()(Words a, Words b) const {
      return std::equal(a.begin(), a.end(), b.begin(), b.end());
    }
  };
  std::unordered_map<std::vector<int64_t>, runtime::LoadedKernel*, Hash, Equal> programs_;
};

}  // namespace tilec::api
