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

// Of what products make. (5656x1080x56 in tiles of 256 rows 9.5 us by several roles, 10.9 so.)
int64_t MostRows(const ir::Function& fn) {
  int64_t rows = 0;
  for (const ir::Op& op : fn.ops)
    if (op.kind == ir::OpKind::kDot) {
      const ir::Type& sum = fn.type(op.results[0]);
      rows = std::max(rows, sum.shape[sum.shape.size() - 2]);
    }
  return rows;
}

// Are rows of what its loops load a sector or less?
bool NarrowRows(const ir::Function& fn, const ir::Target& target) {
  return std::any_of(fn.ops.begin(), fn.ops.end(), [&](const ir::Op& op) {
    if (op.kind != ir::OpKind::kLoad) return false;
    const ir::Type& tile = fn.type(op.results[0]);
    return tile.rank() == 2 &&
           tile.shape.back() * ir::ByteSize(tile.dtype) <= target.lowering.narrow_row_bytes;
  });
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

std::optional<double> MarginOfOneRole(const ir::Function& fn, const ir::Target& target,
                                      const ir::WorkCount& work,
                                      const std::vector<LoopPeriod>& loops, int64_t beside) {
  if (!target.Has("clusters") || work.products.empty() || work.instances == 0 ||
      target.unit().completion == ir::Completion::kAtOnce ||
      ir::InTensorMemory(target.matrix_unit.kind))
    return std::nullopt;
  bool few = true, hangs = true, chained = false;
  for (ir::OpId loop : InnermostLoops(fn)) {
    const auto trips = work.trips.find(loop);
    const Span at = fn.ops[loop].at;
    const auto period = std::find_if(loops.begin(), loops.end(), [&](const LoopPeriod& p) {
      return p.at.file == at.file && p.at.begin == at.begin;
    });
    if (trips == work.trips.end() || period == loops.end()) return std::nullopt;
    few = few && trips->second <= work.instances;
    hangs = hangs && period->hangs;
    chained = chained || period->chained || period->hangs;
  }
  const double margin = target.model.split_margin;
  if (!few) {
    if (!hangs || beside < target.lowering.one_role_ctas) return std::nullopt;
    return 2 * margin;
  }
  // One turn. Alone on its SM such a CTA is no faster than one of several roles, and where more
  // come than find room, others stay and need not begin anew (H200, e4m3 15901x47216x16: 491 us by
  // CTAs that stay, 634 so).
  // In several rounds one role took 0.75 to 0.88 of what CTAs that stay took where rows have more
  // than a sector (13 of 13x19792x40 21.3 and 15.9 us, 66 of 34519x736x32 1399 and 1136,
  // 20339x50984x112 1231 and 1090), and up to 1.27 of it where they have less.
  const bool narrow = NarrowRows(fn, target), again = work.instances > beside * target.limits.sms;
  if (work.instances <= target.limits.sms || (again && (chained || narrow || !work.exact)))
    return std::nullopt;
  if (!chained && MostRows(fn) > (again ? 2 : 1) * kRowsOfInstruction) return std::nullopt;
  // Rows of a sector or less are brought by threads where a role does nothing else.
  if (chained || narrow) return margin;
  // Tiles of one turn that CTAs of several roles walk over take longer than is said by that much
  // (docs/perf_log.md: two to five rounds 1.23 to 1.43 of it, one round and one role 1.17 to 1.2).
  return -margin;
}

}  // namespace tilec::scheduler
