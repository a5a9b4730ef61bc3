// A machine as the text of its file, the way the files of ir/machines are written.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "ir/target.h"

namespace tilec::ir {

namespace {

std::string QuotedToml(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out + "\"";
}

template <typename Container>
std::string List(const Container& words) {
  std::string out;
  for (const std::string& w : words) out += (out.empty() ? "" : ", ") + QuotedToml(w);
  return "[" + out + "]";
}

std::string TextOf(const Linear& l) {
  std::string parts;
  int count = 0;
  const auto add = [&](const char* name, double v) {
    parts += fmt::format("{}{} = {}", count++ ? ", " : "", name, v);
  };
  if (l.base != 0) add("base", l.base);
  bool constant = true;
  for (const auto& [name, member] : kQuantities)
    if (l.per.*member != 0) add(name, l.per.*member), constant = false;
  return constant ? fmt::format("{}", l.base) : "{ " + parts + " }";
}

std::string TextOf(const Origin& o) {
  return fmt::format("tag = {}\nsource = {}\n", QuotedToml(Spelling(o.evidence)),
                     QuotedToml(o.source));
}

std::string Percent(const char* of, int64_t value) {
  return value == 100 ? "" : fmt::format("{}_percent = {}\n", of, value);
}

}  // namespace

std::string ToToml(const Target& t) {
  std::string s = fmt::format(
      "name = {}\ntitle = {}\narch = {}\n{}{}features = {}\n", QuotedToml(t.name),
      QuotedToml(t.title), QuotedToml(t.arch), t.stands_for_arch ? "stands_for_arch = true\n" : "",
      t.devices.empty() ? "" : fmt::format("devices = {}\n", List(t.devices)), List(t.features));
  const auto origin = [&](const char* section, const char* name) -> const Origin& {
    return t.origins.at(fmt::format("{}.{}", section, name));
  };
  const auto limit = [&](const char* name, int64_t value) {
    s += fmt::format("\n[[limit]]\nname = {}\nvalue = {}\n{}", QuotedToml(name), value,
                     TextOf(origin("limit", name)));
  };
  const auto fact = [&](const char* section, const char* name, auto value) {
    const Origin& from = origin(section, name);
    s += fmt::format("{} = {{ value = {}, tag = {}, source = {} }}\n", name, value,
                     QuotedToml(Spelling(from.evidence)), QuotedToml(from.source));
  };
#define LIMIT(name, ...) limit(#name, t.limits.name);
#include "ir/target_facts.def"
  s += "\n[model]\n";
#define MODEL(type, name, ...) fact("model", #name, t.model.name);
#include "ir/target_facts.def"
  s += "\n[lowering]\n";
#define LOWERING(type, name, ...) fact("lowering", #name, t.lowering.name);
#include "ir/target_facts.def"
  s += "\n[registers]\n";
#define REGISTERS(type, name, ...) fact("registers", #name, t.registers.name);
#include "ir/target_facts.def"
  if (t.matrix_unit.kind != MatrixUnit::kNone) {
    std::vector<std::string> dtypes;
    for (DType d : t.matrix_unit.dtypes) dtypes.emplace_back(Spelling(d));
    s += fmt::format("\n[matrix_unit]\nkind = {}\ndtypes = {}\n{}", QuotedToml(t.unit().name),
                     List(dtypes), TextOf(t.matrix_unit.origin));
  }
  for (const TargetUnit& u : t.units)
    s += fmt::format("\n[[unit]]\nname = {}\ncapacity = {}\n{}{}{}{}", QuotedToml(u.name),
                     u.capacity, u.fluid ? "fluid = true\n" : "", Percent("alone", u.alone_percent),
                     Percent("full_clock", u.full_clock_percent), TextOf(u.origin));
  for (const OpCost& op : t.ops) {
    s += fmt::format("\n[[op]]\nkind = {}\nops = {}\nwarps = {}\n{}{}issue = {}\nlatency = {}\n",
                     QuotedToml(op.kind), List(op.ops), op.warps, op.async ? "async = true\n" : "",
                     op.variable ? "variable = true\n" : "", TextOf(op.issue), TextOf(op.latency));
    std::string uses;
    for (const TargetUse& use : op.uses)
      uses += fmt::format("{}{} = {}", uses.empty() ? "" : ", ",
                          t.units[static_cast<size_t>(use.unit)].name, TextOf(use.cycles));
    if (!uses.empty()) s += "use = { " + uses + " }\n";
    s += TextOf(op.origin);
  }
  for (const TargetTransfer& x : t.transfers)
    s += fmt::format("\n[[transfer]]\nmedium = {}\ncycles = {}\n{}", QuotedToml(x.medium),
                     TextOf(x.cycles), TextOf(x.origin));
  return s;
}

}  // namespace tilec::ir
