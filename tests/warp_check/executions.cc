// SPDX-License-Identifier: Apache-2.0
#include "tests/warp_check/executions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "ir/text.h"
#include "tests/warp_check/unrolled.h"

namespace tilec::ir {
namespace {

constexpr int64_t kEnoughEvents = 200'000;
constexpr int kWanted = 32;
constexpr size_t kMostTries = 400;
constexpr size_t kMostTriesForOne = 10 * kMostTries;  // where no execution has come to the block
constexpr int64_t kLargestLimit = 1 << 16;         // that an execution may be as long as
constexpr int64_t kLanes = int64_t{1} << 41;  // where columns of the first quarter of lanes begin
constexpr int64_t kQuarter = 1 << 12;         // … and of the next one, behind it

// ---- the execution ---------------------------------------------------------------------------

// A warp's clock counts what every warp has done, as far as this one knows, then the phases that
// every barrier has completed; and again for every warp its products that are complete, its
// accesses of tensor memory behind a fence, and how far it has come, whatever it touched on the
// way.
using Clock = std::vector<int64_t>;

void Join(Clock& into, const Clock& from) {
  for (size_t i = 0; i < into.size(); ++i) into[i] = std::max(into[i], from[i]);
}

class Play {
 public:
  Play(const Function& fn, const Unrolled& code) : fn_(fn), code_(code) {
    barriers_.resize(static_cast<size_t>(code.barriers));
    warps_.resize(static_cast<size_t>(fn.launch.warps));
    const Clock zero(4 * warps_.size() + barriers_.size(), 0);
    for (Warp& w : warps_) w.all = w.one = w.all_columns = w.one_columns = zero;
    for (Barrier& b : barriers_) b.pending = zero;
    syncs_.resize(code.roles.size() + 1);
    for (Sync& s : syncs_) s.told = zero;
    for (size_t r = 0; r < code.roles.size(); ++r)
      for (int i = 0; i < code.roles[r].warps; ++i)
        warps_[static_cast<size_t>(code.roles[r].first + i)].role = static_cast<int>(r);
  }

  // "", or what is wrong.
  std::string Run() {
    for (bool moved = true; moved && fault_.empty();) {
      moved = false;
      for (at_ = 0; at_ < warps_.size() && fault_.empty(); ++at_)
        while (fault_.empty() && Step()) moved = true;
    }
    if (!fault_.empty()) return fault_;
    for (at_ = 0; at_ < warps_.size(); ++at_) {
      if (const Event* e = Next()) return fmt::format("nothing ends {}", Name(e->op));
      if (!me().products.empty() || !me().copies.empty() || !me().copied.empty() ||
          me().told < me().issued)
        return "the end comes before a product or a copy is done";
    }
    for (size_t i = 0; i < barriers_.size(); ++i) {
      const Barrier& b = barriers_[i];
      if (b.arrived || b.expected || b.delivered) return "the end leaves a phase half full";
      const auto knows = [&](const Warp& w) {
        return w.one[PhaseOf(static_cast<int>(i))] >= b.phase;
      };
      if (b.by_product && std::none_of(warps_.begin(), warps_.end(), knows))
        return "the end comes before the arrival of products";
    }
    return "";
  }

 private:
  struct Record {
    What what;
    bool write = false;
    size_t warp = 0;
    int64_t time = -1;   // of its warp, when it is done; -1: not known to be
    int64_t phase = -1;  // copies in
    int barrier = -1;
    OpId op;
    int64_t turn = 0;    // of its warp: how many-th event
    int64_t number = 0;  // of its warp's products, or accesses of columns
    int64_t lo = 0, hi = 0;
  };
  struct Flight {
    size_t record;
    int64_t group = -1;
  };
  struct Warp {
    int role = -1;
    size_t next = 0;
    bool synced = false;              // has come to the sync it stands at
    Clock all, one;                   // what all its threads know; what its elected one does
    Clock all_columns, one_columns;   // … did at the last fence behind a synchronisation
    int64_t issued = 0, told = 0;     // products that complete at a barrier; until the last commit
    int64_t touched = 0, fenced = 0;  // accesses of columns; in front of the last fence
    std::vector<Flight> products, copies;
    std::vector<size_t> copied;  // records of copies by threads, until the arrival that follows
    int64_t product_groups = 0, copy_groups = 0;
  };
  struct Barrier {
    int64_t count = -1, phase = 0, arrived = 0, expected = 0, delivered = 0;
    bool by_product = false;  // some arrival of its last phase
    Clock pending;
    std::vector<Clock> done;
    std::map<size_t, int64_t> seen;  // by warp: when it saw the phase before
  };
  struct Sync {
    int come = 0, gone = 0;
    Clock told;
  };

  Warp& me() { return warps_[at_]; }
  Clock& Knows() { return who_ == Who::kElected ? me().one : me().all; }
  int64_t Now() { return me().one[at_]; }
  void Tick() {
    const int64_t now = ++me().one[at_];
    me().all[at_] = me().all[PastOf(at_)] = me().one[PastOf(at_)] = now;
  }
  size_t PhaseOf(int barrier) const { return warps_.size() + static_cast<size_t>(barrier); }
  size_t ProductsOf(size_t warp) const { return warps_.size() + barriers_.size() + warp; }
  size_t AccessesOf(size_t warp) const { return ProductsOf(warps_.size() + warp); }
  size_t PastOf(size_t warp) const { return AccessesOf(warps_.size() + warp); }
  // What an arrival of the executing threads tells.
  Clock Told() {
    Clock told = me().one;
    if (who_ != Who::kElected) told[AccessesOf(at_)] = me().fenced;
    return told;
  }
  std::string Name(OpId op) const { return fmt::format("`{}`", PrintOp(fn_, op)); }
  bool Fault(std::string text) {
    fault_ = std::move(text);
    return false;
  }

  const Event* Next() {
    const size_t common = code_.common.size();
    if (me().next < common) return &code_.common[me().next];
    if (me().role < 0) return nullptr;
    const auto& events = code_.roles[static_cast<size_t>(me().role)].events;
    return me().next - common < events.size() ? &events[me().next - common] : nullptr;
  }
  bool InCommon() { return me().next < code_.common.size(); }
  bool First() {
    return at_ == (InCommon()
                       ? 0
                       : static_cast<size_t>(code_.roles[static_cast<size_t>(me().role)].first));
  }

  // One event of a warp; false: it waits, or has ended.
  bool Step() {
    const Event* e = Next();
    if (!e) return false;
    if (e->who == Who::kElected && !First()) return ++me().next, true;
    who_ = e->who;
    if (e->what == What::kSync) return Meet(*e);
    if (e->what == What::kWait) {
      if (!Wait(*e)) return false;
    } else {
      Tick();
      Execute(*e);
    }
    Join(me().one, me().all);
    ++me().next;
    return fault_.empty();
  }

  bool Meet(const Event&) {
    const bool common = InCommon();
    Sync& s = syncs_[common ? 0 : static_cast<size_t>(me().role) + 1];
    const int all = common ? static_cast<int>(warps_.size())
                           : code_.roles[static_cast<size_t>(me().role)].warps;
    if (!me().synced) {
      if (s.gone > 0) return false;  // others still leave the one before
      Tick();
      Join(s.told, Told());
      me().synced = true;
      ++s.come;
    }
    if (s.come < all) return false;
    Join(me().all, s.told);
    Join(me().one, s.told);
    me().synced = false;
    ++me().next;
    if (++s.gone == all) s.come = s.gone = 0, std::fill(s.told.begin(), s.told.end(), 0);
    return true;
  }

  bool Wait(const Event& e) {
    Barrier& b = barriers_[static_cast<size_t>(e.barrier)];
    const int64_t known = Knows()[PhaseOf(e.barrier)];
    if ((known & 1) == e.number) {
      if (b.phase == known) return false;
      if (b.phase > known + 1) return Fault(Name(e.op) + " may be lapped");
      Join(Knows(), b.done[static_cast<size_t>(known)]);
    } else if (b.phase != known) {
      return Fault(Name(e.op) + " asks for a phase long complete");
    }
    Tick();
    b.seen[at_] = Now();
    return true;
  }

  void Arrive(const Event& e, int64_t arrivals, const Clock& told) {
    Barrier& b = barriers_[static_cast<size_t>(e.barrier)];
    if (b.count < 0 || Knows()[PhaseOf(e.barrier)] != b.phase || b.arrived + arrivals > b.count)
      return void(Fault(Name(e.op) + " arrives in another phase than its own"));
    if (b.arrived == 0) b.by_product = false;
    b.by_product = b.by_product || e.what == What::kTell;
    b.arrived += arrivals;
    b.expected += e.bytes * arrivals;
    Join(b.pending, told);
    Complete(e);
  }

  // When its products are complete: they came after what their thread had seen. What the thread
  // itself did to shared memory or columns is not told.
  void Tell(const Event& e) {
    Clock told = me().one;
    told[at_] = told[AccessesOf(at_)] = 0;
    told[ProductsOf(at_)] = me().told = me().issued;
    Arrive(e, 1, told);
  }

  // Nobody learns by it what threads did beside these copies, only how far all have come.
  void Copied(const Event& e) {
    for (size_t i : me().copied) {
      records_[i].barrier = e.barrier;
      records_[i].phase = barriers_[static_cast<size_t>(e.barrier)].phase;
    }
    me().copied.clear();
    Clock told = me().one;
    for (size_t w = 0; w < warps_.size(); ++w)
      told[w] = told[ProductsOf(w)] = told[AccessesOf(w)] = 0;
    Arrive(e, 32, told);
  }

  void Fence(bool after) {
    if (!after && who_ == Who::kAll) me().fenced = me().touched;
    if (!after) return;
    Join(me().one, me().all);
    me().one_columns = me().one;
    if (who_ == Who::kAll) me().all_columns = me().all;
  }

  void Complete(const Event& e) {
    Barrier& b = barriers_[static_cast<size_t>(e.barrier)];
    if (b.arrived < b.count || b.delivered < b.expected) return;
    if (b.delivered > b.expected) return void(Fault(Name(e.op) + " brings too much"));
    for (const auto& [warp, time] : b.seen)
      if (b.pending[PastOf(warp)] < time)
        return void(Fault(Name(e.op) + " completes a phase before all have seen the last"));
    b.seen.clear();
    b.pending[PhaseOf(e.barrier)] = ++b.phase;
    b.done.push_back(b.pending);
    std::fill(b.pending.begin(), b.pending.end(), 0);
    b.arrived = b.expected = b.delivered = 0;
  }

  bool Done(const Record& r, const Event& e) {
    const Clock& knows = !e.columns              ? Knows()
                         : who_ == Who::kElected ? me().one_columns
                                                 : me().all_columns;
    switch (r.what) {
      case What::kCopyIn: return knows[PhaseOf(r.barrier)] > r.phase;
      case What::kCpAsync: return r.barrier >= 0 && knows[PhaseOf(r.barrier)] > r.phase;
      case What::kByProduct:  // of one thread: in order
        return (e.what == r.what && r.warp == at_) || knows[ProductsOf(r.warp)] >= r.number;
      case What::kByThreads:  // threads know their own
        return (e.what == r.what && r.warp == at_) || knows[AccessesOf(r.warp)] >= r.number;
      default: return r.time >= 0 && knows[r.warp] >= r.time;
    }
  }

  // By threads a warp has its quarter of the lanes, a product all.
  void AccessColumns(Event e, int64_t number) {
    const auto warp = static_cast<int>(at_);
    const int first = InCommon() ? 0 : code_.roles[static_cast<size_t>(me().role)].first;
    if (e.group >= 0 && e.group != (warp - first) / 4) return;
    const int64_t lo = e.lo, hi = e.hi;
    for (int quarter = 0; quarter < 4; ++quarter) {
      if (e.what == What::kByThreads && quarter != warp % 4) continue;
      e.lo = kLanes + quarter * kQuarter + lo, e.hi = kLanes + quarter * kQuarter + hi;
      records_[Access(e)].number = number;
    }
  }

  // Everything it conflicts with is done, as far as this warp knows. The number of its record.
  size_t Access(const Event& e) {
    std::erase_if(live_, [&](size_t i) {
      const Record& r = records_[i];
      const bool meets =
          r.lo < e.hi && e.lo < r.hi && (e.tensor ? r.write != e.write : r.write || e.write);
      // Threads of one op keep out of each other's way.
      const bool same = r.op == e.op && r.turn == static_cast<int64_t>(me().next);
      if (meets && !same && !Done(r, e) && fault_.empty())
        Fault(fmt::format("{} is not ordered after {}", Name(e.op), Name(r.op)));
      // A copy in or a product, which one thread starts, stands for all that it had to come after.
      // So does a later access of the same warp and kind for an earlier one.
      const bool inside = e.lo <= r.lo && r.hi <= e.hi;
      const bool alone = e.what == What::kCopyIn || e.what == What::kCpAsync ||
                         (e.what == What::kByProduct && e.write);
      return inside && ((alone && !same) || (r.warp == at_ && r.what == e.what &&
                                             r.write == e.write && (r.time >= 0 || r.number > 0)));
    });
    Record r;
    r.what = e.what;
    r.write = e.write;
    r.warp = at_;
    r.op = e.op;
    r.turn = static_cast<int64_t>(me().next);
    r.lo = e.lo;
    r.hi = e.hi;
    records_.push_back(r);
    live_.push_back(records_.size() - 1);
    return live_.back();
  }

  void Execute(const Event& e) {
    switch (e.what) {
      case What::kInit: barriers_[static_cast<size_t>(e.barrier)].count = e.number; return;
      case What::kArrive: Arrive(e, e.who == Who::kAll ? 32 : 1, Told()); return;
      case What::kTouch: records_[Access(e)].time = Now(); return;
      case What::kCopyIn: {
        Barrier& b = barriers_[static_cast<size_t>(e.barrier)];
        if (e.who != Who::kElected || Knows()[PhaseOf(e.barrier)] != b.phase)
          return void(Fault(Name(e.op) + " is signalled in another phase than its own"));
        Record& r = records_[Access(e)];
        r.barrier = e.barrier;
        r.phase = b.phase;
        b.delivered += e.bytes;
        Join(b.pending, Told());
        Complete(e);
        return;
      }
      case What::kCpAsync: me().copied.push_back(Access(e)); return;
      case What::kCpDone: return Copied(e);
      case What::kIssue: ++me().issued; return;
      case What::kByProduct:
        if (e.columns) return AccessColumns(e, me().issued);
        records_[Access(e)].number = me().issued;
        return;
      case What::kByThreads: return AccessColumns(e, ++me().touched);
      case What::kTell: Tell(e); return;
      case What::kFence: Fence(e.number != 0); return;
      case What::kProduct: me().products.push_back({Access(e)}); return;
      case What::kCopyOut: me().copies.push_back({Access(e)}); return;
      case What::kCommit: {
        int64_t& groups = e.copies ? me().copy_groups : me().product_groups;
        for (Flight& f : e.copies ? me().copies : me().products)
          if (f.group < 0) f.group = groups;
        ++groups;
        return;
      }
      case What::kAwait:
        std::erase_if(e.copies ? me().copies : me().products, [&](const Flight& f) {
          const int64_t groups = e.copies ? me().copy_groups : me().product_groups;
          const bool done = f.group >= 0 && f.group < groups - e.number;
          if (done) records_[f.record].time = Now();
          return done;
        });
        return;
      case What::kSync:
      case What::kWait: return;
    }
  }

  const Function& fn_;
  const Unrolled& code_;
  std::vector<Warp> warps_;
  std::vector<Barrier> barriers_;
  std::vector<Sync> syncs_;
  std::vector<Record> records_;
  std::vector<size_t> live_;
  size_t at_ = 0;
  Who who_ = Who::kAll;
  std::string fault_;
};

// ---- which executions ------------------------------------------------------------------------

// Sizes by what a turn of some loop takes of them: a few turns, or as many as fill rings twice, or
// as many as a branch asks for, be it of a pipeline deeper than its rings; and a little less.
class Sizes {
 public:
  explicit Sizes(const Function& fn) {
    for (const Param& p : fn.params)
      if (p.kind != ParamKind::kTensor) params_.push_back({p.value, p.kind == ParamKind::kScalar});
    for (const Op& op : fn.ops) {
      if (op.kind == OpKind::kMbarAlloc)
        deepest_ = std::max(deepest_, fn.type(op.results[0]).depth);
      if (op.kind == OpKind::kFor)
        for (ValueId bound : {op.operands[0], op.operands[1]})
          Trace(fn, bound, {op.i("step"), 1}, 0, units_);
      if (op.kind != OpKind::kCmp || !IsInteger(fn.type(op.operands[0]).dtype)) continue;
      const int64_t limit = std::abs(Fixed(fn, op.operands[0], 0) - Fixed(fn, op.operands[1], 0));
      if (limit > 0 && limit < kLargestLimit)
        for (ValueId v : op.operands) Trace(fn, v, {limit, limit}, 0, limits_);
    }
  }

  std::map<ValueId, int64_t> Next(std::mt19937_64& random) const {
    auto below = [&](size_t n) { return random() % n; };
    std::map<ValueId, int64_t> out;
    for (const auto& [value, scalar] : params_) {
      auto one_of = [&, of = value](const Numbers& numbers, int64_t otherwise) {
        const auto it = numbers.find(of);
        return it == numbers.end() ? otherwise
                                   : *std::next(it->second.begin(), below(it->second.size()));
      };
      const int64_t unit = one_of(units_, 1);
      const int64_t from = below(3) ? 0 : one_of(limits_, 0);
      const auto times = static_cast<int64_t>(
          from || below(2) ? below(4) : below(static_cast<size_t>(2 * deepest_ + 4)));
      const int64_t less = below(3) ? 0 : 8;
      // A scalar that no loop is as long as may be more than all sizes: a window that all is in.
      if (scalar && units_.count(value) == 0 && below(4) == 0) {
        out[value] = kLargestLimit;
        continue;
      }
      out[value] = std::max<int64_t>(0, from + unit * times - (unit > less ? less : 0));
    }
    return out;
  }

  std::string Text() const {
    std::string out = fmt::format("{}", deepest_);
    for (const auto& [v, scalar] : params_) out += fmt::format(";{}{}", v.index, scalar ? "s" : "");
    for (const Numbers* numbers : {&units_, &limits_})
      for (const auto& [v, of] : *numbers)
        out += fmt::format(";{} {}", v.index, fmt::join(of, " "));
    return out;
  }

 private:
  using Numbers = std::map<ValueId, std::set<int64_t>>;  // of parameters

  // The part of a sum that no parameter changes.
  static int64_t Fixed(const Function& fn, ValueId v, int depth) {
    const Op* def = fn.def(v);
    if (!def || depth > 16) return 0;
    const auto part = [&](size_t i) { return Fixed(fn, def->operands[i], depth + 1); };
    switch (def->kind) {
      case OpKind::kConstant: return static_cast<int64_t>(def->number("value"));
      case OpKind::kCast: return part(0);
      case OpKind::kAdd: return part(0) + part(1);
      case OpKind::kSub: return part(0) - part(1);
      default: return 0;
    }
  }
  // How much of a value makes one turn of a loop; and what makes one of what CTAs that stay share,
  // where several sizes multiply: not all of them are large then.
  struct Unit {
    int64_t turn = 1, share = 1;
    bool product = false;
  };
  // One turn is `unit` of v: so it is more of what v is a part of.
  static void Trace(const Function& fn, ValueId v, Unit unit, int depth, Numbers& out) {
    if (fn.param(v)) {
      out[v].insert(unit.turn);
      if (unit.product) out[v].insert(unit.share);
      return;
    }
    const Op* def = fn.def(v);
    if (!def || !def->regions.empty() || depth > 16) return;
    const auto constant = [&](ValueId o) {
      const Op* by = fn.def(o);
      return by && by->kind == OpKind::kConstant;
    };
    if (def->kind == OpKind::kDiv && constant(def->operands[1])) {
      const auto by = static_cast<int64_t>(fn.def(def->operands[1])->number("value"));
      unit.turn *= std::max<int64_t>(1, by), unit.share *= std::max<int64_t>(1, by);
    }
    unit.product |=
        def->kind == OpKind::kMul && !constant(def->operands[0]) && !constant(def->operands[1]);
    for (ValueId o : def->operands) Trace(fn, o, unit, depth + 1, out);
  }

  std::vector<std::pair<ValueId, bool>> params_;  // that are numbers; is it a scalar?
  int64_t deepest_ = 1;
  Numbers units_, limits_;
};

// Sizes that are tried in turn, and where they lead: of all mutants that steer as one program does.
class Tries {
 public:
  struct Try {
    std::map<ValueId, int64_t> params;
    uint64_t seed = 0;
    Way way;
  };
  explicit Tries(const Function& fn) : sizes_(fn) {}

  const Try& Get(size_t i, const Function& fn, const Steering& steering) {
    while (tries_.size() <= i) {
      Try next;
      next.params = sizes_.Next(random_);
      next.seed = random_();
      next.way = Follow(fn, steering, next.params, next.seed);
      tries_.push_back(std::move(next));
    }
    return tries_[i];
  }

 private:
  Sizes sizes_;
  std::mt19937_64 random_{1};
  std::vector<Try> tries_;
};

// Those of one program are asked for mutant by mutant; few of its mutants steer otherwise.
Tries& TriesOf(const Function& fn, const Steering& steering) {
  constexpr size_t kPrograms = 4;
  thread_local std::map<std::string, Tries> known;
  const std::string key = steering.key + Sizes(fn).Text();
  if (known.size() >= kPrograms && known.count(key) == 0) known.clear();
  return known.try_emplace(key, fn).first->second;
}

}  // namespace

Executions Execute(const Function& fn, BlockId block) {
  Executions out;
  const Steering steering = SteeringOf(fn);
  Tries& tries = TriesOf(fn, steering);
  std::set<std::vector<int64_t>> seen;
  int64_t events = 0;
  for (size_t i = 0; i < (out.runs > 0 ? kMostTries : kMostTriesForOne) && out.runs < kWanted;
       ++i) {
    const Tries::Try& one = tries.Get(i, fn, steering);
    const Way& way = one.way;
    if (way.too_long) continue;
    if (way.ok && (way.executed[static_cast<size_t>(block.index)] == 0 ||
                   !seen.insert(way.path).second))
      continue;
    const Unrolled code = Unroll(fn, one.params, one.seed, block);
    if ((!code.ok && code.fault.empty()) || code.executed == 0) continue;
    if (!way.ok && !seen.insert(code.path).second) continue;
    for (const Unrolled::Role& role : code.roles)
      events += static_cast<int64_t>(role.events.size());
    if (out.runs >= 3 && events > kEnoughEvents) break;
    ++out.runs;
    out.most = std::max(out.most, code.executed);
    out.fault = code.fault.empty() ? Play(fn, code).Run() : code.fault;
    if (!out.fault.empty()) return out;
  }
  return out;
}

}  // namespace tilec::ir
