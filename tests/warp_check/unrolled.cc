// A program unrolled: its roles are walked turn by turn with numbers for all scalars, and what each
// op does to memory and barriers is written down (unrolled_events.cc). The proof of a program
// (ir/warp_check) must say the same of it as a player of these events.
//
// SPDX-License-Identifier: Apache-2.0
#include "tests/warp_check/unrolled.h"

#include <optional>
#include <utility>
#include <vector>

#include "tests/warp_check/core_tiles.h"
#include "tests/warp_check/unroller.h"

namespace tilec::ir {

namespace {

constexpr int64_t kMostEvents = 60'000;         // of a role
constexpr int64_t kMostVisits = kMostEvents;    // of blocks, where they are all that is followed
constexpr int64_t kTensors = int64_t{1} << 40;  // where bytes of shared memory never are

}  // namespace

Unroller::Unroller(const Function& fn, const std::map<ValueId, int64_t>& params, uint64_t seed,
                   BlockId met)
    : fn_(fn), seed_(seed), met_(met), env_(static_cast<size_t>(fn.values.size())), core_(fn) {
  for (const auto& [v, number] : params) Env(v) = number;
}

Way Unroller::Follow(const Steering& steering) {
  steering_ = &steering;
  way_.executed.resize(static_cast<size_t>(fn_.blocks.size()));
  made_up_ = HandedOf(fn_);
  std::vector<OpId> parts;
  Visit(fn_.body);
  for (OpId id : steering.ops[static_cast<size_t>(fn_.body.index)])
    if (fn_.ops[id].kind == OpKind::kRole)
      parts.push_back(id);
    else
      Do(id, Who::kAll);
  const auto env = env_;
  const auto counters = counters_;
  for (OpId id : parts) {
    env_ = env, counters_ = counters;
    Walk(fn_.ops[id].regions[0], Who::kAll);
  }
  way_.ok = made_.ok;
  way_.path = std::move(made_.path);
  return std::move(way_);
}

Unrolled Unroller::Run() {
  FindBarriers();
  FindTensors();
  made_up_ = HandedOf(fn_);
  std::vector<OpId> parts;
  out_ = &made_.common;
  made_.executed += fn_.body == met_;
  for (OpId id : fn_.blocks[fn_.body].ops)
    if (fn_.ops[id].kind == OpKind::kRole)
      parts.push_back(id);
    else
      Do(id, Who::kAll);
  const auto env = env_;
  const auto counters = counters_;
  for (OpId id : parts) {
    const Op& op = fn_.ops[id];
    if (ReachesOtherCtas(op)) made_.ok = false;
    env_ = env, counters_ = counters;
    core_ = CoreTiles(fn_);
    warps_ = static_cast<int>(op.i("warps"));
    made_.roles.push_back({static_cast<int>(op.i("first_warp")), warps_, {}});
    out_ = &made_.roles.back().events;
    Walk(op.regions[0], Who::kAll);
    if (made_.fault.empty()) made_.fault = core_.fault();
  }
  return std::move(made_);
}

void Unroller::FindBarriers() {
  for (const Op& op : fn_.ops)
    if (op.kind == OpKind::kMbarAlloc) {
      first_[op.results[0]] = made_.barriers;
      made_.barriers += static_cast<int>(fn_.type(op.results[0]).depth);
    }
}

// Those that threads read and write.
void Unroller::FindTensors() {
  std::map<ValueId, int> touched;  // 1: read, 2: written
  for (const Op& op : fn_.ops) {
    bool write = false;
    if (const ValueId tensor = TouchedTensor(op, &write); tensor.valid())
      touched[tensor] |= write ? 2 : 1;
  }
  for (const auto& [tensor, how] : touched)
    if (how == 3) tensors_.emplace(tensor, kTensors + static_cast<int64_t>(tensors_.size()));
}

// The next of the numbers of a scalar that is handed over; float or not, it is one of few.
std::optional<Unroller::Number> Unroller::MadeUp(ValueId v) {
  const auto root = made_up_.find(v);
  if (root == made_up_.end()) return std::nullopt;
  uint64_t h = seed_ + static_cast<uint64_t>(root->second.index) * 977;
  h = (h ^ static_cast<uint64_t>(times_[v]++)) * 0x9E3779B97F4A7C15u + (h >> 29);
  const bool truth = fn_.type(root->second).dtype == DType::kBool;
  return Number(static_cast<int64_t>((h >> 40) % (truth ? 2 : 400)));
}

void Unroller::Walk(BlockId block, Who who) {
  if (steering_ != nullptr) {
    Visit(block);
    if (++visits_ > kMostVisits) TooLong();
    for (OpId id : steering_->ops[static_cast<size_t>(block.index)]) {
      if (!made_.ok) return;
      Do(id, who);
    }
    return;
  }
  made_.executed += block == met_;
  for (OpId id : fn_.blocks[block].ops) {
    if (!made_.ok || static_cast<int64_t>(out_->size()) > kMostEvents) {
      made_.ok = false;
      return;
    }
    Do(id, who);
  }
}

int64_t Unroller::Sure(ValueId v) {
  const Number n = Get(v);
  made_.ok = made_.ok && n.has_value();
  return n.value_or(0);
}

void Unroller::Structure(const Op& op, Who who) {
  switch (op.kind) {
    case OpKind::kElect:
      if (op.operands.empty() || Sure(op.operands[0]))
        Walk(op.regions[0], op.s("scope") == "warp" ? Who::kWarps : Who::kElected);
      return;
    case OpKind::kIf: {
      const bool yes = Sure(op.operands[0]) != 0;
      made_.path.push_back(yes);
      const BlockId taken = op.regions[yes ? 0 : 1];
      Walk(taken, who);
      if (made_.ok) Pass(Yields(taken), 0, op.results, 0);
      return;
    }
    case OpKind::kFor: {
      const BlockId body = op.regions[0];
      const std::vector<ValueId>& args = fn_.blocks[body].args;
      Pass(op.operands, 2, args, 1);
      const int64_t end = Sure(op.operands[1]);
      int64_t turns = 0, at = Sure(op.operands[0]);
      if (steering_ != nullptr && (end - at) / op.i("step") > kMostVisits - visits_) TooLong();
      for (; made_.ok && at < end; at += op.i("step"), ++turns) {
        Env(args[0]) = at;
        Walk(body, who);
        if (made_.ok) Pass(Yields(body), 0, args, 1);
      }
      made_.path.push_back(turns);
      Pass(args, 1, op.results, 0);
      return;
    }
    case OpKind::kWhile: {
      const BlockId head = op.regions[0], body = op.regions[1];
      Pass(op.operands, 0, fn_.blocks[head].args, 0);
      for (int64_t turns = 0; made_.ok; ++turns) {
        Walk(head, who);
        if (!made_.ok) return;
        const bool more = Sure(Yields(head)[0]) != 0;
        Pass(Yields(head), 1, more ? fn_.blocks[body].args : op.results, 0);
        if (!more) {
          made_.path.push_back(turns);
          return;
        }
        Walk(body, who);
        if (made_.ok) Pass(Yields(body), 0, fn_.blocks[head].args, 0);
      }
      return;
    }
    default: made_.ok = false;
  }
}

Unrolled Unroll(const Function& fn, const std::map<ValueId, int64_t>& params, uint64_t seed,
                BlockId block) {
  return Unroller(fn, params, seed, block).Run();
}

Way Follow(const Function& fn, const Steering& steering, const std::map<ValueId, int64_t>& params,
           uint64_t seed) {
  return Unroller(fn, params, seed, {}).Follow(steering);
}

}  // namespace tilec::ir
