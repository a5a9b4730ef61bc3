// Loads, stores and addresses. Locate() turns the addresses of the active lanes into checked
// pointers; a warp remembers the allocation it hit last, and contiguous accesses copy whole rows.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "runtime/emulator/handlers.h"
#include "runtime/emulator/judge_hooks.h"

namespace tilec::runtime::emulator {
namespace {

const char* Verb(bool write) { return write ? "a store" : "a load"; }

// Puts the allocation with [address, address + bytes) into the warp's cache.
bool FindAllocation(Warp& w, uint64_t address, uint64_t bytes) {
  const auto& table = w.cta->cluster->launch->allocations;
  auto it = std::upper_bound(table.begin(), table.end(), address,
                             [](uint64_t a, const Allocation& x) { return a < x.begin; });
  if (it == table.begin()) return false;
  --it;
  if (address >= it->end || bytes > it->end - address) return false;
  w.cache_lo = it->begin;
  w.cache_hi = it->end;
  w.cache_read_only = it->read_only;
  return true;
}

bool GlobalFault(Warp& w, const Inst& i, int lane, uint64_t address, uint64_t bytes, bool write) {
  FailLane(w, i, lane, kGlobalOutOfBounds, Verb(write), bytes, address);
  const auto& table = w.cta->cluster->launch->allocations;
  auto it = std::upper_bound(table.begin(), table.end(), address,
                             [](uint64_t a, const Allocation& x) { return a < x.begin; });
  Fault& f = w.cta->cluster->fault;
  // The nearer neighbour, if it is near: where others lie is the host's doing.
  constexpr uint64_t kNear = 1 << 16;
  if (it != table.begin() && address + bytes - (it - 1)->end < kNear) {
    const Allocation& before = *(it - 1);
    f.notes.push_back(
        fmt::format("the allocation below ends at {:#x}, {} bytes before the end of "
                    "the access; it has {} bytes",
                    before.end, address + bytes - before.end, before.end - before.begin));
  } else if (it != table.end() && it->begin - address < kNear) {
    f.notes.push_back(fmt::format("the allocation above begins at {:#x}", it->begin));
  }
  return false;
}

bool LocateGlobal(const Issuers& by, const uint64_t* a, const Reach& reach, Access* out) {
  Warp& w = by.w;
  const Inst& i = by.i;
  const uint32_t mask = by.mask;
  const uint32_t bytes = reach.bytes;
  const bool write = reach.write;
  uint64_t lo = ~0ull, hi = 0, bits = 0;
  ForLanes(mask, [&](int l) {
    lo = std::min(lo, a[l]);
    hi = std::max(hi, a[l]);
    bits |= a[l];
    out->p[l] = reinterpret_cast<uint8_t*>(a[l]);
  });
  if (bits & (bytes - 1)) {
    ForLanes(mask, [&](int l) {
      if ((a[l] & (bytes - 1)) && !w.cta->cluster->failed)
        FailLane(w, i, l, kMisaligned, Verb(write), bytes, a[l], bytes);
    });
    return false;
  }
  bool inside = lo >= w.cache_lo && hi < w.cache_hi && bytes <= w.cache_hi - hi;
  if (!inside) inside = FindAllocation(w, lo, bytes) && hi < w.cache_hi && bytes <= w.cache_hi - hi;
  if (inside) {
    if (!write || !w.cache_read_only) return true;
    FailLane(w, i, __builtin_ctz(mask), kReadOnly, Verb(write), lo);
    return false;
  }
  for (uint32_t m = mask; m != 0; m &= m - 1) {  // several allocations at once, or a fault
    int l = __builtin_ctz(m);
    if (!FindAllocation(w, a[l], bytes)) return GlobalFault(w, i, l, a[l], bytes, write);
    if (write && w.cache_read_only) {
      FailLane(w, i, l, kReadOnly, Verb(write), a[l]);
      return false;
    }
  }
  return true;
}

bool LocateShared(const Issuers& by, const uint64_t* a, const Reach& reach, Access* out) {
  Warp& w = by.w;
  const Inst& i = by.i;
  const uint32_t mask = by.mask;
  const uint32_t bytes = reach.bytes;
  const bool write = reach.write;
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    int l = __builtin_ctz(m);
    uint32_t offset = 0;
    Cta* cta = ResolveShared(w, a[l], &offset);
    if (cta == nullptr || offset > cta->smem_bytes || bytes > cta->smem_bytes - offset) {
      FailLane(w, i, l, kSharedOutOfBounds, Verb(write), bytes, a[l],
               cta == nullptr ? 0 : cta->smem_bytes);
      return false;
    }
    if (offset & (bytes - 1)) {
      FailLane(w, i, l, kMisaligned, Verb(write), bytes, offset, bytes);
      return false;
    }
    out->p[l] = cta->smem + offset;
  }
  return true;
}

}  // namespace

Cta* ResolveShared(Warp& w, uint64_t address, uint32_t* offset) {
  if (address >= kSharedWindow) address -= kSharedWindow;
  *offset = static_cast<uint32_t>(address) & ((1u << kRankShift) - 1);
  const uint64_t rank = address >> kRankShift;
  auto& ctas = w.cta->cluster->ctas;
  return rank < ctas.size() ? &ctas[rank] : nullptr;
}

bool CheckGlobal(Warp& w, uint64_t address, uint64_t bytes, bool write) {
  bool inside = address >= w.cache_lo && address < w.cache_hi && bytes <= w.cache_hi - address;
  if (!inside && !FindAllocation(w, address, bytes)) return false;
  return !write || !w.cache_read_only;
}

bool Locate(const Issuers& by, const AddressRow& at, const Reach& reach, Access* out) {
  alignas(64) uint64_t a[32];
  if (at.wide) {
    const uint64_t* r = Row<uint64_t>(by.w, at.row);
    for (int l = 0; l < 32; ++l) a[l] = r[l] + at.offset;
  } else {
    const uint32_t* r = Row<uint32_t>(by.w, at.row);
    uint32_t o = static_cast<uint32_t>(at.offset);
    for (int l = 0; l < 32; ++l) a[l] = static_cast<uint32_t>(r[l] + o);
  }
  return LocateAt(by, a, reach, out);
}

namespace {

// A generic access is one of the space whose window its addresses are in, all of them.
bool SettleSpace(const Issuers& by, uint64_t* a, Reach* reach) {
  uint64_t window = a[__builtin_ctz(by.mask)] & kWindowMask;
  bool same = true;
  ForLanes(by.mask, [&](int l) { same = same && (a[l] & kWindowMask) == window; });
  if (!same) {
    FailText(by.w, by.i, kPtxRefused,
             "the emulator does not run one generic access to several state "
             "spaces",
             __builtin_ctz(by.mask));
    return false;
  }
  reach->space = window == kSharedWindow  ? Space::kShared
                 : window == kLocalWindow ? Space::kLocal
                                          : Space::kGlobal;
  if (reach->space == Space::kLocal)
    for (int l = 0; l < 32; ++l) a[l] -= kLocalWindow;
  return true;
}

// Offsets among the launch's parameters; `cvta.param` makes them generic.
bool LocateParam(const Issuers& by, const uint64_t* a, const Reach& reach, Access* out) {
  const auto& [w, i, mask] = by;
  const Launch& launch = *w.cta->cluster->launch;
  const uint64_t size = launch.program->param_bytes;
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    int l = __builtin_ctz(m);
    if (a[l] > size || reach.bytes > size - a[l] || a[l] % reach.bytes != 0) {
      FailLane(w, i, l, kParamOutOfBounds, Verb(reach.write), reach.bytes, a[l], size);
      return false;
    }
    out->p[l] = launch.params + a[l];
  }
  out->contiguous = false;
  return true;
}

bool LocateLocal(const Issuers& by, const uint64_t* a, const Reach& reach, Access* out) {
  const auto& [w, i, mask] = by;
  out->contiguous = false;
  const uint64_t size = w.cta->cluster->launch->program->local_bytes;
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    int l = __builtin_ctz(m);
    if (a[l] > size || reach.bytes > size - a[l]) {
      FailLane(w, i, l, kLocalOutOfBounds, Verb(reach.write), reach.bytes, a[l], size);
      return false;
    }
    if (a[l] & (reach.bytes - 1)) {
      FailLane(w, i, l, kMisaligned, Verb(reach.write), reach.bytes, a[l], reach.bytes);
      return false;
    }
    out->p[l] = w.local + static_cast<uint64_t>(l) * size + a[l];
  }
  return true;
}

}  // namespace

bool LocateAt(const Issuers& by, uint64_t* a, Reach reach, Access* out) {
  Warp& w = by.w;
  const uint32_t mask = by.mask, bytes = reach.bytes;
  out->contiguous = false;
  if (mask == ~0u) {
    uint64_t bad = 0;
    for (int l = 0; l < 32; ++l) bad |= (a[l] - a[0]) ^ (static_cast<uint64_t>(l) * bytes);
    out->contiguous = bad == 0;
  }
  if (reach.generic && !SettleSpace(by, a, &reach)) return false;
  out->space = reach.space;
  switch (reach.space) {
    case Space::kGlobal:
    case Space::kConst:
      if (out->contiguous && ((a[0] & (bytes - 1)) == 0) && a[0] >= w.cache_lo &&
          a[0] < w.cache_hi && 32ull * bytes <= w.cache_hi - a[0] &&
          !(reach.write && w.cache_read_only)) {
        for (int l = 0; l < 32; ++l) out->p[l] = reinterpret_cast<uint8_t*>(a[l]);
        return true;
      }
      return LocateGlobal(by, a, reach, out);
    case Space::kShared: {
      // Most addresses are of the warp's own CTA: offsets from its window.
      const uint64_t own = uint64_t{w.cta->rank} << kRankShift;
      uint64_t all = 0, hi = 0;
      ForLanes(mask, [&](int l) { all |= a[l], hi = std::max(hi, a[l] - own); });
      uint64_t size = w.cta->smem_bytes;
      if ((all & (bytes - 1)) == 0 && hi < size && bytes <= size - hi) {
        if (mask == ~0u)
          for (int l = 0; l < 32; ++l) out->p[l] = w.cta->smem + (a[l] - own);
        else
          ForLanes(mask, [&](int l) { out->p[l] = w.cta->smem + (a[l] - own); });
        return true;
      }
      return LocateShared(by, a, reach, out);
    }
    case Space::kParam: return LocateParam(by, a, reach, out);
    case Space::kLocal: return LocateLocal(by, a, reach, out);
  }
  return false;
}

namespace {

// One element of what each lane accesses: `shift` bytes into it, `stride` from lane to lane where
// the access is contiguous.
struct LaneElement {
  uint32_t mask, stride, shift;
};
// Where it goes to or comes from.
struct LaneRegister {
  uint32_t row;
  int bits;
};

template <typename M, typename L>
void LoadRow(const Access& at, const LaneElement& e, L* d) {
  if (e.mask == ~0u && at.contiguous) {
    const uint8_t* p = at.p[0] + e.shift;
    if (sizeof(M) == sizeof(L) && e.stride == sizeof(M)) {
      memcpy(d, p, 32 * sizeof(M));
      return;
    }
    for (uint32_t l = 0; l < 32; ++l) {
      M v;
      memcpy(&v, p + l * e.stride, sizeof v);
      d[l] = static_cast<L>(v);
    }
    return;
  }
  ForLanes(e.mask, [&](int l) {
    M v;
    memcpy(&v, at.p[l] + e.shift, sizeof v);
    d[l] = static_cast<L>(v);
  });
}

template <typename M>
void LoadAs(Warp& w, const Access& at, const LaneElement& e, const LaneRegister& to) {
  if (to.bits == 64)
    LoadRow<M, uint64_t>(at, e, Row<uint64_t>(w, to.row));
  else
    LoadRow<M, uint32_t>(at, e, Row<uint32_t>(w, to.row));
  if (to.bits == 16 && sizeof(M) == 1 && M(-1) < M(0))
    ForLanes(e.mask, [&](int l) { Row<uint32_t>(w, to.row)[l] &= 0xffff; });
}

void LoadOne(Warp& w, Type t, const Access& at, const LaneElement& e, const LaneRegister& to) {
  switch (TypeBits(t)) {
    case 8:
      if (t == Type::kS8)
        LoadAs<int8_t>(w, at, e, to);
      else
        LoadAs<uint8_t>(w, at, e, to);
      break;
    case 16:
      if (t == Type::kS16 && to.bits != 16)
        LoadAs<int16_t>(w, at, e, to);
      else
        LoadAs<uint16_t>(w, at, e, to);
      break;
    case 32:
      if (t == Type::kS32)
        LoadAs<int32_t>(w, at, e, to);
      else
        LoadAs<uint32_t>(w, at, e, to);
      break;
    case 64: LoadAs<uint64_t>(w, at, e, to); break;
  }
}

template <typename M>
void StoreRow(Warp& w, const Access& at, const LaneElement& e, const LaneRegister& from) {
  const uint32_t* r32 = Row<uint32_t>(w, from.row);
  const uint64_t* r64 = Row<uint64_t>(w, from.row);
  if (e.mask == ~0u && at.contiguous && e.stride == sizeof(M) &&
      sizeof(M) == (from.bits == 64 ? 8u : 4u)) {
    memcpy(at.p[0] + e.shift, r32, 32 * sizeof(M));
    return;
  }
  ForLanes(e.mask, [&](int l) {
    M v = from.bits == 64 ? static_cast<M>(r64[l]) : static_cast<M>(r32[l]);
    memcpy(at.p[l] + e.shift, &v, sizeof v);
  });
}

}  // namespace

Step RunLdParam(Warp& w, const Inst& i, uint32_t mask) {
  const Launch& launch = *w.cta->cluster->launch;
  const uint32_t* list = &launch.program->lists[i.o[1]];
  Type t = static_cast<Type>(i.u[3]);
  uint32_t bytes = static_cast<uint32_t>(TypeBits(t)) / 8;
  Access at;
  for (auto& p : at.p) p = launch.params + i.imm;
  for (uint32_t k = 0; k < list[0]; ++k)
    LoadOne(w, t, at, {mask, 0, k * bytes}, {list[1 + k], i.u[4]});
  return Step::kNext;
}

uint32_t OneSpace(Warp& w, const Inst& i, uint32_t mask, uint32_t row) {
  if (!i.u[1] || !i.u[2]) return mask;
  const uint64_t* a = Row<uint64_t>(w, row);
  const uint64_t window = (a[__builtin_ctz(mask)] + i.imm) & kWindowMask;
  uint32_t same = 0;
  ForLanes(mask, [&](int l) { same |= ((a[l] + i.imm) & kWindowMask) == window ? 1u << l : 0; });
  return same;
}

Step RunLd(Warp& w, const Inst& i, uint32_t mask) {
  // The addresses may be in the register that is loaded: those of the other lanes stay.
  if (const uint32_t same = OneSpace(w, i, mask, i.o[0]); same != mask) [[unlikely]] {
    if (Step s = RunLd(w, i, mask & ~same); s != Step::kNext) return s;
    mask = same;
  }
  const uint32_t* list = &w.cta->cluster->launch->program->lists[i.o[1]];
  Type t = static_cast<Type>(i.u[3]);
  uint32_t bytes = static_cast<uint32_t>(TypeBits(t)) / 8, n = list[0];
  Access at;
  const Reach reach = {static_cast<Space>(i.u[0]), i.u[1] != 0, bytes * n, /*write=*/false};
  if (!Locate({w, i, mask}, {i.o[0], i.u[2] != 0, i.imm}, reach, &at)) return Step::kError;
  if (w.judge != nullptr) [[unlikely]]
    JudgeAccess({w, i, mask}, at, bytes * n, reach.write, /*atomic=*/false);
  for (uint32_t k = 0; k < n; ++k)
    LoadOne(w, t, at, {mask, bytes * n, k * bytes}, {list[1 + k], i.u[4]});
  return Step::kNext;
}

Step RunSt(Warp& w, const Inst& i, uint32_t mask) {
  if (const uint32_t same = OneSpace(w, i, mask, i.o[0]); same != mask) [[unlikely]] {
    if (Step s = RunSt(w, i, mask & ~same); s != Step::kNext) return s;
    mask = same;
  }
  const uint32_t* list = &w.cta->cluster->launch->program->lists[i.o[1]];
  Type t = static_cast<Type>(i.u[3]);
  uint32_t bytes = static_cast<uint32_t>(TypeBits(t)) / 8, n = list[0];
  Access at;
  const Reach reach = {static_cast<Space>(i.u[0]), i.u[1] != 0, bytes * n, /*write=*/true};
  if (!Locate({w, i, mask}, {i.o[0], i.u[2] != 0, i.imm}, reach, &at)) return Step::kError;
  if (w.judge != nullptr) [[unlikely]]
    JudgeAccess({w, i, mask}, at, bytes * n, reach.write, /*atomic=*/false);
  for (uint32_t k = 0; k < n; ++k) {
    const LaneElement e = {mask, bytes * n, bytes * k};
    const LaneRegister from = {list[1 + k], i.u[4]};
    switch (bytes) {
      case 1: StoreRow<uint8_t>(w, at, e, from); break;
      case 2: StoreRow<uint16_t>(w, at, e, from); break;
      case 4: StoreRow<uint32_t>(w, at, e, from); break;
      case 8: StoreRow<uint64_t>(w, at, e, from); break;
    }
  }
  return Step::kNext;
}

}  // namespace tilec::runtime::emulator
