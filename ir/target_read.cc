// Machine files as data: what each key means, and which machines contradict themselves.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ir/diagnostics.h"
#include "ir/target.h"
#include "ir/target_reader.h"
#include "ir/target_toml.h"

namespace tilec::ir {

namespace {

constexpr int kMostExtended = 8;  // machines behind each other
constexpr DType kMultiplied[] = {DType::kBF16, DType::kF16, DType::kTF32, DType::kE4M3,
                                 DType::kE5M2, DType::kI8,  DType::kU8};
constexpr const char* kMedia[] = {"register", "smem", "tmem"};

}  // namespace

std::vector<TargetReader::Row> TargetReader::Rows() {
  struct To {
    static void Bind(Row& row, int64_t* to) { row.whole = to; }
    static void Bind(Row& row, double* to) { row.real = to; }
  };
  std::vector<Row> rows;
  const auto add = [&](const char* section, const char* name, double low, double high, auto* to) {
    rows.push_back({section, name, low, high, nullptr, nullptr});
    To::Bind(rows.back(), to);
  };
#define LIMIT(name, low, high, what) add("limit", #name, low, high, &target_.limits.name);
#define MODEL(type, name, low, high, what) add("model", #name, low, high, &target_.model.name);
#define LOWERING(type, name, low, high, what) \
  add("lowering", #name, low, high, &target_.lowering.name);
#define REGISTERS(type, name, low, high, what) \
  add("registers", #name, low, high, &target_.registers.name);
#include "ir/target_facts.def"
  return rows;
}

Result<Target> TargetReader::Read(std::string_view text) {
  toml::table root;
  try {
    root = toml::parse(text);
  } catch (const toml::parse_error& error) {
    return toml_.AtPlace(error.source().begin.line, error.source().begin.column,
                         std::string(error.description()));
  }
  TRY_VOID(toml_.Known(root, {"name", "title", "arch", "features", "extends", "changes",
                              "stands_for_arch", "devices", "limit", "model", "lowering",
                              "registers", "matrix_unit", "unit", "op", "transfer"}));
  TRY_VOID(ReadBase(root));
  TRY(target_.name, toml_.String(root, "name"));
  TRY(target_.title, toml_.String(root, "title"));
  TRY(target_.stands_for_arch, toml_.Flag(root, "stands_for_arch"));
  if (!extends_ || root.contains("arch")) {
    TRY(target_.arch, toml_.String(root, "arch"));
  }
  target_.follows.clear();  // the machine that this one extends is another
  target_.devices.clear();
  if (root.contains("devices")) {
    TRY(target_.devices, toml_.Strings(root, "devices"));
  }
  if (!extends_ || root.contains("features")) {
    TRY(const std::vector<std::string> features, toml_.Strings(root, "features"));
    target_.features = {features.begin(), features.end()};
  }
  TRY_VOID(toml_.Tables(root, "limit", [&](const toml::table& t) { return ReadLimit(t); }));
  for (const char* section : {"model", "lowering", "registers"})
    TRY_VOID(ReadSection(root, section));
  TRY_VOID(ReadMatrixUnit(root));
  TRY_VOID(toml_.Tables(root, "unit", [&](const toml::table& t) { return ReadUnit(t); }));
  TRY_VOID(toml_.Tables(root, "op", [&](const toml::table& t) { return ReadOp(t); }));
  TRY_VOID(toml_.Tables(root, "transfer", [&](const toml::table& t) { return ReadTransfer(t); }));
  TRY_VOID(CheckComplete(root));
  TRY_VOID(CheckArchitecture(root));
  TRY_VOID(CheckNumbers(root));
  return std::move(target_);
}

// Whatever the file does not say is as of the machine that it extends, and assumed of this one.
// Units, ops and transfers belong together: who gives some gives all, or says `changes`: then each
// takes the place of the one of its name.
Result<> TargetReader::ReadBase(const toml::table& root) {
  if (!root.contains("extends")) return Done();
  extends_ = true;
  TRY(const std::string base, toml_.String(root, "extends"));
  const std::string_view text = BuiltinMachineText(base);
  if (text.empty()) {
    TRY_VOID(toml_.OneOf(*root.get("extends"), base, "machine", BuiltinMachines()));
  }
  if (depth_ >= kMostExtended)
    return toml_.At(
        *root.get("extends"),
        fmt::format("`{}` is extended by way of more than {} machines", base, kMostExtended));
  TRY(target_, TargetReader(text, -1, diags_, depth_ + 1).Read(text));
  const auto assumed = [&](Origin& origin) {
    const std::string as = fmt::format("as of {}: ", base);
    if (origin.source.compare(0, 6, "as of ") != 0) origin.source = as + origin.source;
    origin.evidence = Evidence::kAssumed;
  };
  for (auto& [key, origin] : target_.origins) assumed(origin);
  TRY(changes_, toml_.Flag(root, "changes"));
  if (!changes_ && (root.contains("unit") || root.contains("op") || root.contains("transfer"))) {
    target_.units.clear();
    target_.ops.clear();
    target_.transfers.clear();
  }
  assumed(target_.matrix_unit.origin);
  for (TargetUnit& unit : target_.units) assumed(unit.origin);
  for (OpCost& op : target_.ops) assumed(op.origin);
  for (TargetTransfer& transfer : target_.transfers) assumed(transfer.origin);
  return Done();
}

Result<> TargetReader::ReadLimit(const toml::table& table) {
  TRY_VOID(toml_.Known(table, {"name", "value", "tag", "source"}));
  TRY(const std::string name, toml_.String(table, "name"));
  std::vector<std::string> names;
  for (const Row& row : Rows())
    if (std::string_view(row.section) == "limit") names.emplace_back(row.name);
  TRY_VOID(toml_.OneOf(*table.get("name"), name, "limit", names));
  const std::string key = "limit." + name;
  if (!given_.emplace(key, &table).second)
    return toml_.At(table, fmt::format("limit `{}` is given twice", name));
  for (const Row& row : Rows())
    if (std::string_view(row.section) == "limit" && row.name == name) {
      TRY(*row.whole, toml_.Integer(table, "value", static_cast<int64_t>(row.low),
                                    static_cast<int64_t>(row.high)));
    }
  TRY(target_.origins[key], toml_.ReadOrigin(table));
  return Done();
}

// name = { value = 3, tag = "measured", source = "…" }
Result<> TargetReader::ReadSection(const toml::table& root, const char* section) {
  const toml::node* node = root.get(section);
  if (node == nullptr) return Done();
  if (!node->is_table()) return toml_.At(*node, fmt::format("`{}` is not [{}]", section, section));
  std::vector<std::string> names;
  for (const Row& row : Rows())
    if (std::string_view(row.section) == section) names.emplace_back(row.name);
  TRY_VOID(toml_.Known(*node->as_table(), names));
  for (const Row& row : Rows()) {
    const toml::node* fact = node->as_table()->get(row.name);
    if (std::string_view(row.section) != section || fact == nullptr) continue;
    const toml::table* table = fact->as_table();
    if (table == nullptr)
      return toml_.At(*fact, fmt::format("`{}` does not say where it is from", row.name))
          .Help(fmt::format("write {} = {{ value = …, tag = \"assumed\", source = \"…\" }}",
                            row.name));
    TRY_VOID(toml_.Known(*table, {"value", "tag", "source"}));
    if (row.whole != nullptr) {
      TRY(*row.whole, toml_.Integer(*table, "value", static_cast<int64_t>(row.low),
                                    static_cast<int64_t>(row.high)));
    } else {
      TRY(*row.real, toml_.Number(*table, "value", row.low, row.high));
    }
    const std::string key = fmt::format("{}.{}", section, row.name);
    given_.emplace(key, fact);
    TRY(target_.origins[key], toml_.ReadOrigin(*table));
  }
  return Done();
}

// Another unit than the one of the machine that is extended, or the same for other types.
Result<> TargetReader::ReadMatrixUnit(const toml::table& root) {
  const toml::node* node = root.get("matrix_unit");
  if (node == nullptr) return Done();
  if (!node->is_table()) return toml_.At(*node, "`matrix_unit` is not [matrix_unit]");
  const toml::table& table = *node->as_table();
  TRY_VOID(toml_.Known(table, {"kind", "dtypes", "tag", "source"}));
  TRY(const std::string kind, toml_.String(table, "kind"));
  TRY_VOID(toml_.OneOf(*table.get("kind"), kind, "matrix unit", MatrixUnitNames()));
  TRY(const std::vector<std::string> dtypes, toml_.Strings(table, "dtypes"));
  TargetMatrixUnit unit;
  unit.kind = *MatrixUnitNamed(kind);
  std::vector<std::string> known;
  for (DType d : kMultiplied) known.emplace_back(Spelling(d));
  for (const std::string& name : dtypes) {
    TRY_VOID(toml_.OneOf(*table.get("dtypes"), name, "type of operands", known));
    unit.dtypes.insert(*DTypeFromSpelling(name));
  }
  if (unit.dtypes.empty() != (unit.kind == MatrixUnit::kNone))
    return toml_.At(*table.get("dtypes"), unit.dtypes.empty()
                                              ? fmt::format("`{}` multiplies nothing", kind)
                                              : "no unit multiplies these");
  TRY(unit.origin, toml_.ReadOrigin(table));
  target_.matrix_unit = std::move(unit);
  return Done();
}

Result<int64_t> TargetReader::Percent(const toml::table& table, const char* key) {
  if (!table.contains(key)) return int64_t{100};
  return toml_.Integer(table, key, 1, 100);
}

Result<> TargetReader::ReadUnit(const toml::table& table) {
  TRY_VOID(toml_.Known(table, {"name", "capacity", "fluid", "alone_percent", "full_clock_percent",
                               "tag", "source"}));
  TargetUnit unit;
  TRY(unit.name, toml_.String(table, "name"));
  TRY(unit.capacity, toml_.Integer(table, "capacity", 1, 1'000'000));
  TRY(unit.fluid, toml_.Flag(table, "fluid"));
  TRY(unit.alone_percent, Percent(table, "alone_percent"));
  TRY(unit.full_clock_percent, Percent(table, "full_clock_percent"));
  TRY(unit.origin, toml_.ReadOrigin(table));
  if (!given_.emplace("unit." + unit.name, &table).second)
    return toml_.At(table, fmt::format("unit `{}` is given twice", unit.name));
  const int at = UnitIndex(unit.name);
  if (at >= 0)
    target_.units[static_cast<size_t>(at)] = std::move(unit);
  else
    target_.units.push_back(std::move(unit));
  return Done();
}

int TargetReader::UnitIndex(std::string_view name) const {
  for (size_t i = 0; i < target_.units.size(); ++i)
    if (target_.units[i].name == name) return static_cast<int>(i);
  return -1;
}

Result<> TargetReader::ReadUses(const toml::table& use, OpCost* cost) {
  std::vector<std::string> names;
  for (const TargetUnit& unit : target_.units) names.push_back(unit.name);
  for (const auto& [name, node] : use) {
    TargetUse entry;
    TRY_VOID(toml_.OneOf(node, std::string(name.str()), "unit", names));
    entry.unit = UnitIndex(name.str());
    TRY(entry.cycles, toml_.ReadLinear(node, std::string(name.str())));
    cost->uses.push_back(entry);
  }
  std::sort(cost->uses.begin(), cost->uses.end(),
            [](const TargetUse& a, const TargetUse& b) { return a.unit < b.unit; });
  return Done();
}

Result<> TargetReader::ReadOp(const toml::table& table) {
  TRY_VOID(toml_.Known(table, {"kind", "ops", "warps", "async", "variable", "issue", "latency",
                               "use", "tag", "source"}));
  OpCost cost;
  TRY(cost.kind, toml_.String(table, "kind"));
  TRY(cost.ops, toml_.Strings(table, "ops"));
  TRY(const int64_t warps, toml_.Integer(table, "warps", 1, 64));
  cost.warps = static_cast<int>(warps);
  TRY(cost.async, toml_.Flag(table, "async"));
  TRY(cost.variable, toml_.Flag(table, "variable"));
  TRY(cost.issue, toml_.LinearOf(table, "issue"));
  TRY(cost.latency, toml_.LinearOf(table, "latency"));
  TRY(cost.origin, toml_.ReadOrigin(table));
  if (const toml::node* use = table.get("use")) {
    if (!use->is_table()) return toml_.At(*use, "`use` is not a table of units");
    TRY_VOID(ReadUses(*use->as_table(), &cost));
  }
  if (changes_)
    std::erase_if(target_.ops, [&](const OpCost& other) {
      return other.kind == cost.kind && given_.count("op." + cost.kind) == 0;
    });
  given_.emplace("op." + cost.kind, &table);
  for (const OpCost& other : target_.ops)
    for (const std::string& op : cost.ops)
      if (std::find(other.ops.begin(), other.ops.end(), op) != other.ops.end())
        return toml_.At(
            table, fmt::format("op `{}` is costed as `{}` and as `{}`", op, other.kind, cost.kind));
  target_.ops.push_back(std::move(cost));
  return Done();
}

Result<> TargetReader::ReadTransfer(const toml::table& table) {
  TRY_VOID(toml_.Known(table, {"medium", "cycles", "tag", "source"}));
  TargetTransfer transfer;
  TRY(transfer.medium, toml_.String(table, "medium"));
  TRY_VOID(toml_.OneOf(*table.get("medium"), transfer.medium, "medium",
                       {std::begin(kMedia), std::end(kMedia)}));
  TRY(transfer.cycles, toml_.LinearOf(table, "cycles"));
  TRY(transfer.origin, toml_.ReadOrigin(table));
  if (changes_)
    std::erase_if(target_.transfers,
                  [&](const TargetTransfer& other) { return other.medium == transfer.medium; });
  target_.transfers.push_back(std::move(transfer));
  return Done();
}

Result<Target> ParseTarget(std::string_view text, int32_t file, DiagSink& diags) {
  return TargetReader(text, file, diags, 0).Read(text);
}

}  // namespace tilec::ir
