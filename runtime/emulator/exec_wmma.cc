// wmma: fragments from and to memory, products of whole tiles; and the small shapes of mma that
// have no unit of their own in mma_sync.h. Sums go over k in ascending order in the accumulator's
// type.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/wmma.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/emulator/floats.h"
#include "runtime/emulator/handlers.h"
#include "runtime/emulator/judge_hooks.h"

namespace tilec::runtime::emulator {
namespace {

bool WholeWarpHere(Warp& w, const Inst& i, uint32_t mask) {
  if (mask == ~0u) return true;
  FailText(w, i, kConvergence,
           fmt::format("`{}`: all 32 lanes of the warp must execute it, these do: {:#x}",
                       TextOf(w, i), mask));
  return false;
}

const uint32_t* ListOf(const Warp& w, uint32_t at) {
  return &w.cta->cluster->launch->program->lists[at];
}

// Element e of lane l of a fragment in the registers of `list`, as bits.
uint64_t FragmentElement(Warp& w, const uint32_t* list, Type t, uint32_t lane, uint32_t e) {
  if (t == Type::kF64) return Row<uint64_t>(w, list[1 + e])[lane];
  const uint32_t packed = WmmaPacked(t), bits = 32 / packed;
  const uint32_t word = Row<uint32_t>(w, list[1 + e / packed])[lane];
  return packed == 1 ? word : word >> e % packed * bits & ((1u << bits) - 1);
}

void SetElement(Warp& w, const uint32_t* list, Type t, uint32_t lane, uint32_t e, uint64_t value) {
  if (t == Type::kF64) {
    Row<uint64_t>(w, list[1 + e])[lane] = value;
    return;
  }
  const uint32_t packed = WmmaPacked(t), bits = 32 / packed;
  uint32_t& word = Row<uint32_t>(w, list[1 + e / packed])[lane];
  const uint32_t low = packed == 1 ? ~0u : (1u << bits) - 1, shift = e % packed * bits;
  word = (word & ~(low << shift)) | (static_cast<uint32_t>(value) & low) << shift;
}

double ValueOf(Type t, uint64_t bits) {
  switch (TypeBits(t)) {
    case 8: return t == Type::kS8 ? static_cast<int8_t>(bits) : static_cast<uint8_t>(bits);
    case 16:
      return t == Type::kF16 ? F16ToF32(static_cast<uint16_t>(bits))
                             : Bf16ToF32(static_cast<uint16_t>(bits));
    case 64: return DoubleOf(bits);
  }
  if (t == Type::kS32) return static_cast<int32_t>(bits);
  // tf32: the lower 13 bits are not looked at
  const auto word = static_cast<uint32_t>(bits);
  return FloatOf(t == Type::kTF32 ? word & 0xffffe000u : word);
}

// A sum of products: its type, that of what it is added to, and whether it stays in range.
struct SumKind {
  Type d, c;
  bool clamp;
};
uint64_t Product(const SumKind& kind, uint64_t sum, const double* a, const double* b, uint32_t k) {
  const auto [d, c, clamp] = kind;
  if (d == Type::kF64) {
    double x = DoubleOf(sum);
    for (uint32_t j = 0; j < k; ++j) x = std::fma(a[j], b[j], x);
    return std::isnan(x) ? kInvalid64 : Bits(x);
  }
  if (d == Type::kS32) {
    auto x = static_cast<int64_t>(static_cast<int32_t>(sum));
    for (uint32_t j = 0; j < k; ++j) x += static_cast<int64_t>(a[j] * b[j]);
    if (clamp) x = std::clamp<int64_t>(x, INT32_MIN, INT32_MAX);
    return static_cast<uint32_t>(x);
  }
  auto x = static_cast<float>(ValueOf(c, sum));
  for (uint32_t j = 0; j < k; ++j)
    x = std::fma(static_cast<float>(a[j]), static_cast<float>(b[j]), x);
  if (d == Type::kF16) return F32ToF16(x);
  return std::isnan(x) ? kCanonicalNan32 : Bits(x);
}

}  // namespace

Step RunWmmaMove(Warp& w, const Inst& i, uint32_t mask) {
  if (Step s = Converge(w, i, mask, w.launched); s != Step::kNext) return s;
  if (!WholeWarpHere(w, i, mask)) return Step::kError;
  const WmmaShape& shape = kWmmaShapes[i.u[4] >> 2];
  const auto role = static_cast<WmmaRole>(i.u[4] & 3);
  const auto type = static_cast<Type>(i.u[3]);
  const bool column = i.u[5] & 1, store = i.u[5] & 2;
  const uint32_t rows = WmmaRows(shape, role), columns = WmmaColumns(shape, role);
  const uint32_t each = WmmaElements(shape, role),
                 bytes = static_cast<uint32_t>(TypeBits(type)) / 8;
  const uint32_t* list = ListOf(w, i.o[1]);
  const uint32_t* strides = i.u[5] & 4 ? Row<uint32_t>(w, i.o[2]) : nullptr;
  uint64_t base[32], lead[32];
  for (int l = 0; l < 32; ++l) {
    base[l] = (i.u[2] ? Row<uint64_t>(w, i.o[0])[l] : Row<uint32_t>(w, i.o[0])[l]) + i.imm;
    lead[l] = strides != nullptr ? strides[l] : column ? rows : columns;
    if (base[l] == base[0] && lead[l] == lead[0]) continue;
    return FailText(w, i, kConvergence,
                    fmt::format("`{}`: lanes give different addresses or strides", TextOf(w, i)),
                    l);
  }
  for (uint32_t e = 0; e < each; ++e) {
    uint64_t at[32];
    for (uint32_t l = 0; l < 32; ++l) {
      const uint64_t flat = uint64_t{l} * each + e, r = flat / columns, c = flat % columns;
      at[l] = base[l] + (column ? c * lead[l] + r : r * lead[l] + c) * bytes;
      if (!i.u[2]) at[l] = static_cast<uint32_t>(at[l]);
    }
    Access access;
    if (!LocateAt({w, i, mask}, at, {static_cast<Space>(i.u[0]), i.u[1] != 0, bytes, store},
                  &access))
      return Step::kError;
    if (w.judge != nullptr) JudgeAccess({w, i, mask}, access, bytes, store, false);
    for (uint32_t l = 0; l < 32; ++l) {
      uint64_t value = 0;
      if (store) {
        value = FragmentElement(w, list, type, l, e);
        memcpy(access.p[l], &value, bytes);
        continue;
      }
      memcpy(&value, access.p[l], bytes);
      SetElement(w, list, type, l, e, value);
    }
  }
  if (store) return Step::kNext;
  const uint32_t own = WmmaRegisters(type, each);  // f16: what is left repeats
  for (uint32_t k = own; k < list[0]; ++k)
    memcpy(Row<uint32_t>(w, list[1 + k]), Row<uint32_t>(w, list[1 + k % own]), 32 * 4);
  return Step::kNext;
}

Step RunWmma(Warp& w, const Inst& i, uint32_t mask) {
  if (Step s = Converge(w, i, mask, w.launched); s != Step::kNext) return s;
  if (!WholeWarpHere(w, i, mask)) return Step::kError;
  const WmmaShape& s = kWmmaShapes[i.u[0]];
  const Type ta = static_cast<Type>(i.u[3]), tb = static_cast<Type>(i.u[4]);
  const Type tc = static_cast<Type>(i.u[5]), td = static_cast<Type>(i.u[6]);
  const uint32_t ea = WmmaElements(s, WmmaRole::kA), eb = WmmaElements(s, WmmaRole::kB);
  const uint32_t ec = WmmaElements(s, WmmaRole::kC);
  double a[32][16], b[32][16];  // rows of A, columns of B
  uint64_t sums[32][32];
  for (uint32_t l = 0; l < 32; ++l) {
    for (uint32_t e = 0; e < ea; ++e) {
      const uint32_t flat = l * ea + e;
      a[flat / s.k][flat % s.k] = ValueOf(ta, FragmentElement(w, ListOf(w, i.o[1]), ta, l, e));
    }
    for (uint32_t e = 0; e < eb; ++e) {
      const uint32_t flat = l * eb + e;
      b[flat % s.n][flat / s.n] = ValueOf(tb, FragmentElement(w, ListOf(w, i.o[2]), tb, l, e));
    }
    for (uint32_t e = 0; e < ec; ++e) sums[l][e] = FragmentElement(w, ListOf(w, i.o[3]), tc, l, e);
  }
  for (uint32_t l = 0; l < 32; ++l)
    for (uint32_t e = 0; e < ec; ++e) {
      const uint32_t flat = l * ec + e;
      SetElement(w, ListOf(w, i.o[0]), td, l, e,
                 Product({td, tc, i.imm != 0}, sums[l][e], a[flat / s.n], b[flat % s.n], s.k));
    }
  return Step::kNext;
}

// Fragments of the ISA's pictures: A's row l/4 (+ 8 in odd registers) and column l%4 + 4·(register
// pair); B's the other way round; C's columns 2·(l%4) and one more.
Step RunSmallMma(Warp& w, const Inst& i, uint32_t mask) {
  if (Step s = Converge(w, i, mask, w.launched); s != Step::kNext) return s;
  if (!WholeWarpHere(w, i, mask)) return Step::kError;
  const bool doubles = i.u[0];
  const uint32_t rows = i.u[1], k = i.u[2], halves = rows / 8;
  const uint32_t *d = ListOf(w, i.o[0]), *c = ListOf(w, i.o[3]);
  double a[16][16], b[8][16];
  for (uint32_t l = 0; l < 32; ++l) {
    if (!doubles) {
      const uint32_t x = Row<uint32_t>(w, ListOf(w, i.o[1])[1])[l];
      const uint32_t y = Row<uint32_t>(w, ListOf(w, i.o[2])[1])[l];
      for (uint32_t j = 0; j < 4; ++j) {
        a[l / 4][l % 4 * 4 + j] = ValueOf(i.u[4] ? Type::kS8 : Type::kU8, x >> 8 * j & 0xff);
        b[l / 4][l % 4 * 4 + j] = ValueOf(i.u[5] ? Type::kS8 : Type::kU8, y >> 8 * j & 0xff);
      }
      continue;
    }
    for (uint32_t q = 0; q < rows * k / 32; ++q)
      a[l / 4 + 8 * (q % halves)][l % 4 + 4 * (q / halves)] =
          DoubleOf(Row<uint64_t>(w, ListOf(w, i.o[1])[1 + q])[l]);
    for (uint32_t q = 0; q < k / 4; ++q)
      b[l / 4][l % 4 + 4 * q] = DoubleOf(Row<uint64_t>(w, ListOf(w, i.o[2])[1 + q])[l]);
  }
  const Type t = doubles ? Type::kF64 : Type::kS32;
  uint64_t out[4][32];
  for (uint32_t q = 0; q < 2 * halves; ++q)
    for (uint32_t l = 0; l < 32; ++l)
      out[q][l] = Product({t, t, i.u[3] != 0}, FragmentElement(w, c, t, l, q),
                          a[l / 4 + 8 * (q / 2)], b[2 * (l % 4) + q % 2], k);
  for (uint32_t q = 0; q < 2 * halves; ++q)
    for (uint32_t l = 0; l < 32; ++l) SetElement(w, d, t, l, q, out[q][l]);
  return Step::kNext;
}

}  // namespace tilec::runtime::emulator
