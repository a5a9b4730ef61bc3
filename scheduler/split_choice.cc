// SPDX-License-Identifier: Apache-2.0
#include "scheduler/split_choice.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "ir/lower/slides.h"
#include "ir/passes/divide_reductions.h"
#include "ir/passes/pack_rows.h"
#include "scheduler/form_times.h"
#include "scheduler/neighbours.h"
#include "scheduler/sms_shared.h"
#include "scheduler/split_forms.h"

namespace tilec::scheduler {

namespace {

// Are there rows that several loops read and memory gives once?
bool KeepsRows(const ir::Function& fn) {
  return std::any_of(fn.ops.begin(), fn.ops.end(),
                     [](const ir::Op& op) { return op.attr("kept") != nullptr; });
}

// One choice: what was taken so far, and what else is tried.
class SplitChooser {
 public:
  SplitChooser(KeptForms& forms, const Bindings& names, const RowStarts& row_starts, int64_t most,
               const ShapeOf& shape_of)
      : forms_(forms),
        target_(forms.target()),
        row_starts_(row_starts),
        most_(most),
        model_(forms.target(), names,
               AskedByCopies(forms.fn(), forms.Copies(), forms.target(), row_starts, names),
               shape_of) {}
  SplitChoice Run(bool one_role);

 private:
  void Take(const KernelTime& time) { choice_.ms = time.ms, choice_.busy = time.busy(); }
  void TryCopyingTogether();
  void TryMoreNeighbours();
  void TrySharedParts();
  void Share(const SharingTime& found);
  bool TryWalking();
  bool TryPacked(int64_t pack, TileForms* packed);
  // Whether CTAs share tiles, and which: those that leave SMs idle, or only rows that are kept
  // then.
  struct Shared {
    bool idle = false, kept = false;
  };
  Shared WhatIsShared(TileForms& tiles, const KernelTime& whole) const;
  std::vector<int64_t> CountsInClusters(const TileForms& tiles, const KernelTime& whole) const;
  std::optional<KernelTime> TimeShared(TileForms& tiles, int64_t ctas, bool idle, bool* obstacle);
  // More than that, and CTAs do not share a tile's loop.
  double MostShared(const TileForms& tiles) const;
  void TryShared(TileForms& tiles, const KernelTime& whole, int64_t pack);
  std::vector<int64_t> CountsOfOneRole(int64_t tiles, int64_t beside) const;
  void TryOneRole(TileForms& tiles, int64_t pack);
  void TryApart(TileForms& tiles, int64_t pack);
  std::vector<int64_t> CountsApart(int64_t tiles) const;
  int64_t Groups() const { return most_ == ir::isa::kPortableClusterCtas ? ir::kMostGroups : 1; }
  int64_t Fullest(int64_t tiles) const;
  std::pair<int64_t, TileForms*> ChoosePack();

  KeptForms& forms_;
  const ir::Target& target_;
  const RowStarts& row_starts_;
  const int64_t most_;
  FormTimes model_;
  KernelTime alone_;  // the tiles as they are, by one CTA each
  SplitChoice choice_;
};

// Neighbours copy for each other what they have in common, or each walks over tiles by itself.
void SplitChooser::TryCopyingTogether() {
  if (!CutsLines(forms_.fn(), row_starts_) || !target_.Has("clusters")) return;
  Neighbours& pairs = forms_.Sharing({.ctas = target_.lowering.cluster_ctas});
  if (!pairs.form) return;
  const double asked = pairs.asked;
  KernelForm& plain = forms_.plain().form;
  KernelForm& clustered = *pairs.form;
  // Of a grid of one tile's height half of the CTAs would only copy. In one turn there is nothing
  // to run ahead of, and the proof of clusters that stay takes too long: those that come and go
  // take longer (H200, 66 of 34519x736x32 in 128x256: 1838 us, alone, staying, 1257).
  const bool idle = model_.OneTurn(plain) || 2 * model_.TilesOf(plain) <= model_.TilesOf(clustered);
  const auto shared =
      idle ? std::nullopt : model_.TimeOf(clustered, asked, target_.lowering.cluster_ctas, true);
  const auto stays = model_.TimeOf(plain, 1, 1, true);
  choice_.share_copies = shared && stays && shared->ms < stays->ms;
  if (choice_.share_copies || stays) Take(choice_.share_copies ? *shared : *stays);
}

void SplitChooser::TryMoreNeighbours() {
  if (!CutsLines(forms_.fn(), row_starts_) || alone_.uneven) return;
  if (const auto found = MoreNeighbours(forms_, model_, choice_.ms)) Share(*found);
}

void SplitChooser::TrySharedParts() {
  if (!CutsLines(forms_.fn(), row_starts_) || alone_.uneven || choice_.pack > 1 ||
      (choice_.ctas == 1 && choice_.busy >= 1))
    return;
  const auto found = PartsOfNeighbours(forms_, model_, choice_.ms);
  if (!found) return;
  choice_.ctas = found->how.parts;
  choice_.apart = true;
  choice_.in_order = choice_.stays = choice_.once = false;
  choice_.doubt = 1;
  Share(*found);
}

void SplitChooser::Share(const SharingTime& found) {
  choice_.share_copies = true;
  choice_.along = found.how.along;
  choice_.neighbours = found.how.ctas;
  Take(found.time);
}

// CTAs walk over tiles that take unequally long. True: that loses, for in each round all heads'
// keys come from memory again.
bool SplitChooser::TryWalking() {
  // Where lengths stand in memory one iteration is counted for each tile, whoever takes it.
  const bool unknown = !model_.Exact(forms_.plain().form);
  if ((!alone_.uneven && !unknown) || !forms_.CanStay()) return false;
  std::optional<KernelTime> stays = model_.TimeOf(forms_.plain().form, 1, 1, true);
  if (stays) stays->ms += target_.model.again_share * model_.again_ms;
  choice_.stays = stays && stays->ms < (1 - target_.model.tune_margin) * alone_.ms;
  if (choice_.stays) Take(*stays);
  return alone_.uneven && stays && stays->ms > target_.model.walking_loses * alone_.ms;
}

SplitChooser::Shared SplitChooser::WhatIsShared(TileForms& tiles, const KernelTime& whole) const {
  // Of rows an SM has several CTAs side by side.
  const int64_t room = (tiles.loops ? target_.lowering.row_ctas_wanted : 1) * target_.limits.sms;
  // … or of two rounds a third is empty: 171 tiles take as long as 264.
  const double fuller = target_.model.two_rounds_empty * static_cast<double>(whole.ctas);
  // Rows that slide are read again, and a part of one may be in the L2 still.
  const bool again = tiles.loops && ir::SlideOf(tiles.form.fn).has_value();
  Shared shared;
  shared.idle = again || 2 * whole.ctas <= room || whole.longest_binds ||
                (whole.ctas > room && fuller <= static_cast<double>(2 * room));
  // Where all find room at once CTAs share rows that only a part of finds room in.
  shared.kept = tiles.loops && whole.ctas <= room && !KeepsRows(tiles.form.fn);
  return shared;
}

// As many CTAs for each tile as are looked at.
std::vector<int64_t> SplitChooser::CountsInClusters(const TileForms& tiles,
                                                    const KernelTime& whole) const {
  // Groups that wait for others to end lose more than the model says (H200, eight tiles in 16
  // CTAs each 29.9 us, in eight 21.7: fifteen clusters run at a time).
  const int64_t sms = target_.limits.sms;
  const int64_t together = (sms - target_.model.sms_beside_clusters) / most_ * most_;
  // As many groups as there is room for, too: of one tile 15 in place of 8.
  std::vector<int64_t> counts;
  for (int64_t ctas = 2; ctas <= most_; ctas *= 2) counts.push_back(ctas);
  if (const int64_t all = Fullest(whole.ctas); all > 2 && !tiles.loops) counts.push_back(all);
  const int64_t fullest = std::min(Groups(), together / (whole.ctas * most_));
  for (int64_t g = 2; g < fullest; g *= 2) counts.push_back(g * most_);
  if (fullest > 1) counts.push_back(fullest * most_);
  return counts;
}

// Nothing: it is not looked at. `obstacle`: more CTAs need not be looked at either.
std::optional<KernelTime> SplitChooser::TimeShared(TileForms& tiles, int64_t ctas, bool idle,
                                                   bool* obstacle) {
  if (ctas > most_) {
    const double most_ms = MostShared(tiles);
    if (!idle || model_.LeastDivided(most_) > most_ms) return std::nullopt;
    DividedForm* const divided = tiles.InGroups(ctas / most_, most_, target_);
    return divided ? model_.TimeOf(*divided, most_, most_ms) : std::nullopt;
  }
  KernelForm* const split = tiles.InParts(ctas, target_);
  *obstacle = split == nullptr;
  if (*obstacle || (!idle && !KeepsRows(split->fn))) return std::nullopt;
  return model_.TimeOf(*split, 1, ctas);
}

double SplitChooser::MostShared(const TileForms& tiles) const {
  const double margin = tiles.loops ? target_.model.row_margin : target_.model.split_margin;
  return std::min({choice_.ms, (1 - margin) * alone_.ms, alone_.ms - target_.model.split_least_ms});
}

// Several CTAs share the turns of each tile's loop.
void SplitChooser::TryShared(TileForms& tiles, const KernelTime& whole, int64_t pack) {
  const Shared shared = WhatIsShared(tiles, whole);
  if (!target_.Has("clusters") || !(shared.idle || shared.kept)) return;
  for (const int64_t ctas : CountsInClusters(tiles, whole)) {
    bool obstacle = false;
    const std::optional<KernelTime> time = TimeShared(tiles, ctas, shared.idle, &obstacle);
    if (obstacle) break;
    if (!time || time->ms >= choice_.ms || time->ms > MostShared(tiles)) continue;
    choice_.ctas = ctas;
    choice_.pack = pack;
    choice_.share_copies = false;
    Take(*time);
  }
}

// Rows of several instances are one tile. False: it does not fit.
bool SplitChooser::TryPacked(int64_t pack, TileForms* packed) {
  const std::optional<KernelTime> whole = model_.TimeOf(packed->form, 1, 1);
  if (!whole) return false;
  if (whole->ms < (1 - target_.model.split_margin) * choice_.ms) {
    choice_.ctas = 1;
    choice_.pack = pack;
    choice_.share_copies = false;
    Take(*whole);
  }
  TryShared(*packed, *whole, pack);
  choice_.once = choice_.once && choice_.pack == 1;
  return true;
}

SplitChoice SplitChooser::Run(bool one_role) {
  TileForms& plain = forms_.plain();
  const std::optional<KernelTime> alone = model_.TimeOf(plain.form, 1, 1);
  choice_.whole_flops = model_.whole_flops;
  if (!alone) return choice_;
  alone_ = *alone;
  choice_.alone_ms = alone_.ms;
  Take(alone_);
  TryCopyingTogether();
  if (one_role && most_ > 1) TryMoreNeighbours();
  const bool leaves = TryWalking();
  const bool room = choice_.whole_flops > 0 && alone_.ctas <= target_.limits.sms;
  // (Tried on a machine with clusters. Without, nothing was measured, and gated_delta, 32 columns
  // on an A100, spills 104 + 104 bytes so and none where CTAs walk.)
  choice_.once = (room || leaves) && !choice_.stays && target_.Has("clusters");
  TryShared(plain, alone_, 1);
  choice_.once = choice_.once && choice_.ctas == 1;
  const auto [pack, packed] = ChoosePack();
  if (pack > 1 && !TryPacked(pack, packed)) return choice_;
  if (one_role && !alone_.uneven) {
    if (pack > 1) TryOneRole(*packed, pack);
    TryOneRole(plain, 1);
    if (most_ > 1) TryApart(pack > 1 ? *packed : plain, pack);
    if (most_ > 1) TrySharedParts();
  }
  return choice_;
}

// In as many parts as find room side by side, and the powers of two below.
std::vector<int64_t> SplitChooser::CountsOfOneRole(int64_t tiles, int64_t beside) const {
  const auto fits = [&](int64_t ctas) {
    const int64_t cluster = std::min(ctas, most_);
    return tiles * ctas <= beside * SmsOfClusters(target_, CeilDiv(cluster, beside));
  };
  std::vector<int64_t> counts = {1};
  for (int64_t ctas = 2; ctas <= most_ && fits(ctas); ++ctas)
    if ((ctas & (ctas - 1)) == 0 || !fits(ctas + 1)) counts.push_back(ctas);
  for (int64_t g = 2; g <= Groups() && fits(g * most_); ++g)
    if ((g & (g - 1)) == 0 || !fits((g + 1) * most_)) counts.push_back(g * most_);
  return counts;
}

// One role in program order, its CTAs side by side, in as many parts as find room.
void SplitChooser::TryOneRole(TileForms& tiles, int64_t pack) {
  const std::optional<double> margin = model_.MarginOfOneRole(tiles.form);
  if (!margin) return;
  const int64_t beside = tiles.form.CtasOfOneRole(target_);
  for (const int64_t ctas : CountsOfOneRole(model_.TilesOf(tiles.form), beside)) {
    // Parts are believed half as much (H200, 5 x 80/10, L 28622, D 64 in eight 118 us, 97 said).
    const double doubt = 1 / (1 - (ctas > 1 ? 2 : 1) * *margin);
    // More than a quotient and a product lose by rounding.
    const double most_ms = std::nextafter(std::nextafter(choice_.ms / doubt, kAnyTime), kAnyTime);
    std::optional<KernelTime> time;
    if (ctas == 1) {
      time = model_.TimeOf(tiles.form, 1, 1, false, beside);
    } else if (ctas <= most_) {
      KernelForm* const split = tiles.InParts(ctas, target_);
      if (split == nullptr) break;
      time = model_.TimeOf(*split, 1, ctas, false, beside);
    } else if (model_.LeastDivided(most_) <= most_ms) {
      if (DividedForm* const divided = tiles.InGroups(ctas / most_, most_, target_))
        time = model_.TimeOf(*divided, most_, most_ms, beside);
    }
    if (!time || doubt * time->ms >= choice_.ms) continue;
    choice_.in_order = true;
    choice_.ctas = ctas;
    choice_.pack = pack;
    choice_.share_copies = choice_.stays = choice_.once = false;
    choice_.doubt = doubt;
    Take(*time);
    choice_.ms = choice_.doubt * time->ms;
  }
}

// Parts that are no cluster: any number of CTAs that fills whole rounds of the machine, where
// clusters leave SMs idle and wait for whole ones to end. Of products clusters were faster (H200,
// 672x1304x36104 in five 143 us, apart 174).
void SplitChooser::TryApart(TileForms& tiles, int64_t pack) {
  if (!target_.Has("clusters") ||
      model_.LeastDivided(1) > (1 - target_.model.split_margin) * choice_.ms ||
      !tiles.form.Hangs(target_))
    return;
  for (const int64_t ctas : CountsApart(model_.TilesOf(tiles.form))) {
    const double most_ms = (1 - target_.model.split_margin) * choice_.ms;
    if (model_.LeastDivided(1) > most_ms) break;  // nor do more parts
    DividedForm* const divided = tiles.InGroups(ctas, 1, target_);
    if (divided == nullptr) break;
    const auto time = model_.TimeOf(*divided, 1, most_ms);
    if (!time || time->ms > most_ms) continue;
    choice_.ctas = ctas;
    choice_.pack = pack;
    choice_.apart = true;
    choice_.in_order = choice_.share_copies = choice_.stays = choice_.once = false;
    choice_.doubt = 1;
    Take(*time);
  }
}

// Those that take fewer rounds, of so many times less each, than any smaller number. (H200, one
// query, 270 tiles: 190 us by one CTA each, three rounds; in three 160, seven rounds of a third.)
std::vector<int64_t> SplitChooser::CountsApart(int64_t tiles) const {
  const auto rounds = [&](int64_t ctas) {
    return static_cast<double>(CeilDiv(tiles * ctas, target_.limits.sms)) /
           static_cast<double>(ctas);
  };
  std::vector<int64_t> counts;
  double least = rounds(1);
  for (int64_t ctas = 2; tiles > 0 && ctas <= ir::kMostGroups; ++ctas) {
    if (rounds(ctas) > (1 - target_.model.split_margin) * least) continue;
    least = rounds(ctas);
    counts.push_back(ctas);
  }
  return counts;
}

// The most CTAs for each of so many tiles that run at a time: 38 tiles in three are 114, in two
// 76 and in four 152, which are two rounds.
int64_t SplitChooser::Fullest(int64_t tiles) const {
  for (int64_t ctas = most_; ctas > 2; --ctas)
    if (tiles * ctas <= SmsOfClusters(target_, ctas)) return ctas;
  return 2;
}

// As many instances in a tile as leave the fewest tiles; 1: as it is.
std::pair<int64_t, TileForms*> SplitChooser::ChoosePack() {
  std::pair<int64_t, TileForms*> best = {1, nullptr};
  int64_t fewest = model_.TilesOf(forms_.plain().form);
  for (int64_t heads = 2; heads <= ir::kMostPacked; heads *= 2) {
    TileForms* const packed = forms_.Packed(heads);
    if (packed == nullptr) break;
    const int64_t tiles = model_.TilesOf(packed->form);
    if (tiles == 0 || tiles >= fewest) continue;
    best = {heads, packed};
    fewest = tiles;
  }
  return best;
}

}  // namespace

Forms::Forms(ir::Function fn, const ir::Target& target, std::optional<ir::Function> loops)
    : kept_(std::make_unique<KeptForms>(std::move(fn), target, std::move(loops))) {}
Forms::Forms(Forms&&) noexcept = default;
Forms::~Forms() = default;
const ir::Function& Forms::fn() const { return kept_->fn(); }
const ir::Function* Forms::InParts(int64_t ctas) {
  TileForms& plain = kept_->plain();
  const KernelForm* const parts = ctas > 1 ? plain.InParts(ctas, kept_->target()) : &plain.form;
  return parts ? &parts->fn : nullptr;
}
SplitChoice Forms::Choose(const Bindings& names, const RowStarts& row_starts, int64_t most,
                          const ShapeOf& shape_of, bool one_role) {
  return SplitChooser(*kept_, names, row_starts, most, shape_of).Run(one_role);
}

}  // namespace tilec::scheduler
