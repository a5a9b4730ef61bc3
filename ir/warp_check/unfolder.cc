// Copies of a CTA's roles, each with barriers and bytes of its own, and the exchange between them.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/warp_check/unfolder.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "ir/matrix_unit.h"
#include "ir/warp_check/cluster.h"

namespace tilec::ir::warp_check {

Unfolder::Unfolder(const Function& fn, Unfold how)
    : from_(fn),
      how_(how),
      alone_(how == Unfold::kAlone),
      ctas_(alone_ ? 1 : fn.launch.cluster),
      maps_(size_t(ctas_)) {
  for (const Op& op : fn.ops) {
    if (op.kind != OpKind::kWarpClusterReduce) continue;
    exchanged_.insert({op.operands[1], op.operands[2]});
    if (IsPushed(fn, op)) pushed_[op.operands[2]] = fn.ops[fn.blocks[op.block].parent].i("warps");
  }
}

OneCta Unfolder::Run() {
  out_.fn = from_;  // parameters keep their values; ops that are left behind are in no block
  Function& fn = out_.fn;
  fn.blocks[fn.body].ops.clear();
  fn.launch.cluster = 1;
  fn.launch.warps *= static_cast<int>(ctas_);
  fn.launch.smem_bytes *= ctas_;
  for (OpId id : from_.blocks[from_.body].ops) {
    const OpKind kind = from_.ops[id].kind;
    if (kind == OpKind::kRole) roles_ = true;
    if (kind == OpKind::kClusterSync) {
      Builder b(fn, fn.body);
      if (!roles_) Made(b.Add(OpKind::kCtaSync, {}, {}, {{"id", int64_t{0}}}), id);
      continue;
    }
    const bool once =
        kind == OpKind::kYield || kind == OpKind::kCtaSync || kind == OpKind::kFenceAsync;
    for (int64_t cta = 0; cta < (once ? 1 : ctas_); ++cta) Copy(id, fn.body, cta);
  }
  out_.origin.resize(static_cast<size_t>(fn.ops.size()));
  return std::move(out_);
}

void Unfolder::Made(OpId id, OpId origin) {
  out_.origin.resize(static_cast<size_t>(id.index) + 1);
  out_.origin[static_cast<size_t>(id.index)] = origin;
}

ValueId Unfolder::At(ValueId v, int64_t cta) const {
  const Map& map = maps_[static_cast<size_t>(cta)];
  const auto it = map.find(v);
  return it == map.end() ? v : it->second;
}

// The op in CTA `cta`; `to` gives the CTA whose memory and barriers it names, `told` the one
// whose barriers, if that is another.
OpId Unfolder::Add(OpId id, BlockId block, int64_t cta, int64_t to, Attrs attrs, int64_t told) {
  const Op& op = from_.ops[id];
  std::vector<ValueId> operands;
  for (ValueId v : op.operands) {
    const TypeKind kind = from_.type(v).kind;
    const bool barrier = kind == TypeKind::kMbar;
    operands.push_back(At(v, barrier && told >= 0                 ? told
                             : barrier || kind == TypeKind::kSmem ? to
                                                                  : cta));
  }
  if (op.kind == OpKind::kTcMma && to != cta)
    operands[0] = TensorAddress(op.operands[0], id, block, cta, to);
  std::vector<Type> types;
  for (ValueId v : op.results) types.push_back(from_.type(v));
  Builder b(out_.fn, block);
  b.SetSpan(op.at);
  const OpId copy = b.Add(op.kind, std::move(operands), std::move(types), std::move(attrs));
  for (size_t i = 0; i < op.results.size(); ++i)
    maps_[static_cast<size_t>(cta)][op.results[i]] = out_.fn.ops[copy].results[i];
  Made(copy, id);
  return copy;
}

// Columns of tensor memory in CTA `to` that have this address in CTA `cta`: the slot of an
// accumulator is the one there.
ValueId Unfolder::TensorAddress(ValueId address, OpId id, BlockId block, int64_t cta, int64_t to) {
  const Op* sum = from_.def(address);
  if (!sum || sum->kind != OpKind::kAdd) return At(address, to);
  Builder b(out_.fn, block);
  b.SetSpan(from_.ops[id].at);
  const ValueId there = b.Binary(OpKind::kAdd, At(sum->operands[0], to), At(sum->operands[1], cta));
  Made(out_.fn.values[there].def, id);
  return there;
}

// Is the op nothing to what the CTAs exchange?
bool Unfolder::LeftOut(const Op& op) const {
  if (how_ != Unfold::kExchange) return false;
  const auto exchanged = [&](ValueId v) { return exchanged_.count(v) > 0; };
  switch (op.kind) {
    case OpKind::kSmemAlloc:
    case OpKind::kMbarAlloc: return !exchanged(op.results[0]);
    case OpKind::kMbarInit: return !exchanged(op.operands[0]);
    case OpKind::kCtaSync: return op.i("parts", 1) > 1;
    case OpKind::kFenceMbarInit:
    case OpKind::kRole:
    case OpKind::kWarpClusterReduce:
    case OpKind::kYield: return false;
    case OpKind::kElect:
      return op.block != from_.body || !op.operands.empty() ||
             std::all_of(from_.blocks[op.regions[0]].ops.begin(),
                         from_.blocks[op.regions[0]].ops.end(), [&](OpId id) {
                           const OpKind kind = from_.ops[id].kind;
                           return kind != OpKind::kMbarInit && kind != OpKind::kFenceMbarInit;
                         });
    default: return true;
  }
}

// A thread of every warp arrives at this barrier of all CTAs.
void Unfolder::ArriveAtAll(OpId id, ValueId slot, Builder& b) {
  const Op& op = from_.ops[id];
  const OpId elect = b.Add(OpKind::kElect, {}, {}, {{"scope", std::string("warp")}});
  Made(elect, id);
  const BlockId body = out_.fn.AddBlock(elect);
  out_.fn.ops[elect].regions.push_back(body);
  Builder inner(out_.fn, body);
  inner.SetSpan(op.at);
  for (int64_t to = 0; to < ctas_; ++to)
    Made(inner.Add(OpKind::kMbarArrive, {At(op.operands[2], to), slot}, {}), id);
  inner.Yield({});
}

// What warp_cluster_reduce does, as ops that the verifier knows. Reads of its own CTA's buffer
// that are followed by a write are left out: a thread reads there what it alone writes. One CTA
// alone reads for the others what they would read of it, as late as they might.
void Unfolder::Exchange(OpId id, BlockId block, int64_t cta) {
  const Op& op = from_.ops[id];
  const Type &tile = from_.type(op.operands[0]), &smem = from_.type(op.operands[1]);
  Builder b(out_.fn, block);
  b.SetSpan(op.at);
  const auto number = [&](int64_t n) {
    const ValueId v = b.Int(n, DType::kI32);
    Made(out_.fn.values[v].def, id);
    return v;
  };
  const auto store_at = [&](int64_t to, int64_t part) {
    const std::vector<ValueId> operands = {At(op.operands[0], cta), At(op.operands[1], to),
                                           number(part)};
    Made(b.Add(OpKind::kSmemStore, operands, {}), id);
  };
  const auto store = [&](int64_t part) { store_at(cta, part); };
  const auto load = [&](int64_t from, int64_t part) {
    const std::vector<ValueId> operands = {At(op.operands[1], from), number(part)};
    Made(b.Add(OpKind::kSmemLoad, operands, {tile}), id);
  };
  const int64_t slices = op.i("slices", 0);
  const auto arrive = [&](int64_t barrier) { ArriveAtAll(id, number(barrier), b); };
  const auto wait = [&](int64_t barrier) {
    const std::vector<ValueId> operands = {At(op.operands[2], cta), number(0), number(barrier)};
    Made(b.Add(OpKind::kMbarWait, operands, {}), id);
  };
  const auto unknown = [&] {  // nobody knows what comes of it
    const Attrs attrs = {
        {"kind", std::string("sum")}, {"axis", int64_t{0}}, {"scratch", int64_t{-1}}};
    const OpId result =
        b.Add(OpKind::kWarpReduce, {At(op.operands[0], cta)}, {from_.type(op.results[0])}, attrs);
    Made(result, id);
    maps_[static_cast<size_t>(cta)][op.results[0]] = out_.fn.ops[result].results[0];
  };
  const int64_t parts = smem.depth;
  if (pushed_.count(op.operands[2]) > 0) {  // as if all threads of all warps did it
    for (int64_t to = 0; to < ctas_; ++to) store_at(to, cta);
    for (int64_t part = 1; alone_ && part < parts; ++part) store(part);
    arrive(0);
    wait(0);
    for (int64_t part = 0; part < parts; ++part) load(cta, part);
    unknown();
    return;
  }
  for (int64_t part = 0; part < parts; ++part) store(part);
  arrive(0);
  wait(0);
  if (slices > 0) {
    for (int64_t from = 0; from < ctas_ && cta < slices; ++from) load(from, cta);
  } else if (parts > 1) {
    for (int64_t from = 0; from < ctas_; ++from)
      if (from != cta) load(from, cta);
    store(cta);
    arrive(1);
  }
  if (slices > 0) {
    // What each has is what it keeps.
  } else if (cta == 0 || op.i("all", 0) != 0) {
    if (parts > 1) wait(1);
    for (int64_t from = 0; from < ctas_; ++from) load(from, parts > 1 ? from : 0);
  }
  const int64_t last = from_.type(op.operands[2]).depth - 1;
  if (last > 0) {
    arrive(last);
    wait(last);
  }
  // Nobody says that it reads no more: others do until the role ends, and nobody may write.
  if (last == 0 && alone_) read_late_.push_back(id);
  if (last > 0)  // Alone: what others read until here. Together: whoever comes behind may write.
    for (int64_t part = 0; part < parts; ++part) alone_ ? load(0, part) : store(part);
  unknown();
}

// What others may still read when a role ends.
void Unfolder::ReadLate(BlockId block, int64_t cta) {
  for (OpId id : read_late_) {
    const Op& op = from_.ops[id];
    Builder b(out_.fn, block);
    b.SetSpan(op.at);
    for (int64_t part = 0; part < from_.type(op.operands[1]).depth; ++part) {
      const ValueId slot = b.Int(part, DType::kI32);
      Made(out_.fn.values[slot].def, id);
      const Type& tile = from_.type(op.operands[0]);
      Made(b.Add(OpKind::kSmemLoad, {At(op.operands[1], cta), slot}, {tile}), id);
    }
  }
  read_late_.clear();
}

// What CTAs of a pair do for each other, or the first of them for both. False: it is an op like
// others.
bool Unfolder::OfPair(OpId id, BlockId block, int64_t cta) {
  const Op& op = from_.ops[id];
  if (!op.i("pair") && !op.i("leader")) return false;
  Attrs attrs = op.attrs;
  Drop(&attrs, "pair");
  Drop(&attrs, "leader");
  switch (op.kind) {
    case OpKind::kRole: return cta > 0;
    case OpKind::kMbarExpect:
      if (alone_) Set(&attrs, "bytes", op.i("bytes") / Cluster());  // of its own copies
      if (cta == 0) Add(id, block, cta, cta, std::move(attrs));
      return true;
    case OpKind::kMbarArrive: Add(id, block, cta, 0, std::move(attrs)); return true;
    case OpKind::kTmaLoad: Add(id, block, cta, cta, std::move(attrs), 0); return true;
    case OpKind::kTcMma:
    case OpKind::kTcCommit:
      for (int64_t to = 0; to < ctas_; ++to) Add(id, block, cta, to, attrs);
      return true;
    default: return false;
  }
}

void Unfolder::Copy(OpId id, BlockId block, int64_t cta) {
  const Op& op = from_.ops[id];
  if (LeftOut(op) || OfPair(id, block, cta)) return;
  Attrs attrs = op.attrs;
  Builder b(out_.fn, block);
  b.SetSpan(op.at);
  auto bind = [&](ValueId v) { maps_[static_cast<size_t>(cta)][op.results[0]] = v; };
  switch (op.kind) {
    case OpKind::kClusterRank:
      bind(b.Int(cta, DType::kI32));
      Made(out_.fn.values[At(op.results[0], cta)].def, id);
      return;
    case OpKind::kProgramId: {
      // Now the number of the cluster, of which the CTA's own follows.
      Add(id, block, cta, cta, attrs);
      const ValueId size = b.Int(Cluster()), rank = b.Int(cta);
      const ValueId first = b.Binary(OpKind::kMul, At(op.results[0], cta), size);
      const ValueId own = b.Binary(OpKind::kAdd, first, rank);
      for (ValueId v : {size, rank, first, own}) Made(out_.fn.values[v].def, id);
      bind(own);
      return;
    }
    case OpKind::kMbarInit: {
      const bool all = op.i("cluster", 0) != 0 && !alone_;
      const auto pushed = pushed_.find(op.operands[0]);
      Set(&attrs, "count",
          pushed != pushed_.end() ? pushed->second * ctas_ : op.i("count") * (all ? Cluster() : 1));
      Drop(&attrs, "cluster");
      break;
    }
    case OpKind::kMbarArrive:
      if (!op.i("cluster", 0)) break;
      Drop(&attrs, "cluster");
      for (int64_t to = 0; to < ctas_; ++to) Add(id, block, cta, to, attrs);
      return;
    case OpKind::kTmemAlloc:  // columns of one CTA are not those of another
      attrs.emplace_back("first", cta * kTensorColumns);
      break;
    case OpKind::kTmaLoad: {
      if (!op.attr("share")) break;
      const int64_t share = op.i("share");
      Drop(&attrs, "share");
      for (int64_t i = 0; i < Cluster(); ++i) {
        Set(&attrs, "offset", op.i("offset") + (alone_ ? i : cta) * share);
        Add(id, block, cta, alone_ ? 0 : i, attrs);
      }
      return;
    }
    case OpKind::kWarpClusterReduce: Exchange(id, block, cta); return;
    case OpKind::kSmemAlloc:
    case OpKind::kMbarAlloc:
      Set(&attrs, "offset", op.i("offset") + cta * from_.launch.smem_bytes);
      break;
    case OpKind::kRole:
      Set(&attrs, "first_warp", op.i("first_warp") + cta * from_.launch.warps);
      if (cta > 0) Set(&attrs, "name", fmt::format("{} of CTA {}", op.s("name"), cta));
      break;
    default: break;
  }
  if (op.attr("scratch") && op.i("scratch") >= 0)
    Set(&attrs, "scratch", op.i("scratch") + cta * from_.launch.smem_bytes);
  const OpId copy = Add(id, block, cta, cta, std::move(attrs));
  for (BlockId region : op.regions) {
    const BlockId body = out_.fn.AddBlock(copy);
    out_.fn.ops[copy].regions.push_back(body);
    for (ValueId arg : from_.blocks[region].args)
      maps_[static_cast<size_t>(cta)][arg] = out_.fn.AddArg(body, from_.type(arg));
    for (OpId inner : from_.blocks[region].ops) {
      const bool ends = op.kind == OpKind::kRole && from_.ops[inner].kind == OpKind::kYield;
      if (ends) ReadLate(body, cta);
      Copy(inner, body, cta);
    }
  }
}

void Unfolder::Set(Attrs* attrs, std::string_view name, AttrValue value) {
  for (auto& [key, old] : *attrs)
    if (key == name) old = std::move(value);
}

}  // namespace tilec::ir::warp_check
