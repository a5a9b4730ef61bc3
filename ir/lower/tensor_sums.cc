// SPDX-License-Identifier: Apache-2.0
#include "ir/lower/tensor_sums.h"

#include <algorithm>

#include "ir/lower/buffers.h"
#include "ir/lower/scalars.h"
#include "ir/queries.h"

namespace tilec::ir {

namespace {

class Finder {
 public:
  Finder(const Function& fn, const LayoutPlan& tiles) : fn_(fn), tiles_(tiles), uses_(fn) {}

  std::vector<TensorSum> Run() {
    Walk(fn_.body);
    return std::move(sums_);
  }

 private:
  bool Sums(OpId id) const {
    const auto dot = tiles_.dots.find(id);
    return dot != tiles_.dots.end() && dot->second.unit != MatrixUnit::kNone &&
           InTensorMemory(dot->second.unit);
  }
  bool Adds(OpId id) const { return Sums(id) && tiles_.dots.at(id).promote == 0; }

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
      if (index != 2 || !Adds(id) || !Alike(id, *sum)) return false;
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
    const Op* init = fn_.def(sum.init);
    sum.from_zero = init && init->kind == OpKind::kConstant && init->number("value") == 0;
    for (OpId dot : sum.dots) taken_.insert(dot);
    for (const auto& loop : sum.loops) known_.insert(loop);
    sums_.push_back(std::move(sum));
  }

  const Function& fn_;
  const LayoutPlan& tiles_;
  const Uses uses_;
  std::vector<TensorSum> sums_;
  std::set<OpId> taken_;
  std::set<std::pair<OpId, size_t>> known_;
};

// Until it is loaded: where it is used, or where the block ends if nobody does, or if what uses it
// is left to a later place.
int64_t LoadedBy(const Function& fn, const ProgramPlan& plan, const Uses& uses,
                 const Positions& positions, const TensorSum& sum) {
  const BlockId block = fn.ops[sum.first].block;
  int64_t end = -1;
  for (const Uses::Use& use : uses.of(sum.result)) {
    const OpId at = AncestorIn(fn, block, use.reader);
    if (!at.valid() || plan.deferred.count(use.reader))
      return positions.at(fn.blocks[block].ops.back());
    end = std::max(end, positions.at(at));
  }
  return end < 0 ? positions.at(fn.blocks[block].ops.back()) : end;
}

struct Life {
  size_t sum = 0;
  int64_t begin = 0, end = 0, columns = 0, at = 0;
};

}  // namespace

std::vector<TensorSum> FindTensorSums(const Function& fn, const LayoutPlan& tiles) {
  return Finder(fn, tiles).Run();
}

int64_t PlaceTensorSums(const Function& fn, const std::vector<std::vector<size_t>>& sums_of_role,
                        ProgramPlan* plan) {
  const Positions positions(fn);
  const Uses uses(fn);
  int64_t base = 0;
  for (size_t role = 0; role < sums_of_role.size(); ++role) {
    std::vector<Life> lives;
    int64_t end = base;
    for (size_t i : sums_of_role[role]) {
      const TensorSum& sum = plan->sums[i];
      const Type& type = fn.type(fn.ops[sum.dots[0]].results[0]);
      Life life = {i, positions.at(sum.first), positions.at(sum.last),
                   TensorColumns(type.shape[0], type.shape[1]), base};
      life.end = LoadedBy(fn, *plan, uses, positions, sum);
      for (bool again = true; again;) {
        again = false;
        for (const Life& other : lives)
          if (other.begin <= life.end && life.begin <= other.end &&
              other.at < life.at + life.columns && life.at < other.at + other.columns)
            life.at = other.at + other.columns, again = true;
      }
      plan->sum_columns[{static_cast<int>(role), i}] = life.at;
      end = std::max(end, life.at + life.columns);
      lives.push_back(life);
    }
    base = end;
  }
  return base;
}

}  // namespace tilec::ir
