// SPDX-License-Identifier: Apache-2.0
#include "bench/schedule_tables.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <functional>
#include <vector>

#include "scheduler/first_answer.h"
#include "scheduler/scheduler.h"
#include "support/file.h"

namespace tilec::scheduler {

namespace {

// Seconds of processor time: there is one thread, and others may share the core.
double Now() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

Graph Load(const std::string& name) {
  DiagSink diags;
  std::string text, why;
  if (!ReadFile(std::string(TILEC_SOURCE_DIR) + "/tests/schedule/" + name + ".graph", &text, &why))
    return {};
  Result<Graph> graph = ParseGraph(text, -1, diags);
  return graph.ok() ? *std::move(graph) : Graph();
}

struct Ablation {
  const char* what;
  std::function<void(Graph*, SolveOptions*)> apply;
};

const Ablation kAblations[] = {
    {"nothing", [](Graph*, SolveOptions*) {}},
    {"four warps less",
     [](Graph* g, SolveOptions*) {
       int64_t used = 0;  // of the schedule without ablation
       DiagSink diags;
       if (const Result<Solution> s = Solve(*g, {}, diags); s.ok())
         for (const ir::ScheduledRole& role : s->schedule.roles) used += role.warps;
       g->machine.max_warps = used - 4;
     }},
    {"no transfers between roles",
     [](Graph*, SolveOptions* o) { o->cross_role_transfers = false; }},
    {"half the registers, more warps",
     [](Graph* g, SolveOptions*) {
       g->machine.max_regs_per_thread /= 2;
       g->machine.max_warps = 24;
     }},
    {"no register limits", [](Graph*, SolveOptions* o) { o->register_limits = false; }},
    {"no roles at all", [](Graph*, SolveOptions* o) { o->warp_constraints = false; }},
};

void Row(const std::string& graph, const char* what, const Graph& g, const SolveOptions& options,
         int64_t baseline) {
  const double start = Now();
  std::string at = "-";
  if (baseline > 0) {
    switch (FeasibleAt(g, baseline, options).kind) {
      case Feasibility::Kind::kFeasible: at = "SAT"; break;
      case Feasibility::Kind::kInfeasible: at = "UNSAT"; break;
      case Feasibility::Kind::kUnknown: at = "open"; break;
    }
  }
  SolveOptions smallest = options;
  smallest.optimize_secondary = false;
  DiagSink diags;
  const Result<Solution> solution = Solve(g, smallest, diags);
  std::string ii = "none exists";
  if (solution.ok())
    ii = solution->lower_bound == solution->certificate.ii
             ? fmt::format("{}", solution->certificate.ii)
             : fmt::format("{} (proved: not below {})", solution->certificate.ii,
                           solution->lower_bound);
  else if (diags.all().front().def->name != std::string_view("NoSchedule"))
    ii = "open";
  fmt::print("| {} | {} | {} | {} | {:.1f} |\n", graph, what, at, ii, Now() - start);
  std::fflush(stdout);
}

// Copies of the first slice: one slice is {ops of slice 0}; shared ops stay.
Graph Slices(const Graph& base, int slices) {
  Graph g;
  g.name = fmt::format("attention_{}", slices);
  g.machine = base.machine;
  g.units = base.units;
  std::vector<std::vector<int>> image(slices, std::vector<int>(base.ops.size(), -1));
  for (int s = 0; s < slices; ++s)
    for (size_t v = 0; v < base.ops.size(); ++v) {
      GraphOp op = base.ops[v];
      if (op.slice > 0) continue;
      if (op.slice < 0 && s > 0) {
        image[s][v] = image[0][v];
        continue;
      }
      if (op.slice == 0) {
        op.slice = s;
        op.name = fmt::format("{}_{}", op.name, s);
      }
      image[s][v] = static_cast<int>(g.ops.size());
      g.ops.push_back(std::move(op));
    }
  for (int s = 0; s < slices; ++s)
    for (GraphEdge e : base.edges) {
      e.from = image[s][e.from];
      e.to = image[s][e.to];
      if (e.from >= 0 && e.to >= 0) g.edges.push_back(e);
    }
  g.machine.max_warps = 1 + 4 * slices;
  g.machine.registers = int64_t{32768} * (slices + 1);
  return g;
}

struct Point {
  size_t ops;
  double first, period, all;
};

std::string Svg(const std::vector<Point>& points) {
  // Seconds on a logarithmic axis from 0.1 ms to 100 s.
  const auto x = [](double ops) { return 50 + ops * 6; };
  const auto y = [](double s) { return 30 + (2 - std::log10(std::max(s, 1e-4))) * 30; };
  std::string out =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 440 250\" "
      "font-family=\"sans-serif\" "
      "font-size=\"10\">\n<title>Solve time against ops</title>\n<rect width=\"440\" "
      "height=\"250\" "
      "fill=\"white\"/>\n";
  for (int e = -4; e <= 2; ++e)
    out += fmt::format(
        "<path d=\"M50 {0:.1f}H410\" stroke=\"#ddd\"/><text x=\"46\" y=\"{1:.1f}\" "
        "text-anchor=\"end\">{2} s</text>\n",
        y(std::pow(10, e)), y(std::pow(10, e)) + 3, std::pow(10, e));
  for (int n = 10; n <= 60; n += 10)
    out += fmt::format("<text x=\"{:.1f}\" y=\"226\" text-anchor=\"middle\">{}</text>\n", x(n), n);
  out += "<text x=\"230\" y=\"242\" text-anchor=\"middle\">ops</text>\n";
  struct Line {
    const char *name, *color;
    double Point::*field;
  };
  const Line lines[] = {{"first answer", "#1b9e77", &Point::first},
                        {"smallest II", "#7570b3", &Point::period},
                        {"objective too", "#d95f02", &Point::all}};
  int row = 0;
  for (const Line& line : lines) {
    std::string path;
    for (const Point& p : points)
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L",
                          x(static_cast<double>(p.ops)), y(p.*line.field));
    out += fmt::format(
        "<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/><text x=\"60\" y=\"{}\" "
        "fill=\"{}\">{}</text>\n",
        path, line.color, 44 + 12 * row++, line.color, line.name);
  }
  return out + "</svg>\n";
}

}  // namespace

int PrintAblations() {
  fmt::print("| graph | taken away | at II* | II | seconds |\n|---|---|---|---|---|\n");
  for (const char* name : {"attention_forward_hopper", "attention_forward_blackwell"}) {
    const Graph base = Load(name);
    if (base.ops.empty()) return 1;
    DiagSink diags;
    const Result<Solution> solution = Solve(base, {}, diags);
    if (!solution.ok()) return 1;
    for (const Ablation& ablation : kAblations) {
      Graph graph = base;
      SolveOptions options;
      ablation.apply(&graph, &options);
      Row(name, ablation.what, graph, options, solution->certificate.ii);
    }
    if (std::string(name) == "attention_forward_hopper")
      Row(name, "row slicing", Load("attention_forward_hopper_unsliced"), {},
          solution->certificate.ii);
  }
  return 0;
}

int PrintGrowth(const std::string& svg) {
  const Graph base = Load("attention_forward_hopper");
  if (base.ops.empty()) return 1;
  fmt::print(
      "| slices | ops | first answer | its II | II* | proved | II* in s | all in s | objective | "
      "MB "
      "|\n");
  fmt::print("|---|---|---|---|---|---|---|---|---|---|\n");
  std::vector<Point> points;
  for (int slices = 1; slices <= 6; ++slices) {
    const Graph graph = Slices(base, slices);
    DiagSink diags;
    const double start = Now();
    const std::optional<Search::Found> first = FirstAnswer(graph, {}, BestBound(graph).ii);
    const double answered = Now();
    SolveOptions period;
    period.optimize_secondary = false;
    const Result<Solution> smallest = Solve(graph, period, diags);
    const double proved = Now();
    const Result<Solution> all = Solve(graph, {}, diags);
    const double end = Now();
    if (!smallest.ok() || !all.ok()) {
      fmt::print("| {} | {} | {} |\n", slices, graph.ops.size(),
                 diags.all().empty() ? "" : diags.all().front().message);
      continue;
    }
    struct rusage usage {};
    getrusage(RUSAGE_SELF, &usage);
    points.push_back({graph.ops.size(), answered - start, proved - answered, end - proved});
    fmt::print("| {} | {} | {:.1f} ms | {} | {} | {} | {:.2f} | {:.2f} | {} | {} |\n", slices,
               graph.ops.size(), 1e3 * (answered - start), first ? first->ii : 0,
               smallest->certificate.ii, smallest->lower_bound, proved - answered, end - proved,
               all->certificate.objective_proved ? "proved" : "open", usage.ru_maxrss / 1024);
    std::fflush(stdout);
  }
  std::string why;
  if (!svg.empty() && !WriteFileAtomically(svg, Svg(points), &why)) {
    fmt::print("{}: {}\n", svg, why);
    return 1;
  }
  return 0;
}

}  // namespace tilec::scheduler
