// Facts of a schedule, each computed from its definition in docs/scheduler.md. Shares no code with
// the checker; a test compares the numbers.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "explain/internal.h"
#include "support/expr.h"

namespace tilec::explain {

namespace {

using scheduler::EdgeKind;
using scheduler::GraphEdge;
using scheduler::GraphOp;

std::string Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return "";
  return std::string(text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1));
}

class Facts {
 public:
  Facts(Explanation* e, const SourceMap& sources)
      : e_(*e), ii_(e->schedule.ii), n_(static_cast<int>(e->graph.ops.size())) {
    Ops(sources);
    Edges();
    Lives();
    Units();
    Roles();
  }

 private:
  void Ops(const SourceMap& sources) {
    e_.ops.resize(n_);
    for (const ir::ScheduledOp& op : e_.schedule.ops) {
      OpFacts& facts = e_.ops[e_.graph.FindOp(op.name)];
      facts.cycle = op.cycle;
      facts.stage = FloorDiv(op.cycle, ii_);
      facts.slot = FloorMod(op.cycle, ii_);
      facts.role = op.role;
    }
    for (int v = 0; v < n_; ++v) {
      e_.ops[v].at = PlaceOf(e_.graph.ops[v].at, sources);
      e_.first_stage = v == 0 ? e_.ops[v].stage : std::min(e_.first_stage, e_.ops[v].stage);
    }
  }

  void Edges() {
    for (const GraphEdge& edge : e_.graph.edges) {
      EdgeFacts facts;
      const OpFacts &from = e_.ops[edge.from], &to = e_.ops[edge.to];
      facts.crosses = from.role != to.role;
      facts.transfer = facts.crosses ? edge.transfer : 0;
      facts.slack = to.cycle + edge.distance * ii_ - from.cycle - edge.delay - facts.transfer;
      e_.edges.push_back(facts);
    }
  }

  // Instances alive at a cycle of the steady state: those defined minus those ended.
  int64_t Live(const LifeFacts& life, int64_t at) const {
    return FloorDiv(at - life.begin, ii_) - FloorDiv(at - life.end, ii_);
  }

  void Lives() {
    for (int v = 0; v < n_; ++v) {
      const GraphOp& op = e_.graph.ops[v];
      LifeFacts life;
      life.op = v;
      life.medium = op.smem_bytes > 0 ? "smem" : op.tmem_columns > 0 ? "tmem" : "registers";
      life.size = op.smem_bytes > 0     ? op.smem_bytes
                  : op.tmem_columns > 0 ? op.tmem_columns
                                        : op.regs;
      life.begin = life.end = e_.ops[v].cycle;
      std::set<int> elsewhere;
      for (const GraphEdge& edge : e_.graph.edges) {
        if (edge.from != v || edge.kind == EdgeKind::kOrder) continue;
        const int64_t end = e_.ops[edge.to].cycle + edge.distance * ii_ + edge.hold;
        if (life.last_reader < 0 || end > life.end) {
          life.last_reader = edge.to;
          life.last_distance = edge.distance;
        }
        life.end = std::max(life.end, end);
        if (e_.ops[edge.to].role != e_.ops[v].role) elsewhere.insert(e_.ops[edge.to].role);
      }
      life.readers_elsewhere.assign(elsewhere.begin(), elsewhere.end());
      for (const ir::Channel& channel : e_.schedule.channels)
        if (channel.value == op.name) life.depth = channel.depth;
      life.live = CeilDiv(life.end - life.begin, ii_);
      if (life.size > 0 || life.depth > 0) e_.lives.push_back(std::move(life));
    }
    std::stable_sort(e_.lives.begin(), e_.lives.end(),
                     [](const LifeFacts& a, const LifeFacts& b) { return a.begin < b.begin; });
  }

  void Units() {
    for (int f = 0; f < static_cast<int>(e_.graph.units.size()); ++f) {
      UnitFacts facts;
      for (int v = 0; v < n_; ++v)
        for (const scheduler::UnitUse& use : e_.graph.ops[v].uses)
          if (use.unit == f && use.cycles > 0) {
            if (facts.ops.empty() || facts.ops.back() != v) facts.ops.push_back(v);
            facts.busy += use.cycles;
          }
      BySlot(&facts.ops);
      e_.units.push_back(std::move(facts));
    }
  }

  void Roles() {
    for (int r = 0; r < static_cast<int>(e_.schedule.roles.size()); ++r) {
      RoleFacts facts;
      for (int v = 0; v < n_; ++v) {
        if (e_.ops[v].role != r) continue;
        facts.ops.push_back(v);
        facts.issue += e_.graph.ops[v].issue;
      }
      BySlot(&facts.ops);
      for (int v : facts.ops) {  // live counts grow at definitions only
        std::vector<std::pair<int, int64_t>> live;
        int64_t total = 0;
        for (const LifeFacts& life : e_.lives) {
          const int64_t regs = e_.graph.ops[life.op].regs;
          if (e_.ops[life.op].role != r || regs == 0) continue;
          const int64_t count = Live(life, e_.ops[v].cycle);
          if (count > 0) live.emplace_back(life.op, count);
          total += count * regs;
        }
        if (total <= facts.registers) continue;
        facts.registers = total;
        facts.peak_at = v;
        facts.peak_values = std::move(live);
      }
      std::stable_sort(
          facts.peak_values.begin(), facts.peak_values.end(), [&](const auto& a, const auto& b) {
            return a.second * e_.graph.ops[a.first].regs > b.second * e_.graph.ops[b.first].regs;
          });
      for (int i = 0; i < static_cast<int>(e_.graph.edges.size()); ++i)
        if (e_.edges[i].crosses && e_.ops[e_.graph.edges[i].to].role == r) facts.waits.push_back(i);
      e_.roles.push_back(std::move(facts));
    }
  }

  void BySlot(std::vector<int>* ops) const {
    std::stable_sort(ops->begin(), ops->end(),
                     [&](int a, int b) { return e_.ops[a].slot < e_.ops[b].slot; });
  }

  Explanation& e_;
  const int64_t ii_;
  const int n_;
};

}  // namespace

Place PlaceOf(Span span, const SourceMap& sources) {
  if (!span.known() || span.file >= sources.size()) return {};
  const LineCol at = sources.Locate(span.file, span.begin);
  return {sources.path(span.file), at.line, at.column, Trimmed(at.text)};
}

void ReadFacts(Explanation* e, const Proof& proof, const SourceMap& sources) {
  Facts facts(e, sources);
  for (size_t v = 0; v < e->ops.size() && v < proof.members.size(); ++v)
    for (Span span : proof.members[v]) {
      OpFacts& op = e->ops[v];
      Place place = PlaceOf(span, sources);
      const auto same = [&](const Place& p) {
        return p.file == place.file && p.line == place.line;
      };
      if (place.line == 0 || same(op.at) || std::any_of(op.also.begin(), op.also.end(), same))
        continue;
      op.also.push_back(std::move(place));
    }
}

}  // namespace tilec::explain
