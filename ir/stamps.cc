// SPDX-License-Identifier: Apache-2.0
#include "ir/stamps.h"

namespace tilec::ir {

namespace {

enum class StampedWork { kNone, kWait, kProduct, kCopy, kCompute, kStore };

const char* NameOf(StampedWork work) {
  switch (work) {
    case StampedWork::kNone: return "end";
    case StampedWork::kWait: return "wait";
    case StampedWork::kProduct: return "product";
    case StampedWork::kCopy: return "copy";
    case StampedWork::kCompute: return "compute";
    case StampedWork::kStore: return "store";
  }
  UNREACHABLE("all kinds of work are named");
}

class Stamper {
 public:
  Stamper(Function& fn, int64_t records) : fn_(fn) { table_.records = records; }

  StampTable Run() {
    std::vector<OpId> roles;
    for (OpId id : fn_.blocks[fn_.body].ops)
      if (fn_.ops[id].kind == OpKind::kRole) roles.push_back(id);
    for (OpId id : roles) table_.roles.push_back(fn_.ops[id].s("name"));
    if (roles.empty()) table_.roles.push_back("all");
    Param param;
    param.name = kStampTensor;
    param.direction = Direction::kOut;
    param.dims = {Expr::Const(table_.Words())};
    param.facts.base_align_bytes = 16;
    tensor_ = fn_.AddParam(std::move(param), Type::Tensor(DType::kU32, 1));
    if (roles.empty()) Role(fn_.body);
    for (OpId id : roles) {
      Role(fn_.ops[id].regions[0]);
      ++role_;
    }
    return std::move(table_);
  }

 private:
  // Stamps of one role; its counter stands in front of all it does.
  void Role(BlockId block) {
    std::vector<OpId> ops = std::move(fn_.blocks[block].ops);
    fn_.blocks[block].ops.clear();
    Builder b(fn_, block);
    counter_ = b.Value(OpKind::kCounter, {}, Type::Counter(), {{"init", int64_t{0}}});
    std::vector<OpId> first = std::move(fn_.blocks[block].ops);
    first.insert(first.end(), ops.begin(), ops.end());
    fn_.blocks[block].ops = std::move(first);
    Block(block, Span{});
  }

  StampedWork WorkOf(OpId id) const {
    const Op& op = fn_.ops[id];
    switch (op.kind) {
      case OpKind::kMbarWait:
      case OpKind::kMmaWait:
      case OpKind::kCtaSync:
      case OpKind::kTmaWait: return StampedWork::kWait;
      case OpKind::kMmaFence:
      case OpKind::kMma:
      case OpKind::kMmaCommit:
      case OpKind::kTcMma: return StampedWork::kProduct;
      case OpKind::kGStore:
      case OpKind::kGAtomic:
      case OpKind::kTmaStore: return StampedWork::kStore;
      case OpKind::kTmaLoad:
      case OpKind::kCpLoad:
      case OpKind::kGLoad: return StampedWork::kCopy;
      case OpKind::kElect: {
        for (OpId inner : fn_.blocks[op.regions[0]].ops)
          if (const StampedWork work = WorkOf(inner); work != StampedWork::kNone) return work;
        return StampedWork::kNone;
      }
      default: break;
    }
    for (ValueId v : op.results)
      if (fn_.type(v).is_tile() && !fn_.type(v).shape.empty() && op.kind != OpKind::kConstant)
        return StampedWork::kCompute;
    return op.kind == OpKind::kSmemStore || op.kind == OpKind::kSmemZero ? StampedWork::kCompute
                                                                         : StampedWork::kNone;
  }

  OpId Stamp(BlockId block, StampedWork work, Span at, Span loop) {
    const int64_t site = static_cast<int64_t>(table_.sites.size());
    table_.sites.push_back({role_, NameOf(work), at, loop});
    Builder b(fn_, block);
    b.SetSpan(at);
    const OpId id =
        b.Add(OpKind::kStamp, {tensor_, counter_}, {},
              {{"site", site}, {"first", role_ * table_.records}, {"records", table_.records}});
    fn_.blocks[block].ops.pop_back();  // the caller places it
    return id;
  }

  void Block(BlockId block, Span loop) {
    const std::vector<OpId> ops = std::move(fn_.blocks[block].ops);
    fn_.blocks[block].ops.clear();
    std::vector<OpId> out;
    StampedWork now = StampedWork::kNone;
    for (OpId id : ops) {
      // Copies: stamping adds ops and so moves them.
      const std::vector<BlockId> regions = fn_.ops[id].regions;
      const OpKind kind = fn_.ops[id].kind;
      const Span at = fn_.ops[id].at;
      if (kind == OpKind::kYield && now != StampedWork::kNone)
        out.push_back(Stamp(block, StampedWork::kNone, at, loop));
      const StampedWork work = kind == OpKind::kRole ? StampedWork::kNone : WorkOf(id);
      if (!regions.empty() && kind != OpKind::kElect && kind != OpKind::kRole) {
        const bool turns = IsLoop(kind);
        for (BlockId region : regions) Block(region, turns ? at : loop);
        now = StampedWork::kNone;
      } else if (work != StampedWork::kNone && work != now) {
        out.push_back(Stamp(block, work, at, loop));
        now = work;
      }
      out.push_back(id);
    }
    if (now != StampedWork::kNone && (ops.empty() || fn_.ops[ops.back()].kind != OpKind::kYield))
      out.push_back(Stamp(block, StampedWork::kNone, fn_.ops[ops.back()].at, loop));
    fn_.blocks[block].ops = std::move(out);
  }

  Function& fn_;
  ValueId tensor_, counter_;
  StampTable table_;
  int role_ = 0;
};

}  // namespace

StampTable InsertStamps(Function& fn, int64_t records) { return Stamper(fn, records).Run(); }

}  // namespace tilec::ir
