// Number formats of PTX and the approximate functions of the special-function unit.
//
// Everything here is computed with integers or with correctly rounded host operations, so the
// same bits come out on every host. Where PTX gives only an error bound (ex2.approx and friends)
// the result is within one unit of the correctly rounded one, and special values follow the
// tables of the ISA. The `…Warp` functions work on all 32 lanes of a register without looking at
// a mask: a handler with inactive lanes computes into a temporary and merges.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

namespace tilec::runtime::emulator {

inline constexpr int kLanes = 32;

enum class Round : uint8_t { kNearestEven, kZero, kDown, kUp, kNearestAway };

// Modifiers of a narrowing cvt.
struct Narrow {
  Round round = Round::kNearestEven;
  bool satfinite = false;  // overflow and infinity become the largest finite value
  bool relu = false;       // negative results become +0, NaN becomes canonical NaN
  bool ftz = false;        // .ftz: a subnormal *f32* input counts as zero
};

inline constexpr uint32_t kCanonicalNan32 = 0x7fffffffu;
inline constexpr uint64_t kCanonicalNan64 = 0x7fffffffffffffffull;
inline constexpr uint64_t kInvalid64 = 0xfff8000000000000ull;  // of an f64 operation without NaN
inline constexpr uint64_t kQuiet64 = 1ull << 51;               // makes a NaN quiet
inline constexpr uint16_t kCanonicalNan16 = 0x7fffu;           // f16 and bf16
inline constexpr uint8_t kCanonicalNan8 = 0x7fu;               // e4m3 and e5m2

inline uint32_t Bits(float x) { return std::bit_cast<uint32_t>(x); }
inline uint64_t Bits(double x) { return std::bit_cast<uint64_t>(x); }
inline float FloatOf(uint32_t b) { return std::bit_cast<float>(b); }
inline double DoubleOf(uint64_t b) { return std::bit_cast<double>(b); }

// Sign-preserving flush of subnormals.
inline float Flush(float x) {
  uint32_t b = Bits(x);
  return (b & 0x7f800000u) == 0 ? FloatOf(b & 0x80000000u) : x;
}

// Widening: exact. NaN becomes the canonical f32 NaN, except that bf16 keeps its bits.
float F16ToF32(uint16_t x);
float E4m3ToF32(uint8_t x);
float E5m2ToF32(uint8_t x);
inline float Bf16ToF32(uint16_t x) { return FloatOf(uint32_t{x} << 16); }
inline double F16ToF64(uint16_t x) { return F16ToF32(x); }

// Narrowing. `how.round` is honoured by all (cvt to 8-bit formats in PTX is always rn.satfinite;
// to tf32 always rna, rn or rz). A tf32 result is an f32 pattern with 13 low zero bits; a NaN just
// loses them (rna; with .satfinite one more unit, as infinity does), or becomes 0x7fffe000.
uint16_t F32ToF16(float x, Narrow how = {});
uint16_t F32ToBf16(float x, Narrow how = {});
uint32_t F32ToTf32(float x, Narrow how = {.round = Round::kNearestAway});
uint8_t F32ToE4m3(float x, Narrow how = {.satfinite = true});
uint8_t F32ToE5m2(float x, Narrow how = {.satfinite = true});
uint16_t F64ToF16(double x, Narrow how = {});
uint16_t F64ToBf16(double x, Narrow how = {});
// .ftz flushes the result; a NaN keeps its sign and upper payload.
float F64ToF32(double x, Narrow how = {});

// Integer to float with a rounding mode.
float S64ToF32(int64_t x, Round round = Round::kNearestEven);
float U64ToF32(uint64_t x, Round round = Round::kNearestEven);
double S64ToF64(int64_t x, Round round = Round::kNearestEven);
double U64ToF64(uint64_t x, Round round = Round::kNearestEven);
// Float to integer: rounds, saturates to [lo, hi]; NaN gives 0 for targets narrower than 64 bits
// and `nan` otherwise (the caller knows the instruction). kNearestAway is not a PTX mode here.
int64_t F64ToS64(double x, Round round, int64_t lo, int64_t hi, int64_t nan = 0);
uint64_t F64ToU64(double x, Round round, uint64_t hi, uint64_t nan = 0);
// cvt.rni/.rzi/.rmi/.rpi between equal float types.
float RoundToInteger(float x, Round round);
double RoundToInteger(double x, Round round);

// Arithmetic in f32 and f64 with any PTX rounding mode; kNearestEven is the host's own. NaN
// results are canonical. .ftz is the caller's (Flush on inputs and output).
float AddF32(float a, float b, Round round = Round::kNearestEven);
float MulF32(float a, float b, Round round = Round::kNearestEven);
float FmaF32(float a, float b, float c, Round round = Round::kNearestEven);
float DivF32(float a, float b, Round round = Round::kNearestEven);
float SqrtF32(float a, Round round = Round::kNearestEven);

// f16 and bf16 arithmetic, rounded once (rn).
uint16_t FmaF16(uint16_t a, uint16_t b, uint16_t c);
uint16_t FmaBf16(uint16_t a, uint16_t b, uint16_t c);

// Special functions. Without .ftz subnormal inputs and results are kept.
float Ex2Approx(float x, bool ftz);
float Lg2Approx(float x, bool ftz);
float RcpApprox(float x, bool ftz);
float RsqrtApprox(float x, bool ftz);
float SqrtApprox(float x, bool ftz);
float TanhApprox(float x);
float SinApprox(float x, bool ftz);
float CosApprox(float x, bool ftz);
float DivApprox(float a, float b, bool ftz);  // div.full too
// ex2.approx.f16, ex2.approx.ftz.bf16, tanh.approx.{f16,bf16}: rounded toward zero, which is
// closest to what the hardware does.
uint16_t Ex2F16(uint16_t x);
uint16_t Ex2Bf16(uint16_t x);
uint16_t TanhF16(uint16_t x);
uint16_t TanhBf16(uint16_t x);

// All 32 lanes. `out` may be an input.
void Ex2Warp(const float* x, float* out, bool ftz);
void Lg2Warp(const float* x, float* out, bool ftz);
void RcpWarp(const float* x, float* out, bool ftz);
void RsqrtWarp(const float* x, float* out, bool ftz);
void SqrtWarp(const float* x, float* out, bool ftz);
void TanhWarp(const float* x, float* out);
// max/min.f32: the non-NaN operand, −0 < +0; `nan`: NaN wins (max.NaN).
void MaxWarp(const float* a, const float* b, float* out, bool ftz, bool nan);
void MinWarp(const float* a, const float* b, float* out, bool ftz, bool nan);
void FmaWarp(const float* a, const float* b, const float* c, float* out, bool ftz);
// cvt.rn{.relu}.{bf16x2,f16x2}.f32 d, hi, lo: the first source is the upper half.
void CvtBf16x2Warp(const float* hi, const float* lo, uint32_t* out, bool relu);
void CvtF16x2Warp(const float* hi, const float* lo, uint32_t* out, bool relu);
void CvtE4m3x2Warp(const float* hi, const float* lo, uint16_t* out, bool relu);
void CvtE5m2x2Warp(const float* hi, const float* lo, uint16_t* out, bool relu);

}  // namespace tilec::runtime::emulator
