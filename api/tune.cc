// SPDX-License-Identifier: Apache-2.0
#include "api/tune.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>

#include "api/diagnostics.h"
#include "ir/count_work.h"
#include "ir/warp_check/rate.h"

namespace tilec::api {

namespace {

constexpr size_t kMostRated = 600;  // points rated by bounds
constexpr size_t kLowered = 6;      // points that are lowered, besides the default
constexpr size_t kInVain = 6;       // points in a row that are no better than the best
constexpr double kMargin = 0.03;    // by which another point must beat the default
constexpr double kAsGood = 0.01;
constexpr int64_t kThreadRegisters = 128;  // assumed where no quota is set

using Point = std::vector<size_t>;  // index into each axis

struct Axis {
  std::string name;
  std::vector<int64_t> values;  // ascending
  size_t standard = 0;          // the default
};

class Search {
 public:
  Search(const Loaded& loaded, const frontend::Signature& signature, const Call& call,
         const PipelineOptions& options, const ir::Target& target)
      : loaded_(loaded), signature_(signature), call_(call), options_(options), target_(target) {
    options_.crash_dir.clear();
    options_.first_schedules = true;
    options_.solutions = nullptr;  // found faster than read
    // Waves are counted from a CTA for each tile; those that stay work through as many.
    if (options_.schedule == "solve" || options_.schedule == "solve:persistent")
      options_.schedule = "solve:once";
    for (const auto& [name, value] : call.all)
      if (const auto* i = std::get_if<int64_t>(&value)) names_[name] = *i;
    for (const auto& [name, value] : call.launch.scalars)
      if (const auto* i = std::get_if<int64_t>(&value)) names_[name] = *i;
  }

  TuneChoice Run() {
    TuneChoice choice;
    choice.why_not = MakeAxes();
    if (!choice.why_not.empty() || axes_.empty()) return choice;
    Point standard;
    for (const Axis& axis : axes_) standard.push_back(axis.standard);
    Descend(standard);
    for (const double scale : {0.5, 2.0}) Descend(Scaled(scale));

    std::vector<std::pair<double, Point>> order;
    for (const auto& [point, ms] : rated_)
      if (ms) order.emplace_back(*ms, point);
    std::sort(order.begin(), order.end());
    choice.rated = rated_.size();
    // The default first; then the promising ones, until several in a row have brought nothing.
    order.erase(std::remove_if(order.begin(), order.end(),
                               [&](const auto& o) { return o.second == standard; }),
                order.end());
    order.insert(order.begin(), {0, standard});
    std::optional<double> default_ms, best_ms;
    size_t in_vain = 0;
    for (const auto& [bound, point] : order) {
      if (choice.lowered.size() > kLowered || in_vain >= kInVain) break;
      if (best_ms && bound > *best_ms) break;
      std::optional<TunePoint> lowered = Lower(point);
      ++in_vain;
      if (!lowered) continue;
      lowered->is_default = point == standard;
      if (lowered->is_default) default_ms = lowered->time.ms;
      if (lowered->is_default || !best_ms || lowered->time.ms < *best_ms) {
        best_ms = lowered->time.ms;
        in_vain = 0;
      }
      choice.lowered.push_back(std::move(*lowered));
    }
    std::stable_sort(choice.lowered.begin(), choice.lowered.end(),
                     [](const TunePoint& a, const TunePoint& b) { return a.time.ms < b.time.ms; });
    if (choice.lowered.empty()) return choice;
    const TunePoint& best = Nearest(choice.lowered);
    if (!best.is_default && (!default_ms || best.time.ms < (1 - kMargin) * *default_ms))
      choice.values = best.values;
    return choice;
  }

 private:
  bool Open(const frontend::TuneInfo& tune) const {
    return call_.statics.count(tune.name) == 0 && !tune.candidates.empty();
  }

  // Of those as good as the first, the one with most tunes at their defaults.
  const TunePoint& Nearest(const std::vector<TunePoint>& points) const {
    const TunePoint* best = nullptr;
    size_t kept = 0;
    for (const TunePoint& point : points) {
      if (point.time.ms > (1 + kAsGood) * points.front().time.ms) break;
      size_t same = 0;
      for (const Axis& axis : axes_)
        same += std::get<int64_t>(point.values.at(axis.name)) == axis.values[axis.standard];
      if (best == nullptr || same > kept) best = &point, kept = same;
    }
    return *best;
  }

  // The open tunes, with what they are by default. "" or why there is nothing to choose by.
  std::string MakeAxes() {
    bool any = false;
    for (const frontend::TuneInfo& tune : signature_.tunes) any = any || Open(tune);
    if (!any) return "";
    for (const frontend::DimInfo& dim : signature_.dims)
      if (names_.count(dim.name) == 0) return fmt::format("dim `{}` has no value", dim.name);
    DiagSink quiet;
    const Result<ir::Function> fn = Clean(call_.statics, quiet);
    if (!fn.ok()) return quiet.all().empty() ? "it does not compile" : quiet.all()[0].message;
    for (const frontend::TuneInfo& tune : signature_.tunes) {
      if (!Open(tune)) continue;
      Axis axis;
      axis.name = tune.name;
      std::set<int64_t> values;
      for (const frontend::ConstValue& value : tune.candidates)
        if (const auto* i = std::get_if<int64_t>(&value)) values.insert(*i);
      const auto standard = fn->statics.find(tune.name);
      if (standard == fn->statics.end() || values.empty()) continue;
      values.insert(standard->second);
      axis.values.assign(values.begin(), values.end());
      axis.standard =
          static_cast<size_t>(std::distance(values.begin(), values.find(standard->second)));
      axes_.push_back(std::move(axis));
    }
    return "";
  }

  // The point nearest to the default with all values scaled.
  Point Scaled(double scale) const {
    Point point;
    for (const Axis& axis : axes_) {
      const double wanted = scale * static_cast<double>(axis.values[axis.standard]);
      size_t best = axis.standard;
      for (size_t i = 0; i < axis.values.size(); ++i)
        if (std::abs(static_cast<double>(axis.values[i]) - wanted) <
            std::abs(static_cast<double>(axis.values[best]) - wanted))
          best = i;
      point.push_back(best);
    }
    return point;
  }

  // Along one axis after the other, each looked at from end to end, while that helps.
  void Descend(Point point) {
    std::optional<double> best = Rate(point);
    for (bool better = true; better;) {
      better = false;
      for (size_t a = 0; a < axes_.size(); ++a)
        for (size_t i = 0; i < axes_[a].values.size(); ++i) {
          Point other = point;
          other[a] = i;
          const std::optional<double> ms = Rate(other);
          if (!ms || (best && *ms >= *best)) continue;
          best = ms;
          point = other;
          better = true;
        }
    }
  }

  frontend::Values ValuesOf(const Point& point) const {
    frontend::Values values;
    for (size_t a = 0; a < axes_.size(); ++a) values[axes_[a].name] = axes_[a].values[point[a]];
    return values;
  }

  Result<ir::Function> Clean(const frontend::Values& statics, DiagSink& quiet) {
    Call call = call_;
    call.statics = statics;
    TRY(ir::Function fn, MakeTileIr(loaded_, signature_.kernel, call, nullptr, quiet));
    std::vector<ir::PassStep> steps;
    for (ir::PassId id : ir::kCleanUp) steps.push_back(ir::StepOf(id));
    return RunSteps(loaded_, std::move(fn), steps, options_, nullptr, quiet);
  }

  // The kernel at a point, if its facts allow it.
  Result<ir::Function> At(const Point& point, frontend::Values* statics) {
    DiagSink quiet;
    *statics = call_.statics;
    frontend::Values all = call_.all;
    for (const auto& [name, value] : ValuesOf(point)) (*statics)[name] = all[name] = value;
    TRY_VOID(frontend::CheckFacts(*loaded_.program, signature_.kernel, all, quiet));
    return Clean(*statics, quiet);
  }

  std::optional<double> Rate(const Point& point) {
    const auto known = rated_.find(point);
    if (known != rated_.end()) return known->second;
    if (rated_.size() >= kMostRated) return std::nullopt;
    std::optional<double>& ms = rated_[point];
    frontend::Values statics;
    const Result<ir::Function> fn = At(point, &statics);
    if (!fn.ok()) return std::nullopt;
    const auto periods = scheduler::BoundPeriods(*fn, target_);
    if (!periods) return std::nullopt;
    const ir::WorkCount work = ir::CountWork(*fn, names_, {.edges = false});
    if (work.instances == 0) return std::nullopt;
    ms = scheduler::EstimateTime(*fn, target_, work, *periods, {}).ms;
    return ms;
  }

  std::optional<TunePoint> Lower(const Point& point) {
    TunePoint out;
    frontend::Values statics;
    Result<ir::Function> clean = At(point, &statics);
    if (!clean.ok()) return std::nullopt;
    out.values = ValuesOf(point);
    auto periods = scheduler::BoundPeriods(*clean, target_);
    if (!periods) periods.emplace();
    const ir::WorkCount work = ir::CountWork(*clean, names_, {.edges = false});
    DiagSink quiet;
    Call call = call_;
    call.statics = statics;
    auto tile = MakeTileIr(loaded_, signature_.kernel, call, nullptr, quiet);
    if (!tile.ok()) return std::nullopt;
    const auto warps = LowerToWarps(loaded_, std::move(*tile), options_, nullptr, quiet);
    if (!warps.ok()) return std::nullopt;
    if (const auto rates = ir::RatesOf(*warps, target_, quiet); rates.ok())
      for (scheduler::LoopPeriod& period : *periods)
        for (const ir::LoopRate& rate : *rates) {
          const Span at = warps->ops[rate.loops.front()].at;
          if (at.file != period.at.file || at.begin != period.at.begin) continue;
          period.cycles = std::max(period.cycles, rate.Cycles());
          period.busy = std::max(period.busy, rate.busy);
        }
    out.time = scheduler::EstimateTime(*clean, target_, work, *periods, ShapeOf(*warps));
    out.lowered = true;
    return out;
  }

  scheduler::LaunchShape ShapeOf(const ir::Function& warps) const {
    scheduler::LaunchShape shape;
    if (const auto grid = Eval(warps.launch.grid, All(warps))) shape.ctas = *grid;
    for (const ir::Op& op : warps.ops)
      if (op.kind == ir::OpKind::kRole && op.i("regs") > 0) return shape;
    if (warps.launch.ctas_per_sm > 1) {
      shape.per_sm = warps.launch.ctas_per_sm;
      return shape;
    }
    const int64_t threads = 32 * warps.launch.warps;
    shape.per_sm = std::max<int64_t>(
        1, std::min({int64_t{2048} / threads,
                     target_.Limit("registers", 65536) / (kThreadRegisters * threads),
                     target_.Limit("smem_bytes", 232448) / (warps.launch.smem_bytes + 1024)}));
    return shape;
  }
  Bindings All(const ir::Function& fn) const {
    Bindings all = fn.statics;
    for (const auto& [name, value] : names_) all[name] = value;
    return all;
  }

  const Loaded& loaded_;
  const frontend::Signature& signature_;
  const Call& call_;
  PipelineOptions options_;
  const ir::Target& target_;
  Bindings names_;
  std::vector<Axis> axes_;
  std::map<Point, std::optional<double>> rated_;
};

std::string Key(const Loaded& loaded, const frontend::Signature& signature, const Call& call,
                const PipelineOptions& options) {
  std::string key = "tune " + ImageKey(loaded, signature.kernel, call, options);
  for (const auto& [name, value] : call.all)
    key += fmt::format(" {}={}", name, frontend::ToText(value));
  return key;
}

}  // namespace

TuneChoice ChooseTunes(const Loaded& loaded, const frontend::Signature& signature, const Call& call,
                       const PipelineOptions& options, scheduler::SolutionStore* store) {
  std::string key;
  if (store != nullptr) {
    key = Key(loaded, signature, call, options);
    if (const auto text = store->Get(key)) {
      TuneChoice choice;
      for (size_t at = 0; at < text->size();) {
        const size_t equals = text->find('=', at), end = text->find('\n', at);
        if (equals == std::string::npos || end == std::string::npos || equals > end) break;
        int64_t value = 0;
        std::from_chars(text->data() + equals + 1, text->data() + end, value);
        choice.values[text->substr(at, equals - at)] = value;
        at = end + 1;
      }
      return choice;
    }
  }
  DiagSink quiet;
  TuneChoice choice;
  const Result<Target> named = FindTarget(options.target, quiet);
  if (!named.ok()) return choice;
  const Result<ir::Target> target = ir::LoadBuiltinTarget(named->name, quiet);
  if (!target.ok()) return choice;
  choice = Search(loaded, signature, call, options, *target).Run();
  if (store != nullptr && choice.why_not.empty()) {
    std::string text;
    for (const auto& [name, value] : choice.values)
      text += fmt::format("{}={}\n", name, frontend::ToText(value));
    store->Put(key, signature.kernel + " tunes", text + "\n");
  }
  return choice;
}

Result<> CheckTune(const std::string& tune, DiagSink& diags) {
  if (tune == "default" || tune == "model") return Done();
  return diags.Report(kUnknownTune, Span{}, tune).Help("use default or model");
}

void TuneCall(const Loaded& loaded, const frontend::Signature& signature,
              const PipelineOptions& options, scheduler::SolutionStore* store, Call* call,
              DiagSink& diags) {
  if (options.tune != "model") return;
  if (loaded.schedule_file >= 0) {
    diags.Report(kTuneFallsBack, Span{}, "a schedule from a file is for one choice of tiles");
    return;
  }
  const TuneChoice choice = ChooseTunes(loaded, signature, *call, options, store);
  if (!choice.why_not.empty()) diags.Report(kTuneFallsBack, Span{}, choice.why_not);
  for (const auto& [name, value] : choice.values) call->statics[name] = call->all[name] = value;
}

}  // namespace tilec::api
