// Moving boxes. A box is walked row by row (a row is the innermost dimension); each row is clipped
// against the tensor once, then moves as runs of bytes: whole when there is no swizzle, in 16-byte
// chunks when there is one.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "runtime/emulator/floats.h"
#include "runtime/emulator/tensor_map.h"

namespace tilec::runtime::emulator {
namespace {

constexpr uint32_t kChunk = 16;
constexpr uint32_t kMaxRowBytes = 256 * 8;
constexpr uint32_t kSharedAlign = 128;

TmaResult Failed(TmaError error, uint64_t bytes) {
  TmaResult r;
  r.error = error;
  r.bytes = bytes;
  return r;
}

// What can be refused before anything moves.
TmaResult Check(const TensorMapInfo& map, const int32_t* coords, bool store, uint32_t smem_size,
                uint32_t smem_offset) {
  const uint64_t bytes = map.box_bytes();
  if (smem_offset % kSharedAlign != 0) return Failed(TmaError::kSmemAlign, bytes);
  // The permutation keeps a chunk inside its 128-byte line.
  uint64_t reach = map.smem_bytes();
  if (map.swizzle_bytes != 0) reach = (reach + kSharedAlign - 1) / kSharedAlign * kSharedAlign;
  if (smem_offset + reach > smem_size) return Failed(TmaError::kSmemRange, bytes);
  if (int64_t{coords[0]} * ElementBytes(map.element) % (kChunk * map.packed) != 0) {
    return Failed(TmaError::kCoordinateAlign, bytes);
  }
  TmaResult r;
  r.bytes = bytes;
  for (uint32_t i = 0; store && i < map.rank; i++) {
    bool negative = coords[i] < 0;
    if (map.four_rows && i == 1)
      negative = std::any_of(map.rows, map.rows + 4, [](int32_t row) { return row < 0; });
    if (!negative) continue;
    r.error = TmaError::kNegativeStore;
    r.dimension = static_cast<int>(i);
    break;
  }
  return r;
}

// One row of a box.
struct Row {
  uint32_t smem;     // linear offset of its first byte
  uint64_t address;  // of the first byte inside the tensor
  uint32_t begin;    // bytes of the row before the tensor begins …
  uint32_t end;      // … and up to where it ends; begin == end: nothing inside
};

// Calls f(row) for all rows in the order of shared memory; stops when f returns false.
template <typename F>
bool ForEachRow(const TensorMapInfo& map, const int32_t* coords, uint32_t smem_offset, F f) {
  const uint32_t size = ElementBytes(map.element);
  const uint32_t pitch = map.row_pitch();
  int64_t c[5] = {};
  for (uint32_t i = 0; i < map.rank; i++) c[i] = coords[i];
  c[0] /= map.packed;
  const int64_t lo = std::clamp<int64_t>(-c[0], 0, map.box[0]);
  const int64_t hi = std::clamp<int64_t>(static_cast<int64_t>(map.dims[0]) - c[0], lo, map.box[0]);
  uint32_t extent[5];
  for (int i = 0; i < 5; i++) extent[i] = map.extent(i);
  uint32_t smem = smem_offset;
  uint32_t at[5] = {};
  while (true) {
    bool inside = hi > lo;
    uint64_t address = map.base + static_cast<uint64_t>(c[0] + lo) * size;
    for (int i = 1; i < 5; i++) {
      const int64_t x = map.four_rows && i == 1 ? map.rows[at[1]]
                                                : c[i] + int64_t{at[i]} * map.element_strides[i];
      inside = inside && x >= 0 && x < static_cast<int64_t>(map.dims[i]);
      address += static_cast<uint64_t>(x) * map.strides[i];
    }
    Row row = {smem, address, static_cast<uint32_t>(lo) * size, static_cast<uint32_t>(hi) * size};
    if (!inside) row.begin = row.end = 0;
    if (!f(row)) return false;
    smem += pitch;
    int d = 1;
    while (d < 5 && ++at[d] == extent[d]) at[d++] = 0;
    if (d == 5) return true;
  }
}

void FillRow(const TensorMapInfo& map, uint8_t* row, uint32_t bytes) {
  constexpr uint16_t kFillNan = 0x7ff7;
  if (!map.fill_nan) {
    std::memset(row, 0, bytes);
    return;
  }
  for (uint32_t i = 0; i < bytes; i += 2) std::memcpy(row + i, &kFillNan, 2);
}

// Loads of tf32 tensors round to nearest even.
void RoundTf32(uint8_t* row, uint32_t bytes) {
  for (uint32_t i = 0; i < bytes; i += 4) {
    float v;
    std::memcpy(&v, row + i, 4);
    const uint32_t rounded = F32ToTf32(v, {.round = Round::kNearestEven});
    std::memcpy(row + i, &rounded, 4);
  }
}

void PutRow(const TensorMapInfo& map, uint8_t* smem, uint32_t offset, const uint8_t* from,
            uint32_t bytes) {
  if (map.swizzle_bytes == 0) {
    std::memcpy(smem + offset, from, bytes);
    return;
  }
  for (uint32_t i = 0; i < bytes; i += kChunk) {
    std::memcpy(smem + SwizzleAddress(offset + i, map.swizzle_bytes, map.swizzle_atom), from + i,
                kChunk);
  }
}

// The row's bytes in order: in place without swizzle, else gathered into `buffer`.
const uint8_t* GetRow(const TensorMapInfo& map, const uint8_t* smem, uint32_t offset,
                      uint32_t bytes, uint8_t* buffer) {
  if (map.swizzle_bytes == 0) return smem + offset;
  for (uint32_t i = 0; i < bytes; i += kChunk) {
    std::memcpy(buffer + i, smem + SwizzleAddress(offset + i, map.swizzle_bytes, map.swizzle_atom),
                kChunk);
  }
  return buffer;
}

TmaResult Refused(TmaResult r, const Row& row) {
  r.error = TmaError::kGlobal;
  r.address = row.address;
  r.row_bytes = row.end - row.begin;
  return r;
}

// Rows of a store or reduction: f(global bytes, shared bytes, how many). A clipped row goes on to
// the end of its last 16-byte chunk.
template <typename F>
TmaResult WriteRows(const TensorMapInfo& map, const int32_t* coords, const BoxSource& from,
                    const GlobalCheck& check, F f) {
  TmaResult result = Check(map, coords, true, from.smem_size, from.smem_offset);
  if (!result.ok()) return result;
  alignas(16) uint8_t buffer[kMaxRowBytes];
  ForEachRow(map, coords, from.smem_offset, [&](const Row& row) {
    if (row.begin == row.end) return true;
    uint32_t count = row.end - row.begin;
    if (!check(row.address, count, true)) {
      result = Refused(result, row);
      return false;
    }
    const uint32_t tail = (kChunk - count % kChunk) % kChunk;
    if (tail != 0 && check(row.address + count, tail, true)) count += tail;
    const uint8_t* bytes = GetRow(map, from.smem, row.smem, map.row_bytes(), buffer);
    f(reinterpret_cast<uint8_t*>(row.address), bytes + row.begin, count);
    return true;
  });
  return result;
}

}  // namespace

TmaResult TmaLoad(const TensorMapInfo& map, const int32_t* coords, uint8_t* smem,
                  uint32_t smem_size, uint32_t smem_offset, const GlobalCheck& check) {
  TmaResult result = Check(map, coords, false, smem_size, smem_offset);
  if (!result.ok()) return result;
  const uint32_t row_bytes = map.row_bytes();
  const bool convert = map.element == Element::kTf32;
  alignas(16) uint8_t buffer[kMaxRowBytes];
  ForEachRow(map, coords, smem_offset, [&](const Row& row) {
    const uint32_t inside = row.end - row.begin;
    if (inside != 0 && !check(row.address, inside, false)) {
      result = Refused(result, row);
      return false;
    }
    const auto* global = reinterpret_cast<const uint8_t*>(row.address);
    if (inside == row_bytes && !convert) {
      PutRow(map, smem, row.smem, global, row_bytes);
      return true;
    }
    if (inside != row_bytes) FillRow(map, buffer, row_bytes);
    if (inside != 0) std::memcpy(buffer + row.begin, global, inside);
    if (convert) RoundTf32(buffer + row.begin, inside);
    PutRow(map, smem, row.smem, buffer, row_bytes);
    return true;
  });
  return result;
}

TmaResult TmaStore(const TensorMapInfo& map, const int32_t* coords, const BoxSource& from,
                   const GlobalCheck& check) {
  return WriteRows(map, coords, from, check,
                   [](uint8_t* global, const uint8_t* bytes, uint32_t count) {
                     std::memcpy(global, bytes, count);
                   });
}

TmaResult TmaReduce(const TensorMapInfo& map, const int32_t* coords, TmaReduceOp op,
                    const BoxSource& from, const GlobalCheck& check) {
  // The 1-D form can add f64, the tensor form cannot.
  if (!ReduceDefined(op, map.element) || map.element == Element::kF64) {
    return Failed(TmaError::kReduceType, map.box_bytes());
  }
  const uint32_t size = ElementBytes(map.element);
  return WriteRows(map, coords, from, check,
                   [&](uint8_t* global, const uint8_t* bytes, uint32_t count) {
                     ReduceRow(op, map.element, global, bytes, count / size);
                   });
}

TmaResult TmaCheck(const TensorMapInfo& map, const int32_t* coords, const BoxMove& move,
                   uint32_t smem_size, uint32_t smem_offset, const GlobalCheck& check) {
  if (move.reduces && (!ReduceDefined(*move.reduces, map.element) || map.element == Element::kF64))
    return Failed(TmaError::kReduceType, map.box_bytes());
  TmaResult result = Check(map, coords, move.store, smem_size, smem_offset);
  if (!result.ok()) return result;
  ForEachRow(map, coords, smem_offset, [&](const Row& row) {
    if (row.begin == row.end || check(row.address, row.end - row.begin, move.store)) return true;
    result = Refused(result, row);
    return false;
  });
  return result;
}

bool ReduceDefined(TmaReduceOp op, Element e) {
  const bool half = e == Element::kF16 || e == Element::kBf16;
  const bool word = e == Element::kU32 || e == Element::kS32;
  const bool wide = e == Element::kU64 || e == Element::kS64;
  switch (op) {
    case TmaReduceOp::kAdd:
      return half || word || e == Element::kU64 || e == Element::kF32 || e == Element::kF64;
    case TmaReduceOp::kMin:
    case TmaReduceOp::kMax: return half || word || wide;
    case TmaReduceOp::kInc:
    case TmaReduceOp::kDec: return e == Element::kU32;
    case TmaReduceOp::kAnd:
    case TmaReduceOp::kOr:
    case TmaReduceOp::kXor: return word || wide;
  }
  return false;
}

namespace {

template <typename T>
T ReduceInteger(TmaReduceOp op, T a, T b) {
  using U = std::make_unsigned_t<T>;
  switch (op) {
    case TmaReduceOp::kAdd: return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
    case TmaReduceOp::kMin: return std::min(a, b);
    case TmaReduceOp::kMax: return std::max(a, b);
    case TmaReduceOp::kInc: return a >= b ? 0 : a + 1;
    case TmaReduceOp::kDec: return a == 0 || a > b ? b : a - 1;
    case TmaReduceOp::kAnd: return a & b;
    case TmaReduceOp::kOr: return a | b;
    case TmaReduceOp::kXor: return a ^ b;
  }
  return a;
}

float Combine(TmaReduceOp op, float a, float b) {
  if (op == TmaReduceOp::kAdd) return a + b;
  float r[kLanes] = {a}, other[kLanes] = {b};
  if (op == TmaReduceOp::kMin) {
    MinWarp(r, other, r, false, false);
  } else {
    MaxWarp(r, other, r, false, false);
  }
  return r[0];
}

// Other CTAs may reduce into the same element from another thread.
template <typename T, typename F>
void AtomicRow(uint8_t* global, const uint8_t* source, uint64_t count, F f) {
  for (uint64_t i = 0; i < count; i++) {
    T value;
    std::memcpy(&value, source + i * sizeof(T), sizeof(T));
    std::atomic_ref<T> cell(*reinterpret_cast<T*>(global + i * sizeof(T)));
    T old = cell.load(std::memory_order_relaxed);
    while (!cell.compare_exchange_weak(old, f(old, value), std::memory_order_relaxed)) {
    }
  }
}

template <typename T>
void IntegerRow(TmaReduceOp op, uint8_t* global, const uint8_t* source, uint64_t count) {
  AtomicRow<T>(global, source, count, [op](T a, T b) { return ReduceInteger(op, a, b); });
}

}  // namespace

void ReduceRow(TmaReduceOp op, Element e, uint8_t* global, const uint8_t* source, uint64_t count,
               bool flush) {
  switch (e) {
    case Element::kU32: return IntegerRow<uint32_t>(op, global, source, count);
    case Element::kS32: return IntegerRow<int32_t>(op, global, source, count);
    case Element::kU64: return IntegerRow<uint64_t>(op, global, source, count);
    case Element::kS64: return IntegerRow<int64_t>(op, global, source, count);
    case Element::kF32:
    case Element::kTf32:
      return AtomicRow<uint32_t>(global, source, count, [flush](uint32_t a, uint32_t b) {
        if (!flush) return Bits(AddF32(FloatOf(a), FloatOf(b)));
        return Bits(Flush(AddF32(Flush(FloatOf(a)), Flush(FloatOf(b)))));
      });
    case Element::kF64:
      return AtomicRow<uint64_t>(global, source, count, [](uint64_t a, uint64_t b) {
        const double r = DoubleOf(a) + DoubleOf(b);
        return std::isnan(r) ? kCanonicalNan64 : Bits(r);
      });
    // f32 has more than twice the bits of either: rounding its sum again changes nothing.
    case Element::kF16:
      return AtomicRow<uint16_t>(global, source, count, [op](uint16_t a, uint16_t b) {
        return F32ToF16(Combine(op, F16ToF32(a), F16ToF32(b)));
      });
    case Element::kBf16:
      return AtomicRow<uint16_t>(global, source, count, [op](uint16_t a, uint16_t b) {
        return F32ToBf16(Combine(op, Bf16ToF32(a), Bf16ToF32(b)));
      });
    case Element::kU8:
    case Element::kS8:
    case Element::kU16:
    case Element::kS16:
    case Element::kE4m3:
    case Element::kE5m2: return;
  }
}

void ForEachGlobalRow(const TensorMapInfo& map, const int32_t* coords,
                      const std::function<void(uint64_t address, uint64_t bytes)>& f) {
  ForEachRow(map, coords, 0, [&](const Row& row) {
    if (row.end > row.begin) f(row.address, row.end - row.begin);
    return true;
  });
}

void ForEachBoxRun(const TensorMapInfo& map, uint32_t smem_offset,
                   const std::function<void(uint32_t offset, uint32_t bytes)>& f) {
  const uint32_t row_bytes = map.row_bytes();
  const auto rows = static_cast<uint32_t>(map.box_bytes() / row_bytes);
  // Dense rows fill whole 128-byte lines, which are permuted within themselves; only a last
  // partial line needs chunks.
  uint32_t whole = 0;
  if (map.row_pitch() == row_bytes) {
    whole = rows * row_bytes;
    if (map.swizzle_bytes != 0) whole = whole / kSharedAlign * kSharedAlign;
    if (whole != 0) f(smem_offset, whole);
  }
  for (uint32_t r = whole / row_bytes; r < rows; r++) {
    for (uint32_t i = 0; i < row_bytes; i += kChunk) {
      const uint32_t at = r * map.row_pitch() + i;
      if (at >= whole)
        f(SwizzleAddress(smem_offset + at, map.swizzle_bytes, map.swizzle_atom), kChunk);
    }
  }
}

std::string Describe(const TmaResult& r, const TensorMapInfo& map, uint32_t smem_offset) {
  switch (r.error) {
    case TmaError::kNone: return "no error";
    case TmaError::kSmemRange:
      return fmt::format("the box of {} bytes at shared offset {} leaves shared memory",
                         map.smem_bytes(), smem_offset);
    case TmaError::kSmemAlign:
      return fmt::format("the shared offset {} is not a multiple of 128", smem_offset);
    case TmaError::kGlobal:
      return fmt::format("a row of {} bytes at address {:#x} is outside every allocation",
                         r.row_bytes, r.address);
    case TmaError::kCoordinateAlign:
      return fmt::format("the first coordinate is not a multiple of {} {} elements (16 bytes)",
                         kChunk / std::min(kChunk, ElementBytes(map.element)),
                         ElementName(map.element));
    case TmaError::kNegativeStore:
      return fmt::format("a store starts at a negative coordinate in dimension {}", r.dimension);
    case TmaError::kReduceType:
      return fmt::format("the reduction is not defined for {} elements", ElementName(map.element));
  }
  return "";
}

}  // namespace tilec::runtime::emulator
