// SPDX-License-Identifier: Apache-2.0
#include "api/resolved.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "api/status.h"

namespace tilec {

namespace {

// What is chosen by an address: null or not, and alignment up to the 16 bytes that choices look at
// (runtime::TensorFacts).
int AlignmentOf(uint64_t address) {
  return address == 0 ? -1 : std::min(std::countr_zero(address), 4);
}

bool Alike(const Args& a, const Args& b) {
  if (a.tensors().size() != b.tensors().size() || a.values() != b.values()) return false;
  return std::equal(a.tensors().begin(), a.tensors().end(), b.tensors().begin(),
                    [](const auto& x, const auto& y) {
                      const auto& [name, t] = x;
                      const auto& [other, u] = y;
                      return AlignmentOf(t.data) == AlignmentOf(u.data) && t.dtype == u.dtype &&
                             t.dims == u.dims && t.strides == u.strides && name == other;
                    });
}

}  // namespace

ResolvedStore::Hashes ResolvedStore::Hash(const std::string& kernel, const DeviceState* device,
                                          const Args& args) {
  uint64_t alike = std::hash<std::string>()(kernel), same = 0;
  const auto mix = [](uint64_t& h, uint64_t v) {
    h = (h ^ v) * 0xff51afd7ed558ccd;
    h ^= h >> 32;
  };
  mix(alike, reinterpret_cast<uintptr_t>(device));
  for (const auto& [name, t] : args.tensors()) {
    mix(same, t.data);
    mix(alike,
        static_cast<uint64_t>(AlignmentOf(t.data) + 1) << 8 | static_cast<uint64_t>(t.dtype));
    for (const int64_t d : t.dims) mix(alike, static_cast<uint64_t>(d));
    for (const int64_t s : t.strides) mix(alike, static_cast<uint64_t>(s));
  }
  for (const auto& [name, value] : args.values())
    mix(alike, std::visit([](auto v) { return static_cast<uint64_t>(std::hash<decltype(v)>()(v)); },
                          value));
  mix(same, alike);
  return {alike, same};
}

ResolvedPtr ResolvedStore::Find(Hashes hashes, const std::string& kernel, const DeviceState* device,
                                const Args& args) const {
  const auto [first, last] = same_.map.equal_range(hashes.same);
  for (auto it = first; it != last; ++it)
    if (it->second->device == device && it->second->kernel == kernel && it->second->args == args)
      return it->second;
  return nullptr;
}

ResolvedPtr ResolvedStore::FindAlike(Hashes hashes, const std::string& kernel,
                                     const DeviceState* device, const Args& args) const {
  const auto [first, last] = kinds_.map.equal_range(hashes.alike);
  for (auto it = first; it != last; ++it)
    if (it->second->device == device && it->second->kernel == kernel &&
        Alike(it->second->args, args))
      return it->second;
  return nullptr;
}

void ResolvedStore::Kept::Put(uint64_t hash, ResolvedPtr resolved, size_t most) {
  if (map.empty()) map.reserve(std::min(most, kRoom));
  if (map.size() >= most) {
    const auto [oldest, which] = order.front();
    const auto [first, last] = map.equal_range(oldest);
    map.erase(
        std::find_if(first, last, [&, w = which](const auto& e) { return e.second.get() == w; }));
    order.pop_front();
  }
  order.emplace_back(hash, resolved.get());
  map.emplace(hash, std::move(resolved));
}

void ResolvedStore::KeepKind(Hashes hashes, ResolvedPtr resolved) {
  kinds_.Put(hashes.alike, std::move(resolved), kKindsKept);
}

bool ResolvedStore::KeepIfAgain(Hashes hashes, const std::shared_ptr<Resolved>& resolved,
                                const Args& args) {
  if (seen_.empty()) seen_.resize(kKept);
  uint64_t& seen = seen_[hashes.same % seen_.size()];
  if (seen != hashes.same) {
    seen = hashes.same;
    return false;
  }
  resolved->args = args;
  same_.Put(hashes.same, resolved, kKept);
  return true;
}

Result<ResolvedPtr> FindOrMove(ResolvedStore& store, ResolvedStore::Hashes hashes,
                               const std::string& kernel, const DeviceState* device,
                               const Args& args, DiagSink& diags) {
  if (ResolvedPtr found = store.Find(hashes, kernel, device, args)) return found;
  const ResolvedPtr alike = store.FindAlike(hashes, kernel, device, args);
  if (!alike || alike->args == args) return alike;
  std::vector<uint64_t> addresses;
  for (const backend::TensorArg& t : alike->loaded->image().tensors)
    addresses.push_back(args.tensors().at(t.name).data);
  auto moved = std::make_shared<Resolved>();
  auto ready = std::make_shared<runtime::LoadedKernel::Ready>();
  TRY(*ready, alike->loaded->Move(*alike->ready, addresses, diags));
  moved->kernel = kernel;
  moved->device = device;
  moved->loaded = alike->loaded;
  moved->ready = std::move(ready);
  (void)store.KeepIfAgain(hashes, moved, args);
  return ResolvedPtr(std::move(moved));
}

std::vector<std::string> Bound::tensors() const {
  std::vector<std::string> names;
  for (const backend::TensorArg& t : state_->resolved->loaded->image().tensors)
    names.push_back(t.name);
  return names;
}

Status Bound::Launch(Stream stream) const {
  DiagSink diags;
  const Resolved& r = *state_->resolved;
  (void)r.loaded->Launch(*r.ready, stream, nullptr, diags).ok();
  return diags.all().empty() ? Status() : api::MakeStatus(diags, SourceMap());
}

Status Bound::LaunchAt(const uint64_t* addresses, size_t count, Stream stream) const {
  DiagSink diags;
  const Resolved& r = *state_->resolved;
  const auto moved = r.loaded->Move(*r.ready, {addresses, count}, diags);
  if (moved.ok()) (void)r.loaded->Launch(*moved, stream, nullptr, diags).ok();
  return diags.all().empty() ? Status() : api::MakeStatus(diags, SourceMap());
}

}  // namespace tilec
