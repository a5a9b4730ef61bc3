// SPDX-License-Identifier: Apache-2.0
#include "ir/warp_check/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <set>

#include "ir/matrix_unit.h"
#include "ir/text.h"

namespace tilec::ir::warp_check {

Program::Program(const Function& function, bool aside) : fn(function) {
  FindRoles();
  FindBarriers();
  FindBuffers(aside);
  FindHands();
  FindTensors();
  FindColumns();
  FindTiles();
  FindSteering();
  FindWork();
  FindPeriods();
  FindSites();
  FindLonely();
  FindOrder();
  FindTouches();
  for (const RoleInfo& role : roles) depth = std::max(depth, Depth(role.body, 0));
  nests = depth > 1;
}

int Program::Depth(BlockId block, int loops) const {
  int most = 0;
  for (OpId id : fn.blocks[block].ops) {
    const Op& op = fn.ops[id];
    if (op.kind == OpKind::kMbarWait) most = std::max(most, loops);
    for (BlockId region : op.regions) most = std::max(most, Depth(region, loops + IsLoop(op.kind)));
  }
  return most;
}

void Program::FindRoles() {
  roles.push_back({{}, fn.body, "all warps", fn.launch.warps});
  for (OpId id : fn.blocks[fn.body].ops) {
    const Op& op = fn.ops[id];
    if (op.kind == OpKind::kRole)
      roles.push_back({id, op.regions[0], op.s("name"), static_cast<int>(op.i("warps"))});
    else if (roles.size() > 1 && op.kind != OpKind::kYield && op.kind != OpKind::kClusterSync &&
             op.kind != OpKind::kTmemFree && !stray.valid() &&
             (Info(op.kind).effect == OpEffect::kWrite || !op.regions.empty()))
      stray = id;
  }
}

namespace {

bool IsCopy(const Op& op) {
  return op.kind == OpKind::kTmaLoad || op.kind == OpKind::kTmaStore || op.kind == OpKind::kCpLoad;
}
bool IsCopyIn(const Op& op) { return op.kind == OpKind::kTmaLoad || op.kind == OpKind::kCpLoad; }
ValueId BufferOf(const Op& op) { return op.operands[op.kind == OpKind::kCpLoad ? 1 : 0]; }

// The barrier that counts a copy: its operand, or that of the first cp_arrive behind it.
ValueId BarrierOf(const Function& fn, OpId id) {
  const Op& op = fn.ops[id];
  if (op.kind == OpKind::kTmaLoad) return op.operands[1];
  bool behind = false;
  for (OpId next : fn.blocks[op.block].ops) {
    behind = behind || next == id;
    if (behind && fn.ops[next].kind == OpKind::kCpArrive) return fn.ops[next].operands[0];
  }
  return {};
}

// "`A`, `B`": the tensors of the copies that `take` accepts.
template <typename F>
std::string TensorsOf(const Function& fn, const F& take) {
  std::vector<std::string> names;
  WalkOps(fn, fn.body, [&](OpId id) {
    const Op& op = fn.ops[id];
    if (!IsCopy(op) || !take(id)) return;
    const Param* p = fn.param(op.kind == OpKind::kCpLoad
                                  ? op.operands[0]
                                  : fn.launch.maps[static_cast<size_t>(op.i("map"))].tensor);
    const std::string name = fmt::format("`{}`", p ? p->name : "?");
    if (!std::count(names.begin(), names.end(), name)) names.push_back(name);
  });
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

void Program::FindBarriers() {
  ValueNames names(fn);
  std::map<ValueId, std::string> empty_of;  // awaited before that barrier is refilled
  for (const RoleInfo& role : roles) {
    if (!role.op.valid()) continue;
    std::vector<ValueId> awaited;
    WalkOps(fn, role.body, [&](OpId id) {
      const Op& op = fn.ops[id];
      if (op.kind == OpKind::kMbarWait) awaited.push_back(op.operands[0]);
      if (IsCopyIn(op)) {
        for (ValueId v : awaited)
          empty_of.try_emplace(v, TensorsOf(fn, [&](OpId o) {
                                 return IsCopyIn(fn.ops[o]) &&
                                        BarrierOf(fn, o) == BarrierOf(fn, id);
                               }));
        awaited.clear();
      }
    });
  }
  WalkOps(fn, fn.body, [&](OpId id) {
    const Op& op = fn.ops[id];
    if (op.kind == OpKind::kCpArrive) by_copies.insert(op.operands[0]);
    if (op.kind != OpKind::kMbarAlloc) return;
    const ValueId v = op.results[0];
    first_slot[v] = slots();
    for (int64_t i = 0; i < fn.type(v).depth; ++i) {
      slot_mbar.push_back(v);
      mbar_of_slot.push_back(static_cast<int>(waits_for.size()));
    }
    waits_for.emplace_back(roles.size(), 0);
    for (size_t role = 0; role < roles.size(); ++role)
      WalkOps(fn, roles[role].body, [&](OpId other) {
        const Op& o = fn.ops[other];
        if (o.kind == OpKind::kMbarWait && o.operands[0] == v) waits_for.back()[role] = 1;
      });
    const std::string full =
        TensorsOf(fn, [&](OpId o) { return IsCopyIn(fn.ops[o]) && BarrierOf(fn, o) == v; });
    if (!full.empty())
      mbar_name_[v] = "the full barrier of " + full;
    else if (empty_of.count(v))
      mbar_name_[v] = "the empty barrier of " + empty_of[v];
    else
      mbar_name_[v] = fmt::format("barrier %{}", names[v]);
  });
}

std::string Program::BarrierName(int slot) const {
  const ValueId v = slot_mbar[static_cast<size_t>(slot)];
  const int first = first_slot.at(v);
  return fn.type(v).depth == 1 ? mbar_name_.at(v)
                               : fmt::format("{}, slot {}", mbar_name_.at(v), slot - first);
}

int64_t Program::BoxBytes(const Op& op) const {
  const TensorMapInfo& map = fn.launch.maps[static_cast<size_t>(op.i("map"))];
  int64_t bytes = ByteSize(fn.type(op.operands[0]).dtype);
  for (int64_t b : map.box) bytes *= b;
  return bytes;
}

int64_t Program::CopiedBytes(const Op& op) const {
  const int64_t box = BoxBytes(op);
  if (!op.attr("each")) return box;
  const int64_t parts = fn.ops[fn.blocks[op.block].parent].i("parts", 1);
  return (parts - 1) * op.ints("each")[2] + box;
}

void Program::FindBuffers(bool aside) {
  std::set<int64_t> points;
  ValueNames names(fn);
  WalkOps(fn, fn.body, [&](OpId id) {
    const Op& op = fn.ops[id];
    if (op.kind == OpKind::kSmemAlloc) {
      const ValueId v = op.results[0];
      const Type& t = fn.type(v);
      const Buffer b{op.i("offset"), SmemBytes(t.smem, t.dtype), t.depth, "", {}};
      buffers[v] = b;
    }
  });
  if (aside) SetAside();
  for (const auto& [v, b] : buffers)
    for (int64_t s = 0; s <= b.depth; ++s) points.insert(b.offset + s * b.slot_bytes);
  WalkOps(fn, fn.body, [&](OpId id) {
    const Op& op = fn.ops[id];
    if ((op.kind == OpKind::kTmaLoad || op.kind == OpKind::kTmaStore) &&
        buffers.count(op.operands[0])) {
      const Buffer& b = buffers.at(op.operands[0]);
      for (int64_t s = 0; s < b.depth; ++s) {
        points.insert(b.offset + s * b.slot_bytes + op.i("offset"));
        points.insert(b.offset + s * b.slot_bytes + op.i("offset") + CopiedBytes(op));
      }
    }
    if (op.attr("scratch") && op.i("scratch") >= 0) {
      points.insert(op.i("scratch"));
      points.insert(fn.launch.smem_bytes);
    }
  });
  cuts.assign(points.begin(), points.end());
  dealt.assign(cuts.size(), 0);
  for (auto& [v, b] : buffers) {
    const ValueId buffer = v;
    b.name = TensorsOf(fn, [&](OpId o) { return BufferOf(fn.ops[o]) == buffer; });
    if (b.name.empty()) b.name = fmt::format("%{}", names[v]);
  }
  WalkOps(fn, fn.body, [&](OpId id) {
    const Op& op = fn.ops[id];
    if (op.kind == OpKind::kSmemStore || op.kind == OpKind::kSmemZero ||
        op.kind == OpKind::kCpLoad) {
      const ValueId v = op.operands[op.kind == OpKind::kSmemZero ? 0 : 1];
      if (!buffers.count(v)) return;
      const Buffer& b = buffers.at(v);
      filled_[v].push_back(RegionsOf(b.offset, b.offset + b.depth * b.slot_bytes));
    }
    if (op.kind == OpKind::kTmaStore && op.attr("each") && buffers.count(op.operands[0])) {
      const Buffer& b = buffers.at(op.operands[0]);
      const auto [first, last] = RegionsOf(b.offset, b.offset + b.slot_bytes);
      std::fill(dealt.begin() + first, dealt.begin() + last, 1);
    }
    if (op.kind == OpKind::kTmaLoad && buffers.count(op.operands[0])) {
      const Buffer& b = buffers.at(op.operands[0]);
      for (int64_t s = 0; s < b.depth; ++s) {
        const int64_t at = b.offset + s * b.slot_bytes + op.i("offset");
        filled_[op.operands[0]].push_back(RegionsOf(at, at + BoxBytes(op)));
      }
    }
  });
}

namespace {

// The tensor an op of threads or of TMA touches.
ValueId TensorOf(const Function& fn, const Op& op, bool* write) {
  *write = false;
  switch (op.kind) {
    case OpKind::kTmaStore: *write = true; [[fallthrough]];
    case OpKind::kTmaLoad: return fn.launch.maps[static_cast<size_t>(op.i("map"))].tensor;
    case OpKind::kGStore:
    case OpKind::kGAtomic:
    case OpKind::kGStoreScalar:
    case OpKind::kGAtomicScalar: *write = true; [[fallthrough]];
    case OpKind::kCpLoad:
    case OpKind::kGLoad:
    case OpKind::kGLoadScalar: return op.operands[0];
    default: return {};
  }
}

}  // namespace

void Program::FindTensors() {
  std::map<ValueId, int> touched;  // 1: read, 2: written
  WalkOps(fn, fn.body, [&](OpId id) {
    bool write = false;
    const ValueId tensor = TensorOf(fn, fn.ops[id], &write);
    if (tensor.valid()) touched[tensor] |= write ? 2 : 1;
  });
  // Copies that combine are awaited until they have read their buffer, and no longer: whatever
  // meets them at the tensor must not care which comes first.
  std::map<ValueId, std::string> combined;
  WalkOps(fn, fn.body, [&](OpId id) {
    const Op& op = fn.ops[id];
    bool write = false;
    if (op.kind == OpKind::kTmaStore && op.attr("kind"))
      combined.try_emplace(TensorOf(fn, op, &write), op.s("kind"));
  });
  WalkOps(fn, fn.body, [&](OpId id) {
    const Op& op = fn.ops[id];
    bool write = false;
    const auto at = combined.find(TensorOf(fn, op, &write));
    if (at == combined.end() || unordered.valid()) return;
    if (op.kind != OpKind::kTmaStore || !op.attr("kind") || op.s("kind") != at->second)
      unordered = id;
  });
  for (const auto& [tensor, how] : touched)
    if (how == 3) shared_tensors.try_emplace(tensor, regions());
}

ValueId Program::SharedTensor(const Op& op, bool* write) const {
  const ValueId tensor = TensorOf(fn, op, write);
  return shared_tensors.count(tensor) ? tensor : ValueId();
}

std::pair<int, int> Program::RegionsOf(int64_t begin, int64_t end) const {
  const auto first = std::lower_bound(cuts.begin(), cuts.end(), begin);
  const auto last = std::lower_bound(cuts.begin(), cuts.end(), end);
  return {static_cast<int>(first - cuts.begin()), static_cast<int>(last - cuts.begin())};
}

bool Program::FilledThrough(ValueId buffer, int region) const {
  const auto it = filled_.find(buffer);
  if (it == filled_.end()) return true;  // nobody fills it: then reading it is the mistake
  for (const auto& [first, last] : it->second)
    if (first <= region && region < last) return true;
  return false;
}

std::string Program::RegionName(int region) const {
  if (region >= first_tensor_region()) {
    const auto at = static_cast<size_t>(region - first_tensor_region());
    return fmt::format("columns {} to {} of tensor memory", tensor_columns[at],
                       tensor_columns[at + 1] - 1);
  }
  for (const auto& [tensor, i] : shared_tensors)
    if (i == region) return fmt::format("`{}`", fn.param(tensor) ? fn.param(tensor)->name : "?");
  const int64_t at = cuts[static_cast<size_t>(region)];
  for (const auto& [v, b] : buffers)
    if (b.offset <= at && at < b.offset + b.depth * b.slot_bytes)
      return b.depth == 1
                 ? fmt::format("the buffer of {}", b.name)
                 : fmt::format("slot {} of the ring of {}", (at - b.offset) / b.slot_bytes, b.name);
  return "scratch";
}

// Tiles that may be results of a product or of its fence, wherever control passes them.
void Program::FindTiles() {
  in_core.assign(static_cast<size_t>(fn.values.size()), 0);
  for (bool changed = true; changed;) {
    changed = false;
    auto mark = [&](ValueId v) {
      if (!in_core[static_cast<size_t>(v.index)])
        in_core[static_cast<size_t>(v.index)] = 1, changed = true;
    };
    auto is = [&](ValueId v) { return in_core[static_cast<size_t>(v.index)] != 0; };
    WalkOps(fn, fn.body, [&](OpId id) {
      const Op& op = fn.ops[id];
      if (FliesFrom(op) || op.kind == OpKind::kMmaFence)
        for (ValueId r : op.results) mark(r);
      auto yields = [&](BlockId b) -> const std::vector<ValueId>& {
        return fn.ops[fn.blocks[b].ops.back()].operands;
      };
      if (op.kind == OpKind::kIf)
        for (BlockId b : op.regions)
          for (size_t i = 0; i < op.results.size(); ++i)
            if (is(yields(b)[i])) mark(op.results[i]);
      if (op.kind == OpKind::kFor)
        for (size_t i = 0; i < op.results.size(); ++i)
          if (is(op.operands[i + 2]) || is(yields(op.regions[0])[i]))
            mark(op.results[i]), mark(fn.blocks[op.regions[0]].args[i + 1]);
      if (op.kind == OpKind::kWhile)
        for (size_t i = 0; i < op.results.size(); ++i)
          if (is(op.operands[i]) || is(yields(op.regions[0])[i + 1]) ||
              is(yields(op.regions[1])[i]))
            for (BlockId b : op.regions) mark(op.results[i]), mark(fn.blocks[b].args[i]);
    });
  }
}

ValueId SlotOperand(const Op& op, const Function& fn) {
  auto at = [&](size_t i) { return i < op.operands.size() ? op.operands[i] : ValueId(); };
  switch (op.kind) {
    case OpKind::kSmemStore:
    case OpKind::kMbarWait: return at(2);
    case OpKind::kSmemLoad:
    case OpKind::kSmemZero:
    case OpKind::kMbarExpect:
    case OpKind::kCpArrive:
    case OpKind::kTcCommit:
    case OpKind::kMbarArrive: return at(1);
    case OpKind::kCpLoad:
    case OpKind::kTmaLoad: return op.i("slotted") ? op.operands.back() : ValueId();
    case OpKind::kTmaStore:
      return op.operands.size() > 1 + fn.launch.maps[static_cast<size_t>(op.i("map"))].dims.size()
                 ? op.operands.back()
                 : ValueId();
    default: return {};
  }
}

// Backwards from conditions, bounds, slots and parities through everything scalar.
void Program::FindSteering() {
  steers.assign(static_cast<size_t>(fn.values.size()), 0);
  std::vector<ValueId> work;
  auto need = [&](ValueId v) {
    if (!v.valid() || !fn.type(v).is_scalar() || steers[static_cast<size_t>(v.index)]) return;
    steers[static_cast<size_t>(v.index)] = 1;
    work.push_back(v);
  };
  WalkOps(fn, fn.body, [&](OpId id) {
    const Op& op = fn.ops[id];
    if (op.kind == OpKind::kFor) need(op.operands[0]), need(op.operands[1]);
    if (op.kind == OpKind::kIf) need(op.operands[0]);
    if (op.kind == OpKind::kElect && !op.operands.empty()) need(op.operands[0]);
    if (op.kind == OpKind::kWhile) need(fn.ops[fn.blocks[op.regions[0]].ops.back()].operands[0]);
    if (op.kind == OpKind::kMbarWait) need(op.operands[1]);
    const size_t slots = op.kind == OpKind::kMma ? 5 : op.kind == OpKind::kTcMma ? 6 : 0;
    for (size_t i = 3; i < std::min(slots, op.operands.size()); ++i) need(op.operands[i]);
    need(SlotOperand(op, fn));
    need(TensorBaseOf(fn, op).slot);
  });
  auto yield = [&](BlockId b, size_t i) { return fn.ops[fn.blocks[b].ops.back()].operands[i]; };
  while (!work.empty()) {
    const ValueId v = work.back();
    work.pop_back();
    const Value& value = fn.values[v];
    auto carried = [&](const Op& op, size_t i) {  // the i-th carried value of a loop
      need(op.results[i]);
      if (op.kind == OpKind::kFor) {
        need(op.operands[i + 2]), need(fn.blocks[op.regions[0]].args[i + 1]);
        need(yield(op.regions[0], i));
      } else {
        need(op.operands[i]), need(yield(op.regions[0], i + 1)), need(yield(op.regions[1], i));
        for (BlockId b : op.regions) need(fn.blocks[b].args[i]);
      }
    };
    if (value.block.valid()) {
      const OpId parent = fn.blocks[value.block].parent;
      if (!parent.valid()) continue;
      const Op& op = fn.ops[parent];
      const std::vector<ValueId>& args = fn.blocks[value.block].args;
      const size_t i = static_cast<size_t>(std::find(args.begin(), args.end(), v) - args.begin());
      if (op.kind == OpKind::kFor && i > 0) carried(op, i - 1);
      if (op.kind == OpKind::kWhile) carried(op, i);
      continue;
    }
    if (!value.def.valid()) continue;
    const Op& op = fn.ops[value.def];
    if (const auto hand = taken_from.find(v); hand != taken_from.end())
      need(hands[static_cast<size_t>(hand->second)].given);
    const size_t i = static_cast<size_t>(std::find(op.results.begin(), op.results.end(), v) -
                                         op.results.begin());
    if (IsLoop(op.kind))
      carried(op, i);
    else if (op.kind == OpKind::kIf)
      for (BlockId b : op.regions) need(yield(b, i));
    else
      for (ValueId operand : op.operands) need(operand);
  }
}

// Ops the walk executes, and the structure around them.
bool Program::Mark(BlockId block) {
  bool any = false;
  for (OpId id : fn.blocks[block].ops) {
    const Op& op = fn.ops[id];
    bool here = false;
    for (BlockId region : op.regions) here = Mark(region) || here;
    switch (op.kind) {
      case OpKind::kSmemStore:
      case OpKind::kSmemLoad:
      case OpKind::kSmemZero:
      case OpKind::kMbarInit:
      case OpKind::kFenceMbarInit:
      case OpKind::kMbarExpect:
      case OpKind::kMbarArrive:
      case OpKind::kMbarWait:
      case OpKind::kCtaSync:
      case OpKind::kFenceAsync:
      case OpKind::kCpLoad:
      case OpKind::kCpArrive:
      case OpKind::kTmaLoad:
      case OpKind::kTmaStore:
      case OpKind::kTmaCommit:
      case OpKind::kTmaWait:
      case OpKind::kTmemAlloc:
      case OpKind::kTcMma:
      case OpKind::kTcCommit:
      case OpKind::kTcFence:
      case OpKind::kTmemLoad:
      case OpKind::kTmemStore:
      case OpKind::kTmemScales:
      case OpKind::kMmaFence:
      case OpKind::kMma:
      case OpKind::kMmaCommit:
      case OpKind::kMmaWait:
      case OpKind::kSimtDot:
      case OpKind::kRole:
      case OpKind::kCounter:
      case OpKind::kCounterAdd: here = true; break;
      default:
        here = here || (op.attr("scratch") && op.i("scratch") >= 0);
        if (bool write = false; SharedTensor(op, &write).valid()) here = true;
        break;
    }
    const bool yields = op.kind == OpKind::kYield;
    if (!yields) {
      for (ValueId v : op.operands) here = here || in_core[static_cast<size_t>(v.index)];
      for (ValueId v : op.results) here = here || steers[static_cast<size_t>(v.index)];
    }
    matters[static_cast<size_t>(id.index)] = here || yields;
    any = any || here;
  }
  return any;
}

void Program::FindWork() {
  matters.assign(static_cast<size_t>(fn.ops.size()), 0);
  Mark(fn.body);
}

// How a counter's reads repeat: floor((c + a) / k) grows, mod and masks of it repeat.
void Program::FindPeriods() {
  struct Kind {
    int64_t grows = 0, repeats = 0;  // floor(c / grows), or a function of c mod repeats
  };
  std::map<ValueId, std::pair<ValueId, Kind>> kind;  // value -> (counter, kind)
  auto constant = [&](ValueId v) -> int64_t {
    const Op* def = fn.def(v);
    return def && def->kind == OpKind::kConstant ? static_cast<int64_t>(def->number("value")) : 0;
  };
  WalkOps(fn, fn.body, [&](OpId id) {
    const Op& op = fn.ops[id];
    if (op.kind == OpKind::kCounter) period[op.results[0]] = 1;
    if (op.kind == OpKind::kCounterRead && period.count(op.operands[0])) {
      kind[op.results[0]] = {op.operands[0], {1, 0}};
      return;
    }
    for (ValueId v : op.operands) {
      const auto it = kind.find(v);
      if (it == kind.end()) continue;
      const auto [counter, k] = it->second;
      int64_t& all = period[counter];
      Kind next;
      const int64_t c = op.operands.size() == 2 ? constant(op.operands[1]) : 0;
      const bool first = op.operands[0] == v;
      if (k.grows && first) {
        if (op.kind == OpKind::kAdd || op.kind == OpKind::kSub) next = k;
        if (op.kind == OpKind::kDiv && c > 0) next.grows = k.grows * c;
        if (op.kind == OpKind::kMod && c > 0) next.repeats = k.grows * c;
        if (op.kind == OpKind::kAnd && c > 0 && (c & (c + 1)) == 0)
          next.repeats = k.grows * (c + 1);
      } else if (k.repeats) {
        next.repeats = k.repeats;
      }
      const bool sink = op.results.empty() || op.kind == OpKind::kMma;  // tc_mma has no results
      if (sink && k.repeats) continue;
      if (!sink && op.results.size() == 1 && !steers[static_cast<size_t>(op.results[0].index)])
        continue;
      if (sink || op.results.size() != 1 || (!next.grows && !next.repeats)) {
        all = 0;
        continue;
      }
      if (next.repeats && all) all = std::lcm(all, next.repeats);
      auto [at, fresh] = kind.try_emplace(op.results[0], std::pair(counter, next));
      if (!fresh && at->second.first != counter) all = 0, period[at->second.first] = 0;
      if (!fresh && next.repeats) at->second.second.repeats = next.repeats;
    }
  });
}

// Loops of different roles that come from one place of the source belong together.
void Program::FindSites() {
  std::map<std::tuple<int32_t, uint32_t, uint32_t>, std::set<size_t>> places;
  auto place = [&](OpId id) {
    const Span& at = fn.ops[id].at;
    return std::tuple(at.file, at.begin, at.end);
  };
  std::vector<std::vector<OpId>> loops(roles.size());
  for (size_t r = 1; r < roles.size(); ++r)
    WalkOps(fn, roles[r].body, [&](OpId id) {
      const Op& op = fn.ops[id];
      if (op.kind != OpKind::kFor || !matters[static_cast<size_t>(id.index)]) return;
      max_step = std::max(max_step, op.i("step"));
      loops[r].push_back(id);
      if (op.at.known()) places[place(id)].insert(r);
    });
  bool shared = false;
  for (const auto& [at, who] : places) shared = shared || who.size() > 1;
  std::map<std::tuple<int32_t, uint32_t, uint32_t>, int> numbers;
  int count = 1;
  for (const auto& found : loops)
    for (OpId id : found) {
      int number = 0;
      if (shared && fn.ops[id].at.known()) {
        const auto [it, fresh] = numbers.try_emplace(place(id), count);
        if (fresh) ++count;
        number = it->second;
      }
      site[id] = number;
    }
  loops_at.assign(roles.size(), std::vector<char>(static_cast<size_t>(count), 0));
  for (size_t r = 0; r < loops.size(); ++r)
    for (OpId id : loops[r]) loops_at[r][static_cast<size_t>(site[id])] = 1;
}

void Program::FindTouches() {
  touches.assign(roles.size(), std::vector<char>(static_cast<size_t>(regions()), 0));
  for (size_t r = 1; r < roles.size(); ++r)
    WalkOps(fn, roles[r].body, [&](OpId id) {
      const Op& op = fn.ops[id];
      const auto touch = [&](int64_t begin, int64_t end) {
        const auto [first, last] = RegionsOf(begin, end);
        std::fill(touches[r].begin() + first, touches[r].begin() + last, 1);
      };
      for (ValueId v : op.operands)
        if (const auto it = buffers.find(v); it != buffers.end()) {
          touch(it->second.offset, it->second.end());
          for (ValueId under : it->second.over)
            touch(buffers.at(under).offset, buffers.at(under).end());
        }
      if (op.attr("scratch") && op.i("scratch") >= 0) touch(op.i("scratch"), fn.launch.smem_bytes);
      for (const auto& columns : AllTensorColumnsOf(fn, op, roles[r].warps)) {
        const auto [first, last] = TensorRegionsOf(columns.first, columns.second);
        std::fill(touches[r].begin() + first, touches[r].begin() + last, 1);
      }
      bool write = false;
      if (const ValueId tensor = SharedTensor(op, &write); tensor.valid())
        touches[r][static_cast<size_t>(shared_tensors.at(tensor))] = 1;
    });
}

}  // namespace tilec::ir::warp_check
