// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/judge/lint.h"

#include <fmt/format.h>

namespace tilec::runtime::judge {
namespace {

double Ratio(const Cost& c) {
  return static_cast<double>(c.took) / static_cast<double>(c.needed == 0 ? 1 : c.needed);
}

}  // namespace

bool Wasteful(Rule rule, const Cost& c) {
  if (rule == Rule::kB4) return c.took >= kFewestWaits && c.took * 100 >= c.times * kMostlyPercent;
  return c.took > c.needed;
}

std::string CostMessage(Rule rule, const Cost& c) {
  const char* plural = c.times == 1 ? "" : "s";
  if (rule == Rule::kB1)
    return fmt::format("{} access{} took {} wavefronts where {} would do ({:.1f} times)", c.times,
                       c.times == 1 ? "" : "es", c.took, c.needed, Ratio(c));
  if (rule == Rule::kB2)
    return fmt::format("{} access{} took {} sectors of {} bytes where {} would do ({:.1f} times)",
                       c.times, c.times == 1 ? "" : "es", c.took, kSector, c.needed, Ratio(c));
  if (rule == Rule::kB3)
    return fmt::format(
        "{} box{} took {} sectors of {} bytes where {} would do ({:.1f} times): their "
        "rows begin or end within a sector",
        c.times, c.times == 1 ? "" : "es", c.took, kSector, c.needed, Ratio(c));
  return fmt::format(
      "{} of {} wait{} came right behind what they wait for, with nothing else in "
      "flight: nothing overlaps",
      c.took, c.times, plural);
}

std::string CostFix(Rule rule) {
  if (rule == Rule::kB1) return "swizzle or pad the layout so that lanes fall into different banks";
  if (rule == Rule::kB2)
    return "let neighbouring lanes touch neighbouring words, or go through shared memory";
  if (rule == Rule::kB3)
    return "let the tensor's base, its strides and the box's rows be multiples of 32 bytes";
  return "issue the next one before waiting for this one: two stages of buffers, and a wait that "
         "leaves the newest in flight";
}

}  // namespace tilec::runtime::judge
