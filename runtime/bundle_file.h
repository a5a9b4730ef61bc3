// A bundle as a host has it: the index is read when it is opened, a build when it is first used.
//
// Opening checks the index against its hash and its lengths against the file. A build is checked
// against its hash, and against what the index says of it, when it is read; damage is an error of
// the launch that wanted it, and of none else. Thread-safe.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/bundle.h"
#include "runtime/launch.h"
#include "support/byte_source.h"

namespace tilec::runtime {

class BundleFile {
 public:
  // A name and its value, in the index.
  struct Named {
    std::string_view name;
    int64_t value = 0;
  };

  // `name` is what diagnostics call it.
  static Result<std::unique_ptr<BundleFile>> Open(ByteSource bytes, const std::string& name,
                                                  DiagSink& diags);

  std::string_view compiler() const { return compiler_; }
  size_t size() const { return entries_.size(); }
  std::string_view kernel(size_t i) const { return entries_[i].kernel; }
  std::string_view target(size_t i) const { return entries_[i].target; }
  // Kernels by name, each once, in order of their first build.
  const std::vector<std::string>& kernels() const { return kernels_; }

  // Build i, which lives as long as this.
  Result<const Build*> Get(size_t i, DiagSink& diags) const;
  // The first build of the kernel, for this target if there is one; size(): there is none.
  size_t First(std::string_view kernel, std::string_view target = {}) const;

  // How far a call is from what build i was chosen for: the sum of |log2(have / wanted)| over the
  // names of the nearest of its sizes; a name that the call has not counts as 64. Infinite if the
  // build has no sizes.
  double Distance(size_t i, const Bindings& call) const;
  // Was build i compiled for another value of a name that the call has?
  bool Contradicts(size_t i, const Bindings& call) const;

 private:
  struct Entry {
    std::string_view kernel, target;
    uint64_t offset = 0, bytes = 0, hash = 0;
    size_t first_list = 0, lists = 0;  // the first is of what was compiled in
  };

  BundleFile(ByteSource bytes, std::string name)
      : bytes_(std::move(bytes)), name_(std::move(name)) {}
  std::string ReadIndex(std::string_view index, uint64_t count, uint64_t offset);
  std::span<const Named> List(size_t i) const;
  std::string Check(const Entry& entry, std::string_view bytes, Build* build) const;

  ByteSource bytes_;
  std::string name_, index_;
  std::string_view compiler_;
  std::vector<Entry> entries_;
  std::vector<Named> values_;
  std::vector<size_t> list_ends_;  // in values_; a list begins where the one before ends
  std::vector<std::string> kernels_;

  mutable std::mutex mutex_;  // of what follows
  mutable std::vector<std::unique_ptr<const Build>> builds_;
};

// What a call says by names: dims, extents of tensors whose dim is a name, integer scalars. Checks
// nothing.
Bindings ValuesOf(const backend::KernelImage& image, const LaunchArgs& args);

// Which build of `kernel` a launch with these arguments takes on a device of this target. Fails
// with what each build lacked.
Result<size_t> ChooseBuild(const BundleFile& bundle, const std::string& kernel,
                           const std::string& target, const LaunchArgs& args, DiagSink& diags);

}  // namespace tilec::runtime
