// SPDX-License-Identifier: Apache-2.0
#include "scheduler/split_choice.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "ir/clean_up.h"
#include "ir/count_work.h"
#include "ir/lower/slides.h"
#include "ir/passes/cluster_tiles.h"
#include "ir/passes/divide_reductions.h"
#include "ir/passes/pack_rows.h"
#include "ir/passes/persist_tiles.h"
#include "ir/passes/split_reductions.h"
#include "scheduler/copy_lines.h"
#include "scheduler/kernel_time.h"
#include "scheduler/one_role.h"
#include "support/check.h"

namespace tilec::scheduler {

namespace {

// One function, and what was found out about it.
struct Form {
  explicit Form(ir::Function f) : fn(std::move(f)) {}
  using Periods = std::optional<std::vector<LoopPeriod>>;

  // `shared`: a copy of the target, for its costs as they are shared.
  const Periods& PeriodsAt(const Sharing& sharing, const ir::Target& target,
                           std::optional<ir::Target>* shared) {
    const std::lock_guard<std::mutex> lock(mutex);
    auto known = periods.find(sharing);
    if (known == periods.end()) {
      if (!*shared) *shared = target;
      ShareCosts(target, sharing, &**shared);
      double found = 0;
      known = periods.emplace(sharing, BoundPeriods(fn, **shared, &found)).first;
      if (found > 0) warpgroups = found;
    }
    return known->second;
  }
  // However costs are shared: what hangs on what does not depend on that.
  const Periods& AnyPeriods(const ir::Target& target, std::optional<ir::Target>* shared) {
    {
      const std::lock_guard<std::mutex> lock(mutex);
      if (!periods.empty()) return periods.begin()->second;
    }
    return PeriodsAt({}, target, shared);
  }
  double Warpgroups(const ir::Target& target) {
    const std::lock_guard<std::mutex> lock(mutex);
    if (!warpgroups) warpgroups = CutWarpgroups(fn, target);
    return *warpgroups;
  }
  int64_t CtasOfOneRole(const ir::Target& target) {
    const std::lock_guard<std::mutex> lock(mutex);
    if (one_role == 0) one_role = scheduler::CtasOfOneRole(fn, target);
    return one_role;
  }

  const ir::Function fn;

 private:
  std::mutex mutex;  // of what follows
  std::optional<double> warpgroups;
  int64_t one_role = 0;  // CTAs of an SM; 0: not asked yet
  std::map<Sharing, Periods> periods;
};
using FormPtr = std::unique_ptr<Form>;

// Are there rows that several loops read and memory gives once?
bool KeepsRows(const ir::Function& fn) {
  return std::any_of(fn.ops.begin(), fn.ops.end(),
                     [](const ir::Op& op) { return op.attr("kept") != nullptr; });
}

FormPtr Split(ir::Function fn, int64_t ctas, const ir::Target& target) {
  if (ir::SplitReductions(fn, ctas, target)) return nullptr;  // an obstacle
  return std::make_unique<Form>(std::move(fn));
}

FormPtr SplitRows(ir::Function loops, int64_t ctas, const ir::Target& target) {
  if (ir::SplitLoopsOfRows(loops, ctas, target)) return nullptr;  // an obstacle
  return std::make_unique<Form>(std::move(loops));
}

// Groups of clusters (of 1: of CTAs that are none), and a second launch for what they have.
struct Divided {
  explicit Divided(ir::Division d) : parts(std::move(d.parts)), whole(std::move(d.whole)) {}
  Form parts, whole;
};
using DividedPtr = std::unique_ptr<Divided>;

DividedPtr Divide(const ir::Function& fn, int64_t groups, int64_t cluster,
                  const ir::Target& target) {
  ir::Division divided;
  if (ir::DivideReductions(fn, groups, &divided)) return nullptr;
  if (cluster > 1 ? ir::SplitReductions(divided.parts, cluster, target)
                  : ir::GuardParts(divided.parts))
    return nullptr;
  return std::make_unique<Divided>(std::move(divided));
}

// With CTAs that have no tile, where its grid is none of clusters.
FormPtr Cluster(ir::Function fn, int64_t ctas) {
  CHECK(!ir::ClusterTiles(fn, ctas), "it asks for less by that");
  return std::make_unique<Form>(std::move(fn));
}

// The sizes of one question.
class Question {
 public:
  Question(const ir::Function& fn, const ir::Target& target, const Bindings& names,
           const RowStarts& row_starts, const ShapeOf& shape_of)
      : target_(target),
        names_(names),
        shape_of_(shape_of),
        asked_(AskedByCopies(fn, target, row_starts, names)) {}

  // `share`: of the lines that it needs, what a CTA asks for itself. `stays`: as many CTAs as SMs,
  // which walk over tiles. `one_role`: CTAs of an SM, each of one role; 0: of several.
  std::optional<KernelTime> TimeOf(Form& form, double share, int64_t cluster, bool stays = false,
                                   int64_t one_role = 0) {
    const ir::WorkCount& work = WorkOf(form);
    whole_flops = work.whole_flops;
    if (const double gbs = target_.model.memory_share * double(target_.limits.memory_gbs); gbs > 0)
      again_ms = 1e-6 * work.again_bytes / gbs;
    if (work.instances == 0) return std::nullopt;
    const Sharing sharing =
        SharingOf(target_, work.instances, asked_.Times(work.instances, target_) * share);
    const Form::Periods& periods = form.PeriodsAt(sharing, target_, &shared_);
    if (!periods) return std::nullopt;
    LaunchShape shape = shape_of_ ? shape_of_(form.fn, work) : LaunchShape();
    shape.in_order = one_role > 0;
    if (shape.in_order) shape.per_sm = one_role;
    shape.cluster = cluster;
    shape.share = share;
    shape.lines = asked_.lines;
    shape.written = asked_.written;
    shape.leaves = asked_.leaves;
    shape.warpgroups = form.Warpgroups(target_);
    if (stays) shape.ctas = std::min(target_.limits.sms, work.instances);
    return EstimateTime(form.fn, target_, work, *periods, shape);
  }
  std::optional<KernelTime> TimeOf(Divided& divided, int64_t cluster, int64_t one_role = 0) {
    std::optional<KernelTime> time = TimeOf(divided.parts, 1, cluster, false, one_role);
    const double flops = whole_flops;
    const std::optional<KernelTime> whole = TimeOf(divided.whole, 1, 1);
    whole_flops = flops;
    if (!time || !whole) return std::nullopt;
    time->ms += whole->ms + (cluster == 1 ? target_.model.apart_ms : 0);
    return time;
  }
  // Does one warpgroup make products of what comes of others, and do all loops hang on that?
  bool Hangs(Form& form) const {
    const int64_t products = std::count_if(
        form.fn.ops.begin(), form.fn.ops.end(),
        [](const ir::Op& op) { return op.kind == ir::OpKind::kDot; });
    if (products < 2 || form.Warpgroups(target_) != 1) return false;
    const auto periods = BoundPeriods(form.fn, target_);
    return periods && !periods->empty() &&
           std::all_of(periods->begin(), periods->end(),
                       [](const LoopPeriod& period) { return period.hangs; });
  }
  std::optional<double> MarginOfOneRole(Form& form) {
    const ir::WorkCount& work = WorkOf(form);
    const Form::Periods& periods = form.AnyPeriods(target_, &shared_);
    if (!periods) return std::nullopt;
    const auto margin = [&](int64_t beside) {
      return scheduler::MarginOfOneRole(form.fn, target_, work, *periods, beside);
    };
    constexpr int64_t kAnyNumber = 1 << 16;  // of CTAs on an SM: whether it hangs on how many
    return margin(kAnyNumber) ? margin(form.CtasOfOneRole(target_)) : std::nullopt;
  }
  int64_t TilesOf(const Form& form) { return WorkOf(form).instances; }
  bool Exact(const Form& form) { return WorkOf(form).exact; }
  double whole_flops = 0, again_ms = 0;  // of what was asked last

 private:
  // Counted once: a form is looked at as it stays, once and by one role.
  const ir::WorkCount& WorkOf(const Form& form) {
    const auto [at, fresh] = works_.try_emplace(&form);
    if (fresh) at->second = ir::CountWork(form.fn, names_, target_, {.edges = false});
    return at->second;
  }

  const ir::Target& target_;
  const Bindings& names_;
  const ShapeOf& shape_of_;
  const Asked asked_;
  std::optional<ir::Target> shared_;  // costs of what was looked at last
  std::map<const Form*, ir::WorkCount> works_;
};

}  // namespace

class Forms::Kept {
 public:
  Kept(ir::Function fn, const ir::Target& target, std::optional<ir::Function> loops)
      : target_(target), plain_(std::move(fn), std::move(loops)) {}
  const ir::Function& fn() const { return plain_.form.fn; }
  const ir::Function* InParts(int64_t ctas) {
    const Form* const parts = ctas > 1 ? plain_.InParts(ctas, target_) : &plain_.form;
    return parts ? &parts->fn : nullptr;
  }

  SplitChoice Choose(const Bindings& names, const RowStarts& row_starts, int64_t most,
                     const ShapeOf& shape_of, bool one_role) {
    SplitChoice choice;
    Question model(fn(), target_, names, row_starts, shape_of);
    const std::optional<KernelTime> alone = model.TimeOf(plain_.form, 1, 1);
    choice.whole_flops = model.whole_flops;
    if (!alone) return choice;
    choice.alone_ms = alone->ms;
    const auto take = [&](const KernelTime& time) {
      choice.ms = time.ms, choice.busy = time.busy();
    };
    take(*alone);
    if (const double asked = CutsLines(fn(), row_starts) ? ShareAsked(fn(), target_) : 1;
        asked < 1) {
      Form& clustered = Clustered();
      // Of a grid of one tile's height half of the CTAs would only copy.
      const bool idle = 2 * model.TilesOf(plain_.form) <= model.TilesOf(clustered);
      const auto shared =
          idle ? std::nullopt : model.TimeOf(clustered, asked, target_.lowering.cluster_ctas, true);
      const auto stays = model.TimeOf(plain_.form, 1, 1, true);
      choice.share_copies = shared && stays && shared->ms < stays->ms;
      if (choice.share_copies || stays) take(choice.share_copies ? *shared : *stays);
    }
    bool leaves = false;  // walking loses: in each round all heads' keys come from memory again
    // Where lengths stand in memory one iteration is counted for each tile, whoever takes it.
    if ((alone->uneven || !model.Exact(plain_.form)) && CanStay()) {
      std::optional<KernelTime> stays = model.TimeOf(plain_.form, 1, 1, true);
      if (stays) stays->ms += target_.model.again_share * model.again_ms;
      choice.stays = stays && stays->ms < (1 - target_.model.tune_margin) * alone->ms;
      if (choice.stays) take(*stays);
      leaves = alone->uneven && stays && stays->ms > target_.model.walking_loses * alone->ms;
    }
    const auto share = [&](Tiles& tiles, const KernelTime& whole, int64_t pack) {
      // Of rows an SM has several CTAs side by side.
      const int64_t room =
          (tiles.loops ? target_.lowering.row_ctas_wanted : 1) * target_.limits.sms;
      // … or of two rounds a third is empty: 171 tiles take as long as 264.
      const double fuller = target_.model.two_rounds_empty * static_cast<double>(whole.ctas);
      // Rows that slide are read again, and a part of one may be in the L2 still.
      const bool again = tiles.loops && ir::SlideOf(tiles.form.fn).has_value();
      const bool idle = again || 2 * whole.ctas <= room || whole.longest_binds ||
                        (whole.ctas > room && fuller <= static_cast<double>(2 * room));
      const double margin = tiles.loops ? target_.model.row_margin : target_.model.split_margin;
      // Where all find room at once CTAs share rows that only a part of finds room in.
      const bool kept = tiles.loops && whole.ctas <= room && !KeepsRows(tiles.form.fn);
      if (!target_.Has("clusters") || !(idle || kept)) return;
      const int64_t groups = most == ir::isa::kPortableClusterCtas ? ir::kMostGroups : 1;
      // Groups that wait for others to end lose more than the model says (H200, eight tiles in 16
      // CTAs each 29.9 us, in eight 21.7: fifteen clusters run at a time).
      const int64_t sms = target_.limits.sms;
      const int64_t together = (sms - target_.model.sms_beside_clusters) / most * most;
      // As many groups as there is room for, too: of one tile 15 in place of 8.
      std::vector<int64_t> counts;
      for (int64_t ctas = 2; ctas <= most; ctas *= 2) counts.push_back(ctas);
      if (const int64_t all = Fullest(whole.ctas, most); all > 2 && !tiles.loops)
        counts.push_back(all);
      const int64_t fullest = std::min(groups, together / (whole.ctas * most));
      for (int64_t g = 2; g < fullest; g *= 2) counts.push_back(g * most);
      if (fullest > 1) counts.push_back(fullest * most);
      for (const int64_t ctas : counts) {
        std::optional<KernelTime> time;
        if (ctas > most) {
          if (Divided* const divided = idle ? tiles.InGroups(ctas / most, most, target_) : nullptr)
            time = model.TimeOf(*divided, most);
        } else {
          Form* const split = tiles.InParts(ctas, target_);
          if (split == nullptr) break;
          if (!idle && !KeepsRows(split->fn)) continue;
          time = model.TimeOf(*split, 1, ctas);
        }
        if (!time || time->ms >= choice.ms || time->ms > (1 - margin) * alone->ms ||
            time->ms > alone->ms - target_.model.split_least_ms)
          continue;
        choice.ctas = ctas;
        choice.pack = pack;
        choice.share_copies = false;
        take(*time);
      }
    };
    const bool room = choice.whole_flops > 0 && alone->ctas <= target_.limits.sms;
    // (Tried on a machine with clusters. Without, nothing was measured, and gated_delta, 32 columns
    // on an A100, spills 104 + 104 bytes so and none where CTAs walk.)
    choice.once = (room || leaves) && !choice.stays && target_.Has("clusters");
    share(plain_, *alone, 1);
    choice.once = choice.once && choice.ctas == 1;
    const auto [pack, packed] = ChoosePack(model);
    if (pack > 1) {
      const std::optional<KernelTime> whole = model.TimeOf(packed->form, 1, 1);
      if (!whole) return choice;  // it does not fit
      if (whole->ms < (1 - target_.model.split_margin) * choice.ms) {
        choice.ctas = 1;
        choice.pack = pack;
        choice.share_copies = false;
        take(*whole);
      }
      share(*packed, *whole, pack);
      choice.once = choice.once && choice.pack == 1;
    }
    if (one_role && !alone->uneven) {
      if (pack > 1) TryOneRole(model, *packed, pack, most, &choice);
      TryOneRole(model, plain_, 1, most, &choice);
      if (most > 1) TryApart(model, pack > 1 ? *packed : plain_, pack, &choice);
    }
    return choice;
  }

 private:
  struct Tiles;
  // One role in program order, its CTAs side by side, in as many parts as find room.
  void TryOneRole(Question& model, Tiles& tiles, int64_t pack, int64_t most, SplitChoice* choice) {
    const std::optional<double> margin = model.MarginOfOneRole(tiles.form);
    if (!margin) return;
    const int64_t count = model.TilesOf(tiles.form), beside = tiles.form.CtasOfOneRole(target_);
    const auto fits = [&](int64_t ctas) {
      const int64_t cluster = std::min(ctas, most);
      return count * ctas <= beside * SmsOfClusters(target_, CeilDiv(cluster, beside));
    };
    std::vector<int64_t> counts = {1};
    for (int64_t ctas = 2; ctas <= most && fits(ctas); ++ctas)
      if ((ctas & (ctas - 1)) == 0 || !fits(ctas + 1)) counts.push_back(ctas);
    const int64_t groups = most == ir::isa::kPortableClusterCtas ? ir::kMostGroups : 1;
    for (int64_t g = 2; g <= groups && fits(g * most); ++g)
      if ((g & (g - 1)) == 0 || !fits((g + 1) * most)) counts.push_back(g * most);
    for (const int64_t ctas : counts) {
      // Parts are believed half as much (H200, 5 x 80/10, L 28622, D 64 in eight 118 us, 97 said).
      const double doubt = 1 / (1 - (ctas > 1 ? 2 : 1) * *margin);
      std::optional<KernelTime> time;
      if (ctas == 1) {
        time = model.TimeOf(tiles.form, 1, 1, false, beside);
      } else if (ctas <= most) {
        Form* const split = tiles.InParts(ctas, target_);
        if (split == nullptr) break;
        time = model.TimeOf(*split, 1, ctas, false, beside);
      } else if (Divided* const divided = tiles.InGroups(ctas / most, most, target_)) {
        time = model.TimeOf(*divided, most, beside);
      }
      if (!time || doubt * time->ms >= choice->ms) continue;
      choice->in_order = true;
      choice->ctas = ctas;
      choice->pack = pack;
      choice->share_copies = choice->stays = choice->once = false;
      choice->doubt = doubt;
      choice->ms = choice->doubt * time->ms;
      choice->busy = time->busy();
    }
  }

  // Parts that are no cluster: any number of CTAs that fills whole rounds of the machine, where
  // clusters leave SMs idle and wait for whole ones to end. Of products clusters were faster (H200,
  // 672x1304x36104 in five 143 us, apart 174).
  void TryApart(Question& model, Tiles& tiles, int64_t pack, SplitChoice* choice) {
    if (!target_.Has("clusters") || !model.Hangs(tiles.form)) return;
    for (const int64_t ctas : CountsApart(model.TilesOf(tiles.form))) {
      Divided* const divided = tiles.InGroups(ctas, 1, target_);
      if (divided == nullptr) break;
      const auto time = model.TimeOf(*divided, 1);
      if (!time || time->ms > (1 - target_.model.split_margin) * choice->ms) continue;
      choice->ctas = ctas;
      choice->pack = pack;
      choice->apart = true;
      choice->in_order = choice->share_copies = choice->stays = choice->once = false;
      choice->doubt = 1;
      choice->ms = time->ms;
      choice->busy = time->busy();
    }
  }
  // Those that take fewer rounds, of so many times less each, than any smaller number. (H200, one
  // query, 270 tiles: 190 us by one CTA each, three rounds; in three 160, seven rounds of a third.)
  std::vector<int64_t> CountsApart(int64_t tiles) const {
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

  // A function, and what becomes of it in parts.
  struct Tiles {
    explicit Tiles(ir::Function fn, std::optional<ir::Function> rows = {})
        : form(std::move(fn)), loops(std::move(rows)) {}
    Form form;
    const std::optional<ir::Function> loops;  // of rows, before they were unrolled
    Form* InParts(int64_t ctas, const ir::Target& target) {
      const std::lock_guard<std::mutex> lock(mutex);
      auto at = parts.find(ctas);
      if (at == parts.end())
        at = parts
                 .emplace(ctas,
                          loops ? SplitRows(*loops, ctas, target) : Split(form.fn, ctas, target))
                 .first;
      return at->second.get();
    }
    Divided* InGroups(int64_t count, int64_t cluster, const ir::Target& target) {
      const std::lock_guard<std::mutex> lock(mutex);
      auto at = groups.find({count, cluster});
      if (at == groups.end())
        at = groups.emplace(std::pair(count, cluster), Divide(form.fn, count, cluster, target))
                 .first;
      return at->second.get();
    }

   private:
    std::mutex mutex;                                          // of what follows
    std::map<int64_t, FormPtr> parts;                          // by CTAs; null: an obstacle
    std::map<std::pair<int64_t, int64_t>, DividedPtr> groups;  // and CTAs of each; likewise
  };

  // The most CTAs for each of so many tiles that run at a time: 38 tiles in three are 114, in two
  // 76 and in four 152, which are two rounds.
  int64_t Fullest(int64_t tiles, int64_t most) const {
    for (int64_t ctas = most; ctas > 2; --ctas)
      if (tiles * ctas <= SmsOfClusters(target_, ctas)) return ctas;
    return 2;
  }

  Form& Clustered() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!clustered_) clustered_ = Cluster(fn(), target_.lowering.cluster_ctas);
    return *clustered_;
  }

  // May CTAs walk over its tiles?
  bool CanStay() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!can_stay_) {
      ir::Function walks = fn();
      can_stay_ = !ir::PersistTiles(walks, target_.limits.sms);
    }
    return *can_stay_;
  }

  // As many instances in a tile as leave the fewest tiles; 1: as it is.
  std::pair<int64_t, Tiles*> ChoosePack(Question& model) {
    std::pair<int64_t, Tiles*> best = {1, nullptr};
    int64_t fewest = model.TilesOf(plain_.form);
    for (int64_t heads = 2; heads <= ir::kMostPacked; heads *= 2) {
      Tiles* const packed = Packed(heads);
      if (packed == nullptr) break;
      const int64_t tiles = model.TilesOf(packed->form);
      if (tiles == 0 || tiles >= fewest) continue;
      best = {heads, packed};
      fewest = tiles;
    }
    return best;
  }

  // Null: an obstacle.
  Tiles* Packed(int64_t heads) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto [at, fresh] = packed_.try_emplace(heads);
    if (fresh) {
      ir::Function packed = fn();
      if (!ir::PackRows(packed, heads)) at->second = std::make_unique<Tiles>(std::move(packed));
    }
    return at->second.get();
  }

  const ir::Target& target_;
  Tiles plain_;
  std::mutex mutex_;  // of what follows
  FormPtr clustered_;
  std::optional<bool> can_stay_;
  std::map<int64_t, std::unique_ptr<Tiles>> packed_;  // by instances; null: an obstacle
};

Forms::Forms(ir::Function fn, const ir::Target& target, std::optional<ir::Function> loops)
    : kept_(std::make_unique<Kept>(std::move(fn), target, std::move(loops))) {}
Forms::Forms(Forms&&) noexcept = default;
Forms::~Forms() = default;
const ir::Function& Forms::fn() const { return kept_->fn(); }
const ir::Function* Forms::InParts(int64_t ctas) { return kept_->InParts(ctas); }
SplitChoice Forms::Choose(const Bindings& names, const RowStarts& row_starts, int64_t most,
                          const ShapeOf& shape_of, bool one_role) {
  return kept_->Choose(names, row_starts, most, shape_of, one_role);
}

SplitChoice ChooseSplit(const ir::Function& fn, const ir::Target& target, const Bindings& names,
                        const RowStarts& row_starts, int64_t most, const ShapeOf& shape_of,
                        std::optional<ir::Function> loops) {
  return Forms(fn, target, std::move(loops)).Choose(names, row_starts, most, shape_of);
}

namespace {

std::optional<KernelTime> TimeOfParts(const ir::Function& fn, const ir::Target& target,
                                      const Bindings& names, const RowStarts& row_starts,
                                      int64_t parts, int64_t one_role) {
  const ShapeOf none;
  Question model(fn, target, names, row_starts, none);
  constexpr int64_t kCluster = ir::isa::kPortableClusterCtas;
  if (parts > kCluster) {
    if (const DividedPtr divided = Divide(fn, parts / kCluster, kCluster, target))
      return model.TimeOf(*divided, kCluster, one_role);
  } else if (const FormPtr form =
                 parts > 1 ? Split(fn, parts, target) : std::make_unique<Form>(fn)) {
    return model.TimeOf(*form, 1, parts, false, one_role);
  }
  return std::nullopt;
}

}  // namespace

double TimeInParts(const ir::Function& fn, const ir::Target& target, const Bindings& names,
                   const RowStarts& row_starts, int64_t parts) {
  const std::optional<KernelTime> time = TimeOfParts(fn, target, names, row_starts, parts, 0);
  return time ? time->ms : 0;
}

double TimeApart(const ir::Function& fn, const ir::Target& target, const Bindings& names,
                 const RowStarts& row_starts, int64_t parts) {
  const ShapeOf none;
  Question model(fn, target, names, row_starts, none);
  const DividedPtr divided = Divide(fn, parts, 1, target);
  const auto time = divided ? model.TimeOf(*divided, 1) : std::nullopt;
  return time ? time->ms : 0;
}

std::optional<KernelTime> TimeInOrder(const ir::Function& fn, const ir::Target& target,
                                      const Bindings& names, const RowStarts& row_starts,
                                      int64_t parts) {
  return TimeOfParts(fn, target, names, row_starts, parts, CtasOfOneRole(fn, target));
}

}  // namespace tilec::scheduler
