// An explanation as JSON: all facts, for tools. docs/explain.md names the fields.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "explain/internal.h"

namespace tilec::explain {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;

const char* Word(scheduler::EdgeKind kind) {
  switch (kind) {
    case scheduler::EdgeKind::kRegister: return "register";
    case scheduler::EdgeKind::kSmem: return "smem";
    case scheduler::EdgeKind::kTmem: return "tmem";
    case scheduler::EdgeKind::kOrder: return "order";
  }
  return "";
}

const char* Word(scheduler::Bound::Kind kind) {
  switch (kind) {
    case scheduler::Bound::Kind::kUnit: return "unit";
    case scheduler::Bound::Kind::kRecurrence: return "recurrence";
    case scheduler::Bound::Kind::kIssue: return "issue";
    case scheduler::Bound::Kind::kResidency: return "residency";
  }
  return "";
}

const char* Word(Verdict::Kind kind) {
  switch (kind) {
    case Verdict::Kind::kSmallest: return "smallest";
    case Verdict::Kind::kGap: return "gap";
    case Verdict::Kind::kUnproved: return "unproved";
  }
  return "";
}

const char* Word(Answer::Kind kind) {
  switch (kind) {
    case Answer::Kind::kPossible: return "possible";
    case Answer::Kind::kImpossible: return "impossible";
    case Answer::Kind::kUnknown: return "unknown";
  }
  return "";
}

class JsonWriter {
 public:
  explicit JsonWriter(const Explanation& e) : e_(e), g_(e.graph) {}

  Json Run() {
    Json j;
    j["format"] = kFormat;
    j["graph"] = g_.name;
    j["graph_hash"] = fmt::format("{:016x}", scheduler::Hash(g_));
    j["machine"] = g_.machine.name;
    j["ii"] = e_.schedule.ii;
    j["stages"] = e_.report.stages;
    j["first_stage"] = e_.first_stage;
    j["length"] = e_.report.length;
    j["violations"] = Json::array();
    for (const scheduler::Violation& v : e_.report.violations)
      j["violations"].push_back({{"law", v.law}, {"text", v.text}, {"ops", Ops(v.ops)}});
    j["verdict"] = {{"kind", Word(e_.verdict.kind)},
                    {"lower_bound", e_.verdict.lower_bound},
                    {"text", e_.verdict.text},
                    {"reasons", Reasons(e_.verdict.reasons)}};
    j["bounds"] = Json::array();
    for (const scheduler::Bound& b : e_.bounds)
      j["bounds"].push_back(
          {{"kind", Word(b.kind)}, {"ii", b.ii}, {"text", b.text}, {"ops", Ops(b.ops)}});
    j["period"] = e_.period;
    j["circle"] = Json::array();
    for (const Step& step : e_.circle)
      j["circle"].push_back(
          {{"op", g_.ops[step.op].name}, {"why", step.why}, {"cycles", step.cycles}});
    j["certificate"] = e_.certificate ? Certificate(*e_.certificate) : Json();
    if (!e_.unlike.empty()) j["unlike"] = e_.unlike;  // why the schedule is not the certificate's
    j["roles"] = Roles();
    j["ops"] = OpList();
    j["edges"] = Edges();
    j["units"] = Units();
    j["values"] = Values();
    j["smem"] = {{"bytes", e_.report.smem_bytes}, {"limit", g_.machine.smem_bytes}};
    j["tmem"] = {{"columns", e_.report.tmem_columns}, {"limit", g_.machine.tmem_columns}};
    j["order"] = Json::array();
    for (const ir::OrderEdge& o : e_.schedule.order)
      j["order"].push_back(
          {{"from", o.from}, {"to", o.to}, {"unit", o.unit}, {"enforced", o.enforced}});
    j["notes"] = Reasons(e_.notes);
    j["why_not"] = Json::array();
    for (const Answer& a : e_.answers)
      j["why_not"].push_back({{"question", a.question},
                              {"answer", Word(a.kind)},
                              {"text", a.text},
                              {"reasons", Reasons(a.reasons)}});
    if (!e_.plan.empty()) j["plan"] = e_.plan;
    j["program_note"] = e_.program_note;
    j["program"] = Json::array();
    for (const RoleProgram& role : e_.program) {
      Json lines = Json::array();
      for (const ProgramLine& line : role.lines)
        lines.push_back({{"depth", line.depth},
                         {"times", line.times},
                         {"text", line.text},
                         {"reason", line.reason},
                         {"line", line.at.line}});
      j["program"].push_back({{"role", role.name},
                              {"warps", role.warps},
                              {"quota", role.registers},
                              {"waits", role.waits},
                              {"signals", role.signals},
                              {"lines", std::move(lines)}});
    }
    return j;
  }

 private:
  Json Ops(const std::vector<int>& ops) const {
    Json list = Json::array();
    for (int v : ops)
      if (v >= 0) list.push_back(g_.ops[v].name);
    return list;
  }
  Json Reasons(const std::vector<Reason>& reasons) const {
    Json list = Json::array();
    for (const Reason& r : reasons) list.push_back({{"text", r.text}, {"ops", Ops(r.ops)}});
    return list;
  }

  static Json Certificate(const scheduler::Certificate& c) {
    const scheduler::Objective& o = c.objective;
    return {{"ii", c.ii},
            {"proof", c.proof == scheduler::Proof::kBound     ? "bound"
                      : c.proof == scheduler::Proof::kRefuted ? "refuted"
                                                              : "none"},
            {"epsilon", c.epsilon},
            {"schedule_ii", c.schedule_ii},
            {"objective",
             {{"wide_roles", o.compute_groups},
              {"warps", o.warps},
              {"cross_bytes", o.cross_bytes},
              {"waits", o.waits},
              {"stages", o.stages},
              {"smem_bytes", o.smem_bytes},
              {"slack", o.slack},
              {"proved", c.objective_proved}}}};
  }

  Json Roles() const {
    Json list = Json::array();
    for (size_t r = 0; r < e_.roles.size(); ++r) {
      const RoleFacts& role = e_.roles[r];
      Json peak = Json::array();
      for (const auto& [v, count] : role.peak_values)
        peak.push_back({{"value", g_.ops[v].name},
                        {"instances", count},
                        {"registers", count * g_.ops[v].regs}});
      list.push_back({{"name", e_.schedule.roles[r].name},
                      {"warps", e_.schedule.roles[r].warps},
                      {"quota", e_.schedule.roles[r].regs},
                      {"registers", role.registers},
                      {"peak_at", role.peak_at < 0 ? Json() : Json(g_.ops[role.peak_at].name)},
                      {"peak", peak},
                      {"issue", role.issue},
                      {"ops", Ops(role.ops)},
                      {"waits", Json(role.waits)}});
    }
    return list;
  }

  static Json At(const Place& at) {
    if (at.line == 0) return {};
    return {{"file", at.file}, {"line", at.line}, {"column", at.column}, {"text", at.text}};
  }

  Json OpList() const {
    Json list = Json::array();
    for (size_t v = 0; v < g_.ops.size(); ++v) {
      const scheduler::GraphOp& op = g_.ops[v];
      const OpFacts& facts = e_.ops[v];
      Json uses = Json::array(), also = Json::array();
      for (const Place& place : facts.also) also.push_back(At(place));
      for (const scheduler::UnitUse& use : op.uses)
        uses.push_back({{"unit", g_.units[use.unit].name}, {"cycles", use.cycles}});
      list.push_back({{"name", op.name},
                      {"kind", op.kind},
                      {"role", e_.schedule.roles[facts.role].name},
                      {"cycle", facts.cycle},
                      {"stage", facts.stage},
                      {"slot", facts.slot},
                      {"issue", op.issue},
                      {"latency", op.latency},
                      {"uses", uses},
                      {"registers", op.regs},
                      {"smem", op.smem_bytes},
                      {"tmem", op.tmem_columns},
                      {"slice", op.slice},
                      {"async", op.async},
                      {"variable", op.variable_latency},
                      {"streaming", op.streaming},
                      {"at", At(facts.at)},
                      {"also", std::move(also)}});
    }
    return list;
  }

  Json Edges() const {
    Json list = Json::array();
    for (size_t i = 0; i < g_.edges.size(); ++i) {
      const scheduler::GraphEdge& edge = g_.edges[i];
      const EdgeFacts& facts = e_.edges[i];
      list.push_back({{"from", g_.ops[edge.from].name},
                      {"to", g_.ops[edge.to].name},
                      {"kind", Word(edge.kind)},
                      {"delay", edge.delay},
                      {"transfer", facts.transfer},
                      {"distance", edge.distance},
                      {"hold", edge.hold},
                      {"crosses", facts.crosses},
                      {"slack", facts.slack}});
    }
    return list;
  }

  Json Units() const {
    Json list = Json::array();
    for (size_t f = 0; f < g_.units.size(); ++f)
      list.push_back({{"name", g_.units[f].name},
                      {"capacity", g_.units[f].capacity},
                      {"fluid", g_.units[f].fluid},
                      {"busy", e_.units[f].busy},
                      {"available", g_.units[f].capacity * e_.schedule.ii},
                      {"ops", Ops(e_.units[f].ops)}});
    return list;
  }

  Json Values() const {
    Json list = Json::array();
    for (const LifeFacts& life : e_.lives) {
      Json elsewhere = Json::array();
      for (int r : life.readers_elsewhere) elsewhere.push_back(e_.schedule.roles[r].name);
      list.push_back(
          {{"value", g_.ops[life.op].name},
           {"medium", life.medium},
           {"size", life.size},
           {"begin", life.begin},
           {"end", life.end},
           {"alive", life.live},
           {"depth", life.depth},
           {"last_reader", life.last_reader < 0 ? Json() : Json(g_.ops[life.last_reader].name)},
           {"last_distance", life.last_distance},
           {"read_in", elsewhere}});
    }
    return list;
  }

  const Explanation& e_;
  const scheduler::Graph& g_;
};

}  // namespace

std::string ToJson(const Explanation& e) {
  // Names come from files and may be damaged UTF-8.
  return JsonWriter(e).Run().dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tilec::explain
