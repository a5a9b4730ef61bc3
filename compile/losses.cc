// SPDX-License-Identifier: Apache-2.0
#include "compile/losses.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/lower/bring.h"
#include "ir/lower/operands.h"
#include "ir/queries.h"

namespace tilec::compile {

namespace {

using ir::Function;
using ir::Op;
using ir::OpId;
using ir::OpKind;

bool SamePlace(Span a, Span b) { return a.file == b.file && a.begin == b.begin && a.end == b.end; }

// The load that an op of a loop's graph is. One that is a part of the op that reads it is made
// there.
const scheduler::OriginStep* LoadOf(const Function& fn, const scheduler::OpOrigin& origin) {
  const scheduler::OriginStep& main = origin.steps[static_cast<size_t>(origin.main)];
  const bool loads = main.kind == scheduler::StepKind::kOp && main.op.valid() &&
                     fn.ops[main.op].kind == OpKind::kLoad;
  return loads ? &main : nullptr;
}

// In how many iterations before its first consumer's the schedule issues an op.
int64_t StagesAhead(const scheduler::LoopReport& loop, int op) {
  const ir::Schedule& schedule = loop.solution.schedule;
  const auto stage = [&](int of) -> int64_t {
    for (const ir::ScheduledOp& s : schedule.ops)
      if (s.name == loop.extraction.graph.ops[static_cast<size_t>(of)].name)
        return FloorDiv(s.cycle, std::max<int64_t>(schedule.ii, 1));
    return 0;
  };
  int64_t ahead = INT64_MAX;
  for (const scheduler::GraphEdge& e : loop.extraction.graph.edges)
    if (e.from == op && e.kind != scheduler::EdgeKind::kOrder)
      ahead = std::min(ahead, stage(e.to) + e.distance - stage(op));
  return ahead == INT64_MAX ? 0 : ahead;
}

// Does a product read a tile that is loaded at this place as it is, or its transpose? Turns in
// front of a loop and versions have loads of their own, and of the one that was solved none may be
// left.
bool IsMultiplied(const Function& fn, Span place) {
  const std::vector<OpId> ops = ir::OpsInOrder(fn);
  return std::any_of(ops.begin(), ops.end(), [&](OpId id) {
    const Op& op = fn.ops[id];
    return op.kind == OpKind::kDot &&
           std::any_of(op.operands.begin(), op.operands.begin() + 2, [&](ir::ValueId v) {
             const Op* load = fn.def(Without(fn, OpKind::kTranspose, v).value);
             return load && load->kind == OpKind::kLoad && SamePlace(load->at, place);
           });
  });
}

int64_t SlotsOf(const ir::Schedule& schedule, const std::string& value) {
  for (const ir::Channel& channel : schedule.channels)
    if (channel.value == value && channel.medium == "smem") return channel.depth;
  return 0;
}

}  // namespace

std::vector<Loss> LossesOf(const scheduler::ProgramSchedule& schedule, const Function& fn,
                           const ir::ScheduledResources& made, const ir::NoProducer& no_producer,
                           const ir::Target& target) {
  std::vector<Loss> losses;
  const auto note = [&](Loss loss, size_t loop, const std::string& op) {
    const auto same = [&](const Loss& o) { return SamePlace(o.load, loss.load); };
    auto at = std::find_if(losses.begin(), losses.end(), same);
    if (at == losses.end()) at = losses.insert(at, std::move(loss));
    at->ops.emplace_back(loop, op);
  };
  for (const scheduler::LoopReport& loop : schedule.loops) {
    if (!loop.applied) continue;
    const auto l = static_cast<size_t>(&loop - schedule.loops.data());
    for (size_t g = 0; g < loop.extraction.graph.ops.size(); ++g) {
      const scheduler::OriginStep* step = LoadOf(fn, loop.extraction.origins[g]);
      if (!step) continue;
      const std::string& name = loop.extraction.graph.ops[g].name;
      const int64_t slots = SlotsOf(loop.solution.schedule, name);
      int64_t deepest = 0;  // prologues fill rings of one slot from the same place
      for (const auto& ring : made.rings)
        if (SamePlace(ring.load, step->at)) deepest = std::max(deepest, ring.slots);
      if (deepest > 0) {
        const ir::Param* of = fn.param(fn.ops[step->op].operands[0]);
        if (deepest < slots)
          note({step->at,
                of ? of->name : "?",
                slots,
                deepest,
                "no deeper one fits into shared memory beside the others and is proved",
                {}},
               l, name);
        continue;
      }
      if (slots < 2 && StagesAhead(loop, static_cast<int>(g)) < 1) continue;
      const Op& op = fn.ops[step->op];
      const ir::Param* tensor = fn.param(op.operands[0]);
      const bool left = IsMultiplied(fn, step->at) && ir::MayBeBrought(fn, op, target) &&
                        (no_producer.why.empty() || !ir::TmaAccess(fn, op, target));
      const std::string by_threads =
          left ? "threads of the load role would bring it, and that leaves others too few registers"
               : ir::WhyByThreads(fn, op, target);
      note({step->at,
            tensor ? tensor->name : "?",
            slots,
            0,
            by_threads.empty() ? no_producer.why : by_threads,
            {}},
           l, name);
    }
  }
  std::stable_partition(losses.begin(), losses.end(), [](const Loss& l) { return l.made == 0; });
  return losses;
}

void NoteLosses(const std::vector<Loss>& losses, scheduler::ProgramSchedule* schedule) {
  for (const Loss& loss : losses)
    for (const auto& [loop, op] : loss.ops)
      schedule->loops[loop].notes.push_back(
          loss.made == 0 ? fmt::format("`{}` is loaded where it is read", op)
                         : fmt::format("`{}` has a ring of {} slots", op, loss.made));
}

std::string Describe(const std::vector<Loss>& losses) {
  const Loss& first = losses.front();
  std::string text =
      first.made > 0    ? fmt::format("{} of the {} slots of the ring for `{}`",
                                      first.slots - first.made, first.slots, first.tensor)
      : first.slots > 1 ? fmt::format("the ring of {} slots for `{}`", first.slots, first.tensor)
                        : fmt::format("the load of `{}` an iteration ahead", first.tensor);
  if (losses.size() > 1) text += fmt::format(" and {} more like it", losses.size() - 1);
  return fmt::format("{}: {}", text,
                     first.why.empty() ? "no product reads it where a copy puts it" : first.why);
}

}  // namespace tilec::compile
