// SPDX-License-Identifier: Apache-2.0
#include "tests/obeyed/wanted.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "scheduler/routes.h"
#include "tests/obeyed/order.h"

namespace tilec::obeyed {

namespace {

// Compute roles by the place of their warps: as the file names them first, ops in their order.
std::map<std::string, int> Numbers(const scheduler::ProgramSchedule& decided) {
  std::map<std::string, int> numbers;
  for (const scheduler::LoopReport& loop : decided.loops) {
    const ir::Schedule& schedule = loop.solution.schedule;
    if (!loop.applied) continue;
    for (const scheduler::GraphOp& op : loop.extraction.graph.ops)
      for (const ir::ScheduledOp& s : schedule.ops)
        if (s.name == op.name && !op.variable_latency)
          numbers.try_emplace(schedule.roles[static_cast<size_t>(s.role)].name,
                              static_cast<int>(numbers.size()));
  }
  return numbers;
}

Loc PlaceOf(const SourceMap& sources, Span at) {
  const LineCol place = sources.Locate(at.file, at.begin);
  return {place.line, place.column};
}

// A product itself is told from arithmetic at its place, what was made one op with it is not.
std::set<Loc> PartsOf(const scheduler::Extraction& loop, const scheduler::GraphOp& op, bool product,
                      const SourceMap& sources) {
  std::set<Loc> parts;
  if (!product) parts.insert(PlaceOf(sources, op.at));
  const int g = loop.graph.FindOp(op.name);
  if (g < 0) return parts;
  const scheduler::OpOrigin& origin = loop.origins[static_cast<size_t>(g)];
  for (size_t i = 0; i < origin.steps.size(); ++i)
    if (origin.steps[i].at.known() && !(product && static_cast<int>(i) == origin.main))
      parts.insert(PlaceOf(sources, origin.steps[i].at));
  return parts;
}

// Is it what a role's threads read of a tile that was loaded?
bool ReadsLoad(const scheduler::Graph& graph, const WantedLoop& wanted, int op) {
  const std::vector<int>& reads = wanted.ops[static_cast<size_t>(op)].reads;
  return graph.ops[static_cast<size_t>(op)].kind ==
             scheduler::Spelling(scheduler::StepKind::kSmemLoad) &&
         std::any_of(reads.begin(), reads.end(),
                     [&](int r) { return wanted.ops[static_cast<size_t>(r)].load; });
}

// Ops that the compiler said it does not run where the schedule has them: numbers of whole tiles,
// loads without a ring with what reads their slots, and what reads a load in another iteration than
// a product does. Rings that it said are shallower are.
void TakeOut(const scheduler::LoopReport& loop, const scheduler::Graph& graph, WantedLoop* wanted) {
  for (const std::string& note : loop.notes) {
    const size_t end = note.find("` ");
    if (end == std::string::npos || note[0] != '`') continue;
    const std::string name = note.substr(1, end - 1), rest = note.substr(end + 2);
    constexpr std::string_view kShallow = "has a ring of ";
    constexpr std::string_view kInOneTurn = "runs in the turn that brings what it reads";
    if (rest.compare(0, kShallow.size(), kShallow) == 0)
      for (Wanted& op : wanted->ops)
        if (op.name == name) op.depth = std::stoi(rest.substr(kShallow.size()));
    if (rest.compare(0, kInOneTurn.size(), kInOneTurn) == 0)  // all of that kind: `reduce.2`, too
      for (Wanted& op : wanted->ops)
        if (op.name == name || op.name.compare(0, name.size() + 1, name + ".") == 0)
          op.slice = kNobody;
    const bool lost = rest == "is loaded where it is read";
    wanted->loads_lost = wanted->loads_lost || lost;
    if (!lost && rest != "makes one number, and runs where that is read") continue;
    for (size_t o = 0; o < graph.ops.size(); ++o)
      if (wanted->ops[o].name == name) {
        wanted->ops[o].slice = kNobody;
        for (size_t r = 0; lost && r < graph.ops.size(); ++r)
          if (Reads(wanted->ops[r], static_cast<int>(o)) &&
              graph.ops[r].kind == scheduler::Spelling(scheduler::StepKind::kSmemLoad))
            wanted->ops[r].slice = kNobody;
      }
  }
}

// Stores and loads between roles as the program has them: one store for each role that reads the
// value, one load for all that reads it there, which is the first. What was loaded is not handed
// on: the threads of every role that needs it read it where it was loaded to, and those of a role
// that would only have handed it on do not. A role that has nothing else to do has no loop.
void SplitPasses(const scheduler::Graph& graph, WantedLoop* wanted) {
  std::map<std::pair<int, int>, int> known;  // by store and reading role
  std::vector<Wanted>& ops = wanted->ops;
  std::vector<char> gone(ops.size());
  std::set<size_t> handed_on;
  for (const scheduler::GraphEdge& e : graph.edges) {
    const auto store = static_cast<size_t>(e.from), load = static_cast<size_t>(e.to);
    if (e.kind != scheduler::EdgeKind::kSmem || ops[store].load) continue;
    const std::vector<int>& stores = ops[store].reads;
    const auto loaded = std::find_if(stores.begin(), stores.end(),
                                     [&](int made) { return ReadsLoad(graph, *wanted, made); });
    if (loaded != stores.end()) {
      const auto made = static_cast<size_t>(*loaded);
      gone[store] = 1;
      handed_on.insert(made);
      ops[load].at = ops[made].at;
      ops[load].parts = ops[made].parts;
      ops[load].reads = ops[made].reads;
      continue;
    }
    const auto [it, fresh] =
        known.try_emplace({e.from, ops[load].slice}, static_cast<int>(wanted->passes.size()));
    if (fresh) {
      wanted->passes.push_back({ops[store].at, ops[store].slice, ops[load].slice});
      if (ops[store].put < 0) {
        ops[store].put = it->second;
      } else {
        Wanted again = ops[store];
        again.put = it->second;
        ops.push_back(std::move(again));
      }
      ops[load].take = it->second;
      ops[load].at = ops[store].at;
      continue;
    }
    for (size_t o = 0; o < gone.size(); ++o) {
      if (ops[o].take != it->second) continue;
      ops[o].cycle = std::min(ops[o].cycle, ops[load].cycle);
      for (Wanted& reader : ops)
        std::replace(reader.reads.begin(), reader.reads.end(), e.to, static_cast<int>(o));
    }
    gone[load] = 1;
  }
  for (size_t made : handed_on)
    gone[made] = std::none_of(ops.begin(), ops.end(), [&](const Wanted& reader) {
      const auto r = static_cast<size_t>(&reader - ops.data());
      return (r >= gone.size() || !gone[r]) && Reads(reader, static_cast<int>(made));
    });
  // What is gone stays in its place, so that indices hold, and is nobody's.
  for (size_t o = 0; o < gone.size(); ++o)
    if (gone[o]) ops[o].slice = kNobody;
}

// How many last iterations an op is for nobody: a value goes from there to what outlives the loop
// over so many iterations at least.
void NoteUnread(const scheduler::LoopReport& loop, const scheduler::Graph& graph,
                WantedLoop* wanted) {
  const int most = static_cast<int>(graph.ops.size()) + 1;
  for (size_t o = 0; o < graph.ops.size(); ++o) {
    const auto outlives = loop.outliving.find(graph.ops[o].name);
    wanted->ops[o].unread = outlives == loop.outliving.end() ? most : outlives->second;
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (const scheduler::GraphEdge& e : graph.edges) {
      if (e.kind == scheduler::EdgeKind::kOrder) continue;
      int& unread = wanted->ops[static_cast<size_t>(e.from)].unread;
      const int through =
          wanted->ops[static_cast<size_t>(e.to)].unread + static_cast<int>(e.distance);
      changed = changed || through < unread;
      unread = std::min(unread, through);
    }
  }
}

// Reductions of a turn that do not wait for each other meet where the first of them stands
// (ir/lower/meetings.h); what the others read in that turn goes with them.
void NoteAlong(const scheduler::Graph& graph, WantedLoop* wanted) {
  std::vector<Wanted>& ops = wanted->ops;
  const auto turn = [&](int64_t cycle) { return cycle / wanted->ii; };
  std::vector<std::pair<size_t, size_t>> edges;  // within a turn
  for (const scheduler::GraphEdge& e : graph.edges) {
    const auto from = static_cast<size_t>(e.from), to = static_cast<size_t>(e.to);
    if (e.kind != scheduler::EdgeKind::kOrder &&
        turn(ops[to].cycle) - turn(ops[from].cycle) + e.distance == 0)
      edges.emplace_back(from, to);
  }
  std::vector<int> waits(ops.size());  // for reductions one behind the other
  for (size_t round = 0; round < ops.size(); ++round)
    for (const auto& [from, to] : edges)
      waits[to] = std::max(waits[to], waits[from] + (ops[from].meets ? 1 : 0));
  const auto slot = [&](size_t o) { return ops[o].cycle % wanted->ii; };
  std::map<int, size_t> first;
  for (size_t o = 0; o < ops.size(); ++o)
    if (ops[o].meets)
      if (const auto [at, fresh] = first.try_emplace(waits[o], o); slot(o) < slot(at->second))
        at->second = o;
  std::vector<int> going(ops.size(), -1);  // to that first one
  for (size_t o = 0; o < ops.size(); ++o)
    if (ops[o].meets && first.at(waits[o]) != o) going[o] = static_cast<int>(first.at(waits[o]));
  for (size_t round = 0; round < ops.size(); ++round)
    for (const auto& [from, to] : edges)
      if (going[to] >= 0 && !ops[from].meets) ops[from].along = going[from] = going[to];
  for (size_t round = 0; round < ops.size(); ++round)
    for (const auto& [from, to] : edges)
      ops[from].for_meeting = ops[from].for_meeting || ops[to].meets || ops[to].for_meeting;
}

}  // namespace

WantedLoop WantedOf(const scheduler::ProgramSchedule& decided, const scheduler::LoopReport& loop,
                    const SourceMap& sources) {
  const ir::Schedule& schedule = loop.solution.schedule;
  const scheduler::Graph graph =
      decided.apart ? scheduler::RoutedBy(loop.extraction.graph, schedule) : loop.extraction.graph;
  const std::map<std::string, int> numbers = Numbers(decided);
  WantedLoop wanted;
  wanted.ii = schedule.ii;
  wanted.slices = decided.slices;
  wanted.apart = decided.apart;
  wanted.warps = 4 * decided.warpgroups;
  for (const scheduler::GraphOp& op : graph.ops) {
    Wanted w;
    w.name = op.name;
    w.at = PlaceOf(sources, op.at);
    w.load = op.variable_latency;
    w.product = op.async && !w.load;
    w.meets = op.kind.rfind("reduce", 0) == 0;
    w.parts = PartsOf(loop.extraction, op, w.product, sources);
    // Slices that are not the roles tell nothing of a load, which is no compute role's.
    w.slice = decided.slices > 1 && !(decided.apart && w.load) ? op.slice : -1;
    for (const ir::ScheduledOp& s : schedule.ops) {
      if (s.name != op.name) continue;
      w.cycle = s.cycle;
      if (decided.apart && !w.load)
        w.slice = numbers.at(schedule.roles[static_cast<size_t>(s.role)].name);
    }
    for (const ir::Channel& c : schedule.channels)
      if (c.value == op.name && w.load) w.depth = c.depth;
    wanted.ops.push_back(std::move(w));
  }
  for (const scheduler::GraphEdge& e : graph.edges)
    if (e.kind != scheduler::EdgeKind::kOrder) {
      Wanted& reader = wanted.ops[static_cast<size_t>(e.to)];
      reader.reads.push_back(e.from);
      if (e.distance > 0) reader.reads_old.push_back(e.from);
    }
  NoteUnread(loop, graph, &wanted);
  // One role without products: those are where reductions share barriers.
  const bool products = std::any_of(wanted.ops.begin(), wanted.ops.end(),
                                    [](const Wanted& op) { return op.product; });
  for (Wanted& op : wanted.ops) op.meets = op.meets && !products && decided.roles == 1;
  NoteAlong(graph, &wanted);
  TakeOut(loop, graph, &wanted);
  if (decided.apart) {
    SplitPasses(graph, &wanted);
    std::set<int> roles;
    for (const Wanted& op : wanted.ops)
      if (op.slice >= 0) roles.insert(op.slice);
    wanted.slices = static_cast<int>(roles.size());
  }
  wanted.awaited_at_end += loop.going_on;  // where rings are too shallow
  for (const std::string& note : loop.notes) {
    wanted.too_few_turns =
        wanted.too_few_turns || note.find("turns at most, too few for") != std::string::npos;
    wanted.keeps_order =
        wanted.keeps_order || note.find("the program's is kept") != std::string::npos;
    wanted.no_loop = wanted.no_loop || note.find("what fills it") != std::string::npos;
    wanted.awaited_at_end += note.find("under way when its turn ends") != std::string::npos;
    wanted.drawn_to_loads =
        wanted.drawn_to_loads || note.find("in the turn that brings") != std::string::npos;
    wanted.results_kept =
        wanted.results_kept || note.find("end of the turn of the product") != std::string::npos;
  }
  wanted.too_few_turns = wanted.too_few_turns || wanted.keeps_order;
  return wanted;
}

}  // namespace tilec::obeyed
