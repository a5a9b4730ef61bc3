// What a run's comparison says: how many elements were decided, whether that is enough, and the
// words for it.
//
// SPDX-License-Identifier: Apache-2.0
#include "tools/runner.h"

#include <algorithm>

#include "ir/diagnostics.h"
#include "ir/interpret.h"
#include "tools/diagnostics.h"

namespace tilec::tools {

namespace {

std::string Index(int64_t linear, const std::vector<int64_t>& dims) {
  std::vector<int64_t> at(dims.size());
  for (size_t i = dims.size(); i-- > 0;) {
    at[i] = dims[i] ? linear % dims[i] : 0;
    linear /= std::max<int64_t>(1, dims[i]);
  }
  return fmt::format("[{}]", fmt::join(at, ", "));
}

}  // namespace

void Decided::Add(int64_t decided_ones, int64_t sampled_ones, int64_t undecided_ones) {
  decided += decided_ones;
  sampled += sampled_ones;
  undecided += undecided_ones;
  enough = enough && decided_ones >= undecided_ones;
}

void Decided::Add(const Decided& other) {
  decided += other.decided;
  sampled += other.sampled;
  undecided += other.undecided;
  enough = enough && other.enough;
}

std::string Decided::Text() const {
  return fmt::format("{} elements decided{}, {} undecided", decided,
                     sampled > 0 ? fmt::format(" ({} by sampling)", sampled) : "", undecided);
}

Decided RunResult::decided() const {
  Decided out;
  bool compared = false;
  for (const TensorRun& t : tensors) {
    compared |= t.compared;
    if (t.compared) out.Add(t.result.checked, t.result.sampled, t.result.undecided);
  }
  if (compared) return out;
  for (const auto& [name, value] : outputs) {
    const auto count = [](const std::vector<uint8_t>& flags) {
      return static_cast<int64_t>(flags.size()) - std::count(flags.begin(), flags.end(), 0);
    };
    const int64_t undecided = count(value.undecided);
    out.Add(value.elements() - undecided, count(value.sampled), undecided);
  }
  return out;
}

std::string DescribeCheck(const TensorRun& t) { return DescribeCheck(t, t.result); }

std::string DescribeCheck(const TensorRun& t, const ir::CompareResult& r) {
  std::string out = fmt::format("max error {:.2g}, {:.2f} of the bound, {} elements", r.max_error,
                                r.max_ratio, r.checked);
  if (r.sampled > 0) out += fmt::format(" ({} by sampling)", r.sampled);
  if (r.undecided > 0) out += fmt::format(", {} undecided", r.undecided);
  if (!r.ok())
    out += fmt::format("; {} WRONG, first {}{}: {:.9g} instead of {:.9g} within {:.3g}", r.failed,
                       t.name, Index(r.first_failed, t.dims), r.actual, r.expected, r.bound);
  return out;
}

}  // namespace tilec::tools
