// SPDX-License-Identifier: Apache-2.0
#include "api/tune_facts.h"

#include <algorithm>
#include <set>

#include "ir/isa.h"
#include "ir/layout.h"
#include "ir/lower/columns_wanted.h"
#include "ir/lower/plan.h"
#include "ir/matrix_unit.h"
#include "ir/queries.h"
#include "scheduler/copy_lines.h"
#include "scheduler/extract.h"

namespace tilec::api {

namespace {

constexpr int64_t kLanes = 32;

// Elements that stand next to each other of what a warp stores at once.
int64_t RunOfWarp(const ir::Layout& layout, int64_t vector) {
  int64_t run = vector, lanes = 1;
  for (const ir::LayoutDigit& digit : layout.thread) {
    if (digit.dim == layout.rank - 1 && digit.stride == run) run *= digit.extent;
    if ((lanes *= digit.extent) >= kLanes) break;
  }
  return run;
}

// That a thread has of a tile.
int64_t RegistersOf(const ir::Function& fn, const ir::LayoutPlan& plan, ir::ValueId v) {
  constexpr int64_t kWord = 4;  // bytes of a register
  const auto layout = plan.layouts.find(v);
  if (layout == plan.layouts.end()) return 0;
  return layout->second.regs() * ir::ByteSize(fn.type(v).dtype) / kWord;
}

}  // namespace

double CutLines(const ir::Function& fn, const ir::Target& target) {
  bool cut = false, products = false;
  for (const ir::Op& op : fn.ops) {
    products = products || op.kind == ir::OpKind::kDot;
    if (op.kind != ir::OpKind::kLoad || fn.type(op.results[0]).shape.size() < 2) continue;
    const ir::Type& tile = fn.type(op.results[0]);
    const int64_t row = tile.shape.back() * static_cast<int64_t>(ir::ByteSize(tile.dtype));
    cut = cut || row % scheduler::kLineBytes != 0;
  }
  return products && cut ? 1 + target.model.cut_lines_share : 1;
}

double AskedFor(const ir::Function& warps) {
  double all = 0, own = 0;
  for (const ir::Op& op : warps.ops) {
    if (op.kind != ir::OpKind::kTmaLoad) continue;
    double bytes = static_cast<double>(ir::ByteSize(warps.type(op.operands[0]).dtype));
    for (int64_t size : warps.launch.maps[static_cast<size_t>(op.i("map"))].box)
      bytes *= static_cast<double>(size);
    own += bytes;
    all += bytes * (op.attr("share") ? static_cast<double>(warps.launch.cluster) : 1);
  }
  return all > 0 ? own / all : 1;
}

bool FillsRegisters(const ir::Function& fn, const ir::Target& target) {
  if (target.unit().completion != ir::Completion::kGroups) return false;
  const ir::LayoutPlan plan = ir::MakePlan(fn, target, 0, /*runs_ahead=*/true);
  if (plan.warpgroups < 2) return false;
  const auto registers = [&](ir::ValueId v) { return RegistersOf(fn, plan, v); };
  // As roles have it, or one for all.
  const int64_t quota = target.ComputeQuota(plan.warpgroups);
  const int64_t alone =
      target.RegistersAtLaunch(static_cast<int64_t>(plan.warpgroups) * ir::isa::kWarpgroupWarps);
  const int64_t filled =
      std::max(target.model.filled_percent * quota, target.model.filled_alone_percent * alone) /
      100;
  for (ir::OpId loop : scheduler::InnermostLoops(fn)) {
    const ir::Op& op = fn.ops[loop];
    int64_t carried = 0, beside = 0;
    for (ir::ValueId v : op.results) carried += registers(v);
    if (carried == 0) continue;
    const std::vector<ir::OpId>& body = fn.blocks[op.regions.back()].ops;
    const std::vector<ir::ValueId>& kept = fn.ops[body.back()].operands;
    // A sum that the next product goes on with is no tile beside it.
    const auto goes_on = [&](ir::ValueId sum) {
      return std::any_of(body.begin(), body.end(), [&](ir::OpId id) {
        const ir::Op& next = fn.ops[id];
        return next.kind == ir::OpKind::kDot && next.operands.size() > 2 && next.operands[2] == sum;
      });
    };
    for (ir::OpId id : body) {
      const ir::Op& product = fn.ops[id];
      if (product.kind == ir::OpKind::kDot &&
          std::find(kept.begin(), kept.end(), product.results[0]) == kept.end() &&
          !goes_on(product.results[0]))
        beside = std::max(beside, registers(product.results[0]));
    }
    if (carried + beside > filled) return true;
  }
  return false;
}

bool FillsAsSolved(const ir::Function& fn, const ir::Target& target) {
  // Of 255 registers 212 of such tiles spilled none (16x144 and 32x144, D 64), 232 up to 848 bytes
  // (32x160: H200, 26 queries of 14668 keys 216 us, in 32x128 122).
  constexpr int64_t kBeside = 32;
  if (target.unit().completion != ir::Completion::kGroups) return false;
  const ir::LayoutPlan plan = ir::MakePlan(fn, target, 0, /*runs_ahead=*/true);
  if (plan.warpgroups != 1) return false;
  for (ir::OpId loop : scheduler::InnermostLoops(fn)) {
    const ir::Op& op = fn.ops[loop];
    int64_t all = 0;
    for (ir::ValueId v : op.results) all += RegistersOf(fn, plan, v);
    const std::vector<ir::OpId>& body = fn.blocks[op.regions.back()].ops;
    const std::vector<ir::ValueId>& kept = fn.ops[body.back()].operands;
    for (ir::OpId id : body) {
      const ir::Op& product = fn.ops[id];
      if (product.kind != ir::OpKind::kDot) continue;
      const bool sum = std::find(kept.begin(), kept.end(), product.results[0]) != kept.end();
      all += sum ? RegistersOf(fn, plan, product.operands[0])
                 : 2 * RegistersOf(fn, plan, product.results[0]);
    }
    if (all > ir::isa::kMostThreadRegisters - kBeside) return true;
  }
  return false;
}

scheduler::LaunchShape ShapeOf(const ir::Function& warps, const ir::Target& target,
                               const Bindings& names, const scheduler::Asked& copies,
                               const scheduler::LaunchShape& likely) {
  scheduler::LaunchShape shape{.cluster = warps.launch.cluster, .share = AskedFor(warps)};
  shape.lines = copies.lines;
  shape.written = copies.written;
  shape.leaves = copies.leaves;
  Bindings all = warps.statics;
  for (const auto& [name, value] : names) all[name] = value;
  if (const auto grid = Eval(warps.launch.grid, all)) shape.ctas = *grid;
  const int64_t threads = ir::isa::kWarpThreads * warps.launch.warps;
  if (!ir::HasSmAlone(warps, target))
    shape.per_sm =
        warps.launch.ctas_per_sm > 1
            ? warps.launch.ctas_per_sm
            : target.CtasPerSm(threads, target.registers.without_quota, warps.launch.smem_bytes);
  // What the assembler is told of rows is the least; it takes what it needs. (ptxas 13.0, rows kept
  // in shared memory: 40 to 64 registers in twelve programs that 128 had been taken of; H200,
  // layernorm 100x65544 in two CTAs a row 19.2 us, 31.6 said of one on an SM; rmsnorm 4096x16384 in
  // two 78, 130 said of three.)
  shape.per_sm = std::max(shape.per_sm, likely.per_sm);
  shape.awaits = AwaitsCopies(warps);
  return shape;
}

double StoredByThreads(const ir::Function& warps, const ir::Target& target) {
  const ir::OpCost* cost = target.CostOf("store");
  double cycles = 0;
  for (const ir::Op& op : warps.ops) {
    if (op.kind != ir::OpKind::kGStore || op.attr("scratch") != nullptr) continue;
    const ir::Type& tile = warps.type(op.operands[1]);
    if (tile.rank() < 2) continue;
    const auto size = static_cast<int64_t>(ir::ByteSize(tile.dtype));
    const int64_t run =
        RunOfWarp(warps.layout(op.operands[1]), std::max<int64_t>(1, op.i("vector", 1)));
    if (run * size >= scheduler::kSectorBytes) continue;
    const double pieces = static_cast<double>(tile.elements()) / static_cast<double>(run);
    const ir::Work work{.elements = static_cast<double>(tile.elements()),
                        .bytes = static_cast<double>(tile.elements() * size)};
    double said = 0;
    if (cost != nullptr)
      for (const ir::TargetUse& use : cost->uses)
        said = std::max(said, static_cast<double>(use.cycles.At(work)));
    cycles += std::max(0.0, pieces * target.model.cut_line_cycles - said);
  }
  return cycles;
}

int64_t TurnsWrittenOut(const ir::Function& clean, Span at, const ir::Op& lowered) {
  if (lowered.at.file != at.file || lowered.at.begin != at.begin) return 0;
  for (const ir::Op& op : clean.ops)
    if (op.kind == ir::OpKind::kFor && op.at.file == at.file && op.at.begin == at.begin)
      return std::max<int64_t>(1, lowered.i("step", 1) / std::max<int64_t>(1, op.i("step", 1)));
  return 1;
}

bool AwaitsCopies(const ir::Function& warps) {
  int roles = 0;
  bool copies = false, products = false;
  for (ir::OpId id : ir::OpsInOrder(warps)) {
    roles += warps.ops[id].kind == ir::OpKind::kRole;
    products = products || warps.ops[id].kind == ir::OpKind::kMma;
    copies = copies || (warps.ops[id].kind == ir::OpKind::kTmaLoad && ir::InLoop(warps, id));
  }
  return copies && products && roles <= 1;
}

namespace {
// Of what is computed from products, what scales and adds them: as much in all tiles, and no
// product waits for it.
bool ScalesSums(const ir::Op& op, const std::set<ir::ValueId>& multiplied) {
  const bool each = ir::Info(op.kind).elementwise() && op.kind != ir::OpKind::kExp2 &&
                    op.kind != ir::OpKind::kExp;
  const bool renames = op.kind == ir::OpKind::kBroadcast || op.kind == ir::OpKind::kReshape ||
                       op.kind == ir::OpKind::kConstant;
  return (each || renames) && multiplied.count(op.results[0]) == 0;
}

// Values of the block that products multiply, and what those are made of.
std::set<ir::ValueId> MultipliedIn(const ir::Function& fn, ir::BlockId block) {
  std::set<ir::ValueId> all;
  const std::vector<ir::OpId>& ops = fn.blocks[block].ops;
  for (auto it = ops.rbegin(); it != ops.rend(); ++it) {
    const ir::Op& op = fn.ops[*it];
    const bool dot = op.kind == ir::OpKind::kDot;
    const bool feeds = std::any_of(op.results.begin(), op.results.end(),
                                   [&](ir::ValueId v) { return all.count(v) > 0; });
    if (dot) all.insert(op.operands.begin(), op.operands.begin() + 2);
    if (feeds) all.insert(op.operands.begin(), op.operands.end());
  }
  return all;
}
}  // namespace

bool DoesMore(const ir::Function& fn) {
  for (ir::OpId loop : scheduler::InnermostLoops(fn))
    for (ir::BlockId region : fn.ops[loop].regions) {
      const std::set<ir::ValueId> multiplied = MultipliedIn(fn, region);
      const bool multiplies = !multiplied.empty();
      for (ir::OpId id : fn.blocks[region].ops)
        if (const ir::Op& op = fn.ops[id];
            op.kind != ir::OpKind::kDot && op.kind != ir::OpKind::kLoad &&
            op.kind != ir::OpKind::kTranspose && !op.results.empty() &&
            fn.type(op.results[0]).is_tile() && !(multiplies && ScalesSums(op, multiplied)))
          return true;
    }
  return false;
}

bool AwaitsReductions(const ir::Function& fn) {
  for (ir::OpId loop : scheduler::InnermostLoops(fn))
    for (ir::BlockId region : fn.ops[loop].regions) {
      const std::set<ir::ValueId> multiplied = MultipliedIn(fn, region);
      for (ir::OpId id : fn.blocks[region].ops)
        if (fn.ops[id].kind == ir::OpKind::kReduce && multiplied.count(fn.ops[id].results[0]) > 0)
          return true;
    }
  return false;
}

}  // namespace tilec::api
