// SPDX-License-Identifier: Apache-2.0
#include "calibrate/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

namespace tilec::calibrate {

namespace {

using ir::Work;

// Elements that one instruction of a warpgroup's four warps handles.
constexpr double kLanes = 128, kPairs = 256;
constexpr double kMatrix = 512;  // bytes of a ldmatrix.x4 or stmatrix.x4
constexpr double kBox = 32768, kTile = 16384, kSmallBox = 8192;
constexpr double Flops(int n, int k) { return 2.0 * 64 * n * k; }

// Less means that the assembler did away with what was to be measured.
constexpr double kLeast = 0.25;

// A pipeline takes whole cycles; a slope is off by the loop's own instructions. Costs are rounded
// up per op, so a hair too much would become a cycle.
double Whole(double v, double share = 0.002) {
  const double whole = std::round(v);
  return std::fabs(v - whole) <= share * v ? whole : v;
}

enum class Part { kIssue, kLatency, kUse, kTransfer };

// One number of the file: (kind or medium, part, unit of a use, quantity; null: base) from probes.
struct Row {
  const char* kind;
  Part part;
  const char* unit;
  const char* name;  // of the quantity, for people
  double Work::*quantity;
  std::vector<const char*> probes;
  std::function<double(const std::vector<double>&)> value;
};

using V = const std::vector<double>&;

std::vector<Row> Rows() {
  const auto per = [](double n) { return [n](V v) { return v[0] / n; }; };
  const auto pipe = [](double n) { return [n](V v) { return Whole(v[0], 0.04) / n; }; };
  std::vector<Row> rows;
  const struct {
    const char* kind;
    const char* probe;
    int k;
  } products[] = {{"dot", "wgmma.bf16.ss.n256", 16},
                  {"dot_fp8", "wgmma.e4m3.ss.n256", 32},
                  {"dot_tf32", "wgmma.tf32.ss.n256", 8}};
  for (const auto& p : products) {
    const auto flops = [k = p.k](V v) { return Whole(v[0]) / Flops(256, k); };
    rows.push_back({p.kind, Part::kUse, "tensor", "flops", &Work::flops, {p.probe}, flops});
    rows.push_back({p.kind, Part::kLatency, "", "flops", &Work::flops, {p.probe}, flops});
    rows.push_back({p.kind,
                    Part::kIssue,
                    "",
                    "steps",
                    &Work::steps,
                    {"wgmma.bf16.ss.n128.issue5", "wgmma.bf16.ss.n128.issue1"},
                    [](V v) { return std::max(1.0, (v[0] - v[1]) / 4); }});
    rows.push_back(
        {p.kind, Part::kIssue, "", "base", nullptr, {"wgmma.bf16.ss.n128.issue1"}, per(1)});
    rows.push_back({p.kind,
                    Part::kLatency,
                    "",
                    "base",
                    nullptr,
                    {"wgmma.bf16.ss.n128.chain4", "wgmma.bf16.ss.n128"},
                    [](V v) { return v[0] - 4 * v[1]; }});
  }
  rows.push_back(
      {"fma", Part::kIssue, "", "elements", &Work::elements, {"fma.pair"}, pipe(kLanes)});
  rows.push_back(
      {"alu", Part::kIssue, "", "elements", &Work::elements, {"max.beside"}, pipe(kLanes)});
  rows.push_back(
      {"alu", Part::kUse, "alu", "elements", &Work::elements, {"max.alone"}, pipe(kLanes)});
  rows.push_back(
      {"cast", Part::kIssue, "", "elements", &Work::elements, {"cvt.beside"}, pipe(kPairs)});
  rows.push_back(
      {"cast", Part::kUse, "alu", "elements", &Work::elements, {"cvt.alone"}, pipe(kPairs)});
  for (const char* kind : {"mufu", "mufu_and_scale"}) {
    rows.push_back(
        {kind, Part::kIssue, "", "elements", &Work::elements, {"ex2.beside"}, per(kLanes)});
    rows.push_back(
        {kind, Part::kLatency, "", "elements", &Work::elements, {"ex2.beside"}, per(kLanes)});
    rows.push_back(
        {kind, Part::kUse, "mufu", "elements", &Work::elements, {"ex2.alone"}, pipe(kLanes)});
  }
  rows.push_back({"mufu", Part::kLatency, "", "base", nullptr, {"ex2.latency"}, per(1)});
  rows.push_back(
      {"smem_load", Part::kUse, "smem", "bytes", &Work::bytes, {"ldmatrix.beside"}, per(kMatrix)});
  rows.push_back(
      {"smem_load", Part::kLatency, "", "bytes", &Work::bytes, {"ldmatrix.beside"}, per(kMatrix)});
  rows.push_back({"smem_load", Part::kIssue, "", "base", nullptr, {"mbarrier.passed"}, per(1)});
  rows.push_back({"smem_load",
                  Part::kLatency,
                  "",
                  "base",
                  nullptr,
                  {"mbarrier.passed", "ldmatrix.latency"},
                  [](V v) { return v[0] + v[1]; }});
  rows.push_back(
      {"smem_store", Part::kUse, "smem", "bytes", &Work::bytes, {"stmatrix.beside"}, per(kMatrix)});
  rows.push_back(
      {"smem_store", Part::kLatency, "", "bytes", &Work::bytes, {"stmatrix.beside"}, per(kMatrix)});
  rows.push_back(
      {"store", Part::kUse, "tma", "bytes", &Work::bytes, {"tma.store.16384.all"}, per(kTile)});
  rows.push_back(
      {"store", Part::kLatency, "", "bytes", &Work::bytes, {"tma.store.16384.all"}, per(kTile)});
  rows.push_back({"tma_load",
                  Part::kUse,
                  "tma",
                  "bytes",
                  &Work::bytes,
                  {"tma.load.l2.shared.32768.bytes"},
                  per(kBox)});
  // The start from one SM alone, the slope so that a large box is right with all SMs busy.
  const auto start = [](double small, double large) {
    return small - (large - small) / (kBox - kSmallBox) * kSmallBox;
  };
  rows.push_back({"tma_load",
                  Part::kLatency,
                  "",
                  "base",
                  nullptr,
                  {"tma.load.l2.8192", "tma.load.l2.32768"},
                  [start](V v) { return start(v[0], v[1]); }});
  rows.push_back({"tma_load",
                  Part::kLatency,
                  "",
                  "bytes",
                  &Work::bytes,
                  {"tma.load.l2.8192", "tma.load.l2.32768", "tma.load.l2.32768.all"},
                  [start](V v) { return (v[2] - start(v[0], v[1])) / kBox; }});
  rows.push_back({"smem", Part::kTransfer, "", "base", nullptr, {"mbarrier.hop"}, per(1)});
  rows.push_back(
      {"register", Part::kTransfer, "", "base", nullptr, {"mbarrier.hop", "shared.round"}, [](V v) {
         return v[0] + v[1];
       }});
  return rows;
}

// The number that a row is about; null if this machine has no such entry.
double* Find(ir::Target& target, const Row& row, ir::Origin** origin) {
  const auto member = [&](ir::Linear& l) {
    return row.quantity ? &(l.per.*row.quantity) : &l.base;
  };
  if (row.part == Part::kTransfer) {
    for (ir::TargetTransfer& t : target.transfers)
      if (t.medium == row.kind) return *origin = &t.origin, member(t.cycles);
    return nullptr;
  }
  for (ir::OpCost& op : target.ops) {
    if (op.kind != row.kind) continue;
    *origin = &op.origin;
    if (row.part == Part::kIssue) return member(op.issue);
    if (row.part == Part::kLatency) return member(op.latency);
    for (ir::TargetUse& use : op.uses)
      if (target.units[static_cast<size_t>(use.unit)].name == row.unit) return member(use.cycles);
  }
  return nullptr;
}

const char* PartName(Part part) {
  switch (part) {
    case Part::kIssue: return "issue";
    case Part::kLatency: return "latency";
    case Part::kUse: return "use";
    case Part::kTransfer: return "cycles";
  }
  return "";
}

// More digits than any measurement has, enough for 1/4096.
double Rounded(double v) {
  if (v == 0 || !std::isfinite(v)) return v;
  const double scale = std::pow(10, 8 - std::floor(std::log10(std::fabs(v))));
  return std::round(v * scale) / scale;
}

}  // namespace

ir::Target Apply(const ir::Target& base, const Numbers& numbers, const std::string& provenance,
                 std::vector<Change>* changes) {
  ir::Target out = base;
  for (const Row& row : Rows()) {
    std::vector<double> values;
    std::string from;
    for (const char* probe : row.probes)
      if (const auto at = numbers.find(probe); at != numbers.end() && at->second >= kLeast) {
        values.push_back(at->second);
        from += fmt::format("{}{} = {:.4g}", from.empty() ? "" : ", ", probe, at->second);
      }
    ir::Origin* origin = nullptr;
    double* number = values.size() == row.probes.size() ? Find(out, row, &origin) : nullptr;
    if (number == nullptr) continue;
    const double after = Rounded(std::max(0.0, row.value(values)));
    changes->push_back({fmt::format("{}.{}{}{}.{}", row.kind, PartName(row.part),
                                    *row.unit ? "." : "", row.unit, row.name),
                        *number, after, from});
    *number = after;
    const std::string mark = provenance + ": ";
    if (origin->source.compare(0, mark.size(), mark) != 0)
      *origin = {ir::Evidence::kMeasured, mark + from};
    else if (origin->source.find(from) == std::string::npos)
      origin->source += ", " + from;
  }
  return out;
}

}  // namespace tilec::calibrate
