// Scales of products by the unit mma.sync. An instruction reads them from a register of each
// operand, which holds four scales of a row (or a column) along K: its byte-id says with which it
// begins, its thread-id which threads of a quad have the rows of the block (ir::ScalesAtOnce says
// how they are laid out).
//
// Source: PTX ISA, "Block Scaling for mma.sync": table 36, kinds and their scales.
//
// SPDX-License-Identifier: Apache-2.0
#include "backend/emit_mma_scaled.h"

#include <fmt/format.h>

#include "backend/emitter.h"
#include "backend/product_types.h"

namespace tilec::backend {

using ir::DType;

namespace {
constexpr int64_t kScalesOfWord = 4;  // a byte each
constexpr int64_t kStepBytes = 32;    // of K, of an instruction

// How an instruction is called whose factors have a scale for so many of K.
struct ScaledKind {
  bool pairs;
  int64_t block;
  const char* kind;
  const char* shape;
};
constexpr ScaledKind kKinds[] = {{false, 32, "mxf8f6f4", "m16n8k32"},
                                 {true, 32, "mxf4", "m16n8k64"},
                                 {true, 16, "mxf4nvf4", "m16n8k64"}};
}  // namespace

std::optional<ScaledProduct> ScaledProduct::Of(DType a, DType b, DType scale, int64_t block) {
  const auto type = [](DType d) { return d == DType::kE2M1X2 ? "e2m1" : ProductType(d); };
  const bool pairs = b == DType::kE2M1X2;
  for (const ScaledKind& row : kKinds) {
    if (row.pairs != pairs || row.block != block || (a == DType::kE2M1X2) != pairs) continue;
    ScaledProduct out;
    out.of_byte_ = pairs ? 2 : 1;
    out.each_ = kStepBytes * out.of_byte_ / block;
    out.block_ = block;
    out.with_ = {
        {"shape", row.shape}, {"kind", row.kind}, {"v", std::to_string(out.each_)},
        {"at", type(a)},      {"bt", type(b)},    {"st", std::string(ir::Spelling(scale))}};
    return out;
  }
  return {};
}

ScaledProduct::Place ScaledProduct::At(bool left, int64_t block, int64_t blocks, int64_t k) const {
  const int64_t quad = ir::BlocksOfQuad(left, blocks), scale = k * of_byte_ / block_;
  return {static_cast<size_t>(block / quad),
          static_cast<size_t>(scale / kScalesOfWord),
          {std::to_string(scale % kScalesOfWord), std::to_string(block % quad)}};
}

// Words of a warp's blocks; what lies behind the scales counts as the least one, for it may be NaN,
// and meets zeros.
std::vector<Regs> Emitter::ScaleWords(const ir::Op& op, size_t operand, int dim) {
  const ir::Type& tile = fn_.type(op.operands[operand]);
  const int64_t scales = tile.shape[static_cast<size_t>(1 - dim)];
  const auto words = static_cast<size_t>(CeilDiv(scales, kScalesOfWord));
  const Regs all = Pack(Get(op.operands[operand]), tile.dtype);
  std::vector<Regs> out;
  for (size_t i = 0; i < all.size(); i += words) {
    Regs of_block(all.begin() + static_cast<std::ptrdiff_t>(i),
                  all.begin() + static_cast<std::ptrdiff_t>(i + words));
    if (const int64_t rest = scales % kScalesOfWord; rest != 0)
      of_block.back() = b_.CreateAnd(of_block.back(), I32((int64_t{1} << 8 * rest) - 1));
    out.push_back(std::move(of_block));
  }
  return out;
}

}  // namespace tilec::backend
