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

// Products of a unit. Probe `stream` is what one of `rows` × n × k takes where they follow one
// another.
struct Product {
  const char* kind;
  const char* stream;
  int rows, n, k;
  const char *issue_one, *issue_five;  // of the unit; null: it holds the warp as long
  const char *chain, *alone;  // `links` on one sum to the end of the wait, and one's occupancy
  int links;
};
constexpr Product WgmmaProduct(const char* kind, const char* stream, int k) {
  return {kind,
          stream,
          64,
          256,
          k,
          "wgmma.bf16.ss.n128.issue1",
          "wgmma.bf16.ss.n128.issue5",
          "wgmma.bf16.ss.n128.chain4",
          "wgmma.bf16.ss.n128",
          4};
}
constexpr Product Tcgen05(const char* kind, const char* stream, int k) {
  return {kind,
          stream,
          128,
          256,
          k,
          "tcgen05.bf16.ss.n128.issue1",
          "tcgen05.bf16.ss.n128.issue5",
          "tcgen05.bf16.ss.n128.chain4",
          "tcgen05.bf16.ss.n128",
          4};
}
// Four warps of 16 × 8 each.
constexpr Product MmaSync(const char* kind, const char* stream, const char* latency, int k) {
  return {kind, stream, 64, 8, k, nullptr, nullptr, latency, nullptr, 0};
}
constexpr Product kProducts[] = {
    WgmmaProduct("dot", "wgmma.bf16.ss.n256", 16),
    WgmmaProduct("dot_fp8", "wgmma.e4m3.ss.n256", 32),
    WgmmaProduct("dot_tf32", "wgmma.tf32.ss.n256", 8),
    Tcgen05("dot", "tcgen05.bf16.ss.n256", 16),
    Tcgen05("dot_fp8", "tcgen05.e4m3.ss.n256", 32),
    Tcgen05("dot_tf32", "tcgen05.tf32.ss.n256", 8),
    MmaSync("dot", "mma.bf16", "mma.bf16.latency", 16),
    MmaSync("dot_8", "mma.s8", "mma.s8.latency", 32),
    MmaSync("dot_fp8", "mma.e4m3", "mma.e4m3.latency", 32),
    MmaSync("dot_tf32", "mma.tf32", "mma.tf32.latency", 8),
};

void AddProductRows(std::vector<Row>& rows) {
  for (const Product& p : kProducts) {
    const auto flops = [p](V v) { return Whole(v[0]) / (2.0 * p.rows * p.n * p.k); };
    rows.push_back({p.kind, Part::kUse, "tensor", "flops", &Work::flops, {p.stream}, flops});
    rows.push_back({p.kind, Part::kLatency, "", "flops", &Work::flops, {p.stream}, flops});
    const auto first = [](V v) { return v[0]; };
    if (!p.issue_one) {
      rows.push_back({p.kind, Part::kIssue, "", "flops", &Work::flops, {p.stream}, flops});
      rows.push_back({p.kind, Part::kLatency, "", "base", nullptr, {p.chain}, first});
      continue;
    }
    const auto step = [](V v) { return std::max(1.0, (v[0] - v[1]) / 4); };
    const auto links = [p](V v) { return v[0] - p.links * v[1]; };
    rows.push_back(
        {p.kind, Part::kIssue, "", "steps", &Work::steps, {p.issue_five, p.issue_one}, step});
    rows.push_back({p.kind, Part::kIssue, "", "base", nullptr, {p.issue_one}, first});
    rows.push_back({p.kind, Part::kLatency, "", "base", nullptr, {p.chain, p.alone}, links});
  }
}

// Tensor memory, by tiles of 128 lanes: what four take before a wait, and two sizes to the end of
// it.
void AddTensorMemoryRows(std::vector<Row>& rows) {
  constexpr double kSmall = 128.0 * 32 * 4, kLarge = 128.0 * 128 * 4;
  struct Access {
    const char *kind, *stream, *small, *large;
  };
  for (const Access& a :
       {Access{"tmem_load", "tmem.ld.x32", "tmem.ld.x32.latency", "tmem.ld.x128.latency"},
        Access{"tmem_store", "tmem.st.x32", "tmem.st.x32.latency", "tmem.st.x128.latency"}}) {
    const auto bytes = [](V v) { return v[0] / kSmall; };
    const auto slope = [](V v) { return (v[1] - v[0]) / (kLarge - kSmall); };
    rows.push_back({a.kind, Part::kUse, "tmem", "bytes", &Work::bytes, {a.stream}, bytes});
    rows.push_back({a.kind, Part::kIssue, "", "bytes", &Work::bytes, {a.stream}, bytes});
    rows.push_back({a.kind, Part::kLatency, "", "bytes", &Work::bytes, {a.small, a.large}, slope});
    const auto start = [slope](V v) { return v[0] - slope(v) * kSmall; };
    rows.push_back({a.kind, Part::kLatency, "", "base", nullptr, {a.small, a.large}, start});
  }
  rows.push_back(
      {"tmem", Part::kTransfer, "", "base", nullptr, {"mbarrier.hop"}, [](V v) { return v[0]; }});
}

std::vector<Row> Rows() {
  const auto per = [](double n) { return [n](V v) { return v[0] / n; }; };
  const auto pipe = [](double n) { return [n](V v) { return Whole(v[0], 0.04) / n; }; };
  std::vector<Row> rows;
  AddProductRows(rows);
  AddTensorMemoryRows(rows);
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
