// The page: drawings, tables and sentences as one file. Everything is there without a script; the
// script (page/page.js) lets a reader point, pick, zoom and change the colours.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "explain/draw.h"
#include "explain/internal.h"
#include "explain/page.h"

namespace tilec::explain {

namespace {

constexpr double kPeriodPixels = 520;

std::string Number(int64_t n) { return std::to_string(n); }

std::string ShareOf(int64_t part, int64_t whole) {
  return fmt::format("{:.1f} %", 100.0 * static_cast<double>(part) /
                                     static_cast<double>(std::max<int64_t>(1, whole)));
}

std::string Join(const std::vector<int>& ops) {
  std::string text;
  for (int v : ops)
    if (v >= 0) text += (text.empty() ? "" : ",") + Number(v);
  return text;
}

class Page {
 public:
  explicit Page(const Explanation& e) : e_(e), g_(e.graph), ii_(e.schedule.ii) {}

  std::string Run() {
    const std::string title = fmt::format("{} on {}", g_.name, g_.machine.name);
    out_ = fmt::format(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
        "<title>{}</title>\n<style>\n{}{}</style>\n</head>\n<body>\n",
        Xml(title), PageStyle(), DrawingStyle());
    out_ += fmt::format(
        "<header><h1>{} <small>on {}</small></h1><p class=\"facts\">II {} · {} · {} · length "
        "{}</p><button id=\"theme\" type=\"button\" class=\"needs-script\" hidden>Light / "
        "dark</button></header>\n<main>\n<div class=\"column\">\n",
        Xml(g_.name), Xml(g_.machine.name), Count(ii_, "cycle"), Count(e_.report.stages, "stage"),
        Count(std::ssize(e_.schedule.roles), "role"), e_.report.length);
    Binds();
    Answers();
    Gantt();
    Graph();
    Cycles();
    Source();
    RolesAndUnits();
    Values();
    Turns();
    Program();
    out_ += "</div>\n";
    Panel();
    out_ += "</main>\n";
    Data();
    return std::move(out_);
  }

 private:
  void Section(const char* id, const std::string& title) {
    out_ += fmt::format("<section class=\"card\" id=\"{}\">\n", id);
    if (!title.empty()) out_ += fmt::format("<h2>{}</h2>\n", Xml(title));
  }
  void End() { out_ += "</section>\n"; }

  std::string Op(int v) const {
    return fmt::format("<button type=\"button\" class=\"op\" data-op=\"{}\">{}</button>", v,
                       Xml(g_.ops[v].name));
  }
  std::string Ops(const std::vector<int>& ops) const {
    std::string text;
    for (int v : ops) text += Op(v) + " ";
    return text;
  }
  std::string Role(int r) const { return Xml(e_.schedule.roles[r].name); }

  // Headers with a '>' are columns of numbers.
  void Table(const std::vector<std::string>& heads) {
    numbers_.clear();
    out_ += "<div class=\"wide\"><table>\n<thead><tr>";
    for (const std::string& head : heads) {
      numbers_.push_back(!head.empty() && head[0] == '>');
      out_ += fmt::format("<th scope=\"col\"{}>{}</th>", numbers_.back() ? " class=\"n\"" : "",
                          Xml(numbers_.back() ? head.substr(1) : head));
    }
    out_ += "</tr></thead>\n<tbody>\n";
  }
  void Row(const std::vector<std::string>& cells, const std::string& ops = "") {
    out_ += ops.empty() ? "<tr>" : fmt::format("<tr data-ops=\"{}\">", ops);
    for (size_t c = 0; c < cells.size(); ++c)
      out_ += fmt::format("<td{}>{}</td>", numbers_[c] ? " class=\"n\"" : "", cells[c]);
    out_ += "</tr>\n";
  }
  void EndTable() { out_ += "</tbody></table></div>\n"; }

  void Reasons(const std::vector<Reason>& reasons) {
    if (reasons.empty()) return;
    out_ += "<ul class=\"reasons\">\n";
    for (const Reason& reason : reasons) {
      const std::string ops = Join(reason.ops);
      out_ +=
          fmt::format("<li{}>{}</li>\n", ops.empty() ? "" : fmt::format(" data-ops=\"{}\"", ops),
                      Xml(reason.text));
    }
    out_ += "</ul>\n";
  }

  void Badge(const char* classes, const char* word, const std::string& text) {
    out_ += fmt::format("<p class=\"verdict\"><span class=\"badge {}\">{}</span>{}</p>\n", classes,
                        word, Xml(text));
  }

  void Binds() {
    Section("binds", "");
    if (!e_.report.violations.empty()) {
      Badge("bad", "broken", "this is no schedule: it breaks laws");
      out_ += "<ul class=\"reasons\">\n";
      for (const scheduler::Violation& v : e_.report.violations)
        out_ +=
            fmt::format("<li data-ops=\"{}\">{}: {}</li>\n", Join(v.ops), Xml(v.law), Xml(v.text));
      out_ += "</ul>\n";
    }
    switch (e_.verdict.kind) {
      case Verdict::Kind::kSmallest: Badge("good", "smallest", e_.verdict.text); break;
      case Verdict::Kind::kGap: Badge("warn", "gap", e_.verdict.text); break;
      case Verdict::Kind::kUnproved: Badge("warn", "unproved", e_.verdict.text); break;
    }
    Reasons(e_.verdict.reasons);
    if (e_.period > 0 && e_.period <= ii_)
      out_ += fmt::format(
          "<p>The program as scheduled needs {} per iteration{}.</p>\n", Count(e_.period, "cycle"),
          e_.period < ii_ ? fmt::format(": {} to spare", ii_ - e_.period) : ": none to spare");
    if (e_.period >= ii_ && !e_.circle.empty()) {
      std::vector<Reason> steps;
      for (size_t i = 0; i < e_.circle.size(); ++i) {
        const Step& step = e_.circle[i];
        const int next = e_.circle[(i + 1) % e_.circle.size()].op;
        steps.push_back({fmt::format("{} to {}, {}: {}", g_.ops[step.op].name, g_.ops[next].name,
                                     Count(step.cycles, "cycle"), step.why),
                         {step.op, next}});
      }
      Reasons(steps);
    }
    if (e_.certified()) {
      const scheduler::Objective& o = e_.certificate->objective;
      out_ += fmt::format(
          "<p class=\"quiet\">Objective within {:.2f} % of the smallest II, {}: {}, {}, {} across "
          "roles, {}, {}, {} of shared memory, {} of slack.</p>\n",
          100 * e_.certificate->epsilon,
          e_.certificate->objective_proved ? "proved best" : "not proved best",
          Count(o.compute_groups, "wide role"), Count(o.warps, "warp"),
          Count(o.cross_bytes, "byte"), Count(o.waits, "wait"), Count(o.stages, "stage"),
          Count(o.smem_bytes, "byte"), Count(o.slack, "cycle"));
    }
    for (const Reason& note : e_.notes)
      out_ += fmt::format("<p class=\"quiet\">{}</p>\n", Xml(note.text));
    End();
  }

  void Answers() {
    if (e_.answers.empty()) return;
    Section("whynot", "Why not …?");
    for (const Answer& answer : e_.answers) {
      const std::string text = answer.question + ": " + answer.text;
      switch (answer.kind) {
        case Answer::Kind::kPossible: Badge("good", "possible", text); break;
        case Answer::Kind::kImpossible: Badge("bad", "impossible", text); break;
        case Answer::Kind::kUnknown: Badge("warn", "unknown", text); break;
      }
      Reasons(answer.reasons);
    }
    End();
  }

  void Gantt() {
    const Timeline t = TwoPeriods(e_);
    const double scale = kPeriodPixels / static_cast<double>(ii_);
    const Drawing lanes = DrawLanes(e_, t), bars = DrawBars(e_, t, scale);
    Section("timeline", "");
    out_ +=
        "<div class=\"tools\"><h2>Timeline</h2>"
        "<button id=\"steady\" type=\"button\" class=\"needs-script\" hidden>Steady state</button>"
        "<button id=\"whole\" type=\"button\" class=\"needs-script\" hidden>Everything</button>"
        "<button id=\"further\" type=\"button\" class=\"needs-script\" hidden "
        "aria-label=\"zoom out\">−</button>"
        "<button id=\"closer\" type=\"button\" class=\"needs-script\" hidden "
        "aria-label=\"zoom in\">+</button></div>\n";
    out_ += fmt::format(
        "<div class=\"gantt\"><svg width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
        "aria-hidden=\"true\">\n{2}</svg>\n<div class=\"scroll\" id=\"scroll\" role=\"group\" "
        "aria-label=\"timeline\"><svg width=\"{3}\" height=\"{1}\" viewBox=\"0 0 {3} {1}\" "
        "data-scale=\"{4:.9f}\" data-end=\"{5}\" data-steady-begin=\"{6}\" "
        "data-steady-end=\"{7}\">\n{8}</svg></div></div>\n",
        lanes.width, lanes.height, lanes.svg, bars.width, scale, t.end, t.steady_begin,
        t.steady_end, bars.svg);
    End();
  }

  void Graph() {
    const Drawing legend = DrawLegend(e_), graph = DrawGraph(e_);
    Section("graph", "Dependences: slot and stage under each name");
    for (const Drawing* d : {&legend, &graph})
      out_ += fmt::format(
          "<div class=\"scroll\"><svg class=\"fits\" width=\"{0}\" height=\"{1}\" "
          "viewBox=\"0 0 {0} {1}\" style=\"min-width:{4}px\" role=\"group\" "
          "aria-label=\"{2}\">\n{3}</svg></div>\n",
          d->width, d->height, d == &graph ? "dependence graph" : "legend", d->svg,
          d->width * 6 / 10);
    End();
  }

  void Cycles() {
    Section("cycles", "Cycles: an op of iteration i issues at cycle + i · II");
    std::vector<int> order(g_.ops.size());
    for (size_t v = 0; v < order.size(); ++v) order[v] = static_cast<int>(v);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      return e_.ops[a].slot != e_.ops[b].slot ? e_.ops[a].slot < e_.ops[b].slot
                                              : e_.ops[a].role < e_.ops[b].role;
    });
    Table({">slot", ">stage", ">cycle", "op", "kind", "role", ">issue", ">latency", "source"});
    for (int v : order) {
      const OpFacts& op = e_.ops[v];
      const std::string source =
          op.at.line == 0
              ? ""
              : fmt::format("<code>{}:{}</code>", Xml(op.at.file.substr(op.at.file.rfind('/') + 1)),
                            op.at.line);
      Row({Number(op.slot), Number(op.stage), Number(op.cycle), Op(v), Xml(g_.ops[v].kind),
           Role(op.role), Number(g_.ops[v].issue), Number(g_.ops[v].latency), source},
          Number(v));
    }
    EndTable();
    End();
  }

  void Source() {
    struct Line {
      std::string text;
      std::vector<int> ops;
    };
    std::map<std::pair<std::string, int>, Line> lines;
    const auto add = [&](const Place& at, size_t v) {
      if (at.line == 0) return;
      Line& line = lines[{at.file, at.line}];
      line.text = at.text;
      line.ops.push_back(static_cast<int>(v));
    };
    for (size_t v = 0; v < e_.ops.size(); ++v) {
      add(e_.ops[v].at, v);
      for (const Place& place : e_.ops[v].also) add(place, v);
    }
    if (lines.empty()) return;
    Section("source", "Source");
    Table({">line", "text", "ops"});
    for (const auto& [place, line] : lines)
      Row({Number(place.second), fmt::format("<code>{}</code>", Xml(line.text)), Ops(line.ops)},
          Join(line.ops));
    EndTable();
    End();
  }

  static std::string Meter(int64_t part, int64_t whole) {
    const double percent = std::min(100.0, 100.0 * static_cast<double>(part) /
                                               static_cast<double>(std::max<int64_t>(1, whole)));
    return fmt::format("<span class=\"meter\"><i style=\"width:{}%\"></i></span>", Px(percent));
  }

  void RolesAndUnits() {
    Section("roles", "Roles");
    Table({"role", ">warps", ">issues", ">of II", "", ">registers", ">quota", "most alive at"});
    for (size_t r = 0; r < e_.roles.size(); ++r) {
      const RoleFacts& role = e_.roles[r];
      const ir::ScheduledRole& s = e_.schedule.roles[r];
      std::string peak = role.peak_at < 0 ? "" : Op(role.peak_at) + ": ";
      for (size_t i = 0; i < role.peak_values.size(); ++i) {
        const auto& [v, count] = role.peak_values[i];
        peak += fmt::format("{}{}{} {}", i > 0 ? " + " : "", Op(v),
                            count > 1 ? fmt::format("×{}", count) : "", count * g_.ops[v].regs);
      }
      Row({Role(static_cast<int>(r)), Number(s.warps), Number(role.issue), ShareOf(role.issue, ii_),
           Meter(role.issue, ii_), Number(role.registers), s.regs > 0 ? Number(s.regs) : "", peak});
    }
    EndTable();
    End();
    Section("units", "Units");
    Table({"unit", ">has", ">busy", ">of", "", ">", "ops in order"});
    for (size_t f = 0; f < g_.units.size(); ++f) {
      const int64_t room = g_.units[f].capacity * ii_;
      Row({Xml(g_.units[f].name), g_.units[f].fluid ? "shared" : Number(g_.units[f].capacity),
           Number(e_.units[f].busy), Number(room), Meter(e_.units[f].busy, room),
           ShareOf(e_.units[f].busy, room), Ops(e_.units[f].ops)});
    }
    EndTable();
    End();
  }

  void Values() {
    Section("values", "Values: lives and rings");
    Table({"value", "where", ">size", ">from", ">to", ">cycles", ">alive", ">slots", "until",
           "read in"});
    for (const LifeFacts& life : e_.lives) {
      std::string until = life.last_reader < 0 ? "nobody reads it" : Op(life.last_reader);
      if (life.last_distance > 0)
        until += fmt::format(" {} later", Count(life.last_distance, "iteration"));
      std::string elsewhere;
      for (int r : life.readers_elsewhere) elsewhere += (elsewhere.empty() ? "" : ", ") + Role(r);
      Row({Op(life.op), life.medium, Number(life.size), Number(life.begin), Number(life.end),
           Number(life.end - life.begin), Number(life.live),
           life.depth > 0 ? Number(life.depth) : "", until, elsewhere},
          Number(life.op));
    }
    EndTable();
    if (e_.report.smem_bytes > 0)
      out_ += fmt::format(
          "<p class=\"quiet\">Shared memory: {} of {} bytes, rings and their "
          "barriers.</p>\n",
          e_.report.smem_bytes, g_.machine.smem_bytes);
    if (e_.report.tmem_columns > 0)
      out_ += fmt::format("<p class=\"quiet\">Tensor memory: {} of {} columns.</p>\n",
                          e_.report.tmem_columns, g_.machine.tmem_columns);
    End();
  }

  void Turns() {
    if (e_.schedule.order.empty()) return;
    Section("turns", "Turns between roles on one unit");
    Table({"unit", "first", "then", ""});
    for (const ir::OrderEdge& order : e_.schedule.order) {
      const int from = g_.FindOp(order.from), to = g_.FindOp(order.to);
      Row({Xml(order.unit), from < 0 ? Xml(order.from) : Op(from), to < 0 ? Xml(order.to) : Op(to),
           order.enforced ? "enforced by a token" : "comes by itself"});
    }
    EndTable();
    End();
  }

  void Program() {
    for (size_t r = 0; r < e_.program.size(); ++r) {
      const RoleProgram& role = e_.program[r];
      Section(fmt::format("program{}", r).c_str(),
              fmt::format("Program of {}: {}, {}, {}", role.name, Count(role.warps, "warp"),
                          Count(role.waits, "wait"), Count(role.signals, "signal")));
      if (r == 0) out_ += fmt::format("<p class=\"quiet\">{}</p>\n", Xml(e_.program_note));
      Table({"does", "because", ">line"});
      for (const ProgramLine& line : role.lines)
        Row({fmt::format("<code>{}{}</code>", std::string(2 * static_cast<size_t>(line.depth), ' '),
                         Xml(TextOf(line))),
             Xml(line.reason), line.at.line > 0 ? Number(line.at.line) : ""});
      EndTable();
      End();
    }
  }

  void Panel() {
    out_ +=
        "<aside class=\"card\" id=\"detail\" aria-live=\"polite\"><h2>Point at an op</h2>"
        "<p class=\"hint\">Its source line, its numbers and what it waits for are shown here. A "
        "click or <kbd>Enter</kbd> picks it, <kbd>Esc</kbd> lets go. In the timeline and in the "
        "graph the arrow keys move; <kbd>+</kbd> and <kbd>−</kbd> or the wheel with "
        "<kbd>Ctrl</kbd> zoom. A paler bar belongs to an iteration with an odd "
        "number.</p></aside>\n";
  }

  // The text of a script ends at "</", wherever that stands.
  void Data() {
    std::string json = ToJson(e_);
    for (size_t at = 0; (at = json.find("</", at)) != std::string::npos; at += 3)
      json.replace(at, 2, "<\\/");
    for (size_t at = 0; (at = json.find("<!--", at)) != std::string::npos; at += 6)
      json.replace(at, 4, "\\u003c!--");
    out_ += fmt::format(
        "<script type=\"application/json\" id=\"data\">\n{}</script>\n<script>\n{}</script>\n"
        "</body>\n</html>\n",
        json, PageScript());
  }

  const Explanation& e_;
  const scheduler::Graph& g_;
  const int64_t ii_;
  std::vector<bool> numbers_;
  std::string out_;
};

}  // namespace

std::string ToHtml(const Explanation& e) { return Page(e).Run(); }

}  // namespace tilec::explain
