// SPDX-License-Identifier: Apache-2.0
#include "tests/warp_check/unrolled.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/row_run.h"
#include "tests/warp_check/columns.h"
#include "tests/warp_check/core_tiles.h"

namespace tilec::ir {
namespace {

constexpr int64_t kMostEvents = 60'000;  // of a role
constexpr int64_t kMostVisits = kMostEvents;  // of blocks, where they are all that is followed
constexpr int64_t kFarOff = int64_t{1} << 30;
constexpr int64_t kTensors = int64_t{1} << 40;  // where bytes of shared memory never are

// The tensor that threads touch with an op, and how.
ValueId TensorOf(const Op& op, bool* write) {
  switch (op.kind) {
    case OpKind::kGLoad:
    case OpKind::kGLoadScalar: *write = false; return op.operands[0];
    case OpKind::kGStore:
    case OpKind::kGStoreScalar:
    case OpKind::kGAtomic:
    case OpKind::kGAtomicScalar: *write = true; return op.operands[0];
    default: return {};
  }
}

class Unroller {
 public:
  Unroller(const Function& fn, const std::map<ValueId, int64_t>& params, uint64_t seed, BlockId met)
      : fn_(fn), seed_(seed), met_(met), env_(static_cast<size_t>(fn.values.size())), core_(fn) {
    for (const auto& [v, number] : params) Env(v) = number;
  }

  // The way alone, by ops that steer it.
  Way Follow(const Steering& steering) {
    steering_ = &steering;
    way_.executed.resize(static_cast<size_t>(fn_.blocks.size()));
    made_up_ = HandedOf(fn_);
    std::vector<OpId> parts;
    Visit(fn_.body);
    for (OpId id : steering.ops[static_cast<size_t>(fn_.body.index)])
      if (fn_.ops[id].kind == OpKind::kRole)
        parts.push_back(id);
      else
        Do(id, Who::kAll);
    const auto env = env_;
    const auto counters = counters_;
    for (OpId id : parts) {
      env_ = env, counters_ = counters;
      Walk(fn_.ops[id].regions[0], Who::kAll);
    }
    way_.ok = made_.ok;
    way_.path = std::move(made_.path);
    return std::move(way_);
  }

  Unrolled Run() {
    FindBarriers();
    FindTensors();
    made_up_ = HandedOf(fn_);
    std::vector<OpId> parts;
    out_ = &made_.common;
    made_.executed += fn_.body == met_;
    for (OpId id : fn_.blocks[fn_.body].ops)
      if (fn_.ops[id].kind == OpKind::kRole)
        parts.push_back(id);
      else
        Do(id, Who::kAll);
    const auto env = env_;
    const auto counters = counters_;
    for (OpId id : parts) {
      const Op& op = fn_.ops[id];
      if (ReachesOtherCtas(op)) made_.ok = false;
      env_ = env, counters_ = counters;
      core_ = CoreTiles(fn_);
      warps_ = static_cast<int>(op.i("warps"));
      made_.roles.push_back({static_cast<int>(op.i("first_warp")), warps_, {}});
      out_ = &made_.roles.back().events;
      Walk(op.regions[0], Who::kAll);
      if (made_.fault.empty()) made_.fault = core_.fault();
    }
    return std::move(made_);
  }

 private:
  using Number = std::optional<int64_t>;

  void FindBarriers() {
    for (const Op& op : fn_.ops)
      if (op.kind == OpKind::kMbarAlloc) {
        first_[op.results[0]] = made_.barriers;
        made_.barriers += static_cast<int>(fn_.type(op.results[0]).depth);
      }
  }

  // Those that threads read and write.
  void FindTensors() {
    std::map<ValueId, int> touched;  // 1: read, 2: written
    for (const Op& op : fn_.ops) {
      bool write = false;
      if (const ValueId tensor = TensorOf(op, &write); tensor.valid())
        touched[tensor] |= write ? 2 : 1;
    }
    for (const auto& [tensor, how] : touched)
      if (how == 3) tensors_.emplace(tensor, kTensors + static_cast<int64_t>(tensors_.size()));
  }

  // The next of the numbers of a scalar that is handed over; float or not, it is one of few.
  std::optional<Number> MadeUp(ValueId v) {
    const auto root = made_up_.find(v);
    if (root == made_up_.end()) return std::nullopt;
    uint64_t h = seed_ + static_cast<uint64_t>(root->second.index) * 977;
    h = (h ^ static_cast<uint64_t>(times_[v]++)) * 0x9E3779B97F4A7C15u + (h >> 29);
    const bool truth = fn_.type(root->second).dtype == DType::kBool;
    return Number(static_cast<int64_t>((h >> 40) % (truth ? 2 : 400)));
  }

  void TooLong() { made_.ok = false, way_.too_long = true; }
  void Visit(BlockId block) { ++way_.executed[static_cast<size_t>(block.index)]; }

  void Walk(BlockId block, Who who) {
    if (steering_ != nullptr) {
      Visit(block);
      if (++visits_ > kMostVisits) TooLong();
      for (OpId id : steering_->ops[static_cast<size_t>(block.index)]) {
        if (!made_.ok) return;
        Do(id, who);
      }
      return;
    }
    made_.executed += block == met_;
    for (OpId id : fn_.blocks[block].ops) {
      if (!made_.ok || static_cast<int64_t>(out_->size()) > kMostEvents) {
        made_.ok = false;
        return;
      }
      Do(id, who);
    }
  }

  Number Get(ValueId v) const {
    return v.valid() ? env_[static_cast<size_t>(v.index)] : std::nullopt;
  }
  int64_t Sure(ValueId v) {
    const Number n = Get(v);
    made_.ok = made_.ok && n.has_value();
    return n.value_or(0);
  }
  const std::vector<ValueId>& Yields(BlockId block) const {
    return fn_.ops[fn_.blocks[block].ops.back()].operands;
  }
  void Pass(const std::vector<ValueId>& from, size_t first_from, const std::vector<ValueId>& to,
            size_t first_to) {
    std::vector<Number> values;
    for (size_t i = first_to; i < to.size(); ++i)
      values.push_back(Get(from[i - first_to + first_from]));
    for (size_t i = first_to; i < to.size(); ++i) Env(to[i]) = values[i - first_to];
    if (steering_ == nullptr) core_.Pass(from, first_from, to, first_to);
  }

  void Structure(const Op& op, Who who) {
    switch (op.kind) {
      case OpKind::kElect:
        if (op.operands.empty() || Sure(op.operands[0]))
          Walk(op.regions[0], op.s("scope") == "warp" ? Who::kWarps : Who::kElected);
        return;
      case OpKind::kIf: {
        const bool yes = Sure(op.operands[0]) != 0;
        made_.path.push_back(yes);
        const BlockId taken = op.regions[yes ? 0 : 1];
        Walk(taken, who);
        if (made_.ok) Pass(Yields(taken), 0, op.results, 0);
        return;
      }
      case OpKind::kFor: {
        const BlockId body = op.regions[0];
        const std::vector<ValueId>& args = fn_.blocks[body].args;
        Pass(op.operands, 2, args, 1);
        const int64_t end = Sure(op.operands[1]);
        int64_t turns = 0, at = Sure(op.operands[0]);
        if (steering_ != nullptr && (end - at) / op.i("step") > kMostVisits - visits_) TooLong();
        for (; made_.ok && at < end; at += op.i("step"), ++turns) {
          Env(args[0]) = at;
          Walk(body, who);
          if (made_.ok) Pass(Yields(body), 0, args, 1);
        }
        made_.path.push_back(turns);
        Pass(args, 1, op.results, 0);
        return;
      }
      case OpKind::kWhile: {
        const BlockId head = op.regions[0], body = op.regions[1];
        Pass(op.operands, 0, fn_.blocks[head].args, 0);
        for (int64_t turns = 0; made_.ok; ++turns) {
          Walk(head, who);
          if (!made_.ok) return;
          const bool more = Sure(Yields(head)[0]) != 0;
          Pass(Yields(head), 1, more ? fn_.blocks[body].args : op.results, 0);
          if (!more) {
            made_.path.push_back(turns);
            return;
          }
          Walk(body, who);
          if (made_.ok) Pass(Yields(body), 0, fn_.blocks[head].args, 0);
        }
        return;
      }
      default: made_.ok = false;
    }
  }

  Event& Add(What what, Who who, OpId id) {
    out_->push_back({what, who, id});
    return out_->back();
  }
  bool In(int64_t number, const Type& ring) {
    if (number >= 0 && number < ring.depth) return true;
    if (made_.ok) made_.fault = "a slot beyond its ring";
    return made_.ok = false;
  }
  int Barrier(ValueId mbar, ValueId slot) {
    const auto it = first_.find(mbar);
    const int64_t number = slot.valid() ? Sure(slot) : 0;
    if (it == first_.end()) return made_.ok = false, 0;
    if (!In(number, fn_.type(mbar))) return 0;
    return it->second + static_cast<int>(number);
  }
  // Bytes of a slot of a buffer, or of a box in it.
  void Bytes(Event& e, ValueId buffer, ValueId slot, const Op* box = nullptr) {
    const Op* alloc = fn_.def(buffer);
    if (!alloc || alloc->kind != OpKind::kSmemAlloc) {
      made_.ok = false;
      return;
    }
    const Type& type = fn_.type(buffer);
    const int64_t each = SmemBytes(type.smem, type.dtype);
    const int64_t number = slot.valid() ? Sure(slot) : 0;
    if (!In(number, type)) return;
    e.lo = alloc->i("offset") + number * each;
    e.hi = e.lo + each;
    if (!box) return;
    e.lo += box->i("offset");
    e.bytes = ByteSize(type.dtype);
    for (int64_t extent : fn_.launch.maps[static_cast<size_t>(box->i("map"))].box)
      e.bytes *= extent;
    e.hi = e.lo + e.bytes;
  }
  void Touch(OpId id, Who who, ValueId buffer, ValueId slot, bool write) {
    Event& e = Add(What::kTouch, who, id);
    e.write = write;
    Bytes(e, buffer, slot);
  }
  // Columns of tensor memory, by a product or by threads.
  void Columns(OpId id, Who who, What what) {
    const Op& op = fn_.ops[id];
    for (const ColumnRun& run : ColumnsOf(fn_, op, warps_)) {
      Event& e = Add(what, who, id);
      const size_t address = what == What::kByProduct || op.kind == OpKind::kTmemLoad ? 0 : 1;
      const int64_t base = Sure(op.operands[address]);
      e.columns = true, e.write = run.write, e.group = run.group;
      e.lo = base + run.first, e.hi = base + run.end;
    }
  }
  void Scratch(OpId id) {
    const int64_t alone = fn_.ops[id].i("alone");
    const auto touch = [&](OpId of, bool write) {
      const Op& op = fn_.ops[of];
      Event& e = Add(What::kTouch, Who::kAll, of);
      e.write = write;
      e.lo = op.i("scratch");
      e.hi = e.lo + ScratchBytesOf(fn_, op);
    };
    if (alone == 0) Add(What::kSync, Who::kAll, id);
    touch(id, true);
    unread_.push_back(id);
    if (alone == 2) return;  // at the barrier of the next
    Add(What::kSync, Who::kAll, id);
    for (OpId one : std::exchange(unread_, {})) touch(one, false);
  }

  // One CTA of a cluster is followed where it meets the others as a whole: not where their threads
  // arrive at its barriers, or copy into its memory.
  static bool ReachesOtherCtas(const Op& op) {
    if (op.kind == OpKind::kMbarInit) return false;
    return op.i("cluster") || op.i("leader") || op.i("share") || op.i("pair");
  }
  // Warps write their parts, meet those of all CTAs, and read; nobody goes on before all have read.
  void Exchange(OpId id) {
    const ValueId buffer = fn_.ops[id].operands[1];
    for (const bool write : {true, false}) {
      Event& e = Add(What::kTouch, Who::kAll, id);
      e.write = write;
      Bytes(e, buffer, {});
      const Type& type = fn_.type(buffer);
      e.hi = e.lo + type.depth * SmemBytes(type.smem, type.dtype);
      Add(What::kSync, Who::kAll, id);
    }
  }

  void Steer(const Op& op) {
    switch (op.kind) {
      case OpKind::kYield: return;
      case OpKind::kCounter: counters_[op.results[0]] = op.i("init"); return;
      case OpKind::kCounterAdd: counters_[op.operands[0]] += op.i("by"); return;
      case OpKind::kCounterRead: Env(op.results[0]) = counters_[op.operands[0]]; return;
      case OpKind::kTmemAlloc: Env(op.results[0]) = 0; return;
      default: return Compute(op);
    }
  }
  void Compute(const Op& op) {
    const std::optional<Number> handed = MadeUp(op.results[0]);
    Env(op.results[0]) = handed ? *handed : Evaluate(op);
  }

  void Do(OpId id, Who who) {
    const Op& op = fn_.ops[id];
    if (steering_ == nullptr && ReachesOtherCtas(op)) made_.ok = false;
    if (!op.regions.empty()) return Structure(op, who);
    if (steering_ != nullptr) return Steer(op);
    core_.Do(id);
    bool write = false;
    if (const auto tensor = tensors_.find(TensorOf(op, &write)); tensor != tensors_.end()) {
      Event& e = Add(What::kTouch, who, id);
      e.write = write, e.tensor = true;
      e.lo = tensor->second, e.hi = e.lo + 1;
    }
    auto at = [&](size_t i) { return i < op.operands.size() ? op.operands[i] : ValueId(); };
    switch (op.kind) {
      case OpKind::kMbarInit:
        for (int64_t i = 0; i < fn_.type(op.operands[0]).depth; ++i) {
          Event& e = Add(What::kInit, who, id);
          e.barrier = Barrier(op.operands[0], {}) + static_cast<int>(i);
          e.number = op.i("count");
        }
        return;
      case OpKind::kMbarExpect:
      case OpKind::kMbarArrive: {
        Event& e = Add(What::kArrive, who, id);
        e.barrier = Barrier(op.operands[0], at(1));
        e.bytes = op.kind == OpKind::kMbarExpect ? op.i("bytes") : 0;
        return;
      }
      case OpKind::kMbarWait: {
        Event& e = Add(What::kWait, who, id);
        e.barrier = Barrier(op.operands[0], at(2));
        e.number = Sure(op.operands[1]) & 1;
        return;
      }
      case OpKind::kCtaSync: Add(What::kSync, who, id); return;
      case OpKind::kTmaLoad: {
        const ValueId slot = op.i("slotted") ? op.operands.back() : ValueId();
        Event& e = Add(What::kCopyIn, who, id);
        Bytes(e, op.operands[0], slot, &op);
        e.barrier = Barrier(op.operands[1], fn_.type(op.operands[1]).depth > 1 ? slot : ValueId());
        e.write = true;
        return;
      }
      case OpKind::kCpLoad: {
        Event& e = Add(What::kCpAsync, who, id);
        Bytes(e, op.operands[1], op.i("slotted") ? op.operands.back() : ValueId());
        e.write = true;
        return;
      }
      case OpKind::kCpArrive: {
        Event& e = Add(What::kCpDone, who, id);
        e.barrier = Barrier(op.operands[0], at(1));
        return;
      }
      case OpKind::kTmaStore: {
        const size_t dims = fn_.launch.maps[static_cast<size_t>(op.i("map"))].dims.size();
        Bytes(Add(What::kCopyOut, who, id), op.operands[0], at(1 + dims), &op);
        return;
      }
      case OpKind::kMma:
        if (fn_.type(op.operands[1]).kind == TypeKind::kSmem)
          Bytes(Add(What::kProduct, who, id), op.operands[1], at(3));
        Bytes(Add(What::kProduct, who, id), op.operands[2], at(4));
        return;
      case OpKind::kTmaCommit:
      case OpKind::kMmaCommit:
        Add(What::kCommit, who, id).copies = op.kind == OpKind::kTmaCommit;
        return;
      case OpKind::kTmaWait:
      case OpKind::kMmaWait: {
        Event& e = Add(What::kAwait, who, id);
        e.copies = op.kind == OpKind::kTmaWait;
        e.number = op.i("pending");
        return;
      }
      case OpKind::kSmemStore: Touch(id, who, op.operands[1], at(2), true); return;
      case OpKind::kSmemZero: Touch(id, who, op.operands[0], at(1), true); return;
      case OpKind::kSmemLoad: Touch(id, who, op.operands[0], at(1), false); return;
      case OpKind::kSimtDot:
        Touch(id, who, op.operands[1], {}, false);
        Touch(id, who, op.operands[2], {}, false);
        return;
      case OpKind::kCounter:
      case OpKind::kCounterAdd:
      case OpKind::kCounterRead: return Steer(op);
      case OpKind::kTmemAlloc:
        Steer(op);
        Add(What::kSync, who, id);
        return;
      case OpKind::kTcMma:
        Add(What::kIssue, who, id);
        if (op.i("a_column") < 0)
          Bytes(Add(What::kByProduct, who, id), op.operands[1], op.operands[3]);
        Bytes(Add(What::kByProduct, who, id), op.operands[2], op.operands[4]);
        return Columns(id, who, What::kByProduct);
      case OpKind::kTmemLoad:
      case OpKind::kTmemStore:
      case OpKind::kTmemScales: return Columns(id, who, What::kByThreads);
      case OpKind::kTcCommit:
        Add(What::kTell, who, id).barrier = Barrier(op.operands[0], at(1));
        return;
      case OpKind::kTcFence: Add(What::kFence, who, id).number = op.i("after"); return;
      case OpKind::kClusterSync: Add(What::kSync, who, id); return;
      case OpKind::kWarpClusterReduce: Exchange(id); return;
      default: break;
    }
    if (op.attr("scratch") && op.i("scratch") >= 0) Scratch(id);
    if (op.results.size() != 1 || !fn_.type(op.results[0]).is_scalar()) return;
    Compute(op);
  }

  Number& Env(ValueId v) { return env_[static_cast<size_t>(v.index)]; }

  int64_t Cta() const { return seed_ / 4 % 2 == 0 ? 0 : static_cast<int64_t>(seed_ / 8 % 24); }
  Number Evaluate(const Op& op) {
    if (op.kind == OpKind::kProgramId) return Cta();
    if (op.kind == OpKind::kClusterRank) return Cta() % fn_.launch.cluster;
    std::vector<int64_t>& v = numbers_;
    v.clear();
    for (ValueId o : op.operands) {
      if (op.kind == OpKind::kGLoadScalar && o == op.operands[0]) continue;
      const Number n = Get(o);
      if (!n) return std::nullopt;
      v.push_back(*n);
    }
    const DType dtype = fn_.type(op.results[0]).dtype;
    if (IsFloat(dtype) && made_up_.empty()) return std::nullopt;
    auto floor_div = [](int64_t a, int64_t b) {
      return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
    };
    switch (op.kind) {
      case OpKind::kConstant:  // a float as a whole number near it: roles only have to agree
        return static_cast<int64_t>(IsFloat(dtype) ? std::clamp(op.number("value"), -1e6, 1e6)
                                                   : op.number("value"));
      case OpKind::kGLoadScalar: {  // some number, always the same one
        const Param* tensor = fn_.param(op.operands[0]);
        if (!tensor || tensor->direction != Direction::kIn) return std::nullopt;
        uint64_t h = seed_ + static_cast<uint64_t>(op.operands[0].index);
        for (int64_t x : v) h = (h ^ static_cast<uint64_t>(x)) * 0x9E3779B97F4A7C15u + (h >> 29);
        return static_cast<int64_t>((h >> 40) % (dtype == DType::kBool ? 2 : 400));
      }
      case OpKind::kCast: return dtype == DType::kBool ? v[0] != 0 : v[0];
      case OpKind::kNeg: return -v[0];
      case OpKind::kAbs: return std::abs(v[0]);
      case OpKind::kNot: return dtype == DType::kBool ? !v[0] : ~v[0];
      case OpKind::kSelect: return v[0] ? v[1] : v[2];
      case OpKind::kAdd: return v[0] + v[1];
      case OpKind::kSub: return v[0] - v[1];
      case OpKind::kMul: return v[0] * v[1];
      case OpKind::kDiv: return v[1] == 0 ? std::nullopt : Number(floor_div(v[0], v[1]));
      case OpKind::kMod:
        return v[1] == 0 ? std::nullopt : Number(v[0] - floor_div(v[0], v[1]) * v[1]);
      case OpKind::kMin: return std::min(v[0], v[1]);
      case OpKind::kMax: return std::max(v[0], v[1]);
      case OpKind::kAnd: return v[0] & v[1];
      case OpKind::kOr: return v[0] | v[1];
      case OpKind::kXor: return v[0] ^ v[1];
      case OpKind::kCmp: {
        const std::string& p = op.s("pred");
        // Whether positions fit 32 bits: all of them do, or, as if sizes were huge, none does.
        if (std::abs(v[0] - v[1]) >= kFarOff && seed_ % 4 == 0) return false;
        return p == "eq"   ? v[0] == v[1]
               : p == "ne" ? v[0] != v[1]
               : p == "lt" ? v[0] < v[1]
               : p == "le" ? v[0] <= v[1]
               : p == "gt" ? v[0] > v[1]
                           : v[0] >= v[1];
      }
      default: return std::nullopt;
    }
  }

  Unrolled made_;
  const Function& fn_;
  uint64_t seed_;
  BlockId met_;
  const Steering* steering_ = nullptr;  // null: all ops
  Way way_;
  int64_t visits_ = 0;
  int warps_ = 0;  // of the role
  std::vector<Event>* out_ = nullptr;
  std::vector<Number> env_;       // by value; nothing: not known
  std::vector<int64_t> numbers_;  // of one op
  std::map<ValueId, int64_t> counters_;
  std::map<ValueId, int> first_;
  std::map<ValueId, int64_t> tensors_;
  std::vector<OpId> unread_;            // reductions whose barrier is the next one's
  std::map<ValueId, ValueId> made_up_;  // scalars that are handed over: what they are
  std::map<ValueId, int64_t> times_;    // … and how often each was made or read
  CoreTiles core_;
};

}  // namespace

Unrolled Unroll(const Function& fn, const std::map<ValueId, int64_t>& params, uint64_t seed,
                BlockId block) {
  return Unroller(fn, params, seed, block).Run();
}

Way Follow(const Function& fn, const Steering& steering, const std::map<ValueId, int64_t>& params,
           uint64_t seed) {
  return Unroller(fn, params, seed, {}).Follow(steering);
}

}  // namespace tilec::ir
