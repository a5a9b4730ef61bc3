// SPDX-License-Identifier: Apache-2.0
#include "ir/warp_check/check.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <unordered_map>

#include "ir/warp_check/agreement.h"
#include "ir/warp_check/cluster.h"
#include "ir/warp_check/machine.h"
#include "ir/warp_check/parts.h"
#include "ir/warp_check/resources.h"

namespace tilec::ir {

using warp_check::Finding;

namespace {

Reported Report(const Function& fn, const Finding& finding, DiagSink& diags) {
  DiagBuilder d = diags.ReportText(*finding.def, finding.at, finding.message);
  if (!finding.at.known()) d.Place("@" + fn.name);
  for (const std::string& note : finding.notes) d.Note(note);
  d.Help("this is a mistake of the compiler; --schedule=sequential may do without it");
  return d;
}

// What was proved with iterations unrelated took less than a tenth of all ops that a proof may.
constexpr int64_t kUnrelatedShare = 8;
// No nest whose roles agree came near this; one that has more is given up, not walked for minutes.
// (120'000 ops are too few: seed 16 of `nests --kind=branches` is proved by more.)
constexpr int64_t kMostAgreedStates = 4000, kMostNestStates = 2500, kMostNestOps = 500'000;

enum class Walked { kProved, kFound, kTooLarge };

// Another walk begins; what all walked together is kept.
void Restart(WarpCheckStats* stats) {
  const int64_t walked = stats->walked;
  *stats = {};
  stats->walked = walked;
}

// The states met so far.
class Seen {
 public:
  // False: one from which whatever may fail from here fails as well was met before.
  bool Add(warp_check::Moment moment) {
    std::vector<warp_check::Moment>& like = all_[std::move(moment.key)];
    const bool covered = std::any_of(like.begin(), like.end(), [&](const warp_check::Moment& old) {
      return old.Covers(moment);
    });
    if (!covered) like.push_back(std::move(moment));
    return !covered;
  }

 private:
  std::unordered_map<std::string, std::vector<warp_check::Moment>> all_;
};

// How far a walk has come: one that a limit of ops ended goes on from here with a higher one.
struct Progress {
  Seen seen;
  std::vector<warp_check::State> todo;
  int64_t states = 0;
  bool begun = false;
};

Walked WalkOn(warp_check::Machine& machine, const WarpCheckOptions& options, WarpCheckStats* stats,
              Progress* progress) {
  std::vector<warp_check::State>& todo = progress->todo;
  if (!progress->begun) todo.push_back(machine.Begin());
  progress->begun = true;
  const int64_t all = stats->walked - machine.ops();
  stats->states += progress->states;
  while (!todo.empty()) {
    warp_check::State state = std::move(todo.back());
    todo.pop_back();
    while (true) {
      const bool good = machine.Settle(state);
      stats->walked = all + machine.ops();
      if (!good) return Walked::kFound;
      stats->ops = machine.ops();
      if (stats->ops > machine.ops_limit || progress->states > options.max_states) {
        todo.push_back(std::move(state));
        return Walked::kTooLarge;
      }
      if (machine.AllEnded(state)) {
        if (!machine.CheckEnd(state)) return Walked::kFound;
        break;
      }
      const int role = machine.Asking(state);
      if (role < 0) {
        machine.ReportDeadlock(state);
        return Walked::kFound;
      }
      if (!progress->seen.Add(machine.Key(state))) break;
      ++stats->states;
      ++progress->states;
      // Where used slots stand for those that are not, what fills them is walked first.
      const bool last = machine.TellsApart();
      warp_check::State other = state;
      machine.Answer(other, role, !last);
      todo.push_back(std::move(other));
      machine.Answer(state, role, last);
    }
  }
  return Walked::kProved;
}

Walked WalkAll(warp_check::Machine& machine, const WarpCheckOptions& options,
               WarpCheckStats* stats) {
  Progress progress;
  return WalkOn(machine, options, stats, &progress);
}

constexpr int kNestDepth = 2;  // WarpCheckOptions::agree_depth where CTAs do not stay

// One walk with what the roles agree on and nothing else: a few hundred states for a right nest.
struct AgreedWalk {
  AgreedWalk(const warp_check::Program& program, bool tell_apart, bool by_place)
      : aside(tell_apart && program.LiesOverRings()
                  ? std::make_unique<warp_check::Program>(program.fn, true)
                  : nullptr),
        agreement(aside ? *aside : program, by_place),
        machine(aside ? *aside : program, constants) {
    machine.agreed = &agreement;
    apart = (tell_apart && machine.TellApart()) || aside;
  }
  // With these limits, from where it stands.
  Walked On(const WarpCheckOptions& options, WarpCheckStats* stats) {
    if (ended && !Cut()) return *ended;
    machine.ops_limit = std::min(options.max_ops, kMostNestOps);
    WarpCheckOptions limits = options;
    limits.max_states = std::min(options.max_states, kMostAgreedStates);
    ended = WalkOn(machine, limits, stats, &progress);
    return *ended;
  }
  // It came to its limit of ops, so with more of them it may end otherwise.
  bool Cut() const { return ended == Walked::kTooLarge && machine.ops() > machine.ops_limit; }

  const std::unique_ptr<const warp_check::Program> aside;
  const warp_check::Agreement agreement;
  warp_check::Terms constants;
  warp_check::Machine machine;
  Progress progress;
  bool apart = false;
  std::optional<Walked> ended;  // of the last limits
};

// What was walked of one program so far, by whether slots are told apart and lists by place.
using AgreedWalks = std::map<std::pair<bool, bool>, std::unique_ptr<AgreedWalk>>;

// What two loops one after the other have in common is forgotten where the walk has no end with it.
// Slots are taken to be apart first (apart.cc); if that is no proof, they are not. `cut`: some walk
// came to its limit of ops; asked again with more, it goes on.
Walked WalkAgreed(const warp_check::Program& program, const WarpCheckOptions& options,
                  WarpCheckStats* stats, AgreedWalks* walks, bool* cut, bool by_place = false,
                  bool may_tell_apart = true) {
  // (Which persistent CTAs stay was chosen by measuring what was proved without.)
  const bool tell_apart = may_tell_apart && options.apart && options.agree_depth <= kNestDepth;
  std::unique_ptr<AgreedWalk>& walk = (*walks)[{tell_apart, by_place}];
  if (!walk) walk = std::make_unique<AgreedWalk>(program, tell_apart, by_place);
  const Walked walked = walk->On(options, stats);
  if (walked == Walked::kProved) {
    stats->uses = walk->machine.uses();
    return walked;
  }
  Restart(stats);
  *cut = *cut || walk->Cut();
  if (walk->apart && walked == Walked::kFound)
    return WalkAgreed(program, options, stats, walks, cut, by_place, false);
  const bool again = walked == Walked::kTooLarge && walk->agreement.in_sequence && !by_place;
  return again ? WalkAgreed(program, options, stats, walks, cut, true) : walked;
}

// One program, with what is forgotten of lonely branches first, then without; if that is no proof,
// with what is forgotten of how iterations are related; if that has no end, of carried scalars.
Walked WalkRelated(const warp_check::Program& program, const WarpCheckOptions& options,
                   WarpCheckStats* stats, std::optional<Finding>* finding) {
  warp_check::Terms terms;
  warp_check::Machine machine(program, terms);
  machine.ops_limit = options.max_ops;
  const bool forgets = program.nests && !program.lonely.empty();
  std::optional<Finding> first;  // before iterations were taken to be unrelated
  std::optional<Finding> early;  // before more iterations were told apart
  machine.forget = forgets;
  while (true) {
    machine.learned = false;
    Walked walked = WalkAll(machine, options, stats);
    if (machine.learned && walked != Walked::kTooLarge) {
      machine.ForgetFinding();
      continue;
    }
    // More states are told apart without it. (None of fifteen programs was proved then.)
    if (machine.forget && walked == Walked::kTooLarge && !options.widen) return walked;
    if (machine.forget && walked != Walked::kProved) {
      machine.forget = machine.none_fits = false;
      machine.ForgetUses();  // some were of branches that exclude each other
      machine.ForgetFinding();
      Restart(stats);
      continue;
    }
    if (walked == Walked::kFound && !machine.late && !machine.widen && !machine.unrelated &&
        machine.MetLate()) {
      early = machine.finding();
      machine.late = true;
      machine.forget = forgets;
      machine.ForgetUses();
      machine.ForgetFinding();
      machine.ops_limit = machine.ops() + options.max_ops;
      Restart(stats);
      continue;
    }
    if (walked == Walked::kTooLarge && early && !machine.widen && !machine.unrelated) {
      stats->uses = machine.uses();
      *finding = early;
      return Walked::kFound;
    }
    if (walked != Walked::kProved && !machine.widen && !machine.unrelated && options.widen &&
        machine.MetRelated()) {
      first = machine.finding();
      machine.unrelated = true;
      machine.forget = forgets;
      machine.none_fits = false;
      machine.ForgetUses();
      machine.ForgetFinding();
      machine.ops_limit = machine.ops() + options.max_ops / kUnrelatedShare;
      Restart(stats);
      continue;
    }
    if (machine.unrelated && walked != Walked::kProved) {
      machine.unrelated = false;
      machine.ForgetFinding();
      // What relates iterations was not needed to go wrong.
      if (first) {
        stats->uses = machine.uses();
        *finding = first;
        return Walked::kFound;
      }
      walked = Walked::kTooLarge;
    }
    if (walked == Walked::kTooLarge && !machine.widen && options.widen) {
      machine.widen = true;
      machine.forget = forgets;
      machine.none_fits = false;
      machine.ForgetUses();
      machine.ops_limit = machine.ops() + options.max_ops;
      Restart(stats);
      continue;
    }
    if (walked == Walked::kProved && !machine.none_fits && machine.AskedFarOff()) {
      machine.none_fits = true;
      machine.ops_limit = machine.ops() + options.max_ops;
      continue;
    }
    stats->uses = machine.uses();
    // Roles that forget what they agreed on may seem to hang: that is no finding.
    if (machine.widen && walked == Walked::kFound) return Walked::kTooLarge;
    *finding = machine.finding();
    return walked;
  }
}

// Slots that products by barrier read are not simplified (key.cc), so such nests are walked, unless
// a role is handed what it decides by: that the others decide likewise agreement alone knows.
bool AsksAgreement(const warp_check::Program& program, const WarpCheckOptions& options) {
  const bool nests = program.depth >= options.agree_depth && program.tensor_columns.empty();
  return nests || !program.hands.empty();
}

// What is left for the proof of a nest whose roles do not agree: more than any known proof took.
WarpCheckOptions LimitsOf(const warp_check::Program& program, const WarpCheckOptions& options) {
  WarpCheckOptions limits = options;
  if (!AsksAgreement(program, options)) return limits;
  limits.max_ops = std::min(options.max_ops, kMostNestOps);
  limits.max_states = std::min(options.max_states, kMostNestStates);
  return limits;
}

// Some role waits under a branch.
bool WaitsUnderBranch(const Function& fn, BlockId block, bool under = false) {
  for (OpId id : fn.blocks[block].ops) {
    const Op& op = fn.ops[id];
    if (under && op.kind == OpKind::kMbarWait) return true;
    for (BlockId region : op.regions)
      if (WaitsUnderBranch(fn, region, under || op.kind == OpKind::kIf)) return true;
  }
  return false;
}

// Several roles end a loop by what its iterations carry.
bool CountsInWhiles(const warp_check::Program& program) {
  const auto has_while = [&](const warp_check::RoleInfo& role) {
    bool any = false;
    warp_check::WalkOps(program.fn, role.body,
                        [&](OpId id) { any = any || program.fn.ops[id].kind == OpKind::kWhile; });
    return any;
  };
  return std::count_if(program.roles.begin(), program.roles.end(), has_while) > 1;
}

// A nest, and roles of which one tells the other what it steers by, first by what they agree on. If
// that is no proof, what relates iterations may be.
Walked Walk(const warp_check::Program& program, const WarpCheckOptions& options,
            WarpCheckStats* stats, std::optional<Finding>* finding) {
  const WarpCheckOptions limits = LimitsOf(program, options);
  // What has no end may be short for who forgets what iterations have to do with each other: one
  // role agrees with itself. Where answers add up it is tried first.
  const bool may_agree = program.tensor_columns.empty() && options.agree_depth <= kNestDepth;
  const bool asked = AsksAgreement(program, options) ||
                     (may_agree && WaitsUnderBranch(program.fn, program.fn.body));
  // What either proves is proved. A short try of agreement comes before what relates iterations, a
  // long one behind it.
  Walked agreed = Walked::kTooLarge;
  AgreedWalks walks;
  bool cut = false;
  if (asked) {
    WarpCheckOptions few = options;
    few.max_ops = std::min(options.max_ops, options.first_agreed_ops);
    agreed = WalkAgreed(program, few, stats, &walks, &cut);
  }
  if (agreed == Walked::kProved) return agreed;
  const Walked walked = WalkRelated(program, limits, stats, finding);
  if (cut && walked != Walked::kProved) {
    WarpCheckStats related = *stats;
    Restart(stats);
    agreed = WalkAgreed(program, options, stats, &walks, &cut);
    if (agreed == Walked::kProved) {
      finding->reset();
      return agreed;
    }
    related.walked = stats->walked;
    *stats = std::move(related);
  }
  // Here roles to which a scalar is handed may decide otherwise than the role that hands it over,
  // and a role may skip a loop that others run: what goes wrong then is no finding, unless it does
  // among roles that agree.
  if (walked == Walked::kFound && agreed == Walked::kTooLarge &&
      (asked || !program.hands.empty())) {
    finding->reset();
    return Walked::kTooLarge;
  }
  // What a `while` carries has a name in its own role only, so that roles that count alike seem to
  // end at different turns.
  const bool apart_only = walked == Walked::kFound && !asked && CountsInWhiles(program);
  const bool last_resort = options.agree_depth <= kNestDepth;
  if (!apart_only && (walked != Walked::kTooLarge || asked || !last_resort)) return walked;
  WarpCheckStats first = *stats;
  if (WalkAgreed(program, options, stats, &walks, &cut) == Walked::kProved) {
    finding->reset();
    return Walked::kProved;
  }
  first.walked = stats->walked;
  *stats = std::move(first);
  return walked;
}

void Join(const WarpOpUse& from, WarpOpUse* use) {
  use->reached |= from.reached;
  use->needed |= from.needed;
  use->holds |= from.holds;
  use->largest = std::max(use->largest, from.largest);
  use->divides = std::gcd(use->divides, from.divides);
}

// What the copies of an op were good for, together.
std::vector<WarpOpUse> UsesOf(const Function& fn, const warp_check::OneCta& one,
                              const std::vector<WarpOpUse>& uses) {
  std::vector<WarpOpUse> out(static_cast<size_t>(fn.ops.size()));
  for (size_t i = 0; i < one.origin.size(); ++i) {
    if (!one.origin[i].valid()) continue;
    Join(uses[i], &out[static_cast<size_t>(one.origin[i].index)]);
  }
  return out;
}

}  // namespace

namespace {

// What no walk has to find out.
std::optional<Finding> CheckForm(const Function& fn, const warp_check::Program& program,
                                 const WarpCheckOptions& options) {
  if (auto finding = warp_check::CheckResources(program, options)) return finding;
  if (auto finding = warp_check::CheckParts(program)) return finding;
  if (fn.launch.cluster > 1)
    if (const auto lacks = warp_check::LacksMeeting(fn)) {
      const char* where = lacks->valid() ? "roles begin before the cluster's CTAs have met"
                                         : "a CTA may end before the cluster's CTAs have met";
      return Finding{
          &warp_check::kWarpForm, lacks->valid() ? fn.ops[*lacks].at : Span{}, where, {}};
    }
  if (const auto mixes = warp_check::MixesPairs(fn))
    return Finding{&warp_check::kWarpForm,
                   fn.ops[*mixes].at,
                   "ops of tensor memory are of one CTA and of pairs",
                   {}};
  if (const auto lacks = warp_check::LacksScope(fn))
    return Finding{&warp_check::kWarpForm,
                   fn.ops[*lacks].at,
                   "another CTA arrives at its barrier, and it sees only what this one released",
                   {}};
  if (const auto meets = warp_check::MeetsExchange(fn))
    return Finding{&warp_check::kWarpForm,
                   fn.ops[*meets].at,
                   fmt::format("`{}` uses barriers of a warp_cluster_reduce",
                               Info(fn.ops[*meets].kind).mnemonic),
                   {}};
  if (const auto writes = warp_check::WritesExchanged(fn))
    return Finding{&warp_check::kWarpForm,
                   fn.ops[*writes].at,
                   fmt::format("`{}` uses what other CTAs read of a warp_cluster_reduce",
                               Info(fn.ops[*writes].kind).mnemonic),
                   {}};
  if (const auto meets = warp_check::MeetsPushed(fn))
    return Finding{&warp_check::kWarpForm,
                   fn.ops[*meets].at,
                   fmt::format("`{}` uses bytes that other CTAs write when they like",
                               Info(fn.ops[*meets].kind).mnemonic),
                   {}};
  return std::nullopt;
}

Walked WalkCluster(const Function& fn, const WarpCheckOptions& options, WarpCheckStats* stats,
                   std::optional<Finding>* finding) {
  const auto walk_as = [&](warp_check::Unfold how) {
    const warp_check::OneCta one = warp_check::AsOneCta(fn, how);
    const Walked walked = Walk(warp_check::Program(one.fn), options, stats, finding);
    stats->uses = UsesOf(fn, one, stats->uses);
    return walked;
  };
  if (!warp_check::Exchanges(fn) || warp_check::SharesCopies(fn))
    return walk_as(warp_check::Unfold::kCluster);
  const Walked alone = walk_as(warp_check::Unfold::kAlone);
  if (alone != Walked::kProved) return alone;
  const WarpCheckStats first = std::move(*stats);
  *stats = {};
  stats->walked = first.walked;
  const Walked together = walk_as(warp_check::Unfold::kExchange);
  stats->states += first.states;
  stats->ops += first.ops;
  for (size_t i = 0; i < first.uses.size(); ++i) Join(first.uses[i], &stats->uses[i]);
  return together;
}

}  // namespace

WarpVerdict ProveWarps(const Function& fn, const WarpCheckOptions& options) {
  CHECK(fn.level == Level::kWarp, "the verifier of warp programs takes a warp function");
  const warp_check::Program program(fn);
  WarpVerdict verdict;
  verdict.finding = CheckForm(fn, program, options);
  const Walked walked = verdict.finding ? Walked::kFound
                        : fn.launch.cluster > 1
                            ? WalkCluster(fn, options, &verdict.stats, &verdict.finding)
                            : Walk(program, options, &verdict.stats, &verdict.finding);
  switch (walked) {
    case Walked::kProved: break;
    case Walked::kFound: verdict.proof = WarpProof::kRefuted; break;
    case Walked::kTooLarge: {
      const WarpCheckOptions limits = LimitsOf(program, options);
      const bool states = verdict.stats.states > limits.max_states;
      verdict.proof = WarpProof::kGivenUp;
      verdict.limit = states ? WarpLimit::kStates : WarpLimit::kOps;
      verdict.available = states ? limits.max_states : limits.max_ops;
      break;
    }
  }
  return verdict;
}

Result<WarpCheckStats> ReportVerdict(const Function& fn, WarpVerdict verdict, DiagSink& diags) {
  switch (verdict.proof) {
    case WarpProof::kProved: return std::move(verdict.stats);
    case WarpProof::kRefuted: return Report(fn, *verdict.finding, diags);
    case WarpProof::kGivenUp: break;
  }
  return diags
      .Report(warp_check::kWarpTooLarge, Span{},
              fmt::format("after {} states and {} ops no end of `{}` is in sight",
                          verdict.stats.states, verdict.stats.ops, fn.name))
      .Place("@" + fn.name)
      .Help("--schedule=sequential compiles the kernel without overlap");
}

Result<WarpCheckStats> CheckWarps(const Function& fn, const WarpCheckOptions& options,
                                  DiagSink& diags) {
  return ReportVerdict(fn, ProveWarps(fn, options), diags);
}

}  // namespace tilec::ir
