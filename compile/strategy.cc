// SPDX-License-Identifier: Apache-2.0
#include "compile/strategy.h"

#include <fmt/format.h>

#include <algorithm>

namespace tilec::compile {

namespace {

// Registers of a thread that are withheld from the solver where tiles fit but not what many
// products need beside them, as --ptxas=refine would.
constexpr int64_t kWithheld[] = {16, 32, 48};

struct Form {
  Shape shape;
  int64_t ctas;
};

std::vector<Form> FormsOf(const Wish& wish) {
  std::vector<Form> forms;
  if (wish.split > 1) forms.push_back({Shape::kSplit, wish.split});
  const int64_t neighbours = std::max<int64_t>(1, wish.neighbours);
  if (wish.share_copies || wish.clusters) forms.push_back({Shape::kClustered, neighbours});
  if (wish.clusters) forms.push_back({Shape::kClusteredOnce, neighbours});
  if (wish.persistent && !wish.clusters) forms.push_back({Shape::kPersistent, 1});
  forms.push_back({Shape::kOnce, 1});
  return forms;
}

}  // namespace

std::vector<Strategy> Candidates(const Wish& wish) {
  std::vector<Strategy> all;
  const auto add = [&](Order order, bool guard_masks, int64_t withheld) {
    for (const Form& form : FormsOf(wish))
      all.push_back({form.shape, form.ctas, order, guard_masks, withheld});
  };
  if (wish.solve)
    for (const bool guard : {true, false}) add(Order::kSolved, guard, 0);
  // (Of one role, what the solver is not asked for: CTAs share a tile's loop all the same.)
  if (!wish.solve && wish.split > 1)
    all.push_back({Shape::kSplit, wish.split, Order::kProgram, false, 0});
  if (wish.from_file) return all;
  if (wish.solve) {
    for (const Order order : {Order::kSolvedWhole, Order::kSolvedOne})
      for (const bool guard : {true, false}) add(order, guard, 0);
    for (const int64_t withheld : kWithheld)
      for (const bool guard : {true, false}) add(Order::kSolvedWhole, guard, withheld);
    if (wish.lacking > 0)
      for (const Order order : {Order::kSolvedWhole, Order::kSolvedTwo})
        for (const bool guard : {true, false}) add(order, guard, wish.lacking);
    if (wish.lacking > 0)
      for (const bool guard : {true, false}) add(Order::kSolvedClose, guard, 0);
    for (const bool guard : {true, false}) add(Order::kRule, guard, 0);
  }
  all.push_back({Shape::kOnce, 1, Order::kProgram, false, 0});
  return all;
}

bool SharesCause(const Strategy& refused, const Refusal& refusal, const Strategy& other,
                 const ir::Target& target) {
  switch (refusal.resource) {
    case Resource::kSchedule:
    case Resource::kPlan: return true;  // the file is at fault in every strategy
    case Resource::kForm:
      // A grid that cannot take a shape cannot take it in any order.
      return refusal.stage == Stage::kShape && other.shape == refused.shape;
    case Resource::kSlots:
      // Rings are as deep with masks guarded as without.
      return other.shape == refused.shape && other.order == refused.order &&
             other.withheld_registers == refused.withheld_registers;
    case Resource::kRegisters:
    case Resource::kRegistersOfProducts: {
      // What the same order keeps of tiles hangs little on who walks over them and on masks. (CTAs
      // that share a tile walk another loop.)
      const bool shares = refused.shape == Shape::kSplit || other.shape == Shape::kSplit;
      return refusal.stage == Stage::kLower && refused.scheduled() &&
             refusal.needed - refusal.available > target.registers.far_too_many &&
             other.order == refused.order &&
             other.withheld_registers == refused.withheld_registers &&
             (shares ? other.shape == refused.shape : true);
    }
    case Resource::kSharedMemory:
    case Resource::kRoles: return false;
    case Resource::kProof:
      // A CTA that stays has all states of one that does not, and may walk fewer.
      return refused.shape == Shape::kOnce && other.shape == Shape::kPersistent;
  }
  return false;
}

const char* NameOf(Stage stage) {
  switch (stage) {
    case Stage::kShape: return "shape";
    case Stage::kSchedule: return "schedule";
    case Stage::kLower: return "lowering";
    case Stage::kWorth: return "worth";
    case Stage::kProve: return "proof";
  }
  return "";
}

const char* NameOf(Resource resource) {
  switch (resource) {
    case Resource::kForm: return "form";
    case Resource::kSchedule: return "schedule file";
    case Resource::kPlan: return "plan file";
    case Resource::kRegisters: return "registers of a thread";
    case Resource::kRegistersOfProducts: return "registers of a thread beside its tiles";
    case Resource::kSharedMemory: return "bytes of shared memory";
    case Resource::kRoles: return "compute roles";
    case Resource::kSlots: return "slots that run ahead";
    case Resource::kProof: return "states or steps of the proof";
  }
  return "";
}

const char* NameOf(Shape shape) {
  switch (shape) {
    case Shape::kSplit: return "split";
    case Shape::kClustered: return "clusters";
    case Shape::kClusteredOnce: return "clusters, one tile per CTA";
    case Shape::kPersistent: return "persistent";
    case Shape::kOnce: return "one tile per CTA";
  }
  return "";
}

const char* NameOf(Order order) {
  switch (order) {
    case Order::kSolved: return "solved";
    case Order::kSolvedWhole: return "solved with whole row slices";
    case Order::kSolvedOne: return "solved for one compute role";
    case Order::kSolvedTwo: return "solved for two warpgroups";
    case Order::kSolvedClose: return "solved, with results used at once";
    case Order::kRule: return "by rule";
    case Order::kProgram: return "program order";
  }
  return "";
}

std::string ToText(const Refusal& refusal) {
  std::string out = fmt::format("{}: {}", NameOf(refusal.stage), NameOf(refusal.resource));
  if (refusal.needed != 0 || refusal.available != 0)
    out += fmt::format(": {} needed, {} available", refusal.needed, refusal.available);
  return refusal.why.empty() ? out : out + ": " + refusal.why;
}

std::string ToText(const Strategy& strategy) {
  std::string out = NameOf(strategy.shape);
  if (strategy.shape == Shape::kSplit) out += fmt::format(" over {} CTAs", strategy.ctas);
  out += fmt::format(", {}", NameOf(strategy.order));
  if (strategy.guard_masks) out += ", masks guarded";
  if (strategy.withheld_registers > 0)
    out += fmt::format(", {} registers withheld", strategy.withheld_registers);
  return out;
}

}  // namespace tilec::compile
