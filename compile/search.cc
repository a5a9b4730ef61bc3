// SPDX-License-Identifier: Apache-2.0
#include "compile/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "compile/diagnostics.h"
#include "compile/line.h"
#include "compile/predict.h"
#include "ir/lower/operands.h"
#include "ir/lower/pressure.h"
#include "ir/passes/sink_loads.h"
#include "ir/queries.h"
#include "support/check.h"

namespace tilec::compile {

namespace {

constexpr const char* kWhyInOrder = "what an atomic finds hangs on when it is made";

// What an author can change in a schedule that asks for too much of it.
const char* InTheFile(Resource resource) {
  switch (resource) {
    case Resource::kRegisters:
    case Resource::kRegistersOfProducts:
      return "raise the role's `regs`, or cut the rows into more slices";
    case Resource::kSharedMemory: return "make the depth of a channel smaller";
    case Resource::kSlots: return "make the depths of the loads' channels larger";
    case Resource::kForm:
    case Resource::kSchedule:
    case Resource::kPlan:
    case Resource::kProof: break;
    case Resource::kRoles:
      return "let copies bring what the loop reads: unit strides, rows at multiples of 16 bytes, "
             "tensors that nobody writes";
  }
  return "move readers nearer to what they read, or cut the rows into more slices";
}

class Search {
 public:
  Search(const ir::Function& tile, const Request& request, Account* account, DiagSink& diags)
      : request_(request), account_(*account), diags_(diags), line_(tile, request, account) {}

  Result<Compiled> Run() {
    TRY_VOID(CheckProducts(line_.clean(), *request_.target, diags_));
    TRY_VOID(line_.CleanUp(diags_));
    if (line_.stopped()) return Stopped(line_.clean());
    std::vector<Decision>& all = account_.decisions;
    Wish wish = request_.wish;
    if (ir::InTensorMemory(request_.target->matrix_unit.kind))
      wish.lacking = lacking_ = request_.target->registers.beside_scheduled;
    if (fetches_ = ir::Fetches(line_.clean()); fetches_) {
      wish.solve = false;  // program order
      wish.split = 1;
      if (wish.from_file)
        return diags_.Report(kScheduleFileRefused, Span{}, request_.schedule, kWhyInOrder)
            .Help("leave --schedule out");
    }
    for (const Strategy& strategy : Candidates(wish)) {
      all.emplace_back();
      all.back().strategy = strategy;
    }
    CHECK(!all.empty(), "every request has a candidate");
    if (request_.sizes)
      PredictTimes(line_.clean(), *request_.target, *request_.sizes, request_.row_starts, &all);
    for (size_t i = 0; i < all.size(); ++i) {
      if (!Considered(all, i)) {
        if (!last_ && all[i].strategy.shape == Shape::kOnce) last_ = all[i].refusal;
        continue;
      }
      DiagSink said;
      std::optional<Compiled> compiled = Try(&all[i], said);
      if (compiled) {
        said.MoveTo(diags_);
        if (!compiled->stopped) Say(*compiled);
        return *std::move(compiled);
      }
      const Refusal& refusal = *all[i].refusal;
      if (all[i].strategy.shape == Shape::kOnce) last_ = refusal;
      if (met_plan_ && of_plan_.all().empty()) said.MoveTo(of_plan_);
      const bool at_fault =
          refusal.resource == Resource::kSchedule || refusal.resource == Resource::kPlan;
      if (at_fault || i + 1 == all.size()) {
        if (!at_fault && request_.file) return FileRefused();
        // Of others it only says that the plan is not theirs.
        (of_plan_.all().empty() ? said : of_plan_).MoveTo(diags_);
        return DiagSink::Propagate();
      }
    }
    CHECK(request_.file, "program order comes last and is always considered");
    return FileRefused();
  }

 private:
  // Is the strategy to be tried? What its predecessors were refused for may settle that.
  bool Considered(std::vector<Decision>& all, size_t i) {
    Decision& d = all[i];
    const Strategy& s = d.strategy;
    for (size_t k = 0; k < i; ++k) {
      const Decision& before = all[k];
      if (before.outcome != Decision::Outcome::kRefused) continue;
      Strategy unguarded = before.strategy;
      unguarded.guard_masks = false;
      // (Of a rule's programs the unguarded one may have fewer registers left.)
      const bool same = s.scheduled() && unguarded == s && line_.GuardsNothing(before.strategy);
      if (!same && !SharesCause(before.strategy, *before.refusal, s, *request_.target)) continue;
      d.outcome = Decision::Outcome::kPruned;
      d.refusal = before.refusal;
      return false;
    }
    if (request_.plan) return true;
    // Roles of their own for the row slices may want more registers at a time than one for all.
    if (s.order == Order::kSolvedOne) return request_.wish.slices == 0 && line_.several();
    if (s.order == Order::kSolvedTwo || s.order == Order::kSolvedClose)
      return LacksRegisters(all, i);
    if (s.order != Order::kSolvedWhole) return true;
    // Whole slices are what the first answer has, unless its roles divide one; fewer registers are
    // for products that need more beside their tiles.
    if (s.withheld_registers == 0) return line_.divided();
    return std::any_of(
        all.begin(), all.begin() + static_cast<std::ptrdiff_t>(i), [&](const Decision& before) {
          if (before.outcome != Decision::Outcome::kRefused || !before.strategy.scheduled() ||
              before.strategy.withheld_registers != 0)
            return false;
          const Refusal& why = *before.refusal;
          return why.resource == Resource::kRegistersOfProducts || LacksLittle(why, s);
        });
  }

  // Was the solver's own answer refused because its tiles are more than a thread's registers? Two
  // warpgroups have half of each tile; that program is solved for them, as it is another one.
  static bool LacksRegisters(const std::vector<Decision>& all, size_t end) {
    return std::any_of(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(end),
                       [](const Decision& before) {
                         return before.outcome == Decision::Outcome::kRefused &&
                                before.strategy.order == Order::kSolved &&
                                before.refusal->resource == Resource::kRegisters;
                       });
  }

  // Of a program whose sums lie in tensor memory the solver does not know what the assembler wants
  // beside tiles: where that is all that is missing, it gets that much less.
  bool LacksLittle(const Refusal& why, const Strategy& s) const {
    return why.resource == Resource::kRegisters && s.withheld_registers == lacking_ &&
           why.needed - why.available <= lacking_;
  }

  std::optional<Compiled> Try(Decision* decision, DiagSink& said) {
    const auto start = std::chrono::steady_clock::now();
    const int emissions = line_.emissions();
    std::optional<Compiled> compiled = Walk(decision, said);
    const std::chrono::duration<double, std::milli> ms = std::chrono::steady_clock::now() - start;
    decision->milliseconds = ms.count();
    decision->emissions = line_.emissions() - emissions;
    decision->outcome = compiled ? Decision::Outcome::kTaken : Decision::Outcome::kRefused;
    return compiled;
  }

  // The line. A step that refuses ends it.
  std::optional<Compiled> Walk(Decision* decision, DiagSink& said) {
    const Strategy& strategy = decision->strategy;
    met_plan_ = false;
    const auto refuse = [&](std::optional<Refusal> refusal) {
      // A plan is obeyed or refused in a strategy that makes the program it is of. (One whose loop
      // found no schedule makes that of the rule, which comes later; and one that guards masks
      // where there are none to guard makes the same program as the last, which may have fewer
      // registers left.)
      const bool unscheduled =
          refusal && refusal->stage == Stage::kWorth && refusal->resource == Resource::kForm;
      const bool leaves_fewer = refusal && (refusal->resource == Resource::kRegisters ||
                                            refusal->resource == Resource::kRegistersOfProducts);
      if (refusal && met_plan_ && !unscheduled && !leaves_fewer)
        refusal->resource = Resource::kPlan;
      decision->refusal = std::move(refusal);
      return decision->refusal.has_value();
    };
    const Step<const ir::Function*> shaped = line_.ShapeFor(strategy, said);
    if (refuse(shaped.refusal)) return std::nullopt;
    if (line_.stopped()) return Stopped(**shaped.product);
    const Step<const Solved*> solved = line_.SolveFor(strategy, **shaped.product, said);
    if (refuse(solved.refusal)) return std::nullopt;
    const Solved* schedule = *solved.product;
    const ir::Function& from = schedule ? schedule->fn : **shaped.product;
    if (line_.stopped()) return Stopped(from);
    Step<Lowered> lowered = LowerOrReread(strategy, from, schedule, said);
    met_plan_ = line_.met_plan();
    if (refuse(lowered.refusal)) return std::nullopt;
    if (line_.stopped()) return Stopped(lowered.product->fn);
    if (refuse(line_.Worth(strategy, *lowered.product, schedule, said))) return std::nullopt;
    if (refuse(line_.Prove(strategy, *lowered.product, said))) return std::nullopt;
    Compiled compiled;
    compiled.fn = std::move(lowered.product->fn);
    compiled.strategy = strategy;
    if (!lowered.product->own_order.empty()) {
      said.Report(kOwnOrder, Span{}, compiled.fn.name, lowered.product->own_order);
    } else if (schedule) {
      compiled.schedule = schedule->schedule;
      scheduler::Adopt(lowered.product->resources, &*compiled.schedule);
    }
    if (schedule) NoteLosses(lowered.product->losses, &*compiled.schedule);
    if (OneForAll(compiled))
      for (scheduler::LoopReport& loop : compiled.schedule->loops)
        loop.notes.push_back("one role runs what its compute roles share");
    compiled.resources = std::move(lowered.product->resources);
    compiled.losses = std::move(lowered.product->losses);
    compiled.plan = std::move(lowered.product->plan);
    compiled.printed = line_.printed();
    return compiled;
  }

  // Program order refuses what does not fit into shared memory. If loads that left their loops are
  // why, they are made where they are read, in every turn: a recurrent cell of eight weights of
  // 128 x 128 wants 272 KB, and so it takes 84. (Where tiles are chosen, others do better.)
  Step<Lowered> LowerOrReread(const Strategy& strategy, const ir::Function& from,
                              const Solved* solved, DiagSink& said) {
    DiagSink first;
    Step<Lowered> lowered = line_.Lower(strategy, from, solved, first);
    const bool full = lowered.refusal && lowered.refusal->resource == Resource::kSharedMemory;
    if (full && !strategy.roles() && request_.prove && !request_.plan) {
      ir::Function sunk = from;
      DiagSink second;
      const int loads = ir::SinkLoads(sunk);
      if (loads > 0) {
        Step<Lowered> again = line_.Lower(strategy, sunk, solved, second);
        if (!again.refusal) {
          second.MoveTo(said);
          said.Report(kLoadedAgain, Span{}, sunk.name, lowered.refusal->needed,
                      lowered.refusal->available);
          return again;
        }
      }
    }
    first.MoveTo(said);
    return lowered;
  }

  Compiled Stopped(const ir::Function& fn) const {
    Compiled compiled;
    compiled.fn = fn;
    compiled.printed = line_.printed();
    compiled.stopped = true;
    return compiled;
  }

  Reported FileRefused() {
    return diags_
        .Report(kScheduleFileRefused, last_ ? last_->op : Span{}, request_.schedule,
                last_ ? last_->why : "")
        .Help(fmt::format("{}, or leave --schedule out: the compiler then takes what it can lower",
                          InTheFile(last_ ? last_->resource : Resource::kForm)));
  }

  // What was asked for and is not so, and why.
  void Say(const Compiled& compiled) {
    const Strategy& taken = compiled.strategy;
    const std::string& kernel = compiled.fn.name;
    if (fetches_) {  // of what has no loop nothing else is expected
      const bool loops = std::any_of(line_.clean().ops.begin(), line_.clean().ops.end(),
                                     [](const ir::Op& op) { return ir::IsLoop(op.kind); });
      if (loops && request_.wish.solve) diags_.Report(kInOrder, Span{}, kernel, kWhyInOrder);
      return;
    }
    if (last_ && taken.withheld_registers > 0)
      diags_.Report(kSolvedForFewer, last_->op, kernel,
                    taken.order == Order::kSolvedTwo ? "for two warpgroups and " : "",
                    taken.withheld_registers, last_->why);
    if (last_ && !taken.scheduled())
      diags_.Report(kScheduleNotLowered, last_->op, kernel, last_->why,
                    taken.order == Order::kRule ? "its products are overlapped by rule instead"
                                                : "one role runs it in program order instead");
    const std::string lost = Lost(compiled);
    if (!lost.empty())
      diags_.Report(kScheduleLostInPart,
                    compiled.losses.empty() ? Span{} : compiled.losses.front().load, kernel, lost);
    if (request_.foretell) Foretell(compiled.fn);
    const auto missed = [&](Shape shape, const DiagDef& def) {
      const Refusal* why = RefusalOf(shape);
      diags_.Report(def, why ? why->op : Span{}, kernel, why ? why->why : "");
    };
    const Wish& wish = request_.wish;
    if (wish.wants_persistent && taken.shape != Shape::kPersistent)
      missed(Shape::kPersistent, kNotPersistent);
    if (wish.split > 1 && taken.shape != Shape::kSplit) missed(Shape::kSplit, kNotSplit);
    if (wish.clusters && compiled.fn.launch.cluster <= 1) {
      if (taken.shape == Shape::kClustered || taken.shape == Shape::kClusteredOnce)
        diags_.Report(kNotClustered, Span{}, kernel, "what they share does not go through rings");
      else
        missed(Shape::kClustered, kNotClustered);
    }
  }

  // What of its schedule the program has not, for people; "" if it has all of it.
  static std::string Lost(const Compiled& compiled) {
    std::string text = compiled.losses.empty() ? "" : Describe(compiled.losses);
    if (!OneForAll(compiled)) return text;
    if (!text.empty()) text += "; and ";
    return text + fmt::format("its {} compute roles: one role runs all", compiled.schedule->roles);
  }

  // Does one role run what the schedule gives several?
  static bool OneForAll(const Compiled& compiled) {
    int roles = 0;
    for (ir::OpId id : compiled.fn.blocks[compiled.fn.body].ops)
      roles += compiled.fn.ops[id].kind == ir::OpKind::kRole;
    return compiled.schedule && compiled.schedule->roles > 1 && roles == 1;
  }

  // Does the plan leave ptxas as many registers beside tiles as it was seen to take?
  void Foretell(const ir::Function& warps) {
    const ir::RolePressure fullest = ir::FullestRole(warps, *request_.target);
    // Beside products all of it is alive; arithmetic alone uses up its tiles piece by piece.
    const bool products = std::any_of(warps.ops.begin(), warps.ops.end(),
                                      [](const ir::Op& op) { return op.kind == ir::OpKind::kMma; });
    // (How many CTAs find room was decided by what it holds: ir/lower/row_pressure.cc.)
    if (!products && warps.launch.ctas_per_sm > 1) return;
    const int64_t alive = products ? fullest.kept : fullest.held;
    // Where roles have quotas, what would not leave the least was refused (I306, I308). Of
    // attention with 240, 218 kept do not spill, and 228 do.
    const ir::TargetRegisters& beside = request_.target->registers;
    const int64_t spare =
        fullest.given > 0 ? beside.least_beside + beside.beside_scheduled : beside.beside_by_rule;
    if (alive + spare <= fullest.most) return;
    diags_.Report(kMaySpill, Span{}, warps.name, fullest.role, alive, fullest.most)
        .Help("choose smaller tiles; where there is a ptxas, `tilec build` says what it does");
  }

  // Why a strategy of this shape was refused last.
  const Refusal* RefusalOf(Shape shape) const {
    const Refusal* last = nullptr;
    for (const Decision& d : account_.decisions)
      if (d.strategy.shape == shape && d.outcome == Decision::Outcome::kRefused) last = &*d.refusal;
    return last;
  }

  const Request& request_;
  Account& account_;
  DiagSink& diags_;
  Line line_;
  bool fetches_ = false;  // has it atomics that give back?
  int64_t lacking_ = 0;   // registers that the assembler wants and the solver does not know of
  std::optional<Refusal> last_;  // of one tile per CTA
  bool met_plan_ = false;        // the plan is of the program that was tried last
  DiagSink of_plan_;             // what was said where it was, and refused
};

}  // namespace

Result<Compiled> Compile(const ir::Function& tile, const Request& request, Account* account,
                         DiagSink& diags) {
  return Search(tile, request, account, diags).Run();
}

std::string ToText(const std::vector<Decision>& decisions) {
  std::string out;
  int emissions = 0;
  for (const Decision& d : decisions) {
    emissions += d.emissions;
    std::string became;
    switch (d.outcome) {
      case Decision::Outcome::kTaken: became = "taken"; break;
      case Decision::Outcome::kRefused: became = "refused: " + ToText(*d.refusal); break;
      case Decision::Outcome::kPruned: became = "shares a cause: " + ToText(*d.refusal); break;
      case Decision::Outcome::kNotNeeded: became = "not needed"; break;
    }
    out += fmt::format("{:>10}  {:>9}  {:<52} {}\n",
                       d.predicted_us ? fmt::format("{:.1f} us", *d.predicted_us) : "",
                       d.emissions > 0 ? fmt::format("{:.1f} ms", d.milliseconds) : "",
                       ToText(d.strategy), became);
  }
  return fmt::format("{:>10}  {:>9}  {:<52} {}\n{}{} candidates, {} emitted\n", "predicted", "took",
                     "strategy", "outcome", out, decisions.size(), emissions);
}

// No strategy helps where there is no code for the machine's matrix unit.
Result<> CheckProducts(const ir::Function& fn, const ir::Target& target, DiagSink& diags) {
  if (target.unit().lowered) return Done();
  for (ir::OpId id : ir::OpsInOrder(fn)) {
    const ir::Op& op = fn.ops[id];
    if (op.kind != ir::OpKind::kDot || !ir::IsOnUnit(fn, op, target)) continue;
    return diags.Report(kNoMatrixUnit, op.at, fn.name, target.unit().name, target.name, target.arch)
        .Help("compile for h200; kernels without products compile for every machine");
  }
  return Done();
}

}  // namespace tilec::compile
