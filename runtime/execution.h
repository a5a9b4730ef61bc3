// Execution schedules of the emulator as data: who ran for how long, and which copy landed when.
//
// A launch can record its decisions and a later launch can replay them; a list that ends early is
// continued with run-to-block, so any list is a legal schedule and a failing one can be shortened.
// The text form is what reports name and `--replay` reads.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tilec::runtime {

// Which warp goes on. Deterministic: the same seed, the same schedule.
enum class Policy : uint8_t {
  kRunToBlock,     // round robin, each until it blocks
  kRandom,         // a random warp, 1 to 64 instructions
  kPct,            // random priorities with a few random changes
  kProducerFirst,  // who issues more asynchronous copies goes first
  kConsumerFirst,  // … goes last
};
std::string_view Name(Policy policy);
std::optional<Policy> PolicyFromName(std::string_view name);
const std::vector<std::string>& PolicyNames();

// When the bytes of an asynchronous copy to shared memory arrive and its mbarrier is told.
enum class Landing : uint8_t {
  kEarly,   // when it is issued
  kLate,    // when nobody can run without it
  kRandom,  // at any time between
  kPoison,  // late, and the destination holds NaN until then
};
std::string_view Name(Landing landing);
std::optional<Landing> LandingFromName(std::string_view name);
const std::vector<std::string>& LandingNames();

// One decision: a warp of the cluster (counted over its CTAs) runs so many instructions; with
// kLands, the copy that was issued as `count`-th of those in flight arrives.
struct Decision {
  static constexpr uint32_t kLands = ~0u;
  uint32_t warp = 0;
  uint32_t count = 0;
  bool operator==(const Decision&) const = default;
};

struct Execution {
  Policy policy = Policy::kRunToBlock;
  Landing landing = Landing::kEarly;
  uint64_t seed = 0;
  bool spurious = false;
  std::map<uint64_t, std::vector<Decision>> clusters;  // others run to block
  bool operator==(const Execution&) const = default;
};

std::string Print(const Execution& execution);
// nullopt: `why` says what is wrong and in which line.
std::optional<Execution> ParseExecution(std::string_view text, std::string* why);

// The shortest list found that still fails, by removing ever smaller parts (ddmin). `fails` is
// asked at most `tests` times; it must hold for `all`.
std::vector<Decision> Minimise(std::vector<Decision> all,
                               const std::function<bool(const std::vector<Decision>&)>& fails,
                               int tests);

}  // namespace tilec::runtime
