// Launches of sizes that nobody saw before, of classes that somebody did (api/size_classes.h):
// their program is found by a key that is read off the arguments. Binding them, asking the kernel's
// facts and naming the class in words is what takes the time of such a launch otherwise, and says
// no more: whoever packs the arguments checks them against the program, which carries the facts.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <unordered_map>

#include "api/call.h"
#include "frontend/frontend.h"
#include "runtime/launch.h"

namespace tilec::api {

// Not thread-safe: its owner locks.
class KnownClasses {
 public:
  // Are launches of such a kernel told by their class? Facts over floating-point scalars are in no
  // program: only binding asks them. Of those that speak of such scalars alone it is enough to have
  // asked once for each value.
  static bool Tell(const frontend::Signature& signature);
  // The same for arguments that are alike in all that a choice for classes looks at: facts and row
  // starts of the tensors, classes of dims and integer scalars, what is compiled in, the device,
  // and in floating-point scalars that facts speak of. nullopt where arguments are missing or do
  // not fit: binding says which. `values` come from CheckValues.
  static std::optional<std::string> KeyOf(const frontend::Signature& signature,
                                          const frontend::Values& values, const Tensors& tensors,
                                          const void* device);

  runtime::LoadedKernel* Find(const std::string& key) const {
    const auto at = programs_.find(key);
    return at == programs_.end() ? nullptr : at->second;
  }
  void Keep(std::string key, runtime::LoadedKernel* program);

 private:
  static constexpr size_t kMost = 1 << 16;
  std::unordered_map<std::string, runtime::LoadedKernel*> programs_;
};

}  // namespace tilec::api
