// SPDX-License-Identifier: Apache-2.0
#include "api/tune.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>

#include "api/ahead.h"
#include "api/descent.h"
#include "api/diagnostics.h"
#include "api/emitted_periods.h"
#include "api/schedule_names.h"
#include "api/split.h"
#include "api/tune_facts.h"
#include "api/tune_forms.h"
#include "api/tune_memory.h"
#include "backend/ptxas.h"
#include "ir/count_work.h"
#include "ir/isa.h"
#include "ir/lower/columns_wanted.h"
#include "ir/lower/filled.h"
#include "ir/lower/slides.h"
#include "ir/lower/widest_product.h"
#include "ir/passes/defer_unlikely.h"
#include "ir/passes/pack_rows.h"
#include "ir/passes/split_reductions.h"
#include "scheduler/copy_lines.h"
#include "scheduler/split_choice.h"

namespace tilec::api {

namespace {

constexpr size_t kLowered = 6;           // points that are lowered, besides the default
constexpr size_t kTried = 20;            // points whose lowering is tried
constexpr size_t kTriedForFit = 60;      // … while none fits
constexpr size_t kInVain = 6;            // points in a row that are no better than the best
constexpr double kAsGood = 0.02;         // what the model cannot tell apart
constexpr double kWaste = 0.05;          // steps of work done in vain
constexpr size_t kAsked = 4;             // programs that ptxas is asked of
constexpr size_t kAskedSmaller = 8;      // … where those and the default spill
constexpr double kAround = 0.35;         // of a time outside of loops: as odd as any
constexpr double kThroughRegisters = 2;  // bounds do not say what taking sums apart costs

bool IsOpen(const frontend::TuneInfo& tune, const Call& call) {
  return call.statics.count(tune.name) == 0 && !tune.candidates.empty();
}

class Search {
 public:
  Search(const Loaded& loaded, const frontend::Signature& signature, const Call& call,
         const PipelineOptions& options, const ir::Target& target, TuneMemory& memory)
      : loaded_(loaded),
        signature_(signature),
        call_(call),
        asked_(options),
        options_(options),
        target_(target),
        memory_(memory) {
    options_.crash_dir.clear();
    options_.first_schedules = true;
    options_.prove = false;
    options_.solutions = nullptr;  // found faster than read
    options_.ptxas.clear();
    for (const auto& [name, value] : call.all)
      if (const auto* i = std::get_if<int64_t>(&value)) names_[name] = *i;
    for (const auto& [name, value] : call.launch.scalars)
      if (const auto* i = std::get_if<int64_t>(&value)) names_[name] = *i;
  }

  TuneChoice Run() {
    TuneChoice choice;
    choice.why_not = MakeAxes(&choice.fails);
    if (!choice.why_not.empty()) return choice;
    for (const Axis& axis : axes_) standard_.push_back(axis.standard);
    const Point standard = standard_;
    forms_ = FormPoints(loaded_, signature_.kernel, call_, axes_);
    Descend(
        axes_, standard, asked_.choosing_threads, [&](const Point& p) { return Rate(p); },
        [&](const Point& p) { (void)RatingOf(p); });

    for (const Point& form : forms_) (void)Rate(form);
    choice.rated = rated_.size();
    for (const auto& [point, rating] : rated_)
      if (rating.ms && (least_flops_ == 0 || rating.form.whole_flops < least_flops_))
        least_flops_ = rating.form.whole_flops;
    order_ = Order(standard);
    for (size_t i = 1; i < order_.size() && i <= kRest; ++i)
      choice.rest.push_back({.values = ValuesOf(order_[i].point), .time = {.ms = order_[i].ms}});
    {
      const Ahead ahead(asked_.choosing_threads, 1, std::min(order_.size(), kTried),
                        [&](size_t i) { Become(order_[i].point); });
      choice.lowered = LookOn(std::nullopt);
    }
    if (choice.lowered.empty() && leanest_) {
      if (!leanest_->is_default) choice.values = leanest_->values;
      choice.lowered.push_back(*std::move(leanest_));
    }
    if (choice.lowered.empty() || choice.lowered[0].lacks > 0) return choice;
    choice.values = Choose(choice.lowered, standard, &choice.lowered);
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
      std::optional<TunePoint> lowered = Lower(candidate.point, forms_.count(candidate.point) > 0);
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
  frontend::Values Choose(std::vector<TunePoint> points, const Point& standard,
                          std::vector<TunePoint>* lowered) {
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
    return default_spills ? Smaller(standard, lowered) : frontend::Values();
  }

  // What is smaller than the default in one tune, the best by bounds first.
  frontend::Values Smaller(const Point& standard, std::vector<TunePoint>* lowered) {
    std::vector<std::pair<double, Point>> smaller;
    for (size_t a = 0; a < axes_.size(); ++a)
      for (size_t i = 0; i < axes_[a].standard; ++i) {
        Point point = standard;
        point[a] = i;
        if (const auto ms = Rate(point)) smaller.emplace_back(*ms * Hanging(point), point);
      }
    std::sort(smaller.begin(), smaller.end());
    most_questions_ = questions_ + kAskedSmaller;
    const auto own = std::find_if(lowered->begin(), lowered->end(),
                                  [](const TunePoint& p) { return p.is_default; });
    if (own == lowered->end() || Assembles(*own)) return {};  // so many others were asked before
    for (const auto& [ms, point] : smaller) {
      if (questions_ >= most_questions_) break;
      std::optional<TunePoint> tried = Lower(point, false);
      if (!tried || !IsTime(tried->time.ms) || !Assembles(*tried)) continue;
      tried->time.ms *= Hanging(point);
      lowered->push_back(*tried);
      return std::move(tried->values);
    }
    return {};
  }

  // Does ptxas take the program of a point, and spills nothing? Yes where nobody can be asked.
  bool Assembles(const TunePoint& point) {
    if (asked_.ptxas.empty()) return true;
    const Point at = PointOf(point.values);
    if (const auto known = answers_.find(at); known != answers_.end()) return known->second;
    return ++questions_ <= most_questions_ && (answers_[at] = Ask(point));
  }
  bool Ask(const TunePoint& point) {
    PipelineOptions options = asked_;
    options.crash_dir.clear();
    Call call = call_;
    for (const auto& [name, value] : point.values) call.statics[name] = call.all[name] = value;
    (void)ChooseForm(loaded_, signature_, options, &call);
    DiagSink quiet;
    const auto image = CompileCall(loaded_, signature_.kernel, call, options, {}, quiet);
    if (!image.ok()) return false;
    // What is solved to the end may not fit where the first answer did.
    const bool lost = std::any_of(quiet.all().begin(), quiet.all().end(), [](const Diagnostic& d) {
      return std::string_view(d.def->code) == "R587";
    });
    if (lost && point.by_schedule && ir::InTensorMemory(target_.matrix_unit.kind)) return false;
    const auto clean = [&](const backend::KernelImage& launch) {
      const auto report = backend::Assemble(launch.ptx, launch.target, options.ptxas, quiet);
      return report.ok() && report->spill_store_bytes + report->spill_load_bytes == 0 &&
             report->Serialized().empty();
    };
    return clean(*image) && std::all_of(image->before.begin(), image->before.end(), clean);
  }
  bool Open(const frontend::TuneInfo& tune) const { return IsOpen(tune, call_); }

  // Sizes beyond any machine overflow what the model counts in.
  static bool IsTime(double ms) { return std::isfinite(ms) && ms > 0; }

  // How far a point is from odd: little done in vain by tiles that hang over an edge, then few CTAs
  // for each tile, tunes at their defaults, round values.
  using Merit = std::tuple<int64_t, int64_t, size_t, int64_t>;
  Merit MeritOf(const Point& point) const {
    size_t defaults = 0;
    int64_t round = 0;
    for (size_t a = 0; a < axes_.size(); ++a) {
      defaults += point[a] == axes_[a].standard;
      round += std::gcd(axes_[a].values[point[a]], int64_t{128});
    }
    const int64_t parts = rated_.at(point).form.ctas;
    return {-static_cast<int64_t>(Waste(point) / kWaste), -parts, defaults, round};
  }
  // Work of tiles that hang over edges, as a share of the least that any point does.
  double Waste(const Point& point) const {
    return least_flops_ > 0 ? rated_.at(point).form.whole_flops / least_flops_ - 1 : 0;
  }
  double Hanging(const Point& point) const {
    const double waste = std::min(1.0, Waste(point)) * rated_.at(point).form.busy;
    return 1 + target_.model.hanging_share * waste;
  }

  struct Rating {
    std::optional<double> ms;  // nullopt: its facts do not hold, or it does not fit
    scheduler::SplitChoice form;
  };
  struct Candidate {
    double ms;
    int64_t step;  // of kAsGood above the best
    Merit merit;
    Point point;
  };
  // What bounds say: the default, then by steps that they can tell apart, the least odd first.
  std::vector<Candidate> Order(const Point& standard) const {
    std::vector<Candidate> order;
    double best = 0;
    for (const auto& [point, rating] : rated_)
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
      if (best == nullptr || MeritOf(PointOf(point.values)) > MeritOf(PointOf(best->values)))
        best = &point;
    }
    return *best;
  }
  Point PointOf(const frontend::Values& values) const {
    Point point;
    for (const Axis& axis : axes_) {
      const auto at = std::lower_bound(axis.values.begin(), axis.values.end(),
                                       std::get<int64_t>(values.at(axis.name)));
      point.push_back(static_cast<size_t>(std::distance(axis.values.begin(), at)));
    }
    return point;
  }

  // The open tunes, with what they are by default. "" or why there is nothing to choose by.
  std::string MakeAxes(bool* fails) {
    for (const frontend::DimInfo& dim : signature_.dims)
      if (names_.count(dim.name) == 0) return fmt::format("dim `{}` has no value", dim.name);
    DiagSink quiet;
    const Result<Cleaned> clean = CleanAt(call_.statics, quiet);
    *fails = !clean.ok();
    if (*fails) return quiet.all().empty() ? "it does not compile" : quiet.all()[0].message;
    for (const frontend::TuneInfo& tune : signature_.tunes) {
      if (!Open(tune)) continue;
      Axis axis{.name = tune.name};
      std::set<int64_t> values;
      for (const frontend::ConstValue& value : tune.candidates)
        if (const auto* i = std::get_if<int64_t>(&value)) values.insert(*i);
      const auto standard = clean->fn.statics.find(tune.name);
      if (standard == clean->fn.statics.end() || values.empty()) continue;
      values.insert(standard->second);
      axis.values.assign(values.begin(), values.end());
      axis.standard =
          static_cast<size_t>(std::distance(values.begin(), values.find(standard->second)));
      axes_.push_back(std::move(axis));
    }
    return "";
  }

  frontend::Values ValuesOf(const Point& point) const {
    frontend::Values values;
    for (size_t a = 0; a < axes_.size(); ++a) values[axes_[a].name] = axes_[a].values[point[a]];
    return values;
  }

  Result<Cleaned> CleanAt(const frontend::Values& statics, DiagSink& quiet) const {
    Call call = call_;
    call.statics = statics;
    TRY(ir::Function fn, MakeTileIr(loaded_, signature_.kernel, call, nullptr, quiet));
    return Clean(loaded_, std::move(fn), options_, quiet);
  }

  static std::string TextOf(const frontend::Values& values) {
    std::string text;
    for (const auto& [name, value] : values)
      text += fmt::format("{}={} ", name, frontend::ToText(value));
    return text;
  }

  // The kernel at a point; without forms if its facts do not allow it.
  const TuneMemory::Known* At(const Point& point, frontend::Values* statics) const {
    DiagSink quiet;
    *statics = call_.statics;
    frontend::Values all = call_.all;
    for (const auto& [name, value] : ValuesOf(point)) (*statics)[name] = all[name] = value;
    if (!frontend::CheckFacts(*loaded_.program, signature_.kernel, all, quiet).ok()) return nullptr;
    return &memory_.points.At(TextOf(*statics), [&](TuneMemory::Known& known) {
      Result<Cleaned> clean = CleanAt(*statics, quiet);
      if (!clean.ok()) return;
      known.too_wide = ir::WantsTooWideInstruction(clean->fn, target_);
      known.longer = CutLines(clean->fn, target_);
      if (ir::WantsTooManyColumns(clean->fn, target_)) known.longer *= kThroughRegisters;
      known.forms = std::make_unique<scheduler::Forms>(std::move(clean->fn), target_,
                                                       std::move(clean->loops));
    });
  }

  std::optional<double> Rate(const Point& point) {
    const auto seen = rated_.find(point);
    if (seen != rated_.end()) return seen->second.ms;
    if (rated_.size() >= kMostRated) return std::nullopt;
    return (rated_[point] = RatingOf(point)).ms;
  }
  // Found by whoever asks first: threads that look ahead, or the search itself.
  const Rating& RatingOf(const Point& point) const {
    return ratings_.At(point, [&](Rating& rating) {
      frontend::Values statics;
      const TuneMemory::Known* known = At(point, &statics);
      if (known == nullptr || known->forms == nullptr || known->too_wide) return;
      const bool open = options_.schedule == kSolve;
      rating.form = known->forms->Choose(
          names_, call_.row_starts, open ? ir::isa::kPortableClusterCtas : 1,
          [&](const auto& fn, const auto& work) { return LikelyShape(fn, work, target_); }, open);
      if (IsTime(rating.form.ms)) rating.ms = rating.form.ms * known->longer;
    });
  }

  // Least for loops of copies and products alone, and for unequal tiles that CTAs walk over (H200,
  // D = 64, 512 causal queries: 49.1 and 43.2 us, by the model 43.4 and 37.6); a tenth for rows.
  double Margin(const TunePoint& point) {
    const double least = target_.model.tune_margin, more = target_.model.tune_margin_of_more;
    const auto rated = rated_.find(PointOf(point.values));
    if (rated != rated_.end() && rated->second.form.stays && point.time.ctas <= target_.limits.sms)
      return least;
    DiagSink quiet;
    const Result<Cleaned> clean = CleanAt(call_.statics, quiet);
    if (clean.ok() && clean->loops && point.split > 1) return target_.model.row_margin;
    if (clean.ok() && !DoesMore(clean->fn)) return least;
    // Of solved turns and CTAs that stay the model knows more than of what is around.
    if (!point.by_schedule || point.time.ctas > target_.limits.sms) return more;
    const double around = (1 - point.time.loop_share) / kAround;
    return least + (more - least) * std::clamp(around, 0.0, 1.0);
  }
  std::optional<TunePoint> Lower(const Point& point, bool standard) {
    const auto rating = rated_.find(point);
    const int64_t split = rating == rated_.end() ? 1 : rating->second.form.ctas;
    // Of more than a cluster its groups are lowered, and what puts them together is predicted.
    const int64_t cluster = rating == rated_.end() ? 1 : ClusterOf(rating->second.form);
    auto out = Lower(point, standard, cluster);
    if (out && split > cluster) {
      if (out->awaits && !standard) return std::nullopt;
      out->split = split;
      out->time.ms = rating->second.form.ms;
    }
    if (split == 1 || (out && out->lacks <= 0)) return out;
    auto whole = Lower(point, standard, 1);
    return !out || (whole && whole->lacks < out->lacks) ? whole : out;
  }
  std::optional<TunePoint> Lower(const Point& point, bool standard, int64_t split) {
    TunePoint out;
    const PipelineOptions with = FormOf(point, split);
    const TuneMemory::Program* program = Become(point, with);
    if (program == nullptr) return std::nullopt;
    out.values = ValuesOf(point);
    const ir::Function& clean = program->clean;
    const ir::Function& warps = program->warps;
    const ir::Filling& filling = program->filling;
    if (filling.lacks > 0 && !filling.at_once && !standard) return std::nullopt;
    // Shorter turns of a row that slides are said to take less, and take more (H200: softmax of
    // 7634 x 33033 bf16 in turns of a sixteenth 1582 us, of 12288 367; rmsnorm of 194 x 61067 in
    // two CTAs that walk over eight sixteenths each 36.3, of 8192 28.5).
    if (const auto slide = ir::SlideOf(clean); !standard && slide && slide->tile < StandardSlide())
      return std::nullopt;
    // An author tried the default where products fly.
    if (filling.at_once && !(standard && !asked_.ptxas.empty())) out.lacks = filling.lacks;
    const ir::WorkCount work = ir::CountWork(clean, names_, target_, {.edges = false});
    const scheduler::Asked copies =
        scheduler::AskedByCopies(clean, target_, call_.row_starts, names_);
    const ir::Target target =
        scheduler::SharedBy(target_, work.instances, copies.Times(work.instances, target_));
    auto periods = scheduler::BoundPeriods(clean, target);
    if (!periods) periods.emplace();
    const double asks = AskedFor(warps) / copies.boxes;  // its copies are of whole boxes
    const ir::Target asked =
        scheduler::SharedBy(target_, work.instances, copies.Times(work.instances, target_) * asks);
    AdoptEmitted({clean, warps, program->how, asked, AskedFor(warps) < 1}, &*periods);
    auto shape = ShapeOf(warps, target_, names_, copies, LikelyShape(clean, work, target_));
    shape.in_order = IsSequential(with.schedule);
    if (copies.written <= 1) shape.leaves += StoredByThreads(warps, target_);
    out.awaits = shape.awaits && !shape.in_order;
    out.time = scheduler::EstimateTime(clean, target_, work, *periods, shape);
    out.time.ms *= CutLines(clean, target_);
    if (const auto at = rated_.find(point); at != rated_.end())
      out.time.ms *= at->second.form.doubt;
    out.split = split;
    out.pack = with.pack;
    out.lowered = true;
    out.by_schedule = program->how.by_schedule;
    return out;
  }
  // Columns of a turn of the default's rows that slide; 0: they do not.
  int64_t StandardSlide() {
    std::call_once(standard_slide_once_, [&] {
      DiagSink quiet;
      const Result<Cleaned> clean = CleanAt(call_.statics, quiet);
      if (!clean.ok()) return;
      // Of a row that is one tile no turns are faster. (Layernorm of 140 x 28733 in sixteen parts
      // by four CTAs 29.3 us, as one tile 17.5; rmsnorm of 264 x 30001 26.6 and 15.7.)
      const auto slide = ir::SlideOf(clean->fn);
      standard_slide_ = slide ? slide->tile : std::numeric_limits<int64_t>::max();
    });
    return standard_slide_;
  }
  // CTAs of a cluster that share a tile.
  static int64_t ClusterOf(const scheduler::SplitChoice& form) {
    return form.apart ? 1 : std::min(form.ctas, ir::isa::kPortableClusterCtas);
  }
  // The form that a point was rated in, by `split` CTAs for each tile.
  PipelineOptions FormOf(const Point& point, int64_t split) const {
    PipelineOptions with = options_;
    with.split = split;
    const auto rating = rated_.find(point);
    if (rating == rated_.end()) return with;
    with.pack = rating->second.form.pack;
    with.share_copies = rating->second.form.share_copies;
    if (rating->second.form.in_order) with.schedule = kSequential;
    return with;
  }
  // The program of a point in one form, or null: it has none, or not in that form.
  const TuneMemory::Program* Become(const Point& point, const PipelineOptions& with) const {
    frontend::Values statics;
    const TuneMemory::Known* known = At(point, &statics);
    if (known == nullptr || known->forms == nullptr) return nullptr;
    const std::string key = fmt::format("{}{} {} {} {}", TextOf(statics), with.pack,
                                        with.share_copies, with.split, with.schedule);
    // Those that cannot but be refused are not lowered. (The default is kept, whatever it fills.)
    const bool looks = asked_.ptxas.empty() && with.pack == 1 && forms_.count(point) == 0;
    const auto find = [&](auto& program) {
      if (!looks || !FillsRegisters(known->forms->fn(), target_))
        program = LowerTo(*known, statics, with);
    };
    return memory_.programs.At(key, find).get();
  }
  void Become(const Point& point) const {
    (void)Become(point, FormOf(point, ClusterOf(rated_.at(point).form)));
  }
  std::unique_ptr<TuneMemory::Program> LowerTo(const TuneMemory::Known& known,
                                               const frontend::Values& statics,
                                               const PipelineOptions& with) const {
    auto program = std::make_unique<TuneMemory::Program>();
    const int64_t split = with.split;
    const ir::Function* const form = known.forms->InParts(with.pack > 1 ? 1 : split);
    if (form == nullptr) return nullptr;
    program->clean = *form;
    if (with.pack > 1 && (ir::PackRows(program->clean, with.pack) ||
                          (split > 1 && ir::SplitReductions(program->clean, split, target_))))
      return nullptr;
    DiagSink quiet;
    Call call = call_;
    call.statics = statics;
    auto tile = MakeTileIr(loaded_, signature_.kernel, call, nullptr, quiet);
    if (!tile.ok()) return nullptr;
    *tile = ir::Likely(*std::move(tile));
    Observation look;
    look.lowered = &program->how;
    auto warps = LowerToWarps(loaded_, std::move(*tile), with, &look, quiet);
    if (!warps.ok()) return nullptr;
    if (split > 1 && warps->launch.cluster != split) return nullptr;  // it was refused
    program->warps = *std::move(warps);
    program->filling = ir::FillingOf(program->warps, target_, !asked_.ptxas.empty());
    return program;
  }

  const Loaded& loaded_;
  const frontend::Signature& signature_;
  const Call& call_;
  const PipelineOptions& asked_;
  PipelineOptions options_;  // of what is only looked at
  const ir::Target& target_;
  TuneMemory& memory_;
  Bindings names_;
  std::vector<Axis> axes_;
  Point standard_;
  std::set<Point> forms_;  // that and the defaults beside another form
  std::map<Point, Rating> rated_;
  std::once_flag standard_slide_once_;
  int64_t standard_slide_ = 0;
  mutable FoundOnce<Rating, Point> ratings_;  // of those and of what threads looked at ahead
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
  choice = Search(loaded, signature, call, with, **machine, from.memory ? *from.memory : own).Run();
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
