// Types of IR values: tiles (rank 0 is a scalar), tensors in global memory, and at the warp level
// tiles with a register layout, shared-memory buffers, mbarriers and counters.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "support/ids.h"

namespace tilec::ir {

enum class DType : uint8_t {
#define DTYPE(Name, spelling, bits, cls, acc) k##Name,
#include "ir/dtypes.def"
#undef DTYPE
};

enum class DTypeClass : uint8_t { kBoolean, kSigned, kUnsigned, kFloat };

struct DTypeInfo {
  DType dtype;
  const char* spelling;
  int bits;
  DTypeClass cls;
  DType accumulator;
};
const DTypeInfo& Info(DType d);
std::optional<DType> DTypeFromSpelling(std::string_view spelling);
inline const char* Spelling(DType d) { return Info(d).spelling; }
inline int ByteSize(DType d) { return Info(d).bits / 8; }
inline bool IsFloat(DType d) { return Info(d).cls == DTypeClass::kFloat; }
inline bool IsInteger(DType d) {
  return Info(d).cls == DTypeClass::kSigned || Info(d).cls == DTypeClass::kUnsigned;
}
// The types of scales of scaled products.
inline bool IsScale(DType d) { return d == DType::kUE8M0 || d == DType::kUE4M3; }
inline bool IsSigned(DType d) { return Info(d).cls == DTypeClass::kSigned; }

// Where tile values live in shared memory: a 2-D buffer of `rows` x `cols` elements (a tile of
// other rank is viewed as [product of leading dims, last dim]) stored as panels of `panel_cols`
// columns, each panel `rows` rows of panel_cols·size bytes, panels one after another. Within the
// buffer the byte address is
//   (c / panel_cols)·rows·panel_cols·size + r·panel_cols·size + (c % panel_cols)·size
// and then the *absolute* shared address is XORed by the swizzle: for swizzle_bytes = 128, 64, 32
//   a ^= ((a >> 7) & (swizzle_bytes/16 − 1)) << 4          (hopper.md §4.1; 0: no XOR).
// With a swizzle, panel_cols·size == swizzle_bytes, rows is a multiple of 8, and the buffer starts
// at a multiple of 1024. This is what TMA writes for a box of {panel_cols, rows} and what the
// descriptors of products read.
struct SmemLayout {
  int64_t rows = 0;
  int64_t cols = 0;  // a multiple of panel_cols
  int64_t panel_cols = 0;
  int swizzle_bytes = 0;  // 0, 32, 64, 128
  bool operator==(const SmemLayout&) const = default;
};
int64_t SmemBytes(const SmemLayout& layout, DType dtype);
// Byte offset of element (r, c) from the (1024-aligned) buffer start, swizzle applied.
int64_t SmemOffset(const SmemLayout& layout, DType dtype, int64_t r, int64_t c);

struct LayoutTag;
using LayoutId = Id<LayoutTag>;

enum class TypeKind : uint8_t {
  kTile,     // registers; rank 0 is a scalar. `layout` is set at the warp level if rank > 0
  kTensor,   // global memory; shape holds −1 per dim (extents are launch expressions)
  kSmem,     // warp level: shared-memory buffer of `shape` elements laid out by `smem`,
             // `depth` copies one after another
  kMbar,     // warp level: `depth` mbarriers
  kCounter,  // warp level: a role-local mutable i32
};

struct Type {
  TypeKind kind = TypeKind::kTile;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  LayoutId layout;    // kTile at the warp level
  SmemLayout smem;    // kSmem
  int64_t depth = 1;  // kSmem, kMbar

  static Type Scalar(DType d) { return {TypeKind::kTile, d, {}, {}, {}, 1}; }
  static Type Tile(DType d, std::vector<int64_t> shape, LayoutId layout = {}) {
    return {TypeKind::kTile, d, std::move(shape), layout, {}, 1};
  }
  static Type Tensor(DType d, int64_t rank) {
    return {TypeKind::kTensor, d, std::vector<int64_t>(static_cast<size_t>(rank), -1), {}, {}, 1};
  }
  static Type Smem(DType d, std::vector<int64_t> shape, SmemLayout s, int64_t depth = 1) {
    return {TypeKind::kSmem, d, std::move(shape), {}, s, depth};
  }
  static Type Mbar(int64_t depth = 1) { return {TypeKind::kMbar, DType::kU64, {}, {}, {}, depth}; }
  static Type Counter() { return {TypeKind::kCounter, DType::kI32, {}, {}, {}, 1}; }

  bool is_tile() const { return kind == TypeKind::kTile; }
  bool is_scalar() const { return kind == TypeKind::kTile && shape.empty(); }
  bool is_tensor() const { return kind == TypeKind::kTensor; }
  int64_t rank() const { return static_cast<int64_t>(shape.size()); }
  int64_t elements() const {
    int64_t n = 1;
    for (int64_t d : shape) n *= d;
    return n;
  }
  bool operator==(const Type&) const = default;
};

// "f32[128, 64]", "i64", "tensor<bf16, 2>", "f32[128, 64]#2",
// "smem<bf16[128, 64], rows=128, cols=64, panel=64, swizzle=128, depth=1>", "mbar<1>", "counter".
std::string ToText(const Type& type);

}  // namespace tilec::ir
