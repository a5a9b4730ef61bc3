// Lane-wise instructions that are rare or not worth vectorising here: directed rounding, the
// special-function unit, predicates, packing, clocks.
//
// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cmath>
#include <cstring>

#include "runtime/emulator/alu.h"
#include "runtime/emulator/decode.h"
#include "runtime/emulator/floats.h"
#include "runtime/emulator/handlers.h"

namespace tilec::runtime::emulator {
namespace {

float Saturate(float x) { return x > 1.0f ? 1.0f : x > 0.0f ? x : 0.0f; }

float UnaryF32(Unary op, float x, bool ftz, Round round) {
  switch (op) {
    case Unary::kEx2: return Ex2Approx(x, ftz);
    case Unary::kLg2: return Lg2Approx(x, ftz);
    case Unary::kRcp: return RcpApprox(x, ftz);
    case Unary::kRsqrt: return RsqrtApprox(x, ftz);
    case Unary::kSqrt: return SqrtApprox(x, ftz);
    case Unary::kTanh: return TanhApprox(x);
    case Unary::kSin: return SinApprox(x, ftz);
    case Unary::kCos: return CosApprox(x, ftz);
    case Unary::kRcpRounded:
      x = ftz ? Flush(x) : x;
      x = DivF32(1.0f, x, round);
      return ftz ? Flush(x) : x;
    case Unary::kSqrtRounded:
      x = ftz ? Flush(x) : x;
      x = SqrtF32(x, round);
      return ftz ? Flush(x) : x;
    case Unary::kDiv: break;
  }
  return 0;
}

}  // namespace

Step RunRounded(Warp& w, const Inst& i, uint32_t mask) {
  float *d = Row<float>(w, i.o[0]), *a = Row<float>(w, i.o[1]), *b = Row<float>(w, i.o[2]);
  AluOp op = static_cast<AluOp>(i.u[0]);
  float* c = op == AluOp::kFma ? Row<float>(w, i.o[3]) : a;
  Round round = static_cast<Round>(i.u[1]);
  auto in = [&](float x) { return i.u[2] ? Flush(x) : x; };
  ForLanes(mask, [&](int l) {
    float r = 0, x = in(a[l]), y = in(b[l]);
    if (op == AluOp::kAdd) r = AddF32(x, y, round);
    if (op == AluOp::kSub) r = AddF32(x, std::isnan(y) ? y : -y, round);
    // .ftz looks at the exact result: what rounding lifts to the smallest normal is flushed.
    const auto lifted = [&](double exact, double limit) {
      return i.u[2] != 0 && std::abs(r) == 0x1p-126f && std::abs(exact) < limit;
    };
    if (op == AluOp::kMul) {
      r = MulF32(x, y, round);
      if (lifted(double{x} * y, 0x1p-126)) r = std::copysign(0.0f, r);
    }
    if (op == AluOp::kDiv) {
      r = DivF32(x, y, round);
      if (lifted(x, 0x1p-126 * std::abs(double{y}))) r = std::copysign(0.0f, r);
    }
    if (op == AluOp::kFma) r = FmaF32(x, y, in(c[l]), round);
    r = in(r);
    d[l] = i.u[3] ? Saturate(r) : r;
  });
  return Step::kNext;
}

Step RunUnary(Warp& w, const Inst& i, uint32_t mask) {
  Unary op = static_cast<Unary>(i.u[0]);
  Type t = static_cast<Type>(i.u[1]);
  bool ftz = i.u[2] != 0;
  Round round = static_cast<Round>(i.u[3]);
  uint32_t *d = Row<uint32_t>(w, i.o[0]), *a = Row<uint32_t>(w, i.o[1]);
  if (t == Type::kF32) {
    float *fd = Row<float>(w, i.o[0]), *fa = Row<float>(w, i.o[1]);
    if (op == Unary::kDiv) {
      float* fb = Row<float>(w, i.o[2]);
      ForLanes(mask, [&](int l) { fd[l] = DivApprox(fa[l], fb[l], ftz); });
      return Step::kNext;
    }
    if (mask == ~0u) {
      switch (op) {
        case Unary::kEx2: Ex2Warp(fa, fd, ftz); return Step::kNext;
        case Unary::kLg2: Lg2Warp(fa, fd, ftz); return Step::kNext;
        case Unary::kRcp: RcpWarp(fa, fd, ftz); return Step::kNext;
        case Unary::kRsqrt: RsqrtWarp(fa, fd, ftz); return Step::kNext;
        case Unary::kSqrt: SqrtWarp(fa, fd, ftz); return Step::kNext;
        case Unary::kTanh: TanhWarp(fa, fd); return Step::kNext;
        case Unary::kRcpRounded:
        case Unary::kSqrtRounded:
        case Unary::kSin:
        case Unary::kCos:
        case Unary::kDiv: break;
      }
    }
    ForLanes(mask, [&](int l) { fd[l] = UnaryF32(op, fa[l], ftz, round); });
    return Step::kNext;
  }
  bool half = t == Type::kF16 || t == Type::kF16x2;
  bool packed = t == Type::kF16x2 || t == Type::kBF16x2;
  auto one = [&](uint32_t h) -> uint32_t {
    uint16_t x = static_cast<uint16_t>(h);
    const float v = half ? F16ToF32(x) : Bf16ToF32(x);
    float r = UnaryF32(op, v, ftz, round);
    // Seen on an H200: the f32 result is cut, not rounded; what is too large becomes infinity; and
    // an exponent below 2^-23 counts as zero.
    if (op == Unary::kEx2 && std::abs(v) < 0x1p-23f) r = 1.0f;
    if (half && r >= 0x1p16f) return 0x7c00u;
    return half ? F32ToF16(r, {.round = Round::kZero}) : F32ToBf16(r, {.round = Round::kZero});
  };
  ForLanes(mask, [&](int l) {
    uint32_t x = a[l];
    d[l] = packed ? one(x & 0xffff) | one(x >> 16) << 16 : one(x);
  });
  return Step::kNext;
}

Step RunUnaryF64(Warp& w, const Inst& i, uint32_t mask) {
  double *d = Row<double>(w, i.o[0]), *a = Row<double>(w, i.o[1]);
  bool rcp = static_cast<Unary>(i.u[0]) == Unary::kRcpRounded;
  ForLanes(mask, [&](int l) {
    double r = rcp ? 1.0 / a[l] : std::sqrt(a[l]);
    if (std::isnan(r)) r = DoubleOf(std::isnan(a[l]) ? Bits(a[l]) | kQuiet64 : kInvalid64);
    d[l] = r;
  });
  return Step::kNext;
}

Step RunPredicateLogic(Warp& w, const Inst& i, uint32_t mask) {
  uint32_t a = Predicate(w, i.o[1]) ^ (i.u[1] ? ~0u : 0u);
  AluOp op = static_cast<AluOp>(i.u[0]);
  uint32_t r = ~a;
  if (op != AluOp::kNot) {
    uint32_t b = Predicate(w, i.o[2]) ^ (i.u[2] ? ~0u : 0u);
    r = op == AluOp::kAnd ? a & b : op == AluOp::kOr ? a | b : a ^ b;
  }
  uint32_t& d = Predicate(w, i.o[0]);
  d = (d & ~mask) | (r & mask);
  return Step::kNext;
}

Step RunMovPredicate(Warp& w, const Inst& i, uint32_t mask) {
  uint32_t a = Predicate(w, i.o[1]) ^ (i.u[1] ? ~0u : 0u);
  uint32_t& d = Predicate(w, i.o[0]);
  d = (d & ~mask) | (a & mask);
  return Step::kNext;
}

// Clocks count the warp's instructions, so that runs repeat exactly.
Step RunClock(Warp& w, const Inst& i, uint32_t mask) {
  uint64_t now = w.executed * 4;
  Special s = static_cast<Special>(i.u[0]);
  bool high = s == Special::kClockHi || s == Special::kGlobaltimerHi;
  if (s == Special::kClock64 || s == Special::kGlobaltimer) {
    uint64_t* d = Row<uint64_t>(w, i.o[0]);
    ForLanes(mask, [&](int l) { d[l] = now; });
  } else {
    uint32_t* d = Row<uint32_t>(w, i.o[0]);
    ForLanes(mask, [&](int l) { d[l] = static_cast<uint32_t>(high ? now >> 32 : now); });
  }
  return Step::kNext;
}

Step RunPack(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t* list = &w.cta->cluster->launch->program->lists[i.o[1]];
  int part = i.u[0];
  uint32_t low32 = part == 8 ? 0xffu : part == 16 ? 0xffffu : ~0u;
  uint64_t out[32] = {};
  for (uint32_t k = 0; k < list[0]; ++k) {
    const uint32_t* p = Row<uint32_t>(w, list[1 + k]);
    for (int l = 0; l < 32; ++l) out[l] |= uint64_t{p[l] & low32} << (part * static_cast<int>(k));
  }
  if (i.u[1] == 64) {
    uint64_t* d = Row<uint64_t>(w, i.o[0]);
    ForLanes(mask, [&](int l) { d[l] = out[l]; });
  } else {
    uint32_t* d = Row<uint32_t>(w, i.o[0]);
    ForLanes(mask, [&](int l) { d[l] = static_cast<uint32_t>(out[l]); });
  }
  return Step::kNext;
}

Step RunUnpack(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t* list = &w.cta->cluster->launch->program->lists[i.o[1]];
  int part = i.u[0];
  uint32_t low32 = part == 8 ? 0xffu : part == 16 ? 0xffffu : ~0u;
  uint64_t in[32];
  if (i.u[1] == 64) {
    memcpy(in, Row<uint64_t>(w, i.o[0]), sizeof in);
  } else {
    for (int l = 0; l < 32; ++l) in[l] = Row<uint32_t>(w, i.o[0])[l];
  }
  for (uint32_t k = 0; k < list[0]; ++k) {
    uint32_t* p = Row<uint32_t>(w, list[1 + k]);
    ForLanes(mask, [&](int l) {
      p[l] = static_cast<uint32_t>(in[l] >> (part * static_cast<int>(k))) & low32;
    });
  }
  return Step::kNext;
}

}  // namespace tilec::runtime::emulator
