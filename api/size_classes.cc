// SPDX-License-Identifier: Apache-2.0
#include "api/size_classes.h"

#include <algorithm>
#include <bit>

namespace tilec::api {

namespace {

void Set(const std::string& name, int64_t value, Call* call) {
  call->all[name] = value;
  if (const auto at = call->launch.scalars.find(name); at != call->launch.scalars.end())
    at->second = value;
}

bool Holds(const frontend::Program& program, const frontend::Signature& s, const Call& call) {
  DiagSink quiet;
  return frontend::CheckFacts(program, s.kernel, call.all, quiet).ok();
}

}  // namespace

int64_t ClassOf(int64_t size, int digits) {
  if (size <= 0) return size;
  const int last =
      std::max<int>(0, static_cast<int>(std::bit_width(static_cast<uint64_t>(size - 1))) - digits);
  if (last >= 60) return size;
  const int64_t step = int64_t{1} << last;
  return (size + step - 1) / step * step;
}

std::vector<int64_t> MembersOf(int64_t first, int64_t last, int64_t alignments) {
  std::vector<int64_t> members;
  for (int64_t low = first; low <= last;) {
    const int64_t high = std::min(last, std::max(low, ClassOf(low)));
    for (int64_t step = 1; step <= alignments; step *= 2) {
      // Multiples of `step` and, but for the last step, of no more.
      const int64_t at = (high / step) * step;
      const int64_t odd = step < alignments && at / step % 2 == 0 ? at - step : at;
      if (odd >= low) members.push_back(odd);
    }
    low = high + 1;
  }
  std::sort(members.begin(), members.end());
  members.erase(std::unique(members.begin(), members.end()), members.end());
  return members;
}

std::string TextOfClass(const frontend::Signature& signature, const Call& call) {
  std::string text;
  for (const auto& [name, value] : call.all) {
    const auto* i = std::get_if<int64_t>(&value);
    if (i == nullptr) continue;
    int64_t of = *i;
    if (call.launch.scalars.count(name) > 0)
      of = ClassOf(of, kScalarDigits);
    else if (signature.dim(name) != nullptr && !signature.TakesValue(name, value))
      of = ClassOf(of);
    text.append(name).append(1, '=').append(std::to_string(of)).append(1, ' ');
  }
  return text;
}

std::string TextOfSizes(const Call& call) {
  std::string text;
  for (const auto& [name, value] : call.all)
    if (const auto* i = std::get_if<int64_t>(&value))
      text.append(name).append(1, '=').append(std::to_string(*i)).append(1, ' ');
  return text;
}

Call Representative(const frontend::Program& program, const frontend::Signature& signature,
                    const Call& call) {
  Call out = call;
  std::vector<std::string> dims;
  for (const frontend::DimInfo& dim : signature.dims)
    if (!signature.TakesValue(dim.name, call.all.at(dim.name))) dims.push_back(dim.name);
  for (const std::string& dim : dims) Set(dim, ClassOf(std::get<int64_t>(call.all.at(dim))), &out);
  for (const auto& [name, value] : call.launch.scalars)
    if (const auto* i = std::get_if<int64_t>(&value)) Set(name, ClassOf(*i, kScalarDigits), &out);
  if (Holds(program, signature, out)) return out;
  // As many as can be, the first ones first.
  out = call;
  for (const std::string& dim : dims) {
    const Call before = out;
    Set(dim, ClassOf(std::get<int64_t>(call.all.at(dim))), &out);
    if (!Holds(program, signature, out)) out = before;
  }
  return out;
}

}  // namespace tilec::api
