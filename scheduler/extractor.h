// The problem of one loop while it is made: ops first, then edges between them, both from one walk
// over the body. One class, whose parts are extract.cc (what becomes an op at all), extract_ops.cc
// (what an op costs and holds) and extract_edges.cc (who reads what, and through which memory).
// Internal to the folder; extract.h is what others ask.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "ir/function.h"
#include "ir/row_classes.h"
#include "ir/target.h"
#include "scheduler/body_facts.h"
#include "scheduler/extract.h"
#include "scheduler/op_work.h"

namespace tilec::scheduler {

class Extractor {
 public:
  Extractor(const ir::Function& fn, ir::OpId loop, const ir::Target& target,
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

  Result<Extraction> Run();

 private:
  static constexpr int kComputeWarps = 4;  // of a role that computes

  // Where a value is before an op touches it.
  enum class Home { kRegisters, kShared, kTensor };
  // An op that carries a value from one memory to another: the edge to it, and where it leaves it.
  struct Carrier {
    StepKind step;
    EdgeKind edge;
    Home home;
  };
  // Producers of a value: an op and how many iterations back. Through free ops and carried values.
  struct Source {
    ir::OpId op;
    int64_t distance;
    bool operator<(const Source& o) const {
      return std::pair(op, distance) < std::pair(o.op, o.distance);
    }
  };
  // What a role spends on the ops of an arm: products are awaited in it.
  struct Spent {
    int64_t cycles = 0;
    std::map<int, int64_t> units;
    void Longer(const Spent& o) {
      cycles = std::max(cycles, o.cycles);
      for (const auto& [unit, busy] : o.units) units[unit] = std::max(units[unit], busy);
    }
  };

  // extract.cc
  void Take(ir::OpId id);
  Result<> FindArms(ir::OpId id);
  bool RunsAhead(ir::OpId load) const;
  void ReserveLiveIns();
  bool SlicedOp(const ir::Op& op) const;
  void FindReplicated();
  bool Sliced(ir::ValueId v) const { return rows_.DimOf(v) >= 0; }

  // extract_ops.cc
  const ir::OpCost& Cost(const ir::Op& op) const { return *target_.CostOf(CostName(fn_, op)); }
  ir::Work WorkOf(const ir::Op& op) const;
  // Elements of one slice.
  int64_t Elements(ir::ValueId v) const {
    return fn_.type(v).elements() / (Sliced(v) ? slices_ : 1);
  }
  int64_t Bytes(ir::ValueId v) const;
  int64_t Registers(int64_t bytes, int warps) const;
  int64_t Columns(int64_t bytes) const;
  int64_t Spread(ir::ValueId v) const;
  std::string Unique(std::string name);
  void AddOp(ir::OpId id);
  Spent SpentIn(ir::BlockId arm) const;
  void AddArms(ir::OpId id);
  void AddPins(const ir::Op& op, const GraphOp& g);

  // extract_edges.cc
  void Sources(ir::ValueId v, int64_t distance,
               std::map<std::pair<ir::ValueId, int64_t>, int64_t>* seen, std::set<Source>* out);
  std::set<Source> SourcesOf(ir::ValueId v);
  int Inserted(const Carrier& carrier, int from, int slice, int64_t bytes, int64_t distance);
  void Edge(int from, int to, EdgeKind kind, int64_t distance, int64_t bytes, int64_t hold);
  void Connect(int from, int to, const ir::Op& reader, size_t operand, int64_t distance,
               int64_t bytes);
  void AddEdges(ir::OpId id);
  void AddOrder();

  const ir::Function& fn_;
  const ir::Op& loop_;
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
  std::set<ir::OpId> costed_, replicated_;
  std::set<std::vector<int64_t>> accumulators_;  // their shapes
  std::vector<ir::OpId> order_;                  // costed_, as the program has them
  std::map<ir::OpId, std::vector<ir::OpId>>
      arms_;  // branches, with those loads of theirs that run ahead
  std::set<int> all_slices_;
  std::map<ir::OpId, std::vector<int>> instances_;
  std::map<ir::ValueId, size_t> arg_index_;
  std::map<std::pair<std::string, int>, std::string> role_pins_;  // the first op of a pinned role
  std::map<std::tuple<StepKind, int, int, int64_t>, int> inserted_;
  std::set<std::string> taken_;
  std::set<int> products_;  // graph ops
};

}  // namespace tilec::scheduler
