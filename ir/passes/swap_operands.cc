// A product whose right operand threads compute is swapped: what they compute becomes the left
// operand, which the tensor core takes from registers.
//
//     acc = acc + A · Wᵀ, W = cast(load)   →   accᵀ = accᵀ + W · Aᵀ
//
// As a right operand W would be written to shared memory, fenced and read there by every
// warpgroup, 64 rows of A after another. As the left one its rows are divided among warpgroups, and
// nothing is written. The sums are the same, in the same order of k.
//
// So is a product of loaded tiles whose rows would fill the last block of the instruction's rows in
// part, and whose columns are whole blocks: 200 rows by 128 columns are four blocks of 64 rows, 128
// rows by 200 columns two, of the same width as the tile. Or whose rows three warpgroups would
// share that have no registers for instructions as wide: 192 rows by 256 columns.
//
// And one of few rows whose left operand is [K, M]: see CopiesOthersRows.
//
// The accumulator of a loop is carried transposed, and what is computed from it until it is stored
// is transposed, too; only the store transposes, on its way through shared memory, where that is
// free. So the products of a function are swapped all or none: if each result meets nothing
// but elementwise work, vectors, constants and other such results until TMA stores it.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "ir/isa.h"
#include "ir/lower/operands.h"
#include "ir/lower/widest_product.h"
#include "ir/passes/passes.h"
#include "ir/passes/rewrite.h"
#include "ir/uses.h"

namespace tilec::ir {
namespace {

class Swap {
 public:
  Swap(Function& fn, const Target& target) : fn_(fn), target_(target), uses_(fn) {}

  int Run() {
    for (OpId id : OpsInOrder(fn_))
      if (fn_.ops[id].kind == OpKind::kFor) FindSums(id);
    if (sums_.empty()) return 0;
    // What is computed from the results, in order.
    for (const Sum& sum : sums_) turned_.insert(fn_.ops[sum.loop].results[sum.carried]);
    std::vector<OpId> work, stores;
    for (OpId id : OpsInOrder(fn_)) {
      const Op& op = fn_.ops[id];
      if (IsOfSum(id)) continue;
      bool meets = false;
      for (ValueId v : op.operands) meets = meets || turned_.count(v) > 0;
      if (!meets) continue;
      if (op.kind == OpKind::kStore && turned_.count(op.operands[1]) && Storable(op))
        stores.push_back(id);
      else if (Info(op.kind).elementwise() && op.results.size() == 1 && AllTurn(op))
        work.push_back(id), turned_.insert(op.results[0]);
      else
        return 0;
    }
    for (const Sum& sum : sums_) Turn(sum);
    for (OpId id : work) Turn(id);
    for (OpId id : stores) TurnBack(id);
    return static_cast<int>(sums_.size());
  }

 private:
  // The products of an iteration that add, one after another, to what the loop carries.
  struct Sum {
    OpId loop;
    size_t carried;
    std::vector<OpId> dots;
  };

  void FindSums(OpId loop) {
    for (size_t i = 0; i < fn_.ops[loop].results.size(); ++i) {
      Sum sum{loop, i, AddedUp(fn_, uses_, fn_.ops[loop], i)};
      if (!sum.dots.empty() && std::all_of(sum.dots.begin(), sum.dots.end(),
                                           [&](OpId dot) { return Wants(fn_.ops[dot]); }))
        sums_.push_back(std::move(sum));
    }
  }

  bool IsOfSum(OpId id) const {
    return std::any_of(sums_.begin(), sums_.end(), [&](const Sum& sum) {
      return std::count(sum.dots.begin(), sum.dots.end(), id) > 0;
    });
  }

  bool Wants(const Op& dot) const {
    if (!IsOnUnit(fn_, dot, target_) || dot.i("promote") != 0) return false;
    const Type &a = fn_.type(dot.operands[0]), &b = fn_.type(dot.operands[1]);
    if (WastesRows(dot) || CopiesOthersRows(dot)) return true;
    if (ByteSize(a.dtype) != 2 || a.shape[1] % 16 != 0 || b.shape[1] % target_.unit().rows != 0 ||
        a.shape[0] % 8 != 0 || a.shape[0] > target_.unit().most_columns)
      return false;
    const Op* left = fn_.def(Without(fn_, OpKind::kTranspose, dot.operands[0]).value);
    const Stripped right = Without(fn_, OpKind::kTranspose, dot.operands[1]);
    const Op* made = fn_.def(right.value);  // by threads, in every iteration
    return left && left->kind == OpKind::kLoad && right.odd() && made && made->block == dot.block &&
           Info(made->kind).elementwise() && MadeOfLoads(fn_, right.value);
  }

  // Few rows that lie along the contracted dim, [K, 8]: as a left operand they would be copied as a
  // whole block of columns, most of them outside of the tensor; as the right one as they are.
  // (H200, 8x23968x20704 of bf16: 317 us, 259 so; 8x680x424 of f16 5.1, 2.5.)
  bool CopiesOthersRows(const Op& dot) const {
    const Type &a = fn_.type(dot.operands[0]), &b = fn_.type(dot.operands[1]);
    const MatrixUnitInfo& unit = target_.unit();
    const Stripped left = Without(fn_, OpKind::kTranspose, dot.operands[0]);
    const Stripped right = Without(fn_, OpKind::kTranspose, dot.operands[1]);
    return unit.completion == Completion::kGroups && a.shape[0] < unit.rows &&
           a.shape[0] % 8 == 0 && b.shape[1] % unit.rows == 0 && ByteSize(a.dtype) == 2 &&
           left.odd() && IsLoaded(left.value) && IsLoaded(right.value);
  }

  // Rows that are no whole blocks, or blocks for three warpgroups whose instructions are too wide
  // for what each thread has then (ir/lower/widest_product.h): as columns they are whole, and two
  // warpgroups have them. Not where one block has all rows: there memory decides, and columns are
  // read as they are.
  bool WastesRows(const Op& dot) const {
    const Type &a = fn_.type(dot.operands[0]), &b = fn_.type(dot.operands[1]);
    const MatrixUnitInfo& unit = target_.unit();
    const int64_t rows = a.shape[0], columns = b.shape[1];
    if (unit.completion != Completion::kGroups || rows <= unit.rows || rows % 8 != 0 ||
        rows > unit.most_columns || columns < 2 * unit.rows || columns % unit.rows != 0 ||
        !(LeavesRowsEmpty(rows) || IsTooWide(dot, rows, columns)))
      return false;
    const Stripped left = Without(fn_, OpKind::kTranspose, dot.operands[0]);
    const Stripped right = Without(fn_, OpKind::kTranspose, dot.operands[1]);
    const bool k_major = !left.odd() && right.odd();  // of either, before and after
    return IsLoaded(left.value) && IsLoaded(right.value) && (k_major || ByteSize(a.dtype) == 2);
  }
  bool LeavesRowsEmpty(int64_t rows) const {
    constexpr int64_t kLeastPercent = 10;  // of the work, which the iteration is to save
    const int64_t whole = RoundUp(rows, target_.unit().rows);
    return 100 * (whole - rows) >= kLeastPercent * whole;
  }
  bool IsTooWide(const Op& dot, int64_t rows, int64_t columns) const {
    const DType sum = fn_.type(dot.results[0]).dtype;
    return TooWideInRows(rows, columns, sum, target_) &&
           !TooWideInRows(columns, rows, sum, target_);
  }
  bool IsLoaded(ValueId v) const {
    const Op* def = fn_.def(v);
    return def && def->kind == OpKind::kLoad;
  }

  bool Storable(const Op& store) const {
    return std::count(store.operands.begin(), store.operands.end(), store.operands[1]) == 1 &&
           CanStage(fn_, store, target_);
  }

  bool AllTurn(const Op& op) const {
    return std::all_of(op.operands.begin(), op.operands.end(), [&](ValueId v) {
      if (!fn_.type(v).is_tile() || turned_.count(v)) return true;
      const Op* def = fn_.def(v);
      return def && (def->kind == OpKind::kConstant || IsVector(*def));
    });
  }

  bool IsVector(const Op& op) const {
    if (op.kind != OpKind::kBroadcast) return false;
    const int64_t rank = fn_.type(op.operands[0]).rank();
    return rank <= 1 || (rank == 2 && op.ints("axes") == std::vector<int64_t>{0, 1});
  }

  // ---- the rewrite -------------------------------------------------------------------------
  template <typename F>
  ValueId InFront(OpId of, F&& make) {
    const BlockId block = fn_.ops[of].block;
    std::vector<OpId>& before = fn_.blocks[block].ops;
    const std::ptrdiff_t place = std::find(before.begin(), before.end(), of) - before.begin();
    const std::ptrdiff_t end = static_cast<std::ptrdiff_t>(before.size());
    Builder b(fn_, block);
    b.SetSpan(fn_.ops[of].at);
    const ValueId made = make(b);
    std::vector<OpId>& ops = fn_.blocks[block].ops;
    std::rotate(ops.begin() + place, ops.begin() + end, ops.end());
    return made;
  }
  static Type Flipped(Type type) {
    std::swap(type.shape[0], type.shape[1]);
    return type;
  }
  ValueId Transposed(OpId of, ValueId v) {
    return InFront(of, [&](Builder& b) {
      return b.Value(OpKind::kTranspose, {v}, Flipped(fn_.type(v)),
                     {{"perm", std::vector<int64_t>{1, 0}}});
    });
  }
  void Flip(ValueId v) { fn_.values[v].type = Flipped(fn_.type(v)); }

  void Turn(const Sum& sum) {
    const Op loop = fn_.ops[sum.loop];
    const ValueId init = loop.operands[2 + sum.carried];
    fn_.ops[sum.loop].operands[2 + sum.carried] = Operand(sum.loop, init);
    Flip(loop.results[sum.carried]);
    Flip(fn_.blocks[loop.regions[0]].args[1 + sum.carried]);
    for (OpId dot : sum.dots) {
      const ValueId a = fn_.ops[dot].operands[0], b = fn_.ops[dot].operands[1];
      const ValueId left = Transposed(dot, b), right = Transposed(dot, a);
      fn_.ops[dot].operands[0] = left;
      fn_.ops[dot].operands[1] = right;
      Flip(fn_.ops[dot].results[0]);
    }
  }

  // What stands for a tile that is not swapped itself.
  ValueId Operand(OpId of, ValueId v) {
    const Op* def = fn_.def(v);
    if (def && def->kind == OpKind::kConstant) {
      const Attrs attrs = def->attrs;
      return InFront(of, [&](Builder& b) {
        return b.Value(OpKind::kConstant, {}, Flipped(fn_.type(v)), attrs);
      });
    }
    if (def && IsVector(*def)) {
      ValueId vector = def->operands[0];
      std::vector<int64_t> axes = def->ints("axes");
      if (axes.size() == 2)
        vector = Transposed(of, vector);
      else
        for (int64_t& axis : axes) axis = 1 - axis;
      return InFront(of, [&](Builder& b) {
        return b.Value(OpKind::kBroadcast, {vector}, Flipped(fn_.type(v)), {{"axes", axes}});
      });
    }
    return Transposed(of, v);
  }

  void Turn(OpId id) {
    for (size_t i = 0; i < fn_.ops[id].operands.size(); ++i) {
      const ValueId v = fn_.ops[id].operands[i];
      if (!fn_.type(v).is_tile() || turned_.count(v)) continue;
      const ValueId by = Operand(id, v);
      fn_.ops[id].operands[i] = by;
    }
    Flip(fn_.ops[id].results[0]);
  }

  void TurnBack(OpId store) {
    const ValueId back = Transposed(store, fn_.ops[store].operands[1]);
    fn_.ops[store].operands[1] = back;
  }

  Function& fn_;
  const Target& target_;
  const Uses uses_;
  std::vector<Sum> sums_;
  std::set<ValueId> turned_;  // values that are carried and computed transposed
};

}  // namespace

Result<> SwapOperands(Function& fn, PassContext& cx) {
  cx.changes += Swap(fn, cx.target).Run();
  return Done();
}

}  // namespace tilec::ir
