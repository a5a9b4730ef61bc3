// SPDX-License-Identifier: Apache-2.0
#include "ir/warp_check/rate.h"

#include <algorithm>
#include <map>
#include <set>

#include "ir/isa.h"
#include "ir/matrix_unit.h"
#include "ir/operand_reads.h"
#include "ir/queries.h"
#include "ir/warp_check/cluster.h"
#include "ir/warp_check/machine.h"

namespace tilec::ir {

using warp_check::Event;
using warp_check::Machine;
using warp_check::Program;

namespace {

constexpr int64_t kTurns = 48;  // walked; the one looked at is in the middle of them
constexpr int64_t kSteady = 32;
// `steps` of machine files: blocks of so many rows and bytes along K.
constexpr double kTensorRows = 64, kTensorDepth = 32;
constexpr int64_t kGroupWarps = 4, kWarpRows = 16;

struct Cost {
  int64_t issue = 0, latency = 0;
  bool async = false;
  std::vector<std::pair<int, int64_t>> uses;  // (unit, cycles)
};

class Rater {
 public:
  Rater(const Program& program, const Target& target, const std::vector<Event>& trace)
      : p_(program), fn_(program.fn), target_(target), trace_(trace) {}

  LoopRate Rate(int32_t loop) {
    LoopRate rate;
    std::vector<std::vector<int>> by_role(p_.roles.size());
    for (size_t i = 0; i < trace_.size(); ++i)
      if (trace_[i].loop == loop && trace_[i].turn == kSteady)
        by_role[static_cast<size_t>(trace_[i].role)].push_back(static_cast<int>(i));
    std::map<int, int64_t> busy;
    int64_t products = 0, most = 0;  // at once, of all roles and of one
    for (const std::vector<int>& events : by_role) {
      if (events.empty()) continue;
      int64_t own = 0;
      for (int e : events)
        if (AtOnce(fn_.ops[KeyOf(e).second])) own += CostOf(KeyOf(e)).issue;
      products += own;
      most = std::max(most, own);
      rate.loops.push_back(trace_[static_cast<size_t>(events[0])].loop_op);
      for (int e : events) AddNode(rate, e);
    }
    for (const std::vector<int>& events : by_role) {
      std::map<int, int> last_of_unit, first_of_unit;  // asynchronous work in order, by unit
      for (size_t i = 0; i < events.size(); ++i) {
        const bool last = i + 1 == events.size();
        const Key from = KeyOf(events[i]), to = KeyOf(events[last ? 0 : i + 1]);
        const Cost cost = CostOf(from);
        Edge(rate, issue_[from], issue_[to], cost.issue, last);
        for (const auto& [unit, cycles] : cost.uses) busy[unit] += cycles;
        if (cost.async) {
          Edge(rate, issue_[from], done_[from], cost.latency, 0);
          for (const auto& [unit, cycles] : cost.uses) {
            if (target_.units[static_cast<size_t>(unit)].fluid) continue;
            if (last_of_unit.count(unit))
              Edge(rate, last_of_unit[unit], done_[from], cycles, 0);
            else
              first_of_unit[unit] = done_[from], first_cycles_[unit] = cycles;
            last_of_unit[unit] = done_[from];
          }
        }
        AddWaits(rate, events[i]);
        AddValues(rate, from);
      }
      for (const auto& [unit, node] : first_of_unit)
        Edge(rate, last_of_unit[unit], node, first_cycles_[unit], 1);
    }
    for (const auto& [unit, cycles] : busy) {
      const TargetUnit& u = target_.units[static_cast<size_t>(unit)];
      const int64_t per_turn = (cycles + u.capacity - 1) / u.capacity;
      if (per_turn > rate.busy) rate.busy = per_turn, rate.unit = u.name;
    }
    rate.others = products - most;
    if (DeadCircle(rate.graph).empty()) rate.order = ExactPeriod(rate.graph);
    return rate;
  }

 private:
  using Key = std::pair<int, OpId>;  // an op of a role
  Key KeyOf(int event) const {
    const Event& e = trace_[static_cast<size_t>(event)];
    return {e.role, e.op};
  }

  static bool AtOnce(const Op& op) { return op.kind == OpKind::kMma && !FliesFrom(op); }
  // Do the warpgroups of the role take turns?
  bool TakesTurns(int role) const {
    const auto [at, fresh] = turns_.try_emplace(role, false);
    if (fresh)
      warp_check::WalkOps(fn_, p_.roles[static_cast<size_t>(role)].body, [&](OpId id) {
        at->second = at->second || fn_.ops[id].kind == OpKind::kTurn;
      });
    return at->second;
  }
  int64_t ReadBy(const Op& mma, int warpgroups) const {
    const Type &acc = fn_.type(mma.results[0]), &b = fn_.type(mma.operands[2]);
    const std::string& split = mma.s("split");
    const int64_t row = fn_.layout(mma.operands[0]).ThreadCoord(isa::kWarpThreads)[0];
    return OperandReads(UnitOf(mma), {b.dtype, acc.shape[0], acc.shape[1], mma.i("k")}, warpgroups,
                        split == "m"   ? WgSplit::kM
                        : split == "n" ? WgSplit::kN
                                       : WgSplit::kNone,
                        row == 0 ? kGroupWarps : row / kWarpRows,
                        fn_.type(mma.operands[1]).is_tile());
  }

  void AddNode(LoopRate& rate, int event) {
    const Key key = KeyOf(event);
    const std::string name = fmt::format("{}: {}", p_.roles[static_cast<size_t>(key.first)].name,
                                         Info(fn_.ops[key.second].kind).mnemonic);
    issue_[key] = rate.graph.nodes++;
    rate.events.push_back(name);
    done_[key] = issue_[key];
    if (!CostOf(key).async) return;
    done_[key] = rate.graph.nodes++;
    rate.events.push_back(name + " done");
  }

  static void Edge(LoopRate& rate, int from, int to, int64_t delay, int64_t tokens) {
    rate.graph.edges.push_back({from, to, delay, tokens});
  }

  // A wait comes after the completion of what ended it, so many iterations ago.
  void AddWaits(LoopRate& rate, int event) {
    const Event& wait = trace_[static_cast<size_t>(event)];
    for (int cause : wait.after) {
      const Event& e = trace_[static_cast<size_t>(cause)];
      const auto from = done_.find(KeyOf(cause));
      if (e.loop != wait.loop || from == done_.end()) continue;  // from before the loop
      Edge(rate, from->second, issue_[KeyOf(event)], 0, wait.turn - e.turn);
    }
  }

  // A tile is there its op's latency after the issue; carried ones are of the iteration before.
  void AddValues(LoopRate& rate, const Key& user) {
    for (ValueId v : fn_.ops[user.second].operands) {
      int64_t tokens = 0;
      const BlockId block = fn_.values[v].block;
      if (block.valid()) {
        const OpId loop = fn_.blocks[block].parent;
        const auto& args = fn_.blocks[block].args;
        const size_t i = static_cast<size_t>(std::find(args.begin(), args.end(), v) - args.begin());
        if (!loop.valid() || fn_.ops[loop].kind != OpKind::kFor || i == 0) continue;
        v = fn_.ops[fn_.blocks[block].ops.back()].operands[i - 1];
        tokens = 1;
      }
      const Key def{user.first, fn_.values[v].def};
      const auto from = issue_.find(def);
      if (from == issue_.end() || CostOf(def).async) continue;
      if (const int64_t latency = CostOf(def).latency)
        Edge(rate, from->second, issue_[user], latency, tokens);
    }
  }

  Cost CostOf(const Key& key) const {
    const Op& op = fn_.ops[key.second];
    const double groups =
        std::max(1.0, p_.roles[static_cast<size_t>(key.first)].warps / 4.0);  // share the work
    std::string name = Info(op.kind).mnemonic;
    Work work;
    auto tile = [&](ValueId v) { return fn_.type(v).is_tile() && !fn_.type(v).shape.empty(); };
    for (ValueId v : op.operands)
      if (tile(v)) work.elements = std::max(work.elements, double(fn_.type(v).elements()));
    for (ValueId v : op.results)
      if (tile(v)) {
        work.elements = std::max(work.elements, double(fn_.type(v).elements()));
        work.rows += double(fn_.type(v).elements());
      }
    switch (op.kind) {
      case OpKind::kMma: {
        const Type& acc = fn_.type(op.results[0]);
        const Type& b = fn_.type(op.operands[2]);
        work.bytes = double(ReadBy(op, int(groups)));
        name = fmt::format("dot.{}", Info(b.dtype).bits);
        work.flops = 2.0 * double(acc.elements()) * double(op.i("k"));
        work.steps = std::max(1.0, double(acc.shape[0]) / kTensorRows) *
                     std::max(1.0, double(op.i("k") * ByteSize(b.dtype)) / kTensorDepth);
        break;
      }
      case OpKind::kTmaLoad:
        name = "load";
        work.bytes = double(p_.BoxBytes(op));
        break;
      case OpKind::kCpLoad:
        name = "load";
        work.bytes =
            double(fn_.type(op.operands[1]).elements() * ByteSize(fn_.type(op.operands[1]).dtype));
        break;
      case OpKind::kWarpReduce:
        name = "reduce." + op.s("kind") + (GuardOf(op).valid() ? ".guarded" : "");
        break;
      case OpKind::kWarpArgReduce: name = "argreduce"; break;
      case OpKind::kGLoad: name = "load.gather"; break;
      case OpKind::kGStore:
      case OpKind::kGAtomic: name = "store"; break;
      case OpKind::kSmemLoad:
      case OpKind::kSmemStore: {
        const Type& t = fn_.type(op.kind == OpKind::kSmemLoad ? op.results[0] : op.operands[0]);
        work.bytes = double(t.elements() * ByteSize(t.dtype));
        break;
      }
      default:
        if (!Info(op.kind).elementwise() || work.elements == 0) return {};
    }
    const OpCost& row = *target_.CostOf(name);
    Cost cost;
    const bool copy = op.kind == OpKind::kTmaLoad || op.kind == OpKind::kCpLoad;
    cost.async = FliesFrom(op) || copy;
    for (const TargetUse& use : row.uses)
      if (const int64_t cycles = use.cycles.At(work)) cost.uses.push_back({use.unit, cycles});
    Work share = work;  // issued by every warpgroup for its part
    share.elements /= groups, share.rows /= groups, share.bytes /= groups, share.steps /= groups;
    cost.issue = row.issue.At(copy ? work : share);
    cost.latency = row.latency.At(cost.async ? work : share);
    if (AtOnce(op)) {
      int64_t longest = cost.issue;
      for (const auto& [unit, cycles] : cost.uses)
        if (!target_.units[static_cast<size_t>(unit)].fluid) longest = std::max(longest, cycles);
      if (TakesTurns(key.first)) longest = HeldUpByTurns(longest, target_);
      cost.latency += longest - cost.issue;
      cost.issue = longest;
    }
    return cost;
  }

  const Program& p_;
  const Function& fn_;
  const Target& target_;
  const std::vector<Event>& trace_;
  std::map<Key, int> issue_, done_;
  std::map<int, int64_t> first_cycles_;
  mutable std::map<int, bool> turns_;
};

}  // namespace

int64_t HeldUpByTurns(int64_t together, const Target& target) {
  return 3 * (together / 2 + target.Transfer("smem", 0)) / 2;
}

Result<std::vector<LoopRate>> RatesOf(const Function& of, const Target& target, DiagSink& diags) {
  const bool cluster = of.launch.cluster > 1;
  const warp_check::OneCta one =
      cluster ? warp_check::AsOneCta(of, warp_check::Unfold::kAlone) : warp_check::OneCta();
  const Function& fn = cluster ? one.fn : of;
  const Program program(fn);
  warp_check::Terms terms;
  Machine machine(program, terms);
  std::vector<Event> trace;
  machine.trace = &trace;
  machine.ops_limit = kMostWalkedOps;
  // One walk: innermost loops for kTurns, loops around them once, branches taken. A `while` asks of
  // what nobody knows: behind its first iteration it hears yes and no by turns, so that it ends.
  warp_check::State state = machine.Begin();
  int64_t again = 0;
  while (true) {
    if (!machine.Settle(state))
      return diags.ReportText(*machine.finding()->def, machine.finding()->at,
                              machine.finding()->message);
    const int role = machine.Asking(state);
    if (role < 0 || machine.AllEnded(state) || machine.ops() > machine.ops_limit) break;
    const warp_check::Frame& f = state.roles[static_cast<size_t>(role)].frames.back();
    bool inner = true;
    if (f.op.valid() && fn.ops[f.op].kind == OpKind::kFor)
      warp_check::WalkOps(fn, f.block, [&](OpId id) {
        inner = inner && !(fn.ops[id].kind == OpKind::kFor && program.matters[size_t(id.index)]);
      });
    const bool endless = f.op.valid() && fn.ops[f.op].kind == OpKind::kWhile && f.turns > 0;
    const bool holds = endless ? ++again % 2 == 0 : f.next >= 0 || f.turns < (inner ? kTurns : 1);
    machine.Answer(state, role, holds != state.roles[static_cast<size_t>(role)].question_negated);
  }
  // Each loop of the program once, whatever stands around it.
  std::vector<int32_t> loops;
  std::set<OpId> rated;
  for (const Event& e : trace) {
    if (e.loop < 0 || e.turn != kSteady) continue;
    const bool known = std::count(loops.begin(), loops.end(), e.loop) > 0;
    if (rated.insert(e.loop_op).second && !known) loops.push_back(e.loop);
  }
  std::vector<LoopRate> rates;
  for (int32_t loop : loops) rates.push_back(Rater(program, target, trace).Rate(loop));
  for (LoopRate& rate : rates)
    for (OpId& loop : rate.loops)
      if (cluster) loop = one.origin[static_cast<size_t>(loop.index)];
  return rates;
}

}  // namespace tilec::ir
