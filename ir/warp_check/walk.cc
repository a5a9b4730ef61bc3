// SPDX-License-Identifier: Apache-2.0
#include "ir/warp_check/walk.h"

#include <utility>
#include <vector>

namespace tilec::ir::warp_check {

void Restart(WarpCheckStats* stats) {
  const int64_t walked = stats->walked;
  *stats = {};
  stats->walked = walked;
}

Walked WalkOn(Machine& machine, const WarpCheckOptions& options, WarpCheckStats* stats,
              WalkProgress* progress) {
  std::vector<State>& todo = progress->todo;
  if (!progress->begun) todo.push_back(machine.Begin());
  progress->begun = true;
  const int64_t all = stats->walked - machine.ops();
  stats->states += progress->states;
  while (!todo.empty()) {
    State state = std::move(todo.back());
    todo.pop_back();
    while (true) {
      const bool good = machine.Settle(state);
      stats->walked = all + machine.ops();
      if (!good) return Walked::kFound;
      stats->ops = machine.ops();
      if (stats->ops > machine.ops_limit || progress->states > options.max_states) {
        todo.push_back(std::move(state));
        return Walked::kTooLarge;
      }
      if (machine.AllEnded(state)) {
        if (!machine.CheckEnd(state)) return Walked::kFound;
        progress->spare.push_back(std::move(state));
        break;
      }
      const int role = machine.Asking(state);
      if (role < 0) {
        machine.ReportDeadlock(state);
        return Walked::kFound;
      }
      if (!progress->seen.Add(machine.Key(state))) {
        progress->spare.push_back(std::move(state));
        break;
      }
      ++stats->states;
      ++progress->states;
      // Where used slots stand for those that are not, what fills them is walked first.
      const bool last = machine.TellsApart();
      if (progress->spare.empty()) {
        todo.push_back(state);
      } else {
        todo.push_back(std::move(progress->spare.back()));
        progress->spare.pop_back();
        todo.back() = state;
      }
      machine.Answer(todo.back(), role, !last);
      machine.Answer(state, role, last);
    }
  }
  return Walked::kProved;
}

}  // namespace tilec::ir::warp_check
