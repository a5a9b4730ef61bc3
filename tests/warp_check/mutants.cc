// SPDX-License-Identifier: Apache-2.0
#include "tests/warp_check/mutants.h"

#include <fmt/format.h>

#include <algorithm>

namespace tilec::ir {
namespace {

void Detach(Function& fn, OpId id) {
  auto& ops = fn.blocks[fn.ops[id].block].ops;
  ops.erase(std::find(ops.begin(), ops.end(), id));
}

// Removes an op whose results are its first operands.
void Bypass(Function& fn, OpId id) {
  const Op op = fn.ops[id];
  for (Op& user : fn.ops)
    for (ValueId& v : user.operands)
      for (size_t i = 0; i < op.results.size(); ++i)
        if (v == op.results[i]) v = op.operands[i];
  Detach(fn, id);
}

// A new op right before `before`, with one result.
ValueId Insert(Function& fn, OpId before, OpKind kind, std::vector<ValueId> operands, Type type,
               Attrs attrs = {}) {
  const BlockId block = fn.ops[before].block;
  Builder b(fn, block);
  const ValueId v = b.Value(kind, std::move(operands), std::move(type), std::move(attrs));
  auto& ops = fn.blocks[block].ops;
  const OpId made = ops.back();
  ops.pop_back();
  ops.insert(std::find(ops.begin(), ops.end(), before), made);
  return v;
}

const Type kI32 = Type::Scalar(DType::kI32);

class Maker {
 public:
  explicit Maker(const Function& fn) : fn_(fn) {}
  std::vector<Mutant> Run() {
    std::vector<OpId> ops = OpsInOrder(fn_);
    std::sort(ops.begin(), ops.end());  // what was made first comes first
    for (OpId id : ops) Make(id);
    return std::move(out_);
  }

 private:
  void Add(std::string kind, OpId id, std::function<void(Function&)> apply) {
    out_.push_back({std::move(kind), id, std::move(apply)});
  }
  void AddAttr(std::string kind, OpId id, const char* name, int64_t by) {
    Add(std::move(kind), id, [=](Function& f) { f.ops[id].set(name, f.ops[id].i(name) + by); });
  }
  void Remove(OpId id) {
    Add(fmt::format("remove {}", Info(fn_.ops[id].kind).mnemonic), id,
        [=](Function& f) { Detach(f, id); });
  }
  bool FromCounter(ValueId v) const {
    const Op* def = fn_.def(v);
    return def && def->kind == OpKind::kCounterRead;
  }
  // Everything that an op reads, what is inside of it included.
  void Reads(OpId id, std::set<ValueId>* out) const {
    const Op& op = fn_.ops[id];
    out->insert(op.operands.begin(), op.operands.end());
    for (BlockId region : op.regions)
      for (OpId inner : fn_.blocks[region].ops) Reads(inner, out);
  }

  // In front of the last one of a kind before it, with the arithmetic that it reads and that stands
  // between; nowhere if that is more than arithmetic.
  void Swap(const char* kind, OpId id, OpKind with) {
    const auto& ops = fn_.blocks[fn_.ops[id].block].ops;
    std::set<ValueId> reads;
    Reads(id, &reads);
    std::vector<OpId> moved = {id};
    for (auto it = std::find(ops.begin(), ops.end(), id); it != ops.begin();) {
      const OpId other = *--it;
      const Op& op = fn_.ops[other];
      const bool read = std::any_of(op.results.begin(), op.results.end(),
                                    [&](ValueId v) { return reads.count(v) != 0; });
      if (op.kind == with && !read) {
        Add(kind, id, [=](Function& f) {
          for (OpId each : moved) Detach(f, each);
          auto& list = f.blocks[f.ops[other].block].ops;
          list.insert(std::find(list.begin(), list.end(), other), moved.begin(), moved.end());
        });
        return;
      }
      if (!read) continue;
      if (Info(op.kind).effect != OpEffect::kPure) return;
      Reads(other, &reads);
      moved.insert(moved.begin(), other);
    }
  }

  void Make(OpId id) {
    const Op& op = fn_.ops[id];
    switch (op.kind) {
      case OpKind::kMbarWait:
        Remove(id);
        Add("flip parity", id, [=](Function& f) {
          const ValueId one = Insert(f, id, OpKind::kConstant, {}, kI32, {{"value", int64_t{1}}});
          const ValueId v = Insert(f, id, OpKind::kXor, {f.ops[id].operands[1], one}, kI32);
          f.ops[id].operands[1] = v;
        });
        if (op.operands.size() > 2)
          Add("slot 0 awaited", id, [=](Function& f) {
            f.ops[id].operands[2] =
                Insert(f, id, OpKind::kConstant, {}, kI32, {{"value", int64_t{0}}});
          });
        if (op.i("cluster")) AddAttr("what another CTA did not seen", id, "cluster", -1);
        break;
      case OpKind::kMbarArrive:
      case OpKind::kMbarExpect:
        Remove(id);
        if (op.kind == OpKind::kMbarExpect) {
          AddAttr("more bytes", id, "bytes", 16);
          AddAttr("fewer bytes", id, "bytes", -16);
        } else if (op.operands.size() > 1) {
          Add("slot 0 released", id, [=](Function& f) {
            f.ops[id].operands[1] =
                Insert(f, id, OpKind::kConstant, {}, kI32, {{"value", int64_t{0}}});
          });
        }
        if (op.i("cluster")) AddAttr("released here only", id, "cluster", -1);
        if (op.i("leader"))
          AddAttr(op.kind == OpKind::kMbarExpect ? "bytes of the pair expected by both"
                                                 : "released here only",
                  id, "leader", -1);
        break;
      case OpKind::kMbarInit:
        Remove(id);
        if (op.i("cluster")) AddAttr("arrivals of one CTA", id, "cluster", -1);
        AddAttr("one arrival more", id, "count", 1);
        if (op.i("count") > 1) AddAttr("one arrival less", id, "count", -1);
        break;
      case OpKind::kFenceAsync:
      case OpKind::kFenceMbarInit:
      case OpKind::kCtaSync:
      case OpKind::kMmaCommit:
      case OpKind::kTmaCommit:
      case OpKind::kClusterSync: Remove(id); break;
      case OpKind::kTmaLoad:
        Remove(id);
        if (op.attr("share")) AddAttr("a part elsewhere", id, "share", 1024);
        if (op.i("pair")) AddAttr("counted here only", id, "pair", -1);
        break;
      case OpKind::kCpLoad:
        Remove(id);
        if (op.i("slotted"))
          Add("copied to slot 0", id, [=](Function& f) {
            f.ops[id].operands.back() =
                Insert(f, id, OpKind::kConstant, {}, kI32, {{"value", int64_t{0}}});
          });
        Swap("copied before mbar_wait", id, OpKind::kMbarWait);
        break;
      case OpKind::kCpArrive:
        Remove(id);
        if (op.operands.size() > 1)
          Add("arrival at slot 0", id, [=](Function& f) {
            f.ops[id].operands[1] =
                Insert(f, id, OpKind::kConstant, {}, kI32, {{"value", int64_t{0}}});
          });
        Swap("arrival before its copies", id, OpKind::kCpLoad);
        break;
      case OpKind::kCounterAdd:
        Remove(id);
        AddAttr("count twice", id, "by", 1);
        break;
      case OpKind::kCounter: AddAttr("count from one", id, "init", 1); break;
      case OpKind::kTmaWait:
        Remove(id);
        AddAttr("one more copy pending", id, "pending", 1);
        break;
      case OpKind::kTcCommit:
        Remove(id);
        if (op.i("pair")) AddAttr("told to one CTA", id, "pair", -1);
        break;
      case OpKind::kTcFence: Remove(id); break;
      case OpKind::kTmemAlloc:
        if (op.i("pair")) AddAttr("columns of one CTA", id, "pair", -1);
        break;
      case OpKind::kTcMma:
        AddAttr("product in other columns", id, "column", 16);
        if (op.i("pair")) AddAttr("product of one CTA", id, "pair", -1);
        break;
      case OpKind::kTmemLoad: AddAttr("other columns loaded", id, "column", 16); break;
      case OpKind::kMmaFence:
        Add("remove mma_fence", id, [=](Function& f) { Bypass(f, id); });
        break;
      case OpKind::kMmaWait:
        Add("remove mma_wait", id, [=](Function& f) { Bypass(f, id); });
        AddAttr("one more product pending", id, "pending", 1);
        if (op.operands.size() > op.results.size())
          Add("operand let go", id, [=](Function& f) { f.ops[id].operands.pop_back(); });
        break;
      case OpKind::kSmemAlloc:
      case OpKind::kMbarAlloc:
        if (fn_.type(op.results[0]).depth > 1)
          Add(op.kind == OpKind::kSmemAlloc ? "a slot less" : "a barrier less", id,
              [=](Function& f) { --f.values[f.ops[id].results[0]].type.depth; });
        break;
      case OpKind::kMod:
      case OpKind::kDiv:
        if (FromCounter(op.operands[0]))
          Add(op.kind == OpKind::kMod ? "slots of a shallower ring" : "parity of a shallower ring",
              id, [=](Function& f) {
                const ValueId less = Insert(
                    f, id, OpKind::kConstant, {}, kI32,
                    {{"value",
                      static_cast<int64_t>(f.def(f.ops[id].operands[1])->number("value")) - 1}});
                f.ops[id].operands[1] = less;
              });
        break;
      case OpKind::kElect: {
        bool arrives = false, loads = false;
        for (OpId inner : fn_.blocks[op.regions[0]].ops) {
          arrives = arrives || fn_.ops[inner].kind == OpKind::kMbarArrive;
          loads = loads || fn_.ops[inner].kind == OpKind::kTmaLoad;
        }
        if (arrives) Swap("released before mma_wait", id, OpKind::kMmaWait);
        if (loads) Swap("loaded before mbar_wait", id, OpKind::kMbarWait);
        break;
      }
      case OpKind::kRole:
        if (op.i("regs") > 0) AddAttr("more registers", id, "regs", 8);
        if (op.i("leader")) AddAttr("both CTAs issue", id, "leader", -1);
        break;
      default: break;
    }
  }

  const Function& fn_;
  std::vector<Mutant> out_;
};

}  // namespace

std::vector<Mutant> MutantsOf(const Function& fn) { return Maker(fn).Run(); }

OpId RoleOf(const Function& fn, OpId op) {
  while (op.valid() && fn.ops[op].kind != OpKind::kRole) op = fn.blocks[fn.ops[op].block].parent;
  return op;
}

}  // namespace tilec::ir
