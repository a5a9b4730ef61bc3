// An explanation as text for a terminal: tables of what runs when, and sentences of why.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "explain/internal.h"
#include "support/expr.h"

namespace tilec::explain {

namespace {

constexpr size_t kWidth = 100;

// Columns of a terminal that a UTF-8 text takes, close enough for what is printed here.
size_t Width(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

// Cells in columns: '>' in `align` sets a column to the right. The last column is not padded.
class Table {
 public:
  explicit Table(std::string align) : align_(std::move(align)) {}
  void Row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  std::string Text() const {
    std::vector<size_t> width(align_.size(), 0);
    for (const auto& row : rows_)
      for (size_t c = 0; c < row.size(); ++c) width[c] = std::max(width[c], Width(row[c]));
    std::string text;
    for (const auto& row : rows_) {
      std::string line = " ";
      for (size_t c = 0; c < row.size(); ++c) {
        const std::string pad(width[c] - Width(row[c]), ' ');
        line += " " + (align_[c] == '>' ? pad + row[c] : row[c] + pad) + " ";
      }
      line.erase(line.find_last_not_of(' ') + 1);
      text += line + "\n";
    }
    return text;
  }

 private:
  std::string align_;
  std::vector<std::vector<std::string>> rows_;
};

std::string N(int64_t n) { return std::to_string(n); }

std::string Share(int64_t part, int64_t whole) {
  return fmt::format("{:.1f} %", 100.0 * static_cast<double>(part) /
                                     static_cast<double>(std::max<int64_t>(1, whole)));
}

// A paragraph at most kWidth wide, its first line behind `head`, the others as far in.
std::string Wrapped(const std::string& head, const std::string& text) {
  const std::string indent(Width(head), ' ');
  std::string out, line = head;
  bool first = true;
  for (size_t at = 0; at < text.size();) {
    size_t end = text.find(' ', at);
    if (end == std::string::npos) end = text.size();
    const std::string word = text.substr(at, end - at);
    if (!first && Width(line) + 1 + Width(word) > kWidth) {
      out += line + "\n";
      line = indent;
      first = true;
    }
    line += (first ? "" : " ") + word;
    first = false;
    at = end + 1;
  }
  return out + line + "\n";
}

std::string Shortened(const std::string& text, size_t most) {
  if (Width(text) <= most) return text;
  size_t at = 0;
  for (size_t columns = 0; columns + 1 < most; ++columns) do
      ++at;
    while (at < text.size() && (text[at] & 0xC0) == 0x80);
  return text.substr(0, at) + "…";
}

class Writer {
 public:
  explicit Writer(const Explanation& e) : e_(e), g_(e.graph), ii_(e.schedule.ii) {}

  std::string Run() {
    out_ = fmt::format("{} on {}: II {}, {}, {}, length {}\n", g_.name, g_.machine.name,
                       Count(ii_, "cycle"), Count(e_.report.stages, "stage"),
                       Count(std::ssize(e_.schedule.roles), "role"), e_.report.length);
    Broken();
    Binds();
    Roles();
    Cycles();
    Units();
    Lives();
    Registers();
    Order();
    Plan();
    Program();
    Answers();
    return std::move(out_);
  }

 private:
  const std::string& Op(int v) const { return g_.ops[v].name; }
  const std::string& Role(int r) const { return e_.schedule.roles[r].name; }
  void Head(const std::string& title) { out_ += "\n" + title + "\n"; }
  void Say(const std::string& text) { out_ += Wrapped("  ", text); }
  void Item(const std::string& text) { out_ += Wrapped("  - ", text); }

  void Broken() {
    if (e_.report.violations.empty()) return;
    Head(fmt::format("Broken laws: this is no schedule ({})", e_.report.violations.size()));
    for (const scheduler::Violation& v : e_.report.violations) Item(v.law + ": " + v.text);
  }

  void Binds() {
    Head("What binds");
    Say(e_.verdict.text);
    for (const Reason& reason : e_.verdict.reasons) Item(reason.text);
    if (e_.period == ii_)
      Say("the program as scheduled has no cycle to spare:");
    else if (e_.period > 0 && e_.period < ii_)
      Say(fmt::format("the program as scheduled needs {} per iteration: {} to spare",
                      Count(e_.period, "cycle"), ii_ - e_.period));
    else if (e_.period > ii_)
      Say(fmt::format("the program as scheduled needs {}:", Count(e_.period, "cycle")));
    for (size_t i = 0; i < e_.circle.size() && e_.period >= ii_; ++i)
      Item(fmt::format("{} to {}, {}: {}", Op(e_.circle[i].op),
                       Op(e_.circle[(i + 1) % e_.circle.size()].op),
                       Count(e_.circle[i].cycles, "cycle"), e_.circle[i].why));
    if (e_.certified()) {
      const scheduler::Certificate& c = *e_.certificate;
      const scheduler::Objective& o = c.objective;
      Say(fmt::format(
          "objective within {:.2f} % of the smallest II, {}: {}, {}, {} across roles, "
          "{}, {}, {} of shared memory, {} of slack",
          100 * c.epsilon, c.objective_proved ? "proved best" : "not proved best",
          Count(o.compute_groups, "wide role"), Count(o.warps, "warp"),
          Count(o.cross_bytes, "byte"), Count(o.waits, "wait"), Count(o.stages, "stage"),
          Count(o.smem_bytes, "byte"), Count(o.slack, "cycle")));
    }
    for (const Reason& note : e_.notes) Say(note.text);
  }

  void Roles() {
    Head("Roles");
    Table table("<>>>><");
    table.Row({"role", "warps", "issue", "of II", "registers", "ops in order"});
    for (size_t r = 0; r < e_.roles.size(); ++r) {
      const RoleFacts& role = e_.roles[r];
      const ir::ScheduledRole& s = e_.schedule.roles[r];
      table.Row({s.name, N(s.warps), N(role.issue), Share(role.issue, ii_),
                 s.regs > 0 ? fmt::format("{} of {}", role.registers, s.regs) : N(role.registers),
                 Names(g_, role.ops, " ", 100)});
    }
    out_ += table.Text();
  }

  void Cycles() {
    Head("Cycles: an op of iteration i issues at cycle + i * II");
    std::vector<int> order(g_.ops.size());
    for (size_t v = 0; v < order.size(); ++v) order[v] = static_cast<int>(v);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      return e_.ops[a].slot != e_.ops[b].slot ? e_.ops[a].slot < e_.ops[b].slot
                                              : e_.ops[a].role < e_.ops[b].role;
    });
    Table table(">>><<<>><");
    table.Row({"slot", "cycle", "stage", "role", "op", "kind", "issue", "latency", "source"});
    for (int v : order) {
      const OpFacts& op = e_.ops[v];
      table.Row({N(op.slot), N(op.cycle), N(op.stage), Role(op.role), Op(v), g_.ops[v].kind,
                 N(g_.ops[v].issue), N(g_.ops[v].latency), Source(op.at)});
    }
    out_ += table.Text();
  }

  static std::string Source(const Place& at) {
    if (at.line == 0) return "";
    const std::string file = at.file.substr(at.file.rfind('/') + 1);
    if (at.text.substr(0, 3) == "op ") return fmt::format("{}:{}", file, at.line);  // a graph's own
    return fmt::format("{}:{}  {}", file, at.line, Shortened(at.text, 48));
  }

  void Units() {
    Head("Units");
    Table table("<>>>><");
    table.Row({"unit", "has", "busy", "of", "", "ops in order"});
    for (size_t f = 0; f < g_.units.size(); ++f) {
      const int64_t room = g_.units[f].capacity * ii_;
      table.Row({g_.units[f].name, g_.units[f].fluid ? "shared" : N(g_.units[f].capacity),
                 N(e_.units[f].busy), N(room), Share(e_.units[f].busy, room),
                 Names(g_, e_.units[f].ops, " ", 16)});
    }
    out_ += table.Text();
  }

  void Lives() {
    Head("Values: lives and rings");
    Table table("<<>>>>><<");
    table.Row({"value", "where", "size", "from", "to", "cycles", "alive", "ring", "until"});
    for (const LifeFacts& life : e_.lives)
      table.Row({Op(life.op), life.medium, N(life.size), N(life.begin), N(life.end),
                 N(life.end - life.begin), N(life.live), Ring(life), Until(life)});
    out_ += table.Text();
    if (e_.report.smem_bytes > 0)
      Say(fmt::format("shared memory: {} of {} bytes, rings and their barriers",
                      e_.report.smem_bytes, g_.machine.smem_bytes));
    if (e_.report.tmem_columns > 0)
      Say(fmt::format("tensor memory: {} of {} columns", e_.report.tmem_columns,
                      g_.machine.tmem_columns));
  }

  static std::string Ring(const LifeFacts& life) {
    return life.depth > 0 ? Count(life.depth, "slot") : "";
  }
  std::string Until(const LifeFacts& life) const {
    if (life.last_reader < 0) return "nobody reads it";
    std::string text = Op(life.last_reader);
    if (life.last_distance == 1) text += " of the next iteration";
    if (life.last_distance > 1) text += fmt::format(" {} iterations later", life.last_distance);
    for (size_t i = 0; i < life.readers_elsewhere.size(); ++i)
      text += (i == 0 ? ", read by " : ", ") + Role(life.readers_elsewhere[i]);
    return text;
  }

  void Registers() {
    Head("Registers per thread where most are alive");
    Table table("<><");
    for (size_t r = 0; r < e_.roles.size(); ++r) {
      const RoleFacts& role = e_.roles[r];
      if (role.peak_at < 0) continue;
      std::string values;
      for (const auto& [v, count] : role.peak_values)
        values += fmt::format("{}{}{} {}", values.empty() ? "" : " + ", Op(v),
                              count > 1 ? fmt::format(" x{}", count) : "", count * g_.ops[v].regs);
      table.Row({Role(static_cast<int>(r)), N(role.registers),
                 fmt::format("at {}: {}", Op(role.peak_at), values)});
    }
    out_ += table.Text();
  }

  void Order() {
    if (e_.schedule.order.empty()) return;
    Head("Turns between roles on one unit");
    Table table("<<<");
    for (const ir::OrderEdge& order : e_.schedule.order)
      table.Row({order.unit, order.from + " -> " + order.to,
                 order.enforced ? "enforced by a token" : "comes by itself"});
    out_ += table.Text();
  }

  void Plan() {
    if (e_.plan.empty()) return;
    Head("Plan of the compiled program");
    out_ += e_.plan;
  }

  void Program() {
    if (e_.program.empty()) return;
    Head("Program: " + e_.program_note);
    for (const RoleProgram& role : e_.program) {
      out_ += fmt::format("  {}: {}{}, {}, {}\n", role.name, Count(role.warps, "warp"),
                          role.registers > 0 ? fmt::format(", {} registers", role.registers) : "",
                          Count(role.waits, "wait"), Count(role.signals, "signal"));
      Table table("<<<");
      for (const ProgramLine& line : role.lines)
        table.Row({std::string(2 * static_cast<size_t>(line.depth) + 2, ' ') + TextOf(line),
                   line.reason, line.at.line > 0 ? fmt::format("line {}", line.at.line) : ""});
      out_ += table.Text();
    }
  }

  void Answers() {
    for (const Answer& answer : e_.answers) {
      Head("Why not " + answer.question);
      Say(answer.text);
      for (const Reason& reason : answer.reasons) Item(reason.text);
    }
  }

  const Explanation& e_;
  const scheduler::Graph& g_;
  const int64_t ii_;
  std::string out_;
};

}  // namespace

std::string ToText(const Explanation& e) { return Writer(e).Run(); }

}  // namespace tilec::explain
