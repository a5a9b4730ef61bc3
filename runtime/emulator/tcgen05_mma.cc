// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/tcgen05_mma.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace tilec::runtime::emulator {
namespace {

uint32_t BitsOf(MmaFormat f) {
  switch (f) {
    case MmaFormat::kF16:
    case MmaFormat::kBf16: return 16;
    case MmaFormat::kTf32: return 32;
    case MmaFormat::kE4m3:
    case MmaFormat::kE5m2:
    case MmaFormat::kU8:
    case MmaFormat::kS8: return 8;
    case MmaFormat::kE2m3:
    case MmaFormat::kE3m2: return 6;
    case MmaFormat::kE2m1: return 4;
  }
  return 8;
}

// ElementAt j of 16 bytes: formats are packed from the lowest bit on, padding comes behind.
uint32_t ElementAt(const uint8_t* chunk, uint32_t bits, uint32_t j) {
  switch (bits) {
    case 32: {
      uint32_t v;
      std::memcpy(&v, chunk + j * 4, 4);
      return v;
    }
    case 16: {
      uint16_t v;
      std::memcpy(&v, chunk + j * 2, 2);
      return v;
    }
    case 8: return chunk[j];
    case 4: return chunk[j / 2] >> (j % 2 * 4) & 15;
    default: {
      const uint32_t at = j * bits;
      const uint32_t two = chunk[at / 8] | uint32_t{chunk[at / 8 + 1]} << 8;
      return two >> (at % 8) & ((1u << bits) - 1);
    }
  }
}

bool Transposed(const MmaTask& t, bool operand_b) {
  return operand_b ? t.transpose_b : t.transpose_a;
}

// The rows of an operand that one CTA holds.
struct SharedRows {
  bool operand_b;
  const TensorDescriptor& desc;
  uint32_t rows;
};

// codes[r · K + k] of them.
bool Gather(const MmaTask& t, const SharedRows& of, const TensorPart& part, uint32_t* codes,
            std::string* error) {
  const TensorDescriptor& d = of.desc;
  const bool operand_b = of.operand_b;
  const uint32_t rows = of.rows;
  const size_t row_stride = t.k();
  const uint32_t bits = BitsOf(operand_b ? t.b : t.a), per = t.per_chunk();
  auto chunk_at = [&](uint32_t offset) -> const uint8_t* {
    const uint32_t at = d.Address(offset);
    if (at + 16 <= part.shared_bytes) return part.shared + at;
    *error = fmt::format(
        "the descriptor of {} (start {}, leading offset {}, stride offset {}, swizzle {}) reaches "
        "byte {} of {} bytes of shared memory",
        operand_b ? "B" : "A", d.start, d.lbo, d.sbo, d.mode, at + 15, part.shared_bytes);
    return nullptr;
  };
  if (Transposed(t, operand_b)) {
    for (uint32_t c = 0; c * per < rows; ++c)
      for (uint32_t k = 0; k < t.k(); ++k) {
        const uint8_t* chunk = chunk_at(d.MnMajor(c, k));
        if (chunk == nullptr) return false;
        for (uint32_t j = 0; j < per && c * per + j < rows; ++j)
          codes[(c * per + j) * row_stride + k] = ElementAt(chunk, bits, j);
      }
    return true;
  }
  for (uint32_t r = 0; r < rows; ++r)
    for (uint32_t c = 0; c < 2; ++c) {
      const uint8_t* chunk = chunk_at(d.KMajor(r, c));
      if (chunk == nullptr) return false;
      for (uint32_t j = 0; j < per; ++j)
        codes[r * row_stride + c * per + j] = ElementAt(chunk, bits, j);
    }
  return true;
}

// A of `lanes` lanes of tensor memory, by k: 8 columns, packed from the lowest bit on.
void GatherTensor(const MmaTask& t, const TensorMemory& memory, TensorAddress at, uint32_t lanes,
                  uint32_t* codes) {
  const uint32_t bits = BitsOf(t.a), per = 32 / bits;
  const uint32_t mask = bits == 32 ? ~0u : (1u << bits) - 1;
  for (uint32_t k = 0; k < t.k(); ++k) {
    const uint32_t* words = memory.Column(at.column + k / per) + at.lane;
    for (uint32_t r = 0; r < lanes; ++r)
      codes[size_t{k} * lanes + r] = words[r] >> (k % per * bits) & mask;
  }
}

// Scale factors of row r (of A) or column r (of B): bytes of the word in lane r % 32, column r
// / 32.
bool GatherScales(const TensorMemory& memory, TensorAddress at, uint32_t rows, uint32_t per_row,
                  uint32_t id, uint8_t* out) {
  bool same = true;
  for (uint32_t r = 0; r < rows; ++r) {
    const uint32_t* column = memory.Column(at.column + r / 32);
    const uint32_t word = column[r % 32];
    const uint32_t mask = per_row == 4 ? ~0u : ((1u << 8 * per_row) - 1) << 8 * id;
    for (uint32_t q = 1; q < 4; ++q) same = same && ((column[q * 32 + r % 32] ^ word) & mask) == 0;
    for (uint32_t s = 0; s < per_row; ++s)
      out[r * per_row + s] = static_cast<uint8_t>(word >> 8 * (s + id));
  }
  return same;
}

bool Disabled(const MmaOperands& o, uint32_t cta, uint32_t lane) {
  return o.disabled[cta * 4 + lane / 32] >> (lane % 32) & 1;
}

struct Gathered {
  std::vector<uint32_t> a;  // [row][k], whole M; empty: in tensor memory
  std::vector<uint32_t> b;  // [n][k]
};

// Rows side by side from row `row` on, by k.
void TakeRows(const Gathered& g, const MmaTask& t, const MmaBlock& b, MmaProduct* p) {
  for (uint32_t k = 0; k < t.k(); ++k)
    for (uint32_t r = 0; r < b.rows; ++r)
      p->a[size_t{k} * b.rows + r] = g.a[size_t{b.row + r} * t.k() + k];
}

bool RunBlock(const MmaTask& t, const MmaOperands& o, const TensorPart* parts, const Gathered& g,
              const MmaBlock& b, Arithmetic arithmetic) {
  TensorMemory& memory = *parts[b.cta].tensor;
  MmaProduct p;
  p.task = &t;
  p.rows = b.rows, p.columns = b.columns;
  p.a.resize(size_t{b.rows} * t.k());
  if (t.form.a_in_tensor)
    GatherTensor(t, memory, {b.lane, o.a.column}, b.rows, p.a.data());
  else
    TakeRows(g, t, b, &p);
  p.b.assign(g.b.begin() + static_cast<ptrdiff_t>(size_t{b.n} * t.k()),
             g.b.begin() + static_cast<ptrdiff_t>(size_t{b.n + b.columns} * t.k()));
  p.accumulate = o.accumulate;
  p.scale_c = o.scale_c;
  bool same = true;
  if (IsScaled(t.form.kind)) {  // layouts A and D alone: a row per lane, all of N
    p.scales_a.resize(size_t{b.rows} * t.form.scales);
    p.scales_b.resize(size_t{b.columns} * t.form.scales);
    same = GatherScales(memory, o.scale_a, b.rows, t.form.scales, t.scale_id_a, p.scales_a.data());
    same &=
        GatherScales(memory, o.scale_b, b.columns, t.form.scales, t.scale_id_b, p.scales_b.data());
  }
  bool masked = false;
  for (uint32_t r = 0; r < b.rows; ++r) masked = masked || Disabled(o, b.cta, b.lane + r);
  uint32_t* d = memory.Column(o.d.column + b.column) + b.lane;
  std::vector<uint32_t> kept;
  if (!masked) {
    p.d = d, p.stride = kTensorLanes;
    Multiply(p, arithmetic);
  } else {
    kept.resize(size_t{b.rows} * b.columns);
    for (uint32_t c = 0; c < b.columns; ++c)
      std::memcpy(&kept[size_t{c} * b.rows], d + c * kTensorLanes, b.rows * 4);
    p.d = kept.data(), p.stride = b.rows;
    Multiply(p, arithmetic);
  }
  for (uint32_t c = 0; c < b.columns; ++c) {
    if (!masked) {
      memory.SetWritten(o.d.column + b.column + c, b.lane, b.rows);
      continue;
    }
    for (uint32_t r = 0; r < b.rows; ++r) {
      if (Disabled(o, b.cta, b.lane + r)) continue;
      d[c * kTensorLanes + r] = kept[size_t{c} * b.rows + r];
      memory.SetWritten(o.d.column + b.column + c, b.lane + r, 1);
    }
  }
  return same;
}

}  // namespace

std::vector<MmaBlock> BlocksOf(const MmaTask& t, uint32_t lane_base) {
  const uint32_t n = t.n;
  if (t.form.group == 2 && t.m == 256)  // layout A
    return {{0, 0, 0, 128, 0, n, 0}, {1, 0, 128, 128, 0, n, 0}};
  if (t.form.group == 2)  // layout B
    return {{0, 0, 0, 64, 0, n / 2, 0},
            {0, 64, 0, 64, n / 2, n / 2, 0},
            {1, 0, 64, 64, 0, n / 2, 0},
            {1, 64, 64, 64, n / 2, n / 2, 0}};
  if (t.m == 128) return {{0, 0, 0, 128, 0, n, 0}};  // layout D
  std::vector<MmaBlock> blocks;
  if (t.m == 64 && !t.form.ws) {  // layout F
    for (uint32_t q = 0; q < 4; ++q) blocks.push_back({0, 32 * q + lane_base, 16 * q, 16, 0, n, 0});
  } else if (t.m == 64) {  // layout E
    for (uint32_t h = 0; h < 2; ++h) blocks.push_back({0, 64 * h, 0, 64, h * n / 2, n / 2, 0});
  } else {  // layout G
    for (uint32_t q = 0; q < 4; ++q) blocks.push_back({0, 32 * q, 0, 32, q * n / 4, n / 4, 0});
  }
  return blocks;
}

bool CheckMmaAddresses(const MmaTask& t, const MmaOperands& o, std::string* error) {
  const bool half = t.m == 64 && !t.form.ws && t.form.group == 1;
  auto lane_ok = [&](const char* what, uint32_t lane, bool may_be_16) {
    if (lane == 0 || (may_be_16 && lane == 16)) return true;
    *error = fmt::format("the address of {} names lane {}, {} is needed", what, lane,
                         may_be_16 ? "0 or 16" : "0");
    return false;
  };
  if (!lane_ok("D", o.d.lane, half)) return false;
  if (t.form.a_in_tensor && !lane_ok("A", o.a.lane, half)) return false;
  if (t.form.a_in_tensor && half && o.a.lane != o.d.lane) {
    *error =
        fmt::format("A is at lane {} and D at lane {}: they must be the same", o.a.lane, o.d.lane);
    return false;
  }
  if (!IsScaled(t.form.kind)) return true;
  return lane_ok("A's scale factors", o.scale_a.lane, false) &&
         lane_ok("B's scale factors", o.scale_b.lane, false);
}

std::vector<TensorBox> BoxesOf(const MmaTask& t, const MmaOperands& o) {
  using Use = TensorBox::Use;
  std::vector<TensorBox> boxes;
  const uint32_t k_columns = 8;  // 32 bytes
  for (const MmaBlock& b : BlocksOf(t, o.d.lane)) {
    boxes.push_back({b.cta, b.lane, b.rows, o.d.column + b.column, b.columns, Use::kResult});
    if (t.form.a_in_tensor)
      boxes.push_back({b.cta, b.lane, b.rows, o.a.column, k_columns, Use::kOperand});
    if (!IsScaled(t.form.kind)) continue;
    boxes.push_back({b.cta, 0, kTensorLanes, o.scale_a.column, 4, Use::kScale});
    boxes.push_back({b.cta, 0, kTensorLanes, o.scale_b.column, (b.columns + 31) / 32, Use::kScale});
  }
  return boxes;
}

uint32_t RowsPerCta(const MmaTask& t, bool operand_b) {
  return (operand_b ? t.n : t.m) / t.form.group;
}

uint32_t ChunksPerRow(const MmaTask& t, bool operand_b) {
  return Transposed(t, operand_b) ? t.k() : 2;
}

void ForEachMmaChunk(const MmaTask& t, bool operand_b, const TensorDescriptor& d,
                     const std::function<void(uint32_t offset)>& f) {
  const uint32_t rows = RowsPerCta(t, operand_b), per = t.per_chunk();
  if (Transposed(t, operand_b)) {
    for (uint32_t c = 0; c * per < rows; ++c)
      for (uint32_t k = 0; k < t.k(); ++k) f(d.Address(d.MnMajor(c, k)));
    return;
  }
  for (uint32_t r = 0; r < rows; ++r)
    for (uint32_t c = 0; c < 2; ++c) f(d.Address(d.KMajor(r, c)));
}

bool RunMma(const MmaTask& t, const MmaOperands& o, const TensorPart* parts, Arithmetic arithmetic,
            std::string* error, bool* scales_differ) {
  Gathered g;
  const uint32_t k = t.k();
  g.b.resize(size_t{t.n} * k);
  if (!t.form.a_in_tensor) g.a.resize(size_t{t.m} * k);
  for (uint32_t cta = 0; cta < t.form.group; ++cta) {
    const uint32_t rows = RowsPerCta(t, false), columns = RowsPerCta(t, true);
    if (!t.form.a_in_tensor &&
        !Gather(t, {false, o.a_desc, rows}, parts[cta], &g.a[size_t{cta} * rows * k], error))
      return false;
    if (!Gather(t, {true, o.b_desc, columns}, parts[cta], &g.b[size_t{cta} * columns * k], error))
      return false;
  }
  for (const MmaBlock& b : BlocksOf(t, o.d.lane))
    if (!RunBlock(t, o, parts, g, b, arithmetic)) *scales_differ = true;
  return true;
}

// ---- copies ----

uint32_t TensorCopy::rows() const {
  switch (shape) {
    case CopyShape::k128x256b:
    case CopyShape::k128x128b: return 128;
    case CopyShape::k64x128b02:
    case CopyShape::k64x128b01: return 64;
    case CopyShape::k32x128b: return 32;
  }
  return 0;
}
uint32_t TensorCopy::columns() const { return shape == CopyShape::k128x256b ? 8 : 4; }
uint32_t TensorCopy::copies() const { return kTensorLanes / rows(); }

// 02_13: rows 0–31 go to warps 0 and 2, rows 32–63 to warps 1 and 3. 01_23: to warps 0 and 1, 2
// and 3.
uint32_t TensorCopy::Lane(uint32_t r, uint32_t k) const {
  switch (shape) {
    case CopyShape::k128x256b:
    case CopyShape::k128x128b: return r;
    case CopyShape::k64x128b02: return r + 64 * k;
    case CopyShape::k64x128b01: return r / 32 * 64 + 32 * k + r % 32;
    case CopyShape::k32x128b: return r + 32 * k;
  }
  return r;
}

void ForEachCopyChunk(const TensorCopy& copy, const TensorDescriptor& from,
                      const std::function<void(uint32_t offset)>& f) {
  for (uint32_t r = 0; r < copy.rows(); ++r)
    for (uint32_t c = 0; c < copy.columns() / 4; ++c) f(from.Address(from.KMajor(r, c)));
}

bool RunCopy(const TensorCopy& copy, TensorAddress to, const TensorDescriptor& from,
             const TensorPart& part, std::string* error) {
  for (uint32_t r = 0; r < copy.rows(); ++r)
    for (uint32_t c = 0; c < copy.columns() / 4; ++c) {
      const uint32_t at = from.Address(from.KMajor(r, c));
      if (at + 16 > part.shared_bytes) {
        *error = fmt::format(
            "the descriptor (start {}, leading offset {}, stride offset {}, "
            "swizzle {}) reaches byte {} of {} bytes of shared memory",
            from.start, from.lbo, from.sbo, from.mode, at + 15, part.shared_bytes);
        return false;
      }
      uint32_t words[4];
      std::memcpy(words, part.shared + at, 16);
      for (uint32_t k = 0; k < copy.copies(); ++k)
        for (uint32_t j = 0; j < 4; ++j)
          part.tensor->Column(to.column + c * 4 + j)[copy.Lane(r, k)] = words[j];
    }
  for (uint32_t c = 0; c < copy.columns(); ++c)
    part.tensor->SetWritten(to.column + c, 0, kTensorLanes);
  return true;
}

void RunShift(TensorAddress at, TensorMemory* memory) {
  for (uint32_t c = 0; c < 8; ++c) {
    uint32_t* lanes = memory->Column(at.column + c) + at.lane;
    std::memmove(lanes + 1, lanes, 31 * sizeof(uint32_t));
  }
}

}  // namespace tilec::runtime::emulator
