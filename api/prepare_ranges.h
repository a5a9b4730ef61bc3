// Prepare of ranges by several threads: each takes the next class that nobody has. What a class
// becomes depends on nothing but the class, so that the threads change no result; what is reported
// is what one thread would report that takes the classes in order and ends at the first that fails.
//
// All classes have their tiles chosen before a program is made: only then is it known which classes
// share one, and nobody waits for a program that another thread is making while there are others.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

#include "include/tilec/tilec.h"
#include "support/diag.h"
#include "support/result.h"

namespace tilec {
struct Specialisation;  // api/state.h
}

namespace tilec::api {

// What preparing took so far.
struct Spent {
  std::atomic<size_t> programs{0};
  std::atomic<int64_t> choosing{0}, compiling{0}, loading{0};  // nanoseconds
};

// Adds the time until its end to one of them; null: to none.
class Spending {
 public:
  explicit Spending(std::atomic<int64_t>* on) : on_(on), start_(std::chrono::steady_clock::now()) {}
  ~Spending() {
    if (on_) *on_ += std::chrono::nanoseconds(std::chrono::steady_clock::now() - start_).count();
  }
  Spending(const Spending&) = delete;
  Spending& operator=(const Spending&) = delete;

 private:
  std::atomic<int64_t>* on_;
  std::chrono::steady_clock::time_point start_;
};

// What is done for class number i, from any thread.
using EachClass = std::function<Result<>(size_t i, DiagSink& diags)>;

Result<> PrepareEach(size_t count, const PrepareOptions& options, Spent& spent,
                     const EachClass& one, DiagSink& diags);

struct InTwo {
  EachClass choose;                                    // says which program a class has …
  const std::vector<const Specialisation*>& programs;  // … here
  EachClass one;
};
// `choose` of all classes; then `one` of all, the first of each program before any other.
Result<> PrepareInTwo(size_t count, const PrepareOptions& options, Spent& spent, const InTwo& steps,
                      DiagSink& diags);

// Numbers of classes: the first of each program, then the others, each in their order.
std::vector<size_t> FirstOfEach(const std::vector<const Specialisation*>& programs);

}  // namespace tilec::api
