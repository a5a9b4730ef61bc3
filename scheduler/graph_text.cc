// Graphs as text, both ways.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "scheduler/diagnostics.h"
#include "scheduler/graph.h"
#include "support/lines.h"
#include "support/nearest.h"

namespace tilec::scheduler {

namespace {

constexpr int64_t kMost = 1'000'000'000;

constexpr std::pair<EdgeKind, std::string_view> kEdgeKinds[] = {{EdgeKind::kRegister, "register"},
                                                                {EdgeKind::kSmem, "smem"},
                                                                {EdgeKind::kTmem, "tmem"},
                                                                {EdgeKind::kOrder, "order"}};
constexpr std::pair<std::string_view, int64_t MachineLimits::*> kLimits[] = {
    {"smem", &MachineLimits::smem_bytes},          {"tmem", &MachineLimits::tmem_columns},
    {"regs", &MachineLimits::max_regs_per_thread}, {"registers", &MachineLimits::registers},
    {"warps", &MachineLimits::max_warps},          {"barrier", &MachineLimits::barrier_bytes}};
constexpr std::pair<std::string_view, int64_t GraphOp::*> kOpNumbers[] = {
    {"issue", &GraphOp::issue},
    {"latency", &GraphOp::latency},
    {"regs", &GraphOp::regs},
    {"smem", &GraphOp::smem_bytes},
    {"tmem", &GraphOp::tmem_columns}};
constexpr std::pair<std::string_view, bool GraphOp::*> kOpFlags[] = {
    {"variable", &GraphOp::variable_latency},
    {"streaming", &GraphOp::streaming},
    {"async", &GraphOp::async},
    {"routed", &GraphOp::routed}};
constexpr std::pair<std::string_view, int64_t GraphEdge::*> kEdgeNumbers[] = {
    {"delay", &GraphEdge::delay},
    {"distance", &GraphEdge::distance},
    {"transfer", &GraphEdge::transfer},
    {"hold", &GraphEdge::hold}};

class Parser {
 public:
  Parser(std::string_view text, int32_t file, DiagSink& diags)
      : text_(text), file_(file), diags_(diags) {}

  Result<Graph> Run() {
    int lines = 0;
    for (const TextLine& line : SplitLines(text_, file_)) {
      line_ = &line;
      if (lines++ == 0 && line.words[0].text != "graph")
        return Syntax(line.words[0], "a graph starts with `graph NAME`");
      TRY_VOID(ParseLine(line.words[0].text));
    }
    if (lines == 0) return diags_.Report(kGraphSyntax, Span{file_, 0, 0}, "the graph is empty");
    return std::move(graph_);
  }

 private:
  DiagBuilder At(const DiagDef& def, Span span, const std::string& text) {
    DiagBuilder builder = diags_.Report(def, span, text);
    if (file_ < 0) builder.Place(fmt::format("line {}", line_->number));
    return builder;
  }
  DiagBuilder Syntax(const TextWord& word, const std::string& text) {
    return At(kGraphSyntax, word.span, text);
  }
  DiagBuilder Unknown(const TextWord& word, const std::string& what,
                      const std::vector<std::string>& names) {
    DiagBuilder builder =
        At(kGraphName, word.span, fmt::format("there is no {} `{}`", what, word.text));
    const std::string near = NearestName(word.text, names);
    if (!near.empty()) builder.Help(fmt::format("did you mean `{}`?", near));
    return builder;
  }
  Result<int64_t> Number(const TextWord& word, int64_t low = 0, int64_t high = kMost) {
    const std::optional<int64_t> value = ParseInteger(word.text);
    if (!value)
      return At(kGraphValue, word.span, fmt::format("`{}` is not a whole number", word.text));
    if (*value < low || *value > high)
      return At(kGraphValue, word.span, fmt::format("{} is not in {}…{}", *value, low, high));
    return *value;
  }
  Result<int> FindOp(const TextWord& word) {
    const int op = graph_.FindOp(word.text);
    if (op >= 0) return op;
    std::vector<std::string> names;
    for (const GraphOp& o : graph_.ops) names.push_back(o.name);
    return Unknown(word, "op", names);
  }
  Result<> AtLeastWords(size_t count, const char* form) {
    if (line_->words.size() >= count) return Done();
    return At(kGraphSyntax, line_->span, fmt::format("this line is not `{}`", form));
  }
  Result<KeyValue> Pair(const TextWord& word) {
    const std::optional<KeyValue> pair = SplitKeyValue(word);
    if (!pair) return Syntax(word, fmt::format("expected `key=value`, found `{}`", word.text));
    return *pair;
  }
  TextWord KeyWord(const TextWord& word, std::string_view key) {
    TextWord result{key, word.span};
    result.span.end = result.span.begin + static_cast<uint32_t>(key.size());
    return result;
  }

  Result<> ParseLine(std::string_view key) {
    if (key == "graph") return ParseGraphLine();
    if (key == "machine") return ParseMachine();
    if (key == "unit") return ParseUnit();
    if (key == "op") return ParseOp();
    if (key == "edge") return ParseEdge();
    if (key == "pin") return ParsePin();
    return Unknown(line_->words[0], "line", {"graph", "machine", "unit", "op", "edge", "pin"});
  }

  Result<> ParseGraphLine() {
    if (line_->words.size() != 2 || !graph_.name.empty())
      return At(kGraphSyntax, line_->span,
                graph_.name.empty() ? "this line is not `graph NAME`" : "a second line `graph`");
    graph_.name = line_->words[1].text;
    return Done();
  }

  Result<> ParseMachine() {
    TRY_VOID(AtLeastWords(2, "machine NAME [limit=N …]"));
    graph_.machine.name = line_->words[1].text == "-" ? "" : line_->words[1].text;
    for (size_t i = 2; i < line_->words.size(); ++i) {
      TRY(const KeyValue pair, Pair(line_->words[i]));
      const auto* row = std::find_if(std::begin(kLimits), std::end(kLimits),
                                     [&](const auto& r) { return r.first == pair.key; });
      if (row == std::end(kLimits))
        return Unknown(KeyWord(line_->words[i], pair.key), "limit of a machine",
                       {"smem", "tmem", "regs", "registers", "warps", "barrier"});
      TRY(graph_.machine.*(row->second), Number(pair.value));
    }
    return Done();
  }

  Result<> ParseUnit() {
    TRY_VOID(AtLeastWords(2, "unit NAME [capacity=N] [fluid]"));
    Unit unit;
    unit.name = line_->words[1].text;
    if (graph_.FindUnit(unit.name) >= 0)
      return At(kGraphName, line_->words[1].span,
                fmt::format("unit `{}` is defined twice", unit.name));
    for (size_t i = 2; i < line_->words.size(); ++i) {
      if (line_->words[i].text == "fluid") {
        unit.fluid = true;
        continue;
      }
      TRY(const KeyValue pair, Pair(line_->words[i]));
      if (pair.key != "capacity")
        return Unknown(KeyWord(line_->words[i], pair.key), "property of a unit",
                       {"capacity", "fluid"});
      TRY(unit.capacity, Number(pair.value, 1, 1'000'000));
    }
    graph_.units.push_back(std::move(unit));
    return Done();
  }

  // use=tensor:512,issue:64
  Result<> ParseUses(const TextWord& value, GraphOp* op) {
    for (size_t begin = 0; begin <= value.text.size();) {
      const size_t end = std::min(value.text.find(',', begin), value.text.size());
      TextWord part{value.text.substr(begin, end - begin), value.span};
      part.span.begin += static_cast<uint32_t>(begin);
      part.span.end = part.span.begin + static_cast<uint32_t>(part.text.size());
      const size_t colon = part.text.find(':');
      if (colon == std::string_view::npos) return Syntax(part, "expected `UNIT:CYCLES`");
      TextWord cycles{part.text.substr(colon + 1), part.span};
      cycles.span.begin += static_cast<uint32_t>(colon + 1);
      part.text = part.text.substr(0, colon);
      part.span.end = part.span.begin + static_cast<uint32_t>(colon);
      UnitUse use;
      use.unit = graph_.FindUnit(part.text);
      if (use.unit < 0) {
        std::vector<std::string> names;
        for (const Unit& unit : graph_.units) names.push_back(unit.name);
        return Unknown(part, "unit", names);
      }
      TRY(use.cycles, Number(cycles));
      op->uses.push_back(use);
      begin = end + 1;
    }
    return Done();
  }

  Result<> ParseOp() {
    TRY_VOID(AtLeastWords(2, "op NAME [key=value …] [variable] [streaming] [async] [routed]"));
    GraphOp op;
    op.name = line_->words[1].text;
    op.at = line_->words[1].span;
    if (graph_.FindOp(op.name) >= 0)
      return At(kGraphName, line_->words[1].span, fmt::format("op `{}` is defined twice", op.name));
    for (size_t i = 2; i < line_->words.size(); ++i) {
      const TextWord& word = line_->words[i];
      const auto* flag = std::find_if(std::begin(kOpFlags), std::end(kOpFlags),
                                      [&](const auto& r) { return r.first == word.text; });
      if (flag != std::end(kOpFlags)) {
        op.*(flag->second) = true;
        continue;
      }
      TRY(const KeyValue pair, Pair(word));
      const auto* row = std::find_if(std::begin(kOpNumbers), std::end(kOpNumbers),
                                     [&](const auto& r) { return r.first == pair.key; });
      if (row != std::end(kOpNumbers)) {
        TRY(op.*(row->second), Number(pair.value));
      } else if (pair.key == "kind") {
        op.kind = pair.value.text;
      } else if (pair.key == "part") {
        op.part = pair.value.text;
      } else if (pair.key == "use") {
        TRY_VOID(ParseUses(pair.value, &op));
      } else if (pair.key == "warps") {
        TRY(const int64_t warps, Number(pair.value, 1, 64));
        op.warps = static_cast<int>(warps);
      } else if (pair.key == "slice") {
        TRY(const int64_t slice, Number(pair.value, 0, 1'000'000));
        op.slice = static_cast<int>(slice);
      } else {
        return Unknown(KeyWord(word, pair.key), "property of an op",
                       {"kind", "issue", "latency", "use", "warps", "regs", "smem", "tmem", "slice",
                        "part", "variable", "streaming", "async", "routed"});
      }
    }
    graph_.ops.push_back(std::move(op));
    return Done();
  }

  // via=STORE,LOAD
  Result<> ParseRoute(const TextWord& value, GraphEdge* edge) {
    const size_t comma = value.text.find(',');
    if (comma == std::string_view::npos) return Syntax(value, "expected `via=STORE,LOAD`");
    TextWord store{value.text.substr(0, comma), value.span};
    store.span.end = store.span.begin + static_cast<uint32_t>(comma);
    TextWord load{value.text.substr(comma + 1), value.span};
    load.span.begin += static_cast<uint32_t>(comma + 1);
    TRY(edge->store, FindOp(store));
    TRY(edge->load, FindOp(load));
    return Done();
  }

  Result<> ParseEdge() {
    TRY_VOID(AtLeastWords(5, "edge FROM -> TO register|smem|tmem|order [key=value …] [fixed]"));
    const std::vector<TextWord>& words = line_->words;
    GraphEdge edge;
    TRY(edge.from, FindOp(words[1]));
    if (words[2].text != "->") return Syntax(words[2], "expected `->`");
    TRY(edge.to, FindOp(words[3]));
    const auto* kind = std::find_if(std::begin(kEdgeKinds), std::end(kEdgeKinds),
                                    [&](const auto& r) { return r.second == words[4].text; });
    if (kind == std::end(kEdgeKinds))
      return Unknown(words[4], "kind of edge", {"register", "smem", "tmem", "order"});
    edge.kind = kind->first;
    edge.delay = graph_.ops[edge.from].latency;
    for (size_t i = 5; i < words.size(); ++i) {
      if (words[i].text == "fixed") {
        edge.crossable = false;
        continue;
      }
      TRY(const KeyValue pair, Pair(words[i]));
      if (pair.key == "via") {
        TRY_VOID(ParseRoute(pair.value, &edge));
        continue;
      }
      const auto* row = std::find_if(std::begin(kEdgeNumbers), std::end(kEdgeNumbers),
                                     [&](const auto& r) { return r.first == pair.key; });
      if (row == std::end(kEdgeNumbers))
        return Unknown(KeyWord(words[i], pair.key), "property of an edge",
                       {"delay", "distance", "transfer", "hold", "via", "fixed"});
      TRY(edge.*(row->second), Number(pair.value));
    }
    graph_.edges.push_back(edge);
    return Done();
  }

  Result<> ParsePin() {
    TRY_VOID(AtLeastWords(3, "pin OP key=value …"));
    Graph::Pin pin;
    TRY_VOID(FindOp(line_->words[1]));
    pin.op = line_->words[1].text;
    pin.at = line_->words[1].span;
    for (size_t i = 2; i < line_->words.size(); ++i) {
      TRY(const KeyValue pair, Pair(line_->words[i]));
      if (pair.key == "cycle") {
        TRY(pin.cycle, Number(pair.value));
      } else if (pair.key == "stage") {
        TRY(const int64_t stage, Number(pair.value, 0, 1'000'000));
        pin.stage = static_cast<int>(stage);
      } else if (pair.key == "depth") {
        TRY(const int64_t depth, Number(pair.value, 1, 1'000'000));
        pin.depth = static_cast<int>(depth);
      } else if (pair.key == "with") {
        TRY_VOID(FindOp(pair.value));
        pin.same_role_as = pair.value.text;
      } else {
        return Unknown(KeyWord(line_->words[i], pair.key), "pin",
                       {"cycle", "stage", "depth", "with"});
      }
    }
    graph_.pins.push_back(std::move(pin));
    return Done();
  }

  const std::string_view text_;
  const int32_t file_;
  DiagSink& diags_;
  const TextLine* line_ = nullptr;
  Graph graph_;
};

}  // namespace

std::string ToText(const Graph& g) {
  std::string text =
      fmt::format("graph {}\nmachine {}", g.name, g.machine.name.empty() ? "-" : g.machine.name);
  for (const auto& [name, field] : kLimits) text += fmt::format(" {}={}", name, g.machine.*field);
  text += '\n';
  for (const Unit& unit : g.units)
    text += fmt::format("unit {} capacity={}{}\n", unit.name, unit.capacity,
                        unit.fluid ? " fluid" : "");
  for (const GraphOp& op : g.ops) {
    text += "op " + op.name;
    if (!op.kind.empty()) text += " kind=" + op.kind;
    for (const auto& [name, field] : kOpNumbers)
      if (op.*field != 0) text += fmt::format(" {}={}", name, op.*field);
    for (size_t i = 0; i < op.uses.size(); ++i)
      text += fmt::format("{}{}:{}", i == 0 ? " use=" : ",", g.units[op.uses[i].unit].name,
                          op.uses[i].cycles);
    text += fmt::format(" warps={}", op.warps);
    if (op.slice >= 0) text += fmt::format(" slice={}", op.slice);
    if (!op.part.empty()) text += " part=" + op.part;
    for (const auto& [name, field] : kOpFlags)
      if (op.*field) text += fmt::format(" {}", name);
    text += '\n';
  }
  for (const GraphEdge& e : g.edges) {
    const auto* kind = std::find_if(std::begin(kEdgeKinds), std::end(kEdgeKinds),
                                    [&](const auto& r) { return r.first == e.kind; });
    text += fmt::format("edge {} -> {} {} delay={}", g.ops[e.from].name, g.ops[e.to].name,
                        kind->second, e.delay);
    for (const auto& [name, field] : kEdgeNumbers)
      if (name != "delay" && e.*field != 0) text += fmt::format(" {}={}", name, e.*field);
    if (e.HasRoute()) text += fmt::format(" via={},{}", g.ops[e.store].name, g.ops[e.load].name);
    text += e.crossable ? "\n" : " fixed\n";
  }
  for (const Graph::Pin& pin : g.pins) {
    text += "pin " + pin.op;
    if (pin.cycle >= 0) text += fmt::format(" cycle={}", pin.cycle);
    if (pin.stage >= 0) text += fmt::format(" stage={}", pin.stage);
    if (pin.depth > 0) text += fmt::format(" depth={}", pin.depth);
    if (!pin.same_role_as.empty()) text += " with=" + pin.same_role_as;
    text += '\n';
  }
  return text;
}

Result<Graph> ParseGraph(std::string_view text, int32_t file, DiagSink& diags) {
  return Parser(text, file, diags).Run();
}

}  // namespace tilec::scheduler
