// SPDX-License-Identifier: Apache-2.0
#include "ir/pass_tiles.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "ir/lower/role_needs.h"
#include "ir/queries.h"

namespace tilec::ir {
namespace {

// Puts ops behind others.
class Inserter {
 public:
  Inserter(Function& fn, int64_t* next_token) : fn_(fn), next_token_(next_token) {}

  // An op of one result that is to be.
  struct NewOp {
    OpKind kind;
    std::vector<ValueId> operands;
    Type type;
    Attrs attrs;
    Span at;
  };
  // Adds an op that stands behind `after`, or at the top of `block`.
  OpId Behind(OpId after, BlockId block, NewOp op) {
    Builder b(fn_, block);
    b.SetSpan(op.at);
    const OpId id =
        b.Add(op.kind, std::move(op.operands), {std::move(op.type)}, std::move(op.attrs));
    std::vector<OpId>& ops = fn_.blocks[block].ops;
    ops.pop_back();
    const auto place = after.valid() ? std::find(ops.begin(), ops.end(), after) + 1 : ops.begin();
    ops.insert(place, id);
    return id;
  }
  // The pair behind v's definition.
  std::pair<OpId, OpId> Pass(ValueId v, int from, int to) {
    const OpId def = fn_.values[v].def;
    const Span at = def.valid() ? fn_.ops[def].at : Span{};
    const std::vector<int64_t> token = {(*next_token_)++};
    const BlockId block = BlockOf(fn_, v);
    const Type type = fn_.type(v);
    const OpId put =
        Behind(def, block,
               {OpKind::kReshape, {v}, type, {{"role", int64_t{from}}, {"signal", token}}, at});
    const OpId take = Behind(put, block,
                             {OpKind::kReshape,
                              {fn_.ops[put].results[0]},
                              type,
                              {{"role", int64_t{to}}, {"await", token}},
                              at});
    return {put, take};
  }
  // A copy of an op without regions, behind it, with other operands.
  OpId Copy(OpId id, std::vector<ValueId> operands) {
    const Op op = fn_.ops[id];
    return Behind(id, op.block,
                  {op.kind, std::move(operands), fn_.type(op.results[0]), op.attrs, op.at});
  }

 private:
  Function& fn_;
  int64_t* next_token_;
};

class LoopPasser {
 public:
  LoopPasser(Function& fn, OpId loop, LoopSchedule& schedule, const PassTimes& times,
             int64_t* next_token)
      : fn_(fn), loop_(loop), schedule_(schedule), times_(times), insert_(fn, next_token) {}

  void Run() {
    const std::vector<OpId> body = fn_.blocks[fn_.ops[loop_].regions[0]].ops;
    for (OpId id : body) {
      const auto placed = schedule_.ops.find(id);
      if (placed == schedule_.ops.end()) continue;
      const int role = placed->second.role;
      for (size_t i = 0; i < fn_.ops[id].operands.size(); ++i) {
        const ValueId v = In(fn_.ops[id].operands[i], id, role);
        fn_.ops[id].operands[i] = v;
      }
    }
  }

 private:
  // v as `role` has it.
  ValueId In(ValueId v, OpId reader, int role) {
    const BodyRef ref = Resolve(fn_, loop_, v);
    if (ref.kind != BodyRef::Kind::kDefined || !ref.args.empty()) return v;
    if (const auto known = known_.find({v, role}); known != known_.end()) return known->second;
    const OpId def = fn_.values[v].def;
    ValueId here = v;
    if (const auto placed = schedule_.ops.find(def); placed != schedule_.ops.end()) {
      const int maker = placed->second.role;
      if (maker != role) {
        const PutAndTake at = times_(def, reader, role);
        const auto [put, take] = insert_.Pass(v, maker, role);
        schedule_.ops[put] = {maker, at.put};
        schedule_.ops[take] = {role, at.take};
        here = fn_.ops[take].results[0];
      }
    } else if (fn_.ops[def].regions.empty() && fn_.ops[def].results.size() == 1) {
      std::vector<ValueId> operands;
      for (size_t i = 0; i < fn_.ops[def].operands.size(); ++i)
        operands.push_back(In(fn_.ops[def].operands[i], reader, role));
      if (operands != fn_.ops[def].operands) {
        const OpId copy = insert_.Copy(def, std::move(operands));
        if (schedule_.replicated.count(def)) schedule_.replicated.insert(copy);
        here = fn_.ops[copy].results[0];
      }
    }
    return known_[{v, role}] = here;
  }
  Function& fn_;
  OpId loop_;
  LoopSchedule& schedule_;
  const PassTimes& times_;
  Inserter insert_;
  std::map<std::pair<ValueId, int>, ValueId> known_;
};

class Passer {
 public:
  Passer(Function& fn, int64_t* next_token) : fn_(fn), insert_(fn, next_token) {}

  bool Run(std::string* why) {
    for (OpId id : OpsInOrder(fn_)) {
      if (!Visit(id)) {
        *why = "a loop or branch depends on what one compute role computes";
        return false;
      }
    }
    return true;
  }

 private:
  static constexpr int kNobody = -1;

  bool Visit(OpId id) {
    const OpKind kind = fn_.ops[id].kind;
    switch (kind) {
      case OpKind::kParallel: return true;
      case OpKind::kWhile: return !AnyMark(id);
      case OpKind::kFor: {
        if (Maker(fn_.ops[id].operands[0]) != kNobody || Maker(fn_.ops[id].operands[1]) != kNobody)
          return false;
        for (size_t i = 0; i < fn_.ops[id].results.size(); ++i) {
          const int role = Maker(fn_.ops[id].results[i]);
          if (role == kNobody) continue;
          Rewire(id, 2 + i, role);
          Rewire(YieldOf(fn_.ops[id].regions[0]), i, role);
        }
        return true;
      }
      case OpKind::kIf:
        if (Maker(fn_.ops[id].operands[0]) != kNobody) return false;
        for (size_t i = 0; i < fn_.ops[id].results.size(); ++i) {
          const int role = Maker(fn_.ops[id].results[i]);
          if (role == kNobody) continue;
          for (size_t arm = 0; arm < fn_.ops[id].regions.size(); ++arm)
            Rewire(YieldOf(fn_.ops[id].regions[arm]), i, role);
        }
        return true;
      default: break;
    }
    if (TakesTile(fn_.ops[id])) return true;
    if (Info(kind).effect == OpEffect::kWrite && fn_.ops[id].attr("role") == nullptr)
      fn_.ops[id].set("role", int64_t{Writer(id)});
    if (fn_.ops[id].attr("role") == nullptr) return true;
    const int role = static_cast<int>(fn_.ops[id].i("role"));
    for (size_t i = 0; i < fn_.ops[id].operands.size(); ++i) Rewire(id, i, role);
    return true;
  }
  bool AnyMark(OpId id) const {
    for (BlockId region : fn_.ops[id].regions)
      for (OpId inner : fn_.blocks[region].ops)
        if (fn_.ops[inner].attr("role") != nullptr || AnyMark(inner)) return true;
    return false;
  }
  OpId YieldOf(BlockId region) const { return fn_.blocks[region].ops.back(); }

  // The largest tile that one role makes and the op reads: that role writes it.
  int Writer(OpId id) {
    std::pair<int64_t, int> best{-1, 0};
    for (ValueId v : fn_.ops[id].operands) Largest(v, &best);
    return best.second;
  }
  void Largest(ValueId v, std::pair<int64_t, int>* best) {
    const Op* def = fn_.def(v);
    if (def != nullptr && def->regions.empty() && def->attr("role") == nullptr) {
      for (ValueId operand : def->operands) Largest(operand, best);
      return;
    }
    const int role = Maker(v);
    if (role != kNobody && fn_.type(v).elements() > best->first)
      *best = {fn_.type(v).elements(), role};
  }

  // The role that v is made by; of several, the one that makes what an iteration hands to the next.
  int Maker(ValueId v) {
    std::set<ValueId> seen;
    return Maker(v, &seen);
  }
  int Maker(ValueId v, std::set<ValueId>* seen) {
    if (!seen->insert(v).second) return kNobody;
    const Value& value = fn_.values[v];
    if (value.block.valid()) {
      const OpId parent = fn_.blocks[value.block].parent;
      if (!parent.valid() || fn_.ops[parent].kind != OpKind::kFor) return kNobody;
      const std::vector<ValueId>& args = fn_.blocks[value.block].args;
      const auto i = static_cast<size_t>(std::find(args.begin(), args.end(), v) - args.begin());
      return i == 0 ? kNobody : Carried(parent, i - 1, seen);
    }
    if (!value.def.valid()) return kNobody;
    const Op& op = fn_.ops[value.def];
    const auto i = static_cast<size_t>(std::find(op.results.begin(), op.results.end(), v) -
                                       op.results.begin());
    if (op.kind == OpKind::kFor) return Carried(value.def, i, seen);
    if (op.kind == OpKind::kIf) {
      for (BlockId region : op.regions)
        if (const int role = Maker(fn_.ops[YieldOf(region)].operands[i], seen); role != kNobody)
          return role;
      return kNobody;
    }
    if (op.attr("role") != nullptr) return static_cast<int>(op.i("role"));
    for (ValueId operand : op.operands)
      if (const int role = Maker(operand, seen); role != kNobody) return role;
    return kNobody;
  }
  int Carried(OpId loop, size_t i, std::set<ValueId>* seen) {
    const int role = Maker(fn_.ops[YieldOf(fn_.ops[loop].regions[0])].operands[i], seen);
    return role != kNobody ? role : Maker(fn_.ops[loop].operands[2 + i], seen);
  }

  void Rewire(OpId id, size_t i, int role) {
    const ValueId v = In(fn_.ops[id].operands[i], role);
    fn_.ops[id].operands[i] = v;
  }
  // v as `role` has it.
  ValueId In(ValueId v, int role) {
    if (const auto known = known_.find({v, role}); known != known_.end()) return known->second;
    const OpId def = fn_.values[v].def;
    const bool plain = def.valid() && fn_.ops[def].regions.empty() &&
                       fn_.ops[def].results.size() == 1 && fn_.ops[def].attr("role") == nullptr;
    ValueId here = v;
    if (!plain) {
      const int maker = Maker(v);
      if (maker != kNobody && maker != role && fn_.type(v).is_tile())
        here = fn_.ops[insert_.Pass(v, maker, role).second].results[0];
    } else {
      std::vector<ValueId> operands;
      for (size_t i = 0; i < fn_.ops[def].operands.size(); ++i)
        operands.push_back(In(fn_.ops[def].operands[i], role));
      if (operands != fn_.ops[def].operands)
        here = fn_.ops[insert_.Copy(def, std::move(operands))].results[0];
    }
    return known_[{v, role}] = here;
  }

  Function& fn_;
  Inserter insert_;
  std::map<std::pair<ValueId, int>, ValueId> known_;
};

}  // namespace

void PassInLoop(Function& fn, OpId loop, LoopSchedule& schedule, const PassTimes& times,
                int64_t* next_token) {
  LoopPasser(fn, loop, schedule, times, next_token).Run();
}

bool PassTiles(Function& fn, int64_t* next_token, std::string* why) {
  return Passer(fn, next_token).Run(why);
}

}  // namespace tilec::ir
