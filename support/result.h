// Result<T>: a value, or the proof that a diagnostic has been reported.
//
// A failing Result carries no text. The only way to make one is to report a diagnostic to a
// DiagSink (support/diag.h), so a failure can neither be silent nor be printed twice.
//
//   Result<int> Parse(DiagSink& diags);
//   TRY(int n, Parse(diags));      // returns from the enclosing function on failure
//   TRY_VOID(Check(diags));        // the same for Result<void>
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <utility>

namespace tilec {

class DiagSink;
class DiagBuilder;

// Proof that somebody reported an error. Constructible by the sink only.
class Reported {
 private:
  friend class DiagSink;
  friend class DiagBuilder;
  Reported() = default;
};

template <typename T = void>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}  // NOLINT: implicit by design
  Result(Reported) {}                            // NOLINT: implicit by design
  bool ok() const { return value_.has_value(); }
  explicit operator bool() const { return ok(); }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return *std::move(value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Reported) : ok_(false) {}  // NOLINT: implicit by design
  bool ok() const { return ok_; }
  explicit operator bool() const { return ok_; }

 private:
  bool ok_ = true;
};

// Success of a Result<void>, spelled out.
inline Result<void> Done() { return {}; }

namespace result_internal {
// A failed result may be returned from any function that returns a Result: the report is made.
struct Failure {
  Reported reported;
  template <typename U>
  operator Result<U>() const {  // NOLINT: implicit by design
    return Result<U>(reported);
  }
};
}  // namespace result_internal

}  // namespace tilec

#define TILEC_CONCAT2(a, b) a##b
#define TILEC_CONCAT(a, b) TILEC_CONCAT2(a, b)
#define TILEC_TRY2(tmp, decl, ...)                      \
  auto tmp = (__VA_ARGS__);                             \
  if (!tmp.ok()) return ::tilec::DiagSink::Propagate(); \
  decl = std::move(*tmp)
#define TRY(decl, ...) TILEC_TRY2(TILEC_CONCAT(try_, __COUNTER__), decl, __VA_ARGS__)
#define TRY_VOID(...)                                          \
  do {                                                         \
    auto try_void = (__VA_ARGS__);                             \
    if (!try_void.ok()) return ::tilec::DiagSink::Propagate(); \
  } while (false)
