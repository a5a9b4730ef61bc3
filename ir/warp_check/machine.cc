// SPDX-License-Identifier: Apache-2.0
#include "ir/warp_check/machine.h"

#include <algorithm>
#include <utility>

namespace tilec::ir::warp_check {

Machine::Machine(const Program& program, Terms& terms)
    : p_(program), fn_(program.fn), terms_(terms), rings_(program) {
  uses_.resize(static_cast<size_t>(fn_.ops.size()));
  held_by_.resize(static_cast<size_t>(fn_.blocks.size()));
  auto hold = [&](BlockId block, ValueId v) {
    const auto i = static_cast<size_t>(v.index);
    if (!p_.steers[i] && !p_.in_core[i]) return;
    held_by_[static_cast<size_t>(block.index)].push_back(v.index);
  };
  for (int32_t b = 0; b < fn_.blocks.size(); ++b) {
    for (ValueId v : fn_.blocks[BlockId(b)].args) hold(BlockId(b), v);
    for (OpId id : fn_.blocks[BlockId(b)].ops)
      for (ValueId v : fn_.ops[id].results) hold(BlockId(b), v);
    std::sort(held_by_[static_cast<size_t>(b)].begin(), held_by_[static_cast<size_t>(b)].end());
  }
  FindLastUses();
  FindNext();
  for (const std::vector<char>& waits : p_.waits_for) {
    const auto same = std::find(waiting_.begin(), waiting_.end(), waits);
    waiting_of_.push_back(static_cast<size_t>(same - waiting_.begin()));
    if (same == waiting_.end()) waiting_.push_back(waits);
  }
}

// Where in its own block a value is used last; a use in a region counts as the op's around it.
void Machine::FindLastUses() {
  last_use_.assign(static_cast<size_t>(fn_.values.size()), -1);
  std::vector<std::pair<BlockId, int32_t>> around;  // blocks being walked and places in them
  auto walk = [&](auto&& self, BlockId block) -> void {
    around.push_back({block, 0});
    const std::vector<OpId>& ops = fn_.blocks[block].ops;
    for (size_t i = 0; i < ops.size(); ++i) {
      around.back().second = static_cast<int32_t>(i);
      for (ValueId v : fn_.ops[ops[i]].operands) {
        const Value& value = fn_.values[v];
        const BlockId home = value.block.valid() ? value.block
                             : value.def.valid() ? fn_.ops[value.def].block
                                                 : fn_.body;
        int32_t& last = last_use_[static_cast<size_t>(v.index)];
        for (const auto& [b, place] : around)
          if (b == home) last = std::max(last, place);
      }
      for (BlockId region : fn_.ops[ops[i]].regions) self(self, region);
    }
    around.pop_back();
  };
  walk(walk, fn_.body);
}

// By block and place: where the next op stands that the walk executes or that ends the block.
void Machine::FindNext() {
  next_.resize(static_cast<size_t>(fn_.blocks.size()));
  for (int32_t b = 0; b < fn_.blocks.size(); ++b) {
    const std::vector<OpId>& ops = fn_.blocks[BlockId(b)].ops;
    std::vector<int32_t>& next = next_[static_cast<size_t>(b)];
    next.assign(ops.size() + 1, static_cast<int32_t>(ops.size()));
    for (size_t i = ops.size(); i-- > 0;) {
      const OpKind kind = fn_.ops[ops[i]].kind;
      const bool walked = kind == OpKind::kYield || p_.matters[static_cast<size_t>(ops[i].index)];
      next[i] = walked && kind != OpKind::kRole ? static_cast<int32_t>(i) : next[i + 1];
    }
  }
  home_.assign(static_cast<size_t>(fn_.values.size()), -1);
  for (int32_t v = 0; v < fn_.values.size(); ++v)
    if (const OpId def = fn_.values[ValueId(v)].def; def.valid())
      home_[static_cast<size_t>(v)] = fn_.ops[def].block.index;
  count_of_.assign(static_cast<size_t>(fn_.values.size()), -1);
  for (const auto& [v, count] : rings_.count_of) count_of_[static_cast<size_t>(v)] = count.index;
  standing_.assign(static_cast<size_t>(fn_.blocks.size()), -1);
}

State Machine::Begin() const {
  State s;
  s.roles.resize(p_.roles.size());
  s.barriers.resize(static_cast<size_t>(p_.slots()));
  s.regions.resize(static_cast<size_t>(p_.regions()));
  s.handed.assign(p_.hands.size(), 0);
  const Clock zero(static_cast<size_t>(components()));
  for (Role& r : s.roles) r.all = r.elected = zero;
  if (agreed)
    for (Role& r : s.roles) r.iterations.assign(static_cast<size_t>(agreed->loops), 0);
  for (Barrier& b : s.barriers) b.pending = b.done = b.seen = zero;
  return s;
}

void Machine::StartRole(int role) {
  Role& r = s_->roles[static_cast<size_t>(role)];
  r.started = true;
  if (role > 0) {  // knows what the common beginning knew
    r.all = s_->roles[0].all;
    r.elected = s_->roles[0].all;
    r.env = s_->roles[0].env;
    r.counters = s_->roles[0].counters;
  }
  role_ = role;
  Push(p_.roles[static_cast<size_t>(role)].op, 0, Who::kAll);
}

// One order of the roles' ops is as good as any: what a role may do follows from what it knows,
// never from how far others have come, so a fault that some order shows every order shows. This one
// keeps the roles close together: the last consumers go first, and whoever feeds them goes on only
// as far as the next phase that is complete. A state is then about where everybody stands, hardly
// about what was decided for transfers in flight.
bool Machine::Settle(State& state) {
  s_ = &state;
  if (!state.roles[0].started) StartRole(0);
  if (!state.roles[0].ended) {
    if (!RunRole(0)) return false;
    if (!state.roles[0].ended || ops_ > ops_limit) return true;
    for (size_t i = 1; i < state.roles.size(); ++i) StartRole(static_cast<int>(i));
  }
  const std::vector<int>& order = p_.consumers_first;
  size_t first = std::exchange(stopped_, 0);
  for (bool again = true; again; first = 0) {
    again = false;
    for (size_t i = first; i < order.size() && !again; ++i) {
      if (state.roles[static_cast<size_t>(order[i])].ended) continue;
      if (!RunRole(order[i])) return false;
      again = completed_;
      if (ops_ <= ops_limit) continue;
      stopped_ = again ? 0 : i;  // with more ops it goes on from here
      return true;
    }
  }
  return true;
}

// Until it waits, asks, ends or completes a phase. False: a finding.
bool Machine::RunRole(int role) {
  role_ = role;
  completed_ = false;
  Role& r = s_->roles[static_cast<size_t>(role)];
  // What it knows has not changed, so it goes on waiting as long as the phase is the same. (It has
  // asked once more: limits are of ops, however they are found out.)
  if (r.stuck.valid() && !trace &&
      s_->barriers[static_cast<size_t>(r.stuck_slot)].phase == r.stuck_phase) {
    ++ops_;
    return true;
  }
  while (!r.ended) {
    r.undecided = false;
    const Step step = StepRole();
    if (step != Step::kAsks) r.answered.clear();
    if (step == Step::kFailed) return false;
    if (step == Step::kBlocked || step == Step::kAsks) return true;
    if (step == Step::kEnded) r.ended = true;
    if (completed_ || ops_ > ops_limit) return true;
  }
  return true;
}

bool Machine::AllEnded(const State& state) const {
  return std::all_of(state.roles.begin(), state.roles.end(), [](const Role& r) { return r.ended; });
}

// Has the role more of a loop behind it than the other, which takes part in it?
bool Machine::Ahead(const State& state, int role, int other) const {
  if (agreed) return AheadAgreed(state, role, other);
  const Role& mine = state.roles[static_cast<size_t>(role)];
  const Role& theirs = state.roles[static_cast<size_t>(other)];
  return std::any_of(mine.frames.begin(), mine.frames.end(), [&](const Frame& f) {
    if (f.frame_atom < 0) return false;
    const auto same = std::find_if(theirs.frames.begin(), theirs.frames.end(),
                                   [&](const Frame& g) { return g.frame_atom == f.frame_atom; });
    if (same != theirs.frames.end()) return same->position.add < f.position.add;
    const Atom& frame = terms_.atom(f.frame_atom);
    const auto site = static_cast<size_t>(frame.tag);
    const auto begun = theirs.runs.find({f.length.form, static_cast<int>(frame.tag)});
    return f.turns > 0 && p_.loops_at[static_cast<size_t>(other)][site] &&
           (begun == theirs.runs.end() || begun->second <= frame.extra);
  });
}

// A role that runs ahead of another in a loop would do so for ever: the other is asked first.
int Machine::Asking(const State& state) const {
  const auto asks = [&](int role) {
    const Role& r = state.roles[static_cast<size_t>(role)];
    return !r.ended && r.undecided;
  };
  int first = -1;
  for (const int role : p_.consumers_first) {
    if (!asks(role)) continue;
    if (first < 0) first = role;
    const bool ahead = std::any_of(
        p_.consumers_first.begin(), p_.consumers_first.end(),
        [&](int other) { return other != role && asks(other) && Ahead(state, role, other); });
    if (!ahead) return role;
  }
  return first;
}

Step Machine::StepRole() {
  Frame& f = me().frames.back();
  if (f.next < 0) return LoopHead();
  const std::vector<OpId>& ops = fn_.blocks[f.block].ops;
  while (static_cast<size_t>(f.next) < ops.size()) {
    if (!trace) f.next = next_[static_cast<size_t>(f.block.index)][static_cast<size_t>(f.next)];
    if (static_cast<size_t>(f.next) == ops.size()) break;
    const OpId id = ops[static_cast<size_t>(f.next)];
    const Op& op = OpOf(id);
    if (op.kind == OpKind::kYield) return LeaveBlock();
    if (op.kind == OpKind::kRole) {
      ++f.next;
      continue;
    }
    ++ops_;
    Use(id).reached = true;
    who_ = f.who;
    if (!op.regions.empty()) return Enter(id);
    if (trace) Trace(id);
    const Step step = RunOp(id);
    if (trace && step != Step::kDone) trace->pop_back();
    if (step == Step::kDone) ++me().frames.back().next;
    return step;
  }
  return LeaveBlock();
}

void Machine::Trace(OpId id) {
  Event e;
  e.role = role_;
  e.op = id;
  for (const Frame& f : me().frames)
    if (f.frame_atom >= 0) e.loop = f.frame_atom, e.loop_op = f.op, e.turn = f.turns;
  trace->push_back(std::move(e));
}

void Machine::Tick() {
  Role& r = me();
  ++r.now;
  Advance(r.elected, 2 * role_ + 1, r.now);
}

namespace {
constexpr size_t kMarks = 32;
}

void Machine::Remember(std::vector<std::pair<int32_t, OpId>>& marks, OpId id) {
  if (marks.size() == kMarks) marks.erase(marks.begin());
  marks.push_back({me().now, id});
}

void Machine::OnlyOne(const std::vector<std::pair<int32_t, OpId>>& marks, int32_t from,
                      int32_t to) {
  // What came before the oldest mark is forgotten: there may have been others.
  if (marks.size() == kMarks && from < marks.front().first) return;
  OpId found;
  for (const auto& [n, id] : marks) {
    if (n <= from || n > to) continue;
    if (found.valid()) return;
    found = id;
  }
  if (found.valid()) Use(found).needed = true;
}

Clock Machine::Told() {
  Role& r = me();
  Clock told = r.elected;
  if (who_ != Who::kElected) {
    Join(told, r.all);
    Advance(told, 2 * role_, r.now);
  }
  Advance(told, 2 * role_ + 1, r.now);
  if (r.fenced > 0 && who_ != Who::kElected)
    told.Raise(static_cast<size_t>(AccessesOf(role_)), r.fenced);
  return told;
}

Step Machine::RunOp(OpId id) {
  const Op& op = OpOf(id);
  auto ok = [](bool good) { return good ? Step::kDone : Step::kFailed; };
  auto operand = [&](size_t i) { return i < op.operands.size() ? op.operands[i] : ValueId(); };
  if (op.kind != OpKind::kMbarWait) Tick();
  switch (op.kind) {
    case OpKind::kSmemStore:
      return ok(NothingFlying(id) && TakesTurns(id) &&
                AccessBuffer(id, operand(1), operand(2), Proxy::kGeneric, true));
    case OpKind::kSmemZero:
      return ok(AccessBuffer(id, operand(0), operand(1), Proxy::kGeneric, true));
    case OpKind::kSmemLoad:
      return ok(TakesTurns(id) && AccessBuffer(id, operand(0), operand(1), Proxy::kGeneric, false));
    case OpKind::kSimtDot:
      return ok(NothingFlying(id) && AccessBuffer(id, operand(1), {}, Proxy::kGeneric, false) &&
                AccessBuffer(id, operand(2), {}, Proxy::kGeneric, false));
    case OpKind::kMbarInit: return Init(id);
    case OpKind::kFenceMbarInit:
      for (Barrier& b : s_->barriers)
        if (b.ready && b.init_fence < 0 && b.init_component == Mine()) b.init_fence = me().now;
      return Step::kDone;
    case OpKind::kMbarExpect: return Arrive(id, op.i("bytes"));
    case OpKind::kMbarArrive: return Arrive(id, -1);
    case OpKind::kMbarWait: return Wait(id);
    case OpKind::kFenceAsync:
      Fence();
      Remember(me().fences, id);
      return Step::kDone;
    case OpKind::kCtaSync:
      if (who_ != Who::kAll) return Fail(kWarpForm, op, "it stands inside an elect");
      if (op.i("parts", 1) > 1)
        me().parts_met = me().now;
      else
        SyncRole();
      Remember(me().syncs, id);
      return Step::kDone;
    case OpKind::kTmaLoad: return CopyIn(id);
    case OpKind::kCpLoad: return CopyByThreads(id);
    case OpKind::kCpArrive: return ArriveByCopies(id);
    case OpKind::kTmaStore: return CopyOut(id);
    case OpKind::kTmaCommit:
      for (auto& [copy, group] : me().bulk)
        if (group < 0) group = me().bulk_commits;
      ++me().bulk_commits;
      return Step::kDone;
    case OpKind::kTmaWait: WaitCopies(op.i("pending")); return Step::kDone;
    case OpKind::kMmaFence:
    case OpKind::kMma:
    case OpKind::kMmaCommit:
    case OpKind::kMmaWait: return Products(id);
    case OpKind::kTmemAlloc:
    case OpKind::kTcMma:
    case OpKind::kTcCommit:
    case OpKind::kTcFence:
    case OpKind::kTmemLoad: return TensorMemory(id);
    case OpKind::kTmemScales:
    case OpKind::kTmemStore: return NothingFlying(id) ? TensorMemory(id) : Step::kFailed;
    case OpKind::kCounter: me().counters[op.results[0].index] = op.i("init"); return Step::kDone;
    case OpKind::kCounterAdd: {
      auto [it, fresh] = me().counters.try_emplace(op.operands[0].index, 0);
      it->second += op.i("by");
      me().counted[op.operands[0].index] = id;
      return Step::kDone;
    }
    default: break;
  }
  if (!NothingFlying(id) || !AccessTensor(id)) return Step::kFailed;
  const bool counts = op.kind == OpKind::kGAtomic && op.results.empty();  // bytes of its own
  if (op.attr("scratch") && op.i("scratch") >= 0 && !counts && !Scratch(id)) return Step::kFailed;
  if (op.results.size() == 1 && p_.steers[static_cast<size_t>(op.results[0].index)]) Evaluate(id);
  return Step::kDone;
}

}  // namespace tilec::ir::warp_check
