// SPDX-License-Identifier: Apache-2.0
#include "ir/plan_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "ir/plan_fields.h"
#include "ir/plan_words.h"
#include "support/lines.h"

namespace tilec::ir {

uint64_t ProgramHash(const Function& fn) {
  uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (const char c : Print(fn)) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash;
}

uint64_t ProgramOf(std::string_view plan_text) {
  for (const TextLine& line : SplitLines(plan_text, -1)) {
    if (line.words.size() != 2 || line.words[0].text != "program") continue;
    uint64_t hash = 0;
    const std::string_view hex = line.words[1].text;
    std::from_chars(hex.data(), hex.data() + hex.size(), hash, 16);
    return hash;
  }
  return 0;
}

OpNames::OpNames(const Function& fn) {
  std::map<OpKind, int> count;
  for (OpId id : OpsInOrder(fn)) {
    const OpKind kind = fn.ops[id].kind;
    names_[id] = fmt::format("{}{}", Info(kind).mnemonic, count[kind]++);
    ops_[names_[id]] = id;
  }
}

OpId OpNames::Find(std::string_view name) const {
  const auto it = ops_.find(name);
  return it == ops_.end() ? OpId() : it->second;
}

std::vector<std::string> OpNames::All() const {
  std::vector<std::string> all;
  for (const auto& [name, id] : ops_) all.push_back(name);
  return all;
}

PlanNames::PlanNames(const Function& fn) : ops(fn), values(fn) {
  for (int32_t i = 0; i < fn.values.size(); ++i)
    if (std::string name = values[ValueId(i)]; !name.empty()) by_name["%" + name] = ValueId(i);
  for (OpId id : OpsInOrder(fn))
    for (size_t r = 0; r < fn.ops[id].regions.size(); ++r)
      blocks[fmt::format("{}.{}", ops[id], r)] = fn.ops[id].regions[r];
}

std::string PlanNames::Block(BlockId block) const {
  for (const auto& [name, id] : blocks)
    if (id == block) return name;
  return "body";
}

namespace {

// ---- records as lines
class LineWriter {
 public:
  explicit LineWriter(const PlanWords& words) : words_(words) {}
  template <typename T>
  void operator()(const char* name, const T& v) {
    fields_.push_back({name, words_.Of(v)});
  }
  // The fields of `record` that are not those of an empty one.
  template <typename R>
  std::string Line(const char* keyword, R record, const std::string& comment = "") {
    R empty{};
    const std::vector<std::pair<std::string, std::string>> usual = Take(empty), own = Take(record);
    std::string line = keyword;
    for (size_t i = 0; i < own.size(); ++i)
      if (own[i] != usual[i]) line += fmt::format(" {}={}", own[i].first, own[i].second);
    return line + (comment.empty() ? "" : "  # " + comment) + "\n";
  }

 private:
  template <typename R>
  std::vector<std::pair<std::string, std::string>> Take(R& record) {
    fields_.clear();
    Fields(*this, record);
    return std::move(fields_);
  }
  const PlanWords& words_;
  std::vector<std::pair<std::string, std::string>> fields_;
};

class PlanPrinter {
 public:
  PlanPrinter(const ProgramPlan& p, const Function& fn) : p_(p), fn_(fn), names_(fn) {}

  std::string Run() {
    out_ = fmt::format("plan {}\nprogram {:016x}\n", fn_.name, ProgramHash(fn_));
    Cta();
    for (const PlannedChange& change : p_.changed) Say("changed", change);
    Crossing();
    Memory();
    for (const auto& [text, values] : LayoutClasses())
      Say("layout", LayoutRecord{values.first, values.second});
    for (const auto& [op, dot] : p_.tiles.dots) {
      Say("product", DotRecord{op, dot});
      Say("operand", OperandRecord{op, true, dot.a});
      Say("operand", OperandRecord{op, false, dot.b});
    }
    Loops();
    return std::move(out_);
  }

 private:
  template <typename R>
  void Say(const char* keyword, R record, const std::string& comment = "") {
    out_ += writer_.Line(keyword, std::move(record), comment);
  }
  std::string RoleName(int compute) const {
    if (compute == kLoadRole) return "load";
    for (const PlannedRole& role : p_.roles)
      if (role.computes() && role.index == compute) return role.name;
    return "several roles";
  }

  void Cta() {
    Say("cta",
        PlanHeader{p_.warps, p_.compute_roles, p_.tiles.warpgroups, p_.cluster, p_.specialized,
                   p_.early_loads, p_.slice_epilogues, p_.copy_barrier, p_.pair, p_.joined_rings},
        fmt::format("{} B of shared memory: scratch {} B, barriers from {} on", p_.smem_bytes,
                    p_.scratch_bytes, p_.barriers_at));
    for (const PlannedRole& role : p_.roles)
      Say("role", role,
          fmt::format("warps {}…{}{}", role.first_warp, role.first_warp + role.warps - 1,
                      role.computes() ? "" : ", one elected thread"));
  }
  void Crossing() {
    for (size_t i = 0; i < p_.rings.size(); ++i) {
      const PlannedRing& ring = p_.rings[i];
      PlannedRing bare = ring;
      bare.sites.clear();
      Say("ring", bare,
          fmt::format("ring {}: full after 1 arrival and {} B, empty after {} arrivals", i,
                      ring.bytes, ring.arrivals));
      for (const RingSite& site : ring.sites) Say("  site", SiteRecord{i, site});
    }
    for (const auto& [id, token] : p_.tokens)
      Say("token", token, RoleName(token.from) + " before " + RoleName(token.to));
    for (const auto& [id, pass] : p_.passes)
      Say("pass", pass, RoleName(pass.from) + " to " + RoleName(pass.to));
    for (const auto& [op, exchange] : p_.exchanges) Say("exchange", exchange);
    for (const OperandRing& ring : p_.operand_rings) Say("operands", ring);
    for (size_t i = 0; i < p_.accumulators.size(); ++i) Accumulator(i);
  }
  void Accumulator(size_t i) {
    const PlannedAccumulator& a = p_.accumulators[i];
    for (const auto& [sum, accumulator] : p_.accumulator_of)
      if (const auto at = p_.sum_columns.find({p_.sum_for.at(sum), sum}); accumulator == i)
        Say("accumulator", a,
            fmt::format("columns of tensor memory from {} on; a commit fills a slot, {} empties it",
                        at == p_.sum_columns.end() ? 0 : at->second, RoleName(p_.sum_for.at(sum))));
  }
  void Memory() {
    for (size_t i = 0; i < p_.buffers.size(); ++i)
      Say("buffer", p_.buffers[i],
          fmt::format("buffer {}: {} x {} B, {}", i, p_.buffers[i].type.depth,
                      p_.buffers[i].bytes / p_.buffers[i].type.depth,
                      RoleName(p_.buffers[i].owner)));
    const auto buffer = [](const std::map<OpId, size_t>& of, OpId op) {
      const auto it = of.find(op);
      return it == of.end() ? std::optional<size_t>() : it->second;
    };
    for (const auto& [op, load] : p_.tiles.loads)
      Say("load", LoadRecord{op, load, buffer(p_.load_buffers, op), p_.multicast.count(op) > 0});
    for (const auto& [op, store] : p_.tiles.stores) {
      const auto epilogue = p_.epilogues.find(op);
      Say("store",
          StoreRecord{op, store, buffer(p_.store_buffers, op),
                      epilogue == p_.epilogues.end() ? PlannedEpilogue() : epilogue->second});
    }
  }
  // Values by layout, in the order of the layouts' text. Values that the function no longer reaches
  // (its loops before they were scheduled) are in no program.
  std::map<std::string, std::pair<Layout, std::vector<ValueId>>> LayoutClasses() const {
    std::map<std::string, std::pair<Layout, std::vector<ValueId>>> classes;
    for (const auto& [value, layout] : p_.tiles.layouts) {
      if (!IsReached(value)) continue;
      auto& [own, of] = classes[words_.Of(layout)];
      own = layout;
      of.push_back(value);
    }
    return classes;
  }
  bool IsReached(ValueId value) const { return names_.values[value].front() != '?'; }
  void Loops() {
    for (const PlannedNest& nest : p_.nests)
      Say("nest", nest,
          nest.period < nest.alone
              ? fmt::format("iterations overlap: {:.1f} % less than one after the other",
                            100.0 * static_cast<double>(nest.alone - nest.period) /
                                static_cast<double>(nest.alone))
              : "nothing of the next iteration fits under this one");
    for (const auto& [key, loop] : p_.loops) {
      Say("loop", LoopRecord{key.first, key.second, loop.before_wait}, RoleName(key.first));
      for (const PlannedChain& chain : loop.chains)
        Say("  chain", ChainRecord{key.first, key.second, chain});
    }
    for (const auto& [role, op] : p_.goes_on) Say("goes-on", GoesOnRecord{role, op});
    for (const auto& [key, rings] : p_.awaits)
      Say("await", SlotRecord{key.first, key.second, {}, rings}, RoleName(key.first));
    for (const auto& [key, rings] : p_.releases)
      Say("release", SlotRecord{key.first, key.second, {}, rings}, RoleName(key.first));
    for (const auto& [key, rings] : p_.arm_releases)
      Say("release", SlotRecord{key.first, {}, key.second, rings}, RoleName(key.first));
  }

  const ProgramPlan& p_;
  const Function& fn_;
  const PlanNames names_;
  const PlanWords words_{names_};
  LineWriter writer_{words_};
  std::string out_;
};

}  // namespace

std::string ToText(const ProgramPlan& plan, const Function& fn) {
  return PlanPrinter(plan, fn).Run();
}

}  // namespace tilec::ir
