// SPDX-License-Identifier: Apache-2.0
#include "api/resolved.h"

#include <functional>

#include "api/status.h"

namespace tilec {

uint64_t ResolvedStore::Hash(const std::string& kernel, const DeviceState* device,
                             const Args& args) {
  uint64_t h = std::hash<std::string>()(kernel);
  const auto mix = [&h](uint64_t v) { h = (h ^ v) * 0xff51afd7ed558ccd, h ^= h >> 32; };
  mix(reinterpret_cast<uintptr_t>(device));
  for (const auto& [name, t] : args.tensors()) {
    mix(t.data);
    mix(static_cast<uint64_t>(t.dtype));
    for (const int64_t d : t.dims) mix(static_cast<uint64_t>(d));
    for (const int64_t s : t.strides) mix(static_cast<uint64_t>(s));
  }
  for (const auto& [name, value] : args.values())
    mix(std::visit([](auto v) { return static_cast<uint64_t>(std::hash<decltype(v)>()(v)); },
                   value));
  return h;
}

ResolvedPtr ResolvedStore::Find(uint64_t hash, const std::string& kernel, const DeviceState* device,
                                const Args& args) const {
  const auto [first, last] = by_hash_.equal_range(hash);
  for (auto it = first; it != last; ++it)
    if (it->second->device == device && it->second->kernel == kernel && it->second->args == args)
      return it->second;
  return nullptr;
}

void ResolvedStore::Keep(uint64_t hash, ResolvedPtr resolved) {
  if (by_hash_.size() >= kKept) {
    by_hash_.erase(order_.front());
    order_.pop_front();
  }
  order_.push_back(by_hash_.emplace(hash, std::move(resolved)));
}

Status Bound::Launch(Stream stream) const {
  DiagSink diags;
  const Resolved& r = *state_->resolved;
  (void)r.loaded->Launch(*r.ready, stream, nullptr, diags).ok();
  return diags.all().empty() ? Status() : api::MakeStatus(diags, SourceMap());
}

}  // namespace tilec
