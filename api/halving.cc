// SPDX-License-Identifier: Apache-2.0
#include "api/halving.h"

#include <algorithm>
#include <tuple>

namespace tilec::api {

namespace {

constexpr double kPlanned = 0.8;  // of the seconds: a launch is as long as it is

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

class Halving {
 public:
  Halving(size_t count, size_t kept, const HalvingOptions& options, const TimeOne& time)
      : kept_(kept), options_(options), time_(time) {
    for (size_t i = 0; i < count; ++i) out_.order.push_back({i}), left_.push_back(i);
    // Rounds of n, n/2 + 1 … 2 candidates at most, which have the same time each.
    for (size_t n = count; n > 2; n = n / 2 + 1) ++rounds_;
  }

  Halved Run(const BeginRound& begin) {
    for (int round = 0; left_.size() > 1 && out_.complete; ++round) {
      const bool last = left_.size() == 2;
      if (begin) begin(round);
      Round(round);
      if (last) break;
      LeaveOut();
    }
    std::stable_sort(out_.order.begin(), out_.order.end(), [](const auto& a, const auto& b) {
      return std::tuple(-a.rounds, a.ms == 0, a.ms) < std::tuple(-b.rounds, b.ms == 0, b.ms);
    });
    return std::move(out_);
  }

 private:
  bool Spent() const { return out_.spent_ms >= 1e3 * options_.seconds; }

  void Round(int round) {
    const double slice = kPlanned * 1e3 * options_.seconds / rounds_ /
                         static_cast<double>(left_.size() * static_cast<size_t>(options_.turns));
    std::vector<std::vector<double>> times(left_.size());
    int turn = 0;
    for (; turn < options_.turns && !(Spent() && (round > 0 || turn > 0)); ++turn)
      for (size_t at = 0; at < left_.size(); ++at) {
        const size_t who = turn % 2 == 0 ? at : left_.size() - 1 - at;
        const Timed timed = time_(left_[who], slice);
        out_.spent_ms += timed.spent;
        if (timed.ms > 0) times[who].push_back(timed.ms);
      }
    if (turn < options_.turns) out_.complete = false;
    if (turn == 0) return;  // what the round before found stands
    for (size_t at = 0; at < left_.size(); ++at) {
      Standing& standing = out_.order[left_[at]];
      standing.rounds = times[at].empty() ? 0 : round + 1;
      standing.ms = times[at].empty() ? 0 : Median(times[at]);
    }
  }

  void LeaveOut() {
    std::erase_if(left_, [&](size_t i) { return out_.order[i].ms == 0; });
    std::stable_sort(left_.begin(), left_.end(),
                     [&](size_t a, size_t b) { return out_.order[a].ms < out_.order[b].ms; });
    const bool had = std::find(left_.begin(), left_.end(), kept_) != left_.end();
    left_.resize(left_.size() > 1 ? left_.size() / 2 : left_.size());
    if (had && std::find(left_.begin(), left_.end(), kept_) == left_.end()) left_.push_back(kept_);
    std::sort(left_.begin(), left_.end());
  }

  const size_t kept_;
  const HalvingOptions& options_;
  const TimeOne& time_;
  int rounds_ = 1;
  std::vector<size_t> left_;  // ascending
  Halved out_;                // `order` by number until the end
};

}  // namespace

Halved Halve(size_t count, size_t kept, const HalvingOptions& options, const TimeOne& time,
             const BeginRound& begin) {
  return Halving(count, kept, options, time).Run(begin);
}

}  // namespace tilec::api
