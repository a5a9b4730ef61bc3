// SPDX-License-Identifier: Apache-2.0
#include "scheduler/one_role.h"

#include <algorithm>
#include <set>

#include "ir/isa.h"
#include "ir/lower/plan.h"
#include "ir/queries.h"
#include "scheduler/body_facts.h"
#include "scheduler/extract.h"

namespace tilec::scheduler {

namespace {

constexpr int64_t kFewTurns = 2;         // of a loop whose ring has little to run ahead of
constexpr int64_t kRowsOfInstruction = 64;  // in shared memory, of a warpgroup's

// Bytes of a tile that a product reads, rows as whole instructions.
int64_t BytesOf(const ir::Type& tile) {
  const int64_t rows = tile.shape[tile.shape.size() - 2];
  return tile.elements() / rows * RoundUp(rows, kRowsOfInstruction) * ir::ByteSize(tile.dtype);
}

// The load that a product's operand comes from; invalid: none.
ir::OpId LoadOf(const ir::Function& fn, ir::ValueId value) {
  for (;;) {
    const ir::OpId id = fn.values[value].def;
    if (!id.valid()) return {};
    const ir::Op& op = fn.ops[id];
    if (op.kind == ir::OpKind::kLoad) return id;
    if (op.kind != ir::OpKind::kTranspose) return {};
    value = op.operands[0];
  }
}

}  // namespace

int64_t CtasOfOneRole(const ir::Function& fn, const ir::Target& target) {
  const ir::LayoutPlan plan = ir::MakePlan(fn, target);
  int64_t registers = 0, outside = 0, most = 0;
  std::set<ir::OpId> outer;
  for (ir::OpId id : ir::OpsInOrder(fn)) {
    const ir::Op& op = fn.ops[id];
    if (op.kind != ir::OpKind::kDot) continue;
    if (const auto layout = plan.layouts.find(op.results[0]); layout != plan.layouts.end())
      registers += layout->second.regs();
    int64_t read = 0;
    for (size_t side : {0, 1}) {
      const ir::OpId load = LoadOf(fn, op.operands[side]);
      if (!load.valid()) {
        // What threads make for a product, two elements a register, lies beside what it is made of.
        const auto made = plan.layouts.find(op.operands[side]);
        if (made != plan.layouts.end()) registers += CeilDiv(made->second.regs(), 2);
        continue;
      }
      const int64_t bytes = BytesOf(fn.type(fn.ops[load].results[0]));
      if (ir::InLoop(fn, load))
        read += bytes;
      else if (outer.insert(load).second)
        outside += bytes;
    }
    most = std::max(most, read);
  }
  const int64_t all =
      std::min(ir::isa::kMostThreadRegisters, registers + target.registers.beside_by_rule);
  return target.CtasPerSm(plan.threads(), all, most + outside);
}

bool OneRoleMayPay(const ir::Function& fn, const ir::Target& target, const ir::WorkCount& work,
                   const std::vector<LoopPeriod>& loops) {
  if (!target.Has("clusters") || work.products.empty() || work.instances == 0 ||
      target.unit().completion == ir::Completion::kAtOnce ||
      ir::InTensorMemory(target.matrix_unit.kind))
    return false;
  for (ir::OpId loop : InnermostLoops(fn)) {
    const auto trips = work.trips.find(loop);
    const Span at = fn.ops[loop].at;
    const auto period = std::find_if(loops.begin(), loops.end(), [&](const LoopPeriod& p) {
      return p.at.file == at.file && p.at.begin == at.begin;
    });
    if (trips == work.trips.end() || period == loops.end()) return false;
    if (!period->hangs && trips->second > kFewTurns * work.instances) return false;
  }
  return true;
}

}  // namespace tilec::scheduler
