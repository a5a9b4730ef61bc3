// What `tilec check -- ./app` and the library inside of the program tell each other: settings in
// one file beside the library, and back what was found, as files in the same folder, one set for
// each process. Both sides read with suspicion: a program may write there, too.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/device.h"
#include "runtime/emulator/judge/finding.h"

namespace tilec::shim {

struct Settings {
  runtime::EmulatorOptions emulator;  // policy, seeds, limits, machine; no report
  bool single = false;                // only this execution of every launch
  int seeds = 0;                      // else: dice for each kind of launch, besides the corners
  std::string words;                  // "--target=h200 -- ./app 12": how to repeat it
};
std::string Print(const Settings& settings);
// nullopt: this is no file of settings.
std::optional<Settings> ParseSettings(std::string_view text);

inline constexpr const char* kSettingsName = "settings.json";

// One execution of a launch: what the executions differ in.
struct Plan {
  runtime::Policy policy = runtime::Policy::kRunToBlock;
  runtime::Landing landing = runtime::Landing::kEarly;
  uint64_t seed = 0;
  bool spurious = false;
  std::string Words() const;  // "--policy=pct --async=late --policy-seed=3"
};
// The corners first, then the dice: `seeds` of each policy with dice.
std::vector<Plan> Plans(int seeds);

// In shared memory of a file, so that it is there however the process ends.
struct Counts {
  static constexpr uint64_t kMagic = 0x31746e756f43'6d73;
  uint64_t magic = kMagic;
  uint64_t launches = 0, executions = 0, warp_instructions = 0, kernels = 0;
  uint64_t modules = 0, copies = 0, refused = 0, faults = 0, different = 0;
};

struct ProcessReport {
  Counts counts;
  std::vector<runtime::judge::Finding> findings;
  std::vector<std::string> notes;  // what was told on the way, in order
};
// Of all processes of the session, those first that were first; what a program writes there beyond
// this many bytes is not read.
inline constexpr uint64_t kMostReportBytes = 256u << 20;
std::vector<ProcessReport> ReadReports(const std::string& folder);

std::optional<std::vector<runtime::judge::Finding>> ParseFindings(std::string_view text);

}  // namespace tilec::shim
