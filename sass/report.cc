// The comparison for people, for tools, and as lines that a file of expectations can hold.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "sass/internal.h"

namespace tilec::sass {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 2;
constexpr size_t kMostHazards = 8;  // in the text

std::string Word(const Overlap& o) {
  switch (o.verdict) {
    case Verdict::kStands: return "stands";
    case Verdict::kEarlier: return "earlier";
    case Verdict::kPartly: return fmt::format("partly ({} of {})", o.found, o.expected);
    case Verdict::kLost: return "lost";
    case Verdict::kMoved: return fmt::format("moved ({} stay)", o.found);
  }
  return "";
}

const char* Word(Hazard::What what) {
  switch (what) {
    case Hazard::What::kOverwritesA: return "writes registers of A";
    case Hazard::What::kOverwritesD: return "writes registers of the result";
    case Hazard::What::kReadsD: return "reads registers of the result";
  }
  return "";
}

std::string NameOf(const Group& group) {
  return fmt::format(
      "{} x {}{}{}", group.products, group.shape,
      group.source > 0 ? fmt::format(", line {}", group.source) : "",
      group.versions > 1 ? fmt::format(", {} of {}", group.version, group.versions) : "");
}

std::string Cell(const std::string& text, size_t width) {
  return text + std::string(width - std::min(width, text.size()), ' ');
}

void Table(const LoopReport& loop, std::string* out) {
  size_t products = 8, kinds = 4;
  for (const Group& group : loop.groups) {
    products = std::max(products, NameOf(group).size());
    for (const Overlap& o : group.overlaps)
      kinds = std::max(kinds, std::string(NameOf(o.kind)).size());
  }
  *out += fmt::format("  {}  {}  in the PTX  in the SASS\n", Cell("products", products),
                      Cell("under them", kinds));
  for (const Group& group : loop.groups) {
    std::string name = NameOf(group);
    if (group.overlaps.empty()) *out += fmt::format("  {}  nothing\n", Cell(name, products));
    for (const Overlap& o : group.overlaps) {
      *out += fmt::format("  {}  {}  {:>4} of {:<4}  {:>4} of {:<4}  {}\n", Cell(name, products),
                          Cell(NameOf(o.kind), std::max<size_t>(kinds, 10)), o.claimed, o.in_ptx,
                          o.found, o.in_sass, Word(o));
      name.clear();
    }
  }
}

int Number(std::string_view* version) {
  int n = 0;
  const auto [end, error] = std::from_chars(version->data(), version->data() + version->size(), n);
  version->remove_prefix(static_cast<size_t>(end - version->data()));
  if (!version->empty()) version->remove_prefix(1);
  return error == std::errc() ? n : 0;
}

}  // namespace

bool OlderThan(const std::string& version, const std::string& other) {
  std::string_view a = version, b = other;
  while (!a.empty() || !b.empty()) {
    const int x = Number(&a), y = Number(&b);
    if (x != y) return x < y;
  }
  return false;
}

std::string ToText(const Report& report, const Assembly& assembly) {
  std::string out = fmt::format("{}, ptxas {}: {} registers, {} bytes spilled\n", report.kernel,
                                assembly.ptxas.empty() ? "of an unknown version" : assembly.ptxas,
                                assembly.registers, assembly.spilled);
  for (const std::string& remark : assembly.remarks) out += "  " + remark + "\n";
  if (report.loops.empty()) out += "no loop has asynchronous products\n";
  for (size_t l = 0; l < report.loops.size(); ++l) {
    const LoopReport& loop = report.loops[l];
    out += fmt::format("\nloop {} of {}{}: ", l + 1, report.loops.size(),
                       loop.source > 0 ? fmt::format(", from line {}", loop.source) : "");
    if (!loop.found) {
      out += "the SASS has no loop with these products\n";
      continue;
    }
    out += fmt::format(
        "{} instructions of SASS, {} of them with no product in flight; {} waits for products ({} "
        "in the PTX){}\n",
        loop.sass_instructions, loop.idle, loop.sass_waits, loop.waits,
        loop.spills > 0 ? fmt::format("; {} spills", loop.spills) : "");
    Table(loop, &out);
  }
  if (report.loops_besides > 0)
    out += fmt::format("\nloops of the SASS with products that the PTX does not have: {}\n",
                       report.loops_besides);
  if (report.unknown > 0)
    out += fmt::format("\ninstructions that nvdisasm does not know: {}\n", report.unknown);
  if (report.claims > 0)
    out += fmt::format("\n{} claims: {} stand, {} earlier, {} partly, {} lost\n", report.claims,
                       report.standing, report.earlier, report.partly, report.lost);
  if (report.free > 0)
    out += fmt::format("{}{} kinds may pass a wait: {} stand, {} moved\n",
                       report.claims > 0 ? "" : "\n", report.free, report.free - report.moved,
                       report.moved);
  if (!report.hazards.empty()) {
    out += fmt::format("\nuses of registers of products in flight: {}", report.hazards.size());
    out += OlderThan(assembly.ptxas, kMendedPtxas)
               ? fmt::format("; ptxas before {} is reported to do that\n", kMendedPtxas)
               : "\n";
    for (size_t h = 0; h < std::min(report.hazards.size(), kMostHazards); ++h) {
      const Hazard& hazard = report.hazards[h];
      out += fmt::format("  line {}: `{}` {} of line {}, `{}`\n", hazard.line, hazard.text,
                         Word(hazard.what), hazard.product_line, hazard.product);
    }
  }
  return out;
}

std::string ToLines(const Report& report) {
  std::string out;
  for (size_t l = 0; l < report.loops.size(); ++l) {
    const LoopReport& loop = report.loops[l];
    if (!loop.found) out += fmt::format("loop {}: not in the SASS\n", l + 1);
    for (const Group& told : loop.groups) {
      // Lines of the source move: groups are told apart by their order alone.
      Group group = told;
      group.source = 0;
      group.version = group.versions = 0;
      for (const Group& other : loop.groups) {
        const bool alike = other.products == told.products && other.shape == told.shape;
        group.versions += alike;
        group.version += alike && &other <= &told;
      }
      for (const Overlap& o : group.overlaps)
        out += fmt::format("loop {}, {}: {} {} of {}\n", l + 1, NameOf(group), NameOf(o.kind),
                           std::min(o.found, o.expected), o.expected);
    }
  }
  return out;
}

std::string ToJson(const Report& report, const Assembly& assembly) {
  Json j;
  j["format"] = kFormat;
  j["kernel"] = report.kernel;
  j["ptxas"] = assembly.ptxas;
  j["registers"] = assembly.registers;
  j["spilled_bytes"] = assembly.spilled;
  j["remarks"] = assembly.remarks;
  j["a_from_registers"] = report.from_registers;
  j["loops"] = Json::array();
  for (const LoopReport& loop : report.loops) {
    Json groups = Json::array();
    for (const Group& group : loop.groups) {
      Json overlaps = Json::array();
      for (const Overlap& o : group.overlaps)
        overlaps.push_back({{"kind", NameOf(o.kind)},
                            {"claimed", o.claimed},
                            {"in_ptx", o.in_ptx},
                            {"expected", o.expected},
                            {"found", o.found},
                            {"in_sass", o.in_sass},
                            {"claim", KeepsItsSide(o.kind)},
                            {"verdict", o.verdict == Verdict::kPartly  ? "partly"
                                        : o.verdict == Verdict::kMoved ? "moved"
                                                                       : Word(o)}});
      groups.push_back({{"products", group.products},
                        {"shape", group.shape},
                        {"line", group.source},
                        {"version", group.version},
                        {"versions", group.versions},
                        {"overlaps", overlaps}});
    }
    j["loops"].push_back({{"line", loop.source},
                          {"found", loop.found},
                          {"ptx_instructions", loop.ptx_instructions},
                          {"sass_instructions", loop.sass_instructions},
                          {"idle", loop.idle},
                          {"ptx_waits", loop.waits},
                          {"sass_waits", loop.sass_waits},
                          {"spills", loop.spills},
                          {"groups", groups}});
  }
  j["loops_besides"] = report.loops_besides;
  j["unknown"] = report.unknown;
  j["claims"] = {{"all", report.claims},
                 {"stand", report.standing},
                 {"earlier", report.earlier},
                 {"partly", report.partly},
                 {"lost", report.lost}};
  j["may_pass"] = {{"all", report.free}, {"moved", report.moved}};
  j["hazards"] = Json::array();
  for (const Hazard& h : report.hazards)
    j["hazards"].push_back({{"what", Word(h.what)},
                            {"line", h.line},
                            {"text", h.text},
                            {"product_line", h.product_line},
                            {"product", h.product}});
  return j.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tilec::sass
