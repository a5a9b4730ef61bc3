// Everything that is done per output: tables of values, the vector loops of `fast`, integers, and
// the window of 25 bits. The windows of the kinds of 4 bits are in tcgen05_math4.cc.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/tcgen05_math.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/emulator/dispatch.h"
#include "runtime/emulator/floats.h"
#include "runtime/emulator/tcgen05_tables.h"
#include "runtime/emulator/tcgen05_window.h"

namespace tilec::runtime::emulator {

namespace {

// ---- fast ----

struct FastProduct {
  const float* a;  // [k][rows]
  const float* b;  // [columns][k]
  float* d;
  uint32_t rows, columns, k, stride;
};

TILEC_BODY void MultiplyFastBody(const FastProduct& p) {
  for (uint32_t c = 0; c < p.columns; ++c) {
    float* d = p.d + c * p.stride;
    const float* b = p.b + c * p.k;
    for (uint32_t r = 0; r < p.rows; r += 16) {
      float sum[16];
      for (uint32_t j = 0; j < 16; ++j) sum[j] = d[r + j];
      for (uint32_t k = 0; k < p.k; ++k) {
        const float* a = p.a + k * p.rows + r;
        const float x = b[k];
        for (uint32_t j = 0; j < 16; ++j) sum[j] = __builtin_fmaf(a[j], x, sum[j]);
      }
      for (uint32_t j = 0; j < 16; ++j) d[r + j] = sum[j];
    }
  }
}
TILEC_LANES(MultiplyFast, (const FastProduct& p), (p))

struct IntegerProduct {
  const int32_t* a;
  const int32_t* b;
  int64_t* d;
  uint32_t rows, columns, k;
};

// Sums of K products of 8 bits fit 32 bits.
TILEC_BODY void MultiplyIntegersBody(const IntegerProduct& p) {
  for (uint32_t c = 0; c < p.columns; ++c) {
    const int32_t* b = p.b + c * p.k;
    for (uint32_t r = 0; r < p.rows; r += 16) {
      int32_t sum[16] = {};
      for (uint32_t k = 0; k < p.k; ++k) {
        const int32_t* a = p.a + k * p.rows + r;
        for (uint32_t j = 0; j < 16; ++j) sum[j] += a[j] * b[k];
      }
      for (uint32_t j = 0; j < 16; ++j) p.d[c * p.rows + r + j] = sum[j];
    }
  }
}
TILEC_LANES(MultiplyIntegers, (const IntegerProduct& p), (p))

void RunIntegers(MmaProduct& p) {
  const MmaTask& t = *p.task;
  auto widen = [](MmaFormat f, const std::vector<uint32_t>& codes) {
    std::vector<int32_t> v(codes.size());
    for (size_t i = 0; i < v.size(); ++i)
      v[i] = f == MmaFormat::kS8 ? static_cast<int8_t>(codes[i]) : static_cast<int32_t>(codes[i]);
    return v;
  };
  const std::vector<int32_t> a = widen(t.a, p.a), b = widen(t.b, p.b);
  std::vector<int64_t> sums(size_t{p.rows} * p.columns);
  MultiplyIntegers({a.data(), b.data(), sums.data(), p.rows, p.columns, t.k()});
  for (uint32_t c = 0; c < p.columns; ++c)
    for (uint32_t r = 0; r < p.rows; ++r) {
      uint32_t& d = p.d[c * p.stride + r];
      int64_t s = sums[size_t{c} * p.rows + r] + (p.accumulate ? static_cast<int32_t>(d) : 0);
      if (t.saturate) s = std::clamp<int64_t>(s, INT32_MIN, INT32_MAX);
      d = static_cast<uint32_t>(s);
    }
}

std::vector<float> Floats(MmaFormat f, bool negate, const std::vector<uint32_t>& codes) {
  std::vector<float> v(codes.size());
  const float sign = negate ? -1.0f : 1.0f;
  if (Small(f)) {
    const auto& table = FloatTable(f);
    for (size_t i = 0; i < v.size(); ++i) v[i] = sign * table[codes[i] & 0xff];
    return v;
  }
  for (size_t i = 0; i < v.size(); ++i) v[i] = sign * ValueAsFloat(f, codes[i]);
  return v;
}

float ScaleAsFloat(bool ue4m3, uint32_t code) {
  const MmaValue s = DecodeScale(ue4m3, code);
  if (s.kind == ValueClass::kNan) return FloatOf(kCanonicalNan32);
  return std::ldexp(static_cast<float>(s.magnitude), s.exponent - (ue4m3 ? 3 : 0));
}

void RunProduct(MmaProduct& p) {
  const MmaTask& t = *p.task;
  const uint32_t k = t.k(), scales = IsScaled(t.form.kind) ? t.form.scales : 1;
  std::vector<float> a = Floats(t.a, t.negate_a, p.a), b = Floats(t.b, t.negate_b, p.b);
  std::vector<float> sum(size_t{p.rows} * p.columns);
  for (uint32_t c = 0; c < p.columns && p.accumulate; ++c)
    for (uint32_t r = 0; r < p.rows; ++r) {
      const uint32_t bits = p.d[c * p.stride + r];
      const float x =
          t.d == MmaResult::kF16 ? F16ToF32(static_cast<uint16_t>(bits)) : FloatOf(bits);
      sum[size_t{c} * p.rows + r] =
          p.scale_c == 0 ? x : std::ldexp(x, -static_cast<int>(p.scale_c));
    }
  if (!IsScaled(t.form.kind)) {
    MultiplyFast({a.data(), b.data(), sum.data(), p.rows, p.columns, k, p.rows});
  } else {
    const uint32_t block = k / scales;
    std::vector<float> part(sum.size()), b_part(size_t{p.columns} * block);
    for (uint32_t s = 0; s < scales; ++s) {
      std::fill(part.begin(), part.end(), 0.0f);
      for (uint32_t c = 0; c < p.columns; ++c)
        std::memcpy(&b_part[size_t{c} * block], &b[size_t{c} * k + s * block], block * 4);
      MultiplyFast({a.data() + size_t{s} * block * p.rows, b_part.data(), part.data(), p.rows,
                    p.columns, block, p.rows});
      std::vector<double> scale_a(p.rows);
      for (uint32_t r = 0; r < p.rows; ++r)
        scale_a[r] = ScaleAsFloat(t.scale_ue4m3, p.scales_a[r * scales + s]);
      for (uint32_t c = 0; c < p.columns; ++c) {
        const double y = ScaleAsFloat(t.scale_ue4m3, p.scales_b[c * scales + s]);
        for (uint32_t r = 0; r < p.rows; ++r) {
          float& to = sum[size_t{c} * p.rows + r];
          to = static_cast<float>(to + part[size_t{c} * p.rows + r] * (scale_a[r] * y));
        }
      }
    }
  }
  for (uint32_t c = 0; c < p.columns; ++c)
    for (uint32_t r = 0; r < p.rows; ++r) {
      const float x = sum[size_t{c} * p.rows + r];
      const bool half = t.d == MmaResult::kF16;
      uint32_t bits = half ? F32ToF16(x) : Bits(x);
      if (std::isnan(x)) bits = half ? kCanonicalNan16 : kCanonicalNan32;
      p.d[c * p.stride + r] = bits;
    }
}

// ---- exact: the window of 25 bits ----

struct Parts {
  std::vector<int32_t> magnitude, exponent;  // signed; kNoExponent for zero
  std::vector<uint8_t> special;              // per row or column
};

Parts PartsOf(MmaFormat f, bool negate, const std::vector<uint32_t>& codes) {
  Parts p;
  p.magnitude.resize(codes.size());
  p.exponent.resize(codes.size());
  std::vector<MmaValue> table;
  if (Small(f))
    for (uint32_t c = 0; c < 256; ++c) table.push_back(DecodeValue(f, c));
  for (size_t i = 0; i < codes.size(); ++i) {
    const MmaValue v = table.empty() ? DecodeValue(f, codes[i]) : table[codes[i] & 0xff];
    const bool finite = v.kind == ValueClass::kFinite;
    p.magnitude[i] = finite ? (v.negative != negate ? -v.magnitude : v.magnitude) : 0;
    p.exponent[i] = finite && v.magnitude != 0 ? v.exponent : kNoExponent;
  }
  return p;
}

struct WindowProduct {
  const int32_t *a_magnitude, *a_exponent, *b_magnitude, *b_exponent;
  int32_t* top;  // [columns][rows]: C's exponent on entry, the largest on return
  int64_t* sum;  // [columns][rows]: units of 2^(top − 25)
  uint32_t rows, columns, k;
  int shift;  // 25 − fraction bits of a product
};

TILEC_BODY void MultiplyWindowBody(const WindowProduct& p) {
  for (uint32_t c = 0; c < p.columns; ++c) {
    for (uint32_t r = 0; r < p.rows; r += 16) {
      int32_t* out = p.top + c * p.rows + r;
      int32_t top[16];
      for (uint32_t j = 0; j < 16; ++j) top[j] = out[j];
      for (uint32_t k = 0; k < p.k; ++k) {
        const int32_t e = p.b_exponent[c * p.k + k];
        const int32_t* a = p.a_exponent + k * p.rows + r;
        for (uint32_t j = 0; j < 16; ++j) top[j] = a[j] + e > top[j] ? a[j] + e : top[j];
      }
      int64_t sum[16] = {};
      for (uint32_t k = 0; k < p.k; ++k) {
        const int32_t e = p.b_exponent[c * p.k + k], m = p.b_magnitude[c * p.k + k];
        const int32_t* ae = p.a_exponent + k * p.rows + r;
        const int32_t* am = p.a_magnitude + k * p.rows + r;
        for (uint32_t j = 0; j < 16; ++j) {
          const int32_t product = am[j] * m;
          const int32_t sign = product >> 31;
          int32_t below = top[j] - (ae[j] + e);
          below = below > 31 ? 31 : below;
          const int32_t cut = (((product ^ sign) - sign) << p.shift) >> below;
          sum[j] += (cut ^ sign) - sign;
        }
      }
      for (uint32_t j = 0; j < 16; ++j) {
        out[j] = top[j];
        p.sum[c * p.rows + r + j] = sum[j];
      }
    }
  }
}
TILEC_LANES(MultiplyWindow, (const WindowProduct& p), (p))

MmaValue DecodeC(const MmaProduct& p, uint32_t bits) {
  if (!p.accumulate) return {};
  MmaValue v =
      p.task->d == MmaResult::kF16 ? DecodeValue(MmaFormat::kF16, bits & 0xffff) : DecodeF32(bits);
  if (p.task->d == MmaResult::kF16) v.magnitude <<= 13;
  v.exponent -= static_cast<int32_t>(p.scale_c);
  return v;
}

// Is there an infinity or a NaN among the operands of an output, or its scales?
uint32_t SpecialSum(const MmaProduct& p, uint32_t r, uint32_t c, const MmaValue& acc) {
  const MmaTask& t = *p.task;
  SpecialTerms s;
  s.Add(acc);
  for (uint32_t k = 0; k < t.k(); ++k) {
    MmaValue x = DecodeValue(t.a, p.a[size_t{k} * p.rows + r]);
    MmaValue y = DecodeValue(t.b, p.b[size_t{c} * t.k() + k]);
    x.negative = x.negative != t.negate_a, y.negative = y.negative != t.negate_b;
    s.AddProduct(x, y);
  }
  return s.Result(t.d == MmaResult::kF16);
}

void RunWindow(MmaProduct& p) {
  const MmaTask& t = *p.task;
  const Parts a = PartsOf(t.a, t.negate_a, p.a), b = PartsOf(t.b, t.negate_b, p.b);
  const size_t outputs = size_t{p.rows} * p.columns;
  std::vector<int32_t> top(outputs);
  std::vector<int64_t> sum(outputs);
  std::vector<uint8_t> row(p.rows), column(p.columns);
  for (size_t i = 0; i < p.a.size(); ++i)
    row[i % p.rows] |= DecodeValue(t.a, p.a[i]).kind != ValueClass::kFinite;
  for (size_t i = 0; i < p.b.size(); ++i)
    column[i / t.k()] |= DecodeValue(t.b, p.b[i]).kind != ValueClass::kFinite;
  const bool scaled = IsScaled(t.form.kind);
  auto scale = [&](uint32_t r, uint32_t c) -> int32_t {  // one block: all of K
    return scaled ? DecodeScale(false, p.scales_a[r]).exponent +
                        DecodeScale(false, p.scales_b[c]).exponent
                  : 0;
  };
  auto nan_scale = [&](uint32_t r, uint32_t c) {
    return scaled && (p.scales_a[r] == 0xff || p.scales_b[c] == 0xff);
  };
  for (uint32_t c = 0; c < p.columns; ++c)
    for (uint32_t r = 0; r < p.rows; ++r) {
      const MmaValue acc = DecodeC(p, p.d[c * p.stride + r]);
      const bool counts = acc.kind == ValueClass::kFinite && acc.magnitude != 0;
      top[size_t{c} * p.rows + r] = counts ? acc.exponent - scale(r, c) : kNoExponent;
    }
  MultiplyWindow({a.magnitude.data(), a.exponent.data(), b.magnitude.data(), b.exponent.data(),
                  top.data(), sum.data(), p.rows, p.columns, t.k(),
                  25 - FractionBits(t.a) - FractionBits(t.b)});
  for (uint32_t c = 0; c < p.columns; ++c)
    for (uint32_t r = 0; r < p.rows; ++r) {
      uint32_t& d = p.d[c * p.stride + r];
      const MmaValue acc = DecodeC(p, d);
      const bool half = t.d == MmaResult::kF16;
      if (nan_scale(r, c)) {
        d = half ? kCanonicalNan16 : kCanonicalNan32;
        continue;
      }
      if (row[r] || column[c] || acc.kind != ValueClass::kFinite) {
        if (const uint32_t special = SpecialSum(p, r, c, acc); special != 0) {
          d = special;
          continue;
        }
      }
      const size_t i = size_t{c} * p.rows + r;
      const int32_t s = scale(r, c);
      if (top[i] <= kNoExponent / 2) {
        if (!scaled || !p.accumulate) d = 0;  // scaled kinds leave a zero of C as it is
        continue;
      }
      if (acc.magnitude != 0) {
        const int32_t below = std::min(top[i] - (acc.exponent - s), 31);
        const int64_t units = (int64_t{acc.magnitude} << 2) >> below;
        sum[i] += acc.negative ? -units : units;
      }
      d = half ? UnitsToF16(sum[i], top[i] + s - 25) : UnitsToF32(sum[i], top[i] + s - 25);
    }
}

}  // namespace

int FractionBits(MmaFormat format) { return FieldsOf(format).fraction_bits; }

MmaValue DecodeValue(MmaFormat format, uint32_t code) {
  const Fields f = FieldsOf(format);
  return Decode(f, code);
}

float ValueAsFloat(MmaFormat format, uint32_t code) {
  switch (format) {
    case MmaFormat::kF16: return F16ToF32(static_cast<uint16_t>(code));
    case MmaFormat::kBf16: return FloatOf(code << 16);
    case MmaFormat::kTf32: return FloatOf(code & 0xffffe000u);
    case MmaFormat::kE4m3:
    case MmaFormat::kE5m2:
    case MmaFormat::kE2m3:
    case MmaFormat::kE3m2:
    case MmaFormat::kE2m1: return FloatTable(format)[code & 0xff];
    case MmaFormat::kU8: return static_cast<float>(code & 0xff);
    case MmaFormat::kS8: return static_cast<float>(static_cast<int8_t>(code));
  }
  return 0;
}

MmaValue DecodeScale(bool ue4m3, uint32_t code) {
  if (ue4m3) return Decode(FieldsOf(MmaFormat::kE4m3), code & 0x7f);
  MmaValue v;
  if (code == 0xff) v.kind = ValueClass::kNan;
  v.magnitude = 1;
  v.exponent = static_cast<int32_t>(code) - 127;
  return v;
}

MmaValue DecodeF32(uint32_t bits) { return Decode({8, 23, 127, Fields::kIeee, 0}, bits); }

void Multiply(MmaProduct& p, Arithmetic arithmetic) {
  const MmaKind kind = p.task->form.kind;
  if (kind == MmaKind::kI8) return RunIntegers(p);
  if (arithmetic == Arithmetic::kFast) return RunProduct(p);
  if (kind == MmaKind::kMxf4 || kind == MmaKind::kMxf4nvf4) return MultiplyFourBits(p);
  RunWindow(p);
}

}  // namespace tilec::runtime::emulator
