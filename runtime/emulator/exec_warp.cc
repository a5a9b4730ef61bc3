// Exchange between the lanes of a warp.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "runtime/emulator/handlers.h"

namespace tilec::runtime::emulator {
namespace {

// The member mask of the first active lane; all lanes must agree.
bool Members(Warp& w, const Inst& i, uint32_t mask, uint32_t row, uint32_t* members) {
  const uint32_t* m = Row<uint32_t>(w, row);
  *members = m[__builtin_ctz(mask)];
  bool same = true;
  ForLanes(mask, [&](int l) { same = same && m[l] == *members; });
  if (!same)
    FailText(w, i, kConvergence, "`" + TextOf(w, i) + "`: lanes give different member masks");
  return same;
}

}  // namespace

#define COLLECT(row)                                            \
  uint32_t members = 0;                                         \
  if (!Members(w, i, mask, row, &members)) return Step::kError; \
  if (Step s = Converge(w, i, mask, members); s != Step::kNext) return s

Step RunShfl(Warp& w, const Inst& i, uint32_t mask) {
  COLLECT(i.o[5]);
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

Step RunVote(Warp& w, const Inst& i, uint32_t mask) {
  COLLECT(i.o[2]);
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

Step RunMatch(Warp& w, const Inst& i, uint32_t mask) {
  bool all = i.u[0] != 0;
  int at = all ? 2 : 1;
  COLLECT(i.o[at + 1]);
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

Step RunActiveMask(Warp& w, const Inst& i, uint32_t mask) {
  uint32_t* d = Row<uint32_t>(w, i.o[0]);
  ForLanes(mask, [&](int l) { d[l] = mask; });
  return Step::kNext;
}

Step RunRedux(Warp& w, const Inst& i, uint32_t mask) {
  COLLECT(i.o[2]);
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
Step RunElect(Warp& w, const Inst& i, uint32_t mask) {
  COLLECT(i.o[2]);
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

#undef COLLECT

}  // namespace tilec::runtime::emulator
