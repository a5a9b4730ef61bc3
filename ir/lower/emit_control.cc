// Structure and scalars of the sequential lowering.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>
#include <limits>

#include "ir/isa.h"
#include "ir/lower/diagnostics.h"
#include "ir/lower/emitter.h"
#include "ir/lower/pressure.h"
#include "ir/lower/scalars.h"
#include "ir/queries.h"

namespace tilec::ir {

namespace {
constexpr int64_t kHopeless =
    4;  // times the registers of a thread: LLVM would take minutes to say so
constexpr int64_t kLoadQuota = 64;  // the most that the load role keeps: it has nothing to hold
}  // namespace

Emitter::Emitter(const Function& in, const Target& target, const SequentialOptions& options,
                 int depth, DiagSink& diags)
    : in_(in),
      target_(target),
      uses_(in),
      options_(options),
      diags_(diags),
      plan_(MakePlan(in, target, depth > 0 && ComputeRolesOf(in) > 1 ? options.warpgroups : 0,
                     depth > 0)),
      positions_(in),
      b_(out_, out_.body),
      depth_(depth) {
  for (OpId id : in_.blocks[in_.body].ops)
    if (in_.ops[id].kind == OpKind::kParallel) cluster_ = in_.ops[id].i("cluster", 1);
  if (depth_ == 0) {
    FindSlices();
    return;
  }
  roles_ = ComputeRolesOf(in);
  std::optional<std::vector<RoleNeeds>> needs = NeedsOfRoles(in, roles_);
  sound_ = needs.has_value();
  if (!sound_) return;
  needs_ = std::move(*needs);
  channels_ = PlanChannels(in_, plan_, needs_);
  FindSlices();
}

Result<Function> Emitter::Run() {
  out_.name = in_.name;
  out_.level = Level::kWarp;
  out_.facts = in_.facts;
  out_.statics = in_.statics;
  const int compute_warps = WarpsPerRole() * roles_;
  // The load role is one warp, but registers are dealt out by warpgroups: it gets a whole one, so
  // that the compute roles can take what it leaves (24 + 2·240 of 3·168, 32 + 3·160 of 4·128).
  out_.launch.warps = compute_warps + (specialized() ? 4 : 0);
  if (out_.launch.warps > isa::kMostCtaWarps)
    return diags_
        .Report(lower_diag::kTooManyWarps, Span{}, in_.name, out_.launch.warps, isa::kMostCtaWarps)
        .Help("give the ops fewer roles");
  for (const Param& p : in_.params) {
    Param copy = p;
    Bind(p.value, out_.AddParam(std::move(copy), in_.type(p.value)));
  }
  TRY_VOID(CheckTiles());
  PlanBuffers();
  FindFeeders();
  if (specialized() && !sound_)
    return diags_.Report(lower_diag::kRolesNotApart, Span{}, in_.name)
        .Help("use --schedule=sequential");
  if (specialized()) {
    const int64_t groups = compute_warps / 4;
    int64_t producer_regs = 0, compute_regs = 0;
    if (groups > 1) {
      const int64_t warps = isa::kWarpgroupWarps * (groups + 1);
      compute_regs = target_.ComputeQuota(groups);
      producer_regs = std::min(
          kLoadQuota, target_.RegistersAtLaunch(warps) * (groups + 1) - compute_regs * groups);
    }
    TRY_VOID(Role_("load", Part::kProducer, 0, compute_warps, 1, producer_regs));
    for (int role = 0; role < roles_; ++role)
      TRY_VOID(Role_(roles_ == 1 ? "compute" : "compute" + std::to_string(role), Part::kCompute,
                     role, role * WarpsPerRole(), WarpsPerRole(), compute_regs));
  } else {
    TRY_VOID(Role_("main", Part::kEverything, 0, 0, compute_warps, 0));
  }
  // Others may still write to the shared memory of a CTA that is done.
  if (out_.launch.cluster > 1) b_.Add(OpKind::kClusterSync, {}, {});

  // Addresses: buffers, then scratch, then the barriers.
  std::vector<BufferLife> lives;
  for (const Buffer& buffer : buffers_) lives.push_back(buffer.life);
  int64_t top = RoundUp(PlaceBuffers(lives), 128);
  for (size_t i = 0; i < buffers_.size(); ++i)
    out_.ops[buffers_[i].alloc].set("offset", lives[i].offset);
  for (const auto& [role, scratch] : scratch_) {
    int64_t shared = 0;
    for (const auto& [op, bytes] : scratch.ops)
      if (!Alone(op, bytes)) out_.ops[op].set("scratch", top), shared = std::max(shared, bytes);
    top = RoundUp(top + shared, 128);
    for (const auto& [op, bytes] : scratch.ops) {
      if (!Alone(op, bytes)) continue;
      out_.ops[op].set("scratch", top);
      out_.ops[op].set("alone", int64_t{1});
      top = RoundUp(top + bytes, 128);
    }
  }
  if (mbar_.valid()) {
    out_.ops[out_.values[mbar_].def].set("offset", top);
    top += 8;
  }
  for (const Ring& ring : rings_)
    for (ValueId mbar : {ring.full, ring.empty}) {
      out_.ops[out_.values[mbar].def].set("offset", top);
      top += 8 * ring.depth;
    }
  for (const auto& [id, token] : tokens_) {
    out_.ops[out_.values[token.mbar].def].set("offset", top);
    top += 8 * kTokenDepth;
  }
  for (const auto& [id, pass] : passes_)
    for (ValueId mbar : {pass.ring.full, pass.ring.empty}) {
      out_.ops[out_.values[mbar].def].set("offset", top);
      top += 8 * pass.ring.depth;
    }
  for (const auto& [id, exchange] : exchanges_) {
    out_.ops[out_.values[exchange.mbar].def].set("offset", top);
    top += 8 * out_.type(exchange.mbar).depth;
  }
  out_.launch.smem_bytes = top;
  if (top > target_.limits.smem_bytes) {
    if (options_.need)
      *options_.need = {LowerNeed::What::kSharedMemory, top, target_.limits.smem_bytes};
    return diags_
        .Report(lower_diag::kSharedMemoryFull, in_.params.empty() ? Span{} : in_.params[0].at,
                in_.name, top, target_.limits.smem_bytes)
        .Help("choose smaller tiles with NAME=VALUE for the kernel's tune constants");
  }
  if (specialized())
    TRY_VOID(CheckRegisters());
  else
    for (OpId id : out_.blocks[out_.body].ops)
      if (out_.ops[id].kind == OpKind::kRole)
        out_.launch.ctas_per_sm =
            CtasPerSm(out_, target_, id,
                      std::any_of(plan_.loads.begin(), plan_.loads.end(),
                                  [](const auto& load) { return load.second.kept; }));
  return std::move(out_);
}

// Reductions that run once pass through bytes of their own, which saves a barrier each.
bool Emitter::Alone(OpId id, int64_t bytes) const {
  const OpKind kind = out_.ops[id].kind;
  return (kind == OpKind::kWarpReduce || kind == OpKind::kWarpArgReduce) && bytes <= 512 &&
         !ir::InLoop(out_, id);
}

// A role that runs ahead is worth nothing if the compute roles spill.
Result<> Emitter::CheckRegisters() {
  for (OpId id : out_.blocks[out_.body].ops) {
    const Op& op = out_.ops[id];
    if (op.kind != OpKind::kRole) continue;
    const int64_t quota = op.i("regs") > 0 ? op.i("regs") : target_.limits.regs_per_thread;
    const int64_t peak = PeakRegisters(out_, id);
    if (peak == 0 || options_.spare_registers < 0) continue;
    const int64_t spare = options_.spare_for_products ? std::max(SpareRegisters(out_, target_),
                                                                 PlacedRegisters(out_, id) - peak)
                                                      : 0;
    registers_full_ = peak + std::max(options_.spare_registers, spare) > quota;
    if (registers_full_ && options_.need)
      *options_.need = {peak + options_.spare_registers <= quota
                            ? LowerNeed::What::kRegistersOfProducts
                            : LowerNeed::What::kRegisters,
                        peak + std::max(options_.spare_registers, spare), quota};
    if (registers_full_ && peak + options_.spare_registers <= quota)
      return diags_
          .Report(lower_diag::kRegistersTight, Span{}, op.s("name"), in_.name, peak, spare, quota)
          .Help("choose smaller tiles with NAME=VALUE for the kernel's tune constants");
    if (registers_full_)
      return diags_.Report(lower_diag::kRegistersFull, Span{}, op.s("name"), in_.name, peak, quota)
          .Help("choose smaller tiles with NAME=VALUE for the kernel's tune constants");
  }
  return Done();
}

// Hopeless tiles are refused here: LLVM would take minutes to say so.
Result<> Emitter::CheckTiles() {
  for (const auto& [value, layout] : plan_.layouts) {
    if (layout.regs() <= kHopeless * target_.limits.regs_per_thread) continue;
    const Op* def = in_.def(value);
    return diags_
        .Report(lower_diag::kTileTooLarge, def ? def->at : Span{}, in_.type(value).elements(),
                layout.regs(), plan_.threads(), target_.limits.regs_per_thread)
        .Help("choose smaller tiles");
  }
  return Done();
}

// The program of one role: the same walk over the same ops, each role seeing its part.
Result<> Emitter::Role_(const std::string& name, Part part, int role_index, int first_warp,
                        int warps, int64_t regs) {
  const OpId role = b_.Add(OpKind::kRole, {}, {},
                           {{"name", name},
                            {"first_warp", int64_t{first_warp}},
                            {"warps", int64_t{warps}},
                            {"regs", regs}});
  const BlockId body = out_.AddBlock(role);
  out_.ops[role].regions.push_back(body);
  const BlockId outer = b_.block();
  const std::map<ValueId, ValueId> before = map_;
  b_.SetBlock(body);
  part_ = part;
  role_ = role_index;
  BeginRole();
  TRY_VOID(Block_(in_.body));
  AwaitStores();
  b_.Yield({});
  b_.SetBlock(outer);
  map_ = before;
  return Done();
}

Result<> Emitter::Block_(BlockId from) {
  if (auto it = arm_releases_.find({role_, from});
      part_ == Part::kCompute && it != arm_releases_.end())
    for (size_t channel : it->second) Release(channel);
  for (OpId id : in_.blocks[from].ops) {
    b_.SetSpan(in_.ops[id].at);
    if (part_ == Part::kProducer) {
      TRY_VOID(ProducerOp(id));
      continue;
    }
    const bool specialized = part_ == Part::kCompute;
    if (specialized && in_.ops[id].kind != OpKind::kYield && !Mine(id)) continue;
    if (auto it = awaits_.find({role_, id}); specialized && it != awaits_.end())
      for (size_t channel : it->second) AwaitFull(channel, id);
    if (specialized && in_.ops[id].kind != OpKind::kFor) Await(in_.ops[id]);
    TRY_VOID(Op_(id));
    if (specialized && in_.ops[id].kind != OpKind::kFor) Signal(in_.ops[id]);
    if (auto it = releases_.find({role_, id}); specialized && it != releases_.end())
      for (size_t channel : it->second) Release(channel);
  }
  return Done();
}

Result<> Emitter::Op_(OpId id) {
  const Op& op = in_.ops[id];
  const bool scalar_result =
      op.results.size() == 1 && Squeezed(in_.type(op.results[0]).shape).empty();
  if (op.results.size() == 1 && !scalar_result && in_.type(op.results[0]).is_tile() &&
      op.kind != OpKind::kLoad && op.kind != OpKind::kDot && !plan_.layouts.count(op.results[0]))
    return Done();
  if (deferred_.count(id) || early_.count(id)) return Done();
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
        Bind(op.results[0],
             b_.Value(OpKind::kWarpIota, {Scalar(op.operands[0])}, WarpType(op.results[0])));
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
      if (IsPlainBranch(op)) return PlainBranch(op);
      FlushLoads();
      SettleAll();
      return If_(op);
    case OpKind::kYield: {
      const OpId parent = in_.blocks[op.block].parent;
      if (!plain_branch_) {
        FlushLoads();
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
      b_.Yield(std::move(values));
      return Done();
    }
    case OpKind::kAssert:
      b_.Add(OpKind::kAssert, {Tile(op.operands[0])}, {}, op.attrs);
      return Done();
    case OpKind::kScan:
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

Result<> Emitter::Region(BlockId from, BlockId to) {
  const BlockId saved = b_.block();
  b_.SetBlock(to);
  TRY_VOID(Block_(from));
  if (!plain_branch_) {
    FlushLoads();
    SettleAll();
  }
  b_.SetBlock(saved);
  return Done();
}

// Does the role being emitted carry this value through its structure?
bool Emitter::Keeps(ValueId result) const {
  return part_ != Part::kCompute || needs_[static_cast<size_t>(role_)].values.count(result) > 0;
}

Result<> Emitter::For_(OpId id) {
  const Op& op = in_.ops[id];
  if (part_ == Part::kCompute) Signal(op);
  std::vector<ValueId> operands = {Scalar(op.operands[0]), Scalar(op.operands[1])};
  std::vector<Type> types;
  std::vector<size_t> kept;
  for (size_t i = 0; i < op.results.size(); ++i) {
    if (!Keeps(op.results[i])) continue;
    kept.push_back(i);
    operands.push_back(InLayout(Tile(op.operands[2 + i]), plan_.layouts.count(op.results[i])
                                                              ? plan_.layouts[op.results[i]]
                                                              : Layout{}));
    types.push_back(WarpType(op.results[i]));
  }
  const std::vector<Chain>& chains = chains_[id] = ChainsOf(op);
  if (chains.empty()) {
    TRY(const OpId loop, Turns(op, kept, std::move(operands), std::move(types), {}));
    for (size_t k = 0; k < kept.size(); ++k) Bind(op.results[kept[k]], out_.ops[loop].results[k]);
  } else {
    TRY_VOID(ChainedTurns(op, kept, std::move(operands), std::move(types), chains));
  }
  if (part_ == Part::kCompute) Await(op);
  return Done();
}

// The loop itself. Behind its values it carries whether the products of chains are under way.
Result<OpId> Emitter::Turns(const Op& op, const std::vector<size_t>& kept,
                            std::vector<ValueId> operands, std::vector<Type> types,
                            const std::vector<Chain>& chains) {
  const OpId loop = b_.Add(OpKind::kFor, std::move(operands), types, op.attrs);
  const BlockId body = out_.AddBlock(loop);
  out_.ops[loop].regions.push_back(body);
  const Block& from = in_.blocks[op.regions[0]];
  Bind(from.args[0], out_.AddArg(body, Type::Scalar(DType::kI64)));
  ValueId issued;
  for (size_t k = 0; k < types.size(); ++k) {
    const ValueId arg = out_.AddArg(body, types[k]);
    if (k < kept.size())
      Bind(from.args[1 + kept[k]], arg);
    else
      issued = arg;
  }
  const BlockId home = b_.block();
  b_.SetBlock(body);
  std::vector<ValueId> flying;
  for (const Chain& chain : chains) flying.push_back(from.args[1 + chain.carried]);
  FlyOn(chains, flying, issued);
  b_.SetBlock(home);
  TRY_VOID(Region(op.regions[0], body));
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

// Arms of register arithmetic only: products under way stay under way.
bool Emitter::IsPlainBranch(const Op& op) const {
  for (BlockId region : op.regions)
    for (OpId id : in_.blocks[region].ops) {
      const Op& inner = in_.ops[id];
      if (!Info(inner.kind).elementwise() && !IsFree(inner.kind) && inner.kind != OpKind::kYield)
        return false;
    }
  return true;
}

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
  for (BlockId region : op.regions) {
    const BlockId body = out_.AddBlock(branch);
    out_.ops[branch].regions.push_back(body);
    TRY_VOID(Region(region, body));
  }
  for (size_t i = 0; i < kept.size(); ++i) Bind(kept[i], out_.ops[branch].results[i]);
  return Done();
}

ValueId Emitter::Scalar(ValueId v) {
  auto it = map_.find(v);
  CHECK(it != map_.end(), "scalar used before it was lowered");
  return it->second;
}

Type Emitter::WarpType(ValueId v) {
  const Type& t = in_.type(v);
  auto it = plan_.layouts.find(v);
  if (it == plan_.layouts.end()) return Type::Scalar(t.dtype);
  return Type::Tile(t.dtype, Squeezed(t.shape), out_.Intern(it->second));
}

namespace {
// Tiles that pass through shared memory only because that is faster do not where it is full.
Result<Function> Unstaged(const Function& fn, const Target& target,
                          const SequentialOptions& options, DiagSink& diags) {
  Target never = target;
  never.lowering.staged_elements = std::numeric_limits<int64_t>::max();
  return Emitter(fn, never, options, 0, diags).Run();
}
}  // namespace

Result<Function> Sequentialize(const Function& fn, const Target& target,
                               const SequentialOptions& options, DiagSink& diags) {
  CHECK(fn.level == Level::kTile, "the sequential lowering takes a tile function");
  DiagSink attempt;
  Emitter emitter(fn, target, options, 0, attempt);
  Result<Function> made = emitter.Run();
  if (!made.ok() && emitter.smem_bytes() > target.limits.smem_bytes)
    return Unstaged(fn, target, options, diags);
  attempt.MoveTo(diags);
  TRY(Function out, std::move(made));
  SequentialOptions with = options;
  with.slice_epilogues = true;
  const int64_t most = target.limits.regs_per_thread - target.registers.beside_sequential;
  for (OpId id : out.blocks[out.body].ops)
    if (out.ops[id].kind == OpKind::kRole && PeakRegisters(out, id) > most)
      return Emitter(fn, target, with, 0, diags).Run();
  return out;
}

Result<Function> Specialize(const Function& fn, const Target& target,
                            const SequentialOptions& options, bool* specialized, DiagSink& diags) {
  CHECK(fn.level == Level::kTile, "the lowering takes a tile function");
  *specialized = false;
  // What costs registers, from the fastest program to the smallest.
  constexpr struct {
    bool slice_epilogues, early_loads;
  } kWays[] = {{false, true}, {false, false}, {true, true}, {true, false}};
  SequentialOptions with = options;
  for (const auto& way : kWays) {
    if ((options.slice_epilogues && !way.slice_epilogues) ||
        (!options.early_loads && way.early_loads))
      continue;  // what is asked for stays
    with.slice_epilogues = way.slice_epilogues;
    with.early_loads = way.early_loads;
    bool registers_full = false;
    // The deepest rings that fit; below two slots nothing overlaps.
    for (int depth = static_cast<int>(target.lowering.most_slots); depth >= 2 && !registers_full;
         --depth) {
      DiagSink attempt;
      if (options.need) *options.need = {};
      Emitter emitter(fn, target, with, depth, attempt);
      if (!emitter.sound())
        return diags.Report(lower_diag::kRolesNotApart, Span{}, fn.name)
            .Help("use --schedule=sequential");
      if (!emitter.specialized()) return Sequentialize(fn, target, options, diags);
      Result<Function> out = emitter.Run();
      if (out.ok()) {
        *specialized = true;
        return out;
      }
      if (emitter.smem_bytes() > target.limits.smem_bytes) continue;
      registers_full = emitter.registers_full();
      if (!registers_full || &way == std::end(kWays) - 1) {
        attempt.MoveTo(diags);
        return DiagSink::Propagate();
      }
    }
    if (!registers_full) break;  // no rings fit
  }
  return Sequentialize(fn, target, options, diags);
}

}  // namespace tilec::ir
