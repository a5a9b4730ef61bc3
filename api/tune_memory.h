// What a search for tunes finds out that holds for all sizes: the kernel at each point, the forms
// it can take, and the programs that points became. The search for the next class of sizes begins
// with it. It is of one kernel, one set of facts about its tensors and one set of given statics.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "api/pipeline.h"
#include "ir/lower/filled.h"
#include "scheduler/split_choice.h"

namespace tilec::api {

// What is found out by one key is found out once, by whoever asks first; others wait for that one
// only.
template <typename T, typename Key = std::string>
class FoundOnce {
 public:
  // `find` fills what is empty.
  template <typename Find>
  T& At(const Key& key, const Find& find) {
    Entry* entry = nullptr;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      std::unique_ptr<Entry>& at = entries_[key];
      if (!at) at = std::make_unique<Entry>();
      entry = at.get();
    }
    std::call_once(entry->once, [&] {
      find(entry->found);
      entry->there = true;
    });
    return entry->found;
  }
  // What somebody found; null: nobody has yet.
  T* Find(const Key& key) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto at = entries_.find(key);
    return at != entries_.end() && at->second->there ? &at->second->found : nullptr;
  }

 private:
  struct Entry {
    std::once_flag once;
    std::atomic<bool> there{false};
    T found;
  };
  std::mutex mutex_;
  std::map<Key, std::unique_ptr<Entry>> entries_;
};

// Thread-safe. Must not outlive the machine it was filled with.
struct TuneMemory {
  // The kernel at a point.
  struct Known {
    std::unique_ptr<scheduler::Forms> forms;  // null: it does not compile
    bool too_wide = false;                    // for the machine's instructions
    double longer = 1;                        // than its bounds say, by what they do not count
  };
  FoundOnce<Known> points;  // by statics
  // What a point became in one form.
  struct Program {
    ir::Function clean, warps;
    Lowered how;
    ir::Filling filling;
  };
  FoundOnce<std::unique_ptr<Program>> programs;  // null: it was refused
  // The kernel at what was chosen, for the next class that has the same tiles; null: it does not
  // compile.
  FoundOnce<std::unique_ptr<scheduler::Forms>> chosen;  // by statics
};

// Choices in a store, by all that they depend on.
std::string TuneKey(const Loaded& loaded, const frontend::Signature& signature, const Call& call,
                    const PipelineOptions& options);
std::optional<frontend::Values> KeptTunes(scheduler::SolutionStore& store, const std::string& key);
void KeepTunes(scheduler::SolutionStore& store, const std::string& key, const std::string& kernel,
               const frontend::Values& values);

}  // namespace tilec::api
