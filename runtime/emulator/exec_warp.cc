// Exchange between the lanes of a warp.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <vector>

#include "runtime/emulator/handlers.h"

namespace tilec::runtime::emulator {
namespace {

// Lanes that meet for a collective. Lanes of one path may name different members, disjoint ones:
// each set is a collective of its own, and one that lacks a lane waits for it while the others go
// on. `run` does the work for the lanes of a complete set.
template <typename F>
Step Collect(Warp& w, const Inst& i, uint32_t mask, uint32_t row, F&& run) {
  const uint32_t* m = Row<uint32_t>(w, row);
  uint32_t given[32];
  memcpy(given, m, sizeof given);  // may be the destination
  auto set_of = [&](uint32_t lanes, int first) {
    uint32_t set = 0;
    ForLanes(lanes, [&](int l) { set |= given[l] == given[first] ? 1u << l : 0; });
    return set;
  };
  const int first = __builtin_ctz(mask);
  if (set_of(mask, first) == mask) {
    if (Step s = Converge(w, i, mask, given[first]); s != Step::kNext) return s;
    return run(mask);
  }
  std::vector<Path> waiting;
  for (uint32_t left = mask; left != 0;) {
    const int lane = __builtin_ctz(left);
    const uint32_t set = set_of(left, lane), members = given[lane];
    left &= ~set;
    const uint32_t missing = members & w.live & ~set;
    if ((members & set) != set || (missing & w.active) != 0)
      return FailText(
          w, i, kConvergence,
          fmt::format("`{}`: lanes {:#x} of the member mask {:#x} are here with another "
                      "one, or lack in it",
                      TextOf(w, i), (missing & w.active) | (set & ~members), members),
          lane);
    if (missing == 0) {
      if (Step s = run(set); s != Step::kNext) return s;
      continue;
    }
    Path p;
    p.pc = w.pc, p.mask = set;
    p.wait.kind = Wait::Kind::kConverge, p.wait.id = members;
    waiting.push_back(p);
  }
  for (const Path& p : waiting) w.active &= ~p.mask;
  if (w.active == 0) {
    w.active = waiting.back().mask;
    w.wait = waiting.back().wait;
    waiting.pop_back();
    w.others.insert(w.others.end(), waiting.begin(), waiting.end());
    return Step::kBlock;
  }
  w.others.insert(w.others.end(), waiting.begin(), waiting.end());
  return Step::kNext;
}

}  // namespace

namespace {

Step RunShflSet(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t *a = Row<uint32_t>(w, i.o[2]), *b = Row<uint32_t>(w, i.o[3]);
  const uint32_t* c = Row<uint32_t>(w, i.o[4]);
  uint32_t* d = Row<uint32_t>(w, i.o[0]);
  uint32_t in[32], valid = 0;
  memcpy(in, a, sizeof in);
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    int l = __builtin_ctz(m);
    int lane = l, by = static_cast<int>(b[l] & 31);
    int clamp = static_cast<int>(c[l] & 31), segment = static_cast<int>(c[l] >> 8 & 31);
    int max = (lane & segment) | (clamp & ~segment), min = lane & segment;
    int j = i.u[0] == 0   ? lane - by
            : i.u[0] == 1 ? lane + by
            : i.u[0] == 2 ? lane ^ by
                          : min | (by & ~segment);
    bool ok = i.u[0] == 0 ? j >= max : j <= max;
    if (!ok) j = lane;
    if (ok && !(mask >> j & 1))
      return FailText(
          w, i, kConvergence,
          fmt::format("`{}`: lane {} reads lane {}, which does not take part", TextOf(w, i), l, j),
          l);
    if (ok) valid |= 1u << l;
    d[l] = in[j];
  }
  if (i.u[1]) {
    uint32_t& p = Predicate(w, i.o[1]);
    p = (p & ~mask) | valid;
  }
  return Step::kNext;
}

Step RunVoteSet(Warp& w, const Inst& i, uint32_t mask) {
  uint32_t p = (Predicate(w, i.o[1]) ^ (i.u[1] ? ~0u : 0u)) & mask;
  if (i.u[0] == 3) {
    uint32_t* d = Row<uint32_t>(w, i.o[0]);
    ForLanes(mask, [&](int l) { d[l] = p; });
    return Step::kNext;
  }
  bool r = i.u[0] == 0 ? p == mask : i.u[0] == 1 ? p != 0 : p == 0 || p == mask;
  uint32_t& d = Predicate(w, i.o[0]);
  d = r ? d | mask : d & ~mask;
  return Step::kNext;
}

Step RunMatchSet(Warp& w, const Inst& i, uint32_t mask) {
  bool all = i.u[0] != 0;
  int at = all ? 2 : 1;
  uint64_t v[32];
  for (int l = 0; l < 32; ++l)
    v[l] = i.u[2] ? Row<uint64_t>(w, i.o[at])[l] : Row<uint32_t>(w, i.o[at])[l];
  uint32_t* d = Row<uint32_t>(w, i.o[0]);
  if (all) {
    bool same = true;
    ForLanes(mask, [&](int l) { same = same && v[l] == v[__builtin_ctz(mask)]; });
    ForLanes(mask, [&](int l) { d[l] = same ? mask : 0; });
    if (i.u[1]) {
      uint32_t& p = Predicate(w, i.o[1]);
      p = same ? p | mask : p & ~mask;
    }
    return Step::kNext;
  }
  ForLanes(mask, [&](int l) {
    uint32_t r = 0;
    ForLanes(mask, [&](int k) { r |= v[k] == v[l] ? 1u << k : 0; });
    d[l] = r;
  });
  return Step::kNext;
}

}  // namespace

Step RunActiveMask(Warp& w, const Inst& i, uint32_t mask) {
  uint32_t* d = Row<uint32_t>(w, i.o[0]);
  ForLanes(mask, [&](int l) { d[l] = mask; });
  return Step::kNext;
}

namespace {

Step RunReduxSet(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t* a = Row<uint32_t>(w, i.o[1]);
  uint32_t r = a[__builtin_ctz(mask)];
  ForLanes(mask & (mask - 1), [&](int l) {
    uint32_t x = a[l];
    auto less = [&](uint32_t p, uint32_t q) {
      return i.u[1] ? static_cast<int32_t>(p) < static_cast<int32_t>(q) : p < q;
    };
    switch (i.u[0]) {
      case 0: r += x; break;
      case 1: r = less(x, r) ? x : r; break;
      case 2: r = less(r, x) ? x : r; break;
      case 3: r &= x; break;
      case 4: r |= x; break;
      case 5: r ^= x; break;
    }
  });
  uint32_t* d = Row<uint32_t>(w, i.o[0]);
  ForLanes(mask, [&](int l) { d[l] = r; });
  return Step::kNext;
}

// Which lane is unspecified: the lowest, or another one per run with a seed.
Step RunElectSet(Warp& w, const Inst& i, uint32_t mask) {
  uint32_t chosen = static_cast<uint32_t>(__builtin_ctz(mask));
  uint64_t seed = w.cta->cluster->launch->options->seed;
  if (seed != 0) {
    uint64_t skip =
        (seed * 0x9e3779b97f4a7c15ull >> 33) % static_cast<uint64_t>(__builtin_popcount(mask));
    uint32_t m = mask;
    while (skip-- > 0) m &= m - 1;
    chosen = static_cast<uint32_t>(__builtin_ctz(m));
  }
  uint32_t* d = Row<uint32_t>(w, i.o[0]);
  ForLanes(mask, [&](int l) { d[l] = chosen; });
  if (i.u[1]) {
    uint32_t& p = Predicate(w, i.o[1]);
    p = (p & ~mask) | 1u << chosen;
  }
  return Step::kNext;
}

}  // namespace

#define COLLECTIVE(name, row)                                                                 \
  Step name(Warp& w, const Inst& i, uint32_t mask) {                                          \
    return Collect(w, i, mask, i.o[row], [&](uint32_t set) { return name##Set(w, i, set); }); \
  }
COLLECTIVE(RunShfl, 5)
COLLECTIVE(RunVote, 2)
COLLECTIVE(RunRedux, 2)
COLLECTIVE(RunElect, 2)
#undef COLLECTIVE

Step RunMatch(Warp& w, const Inst& i, uint32_t mask) {
  return Collect(w, i, mask, i.o[i.u[0] != 0 ? 3 : 2],
                 [&](uint32_t set) { return RunMatchSet(w, i, set); });
}

}  // namespace tilec::runtime::emulator
