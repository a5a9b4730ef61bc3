// Control flow of the interpreter: which op runs when, on whose values.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/interpret_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ir/diagnostics.h"
#include "ir/numerics.h"
#include "ir/queries.h"
#include "support/check.h"

namespace tilec::ir::interpret_internal {

namespace {

constexpr size_t kPrintedElements = 8;

}  // namespace

void Progress::Look() {
  const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  const std::lock_guard lock(mutex_);
  if (seconds < next_) return;
  next_ = 2 * seconds;
  report_({seconds, instances_.load(), of_});
}

bool Worker::RunBlock(BlockId block) {
  for (OpId id : k_.fn.blocks[block].ops)
    if (!RunOp(k_.fn.ops[id])) return false;
  return true;
}

void Worker::Enter(uint32_t claim, int64_t instance) {
  instance_ = instance;
  const bool perturbed = k_.perturb != 0;
  context_ = {claim, false, &conflicts, &undecided_stores, perturbed ? &dice_ : nullptr, &k_.turn};
  // An instance's dice depend on nothing but the seed and its number.
  dice_.state = (k_.perturb + static_cast<uint64_t>(instance)) * 0xD1342543DE82EF95u;
}

void Worker::Begin(const Op& parallel, int64_t instance, const std::vector<int64_t>& starts) {
  Enter(static_cast<uint32_t>(instance) + 1, instance);
  const BlockId body = parallel.regions[0];
  for (size_t i = 0; i < starts.size(); ++i) {
    Tile& t = env_[k_.fn.blocks[body].args[i].index];
    t.Reset(Type::Scalar(DType::kI64));
    t.n[0] = starts[i];
  }
}

bool Worker::RunInstance(const Op& parallel, int64_t instance, const std::vector<int64_t>& starts) {
  Begin(parallel, instance, starts);
  return RunBlock(parallel.regions[0]);
}

void Worker::Copy(const std::vector<ValueId>& from, size_t leading,
                  const std::vector<ValueId>& to) {
  for (size_t i = 0; i < to.size(); ++i) env_[to[i].index] = env_[from[leading + i].index];
}

void Worker::TakeYield(BlockId region, size_t leading, const std::vector<ValueId>& targets) {
  const Block& block = k_.fn.blocks[region];
  if (block.ops.empty()) return;
  const Op& yield = k_.fn.ops[block.ops.back()];
  if (targets.empty()) return;
  // A value of this very block is dead afterwards, unless it is yielded again: take its memory.
  const auto made_here = [&](ValueId v) {
    const OpId def = k_.fn.values[v].def;
    return def.valid() && k_.fn.ops[def].block == region;
  };
  if (const ValueId v = yield.operands[leading]; targets.size() == 1) {
    if (v == targets[0]) return;
    if (made_here(v))
      std::swap(env_[targets[0].index], env_[v.index]);
    else
      env_[targets[0].index] = env_[v.index];
    return;
  }
  std::vector<Tile> next(targets.size());
  for (size_t i = 0; i < targets.size(); ++i) {
    const ValueId v = yield.operands[leading + i];
    if (v == targets[i]) continue;
    const bool last = std::find(yield.operands.begin() + static_cast<ptrdiff_t>(leading + i + 1),
                                yield.operands.end(), v) == yield.operands.end();
    if (last && made_here(v))
      std::swap(next[i], env_[v.index]);
    else
      next[i] = env_[v.index];
  }
  for (size_t i = 0; i < targets.size(); ++i)
    if (yield.operands[leading + i] != targets[i]) std::swap(env_[targets[i].index], next[i]);
}

bool Worker::RunFor(const Op& op) {
  const BlockId region = op.regions[0];
  const std::vector<ValueId>& args = k_.fn.blocks[region].args;
  const std::vector<ValueId> carried(args.begin() + 1, args.end());
  const int64_t lo = Control(op.operands[0]), hi = Control(op.operands[1]);
  const int64_t step = op.i("step");
  Copy(op.operands, 2, carried);
  // How long it is, is known before it begins.
  const auto length = hi > lo ? static_cast<uint64_t>(hi) - static_cast<uint64_t>(lo) : 0;
  const auto by = static_cast<uint64_t>(step);
  const uint64_t trips = length / by + (length % by != 0);
  if (trips > static_cast<uint64_t>(k_.options.max_trips)) {
    diags.Report(kLoopLimit, op.at, trips, k_.options.max_trips);
    return false;
  }
  const auto in_parts = k_.in_parts.loops.find(op.results.empty() ? ValueId() : op.results[0]);
  const bool apart = in_parts != k_.in_parts.loops.end();
  const std::vector<SumInParts> none, &sums = apart ? in_parts->second : none;
  for (const SumInParts& sum : sums)
    sums_.insert_or_assign(carried[sum.result], PartsOfSum(env_[carried[sum.result].index]));
  for (int64_t at = lo; at < hi;) {
    k_.progress.Tick();
    Tile& position = env_[args[0].index];
    position.Reset(Type::Scalar(DType::kI64));
    position.n[0] = at;
    if (!RunBlock(region)) return false;
    TakeYield(region, 0, carried);
    for (const SumInParts& sum : sums)
      sums_.at(carried[sum.result])
          .Turn(env_[carried[sum.result].index],
                sum.factor.valid() ? &env_[sum.factor.index] : nullptr);
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  Copy(carried, 0, op.results);
  for (const SumInParts& sum : sums)
    sums_.at(carried[sum.result])
        .End(env_[op.results[sum.result].index], sum, k_.in_parts.parts, context_.dice);
  return true;
}

bool Worker::RunWhile(const Op& op) {
  const Block& before = k_.fn.blocks[op.regions[0]];
  const Block& after = k_.fn.blocks[op.regions[1]];
  Copy(op.operands, 0, before.args);
  for (int64_t trips = 0;; ++trips) {
    k_.progress.Tick();
    if (trips >= k_.options.max_trips) {
      diags.Report(kLoopLimit, op.at, trips, k_.options.max_trips);
      return false;
    }
    if (!RunBlock(op.regions[0])) return false;
    const Op& condition = k_.fn.ops[before.ops.back()];
    const bool more = Control(condition.operands[0]) != 0;
    TakeYield(op.regions[0], 1, more ? after.args : op.results);
    if (!more) return true;
    if (!RunBlock(op.regions[1])) return false;
    TakeYield(op.regions[1], 0, before.args);
  }
}

bool Worker::RunIf(const Op& op) {
  const size_t chosen = Control(op.operands[0]) ? 0 : 1;
  if (!RunBlock(op.regions[chosen])) return false;
  TakeYield(op.regions[chosen], 0, op.results);
  return true;
}

bool Worker::RunAssert(const Op& op) {
  const Tile& t = env_[op.operands[0].index];
  for (size_t i = 0; i < t.n.size(); ++i) {
    if (t.n[i] || t.undecided(i) || context_.tainted) continue;
    DiagBuilder report = diags.Report(kAssertFailed, op.at, op.s("message"));
    if (!t.shape.empty()) report.Note(fmt::format("first at element {} of {}", i, t.n.size()));
    if (instance_ >= 0) report.Note(fmt::format("in instance {} of the grid", instance_));
    return false;
  }
  return true;
}

void Worker::RunPrint(const Op& op) {
  std::string text = op.s("text");
  for (ValueId v : op.operands) {
    const Tile& t = env_[v.index];
    text += t.shape.empty() ? " " : " [";
    for (size_t i = 0; i < std::min(t.size(), kPrintedElements); ++i) {
      if (i > 0) text += ", ";
      if (t.is_float())
        text += fmt::format("{}", t.v[i]);
      else if (t.dtype == DType::kBool)
        text += t.n[i] ? "true" : "false";
      else if (t.dtype == DType::kU64)
        text += fmt::format("{}", static_cast<uint64_t>(t.n[i]));
      else
        text += fmt::format("{}", t.n[i]);
    }
    if (!t.shape.empty()) text += t.size() > kPrintedElements ? ", …]" : "]";
  }
  prints.push_back({instance_, std::move(text)});
}

// Half a unit of the result, relative to whatever.
void Worker::RunApart(const Op& op, std::span<const Tile*> in) {
  Tile apart = *in[0];
  apart.e.resize(apart.v.size(), 0.0F);
  for (size_t i = 0; i < apart.v.size(); ++i)
    apart.e[i] += static_cast<float>(2 * HalfUlp(k_.fn.type(op.results[0]).dtype, apart.v[i]));
  in[0] = &apart;
  EvalElementwise(op, in, Result(op));
}

// What op made, if it adds to a sum that parts of the loop make for themselves.
void Worker::AddedApart(const Op& op) {
  const auto at = k_.in_parts.additions.find(op.results[0]);
  if (at == k_.in_parts.additions.end()) return;
  double roundings = 0;
  if (op.kind == OpKind::kDot) {
    const Tile& a = env_[op.operands[0].index];
    const bool scaled = op.operands.size() > 3;  // a product of bf16 to the interpreter
    const int64_t k = a.shape[1] * (a.dtype == DType::kE2M1X2 ? 2 : 1);
    roundings = AccumulatorRoundings(scaled ? DType::kBF16 : a.dtype, k, op.i("promote", 0));
  }
  sums_.at(at->second).Addition(env_[op.results[0].index], roundings, context_.dice);
}

bool Worker::RunOp(const Op& op) {
  if (Info(op.kind).elementwise()) {
    std::array<const Tile*, 3> in{};
    const size_t operands = std::min(op.operands.size(), in.size());
    for (size_t i = 0; i < operands; ++i) in[i] = &env_[op.operands[i].index];
    const bool apart = !k_.rounded_apart.empty() && k_.rounded_apart.count(op.results[0]) > 0;
    if (apart) return RunApart(op, {in.data(), operands}), true;
    EvalElementwise(op, {in.data(), operands}, Result(op));
    if (!k_.in_parts.additions.empty()) AddedApart(op);
    return true;
  }
  auto in = [&](size_t i) -> const Tile& { return env_[op.operands[i].index]; };
  switch (op.kind) {
    case OpKind::kConstant: EvalConstant(op, Result(op)); return true;
    case OpKind::kIota: EvalIota(in(0), Result(op)); return true;
    case OpKind::kBroadcast: EvalBroadcast(in(0), op.ints("axes"), Result(op)); return true;
    case OpKind::kReshape: EvalReshape(in(0), Result(op)); return true;
    case OpKind::kTranspose: EvalTranspose(in(0), op.ints("perm"), Result(op)); return true;
    case OpKind::kRearrange:
      EvalRearrange(in(0), op.i("first"), op.ints("strides"), Result(op));
      return true;
    case OpKind::kReduce: EvalReduce(op.s("kind"), op.i("axis"), in(0), Result(op)); return true;
    case OpKind::kArgReduce:
      EvalArgReduce(op.s("kind"), op.i("axis"), in(0), Result(op));
      return true;
    case OpKind::kScan: EvalScan(op.s("kind"), op.i("axis"), in(0), Result(op)); return true;
    case OpKind::kDot:
      if (op.operands.size() > 3)
        EvalScaledDot(in(0), in(1), in(2), in(3), in(4), Result(op));
      else
        EvalDot(in(0), in(1), in(2), op.i("promote"), Result(op));
      if (!k_.in_parts.additions.empty()) AddedApart(op);
      return true;
    case OpKind::kLoad:
      Load(op, TensorOf(op.operands[0]), Tiles(op, 1), context_, Result(op));
      return true;
    case OpKind::kStore:
    case OpKind::kAtomic:
      Store(op, TensorOf(op.operands[0]), in(1), Tiles(op, 2), context_,
            Fetches(op) ? &Found(op) : nullptr);
      return true;
    case OpKind::kFor: return RunFor(op);
    case OpKind::kWhile: return RunWhile(op);
    case OpKind::kIf: return RunIf(op);
    case OpKind::kYield: return true;
    case OpKind::kAssert: return RunAssert(op);
    case OpKind::kPrint: RunPrint(op); return true;
    case OpKind::kClusterReduce:  // RunCluster
    case OpKind::kParallel:       // the driver runs it
    case OpKind::kNeg:            // elementwise, above
    case OpKind::kNot:
    case OpKind::kAbs:
    case OpKind::kFloor:
    case OpKind::kCeil:
    case OpKind::kRound:
    case OpKind::kExp2:
    case OpKind::kExp:
    case OpKind::kLog2:
    case OpKind::kLog:
    case OpKind::kSqrt:
    case OpKind::kSqrtRn:
    case OpKind::kRsqrt:
    case OpKind::kTanh:
    case OpKind::kSigmoid:
    case OpKind::kErf:
    case OpKind::kSin:
    case OpKind::kCos:
    case OpKind::kCast:
    case OpKind::kBitcast:
    case OpKind::kAdd:
    case OpKind::kSub:
    case OpKind::kMul:
    case OpKind::kDiv:
    case OpKind::kDivRn:
    case OpKind::kMod:
    case OpKind::kMin:
    case OpKind::kMax:
    case OpKind::kAnd:
    case OpKind::kOr:
    case OpKind::kXor:
    case OpKind::kShl:
    case OpKind::kShr:
    case OpKind::kCmp:
    case OpKind::kSelect:
    case OpKind::kFma:
#define OP(Name, ...) case OpKind::k##Name:
#include "ir/warp_ops.def"
#undef OP
      break;
  }
  UNREACHABLE("the interpreter met an op it does not run");
}

}  // namespace tilec::ir::interpret_internal
