// SPDX-License-Identifier: Apache-2.0
#include "ir/count_work.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "ir/queries.h"
#include "ir/work_counter.h"
#include "support/expr.h"

namespace tilec::ir {

namespace {

bool OnlyRenames(OpKind kind) { return kind == OpKind::kBitcast || kind == OpKind::kSelect; }

// Counts of launches beyond 2^62 stay there.
int64_t SaturatingSum(int64_t count, double more) {
  const double sum = static_cast<double>(count) + more;
  return sum < 0x1p62 ? static_cast<int64_t>(sum) : int64_t{1} << 62;
}

}  // namespace

WorkCounter::WorkCounter(const Function& fn, const Bindings& names, const Target& target,
                         const CountOptions& options)
    : fn_(fn),
      cached_bytes_(target.model.cached_bytes),
      sms_(static_cast<double>(target.limits.sms)),
      edges_(options.edges),
      scalars_(static_cast<size_t>(fn.values.size())),
      extents_(static_cast<size_t>(fn.values.size())),
      known_(static_cast<size_t>(fn.ops.size())),
      steering_(static_cast<size_t>(fn.values.size())) {
  Bindings all = fn.statics;
  for (const auto& [name, value] : names) all[name] = value;
  for (const Param& p : fn.params) {
    if (p.kind != ParamKind::kTensor) {
      if (const auto at = names.find(p.name); at != names.end()) Set(p.value, at->second);
      continue;
    }
    std::vector<int64_t>& dims = dims_[p.value.index];
    for (const Expr& e : p.dims) dims.push_back(Eval(e, all).value_or(0));
  }
  FindSteering();
}

WorkCount WorkCounter::Run() {
  RunBlock(fn_.body);
  for (const auto* tensors : {&loaded_, &stored_})
    for (const auto& [tensor, moved] : *tensors) {
      out_.least_bytes += Least(tensor, moved);
      out_.far_bytes += Least(tensor, moved) > cached_bytes_ ? moved : Least(tensor, moved);
    }
  out_.again_bytes = Again();
  return std::move(out_);
}

double WorkCounter::Again() const {
  constexpr double kOnce = 1.5;  // times that tiles over an edge may come to
  // Instances of one round that load the same share it: a round brings a tensor once at most.
  const double rounds = static_cast<double>(out_.instances) / std::max(1.0, sms_);
  double held = 0, again = 0;
  for (const auto& [tensor, moved] : loaded_) {
    const double least = Least(tensor, moved);
    if (moved < kOnce * least) continue;
    held += least;
    again += std::min(moved, std::max(1.0, rounds) * least) - least;
  }
  return held > static_cast<double>(cached_bytes_) ? again : 0;
}

void WorkCounter::SetOf(ValueId v, const Extents& e) {
  Extents& was = extents_[static_cast<size_t>(v.index)];
  if (was == e) return;
  was = e;
  ++changes_;
}

WorkCounter::Extents WorkCounter::Whole(ValueId v) const {
  Extents e{};
  const std::vector<int64_t>& shape = fn_.type(v).shape;
  std::copy_n(shape.begin(), std::min(shape.size(), kMaxCountedRank), e.begin());
  return e;
}

double WorkCounter::Count(ValueId v) const {
  double n = 1;
  for (size_t d = 0; d < fn_.type(v).shape.size(); ++d) n *= static_cast<double>(Of(v)[d]);
  return n;
}

double WorkCounter::Least(int32_t tensor, double moved) const {
  double bytes = ByteSize(fn_.type(ValueId(tensor)).dtype);
  for (int64_t d : dims_.at(tensor)) bytes *= static_cast<double>(d);
  return std::min(bytes, moved);
}

void WorkCounter::Copy(ValueId from, ValueId to) {
  Set(to, At(from));
  SetOf(to, Of(from));
}

void WorkCounter::RunOp(OpId id) {
  const Op& op = fn_.ops[id];
  if (op.kind == OpKind::kParallel) return RunParallel(op);
  if (op.kind == OpKind::kFor) return RunFor(id, op);
  if (op.kind == OpKind::kWhile) return RunWhile(op);
  if (op.kind == OpKind::kIf) return RunIf(op);
  Known& known = known_[static_cast<size_t>(id.index)];
  if (op.kind == OpKind::kLoad) return RunLoad(op, known);
  if (op.kind == OpKind::kStore || op.kind == OpKind::kAtomic) return RunStore(op, known);
  if (op.kind == OpKind::kDot) return RunDot(op, known);
  // Of a thousand tiles all but those at edges are alike: what an op does is found out once.
  if (known.at == changes_) {
    out_.arithmetic += weight_ * known.arithmetic;
    return;
  }
  known.arithmetic = 0;
  bool tiles = false;
  for (ValueId v : op.results)
    if (Tile(v)) {
      known.arithmetic += RunTile(op, v);
      tiles = true;
    } else {
      Set(v, EvalScalar(op));
    }
  out_.arithmetic += weight_ * known.arithmetic;
  if (tiles && op.results.size() == 1) known.at = changes_;
}

// A variable that steers nothing makes every instance of its like: one stands for all.
void WorkCounter::RunParallel(const Op& op) {
  const std::vector<int64_t>& steps = op.ints("steps");
  const std::vector<ValueId>& args = fn_.blocks[op.regions[0]].args;
  std::vector<int64_t> lo, count, at(steps.size(), 0);
  for (size_t d = 0; d < steps.size(); ++d) {
    const Scalar from = At(op.operands[2 * d]), to = At(op.operands[2 * d + 1]);
    if (!from || !to) {
      out_.exact = false;
      return;
    }
    lo.push_back(*from);
    count.push_back(std::max<int64_t>(0, -FloorDiv(*from - *to, steps[d])));
    if (count.back() == 0) return;
  }
  const double outer = weight_;
  for (size_t d = 0; d < steps.size(); ++d)
    if (!Steer(args[d])) {
      weight_ *= static_cast<double>(count[d]);
      count[d] = 1;
    }
  for (bool more = true; more;) {
    for (size_t d = 0; d < steps.size(); ++d) Set(args[d], lo[d] + at[d] * steps[d]);
    out_.instances = SaturatingSum(out_.instances, weight_);
    RunBlock(op.regions[0]);
    more = false;
    for (size_t d = 0; d < steps.size() && !more; ++d) {
      more = ++at[d] < count[d];
      if (!more) at[d] = 0;
    }
  }
  weight_ = outer;
}

namespace {
// Are positions counted from the end (ir/passes/walk_back.cc)?
bool WalksBack(const Function& fn, const Op& loop) {
  const ValueId position = fn.blocks[loop.regions[0]].args[0];
  const std::vector<OpId>& ops = fn.blocks[loop.regions[0]].ops;
  return std::any_of(ops.begin(), ops.end(), [&](OpId id) {
    const Op& op = fn.ops[id];
    return op.kind == OpKind::kSub && op.operands[1] == position &&
           IntConstantOf(fn, op.operands[0]) != nullptr;
  });
}
}  // namespace

void WorkCounter::RunFor(OpId id, const Op& op) {
  const std::vector<ValueId>& args = fn_.blocks[op.regions[0]].args;
  const std::vector<ValueId> carried(args.begin() + 1, args.end());
  for (size_t i = 0; i < carried.size(); ++i) Copy(op.operands[2 + i], carried[i]);
  const Scalar lo = At(op.operands[0]), hi = At(op.operands[1]);
  const int64_t step = std::max<int64_t>(1, op.i("step"));
  const bool known = lo && hi;
  const int64_t trips = known ? std::max<int64_t>(0, -FloorDiv(*lo - *hi, step)) : 1;
  out_.exact &= known;
  out_.trips[id] = SaturatingSum(out_.trips[id], static_cast<double>(trips) * weight_);
  out_.most[id] = std::max(out_.most[id], trips);
  const double outer = weight_;
  const bool once = !edges_ && trips > 1 && !Steers(op);
  if (once) weight_ *= static_cast<double>(trips);
  for (int64_t i = 0; i < (once ? 1 : trips); ++i) {
    // One that stands for all is the first of the row, where the last may be cut.
    const int64_t at = once && WalksBack(fn_, op) ? trips - 1 : i;
    Set(args[0], known ? Scalar(*lo + at * step) : std::nullopt);
    RunBlock(op.regions[0]);
    TakeYield(op.regions[0], 0, carried);
  }
  weight_ = outer;
  for (size_t i = 0; i < carried.size(); ++i) Copy(carried[i], op.results[i]);
}

void WorkCounter::RunWhile(const Op& op) {
  out_.exact = false;
  const Block& before = fn_.blocks[op.regions[0]];
  const Block& after = fn_.blocks[op.regions[1]];
  for (size_t i = 0; i < before.args.size(); ++i) Copy(op.operands[i], before.args[i]);
  RunBlock(op.regions[0]);
  TakeYield(op.regions[0], 1, after.args);
  RunBlock(op.regions[1]);
  TakeYield(op.regions[0], 1, op.results);
}

void WorkCounter::RunIf(const Op& op) {
  const Scalar condition = At(op.operands[0]);
  out_.exact &= condition.has_value();
  const size_t chosen = condition.value_or(op.i("unlikely") == 0) ? 0 : 1;
  RunBlock(op.regions[chosen]);
  TakeYield(op.regions[chosen], 0, op.results);
}

// How many of n positions from `start` on lie in 0…end-1.
int64_t WorkCounter::Inside(int64_t start, int64_t n, int64_t end) {
  const int64_t before = std::clamp<int64_t>(-start, 0, n);
  return before < n ? std::clamp<int64_t>(end - (start + before), 0, n - before) : 0;
}

void WorkCounter::RunLoad(const Op& op, Known& known) {
  if (known.dims == nullptr) LookUp(op, loaded_, fn_.type(op.results[0]).dtype, &known);
  const std::vector<int64_t>&dims = *known.dims, &sizes = *known.sizes;
  const std::string& modes = *known.modes;
  const ValueId result = op.results[0];
  Extents e{};
  size_t to = 0;
  double elements = 1;
  int64_t folded = 1;  // positions of what is folded into the next range
  for (size_t d = 0; d < modes.size() && to < kMaxCountedRank; ++d) {
    if (!TakesDim(modes[d]) && modes[d] != 'f') continue;
    int64_t n = sizes[d];
    if (IsRange(modes[d]))
      if (const Scalar start = At(op.operands[1 + d])) n = Inside(*start, n, dims[d]);
    if (modes[d] == 'f') {
      folded *= n;
    } else {
      e[to++] = n * folded;
      folded = 1;
    }
    elements *= static_cast<double>(n);
  }
  if (Tile(result))
    SetOf(result, e);
  else
    Set(result, std::nullopt);
  if (known.moved == nullptr) return;  // it is on the chip
  const double bytes = weight_ * elements * known.bytes;
  out_.loaded_bytes += bytes;
  *known.moved += bytes;
}

void WorkCounter::RunStore(const Op& op, Known& known) {
  if (known.dims == nullptr) LookUp(op, stored_, fn_.type(op.operands[1]).dtype, &known);
  const std::vector<int64_t>&dims = *known.dims, &sizes = *known.sizes;
  const std::string& modes = *known.modes;
  double elements = 1;
  size_t at = 2;
  for (size_t d = 0; d < modes.size(); ++d) {
    if (IsRange(modes[d])) {
      const Scalar start = At(op.operands[at]), end = At(op.operands[at + 1]);
      int64_t n = sizes[d];
      if (start) n = Inside(*start, n, end ? std::min(dims[d], *end) : dims[d]);
      elements *= static_cast<double>(n);
      at += 2;
    } else {
      elements *= modes[d] == 'g' ? static_cast<double>(sizes[d]) : 1;
      at += 1;
    }
  }
  const double bytes = weight_ * elements * known.bytes;
  out_.stored_bytes += bytes;
  *known.moved += bytes;
  for (ValueId v : op.results)  // what an atomic found
    if (Tile(v))
      SetOf(v, Of(op.operands[1]));
    else
      Set(v, std::nullopt);
}

void WorkCounter::RunDot(const Op& op, Known& known) {
  const Extents a = Of(op.operands[0]), b = Of(op.operands[1]);
  const auto n = [](int64_t v) { return static_cast<double>(v); };
  SetOf(op.results[0], {a[0], b[1]});
  if (known.moved == nullptr)
    known.moved = &out_.products[fmt::format("dot.{}", Info(fn_.type(op.operands[0]).dtype).bits)];
  *known.moved += weight_ * 2 * n(a[0]) * n(b[1]) * n(std::min(a[1], b[0]));
  const std::vector<int64_t>& whole = fn_.type(op.operands[0]).shape;
  out_.whole_flops +=
      weight_ * 2 * n(whole[0]) * n(whole[1]) * n(fn_.type(op.operands[1]).shape[1]);
}

// Sets its extents; elements of its arithmetic.
double WorkCounter::RunTile(const Op& op, ValueId v) {
  double arithmetic = 0;
  Extents e = Whole(v);
  const OpInfo& info = Info(op.kind);
  if (info.elementwise()) {
    for (ValueId o : op.operands)
      if (Tile(o))
        for (size_t d = 0; d < kMaxCountedRank; ++d) e[d] = std::min(e[d], Of(o)[d]);
  } else if (op.kind == OpKind::kTranspose) {
    const std::vector<int64_t>& perm = op.ints("perm");
    for (size_t d = 0; d < perm.size(); ++d)
      e[d] = Of(op.operands[0])[static_cast<size_t>(perm[d])];
  } else if (op.kind == OpKind::kBroadcast && Tile(op.operands[0])) {
    const std::vector<int64_t>& axes = op.ints("axes");
    for (size_t d = 0; d < axes.size(); ++d)
      if (fn_.type(op.operands[0]).shape[d] != 1)
        e[static_cast<size_t>(axes[d])] = Of(op.operands[0])[d];
  } else if (op.kind == OpKind::kReshape) {
    Reshape(op.operands[0], e, v);
  } else if (op.kind == OpKind::kReduce || op.kind == OpKind::kArgReduce) {
    size_t to = 0;
    for (size_t d = 0; d < fn_.type(op.operands[0]).shape.size(); ++d)
      if (static_cast<int64_t>(d) != op.i("axis")) e[to++] = Of(op.operands[0])[d];
    arithmetic += Count(op.operands[0]);
  } else if (op.kind == OpKind::kRearrange) {
    e = Whole(v);
  } else if (op.kind == OpKind::kScan || op.kind == OpKind::kClusterReduce) {
    e = Of(op.operands[0]);
    if (op.attr("slices")) e[1] = std::min(e[1], fn_.type(v).shape[1]);
  }
  SetOf(v, e);
  if (info.elementwise() && IsFloat(fn_.type(v).dtype) && !OnlyRenames(op.kind))
    arithmetic += Count(v);
  return arithmetic;
}

// Dims of extent 1 come and go; the others keep their order.
void WorkCounter::Reshape(ValueId from, Extents& e, ValueId to) {
  if (!Tile(from)) return;
  const std::vector<int64_t>&a = fn_.type(from).shape, &b = fn_.type(to).shape;
  size_t i = 0;
  for (size_t d = 0; d < b.size(); ++d) {
    if (b[d] == 1) continue;
    while (i < a.size() && a[i] == 1) ++i;
    if (i < a.size()) e[d] = Of(from)[i++];
  }
}

double WorkCount::flops() const {
  double sum = 0;
  for (const auto& [row, flops] : products) sum += flops;
  return sum;
}

WorkCount CountWork(const Function& fn, const Bindings& names, const Target& target,
                    const CountOptions& options) {
  return WorkCounter(fn, names, target, options).Run();
}

}  // namespace tilec::ir
