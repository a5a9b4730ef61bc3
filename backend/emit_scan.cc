// Scans: the digits of the axis from the smallest stride to the largest (ir::PlanScan). At each,
// blocks that are scanned lie side by side; what is before a block is combined into all of its
// elements, and the blocks' totals become the total of one block. Totals that other warps read are
// stored one by one as they are known: kept until all are, they took as many registers as the tile.
//
// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <optional>

#include "backend/emitter.h"
#include "support/check.h"

namespace tilec::backend {

using ir::DType;
using ir::ScanLevel;

// A scan while it goes from level to level.
struct Emitter::Scan {
  // Where warps exchange totals. Others have read what they passed through these bytes.
  struct Exchange {
    llvm::Value *theirs, *mine, *writes, *digit;
    int64_t pitch, step;  // bytes from warp to warp, from block to block
  };

  Emitter& emit;
  const ir::Op& op;
  const ir::Layout& layout;
  const ThreadPart& part;
  const std::string& kind;
  DType dtype, acc;
  llvm::Value* neutral;
  Regs values;
  // At first every register is a block of its own; `totals` has what is in each.
  std::vector<std::vector<int>> blocks;
  Regs totals;
  std::optional<Exchange> exchange;

  void Before(size_t block, llvm::Value* what);
  Exchange Open(const ScanLevel& level);
  void Store(size_t block);
  void OverRegisters(const ScanLevel& level);
  void OverLanes(const ScanLevel& level, const ScanLevel* next);
  void OverWarps(const ScanLevel& level);
};

// What is before a block is combined into all of its elements.
void Emitter::Scan::Before(size_t block, llvm::Value* what) {
  for (int r : blocks[block]) {
    llvm::Value*& v = values[static_cast<size_t>(r)];
    v = emit.Combine(kind, acc, what, v);
  }
}

Emitter::Scan::Exchange Emitter::Scan::Open(const ScanLevel& level) {
  CHECK(op.i("scratch", -1) >= 0, "scan across warps without scratch");
  CHECK(static_cast<int64_t>(blocks.size()) == level.reps, "planned registers");
  const int64_t slot = ir::ReduceSlotBytes(dtype), threads = layout.threads();
  const auto number = [&](const std::vector<ir::ThreadDigit>& digits) {
    llvm::Value* sum = emit.I32(0);
    int64_t place = 1;
    for (const ir::ThreadDigit& d : digits) {
      sum = emit.b_.CreateAdd(
          sum, emit.b_.CreateMul(emit.Digit(emit.role_.thread, d.place, d.extent, threads),
                                 emit.I32(place)));
      place *= d.extent;
    }
    return sum;
  };
  Exchange out;
  out.writes = part.first_replica;
  for (const ir::ThreadDigit& d : level.writers)
    out.writes = emit.And(
        out.writes, emit.b_.CreateICmpEQ(emit.Digit(emit.role_.thread, d.place, d.extent, threads),
                                         emit.I32(0)));
  out.digit = emit.Digit(emit.role_.thread, level.digit.place, level.digit.extent, threads);
  out.theirs = emit.b_.CreateAdd(emit.SmemAddress(op.i("scratch")),
                                 emit.b_.CreateMul(number(level.group), emit.I32(slot)));
  out.step = level.groups * slot;
  out.pitch = level.reps * out.step;
  out.mine = emit.b_.CreateAdd(out.theirs, emit.b_.CreateMul(out.digit, emit.I32(out.pitch)));
  emit.RoleBarrier();
  return out;
}

void Emitter::Scan::Store(size_t block) {
  emit.StoreGlobal(exchange->mine, static_cast<int64_t>(block) * exchange->step, exchange->writes,
                   {totals[block]}, acc, PtxInst::kStShared);
}

void Emitter::Scan::OverRegisters(const ScanLevel& level) {
  int64_t place = 1;
  for (int i = 0; i < level.reg_digit; ++i) place *= layout.reg[static_cast<size_t>(i)].extent;
  std::map<int64_t, std::vector<size_t>> rows;  // blocks by all digits but this one
  for (size_t i = 0; i < blocks.size(); ++i) {
    const int64_t r = blocks[i][0];
    rows[r - r / place % level.extent * place].push_back(i);
  }
  std::vector<std::vector<int>> merged;
  Regs sums;
  for (const auto& [row, side_by_side] : rows) {
    std::vector<int> all;
    llvm::Value* total = nullptr;
    for (size_t i : side_by_side) {
      if (total) Before(i, total);
      total = total ? emit.Combine(kind, acc, total, totals[i]) : totals[i];
      all.insert(all.end(), blocks[i].begin(), blocks[i].end());
    }
    merged.push_back(std::move(all));
    sums.push_back(total);
  }
  blocks = std::move(merged);
  totals = std::move(sums);
}

// `next`: the level of warps, if it comes next.
void Emitter::Scan::OverLanes(const ScanLevel& level, const ScanLevel* next) {
  // At distance x a lane meets the block of x lanes beside its own, which has been summed up:
  // it lies before the lane's if the lane's digit has the bit.
  llvm::Value* digit =
      emit.Digit(emit.role_.thread, level.digit.place, level.digit.extent, layout.threads());
  if (next) exchange = Open(*next);
  for (size_t i = 0; i < blocks.size(); ++i) {
    llvm::Value* ahead = nullptr;
    for (int64_t x = 1; x < level.extent; x *= 2) {
      llvm::Value* other = emit.Shuffle(totals[i], x * level.digit.place);
      llvm::Value* behind =
          emit.b_.CreateICmpNE(emit.b_.CreateAnd(digit, emit.I32(x)), emit.I32(0));
      llvm::Value* more = ahead ? emit.Combine(kind, acc, other, ahead) : other;
      ahead = emit.b_.CreateSelect(behind, more, ahead ? ahead : neutral);
      totals[i] = emit.Combine(kind, acc, totals[i], other);
    }
    Before(i, ahead);
    if (next) Store(i);
  }
}

void Emitter::Scan::OverWarps(const ScanLevel& level) {
  if (!exchange) {
    exchange = Open(level);
    for (size_t i = 0; i < blocks.size(); ++i) Store(i);
  }
  emit.RoleBarrier();
  for (size_t i = 0; i < blocks.size(); ++i) {
    llvm::Value *ahead = neutral, *total = nullptr;
    for (int64_t w = 0; w < level.extent; ++w) {
      const int64_t at = w * exchange->pitch + static_cast<int64_t>(i) * exchange->step;
      llvm::Value* other =
          emit.b_.CreateAlignedLoad(emit.ElementType(acc), emit.SharedPointer(exchange->theirs, at),
                                    llvm::Align(static_cast<uint64_t>(ir::ReduceSlotBytes(dtype))));
      llvm::Value* more = total ? emit.Combine(kind, acc, ahead, other) : other;
      ahead =
          emit.b_.CreateSelect(emit.b_.CreateICmpSLT(emit.I32(w), exchange->digit), more, ahead);
      total = total ? emit.Combine(kind, acc, total, other) : other;
    }
    Before(i, ahead);
    totals[i] = total;
  }
  exchange.reset();
}

Result<void> Emitter::EmitScan(const ir::Op& op) {
  const ir::ValueId from = op.operands[0];
  const ir::Type& type = fn_.type(from);
  const std::string& kind = op.s("kind");
  const auto axis = static_cast<size_t>(op.i("axis"));
  const ir::Layout& layout = fn_.layout(from);
  const ThreadPart& part = Part(type.layout);
  const DType acc = AccumulatorOf(type.dtype);
  const bool is_float = ir::IsFloat(acc);
  const auto plan = ir::PlanScan(layout, static_cast<int>(axis));
  CHECK(plan, "verified: digits along the axis nest");
  llvm::Value* neutral = Identity(kind, acc);

  Regs values = is_float ? (acc == DType::kF64 ? Get(from) : ToF32(Get(from), type.dtype)) : Regs();
  if (!is_float)
    for (llvm::Value* v : Get(from)) values.push_back(CastOne(v, type.dtype, acc));
  for (int64_t r = 0; r < layout.regs(); ++r) {
    const int64_t at = layout.RegCoord(r)[axis], size = type.shape[axis];
    llvm::Value*& v = values[static_cast<size_t>(r)];
    if (at >= size)
      v = neutral;
    else if (at + part.max[axis] >= size)
      v = b_.CreateSelect(b_.CreateICmpSLT(part.coord[axis], I32(size - at)), v, neutral);
  }

  Scan scan{*this, op, layout, part, kind, type.dtype, acc, neutral, values, {}, values, {}};
  for (int64_t r = 0; r < layout.regs(); ++r) scan.blocks.push_back({static_cast<int>(r)});
  for (size_t l = 0; l < plan->levels.size(); ++l) {
    const ScanLevel& level = plan->levels[l];
    switch (level.kind) {
      case ScanLevel::Kind::kRegisters: scan.OverRegisters(level); break;
      case ScanLevel::Kind::kLanes: {
        const bool warps_next =
            l + 1 < plan->levels.size() && plan->levels[l + 1].kind == ScanLevel::Kind::kWarps;
        scan.OverLanes(level, warps_next ? &plan->levels[l + 1] : nullptr);
        break;
      }
      case ScanLevel::Kind::kWarps: scan.OverWarps(level); break;
    }
  }
  values = std::move(scan.values);
  if (is_float && acc != DType::kF64) {
    values = FromF32(values, type.dtype);
  } else if (!is_float) {
    for (llvm::Value*& v : values) v = CastOne(v, acc, type.dtype);
  }
  Set(op.results[0], std::move(values));
  return Done();
}

}  // namespace tilec::backend
