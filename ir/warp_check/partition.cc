// Refines classes of values and loops: two are apart once what makes them, or where they stand, is.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/warp_check/partition.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <set>

namespace tilec::ir::warp_check {

namespace {

int64_t NumberOf(const std::string& text) {
  return static_cast<int64_t>(std::hash<std::string>()(text));
}

}  // namespace

Partition::Partition(const Program& p)
    : p_(p),
      fn_(p.fn),
      value_(static_cast<size_t>(fn_.values.size()), 0),
      loop_(static_cast<size_t>(fn_.ops.size()), 0) {
  WalkOps(fn_, fn_.body, [&](OpId id) {
    const Op& op = fn_.ops[id];
    if (IsLoop(op.kind)) loops_.push_back(id);
    if (op.kind != OpKind::kFor) return;
    const OpId parent = fn_.blocks[op.block].parent;
    if (parent.valid() && Guards(fn_.ops[parent], op) && op.block == fn_.ops[parent].regions[0])
      guarded_[parent] = id;
    FindBehind(id);
  });
  for (int32_t v = 0; v < fn_.values.size(); ++v) {
    if (p_.steers[static_cast<size_t>(v)])
      scalars_.push_back(ValueId(v));
    else
      value_[static_cast<size_t>(v)] = -1 - v;  // congruent to nothing
  }
  size_t before = 0;
  for (size_t now = Refine(); now != before; now = Refine()) before = now;
  ForgetBehindElsewhere();
}

OpId Partition::Guarded(OpId branch) const {
  const auto it = guarded_.find(branch);
  return it == guarded_.end() ? OpId() : it->second;
}

OpId Partition::AsksOf(OpId branch) const {
  const auto it = behind_.find(branch);
  const OpId around = Guarded(branch);
  return around.valid() || it == behind_.end() ? around : it->second;
}

// Branches of one block with a loop, behind it, that ask whether it ran: what products left in
// tensor memory is loaded only then.
void Partition::FindBehind(OpId loop) {
  const std::vector<OpId>& ops = fn_.blocks[fn_.ops[loop].block].ops;
  for (auto it = std::find(ops.begin(), ops.end(), loop); it != ops.end(); ++it)
    if (Guards(fn_.ops[*it], fn_.ops[loop])) behind_.try_emplace(*it, loop);
}

// A role that has no such loop asks by the condition, and so do all that stand behind one.
void Partition::ForgetBehindElsewhere() {
  std::set<int64_t> asked;
  WalkOps(fn_, fn_.body, [&](OpId id) {
    const Op& op = fn_.ops[id];
    if (op.kind == OpKind::kIf && !AsksOf(id).valid()) asked.insert(ValueClass(op.operands[0]));
  });
  std::erase_if(behind_, [&](const auto& entry) {
    return asked.count(ValueClass(fn_.ops[entry.first].operands[0])) > 0;
  });
}

// Without what only renames it: a pin, and a branch that asks whether the loop in it runs.
ValueId Partition::Plain(ValueId v) const {
  for (const Op* op = fn_.def(v); op; op = fn_.def(v)) {
    const ValueId as = op->kind == OpKind::kPin  ? op->operands[0]
                       : op->kind == OpKind::kIf ? ResultOfGuarded(v)
                                                 : ValueId();
    if (!as.valid()) break;
    v = as;
  }
  return v;
}

// `if lo < end { the loop over lo..end } else { what goes into it }` is the loop: with no
// iteration it hands on what went in. Its result in place of that of the branch, or invalid.
ValueId Partition::ResultOfGuarded(ValueId v) const {
  const OpId branch = fn_.values[v].def;
  const auto guarded = guarded_.find(branch);
  if (guarded == guarded_.end()) return {};
  const auto at = [](const std::vector<ValueId>& in, ValueId of) {
    return static_cast<size_t>(std::find(in.begin(), in.end(), of) - in.begin());
  };
  const Op &op = fn_.ops[branch], &loop = fn_.ops[guarded->second];
  const size_t i = at(op.results, v);
  const ValueId kept = Yield(op.regions[0], i);
  const size_t carried = at(loop.results, kept);
  const bool same =
      carried < loop.results.size() && Same(loop.operands[carried + 2], Yield(op.regions[1], i));
  return same ? kept : ValueId();
}

bool Partition::Same(ValueId a, ValueId b) const {
  a = Plain(a), b = Plain(b);
  if (a == b) return true;
  const Op *x = fn_.def(a), *y = fn_.def(b);
  return x && y && x->kind == OpKind::kConstant && y->kind == OpKind::kConstant &&
         x->number("value") == y->number("value");
}

bool Partition::Guards(const Op& branch, const Op& loop) const {
  if (branch.kind != OpKind::kIf) return false;
  const Op* asks = fn_.def(Plain(branch.operands[0]));
  return asks && asks->kind == OpKind::kCmp && asks->s("pred") == "lt" &&
         Same(asks->operands[0], loop.operands[0]) && Same(asks->operands[1], loop.operands[1]);
}

// Classes of this round from those of the last; how many there are.
size_t Partition::Refine() {
  Numbers numbers;
  paths_.Clear();
  std::vector<int64_t> values = value_, loops = loop_;
  for (ValueId v : scalars_) {
    values[static_cast<size_t>(v.index)] = numbers.Of(MadeOrGiven(v));
  }
  for (OpId id : loops_) {
    const Op& op = fn_.ops[id];
    Words text = {-1, LoopClass(id), static_cast<int64_t>(op.kind)};
    if (op.kind == OpKind::kFor)
      text.insert(text.end(),
                  {op.i("step"), ValueClass(op.operands[0]), ValueClass(op.operands[1])});
    else
      text.push_back(ValueClass(Yield(op.regions[0], 0)));
    text.push_back(Path(op.block, id));
    loops[static_cast<size_t>(id.index)] = numbers.Of(std::move(text));
  }
  value_ = std::move(values);
  loop_ = std::move(loops);
  return numbers.size();
}

// What has to hold for a block to be executed in an iteration of the loop around it.
int64_t Partition::Path(BlockId block, OpId loop) {
  const OpId parent = fn_.blocks[block].parent;
  if (!parent.valid()) return 0;
  const Op& op = fn_.ops[parent];
  const auto region = std::find(op.regions.begin(), op.regions.end(), block) - op.regions.begin();
  if (op.kind == OpKind::kRole) return 0;
  if (IsLoop(op.kind)) return paths_.Of({0, LoopClass(parent), region});
  if (op.kind == OpKind::kElect && op.operands.empty()) return Path(op.block);
  if (loop.valid() && Guarded(parent) == loop) return Path(op.block);
  return paths_.Of(
      {1, static_cast<int64_t>(op.kind), ValueClass(op.operands[0]), region, Path(op.block)});
}

// What was handed over as `v`, in the same iteration; invalid: nothing, or in another.
ValueId Partition::Given(ValueId v) {
  const auto it = p_.taken_from.find(v);
  if (it == p_.taken_from.end()) return {};
  const Program::Hand& hand = p_.hands[static_cast<size_t>(it->second)];
  return Path(fn_.ops[hand.put].block) == Path(fn_.ops[hand.take].block) ? hand.given : ValueId();
}

Words Partition::MadeOrGiven(ValueId v) {
  const ValueId given = Given(v);
  return given.valid() ? Made(given) : Made(v);
}

// How a loop makes its i-th carried value.
Words Partition::Carried(OpId id, size_t i, int64_t what) const {
  const Op& op = fn_.ops[id];
  const bool counts = op.kind == OpKind::kFor;
  return {what, LoopClass(id), ValueClass(op.operands[i + (counts ? 2 : 0)]),
          counts ? 0 : ValueClass(Yield(op.regions[0], i + 1)),
          ValueClass(Yield(op.regions[counts ? 0 : 1], i))};
}

Words Partition::Made(ValueId v) {
  const Value& value = fn_.values[v];
  Words text;
  text.reserve(16);
  text.assign({ValueClass(v), static_cast<int64_t>(value.type.dtype)});
  const auto add = [&](const Words& more) { text.insert(text.end(), more.begin(), more.end()); };
  const auto alone = [&] { return text.insert(text.end(), {-2, v.index}), text; };
  if (value.block.valid()) {
    const OpId parent = fn_.blocks[value.block].parent;
    if (!parent.valid() || !IsLoop(fn_.ops[parent].kind)) return alone();
    const Op& op = fn_.ops[parent];
    const std::vector<ValueId>& args = fn_.blocks[value.block].args;
    const auto i = static_cast<size_t>(std::find(args.begin(), args.end(), v) - args.begin());
    if (op.kind == OpKind::kWhile)
      add(Carried(parent, i, value.block == op.regions[0] ? -3 : -4));
    else if (i == 0)
      add({-5, LoopClass(parent)});
    else
      add(Carried(parent, i - 1, -6));
    return text;
  }
  if (!value.def.valid()) return alone();
  const Op& op = fn_.ops[value.def];
  const auto i =
      static_cast<size_t>(std::find(op.results.begin(), op.results.end(), v) - op.results.begin());
  if (IsLoop(op.kind)) return add(Carried(value.def, i, -7)), text;
  if (op.kind == OpKind::kIf) {
    // Of arms that make the same it does not matter which was taken: a role that only steers by
    // the value has one of them in place of the branch.
    const ValueId either = Plain(Yield(op.regions[0], i));
    if (ValueClass(either) == ValueClass(Yield(op.regions[1], i))) return MadeOrGiven(either);
    add({-8, ValueClass(op.operands[0]), ValueClass(Yield(op.regions[0], i)),
         ValueClass(Yield(op.regions[1], i))});
    return text;
  }
  const size_t before = text.size();
  if (Computed(op, text)) return text;
  text.resize(before);
  return alone();
}

// What it is computed from, behind `text`; false: by what no two ops have in common.
bool Partition::Computed(const Op& op, Words& text) const {
  text.push_back(static_cast<int64_t>(op.kind));
  size_t first = 0;
  switch (op.kind) {
    case OpKind::kProgramId: return true;
    case OpKind::kConstant: text.push_back(std::bit_cast<int64_t>(op.number("value"))); break;
    case OpKind::kCmp: text.push_back(NumberOf(op.s("pred"))); break;
    case OpKind::kGLoadScalar: {
      const Param* tensor = fn_.param(op.operands[0]);
      if (!tensor || tensor->direction != Direction::kIn) return false;
      text.insert(text.end(), {op.operands[0].index, op.i("has_fill")});
      first = 1;
      break;
    }
    default: break;
  }
  const bool pure = Info(op.kind).elementwise() || op.kind == OpKind::kConstant ||
                    op.kind == OpKind::kPin || op.kind == OpKind::kGLoadScalar;
  if (!pure) return false;
  for (size_t i = first; i < op.operands.size(); ++i) {
    if (!fn_.type(op.operands[i]).is_scalar()) return false;
    text.push_back(ValueClass(op.operands[i]));
    // Casts of integers keep the value, others need not.
    text.push_back(static_cast<int64_t>(fn_.type(op.operands[i]).dtype));
  }
  return true;
}

}  // namespace tilec::ir::warp_check
