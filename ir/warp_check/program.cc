// SPDX-License-Identifier: Apache-2.0
#include "ir/warp_check/program.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "ir/matrix_unit.h"

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
