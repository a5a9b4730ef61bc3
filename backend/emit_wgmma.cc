// Products of the unit wgmma (ir/matrix_units.def): on shared-memory descriptors, in groups.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/Intrinsics.h>

#include <algorithm>

#include "backend/diagnostics.h"
#include "backend/emitter.h"
#include "backend/product_types.h"
#include "backend/shared_operand.h"
#include "support/check.h"

namespace tilec::backend {

using ir::DType;
using ir::OpKind;

namespace {

// Columns per instruction: the widest legal pieces that make up n.
std::vector<int64_t> Pieces(int64_t n, bool integer) {
  std::vector<int64_t> out;
  while (n > 0) {
    int64_t piece = std::min<int64_t>(n, 256) / 8 * 8;
    if (integer && piece > 32) piece = piece / 16 * 16;
    if (integer && piece == 40) piece = 32;
    out.push_back(piece);
    n -= piece;
  }
  return out;
}

std::string List(size_t first, size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i) out += (i ? ",$" : "$") + std::to_string(first + i);
  return out;
}

// The words of a descriptor beside its address.
uint32_t HighWord(const SharedOperand& o) {
  const uint32_t mode = o.swizzle == 128 ? 1 : o.swizzle == 64 ? 2 : o.swizzle == 32 ? 3 : 0;
  return static_cast<uint32_t>((o.sbo & 0x3ffff) >> 4) | mode << 30;
}
uint32_t LowConstant(const SharedOperand& o) {
  return static_cast<uint32_t>((o.lbo & 0x3ffff) >> 4) << 16;
}

}  // namespace

// A product as instructions of wgmma: the blocks of 64 rows and the pieces of columns of each
// warpgroup, and its operands in shared memory.
struct Emitter::WgmmaPlan {
  bool a_in_registers = false, integer = false;
  int64_t warpgroups = 1, blocks = 1;
  int64_t cols = 0;  // per warpgroup, with whatever padding the accumulator's layout has
  int64_t step = 0;  // of k per instruction
  SharedOperand a, b;
  std::vector<int64_t> pieces;  // of `cols`, per instruction
};

// Emits nothing; says what the unit cannot do.
Result<Emitter::WgmmaPlan> Emitter::PlanWgmma(const ir::Op& op) {
  const ir::Type& acc_type = fn_.type(op.operands[0]);
  const ir::Type& a_type = fn_.type(op.operands[1]);
  const ir::Type& b_type = fn_.type(op.operands[2]);
  const int64_t k = op.i("k"), k_begin = op.i("k_begin");
  const bool trans_a = op.i("trans_a") != 0, trans_b = op.i("trans_b") != 0;
  const std::string& split = op.s("split");
  const bool a_in_registers = a_type.is_tile();
  const bool integer = acc_type.dtype == DType::kI32;
  const int64_t m = acc_type.shape[0], n = acc_type.shape[1];
  const int64_t warpgroups = role_.warps / 4;
  const int64_t blocks = CeilDiv(CeilDiv(m, 64), split == "m" ? warpgroups : 1);
  const int64_t registers = static_cast<int64_t>(Get(op.operands[0]).size());
  const int64_t cols = 2 * registers / blocks;
  const int64_t step = 32 / ir::ByteSize(b_type.dtype);  // of k per instruction

  auto refuse = [&](const std::string& why) { return diags_.Report(kMmaOperand, op.at, why); };
  if (role_.warps % 4 || role_.first_warp % 4) return refuse("it is not run by whole warpgroups");
  if (!ProductType(a_type.dtype) || !ProductType(b_type.dtype) ||
      (a_type.dtype != b_type.dtype &&
       !(ir::IsFloat(a_type.dtype) && ir::ByteSize(a_type.dtype) == 1 &&
         ir::IsFloat(b_type.dtype) && ir::ByteSize(b_type.dtype) == 1)))
    return refuse(
        fmt::format("{} times {}", ir::Spelling(a_type.dtype), ir::Spelling(b_type.dtype)));
  const bool half = ir::ByteSize(b_type.dtype) == 2;
  if ((trans_a || trans_b) && !half)
    return refuse(fmt::format("a {} operand must be contiguous along the contracted dim",
                              ir::Spelling(b_type.dtype)));
  if (k % step || k_begin % step)
    return refuse("the contracted length is not a multiple of 32 bytes");
  CHECK(cols % 8 == 0 && blocks * cols == 2 * registers &&
            cols * (split == "n" ? warpgroups : 1) >= n,
        "accumulator " + ir::ToText(fn_.layout(op.operands[0])));

  std::string why;
  auto describe = [&](const ir::Type& type, bool mn_major, int64_t rows_needed) {
    const SharedOperand o = SharedOperandOf(type, mn_major);
    if (!o.Regular()) why = fmt::format("panels of {} bytes with swizzle {}", o.span, o.swizzle);
    if (type.smem.rows % 8) why = "its rows are not a multiple of 8";
    const int64_t mn = mn_major ? type.smem.cols : type.smem.rows;
    const int64_t kk = mn_major ? type.smem.rows : type.smem.cols;
    if (mn < rows_needed || kk < k_begin + k)
      why = fmt::format("a buffer of {} x {} for {} x {}", mn, kk, rows_needed, k_begin + k);
    return o;
  };
  SharedOperand a, b;
  if (!a_in_registers) a = describe(a_type, trans_a, 64 * blocks * (split == "m" ? warpgroups : 1));
  b = describe(b_type, trans_b, cols * (split == "n" ? warpgroups : 1));
  if (!why.empty()) return refuse(why);
  const std::vector<int64_t> pieces = Pieces(cols, integer);
  if (trans_b) {
    // A panel boundary inside an instruction must fall on one of its own.
    const int64_t panel = b.span / 2;
    if ((split == "n" && cols % panel && panel % cols && warpgroups > 1) ||
        (pieces[0] % panel && pieces.size() > 1))
      return refuse(fmt::format("{} columns per warpgroup in panels of {}", cols, panel));
  }
  return WgmmaPlan{a_in_registers, integer, warpgroups, blocks, cols, step, a, b, pieces};
}

// The low word of an operand's descriptor: its start address, uniform in the warpgroup; of a ring
// it changes from iteration to iteration anyway. `per_warpgroup`: rows or columns from one
// warpgroup's part to the next one's, 0: they share it.
llvm::Value* Emitter::LowWord(const SharedOperand& o, llvm::Value* address, llvm::Value* wg,
                              int64_t per_warpgroup, int64_t depth) {
  if (per_warpgroup) {
    llvm::Value* offset = nullptr;
    if (o.Offset(2 * per_warpgroup, 0) == 2 * o.Offset(per_warpgroup, 0)) {
      offset = b_.CreateMul(wg, I32(o.Offset(per_warpgroup, 0)));
    } else {  // several warpgroups per panel
      llvm::Value* across = b_.CreateMul(wg, I32(per_warpgroup * o.element_bytes));
      offset = b_.CreateAdd(b_.CreateMul(b_.CreateUDiv(across, I32(o.span)), I32(o.panel_bytes)),
                            b_.CreateURem(across, I32(o.span)));
    }
    address = b_.CreateAdd(address, offset);
  }
  llvm::Value* start = b_.CreateLShr(b_.CreateAnd(address, I32(0x3ffff)), 4);
  llvm::Value* low = b_.CreateOr(start, I32(LowConstant(o)));
  return describe_anew_ && depth <= 1 ? CallPtx(b_, PtxInst::kPin32, {low}) : low;
}

Result<void> Emitter::EmitWgmma(const ir::Op& op) {
  TRY(const WgmmaPlan plan, PlanWgmma(op));
  const ir::Type& a_type = fn_.type(op.operands[1]);
  const ir::Type& b_type = fn_.type(op.operands[2]);
  const int64_t k = op.i("k"), k_begin = op.i("k_begin"), blocks = plan.blocks;
  const bool zero = op.i("zero") != 0, half = ir::ByteSize(b_type.dtype) == 2;
  const bool trans_a = op.i("trans_a") != 0, trans_b = op.i("trans_b") != 0;
  const bool apart = plan.warpgroups > 1;
  const std::string& split = op.s("split");
  llvm::Value* wg = b_.CreateLShr(Warp(), 2);
  size_t slot_a = 3, slot_b = 4;
  if (op.operands.size() == 4) {
    const bool for_a = !plan.a_in_registers && a_type.depth > 1 && b_type.depth <= 1;
    slot_a = for_a ? 3 : op.operands.size();
    slot_b = for_a ? op.operands.size() : 3;
  }
  llvm::Value* a_low = nullptr;
  if (!plan.a_in_registers)
    a_low = LowWord(plan.a, SlotAddress(op, 1, slot_a), wg, apart && split == "m" ? 64 * blocks : 0,
                    a_type.depth);
  llvm::Value* b_low = LowWord(plan.b, SlotAddress(op, 2, slot_b), wg,
                               apart && split == "n" ? plan.cols : 0, b_type.depth);
  auto descriptor = [&](llvm::Value* low, const SharedOperand& o, int64_t offset) {
    CHECK(offset % 16 == 0, "descriptor offset");
    llvm::Value* lo = b_.CreateZExt(b_.CreateAdd(low, I32(offset / 16)), b_.getInt64Ty());
    return b_.CreateOr(lo, I64(static_cast<int64_t>(uint64_t{HighWord(o)} << 32)));
  };

  Regs a_words;
  if (plan.a_in_registers) {
    CHECK(ir::ByteSize(a_type.dtype) <= 2, "register operands have 8 or 16 bits");
    a_words = Pack(Get(op.operands[1]), a_type.dtype);
  }
  const size_t a_words_per_block = a_words.size() / static_cast<size_t>(blocks);
  const std::string types = fmt::format("{}.{}.{}", plan.integer ? "s32" : "f32",
                                        ProductType(a_type.dtype), ProductType(b_type.dtype));
  std::string imms = plan.integer ? "" : ", 1, 1";
  if (half && !plan.a_in_registers) imms += trans_a ? ", 1" : ", 0";
  if (half) imms += trans_b ? ", 1" : ", 0";

  llvm::Value* adds = nullptr;  // to what the accumulator holds
  if (op.operands.size() == 6) adds = b_.CreateZExt(Scalar(op.operands[5]), b_.getInt32Ty());
  Regs acc = Get(op.operands[0]);
  if (zero)
    for (llvm::Value*& v : acc) v = llvm::PoisonValue::get(v->getType());
  for (int64_t kk = 0; kk < k; kk += plan.step) {
    for (int64_t block = 0; block < blocks; ++block) {
      int64_t column = 0;
      for (int64_t piece : plan.pieces) {
        const size_t first = static_cast<size_t>(block * plan.cols / 2 + column / 2);
        const size_t count = static_cast<size_t>(piece / 2);
        Regs d(acc.begin() + static_cast<std::ptrdiff_t>(first),
               acc.begin() + static_cast<std::ptrdiff_t>(first + count));
        std::vector<llvm::Value*> extra;
        std::string constraints, a_text;
        const size_t at = 2 * count;
        if (plan.a_in_registers) {
          const size_t w = static_cast<size_t>(block) * a_words_per_block +
                           static_cast<size_t>((k_begin + kk) / plan.step) * 4;
          CHECK(w + 4 <= a_words.size(), "register operand");
          extra.assign(a_words.begin() + static_cast<std::ptrdiff_t>(w),
                       a_words.begin() + static_cast<std::ptrdiff_t>(w + 4));
          constraints = "r,r,r,r,l";
          a_text = "{" + List(at, 4) + "}";
        } else {
          extra.push_back(descriptor(a_low, plan.a, plan.a.Offset(64 * block, k_begin + kk)));
          constraints = "l,l";
          a_text = "$" + std::to_string(at);
        }
        extra.push_back(descriptor(b_low, plan.b, plan.b.Offset(column, k_begin + kk)));
        const std::string b_text = "$" + std::to_string(at + extra.size() - 1);
        std::string scale = zero && kk == 0 ? "0" : "1";
        if (adds && kk == 0) {
          scale = "$" + std::to_string(at + extra.size());
          extra.push_back(adds);
          constraints += ",r";
        }
        const Regs result = CallTied(b_, PtxInst::kWgmma,
                                     {{"scale", scale},
                                      {"n", std::to_string(piece)},
                                      {"k", std::to_string(plan.step)},
                                      {"types", types},
                                      {"d", List(0, count)},
                                      {"a", a_text},
                                      {"b", b_text},
                                      {"imms", imms}},
                                     d, constraints, extra);
        std::copy(result.begin(), result.end(), acc.begin() + static_cast<std::ptrdiff_t>(first));
        column += piece;
      }
    }
  }
  Set(op.results[0], std::move(acc));
  return Done();
}

Result<void> Emitter::EmitMmaCommit() {
  CallPtx(b_, PtxInst::kWgmmaCommit, {});
  return Done();
}

// Everything that the instructions of a group read or write goes through the fence; what has
// arrived comes out of the wait, what is still being read goes in.
Result<void> Emitter::EmitMmaTied(const ir::Op& op) {
  const bool wait = op.kind == OpKind::kMmaWait;
  Regs tied, extra;
  std::string constraints;
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const ir::Type& type = fn_.type(op.operands[i]);
    if (!type.is_tile()) continue;
    const Regs words = Pack(Get(op.operands[i]), type.dtype);
    if (i < op.results.size()) {
      tied.insert(tied.end(), words.begin(), words.end());
      continue;
    }
    for (llvm::Value* w : words) {
      constraints +=
          std::string(constraints.empty() ? "" : ",") + (w->getType()->isFloatTy() ? "f" : "r");
      extra.push_back(w);
    }
  }
  Substitutions with;
  if (wait) with.push_back({"pending", std::to_string(op.i("pending"))});
  const Regs out = CallTied(b_, wait ? PtxInst::kWgmmaWait : PtxInst::kWgmmaFence, with, tied,
                            constraints, extra);
  size_t at = 0;
  for (size_t i = 0; i < op.results.size(); ++i) {
    const ir::DType d = fn_.type(op.results[i]).dtype;
    const Regs& old = Get(op.operands[i]);
    const size_t words = Pack(old, d).size();
    Set(op.results[i], Unpack(Regs(out.begin() + static_cast<std::ptrdiff_t>(at),
                                   out.begin() + static_cast<std::ptrdiff_t>(at + words)),
                              d, old.size()));
    at += words;
  }
  return Done();
}

}  // namespace tilec::backend
