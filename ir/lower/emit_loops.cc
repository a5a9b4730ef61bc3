// Loops and branches: what they carry in the role that is emitted, and what is in flight around
// them.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>
#include <vector>

#include "ir/lower/emit_rules.h"
#include "ir/lower/emitter.h"
#include "ir/lower/role_needs.h"
#include "ir/queries.h"

namespace tilec::ir {

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

// What a structure's region hands on: of what its role keeps, then chains and sums.
void Emitter::Yield_(const Op& op) {
  const OpId parent = in_.blocks[op.block].parent;
  if (!plain_branch_) {
    FlushLoads();
    TakeSums();
    Settle(flights_.size() - FlyingPast(parent));
  }
  if (parent.valid() && in_.ops[parent].kind == OpKind::kParallel) return;
  std::vector<ValueId> values;
  const Op* structure = parent.valid() ? &in_.ops[parent] : nullptr;
  const bool condition =
      structure && structure->kind == OpKind::kWhile && structure->regions[0] == op.block;
  for (size_t i = 0; i < op.operands.size(); ++i)
    if (!structure || (condition && i == 0) || Keeps(structure->results[i - (condition ? 1 : 0)]))
      values.push_back(Flying(op.operands[i]) ? Flying(op.operands[i])->acc : Tile(op.operands[i]));
  YieldChains(parent, values);
  if (parent.valid() && in_.ops[parent].kind == OpKind::kFor)
    for (size_t sum : SumsCarriedBy(parent)) values.push_back(sums_[sum].adds);
  b_.Yield(std::move(values));
}

}  // namespace tilec::ir
