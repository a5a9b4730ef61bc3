// --timeline: a kernel compiled once more with stamps (ir/stamps.h), launched, and what its first
// CTA did turned into spans of SM cycles per role: a file that `tilec explain --measured` lays over
// the predicted timeline, and a few lines for people.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "ir/stamps.h"
#include "runtime/device.h"
#include "tools/session.h"

namespace tilec::tools {

struct TimelineSpan {
  int role = 0;
  int site = 0;
  int64_t begin = 0, end = 0;  // cycles since the first stamp of all
  int64_t occurrence = 0;      // how often the site came before
};

struct Timeline {
  ir::StampTable table;
  std::vector<TimelineSpan> spans;  // by role, in order
  bool full = false;                // some role had more stamps than room
};

// From the words of the buffer.
Timeline ReadTimeline(const ir::StampTable& table, const std::vector<uint32_t>& words);

// Compiles and launches; tensors of the call are in the device's memory. The last launch counts.
Result<Timeline> RecordTimeline(Session& session, runtime::Device& device,
                                const std::string& kernel, const api::Call& call);

// Per role and loop: cycles of an iteration, and what they went to.
std::string Summary(const Timeline& timeline, const SourceMap& sources);
// The file, docs/debugging.md.
std::string ToJson(const Timeline& timeline, const std::string& kernel, const std::string& device,
                   const SourceMap& sources);

// Prints the summary and writes the file that --timeline names.
Result<> WriteTimeline(Session& session, const Timeline& timeline, const std::string& kernel,
                       const std::string& device);

}  // namespace tilec::tools
