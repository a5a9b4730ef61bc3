// Sums that a loop changes between its products (attention rescales its output, and weights that
// threads compute are its left operand): they stay in their columns of tensor memory. What changes
// them is made by slices of columns, loaded, changed and stored again, so that a thread never holds
// a row of them. In the loop
//
//     acc = 0; for k { acc = acc · α(k) + p(k) · v(k) }
//
// an iteration awaits the last one's product, changes the sum, stores p, meets, and issues its own
// product, which stays in flight (resident_sums.h finds them). Left operands of 16 bits have
// columns of their own.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ir/lower/emitter.h"
#include "ir/lower/tensor_sums.h"

namespace tilec::ir {

// The sum whose slices `v` is made of, if nothing has loaded it as a whole and nothing will: the
// one that is being changed, or one that only ops of `sliced` read.
std::optional<size_t> Emitter::SumBySlices(const std::set<OpId>& sliced, ValueId v) const {
  if (changing_) return changed_ == v ? changing_ : std::nullopt;
  for (size_t i : due_) {
    const DotPlan& dot = plan_.dots.at(p_.sums[i].dots[0]);
    const auto layout = plan_.layouts.find(v);
    if (p_.sums[i].result != v || layout == plan_.layouts.end() || !(layout->second == dot.acc) ||
        ColumnsOfSlice(in_.type(v), dot.acc) == 0)
      continue;
    const std::span<const Uses::Use> uses = uses_.of(v);
    if (std::all_of(uses.begin(), uses.end(),
                    [&](const Uses::Use& use) { return sliced.count(use.reader) > 0; }))
      return i;
  }
  return {};
}

// In front of a store by panels, whose staging bytes nothing else has: of sums in tensor memory
// everything is awaited, and loaded but for what it loads by slices.
void Emitter::SettleForStore(OpId store) {
  const std::set<OpId>& sliced = p_.epilogues.at(store).sliced;
  std::vector<size_t> left;
  for (size_t i : std::vector<size_t>(due_)) {
    if (!SumBySlices(sliced, p_.sums[i].result)) continue;
    if (p_.sums[i].resident())
      AwaitQuiet(i);
    else if (sums_[i].committed)
      AwaitSum(i);
    std::erase(due_, i);
    left.push_back(i);
  }
  if (!p_.sums.empty()) SettleAll();
  due_.insert(due_.end(), left.begin(), left.end());
}

// The store has taken all slices: sums that were loaded by them are loaded.
void Emitter::EndSlices(OpId store) {
  const std::set<OpId>& sliced = p_.epilogues.at(store).sliced;
  std::vector<size_t> loaded;
  for (const auto& [of, slice] : slices_)
    if (const std::optional<size_t> sum = SumBySlices(sliced, of.first)) loaded.push_back(*sum);
  for (size_t sum : loaded) std::erase(due_, sum);
  slices_.clear();
}

void Emitter::StoreColumns(size_t i, ValueId tile, int64_t first) {
  Attrs place = TensorPlace(i);
  for (auto& [name, value] : place)
    if (name == "first") value = first;
  b_.Add(OpKind::kTmemStore, {tile, tensor_memory_}, {}, std::move(place));
}

// In front of a loop: what its sums begin with lies in their columns.
void Emitter::EnterHomes(OpId loop) {
  for (size_t i = 0; i < p_.sums.size(); ++i) {
    const TensorSum& sum = p_.sums[i];
    if (sum.home != loop || !p_.sum_columns.count({role_, i})) continue;
    const Layout& layout = plan_.dots.at(sum.dots[0]).acc;
    const int64_t width = ColumnsOfSlice(in_.type(sum.init), layout);
    const std::set<OpId> entry = sum.entry.value_or(std::set<OpId>());
    MeetBeforeStores();
    if (width == 0) StoreColumns(i, InLayout(Tile(sum.init), layout), 0);
    for (int64_t first = 0; width > 0 && first < in_.type(sum.init).shape[1]; first += width)
      StoreColumns(i, Slice(entry, sum.init, layout, first, width), first);
    // A sum that it begins with was loaded by these slices; its columns may be these.
    std::erase_if(due_, [&](size_t due) {
      return SumBySlices(entry, p_.sums[due].result) &&
             slices_.count({p_.sums[due].result, int64_t{0}}) > 0;
    });
    slices_.clear();
    sums_[i].quiet = true;
  }
}

// Behind an op: sums that it has the last value of are to be loaded.
void Emitter::LeaveHomes(const Op& op) {
  for (size_t i = 0; i < p_.sums.size(); ++i)
    if (p_.sums[i].resident() && p_.sum_columns.count({role_, i}) &&
        std::count(op.results.begin(), op.results.end(), p_.sums[i].result))
      due_.push_back(i);
}

// The op makes the next value of the sum, in its columns.
void Emitter::ChangeSum(size_t i, OpId head) {
  const TensorSum::Change& change = p_.sums[i].changes.at(head);
  const ValueId next = in_.ops[head].results[0];
  const Layout& layout = plan_.dots.at(p_.sums[i].dots[0]).acc;
  const int64_t width = ColumnsOfSlice(in_.type(next), layout);
  FlushLoads();
  AwaitQuiet(i);
  MeetBeforeStores();
  changing_ = i;
  changed_ = change.from;
  for (int64_t first = 0; first < in_.type(next).shape[1]; first += width)
    StoreColumns(i, Slice(change.ops, next, layout, first, width), first);
  changing_.reset();
  slices_.clear();
}

// Its products are complete.
void Emitter::AwaitQuiet(size_t i) {
  if (!sums_[i].quiet) AwaitSum(i);
}

// Left operands are converted behind the last other reader of what they are made of: row sums need
// all of it at once, and a narrow copy beside it would cost half as much again.
std::vector<OpId> Emitter::LeftsBehindReaders(std::vector<OpId> ops) const {
  for (const TensorSum& sum : p_.sums)
    for (OpId dot : sum.dots) {
      const OperandPlan& a = plan_.dots.at(dot).a;
      const OpId made =
          sum.resident() && a.how == OperandPlan::How::kTensor ? in_.values[a.source].def : OpId();
      if (!made.valid() || in_.ops[made].kind != OpKind::kCast || uses_.count(a.source) != 1)
        continue;
      const auto first = std::find(ops.begin(), ops.end(), made);
      const auto product = std::find(first, ops.end(), dot);
      if (product == ops.end()) continue;
      auto behind = first;
      for (auto at = first + 1; at != product; ++at) {
        const std::vector<ValueId>& reads = in_.ops[*at].operands;
        if (std::count(reads.begin(), reads.end(), in_.ops[made].operands[0]) > 0) behind = at;
      }
      std::rotate(first, first + 1, behind + 1);
    }
  return ops;
}

// What is there of left operands of sums at rest goes to its columns at once, behind the op with
// number `behind` of a block: threads that held it until its product would hold it beside the next
// scores.
void Emitter::StoreLefts(const std::vector<OpId>& ops, size_t behind) {
  for (size_t i = 0; i < p_.sums.size(); ++i) {
    const TensorSum& sum = p_.sums[i];
    if (!sum.resident() || !sums_[i].quiet || !p_.sum_columns.count({role_, i})) continue;
    // The columns are its own up to there: other products of the sum may stand in other regions.
    const auto next = std::find_if(ops.begin() + static_cast<std::ptrdiff_t>(behind) + 1, ops.end(),
                                   [&](OpId id) {
                                     return std::count(sum.dots.begin(), sum.dots.end(), id) > 0 ||
                                            !in_.ops[id].regions.empty();
                                   });
    if (next == ops.end() || !in_.ops[*next].regions.empty() || left_stored_.count(*next)) continue;
    const OperandPlan& a = plan_.dots.at(*next).a;
    if (a.how != OperandPlan::How::kTensor || !map_.count(a.source)) continue;
    b_.SetSpan(in_.ops[*next].at);
    StoreLeft(*next);
    left_stored_.insert(*next);
  }
}

// A left operand, to its columns.
void Emitter::StoreLeft(OpId id) {
  const DotPlan& dot = plan_.dots.at(id);
  const Type& type = in_.type(dot.a.source);
  ValueId tile = Tile(dot.a.source);
  const Layout& layout = plan_.layouts.at(dot.a.source);
  const auto split = SplitOfLanes(dot.unit, type, layout, plan_.warpgroups);
  CHECK(split, "a left operand that does not lie as lanes");
  tile = Reshape_(InLayout(tile, layout), type.shape, layout);
  MeetBeforeStores();
  b_.Add(OpKind::kTmemStore, {tile, tensor_memory_}, {},
         {{"column", p_.operand_columns.at({role_, id})},
          {"n", type.shape[1]},
          {"first", int64_t{0}},
          {"split", std::string(NameOf(*split))},
          {"unit", std::string(Info(dot.unit).name)}});
}

}  // namespace tilec::ir
