// The program of a role from its beginning to its end, op by op, and the grid.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ir/lower/diagnostics.h"
#include "ir/lower/emit_rules.h"
#include "ir/lower/emitter.h"
#include "ir/lower/meetings.h"
#include "ir/lower/role_needs.h"
#include "ir/lower/scalars.h"
#include "ir/lower/waits.h"
#include "ir/queries.h"

namespace tilec::ir {

Emitter::Emitter(const Function& in, const ProgramPlan& plan, RunLimits runs, DiagSink& diags)
    : in_(in),
      p_(plan),
      plan_(plan.tiles),
      runs_(runs),
      slide_(SlideOf(in)),
      uses_(in),
      over_(StoredOver(in)),
      diags_(diags),
      out_(emitted_.fn),
      b_(out_, out_.body) {}

Result<Emitted> Emitter::Run() {
  out_.name = in_.name;
  out_.level = Level::kWarp;
  out_.facts = in_.facts;
  out_.statics = in_.statics;
  out_.launch.warps = p_.warps;
  out_.launch.cluster = p_.cluster;
  for (const Param& p : in_.params) {
    Param copy = p;
    Bind(p.value, out_.AddParam(std::move(copy), in_.type(p.value)));
  }
  SetUp();
  for (const PlannedRole& role : p_.roles) TRY_VOID(Role_(role));
  // Others may still write to the shared memory of a CTA that is done, or of a pair to its columns.
  if (p_.pair) b_.Add(OpKind::kClusterSync, {}, {});
  if (tensor_memory_.valid()) {
    Attrs attrs = {{"columns", out_.ops[out_.values[tensor_memory_].def].i("columns")}};
    if (p_.pair) attrs.emplace_back("pair", int64_t{1});
    b_.Add(OpKind::kTmemFree, {tensor_memory_}, {}, std::move(attrs));
  }
  if (out_.launch.cluster > 1 && !p_.pair) b_.Add(OpKind::kClusterSync, {}, {});
  return std::move(emitted_);
}

// The program of one role: the same walk over the same ops, each role seeing its part.
Result<> Emitter::Role_(const PlannedRole& planned) {
  const OpId role = b_.Add(OpKind::kRole, {}, {},
                           {{"name", planned.name},
                            {"first_warp", int64_t{planned.first_warp}},
                            {"warps", int64_t{planned.warps}},
                            {"regs", planned.registers}});
  if (p_.pair && planned.kind == PlannedRole::Kind::kIssuer)
    out_.ops[role].set("leader", int64_t{1});
  const BlockId body = out_.AddBlock(role);
  out_.ops[role].regions.push_back(body);
  const BlockId outer = b_.block();
  const std::map<ValueId, ValueId> before = map_;
  b_.SetBlock(body);
  part_ = planned.kind == PlannedRole::Kind::kProducer  ? Part::kProducer
          : planned.kind == PlannedRole::Kind::kCompute ? Part::kCompute
          : planned.kind == PlannedRole::Kind::kIssuer  ? Part::kIssuer
                                                        : Part::kEverything;
  role_ = planned.index;
  BeginRole();
  TRY_VOID(Block_(in_.body));
  AwaitStores();
  if (part_ == Part::kProducer) AwaitCommits();
  if (part_ == Part::kIssuer) Serve(0);
  b_.Yield({});
  b_.SetBlock(outer);
  map_ = before;
  return Done();
}

Result<> Emitter::Block_(BlockId from) {
  const auto release = [&](int role) {
    const auto it = p_.arm_releases.find({role, from});
    if (it == p_.arm_releases.end()) return;
    for (size_t channel : it->second)
      if (ServedByIssuer(channel) == (part_ == Part::kIssuer)) {
        if (part_ == Part::kIssuer) Serve(role);
        Release(channel);
      }
  };
  if (part_ == Part::kCompute) release(role_);
  for (int role = 0; part_ == Part::kIssuer && role < p_.compute_roles; ++role) release(role);
  const std::vector<OpId> ops = part_ == Part::kEverything && plan_.dots.empty()
                                    ? MeetTogether(in_, from, plan_)
                                    : LeftsBehindReaders(in_.blocks[from].ops);
  for (size_t k = 0; k < ops.size(); ++k) {
    const OpId id = ops[k];
    b_.SetSpan(in_.ops[id].at);
    if (part_ == Part::kProducer) {
      TRY_VOID(ProducerOp(id));
      continue;
    }
    if (part_ == Part::kIssuer) {
      TRY_VOID(IssuerOp(id));
      continue;
    }
    const bool specialized = part_ == Part::kCompute;
    if (specialized && in_.ops[id].kind != OpKind::kYield && !Mine(id)) continue;
    if (specialized && p_.issued.count(id)) {
      EndSums(id);
      continue;
    }
    if (auto it = p_.awaits.find({role_, id}); specialized && it != p_.awaits.end())
      for (size_t channel : it->second)
        if (!ServedByIssuer(channel)) AwaitFull(channel, id);
    if (specialized && in_.ops[id].kind != OpKind::kFor) Await(in_.ops[id]);
    TRY_VOID(Op_(id));
    if (specialized && in_.ops[id].kind == OpKind::kFor && !InLoop(in_, id) && drains_ &&
        PassesOnStaging(id))
      AwaitStores();
    StoreLefts(ops, k);
    if (const auto handed = handed_.find(id); specialized && handed != handed_.end())
      Hand(in_.ops[id], handed->second);
    if (specialized && in_.ops[id].kind != OpKind::kFor) Signal(in_.ops[id]);
    if (auto it = p_.releases.find({role_, id}); specialized && it != p_.releases.end())
      for (size_t channel : it->second)
        if (!ServedByIssuer(channel)) Release(channel);
  }
  return Done();
}

Result<> Emitter::Op_(OpId id) {
  const Op& op = in_.ops[id];
  if (const auto at = p_.change_of.find(id); at != p_.change_of.end()) {
    ChangeSum(at->second, id);
    return Done();
  }
  const bool scalar_result =
      op.results.size() == 1 && Squeezed(in_.type(op.results[0]).shape).empty();
  if (op.results.size() == 1 && !scalar_result && in_.type(op.results[0]).is_tile() &&
      op.kind != OpKind::kLoad && op.kind != OpKind::kDot && !Layouts().count(op.results[0]))
    return Done();
  if (p_.deferred.count(id) || early_.count(id)) return Done();
  BeforeFeeder(id);
  if (Info(op.kind).elementwise()) {
    Elementwise(op);
    return Done();
  }
  switch (op.kind) {
    case OpKind::kConstant:
      Bind(op.results[0], b_.Value(OpKind::kConstant, {}, WarpType(op.results[0]), op.attrs));
      return Done();
    case OpKind::kIota:
      if (scalar_result)
        Bind(op.results[0], b_.Cast(Scalar(op.operands[0]), DType::kI32));
      else
        Iota_(op);
      return Done();
    case OpKind::kBroadcast: Broadcast_(op); return Done();
    case OpKind::kReshape:
      if (part_ == Part::kCompute && PutsTile(op))
        Put(op);
      else if (part_ == Part::kCompute && TakesTile(op))
        Take(op);
      else
        Bind(op.results[0], Tile(op.operands[0]));
      return Done();
    case OpKind::kTranspose: Transpose_(op); return Done();
    case OpKind::kRearrange: Rearrange_(op); return Done();
    case OpKind::kScan: Scan_(op); return Done();
    case OpKind::kReduce:
    case OpKind::kArgReduce:
      // Threads meet: what they loaded comes while copies of rows that are kept do.
      if (!pending_.empty() && std::all_of(pending_.begin(), pending_.end(), [&](OpId load) {
            return in_.ops[load].attr("kept") != nullptr;
          }))
        FlushLoads();
      return Reduce_(op);
    case OpKind::kDot: return Dot_(id);
    case OpKind::kClusterReduce: FlushLoads(), SettleAll(), ClusterReduce_(id); return Done();
    case OpKind::kLoad: return Load_(id);
    case OpKind::kStore: return Store_(id);
    case OpKind::kAtomic: Atomic_(id); return Done();
    case OpKind::kParallel: FlushLoads(), SettleAll(); return Parallel_(op);
    case OpKind::kFor: FlushLoads(), SettleAll(); return For_(id);
    case OpKind::kWhile: FlushLoads(), SettleAll(); return While_(op);
    case OpKind::kIf:
      if (IsPlainBranch(in_, op)) return PlainBranch(op);
      FlushLoads();
      SettleAll();
      return If_(op);
    case OpKind::kYield: Yield_(op); return Done();
    case OpKind::kAssert:
      b_.Add(OpKind::kAssert, {Tile(op.operands[0])}, {}, op.attrs);
      return Done();
    case OpKind::kPrint:
      return diags_.Report(lower_diag::kOpNotLowered, op.at, Info(op.kind).mnemonic)
          .Help("run it with --device=interpreter");
    default: UNREACHABLE(std::string("no sequential lowering for ") + Info(op.kind).mnemonic);
  }
}

// A place along the grid's first range, of n steps, a multiple of a cluster's CTAs, and what is
// left for other ranges: counted in clusters, so that its CTAs have the rest in common by the text
// of the program. They share copies in loops only if they see that they run equally often.
std::pair<ValueId, ValueId> Emitter::OfCluster(ValueId number, ValueId n, int64_t ctas) {
  const ValueId cluster = b_.Binary(OpKind::kDiv, number, b_.Int(ctas));
  const ValueId rank = b_.Binary(OpKind::kMod, number, b_.Int(ctas));
  const ValueId clusters = b_.Binary(OpKind::kDiv, n, b_.Int(ctas));
  const ValueId first =
      b_.Binary(OpKind::kMul, b_.Binary(OpKind::kMod, cluster, clusters), b_.Int(ctas));
  return {b_.Binary(OpKind::kAdd, first, rank), b_.Binary(OpKind::kDiv, cluster, clusters)};
}

Result<> Emitter::Parallel_(const Op& op) {
  const std::vector<int64_t>& steps = op.ints("steps");
  const BlockId region = op.regions[0];
  Expr grid = Expr::Const(1);
  ValueId left = b_.Value(OpKind::kProgramId, {}, Type::Scalar(DType::kI64));
  for (size_t d = 0; d < steps.size(); ++d) {
    const std::optional<Expr> lo = ToExpr(in_, op.operands[2 * d]);
    const std::optional<Expr> hi = ToExpr(in_, op.operands[2 * d + 1]);
    if (!lo || !hi) return diags_.Report(lower_diag::kGridNotKnown, op.at);
    const Expr count =
        Simplify(Expr::Make(Expr::Op::kMax, Expr::Const(0),
                            Expr::Make(Expr::Op::kCeilDiv, Expr::Make(Expr::Op::kSub, *hi, *lo),
                                       Expr::Const(steps[d]))));
    grid = d == 0 ? count : Simplify(Expr::Make(Expr::Op::kMul, grid, count));
    const ValueId low = Scalar(op.operands[2 * d]);
    ValueId index = left;
    if (d + 1 < steps.size()) {
      const ValueId n = b_.Binary(
          OpKind::kDiv,
          b_.Binary(OpKind::kAdd, b_.Binary(OpKind::kSub, Scalar(op.operands[2 * d + 1]), low),
                    b_.Int(steps[d] - 1)),
          b_.Int(steps[d]));
      if (d == 0 && op.i("cluster", 1) > 1 && LengthsAreLoaded(in_, region)) {
        std::tie(index, left) = OfCluster(left, n, op.i("cluster"));
      } else {
        index = b_.Binary(OpKind::kMod, left, n);
        left = b_.Binary(OpKind::kDiv, left, n);
      }
    }
    const ValueId start =
        b_.Binary(OpKind::kAdd, low, b_.Binary(OpKind::kMul, index, b_.Int(steps[d])));
    Bind(in_.blocks[region].args[d], start);
  }
  out_.launch.grid = grid;
  // The region's ops stand directly in the role's body, which ends in the only yield.
  TRY_VOID(Block_(region));
  FlushLoads();
  SettleAll();
  return Done();
}

ValueId Emitter::Scalar(ValueId v) {
  auto it = map_.find(v);
  CHECK(it != map_.end(), "scalar used before it was lowered");
  return it->second;
}

Type Emitter::WarpType(ValueId v) {
  const Type& t = in_.type(v);
  auto it = Layouts().find(v);
  if (it == Layouts().end()) return Type::Scalar(t.dtype);
  return Type::Tile(t.dtype, Squeezed(t.shape), out_.Intern(it->second));
}

}  // namespace tilec::ir
