// Is a warp program right? What no walk has to find out comes first; then walks, by what relates
// the iterations of roles or by what roles agree on, whichever is likely to end sooner.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/warp_check/check.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>

#include "ir/warp_check/agreed_walk.h"
#include "ir/warp_check/cluster.h"
#include "ir/warp_check/parts.h"
#include "ir/warp_check/resources.h"
#include "ir/warp_check/walk.h"

namespace tilec::ir {

using warp_check::Finding;
using warp_check::Walked;

namespace {

Reported Report(const Function& fn, const Finding& finding, DiagSink& diags) {
  DiagBuilder d = diags.ReportText(*finding.def, finding.at, finding.message);
  if (!finding.at.known()) d.Place("@" + fn.name);
  for (const std::string& note : finding.notes) d.Note(note);
  d.Help("this is a mistake of the compiler; --schedule=sequential may do without it");
  return d;
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
  limits.max_ops = std::min(options.max_ops, warp_check::kMostNestOps);
  limits.max_states = std::min(options.max_states, warp_check::kMostNestStates);
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

// Of CTAs that stay, whose slots are not told apart then.
constexpr int64_t kFirstOpsOfStaying = 120'000;

// Of a program as large as this what agreement proves it proves within 9,000 ops, and 25,000 that
// prove nothing take a quarter of its proof (gradients of attention by keys and values, D = 64).
constexpr int32_t kLargeProgram = 600;
int64_t FirstAgreedOps(const warp_check::Program& program, const WarpCheckOptions& options) {
  return options.first_agreed_ops / (program.fn.ops.size() > kLargeProgram ? 2 : 1);
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
  const bool may_agree =
      program.tensor_columns.empty() && options.agree_depth <= warp_check::kNestDepth;
  const bool asked = AsksAgreement(program, options) ||
                     (may_agree && WaitsUnderBranch(program.fn, program.fn.body));
  // What either proves is proved. A short try of agreement comes before what relates iterations, a
  // long one behind it.
  Walked agreed = Walked::kTooLarge;
  warp_check::AgreedWalks walks(program);
  if (asked) {
    WarpCheckOptions few = options;
    // (attention_dqkv stays by 106'000.)
    const bool stays = options.agree_depth > warp_check::kNestDepth;
    few.max_ops =
        std::min(options.max_ops, stays ? kFirstOpsOfStaying : FirstAgreedOps(program, options));
    agreed = walks.Walk(few, stats);
  }
  if (agreed == Walked::kProved) return agreed;
  const Walked walked = warp_check::WalkRelated(program, limits, stats, finding);
  if (walks.cut() && walked != Walked::kProved) {
    WarpCheckStats related = *stats;
    warp_check::Restart(stats);
    agreed = walks.Walk(options, stats);
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
  const bool last_resort = options.agree_depth <= warp_check::kNestDepth;
  if (!apart_only && (walked != Walked::kTooLarge || asked || !last_resort)) return walked;
  WarpCheckStats first = *stats;
  if (walks.Walk(options, stats) == Walked::kProved) {
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
