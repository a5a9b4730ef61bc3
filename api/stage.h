// How long a stage of a compilation takes, for --time-passes.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <utility>

#include "api/pipeline.h"

namespace tilec::api {

// Adds the time until its end to the observation's list.
class Stage {
 public:
  Stage(Observation* look, std::string name)
      : look_(look), name_(std::move(name)), start_(std::chrono::steady_clock::now()) {}
  ~Stage() {
    if (!look_) return;
    const std::chrono::duration<double, std::milli> ms = std::chrono::steady_clock::now() - start_;
    look_->times.push_back({name_, ms.count()});
  }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

 private:
  Observation* look_;
  std::string name_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace tilec::api
