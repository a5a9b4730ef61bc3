// Machine files as data: what each key means, and which machines contradict themselves.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ir/diagnostics.h"
#include "ir/target.h"
#include "ir/target_toml.h"
#include "support/nearest.h"

namespace tilec::ir {

namespace {

constexpr int kMostExtended = 8;  // machines behind each other
constexpr DType kMultiplied[] = {DType::kBF16, DType::kF16, DType::kTF32, DType::kE4M3,
                                 DType::kE5M2, DType::kI8,  DType::kU8};
constexpr const char* kMedia[] = {"register", "smem", "tmem"};

// Rows of ir/features.def.
struct Feature {
  const char* name;
  int least, most;
  bool specific, follows;
};
constexpr Feature kFeatures[] = {
#define FEATURE(name, least, most, specific, follows, what) {#name, least, most, specific, follows},
#include "ir/features.def"
#undef FEATURE
};

class Reader {
 public:
  Reader(std::string_view text, int32_t file, DiagSink& diags, int depth)
      : toml_(text, file, diags), diags_(diags), depth_(depth) {}

  Result<Target> Read(std::string_view text);

 private:
  struct Row {
    const char* section;
    const char* name;
    double low, high;
    int64_t* whole;  // one of the two
    double* real;
  };
  std::vector<Row> Rows();

  Result<> ReadBase(const toml::table& root);
  Result<> ReadLimit(const toml::table& table);
  Result<> ReadSection(const toml::table& root, const char* section);
  Result<> ReadMatrixUnit(const toml::table& root);
  Result<> ReadUnit(const toml::table& table);
  Result<> ReadOp(const toml::table& table);
  Result<> ReadUses(const toml::table& use, OpCost* cost);
  Result<> ReadTransfer(const toml::table& table);
  Result<int64_t> Percent(const toml::table& table, const char* key);
  int UnitIndex(std::string_view name) const;

  Result<> CheckComplete(const toml::table& root);
  Result<> CheckArchitecture(const toml::table& root);
  Result<> CheckNumbers(const toml::table& root);
  DiagBuilder Contradicts(const toml::table& root, const char* key, const std::string& message);

  TomlReader toml_;
  DiagSink& diags_;
  const int depth_;
  bool extends_ = false, changes_ = false;
  Target target_;
  std::map<std::string, const toml::node*> given_;  // "section.name" of this file
};

std::vector<Reader::Row> Reader::Rows() {
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

Result<Target> Reader::Read(std::string_view text) {
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
Result<> Reader::ReadBase(const toml::table& root) {
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
  TRY(target_, Reader(text, -1, diags_, depth_ + 1).Read(text));
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

Result<> Reader::ReadLimit(const toml::table& table) {
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
Result<> Reader::ReadSection(const toml::table& root, const char* section) {
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
Result<> Reader::ReadMatrixUnit(const toml::table& root) {
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

Result<int64_t> Reader::Percent(const toml::table& table, const char* key) {
  if (!table.contains(key)) return int64_t{100};
  return toml_.Integer(table, key, 1, 100);
}

Result<> Reader::ReadUnit(const toml::table& table) {
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

int Reader::UnitIndex(std::string_view name) const {
  for (size_t i = 0; i < target_.units.size(); ++i)
    if (target_.units[i].name == name) return static_cast<int>(i);
  return -1;
}

Result<> Reader::ReadUses(const toml::table& use, OpCost* cost) {
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

Result<> Reader::ReadOp(const toml::table& table) {
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

Result<> Reader::ReadTransfer(const toml::table& table) {
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

Result<> Reader::CheckComplete(const toml::table& root) {
  for (const Row& row : Rows()) {
    if (target_.origins.count(fmt::format("{}.{}", row.section, row.name)) > 0) continue;
    const bool limit = std::string_view(row.section) == "limit";
    return toml_
        .At(root, limit ? fmt::format("the machine has no limit `{}`", row.name)
                        : fmt::format("[{}] has no `{}`", row.section, row.name))
        .Help("give it, or write extends = \"h200\" and give only what differs");
  }
  for (const char* needed : {"dot", "*"})
    if (target_.CostOf(needed) == nullptr)
      return toml_.At(root, fmt::format("no [[op]] says what `{}` costs", needed));
  return Done();
}

DiagBuilder Reader::Contradicts(const toml::table& root, const char* key,
                                const std::string& message) {
  const auto given = given_.find(key);
  const toml::node* extends = root.get("extends");
  const toml::node& node = given != given_.end() ? *given->second
                           : extends != nullptr  ? *extends
                                                 : static_cast<const toml::node&>(root);
  return toml_.At(node, message, &kMachineContradiction);
}

Result<> Reader::CheckArchitecture(const toml::table& root) {
  const toml::node* arch = root.get("arch");
  const toml::node* features = root.get("features");
  const toml::node& at = features != nullptr ? *features
                         : arch != nullptr   ? *arch
                                             : static_cast<const toml::node&>(root);
  bool specific = false;
  const int capability = CapabilityOf(target_.arch, &specific);
  if (capability == 0)
    return toml_
        .At(arch != nullptr ? *arch : root, fmt::format("`{}` is no architecture", target_.arch))
        .Help("write arch = \"sm_90a\", as the assembler calls it");
  for (const std::string& feature : target_.features) {
    std::vector<std::string> names;
    for (const Feature& known : kFeatures) names.emplace_back(known.name);
    TRY_VOID(toml_.OneOf(at, feature, "feature", names));
    for (const Feature& known : kFeatures) {
      if (feature != known.name) continue;
      if (capability < known.least || capability > known.most)
        return toml_
            .At(at, fmt::format("`{}` has no {}", target_.arch, feature), &kMachineContradiction)
            .Help(fmt::format("leave \"{}\" out of features, or write arch = \"sm_{}{}\"", feature,
                              known.least, known.specific ? "a" : ""));
      if (known.specific && !specific)
        return toml_
            .At(at, fmt::format("`{}` has no {}", target_.arch, feature), &kMachineContradiction)
            .Help(fmt::format("write arch = \"{}a\"", target_.arch));
    }
  }
  for (const Feature& known : kFeatures)
    if (known.follows && capability >= known.least && capability <= known.most &&
        (specific || !known.specific))
      target_.follows.insert(known.name);
  const MatrixUnitInfo& unit = target_.unit();
  const toml::node* given_unit = root.get("matrix_unit");
  if (target_.matrix_unit.kind != MatrixUnit::kNone &&
      (capability < unit.least || capability > unit.most || (unit.specific && !specific)))
    return toml_
        .At(given_unit != nullptr ? *given_unit : at,
            fmt::format("`{}` has no {}", target_.arch, unit.name), &kMachineContradiction)
        .Help(
            "say in [matrix_unit] what it has: kind = \"mma.sync\", or \"none\" with dtypes = []");
  if (target_.Has("tmem") != (target_.limits.tmem_columns > 0))
    return Contradicts(
               root, "limit.tmem_columns",
               fmt::format("`tmem` is {} feature, and there are {} columns of tensor memory",
                           target_.Has("tmem") ? "a" : "no", target_.limits.tmem_columns))
        .Help("a machine with the feature \"tmem\" has a limit `tmem_columns` above 0");
  return Done();
}

// Numbers that each are possible and together are not: the smaller must not exceed the larger.
Result<> Reader::CheckNumbers(const toml::table& root) {
  const TargetLimits& limits = target_.limits;
  const TargetLowering& lowering = target_.lowering;
  struct AtMost {
    const char* key;
    int64_t value;
    const char* most_key;
    int64_t most;
  };
  const AtMost rows[] = {
      {"limit.smem_bytes", limits.smem_bytes + limits.smem_reserved_bytes,
       "limit.smem_bytes_per_sm", limits.smem_bytes_per_sm},
      {"limit.max_regs_per_thread", limits.max_regs_per_thread, "limit.regs_per_thread",
       limits.regs_per_thread},
      {"limit.max_warps", 32 * limits.max_warps, "limit.max_threads_per_sm",
       limits.max_threads_per_sm},
      {"limit.regs_per_thread", 32 * limits.regs_per_thread, "limit.registers", limits.registers},
      {"lowering.staging_bytes", lowering.staging_bytes, "limit.smem_bytes", limits.smem_bytes},
      {"lowering.row_ctas_least", lowering.row_ctas_least, "lowering.row_ctas_wanted",
       lowering.row_ctas_wanted},
      {"lowering.row_ctas_wanted", lowering.row_ctas_wanted, "limit.max_ctas_per_sm",
       limits.max_ctas_per_sm},
      {"lowering.one_warpgroup_elements", lowering.one_warpgroup_elements,
       "lowering.two_warpgroups_elements", lowering.two_warpgroups_elements},
      {"lowering.persistent_slots", lowering.persistent_slots, "lowering.most_slots",
       lowering.most_slots},
  };
  for (const AtMost& row : rows)
    if (row.value > row.most)
      return Contradicts(root, given_.count(row.key) > 0 ? row.key : row.most_key,
                         fmt::format("`{}` asks for {}, and `{}` is {}",
                                     std::string_view(row.key).substr(
                                         std::string_view(row.key).find('.') + 1),
                                     row.value,
                                     std::string_view(row.most_key)
                                         .substr(std::string_view(row.most_key).find('.') + 1),
                                     row.most))
          .Help(fmt::format("lower `{}` or raise `{}`", row.key, row.most_key));
  return Done();
}

}  // namespace

Result<Target> ParseTarget(std::string_view text, int32_t file, DiagSink& diags) {
  return Reader(text, file, diags, 0).Read(text);
}

}  // namespace tilec::ir
