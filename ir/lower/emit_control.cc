// Structure and scalars of the sequential lowering.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ir/lower/diagnostics.h"
#include "ir/lower/emit_rules.h"
#include "ir/lower/emitter.h"
#include "ir/lower/meetings.h"
#include "ir/lower/role_needs.h"
#include "ir/lower/scalars.h"
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
    case OpKind::kArgReduce: return Reduce_(op);
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
    case OpKind::kYield: {
      const OpId parent = in_.blocks[op.block].parent;
      if (!plain_branch_) {
        FlushLoads();
        TakeSums();
        Settle(flights_.size() - FlyingPast(parent));
      }
      if (parent.valid() && in_.ops[parent].kind == OpKind::kParallel) return Done();
      std::vector<ValueId> values;
      const Op* structure = parent.valid() ? &in_.ops[parent] : nullptr;
      const bool condition =
          structure && structure->kind == OpKind::kWhile && structure->regions[0] == op.block;
      for (size_t i = 0; i < op.operands.size(); ++i)
        if (!structure || (condition && i == 0) ||
            Keeps(structure->results[i - (condition ? 1 : 0)]))
          values.push_back(Flying(op.operands[i]) ? Flying(op.operands[i])->acc
                                                  : Tile(op.operands[i]));
      YieldChains(parent, values);
      if (parent.valid() && in_.ops[parent].kind == OpKind::kFor)
        for (size_t sum : SumsCarriedBy(parent)) values.push_back(sums_[sum].adds);
      b_.Yield(std::move(values));
      return Done();
    }
    case OpKind::kAssert:
      b_.Add(OpKind::kAssert, {Tile(op.operands[0])}, {}, op.attrs);
      return Done();
    case OpKind::kPrint:
      return diags_.Report(lower_diag::kOpNotLowered, op.at, Info(op.kind).mnemonic)
          .Help("run it with --device=interpreter");
    default: UNREACHABLE(std::string("no sequential lowering for ") + Info(op.kind).mnemonic);
  }
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
      index = b_.Binary(OpKind::kMod, left, n);
      left = b_.Binary(OpKind::kDiv, left, n);
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

namespace {

// Is a sum at rest behind a block: awaited for a change, and no product issued since? `quiet`: it
// is in front of it.
bool QuietBehind(const Function& fn, BlockId block, const TensorSum& sum, bool quiet) {
  for (OpId id : fn.blocks[block].ops) {
    const Op& op = fn.ops[id];
    if (sum.changes.count(id)) quiet = true;
    if (std::count(sum.dots.begin(), sum.dots.end(), id) > 0) quiet = false;
    if (op.regions.empty()) continue;
    const auto behind = [&](BlockId region) { return QuietBehind(fn, region, sum, quiet); };
    const bool all = std::all_of(op.regions.begin(), op.regions.end(), behind);
    // A loop may have no iteration, and begins as the one before ended.
    quiet = all && (op.kind == OpKind::kIf || quiet);
  }
  return quiet;
}

}  // namespace

Result<> Emitter::Region(BlockId from, BlockId to) {
  const BlockId saved = b_.block();
  b_.SetBlock(to);
  // A loop that begins with a sum at rest, and ends each iteration so, always has it so; behind a
  // branch it is so if it is behind every arm. Of other regions nothing is known.
  const OpId parent = in_.blocks[from].parent;
  const OpKind kind = parent.valid() ? in_.ops[parent].kind : OpKind::kWhile;
  std::vector<bool> begins(sums_.size()), ends(sums_.size());
  for (size_t i = 0; i < sums_.size(); ++i) {
    if (kind != OpKind::kFor && kind != OpKind::kIf) continue;
    const std::vector<BlockId>& regions = in_.ops[parent].regions;
    const bool before = sums_[i].quiet;
    const bool behind = std::all_of(regions.begin(), regions.end(), [&](BlockId region) {
      return QuietBehind(in_, region, p_.sums[i], before);
    });
    begins[i] = before && (kind == OpKind::kIf || behind);
    ends[i] = behind && (before || from == regions.back());
    if (kind == OpKind::kFor) ends[i] = begins[i];
  }
  const auto known = [&](const std::vector<bool>& quiet) {
    for (size_t i = 0; i < sums_.size(); ++i) sums_[i].quiet = quiet[i];
  };
  known(begins);
  TRY_VOID(Block_(from));
  known(ends);
  if (!plain_branch_) {
    FlushLoads();
    SettleAll();
  }
  b_.SetBlock(saved);
  return Done();
}

// Does the role being emitted carry this value through its structure?
bool Emitter::Keeps(ValueId result) const {
  if (part_ != Part::kProducer && InTensorMemoryAlone(result)) return false;
  return part_ != Part::kCompute || p_.needs[static_cast<size_t>(role_)].values.count(result) > 0;
}

Result<> Emitter::For_(OpId id) {
  const Op& op = in_.ops[id];
  if (part_ == Part::kCompute) Signal(op);
  EnterHomes(id);
  if (BeginSums(id)) MeetBeforeProducts();
  const std::vector<size_t> sums = SumsCarriedBy(id);
  std::vector<ValueId> operands = {Scalar(op.operands[0]), Scalar(op.operands[1])};
  std::vector<Type> types;
  std::vector<size_t> kept;
  for (size_t i = 0; i < op.results.size(); ++i) {
    if (!Keeps(op.results[i])) continue;
    kept.push_back(i);
    operands.push_back(InLayout(Tile(op.operands[2 + i]), plan_.layouts.count(op.results[i])
                                                              ? plan_.layouts.at(op.results[i])
                                                              : Layout{}));
    types.push_back(WarpType(op.results[i]));
  }
  const std::vector<PlannedChain>& chains = LoopPlanOf(id).chains;
  if (chains.empty()) {
    for (size_t sum : sums) {
      operands.push_back(sums_[sum].adds);
      types.push_back(Type::Scalar(DType::kBool));
    }
    TRY(const OpId loop, Turns(op, kept, std::move(operands), std::move(types), {}));
    for (size_t k = 0; k < kept.size(); ++k) Bind(op.results[kept[k]], out_.ops[loop].results[k]);
    for (size_t k = 0; k < sums.size(); ++k)
      sums_[sums[k]].adds = out_.ops[loop].results[kept.size() + k];
  } else {
    TRY_VOID(ChainedTurns(id, kept, std::move(operands), std::move(types)));
  }
  if (part_ == Part::kCompute) Await(op);
  EndSums(id);
  LeaveHomes(op);
  return Done();
}

// The loop itself. Behind its values it carries whether the products of chains are in flight.
Result<OpId> Emitter::Turns(const Op& op, const std::vector<size_t>& kept,
                            std::vector<ValueId> operands, std::vector<Type> types,
                            const std::vector<PlannedChain>& chains) {
  const OpId loop = b_.Add(OpKind::kFor, std::move(operands), types, op.attrs);
  const BlockId body = out_.AddBlock(loop);
  out_.ops[loop].regions.push_back(body);
  const Block& from = in_.blocks[op.regions[0]];
  Bind(from.args[0], out_.AddArg(body, Type::Scalar(DType::kI64)));
  const std::vector<size_t> sums = SumsCarriedBy(in_.blocks[op.regions[0]].parent);
  ValueId issued;
  for (size_t k = 0; k < types.size(); ++k) {
    const ValueId arg = out_.AddArg(body, types[k]);
    if (k < kept.size())
      Bind(from.args[1 + kept[k]], arg);
    else if (k - kept.size() < sums.size())
      sums_[sums[k - kept.size()]].adds = arg;
    else
      issued = arg;
  }
  const BlockId home = b_.block();
  b_.SetBlock(body);
  std::vector<ValueId> flying;
  for (const PlannedChain& chain : chains) flying.push_back(from.args[1 + chain.carried]);
  FlyOn(chains, flying, issued);
  b_.SetBlock(home);
  const std::vector<Issued> before = issued_;  // still in flight if there is no iteration
  TRY_VOID(Region(op.regions[0], body));
  issued_.insert(issued_.end(), before.begin(), before.end());
  return loop;
}

Result<> Emitter::While_(const Op& op) {
  std::vector<ValueId> operands;
  std::vector<Type> types;
  for (size_t i = 0; i < op.results.size(); ++i) {
    operands.push_back(Tile(op.operands[i]));
    types.push_back(WarpType(op.results[i]));
  }
  const OpId loop = b_.Add(OpKind::kWhile, std::move(operands), types, {});
  for (BlockId region : op.regions) {
    const BlockId body = out_.AddBlock(loop);
    out_.ops[loop].regions.push_back(body);
    for (size_t i = 0; i < types.size(); ++i)
      Bind(in_.blocks[region].args[i], out_.AddArg(body, types[i]));
    TRY_VOID(Region(region, body));
  }
  for (size_t i = 0; i < types.size(); ++i) Bind(op.results[i], out_.ops[loop].results[i]);
  return Done();
}

// Products in flight stay in flight.
Result<> Emitter::PlainBranch(const Op& op) {
  // What comes from outside is brought in front of the branch: nothing is awaited inside.
  for (BlockId region : op.regions)
    for (OpId id : in_.blocks[region].ops)
      for (ValueId v : in_.ops[id].operands)
        if (in_.type(v).is_tile() && BlockOf(in_, v) != region) Tile(v);
  const bool outer = plain_branch_;
  plain_branch_ = true;
  TRY_VOID(If_(op));
  plain_branch_ = outer;
  return Done();
}

Result<> Emitter::If_(const Op& op) {
  std::vector<Type> types;
  std::vector<ValueId> kept;
  for (ValueId r : op.results)
    if (Keeps(r)) types.push_back(WarpType(r)), kept.push_back(r);
  const OpId branch = b_.Add(OpKind::kIf, {Scalar(op.operands[0])}, types, {});
  const std::vector<Issued> before = issued_;
  std::vector<Issued> after;  // in flight behind some arm
  for (BlockId region : op.regions) {
    const BlockId body = out_.AddBlock(branch);
    out_.ops[branch].regions.push_back(body);
    issued_ = before;
    TRY_VOID(Region(region, body));
    after.insert(after.end(), issued_.begin(), issued_.end());
  }
  issued_ = std::move(after);
  for (size_t i = 0; i < kept.size(); ++i) Bind(kept[i], out_.ops[branch].results[i]);
  LeaveHomes(op);
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
