// Measured with ptxas 13.0, attention by products that are complete at once, two warpgroups with
// 240 registers a thread, three with 160: bytes spilled (without a mask, causal) beside tiles kept
// + cast.
//
//   D = 128  256 x 48  192 + 24    0,   0        D = 64  256 x 96   176 + 48    0,   0
//            256 x 64  208 + 32    0,  16                256 x 112  192 + 56   32,   0
//            192 x 64  104 + 16    0,   0                256 x 128  208 + 64  212, 272
//            192 x 80  112 + 20   12,   0                192 x 144  112 + 36    0,   0
//                                                        192 x 176  128 + 44   80,  68
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/lower/filled.h"

#include <algorithm>
#include <set>

#include "ir/lower/pressure.h"

namespace tilec::ir {

namespace {

// What the products of a block have of it.
struct Products {
  bool any = false, at_once = false, by_barrier = false;
  int64_t cast = 0;  // registers of the largest left operand that threads hold
  int64_t sums = 0;  // that products of a block add to
};
// What a product adds to, behind the other slices of its sum; none: it begins one.
ValueId AddsTo(const Function& fn, const Op& product) {
  const Op* last = &product;
  for (ValueId v = product.operands[0]; last->kind != OpKind::kMma || last->i("zero") == 0;) {
    const Op* def = fn.def(v);
    if (!def || (def->kind != OpKind::kMma && def->kind != OpKind::kMmaFence)) return v;
    last = def;
    v = def->operands[0];
  }
  return {};
}
void Look(const Function& fn, BlockId block, Products* found) {
  std::set<ValueId> sums;
  for (OpId id : fn.blocks[block].ops) {
    const Op& op = fn.ops[id];
    for (BlockId region : op.regions) Look(fn, region, found);
    found->any = found->any || op.kind == OpKind::kMma;
    found->by_barrier = found->by_barrier || op.kind == OpKind::kTcMma;
    if (op.kind != OpKind::kMma || FliesFrom(op)) continue;
    found->at_once = true;
    if (const ValueId sum = AddsTo(fn, op); sum.valid()) sums.insert(sum);
    found->sums = std::max(found->sums, static_cast<int64_t>(sums.size()));
    const ValueId left = op.operands[1];
    if (fn.type(left).is_tile())
      found->cast =
          std::max(found->cast, fn.layout(left).regs() * ByteSize(fn.type(left).dtype) / 4);
  }
}
bool HasProducts(const Function& warps) {
  return std::any_of(warps.ops.begin(), warps.ops.end(), [](const Op& op) {
    return op.kind == OpKind::kMma || op.kind == OpKind::kTcMma;
  });
}
bool Scans(const Function& warps) {
  return std::any_of(warps.ops.begin(), warps.ops.end(),
                     [](const Op& op) { return op.kind == OpKind::kWarpScan; });
}
// Tensors that threads access in the same iterations, and sums beside the first, which are two
// products' operands more to find: ptxas keeps where all of it lies, and where it is in rings if
// another role fills them.
int64_t Beside(const Function& warps, OpId role, const Products& products) {
  const int64_t sums = std::max<int64_t>(0, products.sums - 1);
  const int64_t beside = TensorsBesideProducts(warps, role) + 2 * sums;
  return beside > 0 && warps.ops[role].i("warps") < warps.launch.warps ? beside + 1 : beside;
}

// Products that read 32 bytes of K each, of an iteration, not of loops in it.
int64_t IterationsOf(const Function& fn, BlockId block) {
  constexpr int64_t kStep = 32;
  int64_t steps = 0;
  for (OpId id : fn.blocks[block].ops) {
    const Op& op = fn.ops[id];
    if (op.kind == OpKind::kTcMma)
      steps += op.i("k") * ByteSize(fn.type(op.operands[2]).dtype) / kStep;
    for (BlockId region : op.regions)
      if (!IsLoop(op.kind)) steps += IterationsOf(fn, region);
  }
  return steps;
}
// Where their operands lie is an address of each, which ptxas makes in front of the loop. With more
// than those of attention at D = 128 and 128 keys 132 registers of tiles spilled 84 + 144 bytes
// (128 x 128 of D = 128, E = 192), and 116 none.
int64_t AddressesOf(int64_t steps) {
  constexpr int64_t kForFree = 16, kEach = 2;
  return kEach * std::max<int64_t>(0, steps - kForFree);
}
// The fullest iteration of a loop of products by barrier, beside such addresses.
int64_t FullestIteration(const Function& fn, BlockId block) {
  int64_t fullest = 0;
  for (OpId id : fn.blocks[block].ops)
    for (BlockId region : fn.ops[id].regions) {
      const int64_t steps = IterationsOf(fn, region);
      if (IsLoop(fn.ops[id].kind) && steps > 0)
        fullest = std::max(fullest, PeakRegisters(fn, region) + AddressesOf(steps));
      fullest = std::max(fullest, FullestIteration(fn, region));
    }
  return fullest;
}
// What a role lacks whose products are in tensor memory. One with a quota has what the lowering
// asks of a solved program; of one without no more may be alive than is taken for certain (165 and
// 180 of 255 spilled up to 596 bytes, although held ones fitted), in an iteration where it runs all
// (what follows goes piece by piece).
int64_t LacksBesideSums(const Function& warps, OpId role, const Target& target) {
  const int64_t quota = warps.ops[role].i("regs");
  const int64_t beside = BesideScheduled(warps, target), peak = PeakRegisters(warps, role);
  if (quota > 0) {
    const int64_t held = BesideHeld(warps, target);
    const int64_t lacks = peak + beside - quota;
    return held == 0 ? lacks : std::min(lacks, HeldRegisters(warps, role) + held - quota);
  }
  const int64_t fullest = FullestIteration(warps, warps.ops[role].regions[0]);
  const int64_t most = FullestRole(warps, target).most;
  if (warps.ops[role].i("warps") < warps.launch.warps)
    return std::max(fullest, peak) + beside - most;
  return fullest + std::max(beside, target.registers.beside_alone) - most;
}

}  // namespace

Filling FillingOf(const Function& warps, const Target& target, bool asked) {
  Filling fullest;
  const bool rows = !asked && !HasProducts(warps);
  for (OpId id : warps.blocks[warps.body].ops) {
    const Op& op = warps.ops[id];
    if (op.kind != OpKind::kRole) continue;
    Products products;
    Look(warps, op.regions[0], &products);
    int64_t quota = op.i("regs");
    if (rows && quota == 0) {
      int64_t wanted = RowRegisters(warps, target, id, false);
      // Scans hold their tiles and sums of them, whether ptxas is told or not: 12 + 8 bytes of 22
      // registers held with 64.
      if (wanted == 0 || Scans(warps))
        wanted = std::max(wanted, 2 * HeldRegisters(warps, id) + target.registers.row_kernel);
      fullest.lacks = std::max(fullest.lacks, wanted - FullestRole(warps, target).most);
      continue;
    }
    if (quota == 0 && (products.at_once || (products.any && !asked)))
      quota = FullestRole(warps, target).most;
    // One role that multiplies into tensor memory and has all that follows in registers: no author
    // tried it there, so that his tiles are not spared. (Epilogues by two warpgroups with 255: 384
    // and 480 alive spilled 48 and 80 bytes, 192 and 289 none.)
    if (quota == 0 && products.by_barrier && !asked && op.i("warps") == warps.launch.warps) {
      const int64_t most = FullestRole(warps, target).most;
      const int64_t lacks = PeakRegisters(warps, id) - most - most / 4;
      if (lacks > fullest.lacks) fullest = {lacks, true};
    }
    if (products.by_barrier && !asked) {
      const int64_t lacks = LacksBesideSums(warps, id, target);
      if (lacks > fullest.lacks) fullest = {lacks, false};
    }
    if (quota == 0) continue;
    const int64_t share =
        op.i("regs") == 0 ? target.model.filled_alone_percent : target.model.filled_percent;
    const int64_t places =
        asked ? 0 : target.registers.beside_access_at_once * Beside(warps, id, products);
    const int64_t kept = PeakRegisters(warps, id);
    const int64_t lacks =
        products.at_once ? kept + products.cast + places - quota : kept - share * quota / 100;
    if (lacks > fullest.lacks) fullest = {lacks, products.at_once};
  }
  return fullest;
}

}  // namespace tilec::ir
