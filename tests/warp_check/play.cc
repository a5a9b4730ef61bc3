// The execution: warps take turns, each as far as it comes; what nothing orders is a fault.
//
// SPDX-License-Identifier: Apache-2.0
#include "tests/warp_check/play.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "tests/warp_check/executions.h"
#include "tests/warp_check/unrolled.h"

namespace tilec::ir {

Play::Play(const Function& fn, const Unrolled& code) : fn_(fn), code_(code) {
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

std::string Play::Run() {
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

void Play::Tick() {
  const int64_t now = ++me().one[at_];
  me().all[at_] = me().all[PastOf(at_)] = me().one[PastOf(at_)] = now;
}

// What an arrival of the executing threads tells.
Clock Play::Told() {
  Clock told = me().one;
  if (who_ != Who::kElected) told[AccessesOf(at_)] = me().fenced;
  return told;
}

bool Play::Fault(std::string text) {
  fault_ = std::move(text);
  return false;
}

const Event* Play::Next() {
  const size_t common = code_.common.size();
  if (me().next < common) return &code_.common[me().next];
  if (me().role < 0) return nullptr;
  const auto& events = code_.roles[static_cast<size_t>(me().role)].events;
  return me().next - common < events.size() ? &events[me().next - common] : nullptr;
}

bool Play::First() {
  return at_ ==
         (InCommon() ? 0 : static_cast<size_t>(code_.roles[static_cast<size_t>(me().role)].first));
}

// One event of a warp; false: it waits, or has ended.
bool Play::Step() {
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

bool Play::Meet(const Event&) {
  const bool common = InCommon();
  Sync& s = syncs_[common ? 0 : static_cast<size_t>(me().role) + 1];
  const int all =
      common ? static_cast<int>(warps_.size()) : code_.roles[static_cast<size_t>(me().role)].warps;
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

bool Play::Wait(const Event& e) {
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

void Play::Arrive(const Event& e, int64_t arrivals, const Clock& told) {
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
void Play::Tell(const Event& e) {
  Clock told = me().one;
  told[at_] = told[AccessesOf(at_)] = 0;
  told[ProductsOf(at_)] = me().told = me().issued;
  Arrive(e, 1, told);
}

// Nobody learns by it what threads did beside these copies, only how far all have come.
void Play::Copied(const Event& e) {
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

void Play::Fence(bool after) {
  if (!after && who_ == Who::kAll) me().fenced = me().touched;
  if (!after) return;
  Join(me().one, me().all);
  me().one_columns = me().one;
  if (who_ == Who::kAll) me().all_columns = me().all;
}

void Play::Complete(const Event& e) {
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

bool Play::Done(const Record& r, const Event& e) {
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
void Play::AccessColumns(Event e, int64_t number) {
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
size_t Play::Access(const Event& e) {
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

void Play::Execute(const Event& e) {
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

}  // namespace tilec::ir
