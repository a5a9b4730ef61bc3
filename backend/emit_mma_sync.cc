// Products of the unit mma.sync (ir/matrix_units.def): each warp brings 16 rows of A and the
// columns of B into its registers by ldmatrix, and multiplies.
//
// One picture serves types of 8, 16 and 32 bits: of an instruction's 32 bytes of K, lane l = 4g + t
// holds of A in word q the 4 bytes at row g + 8·(q mod 2), byte 4t + 16·⌊q/2⌋; of B in word q those
// at column g, byte 4t + 16q; of the sum element i at row g + 8·⌊i/2⌋, column 2t + i mod 2 (PTX
// ISA, "Matrix Fragments for mma.m16n8k16" and its neighbours). So a word of all lanes is what
// ldmatrix loads from eight rows of 16 bytes, whose addresses eight lanes give. Panels with TMA's
// swizzle spread these rows over all banks.
//
// An address is a part that lanes and the K step within a panel's row decide, and a constant: the
// swizzle mixes in the row modulo 8, which is the lane's alone, since everything else counts rows
// in eights.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <llvm/IR/Intrinsics.h>

#include <algorithm>
#include <map>

#include "backend/diagnostics.h"
#include "backend/emit_mma_scaled.h"
#include "backend/emitter.h"
#include "backend/product_types.h"
#include "support/check.h"

namespace tilec::backend {

using ir::DType;

namespace {

constexpr int64_t kRows = 16;    // of an instruction
constexpr int64_t kColumns = 8;  // of an instruction
constexpr int64_t kDepth = 32;   // bytes of K of an instruction

std::string RegisterList(size_t first, size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i) out += fmt::format("{}${}", i ? "," : "", first + i);
  return out;
}

}  // namespace

// An operand in shared memory. Along K lie `k` columns of the buffer, or rows where it is MN-major.
struct Emitter::Fragments {
  PanelView view;
  bool mn_major = false;
  llvm::Value* lane_row = nullptr;    // of the buffer, 0 … 15; the rest counts in eights
  llvm::Value* lane_bytes = nullptr;  // along a row: 0 or 16
  llvm::Value* outer = nullptr;       // first of this warp's of M or N
  int64_t limit =
      0;  // not 0: instructions reach beyond so many of M or N, which are the last filled
  std::map<std::pair<int64_t, int64_t>, llvm::Value*> places;  // addresses without constants
};

// The lane's place among the four matrices of a load: [low, high] of K first for B, of rows for A.
Emitter::Fragments Emitter::FragmentsOf(const ir::Op& op, size_t operand, size_t slot,
                                        bool mn_major, llvm::Value* outer, int64_t reach) {
  Fragments f;
  f.view = View(op.operands[operand], SlotAddress(op, operand, slot));
  f.mn_major = mn_major;
  f.outer = outer;
  const bool left = operand == 1;
  const int64_t filled = fn_.type(op.operands[0]).shape[left ? 0 : 1];
  if (reach > filled) f.limit = mn_major ? RoundUp(filled, kColumns) : filled;
  llvm::Value* lane = b_.CreateAnd(role_.thread, I32(31));
  llvm::Value* in_matrix = b_.CreateAnd(lane, I32(7));
  llvm::Value* low = b_.CreateAnd(b_.CreateLShr(lane, 3), I32(1));
  llvm::Value* high = b_.CreateLShr(lane, 4);
  // Which of the two halves lies along the buffer's rows: of A's matrices the low bit is the row
  // half and the high bit the K half, of B's the other way round.
  const bool low_is_row = left != mn_major;
  f.lane_row = b_.CreateAdd(in_matrix, b_.CreateShl(low_is_row ? low : high, 3));
  f.lane_bytes = b_.CreateShl(low_is_row ? high : low, 4);
  return f;
}

// Where the matrices at `mn` of M or N beyond `outer` and `k` of K begin, but for a constant. What
// is not filled is not read: lanes beyond the limit read the last that is, for sums nobody uses.
llvm::Value* Emitter::FragmentPlace(const Fragments& f, int64_t mn, int64_t k) {
  const PanelView& v = f.view;
  llvm::Value *row = f.lane_row, *outer = f.outer, *bytes = f.lane_bytes;
  if (f.mn_major) {
    if (f.limit != 0) {
      outer = b_.CreateAdd(outer, I32(mn));
      outer = b_.CreateAdd(outer, b_.CreateUDiv(bytes, I32(v.element_bytes)));
      outer = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, outer, I32(f.limit - kColumns));
      bytes = I32(0);
    }
    bytes = b_.CreateAdd(
        bytes, b_.CreateMul(b_.CreateURem(outer, I32(v.panel_cols)), I32(v.element_bytes)));
    if (f.limit == 0) bytes = b_.CreateAdd(bytes, I32(mn % v.panel_cols * v.element_bytes));
  } else {
    row = b_.CreateAdd(row, outer);
    if (f.limit != 0) {
      row = b_.CreateAdd(row, I32(mn));
      row = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, row, I32(f.limit - 1));
    }
    bytes = b_.CreateAdd(bytes, I32(k % v.panel_cols * v.element_bytes));
  }
  llvm::Value* at = b_.CreateAdd(v.base, b_.CreateMul(row, I32(v.pitch)));
  if (f.mn_major)
    at =
        b_.CreateAdd(at, b_.CreateMul(b_.CreateUDiv(outer, I32(v.panel_cols)), I32(v.panel_bytes)));
  return b_.CreateAdd(at, b_.CreateXor(bytes, SwizzleBits(v, row)));
}

// Words of the matrices at `mn` (a multiple of 8) of M or N beyond `outer`, element `k` of K.
Regs Emitter::LoadFragments(Fragments& f, int64_t mn, int64_t k, int count) {
  const PanelView& v = f.view;
  const bool open = f.limit == 0;  // constants carry M and N
  const int64_t along_row = f.mn_major ? (open ? mn : 0) : k;
  llvm::Value*& place = f.places[{along_row % v.panel_cols, open ? 0 : mn}];
  if (!place) place = FragmentPlace(f, mn, k);
  const int64_t constant = (f.mn_major ? k
                            : open     ? mn
                                       : 0) *
                               v.pitch +
                           along_row / v.panel_cols * v.panel_bytes;
  const auto words = static_cast<size_t>(count);
  std::string outputs;
  for (size_t i = 0; i < words; ++i) outputs += "=r,";
  return CallPtx(b_, PtxInst::kLdmatrix,
                 {{"n", std::to_string(count)},
                  {"trans", f.mn_major ? ".trans" : ""},
                  {"d", RegisterList(0, words)},
                  {"a", fmt::format("${}+{}", words, constant)}},
                 outputs + "r", {place});
}

// How many warps of a warpgroup stand side by side: where the second one's rows begin says it.
int64_t Emitter::WarpsSideBySide(const ir::Op& op) {
  const int64_t row = fn_.layout(op.operands[0]).ThreadCoord(32)[0];
  return row == 0 ? 4 : row / kRows;
}

Result<void> Emitter::EmitMmaSync(const ir::Op& op) {
  const ir::Type& acc_type = fn_.type(op.operands[0]);
  const ir::Type& a_type = fn_.type(op.operands[1]);
  const ir::Type& b_type = fn_.type(op.operands[2]);
  const int64_t k = op.i("k"), k_begin = op.i("k_begin"), m = acc_type.shape[0];
  const std::string& split = op.s("split");
  const bool a_in_registers = a_type.is_tile();
  const int64_t warpgroups = role_.warps / 4;
  const int64_t across = WarpsSideBySide(op), down = 4 / across;
  const int64_t groups = CeilDiv(CeilDiv(m, 64), split == "m" ? warpgroups : 1);  // of 64 rows
  const int64_t blocks = groups * across;                                         // of 16 rows
  Regs acc = Get(op.operands[0]);
  const int64_t cols = 2 * static_cast<int64_t>(acc.size()) / blocks;
  const auto row_of = [&](int64_t block) {
    return 64 * (block / across) + kRows * (block % across);
  };
  const int64_t step = kDepth / ir::ByteSize(b_type.dtype);
  const size_t plain = ir::PlainOperands(op);
  const bool scaled = plain < op.operands.size();
  std::optional<ScaledProduct> product;
  if (scaled)
    product = ScaledProduct::Of(a_type.dtype, b_type.dtype, fn_.type(op.operands[plain]).dtype,
                                op.i("block"));
  if (scaled ? !product : !ProductType(a_type.dtype) || !ProductType(b_type.dtype))
    return diags_.Report(
        kMmaOperand, op.at,
        fmt::format("{} times {}", ir::Spelling(a_type.dtype), ir::Spelling(b_type.dtype)));
  CHECK(cols % kColumns == 0 && blocks * cols == 2 * static_cast<int64_t>(acc.size()),
        "accumulator " + ir::ToText(fn_.layout(op.operands[0])));

  llvm::Value* group = b_.CreateLShr(Warp(), 2);
  llvm::Value* of_four = b_.CreateAnd(Warp(), I32(3));
  llvm::Value* first_row = b_.CreateMul(b_.CreateAnd(of_four, I32(down - 1)), I32(kRows * across));
  if (split == "m") first_row = b_.CreateAdd(first_row, b_.CreateMul(group, I32(64 * groups)));
  llvm::Value* first_col = b_.CreateMul(b_.CreateUDiv(of_four, I32(down)), I32(cols));
  if (split == "n") first_col = b_.CreateAdd(first_col, b_.CreateMul(group, I32(cols * across)));
  size_t slot_a = 3, slot_b = 4;
  if (plain == 4) {
    const bool for_a = !a_in_registers && a_type.depth > 1 && b_type.depth <= 1;
    slot_a = for_a ? 3 : op.operands.size();
    slot_b = for_a ? op.operands.size() : 3;
  }
  Fragments a;
  Fragments b = FragmentsOf(op, 2, slot_b, op.i("trans_b") != 0, first_col,
                            cols * across * (split == "n" ? warpgroups : 1));
  Regs held;
  if (a_in_registers)
    held = Pack(Get(op.operands[1]), a_type.dtype);
  else
    a = FragmentsOf(op, 1, slot_a, op.i("trans_a") != 0, first_row,
                    64 * groups * (split == "m" ? warpgroups : 1));

  std::vector<Regs> scales_a, scales_b;
  if (scaled) scales_a = ScaleWords(op, plain, 0), scales_b = ScaleWords(op, plain + 1, 1);

  llvm::Value* adds = plain == 6 ? Scalar(op.operands[5]) : nullptr;
  for (llvm::Value*& v : acc) {
    llvm::Value* nothing = llvm::Constant::getNullValue(v->getType());
    if (op.i("zero")) v = nothing;
    if (adds) v = b_.CreateSelect(adds, v, nothing);
  }
  Substitutions with = {
      {"d", RegisterList(0, 4)}, {"a", RegisterList(8, 4)}, {"b", RegisterList(12, 2)}};
  if (scaled) {
    with.insert(with.end(), product->with().begin(), product->with().end());
    with.insert(with.end(), {{"sa", RegisterList(14, 1)}, {"sb", RegisterList(15, 1)}});
  } else {
    with.insert(
        with.end(),
        {{"k", std::to_string(step)},
         {"types", fmt::format("{0}.{1}.{2}.{0}", acc_type.dtype == DType::kI32 ? "s32" : "f32",
                               ProductType(a_type.dtype), ProductType(b_type.dtype))}});
  }
  // One instruction, of blocks `block` of 16 rows and `col` / 8 of columns.
  const auto multiply = [&](int64_t block, int64_t col, int64_t kk, const Regs& d, Regs extra) {
    if (!scaled) return CallTied(b_, PtxInst::kMmaSync, with, d, "r,r,r,r,r,r", extra);
    const ScaledProduct::Place at_a = product->At(true, block, blocks, kk),
                               at_b = product->At(false, col / kColumns, cols / kColumns, kk);
    Substitutions by = with;
    by.insert(by.end(), {{"ia", at_a.ids.first},
                         {"ta", at_a.ids.second},
                         {"ib", at_b.ids.first},
                         {"tb", at_b.ids.second}});
    extra.push_back(scales_a[at_a.block][at_a.word]);
    extra.push_back(scales_b[at_b.block][at_b.word]);
    return CallTied(b_, PtxInst::kMmaScaled, by, d, "r,r,r,r,r,r,r,r", extra);
  };
  for (int64_t kk = k_begin; kk < k_begin + k; kk += step) {
    std::vector<Regs> left;
    for (int64_t block = 0; block < blocks; ++block) {
      if (!a_in_registers) {
        left.push_back(LoadFragments(a, row_of(block), kk, 4));
        continue;
      }
      const auto at =
          held.begin() + static_cast<std::ptrdiff_t>(
                             block * static_cast<int64_t>(held.size()) / blocks + kk / step * 4);
      left.emplace_back(at, at + 4);
    }
    for (int64_t col = 0; col < cols; col += 2 * kColumns) {
      const int matrices = col + kColumns < cols ? 4 : 2;
      const Regs right = LoadFragments(b, col, kk, matrices);
      for (int64_t half = 0; half < matrices / 2; ++half)
        for (int64_t block = 0; block < blocks; ++block) {
          const auto d =
              acc.begin() + static_cast<std::ptrdiff_t>((block * cols + col + half * kColumns) / 2);
          Regs extra = left[static_cast<size_t>(block)];
          extra.push_back(right[static_cast<size_t>(2 * half)]);
          extra.push_back(right[static_cast<size_t>(2 * half + 1)]);
          const Regs sum =
              multiply(block, col + half * kColumns, kk, Regs(d, d + 4), std::move(extra));
          std::copy(sum.begin(), sum.end(), d);
        }
    }
  }
  Set(op.results[0], std::move(acc));
  return Done();
}

}  // namespace tilec::backend
