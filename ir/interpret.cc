// The interpreter's driver: arguments, limits, and the instances of `parallel` on threads.
//
// Instances are handed out in order. The outcome does not depend on threads: instances are
// independent (interpret_memory.h watches), a failing instance lets all earlier ones finish, and
// the earliest failure and the first conflicting element are what is reported.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/interpret.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "ir/diagnostics.h"
#include "ir/interpret_run.h"
#include "ir/interpret_sample.h"
#include "ir/passes/rescaled_sums.h"
#include "ir/queries.h"
#include "ir/verify.h"
#include "support/check.h"

namespace tilec::ir {
namespace interpret_internal {
namespace {

constexpr int64_t kMaxTileElements = int64_t{1} << 24;
constexpr int64_t kMaxAllElements = int64_t{1} << 26;
constexpr int64_t kMaxInstances = int64_t{1} << 30;

class Driver {
 public:
  Driver(const Function& fn, InterpretInputs& inputs, const InterpretOptions& options,
         uint64_t perturb, DiagSink& diags)
      : kernel_{.fn = fn, .options = options, .perturb = perturb},
        fn_(fn),
        inputs_(inputs),
        diags_(diags) {
    kernel_.in_parts = FindLoopsInParts(fn, options.parts);
    if (options.parts <= 1) return;
    for (OpId id : OpsInOrder(fn)) {
      if (fn.ops[id].kind != OpKind::kFor) continue;
      if (const auto found = FindRescaledSums(fn, id))
        for (OpId cast : found->roundings) kernel_.rounded_apart.insert(fn.ops[cast].results[0]);
    }
  }
  // Where atomics met in an earlier run (by tensor), and where they did in this one.
  void Know(const std::map<int32_t, Meetings>* met) { known_ = met; }
  std::map<int32_t, Meetings> Met() {
    std::map<int32_t, Meetings> met;
    for (auto& [id, t] : kernel_.tensors) met[id] = std::move(t.meetings);
    return met;
  }
  Result<InterpretReport> Run();

 private:
  Result<> BindDims();
  Result<> BindTensors();
  Result<> BindScalars(Worker& top);
  Result<> CheckFacts();
  Result<> CheckSizes();
  void MarkUses();
  Result<> RunGrid(const Op& parallel, Worker& top);
  Result<> ReportConflicts(const std::vector<const Conflicts*>& found);

  Kernel kernel_;
  const Function& fn_;
  InterpretInputs& inputs_;
  DiagSink& diags_;
  Bindings names_;
  InterpretReport report_;
  const std::map<int32_t, Meetings>* known_ = nullptr;
  bool one_thread_ = false;
  bool may_sample_ = true;
  bool sampled_ = false;
};

std::string ShapeText(const std::vector<int64_t>& dims) {
  return fmt::format("[{}]", fmt::join(dims, ", "));
}

Result<> Driver::BindDims() {
  names_ = fn_.statics;
  for (const auto& [name, value] : inputs_.dims) names_[name] = value;
  for (const Param& p : fn_.params) {
    if (p.kind == ParamKind::kScalar && IsInteger(fn_.type(p.value).dtype))
      if (auto it = inputs_.scalars.find(p.name); it != inputs_.scalars.end())
        names_.emplace(p.name, static_cast<int64_t>(it->second));
    if (p.kind != ParamKind::kTensor) continue;
    auto it = inputs_.tensors.find(p.name);
    if (it == inputs_.tensors.end()) {
      if (p.direction == Direction::kOut) continue;
      return diags_.Report(kMissingArgument, p.at, p.name);
    }
    const TensorValue& t = it->second;
    const DType d = fn_.type(p.value).dtype;
    if (t.dtype != d)
      return diags_.Report(
          kArgumentMismatch, p.at, p.name,
          fmt::format("its elements are {}, not {}", Spelling(d), Spelling(t.dtype)));
    if (t.dims.size() != p.dims.size())
      return diags_.Report(
          kArgumentMismatch, p.at, p.name,
          fmt::format("it has {} dims; the argument is {}", p.dims.size(), ShapeText(t.dims)));
    const size_t held = t.wide() ? t.words.size() : t.v.size();
    if (static_cast<int64_t>(held) != t.elements() || (!t.e.empty() && t.e.size() != held) ||
        (!t.undecided.empty() && t.undecided.size() != held))
      return diags_.Report(kArgumentMismatch, p.at, p.name,
                           fmt::format("{} elements for {}", held, ShapeText(t.dims)));
    for (size_t i = 0; i < p.dims.size(); ++i)
      if (p.dims[i].op == Expr::Op::kName) names_.emplace(p.dims[i].name, t.dims[i]);
  }
  return Done();
}

Result<> Driver::BindTensors() {
  for (const Param& p : fn_.params) {
    if (p.kind != ParamKind::kTensor) continue;
    std::vector<int64_t> dims;
    int64_t elements = 1;
    for (const Expr& e : p.dims) {
      std::string missing;
      const std::optional<int64_t> v = Eval(e, names_, &missing);
      if (!v && !missing.empty()) return diags_.Report(kMissingArgument, p.at, missing);
      if (!v || *v < 0)
        return diags_.Report(kArgumentMismatch, p.at, p.name,
                             fmt::format("its extent `{}` has no value", ToText(e)));
      dims.push_back(*v);
      if (__builtin_mul_overflow(elements, *v, &elements) || elements > kMaxTensorElements)
        return diags_.Report(kInterpretLimit, p.at, fmt::format("elements of `{}`", p.name),
                             ShapeText(dims), kMaxTensorElements);
    }
    auto [it, made] = inputs_.tensors.try_emplace(p.name);
    if (made) it->second = TensorValue::Zeros(fn_.type(p.value).dtype, dims);
    if (it->second.dims != dims)
      return diags_.Report(kArgumentMismatch, p.at, p.name,
                           fmt::format("the signature says {}, the argument is {}", ShapeText(dims),
                                       ShapeText(it->second.dims)));
    Tensor& t = kernel_.tensors[p.value.index];
    t.param = &p;
    t.value = &it->second;
  }
  return Done();
}

Result<> Driver::BindScalars(Worker& top) {
  for (const Param& p : fn_.params) {
    if (p.kind == ParamKind::kTensor) continue;
    Tile& t = top.env()[static_cast<size_t>(p.value.index)];
    t.Reset(fn_.type(p.value));
    auto scalar = inputs_.scalars.find(p.name);
    auto name = names_.find(p.name);
    const bool has_scalar = p.kind == ParamKind::kScalar && scalar != inputs_.scalars.end();
    if (!has_scalar && name == names_.end()) return diags_.Report(kMissingArgument, p.at, p.name);
    if (t.is_float()) {
      t.v[0] = Round(t.dtype, has_scalar ? scalar->second : static_cast<double>(name->second));
      continue;
    }
    const int64_t n =
        has_scalar && name == names_.end() ? static_cast<int64_t>(scalar->second) : name->second;
    t.n[0] = WrapInt(t.dtype, n);
    if (t.n[0] != n && t.dtype != DType::kU64)
      return diags_.Report(kInputRange, p.at, p.name,
                           fmt::format("{} does not fit {}", n, Spelling(t.dtype)));
  }
  return Done();
}

Result<> Driver::CheckFacts() {
  for (const WhereFact& f : fn_.facts) {
    const std::optional<int64_t> holds = Eval(f.condition, names_);
    if (!holds || *holds) continue;  // facts over runtime floats are the launcher's to check
    std::string values;
    for (const std::string& name : NamesIn(f.condition))
      values += fmt::format("{}{} = {}", values.empty() ? "" : ", ", name, names_[name]);
    return diags_.Report(kFactViolated, f.at, f.text.empty() ? ToText(f.condition) : f.text,
                         values);
  }
  return Done();
}

Result<> Driver::CheckSizes() {
  int64_t total = 0;  // every value has its tile, in every thread
  for (const Op& op : fn_.ops)
    for (ValueId v : op.results) {
      int64_t elements = 1;
      for (int64_t d : fn_.type(v).shape)
        if (__builtin_mul_overflow(elements, d, &elements) || elements > kMaxTileElements)
          return diags_.Report(kInterpretLimit, op.at, "elements of a tile",
                               ShapeText(fn_.type(v).shape), kMaxTileElements);
      total += elements;
      if (total > kMaxAllElements)
        return diags_.Report(kInterpretLimit, op.at, "elements of all tiles", total,
                             kMaxAllElements);
    }
  return Done();
}

void Driver::MarkUses() {
  for (const Op& op : fn_.ops) {
    if (op.operands.empty()) continue;
    auto it = kernel_.tensors.find(op.operands[0].index);
    if (it == kernel_.tensors.end()) continue;
    auto& [id, t] = *it;
    if (op.kind == OpKind::kLoad) t.read = true;
    if (op.kind == OpKind::kStore || op.kind == OpKind::kAtomic) t.written = true;
    if (op.kind == OpKind::kAtomic) {
      one_thread_ = true;  // the order of floating-point adds
      if (op.s("kind") == "add" && t.is_float())
        t.sums.resize(static_cast<size_t>(t.value->elements()));
      if (Fetches(op)) {
        static const Meetings kNone;
        t.meetings.turns.resize(static_cast<size_t>(t.value->elements()));
        t.known = known_ ? &known_->at(id) : &kNone;
        may_sample_ = false;
      }
    }
  }
  for (auto& [id, t] : kernel_.tensors) {
    one_thread_ |= t.read && t.written;
    may_sample_ &= !(t.read && t.written);
    Prepare(t, kernel_.perturb == 0);
  }
}

Result<> Driver::ReportConflicts(const std::vector<const Conflicts*>& found) {
  auto report = [&](const DiagDef& def,
                    std::map<int32_t, Conflicts::Meeting> Conflicts::*which) -> Result<> {
    std::map<int32_t, Conflicts::Meeting> all;
    for (const Conflicts* c : found)
      for (const auto& [id, meeting] : c->*which)
        for (uint32_t who : meeting.instances) all[id].Add(meeting.element, who, who);
    if (all.empty()) return Done();
    const auto& [id, meeting] = *all.begin();
    const Tensor& t = kernel_.tensors.at(id);
    std::vector<int64_t> at;
    int64_t rest = meeting.element;
    for (int64_t stride : t.strides) {
      at.push_back(rest / stride);
      rest %= stride;
    }
    Span place = t.param->at;
    for (const Op& op : fn_.ops)
      if ((op.kind == OpKind::kStore || op.kind == OpKind::kAtomic) && op.operands[0].index == id &&
          op.at.known()) {
        place = op.at;
        break;
      }
    DiagBuilder built = diags_.Report(def, place, t.param->name, ShapeText(at));
    std::vector<std::string> who;
    for (uint32_t instance : meeting.instances)
      if (instance != kSeveral && who.size() < 2) who.push_back(std::to_string(instance - 1));
    if (!who.empty()) built.Note(fmt::format("instances {} of the grid", fmt::join(who, " and ")));
    return built;
  };
  TRY_VOID(report(kOverlappingStores, &Conflicts::stores));
  return report(kReadsOtherInstance, &Conflicts::reads);
}

Result<> Driver::RunGrid(const Op& parallel, Worker& top) {
  const std::vector<int64_t>& steps = parallel.ints("steps");
  std::vector<int64_t> lo, count;
  int64_t total = 1;
  for (size_t d = 0; d < steps.size(); ++d) {
    lo.push_back(top.env()[static_cast<size_t>(parallel.operands[2 * d].index)].n[0]);
    const int64_t hi = top.env()[static_cast<size_t>(parallel.operands[2 * d + 1].index)].n[0];
    int64_t extent = 0;
    if (hi > lo[d] && __builtin_sub_overflow(hi, lo[d], &extent)) extent = INT64_MAX / 2;
    count.push_back(extent / steps[d] + (extent % steps[d] != 0));
    if (__builtin_mul_overflow(total, count[d], &total) || total > kMaxInstances)
      return diags_.Report(kInterpretLimit, parallel.at, "instances of the grid", ShapeText(count),
                           kMaxInstances);
  }
  report_.instances = total;
  // What is run at a time: an instance, or those of a cluster that combine what they have.
  const std::vector<OpId>& body = fn_.blocks[parallel.regions[0]].ops;
  const bool together = std::any_of(body.begin(), body.end(), [&](OpId id) {
    return fn_.ops[id].kind == OpKind::kClusterReduce;
  });
  const int64_t group = together ? parallel.i("cluster", 1) : 1;
  const int64_t groups = CeilDiv(total, group);
  const int64_t most = kernel_.options.max_instances;
  const bool sampled = most > 0 && total > most && groups > 1 && may_sample_;
  const int64_t runs = sampled ? std::max<int64_t>(1, most / group) : groups;
  report_.interpreted = std::min(total, runs * group);
  sampled_ |= sampled;
  kernel_.progress.Expect(report_.interpreted);

  const auto cores = static_cast<int64_t>(std::max(1u, std::thread::hardware_concurrency()));
  int64_t threads = kernel_.options.threads > 0 ? kernel_.options.threads : cores;
  threads = one_thread_ ? 1 : std::clamp<int64_t>(threads, 1, std::max<int64_t>(runs, 1));
  std::vector<std::unique_ptr<Worker>> workers;
  for (int64_t i = 0; i < threads; ++i)
    workers.push_back(std::make_unique<Worker>(kernel_, top.env()));
  std::atomic<int64_t> next{0};
  std::mutex failure_mutex;
  int64_t failed_instance = -1;
  Worker* failed = nullptr;
  std::atomic<bool> stop{false};
  auto work = [&](Worker& w) {
    std::vector<std::vector<int64_t>> starts;
    while (!stop) {
      const int64_t run = next.fetch_add(1);
      if (run >= runs) return;
      const int64_t instance =
          group * (!sampled    ? run
                   : runs == 1 ? 0
                               : static_cast<int64_t>(static_cast<__int128>(run) * (groups - 1) /
                                                      (runs - 1)));
      starts.assign(static_cast<size_t>(std::min(group, total - instance)), {});
      for (size_t i = 0; i < starts.size(); ++i) {
        int64_t rest = instance + static_cast<int64_t>(i);
        for (size_t d = 0; d < steps.size(); ++d) {
          starts[i].push_back(lo[d] + rest % count[d] * steps[d]);
          rest /= count[d];
        }
      }
      kernel_.progress.Instance();
      if (together ? w.RunCluster(parallel, instance, starts)
                   : w.RunInstance(parallel, instance, starts[0]))
        continue;
      stop = true;
      const std::lock_guard lock(failure_mutex);
      if (failed_instance < 0 || instance < failed_instance) {
        failed_instance = instance;
        failed = &w;
      }
      return;
    }
  };
  std::vector<std::thread> pool;
  for (size_t i = 1; i < workers.size(); ++i) pool.emplace_back([&, i] { work(*workers[i]); });
  work(*workers[0]);
  for (std::thread& t : pool) t.join();

  std::vector<const Conflicts*> conflicts;
  std::vector<PrintLine> prints;
  for (const auto& w : workers) {
    conflicts.push_back(&w->conflicts);
    report_.undecided_stores += w->undecided_stores;
    prints.insert(prints.end(), w->prints.begin(), w->prints.end());
  }
  std::stable_sort(prints.begin(), prints.end(),
                   [](const PrintLine& a, const PrintLine& b) { return a.instance < b.instance; });
  for (PrintLine& p : prints) report_.prints.push_back(std::move(p.text));
  if (failed) {
    failed->diags.MoveTo(diags_);
    return DiagSink::Propagate();
  }
  return ReportConflicts(conflicts);
}

Result<InterpretReport> Driver::Run() {
  if (fn_.level != Level::kTile) return diags_.Report(kNotInterpretable, {}, fn_.name);
  TRY_VOID(Verify(fn_, diags_));
  TRY_VOID(BindDims());
  TRY_VOID(BindTensors());
  TRY_VOID(CheckSizes());
  TRY_VOID(CheckFacts());
  Worker top(kernel_, std::vector<Tile>(static_cast<size_t>(fn_.values.size())));
  TRY_VOID(BindScalars(top));
  MarkUses();
  top.StartTop();
  bool ok = true;
  for (OpId id : fn_.blocks[fn_.body].ops) {
    const Op& op = fn_.ops[id];
    if (op.kind == OpKind::kParallel) {
      TRY_VOID(RunGrid(op, top));
    } else if (!(ok = top.RunTopOp(op))) {
      break;
    }
  }
  if (!ok) {
    top.diags.MoveTo(diags_);
    return DiagSink::Propagate();
  }
  report_.undecided_stores += top.undecided_stores;
  std::vector<std::string> first;
  for (PrintLine& p : top.prints) first.push_back(std::move(p.text));
  report_.prints.insert(report_.prints.begin(), first.begin(), first.end());
  for (auto& [id, t] : kernel_.tensors) Settle(t, sampled_);
  return std::move(report_);
}

}  // namespace
}  // namespace interpret_internal

namespace interpret_internal {
namespace {

// Where atomics meet that give back what they find: known once all instances have run. Tensors that
// are only read are lent to that run and come back.
std::map<int32_t, Meetings> MeetingsOf(const Function& fn, InterpretInputs& inputs,
                                       const InterpretOptions& options) {
  InterpretInputs first{{}, inputs.scalars, inputs.dims};
  std::set<std::string> written;
  for (const Param& p : fn.params)
    if (p.kind == ParamKind::kTensor && p.direction != Direction::kIn) written.insert(p.name);
  for (auto& [name, tensor] : inputs.tensors)
    first.tensors[name] = written.count(name) ? tensor : std::move(tensor);
  DiagSink quiet;
  Driver driver(fn, first, options, 0, quiet);
  const bool ok = driver.Run().ok();
  for (auto& [name, tensor] : inputs.tensors)
    if (!written.count(name)) tensor = std::move(first.tensors[name]);
  return ok ? driver.Met() : std::map<int32_t, Meetings>();
}

}  // namespace

Result<InterpretReport> RunOnce(const Function& fn, InterpretInputs& inputs,
                                const InterpretOptions& options, uint64_t perturb,
                                DiagSink& diags) {
  Driver driver(fn, inputs, options, perturb, diags);
  std::map<int32_t, Meetings> met;
  if (perturb == 0 && Fetches(fn)) met = MeetingsOf(fn, inputs, options);
  if (!met.empty()) driver.Know(&met);
  return driver.Run();
}
}  // namespace interpret_internal

}  // namespace tilec::ir
