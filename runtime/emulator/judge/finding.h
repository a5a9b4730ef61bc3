// What the judge says: the table of checks, findings, and the report they are collected in.
//
// A finding names both accesses, the edge that is missing between them, and what to write instead.
// Equal ones (same check, same two places) are folded with a count. Order and text depend on the
// program, its input and the seed only.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tilec::runtime::judge {

enum class Severity : uint8_t { kError, kPortability, kHint };
std::string_view SeverityName(Severity severity);  // "error", "portability", "hint"

enum class Rule : uint8_t {
#define RULE(id, severity, title, condition, source) k##id,
#include "runtime/emulator/judge/checks.def"
#undef RULE
};

struct RuleDef {
  const char* id;  // "M1"
  Severity severity;
  const char* title;
  const char* condition;
  const char* source;  // where the rule is written down
};
const RuleDef& Def(Rule rule);
std::optional<Rule> RuleFromId(std::string_view id);
const std::vector<Rule>& AllRules();

// Where something happened: a line of the PTX and, where the source map knows, of the kernel.
struct Site {
  std::string file;    // name of the PTX text
  int line = 0;        // of the PTX text; 0: none
  std::string text;    // "st.shared.v4.b32"
  std::string source;  // "gemm.tile:12:5 (dot)"; empty: unknown
};

// One side of a finding.
struct Access {
  std::string who;     // "CTA (0,0,0), warp 3, lanes 0x000000ff"
  std::string what;    // "writes (generic proxy)", "reads (async proxy, wgmma group 3)"
  std::string memory;  // "shared [1024, 1040)"; empty: none
  Site site;
  std::string role;    // of the warp, where the compiler told; empty: unknown
  std::string object;  // "slot 2 of 7 of A", likewise
  // The how many-th time the warp executes the instruction; of a copy that signals an mbarrier, the
  // how many-th fill of its slot. 0: unknown.
  uint64_t turn = 0;
  // For pages: the instruction, and whose it is; -1: not known, or no single warp's.
  int64_t pc = -1, warp = -1;
  uint64_t cluster = 0;
};

struct Finding {
  Rule rule = Rule::kX1;
  Severity severity = Severity::kError;
  std::string entry;             // name of the PTX entry
  std::string message;           // one line, with numbers
  std::vector<Access> accesses;  // the later one first
  std::string missing;           // the edge that is missing, in words
  std::vector<std::string> notes;
  std::string fix;
  uint64_t seed = 0;
  std::string replay;  // a command line, if the report was given one
  uint64_t count = 1;  // how often it was seen
  uint64_t at = 0;     // events of the trace before it; 0 without a trace

  int line() const { return accesses.empty() ? 0 : accesses[0].site.line; }
};

struct Trace;

// Collects findings of any number of launches. Thread-safe.
class Report {
 public:
  // Launches from now on write down what happens; null: they do not. One report, one trace.
  void SetTrace(std::shared_ptr<Trace> trace) { trace_ = std::move(trace); }
  Trace* trace() const { return trace_.get(); }
  // Launches from now on say what could be cheaper (B1 to B4).
  void SetLint(bool lint) { lint_ = lint; }
  bool lint() const { return lint_; }
  // `replay` is put into every finding added from now on.
  void SetReplay(std::string replay);
  void Add(Finding finding);
  // In order of first sight.
  std::vector<Finding> findings() const;
  // Different findings (not their counts) of a severity.
  size_t Count(Severity severity) const;
  bool Has(Rule rule) const;
  void Clear();

 private:
  mutable std::mutex mutex_;
  std::string replay_;
  std::vector<Finding> findings_;
  std::map<std::string, size_t> index_;
  std::shared_ptr<Trace> trace_;
  bool lint_ = false;
};

// For people; ends with a newline.
std::string ToText(const Finding& finding);
std::string ToText(const std::vector<Finding>& findings);
// One object per finding; the second is an array.
std::string ToJson(const Finding& finding);
std::string ToJson(const std::vector<Finding>& findings);

}  // namespace tilec::runtime::judge
