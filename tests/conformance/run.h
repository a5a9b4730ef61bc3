// Running cases on a device, and results as small text.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/conformance/case.h"

namespace tilec::conformance {

struct Output {
  bool ran = false;
  std::string error;           // why not
  std::vector<uint8_t> bytes;  // of the threads, then of the memory if it counts
};

// Runs cases in order, many to a module. `open` makes a device; a fault asks for a new one.
using Opener = std::function<std::unique_ptr<runtime::Device>()>;
void RunAll(const std::vector<Case>& cases, const Opener& open,
            const std::function<void(size_t, Output)>& done, size_t begin = 0,
            size_t per_module = 32);
// The same in processes of their own: one that crashes, faults or does nothing for `patience`
// seconds is replaced, and what it was at is called not run.
void RunApart(const std::vector<Case>& cases, const Opener& open,
              const std::function<void(size_t, Output)>& done, int patience);

// "9f3a…" (a hash), or "~3f800000 …" for approximate cases.
std::string Digest(const Case& c, const Output& o);
// How a device's digest agrees with the recorded one; "" if it does.
std::string Disagreement(const Case& c, const std::string& recorded, const Output& o);
// The first words that differ, with their inputs.
std::string Difference(const Case& c, const Output& silicon, const Output& emulator);

struct Golden {
  std::string device, date;
  std::map<std::string, std::string> results;  // by name
};
// False: `why` says what is wrong.
bool ReadGolden(const std::string& path, Golden* golden, std::string* why);

}  // namespace tilec::conformance
