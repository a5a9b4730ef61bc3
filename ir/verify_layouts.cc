// SPDX-License-Identifier: Apache-2.0
#include "ir/verify_layouts.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ir/layout.h"
#include "ir/verify_internal.h"

namespace tilec::ir::verify_internal {

namespace {

constexpr int64_t kMaxRegs = 4096;
constexpr int64_t kMaxThreads = 1024;

// Coordinates of every thread and register, computed once: coord = thread part + register part.
struct Coords {
  explicit Coords(const Layout& l) {
    for (int64_t t = 0; t < l.threads(); ++t) thread.push_back(l.ThreadCoord(t));
    for (int64_t r = 0; r < l.regs(); ++r) reg.push_back(l.RegCoord(r));
  }
  std::vector<std::vector<int64_t>> thread, reg;
};

// Drops the coordinates of dims for which keep[d] is false.
std::vector<int64_t> KeptCoords(const std::vector<int64_t>& coord, const std::vector<bool>& keep) {
  std::vector<int64_t> out;
  for (size_t d = 0; d < coord.size(); ++d)
    if (keep[d]) out.push_back(coord[d]);
  return out;
}

bool Inside(const std::vector<int64_t>& t, const std::vector<int64_t>& r,
            const std::vector<int64_t>& shape) {
  for (size_t d = 0; d < shape.size(); ++d)
    if (t[d] + r[d] >= shape[d]) return false;
  return true;
}

// Of every thread and register the coordinates in the dims that are kept, one behind the other.
struct KeptParts {
  KeptParts(const Coords& all, const std::vector<bool>& keep)
      : dims(static_cast<size_t>(std::count(keep.begin(), keep.end(), true))) {
    const auto gather = [&](const auto& from, std::vector<int64_t>& to) {
      to.reserve(from.size() * dims);
      for (const std::vector<int64_t>& coord : from)
        for (size_t d = 0; d < coord.size(); ++d)
          if (keep[d]) to.push_back(coord[d]);
    };
    gather(all.thread, thread);
    gather(all.reg, reg);
  }
  size_t dims;
  std::vector<int64_t> thread, reg;
};

}  // namespace

bool Sane(const Layout& l) { return l.threads() <= kMaxThreads && l.regs() <= kMaxRegs; }

std::vector<bool> NotOne(const std::vector<int64_t>& shape) {
  std::vector<bool> keep;
  for (int64_t d : shape) keep.push_back(d != 1);
  return keep;
}

bool HoldsWithoutMoving(const Layout& from, const std::vector<bool>& keep_from, const Layout& to,
                        const std::vector<bool>& keep_to, const std::vector<int64_t>& to_shape) {
  if (from.threads() != to.threads()) return false;
  const Coords all_from(from), all_to(to);
  const KeptParts a(all_from, keep_from), b(all_to, keep_to);
  const size_t dims = b.dims, threads = all_to.thread.size();
  std::vector<size_t> inside;  // threads to which the register is no padding
  inside.reserve(threads);
  const auto held = [&](size_t want, size_t has) {
    return a.dims == dims && std::all_of(inside.begin(), inside.end(), [&](size_t t) {
             for (size_t d = 0; d < dims; ++d)
               if (b.thread[t * dims + d] + b.reg[want * dims + d] !=
                   a.thread[t * dims + d] + a.reg[has * dims + d])
                 return false;
             return true;
           });
  };
  for (size_t want = 0; want < all_to.reg.size(); ++want) {
    inside.clear();
    for (size_t t = 0; t < threads; ++t)
      if (Inside(all_to.thread[t], all_to.reg[want], to_shape)) inside.push_back(t);
    bool found = false;
    for (size_t has = 0; has < all_from.reg.size() && !found; ++has)
      found = inside.empty() || held(want, has);
    if (!found) return false;
  }
  return true;
}

bool CutsOthers(const Type& in, const Type& out) {
  return in.is_tile() && out.is_tile() && !in.shape.empty() && !out.shape.empty() &&
         in.dtype == out.dtype && in.elements() == out.elements() &&
         KeptCoords(in.shape, NotOne(in.shape)) != KeptCoords(out.shape, NotOne(out.shape));
}

bool SameNumbers(const Layout& from, const std::vector<int64_t>& from_shape, const Layout& to,
                 const std::vector<int64_t>& to_shape) {
  if (from.threads() != to.threads()) return false;
  const Coords a(from), b(to);
  const auto number = [](const std::vector<int64_t>& thread, const std::vector<int64_t>& reg,
                         const std::vector<int64_t>& shape) {
    int64_t n = 0;
    for (size_t d = 0; d < shape.size(); ++d) n = n * shape[d] + thread[d] + reg[d];
    return Inside(thread, reg, shape) ? n : -1;
  };
  return std::all_of(b.reg.begin(), b.reg.end(), [&](const std::vector<int64_t>& want) {
    return std::any_of(a.reg.begin(), a.reg.end(), [&](const std::vector<int64_t>& has) {
      for (size_t t = 0; t < b.thread.size(); ++t)
        if (const int64_t n = number(b.thread[t], want, to_shape);
            n >= 0 && n != number(a.thread[t], has, from_shape))
          return false;
      return true;
    });
  });
}

bool SameMapping(const Layout& a, const Layout& b) {
  if (a == b) return true;
  if (a.rank != b.rank || a.threads() != b.threads() || a.regs() != b.regs()) return false;
  for (int64_t t = 0; t < a.threads(); ++t)
    if (a.ThreadCoord(t) != b.ThreadCoord(t)) return false;
  for (int64_t r = 0; r < a.regs(); ++r)
    if (a.RegCoord(r) != b.RegCoord(r)) return false;
  return true;
}

}  // namespace tilec::ir::verify_internal
