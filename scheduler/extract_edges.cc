// Who reads what: from a value back to the ops that make it, through ops that cost nothing and
// around the loop, and through an inserted op where a value is in another memory than its reader
// wants. Accesses of one tensor keep their order.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "ir/arms.h"
#include "scheduler/extractor.h"

namespace tilec::scheduler {

using ir::Op;
using ir::OpId;
using ir::OpKind;
using ir::ValueId;

namespace {

constexpr int64_t kMostDistance = 64;  // of chains of carried values

}  // namespace

// `seen`: the fewest iterations back at which a value was met. A number that a loop carries is
// made anew in each iteration of what that one reads (a running sum), so what it was made of
// before that is not read again: such a number is followed once around the loop.
void Extractor::Sources(ValueId v, int64_t distance,
                        std::map<std::pair<ValueId, int64_t>, int64_t>* seen,
                        std::set<Source>* out) {
  const auto arg = arg_index_.find(v);
  const bool number = arg != arg_index_.end() && fn_.type(v).rank() == 0;
  const auto [met, fresh] = seen->try_emplace({v, number ? 0 : distance}, distance);
  if (distance > kMostDistance || (!fresh && met->second <= distance)) return;
  met->second = distance;
  if (arg != arg_index_.end()) {
    const Op& yield = fn_.ops[body_.ops.back()];
    Sources(yield.operands[arg->second - 1], distance + 1, seen, out);
    return;
  }
  const OpId id = fn_.values[v].def;
  if (!id.valid() || !AncestorIn(fn_, loop_.regions[0], id).valid()) return;
  if (costed_.count(id) > 0) {
    out->insert({id, distance});
    return;
  }
  for (ValueId operand : ReadBy(fn_, id)) Sources(operand, distance, seen, out);
}

std::set<Extractor::Source> Extractor::SourcesOf(ValueId v) {
  std::map<std::pair<ValueId, int64_t>, int64_t> seen;
  std::set<Source> out;
  Sources(v, 0, &seen, &out);
  return out;
}

// An op between a value and its reader; made once per value, into registers once per slice.
int Extractor::Inserted(const Carrier& carrier, int from, int slice, int64_t bytes,
                        int64_t distance) {
  const auto [step, edge, home] = carrier;
  if (home != Home::kRegisters || graph_.ops[from].slice >= 0) slice = graph_.ops[from].slice;
  const auto key = std::make_tuple(step, from, slice, distance);
  if (auto it = inserted_.find(key); it != inserted_.end()) return it->second;
  const char* kind = Spelling(step);
  const ir::OpCost* cost = target_.CostOf(kind);
  ir::Work work;
  work.bytes = static_cast<double>(bytes);
  work.elements = static_cast<double>(bytes) / 4;
  GraphOp g = CostedOp(*cost, work, graph_.ops[from].at);
  g.name = Unique(fmt::format("{}.{}", graph_.ops[from].name, kind));
  g.slice = slice;
  const OpOrigin& source = origins_[from];
  const int64_t spread = Spread(source.steps[source.main].value);
  if (home == Home::kRegisters) g.regs = Registers(spread, g.warps);
  if (home == Home::kShared) g.smem_bytes = bytes;
  if (home == Home::kTensor) g.tmem_columns = Columns(spread);
  const int index = static_cast<int>(graph_.ops.size());
  origins_.push_back({{{step, OpId(), source.steps[source.main].value}}, 0, g.slice});
  graph_.ops.push_back(std::move(g));
  home_.push_back(home);
  inserted_[key] = index;
  Edge(from, index, edge, distance, bytes, graph_.ops[index].issue);
  return index;
}

void Extractor::Edge(int from, int to, EdgeKind kind, int64_t distance, int64_t bytes,
                     int64_t hold) {
  for (const GraphEdge& e : graph_.edges)
    if (e.from == from && e.to == to && e.kind == kind && e.distance == distance) return;
  GraphEdge edge;
  edge.from = from;
  edge.to = to;
  edge.kind = kind;
  edge.delay = graph_.ops[from].latency;
  edge.distance = distance;
  edge.hold = hold;
  const char* medium = kind == EdgeKind::kRegister ? "register"
                       : kind == EdgeKind::kTmem   ? "tmem"
                                                   : "smem";
  edge.transfer = target_.Transfer(medium, static_cast<double>(bytes));
  edge.crossable = options_.role_crossing || kind != EdgeKind::kRegister;
  graph_.edges.push_back(edge);
}

// How the reader gets at a value, by where it is and where it must be.
void Extractor::Connect(int from, int to, const Op& reader, size_t operand, int64_t distance,
                        int64_t bytes) {
  const bool dot = reader.kind == OpKind::kDot;
  // A product reads its operands until it completes; its accumulator is updated in place.
  int64_t hold = dot && operand < 2 ? graph_.ops[to].latency : 0;
  Home home = home_[from];
  auto pass = [&](const Carrier& by) {
    from = Inserted(by, from, graph_.ops[to].slice, bytes, distance);
    distance = 0;
    home = by.home;
  };
  if (dot) {
    if (operand == 1 && home != Home::kShared) {
      if (home == Home::kTensor) pass({StepKind::kTmemLoad, EdgeKind::kTmem, Home::kRegisters});
      pass({StepKind::kSmemStore, EdgeKind::kRegister, Home::kShared});
    }
    if (operand >= 2 && home == Home::kShared)
      pass({StepKind::kSmemLoad, EdgeKind::kSmem, Home::kRegisters});
    if (tensor_memory_ && operand != 1 && home == Home::kRegisters)
      pass({StepKind::kTmemStore, EdgeKind::kRegister, Home::kTensor});
  } else if (reader.kind == OpKind::kIf && home == Home::kShared) {
    hold = graph_.ops[to].latency;  // its arms read it where it is
  } else {
    if (home == Home::kShared) pass({StepKind::kSmemLoad, EdgeKind::kSmem, Home::kRegisters});
    if (home == Home::kTensor) pass({StepKind::kTmemLoad, EdgeKind::kTmem, Home::kRegisters});
  }
  const EdgeKind kind = home == Home::kShared   ? EdgeKind::kSmem
                        : home == Home::kTensor ? EdgeKind::kTmem
                                                : EdgeKind::kRegister;
  const size_t before = graph_.edges.size();
  Edge(from, to, kind, distance, bytes, hold);
  // Products that add to one accumulator follow each other without waiting for the result.
  if (dot && operand == 2 && products_.count(from) > 0 && graph_.edges.size() > before) {
    int64_t busy = 0;
    for (const UnitUse& use : graph_.ops[from].uses)
      if (!graph_.units[use.unit].fluid) busy = std::max(busy, use.cycles);
    graph_.edges.back().delay = std::min(graph_.edges.back().delay, busy);
  }
}

void Extractor::AddEdges(OpId id) {
  const Op& op = fn_.ops[id];
  const std::vector<int> readers = instances_[id];
  bool inputs = false;
  std::vector<ValueId> reads = ReadBy(fn_, id);
  if (const auto arms = arms_.find(id); arms != arms_.end())
    for (OpId load : arms->second) reads.push_back(fn_.ops[load].results[0]);
  for (size_t i = 0; i < reads.size(); ++i) {
    for (const Source& source : SourcesOf(reads[i])) {
      inputs = true;
      const std::vector<int> producers = instances_[source.op];
      const int64_t bytes = Bytes(fn_.ops[source.op].results[0]);
      for (int r : readers) {
        const int slice = graph_.ops[r].slice;
        const bool own = std::any_of(producers.begin(), producers.end(), [&](int p) {
          return slice >= 0 && graph_.ops[p].slice == slice;
        });
        for (int p : producers)
          if (!own || graph_.ops[p].slice == slice) Connect(p, r, op, i, source.distance, bytes);
      }
    }
  }
  for (int r : readers) graph_.ops[r].streaming = graph_.ops[r].variable_latency && !inputs;
}

// Accesses of one tensor, one of them a write, keep their order within and across iterations.
void Extractor::AddOrder() {
  struct Access {
    OpId by, op;  // the op of the body, and what it stands for
  };
  std::vector<Access> memory;
  for (OpId id : order_) {
    if (IsMemory(fn_.ops[id].kind)) memory.push_back({id, id});
    for (OpId inside : OpsInside(fn_, id))
      if (IsMemory(fn_.ops[inside].kind) && costed_.count(inside) == 0)
        memory.push_back({id, inside});
  }
  for (size_t i = 0; i < memory.size(); ++i)
    for (size_t j = i + 1; j < memory.size(); ++j) {
      const Op &a = fn_.ops[memory[i].op], &b = fn_.ops[memory[j].op];
      if (a.operands[0] != b.operands[0] || memory[i].by == memory[j].by) continue;
      if (a.kind == OpKind::kLoad && b.kind == OpKind::kLoad) continue;
      if (a.kind == OpKind::kAtomic && b.kind == OpKind::kAtomic) continue;
      for (int x : instances_[memory[i].by])
        for (int y : instances_[memory[j].by]) {
          Edge(x, y, EdgeKind::kOrder, 0, 0, 0);
          Edge(y, x, EdgeKind::kOrder, 1, 0, 0);
          graph_.ops[y].streaming = false;
        }
    }
}

}  // namespace tilec::scheduler
