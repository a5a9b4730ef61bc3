// The placement of a full stream. Two ways: an order decides every slot, and only periods are left
// to choose; or cycle by cycle, what fits there and leaves something for all others.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <tuple>

#include "scheduler/modulo.h"

namespace tilec::scheduler {

// The ops of the role that issues longest, in the order of `like`; none: it leaves air.
std::vector<int> ModuloScheduler::FullStream(const Placement& like, int64_t period) const {
  std::map<int, int64_t> busy;  // by role
  for (int v = 0; v < n_; ++v) busy[like.group[v]] += graph_.ops[v].issue;
  const auto fullest = std::max_element(
      busy.begin(), busy.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  std::vector<int> stream;
  if (static_cast<double>(fullest->second) <= kTight * static_cast<double>(ii_) ||
      fullest->second > ii_)
    return stream;
  for (int v = 0; v < n_; ++v)
    if (like.group[v] == fullest->first && graph_.ops[v].issue > 0) stream.push_back(v);
  const auto phase = [&](int v) { return FloorMod(like.cycle[v], period); };
  std::sort(stream.begin(), stream.end(), [&](int a, int b) { return phase(a) < phase(b); });
  return stream;
}

// Slots by the order, with what is left of the period where `like` has its gaps, in proportion;
// then periods: those of `like`, later where a path asks for it.
bool ModuloScheduler::PlaceInOrder(const std::vector<int>& stream, const Placement& like,
                                   int64_t period) {
  int64_t sum = 0;
  for (const int v : stream) sum += graph_.ops[v].issue;
  const int64_t air = ii_ - sum, was = period - sum;
  std::vector<int64_t> slot(n_, 0), turn(n_, 0);
  sum = 0;
  for (const int v : stream) {
    const int64_t phase = FloorMod(like.cycle[v], period);
    slot[v] = sum + (was > 0 ? (phase - sum) * air / was : 0);
    turn[v] = FloorDiv(like.cycle[v], period);
    sum += graph_.ops[v].issue;
  }
  bool later = true;
  for (size_t round = 0; later; ++round) {
    if (round > stream.size()) return false;  // a circle
    later = false;
    for (const int u : stream)
      for (const int v : stream) {
        if (Path(u, v) == kNone) continue;
        const int64_t asked = turn[u] - FloorDiv(slot[v] - slot[u] - Path(u, v), ii_);
        if (turn[v] >= asked) continue;
        turn[v] = asked;
        later = true;
      }
  }
  for (const int v : stream) {
    const int64_t t = turn[v] * ii_ + slot[v];
    if (Jump(v, t, true) != 0) return false;  // a unit that it takes longer than its issue
    Place(v, t);
  }
  return true;
}

// Cycle by cycle: of the ops that may begin there, the one that must begin soonest, or else the one
// that `like` has next. Where none may, what is left of the period is spent.
bool ModuloScheduler::PlaceCycles(std::vector<int> stream, const Placement& like, int64_t period) {
  struct Choice {
    int64_t by;
    size_t place;  // in `stream`
    int64_t start;
  };
  std::vector<Choice> choices;
  for (int64_t at = 0; !stream.empty();) {
    choices.clear();
    for (size_t i = 0; i < stream.size(); ++i) {
      const int v = stream[i];
      const Window w = WindowOf(v);
      const int64_t since = FloorMod(at - w.early, ii_), room = w.late - w.early;
      if (since > room) continue;
      const int64_t t = w.from_early ? w.early + since : w.late - FloorMod(w.late - at, ii_);
      if (Jump(v, t, true) != 0) continue;
      const int64_t wanted = Mod(FloorMod(like.cycle[v], period) * ii_ / period - at);
      choices.push_back({room < ii_ - 1 ? std::min(room - since, wanted) : wanted, i, t});
    }
    std::sort(choices.begin(), choices.end(), [](const Choice& a, const Choice& b) {
      return std::tie(a.by, a.place) < std::tie(b.by, b.place);
    });
    // Places it, unless one of the others had no cycle left by that.
    const auto place = [&](const Choice& c) {
      const int v = stream[c.place];
      Place(v, c.start);
      const int64_t from = at + graph_.ops[v].issue;
      placed_[v] = std::all_of(stream.begin(), stream.end(), [&](int u) {
        if (u == v) return true;
        const Window w = WindowOf(u);
        const int64_t since = FloorMod(from - w.early, ii_), room = w.late - w.early;
        const int64_t first = since <= room ? from : from + ii_ - since;
        return room >= 0 && first + graph_.ops[u].issue <= ii_;
      });
      return placed_[v] != 0;
    };
    const auto best = std::find_if(choices.begin(), choices.end(), place);
    if (best == choices.end()) {
      if (++at >= ii_) return false;
      continue;
    }
    at += graph_.ops[stream[best->place]].issue;
    stream.erase(stream.begin() + static_cast<int64_t>(best->place));
  }
  return true;
}

bool ModuloScheduler::PlaceRest() {
  for (int v = Pick(); v >= 0; v = Pick()) {
    const Window w = WindowOf(v);
    if (w.early > w.late) return false;
    const std::optional<int64_t> t =
        w.from_early ? FreeSlot(v, w.early, w.late) : FreeSlot(v, w.late, w.early);
    if (!t) return false;
    Place(v, *t);
  }
  return true;
}

std::optional<Placement> ModuloScheduler::Pack(const Placement& like, int64_t period) {
  if (!possible_ || !problem_.roles) return std::nullopt;
  const std::vector<int> stream = FullStream(like, period);
  random_ = 1;
  bias_.assign(n_, 0);
  order_ = Order::kSlack;
  for (const bool in_order : {true, false}) {
    Begin();
    if (stream.empty() ||
        !(in_order ? PlaceInOrder(stream, like, period) : PlaceCycles(stream, like, period)))
      continue;
    if (!PlaceRest()) continue;
    if (std::optional<Placement> placement = Finished()) return placement;
  }
  return std::nullopt;
}

}  // namespace tilec::scheduler
