// atom and red. Read-modify-write is a compare-and-swap loop on the host, so CTAs on different
// threads cannot lose updates; lanes go in ascending order. Kernels whose result would depend on
// the order of CTAs run on one thread (Program::order_sensitive).
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/exec_atomic.h"

#include <cmath>
#include <cstring>

#include "runtime/emulator/floats.h"
#include "runtime/emulator/handlers.h"
#include "runtime/emulator/judge_hooks.h"

namespace tilec::runtime::emulator {

bool AtomDefined(AtomOp op, Type t) {
  int bits = TypeBits(t);
  switch (op) {
    case AtomOp::kAdd: return t == Type::kU32 || t == Type::kS32 || t == Type::kU64 || IsFloat(t);
    case AtomOp::kMin:
    case AtomOp::kMax:
      return t == Type::kU32 || t == Type::kS32 || t == Type::kU64 || t == Type::kS64 ||
             t == Type::kF16 || t == Type::kF16x2 || t == Type::kBF16 || t == Type::kBF16x2;
    case AtomOp::kAnd:
    case AtomOp::kOr:
    case AtomOp::kXor: return t == Type::kB32 || t == Type::kB64;
    case AtomOp::kExch: return t == Type::kB32 || t == Type::kB64;
    case AtomOp::kCas: return bits == 16 ? t == Type::kB16 : t == Type::kB32 || t == Type::kB64;
    case AtomOp::kInc:
    case AtomOp::kDec: return t == Type::kU32;
  }
  return false;
}

namespace {

uint16_t AddHalf(uint16_t a, uint16_t b, bool f16) {
  return f16 ? F32ToF16(F16ToF32(a) + F16ToF32(b)) : F32ToBf16(Bf16ToF32(a) + Bf16ToF32(b));
}
uint16_t MinMaxHalf(uint16_t a, uint16_t b, bool f16, bool max) {
  float x = f16 ? F16ToF32(a) : Bf16ToF32(a), y = f16 ? F16ToF32(b) : Bf16ToF32(b);
  if (std::isnan(x) && std::isnan(y)) return kCanonicalNan16;
  if (std::isnan(x)) return b;
  if (std::isnan(y)) return a;
  if (x == y) return static_cast<uint16_t>(max ? a & b : a | b);
  return (max ? x > y : x < y) ? a : b;
}

uint64_t Combine(AtomOp op, Type t, uint64_t old, uint64_t b, uint64_t c, bool global) {
  auto u32 = [](uint64_t v) { return static_cast<uint32_t>(v); };
  switch (op) {
    case AtomOp::kAdd:
      switch (t) {
        case Type::kF32: {
          float x = FloatOf(u32(old)), y = FloatOf(u32(b));
          float r = global ? Flush(Flush(x) + Flush(y)) : x + y;
          return std::isnan(r) ? kCanonicalNan32 : Bits(r);
        }
        case Type::kF64: {
          double r = DoubleOf(old) + DoubleOf(b);
          if (!std::isnan(r)) return Bits(r);
          // In shared memory an ordinary addition does it, which makes NaN quiet.
          const uint64_t first = global ? b : old, second = global ? old : b;
          const uint64_t quiet = global ? 0 : kQuiet64;
          if (std::isnan(DoubleOf(first))) return first | quiet;
          return std::isnan(DoubleOf(second)) ? second | quiet : kInvalid64;
        }
        case Type::kF16:
        case Type::kBF16:
          return AddHalf(static_cast<uint16_t>(old), static_cast<uint16_t>(b), t == Type::kF16);
        case Type::kF16x2:
        case Type::kBF16x2: {
          bool f16 = t == Type::kF16x2;
          return uint32_t{
                     AddHalf(static_cast<uint16_t>(old >> 16), static_cast<uint16_t>(b >> 16), f16)}
                     << 16 |
                 AddHalf(static_cast<uint16_t>(old), static_cast<uint16_t>(b), f16);
        }
        default: return old + b;
      }
    case AtomOp::kMin:
    case AtomOp::kMax: {
      bool max = op == AtomOp::kMax;
      switch (t) {
        case Type::kS32:
          return (static_cast<int32_t>(old) < static_cast<int32_t>(b)) == max ? b : old;
        case Type::kS64:
          return (static_cast<int64_t>(old) < static_cast<int64_t>(b)) == max ? b : old;
        case Type::kF16:
        case Type::kBF16:
          return MinMaxHalf(static_cast<uint16_t>(old), static_cast<uint16_t>(b), t == Type::kF16,
                            max);
        case Type::kF16x2:
        case Type::kBF16x2: {
          bool f16 = t == Type::kF16x2;
          return uint32_t{MinMaxHalf(static_cast<uint16_t>(old >> 16),
                                     static_cast<uint16_t>(b >> 16), f16, max)}
                     << 16 |
                 MinMaxHalf(static_cast<uint16_t>(old), static_cast<uint16_t>(b), f16, max);
        }
        default: return (old < b) == max ? b : old;
      }
    }
    case AtomOp::kAnd: return old & b;
    case AtomOp::kOr: return old | b;
    case AtomOp::kXor: return old ^ b;
    case AtomOp::kExch: return b;
    case AtomOp::kCas: return old == b ? c : old;
    case AtomOp::kInc: return u32(old) >= u32(b) ? 0 : old + 1;
    case AtomOp::kDec: return u32(old) == 0 || u32(old) > u32(b) ? b : old - 1;
  }
  return old;
}

template <typename M>
uint64_t Update(uint8_t* p, AtomOp op, Type t, uint64_t b, uint64_t c, bool global) {
  M* m = reinterpret_cast<M*>(p);
  M old = __atomic_load_n(m, __ATOMIC_RELAXED);
  while (true) {
    M next = static_cast<M>(Combine(op, t, old, b, c, global));
    if (__atomic_compare_exchange_n(m, &old, next, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
      return old;
  }
}

}  // namespace

uint64_t AtomResult(AtomOp op, Type t, uint64_t old, uint64_t value) {
  return Combine(op, t, old, value, 0, false);
}

Step RunAtom(Warp& w, const Inst& i, uint32_t mask) {
  Type t = static_cast<Type>(i.u[3]);
  AtomOp op = static_cast<AtomOp>(i.u[4]);
  bool returns = i.u[5] == kAtomReturns;
  int first = returns ? 1 : 0;
  // The registers of a vector, whose elements are combined one by one.
  const uint32_t* list =
      i.u[5] == kAtomOfVector ? &w.cta->cluster->launch->program->lists[i.o[1]] : nullptr;
  const uint32_t n = list ? list[0] : 1;
  if (const uint32_t same = OneSpace(w, i, mask, i.o[first]); same != mask) [[unlikely]] {
    if (Step s = RunAtom(w, i, mask & ~same); s != Step::kNext) return s;
    mask = same;
  }
  uint32_t bytes = static_cast<uint32_t>(TypeBits(t)) / 8;
  Access at;
  const Reach reach = {static_cast<Space>(i.u[0]), i.u[1] != 0, bytes * n, /*write=*/true};
  if (!Locate({w, i, mask}, {i.o[first], i.u[2] != 0, i.imm}, reach, &at)) return Step::kError;
  if (w.judge != nullptr) [[unlikely]]
    JudgeAccess({w, i, mask}, at, bytes * n, true, true);
  uint32_t vb = list ? list[1] : i.o[first + 1], vc = op == AtomOp::kCas ? i.o[first + 2] : vb;
  auto value = [&](uint32_t row, int l) -> uint64_t {
    return bytes == 8 ? Row<uint64_t>(w, row)[l] : Row<uint32_t>(w, row)[l];
  };
  const uint8_t* smem = w.cta->smem;
  uint64_t old[32];
  ForLanes(mask, [&](int l) {
    bool global = at.p[l] < smem || at.p[l] >= smem + w.cta->smem_bytes;
    uint64_t b = value(vb, l), c = value(vc, l);
    old[l] = bytes == 8   ? Update<uint64_t>(at.p[l], op, t, b, c, global)
             : bytes == 4 ? Update<uint32_t>(at.p[l], op, t, b, c, global)
                          : Update<uint16_t>(at.p[l], op, t, b, c, global);
  });
  for (uint32_t k = 1; k < n; ++k)
    ForLanes(mask, [&](int l) {
      Update<uint32_t>(at.p[l] + k * bytes, op, t, value(list[1 + k], l), 0, true);
    });
  ++w.cta->progress;
  if (!returns) return Step::kNext;
  ForLanes(mask, [&](int l) {
    if (bytes == 8)
      Row<uint64_t>(w, i.o[0])[l] = old[l];
    else
      Row<uint32_t>(w, i.o[0])[l] = static_cast<uint32_t>(old[l]);
  });
  return Step::kNext;
}

}  // namespace tilec::runtime::emulator
