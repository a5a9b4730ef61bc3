// SPDX-License-Identifier: Apache-2.0
#include "certify/laws.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <set>

namespace tilec::certify {

using scheduler::Graph;
using scheduler::GraphOp;
using scheduler::UnitUse;
using Kind = Law::Kind;

namespace {

class Lister {
 public:
  Lister(const Graph& graph, int64_t ii)
      : g_(graph), ii_(ii), owner_(Owners(graph)), widths_(Widths(graph)) {}

  std::vector<Law> Run() {
    Parts();
    for (const Arc& arc : Arcs(g_)) OfArc(arc);
    for (size_t f = 0; f < g_.units.size(); ++f) OfUnit(static_cast<int>(f));
    const scheduler::MachineLimits& m = g_.machine;
    Add(Kind::kIssue, "issue", "one instruction stream per role");
    Add(Kind::kRegisters, "registers",
        fmt::format("at most {} live registers per thread of a role", m.max_regs_per_thread));
    Add(Kind::kRegisterPool, "register-pool",
        fmt::format("{} registers for all warpgroups", m.registers));
    Add(Kind::kTmem, "tmem", fmt::format("{} columns of tensor memory", m.tmem_columns));
    Add(Kind::kSmem, "smem", fmt::format("{} bytes of shared memory", m.smem_bytes));
    Pins();
    Roles();
    return std::move(laws_);
  }

 private:
  void Add(Kind kind, const char* name, std::string text, std::vector<int> ops = {}, int index = -1,
           int other = -1) {
    laws_.push_back({kind, index, other, name, std::move(text), std::move(ops)});
  }
  const std::string& Name(int v) const { return g_.ops[v].name; }

  void Parts() {
    for (int v = 0; v < std::ssize(g_.ops); ++v)
      for (int u = 0; u < v; ++u)
        if (!g_.ops[v].part.empty() && g_.ops[u].part == g_.ops[v].part)
          Add(Kind::kApart, "apart",
              fmt::format("{} and {} are parts of {}", Name(u), Name(v), g_.ops[v].part), {u, v}, u,
              v);
  }

  // Whether two ops share a role in every schedule, in none, or as it comes.
  enum class Sharing { kAlways, kNever, kSometimes };
  Sharing Share(int a, int b) const {
    const int u = owner_[a], v = owner_[b];
    const GraphOp &x = g_.ops[u], &y = g_.ops[v];
    if (u == v) return Sharing::kAlways;
    if (x.variable_latency != y.variable_latency) return Sharing::kNever;
    if (x.variable_latency) return Sharing::kAlways;
    if (x.warps != y.warps) return Sharing::kNever;
    for (const Width& width : widths_)
      if (width.warps == x.warps && width.roles <= 1) return Sharing::kAlways;
    return Sharing::kSometimes;
  }

  void OfArc(const Arc& arc) {
    const int index = arcs_++;
    const std::vector<int> ops = {arc.from, arc.to};
    if (arc.when == When::kApart)
      return Add(Kind::kTransfer, "transfer",
                 fmt::format("{}: {} cycles between roles", arc.text, arc.delay), ops, index);
    const Sharing sharing = Share(arc.from, arc.to);
    if (!(sharing == Sharing::kNever && arc.transfer > 0))
      Add(Kind::kDependence, "dependence", fmt::format("{}: {} cycles", arc.text, arc.delay), ops,
          index);
    if (sharing == Sharing::kAlways) return;
    if (arc.transfer > 0)
      Add(Kind::kTransfer, "transfer",
          fmt::format("{}: {} cycles, and {} more between roles", arc.text, arc.delay,
                      arc.transfer),
          ops, index);
    if (arc.when != When::kAlways) return;
    if (arc.carried) Add(Kind::kCarriedRole, "carried-role", arc.text, ops, index);
    if (arc.fixed) Add(Kind::kSameRole, "same-role", arc.text, ops, index);
  }

  void OfUnit(int f) {
    std::vector<int> ops;
    int64_t busy = 0;
    for (int v = 0; v < std::ssize(g_.ops); ++v)
      for (const UnitUse& use : g_.ops[v].uses)
        if (use.unit == f && use.cycles > 0) {
          ops.push_back(v);
          busy += use.cycles;
        }
    if (g_.units[f].fluid)
      Add(Kind::kUnit, "unit",
          fmt::format("{} cycles of unit {} in a period", busy, g_.units[f].name), ops, f);
    else
      Add(Kind::kUnit, "unit", fmt::format("{} of unit {}", g_.units[f].capacity, g_.units[f].name),
          ops, f);
  }

  void Pins() {
    auto each = [&](auto add) {
      for (int i = 0; i < std::ssize(g_.pins); ++i) add(i, g_.pins[i], g_.FindOp(g_.pins[i].op));
    };
    each([&](int i, const Graph::Pin& pin, int v) {
      if (pin.depth > 0)
        Add(Kind::kPinDepth, "pin", fmt::format("{} in a ring of {}", pin.op, pin.depth), {v}, i);
    });
    each([&](int i, const Graph::Pin& pin, int v) {
      if (pin.cycle >= 0)
        Add(Kind::kPinCycle, "pin", fmt::format("{} at cycle {}", pin.op, pin.cycle), {v}, i);
      if (pin.stage >= 0)
        Add(Kind::kPinStage, "pin", fmt::format("{} in stage {}", pin.op, pin.stage), {v}, i);
      if (const int u = g_.FindOp(pin.same_role_as); u >= 0)
        Add(Kind::kPinRole, "pin", fmt::format("{} in the role of {}", pin.op, pin.same_role_as),
            {u, v}, i);
    });
  }

  // Numbers of roles by width that no others contain, in ascending order.
  std::vector<std::vector<int>> LargestOffers() const {
    std::vector<std::vector<int>> all;
    std::vector<int> count(widths_.size());
    std::function<void(size_t, int)> choose = [&](size_t i, int warps) {
      if (i == widths_.size()) return all.push_back(count);
      for (int c = 1; c <= std::ssize(widths_[i].ops); ++c) {
        if (warps + c * widths_[i].warps > g_.machine.max_warps) break;
        count[i] = c;
        choose(i + 1, warps + c * widths_[i].warps);
      }
    };
    choose(0, LoadWarps(g_));
    std::vector<std::vector<int>> largest;
    for (const std::vector<int>& offer : all) {
      const bool inside = std::any_of(all.begin(), all.end(), [&](const std::vector<int>& other) {
        return other != offer && std::equal(offer.begin(), offer.end(), other.begin(),
                                            [](int a, int b) { return a <= b; });
      });
      if (!inside) largest.push_back(offer);
    }
    return largest;
  }

  std::string OfferText(const std::vector<int>& count) const {
    std::string text;
    for (size_t i = 0; i < count.size(); ++i)
      text += text.empty() ? fmt::format("{} compute role{} of {} warp{}", count[i],
                                         count[i] == 1 ? "" : "s", widths_[i].warps,
                                         widths_[i].warps == 1 ? "" : "s")
                           : fmt::format(" and {} of {}", count[i], widths_[i].warps);
    return text;
  }

  void Roles() {
    std::string roles;
    bool any = false;  // of the offers has to be refuted by more than arithmetic
    int64_t load = 0;
    for (const GraphOp& op : g_.ops) load += op.variable_latency ? op.issue : 0;
    for (const std::vector<int>& offer : LargestOffers()) {
      bool fits = load <= ii_;
      for (size_t i = 0; i < offer.size(); ++i) {
        int64_t issue = 0;
        for (int v : widths_[i].ops) issue += g_.ops[v].issue;
        fits = fits && issue <= offer[i] * ii_;
      }
      any = any || fits;
      if (!fits)
        Add(Kind::kIssueSum, "issue",
            fmt::format("{} cannot issue all their ops within {} cycles", OfferText(offer), ii_));
      roles += (roles.empty() ? "at most " : ", or ") + OfferText(offer);
    }
    if (any) Add(Kind::kRoles, "roles", roles);
  }

  const Graph& g_;
  const int64_t ii_;
  const std::vector<int> owner_;
  const std::vector<Width> widths_;
  int arcs_ = 0;
  std::vector<Law> laws_;
};

}  // namespace

std::vector<Law> Laws(const Graph& graph, int64_t ii) { return Lister(graph, ii).Run(); }

std::string ToText(const Law& law) {
  return fmt::format("{} {} {}", law.name,
                     law.ops.empty() ? "-" : fmt::format("{}", fmt::join(law.ops, ",")), law.text);
}

Selection Select(const std::vector<Law>& laws, const std::vector<std::string>& lines) {
  Selection selection;
  std::set<std::string> wanted;
  for (const std::string& line : lines)
    if (!wanted.insert(line).second) {
      selection.problem = fmt::format("it names the law `{}` twice", line);
      return selection;
    }
  std::vector<std::string> found;
  std::set<std::string> listed;
  std::string missing;
  for (const Law& law : laws) {
    const std::string line = ToText(law);
    if (wanted.count(line) > 0) {
      if (listed.insert(line).second) found.push_back(line);
      selection.laws.push_back(law);
    } else if (law.kind == Kind::kIssueSum || law.kind == Kind::kRoles) {
      missing = line;  // what the other laws are asked under
    }
  }
  for (const std::string& line : lines)
    if (listed.count(line) == 0) {
      selection.problem = fmt::format("the graph has no law `{}`", line);
      return selection;
    }
  if (found != lines) selection.problem = "it does not name the laws in their order";
  if (!missing.empty()) selection.problem = fmt::format("it does not name the law `{}`", missing);
  return selection;
}

}  // namespace tilec::certify
