// SPDX-License-Identifier: Apache-2.0
#include "scheduler/extract.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "ir/arms.h"
#include "ir/isa.h"
#include "ir/loop_plan.h"
#include "ir/queries.h"
#include "ir/row_classes.h"
#include "scheduler/body_facts.h"
#include "scheduler/contract.h"
#include "scheduler/crossing.h"
#include "scheduler/diagnostics.h"
#include "scheduler/op_work.h"
#include "support/expr.h"

namespace tilec::scheduler {

namespace {

using ir::Op;
using ir::OpId;
using ir::OpKind;
using ir::Type;
using ir::ValueId;

constexpr int kComputeWarps = 4;       // of a role that computes
constexpr int64_t kLanes = 128;        // of tensor memory, of 4 bytes each per column
constexpr int64_t kMostDistance = 64;  // of chains of carried values
constexpr int64_t kCheap = 8;          // at most 1/8 of the largest issue time: worth doing twice

// Where a value is before an op touches it.
enum class Home { kRegisters, kShared, kTensor };

class Extractor {
 public:
  Extractor(const ir::Function& fn, OpId loop, const ir::Target& target,
            const ExtractOptions& options, DiagSink& diags)
      : fn_(fn),
        loop_(fn.ops[loop]),
        body_(fn.blocks[loop_.regions[0]]),
        target_(target),
        options_(options),
        slices_(options.slices),
        diags_(diags),
        rows_(fn, loop),
        facts_(FactsOf(fn, loop)),
        tensor_memory_(target.Has("tmem")) {}

  Result<Extraction> Run() {
    const std::vector<int> choices = rows_.Choices();
    if (std::find(choices.begin(), choices.end(), slices_) == choices.end())
      return diags_.Report(kLoopSlices, loop_.at, slices_);
    graph_.name = fn_.name.empty() ? "loop" : fn_.name;
    if (slices_ > 1) graph_.name += fmt::format("/{}", slices_);
    graph_.machine = LimitsOf(target_);
    ReserveLiveIns();
    for (const ir::TargetUnit& unit : target_.units)
      graph_.units.push_back({unit.name, unit.capacity, unit.fluid});
    for (size_t i = 1; i < body_.args.size(); ++i) arg_index_[body_.args[i]] = i;
    for (OpId id : body_.ops) {
      const Op& op = fn_.ops[id];
      if (op.kind == OpKind::kYield) continue;
      if (op.kind == OpKind::kIf) {
        TRY_VOID(FindArms(id));
        continue;
      }
      if (!op.regions.empty()) return diags_.Report(kLoopShape, op.at, ir::Info(op.kind).mnemonic);
      if (op.kind == OpKind::kPrint || op.kind == OpKind::kAssert || IsFree(op.kind)) continue;
      // Who reads a scalar computes it. What is seen in memory is done once, by one.
      if (IsScalar(fn_, op) && (!IsMemory(op.kind) || ir::IsReplicated(fn_, op))) continue;
      Take(id);
    }
    FindReplicated();
    for (OpId id : order_)
      if (fn_.ops[id].kind == OpKind::kIf)
        AddArms(id);
      else
        AddOp(id);
    for (OpId id : order_) AddEdges(id);
    AddOrder();
    const bool idle = std::all_of(order_.begin(), order_.end(), [&](OpId id) {
      if (arms_.count(id) == 0) return IsScalar(fn_, fn_.ops[id]);
      return graph_.ops[instances_[id][0]].issue <= 1;
    });
    if (idle) return diags_.Report(kLoopEmpty, loop_.at, fn_.name);
    return Extraction{std::move(graph_), std::move(origins_)};
  }

 private:
  // Producers of a value: an op and how many iterations back. Through free ops and carried values.
  struct Source {
    OpId op;
    int64_t distance;
    bool operator<(const Source& o) const {
      return std::pair(op, distance) < std::pair(o.op, o.distance);
    }
  };
  // `seen`: the fewest iterations back at which a value was met. A number that a loop carries is
  // made anew in each iteration of what that one reads (a running sum), so what it was made of
  // before that is not read again: such a number is followed once around the loop.
  void Sources(ValueId v, int64_t distance, std::map<std::pair<ValueId, int64_t>, int64_t>* seen,
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
  std::set<Source> SourcesOf(ValueId v) {
    std::map<std::pair<ValueId, int64_t>, int64_t> seen;
    std::set<Source> out;
    Sources(v, 0, &seen, &out);
    return out;
  }

  void Take(OpId id) {
    costed_.insert(id);
    if (const Op& op = fn_.ops[id]; op.kind == OpKind::kDot && fn_.type(op.results[0]).rank() == 2)
      accumulators_.insert(fn_.type(op.results[0]).shape);
    order_.push_back(id);
  }

  // A branch is one op: where all that it decides is scalars, nothing but what they cost. Loads of
  // its arms run ahead, unless the kernel writes what they read or, having no product, no ring.
  Result<> FindArms(OpId id) {
    const std::vector<OpId> inside = OpsInside(fn_, id);
    const bool cut = slices_ > 1 || std::any_of(inside.begin(), inside.end(), [&](OpId op) {
                       return fn_.ops[op].attr("slice") != nullptr;
                     });
    const bool products = std::any_of(inside.begin(), inside.end(),
                                      [&](OpId op) { return fn_.ops[op].kind == OpKind::kDot; });
    // What lies in tensor memory cannot be chosen by a branch.
    if (cut || (products && tensor_memory_))
      return diags_.Report(kLoopShape, fn_.ops[id].at, ir::Info(fn_.ops[id].kind).mnemonic);
    for (OpId op : inside)
      if (fn_.ops[op].kind == OpKind::kLoad && facts_.multiplies && RunsAhead(op) &&
          fn_.type(fn_.ops[op].results[0]).rank() > 0) {
        Take(op);
        arms_[id].push_back(op);
      }
    arms_[id];
    Take(id);
    return Done();
  }
  bool RunsAhead(OpId load) const {
    return IsReadOnlyLoad(fn_, fn_.ops[load]) && Cost(fn_.ops[load]).variable;
  }

  bool Sliced(ValueId v) const { return rows_.DimOf(v) >= 0; }
  // Elements of one slice.
  int64_t Elements(ValueId v) const { return fn_.type(v).elements() / (Sliced(v) ? slices_ : 1); }
  int64_t Bytes(ValueId v) const {
    return CeilDiv(Elements(v) * ir::Info(fn_.type(v).dtype).bits, 8);
  }
  int64_t Registers(int64_t bytes, int warps) const {
    return std::max<int64_t>(1, CeilDiv(bytes, 4 * ir::isa::kWarpThreads * warps));
  }
  int64_t Columns(int64_t bytes) const { return CeilDiv(bytes, 4 * kLanes); }
  // Bytes of a tile as threads and columns have it: rows of accumulators in tensor memory, and of
  // what is computed of them, are padded to its lanes.
  int64_t Spread(ValueId v) const {
    const Type& type = fn_.type(v);
    if (!tensor_memory_ || accumulators_.count(type.shape) == 0) return Bytes(v);
    const int64_t rows = type.shape[0] / (Sliced(v) ? slices_ : 1);
    return Bytes(v) * ir::StagedRows(target_.matrix_unit.kind, type.dtype, rows) / rows;
  }

  ir::Work WorkOf(const Op& op) const {
    return scheduler::WorkOf(target_, fn_, op, [&](ValueId v) { return Sliced(v) ? slices_ : 1; });
  }

  std::string Unique(std::string name) {
    for (char& c : name)
      if (c == '#' || c == '=' || c == ',' || c == ':' || c <= ' ') c = '_';
    if (name.empty()) name = "op";
    if (taken_.insert(name).second) return name;
    for (int i = 2;; ++i)
      if (std::string other = fmt::format("{}.{}", name, i); taken_.insert(other).second)
        return other;
  }

  // What lives around the loop is not the loop's to use.
  void ReserveLiveIns() {
    MachineLimits& machine = graph_.machine;
    for (const LiveIn& live : facts_.live_in) {
      const Type& type = fn_.type(live.value);
      const int64_t bytes = CeilDiv(type.elements() * ir::Info(type.dtype).bits, 8);
      if (live.loaded_operand)
        machine.smem_bytes = std::max<int64_t>(0, machine.smem_bytes - bytes);
      else
        machine.max_regs_per_thread = std::max<int64_t>(
            0, machine.max_regs_per_thread - Registers(Bytes(live.value), kComputeWarps));
    }
  }

  bool SlicedOp(const Op& op) const {
    if (slices_ == 1) return op.attr("slice") != nullptr;
    for (ValueId v : op.results)
      if (Sliced(v)) return true;
    return op.results.empty() && Sliced(op.operands[1]);
  }

  // Cheap arithmetic that all slices share (a mask over keys) is done by each of them: registers of
  // one role are no use to another. Not where the loop hands the value on, and not what products
  // read from shared memory.
  void FindReplicated() {
    for (int s = 0; s < slices_ && slices_ > 1; ++s) all_slices_.insert(s);
    for (OpId id : costed_)
      if (slices_ == 1 && SlicedOp(fn_.ops[id]))
        all_slices_.insert(static_cast<int>(fn_.ops[id].i("slice")));
    if (all_slices_.size() < 2) return;
    std::map<OpId, std::set<OpId>> readers;
    std::set<OpId> kept;
    int64_t largest = 0;
    for (OpId id : costed_) {
      const Op& op = fn_.ops[id];
      largest = std::max(largest, Cost(op).issue.At(WorkOf(op)));
      for (size_t i = 0; i < op.operands.size(); ++i)
        for (const Source& source : SourcesOf(op.operands[i])) {
          readers[source.op].insert(id);
          if (op.kind == OpKind::kDot && i < 2) kept.insert(source.op);
        }
    }
    for (ValueId v : fn_.ops[body_.ops.back()].operands)
      for (const Source& source : SourcesOf(v)) kept.insert(source.op);
    for (size_t i = body_.ops.size(); i-- > 0;) {
      const OpId id = body_.ops[i];
      const Op& op = fn_.ops[id];
      if (costed_.count(id) == 0 || kept.count(id) > 0 || SlicedOp(op) || IsMemory(op.kind) ||
          op.kind == OpKind::kDot || readers[id].empty())
        continue;
      if (options_.role_crossing && Cost(op).issue.At(WorkOf(op)) * kCheap > largest) continue;
      const bool all = std::all_of(readers[id].begin(), readers[id].end(), [&](OpId reader) {
        return SlicedOp(fn_.ops[reader]) || replicated_.count(reader) > 0;
      });
      if (all) replicated_.insert(id);
    }
  }

  const ir::OpCost& Cost(const Op& op) const { return *target_.CostOf(CostName(fn_, op)); }

  void AddOp(OpId id) {
    const Op& op = fn_.ops[id];
    // One op per slice, or one.
    std::vector<int> slices = {static_cast<int>(op.i("slice", -1))};
    if (replicated_.count(id) > 0 || (slices_ > 1 && SlicedOp(op)))
      slices.assign(all_slices_.begin(), all_slices_.end());
    const ir::OpCost& cost = Cost(op);
    const ir::Work work = WorkOf(op);
    std::string base = op.results.empty() ? "" : fn_.values[op.results[0]].name;
    if (base.empty()) base = ir::Info(op.kind).mnemonic;
    base = Unique(base);
    for (int s : slices) {
      GraphOp g = CostedOp(cost, work, op.at);
      g.name = slices.size() > 1 ? Unique(fmt::format("{}_{}", base, s)) : base;
      g.slice = s;
      Home home = Home::kRegisters;
      if (op.kind == OpKind::kLoad && cost.variable) {
        home = Home::kShared;
        g.smem_bytes = Bytes(op.results[0]);
      } else if (op.kind == OpKind::kDot && tensor_memory_) {
        home = Home::kTensor;
        g.tmem_columns = Columns(Spread(op.results[0]));
      } else if (!op.results.empty()) {
        g.regs = Registers(Spread(op.results[0]), g.warps);
      }
      if (facts_.masks.count(id) > 0 && !options_.masks_every_turn && arms_.empty()) {
        g.issue = g.latency = 0;
        g.uses.clear();
        if (op.kind != OpKind::kSelect) g.regs = 0;
      }
      if (op.kind == OpKind::kDot) products_.insert(static_cast<int>(graph_.ops.size()));
      instances_[id].push_back(static_cast<int>(graph_.ops.size()));
      AddPins(op, g);
      home_.push_back(home);
      const ValueId value = op.results.empty() ? ValueId() : op.results[0];
      origins_.push_back({{{StepKind::kOp, id, value, op.at}}, 0, g.slice});
      graph_.ops.push_back(std::move(g));
    }
  }

  // What a role spends on the ops of an arm: products are awaited in it.
  struct Spent {
    int64_t cycles = 0;
    std::map<int, int64_t> units;
    void Longer(const Spent& o) {
      cycles = std::max(cycles, o.cycles);
      for (const auto& [unit, busy] : o.units) units[unit] = std::max(units[unit], busy);
    }
  };
  Spent SpentIn(ir::BlockId arm) const {
    Spent spent;
    const auto add = [&](const Spent& more) {
      spent.cycles += more.cycles;
      for (const auto& [unit, busy] : more.units) spent.units[unit] += busy;
    };
    for (OpId id : fn_.blocks[arm].ops) {
      const Op& op = fn_.ops[id];
      if (!op.regions.empty()) {
        Spent longest;
        for (ir::BlockId region : op.regions) longest.Longer(SpentIn(region));
        add(longest);
        continue;
      }
      if (op.kind == OpKind::kYield || op.kind == OpKind::kPrint || op.kind == OpKind::kAssert ||
          IsFree(op.kind) || costed_.count(id) > 0)
        continue;
      if (IsScalar(fn_, op)) continue;
      const GraphOp g = CostedOp(Cost(op), WorkOf(op), op.at);
      Spent one;
      one.cycles = g.async || g.variable_latency ? g.latency : g.issue;
      for (const UnitUse& use : g.uses) one.units[use.unit] += use.cycles;
      add(one);
    }
    return spent;
  }

  void AddArms(OpId id) {
    const Op& op = fn_.ops[id];
    Spent longest;
    for (ir::BlockId arm : op.regions) longest.Longer(SpentIn(arm));
    GraphOp g;
    g.kind = ir::Info(op.kind).mnemonic;
    g.issue = g.latency = std::max<int64_t>(1, longest.cycles);
    g.warps = kComputeWarps;
    for (const auto& [unit, busy] : longest.units)
      if (busy > 0) g.uses.push_back({unit, busy});
    for (ValueId v : op.results)
      if (fn_.type(v).rank() > 0) g.regs += Registers(Bytes(v), g.warps);
    std::string base = op.results.empty() ? "" : fn_.values[op.results[0]].name;
    if (base.empty()) base = g.kind;
    g.name = Unique(base);
    g.at = op.at;
    instances_[id].push_back(static_cast<int>(graph_.ops.size()));
    for (OpId inside : OpsInside(fn_, id))
      if (costed_.count(inside) == 0) AddPins(fn_.ops[inside], g);
    home_.push_back(Home::kRegisters);
    const ValueId value = op.results.empty() ? ValueId() : op.results[0];
    origins_.push_back({{{StepKind::kOp, id, value, op.at}}, 0, g.slice});
    graph_.ops.push_back(std::move(g));
  }

  // Decisions of the author, as the source's pins left them on the op.
  void AddPins(const Op& op, const GraphOp& g) {
    Graph::Pin pin;
    pin.op = g.name;
    pin.at = op.at;
    if (g.smem_bytes > 0) pin.depth = static_cast<int>(op.i("pin_depth"));
    pin.stage = static_cast<int>(op.i("pin_stage", -1));
    if (const std::string& role = op.s("pin_role"); !role.empty() && !g.variable_latency) {
      const auto [it, first] = role_pins_.try_emplace({role, g.slice}, g.name);
      if (!first) pin.same_role_as = it->second;
    }
    if (pin.depth > 0 || pin.stage >= 0 || !pin.same_role_as.empty()) graph_.pins.push_back(pin);
  }

  // An op between a value and its reader; made once per value, into registers once per slice.
  int Inserted(StepKind step, int from, int slice, int64_t bytes, EdgeKind edge, Home home,
               int64_t distance) {
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

  void Edge(int from, int to, EdgeKind kind, int64_t distance, int64_t bytes, int64_t hold) {
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
  void Connect(int from, int to, const Op& reader, size_t operand, int64_t distance,
               int64_t bytes) {
    const bool dot = reader.kind == OpKind::kDot;
    // A product reads its operands until it completes; its accumulator is updated in place.
    int64_t hold = dot && operand < 2 ? graph_.ops[to].latency : 0;
    Home home = home_[from];
    auto pass = [&](StepKind step, EdgeKind edge, Home next) {
      from = Inserted(step, from, graph_.ops[to].slice, bytes, edge, next, distance);
      distance = 0;
      home = next;
    };
    if (dot) {
      if (operand == 1 && home != Home::kShared) {
        if (home == Home::kTensor) pass(StepKind::kTmemLoad, EdgeKind::kTmem, Home::kRegisters);
        pass(StepKind::kSmemStore, EdgeKind::kRegister, Home::kShared);
      }
      if (operand >= 2 && home == Home::kShared)
        pass(StepKind::kSmemLoad, EdgeKind::kSmem, Home::kRegisters);
      if (tensor_memory_ && operand != 1 && home == Home::kRegisters)
        pass(StepKind::kTmemStore, EdgeKind::kRegister, Home::kTensor);
    } else if (reader.kind == OpKind::kIf && home == Home::kShared) {
      hold = graph_.ops[to].latency;  // its arms read it where it is
    } else {
      if (home == Home::kShared) pass(StepKind::kSmemLoad, EdgeKind::kSmem, Home::kRegisters);
      if (home == Home::kTensor) pass(StepKind::kTmemLoad, EdgeKind::kTmem, Home::kRegisters);
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

  void AddEdges(OpId id) {
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
  void AddOrder() {
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

  const ir::Function& fn_;
  const Op& loop_;
  const ir::Block& body_;
  const ir::Target& target_;
  const ExtractOptions options_;
  const int slices_;
  DiagSink& diags_;
  const ir::RowClasses rows_;
  const BodyFacts facts_;
  const bool tensor_memory_;
  Graph graph_;
  std::vector<OpOrigin> origins_;
  std::vector<Home> home_;  // by graph op
  std::set<OpId> costed_, replicated_;
  std::set<std::vector<int64_t>> accumulators_;  // their shapes
  std::vector<OpId> order_;                      // costed_, as the program has them
  std::map<OpId, std::vector<OpId>> arms_;  // branches, with those loads of theirs that run ahead
  std::set<int> all_slices_;
  std::map<OpId, std::vector<int>> instances_;
  std::map<ValueId, size_t> arg_index_;
  std::map<std::pair<std::string, int>, std::string> role_pins_;  // the first op of a pinned role
  std::map<std::tuple<StepKind, int, int, int64_t>, int> inserted_;
  std::set<std::string> taken_;
  std::set<int> products_;  // graph ops
};

void FindLoops(const ir::Function& fn, ir::BlockId block, bool* has_loop,
               std::vector<OpId>* loops) {
  for (OpId id : fn.blocks[block].ops) {
    const Op& op = fn.ops[id];
    const bool loop = IsLoop(op.kind);
    bool inside = false;
    for (ir::BlockId region : op.regions) FindLoops(fn, region, &inside, loops);
    if (op.kind == OpKind::kFor && !inside) loops->push_back(id);
    *has_loop = *has_loop || loop || inside;
  }
}

}  // namespace

MachineLimits LimitsOf(const ir::Target& target) {
  MachineLimits machine;
  machine.name = target.name;
  machine.smem_bytes = target.limits.smem_bytes;
  machine.tmem_columns = target.limits.tmem_columns;
  machine.max_regs_per_thread = target.limits.max_regs_per_thread;
  machine.registers = target.limits.registers;
  machine.max_warps = target.limits.max_warps;
  machine.barrier_bytes = target.limits.barrier_bytes;
  return machine;
}

std::vector<OpId> InnermostLoops(const ir::Function& fn) {
  std::vector<OpId> loops;
  bool any = false;
  FindLoops(fn, fn.body, &any, &loops);
  return loops;
}

const char* Spelling(StepKind kind) {
  switch (kind) {
    case StepKind::kOp: return "";
    case StepKind::kSmemLoad: return "smem_load";
    case StepKind::kSmemStore: return "smem_store";
    case StepKind::kTmemLoad: return "tmem_load";
    case StepKind::kTmemStore: return "tmem_store";
  }
  return "";
}

std::vector<OpId> OpOrigin::members() const {
  std::vector<OpId> ops;
  for (const OriginStep& step : steps)
    if (step.kind == StepKind::kOp) ops.push_back(step.op);
  return ops;
}

Result<Extraction> ExtractLoop(const ir::Function& fn, OpId loop, const ir::Target& target,
                               const ExtractOptions& options, DiagSink& diags) {
  TRY(Extraction extraction, Extractor(fn, loop, target, options, diags).Run());
  ContractSmallOps(&extraction);
  if (options.role_crossing) AddRoutes(target, &extraction);
  TRY_VOID(CheckGraph(extraction.graph, diags));
  return extraction;
}

}  // namespace tilec::scheduler
