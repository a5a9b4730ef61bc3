// SPDX-License-Identifier: Apache-2.0
#include "api/tune.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "api/ahead.h"
#include "api/descent.h"
#include "api/diagnostics.h"
#include "api/split.h"
#include "api/tune_facts.h"
#include "api/tune_memory.h"
#include "api/tune_programs.h"
#include "api/tune_space.h"
#include "backend/ptxas.h"

namespace tilec::api {

namespace {

constexpr size_t kLowered = 6;       // points that are lowered, besides the default
constexpr size_t kTried = 20;        // points whose lowering is tried
constexpr size_t kTriedForFit = 60;  // … while none fits
constexpr size_t kInVain = 6;        // points in a row that are no better than the best
constexpr double kAsGood = 0.02;     // what the model cannot tell apart
constexpr double kWaste = 0.05;      // steps of work done in vain
constexpr size_t kAsked = 4;         // programs that ptxas is asked of
constexpr size_t kAskedSmaller = 8;  // … where those and the default spill
constexpr double kAround = 0.35;     // of a time outside of loops: as odd as any

class Search {
 public:
  explicit Search(const TuneQuestion& question)
      : q_(question), space_(question), programs_(space_) {}

  TuneChoice Run() {
    TuneChoice choice;
    choice.why_not = space_.MakeAxes(&choice.fails);
    if (!choice.why_not.empty()) return choice;
    const Point& standard = space_.standard();
    Descend(
        space_.axes(), standard, q_.options.choosing_threads,
        [&](const Point& p) { return space_.Rate(p); },
        [&](const Point& p) { (void)space_.RatingOf(p); });

    for (const Point& form : space_.forms()) (void)space_.Rate(form);
    choice.rated = space_.rated().size();
    for (const auto& [point, rating] : space_.rated())
      if (rating.ms && (least_flops_ == 0 || rating.form.whole_flops < least_flops_))
        least_flops_ = rating.form.whole_flops;
    order_ = Order();
    for (size_t i = 1; i < order_.size() && i <= kRest; ++i)
      choice.rest.push_back(
          {.values = space_.ValuesOf(order_[i].point), .time = {.ms = order_[i].ms}});
    {
      const Ahead ahead(q_.options.choosing_threads, 1, std::min(order_.size(), kTried),
                        [&](size_t i) { programs_.Become(order_[i].point); });
      choice.lowered = LookOn(std::nullopt);
    }
    if (choice.lowered.empty() && leanest_) {
      if (!leanest_->is_default) choice.values = leanest_->values;
      choice.lowered.push_back(*std::move(leanest_));
    }
    if (choice.lowered.empty() || choice.lowered[0].lacks > 0) return choice;
    choice.values = Choose(choice.lowered, &choice.lowered);
    return choice;
  }

 private:
  // The next points of the order are lowered, as long as one may be better than `best_ms`. Best
  // first. Those that lack registers are passed over, and the leanest of them kept.
  std::vector<TunePoint> LookOn(std::optional<double> best_ms) {
    std::vector<TunePoint> found;
    size_t in_vain = 0, tried = 0;
    for (; next_ < order_.size(); ++next_) {
      const Candidate& candidate = order_[next_];
      const bool fits = !found.empty() || !leanest_;
      if (found.size() > kLowered || in_vain >= kInVain || ++tried > (fits ? kTried : kTriedForFit))
        break;
      if (best_ms && candidate.ms > (1 + kAsGood) * *best_ms) break;
      const bool is_default = next_ == 0;
      std::optional<TunePoint> lowered =
          programs_.Lower(candidate.point, space_.forms().count(candidate.point) > 0);
      if (!lowered || !IsTime(lowered->time.ms)) continue;
      lowered->is_default = is_default;
      lowered->time.ms *= Hanging(candidate.point);
      if (lowered->lacks > 0) {
        if (!leanest_ || lowered->lacks < leanest_->lacks) leanest_ = std::move(lowered);
        continue;
      }
      ++in_vain;
      if (is_default) default_ms_ = lowered->time.ms;
      if (is_default || !best_ms || lowered->time.ms < *best_ms) {
        best_ms = lowered->time.ms;
        in_vain = 0;
      }
      found.push_back(std::move(*lowered));
    }
    Sort(&found);
    return found;
  }
  static void Sort(std::vector<TunePoint>* points) {
    std::stable_sort(points->begin(), points->end(), [](const TunePoint& a, const TunePoint& b) {
      return std::tie(a.time.ms, a.time.cycles_per_cta) <
             std::tie(b.time.ms, b.time.cycles_per_cta);
    });
  }
  static std::optional<double> BestOf(const std::vector<TunePoint>& sorted) {
    return sorted.empty() ? std::nullopt : std::optional(sorted[0].time.ms);
  }

  // The best point by the model, unless ptxas spills of it: then the best of the others, and of
  // what comes after them. Where all spill, the default too, one that is smaller; the defaults
  // stand if those spill as well.
  frontend::Values Choose(std::vector<TunePoint> points, std::vector<TunePoint>* lowered) {
    bool default_spills = false;
    while (!points.empty()) {
      const auto best = points.begin() + (&Nearest(points) - points.data());
      const bool better = !default_ms_ || best->time.ms < (1 - Margin(*best)) * *default_ms_;
      if (!best->is_default && !better && !default_spills) {
        const auto standard = std::find_if(points.begin(), points.end(),
                                           [](const TunePoint& p) { return p.is_default; });
        if (standard == points.end() || Assembles(*standard)) return {};
        default_spills = true;
        points.erase(standard);
        continue;
      }
      if (Assembles(*best)) return best->is_default ? frontend::Values() : std::move(best->values);
      default_spills = default_spills || best->is_default;
      points.erase(best);
      if (questions_ >= most_questions_) continue;
      for (TunePoint& more : LookOn(BestOf(points))) {
        lowered->push_back(more);
        points.push_back(std::move(more));
      }
      Sort(&points);
    }
    return default_spills ? Smaller(lowered) : frontend::Values();
  }

  // What is smaller than the default in one tune, the best by bounds first.
  frontend::Values Smaller(std::vector<TunePoint>* lowered) {
    std::vector<std::pair<double, Point>> smaller;
    for (size_t a = 0; a < space_.axes().size(); ++a)
      for (size_t i = 0; i < space_.axes()[a].standard; ++i) {
        Point point = space_.standard();
        point[a] = i;
        if (const auto ms = space_.Rate(point)) smaller.emplace_back(*ms * Hanging(point), point);
      }
    std::sort(smaller.begin(), smaller.end());
    most_questions_ = questions_ + kAskedSmaller;
    const auto own = std::find_if(lowered->begin(), lowered->end(),
                                  [](const TunePoint& p) { return p.is_default; });
    if (own == lowered->end() || Assembles(*own)) return {};  // so many others were asked before
    for (const auto& [ms, point] : smaller) {
      if (questions_ >= most_questions_) break;
      std::optional<TunePoint> tried = programs_.Lower(point, false);
      if (!tried || !IsTime(tried->time.ms) || !Assembles(*tried)) continue;
      tried->time.ms *= Hanging(point);
      lowered->push_back(*tried);
      return std::move(tried->values);
    }
    return {};
  }

  // Does ptxas take the program of a point, and spills nothing? Yes where nobody can be asked.
  bool Assembles(const TunePoint& point) {
    if (q_.options.ptxas.empty()) return true;
    const Point at = space_.PointOf(point.values);
    if (const auto known = answers_.find(at); known != answers_.end()) return known->second;
    return ++questions_ <= most_questions_ && (answers_[at] = Ask(point));
  }
  bool Ask(const TunePoint& point) {
    PipelineOptions options = q_.options;
    options.crash_dir.clear();
    Call call = q_.call;
    for (const auto& [name, value] : point.values) call.statics[name] = call.all[name] = value;
    (void)ChooseForm(q_.loaded, q_.signature, options, &call);
    DiagSink quiet;
    const auto image = CompileCall(q_.loaded, q_.signature.kernel, call, options, {}, quiet);
    if (!image.ok()) return false;
    // What is solved to the end may not fit where the first answer did.
    const bool lost = std::any_of(quiet.all().begin(), quiet.all().end(), [](const Diagnostic& d) {
      return std::string_view(d.def->code) == "R587";
    });
    if (lost && point.by_schedule && ir::InTensorMemory(q_.target.matrix_unit.kind)) return false;
    const auto clean = [&](const backend::KernelImage& launch) {
      const auto report = backend::Assemble(launch.ptx, launch.target, options.ptxas, quiet);
      return report.ok() && report->spill_store_bytes + report->spill_load_bytes == 0 &&
             report->Serialized().empty();
    };
    return clean(*image) && std::all_of(image->before.begin(), image->before.end(), clean);
  }

  // How far a point is from odd: little done in vain by tiles that hang over an edge, then few CTAs
  // for each tile, tunes at their defaults, round values.
  using Merit = std::tuple<int64_t, int64_t, size_t, int64_t>;
  Merit MeritOf(const Point& point) const {
    size_t defaults = 0;
    int64_t round = 0;
    for (size_t a = 0; a < space_.axes().size(); ++a) {
      defaults += point[a] == space_.axes()[a].standard;
      round += std::gcd(space_.axes()[a].values[point[a]], int64_t{128});
    }
    const int64_t parts = space_.rated().at(point).form.ctas;
    return {-static_cast<int64_t>(Waste(point) / kWaste), -parts, defaults, round};
  }
  // Work of tiles that hang over edges, as a share of the least that any point does.
  double Waste(const Point& point) const {
    return least_flops_ > 0 ? space_.rated().at(point).form.whole_flops / least_flops_ - 1 : 0;
  }
  double Hanging(const Point& point) const {
    const double waste = std::min(1.0, Waste(point)) * space_.rated().at(point).form.busy;
    return 1 + q_.target.model.hanging_share * waste;
  }

  struct Candidate {
    double ms;
    int64_t step;  // of kAsGood above the best
    Merit merit;
    Point point;
  };
  // What bounds say: the default, then by steps that they can tell apart, the least odd first.
  std::vector<Candidate> Order() const {
    const Point& standard = space_.standard();
    std::vector<Candidate> order;
    double best = 0;
    for (const auto& [point, rating] : space_.rated())
      if (rating.ms) {
        const double ms = *rating.ms * Hanging(point);
        if (best == 0 || ms < best) best = ms;
        if (point != standard) order.push_back({ms, 0, MeritOf(point), point});
      }
    for (Candidate& candidate : order)
      candidate.step = static_cast<int64_t>(std::floor((candidate.ms / best - 1) / kAsGood));
    std::stable_sort(order.begin(), order.end(), [](const Candidate& a, const Candidate& b) {
      return std::tie(a.step, b.merit, a.ms) < std::tie(b.step, a.merit, b.ms);
    });
    order.insert(order.begin(), {0, 0, {}, standard});
    return order;
  }

  // Of those as good as the first, the least odd one.
  const TunePoint& Nearest(const std::vector<TunePoint>& points) const {
    const TunePoint* best = nullptr;
    for (const TunePoint& point : points) {
      if (point.time.ms > (1 + kAsGood) * points.front().time.ms) break;
      if (best == nullptr ||
          MeritOf(space_.PointOf(point.values)) > MeritOf(space_.PointOf(best->values)))
        best = &point;
    }
    return *best;
  }

  // Least for loops of copies and products alone, and for unequal tiles that CTAs walk over (H200,
  // D = 64, 512 causal queries: 49.1 and 43.2 us, by the model 43.4 and 37.6); a tenth for rows.
  double Margin(const TunePoint& point) {
    const double least = q_.target.model.tune_margin, more = q_.target.model.tune_margin_of_more;
    const TuneSpace::Rating* const rated = space_.Rated(space_.PointOf(point.values));
    if (rated && rated->form.stays && point.time.ctas <= q_.target.limits.sms) return least;
    DiagSink quiet;
    const Result<Cleaned> clean = space_.CleanAt(q_.call.statics, quiet);
    if (clean.ok() && clean->loops && point.split > 1) return q_.target.model.row_margin;
    if (clean.ok() && !DoesMore(clean->fn)) return least;
    // Of solved turns and CTAs that stay the model knows more than of what is around, and than of
    // products that wait across lanes (H200, attention of 8 bits, 64 heads of 8192, 192 x 64: 3125
    // us where 2581 were said, the default 2395 where 2767 were).
    frontend::Values statics;
    const TuneMemory::Known* known = space_.At(space_.PointOf(point.values), &statics);
    if (!point.by_schedule || point.time.ctas > q_.target.limits.sms || known == nullptr ||
        known->forms == nullptr || AwaitsReductions(known->forms->fn()))
      return more;
    const double around = (1 - point.time.loop_share) / kAround;
    return least + (more - least) * std::clamp(around, 0.0, 1.0);
  }

  const TuneQuestion q_;
  TuneSpace space_;
  TunePrograms programs_;
  double least_flops_ = 0;
  std::vector<Candidate> order_;      // what bounds say, the default first …
  size_t next_ = 0;                   // … of which so many were looked at
  std::optional<TunePoint> leanest_;  // of those that are taken to spill
  std::optional<double> default_ms_;
  size_t questions_ = 0, most_questions_ = kAsked;  // to ptxas
  std::map<Point, bool> answers_;
};

}  // namespace

TuneChoice ChooseTunes(const Loaded& loaded, const frontend::Signature& signature, const Call& call,
                       const PipelineOptions& options, const Remembered& from) {
  std::string key;
  if (from.store != nullptr) {
    key = TuneKey(loaded, signature, call, options);
    if (auto values = KeptTunes(*from.store, key)) return {.values = *std::move(values)};
  }
  DiagSink quiet;
  TuneChoice choice;
  const Result<Machine> machine = MachineOf(options, quiet);
  if (!machine.ok()) return choice;
  TuneMemory own;
  PipelineOptions with = options;
  with.machine = *machine;  // read once, not for every point
  TuneMemory& memory = from.memory ? *from.memory : own;
  choice = Search({loaded, signature, call, with, **machine, memory}).Run();
  if (from.store != nullptr && choice.why_not.empty())
    KeepTunes(*from.store, key, signature.kernel, choice.values);
  return choice;
}

frontend::Values TunesFor(const Loaded& loaded, const frontend::Signature& signature,
                          const Call& call, const PipelineOptions& options, const Remembered& from,
                          DiagSink& diags) {
  if (options.tune == "default") return {};
  if (loaded.schedule_file >= 0) return {};  // a schedule is for one choice of tiles
  bool open = false;
  for (const frontend::TuneInfo& tune : signature.tunes) open = open || IsOpen(tune, call);
  if (!open) return {};
  TuneChoice choice = ChooseTunes(loaded, signature, call, options, from);
  if (!choice.why_not.empty() && !choice.fails)  // else whoever compiles it says so
    diags.Report(kTuneFallsBack, Span{}, choice.why_not);
  return std::move(choice.values);
}

}  // namespace tilec::api
