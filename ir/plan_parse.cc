// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <charconv>
#include <set>
#include <utility>

#include "ir/diagnostics.h"
#include "ir/lower/derive_plan.h"
#include "ir/plan_fields.h"
#include "ir/plan_text.h"
#include "ir/plan_words.h"
#include "support/nearest.h"

namespace tilec::ir {
namespace {

class PlanParser {
 public:
  PlanParser(std::string_view text, int32_t file, const Function& fn, DiagSink& diags)
      : lines_(SplitLines(text, file)), fn_(fn), names_(fn), diags_(diags) {}

  Result<ProgramPlan> Run() {
    for (const TextLine& line : lines_) {
      line_ = &line;
      TRY_VOID(Line(line.words[0].text));
    }
    if (hash_ != ProgramHash(fn_))
      return diags_.Report(kPlanOfAnother, hash_at_, fn_.name, fmt::format("{:016x}", hash_),
                           fmt::format("{:016x}", ProgramHash(fn_)));
    DerivePlan(fn_, &p_);
    return std::move(p_);
  }

 private:
  // One field of the record being read: found among the words, or left as it is.
  struct Reader {
    PlanParser& parser;
    std::map<std::string, const TextWord*, std::less<>> words;  // by field, not yet read
    std::map<std::string_view, std::string_view> values;
    std::vector<std::string> fields;
    const TextWord* wrong = nullptr;

    template <typename T>
    void operator()(const char* name, T& v) {
      fields.push_back(name);
      const auto word = words.find(name);
      if (word == words.end()) return;
      if (!parser.words_.To(values.at(name), v) && !wrong) wrong = word->second;
      words.erase(word);
    }
  };

  template <typename R>
  Result<> Read(R& record) {
    Reader reader{*this, {}, {}, {}, nullptr};
    for (size_t i = 1; i < line_->words.size(); ++i) {
      const TextWord& word = line_->words[i];
      const std::optional<KeyValue> pair = SplitKeyValue(word);
      if (!pair) return diags_.Report(kPlanSyntax, word.span, Form(word.text));
      if (!reader.words.try_emplace(std::string(pair->key), &word).second)
        return diags_.Report(kPlanSyntax, word.span, fmt::format("a second field `{}`", pair->key));
      reader.values[pair->key] = pair->value.text;
    }
    Fields(reader, record);
    if (reader.wrong)
      return diags_.Report(kPlanValue, reader.wrong->span,
                           fmt::format("`{}` is no value of this field", reader.wrong->text));
    if (reader.words.empty()) return Done();
    const auto& [name, word] = *reader.words.begin();
    DiagBuilder d = diags_.Report(
        kPlanSyntax, word->span, fmt::format("`{}` has no field `{}`", line_->words[0].text, name));
    const std::string near = NearestName(name, reader.fields);
    d.Help(near.empty() ? fmt::format("it has {}", fmt::join(reader.fields, ", "))
                        : fmt::format("did you mean `{}`?", near));
    return d;
  }
  static std::string Form(std::string_view word) {
    return fmt::format("expected `name=value`, found `{}`", word);
  }

  // `keep`, of records of which a thing has one, says whether this is the first.
  template <typename R, typename Keep>
  Result<> Record(const Keep& keep) {
    R record{};
    TRY_VOID(Read(record));
    if constexpr (std::is_same_v<decltype(keep(record)), bool>) {
      if (!keep(record))
        return diags_.Report(kPlanSyntax, line_->span,
                             fmt::format("a second `{}` of the same", line_->words[0].text));
    } else {
      keep(record);
    }
    return Done();
  }

  Result<> Line(std::string_view key) {
    struct Row {
      const char* keyword;
      Result<> (PlanParser::*read)();
    };
    static constexpr Row kRows[] = {
        {"plan", &PlanParser::Plan},         {"program", &PlanParser::Program},
        {"cta", &PlanParser::Cta},           {"role", &PlanParser::Role},
        {"ring", &PlanParser::Ring},         {"site", &PlanParser::Site},
        {"token", &PlanParser::Token},       {"pass", &PlanParser::Pass},
        {"exchange", &PlanParser::Exchange}, {"operands", &PlanParser::Operands},
        {"buffer", &PlanParser::Buffer},     {"load", &PlanParser::Load},
        {"store", &PlanParser::Store},       {"layout", &PlanParser::LayoutLine},
        {"product", &PlanParser::Product},   {"operand", &PlanParser::Operand},
        {"nest", &PlanParser::NestLine},     {"loop", &PlanParser::Loop},
        {"chain", &PlanParser::Chain},       {"goes-on", &PlanParser::GoesOn},
        {"await", &PlanParser::Await},       {"release", &PlanParser::Release},
        {"changed", &PlanParser::Changed},   {"accumulator", &PlanParser::Accumulator}};
    std::vector<std::string> known;
    for (const Row& row : kRows) {
      if (key == row.keyword) return (this->*row.read)();
      known.push_back(row.keyword);
    }
    DiagBuilder d = diags_.Report(kPlanSyntax, line_->words[0].span,
                                  fmt::format("there is no record `{}`", key));
    const std::string near = NearestName(std::string(key), known);
    if (!near.empty()) d.Help(fmt::format("did you mean `{}`?", near));
    return d;
  }

  Result<> Plan() { return Done(); }
  Result<> Program() {
    if (line_->words.size() != 2)
      return diags_.Report(kPlanSyntax, line_->span, "this line is not `program HASH`");
    if (hash_at_.known() || hash_ != 0)
      return diags_.Report(kPlanSyntax, line_->span, "a second `program`: a plan is of one");
    hash_at_ = line_->words[1].span;
    const std::string_view hex = line_->words[1].text;
    const auto [end, error] = std::from_chars(hex.data(), hex.data() + hex.size(), hash_, 16);
    if (error != std::errc() || end != hex.data() + hex.size())
      return diags_.Report(kPlanValue, hash_at_,
                           fmt::format("`{}` is not a hash of 16 hexadecimal digits", hex));
    return Done();
  }
  Result<> Cta() {
    return Record<PlanHeader>([&](const PlanHeader& r) {
      p_.warps = r.warps, p_.compute_roles = r.compute_roles, p_.tiles.warpgroups = r.warpgroups;
      p_.cluster = r.cluster, p_.specialized = r.specialized;
      p_.early_loads = r.early_loads, p_.slice_epilogues = r.slice_epilogues;
      p_.joined_rings = r.joined_rings;
      p_.copy_barrier = r.copy_barrier, p_.pair = r.pair;
      return !std::exchange(cta_, true);
    });
  }
  Result<> Role() {
    return Record<PlannedRole>([&](const PlannedRole& r) { p_.roles.push_back(r); });
  }
  Result<> Changed() {
    return Record<PlannedChange>([&](const PlannedChange& r) { p_.changed.push_back(r); });
  }
  Result<> Ring() {
    TRY_VOID(Record<PlannedRing>([&](const PlannedRing& r) { p_.rings.push_back(r); }));
    if (p_.rings.back().slots >= 1) return Done();
    return diags_.Report(kPlanValue, line_->span, "a ring has a slot at least");
  }
  Result<> Site() {
    SiteRecord r;
    TRY_VOID(Read(r));
    if (r.ring >= p_.rings.size())
      return diags_.Report(
          kPlanValue, line_->span,
          fmt::format("there are {} rings above, and no ring {}", p_.rings.size(), r.ring));
    p_.rings[r.ring].sites.push_back(std::move(r.site));
    return Done();
  }
  Result<> Token() {
    return Record<OrderToken>(
        [&](const OrderToken& r) { return p_.tokens.try_emplace(r.id, r).second; });
  }
  Result<> Pass() {
    return Record<PlannedPass>(
        [&](const PlannedPass& r) { return p_.passes.try_emplace(r.token, r).second; });
  }
  Result<> Exchange() {
    return Record<PlannedExchange>(
        [&](const PlannedExchange& r) { return p_.exchanges.try_emplace(r.op, r).second; });
  }
  Result<> Operands() {
    return Record<OperandRing>([&](const OperandRing& r) { p_.operand_rings.push_back(r); });
  }
  Result<> Accumulator() {
    return Record<PlannedAccumulator>(
        [&](const PlannedAccumulator& r) { p_.accumulators.push_back(r); });
  }
  Result<> Buffer() {
    return Record<PlannedBuffer>([&](PlannedBuffer& r) {
      r.type = Type::Smem(r.type.dtype, r.type.shape, r.type.smem);
      p_.buffers.push_back(r);
    });
  }
  Result<> Load() {
    return Record<LoadRecord>([&](const LoadRecord& r) {
      if (r.buffer) p_.load_buffers[r.op] = *r.buffer;
      if (r.multicast) p_.multicast.insert(r.op);
      return p_.tiles.loads.try_emplace(r.op, r.load).second;
    });
  }
  Result<> Store() {
    return Record<StoreRecord>([&](const StoreRecord& r) {
      if (r.buffer) p_.store_buffers[r.op] = *r.buffer;
      p_.epilogues[r.op] = r.epilogue;
      return p_.tiles.stores.try_emplace(r.op, r.store).second;
    });
  }
  Result<> LayoutLine() {
    return Record<LayoutRecord>([&](const LayoutRecord& r) {
      bool first = true;
      for (ValueId v : r.of) first = p_.tiles.layouts.try_emplace(v, r.layout).second && first;
      return first;
    });
  }
  Result<> Product() {
    return Record<DotRecord>(
        [&](const DotRecord& r) { return p_.tiles.dots.try_emplace(r.op, r.dot).second; });
  }
  Result<> Operand() {
    return Record<OperandRecord>([&](const OperandRecord& r) {
      DotPlan& dot = p_.tiles.dots[r.op];
      (r.left ? dot.a : dot.b) = r.operand;
      return operands_.emplace(r.op, r.left).second;
    });
  }
  Result<> Loop() {
    return Record<LoopRecord>([&](const LoopRecord& r) {
      p_.loops[{r.role, r.loop}].before_wait = r.before_wait;
      return walked_.emplace(r.role, r.loop).second;
    });
  }
  Result<> NestLine() {
    return Record<PlannedNest>([&](const PlannedNest& r) { p_.nests.push_back(r); });
  }
  Result<> Chain() {
    return Record<ChainRecord>([&](const ChainRecord& r) {
      p_.loops[{r.role, r.loop}].chains.push_back(r.chain);
    });
  }
  Result<> GoesOn() {
    return Record<GoesOnRecord>([&](const GoesOnRecord& r) {
      return p_.goes_on.insert({r.role, r.op}).second;
    });
  }
  Result<> Await() {
    return Record<SlotRecord>([&](const SlotRecord& r) {
      return p_.awaits.try_emplace({r.role, r.op}, r.rings).second;
    });
  }
  Result<> Release() {
    return Record<SlotRecord>([&](const SlotRecord& r) {
      return r.arm.valid() ? p_.arm_releases.try_emplace({r.role, r.arm}, r.rings).second
                           : p_.releases.try_emplace({r.role, r.op}, r.rings).second;
    });
  }

  const std::vector<TextLine> lines_;
  const Function& fn_;
  const PlanNames names_;
  const PlanWords words_{names_};
  DiagSink& diags_;
  const TextLine* line_ = nullptr;
  uint64_t hash_ = 0;
  Span hash_at_;
  bool cta_ = false;                          // it was read
  std::set<std::pair<OpId, bool>> operands_;  // that were
  std::set<std::pair<int, OpId>> walked_;     // loops, by role
  ProgramPlan p_;
};

}  // namespace

Result<ProgramPlan> ParsePlan(std::string_view text, int32_t file, const Function& fn,
                              DiagSink& diags) {
  return PlanParser(text, file, fn, diags).Run();
}

}  // namespace tilec::ir
