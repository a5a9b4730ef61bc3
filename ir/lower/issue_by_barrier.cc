// Products that complete at an mbarrier (tcgen05): one thread issues them, they add to columns of
// tensor memory, and a commit makes an mbarrier say that all before it are done. What threads do
// with an accumulator is done by a load before and a store behind: sums (tensor_sums.h) begin, take
// products, and are loaded once.
//
// Tensor memory is ordered by the barriers of the threads only between two fences: one before a
// thread tells others what it did there, one after it was told (PTX ISA, "tcgen05.fence"). They
// stand at each wait for products, and around the meeting in front of a sum's first product.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ir/lower/emitter.h"
#include "ir/lower/operands.h"
#include "ir/lower/scalars.h"
#include "ir/queries.h"

namespace tilec::ir {

bool Emitter::InTensorMemoryAlone(ValueId v) const {
  return std::any_of(p_.sum_columns.begin(), p_.sum_columns.end(), [&](const auto& placed) {
    const TensorSum& sum = p_.sums[placed.first.second];
    return placed.first.first == role_ &&
           (sum.inside.count(v) || (sum.result == v && !in_.def(v)->regions.empty()));
  });
}

// The sums that a loop carries, in order.
std::vector<size_t> Emitter::SumsCarriedBy(OpId loop) const {
  std::vector<size_t> out;
  for (const auto& [placed, column] : p_.sum_columns) {
    const auto& loops = p_.sums[placed.second].loops;
    const bool here =
        part_ == Part::kIssuer
            ? LeftToIssuer(placed.second) && p_.sum_for.at(placed.second) == placed.first
            : placed.first == role_ && !LeftToIssuer(placed.second);
    if (part_ != Part::kProducer && here &&
        std::any_of(loops.begin(), loops.end(), [&](const auto& of) { return of.first == loop; }))
      out.push_back(placed.second);
  }
  return out;
}

// Of the whole tile.
Attrs Emitter::TensorPlace(size_t sum) const {
  const OpId id = p_.sums[sum].dots[0];
  const DotPlan& dot = plan_.dots.at(id);
  return {{"column", p_.sum_columns.at({role_, sum})},
          {"n", in_.type(in_.ops[id].results[0]).shape[1]},
          {"first", int64_t{0}},
          {"split", std::string(NameOf(dot.split))},
          {"unit", std::string(Info(dot.unit).name)}};
}

Type Emitter::SumType(size_t sum) {
  const OpId dot = p_.sums[sum].dots[0];
  const Type& type = in_.type(in_.ops[dot].results[0]);
  return Type::Tile(type.dtype, type.shape, out_.Intern(plan_.dots.at(dot).acc));
}

// Nobody loads the columns any more, and what the sum begins with is there.
void Emitter::BeginSum(size_t i, bool from_zero) {
  const TensorSum& sum = p_.sums[i];
  if (!from_zero) {
    const Type inner = SumType(i);
    const ValueId tile = Tile(sum.init);
    const Layout outside = out_.type(tile).shape.empty()
                               ? ReplicatedLayout(inner.shape, plan_.threads())
                               : Unsqueeze(out_.layout(tile), inner.shape);
    const ValueId stored =
        InLayout(Reshape_(tile, inner.shape, outside), out_.layouts[inner.layout]);
    MeetBeforeStores();
    b_.Add(OpKind::kTmemStore, {stored, tensor_memory_}, {}, TensorPlace(i));
  }
  sums_[i].adds = b_.Constant(Type::Scalar(DType::kBool), from_zero ? 0 : 1);
}

// What threads stored for the next product, and loaded from the columns it writes, is done.
void Emitter::MeetBeforeProducts() {
  b_.Add(OpKind::kTcFence, {}, {}, {{"after", int64_t{0}}});
  Sync();
  b_.Add(OpKind::kTcFence, {}, {}, {{"after", int64_t{1}}});
}

bool Emitter::BeginSums(OpId id) {
  bool any = false;
  for (size_t i = 0; i < p_.sums.size(); ++i) {
    if (p_.sums[i].first != id || !p_.sum_columns.count({role_, i})) continue;
    if (p_.sums[i].resident() || LeftToIssuer(i)) continue;
    BeginSum(i, p_.sums[i].from_zero);
    any = true;
  }
  return any;
}

void Emitter::EndSums(OpId id) {
  for (size_t i = 0; i < p_.sums.size(); ++i) {
    if (p_.sums[i].last != id || !p_.sum_columns.count({role_, i})) continue;
    if (p_.sums[i].resident()) continue;
    due_.push_back(i);
    if (LeftToIssuer(i)) sums_[i].committed = true;
    if (InFlight(i)) CommitSum(i);
    if (p_.sums[i].at_once) TakeSum(i);
  }
}

void Emitter::CommitTo(ValueId mbar, ValueId slot) {
  Elect([&](Builder& inner) {
    std::vector<ValueId> operands = {mbar};
    if (slot.valid()) operands.push_back(slot);
    inner.Add(OpKind::kTcCommit, std::move(operands), {}, PairAttr());
  });
}

// Was a product of it issued and not awaited since?
bool Emitter::InFlight(size_t i) const {
  return std::any_of(issued_.begin(), issued_.end(),
                     [&](const Issued& product) { return product.sum == i; });
}

// Of a resident sum the counter says how many commits there were, and a wait is for the last: where
// there was none it passes at once. Of others it says how many were awaited.
// Where one role does everything, all meet between a wait and the next commit: nobody may still be
// at the wait when the barrier completes a phase more.
void Emitter::CommitSum(size_t i) {
  const SumState& sum = sums_[i];
  if (part_ == Part::kEverything && sum.awaited == meetings_ && sum.awaited_in == b_.block())
    Sync();
  CommitTo(sums_[i].mbar, {});
  if (p_.sums[i].resident())
    b_.Add(OpKind::kCounterAdd, {sums_[i].counter}, {}, {{"by", int64_t{1}}});
  sums_[i].committed = true;
  sums_[i].quiet = false;
}

// All products of the role up to the sum's last one are complete.
void Emitter::AwaitSum(size_t i) {
  if (LeftToIssuer(i)) return TakeAccumulator(i);
  SumState& sum = sums_[i];
  const bool resident = p_.sums[i].resident();
  if (!sum.committed && !resident) CommitSum(i);
  sum.committed = false;
  sum.quiet = resident;
  const ValueId count = b_.Value(OpKind::kCounterRead, {sum.counter}, Type::Scalar(DType::kI32));
  const ValueId one = b_.Int(1, DType::kI32);
  ValueId parity = b_.Binary(OpKind::kAnd, count, one);
  if (resident) parity = b_.Binary(OpKind::kXor, parity, one);
  b_.Add(OpKind::kMbarWait, {sum.mbar, parity}, {});
  sum.awaited = meetings_, sum.awaited_in = b_.block();
  if (!resident) b_.Add(OpKind::kCounterAdd, {sum.counter}, {}, {{"by", int64_t{1}}});
  b_.Add(OpKind::kTcFence, {}, {}, {{"after", int64_t{1}}});
  const auto last = std::find_if(issued_.rbegin(), issued_.rend(),
                                 [&](const Issued& product) { return product.sum == i; });
  issued_.erase(issued_.begin(), last.base());
}

// Was there a product at all? Invalid: in any case.
ValueId Emitter::AnyProduct(size_t i) {
  const TensorSum& sum = p_.sums[i];
  if (sum.always || !sum.from_zero) return {};
  if (sum.segments.size() > 1) return sums_[i].adds;
  const Op& loop = in_.ops[sum.segments[0]];
  const int64_t *lo = IntConstantOf(in_, loop.operands[0]),
                *hi = IntConstantOf(in_, loop.operands[1]);
  const bool nested = sum.loops.size() > 1;
  if ((!nested || LeftToIssuer(i)) && lo && hi && *lo < *hi) return {};
  return nested ? sums_[i].adds : b_.Cmp("lt", Scalar(loop.operands[0]), Scalar(loop.operands[1]));
}

// The tile, or a slice of it from column `first` on, into registers; where there was no product it
// is zero.
ValueId Emitter::LoadSum(size_t i, const Type& type, int64_t first) {
  Attrs place = TensorPlace(i);
  for (auto& [name, value] : place)
    if (name == "first") value = first;
  const ValueId any = AnyProduct(i), from = TensorAddress(i);
  const auto have = [&](ValueId tile) {
    if (!LeftToIssuer(i)) return tile;
    sums_[i].loaded += type.shape[1];
    if (sums_[i].loaded >= in_.type(p_.sums[i].result).shape[1]) ReleaseAccumulator(i);
    return tile;
  };
  if (!any.valid()) return have(b_.Value(OpKind::kTmemLoad, {from}, type, std::move(place)));
  const OpId branch = b_.Add(OpKind::kIf, {any}, {type});
  const BlockId some = out_.AddBlock(branch), none = out_.AddBlock(branch);
  out_.ops[branch].regions = {some, none};
  const BlockId home = b_.block();
  b_.SetBlock(some);
  b_.Yield({b_.Value(OpKind::kTmemLoad, {from}, type, std::move(place))});
  b_.SetBlock(none);
  b_.Yield({b_.Constant(type, 0)});
  b_.SetBlock(home);
  return have(out_.ops[branch].results[0]);
}

void Emitter::TakeSum(size_t i) {
  std::erase(due_, i);
  const Span here = b_.span();
  b_.SetSpan(in_.ops[p_.sums[i].dots.back()].at);
  if (p_.sums[i].resident())
    AwaitQuiet(i);
  else if (sums_[i].committed)
    AwaitSum(i);
  Land(p_.sums[i].result, LoadSum(i, SumType(i), 0));
  b_.SetSpan(here);
}

void Emitter::TakeSums() {
  while (!due_.empty()) TakeSum(due_.front());
}

// May it stay in flight? Its operands lie in slots of rings, which commits release, or what threads
// stored in tensor memory is not stored again before the sum is awaited: a resident one is in front
// of every change.
bool Emitter::AwaitedLater(OpId id, size_t i) const {
  const DotPlan& dot = plan_.dots.at(id);
  const TensorSum& sum = p_.sums[i];
  const auto from_ring = [&](const OperandPlan& o) {
    return o.how == OperandPlan::How::kBuffer && p_.site_of.count(in_.values[o.source].def) > 0;
  };
  if (in_.ops[id].operands.size() > 3) return false;  // the next one's scales take the columns
  return (from_ring(dot.a) || (sum.resident() && dot.a.how == OperandPlan::How::kTensor)) &&
         from_ring(dot.b);
}

void Emitter::IssueByBarrier(OpId id, size_t i, const Columns& of) {
  const DotPlan& dot = plan_.dots.at(id);
  const Type& type = in_.type(in_.ops[id].results[0]);
  std::vector<ValueId> slots = OperandSlots(id);
  if (slots.empty()) slots = {b_.Int(0, DType::kI32), b_.Int(0, DType::kI32)};
  const bool left = dot.a.how == OperandPlan::How::kTensor;
  const ValueId a = left ? tensor_memory_ : OperandBuffer(id, true), b = OperandBuffer(id, false);
  Elect([&](Builder& inner) {
    inner.Add(OpKind::kTcMma, {TensorAddress(i), a, b, slots[0], slots[1], sums_[i].adds}, {},
              {{"m", type.shape[0]},
               {"n", type.shape[1]},
               {"k", of.k},
               {"k_begin", of.begin},
               {"trans_a", int64_t{dot.a.trans}},
               {"trans_b", int64_t{dot.b.trans}},
               {"column", p_.sum_columns.at({role_, i})},
               {"a_column", left ? p_.operand_columns.at({role_, id}) : int64_t{-1}},
               {"unit", std::string(Info(dot.unit).name)}});
    if (p_.pair) out_.ops[out_.blocks[inner.block()].ops.back()].set("pair", int64_t{1});
    if (const auto scales = p_.scale_columns.find({role_, id}); scales != p_.scale_columns.end()) {
      Op& product = out_.ops[out_.blocks[inner.block()].ops.back()];
      const Type& scale = in_.type(in_.ops[id].operands[3]);
      const Type& factor = in_.type(in_.ops[id].operands[0]);
      product.set("block", BlockOfScale(factor, scale));
      product.set("scale", std::string(Spelling(scale.dtype)));
      product.set("a_scales", scales->second.first);
      product.set("b_scales", scales->second.second);
    }
  });
  sums_[i].adds = b_.Constant(Type::Scalar(DType::kBool), 1);
  issued_.push_back({i, p_.RingsReadBy(in_, id)});
}

// Threads are about to release a slot that products may still read. They meet first: nobody may
// still be at the wait before.
void Emitter::AwaitReadersOf(size_t channel) {
  for (const Issued& product : issued_) {
    if (!std::count(product.channels.begin(), product.channels.end(), channel)) continue;
    Sync();
    return AwaitSum(product.sum);
  }
}

Result<> Emitter::Accumulate(OpId id) {
  const size_t i = p_.sum_of.at(id);
  const DotPlan& dot = plan_.dots.at(id);
  StoreOperands(id);
  FlushLoads();
  if (dot.promote > 0) return AccumulateParts(id, i);
  const bool left = dot.a.how == OperandPlan::How::kTensor;
  const bool stored = left_stored_.erase(id) > 0;
  if (left && !stored) Tile(dot.a.source);
  const bool scaled = in_.ops[id].operands.size() > 3;
  const bool resident = p_.sums[i].resident();
  const bool begun = BeginSums(id) || resident;
  if (resident) AwaitQuiet(i);
  if (left && !stored) StoreLeft(id);
  if (scaled) StoreScales(id);
  if (begun || left || scaled) MeetBeforeProducts();
  if (resident) sums_[i].adds = b_.Constant(Type::Scalar(DType::kBool), 1);
  IssueByBarrier(id, i, {false, 0, dot.k_padded});
  if (resident) CommitSum(i);
  if (!AwaitedLater(id, i)) AwaitSum(i);
  EndSums(id);
  LeaveHomes(in_.ops[id]);
  return Done();
}

// fp8 with promotion: partial products of `promote` columns, added in f32 by threads.
Result<> Emitter::AccumulateParts(OpId id, size_t i) {
  const Op& op = in_.ops[id];
  const DotPlan& dot = plan_.dots.at(id);
  const Type inner = SumType(i);
  const ValueId tile = Tile(op.operands[2]);
  const Layout outside = out_.type(tile).shape.empty()
                             ? ReplicatedLayout(inner.shape, plan_.threads())
                             : Unsqueeze(out_.layout(tile), inner.shape);
  ValueId acc = InLayout(Reshape_(tile, inner.shape, outside), dot.acc);
  for (int64_t k = 0; k < dot.k_padded; k += dot.promote) {
    BeginSum(i, true);
    MeetBeforeProducts();
    IssueByBarrier(id, i, {true, k, std::min(dot.promote, dot.k_padded - k)});
    AwaitSum(i);
    acc = b_.Binary(OpKind::kAdd, acc,
                    b_.Value(OpKind::kTmemLoad, {tensor_memory_}, inner, TensorPlace(i)));
  }
  Land(op.results[0], acc);
  return Done();
}

}  // namespace tilec::ir
