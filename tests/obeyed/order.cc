// SPDX-License-Identifier: Apache-2.0
#include "tests/obeyed/order.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace tilec::obeyed {
namespace {

int64_t FloorDiv(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

class Orderer {
 public:
  explicit Orderer(const WantedLoop& wanted) : wanted_(wanted) {}

  InOrder Order(const std::vector<Seen>& as_read, int last_stretch) const {
    std::vector<std::string> least;
    size_t fewest_moved = 0;
    bool first = true;
    std::set<int64_t> cuts;
    for (const Seen& s : as_read)
      cuts.insert(wanted_.ops[static_cast<size_t>(s.op)].cycle -
                  FloorDiv(wanted_.ops[static_cast<size_t>(s.op)].cycle, wanted_.ii) * wanted_.ii);
    for (const std::vector<Seen>& seen : Arrangements(as_read))
      for (int64_t cut : cuts) {
        std::set<int> moved;
        std::vector<std::string> faults = OrderFrom(cut, seen, last_stretch, &moved);
        if (first || faults.size() < least.size() ||
            (faults.size() == least.size() && moved.size() < fewest_moved)) {
          least = std::move(faults);
          fewest_moved = moved.size();
        }
        first = false;
      }
    return {std::move(least), static_cast<int>(fewest_moved)};
  }

 private:
  std::string Name(const Seen& s) const { return wanted_.ops[static_cast<size_t>(s.op)].name; }

  // Between two events that other warps or engines see, arithmetic has no order that matters, and
  // the assembler will choose its own.
  bool Together(const Seen& a, const Seen& b) const {
    return !wanted_.strict && Arithmetic(a) && Arithmetic(b) && a.stretch == b.stretch;
  }
  bool Arithmetic(const Seen& s) const {
    const Wanted& op = wanted_.ops[static_cast<size_t>(s.op)];
    return !op.product && !IsPass(op);
  }

  // LLVM has moved it down: before a reader, or to the end of the turn, where those of the next
  // turn follow.
  bool Sunk(const Seen& s, const std::vector<Seen>& seen, int last_stretch) const {
    if (wanted_.strict || !Arithmetic(s)) return false;
    return s.stretch == last_stretch ||
           std::any_of(seen.begin(), seen.end(), [&](const Seen& reader) {
             return reader.at > s.at && Reads(wanted_.ops[static_cast<size_t>(reader.op)], s.op);
           });
  }

  // … or up to the beginning of the turn: all that it reads is of turns before.
  bool Raised(const Seen& s) const { return !wanted_.strict && Arithmetic(s) && s.stretch == 0; }

  // `b` is computed in the registers that carry it, and `a` reads what they held before.
  bool AheadOfUpdate(const Seen& a, const Seen& b) const {
    const Wanted &reader = wanted_.ops[static_cast<size_t>(a.op)],
                 &update = wanted_.ops[static_cast<size_t>(b.op)];
    const auto old = [&](const Wanted& op) {
      return std::count(op.reads_old.begin(), op.reads_old.end(), b.op) > 0;
    };
    return Arithmetic(a) && Arithmetic(b) && a.stretch == b.stretch && old(reader) && old(update);
  }

  // What was seen, with the products of one place in every order.
  static std::vector<std::vector<Seen>> Arrangements(const std::vector<Seen>& seen) {
    std::vector<std::vector<Seen>> all = {seen};
    std::set<std::vector<int>> groups;
    for (const Seen& s : seen)
      if (!s.alike.empty()) groups.insert(s.alike);
    for (const std::vector<int>& group : groups) {
      std::vector<std::vector<Seen>> more;
      for (const std::vector<Seen>& before : all) {
        std::vector<int> ops = group;
        do {
          more.push_back(before);
          auto next = ops.begin();
          for (Seen& s : more.back())
            if (s.alike == group) s.op = *next++;
        } while (std::next_permutation(ops.begin(), ops.end()));
      }
      all = std::move(more);
    }
    return all;
  }

  // Faults of a turn that begins at `cut`; `moved` gets the ops that a rule has moved.
  std::vector<std::string> OrderFrom(int64_t cut, const std::vector<Seen>& seen, int last_stretch,
                                     std::set<int>* moved) const {
    std::vector<std::string> faults;
    const auto cycle = [&](int op) { return wanted_.ops[static_cast<size_t>(op)].cycle - cut; };
    const auto slot = [&](const Seen& s) {
      return cycle(s.op) - FloorDiv(cycle(s.op), wanted_.ii) * wanted_.ii;
    };
    const auto stage = [&](const Seen& s) {
      if (s.alike.empty()) return static_cast<double>(FloorDiv(cycle(s.op), wanted_.ii));
      double sum = 0;
      for (int op : s.alike) sum += static_cast<double>(FloorDiv(cycle(op), wanted_.ii));
      return sum / static_cast<double>(s.alike.size());
    };
    const auto told = [](const Seen& s) { return s.stage >= 0 || !s.alike.empty(); };
    const auto read = [](const Seen& s) { return s.alike.empty() ? s.stage : s.mean; };
    for (size_t i = 0; i < seen.size(); ++i)
      for (size_t j = i + 1; j < seen.size(); ++j) {
        const Seen &a = seen[i], &b = seen[j];
        const auto either = [&] {
          const bool first = MayMove(wanted_, a.op) || a.any_turn;
          if (!first && !MayMove(wanted_, b.op) && !b.any_turn) return false;
          moved->insert(first ? a.op : b.op);
          return true;
        };
        const auto by_llvm = [&] {
          const bool sunk = Sunk(b, seen, last_stretch);
          if (sunk || Raised(a)) moved->insert(sunk ? b.op : a.op);
          return sunk || Raised(a);
        };
        const auto goes_along = [&] {
          const int first = wanted_.ops[static_cast<size_t>(a.op)].along;
          if (first < 0) return false;
          const int64_t at = cycle(first) - FloorDiv(cycle(first), wanted_.ii) * wanted_.ii;
          const bool along = slot(b) >= at;  // it stood between them
          if (along) moved->insert(a.op);
          return along;
        };
        const auto ahead = [&] {
          if (AheadOfUpdate(a, b)) moved->insert(a.op);
          return AheadOfUpdate(a, b);
        };
        if (slot(a) > slot(b) && !Together(a, b) && !either() && !by_llvm() && !goes_along() &&
            !ahead())
          faults.push_back(
              fmt::format("{} runs before {}, the schedule has it after (slots {} and "
                          "{} of {}, turn from {})",
                          Name(a), Name(b), slot(a), slot(b), wanted_.ii, cut));
        const double apart = read(a) - read(b), wanted = stage(a) - stage(b);
        // What a reduction needs goes along to where that meets others, and the last turn's may
        // meet in front of the loop.
        const Seen& early = apart < wanted ? a : b;
        const auto in_front = [&] {
          const bool meets = wanted_.ops[static_cast<size_t>(early.op)].for_meeting;
          if (meets) moved->insert(early.op);
          return meets;
        };
        if (told(a) && told(b) && std::abs(apart - wanted) > 1e-6 && !either() && !in_front())
          faults.push_back(fmt::format("{} and {} are {} stages apart, in the schedule {}", Name(a),
                                       Name(b), apart, wanted));
      }
    return faults;
  }

  const WantedLoop& wanted_;
};

}  // namespace

bool Mine(const Wanted& op, int slice) {
  return !op.load && op.slice != kNobody && (slice < 0 || op.slice < 0 || op.slice == slice);
}

bool Reads(const Wanted& reader, int from) {
  return std::count(reader.reads.begin(), reader.reads.end(), from) > 0;
}

bool IsPass(const Wanted& op) { return op.put >= 0 || op.take >= 0; }

namespace {

// The loads that an op reads, from registers too: `x.smem_load` reads nothing but the load x.
std::set<int> LoadsOf(const WantedLoop& wanted, int o) {
  std::set<int> loads;
  for (int from : wanted.ops[static_cast<size_t>(o)].reads) {
    const Wanted& source = wanted.ops[static_cast<size_t>(from)];
    if (source.load) loads.insert(from);
    if (!source.product && source.reads.size() == 1 &&
        wanted.ops[static_cast<size_t>(source.reads[0])].load)
      loads.insert(source.reads[0]);
  }
  return loads;
}

// Is a load that it reads read by others, too?
bool SharesLoad(const WantedLoop& wanted, int o) {
  const std::set<int> its = LoadsOf(wanted, o);
  for (size_t p = 0; p < wanted.ops.size(); ++p) {
    if (static_cast<int>(p) == o || Reads(wanted.ops[static_cast<size_t>(o)], static_cast<int>(p)))
      continue;
    for (int load : LoadsOf(wanted, static_cast<int>(p)))
      if (its.count(load)) return true;
  }
  return false;
}

}  // namespace

bool MayMove(const WantedLoop& wanted, int o) {
  const Wanted& op = wanted.ops[static_cast<size_t>(o)];
  if (op.product) return false;
  if (op.meets || (wanted.drawn_to_loads && SharesLoad(wanted, o))) return true;
  for (size_t p = 0; p < wanted.ops.size(); ++p) {
    const Wanted& product = wanted.ops[p];
    if (!product.product) continue;
    const bool kept = wanted.results_kept || !wanted.strict;
    if (kept && Reads(op, static_cast<int>(p))) return true;
    for (int source : product.reads)
      if (Reads(op, source) && !wanted.ops[static_cast<size_t>(source)].load) return true;
  }
  return false;
}

InOrder CheckOrder(const WantedLoop& wanted, const std::vector<Seen>& seen, int last_stretch) {
  return Orderer(wanted).Order(seen, last_stretch);
}

}  // namespace tilec::obeyed
