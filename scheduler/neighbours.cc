// SPDX-License-Identifier: Apache-2.0
#include "scheduler/neighbours.h"

#include <algorithm>

#include "ir/passes/divide_reductions.h"
#include "scheduler/sms_shared.h"

namespace tilec::scheduler {

namespace {

// Shorter kernels are not looked at in parts that share copies: two launches are too much of them.
constexpr double kTimesTwoLaunches = 5;
constexpr double kOnlyCopying = 1.25;  // CTAs of clusters for each tile, most of which multiply
// Neighbours have a fifth in common at least.
constexpr double kMostAsked = 0.8;
constexpr int64_t kAside = 4;  // SMs that pairs of parts leave

// Hardly a CTA only copies, and walking along the columns first brings nothing again: it is of one
// round, or of what caches hold, or of one tile's height. Four leave SMs idle: of one round alone.
bool MayShare(KeptForms& forms, FormTimes& model, const SharedCopies& how) {
  const Neighbours& all = forms.Sharing(how);
  if (!all.form) return false;
  const KernelForm& plain = forms.plain().form;
  const int64_t tiles = model.TilesOf(*all.form);
  if (static_cast<double>(tiles) > kOnlyCopying * static_cast<double>(model.TilesOf(plain)))
    return false;
  const bool at_once = tiles <= SmsOfClusters(forms.target(), how.ctas);
  return at_once || (how.ctas == 2 && (how.along == 0 || model.HoldsAll(plain)));
}

// As many parts of so many tiles as find room at once. (H200, 132 CTAs in pairs, 311x2744x61720 in
// six parts, took two rounds: 383 us, in five 206.)
int64_t PartsThatFit(int64_t tiles, int64_t neighbours, const ir::Target& target) {
  const int64_t room = std::min(SmsOfClusters(target, neighbours), target.limits.sms - kAside);
  return tiles > 0 ? std::min(ir::kMostGroups, room / tiles) : 0;
}

}  // namespace

// (H200, f16 128x12024x31320: pairs along the columns 250 us, four of them 213, CTAs that share
// loops and no copies 296; 680x6648x21224 pairs along the columns 308, as it was 393. e4m3
// 2x15840x6672 in 16x40, pairs along the columns, which ask for 0.86: 37.6, CTAs alone 29.7.)
std::optional<SharingTime> MoreNeighbours(KeptForms& forms, FormTimes& model, double ms) {
  constexpr SharedCopies kHow[] = {{.ctas = 2, .along = 1}, {.ctas = 4}, {.ctas = 4, .along = 1}};
  const ir::Target& target = forms.target();
  if (!target.Has("clusters") || model.OneTurn(forms.plain().form)) return std::nullopt;
  std::optional<SharingTime> best;
  for (const SharedCopies& how : kHow) {
    if (!MayShare(forms, model, how)) continue;
    Neighbours& all = forms.Sharing(how);
    if (all.asked > kMostAsked) continue;
    const auto time = model.TimeOf(*all.form, all.asked, how.ctas, true, 0, how.along > 0);
    if (!time || time->ms > (1 - target.model.split_margin) * ms) continue;
    best = {how, *time};
    ms = time->ms;
  }
  return best;
}

// (H200, 311x2744x61720 in 160x256: clusters of five that share loops 257 us, five parts of pairs
// 206.)
std::optional<SharingTime> PartsOfNeighbours(KeptForms& forms, FormTimes& model, double ms) {
  const ir::Target& target = forms.target();
  if (!target.Has("clusters") || model.whole_flops == 0 ||
      kTimesTwoLaunches * model.LeastDivided(1) > ms)
    return std::nullopt;
  std::optional<SharingTime> best;
  for (const int64_t ctas : {2, 4})
    for (const int64_t along : {0, 1}) {
      SharedCopies how{.ctas = ctas, .along = along};
      if (!MayShare(forms, model, how)) continue;
      how.parts = PartsThatFit(model.TilesOf(*forms.Sharing(how).form), ctas, target);
      if (how.parts < 2) continue;
      Neighbours& all = forms.Sharing(how);
      DividedForm* const divided = forms.plain().InGroups(how.parts, 1, target);
      if (!all.form || divided == nullptr) return best;
      const double most_ms = (1 - target.model.split_margin) * ms;
      const auto time = model.TimeOf(all, *divided, most_ms);
      if (!time || time->ms > most_ms) continue;
      best = {how, *time};
      ms = time->ms;
    }
  return best;
}

}  // namespace tilec::scheduler
