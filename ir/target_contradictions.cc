// Which machines contradict themselves: what an architecture cannot have, numbers that cannot be,
// keys that are missing.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/target_reader.h"

#include "ir/diagnostics.h"
#include "ir/target.h"
#include "ir/target_toml.h"

namespace tilec::ir {

namespace {

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

}  // namespace

Result<> TargetReader::CheckComplete(const toml::table& root) {
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

DiagBuilder TargetReader::Contradicts(const toml::table& root, const char* key,
                                      const std::string& message) {
  const auto given = given_.find(key);
  const toml::node* extends = root.get("extends");
  const toml::node& node = given != given_.end() ? *given->second
                           : extends != nullptr  ? *extends
                                                 : static_cast<const toml::node&>(root);
  return toml_.At(node, message, &kMachineContradiction);
}

Result<> TargetReader::CheckArchitecture(const toml::table& root) {
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
Result<> TargetReader::CheckNumbers(const toml::table& root) {
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

}  // namespace tilec::ir
