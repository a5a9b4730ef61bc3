// Machine files as data. The only place that knows TOML.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/target.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ir/diagnostics.h"
#include "support/nearest.h"

#define TOML_HEADER_ONLY 0
#include <toml++/toml.h>

namespace tilec::ir {

namespace {

constexpr const char* kLimits[] = {"smem_bytes",     "tmem_columns", "max_regs_per_thread",
                                   "registers",      "max_warps",    "barrier_bytes",
                                   "named_barriers", "sms",          "clock_mhz",
                                   "memory_gbs"};
constexpr const char* kMedia[] = {"register", "smem", "tmem"};
constexpr double kMostCost = 1e9;

class Reader {
 public:
  Reader(std::string_view text, int32_t file, DiagSink& diags)
      : text_(text), file_(file), diags_(diags) {}

  Result<Target> Read(const toml::table& root) {
    TRY_VOID(Known(root, {"name", "title", "arch", "features", "limit", "unit", "op", "transfer"}));
    TRY(target_.name, String(root, "name"));
    TRY(target_.title, String(root, "title"));
    TRY(target_.arch, String(root, "arch"));
    TRY(const std::vector<std::string> features, Strings(root, "features"));
    target_.features.insert(features.begin(), features.end());
    TRY_VOID(Tables(root, "limit", [&](const toml::table& t) { return ReadLimit(t); }));
    TRY_VOID(Tables(root, "unit", [&](const toml::table& t) { return ReadUnit(t); }));
    TRY_VOID(Tables(root, "op", [&](const toml::table& t) { return ReadOp(t); }));
    TRY_VOID(Tables(root, "transfer", [&](const toml::table& t) { return ReadTransfer(t); }));
    for (const char* needed : {"smem_bytes", "max_regs_per_thread", "registers", "max_warps"})
      if (std::none_of(target_.limits.begin(), target_.limits.end(),
                       [&](const TargetLimit& l) { return l.name == needed; }))
        return At(root, fmt::format("the machine has no limit `{}`", needed));
    for (const char* needed : {"dot", "*"})
      if (target_.CostOf(needed) == nullptr)
        return At(root, fmt::format("no [[op]] says what `{}` costs", needed));
    return std::move(target_);
  }

  DiagBuilder At(const toml::node& node, const std::string& message) {
    return AtPlace(node.source().begin.line, node.source().begin.column, message);
  }
  DiagBuilder AtPlace(uint32_t line, uint32_t column, const std::string& message) {
    if (file_ < 0)
      return diags_.Report(kMachineFile, Span{}, message)
          .Place(fmt::format("machine file, line {}", line));
    size_t offset = 0;
    for (uint32_t i = 1; i < line && offset < text_.size(); ++i)
      offset = std::min(text_.find('\n', offset), text_.size() - 1) + 1;
    offset = std::min(text_.size(), offset + (column > 0 ? column - 1 : 0));
    const auto begin = static_cast<uint32_t>(offset);
    return diags_.Report(kMachineFile, Span{file_, begin, begin}, message);
  }

 private:
  Result<> Known(const toml::table& table, const std::vector<std::string>& keys) {
    for (const auto& [key, node] : table) {
      const std::string_view name = key.str();
      if (std::find(keys.begin(), keys.end(), name) != keys.end()) continue;
      DiagBuilder builder = At(node, fmt::format("there is no key `{}` here", name));
      const std::string near = NearestName(name, keys);
      if (!near.empty()) builder.Help(fmt::format("did you mean `{}`?", near));
      return builder;
    }
    return Done();
  }
  Result<std::string> String(const toml::table& table, const char* key) {
    const auto value = table[key].value<std::string>();
    if (value && !value->empty()) return *value;
    return At(table, fmt::format("`{}` is not a text", key));
  }
  Result<std::vector<std::string>> Strings(const toml::table& table, const char* key) {
    std::vector<std::string> strings;
    const toml::array* array = table[key].as_array();
    if (array == nullptr) return At(table, fmt::format("`{}` is not a list of texts", key));
    for (const toml::node& node : *array) {
      if (!node.is_string()) return At(node, fmt::format("`{}` is not a list of texts", key));
      strings.push_back(*node.value<std::string>());
    }
    return strings;
  }
  Result<int64_t> Integer(const toml::table& table, const char* key, int64_t low) {
    const toml::node* node = table.get(key);
    if (node == nullptr || !node->is_integer())
      return At(node != nullptr ? *node : table, fmt::format("`{}` is not a whole number", key));
    const int64_t value = *node->value<int64_t>();
    if (value >= low && value <= static_cast<int64_t>(kMostCost)) return value;
    return At(*node, fmt::format("`{}` is {}, not in {}…{:.0f}", key, value, low, kMostCost));
  }
  Result<bool> Flag(const toml::table& table, const char* key) {
    const toml::node* node = table.get(key);
    if (node == nullptr) return false;
    if (!node->is_boolean()) return At(*node, fmt::format("`{}` is not true or false", key));
    return *node->value<bool>();
  }

  template <typename F>
  Result<> Tables(const toml::table& root, const char* key, const F& read) {
    const toml::node* node = root.get(key);
    if (node == nullptr) return Done();
    const toml::array* array = node->as_array();
    if (array == nullptr) return At(*node, fmt::format("`{}` is not [[{}]]", key, key));
    for (const toml::node& item : *array) {
      if (!item.is_table()) return At(item, fmt::format("`{}` is not [[{}]]", key, key));
      TRY_VOID(read(*item.as_table()));
    }
    return Done();
  }

  Result<Origin> ReadOrigin(const toml::table& table) {
    Origin origin;
    TRY(const std::string tag, String(table, "tag"));
    TRY(origin.source, String(table, "source"));
    for (Evidence e : {Evidence::kMeasured, Evidence::kDocumented, Evidence::kAssumed})
      if (tag == Spelling(e)) {
        origin.evidence = e;
        return origin;
      }
    return At(*table.get("tag"), fmt::format("`{}` is no tag", tag))
        .Help("an entry is `measured`, `documented` or `assumed`");
  }

  // A number, or { base = 56, flops = 0.0002 }.
  Result<Linear> ReadLinear(const toml::node& node, const std::string& key) {
    Linear linear;
    auto number = [&](const toml::node& n, double* to) {
      const auto value = n.value<double>();
      if (!n.is_number() || !value || !(*value >= 0) || *value > kMostCost) return false;
      *to = *value;
      return true;
    };
    if (number(node, &linear.base)) return linear;
    const toml::table* table = node.as_table();
    if (table == nullptr)
      return At(node, fmt::format("`{}` is neither a cost >= 0 nor a table of them", key));
    TRY_VOID(Known(*table, {"base", "flops", "elements", "bytes", "steps", "rows"}));
    for (const auto& [name, part] : *table) {
      double* field = &linear.base;
      for (const auto& [quantity, member] : kQuantities)
        if (name.str() == quantity) field = &(linear.per.*member);
      if (!number(part, field))
        return At(part, fmt::format("`{}` is not a cost >= 0", std::string_view(name.str())));
    }
    return linear;
  }
  Result<Linear> LinearOf(const toml::table& table, const char* key) {
    const toml::node* node = table.get(key);
    if (node == nullptr) return At(table, fmt::format("there is no `{}`", key));
    return ReadLinear(*node, key);
  }

  Result<> ReadLimit(const toml::table& table) {
    TRY_VOID(Known(table, {"name", "value", "tag", "source"}));
    TargetLimit limit;
    TRY(limit.name, String(table, "name"));
    TRY(limit.value, Integer(table, "value", 0));
    TRY(limit.origin, ReadOrigin(table));
    if (std::find(std::begin(kLimits), std::end(kLimits), limit.name) == std::end(kLimits)) {
      DiagBuilder builder = At(table, fmt::format("there is no limit `{}`", limit.name));
      const std::string near = NearestName(limit.name, {std::begin(kLimits), std::end(kLimits)});
      if (!near.empty()) builder.Help(fmt::format("did you mean `{}`?", near));
      return builder;
    }
    for (const TargetLimit& other : target_.limits)
      if (other.name == limit.name)
        return At(table, fmt::format("limit `{}` is given twice", limit.name));
    target_.limits.push_back(std::move(limit));
    return Done();
  }

  Result<int64_t> Percent(const toml::table& table, const char* key) {
    if (!table.contains(key)) return int64_t{100};
    TRY(const int64_t value, Integer(table, key, 1));
    if (value > 100) return At(table, fmt::format("`{}` is {}; 1 … 100", key, value));
    return value;
  }
  Result<> ReadUnit(const toml::table& table) {
    TRY_VOID(Known(table, {"name", "capacity", "fluid", "alone_percent", "full_clock_percent",
                           "tag", "source"}));
    TargetUnit unit;
    TRY(unit.name, String(table, "name"));
    TRY(unit.capacity, Integer(table, "capacity", 1));
    TRY(unit.fluid, Flag(table, "fluid"));
    TRY(unit.alone_percent, Percent(table, "alone_percent"));
    TRY(unit.full_clock_percent, Percent(table, "full_clock_percent"));
    TRY(unit.origin, ReadOrigin(table));
    if (UnitIndex(unit.name) >= 0)
      return At(table, fmt::format("unit `{}` is given twice", unit.name));
    target_.units.push_back(std::move(unit));
    return Done();
  }
  int UnitIndex(std::string_view name) const {
    for (size_t i = 0; i < target_.units.size(); ++i)
      if (target_.units[i].name == name) return static_cast<int>(i);
    return -1;
  }

  Result<> ReadOp(const toml::table& table) {
    TRY_VOID(Known(table, {"kind", "ops", "warps", "async", "variable", "issue", "latency", "use",
                           "tag", "source"}));
    OpCost cost;
    TRY(cost.kind, String(table, "kind"));
    TRY(cost.ops, Strings(table, "ops"));
    TRY(const int64_t warps, Integer(table, "warps", 1));
    cost.warps = static_cast<int>(std::min<int64_t>(warps, 64));
    TRY(cost.async, Flag(table, "async"));
    TRY(cost.variable, Flag(table, "variable"));
    TRY(cost.issue, LinearOf(table, "issue"));
    TRY(cost.latency, LinearOf(table, "latency"));
    TRY(cost.origin, ReadOrigin(table));
    if (const toml::node* use = table.get("use")) {
      if (!use->is_table()) return At(*use, "`use` is not a table of units");
      for (const auto& [name, node] : *use->as_table()) {
        TargetUse entry;
        entry.unit = UnitIndex(name.str());
        if (entry.unit < 0) {
          std::vector<std::string> names;
          for (const TargetUnit& unit : target_.units) names.push_back(unit.name);
          DiagBuilder builder =
              At(node, fmt::format("there is no unit `{}`", std::string_view(name.str())));
          const std::string near = NearestName(name.str(), names);
          if (!near.empty()) builder.Help(fmt::format("did you mean `{}`?", near));
          return builder;
        }
        TRY(entry.cycles, ReadLinear(node, std::string(name.str())));
        cost.uses.push_back(entry);
      }
    }
    std::sort(cost.uses.begin(), cost.uses.end(),
              [](const TargetUse& a, const TargetUse& b) { return a.unit < b.unit; });
    for (const OpCost& other : target_.ops)
      for (const std::string& op : cost.ops)
        if (std::find(other.ops.begin(), other.ops.end(), op) != other.ops.end())
          return At(table, fmt::format("op `{}` is costed as `{}` and as `{}`", op, other.kind,
                                       cost.kind));
    target_.ops.push_back(std::move(cost));
    return Done();
  }

  Result<> ReadTransfer(const toml::table& table) {
    TRY_VOID(Known(table, {"medium", "cycles", "tag", "source"}));
    TargetTransfer transfer;
    TRY(transfer.medium, String(table, "medium"));
    if (std::find(std::begin(kMedia), std::end(kMedia), transfer.medium) == std::end(kMedia))
      return At(table, fmt::format("`{}` is no medium", transfer.medium))
          .Help("values are handed over in `register`, `smem` or `tmem`");
    TRY(transfer.cycles, LinearOf(table, "cycles"));
    TRY(transfer.origin, ReadOrigin(table));
    target_.transfers.push_back(std::move(transfer));
    return Done();
  }

  const std::string_view text_;
  const int32_t file_;
  DiagSink& diags_;
  Target target_;
};

}  // namespace

const char* Spelling(Evidence evidence) {
  switch (evidence) {
    case Evidence::kMeasured: return "measured";
    case Evidence::kDocumented: return "documented";
    case Evidence::kAssumed: return "assumed";
  }
  return "";
}

Linear Linear::Times(double factor) const {
  return {factor * base,
          {factor * per.flops, factor * per.elements, factor * per.bytes, factor * per.steps,
           factor * per.rows}};
}

int64_t Linear::At(const Work& work) const {
  double sum = base;
  for (const auto& [name, member] : kQuantities) sum += per.*member * work.*member;
  // A hair below, so that 0.1 · 10 is 1.
  return static_cast<int64_t>(std::ceil(sum - 1e-6));
}

int64_t Target::Limit(std::string_view limit, int64_t absent) const {
  for (const TargetLimit& l : limits)
    if (l.name == limit) return l.value;
  return absent;
}

// The most specific row: "dot.8", then "dot", then "*".
const OpCost* Target::CostOf(std::string_view op) const {
  auto named = [&](std::string_view name) -> const OpCost* {
    for (const OpCost& cost : ops)
      if (std::find(cost.ops.begin(), cost.ops.end(), name) != cost.ops.end()) return &cost;
    return nullptr;
  };
  if (const OpCost* cost = named(op)) return cost;
  if (const OpCost* cost = named(op.substr(0, op.find('.')))) return cost;
  return named("*");
}

const OpCost* Target::CostOfKind(std::string_view kind) const {
  for (const OpCost& cost : ops)
    if (cost.kind == kind) return &cost;
  return nullptr;
}

int64_t Target::Transfer(std::string_view medium, double bytes) const {
  Work work;
  work.bytes = bytes;
  for (const TargetTransfer& transfer : transfers)
    if (transfer.medium == medium) return transfer.cycles.At(work);
  return 0;
}

Result<Target> ParseTarget(std::string_view text, int32_t file, DiagSink& diags) {
  Reader reader(text, file, diags);
  toml::table root;
  try {
    root = toml::parse(text);
  } catch (const toml::parse_error& error) {
    return reader.AtPlace(error.source().begin.line, error.source().begin.column,
                          std::string(error.description()));
  }
  return reader.Read(root);
}

Result<Target> LoadBuiltinTarget(std::string_view name, DiagSink& diags) {
  const std::string_view text = BuiltinMachineText(name);
  if (!text.empty()) return ParseTarget(text, -1, diags);
  DiagBuilder builder =
      diags.Report(kUnknownMachine, Span{}, std::string(name)).Place("command line");
  const std::string near = NearestName(name, BuiltinMachines());
  builder.Help(near.empty() ? "--machine takes a name or a file"
                            : fmt::format("did you mean `{}`?", near));
  return builder;
}

}  // namespace tilec::ir
