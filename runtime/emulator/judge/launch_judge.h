// What the judge knows of a whole launch: findings, what CTAs published to each other, tensor maps
// that were released, and how much may be spent on all of it.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/emulator/judge/finding.h"
#include "runtime/emulator/judge/global.h"
#include "runtime/emulator/judge/lint.h"
#include "runtime/emulator/judge/registers.h"
#include "runtime/emulator/judge/shadow.h"
#include "runtime/emulator/judge/trace.h"

namespace tilec::runtime::judge {

enum class Order : uint8_t { kWeak, kRelaxed, kAcquire, kRelease, kAcqRel };

// What all clusters of a launch share.
struct LaunchJudge {
  LaunchJudge(Report* r, WrittenRanges* written) : report(r), global(written) {}
  ~LaunchJudge() { Flush(); }

  Report* report;
  std::string entry;
  uint64_t seed = 0;
  std::function<Site(uint32_t pc)> site;
  // What a warp of a CTA, and a range of shared memory, are called; may be empty.
  std::function<std::string(uint32_t warp)> role;
  std::function<std::string(uint64_t begin, uint64_t end)> object;
  // A global address in words that do not depend on where the host put things.
  std::function<std::string(uint64_t address)> place;
  const RegisterMap* registers = nullptr;
  const RegisterMap* loaded = nullptr;
  bool tensor_in_order = false;  // assumed: T6 is silent
  bool numbers = false, banks = false, lint = false;
  Trace* trace = nullptr;  // null: nobody wants it
  uint32_t trace_launch = 0;
  GlobalShadow global;
  uint64_t global_writes = 0;
  uint64_t turns = 0;  // entries of WarpState::turns, of all clusters

  // Release and acquire on a global address.
  struct Published {
    uint64_t cluster;
    Scope scope;
    std::shared_ptr<const View> view;
  };
  std::unordered_map<uint64_t, std::vector<Published>> sync;
  // What each cluster's `fence.sc` of gpu scope have ordered so far, by cluster number.
  std::map<uint64_t, std::shared_ptr<const View>> sc_fences;
  // Releases of tensor maps: who, and what was known there. Beyond so many none is missed.
  struct MapRelease {
    GlobalMark by;
    std::shared_ptr<const View> known;
  };
  static constexpr size_t kMostMapReleases = 4096;
  std::vector<MapRelease> map_releases;
  // (cluster, warp component, lane) → its component.
  std::map<std::tuple<uint64_t, Component, int>, Component> lanes;

  // Judged instructions are numbered as they come.
  size_t PlaceOf(uint32_t pc);

  // Checks take host memory: of pages of global memory, and of what was published where. Beyond the
  // budget nothing more is said, and the launch must end with a diagnostic (Cluster::LimitReached).
  static constexpr size_t kMostPublished = 1 << 18;  // addresses with a release
  bool full() const { return full_ || global.Full(); }
  void Overflow() { full_ = true; }

  // One execution of an instruction took so much, and so much would have done.
  struct Spender {
    uint64_t cluster = 0;
    uint32_t warp = 0, lanes = 0;
  };
  void Spend(Rule rule, uint32_t pc, const Spender& by, uint64_t took, uint64_t needed);
  // The first finding of this kind here? Others are counted.
  bool First(Rule rule, uint32_t a, uint32_t b);
  void Say(Finding f, uint32_t a, uint32_t b);
  // An instruction of which the rule says that it has no effect had one: where a loop before it
  // turned. What was said of it (of a CTA that had no turn) is not reported.
  void HadEffect(Rule rule, uint32_t pc) { effects_.insert({rule, pc}); }
  void Flush();

  // What happens now, if there is a trace; `name`: of the warp, asked for once.
  void Happens(TraceEvent e, const std::function<std::string()>& name);

 private:
  std::vector<uint32_t> place_of_;  // pc → number + 1
  uint32_t places_ = 0;
  std::map<std::tuple<Rule, uint32_t, uint32_t>, size_t> index_;
  std::vector<Finding> findings_;
  std::set<std::pair<Rule, uint32_t>> effects_;
  Costs costs_;
  std::vector<uint8_t> traced_;  // by pc: its site is in the trace
  uint64_t dropped_ = 0;         // findings beyond kMostFindings
  bool full_ = false;
  static constexpr size_t kMostFindings = 4096;  // different ones, of a launch
};

}  // namespace tilec::runtime::judge
