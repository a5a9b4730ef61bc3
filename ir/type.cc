// SPDX-License-Identifier: Apache-2.0
#include "ir/type.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tilec::ir {
namespace {
constexpr DTypeInfo kDTypes[] = {
#define DTYPE(Name, spelling, bits, cls, acc) \
  {DType::k##Name, spelling, bits, DTypeClass::cls, DType::acc},
#include "ir/dtypes.def"
#undef DTYPE
};
}  // namespace

const DTypeInfo& Info(DType d) { return kDTypes[static_cast<size_t>(d)]; }
std::optional<DType> DTypeFromSpelling(std::string_view spelling) {
  for (const DTypeInfo& d : kDTypes)
    if (spelling == d.spelling) return d.dtype;
  return std::nullopt;
}

int64_t SmemBytes(const SmemLayout& layout, DType dtype) {
  return layout.rows * layout.cols * ByteSize(dtype);
}
int64_t SmemOffset(const SmemLayout& layout, DType dtype, int64_t r, int64_t c) {
  const int64_t size = ByteSize(dtype);
  const int64_t pitch = layout.panel_cols * size;
  int64_t a =
      (c / layout.panel_cols) * layout.rows * pitch + r * pitch + (c % layout.panel_cols) * size;
  if (layout.swizzle_bytes) a ^= ((a >> 7) & (layout.swizzle_bytes / 16 - 1)) << 4;
  return a;
}

std::string ToText(const Type& t) {
  auto dims = [&] { return fmt::format("[{}]", fmt::join(t.shape, ", ")); };
  switch (t.kind) {
    case TypeKind::kTile: {
      std::string out = Spelling(t.dtype);
      if (!t.shape.empty()) out += dims();
      if (t.layout.valid()) out += fmt::format("#{}", t.layout.index);
      return out;
    }
    case TypeKind::kTensor: return fmt::format("tensor<{}, {}>", Spelling(t.dtype), t.rank());
    case TypeKind::kSmem:
      return fmt::format("smem<{}{}, rows={}, cols={}, panel={}, swizzle={}, depth={}>",
                         Spelling(t.dtype), dims(), t.smem.rows, t.smem.cols, t.smem.panel_cols,
                         t.smem.swizzle_bytes, t.depth);
    case TypeKind::kMbar: return fmt::format("mbar<{}>", t.depth);
    case TypeKind::kCounter: return "counter";
  }
  return "?";
}

}  // namespace tilec::ir
