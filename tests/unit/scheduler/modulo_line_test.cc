// Where a line has room is what is found by looking at every cycle, whoever comes and goes.
//
// SPDX-License-Identifier: Apache-2.0
#include "scheduler/modulo_line.h"

#include <gtest/gtest.h>

#include <random>

namespace tilec::scheduler {
namespace {

// Cycle by cycle: which are taken.
std::vector<bool> Taken(const Line& line, int64_t ii) {
  std::vector<bool> taken(static_cast<size_t>(ii), false);
  for (const Line::Spot& spot : line.spots())
    for (int64_t c = 0; c < spot.cycles; ++c)
      taken[static_cast<size_t>((spot.begin + c) % ii)] = true;
  return taken;
}

bool Free(const std::vector<bool>& taken, int64_t at, int64_t cycles) {
  const auto ii = static_cast<int64_t>(taken.size());
  for (int64_t c = 0; c < cycles; ++c)
    if (taken[static_cast<size_t>(((at + c) % ii + ii) % ii)]) return false;
  return true;
}

int64_t StepBySight(const std::vector<bool>& taken, int64_t at, int64_t cycles, bool forward) {
  const auto ii = static_cast<int64_t>(taken.size());
  for (int64_t step = 0; step < ii; ++step)
    if (Free(taken, forward ? at + step : at - step, cycles)) return step;
  return ii;
}

void ExpectAsBySight(const Line& line, int64_t ii) {
  const std::vector<bool> taken = Taken(line, ii);
  for (int64_t at = 0; at < ii; ++at)
    for (int64_t cycles = 1; cycles <= ii; ++cycles)
      for (const bool forward : {true, false})
        ASSERT_EQ(std::min(ii, line.Step(at, cycles, forward, ii)),
                  StepBySight(taken, at, cycles, forward))
            << cycles << " cycles at " << at << (forward ? "" : ", backwards");
  for (size_t i = 0; i < line.spots().size(); ++i) {
    const Line::Spot& spot = line.spots()[i];
    for (int64_t cycles = 1; cycles <= ii; ++cycles) {
      EXPECT_EQ(line.After(i, ii) >= cycles, Free(taken, spot.begin + spot.cycles, cycles));
      EXPECT_EQ(line.Before(i, ii) >= cycles, Free(taken, spot.begin - cycles, cycles));
    }
  }
}

TEST(ModuloLine, HasRoomWhereNobodyIs) {
  std::mt19937 random(1);
  for (int round = 0; round < 60; ++round) {
    const auto ii = static_cast<int64_t>(1 + random() % 17);
    Line line;
    for (int op = 0; op < 12; ++op) {
      const auto begin = static_cast<int64_t>(random() % static_cast<uint64_t>(ii));
      const auto cycles = static_cast<int64_t>(1 + random() % 5);
      if (cycles <= ii && Free(Taken(line, ii), begin, cycles)) line.Put({begin, cycles, op});
      if (random() % 4 == 0) line.Take(static_cast<int>(random() % 12));
      ExpectAsBySight(line, ii);
    }
    line.Clear();
    ExpectAsBySight(line, ii);
  }
}

}  // namespace
}  // namespace tilec::scheduler
