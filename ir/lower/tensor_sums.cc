// SPDX-License-Identifier: Apache-2.0
#include "ir/lower/tensor_sums.h"

#include <algorithm>
#include <string>

#include "ir/lower/buffers.h"
#include "ir/lower/emit_rules.h"
#include "ir/lower/operands.h"
#include "ir/lower/resident_sums.h"
#include "ir/lower/scalars.h"
#include "ir/queries.h"

namespace tilec::ir {

namespace {

class TensorSumFinder {
 public:
  TensorSumFinder(const Function& fn, const LayoutPlan& tiles, const std::set<OpId>& apart)
      : fn_(fn), tiles_(tiles), uses_(fn), apart_(apart) {}

  std::vector<TensorSum> Run() {
    sums_ = FindResidentSums(fn_, tiles_, uses_, apart_);
    for (const TensorSum& sum : sums_) taken_.insert(sum.dots.begin(), sum.dots.end());
    Walk(fn_.body);
    return std::move(sums_);
  }

 private:
  bool Sums(OpId id) const {
    const auto dot = tiles_.dots.find(id);
    return dot != tiles_.dots.end() && dot->second.unit != MatrixUnit::kNone &&
           InTensorMemory(dot->second.unit);
  }
  bool Adds(OpId id) const {
    return Sums(id) && tiles_.dots.at(id).promote == 0 && !apart_.count(id);
  }

  // Does `v`, an accumulator, go through nothing but products from here to the end of its block,
  // where the loop yields it as what it carries as number `carried`? Notes what it goes through.
  bool Carries(ValueId v, const Op& loop, size_t carried, TensorSum* sum) const {
    const BlockId block = loop.regions[0];
    bool any = false;
    while (true) {
      if (uses_.count(v) != 1) return false;
      const auto [reader, index] = uses_.of(v)[0];
      const Op& op = fn_.ops[reader];
      if (op.block != block) return false;
      if (op.kind == OpKind::kYield) return any && index == carried;
      if (!Extend(reader, index, sum)) return false;
      v = op.kind == OpKind::kFor ? op.results[index - 2] : op.results[0];
      any = true;
    }
  }

  // The product, or the loop of products, that reads an accumulator as operand `index`.
  bool Extend(OpId id, size_t index, TensorSum* sum) const {
    const Op& op = fn_.ops[id];
    if (op.kind == OpKind::kDot) {
      if (index != 2 || taken_.count(id) || !Adds(id) || !Alike(id, *sum)) return false;
      sum->dots.push_back(id);
      return true;
    }
    if (op.kind != OpKind::kFor || index < 2) return false;
    const size_t carried = index - 2;
    TensorSum inner = *sum;
    const ValueId arg = fn_.blocks[op.regions[0]].args[1 + carried];
    inner.loops.push_back({id, carried});
    inner.inside.insert({op.results[carried], arg});
    if (!Carries(arg, op, carried, &inner)) return false;
    *sum = std::move(inner);
    return true;
  }

  // One accumulator serves both: the same role, shape and split.
  bool Alike(OpId id, const TensorSum& sum) const {
    if (sum.dots.empty()) return true;
    const DotPlan &a = tiles_.dots.at(sum.dots[0]), &b = tiles_.dots.at(id);
    return a.unit == b.unit && a.split == b.split && a.acc == b.acc &&
           fn_.ops[sum.dots[0]].i("role") == fn_.ops[id].i("role") &&
           fn_.type(fn_.ops[sum.dots[0]].results[0]) == fn_.type(fn_.ops[id].results[0]);
  }

  void Walk(BlockId block) {
    for (OpId id : fn_.blocks[block].ops) {
      const Op& op = fn_.ops[id];
      if (op.kind == OpKind::kFor)
        for (size_t i = 0; i < op.results.size(); ++i) Begin(id, i + 2);
      if (op.kind == OpKind::kDot && Sums(id) && !taken_.count(id)) Begin(id, 2);
      for (BlockId region : op.regions) Walk(region);
    }
  }

  void Begin(OpId id, size_t index) {
    const Op& op = fn_.ops[id];
    TensorSum sum;
    sum.first = sum.last = id;
    sum.init = op.operands[index];
    if (index >= 2 && op.kind == OpKind::kFor && known_.count({id, index - 2})) return;
    if (op.kind == OpKind::kDot && !Adds(id))
      sum.dots = {id};
    else if (!Extend(id, index, &sum))
      return;
    sum.result = op.kind == OpKind::kFor ? op.results[index - 2] : op.results[0];
    sum.always = op.kind == OpKind::kDot;
    sum.segments = {id};
    while (uses_.count(sum.result) == 1 && Adds(sum.dots.back())) {
      const auto [reader, operand] = uses_.of(sum.result)[0];
      const Op& next = fn_.ops[reader];
      if (next.block != op.block || !Extend(reader, operand, &sum)) break;
      sum.inside.insert(sum.result);
      sum.result = next.kind == OpKind::kFor ? next.results[operand - 2] : next.results[0];
      sum.last = reader;
      sum.always = sum.always || next.kind == OpKind::kDot;
      sum.segments.push_back(reader);
    }
    sum.at_once = apart_.count(sum.dots[0]) > 0;
    const Op* init = fn_.def(sum.init);
    sum.from_zero = init && init->kind == OpKind::kConstant && init->number("value") == 0;
    for (OpId dot : sum.dots) taken_.insert(dot);
    for (const auto& loop : sum.loops) known_.insert(loop);
    sums_.push_back(std::move(sum));
  }

  const Function& fn_;
  const LayoutPlan& tiles_;
  const Uses uses_;
  const std::set<OpId>& apart_;
  std::vector<TensorSum> sums_;
  std::set<OpId> taken_;
  std::set<std::pair<OpId, size_t>> known_;
};

// Where an op is made that is left to a later place: in front of the loop, or at the change, of the
// sum that it leads to; invalid: behind all, for a store.
OpId MadeAt(const ProgramPlan& plan, OpId id) {
  for (const TensorSum& sum : plan.sums) {
    if (sum.entry && sum.entry->count(id)) return sum.home;
    for (const auto& [head, change] : sum.changes)
      if (change.ops.count(id)) return head;
  }
  return {};
}

// Until it is loaded: where it is used, or where the block ends if nobody does, or if what uses it
// is left to a store.
int64_t LoadedBy(const Function& fn, const ProgramPlan& plan, const Uses& uses,
                 const Positions& positions, const TensorSum& sum) {
  if (sum.at_once) return positions.at(sum.last);
  const BlockId block = BlockOf(fn, sum.result);
  int64_t end = -1;
  for (const Uses::Use& use : uses.of(sum.result)) {
    const OpId made = plan.deferred.count(use.reader) ? MadeAt(plan, use.reader) : use.reader;
    const OpId at = made.valid() ? AncestorIn(fn, block, made) : OpId();
    if (!at.valid()) return positions.at(fn.blocks[block].ops.back());
    end = std::max(end, positions.at(at));
  }
  return end < 0 ? positions.at(fn.blocks[block].ops.back()) : end;
}

// Positions between which columns are in use; where they are.
struct Life {
  int64_t begin = 0, end = 0;
  std::string map;          // which part each warpgroup has
  bool accumulator = true;  // or a left operand, or scales
  bool home = false;        // of a sum that stays in its columns through a loop
  int64_t columns = 0, at = 0;
};

}  // namespace

std::vector<TensorSum> FindTensorSums(const Function& fn, const LayoutPlan& tiles,
                                      const std::set<OpId>& apart) {
  const bool any = std::any_of(tiles.dots.begin(), tiles.dots.end(), [](const auto& dot) {
    return dot.second.unit != MatrixUnit::kNone && InTensorMemory(dot.second.unit);
  });
  if (!any) return {};  // a sum begins and ends with products
  return TensorSumFinder(fn, tiles, apart).Run();
}

int64_t ColumnsOfSlice(const Type& tile, const Layout& layout) {
  constexpr int64_t kSlice = 32;
  if (Squeezed(tile.shape).size() != 2 || tile.shape.size() != 2 || tile.shape[1] % kSlice != 0)
    return 0;
  for (int64_t first = 0; first < tile.shape[1]; first += kSlice)
    if (!ColumnsMap(layout, ColumnsLayout(layout, kSlice), first)) return 0;
  return kSlice;
}

bool MadeByColumns(const Function& fn, const LayoutPlan& tiles, const Op& op, size_t i) {
  const auto from = tiles.layouts.find(op.operands[i]), to = tiles.layouts.find(op.results[0]);
  if (from == tiles.layouts.end() || to == tiles.layouts.end()) return false;
  if (op.kind != OpKind::kBroadcast) return from->second == to->second;
  const std::vector<int> keep = KeptDims(fn, op);
  return !keep.empty() && keep.back() == to->second.rank - 1 &&
         from->second == KeepDims(to->second, keep);
}

namespace {

// The columns of one role: each life gets the first that no other one has meanwhile. Where several
// warpgroups have parts of a tile, one may still read what another one stores to: `mixed` says
// whether tiles of which they have other parts may follow one another.
class Columns {
 public:
  Columns(int64_t base, bool mixed) : base_(base), end_(base), mixed_(mixed) {}
  int64_t end() const { return end_; }
  int64_t Place(Life life, int64_t columns) {
    life.columns = RoundUp(columns, kTensorColumnStep);
    life.at = base_;
    for (bool again = true; again;) {
      again = false;
      for (const Life& other : lives_)
        if (other.at < life.at + life.columns && life.at < other.at + other.columns &&
            Meet(life, other))
          life.at = other.at + other.columns, again = true;
    }
    end_ = std::max(end_, life.at + life.columns);
    lives_.push_back(life);
    return life.at;
  }

 private:
  // May the columns of one not be those of the other?
  bool Meet(const Life& a, const Life& b) const {
    if (!mixed_ && a.map != b.map) return true;
    return a.begin <= b.end && b.begin <= a.end && !Follows(a, b) && !Follows(b, a);
  }
  // A sum that a loop begins with is complete, and loaded, before the first of what the loop keeps
  // is stored; slice by slice, so that both lie in the same columns.
  static bool Follows(const Life& first, const Life& home) {
    return home.home && first.end == home.begin &&
           (!first.accumulator || !home.accumulator || first.at == home.at);
  }

  int64_t base_, end_;
  bool mixed_;
  std::vector<Life> lives_;
};

// Which part of a tile a warpgroup has, as far as it decides about columns; "" if it has all.
std::string PartsOf(const ProgramPlan& plan, WgSplit split, const std::vector<int64_t>& shape,
                    const char* kind) {
  if (plan.tiles.warpgroups == 1) return "";
  std::string out = std::string(kind) + NameOf(split);
  for (int64_t extent : shape) out += " " + std::to_string(extent);
  return out;
}

int64_t ColumnsOfSums(const Function& fn, const std::vector<std::vector<size_t>>& sums_of_role,
                      bool mixed, ProgramPlan* plan) {
  const Positions positions(fn);
  const Uses uses(fn);
  int64_t base = 0;
  for (size_t role = 0; role < sums_of_role.size(); ++role) {
    Columns columns(base, mixed);
    for (size_t i : sums_of_role[role]) {
      const TensorSum& sum = plan->sums[i];
      const DotPlan& first = plan->tiles.dots.at(sum.dots[0]);
      const std::vector<int64_t>& shape = fn.type(fn.ops[sum.dots[0]].results[0]).shape;
      // What another role issues begins and ends by barriers, whatever stands before or behind.
      const auto slotted = plan->accumulator_of.find(i);
      const bool always = slotted != plan->accumulator_of.end();
      const int64_t begin = always ? 0 : positions.at(sum.resident() ? sum.home : sum.first),
                    end = always ? INT64_MAX : LoadedBy(fn, *plan, uses, positions, sum),
                    slots = always ? plan->accumulators[slotted->second].slots : 1;
      const bool home = sum.resident() && !always;
      plan->sum_columns[{static_cast<int>(role), i}] =
          columns.Place({begin, end, PartsOf(*plan, first.split, shape, "f"), true, home},
                        slots * TensorColumns(shape[0], shape[1]));
      // Left operands of a resident sum have one place: it is awaited before each is stored.
      int64_t most = 0, together = -1;
      for (OpId dot : sum.dots)
        if (const OperandPlan& a = plan->tiles.dots.at(dot).a; a.how == OperandPlan::How::kTensor)
          most = std::max(
              most, TensorOperandColumns(fn.type(a.source).shape[0], fn.type(a.source).shape[1]));
      for (OpId dot : sum.dots) {
        const OperandPlan& a = plan->tiles.dots.at(dot).a;
        if (a.how != OperandPlan::How::kTensor) continue;
        const std::vector<int64_t>& left = fn.type(a.source).shape;
        const auto split = SplitOfLanes(first.unit, fn.type(a.source),
                                        plan->tiles.layouts.at(a.source), plan->tiles.warpgroups);
        const std::string map = PartsOf(*plan, split.value_or(WgSplit::kNone), left, "h");
        if (!sum.resident())
          together = columns.Place({positions.at(dot), end, map, false, false},
                                   TensorOperandColumns(left[0], left[1]));
        else if (together < 0)
          together = columns.Place({begin, end, map, false, home}, most);
        plan->operand_columns[{static_cast<int>(role), dot}] = together;
      }
      for (OpId dot : sum.dots) {
        const Op& op = fn.ops[dot];
        if (op.operands.size() <= 3) continue;
        const auto place = [&](int64_t rows, int64_t scales) {
          return columns.Place({begin, end, "", false, false}, TensorScaleColumns(rows, scales));
        };
        const std::vector<int64_t>& a = fn.type(op.operands[3]).shape;
        const std::vector<int64_t>& b = fn.type(op.operands[4]).shape;
        const int64_t left = place(a[0], a[1]);
        plan->scale_columns[{static_cast<int>(role), dot}] = {left, place(b[1], b[0])};
      }
    }
    base = columns.end();
  }
  return base;
}

}  // namespace

int64_t PlaceTensorSums(const Function& fn, const std::vector<std::vector<size_t>>& sums_of_role,
                        ProgramPlan* plan) {
  // A tile that all warpgroups have is stored by one of them.
  plan->tensor_meets = plan->tiles.warpgroups > 1 && !plan->HasIssuer() &&
                       std::any_of(plan->sums.begin(), plan->sums.end(), [&](const TensorSum& sum) {
                         return plan->tiles.dots.at(sum.dots[0]).split == WgSplit::kNone;
                       });
  const int64_t apart = ColumnsOfSums(fn, sums_of_role, false, plan);
  if (apart <= kTensorColumns || plan->tiles.warpgroups == 1 || plan->HasIssuer()) return apart;
  plan->tensor_meets = true;
  return ColumnsOfSums(fn, sums_of_role, true, plan);
}

}  // namespace tilec::ir
